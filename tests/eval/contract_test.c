// contract_test.c -- contractions against the plain loops that define them, at sizes beyond every
// block; the same bits for any number of threads; what einsum says about equations.
#include "eval/contract.h"
#include "eval/gemm.h"
#include "test.h"

#include <math.h>

typedef struct Bench {
  Run run;
  Diag diag;
  Pool *pool;
} Bench;

static void bench_init(Bench *b, int threads) {
  diag_init(&b->diag);
  b->pool = threads > 1 ? pool_create(threads) : NULL;
  run_init(&b->run, b->pool, &b->diag);
}
static void bench_deinit(Bench *b) {
  run_deinit(&b->run);
  if (b->pool) pool_release(b->pool);
}

// Numbers with short mantissas, so that the order of additions does not matter in double.
static Value *filled(Bench *b, DType t, int rank, const int64_t *dims, int seed) {
  Value *v;
  if (value_tensor(&b->run, NOWHERE, t, rank, dims, &v)) return NULL;
  uint64_t h = (uint64_t)seed;
  for (int64_t i = 0; i < v->n; i++) {
    h = hash_u64(h + 1);
    if (dtype_is_float(t))
      val_put_f64(v, i, (double)(int)(h % 33) / 8 - 2);
    else
      val_put_i64(v, i, (int64_t)h);
  }
  return v;
}

static Value *evaluate(Bench *b, EvalFn *fn, const void *attrs, int nin, const Value *const *in) {
  Value *out[1] = {NULL};
  Eval e = {.run = &b->run, .in = in, .nin = nin, .out = out, .nout = 1, .attrs = attrs};
  ArenaMark m = arena_mark(&b->run.scratch);
  tenon_status s = fn(&e);
  arena_reset(&b->run.scratch, m);
  EXPECT_STATUS(s, TENON_OK);
  return s ? NULL : out[0];
}

static void check_mat_mul(int threads, int64_t m, int64_t n, int64_t k) {
  Bench b;
  bench_init(&b, threads);
  const Value *in[2] = {filled(&b, DT_F32, 2, (int64_t[]){m, k}, 1),
                        filled(&b, DT_F32, 2, (int64_t[]){k, n}, 2)};
  Value *y = evaluate(&b, eval_mat_mul, NULL, 2, in);
  int64_t wrong = 0;
  for (int64_t i = 0; y && i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t q = 0; q < k; q++) sum += val_f64(in[0], i * k + q) * val_f64(in[1], q * n + j);
      wrong += val_f64(y, i * n + j) != round_to(DT_F32, sum);
    }
  EXPECT_INT_EQ(wrong, 0);
  bench_deinit(&b);
}

TEST(mat_mul_is_its_definition) {
  static const int64_t size[] = {1, 5, 6, 7, 8, 9, GEMM_MC - 1, GEMM_MC + 1, GEMM_NC + 3};
  for (int64_t i = 0; i < ARRAY_LEN(size); i++) {
    check_mat_mul(1, size[i], 9, 3);
    check_mat_mul(2, 7, size[i], GEMM_KC + 1);
    check_mat_mul(3, 3, 17, size[i]);
  }
  check_mat_mul(2, GEMM_MC + 7, GEMM_NC + 9, 2 * GEMM_KC + 1);
}

// Beyond 2^53, where double would round, and beyond INT64_MAX, where only u64 has the value.
TEST(gemm_scales_integers_exactly) {
  Bench b;
  bench_init(&b, 1);
  const struct {
    DType dtype;
    int64_t a, c, want;
    double alpha, beta;
  } rows[] = {
      {DT_I64, INT64_MAX, 0, INT64_MAX, 1, 0},
      {DT_I64, INT64_MAX / 2, 1, INT64_MAX, 2, 1},
      {DT_I64, INT64_MIN, INT64_MIN, INT64_MIN, 3, 2},  // wraps
      {DT_U64, -1, 0, -1, 1, 0},
      {DT_U64, -1, 1, -3, 3, 0},
      {DT_U64, INT64_MIN, 0, (int64_t)1 << 62, 0.5, 1},  // 2^63 halved
      {DT_I64, ((int64_t)1 << 53) + 1, 0, -(((int64_t)1 << 53) + 1), -1, 1},
  };
  for (int i = 0; i < ARRAY_LEN(rows); i++) {
    const Value *in[3];
    int64_t d[2] = {1, 1}, one[3] = {rows[i].a, 1, rows[i].c};
    for (int k = 0; k < 3; k++) {
      Value *v;
      EXPECT_STATUS(value_tensor(&b.run, NOWHERE, rows[i].dtype, 2, d, &v), TENON_OK);
      val_put_i64(v, 0, one[k]);
      in[k] = v;
    }
    gemm_attrs at = {.alpha = rows[i].alpha, .beta = rows[i].beta};
    Value *y = evaluate(&b, eval_gemm, &at, 3, in);
    if (y) EXPECT_INT_EQ(val_i64(y, 0), rows[i].want);
  }
  bench_deinit(&b);
}

TEST(mat_mul_wraps_integers) {
  Bench b;
  bench_init(&b, 2);
  int64_t d[2] = {13, 13};
  const Value *in[2] = {filled(&b, DT_U64, 2, d, 1), filled(&b, DT_U64, 2, d, 2)};
  Value *y = evaluate(&b, eval_mat_mul, NULL, 2, in);
  for (int64_t i = 0; y && i < y->n; i++) {
    uint64_t sum = 0;
    for (int64_t q = 0; q < 13; q++)
      sum += ((const uint64_t *)in[0]->data)[i / 13 * 13 + q] *
             ((const uint64_t *)in[1]->data)[q * 13 + i % 13];
    EXPECT(((const uint64_t *)y->data)[i] == sum);
  }
  bench_deinit(&b);
}

TEST(mat_mul_same_bits_for_any_threads) {
  Value *first = NULL;
  Bench b[3];
  for (int t = 0; t < 3; t++) {
    bench_init(&b[t], t + 1);
    Value *x = filled(&b[t], DT_F64, 2, (int64_t[]){150, 700}, 3),
          *w = filled(&b[t], DT_F64, 2, (int64_t[]){700, 300}, 4);
    for (int64_t i = 0; i < x->n; i++) val_put_f64(x, i, sin(val_f64(x, i) * 1e3 + (double)i));
    Value *y = evaluate(&b[t], eval_mat_mul, NULL, 2, (const Value *[]){x, w});
    if (!first) first = y;
    EXPECT(y && first && !memcmp(first->data, y->data, (size_t)y->n * sizeof(double)));
  }
  for (int t = 0; t < 3; t++) bench_deinit(&b[t]);
}

// Two-dimensional convolution by its definition.
static double conv_at(const Value *x, const Value *w, const conv_attrs *at, int64_t n, int64_t m,
                      int64_t oy, int64_t ox) {
  int64_t cg = w->dims[1], group = m / (w->dims[0] / at->group);
  double sum = 0;
  for (int64_t c = 0; c < cg; c++)
    for (int64_t ky = 0; ky < w->dims[2]; ky++)
      for (int64_t kx = 0; kx < w->dims[3]; kx++) {
        int64_t iy = oy * at->strides.v[0] - at->pads.v[0] + ky * at->dilations.v[0];
        int64_t ix = ox * at->strides.v[1] - at->pads.v[1] + kx * at->dilations.v[1];
        if (iy < 0 || ix < 0 || iy >= x->dims[2] || ix >= x->dims[3]) continue;
        sum += val_f64(x, ((n * x->dims[1] + group * cg + c) * x->dims[2] + iy) * x->dims[3] + ix) *
               val_f64(w, ((m * cg + c) * w->dims[2] + ky) * w->dims[3] + kx);
      }
  return sum;
}

static void check_conv(const int64_t *xd, const int64_t *wd, int64_t group, const int64_t *strides,
                       const int64_t *pads, const int64_t *dilations) {
  Bench b;
  bench_init(&b, 2);
  conv_attrs at = {
      .group = group, .strides = {2, strides}, .pads = {4, pads}, .dilations = {2, dilations}};
  const Value *in[2] = {filled(&b, DT_F32, 4, xd, 5), filled(&b, DT_F32, 4, wd, 6)};
  Value *y = evaluate(&b, eval_conv, &at, 2, in);
  int64_t wrong = 0, at_y[4];
  for (int64_t i = 0; y && i < y->n; i++) {
    window_coords(4, y->dims, i, at_y);
    wrong += val_f64(y, i) !=
             round_to(DT_F32, conv_at(in[0], in[1], &at, at_y[0], at_y[1], at_y[2], at_y[3]));
  }
  EXPECT_INT_EQ(wrong, 0);
  bench_deinit(&b);
}

TEST(conv_is_its_definition) {
  static const int64_t one[2] = {1, 1}, two[2] = {2, 2}, far[2] = {19, 1}, none[4] = {0},
                       some[4] = {2, 1, 0, 3}, crop[4] = {-1, 0, 1, -2};
  check_conv((int64_t[]){2, 6, 19, 23}, (int64_t[]){8, 3, 3, 2}, 2, one, some, one);
  check_conv((int64_t[]){1, 6, 19, 23}, (int64_t[]){6, 1, 3, 3}, 6, two, some, two);
  check_conv((int64_t[]){1, 30, 20, 20}, (int64_t[]){7, 30, 3, 3}, 1, two, some, one);
  check_conv((int64_t[]){2, 4, 17, 9}, (int64_t[]){150, 4, 1, 1}, 1, one, none, one);
  check_conv((int64_t[]){1, 2, 40, 7}, (int64_t[]){2, 2, 2, 2}, 1, far, some, two);
  check_conv((int64_t[]){1, 2, 9, 9}, (int64_t[]){3, 2, 2, 2}, 1, one, crop, one);
}

TEST(einsum_says_where_an_equation_is_wrong) {
  static const struct {
    const char *equation;
    int64_t at;
    const char *says;
  } bad[] = {
      {"ij,jk->iz", 7, "no operand has"},
      {"ij,jk->ii", 7, "twice"},
      {"ij.,jk", 2, "ellipsis"},
      {"i1,jk", 1, "neither a letter"},
      {"ij,jk,kl", 5, "more terms"},
      {"ij", 2, "fewer terms"},
      {"ijk,jk", 0, "rank"},
      {"ij,jk-", 5, "arrow"},
      {"ij,jk->ik->", 9, "after"},
      {"......,jk", 3, "second ellipsis"},
      {"...,...->", 9, "without the operands' ellipsis"},
  };
  static const int rank[2] = {2, 2};
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++) {
    Einsum q;
    int64_t at;
    const char *got = einsum_parse(str_of(bad[i].equation), 2, rank, &q, &at);
    REQUIRE(got);
    EXPECT_CONTAINS(got, bad[i].says);
    EXPECT_INT_EQ(at, bad[i].at);
  }
}

TEST(einsum_orders_an_implicit_result) {
  Einsum q;
  int64_t at;
  EXPECT(!einsum_parse(STR("b...A, ...ca"), 2, (int[]){3, 4}, &q, &at));
  EXPECT_INT_EQ(q.nout, 6);  // two broadcast dimensions, then A, a, b, c
  static const uint8_t want[6] = {EINSUM_LABELS - 2, EINSUM_LABELS - 1, 0, 26, 27, 28};
  for (int i = 0; i < 6; i++) EXPECT_INT_EQ(q.out[i], want[i]);
}
