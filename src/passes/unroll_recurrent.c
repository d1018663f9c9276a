// unroll_recurrent.c -- the pass unroll-recurrent: recurrent layers as GEMMs, one per step.
//
// A thread block per sequence (lower/gpu/rnn_block.c) computes a step without a launch, while its
// registers hold the recurrent weights or one multiprocessor reads them fast enough.  Larger layers
// become steps on GPUs: the input GEMM for all steps at once, then per
// step the product of the state with the recurrent weights, over all multiprocessors, and an
// elementwise kernel with the gates.  The steps are launches of one CUDA graph.
//
// Needs:      recognise-recurrent has run; a static number of steps, at most STEPS_MOST, and static
//             sizes of input and state.  The batch may be dynamic with an initial state.
// Guarantees: sums and states in f32 (f64 for f64); beyond a sequence's length states stay, and y
//             is 0.  Only for targets whose work items are thread blocks.
// Does not:   unroll quantized states, activations other than sigmoid, tanh and relu, or layers
// that
//             a block is faster for; these stay kernels of their own.
#include "eval/rnn.h"
#include "eval/scalar.h"
#include "ir/internal.h"
#include "ir/pass.h"
#include "ir/traits.h"
#include "rules/shape.h"

enum { STEPS_MOST = 256, DIRS = 2, RESULTS = 3 };
// Recurrent weights that the registers of a block hold, and that it reads from L2 within the time
// that the launches of a step take, by themselves and beside many others.
enum {
  WEIGHTS_RESIDENT = 40 << 10,
  WEIGHTS_READ = 96 << 10,
  BLOCKS_READ = 32,
  BLOCKS_RESIDENT = 1024
};
enum { X, W, R, BIAS, LENS, H0, C0, PEEP, OPERANDS };

typedef struct Layer {
  Graph *g;
  const Node *n;
  int gates, each, ndirs, direction;  // each: activations of a direction
  bool batch_first, input_forget, late_reset;
  RnnAct act[RNN_ACTS];
  Node *src[OPERANDS];  // NULL: absent
  DType t;              // of sums and states
  Dim batch;
  int64_t time, hidden;
  Node *result[RESULTS];
} Layer;

typedef struct Way {  // of one direction
  Node *inputs;       // [time, batch, gates * hidden], with biases
  Node *r;            // [hidden, gates * hidden]
  Node *late;         // recurrent bias of a late reset's hidden gate; NULL: none
  Node *peep[3];
  Node *h, *c;  // [batch, hidden]
  const RnnAct *act;
} Way;

typedef struct Unroll {
  PassCtx *c;
  IntMap done;  // id of a layer -> Layer *, or 0: it stays
} Unroll;

// ---- what the layer is ----

static void set_acts(Layer *y, Strs names, Floats alpha, Floats beta, double clip,
                     RnnActKind first) {
  if (y->gates == 1 && names.n == 2 && y->ndirs == 1) names.n = 1;
  RnnActs from = {names, alpha, beta, clip, y->ndirs, y->each, first};
  rnn_activations(&from, y->act);
}

static bool read_attrs(Layer *y) {
  int64_t layout;
  if (y->n->op == OP_lstm) {
    const lstm_attrs *at = y->n->attrs;
    y->gates = 4, y->each = 3, y->direction = at->direction, layout = at->layout;
    y->input_forget = at->input_forget;
    y->ndirs = at->direction == RNN_BIDIRECTIONAL ? 2 : 1;
    set_acts(y, at->activations, at->activation_alpha, at->activation_beta, at->clip,
             RNN_ACT_SIGMOID);
    if (at->quantize_state) return false;
  } else if (y->n->op == OP_gru) {
    const gru_attrs *at = y->n->attrs;
    y->gates = 3, y->each = 2, y->direction = at->direction, layout = at->layout;
    y->late_reset = at->linear_before_reset;
    y->ndirs = at->direction == RNN_BIDIRECTIONAL ? 2 : 1;
    set_acts(y, at->activations, at->activation_alpha, at->activation_beta, at->clip,
             RNN_ACT_SIGMOID);
  } else {
    const rnn_attrs *at = y->n->attrs;
    y->gates = 1, y->each = 1, y->direction = at->direction, layout = at->layout;
    y->ndirs = at->direction == RNN_BIDIRECTIONAL ? 2 : 1;
    set_acts(y, at->activations, at->activation_alpha, at->activation_beta, at->clip, RNN_ACT_TANH);
  }
  y->batch_first = layout == 1;
  for (int i = 0; i < y->ndirs * y->each; i++)
    if (y->act[i].kind > RNN_ACT_SIGMOID) return false;
  return true;
}

// Whether one block per sequence and direction is faster: a step has no launch there, but the
// weights are one multiprocessor's affair.
static bool fits_block(const Layer *y) {
  int64_t weights = y->gates * y->hidden * y->hidden;
  int64_t blocks = ie_is_const(y->batch) ? y->batch->value * y->ndirs : BLOCKS_READ;
  return y->t == DT_F32 && ((weights <= WEIGHTS_RESIDENT && blocks <= BLOCKS_RESIDENT) ||
                            (weights <= WEIGHTS_READ && blocks <= BLOCKS_READ));
}

static bool read_operands(Layer *y) {
  static const int rank[OPERANDS] = {3, 3, 3, 2, 1, 3, 3, 2};
  for (int i = 0; i < OPERANDS; i++) {
    y->src[i] = src_or_null(y->g, y->n, i);
    if (!y->src[i]) continue;
    const Type *t = type_of(y->src[i]);
    if (t->kind != TK_TENSOR || t->rank != rank[i]) return false;
  }
  const Type *x = type_of(y->src[X]), *r = type_of(y->src[R]);
  Dim time = x->dims[y->batch_first];
  y->batch = x->dims[!y->batch_first];
  bool states = y->src[H0] && (y->gates != 4 || y->src[C0]);
  if (!ie_is_const(time) || !ie_is_const(x->dims[2]) || !ie_is_const(r->dims[2])) return false;
  if (!states && !ie_is_const(y->batch)) return false;
  y->time = time->value;
  y->hidden = r->dims[2]->value;
  y->t = x->dtype == DT_F64 ? DT_F64 : DT_F32;
  if (fits_block(y)) return false;
  return y->time >= 1 && y->time <= STEPS_MOST && y->hidden >= 1 && !ie_is(y->batch, 0) &&
         !ie_is(x->dims[2], 0);
}

// ---- small nodes ----

static Node *cast_to(Graph *g, Node *x, DType t) {
  return type_of(x)->dtype == t ? x : NA(g, cast, (&(cast_attrs){.to = t}), x);
}

// Of sums and states: cast, batch first made batch last.
static Node *in_f32(Layer *y, int i) {
  Node *x = y->src[i];
  if (!x) return NULL;
  x = cast_to(y->g, x, y->t);
  bool transposed = y->batch_first && (i == X || i == H0 || i == C0);
  return transposed ? transpose_to(y->g, x, 3, (int64_t[]){1, 0, 2}) : x;
}

// Element i of the first axis, which is dropped.
static Node *row_of(Layer *y, Node *x, int64_t i) {
  if (!ie_is(type_of(x)->dims[0], 1)) x = slice_axis(y->g, x, 0, i, i + 1, 1);
  return N(y->g, squeeze, x, node_i64s(y->g, 1, (int64_t[]){0}));
}

static Node *part(Layer *y, Node *x, int axis, int64_t first, int64_t count) {
  if (!first && ie_is(type_of(x)->dims[axis], count)) return x;
  return slice_axis(y->g, x, axis, first, first + count, 1);
}

static Node *gate(Layer *y, Node *sums, int i) {
  return part(y, sums, 1, i * y->hidden, y->hidden);
}

static Node *zeros(Layer *y) {
  int64_t shape[2] = {y->batch->value, y->hidden};
  return N(y->g, expand, node_scalar(y->g, y->t, 0), node_i64s(y->g, 2, shape));
}

static Node *act(Layer *y, const RnnAct *a, Node *x, bool clip) {
  Graph *g = y->g;
  if (clip && a->clip > 0)
    x = N(g, clip, x, node_scalar(g, y->t, -a->clip), node_scalar(g, y->t, a->clip));
  if (a->kind == RNN_ACT_RELU) return N(g, relu, x);
  return a->kind == RNN_ACT_TANH ? N(g, tanh, x) : N(g, sigmoid, x);
}

// ---- cells: the new state, from all gates' sums ----

static Node *peeped(Layer *y, const Way *w, int i, Node *x, Node *cell) {
  return w->peep[i] ? N(y->g, add, x, N(y->g, mul, w->peep[i], cell)) : x;
}

static Node *lstm_step(Layer *y, Way *w, Node *sums) {
  Graph *g = y->g;
  Node *in = act(y, &w->act[0], peeped(y, w, 0, gate(y, sums, 0), w->c), true);
  Node *forget = y->input_forget
                     ? N(g, sub, node_scalar(g, y->t, 1), in)
                     : act(y, &w->act[0], peeped(y, w, 2, gate(y, sums, 2), w->c), true);
  Node *cell =
      N(g, add, N(g, mul, forget, w->c), N(g, mul, in, act(y, &w->act[1], gate(y, sums, 3), true)));
  Node *out = act(y, &w->act[0], peeped(y, w, 1, gate(y, sums, 1), cell), true);
  w->c = cell;
  return N(g, mul, out, act(y, &w->act[2], cell, false));
}

// (1 - z) * candidate + z * h
static Node *gru_step(Layer *y, Way *w, Node *inputs) {
  Graph *g = y->g;
  int64_t h = y->hidden;
  Node *both = N(g, mat_mul, w->h, y->late_reset ? w->r : part(y, w->r, 1, 0, 2 * h)), *last;
  Node *sums =
      N(g, add, y->late_reset ? part(y, both, 1, 0, 2 * h) : both, part(y, inputs, 1, 0, 2 * h));
  Node *z = act(y, &w->act[0], gate(y, sums, 0), true);
  Node *reset = act(y, &w->act[0], gate(y, sums, 1), true);
  if (y->late_reset) {
    last = gate(y, both, 2);
    if (w->late) last = N(g, add, last, w->late);
    last = N(g, mul, reset, last);
  } else {
    last = N(g, mat_mul, N(g, mul, reset, w->h), part(y, w->r, 1, 2 * h, h));
  }
  last = act(y, &w->act[1], N(g, add, last, gate(y, inputs, 2)), true);
  return N(g, add, N(g, mul, N(g, sub, node_scalar(g, y->t, 1), z), last), N(g, mul, z, w->h));
}

static Node *step(Layer *y, Way *w, int64_t time) {
  Graph *g = y->g;
  Node *inputs = row_of(y, w->inputs, time);
  if (y->gates == 3) return gru_step(y, w, inputs);
  Node *sums = N(g, add, N(g, mat_mul, w->h, w->r), inputs);
  return y->gates == 4 ? lstm_step(y, w, sums) : act(y, &w->act[0], sums, true);
}

// Beyond the end of a sequence the states stay.  Gives the step's row of y.
static Node *masked_step(Layer *y, Way *w, Node *lens, int64_t time) {
  Graph *g = y->g;
  Node *before = w->h, *cell = w->c, *h = step(y, w, time);
  w->h = h;
  if (!lens) return h;
  Node *inside = N(g, lt, node_i64(g, time), lens);
  w->h = N(g, where, inside, h, before);
  if (cell) w->c = N(g, where, inside, w->c, cell);
  return N(g, where, inside, h, node_scalar(g, y->t, 0));
}

// ---- the layer ----

static void set_biases(Layer *y, Way *w, int dir) {
  Graph *g = y->g;
  int64_t h = y->hidden, all = y->gates * h;
  if (!y->src[BIAS]) return;
  Node *b = row_of(y, in_f32(y, BIAS), dir);
  Node *in = part(y, b, 0, 0, all), *rec = part(y, b, 0, all, all);
  if (y->late_reset) {
    w->late = part(y, rec, 0, 2 * h, h);
    Node *first = N(g, add, part(y, in, 0, 0, 2 * h), part(y, rec, 0, 0, 2 * h));
    in = NA(g, concat, (&(concat_attrs){.axis = 0}), first, part(y, in, 0, 2 * h, h));
  } else {
    in = N(g, add, in, rec);
  }
  w->inputs = N(g, add, w->inputs, in);
}

static Way way_of(Layer *y, int dir) {
  Graph *g = y->g;
  const int64_t turn[2] = {1, 0};
  Way w = {.act = &y->act[dir * y->each]};
  w.r = transpose_to(g, row_of(y, in_f32(y, R), dir), 2, turn);
  w.inputs = N(g, mat_mul, in_f32(y, X), transpose_to(g, row_of(y, in_f32(y, W), dir), 2, turn));
  set_biases(y, &w, dir);
  w.h = y->src[H0] ? row_of(y, in_f32(y, H0), dir) : zeros(y);
  if (y->gates == 4) w.c = y->src[C0] ? row_of(y, in_f32(y, C0), dir) : zeros(y);
  for (int i = 0; y->gates == 4 && y->src[PEEP] && i < 3; i++)
    w.peep[i] = part(y, row_of(y, in_f32(y, PEEP), dir), 0, i * y->hidden, y->hidden);
  return w;
}

static Node *in_front(Graph *g, Node *x) {
  return N(g, unsqueeze, x, node_i64s(g, 1, (int64_t[]){0}));
}

static Node *joined(Graph *g, Node **v, int n) {
  return n == 1 ? v[0] : node_new(g, OP_concat, n, v, &(concat_attrs){.axis = 0}, 1, NULL);
}

// The states of all directions, as the op gives them.
static Node *last_states(Layer *y, Node *const *state) {
  Node *v[DIRS];
  for (int d = 0; d < y->ndirs; d++) v[d] = in_front(y->g, state[d]);
  Node *all = cast_to(y->g, joined(y->g, v, y->ndirs), type_of(y->n->src[X])->dtype);
  return y->batch_first ? transpose_to(y->g, all, 3, (int64_t[]){1, 0, 2}) : all;
}

static bool unroll(Layer *y, Arena *a) {
  Graph *g = y->g;
  Node **rows = arena_array(a, Node *, y->time * y->ndirs), *h[DIRS], *c[DIRS], *lens = NULL;
  if (y->src[LENS])
    lens = N(g, unsqueeze, cast_to(g, y->src[LENS], DT_I64), node_i64s(g, 1, (int64_t[]){1}));
  for (int d = 0; d < y->ndirs; d++) {
    Way w = way_of(y, d);
    bool back = d == 1 || y->direction == RNN_REVERSE;
    for (int64_t s = 0; s < y->time; s++) {
      int64_t time = back ? y->time - 1 - s : s;
      rows[time * y->ndirs + d] = masked_step(y, &w, lens, time);
    }
    h[d] = w.h;
    c[d] = w.c;
  }
  Dim shape[4] = {ie_const(&g->dims, y->time), ie_const(&g->dims, y->ndirs), y->batch,
                  ie_const(&g->dims, y->hidden)};
  Node *all = joined(g, rows, (int)(y->time * y->ndirs));
  all = cast_to(g, all, type_of(y->n->src[X])->dtype);
  all = reshape_to(g, all, type_tensor(g, type_of(all)->dtype, 4, shape));
  if (!all || all == g->poison) return false;
  y->result[0] = y->batch_first ? transpose_to(g, all, 4, (int64_t[]){2, 0, 1, 3}) : all;
  y->result[1] = last_states(y, h);
  if (y->gates == 4) y->result[2] = last_states(y, c);
  for (uint32_t i = 0; i < y->n->nres; i++)
    if (!y->result[i] || !type_same_dims(type_of(y->result[i]), y->n->type[i])) return false;
  return true;
}

static Layer *layer_of(Unroll *u, const Node *n) {
  uint64_t known = 0;
  if (intmap_get(&u->done, n->id, &known)) return (Layer *)(uintptr_t)known;
  Layer *y = arena_new(u->c->scratch, Layer);
  y->g = u->c->g;
  y->n = n;
  if (!read_attrs(y) || !read_operands(y) || !unroll(y, u->c->scratch)) y = NULL;
  intmap_put(&u->done, n->id, (uint64_t)(uintptr_t)y);
  return y;
}

static bool is_recurrent(const Node *n) {
  return n->op == OP_lstm || n->op == OP_gru || n->op == OP_rnn;
}

static Node *replace(void *ctx, Node *n, Node *old) {
  (void)old;
  bool proj = n->op == OP_proj && is_recurrent(n->src[0]);
  if (!proj && !(is_recurrent(n) && n->nres == 1)) return n;
  Layer *y = layer_of(ctx, proj ? n->src[0] : n);
  return y ? y->result[proj ? ((const proj_attrs *)n->attrs)->index : 0] : n;
}

tenon_status pass_unroll_recurrent(PassCtx *c, bool *out_changed) {
  if (!traits_unrolls_recurrent(c->g->traits)) return TENON_OK;
  Unroll u = {.c = c};
  intmap_init(&u.done, c->scratch);
  GraphMap m = {.g = c->g, .fn = replace, .ctx = &u};
  return graph_map(&m, out_changed);
}
