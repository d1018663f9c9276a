// draft_model.c -- speculation by a smaller model: its guesses are drafts, which the model checks.
//
// The draft model has pages of its own, a whole context for each sequence that runs (a lane).  A
// lane knows the tokens whose keys and values it has.  What the sequence has alike is kept, the
// rest is computed again; so rejected drafts, preemption and new sequences need no word to it.
//
// One run brings all lanes to the last token and gives their first drafts; each further run gives
// one more.  A sequence that is far behind catches up by one run a step, and has no drafts until
// then.  Draws are those of the request, of the same uniform numbers: so of models that agree the
// drafts are right, whatever the temperature.
//
// Guarantees: a failed run of the draft model costs its drafts alone; it is not run again.
#include "engine/engine.h"

static bool is_on(const Engine *e) { return e->drafter.model.run != NULL; }

// ---- lanes ----

static bool runs(Engine *e, uint64_t id) {
  const Seq *s = seq_of(e, id);
  return s && s->state == SEQ_RUNNING;
}

static DraftLane *lane_of(Engine *e, const Seq *s) {
  Drafter *d = &e->drafter;
  DraftLane *found = NULL;
  for (int32_t i = 0; i < e->model.seqs_max; i++) {
    if (d->lane[i].id == s->id) return &d->lane[i];
    if (!found && !runs(e, d->lane[i].id)) found = &d->lane[i];
  }
  found->id = s->id;
  return found;
}

// Tokens of the sequence that the lane has; the last one is always computed.
static void match(DraftLane *l, const Seq *s) {
  int32_t n = 0, most = MIN(l->n, s->len - 1);
  while (n < most && l->token[n] == s->token[n]) n++;
  l->n = n;
}

// ---- runs ----

// Tokens [lane->n, to) of a sequence, as many as rows are left; true: all of them, whose last row
// gives logits.
static bool add_rows(Engine *e, const Seq *s, DraftLane *l, int32_t to) {
  Drafter *d = &e->drafter;
  EngineBatch *b = &d->batch;
  int32_t lane = (int32_t)(l - d->lane), base = lane * d->stride;
  int32_t n = MIN(to - l->n, d->model.rows_max - b->rows);
  if (n <= 0) return false;
  int32_t *table = d->table + (int64_t)b->seqs * d->stride;
  for (int32_t i = 0; i < d->stride; i++) table[i] = base + i;
  for (int32_t i = 0; i < n; i++, b->rows++, l->n++) {
    d->ids[b->rows] = l->token[l->n] = s->token[l->n];
    d->pos[b->rows] = l->n;
    d->seq[b->rows] = b->seqs;
    d->slot[b->rows] = (base + l->n / ENGINE_PAGE) * ENGINE_PAGE + l->n % ENGINE_PAGE;
  }
  b->seqs++;
  if (l->n < to) return false;
  d->out[b->outs++] = b->rows - 1;
  return true;
}

static bool run(Engine *e) {
  Drafter *d = &e->drafter;
  Diag own;
  diag_init(&own);
  int64_t begin = e->options.now ? e->options.now() : 0;
  if (d->model.run(d->model.ctx, &d->batch, &own)) {
    d->model.run = NULL;
    return false;
  }
  if (e->options.now)
    cost_learn(&d->cost, d->batch.rows, e->options.now() - begin, e->stats.steps + 1);
  return true;
}

// The token behind the n of a sequence, from a row of the draft model's logits; -1: none.
static int32_t draw(Engine *e, const Seq *s, int32_t n, const float *logits) {
  Drafter *d = &e->drafter;
  int32_t vocab = e->model.vocab, known = MIN(vocab, d->model.vocab);
  if (known < vocab) {
    memcpy(d->padded, logits, (size_t)known * sizeof *logits);
    logits = d->padded;
  }
  SamplerInput in = {.params = &s->sampler,
                     .bias = s->bias,
                     .nbias = s->nbias,
                     .tokens = s->token,
                     .n = n,
                     .prompt = s->prompt,
                     .left = s->limit - n};
  return sampler_draw(&in, logits, vocab, &e->scratch);
}

static void begin_batch(Drafter *d) {
  d->batch = (EngineBatch){.stride = d->stride,
                           .ids = d->ids,
                           .pos = d->pos,
                           .seq = d->seq,
                           .slot = d->slot,
                           .table = d->table,
                           .out = d->out,
                           .logits = d->logits};
}

// One more draft of each sequence of the list that wants one.
static bool one_round(Engine *e, int32_t n) {
  Drafter *d = &e->drafter;
  int32_t ready = 0;
  begin_batch(d);
  for (int32_t i = 0; i < n; i++) {
    Seq *s = d->asks[i].seq;
    d->asks[i].row = -1;
    if (s->drafts == d->asks[i].want) continue;
    DraftLane *l = lane_of(e, s);
    if (!s->drafts) match(l, s);
    if (add_rows(e, s, l, s->len + s->drafts)) d->asks[i].row = ready++;
  }
  if (!d->batch.rows || !run(e)) return false;
  for (int32_t i = 0; i < n; i++) {
    DraftAsk *ask = &d->asks[i];
    Seq *s = ask->seq;
    int32_t token = -1, at = s->len + s->drafts;
    if (ask->row >= 0) token = draw(e, s, at, d->logits + (int64_t)ask->row * d->model.vocab);
    if (token < 0) {
      ask->want = s->drafts;
      continue;
    }
    s->token[at] = token;
    s->drafts++;
  }
  return true;
}

void draft_model_run(Engine *e, int32_t n) {
  for (bool more = n > 0; more && is_on(e);) {
    more = one_round(e, n);
    bool wants = false;
    for (int32_t i = 0; i < n; i++)
      wants |= e->drafter.asks[i].seq->drafts < e->drafter.asks[i].want;
    more &= wants;
  }
}

bool draft_model_takes(const Engine *e, const Seq *s, int32_t most) {
  return is_on(e) && s->len + most <= e->drafter.model.context;
}

// Nanoseconds of one run, shared by those that have drafts; 0: nothing is known.
double draft_model_cost(const Engine *e) {
  int32_t n = MAX(e->nrunning, 1);
  return cost_of(&e->drafter.cost, n) / n;
}
