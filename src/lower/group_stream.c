// group_stream.c -- products of a few rows with constant weights on groups of threads: the time is that of reading the weights once.
//
// Weights are packed in panels of as many columns as 16 bytes hold, [panel][k][column], so that a group reads its panel from end to end.  A work item is a panel; each
// of L threads has every L-th place of the contracted axis, several of them at once and the next ones under way, and the sums of all rows in its
// registers.  Then the L parts of each sum are added, in two steps.  Lanes, places and steps depend on the weights' shape alone, so the bits of a row do not
// depend on how many there are.
#include "lower/group_contract.h"

typedef struct Stream {
  GroupSums s;
  int64_t cols, lanes;  // of a panel; threads that share a sum
  int64_t rows, at_once;
  int64_t few;  // parts of a sum after the first step, one thread each
  int32_t acc, part, less;
  Dim t, lane;  // where the thread stands
} Stream;

enum { MOST_ROWS = 8, BYTES = 16, FEWEST_TERMS = 256, LEAST_COLS = 64, MOST_FEW = 16 };
enum { MOST_AT_ONCE = 5, UNDER_WAY = 2 };  // places of a round; rounds

static Dim num(Stream *g, int64_t v) { return ie_const(g->s.e.pool, v); }
static Dim add(Stream *g, Dim a, Dim b) { return ie_add(g->s.e.pool, a, b); }
static Dim mul(Stream *g, Dim a, int64_t b) { return ie_mulc(g->s.e.pool, a, b); }

// ---- the choice ----

static bool wants(const Stream *g) {
  const Contraction *c = &g->s.c;
  if (!c->weight || !ie_is_const(c->m) || c->m->value > MOST_ROWS || c->m->value < 1) return false;
  DType t = type_of(c->rhs)->dtype;
  return (t == DT_F32 || t == DT_F16 || t == DT_BF16) && c->acc == DT_F32 && !c->depthwise &&
         !c->transposed && c->depth >= FEWEST_TERMS && ie_is_const(c->n) &&
         c->n->value >= LEAST_COLS;
}

static void choose(Stream *g, const LowerTarget *t) {
  const Contraction *c = &g->s.c;
  g->cols = BYTES / elem_bytes(type_of(c->rhs)->dtype);
  g->rows = c->m->value;
  g->lanes = t->group;
  while (g->lanes > 32 && c->depth % g->lanes) g->lanes /= 2;
  g->few = MIN(MOST_FEW, t->group / g->cols);
  g->at_once = MOST_AT_ONCE;
  while (c->depth / g->lanes % g->at_once) g->at_once--;
}

// ---- the loops ----

// A thread loop; threads beyond those that are needed do nothing in it.
static void open_threads(Stream *g, int *depth) {
  Elem *e = &g->s.e;
  g->t = group_threads(e);
  *depth = 1;
  g->lane = group_inside(e, g->t, num(g, g->lanes), depth);
}

static Dim cell(Stream *g, int64_t row, Dim v) {
  return add(g, mul(g, g->t, g->rows * g->cols), ie_addc(g->s.e.pool, v, row * g->cols));
}

// One place of the contracted axis: an element of each row meets the thread's columns.
static bool add_place(Stream *g, Dim k) {
  GroupSums *s = &g->s;
  Elem *e = &s->e;
  const LoopExpr *x[MOST_ROWS];
  elem_forget(e);
  for (int64_t r = 0; r < g->rows; r++) {
    if (!(x[r] = group_sums_lhs(s, num(g, r), e->pool->zero, k, e->nguards))) return false;
    x[r] = loop_let(&e->b, x[r]);
  }
  Dim v = loop_for(&e->b, LOOP_UNROLL, "v", num(g, g->cols));
  const LoopExpr *w = group_sums_rhs(s, e->pool->zero, v, k, e->nguards);
  if (!w) return false;
  w = loop_let(&e->b, w);
  for (int64_t r = 0; r < g->rows; r++) {
    Dim at = cell(g, r, v);
    loop_store(&e->b, g->acc, at, group_sums_add(s, x[r], w, loop_load(e->k, g->acc, at)));
  }
  loop_end(&e->b);
  return true;
}

static bool form_sums(Stream *g) {
  GroupSums *s = &g->s;
  Elem *e = &s->e;
  int depth;
  open_threads(g, &depth);
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(g, g->rows * g->cols));
  loop_store(&e->b, g->acc, add(g, mul(g, g->t, g->rows * g->cols), i), group_sums_zero(s));
  loop_end(&e->b);
  int64_t rounds = s->c.depth / g->lanes / g->at_once;
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", num(g, rounds));
  loop_at_once(&e->b, UNDER_WAY);
  Dim u = loop_for(&e->b, LOOP_UNROLL, "u", num(g, g->at_once));
  Dim k = add(g, mul(g, add(g, mul(g, j, g->at_once), u), g->lanes), g->lane);
  if (!add_place(g, k)) return false;
  group_close(e, depth + 2);
  return true;
}

// The parts of a row's sums, one lane after the other; a few of each sum, one after the other; the sums.
static bool join_sums(Stream *g, int64_t row) {
  GroupSums *s = &g->s;
  Elem *e = &s->e;
  IntPool *p = e->pool;
  int depth;
  open_threads(g, &depth);
  Dim v = loop_for(&e->b, LOOP_UNROLL, "v", num(g, g->cols));
  Dim to = add(g, mul(g, g->lane, g->cols), v);
  loop_store(&e->b, g->part, to, loop_load(e->k, g->acc, cell(g, row, v)));
  group_close(e, depth + 1);
  depth = 1;
  Dim at = group_inside(e, group_threads(e), num(g, g->few * g->cols), &depth);
  Dim q = loop_reduce(&e->b, LOOP_add, "q", num(g, g->lanes / g->few), 1);
  Dim from = add(g, mul(g, q, g->few * g->cols), at);
  loop_store(&e->b, g->less, at, loop_yield(&e->b, loop_load(e->k, g->part, from)));
  group_close(e, depth);
  depth = 1;
  Dim in_panel = group_inside(e, group_threads(e), num(g, g->cols), &depth);
  q = loop_reduce(&e->b, LOOP_add, "q", num(g, g->few), 1);
  from = add(g, mul(g, q, g->cols), in_panel);
  const LoopExpr *sum = loop_yield(&e->b, loop_load(e->k, g->less, from));
  Dim col = add(g, mul(g, s->t.panel, g->cols), in_panel);
  if (!group_sums_finish(s, ie_const(p, row), col, sum)) return false;
  group_close(e, depth);
  return true;
}

tenon_status lower_group_stream(Lowering *lo, const Node *fused, Lowered *out) {
  Stream *g = arena_new(lo->arena, Stream);
  GroupSums *s = &g->s;
  Dim block;
  if (lo->target.units < 2 || lo->target.batch_invariant || !group_sums_begin(s, lo, fused) ||
      !wants(g))
    return TENON_EUNSUPPORTED;
  choose(g, &lo->target);
  s->t.s.rows = g->rows;
  s->t.s.nr = g->cols;
  int64_t bytes = (g->lanes + g->few) * g->cols * (int64_t)sizeof(float);
  if (g->lanes < 32 || s->c.depth % g->lanes || g->lanes % g->few || s->c.n->value % g->cols ||
      bytes > lo->target.shared_bytes || !group_sums_open(s, &block))
    return TENON_EUNSUPPORTED;
  LoopKernel *k = s->e.k;
  int64_t all = lo->target.group;
  g->acc = loop_buffer(k, LOOP_REGISTER, "acc", DT_F32, num(g, all * g->rows * g->cols), false);
  g->part = loop_buffer(k, LOOP_SHARED, "part", DT_F32, num(g, g->lanes * g->cols), false);
  g->less = loop_buffer(k, LOOP_SHARED, "less", DT_F32, num(g, g->few * g->cols), false);
  if (!form_sums(g)) return TENON_EUNSUPPORTED;
  for (int64_t r = 0; r < g->rows; r++)
    if (!join_sums(g, r)) return TENON_EUNSUPPORTED;
  loop_end(&s->e.b);
  elem_finish(&s->e,
              str_printf(lo->arena, "group stream %dx%d lanes %d at once %d", (int)g->rows,
                         (int)g->cols, (int)g->lanes, (int)g->at_once),
              out);
  return TENON_OK;
}
