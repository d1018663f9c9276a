// attention.c -- template attention: softmax(q k' + masks) v in one kernel, no score matrix.
//
// A work item is a block of queries of one head.  Keys come in blocks with an online softmax, so
// scratch has a constant size at any sequence length.  Scores are kept transposed, [key][query]:
// keys are read in place along their elements, a query's softmax stays in one lane, and the weights
// of several queries for one key are contiguous.  Only the item's queries are transposed.
//
// Needs:      one attention op, whose first result alone is used; constant head counts and sizes; a
//             float or bool mask of rank 4 at most; nonpad lengths only without a KV cache.  Batch,
//             sequence and cache lengths may be dynamic.
// Guarantees: sums in f32 (f64 for f64), keys in ascending order within a block, blocks in order.
//             Only `block` and `lane_sums` change bits.  A masked key has weight 0; a query without
//             keys gives 0.
#include "lower/cpu/attention.h"

#include "eval/attention.h"
#include "ir/internal.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD };
enum {
  WHOLE_KEYS = 256,
  BLOCK_KEYS = 128,
  MAX_SIZE = 1024,
  FEW = 4,
  ITEMS_FEW = 8,
  LANES_MANY = 16
};

// ---- what is computed ----

static const Node *find_anchor(ElementBuilder *e) {
  NodeList all = body_order(e->lo->g, e->body, e->a);
  const Node *found = NULL;
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_attention) continue;
    if (found) return NULL;
    found = all.v[i];
  }
  return found;
}

static bool is_tensor(const Node *n) {
  return n && type_of(n)->kind == TK_TENSOR && (type_of(n)->rank == 3 || type_of(n)->rank == 4) &&
         dtype_class(type_of(n)->dtype) == DC_FLOAT && elem_dtype(type_of(n)->dtype);
}

typedef struct Heads {
  int64_t heads, size;
  Dim seq;
} Heads;

static bool read_heads(Attention *a, const Node *n, int64_t heads, Heads *out) {
  const Type *t = type_of(n);
  bool packed = t->rank == 3;
  Dim h = packed ? NULL : t->dims[1], last = t->dims[t->rank - 1];
  if (!ie_is_const(last) || (h && !ie_is_const(h))) return false;
  out->heads = packed ? heads : h->value;
  if (out->heads < 1 || last->value % (packed ? out->heads : 1)) return false;
  out->size = packed ? last->value / heads : last->value;
  out->seq = elem_dim(&a->e, t->dims[packed ? 1 : 2]);
  return out->size >= 1 && out->size <= MAX_SIZE;
}

static bool read_runs(Attention *a) {
  Graph *g = a->e.lo->g;
  const Node *n = a->anchor, *pk = src_or_null(g, n, PAST_K), *pv = src_or_null(g, n, PAST_V);
  Heads k, v, past_k, past_v;
  if (!read_heads(a, n->src[K], a->at->kv_num_heads, &k)) return false;
  if (!read_heads(a, n->src[V], a->at->kv_num_heads, &v)) return false;
  a->kv_heads = k.heads;
  a->vsize = v.size;
  a->past = a->e.pool->zero;
  if (k.size != a->size || v.heads != k.heads || a->heads % k.heads) return false;
  if (pk || pv) {
    if (!is_tensor(pk) || !is_tensor(pv) || type_of(pk)->rank != 4 || type_of(pv)->rank != 4)
      return false;
    if (!read_heads(a, pk, 0, &past_k) || !read_heads(a, pv, 0, &past_v)) return false;
    a->past = past_k.seq;
    a->run[a->nruns++] = (KeyRun){.k = pk, .v = pv, .first = a->e.pool->zero, .count = a->past};
  }
  a->run[a->nruns++] = (KeyRun){.k = n->src[K], .v = n->src[V], .first = a->past, .count = k.seq};
  a->total = ie_add(a->e.pool, a->past, k.seq);
  a->offset = a->at->at_end ? ie_sub(a->e.pool, a->total, a->seq) : a->past;
  return true;
}

// A mask that is as long as the keys, or may be for all that is known; its other axes are those of
// the scores or 1.
static bool read_mask(Attention *a) {
  IntPool *p = a->e.pool;
  a->mask = src_or_null(a->e.lo->g, a->anchor, MASK);
  if (!a->mask) return true;
  const Type *t = type_of(a->mask);
  if (t->kind != TK_TENSOR || t->rank < 1 || t->rank > 4 || !elem_dtype(t->dtype)) return false;
  if (t->dtype != DT_BOOL && dtype_class(t->dtype) != DC_FLOAT) return false;
  Dim want[4] = {a->batch, ie_const(p, a->heads), a->seq, a->total};
  for (int i = 0; i < t->rank; i++) {
    Dim d = elem_dim(&a->e, t->dims[i]);
    bool last = i == t->rank - 1;
    Answer same = ie_eq(p, d, want[i + 4 - t->rank]);
    if (last && same == UNKNOWN) a->mask_keys = d;
    if (last ? same == NO : same != YES && !ie_is(d, 1)) return false;
  }
  return true;
}

static bool read_operands(Attention *a) {
  const Node *n = a->anchor;
  const attention_attrs *at = a->at = n->attrs;
  Heads q;
  for (int i = 0; i < 3; i++)
    if (!is_tensor(n->src[i])) return false;
  DType t = type_of(n->src[Q])->dtype, narrow = at->softmax_precision;
  if (at->left_window_size < -1 || at->right_window_size < -1) return false;
  a->nonpad = src_or_null(a->e.lo->g, n, NONPAD);
  if (a->nonpad && (type_of(a->nonpad)->kind != TK_TENSOR || type_of(a->nonpad)->rank != 1))
    return false;
  if (dtype_is_float(narrow) && dtype_bits(narrow) < dtype_bits(t)) return false;
  if (!read_heads(a, n->src[Q], at->q_num_heads, &q)) return false;
  a->t = t == DT_F64 ? DT_F64 : DT_F32;
  a->batch = elem_dim(&a->e, type_of(n->src[Q])->dims[0]);
  a->heads = q.heads;
  a->share = 1;
  a->size = q.size;
  a->seq = q.seq;
  a->scale = at->scale >= 0 ? at->scale : 1 / sqrt((double)a->size);
  return read_runs(a) && (!a->nonpad || a->nruns == 1) && read_mask(a) && !ie_is(a->seq, 0) &&
         !ie_is(a->batch, 0);
}

// ---- schedule ----

// Whether an element is more than a load.  Written apart, and thrown away.
static bool is_costly(Attention *a, const Node *n, bool *ok) {
  ElementBuilder *e = &a->e;
  LoopBuilder kept = e->b;
  Dim at[MAX_RANK], shape[MAX_RANK];
  elem_shape(e, type_of(n), shape);
  loop_begin(&e->b, e->k);
  for (int i = 0; i < type_of(n)->rank; i++) at[i] = loop_sym(e->k, "p", shape[i]);
  const LoopExpr *x = elem_at(e, n, at);
  e->b = kept;
  elem_forget(e);
  *ok &= x != NULL;
  return !x || x->kind != LX_LOAD || x->nguards || x->dtype != a->t;
}

// Scores are summed over the elements of a head in order; `lane_sums` divides them over lanes.  A
// block of keys has a maximum of its own.
#define ATTENTION_SCHEDULE(I, B, C, T)                                                             \
  I(T, queries, 0, 1, 128, 1, FREE, "queries of a work item")                                      \
  I(T, rows, 0, 1, 32, 1, FREE, "queries of a register tile of results")                           \
  I(T, cols, 0, 1, 256, 1, FREE, "columns of a register tile of results")                          \
  I(T, keys, 0, 1, 32, 1, FREE, "keys of a register tile of scores")                               \
  I(T, block, 0, 1, 1 << 16, 1, ORDER, "keys per block")                                           \
  B(T, lane_sums, false, ORDER, "sum a score over vector lanes, for few queries")                  \
  B(T, copy_k, false, FREE, "compute the keys of a block once, into scratch")                      \
  B(T, copy_v, false, FREE, "compute the values of a block once, into scratch")                    \
  B(T, copy_past_k, false, FREE, "the same for the keys of a KV cache")                            \
  B(T, copy_past_v, false, FREE, "the same for the values of a KV cache")
SCHEDULE_STRUCT(Attention, ATTENTION_SCHEDULE);
SCHEDULE_TABLE(Attention, ATTENTION_SCHEDULE);

// Which operands have elements that are more than a load.
typedef struct AttentionMatch {
  Attention a;
  bool costly_k[2], costly_v[2];  // by run
} AttentionMatch;

// Queries of an item: the number that leaves the fewest lanes empty; of those that leave as few,
// the one that comes first.  A long vector's half takes half the time.
static int64_t choose_queries(const Attention *a, int64_t lanes, int64_t registers) {
  static const int halves[] = {4, 5, 6, 3, 7};
  int64_t best = 2 * lanes, least = INT64_MAX;
  if (!ie_is_const(a->seq)) return best;
  int64_t seq = a->seq->value, heads = a->heads * (ie_is_const(a->batch) ? a->batch->value : 1);
  if (seq <= lanes) {
    while (best / 2 >= seq) best /= 2;
    return best;
  }
  for (int i = 0; i < ARRAY_LEN(halves); i++) {
    int64_t n = lanes * halves[i] / 2, blocks = (seq + n - 1) / n;
    bool wide = halves[i] > 4 && (heads * blocks < ITEMS_FEW || registers < 32);
    if (wide || (halves[i] % 2 && lanes < LANES_MANY) || n < 1 || blocks * n >= least) continue;
    least = blocks * n;
    best = n;
  }
  return best;
}

// Queries of a tile of results: of those that divide an item's, the number that computes the fewest
// rows beyond the last query, and loads the values for the most.
static int64_t choose_rows(const Attention *a, int64_t queries, int64_t most) {
  int64_t best = 1, last = ie_is_const(a->seq) ? (a->seq->value - 1) % queries + 1 : queries;
  int64_t whole = ie_is_const(a->seq) ? (a->seq->value - last) / queries : 1;
  double least = INFINITY;
  for (int64_t n = most; n > 0; n--) {
    if (queries % n) continue;
    double rows = (double)(whole * queries + (last + n - 1) / n * n);
    double cost = rows * (1 + 2 / (double)n);
    if (cost >= least) continue;
    least = cost;
    best = n;
  }
  return best;
}

static bool attention_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                             void *fields) {
  const AttentionMatch *m = match;
  const Attention *a = &m->a;
  AttentionSchedule *s = fields;
  int64_t lanes = t->vector_bytes / elem_bytes(a->t);
  int last = a->nruns - 1;
  s->cols = 2 * lanes;
  s->queries = choose_queries(a, lanes, t->vector_registers);
  schedule_keep(given, s);
  int64_t vectors = MAX((s->queries + lanes - 1) / lanes, 1);
  s->keys = MAX(MIN(t->vector_registers / 4, (t->vector_registers - vectors - 1) / vectors), 1);
  s->rows = choose_rows(a, s->queries, t->vector_registers / 4);
  s->lane_sums = ie_is_const(a->seq) && a->seq->value <= FEW;
  bool all = a->nruns == 1 && ie_is_const(a->total) && a->total->value <= WHOLE_KEYS;
  s->block = all ? MAX(a->total->value, 1) : BLOCK_KEYS;
  s->copy_k = m->costly_k[last];
  s->copy_v = m->costly_v[last];
  s->copy_past_k = last && m->costly_k[0];
  s->copy_past_v = last && m->costly_v[0];
  return true;
}

static bool attention_legal(const void *match, const LowerTarget *t, const void *fields,
                            const char **why) {
  enum { SCRATCH_MOST = 64 << 20, REGISTERS_MOST = 1 << 12 };  // bytes; elements
  const Attention *a = &((const AttentionMatch *)match)->a;
  const AttentionSchedule *s = fields;
  double scratch = (double)(s->block + s->keys) * (double)(s->queries + a->size + a->vsize) +
                   (double)s->queries * (double)(a->size + a->vsize);
  (void)t;
  *why = s->queries % s->rows ? "rows does not divide queries"
         : s->keys * s->queries > REGISTERS_MOST || s->rows * s->cols > REGISTERS_MOST
             ? "its register tiles are too large"
         : (s->copy_past_k || s->copy_past_v) && a->nruns < 2 ? "there is no KV cache to copy"
         : scratch * 8 > SCRATCH_MOST                         ? "its scratch is too large"
                                                              : NULL;
  return !*why;
}

// The schedule as the loops read it.
static void take_schedule(Attention *a, const AttentionSchedule *s) {
  a->queries = s->queries;
  a->rows = s->rows;
  a->width = s->cols;
  a->keys = s->keys;
  a->block = s->block;
  a->lane_sums = s->lane_sums;
  a->ragged = !ie_is_const(a->seq) || a->seq->value % a->queries;
  a->online = a->nruns > 1 || !ie_is_const(a->total) || a->total->value > a->block;
  a->run[a->nruns - 1].copy_k = s->copy_k;
  a->run[a->nruns - 1].copy_v = s->copy_v;
  if (a->nruns == 1) return;
  a->run[0].copy_k = s->copy_past_k;
  a->run[0].copy_v = s->copy_past_v;
}

static int32_t scratch(Attention *a, const char *name, int64_t n) {
  return loop_buffer(a->e.k, LOOP_SCRATCH, name, a->t, ie_const(a->e.pool, n), false);
}

static void make_buffers(Attention *a) {
  int64_t n = a->queries,
          keys = (a->block / a->keys + 1) * a->keys;  // with the tile of what is left
  bool copy_k = false, copy_v = false;
  for (int i = 0; i < a->nruns; i++) {
    copy_k |= a->run[i].copy_k;
    copy_v |= a->run[i].copy_v;
  }
  a->q = scratch(a, "q", a->size * n);
  a->s = scratch(a, "s", keys * n);
  a->k = copy_k ? scratch(a, "k", keys * a->size) : -1;
  a->v = copy_v ? scratch(a, "v", keys * a->vsize) : -1;
  a->top = scratch(a, "top", n);
  a->before = scratch(a, "before", n);
  a->sum = scratch(a, "sum", n);
  a->rescale = scratch(a, "rescale", n);
  a->out = a->online ? scratch(a, "out", n * a->vsize) : -1;
  a->never = scratch(a, "never", 1);
  a->tile = loop_buffer(a->e.k, LOOP_REGISTER, "tile", a->t,
                        ie_const(a->e.pool, MAX(a->keys * n, a->rows * a->width)), false);
  a->raw = a->lane_sums ? scratch(a, "raw", a->keys * n) : a->tile;
}

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  (void)index;
  return ((Attention *)ctx)->value;
}

// Every result is made from the weighted values; the scores are nobody's.
static bool good_results(Attention *a) {
  a->walk.own = epilogue_value(&a->walk, 0);
  if (!a->walk.own) return false;
  for (int i = 0; i < a->e.fused->nres; i++)
    if (!epilogue_reads(&a->walk, a->e.body->result[i])) return false;
  return true;
}

bool attention_begin(Attention *a, Lowering *lo, const Node *fused) {
  const fused_attrs *at = fused->attrs;
  if (at->kind != FUSED_ATTENTION || !elem_begin(&a->e, lo, fused, NULL, 0)) return false;
  if (!(a->anchor = find_anchor(&a->e)) || !read_operands(a)) return false;
  epilogue_begin(&a->walk, &a->e, a->anchor);
  if (!good_results(a)) return false;
  elem_give(&a->e, a->walk.own, give_value, a);
  return true;
}

static void *attention_match(Lowering *lo, const Node *fused) {
  AttentionMatch *m = arena_new(lo->arena, AttentionMatch);
  Attention *a = &m->a;
  bool ok = true;
  if (!attention_begin(a, lo, fused)) return NULL;
  lo->why = "an operand has no expression";
  is_costly(a, a->anchor->src[Q], &ok);
  if (a->mask) is_costly(a, a->mask, &ok);
  for (int i = 0; i < a->nruns; i++) {
    m->costly_k[i] = is_costly(a, a->run[i].k, &ok);
    m->costly_v[i] = is_costly(a, a->run[i].v, &ok);
  }
  return ok ? m : NULL;
}

static bool attention_build(void *match, const void *fields, Lowered *out) {
  Attention *a = &((AttentionMatch *)match)->a;
  take_schedule(a, fields);
  make_buffers(a);
  if (!attention_emit(a)) return false;
  elem_finish(&a->e, out);
  return true;
}

const TemplateCode template_attention = {.match = attention_match,
                                         .choose = attention_choose,
                                         .legal = attention_legal,
                                         .build = attention_build,
                                         SCHEDULE(Attention)};
