// grouped.h -- reference evaluation of products with a matrix of its own for each row.
#ifndef TENON_EVAL_GROUPED_H
#define TENON_EVAL_GROUPED_H

#include "eval/eval.h"

EvalFn eval_grouped_mat_mul;

#endif
