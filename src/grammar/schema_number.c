// schema_number.c -- numbers within bounds, and multiples of whole numbers.
//
// A bound is its decimal digits; numbers at least or at most that large are told apart digit by
// digit.  Bounds, multiples and the general form of numbers are cut with one another.  Numbers have
// few enough digits that no two of them are read as one double.
#include "grammar/schema.h"

#include <math.h>
#include <stdlib.h>

enum {
  INTEGER_DIGITS = 18,
  NUMBER_DIGITS = 15,
  FRACTION_DIGITS = 6,
  DIGITS = 400,
  MULTIPLE = 1000
};

// A magnitude: digits before and behind the point, without leading or trailing zeros.
typedef struct Decimal {
  char whole[DIGITS], part[DIGITS];
  int nwhole, npart;
} Decimal;

NumberRange flat_range(const Goal *g) {
  NumberRange r = {-INFINITY, INFINITY, false, false};
  static const char *const keys[] = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"};
  for (int64_t i = 0; i < g->n; i++)
    for (int k = 0; k < 4; k++) {
      const Json *v = json_get(g->v[i], keys[k]);
      if (!v) continue;
      if (k < 2 && (v->f > r.lo || (v->f == r.lo && k == 1))) r.lo = v->f, r.over = k == 1;
      if (k >= 2 && (v->f < r.hi || (v->f == r.hi && k == 3))) r.hi = v->f, r.under = k == 3;
    }
  return r;
}

// The shortest decimal of a finite magnitude.
static void decimal_of(double v, Decimal *out) {
  char text[32], digits[32];
  int n = json_number(fabs(v), false, text, sizeof text), count = 0, point = -1, shift = 0;
  for (int i = 0; i < n; i++) {
    if (text[i] >= '0' && text[i] <= '9') digits[count++] = text[i];
    if (text[i] == '.') point = count;
    if (text[i] == 'e' || text[i] == 'E') {
      shift = (int)strtol(text + i + 1, NULL, 10);
      break;
    }
  }
  if (point < 0) point = count;
  point += shift;
  *out = (Decimal){.nwhole = 0};
  for (int i = MIN(0, point); i < MAX(count, point); i++) {
    char c = i >= 0 && i < count ? digits[i] : '0';
    if (i < point) {
      if ((c != '0' || out->nwhole) && out->nwhole < DIGITS) out->whole[out->nwhole++] = c;
    } else if (out->npart < DIGITS) {
      out->part[out->npart++] = c;
    }
  }
  while (out->npart && out->part[out->npart - 1] == '0') out->npart--;
}

static const Expr *digit(Build *b, char lo, char hi) {
  UnicodeRange r = {(uint32_t)lo, (uint32_t)hi};
  return lo > hi ? expr_new(b, E_NEVER) : expr_set(b, &r, 1, false);
}
static const Expr *digits(Build *b, int64_t least, int64_t most) {
  return expr_repeat(b, digit(b, '0', '9'), least, most);
}
static const Expr *text(Build *b, const char *p, int n) {
  return expr_bytes(b, (Str){arena_dup(b->a, p, n), n});
}
static const Expr *maybe_part(Build *b) {
  return expr_repeat(b, expr_seq(b, expr_z(b, "."), digits(b, 1, -1)), 0, 1);
}
// No digits at all is 0.
static const Expr *whole_prefix(Build *b, const Decimal *d, int n) {
  return d->nwhole ? text(b, d->whole, n) : expr_z(b, "0");
}

// What stands behind the point where the whole parts are equal.
static const Expr *part_above(Build *b, const Decimal *d, bool strict) {
  VEC(const Expr *) any = {0};
  const Expr *x, *zeros = expr_repeat(b, expr_z(b, "0"), 0, -1);
  for (int i = 0; i < d->npart; i++) {
    x = expr_seq(b, expr_z(b, "."), text(b, d->part, i), digit(b, (char)(d->part[i] + 1), '9'),
                 digits(b, 0, -1));
    vec_push(b->a, &any, x);
  }
  const Expr *more = expr_seq(b, zeros, digit(b, '1', '9'), digits(b, 0, -1));
  x = expr_seq(b, expr_z(b, "."), text(b, d->part, d->npart), more);
  vec_push(b->a, &any, x);
  if (!strict) {
    x = d->npart ? expr_seq(b, expr_z(b, "."), text(b, d->part, d->npart), zeros)
                 : expr_repeat(
                       b, expr_seq(b, expr_z(b, "."), expr_repeat(b, expr_z(b, "0"), 1, -1)), 0, 1);
    vec_push(b->a, &any, x);
  }
  return expr_list(b, E_ALT, any.v, any.n);
}

static const Expr *part_below(Build *b, const Decimal *d, bool strict) {
  VEC(const Expr *) any = {0};
  const Expr *x, *zeros = expr_repeat(b, expr_z(b, "0"), 0, -1);
  const Expr *none =
      expr_repeat(b, expr_seq(b, expr_z(b, "."), expr_repeat(b, expr_z(b, "0"), 1, -1)), 0, 1);
  for (int i = 0; i < d->npart; i++) {
    x = expr_seq(b, expr_z(b, "."), text(b, d->part, i), digit(b, '0', (char)(d->part[i] - 1)),
                 digits(b, 0, -1));
    vec_push(b->a, &any, x);
    // The same digits, and no more: smaller, as what is left out is not 0.
    if (i) {
      x = expr_seq(b, expr_z(b, "."), text(b, d->part, i));
      vec_push(b->a, &any, x);
    }
  }
  if (d->npart) vec_push(b->a, &any, none);
  if (!strict) {
    x = d->npart ? expr_seq(b, expr_z(b, "."), text(b, d->part, d->npart), zeros) : none;
    vec_push(b->a, &any, x);
  }
  return expr_list(b, E_ALT, any.v, any.n);
}

static const Expr *magnitude_above(Build *b, const Decimal *d, bool strict) {
  VEC(const Expr *) any = {0};
  const Expr *x = expr_seq(b, digit(b, '1', '9'), digits(b, MAX(d->nwhole, 0), -1), maybe_part(b));
  if (!d->nwhole) x = expr_seq(b, digit(b, '1', '9'), digits(b, 0, -1), maybe_part(b));
  vec_push(b->a, &any, x);
  for (int i = 0; i < d->nwhole; i++) {
    x = expr_seq(b, text(b, d->whole, i), digit(b, (char)(d->whole[i] + 1), '9'),
                 digits(b, d->nwhole - i - 1, d->nwhole - i - 1), maybe_part(b));
    vec_push(b->a, &any, x);
  }
  x = expr_seq(b, whole_prefix(b, d, d->nwhole), part_above(b, d, strict));
  vec_push(b->a, &any, x);
  return expr_list(b, E_ALT, any.v, any.n);
}

static const Expr *magnitude_below(Build *b, const Decimal *d, bool strict) {
  VEC(const Expr *) any = {0};
  const Expr *x;
  if (d->nwhole) {
    x = expr_seq(b, expr_z(b, "0"), maybe_part(b));
    vec_push(b->a, &any, x);
  }
  if (d->nwhole > 1) {
    x = expr_seq(b, digit(b, '1', '9'), digits(b, 0, d->nwhole - 2), maybe_part(b));
    vec_push(b->a, &any, x);
  }
  for (int i = 0; i < d->nwhole; i++) {
    x = expr_seq(b, text(b, d->whole, i), digit(b, i ? '0' : '1', (char)(d->whole[i] - 1)),
                 digits(b, d->nwhole - i - 1, d->nwhole - i - 1), maybe_part(b));
    vec_push(b->a, &any, x);
  }
  x = expr_seq(b, whole_prefix(b, d, d->nwhole), part_below(b, d, strict));
  vec_push(b->a, &any, x);
  return expr_list(b, E_ALT, any.v, any.n);
}

static const Expr *above(Build *b, double v, bool strict) {
  static const Decimal zero;
  Decimal d;
  decimal_of(v, &d);
  if (v > 0) return magnitude_above(b, &d, strict);
  const Expr *positive = magnitude_above(b, &zero, strict && v == 0);
  if (v == 0) return positive;
  return expr_alt(b, positive, expr_seq(b, expr_z(b, "-"), magnitude_below(b, &d, strict)));
}

static const Expr *below(Build *b, double v, bool strict) {
  static const Decimal zero;
  Decimal d;
  decimal_of(v, &d);
  const Expr *minus = expr_z(b, "-");
  if (v < 0) return expr_seq(b, minus, magnitude_above(b, &d, strict));
  const Expr *negative = expr_seq(b, minus, magnitude_above(b, &zero, true));
  return expr_alt(b, negative, magnitude_below(b, &d, strict));
}

// Digits from the left give the remainder; node 2 + r is where the remainder so far is r.
static const Expr *multiple_of(Build *b, int64_t m) {
  VEC(GraphArc) arcs = {0};
  const Expr *digit_of[10];
  for (int d = 0; d < 10; d++) digit_of[d] = digit(b, (char)('0' + d), (char)('0' + d));
  GraphArc begin = {0, 2, expr_repeat(b, expr_z(b, "-"), 0, 1)};
  vec_push(b->a, &arcs, begin);
  for (int64_t r = 0; r < m; r++)
    for (int d = 0; d < 10; d++) {
      GraphArc a = {(int32_t)(2 + r), (int32_t)(2 + (10 * r + d) % m), digit_of[d]};
      vec_push(b->a, &arcs, a);
    }
  GraphArc end = {2, 1, expr_z(b, "")};
  vec_push(b->a, &arcs, end);
  Expr *x = expr_new(b, E_GRAPH);
  x->arc = arcs.v;
  x->n = arcs.n;
  x->nodes = (int32_t)m + 2;
  return x;
}

static tenon_status find_multiple(Schema *s, const Goal *g, int64_t *out) {
  *out = 1;
  for (int64_t i = 0; i < g->n; i++) {
    const Json *v = json_get(g->v[i], "multipleOf");
    if (!v) continue;
    if (v->f <= 0) return schema_fail(s, TENON_EINVAL, g->v[i], "multipleOf", "it is not above 0");
    if (v->f != floor(v->f) || v->f > MULTIPLE)
      return schema_fail(s, TENON_EUNSUPPORTED, g->v[i], "multipleOf",
                         "only whole numbers up to 1000 are supported");
    int64_t m = (int64_t)v->f;
    *out = *out / gcd_i64(*out, m) * m;
    if (*out > MULTIPLE)
      return schema_fail(s, TENON_EUNSUPPORTED, g->v[i], "multipleOf",
                         "only whole numbers up to 1000 are supported");
  }
  return TENON_OK;
}

tenon_status flat_number(Schema *s, const Goal *g, bool integer, const Expr **out) {
  Build *b = s->b;
  NumberRange r = flat_range(g);
  int64_t m;
  TRY(find_multiple(s, g, &m));
  integer |= flat_has(g, "multipleOf");
  bool bound = r.lo > -INFINITY || r.hi < INFINITY;
  if (!bound && m == 1) {
    *out = integer ? form_integer(b) : form_number(b);
    return TENON_OK;
  }
  double far = integer ? 1e18 : 1e9;
  double huge = MAX(r.lo > -INFINITY ? fabs(r.lo) : 0, r.hi < INFINITY ? fabs(r.hi) : 0);
  // Numbers near a large bound have no fraction, so that all their digits count.
  int64_t whole = integer       ? INTEGER_DIGITS
                  : huge >= far ? NUMBER_DIGITS
                                : NUMBER_DIGITS - FRACTION_DIGITS;
  const Expr *x = expr_seq(
      b, expr_repeat(b, expr_z(b, "-"), 0, 1),
      expr_alt(b, expr_z(b, "0"), expr_seq(b, digit(b, '1', '9'), digits(b, 0, whole - 1))));
  if (!integer && huge < far)
    x = expr_seq(b, x,
                 expr_repeat(b, expr_seq(b, expr_z(b, "."), digits(b, 1, FRACTION_DIGITS)), 0, 1));
  if (r.lo > -1e30 || r.over) x = expr_pair(b, E_AND, x, above(b, r.lo, r.over));
  if (r.hi < 1e30 || r.under) x = expr_pair(b, E_AND, x, below(b, r.hi, r.under));
  if (m > 1) x = expr_pair(b, E_AND, x, multiple_of(b, m));
  *out = x;
  return TENON_OK;
}
