// c.h -- the target `c`: a whole model as C11 that needs nothing but the C library.
//
// The text is one function for each kernel, one for the model and one for each body of its control
// flow; memory is a static arena at the planned places, weights are arrays or a file beside.  What
// plain C cannot hold (strings, sequences, sizes that depend on data, operators that have no loops)
// is refused, all of it at once, by name.
#ifndef TENON_TARGETS_C_C_H
#define TENON_TARGETS_C_C_H

#include "targets/target.h"

typedef struct CSourceOptions {
  const char *symbol;     // the model's function; others begin with it
  const char *header;     // the name that the source includes; NULL: one file that holds all
  int vector_bytes;       // of the vectors that kernels were scheduled for; 0: plain loops alone
  bool external_weights;  // in CSource.weights instead of in the text
  bool embedded;          // no file, no allocation; sizes are numbers
  const char *arena_attribute, *weights_attribute;  // that place the memory; may be NULL
  KernelFaults *faults;  // gets the kernels that cannot be written; NULL: one of them is an error
} CSourceOptions;
typedef struct CSource {
  Str source, header, weights;  // in the arena of the call; header empty in one file
  int64_t arena_bytes;          // with scratch; -1: depends on the sizes of a call
  int64_t weights_bytes;
  int64_t stack_bytes;  // that a call takes at most, besides what the C library's functions do
} CSource;
// The kernels' loops must still be there.  With fresh `faults` there is no source.
MUST_USE tenon_status c_source(const Compiled *c, const CSourceOptions *o, Arena *a, Diag *d,
                               CSource *out);

// Composites that may have no loops of their own but do when decomposed: for graph_expand, where a
// model is refused.
extern const char *const c_composites[];

// Rows of the table of targets.
void c_describe(const Machine *m, LowerTarget *out);
tenon_status c_build(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d);

#endif
