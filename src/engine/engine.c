// engine.c -- making an engine, and taking requests.
//
// One function, lay_out, says where everything is: it measures without memory, and places with it.
// So the size in the certificate and what is allocated cannot differ.
#include "engine/engine.h"

#include "base/platform.h"

#include <math.h>

enum { ALIGN = 64 };
enum { MOST_ROWS = 1 << 20, MOST_CONTEXT = 1 << 24, MOST_SLOTS = 1 << 16, MOST_STATES = 1 << 20 };

int32_t engine_pages_for(int32_t tokens) { return (tokens + ENGINE_PAGE - 1) / ENGINE_PAGE; }

// ---- memory ----

typedef struct Layout {
  char *base;  // NULL: only measure
  int64_t at;
  bool overflow;
} Layout;

static void *place(Layout *l, int64_t n, size_t each) {
  int64_t bytes, at = (l->at + ALIGN - 1) / ALIGN * ALIGN;
  if (!ck_mul(n, (int64_t)each, &bytes) || !ck_add(at, bytes, &l->at) || l->at > INT64_MAX / 2) {
    l->overflow = true;
    l->at = 0;
  }
  return l->base && !l->overflow ? l->base + at : NULL;
}
#define PLACE(l, field, n) ((field) = place((l), (n), sizeof *(field)))

static int32_t slots_of(const EngineModel *m, const EngineOptions *o) {
  return o->requests ? o->requests : 2 * m->seqs_max;
}

static void lay_out_seqs(Layout *l, Engine *e, const EngineModel *m, int32_t nslots,
                         int32_t stride) {
  int32_t context = m->context, hidden = m->hidden, vector = MAX(hidden, m->scores);
  Seq measured[1];
  Seq *seq = PLACE(l, e->seq, nslots);
  for (int32_t i = 0; i < nslots && !l->overflow; i++) {
    Seq *s = seq ? &seq[i] : measured;
    PLACE(l, s->token, context);
    PLACE(l, s->page, stride);
    PLACE(l, s->bias, SAMPLER_BIASES);
    PLACE(l, s->sum, hidden);
    PLACE(l, s->vector, vector);
  }
}

static void lay_out_step(Layout *l, Engine *e, const EngineModel *m, int32_t nslots,
                         int32_t stride) {
  PLACE(l, e->ids, m->rows_max);
  PLACE(l, e->pos, m->rows_max);
  PLACE(l, e->row_seq, m->rows_max);
  PLACE(l, e->slot, m->rows_max);
  PLACE(l, e->out, m->outs_max);
  PLACE(l, e->batch_seq, m->seqs_max);
  PLACE(l, e->from, m->states ? m->seqs_max : 0);
  PLACE(l, e->to, m->states ? m->seqs_max : 0);
  PLACE(l, e->pick, m->hidden ? m->rows_max : 0);
  PLACE(l, e->hidden, m->hidden ? (int64_t)m->rows_max * m->hidden : 0);
  PLACE(l, e->scores, m->hidden ? (int64_t)m->rows_max * m->scores : 0);
  PLACE(l, e->last, m->whole ? m->rows_max : 0);
  PLACE(l, e->type, m->whole ? m->rows_max : 0);
  PLACE(l, e->adapter, m->adapters ? m->rows_max : 0);
  PLACE(l, e->table, (int64_t)m->seqs_max * stride);
  PLACE(l, e->logits, m->no_logits ? 0 : (int64_t)m->outs_max * m->vocab);
  // Each row of logits gives one event at most; so does the end of a sequence without a token.
  e->events_max = m->outs_max + m->seqs_max + nslots;
  PLACE(l, e->event, e->events_max);
  PLACE(l, e->scratch.logit, m->vocab);
  PLACE(l, e->scratch.key, m->vocab);
  PLACE(l, e->scratch.id, m->vocab);
  PLACE(l, e->scratch.count, m->vocab);
  PLACE(l, e->scratch.allowed, ((int64_t)m->vocab + 31) / 32);
}

static void lay_out_drafter(Layout *l, Engine *e, const EngineModel *m, const EngineModel *from) {
  Drafter *d = &e->drafter;
  DraftLane measured[1];
  if (!from) return;
  d->model = *from;
  d->stride = engine_pages_for(from->context);
  DraftLane *lane = PLACE(l, d->lane, m->seqs_max);
  for (int32_t i = 0; i < m->seqs_max && !l->overflow; i++) {
    DraftLane *at = lane ? &lane[i] : measured;
    PLACE(l, at->token, MAX(from->context, m->context));
  }
  PLACE(l, d->asks, m->seqs_max);
  PLACE(l, d->ids, from->rows_max);
  PLACE(l, d->pos, from->rows_max);
  PLACE(l, d->seq, from->rows_max);
  PLACE(l, d->slot, from->rows_max);
  PLACE(l, d->out, from->outs_max);
  PLACE(l, d->table, (int64_t)from->seqs_max * d->stride);
  PLACE(l, d->logits, (int64_t)from->outs_max * from->vocab);
  PLACE(l, d->padded, m->vocab);
  for (int32_t i = from->vocab; d->padded && i < m->vocab; i++) d->padded[i] = -INFINITY;
}

// The block's bytes; -1: too many.  `base` NULL: e is not used but for its fields.
static int64_t lay_out(Engine *e, const EngineModel *m, const EngineOptions *o, char *base) {
  Layout l = {.base = base};
  int32_t nslots = slots_of(m, o), stride = engine_pages_for(m->context);
  place(&l, 1, sizeof *e);
  e->nslots = nslots;
  e->stride = stride;
  e->nbuckets = m->pages + 1;
  PLACE(&l, e->page, m->pages);
  PLACE(&l, e->page_tokens, (int64_t)m->pages * ENGINE_PAGE);
  PLACE(&l, e->bucket, e->nbuckets);
  PLACE(&l, e->state_next, m->states);
  lay_out_step(&l, e, m, nslots, stride);
  lay_out_seqs(&l, e, m, nslots, stride);
  lay_out_drafter(&l, e, m, o->drafter);
  return l.overflow ? -1 : (l.at + ALIGN - 1) / ALIGN * ALIGN;
}

static tenon_status check_limits(const EngineModel *m, const EngineOptions *o, Diag *d) {
#define LIMIT_IS(cond, ...)                                                                        \
  if (!(cond)) return fail(d, TENON_EINVAL, NOWHERE, __VA_ARGS__)
  LIMIT_IS(m->vocab >= 1 && m->vocab < INT32_MAX / 4, "a vocabulary of %d tokens", m->vocab);
  LIMIT_IS(m->pages >= 1 && m->pages < INT32_MAX / ENGINE_PAGE, "a KV cache of %d pages", m->pages);
  LIMIT_IS(m->context >= 1 && m->context <= MOST_CONTEXT,
           "a context of %d tokens is not within 1 and %d", m->context, MOST_CONTEXT);
  LIMIT_IS(
      m->seqs_max >= 1 && m->seqs_max <= m->outs_max && m->outs_max <= m->rows_max &&
          m->rows_max <= MOST_ROWS,
      "a step of %d rows, %d sequences and %d rows of logits: sequences <= logits <= rows <= %d",
      m->rows_max, m->seqs_max, m->outs_max, MOST_ROWS);
  LIMIT_IS(o->requests >= 0 && slots_of(m, o) <= MOST_SLOTS, "%d requests at once; at most %d",
           o->requests, MOST_SLOTS);
  LIMIT_IS(!m->states || (m->states >= m->seqs_max && m->states <= MOST_STATES &&
                          m->keep_every >= ENGINE_PAGE && m->keep_every % ENGINE_PAGE == 0),
           "%d states, kept every %d positions, for %d sequences", m->states, m->keep_every,
           m->seqs_max);
  LIMIT_IS(m->hidden >= 0 && m->scores >= 0 && m->hidden <= MOST_CONTEXT &&
               m->scores <= MOST_CONTEXT,
           "vectors of %d and %d elements", m->hidden, m->scores);
  LIMIT_IS(m->adapters >= 0, "%d adapters", m->adapters);
  LIMIT_IS(!m->no_logits || m->hidden, "a model that gives nothing");
  LIMIT_IS(!m->whole || (m->no_logits && m->rows_max >= m->context && !m->states),
           "an encoder of %d tokens in steps of %d", m->context, m->rows_max);
  LIMIT_IS(o->chunk >= 0, "a prefill chunk of %d rows", o->chunk);
  LIMIT_IS(o->draft >= 0 && o->draft <= ENGINE_DRAFT_MOST, "%d draft tokens; at most %d", o->draft,
           ENGINE_DRAFT_MOST);
  return TENON_OK;
#undef LIMIT_IS
}

int64_t engine_bytes(const EngineModel *m, const EngineOptions *o) {
  Engine e;
  return lay_out(&e, m, o, NULL);
}

static tenon_status check_drafter(const EngineModel *m, const EngineModel *from, Diag *d) {
  if (!from) return TENON_OK;
  bool fine = from->run && from->vocab >= 1 && from->vocab < INT32_MAX / 4 && !from->states &&
              !from->whole && !from->no_logits && !from->adapters && !from->hidden &&
              from->context >= 1 && from->context <= MOST_CONTEXT &&
              from->seqs_max >= m->seqs_max && from->outs_max >= from->seqs_max &&
              from->rows_max >= from->outs_max && from->rows_max <= MOST_ROWS &&
              from->pages / engine_pages_for(from->context) >= m->seqs_max;
  if (fine) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "a draft model of %d sequences, %d rows, %d pages of contexts of %d tokens, for %d "
              "sequences",
              from->seqs_max, from->rows_max, from->pages, from->context, m->seqs_max);
}

tenon_status engine_create(const EngineModel *m, const EngineOptions *o, Diag *d, Engine **out) {
  static const EngineOptions defaults;
  *out = NULL;
  if (!o) o = &defaults;
  TRY(check_limits(m, o, d));
  TRY(check_drafter(m, o->drafter, d));
  int64_t bytes = engine_bytes(m, o);
  Engine *e = bytes < 0 ? NULL : mem_alloc(bytes);
  if (!e)
    return fail(d, TENON_ENOMEM, NOWHERE, "no memory for the engine's %lld bytes",
                (long long)bytes);
  e->model = *m;
  e->options = *o;
  e->options.drafter = NULL;  // its copy is the engine's own
  lay_out(e, m, o, (char *)e);
  e->block = e;
  e->bytes = bytes;
  pages_init(e);
  states_init(e);
  *out = e;
  return TENON_OK;
}

void engine_free(Engine *e) {
  if (e) mem_free(e->block, e->bytes);
}

// ---- requests ----

static tenon_status check_tokens(const Engine *e, const EngineRequest *r, Diag *d) {
  for (int32_t i = 0; i < r->ntokens; i++)
    if (r->tokens[i] < 0 || r->tokens[i] >= e->model.vocab)
      return fail(d, TENON_EINVAL, NOWHERE,
                  "token %d of the prompt is %d, and the vocabulary has %d tokens", i, r->tokens[i],
                  e->model.vocab);
  for (int32_t i = 0; i < r->nbias; i++)
    if (r->bias[i].id < 0 || r->bias[i].id >= e->model.vocab || !(r->bias[i].bias >= -100) ||
        !(r->bias[i].bias <= 100))
      return fail(
          d, TENON_EINVAL, NOWHERE,
          "bias %d is %g for token %d; biases are -100 to 100, the vocabulary has %d tokens", i,
          (double)r->bias[i].bias, r->bias[i].id, e->model.vocab);
  return TENON_OK;
}

// Whether the last token can ever be computed: the one inequality of admission.
static tenon_status check_fits(const Engine *e, const EngineRequest *r, Diag *d) {
  int64_t total = (int64_t)r->ntokens + r->max_tokens;
  if (r->ntokens > e->model.context)
    return fail(d, TENON_EINVAL, NOWHERE,
                "the prompt has %d tokens, and the context has room for %d", r->ntokens,
                e->model.context);
  if (total > e->model.context)
    return fail(d, TENON_EINVAL, NOWHERE,
                "%d tokens of prompt and %d to generate are more than the context of %d",
                r->ntokens, r->max_tokens, e->model.context);
  // The last token's keys and values are not computed.
  int32_t need = engine_pages_for((int32_t)(r->max_tokens ? total - 1 : total));
  if (need > e->model.pages)
    return fail(d, TENON_EINVAL, NOWHERE,
                "%d tokens of prompt and %d to generate need %d pages, and the KV cache has %d",
                r->ntokens, r->max_tokens, need, e->model.pages);
  return TENON_OK;
}

static tenon_status check_pool(const Engine *e, const EngineRequest *r, Diag *d) {
  const char *what = NULL;
  if (!r->pool && e->model.no_logits) what = "the model embeds, and generates nothing";
  if (r->pool && !e->model.hidden) what = "the model was not opened for embeddings";
  if (r->pool == POOL_SCORES && e->model.hidden && !e->model.scores)
    what = "the model has no classifier, so it scores nothing";
  if (what) return fail(d, TENON_EUNSUPPORTED, NOWHERE, "%s", what);
  if (!r->pool || (!r->max_tokens && !r->score)) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE, "a request for a vector generates no tokens");
}

static tenon_status check_request(const Engine *e, const EngineRequest *r, Diag *d) {
  if (r->ntokens < 1 || !r->tokens)
    return fail(d, TENON_EINVAL, NOWHERE, "the prompt has no token");
  TRY(check_pool(e, r, d));
  if (r->second < 0 || r->second >= MAX(r->ntokens, 1))
    return fail(d, TENON_EINVAL, NOWHERE, "the second half begins at token %d of %d", r->second,
                r->ntokens);
  if (r->adapter < 0 || r->adapter > e->model.adapters)
    return fail(d, TENON_EINVAL, NOWHERE, "adapter %d of %d", r->adapter, e->model.adapters);
  if (r->max_tokens < 0 || (!r->max_tokens && !r->score && !r->pool))
    return fail(d, TENON_EINVAL, NOWHERE, "%d tokens to generate", r->max_tokens);
  if (r->score_from < 0 || r->score_from > r->ntokens)
    return fail(d, TENON_EINVAL, NOWHERE, "scores from position %d of %d tokens", r->score_from,
                r->ntokens);
  if (r->nstop < 0 || r->nstop > ENGINE_STOPS || r->nbias < 0 || r->nbias > SAMPLER_BIASES)
    return fail(d, TENON_EINVAL, NOWHERE, "%d stop tokens and %d biases; at most %d and %d",
                r->nstop, r->nbias, ENGINE_STOPS, SAMPLER_BIASES);
  if (r->logprobs < -1 || r->logprobs > SAMPLER_TOP)
    return fail(d, TENON_EINVAL, NOWHERE, "log-probabilities of %d tokens; at most %d", r->logprobs,
                SAMPLER_TOP);
  const char *wrong = sampler_wrong(&r->sampler);
  if (wrong) return fail(d, TENON_EINVAL, NOWHERE, "%s", wrong);
  TRY(check_fits(e, r, d));
  return check_tokens(e, r, d);
}

static bool flow_is_active(const Engine *e, uint32_t flow) {
  for (int32_t i = 0; i < e->nslots; i++)
    if (e->seq[i].id && e->seq[i].flow % ENGINE_FLOWS == flow % ENGINE_FLOWS) return true;
  return false;
}

// A flow that was away begins where the least served of the others is: it saved nothing up.
static void begin_flow(Engine *e, uint32_t flow) {
  if (flow_is_active(e, flow)) return;
  uint64_t least = UINT64_MAX;
  for (int32_t i = 0; i < e->nslots; i++)
    if (e->seq[i].id) least = MIN(least, e->served[e->seq[i].flow % ENGINE_FLOWS]);
  uint64_t *own = &e->served[flow % ENGINE_FLOWS];
  if (least != UINT64_MAX) *own = MAX(*own, least);
}

static void fill_seq(Seq *s, const EngineRequest *r) {
  memcpy(s->token, r->tokens, (size_t)r->ntokens * sizeof *r->tokens);
  if (r->nbias) memcpy(s->bias, r->bias, (size_t)r->nbias * sizeof *r->bias);
  if (r->nstop) memcpy(s->stop, r->stop, (size_t)r->nstop * sizeof *r->stop);
  s->prompt = s->len = r->ntokens;
  s->limit = r->ntokens + r->max_tokens;
  s->done = s->npages = s->shared = 0;
  s->own = s->from = s->from_page = -1;
  s->scored = MAX(r->score_from - 1, 0);
  s->rows = s->drafts = 0;
  s->priority = r->priority;
  s->flow = r->flow;
  s->salt = r->salt;
  s->user = r->user;
  s->sampler = r->sampler;
  s->nbias = r->nbias;
  s->nstop = r->nstop;
  s->mask = r->mask;
  s->logprobs = r->logprobs;
  s->score = r->score;
  s->pool = r->pool;
  s->second = r->second;
  s->adapter = r->adapter;
  s->no_draft = r->no_draft;
  for (int i = 0; i < DRAFT_SOURCES; i++) {
    s->accept[i] = 0.7f;  // until it is known
    s->pause[i] = 0;
  }
  s->probe = false;
}

tenon_status engine_submit(Engine *e, const EngineRequest *r, Diag *d, uint64_t *out_id) {
  *out_id = 0;
  TRY(check_request(e, r, d));
  int32_t slot = 0;
  while (slot < e->nslots && e->seq[slot].id) slot++;
  if (slot == e->nslots)
    return fail(d, TENON_ENOMEM, NOWHERE, "%d requests are running or waiting, and no more fit",
                e->nslots);
  Seq *s = &e->seq[slot];
  begin_flow(e, r->flow);
  fill_seq(s, r);
  s->arrival = ++e->serial;
  s->id = e->serial * MOST_SLOTS + (uint64_t)slot;
  s->state = SEQ_WAITING;
  e->nwaiting++;
  e->stats.submitted++;
  *out_id = s->id;
  return TENON_OK;
}

int32_t engine_slot(uint64_t id) { return (int32_t)(id % MOST_SLOTS); }

Seq *seq_of(Engine *e, uint64_t id) {
  uint64_t slot = id % MOST_SLOTS;
  return id && slot < (uint64_t)e->nslots && e->seq[slot].id == id ? &e->seq[slot] : NULL;
}

// From the last to the first, as pages.c needs it.
void seq_release_pages(Engine *e, Seq *s) {
  while (s->npages > 0) page_release(e, s->page[--s->npages]);
  s->done = s->shared = 0;
  state_end(e, s);
}

void seq_put_back(Engine *e, Seq *s) {
  s->rows = s->drafts = 0;
  seq_release_pages(e, s);
  s->state = SEQ_WAITING;
  e->nrunning--;
  e->nwaiting++;
}

bool engine_cancel(Engine *e, uint64_t id) {
  Seq *s = seq_of(e, id);
  if (!s || s->state == SEQ_CANCELLED) return false;
  if (s->state == SEQ_RUNNING)
    e->nrunning--;
  else
    e->nwaiting--;
  seq_release_pages(e, s);
  s->state = SEQ_CANCELLED;
  s->rows = s->drafts = 0;
  return true;
}

bool engine_has_room(const Engine *e) {
  for (int32_t i = 0; i < e->nslots; i++)
    if (!e->seq[i].id) return true;
  return false;
}

bool engine_busy(const Engine *e) {
  for (int32_t i = 0; i < e->nslots; i++)
    if (e->seq[i].id) return true;
  return false;
}

bool engine_uses(const Engine *e, int32_t adapter) {
  for (int32_t i = 0; i < e->nslots; i++)
    if (e->seq[i].id && e->seq[i].adapter == adapter) return true;
  return false;
}

EngineStats engine_stats(const Engine *e) {
  EngineStats s = e->stats;
  s.running = e->nrunning;
  s.waiting = e->nwaiting;
  s.pages = e->model.pages;
  s.pages_free = e->nfree;
  s.pages_cached = e->ncached;
  return s;
}
