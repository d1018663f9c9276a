// topk.c -- template topk_block: top_k on thread blocks, by a bitonic sort in shared memory.
//
// Elements become integer keys of the same order (lower/cpu/topk.h).  A block sorts pairs of key
// and place, the greatest first; equal keys go by place, so the order is total.  A row that has no
// room goes through the sort in pieces: the k best so far stay in front, and the next elements take
// the places behind.  Several short rows share a block.
//
// Needs:      LowerTarget.block_threads and shared memory for 2k pairs; constant k and row.  Other
//             axes may be dynamic.
// Guarantees: the order of the reference evaluation.  Every field is FREE.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/topk.h"

#include "ir/internal.h"

enum { THREADS_MOST = 1024, SORT_MOST = 1 << 12 };

#define TOPK_BLOCK_SCHEDULE(I, B, C, T)                                                            \
  I(T, size, 0, 2, 1 << 14, 0, FREE, "pairs of a row that are sorted at once")                     \
  I(T, rows, 1, 1, 1024, 0, FREE, "rows of a block")                                               \
  I(T, threads, 0, 2, 1024, 0, FREE, "threads of a block")
SCHEDULE_STRUCT(TopkBlock, TOPK_BLOCK_SCHEDULE);
SCHEDULE_TABLE(TopkBlock, TOPK_BLOCK_SCHEDULE);

typedef struct BlockTopK {
  TopK t;
  int64_t size, rows, threads;
  int64_t kept;  // pairs in front that stay: k, or 0 where a row is sorted at once
  int32_t keys, places;
  Dim count, item, thread;
} BlockTopK;

static Dim num(BlockTopK *g, int64_t v) { return ie_const(g->t.e.pool, v); }

static int64_t pair_bytes(const BlockTopK *g) { return elem_bytes(g->t.key) + 4; }

// Opens loops over `n` slots, shared among the threads: the slot.
static Dim open_slots(BlockTopK *g, int64_t n, int *depth) {
  ElementBuilder *e = &g->t.e;
  IntPool *p = e->pool;
  int64_t rounds = (n + g->threads - 1) / g->threads;
  elem_forget(e);
  g->thread = loop_for(&e->b, LOOP_THREAD, "t", num(g, g->threads));
  Dim at = g->thread;
  *depth = 1;
  if (rounds > 1) {
    Dim j = loop_for(&e->b, LOOP_SERIAL, "j", num(g, rounds));
    at = ie_add(p, ie_mulc(p, j, g->threads), at);
    ++*depth;
  }
  return thread_guard(e, at, num(g, n), depth);
}

static void close_slots(BlockTopK *g, int depth) {
  thread_close(&g->t.e, depth);
  elem_forget(&g->t.e);
}

// The coordinates of the row that a slot belongs to, of `each` slots a row.
static void set_row(BlockTopK *g, Dim slot, int64_t each, int *depth) {
  TopK *t = &g->t;
  ElementBuilder *e = &t->e;
  IntPool *p = e->pool;
  Dim outer[MAX_RANK], at[MAX_RANK], row = g->item;
  int n = 0;
  for (int i = 0; i < t->type->rank; i++)
    if (i != t->axis) outer[n++] = t->shape[i];
  if (g->rows > 1) {
    row = ie_add(p, ie_mulc(p, g->item, g->rows), ie_div(p, slot, num(g, each)));
    row = thread_apart(e, row, g->count, n, outer, g->rows, depth);
  }
  elem_split(e, row, n, outer, at);
  n = 0;
  for (int i = 0; i < t->type->rank; i++)
    if (i != t->axis) t->index[i] = at[n++];
}

static const LoopExpr *least(BlockTopK *g) {
  return loop_int(g->t.e.k, g->t.key, g->t.key == DT_I64 ? INT64_MIN : INT32_MIN);
}

static void store_pair(BlockTopK *g, Dim at, const LoopExpr *key, const LoopExpr *place) {
  loop_store(&g->t.e.b, g->keys, at, key);
  loop_store(&g->t.e.b, g->places, at, place);
}

// Pairs behind all others.
static void clear(BlockTopK *g, int64_t n) {
  int depth;
  Dim slot = open_slots(g, n, &depth);
  store_pair(g, slot, least(g), loop_int(g->t.e.k, DT_I32, INT32_MAX));
  close_slots(g, depth);
}

// The elements of one piece of the rows.
static bool load(BlockTopK *g, Dim piece) {
  TopK *t = &g->t;
  ElementBuilder *e = &t->e;
  IntPool *p = e->pool;
  int64_t fresh = g->size - g->kept;
  int depth;
  Dim slot = open_slots(g, g->rows * fresh, &depth), to = ie_addc(p, slot, g->kept);
  store_pair(g, to, least(g), loop_int(e->k, DT_I32, INT32_MAX));
  Dim place = g->rows > 1 ? ie_mod(p, slot, num(g, fresh)) : slot;
  place = ie_add(p, ie_mulc(p, piece, fresh), place);
  set_row(g, slot, fresh, &depth);
  t->index[t->axis] = thread_guard(e, place, num(g, t->n), &depth);
  elem_forget(e);
  const LoopExpr *x = elem_at(e, t->node->src[0], t->index);
  if (!x) return false;
  const LoopExpr *at = loop_cast(e->k, DT_I32, loop_index(e->k, t->index[t->axis]));
  store_pair(g, to, topk_key(t, x), at);
  close_slots(g, depth);
  return true;
}

// Whether pair a goes before pair b.
static const LoopExpr *before(BlockTopK *g, const LoopExpr *const *a, const LoopExpr *const *b) {
  LoopKernel *k = g->t.e.k;
  const LoopExpr *alike = loop_op(k, LOOP_and, loop_op(k, LOOP_eq, a[0], b[0], NULL),
                                  loop_op(k, LOOP_lt, a[1], b[1], NULL), NULL);
  return loop_op(k, LOOP_or, loop_op(k, LOOP_lt, b[0], a[0], NULL), alike, NULL);
}

// Pairs `stride` apart, in runs of `run` that are sorted alternately down and up.
static void compare(BlockTopK *g, int64_t run, int64_t stride) {
  ElementBuilder *e = &g->t.e;
  LoopKernel *k = e->k;
  IntPool *p = e->pool;
  int depth;
  Dim i = open_slots(g, g->rows * g->size / 2, &depth), by = num(g, stride);
  Dim lo = ie_add(p, ie_mulc(p, ie_div(p, i, by), 2 * stride), ie_mod(p, i, by));
  Dim hi = ie_addc(p, lo, stride);
  const LoopExpr *a[2], *b[2];
  a[0] = loop_let(&e->b, loop_load(k, g->keys, lo));
  a[1] = loop_let(&e->b, loop_load(k, g->places, lo));
  b[0] = loop_let(&e->b, loop_load(k, g->keys, hi));
  b[1] = loop_let(&e->b, loop_load(k, g->places, hi));
  const LoopExpr *swap = before(g, b, a);
  if (run < g->size) {
    Dim up = ie_mod(p, ie_div(p, i, num(g, run / 2)), num(g, 2));
    const LoopExpr *is = loop_op(k, LOOP_eq, loop_index(k, up), loop_int(k, DT_I64, 1), NULL);
    swap = loop_op(k, LOOP_xor, swap, is, NULL);
  }
  loop_if(&e->b, swap);
  store_pair(g, lo, b[0], b[1]);
  store_pair(g, hi, a[0], a[1]);
  loop_end(&e->b);
  close_slots(g, depth);
}

static bool store_best(BlockTopK *g) {
  TopK *t = &g->t;
  ElementBuilder *e = &t->e;
  IntPool *p = e->pool;
  int depth;
  // Rows of several get as many slots that every thread has one: it is read off row and result.
  int64_t each = t->k;
  if (g->rows > 1) each = MAX(power_of_two(t->k, g->size), g->threads / g->rows);
  Dim slot = open_slots(g, g->rows * each, &depth), from = slot;
  set_row(g, slot, each, &depth);
  t->result = slot;
  if (g->rows > 1) {
    t->result = thread_guard(e, ie_mod(p, slot, num(g, each)), num(g, t->k), &depth);
    from = ie_add(p, ie_mulc(p, ie_div(p, slot, num(g, each)), g->size), t->result);
  }
  elem_forget(e);
  t->value[1] = loop_let(&e->b, loop_cast(e->k, DT_I64, loop_load(e->k, g->places, from)));
  t->index[t->axis] = loop_bind(&e->b, "at", t->value[1], num(g, t->n), "top_k found no element");
  t->value[0] = elem_at(e, t->node->src[0], t->index);
  bool ok = t->value[0] && topk_store(t);
  close_slots(g, depth);
  return ok;
}

// ---- the template ----

static void *topk_block_match(Lowering *lo, const Node *fused) {
  BlockTopK *g = arena_new(lo->arena, BlockTopK);
  TopK *t = &g->t;
  lo->why = "it has no top_k of constant sizes";
  if (!topk_begin(t, lo, fused) || t->n > INT32_MAX) return NULL;
  elem_shape(&t->e, t->type, t->shape);
  g->count = t->e.pool->one;
  for (int i = 0; i < t->type->rank; i++)
    if (i != t->axis) g->count = ie_mul(t->e.pool, g->count, t->shape[i]);
  return g;
}

static bool topk_block_choose(void *match, const LowerTarget *target, const ScheduleGiven *given,
                              void *fields) {
  const BlockTopK *g = match;
  TopkBlockSchedule *s = fields;
  int64_t most = 2, n = g->t.n;
  while (most < SORT_MOST && 2 * most * pair_bytes(g) <= target->shared_bytes) most *= 2;
  s->size = power_of_two(MAX(n, 2), most);
  schedule_keep(given, s);
  if (n > s->size && 2 * g->t.k > s->size) return false;
  s->threads = target->block_threads;
  if (target->has_shuffle && s->size >= 4 * s->threads) s->threads = THREADS_MOST;
  schedule_keep(given, s);
  bool whole = n <= s->size;
  s->rows = whole ? MAX(MIN(2 * s->threads, most) / s->size, 1) : 1;
  return true;
}

static bool topk_block_legal(const void *match, const LowerTarget *target, const void *fields,
                             const char **why) {
  const BlockTopK *g = match;
  const TopkBlockSchedule *s = fields;
  bool power = !(s->size & (s->size - 1)) && !(s->rows & (s->rows - 1));
  *why = !power ? "size and rows are powers of two"
         : s->rows * s->size * pair_bytes(g) > target->shared_bytes
             ? "the pairs have no room in shared memory"
         : g->t.n > s->size && (2 * g->t.k > s->size || s->rows > 1)
             ? "a row in pieces needs room for twice its results, and a block of its own"
             : NULL;
  return !*why;
}

static void sort(BlockTopK *g) {
  for (int64_t run = 2; run <= g->size; run *= 2)
    for (int64_t stride = run / 2; stride; stride /= 2) compare(g, run, stride);
}

static bool topk_block_build(void *match, const void *fields, Lowered *out) {
  BlockTopK *g = match;
  ElementBuilder *e = &g->t.e;
  IntPool *p = e->pool;
  const TopkBlockSchedule *s = fields;
  g->size = s->size;
  g->rows = s->rows;
  g->threads = s->threads;
  g->kept = g->t.n > g->size ? g->t.k : 0;
  int64_t fresh = g->size - g->kept, pieces = (g->t.n + fresh - 1) / fresh;
  Dim pairs = num(g, g->rows * g->size), items = ie_ceildiv(p, g->count, num(g, g->rows));
  g->keys = loop_buffer(e->k, LOOP_SHARED, "keys", g->t.key, pairs, false);
  g->places = loop_buffer(e->k, LOOP_SHARED, "places", DT_I32, pairs, false);
  loop_begin(&e->b, e->k);
  g->item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) g->item = p->zero;
  if (g->kept) clear(g, g->kept);
  Dim piece = pieces > 1 ? loop_for(&e->b, LOOP_SERIAL, "piece", num(g, pieces)) : p->zero;
  if (!load(g, piece)) return false;
  sort(g);
  if (pieces > 1) loop_end(&e->b);
  if (!store_best(g)) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_topk_block = {.match = topk_block_match,
                                          .choose = topk_block_choose,
                                          .legal = topk_block_legal,
                                          .build = topk_block_build,
                                          SCHEDULE(TopkBlock)};
