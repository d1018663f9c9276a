// sym.h -- what the families share to follow shapes and the contents of small integer tensors.
#ifndef TENON_OPS_SYM_H
#define TENON_OPS_SYM_H

#include "ir/opinfo.h"

// For an op that only moves elements: result 0's contents, when its integer data operands' contents
// are known as expressions and all its other operands are constants.  Bit i of `data`: operand i is
// data (bit 63: so are all from 63 on).  Runs the op's own evaluation on numbered elements, so it
// cannot disagree with it.  Call it last, when in->type[0] is set.
void sym_move(Infer *in, uint64_t data);

// Result 0 has the same contents as operand 0, in the same order.
void sym_same(Infer *in);

// Whether an element of this type can hold the expression, so that arithmetic on it did not wrap: a
// constant must fit, anything else is taken to fit the types that sizes are computed in.
bool sym_fits(DType t, Dim d);

// Floats have a zero below zero, which no expression can say: may a product be one?
static inline bool sym_may_vanish(Dim d) { return d->lo <= 0 && d->hi >= 0; }
static inline bool sym_may_be_minus_zero(Dim a, Dim b) {
  return (sym_may_vanish(a) && b->lo < 0) || (sym_may_vanish(b) && a->lo < 0);
}

// Elements of a rank-1 operand (1 for rank 0); -1 when not known or the operand is absent.
int64_t infer_length(const Infer *in, int i);

// The integers of operand i, when they are constants.
static inline bool infer_ints(Infer *in, int i, Ints *out) {
  const Node *n = infer_src(in, i);
  *out = (Ints){0};
  return n && node_ints(in->g, n, out);
}
// Operand i must be there and hold integers of rank 0 or 1 (rank unknown passes).
MUST_USE tenon_status infer_need_ints(Infer *in, int i, const char *name);

// Axes made non-negative; EINVAL when out of range or repeated, or more than `rank`.
MUST_USE tenon_status infer_axes(Infer *in, Ints axes, int rank, int *out_axes);

#endif
