// reduce.c -- the reductions: sum, product, extremes, mean, norms and logarithms of sums.
//
// Each takes the axes as an optional operand; none given means all of them, or with
// noop_with_empty_axes none (then the element-wise part of a composite reduction still happens).
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "ops/sym.h"

// ---- contents known symbolically ----

static Dim fold(IntPool *p, int op, Dim a, Dim b) {
  switch (op) {
  case OP_reduce_sum: return ie_add(p, a, b);
  case OP_reduce_prod: return ie_mul(p, a, b);
  case OP_reduce_max: return ie_max(p, a, b);
  case OP_reduce_min: return ie_min(p, a, b);
  default: return NULL;
  }
}

// Folds the operand's elements, row-major, each into the result element that it belongs to.
static void sym_reduce(Infer *in, int op, const bool *reduced) {
  IntPool *p = &in->g->dims;
  const Type *x = infer_type(in, 0), *y = in->type[0];
  int64_t n, nout = 1;
  const Dim *sym;
  if (!type_is_static(x) || !node_sym(in->g, in->src[0], &n, &sym)) return;
  if (n == 0) return;
  for (int i = 0; i < y->rank; i++) nout *= y->dims[i]->value;  // at most the operand's n
  Dim *r = arena_array(&in->g->arena, Dim, nout);
  for (int64_t k = 0; k < n; k++) {
    int64_t at = 0, stride = 1, rest = k;
    for (int d = x->rank - 1; d >= 0; d--) {
      int64_t i = rest % x->dims[d]->value;
      rest /= x->dims[d]->value;
      if (reduced[d]) continue;
      at += i * stride;
      stride *= x->dims[d]->value;
    }
    if (!sym_fits(x->dtype, sym[k])) return;
    if (r[at] && op == OP_reduce_prod && dtype_is_float(x->dtype) &&
        sym_may_be_minus_zero(r[at], sym[k]))
      return;
    r[at] = r[at] ? fold(p, op, r[at], sym[k]) : sym[k];
    if (!sym_fits(x->dtype, r[at])) return;
  }
  in->sym = r;
  in->nsym = nout;
}

// ---- types ----

static void unknown_axes(Infer *in, const Type *x, int64_t naxes) {
  const reduce_attrs *at = in->attrs;
  int64_t rank = x->rank < 0 || at->keepdims ? x->rank : naxes >= 0 ? x->rank - naxes : -1;
  if (rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return;
  }
  Dim dims[MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = ie_fresh(&in->g->dims, "reduce");
  infer_set_type(in, 0, type_tensor(in->g, x->dtype, (int)rank, dims));
}

static tenon_status infer_reduce(Infer *in, int op) {
  const reduce_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  Ints axes = {0};
  if (infer_src(in, 1)) TRY(infer_need_ints(in, 1, "axes"));
  if (x->rank < 0 || (infer_src(in, 1) && !infer_ints(in, 1, &axes))) {
    int64_t n = infer_src(in, 1) ? infer_length(in, 1) : 0;
    if (x->rank >= 0 && n > x->rank)
      return infer_fail(in, TENON_EINVAL, "%lld axes for rank %d", (long long)n, x->rank);
    unknown_axes(in, x, n > 0 ? n : -1);  // no axes may mean all of them
    return TENON_OK;
  }
  int a[MAX_RANK], rank = 0;
  bool reduced[MAX_RANK];
  TRY(infer_axes(in, axes, x->rank, a));
  for (int i = 0; i < x->rank; i++) reduced[i] = axes.n == 0 && !at->noop_with_empty_axes;
  for (int64_t i = 0; i < axes.n; i++) reduced[a[i]] = true;
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++)
    if (!reduced[i] || at->keepdims) dims[rank++] = reduced[i] ? in->g->dims.one : x->dims[i];
  TRY(infer_set(in, 0, x->dtype, rank, dims));
  if (op != OP_COUNT) sym_reduce(in, op, reduced);
  return TENON_OK;
}

static double cost_reduce(const CostIn *c) { return (double)c->in[0].n; }
static double cost_reduce_twice(const CostIn *c) { return 2.0 * (double)c->in[0].n; }

ATTR_TABLE(reduce, REDUCE_ATTRS);
#define REDUCE_SAMPLES                                                                             \
  "(f32[3,4,5])", "(f32[3,4,5], i64[1]{1})", "(f32[3,4,5], i64[2]{-1,0}) keepdims=false",          \
      "(f16[4,6], i64[1]{0}) keepdims=false", "(f32[])", "(f32[2,0,3], i64[1]{1})",                \
      "(f32[2,3]) noop_with_empty_axes=true", "(f32[b,t,64], i64[1]{-1})"

// A record of the family: fields that differ follow.
#define REDUCTION(x, onnx_name, opset, types, text)                                                \
  .name = #x, .doc = text, .onnx = onnx_name, .onnx_since = opset, .operands = "data axes?",       \
  .results = "reduced", .dtypes = types, .arity = -1, .nres = 1, .fuse = FUSE_REDUCTION,           \
  .layout = LAYOUT_REDUCE, OP_ATTRS(reduce), .eval = eval_##x

// ---- primitives ----

static tenon_status infer_reduce_sum(Infer *in) { return infer_reduce(in, OP_reduce_sum); }
static tenon_status infer_reduce_prod(Infer *in) { return infer_reduce(in, OP_reduce_prod); }
static tenon_status infer_reduce_max(Infer *in) { return infer_reduce(in, OP_reduce_max); }
static tenon_status infer_reduce_min(Infer *in) { return infer_reduce(in, OP_reduce_min); }
static tenon_status infer_reduce_other(Infer *in) { return infer_reduce(in, OP_COUNT); }

const OpInfo op_reduce_sum = {
    REDUCTION(reduce_sum, "ReduceSum", 13, "float int uint", "Sum over axes; 0 of nothing."),
    .range = RANGE_reduce,
    .infer = infer_reduce_sum,
    .cost = cost_reduce,
    SAMPLES(REDUCE_SAMPLES, "(i32[3,4], i64[1]{1})", "(u64[3])"),
};
const OpInfo op_reduce_prod = {
    REDUCTION(reduce_prod, "ReduceProd", 18, "float int uint", "Product over axes; 1 of nothing."),
    .range = RANGE_reduce,
    .infer = infer_reduce_prod,
    .cost = cost_reduce,
    SAMPLES(REDUCE_SAMPLES, "(i64[3,4], i64[1]{1})"),
};
const OpInfo op_reduce_max = {
    REDUCTION(reduce_max, "ReduceMax", 18, "float int uint bool",
              "Largest over axes; of nothing -inf or the least value of the type."),
    .range = RANGE_first,
    .infer = infer_reduce_max,
    .cost = cost_reduce,
    SAMPLES(REDUCE_SAMPLES, "(i8[3,4], i64[1]{1})", "(bool[2,3], i64[1]{0})", "(u8[0])"),
};
const OpInfo op_reduce_min = {
    REDUCTION(reduce_min, "ReduceMin", 18, "float int uint bool",
              "Smallest over axes; of nothing inf or the greatest value of the type."),
    .range = RANGE_first,
    .infer = infer_reduce_min,
    .cost = cost_reduce,
    SAMPLES(REDUCE_SAMPLES, "(i8[3,4], i64[1]{1})", "(bool[2,3], i64[1]{0})", "(u8[0])"),
};
const OpInfo op_reduce_mean = {
    REDUCTION(reduce_mean, "ReduceMean", 18, "float int uint",
              "Mean over axes; of integers truncated toward zero."),
    .range = RANGE_first,
    .infer = infer_reduce_other,
    .cost = cost_reduce,
    SAMPLES("(f32[3,4,5])", "(f32[3,4,5], i64[1]{1})", "(f16[4,6], i64[1]{0}) keepdims=false",
            "(f32[])", "(i32[3,4], i64[1]{1})", "(f32[b,t,64], i64[1]{-1})"),
};

// ---- composites ----

static Node *reduce_as(Graph *g, int op, const Node *n, Node *x, bool keepdims) {
  reduce_attrs at = *(const reduce_attrs *)n->attrs;
  at.keepdims = keepdims;
  return node_new(g, op, (int)n->nsrc, n->nsrc > 1 ? (Node *[]){x, n->src[1]} : &x, &at, 0, NULL);
}
static bool keeps(const Node *n) { return ((const reduce_attrs *)n->attrs)->keepdims; }

static Node *to_type(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  cast_attrs at = {.to = t, .saturate = true};
  return NA(g, cast, &at, x);
}
// Narrow floats are reduced in f32; functions of integers are taken in f64: as the evaluation does.
static Node *widened(Graph *g, Node *x) {
  DType t = type_of(x)->dtype;
  if (!dtype_is_float(t)) return to_type(g, x, DT_F64);
  return dtype_bits(t) < 32 ? to_type(g, x, DT_F32) : x;
}

static void expand_l1(Graph *g, const Node *n, Node **out) {
  out[0] = reduce_as(g, OP_reduce_sum, n, N(g, abs, n->src[0]), keeps(n));
}
static void expand_square(Graph *g, const Node *n, Node **out) {
  Node *x = n->src[0];
  DType t = type_of(x)->dtype;
  if (dtype_is_float(t)) x = widened(g, x);
  out[0] = to_type(g, reduce_as(g, OP_reduce_sum, n, N(g, mul, x, x), keeps(n)), t);
}
// What is summed before a function is taken: integers as such, in 64 bits, where they wrap around.
static Node *summand(Graph *g, Node *x) {
  DType t = type_of(x)->dtype;
  return dtype_is_float(t) ? widened(g, x) : to_type(g, x, t == DT_U64 ? t : DT_I64);
}
static void expand_l2(Graph *g, const Node *n, Node **out) {
  Node *x = summand(g, n->src[0]);
  Node *sum = reduce_as(g, OP_reduce_sum, n, N(g, mul, x, x), keeps(n));
  out[0] = to_type(g, N(g, sqrt, widened(g, sum)), type_of(n->src[0])->dtype);
}
static void expand_log_sum(Graph *g, const Node *n, Node **out) {
  Node *sum = reduce_as(g, OP_reduce_sum, n, summand(g, n->src[0]), keeps(n));
  out[0] = to_type(g, N(g, log, widened(g, sum)), type_of(n->src[0])->dtype);
}
// The largest value is taken out first, unless it is infinite.
static Node *finite_max(Graph *g, const Node *n, Node *x, bool keepdims) {
  Node *top = reduce_as(g, OP_reduce_max, n, x, keepdims);
  return N(g, where, N(g, is_inf, top), node_scalar(g, type_of(x)->dtype, 0), top);
}
static void expand_log_sum_exp(Graph *g, const Node *n, Node **out) {
  Node *x = widened(g, n->src[0]);
  Node *e = N(g, exp, N(g, sub, x, finite_max(g, n, x, true)));
  Node *sum = reduce_as(g, OP_reduce_sum, n, e, keeps(n));
  out[0] = to_type(g, N(g, add, N(g, log, sum), finite_max(g, n, x, keeps(n))),
                   type_of(n->src[0])->dtype);
}

const OpInfo op_reduce_l1 = {
    REDUCTION(reduce_l1, "ReduceL1", 18, "float int uint", "Sum of magnitudes over axes."),
    .flags = OPF_COMPOSITE,
    .range = RANGE_reduce,
    .infer = infer_reduce_other,
    .expand = expand_l1,
    .cost = cost_reduce_twice,
    SAMPLES(REDUCE_SAMPLES, "(i32[3,4], i64[1]{1})"),
};
const OpInfo op_reduce_l2 = {
    REDUCTION(reduce_l2, "ReduceL2", 18, "float int uint", "Root of the sum of squares over axes."),
    .flags = OPF_COMPOSITE,
    .range = RANGE_reduce,
    .infer = infer_reduce_other,
    .expand = expand_l2,
    .cost = cost_reduce_twice,
    SAMPLES(REDUCE_SAMPLES, "(i32[3,4], i64[1]{1})"),
};
const OpInfo op_reduce_log_sum = {
    REDUCTION(reduce_log_sum, "ReduceLogSum", 18, "float int uint",
              "Logarithm of the sum over axes."),
    .flags = OPF_COMPOSITE,
    .infer = infer_reduce_other,
    .expand = expand_log_sum,
    .cost = cost_reduce,
    SAMPLES(REDUCE_SAMPLES),
};
const OpInfo op_reduce_log_sum_exp = {
    REDUCTION(reduce_log_sum_exp, "ReduceLogSumExp", 18, "float int uint",
              "Logarithm of the sum of exponentials over axes."),
    .flags = OPF_COMPOSITE,
    .range = RANGE_reduce,
    .infer = infer_reduce_other,
    .expand = expand_log_sum_exp,
    .cost = cost_reduce_twice,
    SAMPLES(REDUCE_SAMPLES, "(i32[3,4], i64[1]{1})"),
};
const OpInfo op_reduce_sum_square = {
    REDUCTION(reduce_sum_square, "ReduceSumSquare", 18, "float int uint",
              "Sum of squares over axes."),
    .flags = OPF_COMPOSITE,
    .range = RANGE_reduce,
    .infer = infer_reduce_other,
    .expand = expand_square,
    .cost = cost_reduce_twice,
    SAMPLES(REDUCE_SAMPLES, "(i32[3,4], i64[1]{1})"),
};
