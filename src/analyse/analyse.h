// analyse.h -- what can be said of a graph without running it: findings, value ranges, memory.
//
// Findings.  A row of diagnostics.def, a node, and a sentence with the numbers in it.  An error is
// certain: every run that comes there fails or is wrong.  What is only possible is a warning, what
// is merely good to know a note.  In a body that may not be run (a branch, a loop) errors are
// warnings.
//
// Ranges.  For every real tensor an interval in which all of its elements lie that are numbers: NaN
// is never counted.  Sizes of at least 1 are taken for granted, and weights are not read unless
// asked for.
//
// Memory.  The most that lives at one time in the plan's order (plan.h), in bytes and as an
// expression in the model's symbols.
//
// Time: linear in nodes and operands, apart from sorting a body's nodes.
#ifndef TENON_ANALYSE_ANALYSE_H
#define TENON_ANALYSE_ANALYSE_H

#include "cost/cost.h"

typedef enum { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR } Severity;
enum { SEVERITIES = 3 };
const char *severity_name(Severity s);

typedef enum {
#define FINDING(code, ...) FINDING_##code,
#include "analyse/diagnostics.def"
  FINDING_COUNT
} FindingCode;
typedef struct FindingInfo {
  const char *code, *title, *meaning, *hint;
  Severity severity;
} FindingInfo;
extern const FindingInfo finding_info[FINDING_COUNT];

typedef struct Finding {
  FindingCode code;
  Severity severity;        // the code's, or less where the node may not be run
  const char *what, *name;  // "node", "input", "output", "weight", and its name; name may be ""
  const char *op;           // "" where there is none
  const char *text;         // "divides by 0 in 3 of 8 elements"
} Finding;

typedef enum { RANGE_NONE, RANGE_INT, RANGE_FLOAT } RangeKind;  // NONE: no tensor of real numbers
typedef struct Range {
  uint8_t kind;
  int64_t least, most;  // RANGE_INT; u64 counts as going to INT64_MAX, which then means no bound
  double lo, hi;        // both kinds
} Range;

enum { MEMORY_FORMULAS = 8 };
typedef struct MemoryUse {
  bool known;            // false: there is no plan, or a size is not known
  int64_t bytes;         // largest sum alive at one step, at the given sizes
  int64_t arena_bytes;   // what packing made of it
  int64_t import_bytes;  // the same sum in the order of the model's file, at the plan's own
                         // reference sizes
  int64_t reference_bytes;
  const Node *at;  // the node that runs at that step; NULL: the results alone
  Dim formula;     // of the values alive there
  // The peak is the largest of these at any sizes; none where that could not be shown.
  Dim any[MEMORY_FORMULAS];
  int nany;
  int64_t nsteps, nconcurrent;  // of the plan; kernels that share a step with others
  int64_t nheap;                // results whose size depends on data: on the heap, not counted
} MemoryUse;

typedef struct AnalyseOptions {
  bool weights;    // read every constant, however large
  bool all_nodes;  // nodes and constants that no result needs are findings: every node of the graph
                   // stands in the model
} AnalyseOptions;
typedef struct Analysis {
  Graph *g;
  Arena *arena;
  Range *range;  // by node id, of result 0
  int64_t nranges;
  VEC(Finding) finding;
  int64_t count[SEVERITIES];
  int64_t nvalues,
      nbounded;  // tensors of real numbers that nodes compute, and those with a known bound
} Analysis;

// The analysis lives in `a`; its ranges refer to the graph, its findings do not.
void analyse_graph(Graph *g, const AnalyseOptions *o, Arena *a, Analysis *out);
// Adds a finding that the graph does not show: of the file that it was read from.
void analyse_add(Analysis *an, FindingCode code, const char *what, const char *name, const char *op,
                 const char *fmt, ...) PRINTF(6, 7);
// The range of a node's result, through projections.
Range analyse_range(const Analysis *an, const Node *n);
// A bound that the type alone does not give.
bool range_is_known(Range r, DType t);
void range_print(StrBuf *b, Range r);  // "[0, 1]", "[-inf, 6]"

// Of a plan, at these sizes.
struct MemPlan;
void analyse_memory(const struct MemPlan *p, const DimBinding *sizes, Arena *a, MemoryUse *out);
void memory_print_formula(StrBuf *b, const MemoryUse *m);

// ---- shared by the files of the analysis ----
// Everything of one walk over the graph.
typedef struct Ranger {
  Graph *g;
  Arena *arena;
  Analysis *an;
  const AnalyseOptions *o;
  Range **more;      // by node id: every result's range, where there are several
  uint8_t *flag;     // by node id
  uint32_t *stamp;   // by node id: body in which it was seen last
  uint32_t nbodies;  // stamps given
  int depth;         // of the body at hand; 0 is main
  bool sure;         // whether the body at hand is run for certain
} Ranger;
enum RangerFlag {
  RF_CHECKED = 1,    // its hazards have been reported
  RF_SHAPE = 2,      // a shape follows from it
  RF_VARIES = 4,     // depends on an input, or is random
  RF_REACHED = 8,    // some body's results need it
  RF_ELEMENTS = 16,  // a parameter: its elements are read
};
void ranger_report(Ranger *r, FindingCode code, const Node *n, const char *fmt, ...) PRINTF(4, 5);
Range range_top(DType t);
Range range_type(const Type *t);
Range range_int(int64_t least, int64_t most);
Range range_float(double lo, double hi);
Range range_hull(Range a, Range b);
Range range_with_zero(Range a);
const char *range_text(Arena *a, Range r);
Range range_at(const Ranger *r, const Node *n, uint32_t i);  // of operand i; NONE when it is absent
// Of constant contents, small or asked for; false when not known.  out_nan: how many are NaN.
bool range_contents(Ranger *r, const Node *n, Range *out, int64_t *out_nan);
void range_node(Ranger *r, const Node *n, Range *out);  // all results; reports what overflows
void range_body(Ranger *r, const Body *b);              // all nodes of a body
void hazard_node(Ranger *r, const Node *n);             // what else can go wrong there
// A value that surely is narrower than its type on both sides.
bool range_is_bounded(Range r, DType t);

#endif
