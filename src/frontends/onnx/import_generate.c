// import_generate.c -- operators that make elements: constants in all their forms, dropout, random
// draws.
#include "eval/generate.h"
#include "frontends/onnx/import.h"

// ---- Constant ----

static Node *ints_const(ImportNode *n) {
  Ints v;
  return import_ints(n, "value_ints", &v) ? node_const(n->g, DT_I64, 1, &v.n, v.v, n->name) : NULL;
}
static Node *int_const(ImportNode *n) {
  int64_t v = import_i64(n, "value_int", 0);
  return node_const(n->g, DT_I64, 0, NULL, &v, n->name);
}
static Node *floats_const(ImportNode *n) {
  Floats v;
  if (!import_floats(n, "value_floats", &v)) return NULL;
  float *f = arena_array(&n->g->arena, float, v.n);
  for (int64_t i = 0; i < v.n; i++) f[i] = (float)v.v[i];
  return node_const(n->g, DT_F32, 1, &v.n, f, n->name);
}
static Node *float_const(ImportNode *n) {
  float v = (float)import_f64(n, "value_float", 0);
  return node_const(n->g, DT_F32, 0, NULL, &v, n->name);
}
static Node *string_const(ImportNode *n) {
  Str v = import_str(n, "value_string", "");
  return node_const(n->g, DT_STRING, 0, NULL, &v, n->name);
}
static Node *strings_const(ImportNode *n) {
  const OnnxAttr *a = import_attr(n, "value_strings");
  if (a->type != OA_STRINGS) return NULL;
  return node_const(n->g, DT_STRING, 1, &a->strings.n, a->strings.v, n->name);
}
static Node *tensor_const(ImportNode *n) { return import_tensor_attr(n, "value"); }
static Node *sparse_const(ImportNode *n) {
  const OnnxAttr *a = import_attr(n, "sparse_value");
  if (a->type != OA_SPARSE || !a->sparse) return NULL;
  return import_sparse(n->im, a->sparse, a->sparse->values.name, n->at);
}

static tenon_status constant(ImportNode *n) {
  static const struct {
    const char *attr;
    Node *(*make)(ImportNode *n);
  } form[] = {
      {"value", tensor_const},        {"sparse_value", sparse_const},
      {"value_int", int_const},       {"value_ints", ints_const},
      {"value_float", float_const},   {"value_floats", floats_const},
      {"value_string", string_const}, {"value_strings", strings_const},
  };
  Node *c = NULL;
  int given = 0;
  for (int i = 0; i < ARRAY_LEN(form); i++) {
    if (!import_attr(n, form[i].attr)) continue;
    given++;
    c = form[i].make(n);
    TRY(graph_status(n->g));
    TRY(n->im->status);
    if (!c)
      return import_fail(n, TENON_EINVAL, "attribute '%s' does not hold what its name says",
                         form[i].attr);
  }
  if (given != 1) return import_fail(n, TENON_EINVAL, "%d values are given, must be 1", given);
  if (n->nin) return import_fail(n, TENON_EINVAL, "%d inputs, must be 0", n->nin);
  if (n->nout > 0) n->out[0] = c;
  return TENON_OK;
}

static tenon_status constant_of_shape(ImportNode *n) {
  if (n->nin != 1) return import_fail(n, TENON_EINVAL, "%d inputs, must be 1", n->nin);
  Node *value = import_tensor_attr(n, "value");
  return import_as(n, OP_constant_of_shape, NULL, 2,
                   (Node *[]){n->in[0], value ? value : n->g->none});
}

// ---- random draws ----

// Seed and instance number of any random op; its fields follow each other in every struct.
#define TAKE_SEED(n, at)                                                                           \
  do {                                                                                             \
    (at).seeded = import_attr((n), "seed") != NULL;                                                \
    (at).instance = ++(n)->im->instances;                                                          \
  } while (0)

#define RANDOM(op)                                                                                 \
  static tenon_status op(ImportNode *n) {                                                          \
    op##_attrs at;                                                                                 \
    TRY(import_attrs(n, &op_##op, NULL, &at));                                                     \
    TAKE_SEED(n, at);                                                                              \
    return import_as(n, OP_##op, &at, n->nin, n->in);                                              \
  }
RANDOM(random_uniform)
RANDOM(random_normal)
RANDOM(random_uniform_like)
RANDOM(random_normal_like)
RANDOM(multinomial)
RANDOM(bernoulli)

// ---- Dropout ----

// Without training: the input itself, and a mask that is true everywhere (before opset 10 one of
// the input's type).
static tenon_status keep_all(ImportNode *n) {
  Graph *g = n->g;
  if (n->nout > 0) n->out[0] = n->in[0];
  const Type *x = type_of(n->in[0]);
  DType t = n->opset < 10 && x->kind == TK_TENSOR && dtype_is_float(x->dtype) ? x->dtype : DT_BOOL;
  if (n->nout > 1) n->out[1] = N(g, constant_of_shape, N(g, shape, n->in[0]), node_scalar(g, t, 1));
  return graph_status(g);
}

static tenon_status dropout_1(ImportNode *n) {
  if (n->nin != 1 || n->nout > 2)
    return import_fail(n, TENON_EINVAL, "%d inputs and %d outputs", n->nin, n->nout);
  if (n->opset >= 7 || import_i64(n, "is_test", 0)) return keep_all(n);
  dropout_attrs at = {.instance = ++n->im->instances};
  Node *src[] = {n->in[0], node_scalar(n->g, DT_F32, import_f64(n, "ratio", 0.5)),
                 node_scalar(n->g, DT_BOOL, 1)};
  Node *d = node_new(n->g, OP_dropout, 3, src, &at, MAX(n->nout, 1), n->name);
  if (n->nout > 0) n->out[0] = node_proj(n->g, d, 0);
  if (n->nout > 1 && !n->g->status) {
    DType t = type_of(d)->dtype;
    Node *one = node_scalar(n->g, t, 1), *zero = node_scalar(n->g, t, 0);
    n->out[1] = N(n->g, where, node_proj(n->g, d, 1), one, zero);
  }
  return graph_status(n->g);
}

static tenon_status dropout(ImportNode *n) {
  if (n->nin < 1 || n->nin > 3 || n->nout > 2)
    return import_fail(n, TENON_EINVAL, "%d inputs and %d outputs", n->nin, n->nout);
  Ints training;
  bool given = n->nin > 2 && n->in[2] != n->g->none;
  if (!given || (node_ints(n->g, n->in[2], &training) && training.n == 1 && !training.v[0]))
    return keep_all(n);
  int64_t seed = import_i64(n, "seed", 0);
  dropout_attrs at = {.seed = (double)seed};
  TAKE_SEED(n, at);
  return import_as(n, OP_dropout, &at, n->nin, n->in);
}

static const ImportRow rows[] = {
    {"", "Constant", 1, 0, constant, NULL},
    {"", "ConstantOfShape", 9, 0, constant_of_shape, NULL},
    {"", "RandomUniform", 1, 0, random_uniform, NULL},
    {"", "RandomNormal", 1, 0, random_normal, NULL},
    {"", "RandomUniformLike", 1, 0, random_uniform_like, NULL},
    {"", "RandomNormalLike", 1, 0, random_normal_like, NULL},
    {"", "Multinomial", 7, 0, multinomial, NULL},
    {"", "Bernoulli", 15, 0, bernoulli, NULL},
    {"", "Dropout", 1, 11, dropout_1, NULL},
    {"", "Dropout", 12, 0, dropout, NULL},
};
const ImportTable onnx_rows_generate = {rows, ARRAY_LEN(rows)};
