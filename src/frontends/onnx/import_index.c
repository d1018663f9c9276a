// import_index.c -- index operators whose ONNX form differs from ours.
#include "eval/index.h"
#include "eval/movement.h"
#include "frontends/onnx/onnx.h"

// Deprecated under this name: ScatterElements without reduction.
static tenon_status scatter(ImportNode *n) {
  scatter_elements_attrs at;
  TRY(import_attrs(n, &op_scatter_elements, NULL, &at));
  return import_as(n, OP_scatter_elements, &at, n->nin, n->in);
}

static tenon_status top_k_1(ImportNode *n) {
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  top_k_attrs at;
  TRY(import_attrs(n, &op_top_k, "k", &at));
  if (!import_attr(n, "k"))
    return import_fail(n, TENON_EINVAL, "attribute 'k' is required and absent");
  int64_t k = import_i64(n, "k", 0);
  return import_as(n, OP_top_k, &at, 2, (Node *[]){n->in[0], node_i64s(n->g, 1, &k)});
}

// Before opset 13 the input counted as a matrix, cut at the axis.
static tenon_status hardmax_1(ImportNode *n) {
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  flatten_attrs cut = {.axis = import_i64(n, "axis", 1)};
  Node *x = n->in[0], *y = N(n->g, hardmax, NA(n->g, flatten, &cut, x));
  reshape_attrs exact = {.allowzero = true};
  return import_as(n, OP_reshape, &exact, 2, (Node *[]){y, N(n->g, shape, x)});
}

static const ImportRow rows[] = {
    {"", "Scatter", 9, 0, scatter, NULL},
    {"", "TopK", 1, 9, top_k_1, NULL},
    {"", "Hardmax", 1, 12, hardmax_1, NULL},
};
const ImportTable onnx_rows_index = {rows, ARRAY_LEN(rows)};
