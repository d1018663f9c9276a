// histogram.c -- counting values in exact bins (histogram.h).
#include "compress/histogram.h"

#include <math.h>

void histogram_init(Histogram *h) {
  memset(h, 0, sizeof *h);
  h->exponent = HISTOGRAM_LEAST;
}

// Joins neighbours: bin k - HALF of the old ones goes to floor((k - HALF) / 2).
static void widen(Histogram *h, int exponent) {
  for (; h->exponent < exponent; h->exponent++) {
    int64_t sum[HISTOGRAM_BINS] = {0};
    bool any = false;
    for (int k = 0; k < HISTOGRAM_BINS; k++) {
      any |= h->count[k] != 0;
      sum[(k + HISTOGRAM_HALF) / 2] += h->count[k];
    }
    if (!any) {
      h->exponent = exponent;
      return;
    }
    memcpy(h->count, sum, sizeof sum);
  }
}

// The least exponent with -HALF <= x / 2^e < HALF for both ends.
static int exponent_for(double min, double max) {
  int e = HISTOGRAM_LEAST;
  double most = fmax(-min, max);
  if (most > 0) {
    int up;
    frexp(most, &up);  // most < 2^up
    e = up - 11;
  }
  e = MAX(e, HISTOGRAM_LEAST);
  while (max >= ldexp(HISTOGRAM_HALF, e) || -min > ldexp(HISTOGRAM_HALF, e)) e++;
  return e;
}

// Least and largest of the values and 0, in lanes that compile to vectors; false: some are not
// finite.
static bool ends_of(const float *x, int64_t n, float *min, float *max) {
  enum { LANES = 16 };
  float lo[LANES] = {0}, hi[LANES] = {0};
  uint32_t bad[LANES] = {0};
  for (int64_t i = 0; i < n; i += LANES) {
    float v[LANES] = {0};
    if (n - i >= LANES)
      memcpy(v, x + i, sizeof v);
    else
      memcpy(v, x + i, (size_t)(n - i) * sizeof *v);
    for (int k = 0; k < LANES; k++) {
      float rest = v[k] - v[k];  // 0, or NaN for what is not finite
      uint32_t bits;
      memcpy(&bits, &rest, sizeof bits);
      bad[k] |= bits;
      lo[k] = v[k] < lo[k] ? v[k] : lo[k];
      hi[k] = v[k] > hi[k] ? v[k] : hi[k];
    }
  }
  *min = *max = 0;
  for (int k = 0; k < LANES; k++) {
    if (bad[k]) return false;
    *min = fminf(*min, lo[k]);
    *max = fmaxf(*max, hi[k]);
  }
  return true;
}

static void count(Histogram *h, const float *x, int64_t n) {
  double scale = ldexp(1, -h->exponent);
  int64_t zeros = 0;
  for (int64_t i = 0; i < n; i++) {
    if (x[i] == 0) {
      zeros++;
      continue;
    }
    double v = (double)x[i] * scale;  // exact, and so is its floor
    int k = (int)v;
    h->count[k - (v < k) + HISTOGRAM_HALF]++;
  }
  h->zeros += zeros;
  h->total += n;
}

// One run of values out of each of as many parts of equal size.  Its place follows from the
// values alone, so that neither order nor threads matter, and differs between samples.
static void count_some(Histogram *h, const float *x, int64_t n, float min, float max) {
  enum { RUN = 64, PARTS = HISTOGRAM_COUNTED / RUN };
  uint32_t lo, hi;
  memcpy(&lo, &min, sizeof lo);
  memcpy(&hi, &max, sizeof hi);
  uint64_t seed = (uint64_t)hi << 32 | lo;
  for (int64_t part = 0; part < PARTS; part++) {
    int64_t from = n / PARTS * part, room = n / PARTS - RUN + 1;
    count(h, x + from + (int64_t)(hash_u64(seed + (uint64_t)part) % (uint64_t)room), RUN);
  }
}

bool histogram_add(Histogram *h, const float *x, int64_t n) {
  float min, max;
  if (!ends_of(x, n, &min, &max)) return false;
  double lo = min, hi = max;
  if (h->total) {
    lo = fmin(lo, h->min);
    hi = fmax(hi, h->max);
  }
  widen(h, exponent_for(lo, hi));
  h->min = lo;
  h->max = hi;
  if (n > HISTOGRAM_COUNTED)
    count_some(h, x, n, min, max);
  else
    count(h, x, n);
  return true;
}

void histogram_merge(Histogram *h, const Histogram *from) {
  Histogram other = *from;
  if (!from->total) return;
  double lo = h->total ? fmin(h->min, from->min) : from->min;
  double hi = h->total ? fmax(h->max, from->max) : from->max;
  int e = exponent_for(lo, hi);
  widen(h, e);
  widen(&other, e);
  for (int k = 0; k < HISTOGRAM_BINS; k++) h->count[k] += other.count[k];
  h->min = lo;
  h->max = hi;
  h->total += from->total;
  h->zeros += from->zeros;
}

const char *histogram_wrong(const Histogram *h) {
  int64_t sum = h->zeros;
  if (h->exponent < HISTOGRAM_LEAST || h->exponent > HISTOGRAM_MOST) return "an exponent";
  if (!isfinite(h->min) || !isfinite(h->max) || h->min > 0 || h->max < 0) return "a range";
  if (h->total < 0 || h->zeros < 0) return "a number of values";
  if (h->exponent != exponent_for(h->min, h->max)) return "an exponent beside its range";
  for (int k = 0; k < HISTOGRAM_BINS; k++)
    if (h->count[k] < 0 || !ck_add(sum, h->count[k], &sum)) return "a count";
  if (sum != h->total) return "a sum of counts";
  return NULL;
}
