// machine_names.c -- machines by the names of triples, CPUs and features.
//
// Features come in sets that no CPU splits (AVX-512 here is F, BW, CD, DQ and VL), and a set needs
// others.  Adding a feature also adds those that it needs; removing one also removes those that
// depend on it.  An unknown name is an error: ignoring it would give slow code, or code that the
// CPU cannot run.
#include "base/machine.h"
#include "base/machine_impl.h"

#include <stdio.h>

typedef struct FeatureGroup {
  uint32_t bit, needs;
  const char *main;  // names that stand for the group
  const char *side;  // names that come with it: adding one of them alone adds nothing
} FeatureGroup;
static const FeatureGroup groups[] = {
    {CPU_SSE41, 0, "sse4.1,sse4.2", "sse3,ssse3,popcnt,cx16"},
    {CPU_AVX, CPU_SSE41, "avx", "xsave"},
    {CPU_F16C, CPU_AVX, "f16c", ""},
    {CPU_FMA, CPU_AVX, "fma", ""},
    {CPU_AVX2, CPU_AVX, "avx2", "bmi,bmi2,lzcnt,movbe"},
    {CPU_AVX512, CPU_AVX2 | CPU_FMA | CPU_F16C, "avx512f,avx512bw,avx512dq,avx512vl",
     "avx512cd,evex512"},
    {CPU_VNNI, CPU_AVX512, "avx512vnni", ""},
    {CPU_BF16, CPU_AVX512, "avx512bf16", ""},
    {CPU_FP16, CPU_AVX512, "avx512fp16", ""},
    {CPU_AMX, CPU_AVX512, "amx-tile,amx-int8,amx-bf16", ""},
    {CPU_RVV, 0, "v", ""},
};
// Names that only LLVM uses, by architecture.
static const char *const passed_on[] = {
    [ARCH_X86_64] = "",
    [ARCH_AARCH64] = "neon,crc,lse,fullfp16,fp16fml,dotprod,i8mm,bf16,sve,sve2",
    [ARCH_RISCV64] = "m,a,f,d,c,relax,zba,zbb,zbs,zfh,zfhmin,zvfh,zvl128b,zvl256b,zvl512b",
};

enum {
  LEVEL_2 = CPU_SSE41,
  LEVEL_3 = LEVEL_2 | CPU_AVX | CPU_F16C | CPU_FMA | CPU_AVX2,
  LEVEL_4 = LEVEL_3 | CPU_AVX512,
  LEVEL_VNNI = LEVEL_4 | CPU_VNNI,
  LEVEL_BF16 = LEVEL_VNNI | CPU_BF16,
  LEVEL_AMX = LEVEL_BF16 | CPU_FP16 | CPU_AMX,
};
typedef struct CpuRow {
  MachineArch arch;
  uint32_t has;
  const char *names;
} CpuRow;
static const CpuRow cpus[] = {
    {ARCH_X86_64, 0, "x86-64"},
    {ARCH_X86_64, LEVEL_2, "x86-64-v2,nehalem,westmere,silvermont,goldmont,tremont,btver1"},
    {ARCH_X86_64, LEVEL_2 | CPU_AVX, "sandybridge,bdver1"},
    {ARCH_X86_64, LEVEL_2 | CPU_AVX | CPU_F16C, "ivybridge,btver2"},
    {ARCH_X86_64, LEVEL_3,
     "x86-64-v3,haswell,broadwell,skylake,alderlake,raptorlake,meteorlake,arrowlake,lunarlake,"
     "gracemont,sierraforest,znver1,znver2,znver3"},
    {ARCH_X86_64, LEVEL_4, "x86-64-v4,skylake-avx512,skx,cannonlake"},
    {ARCH_X86_64, LEVEL_VNNI, "cascadelake,icelake-client,icelake-server,tigerlake,rocketlake"},
    {ARCH_X86_64, LEVEL_BF16, "cooperlake,znver4,znver5"},
    {ARCH_X86_64, LEVEL_AMX, "sapphirerapids,emeraldrapids,graniterapids,graniterapids-d"},
    {ARCH_AARCH64, 0,
     "generic,cortex-a53,cortex-a55,cortex-a57,cortex-a72,cortex-a76,cortex-a78,cortex-x1,"
     "neoverse-n1,neoverse-n2,neoverse-v1,neoverse-v2,apple-m1,apple-m2,apple-m3,ampere1,a64fx"},
    {ARCH_RISCV64, 0, "generic-rv64,sifive-u74,sifive-x280,spacemit-x60,veyron-v1"},
};

void str_put(char *out, size_t cap, Str s) {
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

static bool is_listed(const char *names, Str name) {
  Str list = str_of(names), item;
  while (next_item(&list, &item))
    if (str_eq(item, name)) return true;
  return false;
}

// ---- features ----

static bool put_feature(Machine *m, Str sign, Str name) {
  size_t n = strlen(m->features);
  if (n + (size_t)(sign.n + name.n) + 2 > sizeof m->features) return false;
  snprintf(m->features + n, sizeof m->features - n, "%s%.*s%.*s", n ? "," : "", STR_ARG(sign),
           STR_ARG(name));
  return true;
}

void machine_put_features(Machine *m) {
  for (int i = 0; i < ARRAY_LEN(groups); i++)
    for (int side = 0; side < 2 && m->has & groups[i].bit; side++) {
      Str list = str_of(side ? groups[i].side : groups[i].main), item;
      while (next_item(&list, &item)) put_feature(m, STR("+"), item);
    }
}

static uint32_t with_needs(uint32_t has) {
  for (int i = ARRAY_LEN(groups) - 1; i >= 0; i--)  // a group comes after what it needs
    if (has & groups[i].bit) has |= groups[i].needs;
  return has;
}

static uint32_t without(uint32_t has, uint32_t gone) {
  has &= ~gone;
  for (int i = 0; i < ARRAY_LEN(groups); i++)
    if ((groups[i].needs & has) != groups[i].needs) has &= ~groups[i].bit;
  return has;
}

// "+NAME" or "-NAME": into the groups added and taken away; what only LLVM uses goes to the
// features as it is.
static tenon_status take_feature(Machine *m, Str item, uint32_t *added, uint32_t *gone, Diag *d) {
  Str name = {item.p + 1, item.n - 1};
  bool known = item.n > 1 && (item.p[0] == '+' || item.p[0] == '-');
  bool found = false;
  for (int i = 0; known && i < ARRAY_LEN(groups); i++) {
    if ((groups[i].bit == CPU_RVV) != (m->arch == ARCH_RISCV64) || m->arch == ARCH_AARCH64)
      continue;
    bool main_name = is_listed(groups[i].main, name), side = is_listed(groups[i].side, name);
    found |= main_name || side;
    if (main_name && item.p[0] == '+') *added |= groups[i].bit;
    if ((main_name || side) && item.p[0] == '-') *gone |= groups[i].bit;
  }
  if (found) return TENON_OK;
  if (known && is_listed(passed_on[m->arch], name)) {
    if (put_feature(m, (Str){item.p, 1}, name)) return TENON_OK;
    return fail(d, TENON_EINVAL, NOWHERE, "too many features");
  }
  return fail(
      d, TENON_EINVAL, NOWHERE,
      "'%.*s' is no feature of %s that code is made for: +NAME or -NAME, in the words of compilers",
      STR_ARG(item), m->triple);
}

// ---- machines ----

void machine_derive(Machine *m) {
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
  if (!m->name[0]) str_put(m->name, sizeof m->name, str_of(m->cpu));
}

static tenon_status take_cpu(Machine *m, Str cpu, Diag *d) {
  static const char *const plain[] = {"x86-64", "generic", "generic-rv64"};
  Str name = cpu.n ? cpu : str_of(plain[m->arch]);
  char known[640] = "";
  for (int i = 0; i < ARRAY_LEN(cpus); i++) {
    if (cpus[i].arch != m->arch) continue;
    if (is_listed(cpus[i].names, name)) {
      str_put(m->cpu, sizeof m->cpu, name);
      m->has = cpus[i].has;
      return TENON_OK;
    }
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, "%s%s", n ? "," : "", cpus[i].names);
  }
  return fail(d, TENON_EINVAL, NOWHERE,
              "'%.*s' is no CPU of %s that code is made for; known are %s", STR_ARG(name),
              m->triple, known);
}

tenon_status machine_make(Str triple, Str cpu, Str features, Machine *out, Diag *d) {
  Machine m = {.arch = ARCH_OTHER, .cores = 1};
  if (str_starts(triple, "x86_64")) m.arch = ARCH_X86_64;
  if (str_starts(triple, "aarch64") || str_starts(triple, "arm64")) m.arch = ARCH_AARCH64;
  if (str_starts(triple, "riscv64")) m.arch = ARCH_RISCV64;
  if (m.arch == ARCH_OTHER || triple.n >= (int64_t)sizeof m.triple)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "no code can be made for the triple '%.*s': x86_64, aarch64 and riscv64 are known",
                STR_ARG(triple));
  str_put(m.triple, sizeof m.triple, triple);
  TRY(take_cpu(&m, cpu, d));
  Machine passed = {.arch = m.arch};
  str_put(passed.triple, sizeof passed.triple, triple);
  uint32_t added = 0, gone = 0;
  for (Str list = features, item; next_item(&list, &item);)
    TRY(take_feature(&passed, item, &added, &gone, d));
  m.has = without(with_needs(m.has | added), gone);
  machine_put_features(&m);
  if (m.arch == ARCH_RISCV64 && !strstr(passed.features, "relax"))
    put_feature(&m, STR(""), STR("+m,+a,+f,+d,+c,-relax"));
  // What LLVM alone uses comes last, so that it can take away.
  if (passed.features[0] && !put_feature(&m, STR(""), str_of(passed.features)))
    return fail(d, TENON_EINVAL, NOWHERE, "too many features");
  machine_derive(&m);
  *out = m;
  return TENON_OK;
}

tenon_status machine_without(const Machine *m, Str features, uint32_t *has, Diag *d) {
  Machine passed = *m;
  uint32_t added = 0, gone = 0;
  for (Str list = features, item; next_item(&list, &item);) {
    if (!item.n || item.p[0] != '-')
      return fail(d, TENON_EINVAL, NOWHERE, "'%.*s' is no feature to remove: -NAME", STR_ARG(item));
    TRY(take_feature(&passed, item, &added, &gone, d));
  }
  *has = without(m->has, gone);
  return TENON_OK;
}

bool machine_is_linux(const Machine *m) {
  const char *system = strchr(m->triple, '-');
  return !system || strstr(system, "linux") || !strcmp(system, "-unknown");
}

double machine_speed(const Machine *m) {
  enum { PORTS = 2, OPS = 2 };  // vectors a cycle; a product and a sum
  const double clock = 3e9;
  return m->cores * clock * PORTS * OPS * MAX(m->vector_bytes, 4) / 4;
}

uint64_t machine_hash(const Machine *m) {
  uint64_t h = hash_bytes(m->triple, (int64_t)strlen(m->triple), 1);
  h = hash_bytes(m->cpu, (int64_t)strlen(m->cpu), h);
  return hash_bytes(m->features, (int64_t)strlen(m->features), h);
}
