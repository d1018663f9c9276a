// cmd_embed.c -- `tenon embed` and `tenon rerank`: vectors of texts, and scores of pairs.
//
// Texts run together, as many as the engine has room for, and are printed in their order, or the
// best first.
#include "cli/llm/serve.h"

#include <stdlib.h>

typedef struct Vector {
  const float *v;
  int32_t n, tokens;
} Vector;

typedef struct Embed {
  Cli *cli;
  Llm *llm;
  Strs text;
  Vector *found;  // [text.n]
  LlmRequest ask;
} Embed;

static tenon_status submit(Embed *e, int64_t i) {
  uint64_t id;
  LlmRequest r = e->ask;
  r.tokenize = TOKENIZE_ADD_SPECIAL;
  r.r.sampler = sampler_greedy;
  r.r.user = (uint64_t)i;
  Str document = e->text.v[i];
  if (r.pair)
    r.pair = &document;
  else
    r.text = document;
  e->cli->diag.base.node = str_printf(&e->cli->arena, "text %lld", (long long)i);
  TRY(llm_submit(e->llm, &r, &e->cli->diag, &id));
  e->cli->diag.base.node = NULL;
  e->found[i].tokens = (int32_t)e->llm->tokens.n;
  return TENON_OK;
}

static tenon_status run_all(Embed *e) {
  e->found = arena_array(&e->cli->arena, Vector, e->text.n);
  for (int64_t next = 0; next < e->text.n || engine_busy(e->llm->engine);) {
    while (next < e->text.n && engine_has_room(e->llm->engine)) TRY(submit(e, next++));
    TRY(llm_step(e->llm, &e->cli->diag));
    for (int32_t i = 0; i < e->llm->nevents; i++) {
      const LlmEvent *ev = &e->llm->event[i];
      if (!ev->vector) continue;
      Vector *v = &e->found[ev->e->user];
      v->v = arena_dup(&e->cli->arena, ev->vector, ev->nvector * (int64_t)sizeof *ev->vector);
      v->n = ev->nvector;
    }
  }
  return TENON_OK;
}

static void print_vector(JsonWriter *w, const char *key, const Vector *v) {
  json_key(w, key);
  json_begin_flat_array(w);
  for (int32_t k = 0; k < v->n; k++) json_f32(w, v->v[k]);
  json_end_array(w);
}

static void print_number(JsonWriter *w, const char *key, int64_t v) {
  json_key(w, key);
  json_i64(w, v);
}

// ---- tenon embed ----

static void print_embeddings(Embed *e) {
  for (int64_t i = 0; i < e->text.n; i++) {
    StrBuf b;
    JsonWriter w;
    strbuf_init(&b, &e->cli->arena);
    json_init(&w, &b, true);
    json_begin_object(&w);
    print_number(&w, "index", i);
    print_number(&w, "tokens", e->found[i].tokens);
    print_vector(&w, "embedding", &e->found[i]);
    json_end_object(&w);
    cli_print(&b);
  }
}

static tenon_status pooling(Embed *e, EnginePool *out) {
  static const char *const name[] = {
      [POOL_MEAN] = "mean", [POOL_FIRST] = "first", [POOL_LAST] = "last"};
  const char *given = opt_text(e->cli, OPT_embed_pooling, NULL);
  *out = POOL_NONE;
  for (int i = POOL_MEAN; given && i < (int)ARRAY_LEN(name); i++)
    if (!strcmp(given, name[i])) *out = (EnginePool)i;
  e->cli->misused = given && !*out;
  if (!e->cli->misused) return TENON_OK;
  return fail(&e->cli->diag, TENON_EINVAL, NOWHERE, "--pooling is mean, first or last, not '%s'",
              given);
}

static tenon_status embed(Embed *e) {
  Cli *c = e->cli;
  EnginePool pool;
  TRY(pooling(e, &pool));
  TRY(serve_texts(c, OPT_embed_prompt, OPT_embed_file, "text", &e->text));
  TRY(serve_open(c, &(LlmServeOptions){.embed = true, .draft = -1}, &e->llm));
  e->ask = (LlmRequest){.truncate = opt_given(c, OPT_embed_truncate),
                        .normalise = !opt_given(c, OPT_embed_raw),
                        .adapter = serve_adapter(c)};
  e->ask.r.pool = pool ? pool : llm_pool(e->llm);
  TRY(run_all(e));
  print_embeddings(e);
  return TENON_OK;
}

// ---- tenon rerank ----

typedef struct Ranked {
  float score;
  int64_t index;
} Ranked;

// The best first; of equals the earlier one.
static int by_score(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static void print_ranked(Embed *e, const Ranked *r) {
  const Vector *v = &e->found[r->index];
  if (!opt_given(e->cli, OPT_rerank_json)) {
    printf("%10.5f %5lld  ", (double)r->score, (long long)r->index);
    serve_print(e->text.v[r->index]);
    putchar('\n');
    return;
  }
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &e->cli->arena);
  json_init(&w, &b, true);
  json_begin_object(&w);
  print_number(&w, "index", r->index);
  print_vector(&w, "scores", v);
  json_key(&w, "text");
  json_str(&w, e->text.v[r->index]);
  json_end_object(&w);
  cli_print(&b);
}

static tenon_status rerank(Embed *e) {
  static const Str none = {"", 0};
  Cli *c = e->cli;
  const char *query = opt_text(c, OPT_rerank_query, NULL);
  c->misused = !query;
  if (!query) return fail(&c->diag, TENON_EINVAL, NOWHERE, "no query: -q TEXT gives one");
  TRY(serve_texts(c, OPT_rerank_document, OPT_rerank_file, "text", &e->text));
  TRY(serve_open(c, &(LlmServeOptions){.embed = true, .draft = -1}, &e->llm));
  e->ask = (LlmRequest){.text = str_of(query),
                        .pair = &none,
                        .truncate = opt_given(c, OPT_rerank_truncate),
                        .adapter = serve_adapter(c),
                        .r = {.pool = POOL_SCORES}};
  TRY(run_all(e));
  // Of several scores the last one is that of "yes".
  Ranked *r = arena_array(&c->arena, Ranked, e->text.n);
  for (int64_t i = 0; i < e->text.n; i++) r[i] = (Ranked){e->found[i].v[e->found[i].n - 1], i};
  qsort(r, (size_t)e->text.n, sizeof *r, by_score);
  for (int64_t i = 0; i < MIN(e->text.n, opt_int(c, OPT_rerank_top, e->text.n)); i++)
    print_ranked(e, &r[i]);
  return TENON_OK;
}

static int run(Cli *c, tenon_status (*what)(Embed *e)) {
  Embed e = {.cli = c};
  tenon_status s = what(&e);
  llm_free(e.llm);
  return cli_exit_of(s);
}

int cmd_embed(Cli *c) { return run(c, embed); }
int cmd_rerank(Cli *c) { return run(c, rerank); }
