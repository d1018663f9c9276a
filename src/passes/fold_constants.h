// fold_constants.h -- evaluation of nodes whose operands are constants, for two passes.
#ifndef TENON_PASSES_FOLD_CONSTANTS_H
#define TENON_PASSES_FOLD_CONSTANTS_H

#include "passes/passes.h"

// Replaces such nodes by constants: unpack_n_bits alone where `unpacks`, else all others.
MUST_USE tenon_status fold_constants(PassCtx *c, bool unpacks, bool *out_changed);

#endif
