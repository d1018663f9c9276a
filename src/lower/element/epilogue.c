// epilogue.c -- follows an element of the anchor through the epilogue to the results.
//
// The epilogue consists of elementwise ops, transposes, views and block moves (depth_to_space,
// space_to_depth).  So an element of the anchor's value has one place in each result that depends
// on it; epilogue_index computes that place.
//
// Needs:      ElementBuilder.body is set; the template gives the anchor's value with elem_give.
// Guarantees: false where an element has no single place, for example after a broadcast.  Stores
//             are under the guards that hold at the call.
#include "lower/element/epilogue.h"

#include "eval/movement.h"
#include "ir/internal.h"

const Node *epilogue_value(const EpilogueWalk *f, int i) {
  if (f->anchor->nres == 1) return i ? NULL : f->anchor;
  for (int64_t k = 0; k < f->all.n; k++) {
    const Node *n = f->all.v[k];
    if (n->op == OP_proj && n->src[0] == f->anchor &&
        ((const proj_attrs *)n->attrs)->index == (int64_t)i)
      return n;
  }
  return NULL;
}

bool epilogue_moves_blocks(const Node *n) {
  return n->op == OP_depth_to_space || n->op == OP_space_to_depth;
}

bool epilogue_reads(const EpilogueWalk *f, const Node *n) {
  uint64_t by;
  return n == f->own || (intmap_get(&f->above, n->id, &by) && by == (uint64_t)(uintptr_t)f->own);
}

// The value of the anchor's that n is made from; false: none.  More than one is marked by 0: it has
// no place.
static bool source_of(EpilogueWalk *f, const Node *n, uint64_t *out) {
  bool any = false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Node *s = n->src[i];
    uint64_t by;
    bool own = f->anchor->nres == 1 ? s == f->anchor : s->op == OP_proj && s->src[0] == f->anchor;
    if (own)
      by = (uint64_t)(uintptr_t)s;
    else if (!intmap_get(&f->above, s->id, &by))
      continue;
    *out = any && *out != by ? 0 : by;
    any = true;
  }
  return any;
}

void epilogue_begin(EpilogueWalk *f, ElementBuilder *e, const Node *anchor) {
  *f = (EpilogueWalk){.e = e, .anchor = anchor};
  f->all = body_order(e->lo->g, e->body, e->a);
  intmap_init(&f->above, e->a);
  for (int64_t i = 0; i < f->all.n; i++) {
    uint64_t by;
    if (source_of(f, f->all.v[i], &by)) intmap_put(&f->above, f->all.v[i]->id, by);
  }
}

static bool to_transpose(EpilogueWalk *f, const Node *n, const Dim *index, Dim *out) {
  const transpose_attrs *at = n->attrs;
  Dim from[MAX_RANK];
  int rank = type_of(n)->rank;
  if (!epilogue_index(f, n->src[0], index, from)) return false;
  for (int i = 0; i < rank; i++) {
    int64_t axis = at->perm.n ? at->perm.v[i] : rank - 1 - i;
    out[i] = from[axis < 0 ? axis + rank : axis];
  }
  return true;
}

static bool to_view(EpilogueWalk *f, const Node *n, const Dim *index, Dim *out) {
  const Type *t = type_of(n), *s = type_of(n->src[0]);
  Dim from[MAX_RANK], a[MAX_RANK], b[MAX_RANK];
  if (s->rank < 0 || !epilogue_index(f, n->src[0], index, from)) return false;
  elem_shape(f->e, s, a);
  elem_shape(f->e, t, b);
  elem_reshape(f->e, s->rank, a, t->rank, b, from, out);
  return true;
}

// Blocks of channels become blocks of pixels, or the other way.
static bool to_blocks(EpilogueWalk *f, const Node *n, const Dim *index, Dim *out) {
  const depth_to_space_attrs *at = n->attrs;
  IntPool *p = f->e->pool;
  Dim from[MAX_RANK], block = ie_const(p, at->blocksize), square = ie_mul(p, block, block);
  int c = at->channels_last ? 3 : 1, y = at->channels_last ? 1 : 2;
  bool deep = n->op == OP_space_to_depth,
       outer = at->mode == 0;  // the place in a block comes first
  if (type_of(n)->rank != 4 || !epilogue_index(f, n->src[0], index, from)) return false;
  Dim depth = elem_dim(f->e, type_of(deep ? n->src[0] : n)->dims[c]);
  out[0] = from[0];
  if (deep) {
    Dim side =
        ie_add(p, ie_mul(p, ie_mod(p, from[y], block), block), ie_mod(p, from[y + 1], block));
    out[c] = outer ? ie_add(p, ie_mul(p, side, depth), from[c])
                   : ie_add(p, ie_mul(p, from[c], square), side);
    out[y] = ie_div(p, from[y], block);
    out[y + 1] = ie_div(p, from[y + 1], block);
    return true;
  }
  Dim part[2], at_side[2];
  elem_split(f->e, from[c], 2, (Dim[]){outer ? square : depth, outer ? depth : square}, part);
  out[c] = part[outer];
  elem_split(f->e, part[!outer], 2, (Dim[]){block, block}, at_side);
  out[y] = ie_add(p, ie_mul(p, from[y], block), at_side[0]);
  out[y + 1] = ie_add(p, ie_mul(p, from[y + 1], block), at_side[1]);
  return true;
}

// The result has the shape of the operand that the value comes by, or axes of size 1 before it.
static bool to_same(EpilogueWalk *f, const Node *n, const Dim *index, Dim *out) {
  const Type *t = type_of(n);
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const Type *s = type_of(n->src[i]);
    Dim from[MAX_RANK];
    if (!epilogue_reads(f, n->src[i])) continue;
    if (s->rank > t->rank || !epilogue_index(f, n->src[i], index, from)) return false;
    int more = t->rank - s->rank;
    for (int d = 0; d < t->rank; d++) {
      if (d < more ? !ie_is(t->dims[d], 1)
                   : ie_eq(&f->e->lo->g->dims, t->dims[d], s->dims[d - more]) != YES)
        return false;
      out[d] = d < more ? f->e->pool->zero : from[d - more];
    }
    return true;
  }
  return false;
}

// Each element of the result is made from the element at the same place, and from parameters.
static bool keeps_places(const Node *n) {
  if (n->op == OP_gather)  // a look-up in a table
    return type_of(n->src[0])->rank == 1 &&
           (n->src[0]->op == OP_const || n->src[0]->op == OP_param);
  return op_info(n->op)->flags & OPF_ELEMENTWISE || n->op == OP_batch_normalization ||
         n->op == OP_quantize_linear || n->op == OP_dequantize_linear;
}

bool epilogue_index(EpilogueWalk *f, const Node *n, const Dim *index, Dim *out) {
  if (n == f->own) {
    memcpy(out, index, (size_t)type_of(n)->rank * sizeof *out);
    return true;
  }
  if (type_of(n)->kind != TK_TENSOR || type_of(n)->rank < 0) return false;
  if (n->op == OP_transpose) return to_transpose(f, n, index, out);
  if (elem_is_view(n)) return to_view(f, n, index, out);
  if (epilogue_moves_blocks(n)) return to_blocks(f, n, index, out);
  return keeps_places(n) && to_same(f, n, index, out);
}

bool epilogue_store(EpilogueWalk *f, const Dim *index) {
  ElementBuilder *e = f->e;
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *n = e->body->result[i];
    const Type *y = type_of(n);
    Dim at[MAX_RANK], shape[MAX_RANK];
    if (!epilogue_reads(f, n)) continue;
    if (!epilogue_index(f, n, index, at)) return false;
    const LoopExpr *x = elem_at(e, n, at);
    if (!x) return false;
    elem_shape(e, y, shape);
    Dim linear = elem_linear(e, y->rank, shape, at);
    loop_store_guarded(&e->b, elem_result(e, i), linear, e->nguards, e->guard, x);
  }
  return true;
}
