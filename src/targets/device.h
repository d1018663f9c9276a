// device.h -- compiling for one device: the device itself while the model is lowered, and its
// kernels' text.
#ifndef TENON_TARGETS_DEVICE_H
#define TENON_TARGETS_DEVICE_H

#include "targets/target.h"

typedef struct DeviceTarget {
  const Target *target;
  const TargetOptions *options;
  const DeviceDriver *driver;
  Device *device;
  void *text;  // of Target.begin
  // Of a target that shares the work with the host (split.h).
  Arena *arena;
  const struct Assignment *assignment;
  int64_t nplaced;
} DeviceTarget;

// Opens the device and lets the kernels be lowered for it, as device 1.
MUST_USE tenon_status device_begin(DeviceTarget *t, const Target *target, const TargetOptions *o,
                                   Arena *a, Diag *d, LowerOptions *lo);
// The program gets its table of devices, and the code.
MUST_USE tenon_status device_finish(DeviceTarget *t, const Compiled *c, Diag *d);
void device_release(DeviceTarget *t);  // whatever there is

#endif
