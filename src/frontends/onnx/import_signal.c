// import_signal.c -- older forms of the signal operators.
#include "eval/signal.h"
#include "frontends/onnx/onnx.h"

static tenon_status dft_attr_axis(ImportNode *n) {  // opsets 17 to 19: the axis is an attribute
  dft_attrs at = {.inverse = import_i64(n, "inverse", 0) != 0,
                  .onesided = import_i64(n, "onesided", 0) != 0};
  if (n->nin < 1 || n->nin > 2)
    return import_fail(n, TENON_EINVAL, "%d inputs, must be 1 or 2", n->nin);
  Node *src[3] = {n->in[0], n->nin > 1 ? n->in[1] : n->g->none,
                  node_i64(n->g, import_i64(n, "axis", 1))};
  return import_as(n, OP_dft, &at, 3, src);
}

static const ImportRow rows[] = {
    {"", "DFT", 17, 19, dft_attr_axis, NULL},
};
const ImportTable onnx_rows_signal = {rows, ARRAY_LEN(rows)};
