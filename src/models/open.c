// open.c -- open a language model: its files, its spec, its tensors (llm.h).
//
// Files are mapped and stay so until llm_close; the readers of frontends/ check every length in
// them.  A folder's weights are those of its index, else of its one safetensors file.
#include "models/quant.h"

#include "base/json.h"
#include "frontends/gguf/gguf.h"

#include <stdio.h>

// ---- recognising ----

typedef struct FolderNames {
  bool config, index, generation, modules;
  int64_t nweights;
  char weights[256];  // the first by name
} FolderNames;

static void note_name(void *ctx, const char *name) {
  FolderNames *f = ctx;
  f->config |= !strcmp(name, "config.json");
  f->index |= !strcmp(name, "model.safetensors.index.json");
  f->generation |= !strcmp(name, "generation_config.json");
  f->modules |= !strcmp(name, "modules.json");
  if (!str_ends(str_of(name), ".safetensors")) return;
  if (!f->nweights++ || strcmp(name, f->weights) < 0)
    snprintf(f->weights, sizeof f->weights, "%s", name);
}

static bool is_folder(const char *path, FolderNames *out) {
  *out = (FolderNames){0};
  return strcmp(path, "-") && !platform->names(path, note_name, out);
}

static bool is_gguf(const File *f) { return f->size >= 4 && !memcmp(f->bytes, "GGUF", 4); }

bool llm_is_folder(const char *path) {
  FolderNames names;
  return is_folder(path, &names) && names.config && (names.index || names.nweights);
}

bool llm_is_model(const char *path) {
  FolderNames names;
  if (is_folder(path, &names)) return llm_is_folder(path);
  Diag d;
  diag_init(&d);
  File f;
  if (file_open(path, &f, &d)) return false;
  bool yes = is_gguf(&f);
  file_close(&f);
  return yes;
}

// ---- reading ----

// A small file of the folder, for as long as `read` needs it.
typedef tenon_status ReadText(LlmModel *m, Str text, const LlmOpenOptions *o, Diag *d);

static tenon_status with_text(LlmModel *m, const char *name, ReadText *read,
                              const LlmOpenOptions *o, Diag *d) {
  File *f = &m->files->text;
  Where base = d->base;
  d->base.file = str_printf(&m->arena, "%s/%s", m->path, name);
  tenon_status s = file_open(d->base.file, f, d);
  if (!s) {
    // The text outlives the file's mapping in messages and names.
    Str text = {arena_dup(&m->arena, f->size ? (const void *)f->bytes : "", f->size), f->size};
    file_close(f);
    *f = (File){0};
    s = read(m, text, o, d);
  }
  d->base = base;
  return s;
}

static tenon_status read_config(LlmModel *m, Str text, const LlmOpenOptions *o, Diag *d) {
  TRY(llm_spec_of_config(&m->arena, text, o, d, &m->spec));
  return llm_generation_of(text, d, &m->arena, &m->generation);
}

static tenon_status read_generation(LlmModel *m, Str text, const LlmOpenOptions *o, Diag *d) {
  (void)o;
  return llm_generation_of(text, d, &m->arena, &m->generation);
}

// ---- sentence-transformers: modules.json, and what its modules say ----

static tenon_status read_pooling(LlmModel *m, Str text, const LlmOpenOptions *o, Diag *d) {
  static const struct {
    const char *key;
    LlmPooling pooling;
  } mode[] = {{"pooling_mode_cls_token", LLM_POOL_FIRST},
              {"pooling_mode_mean_tokens", LLM_POOL_MEAN},
              {"pooling_mode_lasttoken", LLM_POOL_LAST},
              {"pooling_mode_max_tokens", LLM_POOL_UNSAID},
              {"pooling_mode_mean_sqrt_len_tokens", LLM_POOL_UNSAID},
              {"pooling_mode_weightedmean_tokens", LLM_POOL_UNSAID}};
  Json j;
  int64_t given = 0;
  (void)o;
  TRY(json_parse(&m->arena, text, d, &j));
  for (int64_t i = 0; i < ARRAY_LEN(mode); i++) {
    const Json *on = json_get(&j, mode[i].key);
    if (!on || on->kind != JSON_BOOL || !on->b) continue;
    if (!mode[i].pooling || given++)
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "'%s'%s is not supported", mode[i].key,
                  mode[i].pooling ? " beside another way of pooling" : "");
    m->pooling = mode[i].pooling;
  }
  return TENON_OK;
}

// A folder's name in modules.json, which must stay within the model's folder.
static bool is_inside(Str path) {
  bool dots = false;
  for (int64_t i = 1; i < path.n; i++) dots |= path.p[i] == '.' && path.p[i - 1] == '.';
  return path.n > 0 && path.n < 200 && path.p[0] != '/' && !dots &&
         !memchr(path.p, 0, (size_t)path.n);
}

static tenon_status read_modules(LlmModel *m, Str text, const LlmOpenOptions *o, Diag *d) {
  Json j;
  TRY(json_parse(&m->arena, text, d, &j));
  if (j.kind != JSON_ARRAY) return fail(d, TENON_EFORMAT, NOWHERE, "modules.json is not a list");
  for (int64_t i = 0; i < j.n; i++) {
    const Json *type = json_get(&j.item[i], "type"), *path = json_get(&j.item[i], "path");
    if (!type || type->kind != JSON_STRING || !path || path->kind != JSON_STRING)
      return fail(d, TENON_EFORMAT, NOWHERE, "module %lld of modules.json has no type and path",
                  (long long)i);
    if (str_ends(type->s, ".Transformer") || str_ends(type->s, ".Normalize")) continue;
    if (!str_ends(type->s, ".Pooling") || !is_inside(path->s))
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the module '%.*s' in '%.*s' is not supported",
                  STR_ARG(type->s), STR_ARG(path->s));
    const char *name = str_printf(&m->arena, "%.*s/config.json", STR_ARG(path->s));
    TRY(with_text(m, name, read_pooling, o, d));
  }
  return TENON_OK;
}

// One file of weights, or the index of several, as the frontends read it.
static tenon_status read_tensors(LlmModel *m, const char *path, const Frontend *f,
                                 const LlmOpenOptions *o, Diag *d) {
  LlmFiles *files = m->files;
  Where base = d->base;
  d->base.file = path;
  tenon_status s = file_open(path, &files->file, d);
  if (!s) {
    Imported *in = &files->in;
    *in = (Imported){.bytes = {(const char *)files->file.bytes, files->file.size},
                     .path = path,
                     .memory_limit = o ? o->memory_limit : 0};
    if (!files->file.size) in->bytes.p = "";
    if (f->is(in->bytes))
      s = f->import(in, d);
    else
      s = fail(d, TENON_EFORMAT, NOWHERE, "this is no %s file", f->name);
    m->weights = &in->weights;
  }
  d->base = base;
  return s;
}

static tenon_status open_folder(LlmModel *m, const FolderNames *names, const LlmOpenOptions *o,
                                Diag *d) {
  m->folder = m->path;
  if (!names->config) return fail(d, TENON_EINVAL, NOWHERE, "the folder has no config.json");
  if (!names->index && names->nweights != 1)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                names->nweights ? "the folder has %lld files of weights, but no "
                                  "model.safetensors.index.json"
                                : "the folder has no safetensors file",
                (long long)names->nweights);
  TRY(with_text(m, "config.json", read_config, o, d));
  if (names->generation) TRY(with_text(m, "generation_config.json", read_generation, o, d));
  if (names->modules) TRY(with_text(m, "modules.json", read_modules, o, d));
  const char *file = names->index ? "model.safetensors.index.json" : names->weights;
  return read_tensors(m, str_printf(&m->arena, "%s/%s", m->path, file),
                      names->index ? &frontend_index : &frontend_safetensors, o, d);
}

static tenon_status open_gguf(LlmModel *m, const LlmOpenOptions *o, Diag *d) {
  TRY(read_tensors(m, m->path, &frontend_gguf, o, d));
  m->gguf = m->files->in.file;
  return llm_spec_of_gguf(m, o, d);
}

static tenon_status open_model(LlmModel *m, const char *path, const LlmOpenOptions *o, Diag *d) {
  m->path = str_copy(&m->arena, str_of(path));
  d->base.file = m->path;
  llm_generation_none(&m->generation);
  FolderNames names;
  if (is_folder(path, &names))
    TRY(open_folder(m, &names, o, d));
  else
    TRY(open_gguf(m, o, d));
  TRY(llm_spec_verify(&m->spec, d));
  TRY(llm_quant_attach(m, d));
  return llm_find_weights(m, d);
}

tenon_status llm_open(const char *path, const LlmOpenOptions *o, Diag *d, LlmModel **out) {
  *out = NULL;
  LlmModel *m = mem_alloc((int64_t)sizeof *m);
  LlmFiles *files = mem_alloc((int64_t)sizeof *files);
  if (!m || !files) {
    mem_free(m, (int64_t)sizeof *m);
    mem_free(files, (int64_t)sizeof *files);
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  }
  arena_init(&m->arena);
  m->files = files;
  m->arena.limit = o ? o->memory_limit : 0;
  Where base = d->base;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    at_work_part("reading", "the model", -1);
    t.status = open_model(m, path, o, d);
  }
  trap_leave(&t);
  d->base = base;
  if (files->in.graph) files->in.graph->diag = NULL;
  if (t.status)
    llm_close(m);
  else
    *out = m;
  return t.status;
}

void llm_close(LlmModel *m) {
  if (!m) return;
  graph_free(m->files->in.graph);
  file_close(&m->files->file);
  file_close(&m->files->text);
  mem_free(m->files, (int64_t)sizeof *m->files);
  arena_deinit(&m->arena);
  mem_free(m, (int64_t)sizeof *m);
}
