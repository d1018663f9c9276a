// import_nn.c -- products, convolutions, pools and normalisations on plain values.
//
// Images are channels last, the graph's operators channels first.  So the reader puts transposes
// around them, which the layout pass removes.
#include "eval/contract.h"
#include "eval/image.h"
#include "eval/norm.h"
#include "eval/window.h"
#include "frontends/tflite/import.h"

enum { MOST_SPATIAL = 3 };

// ---- matrices ----

// The last axis of x with each row of w [units, depth].
static void fully_connected(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *w = tfl_in(op, 1), *b = tfl_in_opt(op, 2);
  if (tfl_opt_i8(op, 1, 0)) tfl_fail(op, "shuffled weights");
  bool keep = tfl_opt_bool(op, 2, false);
  int rank = tfl_rank(op, x), wrank = tfl_rank(op, w);
  if (!g->status && wrank != 2) tfl_fail(op, "weights of rank %d", wrank);
  int64_t depth = tfl_size(op, w, 1), perm[] = {1, 0}, to[] = {-1, depth};
  if (!g->status && depth < 1) tfl_fail(op, "weights without columns");
  if (g->status) return;
  if (!keep || rank < 2) x = tb_reshape(g, x, 2, to);
  Node *y = N(g, mat_mul, x, tb_transpose(g, w, 2, perm));
  if (b) y = N(g, add, y, b);
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, 0, 0)));
}

static Node *adjoint(TflOp *op, Node *x, bool swap) {
  int rank = tfl_rank(op, x);
  int64_t perm[MAX_RANK];
  if (op->g->status || !swap) return x;
  if (rank < 2) return tfl_fail(op, "an operand of rank %d", rank);
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  return tb_transpose(op->g, x, rank, perm);
}
static void batch_mat_mul(TflOp *op) {
  Node *x = adjoint(op, tfl_in(op, 0), tfl_opt_bool(op, 0, false));
  Node *y = adjoint(op, tfl_in(op, 1), tfl_opt_bool(op, 1, false));
  tfl_give(op, 0, N(op->g, mat_mul, x, y));
}

// ---- windows ----

// n fields of the options, at least 1 each; false: failed.
static bool positive(TflOp *op, int n, const int *field, int64_t dflt, int64_t *out) {
  for (int i = 0; i < n; i++) {
    out[i] = field[i] < 0 ? 1 : tfl_opt_i32(op, field[i], dflt);
    if (out[i] < 1 || out[i] >= WINDOW_MAX) {
      tfl_fail(op, "a stride, size or dilation of %lld", (long long)out[i]);
      return false;
    }
  }
  return true;
}

typedef struct ConvForm {
  int spatial, stride[MOST_SPATIAL], dilation[MOST_SPATIAL], activation;
  int64_t perm[MOST_SPATIAL + 2];  // of the weights, to [out, in, taps...]
} ConvForm;
static const ConvForm conv_2d = {2, {2, 1}, {5, 4}, 3, {0, 3, 1, 2}};
static const ConvForm depthwise = {2, {2, 1}, {6, 5}, 4, {3, 0, 1, 2}};
static const ConvForm conv_3d = {3, {1, 3, 2}, {5, 7, 6}, 4, {4, 3, 0, 1, 2}};

static void convolution(TflOp *op, const ConvForm *f, bool by_channel) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *w = tfl_in(op, 1), *b = tfl_in_opt(op, 2);
  int rank = f->spatial + 2;
  int64_t strides[MOST_SPATIAL], dilations[MOST_SPATIAL];
  if (tfl_rank(op, x) != rank || tfl_rank(op, w) != rank) {
    tfl_fail(op, "operands must have rank %d", rank);
    return;
  }
  if (!positive(op, f->spatial, f->stride, 0, strides)) return;
  if (!positive(op, f->spatial, f->dilation, 1, dilations)) return;
  w = tb_transpose(g, w, rank, f->perm);
  int64_t channels = tfl_size(op, x, rank - 1), each = by_channel ? 1 : tfl_size(op, w, 1);
  if (!g->status && (each < 1 || channels < 1 || channels % each))
    tfl_fail(op, "%lld channels, weights for %lld", (long long)channels, (long long)each);
  if (g->status) return;
  conv_attrs at = {.auto_pad = tfl_auto_pad(op, tfl_opt_i8(op, 0, 0)),
                   .strides = {f->spatial, strides},
                   .dilations = {f->spatial, dilations},
                   .group = channels / each};
  Node *src[] = {tb_nchw(g, x, rank), w, b};
  Node *y = tb_nhwc(g, node_new(g, OP_conv, b ? 3 : 2, src, &at, 0, NULL), rank);
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, f->activation, 0)));
}
static void conv_2d_row(TflOp *op) { convolution(op, &conv_2d, false); }
static void depthwise_row(TflOp *op) { convolution(op, &depthwise, true); }
static void conv_3d_row(TflOp *op) { convolution(op, &conv_3d, false); }

static const ConvForm transpose_conv = {2, {2, 1}, {-1, -1}, 3, {3, 0, 1, 2}};
static const ConvForm transpose_conv_3d = {3, {1, 3, 2}, {-1, -1, -1}, 4, {4, 3, 0, 1, 2}};

// Along one axis: what is cut off the full result at begin and end, or added to it.
static void cut(TflOp *op, bool same, int64_t in, int64_t k, int64_t stride, int64_t out,
                int64_t *lo, int64_t *hi, int64_t *more) {
  int64_t steps = (out + stride - 1) / stride, total = MAX((steps - 1) * stride + k - out, 0);
  *lo = same ? total / 2 : 0;
  *hi = (in - 1) * stride + k - *lo - out;
  *more = *hi < 0 ? -*hi : 0;
  *hi = MAX(*hi, 0);
  if (in < 1 || out < 1 || *more >= stride)
    tfl_fail(op, "a result of %lld from %lld by %lld taps", (long long)out, (long long)in,
             (long long)k);
}

Node *tfl_transposed(TflOp *op, const TflTransposed *t) {
  Graph *g = op->g;
  int n = t->spatial, rank = n + 2;
  int64_t pads[2 * MOST_SPATIAL], more[MOST_SPATIAL];
  for (int i = 0; i < n && !g->status; i++) {
    int64_t in = tfl_size(op, t->x, i + 1), k = tfl_size(op, t->w, i + 2);
    if (in >= WINDOW_MAX || k >= WINDOW_MAX || t->out[i] >= WINDOW_MAX) tfl_fail(op, "too large");
    if (g->status) break;
    cut(op, t->same, in, k, t->strides[i], t->out[i], &pads[i], &pads[n + i], &more[i]);
  }
  if (g->status) return g->poison;
  conv_transpose_attrs at = {
      .strides = {n, t->strides}, .pads = {2 * n, pads}, .output_padding = {n, more}, .group = 1};
  Node *src[] = {tb_nchw(g, t->x, rank), t->w, t->bias};
  return tb_nhwc(g, node_new(g, OP_conv_transpose, t->bias ? 3 : 2, src, &at, 0, NULL), rank);
}

static void transposed(TflOp *op, const ConvForm *f) {  // (output_shape, weights, x, bias?)
  Node *w = tfl_in(op, 1), *x = tfl_in(op, 2), *b = tfl_in_opt(op, 3);
  Ints shape = tfl_need_ints(op, 0, "the shape of the result");
  int n = f->spatial, rank = n + 2;
  int64_t strides[MOST_SPATIAL];
  if (tfl_rank(op, x) != rank || tfl_rank(op, w) != rank || shape.n != rank) {
    tfl_fail(op, "operands must have rank %d", rank);
    return;
  }
  if (!positive(op, n, f->stride, 0, strides)) return;
  bool same = tfl_auto_pad(op, tfl_opt_i8(op, 0, 0)) == PAD_SAME_UPPER;
  Node *y = tfl_transposed(op, &(TflTransposed){.x = x,
                                                .w = tb_transpose(op->g, w, rank, f->perm),
                                                .bias = b,
                                                .spatial = n,
                                                .strides = strides,
                                                .out = shape.v + 1,
                                                .same = same});
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, f->activation, 0)));
}
static void transpose_conv_row(TflOp *op) { transposed(op, &transpose_conv); }
static void transpose_conv_3d_row(TflOp *op) { transposed(op, &transpose_conv_3d); }

typedef enum { POOL_MAX, POOL_AVERAGE, POOL_L2 } PoolKind;

static void pool(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  PoolKind kind = (PoolKind)op->row->arg;
  int64_t strides[2], kernel[2];
  if (tfl_rank(op, x) != 4) {
    tfl_fail(op, "the operand must have rank 4");
    return;
  }
  if (!positive(op, 2, (const int[]){2, 1}, 0, strides)) return;
  if (!positive(op, 2, (const int[]){4, 3}, 0, kernel)) return;
  int pad = tfl_auto_pad(op, tfl_opt_i8(op, 0, 0));
  Node *y = tb_nchw(g, x, 4);
  if (kind == POOL_L2) y = N(g, mul, y, y);
  if (kind == POOL_MAX) {
    max_pool_attrs at = {.auto_pad = pad, .strides = {2, strides}, .kernel_shape = {2, kernel}};
    y = node_new(g, OP_max_pool, 1, &y, &at, 1, NULL);
  } else {
    average_pool_attrs at = {.auto_pad = pad, .strides = {2, strides}, .kernel_shape = {2, kernel}};
    y = NA(g, average_pool, &at, y);
  }
  if (kind == POOL_L2) y = N(g, sqrt, y);
  tfl_give(op, 0, tfl_activate(op, tb_nhwc(g, y, 4), tfl_opt_i8(op, 5, 0)));
}

// ---- normalisations ----

static void softmax_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  double beta = tfl_opt_f32(op, 0, 0);
  if (beta != 1) x = N(g, mul, x, tb_num(g, x, beta));
  tfl_give(op, 0, NA(g, softmax, (&(softmax_attrs){.axis = -1}), x));
}
static void log_softmax_row(TflOp *op) {
  tfl_give(op, 0, NA(op->g, log_softmax, (&(log_softmax_attrs){.axis = -1}), tfl_in(op, 0)));
}
static void l2_normalization(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int64_t last = tfl_rank(op, x) - 1;
  if (!g->status && last < 0) tfl_fail(op, "of a scalar");
  if (g->status) return;
  Node *norm = N(g, sqrt, tb_reduce(g, OP_reduce_sum, N(g, mul, x, x), (Ints){1, &last}, true));
  Node *y = N(g, div, x, N(g, max, norm, tb_num(g, x, 1e-6)));
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, 0, 0)));
}
static void local_response(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  int64_t radius = tfl_opt_i32(op, 0, 0);
  if (!g->status && (rank < 3 || radius < 0 || radius > 1 << 20))
    tfl_fail(op, "radius %lld, rank %d", (long long)radius, rank);
  if (g->status) return;
  double size = (double)(2 * radius + 1);
  lrn_attrs at = {.size = 2 * radius + 1,
                  .bias = tfl_opt_f32(op, 1, 0),
                  .alpha = tfl_opt_f32(op, 2, 0) * size,
                  .beta = tfl_opt_f32(op, 3, 0)};
  tfl_give(op, 0, tb_nhwc(g, NA(g, lrn, &at, tb_nchw(g, x, rank)), rank));
}

// ---- images ----

static void resize_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *size = tfl_in(op, 1);
  bool linear = op->row->arg == RESIZE_LINEAR;
  int first = linear ? 2 : 0;
  bool corners = tfl_opt_bool(op, first, false), half = tfl_opt_bool(op, first + 1, false);
  if (tfl_rank(op, x) != 4) tfl_fail(op, "the operand must have rank 4");
  if (corners && half) tfl_fail(op, "align_corners together with half_pixel_centers");
  if (g->status) return;
  int64_t axes[] = {1, 2};
  resize_attrs at = {.axes = {2, axes}, .mode = op->row->arg, .cubic_coeff_a = -0.75};
  at.coordinate_transformation_mode = corners  ? RESIZE_CORNERS
                                      : !half  ? RESIZE_ASYMMETRIC
                                      : linear ? RESIZE_HALF_PIXEL
                                               : RESIZE_TF_HALF;
  at.nearest_mode = corners ? RESIZE_PREFER_CEIL : RESIZE_FLOOR;
  Node *src[] = {x, g->none, g->none, tb_cast(g, size, DT_I64)};
  tfl_give(op, 0, node_new(g, OP_resize, 4, src, &at, 0, NULL));
}

static const TflRow rows[] = {
    // clang-format off
    {1,   "AVERAGE_POOL_2D",              pool, 3,  POOL_AVERAGE},
    {3,   "CONV_2D",                      conv_2d_row, 8,  0},
    {4,   "DEPTHWISE_CONV_2D",            depthwise_row, 7,  0},
    {9,   "FULLY_CONNECTED",              fully_connected, 14, 0},
    {11,  "L2_NORMALIZATION",             l2_normalization, 2,  0},
    {12,  "L2_POOL_2D",                   pool, 1,  POOL_L2},
    {13,  "LOCAL_RESPONSE_NORMALIZATION", local_response, 1,  0},
    {17,  "MAX_POOL_2D",                  pool, 3,  POOL_MAX},
    {23,  "RESIZE_BILINEAR",              resize_row, 4,  RESIZE_LINEAR},
    {25,  "SOFTMAX",                      softmax_row, 4,  0},
    {50,  "LOG_SOFTMAX",                  log_softmax_row, 2,  0},
    {67,  "TRANSPOSE_CONV",               transpose_conv_row, 5,  0},
    {97,  "RESIZE_NEAREST_NEIGHBOR",      resize_row, 4,  RESIZE_NEAREST},
    {126, "BATCH_MATMUL",                 batch_mat_mul, 4,  0},
    {132, "CONV_3D",                      conv_3d_row, 1,  0},
    {141, "CONV_3D_TRANSPOSE",            transpose_conv_3d_row, 1,  0},
    // clang-format on
};
TFL_TABLE(nn);
