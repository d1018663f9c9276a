// inputs.h -- the inputs of a run and the sizes of symbolic dimensions.
#ifndef TENON_CLI_INPUTS_H
#define TENON_CLI_INPUTS_H

#include "cli/cli.h"
#include "cli/tensors.h"
#include "cost/cost.h"
#include "runtime/program.h"

typedef VEC(File) FileList;  // open while arrays refer to them

typedef VEC(Value *) ItemList;

typedef struct Inputs {
  Graph *graph;
  Arena *arena;
  FileList *files;
  const Program *program;  // of a compiled model: it knows what its graph does not; else NULL
  DimBinding dims;
  bool *defaulted;  // [dims.n]: a size of an input that nobody gave
  uint64_t seed;
  Value **value;        // [nparams]
  ItemList *items;      // [nparams]: the arrays given for a sequence, in order
  bool *given;          // [nparams]
  bool *random_inputs;  // [nparams]
  bool misused;         // a failure is the command line's, not a file's
} Inputs;

// --dim NAME=N for the model's symbols; CLI_USAGE with a message when one does not fit.
int dims_read(Cli *c, const Graph *g, const OptionValue *opt, DimBinding *out);
// Fills in->value from --inputs and --input; other inputs are random.
MUST_USE tenon_status inputs_read(Inputs *in, Cli *c, Run *run, const char *archive,
                                  const OptionValue *one);
// How many values an index made from each of the graph's parameters may take; 0: it indexes
// nothing.
int64_t *input_ranges(Graph *g, Arena *a);
// NAME.K, as an item of the sequence NAME is called in an archive.  False: the name is no such.
bool item_name(Str s, Str *out_name, int64_t *out_item);
// An .npy or .npz file; the mapping is added to `files`.
MUST_USE tenon_status arrays_read(Arena *a, const char *path, FileList *files, Diag *d,
                                  NdArrayList *out);

#endif
