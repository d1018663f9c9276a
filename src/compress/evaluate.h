// evaluate.h -- a model beside the one that it was made of: the metric by sample, and the time.
#ifndef TENON_COMPRESS_EVALUATE_H
#define TENON_COMPRESS_EVALUATE_H

#include "compress/metrics.h"
#include "compress/runner.h"

typedef struct Evaluation {
  double *v;          // by sample
  double *margin[2];  // by sample, of both models (metric_margin); NULL: it is no agreement
  int64_t n;
  double value, bound;
} Evaluation;
// `scores` as metric_scores has it, of the float model.
MUST_USE tenon_status evaluate(Runner *want, Runner *got, const Dataset *s, SplitPart part,
                               Metric m, int scores, double confidence, const Watch *watch,
                               Arena *a, Diag *d, Evaluation *out);

// Mean divergence of the scores on at most so many samples of a part; without scores the mean
// square of the relative error.  Both are quadratic in the disturbance.
MUST_USE tenon_status evaluate_error(Runner *want, Runner *got, const Dataset *s, SplitPart part,
                                     int64_t samples, int scores, Diag *d, double *out);

// Nanoseconds of one run, of each: medians of interleaved measurements on samples of the part.
typedef struct TimePair {
  double ns[2];
  double ratio;  // of the second to the first, the median of pairs
  double noise;  // of the ratio: the median distance from it
} TimePair;
enum { TIME_PAIRS = 15 };
// At most TIME_PAIRS pairs, and no more than 3 once `enough_ns` are spent.
MUST_USE tenon_status evaluate_time(Runner *first, Runner *second, const Dataset *s, SplitPart part,
                                    double enough_ns, Diag *d, TimePair *out);
// Whether two programs give the same bits for the first samples of a part.
MUST_USE tenon_status evaluate_same(Runner *first, Runner *second, const Dataset *s, SplitPart part,
                                    int64_t samples, Diag *d, bool *out);

#endif
