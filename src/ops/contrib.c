// contrib.c -- records of ops that only runtimes' own operators need.
#include "eval/contrib.h"
#include "ir/opinfo.h"

static tenon_status infer_inverse(Infer *in) {
  TRY(infer_need(in, 0, 0));
  const Type *t = infer_type(in, 0);
  if (t->dtype && !dtype_is_float(t->dtype))
    return infer_fail(in, TENON_EINVAL, "the operand is %s, must be a float type",
                      dtype_name(t->dtype));
  if (t->rank >= 0 && t->rank < 2)
    return infer_fail(in, TENON_EINVAL, "rank %d, must be at least 2", t->rank);
  if (t->rank >= 2)
    TRY(infer_equal_dim(in, t->dims[t->rank - 1], t->dims[t->rank - 2], "rows and columns"));
  infer_set_type(in, 0, t);
  return TENON_OK;
}

static double cost_inverse(const CostIn *c) {
  if (c->in[0].rank < 2) return 0;
  return 4 * (double)c->in[0].n * (double)c->in[0].dims[c->in[0].rank - 1];
}

const OpInfo op_inverse = {
    .name = "inverse",
    .doc = "the inverse of each square matrix of the last two axes",
    .onnx = "com.microsoft.Inverse",
    .onnx_since = 1,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .infer = infer_inverse,
    .eval = eval_inverse,
    .cost = cost_inverse,
    SAMPLES("(f32[2,2]{2,1,1,3})", "(f64[2,1,1]{4,5})", "(f32[0,3,3])", "(f32[2,0,0])"),
};
