// import_q_rnn.c -- recurrent operators: LSTM, RNN and SVDF, on floats, floats with 8-bit weights,
// and integers.
//
// A step is built once; a sequence of steps is a scan over it, in which weights are constants.
// States are variable tensors: their next values are given back.  Integer LSTMs follow the kernels
// for microcontrollers: gates are 16-bit, rounded after each product, with the functions by table.
#include <math.h>

#include "eval/control.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "frontends/tflite/import_q.h"

enum { IN, FORGET, CELL, OUT, GATES };

typedef struct Lstm {
  QArg w[GATES], r[GATES], peephole[GATES], bias[GATES], norm[GATES], project, project_bias;
  QArg x, h, c;
  bool integers, asymmetric;
  int64_t activation;
  double cell_clip, project_clip;
} Lstm;

// ---- sequences ----

// A step: states and a row of the operand to states; the first state is the step's result.
typedef void StepFn(TflOp *op, void *ctx, Node *const *state, Node *x, Node **next);
typedef struct Sequence {
  StepFn *step;
  void *ctx;
  int nstates, axis;
  bool backward;
} Sequence;
enum { MOST_STATES = 2 };

// Inside a scan there are only constants and its own values.
static bool is_constant(TflOp *op, int64_t n, Node *const *v) {
  Graph *g = op->g;
  Body probe = {.nresults = n, .result = (Node **)v};
  ArenaMark mark = arena_mark(&g->scratch);
  NodeList l = body_order(g, &probe, &g->scratch);
  bool yes = true;
  for (int64_t i = 0; i < l.n; i++) yes = yes && l.v[i]->op != OP_param;
  arena_reset(&g->scratch, mark);
  return yes;
}

// Operands but x and states, which are of the step's own.
static bool check_weights(TflOp *op, int first, int last) {
  for (int i = first; i < last; i++) {
    Node *n = tfl_in_opt(op, i);
    if (op->g->status) return false;
    if (n && !is_constant(op, 1, &n)) {
      tfl_fail(op, "weights (input %d) that are no constants", i);
      return false;
    }
  }
  return true;
}

// Steps along x's axis: all results in `out`, the last states in `state`.
static Node *run_sequence(TflOp *op, const Sequence *s, Node *x, Node **state) {
  Graph *g = op->g;
  int rank = tfl_rank(op, x);
  if (g->status) return g->poison;
  if (rank != 3) return tfl_fail(op, "a sequence of rank %d, must be 3", rank);
  const Type *t = type_of(x);
  Node *next[MOST_STATES] = {NULL};
  if (ie_is_const(t->dims[s->axis]) && t->dims[s->axis]->value == 1) {
    s->step(op, s->ctx, state, tb_squeeze(g, x, s->axis), next);
    for (int i = 0; i < s->nstates; i++) state[i] = next[i];
    return tb_unsqueeze(g, state[0], s->axis);
  }
  Node *param[MOST_STATES + 1], *src[MOST_STATES + 1], *result[MOST_STATES + 1];
  for (int i = 0; i < s->nstates; i++) {
    src[i] = state[i];
    param[i] = node_param(g, type_of(state[i]), "state");
  }
  Dim dims[] = {t->dims[s->axis == 0 ? 1 : 0], t->dims[2]};
  param[s->nstates] = node_param(g, type_tensor(g, t->dtype, 2, dims), "row");
  src[s->nstates] = x;
  s->step(op, s->ctx, param, param[s->nstates], next);
  if (g->status) return g->poison;
  for (int i = 0; i < s->nstates; i++) result[i] = next[i];
  result[s->nstates] = next[0];
  int n = s->nstates + 1;
  int64_t axis = s->axis, back = s->backward;
  scan_attrs at = {.num_scan_inputs = 1,
                   .scan_input_axes = {1, &axis},
                   .scan_output_axes = {1, &axis},
                   .scan_input_directions = {1, &back},
                   .scan_output_directions = {1, &back},
                   .body = body_new(g, "step", n, param, n, result)};
  Node *r = node_new(g, OP_scan, n, src, &at, n, op->at.node);
  for (int i = 0; i < s->nstates; i++) state[i] = node_proj(g, r, i);
  return node_proj(g, r, s->nstates);
}

// ---- floats ----

static Node *real(TflOp *op, const QArg *a) {
  Graph *g = op->g;
  if (!dtype_is_int(a->t) || !a->n) return a->x;
  Node *wide = quant_cast(g, quant_wide(g, a->x, q_zero(a)), DT_F32);
  return N(g, mul, wide, node_scalar(g, DT_F32, (double)q_scale(a)));
}

static Node *product(TflOp *op, Node *x, const QArg *w, bool asymmetric) {
  Graph *g = op->g;
  if (dtype_is_int(w->t)) return q_hybrid_rows(op, x, w, asymmetric);
  return N(g, mat_mul, x, tb_transpose(g, w->x, 2, (int64_t[]){1, 0}));
}

static Node *clipped(Graph *g, Node *x, double by) {
  if (!(by > 0)) return x;
  return N(g, clip, x, node_scalar(g, DT_F32, -by), node_scalar(g, DT_F32, by));
}

static Node *normalized(TflOp *op, Node *x, const QArg *factor) {
  Graph *g = op->g;
  int64_t last = -1;
  Ints axes = {1, &last};
  Node *d = N(g, sub, x, tb_reduce(g, OP_reduce_mean, x, axes, true));
  Node *var = tb_reduce(g, OP_reduce_mean, N(g, mul, d, d), axes, true);
  Node *norm = N(g, div, d, N(g, sqrt, N(g, add, var, node_scalar(g, DT_F32, 1e-8))));
  return N(g, mul, norm, real(op, factor));
}

static Node *gate_sum(TflOp *op, const Lstm *l, int k, Node *x, Node *h, Node *c) {
  Graph *g = op->g;
  Node *y =
      N(g, add, product(op, x, &l->w[k], l->asymmetric), product(op, h, &l->r[k], l->asymmetric));
  if (l->peephole[k].x) y = N(g, add, y, N(g, mul, c, real(op, &l->peephole[k])));
  if (l->norm[k].x) y = normalized(op, y, &l->norm[k]);
  return l->bias[k].x ? N(g, add, y, l->bias[k].x) : y;
}

static void lstm_step(TflOp *op, void *ctx, Node *const *state, Node *x, Node **next) {
  Graph *g = op->g;
  const Lstm *l = ctx;
  Node *h = state[0], *c = state[1];
  Node *f = N(g, sigmoid, gate_sum(op, l, FORGET, x, h, c));
  Node *i = l->w[IN].x ? N(g, sigmoid, gate_sum(op, l, IN, x, h, c))
                       : N(g, sub, node_scalar(g, DT_F32, 1), f);
  Node *n = tfl_activate(op, gate_sum(op, l, CELL, x, h, c), l->activation);
  c = clipped(g, N(g, add, N(g, mul, f, c), N(g, mul, i, n)), l->cell_clip);
  Node *o = N(g, sigmoid, gate_sum(op, l, OUT, x, h, c));
  h = N(g, mul, o, tfl_activate(op, c, l->activation));
  if (l->project.x) {
    h = product(op, h, &l->project, l->asymmetric);
    if (l->project_bias.x) h = N(g, add, h, l->project_bias.x);
    h = clipped(g, h, l->project_clip);
  }
  next[0] = h;
  next[1] = c;
}

// ---- integers ----

// Gates have 12 fractional bits before their function, 15 after.
static const float gate_scale = 1.0f / 4096, unit_scale = 1.0f / 32768;

static Node *fit_16(Graph *g, Node *x) { return quant_clamp(g, x, INT16_MIN, INT16_MAX); }

static Node *rounded_product(TflOp *op, const QArg *x, const QArg *w, Node *bias) {
  Graph *g = op->g;
  QArg y = {.scale = &gate_scale};
  QMul m = q_product(x, w, &y);
  Node *sum = q_row_sums(op, x, w);
  if (bias) sum = N(g, add, sum, quant_cast(g, bias, DT_I64));
  bool wide = x->t == DT_I16;
  return fit_16(g, wide ? quant_scale64(g, sum, &m, 1) : quant_scale32(g, sum, &m, 1));
}

static Node *look_up(TflOp *op, Node *x, bool tanh, int64_t factor, int shift) {
  Graph *g = op->g;
  ArenaMark mark = arena_mark(&g->scratch);
  int64_t *v = arena_array(&g->scratch, int64_t, 65536);
  for (int64_t q = INT16_MIN; q <= INT16_MAX; q++) {
    int64_t y = tanh ? quant_tanh_16(q, factor, shift) : quant_logistic_16(q, factor, shift);
    v[q & 0xffff] = MIN(MAX(y, (int64_t)INT16_MIN), (int64_t)INT16_MAX);
  }
  Node *y = quant_cast(g, q_table(op, quant_cast(g, x, DT_I16), DT_I16, v), DT_I64);
  arena_reset(&g->scratch, mark);
  return y;
}

static Node *integer_gate(TflOp *op, const Lstm *l, int k, const QArg *x, const QArg *h) {
  Graph *g = op->g;
  Node *a = rounded_product(op, x, &l->w[k], l->bias[k].x);
  Node *b = rounded_product(op, h, &l->r[k], NULL);
  return look_up(op, fit_16(g, N(g, add, a, b)), k == CELL, 3, 0);
}

// a b in the result's scale, within its type.
static Node *scaled_mul(Graph *g, Node *a, Node *b, float sa, float sb, float sy) {
  QMul m = quant_multiplier((double)sa * (double)sb / (double)sy);
  return quant_scale32(g, N(g, mul, a, b), &m, 1);
}

static void integer_step(TflOp *op, void *ctx, Node *const *state, Node *row, Node **next) {
  Graph *g = op->g;
  const Lstm *l = ctx;
  QArg x = l->x, h = l->h;
  x.x = row;
  h.x = state[0];
  float cell = q_scale(&l->c), hidden = q_scale(&l->h);
  Node *c = quant_cast(g, state[1], DT_I64);
  Node *kept =
      fit_16(g, scaled_mul(g, integer_gate(op, l, FORGET, &x, &h), c, unit_scale, cell, cell));
  Node *i = integer_gate(op, l, IN, &x, &h), *n = integer_gate(op, l, CELL, &x, &h);
  c = fit_16(g, N(g, add, kept, fit_16(g, scaled_mul(g, i, n, unit_scale, unit_scale, cell))));
  if (l->cell_clip > 0) {
    int64_t by = (int64_t)MIN(l->cell_clip / (double)cell, 32767.0);
    c = quant_clamp(g, c, -by, by);
  }
  int power;
  quant_log2(cell, &power);
  int left = 12 + power;
  Node *t = look_up(op, c, true, left < 0 ? 3 : (int64_t)3 << MIN(left, 40),
                    left < 0 ? MIN(-left, 40) : 0);
  Node *y = scaled_mul(g, integer_gate(op, l, OUT, &x, &h), t, unit_scale, unit_scale, hidden);
  if (q_zero(&l->h)) y = N(g, add, y, node_i64(g, q_zero(&l->h)));
  next[0] = quant_narrow(g, y, quant_min(l->h.t), quant_max(l->h.t), l->h.t);
  next[1] = quant_cast(g, c, DT_I16);
}

// ---- the operators ----

// Where the operands of one direction are.
typedef struct Places {
  int weights, recurrent, peephole, bias, project, h, c, norm;
} Places;

static bool read_matrix(TflOp *op, int i, bool required, QArg *out) {
  if (!q_any(op, i, out)) return false;
  if (!out->x && required) tfl_fail(op, "input %d is missing", i);
  if (out->x && tfl_rank(op, out->x) != 2) tfl_fail(op, "weights (input %d) must have rank 2", i);
  if (out->x && dtype_is_int(out->t) && !out->n) tfl_fail(op, "input %d is not quantised", i);
  return !op->g->status;
}

static bool read_lstm(TflOp *op, const Places *p, Lstm *l) {
  static const int with_peephole[] = {IN, FORGET, OUT};
  for (int k = 0; k < GATES; k++)
    if (!read_matrix(op, p->weights + k, k != IN, &l->w[k]) ||
        !read_matrix(op, p->recurrent + k, k != IN, &l->r[k]) ||
        !q_any(op, p->bias + k, &l->bias[k]) || (p->norm && !q_any(op, p->norm + k, &l->norm[k])))
      return false;
  for (int k = 0; k < 3; k++)
    if (!q_any(op, p->peephole + k, &l->peephole[with_peephole[k]])) return false;
  if (!read_matrix(op, p->project, false, &l->project) ||
      !q_any(op, p->project + 1, &l->project_bias) || !q_any(op, 0, &l->x) ||
      !q_any(op, p->h, &l->h) || !q_any(op, p->c, &l->c))
    return false;
  if (!l->x.x || !l->h.x || !l->c.x || !l->w[IN].x != !l->r[IN].x)
    tfl_fail(op, "an operand or a state is missing");
  l->integers = dtype_is_int(l->x.t);
  if (op->g->status || !l->integers) return !op->g->status;
  bool rare = l->project.x || !l->w[IN].x;
  for (int k = 0; k < GATES; k++)
    rare = rare || l->peephole[k].x || l->norm[k].x || l->w[k].n != 1 || l->r[k].n != 1;
  if (rare || l->activation != ACT_TANH)
    tfl_fail(op, "an integer LSTM with projection, peepholes, normalisation, coupled gates or "
                 "other functions");
  else if (l->x.n != 1 || l->h.n != 1 || l->c.n != 1 || l->c.t != DT_I16 || l->h.t != l->x.t)
    tfl_fail(op, "an integer LSTM whose operand and states have no scales, or other types");
  return !op->g->status;
}

static Node *one_direction(TflOp *op, const Places *p, Lstm *l, int axis, bool backward) {
  if (!read_lstm(op, p, l)) return op->g->poison;
  Sequence s = {.step = l->integers ? integer_step : lstm_step,
                .ctx = l,
                .nstates = 2,
                .axis = axis,
                .backward = backward};
  Node *state[] = {l->h.x, l->c.x};
  Node *y = run_sequence(op, &s, l->x.x, state);
  tfl_set_state(op, p->h, state[0]);
  tfl_set_state(op, p->c, state[1]);
  return y;
}

static void sequence_lstm(TflOp *op) {
  Lstm l = {.activation = tfl_opt_i8(op, 0, 0),
            .cell_clip = tfl_opt_f32(op, 1, 0),
            .project_clip = tfl_opt_f32(op, 2, 0),
            .asymmetric = tfl_opt_bool(op, 4, false)};
  Places p = {1, 5, 9, 12, 16, 18, 19, op->nin > 20 ? 20 : 0};
  if (!tfl_need(op, 20, 1) || !check_weights(op, 1, 18) || !check_weights(op, 20, op->nin)) return;
  tfl_give(op, 0, one_direction(op, &p, &l, tfl_opt_bool(op, 3, false) ? 0 : 1, false));
}

static void both_lstm(TflOp *op) {
  Graph *g = op->g;
  Lstm f = {.activation = tfl_opt_i8(op, 0, 0),
            .cell_clip = tfl_opt_f32(op, 1, 0),
            .project_clip = tfl_opt_f32(op, 2, 0),
            .asymmetric = tfl_opt_bool(op, 5, false)};
  Lstm b = f;
  Places there = {1, 5, 9, 12, 16, 35, 36, 0}, back = {18, 22, 26, 29, 33, 37, 38, 0};
  int axis = tfl_opt_bool(op, 4, true) ? 0 : 1;
  if (!tfl_need(op, 39, 1) || !check_weights(op, 1, 35)) return;
  for (int i = 39; i < op->nin; i++)
    if (tfl_in_tensor(op, i)) {
      tfl_fail(op, "an auxiliary input");
      return;
    }
  Node *y[] = {one_direction(op, &there, &f, axis, false),
               one_direction(op, &back, &b, axis, true)};
  if (tfl_opt_bool(op, 3, false)) {
    tfl_give(op, 0, tb_concat(g, 2, 2, y));
    return;
  }
  tfl_give(op, 0, y[0]);
  tfl_give(op, 1, y[1]);
}

// One step, whose further results are scratch of the first kernels.
static void lstm(TflOp *op) {
  Lstm l = {.activation = tfl_opt_i8(op, 0, 0),
            .cell_clip = tfl_opt_f32(op, 1, 0),
            .project_clip = tfl_opt_f32(op, 2, 0),
            .asymmetric = tfl_opt_bool(op, 4, false)};
  Places p = {1, 5, 9, 12, 16, 18, 19, op->nin > 20 ? 20 : 0};
  if (tfl_opt_i8(op, 3, 0)) tfl_fail(op, "the BASIC kernel");
  if (!tfl_need(op, 20, 1) || !read_lstm(op, &p, &l)) return;
  Node *state[] = {l.h.x, l.c.x}, *next[2];
  (l.integers ? integer_step : lstm_step)(op, &l, state, l.x.x, next);
  tfl_set_state(op, 18, next[0]);
  tfl_set_state(op, 19, next[1]);
  tfl_give(op, 0, next[0]);
}

// ---- simple recurrent layers ----

typedef struct Rnn {
  QArg w, r;
  Node *bias;
  int64_t activation;
  bool asymmetric;
} Rnn;

static void rnn_step(TflOp *op, void *ctx, Node *const *state, Node *x, Node **next) {
  Graph *g = op->g;
  const Rnn *n = ctx;
  Node *y =
      N(g, add, product(op, x, &n->w, n->asymmetric), product(op, state[0], &n->r, n->asymmetric));
  next[0] = tfl_activate(op, N(g, add, y, n->bias), n->activation);
}

// Operands from `at`: weights, recurrent weights, bias, state.
static bool read_rnn(TflOp *op, int at, Rnn *n) {
  if (!tfl_need(op, at + 4, 1) || !read_matrix(op, at, true, &n->w) ||
      !read_matrix(op, at + 1, true, &n->r))
    return false;
  n->bias = tfl_in(op, at + 2);
  return !op->g->status;
}

static void rnn(TflOp *op) {
  Rnn n = {.activation = tfl_opt_i8(op, 0, 0), .asymmetric = tfl_opt_bool(op, 1, false)};
  if (!read_rnn(op, 1, &n)) return;
  Node *state = tfl_in(op, 4), *next;
  rnn_step(op, &n, &state, tfl_in(op, 0), &next);
  tfl_set_state(op, 4, next);
  tfl_give(op, 0, next);
}

static Node *rnn_direction(TflOp *op, int at, Rnn *n, int axis, bool backward) {
  if (!read_rnn(op, at, n) || !check_weights(op, at, at + 3)) return op->g->poison;
  Sequence s = {.step = rnn_step, .ctx = n, .nstates = 1, .axis = axis, .backward = backward};
  Node *state = tfl_in(op, at + 3);
  Node *y = run_sequence(op, &s, tfl_in(op, 0), &state);
  tfl_set_state(op, at + 3, state);
  return y;
}

static void sequence_rnn(TflOp *op) {
  Rnn n = {.activation = tfl_opt_i8(op, 1, 0), .asymmetric = tfl_opt_bool(op, 2, false)};
  tfl_give(op, 0, rnn_direction(op, 1, &n, tfl_opt_bool(op, 0, false) ? 0 : 1, false));
}

static void both_rnn(TflOp *op) {
  Graph *g = op->g;
  Rnn f = {.activation = tfl_opt_i8(op, 1, 0), .asymmetric = tfl_opt_bool(op, 3, false)}, b = f;
  int axis = tfl_opt_bool(op, 0, false) ? 0 : 1;
  for (int i = 9; i < op->nin; i++)
    if (tfl_in_tensor(op, i)) tfl_fail(op, "an auxiliary input");
  Node *y[] = {rnn_direction(op, 1, &f, axis, false), rnn_direction(op, 5, &b, axis, true)};
  if (tfl_opt_bool(op, 2, false)) {
    tfl_give(op, 0, tb_concat(g, 2, 2, y));
    return;
  }
  tfl_give(op, 0, y[0]);
  tfl_give(op, 1, y[1]);
}

// ---- SVDF: a filter over features, then one over the last steps ----

typedef struct Svdf {
  QArg x, feature, time, state;
  Node *bias;
  int64_t rank, units, filters, memory;
} Svdf;

static bool read_svdf(TflOp *op, Svdf *s) {
  if (!tfl_need(op, 5, 1) || !q_any(op, 0, &s->x) || !read_matrix(op, 1, true, &s->feature) ||
      !read_matrix(op, 2, true, &s->time) || !q_any(op, 4, &s->state) || !s->x.x || !s->state.x)
    return false;
  s->bias = tfl_in_opt(op, 3);
  s->rank = tfl_opt_i32(op, 0, 0);
  s->filters = tfl_size(op, s->feature.x, 0);
  s->memory = tfl_size(op, s->time.x, 1);
  if (op->g->status) return false;
  if (s->rank < 1 || s->filters % s->rank || s->memory < 1)
    tfl_fail(op, "%lld filters of rank %lld, %lld steps", (long long)s->filters, (long long)s->rank,
             (long long)s->memory);
  else
    s->units = s->filters / s->rank;
  return !op->g->status;
}

// The state with its oldest step gone and `newest` [batch, filters] at the end: [batch, filters,
// memory].
static Node *push(TflOp *op, const Svdf *s, Node *newest) {
  Graph *g = op->g;
  Node *old = tb_reshape(g, s->state.x, 3, (int64_t[]){-1, s->filters, s->memory});
  Node *parts[] = {tb_slice(g, old, 2, 1, s->memory), tb_unsqueeze(g, newest, 2)};
  Node *all = tb_concat(g, 2, 2, parts);
  tfl_set_state(op, 4, tb_reshape(g, all, 2, (int64_t[]){-1, s->filters * s->memory}));
  return all;
}

// Products with the time weights, summed over steps and over the ranks of a unit.
static Node *over_time(TflOp *op, const Svdf *s, Node *state, Node *weights) {
  Graph *g = op->g;
  Node *p =
      tb_reshape(g, N(g, mul, state, weights), 3, (int64_t[]){-1, s->units, s->rank * s->memory});
  int64_t last = 2;
  return tb_reduce(g, OP_reduce_sum, p, (Ints){1, &last}, false);
}

static void svdf(TflOp *op) {
  Graph *g = op->g;
  Svdf s = {0};
  QArg y;
  if (!read_svdf(op, &s)) return;
  if (!dtype_is_int(s.x.t)) {
    Node *all = push(op, &s, product(op, s.x.x, &s.feature, tfl_opt_bool(op, 2, false)));
    Node *r = over_time(op, &s, all, real(op, &s.time));
    if (s.bias) r = N(g, add, r, s.bias);
    tfl_give(op, 0, tfl_activate(op, r, tfl_opt_i8(op, 1, 0)));
    return;
  }
  if (s.x.n != 1 || s.feature.n != 1 || s.time.n != 1 || s.state.n != 1 || !q_out(op, 0, &y)) {
    tfl_fail(op, "operands without one scale");
    return;
  }
  float first = q_scale(&s.x) * q_scale(&s.feature) / q_scale(&s.state);
  float second = q_scale(&s.state) * q_scale(&s.time) / q_scale(&y);
  QMul m1 = quant_multiplier((double)first), m2 = quant_multiplier((double)second);
  Node *dot = quant_scale32(g, q_row_sums(op, &s.x, &s.feature), &m1, 1);
  dot = quant_clamp(g, dot, quant_min(s.state.t), quant_max(s.state.t));
  if (q_zero(&s.state)) dot = N(g, add, dot, node_i64(g, q_zero(&s.state)));
  Node *newest = quant_narrow(g, dot, quant_min(s.state.t), quant_max(s.state.t), s.state.t);
  Node *all = quant_wide(g, push(op, &s, newest), q_zero(&s.state));
  Node *sum = over_time(op, &s, all, quant_cast(g, s.time.x, DT_I64));
  if (s.bias) sum = N(g, add, sum, quant_cast(g, s.bias, DT_I64));
  q_give(op, &y, quant_scale32(g, sum, &m2, 1), ACT_NONE);
}

static const TflRow rows[] = {
    // clang-format off
    {16, "LSTM",                         lstm,          4, 0},
    {24, "RNN",                          rnn,           3, 0},
    {27, "SVDF",                         svdf,          4, 0},
    {35, "UNIDIRECTIONAL_SEQUENCE_RNN",  sequence_rnn,  3, 0},
    {44, "UNIDIRECTIONAL_SEQUENCE_LSTM", sequence_lstm, 4, 0},
    {46, "BIDIRECTIONAL_SEQUENCE_RNN",   both_rnn,      3, 0},
    {52, "BIDIRECTIONAL_SEQUENCE_LSTM",  both_lstm,     3, 0},
    // clang-format on
};
TFL_TABLE(recurrent);
