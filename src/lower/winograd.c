// winograd.c -- the template of 3x3 convolutions in fewer products (winograd.h).
//
// Takes f32 convolutions with constant weights whose channels lie side by side, where sums may be formed in another order
// (--exact: not) and where the formula of winograd_plan.c says that it is faster; all others are left to the direct
// form.  What comes before and after is the same as there: pixels are read by elem_at, and results are stored by contract_store.
#include "lower/winograd.h"

#include "ir/internal.h"
#include "ir/rule.h"

static bool takes_space(const Contraction *c) {
  if (!c->conv || c->transposed || c->depthwise || c->nd != 2 || c->groups != 1) return false;
  for (int d = 0; d < 2; d++) {
    const ContractAxis *s = &c->space[d];
    if (s->kernel != WINOGRAD_TAPS || s->stride != 1 || s->dilation != 1) return false;
  }
  return c->channel == 3;
}

static bool takes(const Contraction *c) {
  if (c->anchor->op != OP_conv || !takes_space(c) || !c->weight) return false;
  return type_of(c->anchor)->dtype == DT_F32 && type_of(c->lhs)->dtype == DT_F32 &&
         type_of(c->rhs)->dtype == DT_F32;
}

// Each pixel is read by several tiles: what it is made of must be little.
enum { PIXEL_NODES = 12 };
static int count_nodes(const LoopExpr *x) {
  int n = 1;
  for (int i = 0; x && i < 3 && n <= PIXEL_NODES; i++)
    if (x->src[i]) n += count_nodes(x->src[i]);
  return n;
}

static bool cheap_pixels(Contraction *c) {
  Elem *e = c->e;
  LoopBuilder kept = e->b;
  Dim index[MAX_RANK], shape[MAX_RANK];
  elem_shape(e, type_of(c->lhs), shape);
  loop_begin(&e->b, e->k);
  for (int i = 0; i < 4; i++) index[i] = loop_sym(e->k, "p", shape[i]);
  const LoopExpr *x = elem_at(e, c->lhs, index);
  bool plain = e->b.stmt.n == 0;
  e->b = kept;
  elem_forget(e);
  return x && plain && count_nodes(x) <= PIXEL_NODES;
}

// Sizes that are not known make proofs hard: where there is none the direct form is taken.
static bool proven(const Elem *e) {
  Diag d;
  diag_init(&d);
  return !e->k->ndims || !loop_verify(e->k, &d);
}

tenon_status lower_winograd(Lowering *lo, const Node *fused, Lowered *out) {
  const fused_attrs *at = fused->attrs;
  if (at->kind != FUSED_CONTRACTION || !(lo->g->fast & FAST_REASSOC)) return TENON_EUNSUPPORTED;
  Elem e = {.lo = lo, .fused = fused, .body = at->body, .a = lo->arena};
  Contraction c;
  ContractChain h = {0};
  if (!contract_chain(&h, &e) || h.blocks || !contract_map(&c, &e, h.follow.anchor, 0))
    return TENON_EUNSUPPORTED;
  const Node *anchor = h.follow.anchor, *skip[1] = {c.rhs};
  if (!takes(&c) || !elem_begin(&e, lo, fused, skip, 1)) return TENON_EUNSUPPORTED;
  if (!contract_map(&c, &e, anchor, 0) || !contract_sizes(&c)) return TENON_EUNSUPPORTED;
  Finish f = {.c = &c, .h = &h};
  Winograd w = {.c = &c, .e = &e, .finish = &f, .images = c.out[0], .inputs = c.in_channels};
  w.counted = ie_is_const(w.images) && !lo->target.batch_invariant ? w.images->value : 1;
  if (!ie_is_const(c.n)) return TENON_EUNSUPPORTED;
  w.outputs = c.n->value;
  PackSpec pack;
  if (!cheap_pixels(&c) || !winograd_choose(&w, &lo->target, h.heavy) || !winograd_pack(&w, &pack))
    return TENON_EUNSUPPORTED;
  w.packed = elem_packed(&e, c.weight, &pack, "w");
  if (w.packed < 0 || !contract_give(&f, &e) || !winograd_emit(&w)) return TENON_EUNSUPPORTED;
  elem_finish(&e, winograd_schedule_print(lo->arena, &w.s), out);
  return proven(&e) ? TENON_OK : TENON_EUNSUPPORTED;
}
