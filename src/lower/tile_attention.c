// tile_attention.c -- attention for machines with units for matrices: 64 queries of one head for each warpgroup of an item (loop/tile.h).
//
// The loops say three reductions over the keys, one after the other, each with its own products; what is made of them goes over the keys once.
// Operands are 16-bit floats that lie along the elements of a head; all else is another template's.
#include "lower/attention.h"

#include "eval/attention.h"
#include "ir/rule.h"
#include "loop/tile.h"
#include "lower/templates.h"

#include <math.h>

typedef struct TileSchedule {
  int groups, keys, stages;
  int tiles;  // of queries: of each warpgroup, where it is more than one
} TileSchedule;

typedef struct TileAttention {
  Attention a;
  TileSchedule s;
  Dim keys;         // how many a query may see
  LoopBound query;  // of the block
  LoopBound column;
} TileAttention;

static const LoopExpr *op(TileAttention *t, LoopOp o, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(t->a.e.k, o, x, y, NULL);
}
static bool is_cast(const LoopExpr *x) { return x->kind == LX_OP && x->op == LOOP_cast; }
// A factor of a product: one of f32 is rounded where that is asked for.
static const LoopExpr *factor(TileAttention *t, const LoopExpr *x) {
  bool tf32 = !is_cast(x) && t->a.e.lo->g->fast & FAST_TF32;
  return tf32 ? loop_op(t->a.e.k, LOOP_tf32, x, NULL, NULL) : x;
}
static const LoopExpr *real(TileAttention *t, double v) { return loop_float(t->a.e.k, DT_F32, v); }

// ---- scores ----

static const LoopExpr *mask_at(TileAttention *t, Dim key) {
  Attention *a = &t->a;
  Elem *e = &a->e;
  const Type *m = type_of(a->mask);
  Dim all[4] = {a->b, a->h, t->query.sym, key}, at[4];
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
  const Attention *a = &t->a;
  LoopKernel *k = a->e.k;
  IntPool *p = a->e.pool;
  int64_t right = a->at->is_causal ? 0 : a->at->right_window_size, left = a->at->left_window_size;
  const LoopExpr *at = loop_index(k, key), *off = real(t, -INFINITY);
  if (right >= 0) {
    Dim last = ie_addc(p, t->query.value, right);
    x = loop_op(k, LOOP_select, op(t, LOOP_le, at, loop_index(k, last)), x, off);
  }
  if (left >= 0) {
    Dim first = ie_addc(p, t->query.value, -left);
    x = loop_op(k, LOOP_select, op(t, LOOP_le, loop_index(k, first), at), x, off);
  }
  return x;
}

static const LoopExpr *masked(TileAttention *t, const LoopExpr *x, Dim key) {
  Attention *a = &t->a;
  LoopKernel *k = a->e.k;
  const LoopExpr *off = real(t, -INFINITY);
  x = op(t, LOOP_mul, x, real(t, a->scale));
  if (a->at->softcap > 0) {
    const LoopExpr *cap = real(t, a->at->softcap);
    x = op(t, LOOP_mul, loop_op(k, LOOP_tanh, op(t, LOOP_div, x, cap), NULL, NULL), cap);
  }
  if (a->mask) {
    const LoopExpr *m = mask_at(t, key);
    if (!m) return NULL;
    if (m->dtype == DT_BOOL) {
      x = loop_op(k, LOOP_select, m, x, off);
    } else {
      m = loop_let(&a->e.b, loop_cast(k, DT_F32, m));
      x = loop_op(k, LOOP_select, op(t, LOOP_eq, m, off), off, op(t, LOOP_add, x, m));
    }
  }
  return seen(t, x, key);
}

static const LoopExpr *score(TileAttention *t, Dim key) {
  Attention *a = &t->a;
  Elem *e = &a->e;
  Dim d = loop_reduce(&e->b, LOOP_add, "d", ie_const(e->pool, a->size), 1);
  e->guard[e->nguards++] = t->query;
  elem_forget(e);
  const LoopExpr *q = attention_head(a, a->anchor->src[0], a->h, a->size, t->query.sym, d);
  elem_unguard(e, 0);
  elem_forget(e);
  const LoopExpr *k = attention_head(a, a->run[0].k, a->kv_head, a->size, key, d);
  if (!q || !k) return NULL;
  return masked(t, loop_yield(&e->b, op(t, LOOP_mul, factor(t, q), factor(t, k))), key);
}

// ---- the loops ----

static const LoopExpr *weight(TileAttention *t, Dim key, const LoopExpr *top) {
  const LoopExpr *x = score(t, key);
  return x ? loop_op(t->a.e.k, LOOP_exp, op(t, LOOP_sub, x, top), NULL, NULL) : NULL;
}

static const LoopExpr *value_at(TileAttention *t, Dim key) {
  Attention *a = &t->a;
  Elem *e = &a->e;
  e->guard[e->nguards++] = t->column;
  elem_forget(e);
  const LoopExpr *v = attention_head(a, a->run[0].v, a->kv_head, a->vsize, key, t->column.sym);
  elem_unguard(e, 0);
  elem_forget(e);
  return v;
}

static bool reductions(TileAttention *t, const LoopExpr **total, const LoopExpr **sum) {
  Elem *e = &t->a.e;
  LoopKernel *k = e->k;
  Dim key = loop_reduce(&e->b, LOOP_max, "key", t->keys, 1);
  const LoopExpr *x = score(t, key);
  if (!x) return false;
  const LoopExpr *most = loop_yield(&e->b, x);
  const LoopExpr *none = op(t, LOOP_eq, most, real(t, -INFINITY));
  const LoopExpr *top = loop_let(&e->b, loop_op(k, LOOP_select, none, real(t, 0), most));
  key = loop_reduce(&e->b, LOOP_add, "key", t->keys, 1);
  *total = loop_yield(&e->b, weight(t, key, top));
  key = loop_reduce(&e->b, LOOP_add, "key", t->keys, 1);
  const LoopExpr *v = value_at(t, key);
  if (!v) return false;
  const LoopExpr *w = weight(t, key, top);
  if (is_cast(v)) w = loop_cast(k, DT_F32, loop_cast(k, v->src[0]->dtype, w));
  *sum = loop_yield(&e->b, op(t, LOOP_mul, factor(t, w), factor(t, v)));
  return true;
}

static bool build(TileAttention *t, int columns) {
  Attention *a = &t->a;
  Elem *e = &a->e;
  IntPool *p = e->pool;
  const LoopExpr *total, *sum;
  attention_items(a);
  Dim i = loop_tile(&e->b, "i", a->queries, t->s.stages);
  Dim c = loop_tile(&e->b, "c", columns, t->s.groups);
  t->query = (LoopBound){loop_sym(e->k, "query", a->seq), ie_add(p, a->q0, i), a->seq};
  Dim n = ie_const(p, a->vsize);
  t->column = (LoopBound){loop_sym(e->k, "column", n), c, n};
  t->keys = a->total;
  if (a->at->is_causal)  // those that the last query of the block sees
    t->keys = ie_min(p, t->keys, ie_addc(p, a->q0, a->queries));
  if (!reductions(t, &total, &sum)) return false;
  const LoopExpr *zero = real(t, 0), *by = op(t, LOOP_div, real(t, 1), total);
  by = loop_op(e->k, LOOP_select, op(t, LOOP_eq, total, zero), zero, by);
  e->guard[e->nguards++] = t->column;
  a->ragged = true;
  bool ok = attention_store(a, op(t, LOOP_mul, sum, by), i, t->column.sym);
  elem_unguard(e, 0);
  for (int depth = 0; depth < 3; depth++) loop_end(&e->b);
  return ok;
}

// ---- the choice ----

// What one block of a kind gets out of the units, and how many are on a multiprocessor at once.  Figures are from an H200.
static const struct Kind {
  TileSchedule s;
  int64_t size;  // of heads: up to so many elements, or where they must be whole, so many
  bool whole;
  int resident;
  double share, alone;  // with others on the multiprocessor, and without
  int beginning;        // cycles
} kinds[] = {
    {{1, TILE_KEYS, 2, 1}, 64, false, 4, 0.37, 0.20, 2900},
    {{1, TILE_KEYS, 2, 1}, 128, false, 2, 0.35, 0.20, 2900},
    {{2, TILE_RING_KEYS, 2, 1}, 128, true, 1, 0.75, 0.75, 6300},
    {{3, TILE_RING_KEYS, 2, 1}, 64, true, 1, 0.58, 0.58, 6300},
};

enum { RATE = 4096, SOME_LENGTH = 1024 };  // operations a cycle; where a length is not known

static int64_t number_or(Dim d, int64_t other) { return ie_is_const(d) ? d->value : other; }

// Sizes that the choice is made for.  An open length is the number of rows that is asked for, of one item; else an open batch is as many items as
// have so many.
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

// Cycles by waves of blocks over the multiprocessors; of causal attention half is left out, but not for one block of keys.
static double cycles_of(const Attention *a, const Sizes *n, const struct Kind *k) {
  int64_t units = a->e.lo->target.units;
  int64_t rows = TILE_ROWS * k->s.groups, blocks = (n->seq + rows - 1) / rows;
  int64_t items = n->batch * a->heads * blocks, at_once = units * k->resident;
  double keys = (double)((n->total + k->s.keys - 1) / k->s.keys * k->s.keys);
  if (a->at->is_causal) keys = (keys + (double)k->s.keys) / 2;
  int64_t beside = MIN(k->resident, (items + units - 1) / units);
  double item = (double)rows * keys * (double)(a->size + a->vsize) * 2 / RATE;
  double wave = beside > 1 ? item * (double)beside / k->share : item / k->alone;
  double waves = (double)((items + at_once - 1) / at_once);
  return waves * (wave + k->beginning);
}

static tenon_status lower_as(Lowering *lo, const Node *fused, const TileSchedule *s, Lowered *out) {
  TileAttention *t = arena_new(lo->arena, TileAttention);
  Attention *a = &t->a;
  LoopTile found;
  t->s = *s;
  *out = (Lowered){0};
  if (!attention_begin(a, lo, fused)) return TENON_EUNSUPPORTED;
  int columns = a->vsize <= 64 ? 64 : 128;
  a->queries = TILE_ROWS * s->groups * MAX(s->tiles, 1);
  a->offset = a->e.pool->zero;
  if (!build(t, columns)) return TENON_EUNSUPPORTED;
  elem_finish(&a->e, "", out);
  if (!loop_find_tile(out->kernel, &found) || out->kernel->nchecks) return TENON_EUNSUPPORTED;
  static const char *const product[] = {"", " tf32", " f32"};
  out->schedule =
      str_printf(lo->arena, "tile attention %dx%d keys %d stages %d warpgroups %d%s",
                 (int)a->queries, columns, s->keys, s->stages, s->groups, product[found.product]);
  return TENON_OK;
}

static bool takes(const struct Kind *k, const Attention *a) {
  if (k->whole) return a->size == k->size && a->vsize == k->size;
  return a->size <= k->size && a->vsize <= k->size;
}

// The most keys that the kernel is called with; 0: nobody knows.  Where queries and keys are as many and that is a symbol, it is called with its own alone.
static int64_t most_keys(const Attention *a) {
  const Lowering *lo = a->e.lo;
  if (ie_is_const(a->total)) return a->total->value;
  return a->total == a->seq && lo->open && lo->open->kind == IE_SYM ? lo->most : 0;
}

// Few keys are there all at once, for as many tiles of queries as leave some blocks for every multiprocessor.
static bool is_short(const Attention *a, const Sizes *sizes, TileSchedule *out) {
  // Causal attention over more than that leaves out blocks of keys.
  int64_t most = a->at->is_causal ? TILE_RING_KEYS : TILE_SHORT_KEYS, keys = most_keys(a);
  if (keys < 1 || keys > most) return false;
  int64_t tiles = (sizes->seq + TILE_ROWS - 1) / TILE_ROWS, heads = sizes->batch * a->heads;
  *out = (TileSchedule){.groups = 1, .keys = (int)(keys + 15) / 16 * 16, .stages = 1, .tiles = 1};
  for (int n = 2; n <= TILE_SHORT_TILES; n++)
    if ((tiles + n - 1) / n < (tiles + n - 2) / (n - 1) &&
        heads * ((tiles + n - 1) / n) >= 2 * a->e.lo->target.units)
      out->tiles = n;
  return true;
}

static tenon_status lower_short(Lowering *lo, const Node *fused, const TileSchedule *s,
                                Lowered *out) {
  lo->few = lo->open;
  tenon_status status = lower_as(lo, fused, s, out);
  lo->few = NULL;
  return status;
}

// The kind that takes least; operands may not lie as it wants them: then the first one that takes any.
tenon_status lower_tile_attention(Lowering *lo, const Node *fused, Lowered *out) {
  Attention *a = arena_new(lo->arena, Attention);
  const struct Kind *any = NULL, *best = NULL;
  Sizes n;
  if (!lo->target.tiles || !attention_begin(a, lo, fused) || a->nruns != 1 || a->nonpad)
    return TENON_EUNSUPPORTED;
  if (a->t != DT_F32 || a->size % 4 || a->vsize % 4) return TENON_EUNSUPPORTED;
  n = sizes_of(a);
  for (int64_t i = 0; i < ARRAY_LEN(kinds); i++) {
    const struct Kind *k = &kinds[i];
    if (!takes(k, a)) continue;
    if (!any) any = k;
    if (!best || cycles_of(a, &n, k) < cycles_of(a, &n, best)) best = k;
  }
  if (!any) return TENON_EUNSUPPORTED;
  TileSchedule few;
  if (is_short(a, &n, &few) && !lower_short(lo, fused, &few, out)) return TENON_OK;
  if (best != any && !lower_as(lo, fused, &best->s, out)) return TENON_OK;
  return lower_as(lo, fused, &any->s, out);
}
