// metrics_test.c -- limits, bounds and metrics.
#include "compress/metrics.h"

#include "compress/bound.h"

#include "test.h"

#include <math.h>

TEST(metrics_budgets) {
  static const struct {
    const char *text;
    bool good;
    double limit;
  } rows[] = {{"agreement>=99%", true, 0.99},
              {"agreement>=0.995", true, 0.995},
              {"kl<=0.01", true, 0.01},
              {"accuracy>=-0.5%", true, -0.005},
              {"rms<=2%", true, 0.02},
              {"agreement<=99%", false, 0},
              {"kl>=1", false, 0},
              {"speed>=2", false, 0},
              {"agreement>=100%", false, 0},
              {"agreement>=", false, 0},
              {"agreement>=%", false, 0},
              {"agreement", false, 0},
              {"agreement>=9x", false, 0},
              {"", false, 0}};
  for (int i = 0; i < ARRAY_LEN(rows); i++) {
    Diag d;
    Budget b;
    diag_init(&d);
    tenon_status s = budget_parse(str_of(rows[i].text), &d, &b);
    EXPECT_INT_EQ(s == TENON_OK, rows[i].good);
    if (!s) EXPECT_NEAR(b.limit, rows[i].limit, 1e-12);
  }
}

TEST(metrics_samples_needed) {
  EXPECT_INT_EQ(budget_samples(&(Budget){METRIC_AGREEMENT, 0.99}, 0.95), 299);
  EXPECT_INT_EQ(budget_samples(&(Budget){METRIC_AGREEMENT, 0.995}, 0.95), 598);
  EXPECT(budget_samples(&(Budget){METRIC_ACCURACY, 0.01}, 0.95) == INT64_MAX);
  EXPECT_INT_EQ(budget_samples(&(Budget){METRIC_KL, 0.01}, 0.95), 1);
}

TEST(metrics_clopper_pearson) {
  // The binomial tail, summed exactly in Python.
  EXPECT_NEAR(bound_rate_least(299, 299, 0.05), 0.9900308, 1e-6);
  EXPECT_NEAR(bound_rate_least(95, 100, 0.05), 0.8977466, 1e-6);
  EXPECT_NEAR(bound_rate_least(1, 10, 0.05), 0.0051162, 1e-6);
  EXPECT_F64_EQ(bound_rate_least(0, 10, 0.05), 0);
}

// The share of draws from a skewed distribution whose bound is below its mean.
TEST(metrics_bound_of_a_mean_holds) {
  enum { SETS = 200, N = 100 };
  double v[N];
  int below = 0;
  uint64_t r = 11;
  Arena a;
  arena_init(&a);
  for (int set = 0; set < SETS; set++) {
    for (int i = 0; i < N; i++)
      v[i] = -log(1 - (double)((r = hash_u64(r + 1)) >> 11) * 0x1p-53);  // mean 1
    below += bound_mean(v, N, 0.05, true, (uint64_t)set, &a) < 1;
  }
  EXPECT(below <= SETS / 10);
  EXPECT(below > 0);
  arena_deinit(&a);
}

TEST(metrics_by_sample) {
  float w[] = {1, 5, 2}, q[] = {1, 4.5F, 2}, other[] = {9, 5, 2};
  Value want = {.kind = VK_TENSOR, .dtype = DT_F32, .rank = 2, .dims = {1, 3}, .n = 3, .data = w};
  Value got = want, wrong = want;
  got.data = q;
  wrong.data = other;
  Value *a[] = {&want}, *b[] = {&got}, *c[] = {&wrong};
  EXPECT_F64_EQ(metric_sample(METRIC_AGREEMENT, 0, 1, a, b, -1), 1);
  EXPECT_F64_EQ(metric_sample(METRIC_AGREEMENT, 0, 1, a, c, -1), 0);
  EXPECT_F64_EQ(metric_sample(METRIC_ACCURACY, 0, 1, a, c, 1), -1);
  EXPECT_F64_EQ(metric_sample(METRIC_ACCURACY, 0, 1, c, a, 1), 1);
  EXPECT_NEAR(metric_sample(METRIC_RMS, 0, 1, a, b, -1), 0.5 / sqrt(30), 1e-9);
  EXPECT_F64_EQ(metric_sample(METRIC_KL, 0, 1, a, a, -1), 0);
  EXPECT(metric_sample(METRIC_KL, 0, 1, a, c, -1) > 1);
  EXPECT_NEAR(metric_sample(METRIC_COSINE, 0, 1, a, a, -1), 1, 1e-12);
}

// Margins of a bell around 2, and a disturbance a tenth as wide: the rate of flips is told although
// none was seen, and is the one that many more samples show.
TEST(metric_flips_tells_small_rates) {
  enum { FEW = 400, MANY = 200000 };
  Arena a;
  uint64_t r = 11;
  int64_t flipped = 0;
  arena_init(&a);
  double *want = arena_array(&a, double, MANY), *got = arena_array(&a, double, MANY);
  for (int i = 0; i < MANY; i++) {
    double sum[2] = {-6, -6};
    for (int k = 0; k < 24; k++) sum[k & 1] += (double)((r = hash_u64(r + 1)) >> 11) * 0x1p-53;
    want[i] = fabs(1.5 + sum[0]);
    got[i] = want[i] + 0.1 * sum[1];
    flipped += got[i] < 0;
  }
  double rate = (double)flipped / MANY, told = 0;
  for (int i = 0; i < 20; i++) told += metric_flips(want + i * FEW, got + i * FEW, FEW, &a) / 20;
  EXPECT_NEAR(told, rate, 0.3 * rate);
  arena_deinit(&a);
}

TEST(metric_chance_falls_with_faults) {
  Budget rate = {METRIC_AGREEMENT, 0.99}, mean = {METRIC_KL, 0.01};
  double none = metric_chance(&rate, 1, 0.9901, 299, 0, 0.95);
  EXPECT(none == 1);
  EXPECT_NEAR(metric_chance(&rate, 1, 0.9901, 299, 0.001, 0.95), pow(0.999, 299), 1e-9);
  EXPECT(metric_chance(&rate, 0.998, 0.995, 2000, 0.001, 0.95) > 0.99);
  EXPECT(metric_chance(&rate, 1, 0.98, 150, 0, 0.95) == 0);
  EXPECT_NEAR(metric_chance(&mean, 0.008, 0.01, 300, -1, 0.95), 0.5, 1e-9);
  EXPECT(metric_chance(&mean, 0.005, 0.007, 300, -1, 0.95) > 0.9);
}
