// serve.h -- what the commands of language models share: opening, sampling options, output.
#ifndef TENON_CLI_LLM_SERVE_H
#define TENON_CLI_LLM_SERVE_H

#include "api/llm.h"
#include "cli/cli.h"

// An option of the running command by its name; the default where it has none or it is not given.
int64_t serve_int(const Cli *c, const char *name, int64_t dflt);
double serve_real(const Cli *c, const char *name, double dflt);
const char *serve_text(const Cli *c, const char *name, const char *dflt);
bool serve_flag(const Cli *c, const char *name);

// Opens c->pos[0] with the command's options; fields of `o` that are not 0 come first.  Shows
// progress.
MUST_USE tenon_status serve_open(Cli *c, const LlmServeOptions *o, Llm **out);
// Sampling as the command line says; EINVAL, and c->misused, where a value is out of range.
MUST_USE tenon_status serve_sampler(Cli *c, SamplerParams *out);
// The command's --stop texts.
Strs serve_stops(Cli *c);
// Text of a model: on a terminal without control characters, which could drive it.
void serve_print(Str text);
const char *serve_finish(EngineFinish f);  // "stop", "length", ...
// Processor seconds of the process, or those of a clock (--clock).
double serve_seconds(const Cli *c);

#endif
