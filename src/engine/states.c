// states.c -- slots of recurrent states: one for each running sequence, the others for pages.
//
// A page of the prefix tree may have the state behind its last token.  A sequence that reaches such
// a position leaves its slot to the page, and goes on in another: the next step reads the one and
// writes the other.  Pages have at most the slots that all sequences together do not need, so a
// sequence that starts always finds one.  Where there are none, the state that was used least
// recently goes, unless the next step of a sequence reads it.
#include "engine/engine.h"

void states_init(Engine *e) {
  for (int32_t i = 0; i < e->model.states; i++)
    e->state_next[i] = i + 1 < e->model.states ? i + 1 : -1;
  e->state_head = e->model.states ? 0 : -1;
  e->nstates_free = e->model.states;
}

static int32_t take(Engine *e) {
  int32_t slot = e->state_head;
  e->state_head = e->state_next[slot];
  e->nstates_free--;
  return slot;
}

static void give(Engine *e, int32_t slot) {
  e->state_next[slot] = e->state_head;
  e->state_head = slot;
  e->nstates_free++;
}

void state_begin(Engine *e, Seq *s) {
  if (e->model.states) s->own = take(e);
}

void state_end(Engine *e, Seq *s) {
  if (s->own >= 0) give(e, s->own);
  s->own = s->from = s->from_page = -1;
}

void state_resume(Engine *e, Seq *s) {
  if (!e->model.states) return;
  Page *p = &e->page[s->page[s->shared - 1]];
  s->from_page = s->page[s->shared - 1];
  s->from = p->state;
  p->state_used = e->stats.steps;
}

void state_drop(Engine *e, int32_t page) {
  if (e->page[page].state < 0) return;
  give(e, e->page[page].state);
  e->page[page].state = -1;
  e->nkept--;
}

// ---- keeping ----

static bool is_read(const Engine *e, int32_t page) {
  for (int32_t i = 0; i < e->nslots; i++)
    if (e->seq[i].state == SEQ_RUNNING && e->seq[i].from_page == page) return true;
  return false;
}

// Room for one more.  False: all are about to be read, or there are none.
static bool make_room(Engine *e) {
  if (e->nkept < e->model.states - e->model.seqs_max) return true;
  int32_t oldest = -1;
  for (int32_t i = 0; i < e->model.pages; i++) {
    const Page *p = &e->page[i];
    bool older = oldest < 0 || p->state_used < e->page[oldest].state_used;
    if (p->cached && p->state >= 0 && older && !is_read(e, i)) oldest = i;
  }
  if (oldest >= 0) state_drop(e, oldest);
  return oldest >= 0;
}

int32_t state_rows(const Engine *e, const Seq *s) {
  if (!e->model.states || e->options.no_prefix || s->pool) return INT32_MAX;
  return e->model.keep_every - s->done % e->model.keep_every;
}

void state_advance(Engine *e, Seq *s) {
  if (!e->model.states) return;
  s->from = s->own;
  s->from_page = -1;
  if (e->options.no_prefix || s->pool || !s->done || s->done % e->model.keep_every) return;
  int32_t page = s->page[s->shared - 1];
  if (e->page[page].state >= 0 || !make_room(e)) return;
  e->page[page].state = s->own;
  e->page[page].state_used = e->stats.steps;
  e->nkept++;
  s->own = take(e);
  s->from_page = page;
}
