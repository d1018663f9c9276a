// plan.c -- what a step computes: which sequences, which of their tokens, in which pages.
//
// Rows go first to sequences that decode (one token is pending), then to prefill in chunks, then to
// draft tokens.  Two orders decide who is first:
//
//   pages   higher priority, then earlier arrival.  A decoding sequence that needs a page takes it
//           from the last one in this order, which is preempted: its pages go, its tokens stay, it
//           waits and is computed again.  So the first one always goes on.
//   prefill higher priority, then the flow that had fewer rows, then earlier arrival.  A waiting
//           sequence starts when all pages of its tokens are there, and one more for each that
//           runs; it preempts only sequences of lower priority.  Where it cannot start, no later
//           one does.
//
// Guarantees: rows <= T, sequences <= S, outs <= R; each sequence once, its rows from `done` on;
//             rows are written into pages that it owns.  Progress whenever a request is there.
#include "engine/engine.h"

typedef struct Plan {
  Engine *e;
  int32_t rows, outs;  // that are left
  int32_t decodes;     // sequences that decode
} Plan;

// ---- orders ----

static bool pages_before(const Seq *a, const Seq *b) {
  return a->priority != b->priority ? a->priority > b->priority : a->arrival < b->arrival;
}

static bool prefill_before(const Engine *e, const Seq *a, const Seq *b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  uint64_t x = e->served[a->flow % ENGINE_FLOWS], y = e->served[b->flow % ENGINE_FLOWS];
  return x != y ? x < y : a->arrival < b->arrival;
}

static Seq *last_running(Engine *e) {
  Seq *last = NULL;
  for (int32_t i = 0; i < e->nslots; i++) {
    Seq *s = &e->seq[i];
    if (s->state == SEQ_RUNNING && (!last || pages_before(last, s))) last = s;
  }
  return last;
}

// ---- rows whose logits are wanted ----

bool seq_wants(const Seq *s, int32_t position) {
  if (position >= s->len - 1) return s->limit > s->prompt;
  return s->score && position < s->prompt - 1 && position >= s->scored;
}

bool seq_picks(const Engine *e, const Seq *s, int32_t position) {
  if (s->pool == POOL_SCORES) return position == (e->model.whole ? 0 : s->len - 1);
  if (s->pool == POOL_FIRST) return position == 0;
  return s->pool == POOL_MEAN || (s->pool == POOL_LAST && position == s->len - 1);
}

static int32_t outs_of(const Seq *s) {
  int32_t n = 0;
  for (int32_t i = 0; i < s->rows; i++) n += seq_wants(s, s->done + i);
  return n;
}

// ---- preemption ----

static void preempt(Plan *p, Seq *s) {
  p->rows += s->rows;
  p->outs += outs_of(s);
  if (s->rows && s->done == s->len - 1) p->decodes--;
  seq_put_back(p->e, s);
  p->e->stats.preempted++;
}

static void take_pages(Engine *e, Seq *s, int32_t npages) {
  while (s->npages < npages) s->page[s->npages++] = page_take(e);
}

// ---- decoding ----

static bool decodes(const Seq *s) { return s->state == SEQ_RUNNING && s->done == s->len - 1; }

// The first in order of those that decode and lack a page.
static Seq *first_that_grows(Engine *e) {
  Seq *first = NULL;
  for (int32_t i = 0; i < e->nslots; i++) {
    Seq *s = &e->seq[i];
    if (decodes(s) && s->npages < engine_pages_for(s->len) && (!first || pages_before(s, first)))
      first = s;
  }
  return first;
}

static void plan_decodes(Plan *p) {
  Engine *e = p->e;
  for (Seq *s; (s = first_that_grows(e)) != NULL;) {
    while (s->state == SEQ_RUNNING && !pages_available(e)) preempt(p, last_running(e));
    if (s->state == SEQ_RUNNING) take_pages(e, s, engine_pages_for(s->len));
  }
  for (int32_t i = 0; i < e->nslots; i++) {
    Seq *s = &e->seq[i];
    if (!decodes(s)) continue;
    s->rows = 1;
    p->rows--;
    p->outs -= outs_of(s);
    p->decodes++;
  }
}

// ---- prefill ----

static Seq *first_of_prefill(Engine *e, bool admit) {
  Seq *first = NULL;
  for (int32_t i = 0; i < e->nslots; i++) {
    Seq *s = &e->seq[i];
    bool is = (s->state == SEQ_RUNNING && !s->rows) || (admit && s->state == SEQ_WAITING);
    if (is && (!first || prefill_before(e, s, first))) first = s;
  }
  return first;
}

static bool fits(Engine *e, const Seq *s) {
  int32_t unused, cached = prefix_match(e, s, &unused);
  int32_t need = engine_pages_for(s->len) - cached + e->nrunning;
  return e->nrunning < e->model.seqs_max && need <= pages_available(e) - unused;
}

// The waiting sequence runs from now on, with pages for all its tokens.  False: it does not fit.
static bool start(Plan *p, Seq *s) {
  Engine *e = p->e;
  while (!fits(e, s)) {
    Seq *last = e->nrunning ? last_running(e) : NULL;
    if (!last || last->priority >= s->priority) return false;
    preempt(p, last);
  }
  s->state = SEQ_RUNNING;
  e->nwaiting--;
  e->nrunning++;
  state_begin(e, s);
  prefix_take(e, s);
  take_pages(e, s, engine_pages_for(s->len));
  return true;
}

static void plan_chunk(Plan *p, Seq *s, int32_t *chunk) {
  Engine *e = p->e;
  prefix_take(e, s);
  s->rows = MIN(MIN(s->len - s->done, p->rows), MIN(*chunk, state_rows(e, s)));
  while (s->rows && outs_of(s) > p->outs) s->rows--;
  p->rows -= s->rows;
  p->outs -= outs_of(s);
  *chunk -= s->rows;
  e->served[s->flow % ENGINE_FLOWS] += (uint64_t)s->rows;
}

// Rows of prefill that keep the step near its target.
static int32_t chunk_of(const Plan *p) {
  const Engine *e = p->e;
  if (e->model.whole) return p->rows;
  int32_t most = e->options.chunk ? MIN(e->options.chunk, p->rows) : p->rows;
  if (!e->options.step_ns || !p->decodes) return most;
  int32_t rows = 1;
  double ns = 0;  // where nothing was measured: twice that of half as many rows
  for (int b = 0; b < COST_BUCKETS - 1 && rows < e->model.rows_max; b++) {
    ns = e->cost.ns[b] > 0 ? e->cost.ns[b] : 2 * ns;
    if (ns > (double)e->options.step_ns) break;
    rows = (int32_t)(2u << b) - 1;
  }
  return MIN(most, MAX(rows - p->decodes, 1));
}

static void plan_prefill(Plan *p) {
  bool admit = true;
  int32_t chunk = chunk_of(p);
  while (p->rows > 0 && chunk > 0) {
    Seq *s = first_of_prefill(p->e, admit);
    if (!s || (p->e->model.whole && s->len > p->rows)) return;
    if (s->state == SEQ_WAITING && !start(p, s)) {
      admit = false;
      continue;
    }
    plan_chunk(p, s, &chunk);
    if (!s->rows) return;  // no logits are left to give
  }
}

// ---- drafts ----

// The most that there is room for.
static int32_t most_drafts(const Plan *p, const Seq *s) {
  int32_t room = (s->npages + pages_available(p->e)) * ENGINE_PAGE - s->len;
  return MIN(MIN(p->rows, p->outs), MIN(s->limit - s->len - 1, room));
}

static void add_drafts(Plan *p, Seq *s, int32_t n) {
  take_pages(p->e, s, engine_pages_for(s->len + n));
  s->rows += n;
  p->rows -= n;
  p->outs -= n;
}

static bool plan_lookup(Plan *p, Seq *s, int32_t others) {
  int32_t most = MIN(most_drafts(p, s), draft_most(p->e, s, DRAFT_LOOKUP, others));
  s->source = DRAFT_LOOKUP;
  s->drafts = most > 0 ? draft_propose(p->e, s, most) : 0;
  if (s->drafts) add_drafts(p, s, s->drafts);
  return s->drafts > 0;
}

// Rows and pages of what the draft model is asked for; what it does not give is given back.
static void plan_asks(Plan *p, int32_t n) {
  Drafter *d = &p->e->drafter;
  draft_model_run(p->e, n);
  for (int32_t i = 0; i < n; i++) {
    Seq *s = d->asks[i].seq;
    int32_t less = s->rows - 1 - s->drafts;
    s->rows -= less;
    p->rows += less;
    p->outs += less;
  }
}

static void plan_drafts(Plan *p) {
  Engine *e = p->e;
  if (!e->options.draft || e->model.states) return;
  int32_t others = e->model.rows_max - p->rows, asks = 0;
  for (int32_t i = 0; i < e->nslots; i++) {
    Seq *s = &e->seq[i];
    if (!decodes(s) || s->rows != 1 || s->no_draft || plan_lookup(p, s, others)) continue;
    int32_t most = most_drafts(p, s);
    if (most < 1 || !draft_model_takes(e, s, most)) continue;
    most = MIN(most, draft_most(e, s, DRAFT_MODEL, others));
    s->source = DRAFT_MODEL;
    if (most < 1) continue;
    e->drafter.asks[asks++] = (DraftAsk){.seq = s, .want = most};
    add_drafts(p, s, most);
  }
  if (asks) plan_asks(p, asks);
}

void plan_step(Engine *e) {
  Plan p = {.e = e, .rows = e->model.rows_max, .outs = e->model.outs_max};
  for (int32_t i = 0; i < e->nslots; i++) e->seq[i].rows = e->seq[i].drafts = 0;
  plan_decodes(&p);
  plan_prefill(&p);
  plan_drafts(&p);
}

// ---- the arrays ----

static void build_seq(Engine *e, Seq *s) {
  EngineBatch *b = &e->batch;
  int32_t *table = e->table + (int64_t)b->seqs * e->stride;
  memcpy(table, s->page, (size_t)s->npages * sizeof *table);
  memset(table + s->npages, 0, (size_t)(e->stride - s->npages) * sizeof *table);
  s->out = b->outs;
  s->pick = b->picks;
  for (int32_t i = 0; i < s->rows; i++) {
    int32_t at = s->done + i, row = b->rows++;
    e->ids[row] = s->token[at];
    e->pos[row] = at;
    e->row_seq[row] = b->seqs;
    e->slot[row] = s->page[at / ENGINE_PAGE] * ENGINE_PAGE + at % ENGINE_PAGE;
    if (seq_wants(s, at)) e->out[b->outs++] = row;
    if (seq_picks(e, s, at)) e->pick[b->picks++] = row;
    if (e->model.adapters) e->adapter[row] = s->adapter - 1;
    if (!e->model.whole) continue;
    e->last[row] = s->len - 1;
    e->type[row] = s->second && at >= s->second;
  }
  if (e->model.states) {
    e->from[b->seqs] = s->from;
    e->to[b->seqs] = s->own;
  }
  e->batch_seq[b->seqs++] = (int32_t)(s - e->seq);
}

void plan_build(Engine *e) {
  e->batch = (EngineBatch){.stride = e->stride,
                           .ids = e->ids,
                           .pos = e->pos,
                           .seq = e->row_seq,
                           .slot = e->slot,
                           .table = e->table,
                           .out = e->out,
                           .from = e->from,
                           .to = e->to,
                           .logits = e->logits,
                           .pick = e->pick,
                           .hidden = e->hidden,
                           .scores = e->scores,
                           .last = e->last,
                           .type = e->type,
                           .adapter = e->adapter};
  for (int32_t i = 0; i < e->nslots; i++)
    if (e->seq[i].rows) build_seq(e, &e->seq[i]);
}
