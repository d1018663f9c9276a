// activation.c -- records of the activations.  Each is a composite: its meaning in scalar ops is
// .expand.
#include "eval/activation.h"
#include "ir/opinfo.h"

// A constant of the operand's type, so that the expansion stays in it.
static Node *num(Graph *g, const Node *n, double v) {
  return node_scalar(g, type_of(n->src[0])->dtype, v);
}
static Node *negative(Graph *g, const Node *n) { return N(g, lt, n->src[0], num(g, n, 0)); }
static Node *expm1_of(Graph *g, const Node *n, Node *x) {
  return N(g, sub, N(g, exp, x), num(g, n, 1));
}

static void expand_elu(Graph *g, const Node *n, Node **out) {
  const elu_attrs *at = n->attrs;
  Node *x = n->src[0];
  out[0] = N(g, where, negative(g, n), N(g, mul, num(g, n, at->alpha), expm1_of(g, n, x)), x);
}
static void expand_selu(Graph *g, const Node *n, Node **out) {
  const selu_attrs *at = n->attrs;
  Node *x = n->src[0];
  Node *neg = N(g, mul, num(g, n, at->gamma * at->alpha), expm1_of(g, n, x));
  out[0] = N(g, where, negative(g, n), neg, N(g, mul, num(g, n, at->gamma), x));
}
static void expand_celu(Graph *g, const Node *n, Node **out) {
  const celu_attrs *at = n->attrs;
  Node *x = n->src[0];
  Node *neg = N(g, mul, num(g, n, at->alpha), expm1_of(g, n, N(g, div, x, num(g, n, at->alpha))));
  out[0] = N(g, where, negative(g, n), neg, x);
}
static void expand_leaky_relu(Graph *g, const Node *n, Node **out) {
  const leaky_relu_attrs *at = n->attrs;
  out[0] = N(g, where, negative(g, n), N(g, mul, num(g, n, at->alpha), n->src[0]), n->src[0]);
}
static void expand_prelu(Graph *g, const Node *n, Node **out) {
  out[0] = N(g, where, negative(g, n), N(g, mul, n->src[1], n->src[0]), n->src[0]);
}
static Node *clamp01(Graph *g, const Node *n, Node *x) {
  return N(g, min, N(g, max, x, num(g, n, 0)), num(g, n, 1));
}
static void expand_hard_sigmoid(Graph *g, const Node *n, Node **out) {
  const hard_sigmoid_attrs *at = n->attrs;
  out[0] =
      clamp01(g, n, N(g, add, N(g, mul, n->src[0], num(g, n, at->alpha)), num(g, n, at->beta)));
}
static void expand_hard_swish(Graph *g, const Node *n, Node **out) {
  Node *gate = clamp01(g, n, N(g, add, N(g, div, n->src[0], num(g, n, 6)), num(g, n, 0.5)));
  out[0] = N(g, mul, n->src[0], gate);
}
// max(x, 0) + log(1 + y) with y = exp(-|x|): no overflow on either side.  What rounding 1 + y took
// from y is given back.
static void expand_softplus(Graph *g, const Node *n, Node **out) {
  Node *y = N(g, exp, N(g, neg, N(g, abs, n->src[0])));
  Node *u = N(g, add, y, num(g, n, 1));
  Node *lost = N(g, div, N(g, sub, y, N(g, sub, u, num(g, n, 1))), u);
  out[0] = N(g, add, N(g, relu, n->src[0]), N(g, add, N(g, log, u), lost));
}
// tanh(log(1 + e)) is m / (m + 2) with m = e (e + 2), which keeps its digits where e = exp(x) is
// small; where it is large the quotient is 1, and x is cut so that m does not overflow.
static void expand_mish(Graph *g, const Node *n, Node **out) {
  double most = type_of(n->src[0])->dtype == DT_F16 ? 5 : 20;
  Node *e = N(g, exp, N(g, min, n->src[0], num(g, n, most)));
  Node *m = N(g, mul, e, N(g, add, e, num(g, n, 2)));
  out[0] = N(g, mul, n->src[0], N(g, div, m, N(g, add, m, num(g, n, 2))));
}
static void expand_softsign(Graph *g, const Node *n, Node **out) {
  out[0] = N(g, div, n->src[0], N(g, add, N(g, abs, n->src[0]), num(g, n, 1)));
}
static void expand_thresholded_relu(Graph *g, const Node *n, Node **out) {
  const thresholded_relu_attrs *at = n->attrs;
  out[0] = N(g, where, N(g, lt, num(g, n, at->alpha), n->src[0]), n->src[0], num(g, n, 0));
}
static void expand_shrink(Graph *g, const Node *n, Node **out) {
  const shrink_attrs *at = n->attrs;
  Node *x = n->src[0];
  if (!dtype_is_float(type_of(x)->dtype)) return;  // lambd and bias need not be integers
  Node *high = N(g, where, N(g, lt, num(g, n, at->lambd), x), N(g, sub, x, num(g, n, at->bias)),
                 num(g, n, 0));
  out[0] = N(g, where, N(g, lt, x, num(g, n, -at->lambd)), N(g, add, x, num(g, n, at->bias)), high);
}
static void expand_gelu(Graph *g, const Node *n, Node **out) {
  const gelu_attrs *at = n->attrs;
  Node *x = n->src[0], *inner;
  if (at->approximate) {
    Node *cube = N(g, mul, N(g, mul, x, x), x);
    inner = N(g, tanh,
              N(g, mul, N(g, add, x, N(g, mul, cube, num(g, n, 0.044715))),
                num(g, n, 0.79788456080286535588)));
  } else {
    inner = N(g, erf, N(g, mul, x, num(g, n, 0.70710678118654752440)));
  }
  out[0] = N(g, mul, N(g, mul, x, num(g, n, 0.5)), N(g, add, inner, num(g, n, 1)));
}
static void expand_swish(Graph *g, const Node *n, Node **out) {
  const swish_attrs *at = n->attrs;
  out[0] = N(g, mul, n->src[0], N(g, sigmoid, N(g, mul, n->src[0], num(g, n, at->alpha))));
}

static tenon_status infer_prelu(Infer *in) {
  TRY(infer_elementwise(in));
  const Type *x = infer_type(in, 0), *both = in->type[0];
  bool fits = x->rank < 0 || both->rank < 0 || x->rank == both->rank;
  for (int i = 0; fits && i < both->rank && i < x->rank; i++)
    fits = ie_eq(&in->g->dims, x->dims[i], both->dims[i]) != NO;
  if (!fits) return infer_fail(in, TENON_EINVAL, "the slope does not broadcast to x");
  infer_set_type(in, 0, x);  // the slope broadcasts to x, never the other way
  return TENON_OK;
}

ATTR_TABLE(elu, ELU_ATTRS);
ATTR_TABLE(selu, SELU_ATTRS);
ATTR_TABLE(celu, CELU_ATTRS);
ATTR_TABLE(leaky_relu, LEAKY_RELU_ATTRS);
ATTR_TABLE(hard_sigmoid, HARD_SIGMOID_ATTRS);
ATTR_TABLE(thresholded_relu, THRESHOLDED_RELU_ATTRS);
ATTR_TABLE(shrink, SHRINK_ATTRS);
ATTR_TABLE(gelu, GELU_ATTRS);
ATTR_TABLE(swish, SWISH_ATTRS);

// What all of them share.  `since` is the first opset with the present form.
#define ACTIVATION(nm, spelling, since, text)                                                      \
  .name = #nm, .doc = text, .onnx = spelling, .onnx_since = since, .operands = "x",                \
  .results = "y", .dtypes = "float", .arity = 1, .nres = 1,                                        \
  .flags = OPF_ELEMENTWISE | OPF_COMPOSITE, .infer = infer_same_as_first, .eval = eval_##nm,       \
  .expand = expand_##nm

// clang-format off
const OpInfo op_elu          = {ACTIVATION(elu, "Elu", 6, "x, or alpha (exp(x) - 1) below zero"), .range = RANGE_bent, .expense = EXPENSE_TRANSCENDENTAL, OP_ATTRS(elu),
                                SAMPLES("(f32[2,5])", "(f16[4]) alpha=2", "(f64[])", "(f32[0])")};
const OpInfo op_selu         = {ACTIVATION(selu, "Selu", 6, "gamma times elu"), .range = RANGE_bent, .expense = EXPENSE_TRANSCENDENTAL, OP_ATTRS(selu), SAMPLES("(f32[2,5])", "(f32[4]) alpha=2 gamma=3")};
const OpInfo op_celu         = {ACTIVATION(celu, "Celu", 12, "x, or alpha (exp(x / alpha) - 1) below zero"), .range = RANGE_bent, .expense = EXPENSE_TRANSCENDENTAL, OP_ATTRS(celu),
                                SAMPLES("(f32[2,5])", "(f32[4]) alpha=2")};
const OpInfo op_leaky_relu   = {ACTIVATION(leaky_relu, "LeakyRelu", 6, "x, or alpha x below zero"), .range = RANGE_bent, .expense = EXPENSE_SEVERAL, OP_ATTRS(leaky_relu),
                                SAMPLES("(f32[2,5])", "(bf16[4]) alpha=0.5")};
const OpInfo op_hard_sigmoid = {ACTIVATION(hard_sigmoid, "HardSigmoid", 6, "alpha x + beta kept in [0, 1]"), .range = RANGE_unit, .expense = EXPENSE_SEVERAL, OP_ATTRS(hard_sigmoid),
                                SAMPLES("(f32[2,5])", "(f32[3]{nan, inf, -inf})", "(f32[4]) alpha=0.5 beta=0.25")};
const OpInfo op_hard_swish   = {ACTIVATION(hard_swish, "HardSwish", 14, "x times (x / 6 + 1/2 kept in [0, 1])"), .range = RANGE_gate, .expense = EXPENSE_SEVERAL, SAMPLES("(f32[2,5])", "(f16[4])")};
const OpInfo op_mish         = {ACTIVATION(mish, "Mish", 18, "x tanh(softplus(x))"), .range = RANGE_gate, .expense = EXPENSE_TRANSCENDENTAL, SAMPLES("(f32[2,5])", "(f64[3])")};
const OpInfo op_softplus     = {ACTIVATION(softplus, "Softplus", 1, "log(1 + exp(x))"), .range = RANGE_rising, .expense = EXPENSE_TRANSCENDENTAL, SAMPLES("(f32[2,5])", "(f16[3])")};
const OpInfo op_softsign     = {ACTIVATION(softsign, "Softsign", 1, "x / (1 + |x|)"), .range = RANGE_rising, .expense = EXPENSE_SEVERAL, SAMPLES("(f32[2,5])", "(f16[3])")};
const OpInfo op_thresholded_relu = {ACTIVATION(thresholded_relu, "ThresholdedRelu", 10, "x above alpha, else 0"), .range = RANGE_with_zero, OP_ATTRS(thresholded_relu),
                                SAMPLES("(f32[2,5])", "(f32[3]{nan, inf, -inf})", "(f32[4]) alpha=0.1")};
const OpInfo op_gelu         = {ACTIVATION(gelu, "Gelu", 20, "x times the normal distribution function of x"), .range = RANGE_gate, .expense = EXPENSE_EPILOGUE, OP_ATTRS(gelu),
                                SAMPLES("(f32[2,5])", "(f32[4]) approximate=tanh", "(f16[3])")};
const OpInfo op_swish        = {ACTIVATION(swish, "Swish", 24, "x sigmoid(alpha x)"), .range = RANGE_gate, .expense = EXPENSE_TRANSCENDENTAL, OP_ATTRS(swish), SAMPLES("(f32[2,5])", "(f32[4]) alpha=1.5")};
// clang-format on
const OpInfo op_shrink = {
    .name = "shrink",
    .doc = "0 near zero, the rest moved toward zero",
    .onnx = "Shrink",
    .onnx_since = 9,
    .operands = "x",
    .results = "y",
    .dtypes = "number",
    .arity = 1,
    .nres = 1,
    .flags = OPF_ELEMENTWISE | OPF_COMPOSITE,
    OP_ATTRS(shrink),
    .infer = infer_same_as_first,
    .eval = eval_shrink,
    .expand = expand_shrink,
    SAMPLES("(f32[2,5])", "(f32[4]) lambd=0.25 bias=0.5"),
};
const OpInfo op_prelu = {
    .name = "prelu",
    .doc = "x, or slope x below zero",
    .onnx = "PRelu",
    .onnx_since = 7,
    .operands = "x slope",
    .results = "y",
    .dtypes = "number",
    .arity = 2,
    .nres = 1,
    .flags = OPF_ELEMENTWISE | OPF_COMPOSITE,
    .infer = infer_prelu,
    .eval = eval_prelu,
    .expand = expand_prelu,
    SAMPLES("(f32[2,5], f32[5])", "(f32[2,3,4], f32[3,1])", "(i32[4], i32[1])"),
};
