// overrides.h -- opening a model some of whose inputs have defaults.
#ifndef TENON_CLI_OVERRIDES_H
#define TENON_CLI_OVERRIDES_H

#include "api/model.h"
#include "cli/cli.h"

// Opens a model so that the inputs that `--input` and the archive of `--inputs` (may be NULL) name are inputs.
MUST_USE tenon_status open_with_overrides(Cli *c, const char *path, const OptionValue *input,
                                          const char *inputs, Model **out);

#endif
