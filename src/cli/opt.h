// opt.h -- the optimiser on the command line: options that several commands share.
#ifndef TENON_CLI_OPT_H
#define TENON_CLI_OPT_H

#include "cli/cli.h"
#include "passes/passes.h"
#include "passes/plan.h"

// The options of one command, by OptionId (options.def, OPTIMISER).
typedef struct OptIds {
  int level, precision, exact, fast, disable, start_from, stop_after, dump_after, dump_changed,
      verify_each, time_passes, bisect, trace_rules, rule_stats, fold_limit, unroll_limit;
} OptIds;
#define OPT_IDS(cmd)                                                                               \
  ((OptIds){OPT_##cmd##_level, OPT_##cmd##_precision, OPT_##cmd##_exact, OPT_##cmd##_fast,         \
            OPT_##cmd##_disable, OPT_##cmd##_start_from, OPT_##cmd##_stop_after,                   \
            OPT_##cmd##_dump_after, OPT_##cmd##_dump_changed, OPT_##cmd##_verify_each,             \
            OPT_##cmd##_time_passes, OPT_##cmd##_bisect, OPT_##cmd##_trace_rules,                  \
            OPT_##cmd##_rule_stats, OPT_##cmd##_fold_limit, OPT_##cmd##_unroll_limit})

typedef struct Optimised {
  OptOptions options;
  OptReport report;
  double seconds;
} Optimised;

// What the command line says, -O3 by default.
void opt_options(const Cli *c, const OptIds *id, OptOptions *out);
// Optimises the graph as the command line says and prints what it asks for to standard error.  A pass that
// breaks leaves a file behind with the graph that it was given; the message names it.
MUST_USE tenon_status opt_run(Cli *c, const OptIds *id, Graph *g, Optimised *out);
// The same without a command line's wishes printed, for one test among many.
typedef struct OptCall {
  const char *
      beside;  // a reproducer is written beside this file, if it can be; NULL: among temporary files
  const char *label, *command;
} OptCall;
MUST_USE tenon_status opt_quiet(const OptOptions *o, const OptCall *call, Graph *g, Arena *a,
                                OptReport *report, Diag *d);
// A plan of the graph that the verifier accepts.
MUST_USE tenon_status opt_plan(Graph *g, Arena *a, Diag *d, MemPlan **out);

#endif
