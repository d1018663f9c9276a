// machine.h -- what a CPU can do: the one that runs us, or one that code is made for.
//
// A machine is a triple, a CPU name and a list of features in LLVM's words; the rest is read from
// those.  `machine_host` asks the CPU itself, and trusts a feature only when the system saves its
// registers too.
#ifndef TENON_BASE_MACHINE_H
#define TENON_BASE_MACHINE_H

#include "base/base.h"

typedef enum { ARCH_X86_64, ARCH_AARCH64, ARCH_RISCV64, ARCH_OTHER } MachineArch;
typedef enum {
  CPU_SSE41 = 1,
  CPU_AVX = 2,
  CPU_F16C = 4,
  CPU_FMA = 8,
  CPU_AVX2 = 16,
  CPU_AVX512 = 32,  // F, BW, CD, DQ and VL together
  CPU_VNNI = 64,    // AVX512_VNNI
  CPU_BF16 = 128,   // AVX512_BF16
  CPU_FP16 = 256,   // AVX512_FP16
  CPU_AMX = 512,    // TILE, INT8 and BF16, with the system's leave to use them
  CPU_RVV = 1024,   // RISC-V vectors of 128 bits or more
} CpuFeature;

typedef struct Machine {
  MachineArch arch;
  char triple[64], cpu[64];
  char features[512];  // "+avx2,+fma": LLVM's names, all that count, so that none is implied by the
                       // name
  char name[64];       // for people: the brand, or the CPU name
  uint32_t has;        // CpuFeature
  int vector_bytes;    // of a register
  bool has_fma, has_f16, has_round;  // fused multiply-add; f16 conversions; rounding to integers
  int64_t l1_bytes, l2_bytes, l3_bytes;  // of data, per core but for l3; a guess where unknown
  int cores;                             // that this process may use; 1 for another machine
} Machine;

// This machine, less what TENON_FEATURES takes away ("-avx512f").
void machine_host(Machine *out);
// Another machine, by names that LLVM has too: `cpu` and `features` ("+avx2,-fma") may be empty.
// For x86 the CPU may be a level, x86-64 to x86-64-v4.  EUNSUPPORTED: a triple of no architecture
// that we know; EINVAL: an unknown CPU or feature.  Whether the triple names Linux, or no system at
// all: what Tenon's runtime loads code on.
bool machine_is_linux(const Machine *m);
MUST_USE tenon_status machine_make(Str triple, Str cpu, Str features, Machine *out, Diag *d);
// Products and sums of f32 a second, of all its cores, at most and roughly: for choosing between
// machines.
double machine_speed(const Machine *m);
// A number that differs when code for one machine may not run on the other.
uint64_t machine_hash(const Machine *m);

#endif
