// layers.h -- weights of chosen contractions in 4-bit blocks, with H of their inputs.
#ifndef TENON_COMPRESS_LAYERS_H
#define TENON_COMPRESS_LAYERS_H

#include "compress/gram.h"
#include "compress/groups.h"
#include "compress/rebuild.h"

typedef struct LayersTask {
  Graph *g;
  Body *base;
  GroupList *groups;  // those whose choice has weights of 4 bits are rounded
  int64_t block;
  const Dataset *data;     // NULL: weights are rounded for themselves
  const StatsList *stats;  // means of the inputs, for the biases; NULL: not known
  ObserveOptions observe;
  Arena *scratch;  // reset for each pass; its owner frees it
} LayersTask;

// *out: by group; rows is 0 where nothing is rounded.  EINVAL names a weight that is not finite.
MUST_USE tenon_status layers_round(const LayersTask *t, Arena *a, Diag *d, BlockWeights **out);

// A constant matrix as [outputs][inputs], in `a`.
MUST_USE tenon_status layer_weights(Graph *g, const QuantGroup *q, Arena *a, Diag *d, float **out);
// Means of a contraction's inputs by channel; NULL: they are not known.
const double *layer_means(const StatsList *stats, const QuantGroup *q);

#endif
