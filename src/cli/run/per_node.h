// per_node.h -- `tenon run --compare interp --per-node`: which step of a compiled model is the
// first to differ.
//
// The optimised graph is also compiled for the host, where the reference evaluations do
// everything.  That program runs first, and every result is kept; the other one's results are held
// against them as they are made.
#ifndef TENON_CLI_RUN_PER_NODE_H
#define TENON_CLI_RUN_PER_NODE_H

#include "cli/tensors.h"
#include "runtime/session.h"
#include "compile/compile.h"

typedef struct PerNode {
  Arena *arena;
  const Tolerance *given;  // NULL: by element type
  Run *run;
  // the reference
  Program *program;
  Session *session;
  const ValueOrigin *origin;
  IntMap kept;  // node and result -> Value
  // what is compared
  const ValueOrigin *tested;
  int64_t ncompared;
  double max_abs;
  const char *why;  // of the first difference; NULL while there is none
} PerNode;

// Runs the reference and makes `so` observe the session that is compared.  The graph and its plan
// are those that `tested` was made of.
MUST_USE tenon_status per_node_start(PerNode *p, Graph *g, const MemPlan *plan,
                                     const Compiled *tested, Value *const *inputs,
                                     SessionOptions *so);
void per_node_end(PerNode *p);

#endif
