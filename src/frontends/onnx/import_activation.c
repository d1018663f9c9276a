// import_activation.c -- older forms of the activations.
#include "eval/activation.h"
#include "frontends/onnx/onnx.h"

// The first versions carry an attribute for in-place use, and nothing else differs.
static tenon_status legacy(ImportNode *n, int op) {
  const OpInfo *info = op_info(op);
  void *attrs = info->attrs_size ? arena_alloc(&n->g->arena, info->attrs_size) : NULL;
  TRY(import_attrs(n, info, "consumed_inputs", attrs));
  return import_as(n, op, attrs, n->nin, n->in);
}
static tenon_status elu(ImportNode *n) { return legacy(n, OP_elu); }
static tenon_status leaky_relu(ImportNode *n) { return legacy(n, OP_leaky_relu); }
static tenon_status hard_sigmoid(ImportNode *n) { return legacy(n, OP_hard_sigmoid); }

static tenon_status selu(ImportNode *n) {  // other defaults then
  selu_attrs at = {.alpha = import_f64(n, "alpha", (double)1.6732f),
                   .gamma = import_f64(n, "gamma", (double)1.0507f)};
  return import_as(n, OP_selu, &at, n->nin, n->in);
}

// Before opset 7 a slope of one element a channel applied to axis 1.
static tenon_status prelu(ImportNode *n) {
  if (n->nin != 2) return import_fail(n, TENON_EINVAL, "%d inputs, must be 2", n->nin);
  const Type *x = type_of(n->in[0]), *s = type_of(n->in[1]);
  Node *slope = n->in[1];
  if (s->rank == 1 && x->rank > 2) {
    int64_t axes[MAX_RANK];
    for (int i = 0; i < x->rank - 2; i++) axes[i] = 1 + i;
    slope = N(n->g, unsqueeze, slope, node_i64s(n->g, x->rank - 2, axes));
  }
  return import_as(n, OP_prelu, NULL, 2, (Node *[]){n->in[0], slope});
}

static const ImportRow rows[] = {
    // clang-format off
    {"", "Elu",         1, 5, elu,          NULL},
    {"", "Selu",        1, 5, selu,         NULL},
    {"", "LeakyRelu",   1, 5, leaky_relu,   NULL},
    {"", "HardSigmoid", 1, 5, hard_sigmoid, NULL},
    {"", "PRelu",       1, 6, prelu,        NULL},
    // clang-format on
};
const ImportTable onnx_rows_activation = {rows, ARRAY_LEN(rows)};
