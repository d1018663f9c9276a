// dimmap.c -- write the dimensions of one pool in another.
//
// Fresh symbols are numbered as they are made, which no text can repeat.  So the printer renames
// them in order of appearance, in a pool of its own, and the parser reads names into such a pool
// and ties them to the symbols that inference made.  An expression is rebuilt by the pool's own
// constructors: its canonical form follows from the names, and equal means same pointer again.
#include "ir/text.h"

#include <stdlib.h>

void dimmap_init(DimMap *m, IntPool *to, Arena *a) {
  m->to = to;
  m->arena = a;
  intmap_init(&m->done, a);
}

void dimmap_bind(DimMap *m, Dim from, Dim to) {
  intmap_put(&m->done, from->id, (uint64_t)(uintptr_t)to);
}

bool dimmap_has(const DimMap *m, Dim from) {
  uint64_t unused;
  return intmap_get(&m->done, from->id, &unused);
}

static Dim apply_sum(DimMap *m, Dim d) {
  Dim *term = arena_array(m->arena, Dim, d->nterms);
  for (int i = 0; i < d->nterms; i++) {
    term[i] = ie_const(m->to, d->term[i].coef);
    for (int j = 0; j < d->term[i].natoms; j++)
      term[i] = ie_mul(m->to, term[i], dimmap_apply(m, d->term[i].atom[j]));
  }
  return ie_sum(m->to, term, d->nterms);
}

static Dim apply_new(DimMap *m, Dim d) {
  switch ((IntExprKind)d->kind) {
  case IE_CONST: return ie_const(m->to, d->value);
  case IE_SYM:
    return d->fresh ? m->to->poison : ie_sym(m->to, (Str){d->name, d->value}, d->lo, d->hi);
  case IE_SUM: return apply_sum(m, d);
  case IE_DIV: return ie_div(m->to, dimmap_apply(m, d->a), dimmap_apply(m, d->b));
  case IE_MOD: return ie_mod(m->to, dimmap_apply(m, d->a), dimmap_apply(m, d->b));
  case IE_MIN: return ie_min(m->to, dimmap_apply(m, d->a), dimmap_apply(m, d->b));
  case IE_MAX: return ie_max(m->to, dimmap_apply(m, d->a), dimmap_apply(m, d->b));
  case IE_BCAST: return ie_bcast(m->to, dimmap_apply(m, d->a), dimmap_apply(m, d->b));
  case IE_POISON: break;
  }
  return m->to->poison;
}

Dim dimmap_apply(DimMap *m, Dim d) {
  uint64_t known;
  if (intmap_get(&m->done, d->id, &known)) return (Dim)(uintptr_t)known;
  Dim out = apply_new(m, d);
  if (!(d->kind == IE_SYM && d->fresh)) dimmap_bind(m, d, out);
  return out;
}

static void add_symbols(Dim d, IntMap *seen, Arena *a, DimVec *out) {
  uint64_t unused;
  if (d->kind == IE_CONST || d->kind == IE_POISON || intmap_get(seen, d->id, &unused)) return;
  intmap_put(seen, d->id, 1);
  if (d->kind == IE_SYM) {
    vec_push(a, out, d);
  } else if (d->kind == IE_SUM) {
    for (int i = 0; i < d->nterms; i++)
      for (int j = 0; j < d->term[i].natoms; j++) add_symbols(d->term[i].atom[j], seen, a, out);
  } else {
    add_symbols(d->a, seen, a, out);
    add_symbols(d->b, seen, a, out);
  }
}

static int by_slot(const void *a, const void *b) {
  int32_t x = (*(const Dim *)a)->slot, y = (*(const Dim *)b)->slot;
  return (x > y) - (x < y);
}

void dim_symbols(Dim d, IntMap *seen, Arena *a, DimVec *out) {
  int64_t first = out->n;
  add_symbols(d, seen, a, out);
  if (out->n - first > 1) qsort(out->v + first, (size_t)(out->n - first), sizeof(Dim), by_slot);
}

Str fresh_hint(Dim fresh) {
  Str s = {fresh->name, fresh->value};
  int64_t n = s.n;
  while (n > 0 && s.p[n - 1] >= '0' && s.p[n - 1] <= '9') n--;
  if (n > 1 && n < s.n && s.p[n - 1] == '_') s.n = n - 1;
  return s;
}
