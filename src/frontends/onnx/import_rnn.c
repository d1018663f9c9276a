// import_rnn.c -- recurrent layers: of earlier operator sets, which say whether the sequence is
// wanted, and with operands of unknown rank.
//
// A layer's input has three axes, also where an `If` leaves the rank open.  It is reshaped to them,
// with the features that the weights have, so that the layer and all that follows have shapes, and
// kernels.  An input of another rank has no such shape: the reshape fails.
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/rnn.h"
#include "frontends/onnx/import_build.h"

static tenon_status lstm_1(ImportNode *n) {
  lstm_attrs at;
  TRY(import_attrs(n, op_info(OP_lstm), "output_sequence", &at));
  return import_as(n, OP_lstm, &at, n->nin, n->in);
}
static tenon_status gru_1(ImportNode *n) {
  gru_attrs at;
  TRY(import_attrs(n, op_info(OP_gru), "output_sequence", &at));
  return import_as(n, OP_gru, &at, n->nin, n->in);
}
static tenon_status rnn_1(ImportNode *n) {
  rnn_attrs at;
  TRY(import_attrs(n, op_info(OP_rnn), "output_sequence", &at));
  return import_as(n, OP_rnn, &at, n->nin, n->in);
}

// ---- unknown ranks ----

// Size i of a tensor of unknown rank, as i64[1].
static Node *size_of(Graph *g, Node *x, int64_t i) {
  return N(g, gather, N(g, shape, x), node_i64s(g, 1, &i));
}

static Node *with_sizes(Graph *g, Node *x, Node *a, Node *b, Node *c) {
  return N(g, reshape, x, build_concat(g, 0, 3, (Node *[]){a, b, c}));
}

static bool is_open(const ImportNode *n, int i) {
  const Node *x = build_in(n, i);
  return x && type_of(x)->kind == TK_TENSOR && type_of(x)->rank < 0;
}

// Gives the input and the states their three axes, by the sizes of the weights.
static void rank_operands(ImportNode *n, int nstates) {
  Graph *g = n->g;
  if (n->nin < 3 || is_open(n, 1) || is_open(n, 2) || type_of(n->in[1])->rank != 3 ||
      type_of(n->in[2])->rank != 3 || import_i64(n, "layout", 0))
    return;
  Node *w = n->in[1], *r = n->in[2];
  if (is_open(n, 0))
    n->in[0] = with_sizes(g, n->in[0], size_of(g, n->in[0], 0), size_of(g, n->in[0], 1),
                          build_dim(g, w, 2));
  if (type_of(n->in[0])->rank != 3) return;
  for (int i = 5; i < 5 + nstates; i++)
    if (is_open(n, i))
      n->in[i] = with_sizes(g, n->in[i], build_dim(g, w, 0), build_dim(g, n->in[0], 1),
                            build_dim(g, r, 2));
}

static tenon_status lstm_7(ImportNode *n) {
  rank_operands(n, 2);
  return import_auto(n, op_info(OP_lstm));
}
static tenon_status gru_7(ImportNode *n) {
  rank_operands(n, 1);
  return import_auto(n, op_info(OP_gru));
}
static tenon_status rnn_7(ImportNode *n) {
  rank_operands(n, 1);
  return import_auto(n, op_info(OP_rnn));
}

static const ImportRow rows[] = {
    {"", "LSTM", 1, 6, lstm_1, NULL}, {"", "GRU", 1, 6, gru_1, NULL},
    {"", "RNN", 1, 6, rnn_1, NULL},   {"", "LSTM", 7, 0, lstm_7, NULL},
    {"", "GRU", 7, 0, gru_7, NULL},   {"", "RNN", 7, 0, rnn_7, NULL},
};
const ImportTable onnx_rows_rnn = {rows, ARRAY_LEN(rows)};
