// cpu.c -- the target `cpu`: machine code for a CPU, made by tenon-codegen.
//
// The kernels' texts go to the shared pool of code generators, which looks in the kernel cache
// first (llvm/client.c).  The images are joined into one block of executable memory.
//
// Needs:      tenon-codegen beside the program or on the path; a Machine that says vector width,
//             registers and caches.
// Guarantees: a kernel without code, or with more than LIMIT_KERNEL_CODE_KIB, joins
//             TargetOptions.faults and is no error.  Each image begins at a cache line, on AArch64
//             at a page.  Program.unload frees code and constants.
#include "targets/cpu.h"

#include "base/limits.h"
#include "base/machine.h"
#include "base/process.h"
#include "targets/llvm/codegen.h"
#include "targets/upgrade.h"

#include <stdio.h>

static const int64_t most_code = (int64_t)LIMIT_KERNEL_CODE_KIB << 10;

void cpu_describe(const Machine *m, LowerTarget *out) {
  *out = (LowerTarget){.vector_bytes = m->vector_bytes,
                       .vector_registers = m->has & CPU_AVX512 ? 32 : 16,
                       .l1 = m->l1_bytes,
                       .l2 = m->l2_bytes,
                       .fma = m->has_fma,
                       .bf16 = m->has & CPU_BF16};
  if (m->arch != ARCH_X86_64) out->vector_registers = 32;
}

bool cpu_available(const char **why) {
  char path[4096];
  *why = "the program tenon-codegen is not there: it is built with LLVM";
  return process_find("tenon-codegen", path, sizeof path);
}

static void unload(Program *p) {
  upgrade_stop(p);
  mem_free((void *)(uintptr_t)p->constants, p->constants_bytes);
  code_unmap((void *)(uintptr_t)p->code, p->code_bytes);
}

// The kernels of a program that are the host's; a device may have others.
typedef struct CpuKernels {
  int64_t *kernel, n;
  Str *text;
  const char **node;  // that it computes, or the first of several; NULL where it has no name
} CpuKernels;

// Of the first step that runs each kernel.
static const char **nodes_of(const Program *p, int64_t nkernels, Arena *a) {
  const char **node = arena_array(a, const char *, MAX(nkernels, 1));
  for (int32_t f = 0; f < p->nfunctions; f++)
    for (int32_t i = 0; i < p->function[f]->nsteps; i++) {
      const ProgStep *st = &p->function[f]->step[i];
      if (st->kind == STEP_KERNEL && !node[st->kernel]) node[st->kernel] = st->node;
    }
  return node;
}

static CpuKernels find_cpu_kernels(const Compiled *c, Arena *a) {
  CpuKernels x = {.kernel = arena_array(a, int64_t, MAX(c->nkernels, 1)),
                  .text = arena_array(a, Str, MAX(c->nkernels, 1)),
                  .node = nodes_of(c->program, c->nkernels, a)};
  for (int64_t i = 0; i < c->nkernels; i++) {
    if (c->program->kernel[i].device) continue;
    x.text[x.n] = c->kernel[i].text;
    x.node[x.n] = x.node[i];
    x.kernel[x.n++] = i;
  }
  return x;
}

static tenon_status join_images(Program *p, const CpuKernels *kernels, const Machine *m,
                                const Code *code, Arena *a, Diag *d) {
  int64_t *entry = arena_array(a, int64_t, MAX(p->nkernels, 1));
  Str all = join_code(code, kernels->kernel, kernels->n, m, a, entry);
  for (int64_t i = 0; i < kernels->n; i++)
    p->kernel[kernels->kernel[i]].entry = entry[kernels->kernel[i]];
  p->code = code_map(all.p, all.n);
  if (!p->code) return fail(d, TENON_EIO, NOWHERE, "the system gives no memory for code");
  p->code_bytes = all.n;
  p->unload = unload;
  return TENON_OK;
}

static void report(const Compiled *c, const CpuKernels *kernels, const Code *code, Arena *a,
                   TargetReport *out) {
  out->kernel = arena_array(a, KernelReport, MAX(c->nkernels, 1));
  for (int64_t i = 0; i < c->nkernels; i++)
    out->kernel[i] = (KernelReport){.label = "", .name = c->kernel[i].name};
  for (int64_t i = c->nuses; i-- > 0;) out->kernel[c->use[i].kernel].label = c->use[i].label;
  for (int64_t i = 0; i < kernels->n; i++) {
    KernelReport *k = &out->kernel[kernels->kernel[i]];
    k->ms = code[i].ms;
    k->cached = code[i].cached;
    k->bytes = code[i].n;
    out->quick |= code[i].quick;
  }
}

// What the code generator says of each kernel in words.
static tenon_status build_text(Codegen *g, const Compiled *c, const CpuKernels *kernels,
                               const TargetOptions *o, const CodeCall *call, Arena *a, Diag *d) {
  Code *words = arena_array(a, Code, MAX(kernels->n, 1));
  CodeKind kind = o->text == TEXT_ASM ? CODE_ASM : CODE_LLVM;
  const char *comment = o->text == TEXT_ASM ? "#" : ";";
  StrBuf b;
  strbuf_init(&b, a);
  strbuf_printf(&b, "%s " FILE_MARK " " TENON_VERSION "\n", comment);
  TRY(codegen_build_with(g, o->machine, kind, kernels->text, kernels->n, call, a, words, d));
  for (int64_t i = 0; i < kernels->n; i++) {
    int64_t k = kernels->kernel[i];
    strbuf_printf(&b, "%s kernel %lld: %s\n", comment, (long long)k, c->kernel[k].name);
    strbuf_put(&b, (Str){(const char *)words[i].bytes, words[i].n});
  }
  o->report->text = strbuf_str(&b);
  return TENON_OK;
}

// What has no code, or too much of it, is declined.
static void decline(const CpuKernels *kernels, const Code *code, const TargetOptions *o) {
  char why[128];
  for (int64_t i = 0; i < kernels->n; i++) {
    if (code[i].failed) {
      faults_add(o->faults, kernels->text[i], 0, code[i].limit ? DECLINED_LIMIT : DECLINED_DEFECT,
                 code[i].failed);
    } else if (!o->checked && code[i].n > most_code) {
      snprintf(why, sizeof why, "it has %lld KiB of machine code, and the limit is %d KiB",
               (long long)(code[i].n >> 10), LIMIT_KERNEL_CODE_KIB);
      faults_add(o->faults, kernels->text[i], 0, DECLINED_LIMIT, why);
    }
  }
}

// A tenon-codegen that is missing, or that makes no code for anything: which nodes have none, and
// what to do.
static void say_no_code(const CpuKernels *k, Arena *a, Diag *d) {
  enum { SHOWN = 5, NAME = 60 };
  StrBuf names;
  strbuf_init(&names, a);
  int64_t shown = 0;
  for (int64_t i = 0; i < k->n && shown < SHOWN; i++)
    if (k->node[i]) strbuf_printf(&names, "%s'%.*s'", shown++ ? ", " : "", NAME, k->node[i]);
  diag_note(d, "there is no code for %lld kernel%s%s%s%s", (long long)k->n, k->n == 1 ? "" : "s",
            shown ? ", of node " : "", strbuf_text(&names), k->n > shown && shown ? ", ..." : "");
  diag_note(d, "reinstall Tenon with the tenon-codegen of this version, or give its processes more "
               "memory (ulimit -v, the container's limit)");
  diag_note(d, "without it: --target interp runs the model, --target host compiles it");
}

// Quick code is for what is run here and now.
static bool is_quick(const TargetOptions *o) {
  return o->tier != TIER_FULL && !o->checked && !o->text && !o->strict;
}

// Quick code may be longer: the limit is for full code.
static tenon_status replace_large(Codegen *codegen, const CpuKernels *kernels,
                                  const TargetOptions *o, const CodeCall *call, Arena *a,
                                  Code *code, Diag *d) {
  CodeCall full = *call;
  full.quick = false;
  full.node = NULL;
  for (int64_t i = 0; i < kernels->n; i++)
    if (code[i].quick && code[i].n > most_code)
      TRY(codegen_build_with(codegen, o->machine, CODE_IMAGE, &kernels->text[i], 1, &full, a,
                             &code[i], d));
  return TENON_OK;
}

static void upgrade(Program *p, const CpuKernels *kernels, const Code *code,
                    const TargetOptions *o) {
  UpgradeKernels k = {.machine = o->machine,
                      .key = o->key,
                      .no_cache = o->no_cache,
                      .threads = o->threads,
                      .n = kernels->n,
                      .most_bytes = most_code,
                      .kernel = kernels->kernel,
                      .text = kernels->text,
                      .code = code};
  for (int64_t i = 0; i < kernels->n; i++)
    if (code[i].quick) {
      upgrade_start(p, &k);
      return;
    }
}

static tenon_status build_code(const Compiled *c, Codegen *codegen, const TargetOptions *o,
                               Arena *a, Diag *d) {
  Program *p = c->program;
  bool none = false;
  CodeCall call = {.watch = o->watch,
                   .no_cache = o->no_cache,
                   .key = o->key,
                   .none = &none,
                   .go_on = true,
                   .quick = is_quick(o)};
  CpuKernels kernels = find_cpu_kernels(c, a);
  call.node = kernels.node;
  Code *code = arena_array(a, Code, MAX(kernels.n, 1));
  if (!kernels.n) return TENON_OK;
  CodeKind kind = o->checked ? CODE_CHECKED : CODE_IMAGE;
  tenon_status s =
      codegen_build_with(codegen, o->machine, kind, kernels.text, kernels.n, &call, a, code, d);
  if (none) say_no_code(&kernels, a, d);
  TRY(s);
  TRY(replace_large(codegen, &kernels, o, &call, a, code, d));
  decline(&kernels, code, o);
  if (o->faults->nfresh) return TENON_OK;
  if (o->report) report(c, &kernels, code, a, o->report);
  if (o->text && o->report) TRY(build_text(codegen, c, &kernels, o, &call, a, d));
  p->target = str_printf(&p->arena, "%s %s", o->machine->triple, o->machine->features);
  TRY(join_images(p, &kernels, o->machine, code, a, d));
  if (o->tier == TIER_AUTO) upgrade(p, &kernels, code, o);
  return TENON_OK;
}

tenon_status cpu_put_code(const Compiled *c, const Machine *m, const Code *code, Arena *a,
                          Diag *d) {
  CpuKernels kernels = find_cpu_kernels(c, a);
  CHECK(kernels.n == 1, "a program of one kernel");
  TRY(join_images(c->program, &kernels, m, code, a, d));
  return program_check(c->program, d);
}

// The code generators, kept from the first kernel to the last.  Why there are none, cpu_build says.
void *cpu_open(const TargetOptions *o) {
  Diag *quiet = diag_unread();
  Codegen *codegen;
  return codegen_shared(o->threads, quiet, &codegen) ? NULL : codegen;
}

void cpu_close(void *opened) { codegen_release(opened); }

bool cpu_maker(int threads, Arena *a, CacheMaker *out) {
  Diag *quiet = diag_unread();
  Codegen *codegen;
  Trap t;
  if (codegen_shared(threads, quiet, &codegen)) return false;
  trap_enter(&t, quiet);
  if (setjmp(t.env) == 0) {
    *out = codegen_maker(codegen, a);
    t.status = TENON_OK;
  }
  trap_leave(&t);
  codegen_release(codegen);
  return !t.status;
}

bool cpu_verified(void *opened, const TargetOptions *o, Str text) {
  return !o->checked && !o->no_cache && codegen_has(opened, o->machine, CODE_IMAGE, o->key, text);
}

tenon_status cpu_build(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d) {
  if (!c->nkernels) return TENON_OK;
  Codegen *codegen;
  tenon_status s = codegen_shared(o->threads, d, &codegen);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    if (!s) {
      t.status = build_code(c, codegen, o, a, d);
    } else {
      CpuKernels kernels = find_cpu_kernels(c, a);
      say_no_code(&kernels, a, d);
    }
  }
  trap_leave(&t);
  if (s) return s;
  codegen_release(codegen);
  return t.status;
}
