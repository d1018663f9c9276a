// unpack_weights.c -- the pass unpack-weights: unpacks int4 weights that no GEMM reads packed.
//
// Evaluates each unpack_n_bits of constants, as fold-constants evaluates other nodes.  Without it a
// kernel would unpack the weights in every run.
//
// Needs:      recognise-composites has built the GEMMs that read packed weights.
// Guarantees: bit-equal; no limit on the size of the result.
#include "passes/fold_constants.h"

tenon_status pass_unpack_weights(PassCtx *c, bool *out_changed) {
  return fold_constants(c, true, out_changed);
}
