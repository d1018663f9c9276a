// search.h -- mixed precision under a limit: the fastest choices that the search's samples promise
// to meet it with.
//
//   coded runs -> time and error of each group -> path of choices -> bisection of the path
//
// No more than SEARCH_ROUNDS choices of the path are compiled, judged and timed.  Samples that
// certify are not touched.
#ifndef TENON_COMPRESS_SEARCH_H
#define TENON_COMPRESS_SEARCH_H

#include "compress/evaluate.h"
#include "compress/rewrite.h"

enum { SEARCH_ROUNDS = 8 };

typedef struct SearchTask {
  Graph *g;
  Body *base;
  GroupList *groups;
  const StatsList *stats;
  const RewriteOptions *rewrite;
  const Dataset *data;
  RunnerOptions run;
  Runner *want, *got;  // the float model, open; one to run choices in, which its owner closes
  Arena *scratch;      // reset for each compiled choice; its owner frees it
  Budget budget;
  int scores;
  double confidence;
  bool any_speed;  // what is not faster counts as a gain, too
} SearchTask;

typedef struct SearchPoint {
  Choice *choice;  // by group
  int64_t quantized;
  double value, bound;         // on the search's samples
  double told_ns, told_error;  // what the coded runs told
  TimePair time;
  double chance;  // that the samples which certify meet the limit, too
} SearchPoint;
typedef struct SearchResult {
  VEC(SearchPoint) point;
  int64_t best;  // the fastest of those that most likely meet the limit; -1: none meets it here, or
                 // nothing would gain, and then there is no point
  int64_t runs;  // coded ones
} SearchResult;

// Compiles, times and judges the groups' choices as one more point.  *likely: the samples that
// certify will most likely meet the limit, too.
MUST_USE tenon_status search_judge(const SearchTask *t, Arena *a, Diag *d, SearchResult *r,
                                   bool *likely);
// The fastest likely point, else the likeliest that changes anything; -1: none.
int64_t search_best(const SearchResult *r);

// What each group adds to the error when it has the choice, by coded runs: by group, 0 for those
// that are kept.  Groups whose weights another has before them go with it: `leader` is its number,
// or their own.
MUST_USE tenon_status search_errors(const SearchTask *t, Choice c, const int64_t *leader, Arena *a,
                                    Diag *d, SearchResult *out, double *error);

// Leaves the best choices, and each group's figures, in the groups; where none meets the limit
// those with the best bound.  ECANCELLED by the watch.
MUST_USE tenon_status search_choices(const SearchTask *t, Arena *a, Diag *d, SearchResult *out);

#endif
