// quant_test.c -- the fixed-point arithmetic of TensorFlow Lite's kernels: known values, the
// functions against real ones, and the graph forms against those on numbers.
#include "test.h"
#include "frontends/tflite/quant.h"
#include "ir/opinfo.h"

#include <math.h>

TEST(quant_multipliers) {
  static const struct {
    double real;
    QMul want;
  } cases[] = {{0, {0, 0}},
               {0.0003, {1319413953, -11}},
               {0.5, {1073741824, 0}},
               {0.9999999999, {1073741824, 1}},  // rounds up to 1
               {1.7, {1825361101, 1}},
               {123.4, {2070308454, 7}},
               {-0.17, {-1460288881, -2}},
               {1e-11, {0, 0}},  // below what shifts reach
               {INFINITY, {0, 0}}};
  for (int i = 0; i < (int)ARRAY_LEN(cases); i++) {
    QMul m = quant_multiplier(cases[i].real);
    EXPECT_INT_EQ(m.m, cases[i].want.m);
    EXPECT_INT_EQ(m.shift, cases[i].want.shift);
  }
}

TEST(quant_rounding) {
  // The shift rounds half way away from zero, the product half way up.
  EXPECT_INT_EQ(quant_shift(5, 1), 3);
  EXPECT_INT_EQ(quant_shift(-5, 1), -3);
  EXPECT_INT_EQ(quant_shift(-6, 2), -2);
  EXPECT_INT_EQ(quant_shift(7, 0), 7);
  EXPECT_INT_EQ(quant_high_mul(INT32_MIN, INT32_MIN), INT32_MAX);
  EXPECT_INT_EQ(quant_high_mul(1 << 30, 1), 1);
  EXPECT_INT_EQ(quant_high_mul(-(1 << 30), 1), 0);
  EXPECT_INT_EQ(quant_mul32(1000, quant_multiplier(0.3)), 300);
  EXPECT_INT_EQ(quant_mul32(-1000, quant_multiplier(1.5)), -1500);
  // Twice rounded: 2.5 - 2^-31 becomes 2.5 first.
  EXPECT_INT_EQ(quant_mul32(5, (QMul){1073741823, 0}), 2);
  EXPECT_INT_EQ(quant_mul64((int64_t)1 << 40, quant_multiplier(ldexp(0.75, -20))), 786432);
}

TEST(quant_functions) {
  for (int i = -200; i <= 200; i++) {
    double x = i / 32.0;
    int64_t q4 = (int64_t)(x * (1 << 27));
    EXPECT(fabs((double)quant_logistic_q4(q4) / 2147483648.0 - 1 / (1 + exp(-x))) < 2e-7);
    EXPECT(fabs((double)quant_tanh_q4(q4) / 2147483648.0 - tanh(x)) < 4e-7);
    int64_t q12 = (int64_t)(x * 4096);
    EXPECT(fabs((double)quant_logistic_16(q12, 3, 0) / 32768 - 1 / (1 + exp(-x))) < 6e-5);
    EXPECT(fabs((double)quant_tanh_16(q12, 3, 0) / 32768 - tanh(x)) < 1.2e-4);
    if (x > 0) continue;
    int64_t q5 = (int64_t)(x * (1 << 26));
    // The fifth term of the series is left out: (1/8)^5 / 120.
    EXPECT(fabs((double)quant_exp_negative(q5, 5) / 2147483648.0 - exp(x)) < 3e-7);
  }
  EXPECT_INT_EQ(quant_exp_negative(0, 5), INT32_MAX);
  EXPECT_INT_EQ(quant_logistic_q4(0), 1 << 30);
}

static double square(double x, const void *arg) {
  (void)arg;
  return x * x;
}
TEST(quant_lut_of_16_bits) {
  int16_t lut[513];
  quant_lut_16(1.0f / 32768, 0, 1.0f / 32768, 0, square, NULL, lut);
  for (int64_t q = INT16_MIN; q <= INT16_MAX; q += 7) {
    double x = (double)q / 32768;
    EXPECT(fabs((double)quant_lut_16_at(lut, q) / 32768 - x * x) < 1e-4);
  }
}

// ---- in the graph ----

enum { N_SUMS = 8 };
static const int64_t sums[N_SUMS] = {0, 1, -1, 77777, -77777, 123456789, -123456789, 2000000000};

static const Value *evaluate(Graph *g, Node *n) {
  if (graph_status(g)) return NULL;
  return node_known(g, n);
}

TEST(quant_graph_forms) {
  Diag d;
  diag_init(&d);
  Graph *g;
  REQUIRE(!graph_create(&d, &g));
  QMul m[N_SUMS];
  static const double real[N_SUMS] = {0.5, 0.0003, 1.7, 0.9, 3e-5, 0.017, 0.25, 0.999};
  for (int i = 0; i < N_SUMS; i++) m[i] = quant_multiplier(real[i]);
  Node *x = node_i64s(g, N_SUMS, sums);
  const Value *each = evaluate(g, quant_scale32(g, x, m, N_SUMS));
  const Value *one = evaluate(g, quant_scale32(g, x, m + 1, 1));
  const Value *wide = evaluate(g, quant_scale64(g, x, m, N_SUMS));
  const Value *once = evaluate(g, quant_scale_once(g, x, m, N_SUMS));
  const Value *low = evaluate(g, quant_narrow(g, x, -100, 100, DT_I8));
  if (each && one && wide && once && low)
    for (int i = 0; i < N_SUMS; i++) {
      int64_t factor = m[i].m, by = 31 - m[i].shift;
      EXPECT_INT_EQ(val_i64(each, i), quant_mul32(sums[i], m[i]));
      EXPECT_INT_EQ(val_i64(one, i), quant_mul32(sums[i], m[1]));
      EXPECT_INT_EQ(val_i64(wide, i), quant_mul64(sums[i], m[i]));
      EXPECT_INT_EQ(val_i64(once, i), (sums[i] * factor + ((int64_t)1 << (by - 1))) >> by);
      EXPECT_INT_EQ(val_i64(low, i), MIN(MAX(sums[i], -100), 100));
    }
  else
    EXPECT(!"evaluated");
  graph_free(g);
}

TEST(quant_graph_reciprocal) {
  Diag d;
  diag_init(&d);
  Graph *g;
  REQUIRE(!graph_create(&d, &g));
  static const int64_t v[] = {1, 2, 3, 255, 65536, 1 << 30, INT32_MAX};
  static const int64_t zeros[] = {31, 30, 30, 24, 15, 1, 1};
  static const int64_t a[] = {0, 1 << 20, 1 << 29, 1 << 30, INT32_MAX - 5, 12345678, 987654321};
  const Value *z = evaluate(g, quant_leading_zeros(g, node_i64s(g, 7, v)));
  const Value *r = evaluate(g, quant_reciprocal(g, node_i64s(g, 7, a)));
  for (int i = 0; i < 7 && z && r; i++) {
    double want = 1 / (1 + (double)a[i] / 2147483648.0);
    EXPECT_INT_EQ(val_i64(z, i), zeros[i]);
    EXPECT(fabs((double)val_i64(r, i) / 2147483648.0 - want) < 1e-8);
  }
  EXPECT(z && r);
  graph_free(g);
}
