// speed.c -- how fast devices are (speed.h).
#include "runtime/speed.h"

enum { SLOW = 2 };  // what runs, but slower than machine code on the host

double device_speed(const DeviceInfo *i) {
  enum { OPS = 2, SCHEDULERS = 4, LANES = 32 };
  const double clock = 1.5e9;
  if (i->is_cpu) return SLOW;
  // A compute unit of a CUDA device takes so many warps a cycle, one of others at least one subgroup.
  int lanes = i->arch ? SCHEDULERS * LANES : MAX(i->subgroup, LANES);
  return (double)MAX(i->compute_units, 1) * lanes * OPS * clock;
}

double driver_speed(const char *driver, const char **why) {
  (void)driver;
  *why = "there is no driver";
  return 0;
}
