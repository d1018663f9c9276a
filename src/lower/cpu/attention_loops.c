// attention_loops.c -- the loops of template attention (attention.h).
//
// Per item: copy the queries transposed, then for each block of keys the scores, the online softmax
// and the product with the values; last the division and the epilogue.  Position masks (causal,
// window) are guards: a guarded load of -infinity replaces the score.  So the target compares lanes
// as it likes, and no index becomes a value.
//
// Needs:      attention.c has mapped the operands, taken the schedule and declared the buffers.
// Guarantees: false where an operand has no expression.  Blocks after the last key that a causal
//             item sees are skipped; blocks that all its queries see have no position mask.
#include "lower/cpu/attention.h"

#include "eval/attention.h"

#include <math.h>

enum { UNROLL = 4, FEW_LANES = 32, TRANSPOSED = 16 };  // steps; lanes; elements of a block

static Dim num(Attention *a, int64_t v) { return ie_const(a->e.pool, v); }
static Dim add(Attention *a, Dim x, Dim y) { return ie_add(a->e.pool, x, y); }
static Dim row_of(Attention *a, Dim row, int64_t width, Dim col) {
  return add(a, ie_mulc(a->e.pool, row, width), col);
}

static const LoopExpr *f_op(Attention *a, LoopOp op, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(a->e.k, op, x, y, NULL);
}
static const LoopExpr *real(Attention *a, double v) { return loop_float(a->e.k, a->t, v); }
static const LoopExpr *cell(Attention *a, int32_t buffer, Dim at) {
  return loop_load(a->e.k, buffer, at);
}

// A loop that is not written where it runs once.
static Dim open_loop(Attention *a, LoopKind kind, const char *name, Dim extent, int *depth) {
  if (ie_is(extent, 1)) return a->e.pool->zero;
  ++*depth;
  return loop_for(&a->e.b, kind, name, extent);
}
static void close_loops(Attention *a, int depth) {
  while (depth-- > 0) loop_end(&a->e.b);
  elem_forget(&a->e);
}

// Element x of row s of a head.
const LoopExpr *attention_head(Attention *a, const Node *n, Dim head, int64_t size, Dim s, Dim x) {
  Dim at[4] = {a->b, head, s, x};
  if (type_of(n)->rank == 3) {
    at[1] = s;
    at[2] = row_of(a, head, size, x);
  }
  const LoopExpr *e = elem_at(&a->e, n, at);
  return e ? loop_cast(a->e.k, a->t, e) : NULL;
}

// The greater of two, of which a NaN is not asked: its weight and with it the sum are NaN anyway.
static const LoopExpr *greater(Attention *a, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(a->e.k, LOOP_select, f_op(a, LOOP_lt, x, y), y, x);
}

// ---- copies ----

// A query's elements from d on, each scaled, at query i of the item.
static bool copy_query(Attention *a, Dim i, Dim d) {
  ElementBuilder *e = &a->e;
  Dim at = add(a, a->q0, i);
  elem_forget(e);
  if (a->ragged) at = elem_guard(e, at, a->seq);
  const LoopExpr *x = attention_head(a, a->anchor->src[0], a->h, a->size, at, d);
  elem_unguard(e, 0);
  if (!x) return false;
  x = f_op(a, LOOP_mul, x, real(a, a->scale));
  loop_store(&e->b, a->q, a->lane_sums ? row_of(a, i, a->size, d) : row_of(a, d, a->queries, i), x);
  return true;
}

// Transposed: lanes go along the queries, and steps that are written out along the elements, so
// that blocks of both are transposed in registers.
static bool copy_queries(Attention *a) {
  LoopBuilder *b = &a->e.b;
  int64_t n = TRANSPOSED, whole = a->size / n, rest = a->size % n;
  if (a->lane_sums) {
    Dim i = loop_for(b, LOOP_SERIAL, "i", num(a, a->queries));
    bool ok = copy_query(a, i, loop_for(b, LOOP_VECTOR, "d", num(a, a->size)));
    close_loops(a, 2);
    return ok;
  }
  for (int part = 0; part < 2; part++) {
    int depth = 0;
    if (!(part ? rest : whole)) continue;
    Dim first = part ? num(a, whole * n)
                     : ie_mulc(a->e.pool, open_loop(a, LOOP_SERIAL, "d", num(a, whole), &depth), n);
    Dim i = loop_for(b, LOOP_VECTOR, "i", num(a, a->queries));
    Dim u = loop_for(b, LOOP_UNROLL, "u", num(a, part ? rest : n));
    if (!copy_query(a, i, add(a, first, u))) return false;
    close_loops(a, depth + 2);
  }
  return true;
}

static bool copy_rows(Attention *a, const Node *n, int32_t to, int64_t size, Dim first, Dim count) {
  ElementBuilder *e = &a->e;
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", count);
  Dim d = loop_for(&e->b, LOOP_VECTOR, "d", num(a, size));
  elem_forget(e);
  const LoopExpr *x = attention_head(a, n, a->kv_head, size, add(a, first, j), d);
  if (!x) return false;
  loop_store(&e->b, to, row_of(a, j, size, d), x);
  close_loops(a, 2);
  return true;
}

// ---- scores ----

typedef struct Block {
  const KeyRun *run;
  Dim first;   // key of the run that it begins with
  Dim count;   // keys
  bool fixed;  // count is a number
  bool open;   // every query of the item sees every key of it
} Block;

// A tile of the block: rows of keys, from row j on.
typedef struct KeyTile {
  const Block *block;
  Dim j;
  int64_t rows;
  bool guard;  // there may be fewer
} KeyTile;

static const LoopExpr *key_at(Attention *a, const KeyTile *t, Dim r, Dim d) {
  ElementBuilder *e = &a->e;
  const KeyRun *run = t->block->run;
  Dim row = add(a, t->j, r), key = add(a, t->block->first, row);
  if (run->copy_k) return cell(a, a->k, row_of(a, row, a->size, d));
  if (t->guard) key = elem_guard(e, key, run->count);
  const LoopExpr *x = attention_head(a, run->k, a->kv_head, a->size, key, d);
  elem_unguard(e, 0);
  return x;
}

static bool sum_few(Attention *a, const KeyTile *t) {
  ElementBuilder *e = &a->e;
  int depth = 0, lanes = 1;
  while (lanes < FEW_LANES && lanes * 2 <= a->size) lanes *= 2;
  Dim r = open_loop(a, LOOP_SERIAL, "r", num(a, t->rows), &depth);
  Dim i = open_loop(a, LOOP_SERIAL, "i", num(a, a->queries), &depth);
  Dim d = loop_reduce(&e->b, LOOP_add, "d", num(a, a->size), lanes);
  elem_forget(e);
  const LoopExpr *k = key_at(a, t, r, d);
  if (!k) return false;
  k = f_op(a, LOOP_mul, k, cell(a, a->q, row_of(a, i, a->size, d)));
  loop_store(&e->b, a->raw, row_of(a, r, a->queries, i), loop_yield(&e->b, k));
  close_loops(a, depth);
  return true;
}

static bool sum_scores(Attention *a, const KeyTile *t) {
  ElementBuilder *e = &a->e;
  int64_t n = a->queries, u = UNROLL;
  int depth = 0;
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(a, t->rows));
  Dim i = loop_for(&e->b, LOOP_VECTOR, "i", num(a, n));
  loop_store(&e->b, a->tile, row_of(a, r, n, i), real(a, 0));
  close_loops(a, 2);
  while (a->size % u) u /= 2;
  Dim d = ie_mulc(e->pool, open_loop(a, LOOP_SERIAL, "d", num(a, a->size / u), &depth), u);
  d = add(a, d, open_loop(a, LOOP_UNROLL, "u", num(a, u), &depth));
  r = loop_for(&e->b, LOOP_UNROLL, "r", num(a, t->rows));
  i = loop_for(&e->b, LOOP_VECTOR, "i", num(a, n));
  elem_forget(e);
  const LoopExpr *k = key_at(a, t, r, d), *q = cell(a, a->q, row_of(a, d, n, i));
  Dim at = row_of(a, r, n, i);
  if (!k) return false;
  loop_store(&e->b, a->tile, at, loop_op(e->k, LOOP_fma, k, q, cell(a, a->tile, at)));
  close_loops(a, depth + 2);
  return true;
}

// x, or -infinity where 0 <= value < extent.
static const LoopExpr *unless(Attention *a, const LoopExpr *x, Dim value, Dim extent) {
  LoopBound g = {.sym = loop_sym(a->e.k, "g", extent), .value = value, .extent = extent};
  return loop_load_guarded(a->e.k, a->never, a->e.pool->zero, 1, &g, x);
}

static int64_t right_of(const Attention *a) {
  return a->at->is_causal ? 0 : a->at->right_window_size;
}

static const LoopExpr *by_position(Attention *a, const LoopExpr *x, Dim key, Dim i) {
  IntPool *p = a->e.pool;
  const attention_attrs *at = a->at;
  int64_t right = right_of(a);
  Dim from = add(a, a->offset, a->q0);
  if (right >= 0) {
    Dim hidden = ie_addc(p, ie_sub(p, key, from), -right);
    x = unless(a, x, i, ie_max(p, p->zero, ie_min(p, hidden, num(a, a->queries))));
  }
  if (at->left_window_size >= 0) {
    Dim last = ie_addc(p, ie_sub(p, key, from), at->left_window_size + 1);
    x = unless(a, x, ie_sub(p, i, ie_max(p, p->zero, last)), num(a, a->queries));
  }
  return x;
}

static const LoopExpr *mask_at(Attention *a, const KeyTile *t, Dim key, Dim i) {
  ElementBuilder *e = &a->e;
  const Type *m = type_of(a->mask);
  Dim query = add(a, a->q0, i), all[4] = {a->b, a->h, query, key}, at[4];
  bool by_query = m->rank >= 2 && !ie_is(m->dims[m->rank - 2], 1);
  if (a->ragged && by_query) all[2] = elem_guard(e, query, a->seq);
  if (t->guard || a->mask_keys) all[3] = elem_guard(e, key, a->mask_keys ? a->mask_keys : a->total);
  for (int k = 0; k < m->rank; k++)
    at[k] = ie_is(m->dims[k], 1) && k < m->rank - 1 ? e->pool->zero : all[k + 4 - m->rank];
  const LoopExpr *x = elem_at(e, a->mask, at);
  elem_unguard(e, 0);
  return x;
}

const LoopExpr *attention_hidden(Attention *a, const LoopExpr *x, const LoopExpr *m, Dim key) {
  LoopKernel *k = a->e.k;
  const LoopExpr *off = real(a, -INFINITY);
  if (m->dtype == DT_BOOL) {
    x = loop_op(k, LOOP_select, m, x, off);
  } else {
    m = loop_let(&a->e.b, loop_cast(k, a->t, m));
    x = loop_op(k, LOOP_select, f_op(a, LOOP_eq, m, off), off, f_op(a, LOOP_add, x, m));
  }
  if (!a->mask_keys) return x;
  const LoopExpr *reached = f_op(a, LOOP_lt, loop_index(k, key), loop_index(k, a->mask_keys));
  return loop_op(k, LOOP_select, reached, x, off);
}

static const LoopExpr *masked(Attention *a, const KeyTile *t, const LoopExpr *x, Dim key, Dim i) {
  if (a->mask) {
    const LoopExpr *m = mask_at(a, t, key, i);
    if (!m) return NULL;
    x = attention_hidden(a, x, m, key);
  }
  return t->block->open ? x : by_position(a, x, key, i);
}

static const LoopExpr *finished(Attention *a, const KeyTile *t, int64_t r, Dim i,
                                const LoopExpr *there) {
  LoopKernel *k = a->e.k;
  double cap = a->at->softcap;
  Dim key = add(a, ie_addc(a->e.pool, t->j, r), add(a, t->block->first, t->block->run->first));
  const LoopExpr *x = loop_let(&a->e.b, cell(a, a->raw, ie_addc(a->e.pool, i, r * a->queries)));
  if (cap > 0) {
    x = f_op(a, LOOP_div, x, real(a, cap));
    x = f_op(a, LOOP_mul, loop_op(k, LOOP_tanh, x, NULL, NULL), real(a, cap));
  }
  x = masked(a, t, x, key, i);
  if (x && there) x = loop_op(k, LOOP_select, there, x, real(a, -INFINITY));
  return x ? loop_let(&a->e.b, x) : NULL;
}

// Scores with all masks into scratch, and the greatest of each query.
static bool finish_scores(Attention *a, const KeyTile *t) {
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  const LoopExpr *x[64], *there[64] = {0};
  for (int64_t r = 0; r < t->rows && t->guard; r++) {
    Dim key = add(a, t->block->first, ie_addc(p, t->j, r));
    there[r] = loop_let(
        &e->b, f_op(a, LOOP_lt, loop_index(e->k, key), loop_index(e->k, t->block->run->count)));
  }
  Dim i = loop_for(&e->b, LOOP_VECTOR, "i", num(a, a->queries));
  elem_forget(e);
  for (int64_t r = 0; r < t->rows; r++) {
    if (!(x[r] = finished(a, t, r, i, there[r]))) return false;
    loop_store(&e->b, a->s, row_of(a, ie_addc(p, t->j, r), a->queries, i), x[r]);
  }
  for (int64_t n = t->rows; n > 1; n = (n + 1) / 2)
    for (int64_t r = 0; r < n / 2; r++) x[r] = greater(a, x[r], x[r + (n + 1) / 2]);
  loop_store(&e->b, a->top, i, greater(a, cell(a, a->top, i), x[0]));
  close_loops(a, 1);
  return true;
}

static bool score_tile(Attention *a, KeyTile t) {
  return (a->lane_sums ? sum_few(a, &t) : sum_scores(a, &t)) && finish_scores(a, &t);
}

static bool scores(Attention *a, const Block *b) {
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  int64_t rows = a->keys;
  Dim tiles = ie_div(p, b->count, num(a, rows)), done = ie_mulc(p, tiles, rows);
  int depth = 0;
  if (!ie_is(tiles, 0)) {
    Dim t = open_loop(a, LOOP_SERIAL, "t", tiles, &depth);
    if (!score_tile(a, (KeyTile){.block = b, .j = ie_mulc(p, t, rows), .rows = rows})) return false;
    close_loops(a, depth);
  }
  KeyTile rest = {.block = b, .j = done, .rows = rows, .guard = true};
  if (b->fixed) {
    rest.rows = b->count->value % rows;
    rest.guard = false;
    return !rest.rows || score_tile(a, rest);
  }
  depth = 0;
  open_loop(a, LOOP_SERIAL, "rest", ie_min(p, p->one, ie_sub(p, b->count, done)), &depth);
  if (!score_tile(a, rest)) return false;
  close_loops(a, depth);
  return true;
}

// ---- softmax ----

// Scores become weights, not yet divided by their sum.
static void weights(Attention *a, const Block *b) {
  ElementBuilder *e = &a->e;
  LoopKernel *k = e->k;
  Dim i = loop_for(&e->b, LOOP_VECTOR, "i", num(a, a->queries));
  const LoopExpr *top = loop_let(&e->b, cell(a, a->top, i)), *sum;
  const LoopExpr *none = f_op(a, LOOP_eq, top, real(a, -INFINITY));
  const LoopExpr *from = loop_let(&e->b, loop_op(k, LOOP_select, none, real(a, 0), top));
  Dim j = loop_reduce(&e->b, LOOP_add, "j", b->count, 1), at = row_of(a, j, a->queries, i);
  const LoopExpr *x = f_op(a, LOOP_sub, cell(a, a->s, at), from);
  x = loop_let(&e->b, loop_op(k, LOOP_exp, x, NULL, NULL));
  loop_store(&e->b, a->s, at, x);
  sum = loop_yield(&e->b, x);
  if (a->online) {
    x = f_op(a, LOOP_sub, cell(a, a->before, i), from);
    x = loop_let(&e->b, loop_op(k, LOOP_exp, x, NULL, NULL));
    loop_store(&e->b, a->rescale, i, x);
    loop_store(&e->b, a->before, i, top);
    sum = loop_op(k, LOOP_fma, cell(a, a->sum, i), x, sum);
  }
  loop_store(&e->b, a->sum, i, sum);
  close_loops(a, 1);
}

// The sums become their inverses.
static void invert(Attention *a) {
  ElementBuilder *e = &a->e;
  Dim i = loop_for(&e->b, LOOP_VECTOR, "i", num(a, a->queries));
  const LoopExpr *s = loop_let(&e->b, cell(a, a->sum, i)), *zero = real(a, 0);
  const LoopExpr *x = f_op(a, LOOP_div, real(a, 1), s);
  x = loop_op(e->k, LOOP_select, f_op(a, LOOP_eq, s, zero), zero, x);
  loop_store(&e->b, a->sum, i, x);
  close_loops(a, 1);
}

// ---- values ----

Dim attention_rows(Attention *a) { return ie_mulc(a->e.pool, a->seq, a->share); }

Dim attention_query(Attention *a, Dim row) {
  return a->share > 1 ? ie_div(a->e.pool, row, num(a, a->share)) : row;
}

Dim attention_row_head(Attention *a, Dim row) {
  if (a->share == 1) return a->h;
  return row_of(a, a->kv_head, a->share, ie_mod(a->e.pool, row, num(a, a->share)));
}

bool attention_store(Attention *a, const LoopExpr *x, Dim i, Dim c) {
  ElementBuilder *e = &a->e;
  const Node *y = a->walk.own;
  Dim row = add(a, a->q0, i);
  elem_forget(e);
  a->value = loop_let(&e->b, loop_cast(e->k, type_of(y)->dtype, x));
  if (a->ragged) row = elem_guard(e, row, attention_rows(a));
  Dim head = attention_row_head(a, row), query = attention_query(a, row);
  Dim at[4] = {a->b, head, query, c};
  if (type_of(y)->rank == 3) {
    at[1] = query;
    at[2] = row_of(a, head, a->vsize, c);
  }
  bool ok = epilogue_store(&a->walk, at);
  elem_unguard(e, 0);
  elem_forget(e);
  return ok;
}

// Queries from i on, columns from c on.
static bool value_tile(Attention *a, const Block *b, Dim i, Dim c, int64_t width) {
  ElementBuilder *e = &a->e;
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(a, a->rows));
  Dim x = loop_for(&e->b, LOOP_VECTOR, "x", num(a, width));
  Dim at = row_of(a, r, a->width, x), query = add(a, i, r), col = add(a, c, x);
  const LoopExpr *v = real(a, 0), *w;
  if (a->online)
    v = f_op(a, LOOP_mul, cell(a, a->out, row_of(a, query, a->vsize, col)),
             cell(a, a->rescale, query));
  loop_store(&e->b, a->tile, at, v);
  close_loops(a, 2);

  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", b->count);
  r = loop_for(&e->b, LOOP_UNROLL, "r", num(a, a->rows));
  x = loop_for(&e->b, LOOP_VECTOR, "x", num(a, width));
  at = row_of(a, r, a->width, x);
  col = add(a, c, x);
  elem_forget(e);
  if (b->run->copy_v)
    v = cell(a, a->v, row_of(a, j, a->vsize, col));
  else
    v = attention_head(a, b->run->v, a->kv_head, a->vsize, add(a, b->first, j), col);
  if (!v) return false;
  w = cell(a, a->s, row_of(a, j, a->queries, add(a, i, r)));
  loop_store(&e->b, a->tile, at, loop_op(e->k, LOOP_fma, w, v, cell(a, a->tile, at)));
  close_loops(a, 3);

  r = loop_for(&e->b, LOOP_UNROLL, "r", num(a, a->rows));
  x = loop_for(&e->b, LOOP_VECTOR, "x", num(a, width));
  v = cell(a, a->tile, row_of(a, r, a->width, x));
  query = add(a, i, r);
  col = add(a, c, x);
  bool ok = true;
  if (a->online)
    loop_store(&e->b, a->out, row_of(a, query, a->vsize, col), v);
  else
    ok = attention_store(a, f_op(a, LOOP_mul, v, cell(a, a->sum, query)), query, col);
  close_loops(a, 2);
  return ok;
}

static bool values(Attention *a, const Block *b) {
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  int64_t whole = a->vsize / a->width, rest = a->vsize % a->width;
  Dim left = ie_min(p, num(a, a->queries), ie_sub(p, a->seq, a->q0));
  Dim tiles = a->ragged ? ie_ceildiv(p, left, num(a, a->rows)) : num(a, a->queries / a->rows);
  int depth = 0, inner = 0;
  Dim i = ie_mulc(p, open_loop(a, LOOP_SERIAL, "t", tiles, &depth), a->rows);
  if (whole) {
    Dim c = ie_mulc(p, open_loop(a, LOOP_SERIAL, "c", num(a, whole), &inner), a->width);
    if (!value_tile(a, b, i, c, a->width)) return false;
    close_loops(a, inner);
  }
  if (rest && !value_tile(a, b, i, num(a, whole * a->width), rest)) return false;
  close_loops(a, depth);
  return true;
}

// ---- blocks of keys ----

static bool key_block(Attention *a, Block b) {
  const KeyRun *r = b.run;
  b.fixed = ie_is_const(b.count);
  if (r->copy_k && !copy_rows(a, r->k, a->k, a->size, b.first, b.count)) return false;
  if (r->copy_v && !copy_rows(a, r->v, a->v, a->vsize, b.first, b.count)) return false;
  if (!scores(a, &b)) return false;
  weights(a, &b);
  if (!a->online) invert(a);
  return values(a, &b);
}

// Blocks of a number of keys that is known while the loops are written.
static bool whole_blocks(Attention *a, const KeyRun *run, Dim blocks, bool open) {
  int depth = 0;
  if (ie_is(blocks, 0)) return true;
  Dim i = open_loop(a, LOOP_SERIAL, "block", blocks, &depth);
  Block b = {.run = run, .first = ie_mulc(a->e.pool, i, a->block), .count = num(a, a->block)};
  b.open = open;
  if (!key_block(a, b)) return false;
  close_loops(a, depth);
  return true;
}

// Keys from number `begin` on, below `end`.
static bool other_blocks(Attention *a, const KeyRun *run, Dim begin, Dim end) {
  IntPool *p = a->e.pool;
  int depth = 0;
  Dim block = num(a, a->block), n = ie_ceildiv(p, ie_sub(p, end, begin), block);
  Dim i = open_loop(a, LOOP_SERIAL, "block", n, &depth);
  Dim first = add(a, begin, ie_mul(p, i, block));
  Block b = {.run = run, .first = first, .count = ie_min(p, block, ie_sub(p, end, first))};
  if (!key_block(a, b)) return false;
  close_loops(a, depth);
  return true;
}

static bool key_run(Attention *a, const KeyRun *run) {
  IntPool *p = a->e.pool;
  Dim count = run->count, block = num(a, a->block), seen = p->zero;
  int64_t right = right_of(a);
  if (right >= 0) {  // keys that the first query of the item sees, and those that the last one does
    Dim before = ie_addc(p, ie_sub(p, add(a, a->offset, a->q0), run->first), right + 1);
    seen = ie_min(p, count, before);
    count = ie_min(p, count, ie_addc(p, before, a->queries - 1));
    if (a->nonpad || a->offset->lo < 0) {  // queries may stand before the first key
      seen = ie_max(p, p->zero, seen);
      count = ie_max(p, p->zero, count);
    }
  }
  if (!a->online) return key_block(a, (Block){.run = run, .first = p->zero, .count = count});
  if (ie_is_const(count)) {
    int64_t whole = count->value / a->block, rest = count->value % a->block;
    if (!whole_blocks(a, run, num(a, whole), false)) return false;
    Block last = {.run = run, .first = num(a, whole * a->block), .count = num(a, rest)};
    return !rest || key_block(a, last);
  }
  if (right < 0 || a->at->left_window_size >= 0) return other_blocks(a, run, p->zero, count);
  Dim open = ie_div(p, seen, block);
  return whole_blocks(a, run, open, true) && other_blocks(a, run, ie_mul(p, open, block), count);
}

// ---- the item ----

static void begin_item(Attention *a) {
  ElementBuilder *e = &a->e;
  Dim i = loop_for(&e->b, LOOP_VECTOR, "i", num(a, a->queries));
  loop_store(&e->b, a->top, i, real(a, -INFINITY));
  loop_store(&e->b, a->before, i, real(a, -INFINITY));
  loop_store(&e->b, a->sum, i, real(a, 0));
  close_loops(a, 1);
  loop_store(&e->b, a->never, e->pool->zero, real(a, -INFINITY));
  if (!a->online) return;
  i = loop_for(&e->b, LOOP_VECTOR, "i", num(a, a->queries * a->vsize));
  loop_store(&e->b, a->out, i, real(a, 0));
  close_loops(a, 1);
}

static bool end_item(Attention *a) {
  ElementBuilder *e = &a->e;
  if (!a->online) return true;
  invert(a);
  Dim i = loop_for(&e->b, LOOP_SERIAL, "i", num(a, a->queries));
  Dim c = loop_for(&e->b, LOOP_VECTOR, "c", num(a, a->vsize));
  const LoopExpr *x = cell(a, a->out, row_of(a, i, a->vsize, c));
  bool ok = attention_store(a, f_op(a, LOOP_mul, x, cell(a, a->sum, i)), i, c);
  close_loops(a, 2);
  return ok;
}

// Keys beyond the length of a sequence are not there, and its queries are the last ones of it.
static bool bind_length(Attention *a) {
  ElementBuilder *e = &a->e;
  if (!a->nonpad) return true;
  const LoopExpr *n = elem_at(e, a->nonpad, (Dim[]){a->b});
  if (!n) return false;
  Dim len = loop_bind(&e->b, "len", loop_cast(e->k, DT_I64, n), ie_addc(e->pool, a->total, 1),
                      "a number of keys is out of range");
  a->run[0].count = len;
  a->offset = ie_sub(e->pool, len, a->seq);
  return true;
}

Dim attention_causal(Attention *a, Dim end) {
  IntPool *p = a->e.pool;
  Dim n = ie_min(p, a->total, add(a, a->offset, end));
  return a->offset->lo < 0 ? ie_max(p, p->zero, n) : n;
}

void attention_items(Attention *a) {
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  // Never 0, because items are divided by it: without queries an item finds every guard closed.
  Dim blocks = ie_max(p, p->one, ie_ceildiv(p, attention_rows(a), num(a, a->queries))), at[3];
  Dim shape[3] = {a->batch, num(a, a->heads / a->share), blocks};
  Dim items = ie_mul(p, ie_mul(p, shape[0], shape[1]), shape[2]);
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, 3, shape, at);
  a->b = at[0];
  a->h = at[1];
  a->kv_head = a->share > 1 ? at[1] : ie_div(p, at[1], num(a, a->heads / a->kv_heads));
  a->q0 = ie_mulc(p, at[2], a->queries);
}

bool attention_emit(Attention *a) {
  attention_items(a);
  if (!bind_length(a)) return false;
  begin_item(a);
  if (!copy_queries(a)) return false;
  for (int i = 0; i < a->nruns; i++)
    if (!key_run(a, &a->run[i])) return false;
  if (!end_item(a)) return false;
  loop_end(&a->e.b);
  return true;
}
