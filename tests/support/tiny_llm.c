// tiny_llm.c -- small language models for tests (tiny_llm.h).
#include "tiny_llm.h"

#include "base/platform.h"
#include "ir/interpret.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

void tiny_init(TinyLlm *m) {
  *m = (TinyLlm){.seed = 7};
  arena_init(&m->arena);
  strbuf_init(&m->meta, &m->arena);
}
void tiny_free(TinyLlm *m) { arena_deinit(&m->arena); }

// About -1 to 1.
static double random_number(TinyLlm *m) {
  m->seed = hash_u64(m->seed + 1);
  return (double)(m->seed >> 11) / (double)(1ull << 52) - 1;
}

TinyTensor *tiny_add(TinyLlm *m, const char *name, double mean, double spread, int64_t d0,
                     int64_t d1) {
  TinyTensor t = {.name = name, .rank = d1 ? 2 : 1, .dims = {d0, d1}, .n = d1 ? d0 * d1 : d0};
  t.data = arena_array(&m->arena, float, t.n);
  for (int64_t i = 0; i < t.n; i++) t.data[i] = (float)(mean + spread * random_number(m));
  vec_push(&m->arena, &m->t, t);
  return &m->t.v[m->t.n - 1];
}

TinyTensor *tiny_raw(TinyLlm *m, const char *name, const char *stored, int64_t d0, int64_t d1,
                     const void *bytes, int64_t n) {
  TinyTensor t = {.name = str_copy(&m->arena, str_of(name)),
                  .rank = d1 ? 2 : 1,
                  .dims = {d0, d1},
                  .stored = stored,
                  .bytes = n};
  t.data = arena_dup(&m->arena, bytes, n);
  vec_push(&m->arena, &m->t, t);
  return &m->t.v[m->t.n - 1];
}

TinyTensor *tiny_addf(TinyLlm *m, double mean, double spread, int64_t d0, int64_t d1,
                      const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *name = str_vprintf(&m->arena, fmt, ap);
  va_end(ap);
  return tiny_add(m, name, mean, spread, d0, d1);
}

const float *tiny_get(const TinyLlm *m, const char *fmt, ...) {
  char name[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(name, sizeof name, fmt, ap);
  va_end(ap);
  for (int64_t i = 0; i < m->t.n; i++)
    if (!strcmp(m->t.v[i].name, name)) return m->t.v[i].data;
  FAIL("no tensor '%s'", name);
  abort();
}

// ---- files ----

void tiny_write(const char *path, const void *bytes, int64_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, (size_t)n, f) != (size_t)n) FAIL("cannot write %s", path);
  if (f) fclose(f);
}

static void put_number(StrBuf *b, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) strbuf_putc(b, (char)(v >> (8 * i)));
}

static void write_shard(TinyLlm *m, const char *path, int shard, int shards) {
  StrBuf head, all;
  strbuf_init(&head, &m->arena);
  strbuf_init(&all, &m->arena);
  strbuf_putc(&head, '{');
  int64_t at = 0;
  for (int64_t i = shard; i < m->t.n; i += shards) {
    const TinyTensor *t = &m->t.v[i];
    int64_t bytes = t->stored ? t->bytes : 4 * t->n;
    strbuf_printf(&head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", at ? "," : "", t->name,
                  t->stored ? t->stored : "F32", (long long)t->dims[0]);
    for (int k = 1; k < t->rank; k++) strbuf_printf(&head, ",%lld", (long long)t->dims[k]);
    strbuf_printf(&head, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + bytes));
    at += bytes;
  }
  strbuf_putc(&head, '}');
  while (head.n % 8) strbuf_putc(&head, ' ');
  put_number(&all, (uint64_t)head.n, 8);
  strbuf_put(&all, strbuf_str(&head));
  for (int64_t i = shard; i < m->t.n; i += shards)
    strbuf_put(&all, (Str){(const char *)m->t.v[i].data,
                           m->t.v[i].stored ? m->t.v[i].bytes : 4 * m->t.v[i].n});
  tiny_write(path, all.p, all.n);
}

const char *tiny_folder(TinyLlm *m, const char *name, const char *config, int shards) {
  const char *folder = str_printf(&m->arena, "%s/%s", test_folder(), name);
  platform->make_folder(folder, 0700);
  tiny_write(str_printf(&m->arena, "%s/config.json", folder), config, (int64_t)strlen(config));
  if (shards == 1) {
    write_shard(m, str_printf(&m->arena, "%s/model.safetensors", folder), 0, 1);
    return folder;
  }
  StrBuf index;
  strbuf_init(&index, &m->arena);
  strbuf_puts(&index, "{\"metadata\":{},\"weight_map\":{");
  for (int64_t i = 0; i < m->t.n; i++)
    strbuf_printf(&index, "%s\"%s\":\"model-%lld.safetensors\"", i ? "," : "", m->t.v[i].name,
                  (long long)(i % shards));
  strbuf_puts(&index, "}}");
  for (int s = 0; s < shards; s++)
    write_shard(m, str_printf(&m->arena, "%s/model-%d.safetensors", folder, s), s, shards);
  tiny_write(str_printf(&m->arena, "%s/model.safetensors.index.json", folder), index.p, index.n);
  return folder;
}

const char *tiny_adapter(TinyLlm *m, const char *name, const char *config) {
  const char *folder = str_printf(&m->arena, "%s/%s", test_folder(), name);
  platform->make_folder(folder, 0700);
  tiny_write(str_printf(&m->arena, "%s/adapter_config.json", folder), config,
             (int64_t)strlen(config));
  write_shard(m, str_printf(&m->arena, "%s/adapter_model.safetensors", folder), 0, 1);
  return folder;
}

static void put_str(StrBuf *b, const char *s) {
  put_number(b, strlen(s), 8);
  strbuf_puts(b, s);
}
void tiny_meta_u32(TinyLlm *m, const char *key, uint32_t v) {
  put_str(&m->meta, key);
  put_number(&m->meta, 4, 4);
  put_number(&m->meta, v, 4);
  m->nmeta++;
}
void tiny_meta_f32(TinyLlm *m, const char *key, float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  put_str(&m->meta, key);
  put_number(&m->meta, 6, 4);
  put_number(&m->meta, bits, 4);
  m->nmeta++;
}
void tiny_meta_str(TinyLlm *m, const char *key, const char *v) {
  put_str(&m->meta, key);
  put_number(&m->meta, 8, 4);
  put_str(&m->meta, v);
  m->nmeta++;
}

// The elements of a tensor as GGUF has them: of a head's rows, the two halves alternate.
static void put_elements(StrBuf *b, const TinyTensor *t) {
  int64_t width = t->rank == 2 ? t->dims[1] : 1, rows = t->dims[0];
  int64_t size = t->heads ? rows / t->heads : 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t in = size ? r % size : 0, from = r;
    if (size) from = r - in + in / 2 + (in % 2) * (size / 2);
    strbuf_put(b, (Str){(const char *)(t->data + from * width), 4 * width});
  }
  while (b->n % 32) strbuf_putc(b, 0);
}

const char *tiny_gguf(TinyLlm *m, const char *name) {
  StrBuf b, data;
  strbuf_init(&b, &m->arena);
  strbuf_init(&data, &m->arena);
  int64_t n = 0;
  for (int64_t i = 0; i < m->t.n; i++) n += m->t.v[i].gguf != NULL;
  strbuf_puts(&b, "GGUF");
  put_number(&b, 3, 4);
  put_number(&b, (uint64_t)n, 8);
  put_number(&b, (uint64_t)m->nmeta, 8);
  strbuf_put(&b, strbuf_str(&m->meta));
  for (int64_t i = 0; i < m->t.n; i++) {
    const TinyTensor *t = &m->t.v[i];
    if (!t->gguf) continue;
    put_str(&b, t->gguf);
    put_number(&b, (uint64_t)t->rank, 4);
    for (int k = t->rank - 1; k >= 0; k--) put_number(&b, (uint64_t)t->dims[k], 8);
    put_number(&b, 0, 4);  // f32
    put_number(&b, (uint64_t)data.n, 8);
    put_elements(&data, t);
  }
  while (b.n % 32) strbuf_putc(&b, 0);
  strbuf_put(&b, strbuf_str(&data));
  const char *path = str_printf(&m->arena, "%s/%s.gguf", test_folder(), name);
  tiny_write(path, b.p, b.n);
  return path;
}

// ---- running ----

tenon_status tiny_open(const char *path, Diag *d, LlmModel **out) {
  diag_init(d);
  return llm_open(path, NULL, d, out);
}

static float *run_graph(Graph *g, Diag *d, const int32_t *ids, int64_t n, int64_t vocab) {
  float *y = NULL;
  Interp *in = NULL;
  if (interp_create(g, NULL, d, &in)) return NULL;
  Run run;
  run_init(&run, NULL, d);
  Value *x = NULL, *out = NULL;
  tenon_status s = value_borrow(&run, DT_I32, 1, &n, ids, &x);
  if (!s) s = interp_run(in, &run, &x, &out);
  if (!s && out->rank == 2 && out->dims[0] == n && out->dims[1] == vocab) {
    y = malloc((size_t)(n * vocab) * sizeof *y);
    memcpy(y, out->data, (size_t)(n * vocab) * sizeof *y);
  }
  run_deinit(&run);
  interp_free(in);
  return y;
}

static int64_t count_nodes(Graph *g, int op) {
  NodeList all = body_order(g, g->main, &g->scratch);
  int64_t n = 0;
  for (int64_t i = 0; i < all.n; i++) n += all.v[i]->op == op;
  return n;
}

float *tiny_logits(const char *path, const int32_t *ids, int64_t n, int64_t vocab) {
  int64_t unused;
  return tiny_logits_of(path, NULL, ids, n, vocab, 0, &unused);
}

float *tiny_logits_of(const char *path, const LlmBuildOptions *how, const int32_t *ids, int64_t n,
                      int64_t vocab, int op, int64_t *out_nodes) {
  Diag d;
  LlmModel *m = NULL;
  Graph *g = NULL;
  float *y = NULL;
  tenon_status s = tiny_open(path, &d, &m);
  if (!s) s = graph_create(&d, &g);
  if (!s) s = llm_build(m, how, g);
  if (!s) s = graph_verify(g, &d);
  if (!s) *out_nodes = count_nodes(g, op);
  if (!s) y = run_graph(g, &d, ids, n, vocab);
  if (!y) FAIL("%s: %s", path, d.text);
  graph_free(g);
  llm_close(m);
  return y;
}

double tiny_difference(const float *a, const double *b, int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    double e = fabs((double)a[i] - b[i]);
    worst = e <= worst ? worst : e;
    if (isnan(e)) return INFINITY;
  }
  return worst;
}
