// topk_lanes.c -- template topk_lanes: the k first elements of many rows, a row in each lane.
//
// A vector goes over the elements of its rows once.  A row's best so far are in registers, in
// order, each with its key, place and value.  An element that comes before one of them takes its
// place, and those behind move on by one.  So a row costs a few operations of a lane for each
// element and result, and nothing waits for a search.
//
// Of more than 16 results the best so far are in scratch.  An element goes along them from the
// first on; from where it is the greater one, each is taken out and put into the place of the next.
//
// Where the searched axis is the last one, the lanes' elements lie a row apart.  A block of them is
// transposed into scratch first: a block of vectors is loaded and shuffled, where each element by
// itself would be a gather.
//
// Needs:      a constant k of at most MOST_LISTED, rows of constant length, and enough of them;
//             results with top_k's shape.  Axes other than a row's may be dynamic.
// Guarantees: the order of the reference evaluation, as in topk.c.  `cols` is FREE.
#include "lower/cpu/topk.h"

#include "lower/cpu/row_lanes.h"

enum { MOST_RESULTS = 16, MOST_LISTED = 512, MOST_LENGTH = 1 << 16 };
// What a row costs, in cycles.  Here: an element beside a result, for a vector of 64 bytes or of
// fewer, whose masks are vectors; the same in scratch; an element whose lanes are strided.  In
// topk.c: the search for a result, a step of it through the keys, a search through blocks, an
// element that is read across rows.
enum { COST_PAIR = 4, COST_PAIR_MASKED = 8, COST_PAIR_LISTED = 11 };
enum { COST_STRIDED = 6, COST_STAGED = 2, WIDE = 64 };
enum { STAGED = 16 };  // elements of a row in a block, where they are staged
enum { COST_SEARCH = 22, COST_STEP = 32, COST_BLOCKS = 130, COST_READ = 3, STEP = 32 };

#define TOPK_LANES_SCHEDULE(I, B, C, T)                                                            \
  I(T, cols, 0, 1, 64, 0, FREE, "rows of a work item, each in a lane")                             \
  B(T, staged, false, FREE, "blocks of strided elements are transposed into scratch")
SCHEDULE_STRUCT(TopkLanes, TOPK_LANES_SCHEDULE);
SCHEDULE_TABLE(TopkLanes, TOPK_LANES_SCHEDULE);

typedef struct TopKLanes {
  TopK t;
  RowLanes rows;
  Dim lane;
  int64_t cols;
  bool listed;      // the best so far are in scratch, not in registers
  int32_t best[3];  // keys, places and values of the best so far, [k][cols]
  int32_t now[4];   // listed: registers, of the element on its way along them, [cols]
  int32_t block;    // scratch: values of a block, [STAGED][cols]; -1: elements are not staged
} TopKLanes;
enum { KEY, PLACE, VALUE, OWN };  // OWN: the key of the element that set out

static void *topk_lanes_match(Lowering *lo, const Node *fused) {
  TopKLanes *l = arena_new(lo->arena, TopKLanes);
  TopK *t = &l->t;
  bool over[MAX_RANK] = {false};
  if (!topk_begin(t, lo, fused)) return NULL;
  lo->why = "it has more than 512 results a row, or too few rows for a vector";
  if (t->k > MOST_LISTED || t->n > MOST_LENGTH) return NULL;
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
  int64_t pair = t->k > MOST_RESULTS            ? COST_PAIR_LISTED
                 : target->vector_bytes >= WIDE ? COST_PAIR
                                                : COST_PAIR_MASKED;
  bool staged = strided && t->n >= STAGED && elem_bytes(t->type->dtype) == 4;
  int64_t read = staged ? COST_STAGED : strided ? COST_STRIDED : 1;
  // A list of k has fewer while it fills.
  int64_t pairs = t->k > MOST_RESULTS ? t->n * t->k - t->k * t->k / 2 : t->n * t->k;
  int64_t here = (pairs * pair + t->n * read) / lanes;
  int64_t steps = (t->n + STEP - 1) / STEP * COST_STEP * (WIDE / MIN(target->vector_bytes, WIDE));
  int64_t there = topk_takes_blocks(t) ? t->k * COST_BLOCKS + steps : t->k * (COST_SEARCH + steps);
  *(TopkLanesSchedule *)fields = (TopkLanesSchedule){.cols = lanes, .staged = staged};
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

// The element x at place i joins the best, of which the first i are there, or all.
static void join_best(TopKLanes *l, const LoopExpr *x, Dim i, bool all) {
  TopK *t = &l->t;
  ElementBuilder *e = &t->e;
  LoopKernel *k = e->k;
  const LoopExpr *is[3];
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
}

static const LoopExpr *now_of(TopKLanes *l, int what) {
  return loop_load(l->t.e.k, l->now[what], l->lane);
}

static void set_now(TopKLanes *l, int what, const LoopExpr *x) {
  loop_store(&l->t.e.b, l->now[what], l->lane, x);
}

// The element x sets out at place i.
static void start_list(TopKLanes *l, const LoopExpr *x, Dim i) {
  LoopKernel *k = l->t.e.k;
  x = loop_let(&l->t.e.b, x);
  set_now(l, VALUE, x);
  set_now(l, PLACE, loop_cast(k, DT_I32, loop_index(k, i)));
  const LoopExpr *key = loop_let(&l->t.e.b, topk_key(&l->t, x));
  set_now(l, KEY, key);
  set_now(l, OWN, key);
}

// What is on its way takes the place of the first that it comes before, which goes on with those
// behind.  Elements come in the order of their places, so one that is equal stays.
static void pass_list(TopKLanes *l, Dim i) {
  TopK *t = &l->t;
  ElementBuilder *e = &t->e;
  LoopKernel *k = e->k;
  Dim all = ie_const(e->pool, t->k);
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", ie_min(e->pool, i, all));
  open_lanes(l);
  const LoopExpr *was[3];
  for (int what = KEY; what <= VALUE; what++) was[what] = loop_let(&e->b, best_of(l, what, j));
  const LoopExpr *takes = loop_let(&e->b, loop_op(k, LOOP_lt, was[KEY], now_of(l, OWN), NULL));
  for (int what = VALUE; what >= KEY; what--) {
    const LoopExpr *is = loop_let(&e->b, now_of(l, what));
    set_best(l, what, j, loop_op(k, LOOP_select, takes, is, was[what]));
    set_now(l, what, loop_op(k, LOOP_select, takes, was[what], is));
  }
  close_lanes(l);
  loop_end(&e->b);
  // One of the first k goes behind the others.
  loop_if(&e->b, loop_op(k, LOOP_lt, loop_index(k, i), loop_int(k, DT_I64, t->k), NULL));
  Dim place = loop_bind(&e->b, "last", loop_index(k, i), all, "a list is too long");
  open_lanes(l);
  for (int what = KEY; what <= VALUE; what++) set_best(l, what, place, now_of(l, what));
  close_lanes(l);
  loop_end(&e->b);
}

// The element at place i joins them: at `staged` of the block, or NULL.
static bool insert(TopKLanes *l, Dim i, Dim staged, bool all) {
  TopK *t = &l->t;
  open_lanes(l);
  t->index[t->axis] = i;
  const LoopExpr *x;
  if (staged)
    x = loop_load(t->e.k, l->block,
                  ie_add(t->e.pool, ie_mulc(t->e.pool, staged, l->cols), l->lane));
  else
    x = elem_at(&t->e, t->node->src[0], t->index);
  if (x && l->listed) start_list(l, x, i);
  if (x && !l->listed) join_best(l, x, i, all);
  close_lanes(l);
  if (x && l->listed) pass_list(l, i);
  return x != NULL;
}

// `n` elements from a place on; `staged`: of the block, from there on, or NULL.
static bool insert_all(TopKLanes *l, Dim first, Dim staged, int64_t n, bool all) {
  IntPool *p = l->t.e.pool;
  if (n < 1) return true;
  Dim i = loop_for(&l->t.e.b, LOOP_SERIAL, "i", ie_const(p, n));
  bool ok = insert(l, ie_add(p, first, i), staged ? ie_add(p, staged, i) : NULL, all);
  loop_end(&l->t.e.b);
  return ok;
}

// Transposes the block of elements that begins at a place.
static bool stage(TopKLanes *l, Dim first) {
  TopK *t = &l->t;
  ElementBuilder *e = &t->e;
  IntPool *p = e->pool;
  open_lanes(l);
  Dim u = loop_for(&e->b, LOOP_UNROLL, "u", ie_const(p, STAGED));
  t->index[t->axis] = ie_add(p, first, u);
  const LoopExpr *x = elem_at(e, t->node->src[0], t->index);
  if (x) loop_store(&e->b, l->block, ie_add(p, ie_mulc(p, u, l->cols), l->lane), x);
  loop_end(&e->b);
  close_lanes(l);
  return x != NULL;
}

// Goes over the row in blocks, and over what is left of it.
static bool insert_staged(TopKLanes *l) {
  TopK *t = &l->t;
  IntPool *p = t->e.pool;
  int64_t blocks = t->n / STAGED, whole = blocks * STAGED, begun = l->listed ? 0 : 1;
  Dim k = ie_const(p, t->k);
  bool ok = !begun || (stage(l, p->zero) && insert_all(l, p->zero, p->zero, t->k, false) &&
                       insert_all(l, k, k, STAGED - t->k, true));
  if (ok && blocks > begun) {
    Dim c = loop_for(&t->e.b, LOOP_SERIAL, "c", ie_const(p, blocks - begun));
    Dim first = ie_addc(p, ie_mulc(p, c, STAGED), begun * STAGED);
    ok = stage(l, first) && insert_all(l, first, p->zero, STAGED, true);
    loop_end(&t->e.b);
  }
  return ok && insert_all(l, ie_const(p, whole), NULL, t->n - whole, true);
}

static bool insert_row(TopKLanes *l) {
  IntPool *p = l->t.e.pool;
  int64_t k = l->t.k;
  if (l->block >= 0) return insert_staged(l);
  if (l->listed) return insert_all(l, p->zero, NULL, l->t.n, true);
  return insert_all(l, p->zero, NULL, k, false) &&
         insert_all(l, ie_const(p, k), NULL, l->t.n - k, true);
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

static bool store_result(TopKLanes *l, Dim result) {
  TopK *t = &l->t;
  t->result = result;
  t->value[0] = best_of(l, VALUE, result);
  t->value[1] = loop_cast(t->e.k, DT_I64, best_of(l, PLACE, result));
  elem_forget(&t->e);
  return topk_store(t);
}

static bool store_all(TopKLanes *l) {
  TopK *t = &l->t;
  IntPool *p = t->e.pool;
  bool ok = true;
  if (l->listed) {
    Dim r = loop_for(&t->e.b, LOOP_SERIAL, "r", ie_const(p, t->k));
    open_lanes(l);
    ok = store_result(l, r);
    close_lanes(l);
    loop_end(&t->e.b);
    return ok;
  }
  open_lanes(l);
  for (int64_t j = 0; j < t->k && ok; j++) ok = store_result(l, ie_const(p, j));
  close_lanes(l);
  return ok;
}

static void declare_best(TopKLanes *l) {
  TopK *t = &l->t;
  LoopKernel *k = t->e.k;
  const DType type[] = {t->key, DT_I32, t->type->dtype, t->key};
  const char *const name[] = {"keys", "places", "values"};
  const char *const on_its_way[] = {"key", "place", "value", "own"};
  Dim best = ie_const(t->e.pool, t->k * l->cols), one = ie_const(t->e.pool, l->cols);
  l->listed = t->k > MOST_RESULTS;
  LoopSpace space = l->listed ? LOOP_SCRATCH : LOOP_REGISTER;
  for (int i = 0; i < ARRAY_LEN(name); i++)
    l->best[i] = loop_buffer(k, space, name[i], type[i], best, false);
  for (int i = 0; i < ARRAY_LEN(on_its_way) && l->listed; i++)
    l->now[i] = loop_buffer(k, LOOP_REGISTER, on_its_way[i], type[i], one, false);
}

static bool topk_lanes_legal(const void *match, const LowerTarget *target, const void *fields,
                             const char **why) {
  const TopK *t = &((const TopKLanes *)match)->t;
  (void)target;
  bool staged = ((const TopkLanesSchedule *)fields)->staged;
  *why = staged && t->n < STAGED ? "a row is shorter than a block" : NULL;
  return !*why;
}

static bool topk_lanes_build(void *match, const void *fields, Lowered *out) {
  TopKLanes *l = match;
  TopK *t = &l->t;
  ElementBuilder *e = &t->e;
  IntPool *p = e->pool;
  l->cols = ((const TopkLanesSchedule *)fields)->cols;
  declare_best(l);
  bool staged = ((const TopkLanesSchedule *)fields)->staged;
  l->block = staged ? loop_buffer(e->k, LOOP_SCRATCH, "block", t->type->dtype,
                                  ie_const(p, STAGED * l->cols), false)
                    : -1;
  loop_begin(&e->b, e->k);
  row_lanes_items(&l->rows, e, l->cols);
  if (!l->listed) clear(l);
  if (!insert_row(l) || !store_all(l)) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_topk_lanes = {.match = topk_lanes_match,
                                          .choose = topk_lanes_choose,
                                          .legal = topk_lanes_legal,
                                          .build = topk_lanes_build,
                                          SCHEDULE(TopkLanes)};
