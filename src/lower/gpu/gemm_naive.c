// gemm_naive.c -- template gemm_naive: contractions on thread blocks without tiles.
//
// One thread forms a sum, or several share it (`lanes`).  It serves contractions with little reuse:
// depthwise convolutions, and GEMMs with few rows or columns.  Adjacent threads have
// adjacent columns, or adjacent rows where these are contiguous in the result.
//
// Needs:      LowerTarget.block_threads; a contraction that simt_gemm_begin takes.  Rows and image
//             sizes may be dynamic.
// Guarantees: `lanes` alone changes the order of a sum: each thread adds its terms in order, then
//             the partial sums are added in order.  With batch_invariant `lanes` depends on K
//             alone.
#include "lower/gpu/gemm_simt.h"

#define GEMM_NAIVE_SCHEDULE(I, B, C, T)                                                            \
  I(T, lanes, 0, 1, 1024, 0, ORDER, "threads that share a sum")                                    \
  C(T, along, "columns|rows", 0, FREE, "axis along which adjacent threads are adjacent")
SCHEDULE_STRUCT(GemmNaive, GEMM_NAIVE_SCHEDULE);
SCHEDULE_TABLE(GemmNaive, GEMM_NAIVE_SCHEDULE);

typedef struct Direct {
  SimtGemm s;
  int64_t threads, lanes, places;  // lanes: threads of a sum; places: sums of a group
  bool by_rows;
  int32_t acc, part;
  Dim block, t, lane;  // where the thread stands
  Dim row, col;
  int depth;
} Direct;

// Threads that hide the latency of memory; columns that fill a warp.
// Where sums are too few to fill the multiprocessors, a thread's own terms are what takes
// time.
enum { PLENTY = 1 << 18, FEW_SUMS = 1 << 14, MOST_LANES = 16, NARROW = 32 };
enum { FEW_TERMS = 64, LEAST_TERMS = 16 };

static Dim num(Direct *d, int64_t v) { return ie_const(d->s.e.pool, v); }

static bool gemm_naive_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                              void *fields) {
  const Direct *d = match;
  const Contraction *c = &d->s.c;
  GemmNaiveSchedule *s = fields;
  double sums = (double)c->groups;
  (void)given;
  for (int i = 0; i < c->nout; i++) sums *= ie_is_const(c->out[i]) ? (double)c->out[i]->value : 64;
  if (t->batch_invariant) sums = 1;
  bool narrow = ie_is_const(c->n) && c->n->value < NARROW;
  bool fewer = narrow && ie_lt(d->s.e.pool, c->m, c->n) == YES;
  s->along = (c->conv && c->channel == 1) || (narrow && !fewer);
  s->lanes = 1;
  bool latency_bound = sums / (double)c->groups < FEW_SUMS && c->depth >= FEW_TERMS;
  while (s->lanes < MOST_LANES && sums * (double)s->lanes < PLENTY &&
         c->depth / (2 * s->lanes) >= (latency_bound ? LEAST_TERMS : FEW_TERMS) &&
         d->threads / (2 * s->lanes) >= 16)
    s->lanes *= 2;
  return true;
}

static bool gemm_naive_legal(const void *match, const LowerTarget *t, const void *fields,
                             const char **why) {
  (void)t;
  *why = ((const GemmNaiveSchedule *)fields)->lanes > ((const Direct *)match)->threads
             ? "lanes is above the threads of a block"
             : NULL;
  return !*why;
}

static bool open_threads(Direct *d) {
  ElementBuilder *e = &d->s.e;
  IntPool *p = e->pool;
  const Contraction *c = &d->s.c;
  d->t = thread_loop(e);
  d->depth = 1;
  Dim places = num(d, d->places), in_group = ie_mod(p, d->t, places);
  d->lane = ie_div(p, d->t, places);
  Dim first = ie_mulc(p, d->by_rows ? d->block : d->s.t.panel, d->places);
  Dim at = thread_guard(e, ie_add(p, first, in_group), d->by_rows ? c->m : c->n, &d->depth);
  d->row = d->by_rows ? at : d->block;
  d->col = d->by_rows ? d->s.t.panel : at;
  return true;
}

// The thread's part of the sum, in its register.
static bool form_sum(Direct *d) {
  SimtGemm *s = &d->s;
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  loop_store(&e->b, d->acc, d->t, simt_gemm_zero(s));
  Dim j = loop_for(&e->b, LOOP_SERIAL, "k", thread_rounds(e, s->k, d->lane, d->lanes));
  Dim k = ie_add(p, ie_mulc(p, j, d->lanes), d->lane);
  elem_forget(e);
  const LoopExpr *a = simt_gemm_lhs(s, d->row, d->col, k, e->nguards);
  Dim in_panel = d->by_rows ? p->zero : ie_sub(p, d->col, ie_mulc(p, s->t.panel, d->places));
  const LoopExpr *b = simt_gemm_rhs(s, d->row, in_panel, k, e->nguards);
  if (!a || !b) return false;
  loop_store(&e->b, d->acc, d->t, simt_gemm_add(s, a, b, loop_load(e->k, d->acc, d->t)));
  loop_end(&e->b);
  return true;
}

static bool emit_epilogue(Direct *d) {
  SimtGemm *s = &d->s;
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  const LoopExpr *sum = loop_load(e->k, d->acc, d->t);
  if (d->lanes > 1) {
    loop_store(&e->b, d->part, d->t, sum);
    thread_close(e, d->depth);
    open_threads(d);
    Dim lane = thread_guard(e, d->lane, p->one, &d->depth);
    Dim q = loop_reduce(&e->b, LOOP_add, "q", num(d, d->lanes), 1);
    Dim in_group = ie_mod(p, d->t, num(d, d->places));
    Dim from = ie_add(p, ie_mulc(p, q, d->places), in_group);
    sum = loop_yield(&e->b, loop_load(e->k, d->part, from));
    if (d->by_rows)
      d->row = ie_add(p, d->row, lane);
    else
      d->col = ie_add(p, d->col, lane);
  }
  if (!simt_gemm_epilogue(s, d->row, d->col, sum)) return false;
  thread_close(e, d->depth);
  return true;
}

static void *gemm_naive_match(Lowering *lo, const Node *fused) {
  Direct *d = arena_new(lo->arena, Direct);
  d->threads = lo->target.block_threads;
  return simt_gemm_begin(&d->s, lo, fused) ? d : NULL;
}

static bool gemm_naive_build(void *match, const void *fields, Lowered *out) {
  Direct *d = match;
  SimtGemm *s = &d->s;
  const GemmNaiveSchedule *from = fields;
  d->by_rows = from->along;
  d->lanes = from->lanes;
  d->places = d->threads / d->lanes;
  s->t.s.item_rows = d->by_rows ? d->places : 1;
  s->t.s.cols = d->by_rows ? 1 : d->places;
  if (!simt_gemm_open(s, &d->block)) return false;
  LoopKernel *k = s->e.k;
  d->acc = loop_buffer(k, LOOP_REGISTER, "acc", s->c.acc, num(d, d->threads), false);
  if (d->lanes > 1)
    d->part = loop_buffer(k, LOOP_SHARED, "part", s->c.acc, num(d, d->threads), false);
  open_threads(d);
  if (!form_sum(d) || !emit_epilogue(d)) return false;
  loop_end(&s->e.b);
  elem_finish(&s->e, out);
  return true;
}

const TemplateCode template_gemm_naive = {.match = gemm_naive_match,
                                          .choose = gemm_naive_choose,
                                          .legal = gemm_naive_legal,
                                          .build = gemm_naive_build,
                                          SCHEDULE(GemmNaive)};
