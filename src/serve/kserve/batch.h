// batch.h -- which waiting requests run together: a function of what waits and for how long.
#ifndef TENON_SERVE_KSERVE_BATCH_H
#define TENON_SERVE_KSERVE_BATCH_H

#include "base/base.h"

enum { BATCH_PREFERRED = 16 };
typedef struct BatchRules {
  int64_t most;   // rows of a batch; 1: requests run alone
  int64_t delay;  // nanoseconds that a request may wait for others
  int npreferred;
  int64_t preferred[BATCH_PREFERRED];  // rows, ascending, each at most `most`
} BatchRules;

// The requests that fit together wait in order, the oldest first, with row[i] rows each; the oldest
// has waited `waited` nanoseconds.  Gives how many of the first run now; 0: none yet.
//
// A batch never holds a part of a request.  A request of more than `most` rows runs alone.  A batch
// of a preferred size runs at once, the largest first; without preferred sizes a full one.  Others
// run when the oldest has waited for the delay.
int64_t batch_take(const BatchRules *r, const int64_t *row, int64_t n, int64_t waited);

#endif
