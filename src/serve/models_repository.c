// models_repository.c -- a folder of models: NAME/VERSION/model.*, or NAME/model.* as version 1.
//
// A version is a number from 1 up.  NAME/config.json has a model's options (graph_options.c).  The
// folder is read at the start, and again whenever a model is loaded by name or the models are
// listed: what is new is then known, and what is gone is known no more once it is unloaded.
#include "base/platform.h"
#include "serve/models.h"
#include "serve/serve.h"

enum { FOUND_MOST = 65536 };

typedef struct Found {
  Arena *arena;
  VEC(const char *) names;
} Found;

static void on_name(void *ctx, const char *name) {
  Found *f = ctx;
  if (name[0] != '.' && f->names.n < FOUND_MOST)
    vec_push(f->arena, &f->names, str_copy(f->arena, str_of(name)));
}

static Found names_in(Arena *a, const char *folder) {
  Found f = {.arena = a};
  (void)platform->names(folder, on_name, &f);
  return f;
}

static bool is_version(const char *name) {
  int64_t n;
  return name[0] != '0' && str_to_i64(str_of(name), &n) && n > 0;
}

static const ModelKind *kind_of(const char *path) {
  for (int64_t i = 0; model_kinds[i]; i++)
    if (model_kinds[i]->takes(path)) return model_kinds[i];
  return NULL;
}

// The model of a folder: the first of its files, by name, that begins with `model.` and is one.
static const char *model_in(Arena *a, const char *folder, const ModelKind **kind) {
  Found f = names_in(a, folder);
  const char *best = NULL;
  for (int64_t i = 0; i < f.names.n; i++) {
    const char *path = str_printf(a, "%s/%s", folder, f.names.v[i]);
    if (strncmp(f.names.v[i], "model.", 6) || !kind_of(path)) continue;
    if (!best || strcmp(path, best) < 0) best = path;
  }
  if (best) *kind = kind_of(best);
  return best;
}

static void add_version(Serve *s, Arena *a, const char *name, const char *version,
                        const char *folder, const char *top) {
  const ModelKind *kind = NULL;
  const char *path = model_in(a, folder, &kind);
  if (!path) return;
  for (Model *m = s->models; m; m = m->next)
    if (!strcmp(m->name, name) && !strcmp(m->version, version)) {
      m->gone = false;
      return;
    }
  Model *m = arena_new(&s->arena, Model), **end = &s->models;
  *m = (Model){.serve = s,
               .name = str_copy(&s->arena, str_of(name)),
               .path = str_copy(&s->arena, str_of(path)),
               .version = str_copy(&s->arena, str_of(version)),
               .config_path = str_printf(&s->arena, "%s/config.json", top),
               .kind = kind};
  m->why = m->why_text;
  while (*end) end = &(*end)->next;
  *end = m;
}

static void add_model(Serve *s, Arena *a, const char *name) {
  const char *top = str_printf(a, "%s/%s", s->config.repository, name);
  Found f = names_in(a, top);
  add_version(s, a, name, "1", top, top);
  for (int64_t i = 0; i < f.names.n; i++)
    if (is_version(f.names.v[i]))
      add_version(s, a, name, f.names.v[i], str_printf(a, "%s/%s", top, f.names.v[i]), top);
}

tenon_status models_read_repository(Serve *s, Diag *d) {
  FileInfo info;
  Arena a;
  const char *folder = s->config.repository;
  if (!folder) return TENON_OK;
  if (platform->info(folder, &info) || !info.folder)
    return fail(d, TENON_EIO, NOWHERE, "--repository=%s is no folder", folder);
  arena_init_scoped(&a);
  Found f = names_in(&a, folder);
  for (Model *m = s->models; m; m = m->next) m->gone = m->config_path && m->state == MODEL_OUT;
  for (int64_t i = 0; i < f.names.n; i++)
    if (model_name_fits(str_of(f.names.v[i]))) add_model(s, &a, f.names.v[i]);
  arena_deinit(&a);
  return TENON_OK;
}
