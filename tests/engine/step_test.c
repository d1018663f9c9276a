// step_test.c -- the engine beside a plain loop: random requests, sizes, cancels and failures.
//
// Each request is first answered by fake_generate, which knows neither pages nor batches.  Then the
// engine has to give the same tokens, each once and in order, whatever else runs.  engine_check and
// plan_check run in every step.  ENGINE_STEPS sets how many steps (20,000), ENGINE_SEED the seed.
#include "llm_fake.h"
#include "test.h"

#include "base/platform.h"

#include <stdlib.h>

enum { MOST_LIVE = 24, MOST_TOKENS = 400, VOCAB = 24, BASES = 3 };

typedef struct Random {
  uint64_t state;
} Random;
static uint64_t next(Random *r) { return r->state = hash_u64(r->state + 0x9e3779b97f4a7c15u); }
static int32_t below(Random *r, int32_t n) { return (int32_t)(next(r) % (uint64_t)n); }
static bool one_in(Random *r, int32_t n) { return below(r, n) == 0; }

// What a mask keeps: the tokens when it was asked last.
typedef struct MaskState {
  size_t n;
  bool wrong;
} MaskState;

// A request that is under way, with what it must give.
typedef struct Live {
  uint64_t id;
  EngineRequest r;
  int32_t prompt[MOST_TOKENS], want[MOST_TOKENS], nwant, got, scored;
  SamplerBias bias[3];
  int32_t stop[2];
  float vector[16];
  EngineFinish why;
  bool cancelled;
  MaskState mask;
} Live;

typedef struct Driver {
  Random random;
  FakeModel fake;
  Engine *e;
  Live live[MOST_LIVE];
  int32_t base[BASES][MOST_TOKENS];
  int64_t steps, requests, failures, preempted, cached, accepted, drafted, resumed, vectors,
      adapted, by_model;
  FakeModel small;  // the draft model
  int32_t wrong;
} Driver;

// A clock that goes on by what a step might take; a mask that only tokens decide.
static int64_t fake_time;
static int64_t fake_now(void) {
  return fake_time += 1000 + (int64_t)(hash_u64((uint64_t)fake_time) % 3000);
}
// ... on the token before, and on how many are left.  It sees that it is asked once for each token,
// in their order.
static tenon_llm_allowed odd_after_even(const tenon_llm_place *at, uint32_t *allowed, void *ctx) {
  MaskState *s = ctx;
  s->wrong |= s->n && at->ntokens != s->n + 1;
  s->n = at->ntokens;
  if (at->left % 5 == 0) return TENON_LLM_ALLOW_ALL;
  for (int32_t i = 0; i < VOCAB; i++)
    if ((i + at->tokens[at->ntokens - 1]) % 2 || i < 4) allowed[0] |= 1u << i;
  return at->left == 1 && at->nprompt % 7 == 0 ? TENON_LLM_ALLOW_FAILED : TENON_LLM_ALLOW_SET;
}

static SamplerParams any_sampler(Random *r) {
  SamplerParams p = sampler_greedy;
  if (one_in(r, 2)) return p;
  p.temperature = 0.2f + (float)below(r, 30) / 10;
  p.seed = next(r);
  if (one_in(r, 3)) p.top_k = below(r, 8);
  if (one_in(r, 3)) p.top_p = 0.1f + (float)below(r, 9) / 10;
  if (one_in(r, 4)) p.min_p = (float)below(r, 5) / 10;
  if (one_in(r, 4)) p.typical = 0.3f + (float)below(r, 7) / 10;
  if (one_in(r, 4)) p.repeat = 1.2f;
  if (one_in(r, 4)) p.presence = 0.5f;
  if (one_in(r, 4)) p.frequency = 0.25f;
  return p;
}

// Prompts begin with one of a few texts, so that the prefix tree is hit.
static void make_prompt(Driver *t, Live *l, int32_t n) {
  Random *r = &t->random;
  int32_t same = one_in(r, 3) ? n : below(r, n + 1), base = below(r, BASES);
  for (int32_t i = 0; i < n; i++) l->prompt[i] = i < same ? t->base[base][i] : below(r, VOCAB);
}

static void make_request(Driver *t, Live *l) {
  Random *r = &t->random;
  int32_t room =
      MIN(MIN(t->fake.model.context, t->fake.model.pages * ENGINE_PAGE + 1), MOST_TOKENS);
  int32_t total = one_in(r, 4) ? room : 1 + below(r, room);
  int32_t n = one_in(r, 4) ? total : 1 + below(r, total);
  make_prompt(t, l, n);
  l->r = (EngineRequest){.tokens = l->prompt, .ntokens = n, .max_tokens = total - n};
  l->r.sampler = any_sampler(r);
  if (one_in(r, 5)) l->r.mask = (TokenMask){odd_after_even, &l->mask};
  for (l->r.nbias = 0; one_in(r, 4) && l->r.nbias < 3; l->r.nbias++) {
    int32_t token = below(r, VOCAB);
    l->bias[l->r.nbias] = (SamplerBias){token, (float)below(r, 5) - 2};
  }
  for (l->r.nstop = 0; one_in(r, 3) && l->r.nstop < 2; l->r.nstop++)
    l->stop[l->r.nstop] = below(r, VOCAB);
  l->r.bias = l->bias;
  l->r.stop = l->stop;
  l->r.logprobs = below(r, 4) - 1;
  l->r.score = one_in(r, 8) || !l->r.max_tokens;
  if (l->r.score && one_in(r, 2)) l->r.score_from = below(r, n + 1);
  l->r.no_draft = one_in(r, 8);
  l->r.priority = one_in(r, 4) ? below(r, 3) : 0;
  l->r.flow = (uint32_t)below(r, 3);
  l->r.salt = one_in(r, 5);
  l->r.user = next(r);
  // As llm_use_adapter has it: no two adapters share pages.
  if (t->fake.model.adapters && one_in(r, 2)) l->r.adapter = below(r, t->fake.model.adapters + 1);
  l->r.salt += 10 * (uint64_t)l->r.adapter;
  t->adapted += l->r.adapter > 0;
  if (!t->fake.model.hidden || (!t->fake.model.no_logits && !one_in(r, 3))) return;
  l->r.pool = (EnginePool)(1 + below(r, t->fake.model.scores ? 4 : 3));
  l->r.max_tokens = 0;
  l->r.score = false;
  l->r.score_from = 0;
  if (one_in(r, 3)) l->r.second = below(r, n);
}

static void submit(Driver *t) {
  Live *l = NULL;
  for (int i = 0; i < MOST_LIVE && !l; i++)
    if (!t->live[i].id) l = &t->live[i];
  if (!l) return;
  make_request(t, l);
  // A prompt that fills all pages to the last slot needs one token less to generate.
  Diag d;
  diag_init(&d);
  tenon_status s = engine_submit(t->e, &l->r, &d, &l->id);
  if (s == TENON_ENOMEM) return;  // all slots are taken
  if (s && engine_pages_for(l->r.ntokens) > t->fake.model.pages) return;
  if (s) {
    FAIL("a request is refused: %s", d.text);
    return;
  }
  t->requests++;
  l->mask = (MaskState){0};
  if (l->r.pool) fake_vector(&t->fake, &l->r, l->vector);
  l->nwant = fake_generate(&t->fake, &l->r, l->want, &l->why);
  l->mask = (MaskState){0};
  l->got = 0;
  l->scored = MAX(l->r.score_from - 1, 0);
  l->cancelled = false;
}

static Live *live_of(Driver *t, uint64_t id) {
  for (int i = 0; i < MOST_LIVE; i++)
    if (t->live[i].id == id) return &t->live[i];
  return NULL;
}

static bool report_is(const Driver *t, const Live *l, const EngineEvent *ev) {
  int32_t all[MOST_TOKENS], n = ev->position, vocab = t->fake.model.vocab;
  float logits[VOCAB];
  SamplerReport want;
  memcpy(all, l->prompt, (size_t)l->r.ntokens * sizeof *all);
  memcpy(all + l->r.ntokens, l->want, (size_t)l->nwant * sizeof *all);
  fake_logits(&t->fake, all, n, l->r.adapter, logits);
  sampler_report(logits, vocab, ev->token, MAX(l->r.logprobs, 0), &want);
  size_t top = (size_t)want.ntop;
  return ev->report.logprob == want.logprob && ev->report.ntop == want.ntop &&
         !memcmp(ev->report.top_id, want.top_id, top * sizeof *want.top_id) &&
         !memcmp(ev->report.top_logprob, want.top_logprob, top * sizeof *want.top_logprob);
}

// What is wrong with an event; NULL: nothing.
static const char *judge(Driver *t, Live *l, const EngineEvent *ev) {
  if (ev->user != l->r.user) return "another request's user";
  if (ev->kind == EVENT_PROMPT) {
    if (!l->r.score || ev->position != l->scored + 1) return "a score out of order";
    if (ev->token != l->prompt[ev->position]) return "a score of another token";
    if (!report_is(t, l, ev)) return "a score that is wrong";
    l->scored++;
    return NULL;
  }
  if (ev->kind == EVENT_TOKEN) {
    if (l->cancelled) return "a token after the cancellation";
    if (l->got >= l->nwant || ev->position != l->r.ntokens + l->got) return "a token too many";
    if (ev->token != l->want[l->got]) return "a wrong token";
    if (l->r.logprobs >= 0 && !report_is(t, l, ev)) return "wrong log-probabilities";
    l->got++;
  }
  if (ev->kind == EVENT_VECTOR) {
    const EngineModel *m = &t->fake.model;
    int32_t n = l->r.pool == POOL_SCORES ? m->scores : m->hidden;
    if (!l->r.pool || ev->nvector != n) return "a vector of another size";
    if (memcmp(ev->vector, l->vector, (size_t)n * sizeof *l->vector)) return "a wrong vector";
    t->vectors++;
  }
  if (!ev->finish) return ev->kind == EVENT_END ? "an end without a reason" : NULL;
  if (ev->finish == FINISH_CANCELLED) return l->cancelled ? NULL : "nobody cancelled it";
  if (ev->finish != l->why) return "another reason to end";
  if (l->got != l->nwant) return "tokens are missing";
  if (l->r.score && l->scored != l->r.ntokens - 1) return "scores are missing";
  return NULL;
}

static void check_step(Driver *t, const char *when) {
  const char *why = engine_check(t->e);
  if (!why) why = t->e->batch.rows && !strcmp(when, "planned") ? plan_check(t->e) : NULL;
  if (why && t->wrong++ < 3) FAIL("step %lld, %s: %s", (long long)t->steps, when, why);
  if (t->fake.wrong_reads && t->wrong++ < 3)
    FAIL("step %lld: a stale page was read", (long long)t->steps);
}

// The model, with the batch checked before it runs.
static tenon_status checked_run(void *ctx, const EngineBatch *b, Diag *d) {
  Driver *t = ctx;
  const char *why = plan_check(t->e);
  if (why && t->wrong++ < 3) FAIL("step %lld: %s", (long long)t->steps, why);
  return t->fake.model.run(&t->fake, b, d);
}
static void checked_freed(void *ctx, int32_t page) {
  ((Driver *)ctx)->fake.model.freed(&((Driver *)ctx)->fake, page);
}

static void step(Driver *t) {
  Diag d;
  diag_init(&d);
  t->steps++;
  if (one_in(&t->random, 200)) t->fake.fail_in = 1;
  if (one_in(&t->random, 2000)) t->small.fail_in = 1;
  bool busy = engine_busy(t->e);
  int64_t runs = t->fake.runs;
  tenon_status s = engine_step(t->e, &d);
  if (s) t->failures++;
  int32_t n;
  const EngineEvent *ev = engine_events(t->e, &n);
  if (busy && !n && t->fake.runs == runs && t->wrong++ < 3)
    FAIL("step %lld did nothing", (long long)t->steps);
  for (int32_t i = 0; i < n; i++) {
    Live *l = live_of(t, ev[i].id);
    const char *why = l ? judge(t, l, &ev[i]) : "no such request";
    if (!why && l->mask.wrong) why = "the mask was not asked once for each token";
    if (why && t->wrong++ < 3) FAIL("step %lld: %s", (long long)t->steps, why);
    if (l && ev[i].finish) l->id = 0;
  }
  check_step(t, "done");
}

static void maybe_cancel(Driver *t) {
  Live *l = &t->live[below(&t->random, MOST_LIVE)];
  if (!l->id || !one_in(&t->random, 20)) return;
  bool did = engine_cancel(t->e, l->id);
  if (!did && !l->cancelled) FAIL("a running request could not be cancelled");
  l->cancelled = true;
}

static void any_sizes(Random *r, EngineModel *m, EngineOptions *o) {
  m->pages = one_in(r, 3) ? 1 + below(r, 4) : 1 + below(r, 40);
  m->context = 1 + below(r, 250);
  m->vocab = VOCAB;
  m->seqs_max = 1 + below(r, 8);
  m->outs_max = m->seqs_max + below(r, 12);
  m->rows_max = m->outs_max + below(r, 60);
  if (one_in(r, 3)) {
    m->states = m->seqs_max + below(r, 6);
    m->keep_every = ENGINE_PAGE * (1 + below(r, 3));
  }
  if (one_in(r, 3)) {
    m->hidden = 1 + below(r, 16);
    m->scores = below(r, 3);
    m->no_logits = one_in(r, 2);
    m->whole = m->no_logits && !m->states && one_in(r, 2);
    if (m->whole) m->rows_max = MAX(m->rows_max, m->context);
  }
  if (one_in(r, 3)) m->adapters = 1 + below(r, 3);
  o->requests = one_in(r, 2) ? 0 : 1 + below(r, MOST_LIVE);
  o->chunk = one_in(r, 2) ? 0 : 1 + below(r, m->rows_max);
  o->draft = one_in(r, 3) ? 0 : 1 + below(r, 8);
  o->no_prefix = one_in(r, 4);
  o->now = one_in(r, 2) ? fake_now : NULL;
  o->step_ns = o->now && one_in(r, 2) ? 2500 : 0;
}

static void finish_round(Driver *t) {
  for (int i = 0; i < 100000 && engine_busy(t->e); i++) step(t);
  EngineStats s = engine_stats(t->e);
  EXPECT(!engine_busy(t->e));
  EXPECT_INT_EQ(s.running + s.waiting, 0);
  EXPECT_INT_EQ(s.pages_free + s.pages_cached, s.pages);
  prefix_clear(t->e);
  EXPECT_INT_EQ(engine_stats(t->e).pages_free, s.pages);
  EXPECT_INT_EQ(s.submitted, s.finished + s.cancelled);
  check_step(t, "emptied");
  t->preempted += s.preempted;
  t->cached += s.cached_tokens;
  if (t->fake.model.states) t->resumed += s.cached_tokens;
  t->accepted += s.accepted;
  t->drafted += s.drafted;
}

// A draft model for these sizes: right as often as it is the same model, or never.
static bool make_drafter(Driver *t, const EngineModel *m) {
  Random *r = &t->random;
  if (!one_in(r, 3)) return false;
  EngineModel small = {.vocab = one_in(r, 4) ? VOCAB - 3 : VOCAB};
  small.context = one_in(r, 3) ? 1 + below(r, 250) : m->context;
  small.seqs_max = m->seqs_max;
  small.outs_max = m->seqs_max + below(r, 3);
  small.rows_max = small.outs_max + below(r, 60);
  small.pages = m->seqs_max * engine_pages_for(small.context);
  fake_init(&t->small, &small, t->fake.history, t->fake.far);
  return true;
}

// Some hundred steps with one set of sizes.
static void play_round(Driver *t) {
  EngineModel m = {0};
  EngineOptions o = {0};
  Diag d;
  diag_init(&d);
  any_sizes(&t->random, &m, &o);
  int32_t words = 1 + below(&t->random, 3);
  bool rows = one_in(&t->random, 2);
  fake_init(&t->fake, &m, words, rows);
  bool drafter = make_drafter(t, &m);
  if (drafter) o.drafter = &t->small.model;
  EngineModel checked = t->fake.model;
  checked.ctx = t;
  checked.run = checked_run;
  checked.freed = checked_freed;
  memset(t->live, 0, sizeof t->live);
  EXPECT_STATUS(engine_create(&checked, &o, &d, &t->e), TENON_OK);
  int32_t rate = 1 + below(&t->random, 4), steps = 50 + below(&t->random, 800);
  for (int32_t i = 0; i < steps && !t->wrong; i++) {
    for (int k = 0; k < 3; k++)
      if (one_in(&t->random, rate)) submit(t);
    maybe_cancel(t);
    step(t);
  }
  finish_round(t);
  if (drafter && t->small.wrong_reads && t->wrong++ < 3) FAIL("the draft model read a stale page");
  if (drafter) t->by_model += engine_stats(t->e).accepted;
  if (drafter) fake_deinit(&t->small);
  engine_free(t->e);
  fake_deinit(&t->fake);
}

static int64_t number_of(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  int64_t n;
  return text && str_to_i64(str_of(text), &n) ? n : otherwise;
}

TEST(engine_random_driver) {
  int64_t steps = number_of("ENGINE_STEPS", 20000);
  Driver *t = calloc(1, sizeof *t);
  t->random.state = (uint64_t)number_of("ENGINE_SEED", 1);
  for (int b = 0; b < BASES; b++)
    for (int i = 0; i < MOST_TOKENS; i++) t->base[b][i] = below(&t->random, VOCAB);
  while (t->steps < steps && !t->wrong) play_round(t);
  // Every mechanism was at work.
  EXPECT(t->preempted > t->steps / 1000);
  EXPECT(t->cached > t->steps / 10);
  EXPECT(t->resumed > t->steps / 1000);
  EXPECT(t->accepted > t->steps / 1000 && t->drafted > t->accepted);
  EXPECT(t->vectors > t->steps / 100);
  EXPECT(t->adapted > t->requests / 20 && t->by_model > t->steps / 100);
  EXPECT(t->failures > 0 && t->requests > t->steps / 50);
  if (getenv("ENGINE_STEPS"))
    printf("%lld steps, %lld requests, %lld preempted, %lld tokens cached, %lld of %lld drafts "
           "right\n",
           (long long)t->steps, (long long)t->requests, (long long)t->preempted,
           (long long)t->cached, (long long)t->accepted, (long long)t->drafted);
  free(t);
}
