// gemv.c -- template gemv: GEMV and skinny GEMM, bound by reading the weights once.
//
// Weights are packed as [panel][k][column] with 16 bytes of columns, so a thread block reads its
// panel contiguously.  A work item is a panel.  Each of `lanes` threads takes every lanes-th K
// step, `unroll` of them at a time with `stages` in flight, and holds the sums of all rows in
// registers.  The partial sums are then added in two steps through shared memory.
//
// Needs:      LowerTarget.block_threads and shared_bytes; at most 8 rows, a constant number;
//             constant f32, f16 or bf16 weights; constant K and columns.  No depthwise or
//             transposed convolution.
// Guarantees: lanes and parts depend on the weights' shape and the target, so a row has the same
//             bits for 1 to 8 rows.  Declines short K, few columns and batch_invariant targets,
//             where other templates are as fast or needed.
#include "lower/gpu/gemm_simt.h"

// A thread adds its places in order; how many threads share a sum, and in how many parts these are
// added up, says the order.
#define GEMV_SCHEDULE(I, B, C, T)                                                                  \
  I(T, cols, 0, 1, 16, 0, FREE, "columns of a work item, and of a panel of packed weights")        \
  I(T, lanes, 0, 1, 1024, 0, ORDER, "threads that share a sum")                                    \
  I(T, parts, 0, 1, 64, 0, ORDER, "partial sums that the first of two reduction steps leaves")     \
  I(T, unroll, 0, 1, 16, 1, FREE, "unrolled K steps of a thread, whose loads are issued together") \
  I(T, stages, 0, 2, 8, 1, FREE, "groups of unrolled K steps in flight")
SCHEDULE_STRUCT(Gemv, GEMV_SCHEDULE);
SCHEDULE_TABLE(Gemv, GEMV_SCHEDULE);

typedef struct Stream {
  SimtGemm s;
  int64_t cols, lanes;  // of a panel; threads that share a sum
  int64_t rows, unroll, stages;
  int64_t parts;  // partial sums after the first step, one thread each
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
         !c->transposed && c->depth > 0 && ie_is_const(c->n);
}

static bool gemv_legal(const void *match, const LowerTarget *t, const void *fields,
                       const char **why) {
  const Contraction *c = &((const Stream *)match)->s.c;
  const GemvSchedule *s = fields;
  int64_t bytes = (s->lanes + s->parts) * s->cols * (int64_t)sizeof(float);
  *why = s->lanes > t->block_threads             ? "lanes is above the threads of a block"
         : c->depth % s->lanes                   ? "lanes does not divide K"
         : c->depth / s->lanes % s->unroll       ? "unroll does not divide a thread's K steps"
         : s->lanes % s->parts                   ? "parts does not divide lanes"
         : s->parts * s->cols > t->block_threads ? "parts of all columns need more threads"
         : c->n->value % s->cols                 ? "cols does not divide the columns"
         : bytes > t->shared_bytes               ? "its sums do not fit in shared memory"
                                                 : NULL;
  return !*why;
}

static bool gemv_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                        void *fields) {
  const Contraction *c = &((const Stream *)match)->s.c;
  GemvSchedule *s = fields;
  const char *why;
  bool skip = t->traits.sm_count < 2 || t->batch_invariant || c->depth < FEWEST_TERMS ||
              c->n->value < LEAST_COLS;  // others are as fast
  if (skip && !given->t) return false;
  *s = (GemvSchedule){.cols = BYTES / elem_bytes(type_of(c->rhs)->dtype), .stages = UNDER_WAY};
  s->lanes = t->block_threads;
  while (s->lanes > 32 && c->depth % s->lanes) s->lanes /= 2;
  schedule_keep(given, s);
  s->parts = MIN(MOST_FEW, t->block_threads / s->cols);
  s->unroll = MOST_AT_ONCE;
  while (s->unroll > 1 && c->depth / s->lanes % s->unroll) s->unroll--;
  return given->t || (s->lanes >= 32 && gemv_legal(match, t, s, &why));
}

// ---- the loops ----

// A thread loop; threads beyond those that are needed do nothing in it.
static void open_threads(Stream *g, int *depth) {
  ElementBuilder *e = &g->s.e;
  g->t = thread_loop(e);
  *depth = 1;
  g->lane = thread_guard(e, g->t, num(g, g->lanes), depth);
}

static Dim cell(Stream *g, int64_t row, Dim v) {
  return add(g, mul(g, g->t, g->rows * g->cols), ie_addc(g->s.e.pool, v, row * g->cols));
}

// One place of the contracted axis: an element of each row meets the thread's columns.
static bool add_place(Stream *g, Dim k) {
  SimtGemm *s = &g->s;
  ElementBuilder *e = &s->e;
  const LoopExpr *x[MOST_ROWS];
  elem_forget(e);
  for (int64_t r = 0; r < g->rows; r++) {
    if (!(x[r] = simt_gemm_lhs(s, num(g, r), e->pool->zero, k, e->nguards))) return false;
    x[r] = loop_let(&e->b, x[r]);
  }
  Dim v = loop_for(&e->b, LOOP_UNROLL, "v", num(g, g->cols));
  const LoopExpr *w = simt_gemm_rhs(s, e->pool->zero, v, k, e->nguards);
  if (!w) return false;
  w = loop_let(&e->b, w);
  for (int64_t r = 0; r < g->rows; r++) {
    Dim at = cell(g, r, v);
    loop_store(&e->b, g->acc, at, simt_gemm_add(s, x[r], w, loop_load(e->k, g->acc, at)));
  }
  loop_end(&e->b);
  return true;
}

static bool form_sums(Stream *g) {
  SimtGemm *s = &g->s;
  ElementBuilder *e = &s->e;
  int depth;
  open_threads(g, &depth);
  Dim i = loop_for(&e->b, LOOP_UNROLL, "i", num(g, g->rows * g->cols));
  loop_store(&e->b, g->acc, add(g, mul(g, g->t, g->rows * g->cols), i), simt_gemm_zero(s));
  loop_end(&e->b);
  int64_t rounds = s->c.depth / g->lanes / g->unroll;
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", num(g, rounds));
  loop_rounds_in_flight(&e->b, (int)g->stages);
  Dim u = loop_for(&e->b, LOOP_UNROLL, "u", num(g, g->unroll));
  Dim k = add(g, mul(g, add(g, mul(g, j, g->unroll), u), g->lanes), g->lane);
  if (!add_place(g, k)) return false;
  thread_close(e, depth + 2);
  return true;
}

// The parts of a row's sums, one lane after the other; a few of each sum, one after the other; the
// sums.
static bool join_sums(Stream *g, int64_t row) {
  SimtGemm *s = &g->s;
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  int depth;
  open_threads(g, &depth);
  Dim v = loop_for(&e->b, LOOP_UNROLL, "v", num(g, g->cols));
  Dim to = add(g, mul(g, g->lane, g->cols), v);
  loop_store(&e->b, g->part, to, loop_load(e->k, g->acc, cell(g, row, v)));
  thread_close(e, depth + 1);
  depth = 1;
  Dim at = thread_guard(e, thread_loop(e), num(g, g->parts * g->cols), &depth);
  Dim q = loop_reduce(&e->b, LOOP_add, "q", num(g, g->lanes / g->parts), 1);
  Dim from = add(g, mul(g, q, g->parts * g->cols), at);
  loop_store(&e->b, g->less, at, loop_yield(&e->b, loop_load(e->k, g->part, from)));
  thread_close(e, depth);
  depth = 1;
  Dim in_panel = thread_guard(e, thread_loop(e), num(g, g->cols), &depth);
  q = loop_reduce(&e->b, LOOP_add, "q", num(g, g->parts), 1);
  from = add(g, mul(g, q, g->cols), in_panel);
  const LoopExpr *sum = loop_yield(&e->b, loop_load(e->k, g->less, from));
  Dim col = add(g, mul(g, s->t.panel, g->cols), in_panel);
  if (!simt_gemm_epilogue(s, ie_const(p, row), col, sum)) return false;
  thread_close(e, depth);
  return true;
}

static void *gemv_match(Lowering *lo, const Node *fused) {
  Stream *g = arena_new(lo->arena, Stream);
  lo->why = "it is not a float GEMM of at most 8 rows by constant weights";
  return simt_gemm_begin(&g->s, lo, fused) && wants(g) ? g : NULL;
}

static bool gemv_build(void *match, const void *fields, Lowered *out) {
  Stream *g = match;
  SimtGemm *s = &g->s;
  const GemvSchedule *from = fields;
  Dim block;
  g->cols = from->cols;
  g->lanes = from->lanes;
  g->parts = from->parts;
  g->unroll = from->unroll;
  g->stages = from->stages;
  g->rows = s->c.m->value;
  s->t.s.item_rows = g->rows;
  s->t.s.cols = g->cols;
  if (!simt_gemm_open(s, &block)) return false;
  LoopKernel *k = s->e.k;
  int64_t all = s->e.lo->target.block_threads;
  g->acc = loop_buffer(k, LOOP_REGISTER, "acc", DT_F32, num(g, all * g->rows * g->cols), false);
  g->part = loop_buffer(k, LOOP_SHARED, "part", DT_F32, num(g, g->lanes * g->cols), false);
  g->less = loop_buffer(k, LOOP_SHARED, "less", DT_F32, num(g, g->parts * g->cols), false);
  if (!form_sums(g)) return false;
  for (int64_t r = 0; r < g->rows; r++)
    if (!join_sums(g, r)) return false;
  loop_end(&s->e.b);
  elem_finish(&s->e, out);
  return true;
}

const TemplateCode template_gemv = {.match = gemv_match,
                                    .choose = gemv_choose,
                                    .legal = gemv_legal,
                                    .build = gemv_build,
                                    SCHEDULE(Gemv)};
