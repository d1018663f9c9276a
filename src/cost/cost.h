// cost.h -- what a graph costs to run: operations, bytes moved, parameters, memory.
//
// Everything is counted for given values of the symbols; a symbol without one counts as 1 and is listed.
// Nothing is run and no weights are read, so that it works where the weights are not there.
#ifndef TENON_COST_COST_H
#define TENON_COST_COST_H

#include "ir/interpret.h"

enum { COST_LARGEST = 10 };

typedef struct SymbolValue {
  Str name;
  int64_t value;
} SymbolValue;

typedef struct NodeCost {
  const Node *node;
  const Body *body;  // where it stands
  double flops;
  int64_t bytes;  // of operands and results
  bool known;     // every size was known; else the figures are a lower bound
} NodeCost;

typedef struct TensorCost {
  const Node *node;  // OP_const, OP_param, or what computes it
  int result;
  int64_t bytes;
} TensorCost;

typedef struct Cost {
  double flops;                  // one multiply-add is two
  int64_t bytes;                 // moved: operands and results of every node
  int64_t params, params_bytes;  // elements and bytes of distinct constants
  int64_t peak_bytes;            // of a run in the interpreter, weights not counted
  int64_t nunknown;              // nodes with a size that is not known
  const NodeCost *node;  // operations in order, those of a body behind the node that holds it
  int64_t nnodes;
  TensorCost largest[COST_LARGEST];  // largest first
  int nlargest;
  const Dim *assumed;  // symbols that counted as 1, in the order of their making
  int64_t nassumed;
  const int64_t *bind;  // by slot, what every symbol counted as
  const bool *bound;
  int32_t nbind;
} Cost;

// Bodies count once, however often they run, and so does each branch of an `if`.  The arrays live in the
// arena.  Composites without a cost of their own are expanded, so the graph must not be in use elsewhere.
// EINVAL when the graph has no symbol of a given name, or the value is out of its range.
MUST_USE tenon_status cost_graph(Graph *g, const SymbolValue *v, int64_t nv, Arena *a, Diag *d,
                                 Cost *out);

// Bytes of a value of this type; false when a size is not known.
bool cost_type_bytes(const Cost *c, const Type *t, int64_t *out);

#endif
