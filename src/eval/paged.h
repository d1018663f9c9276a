// paged.h -- attributes and reference evaluation of the ops on a paged KV cache.
//
// Keys and values of all sequences lie in pages of LLM_PAGE positions.  A state is [pages, heads,
// LLM_PAGE, size]; a slot is page * LLM_PAGE + position in the page.  A row is a token of any
// sequence.
#ifndef TENON_EVAL_PAGED_H
#define TENON_EVAL_PAGED_H

#include "eval/eval.h"

enum { LLM_PAGE = 32 };
// Keys of a split, counted from position 0: the softmax of each is formed by itself, and they are
// joined in order.  So a row's bits depend on its keys and its position alone.
enum { PAGED_SPLIT = 256 };

// clang-format off
#define PAGED_ATTENTION_ATTRS(A, C, T)                                                             \
  A(T, f64, scale,   -1.0, "factor of the scores; below 0: 1 / sqrt(head size)")                   \
  A(T, i64, window,  0,    "keys that a row sees, its own the last; 0: all")                       \
  A(T, f64, softcap, 0.0,  "scores become softcap tanh(score / softcap), if > 0")
// clang-format on
ATTR_STRUCT(paged_attention, PAGED_ATTENTION_ATTRS);
EvalFn eval_kv_append, eval_paged_attention;

#endif
