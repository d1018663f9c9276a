// scalar.h -- evaluation of the scalar ops and of the element-wise ops beside them.
#ifndef TENON_EVAL_SCALAR_H
#define TENON_EVAL_SCALAR_H

#include "eval/eval.h"

// Dtype classes of scalar.def.
enum { SC_F = 1, SC_I = 2, SC_S = 4, SC_B = 8, SC_X = 16, SC_T = 32, SC_MIXED = 64 };

#define SCALAR(name, ...) EvalFn eval_##name;
#include "eval/scalar.def"
#undef SCALAR

#define CAST_ATTRS(A, C, T)                                                                        \
  A(T, dtype, to, TENON_DTYPE_NONE, "result type")                                                 \
  A(T, bool, saturate, true, "out of range becomes the largest value (8-bit floats only)")         \
  C(T, round_mode, "up|down|nearest", 0, "rounding to f8e8m0")
ATTR_STRUCT(cast, CAST_ATTRS);
#define BIT_CAST_ATTRS(A, C, T) A(T, dtype, to, TENON_DTYPE_NONE, "result type, of the same width")
ATTR_STRUCT(bit_cast, BIT_CAST_ATTRS);
#define IS_INF_ATTRS(A, C, T)                                                                      \
  A(T, bool, detect_negative, true, "-inf counts") A(T, bool, detect_positive, true, "+inf counts")
ATTR_STRUCT(is_inf, IS_INF_ATTRS);

EvalFn eval_where, eval_cast, eval_bit_cast, eval_is_inf, eval_clip;

#endif
