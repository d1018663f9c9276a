// affine.h -- integer tensors whose element at i0, i1, ... is base + s0*i0 + s1*i1 + ...
#ifndef TENON_RULES_AFFINE_H
#define TENON_RULES_AFFINE_H

#include "ir/rule.h"

typedef struct Affine {
  int rank;
  Dim base, stride[MAX_RANK];  // 0 along axes of size 1
} Affine;
// What is known of an index tensor that exporters compute from ranges; false when it is not of this
// form.
bool node_affine(Graph *g, const Node *n, Affine *out);
// The form along a larger shape: 0 where an axis is repeated; false when the shapes do not say
// which are.
bool affine_broadcast(const Graph *g, const Type *from, const Type *to, Affine *out);
// Its elements count 0, 1, 2, ... in row-major order.
bool affine_counts(Graph *g, const Affine *f, const Type *t);

#endif
