// loss.c -- records of the classification losses.
#include "eval/loss.h"
#include "ir/opinfo.h"

static tenon_status infer_loss(Infer *in) {
  const negative_log_likelihood_loss_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, 0));
  const Type *x = infer_type(in, 0), *t = infer_type(in, 1), *w = infer_type(in, 2);
  if ((x->dtype && !dtype_is_float(x->dtype)) || (t->dtype && !dtype_is_int(t->dtype)))
    return infer_fail(in, TENON_EINVAL, "scores are %s and targets %s, must be float and integer",
                      dtype_name(x->dtype), dtype_name(t->dtype));
  if (x->rank >= 0 && (x->rank < 2 || (t->rank >= 0 && t->rank != x->rank - 1)))
    return infer_fail(in, TENON_EINVAL, "scores of rank %d do not go with targets of rank %d",
                      x->rank, t->rank);
  if (x->rank >= 0 && t->rank >= 0)
    for (int i = 0; i < t->rank; i++)
      TRY(infer_equal_dim(in, t->dims[i], x->dims[i ? i + 1 : 0], "sizes of targets and scores"));
  if (w && w->rank == 1 && x->rank >= 0)
    TRY(infer_equal_dim(in, w->dims[0], x->dims[1], "weights and classes"));
  if (at->reduction == REDUCTION_NONE)
    infer_set_type(in, 0, type_with_dtype(in->g, t, x->dtype));
  else
    infer_set_type(in, 0, type_scalar(in->g, x->dtype));
  infer_set_type(in, 1, x);
  return TENON_OK;
}

ATTR_TABLE(negative_log_likelihood_loss, LOSS_ATTRS);
ATTR_TABLE(softmax_cross_entropy_loss, LOSS_ATTRS);

const OpInfo op_negative_log_likelihood_loss = {
    .name = "negative_log_likelihood_loss",
    .doc = "minus the score of the target class, weighted, and reduced",
    .onnx = "NegativeLogLikelihoodLoss",
    .onnx_since = 12,
    .operands = "input target weight?",
    .results = "loss",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    OP_ATTRS(negative_log_likelihood_loss),
    .infer = infer_loss,
    .eval = eval_negative_log_likelihood_loss,
    SAMPLES("(f32[3,4], i64[3]{0,3,1})", "(f32[2,3,2], i64[2,2]{0,1,2,0}, f32[3]) reduction=none",
            "(f16[2,3], i32[2]{-1,2}) ignore_index=-1 reduction=sum",
            "(f32[0,3], i64[0]) reduction=sum"),
};
const OpInfo op_softmax_cross_entropy_loss = {
    .name = "softmax_cross_entropy_loss",
    .doc = "minus the log of the target class's softmax, weighted, and reduced",
    .onnx = "SoftmaxCrossEntropyLoss",
    .onnx_since = 12,
    .operands = "scores labels weights?",
    .results = "output log_prob",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    OP_ATTRS(softmax_cross_entropy_loss),
    .infer = infer_loss,
    .eval = eval_softmax_cross_entropy_loss,
    SAMPLES("(f32[3,4], i64[3]{0,3,1})", "(f32[2,3,2], i64[2,2]{0,1,2,0}, f32[3]) reduction=none",
            "(f16[2,3], i32[2]{-1,2}) ignore_index=-1 reduction=sum",
            "(f32[0,3], i64[0]) reduction=sum"),
};
