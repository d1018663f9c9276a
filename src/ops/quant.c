// quant.c -- records of linear quantization.
#include "eval/quant.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "ir/opinfo.h"

// What must hold of scale and zero point; x is operand 0.
static tenon_status check_scale(Infer *in, int64_t axis, int64_t block_size) {
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, 0));
  if (infer_src(in, 2)) TRY(infer_need(in, 2, 0));
  const Type *x = infer_type(in, 0), *s = infer_type(in, 1);
  if (block_size < 0)
    return infer_fail(in, TENON_EINVAL, "block_size is %lld, must not be negative",
                      (long long)block_size);
  if (infer_src(in, 2) && infer_type(in, 2)->rank >= 0 && s->rank >= 0)
    TRY(infer_equal_dim(in, type_numel(in->g, s), type_numel(in->g, infer_type(in, 2)),
                        "numbers of scales and of zero points"));
  if (x->rank < 0 || s->rank < 0) return TENON_OK;
  Dim n = type_numel(in->g, s);
  if (s->rank == 0 || (s->rank == 1 && ie_is(n, 1))) return TENON_OK;
  int a;
  TRY(infer_axis(in, axis, x->rank, &a));
  if (s->rank == 1 && !block_size)
    return infer_equal_dim(in, s->dims[0], x->dims[a], "scales and slices along the axis");
  if (s->rank != x->rank)
    return infer_fail(in, TENON_EINVAL, "the scale has rank %d, must be 0, 1 or that of x, %d",
                      s->rank, x->rank);
  if (!block_size)
    return infer_fail(in, TENON_EINVAL, "a scale of rank %d needs a block_size", s->rank);
  Dim blocks = ie_ceildiv(&in->g->dims, x->dims[a], ie_const(&in->g->dims, block_size));
  for (int i = 0; i < x->rank; i++)
    TRY(infer_equal_dim(in, s->dims[i], i == a ? blocks : x->dims[i], "sizes of scale and x"));
  return TENON_OK;
}

static tenon_status infer_quantize_linear(Infer *in) {
  const quantize_linear_attrs *at = in->attrs;
  TRY(check_scale(in, at->axis, at->block_size));
  const Type *zero = infer_type(in, 2);
  DType t = zero ? zero->dtype : at->output_dtype ? at->output_dtype : DT_U8;
  if (t && at->output_dtype && at->output_dtype != t)
    return infer_fail(in, TENON_EINVAL, "output_dtype is %s, the zero point %s",
                      dtype_name(at->output_dtype), dtype_name(t));
  int64_t lo, hi;
  bool ok = (quant_range(t, &lo, &hi) && dtype_bits(t) <= 16) ||
            (dtype_is_float(t) && dtype_bits(t) <= 8 && t != DT_F8E8M0);
  if (t && !ok) return infer_fail(in, TENON_EINVAL, "%s is no quantized type", dtype_name(t));
  infer_set_type(in, 0, type_with_dtype(in->g, infer_type(in, 0), t));
  return TENON_OK;
}

static tenon_status infer_dequantize_linear(Infer *in) {
  const dequantize_linear_attrs *at = in->attrs;
  TRY(check_scale(in, at->axis, at->block_size));
  if (infer_src(in, 2)) TRY(infer_same_dtype(in, 0, 2));
  DType t = at->output_dtype ? at->output_dtype : infer_type(in, 1)->dtype;
  if (t && !dtype_is_float(t))
    return infer_fail(in, TENON_EINVAL, "the result would be %s, must be a float type",
                      dtype_name(t));
  infer_set_type(in, 0, type_with_dtype(in->g, infer_type(in, 0), t));
  return TENON_OK;
}

static tenon_status infer_dynamic_quantize_linear(Infer *in) {
  TRY(infer_need(in, 0, DT_F32));
  infer_set_type(in, 0, type_with_dtype(in->g, infer_type(in, 0), DT_U8));
  infer_set_type(in, 1, type_scalar(in->g, DT_F32));
  infer_set_type(in, 2, type_scalar(in->g, DT_U8));
  return TENON_OK;
}

static void expand_dynamic_quantize_linear(Graph *g, const Node *n, Node **out) {
  Node *x = n->src[0], *zero = node_scalar(g, DT_F32, 0), *most = node_scalar(g, DT_F32, 255);
  reduce_attrs all = {.keepdims = false};
  Node *lo = N(g, min, NA(g, reduce_min, &all, x), zero);
  Node *hi = N(g, max, NA(g, reduce_max, &all, x), zero);
  Node *scale =
      N(g, where, N(g, eq, lo, hi), node_scalar(g, DT_F32, 1), N(g, div, N(g, sub, hi, lo), most));
  Node *at = N(g, clip, N(g, neg, N(g, div, lo, scale)), zero, most);
  Node *point = NA(g, cast, (&(cast_attrs){.to = DT_U8, .saturate = true}), N(g, round, at));
  Node *result[] = {N(g, quantize_linear, x, scale, point), scale, point};
  for (int i = 0; i < n->nres; i++) out[i] = result[i];
}

static double two_an_element(const CostIn *c) { return 2 * (double)c->out[0].n; }

ATTR_TABLE(quantize_linear, QUANTIZE_LINEAR_ATTRS);
ATTR_TABLE(dequantize_linear, DEQUANTIZE_LINEAR_ATTRS);

const OpInfo op_quantize_linear = {
    .name = "quantize_linear",
    .doc = "x / scale rounded to even, plus zero point, saturated",
    .onnx = "QuantizeLinear",
    .onnx_since = 10,
    .operands = "x y_scale y_zero_point?",
    .results = "y",
    .dtypes = "number",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_POINT,
    .layout = LAYOUT_QUANT,
    .hazard = HAZARD_quantisation,
    OP_ATTRS(quantize_linear),
    .infer = infer_quantize_linear,
    .eval = eval_quantize_linear,
    .cost = two_an_element,
    SAMPLES("(f32[2,3], f32[]{0.5}, u8[]{128})", "(f32[2,3], f32[3]{0.5,0.25,1}, i8[3]{0,1,-1})",
            "(f16[2,4], f16[]{0.125}) output_dtype=i4",
            "(f32[2,5], f32[2,3]{1,2,0.5,0.25,1,3}) block_size=2 output_dtype=i16",
            "(f32[3], f32[]{0.5}) output_dtype=f8e4m3", "(f32[3], f32[]{0.5}) output_dtype=f4e2m1",
            "(i32[0,2], f32[]{2})", "(f32[b,4], f32[]{2})"),
};
const OpInfo op_dequantize_linear = {
    .name = "dequantize_linear",
    .doc = "(x - zero point) scale",
    .onnx = "DequantizeLinear",
    .onnx_since = 10,
    .operands = "x x_scale x_zero_point?",
    .results = "y",
    .dtypes = "number",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_POINT,
    .layout = LAYOUT_QUANT,
    .range = RANGE_dequantize,
    .hazard = HAZARD_quantisation,
    OP_ATTRS(dequantize_linear),
    .infer = infer_dequantize_linear,
    .eval = eval_dequantize_linear,
    .cost = two_an_element,
    SAMPLES("(u8[2,3], f32[]{0.5}, u8[]{128})", "(i8[2,3], f32[2]{0.5,0.25}, i8[2]{0,1}) axis=-2",
            "(i4[5], f16[]{0.125})", "(i16[2,5], f32[2,3]{1,2,0.5,0.25,1,3}) block_size=2",
            "(f8e5m2[3], f32[]{0.5})", "(u2[0,2], f32[]{2}, u2[]{1})", "(i32[b,4], f32[]{2})"),
};
const OpInfo op_dynamic_quantize_linear = {
    .name = "dynamic_quantize_linear",
    .doc = "x as u8, with the scale and zero point that its range asks for",
    .onnx = "DynamicQuantizeLinear",
    .onnx_since = 11,
    .operands = "x",
    .results = "y y_scale y_zero_point",
    .dtypes = "float",
    .arity = 1,
    .nres = 3,
    .range = RANGE_dynamic_quantize,
    .flags = OPF_COMPOSITE,
    .infer = infer_dynamic_quantize_linear,
    .eval = eval_dynamic_quantize_linear,
    .expand = expand_dynamic_quantize_linear,
    .cost = two_an_element,
    SAMPLES("(f32[2,3])", "(f32[])", "(f32[0])", "(f32[b,4])"),
};
