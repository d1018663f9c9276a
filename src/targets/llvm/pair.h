// pair.h -- numbers of twice f64's precision, as unevaluated sums; the short names of math.h apply.
#ifndef TENON_TARGETS_LLVM_PAIR_H
#define TENON_TARGETS_LLVM_PAIR_H

#include "targets/llvm/math.h"

typedef struct Pair {
  LV hi, lo;
} Pair;

Pair pair_sum(Emit *e, LV a, LV b);      // exact
Pair pair_product(Emit *e, LV a, LV b);  // exact, short of overflow
Pair pair_add(Emit *e, Pair a, Pair b);
Pair pair_mul(Emit *e, Pair a, Pair b);
Pair pair_div(Emit *e, Pair a, Pair b);
Pair pair_sqrt(Emit *e, Pair a);  // of 0 is 0

#endif
