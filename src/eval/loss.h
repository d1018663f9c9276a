// loss.h -- attributes and reference evaluation of the classification losses.
#ifndef TENON_EVAL_LOSS_H
#define TENON_EVAL_LOSS_H

#include "eval/eval.h"

enum { REDUCTION_NONE, REDUCTION_MEAN, REDUCTION_SUM };

// clang-format off
#define LOSS_ATTRS(A, C, T)                                                                        \
  A(T, opt_i64, ignore_index, , "target that adds nothing; absent: every target counts")            \
  C(T, reduction, "none|mean|sum", REDUCTION_MEAN, "how the losses become one; mean is weighted")
// clang-format on
ATTR_STRUCT(negative_log_likelihood_loss, LOSS_ATTRS);
ATTR_STRUCT(softmax_cross_entropy_loss, LOSS_ATTRS);
EvalFn eval_negative_log_likelihood_loss, eval_softmax_cross_entropy_loss;

#endif
