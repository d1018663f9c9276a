// opencl.h -- devices of OpenCL 1.2 and up, found when first asked for through the system's loader.
//
// Kernels have the arguments that targets/cstyle writes: for each buffer its memory and the bytes
// from its start, the dims, the number of work items, scratch and the bytes of each of its slots,
// the buffer of faults and the number of the slot.
#ifndef TENON_RUNTIME_OPENCL_OPENCL_H
#define TENON_RUNTIME_OPENCL_OPENCL_H

#include "runtime/device.h"

extern const DeviceDriver opencl_driver;

struct OpenclApi;
// For tests: calls go to this table from now on, NULL: to the system's library.  No device may be
// open.
void opencl_use(const struct OpenclApi *api);
// The kernel's name in the source.
#define OPENCL_KERNEL "kernel_%d"
// What stands before each kernel; before the first one is what all need.
#define OPENCL_MARK "\n// ----\n"
// What stands before the next mark, which is taken off `rest`.  False: there is none, and all of it
// is the last part.
MUST_USE bool opencl_next_part(Str *rest, Str *part);

#endif
