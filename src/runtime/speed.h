// speed.h -- how fast the machines that are here are, for choosing among them.
#ifndef TENON_RUNTIME_SPEED_H
#define TENON_RUNTIME_SPEED_H

#include "runtime/device.h"

// Products and sums of f32 a second at most, roughly; a device that shares the host's cores is
// slower than these are by themselves.
double device_speed(const DeviceInfo *i);
// Of the driver's device of choice; 0 and a reason when it has none.  For ArtifactLoad.speed.
double driver_speed(const char *driver, const char **why);

#endif
