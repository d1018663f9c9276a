// serve.h -- what the commands of language models share: opening, sampling options, output.
#ifndef TENON_CLI_LLM_SERVE_H
#define TENON_CLI_LLM_SERVE_H

#include "api/llm.h"
#include "cli/cli.h"
#include "grammar/grammar.h"

// An option of the running command by its name; the default where it has none or it is not given.
int64_t serve_int(const Cli *c, const char *name, int64_t dflt);
double serve_real(const Cli *c, const char *name, double dflt);
const char *serve_text(const Cli *c, const char *name, const char *dflt);
bool serve_flag(const Cli *c, const char *name);

// Opens c->pos[0] with the command's options; fields of `o` that are not 0 come first.  Shows
// progress.
MUST_USE tenon_status serve_open(Cli *c, const LlmServeOptions *o, Llm **out);
// The file of --template in place of the model's own chat template, where it was given.
MUST_USE tenon_status serve_template(Cli *c, Llm *l);
// What requests name where --adapter was given, else NULL.
const char *serve_adapter(const Cli *c);
// Sampling as the command line says; EINVAL, and c->misused, where a value is out of range.
MUST_USE tenon_status serve_sampler(Cli *c, SamplerParams *out);
Strs serve_list(Cli *c,
                const char *name);  // the texts of an option that may be given several times
// The texts of a list option and of the lines of a file option; in `F.jsonl` a line is a string or
// an object with `key`.  None at all: EINVAL, and c->misused.
MUST_USE tenon_status serve_texts(Cli *c, int option, int file, const char *key, Strs *out);
// The form that answers are held to; `g` is NULL where no option gives one.
typedef struct Form {
  GrammarVocab *vocab;
  Grammar *g;
  Str schema;  // empty: it is none
} Form;
MUST_USE tenon_status serve_form(Cli *c, const Llm *l, Form *out);
void serve_form_deinit(Form *f);  // its states must be gone
// Another answer of at most so many tokens (-1: as many as the context has); NULL without a form.
MUST_USE tenon_status serve_form_begin(const Form *f, int64_t tokens, GrammarState **io, Diag *d);
MUST_USE tenon_status serve_form_judge(const Form *f, const GrammarState *s, Str answer, Diag *d);

// Text of a model: on a terminal without control characters, which could drive it.
void serve_print(Str text);
const char *serve_finish(EngineFinish f);  // "stop", "length", ...
// Processor seconds of the process, or those of a clock (--clock).
double serve_seconds(const Cli *c);

#endif
