// prove.c -- proofs about index expressions.
//
// To show e >= 0 the symbols are eliminated, innermost first, each step giving an expression that
// is nowhere greater.  A symbol that stands in e linearly goes to the end of its range that makes e
// least; its extent then brings in symbols further out.  One that stands within a floor division,
// remainder, minimum or maximum is reached by replacing that atom first:
//   min(a, b)    is a or b: both cases where its coefficient is positive, either bounds it where
//                that is negative
//   floor(a/b)   is between (a - b + 1)/b and a/b; or between its values at the ends of the
//                symbol's range
//   mod(a, b)    lies in [0, b), below a where a is not negative, and is a - b*floor(a/b)
// Where several replacements are possible all are tried, within a number of steps; a goal that is
// met again is not tried again.  Last, a fact f >= 0 of the scope may be used: e - f >= 0 is
// enough.
#include "loop/prove.h"

// Steps of one search.  Where a proof is only wished for, it is found in a few or not at all.  Of
// one attempt, of one that is asked for often, and of all attempts at a goal together: what is
// provable in the networks and suites takes up to 2000, and what is not must come to an end.
enum { PROVE_STEPS = 600, PROVE_STEPS_ONCE = 40, PROVE_STEPS_GOAL = 2400 };

// ---- expressions ----
bool dim_has(Dim e, Dim sym) {
  if (e->kind == IE_SYM) return e == sym;
  if (e->kind == IE_CONST || e->kind == IE_POISON) return false;
  if (e->kind != IE_SUM) return dim_has(e->a, sym) || dim_has(e->b, sym);
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++)
      if (dim_has(e->term[i].atom[j], sym)) return true;
  return false;
}

Dim dim_term(IntPool *pool, const IntTerm *t, int without) {
  Dim e = ie_const(pool, t->coef);
  for (int i = 0; i < t->natoms; i++)
    if (i != without) e = ie_mul(pool, e, t->atom[i]);
  return e;
}

bool dim_split(IntPool *pool, Dim e, Dim atom, Dim *c, Dim *r) {
  *c = *r = pool->zero;
  for (int i = 0; i < e->nterms; i++) {
    const IntTerm *t = &e->term[i];
    int at = -1;
    for (int j = 0; j < t->natoms; j++) {
      if (t->atom[j] != atom) continue;
      if (at >= 0) return false;
      at = j;
    }
    Dim *to = at >= 0 ? c : r;
    *to = ie_add(pool, *to, dim_term(pool, t, at));
  }
  return !ie_is_poison(*c) && !ie_is_poison(*r);
}

// What e/d must be if the division leaves nothing: the coefficient of a term of d that stands alone
// says it.
static Dim guess_quotient(IntPool *pool, Dim e, Dim d, const IntTerm *t) {
  Dim c, r;
  if (t->natoms != 1 || (t->coef != 1 && t->coef != -1)) return NULL;
  if (!dim_split(pool, e, t->atom[0], &c, &r)) return NULL;
  Dim q = ie_mulc(pool, c, t->coef);
  return ie_mul(pool, q, d) == e ? q : NULL;
}

Dim dim_quotient(IntPool *pool, Dim e, Dim d) {
  if (ie_is(d, 0) || ie_is_poison(e) || ie_is_poison(d)) return NULL;
  // The pool takes divisors for positive; whether they are may be the question.
  Dim q = ie_div(pool, e, d);
  if (ie_mul(pool, q, d) == e) return q;
  q = NULL;
  for (int i = 0; i < d->nterms && !q; i++) q = guess_quotient(pool, e, d, &d->term[i]);
  return q;
}

bool dim_divides(IntPool *pool, Dim d, Dim e) {
  if (ie_is(d, 0)) return false;
  return ie_is(ie_mod(pool, e, d), 0) || dim_quotient(pool, e, d);
}

// ---- scope ----
void prover_init(Prover *p, IntPool *pool, Arena *a) {
  memset(p, 0, sizeof *p);
  p->pool = pool;
  p->arena = a;
  p->scope = 1;
  intmap_init(&p->order, a);
}

void prover_push(Prover *p, Dim sym, Dim extent, Dim value) {
  p->scope++;
  vec_push(p->arena, &p->sym, ((ProverSym){.sym = sym, .extent = extent, .value = value}));
  intmap_put(&p->order, (uint64_t)sym->slot, (uint64_t)p->sym.n);
}

typedef struct Without {
  IntPool *pool;
  Dim sym;
} Without;
static Dim zero_for(void *ctx, Dim sym) {
  const Without *w = ctx;
  return sym == w->sym ? w->pool->zero : sym;
}

void prover_all_in(Prover *p, Dim extent) {
  for (int64_t i = 0; i < p->sym.n; i++) {
    ProverSym *s = &p->sym.v[i];
    Without w = {p->pool, s->sym};
    if (s->extent || s->sym->lo != 0 || !dim_has(extent, s->sym)) continue;
    Dim left = ie_map(p->pool, extent, zero_for, &w);
    s->positive = !ie_is_poison(left) && left->hi <= 0;
  }
}

void prover_pop(Prover *p, int64_t n) {
  p->scope++;
  while (p->sym.n > n) intmap_put(&p->order, (uint64_t)p->sym.v[--p->sym.n].sym->slot, 0);
}

int64_t prover_find(const Prover *p, Dim sym) {
  uint64_t at = 0;
  return intmap_get(&p->order, (uint64_t)sym->slot, &at) ? (int64_t)at - 1 : -1;
}

// The position of the innermost symbol; -1: there is none.  `known` is cleared by a symbol out of
// scope.
static int64_t innermost(const Prover *p, Dim e, bool *known) {
  if (e->kind == IE_CONST || e->kind == IE_POISON) return -1;
  if (e->kind == IE_SYM) {
    int64_t at = prover_find(p, e);
    *known &= at >= 0;
    return at;
  }
  int64_t most = -1;
  if (e->kind != IE_SUM) {
    int64_t a = innermost(p, e->a, known), b = innermost(p, e->b, known);
    return MAX(a, b);
  }
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++) {
      int64_t at = innermost(p, e->term[i].atom[j], known);
      most = MAX(most, at);
    }
  return most;
}

// NULL where there is no bound.
static Dim least(Prover *p, const ProverSym *s) {
  if (s->extent) return p->pool->zero;
  if (s->positive) return p->pool->one;
  return s->sym->lo == INT64_MIN ? NULL : ie_const(p->pool, s->sym->lo);
}

static Dim most(Prover *p, const ProverSym *s) {
  if (s->extent) return ie_addc(p->pool, s->extent, -1);
  return s->sym->hi == INT64_MAX ? NULL : ie_const(p->pool, s->sym->hi);
}

// ---- positive ----
// x with an atom at 0.
static Dim at_zero(IntPool *pool, Dim x, Dim atom) {
  if (x == atom) return pool->zero;
  if (x->kind == IE_CONST || x->kind == IE_SYM || x->kind == IE_POISON) return x;
  if (x->kind == IE_SUM) {
    Dim sum = pool->zero;
    for (int i = 0; i < x->nterms; i++) {
      Dim term = ie_const(pool, x->term[i].coef);
      for (int j = 0; j < x->term[i].natoms; j++)
        term = ie_mul(pool, term, at_zero(pool, x->term[i].atom[j], atom));
      sum = ie_add(pool, sum, term);
    }
    return sum;
  }
  Dim a = at_zero(pool, x->a, atom), b = at_zero(pool, x->b, atom);
  switch ((IntExprKind)x->kind) {
  case IE_DIV: return b->lo >= 1 ? ie_div(pool, a, b) : pool->poison;
  case IE_MIN: return ie_min(pool, a, b);
  case IE_MAX: return ie_max(pool, a, b);
  default: return a == x->a && b == x->b ? x : pool->poison;
  }
}

bool dim_forced(IntPool *pool, Dim e, Dim extent) {
  Dim q = dim_quotient(pool, extent, e);
  if (q && (q->lo >= 0 || e->lo >= 0)) return true;
  // An atom that is not negative, without which there would be nothing.
  bool atom = e->kind != IE_SUM && e->kind != IE_CONST && e->kind != IE_POISON;
  if (!atom || e->lo < 0) return false;
  Dim none = at_zero(pool, extent, e);
  return none != extent && !ie_is_poison(none) && none->hi <= 0;
}

// An expression is positive where it is a factor of an extent: code inside runs only where that is
// at least 1.
static bool forced_by_scope(const Prover *p, Dim e) {
  if (e->lo >= 1) return true;
  for (int64_t i = 0; i < p->sym.n; i++)
    if (p->sym.v[i].extent && dim_forced(p->pool, e, p->sym.v[i].extent)) return true;
  return false;
}

static bool positive(const Prover *p, Dim e) {
  if (forced_by_scope(p, e)) return true;
  if (e->nterms != 1 || e->term[0].coef <= 0) return false;
  for (int k = 0; k < e->term[0].natoms; k++)
    if (!forced_by_scope(p, e->term[0].atom[k])) return false;
  return true;
}

static ProverMemo *memo_of(ProverMemo *memo, Dim e) {
  return &memo[hash_u64((uint64_t)(uintptr_t)e) % PROVER_MEMO];
}

bool prover_positive(Prover *p, Dim e) {
  ProverMemo *m = memo_of(p->positive, e);
  if (m->e != e || m->when != p->scope)
    *m = (ProverMemo){.e = e, .when = p->scope, .yes = positive(p, e)};
  return m->yes;
}

// ---- steps ----
static bool prove(Prover *p, Dim e);

static Dim negated(Prover *p, Dim e) { return ie_sub(p->pool, p->pool->zero, e); }

// 1: never negative, -1: never positive, 0: not known.
static int sign(Prover *p, Dim c) {
  if (c->lo >= 0) return 1;
  if (c->hi <= 0) return -1;
  if (prover_positive(p, c)) return 1;
  if (prover_positive(p, negated(p, c))) return -1;
  if (prove(p, c)) return 1;
  return prove(p, negated(p, c)) ? -1 : 0;
}

// r + c*bound >= 0; a NULL bound proves nothing.
static bool prove_at(Prover *p, Dim c, Dim bound, Dim r) {
  return bound && prove(p, ie_add(p->pool, r, ie_mul(p->pool, c, bound)));
}

// Linear in what lies between the two bounds.
static bool prove_between(Prover *p, int sgn, Dim c, Dim lo, Dim hi, Dim r) {
  if (sgn > 0) return prove_at(p, c, lo, r);
  if (sgn < 0) return prove_at(p, c, hi, r);
  return prove_at(p, c, lo, r) && prove_at(p, c, hi, r);
}

// The least (or greatest) that e is over the range of one symbol, as far as its terms are
// monotonic; else NULL.
static Dim extreme(Prover *p, Dim e, const ProverSym *s, bool upper);

static Dim extreme_sum(Prover *p, Dim e, const ProverSym *s, bool upper) {
  Dim out = p->pool->zero;
  for (int i = 0; i < e->nterms; i++) {
    const IntTerm *t = &e->term[i];
    int at = -1, n = 0;
    for (int j = 0; j < t->natoms; j++)
      if (dim_has(t->atom[j], s->sym)) at = j, n++;
    if (n > 1) return NULL;
    Dim c = dim_term(p->pool, t, at);
    if (n == 0) {
      out = ie_add(p->pool, out, c);
      continue;
    }
    if (c->lo < 0 && c->hi > 0) return NULL;
    Dim x = extreme(p, t->atom[at], s, c->lo >= 0 ? upper : !upper);
    if (!x) return NULL;
    out = ie_add(p->pool, out, ie_mul(p->pool, c, x));
  }
  return out;
}

static Dim extreme(Prover *p, Dim e, const ProverSym *s, bool upper) {
  if (e == s->sym) return upper ? most(p, s) : least(p, s);
  if (!dim_has(e, s->sym)) return e;
  if (e->kind == IE_SUM) return extreme_sum(p, e, s, upper);
  if (e->kind == IE_MOD && e->b->lo >= 1 && !dim_has(e->b, s->sym))
    return upper ? ie_addc(p->pool, e->b, -1) : p->pool->zero;
  if (e->kind == IE_DIV && e->b->lo >= 1 && !dim_has(e->b, s->sym)) {
    Dim a = extreme(p, e->a, s, upper);
    return a ? ie_div(p->pool, a, e->b) : NULL;
  }
  if (e->kind != IE_MIN && e->kind != IE_MAX) return NULL;
  Dim a = extreme(p, e->a, s, upper), b = a ? extreme(p, e->b, s, upper) : NULL;
  if (!b) return NULL;
  return e->kind == IE_MIN ? ie_min(p->pool, a, b) : ie_max(p->pool, a, b);
}

// ---- atoms: e = c*t + r ----
static bool prove_choice(Prover *p, Dim t, Dim c, Dim r) {
  int sgn = t->kind == IE_BCAST ? 0 : sign(p, c);
  bool either = t->kind == IE_MIN ? sgn < 0 : sgn > 0;
  if (either) return prove_at(p, c, t->a, r) || prove_at(p, c, t->b, r);
  return prove_at(p, c, t->a, r) && prove_at(p, c, t->b, r);
}

static bool prove_div(Prover *p, Dim t, Dim c, Dim r, const ProverSym *s) {
  IntPool *pool = p->pool;
  Dim a = t->a, b = t->b;
  if (!prover_positive(p, b) && !prove(p, ie_addc(pool, b, -1))) return false;
  int sgn = sign(p, c);
  if (sgn == 0) {
    Dim lo = extreme(p, t, s, false), hi = extreme(p, t, s, true);
    return lo && hi && prove_at(p, c, lo, r) && prove_at(p, c, hi, r);
  }
  Dim bound = sgn > 0 ? ie_addc(pool, ie_sub(pool, a, b), 1) : a;  // of b*t
  // r + t >= 0 says a + b*r >= 0, and r - t >= 0 says a < b*(r + 1), neither more nor less.  A
  // coefficient other than -1 may have been left by `without_factor`.
  if (ie_is(c, 1)) return prove_at(p, b, r, a);
  Dim share = sgn < 0 ? dim_quotient(pool, b, negated(p, c)) : NULL;
  if (share) {  // -c*t is at most floor(a/share)
    bool yes = prove_at(p, share, ie_addc(pool, r, 1), ie_addc(pool, negated(p, a), -1));
    if (yes || share == b) return yes;
  }
  if (dim_divides(pool, b, c) && prove_at(p, ie_div(pool, c, b), bound, r)) return true;
  if (prove_at(p, c, extreme(p, t, s, sgn < 0), r)) return true;
  return prove_at(p, c, bound, ie_mul(pool, b, r));
}

static bool prove_mod(Prover *p, Dim t, Dim c, Dim r) {
  IntPool *pool = p->pool;
  Dim a = t->a, b = t->b;
  if (!prover_positive(p, b) && !prove(p, ie_addc(pool, b, -1))) return false;
  if (prove_between(p, sign(p, c), c, pool->zero, ie_addc(pool, b, -1), r)) return true;
  if (c->hi <= 0 && a->lo >= 0 && prove_at(p, c, a, r)) return true;
  Dim q = ie_mul(pool, b, ie_div(pool, a, b));
  return prove_at(p, c, ie_sub(pool, a, q), r);
}

static bool prove_atom(Prover *p, Dim t, Dim e, const ProverSym *s) {
  Dim c, r;
  if (!dim_split(p->pool, e, t, &c, &r)) return false;
  if (t->kind == IE_DIV) return prove_div(p, t, c, r, s);
  if (t->kind == IE_MOD) return prove_mod(p, t, c, r);
  return prove_choice(p, t, c, r);
}

// Every power of the symbol counts in the same direction.
static bool prove_powers(Prover *p, Dim e, const ProverSym *s) {
  Dim low = extreme(p, e, s, false);
  return low && low != e && prove(p, low);
}

// e / atom, where every term has it as a factor; else NULL.
static Dim without_atom(IntPool *pool, Dim e, Dim atom) {
  Dim sum = pool->zero;
  for (int i = 0; i < e->nterms; i++) {
    const IntTerm *t = &e->term[i];
    int at = 0;
    while (at < t->natoms && t->atom[at] != atom) at++;
    if (at == t->natoms) return NULL;
    sum = ie_add(pool, sum, dim_term(pool, t, at));
  }
  return sum;
}

// e without a factor of all its terms, which decides nothing: a number, or an atom that is never
// negative.  The constant may be rounded down to be a multiple of the number.
static Dim without_factor(Prover *p, Dim e) {
  uint64_t g = 0;
  bool constant = e->nterms > 0 && e->term[0].natoms == 0;
  for (int i = constant; i < e->nterms; i++) {
    int64_t c = e->term[i].coef;
    g = gcd_u64(g, c < 0 ? 0 - (uint64_t)c : (uint64_t)c);
  }
  if (g > 1 && g <= INT64_MAX) e = ie_div(p->pool, e, ie_const(p->pool, (int64_t)g));
  if (e->nterms < 2 || e->term[0].natoms == 0) return e;
  for (int i = 0; i < e->term[0].natoms; i++) {
    Dim f = e->term[0].atom[i], q = f->lo >= 0 ? without_atom(p->pool, e, f) : NULL;
    if (q) return q;
  }
  return e;
}

// A remainder that stands beside the quotient of the same division: only together are they exact.
static Dim join_remainders(Prover *p, Dim e) {
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++) {
      Dim t = e->term[i].atom[j], c, r;
      if (t->kind != IE_MOD) continue;
      Dim q = ie_div(p->pool, t->a, t->b);
      if (!dim_split(p->pool, e, q, &c, &r) || ie_is(c, 0)) continue;
      if (!dim_split(p->pool, e, t, &c, &r)) continue;
      Dim whole = ie_sub(p->pool, t->a, ie_mul(p->pool, t->b, q));
      return ie_add(p->pool, r, ie_mul(p->pool, c, whole));
    }
  return e;
}

// e with the remainders that hold the symbol at their ends; e where there is none.
static Dim without_remainders(Prover *p, Dim e, const ProverSym *s) {
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++) {
      Dim t = e->term[i].atom[j], c, r;
      if (t->kind != IE_MOD || !dim_has(t, s->sym) || !prover_positive(p, t->b)) continue;
      if (!dim_split(p->pool, e, t, &c, &r) || (c->lo < 0 && c->hi > 0)) continue;
      Dim last = ie_addc(p->pool, t->b, -1);
      return ie_add(p->pool, r, c->lo >= 0 ? p->pool->zero : ie_mul(p->pool, c, last));
    }
  return e;
}

// All atoms that hold the symbol are tried.
static bool eliminate(Prover *p, Dim e, const ProverSym *s) {
  bool within = false;
  if (p->remainders_alone) {
    Dim less = without_remainders(p, e, s);
    if (less != e && prove(p, less)) return true;
  }
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++) {
      Dim t = e->term[i].atom[j];
      if (t == s->sym || !dim_has(t, s->sym)) continue;
      within = true;
      if (prove_atom(p, t, e, s)) return true;
    }
  if (within) return prove_powers(p, e, s);
  Dim c, r;
  if (!dim_split(p->pool, e, s->sym, &c, &r)) return prove_powers(p, e, s);
  return prove_between(p, sign(p, c), c, least(p, s), most(p, s), r);
}

// Whether a symbol in scope has a range that depends on this one.
static bool bounds_others(const Prover *p, Dim sym) {
  for (int64_t i = prover_find(p, sym) + 1; i < p->sym.n; i++)
    if (p->sym.v[i].extent && dim_has(p->sym.v[i].extent, sym)) return true;
  return false;
}

// e with the symbols at their ends that count by themselves: what is left may have a factor then.
// Nothing is lost, since they are free of all others.
static Dim without_free(Prover *p, Dim e) {
  for (int i = 0; i < e->nterms; i++) {
    const IntTerm *t = &e->term[i];
    if (t->natoms != 1 || t->atom[0]->kind != IE_SYM) continue;
    Dim s = t->atom[0], c, r;
    int64_t at = prover_find(p, s);
    if (at < 0 || !p->sym.v[at].extent || !ie_is_const(p->sym.v[at].extent)) continue;
    if (!dim_split(p->pool, e, s, &c, &r) || !ie_is_const(c) || dim_has(r, s)) continue;
    if (bounds_others(p, s)) continue;
    int64_t last = p->sym.v[at].extent->value - 1;
    return ie_add(p->pool, r, c->value > 0 ? p->pool->zero : ie_mulc(p->pool, c, last));
  }
  return e;
}

static bool search(Prover *p, Dim e) {
  Dim simpler = without_factor(p, p->remainders_alone ? without_free(p, e) : join_remainders(p, e));
  if (simpler != e) return prove(p, simpler);
  bool known = true;
  int64_t at = innermost(p, e, &known);
  if (at < 0 || !known) return false;
  ProverSym s = p->sym.v[at];
  // Of dims alone: it may be a factor of an extent.
  if (!s.extent && (prover_positive(p, e) || prover_positive(p, ie_addc(p->pool, e, 1))))
    return true;
  return eliminate(p, e, &s);
}

static bool prove(Prover *p, Dim e) {
  if (ie_is_poison(e) || p->fuel <= 0) return false;
  if (e->lo >= 0) return true;
  if (e->hi < 0) return false;
  const ProverMemo *m = memo_of(p->goal, e);
  if (m->e == e && m->when == p->search) return m->yes;
  p->fuel--;
  bool yes = search(p, e);
  *memo_of(p->goal, e) = (ProverMemo){.e = e, .when = p->search, .yes = yes};
  return yes;
}

static bool prove_afresh(Prover *p, Dim e) {
  int fuel = MIN(p->once ? PROVE_STEPS_ONCE : PROVE_STEPS, p->goal_fuel);
  p->fuel = fuel;
  p->search++;
  bool yes = prove(p, e);
  p->goal_fuel -= fuel - p->fuel;
  return yes;
}

// e - m*fact, m such that a symbol that counts -1 in the fact goes.
static bool prove_with(Prover *p, Dim e, Dim fact) {
  IntPool *pool = p->pool;
  for (int i = 0; i < fact->nterms; i++) {
    const IntTerm *t = &fact->term[i];
    Dim c, r;
    if (t->coef != -1 || t->natoms != 1) continue;
    if (!dim_split(pool, e, t->atom[0], &c, &r) || c->hi > 0 || ie_is(c, 0)) continue;
    if (prove_afresh(p, ie_add(pool, e, ie_mul(pool, c, fact)))) return true;
  }
  return prove_afresh(p, ie_sub(pool, e, fact));
}

static bool prove_by_scope(Prover *p, Dim e) {
  if (prove_afresh(p, e)) return true;
  for (int64_t i = 0; i < p->fact.n; i++)
    if (prove_with(p, e, p->fact.v[i])) return true;
  for (int64_t i = 0; i < p->sym.n; i++) {  // where code runs, no extent is empty
    Dim n = p->sym.v[i].extent;
    if (n && !ie_is_const(n) && prove_with(p, e, ie_addc(p->pool, n, -1))) return true;
  }
  return false;
}

static bool has_remainder(Dim e) {
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++)
      if (e->term[i].atom[j]->kind == IE_MOD) return true;
  return false;
}

// First with remainders joined to their quotients, then each by its own bounds.
bool prove_ge0(Prover *p, Dim e) {
  p->remainders_alone = false;
  p->goal_fuel = PROVE_STEPS_GOAL;
  if (prove_by_scope(p, e)) return true;
  if (p->once || !has_remainder(e)) return false;
  p->remainders_alone = true;
  bool yes = prove_by_scope(p, e);
  p->remainders_alone = false;
  return yes;
}

bool prove_lt(Prover *p, Dim a, Dim b) {
  return prove_ge0(p, ie_addc(p->pool, ie_sub(p->pool, b, a), -1));
}
