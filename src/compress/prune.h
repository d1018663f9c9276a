// prune.h -- which contractions are pruned, by how much, and with which weights.
//
//   price every layer -> those that gain -> weights by H -> one share for all, or a path under a
//   limit
//
// A layer that would not gain stays dense, and QuantGroup.kept says why.
#ifndef TENON_COMPRESS_PRUNE_H
#define TENON_COMPRESS_PRUNE_H

#include "compress/gram.h"
#include "compress/price.h"
#include "compress/search.h"

typedef enum { PRUNE_VECTOR, PRUNE_FOURS } PrunePattern;
typedef struct PruneTask {
  Graph *g;
  Body *base;
  GroupList *groups;
  const Dataset *data;
  ObserveOptions observe;
  PrunePattern pattern;
  int zeros;               // per cent; 0: each layer's own, by a search
  bool any_speed;          // layers that do not gain are pruned, too
  Arena *scratch;          // reset for each pass; its owner frees it
  PrunedWeights *weights;  // by group: what this fills
} PruneTask;

// Figures of each group that may be pruned: its loss and time as choices have it.
typedef struct PruneFigures {
  double ns[CHOICES];
  double error[CHOICES];  // share of the layer's result; behind a search what the model's gets
} PruneFigures;

// Prices, and weights in `a`.  Groups have the choice that was asked for, or that of most zeros.
// *out_leader: by group, the first with the same weights, which they are pruned with.
MUST_USE tenon_status prune_layers(const PruneTask *t, Arena *a, Diag *d, PruneFigures **out,
                                   const int64_t **out_leader);
// Choices of the groups under the search's budget; SearchTask as search_choices has it.
MUST_USE tenon_status prune_search(const SearchTask *t, PruneFigures *f, const int64_t *leader,
                                   Arena *a, Diag *d, SearchResult *out);
// Each group's figures, for the certificate.
void prune_figures(GroupList *l, const PruneFigures *f);

#endif
