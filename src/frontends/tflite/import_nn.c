// import_nn.c -- products, convolutions and pools on plain values.
//
// Images lie channels last; the graph's operators are channels first, so that they get transposes around them, which its layout pass removes.
#include "eval/contract.h"
#include "eval/norm.h"
#include "eval/window.h"
#include "frontends/tflite/import.h"

// The last axis of x with each row of w [units, depth].
static void fully_connected(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0), *w = tfl_in(op, 1), *b = tfl_in_opt(op, 2);
  if (tfl_opt_i8(op, 1, 0)) tfl_fail(op, "shuffled weights");
  bool keep = tfl_opt_bool(op, 2, false);
  int rank = tfl_rank(op, x), wrank = tfl_rank(op, w);
  if (g->status) return;
  if (wrank != 2) {
    tfl_fail(op, "weights of rank %d", wrank);
    return;
  }
  int64_t depth = tfl_size(op, w, 1), perm[] = {1, 0};
  if (g->status) return;
  if (depth < 1) {
    tfl_fail(op, "weights without columns");
    return;
  }
  if (!keep || rank < 2) x = tb_reshape(g, x, 2, (int64_t[]){-1, depth});
  Node *y = N(g, mat_mul, x, tb_transpose(g, w, 2, perm));
  if (b) y = N(g, add, y, b);
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, 0, 0)));
}

static void softmax_row(TflOp *op) {
  Graph *g = op->g;
  Node *x = tfl_in(op, 0);
  double beta = tfl_opt_f32(op, 0, 1);
  if (beta != 1) x = N(g, mul, x, tb_num(g, x, beta));
  tfl_give(op, 0, NA(g, softmax, (&(softmax_attrs){.axis = -1}), x));
}

static const TflRow rows[] = {
    // clang-format off
    {9,   "FULLY_CONNECTED",   fully_connected, NULL, 14, 0},
    {25,  "SOFTMAX",           softmax_row,     NULL, 4,  0},
    // clang-format on
};
TFL_TABLE(nn);
