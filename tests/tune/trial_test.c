// trial_test.c -- what follows from measurements: gains, winners, and what the model reverts.
#include "lower/tuned.h"
#include "lower/workload.h"
#include "test.h"
#include "tune/trial.h"

static const char one[] = "11111111111111111111111111111111";
static const char two[] = "22222222222222222222222222222222";

// `n` pairs in which the default takes 1000 and the schedule these times, one after another.
static Trial trial(const char *key, const char *schedule, int n, const int64_t *ns) {
  Trial t = {
      .phase = TRIAL_CONFIRM, .key = key, .schedule = schedule, .dflt = "gemm rows=1", .n = n};
  for (int i = 0; i < n; i++) t.ns[i] = ns[i], t.anchor_ns[i] = 1000;
  return t;
}

static TunedSchedules decide(TrialLog *l, Arena *a) {
  TunedSchedules s;
  tune_decide(l, "0123456789abcdef vector=64", false, a, &s);
  tuned_print(&s, a);
  return s;
}

TEST(trial_gain_is_the_median_of_pairs) {
  Trial t = trial(one, "gemm rows=2", 5, (int64_t[]){500, 400, 1, 100000, 800});
  EXPECT(trial_gain(&t) > 1.99 && trial_gain(&t) < 2.01);
  EXPECT(trial_sure_gain(&t) > 1.24 && trial_sure_gain(&t) < 1.26);
  t.n = 0;
  EXPECT(trial_gain(&t) == 0);
}

TEST(trial_wins_only_beyond_the_noise) {
  Trial sure = trial(one, "a", 4, (int64_t[]){900, 900, 900, 900});
  Trial wide = trial(one, "a", 4, (int64_t[]){1100, 1100, 900, 800});
  Trial tiny = trial(one, "a", 4, (int64_t[]){995, 995, 995, 995});
  EXPECT(trial_wins(&sure) && !trial_wins(&wide) && !trial_wins(&tiny));
  sure.status = TRIAL_WRONG;
  EXPECT(!trial_wins(&sure));
  sure.status = TRIAL_OK;
  sure.phase = TRIAL_RACE;
  EXPECT(!trial_wins(&sure));
}

TEST(trial_decision_takes_the_best_and_reverts) {
  Arena a;
  arena_init(&a);
  TrialLog l = {.arena = &a};
  Trial slow = trial(one, "gemm rows=2", 3, (int64_t[]){800, 800, 800});
  Trial fast = trial(one, "gemm rows=4", 3, (int64_t[]){500, 500, 500});
  Trial even = trial(one, "gemm rows=8", 3, (int64_t[]){498, 498, 498});  // a tie: the first stays
  Trial other = trial(two, "gemm rows=2", 3, (int64_t[]){700, 700, 700});
  Trial lost = trial("33333333333333333333333333333333", "gemm rows=2", 1, (int64_t[]){1200});
  trial_log_add(&l, &slow);
  trial_log_add(&l, &fast);
  trial_log_add(&l, &even);
  trial_log_add(&l, &other);
  trial_log_add(&l, &lost);
  TunedSchedules s = decide(&l, &a);
  EXPECT_INT_EQ(s.n, 2);
  EXPECT_STR_EQ(tuned_find(&s, one)->schedule, "gemm rows=4");
  Trial model = {.phase = TRIAL_MODEL, .key = one, .schedule = "", .dflt = ""};
  trial_log_add(&l, &model);
  s = decide(&l, &a);
  EXPECT(s.n == 1 && tuned_find(&s, two) && !tuned_find(&s, one));
  model.key = "";  // the last one counts
  trial_log_add(&l, &model);
  EXPECT_INT_EQ(decide(&l, &a).n, 2);
  arena_deinit(&a);
}

// Where energy confirms, times do not: what is faster and takes more is left out.
TEST(trial_decision_by_energy_ignores_times) {
  for (int phase = TRIAL_ENERGY; phase <= TRIAL_EDP; phase++) {
    Arena a;
    arena_init(&a);
    TrialLog l = {.arena = &a};
    Trial fast = trial(one, "gemm rows=4", 3, (int64_t[]){500, 500, 500});
    Trial hot = trial(one, "gemm rows=4", 3, (int64_t[]){1100, 1100, 1100});
    Trial cool = trial(one, "gemm rows=2", 3, (int64_t[]){800, 800, 800});
    trial_log_add(&l, &fast);
    hot.phase = cool.phase = (uint8_t)phase;
    trial_log_add(&l, &hot);
    EXPECT_INT_EQ(decide(&l, &a).n, 0);
    trial_log_add(&l, &cool);
    TunedSchedules s = decide(&l, &a);
    EXPECT_INT_EQ(s.n, 1);
    EXPECT_STR_EQ(tuned_find(&s, one)->schedule, "gemm rows=2");
    EXPECT(trial_is_time(&fast) && !trial_is_time(&cool));
    arena_deinit(&a);
  }
}
