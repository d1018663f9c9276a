// digits.c -- loop variables that are divided or reduced modulo a constant, as sums of digits.
//
// Lowering numbers work items through and gets its coordinates back by floor(i/W) and mod(i, W).
// Every nest of these over one variable is floor(i/d), or floor(i/d) mod m, with d and m free of
// loop variables.  Where all d and d*m divide one another in a chain 1 | d1 | d2 ..., the digit
// between two of them is a variable of its own, and each such nest is a sum of digits.  What does
// not fit into the chain is left as it is.
#include "loop/verify.h"

void digits_init(DigitMap *m, IntPool *pool, Arena *a) {
  memset(m, 0, sizeof *m);
  m->pool = pool;
  m->arena = a;
  intmap_init(&m->of, a);
  intmap_init(&m->seen, a);
  intmap_init(&m->done, a);
}

void digits_var(DigitMap *m, Dim sym, Dim extent) {
  Digits d = {.sym = sym, .extent = extent, .n = 1};
  d.unit[0] = m->pool->one;
  vec_push(m->arena, &m->var, d);
  intmap_put(&m->of, (uint64_t)sym->slot, (uint64_t)m->var.n);
}

static Digits *find(const DigitMap *m, Dim sym) {
  uint64_t at = 0;
  if (sym->kind != IE_SYM || !intmap_get(&m->of, (uint64_t)sym->slot, &at)) return NULL;
  return &m->var.v[at - 1];
}

const Digits *digits_of(const DigitMap *m, Dim sym) { return find(m, sym); }

static bool has_var(const DigitMap *m, Dim e) {
  if (e->kind == IE_SYM) return find(m, e) != NULL;
  if (e->kind == IE_CONST || e->kind == IE_POISON) return false;
  if (e->kind != IE_SUM) return has_var(m, e->a) || has_var(m, e->b);
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++)
      if (has_var(m, e->term[i].atom[j])) return true;
  return false;
}

// At least 1 in every work item: a factor of their number is.
static bool positive(const DigitMap *m, Dim e) {
  if (e->lo >= 1) return true;
  if (!m->items) return false;
  if (dim_forced(m->pool, e, m->items)) return true;
  if (e->nterms != 1 || e->term[0].coef <= 0) return false;
  for (int i = 0; i < e->term[0].natoms; i++)
    if (e->term[0].atom[i]->lo < 1 && !dim_forced(m->pool, e->term[0].atom[i], m->items))
      return false;
  return true;
}

// One unit in another that it divides.
static Dim in_units(IntPool *p, Dim e, Dim unit) {
  Dim q = dim_quotient(p, e, unit);
  return q ? q : ie_div(p, e, unit);
}

// e as floor(i/d) mod m; `mod` NULL: without the remainder.
static Digits *as_part(const DigitMap *m, Dim e, Dim *d, Dim *mod) {
  IntPool *p = m->pool;
  if (e->kind == IE_SYM) {
    *d = p->one;
    *mod = NULL;
    return find(m, e);
  }
  if (e->kind != IE_DIV && e->kind != IE_MOD) return NULL;
  Digits *v = as_part(m, e->a, d, mod);
  Dim b = e->b;
  if (!v || !positive(m, b) || has_var(m, b)) return NULL;
  if (e->kind == IE_MOD) {
    if (!*mod || dim_divides(p, b, *mod)) *mod = b;
    return dim_divides(p, *mod, b) ? v : NULL;
  }
  if (*mod && !dim_divides(p, b, *mod)) return NULL;
  if (*mod) *mod = in_units(p, *mod, b);
  *d = ie_mul(p, *d, b);
  return ie_is_poison(*d) ? NULL : v;
}

static void add_unit(DigitMap *m, Digits *v, Dim unit) {
  int at = v->n;
  if (ie_is_poison(unit)) return;
  for (int i = 0; i < v->n; i++)
    if (v->unit[i] == unit) return;
  while (at > 1 && !dim_divides(m->pool, v->unit[at - 1], unit)) at--;
  bool fits = at == v->n || dim_divides(m->pool, unit, v->unit[at]);
  if (!fits || v->n == DIGITS_MAX) return;
  memmove(&v->unit[at + 1], &v->unit[at], (size_t)(v->n - at) * sizeof v->unit[0]);
  v->unit[at] = unit;
  v->n++;
}

void digits_collect(DigitMap *m, Dim e) {
  uint64_t seen;
  Dim d, mod;
  if (e->kind == IE_CONST || e->kind == IE_SYM || e->kind == IE_POISON) return;
  if (intmap_get(&m->seen, e->id, &seen)) return;
  intmap_put(&m->seen, e->id, 1);
  Digits *v = as_part(m, e, &d, &mod);
  if (v) {
    add_unit(m, v, d);
    if (mod) add_unit(m, v, ie_mul(m->pool, d, mod));
    return;
  }
  if (e->kind != IE_SUM) {
    digits_collect(m, e->a);
    digits_collect(m, e->b);
    return;
  }
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++) digits_collect(m, e->term[i].atom[j]);
}

// A symbol of this range that nothing else uses.
static Dim new_digit(DigitMap *m, const Digits *v, int at, Dim extent) {
  if (ie_is(extent, 1)) return m->pool->zero;
  int64_t hi = loop_sym_hi(extent);
  const char *name =
      str_printf(m->arena, "%.*s/%d", STR_ARG(((Str){v->sym->name, v->sym->value})), at);
  for (;;) {
    Dim s = ie_sym(m->pool, str_of(name), 0, hi);
    if (ie_is_poison(s) || (s->lo == 0 && s->hi == hi)) return s;
    name = str_printf(m->arena, "%s'", name);
  }
}

void digits_settle(DigitMap *m) {
  for (int64_t i = 0; i < m->var.n; i++) {
    Digits *v = &m->var.v[i];
    Dim extent = digits_apply(m, v->extent);
    if (v->n == 1) {
      v->digit[0] = v->sym;
      v->size[0] = extent;
      continue;
    }
    for (int j = 0; j < v->n; j++) {
      bool top = j == v->n - 1;
      Dim whole = dim_quotient(m->pool, extent, v->unit[j]);
      if (top)
        v->size[j] = whole ? whole : ie_ceildiv(m->pool, extent, v->unit[j]);
      else
        v->size[j] = in_units(m->pool, v->unit[j + 1], v->unit[j]);
      v->digit[j] = new_digit(m, v, j, v->size[j]);
    }
  }
}

// The digits from unit d on, below unit d*mod, counted in d; NULL where these are not of the chain.
static Dim sum_digits(DigitMap *m, const Digits *v, Dim d, Dim mod) {
  Dim end = mod ? ie_mul(m->pool, d, mod) : NULL, out = m->pool->zero;
  int from = -1, to = mod ? -1 : v->n;
  for (int i = 0; i < v->n; i++) {
    if (v->unit[i] == d) from = i;
    if (v->unit[i] == end) to = i;
  }
  if (from < 0 || to < 0) return NULL;
  for (int i = from; i < to; i++)
    out = ie_add(m->pool, out, ie_mul(m->pool, v->digit[i], in_units(m->pool, v->unit[i], d)));
  return out;
}

static Dim rebuild(DigitMap *m, Dim e) {
  IntPool *p = m->pool;
  if (e->kind == IE_SUM) {
    Dim sum = p->zero;
    for (int i = 0; i < e->nterms; i++) {
      Dim term = ie_const(p, e->term[i].coef);
      for (int j = 0; j < e->term[i].natoms; j++)
        term = ie_mul(p, term, digits_apply(m, e->term[i].atom[j]));
      sum = ie_add(p, sum, term);
    }
    return sum;
  }
  Dim a = digits_apply(m, e->a), b = digits_apply(m, e->b);
  if (e->kind == IE_DIV) return ie_div(p, a, b);
  if (e->kind == IE_MOD) return ie_mod(p, a, b);
  if (e->kind == IE_MIN) return ie_min(p, a, b);
  if (e->kind == IE_MAX) return ie_max(p, a, b);
  return ie_bcast(p, a, b);
}

Dim digits_apply(DigitMap *m, Dim e) {
  uint64_t done;
  Dim d, mod, out = NULL;
  if (e->kind == IE_CONST || e->kind == IE_POISON) return e;
  if (intmap_get(&m->done, e->id, &done)) return (Dim)(uintptr_t)done;
  const Digits *v = as_part(m, e, &d, &mod);
  if (v && v->n > 1) out = sum_digits(m, v, d, mod);
  if (!out) out = e->kind == IE_SYM ? e : rebuild(m, e);
  intmap_put(&m->done, e->id, (uint64_t)(uintptr_t)out);
  return out;
}
