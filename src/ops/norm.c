// norm.c -- records of softmax and the normalisations.
//
// The expansions of the normalisations work in f32 where the operands are narrower, as the
// standard's stash_type asks, and round to the operand's type at the end.
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/scalar.h"
#include "ops/order.h"
#include "ops/sym.h"
#include "ops/window.h"

// ---- pieces of expansions ----

static Node *cast_to(Graph *g, Node *x, DType t) {
  cast_attrs at = {.to = t, .saturate = true};
  return type_of(x)->dtype == t ? x : NA(g, cast, &at, x);
}
// The type in which sums are taken.
static DType wide_type(DType t) { return dtype_bits(t) < 32 ? DT_F32 : t; }
static Node *axes_from(Graph *g, int from, int rank) {
  int64_t axes[MAX_RANK];
  for (int d = from; d < rank; d++) axes[d - from] = d;
  return node_i64s(g, rank - from, axes);
}
// A parameter by channel, shaped to stand under [batch, channels, spatial...] or [batch,
// spatial..., channels].
static Node *by_channel(Graph *g, Node *p, int rank, DType t, bool last) {
  int64_t shape[MAX_RANK];
  for (int d = 0; d < rank - 1; d++) shape[d] = d ? 1 : -1;
  p = cast_to(g, p, t);
  return rank > 2 && !last ? N(g, reshape, p, node_i64s(g, rank - 1, shape)) : p;
}
// 1 / sqrt(v + eps)
static Node *inverse_root(Graph *g, Node *v, double eps) {
  return N(g, reciprocal, N(g, sqrt, N(g, add, v, node_scalar(g, type_of(v)->dtype, eps))));
}
// (x - mean) / sqrt(var + eps) over the axes; optionally the two factors.
static Node *standardise(Graph *g, Node *x, Node *axes, double eps, Node **out_mean,
                         Node **out_inv) {
  Node *mean = N(g, reduce_mean, x, axes), *d = N(g, sub, x, mean);
  Node *inv = inverse_root(g, N(g, reduce_mean, N(g, mul, d, d), axes), eps);
  if (out_mean) *out_mean = mean;
  if (out_inv) *out_inv = inv;
  return N(g, mul, d, inv);
}

// ---- softmax ----

static tenon_status infer_lane(Infer *in, int64_t axis) {
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  int at;
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank >= 0) TRY(infer_axis(in, axis, MAX(x->rank, 1), &at));
  infer_set_type(in, 0, x);
  return TENON_OK;
}
static double cost_lane(const CostIn *c) {
  return c->out[0].rank < 0 ? 0 : 5 * (double)c->out[0].n;
}

ATTR_TABLE(softmax, SOFTMAX_ATTRS);
static tenon_status infer_softmax(Infer *in) {
  return infer_lane(in, ((const softmax_attrs *)in->attrs)->axis);
}
static Node *shifted(Graph *g, Node *x, Node *axis) {
  return N(g, sub, x, N(g, reduce_max, x, axis));
}
static void expand_softmax(Graph *g, const Node *n, Node **out) {
  const softmax_attrs *at = n->attrs;
  Node *x = n->src[0], *axis = node_i64s(g, 1, &at->axis);
  if (type_of(x)->rank == 0) {
    out[0] = N(g, exp, N(g, sub, x, x));
    return;
  }
  Node *e = N(g, exp, shifted(g, x, axis));
  Node *sum = N(g, reduce_sum, e, axis);
  // One division a row, where a rounding more does not show.
  out[0] =
      dtype_bits(type_of(x)->dtype) < 32 ? N(g, div, e, sum) : N(g, mul, e, N(g, reciprocal, sum));
}
const OpInfo op_softmax = {
    .name = "softmax",
    .doc = "exp(x - max x) / sum exp(x - max x) along axis",
    .onnx = "Softmax",
    .onnx_since = 13,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_NORM,
    .layout = LAYOUT_AXIS,
    .range = RANGE_unit,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(softmax),
    .infer = infer_softmax,
    .eval = eval_softmax,
    .expand = expand_softmax,
    .cost = cost_lane,
    SAMPLES("(f32[4,7])", "(f32[2,3,5]) axis=1", "(f16[2,3])", "(f32[0,3])", "(f32[])",
            "(f32[b,t,64])"),
};

ATTR_TABLE(log_softmax, LOG_SOFTMAX_ATTRS);
static tenon_status infer_log_softmax(Infer *in) {
  return infer_lane(in, ((const log_softmax_attrs *)in->attrs)->axis);
}
static void expand_log_softmax(Graph *g, const Node *n, Node **out) {
  const log_softmax_attrs *at = n->attrs;
  Node *x = n->src[0], *axis = node_i64s(g, 1, &at->axis);
  if (type_of(x)->rank == 0) {
    out[0] = N(g, sub, x, x);
    return;
  }
  Node *s = shifted(g, x, axis);
  out[0] = N(g, sub, s, N(g, log, N(g, reduce_sum, N(g, exp, s), axis)));
}
const OpInfo op_log_softmax = {
    .name = "log_softmax",
    .doc = "log of softmax along axis",
    .onnx = "LogSoftmax",
    .onnx_since = 13,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_NORM,
    .layout = LAYOUT_AXIS,
    .range = RANGE_below_zero,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(log_softmax),
    .infer = infer_log_softmax,
    .eval = eval_log_softmax,
    .expand = expand_log_softmax,
    .cost = cost_lane,
    SAMPLES("(f32[4,7])", "(f32[2,3,5]) axis=-2", "(f16[2,3])", "(f32[0,3])", "(f32[b,t,64])"),
};

// ---- over the last axes ----

static tenon_status check_broadcasts(Infer *in, int i) {
  const Type *x = infer_type(in, 0), *p = infer_type(in, i);
  if (!p || p->rank < 0 || x->rank < 0) return TENON_OK;
  if (p->rank > x->rank)
    return infer_fail(in, TENON_EINVAL, "operand %d of rank %d does not broadcast to rank %d", i,
                      p->rank, x->rank);
  for (int d = 0; d < p->rank; d++) {
    Dim own = p->dims[d], size = x->dims[x->rank - p->rank + d];
    if (!ie_is(own, 1) && ie_is_const(own))
      TRY(infer_equal_dim(in, own, size, "a parameter and x"));
  }
  return TENON_OK;
}

ATTR_TABLE(layer_normalization, LAYER_NORMALIZATION_ATTRS);
static tenon_status infer_layer_normalization(Infer *in) {
  const layer_normalization_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, 0));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (!dtype_valid(at->stash_type) || !dtype_is_float((DType)at->stash_type))
    return infer_fail(in, TENON_EINVAL, "stash_type %lld is not a float type",
                      (long long)at->stash_type);
  if (in->nres > 3) return infer_fail(in, TENON_EINVAL, "%d results are too many", in->nres);
  TRY(check_broadcasts(in, 1));
  TRY(check_broadcasts(in, 2));
  infer_set_type(in, 0, x);
  if (x->rank < 0) {
    infer_set_unranked(in, 1, (DType)at->stash_type);
    infer_set_unranked(in, 2, (DType)at->stash_type);
    return TENON_OK;
  }
  int axis;
  TRY(infer_axis(in, at->axis, x->rank, &axis));
  Dim dims[MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = d < axis ? x->dims[d] : in->g->dims.one;
  TRY(infer_set(in, 1, (DType)at->stash_type, x->rank, dims));
  return infer_set(in, 2, (DType)at->stash_type, x->rank, dims);
}
static double cost_norm(const CostIn *c) {
  return c->out[0].rank < 0 ? 0 : 8 * (double)c->out[0].n;
}
static void expand_layer_normalization(Graph *g, const Node *n, Node **out) {
  const layer_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  if (x->rank < 1 || !x->dtype) return;
  DType t = wide_type(x->dtype);
  Node *axes = axes_from(g, (int)(at->axis < 0 ? at->axis + x->rank : at->axis), x->rank), *mean,
       *inv;
  Node *y = standardise(g, cast_to(g, n->src[0], t), axes, at->epsilon, &mean, &inv);
  y = N(g, mul, y, cast_to(g, n->src[1], t));
  if (src_or_null(g, n, 2)) y = N(g, add, y, cast_to(g, n->src[2], t));
  out[0] = cast_to(g, y, x->dtype);
  if (n->nres > 1) out[1] = cast_to(g, mean, (DType)at->stash_type);
  if (n->nres > 2) out[2] = cast_to(g, inv, (DType)at->stash_type);
}
const OpInfo op_layer_normalization = {
    .name = "layer_normalization",
    .doc = "(x - mean) / sqrt(var + epsilon) * scale + b, over the axes from `axis` on",
    .onnx = "LayerNormalization",
    .onnx_since = 17,
    .operands = "x scale b?",
    .results = "y mean? inv_std_dev?",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_NORM,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(layer_normalization),
    .infer = infer_layer_normalization,
    .eval = eval_layer_normalization,
    .expand = expand_layer_normalization,
    .cost = cost_norm,
    SAMPLES("(f32[2,3,8], f32[8], f32[8])", "(f32[2,3,4], f32[3,4]) axis=1 epsilon=0.001",
            "(f16[4,16], f16[16], f16[16]) -> 3", "(f32[2,3,4], f32[4]) -> 2", "(f32[0,8], f32[8])",
            "(f32[b,t,64], f32[64], f32[64])"),
};

ATTR_TABLE(rms_normalization, RMS_NORMALIZATION_ATTRS);
static tenon_status infer_rms_normalization(Infer *in) {
  const rms_normalization_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, 0));
  const Type *x = infer_type(in, 0);
  int axis;
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank >= 0) TRY(infer_axis(in, at->axis, x->rank, &axis));
  TRY(check_broadcasts(in, 1));
  infer_set_type(in, 0, type_with_dtype(in->g, x, infer_type(in, 1)->dtype));
  return TENON_OK;
}
static void expand_rms_normalization(Graph *g, const Node *n, Node **out) {
  const rms_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  if (x->rank < 1 || !x->dtype || !type_of(n)->dtype) return;
  DType t = wide_type(x->dtype);
  Node *v = cast_to(g, n->src[0], t);
  Node *axes = axes_from(g, (int)(at->axis < 0 ? at->axis + x->rank : at->axis), x->rank);
  Node *y = N(g, mul, v, inverse_root(g, N(g, reduce_mean, N(g, mul, v, v), axes), at->epsilon));
  DType to = type_of(n)->dtype;
  if (to != x->dtype) {  // the first stage ends in the type of x
    y = cast_to(g, y, x->dtype);
    t = wide_type(to);
  }
  out[0] = cast_to(g, N(g, mul, cast_to(g, y, t), cast_to(g, n->src[1], t)), to);
}
const OpInfo op_rms_normalization = {
    .name = "rms_normalization",
    .doc = "x / sqrt(mean(x * x) + epsilon) * scale, over the axes from `axis` on",
    .onnx = "RMSNormalization",
    .onnx_since = 23,
    .operands = "x scale",
    .results = "y",
    .dtypes = "float",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_NORM,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(rms_normalization),
    .infer = infer_rms_normalization,
    .eval = eval_rms_normalization,
    .expand = expand_rms_normalization,
    .cost = cost_norm,
    SAMPLES("(f32[2,3,8], f32[8])", "(f32[2,3,4], f32[3,4]) axis=-2", "(f16[4,16], f16[16])",
            "(f32[b,t,64], f32[64])"),
};

// ---- by channel ----

// x of at least the given rank; operands [first, last] are one number a channel (or `other` of
// them, which a symbolic size does not tell).
static tenon_status infer_channels(Infer *in, int least_rank, int first, int last, Dim other) {
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank >= 0 && x->rank < least_rank)
    return infer_fail(in, TENON_EINVAL, "x of rank %d, must be at least %d", x->rank, least_rank);
  for (int i = first; i <= last; i++) {
    TRY(infer_need(in, i, 0));
    const Type *p = infer_type(in, i);
    if (p->rank < 0 || x->rank < 0) continue;
    if (p->rank != 1)
      return infer_fail(in, TENON_EINVAL, "operand %d of rank %d, must be 1", i, p->rank);
    if (other && (p->dims[0] == other || !ie_is_const(p->dims[0]))) continue;
    TRY(infer_equal_dim(in, p->dims[0], x->rank > 1 ? x->dims[1] : in->g->dims.one,
                        "a parameter and the channels"));
  }
  infer_set_type(in, 0, x);
  return TENON_OK;
}

ATTR_TABLE(batch_normalization, BATCH_NORMALIZATION_ATTRS);
static tenon_status first_batch_normalization(Infer *in) {
  const batch_normalization_attrs *at = in->attrs;
  TRY(infer_channels(in, 1, 1, 4, NULL));
  if (in->nres > (at->training_mode ? 5 : 1))
    return infer_fail(in, TENON_EINVAL, "%d results with training_mode %s", in->nres,
                      at->training_mode ? "true: at most 5" : "false: only y");
  const Type *x = infer_type(in, 0);
  for (int i = 1; i < in->nres; i++) {
    const Type *t = infer_type(in, i % 2 ? 3 : 4);
    Dim n = t->rank == 1 ? t->dims[0] : NULL;
    if (n && x->rank > 1 && ie_is_const(x->dims[1])) n = x->dims[1];
    if (n)
      TRY(infer_set(in, i, t->dtype, 1, &n));
    else
      infer_set_type(in, i, t);
  }
  return TENON_OK;
}
INFER_ORDERED(batch_normalization, batch_normalization_attrs, 0, ORDER_DATA)
// The batch's own mean and variance, and what they make of the running ones.
static void expand_training(Graph *g, const Node *n, Node **out) {
  const batch_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  int channel = at->channels_last ? x->rank - 1 : 1, naxes = 0;
  int64_t axes[MAX_RANK], all = -1;
  DType t = wide_type(x->dtype);
  for (int d = 0; d < x->rank; d++)
    if (d != channel) axes[naxes++] = d;
  Node *over = node_i64s(g, naxes, axes), *wide = cast_to(g, n->src[0], t), *now[2];
  now[0] = N(g, reduce_mean, wide, over);
  Node *d = N(g, sub, wide, now[0]);
  now[1] = N(g, reduce_mean, N(g, mul, d, d), over);
  Node *y = N(g, mul, d, inverse_root(g, now[1], at->epsilon));
  y = N(g, mul, y, by_channel(g, n->src[1], x->rank, t, at->channels_last));
  y = N(g, add, y, by_channel(g, n->src[2], x->rank, t, at->channels_last));
  out[0] = cast_to(g, y, x->dtype);
  for (int i = 1; i < n->nres && !graph_status(g); i++) {
    Node *old = n->src[i % 2 ? 3 : 4], *own = N(g, reshape, now[1 - i % 2], node_i64s(g, 1, &all));
    DType to = type_of(old)->dtype;
    if (i < 3 && to) {
      old = N(g, mul, cast_to(g, old, t), node_scalar(g, t, at->momentum));
      own = N(g, add, old, N(g, mul, own, node_scalar(g, t, 1 - at->momentum)));
    }
    out[i] = cast_to(g, own, to);
  }
}

static void expand_batch_normalization(Graph *g, const Node *n, Node **out) {
  const batch_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  if (x->rank < 2 || !x->dtype) return;
  if (at->training_mode) {
    expand_training(g, n, out);
    return;
  }
  DType t = wide_type(x->dtype);
  Node *p[5];
  for (int i = 1; i < 5; i++) p[i] = by_channel(g, n->src[i], x->rank, t, at->channels_last);
  Node *factor = N(g, mul, p[1], inverse_root(g, p[4], at->epsilon));
  Node *y = N(g, mul, N(g, sub, cast_to(g, n->src[0], t), p[3]), factor);
  out[0] = cast_to(g, N(g, add, y, p[2]), x->dtype);
}
static double cost_affine(const CostIn *c) {
  return c->out[0].rank < 0 ? 0 : 4 * (double)c->out[0].n;
}
const OpInfo op_batch_normalization = {
    .name = "batch_normalization",
    .doc = "(x - mean) / sqrt(var + epsilon) * scale + b by channel; in training mode mean and var "
           "are the batch's",
    .onnx = "BatchNormalization",
    .onnx_since = 14,
    .operands = "x scale b mean var",
    .results = "y running_mean? running_var? saved_mean? saved_var?",
    .dtypes = "float",
    .arity = 5,
    .nres = 1,
    .fuse = FUSE_POINT,
    .layout = LAYOUT_AWARE,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(batch_normalization),
    .infer = infer_batch_normalization,
    .eval = eval_batch_normalization,
    .expand = expand_batch_normalization,
    .cost = cost_affine,
    SAMPLES("(f32[2,3,4,5], f32[3], f32[3], f32[3], f32[3]{1,2,0.5})",
            "(f32[2,3], f32[3], f32[3], f32[3], f32[3]{1,2,0.5}) epsilon=0.01",
            "(f16[2,3,4], f16[3], f16[3], f32[3], f32[3]{1,2,0.5})",
            "(f32[2,3,4], f32[3], f32[3], f32[3], f32[3]{1,2,0.5}) training_mode=true -> 3",
            "(f32[n,3,h,w], f32[3], f32[3], f32[3], f32[3]{1,2,0.5})",
            "(f32[n,h,w,3], f32[3], f32[3], f32[3], f32[3]{1,2,0.5}) channels_last=true",
            "(f32[2,4,3], f32[3], f32[3], f32[3], f32[3]{1,2,0.5}) training_mode=true "
            "channels_last=true -> 3"),
};

ATTR_TABLE(instance_normalization, INSTANCE_NORMALIZATION_ATTRS);
static tenon_status first_instance_normalization(Infer *in) {
  return infer_channels(in, 2, 1, 2, NULL);
}
INFER_ORDERED(instance_normalization, instance_normalization_attrs, 0, ORDER_DATA)
static void expand_instance_normalization(Graph *g, const Node *n, Node **out) {
  const instance_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  bool last = at->channels_last;
  if (x->rank < 3 || !x->dtype) return;
  DType t = wide_type(x->dtype);
  Node *axes = axes_from(g, last ? 1 : 2, last ? x->rank - 1 : x->rank);
  Node *y = standardise(g, cast_to(g, n->src[0], t), axes, at->epsilon, NULL, NULL);
  y = N(g, mul, y, by_channel(g, n->src[1], x->rank, t, last));
  out[0] = cast_to(g, N(g, add, y, by_channel(g, n->src[2], x->rank, t, last)), x->dtype);
}
const OpInfo op_instance_normalization = {
    .name = "instance_normalization",
    .doc = "(x - mean) / sqrt(var + epsilon) * scale + b, over the spatial axes of each channel of "
           "each image",
    .onnx = "InstanceNormalization",
    .onnx_since = 6,
    .operands = "x scale b",
    .results = "y",
    .dtypes = "float",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_NORM,
    .layout = LAYOUT_AWARE,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(instance_normalization),
    .infer = infer_instance_normalization,
    .eval = eval_instance_normalization,
    .expand = expand_instance_normalization,
    .cost = cost_norm,
    SAMPLES("(f32[2,3,4,5], f32[3], f32[3])", "(f16[1,2,7], f16[2], f16[2]) epsilon=0.01",
            "(f32[n,3,h,w], f32[3], f32[3])", "(f32[n,h,w,3], f32[3], f32[3]) channels_last=true"),
};

ATTR_TABLE(group_normalization, GROUP_NORMALIZATION_ATTRS);
static tenon_status first_group_normalization(Infer *in) {
  const group_normalization_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  if (at->num_groups < 1)
    return infer_fail(in, TENON_EINVAL, "num_groups is %lld, must be at least 1",
                      (long long)at->num_groups);
  if (x->rank > 1 && ie_is_const(x->dims[1]) && x->dims[1]->value % at->num_groups)
    return infer_fail(in, TENON_EINVAL, "%lld channels do not divide into %lld groups",
                      (long long)x->dims[1]->value, (long long)at->num_groups);
  return infer_channels(in, 2, 1, 2, ie_const(&in->g->dims, at->num_groups));
}
INFER_ORDERED(group_normalization, group_normalization_attrs, 0, ORDER_DATA)
static void expand_group_normalization(Graph *g, const Node *n, Node **out) {
  const group_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  bool last = at->channels_last;
  if (x->rank < 2 || !x->dtype) return;
  Dim channels = x->dims[last ? x->rank - 1 : 1];
  for (int i = 1; i <= 2; i++)  // parameters by group stay whole
    if (type_of(n->src[i])->rank != 1 || type_of(n->src[i])->dims[0] != channels) return;
  if (last && !ie_is_const(channels)) {
    expand_last(g, n, out);
    return;
  }
  DType t = wide_type(x->dtype);
  int64_t first_shape[3] = {0, at->num_groups, -1}, odd[2] = {1, 3};
  int64_t last_shape[4] = {0, -1, at->num_groups, last ? channels->value / at->num_groups : 0};
  Node *v = cast_to(g, n->src[0], t);
  v = N(g, reshape, v, last ? node_i64s(g, 4, last_shape) : node_i64s(g, 3, first_shape));
  Node *axes = last ? node_i64s(g, 2, odd) : axes_from(g, 2, 3);
  Node *y = standardise(g, v, axes, at->epsilon, NULL, NULL);
  reshape_attrs as_is = {.allowzero = true};
  y = NA(g, reshape, &as_is, y, N(g, shape, n->src[0]));
  y = N(g, mul, y, by_channel(g, n->src[1], x->rank, t, last));
  out[0] = cast_to(g, N(g, add, y, by_channel(g, n->src[2], x->rank, t, last)), x->dtype);
}
const OpInfo op_group_normalization = {
    .name = "group_normalization",
    .doc = "(x - mean) / sqrt(var + epsilon) * scale + bias, over each group of channels of each "
           "image; scale and "
           "bias are by channel or by group",
    .onnx = "GroupNormalization",
    .onnx_since = 18,
    .operands = "x scale bias",
    .results = "y",
    .dtypes = "float",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_NORM,
    .layout = LAYOUT_AWARE,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(group_normalization),
    .infer = infer_group_normalization,
    .eval = eval_group_normalization,
    .expand = expand_group_normalization,
    .cost = cost_norm,
    SAMPLES(
        "(f32[2,4,3,3], f32[4], f32[4]) num_groups=2", "(f32[2,6,3], f32[3], f32[3]) num_groups=3",
        "(f16[1,4,5], f16[4], f16[4]) num_groups=1", "(f32[n,4,h,w], f32[4], f32[4]) num_groups=2",
        "(f32[n,h,w,4], f32[4], f32[4]) num_groups=2 channels_last=true"),
};

// ---- others ----

ATTR_TABLE(lp_normalization, LP_NORMALIZATION_ATTRS);
static tenon_status infer_lp_normalization(Infer *in) {
  const lp_normalization_attrs *at = in->attrs;
  if (at->p != 1 && at->p != 2)
    return infer_fail(in, TENON_EINVAL, "p is %lld, must be 1 or 2", (long long)at->p);
  return infer_lane(in, at->axis);
}
static void expand_lp_normalization(Graph *g, const Node *n, Node **out) {
  const lp_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  if (x->rank < 1 || !x->dtype) return;
  DType t = wide_type(x->dtype);
  Node *v = cast_to(g, n->src[0], t), *axis = node_i64s(g, 1, &at->axis);
  Node *norm = at->p == 1 ? N(g, reduce_sum, N(g, abs, v), axis)
                          : N(g, sqrt, N(g, reduce_sum, N(g, mul, v, v), axis));
  Node *zero = node_scalar(g, t, 0);
  out[0] = cast_to(g, N(g, where, N(g, eq, norm, zero), zero, N(g, div, v, norm)), x->dtype);
}
const OpInfo op_lp_normalization = {
    .name = "lp_normalization",
    .doc = "x / its p-norm along axis, 0 where that is 0",
    .onnx = "LpNormalization",
    .onnx_since = 1,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_NORM,
    .layout = LAYOUT_AXIS,
    .range = RANGE_lp_norm,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(lp_normalization),
    .infer = infer_lp_normalization,
    .eval = eval_lp_normalization,
    .expand = expand_lp_normalization,
    .cost = cost_lane,
    SAMPLES("(f32[4,7])", "(f32[2,3,5]) axis=1 p=1", "(f16[2,3]) axis=0", "(f32[0,3])"),
};

ATTR_TABLE(lrn, LRN_ATTRS);
static tenon_status first_lrn(Infer *in) {
  const lrn_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (at->size < 1)
    return infer_fail(in, TENON_EINVAL, "size is %lld, must be at least 1", (long long)at->size);
  if (x->rank >= 0 && x->rank < 2)
    return infer_fail(in, TENON_EINVAL, "x of rank %d, must be at least 2: batch and channels",
                      x->rank);
  infer_set_type(in, 0, x);
  return TENON_OK;
}
INFER_ORDERED(lrn, lrn_attrs, 0, ORDER_DATA)
static double cost_lrn(const CostIn *c) {
  const lrn_attrs *at = c->node->attrs;
  return c->out[0].rank < 0 ? 0 : (double)c->out[0].n * (2 * (double)at->size + 4);
}
const OpInfo op_lrn = {
    .name = "lrn",
    .doc = "x / (bias + alpha / size * sum of squares over `size` channels) ^ beta",
    .onnx = "LRN",
    .onnx_since = 1,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    .layout = LAYOUT_AWARE,
    OP_ATTRS(lrn),
    .infer = infer_lrn,
    .eval = eval_lrn,
    .cost = cost_lrn,
    SAMPLES("(f32[2,5,3,3]) size=3", "(f16[1,6,4]) size=4 alpha=0.5 beta=0.5 bias=2",
            "(f32[n,5,h,w]) size=5", "(f32[n,h,w,5]) size=3 channels_last=true"),
};

ATTR_TABLE(mean_variance_normalization, MEAN_VARIANCE_NORMALIZATION_ATTRS);
static tenon_status infer_mean_variance_normalization(Infer *in) {
  static const int64_t usual[] = {0, 2, 3};
  Ints axes = ((const mean_variance_normalization_attrs *)in->attrs)->axes;
  if (!axes.n) axes = (Ints){3, usual};
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  int out[MAX_RANK];
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank >= 0) TRY(infer_axes(in, axes, x->rank, out));
  infer_set_type(in, 0, x);
  return TENON_OK;
}
static void expand_mean_variance_normalization(Graph *g, const Node *n, Node **out) {
  static const int64_t usual[] = {0, 2, 3};
  Ints axes = ((const mean_variance_normalization_attrs *)n->attrs)->axes;
  const Type *x = type_of(n->src[0]);
  if (!axes.n) axes = (Ints){3, usual};
  if (x->rank < 1 || !x->dtype) return;
  DType t = wide_type(x->dtype);
  Node *v = cast_to(g, n->src[0], t), *over = node_i64s(g, axes.n, axes.v);
  Node *d = N(g, sub, v, N(g, reduce_mean, v, over));
  Node *root = N(g, sqrt, N(g, reduce_mean, N(g, mul, d, d), over));
  out[0] = cast_to(g, N(g, div, d, N(g, add, root, node_scalar(g, t, 1e-9))), x->dtype);
}
const OpInfo op_mean_variance_normalization = {
    .name = "mean_variance_normalization",
    .doc = "(x - mean) / (standard deviation + 1e-9) over the axes",
    .onnx = "MeanVarianceNormalization",
    .onnx_since = 9,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_NORM,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(mean_variance_normalization),
    .infer = infer_mean_variance_normalization,
    .eval = eval_mean_variance_normalization,
    .expand = expand_mean_variance_normalization,
    .cost = cost_norm,
    SAMPLES("(f32[2,3,4,5])", "(f32[2,3,4]) axes=[-1]", "(f32[n,3,h,w])"),
};
