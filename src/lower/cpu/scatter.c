// scatter.c -- template scatter: scatter_elements and scatter_nd, a copy and then the updates.
//
// Two updates may address one element, and the later one counts.  So the kernel has one work item
// for each place of the axes that no index is for: all updates of an element are in its item.
// Where those are few, and so are the updates, the first axis that an index is for is cut: an item
// copies its part, then looks at every update and takes those that fall into it.
//
// Needs:      the op is the kernel's only result; with a reduction no f16, bf16 or bool, which the
//             host evaluates.  The length of an index vector is constant.
// Guarantees: updates are applied in order.  Each index from data is checked when the kernel runs.
#include "lower/cpu/scatter.h"

#include "eval/index.h"

#define SCATTER_SCHEDULE(I, B, C, T)                                                               \
  I(T, cols, 64, 1, 1 << 12, 1, FREE,                                                              \
    "elements of the last axis per work item, where no index is for it")                           \
  I(T, rows, 0, 0, 1 << 30, 1, FREE,                                                               \
    "places of the first axis that an index is for, per work item; 0: all")
SCHEDULE_STRUCT(Scatter, SCATTER_SCHEDULE);
SCHEDULE_TABLE(Scatter, SCATTER_SCHEDULE);

static bool find_scatter(Scatter *s) {
  const Body *b = s->e.body;
  if (b->nresults != 1) return false;
  s->node = b->result[0];
  if (s->node->op == OP_scatter_elements)
    s->mode = ((const scatter_elements_attrs *)s->node->attrs)->reduction;
  else if (s->node->op == OP_scatter_nd)
    s->mode = ((const scatter_nd_attrs *)s->node->attrs)->reduction;
  else
    return false;
  DType t = type_of(s->node)->dtype;
  for (int i = 0; i < 3; i++)
    if (type_of(s->node->src[i])->rank < 1) return false;
  // Narrow floats would be rounded after every update.
  return s->mode == SCATTER_NONE || (t != DT_F16 && t != DT_BF16 && t != DT_BOOL);
}

// Axes that no index is for: those before the axis of scatter_elements, and those that a block of
// scatter_nd has.
static void find_items(Scatter *s) {
  const Type *x = type_of(s->node), *w = type_of(s->node->src[1]);
  int last = x->rank - 1;
  if (s->node->op == OP_scatter_elements) {
    int axis = elem_axis(((const scatter_elements_attrs *)s->node->attrs)->axis, x->rank);
    if (w->rank != x->rank) return;
    for (int d = 0; d < axis; d++) s->shared[d] = true;
    s->cut = axis < last && ie_eq(&s->e.lo->g->dims, w->dims[last], x->dims[last]) == YES;
  } else if (ie_is_const(w->dims[w->rank - 1])) {
    int64_t len = w->dims[w->rank - 1]->value;
    for (int64_t d = len; d < last; d++) s->shared[d] = true;
    s->cut = len <= last;
  }
}

// The first axis that an index is for, if an item may have a part of it; -1: none may.  An update
// is looked at outside of vector loops.
static int part_axis(const Scatter *s) {
  const Type *x = type_of(s->node);
  if (!type_is_static(x) || (s->cut && s->node->op == OP_scatter_elements)) return -1;
  for (int d = 0; d < x->rank; d++)
    if (!s->shared[d]) return d;
  return -1;
}

static void open_items(Scatter *s) {
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  const Type *t = type_of(s->node);
  Dim shape[MAX_RANK], outer[MAX_RANK + 1], at[MAX_RANK + 1], items = p->one;
  int n = 0, last = t->rank - 1;
  elem_shape(e, t, shape);
  for (int d = 0; d <= last; d++)
    if (s->shared[d]) items = ie_mul(p, items, outer[n++] = shape[d]);
  if (s->cut)
    items = ie_mul(p, items, outer[n++] = ie_ceildiv(p, shape[last], ie_const(p, s->cols)));
  if (s->part >= 0)
    items = ie_mul(p, items, outer[n++] = ie_ceildiv(p, shape[s->part], ie_const(p, s->rows)));
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, n, outer, at);
  n = 0;
  for (int d = 0; d <= last; d++)
    if (s->shared[d]) s->at[d] = at[n++];
  s->first = p->zero;
  s->width = shape[last];
  if (s->part >= 0) {
    s->row = ie_mulc(p, at[n + s->cut], s->rows);
    s->part_rows = ie_min(p, ie_const(p, s->rows), ie_sub(p, shape[s->part], s->row));
  }
  if (!s->cut) return;
  s->first = ie_mulc(p, at[n], s->cols);
  s->width = ie_min(p, ie_const(p, s->cols), ie_sub(p, shape[last], s->first));
}

// Opens a loop over an axis; of the last one, of the item's piece.
static Dim open_axis(Scatter *s, const char *name, int axis, Dim extent, bool vector) {
  ElementBuilder *e = &s->e;
  bool piece = s->cut && axis == type_of(s->node)->rank - 1;
  Dim i = loop_for(&e->b, vector ? LOOP_VECTOR : LOOP_SERIAL, name, piece ? s->width : extent);
  return piece ? ie_add(e->pool, s->first, i) : i;
}

static bool copy_data(Scatter *s) {
  ElementBuilder *e = &s->e;
  const Type *t = type_of(s->node);
  Dim shape[MAX_RANK], index[MAX_RANK];
  int opened = 0;
  elem_shape(e, t, shape);
  for (int i = 0; i < t->rank; i++) {
    index[i] = s->at[i];
    if (s->shared[i]) continue;
    opened++;
    index[i] = open_axis(s, "c", i, i == s->part ? s->part_rows : shape[i], i == t->rank - 1);
    if (i == s->part) index[i] = ie_add(e->pool, s->row, index[i]);
  }
  const LoopExpr *x = elem_at(e, s->node->src[0], index);
  if (!x) return false;
  loop_store(&e->b, elem_result(e, 0), elem_linear(e, t->rank, shape, index), x);
  while (opened--) loop_end(&e->b);
  elem_forget(e);
  return true;
}

const LoopExpr *scatter_joined(const Scatter *s, const LoopExpr *old, const LoopExpr *x) {
  static const LoopOp op[] = {[SCATTER_ADD] = LOOP_add,
                              [SCATTER_MUL] = LOOP_mul,
                              [SCATTER_MIN] = LOOP_min,
                              [SCATTER_MAX] = LOOP_max};
  return s->mode == SCATTER_NONE ? x : loop_op(s->e.k, op[s->mode], old, x, NULL);
}

// Opens a statement for updates that fall into the item's part.  How many statements that are.
static int open_part(Scatter *s, Dim *at) {
  ElementBuilder *e = &s->e;
  if (s->part < 0) return 0;
  Dim in = loop_where(&e->b, "in", ie_sub(e->pool, at[s->part], s->row), s->part_rows);
  at[s->part] = ie_add(e->pool, s->row, in);
  return 1;
}

// Joins an update to what is there, at an index of the result.
static bool put(Scatter *s, const LoopExpr *x, const Dim *at) {
  ElementBuilder *e = &s->e;
  Dim shape[MAX_RANK];
  int32_t y = elem_result(e, 0);
  if (!x) return false;
  elem_shape(e, type_of(s->node), shape);
  Dim to = elem_linear(e, type_of(s->node)->rank, shape, at);
  loop_store(&e->b, y, to, scatter_joined(s, loop_load(e->k, y, to), x));
  return true;
}

static bool put_elements(Scatter *s) {
  ElementBuilder *e = &s->e;
  const Type *x = type_of(s->node), *u = type_of(s->node->src[1]);
  int axis = elem_axis(((const scatter_elements_attrs *)s->node->attrs)->axis, x->rank);
  Dim shape[MAX_RANK], index[MAX_RANK], at[MAX_RANK];
  if (u->rank != x->rank) return false;
  elem_shape(e, u, shape);
  // An item whose place the updates do not reach has none.
  for (int i = 0; i < u->rank; i++)
    if (s->shared[i]) index[i] = loop_where(&e->b, "u", s->at[i], shape[i]);
  for (int i = 0; i < u->rank; i++)
    if (!s->shared[i]) index[i] = open_axis(s, "u", i, shape[i], s->cut && i == u->rank - 1);
  const LoopExpr *which = elem_at(e, s->node->src[1], index);
  if (!which) return false;
  for (int i = 0; i < x->rank; i++) {
    Dim size = elem_dim(e, x->dims[i]);
    at[i] = s->shared[i] ? s->at[i] : index[i];
    if (s->shared[i]) continue;
    if (i == axis)
      at[i] = elem_bound(e, which, size);
    else if (ie_lt(e->pool, shape[i], ie_addc(e->pool, size, 1)) != YES)
      at[i] = elem_checked(e, loop_index(e->k, index[i]), size, "an update lies outside the data");
  }
  int opened = u->rank + open_part(s, at);
  if (!put(s, elem_at(e, s->node->src[2], index), at)) return false;
  while (opened--) loop_end(&e->b);
  return true;
}

static bool put_blocks(Scatter *s) {
  ElementBuilder *e = &s->e;
  const Type *x = type_of(s->node), *w = type_of(s->node->src[1]), *u = type_of(s->node->src[2]);
  Dim shape[MAX_RANK], index[MAX_RANK], at[MAX_RANK], from[MAX_RANK];
  int outer = w->rank - 1, k = 0, opened = outer;
  if (!ie_is_const(w->dims[outer])) return false;
  int len = (int)w->dims[outer]->value;
  if (len > x->rank || u->rank != outer + x->rank - len) return false;
  elem_shape(e, u, shape);
  for (int i = 0; i < outer; i++) from[i] = index[i] = loop_for(&e->b, LOOP_SERIAL, "u", shape[i]);
  for (; k < len; k++) {
    from[outer] = ie_const(e->pool, k);
    const LoopExpr *read = elem_at(e, s->node->src[1], from);
    if (!read) return false;
    at[k] = elem_bound(e, read, elem_dim(e, x->dims[k]));
  }
  opened += open_part(s, at);
  for (int i = outer; i < u->rank; i++, k++) {
    index[i] = at[k] = s->at[k];
    if (s->shared[k]) continue;
    index[i] = at[k] = open_axis(s, "b", k, elem_dim(e, x->dims[k]), i == u->rank - 1);
    opened++;
  }
  if (!put(s, elem_at(e, s->node->src[2], index), at)) return false;
  while (opened--) loop_end(&e->b);
  return true;
}

bool scatter_begin(Scatter *s, Lowering *lo, const Node *fused) {
  return elem_begin(&s->e, lo, fused, NULL, 0) && find_scatter(s) &&
         !type_is_empty(type_of(s->node));
}

static void *scatter_match(Lowering *lo, const Node *fused) {
  Scatter *s = arena_new(lo->arena, Scatter);
  if (!scatter_begin(s, lo, fused)) return NULL;
  find_items(s);
  return s;
}

static bool scatter_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                           void *fields) {
  enum { ITEMS = 8, FEWEST = 16, LEAST = 1 << 14 };
  const Scatter *c = match;
  const Type *x = type_of(c->node), *w = type_of(c->node->src[1]);
  Dim last = x->dims[x->rank - 1];
  int64_t cols = 64, others = 1, rows = 0;
  (void)t;
  (void)given;
  // A piece is as long as leaves enough items: updates are then read in long runs.
  for (int d = 0; d < x->rank; d++)
    if (c->shared[d] && ie_is_const(x->dims[d])) others *= MIN(MAX(x->dims[d]->value, 1), ITEMS);
  int64_t pieces = (ITEMS + others - 1) / others;
  if (ie_is_const(last)) cols = (last->value / pieces + FEWEST - 1) / FEWEST * FEWEST;
  cols = MIN(MAX(cols, FEWEST), 1 << 12);
  if (c->cut && ie_is_const(last)) others *= (last->value + cols - 1) / cols;
  // Each part looks at all updates, which costs less than the copy that it saves.
  int axis = part_axis(c);
  if (axis >= 0 && type_is_static(w)) {
    double all = 1, updates = 1;
    for (int d = 0; d < x->rank; d++) all *= (double)x->dims[d]->value;
    for (int d = 0; d < w->rank; d++) updates *= (double)w->dims[d]->value;
    int64_t size = x->dims[axis]->value, parts = (ITEMS + others - 1) / others;
    parts = (int64_t)MIN((double)MIN(parts, size), MIN(all / LEAST, all / ITEMS / MAX(updates, 1)));
    if (parts > 1) rows = (size + parts - 1) / parts;
  }
  *(ScatterSchedule *)fields = (ScatterSchedule){.cols = cols, .rows = rows};
  return true;
}

static bool scatter_legal(const void *match, const LowerTarget *t, const void *fields,
                          const char **why) {
  const ScatterSchedule *f = fields;
  (void)t;
  if (!f->rows || part_axis(match) >= 0) return true;
  *why = "rows: no axis that an index is for can be cut";
  return false;
}

static bool scatter_build(void *match, const void *fields, Lowered *out) {
  Scatter *s = match;
  ElementBuilder *e = &s->e;
  s->cols = ((const ScatterSchedule *)fields)->cols;
  s->rows = ((const ScatterSchedule *)fields)->rows;
  s->part = s->rows ? part_axis(s) : -1;
  loop_begin(&e->b, e->k);
  open_items(s);
  bool elements = s->node->op == OP_scatter_elements,
       none = type_is_empty(type_of(s->node->src[2]));
  if (!copy_data(s)) return false;
  if (!none && !(elements ? put_elements(s) : put_blocks(s))) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_scatter = {.match = scatter_match,
                                       .choose = scatter_choose,
                                       .legal = scatter_legal,
                                       .build = scatter_build,
                                       SCHEDULE(Scatter)};
