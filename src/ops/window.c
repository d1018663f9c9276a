// window.c -- records of the pooling ops, and the symbolic sizes of sliding windows.
#include "ops/window.h"
#include "eval/scalar.h"
#include "ops/order.h"
#include "ops/sym.h"

// ---- sizes ----

tenon_status infer_whole_bytes(Infer *in, DType t) {
  if (!t || dtype_bits(t) % 8 == 0) return TENON_OK;
  return infer_fail(in, TENON_EUNSUPPORTED,
                    "operands of type %s: cast them to a type of whole bytes first", dtype_name(t));
}

static Dim window_size(IntPool *p, const WindowSpec *s, int nd, int d, Dim x, Dim kernel) {
  int64_t stride = s->strides.n ? s->strides.v[d] : 1,
          dilation = s->dilations.n ? s->dilations.v[d] : 1;
  int64_t lo = 0, hi = 0;
  Dim step = ie_const(p, stride);
  if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER) return ie_ceildiv(p, x, step);
  if (s->auto_pad == PAD_NOTSET && s->pads.n) {
    lo = s->pads.v[d];
    hi = s->pads.v[nd + d];
  }
  Dim extent = ie_addc(p, ie_mulc(p, ie_addc(p, kernel, -1), dilation), 1);
  Dim room = ie_sub(p, ie_addc(p, x, lo + hi), extent);
  if (!s->ceil_mode || s->auto_pad == PAD_VALID) return ie_addc(p, ie_div(p, room, step), 1);
  Dim up = ie_addc(p, ie_ceildiv(p, room, step), 1);
  // The last window must not start in the padding: then there is one less.
  Dim most = ie_addc(p, ie_div(p, ie_addc(p, x, lo - 1), step), 1);
  Dim size = ie_min(p, up, most);
  return ie_is_const(extent) && hi < extent->value ? size : ie_max(p, size, ie_addc(p, up, -1));
}

tenon_status infer_window(Infer *in, const WindowSpec *s, int nd, const Dim *x, const Dim *kernel,
                          Dim *out) {
  WindowSpec given = *s;
  int64_t one[MAX_RANK], bad;
  for (int d = 0; d < nd; d++)
    one[d] = !s->kernel.n && ie_is_const(kernel[d]) ? kernel[d]->value : 1;
  if (!given.kernel.n && kernel) given.kernel = (Ints){nd, one};  // symbolic ones pass the check
  const char *message = window_check(&given, nd, &bad);
  if (message) return infer_fail(in, TENON_EINVAL, message, (long long)bad);
  IntPool *p = &in->g->dims;
  for (int d = 0; d < nd; d++) {
    Dim k = s->kernel.n ? ie_const(p, s->kernel.v[d]) : kernel[d];
    out[d] = window_size(p, s, nd, d, x[d], k);
    if (out[d]->hi < 0)
      return infer_fail(in, TENON_EINVAL,
                        "the window does not fit into the padded input along spatial axis %d", d);
  }
  return TENON_OK;
}

// ---- pooling ----

static tenon_status infer_pool(Infer *in, const WindowSpec *s) {
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (!s->kernel.n) return infer_fail(in, TENON_EINVAL, "kernel_shape is required");
  if (in->nres > 2) return infer_fail(in, TENON_EINVAL, "%d results are too many", in->nres);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    infer_set_unranked(in, 1, DT_I64);
    return TENON_OK;
  }
  if (x->rank < 3)
    return infer_fail(in, TENON_EINVAL,
                      "x of rank %d, must be at least 3: batch, channels, spatial axes", x->rank);
  Dim dims[MAX_RANK] = {x->dims[0], x->dims[1]};
  TRY(infer_window(in, s, x->rank - 2, x->dims + 2, NULL, dims + 2));
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  return infer_set(in, 1, DT_I64, x->rank, dims);
}

static double pool_cost(const CostIn *c, Ints kernel) {
  double taps = 1;
  for (int64_t i = 0; i < kernel.n; i++) taps *= (double)kernel.v[i];
  return c->nout && c->out[0].rank >= 0 ? taps * (double)c->out[0].n : 0;
}

ATTR_TABLE(max_pool, MAX_POOL_ATTRS);
static tenon_status first_max_pool(Infer *in) {
  const max_pool_attrs *at = in->attrs;
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  if (at->storage_order != 0 && at->storage_order != 1)
    return infer_fail(in, TENON_EINVAL, "storage_order is %lld, must be 0 or 1",
                      (long long)at->storage_order);
  if (at->channels_last && in->nres > 1)
    return infer_fail(in, TENON_EINVAL, "indices count channels first: not with channels_last");
  return infer_pool(in, &s);
}
INFER_ORDERED(max_pool, max_pool_attrs, 0, ORDER_DATA)
static double cost_max_pool(const CostIn *c) {
  return pool_cost(c, ((const max_pool_attrs *)c->node->attrs)->kernel_shape);
}
const OpInfo op_max_pool = {
    .name = "max_pool",
    .doc = "largest element of each window; the second result is its index in x",
    .onnx = "MaxPool",
    .onnx_since = 1,
    .operands = "x",
    .results = "y indices?",
    .dtypes = "number",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    .layout = LAYOUT_AWARE,
    .range = RANGE_max_pool,
    OP_ATTRS(max_pool),
    .infer = infer_max_pool,
    .eval = eval_max_pool,
    .cost = cost_max_pool,
    SAMPLES("(f32[1,2,7,6]) kernel_shape=[3, 2] strides=[2, 2] pads=[1, 0, 1, 1]",
            "(f32[1,2,7,6]) kernel_shape=[3, 2] storage_order=1 -> 2",
            "(f16[2,1,9]) kernel_shape=[3] dilations=[2] ceil_mode=true strides=[2] -> 2",
            "(u8[1,1,5,5]) kernel_shape=[2, 2] auto_pad=SAME_UPPER",
            "(f32[0,2,4,4]) kernel_shape=[2, 2]",
            "(f32[n,3,h,w]) kernel_shape=[3, 3] strides=[2, 2] ceil_mode=true",
            "(f32[n,h,w,3]) kernel_shape=[3, 2] strides=[2, 2] channels_last=true",
            "(u8[1,5,5,2]) kernel_shape=[2, 2] auto_pad=SAME_UPPER channels_last=true"),
};

ATTR_TABLE(average_pool, AVERAGE_POOL_ATTRS);
static tenon_status first_average_pool(Infer *in) {
  const average_pool_attrs *at = in->attrs;
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  return infer_pool(in, &s);
}
INFER_ORDERED(average_pool, average_pool_attrs, 0, ORDER_DATA)
static double cost_average_pool(const CostIn *c) {
  return pool_cost(c, ((const average_pool_attrs *)c->node->attrs)->kernel_shape);
}
const OpInfo op_average_pool = {
    .name = "average_pool",
    .doc = "mean of each window",
    .onnx = "AveragePool",
    .onnx_since = 1,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    .layout = LAYOUT_AWARE,
    .range = RANGE_with_zero,
    OP_ATTRS(average_pool),
    .infer = infer_average_pool,
    .eval = eval_average_pool,
    .cost = cost_average_pool,
    SAMPLES("(f32[1,2,7,6]) kernel_shape=[3, 2] strides=[2, 2] pads=[1, 0, 1, 1]",
            "(f32[1,2,7,6]) kernel_shape=[3, 2] strides=[2, 2] pads=[1, 0, 1, 1] "
            "count_include_pad=true "
            "ceil_mode=true",
            "(f16[2,1,9]) kernel_shape=[3] dilations=[2]", "(f32[1,0,4,4]) kernel_shape=[2, 2]",
            "(f32[n,3,h,w]) kernel_shape=[3, 3] auto_pad=SAME_LOWER",
            "(f32[n,h,w,3]) kernel_shape=[3, 2] pads=[1, 0, 1, 1] channels_last=true"),
};

ATTR_TABLE(lp_pool, LP_POOL_ATTRS);
static tenon_status first_lp_pool(Infer *in) {
  const lp_pool_attrs *at = in->attrs;
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  if (at->p < 1)
    return infer_fail(in, TENON_EINVAL, "p is %lld, must be at least 1", (long long)at->p);
  return infer_pool(in, &s);
}
INFER_ORDERED(lp_pool, lp_pool_attrs, 0, ORDER_DATA)
static double cost_lp_pool(const CostIn *c) {
  return 2 * pool_cost(c, ((const lp_pool_attrs *)c->node->attrs)->kernel_shape);
}
const OpInfo op_lp_pool = {
    .name = "lp_pool",
    .doc = "p-norm of each window",
    .onnx = "LpPool",
    .onnx_since = 2,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    .layout = LAYOUT_AWARE,
    .range = RANGE_positive,
    OP_ATTRS(lp_pool),
    .infer = infer_lp_pool,
    .eval = eval_lp_pool,
    .cost = cost_lp_pool,
    SAMPLES("(f32[1,2,7,6]) kernel_shape=[3, 2] strides=[2, 2] pads=[1, 0, 1, 1]",
            "(f16[2,1,9]) kernel_shape=[3] p=3", "(f32[1,1,4,4]) kernel_shape=[2, 2] p=1",
            "(f32[2,9,3]) kernel_shape=[3] p=3 channels_last=true"),
};

// ---- whole planes ----

static tenon_status first_global(Infer *in) {
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  if (x->rank < 2)
    return infer_fail(in, TENON_EINVAL, "x of rank %d, must be at least 2: batch and channels",
                      x->rank);
  Dim dims[MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = d < 2 ? x->dims[d] : in->g->dims.one;
  return infer_set(in, 0, x->dtype, x->rank, dims);
}
static tenon_status infer_global(Infer *in) {
  bool last = in->op == &op_global_lp_pool
                  ? ((const global_lp_pool_attrs *)in->attrs)->channels_last
                  : ((const global_pool_attrs *)in->attrs)->channels_last;
  return last ? infer_last(in, first_global, 0, ORDER_DATA) : first_global(in);
}
static double cost_global(const CostIn *c) {
  return c->nin && c->in[0].rank >= 0 ? (double)c->in[0].n : 0;
}

static void expand_global(Graph *g, const Node *n, Node **out, int op) {
  int rank = type_of(n->src[0])->rank, from = node_channels_last(n) ? 1 : 2;
  int64_t axes[MAX_RANK];
  if (rank <= 2) return;  // nothing to reduce over, or not known what
  for (int d = 2; d < rank; d++) axes[d - 2] = d - 2 + from;
  Node *src[2] = {n->src[0], node_i64s(g, rank - 2, axes)};
  out[0] = node_new(g, op, 2, src, NULL, 0, NULL);
}
static void expand_global_average_pool(Graph *g, const Node *n, Node **out) {
  expand_global(g, n, out, OP_reduce_mean);
}
static void expand_global_max_pool(Graph *g, const Node *n, Node **out) {
  expand_global(g, n, out, OP_reduce_max);
}
ATTR_TABLE(global_pool, GLOBAL_POOL_ATTRS);
const OpInfo op_global_average_pool = {
    .name = "global_average_pool",
    .doc = "mean over all spatial axes",
    .onnx = "GlobalAveragePool",
    .onnx_since = 1,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_REDUCTION,
    .layout = LAYOUT_AWARE,
    .range = RANGE_first,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(global_pool),
    .infer = infer_global,
    .eval = eval_global_average_pool,
    .expand = expand_global_average_pool,
    .cost = cost_global,
    SAMPLES("(f32[2,3,4,5])", "(f16[1,2,7])", "(f32[b,c,h,w])", "(f32[b,h,w,c]) channels_last=true",
            "(f32[2,3]) channels_last=true"),
};
const OpInfo op_global_max_pool = {
    .name = "global_max_pool",
    .doc = "largest element over all spatial axes",
    .onnx = "GlobalMaxPool",
    .onnx_since = 1,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_REDUCTION,
    .layout = LAYOUT_AWARE,
    .range = RANGE_first,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(global_pool),
    .infer = infer_global,
    .eval = eval_global_max_pool,
    .expand = expand_global_max_pool,
    .cost = cost_global,
    SAMPLES("(f32[2,3,4,5])", "(f16[1,2,7])", "(f32[b,c,h,w])",
            "(f32[b,h,w,c]) channels_last=true"),
};
ATTR_TABLE(global_lp_pool, GLOBAL_LP_POOL_ATTRS);
static void expand_global_lp_pool(Graph *g, const Node *n, Node **out) {
  const global_lp_pool_attrs *at = n->attrs;
  int rank = type_of(n->src[0])->rank, from = at->channels_last ? 1 : 2;
  DType t = type_of(n->src[0])->dtype, wide = t == DT_F64 ? DT_F64 : DT_F32;
  int64_t axes[MAX_RANK];
  if (rank <= 2 || !t) return;
  for (int d = 2; d < rank; d++) axes[d - 2] = d - 2 + from;
  Node *x = N(g, abs, NA(g, cast, (&(cast_attrs){.to = wide}), n->src[0]));
  if (at->p != 1) x = N(g, pow, x, node_scalar(g, wide, (double)at->p));
  x = N(g, reduce_sum, x, node_i64s(g, rank - 2, axes));
  if (at->p != 1) x = N(g, pow, x, node_scalar(g, wide, 1 / (double)at->p));
  out[0] = NA(g, cast, (&(cast_attrs){.to = t}), x);
}
const OpInfo op_global_lp_pool = {
    .name = "global_lp_pool",
    .doc = "p-norm over all spatial axes",
    .onnx = "GlobalLpPool",
    .onnx_since = 2,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_REDUCTION,
    .layout = LAYOUT_AWARE,
    .range = RANGE_positive,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(global_lp_pool),
    .infer = infer_global,
    .eval = eval_global_lp_pool,
    .expand = expand_global_lp_pool,
    .cost = cost_global,
    SAMPLES("(f32[2,3,4,5])", "(f16[1,2,7]) p=3", "(f16[1,7,2]) p=3 channels_last=true"),
};

// ---- max_unpool ----

ATTR_TABLE(max_unpool, MAX_UNPOOL_ATTRS);
static tenon_status infer_max_unpool(Infer *in) {
  const max_unpool_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, DT_I64));
  const Type *x = infer_type(in, 0);
  TRY(infer_whole_bytes(in, x->dtype));
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  if (x->rank < 3) return infer_fail(in, TENON_EINVAL, "x of rank %d, must be at least 3", x->rank);
  int nd = x->rank - 2;
  WindowSpec s = {.kernel = at->kernel_shape, .strides = at->strides, .pads = at->pads};
  int64_t bad, n;
  const char *message = window_check(&s, nd, &bad);
  if (message) return infer_fail(in, TENON_EINVAL, message, (long long)bad);
  IntPool *p = &in->g->dims;
  Dim dims[MAX_RANK];
  const Type *index = infer_type(in, 1);
  for (int d = 0; d < x->rank; d++)
    TRY(infer_merge_dim(in, x->dims[d], index->rank == x->rank ? index->dims[d] : x->dims[d],
                        "sizes of x and i", &dims[d]));
  const Node *shape = infer_src(in, 2);
  const Dim *sym;
  if (shape) {
    bool known = node_sym(in->g, shape, &n, &sym);
    if (known && n != x->rank)
      return infer_fail(in, TENON_EINVAL, "output_shape has %lld numbers for rank %d", (long long)n,
                        x->rank);
    for (int d = 0; d < x->rank; d++) dims[d] = known ? sym[d] : ie_fresh(p, "unpool");
    return infer_set(in, 0, x->dtype, x->rank, dims);
  }
  for (int d = 0; d < nd; d++) {
    int64_t stride = at->strides.n ? at->strides.v[d] : 1;
    int64_t pads = at->pads.n ? at->pads.v[d] + at->pads.v[nd + d] : 0;
    Dim steps = ie_mulc(p, ie_addc(p, dims[d + 2], -1), stride);
    dims[d + 2] = ie_addc(p, steps, at->kernel_shape.v[d] - pads);
  }
  return infer_set(in, 0, x->dtype, x->rank, dims);
}
const OpInfo op_max_unpool = {
    .name = "max_unpool",
    .doc = "puts pooled elements back to where the indices of max_pool say, 0 elsewhere",
    .onnx = "MaxUnpool",
    .onnx_since = 9,
    .operands = "x i output_shape?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_SCATTER,
    .range = RANGE_with_zero,
    OP_ATTRS(max_unpool),
    .infer = infer_max_unpool,
    .eval = eval_max_unpool,
    SAMPLES("(f32[1,1,2,2], i64[1,1,2,2]{5,7,13,15}) kernel_shape=[2, 2] strides=[2, 2]",
            "(f32[1,1,2,2], i64[1,1,2,2]{5,7,13,15}, i64[4]{1,1,5,5}) kernel_shape=[2, 2] "
            "strides=[2, 2]"),
};

// ---- regions ----

static tenon_status infer_roi(Infer *in, int64_t height, int64_t width, int columns) {
  TRY(infer_same_dtype(in, 0, 1));
  const Type *x = infer_type(in, 0), *rois = infer_type(in, 1);
  TRY(infer_whole_bytes(in, x->dtype));
  if ((x->rank >= 0 && x->rank != 4) || (rois->rank >= 0 && rois->rank != 2))
    return infer_fail(in, TENON_EINVAL, "x of rank %d and rois of rank %d, must be 4 and 2",
                      x->rank, rois->rank);
  if (height < 1 || width < 1)
    return infer_fail(in, TENON_EINVAL, "a result of %lld x %lld bins", (long long)height,
                      (long long)width);
  IntPool *p = &in->g->dims;
  if (rois->rank == 2)
    TRY(infer_equal_dim(in, rois->dims[1], ie_const(p, columns), "columns of rois"));
  const Type *batch = infer_type(in, 2);  // of roi_align: which image a region is of
  Dim n = rois->rank == 2 ? rois->dims[0] : ie_fresh(p, "rois");
  if (batch && batch->kind == TK_TENSOR && batch->rank == 1)
    TRY(infer_merge_dim(in, n, batch->dims[0], "number of rois and of batch indices", &n));
  Dim dims[4] = {n, x->rank < 0 ? ie_fresh(p, "channels") : x->dims[1], ie_const(p, height),
                 ie_const(p, width)};
  return infer_set(in, 0, x->dtype, 4, dims);
}

ATTR_TABLE(max_roi_pool, MAX_ROI_POOL_ATTRS);
static tenon_status infer_max_roi_pool(Infer *in) {
  const max_roi_pool_attrs *at = in->attrs;
  if (at->pooled_shape.n != 2)
    return infer_fail(in, TENON_EINVAL, "pooled_shape has %lld numbers, must be 2",
                      (long long)at->pooled_shape.n);
  return infer_roi(in, at->pooled_shape.v[0], at->pooled_shape.v[1], 5);
}
const OpInfo op_max_roi_pool = {
    .name = "max_roi_pool",
    .doc = "largest element of each bin of each region",
    .onnx = "MaxRoiPool",
    .onnx_since = 1,
    .operands = "x rois",
    .results = "y",
    .dtypes = "float",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    OP_ATTRS(max_roi_pool),
    .infer = infer_max_roi_pool,
    .eval = eval_max_roi_pool,
    SAMPLES("(f32[1,2,6,6], f32[2,5]{0,0,0,5,5,0,1,2,3,4}) pooled_shape=[2, 3]",
            "(f32[1,2,6,6], f32[1,5]{0,0,0,10,10}) pooled_shape=[2, 2] spatial_scale=0.5"),
};

ATTR_TABLE(roi_align, ROI_ALIGN_ATTRS);
static tenon_status infer_roi_align(Infer *in) {
  const roi_align_attrs *at = in->attrs;
  TRY(infer_need(in, 2, DT_I64));
  return infer_roi(in, at->output_height, at->output_width, 4);
}
const OpInfo op_roi_align = {
    .name = "roi_align",
    .doc = "mean or maximum of bilinear samples in each bin of each region",
    .onnx = "RoiAlign",
    .onnx_since = 16,
    .operands = "x rois batch_indices",
    .results = "y",
    .dtypes = "float",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    OP_ATTRS(roi_align),
    .infer = infer_roi_align,
    .eval = eval_roi_align,
    SAMPLES(
        "(f32[1,2,6,6], f32[2,4]{0,0,5,5,1,2,3,4}, i64[2]{0,0}) output_height=2 output_width=3 "
        "sampling_ratio=2",
        "(f32[1,1,6,6], f32[1,4]{0,0,9,9}, i64[1]{0}) mode=max output_height=2 spatial_scale=0.5",
        "(f32[1,1,6,6], f32[1,4]{0,0,5,5}, i64[1]{0}) "
        "coordinate_transformation_mode=output_half_pixel"),
};
