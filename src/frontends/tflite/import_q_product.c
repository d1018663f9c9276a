// import_q_product.c -- convolutions and matrix products of quantised values.
//
// 8-bit operands are multiplied and summed in 32 bits (conv_integer, mat_mul_integer); 16-bit ones
// in f64, which is exact for them as long as sums stay below 2^53.  Sums are then scaled in i64, by
// channel.  Float operands with 8-bit weights are quantised as they come, row by row.
#include "eval/contract.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "eval/window.h"
#include "frontends/tflite/import_q.h"

// Multipliers for `channels` outputs: one where all are the same.
static int64_t multipliers(TflOp *op, const QArg *x, const QArg *w, const QArg *y, int64_t channels,
                           QMul **out) {
  if (w->n != 1 && w->n != channels) {
    tfl_fail(op, "%lld scales for %lld channels", (long long)w->n, (long long)channels);
    return 0;
  }
  *out = arena_array(&op->g->arena, QMul, w->n);
  for (int64_t i = 0; i < w->n; i++)
    (*out)[i] = quant_multiplier((double)q_scale(x) * (double)w->scale[i] / (double)q_scale(y));
  if (x->t == DT_U8) (*out)[0] = q_product(x, w, y);
  return w->n;
}

static bool check_types(TflOp *op, const QArg *x, const QArg *w) {
  bool bytes = (x->t == DT_I8 || x->t == DT_U8) && (w->t == DT_I8 || w->t == DT_U8);
  if (bytes || (x->t == DT_I16 && (w->t == DT_I8 || w->t == DT_I16))) return true;
  tfl_fail(op, "%s with weights of %s", dtype_name(x->t), dtype_name(w->t));
  return false;
}

// As the kernels do it: 64-bit sums of 16-bit values, unless there is a bias of 32 bits.
static Node *scale_sum(TflOp *op, const QArg *x, Node *sum, const Node *bias, const QMul *m,
                       int64_t n) {
  bool wide = x->t == DT_I16 && !(bias && type_of(bias)->dtype == DT_I32);
  return wide ? quant_scale64(op->g, sum, m, n) : quant_scale32(op->g, sum, m, n);
}

static Node *in_f64(Graph *g, const QArg *a) {
  return quant_cast(g, a->n == 1 && q_zero(a) ? quant_wide(g, a->x, q_zero(a)) : a->x, DT_F64);
}

static Node *add_bias(TflOp *op, Node *sum, Node *bias) {
  return bias ? N(op->g, add, sum, quant_cast(op->g, bias, DT_I64)) : sum;
}

// ---- convolutions ----

typedef struct ConvOptions {
  int64_t padding, stride[2], dilation[2], activation;  // height, then width
} ConvOptions;

static ConvOptions conv_options(TflOp *op, int activation, int dilation) {
  ConvOptions c = {.padding = tfl_opt_i8(op, 0, 0),
                   .stride = {tfl_opt_i32(op, 2, 1), tfl_opt_i32(op, 1, 1)},
                   .dilation = {1, 1},
                   .activation = tfl_opt_i8(op, activation, 0)};
  if (dilation) {
    c.dilation[0] = tfl_opt_i32(op, dilation + 1, 1);
    c.dilation[1] = tfl_opt_i32(op, dilation, 1);
  }
  for (int i = 0; i < 2; i++)
    if (c.stride[i] < 1 || c.dilation[i] < 1)
      tfl_fail(op, "stride %lld, dilation %lld", (long long)c.stride[i], (long long)c.dilation[i]);
  return c;
}

// x [N, H, W, C] with w [out, in / group, H, W]: sums in i64, [N, H, W, out].
static Node *conv_sums(TflOp *op, const QArg *x, const QArg *w, Node *taps, int64_t group,
                       const ConvOptions *c) {
  Graph *g = op->g;
  conv_attrs at = {.auto_pad = tfl_auto_pad(op, c->padding),
                   .dilations = {2, c->dilation},
                   .strides = {2, c->stride},
                   .group = group};
  if (x->t == DT_I16) {
    Node *y = NA(g, conv, &at, tb_nchw(g, in_f64(g, x), 4), quant_cast(g, taps, DT_F64));
    return quant_cast(g, tb_nhwc(g, y, 4), DT_I64);
  }
  Node *y =
      NA(g, conv_integer, &at, tb_nchw(g, x->x, 4), taps, q_zero_node(op, x), q_zero_node(op, w));
  return quant_cast(g, tb_nhwc(g, y, 4), DT_I64);
}

static bool check_images(TflOp *op, const Node *x, const Node *w) {
  int a = tfl_rank(op, x), b = tfl_rank(op, w);
  if (!op->g->status && (a != 4 || b != 4)) tfl_fail(op, "ranks %d and %d, must be 4", a, b);
  return !op->g->status;
}

static Node *hybrid_conv(TflOp *op, const QArg *w, Node *taps, int64_t group, int64_t channels,
                         const ConvOptions *c);

static void conv_2d(TflOp *op) {
  Graph *g = op->g;
  QArg x, w, y;
  if (!q_any(op, 0, &x) || !q_in(op, 1, &w) || !x.x || !check_images(op, x.x, w.x)) return;
  ConvOptions c = conv_options(op, 3, 4);
  int64_t out = tfl_size(op, w.x, 0), in = tfl_size(op, w.x, 3), depth = tfl_size(op, x.x, 3);
  if (g->status) return;
  if (in < 1 || depth % in || depth < in) {
    tfl_fail(op, "%lld channels with weights for %lld", (long long)depth, (long long)in);
    return;
  }
  Node *bias = tfl_in_opt(op, 2), *taps = tb_transpose(g, w.x, 4, (int64_t[]){0, 3, 1, 2});
  if (x.t == DT_F32) {
    Node *r = hybrid_conv(op, &w, taps, depth / in, out, &c);
    if (bias) r = N(g, add, r, bias);
    tfl_give(op, 0, tfl_activate(op, r, c.activation));
    return;
  }
  QMul *m;
  if (!q_out(op, 0, &y) || !check_types(op, &x, &w) || !q_single(op, &x)) return;
  int64_t n = multipliers(op, &x, &w, &y, out, &m);
  if (!n) return;
  Node *sum = add_bias(op, conv_sums(op, &x, &w, taps, depth / in, &c), bias);
  q_give(op, &y, scale_sum(op, &x, sum, bias, m, n), c.activation);
}

static void depthwise_conv_2d(TflOp *op) {
  Graph *g = op->g;
  QArg x, w, y;
  if (!q_any(op, 0, &x) || !q_in(op, 1, &w) || !x.x || !check_images(op, x.x, w.x)) return;
  ConvOptions c = conv_options(op, 4, 5);
  int64_t out = tfl_size(op, w.x, 3), depth = tfl_size(op, x.x, 3);
  if (g->status) return;
  Node *bias = tfl_in_opt(op, 2), *taps = tb_transpose(g, w.x, 4, (int64_t[]){3, 0, 1, 2});
  if (x.t == DT_F32) {
    Node *r = hybrid_conv(op, &w, taps, depth, out, &c);
    if (bias) r = N(g, add, r, bias);
    tfl_give(op, 0, tfl_activate(op, r, c.activation));
    return;
  }
  QMul *m;
  if (!q_out(op, 0, &y) || !check_types(op, &x, &w) || !q_single(op, &x)) return;
  int64_t n = multipliers(op, &x, &w, &y, out, &m);
  if (!n) return;
  Node *sum = add_bias(op, conv_sums(op, &x, &w, taps, depth, &c), bias);
  Node *r = x.t == DT_I16 ? quant_scale64(g, sum, m, n) : quant_scale32(g, sum, m, n);
  q_give(op, &y, r, c.activation);
}

// Spatial sizes of the result: the first operand's contents, or what the file declares.
static bool transposed_sizes(TflOp *op, int64_t out[2]) {
  Ints shape;
  const TflTensor *t = tfl_out_tensor(op, 0);
  bool known = tfl_ints(op, 0, &shape) && shape.n == 4;
  for (int i = 0; i < 2; i++)
    out[i] = known ? shape.v[i + 1] : t && t->rank == 4 ? t->dims[i + 1] : 0;
  if (out[0] > 0 && out[1] > 0 && out[0] < 1 << 28 && out[1] < 1 << 28) return true;
  tfl_fail(op, "the result's shape is not known while the model is read");
  return false;
}

static bool transposed_pads(TflOp *op, const ConvOptions *c, const Node *x, const Node *w,
                            const int64_t size[2], int64_t pads[4], int64_t extra[2]) {
  for (int i = 0; i < 2; i++) {
    int64_t in = tfl_size(op, x, i + 1), k = tfl_size(op, w, i + 1), s = c->stride[i];
    if (op->g->status) return false;
    int64_t n = c->padding == 0 ? (size[i] + s - 1) / s : (size[i] - k + s) / s;
    pads[i] = MAX((n - 1) * s + k - size[i], 0) / 2;
    int64_t rest = (in - 1) * s + k - pads[i] - size[i];
    pads[i + 2] = MAX(rest, 0);
    extra[i] = MAX(-rest, 0);
  }
  return true;
}

static void hybrid_transpose_conv(TflOp *op, const QArg *w, int64_t channels,
                                  const conv_transpose_attrs *at, int64_t activation);
static void transpose_conv(TflOp *op) {
  Graph *g = op->g;
  QArg w, x, y;
  int64_t size[2], pads[4], extra[2];
  if (!q_in(op, 1, &w) || !q_any(op, 2, &x) || !x.x || !check_images(op, x.x, w.x)) return;
  ConvOptions c = conv_options(op, 3, 0);
  int64_t out = tfl_size(op, w.x, 0);
  QMul *m;
  if (g->status || !transposed_sizes(op, size) ||
      !transposed_pads(op, &c, x.x, w.x, size, pads, extra))
    return;
  conv_transpose_attrs at = {
      .group = 1, .strides = {2, c.stride}, .pads = {4, pads}, .output_padding = {2, extra}};
  if (x.t == DT_F32) {
    hybrid_transpose_conv(op, &w, out, &at, c.activation);
    return;
  }
  if (!q_in(op, 2, &x) || !q_out(op, 0, &y) || !check_types(op, &x, &w) || !q_single(op, &x))
    return;
  int64_t n = multipliers(op, &x, &w, &y, out, &m);
  if (!n) return;
  Node *taps = tb_transpose(g, in_f64(g, &w), 4, (int64_t[]){3, 0, 1, 2});
  Node *sum = NA(g, conv_transpose, &at, tb_nchw(g, in_f64(g, &x), 4), taps);
  sum = quant_cast(g, tb_nhwc(g, sum, 4), DT_I64);
  Node *bias = tfl_in_opt(op, 3);
  sum = add_bias(op, sum, bias);
  Node *r = x.t == DT_I16 ? quant_scale64(g, sum, m, n) : quant_scale32(g, sum, m, n);
  q_give(op, &y, r, c.activation);
}

// ---- matrices ----

Node *q_row_sums(TflOp *op, const QArg *x, const QArg *w) {
  Graph *g = op->g;
  int64_t perm[] = {1, 0};
  if (x->t == DT_I16) {
    Node *y = N(g, mat_mul, in_f64(g, x), tb_transpose(g, in_f64(g, w), 2, perm));
    return quant_cast(g, y, DT_I64);
  }
  Node *y = N(g, mat_mul_integer, x->x, tb_transpose(g, w->x, 2, perm), q_zero_node(op, x),
              q_zero_node(op, w));
  return quant_cast(g, y, DT_I64);
}

// Kernels do not agree on this product alone.  The interpreter's come from a library of matrices
// that rounds once; those for microcontrollers round twice, as the reference says.  Of the models
// with integer LSTMs the latter are the reference in all.
static bool rounds_twice(TflOp *op) {
  enum { SEQUENCE_LSTM = 44 };
  TflImport *im = op->im;
  if (im->rounding == ROUNDS_UNKNOWN)
    im->rounding = ROUNDS_ONCE;
  else
    return im->rounding == ROUNDS_TWICE;
  for (int64_t k = 0; k < im->m.nsubs; k++)
    for (int64_t i = 0; i < im->m.sub[k].nops; i++) {
      const TflOperator *o = &im->m.sub[k].op[i];
      int64_t in = o->in.n ? fb_i32_at(&o->in, 0) : -1;
      if (im->m.code[o->code].builtin != SEQUENCE_LSTM || in < 0) continue;
      if (dtype_is_int(im->m.sub[k].tensor[in].dtype)) im->rounding = ROUNDS_TWICE;
    }
  return im->rounding == ROUNDS_TWICE;
}

static void fully_connected(TflOp *op) {
  Graph *g = op->g;
  QArg x, w, y;
  if (!q_any(op, 0, &x) || !q_in(op, 1, &w) || !x.x) return;
  int rank = tfl_rank(op, x.x), wrank = tfl_rank(op, w.x);
  if (!g->status && (wrank != 2 || tfl_opt_i8(op, 1, 0)))
    tfl_fail(op, wrank == 2 ? "shuffled weights" : "weights of rank %d", wrank);
  int64_t units = tfl_size(op, w.x, 0), depth = tfl_size(op, w.x, 1);
  if (g->status) return;
  if (depth < 1) {
    tfl_fail(op, "weights without columns");
    return;
  }
  Node *bias = tfl_in_opt(op, 2);
  if (!tfl_opt_bool(op, 2, false) || rank < 2) x.x = tb_reshape(g, x.x, 2, (int64_t[]){-1, depth});
  int64_t activation = tfl_opt_i8(op, 0, 0);
  if (x.t == DT_F32) {
    Node *r = q_hybrid_rows(op, x.x, &w, tfl_opt_bool(op, 3, false));
    if (bias) r = N(g, add, r, bias);
    tfl_give(op, 0, tfl_activate(op, r, activation));
    return;
  }
  if (!q_out(op, 0, &y) || !check_types(op, &x, &w) || !q_single(op, &x)) return;
  QMul one = q_product(&x, &w, &y), *m = &one;
  int64_t n = w.n == 1 ? 1 : multipliers(op, &x, &w, &y, units, &m);
  if (!n) return;
  Node *sum = add_bias(op, q_row_sums(op, &x, &w), bias);
  bool wide = x.t == DT_I16 && bias && type_of(bias)->dtype == DT_I64;
  Node *r = !rounds_twice(op) ? quant_scale_once(g, sum, m, n)
            : wide            ? quant_scale64(g, sum, m, n)
                              : quant_scale32(g, sum, m, n);
  q_give(op, &y, r, activation);
}

static Node *swap_last(TflOp *op, Node *x) {
  int rank = tfl_rank(op, x);
  if (rank < 2) return tfl_fail(op, "an operand of rank %d, must be 2 or more", rank);
  int64_t perm[MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  return tb_transpose(op->g, x, rank, perm);
}

static Node *hybrid_product(TflOp *op, Node *x, const QArg *w, bool asymmetric);
static void batch_matmul(TflOp *op) {
  Graph *g = op->g;
  QArg x, w, y;
  if (!q_any(op, 0, &x) || !q_in(op, 1, &w) || !x.x) return;
  if (tfl_opt_bool(op, 0, false)) x.x = swap_last(op, x.x);
  if (tfl_opt_bool(op, 1, false)) w.x = swap_last(op, w.x);
  if (g->status || !q_single(op, &w)) return;
  if (x.t == DT_F32) {
    if (tfl_rank(op, w.x) < 2) tfl_fail(op, "an operand of rank %d", tfl_rank(op, w.x));
    if (g->status) return;
    tfl_give(op, 0, hybrid_product(op, x.x, &w, tfl_opt_bool(op, 2, false)));
    return;
  }
  if (!q_out(op, 0, &y) || !check_types(op, &x, &w) || !q_single(op, &x)) return;
  QMul m = q_product(&x, &w, &y);
  Node *sum = x.t == DT_I16
                  ? N(g, mat_mul, in_f64(g, &x), in_f64(g, &w))
                  : N(g, mat_mul_integer, x.x, w.x, q_zero_node(op, &x), q_zero_node(op, &w));
  sum = quant_cast(g, sum, DT_I64);
  q_give(op, &y, x.t == DT_I16 ? quant_scale64(g, sum, &m, 1) : quant_scale32(g, sum, &m, 1),
         ACT_NONE);
}

// ---- floats with 8-bit weights ----

// x quantised to i8 by the range of each slice over `axes`, which stay: its factor and, when
// asymmetric, its zero point.
typedef struct Dynamic {
  Node *q, *scale, *zero;  // i8, f32, i8 (or NULL)
} Dynamic;

static Dynamic quantize_slices(TflOp *op, Node *x, Ints axes, bool asymmetric) {
  Graph *g = op->g;
  Node *none = node_scalar(g, DT_F32, 0), *one = node_scalar(g, DT_F32, 1);
  Dynamic d = {0};
  if (!asymmetric) {
    Node *range = tb_reduce(g, OP_reduce_max, N(g, abs, x), axes, true);
    Node *empty = N(g, eq, range, none), *full = node_scalar(g, DT_F32, 127);
    Node *inverse = N(g, where, empty, none, N(g, div, full, N(g, where, empty, one, range)));
    d.scale = N(g, where, empty, one, N(g, div, range, full));
    Node *q = quant_round_node(g, N(g, mul, x, inverse));
    d.q = quant_cast(g, N(g, clip, q, node_scalar(g, DT_F64, -127), node_scalar(g, DT_F64, 127)),
                     DT_I8);
    return d;
  }
  Node *lo = N(g, min, tb_reduce(g, OP_reduce_min, x, axes, true), none);
  Node *hi = N(g, max, tb_reduce(g, OP_reduce_max, x, axes, true), none);
  lo = quant_cast(g, lo, DT_F64);
  hi = quant_cast(g, hi, DT_F64);
  Node *empty = N(g, eq, lo, hi), *low = node_scalar(g, DT_F64, -128);
  Node *scale = N(g, div, N(g, sub, hi, lo), node_scalar(g, DT_F64, 255));
  scale = N(g, where, empty, node_scalar(g, DT_F64, 1), scale);
  Node *from_lo = N(g, sub, low, N(g, div, lo, scale));
  Node *from_hi = N(g, sub, node_scalar(g, DT_F64, 127), N(g, div, hi, scale));
  Node *err_lo = N(g, add, node_scalar(g, DT_F64, 128), N(g, abs, N(g, div, lo, scale)));
  Node *err_hi = N(g, add, node_scalar(g, DT_F64, 127), N(g, abs, N(g, div, hi, scale)));
  Node *zero = N(g, where, N(g, lt, err_lo, err_hi), from_lo, from_hi);
  Node *top = node_scalar(g, DT_F64, 127);
  zero = N(g, where, empty, node_scalar(g, DT_F64, 0),
           N(g, clip, quant_round_node(g, zero), low, top));
  d.scale = quant_cast(g, scale, DT_F32);
  Node *q = N(g, div, x, d.scale);
  d.q = quant_cast(
      g, N(g, clip, quant_round_node(g, N(g, add, quant_cast(g, q, DT_F64), zero)), low, top),
      DT_I8);
  d.zero = quant_cast(g, zero, DT_I8);
  return d;
}

static Node *weight_scales(TflOp *op, const QArg *w) {
  Graph *g = op->g;
  double *v = arena_array(&g->arena, double, w->n);
  for (int64_t i = 0; i < w->n; i++) v[i] = (double)w->scale[i];
  return w->n == 1 ? node_scalar(g, DT_F32, v[0]) : tb_vector(g, DT_F32, w->n, v);
}

// Weights of a model of floats that are called unsigned hold signed bytes: so they were written
// before there was int8.
static QArg signed_weights(Graph *g, const QArg *w) {
  static const int64_t zero[1] = {0};
  QArg out = *w;
  if (w->t != DT_U8 || w->n != 1 || g->status) return out;
  out.x = NA(g, bit_cast, (&(bit_cast_attrs){.to = DT_I8}), w->x);
  out.t = DT_I8;
  out.zero = zero;
  return out;
}

// Rows of x times w [.., depth, units].
static Node *hybrid_product(TflOp *op, Node *x, const QArg *w, bool asymmetric) {
  Graph *g = op->g;
  int64_t last = -1, depth = -2;
  if (tfl_rank(op, x) < 1) return tfl_fail(op, "an input without axes");
  Dynamic d = quantize_slices(op, x, (Ints){1, &last}, asymmetric);
  // Zero points differ by row, so that they are taken off afterwards, times the sums of the
  // weights.
  Node *sum = N(g, mat_mul_integer, d.q, w->x, g->none, q_zero_node(op, w));
  if (d.zero) {
    Node *wide = quant_cast(g, w->x, DT_I32);
    Node *columns = tb_reduce(g, OP_reduce_sum, wide, (Ints){1, &depth}, true);
    sum = N(g, sub, sum, N(g, mul, quant_cast(g, d.zero, DT_I32), columns));
  }
  return N(g, mul, quant_cast(g, sum, DT_F32), N(g, mul, d.scale, weight_scales(op, w)));
}

Node *q_hybrid_rows(TflOp *op, Node *x, const QArg *given, bool asymmetric) {
  QArg w = signed_weights(op->g, given);
  if (tfl_rank(op, x) < 1) return tfl_fail(op, "an input without axes");
  if (tfl_rank(op, x) == 1) {
    int64_t row[] = {1, -1}, flat = -1;
    Node *y = q_hybrid_rows(op, tb_reshape(op->g, x, 2, row), given, asymmetric);
    return tb_reshape(op->g, y, 1, &flat);
  }
  w.x = tb_transpose(op->g, w.x, 2, (int64_t[]){1, 0});
  return hybrid_product(op, x, &w, asymmetric);
}

// Each image has a range of its own; with a scale by channel the kernels take zero points off as
// well.
static Node *hybrid_conv(TflOp *op, const QArg *w, Node *taps, int64_t group, int64_t channels,
                         const ConvOptions *c) {
  Graph *g = op->g;
  int64_t axes[] = {1, 2, 3};
  if (w->n != 1 && w->n != channels)
    return tfl_fail(op, "%lld scales for %lld channels", (long long)w->n, (long long)channels);
  Dynamic d = quantize_slices(op, tfl_in(op, 0), (Ints){3, axes}, w->n > 1);
  Node *x = quant_cast(g, d.q, DT_F32);
  if (d.zero) x = N(g, sub, x, quant_cast(g, d.zero, DT_F32));
  if (w->t == DT_U8 && w->n == 1) taps = NA(g, bit_cast, (&(bit_cast_attrs){.to = DT_I8}), taps);
  conv_attrs at = {.auto_pad = tfl_auto_pad(op, c->padding),
                   .dilations = {2, c->dilation},
                   .strides = {2, c->stride},
                   .group = group};
  Node *y = NA(g, conv, &at, tb_nchw(g, x, 4), quant_cast(g, taps, DT_F32));
  return N(g, mul, tb_nhwc(g, y, 4), N(g, mul, d.scale, weight_scales(op, w)));
}

// As convolutions with a scale by channel are; x is operand 2.
static void hybrid_transpose_conv(TflOp *op, const QArg *w, int64_t channels,
                                  const conv_transpose_attrs *at, int64_t activation) {
  Graph *g = op->g;
  int64_t axes[] = {1, 2, 3};
  if (w->n != 1 && w->n != channels) {
    tfl_fail(op, "%lld scales for %lld channels", (long long)w->n, (long long)channels);
    return;
  }
  Dynamic d = quantize_slices(op, tfl_in(op, 2), (Ints){3, axes}, true);
  Node *x = quant_cast(g, d.q, DT_F32), *bias = tfl_in_opt(op, 3);
  if (d.zero) x = N(g, sub, x, quant_cast(g, d.zero, DT_F32));
  Node *taps = tb_transpose(g, quant_cast(g, w->x, DT_F32), 4, (int64_t[]){3, 0, 1, 2});
  Node *y = tb_nhwc(g, NA(g, conv_transpose, at, tb_nchw(g, x, 4), taps), 4);
  y = N(g, mul, y, N(g, mul, d.scale, weight_scales(op, w)));
  tfl_give(op, 0, tfl_activate(op, bias ? N(g, add, y, bias) : y, activation));
}

static const QRow rows[] = {
    {3, conv_2d},         {4, depthwise_conv_2d}, {9, fully_connected},
    {67, transpose_conv}, {126, batch_matmul},
};
Q_TABLE(product);
