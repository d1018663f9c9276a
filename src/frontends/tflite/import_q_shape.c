// import_q_shape.c -- pools, reductions, softmax, and movement that must know the zero point, on
// quantised values.
#include <math.h>

#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "eval/window.h"
#include "frontends/tflite/import_q.h"
#include "ir/opinfo.h"

// ---- pools ----

typedef struct Pool {
  int auto_pad;
  int64_t stride[2], kernel[2], activation;  // height, then width
} Pool;

static bool pool_options(TflOp *op, const QArg *x, Pool *p) {
  *p = (Pool){.auto_pad = tfl_auto_pad(op, tfl_opt_i8(op, 0, 0)),
              .stride = {tfl_opt_i32(op, 2, 1), tfl_opt_i32(op, 1, 1)},
              .kernel = {tfl_opt_i32(op, 4, 1), tfl_opt_i32(op, 3, 1)},
              .activation = tfl_opt_i8(op, 5, 0)};
  int rank = tfl_rank(op, x->x);
  if (op->g->status) return false;
  for (int i = 0; i < 2; i++)
    if (rank != 4 || p->stride[i] < 1 || p->kernel[i] < 1 || p->kernel[i] > 1 << 20) {
      tfl_fail(op, "an operand of rank %d, windows of %lld with the stride %lld", rank,
               (long long)p->kernel[i], (long long)p->stride[i]);
      return false;
    }
  return true;
}

static void max_pool(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  Pool p;
  if (!q_in(op, 0, &x) || !q_out(op, 0, &y) || !pool_options(op, &x, &p)) return;
  max_pool_attrs at;
  attrs_defaults(op_info(OP_max_pool)->attrs, op_info(OP_max_pool)->nattrs, &at);
  at.auto_pad = p.auto_pad;
  at.kernel_shape = (Ints){2, p.kernel};
  at.strides = (Ints){2, p.stride};
  Node *in = x.t == DT_I16 ? quant_cast(g, x.x, DT_F32) : x.x;
  Node *r = NA(g, max_pool, &at, tb_nchw(g, in, 4));
  r = quant_cast(g, tb_nhwc(g, r, 4), x.t);
  int64_t lo, hi;
  q_range(op, &y, p.activation, &lo, &hi);
  if (p.activation != ACT_NONE) r = quant_narrow(g, quant_cast(g, r, DT_I64), lo, hi, y.t);
  tfl_give(op, 0, r);
}

// Sums over windows, as a convolution of each channel with ones: pads add nothing.
static Node *window_sums(TflOp *op, Node *x, const Pool *p) {
  Graph *g = op->g;
  DType t = type_of(x)->dtype;
  int64_t channels = tfl_size(op, x, 3), dims[] = {channels, 1, p->kernel[0], p->kernel[1]};
  if (g->status) return g->poison;
  conv_attrs at = {.auto_pad = p->auto_pad, .strides = {2, p->stride}, .group = channels};
  bool wide = t == DT_I16;
  Node *ones = tb_full(g, node_i64s(g, 4, dims), wide ? DT_F64 : DT_I8, 1);
  x = tb_nchw(g, x, 4);
  Node *y = wide ? NA(g, conv, &at, quant_cast(g, x, DT_F64), ones)
                 : NA(g, conv_integer, &at, x, ones, g->none, g->none);
  return quant_cast(g, tb_nhwc(g, y, 4), DT_I64);
}

static void average_pool(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  Pool p;
  if (!q_in(op, 0, &x) || !q_out(op, 0, &y) || !pool_options(op, &x, &p)) return;
  Node *sum = window_sums(op, x.x, &p), *count = node_i64(g, p.kernel[0] * p.kernel[1]);
  if (p.auto_pad != PAD_VALID) {
    Node *one = tb_slice(g, x.x, 3, 0, 1);
    count = window_sums(op, quant_cast(g, N(g, eq, one, one), DT_I8), &p);
  }
  Node *half = N(g, shift_right, count, node_i64(g, 1));
  Node *up = N(g, lt, node_i64(g, 0), sum);
  Node *near = N(g, where, up, N(g, add, sum, half), N(g, sub, sum, half));
  // Towards zero; in f64, where a quotient of such integers has the right whole part and a window
  // of pads alone is no fault.
  Node *mean = N(g, div, quant_cast(g, near, DT_F64), quant_cast(g, count, DT_F64));
  int64_t lo, hi;
  q_range(op, &y, p.activation, &lo, &hi);
  tfl_give(op, 0, quant_narrow(g, quant_cast(g, mean, DT_I64), lo, hi, y.t));
}

// ---- reductions ----

static bool reduced_axes(TflOp *op, const Node *x, Ints *axes, int64_t *count) {
  Ints given = tfl_need_ints(op, 1, "the axes");
  int rank = tfl_rank(op, x);
  int64_t *v = arena_array(&op->g->arena, int64_t, given.n + 1);
  bool seen[MAX_RANK] = {false};
  *count = 1;
  *axes = (Ints){0, v};
  for (int64_t i = 0; i < given.n && !op->g->status; i++) {
    int64_t axis = tfl_axis(op, given.v[i], rank);
    if (op->g->status || seen[axis]) continue;
    seen[axis] = true;
    v[axes->n++] = axis;
    int64_t size = tfl_size(op, x, (int)axis);
    if (!op->g->status && !ck_mul(*count, size, count)) tfl_fail(op, "too many elements");
  }
  return !op->g->status;
}

// The product of one element after the other, each step scaled by the same factor, since sums of 32
// bits hold no more.
enum { MOST_FACTORS = 256 };
static void reduce_prod(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  Ints axes;
  int64_t count, perm[MAX_RANK], dims[MAX_RANK + 1];
  if (!q_in(op, 0, &x) || !q_out(op, 0, &y) || !q_single(op, &x) ||
      !reduced_axes(op, x.x, &axes, &count))
    return;
  int rank = tfl_rank(op, x.x), n = 0, kept = 0;
  if (count < 1 || count > MOST_FACTORS) tfl_fail(op, "a product of %lld", (long long)count);
  for (int i = 0; i < rank && !g->status; i++) {
    bool gone = false;
    for (int64_t k = 0; k < axes.n; k++) gone = gone || axes.v[k] == i;
    if (!gone) perm[n++] = i, dims[kept++] = tfl_size(op, x.x, i);
  }
  for (int i = 0; i < rank && !g->status; i++) {
    bool gone = false;
    for (int64_t k = 0; k < axes.n; k++) gone = gone || axes.v[k] == i;
    if (gone) perm[n++] = i;
  }
  if (g->status) return;
  dims[kept] = count;
  Node *v =
      tb_reshape(g, tb_transpose(g, quant_wide(g, x.x, q_zero(&x)), rank, perm), kept + 1, dims);
  double each = (double)q_scale(&x) / pow((double)q_scale(&y), 1.0 / (double)count);
  QMul m = quant_multiplier(each);
  Node *p = NULL;
  for (int64_t i = 0; i < count; i++) {
    Node *one = tb_slice(g, v, kept, i, i + 1);
    p = p ? quant_scale64(g, N(g, mul, p, one), &m, 1) : one;
  }
  if (tfl_opt_bool(op, 0, false)) {
    for (int i = 0; i < rank; i++) dims[i] = tfl_size(op, x.x, i);
    for (int64_t k = 0; k < axes.n; k++) dims[axes.v[k]] = 1;
    kept = rank;
  }
  q_give(op, &y, tb_reshape(g, quant_scale64(g, p, &m, 1), kept, dims), ACT_NONE);
}

static void mean_or_sum(TflOp *op, bool mean) {
  Graph *g = op->g;
  QArg x, y;
  Ints axes;
  int64_t count;
  if (!q_in(op, 0, &x) || !q_out(op, 0, &y) || !q_single(op, &x) ||
      !reduced_axes(op, x.x, &axes, &count))
    return;
  QMul m = quant_multiplier((double)q_scale(&x) / (double)q_scale(&y));
  if (mean &&
      count > 0) {  // the division goes into the multiplier, with all the bits it has room for
    int shift = 0;
    while (shift < 62 && (count >> (shift + 1))) shift++;
    shift = MIN(MIN(shift, 32), 31 + m.shift);
    m.m = (m.m << shift) / count;
    m.shift -= shift;
  }
  Node *sum =
      tb_reduce(g, OP_reduce_sum, quant_wide(g, x.x, q_zero(&x)), axes, tfl_opt_bool(op, 0, false));
  q_give(op, &y, quant_scale32(g, sum, &m, 1), ACT_NONE);
}
static void mean(TflOp *op) { mean_or_sum(op, true); }
static void sum(TflOp *op) { mean_or_sum(op, false); }

// ---- softmax ----

static Node *row_max(Graph *g, Node *x) {
  int64_t last = -1;
  return tb_reduce(g, OP_reduce_max, x, (Ints){1, &last}, true);
}
static Node *row_sum(Graph *g, Node *x) {
  int64_t last = -1;
  return tb_reduce(g, OP_reduce_sum, x, (Ints){1, &last}, true);
}
static Node *look_up(Graph *g, int64_t n, const int64_t *v, Node *at) {
  return N(g, gather, node_const(g, DT_I64, 1, &n, v, NULL), at);
}

static void softmax_bytes(TflOp *op, const QArg *x, const QArg *y, double beta) {
  Graph *g = op->g;
  enum { INTEGER_BITS = 5, SUM_BITS = 12, N_DIFF = 256 };
  double real = MIN(beta * (double)q_scale(x) * (double)(1 << (31 - INTEGER_BITS)), 2147483647.0);
  QMul m = quant_multiplier(real);
  int least = -quant_radius(INTEGER_BITS, m.shift);
  int64_t whole[N_DIFF] = {0}, part[N_DIFF] = {0};  // exp of -i at 256 - i, and as it is summed
  for (int i = 0; i < N_DIFF; i++) {
    if (-i < least) break;
    int64_t e = quant_exp_negative(quant_mul32(-i, m), INTEGER_BITS);
    whole[i ? N_DIFF - i : 0] = e;
    part[i ? N_DIFF - i : 0] = quant_shift(e, SUM_BITS);
  }
  Node *wide = quant_cast(g, x->x, DT_I32);
  Node *diff = N(g, sub, wide, row_max(g, wide));
  Node *total = row_sum(g, look_up(g, N_DIFF, part, diff));
  Node *zeros = quant_leading_zeros(g, total);
  Node *fraction = N(g, sub, N(g, shift_left, total, zeros), node_i64(g, (int64_t)1 << 31));
  Node *scale = quant_reciprocal(g, fraction);
  // Bits of the sum above 1, and those that the result does not have.
  int64_t bits = y->t == DT_I16 ? 16 : 8;
  Node *by = N(g, sub, node_i64(g, SUM_BITS + 31 - bits), zeros);
  Node *half = N(g, shift_left, node_i64(g, 1), N(g, sub, by, node_i64(g, 1)));
  Node *p = quant_high_mul_node(g, scale, look_up(g, N_DIFF, whole, diff));
  Node *q = N(g, shift_right, N(g, add, p, half), by);
  int64_t lo = quant_min(y->t), hi = quant_max(y->t);
  tfl_give(op, 0, quant_narrow(g, N(g, add, q, node_i64(g, lo)), lo, hi, y->t));
}

static double exp_of(double x, const void *arg) {
  (void)arg;
  return (double)expf((float)x);
}
static double one_over(double x, const void *arg) {
  (void)arg;
  return (double)(1.0f / (1.0f + (float)x));
}

static void softmax_words(TflOp *op, const QArg *x, const QArg *y, double beta) {
  Graph *g = op->g;
  enum { N_DIFF = 65536 };
  int16_t exp_lut[513], inverse_lut[513];
  quant_lut_16(10.0f / 65535, INT16_MAX, 2.0f / 65535, 0, exp_of, NULL, exp_lut);
  quant_lut_16(1.0f / 65535, INT16_MIN, 2.0f / 65535, 0, one_over, NULL, inverse_lut);
  QMul m = quant_multiplier((double)q_scale(x) * beta / (10.0 / 65535.0));
  int64_t *e = arena_array(&g->arena, int64_t, N_DIFF),
          *inverse = arena_array(&g->arena, int64_t, N_DIFF);
  for (int64_t i = 0; i < N_DIFF; i++) {
    int64_t s = quant_mul32(-i, m) + 32767;
    e[i ? N_DIFF - i : 0] = quant_lut_16_at(exp_lut, MIN(MAX(s, -32768), 32767));
    inverse[i] = quant_lut_16_at(inverse_lut, i - 32768);
  }
  Node *wide = quant_cast(g, x->x, DT_I32);
  Node *each = look_up(g, N_DIFF, e, N(g, sub, wide, row_max(g, wide)));
  Node *total = row_sum(g, each), *zeros = quant_leading_zeros(g, total);
  Node *shifted = N(g, shift_left, total, N(g, sub, zeros, node_i64(g, 1)));
  shifted = N(g, shift_right, N(g, add, shifted, node_i64(g, 1 << 13)), node_i64(g, 14));
  Node *at = quant_clamp(g, N(g, sub, shifted, node_i64(g, 1 << 16)), 0, 65535);
  Node *p = N(g, mul, each, look_up(g, N_DIFF, inverse, at));
  Node *by = N(g, sub, node_i64(g, 31), zeros);
  Node *half = N(g, shift_left, node_i64(g, 1), N(g, sub, by, node_i64(g, 1)));
  Node *q = N(g, shift_right, N(g, add, p, half), by);
  tfl_give(op, 0, quant_narrow(g, q, 0, INT16_MAX, y->t));
}

static bool rows_in(TflOp *op, QArg *x, QArg *y) {
  if (!q_in(op, 0, x) || !q_out(op, 0, y) || !q_single(op, x)) return false;
  bool narrow = dtype_bits(x->t) <= 16 && dtype_bits(y->t) <= 16;
  if (tfl_rank(op, x->x) > 0 && narrow) return true;
  tfl_fail(op, "an operand without axes, or of more than 16 bits");
  return false;
}

static void softmax(TflOp *op) {
  QArg x, y;
  if (!rows_in(op, &x, &y)) return;
  double beta = tfl_opt_f32(op, 0, 0);
  if (beta < 0 || !(beta * (double)q_scale(&x) * (1 << 26) > 1))
    tfl_fail(op, "beta %g with the scale %g", beta, (double)q_scale(&x));
  else if (x.t == DT_I16)
    softmax_words(op, &x, &y, beta);
  else
    softmax_bytes(op, &x, &y, beta);
}

// Over reals, rounded once: the kernels differ among themselves by a unit here.
static void log_softmax(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  if (!rows_in(op, &x, &y)) return;
  Node *wide = quant_cast(g, x.x, DT_I32);
  Node *diff = quant_cast(g, N(g, sub, wide, row_max(g, wide)), DT_F64);
  Node *real = N(g, mul, diff, node_scalar(g, DT_F64, (double)q_scale(&x)));
  Node *r = N(g, sub, real, N(g, log, row_sum(g, N(g, exp, real))));
  r = N(g, div, r, node_scalar(g, DT_F64, (double)q_scale(&y)));
  q_give(op, &y, quant_cast(g, quant_round_node(g, r), DT_I64), ACT_NONE);
}

// The result's scale is 1/128, its zero point the middle.
static void l2_normalization(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  if (!rows_in(op, &x, &y)) return;
  Node *v = quant_cast(g, quant_wide(g, x.x, q_zero(&x)), DT_F64);
  Node *norm = N(g, sqrt, row_sum(g, N(g, mul, v, v)));
  norm = N(g, max, norm, node_scalar(g, DT_F64, 1));
  Node *r = N(g, mul, N(g, div, v, norm), node_scalar(g, DT_F64, 1 / (double)q_scale(&y)));
  q_give(op, &y, quant_cast(g, quant_round_node(g, r), DT_I64), ACT_NONE);
}

// ---- movement ----

// What a value of `from` is in the scale of `to`.
static Node *rescaled(TflOp *op, const QArg *from, const QArg *to) {
  Graph *g = op->g;
  if (q_same(from, to)) return from->x;
  if (from->t != to->t || (from->t != DT_I8 && from->t != DT_U8 && from->t != DT_I16))
    return tfl_fail(op, "operands of different types");
  int64_t n = from->t == DT_I16 ? 65536 : 256, low = quant_min(from->t);
  int64_t *v = arena_array(&g->arena, int64_t, n);
  float scale = q_scale(from) * (1.0f / q_scale(to)), bias = -(float)q_zero(from) * scale;
  for (int64_t q = low; q < low + n; q++) {
    float r = roundf((float)q * scale + bias);
    int64_t value = (int64_t)MIN(MAX(r, -1e9f), 1e9f) + q_zero(to);
    v[q < 0 ? q + n : q] = MIN(MAX(value, quant_min(to->t)), quant_max(to->t));
  }
  return q_table(op, from->x, to->t, v);
}

static void concatenation(TflOp *op) {
  Graph *g = op->g;
  QArg y;
  if (!tfl_need(op, 1, 1) || !q_out(op, 0, &y)) return;
  Node **x = arena_array(&g->arena, Node *, op->nin);
  for (int i = 0; i < op->nin; i++) {
    QArg a;
    if (!q_in(op, i, &a) || !q_single(op, &a)) return;
    // Bytes alone are brought to the result's scale; the kernels copy 16 bits as they are.
    x[i] = a.t == DT_I16 && y.t == DT_I16 ? a.x : rescaled(op, &a, &y);
  }
  if (g->status) return;
  int64_t lo, hi, activation = tfl_opt_i8(op, 1, 0);
  Node *r = tb_concat(g, tfl_axis(op, tfl_opt_i32(op, 0, 0), tfl_rank(op, x[0])), op->nin, x);
  q_range(op, &y, activation, &lo, &hi);
  tfl_give(op, 0,
           activation == ACT_NONE ? r : quant_narrow(g, quant_cast(g, r, DT_I64), lo, hi, y.t));
}

// ---- images ----

enum { RESIZE_BITS = 10, MOST_PIXELS = 1 << 18 };

// x between two neighbours along an axis, with weights of 10 bits: sums in i64.
static Node *between(TflOp *op, Node *x, int axis, int64_t size, bool corners, bool half) {
  Graph *g = op->g;
  int64_t in = tfl_size(op, x, axis), one = 1 << RESIZE_BITS;
  if (g->status) return g->poison;
  if (in < 1 || size < 1 || in > MOST_PIXELS || size > MOST_PIXELS)
    return tfl_fail(op, "%lld pixels to %lld", (long long)in, (long long)size);
  int64_t scale = corners && size > 1 ? (one * (in - 1) + (size - 1) / 2) / (size - 1)
                                      : (one * in + size / 2) / size;
  int64_t *v = arena_array(&g->arena, int64_t, 4 * size), *lo = v, *hi = v + size, *wl = hi + size,
          *wh = wl + size;
  for (int64_t i = 0; i < size; i++) {
    int64_t at = half ? i * scale + scale / 2 - one / 2 : i * scale;
    lo[i] = MIN(MAX(at / one, 0), in - 1);
    hi[i] = MIN((at + one - 1) / one, in - 1);
    wh[i] = at - one * lo[i];
    wl[i] = one - wh[i];
  }
  int64_t dims[] = {1, 1, 1, 1};
  dims[axis] = size;
  gather_attrs at = {.axis = axis};
  Node *a = NA(g, gather, &at, x, node_i64s(g, size, lo));
  Node *b = NA(g, gather, &at, x, node_i64s(g, size, hi));
  Node *wa = node_const(g, DT_I64, 4, dims, wl, NULL),
       *wb = node_const(g, DT_I64, 4, dims, wh, NULL);
  return N(g, add, N(g, mul, a, wa), N(g, mul, b, wb));
}

static void resize_bilinear(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  Ints size = tfl_need_ints(op, 1, "the size");
  if (!q_in(op, 0, &x) || !q_out(op, 0, &y)) return;
  if (size.n != 2 || tfl_rank(op, x.x) != 4) {
    tfl_fail(op, "must be an image and two sizes");
    return;
  }
  bool corners = tfl_opt_bool(op, 2, false), half = tfl_opt_bool(op, 3, false);
  Node *v = between(op, quant_cast(g, x.x, DT_I64), 1, size.v[0], corners, half);
  v = between(op, v, 2, size.v[1], corners, half);
  Node *up = node_i64(g, 1 << (2 * RESIZE_BITS - 1)),
       *down = node_i64(g, -(1 << (2 * RESIZE_BITS - 1)));
  Node *near = N(g, add, v, N(g, where, N(g, lt, node_i64(g, 0), v), up, down));
  Node *r = N(g, div, near, node_i64(g, 1 << (2 * RESIZE_BITS)));
  tfl_give(op, 0, quant_narrow(g, r, quant_min(y.t), quant_max(y.t), y.t));
}

// Rows of a table, which become floats where the result is.
static void embedding_lookup(TflOp *op) {
  Graph *g = op->g;
  QArg table;
  const TflTensor *to = tfl_out_tensor(op, 0);
  if (!q_in(op, 1, &table) || !to) return;
  Node *rows_of = N(g, gather, table.x, tfl_in(op, 0));
  if (to->dtype == DT_F32) {
    if (!q_single(op, &table)) return;
    Node *wide = quant_cast(g, quant_wide(g, rows_of, q_zero(&table)), DT_F32);
    rows_of = N(g, mul, wide, node_scalar(g, DT_F32, (double)q_scale(&table)));
  }
  tfl_give(op, 0, rows_of);
}

// paddings [rank, 2]: begins, then ends.
static void pad(TflOp *op) {
  Graph *g = op->g;
  QArg x, y;
  if (!q_in(op, 0, &x) || !q_out(op, 0, &y) || !q_single(op, &x)) return;
  Node *pads = tb_transpose(g, quant_cast(g, tfl_in(op, 1), DT_I64), 2, (int64_t[]){1, 0});
  Node *value = node_scalar(g, x.t, (double)q_zero(&y));
  tfl_give(op, 0, N(g, pad, x.x, tb_reshape(g, pads, 1, (int64_t[]){-1}), value));
}

static const QRow rows[] = {
    {1, average_pool},
    {2, concatenation},
    {81, reduce_prod},
    {7, embedding_lookup},
    {23, resize_bilinear},
    {11, l2_normalization},
    {17, max_pool},
    {25, softmax},
    {34, pad},
    {40, mean},
    {50, log_softmax},
    {74, sum},
};
Q_TABLE(shape);
