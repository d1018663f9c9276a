// rnn_loops.c -- the loops of template rnn (rnn.h).
//
// Forward and backward are two loop nests.  So the step of x that an iteration reads is a plain
// index, which the verifier can prove and the code generator can stride.
//
// Needs:      rnn.c has read the layer, taken the schedule, packed weights and declared buffers.
// Guarantees: false where an operand has no expression.  A partial last tile of steps computes rows
//             that are never read.  A sequence length from data is checked before its use.
#include "lower/cpu/rnn.h"

enum { UNROLL = 4 };

static Dim num(Recurrent *c, int64_t v) { return ie_const(c->e.pool, v); }
static Dim add(Recurrent *c, Dim x, Dim y) { return ie_add(c->e.pool, x, y); }
static Dim row_of(Recurrent *c, Dim row, int64_t width, Dim col) {
  return add(c, ie_mulc(c->e.pool, row, width), col);
}
static const LoopExpr *real(Recurrent *c, double v) { return loop_float(c->e.k, c->t, v); }
static const LoopExpr *cell(Recurrent *c, int32_t buffer, Dim at) {
  return loop_load(c->e.k, buffer, at);
}

// A loop that is not written where it runs once.
static Dim open_loop(Recurrent *c, LoopKind kind, const char *name, Dim extent, int *depth) {
  if (ie_is(extent, 1)) return c->e.pool->zero;
  ++*depth;
  return loop_for(&c->e.b, kind, name, extent);
}
static void close_loops(Recurrent *c, int depth) {
  while (depth-- > 0) loop_end(&c->e.b);
  elem_forget(&c->e);
}

const LoopExpr *recurrent_element(Recurrent *c, const Node *n, const Dim *at) {
  const LoopExpr *x = elem_at(&c->e, n, at);
  return x ? loop_cast(c->e.k, c->t, x) : NULL;
}

// Unit `unit` of gate `gate`, among the rows of a weight; past the last unit nothing is read.
static Dim gate_row(Recurrent *c, int64_t gate, Dim unit) {
  if (c->ragged) unit = elem_guard(&c->e, unit, num(c, c->hidden));
  return ie_addc(c->e.pool, unit, gate * c->hidden);
}

// A loop over the sequences of the item; gives the one at hand, and sets where its states are.
static Dim open_sequences(Recurrent *c, LoopKind kind, int *depth) {
  Dim q = open_loop(c, kind, "q", num(c, c->seqs), depth);
  c->state_at = ie_mulc(c->e.pool, q, c->ngroups * c->group);
  return q;
}

// ---- biases ----

const LoopExpr *recurrent_bias(Recurrent *c, int64_t gate, Dim unit, bool recurrent) {
  Dim at[2] = {c->dir, gate_row(c, gate, unit)};
  if (recurrent) at[1] = ie_addc(c->e.pool, at[1], c->gates * c->hidden);
  const LoopExpr *x = recurrent_element(c, c->bias, at);
  elem_unguard(&c->e, 0);
  return x;
}

static bool copy_biases(Recurrent *c) {
  ElementBuilder *e = &c->e;
  for (int gate = 0; gate < c->gates; gate++) {
    int depth = 0;
    bool late = c->late_reset && gate == 2;
    Dim g = open_loop(c, LOOP_SERIAL, "group", num(c, c->ngroups), &depth);
    Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, c->group), &depth);
    Dim unit = row_of(c, g, c->group, u);
    Dim at = row_of(c, ie_addc(e->pool, ie_mulc(e->pool, g, c->gates), gate), c->group, u);
    const LoopExpr *x = real(c, 0), *r = x;
    elem_forget(e);
    if (c->bias) {
      x = recurrent_bias(c, gate, unit, false);
      r = recurrent_bias(c, gate, unit, true);
      if (!x || !r) return false;
      if (!late) x = loop_op(e->k, LOOP_add, x, r, NULL);
    }
    loop_store(&e->b, c->biases, at, x);
    if (late) loop_store(&e->b, c->late_bias, unit, r);
    close_loops(c, depth);
  }
  return true;
}

// ---- states ----

static bool copy_state(Recurrent *c, const Node *from, int32_t to) {
  ElementBuilder *e = &c->e;
  int depth = 0;
  Dim b = add(c, c->b, open_sequences(c, LOOP_SERIAL, &depth));
  Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, c->ngroups * c->group), &depth), unit = u;
  const LoopExpr *x = real(c, 0);
  elem_forget(e);
  if (from) {
    if (c->ragged) unit = elem_guard(e, u, num(c, c->hidden));
    Dim at[3] = {c->batch_first ? b : c->dir, c->batch_first ? c->dir : b, unit};
    x = recurrent_element(c, from, at);
    elem_unguard(e, 0);
    if (!x) return false;
  }
  loop_store(&e->b, to, add(c, c->state_at, u), x);
  close_loops(c, depth);
  return true;
}

bool recurrent_store(Recurrent *c, int which, const LoopExpr *x, const Dim *at) {
  c->walk.own = epilogue_value(&c->walk, which);
  if (!c->walk.own) return true;
  elem_forget(&c->e);
  c->value[which] = loop_let(&c->e.b, loop_cast(c->e.k, type_of(c->walk.own)->dtype, x));
  bool ok = epilogue_store(&c->walk, at);
  elem_forget(&c->e);
  return ok;
}

// The last state, as results 1 and 2.
static bool store_state(Recurrent *c, int which, int32_t from) {
  int depth = 0;
  if (!epilogue_value(&c->walk, which)) return true;
  Dim b = add(c, c->b, open_sequences(c, LOOP_SERIAL, &depth));
  Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, c->hidden), &depth);
  Dim at[3] = {c->batch_first ? b : c->dir, c->batch_first ? c->dir : b, u};
  bool ok = recurrent_store(c, which, cell(c, from, add(c, c->state_at, u)), at);
  close_loops(c, depth);
  return ok;
}

// Row `time` of the first result: what `from` holds, or 0.
static bool store_step(Recurrent *c, Dim time, int32_t from) {
  int depth = 0;
  if (!epilogue_value(&c->walk, 0)) return true;
  Dim b = add(c, c->b, open_sequences(c, LOOP_SERIAL, &depth));
  Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, c->hidden), &depth);
  Dim first[4] = {b, time, c->dir, u}, plain[4] = {time, c->dir, b, u};
  const LoopExpr *x = from < 0 ? real(c, 0) : cell(c, from, add(c, c->state_at, u));
  bool ok = recurrent_store(c, 0, x, c->batch_first ? first : plain);
  close_loops(c, depth);
  return ok;
}

// ---- input products ----

typedef struct Steps {
  Dim count;  // of the chunk, each for all sequences
  Dim at;     // tile: its first row in the chunk
  int64_t rows;
  Dim group, part;
  int gate;
} Steps;

Dim recurrent_time(Recurrent *c, Dim s) {
  return c->way ? ie_addc(c->e.pool, ie_sub(c->e.pool, c->len, s), -1) : s;
}

// The chunk's rows of x into scratch, where they are contiguous.
static bool copy_inputs(Recurrent *c, Dim first, Dim count) {
  ElementBuilder *e = &c->e;
  int depth = 0;
  Dim s = open_loop(c, LOOP_SERIAL, "s", count, &depth), time = recurrent_time(c, add(c, first, s));
  Dim q = open_sequences(c, LOOP_SERIAL, &depth), b = add(c, c->b, q);
  Dim k = open_loop(c, LOOP_VECTOR, "k", num(c, c->input), &depth);
  Dim at[3] = {c->batch_first ? b : time, c->batch_first ? time : b, k};
  elem_forget(e);
  const LoopExpr *x = recurrent_element(c, c->x, at);
  if (!x) return false;
  loop_store(&e->b, c->inputs, row_of(c, row_of(c, s, c->seqs, q), c->input, k), x);
  close_loops(c, depth);
  return true;
}

static const LoopExpr *weight_at(Recurrent *c, const Steps *t, Dim k, Dim v) {
  IntPool *p = c->e.pool;
  Dim unit = row_of(c, t->group, c->group, row_of(c, t->part, c->width, v));
  if (c->w_packed >= 0) {
    Dim i = row_of(c, c->dir, c->ngroups, t->group);
    i = ie_addc(p, ie_mulc(p, i, c->gates), t->gate);
    i = row_of(c, row_of(c, i, c->group / c->width, t->part), c->input, k);
    return loop_cast(c->e.k, c->t, cell(c, c->w_packed, row_of(c, i, c->width, v)));
  }
  Dim at[3] = {c->dir, gate_row(c, t->gate, unit), k};
  const LoopExpr *x = recurrent_element(c, c->w, at);
  elem_unguard(&c->e, 0);
  return x;
}

static bool input_tile(Recurrent *c, const Steps *t) {
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  int64_t u = UNROLL;
  int depth = 0, inner = 0;
  Dim r = open_loop(c, LOOP_UNROLL, "r", num(c, t->rows), &depth);
  Dim v = open_loop(c, LOOP_VECTOR, "v", num(c, c->width), &depth);
  loop_store(&e->b, c->tile, row_of(c, r, c->width, v), real(c, 0));
  close_loops(c, depth);
  while (c->input % u) u /= 2;
  Dim k = ie_mulc(p, open_loop(c, LOOP_SERIAL, "k", num(c, c->input / u), &inner), u);
  k = add(c, k, open_loop(c, LOOP_UNROLL, "u", num(c, u), &inner));
  r = open_loop(c, LOOP_UNROLL, "r", num(c, t->rows), &inner);
  v = open_loop(c, LOOP_VECTOR, "v", num(c, c->width), &inner);
  elem_forget(e);
  const LoopExpr *x = cell(c, c->inputs, row_of(c, add(c, t->at, r), c->input, k));
  const LoopExpr *w = weight_at(c, t, k, v);
  Dim at = row_of(c, r, c->width, v);
  if (!w) return false;
  loop_store(&e->b, c->tile, at, loop_op(e->k, LOOP_fma, x, w, cell(c, c->tile, at)));
  close_loops(c, inner);
  depth = 0;
  r = open_loop(c, LOOP_UNROLL, "r", num(c, t->rows), &depth);
  v = open_loop(c, LOOP_VECTOR, "v", num(c, c->width), &depth);
  Dim col = ie_addc(p, ie_mulc(p, t->group, c->gates), t->gate);
  col = row_of(c, col, c->group, row_of(c, t->part, c->width, v));
  Dim to = row_of(c, add(c, t->at, r), c->ngroups * c->gates * c->group, col);
  x = loop_op(e->k, LOOP_add, cell(c, c->tile, row_of(c, r, c->width, v)), cell(c, c->biases, col),
              NULL);
  loop_store(&e->b, c->g, to, x);
  close_loops(c, depth);
  return true;
}

// All steps of the chunk, for one panel of the weights.
static bool input_panel(Recurrent *c, Steps t) {
  IntPool *p = c->e.pool;
  Dim tiles = ie_div(p, t.count, num(c, c->rows)), done = ie_mulc(p, tiles, c->rows);
  int depth = 0;
  if (!ie_is(tiles, 0)) {
    t.at = ie_mulc(p, open_loop(c, LOOP_SERIAL, "t", tiles, &depth), c->rows);
    t.rows = c->rows;
    if (!input_tile(c, &t)) return false;
    close_loops(c, depth);
  }
  t.at = done;
  if (ie_is_const(t.count)) {
    t.rows = t.count->value % c->rows;
    return !t.rows || input_tile(c, &t);
  }
  depth = 0;
  t.rows = c->rows;  // what lies beyond the last step is never read
  open_loop(c, LOOP_SERIAL, "rest", ie_min(p, p->one, ie_sub(p, t.count, done)), &depth);
  if (!input_tile(c, &t)) return false;
  close_loops(c, depth);
  return true;
}

static bool input_products(Recurrent *c, Dim count) {
  count = ie_mulc(c->e.pool, count, c->seqs);
  for (int gate = 0; gate < c->gates; gate++) {
    int depth = 0;
    Steps t = {.count = count, .gate = gate};
    t.group = open_loop(c, LOOP_SERIAL, "group", num(c, c->ngroups), &depth);
    t.part = open_loop(c, LOOP_SERIAL, "part", num(c, c->group / c->width), &depth);
    if (!input_panel(c, t)) return false;
    close_loops(c, depth);
  }
  return true;
}

// ---- one step ----

static const LoopExpr *recurrent_at(Recurrent *c, int64_t gate, Dim group, Dim k, Dim u) {
  IntPool *p = c->e.pool;
  if (c->r_packed < 0) {
    Dim at[3] = {c->dir, gate_row(c, gate, row_of(c, group, c->group, u)), k};
    const LoopExpr *x = recurrent_element(c, c->r, at);
    elem_unguard(&c->e, 0);
    return x;
  }
  Dim i = row_of(c, c->dir, c->ngroups, group);
  if (c->nsets == 1)
    i = ie_addc(p, ie_mulc(p, row_of(c, i, c->hidden, k), c->gates), gate);
  else
    i = row_of(c, ie_addc(p, ie_mulc(p, i, c->gates), gate), c->hidden, k);
  return loop_cast(c->e.k, c->t, cell(c, c->r_packed, row_of(c, i, c->group, u)));
}

// Where a sequence has its sums in the tile.
static Dim sums_of(Recurrent *c, Dim q) { return ie_mulc(c->e.pool, q, c->gates * c->group); }

// What the sums of a gate begin with: the input's product.  That of a late reset is kept for after
// it.
static void begin_sums(Recurrent *c, const GateSet *set, Dim step, Dim group, int64_t width) {
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  for (int i = 0; i < set->count; i++) {
    int depth = 0, gate = set->first + i;
    Dim q = open_sequences(c, LOOP_UNROLL, &depth);
    Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, width), &depth);
    Dim col = ie_addc(p, ie_mulc(p, group, c->gates), gate), unit = row_of(c, group, c->group, u);
    col = row_of(c, col, c->group, u);
    Dim row = row_of(c, step, c->seqs, q);
    const LoopExpr *x = cell(c, c->g, row_of(c, row, c->ngroups * c->gates * c->group, col));
    if (c->late_reset && gate == 2) {
      loop_store(&e->b, c->held, add(c, c->state_at, unit), x);
      x = cell(c, c->late_bias, unit);
    }
    loop_store(&e->b, c->tile, add(c, sums_of(c, q), ie_addc(p, u, i * c->group)), x);
    close_loops(c, depth);
  }
}

// From registers to scratch, where a loop over the sequences can read them.
static void store_sums(Recurrent *c, const GateSet *set, int64_t width) {
  for (int i = 0; i < set->count && c->seqs > 1; i++) {
    int depth = 0;
    Dim q = open_sequences(c, LOOP_UNROLL, &depth);
    Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, width), &depth);
    Dim at = add(c, sums_of(c, q), ie_addc(c->e.pool, u, i * c->group));
    loop_store(&c->e.b, c->sums, at, cell(c, c->tile, at));
    close_loops(c, depth);
  }
}

static bool group_step(Recurrent *c, const GateSet *set, Dim step, Dim group, int64_t width) {
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  int64_t n = UNROLL;
  int depth = 0, inner;
  begin_sums(c, set, step, group, width);
  while (c->hidden % n) n /= 2;
  Dim k = ie_mulc(p, open_loop(c, LOOP_SERIAL, "k", num(c, c->hidden / n), &depth), n);
  k = add(c, k, open_loop(c, LOOP_UNROLL, "n", num(c, n), &depth));
  for (int i = 0; i < set->count; i++) {
    inner = 0;
    Dim q = open_sequences(c, LOOP_UNROLL, &inner);
    const LoopExpr *h = cell(c, set->state, add(c, c->state_at, k));
    Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, width), &inner);
    Dim at = add(c, sums_of(c, q), ie_addc(p, u, i * c->group));
    elem_forget(e);
    const LoopExpr *r = recurrent_at(c, set->first + i, group, k, u);
    if (!r) return false;
    loop_store(&e->b, c->tile, at, loop_op(e->k, LOOP_fma, h, r, cell(c, c->tile, at)));
    close_loops(c, inner);
  }
  close_loops(c, depth);
  store_sums(c, set, width);
  inner = 0;
  c->sums_at = sums_of(c, open_sequences(c, LOOP_SERIAL, &inner));
  Dim u = open_loop(c, LOOP_VECTOR, "u", num(c, width), &inner);
  elem_forget(e);
  if (!recurrent_cell(c, set, row_of(c, group, c->group, u), u)) return false;
  close_loops(c, inner);
  return true;
}

static bool one_step(Recurrent *c, Dim step, Dim time) {
  ElementBuilder *e = &c->e;
  int64_t whole = c->hidden / c->group;
  for (int i = 0; i < c->nsets; i++) {
    int depth = 0;
    if (whole) {
      Dim g = open_loop(c, LOOP_SERIAL, "group", num(c, whole), &depth);
      if (!group_step(c, &c->set[i], step, g, c->group)) return false;
      close_loops(c, depth);
    }
    if (c->ragged && !group_step(c, &c->set[i], step, num(c, whole), c->hidden % c->group))
      return false;
  }
  int depth = 0;
  open_sequences(c, LOOP_SERIAL, &depth);
  Dim u = add(c, c->state_at, open_loop(c, LOOP_VECTOR, "u", num(c, c->hidden), &depth));
  loop_store(&e->b, c->h, u, cell(c, c->next, u));
  close_loops(c, depth);
  return store_step(c, time, c->h);
}

// ---- the item ----

static bool steps(Recurrent *c, Dim first, Dim count) {
  int depth = 0;
  if (!copy_inputs(c, first, count) || !input_products(c, count)) return false;
  Dim s = open_loop(c, LOOP_SERIAL, "s", count, &depth);
  if (!one_step(c, s, recurrent_time(c, add(c, first, s)))) return false;
  close_loops(c, depth);
  return true;
}

static bool chunks(Recurrent *c) {
  IntPool *p = c->e.pool;
  Dim n = num(c, c->chunk);
  int depth = 0;
  if (!c->chunked) return steps(c, p->zero, c->len);
  Dim i = open_loop(c, LOOP_SERIAL, "chunk", ie_ceildiv(p, c->len, n), &depth);
  Dim first = ie_mul(p, i, n);
  if (!steps(c, first, ie_min(p, n, ie_sub(p, c->len, first)))) return false;
  close_loops(c, depth);
  return true;
}

// One way through the sequence.
static bool pass(Recurrent *c, int nth, bool backwards) {
  IntPool *p = c->e.pool;
  int depth = 0;
  c->nth = nth;
  c->way = backwards;
  if (!copy_biases(c) || !copy_state(c, c->h0, c->h)) return false;
  if (c->cell == CELL_LSTM && !copy_state(c, c->c0, c->c)) return false;
  if (!chunks(c)) return false;
  if (c->lens) {  // nothing comes out beyond the end of a sequence
    Dim s = open_loop(c, LOOP_SERIAL, "s", ie_sub(p, c->time, c->len), &depth);
    if (!store_step(c, add(c, c->len, s), -1)) return false;
    close_loops(c, depth);
  }
  return store_state(c, 1, c->h) && (c->cell != CELL_LSTM || store_state(c, 2, c->c));
}

bool recurrent_length(Recurrent *c) {
  ElementBuilder *e = &c->e;
  c->len = c->time;
  if (!c->lens) return true;
  const LoopExpr *n = elem_at(e, c->lens, (Dim[]){c->b});
  if (!n) return false;
  n = loop_cast(e->k, DT_I64, n);
  c->len =
      loop_bind(&e->b, "len", n, ie_addc(e->pool, c->time, 1), "a sequence length is out of range");
  return true;
}

bool recurrent_emit(Recurrent *c) {
  ElementBuilder *e = &c->e;
  IntPool *p = e->pool;
  Dim groups = ie_div(p, c->batch, num(c, c->seqs)), items = ie_mulc(p, groups, c->ndirs);
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) item = p->zero;
  c->dir = c->ndirs == 1 ? p->zero : ie_mod(p, item, num(c, c->ndirs));
  c->b = c->ndirs == 1 ? item : ie_div(p, item, num(c, c->ndirs));
  c->b = ie_mulc(p, c->b, c->seqs);
  if (!recurrent_length(c)) return false;
  if (c->ndirs == 1) {
    if (!pass(c, 0, c->reverse)) return false;
  } else {
    loop_if(&e->b,
            loop_op(e->k, LOOP_eq, loop_index(e->k, c->dir), loop_int(e->k, DT_I64, 0), NULL));
    if (!pass(c, 0, false)) return false;
    loop_else(&e->b);
    if (!pass(c, 1, true)) return false;
    loop_end(&e->b);
  }
  loop_end(&e->b);
  return true;
}
