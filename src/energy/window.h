// window.h -- the energy of something that is run again and again.
#ifndef TENON_ENERGY_WINDOW_H
#define TENON_ENERGY_WINDOW_H

#include "energy/meter.h"

typedef struct EnergyWindow {
  double joules, seconds;  // of all runs together
  int64_t runs;
} EnergyWindow;

// Runs once, and again until `seconds` are over.  Whatever else runs on the machine meanwhile
// counts as well, so it should do nothing else.
MUST_USE tenon_status energy_window(Meter *m, double seconds, tenon_status (*run)(void *ctx),
                                    void *ctx, Diag *d, EnergyWindow *out);
// Watts of the machine at rest, by a second without work.
MUST_USE tenon_status energy_at_rest(Meter *m, Diag *d, double *out_watts);

#endif
