// move.c -- index maps: where an element of a data-movement op comes from.
//
// Views, transposes, slices and gathers map the result's index to an operand's.  Concatenation, pad
// and crop are guarded (guard.c).  An index that is read from data, or a slice whose start is not
// known, is checked when the kernel runs.
//
// Needs:      axes, steps, pads and lengths of index vectors are known while lowering; a slice's
//             start is an expression over sizes with a known sign.
// Guarantees: every load is inside its operand, guarded, or behind a check that fails the run.
//             Elements are moved, never computed.  NULL where the map has no expression.
#include "lower/element/element.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "ir/internal.h"

// ---- reading attributes and small operands ----

static bool ints_of(ElementBuilder *e, const Node *n, uint32_t i, Ints *out) {
  const Node *s = src_or_null(e->lo->g, n, i);
  return s && node_ints(e->lo->g, s, out);
}

int elem_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

// ---- the same elements under another shape ----

// Axes are taken together as far as their products agree, so that an axis that both shapes have
// keeps its index.
static bool reshape_index(ElementBuilder *e, int from_rank, const Dim *from, int to_rank,
                          const Dim *to, const Dim *index, Dim *out) {
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
    Dim at = elem_linear(e, i - i0, from + i0, index + i0);
    elem_split(e, at, j - j0, to + j0, out + j0);
  }
  return true;
}

void elem_reshape(ElementBuilder *e, int from_rank, const Dim *from, int to_rank, const Dim *to,
                  const Dim *index, Dim *out) {
  // Axes of one element say nothing.
  Dim f[MAX_RANK], at[MAX_RANK], t[MAX_RANK], got[MAX_RANK];
  int nf = 0, nt = 0;
  for (int i = 0; i < from_rank; i++)
    if (!ie_is(from[i], 1)) f[nf] = from[i], at[nf++] = index[i];
  for (int i = 0; i < to_rank; i++)
    if (!ie_is(to[i], 1)) t[nt++] = to[i];
  if (!reshape_index(e, nf, f, nt, t, at, got))
    elem_split(e, elem_linear(e, nf, f, at), nt, t, got);
  nt = 0;
  for (int i = 0; i < to_rank; i++) out[i] = ie_is(to[i], 1) ? e->pool->zero : got[nt++];
}

bool elem_is_view(const Node *n) { return (op_info(n->op)->flags & OPF_VIEW) != 0; }

const Node *elem_core(const Node *n) {
  while (elem_is_view(n) || n->op == OP_transpose) n = n->src[0];
  return n;
}

Dim elem_place(ElementBuilder *e, const Node *n, const Dim *index, Dim *out) {
  Dim shape[MAX_RANK];
  const Type *t = type_of(n);
  elem_shape(e, t, shape);
  if (!elem_is_view(n) && n->op != OP_transpose) {
    memcpy(out, index, (size_t)t->rank * sizeof *out);
    return elem_linear(e, t->rank, shape, out);
  }
  Dim below[MAX_RANK], from[MAX_RANK], at = elem_place(e, n->src[0], index, below);
  const transpose_attrs *p = n->attrs;
  if (elem_is_view(n)) {
    elem_shape(e, type_of(n->src[0]), from);
    elem_reshape(e, type_of(n->src[0])->rank, from, t->rank, shape, below, out);
    return at;
  }
  for (int i = 0; i < t->rank; i++)
    out[i] = below[p->perm.n ? elem_axis(p->perm.v[i], t->rank) : t->rank - 1 - i];
  return elem_linear(e, t->rank, shape, out);
}

static const LoopExpr *move_view(ElementBuilder *e, const Node *n, const Dim *index) {
  const Type *t = type_of(n), *s = type_of(n->src[0]);
  Dim from[MAX_RANK], to[MAX_RANK], at[MAX_RANK];
  if (s->rank < 0) return NULL;
  elem_shape(e, t, from);
  elem_shape(e, s, to);
  elem_reshape(e, t->rank, from, s->rank, to, index, at);
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_transpose(ElementBuilder *e, const Node *n, const Dim *index) {
  const transpose_attrs *a = n->attrs;
  int rank = type_of(n)->rank;
  Dim at[MAX_RANK];
  for (int i = 0; i < rank; i++)
    at[a->perm.n ? elem_axis(a->perm.v[i], rank) : rank - 1 - i] = index[i];
  return elem_at(e, n->src[0], at);
}

// ---- repeated elements ----

static const LoopExpr *move_expand(ElementBuilder *e, const Node *n, const Dim *index) {
  return elem_operand(e, n->src[0], type_of(n), index);
}

static const LoopExpr *move_tile(ElementBuilder *e, const Node *n, const Dim *index) {
  const Type *s = type_of(n->src[0]);
  Dim at[MAX_RANK], shape[MAX_RANK];
  elem_shape(e, s, shape);
  for (int i = 0; i < s->rank; i++)
    at[i] = s->dims[i] == type_of(n)->dims[i] ? index[i] : ie_mod(e->pool, index[i], shape[i]);
  return elem_at(e, n->src[0], at);
}

// ---- parts ----

static Dim checked(ElementBuilder *e, Dim index, Dim extent) {
  return elem_checked(e, loop_index(e->k, elem_unguarded(e, index)), extent,
                      "a part lies outside its operand");
}

// Where a slice of an axis begins.  False: only the run can tell whether it lies inside.
static bool slice_start(ElementBuilder *e, Dim dim, Dim start, int64_t step, Dim *out) {
  IntPool *p = e->pool;
  Dim size = elem_dim(e, dim), first = elem_dim(e, start);
  if (step < 0) {
    first = start->lo >= 0 ? first : ie_max(p, p->zero, ie_add(p, first, size));
    *out = ie_min(p, first, ie_addc(p, size, -1));
    return false;
  }
  if (start->hi < 0) {
    *out = ie_max(p, p->zero, ie_add(p, size, first));
    return ie_is_const(start) && start->value >= -dim->lo;
  }
  *out = ie_min(p, first, size);
  return ie_is_const(start) && start->value <= dim->lo;
}

static const LoopExpr *move_slice(ElementBuilder *e, const Node *n, const Dim *index) {
  const Type *s = type_of(n->src[0]);
  Graph *g = e->lo->g;
  Ints end = {0}, axes = {0}, step = {0};
  const Dim *start;
  int64_t count;
  Dim at[MAX_RANK];
  bool known_end = ints_of(e, n, 2, &end);
  if (!node_sym(g, n->src[1], &count, &start)) return NULL;
  if (src_or_null(g, n, 3) && !ints_of(e, n, 3, &axes)) return NULL;
  if (src_or_null(g, n, 4) && !ints_of(e, n, 4, &step)) return NULL;
  memcpy(at, index, (size_t)s->rank * sizeof *at);
  for (int64_t i = 0; i < count; i++) {
    int axis = elem_axis(axes.n ? axes.v[i] : i, s->rank);
    int64_t by = step.n ? step.v[i] : 1, first, length;
    Dim dim = s->dims[axis], begin;
    if (start[i]->lo < 0 && start[i]->hi >= 0) return NULL;  // it counts from which end?
    bool inside = true;
    if (ie_is_const(dim) && ie_is_const(start[i]) && known_end) {
      slice_bounds(dim->value, start[i]->value, end.v[i], by, &first, &length);
      begin = ie_const(e->pool, first);
    } else {
      inside = slice_start(e, dim, start[i], by, &begin);
    }
    // A step over the whole axis takes one element at most; another large one might leave int64.
    uint64_t stride = by > 0 ? (uint64_t)by : 0 - (uint64_t)by;
    bool far = stride > INT32_MAX;
    if (far && !ie_is(type_of(n)->dims[axis], 1) && stride < (uint64_t)dim->hi) return NULL;
    at[axis] = far ? begin : ie_add(e->pool, ie_mulc(e->pool, index[axis], by), begin);
    if (!inside && !(at[axis] = checked(e, at[axis], elem_dim(e, dim)))) return NULL;
  }
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_split(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const split_attrs *a = n->attrs;
  int rank = type_of(n->src[0])->rank, axis = elem_axis(a->axis, rank);
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

// From the last part to the first: each stands where its own guard holds, else what comes after
// it.  Parts in which the index never lies are left out.
static const LoopExpr *move_concat(ElementBuilder *e, const Node *n, const Dim *index) {
  const concat_attrs *a = n->attrs;
  int rank = type_of(n)->rank, axis = elem_axis(a->axis, rank), before = e->nguards;
  Dim start = e->pool->zero;
  const LoopExpr *all = NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (type_of(n->src[i])->rank != rank) return NULL;
    start = ie_add(e->pool, start, elem_dim(e, type_of(n->src[i])->dims[axis]));
  }
  for (uint32_t i = n->nsrc; i-- > 0;) {
    Dim at[MAX_RANK], extent = elem_dim(e, type_of(n->src[i])->dims[axis]);
    if (ie_is(extent, 0)) continue;
    start = ie_sub(e->pool, start, extent);
    Dim value = ie_sub(e->pool, index[axis], start), plain = elem_unguarded(e, value);
    if (plain->hi < 0 || ie_lt(e->pool, plain, extent) == NO) continue;
    memcpy(at, index, (size_t)rank * sizeof *at);
    at[axis] = elem_guard(e, value, extent);
    const LoopExpr *part = at[axis] ? elem_at(e, n->src[i], at) : NULL;
    if (part && all) part = elem_guarded(e, before, part, all);
    elem_unguard(e, before);
    if (!part) return NULL;
    all = part;
  }
  return all;
}

typedef struct Padding {
  Ints pads, axes;
  int64_t count;
} Padding;

static bool padding_of(ElementBuilder *e, const Node *n, Padding *p) {
  *p = (Padding){0};
  if (!ints_of(e, n, 1, &p->pads)) return false;
  if (src_or_null(e->lo->g, n, 3) && !ints_of(e, n, 3, &p->axes)) return false;
  p->count = p->pads.n / 2;
  return true;
}

// The element that stands for one outside, by its place.
static Dim folded(ElementBuilder *e, int mode, Dim v, Dim size) {
  IntPool *p = e->pool;
  Dim last = ie_addc(p, size, -1);
  bool known = size->lo >= 1;  // else an axis without elements fails its check
  v = known ? v : elem_unguarded(e, v);
  if (mode == PAD_EDGE) {
    v = ie_max(p, p->zero, ie_min(p, v, last));
  } else if (mode == PAD_WRAP) {
    v = ie_mod(p, v, ie_max(p, size, p->one));
  } else {
    Dim period = ie_mulc(p, last, 2);
    Dim m = ie_mod(p, elem_unguarded(e, v), ie_max(p, period, p->one));
    v = ie_min(p, m, ie_sub(p, period, m));
    known = ie_is(size, 1);
  }
  return known ? v : checked(e, v, size);
}

static const LoopExpr *move_pad(ElementBuilder *e, const Node *n, const Dim *index) {
  const pad_attrs *a = n->attrs;
  const Node *x = n->src[0], *fill = src_or_null(e->lo->g, n, 2);
  const Type *s = type_of(x);
  Padding p;
  Dim at[MAX_RANK];
  int before = e->nguards;
  if (!padding_of(e, n, &p)) return NULL;
  const LoopExpr *other = elem_number(e, s->dtype, 0);
  if (fill && a->mode == PAD_CONSTANT) other = elem_at(e, fill, (Dim[]){e->pool->zero});
  memcpy(at, index, (size_t)s->rank * sizeof *at);
  bool ok = other != NULL;
  for (int64_t i = 0; i < p.count && ok; i++) {
    int axis = elem_axis(p.axes.n ? p.axes.v[i] : i, s->rank);
    if (!p.pads.v[i] && !p.pads.v[p.count + i]) continue;
    Dim size = elem_dim(e, s->dims[axis]), v = ie_addc(e->pool, index[axis], -p.pads.v[i]);
    at[axis] = a->mode == PAD_CONSTANT ? elem_guard(e, v, size) : folded(e, a->mode, v, size);
    ok = at[axis] != NULL;
  }
  const LoopExpr *value = ok ? elem_at(e, x, at) : NULL;
  if (value) value = elem_guarded(e, before, value, other);
  elem_unguard(e, before);
  return value;
}

// The middle of the operand, or the operand in the middle.
static const LoopExpr *move_center_crop_pad(ElementBuilder *e, const Node *n, const Dim *index) {
  const Type *s = type_of(n->src[0]), *t = type_of(n);
  IntPool *p = e->pool;
  Dim at[MAX_RANK], two = ie_const(p, 2);
  int before = e->nguards;
  bool ok = t->rank == s->rank;
  for (int i = 0; i < s->rank && ok; i++) {
    Dim have = elem_dim(e, s->dims[i]), want = elem_dim(e, t->dims[i]);
    Dim less = ie_div(p, ie_max(p, p->zero, ie_sub(p, have, want)), two);
    Dim more = ie_div(p, ie_max(p, p->zero, ie_sub(p, want, have)), two);
    at[i] = index[i];
    if (have != want) at[i] = elem_guard(e, ie_add(p, index[i], ie_sub(p, less, more)), have);
    ok = at[i] != NULL;
  }
  const LoopExpr *value = ok ? elem_at(e, n->src[0], at) : NULL;
  if (value) value = elem_guarded(e, before, value, elem_number(e, s->dtype, 0));
  elem_unguard(e, before);
  return value;
}

// ---- indices from data ----

Dim elem_bound(ElementBuilder *e, const LoopExpr *read, Dim extent) {
  LoopKernel *k = e->k;
  const LoopExpr *i = loop_let(&e->b, loop_cast(k, DT_I64, read)), *zero = loop_int(k, DT_I64, 0);
  const LoopExpr *low = loop_op(k, LOOP_lt, i, zero, NULL);
  i = loop_op(k, LOOP_select, low, loop_op(k, LOOP_add, i, loop_index(k, extent), NULL), i);
  return elem_checked(e, i, extent, "an index is out of range");
}

static const LoopExpr *move_gather(ElementBuilder *e, const Node *n, const Dim *index) {
  const gather_attrs *a = n->attrs;
  const Node *x = n->src[0], *which = n->src[1];
  int rank = type_of(x)->rank, axis = elem_axis(a->axis, rank), wide = type_of(which)->rank;
  Dim at[MAX_RANK];
  if (rank < 0 || wide < 0) return NULL;
  const LoopExpr *i = elem_at(e, which, index + axis);
  if (!i) return NULL;
  memcpy(at, index, (size_t)axis * sizeof *at);
  if (!(at[axis] = elem_bound(e, i, elem_dim(e, type_of(x)->dims[axis])))) return NULL;
  for (int k = axis + 1; k < rank; k++) at[k] = index[k - 1 + wide];
  return elem_at(e, x, at);
}

static const LoopExpr *move_gather_elements(ElementBuilder *e, const Node *n, const Dim *index) {
  const gather_elements_attrs *a = n->attrs;
  const Node *x = n->src[0];
  int rank = type_of(x)->rank, axis = elem_axis(a->axis, rank);
  Dim at[MAX_RANK];
  if (rank < 0) return NULL;
  const LoopExpr *i = elem_at(e, n->src[1], index);
  if (!i) return NULL;
  // The indices may cover less of the other axes than there is.
  for (int d = 0; d < rank; d++) {
    Dim size = elem_dim(e, type_of(x)->dims[d]), used = elem_dim(e, type_of(n)->dims[d]);
    at[d] = index[d];
    if (d != axis && ie_lt(e->pool, used, ie_addc(e->pool, size, 1)) != YES)
      at[d] = checked(e, index[d], size);
    if (d == axis) at[d] = elem_bound(e, i, size);
    if (!at[d]) return NULL;
  }
  return elem_at(e, x, at);
}

static const LoopExpr *move_gather_nd(ElementBuilder *e, const Node *n, const Dim *index) {
  const gather_nd_attrs *a = n->attrs;
  const Type *x = type_of(n->src[0]), *which = type_of(n->src[1]);
  Dim at[MAX_RANK], from[MAX_RANK];
  if (x->rank < 1 || which->rank < 1 || !ie_is_const(which->dims[which->rank - 1])) return NULL;
  int len = (int)which->dims[which->rank - 1]->value, batch = (int)a->batch_dims, k = 0;
  if (batch + len > x->rank) return NULL;
  for (; k < batch; k++) at[k] = index[k];
  memcpy(from, index, (size_t)(which->rank - 1) * sizeof *from);
  for (int i = 0; i < len; i++, k++) {
    from[which->rank - 1] = ie_const(e->pool, i);
    const LoopExpr *read = elem_at(e, n->src[1], from);
    if (!read || !(at[k] = elem_bound(e, read, elem_dim(e, x->dims[k])))) return NULL;
  }
  for (int i = which->rank - 1; k < x->rank; k++, i++) at[k] = index[i];
  return elem_at(e, n->src[0], at);
}

// A cache with an update written into it: each element is read from the one or the other.
static const LoopExpr *move_tensor_scatter(ElementBuilder *e, const Node *n, const Dim *index) {
  const tensor_scatter_attrs *a = n->attrs;
  LoopKernel *k = e->k;
  IntPool *p = e->pool;
  const Node *which = src_or_null(e->lo->g, n, 2);
  const Type *x = type_of(n->src[0]);
  int axis = elem_axis(a->axis, x->rank), before = e->nguards;
  Dim max = elem_dim(e, x->dims[axis]), len = elem_dim(e, type_of(n->src[1])->dims[axis]);
  Dim start = p->zero, at[MAX_RANK], off;
  const LoopExpr *from = which ? elem_at(e, which, index) : NULL,
                 *own = elem_at(e, n->src[0], index);
  if (!own || (which && !from) || max->lo < 1) return NULL;
  if (from) from = loop_cast(k, DT_I64, from);
  if (from && a->mode) from = loop_op(k, LOOP_mod, from, loop_index(k, max), NULL);
  if (from) {
    Dim places = a->mode ? max : ie_addc(p, ie_sub(p, max, len), 1);
    start = elem_checked(e, from, places, "an update does not fit into its cache");
    if (!start) return NULL;
  }
  off = ie_sub(p, index[axis], start);
  if (a->mode) off = ie_mod(p, off, max);
  memcpy(at, index, (size_t)x->rank * sizeof *at);
  at[axis] = elem_guard(e, off, len);
  const LoopExpr *value = at[axis] ? elem_at(e, n->src[1], at) : NULL;
  if (value) value = elem_guarded(e, before, value, own);
  elem_unguard(e, before);
  return value;
}

// ---- blocks of channels and of pixels ----

// Axes of images: of the channels, and of the first of height and width.
static const LoopExpr *move_depth_to_space(ElementBuilder *e, const Node *n, const Dim *index) {
  const depth_to_space_attrs *a = n->attrs;
  IntPool *p = e->pool;
  int c = a->channels_last ? 3 : 1, y = a->channels_last ? 1 : 2;
  if (type_of(n)->rank != 4) return NULL;
  Dim block = ie_const(p, a->blocksize), depth = elem_dim(e, type_of(n)->dims[c]);
  Dim at[MAX_RANK] = {index[0]};
  Dim h = ie_mod(p, index[y], block), w = ie_mod(p, index[y + 1], block);
  Dim side = ie_add(p, ie_mul(p, h, block), w);  // place in the block
  at[c] = a->mode == 0 ? ie_add(p, ie_mul(p, side, depth), index[c])
                       : ie_add(p, ie_mulc(p, index[c], a->blocksize * a->blocksize), side);
  at[y] = ie_div(p, index[y], block);
  at[y + 1] = ie_div(p, index[y + 1], block);
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_space_to_depth(ElementBuilder *e, const Node *n, const Dim *index) {
  const depth_to_space_attrs *a = n->attrs;
  IntPool *p = e->pool;
  int c = a->channels_last ? 3 : 1, y = a->channels_last ? 1 : 2;
  if (type_of(n)->rank != 4) return NULL;
  Dim block = ie_const(p, a->blocksize), depth = elem_dim(e, type_of(n->src[0])->dims[c]);
  Dim square = ie_mul(p, block, block), at[MAX_RANK] = {index[0]};
  Dim side = a->mode == 0 ? ie_div(p, index[c], depth) : ie_mod(p, index[c], square);
  at[c] = a->mode == 0 ? ie_mod(p, index[c], depth) : ie_div(p, index[c], square);
  at[y] = ie_add(p, ie_mul(p, index[y], block), ie_div(p, side, block));
  at[y + 1] = ie_add(p, ie_mul(p, index[y + 1], block), ie_mod(p, side, block));
  return elem_at(e, n->src[0], at);
}

static const LoopExpr *move_reverse_sequence(ElementBuilder *e, const Node *n, const Dim *index) {
  const reverse_sequence_attrs *a = n->attrs;
  LoopKernel *k = e->k;
  Dim at[MAX_RANK], extent = elem_dim(e, type_of(n)->dims[a->time_axis]);
  const LoopExpr *length = elem_at(e, n->src[1], &index[a->batch_axis]), *i, *reversed;
  if (!length) return NULL;
  memcpy(at, index, (size_t)type_of(n)->rank * sizeof *at);
  length = loop_let(&e->b, loop_cast(k, DT_I64, length));
  i = loop_index(k, elem_unguarded(e, index[a->time_axis]));
  reversed =
      loop_op(k, LOOP_sub, loop_op(k, LOOP_sub, length, loop_int(k, DT_I64, 1), NULL), i, NULL);
  i = loop_op(k, LOOP_select, loop_op(k, LOOP_lt, i, length, NULL), reversed, i);
  at[a->time_axis] = elem_checked(e, i, extent, "a sequence is longer than its axis");
  return at[a->time_axis] ? elem_at(e, n->src[0], at) : NULL;
}

static const LoopExpr *move_trilu(ElementBuilder *e, const Node *n, const Dim *index) {
  const trilu_attrs *a = n->attrs;
  LoopKernel *k = e->k;
  const Node *by = src_or_null(e->lo->g, n, 1);
  int rank = type_of(n)->rank;
  const LoopExpr *x = elem_at(e, n->src[0], index);
  const LoopExpr *shift = by ? elem_at(e, by, &e->pool->zero) : loop_int(k, DT_I64, 0);
  if (!x || !shift || type_of(n->src[0])->rank < 2) return NULL;
  const LoopExpr *i = loop_index(k, elem_unguarded(e, index[rank - 2]));
  const LoopExpr *j = loop_index(k, elem_unguarded(e, index[rank - 1]));
  j = loop_op(k, LOOP_sub, j, i, NULL);
  const LoopExpr *keep =
      a->upper ? loop_op(k, LOOP_le, shift, j, NULL) : loop_op(k, LOOP_le, j, shift, NULL);
  return loop_op(k, LOOP_select, keep, x, elem_number(e, type_of(n)->dtype, 0));
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
  case OP_gather_nd:
  case OP_tensor_scatter:
  case OP_depth_to_space:
  case OP_space_to_depth:
  case OP_reverse_sequence:
  case OP_center_crop_pad:
  case OP_trilu: return true;
  default: return false;
  }
}

const LoopExpr *elem_move(ElementBuilder *e, const Node *n, int result, const Dim *index) {
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
  case OP_gather_nd: return move_gather_nd(e, n, index);
  case OP_tensor_scatter: return move_tensor_scatter(e, n, index);
  case OP_depth_to_space: return move_depth_to_space(e, n, index);
  case OP_space_to_depth: return move_space_to_depth(e, n, index);
  case OP_reverse_sequence: return move_reverse_sequence(e, n, index);
  case OP_center_crop_pad: return move_center_crop_pad(e, n, index);
  case OP_trilu: return move_trilu(e, n, index);
  default: return NULL;
  }
}
