// import_elementwise.c -- element-wise builtin operators on plain values.
#include "eval/activation.h"
#include "frontends/tflite/import.h"

#include <math.h>

static void unary(TflOp *op) {
  Node *x = tfl_in(op, 0);
  tfl_give(op, 0, node_new(op->g, op->row->arg, 1, &x, NULL, 0, NULL));
}
// (a, b), with a fused activation in field 0 where the operator has options for one
static void binary(TflOp *op) {
  Node *x[] = {tfl_in(op, 0), tfl_in(op, 1)};
  Node *y = node_new(op->g, op->row->arg, 2, x, NULL, 0, NULL);
  tfl_give(op, 0, tfl_activate(op, y, tfl_opt_i8(op, 0, 0)));
}
static void plain_binary(TflOp *op) {
  Node *x[] = {tfl_in(op, 0), tfl_in(op, 1)};
  tfl_give(op, 0, node_new(op->g, op->row->arg, 2, x, NULL, 0, NULL));
}

static const TflRow rows[] = {
    // clang-format off
    {0,   "ADD",          binary,       NULL, 5, OP_add},
    {14,  "LOGISTIC",     unary,        NULL, 3, OP_sigmoid},
    {18,  "MUL",          binary,       NULL, 7, OP_mul},
    {28,  "TANH",         unary,        NULL, 3, OP_tanh},
    {41,  "SUB",          binary,       NULL, 5, OP_sub},
    {55,  "MAXIMUM",      plain_binary, NULL, 4, OP_max},
    // clang-format on
};
TFL_TABLE(elementwise);
