// inputs_json.h -- inputs of a run from JSON: whatever arrays cannot give, such as maps.
#ifndef TENON_CLI_INPUTS_JSON_H
#define TENON_CLI_INPUTS_JSON_H

#include "base/json.h"
#include "cli/inputs.h"

bool is_json_path(const char *path);  // by its ending
// The document of a file, in in->arena.
MUST_USE tenon_status json_input_read(Inputs *in, Diag *d, const char *path, Json *out);
// What a document says as a value of the input's type; `path` is for messages.
MUST_USE tenon_status json_input_value(Inputs *in, Run *run, const Node *param, const char *path,
                                       const Json *x, Value **out);

#endif
