// pair.c -- double-double arithmetic as LLVM IR, by error-free sums and products (pair.h).
//
// Needs:      f64 operands of equal lanes, no overflow; no fast-math flags on the builder.
// Guarantees: pair_sum is exact, and so is pair_product, by FMA or by Dekker's split.  The other
//             functions keep about twice the precision of f64.
#include "targets/llvm/pair.h"

Pair pair_sum(Emit *e, LV a, LV b) {
  LV s = ADD(a, b), t = SUB(s, a);
  return (Pair){s, ADD(SUB(a, SUB(s, t)), SUB(b, t))};
}

Pair pair_product(Emit *e, LV x, LV y) {
  LV m = MUL(x, y);
  if (e->m->has_fma) return (Pair){m, intrinsic(e, "llvm.fma", x, 3, x, y, NEG(m))};
  // By Dekker: the halves of a split factor multiply exactly.
  LV c = F64(134217729.0), p = MUL(x, c), q = MUL(y, c);
  LV xh = ADD(SUB(x, p), p), yh = ADD(SUB(y, q), q), xl = SUB(x, xh), yl = SUB(y, yh);
  return (Pair){m, ADD(ADD(ADD(SUB(MUL(xh, yh), m), MUL(xh, yl)), MUL(xl, yh)), MUL(xl, yl))};
}

static Pair tidy(Emit *e, LV hi, LV lo) {  // |hi| >= |lo|
  LV s = ADD(hi, lo);
  return (Pair){s, SUB(lo, SUB(s, hi))};
}

Pair pair_add(Emit *e, Pair a, Pair b) {
  Pair s = pair_sum(e, a.hi, b.hi);
  return tidy(e, s.hi, ADD(s.lo, ADD(a.lo, b.lo)));
}

Pair pair_mul(Emit *e, Pair a, Pair b) {
  Pair p = pair_product(e, a.hi, b.hi);
  return tidy(e, p.hi, ADD(p.lo, ADD(MUL(a.hi, b.lo), MUL(a.lo, b.hi))));
}

Pair pair_div(Emit *e, Pair a, Pair b) {
  LV q = DIV(a.hi, b.hi);
  Pair p = pair_product(e, q, b.hi);
  LV r = SUB(ADD(SUB(SUB(a.hi, p.hi), p.lo), a.lo), MUL(q, b.lo));
  return tidy(e, q, DIV(r, b.hi));
}

Pair pair_sqrt(Emit *e, Pair a) {
  LV x = a.hi, s = fp_sqrt(e, x);
  Pair p = pair_product(e, s, s);
  LV r = DIV(ADD(SUB(SUB(a.hi, p.hi), p.lo), a.lo), ADD(s, s));
  return tidy(e, s, SEL(FCMP(OGT, s, F64(0)), r, F64(0)));
}
