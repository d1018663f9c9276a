// target.c -- the table of targets, target traits, and target_compile.
//
// target_compile lowers the graph and builds its kernels.  Kernels without code are noted in
// KernelFaults, and the graph is lowered again without those texts.  Each round declines one text
// at least, so the loop ends.
//
// Needs:      an optimised graph with its memory plan; the arena outlives the program where
//             Target.keeps_loops says so.
// Guarantees: the program passes program_check, unless lower_only.  On failure there is none, and
//             devices and code generators are released.  Traits depend on the device alone, never
//             on whether it could be opened.
#include "targets/target.h"

#include <strings.h>

#include "base/platform.h"
#include "base/process.h"
#include "runtime/artifact.h"
#include "runtime/speed.h"
#include "targets/c/c.h"
#include "targets/cpu.h"
#include "targets/cuda/cuda.h"
#include "targets/device.h"
#include "targets/opencl/opencl.h"
#include "targets/ref.h"
#include "targets/split.h"

#include <stdlib.h>

static void describe_nothing(const Machine *m, LowerTarget *out) {
  (void)m;
  *out = (LowerTarget){
      .vector_bytes = 64, .vector_registers = 32, .l1 = 32 << 10, .l2 = 1 << 20, .fma = true};
}

static tenon_status build_nothing(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d) {
  (void)c;
  (void)o;
  (void)a;
  (void)d;
  return TENON_OK;
}

static const Target host = {.name = "host",
                            .doc = "every node by its reference evaluation, in the runtime",
                            .host_only = true,
                            .describe = describe_nothing,
                            .build = build_nothing};
static const Target ref = {.name = "ref",
                           .doc = "kernels as loops, interpreted with every access checked",
                           .keeps_loops = true,
                           .describe = describe_nothing,
                           .build = ref_build};

static const Target cpu = {.name = "cpu",
                           .doc = "machine code for this CPU",
                           .describe = cpu_describe,
                           .available = cpu_available,
                           .open = cpu_open,
                           .close = cpu_close,
                           .maker = cpu_maker,
                           .verified = cpu_verified,
                           .build = cpu_build};

static const Target c_text = {.name = "c",
                              .doc = "C11 source for any machine with a C compiler",
                              .keeps_loops = true,
                              .describe = c_describe,
                              .build = c_build};

#define OPENCL_DEVICE                                                                              \
  .available = opencl_available, .driver = "opencl", .describe_device = opencl_describe,           \
  .begin = opencl_begin, .takes = opencl_takes, .finish = opencl_finish_text,                      \
  .kernel_text = opencl_kernel_text
static const Target opencl = {
    .name = "opencl", .doc = "OpenCL C, for a device with an OpenCL driver", OPENCL_DEVICE};
static const Target cpu_opencl = {.name = "cpu,opencl",
                                  .doc = "kernels on the CPU or on the OpenCL device, by cost",
                                  .with = &cpu,
                                  OPENCL_DEVICE};

#define CUDA_DEVICE                                                                                \
  .available = cuda_available, .driver = "cuda", .describe_device = cuda_describe,                 \
  .begin = cuda_begin, .takes = cuda_takes, .finish = cuda_finish_text,                            \
  .kernel_text = cuda_kernel_text
static const Target cuda = {.name = "cuda", .doc = "CUDA C++, for an NVIDIA GPU", CUDA_DEVICE};
static const Target cpu_cuda = {.name = "cpu,cuda",
                                .doc = "kernels on the CPU or on the GPU, by cost",
                                .with = &cpu,
                                CUDA_DEVICE};

const Target *const target_table[] = {&cpu, &cuda, &opencl, &c_text, &ref, &host, NULL};

const Target *const target_shared[] = {&cpu_opencl, &cpu_cuda, NULL};

// "a,b" and "b,a".
static bool same_pair(const char *x, const char *y) {
  size_t n = strcspn(y, ","), rest = y[n] ? strlen(y + n + 1) : 0;
  return rest && strlen(x) == strlen(y) && !strncmp(x, y + n + 1, rest) && x[rest] == ',' &&
         !strncmp(x + rest + 1, y, n);
}

const Target *target_find(const char *name) {
  for (const Target *const *t = target_table; *t; t++)
    if (!strcmp((*t)->name, name)) return *t;
  for (const Target *const *t = target_shared; *t; t++)
    if (!strcmp((*t)->name, name) || same_pair((*t)->name, name)) return *t;
  return NULL;
}

const char *target_hint(const char *name, Arena *a) {
  static const char *const other[][2] = {
      {"gpu", "cuda"}, {"nvidia", "cuda"},       {"cl", "opencl"},  {"ocl", "opencl"},
      {"x86", "cpu"},  {"x86_64", "cpu"},        {"native", "cpu"}, {"llvm", "cpu"},
      {"source", "c"}, {"interpreter", "interp"}};
  enum { MOST = 32 };
  const char *words[MOST] = {"auto", "interp"};
  int64_t n = 2;
  StrBuf b;
  strbuf_init(&b, a);
  for (const Target *const *t = target_table; *t && n < MOST; t++) words[n++] = (*t)->name;
  for (int64_t i = 0; i < ARRAY_LEN(other); i++)
    if (!strcasecmp(name, other[i][0])) strbuf_printf(&b, "; did you mean '%s'?", other[i][1]);
  if (!b.n) strbuf_puts(&b, did_you_mean(str_of(name), words, n).s);
  strbuf_puts(&b, " (it is one of");
  for (int64_t i = 0; i < n; i++) strbuf_printf(&b, "%s %s", i ? "," : "", words[i]);
  strbuf_puts(&b, ")");
  return strbuf_text(&b);
}

bool target_there(const Target *t, const char **why) {
  *why = NULL;
  if (t->with && !target_there(t->with, why)) return false;
  return !t->available || t->available(why);
}

// For tests.  TENON_BLOCK_THREADS=N gives a target without thread blocks blocks of N threads, which
// it runs serially: the GPU templates are then tested on every machine.  TENON_MMA adds tensor
// cores: "warp" for mma.sync (sm_80), any other value for wgmma (sm_90).
bool target_is_tampered(void) { return getenv("TENON_BLOCK_THREADS") != NULL; }

static void block_for_tests(LowerTarget *t) {
  const char *n = getenv("TENON_BLOCK_THREADS");
  long threads = n ? strtol(n, NULL, 10) : 0;
  if (threads < 2 || threads > 1024 || (threads & (threads - 1)) || t->block_threads) return;
  t->block_threads = (int)threads;
  t->shared_bytes = 48 << 10;
  t->has_shuffle = true;
  t->tile_bytes = 227 << 10;
  t->traits = (TargetTraits){.gpu = true, .warp_size = 32, .sm_count = 132};
  const char *tiles = getenv("TENON_MMA");
  if (!tiles) return;
  t->traits.mma = strcmp(tiles, "warp") ? MMA_WARPGROUP : MMA_WARP;
  t->traits.mma_dtypes = MMA_DTYPE_F16 | MMA_DTYPE_BF16 | MMA_DTYPE_TF32 | MMA_DTYPE_INT8;
  if (t->traits.mma == MMA_WARPGROUP) t->traits.mma_dtypes |= MMA_DTYPE_F32 | MMA_DTYPE_FP8;
}

tenon_status target_traits(const Target *t, const char *device_name, Arena *a, Diag *d,
                           const TargetTraits **out) {
  LowerTarget lt = {0};
  Diag absent;
  int index;
  Device *device = NULL;
  const DeviceDriver *driver = t->driver ? device_driver(t->driver) : NULL;
  diag_init(&absent);
  if (driver && !driver->find(device_name, &absent, &index)) {
    TRY(driver->open(index, d, &device));
    t->describe_device(driver->info(device), &lt);
    driver->close(device);
  }
  block_for_tests(&lt);
  lt.traits.heterogeneous = t->with != NULL;
  *out = arena_dup(a, &lt.traits, sizeof lt.traits);
  return TENON_OK;
}

bool target_available(const Target *t) {
  const char *why;
  return target_there(t, &why);
}

double target_speed(const Target *t) {
  const char *why;
  Machine m;
  if (!target_available(t)) return 0;
  if (t->driver) return driver_speed(t->driver, &why);
  machine_host(&m);
  return t == &cpu ? machine_speed(&m) : t == &host ? 1 : 0;
}

// A device that is the CPU itself is taken by name alone: without another machine drivers are not
// asked, which takes long.
const Target *target_auto(void) {
  const Target *best = &host;
  double speed = 0;
  bool ask = system_has_accelerator();
  for (const Target *const *t = target_table; *t; t++) {
    double s = (*t)->driver && !ask ? 0 : target_speed(*t);
    if ((*t)->driver && s <= SHARED_SPEED) continue;
    if (s > speed) speed = s, best = *t;
  }
  return best;
}

static double ms_since(int64_t begin) { return (double)(platform->now() - begin) / 1e6; }

static tenon_status build(const Target *t, const TargetOptions *o, DeviceTarget *on,
                          const Compiled *c, Arena *a, Diag *d) {
  int64_t begin = platform->now();
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) {
    if (t->driver) trap.status = device_finish(on, c, d);
    if (!trap.status && !t->driver) trap.status = t->build(c, o, a, d);
    if (!trap.status && t->with) trap.status = t->with->build(c, o, a, d);
  }
  trap_leave(&trap);
  if (o->report) o->report->build_ms = ms_since(begin);
  if (trap.status || o->faults->nfresh) return trap.status;
  return program_check(c->program, d);
}

// What makes the host's kernels, where it has some.
static const Target *host_of(const Target *t) { return t->with ? t->with : t; }

typedef struct Call {
  const Target *t;
  TargetOptions o;
  void *opened;
  DeviceTarget device;  // of a target that has a driver
} Call;

static bool verified(void *ctx, Str text) {
  const Call *c = ctx;
  return host_of(c->t)->verified(c->opened, &c->o, text);
}

static tenon_status lower(Call *call, Graph *g, const MemPlan *plan, Arena *a, Diag *d,
                          Compiled *c) {
  const Target *t = call->t;
  const TargetOptions *o = &call->o;
  LowerOptions lo = {.host_only = t->host_only,
                     .sizes = o->sizes,
                     .watch = o->watch,
                     .schedule = o->schedule,
                     .nschedules = o->nschedules,
                     .tuned = o->tuned,
                     .tuned_strict = o->tuned_strict,
                     .workloads = o->workloads,
                     .no_residual = o->no_residual,
                     .faults = o->faults,
                     .strict = o->strict,
                     .tamper = o->tamper,
                     .tamper_ctx = o->tamper_ctx};
  int64_t begin = platform->now();
  if (host_of(t)->describe) host_of(t)->describe(o->machine, &lo.target);
  if (o->described) lo.target = *o->described;
  if (t->driver) TRY(device_begin(&call->device, t, o, a, d, &lo));
  block_for_tests(t->driver ? &lo.device[1] : &lo.target);
  lo.target.batch_invariant = lo.device[1].batch_invariant = o->batch_invariant;
  lo.target.traits.heterogeneous = lo.device[1].traits.heterogeneous = t->with != NULL;
  if (t->with) TRY(split_begin(&call->device, g, plan, a, d, &lo));
  if (call->opened) {
    lo.verified = verified;
    lo.verified_ctx = call;
  }
  TRY(lower_program(g, plan, &lo, a, d, c));
  if (o->report)
    *o->report = (TargetReport){.lower_ms = ms_since(begin),
                                .nkernels = c->nkernels,
                                .nhost = c->nhost,
                                .left = c->left,
                                .declined = c->declined,
                                .ndeclined = c->ndeclined,
                                .untuned = c->untuned,
                                .nuntuned = c->nuntuned};
  return TENON_OK;
}

// Code is made of whole programs.  Where a kernel has none, the graph is lowered again without the
// schedule that gave it: each round declines one more at least, so that there is an end.
static tenon_status compile(Call *call, Graph *g, const MemPlan *plan, Arena *a, Diag *d,
                            Program **out) {
  KernelFaults faults;
  Compiled c;
  faults_init(&faults, a);
  call->o.faults = &faults;
  for (;;) {
    TRY(lower(call, g, plan, a, d, &c));
    faults.nfresh = 0;
    tenon_status s =
        call->o.lower_only ? TENON_OK : build(call->t, &call->o, &call->device, &c, a, d);
    if (!s && !faults.nfresh) break;
    program_release(c.program);
    if (s) return s;
    device_release(&call->device);
    call->device = (DeviceTarget){0};
  }
  if (call->o.compiled) *call->o.compiled = c;
  *out = c.program;
  return TENON_OK;
}

// What is asked for must have a meaning, so that nobody thinks it was done.
static tenon_status check_options(const Target *t, const TargetOptions *o, Diag *d) {
  if (o->device && !t->driver)
    return fail(d, TENON_EINVAL, NOWHERE,
                "target %s has no devices to choose '%s' from; `tenon targets` lists those that do",
                t->name, o->device);
  if (o->nplace && !t->with)
    return fail(d, TENON_EINVAL, NOWHERE,
                "'%s' places kernels on one of two machines, and target %s is one: give two, such "
                "as cpu,opencl",
                o->place[0], t->name);
  return TENON_OK;
}

tenon_status target_compile(const Target *t, Graph *g, const MemPlan *plan, const TargetOptions *o,
                            Arena *a, Diag *d, Program **out) {
  Call call = {.t = t, .o = *o};
  Machine here;
  *out = NULL;
  TRY(check_options(t, &call.o, d));
  if (!call.o.machine) {
    machine_host(&here);
    call.o.machine = &here;
  }
  Trap trap;
  trap_enter(&trap, d);
  if (setjmp(trap.env) == 0) {
    if (host_of(t)->open && !o->lower_only) call.opened = host_of(t)->open(&call.o);
    trap.status = compile(&call, g, plan, a, d, out);
  }
  trap_leave(&trap);
  if (call.opened) host_of(t)->close(call.opened);
  device_release(&call.device);
  return trap.status;
}
