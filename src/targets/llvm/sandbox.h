// sandbox.h -- the rights of tenon-codegen: memory, processor time, standard input, output and
// error.
#ifndef TENON_TARGETS_LLVM_SANDBOX_H
#define TENON_TARGETS_LLVM_SANDBOX_H

#include "base/confine.h"

typedef struct SandboxLimits {
  int64_t memory;       // bytes, on top of LLVM itself
  int64_t cpu_seconds;  // of one kernel
} SandboxLimits;

// Once LLVM is initialised and before the first request is read.  What is missing is reported, and
// no error.
void sandbox_enter(const SandboxLimits *l, Layers *out);
// Around a kernel.  One that makes a system call which is not allowed, or takes too long, gets an
// error as its reply, and the process ends.
void sandbox_begin_kernel(void);
void sandbox_end_kernel(void);

#endif
