// elementwise.h -- walking broadcast operands in blocks; shared by the element-wise evaluations.
#ifndef TENON_EVAL_ELEMENTWISE_H
#define TENON_EVAL_ELEMENTWISE_H

#include "eval/eval.h"

enum { EW_BLOCK = 512, EW_MAX_IN = 8 };

// Operands laid against a result shape.
typedef struct Broadcast {
  int rank, n;
  int64_t dims[MAX_RANK], count;
  const Value *in[EW_MAX_IN];
  // The result's axes without those of one element, and with those as one that every operand goes
  // through as through one.
  int axes;
  int64_t size[MAX_RANK], stride[EW_MAX_IN][MAX_RANK];
  bool dense[EW_MAX_IN];  // same shape as the result
} Broadcast;
MUST_USE tenon_status broadcast_init(Eval *e, const Value *const *in, int n, Broadcast *b);
// Elements [begin, begin+n) of operand k, in result order; n <= EW_BLOCK.
void broadcast_f64(const Broadcast *b, int k, int64_t begin, int64_t n, double *out);
void broadcast_i64(const Broadcast *b, int k, int64_t begin, int64_t n, int64_t *out);
// Linear element index of operand k for each of [begin, begin+n).
void broadcast_index(const Broadcast *b, int k, int64_t begin, int64_t n, int64_t *out);

// A float function of one operand, with its attributes: the result has the operand's type.
typedef void UnaryBlock(const void *attrs, double *x, int64_t n);
MUST_USE tenon_status eval_unary_f64(Eval *e, UnaryBlock *fn);

#endif
