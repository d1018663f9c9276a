// vectors.c -- POST /v1/embeddings and /v1/rerank.
#include "serve/openai/ask.h"
#include "serve/routes.h"

#include <math.h>
#include <stdlib.h>

static int64_t tokens_of(const Asks *a) {
  int64_t n = 0;
  for (int64_t i = 0; i < a->n; i++) n += a->one[i].tokens;
  return n;
}

static void put_usage(JsonWriter *w, int64_t tokens) {
  json_key(w, "usage");
  json_begin_object(w);
  json_key(w, "prompt_tokens");
  json_i64(w, tokens);
  json_key(w, "total_tokens");
  json_i64(w, tokens);
  json_end_object(w);
}

// ---- embeddings ----
typedef struct Embeddings {
  const char *name;  // of the model, or an adapter
  bool base64;
  int64_t dimensions;  // 0: not given
} Embeddings;

// Little-endian floats, as OpenAI's clients read them.
static void put_base64(JsonWriter *w, const float *v, int64_t n, Arena *a) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const uint8_t *p = (const uint8_t *)v;
  int64_t bytes = n * (int64_t)sizeof *v, at = 0;
  char *out = arena_alloc(a, (bytes + 2) / 3 * 4 + 1);
  for (int64_t i = 0; i < bytes; i += 3) {
    uint32_t three = 0;
    for (int64_t k = 0; k < 3; k++) three = three << 8 | (i + k < bytes ? p[i + k] : 0u);
    for (int k = 0; k < 4; k++)
      out[at++] = i + k <= bytes ? digit[three >> (18 - 6 * k) & 63] : '=';
  }
  json_str(w, (Str){out, at});
}

static void embeddings_done(Asks *a) {
  const Embeddings *e = a->of_route;
  StrBuf b;
  JsonWriter w;
  if (e->dimensions && e->dimensions != a->one->n) {
    http_fail_as(a->x, 400, "dimensions", NULL,
                 str_printf(&a->x->arena, "the model's embeddings have %lld elements",
                            (long long)a->one->n));
    return;
  }
  strbuf_init(&b, &a->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "object");
  json_cstr(&w, "list");
  json_key(&w, "data");
  json_begin_array(&w);
  for (int64_t i = 0; i < a->n; i++) {
    const AskOne *o = &a->one[i];
    json_begin_object(&w);
    json_key(&w, "object");
    json_cstr(&w, "embedding");
    json_key(&w, "index");
    json_i64(&w, i);
    json_key(&w, "embedding");
    if (e->base64) {
      put_base64(&w, o->vector, o->n, &a->x->arena);
    } else {
      json_begin_array(&w);
      for (int64_t k = 0; k < o->n; k++) json_f32(&w, o->vector[k]);
      json_end_array(&w);
    }
    json_end_object(&w);
  }
  json_end_array(&w);
  json_key(&w, "model");
  json_cstr(&w, e->name);
  put_usage(&w, tokens_of(a));
  json_end_object(&w);
  http_reply(a->x, 200, "application/json", strbuf_str(&b));
}

static bool is_tokens(const Json *v) {
  for (int64_t i = 0; i < v->n; i++)
    if (v->item[i].kind != JSON_INT) return false;
  return v->kind == JSON_ARRAY && v->n > 0;
}

static Str embed_ask(Fields *f, const Json *v, bool truncate) {
  StrBuf b;
  JsonWriter w;
  Diag d;
  diag_init(&d);
  strbuf_init(&b, &f->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "op");
  json_cstr(&w, "embed");
  json_key(&w, "client");
  json_i64(&w, f->x->client);
  if (f->adapter) {
    json_key(&w, "adapter");
    json_cstr(&w, f->adapter);
  }
  json_key(&w, "truncate");
  json_bool(&w, truncate);
  json_key(&w, v->kind == JSON_STRING ? "text" : "tokens");
  if (json_put(&w, v, &d)) field_wrong(f, "input", "%s", d.text);
  json_end_object(&w);
  return strbuf_str(&b);
}

// The asks of a text, of tokens, or of a list of either.
static Str *read_inputs(Fields *f, int64_t *out_n) {
  const Json *v = field(f, "input");
  const Json *cut = field_of(f, "truncate", JSON_BOOL, "true or false");
  if (!v) field_wrong(f, "input", "'input' is needed");
  if (f->why) return NULL;
  bool one = v->kind == JSON_STRING || is_tokens(v);
  if (!one && (v->kind != JSON_ARRAY || !v->n || v->n > SERVE_TEXTS))
    field_wrong(f, "input", "'input' is a text, a list of tokens, or a list of 1 to %d of either",
                SERVE_TEXTS);
  if (f->why) return NULL;
  *out_n = one ? 1 : v->n;
  Str *ask = arena_array(&f->x->arena, Str, *out_n);
  for (int64_t i = 0; i < *out_n && !f->why; i++) {
    const Json *item = one ? v : &v->item[i];
    if (item->kind == JSON_STRING ? !item->s.n : !is_tokens(item))
      field_wrong(f, "input", "input %lld is neither a text nor a list of tokens, or empty",
                  (long long)i);
    if (!f->why) ask[i] = embed_ask(f, item, cut && cut->b);
  }
  return ask;
}

static void embeddings(HttpExchange *x) {
  static const char *const ignored[] = {"user", NULL};
  Fields f;
  if (!fields_begin(&f, x)) return;
  Asks *a = arena_new(&x->arena, Asks);
  Embeddings *e = arena_new(&x->arena, Embeddings);
  *a = (Asks){.x = x, .done = embeddings_done, .of_route = e};
  a->model = generate_model(&f);
  if (openai_missing(&f)) return;
  e->name = f.adapter ? f.adapter : a->model ? a->model->name : "";
  Str format = field_text(&f, "encoding_format");
  e->base64 = format.p && str_is(format, "base64");
  if (format.p && !e->base64 && !str_is(format, "float"))
    field_wrong(&f, "encoding_format", "'encoding_format' is float or base64");
  (void)field_int(&f, "dimensions", &e->dimensions);
  fields_ignore(&f, ignored);
  Str *ask = read_inputs(&f, &a->n);
  if (fields_end(&f)) asks_begin(a, ask);
}

// ---- rerank ----
typedef struct Rerank {
  const Json *documents;
  int64_t top;
  bool return_documents;
} Rerank;

typedef struct Scored {
  int64_t index;
  float score;
} Scored;

static int by_score(const void *pa, const void *pb) {
  const Scored *a = pa, *b = pb;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

static Str document_text(const Json *v) {
  const Json *text = v->kind == JSON_OBJECT ? json_get(v, "text") : v;
  return text && text->kind == JSON_STRING ? text->s : (Str){0};
}

static void rerank_done(Asks *a) {
  const Rerank *r = a->of_route;
  StrBuf b;
  JsonWriter w;
  Scored *s = arena_array(&a->x->arena, Scored, a->n);
  // One score is turned into a probability, as others do; of several the last is that of "fits".
  for (int64_t i = 0; i < a->n; i++) {
    const AskOne *o = &a->one[i];
    double x = o->n ? (double)o->vector[o->n - 1] : 0;
    s[i] = (Scored){i, (float)(1 / (1 + exp(-x)))};
  }
  qsort(s, (size_t)a->n, sizeof *s, by_score);
  strbuf_init(&b, &a->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "id");
  json_cstr(&w, str_printf(&a->x->arena, "rerank-%016llx", (unsigned long long)a->x->id));
  json_key(&w, "model");
  json_cstr(&w, a->model->name);
  json_key(&w, "object");
  json_cstr(&w, "list");
  json_key(&w, "results");
  json_begin_array(&w);
  for (int64_t i = 0; i < MIN(a->n, r->top); i++) {
    json_begin_object(&w);
    json_key(&w, "index");
    json_i64(&w, s[i].index);
    json_key(&w, "relevance_score");
    json_f32(&w, s[i].score);
    if (r->return_documents) {
      json_key(&w, "document");
      json_begin_object(&w);
      json_key(&w, "text");
      json_str(&w, document_text(&r->documents->item[s[i].index]));
      json_end_object(&w);
    }
    json_end_object(&w);
  }
  json_end_array(&w);
  put_usage(&w, tokens_of(a));
  json_end_object(&w);
  http_reply(a->x, 200, "application/json", strbuf_str(&b));
}

static Str rank_ask(const Fields *f, Str query, Str document, bool truncate) {
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &f->x->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "op");
  json_cstr(&w, "rank");
  json_key(&w, "client");
  json_i64(&w, f->x->client);
  json_key(&w, "truncate");
  json_bool(&w, truncate);
  json_key(&w, "text");
  json_str(&w, query);
  json_key(&w, "pair");
  json_str(&w, document);
  json_end_object(&w);
  return strbuf_str(&b);
}

static Str *read_documents(Fields *f, Str query, const Json *list, bool truncate) {
  Str *ask = arena_array(&f->x->arena, Str, list->n);
  for (int64_t i = 0; i < list->n && !f->why; i++) {
    Str text = document_text(&list->item[i]);
    if (!text.n)
      field_wrong(f, "documents", "document %lld is no text, or empty", (long long)i);
    else
      ask[i] = rank_ask(f, query, text, truncate);
  }
  return ask;
}

static void rerank(HttpExchange *x) {
  static const char *const ignored[] = {"user", "max_chunks_per_doc", NULL};
  Fields f;
  Str *ask = NULL;
  if (!fields_begin(&f, x)) return;
  Asks *a = arena_new(&x->arena, Asks);
  Rerank *r = arena_new(&x->arena, Rerank);
  *a = (Asks){.x = x, .done = rerank_done, .of_route = r};
  a->model = generate_model(&f);
  if (openai_missing(&f)) return;
  Str query = field_text(&f, "query");
  r->documents = field_of(&f, "documents", JSON_ARRAY, "a list");
  r->return_documents = field_bool(&f, "return_documents");
  r->top = INT64_MAX;
  (void)field_int(&f, "top_n", &r->top);
  bool truncate = field_bool(&f, "truncate");
  fields_ignore(&f, ignored);
  if (!query.n) field_wrong(&f, "query", "'query' is needed, and not empty");
  if (!r->documents || !r->documents->n || r->documents->n > SERVE_TEXTS)
    field_wrong(&f, "documents", "'documents' has 1 to %d texts", SERVE_TEXTS);
  if (!f.why) {
    a->n = r->documents->n;
    ask = read_documents(&f, query, r->documents, truncate);
  }
  if (fields_end(&f)) asks_begin(a, ask);
}

const HttpRoute vector_routes[] = {
    {.methods = HTTP_POST, .path = "/v1/embeddings", .handle = embeddings},
    {.methods = HTTP_POST, .path = "/v1/rerank", .handle = rerank},
    {.methods = HTTP_POST, .path = "/rerank", .handle = rerank},
    {0}};
