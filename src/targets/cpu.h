// cpu.h -- the target `cpu`: machine code for this CPU.
#ifndef TENON_TARGETS_CPU_H
#define TENON_TARGETS_CPU_H

#include "targets/llvm/codegen.h"
#include "targets/target.h"

void cpu_describe(const Machine *m, LowerTarget *out);
bool cpu_available(const char **why);
void *cpu_open(const TargetOptions *o);
void cpu_close(void *opened);
bool cpu_maker(int threads, Arena *a, CacheMaker *out);
bool cpu_verified(void *opened, const TargetOptions *o, Str text);
// Gives code to a program that has one kernel and was lowered alone.
MUST_USE tenon_status cpu_put_code(const Compiled *c, const Machine *m, const Code *code, Arena *a,
                                   Diag *d);
MUST_USE tenon_status cpu_build(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d);

#endif
