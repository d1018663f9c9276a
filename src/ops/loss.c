// loss.c -- records of the classification losses.
#include "eval/index.h"
#include "eval/loss.h"
#include "eval/norm.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
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
  Dim dims[MAX_RANK];
  if (x->rank >= 0 && t->rank >= 0)
    for (int i = 0; i < t->rank; i++)
      TRY(infer_merge_dim(in, t->dims[i], x->dims[i ? i + 1 : 0], "sizes of targets and scores",
                          &dims[i]));
  if (w && w->rank == 1 && x->rank >= 0)
    TRY(infer_equal_dim(in, w->dims[0], x->dims[1], "weights and classes"));
  if (at->reduction == REDUCTION_NONE && x->rank >= 0 && t->rank >= 0)
    TRY(infer_set(in, 0, x->dtype, t->rank, dims));
  else if (at->reduction == REDUCTION_NONE)
    infer_set_type(in, 0, type_with_dtype(in->g, t, x->dtype));
  else
    infer_set_type(in, 0, type_scalar(in->g, x->dtype));
  infer_set_type(in, 1, x);
  return TENON_OK;
}

// Narrow floats are summed in f32.
static Node *widened(Graph *g, Node *x) {
  if (g->status || dtype_bits(type_of(x)->dtype) >= 32) return x;
  return NA(g, cast, (&(cast_attrs){.to = DT_F32, .saturate = true}), x);
}
static Node *as(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}

// What each position adds, and with what weight; x is wide, [batch, classes, ...].
static Node *reduced_loss(Graph *g, const Node *n, Node *x) {
  const negative_log_likelihood_loss_attrs *at = n->attrs;
  if (g->status) return g->poison;
  Node *target = n->src[1], *weight = src_or_null(g, n, 2), *axis = node_i64s(g, 1, (int64_t[]){1});
  DType t = type_of(x)->dtype, ti = type_of(target)->dtype;
  Node *zero = node_scalar(g, t, 0), *w = node_scalar(g, t, 1), *counts = NULL;
  if (at->ignore_index.given) {
    Node *ignored = N(g, eq, as(g, target, DT_I64), node_i64(g, at->ignore_index.v));
    counts = N(g, not, ignored);
    target = N(g, where, counts, target, node_scalar(g, ti, 0));
  }
  Node *at_class = N(g, unsqueeze, target, axis);
  Node *picked = NA(g, gather_elements, (&(gather_elements_attrs){.axis = 1}), x, at_class);
  Node *loss = N(g, neg, N(g, squeeze, picked, axis));
  if (weight) w = N(g, gather, as(g, weight, t), target);
  loss = N(g, mul, loss, w);
  if (counts) {
    w = N(g, where, counts, w, zero);
    loss = N(g, where, counts, loss, zero);
  }
  if (at->reduction == REDUCTION_NONE) return loss;
  reduce_attrs all = {.keepdims = false};
  Node *sum = NA(g, reduce_sum, &all, loss);
  if (at->reduction == REDUCTION_SUM) return sum;
  Node *each = N(g, expand, w, N(g, shape, n->src[1]));
  return N(g, div, sum, NA(g, reduce_sum, &all, each));
}

static void expand_negative_log_likelihood_loss(Graph *g, const Node *n, Node **out) {
  if (type_of(n->src[0])->rank < 2) return;
  out[0] = as(g, reduced_loss(g, n, widened(g, n->src[0])), type_of(n->src[0])->dtype);
}

static void expand_softmax_cross_entropy_loss(Graph *g, const Node *n, Node **out) {
  if (type_of(n->src[0])->rank < 2) return;
  DType t = type_of(n->src[0])->dtype;
  Node *p = NA(g, log_softmax, &(log_softmax_attrs){.axis = 1}, widened(g, n->src[0]));
  out[0] = as(g, reduced_loss(g, n, p), t);
  if (n->nres > 1) out[1] = as(g, p, t);
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
    .fuse = FUSE_REDUCTION,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(negative_log_likelihood_loss),
    .infer = infer_loss,
    .eval = eval_negative_log_likelihood_loss,
    .expand = expand_negative_log_likelihood_loss,
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
    .fuse = FUSE_REDUCTION,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(softmax_cross_entropy_loss),
    .infer = infer_loss,
    .eval = eval_softmax_cross_entropy_loss,
    .expand = expand_softmax_cross_entropy_loss,
    SAMPLES("(f32[3,4], i64[3]{0,3,1})", "(f32[2,3,2], i64[2,2]{0,1,2,0}, f32[3]) reduction=none",
            "(f16[2,3], i32[2]{-1,2}) ignore_index=-1 reduction=sum",
            "(f32[0,3], i64[0]) reduction=sum"),
};
