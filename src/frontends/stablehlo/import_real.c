// import_real.c -- functions of real numbers that the graph has no op for, composed of those that
// it has.
//
// Half-precision operands are computed in f32 and rounded once.  Formulas keep their relative
// precision near zero: expm1 is Kahan's, which divides out the rounding of exp x.
#include "frontends/stablehlo/import.h"

#include "eval/scalar.h"

#include <math.h>

#define NUM(v) hb_num(g, x, (v))

Node *hr_is_negative(Graph *g, Node *x) {
  DType t = type_of(x)->dtype;
  DType bits = dtype_bits(t) == 64   ? DT_I64
               : dtype_bits(t) == 32 ? DT_I32
               : dtype_bits(t) == 16 ? DT_I16
                                     : DT_I8;
  Node *b = hb_bits(g, x, bits);
  return N(g, lt, b, hb_num(g, b, 0));
}

static Node *is_inf(Graph *g, Node *x) { return N(g, is_inf, x); }

static Node *expm1_of(Graph *g, Node *x) {
  Node *u = N(g, exp, x), *d = N(g, sub, u, NUM(1));
  Node *y = N(g, div, N(g, mul, d, x), N(g, log, u));
  Node *far = N(g, or, N(g, lt, NUM(1), N(g, abs, x)), is_inf(g, u));
  y = hb_where(g, far, d, y);
  return hb_where(g, N(g, eq, u, NUM(1)), x, y);
}

// Near 0 by atanh, which needs no 1 + x.
static Node *log1p_of(Graph *g, Node *x) {
  Node *near = N(g, atanh, N(g, div, x, N(g, add, x, NUM(2))));
  Node *small = N(g, lt, N(g, abs, x), NUM(0.5));
  return hb_where(g, small, N(g, mul, near, NUM(2)), N(g, log, N(g, add, x, NUM(1))));
}

// A power, made precise by one step of Newton's.
static Node *cbrt_of(Graph *g, Node *x) {
  Node *a = N(g, abs, x), *r = N(g, pow, a, NUM(1.0 / 3));
  Node *square = N(g, mul, r, r);
  Node *step = N(g, div, N(g, sub, N(g, mul, square, r), a), N(g, mul, square, NUM(3)));
  Node *odd = N(g, or, N(g, eq, a, NUM(0)), is_inf(g, a));
  Node *y = hb_where(g, odd, a, N(g, sub, r, step));
  return hb_where(g, hr_is_negative(g, x), N(g, neg, y), y);
}

static Node *rsqrt(Graph *g, Node *x) { return N(g, reciprocal, N(g, sqrt, x)); }

static Node *round_afz(Graph *g, Node *x) {
  Node *a = N(g, abs, x), *f = N(g, floor, a);
  Node *up = N(g, le, NUM(0.5), N(g, sub, a, f));
  Node *y = hb_where(g, up, N(g, add, f, NUM(1)), f);
  return hb_where(g, N(g, lt, x, NUM(0)), N(g, neg, y), hb_where(g, N(g, eq, a, a), y, x));
}

static Node *logistic(Graph *g, Node *x) { return N(g, sigmoid, x); }

static const struct {
  const char *name;
  Node *(*fn)(Graph *g, Node *x);
  bool exact;  // in any type, without a wider one
} functions[] = {
    // clang-format off
    {"exponential_minus_one", expm1_of,  false},
    {"log_plus_one",          log1p_of,  false},
    {"cbrt",                  cbrt_of,   false},
    {"rsqrt",                 rsqrt,     false},
    {"round_nearest_afz",     round_afz, true},
    {"logistic",              logistic,  false},
    // clang-format on
};

Node *hr_function(Graph *g, const char *name, Node *x) {
  for (int64_t i = 0; i < ARRAY_LEN(functions); i++) {
    if (strcmp(functions[i].name, name)) continue;
    if (g->status) return g->poison;
    DType t = type_of(x)->dtype;
    DType wide = t == DT_F64 ? DT_F64 : DT_F32;
    if (functions[i].exact) return functions[i].fn(g, x);
    return hb_cast(g, functions[i].fn(g, hb_cast(g, x, wide)), t);
  }
  return NULL;
}

// The angle of (x, y), with the signs of zeros and the corners at infinity.
Node *hr_atan2(Graph *g, Node *y, Node *x) {
  if (g->status) return g->poison;
  DType t = type_of(x)->dtype, wide = t == DT_F64 ? DT_F64 : DT_F32;
  x = hb_cast(g, x, wide);
  y = hb_cast(g, y, wide);
  Node *left = hr_is_negative(g, x), *below = hr_is_negative(g, y);
  Node *ax = N(g, abs, x), *ay = N(g, abs, y);
  Node *both = N(g, and, is_inf(g, x), is_inf(g, y));
  Node *none = N(g, eq, ay, NUM(0));
  Node *q = hb_where(g, both, NUM(1), N(g, div, ay, ax));
  Node *a = hb_where(g, none, NUM(0), N(g, atan, q));
  a = hb_where(g, left, N(g, sub, NUM(M_PI), a), a);
  a = hb_where(g, below, N(g, neg, a), a);
  Node *nan = N(g, or, N(g, is_nan, x), N(g, is_nan, y));
  return hb_cast(g, hb_where(g, nan, N(g, add, x, y), a), t);
}

Node *hr_hypot(Graph *g, Node *x, Node *y) {
  if (g->status) return g->poison;
  DType t = type_of(x)->dtype;
  if (t == DT_F32) {
    x = hb_cast(g, x, DT_F64);
    y = hb_cast(g, y, DT_F64);
    Node *r = N(g, sqrt, N(g, add, N(g, mul, x, x), N(g, mul, y, y)));
    Node *inf = N(g, or, is_inf(g, x), is_inf(g, y));
    return hb_cast(g, hb_where(g, inf, NUM(INFINITY), r), t);
  }
  Node *ax = N(g, abs, x), *ay = N(g, abs, y);
  Node *big = N(g, max, ax, ay), *small = N(g, min, ax, ay);
  Node *q = N(g, div, small, big);
  Node *r = N(g, mul, big, N(g, sqrt, N(g, add, NUM(1), N(g, mul, q, q))));
  Node *plain = N(g, sqrt, N(g, add, N(g, mul, ax, ax), N(g, mul, ay, ay)));
  Node *fits = N(g, and, N(g, lt, big, NUM(1e150)), N(g, lt, NUM(1e-140), small));
  r = hb_where(g, N(g, eq, big, NUM(0)), big, hb_where(g, fits, plain, r));
  return hb_where(g, N(g, or, is_inf(g, x), is_inf(g, y)), NUM(INFINITY), r);
}
