// top_k.c -- the template of top_k with few results: one after the other, each the first of what comes after the last.
//
// Elements are compared by keys: integers that have the elements' order, with NaN above all, as the reference
// evaluation orders them.  The keys of a row are kept in scratch.  Each result takes two sums over them: the greatest key
// that comes after the last result, and the first place that has it.
#include "lower/templates.h"

#include "eval/index.h"
#include "ir/internal.h"

enum { MOST_RESULTS = 64, MOST_KEYS = 1 << 16 };

typedef struct TopK {
  Elem e;
  const Node *node;
  const Type *type;  // of what is searched
  int axis;
  DType key;
  Dim shape[MAX_RANK], index[MAX_RANK];
  Dim result;  // number of the result at hand
  const LoopExpr *value[2];
} TopK;

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
  if (!ie_is_const(k) || k->value < 1 || k->value > MOST_RESULTS || !ie_is_const(n) ||
      n->value > MOST_KEYS)
    return false;
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

// An integer that orders as x does: of floats the bits, turned where they are negative; -0 is 0, NaN the greatest.
static const LoopExpr *key_of(TopK *t, const LoopExpr *x) {
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

static DType key_dtype(DType t) {
  if (t == DT_F64 || t == DT_I64 || t == DT_U64 || t == DT_U32) return DT_I64;
  return DT_I32;
}

static void open_row(TopK *t) {
  Elem *e = &t->e;
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

// Finds the next result: its place, and leaves it in `state`.
static const LoopExpr *find_next(TopK *t, int32_t keys, int32_t last_key, int32_t last_place) {
  enum { LANES = 32 };
  Elem *e = &t->e;
  LoopKernel *k = e->k;
  Dim n = t->shape[t->axis], zero = e->pool->zero;
  const LoopExpr *last = loop_let(&e->b, loop_load(k, last_key, zero));
  const LoopExpr *last_at = loop_let(&e->b, loop_load(k, last_place, zero));
  const LoopExpr *least = loop_int(k, t->key, t->key == DT_I64 ? INT64_MIN : INT32_MIN);
  Dim i = loop_reduce(&e->b, LOOP_max, "i", n, LANES);
  const LoopExpr *key = loop_load(k, keys, i);
  const LoopExpr *most =
      loop_yield(&e->b, loop_op(k, LOOP_select, comes_after(t, key, i, last, last_at), key, least));
  i = loop_reduce(&e->b, LOOP_min, "i", n, LANES);
  key = loop_load(k, keys, i);
  const LoopExpr *is = loop_op(k, LOOP_and, loop_op(k, LOOP_eq, key, most, NULL),
                               comes_after(t, key, i, last, last_at), NULL);
  const LoopExpr *place = loop_yield(
      &e->b, loop_op(k, LOOP_select, is, loop_index(k, i), loop_int(k, DT_I64, INT64_MAX)));
  loop_store(&e->b, last_key, zero, most);
  loop_store(&e->b, last_place, zero, place);
  return place;
}

static bool store_results(TopK *t) {
  Elem *e = &t->e;
  Dim at[MAX_RANK], out[MAX_RANK];
  memcpy(at, t->index, sizeof at);
  at[t->axis] = t->result;
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *n = e->body->result[i];
    const LoopExpr *x = elem_at(e, elem_core(n), at);
    if (!x) return false;
    loop_store(&e->b, elem_result(e, i), elem_place(e, n, at, out), x);
  }
  return true;
}

tenon_status lower_top_k(Lowering *lo, const Node *fused, Lowered *out) {
  TopK *t = arena_new(lo->arena, TopK);
  Elem *e = &t->e;
  if (!elem_begin(e, lo, fused, NULL, 0) || !find_top_k(t)) return TENON_EUNSUPPORTED;
  LoopKernel *k = e->k;
  Dim zero = e->pool->zero, one = e->pool->one;
  t->key = key_dtype(t->type->dtype);
  elem_shape(e, t->type, t->shape);
  Dim n = t->shape[t->axis];
  int32_t keys = loop_buffer(k, LOOP_SCRATCH, "keys", t->key, n, false);
  int32_t last_key = loop_buffer(k, LOOP_SCRATCH, "last_key", t->key, one, false);
  int32_t last_place = loop_buffer(k, LOOP_SCRATCH, "last_place", DT_I64, one, false);
  loop_begin(&e->b, k);
  open_row(t);
  t->index[t->axis] = loop_for(&e->b, LOOP_VECTOR, "i", n);
  const LoopExpr *x = elem_at(e, t->node->src[0], t->index);
  if (!x) return TENON_EUNSUPPORTED;
  loop_store(&e->b, keys, t->index[t->axis], key_of(t, x));
  loop_end(&e->b);
  loop_store(&e->b, last_key, zero, loop_int(k, t->key, t->key == DT_I64 ? INT64_MAX : INT32_MAX));
  loop_store(&e->b, last_place, zero, loop_int(k, DT_I64, -1));
  t->result = loop_for(&e->b, LOOP_SERIAL, "r", elem_dim(e, t->node->type[0]->dims[t->axis]));
  elem_forget(e);
  t->value[1] = find_next(t, keys, last_key, last_place);
  t->index[t->axis] = loop_bind(&e->b, "at", t->value[1], n, "top_k found no element");
  t->value[0] = elem_at(e, t->node->src[0], t->index);
  if (!t->value[0] || !store_results(t)) return TENON_EUNSUPPORTED;
  loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, "top_k", out);
  return TENON_OK;
}
