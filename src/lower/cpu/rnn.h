// rnn.h -- what the templates of recurrent layers share.
#ifndef TENON_LOWER_CPU_RNN_H
#define TENON_LOWER_CPU_RNN_H

#include "eval/rnn.h"
#include "lower/element/epilogue.h"

typedef enum { CELL_LSTM, CELL_GRU, CELL_RNN } RnnCell;
enum { RNN_VALUES = 3, RNN_GATES = 4 };

// Gates whose products with one state are formed together.
typedef struct GateSet {
  int first, count;
  int32_t state;  // scratch that they are multiplied with
} GateSet;

typedef struct Recurrent {
  ElementBuilder e;
  EpilogueWalk walk;
  const Node *n;
  RnnCell cell;
  int gates, ndirs;
  bool reverse, batch_first, input_forget, late_reset;
  RnnAct act[RNN_ACTS];
  int each;  // activations of a direction
  DType t;   // of sums and states
  Dim time, batch;
  int64_t input, hidden;
  const Node *x, *w, *r, *bias, *lens, *h0, *c0, *peep;  // NULL: absent
  // schedule
  int64_t group, ngroups;  // hidden units at a time
  int64_t width, rows;     // of a tile of input products
  int64_t seqs;            // sequences of an item
  int64_t chunk;           // steps whose input products are formed at once
  bool chunked;
  bool ragged;                 // the last group has fewer units
  int32_t w_packed, r_packed;  // -1: read in place
  GateSet set[2];
  int nsets;
  // scratch; g has [step][sequence][group][gate][unit], biases [group][gate][unit], states
  // [sequence][unit]
  int32_t inputs, g, biases, late_bias, h, next, c, update, held;
  int32_t tile;
  int32_t sums;  // the tile of several sequences, which their gates read; of one it is the tile
  // where the loops stand
  Dim dir, b, len, time_at;  // b: the item's first sequence
  Dim state_at, sums_at;     // of the sequence at hand: in states, and in the tile
  int way;                   // 1: from the last step to the first
  int nth;                   // direction whose activations hold
  const LoopExpr *value[RNN_VALUES];
} Recurrent;

// rnn.c: reads the layer; NULL: the kernel holds none.  The constant that a node of the body is, or
// NULL.
void *recurrent_match(Lowering *lo, const Node *fused);
const Node *recurrent_constant(const Recurrent *c, const Node *n);
// Gives the results that templates store by recurrent_store.
void recurrent_give_results(Recurrent *c);
// rnn_loops.c: the loops.
bool recurrent_emit(Recurrent *c);
// An operand's element in the type of the sums; NULL: it has none.
const LoopExpr *recurrent_element(Recurrent *c, const Node *n, const Dim *at);
// The input's or the recurrent bias of a unit.
const LoopExpr *recurrent_bias(Recurrent *c, int64_t gate, Dim unit, bool recurrent);
Dim recurrent_time(Recurrent *c, Dim step);  // where a step of the way lies in x
// Stores x as an element of result `which`, if anybody reads that.
bool recurrent_store(Recurrent *c, int which, const LoopExpr *x, const Dim *at);
bool recurrent_length(Recurrent *c);  // sets len, a sequence length from data checked
// rnn_cell.c: gates.
const LoopExpr *recurrent_act(Recurrent *c, int which, const LoopExpr *x, bool clip);
// Units u of a group from the sums in the tile: the new state goes to scratch.  False: an operand
// has no expression.
bool recurrent_cell(Recurrent *c, const GateSet *set, Dim unit, Dim u);

#endif
