// pass.h -- passes are rows of a table; the manager runs them, verifies, times and prints.
//
// A pass changes the graph in place (its main body is replaced) and says whether it did.
// Everything the user can ask of a pass on the command line follows from its row: no pass has flags
// of its own.
#ifndef TENON_IR_PASS_H
#define TENON_IR_PASS_H

#include "base/watch.h"
#include "ir/rule.h"
#include "ir/traits.h"

enum PassFlag {
  PASSF_REQUIRED = 1,  // runs at every level and cannot be disabled
  PASSF_FIXPOINT = 2,  // runs until it changes nothing
};

typedef struct OptOptions {
  int level;             // -O0 ... -O3
  unsigned fast;         // fast-math flags; the usual ones: opt_fast_math_flags(level, exact, fast)
  int64_t fold_limit;    // bytes that folding may add for one constant
  int64_t unroll_limit;  // nodes that a loop may become
  const char *dump_after;  // pass name or "all"; NULL = none
  bool dump_changed;       // after every pass that changed something
  const char *stop_after, *start_from;
  const char *disable;  // names separated by commas
  bool verify_each, trace_rules;
  bool record;              // note every firing in the report, for explain
  DType precision;          // that contractions multiply in; none: as the model says
  const char *const *keep;  // patterns for nodes that keep the model's precision
  int64_t nkeep;
  const TargetTraits *traits;          // of what kernels are made for; NULL: no target is known
  bool batch_invariant;                // only its own length decides the order of a sum
  bool channels_last;                  // for tests: wherever it can be, whatever it costs
  int64_t bisect;                      // fire no rule after so many; -1 = no limit
  void (*print)(void *ctx, Str text);  // where dumps and traces go
  void *print_ctx;
  const Watch *watch;  // told of each pass; may be NULL
} OptOptions;
// Whether a node keeps the model's precision, by its name.
bool opt_keeps(const OptOptions *o, const Node *n);
unsigned opt_fast_math_flags(int level, bool exact, bool fast);
void opt_defaults(OptOptions *o);  // -O3

// What happened, for --time-passes, --rule-stats and explain.
typedef struct PassStat {
  const struct Pass *pass;
  int64_t ns, nodes_before, nodes_after, rules;
  bool ran, changed;
} PassStat;
typedef struct RuleFiring {
  const Rule *rule;
  const struct Pass *pass;
  const char *from, *to;  // names of the nodes; may be NULL
  int from_op, to_op;
} RuleFiring;
// A set of nodes that hang together and are computed in one order
// (passes/choose_layout/choose_layout.c).
typedef struct LayoutRegion {
  bool channels_last;
  const char *name;      // of its first node that knows channels, else of its first; may be NULL
  int64_t nodes, aware;  // aware: convolutions, pools, ...
  int64_t gain;          // of this order over the other, in bytes; negative: the other is better
} LayoutRegion;
typedef struct LayoutReport {
  VEC(const Type *) converted;  // values that are needed in both orders
  int64_t channels_last_nodes;  // nodes computed channels last
  VEC(LayoutRegion) region;
} LayoutReport;
// What is computed in another precision than the model says (passes/lower_precision.c).
typedef struct PrecisionReport {
  DType dtype;           // none: nothing is
  int64_t contractions;  // that multiply in it
  int64_t depth;         // most of them on one path
} PrecisionReport;
// A convolution that could take the one before it into its kernel
// (passes/fuse_kernels/conv_chain.c).
typedef struct ConvChainNote {
  const char *name;  // of its node; may be NULL
  bool joins;
  double more;  // work than in kernels of their own, of all
} ConvChainNote;
typedef struct OptReport {
  Arena *arena;
  PassStat *pass;
  int64_t npasses;
  IntMap hits;            // Rule -> times fired
  VEC(RuleFiring) fired;  // with OptOptions.record
  LayoutReport layout;
  PrecisionReport precision;
  VEC(ConvChainNote) conv_chains;
  VEC(const char *) trace;  // "algebra.c:14 mul.one  %17 => %12", when asked for
} OptReport;

typedef struct PassCtx {
  Graph *g;
  const OptOptions *o;
  OptReport *report;
  Arena *scratch;  // reset after the pass
  const struct Pass *pass;
  int64_t *fire_limit;  // for --bisect
  int64_t nfired;
} PassCtx;
typedef tenon_status PassFn(PassCtx *c, bool *out_changed);

typedef struct Pass {
  const char *name, *doc;
  PassFn *run;
  uint16_t flags, level;  // runs at this level and above; REQUIRED ignores it
} Pass;
typedef struct PassOrder {
  const char *before, *after, *why;
} PassOrder;
// False, with a message, when a constraint is not met or names a pass that is not there.
bool pass_check_order(const Pass *p, int64_t n, const PassOrder *o, int64_t m, Diag *d);
// Every pass that the options name is there, and may be left out where they say so.
MUST_USE tenon_status passes_check_names(const Pass *p, int64_t n, const OptOptions *o, Diag *d);
MUST_USE tenon_status passes_run(const Pass *p, int64_t n, Graph *g, const OptOptions *o,
                                 OptReport *report);
// Applies rule sets with the context's fast-math flags, counting and tracing.
MUST_USE tenon_status pass_rewrite(PassCtx *c, const RuleSet *const *sets, int64_t n,
                                   bool *out_changed);
int64_t graph_count_nodes(Graph *g);  // reachable, but for constants, parameters and projections

#endif
