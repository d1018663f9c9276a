// grouped.c -- the record of grouped_mat_mul.
#include "eval/grouped.h"
#include "ir/opinfo.h"

enum { X, W, GROUP };

static tenon_status infer_grouped_mat_mul(Infer *in) {
  TRY(infer_need_float(in, X, 2));
  TRY(infer_need_float(in, W, 3));
  TRY(infer_need(in, GROUP, DT_I32));
  const Type *x = infer_type(in, X), *w = infer_type(in, W), *group = infer_type(in, GROUP);
  if (group->rank >= 0 && group->rank != 1)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 1", GROUP, group->rank);
  if (x->rank >= 0 && group->rank >= 0)
    TRY(infer_equal_dim(in, group->dims[0], x->dims[0], "rows and their matrices"));
  if (x->rank < 0 || w->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  TRY(infer_equal_dim(in, x->dims[1], w->dims[1], "columns of x and rows of a matrix"));
  return infer_set(in, 0, x->dtype, 2, (Dim[]){x->dims[0], w->dims[2]});
}

static double cost_grouped_mat_mul(const CostIn *c) {
  if (c->nin < 2 || c->in[X].rank != 2) return 0;
  return 2 * (double)c->out[0].n * (double)c->in[X].dims[1];
}

const OpInfo op_grouped_mat_mul = {
    .name = "grouped_mat_mul",
    .doc = "row t of x [rows, k] times matrix group[t] of w [groups, k, n]; zeros where group[t] "
           "is below 0",
    .operands = "x w group",
    .results = "y",
    .dtypes = "float",
    .arity = 3,
    .nres = 1,
    CONTRACTION(CF_OTHER, 0, 0, 1, -1, -1, -1, -1, -1, -1, -1),
    .infer = infer_grouped_mat_mul,
    .eval = eval_grouped_mat_mul,
    .cost = cost_grouped_mat_mul,
    SAMPLES("(f32[5,8], f32[3,8,40], i32[5]{2,-1,0,2,1})",
            "(f32[m,16], f32[g,16,7], i32[3]{0,0,-1})", "(f32[2,300], f32[1,300,4], i32[2]{0,0})",
            "(f16[3,4], f32[2,4,33], i32[3]{1,0,-1})", "(bf16[2,4], bf16[2,4,3], i32[2]{1,0})",
            "(f32[0,4], f32[2,4,3], i32[0]{})", "(f32[2,0], f32[2,0,3], i32[2]{1,-1})",
            "(f32[2,3], f32[2,3,0], i32[2]{1,-1})"),
};
