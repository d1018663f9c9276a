// import_norm.c -- softmax and normalisations of earlier operator sets.
#include "eval/movement.h"
#include "eval/norm.h"
#include "frontends/onnx/onnx.h"

// y in x's shape again; sizes of 0 are sizes.
static Node *shaped_as(Graph *g, Node *y, Node *x) {
  reshape_attrs at = {.allowzero = true};
  return NA(g, reshape, &at, y, N(g, shape, x));
}

// Before 13 softmax sees a matrix: the dimensions before `axis`, and all others as one.
static tenon_status softmax_of(ImportNode *n, int op) {
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  int64_t axis = import_i64(n, "axis", 1);
  softmax_attrs at = {.axis = -1};  // log_softmax's are the same
  TRY(import_attrs(n, op_info(op), NULL, &at));
  at.axis = -1;
  Node *x = n->in[0];
  int rank = type_of(x)->kind == TK_TENSOR ? type_of(x)->rank : -1;
  if (rank >= 1 && (axis == rank - 1 || axis == -1)) return import_as(n, op, &at, 1, &x);
  flatten_attrs fl = {.axis = axis};
  Node *flat = NA(n->g, flatten, &fl, x);
  Node *y = node_new(n->g, op, 1, &flat, &at, 0, n->name);
  n->out[0] = shaped_as(n->g, y, x);
  return graph_status(n->g);
}
static tenon_status softmax_1(ImportNode *n) { return softmax_of(n, OP_softmax); }
static tenon_status log_softmax_1(ImportNode *n) { return softmax_of(n, OP_log_softmax); }

// Before 9 the parameters may be for each activation instead of each channel: then every element of
// an image is a channel of its own.
static tenon_status by_activation(ImportNode *n, batch_normalization_attrs *at) {
  if (n->nin != 5 || n->nout > 1)
    return import_fail(n, TENON_EUNSUPPORTED, "spatial=0 in training mode: export for inference");
  const int64_t all = -1;
  flatten_attrs fl = {.axis = 1};
  Node *src[5] = {NA(n->g, flatten, &fl, n->in[0])};
  for (int i = 1; i < 5; i++) src[i] = N(n->g, reshape, n->in[i], node_i64s(n->g, 1, &all));
  Node *y = node_new(n->g, OP_batch_normalization, 5, src, at, 1, n->name);
  n->out[0] = shaped_as(n->g, y, n->in[0]);
  return graph_status(n->g);
}

// A model that says it is for inference and still names the results of training gets what it gave.
static tenon_status all_results(ImportNode *n, const batch_normalization_attrs *at) {
  if (n->nin != 5) return import_fail(n, TENON_EINVAL, "%d inputs, must be 5", n->nin);
  n->out[0] = node_new(n->g, OP_batch_normalization, 5, n->in, at, 1, n->name);
  for (int i = 1; i < n->nout; i++) n->out[i] = n->in[i % 2 ? 3 : 4];
  return graph_status(n->g);
}

// Before 14 more than one result means training mode.
static tenon_status batch_normalization_1(ImportNode *n) {
  batch_normalization_attrs at;
  TRY(import_attrs(n, op_info(OP_batch_normalization), "consumed_inputs is_test spatial", &at));
  at.training_mode = n->nout > 1 && !import_i64(n, "is_test", 0);
  bool flat = n->nin > 0 && type_of(n->in[0])->kind == TK_TENSOR && type_of(n->in[0])->rank == 2;
  if (!import_i64(n, "spatial", 1) && !flat) return by_activation(n, &at);
  if (n->nout > 1 && !at.training_mode) return all_results(n, &at);
  return import_as(n, OP_batch_normalization, &at, n->nin, n->in);
}

static tenon_status instance_normalization_1(ImportNode *n) {
  instance_normalization_attrs at;
  TRY(import_attrs(n, op_info(OP_instance_normalization), "consumed_inputs", &at));
  return import_as(n, OP_instance_normalization, &at, n->nin, n->in);
}

static const ImportRow rows[] = {
    {"", "Softmax", 1, 12, softmax_1, NULL},
    {"", "LogSoftmax", 1, 12, log_softmax_1, NULL},
    {"", "BatchNormalization", 1, 13, batch_normalization_1, NULL},
    {"", "InstanceNormalization", 1, 5, instance_normalization_1, NULL},
};
const ImportTable onnx_rows_norm = {rows, ARRAY_LEN(rows)};
