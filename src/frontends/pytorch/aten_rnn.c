// aten_rnn.c -- ATen's recurrent layers and cells.
//
// PyTorch's gates are i f g o (LSTM) and r z n (GRU); ours, as ONNX's, i o f c and z r h.  LSTMs
// with a projection are scans.
#include "frontends/pytorch/aten.h"

#include "eval/control.h"
#include "eval/movement.h"
#include "eval/rnn.h"
#include "frontends/common/close.h"

typedef struct Layers {
  int op, gates;
  const int *order;  // our gate k is PyTorch's gate order[k]
  Node *x;           // time, batch, features
  Node *h, *c;       // initial states of all layers
  const AtenValue *weights;
  bool biases, both, batch_first, tanh, project;
  int64_t layers, hidden;
  Node *h_out[64], *c_out[64];
} Layers;

static const int lstm_order[] = {0, 3, 1, 2}, gru_order[] = {1, 0, 2}, rnn_order[] = {0};

static Node *reordered(Graph *g, const Layers *l, Node *w) {
  Node *part[4];
  if (l->gates == 1) return w;
  for (int k = 0; k < l->gates; k++)
    part[k] = bt_slice(g, w, 0, l->order[k] * l->hidden, (l->order[k] + 1) * l->hidden);
  return bt_concat(g, 0, l->gates, part);
}

static Node *weight_at(Graph *g, const Layers *l, int64_t i) {
  if (i >= l->weights->list->v.n)
    return graph_fail(g, TENON_EINVAL, NOWHERE, "a recurrent layer with too few weights");
  return av_node(g, &l->weights->list->v.v[i], 0);
}

// One layer: our operator for one or both directions.
static Node *one_layer(AtenCall *c, Layers *l, Node *x, int64_t layer) {
  Graph *g = c->g;
  int dirs = l->both ? 2 : 1, each = l->biases ? 4 : 2;
  Node *w[2], *r[2], *b[2];
  for (int d = 0; d < dirs; d++) {
    int64_t at = (layer * dirs + d) * each;
    w[d] = bt_unsqueeze(g, reordered(g, l, weight_at(g, l, at)), 0);
    r[d] = bt_unsqueeze(g, reordered(g, l, weight_at(g, l, at + 1)), 0);
    if (!l->biases) continue;
    Node *pair[] = {reordered(g, l, weight_at(g, l, at + 2)),
                    reordered(g, l, weight_at(g, l, at + 3))};
    b[d] = bt_unsqueeze(g, bt_concat(g, 0, 2, pair), 0);
  }
  Node *h = l->h ? bt_slice(g, l->h, 0, layer * dirs, (layer + 1) * dirs) : g->none;
  Node *s = l->c ? bt_slice(g, l->c, 0, layer * dirs, (layer + 1) * dirs) : g->none;
  Node *src[] = {x,
                 bt_concat(g, 0, dirs, w),
                 bt_concat(g, 0, dirs, r),
                 l->biases ? bt_concat(g, 0, dirs, b) : g->none,
                 g->none,
                 h,
                 s};
  int way = l->both ? 2 : 0;
  static const Str relu2[2] = {{"Relu", 4}, {"Relu", 4}};
  if (l->op == OP_lstm)
    return node_new(g, OP_lstm, 7, src, &(lstm_attrs){.direction = way, .hidden_size = l->hidden},
                    3, NULL);
  if (l->op == OP_gru)
    return node_new(
        g, OP_gru, 6, src,
        &(gru_attrs){.direction = way, .hidden_size = l->hidden, .linear_before_reset = true}, 2,
        NULL);
  rnn_attrs at = {.direction = way, .hidden_size = l->hidden};
  if (!l->tanh) at.activations = (Strs){dirs, relu2};
  return node_new(g, OP_rnn, 6, src, &at, 2, NULL);
}

// ---- an LSTM whose state is projected before it is used again: a scan over time ----

// Weights of one direction: input, state, both biases where there are, projection.
static Node *cell_gates(Graph *g, const Layers *l, Node *x, Node *h, int64_t at) {
  Node *y = N(g, add, N(g, mat_mul, x, bt_swap(g, weight_at(g, l, at), 2, 0, 1)),
              N(g, mat_mul, h, bt_swap(g, weight_at(g, l, at + 1), 2, 0, 1)));
  return l->biases ? N(g, add, y, N(g, add, weight_at(g, l, at + 2), weight_at(g, l, at + 3))) : y;
}

static const Type *without_front(Graph *g, const Node *x) {
  const Type *t = type_of(x);
  return type_tensor(g, t->dtype, t->rank - 1, t->dims + 1);
}

// x [time, batch, features], states [1, batch, n] -> y [time, 1, batch, n] and both states.
static void projected_direction(AtenCall *c, const Layers *l, Node *x, int64_t k, bool back,
                                Node **out) {
  Graph *g = c->g;
  int64_t at = k * (l->biases ? 5 : 3), turn = back, n = l->hidden;
  Node *start[3] = {bt_squeeze(g, bt_slice(g, l->h, 0, k, k + 1), 0),
                    bt_squeeze(g, bt_slice(g, l->c, 0, k, k + 1), 0), x};
  BodyNodes own = {0}, results = {0}, captures, all = {0};
  if (g->status) return;
  uint32_t mark = (uint32_t)g->node.n;
  for (int i = 0; i < 3; i++) {
    const Type *t = i == 2 ? without_front(g, x) : type_of(start[i]);
    vec_push(&g->arena, &all, start[i]);
    vec_push(&g->arena, &own, node_param(g, t, NULL));
  }
  Node *y = cell_gates(g, l, own.v[2], own.v[0], at), *gate[4];
  for (int i = 0; i < 4; i++) {
    gate[i] = bt_slice(g, y, 1, i * n, (i + 1) * n);
    gate[i] = i == 2 ? N(g, tanh, gate[i]) : N(g, sigmoid, gate[i]);
  }
  Node *s = N(g, add, N(g, mul, gate[1], own.v[1]), N(g, mul, gate[0], gate[2]));
  Node *h = N(g, mat_mul, N(g, mul, gate[3], N(g, tanh, s)),
              bt_swap(g, weight_at(g, l, at + (l->biases ? 4 : 2)), 2, 0, 1));
  vec_push(&g->arena, &results, h);
  vec_push(&g->arena, &results, s);
  vec_push(&g->arena, &results, h);
  Body *body = close_body(g, &g->arena, mark, &own, &results, &captures);
  if (g->status) return;
  for (int64_t i = 0; i < captures.n; i++) vec_push(&g->arena, &all, captures.v[i]);
  scan_attrs a = {.captures = captures.n,
                  .num_scan_inputs = 1,
                  .scan_input_directions = {1, &turn},
                  .scan_output_directions = {1, &turn},
                  .body = body};
  Node *r = node_new(g, OP_scan, (int)all.n, all.v, &a, 3, NULL);
  out[0] = bt_unsqueeze(g, node_proj(g, r, 2), 1);
  for (int i = 0; i < 2; i++) out[1 + i] = bt_unsqueeze(g, node_proj(g, r, i), 0);
}

// The same three results as our operator has.
static void projected_layer(AtenCall *c, const Layers *l, Node *x, int64_t layer, Node **out) {
  Node *part[2][3];
  int dirs = l->both ? 2 : 1;
  for (int d = 0; d < dirs && !c->g->status; d++)
    projected_direction(c, l, x, layer * dirs + d, d == 1, part[d]);
  for (int i = 0; i < 3 && !c->g->status; i++)
    out[i] = bt_concat(c->g, i == 0, dirs, (Node *[]){part[0][i], part[dirs - 1][i]});
}

// y of our operator is [time, dirs, batch, hidden].
static Node *joined_directions(AtenCall *c, Node *y) {
  Graph *g = c->g;
  int64_t perm[] = {0, 2, 1, 3}, shape[] = {0, 0, -1};
  return N(g, reshape, bt_transpose(g, y, 4, perm), node_i64s(g, 3, shape));
}

static void run_layers(AtenCall *c, Layers *l) {
  Graph *g = c->g;
  bool flat = at_rank(c, l->x) == 2;
  Node *x = flat ? bt_unsqueeze(g, l->x, 1) : l->x;
  if (flat && l->h) l->h = bt_unsqueeze(g, l->h, 1);
  if (flat && l->c) l->c = bt_unsqueeze(g, l->c, 1);
  if (l->batch_first && !flat) x = bt_swap(g, x, 3, 0, 1);
  if (!l->weights->list || !l->weights->list->v.n) at_fail(c, "no weights");
  if (g->status) return;
  l->hidden = at_known_dim(c, weight_at(g, l, 1), 1);
  if (l->project) l->hidden = at_known_dim(c, weight_at(g, l, l->biases ? 4 : 2), 1);
  for (int64_t i = 0; i < l->layers && !g->status; i++) {
    Node *part[3] = {g->poison, g->poison, g->poison};
    if (l->project) {
      projected_layer(c, l, x, i, part);
    } else {
      Node *n = one_layer(c, l, x, i);
      for (int k = 0; k < (l->op == OP_lstm ? 3 : 2); k++) part[k] = node_proj(g, n, k);
    }
    x = joined_directions(c, part[0]);
    l->h_out[i] = part[1];
    l->c_out[i] = part[2];
  }
  Node *h = bt_concat(g, 0, (int)l->layers, l->h_out);
  Node *s = l->op == OP_lstm ? bt_concat(g, 0, (int)l->layers, l->c_out) : NULL;
  if (l->batch_first && !flat) x = bt_swap(g, x, 3, 0, 1);
  if (flat) {
    x = bt_squeeze(g, x, 1);
    h = bt_squeeze(g, h, 1);
    if (s) s = bt_squeeze(g, s, 1);
  }
  at_give_all(c, s ? 3 : 2, (Node *[]){x, h, s});
}

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
static void layer_row(AtenCall *c) {
  int op = c->schema->row->op;
  bool lstm = op == OP_lstm;
  Layers *l = arena_new(&c->g->arena, Layers);
  const AtenValue *hx = at_arg(c, 1);
  *l = (Layers){.op = op == -OP_rnn ? OP_rnn : op,
                .gates = lstm           ? 4
                         : op == OP_gru ? 3
                                        : 1,
                .order = lstm           ? lstm_order
                         : op == OP_gru ? gru_order
                                        : rnn_order,
                .x = at_tensor(c, 0),
                .weights = at_arg(c, 2),
                .biases = at_bool(c, 3),
                .layers = at_int(c, 4),
                .both = at_bool(c, 7),
                .batch_first = at_bool(c, 8),
                .tanh = op != -OP_rnn};
  if (at_bool(c, 6) && at_f64(c, 5) > 0) at_fail(c, "in training; call eval() before exporting");
  if (lstm && (!hx->list || hx->list->v.n < 2)) at_fail(c, "without both states");
  if (l->layers < 1 || l->layers > 64) at_fail(c, "%lld layers", (long long)l->layers);
  int64_t tensors = c->g->status ? 0 : l->layers * (l->both ? 2 : 1) * (l->biases ? 4 : 2);
  l->project = lstm && l->weights->list && l->weights->list->v.n > tensors;
  if (c->g->status) return;
  l->h = lstm ? av_node(c->g, &hx->list->v.v[0], 0) : av_node(c->g, hx, 0);
  if (lstm) l->c = av_node(c->g, &hx->list->v.v[1], 0);
  run_layers(c, l);
}

// ---- cells ----

static Node *affine(AtenCall *c, Node *x, int w, int b) {
  Graph *g = c->g;
  Node *y = N(g, mat_mul, x, bt_swap(g, at_tensor(c, w), 2, 0, 1)), *bias = at_tensor_opt(c, b);
  return bias ? N(g, add, y, bias) : y;
}
static Node *gate(AtenCall *c, Node *x, int64_t i, int64_t n) {
  int rank = at_rank(c, x);
  return bt_slice(c->g, x, rank - 1, i * n, (i + 1) * n);
}
static void lstm_cell(AtenCall *c) {  // (input, hx, w_ih, w_hh, b_ih, b_hh)
  Graph *g = c->g;
  const AtenValue *hx = at_arg(c, 1);
  if (!hx->list || hx->list->v.n < 2) at_fail(c, "without both states");
  if (g->status) return;
  Node *h = av_node(g, &hx->list->v.v[0], 0), *s = av_node(g, &hx->list->v.v[1], 0);
  int64_t n = at_known_dim(c, at_tensor(c, 3), 1);
  Node *all = N(g, add, affine(c, at_tensor(c, 0), 2, 4), affine(c, h, 3, 5));
  Node *i = N(g, sigmoid, gate(c, all, 0, n)), *f = N(g, sigmoid, gate(c, all, 1, n));
  Node *u = N(g, tanh, gate(c, all, 2, n)), *o = N(g, sigmoid, gate(c, all, 3, n));
  s = N(g, add, N(g, mul, f, s), N(g, mul, i, u));
  at_give_all(c, 2, (Node *[]){N(g, mul, o, N(g, tanh, s)), s});
}
static void gru_cell(AtenCall *c) {  // (input, hx, w_ih, w_hh, b_ih, b_hh)
  Graph *g = c->g;
  Node *h = at_tensor(c, 1);
  int64_t n = at_known_dim(c, at_tensor(c, 3), 1);
  Node *x = affine(c, at_tensor(c, 0), 2, 4), *y = affine(c, h, 3, 5);
  Node *r = N(g, sigmoid, N(g, add, gate(c, x, 0, n), gate(c, y, 0, n)));
  Node *z = N(g, sigmoid, N(g, add, gate(c, x, 1, n), gate(c, y, 1, n)));
  Node *u = N(g, tanh, N(g, add, gate(c, x, 2, n), N(g, mul, r, gate(c, y, 2, n))));
  at_give(c, N(g, add, u, N(g, mul, z, N(g, sub, h, u))));
}
static void rnn_cell(AtenCall *c) {
  Graph *g = c->g;
  Node *all = N(g, add, affine(c, at_tensor(c, 0), 2, 4), affine(c, at_tensor(c, 1), 3, 5));
  at_give(c, c->schema->row->op ? N(g, relu, all) : N(g, tanh, all));
}

static const AtenRow rows[] = {
    // clang-format off
    {"lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)", layer_row, OP_lstm, NULL},
    {"gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", layer_row, OP_gru, NULL},
    {"rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", layer_row, OP_rnn, NULL},
    {"rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", layer_row, -OP_rnn, NULL},
    {"lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)", lstm_cell, 0, NULL},
    {"gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", gru_cell, 0, NULL},
    {"rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", rnn_cell, 0, NULL},
    {"rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", rnn_cell, 1, NULL},
    // clang-format on
};
ATEN_TABLE(rnn);
