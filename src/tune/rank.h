// rank.h -- which drafts are worth building: a model of the time of a schedule over the default's.
//
// Ridge regression on the features of draft.h, one for each template over all tasks, in which the
// task at hand counts more than others.  Sums are formed in the order of the observations, so equal
// logs give equal ranks.
#ifndef TENON_TUNE_RANK_H
#define TENON_TUNE_RANK_H

#include "tune/draft.h"

typedef struct RankSums {  // of one task or one template
  int n;                   // features
  int64_t count;
  double *xx, *xy;  // [n * n], [n]
} RankSums;

void rank_init(RankSums *r, int nfeatures, Arena *a);
// A schedule with these features took exp(y) of the default's time.
void rank_add(RankSums *r, const double *x, double y);
// Predictions of y for all drafts.
void rank_predict(const RankSums *all, const RankSums *own, const DraftList *d, Arena *a,
                  double *out);

#endif
