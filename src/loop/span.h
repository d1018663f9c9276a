// span.h -- what a float expression is known to lie in.
#ifndef TENON_LOOP_SPAN_H
#define TENON_LOOP_SPAN_H

#include "loop/loop.h"

typedef struct LoopSpan {
  double lo, hi;
  bool nan;  // it may be none
} LoopSpan;
LoopSpan loop_span(const LoopExpr *x);

#endif
