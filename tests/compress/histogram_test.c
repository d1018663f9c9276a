// histogram_test.c -- counts that depend on the values alone.
#include "compress/histogram.h"

#include "test.h"

#include <math.h>

static uint64_t rng = 1;

static float draw(void) {
  rng = hash_u64(rng + 1);
  double u = (double)(rng >> 11) * 0x1p-52 - 1;
  int e = (int)(hash_u64(rng) % 40) - 30;
  return rng % 7 ? (float)ldexp(u, e) : 0;
}

static void expect_same(const Histogram *a, const Histogram *b) {
  EXPECT_INT_EQ(a->exponent, b->exponent);
  EXPECT_INT_EQ(a->total, b->total);
  EXPECT_INT_EQ(a->zeros, b->zeros);
  EXPECT(!memcmp(a->count, b->count, sizeof a->count));
  EXPECT(!histogram_wrong(a));
}

TEST(histogram_of_any_order_and_batch) {
  enum { N = 4000 };
  float x[N];
  for (int i = 0; i < N; i++) x[i] = draw();
  Histogram once, backwards, parts, sum;
  histogram_init(&once);
  histogram_init(&backwards);
  histogram_init(&sum);
  EXPECT(histogram_add(&once, x, N));
  for (int i = N; i-- > 0;) EXPECT(histogram_add(&backwards, &x[i], 1));
  for (int i = 0; i < N; i += 77) {
    histogram_init(&parts);
    EXPECT(histogram_add(&parts, x + i, MIN(77, N - i)));
    histogram_merge(&sum, &parts);
  }
  expect_same(&once, &backwards);
  expect_same(&once, &sum);
}

TEST(histogram_keeps_signs_of_the_smallest) {
  float x[] = {-1e-38F, 1e-38F, 1000, -0.0F};
  Histogram h;
  histogram_init(&h);
  EXPECT(histogram_add(&h, x, 4));
  EXPECT_INT_EQ(h.count[HISTOGRAM_HALF - 1], 1);
  EXPECT_INT_EQ(h.count[HISTOGRAM_HALF], 1);
  EXPECT_INT_EQ(h.zeros, 1);
}

// Ends are exact however large the array is; the counts are shares that its parts have, too.
TEST(histogram_of_a_large_array) {
  enum { N = 10 * HISTOGRAM_COUNTED + 7 };
  static float x[N];
  for (int i = 0; i < N; i++) x[i] = (float)(hash_u64((uint64_t)i) >> 40) * 0x1p-24F;  // 0 to 1
  x[N - 1] = 3, x[N / 2] = -2;
  Histogram h;
  histogram_init(&h);
  EXPECT(histogram_add(&h, x, N));
  EXPECT_INT_EQ(h.total, HISTOGRAM_COUNTED);
  EXPECT(h.min == -2 && h.max == 3 && !histogram_wrong(&h));
  int64_t low = 0;
  for (int k = 0; k < HISTOGRAM_BINS; k++)
    if ((k - HISTOGRAM_HALF + 1) * histogram_width(&h) <= 0.5) low += h.count[k];
  EXPECT(low > HISTOGRAM_COUNTED * 0.48 && low < HISTOGRAM_COUNTED * 0.52);
  x[N - 2] = NAN;
  EXPECT(!histogram_add(&h, x, N));
}

TEST(histogram_refuses_what_is_not_finite) {
  float x[] = {1, NAN, 2}, y[] = {1, INFINITY};
  Histogram h;
  histogram_init(&h);
  EXPECT(!histogram_add(&h, x, 3));
  EXPECT(!histogram_add(&h, y, 2));
  EXPECT_INT_EQ(h.total, 0);
}

TEST(histogram_of_the_largest_floats) {
  float x[] = {3.4e38F, -3.4e38F, 1};
  Histogram h;
  histogram_init(&h);
  EXPECT(histogram_add(&h, x, 3));
  EXPECT(!histogram_wrong(&h));
}

TEST(histogram_wrong_finds_damage) {
  float x[] = {1, -2, 0, 0.5F};
  Histogram h;
  histogram_init(&h);
  EXPECT(histogram_add(&h, x, 4));
  Histogram bad = h;
  bad.count[3]++;
  EXPECT(histogram_wrong(&bad));
  bad = h;
  bad.exponent++;
  EXPECT(histogram_wrong(&bad));
  bad = h;
  bad.min = NAN;
  EXPECT(histogram_wrong(&bad));
  bad = h;
  bad.count[5] = -1, bad.count[6]++;
  EXPECT(histogram_wrong(&bad));
}
