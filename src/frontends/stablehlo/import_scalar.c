// import_scalar.c -- element-wise operations: arithmetic, comparisons, bits, conversions.
#include "frontends/stablehlo/import.h"

#include "eval/scalar.h"

#include <math.h>

static bool is_complex(const HloCall *c) {
  for (int64_t i = 0; i < c->nin; i++)
    if (c->in[i].im) return true;
  return false;
}
static void give_complex(HloCall *c, Cx y) {
  hlo_give_value(c, 0, (HloValue){.re = y.re, .im = y.im});
}
static DTypeClass class_of(const HloCall *c, const Node *x) {
  return c->g->status ? DC_NONE : dtype_class(type_of(x)->dtype);
}

// "stablehlo.sine" -> "sine"
static const char *plain_name(const HloCall *c) {
  const char *dot = strchr(c->op->name, '.');
  return dot ? dot + 1 : c->op->name;
}

static void unary(HloCall *c) {
  if (is_complex(c)) {
    if (!hlo_complex_unary(c, plain_name(c))) hlo_refuse(c, "of complex numbers");
    return;
  }
  Node *x = hlo_in(c, 0);
  hlo_give(c, hb_node(c->g, c->row->op, 1, &x));
}

static void composed(HloCall *c) {
  if (is_complex(c)) {
    if (!hlo_complex_unary(c, plain_name(c))) hlo_refuse(c, "of complex numbers");
    return;
  }
  hlo_give(c, hr_function(c->g, plain_name(c), hlo_in(c, 0)));
}

// On truth values + is or, * is and.
static int bool_op(int op) {
  static const int pair[][2] = {{OP_add, OP_or},      {OP_mul, OP_and},     {OP_max, OP_or},
                                {OP_min, OP_and},     {OP_bit_and, OP_and}, {OP_bit_or, OP_or},
                                {OP_bit_xor, OP_xor}, {OP_sub, OP_xor},     {OP_bit_not, OP_not}};
  for (int64_t i = 0; i < ARRAY_LEN(pair); i++)
    if (pair[i][0] == op) return pair[i][1];
  return op;
}

static Cx complex_binary(HloCall *c, Cx a, Cx b) {
  Graph *g = c->g;
  if (c->row->op == OP_add) return cx_add(g, a, b);
  if (c->row->op == OP_sub) return cx_sub(g, a, b);
  if (c->row->op == OP_mul) return cx_mul(g, a, b);
  if (c->row->op == OP_div) return cx_div(g, a, b);
  if (c->row->op == OP_pow) return cx_pow(g, a, b);
  // The larger, by the real part and then by the imaginary one.
  Node *before =
      N(g, or, N(g, lt, a.re, b.re), N(g, and, N(g, eq, a.re, b.re), N(g, lt, a.im, b.im)));
  bool larger = c->row->op == OP_max;
  if (!larger && c->row->op != OP_min) hlo_refuse(c, "of complex numbers");
  Cx x = larger ? b : a, y = larger ? a : b;
  return (Cx){hb_where(g, before, x.re, y.re), hb_where(g, before, x.im, y.im)};
}

static void binary(HloCall *c) {
  Graph *g = c->g;
  if (is_complex(c)) {
    give_complex(c, complex_binary(c, cx_of(g, &c->in[0]), cx_of(g, &c->in[1])));
    return;
  }
  Node *src[] = {hlo_in(c, 0), hlo_in(c, 1)};
  int op = c->row->op;
  if (class_of(c, src[0]) == DC_BOOL) op = bool_op(op);
  hlo_give(c, hb_node(g, op, 2, src));
}

static void invert(HloCall *c) {
  Node *x = hlo_in(c, 0);
  hlo_give(c, hb_node(c->g, class_of(c, x) == DC_BOOL ? OP_not : OP_bit_not, 1, &x));
}

static bool never_zero(Graph *g, const Node *x) {
  const Value *v = node_known(g, x);
  for (int64_t i = 0; v && i < v->n; i++)
    if (!val_i64(v, i)) return false;
  return v != NULL;
}

// Integers: x / 0 is -1 and the remainder x, as XLA has it; the graph's division faults.
static void divide(HloCall *c) {
  Graph *g = c->g;
  if (is_complex(c)) {
    binary(c);
    return;
  }
  Node *x = hlo_in(c, 0), *y = hlo_in(c, 1);
  bool rest = c->row->op == OP_fmod;
  DTypeClass k = class_of(c, x);
  if ((k != DC_INT && k != DC_UINT) || never_zero(g, y)) {
    hlo_give(c, hb_node(g, c->row->op, 2, (Node *[]){x, y}));
    return;
  }
  Node *zero = N(g, eq, y, hb_num(g, y, 0));
  Node *safe = hb_where(g, zero, hb_num(g, y, 1), y);
  Node *q = hb_node(g, c->row->op, 2, (Node *[]){x, safe});
  hlo_give(c, hb_where(g, zero, rest ? x : hb_u64(g, type_of(x)->dtype, UINT64_MAX), q));
}

static DType unsigned_of(DType t) {
  int bits = dtype_bits(t);
  return bits == 64   ? DT_U64
         : bits == 32 ? DT_U32
         : bits == 16 ? DT_U16
         : bits == 8  ? DT_U8
         : bits == 4  ? DT_U4
                      : DT_U2;
}
static DType signed_of(DType t) {
  int bits = dtype_bits(t);
  return bits == 64   ? DT_I64
         : bits == 32 ? DT_I32
         : bits == 16 ? DT_I16
         : bits == 8  ? DT_I8
         : bits == 4  ? DT_I4
                      : DT_I2;
}

// op 0: left, 1: right filled with zeros, 2: right filled with the sign.
static void shift(HloCall *c) {
  Graph *g = c->g;
  Node *x = hlo_in(c, 0), *y = hlo_in(c, 1);
  if (g->status) return;
  DType t = type_of(x)->dtype, as = c->row->op == 2 ? signed_of(t) : unsigned_of(t);
  Node *by = hb_bits(g, y, as), *v = hb_bits(g, x, as);
  hlo_give(c, hb_bits(g, c->row->op ? N(g, shift_right, v, by) : N(g, shift_left, v, by), t));
}

// ---- bits ----
static Node *masked_sum(Graph *g, Node *x, uint64_t mask, int by) {
  Node *m = hb_u64(g, DT_U64, mask);
  return N(g, add, N(g, bit_and, x, m),
           N(g, bit_and, N(g, shift_right, x, hb_u64(g, DT_U64, (uint64_t)by)), m));
}
static Node *ones(Graph *g, Node *x) {  // of u64
  static const uint64_t mask[] = {0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F,
                                  0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF, 0x00000000FFFFFFFF};
  for (int i = 0; i < 6; i++) x = masked_sum(g, x, mask[i], 1 << i);
  return x;
}
static void count_bits(HloCall *c) {
  Graph *g = c->g;
  Node *x = hlo_in(c, 0);
  if (g->status) return;
  DType t = type_of(x)->dtype;
  Node *u = hb_cast(g, hb_bits(g, x, unsigned_of(t)), DT_U64);
  if (c->row->op) {  // leading zeros: all bits below the first one, counted
    for (int i = 0; i < 6; i++)
      u = N(g, bit_or, u, N(g, shift_right, u, hb_u64(g, DT_U64, 1u << i)));
    u = N(g, sub, hb_u64(g, DT_U64, (uint64_t)dtype_bits(t)), ones(g, u));
  } else {
    u = ones(g, u);
  }
  hlo_give(c, hb_cast(g, u, t));
}

// ---- comparisons ----
// Floats in the order of their bits: -NaN < -inf < ... < -0 < 0 < ... < NaN.
static Node *total_order(Graph *g, Node *x) {
  if (g->status) return g->poison;
  DType t = signed_of(type_of(x)->dtype);
  Node *b = hb_bits(g, x, t);
  uint64_t low = ((uint64_t)1 << (dtype_bits(t) - 1)) - 1;
  return hb_where(g, N(g, lt, b, hb_num(g, b, 0)), N(g, bit_xor, b, hb_u64(g, t, low)), b);
}

static Node *compare_nodes(HloCall *c, const char *dir, Node *x, Node *y) {
  Graph *g = c->g;
  if (!strcmp(dir, "EQ")) return N(g, eq, x, y);
  if (!strcmp(dir, "NE")) return N(g, not, N(g, eq, x, y));
  if (class_of(c, x) == DC_BOOL) {
    x = hb_cast(g, x, DT_U8);
    y = hb_cast(g, y, DT_U8);
  }
  if (!strcmp(dir, "LT")) return N(g, lt, x, y);
  if (!strcmp(dir, "LE")) return N(g, le, x, y);
  if (!strcmp(dir, "GT")) return N(g, lt, y, x);
  if (!strcmp(dir, "GE")) return N(g, le, y, x);
  hlo_fail(c, "the direction %s", dir);
  return g->poison;
}

static void compare(HloCall *c) {
  Graph *g = c->g;
  const char *dir = mlir_word(mlir_attr(c->op, "comparison_direction"), "");
  const MlirAttr *type = mlir_attr(c->op, "compare_type");
  bool total = type && !strcmp(mlir_word(type, ""), "TOTALORDER");
  if (is_complex(c)) {
    Cx a = cx_of(g, &c->in[0]), b = cx_of(g, &c->in[1]);
    Node *same = N(g, and, N(g, eq, a.re, b.re), N(g, eq, a.im, b.im));
    if (!strcmp(dir, "EQ") || !strcmp(dir, "NE")) {
      hlo_give(c, !strcmp(dir, "EQ") ? same : N(g, not, same));
      return;
    }
    Node *less = compare_nodes(c, dir, a.re, b.re), *then = compare_nodes(c, dir, a.im, b.im);
    hlo_give(c, hb_where(g, N(g, eq, a.re, b.re), then, less));
    return;
  }
  Node *x = hlo_in(c, 0), *y = hlo_in(c, 1);
  if (total && class_of(c, x) == DC_FLOAT) {
    x = total_order(g, x);
    y = total_order(g, y);
  }
  hlo_give(c, compare_nodes(c, dir, x, y));
}

// ---- selection ----
static void select_(HloCall *c) {
  Node *p = hlo_in(c, 0);
  Cx a = cx_of(c->g, &c->in[1]), b = cx_of(c->g, &c->in[2]);
  HloValue v = {.re = hb_where(c->g, p, a.re, b.re)};
  if (c->in[1].im || c->in[2].im) v.im = hb_where(c->g, p, a.im, b.im);
  hlo_give_value(c, 0, v);
}

static void clamp(HloCall *c) {
  Node *lo = hlo_in(c, 0), *x = hlo_in(c, 1), *hi = hlo_in(c, 2);
  hlo_give(c, N(c->g, min, N(c->g, max, x, lo), hi));
}

// ---- conversions ----
static void convert(HloCall *c) {
  Graph *g = c->g;
  const HloValue *v = &c->in[0];
  DType t = hlo_dtype(c, c->type[0]);
  if (g->status || !v->re) return;
  bool to_complex = c->type[0]->elem == ME_C64 || c->type[0]->elem == ME_C128;
  HloValue out = {0};
  if (t == DT_BOOL && class_of(c, v->re) != DC_BOOL)
    out.re = N(g, not, N(g, eq, v->re, hb_num(g, v->re, 0)));
  else
    out.re = hb_cast(g, v->re, t);
  if (to_complex) out.im = v->im ? hb_cast(g, v->im, t) : hb_zeros(g, out.re);
  hlo_give_value(c, 0, out);
}

static void complex_(HloCall *c) {
  hlo_give_value(c, 0, (HloValue){.re = hlo_in(c, 0), .im = hlo_in(c, 1)});
}
static void part(HloCall *c) {
  const HloValue *v = &c->in[0];
  if (!v->re || c->g->status) return;
  hlo_give(c, !c->row->op ? v->re : v->im ? v->im : hb_zeros(c->g, v->re));
}

static void abs_(HloCall *c) {
  const HloValue *v = &c->in[0];
  if (v->im)
    hlo_give(c, hr_hypot(c->g, v->re, v->im));
  else
    unary(c);
}

static void is_finite(HloCall *c) {
  Node *x = hlo_in(c, 0);
  if (c->g->status) return;
  hlo_give(c, N(c->g, lt, N(c->g, abs, x), hb_num(c->g, x, INFINITY)));
}

// Of complex numbers: -i log((x + iy) / sqrt(x^2 + y^2)).
static void atan2_(HloCall *c) {
  Graph *g = c->g;
  if (!is_complex(c)) {
    hlo_give(c, hr_atan2(g, hlo_in(c, 0), hlo_in(c, 1)));
    return;
  }
  give_complex(c, cx_atan2(g, cx_of(g, &c->in[0]), cx_of(g, &c->in[1])));
}

// Integers to a negative power: 1 and -1 have one, the others round to 0.
static void power(HloCall *c) {
  Graph *g = c->g;
  if (is_complex(c) || class_of(c, hlo_in(c, 0)) != DC_INT) {
    binary(c);
    return;
  }
  Node *x = hlo_in(c, 0), *y = hlo_in(c, 1), *zero = hb_num(g, y, 0), *one = hb_num(g, y, 1);
  Node *minus = N(g, lt, y, zero), *odd = N(g, bit_and, y, one);
  Node *p = N(g, pow, x, N(g, max, y, zero));
  Node *unit = hb_where(g, N(g, eq, odd, zero), one, x);
  Node *small = hb_where(g, N(g, le, N(g, abs, x), one), unit, zero);
  hlo_give(c, hb_where(g, minus, small, p));
}

// ---- rounding to fewer bits ----
typedef struct FloatForm {
  DType t, bits;
  int exponent, mantissa;
} FloatForm;
static const FloatForm forms[] = {{DT_F64, DT_U64, 11, 52},
                                  {DT_F32, DT_U32, 8, 23},
                                  {DT_F16, DT_U16, 5, 10},
                                  {DT_BF16, DT_U16, 8, 7}};

static void reduce_precision(HloCall *c) {
  Graph *g = c->g;
  Node *x = hlo_in(c, 0);
  int64_t e = mlir_int(mlir_attr(c->op, "exponent_bits"), 0),
          m = mlir_int(mlir_attr(c->op, "mantissa_bits"), -1);
  const FloatForm *f = NULL;
  for (int64_t i = 0; i < ARRAY_LEN(forms) && !g->status; i++)
    if (forms[i].t == type_of(x)->dtype) f = &forms[i];
  if (!f || e < 1 || m < 0) {
    hlo_refuse(c, "to %lld exponent and %lld mantissa bits", (long long)e, (long long)m);
    return;
  }
#define U(v) hb_u64(g, f->bits, (v))
  Node *b = hb_bits(g, x, f->bits), *r = b;
  uint64_t sign = (uint64_t)1 << (f->exponent + f->mantissa),
           all = ((uint64_t)1 << f->exponent) - 1;
  if (m < f->mantissa) {
    uint64_t last = (uint64_t)1 << (f->mantissa - m);
    Node *odd = N(g, bit_and, N(g, shift_right, b, U((uint64_t)(f->mantissa - m))), U(1));
    r = N(g, bit_and, N(g, add, b, N(g, add, odd, U((last >> 1) - 1))), U(~(last - 1)));
  }
  if (e < f->exponent) {
    uint64_t bias = ((uint64_t)1 << (f->exponent - 1)) - 1, small = ((uint64_t)1 << (e - 1)) - 1;
    Node *s = N(g, bit_and, r, U(sign)), *field = N(g, bit_and, r, U(all << f->mantissa));
    Node *over = N(g, lt, U((bias + small) << f->mantissa), field);
    Node *under = N(g, le, field, U((bias - small) << f->mantissa));
    r = hb_where(g, over, N(g, bit_or, s, U(all << f->mantissa)), r);
    r = hb_where(g, under, s, r);
  }
#undef U
  // Without a mantissa there is no NaN.
  hlo_give(c, hb_where(g, N(g, is_nan, x), m ? x : hb_num(g, x, INFINITY), hb_bits(g, r, f->t)));
}

static void constant(HloCall *c) { hlo_give_value(c, 0, hlo_const(c, mlir_attr(c->op, "value"))); }

// clang-format off
static const HloRow rows[] = {
    {"stablehlo.abs",                    abs_,      OP_abs,      HLO_PLAIN, NULL},
    {"stablehlo.add",                    binary,    OP_add,      HLO_PLAIN, NULL},
    {"stablehlo.and",                    binary,    OP_bit_and,  HLO_PLAIN, NULL},
    {"stablehlo.atan2",                  atan2_,    0,           HLO_PLAIN, NULL},
    {"stablehlo.cbrt",                   composed,  0,           HLO_PLAIN, NULL},
    {"stablehlo.ceil",                   unary,     OP_ceil,     HLO_PLAIN, NULL},
    {"stablehlo.clamp",                  clamp,     0,           HLO_PLAIN, NULL},
    {"stablehlo.compare",                compare,   0,           HLO_PLAIN, NULL},
    {"stablehlo.complex",                complex_,  0,           HLO_PLAIN, NULL},
    {"stablehlo.constant",               constant,  0,           HLO_OWN,   NULL},
    {"stablehlo.convert",                convert,   0,           HLO_PLAIN, NULL},
    {"stablehlo.cosine",                 unary,     OP_cos,      HLO_PLAIN, NULL},
    {"stablehlo.count_leading_zeros",    count_bits,1,           HLO_PLAIN, NULL},
    {"stablehlo.divide",                 divide,    OP_div,      HLO_PLAIN, NULL},
    {"stablehlo.exponential",            unary,     OP_exp,      HLO_PLAIN, NULL},
    {"stablehlo.exponential_minus_one",  composed,  0,           HLO_PLAIN, NULL},
    {"stablehlo.floor",                  unary,     OP_floor,    HLO_PLAIN, NULL},
    {"stablehlo.imag",                   part,      1,           HLO_PLAIN, NULL},
    {"stablehlo.is_finite",              is_finite, 0,           HLO_PLAIN, NULL},
    {"stablehlo.log",                    unary,     OP_log,      HLO_PLAIN, NULL},
    {"stablehlo.log_plus_one",           composed,  0,           HLO_PLAIN, NULL},
    {"stablehlo.logistic",               composed,  0,           HLO_PLAIN, NULL},
    {"stablehlo.maximum",                binary,    OP_max,      HLO_PLAIN, NULL},
    {"stablehlo.minimum",                binary,    OP_min,      HLO_PLAIN, NULL},
    {"stablehlo.multiply",               binary,    OP_mul,      HLO_PLAIN, NULL},
    {"stablehlo.negate",                 unary,     OP_neg,      HLO_PLAIN, NULL},
    {"stablehlo.not",                    invert,    0,           HLO_PLAIN, NULL},
    {"stablehlo.or",                     binary,    OP_bit_or,   HLO_PLAIN, NULL},
    {"stablehlo.popcnt",                 count_bits,0,           HLO_PLAIN, NULL},
    {"stablehlo.power",                  power,     OP_pow,      HLO_PLAIN, NULL},
    {"stablehlo.real",                   part,      0,           HLO_PLAIN, NULL},
    {"stablehlo.reduce_precision",       reduce_precision, 0,    HLO_PLAIN, NULL},
    {"stablehlo.remainder",              divide,    OP_fmod,     HLO_PLAIN, NULL},
    {"stablehlo.round_nearest_afz",      composed,  0,           HLO_PLAIN, NULL},
    {"stablehlo.round_nearest_even",     unary,     OP_round,    HLO_PLAIN, NULL},
    {"stablehlo.rsqrt",                  composed,  0,           HLO_PLAIN, NULL},
    {"stablehlo.select",                 select_,   0,           HLO_PLAIN, NULL},
    {"stablehlo.shift_left",             shift,     0,           HLO_PLAIN, NULL},
    {"stablehlo.shift_right_arithmetic", shift,     2,           HLO_PLAIN, NULL},
    {"stablehlo.shift_right_logical",    shift,     1,           HLO_PLAIN, NULL},
    {"stablehlo.sign",                   unary,     OP_sign,     HLO_PLAIN, NULL},
    {"stablehlo.sine",                   unary,     OP_sin,      HLO_PLAIN, NULL},
    {"stablehlo.sqrt",                   unary,     OP_sqrt,     HLO_PLAIN, NULL},
    {"stablehlo.subtract",               binary,    OP_sub,      HLO_PLAIN, NULL},
    {"stablehlo.tan",                    unary,     OP_tan,      HLO_PLAIN, NULL},
    {"stablehlo.tanh",                   unary,     OP_tanh,     HLO_PLAIN, NULL},
    {"stablehlo.xor",                    binary,    OP_bit_xor,  HLO_PLAIN, NULL},
};
// clang-format on
HLO_TABLE(hlo_scalar);
