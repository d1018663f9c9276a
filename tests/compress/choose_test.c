// choose_test.c -- figures by group from coded runs, and the choices that follow from them.
#include "compress/choose.h"
#include "compress/linear.h"

#include "test.h"

#include <math.h>

static double uniform(uint64_t *r) { return (double)((*r = hash_u64(*r + 1)) >> 11) * 0x1p-53; }

// Groups in a chain, some with a neighbour further on.
static void make_problem(int64_t n, uint64_t seed, Arena *a, ChooseProblem *p, ChooseModel *m) {
  double *work = arena_array(a, double, n);
  m->ns = arena_array(a, double, n);
  m->error = arena_array(a, double, n);
  m->pair_ns = 0.05;
  *p = (ChooseProblem){.n = n, .work = work};
  for (int64_t i = 0; i < n; i++) {
    work[i] = 1 / (double)n;
    m->ns[i] = -3000 * uniform(&seed) + 600;
    m->error[i] = 0.001 * uniform(&seed) * uniform(&seed);
    int32_t before = (int32_t)(i > 3 && uniform(&seed) < 0.3 ? i - 3 : i - 1);
    if (i) vec_push(a, &p->pair, ((ChoosePair){before, (int32_t)i, 8000 * uniform(&seed)}));
  }
}

static void run_all(const ChooseProblem *p, const ChooseModel *m, double noise, Arena *a,
                    CodedRuns *runs) {
  uint64_t r = 5;
  for (int64_t i = 0; i < choose_runs(p->n); i++) {
    bool *on = arena_array(a, bool, p->n);
    choose_pattern(i, p->n, on);
    CodedRun c = {on, choose_ns(p, m, on), choose_error(p, m, on)};
    c.ns += noise * (uniform(&r) - 0.5);
    vec_push(a, runs, c);
  }
}

TEST(choose_patterns_halve) {
  static const int64_t sizes[] = {1, 2, 7, 30, 63, 64, 150};
  bool on[150];
  for (int k = 0; k < ARRAY_LEN(sizes); k++) {
    int64_t n = sizes[k], runs = choose_runs(n);
    EXPECT(runs <= CODED_RUNS_MOST);
    for (int64_t i = 0; i < n; i++) {
      int64_t sum = 0;
      for (int64_t r = 0; r < runs; r++) {
        choose_pattern(r, n, on);
        EXPECT(r || on[i]);
        sum += on[i];
      }
      EXPECT(n >= runs ? sum > runs / 5 && sum < runs * 4 / 5 : sum == runs / 2);
    }
  }
}

TEST(choose_fit_finds_figures) {
  enum { N = 40 };
  Arena a;
  ChooseProblem p;
  ChooseModel m, got;
  CodedRuns runs = {0};
  arena_init(&a);
  make_problem(N, 3, &a, &p, &m);
  run_all(&p, &m, 20, &a, &runs);
  choose_fit(&p, &runs, 10, &a, &got);
  for (int i = 0; i < N; i++) {
    EXPECT_NEAR(got.ns[i], m.ns[i], 150);
    EXPECT_NEAR(got.error[i], m.error[i], 1e-4);
  }
  EXPECT(got.pair_ns > 0 && got.pair_ns < 0.1);
  arena_deinit(&a);
}

// With more groups than runs the sums are right though the parts may not be.
TEST(choose_fit_of_many_groups) {
  enum { N = 200 };
  Arena a;
  ChooseProblem p;
  ChooseModel m, got;
  CodedRuns runs = {0};
  arena_init(&a);
  make_problem(N, 4, &a, &p, &m);
  run_all(&p, &m, 0, &a, &runs);
  choose_fit(&p, &runs, 10, &a, &got);
  const bool *all = runs.v[0].on;
  double want = choose_ns(&p, &m, all);
  EXPECT_NEAR(choose_ns(&p, &got, all), want, 0.05 * fabs(want));
  want = choose_error(&p, &m, all);
  EXPECT_NEAR(choose_error(&p, &got, all), want, 0.2 * want);
  arena_deinit(&a);
}

static double least(const ChooseProblem *p, const ChooseModel *m, double most_error) {
  double best = 0;
  for (int64_t set = 0; set < (int64_t)1 << p->n; set++) {
    bool on[16];
    for (int64_t i = 0; i < p->n; i++) on[i] = set >> i & 1;
    if (choose_error(p, m, on) <= most_error) best = fmin(best, choose_ns(p, m, on));
  }
  return best;
}

// No other choice is faster with as little error, by trying all.
TEST(choose_path_is_cheapest) {
  enum { N = 11 };
  for (uint64_t seed = 1; seed <= 8; seed++) {
    Arena a;
    ChooseProblem p;
    ChooseModel m;
    ChoicePath path;
    arena_init(&a);
    make_problem(N, seed, &a, &p, &m);
    choose_path(&p, &m, &a, &path);
    EXPECT(path.n >= 2);
    EXPECT(choose_error(&p, &m, path.v[path.n - 1]) == 0);
    double before = -INFINITY;
    for (int64_t i = 0; i < path.n; i++) {
      double ns = choose_ns(&p, &m, path.v[i]), error = choose_error(&p, &m, path.v[i]);
      EXPECT(ns >= before - 1e-6);
      EXPECT_NEAR(ns, least(&p, &m, error), 1e-3);
      before = ns;
    }
    arena_deinit(&a);
  }
}

TEST(choose_nothing) {
  Arena a;
  ChooseProblem p = {0};
  ChooseModel m;
  CodedRuns runs = {0};
  ChoicePath path;
  arena_init(&a);
  choose_fit(&p, &runs, 1, &a, &m);
  choose_path(&p, &m, &a, &path);
  EXPECT_INT_EQ(path.n, 1);
  arena_deinit(&a);
}

TEST(cholesky_solves) {
  enum { N = 12 };
  double m[N * N] = {0}, b[N], x[N], full[N * N];
  uint64_t r = 9;
  double q[N * N];
  for (int i = 0; i < N * N; i++) q[i] = uniform(&r) - 0.5;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      for (int k = 0; k < N; k++) m[i * N + j] += q[i * N + k] * q[j * N + k];
      m[i * N + j] += i == j ? 0.1 : 0;
    }
  memcpy(full, m, sizeof m);
  for (int i = 0; i < N; i++) x[i] = uniform(&r);
  for (int i = 0; i < N; i++) {
    b[i] = 0;
    for (int j = 0; j < N; j++) b[i] += full[i * N + j] * x[j];
  }
  REQUIRE(cholesky_factor(m, N));
  cholesky_solve(m, N, b);
  for (int i = 0; i < N; i++) EXPECT_NEAR(b[i], x[i], 1e-9);
  full[0] = -1;
  EXPECT(!cholesky_factor(full, N));
}
