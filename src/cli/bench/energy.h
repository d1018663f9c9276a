// energy.h -- joules of a run, by the machine's own counters.
#ifndef TENON_CLI_BENCH_ENERGY_H
#define TENON_CLI_BENCH_ENERGY_H

#include "base/base.h"

typedef struct Energy {
  const char *meter;  // NULL: it was not asked for
  double joules;      // of a run, above what the machine takes at rest
  double watts, idle_watts;
  int64_t runs;
} Energy;

// Runs again and again for two seconds at least, after a second at rest.  EUNSUPPORTED: there is no
// meter, and what is missing.
MUST_USE tenon_status energy_measure(tenon_status (*run)(void *ctx), void *ctx, bool gpu, Diag *d,
                                     Energy *out);

#endif
