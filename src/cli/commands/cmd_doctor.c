// cmd_doctor.c -- `tenon doctor`: what this machine has, what is missing, and how to get it.
//
// Nothing is changed and nothing is fetched.  Only what is listed as needed for running is needed
// by the program itself; the rest is for building, testing and drawing.
#include "cli/cli.h"
#include "cli/bench/peak.h"
#include "cli/commands/layers.h"
#include "cli/confine.h"

#include "base/platform.h"

#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct Machine {
  char cpu[64];
  const char *feature[40];
  int nfeatures;
  int64_t cores, usable, memory, memory_limit;
  int64_t cache[4];  // L1 data, L1 instruction, L2, L3
  struct utsname os;
} Machine;

// ---- the processor ----
static void add_feature(Machine *m, const char *name, bool has) {
  if (has) m->feature[m->nfeatures++] = name;
}

#if defined(__x86_64__)
static void cpu_features(Machine *m) {
  unsigned r[12], a, b, c, d;
  for (unsigned k = 0; k < 3; k++)
    if (!__get_cpuid(0x80000002 + k, &r[4 * k], &r[4 * k + 1], &r[4 * k + 2], &r[4 * k + 3]))
      return;
  memcpy(m->cpu, r, 48);
  __builtin_cpu_init();
  add_feature(m, "sse2", __builtin_cpu_supports("sse2"));
  add_feature(m, "sse4.2", __builtin_cpu_supports("sse4.2"));
  add_feature(m, "avx", __builtin_cpu_supports("avx"));
  add_feature(m, "avx2", __builtin_cpu_supports("avx2"));
  add_feature(m, "fma", __builtin_cpu_supports("fma"));
  add_feature(m, "avx512f", __builtin_cpu_supports("avx512f"));
  add_feature(m, "avx512bw", __builtin_cpu_supports("avx512bw"));
  add_feature(m, "avx512vl", __builtin_cpu_supports("avx512vl"));
  add_feature(m, "avx512vnni", __builtin_cpu_supports("avx512vnni"));
  // Newer than the compilers' list: leaf 7 says so itself.
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    add_feature(m, "amx-bf16", d >> 22 & 1);
    add_feature(m, "avx512fp16", d >> 23 & 1);
    add_feature(m, "amx-tile", d >> 24 & 1);
    add_feature(m, "amx-int8", d >> 25 & 1);
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    add_feature(m, "avx-vnni", a >> 4 & 1);
    add_feature(m, "avx512bf16", a >> 5 & 1);
  }
}
#else
static void cpu_features(Machine *m) {
  add_feature(m, m->os.machine, true);
  snprintf(m->cpu, sizeof m->cpu, "%.60s", m->os.machine);
}
#endif

// The first bytes of a file of /proc or /sys, which have no size to map; "" when it cannot be read.
static void read_small(const char *path, char *out, int64_t cap) {
  int fd;
  int64_t size, got = 0;
  out[0] = 0;
  if (platform->open_read(path, &fd, &size)) return;
  if (platform->read(fd, out, cap - 1, &got)) got = 0;
  out[MAX(got, 0)] = 0;
  platform->close(fd);
}

static int64_t cgroup_memory(void) {
  char text[64];
  int64_t n;
  read_small("/sys/fs/cgroup/memory.max", text, sizeof text);
  if (!*text) read_small("/sys/fs/cgroup/memory/memory.limit_in_bytes", text, sizeof text);
  text[strcspn(text, "\n")] = 0;
  return str_to_i64(str_of(text), &n) ? n : INT64_MAX;
}

static int64_t cache_bytes(int level, const char *type) {
  for (int i = 0; i < 8; i++) {
    char path[96], text[32];
    int64_t n;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    read_small(path, text, sizeof text);
    if (text[0] != '0' + level) continue;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
    read_small(path, text, sizeof text);
    if (strncmp(text, type, strlen(type)) && strncmp(text, "Unified", 7)) continue;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    read_small(path, text, sizeof text);
    int64_t digits = (int64_t)strspn(text, "0123456789");
    if (!str_to_i64((Str){text, digits}, &n)) return 0;
    return text[digits] == 'K' ? n << 10 : text[digits] == 'M' ? n << 20 : n;
  }
  return 0;
}

static void look_at_machine(Machine *m) {
  *m = (Machine){0};
  uname(&m->os);
  cpu_features(m);
  m->cores = sysconf(_SC_NPROCESSORS_ONLN);
  m->usable = machine_threads();
  m->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  m->memory_limit = MIN(m->memory, cgroup_memory());
  m->cache[0] = cache_bytes(1, "Data");
  m->cache[1] = cache_bytes(1, "Instruction");
  m->cache[2] = cache_bytes(2, "Unified");
  m->cache[3] = cache_bytes(3, "Unified");
}

// ---- programs and libraries ----
typedef struct Tool {
  const char *programs;  // names to look for, separated by spaces
  const char *use, *get;
} Tool;
// clang-format off
static const Tool tools[] = {
  {"tar",                                     "conform: unpacking suites",        "apt install tar"},
  {"xz",                                      "conform: unpacking .tar.xz suites", "apt install xz-utils"},
  {"gcc cc",                                  "building Tenon",                   "apt install gcc libc6-dev"},
  {"cmake",                                   "building Tenon",                   "apt install cmake"},
  {"ninja",                                   "building Tenon",                   "apt install ninja-build"},
  {"ccache",                                  "building Tenon faster",            "apt install ccache"},
  {"clang clang-14",                          "sanitizers and fuzzing",           "apt install clang libclang-rt-14-dev"},
  {"clang-format clang-format-14",            "formatting the source",            "apt install clang-format"},
  {"python3",                                 "tests against ONNX Runtime",       "apt install python3 python3-venv"},
  {"chromium chromium-browser google-chrome", "testing the pages of tenon graph", "apt install chromium"},
  {"dot",                                     "laying out .dot files",            "apt install graphviz"},
};
static const char *const packages[] = {"numpy", "onnx", "onnxruntime"};
// clang-format on

// The full path of the first of the names that PATH has, or NULL.
static const char *find_program(Arena *a, const char *names) {
  const char *path = getenv("PATH");
  for (const char *n = names; *n; n += strspn(n, " ")) {
    int64_t len = (int64_t)strcspn(n, " ");
    for (const char *p = path ? path : ""; *p; p += *p == ':') {
      int64_t dir = (int64_t)strcspn(p, ":");
      const char *full = str_printf(a, "%.*s/%.*s", (int)dir, p, (int)len, n);
      if (!access(full, X_OK)) return full;
      p += dir;
    }
    n += len;
  }
  return NULL;
}

// Asks Python which packages it could import, without importing them: one bit each, -1 without
// Python.
static int python_packages(void) {
  FILE *p =
      popen("python3 -c 'import importlib.util as u; print(\"\".join(str(int(u.find_spec(n) is not "
            "None)) for n in (\"numpy\", \"onnx\", \"onnxruntime\")))' 2>/dev/null",
            "r");
  char text[16] = "";
  if (!p) return -1;
  if (!fgets(text, sizeof text, p)) text[0] = 0;
  pclose(p);
  if (strlen(text) < 3) return -1;
  return (text[0] == '1') | (text[1] == '1') << 1 | (text[2] == '1') << 2;
}

// ---- output ----
static void print_machine(const Machine *m) {
  NumText a, b;
  printf("tenon %s, zlib %s\n\n", TENON_VERSION, zlibVersion());
  printf("processor   %s\n", m->cpu[0] ? m->cpu : m->os.machine);
  printf("features   ");
  for (int i = 0; i < m->nfeatures; i++) printf(" %s", m->feature[i]);
  printf("%s\n", m->nfeatures ? "" : " (not known for this architecture)");
  printf("cores       %lld, of which this process may use %lld\n", (long long)m->cores,
         (long long)m->usable);
  printf("caches      L1 %s data, %s code;", text_bytes(&a, m->cache[0]),
         text_bytes(&b, m->cache[1]));
  printf(" L2 %s; L3 %s\n", text_bytes(&a, m->cache[2]), text_bytes(&b, m->cache[3]));
  printf("memory      %s", text_bytes(&a, m->memory));
  if (m->memory_limit < m->memory) printf(", limited to %s", text_bytes(&b, m->memory_limit));
  printf("\nsystem      %s %s %s\n\n", m->os.sysname, m->os.release, m->os.machine);
}

static void print_tools(Cli *c) {
  int missing = 0;
  for (int64_t i = 0; i < ARRAY_LEN(tools); i++) {
    const char *found = find_program(&c->arena, tools[i].programs);
    int len = (int)strcspn(tools[i].programs, " ");
    printf("%-3s %-14.*s %-34s %s%s\n", found ? "ok" : "--", len, tools[i].programs, tools[i].use,
           found ? found : "missing: ", found ? "" : tools[i].get);
    missing += !found;
  }
  int have = python_packages();
  for (int64_t i = 0; i < ARRAY_LEN(packages); i++) {
    bool found = have > 0 && have >> i & 1;
    printf("%-3s %-14s %-34s %s\n", found ? "ok" : "--", packages[i], "tests against ONNX Runtime",
           found ? "Python package" : "missing; `make test` fetches it into build/venv");
  }
  printf("\nRunning models needs none of these%s.\n",
         missing ? "; `make` and `make test` install what they need themselves" : "");
}

static void json_machine(JsonWriter *w, const Machine *m) {
  static const char *const cache_names[] = {"l1d", "l1i", "l2", "l3"};
  json_key(w, "version");
  json_cstr(w, TENON_VERSION);
  json_key(w, "zlib");
  json_cstr(w, zlibVersion());
  json_key(w, "system");
  json_cstr(w, m->os.sysname);
  json_key(w, "release");
  json_cstr(w, m->os.release);
  json_key(w, "machine");
  json_cstr(w, m->os.machine);
  json_key(w, "cpu");
  json_cstr(w, m->cpu);
  json_key(w, "features");
  json_begin_flat_array(w);
  for (int i = 0; i < m->nfeatures; i++) json_cstr(w, m->feature[i]);
  json_end_array(w);
  json_key(w, "cores");
  json_i64(w, m->cores);
  json_key(w, "usable_cores");
  json_i64(w, m->usable);
  json_key(w, "memory_bytes");
  json_i64(w, m->memory);
  json_key(w, "memory_limit_bytes");
  json_i64(w, m->memory_limit);
  json_key(w, "caches");
  json_begin_object(w);
  for (int i = 0; i < 4; i++) {
    json_key(w, cache_names[i]);
    json_i64(w, m->cache[i]);
  }
  json_end_object(w);
}

static void json_tools(JsonWriter *w, Cli *c) {
  json_key(w, "tools");
  json_begin_array(w);
  for (int64_t i = 0; i < ARRAY_LEN(tools); i++) {
    json_begin_object(w);
    json_key(w, "name");
    json_str(w, (Str){tools[i].programs, (int64_t)strcspn(tools[i].programs, " ")});
    json_key(w, "path");
    json_cstr(w, find_program(&c->arena, tools[i].programs));
    json_key(w, "use");
    json_cstr(w, tools[i].use);
    json_key(w, "get");
    json_cstr(w, tools[i].get);
    json_end_object(w);
  }
  json_end_array(w);
  json_key(w, "python_packages");
  json_begin_object(w);
  int have = python_packages();
  for (int64_t i = 0; i < ARRAY_LEN(packages); i++) {
    json_key(w, packages[i]);
    json_bool(w, have > 0 && have >> i & 1);
  }
  json_end_object(w);
}

// ---- what confines Tenon's programs ----
// The last thing that is asked: this process has no rights afterwards.
static void ask_confinement(Cli *c, LayersOf out[2]) {
  out[0] = (LayersOf){.program = "tenon", .known = true};
  layers_ask("tenon-codegen", &out[1]);
  cli_confine_report(c, &out[0].layers);
}

static void print_confinement(Cli *c) {
  LayersOf l[2];
  ask_confinement(c, l);
  printf("\n");
  for (int i = 0; i < ARRAY_LEN(l); i++) layers_print(&l[i]);
}

static void json_confinement(JsonWriter *w, Cli *c) {
  LayersOf l[2];
  ask_confinement(c, l);
  json_key(w, "confinement");
  json_begin_object(w);
  for (int i = 0; i < ARRAY_LEN(l); i++) layers_json(w, &l[i]);
  json_end_object(w);
}

// ---- limits, measured on one thread and on all ----
typedef struct Limits {
  Peak peak[2];
  int n;
  const char *file;
  bool latency_known;
  Latency latency;
} Limits;

static tenon_status measure(Cli *c, const Machine *m, Limits *out) {
  int threads[] = {1, (int)m->usable};
  out->latency_known = true;
  TRY(latency_measure((int)m->usable, &c->diag, &out->latency));
  if (!opt_given(c, OPT_doctor_measure)) return TENON_OK;
  for (out->n = 0; out->n < (m->usable > 1 ? 2 : 1); out->n++)
    TRY(peak_renew(threads[out->n], &c->arena, &c->diag, &out->peak[out->n], &out->file));
  return TENON_OK;
}

static const char *const ops_names[] = {"f32", "bf16", "i8"};
static const char *const level_names[] = {"L1", "L2", "L3", "memory"};

static void print_limits(const Limits *l) {
  for (int i = 0; i < l->n; i++) {
    const Peak *p = &l->peak[i];
    printf("%d thread%s: ", p->threads, p->threads == 1 ? "" : "s");
    for (int k = 0; k < OPS_MEASURED; k++)
      printf("%s%.1f GFLOP/s of %s", k ? ", " : "", p->ops[k] / 1e9, ops_names[k]);
    printf("\n  GB/s read, copied:");
    for (int k = 0; k < LEVELS; k++)
      printf("%s %s %.1f, %.1f", k ? ";" : "", level_names[k], p->read[k] / 1e9, p->copy[k] / 1e9);
    printf("\n");
  }
  if (l->n) printf("the best of all measurements on this machine\n");
  if (l->n && !*l->file) printf("these figures cannot be kept: there is no folder for them\n");
  if (l->latency_known && l->latency.round_trip_ns > 0)
    printf("a cache line to another core and back: %.0f ns; a job for all threads: %.0f ns\n",
           l->latency.round_trip_ns, l->latency.job_ns);
  if (l->latency_known) printf("\n");
}

static void json_rate(JsonWriter *w, const char *key, double x) {
  json_key(w, key);
  json_f64(w, x);
}

static void json_peak(JsonWriter *w, const Peak *p) {
  json_begin_object(w);
  json_key(w, "threads");
  json_i64(w, p->threads);
  json_key(w, "measured");
  json_i64(w, p->when);
  json_rate(w, "gflops", p->ops[OPS_F32] / 1e9);
  json_rate(w, "gflops_bf16", p->ops[OPS_BF16] / 1e9);
  json_rate(w, "gops_i8", p->ops[OPS_I8] / 1e9);
  json_rate(w, "bandwidth", p->read[LEVEL_MEMORY]);
  json_rate(w, "l1_bandwidth", p->read[LEVEL_L1]);
  json_rate(w, "l2_bandwidth", p->read[LEVEL_L2]);
  json_rate(w, "l3_bandwidth", p->read[LEVEL_L3]);
  json_rate(w, "copy_bandwidth", p->copy[LEVEL_MEMORY]);
  json_rate(w, "l1_copy_bandwidth", p->copy[LEVEL_L1]);
  json_rate(w, "l2_copy_bandwidth", p->copy[LEVEL_L2]);
  json_rate(w, "l3_copy_bandwidth", p->copy[LEVEL_L3]);
  json_end_object(w);
}

static void json_limits(JsonWriter *w, const Limits *l) {
  if (l->latency_known) {
    json_rate(w, "round_trip_ns", l->latency.round_trip_ns);
    json_rate(w, "job_ns", l->latency.job_ns);
  }
  if (!l->n) return;
  json_key(w, "peaks");
  json_begin_array(w);
  for (int i = 0; i < l->n; i++) json_peak(w, &l->peak[i]);
  json_end_array(w);
}

int cmd_doctor(Cli *c) {
  Machine *m = arena_new(&c->arena, Machine);
  Limits *limits = arena_new(&c->arena, Limits);
  look_at_machine(m);
  bool asked = opt_given(c, OPT_doctor_measure) || opt_given(c, OPT_doctor_round_trip);
  if (asked && measure(c, m, limits)) return CLI_FAILED;
  if (!opt_given(c, OPT_doctor_json)) {
    print_machine(m);
    print_limits(limits);
    if (!opt_given(c, OPT_doctor_round_trip)) {
      print_tools(c);
      print_confinement(c);
    }
    return CLI_OK;
  }
  StrBuf b;
  JsonWriter w;
  strbuf_init(&b, &c->arena);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_machine(&w, m);
  json_limits(&w, limits);
  if (!opt_given(c, OPT_doctor_round_trip)) {
    json_tools(&w, c);
    json_confinement(&w, c);
  }
  json_end_object(&w);
  return cli_print(&b);
}
