// quant.h -- attributes and reference evaluation of linear quantization.
#ifndef TENON_EVAL_QUANT_H
#define TENON_EVAL_QUANT_H

#include "eval/eval.h"

// clang-format off
#define QUANTIZE_LINEAR_ATTRS(A, C, T)                                                             \
  A(T, i64,   axis,         1,    "axis of the scales, when there are several")                    \
  A(T, i64,   block_size,   0,    "elements along the axis that share a scale; 0: no blocks")      \
  A(T, dtype, output_dtype, TENON_DTYPE_NONE, "result type without a zero point; none: u8")        \
  A(T, dtype, precision,    TENON_DTYPE_NONE, "type of the division; none: the scale's")           \
  A(T, bool,  saturate,     true, "out of range becomes the largest value (8-bit floats only)")
#define DEQUANTIZE_LINEAR_ATTRS(A, C, T)                                                           \
  A(T, i64,   axis,         1,    "axis of the scales, when there are several")                    \
  A(T, i64,   block_size,   0,    "elements along the axis that share a scale; 0: no blocks")      \
  A(T, dtype, output_dtype, TENON_DTYPE_NONE, "result type; none: the scale's")
// clang-format on
ATTR_STRUCT(quantize_linear, QUANTIZE_LINEAR_ATTRS);
ATTR_STRUCT(dequantize_linear, DEQUANTIZE_LINEAR_ATTRS);
EvalFn eval_quantize_linear, eval_dequantize_linear, eval_dynamic_quantize_linear;

// A sum of products as a quantised result: times the joined scales in f32, to the nearest integer,
// and saturated.  A sum of integers is wrapped to 32 bits, as runtimes that have an integer
// accumulator do it; one of floats (f8) has a fraction, and may be NaN.
double quant_result(DType t, double sum, bool whole, double scale, double zero);
// The least and greatest value of an integer type of up to 32 bits; false for other types.
bool quant_range(DType t, int64_t *lo, int64_t *hi);

#endif
