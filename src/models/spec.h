// spec.h -- what the readers of both forms share while they fill a spec.
#ifndef TENON_MODELS_SPEC_H
#define TENON_MODELS_SPEC_H

#include "models/arch.h"

struct Config;
typedef struct SpecOptions {
  int64_t length;  // longest sequence that will be run; 0: not said
  double partial;  // part of a head that turns
} SpecOptions;

void llm_rope_of_config(struct Config *c, const SpecOptions *o, LlmSpec *s);
// What follows from the row alone, whatever the file's form; then the layers, all alike.
void llm_spec_of_row(Arena *a, const LlmArch *row, LlmSpec *s);
MUST_USE tenon_status llm_spec_layers(Arena *a, LlmSpec *s, Diag *d);
// The activation by its name in configurations; false: it is not known.
bool llm_act_of(Str name, LlmAct *out);

#endif
