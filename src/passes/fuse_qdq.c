// fuse_qdq.c -- the pass fuse-qdq: integer arithmetic for dequantise, compute, quantise.
//
// Applies four rule sets, one after the other: ops between dequantise and quantise
// (rules/recognise/quant.c), products of dequantised tensors whose result stays in floats, borders
// of integer convolutions (rules/quant_border.c), and fp8 GEMM (rules/recognise/fp8.c) where tensor
// cores multiply fp8.
//
// Needs:      runs before fold-constants, which would turn quantised weights into floats.
// Guarantees: a result differs by one quantisation step at most; only under FAST_QUANT or the flags
//             that each rule names.
#include "passes/passes.h"
#include "rules/rules.h"

tenon_status pass_fuse_qdq(PassCtx *c, bool *out_changed) {
  // Results that are quantised again come first: the second set matches a product whoever reads it.
  static const RuleSet *const sets[] = {&rules_recognise_quant, &rules_recognise_integer,
                                        &rules_quant_border, &rules_recognise_fp8};
  // The last is for MMA that multiplies fp8.
  int n = ARRAY_LEN(sets) - !(c->g->traits->mma_dtypes & MMA_DTYPE_FP8);
  *out_changed = false;
  for (int i = 0; i < n; i++) {
    bool changed;
    TRY(pass_rewrite(c, &sets[i], 1, &changed));
    *out_changed |= changed;
  }
  return TENON_OK;
}
