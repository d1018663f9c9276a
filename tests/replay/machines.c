// machines.c -- the machines of kernel replay, and a graph compiled for one of them (replay.h).
//
// A CPU is the row `cpu` of the table of targets with its code generator left out: the loops are
// those that it is given, and the text is the C of the same loops.  CUDA is the target itself, for
// a chip by name.  OpenCL needs a driver, so a GPU is described here instead.
//
// Needs:      what a graph's compilation needs; no GPU, no driver, no LLVM.
// Guarantees: the texts depend on the graph and on the table below alone.
#include "replay.h"

#include "compile/compile.h"
#include "targets/cpu.h"
#include "targets/cstyle/cstyle.h"
#include "targets/opencl/opencl.h"

#define X86 "x86_64-pc-linux-gnu"
#define ARM "aarch64-unknown-linux-gnu"

// clang-format off
const ReplayMachine replay_machines[] = {
    {.name = "sse2",   .triple = X86, .cpu = "x86-64",         .language = "c",  .precisions = REPLAY_F32},
    {.name = "avx2",   .triple = X86, .cpu = "x86-64-v3",      .language = "c",  .precisions = REPLAY_F32},
    {.name = "avx512", .triple = X86, .cpu = "x86-64-v4",      .language = "c",  .precisions = REPLAY_F32},
    {.name = "amx",    .triple = X86, .cpu = "sapphirerapids", .like = "avx512", .language = "c",  .precisions = REPLAY_F32, .also = REPLAY_BF16},
    {.name = "neon",   .triple = ARM, .cpu = "generic", .like = "sse2", .language = "c",  .precisions = REPLAY_F32},
    {.name = "opencl",                                         .language = "cl", .precisions = REPLAY_F32},
    {.name = "sm_80",  .device = "sm_80",                      .language = "cu", .precisions = REPLAY_F32 | REPLAY_BF16, .also = REPLAY_TF32},
    {.name = "sm_90a", .device = "sm_90a",                     .language = "cu", .precisions = REPLAY_F32 | REPLAY_BF16, .also = REPLAY_TF32},
};
// clang-format on
const int replay_nmachines = ARRAY_LEN(replay_machines);

// ---- targets without what makes code ----

static const DeviceInfo opencl_gpu = {.driver = "opencl",
                                      .name = "a GPU",
                                      .version = "",
                                      .pick = "",
                                      .f64 = true,
                                      .f16 = true,
                                      .compute_units = 64,
                                      .max_block_threads = 1024,
                                      .subgroup = 32,
                                      .shared_bytes = 48 << 10,
                                      .memory_bytes = (int64_t)8 << 30,
                                      .max_buffer = (int64_t)2 << 30};

static void describe_opencl(const Machine *m, LowerTarget *out) {
  (void)m;
  opencl_describe(&opencl_gpu, out);
}

// A program is whole when its kernels have code.
static tenon_status build_nothing(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d) {
  (void)o;
  (void)a;
  (void)d;
  c->program->code_bytes = 1;
  return TENON_OK;
}

static const Target cpu_loops = {
    .name = "cpu", .keeps_loops = true, .describe = cpu_describe, .build = build_nothing};
static const Target opencl_loops = {
    .name = "opencl", .keeps_loops = true, .describe = describe_opencl, .build = build_nothing};

// ---- texts ----

// A line that says which schedule made the loops is no part of them.
static Str loops_of(Arena *a, Str text) {
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t at = 0; at < text.n;) {
    const char *line = text.p + at, *end = memchr(line, '\n', (size_t)(text.n - at));
    int64_t n = end ? end - line + 1 : text.n - at, blank = 0;
    while (blank < n && line[blank] == ' ') blank++;
    if (!str_starts((Str){line + blank, n - blank}, "schedule ")) strbuf_put(&b, (Str){line, n});
    at += n;
  }
  return str_of(strbuf_text(&b));
}

// The C of one kernel in both forms, and the helpers that it needs.
static Str c_text(const LoopKernel *k, int vector_bytes, Arena *a) {
  CStyle cs;
  StrBuf text;
  Diag d;
  bool differs = false, again;
  diag_init(&d);
  strbuf_init(&text, a);
  cstyle_init(&cs, &spelling_c, vector_bytes, a, &d);
  tenon_status s = cstyle_kernel(&cs, k, "kernel", true, &text, &differs);
  if (!s && differs) s = cstyle_kernel(&cs, k, "plain", false, &text, &again);
  if (s) return STR("refused\n");
  cstyle_prelude(&cs, &text);
  return str_of(strbuf_text(&text));
}

static Str opencl_text(const LoopKernel *k, Arena *a) {
  Diag d;
  Str code;
  const char *why;
  void *text = opencl_begin(&opencl_gpu, &(TargetOptions){0}, a);
  diag_init(&d);
  if (opencl_takes(text, k, &why) || opencl_finish_text(text, &d, &code)) return STR("refused\n");
  return code;
}

// ---- steps ----

static uint64_t hash_list(uint64_t h, const int32_t *v, int64_t n) {
  return n > 0 ? hash_bytes(v, n * (int64_t)sizeof *v, h) : hash_u64(h + 1);
}

static uint64_t hash_function(uint64_t h, const ProgFunction *f, ReplayProgram *out) {
  for (int32_t i = 0; i < f->nvalues; i++) {
    const ProgValue *v = &f->value[i];
    const int32_t part[] = {v->place, v->kind, v->device, v->dtype, v->rank, v->slot, v->at};
    h = hash_list(h, part, ARRAY_LEN(part));
  }
  for (int32_t i = 0; i < f->nsteps; i++) {
    const ProgStep *s = &f->step[i];
    bool calls = s->kind == STEP_KERNEL;
    const int32_t part[] = {s->kind, calls ? s->kernel : -1, s->when, s->more, (int32_t)s->grain};
    h = hash_list(h, part, ARRAY_LEN(part));
    h = hash_list(h, s->in, s->nin);
    h = hash_list(h, s->out, s->nout);
    h = hash_list(h, s->arg, calls ? s->nargs : 0);
    h = hash_list(h, s->free, s->nfree);
    out->nhost += s->kind == STEP_HOST;
  }
  out->nsteps += f->nsteps;
  return h;
}

// ---- compiling ----

static void options_for(const ReplayMachine *m, const Target *t, ReplayPrecision p,
                        CompileOptions *out) {
  static const TargetTraits driver_gpu = {.gpu = true};  // what a driver's device would say
  compile_defaults(out);
  out->target = t;
  out->device = m->device;
  if (p == REPLAY_BF16) out->precision = PRECISION_BF16;
  if (p == REPLAY_TF32) out->precision = PRECISION_TF32;
  if (t == &opencl_loops) out->traits = &driver_gpu;
}

static Str text_for(const ReplayMachine *m, const Machine *cpu, const Program *p, int64_t i,
                    const LoopKernel *k, Arena *a) {
  const ProgKernel *pk = &p->kernel[i];
  if (m->device) return target_find("cuda")->kernel_text(p->device[pk->device].code, pk->entry);
  return m->cpu ? c_text(k, cpu->vector_bytes, a) : opencl_text(k, a);
}

static const Target *target_of(const ReplayMachine *m) {
  return m->device ? target_find("cuda") : m->cpu ? &cpu_loops : &opencl_loops;
}

static tenon_status build(const ReplayMachine *m, ReplayPrecision precision, const Machine *cpu,
                          Graph *g, Arena *a, Diag *d, CompileReport *out) {
  CompileOptions o;
  *out = (CompileReport){0};
  options_for(m, target_of(m), precision, &o);
  o.machine = cpu;
  return compile_graph(g, &o, COMPILE_BUILD, a, d, out);
}

static tenon_status cpu_of(const ReplayMachine *m, Machine *out, Diag *d) {
  *out = (Machine){0};
  return m->cpu ? machine_make(str_of(m->triple), str_of(m->cpu), STR(""), out, d) : TENON_OK;
}

tenon_status replay_build(const ReplayMachine *m, ReplayPrecision precision, Graph *g, Arena *a,
                          Diag *d, CompileReport *out) {
  Machine cpu;
  TRY(cpu_of(m, &cpu, d));
  return build(m, precision, &cpu, g, a, d, out);
}

tenon_status replay_compile(const ReplayMachine *m, ReplayPrecision precision, Graph *g, Arena *a,
                            Diag *d, ReplayProgram *out) {
  Machine cpu;
  CompileReport made;
  *out = (ReplayProgram){0};
  TRY(cpu_of(m, &cpu, d));
  TRY(build(m, precision, &cpu, g, a, d, &made));
  Compiled c = made.compiled;
  Program *p = made.program;
  out->nkernels = c.nkernels;
  out->kernel = arena_array(a, ReplayKernel, MAX(c.nkernels, 1));
  for (int64_t i = 0; i < c.nkernels; i++) {
    Str text = text_for(m, &cpu, p, i, c.kernel[i].lowered->kernel, a);
    out->kernel[i] = (ReplayKernel){.name = str_copy(a, str_of(c.kernel[i].name)),
                                    .loops = loops_of(a, c.kernel[i].text),
                                    .text = {arena_dup(a, text.p, text.n), text.n}};
  }
  for (int32_t i = 0; i < p->nfunctions; i++)
    out->steps = hash_function(out->steps, p->function[i], out);
  program_release(p);
  return TENON_OK;
}
