// opencl.c -- the target `opencl`: kernels as OpenCL C 1.2 text.
//
// Kernels are written while they are lowered.  So a kernel that the language or the device does not
// support is known at once, and the host gets it.  On a CPU device a work item is one thread and is
// launched as a workgroup of one; on a GPU it is a workgroup of up to 256.
//
// Needs:      a DeviceInfo; f64 kernels need a device with f64.
// Guarantees: the text holds each accepted kernel once, numbered in order, after one prelude.  The
//             driver compiles it when a session is created.
#include "targets/opencl/opencl.h"

#include "runtime/opencl/opencl.h"
#include "targets/cstyle/cstyle.h"

enum { WORKGROUP_THREADS = 256 };  // threads of a thread block, at most

typedef struct OpenclText {
  Arena *arena;
  CStyle style;
  StrBuf kernels;
  int32_t n;
  Diag diag;  // why a kernel cannot be written
} OpenclText;

bool opencl_available(const char **why) { return opencl_driver.count(why) > 0; }

void opencl_describe(const DeviceInfo *i, LowerTarget *out) {
  *out = (LowerTarget){.vector_bytes = i->is_cpu ? i->vector_bytes : 16,
                       .vector_registers = i->is_cpu && i->vector_bytes >= 64 ? 32 : 16,
                       .l1 = 32 << 10,
                       .l2 = 1 << 20,
                       .fma = true};
  if (i->is_cpu) return;  // an item is a thread's
  out->block_threads = 1;
  while (out->block_threads < WORKGROUP_THREADS && 2 * out->block_threads <= i->max_block_threads)
    out->block_threads *= 2;
  out->shared_bytes = i->shared_bytes;
  out->traits = (TargetTraits){.gpu = out->block_threads > 1, .warp_size = i->subgroup};
}

void *opencl_begin(const DeviceInfo *i, const TargetOptions *o, Arena *a) {
  OpenclText *t = arena_new(a, OpenclText);
  (void)o;
  t->arena = a;
  strbuf_init(&t->kernels, a);
  cstyle_init(&t->style, &spelling_opencl, i->is_cpu ? i->vector_bytes : 0, a, &t->diag);
  t->style.no_f64 = !i->f64;
  return t;
}

tenon_status opencl_takes(void *text, const LoopKernel *k, const char **why) {
  OpenclText *t = text;
  StrBuf one;
  bool differs;
  strbuf_init(&one, t->arena);
  diag_init(&t->diag);
  const char *name = str_printf(t->arena, OPENCL_KERNEL, t->n);
  tenon_status s = cstyle_kernel(&t->style, k, name, t->style.vector_bytes > 0, &one, &differs);
  if (s) {
    const char *said = str_copy(t->arena, str_of(t->diag.text)), *reason = strstr(said, "': ");
    *why = reason ? reason + 3 : said;
    return s;
  }
  t->n++;
  strbuf_puts(&t->kernels, OPENCL_MARK);
  strbuf_put(&t->kernels, strbuf_str(&one));
  return TENON_OK;
}

tenon_status opencl_finish_text(void *text, Diag *d, Str *code) {
  OpenclText *t = text;
  StrBuf all;
  (void)d;
  strbuf_init(&all, t->arena);
  cstyle_prelude(&t->style, &all);
  strbuf_put(&all, strbuf_str(&t->kernels));
  *code = strbuf_str(&all);
  return TENON_OK;
}

Str opencl_kernel_text(Str code, int64_t n) {
  Str part = {0};
  // What all need comes first.
  for (int64_t i = -1; i <= n && code.n; i++)
    if (!opencl_next_part(&code, &part) && i < n) return (Str){0};
  return part;
}
