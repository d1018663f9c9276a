// aten_norm.c -- ATen's normalisations and softmaxes.
#include "frontends/pytorch/aten.h"

#include "eval/norm.h"

// A parameter by channel that may be left out.
static Node *by_channel(AtenCall *c, int i, const Node *x, int64_t n, double dflt) {
  Node *w = at_tensor_opt(c, i);
  if (w || c->g->status) return w ? w : c->g->poison;
  return bt_vector(c->g, type_of(x)->dtype, n, dflt);
}

static void batch_norm(AtenCall *c, int eps_arg,
                       bool training) {  // (input, weight, bias, mean, var, ...)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  if (training) at_fail(c, "in training; call eval() before exporting");
  int64_t n = at_rank(c, x) > 1 ? at_known_dim(c, x, 1) : -1;
  if (n < 0) {
    at_fail(c, "the number of channels is not known");
    return;
  }
  batch_normalization_attrs at = {.epsilon = at_f64(c, eps_arg), .momentum = 0.9};
  Node *y = NA(g, batch_normalization, &at, x, by_channel(c, 1, x, n, 1), by_channel(c, 2, x, n, 0),
               at_tensor(c, 3), at_tensor(c, 4));
  at_give(c, y);
}
static void batch_norm_row(AtenCall *c) { batch_norm(c, 7, at_bool(c, 5)); }
static void native_batch_norm(AtenCall *c) {  // (..., training, momentum, eps) -> three
  batch_norm(c, 7, at_bool(c, 5));
  if (!c->g->status) at_give_all(c, 3, (Node *[]){c->out.box->node, NULL, NULL});
}
static void
batch_norm_fixed(AtenCall *c) {  // (..., momentum, eps) -> three, of which one is of use
  batch_norm(c, 6, false);
  if (!c->g->status) at_give_all(c, 3, (Node *[]){c->out.box->node, NULL, NULL});
}

// (input, weight?, bias?, training, momentum, eps): by the batch's own mean and variance.
static void batch_norm_own(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x), n = 0;
  int64_t axes[MAX_RANK], shape[MAX_RANK];
  for (int i = 0; i < rank; i++) {
    if (i != 1) axes[n++] = i;
    shape[i] = i == 1 ? -1 : 1;
  }
  Ints over = {n, axes};
  Node *d = N(g, sub, x, bt_reduce(g, OP_reduce_mean, x, over, true));
  Node *v = bt_reduce(g, OP_reduce_mean, N(g, mul, d, d), over, true);
  Node *y = N(g, div, d, N(g, sqrt, N(g, add, v, bt_num(g, x, at_f64(c, 5)))));
  if (!at_none(c, 1)) y = N(g, mul, y, bt_reshape(g, at_tensor(c, 1), rank, shape));
  if (!at_none(c, 2)) y = N(g, add, y, bt_reshape(g, at_tensor(c, 2), rank, shape));
  at_give_all(c, 3, (Node *[]){y, NULL, NULL});
}

static void instance_norm(
    AtenCall *c) {  // (input, weight, bias, mean, var, use_input_stats, momentum, eps, ..)
  if (!at_bool(c, 5)) {
    batch_norm(c, 7, false);
    return;
  }
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t n = at_known_dim(c, x, 1);
  if (g->status) return;
  instance_normalization_attrs at = {.epsilon = at_f64(c, 7)};
  at_give(c, NA(g, instance_normalization, &at, x, by_channel(c, 1, x, n, 1),
                by_channel(c, 2, x, n, 0)));
}

static Node *ones_of(AtenCall *c, const Node *x, Ints shape) {
  Graph *g = c->g;
  int64_t n;
  if (g->status || !shape_count((int)shape.n, shape.v, &n)) return g->poison;
  return bt_reshape(g, bt_vector(g, type_of(x)->dtype, n, 1), (int)shape.n, shape.v);
}
static Node *layer_norm(AtenCall *c, double eps) {  // (input, shape, weight?, bias?, eps)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *w = at_tensor_opt(c, 2), *b = at_tensor_opt(c, 3);
  Ints shape = at_ints(c, 1);
  layer_normalization_attrs at = {.axis = -shape.n, .epsilon = eps, .stash_type = 1};
  Node *src[] = {x, w ? w : ones_of(c, x, shape), b ? b : g->none};
  return node_new(g, OP_layer_normalization, b ? 3 : 2, src, &at, 3, NULL);
}
static void layer_norm_row(AtenCall *c) {
  at_give(c, node_proj(c->g, layer_norm(c, at_f64(c, 4)), 0));
}
static void native_layer_norm(AtenCall *c) {
  Node *n = layer_norm(c, at_f64(c, 4));
  at_give_all(c, 3,
              (Node *[]){node_proj(c->g, n, 0), node_proj(c->g, n, 1), node_proj(c->g, n, 2)});
}
static void rms_norm(AtenCall *c) {  // (input, shape, weight?, eps?)
  Node *x = at_tensor(c, 0), *w = at_tensor_opt(c, 2);
  Ints shape = at_ints(c, 1);
  double eps = at_none(c, 3) ? 1.1920928955078125e-07 : at_f64(c, 3);
  rms_normalization_attrs at = {.axis = -shape.n, .epsilon = eps, .stash_type = 1};
  at_give(c, NA(c->g, rms_normalization, &at, x, w ? w : ones_of(c, x, shape)));
}

static Node *group_norm(AtenCall *c, int64_t groups, double eps, int w, int b) {
  Node *x = at_tensor(c, 0);
  int64_t n = at_known_dim(c, x, 1);
  if (c->g->status) return c->g->poison;
  group_normalization_attrs at = {.epsilon = eps, .num_groups = groups, .stash_type = 1};
  return NA(c->g, group_normalization, &at, x, by_channel(c, w, x, n, 1),
            by_channel(c, b, x, n, 0));
}
static void group_norm_row(AtenCall *c) {
  at_give(c, group_norm(c, at_int(c, 1), at_f64(c, 4), 2, 3));
}
static void
native_group_norm(AtenCall *c) {  // (input, weight, bias, N, C, HxW, group, eps) -> three
  at_give_all(c, 3, (Node *[]){group_norm(c, at_int(c, 6), at_f64(c, 7), 1, 2), NULL, NULL});
}

// (self, dim, dtype or half_to_float)
static void softmax_of(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  softmax_attrs at = {.axis = at_axis(c, 1, rank)};  // log_softmax's are the same
  if (!g->status && c->schema->arg[2].type == AT_INT)
    x = bt_cast(g, x, at_dtype(c, 2, type_of(x)->dtype));
  if (!g->status && c->schema->arg[2].type == AT_BOOL && at_bool(c, 2)) x = bt_cast(g, x, DT_F32);
  if (!rank) x = bt_unsqueeze(g, x, 0);
  Node *y = node_new(g, c->schema->row->op, 1, &x, &at, 0, NULL);
  at_give(c, rank ? y : bt_squeeze(g, y, 0));
}

// v g / |v|, the norm over all axes but one.
static void weight_norm(AtenCall *c) {
  Graph *g = c->g;
  Node *v = at_tensor(c, 0);
  int rank = at_rank(c, v), n = 0;
  int64_t kept = at_axis(c, 2, rank), axes[MAX_RANK];
  for (int i = 0; i < rank; i++)
    if (i != kept) axes[n++] = i;
  Node *norm = N(g, sqrt, bt_reduce(g, OP_reduce_sum, N(g, mul, v, v), (Ints){n, axes}, true));
  at_give(c, N(g, mul, v, N(g, div, at_tensor(c, 1), norm)));
}

static const AtenRow rows[] = {
    // clang-format off
    {"batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor", batch_norm_row, 0, NULL},
    {"_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm_own, 0, NULL},
    {"_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm_fixed, 0, NULL},
    {"native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", native_batch_norm, 0, NULL},
    {"instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor", instance_norm, 0, NULL},
    {"_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", weight_norm, 0, NULL},
    {"layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor", layer_norm_row, 0, NULL},
    {"native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)", native_layer_norm, 0, NULL},
    {"rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", rms_norm, 0, NULL},
    {"group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor", group_norm_row, 0, NULL},
    {"native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)", native_group_norm, 0, NULL},
    {"softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax_of, OP_softmax, NULL},
    {"_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_of, OP_softmax, NULL},
    {"log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax_of, OP_log_softmax, NULL},
    {"_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_of, OP_log_softmax, NULL},
    // clang-format on
};
ATEN_TABLE(norm);
