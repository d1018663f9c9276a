// pointwise.c -- the template of kernels without an anchor: every element of every result by itself.
//
// The results have one shape.  Where every operand lies as they do, or is a single element, all axes are one; else
// every axis is a loop, the last one the vector.
#include "lower/templates.h"

enum { PIECE = 4096 };

typedef struct Nest {
  bool flat;  // all axes are one
  int rank, outer;
  Dim shape
      [MAX_RANK];  // of the nest's axes: the first `outer` are shared out, the last is the vector
  Dim chunks;      // work items of a row, where the last axis is long
} Nest;

// Whether `n` and all below it read every operand at the result's own place, or a single element.
static bool reads_straight(const Node *n, const Type *t, int depth) {
  if (n->op == OP_const && n->data->n == 1) return true;
  if (depth > 64) return false;
  if (n->op == OP_param || n->op == OP_const) {
    if (type_of(n) == t) return true;
    return type_of(n)->rank == 0;
  }
  if (!(op_info(n->op)->flags & OPF_ELEMENTWISE)) return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (type_of(n->src[i])->kind != TK_NONE && type_of(n->src[i])->rank > 0 &&
        !(type_of(n->src[i])->rank == t->rank &&
          !memcmp(type_of(n->src[i])->dims, t->dims, (size_t)t->rank * sizeof *t->dims)))
      return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (!reads_straight(n->src[i], type_of(n->src[i]), depth + 1)) return false;
  return true;
}

static bool same_shapes(const Node *fused) {
  for (int i = 1; i < fused->nres; i++)
    if (fused->type[i]->rank != fused->type[0]->rank ||
        memcmp(fused->type[i]->dims, fused->type[0]->dims,
               (size_t)fused->type[0]->rank * sizeof(Dim)))
      return false;
  return true;
}

// A result that is known to be empty is no work for a kernel.
static bool has_elements(const Node *fused) {
  for (int i = 0; i < fused->type[0]->rank; i++)
    if (ie_is(fused->type[0]->dims[i], 0)) return false;
  return true;
}

// Axes are shared out from the first one on until what is left is about a piece; a long last axis is cut.
static void plan_nest(Elem *e, Nest *t) {
  IntPool *p = e->pool;
  const Type *type = e->fused->type[0];
  t->flat = true;
  for (int i = 0; i < e->fused->nres && t->flat; i++)
    t->flat = reads_straight(e->body->result[i], type_of(e->body->result[i]), 0);
  t->rank = t->flat ? 1 : MAX(type->rank, 1);
  elem_shape(e, type, t->shape);
  for (int d = 1; t->flat && d < type->rank; d++) t->shape[0] = ie_mul(p, t->shape[0], t->shape[d]);
  if (!type->rank) t->shape[0] = p->one;
  Dim last = t->shape[t->rank - 1];
  t->outer = t->rank - 1;
  int64_t inner = ie_is_const(last) ? last->value : PIECE;
  while (t->outer > 0 && ie_is_const(t->shape[t->outer - 1]) &&
         inner * t->shape[t->outer - 1]->value <= PIECE / 4)
    inner *= t->shape[--t->outer]->value;
  bool is_long =
      t->outer == t->rank - 1 && (ie_is_const(last) ? last->value > 2 * PIECE : !t->outer);
  t->chunks = is_long ? ie_ceildiv(p, last, ie_const(p, PIECE)) : p->one;
}

// Stores every result at a place of the nest.
static bool store_all(Elem *e, const Nest *t, const Dim *index) {
  Dim zero[MAX_RANK];
  Dim linear = elem_linear(e, t->rank, t->shape, index);
  for (int i = 0; i < MAX_RANK; i++) zero[i] = e->pool->zero;
  e->flat = t->flat ? linear : NULL;
  for (int i = 0; i < e->fused->nres; i++) {
    const LoopExpr *x = elem_at(e, e->body->result[i], t->flat ? zero : index);
    if (!x) return false;
    loop_store(&e->b, elem_result(e, i), linear, x);
  }
  return true;
}

// Splits a work item into the outer axes and the piece of the last one.
static Dim open_item(Elem *e, const Nest *t, Dim *index) {
  IntPool *p = e->pool;
  Dim items = t->chunks;
  for (int i = 0; i < t->outer; i++) items = ie_mul(p, items, t->shape[i]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) item = p->zero;
  Dim chunk = p->zero;
  if (!ie_is(t->chunks, 1)) {
    chunk = t->outer ? ie_mod(p, item, t->chunks) : item;
    item = t->outer ? ie_div(p, item, t->chunks) : p->zero;
  }
  elem_split(e, item, t->outer, t->shape, index);
  return chunk;
}

tenon_status lower_pointwise(Lowering *lo, const Node *fused, Lowered *out) {
  Elem e;
  Nest t;
  if (!same_shapes(fused) || !has_elements(fused) || !elem_begin(&e, lo, fused, NULL, 0))
    return TENON_EUNSUPPORTED;
  IntPool *p = e.pool;
  Dim index[MAX_RANK];
  plan_nest(&e, &t);
  loop_begin(&e.b, e.k);
  Dim chunk = open_item(&e, &t, index), last = t.shape[t.rank - 1];
  for (int i = t.outer; i < t.rank - 1; i++)
    index[i] = loop_for(&e.b, LOOP_SERIAL, "r", t.shape[i]);
  Dim first = ie_mulc(p, chunk, PIECE), width = last;
  if (!ie_is(t.chunks, 1)) width = ie_min(p, ie_const(p, PIECE), ie_sub(p, last, first));
  index[t.rank - 1] = ie_add(p, first, loop_for(&e.b, LOOP_VECTOR, "v", width));
  if (!store_all(&e, &t, index)) return TENON_EUNSUPPORTED;
  for (int i = t.outer; i < t.rank; i++) loop_end(&e.b);
  loop_end(&e.b);
  elem_finish(&e, "pointwise", out);
  return TENON_OK;
}
