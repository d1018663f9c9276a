// scatter.c -- template scatter_block: scatter_elements and scatter_nd on thread blocks.
//
// A thread has an element of the result.  It begins with the data's and goes over all updates in
// order; those that address the element are joined to it.  So no two threads store to one element,
// and the order of the updates is that of the op, without atomics.
//
// The updates of scatter_elements that may address an element are those of one axis.  A thread
// reads the indices of several of them before it looks at the first, so that these loads are in
// flight together.  Of scatter_nd all updates may address an element.  So the block reads the rows
// that they address into shared memory, some at a time, marks groups of updates that address a row
// of the block, and its threads look at these groups alone.
//
// Needs:      LowerTarget.block_threads; scatter_begin (lower/cpu/scatter.h) takes the kernel.  The
//             length of an index vector is constant.
// Guarantees: updates are applied in order.  Each index from data is checked when the kernel runs.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/scatter.h"

#include "eval/index.h"

enum { CHUNK = 8, GROUP = 8, FEW = 64 };

typedef struct BlockScatter {
  Scatter s;
  Dim shape[MAX_RANK], index[MAX_RANK];  // of the result
  Dim update_shape[MAX_RANK];
  Dim from[MAX_RANK];  // scatter_elements: the coordinates that all updates of the element share
  Dim count;           // of the updates that may address an element
  int axis, len;       // an index has `len` coordinates of the result, from `axis` on
  int outer;           // scatter_nd: axes of the updates that are numbered
  Dim thread;
  int32_t value, which;  // registers: the element; the indices of CHUNK updates
  // scatter_nd with more than a FEW updates:
  int64_t threads;
  Dim item, all, row, inner;  // all elements; the thread's row, and elements of a row
  int32_t rows, marks;        // shared: rows that updates address, and by group whether one is here
} BlockScatter;

static const LoopExpr *same(ElementBuilder *e, Dim a, Dim b) {
  return loop_op(e->k, LOOP_eq, loop_index(e->k, a), loop_index(e->k, b), NULL);
}

// Joins the update at `from` where it is meant for the element.
static bool join_where(BlockScatter *g, const LoopExpr *is, const Dim *from) {
  ElementBuilder *e = &g->s.e;
  loop_if(&e->b, is);
  elem_forget(e);
  const LoopExpr *x = elem_at(e, g->s.node->src[2], from);
  if (!x) return false;
  const LoopExpr *old = loop_load(e->k, g->value, g->thread);
  loop_store(&e->b, g->value, g->thread, scatter_joined(&g->s, old, x));
  loop_end(&e->b);
  elem_forget(e);
  return true;
}

// The coordinates of part k of update u's index, or, with k < 0, of the update.
static void update_at(BlockScatter *g, Dim u, int k, Dim *out) {
  ElementBuilder *e = &g->s.e;
  if (g->s.node->op == OP_scatter_elements) {
    memcpy(out, g->from, sizeof g->from);
    out[g->axis] = u;
    return;
  }
  elem_split(e, u, g->outer, g->update_shape, out);
  if (k >= 0) out[g->outer] = ie_const(e->pool, k);
  for (int i = g->len; k < 0 && i < type_of(g->s.node)->rank; i++)
    out[g->outer + i - g->len] = g->index[i];
}

// Reads the index of update u.
static bool load_index(BlockScatter *g, Dim u, Dim kept) {
  ElementBuilder *e = &g->s.e;
  for (int k = 0; k < g->len; k++) {
    Dim from[MAX_RANK];
    update_at(g, u, k, from);
    const LoopExpr *x = elem_at(e, g->s.node->src[1], from);
    if (!x) return false;
    loop_store(&e->b, g->which, ie_addc(e->pool, kept, k), loop_cast(e->k, DT_I64, x));
  }
  return true;
}

// Joins update u where its index is the element's.
static bool join_update(BlockScatter *g, Dim u, Dim kept) {
  ElementBuilder *e = &g->s.e;
  const LoopExpr *is = NULL;
  Dim from[MAX_RANK];
  for (int k = 0; k < g->len; k++) {
    const LoopExpr *which = loop_load(e->k, g->which, ie_addc(e->pool, kept, k));
    Dim at = elem_bound(e, which, g->shape[g->axis + k]);
    const LoopExpr *one = same(e, at, g->index[g->axis + k]);
    is = is ? loop_op(e->k, LOOP_and, is, one, NULL) : one;
  }
  update_at(g, u, -1, from);
  return join_where(g, is, from);
}

// All updates in order: of each chunk the loads, then what they say.
static bool join_all(BlockScatter *g) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  Dim n = ie_const(p, CHUNK);
  Dim chunk = loop_for(&e->b, LOOP_SERIAL, "u", ie_ceildiv(p, g->count, n));
  for (int i = 0; i < 2; i++) {
    int depth = 1;
    Dim j = loop_for(&e->b, LOOP_UNROLL, "j", n);
    Dim u = thread_guard(e, ie_add(p, ie_mulc(p, chunk, CHUNK), j), g->count, &depth);
    Dim kept = ie_mulc(p, ie_add(p, ie_mulc(p, g->thread, CHUNK), j), g->len);
    elem_forget(e);
    if (!(i ? join_update(g, u, kept) : load_index(g, u, kept))) return false;
    thread_close(e, depth);
    elem_forget(e);
  }
  loop_end(&e->b);
  return true;
}

// ---- scatter_nd by marked groups ----

// Opens the thread's element.
static void open_element(BlockScatter *g, int *depth) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  const Type *t = type_of(g->s.node);
  g->thread = thread_loop(e);
  *depth = 1;
  Dim at = ie_add(p, ie_mulc(p, g->item, g->threads), g->thread);
  at = thread_guard(e, at, g->all, depth);
  elem_split(e, at, t->rank, g->shape, g->index);
  g->row = ie_div(p, at, g->inner);
}

static void close_element(BlockScatter *g, int depth) {
  thread_close(&g->s.e, depth);
  elem_forget(&g->s.e);
}

static const LoopExpr *row_number(BlockScatter *g, Dim row) {
  LoopKernel *k = g->s.e.k;
  return loop_cast(k, k->buffer[g->rows].dtype, loop_index(k, row));
}

// The rows that the chunk's updates address; -1 behind the last update.
static bool read_rows(BlockScatter *g, Dim chunk) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  Dim index[MAX_RANK], from[MAX_RANK];
  int depth = 1;
  g->thread = thread_loop(e);
  loop_store(&e->b, g->rows, g->thread, loop_int(e->k, e->k->buffer[g->rows].dtype, -1));
  Dim u = ie_add(p, ie_mulc(p, chunk, g->threads), g->thread);
  u = thread_guard(e, u, g->count, &depth);
  for (int k = 0; k < g->len; k++) {
    elem_forget(e);
    update_at(g, u, k, from);
    const LoopExpr *x = elem_at(e, g->s.node->src[1], from);
    if (!x) return false;
    x = loop_let(&e->b, loop_cast(e->k, DT_I64, x));
    index[k] = elem_bound(e, x, g->shape[k]);
  }
  Dim row = elem_linear(e, g->len, g->shape, index);
  loop_store(&e->b, g->rows, g->thread, row_number(g, row));
  close_element(g, depth);
  return true;
}

// Whether an update of a group addresses one of the block's rows.
static void mark_groups(BlockScatter *g) {
  ElementBuilder *e = &g->s.e;
  LoopKernel *k = e->k;
  IntPool *p = e->pool;
  int depth = 1;
  Dim group = thread_guard(e, thread_loop(e), ie_const(p, g->threads / GROUP), &depth);
  Dim first = ie_mulc(p, g->item, g->threads), last = ie_addc(p, first, g->threads - 1);
  const LoopExpr *lo = loop_let(&e->b, row_number(g, ie_div(p, first, g->inner)));
  const LoopExpr *hi = loop_let(&e->b, row_number(g, ie_div(p, last, g->inner)));
  Dim j = loop_reduce(&e->b, LOOP_or, "j", ie_const(p, GROUP), 1);
  const LoopExpr *row = loop_load(k, g->rows, ie_add(p, ie_mulc(p, group, GROUP), j));
  row = loop_let(&e->b, row);
  const LoopExpr *in = loop_op(k, LOOP_and, loop_op(k, LOOP_le, lo, row, NULL),
                               loop_op(k, LOOP_le, row, hi, NULL), NULL);
  loop_store(&e->b, g->marks, group, loop_yield(&e->b, in));
  close_element(g, depth);
}

// Joins the chunk's updates that address the thread's row, in order.
static bool join_marked(BlockScatter *g, Dim chunk) {
  ElementBuilder *e = &g->s.e;
  LoopKernel *k = e->k;
  IntPool *p = e->pool;
  Dim from[MAX_RANK];
  int depth;
  open_element(g, &depth);
  const LoopExpr *mine = loop_let(&e->b, row_number(g, g->row));
  Dim group = loop_for(&e->b, LOOP_SERIAL, "group", ie_const(p, g->threads / GROUP));
  loop_if(&e->b, loop_load(k, g->marks, group));
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", ie_const(p, GROUP));
  Dim at = ie_add(p, ie_mulc(p, group, GROUP), j);
  loop_if(&e->b, loop_op(k, LOOP_eq, loop_load(k, g->rows, at), mine, NULL));
  int inner = depth + 4;
  Dim u = thread_guard(e, ie_add(p, ie_mulc(p, chunk, g->threads), at), g->count, &inner);
  elem_forget(e);
  update_at(g, u, -1, from);
  const LoopExpr *x = elem_at(e, g->s.node->src[2], from);
  if (!x) return false;
  const LoopExpr *old = loop_load(k, g->value, g->thread);
  loop_store(&e->b, g->value, g->thread, scatter_joined(&g->s, old, x));
  close_element(g, inner);
  return true;
}

static bool join_by_groups(BlockScatter *g) {
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  bool narrow = ie_is_const(g->all) && g->all->value <= INT32_MAX;
  Dim threads = ie_const(p, g->threads), groups = ie_const(p, g->threads / GROUP);
  g->rows = loop_buffer(e->k, LOOP_SHARED, "rows", narrow ? DT_I32 : DT_I64, threads, false);
  g->marks = loop_buffer(e->k, LOOP_SHARED, "marks", DT_BOOL, groups, false);
  Dim chunk = loop_for(&e->b, LOOP_SERIAL, "chunk", ie_ceildiv(p, g->count, threads));
  if (!read_rows(g, chunk)) return false;
  mark_groups(g);
  if (!join_marked(g, chunk)) return false;
  loop_end(&e->b);
  return true;
}

// ---- the template ----

// What the updates are, and conditions around them, counted in *depth.
static bool open_elements(BlockScatter *g, int *depth) {
  ElementBuilder *e = &g->s.e;
  const Type *u = type_of(g->s.node->src[1]);
  for (int i = 0; i < u->rank; i++) {
    g->from[i] = g->index[i];
    if (i == g->axis) continue;
    // That updates lie within the data is for the template of single threads to check.
    if (ie_lt(e->pool, g->update_shape[i], ie_addc(e->pool, g->shape[i], 1)) != YES) return false;
    if (g->update_shape[i] == g->shape[i]) continue;
    g->from[i] = loop_where(&e->b, "in", g->index[i], g->update_shape[i]);
    ++*depth;
  }
  return true;
}

static bool find_updates(BlockScatter *g) {
  ElementBuilder *e = &g->s.e;
  const Type *x = type_of(g->s.node), *w = type_of(g->s.node->src[1]),
             *u = type_of(g->s.node->src[2]);
  elem_shape(e, u, g->update_shape);
  g->len = 1;
  if (g->s.node->op == OP_scatter_elements) {
    g->axis = elem_axis(((const scatter_elements_attrs *)g->s.node->attrs)->axis, x->rank);
    g->count = g->update_shape[g->axis];
    return w->rank == x->rank;
  }
  g->outer = w->rank - 1;
  if (!ie_is_const(w->dims[g->outer])) return false;
  g->len = (int)MIN(w->dims[g->outer]->value, MAX_RANK + 1);
  if (g->len < 1 || g->len > x->rank || u->rank != g->outer + x->rank - g->len) return false;
  g->count = e->pool->one;
  for (int i = 0; i < g->outer; i++) g->count = ie_mul(e->pool, g->count, g->update_shape[i]);
  return true;
}

static void *scatter_block_match(Lowering *lo, const Node *fused) {
  BlockScatter *g = arena_new(lo->arena, BlockScatter);
  lo->why = "it is no scatter_elements or scatter_nd alone";
  return scatter_begin(&g->s, lo, fused) && find_updates(g) ? g : NULL;
}

static bool by_groups(const BlockScatter *g) {
  return g->s.node->op == OP_scatter_nd && g->threads % GROUP == 0 &&
         !type_is_empty(type_of(g->s.node->src[2])) &&
         !(ie_is_const(g->count) && g->count->value <= FEW);
}

// Each thread goes over all updates that may address its element.
static bool join_own(BlockScatter *g) {
  int opened = 0;
  if (type_is_empty(type_of(g->s.node->src[2]))) return true;
  if (g->s.node->op == OP_scatter_elements && !open_elements(g, &opened)) return false;
  if (!join_all(g)) return false;
  thread_close(&g->s.e, opened);
  return true;
}

static void store_element(BlockScatter *g) {
  ElementBuilder *e = &g->s.e;
  Dim at = elem_linear(e, type_of(g->s.node)->rank, g->shape, g->index);
  loop_store(&e->b, elem_result(e, 0), at, loop_load(e->k, g->value, g->thread));
}

static bool scatter_block_build(void *match, const void *fields, Lowered *out) {
  BlockScatter *g = match;
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  const Type *t = type_of(g->s.node);
  int depth;
  (void)fields;
  g->threads = e->lo->target.block_threads;
  elem_shape(e, t, g->shape);
  g->all = g->inner = p->one;
  for (int i = 0; i < t->rank; i++) g->all = ie_mul(p, g->all, g->shape[i]);
  for (int i = g->len; i < t->rank; i++) g->inner = ie_mul(p, g->inner, g->shape[i]);
  bool groups = by_groups(g);
  g->value = loop_buffer(e->k, LOOP_REGISTER, "value", t->dtype, ie_const(p, g->threads), false);
  Dim kept = ie_const(p, g->threads * CHUNK * g->len);
  if (!groups) g->which = loop_buffer(e->k, LOOP_REGISTER, "which", DT_I64, kept, false);
  loop_begin(&e->b, e->k);
  g->item = loop_for(&e->b, LOOP_PARALLEL, "item", ie_ceildiv(p, g->all, ie_const(p, g->threads)));
  open_element(g, &depth);
  const LoopExpr *x = elem_at(e, g->s.node->src[0], g->index);
  if (!x) return false;
  loop_store(&e->b, g->value, g->thread, x);
  if (groups) {
    close_element(g, depth);
    if (!join_by_groups(g)) return false;
    open_element(g, &depth);
  } else if (!join_own(g)) {
    return false;
  }
  store_element(g);
  thread_close(e, depth + 1);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_scatter_block = {.match = scatter_block_match,
                                             .build = scatter_block_build};
