// train_test.c -- rules from records: found where they hold on other workloads too, the same bytes
// in any order, none where there is no gain.
#include "lower/template.h"
#include "lower/workload.h"
#include "test.h"
#include "tune/train.h"

enum { TASKS = 40 };

typedef struct Made {
  Arena a;
  Records r;
} Made;

// The default of the first template with a FREE flag, and that flag.
static const Template *flagged(const ScheduleField **out) {
  for (int i = 0; i < template_count; i++)
    for (int k = 0; k < template_table[i].code->nfields; k++) {
      const ScheduleField *f = &template_table[i].code->field[k];
      if (f->attr.kind != ATTR_bool || f->effect != EFFECT_FREE) continue;
      *out = f;
      return &template_table[i];
    }
  return NULL;
}

static const char *schedule(Arena *a, const Template *t, const ScheduleField *f, int64_t first,
                            bool on) {
  void *fields = arena_alloc(a, MAX(t->code->bytes, 1));
  for (int i = 0; i < t->code->nfields; i++)
    schedule_put_value(&t->code->field[i], fields, t->code->field[i].lo);
  if (t->code->field[0].attr.kind == ATTR_i64)
    schedule_put_value(&t->code->field[0], fields, first);
  schedule_put_value(f, fields, on);
  return schedule_text(a, (Schedule){t, fields});
}

// Half of the tasks on each of two machines; the flag makes a task `gain(i)` times as fast.
static void make(Made *m, bool backwards, double (*gain)(int64_t i)) {
  const ScheduleField *f = NULL;
  const Template *t = flagged(&f);
  Arena *a = &m->a;
  arena_init(a);
  m->r = (Records){
      .nruns = 2, .run = arena_array(a, RunRecord, 2), .log = arena_array(a, TrialLog, 2)};
  for (int i = 0; i < 2; i++) {
    m->r.run[i].machine = i ? "0123456789abcdef vector=32" : "0123456789abcdef vector=64";
    m->r.log[i].arena = a;
  }
  for (int64_t k = 0; k < TASKS; k++) {
    int64_t i = backwards ? TASKS - 1 - k : k;
    const char *text = str_printf(a, "task %lld", (long long)i);
    Trial x = {.phase = TRIAL_CONFIRM,
               .key = workload_key(str_of(text), a),
               .dflt = schedule(a, t, f, t->code->field[0].lo, false),
               .schedule = schedule(a, t, f, t->code->field[0].lo, true),
               .n = 8};
    for (int s = 0; s < x.n; s++) {
      x.anchor_ns[s] = 100000;
      x.ns[s] = (int64_t)(100000 / gain(i));
    }
    trial_log_add(&m->r.log[i % 2], &x);
  }
}

static double all_gain(int64_t i) { return 1.08 + 0.001 * (double)(i % 5); }
static double none_gains(int64_t i) { return i % 2 ? 1.001 : 0.999; }
static double one_loses(int64_t i) { return i % 7 ? 1.1 : 0.8; }

static const char *trained(Made *m, Training *t) {
  StrBuf b;
  train(&m->r, &m->a, t);
  strbuf_init(&b, &m->a);
  train_print(t, &b);
  return strbuf_text(&b);
}

TEST(train_finds_what_gains_everywhere) {
  Made m, n;
  Training t, again;
  make(&m, false, all_gain);
  const char *text = trained(&m, &t);
  EXPECT_INT_EQ(t.tasks, TASKS);
  EXPECT_INT_EQ(t.nrules, 1);
  EXPECT_CONTAINS(text, "RESIDUAL(\"");
  EXPECT(t.ntemplates == 1 && t.of[0].held_out.affected == TASKS && t.of[0].held_out.gain > 1.05);
  REQUIRE(t.nmachines == 2);
  for (int i = 0; i < 2; i++) {
    EXPECT(t.machine[i].score.affected == TASKS / 2 && t.machine[i].score.gain > 1.05);
    EXPECT(t.machine[i].score.recovered > 0.99);
  }
  make(&n, true, all_gain);
  EXPECT_STR_EQ(trained(&n, &again), text);  // whatever the order
  arena_deinit(&n.a);
  arena_deinit(&m.a);
}

TEST(train_leaves_out_what_does_not_gain) {
  double (*const kinds[])(int64_t) = {none_gains, one_loses};
  for (int i = 0; i < ARRAY_LEN(kinds); i++) {
    Made m;
    Training t;
    make(&m, false, kinds[i]);
    const char *text = trained(&m, &t);
    EXPECT_INT_EQ(t.nrules, 0);
    EXPECT(!strstr(text, "RESIDUAL(\""));
    arena_deinit(&m.a);
  }
}

// What one machine says need not hold for others.
TEST(train_needs_two_machines) {
  Made m;
  Training t;
  make(&m, false, all_gain);
  m.r.run[1].machine = m.r.run[0].machine;
  trained(&m, &t);
  EXPECT(t.tasks == TASKS && t.nmachines == 1);
  EXPECT_INT_EQ(t.nrules, 0);
  arena_deinit(&m.a);
}

static double loses_on_odd(int64_t i) { return i % 2 ? 0.9 : 1.1; }  // odd tasks: the other machine

TEST(train_leaves_out_what_loses_on_another_machine) {
  Made m;
  Training t;
  make(&m, false, loses_on_odd);
  trained(&m, &t);
  EXPECT_INT_EQ(t.nrules, 0);
  arena_deinit(&m.a);
}

TEST(train_takes_empty_records) {
  Arena a;
  Records r = {0};
  Training t;
  arena_init(&a);
  train(&r, &a, &t);
  EXPECT(!t.tasks && !t.nrules && !t.nmachines);
  arena_deinit(&a);
}
