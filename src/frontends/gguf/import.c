// import.c -- a GGUF file as weights by name and facts about the model.
#include "frontends/gguf/gguf.h"

enum { SHOWN_ITEMS = 4, SHOWN_BYTES = 160 };

static bool is_gguf(Str s) { return s.n >= 4 && !memcmp(s.p, "GGUF", 4); }

static double item_number(const GgufValue *v, int64_t i) {
  static const DType type[GV_TYPES] = {DT_U8,   DT_I8, DT_U16, DT_I16, DT_U32, DT_I32, DT_F32,
                                       DT_BOOL, 0,     0,      DT_U64, DT_I64, DT_F64};
  int64_t each = dtype_bits(type[v->elem]) / 8;
  double out;
  uint64_t aligned;  // the file gives no alignment
  memcpy(&aligned, v->s.p + i * each, (size_t)each);
  load_f64(type[v->elem], &aligned, 0, 1, &out);
  return out;
}

static const char *const kind_name[GV_TYPES] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

static void add_array(Imported *in, const GgufValue *v) {
  StrBuf b;
  strbuf_init(&b, &in->graph->arena);
  strbuf_printf(&b, "%lld %s%s", (long long)v->n, kind_name[v->elem], v->n ? ":" : "");
  int64_t at = 0;
  for (int64_t i = 0; i < MIN(v->n, SHOWN_ITEMS); i++) {
    Str s;
    if (v->elem != GV_STRING)
      strbuf_printf(&b, " %g", item_number(v, i));
    else if (gguf_next_string(v, &at, &s))
      strbuf_printf(&b, " '%.*s'", (int)MIN(s.n, 24), s.p);
  }
  if (v->n > SHOWN_ITEMS) strbuf_puts(&b, " ...");
  frontend_fact(in, str_copy(&in->graph->arena, v->key), "%s", strbuf_text(&b));
}

static void add_fact(Imported *in, const GgufValue *v) {
  const char *key = str_copy(&in->graph->arena, v->key);
  switch (v->kind) {
  case GV_ARRAY: add_array(in, v); break;
  case GV_STRING:
    frontend_fact(in, key, "%.*s%s", (int)MIN(v->s.n, SHOWN_BYTES), v->s.p,
                  v->s.n > SHOWN_BYTES ? "..." : "");
    break;
  case GV_F32:
  case GV_F64: frontend_fact(in, key, "%g", v->f); break;
  case GV_BOOL: frontend_fact(in, key, "%s", v->i ? "true" : "false"); break;
  default: frontend_fact(in, key, "%lld", (long long)v->i); break;
  }
}

static tenon_status import_gguf(Imported *in, Diag *d) {
  TRY(frontend_begin(in, d));
  GgufFile *f = arena_new(&in->graph->arena, GgufFile);
  TRY(gguf_read(in, d, f));
  in->file = f;
  for (int64_t i = 0; i < f->kv.n; i++) add_fact(in, &f->kv.v[i]);
  in->about = str_printf(&in->graph->arena, "GGUF version %u", f->version);
  frontend_no_graph(in,
                    "a GGUF file holds weights and no graph; give it as --weights to a model, or "
                    "convert it");
  return TENON_OK;
}

const Frontend frontend_gguf = {.name = "gguf",
                                .doc =
                                    "GGUF versions 2 and 3: weights in every ggml type, metadata",
                                .is = is_gguf,
                                .import = import_gguf};
