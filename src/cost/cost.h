// cost.h -- what a graph costs at given sizes: operations, bytes, memory.  Nothing is run or read.
#ifndef TENON_COST_COST_H
#define TENON_COST_COST_H

#include "ir/opinfo.h"

// Sizes of the symbols, by slot (intexpr.h).
typedef struct DimBinding {
  int64_t *value;
  bool *known;
  int32_t n;
} DimBinding;
void binding_init(DimBinding *b, Arena *a, const Graph *g);  // nothing known
// Gives every symbol that the model wrote and that is not known yet this size.
void binding_default(DimBinding *b, const Graph *g, int64_t size);

// The same of inputs' dimensions, as models of their kind are used: one item in a batch, images of
// 224 by 224, sequences of 128.  A dimension is told by the rank and its place.
void binding_typical(DimBinding *b, const Graph *g);

typedef struct NodeCost {
  const Node *node;
  double flops;
  int64_t bytes;  // operands read and results written, once each
  int64_t out_bytes;
  bool known;  // false: a size depends on data, and counts as 0
} NodeCost;
typedef struct GraphCost {
  NodeCost *node;  // of the main body, in order; parameters, constants and projections left out
  int64_t n;
  double flops;
  int64_t bytes;
  int64_t peak_bytes;   // most that inputs and values take at one time; constants not counted
  int64_t const_bytes;  // of every constant that the graph uses
  int64_t nunknown;     // nodes with a size that depends on data
} GraphCost;
// A composite without a cost of its own costs what its expansion does.  A branch costs its more
// expensive body, a loop as many iterations as are known (else one).
void cost_graph(Graph *g, const DimBinding *b, Arena *a, GraphCost *out);
// One node of any body.
void cost_node(Graph *g, const Node *n, const DimBinding *b, Arena *a, NodeCost *out);
// What one node reads and writes; an unknown size counts as nothing, a view of the same bytes as
// nothing.
int64_t cost_node_bytes(Graph *g, const Node *n, const DimBinding *b, Arena *a);
// A guess of what a small kernel takes one core, in nanoseconds: far from the peaks, since little
// work has little reuse.
static inline double cost_ns(double flops, double bytes) { return flops / 32 + bytes / 16; }
// Bytes of a value at these sizes; false when a size is not known.
bool cost_type_bytes(const Type *t, const DimBinding *b, int64_t *out);

#endif
