// attention.h -- attributes and reference evaluation of attention and what is built around it.
#ifndef TENON_EVAL_ATTENTION_H
#define TENON_EVAL_ATTENTION_H

#include "eval/eval.h"

typedef enum { QK_RAW, QK_CAPPED, QK_BIASED, QK_SOFTMAX } QkOutput;
// clang-format off
#define ATTENTION_ATTRS(A, C, T)                                                                   \
  A(T, bool,  is_causal,             false, "a query sees no key after its own position")          \
  A(T, i64,   q_num_heads,           0,     "heads of a 3-D query")                                \
  A(T, i64,   kv_num_heads,          0,     "heads of 3-D keys and values")                        \
  A(T, f64,   scale,                 -1.0,  "factor of the scores; below 0: 1 / sqrt(head size)")  \
  A(T, f64,   softcap,               0.0,   "scores become softcap tanh(score / softcap), if > 0") \
  A(T, dtype, softmax_precision,     TENON_DTYPE_NONE, "type that the softmax is rounded to")      \
  A(T, i64,   qk_matmul_output_mode, 0,                                                            \
    "scores to give: 0 raw, 1 after softcap, 2 with the masks, 3 after softmax")                   \
  A(T, i64,   left_window_size,      -1,    "keys seen before a query's position; -1: all")        \
  A(T, i64,   right_window_size,     -1,    "keys seen after a query's position; -1: all")         \
  A(T, bool,  at_end,                false, "the last query stands at the last key")
#define ROTARY_EMBEDDING_ATTRS(A, C, T)                                                            \
  A(T, bool, interleaved,          false, "pairs are neighbours, not the two halves")              \
  A(T, i64,  num_heads,            0,     "heads of a 3-D input")                                  \
  A(T, i64,  rotary_embedding_dim, 0,     "leading elements of a head that turn; 0: all")
#define LINEAR_ATTENTION_ATTRS(A, C, T)                                                            \
  A(T, i64, q_num_heads,  0,   "heads of the query")                                               \
  A(T, i64, kv_num_heads, 0,   "heads of key and value")                                           \
  C(T, update_rule, "linear|gated|delta|gated_delta", 3, "how a step changes the state")           \
  A(T, f64, scale,        0.0, "factor of the output; 0: 1 / sqrt(key size)")                      \
  A(T, i64, chunk_size,   64,  "a hint for the order of work; no effect on the result")
#define SWIGLU_ATTRS(A, C, T) A(T, f64, alpha, 1.0, "factor inside the sigmoid")
// clang-format on
ATTR_STRUCT(attention, ATTENTION_ATTRS);
ATTR_STRUCT(rotary_embedding, ROTARY_EMBEDDING_ATTRS);
ATTR_STRUCT(linear_attention, LINEAR_ATTENTION_ATTRS);
ATTR_STRUCT(swiglu, SWIGLU_ATTRS);
EvalFn eval_attention, eval_rotary_embedding, eval_linear_attention, eval_swiglu;

// update_rule
static inline bool linear_attention_gated(int rule) { return rule == 1 || rule == 3; }
static inline bool linear_attention_delta(int rule) { return rule == 2 || rule == 3; }

#endif
