// machine.c -- what the CPU that runs us can do.
//
// x86: CPUID says what the CPU has, XGETBV what the system saves.  Hypervisors hide leaves 0x1D and
// 0x1E, so AMX is taken from leaf 7, the saved state and the system's permission; palette 1 is then
// what there is.
#include "base/machine.h"
#include "base/machine_impl.h"
#include "base/notice.h"
#include "base/platform.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__riscv)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)

static uint64_t saved_state(void) {
  uint32_t lo, hi;
  __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

static uint32_t x86_features(void) {
  unsigned a, b, c, d, b7 = 0, c7 = 0, d7 = 0, a71 = 0, x;
  uint32_t has = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  if (__get_cpuid_count(7, 0, &x, &b7, &c7, &d7)) {
    unsigned most = x, y, z;
    if (most >= 1) __get_cpuid_count(7, 1, &a71, &x, &y, &z);
  }
  if ((c & bit_SSE4_1) && (c & bit_SSE4_2) && (c & bit_POPCNT) && (c & bit_SSSE3)) has |= CPU_SSE41;
  uint64_t saved = c & bit_OSXSAVE ? saved_state() : 0;
  bool ymm = (saved & 6) == 6, zmm = (saved & 0xE6) == 0xE6;
  if (ymm && (c & bit_AVX)) {
    has |= CPU_AVX;
    if (c & bit_F16C) has |= CPU_F16C;
    if (c & bit_FMA) has |= CPU_FMA;
    if ((b7 & bit_AVX2) && (b7 & bit_BMI) && (b7 & bit_BMI2)) has |= CPU_AVX2;
  }
  unsigned all = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F, DQ, CD, BW, VL
  uint32_t base = CPU_AVX2 | CPU_FMA | CPU_F16C;
  if (zmm && (b7 & all) == all && (has & base) == base) {
    has |= CPU_AVX512;
    if (c7 & 1u << 11) has |= CPU_VNNI;
    if (a71 & 1u << 5) has |= CPU_BF16;
    if (d7 & 1u << 23) has |= CPU_FP16;
    unsigned amx = 1u << 22 | 1u << 24 | 1u << 25;
    if ((d7 & amx) == amx && (saved & 0x60000) == 0x60000 && platform_allow_tiles()) has |= CPU_AMX;
  }
  return has;
}

static void x86_name(Machine *m) {
  unsigned r[12] = {0};
  for (unsigned i = 0; i < 3; i++)
    if (!__get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]))
      return;
  char text[49];
  memcpy(text, r, 48);
  text[48] = 0;
  const char *p = text;
  while (*p == ' ') p++;
  str_put(m->name, sizeof m->name, str_of(p));
}

// Deterministic cache parameters: leaf 4 on Intel, 0x8000001D on AMD.
static void x86_caches(Machine *m) {
  unsigned a, b, c, d;
  bool amd = __get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541;
  for (unsigned i = 0; i < 16; i++) {
    if (!__get_cpuid_count(amd ? 0x8000001D : 4, i, &a, &b, &c, &d) || !(a & 31)) return;
    int64_t bytes =
        ((int64_t)(b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((int64_t)c + 1);
    unsigned kind = a & 31, level = a >> 5 & 7;
    if (level == 1 && kind == 1) m->l1_bytes = bytes;
    if (level == 2) m->l2_bytes = bytes;
    if (level == 3) m->l3_bytes = bytes;
  }
}

// A name that promises nothing which this CPU, or the system, does not have.
static const char *x86_cpu(uint32_t has) {
  unsigned a = 0, b = 0, c, d;
  __get_cpuid(0, &a, &b, &c, &d);
  bool amd = b == 0x68747541;
  const uint32_t zen4 = CPU_AVX512 | CPU_VNNI | CPU_BF16, spr = zen4 | CPU_FP16 | CPU_AMX;
  const uint32_t haswell = CPU_AVX2 | CPU_FMA | CPU_F16C;
  if (!amd && (has & spr) == spr) return "sapphirerapids";
  if ((has & zen4) == zen4) return amd ? "znver4" : "cooperlake";
  if (has & CPU_AVX512) return has & CPU_VNNI ? "icelake-server" : "skylake-avx512";
  if ((has & haswell) == haswell) return amd ? "znver3" : "haswell";
  return has & CPU_SSE41 ? "x86-64-v2" : "x86-64";
}

// TENON_FEATURES=-avx512f: as if the CPU had it not.
static uint32_t allowed(const Machine *m) {
  static _Thread_local Diag d;
  const char *text = getenv("TENON_FEATURES");
  uint32_t has = m->has;
  diag_init(&d);
  if (text && machine_without(m, str_of(text), &has, &d))
    notice_add("TENON_FEATURES is ignored: %s", d.text);
  return has;
}
#endif

void machine_host(Machine *out) {
  *out = (Machine){.arch = ARCH_OTHER};
#if defined(__x86_64__)
  out->arch = ARCH_X86_64;
  out->has = x86_features();
  str_put(out->triple, sizeof out->triple, STR("x86_64-pc-linux-gnu"));
  out->has = allowed(out);
  str_put(out->cpu, sizeof out->cpu, str_of(x86_cpu(out->has)));
  x86_name(out);
  x86_caches(out);
#elif defined(__aarch64__)
  out->arch = ARCH_AARCH64;
  str_put(out->triple, sizeof out->triple, STR("aarch64-unknown-linux-gnu"));
  str_put(out->cpu, sizeof out->cpu, STR("generic"));
#elif defined(__riscv) && __riscv_xlen == 64
  out->arch = ARCH_RISCV64;
  str_put(out->triple, sizeof out->triple, STR("riscv64-unknown-linux-gnu"));
  str_put(out->cpu, sizeof out->cpu, STR("generic-rv64"));
  // The system gives one bit to each extension of one letter.
  if (getauxval(AT_HWCAP) >> ('v' - 'a') & 1) out->has |= CPU_RVV;
  str_put(out->features, sizeof out->features,
          out->has & CPU_RVV ? STR("+v,+m,+a,+f,+d,+c,-relax") : STR("+m,+a,+f,+d,+c,-relax"));
#endif
  if (out->arch == ARCH_X86_64) machine_put_features(out);
  out->cores = machine_threads();
  machine_derive(out);
}
