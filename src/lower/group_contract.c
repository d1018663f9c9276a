// group_contract.c -- contractions on groups of threads: tiles of both operands in shared memory, a tile of sums in each thread's registers.
//
// A work item is a tile of rows x columns.  Along the contracted places it goes in steps: all threads copy the step's elements of lhs and
// rhs into shared memory, computed on the way where they are not plain; then each adds the products of its rows and columns.  A
// thread's rows and columns lie as far apart as there are threads along them, so that neighbours read and write neighbouring columns.
// Which of lhs is read together, contracted places or rows, says how threads share its copying.
#include "lower/group_contract.h"

#include <math.h>

// How a tile is done; printed as the kernel's name.
typedef struct TilePlan {
  int64_t across, down;    // threads along the columns and the rows
  int64_t each_m, each_n;  // rows and columns of a thread
  int64_t m, n, k;         // of the tile, and contracted places of a step
  int64_t pitch;           // from one row of lhs to the next in shared memory
} TilePlan;

typedef struct Tiles {
  GroupSums s;
  TilePlan p;
  int64_t threads;
  int32_t acc, lhs, rhs;  // registers, shared
  Dim row, col;           // of the tile
} Tiles;

enum { STEP = 16, ENOUGH = 128, MOST = 8 };

static Dim num(Tiles *t, int64_t v) { return ie_const(t->s.e.pool, v); }
static Dim add(Tiles *t, Dim a, Dim b) { return ie_add(t->s.e.pool, a, b); }
static Dim mul(Tiles *t, Dim a, int64_t by) { return ie_mulc(t->s.e.pool, a, by); }

// ---- the plan ----

static int64_t size_of(Dim d, int64_t otherwise) {
  return ie_is_const(d) ? d->value : MIN(otherwise, MAX(d->hi, 1));
}

// How long it would take, in no unit: products of whole tiles, by how many of them an element read from shared memory gives, and
// by how many groups there are to do them.
static double cost_of(const Tiles *t, int64_t m, int64_t n) {
  const TilePlan *p = &t->p;
  double rows = ceil((double)size_of(t->s.c.m, 512) / (double)m),
         columns = ceil((double)size_of(t->s.c.n, 512) / (double)n), items = rows * columns;
  for (int i = 0; i < t->s.c.nout; i++) {
    bool other = (i < t->s.c.row0 || i >= t->s.c.row1) && (i < t->s.c.col0 || i >= t->s.c.col1);
    if (other) items *= (double)size_of(t->s.c.out[i], 1);
  }
  items *= (double)t->s.c.groups;
  double a = (double)m / (double)p->down, b = (double)n / (double)p->across;
  double each = items * (double)(m * n) * (1 + 2 * (a + b) / (a * b));
  return items < ENOUGH ? each * ENOUGH / items : each;
}

static int64_t shared_bytes(const Tiles *t, int64_t m, int64_t n) {
  return (m * t->p.pitch + STEP * n) * elem_bytes(t->s.c.acc);
}

static bool plan(Tiles *t, const LowerTarget *target) {
  TilePlan *p = &t->p;
  double best = (double)INFINITY;
  p->across = 1;
  while (p->across * p->across < t->threads) p->across *= 2;
  p->down = t->threads / p->across;
  p->k = STEP;
  for (int64_t a = MOST; a >= 1; a /= 2)
    for (int64_t b = MOST; b >= 1; b /= 2) {
      int64_t m = a * p->down, n = b * p->across;
      if (m > t->threads || n > t->threads || m * STEP % t->threads || n * STEP % t->threads)
        continue;
      p->pitch = STEP + MAX(t->threads / m, 4);
      double cost = cost_of(t, m, n);
      if (cost >= best || shared_bytes(t, m, n) > target->shared_bytes) continue;
      best = cost;
      p->m = m, p->n = n, p->each_m = a, p->each_n = b;
    }
  if (!p->m) return false;
  p->pitch = STEP + MAX(t->threads / p->m, 4);
  return true;
}

// ---- the loops ----

static Dim cell(Tiles *t, Dim thread, Dim i, Dim j) {
  Dim at = mul(t, thread, t->p.each_m * t->p.each_n);
  return add(t, add(t, at, mul(t, i, t->p.each_n)), j);
}

static void begin_sums(Tiles *t) {
  Elem *e = &t->s.e;
  Dim thread = group_threads(e);
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(t, t->p.each_m));
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, t->p.each_n));
  loop_store(&e->b, t->acc, cell(t, thread, i, j), group_sums_zero(&t->s));
  group_close(e, 3);
}

// One element of lhs.  What is more than a load is left out where it lies outside, and its place filled with 0 before.
static bool copy_lhs(Tiles *t, Dim m, Dim kk, Dim k) {
  GroupSums *s = &t->s;
  Elem *e = &s->e;
  Dim row = add(t, t->row, m), to = add(t, mul(t, m, t->p.pitch), kk);
  int since = e->nguards, depth = 0;
  if (s->p.lhs_plain) {
    row = elem_guard(e, row, s->c.m);
    k = elem_guard(e, k, s->k);
  } else {
    loop_store(&e->b, t->lhs, to, group_sums_zero(s));
    row = group_inside(e, row, s->c.m, &depth);
    k = group_inside(e, k, s->k, &depth);
  }
  if (!row || !k) return false;
  elem_forget(e);
  const LoopExpr *x = group_sums_lhs(s, row, e->pool->zero, k, since);
  elem_unguard(e, since);
  if (!x) return false;
  loop_store(&e->b, t->lhs, to, x);
  group_close(e, depth);
  return true;
}

static bool copy_rhs(Tiles *t, Dim n, Dim to, Dim k) {
  GroupSums *s = &t->s;
  Elem *e = &s->e;
  int since = e->nguards;
  k = elem_guard(e, k, s->k);
  if (!k) return false;
  elem_forget(e);
  const LoopExpr *x = group_sums_rhs(s, e->pool->zero, n, k, since);
  elem_unguard(e, since);
  if (!x) return false;
  loop_store(&e->b, t->rhs, to, x);
  return true;
}

// All threads copy a step of both operands.
static bool copy_step(Tiles *t, Dim first) {
  Elem *e = &t->s.e;
  IntPool *p = e->pool;
  const TilePlan *tp = &t->p;
  Dim thread = group_threads(e);
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, tp->m * tp->k / t->threads));
  bool along = t->s.p.lhs_along_k;
  int64_t inner = along ? tp->k : tp->m;
  Dim low = ie_mod(p, thread, num(t, inner));
  Dim high = add(t, ie_div(p, thread, num(t, inner)), mul(t, j, t->threads / inner));
  Dim m = along ? high : low, kk = along ? low : high;
  if (!copy_lhs(t, m, kk, add(t, first, kk))) return false;
  loop_end(&e->b);
  j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, tp->n * tp->k / t->threads));
  Dim n = ie_mod(p, thread, num(t, tp->n));
  kk = add(t, ie_div(p, thread, num(t, tp->n)), mul(t, j, t->threads / tp->n));
  if (!copy_rhs(t, n, add(t, thread, mul(t, j, t->threads)), add(t, first, kk))) return false;
  group_close(e, 2);
  return true;
}

static void multiply_step(Tiles *t) {
  Elem *e = &t->s.e;
  IntPool *p = e->pool;
  Dim thread = group_threads(e), across = num(t, t->p.across);
  Dim kk = loop_for(&e->b, LOOP_UNROLL, "k", num(t, t->p.k));
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(t, t->p.each_m));
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, t->p.each_n));
  Dim m = add(t, ie_div(p, thread, across), mul(t, i, t->p.down));
  Dim n = add(t, ie_mod(p, thread, across), mul(t, j, t->p.across));
  const LoopExpr *a = loop_load(e->k, t->lhs, add(t, mul(t, m, t->p.pitch), kk));
  const LoopExpr *b = loop_load(e->k, t->rhs, add(t, mul(t, kk, t->p.n), n));
  Dim at = cell(t, thread, i, j);
  loop_store(&e->b, t->acc, at, group_sums_add(&t->s, a, b, loop_load(e->k, t->acc, at)));
  group_close(e, 4);
}

static bool finish_tile(Tiles *t) {
  Elem *e = &t->s.e;
  IntPool *p = e->pool;
  Dim thread = group_threads(e), across = num(t, t->p.across);
  int depth = 3;
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(t, t->p.each_m));
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, t->p.each_n));
  Dim m = add(t, ie_div(p, thread, across), mul(t, i, t->p.down));
  Dim n = add(t, ie_mod(p, thread, across), mul(t, j, t->p.across));
  Dim row = group_inside(e, add(t, t->row, m), t->s.c.m, &depth);
  Dim col = group_inside(e, add(t, t->col, n), t->s.c.n, &depth);
  if (!group_sums_finish(&t->s, row, col, loop_load(e->k, t->acc, cell(t, thread, i, j))))
    return false;
  group_close(e, depth);
  return true;
}

static bool build_tiles(Tiles *t) {
  Elem *e = &t->s.e;
  DType d = t->s.c.acc;
  Dim block;
  t->s.t.s.rows = t->p.m;
  t->s.t.s.nr = t->p.n;
  if (!group_sums_open(&t->s, &block)) return false;
  t->acc = loop_buffer(e->k, LOOP_REGISTER, "acc", d, num(t, t->p.m * t->p.n), false);
  t->lhs = loop_buffer(e->k, LOOP_SHARED, "lhs", d, num(t, t->p.m * t->p.pitch), false);
  t->rhs = loop_buffer(e->k, LOOP_SHARED, "rhs", d, num(t, t->p.k * t->p.n), false);
  t->row = mul(t, block, t->p.m);
  t->col = mul(t, t->s.t.panel, t->p.n);
  begin_sums(t);
  Dim steps = ie_ceildiv(e->pool, t->s.k, num(t, t->p.k));
  Dim step = loop_for(&e->b, LOOP_SERIAL, "s", steps);
  if (!copy_step(t, mul(t, step, t->p.k))) return false;
  multiply_step(t);
  loop_end(&e->b);
  if (!finish_tile(t)) return false;
  loop_end(&e->b);
  return true;
}

tenon_status lower_group_contract(Lowering *lo, const Node *fused, Lowered *out) {
  Tiles *t = arena_new(lo->arena, Tiles);
  t->threads = lo->target.group;
  if (!group_sums_begin(&t->s, lo, fused)) return TENON_EUNSUPPORTED;
  const Contraction *c = &t->s.c;
  bool thin =
      !lo->target.batch_invariant && (size_of(c->m, MOST) < MOST || size_of(c->n, MOST) < MOST);
  if (c->depthwise || thin || !plan(t, &lo->target) || !build_tiles(t)) return TENON_EUNSUPPORTED;
  const TilePlan *p = &t->p;
  elem_finish(&t->s.e,
              str_printf(lo->arena, "group contraction %dx%dx%d each %dx%d", (int)p->m, (int)p->n,
                         (int)p->k, (int)p->each_m, (int)p->each_n),
              out);
  return TENON_OK;
}
