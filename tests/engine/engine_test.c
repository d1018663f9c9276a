// engine_test.c -- requests that are refused, memory, priorities, fairness, pages and drafts, each
// by a case of its own; step_test.c has all of them at once.
#include "llm_fake.h"
#include "test.h"

#include "base/budget.h"
#include "base/platform.h"

enum { MOST = 4096 };

typedef struct Bench {
  FakeModel fake;
  Engine *e;
  int32_t prompt[MOST];
  Diag d;
} Bench;

static void begin(Bench *b, EngineModel m, EngineOptions o) {
  diag_init(&b->d);
  fake_init(&b->fake, &m, 3, true);
  for (int32_t i = 0; i < MOST; i++) b->prompt[i] = (int32_t)(hash_u64((uint64_t)i) % 30);
  EXPECT_STATUS(engine_create(&b->fake.model, &o, &b->d, &b->e), TENON_OK);
}
static void end(Bench *b) {
  engine_free(b->e);
  fake_deinit(&b->fake);
}
static EngineRequest request(const Bench *b, int32_t n, int32_t more) {
  return (EngineRequest){
      .tokens = b->prompt, .ntokens = n, .max_tokens = more, .sampler = sampler_greedy};
}
static uint64_t submit(Bench *b, EngineRequest r) {
  uint64_t id;
  EXPECT_STATUS(engine_submit(b->e, &r, &b->d, &id), TENON_OK);
  return id;
}
static int32_t step(Bench *b) {
  int32_t n;
  EXPECT_STATUS(engine_step(b->e, &b->d), TENON_OK);
  engine_events(b->e, &n);
  EXPECT(engine_check(b->e) == NULL);
  return n;
}
static int drain(Bench *b) {
  int steps = 0;
  for (; engine_busy(b->e) && steps < 10000; steps++) step(b);
  return steps;
}
static const EngineModel small = {
    .rows_max = 16, .seqs_max = 4, .outs_max = 8, .vocab = 40, .pages = 8, .context = 200};

// ---- requests and limits ----

TEST(engine_refuses_wrong_requests) {
  Bench b;
  begin(&b, small, (EngineOptions){0});
  const struct {
    int32_t n, more, token;
    float temperature;
    const char *says;
  } bad[] = {
      {0, 5, 1, 0, "the prompt has no token"},
      {201, 5, 1, 0, "the prompt has 201 tokens, and the context has room for 200"},
      {100, 101, 1, 0, "more than the context of 200"},
      {5, 0, 1, 0, "0 tokens to generate"},
      {5, -1, 1, 0, "-1 tokens to generate"},
      {5, 5, 40, 0, "token 2 of the prompt is 40, and the vocabulary has 40 tokens"},
      {5, 5, -1, 0, "token 2 of the prompt is -1"},
      {5, 5, 1, 101, "temperature"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++) {
    uint64_t id;
    diag_init(&b.d);
    b.prompt[2] = bad[i].token;
    EngineRequest r = request(&b, bad[i].n, bad[i].more);
    r.sampler.temperature = bad[i].temperature;
    EXPECT_STATUS(engine_submit(b.e, &r, &b.d, &id), TENON_EINVAL);
    EXPECT_CONTAINS(b.d.text, bad[i].says);
    EXPECT_INT_EQ(id, 0);
  }
  EXPECT(!engine_busy(b.e) && !engine_cancel(b.e, 7) && !engine_cancel(b.e, 0));
  end(&b);
}

// The last token's keys and values need no slot; one token more can never fit.
TEST(engine_admits_by_pages) {
  Bench b;
  EngineModel m = small;
  m.pages = 2;
  begin(&b, m, (EngineOptions){0});
  uint64_t id;
  EngineRequest r = request(&b, 60, 6);
  diag_init(&b.d);
  EXPECT_STATUS(engine_submit(b.e, &r, &b.d, &id), TENON_EINVAL);
  EXPECT_CONTAINS(b.d.text, "need 3 pages, and the KV cache has 2");
  r.max_tokens = 5;
  submit(&b, r);
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).tokens, 5);
  end(&b);
}

TEST(engine_refuses_limits_that_do_not_fit) {
  EngineModel m = small;
  Diag d;
  Engine *e;
  FakeModel f;
  diag_init(&d);
  fake_init(&f, &m, 1, false);
#define REFUSED(field, value)                                                                      \
  do {                                                                                             \
    m = f.model;                                                                                   \
    m.field = (value);                                                                             \
    EXPECT_STATUS(engine_create(&m, NULL, &d, &e), TENON_EINVAL);                                  \
    EXPECT(e == NULL);                                                                             \
  } while (0)
  REFUSED(pages, 0);
  REFUSED(pages, INT32_MAX);
  REFUSED(context, 0);
  REFUSED(context, INT32_MAX);
  REFUSED(vocab, 0);
  REFUSED(seqs_max, 0);
  REFUSED(seqs_max, 9);
  REFUSED(outs_max, 17);
  REFUSED(rows_max, INT32_MAX);
#undef REFUSED
  fake_deinit(&f);
}

TEST(engine_says_when_all_slots_are_taken) {
  Bench b;
  begin(&b, small, (EngineOptions){.requests = 3});
  uint64_t id;
  EngineRequest r = request(&b, 4, 4);
  for (int i = 0; i < 3; i++) submit(&b, r);
  EXPECT_STATUS(engine_submit(b.e, &r, &b.d, &id), TENON_ENOMEM);
  drain(&b);
  submit(&b, r);
  end(&b);
}

// ---- memory ----

static int64_t allocations;
static void *counting_alloc(int64_t bytes) {
  allocations++;
  return platform_posix.alloc(bytes);
}

TEST(engine_serves_without_allocating) {
  Bench b;
  EngineModel m = small;
  m.rows_max = 40;
  begin(&b, m, (EngineOptions){.draft = 4, .requests = 32, .now = platform->now});
  Platform counting = platform_posix;
  counting.alloc = counting_alloc;
  platform = &counting;
  allocations = 0;
  for (int i = 0; i < 2000; i++) {
    EngineRequest r = request(&b, 1 + i % 90, 1 + i % 60);
    uint64_t id;
    r.sampler.temperature = (float)(i % 3);
    r.sampler.top_p = 0.9f;
    r.logprobs = 5;
    tenon_status s = engine_submit(b.e, &r, &b.d, &id);
    EXPECT(s == TENON_OK || s == TENON_ENOMEM);
    if (i % 7 == 0) engine_cancel(b.e, id);
    EXPECT_STATUS(engine_step(b.e, &b.d), TENON_OK);
  }
  EXPECT_INT_EQ(allocations, 0);
  platform = &platform_posix;
  EXPECT(engine_stats(b.e).preempted > 0 && engine_stats(b.e).cached_tokens > 0);
  end(&b);
}

static int64_t allocated;
static void *summing_alloc(int64_t bytes) {
  allocated += bytes;
  return platform_posix.alloc(bytes);
}

TEST(engine_certificate_is_what_is_allocated) {
  Platform summing = platform_posix;
  summing.alloc = summing_alloc;
  for (int32_t pages = 1; pages < 3000; pages = pages * 3 + 1) {
    EngineModel m = small;
    EngineOptions o = {.requests = 5};
    ModelBytes bytes = {.weights = 1000, .copied = 200, .arena = 3000, .page = 8192, .code = 40};
    Certificate c;
    Bench b;
    m.pages = pages;
    diag_init(&b.d);
    EXPECT_STATUS(certificate_make(&m, &o, &bytes, &b.d, &c), TENON_OK);
    EXPECT_INT_EQ(c.total, 200 + 3000 + 40 + pages * 8192 + c.logits + c.tables + c.requests);
    EXPECT_INT_EQ(certificate_pages(&m, &o, &bytes, c.total), pages);
    EXPECT_INT_EQ(certificate_pages(&m, &o, &bytes, c.total - 1), pages - 1);
    platform = &summing;
    allocated = 0;
    begin(&b, m, o);
    platform = &platform_posix;
    EXPECT_INT_EQ(allocated, c.logits + c.tables + c.requests);
    end(&b);
  }
}

TEST(engine_create_without_memory) {
  Bench b;
  FakeModel f;
  fake_init(&f, &small, 1, false);
  diag_init(&b.d);
  int64_t before = mem_ceiling(1);
  EXPECT_STATUS(engine_create(&f.model, NULL, &b.d, &b.e), TENON_ENOMEM);
  mem_ceiling(before);
  EXPECT(b.e == NULL);
  fake_deinit(&f);
}

// ---- the order of requests ----

static int32_t step_of_end(Bench *b, uint64_t id, int32_t from) {
  for (int32_t i = from; i < 1000; i++) {
    int32_t n = step(b);
    const EngineEvent *ev = engine_events(b->e, &n);
    for (int32_t k = 0; k < n; k++)
      if (ev[k].id == id && ev[k].finish) return i;
  }
  return -1;
}

TEST(engine_higher_priorities_go_first) {
  Bench b;
  EngineModel m = small;
  m.pages = 6;
  begin(&b, m, (EngineOptions){.no_prefix = true});
  for (int i = 0; i < 4; i++) submit(&b, request(&b, 40, 20));
  for (int i = 0; i < 20; i++) step(&b);
  EngineRequest urgent = request(&b, 100, 3);
  urgent.priority = 1;
  uint64_t id = submit(&b, urgent);
  // Ten steps of prefill beside what decodes, three tokens: it waits for nobody.
  EXPECT(step_of_end(&b, id, 0) <= 12);
  EXPECT(engine_stats(b.e).preempted > 0);
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).tokens, 83);
  end(&b);
}

// Two clients of one priority share prefill, however many requests one of them has.
TEST(engine_flows_are_served_evenly) {
  Bench b;
  EngineModel m = small;
  m.pages = 100;
  begin(&b, m, (EngineOptions){.no_prefix = true, .requests = 20});
  EngineRequest greedy = request(&b, 160, 1), modest = request(&b, 160, 1);
  greedy.flow = 1;
  modest.flow = 2;
  for (int i = 0; i < 10; i++) submit(&b, greedy);
  uint64_t id = submit(&b, modest);
  // 160 rows of each of both, 16 a step.
  EXPECT(step_of_end(&b, id, 1) <= 22);
  end(&b);
}

TEST(engine_first_come_first_served_within_a_flow) {
  Bench b;
  EngineModel m = small;
  m.pages = 100;
  begin(&b, m, (EngineOptions){.no_prefix = true});
  uint64_t first = submit(&b, request(&b, 160, 1));
  submit(&b, request(&b, 160, 1));
  EXPECT_INT_EQ(step_of_end(&b, first, 1), 10);
  end(&b);
}

TEST(engine_cancels_within_a_step) {
  Bench b;
  begin(&b, small, (EngineOptions){.no_prefix = true});
  uint64_t id = submit(&b, request(&b, 50, 50));
  for (int i = 0; i < 10; i++) step(&b);
  EXPECT(engine_stats(b.e).pages_free < small.pages);
  EXPECT(engine_cancel(b.e, id) && !engine_cancel(b.e, id));
  EXPECT_INT_EQ(engine_stats(b.e).pages_free, small.pages);
  EXPECT_INT_EQ(step(&b), 1);
  int32_t n;
  EXPECT_INT_EQ(engine_events(b.e, &n)->finish, FINISH_CANCELLED);
  EXPECT(!engine_busy(b.e));
  end(&b);
}

// Running sequences keep a step near its target: prefill gets fewer rows beside them.
static int64_t rows_time;
static Bench *timed;
static int64_t row_clock(void) {
  static bool in_run;
  in_run = !in_run;  // engine_step asks before and after the run
  return rows_time += in_run ? 0 : timed->e->batch.rows * 1000;
}

TEST(engine_chunks_follow_the_target) {
  Bench b;
  EngineModel m = small;
  m.rows_max = 128, m.pages = 100, m.context = 2000;
  timed = &b;
  begin(&b, m, (EngineOptions){.no_prefix = true, .now = row_clock, .step_ns = 20000});
  submit(&b, request(&b, 4, 900));
  for (int i = 0; i < 5; i++) step(&b);
  submit(&b, request(&b, 1900, 1));
  int over = 0;
  for (int i = 0; i < 60; i++) {
    step(&b);
    over += b.e->batch.rows > 31;
  }
  EXPECT(over <= 2);
  end(&b);
}

// ---- speculation ----

TEST(engine_drafts_repetition) {
  Bench b;
  EngineModel m = small;
  m.rows_max = 32, m.outs_max = 16, m.context = 200;
  for (int draft = 0; draft < 2; draft++) {
    begin(&b, m, (EngineOptions){.draft = draft ? 8 : 0});
    b.fake.far = false;
    b.fake.history = 1;  // soon periodic
    submit(&b, request(&b, 10, 180));
    int steps = drain(&b);
    EXPECT_INT_EQ(engine_stats(b.e).tokens, 180);
    EXPECT(draft ? steps < 80 : steps >= 180);
    end(&b);
  }
}

// Where more rows cost as much as steps of their own, drafts are all but off.
TEST(engine_drafts_stop_where_they_do_not_pay) {
  Bench b;
  EngineModel m = small;
  m.rows_max = 32, m.outs_max = 16, m.context = 2000, m.pages = 80;
  timed = &b;
  begin(&b, m, (EngineOptions){.draft = 8, .now = row_clock});
  b.fake.far = false;
  b.fake.history = 1;
  submit(&b, request(&b, 4, 1900));
  drain(&b);
  // Rows are time here: no more than 3 % beyond one a token.
  EXPECT(engine_stats(b.e).rows < 1960 + 4);
  EXPECT_INT_EQ(engine_stats(b.e).tokens, 1900);
  end(&b);
}

// ---- the prefix tree ----

TEST(engine_prefix_is_shared_by_salt) {
  Bench b;
  begin(&b, small, (EngineOptions){0});
  submit(&b, request(&b, 100, 1));
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).pages_cached, 3);
  submit(&b, request(&b, 100, 1));
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).cached_tokens, 96);
  EngineRequest other = request(&b, 100, 1);
  other.salt = 1;
  submit(&b, other);
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).cached_tokens, 96);
  EXPECT_INT_EQ(engine_stats(b.e).pages_cached, 6);
  submit(&b, request(&b, 96, 1));  // the last token must be computed
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).cached_tokens, 96 + 64);
  end(&b);
}

// Equal hashes, other tokens or another salt: compared, not believed.
TEST(engine_prefix_survives_equal_hashes) {
  Bench b;
  begin(&b, small, (EngineOptions){0});
  Engine *e = b.e;
  for (int32_t i = 0; i < 4; i++) EXPECT_INT_EQ(page_take(e), i);
  prefix_add(e, 0, -1, 5, b.prompt);
  for (int32_t i = 0; i < e->nbuckets; i++) e->bucket[i] = 0;  // every search meets page 0
  int32_t other[ENGINE_PAGE];
  memcpy(other, b.prompt, sizeof other);
  other[31] ^= 1;
  uint64_t keep = e->page[0].hash;
  prefix_add(e, 1, -1, 5, other);
  uint64_t hash = e->page[1].hash;
  prefix_remove(e, 1);
  e->page[0].hash = hash;
  EXPECT_INT_EQ(prefix_find(e, -1, 5, other), -1);
  e->page[0].hash = keep;
  EXPECT_INT_EQ(prefix_find(e, -1, 5, b.prompt), 0);
  e->page[0].salt = 6;
  EXPECT_INT_EQ(prefix_find(e, -1, 5, b.prompt), -1);
  e->page[0].salt = 5;
  e->page[0].parent = 3;
  EXPECT_INT_EQ(prefix_find(e, -1, 5, b.prompt), -1);
  end(&b);
}

// The least recently used leaf goes first, and a page never before its children.
TEST(engine_evicts_the_least_recently_used) {
  Bench b;
  begin(&b, small, (EngineOptions){0});
  EngineRequest first = request(&b, 65, 1), second = request(&b, 65, 1);
  second.tokens = b.prompt + 100;
  submit(&b, first);
  drain(&b);
  submit(&b, second);
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).pages_cached, 4);
  submit(&b, first);  // used again
  drain(&b);
  EngineRequest third = request(&b, 150, 1);
  third.tokens = b.prompt + 300;
  submit(&b, third);  // five pages; four are free
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).evicted, 1);
  int64_t cached = engine_stats(b.e).cached_tokens;
  submit(&b, second);  // its first page is still there
  drain(&b);
  EXPECT_INT_EQ(engine_stats(b.e).cached_tokens - cached, 32);
  end(&b);
}
