// compiled.h -- graphs compiled for a target, for tests.
#ifndef TENON_TESTS_SUPPORT_COMPILED_H
#define TENON_TESTS_SUPPORT_COMPILED_H

#include "compile/compile.h"
#include "ir/interpret.h"
#include "runtime/session.h"

// A graph's text through the compile driver.  The graph is the caller's, also on failure: NULL
// where the text is refused.
MUST_USE tenon_status compile_parsed(const char *text, const CompileOptions *o, CompileStage until,
                                     Arena *a, Diag *d, Graph **g, CompileReport *out);
// A graph, with the defaults; what the program needs lives in `a`.
MUST_USE tenon_status compile_for(Graph *g, const char *target, Arena *a, Diag *d, Program **out);
// The same of a graph's text.
MUST_USE tenon_status compile_text(const char *text, const char *target, Arena *a, Diag *d,
                                   Program **out);
// Of a graph's text, with what else is asked for.
typedef struct Asked {
  const char *device;    // or NULL
  Compiled *compiled;    // or NULL: where kernels' texts go
  unsigned fast;         // fast-math flags
  bool advised;          // optimised as the target wants it; else for devices apart
  bool invariant;        // by batch
  uint8_t precision;     // DType of contractions; 0: their own
  const char *schedule;  // as --schedule; NULL: what is chosen
} Asked;
// Why the first schedule that was declined was; `none` where there is none.
const char *first_declined(const Compiled *c, const char *none);
unsigned fast_flags(void);  // that compile_text has
MUST_USE tenon_status compile_asked(void *asked, const char *text, const char *target, Arena *a,
                                    Diag *d, Program **out);
// The first tile in the kernels of a graph's text for `cuda`, which lives in `a`; false: it has
// none.  `asked` has no place for kernels of its own.
struct LoopTile;
bool first_tile(Asked asked, const char *text, Arena *a, struct LoopTile *out);
// A graph's text by the interpreter, and compiled on three threads, on equal inputs.
typedef struct BothWays {
  Arena arena;
  Diag diag;
  Graph *g;
  Interp *interp;
  Program *program;
  Session *session;
  Run run[2];
  Value *want[2], *got[2];
} BothWays;
typedef tenon_status CompileText(void *ctx, const char *text, const char *target, Arena *a, Diag *d,
                                 Program **out);
// `fill` fills one input; dynamic sizes are 5.  `compile` NULL: compile_text.  False: diag says
// why.
bool both_ways_run(BothWays *b, const char *text, const char *target, void (*fill)(Value *v),
                   CompileText *compile, void *ctx);
void both_ways_free(BothWays *b);
// Bytes of the artifact, in `a`, at a multiple of 64.
MUST_USE tenon_status artifact_bytes(const Program *p, Arena *a, Diag *d, Str *out);

#endif
