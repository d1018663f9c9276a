// range.c -- which interval of a tensor's values 8 bits stand for (range.h).
//
// Each method begins with the whole range and asks how much of either end to give up.  mse weighs
// what is clipped against the finer steps that remain; entropy compares the distribution with that
// of the quantised values (Kullback-Leibler); percentile drops the outermost values.
#include "compress/range.h"

#include <float.h>
#include <math.h>

const char *const range_method_name[RANGE_METHODS] = {"minmax", "percentile", "entropy", "mse"};

enum { LEVELS = 255, SHRINKS = 80, ROUNDS = 3 };
static const double KEPT = 0.9999;  // percentile: of the values on each side

static double center(const Histogram *h, int k) {
  return ((double)(k - HISTOGRAM_HALF) + 0.5) * histogram_width(h);
}

QuantParams range_params(double lo, double hi) {
  lo = fmin(lo, 0);
  hi = fmax(hi, 0);
  double scale = (hi - lo) / LEVELS;
  if (!(scale > 2 * (double)FLT_MIN)) scale = hi - lo > 0 ? 2 * (double)FLT_MIN : 1;
  QuantParams p = {.scale = (float)scale};
  p.zero = (int32_t)lrint(fmin(fmax(-lo / (double)p.scale, 0), LEVELS));
  return p;
}

// Values inside are off by a uniform error of one step; those outside by their distance.  0 is
// exact.
double range_error(const Histogram *h, QuantParams p) {
  double s = (double)p.scale, lo = -s * (p.zero + 0.5), hi = s * (LEVELS - p.zero + 0.5), sum = 0;
  if (!h->total) return 0;
  for (int k = 0; k < HISTOGRAM_BINS; k++) {
    if (!h->count[k]) continue;
    double x = center(h, k);
    double out = x < lo ? lo + s / 2 - x : x > hi ? x - hi + s / 2 : 0;
    sum += (double)h->count[k] * (out > 0 ? out * out : s * s / 12);
  }
  return sum / (double)h->total;
}

static void by_percentile(const Histogram *h, double *lo, double *hi) {
  int64_t below = 0, above = 0;
  for (int k = 0; k < HISTOGRAM_BINS; k++) *(k < HISTOGRAM_HALF ? &below : &above) += h->count[k];
  int64_t room = (int64_t)((1 - KEPT) * (double)above);
  int k = HISTOGRAM_BINS - 1;
  for (; k >= HISTOGRAM_HALF && h->count[k] <= room; k--) room -= h->count[k];
  *hi = fmin(*hi, (k - HISTOGRAM_HALF + 1) * histogram_width(h));
  room = (int64_t)((1 - KEPT) * (double)below);
  for (k = 0; k < HISTOGRAM_HALF && h->count[k] <= room; k++) room -= h->count[k];
  *lo = fmax(*lo, (k - HISTOGRAM_HALF) * histogram_width(h));
}

// Kullback-Leibler divergence of the values from those that 255 levels between lo and hi leave:
// clipped values join the outermost bins, and each level is spread over its bins that have any.
static double divergence(const Histogram *h, double lo, double hi) {
  double w = histogram_width(h), level = (hi - lo) / LEVELS, sum = 0;
  int from = (int)fmax(floor(lo / w), -HISTOGRAM_HALF) + HISTOGRAM_HALF;
  int to = (int)fmin(ceil(hi / w), HISTOGRAM_HALF) + HISTOGRAM_HALF;
  double below = 0, above = 0, n = 0;
  for (int k = 0; k < from; k++) below += (double)h->count[k];
  for (int k = to; k < HISTOGRAM_BINS; k++) above += (double)h->count[k];
  for (int k = from; k < to; k++) n += (double)h->count[k];
  if (n <= 0) return INFINITY;
  double total = n + below + above;
  for (int k = from, end; k < to; k = end) {
    double inside = 0, used = 0;
    int64_t own = (int64_t)((center(h, k) - lo) / level);
    for (end = k; end < to && (int64_t)((center(h, end) - lo) / level) == own; end++) {
      inside += (double)h->count[end];
      used += h->count[end] > 0;
    }
    for (int i = k; i < end; i++) {
      double p = (double)h->count[i] + (i == from ? below : 0) + (i == to - 1 ? above : 0);
      double q = h->count[i] ? inside / used / n : 1e-9;
      if (p > 0) sum += p / total * log(p / total / q);
    }
  }
  return sum;
}

typedef double RangeCost(const Histogram *h, double lo, double hi);
static double square_error(const Histogram *h, double lo, double hi) {
  return range_error(h, range_params(lo, hi));
}

// Both ends together first, then each by itself around the best.
static void shrink(const Histogram *h, RangeCost *cost, double *lo, double *hi) {
  double l = *lo, u = *hi, best = cost(h, l, u), bl = l, bu = u;
  for (int round = 0; round < ROUNDS; round++) {
    double l0 = bl, u0 = bu;
    for (int i = 1; i < SHRINKS; i++) {
      double f = round ? 1.25 - 0.5 * i / SHRINKS : 1 - 0.9 * i / SHRINKS;
      double tl = round == 1 ? l0 : fmax(l0 * f, l), tu = round == 2 ? u0 : fmin(u0 * f, u);
      double c = cost(h, tl, tu);
      if (c < best) best = c, bl = tl, bu = tu;
    }
  }
  *lo = bl;
  *hi = bu;
}

void range_of(const Histogram *h, RangeMethod method, double *lo, double *hi) {
  *lo = h->min;
  *hi = h->max;
  if (*hi - *lo <= 0) return;
  if (method == RANGE_PERCENTILE) by_percentile(h, lo, hi);
  if (method == RANGE_MSE) shrink(h, square_error, lo, hi);
  if (method == RANGE_ENTROPY) shrink(h, divergence, lo, hi);
}
