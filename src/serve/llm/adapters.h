// adapters.h -- LoRA adapters as names of models: `--lora NAME=MODEL:PATH`.
//
// An adapter belongs to one language model, whose engine loads it when it starts.  A request that
// names it is answered by that model with the adapter; requests of different adapters run together.
#ifndef TENON_SERVE_LLM_ADAPTERS_H
#define TENON_SERVE_LLM_ADAPTERS_H

#include "serve/models.h"

typedef struct Adapter Adapter;
struct Adapter {
  const char *name, *path;
  Model *model;
  Adapter *next;
};

// EINVAL: not of this form, a bad or double name, or no language model of that name.
MUST_USE tenon_status adapters_add(struct Serve *s, const char *spec, Diag *d);
const Adapter *adapters_find(const struct Serve *s, Str name);  // NULL: there is none
int64_t adapters_count(const Model *m);

#endif
