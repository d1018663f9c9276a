// rnn_block.c -- template rnn_block: a whole LSTM, GRU or RNN layer in one kernel, a thread block
// for each sequence and direction.
//
// Steps follow one another inside the block, so a step costs two barriers and no launch.  The input
// GEMM is done for some steps at once, into shared memory.  In a step every thread has a part of
// one or several sums of the recurrent product: part p of P takes four adjacent units of the state
// at a time, every P-th of them.  Where all recurrent weights fit the registers of the block they
// are read once; else they come from the L2 cache in each step.  One thread per unit adds up the
// parts and computes the gates.
//
// Needs:      LowerTarget.block_threads; recurrent_match takes the layer.  Steps, batch and
// sequence
//             lengths may be dynamic.
// Guarantees: sums and states in f32 (f64 for f64).  `parts` alone changes the order of a sum.
//             Steps beyond a sequence's length give 0.
#include "lower/cpu/rnn.h"
#include "lower/gpu/thread_loops.h"

enum {
  WORD = 4,
  WARP = 32,
  THREADS_MOST = 1024,
  PARTS_MOST = 8,
  REGISTERS_MOST = 40,
  STEPS = 16,
  TILE = 4
};

#define RNN_BLOCK_SCHEDULE(I, B, C, T)                                                             \
  I(T, threads, 0, 2, 1024, 0, FREE, "threads of a block")                                         \
  I(T, parts, 0, 1, 32, 0, ORDER, "threads of a sum of the recurrent product")                     \
  I(T, steps, 0, 1, 64, 1, FREE, "time steps per input GEMM")                                      \
  B(T, resident, false, FREE, "recurrent weights stay in registers")
SCHEDULE_STRUCT(RnnBlock, RNN_BLOCK_SCHEDULE);
SCHEDULE_TABLE(RnnBlock, RNN_BLOCK_SCHEDULE);

typedef struct BlockLayer {
  Recurrent *c;
  int64_t threads, parts, steps, rounds;  // rounds: of a thread over the units
  int64_t padded_in, padded_h;            // rows of x and of the state, with zeros behind
  int64_t held;                           // weights that a thread keeps; 0: none
  Dim thread;
  int32_t part, weights, acc;
} BlockLayer;

static Dim num(BlockLayer *g, int64_t v) { return ie_const(g->c->e.pool, v); }
static Dim add(BlockLayer *g, Dim x, Dim y) { return ie_add(g->c->e.pool, x, y); }
static Dim scaled(BlockLayer *g, Dim x, int64_t by) { return ie_mulc(g->c->e.pool, x, by); }
static int64_t up_to(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static int64_t rounds_of(int64_t n, int64_t each) { return (n + each - 1) / each; }
static int64_t columns(const BlockLayer *g) { return g->c->gates * g->c->hidden; }

static const LoopExpr *zero(BlockLayer *g) { return loop_float(g->c->e.k, g->c->t, 0); }
static const LoopExpr *load(BlockLayer *g, int32_t buffer, Dim at) {
  return loop_load(g->c->e.k, buffer, at);
}

// Opens a loop over `n` places, shared among the threads: the place.  *round: which of the
// thread's. Where a thread has several the place is a symbol, from which the verifier reads off the
// thread.
static Dim open_places(BlockLayer *g, LoopKind kind, Dim n, Dim *round, int *depth) {
  ElementBuilder *e = &g->c->e;
  IntPool *p = e->pool;
  elem_forget(e);
  g->thread = loop_for(&e->b, LOOP_THREAD, "t", num(g, g->threads));
  *depth = 1;
  *round = p->zero;
  if (ie_is_const(n) && n->value <= g->threads) return thread_guard(e, g->thread, n, depth);
  *round = loop_for(&e->b, kind, "round", ie_ceildiv(p, n, num(g, g->threads)));
  *depth = 3;
  return loop_where(&e->b, "in", add(g, scaled(g, *round, g->threads), g->thread), n);
}

static void close_places(BlockLayer *g, int depth) {
  thread_close(&g->c->e, depth);
  elem_forget(&g->c->e);
}

// ---- states ----

// A state or its padding from an operand; without one it is 0.
static bool copy_state(BlockLayer *g, const Node *from, int32_t to, int64_t size) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  int depth;
  Dim round, unit = open_places(g, LOOP_SERIAL, num(g, size), &round, &depth);
  const LoopExpr *x = zero(g);
  if (from) {
    int had = e->nguards;
    Dim inside = elem_guard(e, unit, num(g, c->hidden));
    Dim at[3] = {c->batch_first ? c->b : c->dir, c->batch_first ? c->dir : c->b, inside};
    x = recurrent_element(c, from, at);
    if (x) x = elem_guarded(e, had, x, zero(g));
    elem_unguard(e, had);
    if (!x) return false;
  }
  loop_store(&e->b, to, unit, x);
  close_places(g, depth);
  return true;
}

// An element of result `which`, for a unit.
static bool store_unit(BlockLayer *g, int which, Dim time, Dim unit, const LoopExpr *x) {
  Recurrent *c = g->c;
  Dim state[3] = {c->batch_first ? c->b : c->dir, c->batch_first ? c->dir : c->b, unit};
  Dim first[4] = {c->b, time, c->dir, unit}, plain[4] = {time, c->dir, c->b, unit};
  return recurrent_store(c, which, x, which ? state : c->batch_first ? first : plain);
}

static bool store_state(BlockLayer *g, int which, int32_t from) {
  int depth;
  if (!epilogue_value(&g->c->walk, which)) return true;
  Dim round, unit = open_places(g, LOOP_SERIAL, num(g, g->c->hidden), &round, &depth);
  if (!store_unit(g, which, NULL, unit, load(g, from, unit))) return false;
  close_places(g, depth);
  return true;
}

// Rows of the first result that lie beyond the sequence.
static bool store_rest(BlockLayer *g) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  int depth;
  if (!c->lens || !epilogue_value(&c->walk, 0)) return true;
  Dim s = loop_for(&e->b, LOOP_SERIAL, "s", ie_sub(e->pool, c->time, c->len));
  Dim round, unit = open_places(g, LOOP_SERIAL, num(g, c->hidden), &round, &depth);
  if (!store_unit(g, 0, add(g, c->len, s), unit, zero(g))) return false;
  close_places(g, depth);
  loop_end(&e->b);
  return true;
}

// ---- input GEMM ----

// [direction][k / 4][column][4] of w, and of r with k / 4 of each part together:
// [direction][k / (4 parts)][column][part][4].
static PackSpec packed(const BlockLayer *g, int64_t depth, int64_t parts) {
  const Recurrent *c = g->c;
  int64_t h = c->hidden, cols = c->gates * h;
  PackSpec s = {.nloops = 5, .ncoords = 3};
  const int64_t extent[] = {c->ndirs, rounds_of(depth, WORD * parts), cols, parts, WORD};
  memcpy(s.extent, extent, sizeof extent);
  s.limit[0] = c->ndirs, s.stride[0] = cols * depth, s.coef[0][0] = 1;
  s.limit[1] = cols, s.stride[1] = depth, s.coef[1][2] = 1;
  s.limit[2] = depth, s.stride[2] = 1;
  s.coef[2][1] = WORD * parts, s.coef[2][3] = WORD, s.coef[2][4] = 1;
  return s;
}

// Element `k` of a column of a weight: `word` of its packed form holds it, or a guard does.
static const LoopExpr *weight_at(BlockLayer *g, const Node *w, int32_t buffer, int64_t depth,
                                 Dim col, Dim k, Dim place) {
  Recurrent *c = g->c;
  if (buffer >= 0) return loop_cast(c->e.k, c->t, load(g, buffer, place));
  int had = c->e.nguards;
  Dim at[3] = {c->dir, col, elem_guard(&c->e, k, num(g, depth))};
  const LoopExpr *x = recurrent_element(c, w, at);
  if (x) x = elem_guarded(&c->e, had, x, zero(g));
  elem_unguard(&c->e, had);
  return x;
}

// The chunk's rows of x, with zeros behind.
static bool copy_inputs(BlockLayer *g, Dim first, Dim count) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  int depth;
  Dim width = num(g, g->padded_in), round;
  Dim at = open_places(g, LOOP_SERIAL, num(g, g->steps * g->padded_in), &round, &depth);
  loop_store(&e->b, c->inputs, at, zero(g));
  Dim s = thread_guard(e, ie_div(p, at, width), count, &depth);
  Dim k = thread_guard(e, ie_mod(p, at, width), num(g, c->input), &depth);
  elem_forget(e);
  Dim time = recurrent_time(c, add(g, first, s));
  Dim index[3] = {c->batch_first ? c->b : time, c->batch_first ? time : c->b, k};
  const LoopExpr *x = recurrent_element(c, c->x, index);
  if (!x) return false;
  loop_store(&e->b, c->inputs, at, x);
  close_places(g, depth);
  return true;
}

// What a column's sums begin with: its biases; of a late reset's hidden gate the input's alone.
static const LoopExpr *begin_sum(BlockLayer *g, Dim col) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  if (!c->bias) return zero(g);
  const LoopExpr *x = recurrent_bias(c, 0, col, false), *r;
  int had = e->nguards;
  if (c->late_reset) col = elem_guard(e, col, num(g, 2 * c->hidden));
  r = recurrent_bias(c, 0, col, true);
  if (r) r = elem_guarded(e, had, r, zero(g));
  elem_unguard(e, had);
  return x && r ? loop_op(e->k, LOOP_add, x, r, NULL) : NULL;
}

// The sums of TILE steps by one column, which a thread has.
static bool input_tile(BlockLayer *g, Dim col, Dim step) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  Dim acc = scaled(g, g->thread, TILE);
  const LoopExpr *x = begin_sum(g, col);
  if (!x) return false;
  x = loop_let(&e->b, x);
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(g, TILE));
  loop_store(&e->b, g->acc, add(g, acc, r), x);
  loop_end(&e->b);
  elem_forget(e);
  int64_t words = g->padded_in / WORD;
  Dim q = loop_for(&e->b, LOOP_SERIAL, "q", num(g, words));
  r = loop_for(&e->b, LOOP_UNROLL, "r", num(g, TILE));
  Dim u = loop_for(&e->b, LOOP_UNROLL, "u", num(g, WORD)), k = add(g, scaled(g, q, WORD), u);
  Dim place = add(g, scaled(g, c->dir, words), q);
  place = add(g, scaled(g, add(g, scaled(g, place, columns(g)), col), WORD), u);
  const LoopExpr *w = weight_at(g, c->w, c->w_packed, c->input, col, k, place);
  if (!w) return false;
  x = load(g, c->inputs, add(g, scaled(g, add(g, step, r), g->padded_in), k));
  Dim at = add(g, acc, r);
  loop_store(&e->b, g->acc, at, loop_op(e->k, LOOP_fma, x, w, load(g, g->acc, at)));
  for (int i = 0; i < 3; i++) loop_end(&e->b);
  elem_forget(e);
  r = loop_for(&e->b, LOOP_UNROLL, "r", num(g, TILE));
  loop_store(&e->b, c->g, add(g, scaled(g, add(g, step, r), columns(g)), col),
             load(g, g->acc, add(g, acc, r)));
  loop_end(&e->b);
  return true;
}

static bool input_products(BlockLayer *g, Dim count) {
  IntPool *p = g->c->e.pool;
  Dim tiles = ie_ceildiv(p, count, num(g, TILE)), cols = num(g, columns(g));
  int depth;
  Dim round, at = open_places(g, LOOP_SERIAL, ie_mul(p, tiles, cols), &round, &depth);
  if (!input_tile(g, ie_mod(p, at, cols), scaled(g, ie_div(p, at, cols), TILE))) return false;
  close_places(g, depth);
  return true;
}

// ---- one step ----

static int64_t parts_of(const BlockLayer *g, int set) {
  return g->c->set[set].count * g->c->hidden * g->parts;
}

// Where the thread keeps its weights of a set: behind those of the sets before.
static int64_t first_held(const BlockLayer *g, int set) {
  int64_t n = 0;
  for (int i = 0; i < set; i++)
    n += rounds_of(parts_of(g, i), g->threads) * (g->padded_h / g->parts);
  return n;
}

static Dim held_at(BlockLayer *g, int set, Dim round, Dim word, Dim u) {
  Dim at = add(g, scaled(g, round, g->padded_h / g->parts), add(g, scaled(g, word, WORD), u));
  return add(g, scaled(g, g->thread, g->held), ie_addc(g->c->e.pool, at, first_held(g, set)));
}

// Unit u of word `word` of a part, and the weight that it meets.
static const LoopExpr *recurrent_weight(BlockLayer *g, int set, Dim slot, Dim word, Dim u, Dim *k) {
  Recurrent *c = g->c;
  IntPool *p = c->e.pool;
  Dim parts = num(g, g->parts), part = ie_mod(p, slot, parts);
  Dim col = ie_addc(p, ie_div(p, slot, parts), c->set[set].first * c->hidden);
  *k = add(g, scaled(g, add(g, scaled(g, word, g->parts), part), WORD), u);
  int64_t words = g->padded_h / (WORD * g->parts);
  Dim place = add(g, scaled(g, c->dir, words), word);
  place = add(g, scaled(g, add(g, scaled(g, place, columns(g)), col), g->parts), part);
  return weight_at(g, c->r, c->r_packed, c->hidden, col, *k, add(g, scaled(g, place, WORD), u));
}

// Reads the recurrent weights into registers.
static bool hold_weights(BlockLayer *g) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  for (int set = 0; g->held && set < c->nsets; set++) {
    int depth;
    Dim round, slot = open_places(g, LOOP_UNROLL, num(g, parts_of(g, set)), &round, &depth), k;
    Dim word = loop_for(&e->b, LOOP_UNROLL, "w", num(g, g->padded_h / (WORD * g->parts)));
    Dim u = loop_for(&e->b, LOOP_UNROLL, "u", num(g, WORD));
    elem_forget(e);
    const LoopExpr *w = recurrent_weight(g, set, slot, word, u, &k);
    if (!w) return false;
    loop_store(&e->b, g->weights, held_at(g, set, round, word, u), w);
    close_places(g, depth + 2);
  }
  return true;
}

// What the thread adds to the sums of a set.
static bool form_parts(BlockLayer *g, int set) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  LoopKind kind = g->held ? LOOP_UNROLL : LOOP_SERIAL;
  int depth;
  Dim round, slot = open_places(g, kind, num(g, parts_of(g, set)), &round, &depth), k;
  Dim acc = scaled(g, g->thread, TILE);
  loop_store(&e->b, g->acc, acc, zero(g));
  Dim word = loop_for(&e->b, kind, "w", num(g, g->padded_h / (WORD * g->parts)));
  Dim u = loop_for(&e->b, LOOP_UNROLL, "u", num(g, WORD));
  elem_forget(e);
  const LoopExpr *w = recurrent_weight(g, set, slot, word, u, &k);
  if (!w) return false;
  if (g->held) w = load(g, g->weights, held_at(g, set, round, word, u));
  const LoopExpr *x = load(g, c->set[set].state, k);
  loop_store(&e->b, g->acc, acc, loop_op(e->k, LOOP_fma, x, w, load(g, g->acc, acc)));
  loop_end(&e->b);
  loop_end(&e->b);
  Dim parts = num(g, g->parts), col = ie_div(e->pool, slot, parts);
  Dim to = add(g, scaled(g, ie_mod(e->pool, slot, parts), columns(g)), col);
  loop_store(&e->b, g->part, to, load(g, g->acc, acc));
  close_places(g, depth);
  return true;
}

// The thread's units: the sums of a set's gates, then the gates themselves.
static bool finish_set(BlockLayer *g, int nth, Dim step, Dim time) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  const GateSet *set = &c->set[nth];
  int depth;
  Dim round, unit = open_places(g, LOOP_SERIAL, num(g, c->hidden), &round, &depth);
  c->sums_at = scaled(g, g->thread, TILE);
  for (int i = 0; i < set->count; i++) {
    int gate = set->first + i;
    Dim at = add(g, scaled(g, step, columns(g)), ie_addc(p, unit, gate * c->hidden));
    const LoopExpr *x = load(g, c->g, at);
    if (c->late_reset && gate == 2) {
      loop_store(&e->b, c->held, unit, x);
      x = c->bias ? recurrent_bias(c, gate, unit, true) : zero(g);
      if (!x) return false;
    }
    x = loop_let(&e->b, x);
    Dim q = loop_reduce(&e->b, LOOP_add, "q", num(g, g->parts), 1);
    Dim from = add(g, scaled(g, q, columns(g)), ie_addc(p, unit, i * c->hidden));
    const LoopExpr *sum = loop_yield(&e->b, load(g, g->part, from));
    loop_store(&e->b, c->sums, ie_addc(p, c->sums_at, i), loop_op(e->k, LOOP_add, x, sum, NULL));
  }
  elem_forget(e);
  if (!recurrent_cell(c, set, unit, p->zero)) return false;
  elem_forget(e);
  if (nth + 1 == c->nsets && !store_unit(g, 0, time, unit, load(g, c->h, unit))) return false;
  close_places(g, depth);
  return true;
}

// ---- the item ----

static bool chunk(BlockLayer *g, Dim first, Dim count) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  if (!copy_inputs(g, first, count) || !input_products(g, count)) return false;
  Dim s = loop_for(&e->b, LOOP_SERIAL, "s", count), time = recurrent_time(c, add(g, first, s));
  for (int i = 0; i < c->nsets; i++)
    if (!form_parts(g, i) || !finish_set(g, i, s, time)) return false;
  loop_end(&e->b);
  return true;
}

// One way through the sequence.
static bool pass(BlockLayer *g, int nth, bool backwards) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  c->nth = nth;
  c->way = backwards;
  if (!hold_weights(g) || !copy_state(g, c->h0, c->h, g->padded_h)) return false;
  if (c->cell == CELL_LSTM && !copy_state(g, c->c0, c->c, c->hidden)) return false;
  if (c->nsets > 1 && !copy_state(g, NULL, c->held, g->padded_h)) return false;
  Dim n = num(g, g->steps), chunks = ie_ceildiv(p, c->len, n), first = p->zero;
  if (!ie_is(chunks, 1)) first = ie_mul(p, loop_for(&e->b, LOOP_SERIAL, "chunk", chunks), n);
  if (!chunk(g, first, ie_min(p, n, ie_sub(p, c->len, first)))) return false;
  if (!ie_is(chunks, 1)) loop_end(&e->b);
  return store_rest(g) && store_state(g, 1, c->h) &&
         (c->cell != CELL_LSTM || store_state(g, 2, c->c));
}

static bool emit(BlockLayer *g) {
  Recurrent *c = g->c;
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  Dim items = ie_mulc(p, c->batch, c->ndirs), dirs = num(g, c->ndirs);
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) item = p->zero;
  c->dir = ie_mod(p, item, dirs);
  c->b = ie_div(p, item, dirs);
  c->state_at = p->zero;
  if (!recurrent_length(c)) return false;
  if (c->ndirs == 1) {
    if (!pass(g, 0, c->reverse)) return false;
  } else {
    const LoopExpr *dir = loop_index(e->k, c->dir);
    loop_if(&e->b, loop_op(e->k, LOOP_eq, dir, loop_int(e->k, DT_I64, 0), NULL));
    if (!pass(g, 0, false)) return false;
    loop_else(&e->b);
    if (!pass(g, 1, true)) return false;
    loop_end(&e->b);
  }
  loop_end(&e->b);
  return true;
}

// ---- the template ----

static void *rnn_block_match(Lowering *lo, const Node *fused) {
  Recurrent *c = recurrent_match(lo, fused);
  if (!c) return NULL;
  BlockLayer *g = arena_new(lo->arena, BlockLayer);
  g->c = c;
  return g;
}

static void take(BlockLayer *g, const RnnBlockSchedule *s) {
  const Recurrent *c = g->c;
  g->threads = s->threads;
  g->parts = s->parts;
  g->steps = up_to(s->steps, TILE);
  g->padded_in = up_to(c->input, WORD);
  g->padded_h = up_to(c->hidden, WORD * s->parts);
  g->held = 0;
  int64_t held = first_held(g, c->nsets);
  if (s->resident) g->held = held;
}

// Weights that a thread would keep.
static int64_t weights_held(const BlockLayer *g, const RnnBlockSchedule *s) {
  BlockLayer with = *g;
  RnnBlockSchedule resident = *s;
  resident.resident = true;
  take(&with, &resident);
  return with.held;
}

static int64_t shared_bytes(const BlockLayer *g, const RnnBlockSchedule *s) {
  BlockLayer with = *g;
  take(&with, s);
  int64_t sums = columns(g) * s->parts, states = 3 * with.padded_h + g->c->hidden;
  int64_t n = with.steps * (with.padded_in + columns(g)) + sums + states;
  return n * elem_bytes(g->c->t) + 8 * 64;  // each buffer begins at a line
}

static bool rnn_block_legal(const void *match, const LowerTarget *t, const void *fields,
                            const char **why) {
  const RnnBlockSchedule *s = fields;
  const BlockLayer *g = match;
  *why = shared_bytes(g, s) > t->shared_bytes ? "its sums and states do not fit in shared memory"
         : s->resident && weights_held(g, s) > REGISTERS_MOST
             ? "the recurrent weights do not fit in registers"
             : NULL;
  return !*why;
}

// As many threads as there are parts to do, four units of the state each at least.  Weights stay in
// registers where they fit; shared memory says how many steps are multiplied at once.
static bool rnn_block_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                             void *fields) {
  const BlockLayer *g = match;
  const Recurrent *c = g->c;
  RnnBlockSchedule *s = fields;
  int64_t most = t->has_shuffle ? THREADS_MOST : t->block_threads, cols = columns(g);
  const char *why;
  s->parts = 1;
  while (s->parts < PARTS_MOST && 2 * s->parts * cols <= most && 2 * s->parts * WORD <= c->hidden)
    s->parts *= 2;
  schedule_keep(given, s);
  s->threads = power_of_two(MAX(cols * s->parts, WARP), most);
  s->steps = STEPS;
  if (ie_is_const(c->time)) s->steps = MIN(STEPS, up_to(c->time->value, TILE));
  schedule_keep(given, s);
  s->resident = weights_held(g, s) <= REGISTERS_MOST;
  schedule_keep(given, s);
  while (s->steps > TILE && !rnn_block_legal(match, t, s, &why)) s->steps -= TILE;
  return rnn_block_legal(match, t, s, &why);
}

static int32_t buffer(BlockLayer *g, LoopSpace space, const char *name, int64_t n) {
  return loop_buffer(g->c->e.k, space, name, g->c->t, num(g, n), false);
}

static void make_buffers(BlockLayer *g) {
  Recurrent *c = g->c;
  c->inputs = buffer(g, LOOP_SHARED, "x", g->steps * g->padded_in);
  c->g = buffer(g, LOOP_SHARED, "g", g->steps * columns(g));
  g->part = buffer(g, LOOP_SHARED, "part", columns(g) * g->parts);
  c->h = c->next = buffer(g, LOOP_SHARED, "h", g->padded_h);
  if (c->cell == CELL_LSTM) c->c = buffer(g, LOOP_SHARED, "c", c->hidden);
  if (c->cell == CELL_GRU) {
    c->held = buffer(g, LOOP_SHARED, "held", g->padded_h);
    c->update = buffer(g, LOOP_SHARED, "update", c->hidden);
  }
  g->acc = buffer(g, LOOP_REGISTER, "acc", g->threads * TILE);
  c->sums = c->tile = g->acc;
  if (g->held) g->weights = buffer(g, LOOP_REGISTER, "weights", g->threads * g->held);
  c->set[0].state = c->h;
  c->set[1].state = c->held;
  c->group = 1;  // sums of a unit lie together
  c->ragged = false;
}

static bool pack(BlockLayer *g) {
  Recurrent *c = g->c;
  const Node *w = recurrent_constant(c, c->w), *r = recurrent_constant(c, c->r);
  PackSpec in = packed(g, c->input, 1), state = packed(g, c->hidden, g->parts);
  c->w_packed = w ? elem_packed(&c->e, w, &in, "w") : -1;
  if (w && c->w_packed < 0) return false;
  c->r_packed = r ? elem_packed(&c->e, r, &state, "r") : -1;
  return !r || c->r_packed >= 0;
}

static bool rnn_block_build(void *match, const void *fields, Lowered *out) {
  BlockLayer *g = match;
  take(g, fields);
  if (!pack(g)) return false;
  make_buffers(g);
  recurrent_give_results(g->c);
  if (!emit(g)) return false;
  elem_finish(&g->c->e, out);
  return true;
}

const TemplateCode template_rnn_block = {.match = rnn_block_match,
                                         .choose = rnn_block_choose,
                                         .legal = rnn_block_legal,
                                         .build = rnn_block_build,
                                         SCHEDULE(RnnBlock)};
