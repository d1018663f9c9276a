// adapters.c -- the table of adapters (adapters.h).
#include "serve/llm/adapters.h"

#include "serve/llm/llm.h"
#include "serve/serve.h"

tenon_status adapters_add(Serve *s, const char *spec, Diag *d) {
  const char *mark = strchr(spec, '='), *colon = mark ? strchr(mark, ':') : NULL;
  if (!colon || !colon[1])
    return fail(d, TENON_EINVAL, NOWHERE, "--lora=%s: the form is NAME=MODEL:PATH", spec);
  Str name = {spec, mark - spec}, base = {mark + 1, colon - mark - 1};
  Model *m = models_find(s, base);
  if (!model_name_fits(name))
    return fail(d, TENON_EINVAL, NOWHERE, "--lora: '%.*s' is no name of a model", STR_ARG(name));
  if (models_find(s, name) || adapters_find(s, name))
    return fail(d, TENON_EINVAL, NOWHERE, "there are two models of the name '%.*s'", STR_ARG(name));
  if (!m || !llm_is(m))
    return fail(d, TENON_EINVAL, NOWHERE, "--lora=%s: there is no language model '%.*s'", spec,
                STR_ARG(base));
  Adapter *a = arena_new(&s->arena, Adapter), **end = &s->adapters;
  *a = (Adapter){.name = str_copy(&s->arena, name), .path = colon + 1, .model = m};
  while (*end) end = &(*end)->next;
  *end = a;
  return TENON_OK;
}

const Adapter *adapters_find(const Serve *s, Str name) {
  for (const Adapter *a = s->adapters; a; a = a->next)
    if (str_is(name, a->name)) return a;
  return NULL;
}

int64_t adapters_count(const Model *m) {
  int64_t n = 0;
  for (const Adapter *a = m->serve->adapters; a; a = a->next) n += a->model == m;
  return n;
}
