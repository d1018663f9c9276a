// row_pieces.c -- rows of template reduce that are stored in pieces.
//
// A result may read an operand by a quotient of the place in the row, as a group norm reads a
// channel's scale.  Within a piece that quotient is the same, so lanes share one load instead of
// loading an element each.  The expressions are written once before, to see what they read.
//
// Needs:      the sums of the row have values.
// Guarantees: nothing stays of what was written; 0 where there is no such quotient, or a piece
//             would not fill a vector.
#include "lower/cpu/reduce.h"

// A piece is at least so many elements: a vector of the widest.
enum { PIECE_LEAST = 16, PIECE_DEPTH = 32 };

// The least number by which the symbol is divided in an index.
static void least_divisor(Dim d, Dim sym, int64_t *out) {
  if (d->kind == IE_DIV || d->kind == IE_MOD) {
    if (ie_is_const(d->b) && d->a == sym && (!*out || d->b->value < *out)) *out = d->b->value;
    least_divisor(d->a, sym, out);
    return;
  }
  for (int i = 0; d->kind == IE_SUM && i < d->nterms; i++)
    for (int j = 0; j < d->term[i].natoms; j++)
      if (d->term[i].atom[j] != d) least_divisor(d->term[i].atom[j], sym, out);
}

static void divisor_of_loads(const LoopExpr *x, Dim sym, int depth, int64_t *out) {
  if (!x || depth > PIECE_DEPTH) return;
  if (x->kind == LX_LOAD) least_divisor(x->index, sym, out);
  for (int i = 0; i < ARRAY_LEN(x->src); i++) divisor_of_loads(x->src[i], sym, depth + 1, out);
}

int64_t rows_piece(Rows *r) {
  ElementBuilder *e = &r->e;
  if (r->kind != ALONG || !ie_is_const(r->inner_length)) return 0;
  LoopBuilder kept = e->b;
  int32_t vars = e->k->nvars;
  Dim sym = loop_sym(e->k, "piece", r->inner_length), at[MAX_RANK];
  int64_t piece = 0;
  loop_begin(&e->b, e->k);
  rows_set_place(r, e->pool->zero, sym);
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *c = elem_core(e->body->result[i]);
    if (!rows_is_whole(r, type_of(c))) continue;
    rows_result_index(r, type_of(c), true, at);
    divisor_of_loads(elem_at(e, c, at), sym, 0, &piece);
  }
  e->b = kept;
  e->k->nvars = vars;
  elem_forget(e);
  return piece >= PIECE_LEAST && r->inner_length->value % piece == 0 ? piece : 0;
}

int rows_open_pieces(Rows *r, int64_t piece) {
  IntPool *p = r->e.pool;
  Dim o = loop_for(&r->e.b, LOOP_SERIAL, "o", ie_const(p, r->inner_length->value / piece));
  Dim v = loop_for(&r->e.b, LOOP_VECTOR, "v", ie_const(p, piece));
  rows_set_place(r, p->zero, ie_add(p, ie_mulc(p, o, piece), v));
  return 2;
}
