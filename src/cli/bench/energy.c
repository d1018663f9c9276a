// energy.c -- measures the energy of runs (energy.h).
//
// The machine is watched at rest first, and that power is subtracted.
#include "cli/bench/energy.h"

#include "energy/window.h"

#include <stdlib.h>

static const double run_seconds = 2;

tenon_status energy_measure(tenon_status (*run)(void *ctx), void *ctx, bool gpu, Diag *d,
                            Energy *out) {
  Meter m;
  EnergyWindow w;
  const char *root = getenv("TENON_SYSFS");
  double idle;
  *out = (Energy){0};
  TRY(meter_open(&m, root ? root : "", gpu, d));
  tenon_status s = energy_at_rest(&m, d, &idle);
  if (!s) s = energy_window(&m, run_seconds, run, ctx, d, &w);
  if (!s)
    *out = (Energy){.meter = m.row->name,
                    .joules = (w.joules - idle * w.seconds) / (double)w.runs,
                    .watts = w.joules / w.seconds,
                    .idle_watts = idle,
                    .runs = w.runs};
  meter_close(&m);
  return s;
}
