// opencl.h -- the target `opencl`: kernels as OpenCL C, for any device that has a driver.
#ifndef TENON_TARGETS_OPENCL_OPENCL_H
#define TENON_TARGETS_OPENCL_OPENCL_H

#include "targets/target.h"

bool opencl_available(const char **why);
void opencl_describe(const DeviceInfo *i, LowerTarget *out);
void *opencl_begin(const DeviceInfo *i, const TargetOptions *o, Arena *a);
tenon_status opencl_takes(void *text, const LoopKernel *k, const char **why);
MUST_USE tenon_status opencl_finish_text(void *text, Diag *d, Str *code);
Str opencl_kernel_text(Str code, int64_t n);

#endif
