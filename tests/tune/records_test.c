// records_test.c -- JSON Lines of runs: text and back, and every kind of damage.
#include "base/platform.h"
#include "lower/workload.h"
#include "test.h"
#include "tune/records.h"

static const char workload[] = "contraction f32[2]";

static const char *sample(Arena *a) {
  StrBuf b;
  const char *key = workload_key(STR("contraction f32[2]"), a);
  RunRecord r = {.uid = "0123456789abcdef0123456789abcdef",
                 .machine = "0123456789abcdef vector=64",
                 .model = "m.onnx",
                 .tool = "0.1",
                 .seed = 7,
                 .started = 1700000000,
                 .finished = true};
  Trial t = {.phase = TRIAL_CONFIRM, .key = key, .schedule = "gemm rows=2", .dflt = "gemm rows=1"};
  t.n = 2;
  t.ns[0] = 10, t.ns[1] = 11, t.anchor_ns[0] = 12, t.anchor_ns[1] = 13;
  Trial model = {.phase = TRIAL_MODEL, .key = key, .schedule = "", .dflt = ""};
  strbuf_init(&b, a);
  record_put_head(&b);
  record_put_workload(&b, key, STR("contraction f32[2]"));
  record_put_run(&b, &r);
  record_put_trial(&b, 0, &t);
  record_put_trial(&b, 1, &model);
  return strbuf_text(&b);
}

static tenon_status parse(Arena *a, Str text, Records *r) {
  static Diag d;
  diag_init(&d);
  tenon_status s = records_parse(text, "f", a, &d, r);
  EXPECT(!s == !d.len);
  return s;
}

static const char *print(Arena *a, const Records *r) {
  StrBuf b;
  strbuf_init(&b, a);
  record_put_head(&b);
  const char *key = workload_key(str_of(workload), a);
  record_put_workload(&b, key, records_workload(r, key));
  for (int64_t i = 0; i < r->nruns; i++) {
    record_put_run(&b, &r->run[i]);
    for (int64_t k = 0; k < r->log[i].n; k++) record_put_trial(&b, k, r->log[i].v[k]);
  }
  return strbuf_text(&b);
}

TEST(tune_records_go_to_text_and_back) {
  Arena a;
  Records r;
  arena_init(&a);
  const char *text = sample(&a);
  EXPECT_STATUS(parse(&a, str_of(text), &r), TENON_OK);
  EXPECT(r.nruns == 1 && r.log[0].n == 2);
  EXPECT_STR_EQ(print(&a, &r), text);
  arena_deinit(&a);
}

// One part of the text replaced; the whole must be refused.
static void refuses(const char *from, const char *to) {
  Arena a;
  Records r;
  arena_init(&a);
  const char *text = sample(&a), *at = strstr(text, from);
  EXPECT(at);
  if (at) {
    const char *bad = str_printf(&a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    EXPECT_STATUS(parse(&a, str_of(bad), &r), TENON_EFORMAT);
  }
  arena_deinit(&a);
}

TEST(tune_records_refuse_damage) {
  refuses("\"tenon-records\":1", "\"tenon-records\":2");
  refuses("contraction", "contractions");
  refuses("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdeg");
  refuses("gemm rows=2", "gemm rows=2 # 9");
  refuses("gemm rows=2", "gemm\\u0000");
  refuses("gemm rows=2", "gemm\\nrows=2");
  refuses("[10,11]", "[10,-11]");
  refuses("[10,11]", "[10]");
  refuses("[10,11]", "[10,1.5]");
  refuses("\"confirm\"", "\"confirmed\"");
  refuses("\"trial\":1", "\"trial\":2");
  refuses("\"seed\":7", "\"seed\":-7");
  refuses("\"reverted\":\"", "\"reverted\":\"x");
}

TEST(tune_records_refuse_every_cut) {
  Arena a;
  Records r;
  arena_init(&a);
  Str text = str_of(sample(&a));
  for (int64_t i = 0; i < text.n; i++)
    if (!i || text.p[i - 1] != '\n') EXPECT_STATUS(parse(&a, (Str){text.p, i}, &r), TENON_EFORMAT);
  arena_deinit(&a);
}

// ---- allocations that fail ----

static int64_t allowed;
static void *counted_alloc(int64_t bytes) {
  return allowed-- > 0 ? platform_posix.alloc(bytes) : NULL;
}

// True: none failed.
static bool parse_sample(const char *text) {
  static Diag d;
  Arena a;
  Records r;
  Trap t;
  diag_init(&d);
  arena_init(&a);
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = records_parse(str_of(text), "f", &a, &d, &r);
  trap_leave(&t);
  arena_deinit(&a);
  if (t.status) EXPECT_STATUS(t.status, TENON_ENOMEM);
  return !t.status;
}

TEST(tune_records_without_memory) {
  Platform p = platform_posix;
  Arena a;
  int64_t k = 0;
  arena_init(&a);
  const char *text = sample(&a);
  p.alloc = counted_alloc;
  p.chunk_bytes = 0;
  platform = &p;
  for (bool done = false; !done; k++) {
    allowed = k;
    done = parse_sample(text);
  }
  platform = &platform_posix;
  EXPECT(k > 10);
  arena_deinit(&a);
}
