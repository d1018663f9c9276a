// aten_elementwise.c -- ATen operators that work element by element.
#include "frontends/pytorch/aten.h"

#include "eval/activation.h"
#include "eval/elementwise.h"
#include "eval/scalar.h"

#include <math.h>

static DType float_of(DType t) {
  return dtype_is_float(t) || dtype_class(t) == DC_COMPLEX ? t : DT_F32;
}

static Node *op1(Graph *g, int op, Node *x) { return node_new(g, op, 1, &x, NULL, 0, NULL); }
static Node *op2(Graph *g, int op, Node *x, Node *y) {
  return node_new(g, op, 2, (Node *[]){x, y}, NULL, 0, NULL);
}

// ---- one operand ----

static void unary(AtenCall *c) { at_give(c, op1(c->g, c->schema->row->op, at_tensor(c, 0))); }

static Node *float_tensor(AtenCall *c, int i) {
  Node *x = at_tensor(c, i);
  return c->g->status ? x : bt_cast(c->g, x, float_of(type_of(x)->dtype));
}
static void unary_float(AtenCall *c) {
  at_give(c, op1(c->g, c->schema->row->op, float_tensor(c, 0)));
}

// ceil, floor, round, trunc of integers are the integers.
static void rounding(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  if (c->g->status || !dtype_is_float(type_of(x)->dtype))
    at_give(c, x);
  else
    at_give(c, op1(c->g, c->schema->row->op, x));
}

static Node *trunc_node(Graph *g, Node *x) {
  if (g->status || !dtype_is_float(type_of(x)->dtype)) return x;
  return N(g, where, N(g, lt, x, bt_num(g, x, 0)), N(g, ceil, x), N(g, floor, x));
}
static void trunc_row(AtenCall *c) { at_give(c, trunc_node(c->g, at_tensor(c, 0))); }
static void frac_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c, N(c->g, sub, x, trunc_node(c->g, x)));
}

static Node *truth(AtenCall *c, int i) { return bt_cast(c->g, at_tensor(c, i), DT_BOOL); }
static void logical_not(AtenCall *c) { at_give(c, N(c->g, not, truth(c, 0))); }

static void bitwise_not(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  bool flag = !c->g->status && type_of(x)->dtype == DT_BOOL;
  at_give(c, flag ? N(c->g, not, x) : N(c->g, bit_not, x));
}

static void isnan_row(AtenCall *c) { at_give(c, N(c->g, is_nan, float_tensor(c, 0))); }
static void isinf_row(AtenCall *c) {
  at_give(c, node_new(c->g, OP_is_inf, 1, (Node *[]){float_tensor(c, 0)}, NULL, 0, NULL));
}
static void isfinite_row(AtenCall *c) {
  Node *x = float_tensor(c, 0);
  Node *inf = node_new(c->g, OP_is_inf, 1, &x, NULL, 0, NULL);
  at_give(c, N(c->g, not, N(c->g, or, inf, N(c->g, is_nan, x))));
}

static void rsqrt_row(AtenCall *c) {
  at_give(c, N(c->g, reciprocal, N(c->g, sqrt, float_tensor(c, 0))));
}
static void square_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c, N(c->g, mul, x, x));
}

// (e^x - 1) = tanh(x / 2) (e^x + 1): exact near 0, too.
static void expm1_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = float_tensor(c, 0);
  Node *t = N(g, tanh, N(g, mul, x, bt_num(g, x, 0.5)));
  at_give(c, N(g, mul, t, N(g, add, N(g, exp, x), bt_num(g, x, 1))));
}

// log(1 + x) = 2 atanh(x / (2 + x)) near 0.
static void log1p_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = float_tensor(c, 0);
  Node *near = N(g, mul, N(g, atanh, N(g, div, x, N(g, add, x, bt_num(g, x, 2)))), bt_num(g, x, 2));
  Node *far = N(g, log, N(g, add, x, bt_num(g, x, 1)));
  at_give(c, N(g, where, N(g, lt, N(g, abs, x), bt_num(g, x, 0.5)), near, far));
}

static void scaled_log(AtenCall *c, double base) {
  Node *x = float_tensor(c, 0);
  at_give(c, N(c->g, mul, N(c->g, log, x), bt_num(c->g, x, 1 / log(base))));
}
static void log2_row(AtenCall *c) { scaled_log(c, 2); }
static void log10_row(AtenCall *c) { scaled_log(c, 10); }
static void exp2_row(AtenCall *c) {
  Node *x = float_tensor(c, 0);
  at_give(c, N(c->g, exp, N(c->g, mul, x, bt_num(c->g, x, log(2)))));
}
static void erfc_row(AtenCall *c) {
  Node *x = float_tensor(c, 0);
  at_give(c, N(c->g, sub, bt_num(c->g, x, 1), N(c->g, erf, x)));
}

// ---- two operands ----

typedef struct Pair {
  Node *x, *y;
  DType dtype;
} Pair;

static Pair promoted(AtenCall *c, int i, int k, bool as_float) {
  AtenValue v[2] = {c->arg[i], c->arg[k]};
  Pair p = {c->g->poison, c->g->poison, 0};
  if (c->g->status) return p;
  p.dtype = aten_promote(v, 2);
  if (as_float) p.dtype = float_of(p.dtype);
  p.x = av_node(c->g, &v[0], p.dtype);
  p.y = av_node(c->g, &v[1], p.dtype);
  return p;
}

static void binary(AtenCall *c) {
  Pair p = promoted(c, 0, 1, false);
  at_give(c, op2(c->g, c->schema->row->op, p.x, p.y));
}
static void binary_swapped(AtenCall *c) {
  Pair p = promoted(c, 0, 1, false);
  at_give(c, op2(c->g, c->schema->row->op, p.y, p.x));
}
static void binary_float(AtenCall *c) {
  Pair p = promoted(c, 0, 1, true);
  at_give(c, op2(c->g, c->schema->row->op, p.x, p.y));
}
static void not_equal(AtenCall *c) {
  Pair p = promoted(c, 0, 1, false);
  at_give(c, N(c->g, not, N(c->g, eq, p.x, p.y)));
}

static void multiply(AtenCall *c) {
  Pair p = promoted(c, 0, 1, false);
  at_give(c, p.dtype == DT_BOOL ? N(c->g, and, p.x, p.y) : N(c->g, mul, p.x, p.y));
}

// x + alpha y, x - alpha y; with `swap` the operands change places.
static void sum(AtenCall *c, int op, bool swap) {
  Graph *g = c->g;
  Pair p = promoted(c, 0, 1, false);
  double alpha = c->schema->nargs > 2 ? at_f64(c, 2) : 1;
  Node *x = swap ? p.y : p.x, *y = swap ? p.x : p.y;
  if (alpha != 1) y = N(g, mul, y, bt_num(g, y, alpha));
  if (p.dtype == DT_BOOL && op == OP_add) op = OP_or;
  at_give(c, op2(g, op, x, y));
}
static void add_row(AtenCall *c) { sum(c, OP_add, false); }
static void sub_row(AtenCall *c) { sum(c, OP_sub, false); }
static void rsub_row(AtenCall *c) { sum(c, OP_sub, true); }

static Node *floor_quotient(Graph *g, Node *x, Node *y) {
  if (g->status || dtype_is_float(type_of(x)->dtype)) return N(g, floor, N(g, div, x, y));
  return N(g, div, N(g, sub, x, N(g, mod, x, y)), y);
}

static void div_mode(AtenCall *c) {
  const AtenValue *mode = at_arg(c, 2);
  bool none = mode->kind == AV_NONE;
  Pair p = promoted(c, 0, 1, none);
  if (none)
    at_give(c, N(c->g, div, p.x, p.y));
  else if (str_is(mode->s, "floor"))
    at_give(c, floor_quotient(c->g, p.x, p.y));
  else
    at_give(c, trunc_node(c->g, N(c->g, div, p.x, p.y)));
}
static void floor_divide(AtenCall *c) {
  Pair p = promoted(c, 0, 1, false);
  at_give(c, floor_quotient(c->g, p.x, p.y));
}
static void remainder_row(AtenCall *c) {
  Graph *g = c->g;
  Pair p = promoted(c, 0, 1, false);
  if (dtype_is_float(p.dtype))
    at_give(c, N(g, sub, p.x, N(g, mul, floor_quotient(g, p.x, p.y), p.y)));
  else
    at_give(c, N(g, mod, p.x, p.y));
}

static void bits(AtenCall *c, int op, int of_bools) {
  Pair p = promoted(c, 0, 1, false);
  at_give(c, op2(c->g, p.dtype == DT_BOOL ? of_bools : op, p.x, p.y));
}
static void bit_and_row(AtenCall *c) { bits(c, OP_bit_and, OP_and); }
static void bit_or_row(AtenCall *c) { bits(c, OP_bit_or, OP_or); }
static void bit_xor_row(AtenCall *c) { bits(c, OP_bit_xor, OP_xor); }
static void logical(AtenCall *c) {
  at_give(c, op2(c->g, c->schema->row->op, truth(c, 0), truth(c, 1)));
}

static void atan2_row(AtenCall *c) {
  Graph *g = c->g;
  Pair p = promoted(c, 0, 1, true);
  Node *y = p.x, *x = p.y, *zero = bt_num(g, x, 0), *pi = bt_num(g, x, 3.14159265358979323846);
  Node *half = bt_num(g, x, 1.57079632679489661923), *a = N(g, atan, N(g, div, y, x));
  Node *left = N(g, where, N(g, lt, y, zero), N(g, sub, a, pi), N(g, add, a, pi));
  Node *axis =
      N(g, where, N(g, lt, y, zero), N(g, neg, half), N(g, where, N(g, eq, y, zero), zero, half));
  Node *sides = N(g, where, N(g, lt, x, zero), left, a);
  at_give(c, N(g, where, N(g, eq, x, zero), axis, sides));
}

static void where_row(AtenCall *c) {
  Pair p = promoted(c, 1, 2, false);
  at_give(c, N(c->g, where, truth(c, 0), p.x, p.y));
}
static void masked_fill(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  if (c->g->status) return;
  at_give(c, N(c->g, where, truth(c, 1), av_node(c->g, at_arg(c, 2), type_of(x)->dtype), x));
}

static void clamp_row(AtenCall *c) {
  Graph *g = c->g;
  AtenValue v[3] = {c->arg[0]};
  int n = 1, at = c->schema->row->op;  // 0: both; 1: least; 2: most
  if (g->status) return;
  for (int i = 1; i < c->schema->nargs; i++)
    if (!at_none(c, i)) v[n++] = c->arg[i];
  DType t = aten_promote(v, n);
  Node *x = av_node(g, &v[0], t);
  const AtenValue *lo = at == 2 ? NULL : at_arg(c, 1);
  const AtenValue *hi = at == 1 ? NULL : at_arg(c, at == 2 ? 1 : 2);
  if (lo && lo->kind != AV_NONE) x = N(g, max, x, av_node(g, lo, t));
  if (hi && hi->kind != AV_NONE) x = N(g, min, x, av_node(g, hi, t));
  at_give(c, x);
}

static void addc(AtenCall *c) {  // self + value * (t1 op t2)
  Graph *g = c->g;
  Pair p = promoted(c, 1, 2, c->schema->row->op == OP_div);
  Node *x = at_tensor(c, 0), *m = op2(g, c->schema->row->op, p.x, p.y);
  double value = at_f64(c, 3);
  if (value != 1) m = N(g, mul, m, bt_num(g, m, value));
  at_give(c, N(g, add, x, m));
}
static void lerp_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *y = at_tensor(c, 1);
  if (g->status) return;
  Node *w = av_node(g, at_arg(c, 2), type_of(x)->dtype);
  at_give(c, N(g, add, x, N(g, mul, w, N(g, sub, y, x))));
}
static void pow_row(AtenCall *c) {
  const AtenValue *e = at_arg(c, 1);
  if (!c->g->status && c->arg[0].kind == AV_TENSOR && av_is_known(e) && av_f64(e) == 2) {
    Node *x = at_tensor(c, 0);
    at_give(c, N(c->g, mul, x, x));
    return;
  }
  Pair p = promoted(c, 0, 1, false);
  at_give(c, N(c->g, pow, p.x, p.y));
}

// ---- activations ----

static void silu_row(AtenCall *c) {
  at_give(c, NA(c->g, swish, (&(swish_attrs){.alpha = 1}), at_tensor(c, 0)));
}
static void softplus_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  double beta = at_f64(c, 1), threshold = at_f64(c, 2);
  Node *bx = beta == 1 ? x : N(g, mul, x, bt_num(g, x, beta));
  Node *y = N(g, softplus, bx);
  if (beta != 1) y = N(g, div, y, bt_num(g, x, beta));
  at_give(c, N(g, where, N(g, lt, bt_num(g, x, threshold), bx), x, y));
}
static void elu_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  double alpha = at_f64(c, 1), scale = at_f64(c, 2), inner = at_f64(c, 3);
  if (scale == 1 && inner == 1) {
    at_give(c, NA(g, elu, (&(elu_attrs){.alpha = alpha}), x));
    return;
  }
  Node *zero = bt_num(g, x, 0), *e = N(g, exp, N(g, mul, x, bt_num(g, x, inner)));
  Node *low = N(g, mul, N(g, sub, e, bt_num(g, x, 1)), bt_num(g, x, alpha * scale));
  at_give(c, N(g, where, N(g, lt, zero, x), N(g, mul, x, bt_num(g, x, scale)), low));
}
static void celu_row(AtenCall *c) {
  at_give(c, NA(c->g, celu, (&(celu_attrs){.alpha = at_f64(c, 1)}), at_tensor(c, 0)));
}
static void leaky_relu_row(AtenCall *c) {
  at_give(c, NA(c->g, leaky_relu, (&(leaky_relu_attrs){.alpha = at_f64(c, 1)}), at_tensor(c, 0)));
}
static void gelu_row(AtenCall *c) {
  gelu_attrs at = {.approximate = str_is(at_arg(c, 1)->s, "tanh")};
  at_give(c, NA(c->g, gelu, &at, at_tensor(c, 0)));
}
static void hardsigmoid_row(AtenCall *c) {
  at_give(c, NA(c->g, hard_sigmoid, (&(hard_sigmoid_attrs){.alpha = 1.0 / 6, .beta = 0.5}),
                at_tensor(c, 0)));
}
static void hardtanh_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  at_give(c, N(g, min, N(g, max, x, bt_num(g, x, at_f64(c, 1))), bt_num(g, x, at_f64(c, 2))));
}
static void relu6_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c, N(c->g, min, N(c->g, relu, x), bt_num(c->g, x, 6)));
}
static void log_sigmoid_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c, N(c->g, neg, N(c->g, softplus, N(c->g, neg, x))));
}
static void threshold_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  at_give(c, N(g, where, N(g, lt, bt_num(g, x, at_f64(c, 1)), x), x, bt_num(g, x, at_f64(c, 2))));
}
static void prelu_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *w = at_tensor(c, 1);
  int rank = at_rank(c, x), wide = at_rank(c, w);
  if (wide == 1 && rank > 2) {  // by channel
    int64_t dims[MAX_RANK];
    for (int i = 0; i < rank - 1; i++) dims[i] = i ? 1 : -1;
    w = bt_reshape(g, w, rank - 1, dims);
  }
  at_give(c, N(g, where, N(g, lt, x, bt_num(g, x, 0)), N(g, mul, x, w), x));
}
static void glu_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int axis = (int)at_axis(c, 1, at_rank(c, x));
  int64_t n = at_known_dim(c, x, axis);
  if (g->status) return;
  at_give(c,
          N(g, mul, bt_slice(g, x, axis, 0, n / 2), N(g, sigmoid, bt_slice(g, x, axis, n / 2, n))));
}
static void same(AtenCall *c) { at_give(c, at_tensor(c, 0)); }

static const AtenRow rows[] = {
    // clang-format off
    {"abs(Tensor self) -> Tensor", unary, OP_abs, NULL},
    {"neg(Tensor self) -> Tensor", unary, OP_neg, NULL},
    {"sign(Tensor self) -> Tensor", unary, OP_sign, NULL},
    {"relu(Tensor self) -> Tensor", unary, OP_relu, NULL},
    {"positive(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"mish(Tensor self) -> Tensor", unary, OP_mish, NULL},
    {"selu(Tensor self) -> Tensor", unary, OP_selu, NULL},
    {"hardswish(Tensor self) -> Tensor", unary, OP_hard_swish, NULL},
    {"acos(Tensor self) -> Tensor", unary_float, OP_acos, NULL},
    {"acosh(Tensor self) -> Tensor", unary_float, OP_acosh, NULL},
    {"asin(Tensor self) -> Tensor", unary_float, OP_asin, NULL},
    {"asinh(Tensor self) -> Tensor", unary_float, OP_asinh, NULL},
    {"atan(Tensor self) -> Tensor", unary_float, OP_atan, NULL},
    {"atanh(Tensor self) -> Tensor", unary_float, OP_atanh, NULL},
    {"cos(Tensor self) -> Tensor", unary_float, OP_cos, NULL},
    {"cosh(Tensor self) -> Tensor", unary_float, OP_cosh, NULL},
    {"erf(Tensor self) -> Tensor", unary_float, OP_erf, NULL},
    {"exp(Tensor self) -> Tensor", unary_float, OP_exp, NULL},
    {"log(Tensor self) -> Tensor", unary_float, OP_log, NULL},
    {"sigmoid(Tensor self) -> Tensor", unary_float, OP_sigmoid, NULL},
    {"sin(Tensor self) -> Tensor", unary_float, OP_sin, NULL},
    {"sinh(Tensor self) -> Tensor", unary_float, OP_sinh, NULL},
    {"sqrt(Tensor self) -> Tensor", unary_float, OP_sqrt, NULL},
    {"tan(Tensor self) -> Tensor", unary_float, OP_tan, NULL},
    {"tanh(Tensor self) -> Tensor", unary_float, OP_tanh, NULL},
    {"reciprocal(Tensor self) -> Tensor", unary_float, OP_reciprocal, NULL},
    {"ceil(Tensor self) -> Tensor", rounding, OP_ceil, NULL},
    {"floor(Tensor self) -> Tensor", rounding, OP_floor, NULL},
    {"round(Tensor self) -> Tensor", rounding, OP_round, NULL},
    {"trunc(Tensor self) -> Tensor", trunc_row, 0, NULL},
    {"frac(Tensor self) -> Tensor", frac_row, 0, NULL},
    {"logical_not(Tensor self) -> Tensor", logical_not, 0, NULL},
    {"bitwise_not(Tensor self) -> Tensor", bitwise_not, 0, NULL},
    {"isnan(Tensor self) -> Tensor", isnan_row, 0, NULL},
    {"isinf(Tensor self) -> Tensor", isinf_row, 0, NULL},
    {"isfinite(Tensor self) -> Tensor", isfinite_row, 0, NULL},
    {"rsqrt(Tensor self) -> Tensor", rsqrt_row, 0, NULL},
    {"square(Tensor self) -> Tensor", square_row, 0, NULL},
    {"expm1(Tensor self) -> Tensor", expm1_row, 0, NULL},
    {"log1p(Tensor self) -> Tensor", log1p_row, 0, NULL},
    {"log2(Tensor self) -> Tensor", log2_row, 0, NULL},
    {"log10(Tensor self) -> Tensor", log10_row, 0, NULL},
    {"exp2(Tensor self) -> Tensor", exp2_row, 0, NULL},
    {"erfc(Tensor self) -> Tensor", erfc_row, 0, NULL},
    {"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", add_row, 0, NULL},
    {"add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", add_row, 0, NULL},
    {"sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", sub_row, 0, NULL},
    {"sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", sub_row, 0, NULL},
    {"rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", rsub_row, 0, NULL},
    {"rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", rsub_row, 0, NULL},
    {"mul.Tensor(Tensor self, Tensor other) -> Tensor", multiply, 0, NULL},
    {"mul.Scalar(Tensor self, Scalar other) -> Tensor", multiply, 0, NULL},
    {"div.Tensor(Tensor self, Tensor other) -> Tensor", binary_float, OP_div, NULL},
    {"div.Scalar(Tensor self, Scalar other) -> Tensor", binary_float, OP_div, NULL},
    {"div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", div_mode, 0, NULL},
    {"div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", div_mode, 0, NULL},
    {"true_divide.Tensor(Tensor self, Tensor other) -> Tensor", binary_float, OP_div, NULL},
    {"floor_divide(Tensor self, Tensor other) -> Tensor", floor_divide, 0, NULL},
    {"floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", floor_divide, 0, NULL},
    {"remainder.Tensor(Tensor self, Tensor other) -> Tensor", remainder_row, 0, NULL},
    {"remainder.Scalar(Tensor self, Scalar other) -> Tensor", remainder_row, 0, NULL},
    {"fmod.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_fmod, NULL},
    {"fmod.Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_fmod, NULL},
    {"pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", pow_row, 0, NULL},
    {"pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", pow_row, 0, NULL},
    {"pow.Scalar(Scalar self, Tensor exponent) -> Tensor", pow_row, 0, NULL},
    {"maximum(Tensor self, Tensor other) -> Tensor", binary, OP_max, NULL},
    {"minimum(Tensor self, Tensor other) -> Tensor", binary, OP_min, NULL},
    {"max.other(Tensor self, Tensor other) -> Tensor", binary, OP_max, NULL},
    {"min.other(Tensor self, Tensor other) -> Tensor", binary, OP_min, NULL},
    {"eq.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_eq, NULL},
    {"eq.Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_eq, NULL},
    {"ne.Tensor(Tensor self, Tensor other) -> Tensor", not_equal, 0, NULL},
    {"ne.Scalar(Tensor self, Scalar other) -> Tensor", not_equal, 0, NULL},
    {"lt.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_lt, NULL},
    {"lt.Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_lt, NULL},
    {"le.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_le, NULL},
    {"le.Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_le, NULL},
    {"gt.Tensor(Tensor self, Tensor other) -> Tensor", binary_swapped, OP_lt, NULL},
    {"gt.Scalar(Tensor self, Scalar other) -> Tensor", binary_swapped, OP_lt, NULL},
    {"ge.Tensor(Tensor self, Tensor other) -> Tensor", binary_swapped, OP_le, NULL},
    {"ge.Scalar(Tensor self, Scalar other) -> Tensor", binary_swapped, OP_le, NULL},
    {"logical_and(Tensor self, Tensor other) -> Tensor", logical, OP_and, NULL},
    {"logical_or(Tensor self, Tensor other) -> Tensor", logical, OP_or, NULL},
    {"logical_xor(Tensor self, Tensor other) -> Tensor", logical, OP_xor, NULL},
    {"bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", bit_and_row, 0, NULL},
    {"bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", bit_and_row, 0, NULL},
    {"bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", bit_or_row, 0, NULL},
    {"bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", bit_or_row, 0, NULL},
    {"bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", bit_xor_row, 0, NULL},
    {"bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", bit_xor_row, 0, NULL},
    {"__and__.Tensor(Tensor self, Tensor other) -> Tensor", bit_and_row, 0, NULL},
    {"__or__.Tensor(Tensor self, Tensor other) -> Tensor", bit_or_row, 0, NULL},
    {"__and__.Scalar(Tensor self, Scalar other) -> Tensor", bit_and_row, 0, NULL},
    {"__or__.Scalar(Tensor self, Scalar other) -> Tensor", bit_or_row, 0, NULL},
    {"__xor__.Tensor(Tensor self, Tensor other) -> Tensor", bit_xor_row, 0, NULL},
    {"__xor__.Scalar(Tensor self, Scalar other) -> Tensor", bit_xor_row, 0, NULL},
    {"__lshift__.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_shift_left, NULL},
    {"__lshift__.Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_shift_left, NULL},
    {"__rshift__.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_shift_right, NULL},
    {"__rshift__.Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_shift_right, NULL},
    {"bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_shift_left, NULL},
    {"bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_shift_left, NULL},
    {"bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor", binary, OP_shift_right, NULL},
    {"bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", binary, OP_shift_right, NULL},
    {"atan2(Tensor self, Tensor other) -> Tensor", atan2_row, 0, NULL},
    {"where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", where_row, 0, NULL},
    {"where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", where_row, 0, NULL},
    {"where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", where_row, 0, NULL},
    {"where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", where_row, 0, NULL},
    {"masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", masked_fill, 0, NULL},
    {"masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", masked_fill, 0, NULL},
    {"clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp_row, 0, NULL},
    {"clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp_row, 0, NULL},
    {"clamp_min(Tensor self, Scalar min) -> Tensor", clamp_row, 1, NULL},
    {"clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", clamp_row, 1, NULL},
    {"clamp_max(Tensor self, Scalar max) -> Tensor", clamp_row, 2, NULL},
    {"clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", clamp_row, 2, NULL},
    {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addc, OP_mul, NULL},
    {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addc, OP_div, NULL},
    {"lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp_row, 0, NULL},
    {"lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp_row, 0, NULL},
    {"silu(Tensor self) -> Tensor", silu_row, 0, NULL},
    {"softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", softplus_row, 0, NULL},
    {"elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", elu_row, 0, NULL},
    {"celu(Tensor self, Scalar alpha=1.) -> Tensor", celu_row, 0, NULL},
    {"leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", leaky_relu_row, 0, NULL},
    {"gelu(Tensor self, *, str approximate=\"none\") -> Tensor", gelu_row, 0, NULL},
    {"hardsigmoid(Tensor self) -> Tensor", hardsigmoid_row, 0, NULL},
    {"hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", hardtanh_row, 0, NULL},
    {"relu6(Tensor self) -> Tensor", relu6_row, 0, NULL},
    {"log_sigmoid(Tensor self) -> Tensor", log_sigmoid_row, 0, NULL},
    {"threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", threshold_row, 0, NULL},
    {"prelu(Tensor self, Tensor weight) -> Tensor", prelu_row, 0, NULL},
    {"_prelu_kernel(Tensor self, Tensor weight) -> Tensor", prelu_row, 0, NULL},
    {"glu(Tensor self, int dim=-1) -> Tensor", glu_row, 0, NULL},
    // clang-format on
};
ATEN_TABLE(elementwise);
