// evaluate.c -- metric and time of two programs on the same samples (evaluate.h).
#include "compress/evaluate.h"

#include <math.h>
#include <stdlib.h>

tenon_status evaluate(Runner *want, Runner *got, const Dataset *s, SplitPart part, Metric m,
                      int scores, double confidence, const Watch *watch, Arena *a, Diag *d,
                      Evaluation *out) {
  int64_t begin = dataset_begin(s, part), n = dataset_count(s, part);
  *out = (Evaluation){.n = n, .v = arena_array(a, double, MAX(n, 1))};
  if (want->nresults != got->nresults)
    return fail(d, TENON_EINVAL, NOWHERE, "the models have %lld and %lld outputs",
                (long long)want->nresults, (long long)got->nresults);
  bool margins = m == METRIC_AGREEMENT && scores >= 0;
  for (int k = 0; margins && k < 2; k++) out->margin[k] = arena_array(a, double, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    Value *const *w, *const *q;
    TRY(watch_step(watch, d, split_part_name[part], "", i, n));
    TRY(runner_run(want, s, begin + i, d, &w));
    TRY(runner_run(got, s, begin + i, d, &q));
    out->v[i] = metric_sample(m, scores, want->nresults, w, q, s->sample.v[begin + i].label);
    if (margins) out->margin[0][i] = metric_margin(w[scores], w[scores]);
    if (margins) out->margin[1][i] = metric_margin(w[scores], q[scores]);
  }
  out->value = metric_value(out->v, n);
  out->bound = metric_bound(m, out->v, n, confidence, s->seed, a);
  return TENON_OK;
}

tenon_status evaluate_error(Runner *want, Runner *got, const Dataset *s, SplitPart part,
                            int64_t samples, int scores, Diag *d, double *out) {
  int64_t begin = dataset_begin(s, part), n = MIN(dataset_count(s, part), samples);
  Metric m = scores >= 0 ? METRIC_KL : METRIC_RMS;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    Value *const *w, *const *q;
    TRY(runner_run(want, s, begin + i, d, &w));
    TRY(runner_run(got, s, begin + i, d, &q));
    double v = metric_sample(m, scores, want->nresults, w, q, -1);
    sum += m == METRIC_RMS ? v * v : v;
  }
  *out = n ? sum / (double)n : 0;
  return TENON_OK;
}

// ---- time ----

static tenon_status time_runs(Runner *r, const Dataset *s, int64_t sample, int64_t times, Diag *d,
                              double *out) {
  int64_t sum = 0;
  for (int64_t i = 0; i < times; i++) {
    Value *const *v;
    int64_t start = platform->now();
    TRY(runner_run(r, s, sample, d, &v));
    sum += platform->now() - start;
  }
  *out = (double)sum / (double)times;
  return TENON_OK;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, ascending);
  return v[n / 2];
}

tenon_status evaluate_time(Runner *first, Runner *second, const Dataset *s, SplitPart part,
                           double enough_ns, Diag *d, TimePair *out) {
  static const double PIECE = 2e6;  // nanoseconds of a measurement
  double once, ns[2][TIME_PAIRS], ratio[TIME_PAIRS], far[TIME_PAIRS], spent = 0;
  int64_t begin = dataset_begin(s, part), n = MAX(dataset_count(s, part), 1);
  TRY(time_runs(second, s, begin, 2, d, &once));
  TRY(time_runs(first, s, begin, 2, d, &once));
  int64_t times = MAX((int64_t)(fmin(PIECE, enough_ns / TIME_PAIRS) / fmax(once, 1)), 1);
  int k = 0;
  for (; k < TIME_PAIRS && (k < 3 || spent < enough_ns); k++) {
    TRY(time_runs(first, s, begin + k % n, times, d, &ns[0][k]));
    TRY(time_runs(second, s, begin + k % n, times, d, &ns[1][k]));
    ratio[k] = ns[1][k] / fmax(ns[0][k], 1);
    spent += (ns[0][k] + ns[1][k]) * (double)times;
  }
  *out = (TimePair){{median(ns[0], k), median(ns[1], k)}, median(ratio, k), 0};
  for (int i = 0; i < k; i++) far[i] = fabs(ratio[i] - out->ratio);
  out->noise = median(far, k);
  return TENON_OK;
}

// ---- bits ----

static bool same_bits(const Value *a, const Value *b) {
  int64_t bytes;
  if (!a || !b || a->kind != VK_TENSOR || b->kind != VK_TENSOR) return a == b;
  if (a->dtype != b->dtype || a->n != b->n || a->dtype == DT_STRING) return false;
  return dtype_bytes(a->dtype, a->n, &bytes) && !memcmp(a->data, b->data, (size_t)bytes);
}

tenon_status evaluate_same(Runner *first, Runner *second, const Dataset *s, SplitPart part,
                           int64_t samples, Diag *d, bool *out) {
  int64_t begin = dataset_begin(s, part), n = MIN(samples, dataset_count(s, part));
  *out = first->nresults == second->nresults;
  for (int64_t i = 0; i < n && *out; i++) {
    Value *const *x, *const *y;
    TRY(runner_run(first, s, begin + i, d, &x));
    TRY(runner_run(second, s, begin + i, d, &y));
    for (int64_t k = 0; k < first->nresults; k++) *out &= same_bits(x[k], y[k]);
  }
  return TENON_OK;
}
