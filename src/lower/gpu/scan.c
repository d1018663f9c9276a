// scan.c -- template scan_block: cum_sum and cum_prod on thread blocks.
//
// A block has R rows with S threads each.  A thread takes `each` adjacent elements of its row at a
// time, all threads of a row one tile.  It adds up its own elements, and the sums of the threads
// before it come from shared memory, in two levels where there are many.  What earlier tiles add up
// to stays in a register of each thread.  Threads of a row are adjacent where the axis is the last
// one, else threads of adjacent rows, so that loads coalesce.
//
// Needs:      LowerTarget.block_threads; scan_begin (lower/cpu/scan.h) takes the kernel.  Sizes may
//             be dynamic.
// Guarantees: sums in f64 for floats.  `lanes` and `each` alone change the order of a sum.
//             `reverse` takes tiles, threads and elements from the last to the first.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/scan.h"

#include "eval/index.h"

enum { GROUP = 16, EACH = 4, LONG_EACH = 8, LINE = 32, THREADS_MOST = 1024 };

#define SCAN_BLOCK_SCHEDULE(I, B, C, T)                                                            \
  I(T, rows, 0, 1, 1024, 0, FREE, "rows of a block")                                               \
  I(T, lanes, 0, 1, 1024, 0, ORDER, "threads of a row")                                            \
  I(T, each, 4, 1, 16, 0, ORDER, "contiguous elements of a thread")
SCHEDULE_STRUCT(ScanBlock, SCAN_BLOCK_SCHEDULE);
SCHEDULE_TABLE(ScanBlock, SCAN_BLOCK_SCHEDULE);

typedef struct BlockScan {
  Scan s;
  int64_t rows, lanes, each, threads;
  int64_t group_lanes, groups;  // lanes of a group, and groups of a row; 0: one level
  bool along, reverse, exclusive;
  LoopOp op;
  DType t;
  Dim count, length, item, tile;  // count: of rows
  Dim thread, in_block, lane;     // where the thread stands
  int depth;
  int32_t part, group, kept, before;  // shared; shared; registers: elements, sum of earlier tiles
} BlockScan;

static Dim num(BlockScan *g, int64_t v) { return ie_const(g->s.e.pool, v); }

static void open_threads(BlockScan *g) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  elem_forget(e);
  g->thread = loop_for(&e->b, LOOP_THREAD, "t", num(g, g->threads));
  g->depth = 1;
  Dim lanes = num(g, g->lanes), rows = num(g, g->rows);
  g->in_block = g->along ? ie_div(p, g->thread, lanes) : ie_mod(p, g->thread, rows);
  g->lane = g->along ? ie_mod(p, g->thread, lanes) : ie_div(p, g->thread, rows);
}

static void close_threads(BlockScan *g) {
  thread_close(&g->s.e, g->depth);
  elem_forget(&g->s.e);
}

// The row's coordinates; nothing is done for rows beyond the last.
static void open_row(BlockScan *g) {
  Scan *s = &g->s;
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  Dim outer[MAX_RANK], at[MAX_RANK];
  int n = 0;
  for (int i = 0; i < s->type->rank; i++)
    if (i != s->axis) outer[n++] = s->shape[i];
  Dim row = ie_add(p, ie_mulc(p, g->item, g->rows), g->in_block);
  row = thread_apart(e, row, g->count, n, outer, g->rows, &g->depth);
  elem_split(e, row, n, outer, at);
  n = 0;
  for (int i = 0; i < s->type->rank; i++)
    if (i != s->axis) s->index[i] = at[n++];
}

// Opens the loop over the thread's elements: where the element's value is kept.
static Dim open_elements(BlockScan *g) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  Dim j = loop_for(&e->b, LOOP_UNROLL, "e", num(g, g->each));
  if (g->reverse) j = ie_sub(p, num(g, g->each - 1), j);
  g->depth++;
  Dim first = ie_add(p, ie_mulc(p, g->tile, g->lanes), g->lane);
  Dim place = ie_add(p, ie_mulc(p, first, g->each), j);
  g->s.index[g->s.axis] = thread_guard(e, place, g->length, &g->depth);
  elem_forget(e);
  return ie_add(p, ie_mulc(p, g->thread, g->each), j);
}

static void close_to(BlockScan *g, int depth) {
  thread_close(&g->s.e, g->depth - depth);
  g->depth = depth;
  elem_forget(&g->s.e);
}

static const LoopExpr *joined(BlockScan *g, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(g->s.e.k, g->op, x, y, NULL);
}

static const LoopExpr *identity(BlockScan *g) {
  return elem_number(&g->s.e, g->t, g->op == LOOP_mul);
}

// Each thread's own sum; its elements stay in registers.
static bool add_own(BlockScan *g, int32_t sum) {
  ElementBuilder *e = &g->s.e;
  open_threads(g);
  loop_store(&e->b, sum, g->thread, identity(g));
  int outside = g->depth;
  open_row(g);
  Dim at = open_elements(g);
  const LoopExpr *x = elem_at(e, g->s.node->src[0], g->s.index);
  if (!x) return false;
  x = loop_let(&e->b, loop_cast(e->k, g->t, x));
  loop_store(&e->b, g->kept, at, x);
  loop_store(&e->b, sum, g->thread, joined(g, loop_load(e->k, sum, g->thread), x));
  close_to(g, outside);
  if (g->part >= 0) loop_store(&e->b, g->part, g->thread, loop_load(e->k, sum, g->thread));
  close_threads(g);
  return true;
}

static Dim part_at(BlockScan *g, Dim lane) {
  IntPool *p = g->s.e.pool;
  return g->along ? ie_add(p, ie_mulc(p, g->in_block, g->lanes), lane)
                  : ie_add(p, ie_mulc(p, lane, g->rows), g->in_block);
}

static Dim group_at(BlockScan *g, Dim group) {
  IntPool *p = g->s.e.pool;
  return ie_add(p, ie_mulc(p, g->in_block, g->groups), group);
}

// The sums of the threads of each group.
static void add_groups(BlockScan *g) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  open_threads(g);
  Dim at = thread_guard(e, g->lane, num(g, g->groups), &g->depth);
  Dim q = loop_reduce(&e->b, g->op, "q", num(g, g->group_lanes), 1);
  q = ie_add(p, ie_mulc(p, at, g->group_lanes), q);
  const LoopExpr *x = loop_yield(&e->b, loop_load(e->k, g->part, part_at(g, q)));
  loop_store(&e->b, g->group, group_at(g, at), x);
  close_threads(g);
}

// The sum of those of `n` from the first on, or, backwards, of `all` that lie behind the n-th.
static const LoopExpr *sum_before(BlockScan *g, bool groups, Dim first, Dim n, int64_t all) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  Dim many = g->reverse ? ie_addc(p, ie_sub(p, num(g, all), n), -1) : n;
  Dim q = loop_reduce(&e->b, g->op, "q", many, 1);
  if (g->reverse) q = ie_addc(p, ie_add(p, n, q), 1);
  q = ie_add(p, first, q);
  return loop_yield(&e->b, groups ? loop_load(e->k, g->group, group_at(g, q))
                                  : loop_load(e->k, g->part, part_at(g, q)));
}

// What comes before the thread's elements, in this tile and the earlier ones; and the row's sum up
// to the end of this tile, for the next one.
static void set_before(BlockScan *g, int32_t sum) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  const LoopExpr *before = loop_let(&e->b, loop_load(e->k, g->before, g->thread)), *x = before;
  if (g->part < 0) {
    const LoopExpr *own = loop_load(e->k, sum, g->thread);
    loop_store(&e->b, g->before, g->thread, joined(g, before, own));
    loop_store(&e->b, sum, g->thread, before);
    return;
  }
  Dim zero = p->zero, group = num(g, g->group_lanes), q;
  if (g->groups) {
    Dim mine = ie_div(p, g->lane, group);
    x = joined(g, x, sum_before(g, true, zero, mine, g->groups));
    x = joined(g, x,
               sum_before(g, false, ie_mulc(p, mine, g->group_lanes), ie_mod(p, g->lane, group),
                          g->group_lanes));
    q = loop_reduce(&e->b, g->op, "q", num(g, g->groups), 1);
    before = joined(g, before, loop_yield(&e->b, loop_load(e->k, g->group, group_at(g, q))));
  } else {
    x = joined(g, x, sum_before(g, false, zero, g->lane, g->lanes));
    q = loop_reduce(&e->b, g->op, "q", num(g, g->lanes), 1);
    before = joined(g, before, loop_yield(&e->b, loop_load(e->k, g->part, part_at(g, q))));
  }
  loop_store(&e->b, sum, g->thread, x);
  loop_store(&e->b, g->before, g->thread, before);
}

static bool store_tile(BlockScan *g, int32_t sum) {
  ElementBuilder *e = &g->s.e;
  open_threads(g);
  set_before(g, sum);
  open_row(g);
  Dim at = open_elements(g);
  const LoopExpr *old = loop_let(&e->b, loop_load(e->k, sum, g->thread));
  const LoopExpr *now = loop_let(&e->b, joined(g, old, loop_load(e->k, g->kept, at)));
  g->s.value = loop_let(&e->b, loop_cast(e->k, g->s.type->dtype, g->exclusive ? old : now));
  loop_store(&e->b, sum, g->thread, now);
  bool ok = scan_store(&g->s);
  close_threads(g);
  return ok;
}

// ---- the template ----

static void *scan_block_match(Lowering *lo, const Node *fused) {
  BlockScan *g = arena_new(lo->arena, BlockScan);
  Scan *s = &g->s;
  lo->why = "it has no cumulative sum or product over a constant axis";
  if (!scan_begin(s, lo, fused)) return NULL;
  IntPool *p = s->e.pool;
  const cum_attrs *at = s->node->attrs;
  elem_shape(&s->e, s->type, s->shape);
  g->along = s->vector < 0;
  g->reverse = at->reverse;
  g->exclusive = at->exclusive;
  g->op = s->node->op == OP_cum_prod ? LOOP_mul : LOOP_add;
  g->t = dtype_is_float(s->type->dtype) ? DT_F64 : s->type->dtype;
  g->length = s->shape[s->axis];
  g->count = p->one;
  for (int i = 0; i < s->type->rank; i++)
    if (i != s->axis) g->count = ie_mul(p, g->count, s->shape[i]);
  return g;
}

// As many threads of a row as it has elements for; across, a line of adjacent rows is read at once.
// Few long rows get as many threads as a block may have.
static bool scan_block_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                              void *fields) {
  const BlockScan *g = match;
  ScanBlockSchedule *s = fields;
  int64_t threads = t->block_threads, length = ie_is_const(g->length) ? g->length->value : 0;
  int64_t count = elem_rows(&g->s.e, g->count, 0);
  bool latency_bound = count && count <= t->traits.sm_count && t->has_shuffle && g->along;
  s->each = latency_bound && length >= LONG_EACH * THREADS_MOST ? LONG_EACH : EACH;
  schedule_keep(given, s);
  if (latency_bound && length >= 2 * threads * s->each) threads = THREADS_MOST;
  int64_t useful = length ? power_of_two((length + s->each - 1) / s->each, threads) : threads;
  s->lanes = g->along ? useful : MIN(useful, MAX(threads / LINE, 1));
  s->rows = threads / s->lanes;
  return true;
}

static bool scan_block_legal(const void *match, const LowerTarget *t, const void *fields,
                             const char **why) {
  const ScanBlockSchedule *s = fields;
  (void)match;
  (void)t;
  *why = s->rows * s->lanes > THREADS_MOST ? "a block has at most 1024 threads"
         : s->rows * s->lanes < 2          ? "a block has at least 2 threads"
                                           : NULL;
  return !*why;
}

static void take_schedule(BlockScan *g, const ScanBlockSchedule *s) {
  LoopKernel *k = g->s.e.k;
  g->rows = s->rows;
  g->lanes = s->lanes;
  g->each = s->each;
  g->threads = s->rows * s->lanes;
  g->group_lanes = g->lanes > GROUP * GROUP ? 2 * GROUP : GROUP;
  g->groups = g->lanes > GROUP ? g->lanes / g->group_lanes : 0;
  g->part = g->group = -1;
  if (g->lanes > 1) g->part = loop_buffer(k, LOOP_SHARED, "part", g->t, num(g, g->threads), false);
  if (g->groups)
    g->group = loop_buffer(k, LOOP_SHARED, "group", g->t, num(g, g->rows * g->groups), false);
  g->kept = loop_buffer(k, LOOP_REGISTER, "x", g->t, num(g, g->threads * g->each), false);
  g->before = loop_buffer(k, LOOP_REGISTER, "before", g->t, num(g, g->threads), false);
}

static bool scan_block_build(void *match, const void *fields, Lowered *out) {
  BlockScan *g = match;
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  take_schedule(g, fields);
  int32_t sum = loop_buffer(e->k, LOOP_REGISTER, "sum", g->t, num(g, g->threads), false);
  loop_begin(&e->b, e->k);
  Dim items = ie_ceildiv(p, g->count, num(g, g->rows));
  g->item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) g->item = p->zero;
  open_threads(g);
  loop_store(&e->b, g->before, g->thread, identity(g));
  close_threads(g);
  Dim tiles = ie_ceildiv(p, g->length, num(g, g->lanes * g->each));
  g->tile = loop_for(&e->b, LOOP_SERIAL, "tile", tiles);
  if (g->reverse) g->tile = ie_addc(p, ie_sub(p, tiles, g->tile), -1);
  elem_give(e, g->s.node, scan_value, &g->s);
  if (!add_own(g, sum)) return false;
  if (g->groups) add_groups(g);
  if (!store_tile(g, sum)) return false;
  loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, out);
  loop_hoist(out->kernel);
  return true;
}

const TemplateCode template_scan_block = {.match = scan_block_match,
                                          .choose = scan_block_choose,
                                          .legal = scan_block_legal,
                                          .build = scan_block_build,
                                          SCHEDULE(ScanBlock)};
