// import_move.c -- orders of axes, borders, blocks, diagonals.
#include "eval/index.h"
#include "eval/movement.h"
#include "frontends/tflite/import.h"

enum { MOST_TABLE = 1 << 22 };  // elements of an index table or mask that is made while reading

// ---- orders ----

static void permuted(TflOp *op, Node *x, int64_t n, const int64_t *v) {
  int rank = tfl_rank(op, x);
  int64_t perm[MAX_RANK];
  if (!op->g->status && n != rank) tfl_fail(op, "%lld axes for rank %d", (long long)n, rank);
  for (int i = 0; i < rank && !op->g->status; i++) perm[i] = tfl_axis(op, v[i], rank);
  if (!op->g->status) tfl_give(op, 0, tb_transpose(op->g, x, rank, perm));
}
static void transpose_row(TflOp *op) {
  Node *x = tfl_in(op, 0);
  Ints perm = tfl_need_ints(op, 1, "the order of the axes");
  if (!op->g->status) permuted(op, x, perm.n, perm.v);
}
static void hlo_transpose(TflOp *op) {
  FbVector v = fb_vector(&op->o->options2, 0, 8);
  int64_t perm[MAX_RANK] = {0};
  for (int64_t i = 0; i < v.n && i < MAX_RANK; i++) perm[i] = fb_i64_at(&v, i);
  permuted(op, tfl_in(op, 0), v.n, perm);
}

static void reverse_v2(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  Ints axes = tfl_need_ints(op, 1, "the axes");
  for (int64_t i = 0; i < axes.n && !g->status; i++) {
    int64_t axis = tfl_axis(op, axes.v[i], rank), from = -1, to = INT64_MIN, step = -1;
    x = N(g, slice, x, node_i64s(g, 1, &from), node_i64s(g, 1, &to), node_i64s(g, 1, &axis),
          node_i64s(g, 1, &step));
  }
  tfl_give(op, 0, x);
}

// The graph's operator has batch and time in front.
static void reverse_sequence_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *lengths = tfl_in_i64(op, 1);
  int rank = tfl_rank(op, x), n = 2;
  int64_t seq = tfl_axis(op, tfl_opt_i32(op, 0, 0), rank);
  int64_t batch = tfl_axis(op, tfl_opt_i32(op, 1, 0), rank), to[MAX_RANK], back[MAX_RANK];
  if (!g->status && (seq == batch || rank < 2)) tfl_fail(op, "batch and time are one axis");
  if (g->status) return;
  to[0] = batch;
  to[1] = seq;
  for (int i = 0; i < rank; i++)
    if (i != seq && i != batch) to[n++] = i;
  for (int i = 0; i < rank; i++) back[to[i]] = i;
  reverse_sequence_attrs at = {.batch_axis = 0, .time_axis = 1};
  Node *y = NA(g, reverse_sequence, &at, tb_transpose(g, x, rank, to), lengths);
  tfl_give(op, 0, tb_transpose(g, y, rank, back));
}

// ---- borders ----

// [axis, 2] to begins, then ends.
static Node *pads_of(TflOp *op, int i) {
  Graph *g = op->g;
  Node *p = tfl_in_i64(op, i);
  if (!g->status && tfl_rank(op, p) != 2) tfl_fail(op, "paddings must have rank 2");
  return tb_reshape(g, tb_transpose(g, p, 2, (const int64_t[]){1, 0}), 1, (const int64_t[]){-1});
}
static void pad_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *value = tfl_in_opt(op, 2), *pads = pads_of(op, 1);
  if (g->status) return;
  if (value && tfl_rank(op, value) > 0) value = tb_reshape(g, value, 0, NULL);
  tfl_give(op, 0, N(g, pad, x, pads, value ? value : tb_num(g, x, 0)));
}

// Borders that repeat the edge, one axis by a table of indices.
static Node *symmetric(TflOp *op, Node *x, int axis, int64_t lo, int64_t hi) {
  Graph *g = op->g;
  int64_t size = tfl_size(op, x, axis);
  if (g->status || (!lo && !hi)) return x;
  if (lo < 0 || hi < 0 || lo > size || hi > size || size > MOST_TABLE)
    return tfl_fail(op, "a border of %lld and %lld around %lld", (long long)lo, (long long)hi,
                    (long long)size);
  int64_t n = lo + size + hi, *index = arena_array(&g->arena, int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i - lo;
    index[i] = at < 0 ? -1 - at : at >= size ? 2 * size - 1 - at : at;
  }
  Node *src[] = {x, node_i64s(g, n, index)};
  return node_new(g, OP_gather, 2, src, &(gather_attrs){.axis = axis}, 0, NULL);
}
static void mirror_pad(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *pads = pads_of(op, 1);
  int rank = tfl_rank(op, x);
  if (!tfl_opt_i8(op, 0, 0)) {
    tfl_give(op, 0, NA(g, pad, (&(pad_attrs){.mode = PAD_REFLECT}), x, pads));
    return;
  }
  Ints p = tfl_need_ints(op, 1, "the borders");
  if (!g->status && p.n != 2 * rank) tfl_fail(op, "borders for another rank");
  for (int i = 0; i < rank && !g->status; i++) x = symmetric(op, x, i, p.v[2 * i], p.v[2 * i + 1]);
  tfl_give(op, 0, x);
}

// Elements further apart: each axis as [size, 1], padded to [size, distance].
static void dilate(TflOp *op) {  // (x, distances, value)
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *value = tfl_in(op, 2);
  Ints by = tfl_need_ints(op, 1, "the distances");
  int rank = tfl_rank(op, x);
  if (!g->status && by.n != rank) tfl_fail(op, "%lld distances", (long long)by.n);
  for (int i = 0; i < rank && !g->status; i++) {
    int64_t size = tfl_size(op, x, i), pads[2 * MAX_RANK] = {0}, dims[MAX_RANK], whole;
    if (by.v[i] < 1 || rank + 1 > MAX_RANK || !ck_mul(size, by.v[i], &whole)) {
      tfl_fail(op, "a distance of %lld", (long long)by.v[i]);
      return;
    }
    if (by.v[i] == 1 || size < 1) continue;
    for (int k = 0; k < rank; k++) dims[k] = k == i ? whole : tfl_size(op, x, k);
    pads[rank + 1 + i + 1] = by.v[i] - 1;
    x = N(g, pad, tb_unsqueeze(g, x, i + 1), node_i64s(g, 2 * (rank + 1), pads),
          tb_reshape(g, value, 0, NULL));
    x = tb_slice(g, tb_reshape(g, x, rank, dims), i, 0, whole - by.v[i] + 1);
  }
  tfl_give(op, 0, x);
}

// ---- blocks ----

static void blocks_of_pixels(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int64_t block = tfl_opt_i32(op, 0, 0);
  if (tfl_rank(op, x) != 4 || block < 1) tfl_fail(op, "rank 4 and blocks of 1 or more");
  if (g->status) return;
  depth_to_space_attrs at = {.blocksize = block};
  Node *y = tb_nchw(g, x, 4);
  y = node_new(g, op->row->arg, 1, &y, &at, 0, NULL);
  tfl_give(op, 0, tb_nhwc(g, y, 4));
}

typedef struct Blocks {
  int n, rank;
  int64_t block[MAX_RANK], all;  // and their product
  Node *edge;                    // begins, then ends, of axes 1 to n
  Node *axes;
} Blocks;

// (x, block, [n, 2]); false: failed.
static bool read_blocks(TflOp *op, Node *x, Blocks *b) {
  Graph *g = op->g;
  Ints block = tfl_need_ints(op, 1, "the block"), known;
  int64_t axes[MAX_RANK];
  b->rank = tfl_rank(op, x);
  b->edge = pads_of(op, 2);
  b->all = 1;
  if (g->status) return false;
  if (block.n >= b->rank || b->rank + block.n > MAX_RANK || tfl_size(op, b->edge, 0) != 2 * block.n)
    tfl_fail(op, "%lld blocks for rank %d", (long long)block.n, b->rank);
  b->n = (int)MIN(block.n, MAX_RANK);
  for (int i = 0; i < b->n && !g->status; i++) {
    b->block[i] = block.v[i];
    axes[i] = i + 1;
    if (block.v[i] < 1 || !ck_mul(b->all, block.v[i], &b->all))
      tfl_fail(op, "blocks of %lld", (long long)block.v[i]);
  }
  for (int64_t i = 0; !g->status && tfl_ints(op, 2, &known) && i < known.n; i++)
    if (known.v[i] < 0) tfl_fail(op, "a border of %lld", (long long)known.v[i]);
  b->axes = g->status ? NULL : node_i64s(g, b->n, axes);
  return !g->status;
}

// Size `axis` of x as i64[1], over `by`, times `times`.
static Node *size_of(TflOp *op, Node *x, int axis, int64_t by, int64_t times) {
  Graph *g = op->g;
  if (g->status) return g->poison;
  Dim d = type_of(x)->dims[axis];
  if (ie_is_const(d) && d->value % by)
    return tfl_fail(op, "blocks of %lld do not divide %lld", (long long)by, (long long)d->value);
  Node *n = tb_dims(g, x, axis, axis + 1);
  if (by > 1) n = N(g, div, n, node_i64(g, by));
  return times > 1 ? N(g, mul, n, node_i64(g, times)) : n;
}
static Node *shaped(Graph *g, Node *x, int n, Node *const *parts) {
  return NA(g, reshape, (&(reshape_attrs){.allowzero = true}), x, tb_concat(g, 0, n, parts));
}

static void space_to_batch(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *cut[MAX_RANK], *to[MAX_RANK];
  Blocks b = {0};
  if (!read_blocks(op, x, &b)) return;
  const TflTensor *t = tfl_in_tensor(op, 0);  // of quantised values the zero point is none
  double none = dtype_is_int(t->dtype) && t->zero.n ? (double)fb_i64_at(&t->zero, 0) : 0;
  if (b.n) x = N(g, pad, x, b.edge, tb_num(g, x, none), b.axes);
  cut[0] = size_of(op, x, 0, 1, 1);
  to[0] = size_of(op, x, 0, 1, b.all);
  for (int i = 1; i < b.rank; i++) {
    to[i] = size_of(op, x, i, i <= b.n ? b.block[i - 1] : 1, 1);
    cut[i <= b.n ? 2 * i - 1 : b.n + i] = to[i];
    if (i <= b.n) cut[2 * i] = node_i64s(g, 1, &b.block[i - 1]);
  }
  int64_t perm[MAX_RANK];
  for (int i = 0; i < b.n; i++) perm[i] = 2 * i + 2;
  perm[b.n] = 0;
  for (int i = 0; i < b.n; i++) perm[b.n + 1 + i] = 2 * i + 1;
  for (int i = 2 * b.n + 1; i < b.rank + b.n; i++) perm[i] = i;
  x = tb_transpose(g, shaped(g, x, b.rank + b.n, cut), b.rank + b.n, perm);
  tfl_give(op, 0, shaped(g, x, b.rank, to));
}

static void batch_to_space(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *cut[MAX_RANK], *to[MAX_RANK];
  Blocks b = {0};
  if (!read_blocks(op, x, &b)) return;
  int64_t perm[MAX_RANK];
  for (int i = 0; i < b.n; i++) cut[i] = node_i64s(g, 1, &b.block[i]);
  cut[b.n] = to[0] = size_of(op, x, 0, b.all, 1);
  perm[0] = b.n;
  for (int i = 1; i < b.rank; i++) {
    cut[b.n + i] = size_of(op, x, i, 1, 1);
    to[i] = size_of(op, x, i, 1, i <= b.n ? b.block[i - 1] : 1);
    perm[i <= b.n ? 2 * i - 1 : b.n + i] = b.n + i;
    if (i <= b.n) perm[2 * i] = i - 1;
  }
  x = tb_transpose(g, shaped(g, x, b.rank + b.n, cut), b.rank + b.n, perm);
  x = shaped(g, x, b.rank, to);
  if (b.n) {
    Node *begin = tb_slice(g, b.edge, 0, 0, b.n),
         *end = tb_slice(g, b.edge, 0, b.n, 2 * (int64_t)b.n);
    end = N(g, sub, tb_concat(g, 0, b.n, to + 1), end);
    x = N(g, slice, x, begin, N(g, max, begin, end), b.axes);
  }
  tfl_give(op, 0, x);
}

// ---- diagonals ----

static Node *diagonal(TflOp *op, int64_t rows, int64_t columns) {
  Graph *g = op->g;
  int64_t n, dims[] = {rows, columns};
  if (g->status) return g->poison;
  if (!shape_count(2, dims, &n) || n > MOST_TABLE) return tfl_fail(op, "matrices too large");
  uint8_t *mask = arena_alloc(&g->arena, n + 1);
  for (int64_t i = 0; i < MIN(rows, columns); i++) mask[i * columns + i] = 1;
  return node_const(g, DT_BOOL, 2, dims, mask, NULL);
}
static void matrix_diag(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  if (!g->status && rank < 1) tfl_fail(op, "of a scalar");
  int64_t n = tfl_size(op, x, rank - 1);
  tfl_give(op, 0, N(g, where, diagonal(op, n, n), tb_unsqueeze(g, x, rank), tb_num(g, x, 0)));
}
static void matrix_set_diag(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *d = tfl_in(op, 1);
  int rank = tfl_rank(op, x);
  if (!g->status && (rank < 2 || tfl_rank(op, d) != rank - 1)) tfl_fail(op, "of rank %d", rank);
  int64_t rows = tfl_size(op, x, rank - 2), columns = tfl_size(op, x, rank - 1);
  if (g->status) return;
  d = tb_unsqueeze(g, d, rows <= columns ? rank - 1 : rank - 2);
  tfl_give(op, 0, N(g, where, diagonal(op, rows, columns), d, x));
}

static void densify(TflOp *op) { tfl_give(op, 0, tfl_in(op, 0)); }  // made dense when it was read

// ---- StableHLO's ----

static void to_declared(TflOp *op, Node *x, bool expand) {
  const TflTensor *t = tfl_out_tensor(op, 0);
  Graph *g = op->g;
  if (!tfl_need(op, 0, 1)) return;
  for (int i = 0; i < t->rank; i++)
    if (t->open[i]) tfl_fail(op, "a result whose size is not known");
  tfl_give(op, 0,
           expand ? N(g, expand, x, node_i64s(g, t->rank, t->dims))
                  : tb_reshape(g, x, t->rank, t->dims));
}
static void hlo_reshape(TflOp *op) { to_declared(op, tfl_in(op, 0), false); }
static void hlo_broadcast(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  const TflTensor *t = tfl_out_tensor(op, 0);
  FbVector v = fb_vector(&op->o->options2, 0, 8);
  int rank = tfl_rank(op, x), next = 0;
  int64_t dims[MAX_RANK];
  if (!tfl_need(op, 1, 1)) return;
  if (v.n != rank) tfl_fail(op, "%lld axes for rank %d", (long long)v.n, rank);
  for (int i = 0; i < t->rank; i++) dims[i] = 1;
  for (int i = 0; i < rank && !g->status; i++) {
    int64_t axis = fb_i64_at(&v, i);
    if (axis < next || axis >= t->rank) tfl_fail(op, "axes that do not ascend");
    if (!g->status) dims[axis] = tfl_size(op, x, i);
    next = (int)MIN(axis, MAX_RANK) + 1;
  }
  if (!g->status) to_declared(op, tb_reshape(g, x, t->rank, dims), true);
}
static void hlo_iota(TflOp *op) {
  Graph *g = op->g;
  const TflTensor *t = tfl_out_tensor(op, 0);
  int64_t axis = fb_i64(&op->o->options2, 0, 0), dims[MAX_RANK];
  if (!tfl_need(op, 0, 1)) return;
  if (axis < 0 || axis >= t->rank || !t->dtype) {
    tfl_fail(op, "along axis %lld of rank %d", (long long)axis, t->rank);
    return;
  }
  for (int i = 0; i < t->rank; i++) dims[i] = i == axis ? t->dims[i] : 1;
  Node *count = N(g, range, node_i64(g, 0), node_i64(g, t->dims[axis]), node_i64(g, 1));
  to_declared(op, tb_cast(g, tb_reshape(g, count, t->rank, dims), t->dtype), true);
}

static const TflRow rows[] = {
    // clang-format off
    {5,   "DEPTH_TO_SPACE",             blocks_of_pixels,     2, OP_depth_to_space},
    {26,  "SPACE_TO_DEPTH",             blocks_of_pixels,     2, OP_space_to_depth},
    {34,  "PAD",                        pad_row,              4, 0},
    {37,  "BATCH_TO_SPACE_ND",          batch_to_space,       4, 0},
    {38,  "SPACE_TO_BATCH_ND",          space_to_batch,       4, 0},
    {39,  "TRANSPOSE",                  transpose_row,        6, 0},
    {60,  "PADV2",                      pad_row,              4, 0},
    {100, "MIRROR_PAD",                 mirror_pad,           3, 0},
    {105, "REVERSE_V2",                 reverse_v2,           3, 0},
    {112, "REVERSE_SEQUENCE",           reverse_sequence_row, 1, 0},
    {113, "MATRIX_DIAG",                matrix_diag,          1, 0},
    {115, "MATRIX_SET_DIAG",            matrix_set_diag,      1, 0},
    {124, "DENSIFY",                    densify,              1, 0},
    {167, "STABLEHLO_RESHAPE",          hlo_reshape,          1, 0},
    {170, "STABLEHLO_BROADCAST_IN_DIM", hlo_broadcast,        1, 0},
    {196, "STABLEHLO_IOTA",             hlo_iota,             1, 0},
    {202, "STABLEHLO_TRANSPOSE",        hlo_transpose,        1, 0},
    {203, "DILATE",                     dilate,               1, 0},
    // clang-format on
};
TFL_TABLE(move);
