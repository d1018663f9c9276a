// ragged.h -- attributes and reference evaluation of ragged_linear_attention: linear attention over
// rows of several sequences, each with a state of its own.
#ifndef TENON_EVAL_RAGGED_H
#define TENON_EVAL_RAGGED_H

#include "eval/eval.h"

// clang-format off
#define RAGGED_LINEAR_ATTENTION_ATTRS(A, C, T)                                                     \
  A(T, f64, scale, 0.0, "factor of the result; 0: 1 / sqrt(key size)")
// clang-format on
ATTR_STRUCT(ragged_linear_attention, RAGGED_LINEAR_ATTENTION_ATTRS);
EvalFn eval_ragged_linear_attention;

#endif
