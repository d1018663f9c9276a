// bound.c -- Clopper and Pearson's bound and a studentised bootstrap (bound.h).
#include "compress/bound.h"

#include <math.h>
#include <stdlib.h>

// P(X >= hits) of a binomial distribution, summed from its largest term outwards.
static double tail(int64_t hits, int64_t n, double p) {
  double sum = 0, lp = log(p), lq = log1p(-p), base = lgamma((double)n + 1);
  for (int64_t k = hits; k <= n; k++) {
    double t = base - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) + (double)k * lp +
               (double)(n - k) * lq;
    double term = exp(t);
    sum += term;
    if ((double)k > (double)n * p && term < sum * 1e-17) break;
  }
  return fmin(sum, 1);
}

double bound_most(int64_t most, int64_t n, double rate) {
  if (most < 0) return 0;
  if (most >= n || rate <= 0) return 1;
  return rate >= 1 ? 0 : 1 - tail(most + 1, n, rate);
}

double bound_rate_least(int64_t hits, int64_t n, double miss) {
  enum { HALVINGS = 60 };
  if (hits <= 0 || n <= 0) return 0;
  if (hits >= n) return pow(miss, 1 / (double)n);
  double lo = 0, hi = (double)hits / (double)n;
  for (int i = 0; i < HALVINGS; i++) {
    double p = (lo + hi) / 2;
    if (tail(hits, n, p) < miss)
      lo = p;
    else
      hi = p;
  }
  return lo;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void moments(const double *v, int64_t n, double *mean, double *error) {
  double sum = 0, square = 0;
  for (int64_t i = 0; i < n; i++) sum += v[i];
  *mean = sum / (double)n;
  for (int64_t i = 0; i < n; i++) square += (v[i] - *mean) * (v[i] - *mean);
  *error = n > 1 ? sqrt(square / ((double)n * (double)(n - 1))) : 0;
}

double bound_mean(const double *v, int64_t n, double miss, bool upper, uint64_t seed, Arena *a) {
  enum { DRAWS = 2000 };
  double mean, error, *t = arena_array(a, double, DRAWS), *x = arena_array(a, double, MAX(n, 1));
  uint64_t state = hash_u64(seed + 1);
  if (n <= 0) return upper ? INFINITY : -INFINITY;
  moments(v, n, &mean, &error);
  if (!(error > 0)) return mean;
  for (int draw = 0; draw < DRAWS; draw++) {
    double m, e;
    for (int64_t i = 0; i < n; i++) {
      state = hash_u64(state + 0x9e3779b97f4a7c15u);
      x[i] = v[(int64_t)((double)(state >> 11) * 0x1p-53 * (double)n)];
    }
    moments(x, n, &m, &e);
    t[draw] = e > 0 ? (m - mean) / e : m > mean ? INFINITY : m < mean ? -INFINITY : 0;
  }
  qsort(t, DRAWS, sizeof *t, ascending);
  double q = t[(int)((upper ? miss : 1 - miss) * (DRAWS - 1))];
  return mean - fmin(fmax(q, -20), 20) * error;
}
