// elem_move.c -- index maps: where an element of a movement node's result comes from.
//
// What a map leaves out is guarded.  A guard is a new bound index: inside, the index along an axis is known to lie in the
// operand; outside nothing is read and the value is another's (padding, the next part of a concatenation).
#include "lower/elem.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "ir/internal.h"

// ---- reading attributes and small operands ----

static bool ints_of(Elem *e, const Node *n, uint32_t i, Ints *out) {
  const Node *s = src_or_null(e->lo->g, n, i);
  return s && node_ints(e->lo->g, s, out);
}

static int positive_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

// ---- the same elements under another shape ----

// Axes of two shapes that hold the same elements are taken together as far as their products agree, so that an axis that
// both have keeps its index.
bool elem_reshape(Elem *e, int from_rank, const Dim *from, int to_rank, const Dim *to,
                  const Dim *index, Dim *out) {
  IntPool *p = e->pool;
  int i = 0, j = 0;
  while (i < from_rank || j < to_rank) {
    int i0 = i, j0 = j;
    Dim a = p->one, b = p->one;
    bool first = true;
    while (first || ie_eq(p, a, b) != YES) {
      bool a_low = ie_lt(p, a, b) == YES || (first && i < from_rank);
      if (first && i == from_rank) a_low = false;
      first = false;
      if (a_low && i < from_rank)
        a = ie_mul(p, a, from[i++]);
      else if (j < to_rank)
        b = ie_mul(p, b, to[j++]);
      else if (i < from_rank)
        a = ie_mul(p, a, from[i++]);
      else
        return false;
    }
    // Trailing axes of size 1 belong to the last piece.
    Dim at = elem_linear(e, i - i0, from + i0, index + i0);
    elem_split(e, at, j - j0, to + j0, out + j0);
  }
  return true;
}

static const LoopExpr *move_view(Elem *e, const Node *n, const Dim *index) {
  const Type *t = type_of(n), *s = type_of(n->src[0]);
  Dim from[MAX_RANK], to[MAX_RANK], at[MAX_RANK];
  if (s->rank < 0) return NULL;
  elem_shape(e, t, from);
  elem_shape(e, s, to);
  if (!elem_reshape(e, t->rank, from, s->rank, to, index, at))
    elem_split(e, elem_linear(e, t->rank, from, index), s->rank, to, at);
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_transpose(Elem *e, const Node *n, const Dim *index) {
  const transpose_attrs *a = n->attrs;
  int rank = type_of(n)->rank;
  Dim at[MAX_RANK];
  for (int i = 0; i < rank; i++)
    at[a->perm.n ? positive_axis(a->perm.v[i], rank) : rank - 1 - i] = index[i];
  return elem_at(e, n->src[0], at);
}

// ---- repeated elements ----

static const LoopExpr *move_expand(Elem *e, const Node *n, const Dim *index) {
  const Type *t = type_of(n), *s = type_of(n->src[0]);
  Dim at[MAX_RANK];
  if (s->rank < 0 || s->rank > t->rank) return NULL;
  for (int i = 0; i < s->rank; i++) {
    int r = i + t->rank - s->rank;
    if (ie_is(s->dims[i], 1))
      at[i] = e->pool->zero;
    else if (ie_eq(&e->lo->g->dims, s->dims[i], t->dims[r]) == YES)
      at[i] = index[r];
    else
      return NULL;
  }
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_tile(Elem *e, const Node *n, const Dim *index) {
  const Type *s = type_of(n->src[0]);
  Dim at[MAX_RANK], shape[MAX_RANK];
  elem_shape(e, s, shape);
  for (int i = 0; i < s->rank; i++)
    at[i] = s->dims[i] == type_of(n)->dims[i] ? index[i] : ie_mod(e->pool, index[i], shape[i]);
  return elem_at(e, n->src[0], at);
}

// ---- parts ----

static const LoopExpr *move_slice(Elem *e, const Node *n, const Dim *index) {
  const Type *s = type_of(n->src[0]);
  Ints start, end, axes = {0}, step = {0};
  Dim at[MAX_RANK];
  if (!ints_of(e, n, 1, &start) || !ints_of(e, n, 2, &end)) return NULL;
  if (src_or_null(e->lo->g, n, 3) && !ints_of(e, n, 3, &axes)) return NULL;
  if (src_or_null(e->lo->g, n, 4) && !ints_of(e, n, 4, &step)) return NULL;
  memcpy(at, index, (size_t)s->rank * sizeof *at);
  for (int64_t i = 0; i < start.n; i++) {
    int axis = positive_axis(axes.n ? axes.v[i] : i, s->rank);
    int64_t by = step.n ? step.v[i] : 1, first = start.v[i], count;
    Dim dim = s->dims[axis];
    if (ie_is_const(dim)) {
      slice_bounds(dim->value, start.v[i], end.v[i], by, &first, &count);
      at[axis] = ie_addc(e->pool, ie_mulc(e->pool, index[axis], by), first);
    } else if (by > 0 && first >= 0 && first <= dim->lo) {
      at[axis] = ie_addc(e->pool, ie_mulc(e->pool, index[axis], by), first);
    } else if (by > 0 && first < 0 && -first <= dim->lo) {
      Dim base = ie_addc(e->pool, elem_dim(e, dim), first);
      at[axis] = ie_add(e->pool, ie_mulc(e->pool, index[axis], by), base);
    } else {
      return NULL;  // where it begins depends on the size
    }
  }
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_split(Elem *e, const Node *n, int result, const Dim *index) {
  const split_attrs *a = n->attrs;
  int rank = type_of(n->src[0])->rank, axis = positive_axis(a->axis, rank);
  Dim at[MAX_RANK], before = e->pool->zero;
  memcpy(at, index, (size_t)rank * sizeof *at);
  for (int i = 0; i < result; i++) {
    if (n->type[i]->rank != rank) return NULL;
    before = ie_add(e->pool, before, elem_dim(e, n->type[i]->dims[axis]));
  }
  at[axis] = ie_add(e->pool, index[axis], before);
  return elem_at(e, n->src[0], at);
}

// ---- guarded parts ----

Dim elem_guard(Elem *e, Dim value, Dim extent) {
  Dim sym = loop_sym(e->k, "g", extent);
  value = elem_unguarded(e, value);
  e->guard[e->nguards++] = (LoopBound){.sym = sym, .value = value, .extent = extent};
  return sym;
}

// The operand's element where the axis index lies in it.  *inside says when that is.
static const LoopExpr *guarded(Elem *e, const Node *o, Dim *at, int axis, Dim value,
                               const LoopExpr **inside) {
  Dim extent = elem_dim(e, type_of(o)->dims[axis]);
  if (e->nguards == LOOP_GUARDS) return NULL;
  *inside = elem_in_range(e, value, extent);
  at[axis] = elem_guard(e, value, extent);
  const LoopExpr *x = elem_at(e, o, at);
  e->nguards--;
  return x;
}

// Whether an index lies in [0, extent) whatever the loops around are at: 1; nowhere: -1; 0: not known.
static int lies_in(Elem *e, Dim value, Dim extent) {
  value = elem_unguarded(e, value);
  if (value->hi < 0 || (ie_is_const(extent) && value->lo >= extent->value)) return -1;
  return value->lo >= 0 && ie_is_const(extent) && value->hi < extent->value;
}

// Part i of a concatenation at `value` along the axis; *inside says when that is the one, *all that it always is.
static const LoopExpr *concat_part(Elem *e, const Node *part, const Dim *index, int axis, Dim value,
                                   const LoopExpr **inside, bool *all) {
  Dim at[MAX_RANK];
  memcpy(at, index, (size_t)type_of(part)->rank * sizeof *at);
  *all = lies_in(e, value, elem_dim(e, type_of(part)->dims[axis])) > 0;
  if (!*all) return guarded(e, part, at, axis, value, inside);
  at[axis] = value;
  return elem_at(e, part, at);
}

static const LoopExpr *move_concat(Elem *e, const Node *n, const Dim *index) {
  const concat_attrs *a = n->attrs;
  int rank = type_of(n)->rank, axis = positive_axis(a->axis, rank), nparts = 0;
  Dim before = e->pool->zero;
  const LoopExpr *all = NULL;
  const LoopExpr **part = arena_array(e->a, const LoopExpr *, n->nsrc);
  const LoopExpr **inside = arena_array(e->a, const LoopExpr *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) {
    bool whole;
    if (type_of(n->src[i])->rank != rank) return NULL;
    Dim value = ie_sub(e->pool, index[axis], before),
        size = elem_dim(e, type_of(n->src[i])->dims[axis]);
    before = ie_add(e->pool, before, size);
    if (lies_in(e, value, size) < 0) continue;
    const LoopExpr *x = concat_part(e, n->src[i], index, axis, value, &inside[nparts], &whole);
    if (!x || whole) return x;
    part[nparts++] = x;
  }
  for (int i = nparts; i-- > 0;)
    all = all ? loop_op(e->k, LOOP_select, inside[i], part[i], all) : part[i];
  return all;
}

static const LoopExpr *move_pad(Elem *e, const Node *n, const Dim *index) {
  const pad_attrs *a = n->attrs;
  const Node *x = n->src[0], *fill = src_or_null(e->lo->g, n, 2);
  const Type *s = type_of(x);
  Ints pads, axes = {0};
  Dim at[MAX_RANK];
  if (a->mode != PAD_CONSTANT || !ints_of(e, n, 1, &pads)) return NULL;
  if (src_or_null(e->lo->g, n, 3) && !ints_of(e, n, 3, &axes)) return NULL;
  int64_t count = pads.n / 2;
  int before = e->nguards;
  const LoopExpr *inside = loop_int(e->k, DT_BOOL, 1), *value = NULL, *other;
  memcpy(at, index, (size_t)s->rank * sizeof *at);
  for (int64_t i = 0; i < count; i++) {
    int axis = positive_axis(axes.n ? axes.v[i] : i, s->rank);
    if (!pads.v[i] && !pads.v[count + i]) continue;
    if (e->nguards == LOOP_GUARDS) return NULL;
    Dim extent = elem_dim(e, s->dims[axis]), v = ie_addc(e->pool, index[axis], -pads.v[i]);
    inside = loop_op(e->k, LOOP_and, inside, elem_in_range(e, v, extent), NULL);
    at[axis] = elem_guard(e, v, extent);
  }
  value = elem_at(e, x, at);
  e->nguards = before;
  other = fill ? elem_at(e, fill, (Dim[]){e->pool->zero}) : NULL;
  if (!fill)
    other = dtype_class(s->dtype) == DC_FLOAT ? loop_float(e->k, s->dtype, 0)
                                              : loop_int(e->k, s->dtype, 0);
  return value && other ? loop_op(e->k, LOOP_select, inside, value, other) : NULL;
}

// ---- indices from data ----

// An index that was read, made non-negative and checked.
static Dim bound_index(Elem *e, const LoopExpr *read, Dim extent) {
  LoopKernel *k = e->k;
  const LoopExpr *i = loop_let(&e->b, loop_cast(k, DT_I64, read)), *zero = loop_int(k, DT_I64, 0);
  const LoopExpr *low = loop_op(k, LOOP_lt, i, zero, NULL);
  i = loop_op(k, LOOP_select, low, loop_op(k, LOOP_add, i, loop_index(k, extent), NULL), i);
  return loop_bind(&e->b, "j", i, extent, "an index is out of range");
}

static const LoopExpr *move_gather(Elem *e, const Node *n, const Dim *index) {
  const gather_attrs *a = n->attrs;
  const Node *x = n->src[0], *which = n->src[1];
  int rank = type_of(x)->rank, axis = positive_axis(a->axis, rank), wide = type_of(which)->rank;
  Dim at[MAX_RANK];
  if (rank < 0 || wide < 0 || e->nguards) return NULL;
  const LoopExpr *i = elem_at(e, which, index + axis);
  if (!i) return NULL;
  memcpy(at, index, (size_t)axis * sizeof *at);
  at[axis] = bound_index(e, i, elem_dim(e, type_of(x)->dims[axis]));
  for (int k = axis + 1; k < rank; k++) at[k] = index[k - 1 + wide];
  return elem_at(e, x, at);
}

static const LoopExpr *move_gather_elements(Elem *e, const Node *n, const Dim *index) {
  const gather_elements_attrs *a = n->attrs;
  const Node *x = n->src[0];
  int rank = type_of(x)->rank, axis = positive_axis(a->axis, rank);
  Dim at[MAX_RANK];
  if (rank < 0 || e->nguards) return NULL;
  const LoopExpr *i = elem_at(e, n->src[1], index);
  if (!i) return NULL;
  memcpy(at, index, (size_t)rank * sizeof *at);
  at[axis] = bound_index(e, i, elem_dim(e, type_of(x)->dims[axis]));
  return elem_at(e, x, at);
}

// ---- blocks of channels and of pixels ----

static const LoopExpr *move_depth_to_space(Elem *e, const Node *n, const Dim *index) {
  const depth_to_space_attrs *a = n->attrs;
  IntPool *p = e->pool;
  Dim block = ie_const(p, a->blocksize), depth = elem_dim(e, type_of(n)->dims[1]);
  Dim at[MAX_RANK] = {index[0]}, h = ie_mod(p, index[2], block), w = ie_mod(p, index[3], block);
  Dim side = ie_add(p, ie_mul(p, h, block), w);  // place in the block
  at[1] = a->mode == 0 ? ie_add(p, ie_mul(p, side, depth), index[1])
                       : ie_add(p, ie_mulc(p, index[1], a->blocksize * a->blocksize), side);
  at[2] = ie_div(p, index[2], block);
  at[3] = ie_div(p, index[3], block);
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_trilu(Elem *e, const Node *n, const Dim *index) {
  const trilu_attrs *a = n->attrs;
  const Node *by = src_or_null(e->lo->g, n, 1);
  int rank = type_of(n)->rank;
  Ints k = {0};
  DType t = type_of(n)->dtype;
  if (by && !ints_of(e, n, 1, &k)) return NULL;
  const LoopExpr *x = elem_at(e, n->src[0], index), *i, *j;
  if (!x) return NULL;
  i = loop_index(e->k, elem_unguarded(e, ie_addc(e->pool, index[rank - 2], k.n ? k.v[0] : 0)));
  j = loop_index(e->k, elem_unguarded(e, index[rank - 1]));
  const LoopExpr *keep =
      a->upper ? loop_op(e->k, LOOP_le, i, j, NULL) : loop_op(e->k, LOOP_le, j, i, NULL);
  const LoopExpr *zero = dtype_class(t) == DC_FLOAT ? loop_float(e->k, t, 0) : loop_int(e->k, t, 0);
  return loop_op(e->k, LOOP_select, keep, x, zero);
}

// ---- the table ----

bool elem_moves(const Node *n) {
  switch (n->op) {
  case OP_reshape:
  case OP_flatten:
  case OP_squeeze:
  case OP_unsqueeze:
  case OP_transpose:
  case OP_expand:
  case OP_tile:
  case OP_slice:
  case OP_split:
  case OP_concat:
  case OP_pad:
  case OP_gather:
  case OP_gather_elements:
  case OP_depth_to_space:
  case OP_trilu: return true;
  default: return false;
  }
}

const LoopExpr *elem_move(Elem *e, const Node *n, int result, const Dim *index) {
  switch (n->op) {
  case OP_reshape:
  case OP_flatten:
  case OP_squeeze:
  case OP_unsqueeze: return move_view(e, n, index);
  case OP_transpose: return move_transpose(e, n, index);
  case OP_expand: return move_expand(e, n, index);
  case OP_tile: return move_tile(e, n, index);
  case OP_slice: return move_slice(e, n, index);
  case OP_split: return move_split(e, n, result, index);
  case OP_concat: return move_concat(e, n, index);
  case OP_pad: return move_pad(e, n, index);
  case OP_gather: return move_gather(e, n, index);
  case OP_gather_elements: return move_gather_elements(e, n, index);
  case OP_depth_to_space: return move_depth_to_space(e, n, index);
  case OP_trilu: return move_trilu(e, n, index);
  default: return NULL;
  }
}
