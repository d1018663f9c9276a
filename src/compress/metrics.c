// metrics.c -- metrics by sample, and limits as text (metrics.h).
#include "compress/metrics.h"

#include "compress/bound.h"

#include <math.h>
#include <stdlib.h>

const MetricRow metric_row[METRICS] = {
#define METRIC(id, name, kind, sign, labels, doc) {name, METRIC_##kind, sign, labels, doc},
#include "compress/metrics.def"
};

int metric_find(Str name) {
  for (int i = 0; i < METRICS; i++)
    if (str_is(name, metric_row[i].name)) return i;
  return -1;
}

static tenon_status no_budget(Str text, Diag *d, const char *why) {
  fail(d, TENON_EINVAL, NOWHERE, "'%.*s' is no limit: %s; such as agreement>=99%%", STR_ARG(text),
       why);
  for (int i = 0; i < METRICS; i++) diag_note(d, "%s: %s", metric_row[i].name, metric_row[i].doc);
  return TENON_EINVAL;
}

tenon_status budget_parse(Str text, Diag *d, Budget *out) {
  char number[64];
  int64_t at = 0;
  while (at < text.n && text.p[at] != '<' && text.p[at] != '>') at++;
  if (at + 2 >= text.n || text.p[at + 1] != '=') return no_budget(text, d, "it has no >= or <=");
  int m = metric_find((Str){text.p, at});
  if (m < 0) return no_budget(text, d, "there is no such metric");
  if ((text.p[at] == '>') != (metric_row[m].sign > 0))
    return no_budget(text, d,
                     metric_row[m].sign > 0 ? "more is better, so it takes >="
                                            : "less is better, so it takes <=");
  Str rest = {text.p + at + 2, text.n - at - 2};
  bool percent = rest.p[rest.n - 1] == '%';
  rest.n -= percent;
  if (rest.n <= 0 || rest.n >= (int64_t)sizeof number)
    return no_budget(text, d, "there is no number");
  memcpy(number, rest.p, (size_t)rest.n);
  number[rest.n] = 0;
  char *end;
  double v = strtod(number, &end);
  if (*end || !isfinite(v)) return no_budget(text, d, "there is no number");
  *out = (Budget){(Metric)m, percent ? v / 100 : v};
  bool rate = metric_row[m].kind == METRIC_RATE;
  if (rate && !(out->limit > 0 && out->limit < 1))
    return no_budget(text, d, "a share of samples is above 0 and below 1");
  return TENON_OK;
}

int64_t budget_samples(const Budget *b, double confidence) {
  MetricKind kind = metric_row[b->metric].kind;
  double faults = kind == METRIC_RATE ? 1 - b->limit : -b->limit, miss = 1 - confidence;
  if (kind == METRIC_MEAN) return 1;
  if (kind == METRIC_CHANGE) miss /= 2;  // gains and losses have a bound each
  if (!(faults > 0 && faults < 1)) return kind == METRIC_RATE ? 1 : INT64_MAX;
  return (int64_t)ceil(log(miss) / log1p(-faults) - 1e-9);
}

int metric_scores(const Graph *g) {
  for (int64_t i = 0; i < g->main->nresults; i++) {
    const Type *t = type_of(g->main->result[i]);
    if (t->kind != TK_TENSOR || !dtype_is_float(t->dtype) || t->rank != 2) continue;
    if (!ie_is_const(t->dims[1]) || t->dims[1]->value > 1) return (int)i;
  }
  return -1;
}

// ---- one sample ----

static int64_t arg_max(const Value *v, int64_t from, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (val_f64(v, from + i) > val_f64(v, from + best)) best = i;
  return best;
}

static double same_choice(const Value *want, const Value *got) {
  int64_t n = want->rank ? want->dims[want->rank - 1] : 1;
  if (want->n != got->n) return 0;
  for (int64_t at = 0; at < want->n; at += n)
    if (arg_max(want, at, n) != arg_max(got, at, n)) return 0;
  return 1;
}

static bool is_right(const Value *v, int64_t label) { return arg_max(v, 0, v->n) == label; }

// Probabilities of a row: as they are, or by softmax.
static void probabilities(const Value *v, int64_t from, int64_t n, bool *out_are, double *most,
                          double *sum) {
  double total = 0, least = 0;
  *most = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    double x = val_f64(v, from + i);
    total += x;
    least = fmin(least, x);
    *most = fmax(*most, x);
  }
  *out_are = least >= 0 && fabs(total - 1) < 1e-3;
  *sum = 0;
  for (int64_t i = 0; i < n; i++) *sum += exp(val_f64(v, from + i) - *most);
}

static double log_probability(double x, bool are, double most, double sum) {
  return are ? log(fmax(x, 1e-12)) : x - most - log(sum);
}

static double divergence(const Value *want, const Value *got) {
  int64_t n = want->rank ? want->dims[want->rank - 1] : 1, rows = 0;
  double all = 0;
  for (int64_t at = 0; at < want->n && want->n == got->n; at += n, rows++) {
    bool p_are, q_are;
    double p_most, p_sum, q_most, q_sum;
    probabilities(want, at, n, &p_are, &p_most, &p_sum);
    probabilities(got, at, n, &q_are, &q_most, &q_sum);
    for (int64_t i = at; i < at + n; i++) {
      double p = log_probability(val_f64(want, i), p_are, p_most, p_sum);
      all += exp(p) * (p - log_probability(val_f64(got, i), q_are, q_most, q_sum));
    }
  }
  return rows ? fmax(all / (double)rows, 0) : 0;
}

static double compare_all(Metric m, int64_t n, Value *const *want, Value *const *got) {
  double diff = 0, ww = 0, gg = 0, wg = 0;
  for (int64_t k = 0; k < n; k++) {
    const Value *w = want[k], *q = got[k];
    if (!w || !q || w->kind != VK_TENSOR || !dtype_is_float(w->dtype) || w->n != q->n) continue;
    for (int64_t i = 0; i < w->n; i++) {
      double x = val_f64(w, i), y = val_f64(q, i);
      diff += (x - y) * (x - y);
      ww += x * x;
      gg += y * y;
      wg += x * y;
    }
  }
  if (m == METRIC_RMS) return ww > 0 ? sqrt(diff / ww) : diff > 0 ? 1 : 0;
  return ww > 0 && gg > 0 ? wg / sqrt(ww * gg) : diff > 0 ? 0 : 1;
}

double metric_sample(Metric m, int scores, int64_t nresults, Value *const *want, Value *const *got,
                     int64_t label) {
  if (m == METRIC_RMS || m == METRIC_COSINE || scores < 0)
    return compare_all(m, nresults, want, got);
  const Value *w = want[scores], *q = got[scores];
  if (m == METRIC_AGREEMENT) return same_choice(w, q);
  if (m == METRIC_KL) return divergence(w, q);
  return is_right(q, label) - is_right(w, label);
}

double metric_margin(const Value *want, const Value *v) {
  int64_t n = want->rank ? want->dims[want->rank - 1] : 1;
  double least = INFINITY;
  for (int64_t at = 0; at < want->n && want->n == v->n; at += n) {
    bool are;
    double most, sum, other = -INFINITY;
    int64_t best = arg_max(want, at, n);
    probabilities(want, at, n, &are, &most, &sum);
    for (int64_t i = 0; i < n; i++)
      if (i != best) other = fmax(other, val_f64(v, at + i));
    double own = val_f64(v, at + best);
    least = fmin(least, are ? log(fmax(own, 1e-12)) - log(fmax(other, 1e-12)) : own - other);
  }
  return least;
}

// ---- all samples ----

double metric_value(const double *v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += v[i];
  return n ? sum / (double)n : 0;
}

double metric_bound(Metric m, const double *v, int64_t n, double confidence, uint64_t seed,
                    Arena *a) {
  int64_t up = 0, down = 0;
  for (int64_t i = 0; i < n; i++) {
    up += v[i] > 0;
    down += v[i] < 0;
  }
  double miss = 1 - confidence;
  if (metric_row[m].kind == METRIC_RATE) return bound_rate_least(up, n, miss);
  if (metric_row[m].kind == METRIC_CHANGE)
    return bound_rate_least(up, n, miss / 2) - (1 - bound_rate_least(n - down, n, miss / 2));
  return bound_mean(v, n, miss, metric_row[m].sign < 0, seed, a);
}

// ---- other samples ----

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double metric_flips(const double *want, const double *got, int64_t n, Arena *a) {
  double *margin = arena_array(a, double, MAX(n, 1)), *loss = arena_array(a, double, MAX(n, 1));
  int64_t pairs = 0;
  for (int64_t i = 0; i < n; i++) {
    margin[i] = want[i];
    loss[i] = want[i] - got[i];
    if (isnan(loss[i])) loss[i] = 0;  // both are infinite: there is one score
  }
  qsort(margin, (size_t)n, sizeof *margin, ascending);
  qsort(loss, (size_t)n, sizeof *loss, ascending);
  for (int64_t i = 0, below = 0; i < n; i++) {
    while (below < n && margin[below] < loss[i]) below++;
    pairs += below;
  }
  return n ? (double)pairs / ((double)n * (double)n) : 0;
}

// Of a rate: that no more faults come than the bound allows.  Else as many samples lie around the
// mean as widely as these, so that the difference of both has twice the variance.
double metric_chance(const Budget *b, double value, double bound, int64_t others, double flips,
                     double confidence) {
  static const double NORMAL = 1.6448536269514722;  // the quantile of 95 %
  if (!budget_met(b, bound)) return 0;
  if (metric_row[b->metric].kind == METRIC_RATE && flips >= 0) {
    double rate = fmax(flips, 1 - value);
    int64_t most = -1;
    while (most + 1 < others &&
           bound_rate_least(others - most - 1, others, 1 - confidence) >= b->limit)
      most++;
    return bound_most(most, others, rate);
  }
  double deviation = fabs(bound - value) / NORMAL;
  if (!(deviation > 0)) return 1;
  return 0.5 * erfc(-(fabs(b->limit - value) - fabs(bound - value)) / (2 * deviation));
}
