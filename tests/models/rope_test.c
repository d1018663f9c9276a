// rope_test.c -- angles of rotary positions of each scaling, beside its formula written out in
// double as its paper has it.
#include "models/arch.h"
#include "test.h"

#include <math.h>

enum { DIM = 64, CONTEXT = 4096 };
static const double theta = 50000;

static double plain(int i) { return pow(theta, -2.0 * i / DIM); }

static LlmRope fill(LlmRopeScaling r, int64_t length, Arena *a) {
  Diag d;
  LlmRope out = {0};
  diag_init(&d);
  if (llm_rope_fill(a, &r, DIM, CONTEXT, length, &d, &out)) FAIL("%s", d.text);
  return out;
}

static LlmRopeScaling scaling(LlmRopeType type, double factor) {
  LlmRopeScaling r;
  llm_rope_scaling_init(&r, theta);
  r.type = type;
  r.factor = factor;
  return r;
}

static void expect(const LlmRope *r, int i, double want) {
  if (!(fabs((double)r->inv_freq[i] / want - 1) < 1e-5))
    FAIL("%s: frequency %d is %g, not %g", r->about, i, (double)r->inv_freq[i], want);
}

TEST(llm_rope_plain_and_linear) {
  Arena a;
  arena_init(&a);
  LlmRope r = fill(scaling(ROPE_DEFAULT, 1), CONTEXT, &a),
          l = fill(scaling(ROPE_LINEAR, 4), CONTEXT, &a);
  for (int i = 0; i < DIM / 2; i++) {
    expect(&r, i, plain(i));
    expect(&l, i, plain(i) / 4);
  }
  EXPECT_F64_EQ(r.factor, 1);
  arena_deinit(&a);
}

TEST(llm_rope_dynamic) {
  Arena a;
  arena_init(&a);
  for (int times = 1; times <= 4; times *= 2) {
    LlmRope r = fill(scaling(ROPE_DYNAMIC, 2), times * CONTEXT, &a);
    double base = theta * pow(2.0 * times - 1, (double)DIM / (DIM - 2));
    for (int i = 0; i < DIM / 2; i++) expect(&r, i, pow(base, -2.0 * i / DIM));
  }
  arena_deinit(&a);
}

// Peng et al., "YaRN": dimensions that turn more than beta_fast times in the original context keep
// their frequency, those that turn less than beta_slow times are divided, with a ramp between.
TEST(llm_rope_yarn) {
  Arena a;
  arena_init(&a);
  LlmRopeScaling s = scaling(ROPE_YARN, 8);
  s.original = 1024;
  LlmRope r = fill(s, CONTEXT, &a);
  double at[2], turns[2] = {32, 1};
  for (int k = 0; k < 2; k++) at[k] = DIM * log(1024 / (turns[k] * 2 * M_PI)) / (2 * log(theta));
  double low = fmax(floor(at[0]), 0), high = fmin(ceil(at[1]), DIM - 1);
  for (int i = 0; i < DIM / 2; i++) {
    double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    expect(&r, i, plain(i) / 8 * ramp + plain(i) * (1 - ramp));
  }
  EXPECT_NEAR(r.factor, 0.1 * log(8) + 1, 1e-12);
  arena_deinit(&a);
}

TEST(llm_rope_llama3) {
  Arena a;
  arena_init(&a);
  LlmRopeScaling s = scaling(ROPE_LLAMA3, 8);
  s.original = 2048;
  LlmRope r = fill(s, CONTEXT, &a);
  for (int i = 0; i < DIM / 2; i++) {
    double wave = 2 * M_PI / plain(i), want = plain(i);
    double smooth = (2048 / wave - 1) / (4 - 1);  // low_freq 1, high_freq 4
    if (wave > 2048)
      want /= 8;
    else if (wave >= 2048.0 / 4)
      want = (1 - smooth) * want / 8 + smooth * want;
    expect(&r, i, want);
  }
  arena_deinit(&a);
}

TEST(llm_rope_longrope) {
  Arena a;
  double long_by[DIM / 2], short_by[DIM / 2];
  arena_init(&a);
  for (int i = 0; i < DIM / 2; i++) long_by[i] = 2 + i, short_by[i] = 1 + 0.1 * i;
  LlmRopeScaling s = scaling(ROPE_LONGROPE, 4);
  s.original = 1024;
  s.nlong = s.nshort = DIM / 2;
  s.long_factor = long_by;
  s.short_factor = short_by;
  LlmRope far = fill(s, CONTEXT, &a), near = fill(s, 1024, &a);
  for (int i = 0; i < DIM / 2; i++) {
    expect(&far, i, plain(i) / long_by[i]);
    expect(&near, i, plain(i) / short_by[i]);
  }
  EXPECT_NEAR(far.factor, sqrt(1 + log(4) / log(1024)), 1e-12);
  arena_deinit(&a);
}
