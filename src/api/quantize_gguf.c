// quantize_gguf.c -- the tensors of a GGUF file, one after the other, in fewer bits
// (quantize_gguf.h).
//
// Matrices of floats are rounded.  Vectors, routers of experts, positions and convolutions stay,
// since they are small and errors in them are not.  The matrix that makes logits, which is the
// table of embeddings where there is no other, gets more bits.
#include "api/quantize_gguf.h"

#include "base/platform.h"
#include "compress/ggml_pack.h"
#include "frontends/gguf/gguf.h"

#include <math.h>

enum { HEAD = 24 };  // magic, version and two counts

typedef struct Packing {
  const QuantizeGgufOptions *o;
  Arena *arena;
  Diag *diag;
  QuantizeGgufResult *result;
  File file;
  Imported in;
  GgufFile gguf;
  Pool *pool;
  Str *data;  // by tensor
  int *code;  // by tensor: its type now
} Packing;

// ---- which ----

static bool is_head(const Packing *p, const Weight *w) {
  if (!strcmp(w->name, "output.weight")) return true;
  if (strcmp(w->name, "token_embd.weight")) return false;
  for (int64_t i = 0; i < p->in.weights.v.n; i++)
    if (!strcmp(p->in.weights.v.v[i].name, "output.weight")) return false;
  return true;
}

static bool is_matrix(const Weight *w) {
  static const char *const other[] = {"*_norm*",        "*ffn_gate_inp*", "*conv*",
                                      "position_embd*", "token_types*",   "*rel_b*"};
  if (w->rank < 2 || !str_ends(str_of(w->name), ".weight") || w->dims[w->rank - 2] < 2)
    return false;
  for (int64_t i = 0; i < ARRAY_LEN(other); i++)
    if (str_glob(other[i], w->name)) return false;
  return true;
}

static int type_for(Packing *p, const Weight *w, int to) {
  if (!is_matrix(w)) return w->packing;
  for (int64_t i = 0; i < p->o->nkeep; i++)
    if (str_glob(p->o->keep[i], w->name)) return w->packing;
  p->result->matrices++;
  if (!dtype_is_float(ggml_type[w->packing].plain)) {
    p->result->already++;
    return w->packing;
  }
  int code = ggml_pack_for(is_head(p, w) ? ggml_pack_output(to) : to, w->dims[w->rank - 1]);
  return code < 0 ? w->packing : code;
}

// ---- one tensor ----

typedef struct Rows {
  const Weight *w;
  int code;
  int64_t n, bytes;  // of a row: elements, and bytes of its blocks
  uint8_t *out;
  bool bad;  // some element is not finite; written by any thread, always true
} Rows;

static void pack_rows(void *ctx, int64_t begin, int64_t end) {
  Rows *r = ctx;
  DType plain = ggml_type[r->w->packing].plain;
  float *x = mem_alloc(r->n * (int64_t)sizeof *x);
  if (!x) trap_raise(TENON_ENOMEM, "out of memory");
  bool bad = false;
  for (int64_t row = begin; row < end; row++) {
    for (int64_t i = 0; i < r->n; i++) {
      double v = get_f64(plain, r->w->data, row * r->n + i);
      bad |= !isfinite(v);
      x[i] = (float)v;
    }
    if (!bad) ggml_pack_row(r->code, x, r->n, r->out + row * r->bytes);
  }
  mem_free(x, r->n * (int64_t)sizeof *x);
  if (bad) __atomic_store_n(&r->bad, true, __ATOMIC_RELAXED);
}

static tenon_status pack_tensor(Packing *p, const Weight *w, int code, Str *out) {
  enum { GRAIN = 16 };
  Rows r = {.w = w, .code = code, .n = w->dims[w->rank - 1]};
  r.bytes = r.n / ggml_type[code].block * ggml_type[code].bytes;
  int64_t rows = w->n / r.n;
  r.out = arena_alloc(p->arena, MAX(rows * r.bytes, 1));
  parallel_for(p->pool, rows, GRAIN, pack_rows, &r);
  if (r.bad)
    return fail(p->diag, TENON_EINVAL,
                (Where){.file = p->o->model, .node = w->name, .op = "tensor"},
                "an element is NaN or an infinity");
  *out = (Str){(const char *)r.out, rows * r.bytes};
  p->result->quantized++;
  p->result->of[code]++;
  return TENON_OK;
}

static tenon_status pack_tensors(Packing *p, int to) {
  const Weights *all = &p->in.weights;
  p->data = arena_array(p->arena, Str, MAX(all->v.n, 1));
  p->code = arena_array(p->arena, int, MAX(all->v.n, 1));
  for (int64_t i = 0; i < all->v.n; i++) {
    const Weight *w = &all->v.v[i];
    TRY(watch_step(p->o->watch, p->diag, "round", w->name, i, all->v.n));
    p->code[i] = type_for(p, w, to);
    p->data[i] = (Str){(const char *)w->data, w->bytes};
    if (p->code[i] != w->packing) TRY(pack_tensor(p, w, p->code[i], &p->data[i]));
  }
  return TENON_OK;
}

// ---- the file ----

static void put_number(StrBuf *b, uint64_t v, int bytes) {
  char c[8];
  for (int i = 0; i < bytes; i++) c[i] = (char)(v >> (8 * i));
  strbuf_put(b, (Str){c, bytes});
}

static int64_t padding(const Packing *p, int64_t n) {
  return (p->gguf.alignment - n % p->gguf.alignment) % p->gguf.alignment;
}

// The metadata as they are, but for what they say of the type.
static void put_metadata(Packing *p, int to, StrBuf *b) {
  const char *from = p->in.bytes.p;
  strbuf_put(b, (Str){from, p->gguf.table});
  for (int64_t i = 0; i < p->gguf.kv.n; i++) {
    const GgufValue *v = &p->gguf.kv.v[i];
    if (!str_is(v->key, "general.file_type") || v->kind != GV_U32) continue;
    uint32_t type = ggml_pack_file_type(to);
    char *at = b->p + (v->key.p + v->key.n - from) + 4;  // behind the kind of the value
    for (int k = 0; k < 4; k++) at[k] = (char)(type >> (8 * k));
  }
}

static void put_table(Packing *p, StrBuf *b) {
  uint64_t offset = 0;
  for (int64_t i = 0; i < p->in.weights.v.n; i++) {
    const Weight *w = &p->in.weights.v.v[i];
    int64_t n = (int64_t)strlen(w->name);
    put_number(b, (uint64_t)n, 8);
    strbuf_put(b, (Str){w->name, n});
    put_number(b, (uint64_t)w->rank, 4);
    for (int k = w->rank; k-- > 0;) put_number(b, (uint64_t)w->dims[k], 8);
    put_number(b, (uint64_t)p->code[i], 4);
    put_number(b, offset, 8);
    offset += (uint64_t)(p->data[i].n + padding(p, p->data[i].n));
  }
  for (int64_t pad = padding(p, b->n); pad > 0; pad--) put_number(b, 0, 1);
}

static tenon_status write_file(Packing *p, int to) {
  StrBuf head;
  int64_t n = p->in.weights.v.n;
  Str *part = arena_array(p->arena, Str, 2 * n + 1);
  const char *zeros = arena_alloc(p->arena, p->gguf.alignment);
  strbuf_init(&head, p->arena);
  put_metadata(p, to, &head);
  put_table(p, &head);
  part[0] = strbuf_str(&head);
  p->result->bytes[0] = p->in.bytes.n;
  p->result->bytes[1] = head.n;
  for (int64_t i = 0; i < n; i++) {
    part[1 + 2 * i] = p->data[i];
    part[2 + 2 * i] = (Str){zeros, padding(p, p->data[i].n)};
    p->result->bytes[1] += p->data[i].n + part[2 + 2 * i].n;
  }
  return file_write_parts(p->o->output, part, (int)(2 * n + 1), p->diag);
}

// ---- all of it ----

static tenon_status no_type(Packing *p, bool *misused) {
  *misused = true;
  return fail(p->diag, TENON_EINVAL, NOWHERE,
              "there is no type '%s' for GGUF files: q8_0, q6_k, q5_k, q4_k, q5_1, q5_0, q4_1 and "
              "q4_0 are written",
              p->o->to);
}

static tenon_status quantize(Packing *p, bool *misused) {
  int to = ggml_pack_find(str_of(p->o->to));
  if (to < 0) return no_type(p, misused);
  TRY(file_open(p->o->model, &p->file, p->diag));
  p->in = (Imported){.bytes = {(const char *)p->file.bytes, p->file.size}, .path = p->o->model};
  p->diag->base.file = p->o->model;
  if (!frontend_gguf.is(p->in.bytes))
    return fail(p->diag, TENON_EFORMAT, NOWHERE, "this is no GGUF file");
  TRY(frontend_begin(&p->in, p->diag));
  TRY(gguf_read(&p->in, p->diag, &p->gguf));
  CHECK(p->gguf.table >= HEAD, "the table of tensors");
  p->diag->base.file = NULL;
  p->pool = pool_create(p->o->threads);
  TRY(pack_tensors(p, to));
  if (!p->result->quantized)
    return fail(p->diag, TENON_EINVAL, (Where){.file = p->o->model},
                "there is nothing to quantise: no matrix of floats has rows of whole blocks%s",
                p->result->already ? ". Is the file quantised already?" : "");
  return write_file(p, to);
}

tenon_status quantize_gguf(const QuantizeGgufOptions *o, Arena *a, Diag *d, bool *misused,
                           QuantizeGgufResult *out) {
  Packing *p = arena_new(a, Packing);
  Trap t;
  *p = (Packing){.o = o, .arena = a, .diag = d, .result = out};
  *out = (QuantizeGgufResult){0};
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = quantize(p, misused);
  trap_leave(&t);
  d->base.file = NULL;
  pool_release(p->pool);
  if (p->in.graph) graph_free(p->in.graph);
  file_close(&p->file);
  return t.status;
}
