// generate.c -- ops that make elements: range, constant_of_shape, eye_like and the random ops.
#include "eval/generate.h"
#include "ops/sym.h"

static tenon_status need_float_type(Infer *in, DType t) {
  if (!t || dtype_is_float(t)) return TENON_OK;
  return infer_fail(in, TENON_EINVAL, "random values of type %s", dtype_name(t));
}

// ---- range ----

// One operand's value as an expression; NULL when not known.
static Dim scalar_sym(Infer *in, int i) {
  int64_t n;
  const Dim *sym;
  return node_sym(in->g, in->src[i], &n, &sym) && n == 1 ? sym[0] : NULL;
}

static const Value *scalar_known(Infer *in, int i) {
  const Value *v = node_known(in->g, in->src[i]);
  return v && v->n == 1 ? v : NULL;
}

// The number of elements; NULL when not known.
static tenon_status range_count(Infer *in, DType t, Dim *out) {
  IntPool *p = &in->g->dims;
  const Value *v[3] = {scalar_known(in, 0), scalar_known(in, 1), scalar_known(in, 2)};
  *out = NULL;
  if (v[0] && v[1] && v[2] && v[0]->dtype == v[1]->dtype && v[0]->dtype == v[2]->dtype) {
    int64_t n = dtype_is_float(t)
                    ? range_count_f64(val_f64(v[0], 0), val_f64(v[1], 0), val_f64(v[2], 0))
                    : range_count_i64(val_i64(v[0], 0), val_i64(v[1], 0), val_i64(v[2], 0));
    if (n < 0) return infer_fail(in, TENON_EINVAL, "range by %g", val_f64(v[2], 0));
    *out = ie_const(p, n);
    return TENON_OK;
  }
  Dim start = scalar_sym(in, 0), limit = scalar_sym(in, 1), delta = scalar_sym(in, 2);
  if (!start || !limit || !delta || !ie_is_const(delta)) return TENON_OK;
  if (ie_is(delta, 0)) return infer_fail(in, TENON_EINVAL, "range by 0");
  Dim gap = delta->value > 0 ? ie_sub(p, limit, start) : ie_sub(p, start, limit);
  Dim step = delta->value > 0 ? delta : ie_sub(p, p->zero, delta);
  *out = ie_max(p, ie_is(step, 1) ? gap : ie_ceildiv(p, gap, step), p->zero);
  return TENON_OK;
}

static tenon_status infer_range(Infer *in) {
  for (int i = 0; i < 3; i++) {
    TRY(infer_need(in, i, TENON_DTYPE_NONE));
    TRY(infer_same_dtype(in, 0, i));
    Dim n = type_numel(in->g, infer_type(in, i));
    if (n) TRY(infer_equal_dim(in, n, in->g->dims.one, "elements of start, limit and delta"));
  }
  DType t = infer_type(in, 0)->dtype;
  if (t && !dtype_is_float(t) && !dtype_is_int(t))
    return infer_fail(in, TENON_EINVAL, "a range of %s", dtype_name(t));
  Dim n;
  TRY(range_count(in, t, &n));
  if (!n || ie_is_poison(n)) n = ie_fresh(&in->g->dims, "range");
  TRY(infer_set(in, 0, t, 1, &n));
  Dim start = scalar_sym(in, 0), delta = scalar_sym(in, 2);
  if (!ie_is_const(n) || n->value > KNOWN_MAX || !start || !delta) return TENON_OK;
  Dim *sym = arena_array(&in->g->arena, Dim, MAX(n->value, 1));
  for (int64_t i = 0; i < n->value; i++) {
    sym[i] = ie_add(&in->g->dims, start, ie_mulc(&in->g->dims, delta, i));
    if (!sym_fits(t, sym[i])) return TENON_OK;
  }
  in->sym = sym;
  in->nsym = n->value;
  return TENON_OK;
}
ATTR_TABLE(range, RANGE_ATTRS);
const OpInfo op_range = {
    .name = "range",
    .doc = "start, start + delta, ... up to but without limit.",
    .onnx = "Range",
    .onnx_since = 11,
    .operands = "start limit delta",
    .results = "output",
    .dtypes = "float int uint",
    .arity = 3,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_range,
    OP_ATTRS(range),
    .infer = infer_range,
    .eval = eval_range,
    SAMPLES("(f32[]{1}, f32[]{5}, f32[]{2})", "(i32[]{10}, i32[]{6}, i32[]{-3})",
            "(i64[]{0}, i64[]{0}, i64[]{1})", "(f16[]{0}, f16[]{1}, f16[]{0.25})"),
};

// ---- constants ----

static tenon_status infer_constant_of_shape(Infer *in) {
  TRY(infer_need_ints(in, 0, "input"));
  DType t = DT_F32;
  if (infer_src(in, 1)) {
    TRY(infer_need(in, 1, TENON_DTYPE_NONE));
    t = infer_type(in, 1)->dtype;
    Dim n = type_numel(in->g, infer_type(in, 1));
    if (n) TRY(infer_equal_dim(in, n, in->g->dims.one, "elements of the value"));
  }
  int64_t n = infer_length(in, 0), nvalue;
  const Dim *shape, *value;
  bool known = node_sym(in->g, in->src[0], &n, &shape);
  if (n > MAX_RANK)
    return infer_fail(in, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d", (long long)n,
                      MAX_RANK);
  if (n < 0) {
    infer_set_unranked(in, 0, t);
    return TENON_OK;
  }
  Dim dims[MAX_RANK];
  int64_t count = 1;
  for (int i = 0; i < n; i++) {
    dims[i] = known ? shape[i] : ie_fresh(&in->g->dims, "size");
    bool small = ie_is_const(dims[i]) && count >= 0 && ck_mul(count, dims[i]->value, &count) &&
                 count <= KNOWN_MAX;
    if (!small) count = -1;
  }
  TRY(infer_set(in, 0, t, (int)n, dims));
  if (count < 0 || !infer_src(in, 1) || !node_sym(in->g, in->src[1], &nvalue, &value))
    return TENON_OK;
  Dim *sym = arena_array(&in->g->arena, Dim, MAX(count, 1));
  for (int64_t i = 0; i < count; i++) sym[i] = value[0];
  in->sym = sym;
  in->nsym = count;
  return TENON_OK;
}
static void expand_constant_of_shape(Graph *g, const Node *n, Node **out) {
  Node *value = n->nsrc > 1 ? n->src[1] : node_scalar(g, DT_F32, 0);
  // A value of rank 1 would add an axis to an empty shape.
  out[0] = N(g, expand, N(g, reshape, value, node_i64s(g, 0, NULL)), n->src[0]);
}
static double no_cost(const CostIn *c) {
  (void)c;
  return 0;
}
const OpInfo op_constant_of_shape = {
    .name = "constant_of_shape",
    .doc = "A tensor of the given shape, each element the value (0 in f32 when absent).",
    .onnx = "ConstantOfShape",
    .onnx_since = 9,
    .operands = "input value?",
    .results = "output",
    .dtypes = "int",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_constant_of_shape,
    .flags = OPF_COMPOSITE,
    .infer = infer_constant_of_shape,
    .eval = eval_constant_of_shape,
    .expand = expand_constant_of_shape,
    .cost = no_cost,
    SAMPLES("(i64[2]{2,3})", "(i64[2]{2,3}, i32[1]{7})", "(i64[0]{}, f16[1]{1.5})",
            "(i64[2]{0,3}, bool[]{true})"),
};

static tenon_status infer_eye_like(Infer *in) {
  const eye_like_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  if (x->rank >= 0 && x->rank != 2)
    return infer_fail(in, TENON_EINVAL, "input has rank %d, must be 2", x->rank);
  DType t = at->dtype ? at->dtype : x->dtype;
  DTypeClass c = dtype_class(t);
  if (c == DC_STRING || c == DC_COMPLEX)
    return infer_fail(in, TENON_EINVAL, "a matrix of %s", dtype_name(t));
  infer_set_type(in, 0, type_with_dtype(in->g, x, t));
  return TENON_OK;
}
ATTR_TABLE(eye_like, EYE_LIKE_ATTRS);
const OpInfo op_eye_like = {
    .name = "eye_like",
    .doc = "Ones on a diagonal, zeros elsewhere, in the shape of a matrix.",
    .onnx = "EyeLike",
    .onnx_since = 9,
    .operands = "input",
    .results = "output",
    .dtypes = "float int uint bool",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_unit,
    OP_ATTRS(eye_like),
    .infer = infer_eye_like,
    .eval = eval_eye_like,
    .cost = no_cost,
    SAMPLES("(f32[3,4])", "(i32[4,3]) k=-1 dtype=f64", "(f16[2,2]) k=5", "(f32[0,3])",
            "(f32[b,b]) k=1"),
};

// ---- random ----

static tenon_status infer_given_shape(Infer *in, DType t, Ints shape) {
  TRY(need_float_type(in, t));
  if (!t) return infer_fail(in, TENON_EINVAL, "no result type is given");
  if (shape.n > MAX_RANK)
    return infer_fail(in, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d",
                      (long long)shape.n, MAX_RANK);
  Dim dims[MAX_RANK];
  for (int i = 0; i < shape.n; i++) dims[i] = ie_const(&in->g->dims, shape.v[i]);
  return infer_set(in, 0, t, (int)shape.n, dims);
}
static tenon_status infer_like(Infer *in, DType t) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  if (!t) t = x->dtype;
  infer_set_type(in, 0, type_with_dtype(in->g, x, t));
  return TENON_OK;
}

static tenon_status infer_random_uniform(Infer *in) {
  const random_uniform_attrs *at = in->attrs;
  return infer_given_shape(in, at->dtype, at->shape);
}
static tenon_status infer_random_normal(Infer *in) {
  const random_normal_attrs *at = in->attrs;
  return infer_given_shape(in, at->dtype, at->shape);
}
static tenon_status infer_random_uniform_like(Infer *in) {
  TRY(infer_like(in, ((const random_uniform_like_attrs *)in->attrs)->dtype));
  return need_float_type(in, in->type[0]->dtype);
}
static tenon_status infer_random_normal_like(Infer *in) {
  TRY(infer_like(in, ((const random_normal_like_attrs *)in->attrs)->dtype));
  return need_float_type(in, in->type[0]->dtype);
}
static tenon_status infer_bernoulli(Infer *in) {
  return infer_like(in, ((const bernoulli_attrs *)in->attrs)->dtype);
}

ATTR_TABLE(random_uniform, RANDOM_UNIFORM_ATTRS);
const OpInfo op_random_uniform = {
    .name = "random_uniform",
    .doc = "Uniform draws from low up to but without high.",
    .onnx = "RandomUniform",
    .onnx_since = 1,
    .results = "output",
    .dtypes = "float",
    .nres = 1,
    .fuse = FUSE_MAP,
    .range = RANGE_uniform,
    .flags = OPF_RANDOM,
    OP_ATTRS(random_uniform),
    .infer = infer_random_uniform,
    .eval = eval_random_uniform,
    SAMPLES("() shape=[2, 3]",
            "() shape=[4] dtype=f16 low=-1.5 high=2.0 seed=3.0 seeded=true instance=1"),
};
ATTR_TABLE(random_normal, RANDOM_NORMAL_ATTRS);
const OpInfo op_random_normal = {
    .name = "random_normal",
    .doc = "Normal draws.",
    .onnx = "RandomNormal",
    .onnx_since = 1,
    .results = "output",
    .dtypes = "float",
    .nres = 1,
    .fuse = FUSE_MAP,
    .flags = OPF_RANDOM,
    OP_ATTRS(random_normal),
    .infer = infer_random_normal,
    .eval = eval_random_normal,
    SAMPLES("() shape=[2, 3]", "() shape=[4] dtype=f64 mean=1.0 scale=0.5 instance=2"),
};
ATTR_TABLE(random_uniform_like, RANDOM_UNIFORM_LIKE_ATTRS);
const OpInfo op_random_uniform_like = {
    .name = "random_uniform_like",
    .doc = "Uniform draws in the shape of the input.",
    .onnx = "RandomUniformLike",
    .onnx_since = 1,
    .operands = "input",
    .results = "output",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_MAP,
    .range = RANGE_uniform,
    .flags = OPF_RANDOM,
    OP_ATTRS(random_uniform_like),
    .infer = infer_random_uniform_like,
    .eval = eval_random_uniform_like,
    SAMPLES("(f32[2,3])", "(i64[4]) dtype=f16 low=1.0 high=2.0", "(f32[b,0])"),
};
ATTR_TABLE(random_normal_like, RANDOM_NORMAL_LIKE_ATTRS);
const OpInfo op_random_normal_like = {
    .name = "random_normal_like",
    .doc = "Normal draws in the shape of the input.",
    .onnx = "RandomNormalLike",
    .onnx_since = 1,
    .operands = "input",
    .results = "output",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_MAP,
    .flags = OPF_RANDOM,
    OP_ATTRS(random_normal_like),
    .infer = infer_random_normal_like,
    .eval = eval_random_normal_like,
    SAMPLES("(f32[2,3])", "(i64[4]) dtype=bf16 mean=1.0", "(f32[b,0])"),
};

static tenon_status infer_multinomial(Infer *in) {
  const multinomial_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  if (x->rank >= 0 && x->rank != 2)
    return infer_fail(in, TENON_EINVAL, "input has rank %d, must be 2", x->rank);
  if (at->dtype != DT_I32 && at->dtype != DT_I64)
    return infer_fail(in, TENON_EINVAL, "dtype %s, must be i32 or i64", dtype_name(at->dtype));
  Dim dims[2] = {x->rank < 0 ? ie_fresh(&in->g->dims, "batch") : x->dims[0],
                 ie_const(&in->g->dims, at->sample_size)};
  return infer_set(in, 0, at->dtype, 2, dims);
}
ATTR_TABLE(multinomial, MULTINOMIAL_ATTRS);
const OpInfo op_multinomial = {
    .name = "multinomial",
    .doc = "Classes drawn by unnormalised log-probabilities.",
    .onnx = "Multinomial",
    .onnx_since = 7,
    .operands = "input",
    .results = "output",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .flags = OPF_RANDOM,
    OP_ATTRS(multinomial),
    .infer = infer_multinomial,
    .eval = eval_multinomial,
    SAMPLES("(f32[2,5]) sample_size=4", "(f16[1,3]) dtype=i64", "(f32[0,3])",
            "(f32[b,10]) sample_size=2"),
};
ATTR_TABLE(bernoulli, BERNOULLI_ATTRS);
const OpInfo op_bernoulli = {
    .name = "bernoulli",
    .doc = "1 with the probability that the input gives, else 0.",
    .onnx = "Bernoulli",
    .onnx_since = 15,
    .operands = "input",
    .results = "output",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_MAP,
    .range = RANGE_unit,
    .flags = OPF_RANDOM,
    OP_ATTRS(bernoulli),
    .infer = infer_bernoulli,
    .eval = eval_bernoulli,
    SAMPLES("(f32[10])", "(f16[2,3]) dtype=bool", "(f32[])", "(f32[b,0]) dtype=i64"),
};

static tenon_status infer_dropout(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  infer_set_type(in, 0, infer_type(in, 0));
  infer_set_type(in, 1, type_with_dtype(in->g, infer_type(in, 0), DT_BOOL));
  return TENON_OK;
}
ATTR_TABLE(dropout, DROPOUT_ATTRS);
const OpInfo op_dropout = {
    .name = "dropout",
    .doc = "In training, elements zeroed at random and the others scaled up; and which ones were "
           "kept.",
    .onnx = "Dropout",
    .onnx_since = 12,
    .operands = "data ratio? training_mode?",
    .results = "output mask?",
    .dtypes = "float",
    .arity = -1,
    .nres = 2,
    .fuse = FUSE_MAP,
    .flags = OPF_RANDOM,
    OP_ATTRS(dropout),
    .infer = infer_dropout,
    .eval = eval_dropout,
    SAMPLES("(f32[2,3], f32[]{0.5}, bool[]{true})", "(f16[5])",
            "(f32[0], f32[]{0.0}, bool[]{true})",
            "(f32[b,4], f32[]{0.25}, bool[]{true}) instance=3"),
};
