// outputs.h -- the outputs of a run as files: arrays (.npz, .npy) and JSON.
//
// JSON.  One object: each output by its name.  A tensor is nested arrays, a sequence an array, a
// map an object, an optional its value or null.  Numbers read back as the same value; NaN and
// infinities are the strings "NaN", "Infinity" and "-Infinity", a complex number is [re, im], and
// text that is not UTF-8 is {"base64": "..."}.
//
// Archives.  F.npz has the tensors; the items of a sequence of tensors are NAME.0, NAME.1 and so
// on.  F.npz.json, in the form above, has the outputs that no array can hold: maps, what holds
// them, nested sequences, and whatever is empty.
#ifndef TENON_CLI_RUN_OUTPUTS_H
#define TENON_CLI_RUN_OUTPUTS_H

#include "cli/cli.h"
#include "cli/tensors.h"

typedef struct Outputs {
  int64_t n;
  const char **name;
  Value *const *value;  // NULL: not wanted, and not written
} Outputs;

// Whether outputs of these types have a part that goes into F.npz.json for certain.
bool outputs_need_json(int64_t n, Node *const *result);
const char *outputs_json_path(Arena *a, const char *path);
// Writes the file, of the form that its name says.  With `rest_checked` unset F.npz.json is checked
// before it is written.
MUST_USE tenon_status outputs_write(Cli *c, const Outputs *o, const char *path, bool compress,
                                    bool rest_checked);
// The value inside an optional; NULL: it is empty.
const Value *outputs_held(const Value *v);

#endif
