// fuse.h -- a kernel as an op: its body is what one launch computes.
#ifndef TENON_EVAL_FUSE_H
#define TENON_EVAL_FUSE_H

#include "eval/eval.h"

#define FUSED_ATTRS(A, C, T)                                                                       \
  C(T, kind, "pointwise|contraction|reduction|window|attention|recurrent|movement|host|view", 0,   \
    "what the kernel is built around")                                                             \
  A(T, body, body, 0, "what it computes: one parameter an operand, one result a result")
ATTR_STRUCT(fused, FUSED_ATTRS);
typedef enum {
  FUSED_POINTWISE,
  FUSED_CONTRACTION,
  FUSED_REDUCTION,
  FUSED_WINDOW,
  FUSED_ATTENTION,
  FUSED_RECURRENT,
  FUSED_MOVEMENT,
  FUSED_HOST,
  FUSED_VIEW  // the same bytes under another shape: nothing is launched
} FusedKind;
EvalFn eval_fused;

#endif
