// rows.c -- the template of reductions, norms and softmax: every row by itself.
//
// All sums of the kernel, once its composites are taken apart, go over the same axes of values of one shape: the rows.  For each
// row the sums are formed one after the other, then the results are stored.
//
// Along: where the axes are the last ones, a row lies together and is the vector; a sum has a fixed number of partial
// sums.  Across: else the last axis, which stays, is the vector, and each lane forms its own sum in order.
//
// A value that a sum reads and something after it reads again, and that costs more than a load, is kept in scratch.
#include "lower/templates.h"

#include "eval/movement.h"
#include "eval/reduce.h"
#include "ir/internal.h"

enum { SUMS = 16, KEEP = 8, KEEP_ELEMS = 1 << 14, WIDE = 64 };

typedef struct Rows {
  Elem e;
  const Node *sum[SUMS];
  const LoopExpr *total[SUMS];
  int nsums, done;
  const Node *kept[KEEP];  // values in scratch
  int32_t scratch[KEEP];
  int nkept;
  const Type *type;     // of the rows
  bool over[MAX_RANK];  // axes that sums go over
  bool along;
  Dim shape[MAX_RANK], index[MAX_RANK];
  Dim place;  // along: of the element in its row
  Dim length;
} Rows;

// ---- what the kernel sums ----

static bool is_sum(const Node *n) {
  switch (n->op) {
  case OP_reduce_sum:
  case OP_reduce_prod:
  case OP_reduce_max:
  case OP_reduce_min:
  case OP_reduce_mean: return true;
  default: return false;
  }
}

static bool sum_axes(Graph *g, const Node *n, bool *over) {
  const Type *t = type_of(n->src[0]);
  const reduce_attrs *at = n->attrs;
  Ints axes = {0};
  const Node *given = src_or_null(g, n, 1);
  if (t->rank < 0 || (given && !node_ints(g, given, &axes))) return false;
  memset(over, 0, MAX_RANK * sizeof *over);
  for (int i = 0; !axes.n && !at->noop_with_empty_axes && i < t->rank; i++) over[i] = true;
  for (int64_t i = 0; i < axes.n; i++) over[axes.v[i] < 0 ? axes.v[i] + t->rank : axes.v[i]] = true;
  return true;
}

typedef struct Finder {
  Rows *r;
  IntMap seen;
  bool bad;
} Finder;

static void find_sums(Finder *f, const Node *n);

static void find_in_expansion(Finder *f, const Node *n) {
  Graph *g = f->r->e.lo->g;
  const OpInfo *op = op_info(n->op);
  Node **out = arena_array(f->r->e.a, Node *, MAX(n->nres, 1));
  if (op->expand) op->expand(g, n, out);
  f->bad |= !op->expand || graph_status(g) || !out[0];
  for (int i = 0; !f->bad && i < n->nres; i++) find_sums(f, out[i]);
}

static bool is_plain(const Node *n) {
  return n->op == OP_proj || n->op == OP_clip || n->op == OP_where || n->op == OP_cast ||
         elem_moves(n) || is_sum(n);
}

// Every sum below `n`, operands first.
static void find_sums(Finder *f, const Node *n) {
  uint64_t have;
  if (f->bad || n->op == OP_param || n->op == OP_const || n == f->r->e.lo->g->none) return;
  if (intmap_get(&f->seen, n->id, &have)) return;
  intmap_put(&f->seen, n->id, 1);
  if (!is_plain(n) && op_info(n->op)->expand) {
    find_in_expansion(f, n);
    return;
  }
  for (uint32_t i = 0; i < n->nsrc; i++) find_sums(f, n->src[i]);
  if (!is_sum(n)) return;
  if (f->r->nsums == SUMS)
    f->bad = true;
  else
    f->r->sum[f->r->nsums++] = n;
}

static bool same_dims(const Type *a, const Type *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

// All sums over the same axes of one shape, none of them empty.
static bool agree(Rows *r) {
  bool over[MAX_RANK];
  Graph *g = r->e.lo->g;
  if (!r->nsums) return false;
  r->type = type_of(r->sum[0]->src[0]);
  for (int i = 0; i < r->nsums; i++) {
    if (!sum_axes(g, r->sum[i], over)) return false;
    if (!i) memcpy(r->over, over, sizeof over);
    if (memcmp(r->over, over, sizeof over) || !same_dims(r->type, type_of(r->sum[i]->src[0])))
      return false;
  }
  r->along = true;
  bool any = false;
  for (int i = 0; i < r->type->rank; i++) {
    if (ie_is(r->type->dims[i], 0)) return false;
    if (any && !r->over[i] && !ie_is(r->type->dims[i], 1)) r->along = false;
    any |= r->over[i] && !ie_is(r->type->dims[i], 1);
  }
  return true;
}

// ---- results ----

// The shape that a sum has, with or without its axes.
static bool is_reduced(const Rows *r, const Type *t) {
  int k = 0;
  bool kept = t->rank == r->type->rank;
  for (int i = 0; i < r->type->rank; i++) {
    if (kept && r->over[i] && !ie_is(t->dims[i], 1)) return false;
    if (kept && !r->over[i] && t->dims[i] != r->type->dims[i]) return false;
    if (!kept && !r->over[i] && (k >= t->rank || t->dims[k++] != r->type->dims[i])) return false;
  }
  return kept || k == t->rank;
}

static bool is_view(const Node *n) {
  return n->op == OP_reshape || n->op == OP_flatten || n->op == OP_squeeze || n->op == OP_unsqueeze;
}

// Below views and transpositions: the value that a row computes an element of.
static const Node *core(const Node *n) {
  while (is_view(n) || n->op == OP_transpose) n = n->src[0];
  return n;
}

// Where an element of `core(n)` lies in n.
static Dim place_in(Rows *r, const Node *n, const Dim *index, Dim *out) {
  Elem *e = &r->e;
  Dim shape[MAX_RANK];
  const Type *t = type_of(n);
  elem_shape(e, t, shape);
  if (!is_view(n) && n->op != OP_transpose) {
    memcpy(out, index, (size_t)t->rank * sizeof *out);
    return elem_linear(e, t->rank, shape, out);
  }
  Dim below[MAX_RANK], at = place_in(r, n->src[0], index, below);
  const transpose_attrs *p = n->attrs;
  if (is_view(n)) {
    elem_split(e, at, t->rank, shape, out);
    return at;
  }
  for (int i = 0; i < t->rank; i++) out[i] = below[p->perm.n ? p->perm.v[i] : t->rank - 1 - i];
  return elem_linear(e, t->rank, shape, out);
}

// ---- sums ----

static const LoopExpr *give_total(void *ctx, const Dim *index) {
  (void)index;
  return *(const LoopExpr **)ctx;
}

typedef struct Kept {
  Rows *r;
  int i;
} Kept;
static const LoopExpr *give_kept(void *ctx, const Dim *index) {
  const Kept *k = ctx;
  (void)index;
  return loop_load(k->r->e.k, k->r->scratch[k->i], k->r->place);
}

static LoopOp sum_op(const Node *n) {
  switch (n->op) {
  case OP_reduce_prod: return LOOP_mul;
  case OP_reduce_max: return LOOP_max;
  case OP_reduce_min: return LOOP_min;
  default: return LOOP_add;
  }
}

// Sums of 16-bit floats are formed in f32 and rounded once.
static DType sum_dtype(DType t) { return t == DT_F16 || t == DT_BF16 ? DT_F32 : t; }

static int lanes_for(Dim length) {
  if (!ie_is_const(length)) return 32;
  int lanes = 1;
  while (lanes < LOOP_LANES && lanes * 4 <= length->value) lanes *= 2;
  return lanes;
}

// The element's index: the row's own axes are set already; the others come from its place in the row.
static void set_place(Rows *r, Dim place) {
  Elem *e = &r->e;
  Dim shape[MAX_RANK], at[MAX_RANK];
  int n = 0;
  for (int i = 0; i < r->type->rank; i++)
    if (r->over[i]) shape[n++] = r->shape[i];
  elem_split(e, place, n, shape, at);
  n = 0;
  for (int i = 0; i < r->type->rank; i++)
    if (r->over[i]) r->index[i] = at[n++];
  r->place = place;
  elem_forget(e);
}

static const LoopExpr *finish_sum(Rows *r, const Node *n, const LoopExpr *x) {
  LoopKernel *k = r->e.k;
  if (n->op == OP_reduce_mean) {
    const LoopExpr *count = loop_cast(k, x->dtype, loop_index(k, r->length));
    x = loop_op(k, LOOP_div, x, count, NULL);
  }
  return loop_let(&r->e.b, loop_cast(k, type_of(n)->dtype, x));
}

static bool form_sum(Rows *r, int i) {
  Elem *e = &r->e;
  const Node *n = r->sum[i];
  DType t = type_of(n)->dtype;
  if (t == DT_BOOL || (n->op == OP_reduce_mean && dtype_class(t) != DC_FLOAT)) return false;
  Dim s = loop_reduce(&e->b, sum_op(n), "k", r->length, r->along ? lanes_for(r->length) : 1);
  set_place(r, s);
  const LoopExpr *x = elem_at(e, n->src[0], r->index);
  if (!x) return false;
  x = loop_yield(&e->b, loop_cast(e->k, sum_dtype(t), x));
  r->total[i] = finish_sum(r, n, x);
  elem_give(e, n, give_total, &r->total[i]);
  return true;
}

// ---- values kept ----

static bool is_costly(const Node *n) {
  return n->op != OP_param && n->op != OP_const && !elem_moves(n) && n->op != OP_cast;
}

static int64_t count_uses(const Node *n, const Node *of, IntMap *seen) {
  uint64_t have;
  if (n->op == OP_param || n->op == OP_const || intmap_get(seen, n->id, &have)) return 0;
  intmap_put(seen, n->id, 1);
  int64_t uses = 0;
  for (uint32_t i = 0; i < n->nsrc; i++)
    uses += (n->src[i] == of) + count_uses(n->src[i], of, seen);
  return uses;
}

// Whether something besides sum i reads its operand: a later sum, or a result.
static bool read_again(Rows *r, int i) {
  const Node *of = r->sum[i]->src[0];
  IntMap seen;
  intmap_init(&seen, r->e.a);
  intmap_put(&seen, r->sum[i]->id, 1);
  int64_t uses = 0;
  for (int k = i + 1; k < r->nsums; k++) uses += count_uses(r->sum[k], of, &seen);
  for (int64_t k = 0; k < r->e.body->nresults; k++) {
    const Node *n = r->e.body->result[k];
    uses += (n == of) + count_uses(n, of, &seen);
  }
  return uses > 0;
}

static bool already_kept(const Rows *r, const Node *n) {
  for (int i = 0; i < r->nkept; i++)
    if (r->kept[i] == n) return true;
  return false;
}

// Stores the operand of sum i for the row, if that is worth it.
static bool keep_operand(Rows *r, int i) {
  Elem *e = &r->e;
  const Node *n = r->sum[i]->src[0];
  if (!r->along || r->nkept == KEEP || !ie_is_const(r->length) || r->length->value > KEEP_ELEMS)
    return true;
  if (!is_costly(n) || already_kept(r, n) || !read_again(r, i)) return true;
  int32_t b = loop_buffer(e->k, LOOP_SCRATCH, "row", type_of(n)->dtype, r->length, false);
  set_place(r, loop_for(&e->b, LOOP_VECTOR, "v", r->length));
  const LoopExpr *x = elem_at(e, n, r->index);
  if (!x) return false;
  loop_store(&e->b, b, r->place, x);
  loop_end(&e->b);
  Kept *k = arena_new(e->a, Kept);
  *k = (Kept){r, r->nkept};
  r->scratch[r->nkept] = b;
  r->kept[r->nkept++] = n;
  elem_give(e, n, give_kept, k);
  return true;
}

// ---- the kernel ----

static bool store_one(Rows *r, int i) {
  Elem *e = &r->e;
  const Node *n = e->body->result[i], *c = core(n);
  const Type *t = type_of(c);
  Dim at[MAX_RANK], index[MAX_RANK];
  int k = 0;
  for (int d = 0; d < r->type->rank; d++) {
    if (same_dims(t, r->type))
      at[k++] = r->index[d];
    else if (!r->over[d])
      at[k++] = r->index[d];
    else if (t->rank == r->type->rank)
      at[k++] = e->pool->zero;
  }
  const LoopExpr *x = elem_at(e, c, at);
  if (!x) return false;
  loop_store(&e->b, elem_result(e, i), place_in(r, n, at, index), x);
  return true;
}

// Results with an element for each of the rows', then those with one for each row.
static bool store_results(Rows *r) {
  Elem *e = &r->e;
  bool whole = false, ok = true;
  for (int i = 0; i < e->fused->nres; i++)
    whole |= same_dims(type_of(core(e->body->result[i])), r->type);
  if (whole) {
    LoopKind kind = r->along ? LOOP_VECTOR : LOOP_SERIAL;
    set_place(r, loop_for(&e->b, kind, "v", r->length));
    for (int i = 0; i < e->fused->nres && ok; i++)
      if (same_dims(type_of(core(e->body->result[i])), r->type)) ok = store_one(r, i);
    loop_end(&e->b);
  }
  elem_forget(e);
  for (int i = 0; i < e->fused->nres && ok; i++)
    if (!same_dims(type_of(core(e->body->result[i])), r->type)) ok = store_one(r, i);
  return ok;
}

static bool good_results(Rows *r) {
  for (int i = 0; i < r->e.fused->nres; i++) {
    const Type *t = type_of(core(r->e.body->result[i]));
    if (!same_dims(t, r->type) && !is_reduced(r, t)) return false;
    // Across, a vector loop may hold no other loop: results of every element are left to the host.
    if (!r->along && same_dims(t, r->type)) return false;
  }
  return true;
}

// Opens the loops over rows; across, the vector over pieces of the last axis too.
static void open_rows(Rows *r) {
  Elem *e = &r->e;
  IntPool *p = e->pool;
  Dim items = p->one, outer[MAX_RANK], at[MAX_RANK], last = r->shape[r->type->rank - 1];
  int n = 0, kept = r->type->rank - !r->along;
  for (int i = 0; i < kept; i++)
    if (!r->over[i]) items = ie_mul(p, items, outer[n++] = r->shape[i]);
  Dim chunks = r->along ? p->one : ie_ceildiv(p, last, ie_const(p, WIDE));
  Dim all = ie_mul(p, items, chunks), item = loop_for(&e->b, LOOP_PARALLEL, "item", all);
  if (ie_is(all, 1)) item = p->zero;
  Dim chunk = ie_is(chunks, 1) ? p->zero : n ? ie_mod(p, item, chunks) : item;
  if (!ie_is(chunks, 1)) item = n ? ie_div(p, item, chunks) : p->zero;
  elem_split(e, item, n, outer, at);
  n = 0;
  for (int i = 0; i < kept; i++)
    if (!r->over[i]) r->index[i] = at[n++];
  if (r->along) return;
  Dim first = ie_mulc(p, chunk, WIDE);
  Dim width = ie_is(chunks, 1) ? last : ie_min(p, ie_const(p, WIDE), ie_sub(p, last, first));
  r->index[kept] = ie_add(p, first, loop_for(&e->b, LOOP_VECTOR, "v", width));
}

static tenon_status build_rows(Rows *r, Lowered *out) {
  Elem *e = &r->e;
  elem_shape(e, r->type, r->shape);
  r->length = e->pool->one;
  for (int i = 0; i < r->type->rank; i++)
    if (r->over[i]) r->length = ie_mul(e->pool, r->length, r->shape[i]);
  loop_begin(&e->b, e->k);
  open_rows(r);
  for (int i = 0; i < r->nsums; i++)
    if (!keep_operand(r, i) || !form_sum(r, i)) return TENON_EUNSUPPORTED;
  if (!store_results(r)) return TENON_EUNSUPPORTED;
  if (!r->along) loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, r->along ? "rows along" : "rows across", out);
  return TENON_OK;
}

tenon_status lower_rows(Lowering *lo, const Node *fused, Lowered *out) {
  Rows *r = arena_new(lo->arena, Rows);
  if (!elem_begin(&r->e, lo, fused, NULL, 0)) return TENON_EUNSUPPORTED;
  Finder f = {.r = r};
  intmap_init(&f.seen, lo->arena);
  for (int i = 0; i < fused->nres; i++) find_sums(&f, r->e.body->result[i]);
  if (f.bad || !agree(r) || !good_results(r)) return TENON_EUNSUPPORTED;
  return build_rows(r, out);
}
