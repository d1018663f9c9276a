// cuda.h -- the target `cuda`: kernels as CUDA C++ for NVIDIA's GPUs, compiled where they run.
#ifndef TENON_TARGETS_CUDA_CUDA_H
#define TENON_TARGETS_CUDA_CUDA_H

#include "targets/target.h"

bool cuda_available(const char **why);
void cuda_describe(const DeviceInfo *i, LowerTarget *out);
void *cuda_begin(const DeviceInfo *i, const TargetOptions *o, Arena *a);
tenon_status cuda_takes(void *text, const LoopKernel *k, const char **why);
MUST_USE tenon_status cuda_finish_text(void *text, Diag *d, Str *code);
Str cuda_kernel_text(Str code, int64_t n);

#endif
