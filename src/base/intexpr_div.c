// intexpr_div.c -- floor division, remainder, minimum, maximum and broadcast of integer
// expressions.
//
// Each constructor folds what it can and makes an opaque atom of the rest.  What is left is a fixed
// point: giving an atom's operands to its constructor gives the atom back, which printing and
// parsing rely on.
//
// Division by a monomial b, made positive first:
//   a = q*b + r                 floor(a/b) = q + floor(r/b), mod(a, b) = mod(r, b)
//   r and b share a factor g    floor(g*x / g*m) = floor(x/m), mod(g*x, g*m) = g*mod(x, m)
//   b = k, a constant           floor((floor(x/m) + c)/k) = floor((x + c*m)/(m*k))
//   0 <= r < b                  floor(r/b) = 0, mod(r, b) = r
//   -b <= r < 0                 floor(r/b) = -1, mod(r, b) = r + b
// The constant of r is kept in [0, k), so floor((h - 1)/2) + 1 and floor((h + 1)/2) are one
// expression.  By a sum of several terms only an exact quotient cancels, found by polynomial long
// division.
#include "base/intexpr_impl.h"

enum { MAX_QUOTIENT = 64 };  // terms of a quotient by a sum: each step of the division is interned

static Dim negate(IntPool *p, Dim a) { return ie_sub(p, p->zero, a); }

// ---- monomials ----
// t / d as atoms; false when d's are not all among t's.
static bool take_atoms(const IntTerm *t, int nd, const Dim *d, Dim *out, int *out_n) {
  int j = 0, n = 0;
  for (int i = 0; i < t->natoms; i++) {
    if (j < nd && t->atom[i] == d[j])
      j++;
    else
      out[n++] = t->atom[i];
  }
  *out_n = n;
  return j == nd;
}

static int64_t count_atoms(Dim e) {
  int64_t n = 0;
  for (int i = 0; i < e->nterms; i++) n += e->term[i].natoms;
  return n;
}

// a = q*b + r.  A remainder's coefficient is below b's in magnitude; where the quotient would be a
// constant it is not negative either.
static void split(IntPool *p, Dim a, const IntTerm *b, Dim *q, Dim *r) {
  Poly quotient, rest;
  quotient.n = rest.n = 0;
  Dim *atom = intpool_scratch(p, count_atoms(a));
  for (int i = 0; i < a->nterms; i++) {
    IntTerm t = a->term[i];
    int n;
    if (take_atoms(&t, b->natoms, b->atom, atom, &n)) {
      int64_t c = n ? t.coef / b->coef : floor_div(t.coef, b->coef);
      t.coef = n ? t.coef % b->coef : floor_mod(t.coef, b->coef);
      if (c) poly_push(&quotient, (IntTerm){c, n, atom});
      atom += n;
    }
    if (t.coef) poly_push(&rest, t);
  }
  *q = intern_poly(p, &quotient);
  *r = intern_poly(p, &rest);
}

typedef struct Factor {
  int64_t coef;
  int n;
  Dim atom[IE_MAX_ATOMS];
} Factor;

static void intersect(Factor *f, const IntTerm *t) {
  int n = 0, i = 0, j = 0;
  while (i < f->n && j < t->natoms) {
    int c = ie_order(f->atom[i], t->atom[j]);
    if (c == 0) f->atom[n++] = f->atom[i];
    i += c <= 0;
    j += c >= 0;
  }
  f->n = n;
}

// The largest monomial in every term of r and in b.  Against a constant b the constant of r does
// not count: floor((g*x + c)/(g*m)) = floor((x + floor(c/g))/m).
static void common_factor(Dim r, const IntTerm *b, Factor *out) {
  out->coef = b->coef;
  out->n = b->natoms;
  for (int i = 0; i < b->natoms; i++) out->atom[i] = b->atom[i];
  for (int i = 0; i < r->nterms; i++) {
    if (b->natoms == 0 && r->term[i].natoms == 0) continue;
    out->coef = gcd_i64(out->coef, r->term[i].coef);
    intersect(out, &r->term[i]);
  }
}

// e / f, the constant rounded down.
static Dim take_factor(IntPool *p, Dim e, const Factor *f) {
  Poly out;
  out.n = 0;
  Dim *atom = intpool_scratch(p, count_atoms(e));
  for (int i = 0; i < e->nterms; i++) {
    int n;
    take_atoms(&e->term[i], f->n, f->atom, atom, &n);
    int64_t c = floor_div(e->term[i].coef, f->coef);
    if (c) poly_push(&out, (IntTerm){c, n, atom});
    atom += n;
  }
  return intern_poly(p, &out);
}

static Dim factor_expr(IntPool *p, const Factor *f) {
  Poly out;
  out.n = 1;
  out.t[0] = (IntTerm){f->coef, f->n, f->atom};
  return intern_poly(p, &out);
}

// ---- division by a sum ----
static bool exact_coef(int64_t a, int64_t b, int64_t *out) {
  if (b == -1) return ck_sub(0, a, out);
  *out = a / b;
  return a % b == 0;
}

// The quotient of a by b when it is exact, else NULL.  Leading terms come last.
static Dim exact_quotient(IntPool *p, Dim a, Dim b) {
  const IntTerm *lead = &b->term[b->nterms - 1];
  Dim quotient = p->zero, rest = a;
  for (int step = 0; rest != p->zero; step++) {
    if (step == MAX_QUOTIENT || ie_is_poison(rest) || ie_is_poison(quotient)) return NULL;
    const IntTerm *t = &rest->term[rest->nterms - 1];
    Factor f;
    if (!exact_coef(t->coef, lead->coef, &f.coef)) return NULL;
    if (!take_atoms(t, lead->natoms, lead->atom, f.atom, &f.n)) return NULL;
    Dim m = factor_expr(p, &f);
    quotient = ie_add(p, quotient, m);
    rest = ie_sub(p, rest, ie_mul(p, m, b));
  }
  return quotient;
}

// Turns a/b into -a/-b where -b is the better divisor: a sum known not to be negative, else one
// with a positive leading coefficient.  False when b is, or -b cannot be written.
static bool turn(IntPool *p, Dim *a, Dim *b) {
  Dim d = *b;
  bool signless = d->nterms == 1 || (d->lo < 0 && d->hi > 0);
  if (signless ? d->term[d->nterms - 1].coef > 0 : d->lo >= 0) return false;
  Dim na = negate(p, *a), nb = negate(p, *b);
  if (ie_is_poison(na) || ie_is_poison(nb)) return false;
  *a = na;
  *b = nb;
  return true;
}

// Whether floor(r/b) is 0 or -1 for certain: 0 <= r < b, or -b <= r < 0.
static bool small_quotient(Dim r, Dim b, int64_t *q) {
  int64_t lo, hi;
  Poly sum;
  *q = r->lo >= 0 ? 0 : -1;
  if (*q == 0) {
    range_diff(r, b, &lo, &hi);
    return hi < 0;
  }
  if (r->hi >= 0 || !poly_add(&sum, r, 1, b)) return false;
  range_poly(sum.t, sum.n, &lo, &hi);
  return lo >= 0;
}

// floor((floor(x/m) + c)/k): gives x + c*m and m*k.
static bool merge_nested(IntPool *p, Dim r, int64_t k, Dim *out_a, Dim *out_b) {
  const IntTerm *t = &r->term[r->nterms - 1];
  int64_t c = r->nterms == 2 ? r->term[0].coef : 0, mk, cm;
  if (r->nterms > 2 || (r->nterms == 2 && r->term[0].natoms)) return false;
  if (t->coef != 1 || t->natoms != 1 || t->atom[0]->kind != IE_DIV) return false;
  Dim inner = t->atom[0];
  if (!ie_is_const(inner->b) || inner->b->value < 1) return false;
  if (!ck_mul(inner->b->value, k, &mk) || !ck_mul(inner->b->value, c, &cm)) return false;
  *out_a = ie_addc(p, inner->a, cm);
  *out_b = ie_const(p, mk);
  return !ie_is_poison(*out_a);
}

static Dim div_monomial(IntPool *p, Dim a, Dim b) {
  const IntTerm *t = b->term;
  Dim q, r, x, m;
  split(p, a, t, &q, &r);
  if (ie_is_poison(q) || ie_is_poison(r)) return p->poison;
  int64_t small;
  if (r == p->zero) return q;
  if (small_quotient(r, b, &small)) return ie_addc(p, q, small);
  Factor f;
  common_factor(r, t, &f);
  if (f.coef > 1 || f.n > 0) {
    x = take_factor(p, r, &f);
    m = take_factor(p, b, &f);
    return ie_add(p, q, ie_div(p, x, m));
  }
  if (t->natoms == 0 && merge_nested(p, r, t->coef, &x, &m)) return ie_add(p, q, ie_div(p, x, m));
  return ie_add(p, q, intern_pair(p, IE_DIV, r, b));
}

// True with the result in *out when the operands alone decide it.
static bool trivial(IntPool *p, Dim a, Dim b, bool mod, Dim *out) {
  *out = p->poison;
  if (ie_is_poison(a) || ie_is_poison(b) || ie_is(b, 0)) return true;
  if (ie_is_const(a) && ie_is_const(b)) {
    int64_t v;
    if (floor_divide(a->value, b->value, mod, &v)) *out = ie_const(p, v);
    return true;
  }
  *out = mod ? p->zero : a;
  if (ie_is(b, 1)) return true;
  *out = mod || a != b ? p->zero : p->one;
  return a == b || ie_is(a, 0);
}

Dim ie_div(IntPool *p, Dim a, Dim b) {
  Dim out;
  if (trivial(p, a, b, false, &out)) return out;
  if (turn(p, &a, &b)) return ie_div(p, a, b);
  if (b->nterms == 1 && b->term->coef > 0) return div_monomial(p, a, b);
  out = b->nterms > 1 ? exact_quotient(p, a, b) : NULL;
  if (out) return out;
  int64_t small;
  if (small_quotient(a, b, &small)) return ie_const(p, small);
  return intern_pair(p, IE_DIV, a, b);
}

Dim ie_ceildiv(IntPool *p, Dim a, Dim b) {
  if (ie_is_poison(a) || ie_is_poison(b)) return p->poison;
  if (b->lo < 0) return negate(p, ie_div(p, negate(p, a), b));
  return ie_div(p, ie_addc(p, ie_add(p, a, b), -1), b);
}

static Dim mod_monomial(IntPool *p, Dim a, Dim b) {
  const IntTerm *t = b->term;
  Dim q, r;
  split(p, a, t, &q, &r);
  if (ie_is_poison(r)) return p->poison;
  int64_t small;
  if (r == p->zero) return r;
  if (small_quotient(r, b, &small)) return small ? ie_add(p, r, b) : r;
  Factor f;
  common_factor(r, t, &f);
  if (f.coef > 1 || f.n > 0) {
    int64_t c = t->natoms == 0 && r->term[0].natoms == 0 ? floor_mod(r->term[0].coef, f.coef) : 0;
    Dim m = ie_mod(p, take_factor(p, r, &f), take_factor(p, b, &f));
    return ie_addc(p, ie_mul(p, factor_expr(p, &f), m), c);
  }
  return intern_pair(p, IE_MOD, r, b);
}

Dim ie_mod(IntPool *p, Dim a, Dim b) {
  Dim out;
  if (trivial(p, a, b, true, &out)) return out;
  if (turn(p, &a, &b)) return negate(p, ie_mod(p, a, b));
  if (b->nterms == 1 && b->term->coef > 0) return mod_monomial(p, a, b);
  if (b->nterms > 1 && exact_quotient(p, a, b)) return p->zero;
  int64_t small;
  if (small_quotient(a, b, &small)) return small ? ie_add(p, a, b) : a;
  return intern_pair(p, IE_MOD, a, b);
}

// ---- minimum, maximum, broadcast ---- These are associative, commutative and idempotent: the
// operands are flattened into a sorted set and nested again to the right, so that any way of
// writing them gives one expression.
typedef struct Leaves {
  int n;
  Dim v[IE_MAX_LEAVES];
} Leaves;

static bool collect(Leaves *l, IntExprKind kind, Dim e) {
  for (; e->kind == kind; e = e->b) {
    if (l->n == IE_MAX_LEAVES) return false;
    l->v[l->n++] = e->a;
  }
  if (l->n == IE_MAX_LEAVES) return false;
  l->v[l->n++] = e;
  return true;
}

static void sort_unique(Leaves *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++) {
    Dim e = l->v[i];
    int at = n, c = 1;
    while (at > 0 && (c = ie_order(e, l->v[at - 1])) < 0) at--;
    if (at > 0 && c == 0) continue;
    memmove(&l->v[at + 1], &l->v[at], (size_t)(n - at) * sizeof l->v[0]);
    l->v[at] = e;
    n++;
  }
  l->n = n;
}

static Dim nest(IntPool *p, IntExprKind kind, const Leaves *l) {
  Dim e = l->v[l->n - 1];
  for (int i = l->n - 2; i >= 0 && !ie_is_poison(e); i--) e = intern_pair(p, kind, l->v[i], e);
  return e;
}

static bool beaten(const Leaves *l, int i, IntExprKind kind) {
  for (int j = 0; j < l->n; j++) {
    int64_t lo, hi;
    if (j == i) continue;
    range_diff(l->v[i], l->v[j], &lo, &hi);
    if (kind == IE_MIN ? lo >= 0 : hi <= 0) return true;
  }
  return false;
}

static Dim extreme(IntPool *p, IntExprKind kind, Dim a, Dim b) {
  Leaves l = {.n = 0};
  if (ie_is_poison(a) || ie_is_poison(b)) return p->poison;
  if (!collect(&l, kind, a) || !collect(&l, kind, b)) return p->poison;
  sort_unique(&l);
  for (int i = 0; i < l.n;) {
    if (beaten(&l, i, kind)) {
      l.n--;
      memmove(&l.v[i], &l.v[i + 1], (size_t)(l.n - i) * sizeof l.v[0]);
    } else {
      i++;
    }
  }
  return nest(p, kind, &l);
}

Dim ie_min(IntPool *p, Dim a, Dim b) { return extreme(p, IE_MIN, a, b); }

Dim ie_max(IntPool *p, Dim a, Dim b) { return extreme(p, IE_MAX, a, b); }

// Whether leaf i is min(s, ...) beside the leaf s, the other bounds being at least 1.  Where it is
// not s, it must be 1, so it adds nothing.  (A table cut to the length of what it is added to.)
static bool bounded_twin(const Leaves *l, int i) {
  Leaves part = {.n = 0};
  if (l->v[i]->kind != IE_MIN || !collect(&part, IE_MIN, l->v[i])) return false;
  int twins = 0;
  for (int k = 0; k < part.n; k++) {
    bool twin = false;
    for (int j = 0; j < l->n; j++) twin |= j != i && l->v[j] == part.v[k];
    if (!twin && part.v[k]->lo < 1) return false;
    twins += twin;
  }
  return twins == 1;
}

// A size that cannot be 1 is the result, whatever the others are: they are 1 or the same.
Dim ie_bcast(IntPool *p, Dim a, Dim b) {
  Leaves l = {.n = 0};
  if (ie_is_poison(a) || ie_is_poison(b)) return p->poison;
  if (ie_is(a, 1)) return b;
  if (ie_is(b, 1) || ie_is_const(a)) return a;
  if (ie_is_const(b)) return b;
  if (!collect(&l, IE_BCAST, a) || !collect(&l, IE_BCAST, b)) return p->poison;
  sort_unique(&l);
  for (int i = 0; i < l.n; i++)
    if (ie_eq(p, l.v[i], p->one) == NO) return l.v[i];
  for (int i = 0; i < l.n;) {
    if (bounded_twin(&l, i)) {
      l.n--;
      memmove(&l.v[i], &l.v[i + 1], (size_t)(l.n - i) * sizeof l.v[0]);
    } else {
      i++;
    }
  }
  return nest(p, IE_BCAST, &l);
}
