// aten_quant.c -- operators of quantised programs: PT2E's quantized_decomposed, and fake
// quantisation as it is when it computes.
//
// They become quantize_linear and dequantize_linear, so that passes find integer kernels.  PyTorch
// multiplies by the reciprocal of a scale where ONNX divides: results may differ by one step.
#include "frontends/pytorch/aten.h"

#include "eval/quant.h"

// A scale or zero point: a number, or a tensor of one or of a channel each.
static Node *parameter(AtenCall *c, int i, DType t) {
  Node *n = av_node(c->g, at_arg(c, i), t);
  if (c->g->status || type_of(n)->dtype == t) return n;
  return bt_cast(c->g, n, t);
}

static DType quant_dtype(AtenCall *c, int i) {
  DType t = at_dtype(c, i, DT_I8);
  int64_t lo, hi;
  if (!c->g->status && !quant_range(t, &lo, &hi)) at_fail(c, "of %s", dtype_name(t));
  return t;
}

// Integers within the bounds that were asked for, where these are narrower than the type.
static Node *bounded(AtenCall *c, Node *q, int64_t lo, int64_t hi) {
  Graph *g = c->g;
  int64_t least, most;
  if (g->status || !quant_range(type_of(q)->dtype, &least, &most)) return q;
  if (lo > hi || lo < least || hi > most) {
    at_fail(c, "with bounds of %lld to %lld, in %s", (long long)lo, (long long)hi,
            dtype_name(type_of(q)->dtype));
    return q;
  }
  if (lo > least) q = N(g, max, q, bt_num(g, q, (double)lo));
  return hi < most ? N(g, min, q, bt_num(g, q, (double)hi)) : q;
}

static Node *quantized(AtenCall *c, Node *x, Node *scale, Node *zero, int64_t axis) {
  quantize_linear_attrs at = {.axis = axis, .saturate = true};
  return c->g->status ? c->g->poison : NA(c->g, quantize_linear, &at, x, scale, zero);
}

static Node *dequantized(AtenCall *c, Node *q, Node *scale, Node *zero, int64_t axis) {
  dequantize_linear_attrs at = {.axis = axis};
  Node *src[] = {q, scale, zero};
  return c->g->status ? c->g->poison
                      : node_new(c->g, OP_dequantize_linear, zero ? 3 : 2, src, &at, 1, NULL);
}

// (input, scale, zero_point, quant_min, quant_max, dtype, ...)
static void quantize_tensor(AtenCall *c) {
  DType t = quant_dtype(c, 5);
  Node *q = quantized(c, at_tensor(c, 0), parameter(c, 1, DT_F32), parameter(c, 2, t), 1);
  at_give(c, bounded(c, q, at_int(c, 3), at_int(c, 4)));
}
static void dequantize_tensor(AtenCall *c) {
  DType t = quant_dtype(c, 5);
  at_give(c, dequantized(c, at_tensor(c, 0), parameter(c, 1, DT_F32), parameter(c, 2, t), 1));
}

// (input, scales, zero_points, axis, quant_min, quant_max, dtype, ...)
static void quantize_channel(AtenCall *c) {
  DType t = quant_dtype(c, 6);
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 3, at_rank(c, x));
  Node *q = quantized(c, x, parameter(c, 1, DT_F32), parameter(c, 2, t), axis);
  at_give(c, bounded(c, q, at_int(c, 4), at_int(c, 5)));
}
static void dequantize_channel(AtenCall *c) {
  DType t = quant_dtype(c, 6);
  Node *q = at_tensor(c, 0), *zero = at_none(c, 2) ? NULL : parameter(c, 2, t);
  at_give(c, dequantized(c, q, parameter(c, 1, DT_F32), zero, at_axis(c, 3, at_rank(c, q))));
}

// Fake quantisation says its bounds and no type: that which has them.
static DType type_of_bounds(AtenCall *c, int64_t lo, int64_t hi) {
  DType t = lo < 0 ? DT_I8 : DT_U8;
  int64_t least, most;
  if (!c->g->status && (!quant_range(t, &least, &most) || lo < least || hi > most))
    at_fail(c, "with bounds of %lld to %lld, beyond 8 bits", (long long)lo, (long long)hi);
  return t;
}

static void fake(AtenCall *c, int64_t axis, int64_t lo, int64_t hi) {
  DType t = type_of_bounds(c, lo, hi);
  Node *scale = parameter(c, 1, DT_F32), *zero = parameter(c, 2, t);
  Node *q = bounded(c, quantized(c, at_tensor(c, 0), scale, zero, axis), lo, hi);
  at_give(c, dequantized(c, q, scale, zero, axis));
}
// (self, scale, zero_point, quant_min, quant_max)
static void fake_tensor(AtenCall *c) { fake(c, 1, at_int(c, 3), at_int(c, 4)); }
// (self, scale, zero_point, axis, quant_min, quant_max)
static void fake_channel(AtenCall *c) {
  int64_t axis = at_axis(c, 3, at_rank(c, at_tensor(c, 0)));
  fake(c, axis, at_int(c, 4), at_int(c, 5));
}

static const AtenRow rows[] = {
    // clang-format off
    {"quantized_decomposed_quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor", quantize_tensor, 0, NULL},
    {"quantized_decomposed_quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor", quantize_tensor, 0, NULL},
    {"quantized_decomposed_dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor", dequantize_tensor, 0, NULL},
    {"quantized_decomposed_dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor", dequantize_tensor, 0, NULL},
    {"quantized_decomposed_quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor", quantize_channel, 0, NULL},
    {"quantized_decomposed_dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor", dequantize_channel, 0, NULL},
    {"fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor", fake_tensor, 0, NULL},
    {"fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor", fake_tensor, 0, NULL},
    {"fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor", fake_channel, 0, NULL},
    // clang-format on
};
ATEN_TABLE(quant);
