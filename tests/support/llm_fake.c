// llm_fake.c -- a language model without weights; see llm_fake.h.
#include "llm_fake.h"

#include <stdlib.h>

enum { POISON = -1 };

static uint64_t after(uint64_t state, int32_t token) {
  return hash_u64(state * 31 + (uint64_t)token + 1);
}

static void logits_of(const FakeModel *f, const int32_t *token, int32_t n, uint64_t state,
                      float *logits) {
  int32_t from = f->far ? 0 : MAX(0, n - f->history);
  uint64_t h = hash_bytes(token + from, (n - from) * (int64_t)sizeof *token, 77 + state);
  for (int32_t v = 0; v < f->model.vocab; v++)
    logits[v] = (float)(hash_u64(h + (uint64_t)v) >> 40) * (8.0f / 16777216.0f) - 4;
}

// What an adapter adds to the state that logits and vectors are made of.
static uint64_t adapted(int32_t adapter) { return (uint64_t)adapter * 1000003; }

void fake_logits(const FakeModel *f, const int32_t *token, int32_t n, int32_t adapter,
                 float *logits) {
  uint64_t state = 0;
  for (int32_t i = 0; f->model.states && i < n; i++) state = after(state, token[i]);
  logits_of(f, token, n, state + adapted(adapter), logits);
}

// The hidden state of a row that sees these tokens, and its scores.
static void hidden_of(const FakeModel *f, const int32_t *token, int32_t n, uint64_t state,
                      int32_t type, float *hidden, float *scores) {
  uint64_t h = hash_bytes(token, n * (int64_t)sizeof *token, 78 + state + (uint64_t)type);
  for (int32_t i = 0; i < f->model.hidden; i++)
    hidden[i] = (float)(hash_u64(h + (uint64_t)i) >> 40) * (1.0f / 16777216.0f);
  for (int32_t i = 0; i < f->model.scores; i++) scores[i] = (float)(h >> (40 + i));
}

void fake_vector(const FakeModel *f, const EngineRequest *r, float *out) {
  int32_t n = r->ntokens, one = n - 1;
  double sum[16] = {0};
  float row[16], scores[16];
  uint64_t state = 0;
  if (r->pool == POOL_FIRST || (r->pool == POOL_SCORES && f->model.whole)) one = 0;
  for (int32_t at = 0; at < n; at++) {
    if (f->model.states) state = after(state, r->tokens[at]);
    int32_t type = f->model.whole && r->second && at >= r->second;
    hidden_of(f, r->tokens, f->model.whole ? n : at + 1, state + (uint64_t)at + adapted(r->adapter),
              type, row, scores);
    for (int32_t i = 0; i < f->model.hidden; i++) sum[i] += (double)row[i];
    if (at != one) continue;
    if (r->pool == POOL_SCORES)
      memcpy(out, scores, (size_t)f->model.scores * sizeof *out);
    else
      memcpy(out, row, (size_t)f->model.hidden * sizeof *out);
  }
  for (int32_t i = 0; r->pool == POOL_MEAN && i < f->model.hidden; i++)
    out[i] = (float)(sum[i] / n);
}

// All states are read before one is written, as a graph does it.
static void read_states(FakeModel *f, const EngineBatch *b) {
  for (int32_t t = 0; t < b->rows; t++) {
    int32_t s = b->seq[t], slot = b->from[s];
    if (t && b->seq[t - 1] == s) continue;
    if ((slot < 0 ? 0 : f->state_at[slot]) != b->pos[t]) f->wrong_reads++;
    f->read[s] = slot < 0 ? 0 : f->state[slot];
  }
}

static void write_states(FakeModel *f, const EngineBatch *b, bool fails) {
  for (int32_t t = 0; t < b->rows; t++) {
    int32_t slot = b->to[b->seq[t]];
    f->state[slot] = f->read[b->seq[t]];
    f->state_at[slot] = fails ? POISON : b->pos[t] + 1;
  }
}

// A row's adapter, from 1.
static int32_t adapter_of(const FakeModel *f, const EngineBatch *b, int32_t row) {
  return f->model.adapters ? b->adapter[row] + 1 : 0;
}

// The tokens 0 ... last of a row's sequence, through the page table.
static void gather(FakeModel *f, const EngineBatch *b, int32_t row, int32_t last) {
  const int32_t *table = b->table + (int64_t)b->seq[row] * b->stride;
  for (int32_t i = 0; i <= last; i++) {
    int32_t slot = table[i / ENGINE_PAGE] * ENGINE_PAGE + i % ENGINE_PAGE;
    if (f->at[slot] != i || f->by[slot] != adapter_of(f, b, row)) f->wrong_reads++;
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
    f->by[b->slot[t]] = adapter_of(f, b, t);
    if (fails && t > b->rows / 2) return fail(d, TENON_EDEVICE, NOWHERE, "planted");
  }
  if (f->model.states) read_states(f, b);
  for (int32_t t = 0, r = 0, p = 0; t < b->rows; t++) {
    uint64_t *state = f->model.states ? &f->read[b->seq[t]] : NULL;
    if (state) *state = after(*state, b->ids[t]);
    if (p < b->picks && b->pick[p] == t) {
      int32_t last = f->model.whole ? b->last[t] : b->pos[t],
              type = f->model.whole ? b->type[t] : 0;
      gather(f, b, t, last);
      uint64_t own = (state ? *state : 0) + (uint64_t)b->pos[t] + adapted(adapter_of(f, b, t));
      hidden_of(f, f->gathered, last + 1, own, type, b->hidden + (int64_t)p * f->model.hidden,
                b->scores + (int64_t)p * f->model.scores);
      p++;
    }
    if (r == b->outs || b->out[r] != t) continue;
    gather(f, b, t, b->pos[t]);
    logits_of(f, f->gathered, b->pos[t] + 1, (state ? *state : 0) + adapted(adapter_of(f, b, t)),
              b->logits + (int64_t)r++ * f->model.vocab);
  }
  if (f->model.states) write_states(f, b, fails);
  if (fails) return fail(d, TENON_EDEVICE, NOWHERE, "planted");
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
  f->by = calloc(slots, sizeof *f->by);
  f->gathered = malloc((size_t)m->context * sizeof *f->gathered);
  f->state = malloc(((size_t)m->states + 1) * sizeof *f->state);
  f->state_at = malloc(((size_t)m->states + 1) * sizeof *f->state_at);
  f->read = malloc((size_t)m->seqs_max * sizeof *f->read);
  for (int32_t i = 0; i < m->states; i++) f->state_at[i] = POISON;
  for (int32_t i = 0; i < m->pages; i++) freed(f, i);
}

void fake_deinit(FakeModel *f) {
  free(f->id);
  free(f->at);
  free(f->by);
  free(f->gathered);
  free(f->state), free(f->state_at), free(f->read);
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
    fake_logits(f, all, n, r->adapter, logits);
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
