// price.h -- what a layer takes on the target, dense and with zeros in a pattern.
//
// The layer is a matrix product of its own with random weights, compiled and timed beside the dense
// one.  Layers of the same sizes are timed once.
#ifndef TENON_COMPRESS_PRICE_H
#define TENON_COMPRESS_PRICE_H

#include "compress/evaluate.h"
#include "compress/sparsify.h"

typedef struct LayerPrice {
  int64_t rows, depth, outputs;
  int64_t width;  // of the runs of outputs: that with the least time
  double ns[3];   // dense, half of the weights, a quarter of them
} LayerPrice;
typedef VEC(LayerPrice) PriceList;

// Finds the sizes in the list, or times them.
MUST_USE tenon_status price_layer(PriceList *l, const RunnerOptions *run, LayerPrice sizes,
                                  Arena *a, Diag *d, const LayerPrice **out);

#endif
