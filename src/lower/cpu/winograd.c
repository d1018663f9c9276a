// winograd.c -- template winograd: 3x3 convolutions by F(2x2, 3x3) or F(4x4, 3x3) (winograd.h).
//
// match maps the convolution, choose compares its time with the direct form's (winograd_choose.c),
// build writes the loops (winograd_loops.c).  Prologue and epilogue are those of template gemm:
// pixels come from elem_at, results go through epilogue_store_sum.
//
// Needs:      FAST_REASSOC; a 2-D f32 convolution of stride, dilation and groups 1, channels last,
//             constant weights; a prologue of a few operations, since tiles share pixels.  Batch
//             and image size may be dynamic.
// Guarantees: `tile` alone changes bits.  With dynamic sizes it declines loops that loop_verify
//             does not prove.  All else is left to template gemm.
#include "lower/cpu/winograd.h"

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
  ElementBuilder *e = c->e;
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
static bool proven(const ElementBuilder *e) {
  Diag d;
  diag_init(&d);
  return !e->k->ndims || !loop_verify(e->k, &d);
}

typedef struct WinogradMatch {
  ElementBuilder e;
  Contraction c;
  ContractEpilogue h;
  Epilogue f;
  Winograd w;
} WinogradMatch;

static void *winograd_match(Lowering *lo, const Node *fused) {
  WinogradMatch *m = arena_new(lo->arena, WinogradMatch);
  ElementBuilder *e = &m->e;
  Contraction *c = &m->c;
  lo->why = "sums may not be formed in another order";
  if (!(lo->g->fast & FAST_REASSOC)) return NULL;
  *e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  e->a = lo->arena;
  lo->why = "it is not an f32 3x3 convolution of stride 1 with constant weights, channels last";
  if (!contract_epilogue(&m->h, e) || m->h.blocks || !contract_map(c, e, m->h.walk.anchor, 0))
    return NULL;
  const Node *anchor = m->h.walk.anchor, *skip[1] = {c->rhs};
  if (!takes(c) || !elem_begin(e, lo, fused, skip, 1)) return NULL;
  if (!contract_map(c, e, anchor, 0) || !contract_sizes(c) || !ie_is_const(c->n)) return NULL;
  m->f = (Epilogue){.c = c, .h = &m->h};
  m->w = (Winograd){.c = c, .e = e, .finish = &m->f, .images = c->out[0], .inputs = c->in_channels};
  m->w.counted = ie_is_const(m->w.images) && !lo->target.batch_invariant ? m->w.images->value : 1;
  m->w.outputs = c->n->value;
  lo->why = "its prologue is expensive, and tiles would repeat it";
  return cheap_pixels(c) ? m : NULL;
}

static bool choose_schedule(void *match, const LowerTarget *t, const ScheduleGiven *given,
                            void *fields) {
  WinogradMatch *m = match;
  bool ok = winograd_choose(&m->w, t, m->h.expensive, given);
  *(WinogradSchedule *)fields = m->w.s;
  return ok;
}

static bool is_legal(const void *match, const LowerTarget *t, const void *fields,
                     const char **why) {
  const WinogradMatch *m = match;
  (void)t;
  return winograd_legal(&m->w, fields, m->h.wide, why);
}

static bool winograd_build(void *match, const void *fields, Lowered *out) {
  WinogradMatch *m = match;
  PackSpec pack;
  m->w.s = *(const WinogradSchedule *)fields;
  winograd_derive(&m->w);
  if (!winograd_pack(&m->w, &pack)) return false;
  m->w.packed = elem_packed(&m->e, m->c.weight, &pack, "w");
  if (m->w.packed < 0 || !epilogue_give(&m->f, &m->e) || !winograd_emit(&m->w)) return false;
  elem_finish(&m->e, out);
  return proven(&m->e);
}

SCHEDULE_TABLE(Winograd, WINOGRAD_SCHEDULE);
static const char *const cheaper[] = {"winograd tile=2", NULL};
const TemplateCode template_winograd = {.match = winograd_match,
                                        .choose = choose_schedule,
                                        .legal = is_legal,
                                        .build = winograd_build,
                                        .cheaper = cheaper,
                                        SCHEDULE(Winograd)};
