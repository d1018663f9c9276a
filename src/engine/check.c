// check.c -- the verifier of the engine: every invariant of engine.h, counted again.
//
// It walks all pages and sequences, with memory of its own on the heap, and is for tests: a step of
// the engine never calls it.
#include "engine/engine.h"

#include "base/platform.h"

typedef struct Counts {
  const Engine *e;
  int32_t *uses;   // by sequences, of each page
  int32_t *order;  // place in the list of least recent use, from 1; 0: not in it
  int32_t *kids;   // cached pages whose parent it is
  uint8_t *is_free;
} Counts;

#define HOLDS(cond)                                                                                \
  do {                                                                                             \
    if (!(cond)) return #cond;                                                                     \
  } while (0)

static bool is_page(const Engine *e, int32_t page) { return page >= 0 && page < e->model.pages; }

static const char *check_lists(Counts *c) {
  const Engine *e = c->e;
  int32_t nfree = 0, nlru = 0, last = -1;
  for (int32_t p = e->free_head; p >= 0; p = e->page[p].next) {
    HOLDS(is_page(e, p) && nfree < e->model.pages);
    c->is_free[p] = 1;
    nfree++;
  }
  for (int32_t p = e->lru_head; p >= 0; last = p, p = e->page[p].next) {
    HOLDS(is_page(e, p) && nlru < e->model.pages);
    HOLDS(e->page[p].prev == last);
    c->order[p] = ++nlru;
  }
  HOLDS(e->lru_tail == last);
  HOLDS(nfree == e->nfree);
  HOLDS(nlru == e->ncached_free);
  return NULL;
}

static const char *check_seq(Counts *c, const Seq *s) {
  const Engine *e = c->e;
  HOLDS(s->state != SEQ_FREE);
  HOLDS(s->prompt >= 1 && s->len >= s->prompt && s->len <= s->limit &&
        s->limit <= e->model.context);
  HOLDS(s->done >= 0 && s->done <= s->len && s->npages <= e->stride);
  HOLDS(s->npages >= engine_pages_for(s->done));
  HOLDS(s->shared >= 0 && s->shared * ENGINE_PAGE <= s->done && s->shared <= s->npages);
  if (s->state != SEQ_RUNNING) HOLDS(s->npages == 0 && s->done == 0);
  if (s->state == SEQ_RUNNING) HOLDS(s->done < s->len);
  if (!e->options.no_prefix && !s->pool) HOLDS(s->shared == s->done / ENGINE_PAGE);
  if (s->pool) HOLDS(s->shared == 0 && s->len == s->limit);
  for (int32_t i = 0; i < s->npages; i++) {
    HOLDS(is_page(e, s->page[i]));
    const Page *p = &e->page[s->page[i]];
    c->uses[s->page[i]]++;
    HOLDS(p->cached == (i < s->shared));
    if (!p->cached) continue;
    HOLDS(p->parent == (i ? s->page[i - 1] : -1) && p->salt == s->salt);
    HOLDS(!memcmp(e->page_tokens + (int64_t)s->page[i] * ENGINE_PAGE,
                  s->token + (int64_t)i * ENGINE_PAGE, ENGINE_PAGE * sizeof *s->token));
  }
  return NULL;
}

// A slot is free, or of one running sequence, or of one cached page.
static const char *check_states(const Engine *e) {
  int32_t nfree = 0, nrunning = 0, nkept = 0;
  for (int32_t i = e->state_head; i >= 0; i = e->state_next[i])
    HOLDS(i < e->model.states && nfree++ < e->model.states);
  for (int32_t i = 0; i < e->nslots; i++) {
    const Seq *s = &e->seq[i];
    bool runs = s->id && s->state == SEQ_RUNNING;
    if (!runs) HOLDS(!s->id || (s->own < 0 && s->from < 0 && s->from_page < 0));
    if (!runs) continue;
    nrunning++;
    HOLDS(s->own >= 0 && s->own < e->model.states);
    HOLDS((s->done == 0) == (s->from < 0));
    if (s->from_page < 0) HOLDS(s->from < 0 || s->from == s->own);
    if (s->from_page < 0) continue;
    HOLDS(s->shared > 0 && s->page[s->shared - 1] == s->from_page);
    HOLDS(s->done == s->shared * ENGINE_PAGE && e->page[s->from_page].state == s->from);
  }
  for (int32_t i = 0; i < e->model.pages; i++) {
    const Page *p = &e->page[i];
    HOLDS(p->state < e->model.states && (p->state < 0 || p->cached));
    nkept += p->state >= 0;
  }
  HOLDS(nfree == e->nstates_free && nkept == e->nkept);
  HOLDS(nkept <= e->model.states - e->model.seqs_max);
  HOLDS(nfree + nrunning + nkept == e->model.states);
  return NULL;
}

// ... and no two have the same.
static const char *check_slots(const Engine *e, uint8_t *used) {
  for (int32_t i = 0; i < e->nslots; i++) {
    if (!e->seq[i].id || e->seq[i].own < 0) continue;
    HOLDS(!used[e->seq[i].own]);
    used[e->seq[i].own] = 1;
  }
  for (int32_t i = 0; i < e->model.pages; i++) {
    if (e->page[i].state < 0) continue;
    HOLDS(!used[e->page[i].state]);
    used[e->page[i].state] = 1;
  }
  return NULL;
}

static const char *check_seqs(Counts *c) {
  const Engine *e = c->e;
  int32_t running = 0, waiting = 0;
  for (int32_t i = 0; i < e->nslots; i++) {
    const Seq *s = &e->seq[i];
    if (!s->id) {
      HOLDS(s->state == SEQ_FREE && s->npages == 0);
      continue;
    }
    running += s->state == SEQ_RUNNING;
    waiting += s->state == SEQ_WAITING;
    const char *why = check_seq(c, s);
    if (why) return why;
  }
  HOLDS(running == e->nrunning && waiting == e->nwaiting);
  HOLDS(running <= e->model.seqs_max);
  return NULL;
}

static const char *check_cached(Counts *c, int32_t page) {
  const Engine *e = c->e;
  const Page *p = &e->page[page];
  HOLDS((p->ref == 0) == (c->order[page] > 0));
  HOLDS(prefix_find(e, p->parent, p->salt, e->page_tokens + (int64_t)page * ENGINE_PAGE) == page);
  if (p->parent < 0) return NULL;
  HOLDS(is_page(e, p->parent));
  HOLDS(e->page[p->parent].cached && e->page[p->parent].salt == p->salt);
  HOLDS(e->page[p->parent].ref >= p->ref);
  if (c->order[p->parent]) HOLDS(c->order[page] > 0 && c->order[page] < c->order[p->parent]);
  c->kids[p->parent]++;
  return NULL;
}

static const char *check_pages(Counts *c) {
  const Engine *e = c->e;
  int32_t cached = 0;
  for (int32_t i = 0; i < e->model.pages; i++) {
    const Page *p = &e->page[i];
    HOLDS(p->ref == c->uses[i]);
    if (c->is_free[i]) HOLDS(p->ref == 0 && !p->cached && !c->order[i]);
    if (!c->is_free[i] && !p->cached) HOLDS(p->ref == 1 && !c->order[i]);
    cached += p->cached;
    const char *why = p->cached ? check_cached(c, i) : NULL;
    if (why) return why;
  }
  for (int32_t i = 0; i < e->model.pages; i++)
    if (e->page[i].cached) HOLDS(e->page[i].children == c->kids[i]);
  HOLDS(cached == e->ncached);
  return NULL;
}

const char *engine_check(const Engine *e) {
  int64_t n = e->model.pages, each = (int64_t)sizeof(int32_t);
  int64_t bytes = n * (3 * each + 1) + e->model.states;
  char *memory = mem_alloc(bytes);
  if (!memory) return "no memory to check with";
  Counts c = {.e = e,
              .uses = (int32_t *)(void *)memory,
              .order = (int32_t *)(void *)(memory + n * each),
              .kids = (int32_t *)(void *)(memory + 2 * n * each),
              .is_free = (uint8_t *)(memory + 3 * n * each)};
  const char *why = check_lists(&c);
  if (!why) why = check_seqs(&c);
  if (!why) why = check_pages(&c);
  if (!why && e->model.states) why = check_states(e);
  if (!why) why = check_slots(e, (uint8_t *)(memory + n * (3 * each + 1)));
  mem_free(memory, bytes);
  return why;
}

// ---- a step's batch ----

static const char *check_rows(const Engine *e, const EngineBatch *b) {
  int32_t seq = -1, pos = 0;
  for (int32_t t = 0; t < b->rows; t++) {
    HOLDS(b->seq[t] == seq || b->seq[t] == seq + 1);
    HOLDS(b->seq[t] < b->seqs);
    const Seq *s = &e->seq[e->batch_seq[b->seq[t]]];
    if (b->seq[t] != seq) pos = s->done;
    seq = b->seq[t];
    HOLDS(s->state == SEQ_RUNNING && b->pos[t] == pos);
    if (e->model.adapters) HOLDS(b->adapter[t] == s->adapter - 1);
    HOLDS(b->ids[t] == s->token[pos] && b->ids[t] >= 0 && b->ids[t] < e->model.vocab);
    int32_t page = b->table[(int64_t)seq * b->stride + pos / ENGINE_PAGE];
    HOLDS(is_page(e, page) && e->page[page].ref == 1 && !e->page[page].cached);
    HOLDS(b->slot[t] == page * ENGINE_PAGE + pos % ENGINE_PAGE);
    pos++;
  }
  HOLDS(seq == b->seqs - 1);
  return NULL;
}

const char *plan_check(const Engine *e) {
  const EngineBatch *b = &e->batch;
  HOLDS(b->rows <= e->model.rows_max && b->seqs <= e->model.seqs_max &&
        b->outs <= e->model.outs_max);
  for (int32_t r = 0; r < b->outs; r++)
    HOLDS(b->out[r] >= 0 && b->out[r] < b->rows && (!r || b->out[r] > b->out[r - 1]));
  for (int32_t r = 0; r < b->picks; r++)
    HOLDS(b->pick[r] >= 0 && b->pick[r] < b->rows && (!r || b->pick[r] > b->pick[r - 1]));
  for (int32_t i = 1; i < b->seqs; i++) HOLDS(e->batch_seq[i] > e->batch_seq[i - 1]);
  for (int32_t i = 0; e->model.states && i < b->seqs; i++) {
    const Seq *s = &e->seq[e->batch_seq[i]];
    HOLDS(b->to[i] == s->own && b->from[i] == s->from && s->drafts == 0);
  }
  return check_rows(e, b);
}
