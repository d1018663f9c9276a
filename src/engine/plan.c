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
  s->rows = s->drafts = 0;
  seq_release_pages(p->e, s);
  s->state = SEQ_WAITING;
  p->e->nrunning--;
  p->e->nwaiting++;
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
  prefix_take(e, s);
  take_pages(e, s, engine_pages_for(s->len));
  return true;
}

static void plan_chunk(Plan *p, Seq *s, int32_t *chunk) {
  Engine *e = p->e;
  prefix_take(e, s);
  s->rows = MIN(MIN(s->len - s->done, p->rows), *chunk);
  while (s->rows && outs_of(s) > p->outs) s->rows--;
  p->rows -= s->rows;
  p->outs -= outs_of(s);
  *chunk -= s->rows;
  e->served[s->flow % ENGINE_FLOWS] += (uint64_t)s->rows;
}

// Rows of prefill that keep the step near its target.
static int32_t chunk_of(const Plan *p) {
  const Engine *e = p->e;
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
    if (!s) return;
    if (s->state == SEQ_WAITING && !start(p, s)) {
      admit = false;
      continue;
    }
    plan_chunk(p, s, &chunk);
    if (!s->rows) return;  // no logits are left to give
  }
}

// ---- drafts ----

static void plan_drafts(Plan *p) {
  Engine *e = p->e;
  if (!e->options.draft) return;
  int32_t others = e->model.rows_max - p->rows;
  for (int32_t i = 0; i < e->nslots; i++) {
    Seq *s = &e->seq[i];
    if (!decodes(s) || s->rows != 1 || s->no_draft) continue;
    int32_t room = (s->npages + pages_available(e)) * ENGINE_PAGE - s->len;
    int32_t most = MIN(MIN(p->rows, p->outs), MIN(s->limit - s->len - 1, room));
    most = MIN(most, draft_most(e, s, others));
    s->drafts = most > 0 ? draft_propose(e, s, most) : 0;
    if (!s->drafts) continue;
    take_pages(e, s, engine_pages_for(s->len + s->drafts));
    s->rows += s->drafts;
    p->rows -= s->drafts;
    p->outs -= s->drafts;
  }
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
  for (int32_t i = 0; i < s->rows; i++) {
    int32_t at = s->done + i, row = b->rows++;
    e->ids[row] = s->token[at];
    e->pos[row] = at;
    e->row_seq[row] = b->seqs;
    e->slot[row] = s->page[at / ENGINE_PAGE] * ENGINE_PAGE + at % ENGINE_PAGE;
    if (seq_wants(s, at)) e->out[b->outs++] = row;
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
                           .logits = e->logits};
  for (int32_t i = 0; i < e->nslots; i++)
    if (e->seq[i].rows) build_seq(e, &e->seq[i]);
}
