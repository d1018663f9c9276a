// sparsify_test.c -- dropping weights with H: the pattern, and what the weights that are left make
// good.
#include "compress/sparsify.h"
#include "test.h"

#include <math.h>

enum { ROWS = 40, DEPTH = 60, SAMPLES = 200, FACTORS = 20 };

typedef struct Layer {
  float w[ROWS * DEPTH];
  double h[DEPTH * DEPTH];
} Layer;

static double number(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (double)(*s >> 33) / (double)(1 << 30) - 1;
}

// Inputs of few factors and a little noise; input 7 is always 0.
static void make(Layer *l) {
  uint64_t s = 3;
  static double plane[FACTORS][DEPTH];
  memset(l, 0, sizeof *l);
  for (int i = 0; i < ROWS * DEPTH; i++) l->w[i] = (float)number(&s);
  for (int f = 0; f < FACTORS; f++)
    for (int c = 0; c < DEPTH; c++) plane[f][c] = number(&s);
  for (int r = 0; r < SAMPLES; r++) {
    double x[DEPTH] = {0};
    for (int f = 0; f < FACTORS; f++) {
      double by = number(&s);
      for (int c = 0; c < DEPTH; c++) x[c] += by * plane[f][c];
    }
    for (int c = 0; c < DEPTH; c++) x[c] = c == 7 ? 0 : x[c] + 0.05 * number(&s);
    for (int a = 0; a < DEPTH; a++)
      for (int b = 0; b < DEPTH; b++) l->h[a * DEPTH + b] += x[a] * x[b];
  }
}

// tr(D H D^T) by tr(W H W^T) of new weights.
static double error_of(const Layer *l, const float *v) {
  double error = 0, whole = 0;
  for (int r = 0; r < ROWS; r++)
    for (int a = 0; a < DEPTH; a++)
      for (int b = 0; b < DEPTH; b++) {
        const float *w = l->w + r * DEPTH, *n = v + r * DEPTH;
        error += (double)(w[a] - n[a]) * l->h[a * DEPTH + b] * (double)(w[b] - n[b]);
        whole += (double)w[a] * l->h[a * DEPTH + b] * (double)w[b];
      }
  return error / whole;
}

static double prune(const Layer *l, SparsePattern p, float *out) {
  Arena a;
  arena_init(&a);
  double told = sparsify(l->w, ROWS, DEPTH, &p, l->h, &a, out);
  arena_deinit(&a);
  return told;
}

TEST(sparsify_drops_runs_of_outputs) {
  static Layer l;
  static float v[ROWS * DEPTH];
  make(&l);
  for (int zeros = 50; zeros <= 75; zeros += 25) {
    double told = prune(&l, (SparsePattern){.width = 16, .run = 20, .zeros = zeros}, v);
    for (int first = 0; first < ROWS; first += 16) {
      int left = 0;
      for (int c = 0; c < DEPTH; c++) {
        int any = 0, rows = first + 16 < ROWS ? 16 : ROWS - first;
        for (int r = 0; r < rows; r++) any += v[(first + r) * DEPTH + c] != 0;
        EXPECT(any == 0 || any == rows);
        left += any > 0;
        if (c == 7) EXPECT_INT_EQ(any, 0);
      }
      EXPECT_INT_EQ(left, DEPTH * (100 - zeros) / 100);
    }
    EXPECT_NEAR(told, error_of(&l, v), 0.05);
    EXPECT(error_of(&l, v) < (zeros == 50 ? 0.002 : 0.3));
  }
}

TEST(sparsify_drops_two_of_four) {
  static Layer l;
  static float v[ROWS * DEPTH], plain[ROWS * DEPTH];
  make(&l);
  prune(&l, (SparsePattern){.width = 1, .run = 4, .zeros = 50}, v);
  for (int i = 0; i < ROWS * DEPTH; i += 4) {
    int left = 0;
    for (int k = 0; k < 4; k++) left += v[i + k] != 0;
    EXPECT(left <= 2);
    for (int k = 0; k < 4; k++) {  // the two of the largest magnitude, as they are
      int larger = 0;
      for (int j = 0; j < 4; j++) larger += fabsf(l.w[i + j]) > fabsf(l.w[i + k]);
      plain[i + k] = larger < 2 ? l.w[i + k] : 0;
    }
  }
  EXPECT(error_of(&l, v) < 0.3 * error_of(&l, plain));
}

// Without samples worth the name weights count by themselves.
TEST(sparsify_of_inputs_that_are_always_0) {
  static Layer l;
  static float v[ROWS * DEPTH];
  make(&l);
  memset(l.h, 0, sizeof l.h);
  EXPECT(prune(&l, (SparsePattern){.width = 16, .run = 20, .zeros = 50}, v) >= 0);
  for (int i = 0; i < ROWS * DEPTH; i++) EXPECT(isfinite(v[i]));
}
