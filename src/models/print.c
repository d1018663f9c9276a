// print.c -- a model as lines of "key: value" (llm.h).
#include "models/arch.h"

#include <stdio.h>

typedef struct Printer {
  LlmFactFn *fn;
  void *ctx;
} Printer;

static void line(const Printer *p, const char *key, const char *fmt, ...) PRINTF(3, 4);
static void line(const Printer *p, const char *key, const char *fmt, ...) {
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  p->fn(p->ctx, key, text);
}

static int64_t layers_of(const LlmSpec *s, int mixer) {
  int64_t n = 0;
  for (int64_t i = 0; i < s->layers; i++) n += (int)s->layer[i].mixer == mixer;
  return n;
}

static void print_attention(const Printer *p, const LlmSpec *s) {
  int64_t n = layers_of(s, LLM_ATTENTION) + layers_of(s, LLM_MLA), windows = 0, none = 0;
  if (!n) return;
  line(p, "heads", "%lld of %lld, %lld of keys and values", (long long)s->heads,
       (long long)s->head_size, (long long)s->kv_heads);
  int64_t width = 0;
  for (int64_t i = 0; i < s->layers; i++) {
    windows += s->layer[i].window > 0;
    none += s->layer[i].rope < 0;
    width = MAX(width, s->layer[i].window);
  }
  if (windows)
    line(p, "windows", "%lld tokens in %lld of %lld layers", (long long)width, (long long)windows,
         (long long)s->layers);
  const LlmRope *r = &s->rope[0];
  if (r->dim)
    line(p, "rotary positions", "%s, %lld of a head%s%s", r->about, (long long)r->dim,
         r->interleaved ? ", pairs of neighbours" : "", none ? ", not in every layer" : "");
  if (s->alibi) line(p, "positions", "ALiBi");
  if (s->positions) line(p, "positions", "learned, %lld", (long long)s->positions);
}

void llm_facts(const LlmModel *m, LlmFactFn *fn, void *ctx) {
  static const char *const mixer[] = {"attention", "latent attention", "Mamba-2", "gated delta"};
  static const char *const act[] = {"silu", "gelu", "gelu by tanh", "relu", "relu squared"};
  const LlmSpec *s = &m->spec;
  Printer p = {fn, ctx};
  line(&p, "architecture", "%s: %s", s->name, s->row->doc);
  line(&p, "vocabulary", "%lld", (long long)s->vocab);
  line(&p, "context", "%lld", (long long)s->context);
  line(&p, "hidden size", "%lld", (long long)s->hidden);
  for (int i = 0; i < (int)ARRAY_LEN(mixer); i++)
    if (layers_of(s, i)) line(&p, "layers", "%lld of %s", (long long)layers_of(s, i), mixer[i]);
  print_attention(&p, s);
  if (s->ffn)
    line(&p, "feed-forward", "%lld, %s%s", (long long)s->ffn, act[s->act], s->gated ? " gate" : "");
  if (s->moe.experts)
    line(&p, "experts", "%lld of %lld, %lld a token%s", (long long)s->moe.experts,
         (long long)s->moe.size, (long long)s->moe.top_k, s->moe.shared ? ", one shared" : "");
  line(&p, "norm", "%s, epsilon %g", s->norm == LLM_RMS ? "RMS" : "layer", s->epsilon);
  if (s->classify) line(&p, "scores", "%lld", (long long)s->labels);
  if (llm_headless(s))
    line(&p, "head", "none: it embeds");
  else
    line(&p, "head", "%s", s->tied ? "the embedding" : "its own");
  line(&p, "weights", "%lld bytes", (long long)m->weight_bytes);
  line(&p, "bytes a token", "%lld of weights", (long long)m->token_bytes);
  line(&p, "cache", "%lld bytes a token in f32", (long long)(llm_page_bytes(s, DT_F32) / LLM_PAGE));
}
