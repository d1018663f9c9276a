// overrides.h -- opening a model by what the command line says of its inputs: which are given, and
// sizes that are fixed.
#ifndef TENON_CLI_RUN_OVERRIDES_H
#define TENON_CLI_RUN_OVERRIDES_H

#include "api/model.h"
#include "cli/cli.h"

// Opens a model so that the inputs that `--input` and the archive of `--inputs` (may be NULL) name
// are inputs.
MUST_USE tenon_status open_with_overrides(Cli *c, const char *path, const OptionValue *input,
                                          const char *inputs, ModelOptions o, Model **out);
// Opens a model; a size that is to be fixed must be one of its.
MUST_USE tenon_status open_fixed(Cli *c, const char *path, const ModelOptions *o, Model **out);
// The sizes of --fix, to open with; CLI_USAGE where one is none.
int fixed_read(Cli *c, const OptionValue *fix, ModelOptions *o);
// --type and the option that names a file of weights; CLI_USAGE where a type is none.
int foreign_read(Cli *c, const OptionValue *type, const OptionValue *weights, ModelOptions *o);

#endif
