// paged_attention_loops.c -- the loops of template paged_attention (paged_attention.h).
//
// Per run: copy the queries; per split the scores of its pages, a softmax of each query head over
// the keys that it sees, the products with the values, and the merge into what the splits before
// gave; last the sinks, the division and the epilogue.  A page of keys is transposed, so that lanes
// go along its keys.  A page that all rows of the run see whole goes through tiles of all query
// heads; any other through those of one row, with the keys that this row sees.  Either way a query
// head adds its keys in order, so the bits are the same.
//
// Pages lie apart in memory, so that the machine cannot foresee the next one.  While scores are
// summed the same page of the values is prefetched, and while values are, the page of the keys that
// comes a split later.
//
// Needs:      paged_attention.c has read the operands, taken the schedule and declared the buffers.
// Guarantees: false where an operand has no expression.  A slot that a row does not see is never
//             added, multiplied or compared for it: its score is computed and not read.
#include "lower/cpu/paged_attention.h"

#include "eval/paged.h"

#include <math.h>

enum { LANES = 16, TRANSPOSED = 16, UNROLL = 4, SPLIT_PAGES = PAGED_SPLIT / LLM_PAGE };

static Dim num(Paged *a, int64_t v) { return ie_const(a->e.pool, v); }
static Dim add(Paged *a, Dim x, Dim y) { return ie_add(a->e.pool, x, y); }
static Dim times(Paged *a, Dim x, int64_t by) { return ie_mulc(a->e.pool, x, by); }
static Dim at_row(Paged *a, Dim row, int64_t width, Dim col) {
  return add(a, times(a, row, width), col);
}

static const LoopExpr *op2(Paged *a, LoopOp op, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(a->e.k, op, x, y, NULL);
}
static const LoopExpr *real(Paged *a, double v) { return loop_float(a->e.k, DT_F32, v); }
static const LoopExpr *whole(Paged *a, int64_t v) { return loop_int(a->e.k, DT_I64, v); }
static const LoopExpr *index_of(Paged *a, Dim d) { return loop_index(a->e.k, d); }
static const LoopExpr *cell(Paged *a, int32_t buffer, Dim at) {
  return loop_load(a->e.k, buffer, at);
}
static const LoopExpr *let(Paged *a, const LoopExpr *x) { return loop_let(&a->e.b, x); }
static const LoopExpr *pick(Paged *a, const LoopExpr *c, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(a->e.k, LOOP_select, c, x, y);
}
static const LoopExpr *exp_of(Paged *a, const LoopExpr *x) {
  return let(a, loop_op(a->e.k, LOOP_exp, x, NULL, NULL));
}
// A number that is at hand as an index below `extent`; the value is one by its making.
static Dim known(Paged *a, const char *name, const LoopExpr *x, int64_t extent) {
  return loop_bind(&a->e.b, name, x, num(a, extent), "a count is out of range");
}

static Dim enter(Paged *a, LoopKind kind, const char *name, Dim extent) {
  return loop_for(&a->e.b, kind, name, extent);
}
static void leave(Paged *a, int n) {
  while (n-- > 0) loop_end(&a->e.b);
  elem_forget(&a->e);
}

// An element of an operand as f32.
static const LoopExpr *element(Paged *a, int operand, const Dim *at) {
  const LoopExpr *x = elem_at(&a->e, a->anchor->src[operand], at);
  return x ? loop_cast(a->e.k, DT_F32, x) : NULL;
}

// ---- rows ----

static Dim query_head(Paged *a, Dim g) { return add(a, times(a, a->head, a->group), g); }

// Opens what is done for row r of the run, under guards: its number among all.
static Dim open_row(Paged *a, Dim r) {
  LoopBuilder *b = &a->e.b;
  Dim i = loop_where(b, "i", add(a, a->run, r), a->per_item);
  return loop_where(b, "row", add(a, a->t0, i), a->rows);
}

// The index operand's element of a row that may not be there, as i64.
static const LoopExpr *guarded_index(Paged *a, int operand, Dim row) {
  ElementBuilder *e = &a->e;
  elem_forget(e);
  Dim at = elem_guard(e, row, a->rows);
  const LoopExpr *x = elem_at(e, a->anchor->src[operand], &at);
  if (x) x = elem_guarded(e, 0, x, loop_int(e->k, x->dtype, 0));
  elem_unguard(e, 0);
  elem_forget(e);
  return x ? loop_cast(e->k, DT_I64, x) : NULL;
}

// Whether the rows of the item follow one another in one sequence: 1 or 0.
static const LoopExpr *consecutive(Paged *a) {
  LoopKernel *k = a->e.k;
  const LoopExpr *seq = guarded_index(a, PAGED_SEQ, a->t0),
                 *pos = guarded_index(a, PAGED_POS, a->t0);
  if (!seq || !pos) return NULL;
  seq = let(a, seq);
  pos = let(a, pos);
  Dim i = loop_reduce(&a->e.b, LOOP_min, "i", a->per_item, 1), row = add(a, a->t0, i);
  const LoopExpr *s = guarded_index(a, PAGED_SEQ, row), *p = guarded_index(a, PAGED_POS, row);
  if (!s || !p) return NULL;
  const LoopExpr *next = op2(a, LOOP_and, op2(a, LOOP_eq, s, seq),
                             op2(a, LOOP_eq, p, op2(a, LOOP_add, pos, index_of(a, i))));
  const LoopExpr *beyond = op2(a, LOOP_le, index_of(a, a->rows), index_of(a, row));
  const LoopExpr *yes = loop_op(k, LOOP_or, next, beyond, NULL);
  const LoopExpr *all = loop_yield(&a->e.b, pick(a, yes, whole(a, 1), whole(a, 0)));
  elem_forget(&a->e);
  return let(a, pick(a, op2(a, LOOP_le, whole(a, 0), pos), all, whole(a, 0)));
}

// Opens the loop over runs.
static bool open_runs(Paged *a) {
  const LoopExpr *one = consecutive(a);
  if (!one) return false;
  Dim left = ie_min(a->e.pool, a->per_item, ie_sub(a->e.pool, a->rows, a->t0));
  const LoopExpr *n = let(a, op2(a, LOOP_max, index_of(a, left), whole(a, 0)));
  one = op2(a, LOOP_eq, one, whole(a, 1));
  Dim runs = known(a, "runs", pick(a, one, op2(a, LOOP_min, n, whole(a, 1)), n), a->most + 1);
  a->run_rows = known(a, "rows", pick(a, one, n, whole(a, 1)), a->most + 1);
  a->count = times(a, a->run_rows, a->group);
  a->run = enter(a, LOOP_SERIAL, "run", runs);
  return true;
}

// The keys of the run's rows.
static bool bind_keys(Paged *a) {
  LoopBuilder *b = &a->e.b;
  Dim most = ie_addc(a->e.pool, times(a, a->row_pages, LLM_PAGE), 1), row = add(a, a->t0, a->run);
  const char *why = "a position lies outside the page table";
  const LoopExpr *pos = guarded_index(a, PAGED_POS, row);
  if (!pos) return false;
  const LoopExpr *n = op2(a, LOOP_max, op2(a, LOOP_add, pos, whole(a, 1)), whole(a, 0));
  a->length = loop_bind(b, "length", let(a, n), most, why);
  const LoopExpr *last = index_of(a, ie_addc(a->e.pool, add(a, a->length, a->run_rows), -1));
  a->last = loop_bind(b, "last", op2(a, LOOP_max, last, whole(a, 0)), most, why);
  return true;
}

// The first key that a row of so many keys sees, as i64.
static const LoopExpr *first_key(Paged *a, const LoopExpr *length) {
  int64_t w = a->at->window;
  if (!w) return whole(a, 0);
  return op2(a, LOOP_max, op2(a, LOOP_sub, length, whole(a, w)), whole(a, 0));
}

static const LoopExpr *row_length(Paged *a, Dim r) { return index_of(a, add(a, a->length, r)); }

// Keys [*from, *to) of those that row r sees, counted from key `base`, of `n`: 0 <= from <= to <=
// n.
static void bind_range(Paged *a, Dim r, Dim base, int64_t n, Dim *from, Dim *to) {
  const LoopExpr *len = row_length(a, r), *zero = whole(a, 0), *most = whole(a, n);
  const LoopExpr *lo = op2(a, LOOP_sub, first_key(a, len), index_of(a, base));
  const LoopExpr *hi = op2(a, LOOP_sub, len, index_of(a, base));
  lo = let(a, op2(a, LOOP_min, op2(a, LOOP_max, lo, zero), most));
  hi = op2(a, LOOP_min, op2(a, LOOP_max, hi, lo), most);
  *from = known(a, "from", lo, n + 1);
  *to = known(a, "to", hi, n + 1);
}

// ---- tiles of scratch rows ----

typedef bool Tile(Paged *a, Dim row, int64_t rows, void *ctx);

// Rows base to base + count - 1 in tiles of `most`, a power of two, and of the smaller ones.
static bool tiles(Paged *a, Dim base, Dim count, int64_t most, Tile *fn, void *ctx) {
  IntPool *p = a->e.pool;
  for (int64_t z = most; z >= 1; z /= 2) {
    Dim n = ie_div(p, count, num(a, z));
    if (z < most) n = ie_mod(p, n, num(a, 2));
    if (ie_is(n, 0)) continue;
    Dim t = enter(a, LOOP_SERIAL, "t", n), at = times(a, t, z);
    if (z < most) at = add(a, at, times(a, ie_div(p, count, num(a, 2 * z)), 2 * z));
    if (!fn(a, add(a, base, at), z, ctx)) return false;
    leave(a, 1);
  }
  return true;
}

// ---- scores ----

static bool copy_queries(Paged *a) {
  ElementBuilder *e = &a->e;
  Dim r = enter(a, LOOP_SERIAL, "r", a->run_rows), row = open_row(a, r);
  Dim g = enter(a, LOOP_SERIAL, "g", num(a, a->group)), m = at_row(a, r, a->group, g);
  Dim d = enter(a, LOOP_VECTOR, "d", num(a, a->size));
  elem_forget(e);
  const LoopExpr *x = element(a, PAGED_Q, (Dim[]){row, query_head(a, g), d});
  if (!x) return false;
  loop_store(&e->b, a->q, at_row(a, m, a->size, d), op2(a, LOOP_mul, x, real(a, a->scale)));
  leave(a, 5);
  return true;
}

// A page as f32: what is i8 times its scale.
static bool copy_page(Paged *a, int operand, int32_t to, int64_t size) {
  const Node *scales = operand == PAGED_K ? a->k_scale : a->v_scale;
  const LoopExpr *scale = NULL;
  Dim i = enter(a, LOOP_SERIAL, "i", num(a, LLM_PAGE));
  elem_forget(&a->e);
  if (scales) {
    scale = elem_at(&a->e, scales, (Dim[]){a->page, a->head, i, a->e.pool->zero});
    if (!scale) return false;
    scale = let(a, scale);
  }
  Dim d = enter(a, LOOP_VECTOR, "d", num(a, size));
  elem_forget(&a->e);
  const LoopExpr *x = element(a, operand, (Dim[]){a->page, a->head, i, d});
  if (!x) return false;
  if (scale) x = op2(a, LOOP_mul, x, scale);
  loop_store(&a->e.b, to, at_row(a, i, size, d), x);
  leave(a, 2);
  return true;
}

// Asks for the cache line of an element of a page; nothing where the operand is no memory.
static void prefetch(Paged *a, int operand, Dim page, Dim i, Dim d) {
  const Node *n = a->anchor->src[operand];
  int32_t buffer = elem_buffer(&a->e, n);
  Dim shape[4], last = ie_addc(a->e.pool, type_of(n)->dims[3], -1);
  if (buffer < 0) return;
  elem_shape(&a->e, type_of(n), shape);
  Dim at[4] = {page, a->head, i, ie_min(a->e.pool, d, num(a, last->value))};
  loop_prefetch(&a->e.b, buffer, elem_linear(&a->e, 4, shape, at));
}

// The page's keys from element `first` on, one key per lane, and `steps` elements of each.
static bool transpose(Paged *a, Dim first, int64_t steps) {
  Dim i = enter(a, LOOP_VECTOR, "i", num(a, LLM_PAGE));
  Dim d = add(a, first, enter(a, LOOP_UNROLL, "u", num(a, steps)));
  elem_forget(&a->e);
  const LoopExpr *x = a->copy_k ? cell(a, a->k, at_row(a, i, a->size, d))
                                : element(a, PAGED_K, (Dim[]){a->page, a->head, i, d});
  if (!x) return false;
  loop_store(&a->e.b, a->kt, at_row(a, d, LLM_PAGE, i), x);
  leave(a, 2);
  return true;
}

static bool transpose_page(Paged *a) {
  int64_t n = a->size / TRANSPOSED, rest = a->size % TRANSPOSED;
  if (a->copy_k && !copy_page(a, PAGED_K, a->k, a->size)) return false;
  if (n) {
    Dim d = times(a, enter(a, LOOP_SERIAL, "d", num(a, n)), TRANSPOSED);
    prefetch(a, PAGED_V, a->page, enter(a, LOOP_SERIAL, "i", num(a, LLM_PAGE)), d);
    leave(a, 1);
    if (!transpose(a, d, TRANSPOSED)) return false;
    leave(a, 1);
  }
  return !rest || transpose(a, num(a, n * TRANSPOSED), rest);
}

static bool score_tile(Paged *a, Dim m, int64_t rows, void *ctx) {
  LoopBuilder *b = &a->e.b;
  int64_t u = UNROLL;
  Dim n = num(a, LLM_PAGE), z = num(a, rows);
  (void)ctx;
  Dim r = enter(a, LOOP_UNROLL, "r", z), j = enter(a, LOOP_VECTOR, "j", n);
  loop_store(b, a->tile, at_row(a, r, LLM_PAGE, j), real(a, 0));
  leave(a, 2);
  while (a->size % u) u /= 2;
  Dim d = times(a, enter(a, LOOP_SERIAL, "d", num(a, a->size / u)), u);
  d = add(a, d, enter(a, LOOP_UNROLL, "u", num(a, u)));
  r = enter(a, LOOP_UNROLL, "r", z);
  j = enter(a, LOOP_VECTOR, "j", n);
  Dim at = at_row(a, r, LLM_PAGE, j);
  const LoopExpr *q = cell(a, a->q, at_row(a, add(a, m, r), a->size, d));
  const LoopExpr *k = cell(a, a->kt, at_row(a, d, LLM_PAGE, j));
  loop_store(b, a->tile, at, loop_op(a->e.k, LOOP_fma, k, q, cell(a, a->tile, at)));
  leave(a, 4);
  r = enter(a, LOOP_UNROLL, "r", z);
  j = enter(a, LOOP_VECTOR, "j", n);
  Dim to = add(a, at_row(a, add(a, m, r), PAGED_SPLIT, j), times(a, a->in_split, LLM_PAGE));
  loop_store(b, a->s, to, cell(a, a->tile, at_row(a, r, LLM_PAGE, j)));
  leave(a, 2);
  return true;
}

// ---- pages ----

// Opens the loop over the split's pages that some row of the run sees.
static bool open_pages(Paged *a) {
  LoopBuilder *b = &a->e.b;
  IntPool *p = a->e.pool;
  Dim begin = times(a, a->split, SPLIT_PAGES), page = num(a, LLM_PAGE);
  const LoopExpr *zero = whole(a, 0), *most = whole(a, SPLIT_PAGES);
  const LoopExpr *lo = index_of(a, ie_sub(p, ie_div(p, a->first, page), begin));
  const LoopExpr *hi = index_of(a, ie_sub(p, ie_ceildiv(p, a->last, page), begin));
  lo = let(a, op2(a, LOOP_min, op2(a, LOOP_max, lo, zero), most));
  hi = op2(a, LOOP_min, op2(a, LOOP_max, hi, lo), most);
  Dim from = known(a, "from", lo, SPLIT_PAGES + 1), to = known(a, "to", hi, SPLIT_PAGES + 1);
  Dim i = enter(a, LOOP_SERIAL, "page", ie_sub(p, to, from));
  a->in_split = add(a, from, i);
  elem_forget(&a->e);
  Dim at[2] = {a->seq, loop_bind(b, "entry", index_of(a, add(a, begin, a->in_split)), a->row_pages,
                                 "a position lies outside the page table")};
  const LoopExpr *x = elem_at(&a->e, a->anchor->src[PAGED_TABLE], at);
  if (!x) return false;
  a->page = loop_bind(b, "page", loop_cast(a->e.k, DT_I64, x), a->pages,
                      "the page table has a page that is none of the KV cache");
  return true;
}

// ---- softmax of a split ----

// The score of a query head and a key, with all that is done to it.
static const LoopExpr *finished(Paged *a, Dim at, Dim r, Dim j, const LoopExpr *slope) {
  const LoopExpr *x = cell(a, a->s, at);
  double cap = a->at->softcap;
  if (cap > 0) {
    x = op2(a, LOOP_div, x, real(a, cap));
    x = op2(a, LOOP_mul, loop_op(a->e.k, LOOP_tanh, x, NULL, NULL), real(a, cap));
  }
  if (!slope) return let(a, x);
  Dim key = at_row(a, a->split, PAGED_SPLIT, j);
  Dim before = ie_addc(a->e.pool, ie_sub(a->e.pool, key, add(a, a->length, r)), 1);
  const LoopExpr *far = loop_cast(a->e.k, DT_F32, index_of(a, before));
  return let(a, op2(a, LOOP_add, x, op2(a, LOOP_mul, slope, far)));
}

static const LoopExpr *by_head(Paged *a, const Node *n, Dim g) {
  Dim at = query_head(a, g);
  elem_forget(&a->e);
  const LoopExpr *x = elem_at(&a->e, n, &at);
  elem_forget(&a->e);
  return x ? let(a, loop_cast(a->e.k, DT_F32, x)) : NULL;
}

// Scores become weights, not divided by their sum yet.
static bool softmax(Paged *a) {
  LoopBuilder *b = &a->e.b;
  IntPool *p = a->e.pool;
  Dim r = enter(a, LOOP_SERIAL, "r", a->run_rows), from, to;
  bind_range(a, r, times(a, a->split, PAGED_SPLIT), PAGED_SPLIT, &from, &to);
  Dim g = enter(a, LOOP_SERIAL, "g", num(a, a->group)), m = at_row(a, r, a->group, g);
  Dim n = ie_sub(p, to, from);
  const LoopExpr *slope = NULL;
  if (a->slopes && !(slope = by_head(a, a->slopes, g))) return false;
  if (slope || a->at->softcap > 0) {
    Dim j = add(a, from, enter(a, LOOP_VECTOR, "j", n)), at = at_row(a, m, PAGED_SPLIT, j);
    loop_store(b, a->s, at, finished(a, at, r, j, slope));
    leave(a, 1);
  }
  Dim j = loop_reduce(b, LOOP_max, "j", n, LANES);
  const LoopExpr *top = loop_yield(b, cell(a, a->s, at_row(a, m, PAGED_SPLIT, add(a, from, j))));
  loop_store(b, a->split_top, m, top);
  const LoopExpr *none = op2(a, LOOP_eq, top, real(a, -INFINITY));
  top = let(a, pick(a, none, real(a, 0), top));
  j = enter(a, LOOP_VECTOR, "j", n);
  Dim at = at_row(a, m, PAGED_SPLIT, add(a, from, j));
  loop_store(b, a->s, at, exp_of(a, op2(a, LOOP_sub, cell(a, a->s, at), top)));
  leave(a, 1);
  j = loop_reduce(b, LOOP_add, "j", n, LANES);
  at = at_row(a, m, PAGED_SPLIT, add(a, from, j));
  loop_store(b, a->split_sum, m, loop_yield(b, cell(a, a->s, at)));
  leave(a, 2);
  return true;
}

// ---- values ----

typedef struct Keys {  // of a page
  Dim from, to;
  Dim later;  // the page a split later
} Keys;

// While the first tile of the page is at its key j.
static void prefetch_keys(Paged *a, Dim m, Dim j, Dim col, int64_t width, const Keys *keys) {
  int64_t line = 64 / elem_bytes(type_of(a->anchor->src[PAGED_K])->dtype);
  if (elem_buffer(&a->e, a->anchor->src[PAGED_K]) < 0) return;
  loop_if(&a->e.b, op2(a, LOOP_lt, index_of(a, m), whole(a, 1)));
  for (int64_t i = 0; i < width; i += line)
    prefetch(a, PAGED_K, keys->later, j, ie_addc(a->e.pool, col, i));
  loop_end(&a->e.b);
}

// The page that has the keys a split later, or the last one of the run.
static bool find_later(Paged *a, Dim *out) {
  IntPool *p = a->e.pool;
  Dim entry = add(a, times(a, a->split, SPLIT_PAGES), a->in_split), page = num(a, LLM_PAGE);
  Dim last = ie_addc(p, ie_ceildiv(p, a->last, page), -1);
  entry = ie_min(p, ie_addc(p, entry, SPLIT_PAGES), last);
  elem_forget(&a->e);
  Dim at[2] = {a->seq, loop_bind(&a->e.b, "entry", index_of(a, entry), a->row_pages,
                                 "a position lies outside the page table")};
  const LoopExpr *x = elem_at(&a->e, a->anchor->src[PAGED_TABLE], at);
  if (!x) return false;
  *out = loop_bind(&a->e.b, "later", loop_cast(a->e.k, DT_I64, x), a->pages,
                   "the page table has a page that is none of the KV cache");
  return true;
}

static bool value_block(Paged *a, Dim m, int64_t rows, Dim col, int64_t width, const Keys *keys) {
  LoopBuilder *b = &a->e.b;
  Dim z = num(a, rows), w = num(a, width);
  Dim r = enter(a, LOOP_UNROLL, "r", z), x = enter(a, LOOP_VECTOR, "x", w);
  Dim out = at_row(a, add(a, m, r), a->vsize, add(a, col, x));
  loop_store(b, a->tile, at_row(a, r, width, x), cell(a, a->split_out, out));
  leave(a, 2);
  Dim n = ie_sub(a->e.pool, keys->to, keys->from);
  Dim j = add(a, keys->from, enter(a, LOOP_SERIAL, "j", n));
  prefetch_keys(a, m, j, col, width, keys);
  r = enter(a, LOOP_UNROLL, "r", z);
  x = enter(a, LOOP_VECTOR, "x", w);
  elem_forget(&a->e);
  Dim at = at_row(a, r, width, x), c = add(a, col, x);
  const LoopExpr *v = a->copy_v ? cell(a, a->v, at_row(a, j, a->vsize, c))
                                : element(a, PAGED_V, (Dim[]){a->page, a->head, j, c});
  if (!v) return false;
  Dim weight = add(a, at_row(a, add(a, m, r), PAGED_SPLIT, j), times(a, a->in_split, LLM_PAGE));
  v = loop_op(a->e.k, LOOP_fma, cell(a, a->s, weight), v, cell(a, a->tile, at));
  loop_store(b, a->tile, at, v);
  leave(a, 3);
  r = enter(a, LOOP_UNROLL, "r", z);
  x = enter(a, LOOP_VECTOR, "x", w);
  out = at_row(a, add(a, m, r), a->vsize, add(a, col, x));
  loop_store(b, a->split_out, out, cell(a, a->tile, at_row(a, r, width, x)));
  leave(a, 2);
  return true;
}

static bool value_tile(Paged *a, Dim m, int64_t rows, void *ctx) {
  int64_t n = a->vsize / a->width, rest = a->vsize % a->width;
  Dim c = enter(a, LOOP_SERIAL, "c", num(a, n));
  if (!value_block(a, m, rows, times(a, c, a->width), a->width, ctx)) return false;
  leave(a, 1);
  return !rest || value_block(a, m, rows, num(a, n * a->width), rest, ctx);
}

static bool page_values(Paged *a) {
  LoopBuilder *b = &a->e.b;
  IntPool *p = a->e.pool;
  Dim group = num(a, a->group), from, to, later;
  if (!find_later(a, &later)) return false;
  if (a->copy_v && !copy_page(a, PAGED_V, a->v, a->vsize)) return false;
  Dim begin = add(a, times(a, a->split, PAGED_SPLIT), times(a, a->in_split, LLM_PAGE));
  const LoopExpr *seen =
      op2(a, LOOP_le, index_of(a, ie_addc(p, begin, LLM_PAGE)), index_of(a, a->length));
  const LoopExpr *first = first_key(a, index_of(a, a->last));
  loop_if(b, op2(a, LOOP_and, seen, op2(a, LOOP_le, first, index_of(a, begin))));
  Keys all = {p->zero, num(a, LLM_PAGE), later};
  elem_forget(&a->e);
  if (!tiles(a, p->zero, a->count, a->value_tile, value_tile, &all)) return false;
  loop_else(b);
  elem_forget(&a->e);
  Dim r = enter(a, LOOP_SERIAL, "r", a->run_rows);
  bind_range(a, r, begin, LLM_PAGE, &from, &to);
  Keys some = {from, to, later};
  if (!tiles(a, times(a, r, a->group), group, a->value_tile, value_tile, &some)) return false;
  leave(a, 2);
  return true;
}

// ---- splits ----

// (top, sum, out) of a query head and the split's: the one of which both are parts.
static void merge(Paged *a) {
  LoopBuilder *b = &a->e.b;
  Dim r = enter(a, LOOP_SERIAL, "r", a->run_rows), from, to;
  bind_range(a, r, times(a, a->split, PAGED_SPLIT), PAGED_SPLIT, &from, &to);
  loop_if(b, op2(a, LOOP_lt, index_of(a, from), index_of(a, to)));
  Dim m = at_row(a, r, a->group, enter(a, LOOP_SERIAL, "g", num(a, a->group)));
  const LoopExpr *old = let(a, cell(a, a->top, m)), *top = let(a, cell(a, a->split_top, m));
  const LoopExpr *both = let(a, op2(a, LOOP_max, old, top));
  const LoopExpr *none = op2(a, LOOP_eq, both, real(a, -INFINITY));
  const LoopExpr *base = let(a, pick(a, none, real(a, 0), both));
  const LoopExpr *keep = exp_of(a, op2(a, LOOP_sub, old, base));
  const LoopExpr *take = exp_of(a, op2(a, LOOP_sub, top, base));
  const LoopExpr *sum = op2(a, LOOP_mul, cell(a, a->split_sum, m), take);
  loop_store(b, a->sum, m, loop_op(a->e.k, LOOP_fma, cell(a, a->sum, m), keep, sum));
  loop_store(b, a->top, m, both);
  Dim at = at_row(a, m, a->vsize, enter(a, LOOP_VECTOR, "c", num(a, a->vsize)));
  const LoopExpr *x = op2(a, LOOP_mul, cell(a, a->split_out, at), take);
  loop_store(b, a->out, at, loop_op(a->e.k, LOOP_fma, cell(a, a->out, at), keep, x));
  leave(a, 4);
}

static void set_all(Paged *a, int32_t buffer, int64_t width, double v) {
  Dim i = enter(a, LOOP_VECTOR, "i", times(a, a->count, width));
  loop_store(&a->e.b, buffer, i, real(a, v));
  leave(a, 1);
}

static bool one_split(Paged *a) {
  if (!open_pages(a) || !transpose_page(a)) return false;
  if (!tiles(a, a->e.pool->zero, a->count, a->key_tile, score_tile, NULL)) return false;
  leave(a, 1);
  if (!softmax(a)) return false;
  set_all(a, a->split_out, a->vsize, 0);
  if (!open_pages(a) || !page_values(a)) return false;
  leave(a, 1);
  merge(a);
  return true;
}

static bool splits(Paged *a) {
  LoopBuilder *b = &a->e.b;
  IntPool *p = a->e.pool;
  Dim size = num(a, PAGED_SPLIT);
  loop_if(b, op2(a, LOOP_lt, whole(a, 0), index_of(a, a->length)));
  const LoopExpr *seq = guarded_index(a, PAGED_SEQ, add(a, a->t0, a->run));
  if (!seq) return false;
  a->seq = loop_bind(b, "seq", seq, a->table_rows, "a row's sequence is none of the page table");
  Dim most = ie_addc(p, times(a, a->row_pages, LLM_PAGE), 1);
  a->first =
      loop_bind(b, "first", first_key(a, index_of(a, a->length)), most, "a count is out of range");
  Dim begin = ie_div(p, a->first, size), n = ie_sub(p, ie_ceildiv(p, a->last, size), begin);
  a->split = add(a, begin, enter(a, LOOP_SERIAL, "split", n));
  if (!one_split(a)) return false;
  leave(a, 2);
  return true;
}

// ---- results ----

// What a sink adds to the sum: it has no value.
static bool join_sink(Paged *a, Dim g, Dim m, const LoopExpr **sum, const LoopExpr **keep) {
  *sum = let(a, cell(a, a->sum, m));
  *keep = NULL;
  if (!a->sinks) return true;
  const LoopExpr *sink = by_head(a, a->sinks, g);
  if (!sink) return false;
  const LoopExpr *top = let(a, cell(a, a->top, m)), *both = let(a, op2(a, LOOP_max, top, sink));
  const LoopExpr *none = op2(a, LOOP_eq, both, real(a, -INFINITY));
  both = let(a, pick(a, none, real(a, 0), both));
  *keep = exp_of(a, op2(a, LOOP_sub, top, both));
  *sum = let(a, loop_op(a->e.k, LOOP_fma, *sum, *keep, exp_of(a, op2(a, LOOP_sub, sink, both))));
  return true;
}

static bool finish_rows(Paged *a) {
  ElementBuilder *e = &a->e;
  Dim r = enter(a, LOOP_SERIAL, "r", a->run_rows), row = open_row(a, r);
  Dim g = enter(a, LOOP_SERIAL, "g", num(a, a->group)), m = at_row(a, r, a->group, g);
  const LoopExpr *sum, *keep, *zero = real(a, 0);
  if (!join_sink(a, g, m, &sum, &keep)) return false;
  const LoopExpr *by = op2(a, LOOP_div, keep ? keep : real(a, 1), sum);
  by = let(a, pick(a, op2(a, LOOP_eq, sum, zero), zero, by));
  Dim c = enter(a, LOOP_VECTOR, "c", num(a, a->vsize));
  elem_forget(e);
  const LoopExpr *x = op2(a, LOOP_mul, cell(a, a->out, at_row(a, m, a->vsize, c)), by);
  a->value = let(a, loop_cast(e->k, type_of(a->walk.own)->dtype, x));
  bool ok = epilogue_store(&a->walk, (Dim[]){row, query_head(a, g), c});
  leave(a, 5);
  return ok;
}

// ---- the item ----

// Rows of an item: as many as leave some dozens of items, up to the schedule's.
static Dim rows_per_item(Paged *a) {
  enum { ITEMS = 32 };
  IntPool *g = &a->e.lo->g->dims;
  Dim rows = type_of(a->anchor->src[PAGED_Q])->dims[0];
  Dim more = ie_div(g, ie_mulc(g, rows, a->kv_heads), ie_const(g, ITEMS));
  more = ie_min(g, more, ie_const(g, a->most - 1));
  Dim own = ie_is_const(more) ? num(a, more->value) : elem_own_dim(&a->e, more);
  return ie_addc(a->e.pool, own, 1);
}

bool paged_emit(Paged *a) {
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  a->per_item = rows_per_item(a);
  Dim blocks = ie_ceildiv(p, a->rows, a->per_item), at[2];
  Dim shape[2] = {blocks, num(a, a->kv_heads)}, items = ie_mul(p, blocks, shape[1]);
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, 2, shape, at);
  a->head = at[1];
  a->t0 = ie_mul(p, at[0], a->per_item);
  if (!open_runs(a) || !bind_keys(a)) return false;
  set_all(a, a->top, 1, -INFINITY);
  set_all(a, a->sum, 1, 0);
  set_all(a, a->out, a->vsize, 0);
  if (!copy_queries(a) || !splits(a) || !finish_rows(a)) return false;
  leave(a, 1);
  loop_end(&e->b);
  return true;
}
