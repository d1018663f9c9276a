// index_order.c -- ops that search, sort and scan: top_k, arg_max, arg_min, hardmax, non_zero,
// unique, compress, cum_sum, cum_prod, non_max_suppression.
//
// Where the number of results depends on the data, its size is a new symbol.
#include "eval/index.h"
#include "ops/sym.h"

static Dim fresh(Infer *in, const char *hint) { return ie_fresh(&in->g->dims, hint); }

// ---- top_k ----

static tenon_status infer_top_k(Infer *in) {
  const top_k_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "K"));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    infer_set_unranked(in, 1, DT_I64);
    return TENON_OK;
  }
  int axis;
  TRY(infer_axis(in, at->axis, x->rank, &axis));
  Dim dims[MAX_RANK];
  int64_t n;
  const Dim *k;
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  bool known = node_sym(in->g, in->src[1], &n, &k) && n == 1;
  dims[axis] = known ? k[0] : fresh(in, "top_k");
  if (known && ie_lt(&in->g->dims, x->dims[axis], k[0]) == YES)
    return infer_fail(in, TENON_EINVAL, "K is larger than axis %d", axis);
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  return infer_set(in, 1, DT_I64, x->rank, dims);
}
ATTR_TABLE(top_k, TOP_K_ATTRS);
const OpInfo op_top_k = {
    .name = "top_k",
    .doc = "The k largest or smallest along axis, in order, and where they are; NaN counts as the "
           "largest.",
    .onnx = "TopK",
    .onnx_since = 10,
    .operands = "X K",
    .results = "Values Indices",
    .dtypes = "float int uint",
    .arity = 2,
    .nres = 2,
    .fuse = FUSE_REDUCTION,
    .range = RANGE_top_k,
    OP_ATTRS(top_k),
    .infer = infer_top_k,
    .eval = eval_top_k,
    SAMPLES("(f32[3,4], i64[1]{3})", "(f16[3,4], i64[1]{2}) axis=0 largest=false",
            "(i64[5], i64[1]{5})", "(u8[2,0], i64[1]{0})", "(f32[b,10], i64[1]{5}) sorted=false"),
};

// ---- arg_max, arg_min, hardmax ----

static tenon_status infer_arg(Infer *in) {
  const arg_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, DT_I64);
    return TENON_OK;
  }
  int axis, rank = 0;
  TRY(infer_axis(in, at->axis, x->rank, &axis));
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++)
    if (i != axis || at->keepdims) dims[rank++] = i == axis ? in->g->dims.one : x->dims[i];
  return infer_set(in, 0, DT_I64, rank, dims);
}
static double cost_per_input(const CostIn *c) { return (double)c->in[0].n; }
ATTR_TABLE(arg, ARG_ATTRS);
#define ARG_SAMPLES                                                                                \
  "(f32[3,4])", "(f32[3,4,2]) axis=-2 keepdims=false", "(f16[5]) select_last_index=true",          \
      "(i32[2,3]) axis=1", "(f32[0,3]) axis=1", "(f32[b,10]) axis=1"
const OpInfo op_arg_max = {
    .name = "arg_max",
    .doc = "Where the largest element along axis is; a NaN counts as the largest.",
    .onnx = "ArgMax",
    .onnx_since = 1,
    .operands = "data",
    .results = "reduced",
    .dtypes = "float int uint",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_REDUCTION,
    .layout = LAYOUT_ARG,
    .range = RANGE_arg,
    OP_ATTRS(arg),
    .infer = infer_arg,
    .eval = eval_arg_max,
    .cost = cost_per_input,
    SAMPLES(ARG_SAMPLES),
};
const OpInfo op_arg_min = {
    .name = "arg_min",
    .doc = "Where the smallest element along axis is; a NaN counts as the smallest.",
    .onnx = "ArgMin",
    .onnx_since = 1,
    .operands = "data",
    .results = "reduced",
    .dtypes = "float int uint",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_REDUCTION,
    .layout = LAYOUT_ARG,
    .range = RANGE_arg,
    OP_ATTRS(arg),
    .infer = infer_arg,
    .eval = eval_arg_min,
    .cost = cost_per_input,
    SAMPLES(ARG_SAMPLES),
};

static tenon_status infer_hardmax(Infer *in) {
  const hardmax_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  int axis;
  if (x->rank >= 0) TRY(infer_axis(in, at->axis, x->rank, &axis));
  infer_set_type(in, 0, x);
  return TENON_OK;
}
// Where the largest is, as a row that is hot there.
static void expand_hardmax(Graph *g, const Node *n, Node **out) {
  int64_t axis = ((const hardmax_attrs *)n->attrs)->axis;
  const Type *x = type_of(n->src[0]);
  if (x->rank < 1 || !x->dtype) return;
  Dim size = x->dims[axis < 0 ? axis + x->rank : axis];
  if (!ie_is_const(size) || size->value < 1) return;
  arg_attrs at = {.axis = axis};
  one_hot_attrs hot = {.axis = axis};
  Node *off_on = N(g, range, node_scalar(g, x->dtype, 0), node_scalar(g, x->dtype, 2),
                   node_scalar(g, x->dtype, 1));
  out[0] =
      NA(g, one_hot, &hot, NA(g, arg_max, &at, n->src[0]), node_i64s(g, 1, &size->value), off_on);
}
ATTR_TABLE(hardmax, HARDMAX_ATTRS);
const OpInfo op_hardmax = {
    .name = "hardmax",
    .doc = "1 at the first largest element along axis, 0 elsewhere.",
    .onnx = "Hardmax",
    .onnx_since = 13,
    .operands = "input",
    .results = "output",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_NORM,
    .layout = LAYOUT_AXIS,
    .range = RANGE_unit,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(hardmax),
    .infer = infer_hardmax,
    .eval = eval_hardmax,
    .expand = expand_hardmax,
    SAMPLES("(f32[3,4])", "(f16[3,4,2]) axis=1", "(f32[0,3])", "(f32[b,10]) axis=-1"),
};

// ---- selections whose size depends on the data ----

static tenon_status infer_non_zero(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  Dim dims[2] = {x->rank < 0 ? fresh(in, "rank") : ie_const(&in->g->dims, x->rank),
                 fresh(in, "nonzero")};
  return infer_set(in, 0, DT_I64, 2, dims);
}
const OpInfo op_non_zero = {
    .name = "non_zero",
    .doc = "The indices of the elements that are not zero, one row for each axis.",
    .onnx = "NonZero",
    .onnx_since = 9,
    .operands = "X",
    .results = "Y",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .range = RANGE_sizes,
    .flags = OPF_HOST,
    .infer = infer_non_zero,
    .eval = eval_non_zero,
    .cost = cost_per_input,
    SAMPLES("(bool[3,4])", "(i32[5])", "(f16[2,3])", "(f32[])", "(f32[0,3])", "(bool[b,t])"),
};

static tenon_status infer_unique(Infer *in) {
  const unique_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  Dim n = fresh(in, "unique"), all = type_numel(in->g, x);
  int axis;
  if (!at->axis.given) {
    TRY(infer_set(in, 0, x->dtype, 1, &n));
  } else if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    all = NULL;
  } else {
    Dim dims[MAX_RANK];
    TRY(infer_axis(in, at->axis.v, x->rank, &axis));
    for (int i = 0; i < x->rank; i++) dims[i] = i == axis ? n : x->dims[i];
    TRY(infer_set(in, 0, x->dtype, x->rank, dims));
    all = x->dims[axis];
  }
  if (!all || ie_is_poison(all)) all = fresh(in, "inverse");
  TRY(infer_set(in, 1, DT_I64, 1, &n));
  TRY(infer_set(in, 2, DT_I64, 1, &all));
  return infer_set(in, 3, DT_I64, 1, &n);
}
ATTR_TABLE(unique, UNIQUE_ATTRS);
const OpInfo op_unique = {
    .name = "unique",
    .doc = "The different elements (or slices along axis), where each first occurs, which one each "
           "is, and how many there are.",
    .onnx = "Unique",
    .onnx_since = 11,
    .operands = "X",
    .results = "Y indices? inverse_indices? counts?",
    .dtypes = "any",
    .arity = 1,
    .nres = 4,
    .range = RANGE_first,
    .flags = OPF_HOST,
    OP_ATTRS(unique),
    .infer = infer_unique,
    .eval = eval_unique,
    .cost = cost_per_input,
    SAMPLES("(i8[3,4])", "(f32[3,4]) axis=0", "(bool[7]) sorted=false", "(i64[0])",
            "(u8[3,4]) axis=-1 sorted=false"),
};

static tenon_status infer_compress(Infer *in) {
  const compress_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need(in, 1, DT_BOOL));
  TRY(infer_need_ints(in, 1, "condition"));
  const Type *x = infer_type(in, 0);
  Ints cond;
  Dim n = NULL;
  if (infer_ints(in, 1, &cond)) {
    int64_t count = 0;
    for (int64_t i = 0; i < cond.n; i++) count += cond.v[i] != 0;
    n = ie_const(&in->g->dims, count);
  }
  if (!n) n = fresh(in, "compress");
  if (!at->axis.given) return infer_set(in, 0, x->dtype, 1, &n);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  int axis;
  Dim dims[MAX_RANK];
  TRY(infer_axis(in, at->axis.v, x->rank, &axis));
  for (int i = 0; i < x->rank; i++) dims[i] = i == axis ? n : x->dims[i];
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(compress, COMPRESS_ATTRS);
const OpInfo op_compress = {
    .name = "compress",
    .doc = "The elements (or slices along axis) where the condition holds.",
    .onnx = "Compress",
    .onnx_since = 9,
    .operands = "input condition",
    .results = "output",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_HOST,
    OP_ATTRS(compress),
    .infer = infer_compress,
    .eval = eval_compress,
    SAMPLES("(f32[3,2], bool[3]{false,true,true}) axis=0", "(f16[3,2], bool[4])",
            "(i64[3,2], bool[1]) axis=-1", "(f32[0], bool[0])", "(f32[b,3], bool[3]) axis=1"),
};

static tenon_status infer_non_max_suppression(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need(in, 1, TENON_DTYPE_NONE));
  const Type *b = infer_type(in, 0), *s = infer_type(in, 1);
  IntPool *p = &in->g->dims;
  if ((b->rank >= 0 && b->rank != 3) || (s->rank >= 0 && s->rank != 3))
    return infer_fail(in, TENON_EINVAL, "boxes have rank %d and scores %d, must be 3", b->rank,
                      s->rank);
  if (b->rank == 3) TRY(infer_equal_dim(in, b->dims[2], ie_const(p, 4), "numbers of a box"));
  if (b->rank == 3 && s->rank == 3) {
    TRY(infer_equal_dim(in, b->dims[0], s->dims[0], "batch of boxes and scores"));
    TRY(infer_equal_dim(in, b->dims[1], s->dims[2], "number of boxes and scores"));
  }
  Dim dims[2] = {fresh(in, "selected"), ie_const(p, 3)};
  return infer_set(in, 0, DT_I64, 2, dims);
}
static double cost_non_max_suppression(const CostIn *c) {  // each box against some kept ones
  return c->in[1].rank == 3 ? 16.0 * (double)c->in[1].n : 0;
}
ATTR_TABLE(non_max_suppression, NON_MAX_SUPPRESSION_ATTRS);
const OpInfo op_non_max_suppression = {
    .name = "non_max_suppression",
    .doc = "Boxes by falling score, without those that overlap a better one too much: batch, class "
           "and index of each.",
    .onnx = "NonMaxSuppression",
    .onnx_since = 10,
    .operands = "boxes scores max_output_boxes_per_class? iou_threshold? score_threshold?",
    .results = "selected_indices",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .flags = OPF_HOST,
    OP_ATTRS(non_max_suppression),
    .infer = infer_non_max_suppression,
    .eval = eval_non_max_suppression,
    .cost = cost_non_max_suppression,
    SAMPLES("(f32[1,6,4], f32[1,2,6], i64[]{3}, f32[]{0.5}, f32[]{0.1})",
            "(f32[2,5,4], f32[2,1,5], i64[1]{2}) center_point_box=true",
            "(f32[1,0,4], f32[1,1,0], i64[]{3})", "(f32[b,n,4], f32[b,1,n])"),
};

// ---- cumulative sums and products ----

static tenon_status infer_cum(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "axis"));
  const Type *x = infer_type(in, 0);
  Ints axis;
  int a;
  if (x->rank >= 0 && infer_ints(in, 1, &axis) && axis.n == 1)
    TRY(infer_axis(in, axis.v[0], x->rank, &a));
  infer_set_type(in, 0, x);
  return TENON_OK;
}
ATTR_TABLE(cum, CUM_ATTRS);
#define CUM_SAMPLES                                                                                \
  "(f32[5], i64[]{0})", "(f32[2,3], i64[]{-1}) reverse=true",                                      \
      "(f16[2,3], i32[]{0}) exclusive=true", "(i32[4], i64[1]{0}) exclusive=true reverse=true",    \
      "(f32[0,2], i64[]{0})", "(f32[b,t], i64[]{1})"
const OpInfo op_cum_sum = {
    .name = "cum_sum",
    .doc = "Running sum along axis.",
    .onnx = "CumSum",
    .onnx_since = 11,
    .operands = "x axis",
    .results = "y",
    .dtypes = "float int uint",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_NORM,
    OP_ATTRS(cum),
    .infer = infer_cum,
    .eval = eval_cum_sum,
    SAMPLES(CUM_SAMPLES),
};
const OpInfo op_cum_prod = {
    .name = "cum_prod",
    .doc = "Running product along axis.",
    .onnx = "CumProd",
    .onnx_since = 26,
    .operands = "x axis",
    .results = "y",
    .dtypes = "float int uint",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_NORM,
    OP_ATTRS(cum),
    .infer = infer_cum,
    .eval = eval_cum_prod,
    SAMPLES(CUM_SAMPLES),
};
