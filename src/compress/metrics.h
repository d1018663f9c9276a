// metrics.h -- metrics of a quantised model, and the limit that a user sets.
#ifndef TENON_COMPRESS_METRICS_H
#define TENON_COMPRESS_METRICS_H

#include "eval/value.h"
#include "ir/ir.h"

typedef enum { METRIC_RATE, METRIC_CHANGE, METRIC_MEAN } MetricKind;
typedef enum {
#define METRIC(id, ...) METRIC_##id,
#include "compress/metrics.def"
  METRICS
} Metric;
typedef struct MetricRow {
  const char *name;
  MetricKind kind;
  int sign;
  bool labels;
  const char *doc;
} MetricRow;
extern const MetricRow metric_row[METRICS];
int metric_find(Str name);  // -1: there is none

// "agreement>=99%", "kl<=0.01".
typedef struct Budget {
  Metric metric;
  double limit;
} Budget;
MUST_USE tenon_status budget_parse(Str text, Diag *d, Budget *out);
static inline bool budget_met(const Budget *b, double bound) {
  return metric_row[b->metric].sign > 0 ? bound >= b->limit : bound <= b->limit;
}
// Samples without a fault that certify the limit with this confidence; 1 where that does not follow
// from the limit alone.
int64_t budget_samples(const Budget *b, double confidence);

// The output whose elements are scores of classes: [batch, classes] of floats; -1: there is none.
int metric_scores(const Graph *g);
// One sample's value.  `label` -1: none.
double metric_sample(Metric m, int scores, int64_t nresults, Value *const *want, Value *const *got,
                     int64_t label);
// How far the float model's largest score is above the others in `v`, as a difference of logarithms
// where scores are probabilities; of several rows the least.  Below 0: another one is larger.
double metric_margin(const Value *want, const Value *v);
// Over samples: the value, and a bound on what it is on other samples of the same kind.
double metric_value(const double *v, int64_t n);
double metric_bound(Metric m, const double *v, int64_t n, double confidence, uint64_t seed,
                    Arena *a);

// The chance that as many other samples, `others`, meet the limit, by what these show.  `flips`:
// the rate of faults that is expected of a RATE; below 0: none is.
double metric_chance(const Budget *b, double value, double bound, int64_t others, double flips,
                     double confidence);
// The rate at which a disturbance of margins turns them below 0: that of each sample taken with the
// margin of each.  It tells rates below 1 / n.
double metric_flips(const double *want, const double *got, int64_t n, Arena *a);

#endif
