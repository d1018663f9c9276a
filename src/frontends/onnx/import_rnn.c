// import_rnn.c -- recurrent layers of earlier operator sets, which say whether the sequence is
// wanted.
#include "eval/rnn.h"
#include "frontends/onnx/onnx.h"

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

static const ImportRow rows[] = {
    {"", "LSTM", 1, 6, lstm_1, NULL},
    {"", "GRU", 1, 6, gru_1, NULL},
    {"", "RNN", 1, 6, rnn_1, NULL},
};
const ImportTable onnx_rows_rnn = {rows, ARRAY_LEN(rows)};
