// rewrite.h -- a graph with its chosen contractions in QuantizeLinear and DequantizeLinear form.
#ifndef TENON_COMPRESS_REWRITE_H
#define TENON_COMPRESS_REWRITE_H

#include "compress/layers.h"
#include "compress/weights.h"

// Rounded weights of a group, kept from one rewriting of a graph to the next.
typedef struct KeptWeights {
  const Node *bytes;  // NULL: none yet
  float x_scale;      // of the activations, which bounds the scales from below
  float *scale;
  double *shift;
} KeptWeights;
// Weights of [outputs][inputs], by choice; NULL: none.
typedef struct PrunedWeights {
  const float *w[CHOICES];
} PrunedWeights;
typedef struct RewriteOptions {
  RangeMethod method;
  bool search_weights;  // the scale of least square error, else that of the largest magnitude
  bool correct_bias;    // take the mean error of rounded weights off again
  const BlockWeights *blocks;   // by group, where a choice has weights of 4 bits
  KeptWeights *kept;            // by group; NULL: nothing is kept
  Arena *keep;                  // of `kept`
  const PrunedWeights *pruned;  // by group, where a choice has zeros
} RewriteOptions;

// Replaces the main body.  `stats` may be NULL where no choice needs them.
MUST_USE tenon_status rewrite_groups(Graph *g, const GroupList *l, const QuantTensors *t,
                                     const StatsList *stats, const RewriteOptions *o, Arena *a,
                                     Diag *d);
// Groups that are int8 by choice and would be computed in floats all the same, which the passes
// decide, go back to f32.  How many; the main body stays.
MUST_USE tenon_status rewrite_check(Graph *g, GroupList *l, const Body *quantized, Arena *a,
                                    Diag *d, int64_t *out_left);

// Both, until all that is int8 by choice is computed so: replaces the main body, from `base`.
MUST_USE tenon_status rewrite_choices(Graph *g, Body *base, GroupList *l, const StatsList *stats,
                                      const RewriteOptions *o, Arena *a, Diag *d);

#endif
