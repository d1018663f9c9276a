// import_index.c -- reading and writing by indices, searches, segments.
#include "eval/index.h"
#include "frontends/tflite/import.h"

#include <float.h>

// ---- reading ----

// With batch axes: the axis is moved behind them, each batch gathers for itself, and the axis's
// place gets the indices.
static Node *gather_batched(TflOp *op, Node *x, Node *index, int64_t axis, int64_t batch) {
  Graph *g = op->g;
  int rank = tfl_rank(op, x), irank = tfl_rank(op, index), n = 0;
  int64_t to[MAX_RANK], back[MAX_RANK];
  if (batch > irank || batch > axis || rank + irank - (int)batch - 1 > MAX_RANK)
    return tfl_fail(op, "%lld batch axes for axis %lld", (long long)batch, (long long)axis);
  for (int i = 0; i < rank; i++)
    if (i == batch)
      to[n++] = axis;
    else
      to[n++] = i <= axis && i > batch ? i - 1 : i;
  x = tb_transpose(g, x, rank, to);
  gather_nd_attrs at = {.batch_dims = batch};
  Node *y = NA(g, gather_nd, &at, x, tb_unsqueeze(g, index, irank));
  // Now [batch..., indices..., axes before `axis`..., axes behind it...].
  int nindex = irank - (int)batch, before = (int)(axis - batch), all = rank - 1 + nindex;
  for (int i = 0; i < all; i++)
    back[i] = i < batch                     ? i
              : i < batch + before          ? i + nindex
              : i < batch + before + nindex ? i - before
                                            : i;
  return tb_transpose(g, y, all, back);
}

static void gather_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *index = tfl_in_i64(op, 1);
  int rank = tfl_rank(op, x), irank = tfl_rank(op, index);
  int64_t batch = tfl_opt_i32(op, 1, 0);
  int64_t axis = tfl_axis(op, tfl_opt_i32(op, 0, 0), rank);
  if (g->status) return;
  if (batch < 0) batch += irank;
  if (batch < 0 || batch > axis) {
    tfl_fail(op, "%lld batch axes for axis %lld", (long long)batch, (long long)axis);
    return;
  }
  tfl_give(op, 0,
           batch ? gather_batched(op, x, index, axis, batch)
                 : NA(g, gather, (&(gather_attrs){.axis = axis}), x, index));
}
static void gather_nd_row(TflOp *op) {
  Graph *g = op->g;
  tfl_give(op, 0, N(g, gather_nd, tfl_in(op, 0), tfl_in_i64(op, 1)));
}
static void embedding_lookup(TflOp *op) {  // (ids, table)
  Graph *g = op->g;
  tfl_give(op, 0, N(g, gather, tfl_in(op, 1), tfl_in_i64(op, 0)));
}

// ---- writing ----

static void scatter_nd_row(TflOp *op) {  // (indices, updates, shape)
  Graph *g = op->g;
  Node *index = tfl_in_i64(op, 0), *update = tfl_in(op, 1);
  Node *shape = tfl_in_i64(op, 2);
  if (g->status) return;
  scatter_nd_attrs at = {.reduction = SCATTER_ADD};
  Node *zero = tb_full(g, shape, type_of(update)->dtype, 0);
  tfl_give(op, 0, NA(g, scatter_nd, &at, zero, index, update));
}

static void sparse_to_dense(TflOp *op) {  // (indices, shape, values, default)
  Graph *g = op->g;
  Node *index = tfl_in_i64(op, 0), *shape = tfl_in_i64(op, 1);
  Node *value = tfl_in(op, 2), *other = tfl_in(op, 3);
  int irank = tfl_rank(op, index), vrank = tfl_rank(op, value);
  if (g->status) return;
  if (irank > 2 || vrank > 1) {
    tfl_fail(op, "indices of rank %d, values of rank %d", irank, vrank);
    return;
  }
  if (irank == 0) index = tb_unsqueeze(g, index, 0);
  if (irank <= 1) index = tb_unsqueeze(g, index, 1);
  if (vrank == 0) value = N(g, expand, value, tb_dims(g, index, 0, 1));
  tfl_give(op, 0, N(g, scatter_nd, N(g, expand, other, shape), index, value));
}

// The place is moved back inside; then each element asks whether it lies in the update.
static Node *updated(TflOp *op, Node *x, Node *update, Node *const *start) {
  Graph *g = op->g;
  int rank = tfl_rank(op, x);
  Node *inside = NULL;
  if (tfl_rank(op, update) != rank) return tfl_fail(op, "an update of another rank");
  for (int i = 0; i < rank && !g->status; i++) {
    int64_t size = tfl_size(op, x, i), part = tfl_size(op, update, i), dims[MAX_RANK];
    if (g->status) return g->poison;
    if (part > size || part < 1)
      return tfl_fail(op, "an update of %lld in %lld", (long long)part, (long long)size);
    Node *from = N(g, clip, start[i], node_i64(g, 0), node_i64(g, size - part));
    Node *at = N(g, sub, N(g, range, node_i64(g, 0), node_i64(g, size), node_i64(g, 1)), from);
    Node *ok = N(g, and, N(g, le, node_i64(g, 0), at), N(g, lt, at, node_i64(g, part)));
    for (int k = 0; k < rank; k++) dims[k] = k == i ? size : 1;
    ok = tb_reshape(g, ok, rank, dims);
    inside = inside ? N(g, and, inside, ok) : ok;
    at = N(g, clip, at, node_i64(g, 0), node_i64(g, part - 1));
    update = NA(g, gather, (&(gather_attrs){.axis = i}), update, at);
  }
  return inside ? N(g, where, inside, update, x) : update;
}
static void dynamic_update_slice(TflOp *op) {  // (x, update, starts)
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *starts = tfl_in_i64(op, 2), *start[MAX_RANK];
  int rank = tfl_rank(op, x);
  if (!g->status && (tfl_rank(op, starts) != 1 || tfl_size(op, starts, 0) != rank))
    tfl_fail(op, "one start an axis is needed");
  for (int i = 0; i < rank && !g->status; i++)
    start[i] = tb_reshape(g, tb_slice(g, starts, 0, i, i + 1), 0, NULL);
  if (!g->status) tfl_give(op, 0, updated(op, x, tfl_in(op, 1), start));
}
static void hlo_update_slice(TflOp *op) {  // (x, update, start of each axis...)
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *start[MAX_RANK];
  int rank = tfl_rank(op, x);
  for (int i = 0; i < rank && !g->status; i++)
    start[i] = tb_reshape(g, tfl_in_i64(op, 2 + i), 0, NULL);
  if (!g->status) tfl_give(op, 0, updated(op, x, tfl_in(op, 1), start));
}

// ---- segments ----

static double neutral(DType t, int reduction) {
  int bits = dtype_bits(t);
  double most =
      dtype_is_float(t) ? (double)FLT_MAX : (double)((INT64_C(1) << MIN(bits - 1, 53)) - 1);
  switch (reduction) {
  case SCATTER_MUL: return 1;
  case SCATTER_MAX: return dtype_is_float(t) ? -most : -most - 1;
  case SCATTER_MIN: return most;
  default: return 0;
  }
}

// Rows joined by their segment, of `count` (i64[1]); those of a negative one are left out: they go
// behind the last.
static Node *segments(TflOp *op, Node *x, Node *ids, Node *count, int reduction) {
  Graph *g = op->g;
  int rank = tfl_rank(op, x), irank = tfl_rank(op, ids);
  if (g->status) return g->poison;
  if (irank > rank) return tfl_fail(op, "ids of rank %d for rows of rank %d", irank, rank);
  DType t = type_of(x)->dtype;
  int64_t one = 1;
  Node *place = N(g, where, N(g, lt, ids, node_i64(g, 0)), tb_reshape(g, count, 0, NULL), ids);
  Node *shape[] = {N(g, add, count, node_i64s(g, 1, &one)), tb_dims(g, x, irank, rank)};
  Node *start = tb_full(g, tb_concat(g, 0, 2, shape), t, neutral(t, reduction));
  scatter_nd_attrs at = {.reduction = reduction};
  Node *all = NA(g, scatter_nd, &at, start, tb_unsqueeze(g, place, irank), x);
  int64_t zero = 0;
  return N(g, slice, all, node_i64s(g, 1, &zero), count, node_i64s(g, 1, &zero));
}
static void unsorted_segment(TflOp *op) {  // (x, ids, count)
  Graph *g = op->g;
  Node *count = tb_reshape(g, tfl_in_i64(op, 2), 1, (const int64_t[]){1});
  Node *ids = tfl_in_i64(op, 1);
  tfl_give(op, 0, segments(op, tfl_in(op, 0), ids, count, op->row->arg));
}
static void segment_sum(TflOp *op) {  // (x, ids): ascending, so that the last is the largest
  Graph *g = op->g;
  Node *ids = tfl_in_i64(op, 1);
  Ints known;
  int64_t axis = 0;
  if (tfl_rank(op, ids) != 1) tfl_fail(op, "ids must have rank 1");
  if (tfl_ints(op, 1, &known))
    for (int64_t i = 0; i < known.n && !g->status; i++)
      if (known.v[i] < 0 || (i && known.v[i] < known.v[i - 1]))
        tfl_fail(op, "segment ids must not be negative and must ascend");
  if (g->status) return;
  Node *last = tb_reduce(g, OP_reduce_max, ids, (Ints){1, &axis}, true);
  Node *count = N(g, add, last, node_i64(g, 1));
  tfl_give(op, 0, segments(op, tfl_in(op, 0), ids, count, SCATTER_ADD));
}

// ---- searches ----

// The graph's operator counts negative indices from the end; here they are none.
static void one_hot_row(TflOp *op) {  // (indices, depth, on, off)
  Graph *g = op->g;
  Node *index = tfl_in_i64(op, 0), *depth = tfl_in_i64(op, 1);
  Node *on = tfl_in(op, 2), *off = tfl_in(op, 3);
  int rank = tfl_rank(op, index);
  if (g->status) return;
  int64_t one[] = {1}, axis = tfl_opt_i32(op, 0, 0);
  if (axis < -1 || axis > rank) tfl_fail(op, "axis %lld", (long long)axis);
  depth = tb_reshape(g, depth, 0, NULL);
  index = N(g, where, N(g, lt, index, node_i64(g, 0)), depth, index);
  Node *both[] = {tb_reshape(g, off, 1, one), tb_reshape(g, on, 1, one)};
  one_hot_attrs at = {.axis = axis};
  tfl_give(op, 0, NA(g, one_hot, &at, index, depth, tb_concat(g, 0, 2, both)));
}
static void top_k_row(TflOp *op) {  // (x, k)
  Graph *g = op->g;
  if (!tfl_need(op, 2, 2)) return;
  Node *k = tb_reshape(g, tfl_in_i64(op, 1), 1, (const int64_t[]){1});
  Node *src[] = {tfl_in(op, 0), k};
  top_k_attrs at = {.axis = -1, .largest = true, .sorted = true};
  Node *y = node_new(g, OP_top_k, 2, src, &at, 2, NULL);
  tfl_give(op, 0, node_proj(g, y, 0));
  tfl_give(op, 1, tb_cast(g, node_proj(g, y, 1), tfl_out_tensor(op, 1)->dtype));
}
static void where_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  tfl_give(op, 0, tb_transpose(g, N(g, non_zero, x), 2, (const int64_t[]){1, 0}));
}
static void unique_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  if (!tfl_need(op, 1, 2)) return;
  unique_attrs at = {.sorted = false};
  Node *y = node_new(g, OP_unique, 1, &x, &at, 3, NULL);
  tfl_give(op, 0, node_proj(g, y, 0));
  tfl_give(op, 1, tb_cast(g, node_proj(g, y, 2), tfl_out_tensor(op, 1)->dtype));
}
static void bucketize(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  FbVector v = fb_vector(&op->o->options, 0, 4);
  int64_t rank = tfl_rank(op, x);
  if (g->status) return;
  double *edge = arena_array(&g->arena, double, v.n + 1);
  for (int64_t i = 0; i < v.n; i++) {
    edge[i] = fb_f32_at(&v, i);
    if (i && edge[i] < edge[i - 1]) tfl_fail(op, "boundaries must ascend");
  }
  x = tb_unsqueeze(g, tb_cast(g, x, DT_F64), rank);
  Node *below = N(g, le, tb_vector(g, DT_F64, v.n, edge), x);
  tfl_give(op, 0, tb_reduce(g, OP_reduce_sum, tb_cast(g, below, DT_I32), (Ints){1, &rank}, false));
}

// Filled up with zeros to `most` (i64[1]).
static Node *filled(Graph *g, Node *x, Node *most) {
  if (g->status) return g->poison;
  int64_t zero = 0;
  Node *more = tb_full(g, most, type_of(x)->dtype, 0);
  Node *all = tb_concat(g, 0, 2, (Node *[]){x, more});
  return N(g, slice, all, node_i64s(g, 1, &zero), most, node_i64s(g, 1, &zero));
}
// (boxes, scores, most, overlap, least score, sigma?) -> indices, (scores,) how many
static void non_max(TflOp *op) {
  Graph *g = op->g;
  bool soft = op->row->arg == 5;
  if (!tfl_need(op, soft ? 6 : 5, soft ? 3 : 2)) return;
  Node *boxes = tb_unsqueeze(g, tfl_in(op, 0), 0), *scores = tfl_in(op, 1);
  const int64_t one[] = {1}, last = 2;
  Node *most = tb_reshape(g, tfl_in_i64(op, 2), 1, one);
  Node *src[] = {boxes, tb_unsqueeze(g, tb_unsqueeze(g, scores, 0), 0), most,
                 tb_reshape(g, tfl_in(op, 3), 1, one), tb_reshape(g, tfl_in(op, 4), 1, one)};
  if (soft) {
    const Value *sigma = node_known(g, tfl_in(op, 5));
    if (!sigma || sigma->n != 1 || val_f64(sigma, 0) != 0) tfl_fail(op, "soft suppression");
  }
  Node *found = node_new(g, OP_non_max_suppression, 5, src, NULL, 0, NULL);
  Node *index = tb_squeeze(g, tb_slice(g, found, 1, last, 3), 1);
  tfl_give(op, 0, tb_cast(g, filled(g, index, most), DT_I32));
  if (soft) tfl_give(op, 1, filled(g, N(g, gather, scores, index), most));
  Node *n = tb_reshape(g, tb_dims(g, index, 0, 1), 0, NULL);
  tfl_give(op, soft ? 2 : 1, tb_cast(g, n, DT_I32));
}

static const TflRow rows[] = {
    // clang-format off
    {7,   "EMBEDDING_LOOKUP",               embedding_lookup,     4, 0},
    {36,  "GATHER",                         gather_row,           8, 0},
    {48,  "TOPK_V2",                        top_k_row,            3, 0},
    {68,  "SPARSE_TO_DENSE",                sparse_to_dense,      3, 0},
    {85,  "ONE_HOT",                        one_hot_row,          1, 0},
    {103, "UNIQUE",                         unique_row,           1, 0},
    {107, "GATHER_ND",                      gather_nd_row,        5, 0},
    {109, "WHERE",                          where_row,            2, 0},
    {120, "NON_MAX_SUPPRESSION_V4",         non_max,              1, 4},
    {121, "NON_MAX_SUPPRESSION_V5",         non_max,              1, 5},
    {122, "SCATTER_ND",                     scatter_nd_row,       1, 0},
    {125, "SEGMENT_SUM",                    segment_sum,          1, 0},
    {147, "BUCKETIZE",                      bucketize,            1, 0},
    {151, "DYNAMIC_UPDATE_SLICE",           dynamic_update_slice, 4, 0},
    {153, "UNSORTED_SEGMENT_PROD",          unsorted_segment,     1, SCATTER_MUL},
    {154, "UNSORTED_SEGMENT_MAX",           unsorted_segment,     1, SCATTER_MAX},
    {155, "UNSORTED_SEGMENT_SUM",           unsorted_segment,     1, SCATTER_ADD},
    {157, "UNSORTED_SEGMENT_MIN",           unsorted_segment,     1, SCATTER_MIN},
    {194, "STABLEHLO_DYNAMIC_UPDATE_SLICE", hlo_update_slice,     1, 0},
    // clang-format on
};
TFL_TABLE(index);
