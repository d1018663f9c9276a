// pointwise.c -- the template of kernels without an anchor: every element of every result by itself.
//
// The results have one shape.  Where every operand lies as they do, or is a single element, all axes are one; else
// the last axis is the vector and the others are rows.  A work item is a piece of one long row, or a number of rows that
// make up as much.
#include "lower/templates.h"

enum { PIECE = 4096 };

typedef struct Nest {
  int rank;
  Dim shape[MAX_RANK];
  Dim rows, row;  // all elements but those of the last axis; the last axis
  Dim rows_each;  // rows of a work item
  Dim chunks;     // work items of a row; more than one only when rows_each is 1
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

static void plan_nest(Elem *e, Nest *t) {
  IntPool *p = e->pool;
  const Node *fused = e->fused;
  const Type *type = fused->type[0];
  bool flat = true;
  t->rank = type->rank;
  elem_shape(e, type, t->shape);
  for (int i = 0; i < fused->nres && flat; i++)
    flat = reads_straight(e->body->result[i], type_of(e->body->result[i]), 0);
  t->rows = t->row = p->one;
  for (int d = 0; d < t->rank; d++)
    if (flat || d == t->rank - 1)
      t->row = ie_mul(p, t->row, t->shape[d]);
    else
      t->rows = ie_mul(p, t->rows, t->shape[d]);
  if (flat) {
    t->shape[0] = t->row;
    t->rank = MIN(t->rank, 1);
  }
  t->rows_each = t->chunks = p->one;
  bool is_short = ie_is_const(t->row) && t->row->value <= PIECE;
  if (is_short)
    t->rows_each = ie_const(p, PIECE / MAX(t->row->value, 1));
  else
    t->chunks = ie_ceildiv(p, t->row, ie_const(p, PIECE));
}

// Stores every result at a place of the nest.
static bool store_all(Elem *e, const Nest *t, Dim row, Dim at) {
  Dim index[MAX_RANK], linear = ie_add(e->pool, ie_mul(e->pool, row, t->row), at);
  for (int i = 0; i < e->fused->nres; i++) {
    const Type *type = e->fused->type[i];
    Dim shape[MAX_RANK];
    elem_shape(e, type, shape);
    if (t->rank == type->rank && t->rank > 1) {
      elem_split(e, row, t->rank - 1, t->shape, index);
      index[t->rank - 1] = at;
    } else {
      elem_split(e, linear, type->rank, shape, index);
    }
    const LoopExpr *x = elem_at(e, e->body->result[i], index);
    if (!x) return false;
    loop_store(&e->b, elem_result(e, i), linear, x);
  }
  return true;
}

tenon_status lower_pointwise(Lowering *lo, const Node *fused, Lowered *out) {
  Elem e;
  Nest t;
  if (!same_shapes(fused) || !elem_begin(&e, lo, fused, NULL, 0)) return TENON_EUNSUPPORTED;
  IntPool *p = e.pool;
  plan_nest(&e, &t);
  loop_begin(&e.b, e.k);
  Dim pieces = ie_ceildiv(p, t.rows, t.rows_each);
  Dim item = loop_for(&e.b, LOOP_PARALLEL, "item", ie_mul(p, pieces, t.chunks));
  Dim piece = ie_is(t.chunks, 1) ? item : ie_div(p, item, t.chunks);
  Dim chunk = ie_is(t.chunks, 1) ? p->zero : ie_mod(p, item, t.chunks);
  Dim row = ie_mul(p, piece, t.rows_each), first = ie_mulc(p, chunk, PIECE), width = t.row;
  bool many = !ie_is(t.rows_each, 1);
  if (many) {
    Dim left = ie_sub(p, t.rows, row);
    row = ie_add(p, row, loop_for(&e.b, LOOP_SERIAL, "r", ie_min(p, t.rows_each, left)));
  }
  if (!ie_is(t.chunks, 1)) width = ie_min(p, ie_const(p, PIECE), ie_sub(p, t.row, first));
  Dim v = loop_for(&e.b, LOOP_VECTOR, "v", width);
  if (!store_all(&e, &t, row, ie_add(p, first, v))) return TENON_EUNSUPPORTED;
  loop_end(&e.b);
  if (many) loop_end(&e.b);
  loop_end(&e.b);
  elem_finish(&e, "pointwise", out);
  return TENON_OK;
}
