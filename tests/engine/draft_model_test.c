// draft_model_test.c -- speculation by a smaller model: right guesses save steps, wrong ones change
// nothing, and what does not pay or fails is switched off.
#include "llm_fake.h"
#include "test.h"

enum { PROMPT = 20, TOKENS = 150, VOCAB = 40 };

typedef struct Pair {
  FakeModel large, small;
  Engine *e;
  Diag d;
  int32_t prompt[PROMPT];
} Pair;

static void begin(Pair *p, int32_t history, EngineOptions o) {
  EngineModel m = {
      .rows_max = 32, .seqs_max = 3, .outs_max = 24, .vocab = VOCAB, .pages = 40, .context = 300};
  EngineModel s = m;
  s.pages = 30;
  diag_init(&p->d);
  fake_init(&p->large, &m, 3, false);
  fake_init(&p->small, &s, history, false);
  for (int i = 0; i < PROMPT; i++) p->prompt[i] = (int32_t)(hash_u64((uint64_t)i) % VOCAB);
  o.drafter = &p->small.model;
  EXPECT_STATUS(engine_create(&p->large.model, &o, &p->d, &p->e), TENON_OK);
}

static void end(Pair *p) {
  EXPECT_INT_EQ(p->large.wrong_reads + p->small.wrong_reads, 0);
  engine_free(p->e);
  fake_deinit(&p->large);
  fake_deinit(&p->small);
}

// Steps of one request, whose tokens must be those of the plain loop.
static int run(Pair *p, float temperature, int requests) {
  int32_t want[TOKENS], got = 0, steps = 0;
  EngineFinish why;
  EngineRequest r = {
      .tokens = p->prompt, .ntokens = PROMPT, .max_tokens = TOKENS, .sampler = sampler_greedy};
  r.sampler.temperature = temperature;
  uint64_t id, first = 0;
  for (int i = 0; i < requests; i++) {
    r.sampler.seed = (uint64_t)(requests - i);
    EXPECT_STATUS(engine_submit(p->e, &r, &p->d, &id), TENON_OK);
    if (i == requests - 1) first = id;
  }
  EXPECT_INT_EQ(fake_generate(&p->large, &r, want, &why), TOKENS);
  for (; engine_busy(p->e) && steps < 10000; steps++) {
    int32_t n;
    EXPECT_STATUS(engine_step(p->e, &p->d), TENON_OK);
    const EngineEvent *ev = engine_events(p->e, &n);
    for (int32_t i = 0; i < n; i++)
      if (ev[i].id == first && ev[i].kind == EVENT_TOKEN) EXPECT_INT_EQ(ev[i].token, want[got++]);
    EXPECT(engine_check(p->e) == NULL);
  }
  EXPECT_INT_EQ(got, TOKENS);
  return steps;
}

TEST(draft_model_of_the_same_mind_saves_steps) {
  for (int i = 0; i < 4; i++) {
    Pair p;
    begin(&p, 3, (EngineOptions){.draft = 4});
    int steps = run(&p, i % 2 ? 0.9f : 0, i < 2 ? 1 : 3);
    // Five tokens a step, of which one is the model's own.
    if (steps > TOKENS / 4) FAIL("%d steps", steps);
    end(&p);
  }
}

// Lanes of sequences that have ended hold other tokens.
TEST(draft_model_goes_on_with_other_texts) {
  Pair p;
  begin(&p, 3, (EngineOptions){.draft = 4});
  p.large.far = p.small.far = true;
  for (int i = 0; i < 3; i++) {
    for (int k = i; k < PROMPT; k++) p.prompt[k] = (p.prompt[k] + 7) % VOCAB;
    int steps = run(&p, 0, 3);
    if (steps > TOKENS / 4) FAIL("%d steps", steps);
  }
  end(&p);
}

TEST(draft_model_of_another_mind_changes_nothing) {
  Pair p;
  begin(&p, 1, (EngineOptions){.draft = 4});
  EXPECT(run(&p, 0, 2) > TOKENS / 2);
  // It is asked now and then alone.
  EXPECT(engine_stats(p.e).drafted < 2 * TOKENS);
  end(&p);
}

// A clock of what rows cost: those of the draft model a tenth, or as much as the model's.
static Pair *timed;
static int64_t now_is, small_cost, last_runs, last_small;
static int64_t pair_clock(void) {
  if (timed->large.runs > last_runs) now_is += 1000;
  if (timed->small.runs > last_small) now_is += small_cost;
  last_runs = timed->large.runs;
  last_small = timed->small.runs;
  return now_is;
}

static int64_t runs_of_small(int64_t cost) {
  Pair p;
  timed = &p;
  last_runs = last_small = 0;
  small_cost = cost;
  begin(&p, 3, (EngineOptions){.draft = 4, .now = pair_clock});
  run(&p, 0, 1);
  int64_t n = p.small.runs;
  end(&p);
  return n;
}

TEST(draft_model_is_off_where_it_does_not_pay) {
  EXPECT(runs_of_small(50) > 60);
  int64_t costly = runs_of_small(3000);
  if (costly > 30)
    FAIL("%lld runs of a draft model that costs three times as much", (long long)costly);
}

TEST(draft_model_that_fails_is_dropped) {
  Pair p;
  begin(&p, 3, (EngineOptions){.draft = 4});
  p.small.fail_in = 5;
  EXPECT(run(&p, 0, 1) > TOKENS / 2);
  EXPECT_INT_EQ(p.small.runs, 5);
  end(&p);
}

TEST(draft_model_limits) {
  FakeModel large, small;
  Engine *e;
  Diag d;
  EngineModel m = {
      .rows_max = 8, .seqs_max = 2, .outs_max = 4, .vocab = 9, .pages = 9, .context = 90};
  fake_init(&large, &m, 2, false);
  fake_init(&small, &m, 2, false);
#define REFUSED(field, value)                                                                      \
  do {                                                                                             \
    EngineModel from = small.model;                                                                \
    from.field = (value);                                                                          \
    diag_init(&d);                                                                                 \
    EXPECT_STATUS(                                                                                 \
        engine_create(&large.model, &(EngineOptions){.draft = 2, .drafter = &from}, &d, &e),       \
        TENON_EINVAL);                                                                             \
    EXPECT_CONTAINS(d.text, "a draft model of");                                                   \
  } while (0)
  REFUSED(seqs_max, 1);
  REFUSED(pages, 5);
  REFUSED(outs_max, 1);
  REFUSED(states, 2);
  REFUSED(no_logits, true);
  REFUSED(whole, true);
  REFUSED(vocab, 0);
  REFUSED(context, 0);
#undef REFUSED
  fake_deinit(&large);
  fake_deinit(&small);
}
