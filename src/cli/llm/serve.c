// serve.c -- what the commands of language models share (serve.h).
#include "cli/llm/serve.h"

#include "base/platform.h"
#include "models/adapter.h"

#include <time.h>
#include <unistd.h>

// ---- options by name ----

static int option_of(const Cli *c, const char *name) {
  int id = option_find(c->command, str_of(name));
  return id >= 0 && opt_given(c, id) ? id : -1;
}

int64_t serve_int(const Cli *c, const char *name, int64_t dflt) {
  int id = option_of(c, name);
  return id < 0 ? dflt : opt_int(c, id, dflt);
}
double serve_real(const Cli *c, const char *name, double dflt) {
  int id = option_of(c, name);
  return id < 0 ? dflt : opt_real(c, id, dflt);
}
const char *serve_text(const Cli *c, const char *name, const char *dflt) {
  int id = option_of(c, name);
  return id < 0 ? dflt : opt_text(c, id, dflt);
}
bool serve_flag(const Cli *c, const char *name) { return option_of(c, name) >= 0; }

Strs serve_list(Cli *c, const char *name) {
  int id = option_of(c, name);
  int64_t n = id < 0 ? 0 : c->opt[id].count;
  Str *text = arena_array(&c->arena, Str, n + 1);
  for (int64_t i = 0; i < n; i++) text[i] = str_of(c->opt[id].text[i]);
  return (Strs){n, text};
}

// ---- opening ----

static tenon_status kv_type(Cli *c, DType *out) {
  const char *name = serve_text(c, "kv", "f32");
  if (!strcmp(name, "f32"))
    *out = DT_F32;
  else if (!strcmp(name, "f16"))
    *out = DT_F16;
  else if (!strcmp(name, "bf16"))
    *out = DT_BF16;
  else if (!strcmp(name, "int8"))
    *out = DT_I8;
  else
    return fail(&c->diag, TENON_EINVAL, NOWHERE, "--kv is f32, f16, bf16 or int8, not '%s'", name);
  return TENON_OK;
}

static void take_options(const Cli *c, LlmServeOptions *o) {
  if (!o->threads) o->threads = (int32_t)serve_int(c, "threads", 0);
  if (!o->context) o->context = (int32_t)serve_int(c, "context", 0);
  if (!o->batch) o->batch = (int32_t)serve_int(c, "batch", 0);
  if (!o->sequences) o->sequences = (int32_t)serve_int(c, "sequences", 0);
  if (!o->pages) o->pages = (int32_t)serve_int(c, "pages", 0);
  if (!o->draft) o->draft = (int32_t)serve_int(c, "draft", 0);
  if (serve_flag(c, "draft") && !o->draft) o->draft = -1;
  if (!o->memory_limit) o->memory_limit = serve_int(c, "memory", 0);
  o->exact |= serve_flag(c, "exact");
  if (!o->draft_model) o->draft_model = serve_text(c, "draft-model", NULL);
}

// ---- --template ----

tenon_status serve_template(Cli *c, Llm *l) {
  const char *path = serve_text(c, "template", NULL);
  File f;
  if (!path) return TENON_OK;
  TRY(file_open(path, &f, &c->diag));
  Str text = {arena_dup(&l->arena, f.size ? (const void *)f.bytes : "", f.size), f.size};
  file_close(&f);
  if (!text.n || !str_is_utf8(text))
    return fail(&c->diag, TENON_EFORMAT, (Where){.file = path}, "it is no text in UTF-8");
  l->chat_text = text;
  return TENON_OK;
}

// ---- --adapter ----

const char *serve_adapter(const Cli *c) {
  return serve_text(c, "adapter", NULL) ? "adapter" : NULL;
}

// Room for the one adapter, of its own rank.
static tenon_status adapter_room(Cli *c, LlmServeOptions *o) {
  const char *path = serve_text(c, "adapter", NULL);
  LlmAdapter *l;
  if (!path) return TENON_OK;
  TRY(llm_adapter_open(NULL, path, &c->diag, &l));
  o->adapters = 1;
  o->adapter_rank = (int32_t)MIN(l->rank, INT32_MAX);
  llm_adapter_close(l);
  return TENON_OK;
}

static tenon_status load_adapter(Cli *c, Llm *l) {
  const char *path = serve_text(c, "adapter", NULL);
  if (!path) return TENON_OK;
  float scale = (float)serve_real(c, "adapter-scale", 1);
  return llm_load_adapter(l, serve_adapter(c), path, scale, &c->diag);
}

tenon_status serve_open(Cli *c, const LlmServeOptions *o, Llm **out) {
  CompileOptions compile;
  LlmServeOptions so = *o;
  Progress progress;
  Watch watch = progress_watch(&progress);
  const char *name = serve_text(c, "target", "cpu");
  compile_defaults(&compile);
  tenon_status wrong = kv_type(c, &so.kv);
  compile.target = target_find(name);
  if (!wrong && !compile.target)
    wrong = fail(&c->diag, TENON_EINVAL, NOWHERE, "there is no target '%s'", name);
  c->misused |= wrong != TENON_OK;
  TRY(wrong);
  take_options(c, &so);
  TRY(adapter_room(c, &so));
  compile.threads = so.threads;
  so.compile = &compile;
  so.watch = &watch;
  tenon_status s = llm_create(c->pos[0], &so, &c->diag, out);
  progress_end(&progress);
  TRY(s);
  for (int64_t i = 0; i < (*out)->warning.n; i++)
    fprintf(stderr, "tenon: warning: %s\n", clean_text(&c->arena, (*out)->warning.v[i]));
  return load_adapter(c, *out);
}

tenon_status serve_sampler(Cli *c, SamplerParams *out) {
  *out = (SamplerParams){.temperature = (float)serve_real(c, "temperature", 0),
                         .top_k = (int32_t)serve_int(c, "top-k", 0),
                         .top_p = (float)serve_real(c, "top-p", 1),
                         .min_p = (float)serve_real(c, "min-p", 0),
                         .typical = (float)serve_real(c, "typical", 1),
                         .repeat = (float)serve_real(c, "repeat-penalty", 1),
                         .presence = (float)serve_real(c, "presence-penalty", 0),
                         .frequency = (float)serve_real(c, "frequency-penalty", 0),
                         .dry = (float)serve_real(c, "dry", 0),
                         .dry_base = (float)serve_real(c, "dry-base", 1.75),
                         .dry_length = (int32_t)serve_int(c, "dry-length", 2),
                         .xtc = (float)serve_real(c, "xtc", 0),
                         .xtc_threshold = (float)serve_real(c, "xtc-threshold", 0.1),
                         .seed = (uint64_t)serve_int(c, "seed", 0)};
  const char *wrong = sampler_wrong(out);
  if (!wrong) return TENON_OK;
  c->misused = true;
  return fail(&c->diag, TENON_EINVAL, NOWHERE, "%s", wrong);
}

// ---- output ----

// A control character other than tab and line break becomes '?': of ASCII, and U+0080 to U+009F.
static void print_safe(Str text) {
  for (int64_t i = 0; i < text.n; i++) {
    unsigned char ch = (unsigned char)text.p[i];
    bool c1 = ch == 0xc2 && i + 1 < text.n && ((unsigned char)text.p[i + 1] & 0xe0) == 0x80;
    if (c1) i++;
    putchar(c1 || (ch < 0x20 && ch != '\n' && ch != '\t') || ch == 0x7f ? '?' : ch);
  }
}

void serve_print(Str text) {
  if (!text.n) return;
  if (isatty(1))
    print_safe(text);
  else
    fwrite(text.p, 1, (size_t)text.n, stdout);
  fflush(stdout);
}

const char *serve_finish(EngineFinish f) {
  switch (f) {
  case FINISH_NONE: return "none";
  case FINISH_STOP: return "stop";
  case FINISH_LENGTH: return "length";
  case FINISH_CANCELLED: return "cancelled";
  case FINISH_NO_TOKEN: return "no token";
  }
  return "?";
}

double serve_seconds(const Cli *c) {
  if (!strcmp(serve_text(c, "clock", "wall"), "cpu")) return (double)clock() / CLOCKS_PER_SEC;
  return (double)platform->now() / 1e9;
}
