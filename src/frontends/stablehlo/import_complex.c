// import_complex.c -- complex arithmetic on pairs of real nodes.
//
// Sums and products are the plain formulas in the parts' own type.  Functions of complex<f32> are
// computed in f64 and rounded once; those of complex<f64> avoid overflow and cancellation where the
// formula allows it.
#include "frontends/stablehlo/import.h"

#include <math.h>

#define NUM(v) hb_num(g, z.re, (v))

Cx cx_of(Graph *g, const HloValue *v) {
  if (g->status) return (Cx){g->poison, g->poison};
  return (Cx){v->re, v->im ? v->im : hb_num(g, v->re, 0)};
}
Cx cx_add(Graph *g, Cx a, Cx b) { return (Cx){N(g, add, a.re, b.re), N(g, add, a.im, b.im)}; }
Cx cx_sub(Graph *g, Cx a, Cx b) { return (Cx){N(g, sub, a.re, b.re), N(g, sub, a.im, b.im)}; }
Cx cx_mul(Graph *g, Cx a, Cx b) {
  return (Cx){N(g, sub, N(g, mul, a.re, b.re), N(g, mul, a.im, b.im)),
              N(g, add, N(g, mul, a.re, b.im), N(g, mul, a.im, b.re))};
}
static Cx cx_scale(Graph *g, Cx z, Node *s) { return (Cx){N(g, mul, z.re, s), N(g, mul, z.im, s)}; }
static Cx cx_cast(Graph *g, Cx z, DType t) {
  return (Cx){hb_cast(g, z.re, t), hb_cast(g, z.im, t)};
}
static Cx cx_where(Graph *g, Node *c, Cx a, Cx b) {
  return (Cx){hb_where(g, c, a.re, b.re), hb_where(g, c, a.im, b.im)};
}

// Smith's: by the larger part of the divisor.
static Cx divide_wide(Graph *g, Cx a, Cx b) {
  Node *swapped = N(g, lt, N(g, abs, b.re), N(g, abs, b.im));
  Node *p = hb_where(g, swapped, b.im, b.re), *q = hb_where(g, swapped, b.re, b.im);
  Node *r = N(g, div, q, p), *den = N(g, add, p, N(g, mul, q, r));
  Node *x = hb_where(g, swapped, a.im, a.re), *y = hb_where(g, swapped, a.re, a.im);
  Node *re = N(g, div, N(g, add, x, N(g, mul, y, r)), den);
  Node *im = N(g, div, N(g, sub, y, N(g, mul, x, r)), den);
  return (Cx){re, hb_where(g, swapped, N(g, neg, im), im)};
}
Cx cx_div(Graph *g, Cx a, Cx b) {
  if (g->status) return a;
  DType t = type_of(a.re)->dtype;
  if (t == DT_F64) return divide_wide(g, a, b);
  a = cx_cast(g, a, DT_F64);
  b = cx_cast(g, b, DT_F64);
  Node *den = N(g, add, N(g, mul, b.re, b.re), N(g, mul, b.im, b.im));
  Cx top = cx_mul(g, a, (Cx){b.re, N(g, neg, b.im)});
  return cx_cast(g, (Cx){N(g, div, top.re, den), N(g, div, top.im, den)}, t);
}

static Cx cexp_(Graph *g, Cx z) {
  Node *e = N(g, exp, z.re), *im = N(g, mul, e, N(g, sin, z.im));
  Cx y = {N(g, mul, e, N(g, cos, z.im)), hb_where(g, N(g, eq, z.im, NUM(0)), z.im, im)};
  return y;
}

// log |z| near the unit circle: half of log1p of (|z| - 1)(|z| + 1), whose larger part is exact.
static Node *log_abs(Graph *g, Cx z) {
  Node *h = hr_hypot(g, z.re, z.im);
  Node *ax = N(g, abs, z.re), *ay = N(g, abs, z.im);
  Node *big = N(g, max, ax, ay), *small = N(g, min, ax, ay);
  Node *d =
      N(g, add, N(g, mul, N(g, sub, big, NUM(1)), N(g, add, big, NUM(1))), N(g, mul, small, small));
  Node *near = N(g, and, N(g, lt, NUM(0.5), h), N(g, lt, h, NUM(2)));
  Node *fine = N(g, mul, NUM(0.5), hr_function(g, "log_plus_one", d));
  return hb_where(g, near, fine, N(g, log, h));
}
static Cx clog_(Graph *g, Cx z) { return (Cx){log_abs(g, z), hr_atan2(g, z.im, z.re)}; }

static Cx csqrt_(Graph *g, Cx z) {
  Node *h = hr_hypot(g, z.re, z.im);
  Node *t = N(g, sqrt, N(g, mul, N(g, add, h, N(g, abs, z.re)), NUM(0.5)));
  Node *zero = N(g, eq, t, NUM(0));
  Node *u = hb_where(g, zero, NUM(0), N(g, div, N(g, abs, z.im), N(g, mul, t, NUM(2))));
  Node *left = N(g, lt, z.re, NUM(0));
  Node *re = hb_where(g, left, u, t), *im = hb_where(g, left, t, u);
  return (Cx){re, hb_where(g, hr_is_negative(g, z.im), N(g, neg, im), im)};
}
static Cx one_over(Graph *g, Cx z) { return cx_div(g, (Cx){NUM(1), NUM(0)}, z); }
static Cx crsqrt(Graph *g, Cx z) { return one_over(g, csqrt_(g, z)); }

static Cx csin_(Graph *g, Cx z) {
  return (Cx){N(g, mul, N(g, sin, z.re), N(g, cosh, z.im)),
              N(g, mul, N(g, cos, z.re), N(g, sinh, z.im))};
}
static Cx ccos_(Graph *g, Cx z) {
  return (Cx){N(g, mul, N(g, cos, z.re), N(g, cosh, z.im)),
              N(g, neg, N(g, mul, N(g, sin, z.re), N(g, sinh, z.im)))};
}
// tanh(x + iy) = (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y); +-1 far from the axis.
static Cx ctanh_(Graph *g, Cx z) {
  Node *s = N(g, sinh, z.re), *c = N(g, cosh, z.re), *sy = N(g, sin, z.im), *cy = N(g, cos, z.im);
  Node *den = N(g, add, N(g, mul, s, s), N(g, mul, cy, cy));
  Cx y = {N(g, div, N(g, mul, s, c), den), N(g, div, N(g, mul, sy, cy), den)};
  Node *far = N(g, lt, NUM(40), N(g, abs, z.re));
  Node *side = N(g, sign, z.re);
  Node *e = N(g, exp, N(g, mul, N(g, abs, z.re), NUM(-2)));
  Cx limit = {side, N(g, mul, N(g, mul, N(g, mul, sy, cy), NUM(4)), e)};
  return cx_where(g, far, limit, y);
}
static Cx times_i(Graph *g, Cx z) { return (Cx){N(g, neg, z.im), z.re}; }
static Cx over_i(Graph *g, Cx z) { return (Cx){z.im, N(g, neg, z.re)}; }
static Cx ctan_(Graph *g, Cx z) { return over_i(g, ctanh_(g, times_i(g, z))); }

// exp(x) cos y - 1 = expm1(x) cos y - 2 sin^2(y/2)
static Cx cexpm1(Graph *g, Cx z) {
  Node *s = N(g, sin, N(g, mul, z.im, NUM(0.5)));
  Node *re = N(g, sub, N(g, mul, hr_function(g, "exponential_minus_one", z.re), N(g, cos, z.im)),
               N(g, mul, NUM(2), N(g, mul, s, s)));
  return (Cx){re, N(g, mul, N(g, exp, z.re), N(g, sin, z.im))};
}
static Cx clog1p(Graph *g, Cx z) {
  Node *x = z.re, *y = z.im, *u = N(g, add, x, NUM(1));
  Node *d = N(g, add, N(g, mul, x, N(g, add, x, NUM(2))), N(g, mul, y, y));
  Node *fine = N(g, mul, NUM(0.5), hr_function(g, "log_plus_one", d));
  Node *far = N(g, lt, NUM(4), N(g, max, N(g, abs, x), N(g, abs, y)));
  return (Cx){hb_where(g, far, N(g, log, hr_hypot(g, u, y)), fine), hr_atan2(g, y, u)};
}
static Cx clogistic(Graph *g, Cx z) {
  Cx e = cexp_(g, (Cx){N(g, neg, z.re), N(g, neg, z.im)});
  return one_over(g, (Cx){N(g, add, e.re, NUM(1)), e.im});
}
static Cx csign(Graph *g, Cx z) {
  Node *h = hr_hypot(g, z.re, z.im), *zero = N(g, eq, h, NUM(0));
  Cx y = {N(g, div, z.re, h), N(g, div, z.im, h)};
  return cx_where(g, zero, z, y);
}
static Cx cneg(Graph *g, Cx z) { return (Cx){N(g, neg, z.re), N(g, neg, z.im)}; }
static Cx ccbrt(Graph *g, Cx z) {
  Cx l = clog_(g, z);
  return cexp_(g, cx_scale(g, l, NUM(1.0 / 3)));
}

static Cx ccosh_(Graph *g, Cx z) {
  return (Cx){N(g, mul, N(g, cosh, z.re), N(g, cos, z.im)),
              N(g, mul, N(g, sinh, z.re), N(g, sin, z.im))};
}
static Cx csinh_(Graph *g, Cx z) {
  return (Cx){N(g, mul, N(g, sinh, z.re), N(g, cos, z.im)),
              N(g, mul, N(g, cosh, z.re), N(g, sin, z.im))};
}

// Inverse functions, after Kahan ("Branch cuts for complex elementary functions"): by the roots of
// 1 - z and 1 + z, so that nothing cancels near the branch points.
static Cx near_one(Graph *g, Cx z, bool minus) {  // 1 - z or 1 + z
  if (minus) return (Cx){N(g, sub, NUM(1), z.re), N(g, neg, z.im)};
  return (Cx){N(g, add, NUM(1), z.re), z.im};
}
static Node *cross(Graph *g, Cx a, Cx b) {  // im(conj(a) b)
  return N(g, sub, N(g, mul, a.re, b.im), N(g, mul, a.im, b.re));
}
static Cx casin_(Graph *g, Cx z) {
  Cx m = csqrt_(g, near_one(g, z, true)), p = csqrt_(g, near_one(g, z, false));
  Node *re = N(g, sub, N(g, mul, m.re, p.re), N(g, mul, m.im, p.im));
  return (Cx){hr_atan2(g, z.re, re), N(g, asinh, cross(g, m, p))};
}
// The real part by Hull's quotient x / ((|z + 1| + |z - 1|) / 2), away from where its arc cosine is
// steep.
static Cx cacos_(Graph *g, Cx z) {
  Cx m = csqrt_(g, near_one(g, z, true)), p = csqrt_(g, near_one(g, z, false));
  Node *r = hr_hypot(g, N(g, add, z.re, NUM(1)), z.im);
  Node *s = hr_hypot(g, N(g, sub, z.re, NUM(1)), z.im);
  Node *b = N(g, div, z.re, N(g, mul, NUM(0.5), N(g, add, r, s)));
  Node *flat = N(g, lt, N(g, abs, b), NUM(0.64));
  Node *re = N(g, mul, NUM(2), hr_atan2(g, m.re, p.re));
  return (Cx){hb_where(g, flat, N(g, acos, b), re), N(g, asinh, cross(g, p, m))};
}
static Cx cacosh_(Graph *g, Cx z) {  // i or -i times acos, in the half plane of z
  Cx w = cacos_(g, z);
  return (Cx){N(g, abs, w.im), hb_where(g, hr_is_negative(g, z.im), N(g, neg, w.re), w.re)};
}
static Cx casinh_(Graph *g, Cx z) { return over_i(g, casin_(g, times_i(g, z))); }
static Cx catanh_(Graph *g, Cx z) {
  Node *d = N(g, sub, NUM(1), z.re), *y2 = N(g, mul, z.im, z.im);
  Node *q = N(g, div, N(g, mul, NUM(4), z.re), N(g, add, N(g, mul, d, d), y2));
  Node *den = N(g, sub, N(g, mul, d, N(g, add, NUM(1), z.re)), y2);
  return (Cx){N(g, mul, NUM(0.25), hr_function(g, "log_plus_one", q)),
              N(g, mul, NUM(0.5), hr_atan2(g, N(g, mul, NUM(2), z.im), den))};
}
static Cx catan_(Graph *g, Cx z) { return over_i(g, catanh_(g, times_i(g, z))); }

static const struct {
  const char *name;
  Cx (*fn)(Graph *g, Cx z);
} functions[] = {
    // clang-format off
    {"exponential", cexp_},  {"log", clog_},         {"sqrt", csqrt_},  {"rsqrt", crsqrt},  {"sine", csin_},
    {"cosine", ccos_},       {"tan", ctan_},         {"tanh", ctanh_},  {"exponential_minus_one", cexpm1},
    {"log_plus_one", clog1p},{"logistic", clogistic},{"sign", csign},   {"negate", cneg},   {"cbrt", ccbrt}, {"acos", cacos_}, {"acosh", cacosh_}, {"asin", casin_}, {"asinh", casinh_}, {"atan", catan_}, {"atanh", catanh_}, {"cosh", ccosh_}, {"sinh", csinh_},
    // clang-format on
};

static void give(HloCall *c, Cx y) { hlo_give_value(c, 0, (HloValue){.re = y.re, .im = y.im}); }

bool hlo_complex_unary(HloCall *c, const char *name) {
  Graph *g = c->g;
  Cx z = cx_of(g, &c->in[0]);
  for (int64_t i = 0; i < ARRAY_LEN(functions) && !g->status; i++) {
    if (strcmp(functions[i].name, name)) continue;
    DType t = type_of(z.re)->dtype;
    give(c, cx_cast(g, functions[i].fn(g, cx_cast(g, z, DT_F64)), t));
    return true;
  }
  return false;
}

// z^w = exp(w log z); 0 to a power with a positive real part is 0.
Cx cx_pow(Graph *g, Cx z, Cx w) {
  DType t = type_of(z.re)->dtype;
  z = cx_cast(g, z, DT_F64);
  w = cx_cast(g, w, DT_F64);
  Cx y = cexp_(g, cx_mul(g, w, clog_(g, z)));
  Node *zero = N(g, and, N(g, eq, z.re, NUM(0)), N(g, eq, z.im, NUM(0)));
  Node *one = N(g, and, N(g, eq, w.re, NUM(0)), N(g, eq, w.im, NUM(0)));
  y = cx_where(g, zero, (Cx){NUM(0), NUM(0)}, y);
  return cx_cast(g, cx_where(g, one, (Cx){NUM(1), NUM(0)}, y), t);
}

Cx cx_atan2(Graph *g, Cx y, Cx x) {
  if (g->status) return y;
  DType t = type_of(y.re)->dtype;
  x = cx_cast(g, x, DT_F64);
  y = cx_cast(g, y, DT_F64);
  Cx root = csqrt_(g, cx_add(g, cx_mul(g, x, x), cx_mul(g, y, y)));
  Cx q = cx_div(g, (Cx){N(g, sub, x.re, y.im), N(g, add, x.im, y.re)}, root);
  return cx_cast(g, over_i(g, clog_(g, q)), t);
}
