// aten_index.c -- ATen operators that select and put elements by index.
#include "frontends/pytorch/aten.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "eval/scalar.h"

static Node *index_node(AtenCall *c, int i) { return bt_cast(c->g, at_tensor(c, i), DT_I64); }

static void select_row(AtenCall *c) {  // (self, dim, index)
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 1, at_rank(c, x));
  if (c->g->status) return;
  at_give(
      c, NA(c->g, gather, (&(gather_attrs){.axis = axis}), x, av_node(c->g, at_arg(c, 2), DT_I64)));
}
static void index_select(AtenCall *c) {  // (self, dim, index)
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 1, at_rank(c, x));
  at_give(c, NA(c->g, gather, (&(gather_attrs){.axis = axis}), x, index_node(c, 2)));
}
static void embedding_row(AtenCall *c) {  // (weight, indices, ...)
  at_give(c, NA(c->g, gather, (&(gather_attrs){0}), at_tensor(c, 0), index_node(c, 1)));
}
static void gather_row(AtenCall *c) {  // (self, dim, index)
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 1, at_rank(c, x));
  at_give(c,
          NA(c->g, gather_elements, (&(gather_elements_attrs){.axis = axis}), x, index_node(c, 2)));
}

static void scatter_by(AtenCall *c, int reduction) {  // (self, dim, index, src or value)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *index = index_node(c, 2);
  int64_t axis = at_axis(c, 1, at_rank(c, x));
  if (g->status) return;
  Node *src = av_node(g, at_arg(c, 3), type_of(x)->dtype);
  if (at_arg(c, 3)->kind != AV_TENSOR) {
    src = N(g, expand, src, N(g, shape, index));
  } else if (at_rank(c, src) == at_rank(c, index)) {
    int rank = at_rank(c, src);
    bool cut = false;  // src may be larger than the index
    for (int i = 0; i < rank && !g->status; i++)
      cut = cut || type_of(src)->dims[i] != type_of(index)->dims[i];
    if (cut) {
      int64_t zero[MAX_RANK] = {0};
      src = N(g, slice, src, node_i64s(g, rank, zero), N(g, shape, index));
    }
  }
  scatter_elements_attrs at = {.axis = axis, .reduction = reduction};
  at_give(c, NA(g, scatter_elements, &at, x, index, src));
}
static void scatter_row(AtenCall *c) { scatter_by(c, 0); }
static void scatter_add(AtenCall *c) { scatter_by(c, 1); }
static void scatter_reduce(AtenCall *c) {  // (self, dim, index, src, reduce, *, include_self)
  Str how = at_arg(c, 4)->s;
  if (!at_bool(c, 5)) at_fail(c, "include_self=False");
  if (str_is(how, "sum"))
    scatter_by(c, 1);
  else if (str_is(how, "prod"))
    scatter_by(c, 2);
  else if (str_is(how, "amin"))
    scatter_by(c, 3);
  else if (str_is(how, "amax"))
    scatter_by(c, 4);
  else
    at_fail(c, "reduce='%.*s'", STR_ARG(how));
}

// ---- x[i, :, j]: index tensors for some axes ----

typedef struct Indexed {
  int rank;
  int naxes, axis[MAX_RANK];  // the indexed axes
  Node *index[MAX_RANK];
  int64_t perm[MAX_RANK];  // indexed axes to the front
  bool together;           // they follow one another
  Node *mask;              // one bool tensor for the first axes is all there is; or NULL
} Indexed;

static Node *mask_positions(Graph *g, Node *mask) {
  Node *where_set = N(g, non_zero, mask);  // [rank, n]
  return bt_swap(g, where_set, 2, 0, 1);
}

static bool add_index(AtenCall *c, Indexed *d, int axis, Node *index) {
  if (axis >= d->rank || d->naxes == MAX_RANK) {
    at_fail(c, "more indices than axes");
    return false;
  }
  d->axis[d->naxes] = axis;
  d->index[d->naxes++] = index;
  return true;
}

// A mask is the positions where it is set, one index for each of its axes.
static bool take_indices(AtenCall *c, Node *x, Indexed *d) {
  Graph *g = c->g;
  const AtenValue *v = at_arg(c, 1);
  *d = (Indexed){.rank = at_rank(c, x), .together = true};
  if (g->status) return false;
  int axis = 0;
  for (int64_t i = 0; i < v->list->v.n; i++) {
    const AtenValue *one = &v->list->v.v[i];
    Node *n = one->kind == AV_NONE ? NULL : av_node(g, one, 0);
    if (g->status) return false;
    if (!n) {
      axis++;
      continue;
    }
    if (type_of(n)->dtype != DT_BOOL) {
      if (!add_index(c, d, axis++, bt_cast(g, n, DT_I64))) return false;
      continue;
    }
    int wide = at_rank(c, n);
    if (wide < 1) at_fail(c, "a mask of rank 0");
    if (!axis && !d->naxes && i == v->list->v.n - 1) d->mask = n;
    Node *set = N(g, non_zero, n);
    for (int k = 0; k < wide && !g->status; k++)
      if (!add_index(c, d, axis++, bt_squeeze(g, bt_slice(g, set, 0, k, k + 1), 0))) return false;
  }
  if (!d->naxes) at_fail(c, "no indices");
  if (g->status) return false;
  int n = 0;
  for (int i = 0; i < d->naxes; i++) {
    d->perm[n++] = d->axis[i];
    if (d->axis[i] != d->axis[0] + i) d->together = false;
  }
  for (int i = 0; i < d->rank; i++) {
    bool used = false;
    for (int k = 0; k < d->naxes; k++) used = used || d->axis[k] == i;
    if (!used) d->perm[n++] = i;
  }
  return true;
}

// Where the axes of x[indices] lie, given the indices' own in front: [wide, rest] as it is read.
static bool read_order(const Indexed *d, int wide, int64_t *perm) {
  int rest = d->rank - d->naxes, at = d->axis[0], n = 0;
  if (!d->together || !at || wide + rest > MAX_RANK) return false;
  for (int i = 0; i < at; i++) perm[n++] = wide + i;
  for (int i = 0; i < wide; i++) perm[n++] = i;
  for (int i = at; i < rest; i++) perm[n++] = wide + i;
  return true;
}

// The indices broadcast together, the axes' numbers last: [..., naxes].
static Node *joined(AtenCall *c, const Indexed *d, int *rank) {
  Graph *g = c->g;
  Node *all = d->index[0], *part[MAX_RANK];
  for (int i = 1; i < d->naxes; i++) all = N(g, add, all, d->index[i]);
  *rank = at_rank(c, all);
  for (int i = 0; i < d->naxes; i++) {
    Node *one = d->naxes > 1 ? N(g, expand, d->index[i], N(g, shape, all)) : d->index[i];
    part[i] = bt_unsqueeze(g, one, *rank);
  }
  return bt_concat(g, *rank, d->naxes, part);
}

static void index_row(AtenCall *c) {  // (self, indices)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  Indexed d;
  if (!take_indices(c, x, &d)) return;
  if (d.mask) {
    at_give(c, N(g, gather_nd, x, mask_positions(g, d.mask)));
    return;
  }
  if (d.naxes == 1) {
    at_give(c, NA(g, gather, (&(gather_attrs){.axis = d.axis[0]}), x, d.index[0]));
    return;
  }
  int wide;
  int64_t perm[MAX_RANK];
  Node *y = N(g, gather_nd, bt_transpose(g, x, d.rank, d.perm), joined(c, &d, &wide));
  if (!g->status && read_order(&d, wide, perm))
    y = bt_transpose(g, y, wide + d.rank - d.naxes, perm);
  at_give(c, y);
}

static Node *transpose_back(Graph *g, Node *x, int n, const int64_t *perm) {
  int64_t back[MAX_RANK];
  for (int i = 0; i < n; i++) back[perm[i]] = i;
  return bt_transpose(g, x, n, back);
}

static void index_put(AtenCall *c) {  // (self, indices, values, accumulate)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *v = at_tensor(c, 2);
  bool add = at_bool(c, 3);
  Indexed d;
  if (!take_indices(c, x, &d)) return;
  v = bt_cast(g, v, type_of(x)->dtype);
  if (d.mask && !add && at_rank(c, v) == 0) {
    Node *m = d.mask;
    for (int wide = at_rank(c, m); wide < d.rank; wide++) m = bt_unsqueeze(g, m, wide);
    at_give(c, N(g, where, m, v, x));
    return;
  }
  int wide;
  int64_t perm[MAX_RANK];
  Node *at = joined(c, &d, &wide), *transposed = bt_transpose(g, x, d.rank, d.perm);
  Node *part[2] = {bt_dims(g, at, 0, wide), bt_dims(g, transposed, d.naxes, d.rank)};
  Node *shape = bt_concat(g, 0, 2, part);
  if (g->status) return;
  if (read_order(&d, wide, perm)) {  // the values' axes as they are read, then as they are put
    int n = wide + d.rank - d.naxes;
    Node *order = node_i64s(g, n, perm);
    v = N(g, expand, v, NA(g, gather, (&(gather_attrs){.axis = 0}), shape, order));
    v = transpose_back(g, v, n, perm);
  } else {
    v = N(g, expand, v, shape);
  }
  scatter_nd_attrs how = {.reduction = add ? 1 : 0};
  at_give(c, transpose_back(g, NA(g, scatter_nd, &how, transposed, at, v), d.rank, d.perm));
}

// ---- parts put back ----

static void put_part(AtenCall *c, int64_t axis, int64_t from, int64_t to, Node *src) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *part[3];
  int64_t n = at_known_dim(c, x, (int)axis);
  int k = 0;
  if (g->status) return;
  from = from < 0 ? MAX(from + n, 0) : MIN(from, n);
  to = to < 0 ? MAX(to + n, 0) : MIN(to, n);
  if (from > 0) part[k++] = bt_slice(g, x, axis, 0, from);
  part[k++] = bt_cast(g, src, type_of(x)->dtype);
  if (to < n) part[k++] = bt_slice(g, x, axis, MAX(to, from), n);
  at_give(c, bt_concat(g, axis, k, part));
}
// Every step-th of an axis.
static void put_steps(AtenCall *c, int64_t axis, int64_t from, int64_t to, int64_t step,
                      Node *src) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t n = at_known_dim(c, x, (int)axis), one = 1;
  int rank = at_rank(c, x);
  if (step < 1) at_fail(c, "a step of %lld", (long long)step);
  if (g->status) return;
  from = from < 0 ? MAX(from + n, 0) : MIN(from, n);
  to = to < 0 ? MAX(to + n, 0) : MIN(to, n);
  Node *at = N(g, range, node_i64(g, from), node_i64(g, MAX(from, to)), node_i64(g, step));
  at = N(g, unsqueeze, at, node_i64s(g, 1, &one));
  src = bt_swap(g, bt_cast(g, src, type_of(x)->dtype), rank, 0, (int)axis);
  x = N(g, scatter_nd, bt_swap(g, x, rank, 0, (int)axis), at, src);
  at_give(c, bt_swap(g, x, rank, 0, (int)axis));
}
static void slice_scatter(AtenCall *c) {  // (self, src, dim, start, end, step)
  int64_t axis = at_axis(c, 2, at_rank(c, at_tensor(c, 0))), step = at_int(c, 5);
  int64_t from = at_none(c, 3) ? 0 : at_int(c, 3), to = at_none(c, 4) ? INT64_MAX : at_int(c, 4);
  if (step == 1)
    put_part(c, axis, from, to, at_tensor(c, 1));
  else
    put_steps(c, axis, from, to, step, at_tensor(c, 1));
}
static void select_scatter(AtenCall *c) {  // (self, src, dim, index)
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 2, at_rank(c, x)), i = at_int(c, 3);
  int64_t n = at_known_dim(c, x, (int)axis);
  if (i < 0) i += n;
  put_part(c, axis, i, i + 1, bt_unsqueeze(c->g, at_tensor(c, 1), axis));
}

static void nonzero_row(AtenCall *c) { at_give(c, mask_positions(c->g, at_tensor(c, 0))); }
static void where_positions(AtenCall *c) {  // nonzero, one tensor an axis
  Node *x = at_tensor(c, 0), *p = N(c->g, non_zero, x), *out[MAX_RANK];
  int rank = at_rank(c, x);
  for (int i = 0; i < rank; i++) out[i] = bt_squeeze(c->g, bt_slice(c->g, p, 0, i, i + 1), 0);
  at_give_list(c, rank, out);
}
static void masked_select(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *m = at_tensor(c, 1);
  Node *wide = N(g, expand, x, N(g, shape, m)), *mask = N(g, expand, m, N(g, shape, wide));
  at_give(c, N(g, gather_nd, wide, mask_positions(g, mask)));
}
static void one_hot_row(AtenCall *c) {  // (self, num_classes)
  Graph *g = c->g;
  int64_t n = at_int(c, 1), two = 2, v[2] = {0, 1};
  if (n < 0) at_fail(c, "without a number of classes");
  if (g->status) return;
  at_give(c, NA(g, one_hot, (&(one_hot_attrs){.axis = -1}), at_tensor(c, 0), node_i64(g, n),
                node_const(g, DT_I64, 1, &two, v, NULL)));
}

static const AtenRow rows[] = {
    // clang-format off
    {"select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", select_row, 0, NULL},
    {"index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select, 0, NULL},
    {"embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", embedding_row, 0, NULL},
    {"gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather_row, 0, NULL},
    {"scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter_row, 0, NULL},
    {"scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", scatter_row, 0, NULL},
    {"scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter_add, 0, NULL},
    {"scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor", scatter_reduce, 0, NULL},
    {"index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index_row, 0, NULL},
    {"_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index_row, 0, NULL},
    {"index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", index_put, 0, NULL},
    {"slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor", slice_scatter, 0, NULL},
    {"select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", select_scatter, 0, NULL},
    {"where(Tensor condition) -> Tensor[]", where_positions, 0, NULL},
    {"nonzero(Tensor self) -> Tensor", nonzero_row, 0, NULL},
    {"masked_select(Tensor self, Tensor mask) -> Tensor", masked_select, 0, NULL},
    {"one_hot(Tensor self, int num_classes=-1) -> Tensor", one_hot_row, 0, NULL},
    // clang-format on
};
ATEN_TABLE(index);
