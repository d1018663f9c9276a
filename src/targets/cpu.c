// cpu.c -- the target `cpu`: machine code for this CPU, by tenon-codegen.
#include "targets/cpu.h"

#include "base/machine.h"
#include "base/process.h"
#include "targets/llvm/codegen.h"

enum { CODE_ALIGN = 64 };

void cpu_describe(LowerTarget *out) {
  Machine m;
  machine_host(&m);
  *out = (LowerTarget){.vector_bytes = m.vector_bytes,
                       .vector_registers = m.has & CPU_AVX512 ? 32 : 16,
                       .l1 = m.l1_bytes,
                       .l2 = m.l2_bytes,
                       .fma = m.has_fma,
                       .vnni = m.has & CPU_VNNI,
                       .bf16 = m.has & CPU_BF16};
  if (m.arch != ARCH_X86_64) out->vector_registers = 32;
}

static void unload(Program *p) {
  mem_free((void *)(uintptr_t)p->constants, p->constants_bytes);
  code_unmap((void *)(uintptr_t)p->code, p->code_bytes);
}

// All images in one, each at a multiple of a cache line.
static tenon_status join_images(Program *p, const Code *code, int64_t n, Arena *a, Diag *d) {
  int64_t total = 0;
  for (int64_t i = 0; i < n; i++) {
    p->kernel[i].entry = total + code[i].entry;
    total += (code[i].n + CODE_ALIGN - 1) / CODE_ALIGN * CODE_ALIGN;
  }
  char *all = arena_alloc(a, MAX(total, 1));
  for (int64_t i = 0; i < n; i++)
    memcpy(all + p->kernel[i].entry - code[i].entry, code[i].bytes, (size_t)code[i].n);
  p->code = code_map(all, MAX(total, 1));
  if (!p->code) return fail(d, TENON_EIO, NOWHERE, "the system gives no memory for code");
  p->code_bytes = MAX(total, 1);
  p->unload = unload;
  return TENON_OK;
}

tenon_status cpu_build(const Compiled *c, Diag *d) {
  Program *p = c->program;
  if (!c->nkernels) return TENON_OK;
  Machine m;
  Codegen *codegen;
  Arena a;
  machine_host(&m);
  TRY(codegen_create(NULL, 0, d, &codegen));
  arena_init(&a);
  Str *text = arena_array(&a, Str, c->nkernels);
  Code *code = arena_array(&a, Code, c->nkernels);
  for (int64_t i = 0; i < c->nkernels; i++) text[i] = c->kernel[i].text;
  tenon_status s = codegen_build(codegen, &m, CODE_IMAGE, text, c->nkernels, &a, code, d);
  if (!s) s = join_images(p, code, c->nkernels, &a, d);
  if (!s) p->target = str_printf(&p->arena, "%s %s", m.triple, m.features);
  arena_deinit(&a);
  codegen_release(codegen);
  return s;
}
