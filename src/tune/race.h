// race.h -- the rules of a race between schedules, which this process (measure.c) and a worker
// (timing.c) follow alike: who leaves when, by which clock, and what is in the caches.
#ifndef TENON_TUNE_RACE_H
#define TENON_TUNE_RACE_H

#include "base/base.h"

enum {
  RACE_LONG_NS = 40000,  // above it runs are timed by processor time, which is too coarse below
  RACE_LEAST_ROUNDS = 2  // also where the time is over
};

// After so many rounds those leave that take longer than this times the best; 0: nobody does.
double race_limit(int64_t rounds);
double race_least(const int64_t *ns, int n);
// Reads a byte of each cache line.
void race_touch(const void *p, int64_t bytes);

#endif
