// scatter.c -- template scatter_block: scatter_elements and scatter_nd on thread blocks.
//
// A thread has an element of the result.  It begins with the data's and goes over all updates in
// order; those that address the element are joined to it.  So no two threads store to one element,
// and the order of the updates is that of the op, without atomics.  The updates of
// scatter_elements that may address an element are those of one axis; of scatter_nd they are all.
// A thread reads the indices of several updates before it looks at the first, so that these loads
// are in flight together.
//
// Needs:      LowerTarget.block_threads; scatter_begin (lower/cpu/scatter.h) takes the kernel.  The
//             length of an index vector is constant.
// Guarantees: updates are applied in order.  Each index from data is checked when the kernel runs.
#include "lower/gpu/thread_loops.h"
#include "lower/cpu/scatter.h"

#include "eval/index.h"

enum { CHUNK = 8 };

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

static bool scatter_block_build(void *match, const void *fields, Lowered *out) {
  BlockScatter *g = match;
  ElementBuilder *e = &g->s.e;
  IntPool *p = e->pool;
  const Type *t = type_of(g->s.node);
  int64_t threads = e->lo->target.block_threads;
  Dim all = p->one;
  int depth = 0;
  (void)fields;
  elem_shape(e, t, g->shape);
  for (int i = 0; i < t->rank; i++) all = ie_mul(p, all, g->shape[i]);
  g->value = loop_buffer(e->k, LOOP_REGISTER, "value", t->dtype, ie_const(p, threads), false);
  Dim kept = ie_const(p, threads * CHUNK * g->len);
  g->which = loop_buffer(e->k, LOOP_REGISTER, "which", DT_I64, kept, false);
  loop_begin(&e->b, e->k);
  Dim items = ie_ceildiv(p, all, ie_const(p, threads));
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  g->thread = thread_loop(e);
  Dim at = ie_add(p, ie_mulc(p, item, threads), g->thread);
  at = thread_guard(e, at, all, &depth);
  elem_split(e, at, t->rank, g->shape, g->index);
  const LoopExpr *x = elem_at(e, g->s.node->src[0], g->index);
  if (!x) return false;
  loop_store(&e->b, g->value, g->thread, x);
  if (!type_is_empty(type_of(g->s.node->src[2]))) {
    int opened = 0;
    if (g->s.node->op == OP_scatter_elements && !open_elements(g, &opened)) return false;
    if (!join_all(g)) return false;
    thread_close(e, opened);
  }
  loop_store(&e->b, elem_result(e, 0), at, loop_load(e->k, g->value, g->thread));
  thread_close(e, depth + 2);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_scatter_block = {.match = scatter_block_match,
                                             .build = scatter_block_build};
