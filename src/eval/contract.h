// contract.h -- contractions: dot, matrix products, einsum, convolutions, and what is near them.
#ifndef TENON_EVAL_CONTRACT_H
#define TENON_EVAL_CONTRACT_H

#include "eval/order.h"
#include "eval/window.h"

// clang-format off
#define DOT_ATTRS(A, C, T)                                                                         \
  A(T, i64s,  batch_lhs,    ,  "axes of lhs that pair with batch_rhs and stay")                    \
  A(T, i64s,  batch_rhs,    ,  "axes of rhs that pair with batch_lhs and stay")                    \
  A(T, i64s,  contract_lhs, ,  "axes of lhs that pair with contract_rhs and are summed over")      \
  A(T, i64s,  contract_rhs, ,  "axes of rhs that pair with contract_lhs and are summed over")      \
  A(T, dtype, out_dtype,    0, "type of the result; the operands' when none")
#define GEMM_ATTRS(A, C, T)                                                                        \
  A(T, f64,  alpha,  1,     "factor of the product")                                               \
  A(T, f64,  beta,   1,     "factor of c")                                                         \
  A(T, bool, transA, false, "use a transposed")                                                    \
  A(T, bool, transB, false, "use b transposed")
#define EINSUM_ATTRS(A, C, T)                                                                      \
  A(T, str,  equation, "",  "terms of index letters, such as \"ij,jk->ik\"")
#define CONV_ATTRS(A, C, T)                                                                        \
  C(T, auto_pad, AUTO_PAD_WORDS, PAD_NOTSET, "how the pads are found")                             \
  A(T, i64s, dilations,    ,  "distance between taps, 1 by default")                               \
  A(T, i64,  group,        1, "channels are split into as many independent parts")                 \
  A(T, i64s, kernel_shape, ,  "taps along each spatial axis; from w by default")                   \
  A(T, i64s, pads,         ,  "begins, then ends; 0 by default")                                   \
  A(T, i64s, strides,      ,  "step between windows, 1 by default")                               \
  CHANNELS_LAST_ATTR(A, T)
#define CONV_TRANSPOSE_ATTRS(A, C, T)                                                              \
  C(T, auto_pad, AUTO_PAD_WORDS, PAD_NOTSET, "how the pads are found")                             \
  A(T, i64s, dilations,      ,  "distance between taps, 1 by default")                             \
  A(T, i64,  group,          1, "channels are split into as many independent parts")               \
  A(T, i64s, kernel_shape,   ,  "taps along each spatial axis; from w by default")                 \
  A(T, i64s, output_padding, ,  "extra size at the end of each axis")                              \
  A(T, i64s, output_shape,   ,  "spatial sizes of the result; pads are found from them")           \
  A(T, i64s, pads,           ,  "begins, then ends, taken off the result; 0 by default")           \
  A(T, i64s, strides,        ,  "step between windows, 1 by default")                             \
  CHANNELS_LAST_ATTR(A, T)
#define DEFORM_CONV_ATTRS(A, C, T)                                                                 \
  A(T, i64s, dilations,    ,  "distance between taps, 1 by default")                               \
  A(T, i64,  group,        1, "channels are split into as many independent parts")                 \
  A(T, i64s, kernel_shape, ,  "taps along each spatial axis; from w by default")                   \
  A(T, i64,  offset_group, 1, "channels are split into as many parts with their own offsets")      \
  A(T, i64s, pads,         ,  "begins, then ends; 0 by default")                                   \
  A(T, i64s, strides,      ,  "step between windows, 1 by default")
#define CAUSAL_CONV_WITH_STATE_ATTRS(A, C, T)                                                      \
  C(T, activation, "none|silu|swish", 0, "applied to the sums")
#define COL2IM_ATTRS(A, C, T)                                                                      \
  A(T, i64s, dilations, ,  "distance between taps, 1 by default")                                  \
  A(T, i64s, pads,      ,  "begins, then ends; 0 by default")                                      \
  A(T, i64s, strides,   ,  "step between windows, 1 by default")
// clang-format on
ATTR_STRUCT(dot, DOT_ATTRS);
ATTR_STRUCT(gemm, GEMM_ATTRS);
ATTR_STRUCT(einsum, EINSUM_ATTRS);
ATTR_STRUCT(conv, CONV_ATTRS);
ATTR_STRUCT(conv_transpose, CONV_TRANSPOSE_ATTRS);
ATTR_STRUCT(deform_conv, DEFORM_CONV_ATTRS);
ATTR_STRUCT(causal_conv_with_state, CAUSAL_CONV_WITH_STATE_ATTRS);
ATTR_STRUCT(col2im, COL2IM_ATTRS);
EvalFn eval_dot, eval_mat_mul, eval_gemm, eval_einsum, eval_conv, eval_conv_transpose,
    eval_conv_integer, eval_mat_mul_integer, eval_q_linear_conv, eval_q_linear_mat_mul,
    eval_deform_conv, eval_det, eval_causal_conv_with_state, eval_col2im;

// ---- pieces shared with the ops' inference ---- Sizes of a transposed convolution along one axis;
// false when they do not fit.  *out_lo is the pad at the beginning.  output_shape < 0: not given.
bool conv_transpose_axis(int auto_pad, int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                         int64_t pad_lo, int64_t pad_hi, int64_t output_padding,
                         int64_t output_shape, int64_t *out_size, int64_t *out_lo);

enum { EINSUM_LETTERS = 52, EINSUM_LABELS = EINSUM_LETTERS + MAX_RANK, EINSUM_MAX_OPERANDS = 64 };
// An equation worked out for operands of given ranks.  Labels 0..51 are letters, those above are
// the dimensions that an ellipsis stands for, right-aligned.
typedef struct Einsum {
  int nops, nout;
  int nlabels[EINSUM_MAX_OPERANDS];
  uint8_t label[EINSUM_MAX_OPERANDS][MAX_RANK];
  uint8_t out[MAX_RANK];
} Einsum;
// rank[i] < 0: not known (then the term must have no ellipsis).  Returns NULL when sound, else what
// is wrong, with *out_at the position in the equation.
const char *einsum_parse(Str equation, int nops, const int *rank, Einsum *out, int64_t *out_at);

#endif
