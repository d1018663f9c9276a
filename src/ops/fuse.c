// fuse.c -- the record of `fused`.  Its types are its body's.
#include "eval/fuse.h"
#include "ir/opinfo.h"

static tenon_status infer_fused(Infer *in) {
  const fused_attrs *at = in->attrs;
  if (!at->body) return infer_fail(in, TENON_EINVAL, "the kernel has no body");
  if (at->body->nparams != in->nsrc || at->body->nresults != in->nres)
    return infer_fail(
        in, TENON_EINVAL, "the body takes %lld values and gives %lld, the kernel %d and %d",
        (long long)at->body->nparams, (long long)at->body->nresults, in->nsrc, in->nres);
  for (int i = 0; i < in->nres; i++) in->type[i] = type_of(at->body->result[i]);
  return TENON_OK;
}

ATTR_TABLE(fused, FUSED_ATTRS);
const OpInfo op_fused = {
    .name = "fused",
    .doc = "a kernel: nodes that one launch computes",
    .operands = "x*",
    .results = "y*",
    .arity = -1,
    .nres = 1,
    .range = RANGE_fused,
    .flags = OPF_CONTROL,
    OP_ATTRS(fused),
    .infer = infer_fused,
    .eval = eval_fused,
};
