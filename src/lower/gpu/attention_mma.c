// attention_mma.c -- template attention_mma: attention on tensor cores with wgmma, an attention
// tile of 64 queries of one head per warpgroup (loop/tile.h).
//
// choose picks one of the variants that targets/cuda emits: plain, ring, short, split-KV or f32.
// Operands that form TMA boxes are described as such.
//
// Needs:      TargetTraits.mma is MMA_WARPGROUP; lower/cpu/attention.h has mapped the node; one run
//             of keys and no nonpad lengths.  Queries, keys and values are loads of 16-bit types or
//             f32 with contiguous heads.  Lengths may be dynamic.
// Guarantees: the tile passes loop_tile_check.  With batch_invariant the batch does not decide how
//             keys are split.  The rest is left to attention_simt.
#include "lower/cpu/attention.h"

#include "eval/attention.h"
#include "ir/rule.h"
#include "loop/prove.h"
#include "loop/tile.h"

#include <math.h>

// A block of keys has a maximum of its own, and parts of the keys are added up at the end: both
// change the order of sums.
#define ATTENTION_MMA_SCHEDULE(I, B, C, T)                                                         \
  I(T, warpgroups, 0, 1, 3, 1, FREE, "warpgroups of a block, with 64 queries each")                \
  I(T, keys, 0, 16, 512, 16, ORDER, "keys per block")                                              \
  I(T, stages, 0, 1, 8, 1, FREE, "blocks of keys in shared memory; 1: all keys are there at once") \
  I(T, tiles, 1, 1, 8, 1, FREE, "tiles of 64 queries per warpgroup")                               \
  I(T, parts, 0, 0, 16, 0, ORDER,                                                                  \
    "split-KV: parts of the keys, one per warpgroup; 0: heads that share keys are not one tile")   \
  C(T, math, LOOP_MMA_WORDS, 0, ORDER, "data type of the MMA; 3xtf32 is f32 by three tf32 MMAs")
SCHEDULE_STRUCT(AttentionMma, ATTENTION_MMA_SCHEDULE);
SCHEDULE_TABLE(AttentionMma, ATTENTION_MMA_SCHEDULE);

typedef AttentionMmaSchedule TileSchedule;

typedef struct TileAttention {
  Attention a;
  TileSchedule s;
  LoopTile *tile;
  LoopBound query;  // of the block
  LoopBound column;
} TileAttention;

static const LoopExpr *op(TileAttention *t, LoopOp o, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(t->a.e.k, o, x, y, NULL);
}
static const LoopExpr *real(TileAttention *t, double v) { return loop_float(t->a.e.k, DT_F32, v); }

// ---- scores ----

static const LoopExpr *mask_at(TileAttention *t, Dim key) {
  Attention *a = &t->a;
  ElementBuilder *e = &a->e;
  const Type *m = type_of(a->mask);
  Dim row = t->query.sym, at[4];
  if (a->mask_keys) key = elem_guard(e, key, a->mask_keys);
  Dim all[4] = {a->b, attention_row_head(a, row), attention_query(a, row), key};
  for (int i = 0; i < m->rank; i++)
    at[i] = ie_is(m->dims[i], 1) && i < m->rank - 1 ? e->pool->zero : all[i + 4 - m->rank];
  e->guard[e->nguards++] = t->query;
  elem_forget(e);
  const LoopExpr *x = elem_at(e, a->mask, at);
  elem_unguard(e, 0);
  elem_forget(e);
  return x;
}

// Where the key lies outside what the query sees the score is -infinity.
static const LoopExpr *seen(TileAttention *t, const LoopExpr *x, Dim key) {
  Attention *a = &t->a;
  LoopKernel *k = a->e.k;
  IntPool *p = a->e.pool;
  int64_t right = a->at->is_causal ? 0 : a->at->right_window_size, left = a->at->left_window_size;
  const LoopExpr *at = loop_index(k, key), *off = real(t, -INFINITY);
  Dim stands = ie_add(p, a->offset, attention_query(a, t->query.value));
  if (right >= 0) {
    Dim last = ie_addc(p, stands, right);
    x = loop_op(k, LOOP_select, op(t, LOOP_le, at, loop_index(k, last)), x, off);
  }
  if (left >= 0) {
    Dim first = ie_addc(p, stands, -left);
    x = loop_op(k, LOOP_select, op(t, LOOP_le, loop_index(k, first), at), x, off);
  }
  return x;
}

static const LoopExpr *masked(TileAttention *t, const LoopExpr *x, Dim key) {
  Attention *a = &t->a;
  LoopKernel *k = a->e.k;
  x = op(t, LOOP_mul, x, real(t, a->scale));
  if (a->at->softcap > 0) {
    const LoopExpr *cap = real(t, a->at->softcap);
    x = op(t, LOOP_mul, loop_op(k, LOOP_tanh, op(t, LOOP_div, x, cap), NULL, NULL), cap);
  }
  if (a->mask) {
    const LoopExpr *m = mask_at(t, key);
    if (!m) return NULL;
    x = attention_hidden(a, x, m, key);
  }
  return seen(t, x, key);
}

// The load under an operand's conversion to f32; NULL: it is computed.
static const LoopExpr *load_of(const LoopExpr *x) {
  if (x && x->kind == LX_OP && x->op == LOOP_cast) x = x->src[0];
  return x && x->kind == LX_LOAD ? x : NULL;
}

static bool take_product(TileAttention *t, Dim key) {
  Attention *a = &t->a;
  ElementBuilder *e = &a->e;
  LoopTile *tile = t->tile;
  Dim d = loop_attention_elements(&e->b, tile, a->size);
  e->guard[e->nguards++] = t->query;
  elem_forget(e);
  Dim row = t->query.sym, head = attention_row_head(a, row);
  const LoopExpr *q =
      attention_head(a, a->anchor->src[0], head, a->size, attention_query(a, row), d);
  elem_unguard(e, 0);
  elem_forget(e);
  tile->attention.q = load_of(q);
  tile->attention.k = load_of(attention_head(a, a->run[0].k, a->kv_head, a->size, key, d));
  if (!tile->attention.q || !tile->attention.k) return false;
  DType type = tile->attention.q->dtype;
  bool tf32 = e->lo->g->fast & FAST_TF32;
  tile->kind = type != DT_F32 ? MMA_HALF : tf32 ? MMA_TF32 : MMA_F32;
  tile->a.dtype = tile->b.dtype = type;
  return true;
}

static bool take_values(TileAttention *t, Dim key) {
  Attention *a = &t->a;
  ElementBuilder *e = &a->e;
  e->guard[e->nguards++] = t->column;
  elem_forget(e);
  const LoopExpr *v = attention_head(a, a->run[0].v, a->kv_head, a->vsize, key, t->column.sym);
  elem_unguard(e, 0);
  elem_forget(e);
  t->tile->attention.v = load_of(v);
  t->tile->attention.columns = a->vsize;
  return t->tile->attention.v;
}

// ---- TMA boxes ----

// Terms that are multiples of a matrix say which; the others say where in its rows.  A matrix of a
// sum of rows, those of the KV cache and those at hand, has as many terms as that sum in each
// multiple: its first one says which.
static void find_place(IntPool *p, Dim rest, Dim matrix, LoopTileBox *out) {
  out->x = rest;
  if (!matrix->nterms) return;
  Dim lead = dim_term(p, &matrix->term[0], -1);
  for (int i = 0; i < rest->nterms; i++) {
    Dim which = dim_quotient(p, dim_term(p, &rest->term[i], -1), lead);
    Dim left = which ? ie_sub(p, out->x, ie_mul(p, which, matrix)) : out->x;
    if (left->nterms + matrix->nterms > out->x->nterms) continue;
    out->z = ie_add(p, out->z, which);
    out->x = left;
  }
}

static LoopTileBox box_of(const LoopKernel *k, const LoopExpr *load, Dim row, Dim rows, Dim along,
                          int64_t width) {
  IntPool *p = k->pool;
  Dim stride, one, rest;
  LoopTileBox out = {.x = p->zero, .z = p->zero, .rows = rows};
  if (!dim_split(p, load->index, along, &one, &rest) || !dim_split(p, rest, row, &stride, &rest) ||
      !ie_is_const(stride) || stride->value < width || dim_has(rest, row) || dim_has(rest, along) ||
      (width != TILE_BOX && width != 2 * TILE_BOX))
    return out;
  out.stride = stride->value;
  Dim matrix = ie_mul(p, rows, stride);
  out.outer = dim_quotient(p, k->buffer[load->buffer].size, matrix);
  find_place(p, rest, matrix, &out);
  out.is = out.outer && loop_tile_counts(k, out.outer) && loop_tile_counts(k, rows) &&
           out.x->lo >= 0 && out.x->hi <= out.stride - width;
  return out;
}

// How many keys there are is the extent of their sum, or, where queries see fewer, one of the two
// that it is the least of, or as many as the last one sees: the rows of a box must hold all that
// are asked for.
static void find_boxes(const LoopKernel *k, LoopTile *t) {
  LoopTileAttention *a = &t->attention;
  Dim depth = t->depth, key = t->sum->sym, d = a->product->sym;
  bool least = depth->kind == IE_MIN;
  Dim keys[] = {least ? depth->a : depth, least ? depth->b : depth, t->a.rows,
                ie_const(k->pool, depth->hi)};
  a->box[0] = box_of(k, a->q, t->a.sym, t->a.rows, d, a->size);
  for (int i = 0; i < ARRAY_LEN(keys) && !(a->box[1].is && a->box[2].is); i++) {
    if (i >= 2 && keys[i]->lo < depth->hi) continue;
    a->box[1] = box_of(k, a->k, key, keys[i], d, a->size);
    a->box[2] = box_of(k, a->v, key, keys[i], t->b.sym, a->columns);
  }
}

// ---- the tile ----

static LoopTileOperand operand_at(const LoopBound *row) {
  return (LoopTileOperand){.sym = row->sym, .row = row->value, .rows = row->extent};
}

// Keys that the last query of the block sees.
static Dim keys_of(Attention *a) {
  if (!a->at->is_causal) return a->total;
  Dim last = attention_query(a, ie_addc(a->e.pool, a->q0, a->queries - 1));
  return attention_causal(a, ie_addc(a->e.pool, last, 1));
}

static bool sums_of(TileAttention *t, const LoopExpr **total, const LoopExpr **sum) {
  LoopBuilder *b = &t->a.e.b;
  LoopTile *tile = t->tile;
  Dim key = loop_attention_keys(b, tile, keys_of(&t->a));
  tile->a = operand_at(&t->query);
  tile->b = operand_at(&t->column);
  if (!take_product(t, key)) return false;
  tile->attention.score = masked(t, loop_attention_dot(b, tile), key);
  if (!tile->attention.score || !take_values(t, key)) return false;
  loop_attention_sums(b, tile, total, sum);
  tile->a.buffer = tile->attention.q->buffer;
  tile->b.buffer = tile->attention.v->buffer;
  find_boxes(t->a.e.k, tile);
  return true;
}

static bool build(TileAttention *t, int columns) {
  Attention *a = &t->a;
  ElementBuilder *e = &a->e;
  IntPool *p = e->pool;
  const LoopExpr *total, *sum;
  int split = t->s.parts > 1 ? (int)t->s.parts : 0;
  LoopTileSchedule s = {.m = (int)a->queries,
                        .n = columns,
                        .stages = (int)t->s.stages,
                        .warpgroups = (int)t->s.warpgroups,
                        .cluster = MAX(split / 2, 1),
                        .split_kv = split};
  attention_items(a);
  t->tile = loop_tile_begin(&e->b, LS_ATTENTION, &s, "i", "c");
  Dim i = t->tile->rows->sym, rows = attention_rows(a), n = ie_const(p, a->vsize);
  t->query = (LoopBound){loop_sym(e->k, "query", rows), ie_add(p, a->q0, i), rows};
  t->column = (LoopBound){loop_sym(e->k, "column", n), t->tile->cols->sym, n};
  if (!sums_of(t, &total, &sum)) return false;
  const LoopExpr *zero = real(t, 0), *by = op(t, LOOP_div, real(t, 1), total);
  by = loop_op(e->k, LOOP_select, op(t, LOOP_eq, total, zero), zero, by);
  e->guard[e->nguards++] = t->column;
  a->ragged = true;
  bool ok = attention_store(a, op(t, LOOP_mul, sum, by), i, t->column.sym);
  elem_unguard(e, 0);
  if (!ok) return false;
  loop_tile_end(&e->b);
  loop_end(&e->b);
  return true;
}

// ---- the choice ----

// What part of the tensor cores' rate one block of a kind gets, and how many are on a
// multiprocessor at once.  Figures are from an H200.
static const struct Kind {
  TileSchedule s;
  int64_t size;  // of heads: up to so many elements, or where they must be whole, so many
  bool whole;
  int resident;
  double share, alone;  // with others on the multiprocessor, and without
  int beginning;        // cycles
} kinds[] = {
    {{1, TILE_KEYS, 2, 1, 0, 0}, 64, false, 4, 0.37, 0.20, 2900},
    {{1, TILE_KEYS, 2, 1, 0, 0}, 128, false, 2, 0.35, 0.20, 2900},
    {{2, TILE_RING_KEYS, 2, 1, 0, 0}, 128, true, 1, 0.75, 0.75, 6300},
    {{3, TILE_RING_KEYS, 2, 1, 0, 0}, 64, true, 1, 0.58, 0.58, 6300},
};

enum { RATE = 4096, SOME_LENGTH = 1024 };  // operations a cycle; where a length is not known

static int64_t number_or(Dim d, int64_t other) { return ie_is_const(d) ? d->value : other; }

// Sizes that the choice is made for.  A dynamic length is the number of rows that is asked for, of
// one item; else a dynamic batch is as many items as have so many.
typedef struct Sizes {
  int64_t batch, seq, total;
} Sizes;

static Sizes sizes_of(const Attention *a) {
  bool fixed = a->e.lo->target.batch_invariant;
  int64_t length = elem_rows(&a->e, a->seq, SOME_LENGTH);
  Sizes n = {1, length, number_or(a->total, MAX(length, SOME_LENGTH))};
  if (a->total == a->seq) n.total = length;
  if (fixed) return n;
  n.batch = number_or(a->batch, 1);
  if (ie_is_const(a->seq) && !ie_is_const(a->batch))
    n.batch =
        MAX(elem_rows(&a->e, ie_mul(a->e.pool, a->batch, a->seq), length) / MAX(length, 1), 1);
  return n;
}

// Cycles by waves of blocks over the multiprocessors; of causal attention half is left out, but not
// for one block of keys.
static double cycles_of(const Attention *a, const Sizes *n, const struct Kind *k) {
  int64_t units = a->e.lo->target.traits.sm_count;
  int64_t rows = TILE_ROWS * k->s.warpgroups, blocks = (n->seq + rows - 1) / rows;
  int64_t items = n->batch * a->heads * blocks, wave_items = units * k->resident;
  double keys = (double)((n->total + k->s.keys - 1) / k->s.keys * k->s.keys);
  if (a->at->is_causal) keys = (keys + (double)k->s.keys) / 2;
  int64_t resident = MIN(k->resident, (items + units - 1) / units);
  double item = (double)rows * keys * (double)(a->size + a->vsize) * 2 / RATE;
  double wave = resident > 1 ? item * (double)resident / k->share : item / k->alone;
  double waves = (double)((items + wave_items - 1) / wave_items);
  return waves * (wave + k->beginning);
}

// *math: what was multiplied.
static bool lower_as(Lowering *lo, const Node *fused, const TileSchedule *s, Lowered *out,
                     int *math) {
  TileAttention *t = arena_new(lo->arena, TileAttention);
  Attention *a = &t->a;
  const char *why;
  t->s = *s;
  *out = (Lowered){0};
  if (!attention_begin(a, lo, fused)) return false;
  int columns = a->vsize <= 64 ? 64 : 128;
  a->queries = TILE_ROWS * s->warpgroups * MAX(s->tiles, 1);
  if (s->parts) a->share = a->heads / a->kv_heads;
  if (!build(t, columns)) return false;
  elem_finish(&a->e, out);
  if (out->kernel->nchecks || !loop_kernel_tile(out->kernel, &why)) return false;
  *math = t->tile->kind;
  return true;
}

static bool takes(const struct Kind *k, const Attention *a) {
  if (k->whole) return a->size == k->size && a->vsize == k->size;
  return a->size <= k->size && a->vsize <= k->size;
}

// The most keys that the kernel is called with; 0: nobody knows.  Where queries and keys are as
// many and that is a symbol, it is called with its own alone.
static int64_t most_keys(const Attention *a) {
  const Lowering *lo = a->e.lo;
  if (ie_is_const(a->total)) return a->total->value;
  return a->total == a->seq && lo->bucket_dim && lo->bucket_dim->kind == IE_SYM ? lo->bucket_max
                                                                                : 0;
}

// Few keys are there all at once, for as many tiles of queries as leave some blocks for every
// multiprocessor.
static bool is_short(const Attention *a, const Sizes *sizes, TileSchedule *out) {
  // Causal attention over more than that leaves out blocks of keys.
  int64_t most = a->at->is_causal ? TILE_RING_KEYS : TILE_SHORT_KEYS, keys = most_keys(a);
  if (keys < 1 || keys > most) return false;
  int64_t tiles = (sizes->seq + TILE_ROWS - 1) / TILE_ROWS, heads = sizes->batch * a->heads;
  *out = (TileSchedule){.warpgroups = 1, .keys = (keys + 15) / 16 * 16, .stages = 1, .tiles = 1};
  for (int n = 2; n <= TILE_SHORT_TILES; n++)
    if ((tiles + n - 1) / n < (tiles + n - 2) / (n - 1) &&
        heads * ((tiles + n - 1) / n) >= 2 * a->e.lo->target.traits.sm_count)
      out->tiles = n;
  return true;
}

// Few queries: those of all heads that share keys are one tile, and the keys parts for as many
// warpgroups as multiprocessors take, two each.
static bool is_few(const Attention *a, const Sizes *sizes, TileSchedule *out) {
  enum { QUERIES = 8, MOST_PARTS = 16 };
  int64_t units = a->e.lo->target.traits.sm_count, items = a->kv_heads;
  bool wide = a->size > 64 || a->vsize > 64;
  if (sizes->seq > QUERIES || sizes->seq * a->heads / a->kv_heads > TILE_ROWS || a->size % 8 ||
      a->vsize % 8 || MAX(a->size, a->vsize) > 128)
    return false;
  if (ie_is_const(a->batch)) items *= sizes->batch;
  *out = (TileSchedule){.warpgroups = 1, .keys = TILE_KEYS, .stages = 2, .tiles = 1, .parts = 1};
  while (out->parts < MOST_PARTS && items * out->parts <= units &&
         sizes->total / (out->parts * 2) >= TILE_KEYS)
    out->parts *= 2;
  if (out->parts > 1) out->stages = wide ? 3 : 6;
  return true;
}

// ---- the template ----

typedef struct AttentionMma {
  Attention *a;
  Lowering *lo;
  const Node *fused;
  // What choosing made already.
  TileSchedule tried;
  Lowered made;
} AttentionMma;

static void *attention_mma_match(Lowering *lo, const Node *fused) {
  AttentionMma *m = arena_new(lo->arena, AttentionMma);
  Attention *a = m->a = arena_new(lo->arena, Attention);
  m->lo = lo;
  m->fused = fused;
  lo->why = "the target has no wgmma";
  if (lo->target.traits.mma != MMA_WARPGROUP) return NULL;
  lo->why = "its heads are not 16-bit floats or f32, or it has a KV cache as an operand";
  if (!attention_begin(a, lo, fused) || a->nruns != 1 || a->nonpad) return NULL;
  bool any = a->t == DT_F32 && a->size % 4 == 0 && a->vsize % 4 == 0, taken = false;
  for (int64_t i = 0; i < ARRAY_LEN(kinds); i++) taken |= takes(&kinds[i], a);
  return any && taken ? m : NULL;
}

// Where all keys are there at once, the kernel is for no more than the lowering says that it is
// called with.
static bool make(AttentionMma *m, const TileSchedule *s, Lowered *out, int *math) {
  Lowering *lo = m->lo;
  if (s->stages == 1) lo->bucket_sym = lo->bucket_dim;
  bool ok = lower_as(lo, m->fused, s, out, math);
  lo->bucket_sym = NULL;
  return ok;
}

static bool attempt(AttentionMma *m, const TileSchedule *s) {
  m->tried = *s;
  return make(m, s, &m->made, &m->tried.math);
}

// The cheapest kind; where operands lack the layout that it needs, the first one that takes
// any.
static bool attention_mma_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                                 void *fields) {
  AttentionMma *m = match;
  const Attention *a = m->a;
  Lowering *lo = m->lo;
  const struct Kind *any = NULL, *best = NULL;
  TileSchedule short_tile;
  Sizes n = sizes_of(a);
  (void)t;
  for (int64_t i = 0; i < ARRAY_LEN(kinds); i++) {
    const struct Kind *k = &kinds[i];
    if (!takes(k, a)) continue;
    if (!any) any = k;
    if (!best || cycles_of(a, &n, k) < cycles_of(a, &n, best)) best = k;
  }
  bool ok = is_short(a, &n, &short_tile) && attempt(m, &short_tile);
  if (!ok) lo->small_bucket |= !ie_is_const(a->seq) && a->total != a->seq;
  if (!ok) ok = is_few(a, &n, &short_tile) && attempt(m, &short_tile);
  if (!ok) ok = best != any && attempt(m, &best->s);
  if (!ok) ok = attempt(m, &any->s);
  *(TileSchedule *)fields = m->tried;
  return ok || given->t;
}

static bool attention_mma_legal(const void *match, const LowerTarget *t, const void *fields,
                                const char **why) {
  const Attention *a = ((const AttentionMma *)match)->a;
  const TileSchedule *s = fields;
  int64_t most = most_keys(a);
  (void)t;
  *why = s->stages == 1 && (most < 1 || most > s->keys || s->warpgroups > 1 || s->parts)
             ? "stages=1 is for few keys, all of them in one block, with one warpgroup"
         : s->tiles > 1 && s->stages != 1 ? "tiles above 1 is for stages=1"
         : s->parts && (s->warpgroups > 1 || s->keys != TILE_KEYS)
             ? "parts is for one warpgroup and 64 keys at a time"
         : s->stages != 1 && s->keys != TILE_KEYS && s->keys != TILE_RING_KEYS
             ? "keys is 64 or 128 where there are several blocks of them"
         : s->stages != 1 && (s->warpgroups > 1) != (s->keys == TILE_RING_KEYS)
             ? "keys is 128 with several warpgroups, and 64 with one"
             : NULL;
  return !*why;
}

static bool attention_mma_build(void *match, const void *fields, Lowered *out) {
  AttentionMma *m = match;
  const Schedule wanted = {template_find("attention_mma"), fields};
  if (m->made.kernel && schedule_equal(wanted, (Schedule){wanted.t, &m->tried})) {
    *out = m->made;
    return true;
  }
  int math = 0;
  return make(m, fields, out, &math) && math == ((const TileSchedule *)fields)->math;
}

const TemplateCode template_attention_mma = {.match = attention_mma_match,
                                             .choose = attention_mma_choose,
                                             .legal = attention_mma_legal,
                                             .build = attention_mma_build,
                                             SCHEDULE(AttentionMma)};
