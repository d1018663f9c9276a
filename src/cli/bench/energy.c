// energy.c -- measures the energy of runs (energy.h).
//
// The machine is watched at rest first, and that power is subtracted.  Whatever else runs on it
// meanwhile counts as the model's, so the machine should do nothing else.
#include "cli/bench/energy.h"

#include "base/platform.h"
#include "energy/meter.h"

#include <stdlib.h>
#include <unistd.h>

enum { REST_US = 1000000 };
static const double run_seconds = 2;

static tenon_status run_for(Meter *m, double seconds, tenon_status (*run)(void *ctx), void *ctx,
                            Diag *d, double *out_joules, double *out_seconds, int64_t *out_runs) {
  double before, after;
  int64_t begin = platform->now();
  *out_runs = 0;
  TRY(meter_read(m, d, &before));
  do {
    if (run)
      TRY(run(ctx));
    else
      usleep(REST_US);
    ++*out_runs;
    *out_seconds = (double)(platform->now() - begin) / 1e9;
  } while (*out_seconds < seconds);
  TRY(meter_read(m, d, &after));
  *out_joules = after - before;
  return TENON_OK;
}

tenon_status energy_measure(tenon_status (*run)(void *ctx), void *ctx, bool gpu, Diag *d,
                            Energy *out) {
  Meter m;
  const char *root = getenv("TENON_SYSFS");
  double rest, rest_seconds, joules, seconds;
  int64_t n;
  *out = (Energy){0};
  TRY(meter_open(&m, root ? root : "", gpu, d));
  tenon_status s = run_for(&m, 0, NULL, NULL, d, &rest, &rest_seconds, &n);
  if (!s) s = run_for(&m, run_seconds, run, ctx, d, &joules, &seconds, &n);
  if (!s)
    *out = (Energy){.meter = m.row->name,
                    .joules = (joules - rest / rest_seconds * seconds) / (double)n,
                    .watts = joules / seconds,
                    .idle_watts = rest / rest_seconds,
                    .runs = n};
  meter_close(&m);
  return s;
}
