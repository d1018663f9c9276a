// quantize.h -- the parts of `tenon quantize`.
#ifndef TENON_CLI_QUANTIZE_QUANTIZE_H
#define TENON_CLI_QUANTIZE_QUANTIZE_H

#include "cli/cli.h"

#include "api/quantize.h"

int quantize_gguf_file(Cli *c);  // -o F.gguf
// The target of a name, or the fastest one here; CLI_OK, or a message and the status.
int quantize_target(Cli *c, const char *command, const char *name, const Target **out);
// Runs it and prints what came of it.
int quantize_run(Cli *c, QuantizeOptions *o, bool json);

#endif
