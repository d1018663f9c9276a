// topk.c -- template topk: the k first elements of each row, one after the other.
//
// Elements become integer keys of the same order, with NaN above all, kept in scratch.  Each result
// takes two reductions: the greatest key after the last result, and its first place.  A long row is
// cut into blocks with their greatest keys, so the reductions visit those and one block.
//
// Needs:      a constant k of at most 512 (64 without blocks) and a constant row of at most 65536
//             elements; results with top_k's shape.  Other axes may be dynamic.
// Guarantees: the order of the reference evaluation: equal elements by place, -0 equal to 0.  Keys
//             are integers, so every field is FREE.
#include "lower/cpu/topk.h"

#include "eval/index.h"
#include "ir/internal.h"

enum { MOST_RESULTS = 64, MOST_KEYS = 1 << 16, LANES = 32, LONG_ROW = 256, MOST_OF_BLOCKS = 512 };

// Keys are integers, of which the greatest does not depend on the order.
#define TOPK_SCHEDULE(I, B, C, T)                                                                  \
  I(T, lanes, 0, 1, 64, 0, FREE, "vector lanes of the search over a row's keys")                   \
  I(T, block, 0, 0, 1 << 16, 0, FREE, "keys per block with a stored maximum; 0: no blocks")
SCHEDULE_STRUCT(Topk, TOPK_SCHEDULE);
SCHEDULE_TABLE(Topk, TOPK_SCHEDULE);

typedef struct Given {
  TopK *t;
  int i;
} Given;

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  const Given *g = ctx;
  const TopK *t = g->t;
  for (int d = 0; d < t->type->rank; d++)
    if (index[d] != (d == t->axis ? t->result : t->index[d]) &&
        !ie_is(t->node->type[0]->dims[d], 1))
      return NULL;
  return t->value[g->i];
}

static void give(TopK *t, const Node *n, int i) {
  Given *g = arena_new(t->e.a, Given);
  *g = (Given){t, i};
  elem_give(&t->e, n, give_value, g);
}

static DType key_dtype(DType t) {
  if (t == DT_F64 || t == DT_I64 || t == DT_U64 || t == DT_U32) return DT_I64;
  return DT_I32;
}

// The one top_k of the body, of constant sizes.
static bool find_top_k(TopK *t) {
  NodeList all = body_order(t->e.lo->g, t->e.body, t->e.a);
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_top_k) continue;
    if (t->node) return false;
    t->node = all.v[i];
  }
  if (!t->node) return false;
  t->type = type_of(t->node->src[0]);
  if (t->type->rank < 1 || t->type->dtype == DT_BOOL) return false;
  t->axis = elem_axis(((const top_k_attrs *)t->node->attrs)->axis, t->type->rank);
  Dim k = t->node->type[0]->dims[t->axis], n = t->type->dims[t->axis];
  t->key = key_dtype(t->type->dtype);
  if (!lower_is_static(t->e.lo, k) || !lower_is_static(t->e.lo, n) || k->value < 1) return false;
  t->k = k->value;
  t->n = n->value;
  for (int i = 0; i < t->type->rank; i++)
    if (ie_is(t->type->dims[i], 0)) return false;
  for (int i = 0; i < t->e.fused->nres; i++)
    if (!type_same_dims(type_of(elem_core(t->e.body->result[i])), t->node->type[0])) return false;
  for (int64_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_proj && all.v[i]->src[0] == t->node)
      give(t, all.v[i], (int)((const proj_attrs *)all.v[i]->attrs)->index);
  if (t->node->nres == 1) give(t, t->node, 0);
  return true;
}

// An integer that orders as x does: of floats the bits, turned where they are negative; -0 is 0,
// NaN the greatest.
const LoopExpr *topk_key(TopK *t, const LoopExpr *x) {
  LoopKernel *k = t->e.k;
  bool wide = t->key == DT_I64;
  const LoopExpr *most = loop_int(k, t->key, wide ? INT64_MAX : INT32_MAX), *key;
  if (dtype_is_float(x->dtype)) {
    DType f = wide ? DT_F64 : DT_F32;
    x = loop_cast(k, f, x);
    const LoopExpr *zero = loop_int(k, t->key, 0);
    const LoopExpr *b = loop_bit_cast(k, t->key, x);
    b = loop_op(k, LOOP_select, loop_op(k, LOOP_eq, x, loop_float(k, f, 0), NULL), zero, b);
    key = loop_op(k, LOOP_select, loop_op(k, LOOP_lt, b, zero, NULL),
                  loop_op(k, LOOP_bit_xor, b, most, NULL), b);
    key = loop_op(k, LOOP_select, loop_op(k, LOOP_is_nan, x, NULL, NULL), most, key);
  } else {
    key = loop_cast(k, t->key, x);
    if (x->dtype == DT_U64)
      key = loop_op(k, LOOP_bit_xor, loop_bit_cast(k, DT_I64, x), loop_int(k, DT_I64, INT64_MIN),
                    NULL);
  }
  bool largest = ((const top_k_attrs *)t->node->attrs)->largest;
  return largest ? key : loop_op(k, LOOP_bit_not, key, NULL, NULL);
}

static void open_row(TopK *t) {
  ElementBuilder *e = &t->e;
  Dim outer[MAX_RANK], at[MAX_RANK], items = e->pool->one;
  int n = 0;
  for (int i = 0; i < t->type->rank; i++)
    if (i != t->axis) items = ie_mul(e->pool, items, outer[n++] = t->shape[i]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? e->pool->zero : item, n, outer, at);
  n = 0;
  for (int i = 0; i < t->type->rank; i++)
    if (i != t->axis) t->index[i] = at[n++];
}

// Whether the element at a place comes after the last result.
static const LoopExpr *comes_after(TopK *t, const LoopExpr *key, Dim place, const LoopExpr *last,
                                   const LoopExpr *last_at) {
  LoopKernel *k = t->e.k;
  const LoopExpr *later = loop_op(k, LOOP_lt, last_at, loop_index(k, place), NULL);
  later = loop_op(k, LOOP_and, loop_op(k, LOOP_eq, key, last, NULL), later, NULL);
  return loop_op(k, LOOP_or, loop_op(k, LOOP_lt, key, last, NULL), later, NULL);
}

// The greatest key of `n` from the first on that comes after the last result, as an i64 that is the
// lowest where there is none.
static const LoopExpr *greatest_of(TopK *t, Dim first, Dim n, const LoopExpr *last,
                                   const LoopExpr *last_at) {
  ElementBuilder *e = &t->e;
  LoopKernel *k = e->k;
  const LoopExpr *least = loop_int(k, t->key, t->key == DT_I64 ? INT64_MIN : INT32_MIN);
  Dim i = ie_add(e->pool, first, loop_reduce(&e->b, LOOP_max, "i", n, t->lanes));
  const LoopExpr *key = loop_load(k, t->keys, i);
  if (t->greatest >= 0) {
    key = loop_cast(k, DT_I64, key);
    least = loop_int(k, DT_I64, INT64_MIN);
    last = loop_cast(k, DT_I64, last);
  }
  return loop_yield(&e->b,
                    loop_op(k, LOOP_select, comes_after(t, key, i, last, last_at), key, least));
}

// The first place of `n` from the first on that has this key and comes after the last result.
static const LoopExpr *first_place(TopK *t, Dim first, Dim n, const LoopExpr *most,
                                   const LoopExpr *last, const LoopExpr *last_at) {
  ElementBuilder *e = &t->e;
  LoopKernel *k = e->k;
  Dim i = ie_add(e->pool, first, loop_reduce(&e->b, LOOP_min, "i", n, t->lanes));
  const LoopExpr *key = loop_load(k, t->keys, i);
  const LoopExpr *is = loop_op(k, LOOP_and, loop_op(k, LOOP_eq, key, most, NULL),
                               comes_after(t, key, i, last, last_at), NULL);
  return loop_yield(&e->b,
                    loop_op(k, LOOP_select, is, loop_index(k, i), loop_int(k, DT_I64, INT64_MAX)));
}

static Dim blocks(const TopK *t) {
  IntPool *p = t->e.pool;
  return ie_ceildiv(p, t->shape[t->axis], ie_const(p, t->block));
}

// The keys of block b: where they begin, and how many there are.
static Dim block_of(const TopK *t, Dim b, Dim *first) {
  IntPool *p = t->e.pool;
  *first = ie_mulc(p, b, t->block);
  return ie_min(p, ie_const(p, t->block), ie_sub(p, t->shape[t->axis], *first));
}

static void fill_blocks(TopK *t, const LoopExpr *last, const LoopExpr *last_at) {
  ElementBuilder *e = &t->e;
  Dim first, b = loop_for(&e->b, LOOP_SERIAL, "b", blocks(t)), n = block_of(t, b, &first);
  loop_store(&e->b, t->greatest, b, greatest_of(t, first, n, last, last_at));
  loop_end(&e->b);
}

// Finds the next result: its place, and leaves it as the last one.
static const LoopExpr *find_next(TopK *t) {
  ElementBuilder *e = &t->e;
  LoopKernel *k = e->k;
  Dim n = t->shape[t->axis], zero = e->pool->zero, first = zero, b = NULL;
  const LoopExpr *last = loop_let(&e->b, loop_load(k, t->last_key, zero)), *most;
  const LoopExpr *last_at = loop_let(&e->b, loop_load(k, t->last_place, zero));
  if (t->greatest < 0) {
    most = greatest_of(t, zero, n, last, last_at);
  } else {
    Dim i = loop_reduce(&e->b, LOOP_max, "b", blocks(t), t->lanes);
    const LoopExpr *all = loop_yield(&e->b, loop_load(k, t->greatest, i));
    i = loop_reduce(&e->b, LOOP_min, "b", blocks(t), t->lanes);
    const LoopExpr *is = loop_op(k, LOOP_eq, loop_load(k, t->greatest, i), all, NULL);
    const LoopExpr *which = loop_yield(
        &e->b, loop_op(k, LOOP_select, is, loop_index(k, i), loop_int(k, DT_I64, INT64_MAX)));
    b = loop_bind(&e->b, "b", which, blocks(t), "top_k found no element");
    n = block_of(t, b, &first);
    most = loop_let(&e->b, loop_cast(k, t->key, all));
  }
  const LoopExpr *place = first_place(t, first, n, most, last, last_at);
  loop_store(&e->b, t->last_key, zero, most);
  loop_store(&e->b, t->last_place, zero, place);
  if (b) loop_store(&e->b, t->greatest, b, greatest_of(t, first, n, most, place));
  return place;
}

bool topk_store(TopK *t) {
  ElementBuilder *e = &t->e;
  Dim at[MAX_RANK], out[MAX_RANK];
  memcpy(at, t->index, sizeof at);
  at[t->axis] = t->result;
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *n = e->body->result[i];
    const LoopExpr *x = elem_at(e, elem_core(n), at);
    if (!x) return false;
    Dim place = elem_place(e, n, at, out);
    LoopBound *g = arena_dup(e->a, e->guard, e->nguards * (int64_t)sizeof *g);
    loop_store_guarded(&e->b, elem_result(e, i), place, e->nguards, g, x);
  }
  return true;
}

bool topk_begin(TopK *t, Lowering *lo, const Node *fused) {
  return elem_begin(&t->e, lo, fused, NULL, 0) && find_top_k(t);
}

static void *topk_match(Lowering *lo, const Node *fused) {
  TopK *t = arena_new(lo->arena, TopK);
  return topk_begin(t, lo, fused) && t->n <= MOST_KEYS && t->k <= MOST_OF_BLOCKS ? t : NULL;
}

// That a block has nothing left is below all keys, so those have to be narrow.
bool topk_takes_blocks(const TopK *t) { return t->k > 1 && t->n >= LONG_ROW && t->key == DT_I32; }

static bool topk_choose(void *match, const LowerTarget *target, const ScheduleGiven *given,
                        void *fields) {
  const TopK *t = match;
  TopkSchedule *s = fields;
  int64_t k = t->node->type[0]->dims[t->axis]->value, n = t->type->dims[t->axis]->value;
  (void)target;
  s->lanes = LANES;
  if (topk_takes_blocks(t))
    for (s->block = LANES; s->block * s->block < n;) s->block *= 2;
  return given->t || k <= (s->block ? MOST_OF_BLOCKS : MOST_RESULTS);
}

static bool topk_legal(const void *match, const LowerTarget *target, const void *fields,
                       const char **why) {
  const TopK *t = match;
  (void)target;
  *why = ((const TopkSchedule *)fields)->block && t->key != DT_I32
             ? "blocks are for elements of at most 32 bits"
             : NULL;
  return !*why;
}

static bool topk_build(void *match, const void *fields, Lowered *out) {
  TopK *t = match;
  ElementBuilder *e = &t->e;
  t->block = ((const TopkSchedule *)fields)->block;
  t->lanes = (int)((const TopkSchedule *)fields)->lanes;
  LoopKernel *k = e->k;
  Dim zero = e->pool->zero, one = e->pool->one;
  elem_shape(e, t->type, t->shape);
  Dim n = t->shape[t->axis];
  t->keys = loop_buffer(k, LOOP_SCRATCH, "keys", t->key, n, false);
  t->last_key = loop_buffer(k, LOOP_SCRATCH, "last_key", t->key, one, false);
  t->last_place = loop_buffer(k, LOOP_SCRATCH, "last_place", DT_I64, one, false);
  t->greatest = t->block ? loop_buffer(k, LOOP_SCRATCH, "greatest", DT_I64, blocks(t), false) : -1;
  loop_begin(&e->b, k);
  open_row(t);
  t->index[t->axis] = loop_for(&e->b, LOOP_VECTOR, "i", n);
  const LoopExpr *x = elem_at(e, t->node->src[0], t->index);
  if (!x) return false;
  loop_store(&e->b, t->keys, t->index[t->axis], topk_key(t, x));
  loop_end(&e->b);
  const LoopExpr *before = loop_int(k, t->key, t->key == DT_I64 ? INT64_MAX : INT32_MAX);
  const LoopExpr *nowhere = loop_int(k, DT_I64, -1);
  loop_store(&e->b, t->last_key, zero, before);
  loop_store(&e->b, t->last_place, zero, nowhere);
  if (t->block) fill_blocks(t, before, nowhere);
  t->result = loop_for(&e->b, LOOP_SERIAL, "r", elem_dim(e, t->node->type[0]->dims[t->axis]));
  elem_forget(e);
  t->value[1] = find_next(t);
  t->index[t->axis] = loop_bind(&e->b, "at", t->value[1], n, "top_k found no element");
  t->value[0] = elem_at(e, t->node->src[0], t->index);
  if (!t->value[0] || !topk_store(t)) return false;
  loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_topk = {.match = topk_match,
                                    .choose = topk_choose,
                                    .legal = topk_legal,
                                    .build = topk_build,
                                    SCHEDULE(Topk)};
