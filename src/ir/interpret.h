// interpret.h -- running a graph by its ops' reference evaluations.
//
// interp_create turns each body into a list of steps over numbered slots; after it the graph is only
// read, so one Interp may be run by several threads at once, each with its own Run.
#ifndef TENON_IR_INTERPRET_H
#define TENON_IR_INTERPRET_H

#include "ir/opinfo.h"

typedef struct Interp Interp;
typedef struct InterpOptions {
  bool expand;  // take every composite apart, also those that have an evaluation of their own
  bool dry;  // for interp_peak_bytes alone: no file is opened, unsupported operators are let pass
} InterpOptions;

// Borrows the graph, which must outlive it.  Opens every file that a constant needs.
// EUNSUPPORTED when the graph holds an operator that nobody knows.
MUST_USE tenon_status interp_create(Graph *g, const InterpOptions *o, Diag *d, Interp **out);
void interp_free(Interp *in);  // NULL is fine

// Runs the main body.  `run` must be fresh from run_init; inputs are checked against the parameters' types
// and symbols; an absent optional input is NULL.  On success out[i] holds one reference each, to be used
// before run_deinit.
MUST_USE tenon_status interp_run(const Interp *in, Run *run, Value *const *inputs, Value **out);

// Memory that a run with these symbol values would need at its peak, weights not counted; unknown sizes
// count as 0.  Of a node with bodies the largest body counts.  Needs a Trap.
int64_t interp_peak_bytes(const Interp *in, const int64_t *bind, const bool *bound, int32_t nbind);

#endif
