// gram.h -- H = X^T X over the rows X of tensors that contractions read.
//
// The products become results of the graph, which is compiled and run on the samples, so the
// target's own kernels form them; their sum over samples is in f64.  As many tensors as fit the
// memory are taken in one pass over the samples: at least one, whatever their number of samples.
#ifndef TENON_COMPRESS_GRAM_H
#define TENON_COMPRESS_GRAM_H

#include "compress/observe.h"

typedef struct GramTensor GramTensor;
struct GramTensor {
  const Node *node;     // its last axis has a constant size
  bool channels_first;  // axis 1 has it instead
  int64_t n;
  double *h;               // [n][n] while its pass lasts
  const GramTensor *also;  // another tensor, whose products are added; NULL: none
};
typedef VEC(GramTensor) GramList;

enum { GRAM_DEEPEST = 16384 };

// Tensors [from, *out_to) in one pass; `h` is in `hold`, whose owner frees it.  ECANCELLED by the
// watch.
MUST_USE tenon_status gram_pass(Graph *g, const Dataset *s, const ObserveOptions *o, GramList *l,
                                int64_t from, int64_t *out_to, Arena *hold, Arena *a, Diag *d);

#endif
