// gemm_simt.c -- template gemm_simt: GEMM and convolution tiled in shared memory and registers.
//
// A work item is a tile of rows x columns.  For each step of K all threads copy the elements of lhs
// and rhs to shared memory and evaluate the prologue on the way.  Then each thread multiplies its
// rows and columns.  These are strided by the number of threads, so adjacent threads access
// adjacent columns.  Threads copy lhs along K or along the rows, whichever is contiguous.
//
// Needs:      LowerTarget.block_threads and shared_bytes; a contraction that is not depthwise, with
//             at least 8 rows and columns.  Rows and image sizes may be dynamic.
// Guarantees: products are added in the order of K.  A partial last step adds products of zeros, so
//             k_step is ORDER; all other fields are FREE.  The rest is left to gemm_naive.
#include "lower/gpu/gemm_simt.h"

#include <math.h>

// A sum's products are added in order.  A last step that is not whole adds products of zeros, so
// the length of a step is not free.
#define GEMM_SIMT_SCHEDULE(I, B, C, T)                                                             \
  I(T, rows, 0, 1, 16, 0, FREE, "rows per thread")                                                 \
  I(T, cols, 0, 1, 16, 0, FREE, "columns per thread")                                              \
  I(T, across, 0, 1, 1024, 0, FREE, "threads along the columns")                                   \
  I(T, k_step, 16, 4, 64, 0, ORDER, "K steps in shared memory at a time")
SCHEDULE_STRUCT(GemmSimt, GEMM_SIMT_SCHEDULE);
SCHEDULE_TABLE(GemmSimt, GEMM_SIMT_SCHEDULE);

// What follows from it.
typedef struct TilePlan {
  int64_t across, down;    // threads along the columns and the rows
  int64_t each_m, each_n;  // rows and columns of a thread
  int64_t m, n, k;         // of the tile, and contracted places of a step
  int64_t pitch;           // from one row of lhs to the next in shared memory
} TilePlan;

typedef struct Tiles {
  SimtGemm s;
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

// How long it would take, in no unit: products of whole tiles, by how many of them an element read
// from shared memory gives, and by how many groups there are to do them.
static double cost_of(const Tiles *t, const TilePlan *p) {
  int64_t m = p->m, n = p->n;
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

static TilePlan plan_of(const GemmSimtSchedule *s, int64_t threads) {
  TilePlan p = {.across = s->across, .each_m = s->rows, .each_n = s->cols, .k = s->k_step};
  p.down = MAX(threads / p.across, 1);
  p.m = p.each_m * p.down;
  p.n = p.each_n * p.across;
  p.pitch = p.k + MAX(threads / p.m, 4);
  return p;
}

// All threads copy as many elements of each operand.
static bool divides_evenly(const TilePlan *p, int64_t threads) {
  return p->m <= threads && p->n <= threads && p->k <= threads && p->m * p->k % threads == 0 &&
         p->n * p->k % threads == 0 && p->across <= threads;
}

static int64_t shared_bytes(const Tiles *t, const TilePlan *p) {
  return (p->m * p->pitch + p->k * p->n) * elem_bytes(t->s.c.acc);
}

static bool gemm_simt_choose(void *match, const LowerTarget *target, const ScheduleGiven *given,
                             void *fields) {
  Tiles *t = match;
  const Contraction *c = &t->s.c;
  GemmSimtSchedule s = {.across = 1, .k_step = STEP};
  double best = (double)INFINITY;
  bool thin =
      !target->batch_invariant && (size_of(c->m, MOST) < MOST || size_of(c->n, MOST) < MOST);
  if (thin && !given->t) return false;
  while (s.across * s.across < t->threads) s.across *= 2;
  schedule_keep(given, &s);
  for (s.rows = MOST; s.rows >= 1; s.rows /= 2)
    for (s.cols = MOST; s.cols >= 1; s.cols /= 2) {
      TilePlan p = plan_of(&s, t->threads);
      if (!divides_evenly(&p, t->threads)) continue;
      double cost = cost_of(t, &p);
      if (cost >= best || shared_bytes(t, &p) > target->shared_bytes) continue;
      best = cost;
      *(GemmSimtSchedule *)fields = s;
    }
  return best < (double)INFINITY;
}

static bool gemm_simt_legal(const void *match, const LowerTarget *target, const void *fields,
                            const char **why) {
  const Tiles *t = match;
  TilePlan p = plan_of(fields, t->threads);
  *why = !divides_evenly(&p, t->threads) ? "the threads do not divide the elements of a step evenly"
         : shared_bytes(t, &p) > target->shared_bytes ? "its tiles do not fit in shared memory"
                                                      : NULL;
  return !*why;
}

// ---- the loops ----

static Dim cell(Tiles *t, Dim thread, Dim i, Dim j) {
  Dim at = mul(t, thread, t->p.each_m * t->p.each_n);
  return add(t, add(t, at, mul(t, i, t->p.each_n)), j);
}

static void begin_sums(Tiles *t) {
  ElementBuilder *e = &t->s.e;
  Dim thread = thread_loop(e);
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(t, t->p.each_m));
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, t->p.each_n));
  loop_store(&e->b, t->acc, cell(t, thread, i, j), simt_gemm_zero(&t->s));
  thread_close(e, 3);
}

// One element of lhs.  What is more than a load is left out where it is outside, and its place
// filled with 0 before.
static bool copy_lhs(Tiles *t, Dim m, Dim kk, Dim k) {
  SimtGemm *s = &t->s;
  ElementBuilder *e = &s->e;
  Dim row = add(t, t->row, m), to = add(t, mul(t, m, t->p.pitch), kk);
  int since = e->nguards, depth = 0;
  if (s->p.lhs_plain) {
    row = elem_guard(e, row, s->c.m);
    k = elem_guard(e, k, s->k);
  } else {
    loop_store(&e->b, t->lhs, to, simt_gemm_zero(s));
    row = thread_guard(e, row, s->c.m, &depth);
    k = thread_guard(e, k, s->k, &depth);
  }
  if (!row || !k) return false;
  elem_forget(e);
  const LoopExpr *x = simt_gemm_lhs(s, row, e->pool->zero, k, since);
  elem_unguard(e, since);
  if (!x) return false;
  loop_store(&e->b, t->lhs, to, x);
  thread_close(e, depth);
  return true;
}

static bool copy_rhs(Tiles *t, Dim n, Dim to, Dim k) {
  SimtGemm *s = &t->s;
  ElementBuilder *e = &s->e;
  int since = e->nguards;
  k = elem_guard(e, k, s->k);
  if (!k) return false;
  elem_forget(e);
  const LoopExpr *x = simt_gemm_rhs(s, e->pool->zero, n, k, since);
  elem_unguard(e, since);
  if (!x) return false;
  loop_store(&e->b, t->rhs, to, x);
  return true;
}

// All threads copy a step of both operands.
static bool copy_step(Tiles *t, Dim first) {
  ElementBuilder *e = &t->s.e;
  IntPool *p = e->pool;
  const TilePlan *tp = &t->p;
  Dim thread = thread_loop(e);
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, tp->m * tp->k / t->threads));
  bool along = t->s.p.lhs_k_contiguous;
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
  thread_close(e, 2);
  return true;
}

static void multiply_step(Tiles *t) {
  ElementBuilder *e = &t->s.e;
  IntPool *p = e->pool;
  Dim thread = thread_loop(e), across = num(t, t->p.across);
  Dim kk = loop_for(&e->b, LOOP_UNROLL, "k", num(t, t->p.k));
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(t, t->p.each_m));
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, t->p.each_n));
  Dim m = add(t, ie_div(p, thread, across), mul(t, i, t->p.down));
  Dim n = add(t, ie_mod(p, thread, across), mul(t, j, t->p.across));
  const LoopExpr *a = loop_load(e->k, t->lhs, add(t, mul(t, m, t->p.pitch), kk));
  const LoopExpr *b = loop_load(e->k, t->rhs, add(t, mul(t, kk, t->p.n), n));
  Dim at = cell(t, thread, i, j);
  loop_store(&e->b, t->acc, at, simt_gemm_add(&t->s, a, b, loop_load(e->k, t->acc, at)));
  thread_close(e, 4);
}

static bool finish_tile(Tiles *t) {
  ElementBuilder *e = &t->s.e;
  IntPool *p = e->pool;
  Dim thread = thread_loop(e), across = num(t, t->p.across);
  int depth = 3;
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(t, t->p.each_m));
  Dim j = loop_for(&e->b, LOOP_UNROLL, "j", num(t, t->p.each_n));
  Dim m = add(t, ie_div(p, thread, across), mul(t, i, t->p.down));
  Dim n = add(t, ie_mod(p, thread, across), mul(t, j, t->p.across));
  Dim row = thread_guard(e, add(t, t->row, m), t->s.c.m, &depth);
  Dim col = thread_guard(e, add(t, t->col, n), t->s.c.n, &depth);
  if (!simt_gemm_epilogue(&t->s, row, col, loop_load(e->k, t->acc, cell(t, thread, i, j))))
    return false;
  thread_close(e, depth);
  return true;
}

static bool build_tiles(Tiles *t) {
  ElementBuilder *e = &t->s.e;
  DType d = t->s.c.acc;
  Dim block;
  t->s.t.s.item_rows = t->p.m;
  t->s.t.s.cols = t->p.n;
  if (!simt_gemm_open(&t->s, &block)) return false;
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

static void *gemm_simt_match(Lowering *lo, const Node *fused) {
  Tiles *t = arena_new(lo->arena, Tiles);
  t->threads = lo->target.block_threads;
  return simt_gemm_begin(&t->s, lo, fused) && !t->s.c.depthwise ? t : NULL;
}

static bool gemm_simt_build(void *match, const void *fields, Lowered *out) {
  Tiles *t = match;
  t->p = plan_of(fields, t->threads);
  if (!build_tiles(t)) return false;
  elem_finish(&t->s.e, out);
  return true;
}

const TemplateCode template_gemm_simt = {.match = gemm_simt_match,
                                         .choose = gemm_simt_choose,
                                         .legal = gemm_simt_legal,
                                         .build = gemm_simt_build,
                                         SCHEDULE(GemmSimt)};
