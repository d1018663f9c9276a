// draft.c -- speculation by prompt lookup: what followed these tokens before, may follow again.
//
// The last tokens of a sequence are looked for earlier in it.  What stood behind the longest match
// (the latest of equals) is the draft.  Drafts never change a token (step.c), so all that is
// decided here is time:
//
//   * A sequence keeps the share of its draft tokens that were right.  A draft of k tokens gives
//     1 + a + ... + a^k tokens a step.
//   * Steps are timed by their number of rows, in powers of two.  The k is taken that gives most
//     tokens a nanosecond; none where plain decoding gives more.
//   * Without a clock a row is taken to cost nothing, and only the share decides.
//   * What does not pay is tried again after a pause: a step of n rows after 64 n others.
#include "engine/engine.h"

enum {
  MATCH_LEAST = 2,  // tokens that must be equal
  MATCH_MOST = 16,  // a longer match is as good
  LOOK_BACK = 1 << 16,
  PAUSE = 64
};

// ---- prompt lookup ----

static int32_t match_length(const int32_t *token, int32_t a, int32_t b, int32_t most) {
  int32_t n = 0;
  while (n < most && a - n >= 0 && token[a - n] == token[b - n]) n++;
  return n;
}

int32_t draft_propose(const Engine *e, const Seq *s, int32_t most) {
  (void)e;
  const int32_t *token = s->token;
  int32_t last = s->len - 1, best = MATCH_LEAST - 1, at = -1;
  int32_t stop = MAX(0, last - LOOK_BACK);
  for (int32_t i = last - 1; i >= stop && best < MATCH_MOST; i--) {
    if (token[i] != token[last]) continue;
    int32_t n = match_length(token, i, last, MATCH_MOST);
    if (n > best) best = n, at = i;
  }
  if (at < 0) return 0;
  for (int32_t i = 0; i < most; i++) s->token[s->len + i] = token[at + 1 + i];
  return most;
}

// ---- what steps cost ----

static int bucket_of(int32_t rows) { return 31 - __builtin_clz((uint32_t)MAX(rows, 1)); }

void cost_learn(StepCost *c, int32_t rows, int64_t ns, int64_t step) {
  int b = bucket_of(rows);
  // The first steps touch memory and code for the first time; later ones count, old ones fade.
  double weight = c->since[b] == 0 ? 1 : 0.2;
  c->ns[b] += weight * ((double)ns - c->ns[b]);
  c->since[b] = step;
}

// Between buckets in proportion to the rows.
double cost_of(const StepCost *c, int32_t rows) {
  int b = bucket_of(rows);
  if (c->ns[b] == 0) return 0;
  if (b + 1 >= COST_BUCKETS || c->ns[b + 1] <= c->ns[b]) return c->ns[b];
  double from = (double)((int64_t)1 << b), part = ((double)rows - from) / from;
  return c->ns[b] + part * (c->ns[b + 1] - c->ns[b]);
}

// ---- how many ----

static double expected_tokens(double accept, int32_t k) {
  double sum = 1, p = 1;
  for (int32_t i = 0; i < k; i++) sum += p *= accept;
  return sum;
}

// A probe measures what is thought not to pay: of 2, 4 or 8 rows, the more the rarer.
static int32_t probe(const Engine *e, Seq *s, DraftSource from, int32_t limit) {
  if (s->pause[from] > 0) {
    s->pause[from]--;
    return 0;
  }
  int32_t k = MIN(limit, (2 << (e->stats.steps / PAUSE % 3)) - 1);
  s->probe = true;
  return k;
}

int32_t draft_most(const Engine *e, Seq *s, DraftSource from, int32_t others) {
  int32_t limit = MIN(e->options.draft, ENGINE_DRAFT_MOST), best = 0;
  double plain = cost_of(&e->cost, others);
  // Tokens of the step that are not this sequence's count for plain decoding, too.
  double rest = (double)(e->nrunning - 1), gain = plain > 0 ? (rest + 1) / plain : 1;
  double each = from == DRAFT_MODEL ? draft_model_cost(e) : 0, accept = (double)s->accept[from];
  if (from == DRAFT_MODEL && each == 0) each = 0.05 * plain;
  s->probe = false;
  for (int32_t k = 1; k <= limit && (plain > 0 || accept >= 0.2); k++) {
    double cost = plain > 0 ? cost_of(&e->cost, others + k) : 1;
    if (cost == 0) cost = plain * (1 + 0.02 * k);  // hopeful, so that it is measured
    double rate = (rest + expected_tokens(accept, k)) / (cost + k * each);
    if (rate > gain) gain = rate, best = k;
  }
  return best ? best : probe(e, s, from, limit);
}

void draft_learn(Seq *s, int32_t drafted, int32_t accepted) {
  if (!drafted) return;
  if (s->probe) s->pause[s->source] = PAUSE * (drafted + 1);
  s->probe = false;
  // Each token that was looked at is one observation: those accepted, and the first wrong one.
  float *accept = &s->accept[s->source];
  for (int32_t i = 0; i < accepted; i++) *accept += 0.1f * (1 - *accept);
  if (accepted < drafted) *accept += 0.1f * (0 - *accept);
}
