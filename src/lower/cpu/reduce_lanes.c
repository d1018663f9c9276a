// reduce_lanes.c -- how template reduce fills its lanes where the reduced axis is not the last one.
//
// Axes that stay and lie together are one, so that a last axis of 25 elements does not leave a
// third of the lanes empty.  Where one vector or two hold all elements, several rows are added at
// once: a sum waits for itself alone.  With masks a piece may be wider than what is left.
//
// Needs:      rows_begin and rows_measure have run.
// Guarantees: each lane adds its own elements in order, so that nothing here changes a bit.
#include "lower/cpu/reduce.h"

#include "loop/prove.h"

enum { SOME = 64, VECTORS = 8, ITEMS = 8, ITEMS_LEAST = 16, MASKED_BYTES = 64, DEPTH = 32 };
enum { FILLED = 90 };  // percent of the lanes: less is too little

// ---- joined axes ----

// The sum is something; what matters is which elements are read with it.
static const LoopExpr *give_anything(void *ctx, const Dim *index) {
  const Rows *r = ctx;
  (void)index;
  return r->total[0];
}

static bool contiguous(IntPool *p, const LoopExpr *x, Dim sym, int depth) {
  if (!x) return true;
  if (depth > DEPTH || (x->kind == LX_INDEX && dim_has(x->index, sym))) return false;
  if (x->kind == LX_LOAD && dim_has(x->index, sym) && dim_has(ie_sub(p, x->index, sym), sym))
    return false;
  for (int i = 0; i < ARRAY_LEN(x->src); i++)
    if (!contiguous(p, x->src[i], sym, depth + 1)) return false;
  return true;
}

// Whether all that is read and stored is contiguous in `sym`, which is the joined axes.
static bool all_contiguous(Rows *r, Dim sym) {
  ElementBuilder *e = &r->e;
  Dim at[MAX_RANK], index[MAX_RANK];
  for (int i = 0; i < r->nsums; i++) {
    const LoopExpr *x = elem_at(e, r->sum[i]->src[0], r->index);
    if (!x || e->nguards || !contiguous(e->pool, x, sym, 0)) return false;
    DType t = type_of(r->sum[i])->dtype;
    r->total[0] = dtype_is_float(t) ? loop_float(e->k, t, 1) : loop_int(e->k, t, 1);
    elem_give(e, r->sum[i], give_anything, r);
    elem_forget(e);
  }
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *n = e->body->result[i], *c = elem_core(n);
    if (!rows_is_whole(r, type_of(c))) continue;
    rows_result_index(r, type_of(c), true, at);
    const LoopExpr *x = elem_at(e, c, at);
    Dim place = elem_place(e, n, at, index);
    if (!x || !contiguous(e->pool, x, sym, 0) || dim_has(ie_sub(e->pool, place, sym), sym))
      return false;
  }
  return true;
}

void rows_join(Rows *r) {
  ElementBuilder *e = &r->e;
  IntPool *p = e->pool;
  int64_t lanes = MAX(e->lo->target.vector_bytes / 4, 1);
  r->from = r->vector;
  r->last = r->shape[r->vector];
  if (!ie_is_const(r->last) || (r->last->value % lanes == 0 && r->last->value >= 2 * lanes)) return;
  int from = r->vector;
  Dim all = r->last;
  while (from > 0 && !r->over[from - 1] && ie_is_const(r->shape[from - 1]))
    all = ie_mul(p, all, r->shape[--from]);
  if (all == r->last) return;
  LoopBuilder kept = e->b;
  int32_t vars = e->k->nvars;
  int given = e->ngive;
  loop_begin(&e->b, e->k);
  for (int i = 0; i < r->type->rank; i++) r->index[i] = loop_sym(e->k, "join", r->shape[i]);
  Dim sym = loop_sym(e->k, "join", all);
  elem_split(e, sym, r->vector + 1 - from, r->shape + from, r->index + from);
  if (all_contiguous(r, sym)) {
    r->from = from;
    r->last = all;
  }
  e->b = kept;
  e->k->nvars = vars;
  e->ngive = given;
  elem_forget(e);
}

// ---- columns ----

// How many of its lanes a piece of the last axis fills, in percent, where it divides that.
static int64_t lanes_filled(int64_t last, int64_t cols, int64_t lanes) {
  return last % cols ? 0 : 100 * cols / ((cols + lanes - 1) / lanes * lanes);
}

static int64_t columns(int64_t last, int64_t others, int64_t lanes) {
  int64_t best = 0, most = VECTORS * lanes;
  if (others < ITEMS) most = MIN(most, MAX(last * others / ITEMS, 2 * lanes));
  for (int64_t cols = MIN(most, last); cols >= MIN(2 * lanes, last) && cols > 0; cols--)
    if (lanes_filled(last, cols, lanes) > (best ? lanes_filled(last, best, lanes) : 0)) best = cols;
  return best ? best : SOME;
}

int64_t rows_choose_cols(const Type *t, int axis, const bool *over, const LowerTarget *target,
                         int bytes) {
  int64_t others = 1;
  if (!ie_is_const(t->dims[axis])) return SOME;
  for (int d = 0; d < t->rank; d++)
    if (d != axis && !over[d] && ie_is_const(t->dims[d])) others *= MIN(t->dims[d]->value, ITEMS);
  return columns(t->dims[axis]->value, others, MAX(target->vector_bytes / bytes, 1));
}

int64_t rows_choose_lanes(const Rows *r, const LowerTarget *target, int bytes) {
  int64_t lanes = MAX(target->vector_bytes / bytes, 1), others = 1;
  if (!ie_is_const(r->last)) return SOME;
  int64_t last = r->last->value;
  for (int d = 0; d < r->type->rank; d++)
    if ((d < r->from || d > r->vector) && !r->over[d] && ie_is_const(r->shape[d]))
      others *= MIN(r->shape[d]->value, ITEMS);
  int64_t cols = columns(last, others, lanes), best = 0, least = INT64_MAX;
  if (target->vector_bytes < MASKED_BYTES || lanes_filled(last, cols, lanes) >= FILLED) return cols;
  if (last < lanes) {  // a part of a vector, whose masks are as good
    while (lanes / 2 >= last) lanes /= 2;
    return lanes;
  }
  int64_t most = others < ITEMS ? MAX(last * others / ITEMS / lanes, 2) : VECTORS;
  for (int64_t n = MIN(most, VECTORS); n >= MAX(MIN(most, VECTORS) / 2, 1); n--) {
    int64_t padded = (last + n * lanes - 1) / (n * lanes) * n;
    if (padded < least) least = padded, best = n * lanes;
  }
  return MIN(best, (last + lanes - 1) / lanes * lanes);
}

// ---- rows at once ----

static int64_t items(const Rows *r) {
  int64_t n = (r->last->value + r->cols - 1) / r->cols;
  for (int d = 0; d < r->from; d++)
    if (!r->over[d]) n *= ie_is_const(r->shape[d]) ? MIN(r->shape[d]->value, 1 << 10) : ITEMS;
  return n;
}

// The axis is the last one before the lanes that stays.
void rows_choose_together(Rows *r) {
  const LowerTarget *t = &r->e.lo->target;
  r->unroll = 1;
  r->unroll_axis = 0;
  r->guarded = false;
  if (r->kind != ACROSS || !ie_is_const(r->last)) return;
  r->guarded = r->last->value % r->cols != 0 && t->vector_bytes >= MASKED_BYTES;
  if (!r->guarded && r->last->value % r->cols != 0) return;
  for (int d = 0; d < r->from; d++)
    if (!r->over[d] && !ie_is(r->shape[d], 1)) r->unroll_axis = d;
  if (r->over[r->unroll_axis] || r->unroll_axis >= r->from ||
      !ie_is_const(r->shape[r->unroll_axis]))
    return;
  int64_t lanes = MAX(t->vector_bytes / 4, 1), vectors = (r->cols + lanes - 1) / lanes;
  int64_t size = r->shape[r->unroll_axis]->value, row = r->cols * 4;
  if (r->whole && ie_is_const(r->length)) row *= MAX(r->length->value, 1);
  if (vectors > 2) return;
  for (int64_t n = VECTORS / vectors; n > 1; n--)
    if (size % n == 0 && n * row <= t->l1 / 2 && items(r) / n >= ITEMS_LEAST) {
      r->unroll = n;
      return;
    }
}
