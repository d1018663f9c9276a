// rnn_cell.c -- the gates of recurrent layers: from the sums of a step to the new state.
//
// One function per cell (LSTM, GRU, RNN) and one for the activations of ONNX, with their alpha,
// beta and clip.
//
// Needs:      the register tile holds the step's sums, gate by gate in ONNX order; a GRU with
//             linear_before_reset has the input's part of the hidden gate in `g`.
// Guarantees: the new hidden state goes to scratch; the old one stays until all units have read it.
//             False where a peephole weight has no expression.  The cell state is not clipped.
#include "lower/cpu/rnn.h"

static const LoopExpr *op1(Recurrent *c, LoopOp op, const LoopExpr *x) {
  return loop_op(c->e.k, op, x, NULL, NULL);
}
static const LoopExpr *op2(Recurrent *c, LoopOp op, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(c->e.k, op, x, y, NULL);
}
static const LoopExpr *real(Recurrent *c, double v) { return loop_float(c->e.k, c->t, v); }
static const LoopExpr *named(Recurrent *c, const LoopExpr *x) { return loop_let(&c->e.b, x); }

// ---- activations ----

static const LoopExpr *affine(Recurrent *c, const RnnAct *a, const LoopExpr *x) {
  return loop_op(c->e.k, LOOP_fma, x, real(c, a->alpha), real(c, a->beta));
}

static const LoopExpr *above_zero(Recurrent *c, const LoopExpr *x, const LoopExpr *below) {
  return loop_op(c->e.k, LOOP_select, op2(c, LOOP_le, real(c, 0), x), x, below);
}

static const LoopExpr *apply(Recurrent *c, const RnnAct *a, const LoopExpr *x) {
  const LoopExpr *one = real(c, 1), *zero = real(c, 0), *y;
  switch (a->kind) {
  case RNN_ACT_RELU: return op1(c, LOOP_relu, x);
  case RNN_ACT_TANH: return op1(c, LOOP_tanh, x);
  case RNN_ACT_SIGMOID: return op1(c, LOOP_sigmoid, x);
  case RNN_ACT_AFFINE: return affine(c, a, x);
  case RNN_ACT_LEAKY_RELU: return above_zero(c, x, op2(c, LOOP_mul, x, real(c, a->alpha)));
  case RNN_ACT_THRESHOLDED_RELU:
    return loop_op(c->e.k, LOOP_select, op2(c, LOOP_le, real(c, a->alpha), x), x, zero);
  case RNN_ACT_SCALED_TANH:
    y = op1(c, LOOP_tanh, op2(c, LOOP_mul, x, real(c, a->beta)));
    return op2(c, LOOP_mul, y, real(c, a->alpha));
  case RNN_ACT_HARD_SIGMOID: return op2(c, LOOP_min, op2(c, LOOP_max, affine(c, a, x), zero), one);
  case RNN_ACT_ELU:
    y = op2(c, LOOP_sub, op1(c, LOOP_exp, op2(c, LOOP_min, x, zero)), one);
    return above_zero(c, x, op2(c, LOOP_mul, y, real(c, a->alpha)));
  case RNN_ACT_SOFTSIGN: return op2(c, LOOP_div, x, op2(c, LOOP_add, one, op1(c, LOOP_abs, x)));
  case RNN_ACT_SOFTPLUS:
    y = op1(c, LOOP_exp, op1(c, LOOP_neg, op1(c, LOOP_abs, x)));
    y = op1(c, LOOP_log, op2(c, LOOP_add, one, y));
    return op2(c, LOOP_add, op1(c, LOOP_relu, x), y);
  }
  return x;
}

const LoopExpr *recurrent_act(Recurrent *c, int which, const LoopExpr *x, bool clip) {
  const RnnAct *a = &c->act[c->nth * c->each + which];
  x = named(c, x);
  if (clip && a->clip > 0) {
    x = op2(c, LOOP_max, x, real(c, -a->clip));
    x = named(c, op2(c, LOOP_min, x, real(c, a->clip)));
  }
  return named(c, apply(c, a, x));
}

// ---- cells ----

static const LoopExpr *sum_of(Recurrent *c, int gate, Dim u) {
  Dim at = ie_addc(c->e.pool, u, gate * c->group);
  return loop_load(c->e.k, c->sums, ie_add(c->e.pool, c->sums_at, at));
}

// Where a unit of the sequence at hand has its states.
static Dim state_of(const Recurrent *c, Dim unit) { return ie_add(c->e.pool, c->state_at, unit); }

// Peephole weight `which` of a unit times a cell state, added to x.
static const LoopExpr *peep_at(Recurrent *c, const LoopExpr *x, int which, Dim unit,
                               const LoopExpr *cell) {
  if (!c->peep) return x;
  Dim at[2] = {c->dir, ie_addc(c->e.pool, unit, which * c->hidden)};
  const LoopExpr *p = elem_at(&c->e, c->peep, at);
  if (!p) return NULL;
  return loop_op(c->e.k, LOOP_fma, loop_cast(c->e.k, c->t, p), cell, x);
}

// Gates in the order input, output, forget, cell.
static bool lstm_cell(Recurrent *c, Dim unit, Dim u) {
  ElementBuilder *e = &c->e;
  const LoopExpr *old = named(c, loop_load(e->k, c->c, state_of(c, unit))), *x, *in, *forget, *cell,
                 *o;
  if (!(x = peep_at(c, sum_of(c, 0, u), 0, unit, old))) return false;
  in = recurrent_act(c, 0, x, true);
  if (c->input_forget) {
    forget = op2(c, LOOP_sub, real(c, 1), in);
  } else {
    if (!(x = peep_at(c, sum_of(c, 2, u), 2, unit, old))) return false;
    forget = recurrent_act(c, 0, x, true);
  }
  x = op2(c, LOOP_mul, in, recurrent_act(c, 1, sum_of(c, 3, u), true));
  cell = named(c, loop_op(e->k, LOOP_fma, forget, old, x));
  if (!(x = peep_at(c, sum_of(c, 1, u), 1, unit, cell))) return false;
  o = recurrent_act(c, 0, x, true);
  // The cell itself is not clipped, as in the runtimes that have the attribute.
  x = op2(c, LOOP_mul, o, recurrent_act(c, 2, cell, false));
  loop_store(&e->b, c->c, state_of(c, unit), cell);
  loop_store(&e->b, c->next, state_of(c, unit), x);
  return true;
}

// (1 - z) * candidate + z * h
static void gru_mix(Recurrent *c, Dim unit, const LoopExpr *z, const LoopExpr *candidate) {
  ElementBuilder *e = &c->e;
  const LoopExpr *x = op2(c, LOOP_mul, op2(c, LOOP_sub, real(c, 1), z), candidate);
  x = loop_op(e->k, LOOP_fma, z, loop_load(e->k, c->h, state_of(c, unit)), x);
  loop_store(&e->b, c->next, state_of(c, unit), x);
}

// Gates in the order update, reset, hidden.  Late: the tile's third part is the state's product
// alone, and x's is in g.
static bool gru_cell(Recurrent *c, const GateSet *set, Dim unit, Dim u) {
  ElementBuilder *e = &c->e;
  if (set->first == 2) {
    const LoopExpr *candidate = recurrent_act(c, 1, sum_of(c, 0, u), true);
    gru_mix(c, unit, loop_load(e->k, c->update, state_of(c, unit)), candidate);
    return true;
  }
  const LoopExpr *z = recurrent_act(c, 0, sum_of(c, 0, u), true);
  const LoopExpr *r = recurrent_act(c, 0, sum_of(c, 1, u), true);
  if (!c->late_reset) {
    Dim at = state_of(c, unit);
    loop_store(&e->b, c->update, at, z);
    loop_store(&e->b, c->held, at, op2(c, LOOP_mul, r, loop_load(e->k, c->h, at)));
    return true;
  }
  const LoopExpr *x =
      loop_op(e->k, LOOP_fma, r, sum_of(c, 2, u), loop_load(e->k, c->held, state_of(c, unit)));
  gru_mix(c, unit, z, recurrent_act(c, 1, x, true));
  return true;
}

bool recurrent_cell(Recurrent *c, const GateSet *set, Dim unit, Dim u) {
  if (c->cell == CELL_LSTM) return lstm_cell(c, unit, u);
  if (c->cell == CELL_GRU) return gru_cell(c, set, unit, u);
  loop_store(&c->e.b, c->next, state_of(c, unit), recurrent_act(c, 0, sum_of(c, 0, u), true));
  return true;
}
