// reduce.c -- template reduce_block: reductions, norms and softmax on thread blocks.
//
// A block has R rows with S threads each.  A thread reduces every S-th element of its row.  The S
// partial sums go to shared memory and every thread of the row adds them in a fixed order, so all
// have the total.  Many partial sums are added in two levels.  With shuffles
// (LowerTarget.has_shuffle) a warp reduces without shared memory; a longer row leaves one sum per
// warp there.  Threads of a row are adjacent where rows are contiguous, else threads of adjacent
// rows, so that loads coalesce.
//
// Elements that are read again stay in registers where a row is short.  Operands that all rows
// share are prefetched first, and preloaded where rows are few.
//
// Needs:      LowerTarget.block_threads; rows_begin (lower/cpu/reduce.h) takes the kernel; rows are
//             not empty.  Sizes may be dynamic.
// Guarantees: lanes, vector and warp alone change the order of a sum.  With batch_invariant none of
//             them depends on the number of rows.  The rest is left to template reduce.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/reduce.h"

#include "eval/index.h"
#include "eval/reduce.h"
#include "ir/internal.h"

enum { ROUNDS = 32, SIDE = 4, ALONE = 8, AT_ONCE = 32, PARTS = 8, THREADS_MOST = 1024 };
// Operands that are the same for all rows; bytes of a line of memory, and of one access; rows are
// few up to so many for a multiprocessor, and a thread has so many elements then; rows of a group
// whose number is not known.
enum { SAME = 2, LINE = 128, WIDE = 16, FEW = 2, EACH = 6, SOME = 4 };

// Which elements a thread has, and how the sums of threads are added up, says the order; the rest
// does not.
#define REDUCE_BLOCK_SCHEDULE(I, B, C, T)                                                          \
  I(T, rows, 0, 1, 1024, 0, FREE, "rows of a block")                                               \
  I(T, lanes, 0, 1, 1024, 0, ORDER, "threads of a row")                                            \
  I(T, vector, 1, 1, 16, 0, ORDER, "contiguous elements of a thread")                              \
  I(T, warp, 0, 0, 64, 0, ORDER, "threads that reduce by shuffles; 0: through shared memory")      \
  B(T, unroll, false, FREE, "unroll a thread's elements, which may stay in registers")             \
  B(T, preload, false, FREE, "load operands that all rows share into registers first")
SCHEDULE_STRUCT(ReduceBlock, REDUCE_BLOCK_SCHEDULE);
SCHEDULE_TABLE(ReduceBlock, REDUCE_BLOCK_SCHEDULE);

typedef struct Part {  // a shared buffer of sums, by what it holds
  DType dtype;
  int64_t size;
  int32_t buffer;
} Part;

typedef struct BlockReduce {
  Rows r;
  int64_t threads, lanes, rows;  // of a group; lanes: of a row
  bool along;                    // threads of a row are neighbours
  bool latency_bound;            // rows: what matters is how long one takes
  int64_t warp;                  // threads that see each other's registers; 0: none do
  int64_t rounds;                // elements of a thread, where these are few; 0: not known, or many
  int64_t side;                  // of them that are neighbours
  Dim count;                     // of all rows
  Dim item, t, in_group, lane;   // where the thread stands
  Dim round;                     // of the element at hand
  int depth;                     // loops inside the thread loop
  bool stores;                   // results with an element for each of the rows'
  int32_t row_sum[SUMS];         // registers
  Part part[PARTS];
  int nparts;
  int32_t same[SAME];  // registers: elements of what is the same for all rows
  const Node *same_node[SAME];
  int nsame;
} BlockReduce;

typedef struct Of {
  BlockReduce *g;
  int i;
} Of;

static Of *of(BlockReduce *g, int i) {
  Of *o = arena_new(g->r.e.a, Of);
  *o = (Of){g, i};
  return o;
}

static Dim num(BlockReduce *g, int64_t v) { return ie_const(g->r.e.pool, v); }

// ---- loops ----

static void open_group(BlockReduce *g) {
  elem_forget(&g->r.e);
  g->t = loop_for(&g->r.e.b, LOOP_THREAD, "t", num(g, g->threads));
}

// A thread loop: where the thread stands, and its row.
static void open_threads(BlockReduce *g) {
  ElementBuilder *e = &g->r.e;
  Rows *r = &g->r;
  IntPool *p = e->pool;
  Dim outer[MAX_RANK], at[MAX_RANK];
  int n = 0;
  open_group(g);
  g->depth = 1;
  Dim lanes = num(g, g->lanes), rows = num(g, g->rows);
  g->in_group = g->along ? ie_div(p, g->t, lanes) : ie_mod(p, g->t, rows);
  g->lane = g->along ? ie_mod(p, g->t, lanes) : ie_div(p, g->t, rows);
  Dim row = ie_add(p, ie_mulc(p, g->item, g->rows), g->in_group);
  for (int i = 0; i < r->type->rank; i++)
    if (!r->over[i]) outer[n++] = r->shape[i];
  row = thread_apart(e, row, g->count, n, outer, g->rows, &g->depth);
  elem_split(e, row, n, outer, at);
  n = 0;
  for (int i = 0; i < r->type->rank; i++) r->index[i] = r->over[i] ? p->zero : at[n++];
}

static void close_threads(BlockReduce *g) {
  thread_close(&g->r.e, g->depth);
  elem_forget(&g->r.e);
}

static int row_shape(const Rows *r, Dim *shape) {
  int n = 0;
  for (int i = 0; i < r->type->rank; i++)
    if (r->over[i]) shape[n++] = r->shape[i];
  return n;
}

// The element's index from its place in the row.
static void set_place(BlockReduce *g, Dim place) {
  Rows *r = &g->r;
  Dim shape[MAX_RANK], at[MAX_RANK];
  int n = row_shape(r, shape);
  elem_split(&r->e, place, n, shape, at);
  n = 0;
  for (int i = 0; i < r->type->rank; i++)
    if (r->over[i]) r->index[i] = at[n++];
  r->place = place;
  elem_forget(&r->e);
}

static Dim place_of(BlockReduce *g, Dim round) {
  return ie_add(g->r.e.pool, ie_mulc(g->r.e.pool, round, g->lanes), g->lane);
}

// A place, or a run of them, as it is inside.  Rows in pieces are stored to by their coordinates.
static Dim guard_place(BlockReduce *g, Dim place, Dim extent) {
  Dim shape[MAX_RANK];
  int n = g->stores && g->r.kind != ALONG ? row_shape(&g->r, shape) : 0;
  return thread_apart(&g->r.e, place, extent, n, shape, g->lanes * g->side, &g->depth);
}

// Runs of neighbours, each asked for once.
static void open_runs(BlockReduce *g) {
  ElementBuilder *e = &g->r.e;
  IntPool *p = e->pool;
  Dim run = loop_for(&e->b, LOOP_UNROLL, "j", num(g, g->rounds / g->side));
  Dim runs = ie_div(p, g->r.length, num(g, g->side));
  g->depth += 2;
  Dim at = guard_place(g, place_of(g, run), runs);
  Dim c = loop_for(&e->b, LOOP_UNROLL, "c", num(g, g->side));
  g->round = ie_add(p, ie_mulc(p, run, g->side), c);
  set_place(g, ie_add(p, ie_mulc(p, at, g->side), c));
}

// Loops over the thread's elements of the row.
static void open_elements(BlockReduce *g) {
  ElementBuilder *e = &g->r.e;
  if (g->side > 1) {
    open_runs(g);
    return;
  }
  Dim n = g->rounds ? num(g, g->rounds) : thread_rounds(e, g->r.length, g->lane, g->lanes);
  g->round = loop_for(&e->b, g->rounds ? LOOP_UNROLL : LOOP_SERIAL, "j", n);
  g->depth++;
  Dim place = place_of(g, g->round);
  bool asks = g->rounds || (g->stores && g->r.kind != ALONG);
  set_place(g, asks ? guard_place(g, place, g->r.length) : place);
}

// ---- sums ----

static int32_t registers(BlockReduce *g, const char *name, DType t, int64_t each) {
  return loop_buffer(g->r.e.k, LOOP_REGISTER, name, t, num(g, g->threads * each), false);
}

static int32_t part_of(BlockReduce *g, DType t, int64_t size) {
  for (int i = 0; i < g->nparts; i++)
    if (g->part[i].dtype == t && g->part[i].size == size) return g->part[i].buffer;
  int32_t b = loop_buffer(g->r.e.k, LOOP_SHARED, "part", t, num(g, size), false);
  if (g->nparts < PARTS) g->part[g->nparts++] = (Part){t, size, b};
  return b;
}

static const LoopExpr *identity(BlockReduce *g, LoopOp op, DType t) {
  double f = 0;
  int64_t i = 0;
  loop_identity(op, t, &f, &i);
  return dtype_is_float(t) ? loop_float(g->r.e.k, t, f) : loop_int(g->r.e.k, t, i);
}

// The sum of `n` elements of a shared buffer: first, first + step, ...
static const LoopExpr *sum_part(BlockReduce *g, LoopOp op, int32_t part, Dim first, int64_t step,
                                int64_t n) {
  ElementBuilder *e = &g->r.e;
  Dim q = loop_reduce(&e->b, op, "q", num(g, n), 1);
  return loop_yield(&e->b,
                    loop_load(e->k, part, ie_add(e->pool, first, ie_mulc(e->pool, q, step))));
}

// The same by the lanes of a warp: all of a row, or parts of it that are added in order.  All
// threads take part, those without a row too.
static void join_swapped(BlockReduce *g, LoopOp op, const LoopExpr *x, int32_t total) {
  ElementBuilder *e = &g->r.e;
  IntPool *p = e->pool;
  int64_t n = MIN(g->lanes, g->warp), parts = g->lanes / n;
  int32_t part = part_of(g, x->dtype, g->threads);
  loop_store(&e->b, part, g->t, x);
  close_threads(g);
  open_group(g);
  Dim q = loop_reduce(&e->b, op, "q", num(g, n), (int)n);
  Dim first = ie_mulc(p, ie_div(p, g->t, num(g, n)), n);
  const LoopExpr *sum = loop_yield(&e->b, loop_load(e->k, part, ie_add(p, first, q)));
  if (parts == 1) {
    loop_store(&e->b, total, g->t, sum);
    loop_end(&e->b);
    return;
  }
  int32_t sums = loop_buffer(e->k, LOOP_SHARED, "sums", x->dtype, num(g, g->threads), false);
  loop_store(&e->b, sums, g->t, sum);
  loop_end(&e->b);
  open_group(g);
  first = ie_mulc(p, ie_div(p, g->t, num(g, g->lanes)), g->lanes);
  loop_store(&e->b, total, g->t, sum_part(g, op, sums, first, n, parts));
  loop_end(&e->b);
}

// From each thread's sum, in the open thread loop, to the row's, which every thread gets into its
// register.
static void join_sums(BlockReduce *g, LoopOp op, const LoopExpr *x, int32_t total) {
  ElementBuilder *e = &g->r.e;
  IntPool *p = e->pool;
  DType t = x->dtype;
  if (g->lanes == 1) {
    loop_store(&e->b, total, g->t, x);
    close_threads(g);
    return;
  }
  if (g->warp && t != DT_BOOL && dtype_bits(t) >= 32) {
    join_swapped(g, op, x, total);
    return;
  }
  int32_t part = part_of(g, t, g->threads);
  loop_store(&e->b, part, g->t, x);
  close_threads(g);
  int64_t n = g->lanes, step = g->along ? 1 : g->rows;
  bool twice = n > AT_ONCE;
  if (twice) {
    int64_t half = 1;
    while (half * half < n) half *= 2;
    int32_t less = part_of(g, t, g->rows * half);
    open_threads(g);
    Dim lane = thread_guard(e, g->lane, num(g, half), &g->depth);
    Dim first = g->along ? ie_add(p, ie_mulc(p, g->in_group, n), lane)
                         : ie_add(p, ie_mulc(p, lane, step), g->in_group);
    const LoopExpr *sum = sum_part(g, op, part, first, half * step, n / half);
    loop_store(&e->b, less, ie_add(p, ie_mulc(p, g->in_group, half), lane), sum);
    close_threads(g);
    part = less;
    n = half;
  }
  open_threads(g);
  Dim first = twice || g->along ? ie_mulc(p, g->in_group, n) : g->in_group;
  loop_store(&e->b, total, g->t, sum_part(g, op, part, first, twice ? 1 : step, n));
  close_threads(g);
}

static DType acc_dtype(const Node *n, bool place) {
  DType t = place ? DT_I64 : elem_sum_dtype(type_of(n->src[0])->dtype);
  bool wide = n->op == OP_reduce_mean && !dtype_is_float(t) && t != DT_U64;
  return wide ? DT_I64 : t;
}

// The element at hand as it is added up: `most` NULL, or its place where it is the greatest.
static const LoopExpr *addend(BlockReduce *g, const Node *n, LoopOp op, const LoopExpr *x,
                              const LoopExpr *most) {
  LoopKernel *k = g->r.e.k;
  if (most) {
    const LoopExpr *is = loop_op(k, LOOP_eq, x, most, NULL);
    if (dtype_is_float(x->dtype))
      is = loop_op(k, LOOP_or, is, loop_op(k, LOOP_is_nan, x, NULL, NULL), NULL);
    x = loop_op(k, LOOP_select, is, loop_index(k, g->r.place),
                loop_int(k, DT_I64, op == LOOP_min ? INT64_MAX : -1));
  }
  return loop_cast(k, acc_dtype(n, most != NULL), x);
}

static const LoopExpr *sum_rounds(BlockReduce *g, const Node *n, LoopOp op, const LoopExpr *most) {
  ElementBuilder *e = &g->r.e;
  Dim rounds = thread_rounds(e, g->r.length, g->lane, g->lanes);
  Dim j = loop_reduce(&e->b, op, "j", rounds, 1);
  set_place(g, place_of(g, j));
  const LoopExpr *x = elem_at(e, n->src[0], g->r.index);
  return x ? loop_yield(&e->b, addend(g, n, op, x, most)) : NULL;
}

// The sum of the thread's elements: where these are few their loop is written out, and each may be
// kept in a register.
static const LoopExpr *thread_sum(BlockReduce *g, const Node *n, LoopOp op, const LoopExpr *most,
                                  int32_t keep) {
  ElementBuilder *e = &g->r.e;
  if (!g->rounds) return sum_rounds(g, n, op, most);
  DType t = acc_dtype(n, most != NULL);
  int32_t acc = registers(g, "acc", t, 1);
  int depth = g->depth;
  loop_store(&e->b, acc, g->t, identity(g, op, t));
  open_elements(g);
  const LoopExpr *x = elem_at(e, n->src[0], g->r.index);
  if (!x) return NULL;
  if (keep >= 0) {
    x = loop_let(&e->b, x);
    Dim at = ie_add(e->pool, ie_mulc(e->pool, g->t, g->rounds), g->round);
    loop_store(&e->b, keep, at, x);
  }
  x = addend(g, n, op, x, most);
  loop_store(&e->b, acc, g->t, loop_op(e->k, op, loop_load(e->k, acc, g->t), x, NULL));
  thread_close(e, g->depth - depth);
  g->depth = depth;
  elem_forget(e);
  return loop_load(e->k, acc, g->t);
}

static const LoopExpr *give_total(void *ctx, const Dim *index) {
  const Of *o = ctx;
  Rows *r = &o->g->r;
  int k = 0;
  bool kept = type_of(r->sum[o->i])->rank == r->type->rank;
  for (int d = 0; d < r->type->rank; d++) {
    if (!r->over[d] && !rows_same_index(r, d, index[k])) return NULL;
    k += kept || !r->over[d];
  }
  return loop_load(r->e.k, o->g->row_sum[o->i], o->g->t);
}

static const LoopExpr *give_kept(void *ctx, const Dim *index) {
  const Of *o = ctx;
  BlockReduce *g = o->g;
  for (int d = 0; d < g->r.type->rank; d++)
    if (!rows_same_index(&g->r, d, index[d])) return NULL;
  Dim at = ie_add(g->r.e.pool, ie_mulc(g->r.e.pool, g->t, g->rounds), g->round);
  return loop_load(g->r.e.k, g->r.scratch[o->i], at);
}

static bool worth_keeping(BlockReduce *g, int i) {
  const Node *n = g->r.sum[i]->src[0];
  return g->rounds && !rows_is_arg(g->r.sum[i]) && g->r.nkept < KEEP && !rows_kept(&g->r, n) &&
         rows_read_again(&g->r, i);
}

static bool add_sum(BlockReduce *g, int i) {
  Rows *r = &g->r;
  ElementBuilder *e = &r->e;
  const Node *n = r->sum[i];
  DType t = type_of(n->src[0])->dtype;
  LoopOp op = rows_sum_op(n);
  if (t == DT_BOOL && n->op != OP_reduce_max && n->op != OP_reduce_min) return false;
  if (n->op == OP_reduce_mean && !dtype_is_float(t) && r->length->lo < 1) return false;
  bool keep = worth_keeping(g, i);
  if (keep) r->scratch[r->nkept] = registers(g, "row", t, g->rounds);
  open_threads(g);
  const LoopExpr *x = thread_sum(g, n, op, NULL, keep ? r->scratch[r->nkept] : -1);
  if (!x) return false;
  int32_t sum = registers(g, "sum", x->dtype, 1);
  join_sums(g, op, x, sum);
  if (keep) {
    r->kept[r->nkept] = n->src[0];
    elem_give(e, n->src[0], give_kept, of(g, r->nkept++));
  }
  if (rows_is_arg(n)) {
    op = ((const arg_attrs *)n->attrs)->select_last_index ? LOOP_max : LOOP_min;
    open_threads(g);
    const LoopExpr *most = loop_let(&e->b, loop_cast(e->k, t, loop_load(e->k, sum, g->t)));
    if (!(x = thread_sum(g, n, op, most, -1))) return false;
    sum = registers(g, "place", x->dtype, 1);
    join_sums(g, op, x, sum);
  }
  g->row_sum[i] = registers(g, "total", type_of(n)->dtype, 1);
  open_threads(g);
  loop_store(&e->b, g->row_sum[i], g->t, rows_finish_sum(r, n, loop_load(e->k, sum, g->t)));
  close_threads(g);
  elem_give(e, n, give_total, of(g, i));
  return true;
}

// ---- what is the same for all rows ----

static const LoopExpr *give_same(void *ctx, const Dim *index) {
  const Of *o = ctx;
  BlockReduce *g = o->g;
  ElementBuilder *e = &g->r.e;
  const Node *n = g->same_node[o->i];
  Dim shape[MAX_RANK];
  elem_shape(e, type_of(n), shape);
  Dim at = elem_linear(e, type_of(n)->rank, shape, index);
  if (e->nguards) {
    LoopBound *guard = arena_dup(e->a, e->guard, e->nguards * (int64_t)sizeof *guard);
    return loop_load_guarded(e->k, elem_buffer(e, n), at, e->nguards, guard, NULL);
  }
  if (at != g->r.place) return loop_load(e->k, elem_buffer(e, n), at);
  at = ie_add(e->pool, ie_mulc(e->pool, g->t, g->rounds), g->round);
  return loop_load(e->k, g->same[o->i], at);
}

// Operands of one row: the first thread loop asks for their lines, the second one reads them.
static void find_same(BlockReduce *g) {
  Rows *r = &g->r;
  ElementBuilder *e = &r->e;
  if (!g->rounds || !r->whole || !g->warp) return;
  for (int64_t i = 0; i < e->body->nparams && g->nsame < SAME; i++) {
    const Node *n = e->body->param[i];
    int32_t b = elem_buffer(e, n);
    bool one = b >= 0 && e->k->buffer[b].size == r->length && g->count != e->pool->one;
    if (one && dtype_is_float(type_of(n)->dtype)) g->same_node[g->nsame++] = n;
  }
}

static void ask_same(BlockReduce *g) {
  ElementBuilder *e = &g->r.e;
  open_group(g);
  for (int i = 0; i < g->nsame; i++) {
    int32_t b = elem_buffer(e, g->same_node[i]);
    int64_t each = LINE * 8 / dtype_bits(e->k->buffer[b].dtype);
    int64_t lines = (g->r.length->value + each - 1) / each;
    int depth = 0;
    Dim line = thread_guard(e, g->t, num(g, MIN(lines, g->threads)), &depth);
    loop_prefetch(&e->b, b, ie_mulc(e->pool, line, each));
    thread_close(e, depth);
  }
  loop_end(&e->b);
}

static void keep_same(BlockReduce *g) {
  ElementBuilder *e = &g->r.e;
  find_same(g);
  if (!g->nsame) return;
  ask_same(g);
  if (!g->latency_bound) return;
  for (int i = 0; i < g->nsame; i++) {
    const Node *n = g->same_node[i];
    g->same[i] = registers(g, "same", type_of(n)->dtype, g->rounds);
    open_threads(g);
    open_elements(g);
    Dim at = ie_add(e->pool, ie_mulc(e->pool, g->t, g->rounds), g->round);
    loop_store(&e->b, g->same[i], at, loop_load(e->k, elem_buffer(e, n), g->r.place));
    close_threads(g);
    elem_give(e, n, give_same, of(g, i));
  }
}

// ---- results ----

static bool store_those(BlockReduce *g, bool whole, Dim lane) {
  Rows *r = &g->r;
  ElementBuilder *e = &r->e;
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *n = e->body->result[i], *c = elem_core(n);
    Dim at[MAX_RANK], index[MAX_RANK];
    if (rows_is_whole(r, type_of(c)) != whole) continue;
    rows_result_index(r, type_of(c), whole, at);
    const LoopExpr *x = elem_at(e, c, at);
    if (!x) return false;
    loop_store(&e->b, elem_result(e, i), ie_add(e->pool, elem_place(e, n, at, index), lane), x);
  }
  return true;
}

static bool store_results(BlockReduce *g) {
  ElementBuilder *e = &g->r.e;
  bool reduced = false, ok = true;
  for (int i = 0; i < e->fused->nres; i++)
    reduced |= !rows_is_whole(&g->r, type_of(elem_core(e->body->result[i])));
  if (g->r.whole) {
    open_threads(g);
    g->stores = true;
    open_elements(g);
    g->stores = false;
    ok = store_those(g, true, e->pool->zero);
    close_threads(g);
  }
  if (reduced && ok) {  // by the row's first thread
    open_threads(g);
    Dim lane = g->lanes > 1 ? thread_guard(e, g->lane, e->pool->one, &g->depth) : e->pool->zero;
    ok = store_those(g, false, lane);
    close_threads(g);
  }
  return ok;
}

// ---- the kernel ----

// Threads of a row that lies together: enough that each has a few elements; where there are rows
// for all multiprocessors, no more than add their sums up in one step, unless that leaves each with
// too many.
static int64_t lanes_along(const BlockReduce *g, const LowerTarget *t, int64_t length,
                           int64_t count) {
  int64_t most = length ? power_of_two((length + 3) / 4, g->threads) : g->threads;
  int64_t least = length ? power_of_two((length + ROUNDS - 1) / ROUNDS, g->threads) : g->threads;
  bool many = !t->batch_invariant && count >= (int64_t)t->traits.sm_count * (g->threads / AT_ONCE);
  return many ? MAX(least, MIN(most, AT_ONCE)) : most;
}

// Bytes of the widest of the elements that a row has.
static int64_t widest(const BlockReduce *g) {
  const LoopKernel *k = g->r.e.k;
  Dim all = ie_mul(k->pool, g->count, g->r.length);
  int64_t most = 1;
  for (int32_t i = 0; i < k->nargs; i++)
    if (k->buffer[i].size == all) most = MAX(most, dtype_bits(k->buffer[i].dtype) / 8);
  return most;
}

// Threads of a row, in one warp or several: few elements of each where rows are few, else one part
// unless a thread has too many.
static int64_t lanes_swapped(const BlockReduce *g, const LowerTarget *t, int64_t length) {
  if (!length) return g->threads;
  int64_t most = power_of_two((length + 3) / 4, g->threads);
  int64_t least = power_of_two((length + ROUNDS - 1) / ROUNDS, g->threads);
  int64_t lanes = MAX(least, MIN(most, t->traits.warp_size));
  bool widen = g->latency_bound && !t->batch_invariant;
  while (widen && lanes >= t->traits.warp_size && lanes < g->threads && length >= EACH * 2 * lanes)
    lanes *= 2;
  return lanes;
}

// Thread blocks are small where rows are few, so that every multiprocessor has some; elements go by
// 16 bytes where each thread has as many of them.  A multiprocessor that has one long row alone
// gets as many threads as a block may have.
static void choose_swapped(BlockReduce *g, const LowerTarget *t, int64_t length, int64_t count) {
  bool alone = count && count <= t->traits.sm_count && !t->batch_invariant;
  if (alone && length >= (int64_t)ROUNDS * g->threads) g->threads = THREADS_MOST;
  g->warp = t->traits.warp_size;
  g->latency_bound = count && count <= FEW * t->traits.sm_count;
  g->lanes = lanes_swapped(g, t, length);
  int64_t most = g->threads / g->lanes, rows = MAX(MIN(t->traits.warp_size / g->lanes, most), 1);
  while (rows < most && (count ? count / (2 * rows) >= t->traits.sm_count : 2 * rows <= SOME))
    rows *= 2;
  g->rows = rows;
  g->threads = g->rows * g->lanes;
  if (length && length % g->lanes == 0)
    while (g->side * 2 <= WIDE / widest(g) && length / g->lanes % (g->side * 2) == 0) g->side *= 2;
  else if (length % SIDE == 0 && length >= SIDE * g->lanes)
    g->side = SIDE;
}

static int64_t length_of(const BlockReduce *g) {
  return ie_is_const(g->r.length) ? g->r.length->value : 0;
}

static int64_t rounds_of(int64_t length, int64_t lanes, int64_t side) {
  int64_t round = lanes * side;
  return (length + round - 1) / round * side;
}

static void choose(BlockReduce *g, const LowerTarget *t) {
  int64_t length = length_of(g), count = elem_rows(&g->r.e, g->count, 0);
  g->side = 1;
  if (g->along && t->has_shuffle) {
    choose_swapped(g, t, length, count);
    return;
  }
  g->lanes = lanes_along(g, t, length, count);
  if (!g->along) {
    int64_t useful = length ? power_of_two((length + 3) / 4, g->threads) : g->threads;
    bool many = !t->batch_invariant && count && count / g->threads >= 4 * AT_ONCE;
    g->lanes = many || (length && length <= ALONE) ? 1 : MIN(useful, MAX(g->threads / AT_ONCE, 1));
  }
  g->rows = g->threads / g->lanes;
  bool by_runs = g->along && length && length % SIDE == 0 && length >= SIDE * g->lanes;
  g->side = by_runs ? SIDE : 1;
}

// Whether all rows read something alike that has room in registers.
static bool reads_same(const BlockReduce *match, const ReduceBlockSchedule *s) {
  BlockReduce g = *match;
  g.warp = s->warp;
  g.rounds = s->unroll;
  find_same(&g);
  return g.nsame > 0;
}

static bool reduce_block_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                                void *fields) {
  BlockReduce g = *(const BlockReduce *)match;
  ReduceBlockSchedule *s = fields;
  choose(&g, t);
  *s = (ReduceBlockSchedule){.rows = g.rows, .lanes = g.lanes, .vector = g.side, .warp = g.warp};
  schedule_keep(given, s);
  int64_t rounds = rounds_of(length_of(&g), s->lanes, s->vector);
  // A thread of a full block has half as many registers.
  s->unroll = rounds > 0 && rounds <= (s->rows * s->lanes == THREADS_MOST ? ROUNDS / 2 : ROUNDS);
  if (!s->unroll) s->vector = 1;
  s->preload = g.latency_bound && reads_same(&g, s);
  return true;
}

static bool reduce_block_legal(const void *match, const LowerTarget *t, const void *fields,
                               const char **why) {
  enum { ROUNDS_MOST = 256 };
  const BlockReduce *g = match;
  const ReduceBlockSchedule *s = fields;
  int64_t length = length_of(g);
  *why = s->rows * s->lanes > THREADS_MOST ? "a block has at most 1024 threads"
         : s->rows * s->lanes < 2          ? "a block has at least 2 threads"
         : s->warp && (!g->along || !t->has_shuffle)
             ? "warp is for contiguous rows, on targets with shuffles"
         : s->unroll && (!length || rounds_of(length, s->lanes, s->vector) > ROUNDS_MOST)
             ? "unroll is for rows of known length with at most 256 elements a thread"
         : s->vector > 1 && (!s->unroll || !g->along || length % s->vector)
             ? "vector needs unroll, and must divide a contiguous row"
         : s->preload && !reads_same(g, s)
             ? "preload is for operands that all rows read alike, with unroll and warp"
             : NULL;
  return !*why;
}

static void *reduce_block_match(Lowering *lo, const Node *fused) {
  BlockReduce *g = arena_new(lo->arena, BlockReduce);
  Rows *r = &g->r;
  lo->why = "it has no reductions over the same axes of values of one shape";
  if (!rows_begin(r, lo, fused)) return NULL;
  rows_measure(r);
  g->threads = lo->target.block_threads;
  g->along = r->kind != ACROSS;
  g->count = r->e.pool->one;
  for (int i = 0; i < r->type->rank; i++)
    if (!r->over[i]) g->count = ie_mul(r->e.pool, g->count, r->shape[i]);
  return g;
}

static bool reduce_block_build(void *match, const void *fields, Lowered *out) {
  BlockReduce *g = match;
  Rows *r = &g->r;
  ElementBuilder *e = &r->e;
  const ReduceBlockSchedule *s = fields;
  g->rows = s->rows;
  g->lanes = s->lanes;
  g->threads = s->rows * s->lanes;
  g->side = s->vector;
  g->warp = s->warp;
  g->latency_bound = s->preload;
  g->rounds = s->unroll ? rounds_of(length_of(g), s->lanes, s->vector) : 0;
  loop_begin(&e->b, e->k);
  Dim items = ie_ceildiv(e->pool, g->count, num(g, g->rows));
  g->item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) g->item = e->pool->zero;
  keep_same(g);
  for (int i = 0; i < r->nsums; i++)
    if (!add_sum(g, i)) return false;
  if (!store_results(g)) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  loop_hoist(out->kernel);
  return true;
}

const TemplateCode template_reduce_block = {.match = reduce_block_match,
                                            .choose = reduce_block_choose,
                                            .legal = reduce_block_legal,
                                            .build = reduce_block_build,
                                            SCHEDULE(ReduceBlock)};
