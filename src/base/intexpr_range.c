// intexpr_range.c -- ranges of integer expressions, comparison, and evaluation.
//
// Intervals saturate: INT64_MIN as a lower and INT64_MAX as an upper bound mean unbounded.  A bound
// that leaves int64 on the wrong side (a lower bound too large) is pulled inside, which only widens
// the interval.  Ranges hold wherever the expression has a value, so a divisor's range leaves 0
// out.
//
// Guarantees: an answer of YES or NO is right for every binding within the symbols' ranges.
#include "base/intexpr_impl.h"

// ---- intervals ----
typedef struct Range {
  int64_t lo, hi;
} Range;

void range_fix(int64_t *lo, int64_t *hi) {
  if (*lo == INT64_MAX) *lo = INT64_MAX - 1;
  if (*hi == INT64_MIN) *hi = INT64_MIN + 1;
}

static int64_t bound_add(int64_t a, int64_t b) {
  int64_t sum;
  if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
  if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
  if (ck_add(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t bound_mul(int64_t a, int64_t b) {
  int64_t product;
  if (a == 0 || b == 0) return 0;
  int64_t far = (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  if (a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX) return far;
  return ck_mul(a, b, &product) ? product : far;
}

static Range range_add(Range a, Range b) {
  Range r = {bound_add(a.lo, b.lo), bound_add(a.hi, b.hi)};
  range_fix(&r.lo, &r.hi);
  return r;
}

static Range range_mul(Range a, Range b) {
  int64_t w = bound_mul(a.lo, b.lo), x = bound_mul(a.lo, b.hi);
  int64_t y = bound_mul(a.hi, b.lo), z = bound_mul(a.hi, b.hi);
  Range r = {MIN(MIN(w, x), MIN(y, z)), MAX(MAX(w, x), MAX(y, z))};
  range_fix(&r.lo, &r.hi);
  return r;
}

void range_poly(const IntTerm *t, int n, int64_t *lo, int64_t *hi) {
  Range sum = {0, 0};
  for (int i = 0; i < n; i++) {
    Range product = {t[i].coef, t[i].coef};
    range_fix(&product.lo, &product.hi);
    for (int j = 0; j < t[i].natoms; j++)
      product = range_mul(product, (Range){t[i].atom[j]->lo, t[i].atom[j]->hi});
    sum = range_add(sum, product);
  }
  *lo = sum.lo;
  *hi = sum.hi;
}

// Of floor(x/y), x at a bound of the dividend; y in [lo, hi] with lo > 0.  `down` asks for the
// least.
static int64_t quotient_bound(int64_t x, int64_t lo, int64_t hi, bool down) {
  if (x == INT64_MIN || x == INT64_MAX) return x;
  bool near_zero = (x >= 0) == down;
  if (!near_zero) return floor_div(x, lo);
  if (hi == INT64_MAX) return x < 0 ? -1 : 0;
  return floor_div(x, hi);
}

static Range range_div(Dim a, Dim b) {
  if (b->lo < 0) return (Range){INT64_MIN, INT64_MAX};
  int64_t lo = MAX(b->lo, 1), hi = MAX(b->hi, 1);
  return (Range){quotient_bound(a->lo, lo, hi, true), quotient_bound(a->hi, lo, hi, false)};
}

static Range range_mod(Dim a, Dim b) {
  if (b->lo < 0) return (Range){INT64_MIN, INT64_MAX};
  Range r = {0, b->hi == INT64_MAX ? INT64_MAX : MAX(b->hi, 1) - 1};
  if (a->lo >= 0) r.hi = MIN(r.hi, a->hi);
  return r;
}

void range_pair(IntExprKind kind, Dim a, Dim b, int64_t *lo, int64_t *hi) {
  Range r = {INT64_MIN, INT64_MAX};
  if (kind == IE_DIV) r = range_div(a, b);
  if (kind == IE_MOD) r = range_mod(a, b);
  if (kind == IE_MIN) r = (Range){MIN(a->lo, b->lo), MIN(a->hi, b->hi)};
  if (kind == IE_MAX) r = (Range){MAX(a->lo, b->lo), MAX(a->hi, b->hi)};
  if (kind == IE_BCAST) r = (Range){MIN(a->lo, b->lo), MAX(a->hi, b->hi)};
  range_fix(&r.lo, &r.hi);
  *lo = r.lo;
  *hi = r.hi;
}

// ---- comparison ----
static int64_t bound_negate(int64_t x) {
  return x == INT64_MIN ? INT64_MAX : x == INT64_MAX ? INT64_MIN : -x;
}

// Like terms cancel before the ranges are added up; where a coefficient does not fit, they do not.
void range_diff(Dim a, Dim b, int64_t *lo, int64_t *hi) {
  Poly d;
  Range diff = {bound_negate(b->hi), bound_negate(b->lo)};
  range_fix(&diff.lo, &diff.hi);
  diff = range_add((Range){a->lo, a->hi}, diff);
  *lo = diff.lo;
  *hi = diff.hi;
  if (poly_add(&d, a, -1, b)) range_poly(d.t, d.n, lo, hi);
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

// Whether the divisors forbid 0: 2*a - 4*b + 1 is odd.
static bool never_zero(const Poly *d) {
  if (d->n == 0 || d->t[0].natoms > 0) return false;
  uint64_t g = 0;
  for (int i = 1; i < d->n; i++) {
    uint64_t x = magnitude(d->t[i].coef);
    while (x) {
      uint64_t r = g % x;
      g = x;
      x = r;
    }
  }
  return g == 0 || magnitude(d->t[0].coef) % g != 0;
}

Answer ie_eq(IntPool *p, Dim a, Dim b) {
  (void)p;
  if (ie_is_poison(a) || ie_is_poison(b)) return UNKNOWN;
  if (a == b) return YES;
  if (ie_is_const(a) && ie_is_const(b)) return NO;
  int64_t lo, hi;
  range_diff(a, b, &lo, &hi);
  if (lo > 0 || hi < 0) return NO;
  Poly d;
  return poly_add(&d, a, -1, b) && never_zero(&d) ? NO : UNKNOWN;
}

Answer ie_lt(IntPool *p, Dim a, Dim b) {
  (void)p;
  int64_t lo, hi;
  if (ie_is_poison(a) || ie_is_poison(b)) return UNKNOWN;
  if (ie_is_const(a) && ie_is_const(b)) return a->value < b->value ? YES : NO;
  range_diff(a, b, &lo, &hi);
  return hi < 0 ? YES : lo >= 0 ? NO : UNKNOWN;
}

// ---- evaluation ----
typedef struct Binding {
  const int64_t *value;
  const bool *bound;
  int32_t n;
} Binding;

static bool eval(Dim e, const Binding *at, int64_t *out);

// Factors other than 0 never shrink a product, so one that is past 2^63 stays out of range.
static bool eval_term(const IntTerm *t, const Binding *at, __int128 *out) {
  __int128 product = t->coef, limit = (__int128)1 << 63;
  bool zero = false, fits = true;
  for (int i = 0; i < t->natoms; i++) {
    int64_t v;
    if (!eval(t->atom[i], at, &v)) return false;
    zero |= v == 0;
    if (fits) product *= v;
    fits &= product >= -limit && product <= limit;
  }
  *out = zero ? 0 : product;
  return zero || fits;
}

static bool eval_sum(Dim e, const Binding *at, int64_t *out) {
  __int128 sum = 0, term;
  for (int i = 0; i < e->nterms; i++) {
    if (!eval_term(&e->term[i], at, &term)) return false;
    sum += term;
  }
  *out = (int64_t)sum;
  return *out == sum;
}

bool floor_divide(int64_t a, int64_t b, bool mod, int64_t *out) {
  if (b == 0) return false;
  if (b == -1) {  // INT64_MIN / -1 traps
    *out = 0;
    return mod || ck_sub(0, a, out);
  }
  int64_t q = a / b, r = a % b;
  bool past = r != 0 && (r < 0) != (b < 0);
  *out = mod ? r + (past ? b : 0) : q - past;
  return true;
}

static bool eval(Dim e, const Binding *at, int64_t *out) {
  int64_t a, b;
  if (e->kind == IE_CONST) {
    *out = e->value;
    return true;
  }
  if (e->kind == IE_SYM) {
    if (e->slot >= at->n || !at->bound[e->slot]) return false;
    *out = at->value[e->slot];
    return true;
  }
  if (e->kind == IE_SUM) return eval_sum(e, at, out);
  if (e->kind == IE_POISON || !eval(e->a, at, &a) || !eval(e->b, at, &b)) return false;
  if (e->kind == IE_DIV || e->kind == IE_MOD) return floor_divide(a, b, e->kind == IE_MOD, out);
  if (e->kind == IE_MIN) *out = MIN(a, b);
  if (e->kind == IE_MAX) *out = MAX(a, b);
  if (e->kind == IE_BCAST) *out = a == 1 ? b : a;
  return true;
}

bool ie_eval(Dim a, const int64_t *bind, const bool *bound, int32_t nbind, int64_t *out) {
  Binding at = {bind, bound, nbind};
  int64_t v = 0;
  bool known = eval(a, &at, &v);
  *out = known ? v : 0;
  return known;
}
