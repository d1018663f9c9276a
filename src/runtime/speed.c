// speed.c -- how fast devices are (speed.h).
#include "runtime/speed.h"

#include "runtime/artifact.h"

double device_speed(const DeviceInfo *i) {
  enum { OPS = 2, SCHEDULERS = 4, LANES = 32 };
  const double clock = 1.5e9;
  if (i->is_cpu) return SHARED_SPEED;
  // A compute unit of a CUDA device takes so many warps a cycle, one of others at least one
  // subgroup.
  int lanes = i->arch ? SCHEDULERS * LANES : MAX(i->subgroup, LANES);
  return (double)MAX(i->compute_units, 1) * lanes * OPS * clock;
}

double driver_speed(const char *driver, const char **why) {
  const DeviceDriver *d = device_driver(driver);
  static _Thread_local Diag quiet;
  Device *device = NULL;
  int index;
  *why = "there is no such driver";
  if (!d || d->count(why) <= 0) return 0;
  diag_init(&quiet);
  double speed = 0;
  if (!d->find(NULL, &quiet, &index) && !d->open(index, &quiet, &device)) {
    speed = device_speed(d->info(device));
    d->close(device);
  }
  *why = quiet.text;
  return speed;
}
