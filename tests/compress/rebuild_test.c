// rebuild_test.c -- weights in 4-bit blocks: what they are worth, with and without H.
#include "compress/rebuild.h"

#include "compress/linear.h"

#include "test.h"

#include <math.h>

enum { ROWS = 21, DEPTH = 72, SAMPLES = 300, COMMON = 9 };

static double uniform(uint64_t *r) {
  *r = hash_u64(*r + 1);
  return (double)(*r >> 11) * 0x1p-53 - 0.5;
}

// Inputs that a few common causes make, so that columns of H belong together.  One is always 0.
static void make_h(double *h, uint64_t r, int dead) {
  double mix[COMMON][DEPTH], x[DEPTH], cause[COMMON];
  for (int k = 0; k < COMMON; k++)
    for (int c = 0; c < DEPTH; c++) mix[k][c] = uniform(&r);
  memset(h, 0, sizeof(double) * DEPTH * DEPTH);
  for (int s = 0; s < SAMPLES; s++) {
    for (int k = 0; k < COMMON; k++) cause[k] = uniform(&r);
    for (int c = 0; c < DEPTH; c++) {
      x[c] = 0.1 * uniform(&r);
      for (int k = 0; k < COMMON; k++) x[c] += cause[k] * mix[k][c];
      if (c == dead) x[c] = 0;
    }
    for (int a = 0; a < DEPTH; a++)
      for (int b = 0; b < DEPTH; b++) h[a * DEPTH + b] += x[a] * x[b];
  }
}

static double weight_of(const BlockWeights *w, int64_t row, int64_t c) {
  int64_t at = row * w->blocks + c / w->block, i = c % w->block;
  int level = w->packed[at * (w->block / 2) + i / 2] >> (i % 2 * 4) & 15;
  return (double)w->scale[at] * (level - (double)w->zero[at]);
}

static double error_of(const BlockWeights *b, const float *w, const double *h) {
  double sum = 0, d[DEPTH], mean = 0;
  for (int c = 0; c < DEPTH; c++) mean += h[c * DEPTH + c] / DEPTH;
  for (int row = 0; row < ROWS; row++) {
    for (int c = 0; c < DEPTH; c++) {
      bool dead = h[c * DEPTH + c] == 0;
      d[c] = (dead ? 0 : (double)w[row * DEPTH + c]) - weight_of(b, row, c);
    }
    for (int i = 0; i < DEPTH; i++)
      for (int k = 0; k < DEPTH; k++)
        sum += d[i] * d[k] * (h[i * DEPTH + k] + (i == k ? 0.01 * mean : 0));
  }
  return sum;
}

TEST(rebuild_with_h_beats_rounding) {
  Arena a, scratch;
  BlockWeights plain, with;
  static float w[ROWS * DEPTH];
  static double h[DEPTH * DEPTH];
  uint64_t r = 5;
  arena_init(&a);
  arena_init(&scratch);
  for (int i = 0; i < ROWS * DEPTH; i++) w[i] = (float)uniform(&r);
  for (int dead = -1; dead < 2; dead++)
    for (int64_t block = 16; block <= 64; block *= 2) {
      make_h(h, 11, dead);
      BlockOptions o = {.block = block};
      rebuild_blocks(w, ROWS, DEPTH, &o, &a, &scratch, &plain);
      o.h = h;
      rebuild_blocks(w, ROWS, DEPTH, &o, &a, &scratch, &with);
      double told = with.error, is = error_of(&with, w, h);
      EXPECT(fabs(told - is) <= 1e-6 * is);
      EXPECT(is < 0.5 * error_of(&plain, w, h));
      EXPECT(with.error < 0.5 * with.plain);
      if (dead >= 0) EXPECT(weight_of(&with, 3, dead) == 0);
    }
  arena_deinit(&scratch);
  arena_deinit(&a);
}

// Numbers of a grid stay what they are, and nothing is added to the mean.
TEST(rebuild_keeps_what_fits) {
  Arena a, scratch;
  BlockWeights out;
  static float w[ROWS * DEPTH];
  static double h[DEPTH * DEPTH];
  double mean[DEPTH];
  uint64_t r = 9;
  arena_init(&a);
  arena_init(&scratch);
  for (int i = 0; i < ROWS * DEPTH; i++) {
    int at = i % DEPTH % 32, level = at == 0 ? 0 : at == 1 ? 15 : (int)(8 + 12 * uniform(&r));
    w[i] = 0.25F * (float)(level - 6);
  }
  make_h(h, 3, -1);
  for (int c = 0; c < DEPTH; c++) mean[c] = c;
  for (int with_h = 0; with_h < 2; with_h++) {
    BlockOptions o = {.block = 32, .h = with_h ? h : NULL, .mean = mean};
    rebuild_blocks(w, ROWS, DEPTH, &o, &a, &scratch, &out);
    for (int row = 0; row < ROWS; row++) {
      for (int c = 0; c < DEPTH; c++)
        EXPECT(fabs(weight_of(&out, row, c) - (double)w[row * DEPTH + c]) < 1e-6);
      EXPECT(fabs(out.shift[row]) < 1e-3);
    }
  }
  arena_deinit(&scratch);
  arena_deinit(&a);
}

// Zeros, one column, weights of all magnitudes: scales are normal numbers, zeros integers.
TEST(rebuild_edges) {
  static const float values[][4] = {{0, 0, 0, 0},
                                    {1e-40F, 0, -1e-40F, 0},
                                    {3e38F, -3e38F, 1, 0},
                                    {5, 5, 5, 5},
                                    {-1e-20F, 1e20F, 0, 1}};
  Arena a;
  arena_init(&a);
  for (int i = 0; i < ARRAY_LEN(values); i++)
    for (int64_t depth = 1; depth <= 4; depth += 3) {
      double h[16] = {0};
      for (int k = 0; k < depth; k++) h[k * (depth + 1)] = i;
      BlockWeights out;
      BlockOptions o = {.block = 16, .h = i ? h : NULL};
      rebuild_blocks(values[i], 4 / depth, depth, &o, &a, &a, &out);
      for (int64_t b = 0; b < out.rows * out.blocks; b++) {
        EXPECT(isnormal(out.scale[b]) && out.scale[b] > 0);
        EXPECT(out.zero[b] >= 0 && out.zero[b] <= 15 && out.zero[b] == (float)(int)out.zero[b]);
      }
    }
  arena_deinit(&a);
}

TEST(linear_cholesky_upper) {
  enum { N = 70 };
  static double m[N * N], u[N * N];
  uint64_t r = 1;
  for (int i = 0; i < N * N; i++) u[i] = uniform(&r);
  for (int i = 0; i < N; i++)
    for (int k = 0; k < N; k++) {
      m[i * N + k] = i == k ? 1 : 0;
      for (int s = 0; s < N; s++) m[i * N + k] += u[s * N + i] * u[s * N + k];
    }
  memcpy(u, m, sizeof m);
  REQUIRE(cholesky_upper(u, N));
  for (int i = 0; i < N; i++)
    for (int k = i; k < N; k++) {
      double sum = 0;
      for (int s = 0; s <= i; s++) sum += u[s * N + i] * u[s * N + k];
      EXPECT(fabs(sum - m[i * N + k]) < 1e-9);
    }
  m[5 * N + 5] = -1;
  EXPECT(!cholesky_upper(m, N));
}
