// choose.c -- coded runs, their regression, and minimum cuts (choose.h).
#include "compress/choose.h"

#include "base/min_cut.h"
#include "compress/linear.h"
#include "cost/cost.h"

#include <math.h>

// ---- coded runs ----

int64_t choose_runs(int64_t groups) {
  int64_t n = 4;
  while (n < groups + 1 && n < CODED_RUNS_MOST) n *= 2;
  return n;
}

static bool odd_bits(uint64_t x) { return __builtin_popcountll(x) & 1; }

// Neighbours have columns far apart, so that what they do together is not taken for a third one's
// part.  Where there are more groups than columns, bits are drawn.
void choose_pattern(int64_t run, int64_t n, bool *on) {
  enum { APART = 11 };  // no divisor of a power of two less 1 that is at most 63
  int64_t runs = choose_runs(n);
  for (int64_t i = 0; i < n; i++) {
    uint64_t column = 1 + (uint64_t)(i * APART % (runs - 1));
    bool drawn = n >= runs && run;
    on[i] = drawn ? hash_u64((uint64_t)(run * n + i)) & 1 : !odd_bits((uint64_t)run & column);
  }
}

// ---- figures by group ----

static double pair_bytes(const ChooseProblem *p, const bool *on) {
  double sum = 0;
  for (int64_t i = 0; i < p->pair.n; i++)
    if (on[p->pair.v[i].a] != on[p->pair.v[i].b]) sum += p->pair.v[i].bytes;
  return sum;
}

static void fit_time(const ChooseProblem *p, const CodedRuns *runs, double noise, Arena *a,
                     ChooseModel *out) {
  int64_t n = p->n + 1, rows = runs->n;
  double *m = arena_array(a, double, rows *n), *y = arena_array(a, double, rows);
  double *mean = arena_array(a, double, n), *deviation = arena_array(a, double, n);
  double *x = arena_array(a, double, n), all = rows ? runs->v[0].ns : 0;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < p->n; i++) m[r * n + i] = runs->v[r].on[i];
    m[r * n + p->n] = pair_bytes(p, runs->v[r].on);
    y[r] = runs->v[r].ns;
  }
  for (int64_t i = 0; i < p->n; i++) {
    double part = 0.5 * p->work[i] + 0.5 / (double)p->n;
    mean[i] = all * part;
    deviation[i] = fmax(fabs(all), 4 * noise) * part;
  }
  mean[p->n] = deviation[p->n] = cost_ns(0, 1);
  linear_estimate(m, y, rows, n, mean, deviation, fmax(noise, 1), a, x);
  memcpy(out->ns, x, (size_t)p->n * sizeof *x);
  out->pair_ns = fmax(x[p->n], 0);
}

// Nothing is exact: no group's share is below a part of the mean.
static void fit_error(const ChooseProblem *p, const CodedRuns *runs, Arena *a, ChooseModel *out) {
  static const double NOISE = 0.03, LEAST = 0.02;
  int64_t n = p->n, rows = runs->n;
  double *m = arena_array(a, double, rows *n), *y = arena_array(a, double, rows);
  double *mean = arena_array(a, double, n), *deviation = arena_array(a, double, n), most = 0;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < n; i++) m[r * n + i] = runs->v[r].on[i];
    y[r] = runs->v[r].error;
    most = fmax(most, y[r]);
  }
  for (int64_t i = 0; i < n; i++) {
    mean[i] = (rows ? y[0] : 0) / (double)n;
    deviation[i] = most;
  }
  if (most > 0) linear_estimate(m, y, rows, n, mean, deviation, NOISE * most, a, out->error);
  for (int64_t i = 0; i < n; i++) out->error[i] = fmax(out->error[i], LEAST * most / (double)n);
}

void choose_fit(const ChooseProblem *p, const CodedRuns *runs, double noise_ns, Arena *a,
                ChooseModel *out) {
  out->ns = arena_array(a, double, MAX(p->n, 1));
  out->error = arena_array(a, double, MAX(p->n, 1));
  out->pair_ns = 0;
  if (!p->n) return;
  fit_time(p, runs, noise_ns, a, out);
  fit_error(p, runs, a, out);
}

double choose_ns(const ChooseProblem *p, const ChooseModel *m, const bool *on) {
  double sum = m->pair_ns * pair_bytes(p, on);
  for (int64_t i = 0; i < p->n; i++) sum += on[i] ? m->ns[i] : 0;
  return sum;
}

double choose_error(const ChooseProblem *p, const ChooseModel *m, const bool *on) {
  double sum = 0;
  for (int64_t i = 0; i < p->n; i++) sum += on[i] ? m->error[i] : 0;
  return sum;
}

// ---- choices ----

// The cheapest for this weight.  Costs are whole numbers, all of them together about 2^40.
static bool *cheapest(const ChooseProblem *p, const ChooseModel *m, double weight, Arena *a) {
  bool *on = arena_array(a, bool, MAX(p->n, 1));
  double total = 1e-9;
  Cut c;
  cut_init(&c, a);
  for (int64_t i = 0; i < p->n; i++) total += fabs(m->ns[i]) + weight * m->error[i];
  for (int64_t i = 0; i < p->pair.n; i++) total += m->pair_ns * p->pair.v[i].bytes;
  double unit = 0x1p40 / total;
  for (int64_t i = 0; i < p->n; i++) {
    double cost = unit * (m->ns[i] + weight * m->error[i]);
    int32_t v = cut_var(&c);
    cut_cost(&c, v, cost < 0 ? (int64_t)-cost : 0, cost > 0 ? (int64_t)cost : 0);
  }
  for (int64_t i = 0; i < p->pair.n; i++) {
    const ChoosePair *q = &p->pair.v[i];
    int64_t cost = (int64_t)(unit * m->pair_ns * q->bytes);
    cut_pair(&c, q->a, q->b, cost);
    cut_pair(&c, q->b, q->a, cost);
  }
  cut_solve(&c, on);
  return on;
}

void choose_path(const ChooseProblem *p, const ChooseModel *m, Arena *a, ChoicePath *out) {
  enum { STEPS = 160 };
  static const double RATIO = 1.3;
  double ns = 1e-9, error = 1e-300, weight = 0;
  *out = (ChoicePath){0};
  for (int64_t i = 0; i < p->n; i++) {
    ns += fabs(m->ns[i]);
    error += m->error[i];
  }
  for (int k = 0; k <= STEPS; k++) {
    const bool *on = cheapest(p, m, weight, a), *last = out->n ? out->v[out->n - 1] : NULL;
    if (!last || memcmp(on, last, (size_t)p->n)) vec_push(a, out, on);
    weight = ns / error * pow(RATIO, k - STEPS / 2);
  }
}
