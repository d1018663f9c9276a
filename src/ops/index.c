// index.c -- gather and scatter in all their forms, and one_hot.
//
// Sizes follow from the operands' types; indices are checked when they are known and again at run
// time.
#include "eval/index.h"
#include "ops/sym.h"

static tenon_status need_index(Infer *in, int i, const char *name) {
  TRY(infer_need(in, i, TENON_DTYPE_NONE));
  DType t = infer_type(in, i)->dtype;
  if (!t || dtype_is_int(t)) return TENON_OK;
  return infer_fail(in, TENON_EINVAL, "operand %d (%s) is %s, must be integers", i, name,
                    dtype_name(t));
}

static tenon_status check_rank(Infer *in, int rank) {
  if (rank <= MAX_RANK) return TENON_OK;
  return infer_fail(in, TENON_EUNSUPPORTED, "rank %d is above the limit of %d", rank, MAX_RANK);
}

// Constant indices along an axis of constant size are checked here, all others at run time.
static tenon_status check_constants(Infer *in, int i, Dim size) {
  Ints index;
  if (!ie_is_const(size) || !infer_ints(in, i, &index)) return TENON_OK;
  for (int64_t k = 0; k < index.n; k++)
    if (index.v[k] < -size->value || index.v[k] >= size->value)
      return infer_fail(in, TENON_EINVAL, "index %lld is out of range for %lld elements",
                        (long long)index.v[k], (long long)size->value);
  return TENON_OK;
}

// ---- gather ----

static tenon_status infer_gather(Infer *in) {
  const gather_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(need_index(in, 1, "indices"));
  const Type *x = infer_type(in, 0), *ix = infer_type(in, 1);
  int axis, rank = 0;
  if (x->rank >= 0) TRY(infer_axis(in, at->axis, x->rank, &axis));
  if (x->rank < 0 || ix->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  TRY(check_rank(in, x->rank - 1 + ix->rank));
  TRY(check_constants(in, 1, x->dims[axis]));
  Dim dims[MAX_RANK];
  for (int i = 0; i < axis; i++) dims[rank++] = x->dims[i];
  for (int i = 0; i < ix->rank; i++) dims[rank++] = ix->dims[i];
  for (int i = axis + 1; i < x->rank; i++) dims[rank++] = x->dims[i];
  TRY(infer_set(in, 0, x->dtype, rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(gather, GATHER_ATTRS);
const OpInfo op_gather = {
    .name = "gather",
    .doc = "Slices of data along axis, picked by indices (negative ones count from the end).",
    .onnx = "Gather",
    .onnx_since = 1,
    .operands = "data indices",
    .results = "output",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .layout = LAYOUT_AXIS,
    .range = RANGE_first,
    .hazard = HAZARD_gather,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    OP_ATTRS(gather),
    .infer = infer_gather,
    .eval = eval_gather,
    SAMPLES("(f32[5,4], i64[2,2]{0,4,-1,2})", "(f32[5,4], i32[]{3}) axis=-1", "(f16[3], i64[1]{1})",
            "(i64[3,0], i64[2]{0,0})", "(f32[3,2], i64[0]{})", "(f32[100,64], i64[b,t])",
            "(i64[4], i64[2]{1,-1})"),
};

static tenon_status infer_gather_elements(Infer *in) {
  const gather_elements_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(need_index(in, 1, "indices"));
  const Type *x = infer_type(in, 0), *ix = infer_type(in, 1);
  int axis, rank = x->rank >= 0 ? x->rank : ix->rank;
  if (rank >= 0) TRY(infer_axis(in, at->axis, rank, &axis));
  if (x->rank >= 0 && ix->rank >= 0 && x->rank != ix->rank)
    return infer_fail(in, TENON_EINVAL, "indices have rank %d, data %d", ix->rank, x->rank);
  if (x->rank >= 0) TRY(check_constants(in, 1, x->dims[axis]));
  infer_set_type(in, 0, type_with_dtype(in->g, ix, x->dtype));
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(gather_elements, GATHER_ELEMENTS_ATTRS);
const OpInfo op_gather_elements = {
    .name = "gather_elements",
    .doc = "For each index, the element of data at the same place but for the axis, where the "
           "index is.",
    .onnx = "GatherElements",
    .onnx_since = 11,
    .operands = "data indices",
    .results = "output",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_first,
    .hazard = HAZARD_gather_elements,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    OP_ATTRS(gather_elements),
    .infer = infer_gather_elements,
    .eval = eval_gather_elements,
    SAMPLES("(f32[3,3], i64[2,3]{1,2,0,2,0,-3})", "(f16[2,2], i32[2,2]{0,0,1,0}) axis=1",
            "(f32[3], i64[0]{})", "(f32[2,3], i64[2,2]{0,2,1,-1}) axis=-1"),
};

// Leading axes of the indices, then the axes of data from `tail` on.
static tenon_status tuple_dims(Infer *in, const Type *x, const Type *ix, int tail, int *out_rank,
                               Dim *out) {
  TRY(check_rank(in, ix->rank - 1 + x->rank - tail));
  *out_rank = 0;
  for (int i = 0; i < ix->rank - 1; i++) out[(*out_rank)++] = ix->dims[i];
  for (int i = tail; i < x->rank; i++) out[(*out_rank)++] = x->dims[i];
  return TENON_OK;
}

// How many axes an index tuple covers: the indices' last size; -1 when not known.
static tenon_status tuple_length(Infer *in, int64_t batch, int *out) {
  const Type *x = infer_type(in, 0), *ix = infer_type(in, 1);
  *out = -1;
  if (x->rank == 0 || ix->rank == 0)
    return infer_fail(in, TENON_EINVAL,
                      "data of rank %d and indices of rank %d, must be at least 1", x->rank,
                      ix->rank);
  if (batch < 0 || (x->rank >= 0 && batch >= x->rank) || (ix->rank >= 0 && batch >= ix->rank))
    return infer_fail(in, TENON_EINVAL,
                      "batch_dims %lld for data of rank %d and indices of rank %d",
                      (long long)batch, x->rank, ix->rank);
  if (x->rank < 0 || ix->rank < 0) return TENON_OK;
  for (int i = 0; i < batch; i++)
    TRY(infer_equal_dim(in, x->dims[i], ix->dims[i], "batch sizes of data and indices"));
  Dim last = ix->dims[ix->rank - 1];
  if (!ie_is_const(last)) return TENON_OK;
  if (last->value > x->rank - batch)
    return infer_fail(in, TENON_EINVAL, "indices of %lld numbers for %lld axes",
                      (long long)last->value, (long long)(x->rank - batch));
  *out = (int)last->value;
  return TENON_OK;
}

static tenon_status infer_gather_nd(Infer *in) {
  const gather_nd_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(need_index(in, 1, "indices"));
  const Type *x = infer_type(in, 0), *ix = infer_type(in, 1);
  int len, rank;
  Dim dims[MAX_RANK];
  TRY(tuple_length(in, at->batch_dims, &len));
  if (len < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  TRY(tuple_dims(in, x, ix, (int)at->batch_dims + len, &rank, dims));
  TRY(infer_set(in, 0, x->dtype, rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(gather_nd, GATHER_ND_ATTRS);
const OpInfo op_gather_nd = {
    .name = "gather_nd",
    .doc = "Slices of data picked by tuples of indices, the last axis of the indices.",
    .onnx = "GatherND",
    .onnx_since = 11,
    .operands = "data indices",
    .results = "output",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_first,
    .hazard = HAZARD_gather_nd,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    OP_ATTRS(gather_nd),
    .infer = infer_gather_nd,
    .eval = eval_gather_nd,
    SAMPLES("(f32[2,2], i64[2,2]{0,0,1,-1})", "(f32[2,2,3], i64[2,1]{1,0})",
            "(f16[2,2,3], i64[2,1]{1,0}) batch_dims=1", "(f32[2,3], i64[0,2]{})",
            "(i64[2], i64[3,0]{})", "(f32[b,4,5], i64[1,1]{0})"),
};

// ---- scatter ----

static tenon_status infer_scatter_elements(Infer *in) {
  const scatter_elements_attrs *at = in->attrs;
  TRY(need_index(in, 1, "indices"));
  TRY(infer_same_dtype(in, 0, 2));
  const Type *x = infer_type(in, 0), *ix = infer_type(in, 1), *up = infer_type(in, 2);
  int axis;
  if (x->rank >= 0) TRY(infer_axis(in, at->axis, x->rank, &axis));
  if (x->rank >= 0 && ix->rank >= 0 && ix->rank != x->rank)
    return infer_fail(in, TENON_EINVAL, "indices have rank %d, data %d", ix->rank, x->rank);
  if (ix->rank >= 0 && up->rank >= 0 && ix->rank != up->rank)
    return infer_fail(in, TENON_EINVAL, "indices have rank %d, updates %d", ix->rank, up->rank);
  for (int i = 0; i < ix->rank && up->rank >= 0; i++)
    TRY(infer_equal_dim(in, ix->dims[i], up->dims[i], "sizes of indices and updates"));
  if (x->rank >= 0) TRY(check_constants(in, 1, x->dims[axis]));
  infer_set_type(in, 0, x);
  if (at->reduction == SCATTER_NONE) sym_move(in, 1 | 4);
  return TENON_OK;
}
ATTR_TABLE(scatter_elements, SCATTER_ELEMENTS_ATTRS);
const OpInfo op_scatter_elements = {
    .name = "scatter_elements",
    .doc = "Data with single elements replaced by, or joined with, updates, at places given by "
           "indices.",
    .onnx = "ScatterElements",
    .onnx_since = 11,
    .operands = "data indices updates",
    .results = "output",
    .dtypes = "any",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_SCATTER,
    .range = RANGE_scatter,
    .hazard = HAZARD_scatter_elements,
    OP_ATTRS(scatter_elements),
    .infer = infer_scatter_elements,
    .eval = eval_scatter_elements,
    SAMPLES("(f32[3,3], i64[2,3]{1,0,2,0,2,1}, f32[2,3])",
            "(f32[1,5], i64[1,2]{1,-3}, f32[1,2]) axis=1",
            "(f16[1,5], i64[1,2]{1,1}, f16[1,2]) axis=1 reduction=add",
            "(i32[1,5], i32[1,2]{1,1}, i32[1,2]) axis=-1 reduction=max",
            "(f32[4], i64[3]{1,1,0}, f32[3]) reduction=mul",
            "(f32[4], i64[0]{}, f32[0]) reduction=min"),
};

static tenon_status infer_scatter_nd(Infer *in) {
  const scatter_nd_attrs *at = in->attrs;
  TRY(need_index(in, 1, "indices"));
  TRY(infer_same_dtype(in, 0, 2));
  const Type *x = infer_type(in, 0), *ix = infer_type(in, 1), *up = infer_type(in, 2);
  int len, rank;
  Dim dims[MAX_RANK];
  TRY(tuple_length(in, 0, &len));
  if (len >= 0 && up->rank >= 0) {
    TRY(tuple_dims(in, x, ix, len, &rank, dims));
    if (rank != up->rank)
      return infer_fail(in, TENON_EINVAL, "updates have rank %d, must be %d", up->rank, rank);
    for (int i = 0; i < rank; i++)
      TRY(infer_equal_dim(in, dims[i], up->dims[i], "sizes of the updates"));
  }
  infer_set_type(in, 0, x);
  if (at->reduction == SCATTER_NONE) sym_move(in, 1 | 4);
  return TENON_OK;
}
ATTR_TABLE(scatter_nd, SCATTER_ND_ATTRS);
const OpInfo op_scatter_nd = {
    .name = "scatter_nd",
    .doc = "Data with slices replaced by, or joined with, updates, at places given by tuples of "
           "indices.",
    .onnx = "ScatterND",
    .onnx_since = 11,
    .operands = "data indices updates",
    .results = "output",
    .dtypes = "any",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_SCATTER,
    .range = RANGE_scatter,
    .hazard = HAZARD_scatter_nd,
    OP_ATTRS(scatter_nd),
    .infer = infer_scatter_nd,
    .eval = eval_scatter_nd,
    SAMPLES("(f32[8], i64[3,1]{4,3,-1}, f32[3])", "(f32[3,4], i64[1,1]{2}, f32[1,4])",
            "(f16[3,4], i64[2,2]{0,1,0,1}, f16[2]) reduction=add",
            "(i64[4], i64[2,1]{0,0}, i64[2]) reduction=min", "(f32[0,2], i64[0,1]{}, f32[0,2])"),
};

static tenon_status infer_tensor_scatter(Infer *in) {
  const tensor_scatter_attrs *at = in->attrs;
  TRY(infer_same_dtype(in, 0, 1));
  if (infer_src(in, 2)) TRY(infer_need_ints(in, 2, "write_indices"));
  const Type *x = infer_type(in, 0), *up = infer_type(in, 1), *w = infer_type(in, 2);
  int axis;
  infer_set_type(in, 0, x);
  if (x->rank < 0) return TENON_OK;
  TRY(infer_axis(in, at->axis, x->rank, &axis));
  if (axis == 0) return infer_fail(in, TENON_EINVAL, "the sequence axis is the batch axis");
  if (up->rank >= 0 && up->rank != x->rank)
    return infer_fail(in, TENON_EINVAL, "update has rank %d, the cache %d", up->rank, x->rank);
  for (int i = 0; i < up->rank; i++) {
    if (i != axis) TRY(infer_equal_dim(in, x->dims[i], up->dims[i], "sizes of cache and update"));
    if (i == axis && ie_lt(&in->g->dims, x->dims[i], up->dims[i]) == YES)
      return infer_fail(in, TENON_EINVAL, "the update is longer than the cache along axis %d",
                        axis);
  }
  if (w && w->rank == 1)
    TRY(infer_equal_dim(in, x->dims[0], w->dims[0], "batch and write_indices"));
  return TENON_OK;
}
ATTR_TABLE(tensor_scatter, TENSOR_SCATTER_ATTRS);
const OpInfo op_tensor_scatter = {
    .name = "tensor_scatter",
    .doc = "A cache with an update written at each batch entry's position along axis.",
    .onnx = "TensorScatter",
    .onnx_since = 24,
    .operands = "past_cache update write_indices?",
    .results = "present_cache",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_SCATTER,
    .flags = OPF_MOVEMENT,
    OP_ATTRS(tensor_scatter),
    .infer = infer_tensor_scatter,
    .eval = eval_tensor_scatter,
    SAMPLES("(f32[2,4,5], f32[2,1,5], i64[2]{1,3})",
            "(f16[2,3,4,5], f16[2,3,2,5], i64[2]{3,-1}) mode=circular",
            "(f32[2,4,5], f32[2,4,2]) axis=-1", "(f32[b,16,8], f32[b,0,8])"),
};

// ---- one_hot ----

static tenon_status infer_one_hot(Infer *in) {
  const one_hot_attrs *at = in->attrs;
  for (int i = 0; i < 3; i++) TRY(infer_need(in, i, TENON_DTYPE_NONE));
  const Type *ix = infer_type(in, 0), *values = infer_type(in, 2);
  if (values->rank >= 0) {
    Dim n = type_numel(in->g, values);
    TRY(infer_equal_dim(in, n, ie_const(&in->g->dims, 2), "number of values"));
  }
  if (ix->rank < 0) {
    infer_set_unranked(in, 0, values->dtype);
    return TENON_OK;
  }
  int axis;
  TRY(check_rank(in, ix->rank + 1));
  TRY(infer_axis(in, at->axis, ix->rank + 1, &axis));
  int64_t n;
  const Dim *depth;
  const Value *known = node_known(in->g, in->src[1]);
  Dim d = NULL, dims[MAX_RANK];
  if (node_sym(in->g, in->src[1], &n, &depth) && n == 1) d = depth[0];
  if (!d && known && known->n == 1 && dtype_class(known->dtype) != DC_COMPLEX)
    d = ie_const(&in->g->dims, val_i64(known, 0));
  if (!d) d = ie_fresh(&in->g->dims, "depth");
  for (int i = 0; i <= ix->rank; i++)
    dims[i] = i < axis ? ix->dims[i] : i == axis ? d : ix->dims[i - 1];
  return infer_set(in, 0, values->dtype, ix->rank + 1, dims);
}
ATTR_TABLE(one_hot, ONE_HOT_ATTRS);
const OpInfo op_one_hot = {
    .name = "one_hot",
    .doc = "A new axis that is the on-value at the index and the off-value elsewhere.",
    .onnx = "OneHot",
    .onnx_since = 9,
    .operands = "indices depth values",
    .results = "output",
    .dtypes = "float int uint",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_MAP,
    .range = RANGE_one_hot,
    OP_ATTRS(one_hot),
    .infer = infer_one_hot,
    .eval = eval_one_hot,
    SAMPLES("(i64[3]{0,7,-1}, i64[]{5}, f32[2])", "(i64[2,2]{0,1,2,3}, i64[1]{4}, i32[2]) axis=1",
            "(f32[2]{1,2}, f32[]{3}, f16[2]) axis=0", "(i64[0]{}, i64[]{3}, f32[2])",
            "(i64[b,t], i64[]{10}, f32[2])"),
};
