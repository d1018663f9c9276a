// group_pointwise.c -- kernels without an anchor on groups of threads: a thread for each element, or for a few.
//
// Elements are counted through; neighbours go to neighbouring threads, so that what they read and write lies together.  Of many a thread does as many neighbours
// as 16 bytes of the widest result hold, where rows are whole multiples of them.
//
// Of a transposed matrix neighbouring threads do neighbouring rows, which are read side by side, and a group a few such runs of each, so that what it
// writes lies in whole pieces too.
#include "lower/group_loops.h"
#include "rules/shape.h"

enum { MANY = 1 << 16, MORE = 1 << 22, EACH = 4, BYTES = 16, TURNED_ROWS = 64 };

typedef struct Places {
  int rank;
  Dim shape[MAX_RANK];
  Dim count;     // runs of elements
  int64_t side;  // elements of a run
  bool flat, turned;
} Places;

// Element `c` of a run.
static bool store_element(Elem *e, const Places *p, Dim run, Dim c) {
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
  for (int i = 0; i < e->fused->nres; i++)
    if (!(x[i] = elem_at(e, e->body->result[i], index))) return false;
  for (int i = 0; i < e->fused->nres; i++) loop_store(&e->b, elem_result(e, i), at, x[i]);
  return true;
}

// How many neighbours a thread does: where results are small there is a thread for each.
static int64_t side_of(const Elem *e, const Places *p, Dim all) {
  int64_t widest = 1, side;
  for (int i = 0; i < e->fused->nres; i++)
    widest = MAX(widest, elem_bytes(e->fused->type[i]->dtype));
  side = BYTES / widest;
  Dim last = p->flat ? all : p->rank ? p->shape[p->rank - 1] : e->pool->one;
  bool whole = ie_is(ie_mod(e->pool, last, ie_const(e->pool, side)), 0);
  return whole && (!ie_is_const(all) || all->value >= MANY) ? MAX(side, 1) : 1;
}

// Whether the result is a transposed matrix of whole blocks, TURNED_ROWS high and as wide as the other threads of a group make them.
static bool is_turned(const Elem *e, const Places *p) {
  const Node *r = e->body->result[0];
  int64_t perm[MAX_RANK], threads = e->lo->target.group;
  if (e->fused->nres != 1 || p->rank != 2 || r->op != OP_transpose || threads % TURNED_ROWS ||
      p->flat || p->side == 1 || !ie_is_const(p->shape[0]) || !ie_is_const(p->shape[1]))
    return false;
  return transpose_perm(r, perm) == 2 && perm[0] == 1 && p->shape[0]->value % TURNED_ROWS == 0 &&
         p->shape[1]->value % (threads / TURNED_ROWS) == 0;
}

// The run of a thread: blocks are counted downwards.
static Dim turned_run(Elem *e, const Places *p, Dim item, Dim thread) {
  IntPool *pool = e->pool;
  Dim high = ie_const(pool, TURNED_ROWS), down = ie_div(pool, p->shape[0], high);
  Dim row = ie_add(pool, ie_mulc(pool, ie_mod(pool, item, down), TURNED_ROWS),
                   ie_mod(pool, thread, high));
  Dim run = ie_add(pool, ie_mulc(pool, ie_div(pool, item, down), e->lo->target.group / TURNED_ROWS),
                   ie_div(pool, thread, high));
  return ie_add(pool, ie_mul(pool, row, p->shape[1]), run);
}

static void find_places(Elem *e, const Type *t, Places *p) {
  IntPool *pool = e->pool;
  Dim all = pool->one;
  *p = (Places){.rank = t->rank, .flat = pointwise_is_flat(e)};
  elem_shape(e, t, p->shape);
  for (int i = 0; i < t->rank; i++) all = ie_mul(pool, all, p->shape[i]);
  p->side = side_of(e, p, all);
  Dim side = ie_const(pool, p->side);
  p->count = ie_div(pool, all, side);
  if (p->side > 1 && !p->flat) p->shape[t->rank - 1] = ie_div(pool, p->shape[t->rank - 1], side);
  p->turned = is_turned(e, p);
}

tenon_status lower_group_pointwise(Lowering *lo, const Node *fused, Lowered *out) {
  Elem e;
  Places places;
  const Type *t = fused->type[0];
  if (fused->nres < 1) return TENON_EUNSUPPORTED;
  for (int i = 0; i < fused->nres; i++)
    if (elem_never(fused->type[i]) || !type_same_dims(t, fused->type[i])) return TENON_EUNSUPPORTED;
  if (!elem_begin(&e, lo, fused, NULL, 0)) return TENON_EUNSUPPORTED;
  IntPool *p = e.pool;
  find_places(&e, t, &places);
  bool few = ie_is_const(places.count) && places.count->value < MORE;
  int64_t threads = lo->target.group, each = few || places.side > 1 ? 1 : EACH;
  loop_begin(&e.b, e.k);
  Dim item = loop_for(&e.b, LOOP_PARALLEL, "item",
                      ie_ceildiv(p, places.count, ie_const(p, threads * each)));
  Dim thread = group_threads(&e), at = ie_add(p, ie_mulc(p, item, threads * each), thread),
      c = p->zero;
  if (places.turned) at = turned_run(&e, &places, item, thread);
  int depth = 0;
  if (each > 1) {
    Dim j = loop_for(&e.b, LOOP_UNROLL, "j", ie_const(p, each));
    at = ie_add(p, at, ie_mulc(p, j, threads));
    depth++;
  }
  at = group_inside(&e, at, places.count, &depth);
  if (places.side > 1) {
    c = loop_for(&e.b, LOOP_UNROLL, "c", ie_const(p, places.side));
    depth++;
  }
  if (!store_element(&e, &places, at, c)) return TENON_EUNSUPPORTED;
  group_close(&e, depth + 2);
  elem_finish(&e,
              str_printf(lo->arena, "group pointwise %dx%dx%d%s", (int)threads, (int)each,
                         (int)places.side, places.turned ? " turned" : ""),
              out);
  return TENON_OK;
}
