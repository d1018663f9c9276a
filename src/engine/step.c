// step.c -- one step: plan, run the model, sample, take what is now certain.
//
// A draft token d at position p has a row like any other.  The row before it gives the token that
// plain decoding would have at p.  Where both are equal, the row of d is right and gives the next
// token; at the first difference the rows behind it are dropped.  Their keys and values lie beyond
// `done` and are written again.  So the tokens are those of plain decoding, whatever is drafted.
#include "engine/engine.h"

#include "base/platform.h"

static EngineEvent *add_event(Engine *e, const Seq *s, EngineEventKind kind, int32_t token,
                              int32_t position) {
  CHECK(e->nevents < e->events_max, "a step has more events than room for them");
  EngineEvent *ev = &e->event[e->nevents++];
  ev->id = s->id;
  ev->user = s->user;
  ev->kind = kind;
  ev->finish = FINISH_NONE;
  ev->token = token;
  ev->position = position;
  ev->report.logprob = 0;
  ev->report.ntop = 0;
  ev->vector = NULL;
  ev->nvector = 0;
  return ev;
}

static void end_seq(Engine *e, Seq *s, EngineEvent *last, EngineFinish why) {
  last->finish = why;
  if (why == FINISH_CANCELLED)
    e->stats.cancelled++;
  else
    e->stats.finished++;
  if (s->state == SEQ_RUNNING) e->nrunning--;
  seq_release_pages(e, s);
  s->state = SEQ_FREE;
  s->id = 0;
}

// Requests that were cancelled since the last step: their pages are free already.
static void report_cancelled(Engine *e) {
  for (int32_t i = 0; i < e->nslots; i++) {
    Seq *s = &e->seq[i];
    if (s->state == SEQ_CANCELLED)
      end_seq(e, s, add_event(e, s, EVENT_END, -1, s->len), FINISH_CANCELLED);
  }
}

static bool is_stop(const Seq *s, int32_t token) {
  for (int32_t i = 0; i < s->nstop; i++)
    if (s->stop[i] == token) return true;
  return false;
}

// Draws the token at position len and appends it.  False: the sequence has ended.
static bool next_token(Engine *e, Seq *s, const float *logits) {
  SamplerInput in = {.params = &s->sampler,
                     .bias = s->bias,
                     .nbias = s->nbias,
                     .mask = s->mask,
                     .tokens = s->token,
                     .n = s->len,
                     .prompt = s->prompt,
                     .left = s->limit - s->len};
  int32_t vocab = e->model.vocab, token = sampler_draw(&in, logits, vocab, &e->scratch);
  if (token < 0) {
    end_seq(e, s, add_event(e, s, EVENT_END, -1, s->len), FINISH_NO_TOKEN);
    return false;
  }
  EngineEvent *ev = add_event(e, s, EVENT_TOKEN, token, s->len);
  if (s->logprobs >= 0) sampler_report(logits, vocab, token, s->logprobs, &ev->report);
  s->token[s->len++] = token;
  e->stats.tokens++;
  EngineFinish why = is_stop(s, token) ? FINISH_STOP : s->len == s->limit ? FINISH_LENGTH : 0;
  if (why) end_seq(e, s, ev, why);
  return !why;
}

static void score_prompt(Engine *e, Seq *s, int32_t position, const float *logits) {
  int32_t token = s->token[position + 1];
  EngineEvent *ev = add_event(e, s, EVENT_PROMPT, token, position + 1);
  sampler_report(logits, e->model.vocab, token, MAX(s->logprobs, 0), &ev->report);
  s->scored = position + 1;
}

// Of the pending token and the drafts behind it.  False: the sequence has ended.
static bool take_tokens(Engine *e, Seq *s, int32_t out) {
  int32_t accepted = 0, drafted = s->drafts;
  bool on = true;
  for (int32_t i = 0; i <= drafted; i++) {
    int32_t draft = i < drafted ? s->token[s->len] : -1;  // before the token takes its place
    on = next_token(e, s, e->logits + (int64_t)(out + i) * e->model.vocab);
    if (!on) {
      e->stats.drafted += drafted;
      e->stats.accepted += accepted;
      return false;
    }
    if (i == drafted || s->token[s->len - 1] != draft) break;
    s->done++;
    accepted++;
  }
  e->stats.drafted += drafted;
  e->stats.accepted += accepted;
  draft_learn(s, drafted, accepted);
  return on;
}

static void take_results(Engine *e, Seq *s) {
  int32_t base = s->rows - s->drafts, out = s->out, from = s->done;
  for (int32_t at = from; at < from + base && at < s->len - 1; at++)
    if (seq_wants(s, at)) score_prompt(e, s, at, e->logits + (int64_t)out++ * e->model.vocab);
  if (s->pool) pool_rows(e, s);
  s->done += base;
  e->stats.prompt_tokens += MAX(0, MIN(s->done, s->prompt) - from);
  if (s->done == s->len) {
    if (s->pool) {
      EngineEvent *ev = add_event(e, s, EVENT_VECTOR, -1, s->len);
      ev->vector = pool_vector(e, s, &ev->nvector);
      end_seq(e, s, ev, FINISH_LENGTH);
      return;
    }
    if (s->limit == s->prompt) {
      end_seq(e, s, add_event(e, s, EVENT_END, -1, s->len), FINISH_LENGTH);
      return;
    }
    if (!take_tokens(e, s, out)) return;
  }
  prefix_share(e, s);
  state_advance(e, s);
}

tenon_status engine_step(Engine *e, Diag *d) {
  e->nevents = 0;
  report_cancelled(e);
  plan_step(e);
  plan_build(e);
  if (!e->batch.rows) return TENON_OK;
  int64_t begin = e->options.now ? e->options.now() : 0;
  tenon_status s = e->model.run(e->model.ctx, &e->batch, d);
  if (s) {
    // How far it came with the states is not known.
    for (int32_t i = 0; e->model.states && i < e->batch.seqs; i++)
      seq_put_back(e, &e->seq[e->batch_seq[i]]);
    return s;
  }
  e->stats.steps++;
  e->stats.rows += e->batch.rows;
  if (e->options.now) cost_learn(&e->cost, e->batch.rows, e->options.now() - begin, e->stats.steps);
  for (int32_t i = 0; i < e->batch.seqs; i++) take_results(e, &e->seq[e->batch_seq[i]]);
  return TENON_OK;
}

const EngineEvent *engine_events(const Engine *e, int32_t *out_n) {
  *out_n = e->nevents;
  return e->event;
}
