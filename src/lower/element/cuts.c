// cuts.c -- where an axis of an elementwise kernel passes a border of what its elements read.
//
// A concat, a pad or a rotary embedding reads another operand, or nothing, from some place of the
// axis on.  A loop over all of the axis asks for each element on which side it is.  Loops over the
// parts between such places need not ask: the range of their variable decides every guard.
//
// Elements are written once, into a builder of their own, to see what they ask.
//
// Needs:      a constant size of the axis; elem_begin accepts the kernel.
// Guarantees: the kernel at hand is not touched.  The ends ascend, and the last is the axis's size.
#include "lower/element/element.h"

#include "loop/prove.h"

#include <stdlib.h>

enum { NEAR_END = 8 };  // elements: a part this short is not worth a loop

// Where an axis passes the border of an operand, of a period or of a bound: between such places
// none of them has to be asked.
typedef struct Cuts {
  ElementBuilder *e;
  Dim sym;  // of the axis
  int64_t size;
  IntMap seen;
  int n, most;
  int64_t at[ELEM_BORDERS];
} Cuts;

static void cut_at(Cuts *c, int64_t at) {
  for (int i = 0; i < c->n; i++)
    if (c->at[i] == at) return;
  if (at > 0 && at < c->size && c->n < c->most) c->at[c->n++] = at;
}

// d as by * the last axis + from.
static bool along_last(const Cuts *c, Dim d, int64_t *by, int64_t *from) {
  Dim coef, rest;
  if (!dim_split(c->e->pool, d, c->sym, &coef, &rest) || !ie_is_const(coef) || !ie_is_const(rest))
    return false;
  *by = coef->value;
  *from = rest->value;
  return *by > 0 && *by < 64 && *from > -(1 << 30) && *from < 1 << 30;
}

static void cut_where(Cuts *c, int64_t by, int64_t from, int64_t reaches) {
  int64_t d = reaches - from;
  if (d > 0) cut_at(c, (d + by - 1) / by);
}

static void cut_bounds(Cuts *c, Dim d, Dim bound) {
  int64_t by, from;
  if (d->kind == IE_MIN || d->kind == IE_MAX) {
    cut_bounds(c, d->a, bound);
    cut_bounds(c, d->b, bound);
  } else if (ie_is_const(bound) && along_last(c, d, &by, &from)) {
    cut_where(c, by, from, bound->value);
  } else if (bound->kind == IE_MIN || bound->kind == IE_MAX) {
    cut_bounds(c, d, bound->a);
    cut_bounds(c, d, bound->b);
  }
}

// Where a remainder gets to `value`, in each of a few periods.
static void cut_period(Cuts *c, Dim mod, int64_t value) {
  int64_t by, from;
  if (mod->kind != IE_MOD || !ie_is_const(mod->b) || !along_last(c, mod->a, &by, &from)) return;
  int64_t period = mod->b->value;
  if (from < 0 || period * 2 <= c->size * by) return;
  for (int64_t k = 0; k <= (from + c->size * by) / period && k < 8; k++)
    cut_where(c, by, from, k * period + value);
}

// Where a becomes b, both of them made of one remainder.
static void cut_equal(Cuts *c, Dim a, Dim b) {
  Dim d = ie_sub(c->e->pool, a, b), mod = NULL;
  int64_t by = 0, from = 0;
  for (int i = 0; d->kind == IE_SUM && i < d->nterms; i++) {
    const IntTerm *t = &d->term[i];
    if (!t->natoms)
      from = t->coef;
    else if (mod || t->natoms > 1)
      return;
    else
      mod = t->atom[0], by = t->coef;
  }
  if (mod && by != 0 && from / -by > 0) cut_period(c, mod, from / -by);
}

static void cut_dim(Cuts *c, Dim d) {
  if (!dim_has(d, c->sym)) return;
  if (d->kind == IE_MIN || d->kind == IE_MAX) {
    cut_bounds(c, d->a, d->b);
    cut_bounds(c, d->b, d->a);
    cut_equal(c, d->a, d->b);
  }
  if (d->kind == IE_MOD) cut_period(c, d, 0);
  if (d->kind == IE_SUM) {
    for (int i = 0; i < d->nterms; i++)
      for (int k = 0; k < d->term[i].natoms; k++)
        if (d->term[i].atom[k] != d) cut_dim(c, d->term[i].atom[k]);
  } else if (d->kind != IE_SYM && d->kind != IE_CONST) {
    cut_dim(c, d->a);
    cut_dim(c, d->b);
  }
}

static void cut_expr(Cuts *c, const LoopExpr *x) {
  uint64_t have;
  int64_t by, from;
  if (!x || intmap_get(&c->seen, (uint64_t)(uintptr_t)x, &have)) return;
  intmap_put(&c->seen, (uint64_t)(uintptr_t)x, 1);
  for (int i = 0; i < 3; i++) cut_expr(c, x->src[i]);
  if (x->kind == LX_LOAD || x->kind == LX_INDEX) cut_dim(c, x->index);
  for (int i = 0; i < x->nguards; i++) {
    const LoopBound *g = &x->guard[i];
    if (!ie_is_const(g->extent) || !along_last(c, g->value, &by, &from)) continue;
    cut_where(c, by, from, 0);
    cut_where(c, by, from, g->extent->value);
  }
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void find(Cuts *c, ElementBuilder *e, const Node *const *value, int axis) {
  Dim index[MAX_RANK];
  const Type *t = type_of(value[0]);
  loop_begin(&e->b, e->k);
  loop_for(&e->b, LOOP_PARALLEL, "item", e->pool->one);
  for (int d = 0; d < t->rank; d++)
    index[d] = loop_for(&e->b, LOOP_SERIAL, "r", elem_dim(e, t->dims[d]));
  c->sym = index[axis];
  intmap_init(&c->seen, e->a);
  for (int i = 0; i < e->fused->nres; i++) cut_expr(c, elem_at(e, value[i], index));
  for (int64_t i = 0; i < e->b.stmt.n; i++) cut_expr(c, e->b.stmt.v[i]->value);
  qsort(c->at, (size_t)c->n, sizeof *c->at, by_value);
}

int elem_borders(const ElementBuilder *of, const Node *const *value, int axis, int64_t size,
                 int64_t *at) {
  ElementBuilder *e = arena_new(of->a, ElementBuilder);
  Cuts c = {.e = e, .size = size, .most = ELEM_BORDERS};
  if (elem_begin(e, of->lo, of->fused, NULL, 0)) find(&c, e, value, axis);
  if (c.n == ELEM_BORDERS) return 0;
  memcpy(at, c.at, (size_t)c.n * sizeof *at);
  return c.n;
}

int elem_cuts(const ElementBuilder *of, const Node *const *value, int axis, int64_t size,
              int64_t *cut) {
  ElementBuilder *e = arena_new(of->a, ElementBuilder);
  Cuts c = {.e = e, .size = size, .most = 2 * ELEM_CUTS};
  int n = 1;
  cut[0] = 0;
  if (elem_begin(e, of->lo, of->fused, NULL, 0)) find(&c, e, value, axis);
  for (int i = 0; i < c.n && n <= ELEM_CUTS; i++) {  // of those near an end the furthest from it
    bool early = i + 1 < c.n && c.at[i + 1] < NEAR_END;
    bool late = i && c.at[i - 1] > c.size - NEAR_END;
    if (!early && !late) cut[n++] = c.at[i];
  }
  cut[n] = size;
  return n;
}
