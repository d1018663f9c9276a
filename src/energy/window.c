// window.c -- the energy of something that is run again and again (window.h).
#include "energy/window.h"

#include "base/platform.h"

#include <unistd.h>

enum { REST_US = 1000000 };

tenon_status energy_window(Meter *m, double seconds, tenon_status (*run)(void *ctx), void *ctx,
                           Diag *d, EnergyWindow *out) {
  double before, after;
  int64_t begin = platform->now();
  *out = (EnergyWindow){0};
  TRY(meter_read(m, d, &before));
  do {
    TRY(run(ctx));
    out->runs++;
    out->seconds = (double)(platform->now() - begin) / 1e9;
  } while (out->seconds < seconds);
  TRY(meter_read(m, d, &after));
  out->joules = after - before;
  return TENON_OK;
}

static tenon_status rest(void *ctx) {
  (void)ctx;
  usleep(REST_US);
  return TENON_OK;
}

tenon_status energy_at_rest(Meter *m, Diag *d, double *out_watts) {
  EnergyWindow w;
  *out_watts = 0;
  TRY(energy_window(m, 0, rest, NULL, d, &w));
  *out_watts = w.joules / w.seconds;
  return TENON_OK;
}
