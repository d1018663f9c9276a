// contract_conv.c -- records of the convolutions, col2im and det.
#include "eval/activation.h"
#include "eval/contract.h"
#include "eval/movement.h"
#include "ops/order.h"
#include "ops/sym.h"
#include "ops/window.h"

// ---- shapes ----

// Output channels, checked against groups and input channels where these are numbers.
static tenon_status check_channels(Infer *in, Dim x, Dim w_out, Dim w_in, int64_t group) {
  if (group < 1)
    return infer_fail(in, TENON_EINVAL, "group is %lld, must be at least 1", (long long)group);
  TRY(infer_equal_dim(in, x, ie_mulc(&in->g->dims, w_in, group),
                      "input channels, and groups times w's"));
  if (ie_is_const(w_out) && w_out->value % group)
    return infer_fail(in, TENON_EINVAL, "%lld output channels do not divide into %lld groups",
                      (long long)w_out->value, (long long)group);
  return TENON_OK;
}

static tenon_status check_bias(Infer *in, int i, Dim channels) {
  const Type *b = infer_type(in, i);
  if (!b || b->rank < 0) return TENON_OK;
  if (b->rank != 1) return infer_fail(in, TENON_EINVAL, "bias of rank %d, must be 1", b->rank);
  return infer_equal_dim(in, b->dims[0], channels, "bias and output channels");
}

// kernel_shape, when given, must be w's; false: neither is known.
static tenon_status kernel_dims(Infer *in, Ints given, const Type *w, int nd, Dim *out,
                                bool *known) {
  IntPool *p = &in->g->dims;
  *known = true;
  if (given.n && given.n != nd)
    return infer_fail(in, TENON_EINVAL, "kernel_shape has %lld numbers for %d spatial axes",
                      (long long)given.n, nd);
  for (int d = 0; d < nd; d++) {
    if (w->rank >= 0) {
      out[d] = w->dims[d + 2];
      if (given.n) TRY(infer_equal_dim(in, out[d], ie_const(p, given.v[d]), "kernel_shape and w"));
      if (given.n) out[d] = ie_const(p, given.v[d]);
    } else if (given.n) {
      out[d] = ie_const(p, given.v[d]);
    } else {
      *known = false;
    }
  }
  return TENON_OK;
}

// Operands x and w of a convolution with the result's type t.  *done: the result is set (rank
// unknown).
static tenon_status conv_ranks(Infer *in, const Type *x, const Type *w, DType t, bool *done) {
  *done = false;
  if ((x->rank >= 0 && x->rank < 3) || (w->rank >= 0 && w->rank < 3) ||
      (x->rank >= 0 && w->rank >= 0 && x->rank != w->rank))
    return infer_fail(in, TENON_EINVAL,
                      "x of rank %d and w of rank %d: both must have the same rank, 3 or more",
                      x->rank, w->rank);
  if (x->rank >= 0) return TENON_OK;
  infer_set_unranked(in, 0, t);
  *done = true;
  return TENON_OK;
}

static tenon_status infer_conv_of(Infer *in, int ix, int iw, int ib, DType t) {
  const conv_attrs *at = in->attrs;
  const Type *x = infer_type(in, ix), *w = infer_type(in, iw);
  bool done, known;
  TRY(conv_ranks(in, x, w, t, &done));
  if (done) return TENON_OK;
  int nd = x->rank - 2;
  Dim kernel[MAX_RANK], dims[MAX_RANK] = {x->dims[0]};
  TRY(kernel_dims(in, at->kernel_shape, w, nd, kernel, &known));
  dims[1] = w->rank < 0 ? ie_fresh(&in->g->dims, "channels") : w->dims[0];
  if (w->rank >= 0) TRY(check_channels(in, x->dims[1], w->dims[0], w->dims[1], at->group));
  TRY(check_bias(in, ib, dims[1]));
  for (int d = 0; d < nd && !known; d++) dims[d + 2] = ie_fresh(&in->g->dims, "conv");
  WindowSpec s = {.strides = at->strides,
                  .pads = at->pads,
                  .dilations = at->dilations,
                  .auto_pad = at->auto_pad};
  if (known) TRY(infer_window(in, &s, nd, x->dims + 2, kernel, dims + 2));
  return infer_set(in, 0, t, x->rank, dims);
}

// Two operations for every weight that meets an output element.
static double conv_cost(const CostIn *c, int iw) {
  const CostShape *w = &c->in[iw], *y = &c->out[0];
  if (w->rank < 3 || y->rank < 3) return 0;
  int64_t channels = w->dims[node_channels_last(c->node) ? w->rank - 1 : 0];
  return channels ? 2 * (double)y->n * ((double)w->n / (double)channels) : 0;
}

// ---- conv ----

ATTR_TABLE(conv, CONV_ATTRS);
static tenon_status first_conv(Infer *in) {
  TRY(infer_same_dtype(in, 0, 1));
  if (infer_src(in, 2)) TRY(infer_same_dtype(in, 0, 2));
  TRY(infer_whole_bytes(in, infer_type(in, 0)->dtype));
  return infer_conv_of(in, 0, 1, 2, infer_type(in, 0)->dtype);
}
INFER_ORDERED(conv, conv_attrs, 1, ORDER_CONV)
static double cost_conv(const CostIn *c) { return conv_cost(c, 1); }
const OpInfo op_conv = {
    .name = "conv",
    .doc = "sum of products of w with each window of x, over the channels of a group",
    .onnx = "Conv",
    .onnx_since = 1,
    .operands = "x w b?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_CONV, 0, 0, 1, 2, -1, -1, -1, -1, -1, -1),
    .layout = LAYOUT_AWARE,
    OP_ATTRS(conv),
    .infer = infer_conv,
    .eval = eval_conv,
    .cost = cost_conv,
    SAMPLES("(f32[1,3,8,7], f32[4,3,3,3], f32[4]) pads=[1, 1, 1, 1]",
            "(f32[2,4,9], f32[6,2,3]) group=2 strides=[2] dilations=[2]",
            "(f32[1,4,6,6], f32[4,1,3,3]) group=4 auto_pad=SAME_UPPER strides=[2, 2]",
            "(f16[1,2,5,5,5], f16[3,2,2,2,2])", "(f32[1,8,4,4], f32[8,8,1,1], f32[8])",
            "(f32[0,3,8,8], f32[4,3,3,3])",
            "(f32[1,3,h,w], f32[4,3,3,3]) strides=[2, 2] pads=[1, 1, 1, 1]",
            "(f32[1,8,7,3], f32[3,3,3,4], f32[4]) pads=[1, 1, 1, 1] channels_last=true",
            "(f32[2,9,4], f32[3,2,6]) group=2 strides=[2] dilations=[2] channels_last=true",
            "(f32[n,h,w,4], f32[3,3,1,4]) group=4 auto_pad=SAME_UPPER channels_last=true"),
};

// ---- conv_transpose ----

static tenon_status check_list(Infer *in, Ints l, int nd, const char *what) {
  if (l.n && l.n != nd)
    return infer_fail(in, TENON_EINVAL, "%s has %lld numbers for %d spatial axes", what,
                      (long long)l.n, nd);
  for (int64_t i = 0; i < l.n; i++)
    if (l.v[i] < 0 || l.v[i] >= (int64_t)WINDOW_MAX << 20)
      return infer_fail(in, TENON_EINVAL, "%s: %lld is out of range", what, (long long)l.v[i]);
  return TENON_OK;
}

static tenon_status transposed_sizes(Infer *in, const Type *x, const Dim *kernel, int nd,
                                     Dim *out) {
  const conv_transpose_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  Ints shape = at->output_shape;
  if (shape.n == nd + 2) shape = (Ints){nd, shape.v + 2};
  TRY(check_list(in, at->output_padding, nd, "output_padding"));
  TRY(check_list(in, shape, nd, "output_shape"));
  for (int d = 0; d < nd; d++) {
    int64_t stride = at->strides.n ? at->strides.v[d] : 1,
            dilation = at->dilations.n ? at->dilations.v[d] : 1;
    int64_t extra = at->output_padding.n ? at->output_padding.v[d] : 0, pads = 0;
    if (at->pads.n && at->auto_pad == PAD_NOTSET) pads = at->pads.v[d] + at->pads.v[nd + d];
    Dim full = ie_mulc(p, ie_addc(p, x->dims[d + 2], -1), stride);
    full = ie_add(p, full, ie_addc(p, ie_mulc(p, ie_addc(p, kernel[d], -1), dilation), 1 + extra));
    if (shape.n)
      out[d] = ie_const(p, shape.v[d]);
    else if (at->auto_pad == PAD_SAME_UPPER || at->auto_pad == PAD_SAME_LOWER)
      out[d] = ie_mulc(p, x->dims[d + 2], stride);
    else
      out[d] = ie_addc(p, full, -pads);
  }
  return TENON_OK;
}

ATTR_TABLE(conv_transpose, CONV_TRANSPOSE_ATTRS);
static tenon_status first_conv_transpose(Infer *in) {
  const conv_transpose_attrs *at = in->attrs;
  TRY(infer_same_dtype(in, 0, 1));
  if (infer_src(in, 2)) TRY(infer_same_dtype(in, 0, 2));
  const Type *x = infer_type(in, 0), *w = infer_type(in, 1);
  TRY(infer_whole_bytes(in, x->dtype));
  bool done, known;
  TRY(conv_ranks(in, x, w, x->dtype, &done));
  if (done) return TENON_OK;
  IntPool *p = &in->g->dims;
  int nd = x->rank - 2;
  Dim kernel[MAX_RANK], dims[MAX_RANK] = {x->dims[0]};
  TRY(kernel_dims(in, at->kernel_shape, w, nd, kernel, &known));
  if (at->group < 1)
    return infer_fail(in, TENON_EINVAL, "group is %lld, must be at least 1", (long long)at->group);
  dims[1] = w->rank < 0 ? ie_fresh(p, "channels") : ie_mulc(p, w->dims[1], at->group);
  if (w->rank >= 0) TRY(infer_equal_dim(in, x->dims[1], w->dims[0], "input channels of x and w"));
  if (ie_is_const(x->dims[1]) && x->dims[1]->value % at->group)
    return infer_fail(in, TENON_EINVAL, "%lld input channels do not divide into %lld groups",
                      (long long)x->dims[1]->value, (long long)at->group);
  TRY(check_bias(in, 2, dims[1]));
  int64_t one[MAX_RANK], bad;
  for (int d = 0; d < nd; d++) one[d] = known && ie_is_const(kernel[d]) ? kernel[d]->value : 1;
  WindowSpec s = {
      .kernel = {nd, one}, .strides = at->strides, .pads = at->pads, .dilations = at->dilations};
  const char *message = window_check(&s, nd, &bad);
  if (message) return infer_fail(in, TENON_EINVAL, message, (long long)bad);
  for (int d = 0; d < nd && !known; d++) dims[d + 2] = ie_fresh(p, "conv");
  if (known) TRY(transposed_sizes(in, x, kernel, nd, dims + 2));
  return infer_set(in, 0, x->dtype, x->rank, dims);
}
INFER_ORDERED(conv_transpose, conv_transpose_attrs, 1, ORDER_CONV_TRANSPOSE)
static double cost_conv_transpose(const CostIn *c) {
  const CostShape *x = &c->in[0], *w = &c->in[1];
  if (x->rank < 3 || w->rank < 3) return 0;
  int64_t channels = w->dims[node_channels_last(c->node) ? w->rank - 2 : 0];
  return channels ? 2 * (double)x->n * ((double)w->n / (double)channels) : 0;
}
const OpInfo op_conv_transpose = {
    .name = "conv_transpose",
    .doc = "the transpose of conv: each input element adds its multiple of w to a window of the "
           "result",
    .onnx = "ConvTranspose",
    .onnx_since = 1,
    .operands = "x w b?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_CONV_TRANSPOSE, 0, 0, 1, 2, -1, -1, -1, -1, -1, -1),
    .layout = LAYOUT_AWARE,
    OP_ATTRS(conv_transpose),
    .infer = infer_conv_transpose,
    .eval = eval_conv_transpose,
    .cost = cost_conv_transpose,
    SAMPLES("(f32[1,3,4,5], f32[3,2,3,3], f32[2]) strides=[2, 2] pads=[1, 1, 1, 1] "
            "output_padding=[1, 1]",
            "(f32[1,4,6], f32[4,2,3]) group=2 dilations=[2]",
            "(f32[1,1,3,3], f32[1,2,3,3]) strides=[3, 2] output_shape=[10, 8]",
            "(f32[1,1,3,3], f32[1,2,3,3]) strides=[2, 2] auto_pad=SAME_UPPER",
            "(f16[1,2,2,2,2], f16[2,1,2,2,2])", "(f32[n,3,h,w], f32[3,2,2,2]) strides=[2, 2]",
            "(f32[1,4,5,3], f32[3,3,3,2], f32[2]) strides=[2, 2] pads=[1, 1, 1, 1] "
            "output_padding=[1, 1] channels_last=true",
            "(f32[n,6,4], f32[3,4,2]) group=2 dilations=[2] channels_last=true"),
};

// ---- integers ----

static tenon_status need_bytes(Infer *in, int i) {
  TRY(infer_need(in, i, 0));
  DType t = infer_type(in, i)->dtype;
  if (!t || t == DT_I8 || t == DT_U8) return TENON_OK;
  return infer_fail(in, TENON_EINVAL, "operand %d is %s, must be i8 or u8", i, dtype_name(t));
}

static tenon_status first_conv_integer(Infer *in) {
  TRY(need_bytes(in, 0));
  TRY(need_bytes(in, 1));
  if (infer_src(in, 2)) TRY(infer_same_dtype(in, 0, 2));
  if (infer_src(in, 3)) TRY(infer_same_dtype(in, 1, 3));
  return infer_conv_of(in, 0, 1, in->nsrc, DT_I32);  // no bias
}
INFER_ORDERED(conv_integer, conv_attrs, 1, ORDER_CONV)
const OpInfo op_conv_integer = {
    .name = "conv_integer",
    .doc = "exact convolution of 8-bit integers less their zero points, in 32 bits",
    .onnx = "ConvInteger",
    .onnx_since = 10,
    .operands = "x w x_zero_point? w_zero_point?",
    .results = "y",
    .dtypes = "integer",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_CONV, CONTRACT_INT8, 0, 1, -1, 2, 3, -1, -1, -1, -1),
    .layout = LAYOUT_AWARE,
    OP_ATTRS(conv),
    .infer = infer_conv_integer,
    .eval = eval_conv_integer,
    .cost = cost_conv,
    SAMPLES("(u8[1,2,5,5], u8[3,2,2,2], u8[]{7}, u8[3]{1,2,3}) pads=[1, 1, 1, 1]",
            "(i8[1,2,5], i8[2,1,3]) group=2", "(u8[n,1,h,w], i8[1,1,3,3])",
            "(u8[1,5,5,2], u8[2,2,2,3], u8[]{7}, u8[3]{1,2,3}) pads=[1, 1, 1, 1] "
            "channels_last=true"),
};

static tenon_status first_q_linear_conv(Infer *in) {
  for (int i = 0; i < 8; i++) {
    if (i == 1 || i == 4 || i == 6)
      TRY(infer_need(in, i, DT_F32));
    else
      TRY(need_bytes(in, i));
  }
  TRY(infer_same_dtype(in, 0, 2));
  TRY(infer_same_dtype(in, 3, 5));
  if (infer_src(in, 8)) TRY(infer_need(in, 8, DT_I32));
  return infer_conv_of(in, 0, 3, 8, infer_type(in, 7)->dtype);
}
INFER_ORDERED(q_linear_conv, conv_attrs, 3, ORDER_CONV)
static double cost_q_linear_conv(const CostIn *c) { return conv_cost(c, 3); }
const OpInfo op_q_linear_conv = {
    .name = "q_linear_conv",
    .doc = "convolution of quantised operands, quantised: round((conv + b) * x_scale * w_scale / "
           "y_scale) + "
           "y_zero_point",
    .onnx = "QLinearConv",
    .onnx_since = 10,
    .operands = "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point b?",
    .results = "y",
    .dtypes = "integer",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_CONV, CONTRACT_INT8 | CONTRACT_REQUANTIZED, 0, 3, 8, 2, 5, 7, 1, 4, 6),
    .layout = LAYOUT_AWARE,
    OP_ATTRS(conv),
    .infer = infer_q_linear_conv,
    .eval = eval_q_linear_conv,
    .cost = cost_q_linear_conv,
    SAMPLES("(u8[1,2,5,5], f32[]{0.5}, u8[]{7}, u8[3,2,2,2], f32[]{0.25}, u8[]{3}, f32[]{8}, "
            "u8[]{100})",
            "(i8[1,2,5], f32[]{0.5}, i8[]{7}, i8[2,1,3], f32[2]{0.25,1}, i8[2]{0,0}, f32[]{4}, "
            "i8[]{0}, "
            "i32[2]{100,-100}) group=2 pads=[1, 1]",
            "(i8[1,5,2], f32[]{0.5}, i8[]{7}, i8[3,1,2], f32[2]{0.25,1}, i8[2]{0,0}, f32[]{4}, "
            "i8[]{0}, i32[2]{100,-100}) group=2 pads=[1, 1] channels_last=true"),
};

// ---- deform_conv ----

ATTR_TABLE(deform_conv, DEFORM_CONV_ATTRS);
// [batch, channels, the result's spatial sizes], one channel for `each` of every tap of an offset
// group.
static tenon_status check_deform(Infer *in, int i, const Dim *out, int nd, const Dim *kernel,
                                 int64_t each) {
  const deform_conv_attrs *at = in->attrs;
  const Type *t = infer_type(in, i);
  if (!t || t->rank < 0) return TENON_OK;
  if (t->rank != nd + 2)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be %d", i, t->rank, nd + 2);
  IntPool *p = &in->g->dims;
  Dim channels = ie_mulc(p, ie_const(p, each), at->offset_group);
  for (int d = 0; d < nd; d++) channels = ie_mul(p, channels, kernel[d]);
  TRY(infer_equal_dim(in, t->dims[0], out[0], "batch of the offsets"));
  TRY(infer_equal_dim(in, t->dims[1], channels, "offsets of all taps"));
  for (int d = 0; d < nd; d++)
    TRY(infer_equal_dim(in, t->dims[d + 2], out[d + 2], "offsets and result"));
  return TENON_OK;
}

static tenon_status infer_deform_conv(Infer *in) {
  const deform_conv_attrs *at = in->attrs;
  for (int i = 1; i < in->nsrc; i++)
    if (infer_src(in, i)) TRY(infer_same_dtype(in, 0, i));
  const Type *x = infer_type(in, 0), *w = infer_type(in, 1);
  TRY(infer_whole_bytes(in, x->dtype));
  bool done, known;
  TRY(conv_ranks(in, x, w, x->dtype, &done));
  if (done) return TENON_OK;
  int nd = x->rank - 2;
  Dim kernel[MAX_RANK], dims[MAX_RANK] = {x->dims[0]};
  TRY(kernel_dims(in, at->kernel_shape, w, nd, kernel, &known));
  dims[1] = w->rank < 0 ? ie_fresh(&in->g->dims, "channels") : w->dims[0];
  if (w->rank >= 0) TRY(check_channels(in, x->dims[1], w->dims[0], w->dims[1], at->group));
  if (at->offset_group < 1)
    return infer_fail(in, TENON_EINVAL, "offset_group is %lld, must be at least 1",
                      (long long)at->offset_group);
  TRY(check_bias(in, 3, dims[1]));
  for (int d = 0; d < nd && !known; d++) dims[d + 2] = ie_fresh(&in->g->dims, "conv");
  WindowSpec s = {.strides = at->strides, .pads = at->pads, .dilations = at->dilations};
  if (known) TRY(infer_window(in, &s, nd, x->dims + 2, kernel, dims + 2));
  if (known) TRY(check_deform(in, 2, dims, nd, kernel, nd));
  if (known) TRY(check_deform(in, 4, dims, nd, kernel, 1));
  return infer_set(in, 0, x->dtype, x->rank, dims);
}
const OpInfo op_deform_conv = {
    .name = "deform_conv",
    .doc =
        "convolution whose taps are moved by offsets, interpolated linearly and weighted by a mask",
    .onnx = "DeformConv",
    .onnx_since = 19,
    .operands = "x w offset b? mask?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_OTHER, 0, 0, 1, 3, -1, -1, -1, -1, -1, -1),
    OP_ATTRS(deform_conv),
    .infer = infer_deform_conv,
    .eval = eval_deform_conv,
    .cost = cost_conv,
    SAMPLES(
        "(f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3])",
        "(f32[1,2,4,4], f32[2,1,3,3], f32[1,36,4,4], f32[2], f32[1,18,4,4]) group=2 offset_group=2 "
        "pads=[1, 1, 1, 1]"),
};

// ---- causal_conv_with_state ----

ATTR_TABLE(causal_conv_with_state, CAUSAL_CONV_WITH_STATE_ATTRS);
static tenon_status infer_causal_conv_with_state(Infer *in) {
  TRY(infer_same_dtype(in, 0, 1));
  const Type *x = infer_type(in, 0), *w = infer_type(in, 1), *past = infer_type(in, 3);
  TRY(infer_whole_bytes(in, x->dtype));
  if (in->nres > 2) return infer_fail(in, TENON_EINVAL, "%d results are too many", in->nres);
  if ((x->rank >= 0 && x->rank != 3) || (w->rank >= 0 && w->rank != 3))
    return infer_fail(in, TENON_EINVAL, "input of rank %d and weight of rank %d, must be 3",
                      x->rank, w->rank);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    infer_set_unranked(in, 1, x->dtype);
    return TENON_OK;
  }
  IntPool *p = &in->g->dims;
  Dim taps = w->rank == 3 ? ie_addc(p, w->dims[2], -1) : ie_fresh(p, "taps");
  Dim state[3] = {x->dims[0], x->dims[1], taps};
  if (w->rank == 3)
    TRY(infer_equal_dim(in, w->dims[0], x->dims[1], "channels of input and weight"));
  if (past && past->rank == 3)
    for (int d = 0; d < 3; d++) TRY(infer_equal_dim(in, past->dims[d], state[d], "past_state"));
  TRY(check_bias(in, 2, x->dims[1]));
  TRY(infer_set(in, 0, x->dtype, 3, x->dims));
  return infer_set(in, 1, x->dtype, 3, state);
}
static double cost_causal_conv_with_state(const CostIn *c) {
  return c->in[1].rank == 3 && c->out[0].rank == 3
             ? 2 * (double)c->out[0].n * (double)c->in[1].dims[2]
             : 0;
}
// A depthwise convolution of what was and what comes.
static void expand_causal_conv_with_state(Graph *g, const Node *n, Node **out) {
  const causal_conv_with_state_attrs *at = n->attrs;
  Node *x = n->src[0], *bias = src_or_null(g, n, 2), *past = src_or_null(g, n, 3);
  const Type *w = type_of(n->src[1]);
  if (type_of(x)->rank != 3 || w->rank != 3 || !ie_is_const(w->dims[0]) || !ie_is_const(w->dims[2]))
    return;
  if (w->dims[0]->value < 1 || w->dims[2]->value < 1) return;  // no channels, no taps
  int64_t before = w->dims[2]->value - 1;
  if (past)
    x = node_new(g, OP_concat, 2, (Node *[]){past, x}, &(concat_attrs){.axis = 2}, 1, NULL);
  else
    x = NA(g, pad, &(pad_attrs){0}, x, node_i64s(g, 6, (int64_t[]){0, 0, before, 0, 0, 0}));
  conv_attrs conv = {.group = w->dims[0]->value};
  Node *src[] = {x, n->src[1], bias};
  Node *y = node_new(g, OP_conv, bias ? 3 : 2, src, &conv, 1, NULL);
  if (at->activation) y = NA(g, swish, &(swish_attrs){.alpha = 1}, y);
  out[0] = y;
  int64_t from = before ? -before : INT64_MAX;
  if (n->nres > 1)
    out[1] = N(g, slice, x, node_i64s(g, 1, &from), node_i64s(g, 1, (int64_t[]){INT64_MAX}),
               node_i64s(g, 1, (int64_t[]){2}));
}

const OpInfo op_causal_conv_with_state = {
    .name = "causal_conv_with_state",
    .doc = "depthwise convolution over the past state and the input; the second result is the last "
           "taps - 1 elements",
    .onnx = "CausalConvWithState",
    .onnx_since = 27,
    .operands = "input weight bias? past_state?",
    .results = "output present_state",
    .dtypes = "float",
    .arity = -1,
    .nres = 2,
    CONTRACTION(CF_OTHER, 0, 0, 1, 2, -1, -1, -1, -1, -1, -1),
    .flags = OPF_COMPOSITE,
    OP_ATTRS(causal_conv_with_state),
    .infer = infer_causal_conv_with_state,
    .eval = eval_causal_conv_with_state,
    .expand = expand_causal_conv_with_state,
    .cost = cost_causal_conv_with_state,
    SAMPLES("(f32[2,3,5], f32[3,1,4], f32[3])",
            "(f32[2,3,1], f32[3,1,4], _, f32[2,3,3]) activation=silu", "(f16[1,2,6], f16[2,1,1])",
            "(f32[b,3,t], f32[3,1,4])"),
};

// ---- col2im ----

ATTR_TABLE(col2im, COL2IM_ATTRS);
// As many columns as the window has places in the image.
static tenon_status check_columns(Infer *in, const Dim *image, Ints block, Dim columns) {
  const col2im_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  Dim kernel[MAX_RANK], places[MAX_RANK], all = p->one;
  int nd = (int)block.n;
  WindowSpec s = {
      .kernel = block, .strides = at->strides, .pads = at->pads, .dilations = at->dilations};
  for (int d = 0; d < nd; d++) kernel[d] = ie_const(p, block.v[d]);
  TRY(infer_window(in, &s, nd, image, kernel, places));
  for (int d = 0; d < nd; d++) all = ie_mul(p, all, places[d]);
  return infer_equal_dim(in, columns, all, "columns and places of the block");
}

static tenon_status infer_col2im(Infer *in) {
  TRY(infer_need(in, 0, 0));
  TRY(infer_need_ints(in, 1, "image_shape"));
  TRY(infer_need_ints(in, 2, "block_shape"));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank >= 0 && x->rank != 3)
    return infer_fail(in, TENON_EINVAL, "input of rank %d, must be 3", x->rank);
  IntPool *p = &in->g->dims;
  int64_t n = infer_length(in, 1), nb = infer_length(in, 2), nsym = 0;
  const col2im_attrs *at = in->attrs;
  if (n < 0) n = nb;
  if (n < 0 && at->strides.n) n = at->strides.n;
  if (n < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  if ((nb >= 0 && nb != n) || n < 1 || n > MAX_RANK - 2)
    return infer_fail(in, TENON_EINVAL, "image_shape of %lld and block_shape of %lld numbers",
                      (long long)n, (long long)nb);
  const Dim *image = NULL;
  Ints block;
  Dim dims[MAX_RANK] = {x->rank == 3 ? x->dims[0] : ie_fresh(p, "batch"), NULL}, taps = p->one;
  bool known = node_sym(in->g, in->src[1], &nsym, &image) && nsym == n;
  for (int d = 0; d < n; d++) dims[d + 2] = known ? image[d] : ie_fresh(p, "image");
  bool blocks = infer_ints(in, 2, &block);
  for (int64_t d = 0; blocks && d < block.n; d++) {
    if (block.v[d] < 1)
      return infer_fail(in, TENON_EINVAL, "block size %lld", (long long)block.v[d]);
    taps = ie_mulc(p, taps, block.v[d]);
  }
  if (known && blocks && x->rank == 3 && !ie_is_poison(taps)) {
    TRY(check_columns(in, image, block, x->dims[2]));
    if (ie_is_const(x->dims[1]) && ie_is_const(taps) && x->dims[1]->value % taps->value)
      return infer_fail(in, TENON_EINVAL, "%lld rows are no whole blocks of %lld",
                        (long long)x->dims[1]->value, (long long)taps->value);
  }
  dims[1] = blocks && x->rank == 3 && !ie_is_poison(taps) ? ie_div(p, x->dims[1], taps)
                                                          : ie_fresh(p, "channels");
  return infer_set(in, 0, x->dtype, (int)n + 2, dims);
}
static double cost_col2im(const CostIn *c) { return c->in[0].rank < 0 ? 0 : (double)c->in[0].n; }
// The places of the window in the image, along each axis.
typedef struct Columns {
  int nd;
  int64_t taps, image[MAX_RANK], block[MAX_RANK], places[MAX_RANK];
  int64_t stride[MAX_RANK], dilation[MAX_RANK], low[MAX_RANK];
} Columns;

static bool read_columns(Graph *g, const Node *n, Columns *c) {
  enum { TAPS_MOST = 64 };
  const col2im_attrs *at = n->attrs;
  Ints image, block;
  if (!node_ints(g, n->src[1], &image) || !node_ints(g, n->src[2], &block) ||
      type_of(n->src[0])->rank != 3 || block.n != image.n || 2 + 2 * block.n > MAX_RANK)
    return false;
  *c = (Columns){.nd = (int)block.n, .taps = 1};
  for (int d = 0; d < c->nd; d++) {
    int64_t high = at->pads.n ? at->pads.v[c->nd + d] : 0;
    c->image[d] = image.v[d];
    c->block[d] = block.v[d];
    c->stride[d] = at->strides.n ? at->strides.v[d] : 1;
    c->dilation[d] = at->dilations.n ? at->dilations.v[d] : 1;
    c->low[d] = at->pads.n ? at->pads.v[d] : 0;
    int64_t most = INT32_MAX;
    if (c->image[d] < 1 || c->image[d] > most || c->block[d] < 1 || c->block[d] > TAPS_MOST ||
        c->stride[d] > most || c->dilation[d] > most || c->low[d] > most || high > most)
      return false;
    int64_t room = c->image[d] + c->low[d] + high - (c->block[d] - 1) * c->dilation[d] - 1;
    if (room < 0) return false;
    c->places[d] = room / c->stride[d] + 1;
    c->taps *= c->block[d];
    if (c->taps > TAPS_MOST) return false;
  }
  return true;
}

// One tap's elements, [batch, channels, places...], at its places of the image; 0 elsewhere.
static Node *place_tap(Graph *g, const Columns *c, Node *x, int64_t tap) {
  int64_t inner[MAX_RANK], joined[MAX_RANK] = {0}, pads[2 * MAX_RANK] = {0};
  int64_t fill[2 * MAX_RANK] = {0};
  bool strided = false;
  for (int d = 0; d < c->nd; d++) {
    inner[d] = 2 * d + 3;
    fill[2 + 2 * c->nd + 2 * d + 3] = c->stride[d] - 1;
    joined[2 + d] = c->places[d] * c->stride[d];
    strided |= c->stride[d] > 1;
  }
  if (strided) {
    x = N(g, unsqueeze, x, node_i64s(g, c->nd, inner));
    x = NA(g, pad, &(pad_attrs){0}, x, node_i64s(g, 2 * (2 + 2 * c->nd), fill));
    x = N(g, reshape, x, node_i64s(g, 2 + c->nd, joined));
  }
  for (int d = c->nd - 1; d >= 0; d--) {
    int64_t first = tap % c->block[d] * c->dilation[d] - c->low[d];
    tap /= c->block[d];
    pads[2 + d] = first;
    pads[2 + c->nd + 2 + d] = c->image[d] - first - joined[2 + d];
  }
  return NA(g, pad, &(pad_attrs){0}, x, node_i64s(g, 2 * (2 + c->nd), pads));
}

// The taps, each shifted to its place, added in their order.
static void expand_col2im(Graph *g, const Node *n, Node **out) {
  Columns c;
  if (!read_columns(g, n, &c)) return;
  int64_t shape[MAX_RANK + 1] = {0, -1, c.taps}, two = 2;
  for (int d = 0; d < c.nd; d++) shape[3 + d] = c.places[d];
  Node *x = N(g, reshape, n->src[0], node_i64s(g, 3 + c.nd, shape)), *sum = NULL;
  for (int64_t tap = 0; tap < c.taps; tap++) {
    int64_t next = tap + 1;
    Node *axis = node_i64s(g, 1, &two);
    Node *one = N(g, slice, x, node_i64s(g, 1, &tap), node_i64s(g, 1, &next), axis);
    one = place_tap(g, &c, N(g, squeeze, one, axis), tap);
    sum = sum ? N(g, add, sum, one) : one;
  }
  out[0] = sum;
}

const OpInfo op_col2im = {
    .name = "col2im",
    .doc = "adds blocks, one a column, back into the image that they were taken from",
    .onnx = "Col2Im",
    .onnx_since = 18,
    .operands = "input image_shape block_shape",
    .results = "output",
    .dtypes = "number",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(col2im),
    .infer = infer_col2im,
    .eval = eval_col2im,
    .expand = expand_col2im,
    .cost = cost_col2im,
    SAMPLES("(f32[1,5,5], i64[2]{5,5}, i64[2]{1,5})",
            "(f32[2,8,16], i64[2]{3,3}, i64[2]{2,2}) pads=[1, 1, 1, 1]",
            "(i32[1,4,4], i64[2]{4,4}, i64[2]{2,2}) strides=[2, 2]"),
};

// ---- det ----

static tenon_status infer_det(Infer *in) {
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  if (x->rank < 2) return infer_fail(in, TENON_EINVAL, "x of rank %d, must be at least 2", x->rank);
  TRY(infer_equal_dim(in, x->dims[x->rank - 2], x->dims[x->rank - 1], "sides of the matrix"));
  return infer_set(in, 0, x->dtype, x->rank - 2, x->dims);
}
static double cost_det(const CostIn *c) {
  const CostShape *x = &c->in[0];
  return x->rank < 2 ? 0 : 2.0 / 3 * (double)x->n * (double)x->dims[x->rank - 1];
}
const OpInfo op_det = {
    .name = "det",
    .doc = "determinant of the matrices in the last two axes",
    .onnx = "Det",
    .onnx_since = 11,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .infer = infer_det,
    .eval = eval_det,
    .cost = cost_det,
    SAMPLES("(f32[3,3])", "(f64[2,4,4])", "(f32[0,0])", "(f32[b,n,n])"),
};
