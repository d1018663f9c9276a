// survey.h -- what a loop's body computes with: how many lanes and how much code it takes is chosen
// by it.
#ifndef TENON_LOOP_SURVEY_H
#define TENON_LOOP_SURVEY_H

#include "loop/loop.h"

typedef struct LoopSurvey {
  int64_t widest;  // bytes of the widest element computed with
  int64_t nodes;   // expressions
  bool tile;       // a register buffer is used
} LoopSurvey;
// Bytes of the widest element that one expression takes beside its own operands; a matter of the
// target.
typedef int64_t LoopWidth(const LoopExpr *x);
LoopSurvey loop_survey(const LoopKernel *k, Arena *a, const LoopStmt *s, LoopWidth *width);
// Whether an expression computes: others are moved as they are, and need no more than their own
// bytes.
bool loop_computes(const LoopExpr *x);
// How much code a kernel asks for: its statements, and the operations and loads of their values,
// with the body of an unrolled loop counted for each of its iterations.  At most INT64_MAX.  A
// budget (LIMIT_KERNEL_STATEMENTS) is compared with it before any code is made.
int64_t loop_statements(const LoopKernel *k);

#endif
