// depthwise_int8.c -- int8 depthwise convolution: packed dot products over taps of several lines.
//
// The values of a channel in up to four lines of a tap column are packed into one 32-bit word.
// Neighbouring pixels share the words of common columns.  A 3x3 window costs a pixel one new word
// and three dot products instead of nine multiplications.  A branch per tile separates windows
// inside the image, which need no guard, from those at the border.
//
// Needs:      contract_packed_dot accepted the convolution: channels last, constant line width, 2-D
//             or more; a tap outside counts as the zero point, which is biased to 0.
// Guarantees: the integers of the products one by one; sums wrap at 32 bits.
#include "lower/contract/contract.h"

enum { BYTES = 4 };

typedef struct Depth {
  Tiler *t;
  int axis;  // across lines
  Dim top;   // the window's first line, known to lie inside with all others; NULL: it is not
  // Where lines may lie outside, by tap: the line, or the nearest inside, and whether it is it;
  // NULL: they may not.
  Dim *line;
  const LoopExpr **inside;
  Dim k[CONTRACT_K];
} Depth;

// A byte of lhs as words hold it: at a row of the tile and a column of the result, tap `line`
// across lines.
static const LoopExpr *byte_at(Depth *d, Dim row, Dim col, int64_t line) {
  Tiler *t = d->t;
  Contraction *c = t->c;
  LoopKernel *k = t->e->k;
  ContractPoint at;
  Dim index[MAX_RANK];
  contract_place(t, row, col, &at);
  memcpy(at.k, d->k, sizeof at.k);
  at.k[d->axis] = ie_const(t->e->pool, line);
  if (d->top) c->bound[d->axis] = ie_addc(t->e->pool, d->top, line * c->space[d->axis].dilation);
  if (d->line) c->bound[d->axis] = d->line[line];
  contract_lhs(c, &at, index);
  c->bound[d->axis] = NULL;
  const LoopExpr *x = elem_at(t->e, c->lhs, index);
  if (!x) return NULL;
  x = loop_bit_cast(k, DT_U8, x);
  if (c->flip) x = loop_op(k, LOOP_bit_xor, x, loop_int(k, DT_U8, 128), NULL);
  return d->line ? loop_op(k, LOOP_select, d->inside[line], x, loop_int(k, DT_U8, 0)) : x;
}

// The word of the lines from `first` on.
static const LoopExpr *word_at(Depth *d, Dim row, Dim col, int64_t first) {
  ElementBuilder *e = d->t->e;
  LoopKernel *k = e->k;
  const LoopExpr *word = NULL;
  int64_t end = MIN(first + BYTES, d->t->c->space[d->axis].kernel);
  for (int64_t line = first; line < end; line++) {
    const LoopExpr *x = byte_at(d, row, col, line);
    if (!x) return NULL;
    x = loop_cast(k, DT_U32, x);
    if (line > first)
      x = loop_op(k, LOOP_shift_left, x, loop_int(k, DT_U32, 8 * (line - first)), NULL);
    word = word ? loop_op(k, LOOP_bit_or, word, x, NULL) : x;
  }
  return word;
}

// One row of the tile: all words of one tap along the line.
static bool row_tap(Depth *d, int64_t r) {
  Tiler *t = d->t;
  Contraction *c = t->c;
  ElementBuilder *e = t->e;
  bool ragged = !ie_is_const(c->n) || c->n->value % t->s.cols != 0;
  for (int64_t line = 0; line < c->space[d->axis].kernel; line += BYTES) {
    Dim j = loop_for(&e->b, LOOP_VECTOR, "j", ie_const(e->pool, t->s.cols));
    Dim col = ie_add(e->pool, t->col, j), cell = ie_addc(e->pool, j, r * t->s.cols);
    ContractPoint at = {.group = t->group};
    int before = e->nguards;
    elem_forget(e);
    if (ragged) col = elem_guard(e, col, c->n);
    const LoopExpr *a = word_at(d, ie_addc(e->pool, t->row, r), col, line);
    elem_unguard(e, before);
    memcpy(at.k, d->k, sizeof at.k);
    at.k[d->axis] = ie_const(e->pool, line);
    if (!a) return false;
    const LoopExpr *b = loop_load(e->k, t->packed, contract_packed(t, &at, j));
    const LoopExpr *sum = loop_load(e->k, t->acc, cell);
    loop_store(&e->b, t->acc, cell, loop_op(e->k, LOOP_dot, a, b, sum));
    loop_end(&e->b);
  }
  return true;
}

// Pixel by pixel, so that a word lives no longer than the pixels that share it.
static bool window(Depth *d, int64_t rows, int64_t first) {
  const Contraction *c = d->t->c;
  int last = c->nd - 1;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < c->space[last].kernel; i++) {
      Rows in = first >= 0 ? contract_rows_of_tap(d->t, first, rows, i) : (Rows){.to = rows};
      d->k[last] = ie_const(d->t->e->pool, i);
      if (r >= in.from && r < in.to && !row_tap(d, r)) return false;
    }
  }
  return true;
}

// At the border: what is asked of a line is asked once, before the loops over lanes.
static bool border_window(Depth *d, Dim top, int64_t rows, int64_t first) {
  ElementBuilder *e = d->t->e;
  IntPool *p = e->pool;
  const ContractAxis *s = &d->t->c->space[d->axis];
  d->line = arena_array(e->a, Dim, s->kernel);
  d->inside = arena_array(e->a, const LoopExpr *, s->kernel);
  for (int64_t i = 0; i < s->kernel; i++) {
    Dim at = ie_addc(p, top, i * s->dilation);
    d->inside[i] = loop_let(&e->b, elem_in_range(e, at, s->in));
    Dim near = ie_max(p, p->zero, ie_min(p, at, ie_addc(p, s->in, -1)));
    d->line[i] =
        loop_bind(&e->b, "line", loop_index(e->k, near), s->in, "a line lies outside the image");
  }
  return window(d, rows, first);
}

static bool either_window(Depth *d, int64_t rows, int64_t first) {
  Tiler *t = d->t;
  ElementBuilder *e = t->e;
  IntPool *p = e->pool;
  const ContractAxis *s = &t->c->space[d->axis];
  if (!s->padded) return window(d, rows, first);
  int64_t room = s->in->value - (s->kernel - 1) * s->dilation;
  Dim at = ie_addc(p, ie_mulc(p, t->at.out[t->c->first_space + d->axis], s->stride), -s->lo);
  if (room <= 0) return border_window(d, at, rows, first);
  Dim all = ie_const(p, room);
  loop_if(&e->b, elem_in_range(e, at, all));
  d->top = loop_bind(&e->b, "top", loop_index(e->k, at), all, "a line lies outside the image");
  if (!window(d, rows, first)) return false;
  d->top = NULL;
  loop_else(&e->b);
  bool ok = border_window(d, at, rows, first);
  loop_end(&e->b);
  return ok;
}

bool contract_depth_sums(Tiler *t, int64_t rows, int64_t first) {
  Depth d = {.t = t, .axis = t->c->word_axis};
  ElementBuilder *e = t->e;
  int depth = 0;
  for (int i = 0; i < d.axis; i++) {
    Dim skip, n = contract_taps_inside(t, i, &skip);
    d.k[i] = skip;
    if (ie_is(n, 1)) continue;
    d.k[i] = ie_add(e->pool, skip, loop_for(&e->b, LOOP_SERIAL, "tap", n));
    depth++;
  }
  bool ok = either_window(&d, rows, first);
  while (depth-- > 0) loop_end(&e->b);
  return ok;
}
