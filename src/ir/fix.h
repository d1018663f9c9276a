// fix.h -- inputs of a graph that are known when it is compiled.
#ifndef TENON_IR_FIX_H
#define TENON_IR_FIX_H

#include "ir/ir.h"

typedef struct FixedInput {
  int64_t param;  // of the main body
  DType dtype;
  int rank;
  const int64_t *dims;
  const void *data;  // dense; copied
} FixedInput;
// Puts constants in the places where the inputs are used; the graph still takes them.  Sizes that
// follow are inferred anew.
MUST_USE tenon_status graph_fix(Graph *g, const FixedInput *in, int64_t n);

#endif
