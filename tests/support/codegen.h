// codegen.h -- tests of generated code: a running tenon-codegen, and kernels run by it and by the
// interpreter.
#ifndef TENON_TESTS_SUPPORT_CODEGEN_H
#define TENON_TESTS_SUPPORT_CODEGEN_H

#include "base/machine.h"
#include "loop/loop.h"
#include "targets/llvm/protocol.h"

// One process for all tests of a run; false: there is none (no LLVM when it was built).
bool codegen_there(void);
// The reply lives in the arena.  False: the process is gone.
bool codegen_ask(const CodeRequest *r, Arena *a, CodeReply *out);
bool codegen_machine(const char *triple, const char *cpu, const char *features, Machine *out);
CodeRequest codegen_request(CodeKind kind, const Machine *m, const LoopKernel *k, Arena *a);
// Maps the kernel's image; NULL and a failed test when there is no code.  `bytes` is what
// codegen_unmap needs.
typedef struct Mapped {
  KernelFn *fn;
  void *at;
  int64_t bytes;
} Mapped;
// `kind`: CODE_IMAGE or CODE_CHECKED.
Mapped codegen_map(const LoopKernel *k, CodeKind kind, const Machine *m, Arena *a);
void codegen_unmap(Mapped m);

#endif
