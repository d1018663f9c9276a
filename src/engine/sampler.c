// sampler.c -- from logits to a token, in the order that sampler.h documents.
//
// Candidates are a list of token ids with a key each.  Stages that cut the list by rank select and
// sort only as much of it as they keep, so a draw is near linear in the vocabulary.  Weights are
// expf(logit - maximum), summed in double in an order that the logits alone fix.
#include "engine/sampler.h"

#include <math.h>

enum { FIRST_SORTED = 64 };  // candidates that top-p and typical sort at first; then four times

const SamplerParams sampler_greedy = {
    .top_p = 1, .typical = 1, .repeat = 1, .dry_base = 1.75f, .dry_length = 2};

// ---- Philox ----

void philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  memcpy(out, counter, 4 * sizeof *out);
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * out[0], b = (uint64_t)0xCD9E8D57u * out[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ out[1] ^ k0, (uint32_t)b,
                        (uint32_t)(a >> 32) ^ out[3] ^ k1, (uint32_t)a};
    memcpy(out, next, sizeof next);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

double philox_uniform(uint64_t seed, uint64_t position, uint32_t draw) {
  uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), draw, 0}, word[4];
  philox(seed, counter, word);
  uint64_t bits = ((uint64_t)word[0] << 32 | word[1]) >> 11;
  return (double)bits * 0x1p-53;
}

// ---- parameters ----

static bool within(float x, float least, float most) { return x >= least && x <= most; }

const char *sampler_wrong(const SamplerParams *p) {
  if (!within(p->temperature, 0, 100)) return "temperature is not between 0 and 100";
  if (p->top_k < 0) return "top_k is negative";
  if (!(p->top_p > 0) || !within(p->top_p, 0, 1)) return "top_p is not above 0 and at most 1";
  if (!within(p->min_p, 0, 1)) return "min_p is not between 0 and 1";
  if (!(p->typical > 0) || !within(p->typical, 0, 1)) return "typical is not above 0 and at most 1";
  if (!within(p->repeat, 0.1f, 10)) return "repeat penalty is not between 0.1 and 10";
  if (!within(p->presence, -2, 2)) return "presence penalty is not between -2 and 2";
  if (!within(p->frequency, -2, 2)) return "frequency penalty is not between -2 and 2";
  if (!within(p->dry, 0, 100)) return "the DRY penalty is not between 0 and 100";
  if (!within(p->dry_base, 1, 10)) return "the DRY base is not between 1 and 10";
  if (p->dry_length < 1 || p->dry_length > SAMPLER_DRY_MOST)
    return "the DRY length is not between 1 and 64";
  if (!within(p->xtc, 0, 1)) return "the probability of XTC is not between 0 and 1";
  if (!within(p->xtc_threshold, 0, 1)) return "the threshold of XTC is not between 0 and 1";
  return NULL;
}

// ---- the list of candidates ----

typedef struct List {
  float *key;
  int32_t *id;
} List;

// Candidate a is before b: greater key, then smaller id.
static bool before(const List *l, int32_t a, float key, int32_t id) {
  return l->key[a] > key || (l->key[a] == key && l->id[a] < id);
}

static void swap(const List *l, int32_t a, int32_t b) {
  float key = l->key[a];
  int32_t id = l->id[a];
  l->key[a] = l->key[b], l->id[a] = l->id[b];
  l->key[b] = key, l->id[b] = id;
}

// Moves the first `k` of [from, to) in that order to its beginning, in any order among themselves.
static void select_first(const List *l, int32_t from, int32_t to, int32_t k) {
  int32_t border = from + k;
  uint64_t random = (uint64_t)(uint32_t)(to - from);
  while (to - from > 1 && border > from && border < to) {
    random = hash_u64(random + 1);  // no input can make every pivot a bad one
    swap(l, from, from + (int32_t)(random % (uint64_t)(to - from)));
    float key = l->key[from];
    int32_t id = l->id[from], i = from;
    for (int32_t j = from + 1; j < to; j++)
      if (before(l, j, key, id)) swap(l, ++i, j);
    swap(l, from, i);
    if (i >= border)
      to = i;
    else
      from = i + 1;
  }
}

static void sift_down(const List *l, int32_t from, int32_t at, int32_t n) {
  for (int32_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && before(l, from + child, l->key[from + child + 1], l->id[from + child + 1]))
      child++;
    if (!before(l, from + at, l->key[from + child], l->id[from + child])) return;
    swap(l, from + at, from + child);
  }
}

static void sort_range(const List *l, int32_t from, int32_t to) {
  int32_t n = to - from;
  for (int32_t i = n / 2 - 1; i >= 0; i--) sift_down(l, from, i, n);
  for (int32_t i = n - 1; i > 0; i--) {
    swap(l, from, from + i);
    sift_down(l, from, 0, i);
  }
}

// How many candidates, in their order, it takes for the weights to reach share * total.  They are
// sorted on return.  `weight` gives that of a token.
typedef struct Weights {
  const float *logit;
  float max;
} Weights;
static float weight_of(const Weights *w, int32_t id) { return expf(w->logit[id] - w->max); }

static int32_t reach(const List *l, int32_t n, const Weights *w, double share) {
  double total = 0, sum = 0;
  for (int32_t i = 0; i < n; i++) total += (double)weight_of(w, l->id[i]);
  for (int32_t sorted = 0, want = FIRST_SORTED; sorted < n; want *= 4) {
    int32_t to = want < n && want > 0 ? want : n;
    select_first(l, sorted, n, to - sorted);
    sort_range(l, sorted, to);
    for (; sorted < to; sorted++) {
      sum += (double)weight_of(w, l->id[sorted]);
      if (sum >= share * total) return sorted + 1;
    }
  }
  return n;
}

// ---- stages ----

static void add_bias(const SamplerInput *in, float *logit) {
  for (int32_t i = 0; i < in->nbias; i++) logit[in->bias[i].id] += in->bias[i].bias;
}

// `count` is 0 on entry and on return.
static void penalise(const SamplerInput *in, float *logit, int32_t *count) {
  const SamplerParams *p = in->params;
  if (p->repeat == 1 && p->presence == 0 && p->frequency == 0) return;
  for (int32_t i = in->prompt; i < in->n; i++) count[in->tokens[i]]++;
  for (int32_t i = in->n - 1; i >= 0; i--) {  // the answer first: its counts are still there
    int32_t t = in->tokens[i], seen = count[t];
    if (seen < 0) continue;
    float x = logit[t];
    if (p->repeat != 1) x = x > 0 ? x / p->repeat : x * p->repeat;
    if (seen > 0) x -= p->presence + p->frequency * (float)seen;
    logit[t] = x;
    count[t] = -1;  // done
  }
  for (int32_t i = 0; i < in->n; i++) count[in->tokens[i]] = 0;
}

// How many tokens up to `at` are those up to the last one.
static int32_t repeated(const SamplerInput *in, int32_t at) {
  int32_t n = 0, most = MIN(at + 1, SAMPLER_DRY_MOST);
  while (n < most && in->tokens[at - n] == in->tokens[in->n - 1 - n]) n++;
  return n;
}

// `count` is 0 on entry and on return.
static void stay_dry(const SamplerInput *in, float *logit, int32_t *count) {
  const SamplerParams *p = in->params;
  if (!(p->dry > 0)) return;
  for (int32_t i = 0; i < in->n - 1; i++) {
    int32_t n = repeated(in, i), *most = &count[in->tokens[i + 1]];
    *most = MAX(*most, n);
  }
  for (int32_t i = 1; i < in->n; i++) {
    int32_t *n = &count[in->tokens[i]];
    if (*n >= p->dry_length)
      logit[in->tokens[i]] -= p->dry * powf(p->dry_base, (float)(*n - p->dry_length));
    *n = 0;
  }
}

// False: the mask has no answer.
static bool apply_mask(const SamplerInput *in, float *logit, int32_t vocab, uint32_t *allowed) {
  if (!in->mask.fn) return true;
  tenon_llm_place at = {.tokens = in->tokens,
                        .ntokens = (size_t)in->n,
                        .nprompt = (size_t)in->prompt,
                        .left = in->left};
  memset(allowed, 0, (size_t)(vocab + 31) / 32 * sizeof *allowed);
  tenon_llm_allowed answer = in->mask.fn(&at, allowed, in->mask.ctx);
  if (answer == TENON_LLM_ALLOW_ALL) return true;
  if (answer != TENON_LLM_ALLOW_SET) return false;
  for (int32_t i = 0; i < vocab; i++)
    if (!(allowed[i / 32] >> (i % 32) & 1)) logit[i] = -INFINITY;
  return true;
}

// The first of the greatest; -1: all are -inf or NaN.
static int32_t greatest(const float *logit, int32_t vocab) {
  int32_t best = -1;
  float most = -INFINITY;
  for (int32_t i = 0; i < vocab; i++)
    if (logit[i] > most) most = logit[i], best = i;
  return best;
}

static int32_t keep_min_p(const List *l, int32_t n, const Weights *w, float min_p) {
  int32_t kept = 0;
  for (int32_t i = 0; i < n; i++)
    if (weight_of(w, l->id[i]) >= min_p) l->id[kept++] = l->id[i];
  return kept;
}

static int32_t keep_typical(const List *l, int32_t n, const Weights *w, float share) {
  double total = 0, sum = 0;
  for (int32_t i = 0; i < n; i++) total += (double)weight_of(w, l->id[i]);
  for (int32_t i = 0; i < n; i++) {
    double p = (double)weight_of(w, l->id[i]) / total;
    if (p > 0) sum -= p * log(p);
  }
  for (int32_t i = 0; i < n; i++) {
    double surprise = log(total) - (double)(w->logit[l->id[i]] - w->max);
    l->key[i] = -(float)fabs(surprise - sum);
  }
  return reach(l, n, w, (double)share);
}

static int32_t drop_top(const List *l, int32_t n, const Weights *w, float threshold) {
  double total = 0;
  int32_t likely = 0, least = -1, kept = 0;
  for (int32_t i = 0; i < n; i++) total += (double)weight_of(w, l->id[i]);
  for (int32_t i = 0; i < n; i++) {
    int32_t id = l->id[i];
    if ((double)weight_of(w, id) < (double)threshold * total) continue;
    likely++;
    float x = w->logit[id], y = least < 0 ? INFINITY : w->logit[least];
    if (least < 0 || x < y || (x == y && id > least)) least = id;
  }
  if (likely < 2) return n;
  for (int32_t i = 0; i < n; i++) {
    int32_t id = l->id[i];
    if (id == least || (double)weight_of(w, id) < (double)threshold * total) l->id[kept++] = id;
  }
  return kept;
}

// By the cumulative weights in order of id.  `in_set` marks the candidates.
static int32_t draw(const List *l, int32_t n, const Weights *w, double u, uint32_t *in_set,
                    int32_t vocab) {
  int32_t words = (vocab + 31) / 32, last = -1;
  memset(in_set, 0, (size_t)words * sizeof *in_set);
  for (int32_t i = 0; i < n; i++) in_set[l->id[i] / 32] |= 1u << (l->id[i] % 32);
  double total = 0, sum = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int32_t word = 0; word < words; word++)
      for (uint32_t bits = in_set[word]; bits; bits &= bits - 1) {
        int32_t id = word * 32 + __builtin_ctz(bits);
        double x = (double)weight_of(w, id);
        if (!pass) {
          total += x;
          continue;
        }
        if (x > 0) last = id;
        sum += x;
        if (sum > u * total) return id;
      }
  return last;
}

static int32_t sample(const SamplerInput *in, int32_t vocab, SamplerScratch *s) {
  const SamplerParams *p = in->params;
  int32_t top = greatest(s->logit, vocab), n = 0;
  if (top < 0) return -1;
  bool infinite = s->logit[top] == INFINITY;  // then those alone, with equal weights
  for (int32_t i = 0; i < vocab; i++)
    s->logit[i] =
        infinite ? (s->logit[i] == INFINITY ? 0 : -INFINITY) : s->logit[i] / p->temperature;
  Weights w = {.logit = s->logit, .max = s->logit[top]};
  if (w.max == INFINITY || w.max == -INFINITY)
    return top;  // a tiny temperature: nothing else counts
  List l = {.key = s->key, .id = s->id};
  for (int32_t i = 0; i < vocab; i++)
    if (s->logit[i] > -INFINITY) l.key[n] = s->logit[i], l.id[n++] = i;
  if (p->top_k > 0 && p->top_k < n) {
    select_first(&l, 0, n, p->top_k);
    n = p->top_k;
  }
  if (p->top_p < 1) n = reach(&l, n, &w, (double)p->top_p);
  if (p->min_p > 0) n = keep_min_p(&l, n, &w, p->min_p);
  if (p->typical < 1) n = keep_typical(&l, n, &w, p->typical);
  if (p->xtc > 0 && philox_uniform(p->seed, (uint64_t)in->n, 1) < (double)p->xtc)
    n = drop_top(&l, n, &w, p->xtc_threshold);
  if (n == 1) return l.id[0];
  return draw(&l, n, &w, philox_uniform(p->seed, (uint64_t)in->n, 0), s->allowed, vocab);
}

int32_t sampler_draw(const SamplerInput *in, const float *logits, int32_t vocab,
                     SamplerScratch *s) {
  const SamplerParams *p = in->params;
  bool plain = !in->nbias && !in->mask.fn && p->repeat == 1 && p->presence == 0 &&
               p->frequency == 0 && p->dry == 0;
  if (plain && p->temperature == 0) return greatest(logits, vocab);
  memcpy(s->logit, logits, (size_t)vocab * sizeof *logits);
  add_bias(in, s->logit);
  penalise(in, s->logit, s->count);
  stay_dry(in, s->logit, s->count);
  if (!apply_mask(in, s->logit, vocab, s->allowed)) return -1;
  return p->temperature == 0 ? greatest(s->logit, vocab) : sample(in, vocab, s);
}

// ---- log-probabilities ----

void sampler_report(const float *logits, int32_t vocab, int32_t token, int32_t ntop,
                    SamplerReport *out) {
  int32_t top = greatest(logits, vocab);
  float max = top < 0 || logits[top] == INFINITY ? 0 : logits[top];
  double sum = 0;
  for (int32_t i = 0; i < vocab; i++)
    if (logits[i] > -INFINITY) sum += (double)expf(logits[i] - max);
  double norm = (double)max + log(sum);
  out->logprob = token < 0 ? -INFINITY : (float)((double)logits[token] - norm);
  out->ntop = 0;
  for (int32_t i = 0; i < vocab && ntop > 0; i++) {
    float x = logits[i];
    if (!(x > -INFINITY) || (out->ntop == ntop && !(x > out->top_logprob[ntop - 1]))) continue;
    int32_t at = out->ntop < ntop ? out->ntop++ : ntop - 1;
    for (; at > 0 && x > out->top_logprob[at - 1]; at--) {
      out->top_logprob[at] = out->top_logprob[at - 1];
      out->top_id[at] = out->top_id[at - 1];
    }
    out->top_logprob[at] = x;
    out->top_id[at] = i;
  }
  for (int32_t i = 0; i < out->ntop; i++)
    out->top_logprob[i] = (float)((double)out->top_logprob[i] - norm);
}
