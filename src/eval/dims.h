// dims.h -- sizes as a tensor: integer expressions over the sizes of the operands.
#ifndef TENON_EVAL_DIMS_H
#define TENON_EVAL_DIMS_H

#include "base/intexpr.h"
#include "eval/eval.h"

#define DIMS_ATTRS(A, C, T)                                                                        \
  A(T, str, sizes, "",                                                                             \
    "expressions separated by commas; x0_1 is the size of axis 1 of the first operand")            \
  A(T, bool, scalar, false, "one number of rank 0, not a list")
ATTR_STRUCT(dims, DIMS_ATTRS);
EvalFn eval_dims;

enum { DIMS_MAX = 1024 };  // most numbers of one list
// The expressions, in the pool; -1 when the text is malformed or has too many.
int64_t dims_parse(IntPool *p, Str sizes, Dim *out);
// "x2_0" is operand 2, axis 0; false for any other name.
bool dims_symbol(Dim sym, int64_t *out_operand, int64_t *out_axis);

#endif
