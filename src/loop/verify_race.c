// verify_race.c -- shows that work items are disjoint in the results, and threads in what they
// write.
//
// Items do not meet in a buffer when the item can be read off the element's number: each digit w of
// the item
// stands in every index as  T*a + S*w + l + c  with 0 <= l < S and S*w + l < T (or no a and no T),
// so that w = floor(mod(x - c, T)/S) for the element x.  S, T and the constant c must be the same
// for all accesses to the buffer.  Where the digit stands within a guard's symbol, that symbol is
// read off the element first, whole or digit by digit, and then the digit off the symbol's value.
// T is not known beforehand: every one that fits is kept, until the next access rules it out; only
// those are tried then.
//
// Among the threads of a block, c may also hold what is the same for all of them: the work item and
// the loops around the thread loop.
#include "loop/verify.h"

// No symbol but dims, and the first `outer` ones that were opened.
static bool only_outer(const Prover *p, int64_t outer, Dim e) {
  if (e->kind == IE_CONST) return true;
  if (e->kind == IE_SYM) {
    int64_t at = prover_find(p, e);
    return at >= 0 && (at < outer || !p->sym.v[at].extent);
  }
  if (e->kind == IE_POISON) return false;
  if (e->kind != IE_SUM) return only_outer(p, outer, e->a) && only_outer(p, outer, e->b);
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++)
      if (!only_outer(p, outer, e->term[i].atom[j])) return false;
  return true;
}

static bool only_dims(const Prover *p, Dim e) { return only_outer(p, 0, e); }

// A term as t*u: u is a product of what is not fixed beforehand, t of the rest.
static void split_term(const Prover *p, const IntTerm *term, Dim *t, Dim *u) {
  *t = ie_const(p->pool, term->coef);
  *u = p->pool->one;
  for (int j = 0; j < term->natoms; j++) {
    Dim *to = only_dims(p, term->atom[j]) ? t : u;
    *to = ie_mul(p->pool, *to, term->atom[j]);
  }
}

// The whole coefficient of what stands in term i: it is a sum of several terms where a size is.
// NULL where that is fixed beforehand, or stood in a term before.
static Dim coefficient(const Prover *p, Dim e, int i, Dim *u) {
  Dim sum, t, other;
  split_term(p, &e->term[i], &sum, u);
  if (ie_is(*u, 1) || ie_is_poison(*u)) return NULL;
  for (int j = 0; j < e->nterms; j++) {
    if (j == i) continue;
    split_term(p, &e->term[j], &t, &other);
    if (other != *u) continue;
    if (j < i) return NULL;
    sum = ie_add(p->pool, sum, t);
  }
  return ie_is_poison(sum) ? NULL : sum;
}

// e without what is a multiple of the modulus: terms, and sums of terms over one variable.
static Dim without_multiples(Prover *p, Dim e, Dim modulus) {
  IntPool *pool = p->pool;
  Dim out = e;
  for (int i = 0; i < e->nterms; i++) {
    Dim term = dim_term(pool, &e->term[i], -1);
    if (dim_divides(pool, modulus, term)) out = ie_sub(pool, out, term);
  }
  if (modulus->nterms < 2) return out;  // divides a sum only where it divides each term
  e = out;
  for (int i = 0; i < e->nterms; i++) {
    Dim u, t = coefficient(p, e, i, &u);
    if (t && dim_quotient(pool, t, modulus)) out = ie_sub(pool, out, ie_mul(pool, t, u));
  }
  return out;
}

// e without multiples of `modulus`, and without a negative constant, which is *offset.  Of a
// constant beyond the modulus the remainder is left.
static Dim below(Prover *p, Dim e, Dim modulus, Dim *offset) {
  IntPool *pool = p->pool;
  Dim out = pool->zero, left = modulus ? without_multiples(p, e, modulus) : e;
  *offset = pool->zero;
  for (int i = 0; i < left->nterms; i++) {
    const IntTerm *t = &left->term[i];
    Dim term = dim_term(pool, t, -1);
    if (t->natoms == 0 && modulus && ie_is_const(modulus) && t->coef >= modulus->value)
      term = ie_const(pool, t->coef % modulus->value);
    if (t->natoms == 0 && t->coef < 0)
      *offset = term;
    else
      out = ie_add(pool, out, term);
  }
  return out;
}

static bool claim_eq(const Claim *a, const Claim *b) {
  return a->n == b->n && !memcmp(a->part, b->part, (size_t)a->n * sizeof a->part[0]);
}

// What is sought: the ways that fit all accesses before; NULL: any.
typedef struct Search {
  Prover *p;
  Verifier *split;  // knows guards whose symbols are decomposed; NULL: none are
  const Claims *wanted;
  Claims *out;
  int64_t outer;  // so many symbols are the same for all that is told apart
} Search;

static bool is_wanted(const Search *f, const Claim *before, Dim s, Dim t) {
  for (int i = 0; f->wanted && i < f->wanted->n; i++) {
    const Claim *c = &f->wanted->v[i];
    if (c->n >= before->n + 3 && c->part[before->n] == s && c->part[before->n + 1] == t &&
        !memcmp(c->part, before->part, (size_t)before->n * sizeof c->part[0]))
      return true;
  }
  return !f->wanted;
}

static void add_claim(Claims *out, const Claim *before, Dim s, Dim t, Dim offset) {
  Claim c = *before;
  if (out->n == CLAIMS_MAX || c.n + 3 > ARRAY_LEN(c.part)) return;
  c.part[c.n++] = s;
  c.part[c.n++] = t;
  c.part[c.n++] = offset;
  for (int i = 0; i < out->n; i++)
    if (claim_eq(&out->v[i], &c)) return;
  out->v[out->n++] = c;
}

// Moves the terms of *l that are the same for all to the offset.
static void set_off_outer(const Search *f, Dim *l, Dim *offset) {
  IntPool *pool = f->p->pool;
  Dim all = *l;
  for (int i = 0; i < all->nterms; i++) {
    Dim term = dim_term(pool, &all->term[i], -1);
    if (!only_outer(f->p, f->outer, term)) continue;
    *l = ie_sub(pool, *l, term);
    *offset = ie_add(pool, *offset, term);
  }
}

// What is left of r beside s*w, modulo t, is in [0, s), and all of it in [0, t).  A negative
// constant may be set off, or belong to what is left: steps that are counted from the end.  What is
// the same for all is set off where nothing else fits.  Where that is shown, t and s are positive.
static void try_modulus(const Search *f, Dim w, Dim s, Dim r, Dim t, const Claim *before) {
  Prover *p = f->p;
  IntPool *pool = p->pool;
  if (!is_wanted(f, before, s, t)) return;
  Dim offset, rest = below(p, r, t, &offset);
  for (int i = 0; i < 3; i++) {
    Dim l = rest, off = offset;
    if (i == 1) {
      if (ie_is(offset, 0)) continue;
      l = ie_add(pool, rest, offset);
      off = pool->zero;
    }
    if (i == 2) {
      if (!f->outer) return;
      set_off_outer(f, &l, &off);
    }
    bool fits = !ie_is_poison(l) && prove_ge0(p, l) && prove_lt(p, l, s);
    if (fits && t) fits = prove_lt(p, ie_add(pool, ie_mul(pool, s, w), l), t);
    if (!fits) continue;
    add_claim(f->out, before, s, t, off);
    return;
  }
}

static void claims_direct(const Search *f, Dim e, Dim w, Dim size, const Claim *before) {
  Prover *p = f->p;
  IntPool *pool = p->pool;
  Dim s, r;
  // The digit may stand in r as well: where 0 <= r < s that does not matter.
  if (!dim_split(pool, e, w, &s, &r) || !only_dims(p, s) || ie_is(s, 0)) return;
  try_modulus(f, w, s, r, NULL, before);
  Dim whole = ie_mul(pool, s, size);
  if (only_dims(p, whole)) try_modulus(f, w, s, r, whole, before);
  for (int i = 0; i < r->nterms; i++) {  // the stride of another symbol
    Dim u, t = coefficient(p, r, i, &u);
    if (t && t != whole && t->hi > 0) try_modulus(f, w, s, r, t, before);
  }
}

// All digits of a symbol, from the lowest on, behind a part without an offset that says which they
// are.
static void claims_digits(const Search *f, Dim e, const Digits *d, const Claim *before,
                          Claims *out) {
  out->n = 0;
  add_claim(out, before, d->unit[1], NULL, NULL);
  for (int i = 0; i < d->n && out->n; i++) {
    Claims more = {.n = 0};
    if (d->digit[i]->kind != IE_SYM) continue;
    for (int j = 0; j < out->n; j++)
      claims_direct(&(Search){f->p, NULL, f->wanted, &more, f->outer}, e, d->digit[i], d->size[i],
                    &out->v[j]);
    *out = more;
  }
}

static void claims_of(const Search *f, Dim e, Dim w, Dim size, const Claim *before, int depth);

// Guards whose symbols are decomposed.
static void claims_split(const Search *f, Dim e, Dim w, Dim size, const Claim *before, int depth) {
  Verifier *v = f->split;
  const Prover *written = &v->p[AS_WRITTEN];
  for (int64_t i = 0; i < written->sym.n; i++) {
    ProverSym g = written->sym.v[i];
    const Digits *d = g.value ? digits_of(&v->digits, g.sym) : NULL;
    if (!d || d->n == 1) continue;
    Dim value = digits_apply(&v->digits, g.value);
    Claims first;
    if (!dim_has(value, w)) continue;
    claims_digits(f, e, d, before, &first);
    for (int j = 0; j < first.n; j++) claims_of(f, value, w, size, &first.v[j], depth + 1);
  }
}

static void claims_of(const Search *f, Dim e, Dim w, Dim size, const Claim *before, int depth) {
  Prover *p = f->p;
  if (dim_has(e, w)) claims_direct(f, e, w, size, before);
  for (int64_t i = 0; i < p->sym.n && depth < 3; i++) {
    ProverSym g = p->sym.v[i];
    if (!g.value || !dim_has(g.value, w) || !dim_has(e, g.sym)) continue;
    Claims first = {.n = 0};
    claims_direct(&(Search){p, NULL, f->wanted, &first, f->outer}, e, g.sym, g.extent, before);
    for (int j = 0; j < first.n; j++) claims_of(f, g.value, w, size, &first.v[j], depth + 1);
  }
  if (f->split && depth < 3) claims_split(f, e, w, size, before, depth);
}

static void keep_common(Claims *a, const Claims *b) {
  int n = 0;
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n; j++)
      if (claim_eq(&a->v[i], &b->v[j])) {
        a->v[n++] = a->v[i];
        break;
      }
  a->n = n;
}

// Whether the item (or thread) can still be read off every element that was seen; else `digit` is
// the one that cannot.
static bool disjoint(Verifier *v, const Digits *item, Form form, Disjoint *a, Dim index,
                     Dim *digit) {
  int64_t outer = item == v->item ? 0 : v->outside[form];
  int n = form == AS_DIGITS ? item->n : 1;
  bool first = !a->seen;
  a->seen = true;
  for (int i = 0; i < n && !a->lost; i++) {
    Dim w = form == AS_DIGITS ? item->digit[i] : item->sym;
    Dim size = form == AS_DIGITS ? item->size[i] : item->extent;
    if (w->kind != IE_SYM || size->hi <= 1) continue;
    Claims now = {.n = 0};
    Claim none = {.n = 0};
    Search f = {&v->p[form], form == AS_DIGITS ? v : NULL, first ? NULL : &a->claims[i], &now,
                outer};
    claims_of(&f, index, w, size, &none, 0);
    if (first)
      a->claims[i] = now;
    else
      keep_common(&a->claims[i], &now);
    a->lost = !a->claims[i].n;
    *digit = w;
  }
  return !a->lost;
}

static tenon_status keep_disjoint(Verifier *v, const Digits *who, Disjoint *table, int32_t buffer,
                                  const Dim *index, const char *what, const char *they) {
  if (!who || who->extent->hi <= 1) return TENON_OK;
  Dim digit = who->sym;
  bool ok = false, before = false;
  for (int form = 0; form < NFORMS; form++) {
    Disjoint *a = &table[buffer * NFORMS + form];
    before |= a->seen;
    ok |= disjoint(v, who, (Form)form, a, index[form], &digit);
  }
  if (ok) return TENON_OK;
  const char *name = v->k->buffer[buffer].name;
  return verify_fail(v, "%s may meet in %%%s: cannot read %s off %s %%%s[%s]%s", they, name,
                     verify_text(v, digit), what, name, verify_text(v, index[AS_WRITTEN]),
                     before ? " as off the accesses before it" : "");
}

tenon_status verify_race(Verifier *v, int32_t buffer, const Dim *index, const char *what) {
  const LoopBuffer *b = &v->k->buffer[buffer];
  if (b->written) TRY(keep_disjoint(v, v->item, v->disjoint, buffer, index, what, "work items"));
  if (!v->thread || !v->stored[buffer] || b->space == LOOP_REGISTER) return TENON_OK;
  return keep_disjoint(v, digits_of(&v->digits, v->thread), v->threads_disjoint, buffer, index,
                       what, "threads");
}
