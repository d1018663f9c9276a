// ragged.c -- the record of ragged_linear_attention.
#include "eval/ragged.h"
#include "ir/opinfo.h"

enum { Q, K, V, PAST, SEQ, DECAY, BETA };

// The leading sizes of operand i are those of another's.
static tenon_status same_dims(Infer *in, int i, const Type *as, int n) {
  const Type *t = infer_type(in, i);
  for (int d = 0; d < n && t->rank >= 0 && as->rank >= 0; d++)
    TRY(infer_equal_dim(in, t->dims[d], as->dims[d], "sizes of the operands"));
  return TENON_OK;
}

static tenon_status infer_past(Infer *in, const Type *q, const Type *v) {
  const Type *past = infer_type(in, PAST);
  if (past->rank < 0) return TENON_OK;
  if (q->rank >= 0) {
    TRY(infer_equal_dim(in, past->dims[1], q->dims[1], "heads of state and query"));
    TRY(infer_equal_dim(in, past->dims[2], q->dims[2], "key size of state and query"));
  }
  return v->rank < 0 ? TENON_OK
                     : infer_equal_dim(in, past->dims[3], v->dims[2], "size of state and values");
}

static tenon_status infer_ragged_linear_attention(Infer *in) {
  for (int i = Q; i <= V; i++) TRY(infer_need_float(in, i, 3));
  TRY(infer_need_float(in, PAST, 4));
  TRY(infer_need(in, SEQ, DT_I32));
  TRY(infer_need_float(in, DECAY, 2));
  const Type *q = infer_type(in, Q), *v = infer_type(in, V), *seq = infer_type(in, SEQ);
  if (seq->rank >= 0 && seq->rank != 1)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 1", SEQ, seq->rank);
  TRY(same_dims(in, K, q, 3));
  TRY(same_dims(in, V, q, 2));
  TRY(same_dims(in, SEQ, q, 1));
  TRY(same_dims(in, DECAY, q, 2));
  if (infer_src(in, BETA)) {
    TRY(infer_need_float(in, BETA, 2));
    TRY(same_dims(in, BETA, q, 2));
  }
  TRY(infer_past(in, q, v));
  infer_set_type(in, 1, infer_type(in, PAST));
  if (v->rank < 0) {
    infer_set_unranked(in, 0, q->dtype);
    return TENON_OK;
  }
  return infer_set(in, 0, q->dtype, 3, v->dims);
}

static double cost_ragged_linear_attention(const CostIn *c) {
  if (c->nin < 4 || c->in[0].rank != 3 || c->in[2].rank != 3) return 0;
  return (c->nin > BETA ? 8.0 : 6.0) * (double)c->in[2].n * (double)c->in[0].dims[2];
}

ATTR_TABLE(ragged_linear_attention, RAGGED_LINEAR_ATTENTION_ATTRS);
const OpInfo op_ragged_linear_attention = {
    .name = "ragged_linear_attention",
    .doc = "linear attention over rows of several sequences: row t decays the state of sequence "
           "seq[t] by exp(decay), adds key times value (beta: times beta, less what the state has "
           "for the key), and reads it by the query",
    .operands = "query key value past seq decay beta?",
    .results = "output present",
    .dtypes = "float",
    .arity = -1,
    .nres = 2,
    .fuse = {FC_ANCHOR, FUSED_ATTENTION, FF_CLOSED},
    OP_ATTRS(ragged_linear_attention),
    .infer = infer_ragged_linear_attention,
    .eval = eval_ragged_linear_attention,
    .cost = cost_ragged_linear_attention,
    SAMPLES("(f32[5,2,4], f32[5,2,4], f32[5,2,6], f32[3,2,4,6], i32[5]{0,0,2,2,2}, "
            "f32[5,2]{-1,0,-2,-1,0,-1,-1,-3,-2,-1})",
            "(f32[4,1,8], f32[4,1,8], f32[4,1,16], f32[2,1,8,16], i32[4]{1,0,1,0}, "
            "f32[4,1]{-1,-2,-1,0}, f32[4,1]{0.5,0,0.25,0.125}) scale=0.5",
            "(f32[t,2,16], f32[t,2,16], f32[t,2,64], f32[s,2,16,64], i32[3]{0,0,0}, "
            "f32[3,2]{-1,-1,-2,0,-1,-1}, f32[3,2]{0.125,0,0.25,0.125,0.125,0.25})",
            "(f16[2,2,4], bf16[2,2,4], f16[2,2,3], f32[1,2,4,3], i32[2]{0,0}, "
            "f16[2,2]{-1,-2,0,-1})",
            "(f32[0,2,4], f32[0,2,4], f32[0,2,4], f32[1,2,4,4], i32[0]{}, f32[0,2])"),
};
