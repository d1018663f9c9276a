// graphfuzz.h -- random graphs over all ops, and what optimising them must not change.
//
// A graph is grown from the ops' own samples and the rules' examples: one is drawn, varied (another
// dtype, more axes, sizes of 0, symbols for sizes), and each operand it wants is taken from what
// the graph has computed so far, brought to the wanted type by casts, slices and reshapes; now and
// then it is a new input or a constant.  Bodies of control flow are grown the same way and capture
// values from outside.  Every node is evaluated as it is made, at every size at which the graph
// will be run, and left out where that fails: so graphs are valid by construction, and every op is
// reached through its record alone.
//
// Inputs are made from the parameter's name and type alone, sizes from the symbol's name: a graph's
// text is the whole test.  An input whose name begins with t has ordinary numbers only.
#ifndef TENON_TESTS_GRAPHFUZZ_H
#define TENON_TESTS_GRAPHFUZZ_H

#include "compile/compile.h"
#include "ir/interpret.h"
#include "passes/passes.h"

enum { FUZZ_SIZES = 3, FUZZ_RESULTS = 8 };

typedef struct FuzzStats {
  int64_t graphs, invalid, symbolic, bodies, exact, bounded, unbounded;
  int64_t refused;         // with an op that compiled models do not have
  int64_t kernels, host;   // of compiled graphs: kernels, and groups without one
  int64_t channels_last;   // nodes that were made channels last
  int64_t unproven;        // schedules that the verifier did not accept
  int64_t limited;         // and that were above a limit
  int64_t used[OP_COUNT];  // graphs that hold the op, before or after
  int64_t dtype[32];       // graphs with a value of that dtype
  int64_t rank[8];         // graphs with a value of that rank
  int64_t empty;           // graphs with a tensor of no elements
  int64_t nodes;           // in all graphs together, constants and parameters not counted
} FuzzStats;

// How a graph is optimised and compared.
typedef struct FuzzWay {
  uint64_t seed;           // draws the level and the passes left out; 0: a fixed list of ways
  const RuleSet *planted;  // applied after the passes: a miscompile on purpose
  const struct Target
      *target;  // compiled for it, and compared with the interpreter; NULL: optimised only
} FuzzWay;

// ---- values (value.c) ----
// The size that a symbol stands for in run k: `n3` is 3, 4, 1; `m3` is 3, 6, 9; `z3` is 3, 4, 0.
int64_t fuzz_size(Str symbol, int k);
int64_t fuzz_dim(Dim d, int k);  // -1 when it cannot be known
MUST_USE tenon_status fuzz_input(Run *run, const Type *t, const char *name, int k, Value **out);
// Copies what a result holds of its interpreter's own, so that it outlives that.
MUST_USE tenon_status fuzz_own(Run *run, Value **v);
bool fuzz_same(const Value *a, const Value *b);  // every bit, but for the kind of a NaN

// ---- runs and bounds (bound.c) ----
NodeList fuzz_nodes(Graph *g, Arena *a);  // of the main body and of all bodies in it
MUST_USE tenon_status fuzz_inputs(Graph *g, Run *run, int k, Arena *a, Value ***out);
// The reference interpreter; `in` NULL: on the graph's own inputs.
MUST_USE tenon_status fuzz_run(Graph *g, Run *run, int k, const Placement *p, Value **in, Arena *a,
                               Value **out);
typedef struct FuzzBound {
  bool found;                   // for all results
  bool known[FUZZ_RESULTS];     // for this one
  bool flushed;                 // what is compared may make numbers too small to be normal 0
  bool jumps[FUZZ_RESULTS];     // no floats, but not the same in a perturbed run
  Value *spread[FUZZ_RESULTS];  // f64: how far a perturbed run went off, by element
} FuzzBound;
// How far a few roundings of every value take the results; not found where a value is no finite
// number or very large.
void fuzz_bound(Graph *g, Run *run, int k, Arena *a, Value *const *want, FuzzBound *out);
bool fuzz_within(const FuzzBound *b, int64_t result, const Value *want, const Value *got);
bool fuzz_node_is_steep(const Node *n);
bool fuzz_is_steep(Graph *g, Arena *a);  // an op turns a rounding into a jump: there is no bound

// ---- compiled (compiled.c) ----
// How a result of generated code may differ from the interpreter's.
typedef enum {
  CLASS_EXACT,    // in no bit
  CLASS_ROUNDED,  // within the bound, where there is one
  CLASS_JUMP      // by anything: a rounding decides it
} FuzzClass;
// Of each result of the graph.  `tiny`: its inputs or constants have numbers too small to be
// normal.
void fuzz_classes(Graph *g, bool tiny, Arena *a, FuzzClass *out);
bool fuzz_has_tiny(Graph *g, Value *const *in, Arena *a);
typedef struct FuzzTarget {
  const struct Target *target;
  Graph *g;                     // optimised
  CompileReport *made;          // planned
  FuzzClass cls[FUZZ_RESULTS];  // of the graph as it was
  const FuzzBound *bound[FUZZ_SIZES];
  bool licensed;  // to change bits
  Arena *arena;
  FuzzStats *st;
  Diag *quiet;
} FuzzTarget;
// Compiles the graph and runs it at sizes from..to with one thread and with three: what differs, or
// NULL.
const char *fuzz_compiled(const FuzzTarget *t, int from, int to);

// ---- graphs (make.c) ----
// A random graph; NULL (with the diag filled) when it came out invalid.  No trap is needed.
Graph *fuzz_graph(uint64_t seed, Diag *d);

// ---- copies (copy.c) ----
typedef enum {
  EDIT_NONE,
  EDIT_SIZES,    // symbols become the sizes of run `a`
  EDIT_RESULT,   // the node is the only result
  EDIT_DROP,     // result `a` goes
  EDIT_PARAM,    // the node becomes a new input
  EDIT_ZERO,     // the node becomes a constant of zeros
  EDIT_BYPASS,   // its operand `a`, of the same type, stands in its place
  EDIT_INLINE,   // one round of its body `a` stands in its place
  EDIT_CAPTURE,  // its captured value `a`, which its body does not use, goes
  EDIT_ATTR,     // its attribute `a` gets its default
  EDIT_DIM       // sizes of `a` in inputs become `b`
} EditKind;
typedef struct Edit {
  EditKind kind;
  uint32_t node;
  int64_t a, b;
} Edit;
// The graph with one change; inputs that nothing needs are left out.  NULL where the change cannot
// be made.
Graph *fuzz_copy(Graph *g, const Edit *e, Diag *d);

// ---- checks (check.c) ---- Optimises copies in several ways, runs them and compares: true when
// all agree; else the message says what differs.  *out_valid: the graph itself can be verified and
// run.
bool fuzz_compare(Graph *g, const FuzzWay *way, FuzzStats *st, bool *out_valid, Diag *d);
bool fuzz_check(uint64_t seed, const FuzzWay *way, FuzzStats *stats, Diag *d);

// ---- reducing (reduce.c) ---- A smaller graph that still fails, as text that holds what failed as
// a comment; `*out_nodes`: how many nodes are left, constants and parameters not counted.
void fuzz_reduce(Graph *g, const FuzzWay *way, StrBuf *out, int64_t *out_nodes);

#endif
