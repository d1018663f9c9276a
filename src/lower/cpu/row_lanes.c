// row_lanes.c -- the loops of rows as lanes.
//
// The last axes that stay are joined until they have a vector's rows, and cut into items.
//
// Needs:      the shape in the kernel's terms; row_lanes_find before all else.
// Guarantees: each row is in one lane of one item.  Sizes may be dynamic.
#include "lower/cpu/row_lanes.h"

#include "loop/prove.h"

// A vector is of so many rows at least, where there are as many: of several axes if need be.
enum { ROWS_LEAST = 64 };

void row_lanes_find(RowLanes *r, IntPool *p, int rank, const Dim *shape, const bool *over) {
  r->n = 0;
  for (int i = 0; i < rank; i++)
    if (!over[i]) {
      r->axis[r->n] = i;
      r->size[r->n++] = shape[i];
    }
  r->from = r->n;
  for (r->last = p->one; r->from > 0 && ie_is_const(r->last) && r->last->value < ROWS_LEAST;)
    r->last = ie_mul(p, r->last, r->size[--r->from]);
}

bool row_lanes_many(const RowLanes *r) {
  return !ie_is_const(r->last) || r->last->value >= ROWS_LEAST / 4;
}

void row_lanes_items(RowLanes *r, ElementBuilder *e, int64_t cols) {
  IntPool *p = e->pool;
  Dim items = p->one, last = r->last;
  for (int i = 0; i < r->from; i++) items = ie_mul(p, items, r->size[i]);
  Dim chunks = ie_ceildiv(p, last, ie_const(p, cols)), all = ie_mul(p, items, chunks);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", all);
  Dim chunk = ie_is(chunks, 1) ? p->zero : r->from ? ie_mod(p, item, chunks) : item;
  elem_split(e, r->from ? ie_div(p, item, chunks) : p->zero, r->from, r->size, r->at);
  r->first = ie_mulc(p, chunk, cols);
  r->width = ie_is(chunks, 1) ? last : ie_min(p, ie_const(p, cols), ie_sub(p, last, r->first));
  if (ie_is_const(last) && last->value % cols == 0) r->width = ie_const(p, cols);
}

static Dim open_vector(RowLanes *r, ElementBuilder *e, Dim width, bool named, Dim *index) {
  Dim lane = loop_for(&e->b, LOOP_VECTOR, "v", width), at[MAX_RANK];
  Dim row = ie_add(e->pool, r->first, lane);
  if (named) row = elem_named(e, row, r->last);
  memcpy(at, r->at, sizeof at);
  elem_split(e, row, r->n - r->from, r->size + r->from, at + r->from);
  for (int i = 0; i < r->n; i++) index[r->axis[i]] = at[i];
  elem_forget(e);
  return lane;
}

Dim row_lanes_vector(RowLanes *r, ElementBuilder *e, Dim *index) {
  return open_vector(r, e, r->width, false, index);
}

// Whether the coordinates of a row are digits of its number that begin or end where items do.
static bool digits_of_items(const RowLanes *r, IntPool *p, int64_t cols) {
  Dim unit = p->one, n = ie_const(p, cols);
  for (int i = r->n - 1; i > r->from; i--) {
    unit = ie_mul(p, unit, r->size[i]);
    if (!dim_divides(p, unit, n) && !dim_divides(p, n, unit)) return false;
  }
  return true;
}

Dim row_lanes_whole(RowLanes *r, ElementBuilder *e, int64_t cols, Dim *index) {
  bool named = !ie_is_const(r->width) || !digits_of_items(r, e->pool, cols);
  return open_vector(r, e, ie_const(e->pool, cols), named, index);
}
