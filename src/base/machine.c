// machine.c -- CPU detection, and machines by name.
//
// x86: CPUID says what the CPU has, XGETBV what the system saves.  Hypervisors hide leaves 0x1D and 0x1E, so AMX is taken
// from leaf 7, the saved state and the system's permission; palette 1 is then what there is.
#include "base/machine.h"
#include "base/platform.h"

#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__riscv)
#include <sys/auxv.h>
#endif

// ---- features by name ----

typedef struct FeatureName {
  uint32_t bit;
  const char *names;  // in LLVM's words, all of which the bit stands for
} FeatureName;
static const FeatureName feature_names[] = {
    {CPU_SSE41, "sse3,ssse3,sse4.1,sse4.2,popcnt,cx16"},
    {CPU_AVX, "avx,xsave"},
    {CPU_F16C, "f16c"},
    {CPU_FMA, "fma"},
    {CPU_AVX2, "avx2,bmi,bmi2,lzcnt,movbe"},
    {CPU_AVX512, "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,evex512"},
    {CPU_VNNI, "avx512vnni"},
    {CPU_BF16, "avx512bf16"},
    {CPU_FP16, "avx512fp16"},
    {CPU_AMX, "amx-tile,amx-int8,amx-bf16"},
    {CPU_RVV, "v"},
};
typedef struct Level {
  const char *name;
  uint32_t has;
} Level;
enum {
  LEVEL_2 = CPU_SSE41,
  LEVEL_3 = LEVEL_2 | CPU_AVX | CPU_F16C | CPU_FMA | CPU_AVX2,
  LEVEL_4 = LEVEL_3 | CPU_AVX512,
  LEVEL_ICX = LEVEL_4 | CPU_VNNI,
  LEVEL_ZEN4 = LEVEL_ICX | CPU_BF16,
};
static const Level levels[] = {
    {"x86-64", 0},
    {"x86-64-v2", LEVEL_2},
    {"x86-64-v3", LEVEL_3},
    {"x86-64-v4", LEVEL_4},
    {"haswell", LEVEL_3},
    {"znver2", LEVEL_3},
    {"znver3", LEVEL_3},
    {"skylake", LEVEL_3},
    {"skylake-avx512", LEVEL_4},
    {"cascadelake", LEVEL_ICX},
    {"icelake-server", LEVEL_ICX},
    {"znver4", LEVEL_ZEN4},
    {"znver5", LEVEL_ZEN4},
    {"sapphirerapids", LEVEL_ZEN4 | CPU_FP16 | CPU_AMX},
    {"emeraldrapids", LEVEL_ZEN4 | CPU_FP16 | CPU_AMX},
};

static void put(char *out, size_t cap, Str s) {
  size_t n = (size_t)MIN(s.n, (int64_t)cap - 1);
  memcpy(out, s.p, n);
  out[n] = 0;
}

// The next item of a list separated by commas.
static bool next_item(Str *list, Str *item) {
  if (!list->n) return false;
  const char *comma = memchr(list->p, ',', (size_t)list->n);
  *item = (Str){list->p, comma ? comma - list->p : list->n};
  int64_t used = item->n + (comma != NULL);
  *list = (Str){list->p + used, list->n - used};
  return true;
}

static uint32_t bits_of_name(Str name) {
  uint32_t r = 0;
  for (int i = 0; i < ARRAY_LEN(feature_names); i++) {
    Str list = str_of(feature_names[i].names), item;
    while (next_item(&list, &item)) {
      // A group counts by its main name: the last of SSE4.2, AVX-512F and the like.
      bool main_name = str_is(item, "sse4.1") || str_is(item, "avx") || str_is(item, "avx2") ||
                       str_is(item, "avx512bw") || str_is(item, "amx-tile") ||
                       !memchr(feature_names[i].names, ',', strlen(feature_names[i].names));
      if (main_name && str_eq(item, name)) r |= feature_names[i].bit;
    }
  }
  return r;
}

static void append_features(Machine *m, uint32_t has) {
  for (int i = 0; i < ARRAY_LEN(feature_names); i++) {
    if (!(has & feature_names[i].bit)) continue;
    Str list = str_of(feature_names[i].names), item;
    while (next_item(&list, &item)) {
      size_t n = strlen(m->features);
      snprintf(m->features + n, sizeof m->features - n, "%s+%.*s", n ? "," : "", STR_ARG(item));
    }
  }
}

// Wider groups need the narrower: a list that says only avx512 means all below it.
static uint32_t closure(uint32_t has) {
  if (has & (CPU_VNNI | CPU_BF16 | CPU_FP16 | CPU_AMX)) has |= CPU_AVX512;
  if (has & CPU_AVX512) has |= LEVEL_3;
  if (has & (CPU_AVX2 | CPU_FMA | CPU_F16C)) has |= CPU_AVX;
  if (has & CPU_AVX) has |= CPU_SSE41;
  return has;
}

static void derive(Machine *m) {
  switch (m->arch) {
  case ARCH_X86_64:
    m->vector_bytes = m->has & CPU_AVX512 ? 64 : m->has & CPU_AVX2 ? 32 : 16;
    m->has_fma = (m->has & CPU_FMA) != 0;
    m->has_f16 = (m->has & CPU_F16C) != 0;
    m->has_round = (m->has & CPU_SSE41) != 0;
    break;
  case ARCH_AARCH64:
    m->vector_bytes = 16;
    m->has_fma = m->has_f16 = m->has_round = true;
    break;
  case ARCH_RISCV64:
    m->vector_bytes = m->has & CPU_RVV ? 16 : 4;
    m->has_fma = true;
    break;
  case ARCH_OTHER: m->vector_bytes = 16; break;
  }
  if (!m->l1_bytes) m->l1_bytes = 32 << 10;
  if (!m->l2_bytes) m->l2_bytes = m->arch == ARCH_X86_64 ? 1 << 20 : 512 << 10;
  if (!m->l3_bytes) m->l3_bytes = 8 << 20;
  if (!m->name[0]) put(m->name, sizeof m->name, str_of(m->cpu));
}

bool machine_make(Str triple, Str cpu, Str features, Machine *out) {
  *out = (Machine){.arch = ARCH_OTHER, .cores = 1};
  if (triple.n >= (int64_t)sizeof out->triple || cpu.n >= (int64_t)sizeof out->cpu ||
      features.n > 400)
    return false;
  put(out->triple, sizeof out->triple, triple);
  if (str_starts(triple, "x86_64")) out->arch = ARCH_X86_64;
  if (str_starts(triple, "aarch64") || str_starts(triple, "arm64")) out->arch = ARCH_AARCH64;
  if (str_starts(triple, "riscv64")) out->arch = ARCH_RISCV64;
  if (out->arch == ARCH_OTHER) return false;
  static const char *const plain[] = {"x86-64", "generic", "generic-rv64"};
  put(out->cpu, sizeof out->cpu, cpu.n ? cpu : str_of(plain[out->arch]));
  for (int i = 0; i < ARRAY_LEN(levels); i++)
    if (str_is(str_of(out->cpu), levels[i].name)) out->has |= levels[i].has;
  uint32_t without = 0;
  Str list = features, item, unknown[64];
  int nunknown = 0;
  while (next_item(&list, &item)) {
    bool minus = item.n && item.p[0] == '-';
    Str name = {item.p + 1, item.n - 1};
    uint32_t bit = item.n > 1 ? bits_of_name(name) : 0;
    if (bit && minus)
      without |= bit;
    else if (bit)
      out->has |= bit;
    else if (item.n && nunknown < (int)ARRAY_LEN(unknown))
      unknown[nunknown++] = item;
  }
  if (out->arch == ARCH_X86_64) out->has = closure(out->has) & ~without;
  append_features(out, out->has);
  for (int i = 0; i < nunknown;
       i++) {  // LLVM may know them; ours come first, so that these can take away
    size_t n = strlen(out->features);
    if (n + (size_t)unknown[i].n + 2 > sizeof out->features) return false;
    snprintf(out->features + n, sizeof out->features - n, "%s%.*s", n ? "," : "",
             STR_ARG(unknown[i]));
  }
  if (out->arch == ARCH_RISCV64) {
    size_t n = strlen(out->features);
    snprintf(out->features + n, sizeof out->features - n, "%s+m,+a,+f,+d,+c,-relax", n ? "," : "");
  }
  derive(out);
  return true;
}

uint64_t machine_hash(const Machine *m) {
  uint64_t h = hash_bytes(m->triple, (int64_t)strlen(m->triple), 1);
  h = hash_bytes(m->cpu, (int64_t)strlen(m->cpu), h);
  return hash_bytes(m->features, (int64_t)strlen(m->features), h);
}

// ---- this machine ----

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
  put(m->name, sizeof m->name, str_of(p));
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

static const char *x86_cpu(uint32_t has) {
  unsigned a = 0, b = 0, c, d;
  __get_cpuid(0, &a, &b, &c, &d);
  bool amd = b == 0x68747541;
  if (has & CPU_AMX) return "sapphirerapids";
  if (has & CPU_AVX512)
    return amd              ? "znver4"
           : has & CPU_FP16 ? "sapphirerapids"
           : has & CPU_VNNI ? "icelake-server"
                            : "skylake-avx512";
  if (has & CPU_AVX2) return amd ? "znver3" : "haswell";
  return has & CPU_SSE41 ? "x86-64-v2" : "x86-64";
}
#endif

void machine_host(Machine *out) {
  *out = (Machine){.arch = ARCH_OTHER};
#if defined(__x86_64__)
  out->arch = ARCH_X86_64;
  out->has = x86_features();
  put(out->triple, sizeof out->triple, STR("x86_64-pc-linux-gnu"));
  put(out->cpu, sizeof out->cpu, str_of(x86_cpu(out->has)));
  x86_name(out);
  x86_caches(out);
#elif defined(__aarch64__)
  out->arch = ARCH_AARCH64;
  put(out->triple, sizeof out->triple, STR("aarch64-unknown-linux-gnu"));
  put(out->cpu, sizeof out->cpu, STR("generic"));
#elif defined(__riscv) && __riscv_xlen == 64
  out->arch = ARCH_RISCV64;
  put(out->triple, sizeof out->triple, STR("riscv64-unknown-linux-gnu"));
  put(out->cpu, sizeof out->cpu, STR("generic-rv64"));
  // The system gives one bit to each extension of one letter.
  if (getauxval(AT_HWCAP) >> ('v' - 'a') & 1) out->has |= CPU_RVV;
  put(out->features, sizeof out->features,
      out->has & CPU_RVV ? STR("+v,+m,+a,+f,+d,+c,-relax") : STR("+m,+a,+f,+d,+c,-relax"));
#endif
  if (out->arch == ARCH_X86_64) append_features(out, out->has);
  out->cores = machine_threads();
  derive(out);
}
