// migrate_factors.c -- which powers of two a tensor's channels are divided by (migrate.h).
//
// The estimate is the noise of rounding by the power of each output channel, summed: every output
// counts alike, since layers behind may enlarge what is small here.  A tensor of 8 bits has the
// noise of one step for all its channels, which its widest channel sets.  Weights are rounded by
// their scale or block, and their errors meet the mean square of their channel.
#include "compress/migrate.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 8, MOST_EXPONENT = 14, MOST_OUTPUTS = 256 };
static const double LEAST = 1e-6;  // of the largest channel: what a dead one counts as

typedef struct Factors {
  const MigrateFactorTask *t;
  MigrateSite *site;
  int64_t n;             // channels
  double *top, *square;  // [n] of the tensor: largest magnitude, mean square
  double *weight_top;    // [n] of weights, by the square root of their output's power
  double *weight_power;  // [n] sums of squares by their output's power
  double *s;             // [n] factors of a candidate
  double **by_power;     // by reader, [outputs] 1 / power of the output; 0: it is not looked at
} Factors;

// ---- one reader ----

static int64_t channel_of(const WeightShape *s, int64_t output, int64_t input) {
  return s->parts > 1 ? output / (s->outputs / s->parts) * s->inputs + input : input;
}

static const float *row_of(const MigrateReader *r, int64_t output) {
  const WeightShape *s = &r->group->shape;
  return r->w + output * s->inputs * s->taps;
}

// Each so many-th output of a large matrix says enough; each channel of a convolution by groups has
// outputs of its own.
static int64_t step_of(const WeightShape *s) {
  return s->parts > 1 ? 1 : (s->outputs + MOST_OUTPUTS - 1) / MOST_OUTPUTS;
}

static void weigh_outputs(Factors *f, const MigrateReader *r, double *by_power) {
  const WeightShape *s = &r->group->shape;
  for (int64_t o = 0; o < s->outputs; o += step_of(s)) {
    const float *w = row_of(r, o);
    double power = 0;
    for (int64_t i = 0; i < s->inputs * s->taps; i++)
      power += (double)w[i] * (double)w[i] * f->square[channel_of(s, o, i / s->taps)];
    if (!(power > 0) || !isfinite(power)) continue;
    by_power[o] = 1 / power;
    for (int64_t i = 0; i < s->inputs * s->taps; i++) {
      int64_t c = channel_of(s, o, i / s->taps);
      double square = (double)w[i] * (double)w[i] / power;
      f->weight_power[c] += square;
      f->weight_top[c] = fmax(f->weight_top[c], sqrt(square));
    }
  }
}

// Square error of the weights [from, to) of a row, with their factors, at the steps of one scale.
static double run_error(const Factors *f, const WeightShape *s, const float *w, int64_t o,
                        int64_t from, int64_t to) {
  bool blocks = f->t->weight_bits == 4;
  double lo = 0, hi = 0, sum = 0;
  for (int64_t i = from; i < to; i++) {
    double v = (double)w[i] * f->s[channel_of(s, o, i / s->taps)];
    lo = fmin(lo, v);
    hi = fmax(hi, v);
  }
  double step = blocks ? (hi - lo) / 15 : fmax(hi, -lo) / 127;
  if (!(step > 0)) return 0;
  for (int64_t i = from; i < to; i++) {
    int64_t c = channel_of(s, o, i / s->taps);
    double v = (double)w[i] * f->s[c], e = (v - step * nearbyint(v / step)) / f->s[c];
    sum += e * e * f->square[c];
  }
  return sum;
}

static double weight_error(const Factors *f, int64_t reader) {
  const MigrateReader *r = &f->t->reader[reader];
  const WeightShape *s = &r->group->shape;
  int64_t n = s->inputs * s->taps, block = f->t->weight_bits == 4 ? f->t->block : n;
  double sum = 0;
  for (int64_t o = 0; o < s->outputs; o += step_of(s)) {
    double one = 0;
    if (!(f->by_power[reader][o] > 0)) continue;
    for (int64_t from = 0; from < n; from += block)
      one += run_error(f, s, row_of(r, o), o, from, MIN(from + block, n));
    sum += one * f->by_power[reader][o];
  }
  return sum;
}

// ---- a candidate ----

static double tensor_error(const Factors *f) {
  double most = 0, power = 0;
  for (int64_t c = 0; c < f->n; c++) {
    most = fmax(most, f->top[c] / f->s[c]);
    power += f->weight_power[c] * f->s[c] * f->s[c];
  }
  double step = most * (f->t->stats->histogram->min >= 0 ? 1 : 2) / 255;
  return step * step / 12 * power;
}

static double error_of(Factors *f, const int *exponent) {
  int64_t run = f->n / f->site->factors;
  double sum = 0;
  for (int64_t c = 0; c < f->n; c++) f->s[c] = ldexp(1, exponent[c / run]);
  if (f->t->bytes) sum += tensor_error(f);
  for (int64_t i = 0; i < f->t->nreaders; i++) sum += weight_error(f, i);
  return sum;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Exponents around their median, which is 0: what is ordinary stays as it is.
static void exponents(const Factors *f, double a, double b, double *log, double *sorted, int *out) {
  int64_t m = f->site->factors, run = f->n / m;
  double top = 0, weight = 0;
  for (int64_t c = 0; c < f->n; c++) {
    top = fmax(top, f->top[c]);
    weight = fmax(weight, f->weight_top[c]);
  }
  for (int64_t k = 0; k < m; k++) {
    double x = LEAST * top, w = LEAST * weight;
    for (int64_t c = k * run; c < (k + 1) * run; c++) {
      x = fmax(x, f->top[c]);
      w = fmax(w, f->weight_top[c]);
    }
    sorted[k] = log[k] = a * log2(x) - b * log2(w);
  }
  qsort(sorted, (size_t)m, sizeof *sorted, by_value);
  for (int64_t k = 0; k < m; k++) {
    double e = nearbyint(log[k] - sorted[m / 2]);
    out[k] = (int)fmin(fmax(e, -MOST_EXPONENT), MOST_EXPONENT);
  }
}

static void prepare(Factors *f, Arena *a) {
  const TensorStats *s = f->t->stats;
  f->top = s->channel_max;
  f->square = s->channel_square;
  f->weight_top = arena_array(a, double, f->n);
  f->weight_power = arena_array(a, double, f->n);
  f->s = arena_array(a, double, f->n);
  f->by_power = arena_array(a, double *, f->t->nreaders);
  for (int64_t i = 0; i < f->t->nreaders; i++) {
    f->by_power[i] = arena_array(a, double, f->t->reader[i].group->shape.outputs);
    weigh_outputs(f, &f->t->reader[i], f->by_power[i]);
  }
}

static bool any_above_zero(const double *v, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (v[i] > 0) return true;
  return false;
}

void migrate_factors(const MigrateFactorTask *t, Arena *a, MigrateSite *site) {
  Factors f = {.t = t, .site = site, .n = site->size};
  int *now = arena_array(a, int, site->factors);
  double *log = arena_array(a, double, site->factors);
  double *sorted = arena_array(a, double, site->factors);
  prepare(&f, a);
  site->exponent = arena_array(a, int, site->factors);
  site->before = site->after = error_of(&f, site->exponent);
  if (!any_above_zero(f.top, f.n) || !any_above_zero(f.weight_top, f.n)) return;
  for (int k = 0; k <= STEPS; k++)
    for (int both = 0; both < 2; both++) {
      double alpha = (double)k / STEPS, beta = both ? 1 - alpha : 0;
      exponents(&f, alpha, beta, log, sorted, now);
      double e = error_of(&f, now);
      if (!(e < site->after)) continue;
      site->after = e;
      memcpy(site->exponent, now, (size_t)site->factors * sizeof *now);
    }
}
