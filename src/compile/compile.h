// compile.h -- the one way from a graph to a program.
//
//   target traits -> optimise -> plan -> verify the plan -> lower -> build
//
// The target gives its traits (ir/traits.h).  passes/ rewrites and fuses the graph.  plan/ orders
// its kernels and places their values, which the plan's verifier checks.  targets/ lowers every
// kernel to loops and makes code of them.  No other place knows this sequence: the C interface,
// every command, conform, the fuzzers and the tests name the stage that they want to reach.
#ifndef TENON_COMPILE_COMPILE_H
#define TENON_COMPILE_COMPILE_H

#include "compile/options.h"
#include "plan/plan.h"

typedef enum {
  COMPILE_NOTHING,   // the graph is as it was read
  COMPILE_OPTIMISE,  // passes have run: kernels are nodes of the graph
  COMPILE_PLAN,      // there is a memory plan, and its verifier accepts it
  COMPILE_LOWER,     // there are loops for every kernel, and no code
  COMPILE_BUILD,     // there is a program that can be run
  COMPILE_STAGES
} CompileStage;

// What was done so far, and what it gave; all but the program is in the arena of the calls.
typedef struct CompileReport {
  // The last stage that is complete.  A caller sets it to begin later: COMPILE_OPTIMISE takes the
  // graph as it is, COMPILE_PLAN also the plan that is given here.
  CompileStage done;
  OptReport opt;
  MemPlan *plan;
  TargetReport target;
  Compiled compiled;  // loops of the kernels, what the host does and why; its program is `program`
  Program *program;   // the caller's to release; after COMPILE_LOWER it has no code
  double seconds[COMPILE_STAGES];  // by stage
  // The program came out of the cache (program_cache.h), with the warnings of its compilation:
  // there is nothing else in the report.
  bool found;
  TextList warning;
} CompileReport;

// Does the stages after `r->done` up to `until`, in place.  `r` begins as zeros; a later call with
// the same one goes on where the former ended.  On failure `r->done` says how far it came, and
// there is no program.
//
// EINVAL: options exclude one another, or ask for what the target does not have; ECANCELLED: by the
// watch; EUNSUPPORTED: the target is not here, or cannot compile the graph.
MUST_USE tenon_status compile_graph(Graph *g, const CompileOptions *o, CompileStage until, Arena *a,
                                    Diag *d, CompileReport *r);
// What a guard calls (options.h).
MUST_USE tenon_status optimise_run(const OptimiseRun *r);

#endif
