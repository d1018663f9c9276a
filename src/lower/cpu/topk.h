// topk.h -- what the templates of top_k share.
#ifndef TENON_LOWER_CPU_TOPK_H
#define TENON_LOWER_CPU_TOPK_H

#include "lower/element/element.h"
#include "lower/template.h"

typedef struct TopK {
  ElementBuilder e;
  const Node *node;
  const Type *type;  // of what is searched
  int axis;
  int64_t k, n;  // results and elements of a row
  DType key;
  Dim shape[MAX_RANK], index[MAX_RANK];
  Dim result;                          // number of the result at hand
  int32_t keys, last_key, last_place;  // scratch
  int32_t greatest;  // of each block, of what comes after the last result; -1: there are no blocks
  int64_t block;     // keys of one
  int lanes;
  const LoopExpr *value[2];  // of the result at hand, and its place
} TopK;

bool topk_begin(TopK *t, Lowering *lo, const Node *fused);  // false: the kernel is none
bool topk_takes_blocks(const TopK *t);  // a search of one row after the other goes by blocks
// An integer that orders as x does; NaN is the greatest.  Where the least is sought, in reverse.
const LoopExpr *topk_key(TopK *t, const LoopExpr *x);
// The results of the row at `index`, at number `result`; false: an operand has no expression.
bool topk_store(TopK *t);

#endif
