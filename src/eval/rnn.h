// rnn.h -- recurrent layers: lstm, gru, rnn.
#ifndef TENON_EVAL_RNN_H
#define TENON_EVAL_RNN_H

#include "eval/eval.h"

enum { RNN_FORWARD, RNN_REVERSE, RNN_BIDIRECTIONAL };

// clang-format off
#define RNN_COMMON_ATTRS(A, C, T)                                                                  \
  A(T, f64s, activation_alpha, ,      "first parameters of the activations that take one")         \
  A(T, f64s, activation_beta,  ,      "second parameters of the activations that take one")        \
  A(T, strs, activations,      ,      "functions of each direction; the usual ones when empty")    \
  A(T, f64,  clip,             0,     "bound of the activations' arguments; 0: none")              \
  C(T, direction, "forward|reverse|bidirectional", 0, "way through the sequence")                  \
  A(T, i64,  hidden_size,      0,     "size of the state; from r when 0")
#define LSTM_ATTRS(A, C, T) RNN_COMMON_ATTRS(A, C, T)                                              \
  A(T, bool, input_forget,     false, "the forget gate is 1 - the input gate")                     \
  A(T, i64,  layout,           0,     "0: sequence first, 1: batch first")                         \
  A(T, bool, quantize_state,   false, "round each state to 8 bits before it meets the weights")
#define GRU_ATTRS(A, C, T) RNN_COMMON_ATTRS(A, C, T)                                               \
  A(T, i64,  layout,           0,     "0: sequence first, 1: batch first")                         \
  A(T, bool, linear_before_reset, false, "reset after the product with the recurrent weights")
#define RNN_ATTRS(A, C, T) RNN_COMMON_ATTRS(A, C, T)                                               \
  A(T, i64,  layout,           0,     "0: sequence first, 1: batch first")
// clang-format on
ATTR_STRUCT(lstm, LSTM_ATTRS);
ATTR_STRUCT(gru, GRU_ATTRS);
ATTR_STRUCT(rnn, RNN_ATTRS);
EvalFn eval_lstm, eval_gru, eval_rnn;

// NULL when the names and parameter counts are sound for `ndirs` x `each` functions, else what is
// wrong.
const char *rnn_check_activations(Strs names, int ndirs, int each);

// Activation functions, with what they are given.
typedef enum {
  RNN_ACT_RELU,
  RNN_ACT_TANH,
  RNN_ACT_SIGMOID,
  RNN_ACT_AFFINE,
  RNN_ACT_LEAKY_RELU,
  RNN_ACT_THRESHOLDED_RELU,
  RNN_ACT_SCALED_TANH,
  RNN_ACT_HARD_SIGMOID,
  RNN_ACT_ELU,
  RNN_ACT_SOFTSIGN,
  RNN_ACT_SOFTPLUS
} RnnActKind;
typedef struct RnnAct {
  RnnActKind kind;
  double alpha, beta, clip;  // clip 0: none
} RnnAct;
enum { RNN_ACTS = 6 };
typedef struct RnnActs {
  Strs names;
  Floats alpha, beta;
  double clip;
  int ndirs, each;   // functions of a direction
  RnnActKind first;  // what the first one is, where none are named; the others are tanh
} RnnActs;
void rnn_activations(const RnnActs *from, RnnAct *out);  // [ndirs * each]; the names are sound

#endif
