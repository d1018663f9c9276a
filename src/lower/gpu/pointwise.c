// pointwise.c -- template pointwise_block: elementwise kernels on thread blocks.
//
// Adjacent elements go to adjacent threads.  Large results get vector accesses: as many elements
// per thread as 16 bytes of the widest result hold, where rows are multiples of that.  For a
// transposed matrix, or an image that becomes channels last, adjacent threads take adjacent rows or
// pixels, contiguous in the operand, and a block takes several such runs, so that stores coalesce
// too.  Where results have several shapes, a thread does the element of its number in each.
//
// Where the last axis passes a border, as in a concat or a rotary embedding, it is taken in equal
// parts that no border is inside.  A thread does the run of its number in each part, so that none
// of its loads is guarded, and the halves of a rotary embedding share theirs.
//
// Needs:      LowerTarget.block_threads; no result is empty.  Sizes may be dynamic.
// Guarantees: every field is FREE: an element is the same expression in every thread.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/pointwise.h"
#include "rules/shape.h"

enum { MANY = 1 << 16, MORE = 1 << 22, EACH = 4, BYTES = 16, TURNED_ROWS = 64, PARTS = 8 };

#define POINTWISE_BLOCK_SCHEDULE(I, B, C, T)                                                       \
  I(T, runs, 1, 1, 16, 1, FREE, "runs of contiguous elements per thread")                          \
  I(T, vector, 1, 1, 16, 0, FREE, "contiguous elements of a run")                                  \
  I(T, parts, 1, 1, 8, 1, FREE, "equal parts of the last axis; a thread does a run in each")       \
  B(T, transpose, false, FREE,                                                                     \
    "transposed matrix or image: adjacent threads take adjacent rows or pixels")
SCHEDULE_STRUCT(PointwiseBlock, POINTWISE_BLOCK_SCHEDULE);
SCHEDULE_TABLE(PointwiseBlock, POINTWISE_BLOCK_SCHEDULE);

typedef struct Places {
  ElementBuilder e;
  int rank;
  Dim shape[MAX_RANK];
  Dim all;              // elements
  Dim count;            // runs of elements
  int64_t side;         // elements of a run
  int64_t parts, part;  // of the last axis, and their size, where there are more than one
  bool flat;
  bool several;  // shapes of results: `all` is the largest, and a thread does one element of each
} Places;

// Element `c` of a run, in a part of the last axis.
static bool store_element(ElementBuilder *e, const Places *p, Dim run, int64_t part, Dim c) {
  IntPool *pool = e->pool;
  Dim index[MAX_RANK], at = ie_add(pool, ie_mulc(pool, run, p->side), c);
  const LoopExpr **x = arena_array(e->a, const LoopExpr *, MAX(e->fused->nres, 1));
  for (int i = 0; i < MAX_RANK; i++) index[i] = pool->zero;
  e->flat = p->flat ? at : NULL;
  if (!p->flat) elem_split(e, run, p->rank, p->shape, index);
  if (!p->flat && p->side > 1) {
    Dim *last = &index[p->rank - 1];
    *last = ie_add(pool, ie_mulc(pool, *last, p->side), c);
  }
  if (p->parts > 1) {
    Dim *last = &index[p->rank - 1], shape[MAX_RANK];
    *last = ie_addc(pool, *last, part * p->part);
    elem_shape(e, e->fused->type[0], shape);
    at = elem_linear(e, p->rank, shape, index);
  }
  for (int i = 0; i < e->fused->nres; i++)
    if (!(x[i] = elem_at(e, e->body->result[i], index))) return false;
  for (int i = 0; i < e->fused->nres; i++) loop_store(&e->b, elem_result(e, i), at, x[i]);
  return true;
}

// The size of the last axis as a thread's runs divide it.
static Dim last_size(const Places *p) {
  return p->flat ? p->all : p->rank ? p->shape[p->rank - 1] : p->e.pool->one;
}

// The least number of equal parts within which no guard is open, at most PARTS; 1: there is none.
static int64_t parts_of(const ElementBuilder *e, const Places *p) {
  const Node **value = arena_array(e->a, const Node *, e->fused->nres);
  int64_t cut[ELEM_CUTS + 2];
  Dim last = last_size(p);
  if (p->flat || p->several || !p->rank || !ie_is_const(last) || last->value < 2) return 1;
  for (int i = 0; i < e->fused->nres; i++) value[i] = e->body->result[i];
  int n = elem_cuts(e, value, p->rank - 1, last->value, cut);
  for (int64_t parts = n; n > 1 && parts <= PARTS; parts++) {
    bool fits = last->value % parts == 0;
    for (int i = 1; i < n && fits; i++) fits = cut[i] % (last->value / parts) == 0;
    if (fits) return parts;
  }
  return 1;
}

// How many neighbours a thread does: where results are small there is a thread for each.
static int64_t side_of(const ElementBuilder *e, const Places *p, Dim all) {
  int64_t widest = 1, side;
  for (int i = 0; i < e->fused->nres; i++)
    widest = MAX(widest, elem_bytes(e->fused->type[i]->dtype));
  side = BYTES / widest;
  bool whole = ie_is(ie_mod(e->pool, last_size(p), ie_const(e->pool, side * p->parts)), 0);
  return whole && (!ie_is_const(all) || all->value >= MANY) ? MAX(side, 1) : 1;
}

// Whether the result is a transposed matrix of whole blocks, TURNED_ROWS high and as wide as the
// other threads of a group make them.
static bool is_transposed(const ElementBuilder *e, const Places *p) {
  const Node *r = e->body->result[0];
  int64_t perm[MAX_RANK], threads = e->lo->target.block_threads;
  if (e->fused->nres != 1 || p->rank != 2 || r->op != OP_transpose || threads % TURNED_ROWS ||
      p->flat || p->side == 1 || !ie_is_const(p->shape[0]) || !ie_is_const(p->shape[1]))
    return false;
  return transpose_perm(r, perm) == 2 && perm[0] == 1 && p->shape[0]->value % TURNED_ROWS == 0 &&
         p->shape[1]->value % (threads / TURNED_ROWS) == 0;
}

// The run of a thread: blocks are counted downwards.
static Dim transposed_run(ElementBuilder *e, const Places *p, Dim item, Dim thread) {
  IntPool *pool = e->pool;
  Dim high = ie_const(pool, TURNED_ROWS), down = ie_div(pool, p->shape[0], high);
  Dim row = ie_add(pool, ie_mulc(pool, ie_mod(pool, item, down), TURNED_ROWS),
                   ie_mod(pool, thread, high));
  Dim run = ie_add(
      pool, ie_mulc(pool, ie_div(pool, item, down), e->lo->target.block_threads / TURNED_ROWS),
      ie_div(pool, thread, high));
  return ie_add(pool, ie_mul(pool, row, p->shape[1]), run);
}

// Whether the results are images channels last that are read channels first: pixels are contiguous
// in the operand, a run's channels in the result.
static bool is_transposed_image(const ElementBuilder *e, const Places *p) {
  int64_t perm[MAX_RANK], last[MAX_RANK];
  if (p->several || p->flat || p->rank < 3 || p->side == 1 ||
      e->lo->target.block_threads % TURNED_ROWS)
    return false;
  order_last(ORDER_DATA, p->rank, last);
  NodeList all = body_order(e->lo->g, e->body, e->a);
  for (int64_t i = 0; i < all.n; i++) {
    const Type *t = type_of(all.v[i]);
    if (all.v[i]->op != OP_transpose || t->rank != p->rank ||
        transpose_perm(all.v[i], perm) != p->rank ||
        memcmp(perm, last, sizeof *perm * (size_t)p->rank))
      continue;
    // Whole lines; channels may be filled up, or joined.
    if (t->dims[p->rank - 2] == e->fused->type[0]->dims[p->rank - 2]) return true;
  }
  return false;
}

static void find_places(ElementBuilder *e, const Type *t, Places *p) {
  p->rank = t->rank;
  p->flat = pointwise_is_flat(e);
  p->all = e->pool->one;
  elem_shape(e, t, p->shape);
  for (int i = 0; i < t->rank; i++) p->all = ie_mul(e->pool, p->all, p->shape[i]);
}

// The runs of a part, where each has so many elements.
static void count_runs(Places *p, int64_t side, int64_t parts) {
  IntPool *pool = p->e.pool;
  Dim by = ie_const(pool, side * parts);
  p->side = side;
  p->parts = parts;
  p->part = parts > 1 ? last_size(p)->value / parts : 0;
  p->count = ie_div(pool, p->all, by);
  if (side * parts > 1 && !p->flat) p->shape[p->rank - 1] = ie_div(pool, last_size(p), by);
}

// ---- the template ----

static void *pointwise_block_match(Lowering *lo, const Node *fused) {
  Places *p = arena_new(lo->arena, Places);
  p->parts = 1;
  const Type *t = fused->type[0];
  lo->why = "its results have no elements";
  if (fused->nres < 1) return NULL;
  for (int i = 0; i < fused->nres; i++) {
    if (type_is_empty(fused->type[i])) return NULL;
    p->several |= !type_same_dims(t, fused->type[i]);
  }
  if (!elem_begin(&p->e, lo, fused, NULL, 0)) return NULL;
  find_places(&p->e, t, p);
  for (int i = 1; p->several && i < fused->nres; i++) {
    Places other = *p;
    find_places(&p->e, fused->type[i], &other);
    p->all = ie_max(p->e.pool, p->all, other.all);
  }
  p->flat &= !p->several;
  return p;
}

static bool pointwise_block_choose(void *match, const LowerTarget *target,
                                   const ScheduleGiven *given, void *fields) {
  Places p = *(const Places *)match;
  PointwiseBlockSchedule *s = fields;
  (void)target;
  if (p.several) {
    *s = (PointwiseBlockSchedule){.runs = 1, .vector = 1, .parts = 1};
    return true;
  }
  p.parts = parts_of(&p.e, &p);
  if (side_of(&p.e, &p, p.all) == 1) p.parts = 1;  // guards cost less than narrow accesses
  s->parts = p.parts;
  p.side = side_of(&p.e, &p, p.all);
  bool image = is_transposed_image(&p.e, &p);
  if (image) s->parts = p.parts = 1;
  s->vector = side_of(&p.e, &p, p.all);
  schedule_keep(given, s);
  count_runs(&p, s->vector, s->parts);
  s->transpose = image || is_transposed(&p.e, &p);
  bool small = ie_is_const(p.count) && p.count->value < MORE;
  s->runs = small || s->vector > 1 ? 1 : EACH;
  return true;
}

static bool pointwise_block_legal(const void *match, const LowerTarget *target, const void *fields,
                                  const char **why) {
  Places p = *(const Places *)match;
  const PointwiseBlockSchedule *s = fields;
  Dim last = last_size(&p), by = ie_const(p.e.pool, (int64_t)s->vector * s->parts);
  bool whole = ie_is(ie_mod(p.e.pool, last, by), 0);
  bool parted = s->parts == 1 || (!p.flat && p.rank && ie_is_const(last));
  (void)target;
  if (whole && parted) count_runs(&p, s->vector, s->parts);
  *why = p.several && (s->runs > 1 || s->vector > 1 || s->parts > 1 || s->transpose)
             ? "results of several shapes go by runs=1 vector=1 parts=1 transpose=false"
         : !parted ? "parts are of a last axis of constant size"
         : !whole  ? "vector and parts do not divide the last axis"
         : s->transpose && (s->runs > 1 || s->parts > 1 ||
                            !(is_transposed(&p.e, &p) || is_transposed_image(&p.e, &p)))
             ? "transpose is for a transposed matrix of whole blocks or an image that becomes "
               "channels last, with runs=1 parts=1"
             : NULL;
  return !*why;
}

// One element of each result.
static bool build_several(Places *places, Lowered *out) {
  ElementBuilder *e = &places->e;
  IntPool *p = e->pool;
  int64_t threads = e->lo->target.block_threads;
  loop_begin(&e->b, e->k);
  Dim items = ie_ceildiv(p, places->all, ie_const(p, threads));
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items), thread = thread_loop(e);
  for (int i = 0; i < e->fused->nres; i++) {
    Dim shape[MAX_RANK], index[MAX_RANK], all = p->one;
    const Type *t = e->fused->type[i];
    int depth = 0;
    elem_shape(e, t, shape);
    for (int d = 0; d < t->rank; d++) all = ie_mul(p, all, shape[d]);
    Dim at = ie_add(p, ie_mulc(p, item, threads), thread);
    at = thread_guard(e, at, all, &depth);
    elem_split(e, at, t->rank, shape, index);
    const LoopExpr *x = elem_at(e, e->body->result[i], index);
    if (!x) return false;
    loop_store(&e->b, elem_result(e, i), at, x);
    thread_close(e, depth);
    elem_forget(e);
  }
  thread_close(e, 2);
  elem_finish(e, out);
  return true;
}

// Blocks of pixels by runs of channels.
static bool build_image(Places *places, Lowered *out) {
  ElementBuilder *e = &places->e;
  IntPool *p = e->pool;
  int rank = places->rank, depth = 0;
  int64_t side = places->side, across = e->lo->target.block_threads / TURNED_ROWS;
  Dim pixels = p->one, runs = places->shape[rank - 1], high = ie_const(p, TURNED_ROWS);
  for (int i = 0; i < rank - 1; i++) pixels = ie_mul(p, pixels, places->shape[i]);
  loop_begin(&e->b, e->k);
  Dim down = ie_ceildiv(p, pixels, high), wide = ie_ceildiv(p, runs, ie_const(p, across));
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", ie_mul(p, down, wide));
  Dim thread = thread_loop(e), index[MAX_RANK];
  Dim pixel = ie_add(p, ie_mulc(p, ie_div(p, item, wide), TURNED_ROWS), ie_mod(p, thread, high));
  Dim run = ie_add(p, ie_mulc(p, ie_mod(p, item, wide), across), ie_div(p, thread, high));
  pixel = thread_guard(e, pixel, pixels, &depth);
  run = thread_guard(e, run, runs, &depth);
  Dim c = loop_for(&e->b, LOOP_UNROLL, "c", ie_const(p, side));
  for (int i = 0; i < MAX_RANK; i++) index[i] = p->zero;
  elem_split(e, pixel, rank - 1, places->shape, index);
  index[rank - 1] = ie_add(p, ie_mulc(p, run, side), c);
  Dim at = ie_add(p, ie_mul(p, pixel, ie_mulc(p, runs, side)), index[rank - 1]);
  for (int i = 0; i < e->fused->nres; i++) {
    const LoopExpr *x = elem_at(e, e->body->result[i], index);
    if (!x) return false;
    loop_store(&e->b, elem_result(e, i), at, x);
  }
  thread_close(e, depth + 3);
  elem_finish(e, out);
  return true;
}

static bool pointwise_block_build(void *match, const void *fields, Lowered *out) {
  Places *places = match;
  ElementBuilder *e = &places->e;
  IntPool *p = e->pool;
  const PointwiseBlockSchedule *s = fields;
  if (places->several) return build_several(places, out);
  count_runs(places, s->vector, s->parts);
  if (s->transpose && places->rank > 2) return build_image(places, out);
  int64_t threads = e->lo->target.block_threads, each = s->runs;
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item",
                      ie_ceildiv(p, places->count, ie_const(p, threads * each)));
  Dim thread = thread_loop(e), at = ie_add(p, ie_mulc(p, item, threads * each), thread),
      c = p->zero;
  if (s->transpose) at = transposed_run(e, places, item, thread);
  int depth = 0;
  if (each > 1) {
    Dim j = loop_for(&e->b, LOOP_UNROLL, "j", ie_const(p, each));
    at = ie_add(p, at, ie_mulc(p, j, threads));
    depth++;
  }
  at = thread_guard(e, at, places->count, &depth);
  for (int64_t part = 0; part < places->parts; part++) {
    if (part) elem_forget(e);
    if (places->side > 1) c = loop_for(&e->b, LOOP_UNROLL, "c", ie_const(p, places->side));
    if (!store_element(e, places, at, part, c)) return false;
    if (places->side > 1) loop_end(&e->b);
  }
  thread_close(e, depth + 2);
  elem_finish(e, out);
  return true;
}

// Where the verifier cannot tell the stores of threads apart, as with parts whose runs do not
// divide a block's threads.
static const char *const simpler[] = {"pointwise_block parts=1 runs=1 transpose=false",
                                      "pointwise_block parts=1 runs=1 vector=1 transpose=false",
                                      NULL};

const TemplateCode template_pointwise_block = {.match = pointwise_block_match,
                                               .choose = pointwise_block_choose,
                                               .legal = pointwise_block_legal,
                                               .build = pointwise_block_build,
                                               .cheaper = simpler,
                                               SCHEDULE(PointwiseBlock)};
