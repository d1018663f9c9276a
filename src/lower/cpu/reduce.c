// reduce.c -- template reduce: reductions, norms and softmax, row by row.
//
// All reductions of the kernel, composites expanded, go over the same axes of values of one shape,
// the rows.  Each row forms its reductions in order, then stores the results.  Four forms:
//   along    reduced axes are innermost: a row is contiguous, with `lanes` partial sums;
//   short    the same of at most SHORT_MOST elements: a lane is a row, its elements one after the
//            other in registers;
//   across   the last axis stays and is the vector; a lane forms its sum in order, one row of a
//            piece after the other; results with an element per element of the rows take a second
//            pass;
//   broken   a row is several contiguous pieces, whose sums are added in order.
// A value that costs more than a load and is read again after its sum stays in scratch, or in the
// result where a row is long.
//
// Needs:      constant axes; results that have the rows' elements, or one per row, in row order.
// Guarantees: `lanes` alone changes the order of a sum; 16-bit floats are summed in f32.  arg_max
//             and arg_min prefer a NaN, then the first or last place as the op says.  Sizes may be
//             dynamic.
#include "lower/cpu/reduce.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "ir/internal.h"

enum { KEEP_ELEMS = 1 << 20, KEEP_ROWS = 1 << 10 };

// A row that lies together has `lanes` partial sums; sums across rows are formed in order.
#define REDUCE_SCHEDULE(I, B, C, T)                                                                \
  I(T, lanes, 1, 1, 64, 0, ORDER, "partial sums of a contiguous row")                              \
  I(T, cols, 64, 1, 1 << 12, 1, FREE,                                                              \
    "elements of the last axis per work item, where it is not reduced; of short rows, rows")       \
  B(T, keep, true, FREE, "expensive elements that are read again stay in scratch")
SCHEDULE_STRUCT(Reduce, REDUCE_SCHEDULE);
SCHEDULE_TABLE(Reduce, REDUCE_SCHEDULE);

// ---- what the kernel sums ----

static bool is_sum(const Node *n) {
  switch (n->op) {
  case OP_reduce_sum:
  case OP_reduce_prod:
  case OP_reduce_max:
  case OP_reduce_min:
  case OP_arg_max:
  case OP_arg_min:
  case OP_reduce_mean: return true;
  default: return false;
  }
}

bool rows_is_arg(const Node *n) { return n->op == OP_arg_max || n->op == OP_arg_min; }

static bool sum_axes(Graph *g, const Node *n, bool *over) {
  const Type *t = type_of(n->src[0]);
  if (rows_is_arg(n)) {
    if (t->rank < 1) return false;
    memset(over, 0, MAX_RANK * sizeof *over);
    over[elem_axis(((const arg_attrs *)n->attrs)->axis, t->rank)] = true;
    return true;
  }
  const reduce_attrs *at = n->attrs;
  Ints axes = {0};
  const Node *given = src_or_null(g, n, 1);
  if (t->rank < 0 || (given && !node_ints(g, given, &axes))) return false;
  memset(over, 0, MAX_RANK * sizeof *over);
  for (int i = 0; !axes.n && !at->noop_with_empty_axes && i < t->rank; i++) over[i] = true;
  for (int64_t i = 0; i < axes.n; i++) over[axes.v[i] < 0 ? axes.v[i] + t->rank : axes.v[i]] = true;
  return true;
}

typedef struct Finder {
  Rows *r;
  IntMap seen;
  bool bad;
} Finder;

static void find_sums(Finder *f, const Node *n);

static void find_in_expansion(Finder *f, const Node *n) {
  Node **out = arena_array(f->r->e.a, Node *, MAX(n->nres, 1));
  f->bad |= !elem_expand(f->r->e.lo->g, f->r->e.a, n, out);
  for (int i = 0; !f->bad && i < n->nres; i++)
    if (out[i]) find_sums(f, out[i]);
}

static bool is_plain(const Node *n) {
  return n->op == OP_proj || n->op == OP_clip || n->op == OP_where || n->op == OP_cast ||
         elem_moves(n) || elem_op(n) || is_sum(n);
}

// Every sum below `n`, operands first.
static void find_sums(Finder *f, const Node *n) {
  uint64_t have;
  if (f->bad || n->op == OP_param || n->op == OP_const || n == f->r->e.lo->g->none) return;
  if (intmap_get(&f->seen, n->id, &have)) return;
  intmap_put(&f->seen, n->id, 1);
  if (!is_plain(n) && op_info(n->op)->expand) {
    find_in_expansion(f, n);
    return;
  }
  for (uint32_t i = 0; i < n->nsrc; i++) find_sums(f, n->src[i]);
  if (!is_sum(n)) return;
  if (f->r->nsums == SUMS)
    f->bad = true;
  else
    f->r->sum[f->r->nsums++] = n;
}

// How the rows lie.
static void find_kind(Rows *r) {
  int rank = r->type->rank;
  bool any = false;
  r->kind = ALONG;
  r->inner = rank;
  while (r->inner > 0 && (r->over[r->inner - 1] || ie_is(r->type->dims[r->inner - 1], 1)))
    r->inner--;
  for (int i = 0; i < rank; i++) {
    bool one = ie_is(r->type->dims[i], 1);
    if (any && !r->over[i] && !one) r->kind = BROKEN;
    any |= r->over[i] && !one;
  }
  bool piece = false;  // of a row, at the end
  for (int i = r->inner; i < rank; i++) piece |= r->over[i] && !ie_is(r->type->dims[i], 1);
  if (r->kind == BROKEN && !piece) r->kind = ACROSS;
  r->vector = r->inner - 1;
  if (r->kind == ALONG)
    for (r->inner = 0; r->inner < rank && !r->over[r->inner];) r->inner++;
  if (r->kind == ACROSS) r->inner = rank;
}

// All sums over the same axes of one shape, none of them empty.
static bool agree(Rows *r) {
  bool over[MAX_RANK];
  Graph *g = r->e.lo->g;
  if (!r->nsums) return false;
  r->type = type_of(r->sum[0]->src[0]);
  for (int i = 0; i < r->nsums; i++) {
    if (!sum_axes(g, r->sum[i], over)) return false;
    if (!i) memcpy(r->over, over, sizeof over);
    if (memcmp(r->over, over, sizeof over) || !type_same_dims(r->type, type_of(r->sum[i]->src[0])))
      return false;
  }
  find_kind(r);
  bool none = type_is_empty(r->type);
  for (int i = 0; i < r->nsums && none; i++)
    if (rows_is_arg(r->sum[i])) return false;  // there is none to choose
  for (int i = 0; i < r->e.fused->nres; i++)
    if (type_is_empty(r->e.fused->type[i])) return false;
  return true;
}

// ---- results ----

// Elements of the whole, or of what is left of it, in the same order.
static Dim count_of(Rows *r, bool all) {
  Dim n = r->e.pool->one;
  for (int i = 0; i < r->type->rank; i++)
    if (all || !r->over[i]) n = ie_mul(r->e.pool, n, elem_dim(&r->e, r->type->dims[i]));
  return n;
}

static Dim elements_of(Rows *r, const Type *t) {
  Dim n = r->e.pool->one;
  for (int i = 0; i < t->rank; i++) n = ie_mul(r->e.pool, n, elem_dim(&r->e, t->dims[i]));
  return n;
}

bool rows_is_whole(Rows *r, const Type *t) {
  return type_same_dims(t, r->type) || elements_of(r, t) == count_of(r, true);
}

static bool good_results(Rows *r) {
  for (int i = 0; i < r->e.fused->nres; i++) {
    const Type *t = type_of(elem_core(r->e.body->result[i]));
    bool whole = rows_is_whole(r, t);
    if (!whole && elements_of(r, t) != count_of(r, false)) return false;
    r->whole |= whole;
  }
  return true;
}

// The index of the row's element, or of the row, in a result's shape.
void rows_result_index(Rows *r, const Type *t, bool whole, Dim *out) {
  ElementBuilder *e = &r->e;
  Dim shape[MAX_RANK], to[MAX_RANK], at[MAX_RANK];
  int n = 0;
  for (int d = 0; d < r->type->rank; d++)
    if (whole || !r->over[d]) {
      shape[n] = r->shape[d];
      at[n++] = r->index[d];
    }
  elem_shape(e, t, to);
  elem_reshape(e, n, shape, t->rank, to, at, out);
}

// ---- sums ----

typedef struct Given {
  Rows *r;
  int i;
} Given;

static Given *given(Rows *r, int i) {
  Given *g = arena_new(r->e.a, Given);
  *g = (Given){r, i};
  return g;
}

bool rows_same_index(const Rows *r, int axis, Dim index) {
  return index == r->index[axis] || ie_is(r->shape[axis], 1);
}

// Only the row at hand has its sums: an index of another is none that this template knows.
static const LoopExpr *give_total(void *ctx, const Dim *index) {
  const Given *g = ctx;
  Rows *r = g->r;
  int k = 0;
  bool kept = type_of(r->sum[g->i])->rank == r->type->rank;
  for (int d = 0; d < r->type->rank; d++) {
    if (!r->over[d] && !rows_same_index(r, d, index[k])) return NULL;
    k += kept || !r->over[d];
  }
  if (r->kind == ACROSS) return loop_load(r->e.k, r->row_sum[g->i], r->lane);
  return r->total[g->i];
}

// Where the element at hand is kept in a buffer: across, the lanes lie together; in the result, at
// the place of its element.
static Dim kept_place(Rows *r, int32_t buffer) {
  ElementBuilder *e = &r->e;
  IntPool *p = e->pool;
  if (r->kind == ACROSS) return ie_add(p, ie_mulc(p, r->place, r->cols * r->unroll), r->lane);
  if (buffer >= e->k->nargs) return r->place;
  Dim at[MAX_RANK], index[MAX_RANK];
  const Node *n = e->body->result[0];
  rows_result_index(r, type_of(elem_core(n)), true, at);
  return elem_place(e, n, at, index);
}

static const LoopExpr *give_kept(void *ctx, const Dim *index) {
  const Given *g = ctx;
  for (int d = 0; d < g->r->type->rank; d++)
    if (!rows_same_index(g->r, d, index[d])) return NULL;
  return loop_load(g->r->e.k, g->r->scratch[g->i], kept_place(g->r, g->r->scratch[g->i]));
}

LoopOp rows_sum_op(const Node *n) {
  switch (n->op) {
  case OP_reduce_prod: return LOOP_mul;
  case OP_arg_max:
  case OP_reduce_max: return LOOP_max;
  case OP_arg_min:
  case OP_reduce_min: return LOOP_min;
  default: return LOOP_add;
  }
}

static int lanes_for(Dim length) {
  if (!ie_is_const(length)) return 32;
  int lanes = 1;
  while (lanes < LOOP_LANES && lanes * 4 <= length->value) lanes *= 2;
  return lanes;
}

// The element's index: the row's own axes are set already; the others come from its place in the
// row.
void rows_set_place(Rows *r, Dim outer, Dim inner) {
  ElementBuilder *e = &r->e;
  Dim shape[MAX_RANK], at[MAX_RANK];
  for (int part = 0; part < 2; part++) {
    int n = 0, from = part ? r->inner : 0, to = part ? r->type->rank : r->inner;
    for (int i = from; i < to; i++)
      if (r->over[i]) shape[n++] = r->shape[i];
    elem_split(e, part ? inner : outer, n, shape, at);
    n = 0;
    for (int i = from; i < to; i++)
      if (r->over[i]) r->index[i] = at[n++];
  }
  r->place = ie_add(e->pool, ie_mul(e->pool, outer, r->inner_length), inner);
  elem_forget(e);
}

// Opens loops over the row.  Returns how many.
static int open_row(Rows *r) {
  LoopBuilder *b = &r->e.b;
  Dim outer = r->e.pool->zero, inner = outer;
  int n = 0;
  if (r->kind == ACROSS) {
    outer = loop_for(b, LOOP_SERIAL, "k", r->length), n++;
  } else {
    if (!ie_is(r->outer_length, 1)) outer = loop_for(b, LOOP_SERIAL, "o", r->outer_length), n++;
    inner = loop_for(b, LOOP_VECTOR, "v", r->inner_length), n++;
  }
  rows_set_place(r, outer, inner);
  return n;
}

const LoopExpr *rows_finish_sum(Rows *r, const Node *n, const LoopExpr *x) {
  LoopKernel *k = r->e.k;
  if (n->op == OP_reduce_mean) {
    const LoopExpr *count = loop_cast(k, x->dtype, loop_index(k, r->length));
    x = loop_op(k, LOOP_div, x, count, NULL);
  }
  return loop_let(&r->e.b, loop_cast(k, type_of(n)->dtype, x));
}

// ---- values kept ----

bool rows_costly(const Node *n) {
  return n->op != OP_param && n->op != OP_const && !elem_moves(n) && n->op != OP_cast;
}

static int64_t count_uses(Rows *r, const Node *n, const Node *of, IntMap *seen) {
  uint64_t have;
  if (n->op == OP_param || n->op == OP_const || intmap_get(seen, n->id, &have)) return 0;
  intmap_put(seen, n->id, 1);
  int64_t uses = 0;
  if (!is_plain(n) && op_info(n->op)->expand) {
    Node **out = arena_array(r->e.a, Node *, MAX(n->nres, 1));
    bool across = elem_expand(r->e.lo->g, r->e.a, n, out);
    for (int i = 0; across && i < n->nres; i++)
      if (out[i]) uses += (out[i] == of) + count_uses(r, out[i], of, seen);
    return uses;
  }
  for (uint32_t i = 0; i < n->nsrc; i++)
    uses += (n->src[i] == of) + count_uses(r, n->src[i], of, seen);
  return uses;
}

// Whether something besides sum i reads its operand: a later sum, or a result.
bool rows_read_again(Rows *r, int i) {
  const Node *of = r->sum[i]->src[0];
  IntMap seen;
  intmap_init(&seen, r->e.a);
  intmap_put(&seen, r->sum[i]->id, 1);
  int64_t uses = 0;
  for (int k = i + 1; k < r->nsums; k++) uses += count_uses(r, r->sum[k], of, &seen);
  for (int64_t k = 0; k < r->e.body->nresults; k++) {
    const Node *n = r->e.body->result[k];
    uses += (n == of) + count_uses(r, n, of, &seen);
  }
  return uses > 0;
}

bool rows_kept(const Rows *r, const Node *n) {
  for (int i = 0; i < r->nkept; i++)
    if (r->kept[i] == n) return true;
  return false;
}

// Whether the last sum's operand may wait in the result, whose elements are stored where they are
// read: a row beyond the nearest cache then has one place less.
static bool keeps_in_result(Rows *r, int i) {
  const ElementBuilder *e = &r->e;
  const Node *n = r->sum[i]->src[0], *y = e->body->result[0];
  return r->kind == ALONG && i == r->nsums - 1 && e->fused->nres == 1 &&
         type_of(y)->dtype == type_of(n)->dtype && rows_is_whole(r, type_of(elem_core(y))) &&
         r->length->value * elem_bytes(type_of(n)->dtype) > e->lo->target.l1;
}

// A buffer for the operand of sum i, if it is worth keeping; else -1.
static int32_t room_for_operand(Rows *r, int i) {
  ElementBuilder *e = &r->e;
  const Node *n = r->sum[i]->src[0];
  bool lanes = r->kind == ACROSS;
  if (!r->keep || (lanes && !r->whole) || rows_is_arg(r->sum[i]) || r->nkept == KEEP ||
      !ie_is_const(r->length) || r->length->value > (lanes ? KEEP_ROWS : KEEP_ELEMS))
    return -1;
  if (!rows_costly(n) || rows_kept(r, n) || !rows_read_again(r, i)) return -1;
  if (keeps_in_result(r, i)) return elem_result(e, 0);
  Dim size = lanes ? ie_mulc(e->pool, r->length, r->cols * r->unroll) : r->length;
  return loop_buffer(e->k, LOOP_SCRATCH, "row", type_of(n)->dtype, size, false);
}

// ---- sums of rows ----

// The type of a sum: the mean of integers is that of their sum in 64 bits.  Places are of 32 where
// these hold them, as a vector then has twice as many.
static DType sum_dtype(const Rows *r, const Node *n, bool places) {
  DType t = elem_sum_dtype(type_of(n->src[0])->dtype);
  if (places) return r->length->hi <= INT32_MAX ? DT_I32 : DT_I64;
  bool whole = n->op == OP_reduce_mean && !dtype_is_float(t) && t != DT_U64;
  return whole ? DT_I64 : t;
}

// What the element at hand adds.  `most` NULL: itself, kept in scratch on the way if `keep` is not
// negative; else its place where it is `most`.
static const LoopExpr *term(Rows *r, const Node *n, LoopOp op, const LoopExpr *most, int32_t keep) {
  ElementBuilder *e = &r->e;
  LoopKernel *k = e->k;
  const LoopExpr *x = elem_at(e, n->src[0], r->index);
  if (!x) return NULL;
  if (keep >= 0) {
    x = loop_let(&e->b, x);
    loop_store(&e->b, keep, kept_place(r, keep), x);
  }
  if (!most) return loop_cast(k, sum_dtype(r, n, false), x);
  const LoopExpr *is = loop_op(k, LOOP_eq, x, most, NULL);
  if (dtype_is_float(x->dtype))
    is = loop_op(k, LOOP_or, is, loop_op(k, LOOP_is_nan, x, NULL, NULL), NULL);
  DType t = sum_dtype(r, n, true);
  int64_t none = op != LOOP_min ? -1 : t == DT_I32 ? INT32_MAX : INT64_MAX;
  return loop_op(k, LOOP_select, is, loop_cast(k, t, loop_index(k, r->place)),
                 loop_int(k, t, none));
}

// One sum over the row, by partial sums.
static const LoopExpr *row_sum(Rows *r, const Node *n, LoopOp op, const LoopExpr *most,
                               int32_t keep) {
  ElementBuilder *e = &r->e;
  bool nested = r->kind == BROKEN && !ie_is(r->outer_length, 1);
  Dim outer = e->pool->zero;
  if (nested) outer = loop_reduce(&e->b, op, "o", r->outer_length, 1);
  rows_set_place(r, outer, loop_reduce(&e->b, op, "k", r->inner_length, r->lanes));
  const LoopExpr *x = term(r, n, op, most, keep);
  if (!x) return NULL;
  x = loop_yield(&e->b, x);
  if (nested) x = loop_yield(&e->b, x);
  elem_forget(e);
  return x;
}

// Opens the vector over the piece of the last axis, of each of the rows at once.
static void open_lanes(Rows *r) {
  ElementBuilder *e = &r->e;
  IntPool *p = e->pool;
  if (r->unroll > 1) {
    Dim q = loop_for(&e->b, LOOP_UNROLL, "q", ie_const(p, r->unroll));
    r->index[r->unroll_axis] = ie_add(p, ie_mulc(p, r->unroll_first, r->unroll), q);
    r->lane = ie_mulc(p, q, r->cols);
  } else {
    r->lane = p->zero;
  }
  Dim v = loop_for(&e->b, LOOP_VECTOR, "v", r->width), at = ie_add(p, r->first, v);
  r->lane = ie_add(p, r->lane, v);
  if (r->guarded) at = elem_guard(e, at, r->last);
  e->nidle = e->nguards;
  elem_split(e, at, r->vector + 1 - r->from, r->shape + r->from, r->index + r->from);
  elem_forget(e);
}

static void close_lanes(Rows *r) {
  elem_unguard(&r->e, 0);
  r->e.nidle = 0;
  loop_end(&r->e.b);
  if (r->unroll > 1) loop_end(&r->e.b);
}

// Of a piece whose width is not known, one vector of lanes after the other.
static bool sums_by_vectors(Rows *r, const Node *n, LoopOp op, int32_t most, int32_t keep,
                            int32_t sums) {
  ElementBuilder *e = &r->e;
  open_lanes(r);
  const LoopExpr *is = most < 0 ? NULL : loop_let(&e->b, loop_load(e->k, most, r->lane));
  rows_set_place(r, loop_reduce(&e->b, op, "k", r->length, 1), e->pool->zero);
  const LoopExpr *x = term(r, n, op, is, keep);
  if (!x) return false;
  loop_store(&e->b, sums, r->lane, loop_yield(&e->b, x));
  close_lanes(r);
  return true;
}

// One sum for each lane, in order.  All lanes of a piece have a row's elements added before the
// next row, so that their sums do not wait for each other.  `most` is a buffer, or -1.  Gives the
// buffer of the sums.
static int32_t lane_sums(Rows *r, const Node *n, LoopOp op, int32_t most, int32_t keep) {
  ElementBuilder *e = &r->e;
  LoopKernel *k = e->k;
  DType t = sum_dtype(r, n, most >= 0);
  bool fixed = ie_is_const(r->width);
  double f = 0;
  int64_t i = 0;
  if (!loop_identity(op, t, &f, &i)) return -1;
  int32_t sums = loop_buffer(k, fixed ? LOOP_REGISTER : LOOP_SCRATCH, "acc", t,
                             ie_const(e->pool, r->cols * r->unroll), false);
  if (!fixed) return sums_by_vectors(r, n, op, most, keep, sums) ? sums : -1;
  open_lanes(r);
  loop_store(&e->b, sums, r->lane, dtype_is_float(t) ? loop_float(k, t, f) : loop_int(k, t, i));
  close_lanes(r);
  Dim row = loop_for(&e->b, LOOP_SERIAL, "k", r->length);
  open_lanes(r);
  rows_set_place(r, row, e->pool->zero);
  const LoopExpr *x = term(r, n, op, most < 0 ? NULL : loop_load(k, most, r->lane), keep);
  if (!x) return -1;
  loop_store(&e->b, sums, r->lane, loop_op(k, op, loop_load(k, sums, r->lane), x, NULL));
  close_lanes(r);
  loop_end(&e->b);
  return sums;
}

static void note_kept(Rows *r, const Node *n, int32_t keep) {
  if (keep < 0) return;
  r->scratch[r->nkept] = keep;
  r->kept[r->nkept] = n->src[0];
  elem_give(&r->e, n->src[0], give_kept, given(r, r->nkept++));
}

static LoopOp place_op(const Node *n) {
  return ((const arg_attrs *)n->attrs)->select_last_index ? LOOP_max : LOOP_min;
}

static const LoopExpr *form_sum(Rows *r, int i, int32_t keep) {
  const Node *n = r->sum[i];
  const LoopExpr *x = row_sum(r, n, rows_sum_op(n), NULL, keep);
  note_kept(r, n, keep);
  if (x && rows_is_arg(n)) {
    DType t = type_of(n->src[0])->dtype;
    x = row_sum(r, n, place_op(n), loop_let(&r->e.b, loop_cast(r->e.k, t, x)), -1);
  }
  return x ? rows_finish_sum(r, n, x) : NULL;
}

// Sums of a buffer as values of another: cast, or finished.
static int32_t settle(Rows *r, const Node *n, int32_t sums, int32_t to) {
  ElementBuilder *e = &r->e;
  open_lanes(r);
  const LoopExpr *x = loop_load(e->k, sums, r->lane);
  bool done = to >= 0;
  if (!done)
    to = loop_buffer(e->k, LOOP_SCRATCH, "most", type_of(n->src[0])->dtype,
                     ie_const(e->pool, r->cols * r->unroll), false);
  x = done ? rows_finish_sum(r, n, x) : loop_cast(e->k, e->k->buffer[to].dtype, x);
  loop_store(&e->b, to, r->lane, x);
  close_lanes(r);
  return to;
}

static bool form_lanes(Rows *r, int i, int32_t keep) {
  const Node *n = r->sum[i];
  int32_t sums = lane_sums(r, n, rows_sum_op(n), -1, keep);
  if (sums < 0) return false;
  note_kept(r, n, keep);
  if (rows_is_arg(n)) sums = lane_sums(r, n, place_op(n), settle(r, n, sums, -1), -1);
  if (sums < 0) return false;
  settle(r, n, sums, r->row_sum[i]);
  return true;
}

static bool can_add(const Rows *r, const Node *n) {
  DType t = type_of(n->src[0])->dtype;
  if (t == DT_BOOL && n->op != OP_reduce_max && n->op != OP_reduce_min) return false;
  return n->op != OP_reduce_mean || dtype_is_float(t) || r->length->lo >= 1;
}

static bool add_sum(Rows *r, int i) {
  const Node *n = r->sum[i];
  if (!can_add(r, n)) return false;
  int32_t keep = room_for_operand(r, i);
  if (r->kind == ACROSS) {
    if (!form_lanes(r, i, keep)) return false;
  } else if (!(r->total[i] = form_sum(r, i, keep))) {
    return false;
  }
  elem_give(&r->e, n, give_total, given(r, i));
  return true;
}

// ---- the kernel ----

static bool store_one(Rows *r, int i, bool whole) {
  ElementBuilder *e = &r->e;
  const Node *n = e->body->result[i], *c = elem_core(n);
  Dim at[MAX_RANK], index[MAX_RANK];
  rows_result_index(r, type_of(c), whole, at);
  const LoopExpr *x = elem_at(e, c, at);
  if (!x) return false;
  Dim place = elem_place(e, n, at, index);
  LoopBound *g = arena_dup(e->a, e->guard, e->nguards * (int64_t)sizeof *g);
  loop_store_guarded(&e->b, elem_result(e, i), place, e->nguards, g, x);
  return true;
}

static bool store_those(Rows *r, bool whole) {
  bool ok = true;
  for (int i = 0; i < r->e.fused->nres && ok; i++)
    if (rows_is_whole(r, type_of(elem_core(r->e.body->result[i]))) == whole)
      ok = store_one(r, i, whole);
  return ok;
}

// Results with an element for each of the rows', then those with one for each row.
static bool store_results(Rows *r) {
  ElementBuilder *e = &r->e;
  bool lanes = r->kind == ACROSS, reduced = false;
  for (int i = 0; i < e->fused->nres; i++)
    reduced |= !rows_is_whole(r, type_of(elem_core(e->body->result[i])));
  if (r->whole) {
    int64_t piece = rows_piece(r);
    int opened = piece ? rows_open_pieces(r, piece) : open_row(r);
    if (lanes) open_lanes(r);
    if (!store_those(r, true)) return false;
    if (lanes) close_lanes(r);
    while (opened--) loop_end(&e->b);
  }
  elem_forget(e);
  if (!reduced) return true;
  if (lanes) open_lanes(r);
  bool ok = store_those(r, false);
  if (lanes) close_lanes(r);
  return ok;
}

// Opens the loop over rows; across, over pieces of the last axis too.
static void dynamic_rows(Rows *r) {
  ElementBuilder *e = &r->e;
  IntPool *p = e->pool;
  bool across = r->kind == ACROSS;
  Dim items = p->one, outer[MAX_RANK], at[MAX_RANK], last = across ? r->last : p->one;
  int axis[MAX_RANK], n = 0;
  for (int i = 0; i < r->type->rank; i++) {
    if (r->over[i] || (across && i >= r->from && i <= r->vector)) continue;
    outer[n] = r->shape[i];
    if (across && r->unroll > 1 && i == r->unroll_axis)
      outer[n] = ie_const(p, r->shape[i]->value / r->unroll);
    items = ie_mul(p, items, outer[n]);
    axis[n++] = i;
  }
  Dim chunks = across ? ie_ceildiv(p, last, ie_const(p, r->cols)) : p->one;
  Dim all = ie_mul(p, items, chunks), item = loop_for(&e->b, LOOP_PARALLEL, "item", all);
  if (ie_is(all, 1)) item = p->zero;
  Dim chunk = ie_is(chunks, 1) ? p->zero : n ? ie_mod(p, item, chunks) : item;
  if (!ie_is(chunks, 1)) item = n ? ie_div(p, item, chunks) : p->zero;
  elem_split(e, item, n, outer, at);
  for (int i = 0; i < n; i++) r->index[axis[i]] = at[i];
  if (!across) return;
  r->unroll_first = r->index[r->unroll_axis];
  r->first = ie_mulc(p, chunk, r->cols);
  r->width = ie_is(chunks, 1) ? last : ie_min(p, ie_const(p, r->cols), ie_sub(p, last, r->first));
  if (r->guarded || (ie_is_const(last) && last->value % r->cols == 0))
    r->width = ie_const(p, r->cols);
}

void rows_measure(Rows *r) {
  IntPool *p = r->e.pool;
  elem_shape(&r->e, r->type, r->shape);
  r->outer_length = r->inner_length = p->one;
  for (int i = 0; i < r->type->rank; i++) {
    Dim *to = i < r->inner ? &r->outer_length : &r->inner_length;
    if (r->over[i]) *to = ie_mul(p, *to, r->shape[i]);
  }
  r->length = ie_mul(p, r->outer_length, r->inner_length);
}

// ---- short rows ----

// Many rows of few elements: partial sums would leave lanes empty.
static bool is_short(Rows *r) {
  if (r->kind != ALONG || !ie_is_const(r->length) || r->length->value > SHORT_MOST) return false;
  row_lanes_find(&r->rows, r->e.pool, r->type->rank, r->shape, r->over);
  return row_lanes_many(&r->rows);
}

static void open_short(Rows *r) {
  row_lanes_items(&r->rows, &r->e, r->cols);
  row_lanes_vector(&r->rows, &r->e, r->index);
}

static void set_short(Rows *r, int64_t k) {
  rows_set_place(r, r->e.pool->zero, ie_const(r->e.pool, k));
}

static const LoopExpr *give_short(void *ctx, const Dim *index) {
  const Given *g = ctx;
  for (int d = 0; d < g->r->type->rank; d++)
    if (!rows_same_index(g->r, d, index[d])) return NULL;
  return g->r->value[g->i][g->r->place->value];
}

// One pass over the row.  `most` NULL: its elements, kept as number `keep` where that is not
// negative; else their places.
static const LoopExpr *short_pass(Rows *r, const Node *n, LoopOp op, const LoopExpr *most,
                                  int keep) {
  ElementBuilder *e = &r->e;
  LoopKernel *k = e->k;
  DType t = sum_dtype(r, n, most != NULL);
  double f = 0;
  int64_t i = 0;
  if (!loop_identity(op, t, &f, &i)) return NULL;
  const LoopExpr *sum = dtype_is_float(t) ? loop_float(k, t, f) : loop_int(k, t, i), *x;
  for (int64_t at = 0; at < r->length->value; at++) {
    set_short(r, at);
    if (most) {
      x = term(r, n, op, most, -1);
    } else {
      x = elem_at(e, n->src[0], r->index);
      if (x && keep >= 0) x = r->value[keep][at] = loop_let(&e->b, x);
      if (x) x = loop_cast(k, t, x);
    }
    if (!x) return NULL;
    sum = loop_let(&e->b, loop_op(k, op, sum, x, NULL));
  }
  return sum;
}

static bool add_short(Rows *r, int i) {
  const Node *n = r->sum[i], *of = n->src[0];
  if (!can_add(r, n)) return false;
  bool keeps = r->keep && !rows_is_arg(n) && r->nkept < KEEP && rows_costly(of) &&
               !rows_kept(r, of) && rows_read_again(r, i);
  const LoopExpr *x = short_pass(r, n, rows_sum_op(n), NULL, keeps ? r->nkept : -1);
  if (keeps) {
    r->kept[r->nkept] = of;
    elem_give(&r->e, of, give_short, given(r, r->nkept++));
  }
  if (x && rows_is_arg(n)) {
    const LoopExpr *most = loop_let(&r->e.b, loop_cast(r->e.k, type_of(of)->dtype, x));
    x = short_pass(r, n, place_op(n), most, -1);
  }
  if (!x) return false;
  r->total[i] = rows_finish_sum(r, n, x);
  elem_give(&r->e, n, give_total, given(r, i));
  return true;
}

static bool build_short(Rows *r) {
  open_short(r);
  for (int i = 0; i < r->nsums; i++)
    if (!add_short(r, i)) return false;
  for (int64_t at = 0; r->whole && at < r->length->value; at++) {
    set_short(r, at);
    if (!store_those(r, true)) return false;
  }
  elem_forget(&r->e);
  if (!store_those(r, false)) return false;
  loop_end(&r->e.b);
  return true;
}

// ---- the template ----

static bool build_rows(Rows *r) {
  dynamic_rows(r);
  for (int i = 0; i < r->nsums; i++)
    if (!add_sum(r, i)) return false;
  return store_results(r);
}

static bool reduce_build(void *match, const void *fields, Lowered *out) {
  const ReduceSchedule *s = fields;
  Rows *r = match;
  ElementBuilder *e = &r->e;
  r->lanes = (int)s->lanes;
  r->cols = s->cols;
  r->keep = s->keep;
  rows_choose_together(r);
  for (int i = 0; r->kind == ACROSS && i < r->nsums; i++)
    r->row_sum[i] = loop_buffer(e->k, LOOP_SCRATCH, "sums", type_of(r->sum[i])->dtype,
                                ie_const(e->pool, r->cols * r->unroll), false);
  loop_begin(&e->b, e->k);
  if (!(r->kind == SHORT ? build_short(r) : build_rows(r))) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

bool rows_begin(Rows *r, Lowering *lo, const Node *fused) {
  if (!elem_begin(&r->e, lo, fused, NULL, 0)) return false;
  Finder f = {.r = r};
  intmap_init(&f.seen, lo->arena);
  for (int i = 0; i < fused->nres; i++) find_sums(&f, r->e.body->result[i]);
  return !f.bad && agree(r) && good_results(r);
}

static void *reduce_match(Lowering *lo, const Node *fused) {
  Rows *r = arena_new(lo->arena, Rows);
  if (!rows_begin(r, lo, fused)) return NULL;
  rows_measure(r);
  if (is_short(r)) r->kind = SHORT;
  if (r->kind == ACROSS) rows_join(r);
  return r;
}

static bool reduce_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                          void *fields) {
  const Rows *r = match;
  (void)given;
  *(ReduceSchedule *)fields = (ReduceSchedule){
      .lanes = r->kind == ACROSS || r->kind == SHORT ? 1 : lanes_for(r->inner_length),
      .cols = r->kind == ACROSS ? rows_choose_lanes(r, t, 4) : 64,
      .keep = true};
  return true;
}

static bool reduce_legal(const void *match, const LowerTarget *t, const void *fields,
                         const char **why) {
  (void)t;
  RowKind kind = ((const Rows *)match)->kind;
  *why = (kind == ACROSS || kind == SHORT) && ((const ReduceSchedule *)fields)->lanes != 1
             ? "lanes must be 1 where rows are short or the reduced axis is not the last one"
             : NULL;
  return !*why;
}

const TemplateCode template_reduce = {.match = reduce_match,
                                      .choose = reduce_choose,
                                      .legal = reduce_legal,
                                      .build = reduce_build,
                                      SCHEDULE(Reduce)};
