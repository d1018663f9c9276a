// memory.c -- peak memory, as a number and as a formula.
//
// The plan (plan.h) says from which step to which each buffer lives.  At given sizes the peak is
// the largest sum over the steps.  As a formula it is the largest of the steps' sums, of which most
// are never larger than another one, whatever the sizes: those are left out when the difference can
// be shown not to be negative.
//
// Guarantees: `formula` at the given sizes is `bytes`; the largest of `any`, where there are some,
//             is the peak at all sizes of at least 1.
#include "analyse/analyse.h"
#include "plan/plan.h"

enum { FORMULA_TERMS = 64 };  // beyond, no formula is looked for

typedef struct Peak {
  const MemPlan *p;
  Graph *g;
  int64_t *change;  // by step
  int32_t at;
} Peak;

static bool size_of(const DimBinding *b, Dim d, int64_t *out) {
  return ie_eval(d, b->value, b->known, b->n, out);
}

static bool find_peak(Peak *k, const DimBinding *sizes, MemoryUse *out) {
  const MemPlan *p = k->p;
  for (int32_t i = 0; i < p->n; i++) {
    const PlanBuffer *x = &p->buffer[i];
    int64_t size;
    if (!plan_has_place(p, i)) continue;
    if (!size_of(sizes, x->bytes, &size) ||
        !ck_add(k->change[x->live_first], size, &k->change[x->live_first]) ||
        !ck_sub(k->change[x->live_last + 1], size, &k->change[x->live_last + 1]))
      return false;
  }
  int64_t live = 0;
  for (int32_t s = 0; s <= p->nsteps; s++) {
    if (!ck_add(live, k->change[s], &live)) return false;
    if (live > out->bytes) {
      out->bytes = live;
      k->at = s;
    }
  }
  return true;
}

static const Node *node_of_step(const MemPlan *p, int32_t step) {
  for (int32_t i = 0; i < p->n; i++)
    if (p->buffer[i].first == step) return p->buffer[i].node;
  return NULL;
}

// The sum of what lives at the peak.
static Dim formula_at(Peak *k, Arena *a) {
  const MemPlan *p = k->p;
  VEC(Dim) live = {0};
  for (int32_t i = 0; i < p->n; i++) {
    const PlanBuffer *x = &p->buffer[i];
    if (plan_has_place(p, i) && x->live_first <= k->at && k->at <= x->live_last)
      vec_push(a, &live, x->bytes);
  }
  return ie_sum(&k->g->dims, live.v, live.n);
}

// Whether every atom of `part` is one of `whole`; both are sorted.
static bool divides(const IntTerm *part, const IntTerm *whole) {
  int i = 0;
  for (int k = 0; i < part->natoms && k < whole->natoms; k++) i += part->atom[i] == whole->atom[k];
  return i == part->natoms;
}

static bool at_least_one(const IntTerm *t) {
  for (int i = 0; i < t->natoms; i++)
    if (t->atom[i]->lo < 1 && (t->atom[i]->kind != IE_SYM || t->atom[i]->fresh)) return false;
  return true;
}

// No more than c times the atom, and simpler: floor(e/k) lies in [(e - k + 1)/k, e/k]; a minimum is
// at most either of its sides, a maximum at least.  NULL when nothing simpler is known.
static Dim bound_below(IntPool *p, Dim atom, int64_t c) {
  if (atom->kind == IE_DIV && ie_is_const(atom->b)) {
    int64_t k = atom->b->value;
    if (k < 1 || c % k) return NULL;
    return ie_mulc(p, c > 0 ? ie_addc(p, atom->a, 1 - k) : atom->a, c / k);
  }
  if ((atom->kind == IE_MIN && c < 0) || (atom->kind == IE_MAX && c > 0))
    return ie_mulc(p, ie_is_const(atom->a) ? atom->b : atom->a, c);
  return NULL;
}

static Dim simpler(IntPool *p, Dim d) {
  Dim sum = d;
  for (int i = 0; i < d->nterms; i++) {
    const IntTerm *t = &d->term[i];
    Dim bound = t->natoms == 1 ? bound_below(p, t->atom[0], t->coef) : NULL;
    if (bound) sum = ie_add(p, sum, ie_sub(p, bound, ie_mulc(p, t->atom[0], t->coef)));
  }
  return sum;
}

// Whether d >= 0 for all sizes of at least 1: each negative term must be outweighed by positive
// ones that are multiples of it.
static bool not_negative(Dim d) {
  int64_t left[FORMULA_TERMS * 2];
  if (ie_is_poison(d) || d->nterms > ARRAY_LEN(left)) return false;
  if (d->lo >= 0) return true;
  for (int i = 0; i < d->nterms; i++) left[i] = MAX(d->term[i].coef, 0);
  for (int i = 0; i < d->nterms; i++) {
    if (d->term[i].coef >= 0) continue;
    if (d->term[i].coef == INT64_MIN) return false;
    int64_t need = -d->term[i].coef;
    for (int k = 0; need && k < d->nterms; k++) {
      if (!left[k] || !divides(&d->term[i], &d->term[k]) || !at_least_one(&d->term[k])) continue;
      int64_t taken = MIN(left[k], need);
      left[k] -= taken;
      need -= taken;
    }
    if (need) return false;
  }
  for (int i = 0; i < d->nterms; i++)  // what is left over must not be negative either
    for (int k = 0; left[i] && k < d->term[i].natoms; k++)
      if (d->term[i].atom[k]->lo < 0) return false;
  return true;
}

static bool never_above(Graph *g, Dim a, Dim b) {
  enum { ROUNDS = 3 };  // a minimum inside a quotient shows once the quotient is gone
  Dim d = ie_sub(&g->dims, b, a);
  for (int i = 0; i < ROUNDS && !ie_is_poison(d); i++) {
    if (not_negative(d)) return true;
    Dim next = simpler(&g->dims, d);
    if (next == d) return false;
    d = next;
  }
  return not_negative(d);
}

// Keeps the formulas of which none is known to be below another.  False when there are too many.
static bool keep_largest(Graph *g, Dim d, MemoryUse *out) {
  int n = 0;
  for (int i = 0; i < out->nany; i++)
    if (never_above(g, d, out->any[i])) return true;
  for (int i = 0; i < out->nany; i++)
    if (!never_above(g, out->any[i], d)) out->any[n++] = out->any[i];
  out->nany = n;
  if (n == MEMORY_FORMULAS) return false;
  out->any[out->nany++] = d;
  return true;
}

// The sums of all steps, one after the other.
static bool formulas(Peak *k, Arena *a, MemoryUse *out) {
  const MemPlan *p = k->p;
  IntPool *pool = &k->g->dims;
  typedef VEC(Dim) Dims;
  Dims *begins = arena_array(a, Dims, p->nsteps + 2), *ends = arena_array(a, Dims, p->nsteps + 2);
  for (int32_t i = 0; i < p->n; i++) {
    const PlanBuffer *x = &p->buffer[i];
    if (!plan_has_place(p, i)) continue;
    vec_push(a, &begins[x->live_first], x->bytes);
    vec_push(a, &ends[x->live_last + 1], x->bytes);
  }
  IntMap seen;
  intmap_init(&seen, a);
  Dim live = pool->zero;
  if (!keep_largest(k->g, out->formula, out)) return false;
  for (int32_t s = 0; s <= p->nsteps; s++) {
    uint64_t have;
    live = ie_add(pool, live, ie_sum(pool, begins[s].v, begins[s].n));
    live = ie_sub(pool, live, ie_sum(pool, ends[s].v, ends[s].n));
    if (ie_is_poison(live) || live->nterms > FORMULA_TERMS) return false;
    if (intmap_get(&seen, live->id, &have)) continue;
    intmap_put(&seen, live->id, 1);
    if (!keep_largest(k->g, live, out)) return false;
  }
  return true;
}

static int64_t count_heap(const MemPlan *p) {
  int64_t n = 0;
  for (int64_t i = 0; i < p->order.n; i++) {
    const Node *x = p->order.v[i];
    if (x->op == OP_const || x->op == OP_param || x->op == OP_proj || x->op == OP_none) continue;
    for (int k = 0; k < x->nres; k++) n += plan_find(p, x, k) < 0;
  }
  return n;
}

void analyse_memory(const MemPlan *p, const DimBinding *sizes, Arena *a, MemoryUse *out) {
  Graph *g = p->g;
  *out = (MemoryUse){0};
  Peak k = {.p = p, .g = g, .change = arena_array(a, int64_t, p->nsteps + 2), .at = -1};
  out->nheap = count_heap(p);
  out->nsteps = p->nsteps;
  out->nconcurrent = p->nconcurrent;
  out->import_bytes = p->import_bytes;
  out->reference_bytes = p->bound_bytes;
  if (!find_peak(&k, sizes, out)) return;
  int64_t *offset = arena_array(a, int64_t, p->n), *size = arena_array(a, int64_t, p->n);
  out->known =
      plan_layout(p, sizes->value, sizes->known, sizes->n, offset, size, &out->arena_bytes);
  out->formula = k.at < 0 ? g->dims.zero : formula_at(&k, a);
  out->at = k.at < 0 ? NULL : node_of_step(p, k.at);
  if (ie_is_poison(out->formula)) {
    out->formula = NULL;
    return;
  }
  if (!formulas(&k, a, out)) out->nany = 0;
}

void memory_print_formula(StrBuf *b, const MemoryUse *m) {
  if (m->nany < 2) {
    ie_print(b, m->nany ? m->any[0] : m->formula);
    return;
  }
  strbuf_puts(b, "max(");
  for (int i = 0; i < m->nany; i++) {
    if (i) strbuf_puts(b, ", ");
    ie_print(b, m->any[i]);
  }
  strbuf_putc(b, ')');
}
