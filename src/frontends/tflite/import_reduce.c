// import_reduce.c -- reductions, searches and sums along axes.
#include "eval/index.h"
#include "eval/reduce.h"
#include "frontends/tflite/import.h"

// The axes of input 1, each once; false: failed.
static bool read_axes(TflOp *op, int rank, int64_t *axes, int64_t *n) {
  Ints given = tfl_need_ints(op, 1, "the axes");
  bool on[MAX_RANK] = {false};
  *n = 0;
  if (op->g->status) return false;
  for (int64_t i = 0; i < given.n; i++) {
    int64_t axis = tfl_axis(op, given.v[i], rank);
    if (op->g->status) return false;
    if (rank && !on[axis]) axes[(*n)++] = axis;
    if (rank) on[axis] = true;
  }
  return true;
}

static void reduce_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  int64_t axes[MAX_RANK], n;
  if (!read_axes(op, rank, axes, &n)) return;
  bool keep = tfl_opt_bool(op, 0, false);
  tfl_give(op, 0, tb_reduce(g, op->row->arg, x, (Ints){n, axes}, keep));
}

static void arg_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  Ints axis = tfl_need_ints(op, 1, "the axis");
  if (!tfl_need(op, 2, 1)) return;
  if (axis.n != 1) {
    tfl_fail(op, "%lld axes", (long long)axis.n);
    return;
  }
  arg_attrs at = {.axis = tfl_axis(op, axis.v[0], rank), .keepdims = false};
  Node *y = node_new(g, op->row->arg, 1, &x, &at, 0, NULL);
  tfl_give(op, 0, tb_cast(g, y, tfl_out_tensor(op, 0)->dtype));
}

static void cum_sum(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  int rank = tfl_rank(op, x);
  Ints axis = tfl_need_ints(op, 1, "the axis");
  if (g->status) return;
  if (axis.n != 1) {
    tfl_fail(op, "%lld axes", (long long)axis.n);
    return;
  }
  cum_attrs at = {.exclusive = tfl_opt_bool(op, 0, false), .reverse = tfl_opt_bool(op, 1, false)};
  Node *along = node_i64(g, tfl_axis(op, axis.v[0], rank));
  tfl_give(op, 0, NA(g, cum_sum, &at, x, along));
}

static const TflRow rows[] = {
    // clang-format off
    {40,  "MEAN",        reduce_row, 4, OP_reduce_mean},
    {56,  "ARG_MAX",     arg_row, 3, OP_arg_max},
    {74,  "SUM",         reduce_row, 2, OP_reduce_sum},
    {79,  "ARG_MIN",     arg_row, 3, OP_arg_min},
    {81,  "REDUCE_PROD", reduce_row, 2, OP_reduce_prod},
    {82,  "REDUCE_MAX",  reduce_row, 3, OP_reduce_max},
    {89,  "REDUCE_MIN",  reduce_row, 3, OP_reduce_min},
    {91,  "REDUCE_ANY",  reduce_row, 1, OP_reduce_max},
    {128, "CUMSUM",      cum_sum, 1, 0},
    {140, "REDUCE_ALL",  reduce_row, 1, OP_reduce_min},
    // clang-format on
};
TFL_TABLE(reduce);
