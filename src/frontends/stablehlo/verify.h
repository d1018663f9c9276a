// verify.h -- inside the verifier of modules: the walk and the tables (verify.c), rules of single
// ops (verify_op.c).
#ifndef TENON_FRONTENDS_STABLEHLO_VERIFY_H
#define TENON_FRONTENDS_STABLEHLO_VERIFY_H

#include "frontends/stablehlo/internal.h"

typedef struct Verify {
  Arena *arena;
  Diag *diag;
  const MlirOp *op;
} Verify;

typedef tenon_status VerifyFn(Verify *v);

MUST_USE tenon_status vf_fail(Verify *v, const char *fmt, ...) PRINTF(2, 3);
const MlirType *vf_in(const Verify *v, int64_t i);
const MlirType *vf_out(const Verify *v, int64_t i);
// The shape is known: a tensor with a rank.
bool vf_ranked(const MlirType *t);
// May these be the same size, shape?
bool vf_dims_agree(int64_t a, int64_t b);
bool vf_shapes_agree(const MlirType *a, const MlirType *b);

// The rule of an op; NULL: it has none.
VerifyFn *vf_rule(const char *op);

#endif
