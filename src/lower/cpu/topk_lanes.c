// topk_lanes.c -- template topk_lanes: the k first elements of many rows, a row in each lane.
//
// A vector goes over the elements of its rows once.  A row's best so far are in registers, in
// order, each with its key, place and value.  An element that comes before one of them takes its
// place, and those behind move on by one.  So a row costs a few operations of a lane for each
// element and result, and nothing waits for a search.
//
// Needs:      a constant k of at most MOST_RESULTS, rows of constant length, and enough of them;
//             results with top_k's shape.  Axes other than a row's may be dynamic.
// Guarantees: the order of the reference evaluation, as in topk.c.  `cols` is FREE.
#include "lower/cpu/topk.h"

#include "lower/cpu/row_lanes.h"

enum { MOST_RESULTS = 16, MOST_LENGTH = 1 << 16 };
// What a row costs, in cycles.  Here: an element beside a result, for a vector of 64 bytes or of
// fewer, whose masks are vectors; an element whose lanes are strided.  In
// topk.c: the search for a result, a step of it through the keys, a search through blocks, an
// element that is read across rows.
enum { COST_PAIR = 4, COST_PAIR_MASKED = 8, COST_STRIDED = 6, WIDE = 64 };
enum { COST_SEARCH = 22, COST_STEP = 32, COST_BLOCKS = 130, COST_READ = 3, STEP = 32 };

#define TOPK_LANES_SCHEDULE(I, B, C, T)                                                            \
  I(T, cols, 0, 1, 64, 0, FREE, "rows of a work item, each in a lane")
SCHEDULE_STRUCT(TopkLanes, TOPK_LANES_SCHEDULE);
SCHEDULE_TABLE(TopkLanes, TOPK_LANES_SCHEDULE);

typedef struct TopKLanes {
  TopK t;
  RowLanes rows;
  Dim lane;
  int64_t cols;
  int32_t best[3];  // registers: keys, places and values of the best so far, [k][cols]
} TopKLanes;
enum { KEY, PLACE, VALUE };

static void *topk_lanes_match(Lowering *lo, const Node *fused) {
  TopKLanes *l = arena_new(lo->arena, TopKLanes);
  TopK *t = &l->t;
  bool over[MAX_RANK] = {false};
  if (!topk_begin(t, lo, fused)) return NULL;
  lo->why = "it has more than 16 results a row, or too few rows for a vector";
  if (t->k > MOST_RESULTS || t->n > MOST_LENGTH) return NULL;
  elem_shape(&t->e, t->type, t->shape);
  over[t->axis] = true;
  row_lanes_find(&l->rows, t->e.pool, t->type->rank, t->shape, over);
  return row_lanes_many(&l->rows) ? l : NULL;
}

static int64_t lanes_of(const TopK *t, const LowerTarget *target) {
  return MAX(target->vector_bytes / elem_bytes(t->key), 1);
}

// By rows in lanes, or by searches in one row after the other.
static bool topk_lanes_choose(void *match, const LowerTarget *target, const ScheduleGiven *given,
                              void *fields) {
  const TopK *t = &((TopKLanes *)match)->t;
  int64_t lanes = lanes_of(t, target);
  bool strided = true;
  for (int i = t->axis + 1; i < t->type->rank; i++) strided &= ie_is(t->type->dims[i], 1);
  int64_t pair = target->vector_bytes >= WIDE ? COST_PAIR : COST_PAIR_MASKED;
  int64_t here = t->n * (t->k * pair + (strided ? COST_STRIDED : 1)) / lanes;
  int64_t steps = (t->n + STEP - 1) / STEP * COST_STEP * (WIDE / MIN(target->vector_bytes, WIDE));
  int64_t there = topk_takes_blocks(t) ? t->k * COST_BLOCKS + steps : t->k * (COST_SEARCH + steps);
  *(TopkLanesSchedule *)fields = (TopkLanesSchedule){.cols = lanes};
  return given->t || here < there + (strided ? 0 : t->n * COST_READ);
}

static const LoopExpr *best_of(TopKLanes *l, int what, Dim result) {
  IntPool *p = l->t.e.pool;
  Dim at = ie_add(p, ie_mulc(p, result, l->cols), l->lane);
  return loop_load(l->t.e.k, l->best[what], at);
}

static void set_best(TopKLanes *l, int what, Dim result, const LoopExpr *x) {
  IntPool *p = l->t.e.pool;
  loop_store(&l->t.e.b, l->best[what], ie_add(p, ie_mulc(p, result, l->cols), l->lane), x);
}

// Opens the vector over the item's rows.
static void open_lanes(TopKLanes *l) {
  TopK *t = &l->t;
  l->lane = row_lanes_whole(&l->rows, &t->e, l->cols, t->index);
}

static void close_lanes(TopKLanes *l) {
  elem_unguard(&l->t.e, 0);
  loop_end(&l->t.e.b);
}

// The element at place i joins the best, of which the first i are there, or all.
static bool insert(TopKLanes *l, Dim i, bool all) {
  TopK *t = &l->t;
  ElementBuilder *e = &t->e;
  LoopKernel *k = e->k;
  open_lanes(l);
  t->index[t->axis] = i;
  const LoopExpr *x = elem_at(e, t->node->src[0], t->index), *is[3];
  if (!x) return false;
  is[VALUE] = loop_let(&e->b, x);
  is[KEY] = loop_let(&e->b, topk_key(t, is[VALUE]));
  is[PLACE] = loop_cast(k, DT_I32, loop_index(k, i));
  // From the last on, so that what moves on is read before it is replaced.
  for (int64_t j = t->k - 1; j >= 0; j--) {
    Dim here = ie_const(e->pool, j), before = ie_const(e->pool, MAX(j - 1, 0));
    const LoopExpr *takes = loop_op(k, LOOP_lt, best_of(l, KEY, here), is[KEY], NULL), *moves;
    moves = j ? loop_op(k, LOOP_lt, best_of(l, KEY, before), is[KEY], NULL) : NULL;
    if (!all) {
      const LoopExpr *at = loop_index(k, i), *last = loop_int(k, DT_I64, j);
      takes = loop_op(k, LOOP_or, takes, loop_op(k, LOOP_le, at, last, NULL), NULL);
      last = loop_int(k, DT_I64, j - 1);
      if (j) moves = loop_op(k, LOOP_or, moves, loop_op(k, LOOP_le, at, last, NULL), NULL);
    }
    takes = loop_let(&e->b, takes);
    if (moves) moves = loop_let(&e->b, moves);
    for (int what = VALUE; what >= KEY; what--) {
      const LoopExpr *in = is[what];
      if (moves) in = loop_op(k, LOOP_select, moves, best_of(l, what, before), in);
      set_best(l, what, here, loop_op(k, LOOP_select, takes, in, best_of(l, what, here)));
    }
  }
  close_lanes(l);
  return true;
}

// Keys that nothing is below, until there are elements.
static void clear(TopKLanes *l) {
  TopK *t = &l->t;
  LoopKernel *k = t->e.k;
  DType value = t->type->dtype;
  open_lanes(l);
  for (int64_t j = 0; j < t->k; j++) {
    Dim here = ie_const(t->e.pool, j);
    set_best(l, KEY, here, loop_int(k, t->key, t->key == DT_I64 ? INT64_MIN : INT32_MIN));
    set_best(l, PLACE, here, loop_int(k, DT_I32, 0));
    set_best(l, VALUE, here,
             dtype_is_float(value) ? loop_float(k, value, 0) : loop_int(k, value, 0));
  }
  close_lanes(l);
}

static bool store_all(TopKLanes *l) {
  TopK *t = &l->t;
  bool ok = true;
  open_lanes(l);
  for (int64_t j = 0; j < t->k && ok; j++) {
    t->result = ie_const(t->e.pool, j);
    t->value[0] = best_of(l, VALUE, t->result);
    t->value[1] = loop_cast(t->e.k, DT_I64, best_of(l, PLACE, t->result));
    elem_forget(&t->e);
    ok = topk_store(t);
  }
  close_lanes(l);
  return ok;
}

static bool topk_lanes_build(void *match, const void *fields, Lowered *out) {
  TopKLanes *l = match;
  TopK *t = &l->t;
  ElementBuilder *e = &t->e;
  IntPool *p = e->pool;
  l->cols = ((const TopkLanesSchedule *)fields)->cols;
  const DType type[] = {t->key, DT_I32, t->type->dtype};
  const char *const name[] = {"keys", "places", "values"};
  for (int i = 0; i < ARRAY_LEN(type); i++)
    l->best[i] =
        loop_buffer(e->k, LOOP_REGISTER, name[i], type[i], ie_const(p, t->k * l->cols), false);
  loop_begin(&e->b, e->k);
  row_lanes_items(&l->rows, e, l->cols);
  clear(l);
  bool ok = insert(l, loop_for(&e->b, LOOP_SERIAL, "i", ie_const(p, t->k)), false);
  loop_end(&e->b);
  if (ok && t->n > t->k) {
    Dim i = loop_for(&e->b, LOOP_SERIAL, "i", ie_const(p, t->n - t->k));
    ok = insert(l, ie_addc(p, i, t->k), true);
    loop_end(&e->b);
  }
  if (!ok || !store_all(l)) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_topk_lanes = {.match = topk_lanes_match,
                                          .choose = topk_lanes_choose,
                                          .build = topk_lanes_build,
                                          SCHEDULE(TopkLanes)};
