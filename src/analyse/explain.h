// explain.h -- where each node of a graph went while it was optimised, and what its kernels move.
//
// A node is known by its name, which passes keep.  One that is gone was replaced by a rule (which
// then fired at its name), was taken in by a rule that fired at a node that used it, or is not
// needed: its value was computed while compiling, or nothing reads it.
#ifndef TENON_ANALYSE_EXPLAIN_H
#define TENON_ANALYSE_EXPLAIN_H

#include "ir/pass.h"
#include "passes/fuse_kernels/kernels.h"

typedef struct ExplainPlace {  // of a name in the optimised graph
  int32_t kernel;              // -1: run by the host
  const struct ExplainPlace *next;
} ExplainPlace;
typedef struct ExplainNode {
  const Node *node;           // in the graph as it was
  int32_t user;               // the first node that reads it; -1 = none
  bool constant;              // depends on no input
  const ExplainPlace *place;  // NULL: it is gone
  const RuleFiring *own;      // the last rule that fired at its name; may be NULL
  const RuleFiring *rule;     // the same, or the one at the nearest user's name; may be NULL
  int32_t into;  // of one that a rule took away: the kernel that has what it became; -1 = not known
} ExplainNode;
typedef struct ExplainKernel {
  const Node *node;
  int64_t nodes;                 // in its body
  int64_t bytes, unfused_bytes;  // moved, and what its nodes would move, each alone
  double flops;
  VEC(int32_t) rule;  // that fired at what is in it, as numbers of Explain.rule
} ExplainKernel;
typedef struct ExplainRule {
  const Rule *rule;
  const Pass *pass;  // where it fired first
  int64_t fired;
} ExplainRule;
typedef struct Explain {
  Graph *g;
  Arena *arena;
  VEC(ExplainNode) node;      // of the main body as it was, in order
  VEC(ExplainKernel) kernel;  // of the main body, in order
  VEC(ExplainRule) rule;      // in order of their first firing
  IntMap rules;               // Rule -> number
  StrMap places;              // name -> ExplainPlace
  StrMap fired;               // name -> RuleFiring, the last one
} Explain;

// Lists the nodes of a graph that is not optimised yet.
void explain_before(Explain *x, Graph *g, Arena *a);
// After optimising with OptOptions.record: finds where they went, and what the kernels cost at
// these sizes.
void explain_after(Explain *x, OptReport *report, const DimBinding *sizes);
// Whether a node is gone because a rule took it away, rather than for being constant or not needed.
static inline bool explain_removed(const ExplainNode *n) {
  return !n->place && !n->constant && n->rule;
}
static inline double explain_intensity(const ExplainKernel *k) {
  return k->bytes > 0 ? k->flops / (double)k->bytes : 0;
}

#endif
