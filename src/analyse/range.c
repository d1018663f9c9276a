// range.c -- intervals: what is known of a node's values from its operands'.
//
// One function a kind of op, found through a table; an op that is not in it gets the range of its
// type.  Integers are followed exactly in int64; a result that leaves int64 is beyond any type and
// marked so.  Floats are followed in double and rounded to the type at the end, which keeps the
// order and so the bounds.
//
// Needs:      types, known contents.
// Guarantees: elements that are numbers lie within (tests/analyse/analyse_test.c runs every op's
//             samples against it).
#include "eval/activation.h"
#include "eval/control.h"
#include "eval/fuse.h"
#include "eval/generate.h"
#include "eval/image.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/quant.h"
#include "eval/rnn.h"
#include "eval/window.h"
#include "ir/internal.h"
#include "analyse/analyse.h"

#include <math.h>

// ---- arithmetic ----
// A result beyond int64 saturates and is marked in `beyond`: bit 0 below, bit 1 above.

typedef struct Ends {
  Range r;
  int beyond_least, beyond_most;  // -1, 0, 1
} Ends;

static void put_end(Ends *e, bool first, bool fits, int64_t v, int sign) {
  int beyond = fits ? 0 : sign;
  if (!fits) v = sign < 0 ? INT64_MIN : INT64_MAX;
  if (first || v < e->r.least || (v == e->r.least && beyond < e->beyond_least)) {
    e->r.least = v;
    e->beyond_least = beyond;
  }
  if (first || v > e->r.most || (v == e->r.most && beyond > e->beyond_most)) {
    e->r.most = v;
    e->beyond_most = beyond;
  }
}

static Ends int_arith(int op, Range a, Range b) {
  Ends e = {.r = {.kind = RANGE_INT}};
  int64_t v;
  for (int i = 0; i < 4; i++) {
    int64_t x = i & 1 ? a.most : a.least, y = i & 2 ? b.most : b.least;
    bool fits = op == OP_add   ? ck_add(x, y, &v)
                : op == OP_sub ? ck_sub(x, y, &v)
                               : ck_mul(x, y, &v);
    bool negative =
        op == OP_mul ? (x < 0) != (y < 0) : x < 0;  // of a sum that does not fit: as its first part
    put_end(&e, i == 0, fits, v, negative ? -1 : 1);
  }
  e.r.lo = (double)e.r.least;
  e.r.hi = (double)e.r.most;
  return e;
}

static Range float_arith(int op, Range a, Range b) {
  double lo = INFINITY, hi = -INFINITY;
  if (op == OP_add) return range_float(a.lo + b.lo, a.hi + b.hi);
  if (op == OP_sub) return range_float(a.lo - b.hi, a.hi - b.lo);
  for (int i = 0; i < 4; i++) {
    double x = i & 1 ? a.hi : a.lo, y = i & 2 ? b.hi : b.lo;
    double v = op == OP_mul ? x * y : x / y;
    if (isnan(v)) v = 0;  // 0 * inf: however large, a number times 0 is 0
    lo = fmin(lo, v);
    hi = fmax(hi, v);
  }
  return range_float(lo, hi);
}

static bool operands_bounded(const Ranger *r, const Node *n) {
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i] != r->g->none && !range_is_bounded(range_at(r, n, i), type_of(n->src[i])->dtype))
      return false;
  return true;
}

// Integer results: what the type cannot hold wraps, so nothing is known of it.
static Range settle_int(Ranger *r, const Node *n, Ends e) {
  DType t = type_of(n)->dtype;
  Range top = range_top(t);
  bool above = e.beyond_most > 0 || e.r.most > top.most;
  bool below = e.beyond_least < 0 || e.r.least < top.least;
  if (!above && !below) return e.r;
  bool certain =
      e.beyond_least > 0 || e.r.least > top.most || e.beyond_most < 0 || e.r.most < top.least;
  if (t == DT_U64 || !operands_bounded(r, n)) return top;
  const char *range = range_text(r->arena, e.r);
  if (certain && r->flag[n->id] & RF_SHAPE)
    ranger_report(r, FINDING_T0201, n, "the result lies in %s%s, beyond what %s holds", range,
                  e.beyond_least || e.beyond_most ? " or further out" : "", dtype_name(t));
  else
    ranger_report(r, FINDING_T0202, n, "the result %s in %s%s, and %s holds %s",
                  certain ? "lies" : "can lie anywhere", range,
                  e.beyond_least || e.beyond_most ? " or further out" : "", dtype_name(t),
                  range_text(r->arena, top));
  return top;
}

// Float results: rounded to the type, which may make them infinite.
static Range settle_float(Ranger *r, const Node *n, Range x) {
  DType t = type_of(n)->dtype;
  Range y = range_float(round_to(t, x.lo), round_to(t, x.hi));
  if (isnan(round_to(t, x.lo))) y.lo = -INFINITY;
  if (isnan(round_to(t, x.hi))) y.hi = INFINITY;
  bool small = t == DT_F16 || t == DT_BF16 || t == DT_F32 || t == DT_F64;
  bool above = isinf(y.hi) && y.hi > 0, below = isinf(y.lo) && y.lo < 0;
  if (!small || (!above && !below) || !operands_bounded(r, n)) return y;
  bool certain = (isinf(y.lo) && y.lo > 0) || (isinf(y.hi) && y.hi < 0);
  ranger_report(r, certain ? FINDING_T0301 : FINDING_T0302, n,
                "the result %s in %s, and the largest %s is %.6g",
                certain ? "lies" : "can lie anywhere", range_text(r->arena, x), dtype_name(t),
                t == DT_F16    ? 65504.0
                : t == DT_BF16 ? 3.38953e38
                : t == DT_F32  ? 3.40282e38
                               : 1.79769e308);
  return y;
}

typedef void RangeFn(Ranger *r, const Node *n, Range *out);

// Constants element by element, where their shapes are equal or one is a single element: how many
// results wrap.  -1 where not known.
static int64_t count_wraps(Ranger *r, const Node *n) {
  const Value *a = node_known(r->g, n->src[0]), *b = node_known(r->g, n->src[1]);
  Range top = range_top(type_of(n)->dtype);
  if (!a || !b || (a->n != b->n && a->n != 1 && b->n != 1) || type_of(n)->dtype == DT_U64)
    return -1;
  int64_t wraps = 0, count = a->n == 1 ? b->n : a->n;
  for (int64_t i = 0; i < count; i++) {
    int64_t x = val_i64(a, a->n == 1 ? 0 : i), y = val_i64(b, b->n == 1 ? 0 : i);
    Ends e = int_arith(n->op, range_int(x, x), range_int(y, y));
    wraps += e.beyond_least || e.beyond_most || e.r.least < top.least || e.r.most > top.most;
  }
  return wraps;
}

static void of_arith(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), b = range_at(r, n, 1);
  if (!a.kind || a.kind != b.kind) return;
  if (a.kind == RANGE_FLOAT) {
    bool square = n->op == OP_mul && n->src[0] == n->src[1];
    Range x = float_arith(n->op, a, b);
    if (square) x.lo = a.lo > 0 || a.hi < 0 ? fmin(a.lo * a.lo, a.hi * a.hi) : 0;
    out[0] = settle_float(r, n, x);
  } else {
    int64_t wraps = count_wraps(r, n);
    if (wraps > 0)
      ranger_report(r, r->flag[n->id] & RF_SHAPE ? FINDING_T0201 : FINDING_T0202, n,
                    "%lld result%s of constants %s not fit in %s", (long long)wraps,
                    wraps == 1 ? "" : "s", wraps == 1 ? "does" : "do",
                    dtype_name(type_of(n)->dtype));
    if (wraps < 0) out[0] = settle_int(r, n, int_arith(n->op, a, b));
  }
}

// Truncated; a divisor of 0 ends the run, so it counts for nothing here.
static Range int_div(Range a, Range b, Range top) {
  if (a.least == INT64_MIN || (a.least == top.least && b.least <= -1 && b.most >= -1)) return top;
  if (b.least > 0 || b.most < 0) {
    int64_t q[4] = {a.least / b.least, a.least / b.most, a.most / b.least, a.most / b.most};
    Range x = range_int(q[0], q[0]);
    for (int i = 1; i < 4; i++) x = range_hull(x, range_int(q[i], q[i]));
    return a.least <= 0 && a.most >= 0 ? range_hull(x, range_int(0, 0)) : x;
  }
  int64_t m = MAX(-a.least, a.most);
  if (a.least >= 0 && b.least >= 0) return range_int(0, a.most);
  return range_int(-m, m);
}

static void of_div(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), b = range_at(r, n, 1);
  if (!a.kind || a.kind != b.kind) return;
  if (a.kind == RANGE_INT)
    out[0] = int_div(a, b, out[0]);
  else if (b.lo > 0 || b.hi < 0)
    out[0] = settle_float(r, n, float_arith(OP_div, a, b));
}

static void of_mod(Ranger *r, const Node *n, Range *out) {
  Range b = range_at(r, n, 1);
  if (b.kind == RANGE_INT && b.least > INT64_MIN) {
    out[0] = range_int(b.least < 0 ? b.least + 1 : 0, b.most > 0 ? b.most - 1 : 0);
  } else if (b.kind == RANGE_FLOAT && isfinite(b.lo) && isfinite(b.hi)) {
    out[0] = range_float(fmin(b.lo, 0), fmax(b.hi, 0));
  }
}

static void of_fmod(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), b = range_at(r, n, 1);
  if (!a.kind || a.kind != b.kind) return;
  if (a.kind == RANGE_INT) {  // of the dividend's sign, and no farther from 0
    out[0] = range_int(MIN(a.least, 0), MAX(a.most, 0));
  } else {
    out[0] = range_float(fmin(a.lo, 0), fmax(a.hi, 0));
  }
}

static void of_pow(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), b = range_at(r, n, 1);
  if (a.kind != RANGE_FLOAT || !b.kind) return;
  double p[4] = {pow(a.lo, b.lo), pow(a.lo, b.hi), pow(a.hi, b.lo), pow(a.hi, b.hi)};
  Range x = range_float(fmin(fmin(p[0], p[1]), fmin(p[2], p[3])),
                        fmax(fmax(p[0], p[1]), fmax(p[2], p[3])));
  bool even = b.lo == b.hi && fabs(b.lo) < 1e9 && fmod(b.lo, 2) == 0 && b.lo > 0;
  bool odd = b.lo == b.hi && fabs(b.lo) < 1e9 && fabs(fmod(b.lo, 2)) == 1 && b.lo > 0;
  if (even && a.lo <= 0 && a.hi >= 0) x.lo = 0;
  // Below 0 only whole exponents give numbers; near 0 negative exponents grow without bound.
  if (even || odd || a.lo > 0 || (a.lo == 0 && b.lo >= 0))
    out[0] = settle_float(r, n, x);
  else if (a.lo >= 0)
    out[0] = range_float(0, INFINITY);
}

static void of_min_max(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), b = range_at(r, n, 1);
  if (!a.kind || a.kind != b.kind) return;
  bool least = n->op == OP_min;
  if (a.kind == RANGE_INT)
    out[0] = least ? range_int(MIN(a.least, b.least), MIN(a.most, b.most))
                   : range_int(MAX(a.least, b.least), MAX(a.most, b.most));
  else
    out[0] = least ? range_float(fmin(a.lo, b.lo), fmin(a.hi, b.hi))
                   : range_float(fmax(a.lo, b.lo), fmax(a.hi, b.hi));
}

static void of_clip(Ranger *r, const Node *n, Range *out) {
  Range x = range_at(r, n, 0), lo = range_at(r, n, 1), hi = range_at(r, n, 2);
  if (!x.kind) return;
  if (lo.kind == x.kind)
    x = x.kind == RANGE_INT ? range_int(MAX(x.least, lo.least), MAX(x.most, lo.most))
                            : range_float(fmax(x.lo, lo.lo), fmax(x.hi, lo.hi));
  if (hi.kind == x.kind)
    x = x.kind == RANGE_INT ? range_int(MIN(x.least, hi.least), MIN(x.most, hi.most))
                            : range_float(fmin(x.lo, hi.lo), fmin(x.hi, hi.hi));
  out[0] = x;
}

static void of_bit_and(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), b = range_at(r, n, 1);
  if (a.kind != RANGE_INT || b.kind != RANGE_INT || (a.least < 0 && b.least < 0)) return;
  out[0] = range_int(0, a.least < 0 ? b.most : b.least < 0 ? a.most : MIN(a.most, b.most));
}

static void of_neg(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0);
  if (a.kind == RANGE_FLOAT) out[0] = range_float(-a.hi, -a.lo);
  if (a.kind == RANGE_INT) {
    Ends e = int_arith(OP_sub, range_int(0, 0), a);
    out[0] = settle_int(r, n, e);
  }
}

static void of_abs(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), top = out[0];
  if (a.kind == RANGE_FLOAT)
    out[0] = range_float(a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, fmax(fabs(a.lo), fabs(a.hi)));
  if (a.kind == RANGE_INT &&
      (a.least > top.least || a.least == 0))  // the least number has no counterpart
    out[0] = range_int(a.least > 0 ? a.least : a.most < 0 ? -a.most : 0, MAX(-a.least, a.most));
}

// ---- functions of one number, rising ----

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 700 ? x : log1p(exp(x)); }
static double softsign(double x) { return isinf(x) ? copysign(1, x) : x / (1 + fabs(x)); }
static double signum(double x) { return (x > 0) - (x < 0); }
static double relu(double x) { return x < 0 ? 0 : x; }
static double falling_acos(double x) { return -acos(x); }

typedef struct Rising {
  int op;
  double (*f)(double);
  double from, to;  // where it is defined
} Rising;
static const Rising rising[] = {
    {OP_exp, exp, -INFINITY, INFINITY},
    {OP_log, log, 0, INFINITY},
    {OP_sqrt, sqrt, 0, INFINITY},
    {OP_tanh, tanh, -INFINITY, INFINITY},
    {OP_erf, erf, -INFINITY, INFINITY},
    {OP_atan, atan, -INFINITY, INFINITY},
    {OP_asin, asin, -1, 1},
    {OP_acos, falling_acos, -1, 1},
    {OP_sinh, sinh, -INFINITY, INFINITY},
    {OP_asinh, asinh, -INFINITY, INFINITY},
    {OP_acosh, acosh, 1, INFINITY},
    {OP_atanh, atanh, -1, 1},
    {OP_sigmoid, sigmoid, -INFINITY, INFINITY},
    {OP_softplus, softplus, -INFINITY, INFINITY},
    {OP_softsign, softsign, -INFINITY, INFINITY},
    {OP_relu, relu, -INFINITY, INFINITY},
    {OP_ceil, ceil, -INFINITY, INFINITY},
    {OP_floor, floor, -INFINITY, INFINITY},
    {OP_round, nearbyint, -INFINITY, INFINITY},
    {OP_sign, signum, -INFINITY, INFINITY},
};

static void of_rising(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0);
  const Rising *row = rising, *end = rising + ARRAY_LEN(rising);
  while (row < end && row->op != n->op) row++;
  if (row == end) return;  // not known where it rises: any value of its type
  if (a.kind == RANGE_INT) {
    if (n->op == OP_relu) out[0] = range_int(MAX(a.least, 0), MAX(a.most, 0));
    if (n->op == OP_sign)
      out[0] = range_int(a.least > 0   ? 1
                         : a.least < 0 ? -1
                                       : 0,
                         a.most > 0   ? 1
                         : a.most < 0 ? -1
                                      : 0);
    if (n->op == OP_ceil || n->op == OP_floor) out[0] = a;
    return;
  }
  if (a.kind != RANGE_FLOAT) return;
  if (a.hi < row->from || a.lo > row->to) {
    ranger_report(r, FINDING_T0305, n, "the argument lies in %s", range_text(r->arena, a));
    return;
  }
  Range x = range_float(row->f(fmax(a.lo, row->from)), row->f(fmin(a.hi, row->to)));
  if (row->f == falling_acos) x = range_float(-x.hi, -x.lo);
  out[0] = settle_float(r, n, x);
}

static void of_wave(Ranger *r, const Node *n, Range *out) {
  (void)r;
  (void)n;
  if (out[0].kind == RANGE_FLOAT) out[0] = range_float(-1, 1);
}

static void of_cosh(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0);
  if (a.kind != RANGE_FLOAT) return;
  double far = cosh(fmax(fabs(a.lo), fabs(a.hi)));
  out[0] = settle_float(r, n, range_float(a.lo > 0 ? cosh(a.lo) : a.hi < 0 ? cosh(a.hi) : 1, far));
}

static void of_reciprocal(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0);
  if (a.kind == RANGE_FLOAT && (a.lo > 0 || a.hi < 0))
    out[0] = settle_float(r, n, range_float(1 / a.hi, 1 / a.lo));
}

// x sigmoid(x) and its relatives: their least value is at a place below 0; above they stay under x.
static void of_gate(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0);
  if (a.kind != RANGE_FLOAT) return;
  if (n->op == OP_swish && ((const swish_attrs *)n->attrs)->alpha != 1) return;
  double least = n->op == OP_gelu    ? -0.1701
                 : n->op == OP_swish ? -0.2785
                 : n->op == OP_mish  ? -0.3089
                                     : -0.375;
  out[0] = range_float(a.lo >= 0 ? 0 : round_to(type_of(n)->dtype, least), fmax(a.hi, 0));
}

static void of_unit(Ranger *r, const Node *n, Range *out) {
  (void)r;
  (void)n;
  if (out[0].kind == RANGE_FLOAT) out[0] = range_float(0, 1);
  if (out[0].kind == RANGE_INT) out[0] = range_int(0, 1);
}

static void of_below_zero(Ranger *r, const Node *n, Range *out) {
  (void)r;
  (void)n;
  if (out[0].kind == RANGE_FLOAT) out[0] = range_float(-INFINITY, 0);
}

// Straight above 0, another rising curve below: its bounds are at the ends.
static void of_bent(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0);
  if (a.kind != RANGE_FLOAT) return;
  double end[2] = {a.lo, a.hi};
  for (int i = 0; i < 2; i++) {
    double x = end[i];
    if (n->op == OP_leaky_relu) {
      double alpha = ((const leaky_relu_attrs *)n->attrs)->alpha;
      if (alpha < 0) return;
      end[i] = x < 0 ? alpha * x : x;
    } else if (n->op == OP_elu) {
      double alpha = ((const elu_attrs *)n->attrs)->alpha;
      if (alpha < 0) return;
      end[i] = x < 0 ? alpha * expm1(x) : x;
    } else if (n->op == OP_celu) {
      double alpha = ((const celu_attrs *)n->attrs)->alpha;
      if (alpha <= 0) return;
      end[i] = x < 0 ? alpha * expm1(x / alpha) : x;
    } else {
      const selu_attrs *at = n->attrs;
      if (at->alpha < 0 || at->gamma < 0) return;
      end[i] = at->gamma * (x < 0 ? at->alpha * expm1(x) : x);
    }
  }
  out[0] = settle_float(r, n, range_float(end[0], end[1]));
}

// ---- casts and quantisation ----

static void of_cast(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), top = out[0];
  DType to = type_of(n)->dtype, from = type_of(n->src[0])->dtype;
  if (!a.kind || !top.kind || to == DT_BOOL) return;
  if (from == DT_U64 && a.most == INT64_MAX) {  // no bound
    if (top.kind == RANGE_FLOAT) out[0] = range_float(round_to(to, a.lo), round_to(to, 0x1p64));
    return;
  }
  if (top.kind == RANGE_FLOAT) {
    out[0] = settle_float(r, n, range_float(a.lo, a.hi));
    return;
  }
  Range x = a;
  bool above, below, certain;
  if (a.kind == RANGE_FLOAT) {  // (double)INT64_MAX is 2^63, the first number beyond
    double most = top.most == INT64_MAX ? nextafter(0x1p63, 0) : top.hi;
    double lo = trunc(a.lo), hi = trunc(a.hi);
    above = hi > most, below = lo<top.lo, certain = lo> most || hi < top.lo;
    if (!above && !below) x = range_int((int64_t)lo, (int64_t)hi);
  } else {
    above = a.most > top.most, below = a.least < top.least;
    certain = a.least > top.most || a.most < top.least;
  }
  out[0] = above || below ? top : x;
  if (!(above || below) || to == DT_U64 || from == DT_U64) return;
  if (certain || range_is_bounded(a, from))
    ranger_report(r, certain ? FINDING_T0205 : FINDING_T0206, n,
                  "values in %s become %s, which holds %s", range_text(r->arena, a), dtype_name(to),
                  range_text(r->arena, top));
}

// Zero point and scale are constants as a rule, and the integers have the range of their type.
static void of_dequantize(Ranger *r, const Node *n, Range *out) {
  Range q = range_at(r, n, 0), s = range_at(r, n, 1), z = range_at(r, n, 2);
  if (!z.kind) z = q.kind == RANGE_INT ? range_int(0, 0) : range_float(0, 0);
  if (!q.kind || s.kind != RANGE_FLOAT || out[0].kind != RANGE_FLOAT) return;
  Range x = float_arith(OP_sub, range_float(q.lo, q.hi), range_float(z.lo, z.hi));
  out[0] = settle_float(r, n, float_arith(OP_mul, x, s));
}

static void of_dynamic_quantize(Ranger *r, const Node *n, Range *out) {
  (void)r;
  if (n->nres > 1 && out[1].kind == RANGE_FLOAT) out[1] = range_float(0, INFINITY);
}

// ---- movement and selection ----

static void of_first(Ranger *r, const Node *n, Range *out) { out[0] = range_at(r, n, 0); }

static void of_split(Ranger *r, const Node *n, Range *out) {
  for (int i = 0; i < n->nres; i++) out[i] = range_at(r, n, 0);
}

static void of_concat(Ranger *r, const Node *n, Range *out) {
  Range x = range_at(r, n, 0);
  for (uint32_t i = 1; i < n->nsrc; i++) x = range_hull(x, range_at(r, n, i));
  if (x.kind) out[0] = x;
}

static void of_where(Ranger *r, const Node *n, Range *out) {
  Range x = range_hull(range_at(r, n, 1), range_at(r, n, 2));
  if (x.kind) out[0] = x;
}

static void of_with_zero(Ranger *r, const Node *n, Range *out) {
  Range x = range_with_zero(range_at(r, n, 0));
  if (x.kind) out[0] = x;
}

static void of_pad(Ranger *r, const Node *n, Range *out) {
  Range x = range_at(r, n, 0), fill = range_at(r, n, 2);
  if (((const pad_attrs *)n->attrs)->mode == PAD_CONSTANT)
    x = fill.kind ? range_hull(x, fill) : range_with_zero(x);
  if (x.kind) out[0] = x;
}

static void of_scatter(Ranger *r, const Node *n, Range *out) {
  int mode = n->op == OP_scatter_nd ? ((const scatter_nd_attrs *)n->attrs)->reduction
                                    : ((const scatter_elements_attrs *)n->attrs)->reduction;
  Range x = range_hull(range_at(r, n, 0), range_at(r, n, 2));
  if (x.kind && (mode == SCATTER_NONE || mode == SCATTER_MIN || mode == SCATTER_MAX)) out[0] = x;
}

static void of_one_hot(Ranger *r, const Node *n, Range *out) {
  if (range_at(r, n, 2).kind) out[0] = range_at(r, n, 2);
}

static void of_constant_of_shape(Ranger *r, const Node *n, Range *out) {
  Range v = range_at(r, n, 1);
  if (v.kind)
    out[0] = v;
  else if (n->nsrc < 2)
    out[0] = out[0].kind == RANGE_INT ? range_int(0, 0) : range_float(0, 0);
}

static void of_range(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0), b = range_at(r, n, 1);
  if (a.kind && range_hull(a, b).kind) out[0] = range_hull(a, b);
}

static void of_uniform(Ranger *r, const Node *n, Range *out) {
  (void)r;
  double lo, hi;
  if (n->op == OP_random_uniform) {
    lo = ((const random_uniform_attrs *)n->attrs)->low;
    hi = ((const random_uniform_attrs *)n->attrs)->high;
  } else {
    lo = ((const random_uniform_like_attrs *)n->attrs)->low;
    hi = ((const random_uniform_like_attrs *)n->attrs)->high;
  }
  if (out[0].kind == RANGE_FLOAT && lo <= hi)
    out[0] = range_float(round_to(type_of(n)->dtype, lo), round_to(type_of(n)->dtype, hi));
}

// Positions along an axis of a value.
static Range positions(const Type *t, int64_t axis) {
  int64_t most = INT64_MAX;
  if (t->kind == TK_TENSOR && t->rank > 0) {
    axis += axis < 0 ? t->rank : 0;
    if (axis >= 0 && axis < t->rank && t->dims[axis]->hi < INT64_MAX)
      most = MAX(t->dims[axis]->hi - 1, 0);
  }
  return range_int(0, most);
}

static void of_arg(Ranger *r, const Node *n, Range *out) {
  (void)r;
  out[0] = positions(type_of(n->src[0]), ((const arg_attrs *)n->attrs)->axis);
}

static void of_top_k(Ranger *r, const Node *n, Range *out) {
  out[0] = range_at(r, n, 0);
  if (n->nres > 1) out[1] = positions(type_of(n->src[0]), ((const top_k_attrs *)n->attrs)->axis);
}

static void of_sizes(Ranger *r, const Node *n, Range *out) {
  (void)r;
  (void)n;
  if (out[0].kind == RANGE_INT) out[0] = range_int(0, INT64_MAX);
}

static void of_resize(Ranger *r, const Node *n, Range *out) {
  const resize_attrs *at = n->attrs;
  Range x = range_at(r, n, 0);
  if (at->mode == RESIZE_CUBIC || x.kind != RANGE_FLOAT) return;
  if (at->coordinate_transformation_mode == RESIZE_TF_CROP)
    x = range_hull(x, range_float(at->extrapolation_value, at->extrapolation_value));
  out[0] = x;
}

static void of_grid_sample(Ranger *r, const Node *n, Range *out) {
  Range x = range_with_zero(range_at(r, n, 0));
  if (((const grid_sample_attrs *)n->attrs)->mode != SAMPLE_CUBIC && x.kind == RANGE_FLOAT)
    out[0] = x;
}

static void of_max_pool(Ranger *r, const Node *n, Range *out) { out[0] = range_at(r, n, 0); }

static void of_attention(Ranger *r, const Node *n, Range *out) {
  Range v = range_at(r, n, 2);  // a weighted mean of values; past ones are given as operand 5
  if (n->nsrc > 5 && n->src[5] != r->g->none) v = range_hull(v, range_at(r, n, 5));
  if (v.kind == RANGE_FLOAT) out[0] = range_with_zero(v);
}

// ---- reductions ----

// Elements that one result element is made of; 0 when not known.
static double reduced(Ranger *r, const Node *n) {
  const Type *in = type_of(n->src[0]), *to = type_of(n);
  if (in->kind != TK_TENSOR || in->rank < 0 || to->rank < 0) return 0;
  Dim a = type_numel(r->g, in), b = type_numel(r->g, to);
  Dim k = ie_is(b, 0) ? a : ie_div(&r->g->dims, a, b);
  return ie_is_const(k) ? (double)k->value : 0;
}

// sum(exp(x - max(x))) over the same axes, as of a decomposed softmax: one summand is exp(0).
static bool has_exp_of_zero(const Node *n) {
  const Node *e = n->src[0], *d = e->op == OP_exp ? e->src[0] : NULL;
  const Node *m = d && d->op == OP_sub ? d->src[1] : NULL;
  if (!m || m->op != OP_reduce_max || m->src[0] != d->src[0] || m->nsrc != n->nsrc) return false;
  return n->nsrc < 2 || m->src[1] == n->src[1];
}

static void of_reduce(Ranger *r, const Node *n, Range *out) {
  Range a = range_at(r, n, 0);
  if (a.kind != RANGE_FLOAT) return;
  double k = reduced(r, n), far = fmax(fabs(a.lo), fabs(a.hi));
  double near = a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0;
  double most = k > 0 ? k : INFINITY, least = k > 0 ? k : 1;
  Range x = range_float(-INFINITY, INFINITY);
  switch (n->op) {
  case OP_reduce_sum:
    x.lo = a.lo >= 0 ? least * a.lo : a.lo * most;
    x.hi = a.hi <= 0 ? least * a.hi : a.hi * most;
    if (has_exp_of_zero(n)) x.lo = fmax(x.lo, 1);
    break;
  case OP_reduce_l1: x = range_float(least * near, far > 0 ? most * far : 0); break;
  case OP_reduce_l2: x = range_float(sqrt(least) * near, far > 0 ? sqrt(most) * far : 0); break;
  case OP_reduce_sum_square:
    x = range_float(least * near * near, far > 0 ? most * far * far : 0);
    break;
  case OP_reduce_log_sum_exp: x = range_float(a.lo, a.hi + log(most)); break;
  case OP_reduce_prod:
    if (a.lo >= 0) x = range_float(a.lo >= 1 ? a.lo : 0, a.hi <= 1 ? a.hi : INFINITY);
    break;
  default: return;
  }
  out[0] = k > 0 ? settle_float(r, n, x) : range_float(x.lo, x.hi);
}

static void of_positive(Ranger *r, const Node *n, Range *out) {
  (void)r;
  (void)n;
  if (out[0].kind == RANGE_FLOAT) out[0] = range_float(0, INFINITY);
}

static void of_lp_norm(Ranger *r, const Node *n, Range *out) {
  (void)r;
  (void)n;
  if (out[0].kind == RANGE_FLOAT) out[0] = range_float(-1, 1);
}

// States of the usual cells lie in [-1, 1]: a gate times a tanh, or a mean of a tanh and the state
// before.
static void of_recurrent(Ranger *r, const Node *n, Range *out) {
  const Strs *acts = n->op == OP_lstm  ? &((const lstm_attrs *)n->attrs)->activations
                     : n->op == OP_gru ? &((const gru_attrs *)n->attrs)->activations
                                       : &((const rnn_attrs *)n->attrs)->activations;
  Range unit = range_float(-1, 1), first = range_at(r, n, 5);
  if (acts->n || out[0].kind != RANGE_FLOAT) return;
  if (first.kind) unit = range_hull(unit, first);
  for (int i = 0; i < MIN(n->nres, 2); i++) out[i] = unit;
}

// ---- bodies ----

static void give_params(Ranger *r, const Body *b, const Node *n, int64_t first, int64_t from) {
  for (int64_t i = from; i < b->nparams; i++) {
    Range x = range_at(r, n, (uint32_t)(first + i - from));
    if (x.kind) r->an->range[b->param[i]->id] = x;
  }
}

static void enter(Ranger *r, const Body *b, bool sure) {
  enum { BODY_DEPTH = 64 };
  bool was = r->sure;
  if (r->depth >= BODY_DEPTH) return;
  r->sure = was && sure;
  r->depth++;
  range_body(r, b);
  r->depth--;
  r->sure = was;
}

static void of_fused(Ranger *r, const Node *n, Range *out) {
  const Body *b = ((const fused_attrs *)n->attrs)->body;
  give_params(r, b, n, 0, 0);
  enter(r, b, true);
  for (int i = 0; i < n->nres; i++) out[i] = r->an->range[b->result[i]->id];
}

static void of_if(Ranger *r, const Node *n, Range *out) {
  const if_attrs *at = n->attrs;
  give_params(r, at->then_branch, n, 1, 0);
  enter(r, at->then_branch, false);
  give_params(r, at->else_branch, n, 1 + at->then_captures, 0);
  enter(r, at->else_branch, false);
  for (int i = 0; i < n->nres; i++) {
    Range x = range_hull(r->an->range[at->then_branch->result[i]->id],
                         r->an->range[at->else_branch->result[i]->id]);
    if (x.kind) out[i] = x;
  }
}

// What is carried from round to round may have any value; what is captured has its own.
static void of_loop(Ranger *r, const Node *n, Range *out) {
  (void)out;
  const Body *b = n->op == OP_loop   ? ((const loop_attrs *)n->attrs)->body
                  : n->op == OP_scan ? ((const scan_attrs *)n->attrs)->body
                                     : ((const sequence_map_attrs *)n->attrs)->body;
  int64_t captures = n->op == OP_loop   ? ((const loop_attrs *)n->attrs)->captures
                     : n->op == OP_scan ? ((const scan_attrs *)n->attrs)->captures
                                        : ((const sequence_map_attrs *)n->attrs)->captures;
  if (!b || captures < 0 || captures > (int64_t)n->nsrc || captures > b->nparams) return;
  give_params(r, b, n, (int64_t)n->nsrc - captures, b->nparams - captures);
  enter(r, b, false);
}

// ---- the table ----

static RangeFn *const range_rule[] = {NULL,
#define X(name) of_##name,
                                      RANGE_RULES(X)
#undef X
};

// Contents that are known as expressions: each has a range of its own.
static Range of_symbols(const Node *n) {
  Range x = range_int(n->sym[0]->lo, n->sym[0]->hi);
  for (int64_t i = 1; i < n->nsym; i++) x = range_hull(x, range_int(n->sym[i]->lo, n->sym[i]->hi));
  return x;
}

void range_node(Ranger *r, const Node *n, Range *out) {
  for (int i = 0; i < n->nres; i++) out[i] = range_type(n->type[i]);
  Range top = out[0], contents;
  int64_t nan;
  const OpInfo *op = op_info(n->op);
  if (op->range && (top.kind || op->flags & OPF_CONTROL)) range_rule[op->range](r, n, out);
  for (int i = 0; i < n->nres; i++) {
    Range t = range_type(n->type[i]);
    if (out[i].kind != t.kind) out[i] = t;
  }
  if (n->nres != 1 || !top.kind) return;
  if (n->nsym > 0 && n->sym && top.kind == RANGE_INT && !n->known) {
    Range x = of_symbols(n);
    if (x.least >= top.least && x.most <= top.most) out[0] = x;
  } else if (range_contents(r, n, &contents, &nan)) {
    out[0] = contents;
  }
}
