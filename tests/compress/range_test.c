// range_test.c -- scales from histograms.
#include "compress/range.h"

#include "test.h"

#include <math.h>

// A bell of n values with one far outside.
static void bell(Histogram *h, int n, float outlier) {
  uint64_t r = 7;
  histogram_init(h);
  for (int i = 0; i < n; i++) {
    double sum = -6;
    for (int k = 0; k < 12; k++) sum += (double)((r = hash_u64(r + 1)) >> 11) * 0x1p-53;
    EXPECT(histogram_add(h, &(float){(float)sum}, 1));
  }
  EXPECT(histogram_add(h, &outlier, 1));
}

TEST(range_params_represent_zero) {
  static const double ends[][2] = {{-1, 3},        {0, 6}, {-5, 0},   {2, 3},
                                   {-1e-30, 1e30}, {0, 0}, {0, 1e-44}};
  for (int i = 0; i < ARRAY_LEN(ends); i++) {
    QuantParams p = range_params(ends[i][0], ends[i][1]);
    EXPECT(p.zero >= 0 && p.zero <= 255);
    EXPECT(isnormal(p.scale) && p.scale > 0);
  }
  EXPECT_INT_EQ(range_params(0, 6).zero, 0);
  EXPECT_INT_EQ(range_params(-5, 0).zero, 255);
}

TEST(range_methods_order) {
  Histogram h;
  double lo, hi, error[RANGE_METHODS];
  bell(&h, 20000, 40);
  for (int m = 0; m < RANGE_METHODS; m++) {
    range_of(&h, (RangeMethod)m, &lo, &hi);
    EXPECT(lo <= 0 && hi >= 0 && lo >= h.min && hi <= h.max);
    error[m] = range_error(&h, range_params(lo, hi));
  }
  range_of(&h, RANGE_MINMAX, &lo, &hi);
  EXPECT(hi == 40);
  range_of(&h, RANGE_PERCENTILE, &lo, &hi);
  EXPECT(hi < 6);
  // The outlier alone weighs 1600 / 20001: clipping it does not pay off in squares, and with 1 bit
  // more of it it would.
  EXPECT(error[RANGE_MSE] <= error[RANGE_MINMAX] && error[RANGE_MSE] <= error[RANGE_PERCENTILE]);
}

TEST(range_error_is_that_of_rounding) {
  enum { N = 5000 };
  Histogram h;
  double sum = 0;
  uint64_t r = 3;
  histogram_init(&h);
  QuantParams p = range_params(-1, 1);
  for (int i = 0; i < N; i++) {
    double u = (double)((r = hash_u64(r + 1)) >> 11) * 0x1p-52 - 1;
    float x = (float)(1.2 * u);
    EXPECT(histogram_add(&h, &x, 1));
    double q = fmin(fmax(nearbyint((double)x / (double)p.scale) + p.zero, 0), 255);
    double e = (double)x - (double)p.scale * (q - p.zero);
    sum += e * e;
  }
  EXPECT_NEAR(range_error(&h, p) / (sum / N), 1, 0.05);
}
