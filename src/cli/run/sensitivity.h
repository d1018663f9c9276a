// sensitivity.h -- how far roundings take a model's results: the bound of `run --compare interp`.
//
// A compiled model rounds at other places than the interpreter, and what follows amplifies it: the
// deeper the network, the more.  So the interpreter runs again with every float value changed by a
// few roundings.  What that changes is what roundings explain.
#ifndef TENON_CLI_RUN_SENSITIVITY_H
#define TENON_CLI_RUN_SENSITIVITY_H

#include "cli/tensors.h"
#include "ir/interpret.h"

typedef struct Sensitivity {
  const Interp *interp;
  Value *const *inputs, *const *reference;
  int64_t nresults;
  uint64_t seed;
  int64_t max_bytes;
  Pool *pool;
  Arena *arena;
} Sensitivity;

// By result: the factor by which its tolerance (tolerance_scaled) grows, at least 1; for what is no
// float, the number of elements that may differ.  Nested values count as 1.
MUST_USE tenon_status sensitivity_factors(const Sensitivity *s, Diag *d, double *out);

#endif
