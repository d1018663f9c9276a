// fuse.c -- a kernel is evaluated by running its body.
#include "eval/fuse.h"

tenon_status eval_fused(Eval *e) {
  const fused_attrs *at = e->attrs;
  if (!e->run->call_body) return eval_fail(e, TENON_EUNSUPPORTED, "kernels cannot be run here");
  Value **in = arena_array(&e->run->scratch, Value *, e->nin);
  for (int i = 0; i < e->nin; i++) in[i] = (Value *)(uintptr_t)e->in[i];
  return e->run->call_body(e->run, at->body, in, e->nin, e->out, e->nout);
}
