// sparsify.h -- a layer's weights with zeros in a pattern, so that its results change least.
//
// A matrix of [rows][depth], one row an output.  With H = X^T X over the layer's inputs X, dropping
// weights changes the results by the square root of tr(D H D^T), D being what changes of the
// weights.  Inputs are taken in order, some at a time; those whose drop costs least go, and the
// weights behind make good for them (SparseGPT).  Then each weight that is left is moved to its
// best value.
#ifndef TENON_COMPRESS_SPARSIFY_H
#define TENON_COMPRESS_SPARSIFY_H

#include "base/base.h"

typedef struct SparsePattern {
  int64_t width;  // outputs that drop the same inputs; 1: each for itself
  int64_t run;    // of so many inputs in order the same share is dropped
  int zeros;      // per cent of the weights
} SparsePattern;

// `h` is [depth][depth], of which the lower half is read.  `out` is as `w`.  What the work needs is
// in `scratch`.  Gives tr(D H D^T) by tr(W H W^T).
double sparsify(const float *w, int64_t rows, int64_t depth, const SparsePattern *p,
                const double *h, Arena *scratch, float *out);

#endif
