// tokenizer.c -- the arrays of tokenizer.ggml.* in the form that text/ reads.
#include "frontends/gguf/tokenizer.h"

const GgufValue *gguf_find(const GgufFile *f, const char *key) {
  for (int64_t i = 0; i < f->kv.n; i++)
    if (str_is(f->kv.v[i].key, key)) return &f->kv.v[i];
  return NULL;
}

static const GgufValue *value_of(const GgufFile *f, const char *name) {
  char key[96] = "tokenizer.ggml.";
  size_t n = strlen(key);
  CHECK(n + strlen(name) < sizeof key, "a long key: %s", name);
  memcpy(key + n, name, strlen(name) + 1);
  return gguf_find(f, key);
}

static Str text_value(const GgufFile *f, const char *name) {
  const GgufValue *v = value_of(f, name);
  return v && v->kind == GV_STRING ? v->s : (Str){0};
}
static bool is_integer(const GgufValue *v) {
  return v && v->kind != GV_STRING && v->kind != GV_ARRAY && v->kind != GV_F32 && v->kind != GV_F64;
}
// Files write -1, or 2^32 - 1, for a token that there is not.
static int64_t id_value(const GgufFile *f, const char *name) {
  const GgufValue *v = value_of(f, name);
  return is_integer(v) && v->i >= 0 && v->i != UINT32_MAX ? v->i : -1;
}
static int flag_value(const GgufFile *f, const char *name) {
  const GgufValue *v = value_of(f, name);
  return v && v->kind == GV_BOOL ? (int)v->i : -1;
}

static tenon_status strings_of(const GgufFile *f, const char *name, Arena *a, Diag *d, int64_t *n,
                               const Str **out) {
  const GgufValue *v = value_of(f, name);
  *n = 0;
  *out = NULL;
  if (!v) return TENON_OK;
  if (v->kind != GV_ARRAY || v->elem != GV_STRING)
    return fail(d, TENON_EFORMAT, NOWHERE, "tokenizer.ggml.%s is no array of strings", name);
  Str *s = arena_array(a, Str, v->n + 1);
  int64_t at = 0;
  while (*n < v->n && gguf_next_string(v, &at, &s[*n])) ++*n;
  *out = s;
  return TENON_OK;
}

// An array of `count` numbers of 4 bytes; NULL where there is none.
static tenon_status numbers_of(const GgufFile *f, const char *name, bool floats, int64_t count,
                               Arena *a, Diag *d, const void **out) {
  const GgufValue *v = value_of(f, name);
  *out = NULL;
  if (!v) return TENON_OK;
  bool fits =
      v->kind == GV_ARRAY && (floats ? v->elem == GV_F32 : v->elem == GV_I32 || v->elem == GV_U32);
  if (!fits || v->n < count)
    return fail(d, TENON_EFORMAT, NOWHERE, "tokenizer.ggml.%s is no array of %lld %s", name,
                (long long)count, floats ? "floats" : "integers");
  *out = arena_dup(a, v->s.p, MAX(count, 1) * 4);
  return TENON_OK;
}

static Str bytes_value(const GgufFile *f, const char *name) {
  const GgufValue *v = value_of(f, name);
  bool fits = v && v->kind == GV_ARRAY && (v->elem == GV_U8 || v->elem == GV_I8);
  return fits ? v->s : (Str){0};
}

tenon_status gguf_tokenizer(const GgufFile *f, Arena *a, Diag *d, TokenizerGguf *out) {
  tokenizer_gguf_init(out);
  out->model = text_value(f, "model");
  out->pre = text_value(f, "pre");
  if (!out->model.n)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "the file has no tokenizer (no key tokenizer.ggml.model)");
  const void *score, *type;
  TRY(strings_of(f, "tokens", a, d, &out->n, &out->token));
  TRY(strings_of(f, "merges", a, d, &out->nmerges, &out->merge));
  if (!out->n) return fail(d, TENON_EFORMAT, NOWHERE, "tokenizer.ggml.tokens is absent or empty");
  TRY(numbers_of(f, "scores", true, out->n, a, d, &score));
  TRY(numbers_of(f, "token_type", false, out->n, a, d, &type));
  out->score = score;
  out->type = type;
  out->charsmap = bytes_value(f, "precompiled_charsmap");
  out->bos = id_value(f, "bos_token_id");
  out->eos = id_value(f, "eos_token_id");
  out->eot = id_value(f, "eot_token_id");
  out->unk = id_value(f, "unknown_token_id");
  out->sep = id_value(f, "seperator_token_id");  // the format spells it so
  if (out->sep < 0) out->sep = id_value(f, "separator_token_id");
  out->pad = id_value(f, "padding_token_id");
  out->cls = id_value(f, "cls_token_id");
  out->mask = id_value(f, "mask_token_id");
  out->add_bos = flag_value(f, "add_bos_token");
  out->add_eos = flag_value(f, "add_eos_token");
  out->add_space_prefix = flag_value(f, "add_space_prefix");
  out->remove_extra_whitespaces = flag_value(f, "remove_extra_whitespaces");
  return TENON_OK;
}

static tenon_status load(Imported *in, Arena *a, Diag *d, Tokenizer **out) {
  GgufFile f = {0};
  TokenizerGguf g;
  if (!frontend_gguf.is(in->bytes)) return fail(d, TENON_EFORMAT, NOWHERE, "no GGUF file");
  TRY(frontend_begin(in, d));
  TRY(gguf_read(in, d, &f));
  TRY(gguf_tokenizer(&f, a, d, &g));
  return tokenizer_load_gguf(&g, a, d, out);
}

tenon_status gguf_tokenizer_bytes(Str bytes, const char *path, Arena *a, Diag *d, Tokenizer **out) {
  Imported in = {.bytes = bytes, .path = path};
  const char *outer = d->base.file;
  *out = NULL;
  d->base.file = path;
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) trap.status = load(&in, a, d, out);
  trap_leave(&trap);
  d->base.file = outer;
  if (in.graph) graph_free(in.graph);
  return trap.status;
}

tenon_status gguf_tokenizer_load(const char *path, Arena *a, Diag *d, Tokenizer **out) {
  File file;
  *out = NULL;
  TRY(file_open(path, &file, d));
  tenon_status s =
      gguf_tokenizer_bytes((Str){(const char *)file.bytes, file.size}, path, a, d, out);
  file_close(&file);
  return s;
}
