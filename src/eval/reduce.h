// reduce.h -- attributes and reference evaluation of the reductions.
#ifndef TENON_EVAL_REDUCE_H
#define TENON_EVAL_REDUCE_H

#include "eval/eval.h"

// All reductions take the same: data, axes? (operand) and these.
#define REDUCE_ATTRS(A, C, T)                                                                      \
  A(T, bool, keepdims, true, "reduced axes stay, with size 1")                                     \
  A(T, bool, noop_with_empty_axes, false, "no axes means none of them, not all")
ATTR_STRUCT(reduce, REDUCE_ATTRS);

EvalFn eval_reduce_sum, eval_reduce_prod, eval_reduce_max, eval_reduce_min, eval_reduce_mean,
    eval_reduce_l1, eval_reduce_l2, eval_reduce_log_sum, eval_reduce_log_sum_exp,
    eval_reduce_sum_square;

#endif
