// named_sizes.c -- sizes that are quotients of others, as dims of the kernel.
//
// A strided window over a dynamic length n has floor((n + b)/c) + k elements.  Written out, that
// quotient is in every index, and the verifier cannot decompose an index.  So the quotient's size
// s becomes a dim, the remainder r another, and n is c*(s - k) + r - b: products and sums alone.
//
// Needs:      elem_begin, before any argument is declared.  Lowering.name_sizes: a kernel that is
//             proven without is left as it is.
// Guarantees: the same sizes at run time: s and r are evaluated by the step, s >= 0 as every size
//             and 0 <= r < c.
#include "lower/element/element.h"

// s = floor((atom + b)/c) + k; NULL: s is of another form.
static Dim quotient_of(Dim s, int64_t *b, int64_t *k) {
  const IntTerm *t = s->nterms ? &s->term[s->nterms - 1] : NULL;
  bool shifted = s->nterms == 2 && !s->term[0].natoms;
  if (!t || (s->nterms != 1 && !shifted) || t->coef != 1 || t->natoms != 1) return NULL;
  Dim q = t->atom[0];
  if (q->kind != IE_DIV || !ie_is_const(q->b) || q->b->value < 2) return NULL;
  const IntTerm *u = &q->a->term[q->a->nterms - 1];
  bool plain = q->a->nterms == 1 || (q->a->nterms == 2 && !q->a->term[0].natoms);
  if (!plain || u->coef != 1 || u->natoms != 1) return NULL;
  *k = shifted ? s->term[0].coef : 0;
  *b = q->a->nterms == 2 ? q->a->term[0].coef : 0;
  return q;
}

static Dim known_as(const ElementBuilder *e, Dim d) {
  for (int64_t i = 0; i < e->named.n; i++)
    if (e->named.v[i].size == d) return e->named.v[i].as;
  return NULL;
}

static void name_size(ElementBuilder *e, Dim s) {
  IntPool *p = e->pool, *graph = &e->lo->g->dims;
  int64_t b = 0, k = 0;
  Dim q = quotient_of(s, &b, &k);
  if (!q || known_as(e, s)) return;
  Dim atom = q->a->term[q->a->nterms - 1].atom[0], rest = ie_mod(graph, q->a, q->b);
  if (known_as(e, atom) || ie_is_poison(rest)) return;
  Dim size = elem_own_dim(e, s), r = elem_own_dim(e, rest);
  Dim whole = ie_mulc(p, ie_addc(p, size, -k), q->b->value);
  ElemNamed names[] = {{s, size}, {atom, ie_addc(p, ie_add(p, whole, r), -b)}};
  vec_push(e->a, &e->named, names[0]);
  vec_push(e->a, &e->named, names[1]);
}

static void name_sizes_of(ElementBuilder *e, const Type *t) {
  for (int i = 0; t && t->kind == TK_TENSOR && i < t->rank; i++) name_size(e, t->dims[i]);
}

// Results first: indices that are stored to must be decomposed, loads may be guarded.
void elem_name_sizes(ElementBuilder *e) {
  for (int i = 0; i < e->fused->nres; i++) name_sizes_of(e, e->fused->type[i]);
  NodeList order = body_order(e->lo->g, e->body, e->a);
  for (int64_t i = order.n - 1; i >= 0; i--)
    for (int r = 0; r < order.v[i]->nres; r++) name_sizes_of(e, order.v[i]->type[r]);
}

static Dim map_size(ElementBuilder *e, Dim d);

static Dim map_sum(ElementBuilder *e, Dim d) {
  IntPool *p = e->pool;
  Dim sum = p->zero;
  for (int i = 0; i < d->nterms; i++) {
    Dim term = ie_const(p, d->term[i].coef);
    for (int k = 0; k < d->term[i].natoms; k++)
      term = ie_mul(p, term, map_size(e, d->term[i].atom[k]));
    sum = ie_add(p, sum, term);
  }
  return sum;
}

static Dim map_size(ElementBuilder *e, Dim d) {
  IntPool *p = e->pool;
  Dim as = known_as(e, d);
  if (as) return as;
  switch ((IntExprKind)d->kind) {
  case IE_CONST: return ie_const(p, d->value);
  case IE_SYM: return elem_own_dim(e, d);
  case IE_SUM: return map_sum(e, d);
  case IE_DIV: return ie_div(p, map_size(e, d->a), map_size(e, d->b));
  case IE_MOD: return ie_mod(p, map_size(e, d->a), map_size(e, d->b));
  case IE_MIN: return ie_min(p, map_size(e, d->a), map_size(e, d->b));
  case IE_MAX: return ie_max(p, map_size(e, d->a), map_size(e, d->b));
  case IE_BCAST: return ie_bcast(p, map_size(e, d->a), map_size(e, d->b));
  case IE_POISON: break;
  }
  return p->poison;
}

Dim elem_named_dim(ElementBuilder *e, Dim d, bool own) {
  return own && !known_as(e, d) ? elem_own_dim(e, d) : map_size(e, d);
}
