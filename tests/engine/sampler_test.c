// sampler_test.c -- each stage beside a plain reference, statistics of draws, Philox's own vectors.
#include "engine/sampler.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { VOCAB = 300 };

typedef struct Buffers {
  float logit[VOCAB], key[VOCAB];
  int32_t id[VOCAB], count[VOCAB];
  uint32_t allowed[(VOCAB + 31) / 32];
} Buffers;

static int32_t draw(const SamplerInput *in, const float *logits, int32_t vocab) {
  static Buffers b;
  SamplerScratch s = {b.logit, b.key, b.id, b.count, b.allowed};
  int32_t token = sampler_draw(in, logits, vocab, &s);
  for (int32_t i = 0; i < vocab; i++)
    if (b.count[i]) FAIL("count %d is not 0 after a draw", i);
  return token;
}

// ---- the reference: in double, every list sorted whole ----

typedef struct Entry {
  double logit, key;
  int32_t id;
} Entry;
static double nearest;  // how near a decision was to its threshold

static int by_key(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  return x->key != y->key ? (x->key > y->key ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}
static int by_id(const void *a, const void *b) {
  return ((const Entry *)a)->id - ((const Entry *)b)->id;
}

static double total_of(const Entry *e, int n, double max) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += exp(e[i].logit - max);
  return sum;
}

static int reach(Entry *e, int n, double max, double share) {
  double total = total_of(e, n, max), sum = 0;
  qsort(e, (size_t)n, sizeof *e, by_key);
  for (int i = 0; i < n; i++) {
    sum += exp(e[i].logit - max);
    nearest = fmin(nearest, fabs(sum / total - share));
    if (sum / total >= share) return i + 1;
  }
  return n;
}

static int typical(Entry *e, int n, double max, double share) {
  double total = total_of(e, n, max), entropy = 0;
  for (int i = 0; i < n; i++) {
    double p = exp(e[i].logit - max) / total;
    entropy -= p * log(p);
  }
  for (int i = 0; i < n; i++) e[i].key = -fabs(-log(exp(e[i].logit - max) / total) - entropy);
  return reach(e, n, max, share);
}

static double penalised(const SamplerInput *in, int32_t id, double x) {
  int all = 0, answer = 0;
  for (int32_t i = 0; i < in->n; i++) all += in->tokens[i] == id;
  for (int32_t i = in->prompt; i < in->n; i++) answer += in->tokens[i] == id;
  if (all) x = x > 0 ? x / (double)in->params->repeat : x * (double)in->params->repeat;
  if (answer) x -= (double)in->params->presence + (double)in->params->frequency * answer;
  return x;
}

// Every earlier place is compared with the end.
static double dry(const SamplerInput *in, int32_t id, double x) {
  const SamplerParams *p = in->params;
  int32_t most = 0;
  for (int32_t at = 0; at + 1 < in->n; at++) {
    int32_t n = 0;
    if (in->tokens[at + 1] != id) continue;
    while (n <= at && n < SAMPLER_DRY_MOST && in->tokens[at - n] == in->tokens[in->n - 1 - n]) n++;
    most = n > most ? n : most;
  }
  if (!(p->dry > 0) || most < p->dry_length) return x;
  return x - (double)p->dry * pow((double)p->dry_base, most - p->dry_length);
}

static int xtc(Entry *e, int n, double max, double threshold) {
  double total = total_of(e, n, max);
  int likely = 0, kept = 0;
  for (int i = 0; i < n; i++) e[i].key = e[i].logit;
  qsort(e, (size_t)n, sizeof *e, by_key);
  for (int i = 0; i < n; i++) {
    nearest = fmin(nearest, fabs(exp(e[i].logit - max) / total - threshold));
    likely += exp(e[i].logit - max) / total >= threshold;
  }
  for (int i = 0; i < n; i++)
    if (likely < 2 || i >= likely - 1) e[kept++] = e[i];
  return kept;
}

static tenon_llm_allowed mask_of(const SamplerInput *in, uint32_t *allowed) {
  tenon_llm_place at = {in->tokens, (size_t)in->n, (size_t)in->prompt, in->left};
  return in->mask.fn(&at, allowed, in->mask.ctx);
}

static int32_t reference(const SamplerInput *in, const float *logits, int32_t vocab) {
  static Entry e[VOCAB];
  const SamplerParams *p = in->params;
  uint32_t allowed[(VOCAB + 31) / 32] = {0};
  bool masked = in->mask.fn && mask_of(in, allowed) == TENON_LLM_ALLOW_SET;
  int n = 0;
  for (int32_t i = 0; i < vocab; i++) {
    double x = (double)logits[i];
    for (int32_t k = 0; k < in->nbias; k++)
      if (in->bias[k].id == i) x += (double)in->bias[k].bias;
    x = dry(in, i, penalised(in, i, x));
    if (masked && !(allowed[i / 32] >> (i % 32) & 1)) continue;
    e[n++] = (Entry){x, x, i};
  }
  qsort(e, (size_t)n, sizeof *e, by_key);
  if (!n || p->temperature == 0) return n ? e[0].id : -1;
  for (int i = 0; i < n; i++) e[i].key = e[i].logit /= (double)p->temperature;
  double max = e[0].logit;
  if (p->top_k && p->top_k < n) n = p->top_k;
  if (p->top_p < 1) n = reach(e, n, max, (double)p->top_p);
  int kept = 0;
  for (int i = 0; i < n; i++) {
    nearest = fmin(nearest, fabs(exp(e[i].logit - max) - (double)p->min_p));
    if (exp(e[i].logit - max) >= (double)p->min_p) e[kept++] = e[i];
  }
  n = p->min_p > 0 ? kept : n;
  if (p->typical < 1) n = typical(e, n, max, (double)p->typical);
  if (p->xtc > 0 && philox_uniform(p->seed, (uint64_t)in->n, 1) < (double)p->xtc)
    n = xtc(e, n, max, (double)p->xtc_threshold);
  qsort(e, (size_t)n, sizeof *e, by_id);
  double u = philox_uniform(p->seed, (uint64_t)in->n, 0), total = total_of(e, n, max), sum = 0;
  for (int i = 0; i < n; i++) {
    sum += exp(e[i].logit - max) / total;
    if (n > 1) nearest = fmin(nearest, fabs(sum - u));
    if (sum > u) return e[i].id;
  }
  return e[n - 1].id;
}

static tenon_llm_allowed thirds(const tenon_llm_place *at, uint32_t *allowed, void *ctx) {
  if (at->left % 2) return TENON_LLM_ALLOW_ALL;
  for (int32_t i = *(int32_t *)ctx; i < VOCAB; i += 3) allowed[i / 32] |= 1u << (i % 32);
  return TENON_LLM_ALLOW_SET;
}
static tenon_llm_allowed fails(const tenon_llm_place *at, uint32_t *allowed, void *ctx) {
  (void)at, (void)ctx;
  allowed[0] = ~0u;
  return TENON_LLM_ALLOW_FAILED;
}

static double uniform(uint64_t *state) { return (double)(hash_u64((*state)++) >> 11) * 0x1p-53; }

static SamplerParams any_params(uint64_t *r) {
  SamplerParams p = sampler_greedy;
  p.seed = hash_u64(*r);
  if (uniform(r) < 0.9) p.temperature = 0.1f + (float)uniform(r) * 2;
  if (uniform(r) < 0.4) p.top_k = 1 + (int32_t)(uniform(r) * 200);
  if (uniform(r) < 0.4) p.top_p = 0.05f + 0.95f * (float)uniform(r);
  if (uniform(r) < 0.3) p.min_p = (float)uniform(r) * 0.5f;
  if (uniform(r) < 0.3) p.typical = 0.05f + 0.95f * (float)uniform(r);
  if (uniform(r) < 0.4) p.repeat = 0.8f + (float)uniform(r);
  if (uniform(r) < 0.4) p.presence = (float)uniform(r) * 2 - 1;
  if (uniform(r) < 0.4) p.frequency = (float)uniform(r) * 2 - 1;
  if (uniform(r) < 0.3) {
    p.dry = (float)uniform(r) * 2;
    p.dry_base = 1 + (float)uniform(r);
    p.dry_length = 1 + (int32_t)(uniform(r) * 4);
  }
  if (uniform(r) < 0.3) {
    p.xtc = (float)uniform(r);
    p.xtc_threshold = (float)uniform(r) * 0.3f;
  }
  return p;
}

TEST(sampler_beside_a_reference) {
  uint64_t r = 1;
  int compared = 0, skipped = 0;
  for (int round = 0; round < 3000; round++) {
    float logits[VOCAB];
    int32_t tokens[60], third = round % 3, vocab = 1 + (int32_t)(uniform(&r) * VOCAB);
    for (int32_t i = 0; i < vocab; i++) logits[i] = (float)uniform(&r) * 12 - 6;
    int32_t kinds = round % 3 ? vocab : MIN(vocab, 3);  // few: with repetitions
    for (int i = 0; i < 60; i++) tokens[i] = (int32_t)(uniform(&r) * kinds);
    SamplerParams p = any_params(&r);
    SamplerBias bias[2] = {{(int32_t)(uniform(&r) * vocab), 3},
                           {(int32_t)(uniform(&r) * vocab), -3}};
    SamplerInput in = {.params = &p, .bias = bias, .nbias = round % 4 ? 0 : 2, .tokens = tokens};
    in.n = 1 + (int32_t)(uniform(&r) * 59);
    in.prompt = (int32_t)(uniform(&r) * in.n);
    if (vocab > 3 && round % 5 == 0) in.mask = (TokenMask){thirds, &third};
    in.left = round % 2;
    nearest = 1;
    int32_t want = reference(&in, logits, vocab), got = draw(&in, logits, vocab);
    if (got == want)
      compared++;
    else if (nearest < 1e-5)
      skipped++;  // f32 and double may differ there
    else
      FAIL("round %d: token %d, not %d", round, got, want);
  }
  EXPECT(compared > 2950 && skipped < 50);
}

TEST(sampler_greedy_takes_the_first_of_equals) {
  float logits[6] = {1, 5, NAN, 5, -INFINITY, 2};
  SamplerInput in = {.params = &sampler_greedy};
  EXPECT_INT_EQ(draw(&in, logits, 6), 1);
  in.mask.fn = fails;
  EXPECT_INT_EQ(draw(&in, logits, 6), -1);
  in.mask.fn = NULL;
  SamplerParams p = sampler_greedy;
  p.temperature = 1;
  p.top_k = 1;
  in.params = &p;
  EXPECT_INT_EQ(draw(&in, logits, 6), 1);
  logits[3] = logits[5] = INFINITY;  // those alone
  p.top_k = 0;
  for (p.seed = 0; p.seed < 20; p.seed++) {
    int32_t t = draw(&in, logits, 6);
    EXPECT(t == 3 || t == 5);
  }
  float none[3] = {NAN, -INFINITY, NAN};
  EXPECT_INT_EQ(draw(&in, none, 3), -1);
  p.temperature = 1e-38f;  // logits overflow
  float big[3] = {10, 30, 20};
  EXPECT_INT_EQ(draw(&in, big, 3), 1);
}

// A draw depends on seed and position alone, and its frequencies are the probabilities.
TEST(sampler_draws_by_probability) {
  enum { N = 20000, V = 8 };
  float logits[V];
  double want[V], sum = 0, chi = 0;
  int seen[V] = {0};
  int32_t tokens[1] = {0};
  for (int i = 0; i < V; i++) logits[i] = (float)i * 0.4f;
  for (int i = 0; i < V; i++) sum += want[i] = exp((double)logits[i]);
  SamplerParams p = sampler_greedy;
  p.temperature = 1;
  SamplerInput in = {.params = &p, .tokens = tokens};
  for (p.seed = 0; p.seed < N; p.seed++) seen[draw(&in, logits, V)]++;
  for (int i = 0; i < V; i++) {
    double expected = want[i] / sum * N;
    chi += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
  }
  EXPECT(chi < 24.3);  // 7 degrees of freedom, 1 in 1000
}

TEST(sampler_philox_vectors) {
  // kat_vectors of Random123: philox4x32 10.
  const struct {
    uint64_t key;
    uint32_t counter[4], want[4];
  } known[] = {
      {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {UINT64_MAX,
       {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822,
       {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (int64_t i = 0; i < ARRAY_LEN(known); i++) {
    uint32_t got[4];
    philox(known[i].key, known[i].counter, got);
    for (int k = 0; k < 4; k++) EXPECT_INT_EQ(got[k], known[i].want[k]);
  }
}

// Uniform over positions, over seeds, and without correlation from one position to the next.
TEST(sampler_philox_is_uniform) {
  enum { N = 1 << 16, BINS = 64 };
  for (int by_seed = 0; by_seed < 2; by_seed++) {
    int bins[BINS] = {0};
    double chi = 0, before = 0.5, product = 0;
    for (uint64_t i = 0; i < N; i++) {
      double u = by_seed ? philox_uniform(i, 7, 0) : philox_uniform(12, i, 0);
      EXPECT(u >= 0 && u < 1);
      bins[(int)(u * BINS)]++;
      product += (u - 0.5) * (before - 0.5);
      before = u;
    }
    for (int i = 0; i < BINS; i++) {
      double expected = (double)N / BINS;
      chi += ((double)bins[i] - expected) * ((double)bins[i] - expected) / expected;
    }
    EXPECT(chi > 30 && chi < 110);           // 63 degrees of freedom, 1 in 5000 at each end
    EXPECT(fabs(product / N * 12) < 0.016);  // four standard deviations
  }
}

TEST(sampler_reports_log_probabilities) {
  float logits[VOCAB];
  double sum = 0;
  uint64_t r = 5;
  for (int32_t i = 0; i < VOCAB; i++) logits[i] = (float)(int32_t)(uniform(&r) * 40) / 4;
  for (int32_t i = 0; i < VOCAB; i++) sum += exp((double)logits[i]);
  for (int32_t ntop = 0; ntop <= SAMPLER_TOP; ntop += 5) {
    SamplerReport got;
    sampler_report(logits, VOCAB, 17, ntop, &got);
    EXPECT_NEAR((double)got.logprob, (double)logits[17] - log(sum), 1e-5);
    EXPECT_INT_EQ(got.ntop, ntop);
    for (int32_t i = 0; i < ntop; i++) {
      EXPECT_NEAR((double)got.top_logprob[i], (double)logits[got.top_id[i]] - log(sum), 1e-5);
      int32_t rank = 0;  // its rank: those greater, and equal ones of a smaller id
      for (int32_t k = 0; k < VOCAB; k++)
        rank += logits[k] > logits[got.top_id[i]] ||
                (logits[k] == logits[got.top_id[i]] && k < got.top_id[i]);
      EXPECT_INT_EQ(rank, i);
    }
  }
}

TEST(sampler_refuses_parameters_out_of_range) {
  EXPECT(!sampler_wrong(&sampler_greedy));
#define REFUSED(field, value)                                                                      \
  do {                                                                                             \
    SamplerParams p = sampler_greedy;                                                              \
    p.field = (value);                                                                             \
    EXPECT(sampler_wrong(&p) != NULL);                                                             \
  } while (0)
  REFUSED(temperature, -0.1f);
  REFUSED(temperature, NAN);
  REFUSED(top_k, -1);
  REFUSED(top_p, 0);
  REFUSED(top_p, 1.1f);
  REFUSED(top_p, NAN);
  REFUSED(min_p, -0.1f);
  REFUSED(min_p, NAN);
  REFUSED(typical, 0);
  REFUSED(repeat, 0);
  REFUSED(repeat, INFINITY);
  REFUSED(presence, 2.1f);
  REFUSED(frequency, NAN);
  REFUSED(dry, -1);
  REFUSED(dry_base, 0);
  REFUSED(dry_length, 0);
  REFUSED(dry_length, SAMPLER_DRY_MOST + 1);
  REFUSED(xtc, 1.1f);
  REFUSED(xtc_threshold, NAN);
#undef REFUSED
}
