// grouped.c -- sorts the rows of a work item by the matrix that each takes.
//
// A counting sort: how many rows a matrix has, where they begin, and then each row at its place.
//
// Needs:      numbers of matrices in i32 or i64; they are checked when the kernel runs.
// Guarantees: rows of a matrix stand in their order; nothing is read of matrices without rows.
#include "lower/cpu/blocks/grouped.h"

#define BAD_MATRIX "a row's matrix is not one of w"
#define BAD_COUNT  "a count of rows is out of range"

static Dim num(ElementBuilder *e, int64_t v) { return ie_const(e->pool, v); }

static const LoopExpr *whole(ElementBuilder *e, int64_t v) { return loop_int(e->k, DT_I64, v); }

static const LoopExpr *sum(ElementBuilder *e, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(e->k, LOOP_add, x, y, NULL);
}

static Dim rows_of(ElementBuilder *e, const Type *t, int axes) {
  Dim n = e->pool->one;
  for (int i = 0; i < axes; i++) n = ie_mul(e->pool, n, elem_dim(e, t->dims[i]));
  return n;
}

void groups_init(RowGroups *r, ElementBuilder *e, const Node *product, const Node *group) {
  const Type *x = type_of(product->src[0]), *g = type_of(group);
  *r = (RowGroups){.count = ((const mat_mul_blocks_attrs *)product->attrs)->groups,
                   .node = group,
                   .x_rows = rows_of(e, x, x->rank - 1),
                   .spread = g->rank == x->rank};
}

void groups_declare(RowGroups *r, ElementBuilder *e, int64_t most) {
  r->most = most;
  r->begin = loop_buffer(e->k, LOOP_SCRATCH, "begin", DT_I64, num(e, r->count + 2), false);
  r->list = loop_buffer(e->k, LOOP_SCRATCH, "list", DT_I64, num(e, most), false);
}

// The matrix of row i of the item; NULL: it has none.
static Dim matrix_of(RowGroups *r, ElementBuilder *e, Dim row) {
  const Type *g = type_of(r->node);
  Dim shape[MAX_RANK], index[MAX_RANK];
  elem_forget(e);
  elem_shape(e, g, shape);
  elem_split(e, row, g->rank, shape, index);
  const LoopExpr *which = elem_at(e, r->node, index);
  if (!which) return NULL;
  return loop_bind(&e->b, "which", loop_cast(e->k, DT_I64, which), num(e, r->count), BAD_MATRIX);
}

static const LoopExpr *begin(RowGroups *r, ElementBuilder *e, Dim at) {
  return loop_load(e->k, r->begin, at);
}

// While they are counted, the rows of matrix g are at g + 2, and where they begin, at g + 1; once
// each row is at its place, what begins has become what ends.
bool groups_sort(RowGroups *r, ElementBuilder *e, Dim start, Dim rows) {
  LoopBuilder *b = &e->b;
  IntPool *p = e->pool;
  r->rows = rows;
  Dim g = loop_for(b, LOOP_VECTOR, "g", num(e, r->count + 2));
  loop_store(b, r->begin, g, whole(e, 0));
  loop_end(b);
  Dim i = loop_for(b, LOOP_SERIAL, "i", rows), at = matrix_of(r, e, ie_add(p, start, i));
  if (!at) return false;
  at = ie_addc(p, at, 2);
  loop_store(b, r->begin, at, sum(e, begin(r, e, at), whole(e, 1)));
  loop_end(b);
  g = loop_for(b, LOOP_SERIAL, "g", num(e, r->count));
  at = ie_addc(p, g, 2);
  loop_store(b, r->begin, at, sum(e, begin(r, e, ie_addc(p, g, 1)), begin(r, e, at)));
  loop_end(b);
  i = loop_for(b, LOOP_SERIAL, "i", rows);
  at = matrix_of(r, e, ie_add(p, start, i));
  at = ie_addc(p, at, 1);
  const LoopExpr *place = loop_let(b, begin(r, e, at));
  loop_store(b, r->begin, at, sum(e, place, whole(e, 1)));
  loop_store(b, r->list, loop_bind(b, "place", place, num(e, r->most), BAD_COUNT),
             loop_index(e->k, i));
  loop_end(b);
  elem_forget(e);
  return true;
}

Dim groups_begin(RowGroups *r, ElementBuilder *e, Dim *n) {
  LoopBuilder *b = &e->b;
  Dim g = loop_for(b, LOOP_SERIAL, "g", num(e, r->count));
  const LoopExpr *from = loop_let(b, begin(r, e, g));
  const LoopExpr *count =
      loop_let(b, loop_op(e->k, LOOP_sub, begin(r, e, ie_addc(e->pool, g, 1)), from, NULL));
  loop_if(b, loop_op(e->k, LOOP_lt, whole(e, 0), count, NULL));
  r->from = loop_bind(b, "from", from, num(e, r->most), BAD_COUNT);
  *n = loop_bind(b, "rows", count, num(e, r->most + 1), BAD_COUNT);
  elem_forget(e);
  return g;
}

void groups_end(ElementBuilder *e) {
  loop_end(&e->b);
  loop_end(&e->b);
  elem_forget(e);
}

Dim groups_row(RowGroups *r, ElementBuilder *e, Dim i) {
  LoopBuilder *b = &e->b;
  const LoopExpr *at = loop_index(e->k, ie_add(e->pool, r->from, i));
  Dim place = loop_bind(b, "place", at, num(e, r->most), BAD_COUNT);
  return loop_bind(b, "row", loop_load(e->k, r->list, place), r->rows, BAD_COUNT);
}

Dim groups_x_row(RowGroups *r, ElementBuilder *e, Dim row) {
  if (!r->spread) return row;
  const Type *g = type_of(r->node);
  Dim each = elem_dim(e, g->dims[g->rank - 1]);
  return loop_bind(&e->b, "of", loop_index(e->k, ie_div(e->pool, row, each)), r->x_rows, BAD_COUNT);
}
