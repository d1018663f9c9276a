// inspect.h -- the parts of `tenon inspect`.
#ifndef TENON_CLI_INSPECT_INSPECT_H
#define TENON_CLI_INSPECT_INSPECT_H

#include "api/model.h"
#include "base/json.h"
#include "cli/cli.h"

// A compiled model: what it is, its kernels, the bytes of its parts.
int inspect_compiled(Cli *c, const Model *m);

// A file of weights: what it says of itself, and its tensors.
int inspect_weights(Cli *c, const Model *m);

// What a file says about itself.
void inspect_facts(Cli *c, const Model *m);
void inspect_facts_json(JsonWriter *w, const Model *m);

#endif
