// rebuild.h -- a layer's weights in 4 bits, rounded so that its results change least.
//
// A matrix of [rows][depth], one row an output.  Blocks of a row have a scale and a zero point
// each. With H = X^T X over the layer's inputs X, rounding changes the results by the square root
// of tr(D H D^T), D being what it changes of the weights.  Each weight is rounded with what those
// before it left over (GPTQ; Babai's nearest plane), and weights whose neighbour would now do
// better are moved there.  Without H weights are rounded for themselves.
#ifndef TENON_COMPRESS_REBUILD_H
#define TENON_COMPRESS_REBUILD_H

#include "base/base.h"

typedef struct BlockWeights {
  int64_t rows, depth, block, blocks;
  uint8_t *packed;      // [rows][blocks][block / 2], the even weight in the low half
  float *scale, *zero;  // [rows][blocks]; zeros are integers from 0 to 15
  double *shift;        // [rows] what rounding adds to the mean of a result; NULL
  double error, plain;  // tr(D H D^T), and that of weights rounded for themselves; 0 without H
} BlockWeights;

typedef struct BlockOptions {
  int64_t block;       // a power of two from 16 on
  const double *h;     // [depth][depth], of which the lower half is read; NULL: none
  const double *mean;  // [depth] of the inputs; NULL: not known
} BlockOptions;

// Results are in `a`; what the work needs is in `scratch`, too.
void rebuild_blocks(const float *w, int64_t rows, int64_t depth, const BlockOptions *o, Arena *a,
                    Arena *scratch, BlockWeights *out);

#endif
