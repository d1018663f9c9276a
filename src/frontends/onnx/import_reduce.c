// import_reduce.c -- reductions of earlier operator sets, which take their axes as an attribute.
#include "eval/reduce.h"
#include "frontends/onnx/onnx.h"

static tenon_status legacy(ImportNode *n, int op) {
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  reduce_attrs at;
  TRY(import_attrs(n, op_info(op), "axes", &at));
  Ints axes;
  bool given = import_ints(n, "axes", &axes) && axes.n;
  Node *src[2] = {n->in[0], given ? node_i64s(n->g, axes.n, axes.v) : n->g->none};
  return import_as(n, op, &at, 2, src);
}

#define LEGACY(op)                                                                                 \
  static tenon_status legacy_##op(ImportNode *n) { return legacy(n, OP_##op); }
LEGACY(reduce_sum)
LEGACY(reduce_prod)
LEGACY(reduce_max)
LEGACY(reduce_min)
LEGACY(reduce_mean)
LEGACY(reduce_l1)
LEGACY(reduce_l2)
LEGACY(reduce_log_sum)
LEGACY(reduce_log_sum_exp)
LEGACY(reduce_sum_square)

static const ImportRow rows[] = {
    {"", "ReduceSum", 1, 12, legacy_reduce_sum, NULL},
    {"", "ReduceProd", 1, 17, legacy_reduce_prod, NULL},
    {"", "ReduceMax", 1, 17, legacy_reduce_max, NULL},
    {"", "ReduceMin", 1, 17, legacy_reduce_min, NULL},
    {"", "ReduceMean", 1, 17, legacy_reduce_mean, NULL},
    {"", "ReduceL1", 1, 17, legacy_reduce_l1, NULL},
    {"", "ReduceL2", 1, 17, legacy_reduce_l2, NULL},
    {"", "ReduceLogSum", 1, 17, legacy_reduce_log_sum, NULL},
    {"", "ReduceLogSumExp", 1, 17, legacy_reduce_log_sum_exp, NULL},
    {"", "ReduceSumSquare", 1, 17, legacy_reduce_sum_square, NULL},
};
const ImportTable onnx_rows_reduce = {rows, ARRAY_LEN(rows)};
