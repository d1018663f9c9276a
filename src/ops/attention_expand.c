// attention_expand.c -- attention and rotary embedding in terms of products, softmax and movement.
//
// Narrow floats are widened to f32 first, as the evaluation computes wider too.  Sizes that are not
// constants are taken from the operands at run time.
#include "eval/activation.h"
#include "eval/attention.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "ops/attention.h"

#include <math.h>

static Node *ints(Graph *g, int64_t v) { return node_i64s(g, 1, &v); }
static Node *to_type(Graph *g, Node *x, DType t) {
  if (g->status || type_of(x)->dtype == t) return x;
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}
static DType wide(DType t) { return dtype_bits(t) < 32 ? DT_F32 : t; }
static Node *num(Graph *g, const Node *like, double v) {
  return g->status ? g->poison : node_scalar(g, type_of(like)->dtype, v);
}
static Node *dim(Graph *g, Node *x, int i) {
  return NA(g, shape, (&(shape_attrs){.start = i, .end = i + 1}), x);
}
static Node *swap(Graph *g, Node *x, int64_t a, int64_t b) {
  int64_t perm[] = {0, 1, 2, 3}, t = perm[a];
  perm[a] = perm[b];
  perm[b] = t;
  return NA(g, transpose, (&(transpose_attrs){.perm = {4, perm}}), x);
}
static Node *concat(Graph *g, int64_t axis, int n, Node *const *x) {
  return node_new(g, OP_concat, n, x, &(concat_attrs){.axis = axis}, 1, NULL);
}
static Node *count_up(Graph *g, Node *n) {  // 0 .. n-1 of an i64[1]
  return N(g, range, node_i64(g, 0), N(g, reshape, n, node_i64s(g, 0, NULL)), node_i64(g, 1));
}

// [batch, seq, heads*size] to [batch, heads, seq, size]
static Node *heads_of(Graph *g, Node *x, int64_t heads) {
  if (g->status || type_of(x)->rank == 4) return x;
  return swap(g, N(g, reshape, x, node_i64s(g, 4, (int64_t[]){0, 0, heads, -1})), 1, 2);
}

typedef struct Expand {
  Graph *g;
  const Node *n;
  const attention_attrs *at;
  Node *q, *k, *v;  // rank 4, past joined, wide
  Node *total;      // i64[1]
} Expand;

// Rows of heads that share keys, one below the other: [batch, key heads, group*seq, x].
static Node *share(const Expand *e, Node *x, bool together) {
  Graph *g = e->g;
  if (g->status || type_of(e->q)->dims[1] == type_of(e->k)->dims[1]) return x;
  Node *parts[] = {dim(g, x, 0), dim(g, together ? e->k : e->q, 1), ints(g, -1), dim(g, x, 3)};
  return N(g, reshape, x, concat(g, 0, 4, parts));
}

static Node *scaled_scores(const Expand *e) {
  Graph *g = e->g;
  Node *s = share(e, N(g, mat_mul, share(e, e->q, true), swap(g, e->k, 2, 3)), false);
  if (e->at->scale >= 0) return N(g, mul, s, num(g, s, e->at->scale));
  if (g->status) return g->poison;
  Dim d = type_of(e->q)->dims[3];
  if (ie_is_const(d)) return N(g, mul, s, num(g, s, 1 / sqrt((double)d->value)));
  return N(g, div, s, N(g, sqrt, to_type(g, dim(g, e->q, 3), type_of(s)->dtype)));
}

// Which keys each query may see, by position alone; NULL: all.
static Node *visible(const Expand *e) {
  Graph *g = e->g;
  const attention_attrs *at = e->at;
  Node *nonpad = src_or_null(g, e->n, 6), *past = src_or_null(g, e->n, 4), *seen = NULL;
  Node *key = count_up(g, e->total), *at_key[3];
  int n = 0;
  if (nonpad) {
    nonpad = N(g, reshape, nonpad, node_i64s(g, 4, (int64_t[]){-1, 1, 1, 1}));
    at_key[n++] = N(g, lt, key, nonpad);
  }
  Node *row = N(g, reshape, count_up(g, dim(g, e->q, 2)), node_i64s(g, 2, (int64_t[]){-1, 1}));
  if (nonpad) row = N(g, add, row, N(g, sub, nonpad, dim(g, e->q, 2)));
  if (at->at_end && !nonpad)
    row = N(g, add, row, N(g, sub, e->total, dim(g, e->q, 2)));
  else if (past)
    row = N(g, add, row, dim(g, past, 2));
  int64_t right = at->is_causal ? 0 : at->right_window_size;
  if (right >= 0) at_key[n++] = N(g, le, key, N(g, add, row, node_i64(g, right)));
  if (at->left_window_size >= 0)
    at_key[n++] = N(g, le, N(g, sub, row, node_i64(g, at->left_window_size)), key);
  for (int i = 0; i < n; i++) seen = seen ? N(g, and, seen, at_key[i]) : at_key[i];
  return seen;
}

// The mask operand as long as the keys: what it lacks is not seen.
static Node *full_mask(const Expand *e, Node *m, Node *off) {
  Graph *g = e->g;
  if (g->status) return g->poison;
  const Type *t = type_of(m);
  if (t->dims[t->rank - 1] == type_of(e->k)->dims[2]) return m;
  Node *zeros = node_i64s(g, 2 * t->rank - 1, (int64_t[2 * MAX_RANK]){0});
  Node *more = N(g, sub, e->total, dim(g, m, t->rank - 1)), *pads[] = {zeros, more};
  return N(g, pad, m, concat(g, 0, 2, pads), off);
}

// Scores with everything that may not be seen at -inf.
static Node *biased(const Expand *e, Node *s) {
  Graph *g = e->g;
  Node *m = src_or_null(g, e->n, 3), *seen = visible(e), *off = num(g, s, -INFINITY);
  if (g->status) return g->poison;
  if (m && type_of(m)->dtype == DT_BOOL)
    s = N(g, where, full_mask(e, m, node_scalar(g, DT_BOOL, 0)), s, off);
  else if (m)
    s = N(g, add, s, full_mask(e, to_type(g, m, type_of(s)->dtype), off));
  return seen ? N(g, where, seen, s, off) : s;
}

// A row without keys is zero, not NaN.
static Node *softmax_or_zero(Graph *g, Node *s) {
  Node *axis = ints(g, -1), *max = N(g, reduce_max, s, axis), *zero = num(g, s, 0);
  Node *from = N(g, where, N(g, eq, max, num(g, s, -INFINITY)), zero, max);
  Node *e = N(g, exp, N(g, sub, s, from)), *sum = N(g, reduce_sum, e, axis);
  return N(g, div, e, N(g, where, N(g, eq, sum, zero), num(g, s, 1), sum));
}

static Node *joined(Graph *g, const Node *n, int past, Node *x) {
  Node *parts[] = {src_or_null(g, n, (uint32_t)past), x};
  return parts[0] ? concat(g, 2, 2, parts) : x;
}

// Ranks that an expansion needs to know; the evaluation needs none.
static bool ranks_known(Graph *g, const Node *n) {
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (n->src[i] != g->none && type_of(n->src[i])->rank < 1) return false;
  return true;
}

void expand_attention(Graph *g, const Node *n, Node **out) {
  if (!ranks_known(g, n)) return;
  Expand e = {.g = g, .n = n, .at = n->attrs};
  const attention_attrs *at = e.at;
  DType t = type_of(n->src[0])->dtype, tw = wide(t);
  Node *k = joined(g, n, 4, heads_of(g, n->src[1], at->kv_num_heads));
  Node *v = joined(g, n, 5, heads_of(g, n->src[2], at->kv_num_heads));
  e.q = to_type(g, heads_of(g, n->src[0], at->q_num_heads), tw);
  e.k = to_type(g, k, tw);
  e.v = to_type(g, v, tw);
  e.total = dim(g, e.k, 2);
  Node *qk[4];
  qk[QK_RAW] = scaled_scores(&e);
  Node *cap = num(g, qk[QK_RAW], at->softcap);
  qk[QK_CAPPED] =
      at->softcap > 0 ? N(g, mul, cap, N(g, tanh, N(g, div, qk[QK_RAW], cap))) : qk[QK_RAW];
  qk[QK_BIASED] = biased(&e, qk[QK_CAPPED]);
  DType p = at->softmax_precision;
  bool narrow = dtype_is_float(p) && dtype_bits(p) < dtype_bits(t);
  Node *s = narrow ? to_type(g, qk[QK_BIASED], p) : qk[QK_BIASED];
  qk[QK_SOFTMAX] = to_type(g, softmax_or_zero(g, s), tw);
  Node *y = share(&e, N(g, mat_mul, share(&e, qk[QK_SOFTMAX], true), e.v), false);
  if (!g->status && type_of(n->src[0])->rank == 3)
    y = N(g, reshape, swap(g, y, 1, 2), node_i64s(g, 3, (int64_t[]){0, 0, -1}));
  Node *all[] = {to_type(g, y, t), k, v, to_type(g, qk[at->qk_matmul_output_mode], t)};
  for (int i = 0; i < n->nres; i++) out[i] = all[i];
}

// ---- rotary embedding ----

static Node *part(Graph *g, Node *x, int64_t begin, int64_t end, int64_t step) {
  return N(g, slice, x, ints(g, begin), ints(g, end), ints(g, -1), ints(g, step));
}

void expand_rotary_embedding(Graph *g, const Node *n, Node **out) {
  if (!ranks_known(g, n)) return;
  const rotary_embedding_attrs *at = n->attrs;
  DType t = type_of(n->src[0])->dtype, tw = wide(t);
  bool packed = type_of(n->src[0])->rank == 3;
  Node *x = n->src[0], *ids = src_or_null(g, n, 3), *angle[2];
  if (packed) x = N(g, reshape, x, node_i64s(g, 4, (int64_t[]){0, 0, at->num_heads, -1}));
  for (int i = 0; i < 2; i++) {
    Node *a = ids ? N(g, gather, n->src[1 + i], ids) : n->src[1 + i];
    angle[i] = N(g, unsqueeze, to_type(g, a, tw), ints(g, packed ? 2 : 1));
  }
  int64_t rotary = at->rotary_embedding_dim;
  Node *turn = to_type(g, rotary ? part(g, x, 0, rotary, 1) : x, tw), *half[2];
  if (at->interleaved) {
    half[0] = part(g, turn, 0, INT64_MAX, 2);
    half[1] = part(g, turn, 1, INT64_MAX, 2);
  } else {
    Node *two = node_new(g, OP_split, 1, &turn, &(split_attrs){.axis = -1}, 2, NULL);
    for (int i = 0; i < 2; i++) half[i] = node_proj(g, two, i);
  }
  Node *done[] = {N(g, sub, N(g, mul, angle[0], half[0]), N(g, mul, angle[1], half[1])),
                  N(g, add, N(g, mul, angle[1], half[0]), N(g, mul, angle[0], half[1]))};
  Node *y;
  if (at->interleaved) {
    for (int i = 0; i < 2; i++) done[i] = N(g, unsqueeze, done[i], ints(g, -1));
    y = N(g, reshape, concat(g, -1, 2, done), N(g, shape, turn));
  } else {
    y = concat(g, -1, 2, done);
  }
  y = to_type(g, y, t);
  if (rotary) y = concat(g, -1, 2, (Node *[]){y, part(g, x, rotary, INT64_MAX, 1)});
  out[0] = packed ? N(g, reshape, y, N(g, shape, n->src[0])) : y;
}
