// llm_fake.c -- a language model without weights; see llm_fake.h.
#include "llm_fake.h"

#include <stdlib.h>

enum { POISON = -1 };

void fake_logits(const FakeModel *f, const int32_t *token, int32_t n, float *logits) {
  int32_t from = f->far ? 0 : MAX(0, n - f->history);
  uint64_t h = hash_bytes(token + from, (n - from) * (int64_t)sizeof *token, 77);
  for (int32_t v = 0; v < f->model.vocab; v++)
    logits[v] = (float)(hash_u64(h + (uint64_t)v) >> 40) * (8.0f / 16777216.0f) - 4;
}

// The tokens 0 ... pos of a row's sequence, through the page table.
static void gather(FakeModel *f, const EngineBatch *b, int32_t row) {
  const int32_t *table = b->table + (int64_t)b->seq[row] * b->stride;
  for (int32_t i = 0; i <= b->pos[row]; i++) {
    int32_t slot = table[i / ENGINE_PAGE] * ENGINE_PAGE + i % ENGINE_PAGE;
    if (f->at[slot] != i) f->wrong_reads++;
    f->gathered[i] = f->id[slot];
  }
}

static tenon_status run(void *ctx, const EngineBatch *b, Diag *d) {
  FakeModel *f = ctx;
  f->runs++;
  bool fails = f->fail_in > 0 && --f->fail_in == 0;
  for (int32_t t = 0; t < b->rows; t++) {
    f->id[b->slot[t]] = b->ids[t];
    f->at[b->slot[t]] = b->pos[t];
    if (fails && t > b->rows / 2) return fail(d, TENON_EDEVICE, NOWHERE, "planted");
  }
  if (fails) return fail(d, TENON_EDEVICE, NOWHERE, "planted");
  for (int32_t r = 0; r < b->outs; r++) {
    gather(f, b, b->out[r]);
    fake_logits(f, f->gathered, b->pos[b->out[r]] + 1, b->logits + (int64_t)r * f->model.vocab);
  }
  return TENON_OK;
}

static void freed(void *ctx, int32_t page) {
  FakeModel *f = ctx;
  for (int32_t i = 0; i < ENGINE_PAGE; i++) f->id[page * ENGINE_PAGE + i] = POISON;
  for (int32_t i = 0; i < ENGINE_PAGE; i++) f->at[page * ENGINE_PAGE + i] = POISON;
}

void fake_init(FakeModel *f, const EngineModel *m, int32_t history, bool far) {
  size_t slots = (size_t)m->pages * ENGINE_PAGE;
  *f = (FakeModel){.model = *m, .history = history, .far = far};
  f->model.ctx = f;
  f->model.run = run;
  f->model.freed = freed;
  f->id = malloc(slots * sizeof *f->id);
  f->at = malloc(slots * sizeof *f->at);
  f->gathered = malloc((size_t)m->context * sizeof *f->gathered);
  for (int32_t i = 0; i < m->pages; i++) freed(f, i);
}

void fake_deinit(FakeModel *f) {
  free(f->id);
  free(f->at);
  free(f->gathered);
}

static bool is_stop(const EngineRequest *r, int32_t token) {
  for (int32_t i = 0; i < r->nstop; i++)
    if (r->stop[i] == token) return true;
  return false;
}

int32_t fake_generate(const FakeModel *f, const EngineRequest *r, int32_t *tokens,
                      EngineFinish *out_why) {
  int32_t vocab = f->model.vocab, n = r->ntokens, end = n + r->max_tokens;
  int32_t *all = malloc((size_t)end * sizeof *all);
  float *logits = malloc((size_t)vocab * sizeof *logits);
  SamplerScratch s = {.logit = malloc((size_t)vocab * sizeof(float)),
                      .key = malloc((size_t)vocab * sizeof(float)),
                      .id = malloc((size_t)vocab * sizeof(int32_t)),
                      .count = calloc((size_t)vocab, sizeof(int32_t)),
                      .allowed = malloc(((size_t)vocab + 31) / 32 * sizeof(uint32_t))};
  memcpy(all, r->tokens, (size_t)n * sizeof *all);
  *out_why = FINISH_LENGTH;
  while (n < end && *out_why == FINISH_LENGTH) {
    SamplerInput in = {&r->sampler, r->bias, r->nbias, r->mask, all, n, r->ntokens, end - n};
    fake_logits(f, all, n, logits);
    int32_t token = sampler_draw(&in, logits, vocab, &s);
    if (token < 0) *out_why = FINISH_NO_TOKEN;
    if (token >= 0) all[n++] = token;
    if (token >= 0 && is_stop(r, token)) *out_why = FINISH_STOP;
  }
  n -= r->ntokens;
  memcpy(tokens, all + r->ntokens, (size_t)n * sizeof *tokens);
  free(all), free(logits), free(s.logit), free(s.key), free(s.id), free(s.count), free(s.allowed);
  return n;
}
