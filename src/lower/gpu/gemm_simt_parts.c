// gemm_simt_parts.c -- what the contraction templates for thread blocks share (gemm_simt.h).
//
// simt_gemm_begin maps the contraction with all pixels of an image as rows and K as one counted
// axis.  The other functions give operand elements, one FMA, and the epilogue for a sum.
//
// Needs:      a kernel of kind contraction; Tiler.s.cols is set before simt_gemm_pack.
// Guarantees: taps outside the image and guarded-out elements are 0.  A constant rhs is packed in
//             panels of `cols` columns, padded with 0.  int8 with at most EXACT_PRODUCTS terms is
//             summed in f32, which is exact.
#include "lower/gpu/gemm_simt.h"

#include "eval/contract.h"
#include "ops/order.h"

// A convolution's rows are all pixels of an image, or of all images where these are contiguous;
// taps outside are guarded.
static void take_images(Contraction *c) {
  if (!c->conv) return;
  bool last = node_channels_last(c->anchor);
  c->row0 = last ? 0 : 2;
  c->row1 = last ? c->channel : c->nd + 2;
  c->image = false;
  c->phases = 0;
  c->guarded = true;
}

bool simt_gemm_begin(SimtGemm *s, Lowering *lo, const Node *fused) {
  const fused_attrs *at = fused->attrs;
  ElementBuilder *e = &s->e;
  Contraction *c = &s->c;
  if (at->kind != FUSED_CONTRACTION) return false;
  *e = (ElementBuilder){.lo = lo, .fused = fused, .body = at->body, .a = lo->arena};
  if (!contract_epilogue(&s->h, e) || !contract_map(c, e, s->h.walk.anchor, 0)) return false;
  const Node *anchor = s->h.walk.anchor, *skip[1] = {c->weight ? c->rhs : NULL};
  if (!elem_begin(e, lo, fused, skip, c->weight ? 1 : 0)) return false;
  if (!contract_map(c, e, anchor, 0)) return false;
  take_images(c);
  if (!contract_sizes(c)) return false;
  if (is_requantized(anchor) && (c->depth < 1 || c->depth > 32768)) return false;
  s->p = contract_probe(c);
  if (!s->p.ok) return false;
  bool exact = c->depth > 0 && c->depth <= EXACT_PRODUCTS;
  if (sums_int8(anchor) && exact) c->acc = DT_F32;
  s->k = e->pool->one;
  for (int i = 0; i < c->nk; i++) s->k = ie_mul(e->pool, s->k, c->k[i]);
  s->t = (Tiler){.c = c, .e = e, .packed = -1, .guard_packed = true, .lhs_buf = -1, .rhs_buf = -1};
  s->f = (Epilogue){.c = c, .h = &s->h};
  return true;
}

bool simt_gemm_pack(SimtGemm *s) {
  Contraction *c = &s->c;
  if (c->weight) {
    PackSpec pack;
    if (!contract_pack(c, s->t.s.cols, &pack)) return false;
    s->t.packed = elem_packed(&s->e, c->weight, &pack, "w");
    if (s->t.packed < 0) return false;
  }
  if (!epilogue_give(&s->f, &s->e)) return false;
  loop_begin(&s->e.b, s->e.k);
  return true;
}

bool simt_gemm_open(SimtGemm *s, Dim *block) {
  s->t.s.item_panels = 1;
  if (!simt_gemm_pack(s)) return false;
  *block = contract_items(&s->t);
  return true;
}

static void place_at(SimtGemm *s, Dim row, Dim col, Dim k, ContractPoint *at) {
  contract_place(&s->t, row, col, at);
  elem_split(&s->e, k, s->c.nk, s->c.k, at->k);
}

const LoopExpr *simt_gemm_zero(SimtGemm *s) { return elem_number(&s->e, s->c.acc, 0); }

const LoopExpr *simt_gemm_lhs(SimtGemm *s, Dim row, Dim col, Dim k, int since) {
  ContractPoint at;
  place_at(s, row, col, k, &at);
  const LoopExpr *x = contract_lhs_value(&s->t, &at);
  return x ? elem_guarded(&s->e, since, x, simt_gemm_zero(s)) : NULL;
}

const LoopExpr *simt_gemm_rhs(SimtGemm *s, Dim row, Dim in_panel, Dim k, int since) {
  ContractPoint at;
  Dim col = ie_add(s->e.pool, ie_mulc(s->e.pool, s->t.panel, s->t.s.cols), in_panel);
  int before = s->e.nguards;
  // Packed columns behind the last one are there, and 0.
  bool ragged = contract_ragged(&s->t) && (s->t.packed < 0 || s->c.rhs_zero);
  if (ragged) col = elem_guard(&s->e, col, s->c.n);
  if (!col) return NULL;
  place_at(s, row, col, k, &at);
  const LoopExpr *x = contract_rhs_value(&s->t, &at, in_panel);
  if (x) x = elem_guarded(&s->e, since, x, simt_gemm_zero(s));
  elem_unguard(&s->e, before);
  return x;
}

const LoopExpr *simt_gemm_add(SimtGemm *s, const LoopExpr *a, const LoopExpr *b,
                              const LoopExpr *sum) {
  LoopKernel *k = s->e.k;
  if (dtype_class(s->c.acc) == DC_FLOAT) return loop_op(k, LOOP_fma, a, b, sum);
  return loop_op(k, LOOP_add, sum, loop_op(k, LOOP_mul, a, b, NULL), NULL);
}

bool simt_gemm_epilogue(SimtGemm *s, Dim row, Dim col, const LoopExpr *sum) {
  ContractPoint at;
  elem_forget(&s->e);
  contract_place(&s->t, row, col, &at);
  Dim *index = arena_dup(s->e.a, at.out, (int64_t)sizeof at.out);
  return epilogue_store_sum(&s->f, index, sum, NULL);
}
