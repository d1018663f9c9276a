// span.c -- what a float expression is known to lie in, from the operations that bound it: for
// conversions to integers.
#include "loop/span.h"

#include <math.h>

enum { SPAN_DEPTH = 14 };

static LoopSpan span_of(const LoopExpr *x, int depth);

// The text of a kernel shares no constants.
static bool same_value(const LoopExpr *a, const LoopExpr *b) {
  return a == b || (a->kind == LX_CONST && b->kind == LX_CONST && a->f == b->f);
}

// select(a < b, b, a) and select(a < b, a, b): where the comparison does not hold, and NaN makes it
// not hold, the result is the operand that is last.
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

// a * b + c within bounds that hold after a rounding too; where they are not finite nothing is
// known.
static LoopSpan product_span(LoopSpan a, LoopSpan b, LoopSpan c) {
  const LoopSpan any = {-INFINITY, INFINITY, true};
  double p[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  double lo = fmin(fmin(p[0], p[1]), fmin(p[2], p[3])) + c.lo;
  double hi = fmax(fmax(p[0], p[1]), fmax(p[2], p[3])) + c.hi;
  if (a.nan || b.nan || c.nan || !(lo > -1e30 && hi < 1e30)) return any;
  double slack = 1e-6 * fmax(fabs(lo), fabs(hi));
  return (LoopSpan){lo - slack, hi + slack, false};
}

// What an integer is known to lie in.
static LoopSpan int_span(const LoopExpr *x, int depth) {
  const LoopSpan any = {-INFINITY, INFINITY, false};
  if (x->kind == LX_CONST) return (LoopSpan){(double)x->i, (double)x->i, false};
  if (x->dtype == DT_U8) return (LoopSpan){0, 255, false};
  if (x->dtype == DT_I8) return (LoopSpan){-128, 127, false};
  if (depth > SPAN_DEPTH || x->kind != LX_OP || x->dtype != DT_I32) return any;
  if (x->op == LOOP_cast) {
    DType from = x->src[0]->dtype;
    bool is_float = from == DT_F32 || from == DT_F64;
    LoopSpan s = is_float ? span_of(x->src[0], depth + 1) : int_span(x->src[0], depth + 1);
    bool fits = !s.nan && s.lo > -0x1p31 && s.hi < 0x1p31 && (is_float || !dtype_is_float(from));
    return fits ? (LoopSpan){floor(s.lo), ceil(s.hi), false} : any;
  }
  if (x->op != LOOP_add && x->op != LOOP_sub) return any;
  LoopSpan p = int_span(x->src[0], depth + 1), q = int_span(x->src[1], depth + 1);
  if (x->op == LOOP_sub) q = (LoopSpan){-q.hi, -q.lo, false};
  bool fits = p.lo + q.lo > -0x1p31 && p.hi + q.hi < 0x1p31;
  return fits ? (LoopSpan){p.lo + q.lo, p.hi + q.hi, false} : any;
}

static LoopSpan span_of(const LoopExpr *x, int depth) {
  const LoopSpan any = {-INFINITY, INFINITY, true}, none = {0, 0, false}, one = {1, 1, false};
  if (x->kind == LX_CONST) return (LoopSpan){x->f, x->f, isnan(x->f)};
  if (depth > SPAN_DEPTH || x->kind != LX_OP) return any;
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
  case LOOP_cast: return dtype_is_float(x->src[0]->dtype) ? any : int_span(x->src[0], depth + 1);
  case LOOP_add:
    return product_span(span_of(x->src[0], depth + 1), one, span_of(x->src[1], depth + 1));
  case LOOP_neg: p = span_of(x->src[0], depth + 1); return (LoopSpan){-p.hi, -p.lo, p.nan};
  case LOOP_mul:
  case LOOP_fma:
    p = span_of(x->src[0], depth + 1);
    q = span_of(x->src[1], depth + 1);
    return product_span(p, q, x->op == LOOP_fma ? span_of(x->src[2], depth + 1) : none);
  case LOOP_relu:
    p = span_of(x->src[0], depth + 1);
    return (LoopSpan){fmax(p.lo, 0), fmax(p.hi, 0), p.nan};
  }
  return any;
}

LoopSpan loop_span(const LoopExpr *x) { return span_of(x, 0); }
