// rnn.c -- template rnn: a whole LSTM, GRU or RNN layer in one kernel.
//
// A work item is one sequence in one direction, or several of a batch.  It forms the input GEMM for
// a chunk of steps, then step by step the recurrent product with the gates in the registers that
// hold the sums.  Several sequences share each load of the weights.  Constant weights are packed in
// reading order.  Steps come in chunks, so scratch has a constant size at any sequence length.
//
// Needs:      one recurrent op without quantized state; constant input and hidden sizes.  Batch and
//             sequence length may be dynamic, and so may sequence_lens.
// Guarantees: sums and states in f32 (f64 for f64).  Elements of x and of the state are added in
//             ascending order; every field is FREE.  Steps beyond a sequence's length give 0.
#include "lower/cpu/rnn.h"

#include "ir/internal.h"
#include "lower/template.h"

#include <math.h>

enum { SEQUENCES = 6, ITEMS_FEW = 4, ITEMS_MANY = 16 };
// Half cycles: of a step beside its products, and of the gates of a sequence.
enum { STEP = 200, GATES = 200 };
enum { WHOLE_STEPS = 64, CHUNK_STEPS = 32, MAX_UNITS = 1 << 16, MAX_G = 1 << 22 };

// ---- what is computed ----

static const Node *find_layer(Recurrent *c) {
  NodeList all = body_order(c->e.lo->g, c->e.body, c->e.a);
  const Node *found = NULL;
  for (int64_t i = 0; i < all.n; i++) {
    int op = all.v[i]->op;
    if (op != OP_lstm && op != OP_gru && op != OP_rnn) continue;
    if (found) return NULL;
    found = all.v[i];
  }
  return found;
}

static void set_acts(Recurrent *c, Strs names, Floats alpha, Floats beta, double clip,
                     RnnActKind first) {
  if (c->cell == CELL_RNN && names.n == 2 && c->ndirs == 1) names.n = 1;
  RnnActs from = {names, alpha, beta, clip, c->ndirs, c->each, first};
  rnn_activations(&from, c->act);
}

static bool read_attrs(Recurrent *c) {
  int direction;
  int64_t layout;
  if (c->n->op == OP_lstm) {
    const lstm_attrs *at = c->n->attrs;
    if (at->quantize_state) return false;
    c->cell = CELL_LSTM;
    c->gates = 4;
    c->each = 3;
    c->input_forget = at->input_forget;
    direction = at->direction;
    layout = at->layout;
    c->ndirs = direction == RNN_BIDIRECTIONAL ? 2 : 1;
    set_acts(c, at->activations, at->activation_alpha, at->activation_beta, at->clip,
             RNN_ACT_SIGMOID);
  } else if (c->n->op == OP_gru) {
    const gru_attrs *at = c->n->attrs;
    c->cell = CELL_GRU;
    c->gates = 3;
    c->each = 2;
    c->late_reset = at->linear_before_reset;
    direction = at->direction;
    layout = at->layout;
    c->ndirs = direction == RNN_BIDIRECTIONAL ? 2 : 1;
    set_acts(c, at->activations, at->activation_alpha, at->activation_beta, at->clip,
             RNN_ACT_SIGMOID);
  } else {
    const rnn_attrs *at = c->n->attrs;
    c->cell = CELL_RNN;
    c->gates = c->each = 1;
    direction = at->direction;
    layout = at->layout;
    c->ndirs = direction == RNN_BIDIRECTIONAL ? 2 : 1;
    set_acts(c, at->activations, at->activation_alpha, at->activation_beta, at->clip, RNN_ACT_TANH);
  }
  c->reverse = direction == RNN_REVERSE;
  c->batch_first = layout == 1;
  return true;
}

static bool is_rank(const Node *n, int rank) {
  return n && type_of(n)->kind == TK_TENSOR && type_of(n)->rank == rank;
}

static bool read_operands(Recurrent *c) {
  Graph *g = c->e.lo->g;
  const Node *const *s = (const Node *const *)c->n->src;
  c->x = s[0];
  c->w = s[1];
  c->r = s[2];
  c->bias = src_or_null(g, c->n, 3);
  c->lens = src_or_null(g, c->n, 4);
  c->h0 = src_or_null(g, c->n, 5);
  if (c->cell == CELL_LSTM) {
    c->c0 = src_or_null(g, c->n, 6);
    c->peep = src_or_null(g, c->n, 7);
  }
  if (!is_rank(c->x, 3) || !is_rank(c->w, 3) || !is_rank(c->r, 3)) return false;
  if ((c->bias && !is_rank(c->bias, 2)) || (c->lens && !is_rank(c->lens, 1))) return false;
  if ((c->h0 && !is_rank(c->h0, 3)) || (c->c0 && !is_rank(c->c0, 3))) return false;
  if (c->peep && !is_rank(c->peep, 2)) return false;
  Dim input = type_of(c->x)->dims[2], hidden = type_of(c->r)->dims[2];
  if (!lower_is_static(c->e.lo, input) || !lower_is_static(c->e.lo, hidden)) return false;
  c->input = input->value;
  c->hidden = hidden->value;
  DType t = type_of(c->x)->dtype;
  c->t = t == DT_F64 ? DT_F64 : DT_F32;
  return dtype_class(t) == DC_FLOAT && elem_dtype(t) && c->input >= 1 && c->hidden >= 1 &&
         c->input <= MAX_UNITS && c->hidden <= MAX_UNITS;
}

// ---- schedule ----

static int64_t pow2_at_least(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

// Elements of x and of the state are added in ascending order, whatever the schedule.
#define RNN_SCHEDULE(I, B, C, T)                                                                   \
  I(T, units, 0, 1, 256, 0, FREE, "hidden units computed together")                                \
  I(T, cols, 0, 1, 256, 0, FREE, "hidden units of a register tile of the input GEMM")              \
  I(T, rows, 0, 1, 64, 1, FREE, "time steps of a register tile of the input GEMM")                 \
  I(T, steps, 0, 1, 1 << 16, 1, FREE, "time steps per input GEMM")                                 \
  I(T, sequences, 1, 1, 16, 1, FREE, "sequences of a work item, a divisor of the batch")
SCHEDULE_STRUCT(Rnn, RNN_SCHEDULE);
SCHEDULE_TABLE(Rnn, RNN_SCHEDULE);

static int64_t scratch_of(const Recurrent *c, const RnnSchedule *s) {
  int64_t groups = (c->hidden + s->units - 1) / s->units;
  return (s->steps * s->sequences + s->rows) * (groups * s->units * c->gates + c->input);
}

// Vectors of units that are computed together, of each gate and sequence.
static int64_t choose_vectors(const Recurrent *c, int64_t sequences, int64_t registers) {
  int64_t sums = sequences > 1 ? registers * 3 / 4 : registers / 2, n = 1;
  while (n * 2 * c->gates * sequences <= sums && n < 4) n *= 2;
  return n;
}

static int64_t choose_units(const Recurrent *c, const LowerTarget *t, int64_t sequences) {
  int64_t lanes = MAX(t->vector_bytes / elem_bytes(c->t), 1);
  int64_t vectors = choose_vectors(c, sequences, t->vector_registers);
  return MIN(vectors * lanes, pow2_at_least(c->hidden));
}

// Sequences that are computed together: of the numbers that leave work for several threads the one
// that takes least.  A step loads the weights once for all of them; the gates of a sequence are a
// long chain of operations.
static int64_t choose_sequences(const Recurrent *c, const LowerTarget *t) {
  if (c->lens || !ie_is_const(c->batch)) return 1;
  int64_t batch = c->batch->value, best = 1, lanes = MAX(t->vector_bytes / elem_bytes(c->t), 1);
  int64_t items = batch * c->ndirs >= ITEMS_MANY ? ITEMS_FEW : 2;
  double least = INFINITY;
  for (int64_t n = 1; n <= SEQUENCES; n++) {
    if (n > 1 && (batch % n || batch / n * c->ndirs < items)) continue;
    int64_t units = choose_units(c, t, n), sums = c->gates * ((units + lanes - 1) / lanes);
    if (n > 1 && sums * n > t->vector_registers * 3 / 4) continue;
    double step = (double)(c->hidden * sums * (n + 1) + STEP + n * GATES);
    double cost = step * (double)((c->hidden + units - 1) / units) / (double)n;
    if (cost < least) least = cost, best = n;
  }
  return best;
}

static bool rnn_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                       void *fields) {
  const Recurrent *c = match;
  RnnSchedule *s = fields;
  int64_t lanes = t->vector_bytes / elem_bytes(c->t);
  s->sequences = choose_sequences(c, t);
  schedule_keep(given, s);
  s->units = choose_units(c, t, s->sequences);
  schedule_keep(given, s);
  s->cols = MIN(2 * lanes, s->units);
  s->rows = t->vector_registers / 4 * (s->cols > lanes ? 1 : 2);
  bool whole = ie_is_const(c->time) && c->time->value <= WHOLE_STEPS;
  s->steps = whole ? MAX(c->time->value, 1) : CHUNK_STEPS;
  schedule_keep(given, s);
  return scratch_of(c, s) <= MAX_G;
}

static bool rnn_legal(const void *match, const LowerTarget *t, const void *fields,
                      const char **why) {
  const RnnSchedule *s = fields;
  (void)t;
  const Recurrent *c = match;
  bool divides = s->sequences == 1 ||
                 (ie_is_const(c->batch) && !c->lens && c->batch->value % s->sequences == 0);
  *why = s->units % s->cols         ? "cols does not divide units"
         : !divides                 ? "sequences must divide a constant batch of equal lengths"
         : scratch_of(c, s) > MAX_G ? "its scratch is too large"
                                    : NULL;
  return !*why;
}

// The schedule as the loops read it.
static void take_schedule(Recurrent *c, const RnnSchedule *s) {
  c->group = s->units;
  c->ngroups = (c->hidden + c->group - 1) / c->group;
  c->ragged = c->hidden % c->group != 0;
  c->width = s->cols;
  c->rows = s->rows;
  c->chunk = s->steps;
  c->seqs = s->sequences;
  c->chunked = !(ie_is_const(c->time) && c->time->value <= c->chunk);
}

const Node *recurrent_constant(const Recurrent *c, const Node *n) {
  if (n->op == OP_const) return n;
  for (int64_t i = 0; i < c->e.body->nparams; i++)
    if (c->e.body->param[i] == n && c->e.fused->src[i]->op == OP_const) return c->e.fused->src[i];
  return NULL;
}

static void pack_axis(PackSpec *s, int coord, int64_t limit, int64_t stride) {
  s->limit[coord] = limit;
  s->stride[coord] = stride;
  s->ncoords = coord + 1;
}

// [direction][group][gate][part of the group][k][unit] of w.
static PackSpec pack_input(const Recurrent *c) {
  PackSpec s = {.nloops = 6};
  int64_t k = c->input, h = c->hidden;
  const int64_t extent[] = {c->ndirs, c->ngroups, c->gates, c->group / c->width, k, c->width};
  memcpy(s.extent, extent, sizeof extent);
  pack_axis(&s, 0, c->ndirs, c->gates * h * k);
  pack_axis(&s, 1, c->gates, h * k);
  pack_axis(&s, 2, h, k);
  pack_axis(&s, 3, k, 1);
  s.coef[0][0] = s.coef[1][2] = s.coef[3][4] = s.coef[2][5] = 1;
  s.coef[2][1] = c->group;
  s.coef[2][3] = c->width;
  return s;
}

// [direction][group][k][gate][unit] of r; where not all gates are read together, gate before k.
static PackSpec pack_recurrent(const Recurrent *c) {
  PackSpec s = {.nloops = 5};
  int64_t h = c->hidden;
  int k = c->nsets == 1 ? 2 : 3, gate = 5 - k;
  s.extent[0] = c->ndirs;
  s.extent[1] = c->ngroups;
  s.extent[k] = h;
  s.extent[gate] = c->gates;
  s.extent[4] = c->group;
  pack_axis(&s, 0, c->ndirs, c->gates * h * h);
  pack_axis(&s, 1, c->gates, h * h);
  pack_axis(&s, 2, h, h);
  pack_axis(&s, 3, h, 1);
  s.coef[0][0] = s.coef[3][k] = s.coef[1][gate] = s.coef[2][4] = 1;
  s.coef[2][1] = c->group;
  return s;
}

// ---- buffers ----

static int32_t scratch(Recurrent *c, const char *name, int64_t n) {
  return loop_buffer(c->e.k, LOOP_SCRATCH, name, c->t, ie_const(c->e.pool, n), false);
}

static void make_sets(Recurrent *c) {
  c->nsets = 1;
  c->set[0] = (GateSet){.first = 0, .count = c->gates};
  if (c->cell != CELL_GRU || c->late_reset) return;
  c->nsets = 2;  // the hidden gate is of the state after the reset
  c->set[0].count = 2;
  c->set[1] = (GateSet){.first = 2, .count = 1};
}

static bool pack_weights(Recurrent *c, const Node *w, const Node *r) {
  PackSpec s = pack_input(c);
  c->w_packed = w ? elem_packed(&c->e, w, &s, "w") : -1;
  if (w && c->w_packed < 0) return false;
  s = pack_recurrent(c);
  c->r_packed = r ? elem_packed(&c->e, r, &s, "r") : -1;
  return !r || c->r_packed >= 0;
}

static void make_buffers(Recurrent *c) {
  int64_t units = c->ngroups * c->group, all = units * c->gates;
  int64_t states = units * c->seqs;
  int64_t steps = (c->chunk * c->seqs / c->rows + 1) * c->rows;  // with the tile of what is left
  c->inputs = scratch(c, "x", steps * c->input);
  c->g = scratch(c, "g", steps * all);
  c->biases = scratch(c, "biases", all);
  c->late_bias = scratch(c, "late", units);
  c->h = scratch(c, "h", states);
  c->next = scratch(c, "next", states);
  c->c = scratch(c, "c", states);
  c->update = scratch(c, "update", states);
  c->held = scratch(c, "held", states);
  c->set[0].state = c->h;
  c->set[1].state = c->held;
  int64_t tile = MAX(c->rows * c->width, c->gates * c->group * c->seqs);
  c->sums = c->seqs > 1 ? scratch(c, "sums", c->gates * c->group * c->seqs) : -1;
  c->tile = loop_buffer(c->e.k, LOOP_REGISTER, "tile", c->t, ie_const(c->e.pool, tile), false);
  if (c->sums < 0) c->sums = c->tile;
}

// Every result is made from one of the layer's.
static bool good_results(Recurrent *c) {
  for (int i = 0; i < c->e.fused->nres; i++) {
    bool found = false;
    for (int v = 0; v < RNN_VALUES; v++) {
      c->walk.own = epilogue_value(&c->walk, v);
      found |= c->walk.own && epilogue_reads(&c->walk, c->e.body->result[i]);
    }
    if (!found) return false;
  }
  return true;
}

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  (void)index;
  return *(const LoopExpr **)ctx;
}

void *recurrent_match(Lowering *lo, const Node *fused) {
  Recurrent *c = arena_new(lo->arena, Recurrent);
  c->e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  c->e.a = lo->arena;
  if (!(c->n = find_layer(c)) || !read_attrs(c) || !read_operands(c)) return NULL;
  const Node *skip[2];
  int nskip = 0;
  if (recurrent_constant(c, c->w)) skip[nskip++] = c->w;
  if (recurrent_constant(c, c->r)) skip[nskip++] = c->r;
  if (!elem_begin(&c->e, lo, fused, skip, nskip)) return NULL;
  c->time = elem_dim(&c->e, type_of(c->x)->dims[c->batch_first]);
  c->batch = elem_dim(&c->e, type_of(c->x)->dims[!c->batch_first]);
  if (ie_is(c->time, 0) || ie_is(c->batch, 0)) return NULL;
  make_sets(c);
  epilogue_begin(&c->walk, &c->e, c->n);
  return good_results(c) ? c : NULL;
}

void recurrent_give_results(Recurrent *c) {
  for (int v = 0; v < RNN_VALUES; v++) {
    const Node *own = epilogue_value(&c->walk, v);
    if (own) elem_give(&c->e, own, give_value, &c->value[v]);
  }
}

static bool rnn_build(void *match, const void *fields, Lowered *out) {
  Recurrent *c = match;
  take_schedule(c, fields);
  if (!pack_weights(c, recurrent_constant(c, c->w), recurrent_constant(c, c->r))) return false;
  make_buffers(c);
  recurrent_give_results(c);
  if (!recurrent_emit(c)) return false;
  elem_finish(&c->e, out);
  return true;
}

const TemplateCode template_rnn = {.match = recurrent_match,
                                   .choose = rnn_choose,
                                   .legal = rnn_legal,
                                   .build = rnn_build,
                                   SCHEDULE(Rnn)};
