// import_build.c -- small constructions that the rows of StableHLO share (import.h).
#include "frontends/stablehlo/import.h"

#include "eval/contract.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"

Node *hb_node(Graph *g, int op, int n, Node *const *src) {
  return node_new(g, op, n, src, NULL, 0, NULL);
}

Node *hb_num(Graph *g, const Node *like, double v) {
  return g->status ? g->poison : node_scalar(g, type_of(like)->dtype, v);
}

Node *hb_u64(Graph *g, DType t, uint64_t v) {
  int64_t data[1] = {0};
  put_i64(t, data, 0, (int64_t)v);
  return g->status ? g->poison : node_const(g, t, 0, NULL, data, NULL);
}

Node *hb_cast(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = false}), x);
}

Node *hb_bits(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, bit_cast, (&(bit_cast_attrs){.to = t}), x);
}

Node *hb_reshape(Graph *g, Node *x, int n, const int64_t *dims) {
  if (g->status) return g->poison;
  const Type *t = type_of(x);
  bool same = t->rank == n;
  for (int i = 0; same && i < n; i++) same = ie_is(t->dims[i], dims[i]);
  if (same) return x;
  return NA(g, reshape, (&(reshape_attrs){.allowzero = true}), x, node_i64s(g, n, dims));
}

Node *hb_transpose(Graph *g, Node *x, int n, const int64_t *perm) {
  for (int i = 0; i < n; i++)
    if (perm[i] != i) return NA(g, transpose, (&(transpose_attrs){.perm = {n, perm}}), x);
  return x;
}

Node *hb_slice(Graph *g, Node *x, int n, const int64_t *begin, const int64_t *end,
               const int64_t *step) {
  int64_t axes[MAX_RANK];
  for (int i = 0; i < n; i++) axes[i] = i;
  if (!n) return x;
  return N(g, slice, x, node_i64s(g, n, begin), node_i64s(g, n, end), node_i64s(g, n, axes),
           node_i64s(g, n, step));
}

Node *hb_slice1(Graph *g, Node *x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return N(g, slice, x, node_i64s(g, 1, &begin), node_i64s(g, 1, &end), node_i64s(g, 1, &axis),
           node_i64s(g, 1, &step));
}

Node *hb_concat(Graph *g, int64_t axis, int n, Node *const *x) {
  if (n == 1) return x[0];
  return node_new(g, OP_concat, n, x, &(concat_attrs){.axis = axis}, 1, NULL);
}

Node *hb_expand(Graph *g, Node *x, int n, const int64_t *dims) {
  if (g->status) return g->poison;
  const Type *t = type_of(x);
  bool same = t->rank == n;
  for (int i = 0; same && i < n; i++) same = ie_is(t->dims[i], dims[i]);
  return same ? x : N(g, expand, x, node_i64s(g, n, dims));
}

// n elements with gaps between them are n cells of gap + 1, less the last gap.
static Node *spread(Graph *g, Node *x, Node *value, int rank, int axis, int64_t gap) {
  int64_t dims[MAX_RANK + 1], n = type_of(x)->dims[axis]->value;
  if (n < 2) return x;
  Node *cell = N(g, unsqueeze, x, node_i64s(g, 1, (int64_t[]){axis + 1}));
  int64_t pads[2] = {0, gap}, at[1] = {axis + 1};
  cell = N(g, pad, cell, node_i64s(g, 2, pads), value, node_i64s(g, 1, at));
  for (int i = 0; i < rank; i++) dims[i] = type_of(x)->dims[i]->value;
  if (gap < 0 || gap == INT64_MAX || !ck_mul(n, gap + 1, &dims[axis]))
    return graph_fail(g, TENON_EINVAL, (Where){.op = "stablehlo.pad"}, "interior padding of %lld",
                      (long long)gap);
  return hb_slice1(g, hb_reshape(g, cell, rank, dims), axis, 0, dims[axis] - gap, 1);
}

Node *hb_pad(Graph *g, Node *x, Node *value, int n, const int64_t *low, const int64_t *high,
             const int64_t *interior) {
  int64_t pads[2 * MAX_RANK];
  bool any = false;
  for (int i = 0; i < n; i++) {
    if (g->status) return g->poison;
    if (interior && interior[i]) {
      if (!ie_is_const(type_of(x)->dims[i]) || type_of(x)->rank == MAX_RANK)
        return graph_fail(g, TENON_EUNSUPPORTED, (Where){.op = "stablehlo.pad"},
                          "interior padding of a size that is not known");
      x = spread(g, x, value, n, i, interior[i]);
    }
    pads[i] = low[i];
    pads[n + i] = high[i];
    any = any || low[i] || high[i];
  }
  return any ? N(g, pad, x, node_i64s(g, 2 * n, pads), value) : x;
}

Node *hb_reverse(Graph *g, Node *x, Ints axes) {
  for (int64_t i = 0; i < axes.n; i++) x = hb_slice1(g, x, axes.v[i], -1, INT64_MIN, -1);
  return x;
}

Node *hb_iota(Graph *g, DType t, int n, const int64_t *dims, int64_t axis) {
  if (g->status || axis < 0 || axis >= n) return g->poison;
  int64_t line[MAX_RANK];
  for (int i = 0; i < n; i++) line[i] = i == axis ? dims[i] : 1;
  Node *x = N(g, range, node_i64(g, 0), node_i64(g, dims[axis]), node_i64(g, 1));
  return hb_expand(g, hb_reshape(g, hb_cast(g, x, t), n, line), n, dims);
}

Node *hb_reduce(Graph *g, int op, Node *x, Ints axes) {
  if (!axes.n) return x;
  Node *src[] = {x, node_i64s(g, axes.n, axes.v)};
  return node_new(g, op, 2, src, &(reduce_attrs){.keepdims = false}, 0, NULL);
}

Node *hb_dot(Graph *g, Node *a, Node *b, Ints ba, Ints bb, Ints ca, Ints cb, DType t) {
  dot_attrs at = {
      .batch_lhs = ba, .batch_rhs = bb, .contract_lhs = ca, .contract_rhs = cb, .out_dtype = t};
  return NA(g, dot, &at, a, b);
}

Node *hb_where(Graph *g, Node *c, Node *x, Node *y) { return N(g, where, c, x, y); }

Node *hb_zeros(Graph *g, Node *x) { return N(g, expand, hb_num(g, x, 0), N(g, shape, x)); }
