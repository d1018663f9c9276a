// group_direct.c -- contractions on groups of threads without tiles: each sum by one thread, or by a few that share its terms.
//
// For what has little to share: convolutions of single channels, and products with a few rows or columns.  Neighbouring threads have
// neighbouring columns, or rows where the result lies along these.
#include "lower/group_contract.h"

typedef struct Direct {
  GroupSums s;
  int64_t threads, lanes, places;  // lanes: threads of a sum; places: sums of a group
  bool by_rows;
  int32_t acc, part;
  Dim block, t, lane;  // where the thread stands
  Dim row, col;
  int depth;
} Direct;

enum { PLENTY = 1 << 15, FEW_TERMS = 64, MOST_LANES = 16 };

static Dim num(Direct *d, int64_t v) { return ie_const(d->s.e.pool, v); }

static void choose(Direct *d, bool batch_invariant) {
  const Contraction *c = &d->s.c;
  double sums = (double)c->groups;
  for (int i = 0; i < c->nout; i++) sums *= ie_is_const(c->out[i]) ? (double)c->out[i]->value : 64;
  if (batch_invariant) sums = 1;
  d->by_rows = c->conv && c->channel == 1;
  d->lanes = 1;
  while (d->lanes < MOST_LANES && sums * (double)d->lanes < PLENTY &&
         c->depth / (2 * d->lanes) >= FEW_TERMS && d->threads / (2 * d->lanes) >= 16)
    d->lanes *= 2;
  d->places = d->threads / d->lanes;
}

static bool open_threads(Direct *d) {
  Elem *e = &d->s.e;
  IntPool *p = e->pool;
  const Contraction *c = &d->s.c;
  d->t = group_threads(e);
  d->depth = 1;
  Dim places = num(d, d->places), in_group = ie_mod(p, d->t, places);
  d->lane = ie_div(p, d->t, places);
  Dim first = ie_mulc(p, d->by_rows ? d->block : d->s.t.panel, d->places);
  Dim at = group_inside(e, ie_add(p, first, in_group), d->by_rows ? c->m : c->n, &d->depth);
  d->row = d->by_rows ? at : d->block;
  d->col = d->by_rows ? d->s.t.panel : at;
  return true;
}

// The thread's part of the sum, in its register.
static bool form_sum(Direct *d) {
  GroupSums *s = &d->s;
  Elem *e = &s->e;
  IntPool *p = e->pool;
  loop_store(&e->b, d->acc, d->t, group_sums_zero(s));
  Dim j = loop_for(&e->b, LOOP_SERIAL, "k", group_rounds(e, s->k, d->lane, d->lanes));
  Dim k = ie_add(p, ie_mulc(p, j, d->lanes), d->lane);
  elem_forget(e);
  const LoopExpr *a = group_sums_lhs(s, d->row, d->col, k, e->nguards);
  Dim in_panel = d->by_rows ? p->zero : ie_sub(p, d->col, ie_mulc(p, s->t.panel, d->places));
  const LoopExpr *b = group_sums_rhs(s, d->row, in_panel, k, e->nguards);
  if (!a || !b) return false;
  loop_store(&e->b, d->acc, d->t, group_sums_add(s, a, b, loop_load(e->k, d->acc, d->t)));
  loop_end(&e->b);
  return true;
}

static bool finish_sums(Direct *d) {
  GroupSums *s = &d->s;
  Elem *e = &s->e;
  IntPool *p = e->pool;
  const LoopExpr *sum = loop_load(e->k, d->acc, d->t);
  if (d->lanes > 1) {
    loop_store(&e->b, d->part, d->t, sum);
    group_close(e, d->depth);
    open_threads(d);
    Dim lane = group_inside(e, d->lane, p->one, &d->depth);
    Dim q = loop_reduce(&e->b, LOOP_add, "q", num(d, d->lanes), 1);
    Dim in_group = ie_mod(p, d->t, num(d, d->places));
    Dim from = ie_add(p, ie_mulc(p, q, d->places), in_group);
    sum = loop_yield(&e->b, loop_load(e->k, d->part, from));
    if (d->by_rows)
      d->row = ie_add(p, d->row, lane);
    else
      d->col = ie_add(p, d->col, lane);
  }
  if (!group_sums_finish(s, d->row, d->col, sum)) return false;
  group_close(e, d->depth);
  return true;
}

tenon_status lower_group_direct(Lowering *lo, const Node *fused, Lowered *out) {
  Direct *d = arena_new(lo->arena, Direct);
  GroupSums *s = &d->s;
  d->threads = lo->target.group;
  if (!group_sums_begin(s, lo, fused)) return TENON_EUNSUPPORTED;
  choose(d, lo->target.batch_invariant);
  s->t.s.rows = d->by_rows ? d->places : 1;
  s->t.s.nr = d->by_rows ? 1 : d->places;
  if (!group_sums_open(s, &d->block)) return TENON_EUNSUPPORTED;
  LoopKernel *k = s->e.k;
  d->acc = loop_buffer(k, LOOP_REGISTER, "acc", s->c.acc, num(d, d->threads), false);
  if (d->lanes > 1)
    d->part = loop_buffer(k, LOOP_SHARED, "part", s->c.acc, num(d, d->threads), false);
  open_threads(d);
  if (!form_sum(d) || !finish_sums(d)) return TENON_EUNSUPPORTED;
  loop_end(&s->e.b);
  elem_finish(&s->e, str_printf(lo->arena, "group direct %dx%d", (int)d->places, (int)d->lanes),
              out);
  return TENON_OK;
}
