// layers.c -- asks the code generator for its layers, and prints them (layers.h).
#include "cli/commands/layers.h"

#include "base/platform.h"
#include "base/process.h"

enum { TEXT_CAP = 2048 };

static bool take_row(Layers *l, char *line) {
  char *state = strchr(line, '\t'), *text = state ? strchr(state + 1, '\t') : NULL;
  if (!text) return false;
  *state++ = *text++ = 0;
  for (int i = 0; i < LAYERS; i++) {
    Layer *x = &l->layer[i];
    if (strcmp(line, layer_name[i])) continue;
    x->active = !strcmp(state, "active");
    snprintf(x->text, sizeof x->text, "%s", text);
    return true;
  }
  return false;
}

void layers_ask(const char *program, LayersOf *out) {
  char path[4096], text[TEXT_CAP] = "";
  const char *argv[] = {path, "--layers", NULL};
  Process p;
  *out = (LayersOf){.program = program};
  if (!process_find(program, path, sizeof path) || process_start(path, argv, &p)) return;
  int64_t n = 0, deadline = platform->now() + 10 * (int64_t)1000000000;
  while (n < TEXT_CAP - 1 && !process_read(&p, text + n, 1, deadline)) n++;
  process_end(&p, true);
  int rows = 0;
  for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
    *end = 0;
    rows += take_row(&out->layers, at);
  }
  out->known = rows == LAYERS;
}

void layers_print(const LayersOf *l) {
  if (!l->known) printf("--  %-14s confinement    not known: it is not installed\n", l->program);
  for (int i = 0; l->known && i < LAYERS; i++) {
    const Layer *x = &l->layers.layer[i];
    printf("%-3s %-14s %-14s %s%s\n", x->active ? "ok" : "--", l->program, layer_name[i],
           x->active ? "" : "missing: ", x->text);
  }
}

void layers_json(JsonWriter *w, const LayersOf *l) {
  json_key(w, l->program);
  json_begin_object(w);
  for (int i = 0; l->known && i < LAYERS; i++) {
    json_key(w, layer_name[i]);
    json_begin_object(w);
    json_key(w, "active");
    json_bool(w, l->layers.layer[i].active);
    json_key(w, "detail");
    json_cstr(w, l->layers.layer[i].text);
    json_end_object(w);
  }
  json_end_object(w);
}
