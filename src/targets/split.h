// split.h -- one graph over the host and a device: `--target cpu,opencl`.
//
// Each kernel goes where a cost model says that the whole is fastest, copies included
// (plan/placement.h); the host does by machine code what is its own.  Rules say otherwise:
// "GLOB=opencl" for the kernels whose name fits, "alternate" for one here, one there.
#ifndef TENON_TARGETS_SPLIT_H
#define TENON_TARGETS_SPLIT_H

#include "targets/device.h"

// After device_begin: which kernels the device gets.  EINVAL: a rule is none.
MUST_USE tenon_status split_begin(DeviceTarget *t, Graph *g, const MemPlan *plan, Arena *a, Diag *d,
                                  LowerOptions *lo);

#endif
