// paged_attention.c -- template paged_attention_block: attention over a paged KV cache, on thread
// blocks.
//
// A thread block has a row, a KV head, and some of the query heads that share it.  Keys come in
// splits of PAGED_SPLIT, counted from position 0; each has a softmax from scratch, and splits are
// merged in order.  Of a split a thread has some keys, whose scores it forms for all query heads.
// Then a query head has LANES threads, which make weights of its scores.  For the values a thread
// has some contiguous columns, and every lanes-th key; the lanes' sums are added in order.
//
// Needs:      LowerTarget.block_threads and shared_bytes; paged_begin takes the kernel; a cache of
//             floats.
// Guarantees: a query head's bits depend on its own keys and values, its position and the
//             attributes, and on `lanes`: not on other rows, nor on how many heads an item has.
//             Slots beyond a row's keys are not read.  Positions, sequences and pages are checked
//             when the kernel runs; a row before position 0 gives 0.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/paged_attention.h"

#include "eval/paged.h"

#include <math.h>

enum { LANES = 32, MOST_HEADS = 8, RUN_BYTES = 16 };

// Weights of a query head are added by LANES threads; its values by `lanes`.
#define PAGED_BLOCK_SCHEDULE(I, B, C, T)                                                           \
  I(T, heads, 0, 1, 8, 1, FREE, "query heads of a work item, which share a KV head")               \
  I(T, lanes, 0, 1, 256, 0, ORDER, "threads that share a column of the values")
SCHEDULE_STRUCT(PagedBlock, PAGED_BLOCK_SCHEDULE);
SCHEDULE_TABLE(PagedBlock, PAGED_BLOCK_SCHEDULE);

typedef struct BlockPaged {
  Paged *a;
  int64_t threads, heads, lanes;  // as in the schedule
  int64_t keys;                   // of a thread: a split's over the threads
  int64_t run, columns;           // contiguous columns of a thread; how many such runs there are
  int64_t each;                   // elements of the result of a thread
  int64_t key_run;                // elements of a key that are read at once
  int32_t q, score, top_part, sum_part, split_top, part;  // shared
  int32_t dot, acc, top, sum, out;                        // registers
  Dim row, head, first_head;                              // of the item; first_head: of the query
  Dim t;
} BlockPaged;

static Dim num(BlockPaged *g, int64_t v) { return ie_const(g->a->e.pool, v); }
static Dim add(BlockPaged *g, Dim a, Dim b) { return ie_add(g->a->e.pool, a, b); }
static Dim times(BlockPaged *g, Dim a, int64_t by) { return ie_mulc(g->a->e.pool, a, by); }
static Dim at_row(BlockPaged *g, Dim row, int64_t width, Dim col) {
  return add(g, times(g, row, width), col);
}
static const LoopExpr *op(BlockPaged *g, LoopOp o, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(g->a->e.k, o, x, y, NULL);
}
static const LoopExpr *fma_of(BlockPaged *g, const LoopExpr *x, const LoopExpr *y,
                              const LoopExpr *z) {
  return loop_op(g->a->e.k, LOOP_fma, x, y, z);
}
static const LoopExpr *pick(BlockPaged *g, const LoopExpr *is, const LoopExpr *x,
                            const LoopExpr *y) {
  return loop_op(g->a->e.k, LOOP_select, is, x, y);
}
static const LoopExpr *real(BlockPaged *g, double v) { return loop_float(g->a->e.k, DT_F32, v); }
static const LoopExpr *whole(BlockPaged *g, int64_t v) { return loop_int(g->a->e.k, DT_I64, v); }
static const LoopExpr *get(BlockPaged *g, int32_t b, Dim at) { return loop_load(g->a->e.k, b, at); }
static const LoopExpr *let(BlockPaged *g, const LoopExpr *x) { return loop_let(&g->a->e.b, x); }
static const LoopExpr *exp_of(BlockPaged *g, const LoopExpr *x) {
  return loop_op(g->a->e.k, LOOP_exp, x, NULL, NULL);
}
static Dim enter(BlockPaged *g, LoopKind kind, const char *name, int64_t n) {
  return loop_for(&g->a->e.b, kind, name, num(g, n));
}
static void leave(BlockPaged *g, int n) {
  thread_close(&g->a->e, n);
  elem_forget(&g->a->e);
}
static void open_threads(BlockPaged *g) { g->t = thread_loop(&g->a->e); }
// `x`, or 0 where it is minus infinity: what may be subtracted.
static const LoopExpr *base_of(BlockPaged *g, const LoopExpr *x) {
  return let(g, pick(g, op(g, LOOP_eq, x, real(g, -INFINITY)), real(g, 0), x));
}

static const LoopExpr *element(BlockPaged *g, int operand, const Dim *at) {
  const LoopExpr *x = elem_at(&g->a->e, g->a->anchor->src[operand], at);
  return x ? loop_cast(g->a->e.k, DT_F32, x) : NULL;
}

static const LoopExpr *by_head(BlockPaged *g, const Node *n, Dim h) {
  Dim at = add(g, g->first_head, h);
  const LoopExpr *x = elem_at(&g->a->e, n, &at);
  return x ? let(g, loop_cast(g->a->e.k, DT_F32, x)) : NULL;
}

// ---- the row ----

static const LoopExpr *index_operand(BlockPaged *g, int operand) {
  const LoopExpr *x = elem_at(&g->a->e, g->a->anchor->src[operand], &g->row);
  return x ? let(g, loop_cast(g->a->e.k, DT_I64, x)) : NULL;
}

// How many keys the row has, and the first that it sees.
static bool bind_row(BlockPaged *g) {
  Paged *a = g->a;
  LoopBuilder *b = &a->e.b;
  Dim most = ie_addc(a->e.pool, times(g, a->row_pages, LLM_PAGE), 1);
  const LoopExpr *pos = index_operand(g, PAGED_POS);
  if (!pos) return false;
  const LoopExpr *n = op(g, LOOP_max, op(g, LOOP_add, pos, whole(g, 1)), whole(g, 0));
  a->length = loop_bind(b, "length", n, most, "a position lies outside the page table");
  const LoopExpr *from = whole(g, 0);
  if (a->at->window) {
    from = op(g, LOOP_sub, loop_index(a->e.k, a->length), whole(g, a->at->window));
    from = op(g, LOOP_max, from, whole(g, 0));
  }
  a->first = loop_bind(b, "first", from, most, "a count is out of range");
  return true;
}

// Opens what is done where the thread's key j of the split is one that the row sees, and finds its
// page; counted in *depth.
static bool open_key(BlockPaged *g, Dim j, Dim *key, int *depth) {
  Paged *a = g->a;
  LoopBuilder *b = &a->e.b;
  LoopKernel *k = a->e.k;
  IntPool *p = a->e.pool;
  elem_forget(&a->e);
  *key = loop_where(b, "key", at_row(g, a->split, PAGED_SPLIT, j), a->length);
  ++*depth;
  if (a->at->window) {
    loop_if(b, op(g, LOOP_le, loop_index(k, a->first), loop_index(k, *key)));
    ++*depth;
  }
  Dim at[2] = {a->seq, loop_bind(b, "entry", loop_index(k, ie_div(p, *key, num(g, LLM_PAGE))),
                                 a->row_pages, "a position lies outside the page table")};
  const LoopExpr *x = elem_at(&a->e, a->anchor->src[PAGED_TABLE], at);
  if (!x) return false;
  a->page = loop_bind(b, "page", loop_cast(k, DT_I64, x), a->pages,
                      "the page table has a page that is none of the KV cache");
  return true;
}

// The place of a key's element d in its state.
static void place(BlockPaged *g, Dim key, Dim d, Dim *at) {
  at[0] = g->a->page;
  at[1] = g->head;
  at[2] = ie_mod(g->a->e.pool, key, num(g, LLM_PAGE));
  at[3] = d;
}

static bool begin(BlockPaged *g) {
  Paged *a = g->a;
  ElementBuilder *e = &a->e;
  int64_t all = g->heads * a->size;
  int depth = 2;
  open_threads(g);
  Dim i = enter(g, LOOP_UNROLL, "i", g->each), at = at_row(g, g->t, g->each, i);
  loop_store(&e->b, g->top, at, real(g, -INFINITY));
  loop_store(&e->b, g->sum, at, real(g, 0));
  loop_store(&e->b, g->out, at, real(g, 0));
  leave(g, 1);
  i = enter(g, LOOP_SERIAL, "i", (all + g->threads - 1) / g->threads);
  Dim in = thread_guard(e, at_row(g, i, g->threads, g->t), num(g, all), &depth), part[2];
  elem_split(e, in, 2, (Dim[]){num(g, g->heads), num(g, a->size)}, part);
  const LoopExpr *x = element(g, PAGED_Q, (Dim[]){g->row, add(g, g->first_head, part[0]), part[1]});
  if (!x) return false;
  loop_store(&e->b, g->q, in, op(g, LOOP_mul, x, real(g, a->scale)));
  leave(g, depth);
  return true;
}

// ---- scores ----

// The score of a query head and a key, with all that is done to it.
static const LoopExpr *finished(BlockPaged *g, const LoopExpr *x, Dim h, Dim key) {
  Paged *a = g->a;
  double cap = a->at->softcap;
  if (cap > 0) {
    x = op(g, LOOP_div, x, real(g, cap));
    x = op(g, LOOP_mul, loop_op(a->e.k, LOOP_tanh, x, NULL, NULL), real(g, cap));
  }
  if (!a->slopes) return x;
  const LoopExpr *slope = by_head(g, a->slopes, h);
  if (!slope) return NULL;
  Dim before = ie_addc(a->e.pool, ie_sub(a->e.pool, key, a->length), 1);
  const LoopExpr *far = loop_cast(a->e.k, DT_F32, loop_index(a->e.k, before));
  return op(g, LOOP_add, x, op(g, LOOP_mul, slope, far));
}

// The products of a key with all query heads, element after element.
static bool dot_products(BlockPaged *g, Dim key) {
  Paged *a = g->a;
  ElementBuilder *e = &a->e;
  Dim d = times(g, enter(g, LOOP_SERIAL, "d", a->size / g->key_run), g->key_run), at[4];
  d = add(g, d, enter(g, LOOP_UNROLL, "u", g->key_run));
  elem_forget(e);
  place(g, key, d, at);
  const LoopExpr *x = element(g, PAGED_K, at);
  if (!x) return false;
  x = let(g, x);
  for (int64_t h = 0; h < g->heads; h++) {
    Dim to = at_row(g, g->t, g->heads, num(g, h));
    const LoopExpr *q = get(g, g->q, at_row(g, num(g, h), a->size, d));
    loop_store(&e->b, g->dot, to, fma_of(g, x, q, get(g, g->dot, to)));
  }
  leave(g, 2);
  return true;
}

static bool scores(BlockPaged *g) {
  LoopBuilder *b = &g->a->e.b;
  int depth = 2;
  Dim key;
  open_threads(g);
  Dim i = enter(g, LOOP_SERIAL, "i", g->keys), j = at_row(g, i, g->threads, g->t);
  for (int64_t h = 0; h < g->heads; h++) {
    loop_store(b, g->dot, at_row(g, g->t, g->heads, num(g, h)), real(g, 0));
    loop_store(b, g->score, at_row(g, num(g, h), PAGED_SPLIT, j), real(g, -INFINITY));
  }
  if (!open_key(g, j, &key, &depth) || !dot_products(g, key)) return false;
  for (int64_t h = 0; h < g->heads; h++) {
    const LoopExpr *x = get(g, g->dot, at_row(g, g->t, g->heads, num(g, h)));
    if (!(x = finished(g, x, num(g, h), key))) return false;
    loop_store(b, g->score, at_row(g, num(g, h), PAGED_SPLIT, j), x);
  }
  leave(g, depth);
  return true;
}

// ---- weights ----

// A query head's threads: its number, and which of its threads it is.
static Dim open_head(BlockPaged *g, Dim *lane, int *depth) {
  IntPool *p = g->a->e.pool;
  open_threads(g);
  *depth = 1;
  *lane = ie_mod(p, g->t, num(g, LANES));
  return thread_guard(&g->a->e, ie_div(p, g->t, num(g, LANES)), num(g, g->heads), depth);
}

static Dim score_at(BlockPaged *g, Dim h, Dim i, Dim lane) {
  return at_row(g, h, PAGED_SPLIT, at_row(g, i, LANES, lane));
}

static void weights(BlockPaged *g) {
  LoopBuilder *b = &g->a->e.b;
  int depth;
  Dim lane, h = open_head(g, &lane, &depth), n = num(g, PAGED_SPLIT / LANES);
  Dim i = loop_reduce(b, LOOP_max, "i", n, 1);
  const LoopExpr *x = loop_yield(b, get(g, g->score, score_at(g, h, i, lane)));
  loop_store(b, g->top_part, at_row(g, h, LANES, lane), x);
  leave(g, depth);
  h = open_head(g, &lane, &depth);
  i = loop_reduce(b, LOOP_max, "i", num(g, LANES), 1);
  x = let(g, loop_yield(b, get(g, g->top_part, at_row(g, h, LANES, i))));
  loop_store(b, g->split_top, at_row(g, h, LANES, lane), x);
  const LoopExpr *base = base_of(g, x);
  i = loop_for(b, LOOP_SERIAL, "i", n);
  Dim at = score_at(g, h, i, lane);
  loop_store(b, g->score, at, exp_of(g, op(g, LOOP_sub, get(g, g->score, at), base)));
  leave(g, 1);
  i = loop_reduce(b, LOOP_add, "i", n, 1);
  x = loop_yield(b, get(g, g->score, score_at(g, h, i, lane)));
  loop_store(b, g->sum_part, at_row(g, h, LANES, lane), x);
  leave(g, depth);
}

// ---- values ----

static Dim acc_at(BlockPaged *g, int64_t h, Dim c) {
  return at_row(g, g->t, g->heads * g->run, add(g, num(g, h * g->run), c));
}

// The thread's columns of its keys.
static bool add_values(BlockPaged *g, Dim lane, Dim column) {
  Paged *a = g->a;
  ElementBuilder *e = &a->e;
  const LoopExpr *w[MOST_HEADS];
  Dim i = enter(g, LOOP_SERIAL, "i", PAGED_SPLIT / g->lanes), j = at_row(g, i, g->lanes, lane), key,
      at[4];
  int depth = 2;
  if (!open_key(g, j, &key, &depth)) return false;
  for (int64_t h = 0; h < g->heads; h++)
    w[h] = let(g, get(g, g->score, at_row(g, num(g, h), PAGED_SPLIT, j)));
  Dim c = enter(g, LOOP_UNROLL, "c", g->run);
  elem_forget(e);
  place(g, key, at_row(g, column, g->run, c), at);
  const LoopExpr *x = element(g, PAGED_V, at);
  if (!x) return false;
  x = let(g, x);
  for (int64_t h = 0; h < g->heads; h++) {
    Dim to = acc_at(g, h, c);
    loop_store(&e->b, g->acc, to, fma_of(g, w[h], x, get(g, g->acc, to)));
  }
  leave(g, depth);
  return true;
}

static bool values(BlockPaged *g) {
  Paged *a = g->a;
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  int depth = 1;
  open_threads(g);
  Dim i = enter(g, LOOP_UNROLL, "i", g->heads * g->run);
  loop_store(&e->b, g->acc, at_row(g, g->t, g->heads * g->run, i), real(g, 0));
  leave(g, 1);
  Dim column = ie_mod(p, g->t, num(g, g->columns));
  Dim lane = thread_guard(e, ie_div(p, g->t, num(g, g->columns)), num(g, g->lanes), &depth);
  if (!add_values(g, lane, column)) return false;
  for (int64_t h = 0; h < g->heads; h++) {
    Dim c = enter(g, LOOP_UNROLL, "c", g->run), col = at_row(g, column, g->run, c);
    Dim to = at_row(g, at_row(g, lane, g->heads, num(g, h)), a->vsize, col);
    loop_store(&e->b, g->part, to, get(g, g->acc, acc_at(g, h, c)));
    leave(g, 1);
  }
  leave(g, depth);
  return true;
}

// ---- splits ----

// Opens the loop over the elements of the result that the thread has: the query head and column of
// one, and where its sums are.
static Dim open_result(BlockPaged *g, Dim *h, Dim *column, Dim *in, int *depth) {
  Paged *a = g->a;
  Dim part[2];
  open_threads(g);
  Dim i = enter(g, LOOP_UNROLL, "i", g->each);
  *depth = 2;
  *in = thread_guard(&a->e, at_row(g, i, g->threads, g->t), num(g, g->heads * a->vsize), depth);
  elem_split(&a->e, *in, 2, (Dim[]){num(g, g->heads), num(g, a->vsize)}, part);
  *h = part[0];
  *column = part[1];
  elem_forget(&a->e);
  return at_row(g, g->t, g->each, i);
}

// (top, sum, out) of a query head and the split's: the one of which both are parts.
static void merge(BlockPaged *g) {
  LoopBuilder *b = &g->a->e.b;
  int depth;
  Dim h, column, in, at = open_result(g, &h, &column, &in, &depth);
  Dim i = loop_reduce(b, LOOP_add, "i", num(g, LANES), 1);
  const LoopExpr *sum = let(g, loop_yield(b, get(g, g->sum_part, at_row(g, h, LANES, i))));
  i = loop_reduce(b, LOOP_add, "i", num(g, g->lanes), 1);
  const LoopExpr *x =
      let(g, loop_yield(b, get(g, g->part, at_row(g, i, g->heads * g->a->vsize, in))));
  const LoopExpr *old = let(g, get(g, g->top, at));
  const LoopExpr *top = let(g, get(g, g->split_top, times(g, h, LANES)));
  const LoopExpr *both = let(g, op(g, LOOP_max, old, top)), *base = base_of(g, both);
  const LoopExpr *keep = let(g, exp_of(g, op(g, LOOP_sub, old, base)));
  const LoopExpr *take = let(g, exp_of(g, op(g, LOOP_sub, top, base)));
  loop_store(b, g->top, at, both);
  loop_store(b, g->sum, at, fma_of(g, get(g, g->sum, at), keep, op(g, LOOP_mul, sum, take)));
  loop_store(b, g->out, at, fma_of(g, get(g, g->out, at), keep, op(g, LOOP_mul, x, take)));
  leave(g, depth);
}

static bool splits(BlockPaged *g) {
  Paged *a = g->a;
  LoopBuilder *b = &a->e.b;
  IntPool *p = a->e.pool;
  Dim size = num(g, PAGED_SPLIT);
  loop_if(b, op(g, LOOP_lt, whole(g, 0), loop_index(a->e.k, a->length)));
  const LoopExpr *seq = index_operand(g, PAGED_SEQ);
  if (!seq) return false;
  a->seq = loop_bind(b, "seq", seq, a->table_rows, "a row's sequence is none of the page table");
  Dim from = ie_div(p, a->first, size), n = ie_sub(p, ie_ceildiv(p, a->length, size), from);
  a->split = add(g, from, loop_for(b, LOOP_SERIAL, "split", n));
  if (!scores(g)) return false;
  weights(g);
  if (!values(g)) return false;
  merge(g);
  leave(g, 2);
  return true;
}

// The sum, with a sink's part, which has no value; and what the values are multiplied by.
static bool join_sink(BlockPaged *g, Dim h, Dim at, const LoopExpr **by) {
  const LoopExpr *sum = let(g, get(g, g->sum, at)), *keep = real(g, 1);
  if (g->a->sinks) {
    const LoopExpr *sink = by_head(g, g->a->sinks, h);
    if (!sink) return false;
    const LoopExpr *top = let(g, get(g, g->top, at));
    const LoopExpr *base = base_of(g, let(g, op(g, LOOP_max, top, sink)));
    keep = let(g, exp_of(g, op(g, LOOP_sub, top, base)));
    sum = let(g, fma_of(g, sum, keep, exp_of(g, op(g, LOOP_sub, sink, base))));
  }
  const LoopExpr *zero = real(g, 0);
  *by = let(g, pick(g, op(g, LOOP_eq, sum, zero), zero, op(g, LOOP_div, keep, sum)));
  return true;
}

static bool finish(BlockPaged *g) {
  Paged *a = g->a;
  const LoopExpr *by;
  int depth;
  Dim h, column, in, at = open_result(g, &h, &column, &in, &depth);
  if (!join_sink(g, h, at, &by)) return false;
  const LoopExpr *x = op(g, LOOP_mul, get(g, g->out, at), by);
  a->value = let(g, loop_cast(a->e.k, type_of(a->walk.own)->dtype, x));
  bool ok = epilogue_store(&a->walk, (Dim[]){g->row, add(g, g->first_head, h), column});
  leave(g, depth);
  return ok;
}

// ---- the template ----

static void *paged_block_match(Lowering *lo, const Node *fused) {
  BlockPaged *g = arena_new(lo->arena, BlockPaged);
  lo->why = "it is not paged_attention with constant head counts and sizes";
  g->threads = lo->target.block_threads;
  g->a = paged_begin(lo, fused);
  if (g->a && (g->a->k_scale || g->a->v_scale)) {
    lo->why = "its cache is in 8 bits";
    return NULL;
  }
  return g->a ? g : NULL;
}

// Contiguous elements that one load has, of rows of `size` elements.
static int64_t run_of(const Node *state, int64_t size) {
  int64_t n = RUN_BYTES / elem_bytes(type_of(state)->dtype);
  while (size % n) n /= 2;
  return n;
}

static void take_schedule(BlockPaged *g, const PagedBlockSchedule *s) {
  const Paged *a = g->a;
  g->heads = s->heads;
  g->lanes = s->lanes;
  g->keys = MAX(PAGED_SPLIT / g->threads, 1);
  g->key_run = run_of(a->anchor->src[PAGED_K], a->size);
  g->run = run_of(a->anchor->src[PAGED_V], a->vsize);
  g->columns = a->vsize / g->run;
  g->each = (g->heads * a->vsize + g->threads - 1) / g->threads;
}

static const char *bad_schedule(const BlockPaged *match, const LowerTarget *t,
                                const PagedBlockSchedule *s) {
  BlockPaged g = *match;
  take_schedule(&g, s);
  int64_t floats = g.heads * (g.a->size + PAGED_SPLIT + 4 * LANES + g.lanes * g.a->vsize);
  return g.a->group % g.heads                 ? "heads does not divide the query heads of a KV head"
         : PAGED_SPLIT % g.threads            ? "the threads of a block do not divide a split"
         : g.heads * LANES > g.threads        ? "heads is above the threads of a block over 32"
         : g.columns * g.lanes > g.threads    ? "lanes of all columns need more threads"
         : floats * 4 + 512 > t->shared_bytes ? "its sums do not fit in shared memory"
                                              : NULL;
}

static bool paged_block_legal(const void *match, const LowerTarget *t, const void *fields,
                              const char **why) {
  *why = bad_schedule(match, t, fields);
  return !*why;
}

// As many lanes as there are threads for, up to what the sums of one head may take; then as many
// heads as fit.  So lanes follow from the sizes of a head and the target alone.
static bool paged_block_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                               void *fields) {
  BlockPaged *g = match;
  PagedBlockSchedule *s = fields;
  *s = (PagedBlockSchedule){.heads = 1, .lanes = 256};
  while (s->lanes > 1 && bad_schedule(g, t, s)) s->lanes /= 2;
  schedule_keep(given, s);
  s->heads = MOST_HEADS;
  while (s->heads > 1 && bad_schedule(g, t, s)) s->heads--;
  schedule_keep(given, s);
  return given->t || !bad_schedule(g, t, s);
}

static int32_t buffer(BlockPaged *g, LoopSpace space, const char *name, int64_t n) {
  return loop_buffer(g->a->e.k, space, name, DT_F32, num(g, n), false);
}

static void make_buffers(BlockPaged *g) {
  const Paged *a = g->a;
  g->q = buffer(g, LOOP_SHARED, "q", g->heads * a->size);
  g->score = buffer(g, LOOP_SHARED, "score", g->heads * PAGED_SPLIT);
  g->top_part = buffer(g, LOOP_SHARED, "top_part", g->heads * LANES);
  g->sum_part = buffer(g, LOOP_SHARED, "sum_part", g->heads * LANES);
  g->split_top = buffer(g, LOOP_SHARED, "split_top", g->heads * LANES);
  g->part = buffer(g, LOOP_SHARED, "part", g->lanes * g->heads * a->vsize);
  g->dot = buffer(g, LOOP_REGISTER, "dot", g->threads * g->heads);
  g->acc = buffer(g, LOOP_REGISTER, "acc", g->threads * g->heads * g->run);
  g->top = buffer(g, LOOP_REGISTER, "top", g->threads * g->each);
  g->sum = buffer(g, LOOP_REGISTER, "sum", g->threads * g->each);
  g->out = buffer(g, LOOP_REGISTER, "out", g->threads * g->each);
}

static bool paged_block_build(void *match, const void *fields, Lowered *out) {
  BlockPaged *g = match;
  Paged *a = g->a;
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  Dim at[3];
  take_schedule(g, fields);
  make_buffers(g);
  int64_t tiles = a->group / g->heads;
  Dim shape[3] = {a->rows, num(g, a->kv_heads), num(g, tiles)};
  Dim items = ie_mulc(p, a->rows, a->kv_heads * tiles);
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, 3, shape, at);
  g->row = at[0];
  g->head = at[1];
  g->first_head = at_row(g, at_row(g, at[1], tiles, at[2]), g->heads, p->zero);
  if (!begin(g) || !bind_row(g) || !splits(g) || !finish(g)) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_paged_attention_block = {.match = paged_block_match,
                                                     .choose = paged_block_choose,
                                                     .legal = paged_block_legal,
                                                     .build = paged_block_build,
                                                     SCHEDULE(PagedBlock)};
