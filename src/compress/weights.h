// weights.h -- quantising constant weights by output channel.
#ifndef TENON_COMPRESS_WEIGHTS_H
#define TENON_COMPRESS_WEIGHTS_H

#include "compress/groups.h"

typedef struct QuantWeights {
  int8_t *value;  // as the weight's elements lie; from mem_alloc, of n bytes
  int64_t n;
  float *scale;   // [outputs] symmetric: the zero point is 0
  double *shift;  // [outputs] what the rounding of weights adds to the mean of a result; NULL
} QuantWeights;

// `least`: by output, a scale that is not gone below; NULL: none.  `mean`: by input channel, of the
// activations; NULL: not known.  With `search` the scale that leaves the least square error, else
// that of the largest magnitude.
MUST_USE tenon_status weights_quantize(Graph *g, const QuantGroup *q, const double *least,
                                       const double *mean, bool search, Arena *a, Diag *d,
                                       QuantWeights *out);

#endif
