// span.c -- what a float expression is known to lie in, from the operations that bound it: for conversions to integers.
#include "loop/span.h"

#include <math.h>

static LoopSpan span_of(const LoopExpr *x, int depth);

// The text of a kernel shares no constants.
static bool same_value(const LoopExpr *a, const LoopExpr *b) {
  return a == b || (a->kind == LX_CONST && b->kind == LX_CONST && a->f == b->f);
}

// select(a < b, b, a) and select(a < b, a, b): where the comparison does not hold, and NaN makes it not hold, the result is
// the operand that is last.
static LoopSpan select_span(const LoopExpr *x, int depth) {
  const LoopExpr *c = x->src[0], *yes = x->src[1], *no = x->src[2];
  LoopSpan p = span_of(yes, depth), q = span_of(no, depth);
  bool less = c->kind == LX_OP && c->op == LOOP_lt;
  if (less && same_value(c->src[0], no) && same_value(c->src[1], yes))
    return (LoopSpan){q.lo, fmax(p.hi, q.hi), q.nan};
  if (less && same_value(c->src[0], yes) && same_value(c->src[1], no))
    return (LoopSpan){fmin(p.lo, q.lo), q.hi, q.nan};
  return (LoopSpan){fmin(p.lo, q.lo), fmax(p.hi, q.hi), p.nan || q.nan};
}

static LoopSpan span_of(const LoopExpr *x, int depth) {
  const LoopSpan any = {-INFINITY, INFINITY, true};
  if (x->kind == LX_CONST) return (LoopSpan){x->f, x->f, isnan(x->f)};
  if (depth > 8 || x->kind != LX_OP) return any;
  LoopSpan p, q;
  switch ((int)x->op) {
  case LOOP_min:
  case LOOP_max:
    p = span_of(x->src[0], depth + 1);
    q = span_of(x->src[1], depth + 1);
    if (x->op == LOOP_min) return (LoopSpan){fmin(p.lo, q.lo), fmin(p.hi, q.hi), p.nan || q.nan};
    return (LoopSpan){fmax(p.lo, q.lo), fmax(p.hi, q.hi), p.nan || q.nan};
  case LOOP_select: return select_span(x, depth + 1);
  case LOOP_round:
  case LOOP_floor:
  case LOOP_ceil:
    p = span_of(x->src[0], depth + 1);
    return (LoopSpan){floor(p.lo), ceil(p.hi), p.nan};
  case LOOP_relu:
    p = span_of(x->src[0], depth + 1);
    return (LoopSpan){fmax(p.lo, 0), fmax(p.hi, 0), p.nan};
  }
  return any;
}

LoopSpan loop_span(const LoopExpr *x) { return span_of(x, 0); }
