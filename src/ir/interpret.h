// interpret.h -- running a graph by its ops' reference evaluations.
//
// interp_create turns each body into a list of steps over numbered slots; after it the graph is
// only read, so one Interp may be run by several threads at once, each with its own Run.
#ifndef TENON_IR_INTERPRET_H
#define TENON_IR_INTERPRET_H

#include "ir/opinfo.h"

typedef struct Interp Interp;
typedef struct InterpOptions {
  bool expand;  // decompose every composite, also those that have an evaluation of their own
  bool dry;  // for interp_peak_bytes alone: no file is opened, unsupported operators are let pass
  // Order of the main body's nodes; NULL = by id.  Operands first, every reachable node once.
  const NodeList *order;
} InterpOptions;

// Borrows the graph, which must outlive it.  Opens every file that a constant needs.
// EUNSUPPORTED when the graph holds an operator that nobody knows.
MUST_USE tenon_status interp_create(Graph *g, const InterpOptions *o, Diag *d, Interp **out);
void interp_free(Interp *in);  // NULL is fine

// Runs the main body.  `run` must be fresh from run_init; inputs are checked against the
// parameters' types and symbols; an absent optional input is NULL.  On success out[i] holds one
// reference each, to be used before run_deinit.
MUST_USE tenon_status interp_run(const Interp *in, Run *run, Value *const *inputs, Value **out);

// Where the values of the main body are kept, when not on the heap: how a memory plan is put to the
// test.
typedef struct Placement {
  void *ctx;
  bool everywhere;  // constants and the values of bodies are placed, too; `begin` is called once
  // Inputs are checked and the sizes that follow from them known.
  tenon_status (*begin)(void *ctx, Run *run, const int64_t *bind, const bool *bound, int32_t nbind);
  // A result was computed: may put another value in its place (and then releases the first).
  tenon_status (*place)(void *ctx, Run *run, const Node *n, int result, Value **v);
  // Nothing needs the result any more.
  void (*dead)(void *ctx, const Node *n, int result);
} Placement;
MUST_USE tenon_status interp_run_placed(const Interp *in, Run *run, const Placement *p,
                                        Value *const *inputs, Value **out);

// Memory that a run with these symbol values would need at its peak, weights not counted; unknown
// sizes count as 0.  Of a node with bodies the largest body counts.  Needs a Trap.
int64_t interp_peak_bytes(const Interp *in, const int64_t *bind, const bool *bound, int32_t nbind);

#endif
