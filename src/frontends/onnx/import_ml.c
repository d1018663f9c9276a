// import_ml.c -- operators of ai.onnx.ml whose attributes are tensors, or come in several forms.
//
// Tensors become lists, in double, which holds every number of theirs exactly; a label encoder's
// keys and values become constants, since their type is the result's.
#include "eval/ml.h"
#include "frontends/onnx/onnx.h"

// ---- tensors as lists ----

// The elements of a tensor attribute, aligned as the file does not align them.
static tenon_status tensor_data(ImportNode *n, const char *name, const Node **node,
                                const void **data) {
  *node = import_tensor_attr(n, name);
  *data = NULL;
  TRY(graph_status(n->g));
  if (!*node) return TENON_OK;
  TRY(const_bytes(n->g, *node, data, n->g->diag));
  int64_t bytes = (*node)->data->bytes;
  if (bytes && (uintptr_t)*data % 16)
    *data = arena_dup(&n->g->arena, *data, bytes);  // as in a file
  return TENON_OK;
}

static tenon_status tensor_floats(ImportNode *n, const char *name, Floats *out) {
  const Node *t;
  const void *data;
  TRY(tensor_data(n, name, &t, &data));
  if (!t) return TENON_OK;
  DType d = type_of(t)->dtype;
  if (!dtype_is_float(d) && !dtype_is_int(d))
    return import_fail(n, TENON_EINVAL, "attribute '%s' is a tensor of %s", name, dtype_name(d));
  double *v = arena_array(&n->g->arena, double, t->data->n);
  load_f64(d, data, 0, t->data->n, v);
  *out = (Floats){t->data->n, v};
  return TENON_OK;
}

static tenon_status tensor_ints(ImportNode *n, const char *name, Ints *out) {
  const Node *t;
  const void *data;
  TRY(tensor_data(n, name, &t, &data));
  if (!t) return TENON_OK;
  DType d = type_of(t)->dtype;
  if (!dtype_is_int(d))
    return import_fail(n, TENON_EINVAL, "attribute '%s' is a tensor of %s", name, dtype_name(d));
  int64_t *v = arena_array(&n->g->arena, int64_t, t->data->n);
  load_i64(d, data, 0, t->data->n, v);
  *out = (Ints){t->data->n, v};
  return TENON_OK;
}

// ---- trees ----

#define TREE_TENSORS                                                                               \
  "nodes_hitrates nodes_hitrates_as_tensor nodes_values_as_tensor base_values_as_tensor "

static tenon_status tree_classifier(ImportNode *n) {
  tree_ensemble_classifier_attrs at = {0};
  TRY(import_attrs(n, &op_tree_ensemble_classifier, TREE_TENSORS "class_weights_as_tensor", &at));
  TRY(tensor_floats(n, "nodes_values_as_tensor", &at.nodes_values));
  TRY(tensor_floats(n, "base_values_as_tensor", &at.base_values));
  TRY(tensor_floats(n, "class_weights_as_tensor", &at.class_weights));
  return import_as(n, OP_tree_ensemble_classifier, &at, n->nin, n->in);
}

static tenon_status tree_regressor(ImportNode *n) {
  tree_ensemble_regressor_attrs at = {0};
  TRY(import_attrs(n, &op_tree_ensemble_regressor, TREE_TENSORS "target_weights_as_tensor", &at));
  TRY(tensor_floats(n, "nodes_values_as_tensor", &at.nodes_values));
  TRY(tensor_floats(n, "base_values_as_tensor", &at.base_values));
  TRY(tensor_floats(n, "target_weights_as_tensor", &at.target_weights));
  return import_as(n, OP_tree_ensemble_regressor, &at, n->nin, n->in);
}

static tenon_status tree_ensemble(ImportNode *n) {
  tree_ensemble_attrs at = {0};
  TRY(import_attrs(
      n, &op_tree_ensemble,
      "aggregate_function post_transform leaf_weights membership_values nodes_hitrates nodes_modes "
      "nodes_splits",
      &at));
  int64_t how = import_i64(n, "aggregate_function", AGGREGATE_SUM),
          post = import_i64(n, "post_transform", POST_NONE);
  if (how < 0 || how > AGGREGATE_MAX || post < 0 || post > POST_PROBIT)
    return import_fail(n, TENON_EINVAL, "aggregate_function is %lld and post_transform %lld",
                       (long long)how, (long long)post);
  at.aggregate_function = (int)how;
  at.post_transform = (int)post;
  TRY(tensor_floats(n, "leaf_weights", &at.leaf_weights));
  TRY(tensor_floats(n, "membership_values", &at.membership_values));
  TRY(tensor_floats(n, "nodes_splits", &at.nodes_splits));
  TRY(tensor_ints(n, "nodes_modes", &at.nodes_modes));
  return import_as(n, OP_tree_ensemble, &at, n->nin, n->in);
}

// ---- label encoders ----

static Node *int_list(ImportNode *n, Ints v) { return node_i64s(n->g, v.n, v.v); }
static Node *str_list(ImportNode *n, Strs v) {
  return node_const(n->g, DT_STRING, 1, &v.n, v.v, NULL);
}
static Node *float_list(ImportNode *n, Floats v) {
  float *f = arena_array(&n->g->arena, float, v.n);
  for (int64_t i = 0; i < v.n; i++) f[i] = (float)v.v[i];
  return node_const(n->g, DT_F32, 1, &v.n, f, NULL);
}

// Keys or values: the one of name_int64s, name_floats, name_strings and name_tensor that is given.
static tenon_status list_attr(ImportNode *n, const char *name, Node **out) {
  char full[32];
  static const char *const form[] = {"int64s", "floats", "strings", "tensor"};
  Ints ints;
  Floats floats;
  *out = NULL;
  for (int i = 0; i < 4; i++) {
    size_t len = strlen(name), more = strlen(form[i]);
    memcpy(full, name, len);
    memcpy(full + len, form[i], more + 1);
    const OnnxAttr *a = import_attr(n, full);
    if (!a) continue;
    if (*out)
      return import_fail(n, TENON_EINVAL, "several of the attributes %s... are given", name);
    if (i == 0 && import_ints(n, full, &ints)) *out = int_list(n, ints);
    if (i == 1 && import_floats(n, full, &floats)) *out = float_list(n, floats);
    if (i == 2 && a->type == OA_STRINGS) *out = str_list(n, a->strings);
    if (i == 3) *out = import_tensor_attr(n, full);
    if (!*out) return import_fail(n, TENON_EINVAL, "attribute '%s' is of the wrong kind", full);
  }
  if (!*out) return import_fail(n, TENON_EINVAL, "none of the attributes %s... is given", name);
  return graph_status(n->g);
}

static Node *default_label(ImportNode *n, DType t) {
  Node *given = import_tensor_attr(n, "default_tensor");
  if (given) return given;
  if (t == DT_STRING) {
    Str s = import_str(n, "default_string", "_Unused");
    return node_const(n->g, DT_STRING, 0, NULL, &s, NULL);
  }
  if (dtype_is_int(t)) return node_scalar(n->g, t, (double)import_i64(n, "default_int64", -1));
  return node_scalar(n->g, t, import_f64(n, "default_float", -0.0));
}

static tenon_status label_encoder(ImportNode *n) {
  Node *keys, *values;
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  TRY(list_attr(n, "keys_", &keys));
  TRY(list_attr(n, "values_", &values));
  Node *src[4] = {n->in[0], keys, values, default_label(n, type_of(values)->dtype)};
  return import_as(n, OP_label_encoder, NULL, 4, src);
}

static tenon_status
label_encoder_first(ImportNode *n) {  // opset 1: a list of strings and their positions
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  const OnnxAttr *a = import_attr(n, "classes_strings");
  if (!a || a->type != OA_STRINGS)
    return import_fail(n, TENON_EINVAL, "the attribute 'classes_strings' is missing");
  int64_t *position = arena_array(&n->g->arena, int64_t, a->strings.n);
  for (int64_t i = 0; i < a->strings.n; i++) position[i] = i;
  Node *ints = node_i64s(n->g, a->strings.n, position), *strings = str_list(n, a->strings);
  bool text = type_of(n->in[0])->dtype == DT_STRING;
  Node *src[4] = {n->in[0], text ? strings : ints, text ? ints : strings,
                  default_label(n, text ? DT_I64 : DT_STRING)};
  return import_as(n, OP_label_encoder, NULL, 4, src);
}

static const ImportRow rows[] = {
    // clang-format off
    {"ai.onnx.ml", "LabelEncoder",           1, 1, label_encoder_first, NULL},
    {"ai.onnx.ml", "LabelEncoder",           2, 0, label_encoder,       NULL},
    {"ai.onnx.ml", "TreeEnsembleClassifier", 1, 0, tree_classifier,     NULL},
    {"ai.onnx.ml", "TreeEnsembleRegressor",  1, 0, tree_regressor,      NULL},
    {"ai.onnx.ml", "TreeEnsemble",           5, 0, tree_ensemble,       NULL},
    // clang-format on
};
const ImportTable onnx_rows_ml = {rows, ARRAY_LEN(rows)};
