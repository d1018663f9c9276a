// models.c -- the table of models (models.h).
#include "serve/models.h"

#include "base/platform.h"
#include "serve/kserve/graph.h"
#include "serve/llm/llm.h"
#include "serve/log.h"
#include "serve/serve.h"

enum { NAME_BYTES = 128 };

const ModelKind *const model_kinds[] = {&graph_kind, &llm_kind, NULL};

static Str last_part(const char *path) {
  Str s = str_of(path);
  while (s.n > 1 && s.p[s.n - 1] == '/') s.n--;
  int64_t at = s.n;
  while (at && s.p[at - 1] != '/') at--;
  s = (Str){s.p + at, s.n - at};
  static const char *const ending[] = {".gguf", ".tenon", ".onnx", ".tir", ".tflite", ".mlir"};
  for (int64_t i = 0; i < ARRAY_LEN(ending); i++)
    if (str_ends(s, ending[i]) && s.n > (int64_t)strlen(ending[i]))
      s.n -= (int64_t)strlen(ending[i]);
  return s;
}

// Names are segments of paths and labels of metrics.
bool model_name_fits(Str s) {
  if (!s.n || s.n > NAME_BYTES || s.p[0] == '.') return false;
  for (int64_t i = 0; i < s.n; i++) {
    unsigned char c = (unsigned char)s.p[i];
    if (c < 0x21 || c == '"' || c == '\\' || c == '/' || c == 0x7f) return false;
  }
  return str_is_utf8(s);
}

// `NAME=PATH`, unless the `=` belongs to the path.
static void split(const char *spec, Str *name, const char **path) {
  const char *mark = strchr(spec, '=');
  const char *slash = strchr(spec, '/');
  *path = spec;
  *name = last_part(spec);
  if (!mark || (slash && slash < mark)) return;
  *name = (Str){spec, mark - spec};
  *path = mark + 1;
}

tenon_status model_file_there(const char *spec, Diag *d) {
  Str name;
  const char *path;
  FileInfo info;
  split(spec, &name, &path);
  int err = platform->info(path, &info);
  return err ? fail(d, TENON_EIO, (Where){.file = path}, "cannot open: %s", error_text(err).s)
             : TENON_OK;
}

tenon_status models_add(Serve *s, const char *spec, Diag *d, Model **out) {
  Str name;
  const char *path;
  *out = NULL;
  split(spec, &name, &path);
  if (!model_name_fits(name))
    return fail(d, TENON_EINVAL, NOWHERE,
                "'%.*s' is no name of a model: 1 to %d bytes without spaces, quotes and slashes",
                STR_ARG(name), NAME_BYTES);
  if (models_find(s, name))
    return fail(d, TENON_EINVAL, NOWHERE,
                "there are two models of the name '%.*s'; give one "
                "another by NAME=PATH",
                STR_ARG(name));
  const ModelKind *kind = NULL;
  for (int64_t i = 0; model_kinds[i] && !kind; i++)
    if (model_kinds[i]->takes(path)) kind = model_kinds[i];
  if (!kind)
    return fail(d, TENON_EUNSUPPORTED, (Where){.file = path},
                "this is neither a compiled model nor a language model");
  Model *m = arena_new(&s->arena, Model), **end = &s->models;
  *m = (Model){
      .serve = s, .name = str_copy(&s->arena, name), .path = path, .kind = kind, .version = "1"};
  m->why = m->why_text;
  while (*end) end = &(*end)->next;
  *end = m;
  *out = m;
  return TENON_OK;
}

Model *models_find(const Serve *s, Str name) { return models_find_version(s, name, (Str){0}); }

static int64_t number_of(const char *version) {
  int64_t n;
  return str_to_i64(str_of(version), &n) ? n : 0;
}

Model *models_find_version(const Serve *s, Str name, Str version) {
  Model *found = NULL;
  for (Model *m = s->models; m; m = m->next) {
    if (m->gone || !str_is(name, m->name) || (version.n && !str_is(version, m->version))) continue;
    if (!found || number_of(m->version) > number_of(found->version)) found = m;
  }
  return found;
}

void models_want(Model *m) {
  m->used = platform->now();
  if (m->state != MODEL_OUT || m->off) return;
  if (models_room(m))
    m->kind->load(m);
  else if (m->state == MODEL_OUT)
    models_wait(m);
}

bool models_ready(const Serve *s) {
  for (const Model *m = s->models; m; m = m->next)
    if (m->state == MODEL_LOADING || m->state == MODEL_FAILED) return false;
  return true;
}

const char *model_state_name(ModelState state) {
  switch (state) {
  case MODEL_OUT: return "out";
  case MODEL_LOADING: return "loading";
  case MODEL_READY: return "ready";
  case MODEL_FAILED: return "failed";
  }
  return "?";
}

static void write_state(void *arg) {
  const Model *m = arg;
  JsonWriter *w = log_begin(m->state == MODEL_FAILED ? LOG_ERROR : LOG_INFO, "model");
  if (!w) return;
  json_key(w, "model");
  json_cstr(w, m->name);
  json_key(w, "state");
  json_cstr(w, model_state_name(m->state));
  if (m->why[0]) {
    json_key(w, "why");
    json_cstr(w, m->why);
  }
  log_end();
}

void model_is(Model *m, ModelState state, const char *why) {
  if (state == MODEL_READY) m->since = platform->file_time();
  m->state = state;
  models_wake(m->serve);
  memset(m->why_text, 0, sizeof m->why_text);
  if (why) memcpy(m->why_text, why, MIN(strlen(why), sizeof m->why_text - 1));
  log_guarded(write_state, m);
}
