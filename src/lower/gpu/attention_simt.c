// attention_simt.c -- template attention_simt: attention on thread blocks without tensor cores.
//
// A thread block owns a tile of queries of one head; a query has a row of threads.  All threads
// copy a block of keys and values to shared memory.  Each thread forms the scores of some keys,
// then adds their weighted values to its columns of the result in registers (online softmax).
// Every thread of a row computes row max and row sum itself, in the same order.
//
// Needs:      LowerTarget.block_threads and shared_bytes; attention.h maps the node; one run of
//             keys (no KV cache as an operand) and no nonpad lengths.  Lengths may be dynamic.
// Guarantees: keys in ascending order; `keys` alone changes bits.  Declines where no tile of
//             queries fits shared memory.  Template attention takes the rest.
#include "lower/cpu/attention.h"
#include "lower/gpu/thread_loops.h"

#include "eval/attention.h"

#include <math.h>

typedef struct SimtAttention {
  Attention a;
  int64_t threads, lanes, keys;    // lanes: threads of a query; keys: of a block
  int64_t columns;                 // of the result, for a thread
  int64_t pitch, score_pitch;      // of queries and keys, and of scores, in shared memory
  int32_t q, k, v, score, weight;  // shared
  int32_t top, sum, rescale, acc;  // registers
  Dim t, row, lane;                // where the thread stands
} SimtAttention;

static Dim num(SimtAttention *g, int64_t v) { return ie_const(g->a.e.pool, v); }
static Dim add(SimtAttention *g, Dim a, Dim b) { return ie_add(g->a.e.pool, a, b); }
static Dim at_row(SimtAttention *g, Dim row, int64_t pitch, Dim col) {
  return add(g, ie_mulc(g->a.e.pool, row, pitch), col);
}
static const LoopExpr *op(SimtAttention *g, LoopOp o, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(g->a.e.k, o, x, y, NULL);
}
static const LoopExpr *real(SimtAttention *g, double v) { return loop_float(g->a.e.k, g->a.t, v); }
static const LoopExpr *get(SimtAttention *g, int32_t b, Dim i) { return loop_load(g->a.e.k, b, i); }
static const LoopExpr *exp_of(SimtAttention *g, const LoopExpr *x) {
  return loop_op(g->a.e.k, LOOP_exp, x, NULL, NULL);
}

static void open_threads(SimtAttention *g) {
  IntPool *p = g->a.e.pool;
  g->t = thread_loop(&g->a.e);
  g->row = ie_div(p, g->t, num(g, g->lanes));
  g->lane = ie_mod(p, g->t, num(g, g->lanes));
}

// ---- copies ----

// `rows` rows of a head into shared memory, 0 where there is none; x times a scale.
static bool copy_rows(SimtAttention *g, const Node *n, Dim head, int64_t size, Dim first, Dim count,
                      int32_t to, int64_t rows, int64_t pitch, double scale) {
  ElementBuilder *e = &g->a.e;
  IntPool *p = e->pool;
  int64_t all = rows * size, rounds = (all + g->threads - 1) / g->threads;
  int depth = 1;
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", num(g, rounds)), part[2];
  Dim at = add(g, ie_mulc(p, j, g->threads), g->t);
  at = thread_guard(e, at, num(g, all), &depth);
  elem_split(e, at, 2, (Dim[]){num(g, rows), num(g, size)}, part);
  Dim place = at_row(g, part[0], pitch, part[1]);
  if (pitch == size) place = at;
  loop_store(&e->b, to, place, real(g, 0));
  elem_forget(e);
  Dim row = thread_guard(e, add(g, first, part[0]), count, &depth);
  const LoopExpr *x = attention_head(&g->a, n, head, size, row, part[1]);
  if (!x) return false;
  loop_store(&e->b, to, place, scale == 1 ? x : op(g, LOOP_mul, x, real(g, scale)));
  thread_close(e, depth);
  elem_forget(e);
  return true;
}

static bool begin(SimtAttention *g) {
  Attention *a = &g->a;
  ElementBuilder *e = &a->e;
  open_threads(g);
  loop_store(&e->b, g->top, g->t, real(g, -INFINITY));
  loop_store(&e->b, g->sum, g->t, real(g, 0));
  Dim c = loop_for(&e->b, LOOP_UNROLL, "c", num(g, g->columns));
  loop_store(&e->b, g->acc, at_row(g, g->t, g->columns, c), real(g, 0));
  loop_end(&e->b);
  bool ok = copy_rows(g, a->anchor->src[0], a->h, a->size, a->q0, a->seq, g->q, a->queries,
                      g->pitch, a->scale);
  loop_end(&e->b);
  return ok;
}

// ---- scores ----

static const LoopExpr *mask_at(SimtAttention *g, Dim key) {
  Attention *a = &g->a;
  ElementBuilder *e = &a->e;
  const Type *m = type_of(a->mask);
  Dim query = elem_guard(e, add(g, a->q0, g->row), a->seq), at[4];
  Dim all[4] = {a->b, a->h, query, elem_guard(e, key, a->mask_keys ? a->mask_keys : a->total)};
  for (int i = 0; i < m->rank; i++)
    at[i] = ie_is(m->dims[i], 1) && i < m->rank - 1 ? e->pool->zero : all[i + 4 - m->rank];
  const LoopExpr *x = elem_at(e, a->mask, at);
  elem_unguard(e, 0);
  return x;
}

static const LoopExpr *and_also(SimtAttention *g, const LoopExpr *x, const LoopExpr *y) {
  return x ? op(g, LOOP_and, x, y) : y;
}

// Whether the thread's query sees the key; NULL: each does.
static const LoopExpr *sees(SimtAttention *g, Dim key) {
  Attention *a = &g->a;
  LoopKernel *k = a->e.k;
  IntPool *p = a->e.pool;
  int64_t right = a->at->is_causal ? 0 : a->at->right_window_size, left = a->at->left_window_size;
  Dim from = add(g, a->offset, add(g, a->q0, g->row));
  const LoopExpr *is = NULL, *at = loop_index(k, key);
  if (!ie_is_const(a->total) || a->total->value % g->keys)
    is = op(g, LOOP_lt, at, loop_index(k, a->total));
  if (right >= 0) is = and_also(g, is, op(g, LOOP_le, at, loop_index(k, ie_addc(p, from, right))));
  if (left >= 0) is = and_also(g, is, op(g, LOOP_le, loop_index(k, ie_addc(p, from, -left)), at));
  return is;
}

static const LoopExpr *masked(SimtAttention *g, const LoopExpr *x, Dim key) {
  Attention *a = &g->a;
  LoopKernel *k = a->e.k;
  const LoopExpr *off = real(g, -INFINITY);
  if (a->at->softcap > 0) {
    const LoopExpr *cap = real(g, a->at->softcap);
    x = op(g, LOOP_mul, loop_op(k, LOOP_tanh, op(g, LOOP_div, x, cap), NULL, NULL), cap);
  }
  if (a->mask) {
    const LoopExpr *m = mask_at(g, key);
    if (!m) return NULL;
    x = attention_hidden(a, x, m, key);
  }
  const LoopExpr *is = sees(g, key);
  return is ? loop_op(k, LOOP_select, is, x, off) : x;
}

static bool scores(SimtAttention *g, Dim first) {
  Attention *a = &g->a;
  ElementBuilder *e = &a->e;
  open_threads(g);
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", num(g, g->keys / g->lanes));
  Dim key = add(g, ie_mulc(e->pool, j, g->lanes), g->lane);
  Dim d = loop_reduce(&e->b, LOOP_add, "d", num(g, a->size), 1);
  const LoopExpr *x = op(g, LOOP_mul, get(g, g->q, at_row(g, g->row, g->pitch, d)),
                         get(g, g->k, at_row(g, key, g->pitch, d)));
  x = masked(g, loop_yield(&e->b, x), add(g, first, key));
  if (!x) return false;
  loop_store(&e->b, g->score, at_row(g, g->row, g->score_pitch, key), x);
  thread_close(e, 2);
  return true;
}

// ---- weights, and what they give ----

static void weights(SimtAttention *g) {
  ElementBuilder *e = &g->a.e;
  LoopKernel *k = e->k;
  open_threads(g);
  Dim i = loop_reduce(&e->b, LOOP_max, "i", num(g, g->keys), 1);
  const LoopExpr *most = loop_yield(&e->b, get(g, g->score, at_row(g, g->row, g->score_pitch, i)));
  const LoopExpr *before = loop_let(&e->b, get(g, g->top, g->t));
  const LoopExpr *top = loop_let(&e->b, op(g, LOOP_max, before, most));
  const LoopExpr *none = op(g, LOOP_eq, top, real(g, -INFINITY));
  const LoopExpr *from = loop_let(&e->b, loop_op(k, LOOP_select, none, real(g, 0), top));
  loop_store(&e->b, g->top, g->t, top);
  loop_store(&e->b, g->rescale, g->t, exp_of(g, op(g, LOOP_sub, before, from)));
  Dim j = loop_for(&e->b, LOOP_SERIAL, "j", num(g, g->keys / g->lanes));
  Dim key = add(g, ie_mulc(e->pool, j, g->lanes), g->lane);
  Dim at = at_row(g, g->row, g->score_pitch, key);
  loop_store(&e->b, g->weight, at, exp_of(g, op(g, LOOP_sub, get(g, g->score, at), from)));
  thread_close(e, 2);
}

static void values(SimtAttention *g) {
  Attention *a = &g->a;
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  open_threads(g);
  const LoopExpr *rescale = loop_let(&e->b, get(g, g->rescale, g->t));
  Dim i = loop_reduce(&e->b, LOOP_add, "i", num(g, g->keys), 1);
  const LoopExpr *sum = loop_yield(&e->b, get(g, g->weight, at_row(g, g->row, g->score_pitch, i)));
  loop_store(&e->b, g->sum, g->t, loop_op(e->k, LOOP_fma, get(g, g->sum, g->t), rescale, sum));
  Dim c = loop_for(&e->b, LOOP_UNROLL, "c", num(g, g->columns));
  Dim at = at_row(g, g->t, g->columns, c);
  loop_store(&e->b, g->acc, at, op(g, LOOP_mul, get(g, g->acc, at), rescale));
  loop_end(&e->b);
  i = loop_for(&e->b, LOOP_SERIAL, "i", num(g, g->keys));
  const LoopExpr *w = loop_let(&e->b, get(g, g->weight, at_row(g, g->row, g->score_pitch, i)));
  c = loop_for(&e->b, LOOP_UNROLL, "c", num(g, g->columns));
  int depth = 3;
  Dim col = add(g, ie_mulc(p, c, g->lanes), g->lane);
  col = thread_guard(e, col, num(g, a->vsize), &depth);
  at = at_row(g, g->t, g->columns, c);
  const LoopExpr *v = get(g, g->v, at_row(g, i, a->vsize, col));
  loop_store(&e->b, g->acc, at, loop_op(e->k, LOOP_fma, w, v, get(g, g->acc, at)));
  thread_close(e, depth);
}

static bool finish(SimtAttention *g) {
  Attention *a = &g->a;
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  open_threads(g);
  const LoopExpr *sum = loop_let(&e->b, get(g, g->sum, g->t)), *zero = real(g, 0);
  const LoopExpr *by = op(g, LOOP_div, real(g, 1), sum);
  by = loop_let(&e->b, loop_op(e->k, LOOP_select, op(g, LOOP_eq, sum, zero), zero, by));
  Dim c = loop_for(&e->b, LOOP_UNROLL, "c", num(g, g->columns));
  int depth = 2;
  Dim col = add(g, ie_mulc(p, c, g->lanes), g->lane);
  col = thread_guard(e, col, num(g, a->vsize), &depth);
  Dim query = thread_guard(e, add(g, a->q0, g->row), a->seq, &depth);
  const LoopExpr *x = op(g, LOOP_mul, get(g, g->acc, at_row(g, g->t, g->columns, c)), by);
  bool ok = attention_store(a, x, ie_sub(p, query, a->q0), col);
  thread_close(e, depth);
  return ok;
}

// ---- the kernel ----

static int32_t buffer(SimtAttention *g, LoopSpace space, const char *name, int64_t n) {
  return loop_buffer(g->a.e.k, space, name, g->a.t, num(g, n), false);
}

static int64_t shared_bytes(const SimtAttention *g) {
  const Attention *a = &g->a;
  int64_t scores = 2 * a->queries * g->score_pitch;
  int64_t n = (a->queries + g->keys) * g->pitch + g->keys * a->vsize + scores;
  return n * elem_bytes(a->t);
}

// Scores and weights are added in the order of the keys; a block of keys has a maximum of its own.
#define ATTENTION_SIMT_SCHEDULE(I, B, C, T)                                                        \
  I(T, queries, 0, 1, 64, 0, FREE,                                                                 \
    "queries per work item; the threads of a block are divided among them")                        \
  I(T, keys, 32, 1, 256, 0, ORDER, "keys in shared memory at a time")
SCHEDULE_STRUCT(AttentionSimt, ATTENTION_SIMT_SCHEDULE);
SCHEDULE_TABLE(AttentionSimt, ATTENTION_SIMT_SCHEDULE);

static void take_schedule(SimtAttention *g, const AttentionSimtSchedule *s) {
  Attention *a = &g->a;
  // A row of keys is one word longer than it need be, so that threads with different keys read from
  // different banks.
  g->pitch = a->size + (g->threads % a->size ? 0 : 1);
  a->queries = s->queries;
  g->keys = s->keys;
  g->lanes = MAX(g->threads / a->queries, 1);
  g->score_pitch = g->keys + g->lanes;
  g->columns = (a->vsize + g->lanes - 1) / g->lanes;
  a->ragged = false;  // asked for around what is done with a query
}

static const char *bad_schedule(const SimtAttention *match, const LowerTarget *t,
                                const AttentionSimtSchedule *s) {
  SimtAttention g = *match;
  take_schedule(&g, s);
  return g.threads < s->queries               ? "queries is above the threads of a block"
         : g.keys % g.lanes                   ? "the threads of a query do not divide the keys"
         : shared_bytes(&g) > t->shared_bytes ? "its blocks do not fit in shared memory"
                                              : NULL;
}

static bool attention_simt_legal(const void *match, const LowerTarget *t, const void *fields,
                                 const char **why) {
  *why = bad_schedule(match, t, fields);
  return !*why;
}

// As many queries as shared memory holds.
static bool attention_simt_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                                  void *fields) {
  AttentionSimtSchedule *s = fields;
  for (int64_t n = 32; n >= 4; n /= 2) {
    *s = (AttentionSimtSchedule){.queries = n, .keys = 32};
    schedule_keep(given, s);
    if (!bad_schedule(match, t, s)) return true;
  }
  return given->t != NULL;
}

static void make_buffers(SimtAttention *g) {
  Attention *a = &g->a;
  g->q = buffer(g, LOOP_SHARED, "q", a->queries * g->pitch);
  g->k = buffer(g, LOOP_SHARED, "k", g->keys * g->pitch);
  g->v = buffer(g, LOOP_SHARED, "v", g->keys * a->vsize);
  g->score = buffer(g, LOOP_SHARED, "score", a->queries * g->score_pitch);
  g->weight = buffer(g, LOOP_SHARED, "weight", a->queries * g->score_pitch);
  g->top = buffer(g, LOOP_REGISTER, "top", g->threads);
  g->sum = buffer(g, LOOP_REGISTER, "sum", g->threads);
  g->rescale = buffer(g, LOOP_REGISTER, "rescale", g->threads);
  g->acc = buffer(g, LOOP_REGISTER, "acc", g->threads * g->columns);
}

static bool key_block(SimtAttention *g, Dim first) {
  Attention *a = &g->a;
  const KeyRun *r = &a->run[0];
  open_threads(g);
  if (!copy_rows(g, r->k, a->kv_head, a->size, first, a->total, g->k, g->keys, g->pitch, 1))
    return false;
  if (!copy_rows(g, r->v, a->kv_head, a->vsize, first, a->total, g->v, g->keys, a->vsize, 1))
    return false;
  loop_end(&a->e.b);
  if (!scores(g, first)) return false;
  weights(g);
  values(g);
  return true;
}

static bool build(SimtAttention *g) {
  Attention *a = &g->a;
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  attention_items(a);
  if (!begin(g)) return false;
  Dim n = a->total;
  if (a->at->is_causal) n = attention_causal(a, ie_addc(p, a->q0, a->queries));
  Dim block = loop_for(&e->b, LOOP_SERIAL, "block", ie_ceildiv(p, n, num(g, g->keys)));
  if (!key_block(g, ie_mulc(p, block, g->keys))) return false;
  loop_end(&e->b);
  if (!finish(g)) return false;
  loop_end(&e->b);
  return true;
}

static void *attention_simt_match(Lowering *lo, const Node *fused) {
  SimtAttention *g = arena_new(lo->arena, SimtAttention);
  g->threads = lo->target.block_threads;
  if (!attention_begin(&g->a, lo, fused)) return NULL;
  lo->why = "it has a KV cache as an operand, or a key count per sequence";
  return g->a.nruns == 1 && !g->a.nonpad ? g : NULL;
}

static bool attention_simt_build(void *match, const void *fields, Lowered *out) {
  SimtAttention *g = match;
  take_schedule(g, fields);
  make_buffers(g);
  if (!build(g)) return false;
  elem_finish(&g->a.e, out);
  return true;
}

const TemplateCode template_attention_simt = {.match = attention_simt_match,
                                              .choose = attention_simt_choose,
                                              .legal = attention_simt_legal,
                                              .build = attention_simt_build,
                                              SCHEDULE(AttentionSimt)};
