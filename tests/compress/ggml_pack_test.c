// ggml_pack_test.c -- blocks, packed and read again by ggml's own meaning.
#include "compress/ggml_pack.h"

#include "test.h"

#include <math.h>

static const char *const names[] = {"q8_0", "q6_k", "q5_k", "q4_k", "q5_1", "q5_0", "q4_1", "q4_0"};
enum { N = 4 * GGML_BLOCK };

static uint64_t seed = 1;
static double uniform(void) {
  seed = hash_u64(seed + 1);
  return (double)(seed >> 11) * 0x1p-53;
}
static double normal(void) {
  return sqrt(-2 * log(uniform() + 1e-18)) * cos(6.283185307 * uniform());
}

static void read_back(int code, const uint8_t *bytes, float *out) {
  const GgmlType *t = &ggml_type[code];
  for (int64_t i = 0; i < N / t->block; i++)
    ggml_unpack(t, bytes + i * t->bytes, out + i * t->block);
}

// Relative error in root mean square.
static double error_of(const char *name, const float *x) {
  static uint8_t bytes[N * 2];
  static float y[N];
  double off = 0, all = 0;
  int code = ggml_pack_find(str_of(name));
  if (code < 0) return 1;
  ggml_pack_row(code, x, N, bytes);
  read_back(code, bytes, y);
  for (int i = 0; i < N; i++) {
    off += pow((double)(y[i] - x[i]), 2);
    all += pow((double)x[i], 2);
  }
  return all > 0 ? sqrt(off / all) : sqrt(off);
}

// Bounds that the reference implementation's roundings have on normal values, and a little.
TEST(ggml_pack_keeps_normal_values) {
  static const double most[] = {0.006, 0.019, 0.038, 0.076, 0.040, 0.047, 0.080, 0.092};
  static float x[N];
  for (int i = 0; i < N; i++) x[i] = (float)normal();
  for (int k = 0; k < ARRAY_LEN(names); k++) {
    double e = error_of(names[k], x);
    if (!(e > most[k] / 4 && e < most[k])) FAIL("%s: %g", names[k], e);
  }
}

// Scales from 1e-5 to 1e3 between rows; values of one sign; parts that are 0.
TEST(ggml_pack_of_other_values) {
  static float x[N];
  for (int way = 0; way < 4; way++) {
    for (int i = 0; i < N; i++) {
      x[i] = (float)normal();
      if (way == 0) x[i] *= (float)pow(10, i / GGML_BLOCK * 2.5 - 5);
      if (way == 1) x[i] = fabsf(x[i]) + 1;
      if (way == 2) x[i] = -fabsf(x[i]) - 1;
      if (way == 3) x[i] = i / 32 % 2 ? x[i] : 0;
    }
    for (int k = 0; k < ARRAY_LEN(names); k++) {
      double e = error_of(names[k], x);
      if (!(e < 0.1)) FAIL("%s, way %d: %g", names[k], way, e);
    }
  }
}

TEST(ggml_pack_of_zeros_and_extremes) {
  static float x[N];
  for (int k = 0; k < ARRAY_LEN(names); k++) {
    for (int i = 0; i < N; i++) x[i] = 0;
    EXPECT(error_of(names[k], x) == 0);
    for (int i = 0; i < N; i++) x[i] = i % 2 ? 3e38F : -3e38F;  // beyond what scales in f16 can say
    EXPECT(isfinite(error_of(names[k], x)));
    for (int i = 0; i < N; i++) x[i] = (float)ldexp(1, -140);
    EXPECT(isfinite(error_of(names[k], x)));
  }
}

TEST(ggml_pack_types_for_rows) {
  int q4_k = ggml_pack_find(STR("q4_k")), q5_0 = ggml_pack_find(STR("q5_0"));
  EXPECT_INT_EQ(ggml_pack_for(q4_k, 512), q4_k);
  EXPECT_INT_EQ(ggml_pack_for(q4_k, 288), q5_0);
  EXPECT_INT_EQ(ggml_pack_for(q4_k, 40), -1);
  EXPECT_INT_EQ(ggml_pack_for(q5_0, 0), -1);
  EXPECT_INT_EQ(ggml_pack_find(STR("q9_0")), -1);
}
