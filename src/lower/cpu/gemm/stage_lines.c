// stage_lines.c -- stage_image of template gemm: an item's input lines in scratch, with padding.
//
// For images of few channels, such as a network's first layer.  There a tap is a few K steps, and
// unrolled border tiles would dominate the code.  A padded copy has no border, and all columns of
// the item read it.
//
// Needs:      a 2-D float convolution with a constant line width; contract_legal has bounded the
//             scratch.
// Guarantees: padding is 0.  Taps in the padding are added instead of skipped, so the field is
//             ORDER: a sum may differ in NaN, infinity or the sign of zero.
#include "lower/contract/contract.h"

static Dim num(Tiler *t, int64_t v) { return ie_const(t->e->pool, v); }

// Elements of the input from the first to the last that so many of the output read.
static int64_t reach(const ContractAxis *s, int64_t out) {
  return (out - 1) * s->stride + (s->kernel - 1) * s->dilation + 1;
}

static int64_t high(const Tiler *t) { return reach(&t->c->space[0], t->s.item_rows); }
static int64_t wide(const Tiler *t) { return reach(&t->c->space[1], t->c->m->value); }

int64_t contract_lines_size(const Tiler *t) { return t->c->in_channels * high(t) * wide(t); }

static Dim place(Tiler *t, Dim channel, Dim y, Dim x) {
  IntPool *p = t->e->pool;
  Dim line = ie_add(p, ie_mulc(p, channel, high(t)), y);
  return ie_add(p, ie_mulc(p, line, wide(t)), x);
}

bool contract_stage_lines(Tiler *t, Dim first) {
  Contraction *c = t->c;
  ElementBuilder *e = t->e;
  IntPool *p = e->pool;
  ContractPoint at = t->at;
  Dim index[MAX_RANK];
  int line = c->first_space, pixel = line + 1;
  at.group = t->group;
  Dim channel = loop_for(&e->b, LOOP_SERIAL, "channel", num(t, c->in_channels));
  Dim y = loop_for(&e->b, LOOP_SERIAL, "y", num(t, high(t)));
  Dim x = loop_for(&e->b, LOOP_VECTOR, "x", num(t, wide(t)));
  for (int d = 0; d < c->nd; d++) at.out[line + d] = at.k[d] = p->zero;
  at.k[c->nk - 1] = channel;
  elem_forget(e);
  contract_lhs(c, &at, index);
  Dim from = ie_add(p, ie_mulc(p, first, c->space[0].stride), y);
  index[line] = elem_guard(e, ie_add(p, index[line], from), c->space[0].in);
  index[pixel] = elem_guard(e, ie_add(p, index[pixel], x), c->space[1].in);
  const LoopExpr *v = elem_at(e, c->lhs, index);
  if (v) v = elem_guarded(e, 0, loop_cast(e->k, c->acc, v), loop_float(e->k, c->acc, 0));
  elem_unguard(e, 0);
  elem_forget(e);
  if (!v) return false;
  loop_store(&e->b, t->lines, place(t, channel, y, x), v);
  for (int i = 0; i < 3; i++) loop_end(&e->b);
  return true;
}

const LoopExpr *contract_staged_pixel(Tiler *t, Dim row, const Dim *k) {
  const ContractAxis *s = t->c->space;
  IntPool *p = t->e->pool;
  Dim y = ie_add(p, ie_mulc(p, t->line, s[0].stride), ie_mulc(p, k[0], s[0].dilation));
  Dim x = ie_add(p, ie_mulc(p, row, s[1].stride), ie_mulc(p, k[1], s[1].dilation));
  return loop_load(t->e->k, t->lines, place(t, k[t->c->nk - 1], y, x));
}
