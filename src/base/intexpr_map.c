// intexpr_map.c -- an expression with its symbols replaced, rebuilt by the pool's own constructors.
#include "base/intexpr.h"

static Dim map_sum(IntPool *to, Dim d, IntLeaf *leaf, void *ctx) {
  Dim sum = to->zero;
  for (int i = 0; i < d->nterms; i++) {
    Dim term = ie_const(to, d->term[i].coef);
    for (int k = 0; k < d->term[i].natoms; k++)
      term = ie_mul(to, term, ie_map(to, d->term[i].atom[k], leaf, ctx));
    sum = ie_add(to, sum, term);
  }
  return sum;
}

Dim ie_map(IntPool *to, Dim d, IntLeaf *leaf, void *ctx) {
  switch ((IntExprKind)d->kind) {
  case IE_CONST: return ie_const(to, d->value);
  case IE_SYM: return leaf(ctx, d);
  case IE_SUM: return map_sum(to, d, leaf, ctx);
  case IE_DIV: return ie_div(to, ie_map(to, d->a, leaf, ctx), ie_map(to, d->b, leaf, ctx));
  case IE_MOD: return ie_mod(to, ie_map(to, d->a, leaf, ctx), ie_map(to, d->b, leaf, ctx));
  case IE_MIN: return ie_min(to, ie_map(to, d->a, leaf, ctx), ie_map(to, d->b, leaf, ctx));
  case IE_MAX: return ie_max(to, ie_map(to, d->a, leaf, ctx), ie_map(to, d->b, leaf, ctx));
  case IE_BCAST: return ie_bcast(to, ie_map(to, d->a, leaf, ctx), ie_map(to, d->b, leaf, ctx));
  case IE_POISON: break;
  }
  return to->poison;
}
