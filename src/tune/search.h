// search.h -- the search for faster schedules of a model's tasks.
#ifndef TENON_TUNE_SEARCH_H
#define TENON_TUNE_SEARCH_H

#include "tune/task.h"
#include "tune/trial.h"
#include "tune/workers.h"

typedef struct TuneStatus {  // after a round
  const TuneTask *task;
  int64_t trials;
  double seconds, left;
  double gain;  // of the model, if every confirmed task is as fast in it
} TuneStatus;

typedef struct TuneSearch {
  double seconds;
  uint64_t seed;
  // Of other runs: of these tasks, whose winners are confirmed first, and of other kernels of the
  // same templates, which the ranking learns from.  NULL: none.
  const TrialLog *earlier, *similar;
  bool survey;       // every schedule that differs from the default in one field, by tasks in turn
  Workers *workers;  // who times kernels (TuneModel.remote); NULL: this process
  const volatile int *stop;  // not 0: end with what was found; NULL: nobody asks
  // Told after each round, whose trials are the log's last; an error ends the search.
  tenon_status (*round)(void *ctx, const TuneStatus *s, const TrialLog *l, int64_t first);
  void *ctx;
} TuneSearch;

// Fills the log until the time is over or nothing is left to try; the last trials are of the model,
// which workers do not run.  *out_gain: of the model by its kernels, if it was not run.
MUST_USE tenon_status tune_search(TuneModel *m, const TuneSearch *o, TrialLog *log,
                                  double *out_gain);

#endif
