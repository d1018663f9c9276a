// ref.c -- the target `ref`: interprets kernels' loops and checks every access.
//
// Needs:      the lowering's arena outlives the program (Target.keeps_loops).
// Guarantees: an access outside its buffer fails the run with KERNEL_OUT_OF_BOUNDS; it is never
//             made.  The same order of sums as code.
#include "targets/ref.h"

static int32_t invoke(const Program *p, int32_t kernel, void *const *args, const int64_t *size,
                      const int64_t *dims, int64_t begin, int64_t end) {
  LoopKernel *const *kernels = p->invoke_ctx;
  const LoopKernel *k = kernels[kernel];
  Diag d;
  int32_t failed = -1;
  int64_t elems[256];
  diag_init(&d);
  for (int32_t i = 0; i < k->nargs; i++) elems[i] = size[i] / elem_bytes(k->buffer[i].dtype);
  tenon_status s = loop_interpret(k, args, elems, dims, begin, end, &d, &failed);
  if (s) return s == TENON_ENOMEM ? KERNEL_NO_MEMORY : KERNEL_OUT_OF_BOUNDS;
  return failed + 1;
}

tenon_status ref_build(const Compiled *c, const TargetOptions *o, Arena *a, Diag *d) {
  Program *p = c->program;
  (void)o;
  (void)a;
  (void)d;
  LoopKernel **kernels = arena_array(&p->arena, LoopKernel *, MAX(c->nkernels, 1));
  for (int64_t i = 0; i < c->nkernels; i++) kernels[i] = c->kernel[i].lowered->kernel;
  p->invoke = invoke;
  p->invoke_ctx = kernels;
  p->target = "ref";
  return TENON_OK;
}
