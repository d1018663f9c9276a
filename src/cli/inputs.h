// inputs.h -- the inputs of a run and the sizes of symbolic dimensions.
#ifndef TENON_CLI_INPUTS_H
#define TENON_CLI_INPUTS_H

#include "cli/cli.h"
#include "cli/tensors.h"
#include "cost/cost.h"

typedef VEC(File) FileList;  // open while arrays refer to them

typedef struct Inputs {
  Graph *graph;
  Arena *arena;
  FileList *files;
  DimBinding dims;
  bool *defaulted;  // [dims.n]: a size of an input that nobody gave
  uint64_t seed;
  Value **value;  // [nparams]; NULL: an absent optional
  bool *made_up;  // [nparams]
  bool misused;   // a failure is the command line's, not a file's
} Inputs;

// --dim NAME=N for the model's symbols; CLI_USAGE with a message when one does not fit.
int dims_read(Cli *c, const Graph *g, const OptionValue *opt, DimBinding *out);
// Fills in->value from --inputs and --input; the rest is made up.
MUST_USE tenon_status inputs_read(Inputs *in, Cli *c, Run *run, const char *archive,
                                  const OptionValue *one);
// An .npy or .npz file; the mapping is added to `files`.
MUST_USE tenon_status arrays_read(Arena *a, const char *path, FileList *files, Diag *d,
                                  NdArrayList *out);

#endif
