// import_contrib_attention.c -- ONNX Runtime's attention operators, brought to the one attention
// op.
//
// What differs is how projections, biases, masks, positions and the cache come in.  A padding mask
// of the runtime adds mask_filter_value instead of removing a key, so it becomes a mask of numbers
// here.
#include "eval/attention.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "frontends/onnx/import_build.h"

#include <math.h>

typedef struct Parts {
  Node *q, *k, *v;        // rank 3, or all of rank 4
  Node *past_k, *past_v;  // rank 4, or NULL
  Node *mask;             // NULL: none
  attention_attrs at;
} Parts;

static void parts_init(ImportNode *n, Parts *p) {
  *p = (Parts){0};
  attrs_defaults(op_attention.attrs, op_attention.nattrs, &p->at);
  double scale = import_f64(n, "scale", 0);
  if (scale > 0) p->at.scale = scale;
  p->at.q_num_heads = p->at.kv_num_heads = import_i64(n, "num_heads", 0);
}

static tenon_status need_heads(ImportNode *n, const Parts *p) {
  if (p->at.q_num_heads > 0 && p->at.kv_num_heads > 0 && p->at.scale >= -1) return TENON_OK;
  return import_fail(n, TENON_EINVAL, "the number of heads is missing");
}

static Node *attend(ImportNode *n, const Parts *p, int nres) {
  Graph *g = n->g;
  Node *src[] = {
      p->q, p->k, p->v, or_none(g, p->mask), or_none(g, p->past_k), or_none(g, p->past_v)};
  return node_new(g, OP_attention, ARRAY_LEN(src), src, &p->at, nres, n->name);
}

// ---- masks ----

// 0 where a key may be seen, else the value that the runtime adds; `seen` is bool.
static Node *filter_mask(ImportNode *n, Node *seen, DType t) {
  Graph *g = n->g;
  double filter = import_f64(n, "mask_filter_value", -10000);
  return N(g, where, seen, node_scalar(g, t, 0), node_scalar(g, t, filter));
}

// Keys from each sequence's start to its end: [batch, 1, 1, total], bool.
static Node *range_mask(Graph *g, Node *end, Node *start, Node *total) {
  static const int64_t shape[] = {-1, 1, 1, 1};
  Node *size = N(g, reshape, total, node_i64s(g, 0, NULL));
  Node *at = N(g, range, node_i64(g, 0), size, node_i64(g, 1));
  Node *from = build_reshape(g, build_cast(g, start, DT_I64), 4, shape);
  Node *before = N(g, lt, at, build_reshape(g, build_cast(g, end, DT_I64), 4, shape));
  return N(g, and, before, N(g, le, from, at));
}

// Ends of the sequences, or ends and then starts.  The length tells, which may be known only at run
// time: with zeros behind, the second part is the starts or zeros.
static Node *length_mask(Graph *g, Node *m, Node *batch, Node *total) {
  Node *zero = node_i64s(g, 1, (int64_t[]){0}), *two = N(g, mul, batch, node_i64(g, 2));
  Node *long_mask = N(g, pad, m, build_concat(g, 0, 2, (Node *[]){zero, batch}));
  Node *end = N(g, slice, m, zero, batch, zero), *start = N(g, slice, long_mask, batch, two, zero);
  return range_mask(g, end, start, total);
}

// The runtime's mask input, whatever its form, against keys of length `total` (i64[1]).
static tenon_status padding_mask(ImportNode *n, Node *m, Node *batch, Node *total, Parts *p) {
  Graph *g = n->g;
  if (!m) return TENON_OK;
  TRY(build_known_rank(n, m));
  const Type *t = type_of(m), *tq = type_of(p->q);
  Node *seen = NULL;
  if (t->rank == 2 || t->rank == 3) {
    seen = N(g, lt, build_num(g, m, 0), m);
    seen = N(g, unsqueeze, seen, node_i64s(g, t->rank == 2 ? 2 : 1, (int64_t[]){1, 2}));
  } else if (t->rank == 1) {
    seen = length_mask(g, m, batch, total);
  } else {
    return import_fail(n, TENON_EUNSUPPORTED, "a mask of rank %d is not supported", t->rank);
  }
  p->mask = filter_mask(n, seen, tq->dtype);
  return graph_status(g);
}

// ---- Attention, QAttention: one projection for query, key and value ----

static tenon_status split_projection(ImportNode *n, Node *qkv, Parts *p) {
  Graph *g = n->g;
  Ints sizes;
  int64_t split[3];
  if (import_ints(n, "qkv_hidden_sizes", &sizes) && sizes.n == 3) {
    memcpy(split, sizes.v, sizeof split);
  } else {
    const Type *weights = type_of(n->in[1]);
    Dim w = weights->rank == 2 ? weights->dims[1] : NULL;
    if (!w || !ie_is_const(w))
      return import_fail(n, TENON_EUNSUPPORTED, "the projection's width is not known");
    if (w->value % 3)
      return import_fail(n, TENON_EINVAL, "the projection's width is %lld, no multiple of 3",
                         (long long)w->value);
    split[0] = split[1] = split[2] = w->value / 3;
  }
  Node *src[] = {qkv, node_i64s(g, 3, split)};
  Node *parts = node_new(g, OP_split, 2, src, &(split_attrs){.axis = -1}, 3, n->name);
  p->q = node_proj(g, parts, 0);
  p->k = node_proj(g, parts, 1);
  p->v = node_proj(g, parts, 2);
  return graph_status(g);
}

static tenon_status projected(ImportNode *n, Node *qkv, Node *mask, Node *past, Node *bias) {
  Graph *g = n->g;
  Parts p;
  parts_init(n, &p);
  TRY(need_heads(n, &p));
  TRY(build_refuse_attr(n, "do_rotary", 0));
  TRY(build_refuse_attr(n, "past_present_share_buffer", 0));
  TRY(split_projection(n, qkv, &p));
  p.at.is_causal = import_i64(n, "unidirectional", 0) != 0;
  Node *total = build_dim(g, p.k, 1);
  if (past) {
    p.past_k = build_squeeze(g, build_slice(g, past, 0, 0, 1), 0);
    p.past_v = build_squeeze(g, build_slice(g, past, 0, 1, 2), 0);
    total = N(g, add, total, build_dim(g, past, 3));
  }
  TRY(graph_status(g));
  TRY(padding_mask(n, mask, build_dim(g, p.q, 0), total, &p));
  if (bias) p.mask = p.mask ? N(g, add, p.mask, bias) : bias;
  Node *y = attend(n, &p, n->nout > 1 ? 3 : 1);
  build_give(n, 0, node_proj(g, y, 0));
  if (n->nout > 1) {
    Node *kv[] = {build_unsqueeze(g, node_proj(g, y, 1), 0),
                  build_unsqueeze(g, node_proj(g, y, 2), 0)};
    build_give(n, 1, build_concat(g, 0, 2, kv));
  }
  return build_done(n);
}

static tenon_status ms_attention(ImportNode *n) {
  TRY(build_need(n, 2, 6));
  Node *qkv = build_add_opt(n->g, N(n->g, mat_mul, n->in[0], n->in[1]), build_in(n, 2));
  return projected(n, qkv, build_in(n, 3), build_in(n, 4), build_in(n, 5));
}

static tenon_status q_attention(ImportNode *n) {
  TRY(build_need(n, 5, 9));
  Graph *g = n->g;
  Node *az = build_in(n, 6), *wz = build_in(n, 7);
  Node *src[] = {n->in[0], n->in[1], or_none(g, az), or_none(g, wz)};
  Node *sum = node_new(g, OP_mat_mul_integer, 4, src, NULL, 1, n->name);
  Node *y = N(g, mul, build_cast(g, sum, DT_F32), N(g, mul, n->in[3], n->in[4]));
  return projected(n, N(g, add, y, n->in[2]), build_in(n, 5), build_in(n, 8), NULL);
}

// ---- MultiHeadAttention ----

// [batch, seq, heads*size] to [batch, heads, seq, size]
static Node *to_heads(Graph *g, Node *x, int64_t heads) {
  Node *y = build_reshape(g, x, 4, (int64_t[]){0, 0, heads, -1});
  return build_transpose(g, y, 4, (int64_t[]){0, 2, 1, 3});
}
static Node *from_heads(Graph *g, Node *x) {
  Node *y = build_transpose(g, x, 4, (int64_t[]){0, 2, 1, 3});
  return build_reshape(g, y, 3, (int64_t[]){0, 0, -1});
}

// One of `count` interleaved tensors of [batch, seq, heads, count, size], packed.
static Node *unpack(Graph *g, Node *x, int64_t i) {
  Node *one = build_squeeze(g, build_slice(g, x, 3, i, i + 1), 3);
  return build_reshape(g, one, 3, (int64_t[]){0, 0, -1});
}

// An input whose rank is not known is taken to be of the usual form, rank 3.
static tenon_status mha_inputs(ImportNode *n, Parts *p) {
  Graph *g = n->g;
  Node *k = build_in(n, 1), *v = build_in(n, 2);
  p->q = n->in[0];
  if (!k) {
    if (type_of(p->q)->rank != 5) return import_fail(n, TENON_EINVAL, "no key is given");
    p->k = unpack(g, n->in[0], 1);
    p->v = unpack(g, n->in[0], 2);
    p->q = unpack(g, n->in[0], 0);
    return graph_status(g);
  }
  if (type_of(k)->rank == 5) {
    p->k = unpack(g, k, 0);
    p->v = unpack(g, k, 1);
    return graph_status(g);
  }
  if (!v) return import_fail(n, TENON_EINVAL, "no value is given");
  p->k = k;
  p->v = v;
  return TENON_OK;
}

// Adds the projections' bias, [q, k, v] in one vector.
static tenon_status mha_bias(ImportNode *n, Node *bias, bool keys, Parts *p) {
  Graph *g = n->g;
  if (!bias) return TENON_OK;
  TRY(graph_status(g));
  Dim w = type_of(p->q)->rank == 3 ? type_of(p->q)->dims[2] : NULL;
  if (!w || !ie_is_const(w))
    return import_fail(n, TENON_EUNSUPPORTED, "the query's width is not known");
  int64_t h = w->value;
  p->q = N(g, add, p->q, build_slice(g, bias, 0, 0, h));
  if (!keys) return graph_status(g);
  p->k = N(g, add, p->k, build_slice(g, bias, 0, h, 2 * h));
  p->v = N(g, add, p->v, build_slice(g, bias, 0, 2 * h, INT64_MAX));
  return graph_status(g);
}

// From key layout and masks to the results; bias, mask, attention bias, past key and past value are
// given by their places.
static tenon_status mha_run(ImportNode *n, Parts *p, Node *bias, Node *mask, Node *extra) {
  Graph *g = n->g;
  TRY(need_heads(n, p));
  bool four = type_of(p->k)->rank == 4;
  TRY(mha_bias(n, bias, !four, p));
  Node *total = build_dim(g, p->k, four ? 2 : 1);
  if (p->past_k) total = N(g, add, total, build_dim(g, p->past_k, 2));
  TRY(graph_status(g));
  TRY(padding_mask(n, mask, build_dim(g, p->q, 0), total, p));
  if (extra) p->mask = p->mask ? N(g, add, p->mask, extra) : extra;
  if (four) p->q = to_heads(g, p->q, p->at.q_num_heads);
  Node *y = attend(n, p, MIN(MAX(n->nout, 1), 3));
  Node *out = node_proj(g, y, 0);
  build_give(n, 0, four ? from_heads(g, out) : out);
  for (int i = 1; i < 3 && i < n->nout; i++) build_give(n, i, node_proj(g, y, i));
  return build_done(n);
}

static tenon_status multi_head_attention(ImportNode *n) {
  TRY(build_need(n, 1, 10));
  Parts p;
  parts_init(n, &p);
  TRY(mha_inputs(n, &p));
  p.at.is_causal = import_i64(n, "unidirectional", 0) != 0;
  p.past_k = build_in(n, 6);
  p.past_v = build_in(n, 7);
  if (build_in(n, 8) || build_in(n, 9))
    return import_fail(n, TENON_EUNSUPPORTED, "a cache shared between past and present");
  return mha_run(n, &p, build_in(n, 3), build_in(n, 4), build_in(n, 5));
}

static tenon_status decoder_masked_mha(ImportNode *n) {
  TRY(build_need(n, 3, 11));
  TRY(build_refuse_attr(n, "past_present_share_buffer", 0));
  Parts p;
  parts_init(n, &p);
  TRY(mha_inputs(n, &p));
  p.past_k = build_in(n, 5);
  p.past_v = build_in(n, 6);
  if (build_in(n, 7) || build_in(n, 8) || build_in(n, 9))
    return import_fail(n, TENON_EUNSUPPORTED, "a cache shared between past and present, or beams");
  return mha_run(n, &p, build_in(n, 10), build_in(n, 3), build_in(n, 4));
}

// ---- RotaryEmbedding ----

// Positions [batch, seq] of rows that start at `first` ([batch or 1]).
static Node *positions_from(Graph *g, Node *first, Node *x, int seq_axis) {
  Node *from = build_reshape(g, build_cast(g, first, DT_I64), 2, (int64_t[]){-1, 1});
  return N(g, add, from, build_positions(g, x, seq_axis));
}

static tenon_status ms_rotary_embedding(ImportNode *n) {
  TRY(build_need(n, 4, 4));
  Graph *g = n->g;
  TRY(build_refuse_attr(n, "is_packed_batching", 0));
  if (import_f64(n, "scale", 1) != 1) return import_fail(n, TENON_EUNSUPPORTED, "scale is not 1");
  Node *x = n->in[0], *ids = n->in[1];
  TRY(build_known_rank(n, x));
  TRY(build_known_rank(n, ids));
  const Type *t = type_of(x), *tc = type_of(n->in[2]);
  rotary_embedding_attrs at = {.interleaved = import_i64(n, "interleaved", 0) != 0,
                               .num_heads = import_i64(n, "num_heads", 0),
                               .rotary_embedding_dim = import_i64(n, "rotary_embedding_dim", 0)};
  if (t->rank == 3 && at.num_heads == 0) {  // then the cache is as wide as a head
    Dim half = tc->rank == 2 ? tc->dims[1] : NULL;
    if (!half || !ie_is_const(half) || half->value < 1 || !ie_is_const(t->dims[2]))
      return import_fail(n, TENON_EUNSUPPORTED, "the number of heads is not known");
    at.num_heads = t->dims[2]->value / (2 * half->value);
  }
  if (type_of(ids)->rank != 2) {
    int seq = t->rank == 3 ? 1 : 2;
    Node *shape[] = {build_dim(g, x, 0), build_dim(g, x, seq)};
    ids = N(g, expand, positions_from(g, ids, x, seq), build_concat(g, 0, 2, shape));
  }
  build_give(n, 0, NA(g, rotary_embedding, &at, x, n->in[2], n->in[3], ids));
  return build_done(n);
}

// ---- GroupQueryAttention ----

typedef struct Gqa {
  Parts p;
  Node *past_len;  // [batch] i64: keys before this call's first query
  Node *lengths;   // [batch] i64: keys with this call's
  Node *total;     // i64[1]: the longest of them
} Gqa;

static tenon_status gqa_inputs(ImportNode *n, Gqa *a) {
  Graph *g = n->g;
  static const char *const refused[] = {"sliding_window_cache", "kv_cache_bit_width", "qk_output"};
  for (int i = 0; i < ARRAY_LEN(refused); i++) TRY(build_refuse_attr(n, refused[i], 0));
  Parts *p = &a->p;
  parts_init(n, p);
  p->at.kv_num_heads = import_i64(n, "kv_num_heads", 0);
  p->at.softcap = import_f64(n, "softcap", 0);
  TRY(need_heads(n, p));
  p->q = n->in[0];
  p->k = build_in(n, 1);
  p->v = build_in(n, 2);
  if (!p->k != !p->v) return import_fail(n, TENON_EINVAL, "key and value come together or not");
  if (!p->k) {
    Dim w = type_of(p->q)->rank == 3 ? type_of(p->q)->dims[2] : NULL;
    int64_t hq = p->at.q_num_heads, hkv = p->at.kv_num_heads;
    if (!w || !ie_is_const(w))
      return import_fail(n, TENON_EUNSUPPORTED, "the packed input's width is not known");
    if (hq > 1 << 20 || hkv > 1 << 20 || w->value % (hq + 2 * hkv))
      return import_fail(n, TENON_EINVAL, "the packed input's width does not fit the heads");
    int64_t size = w->value / (hq + 2 * hkv), split[3] = {hq * size, hkv * size, hkv * size};
    Node *src[] = {p->q, node_i64s(g, 3, split)};
    Node *parts = node_new(g, OP_split, 2, src, &(split_attrs){.axis = -1}, 3, n->name);
    p->q = node_proj(g, parts, 0);
    p->k = node_proj(g, parts, 1);
    p->v = node_proj(g, parts, 2);
  }
  // seqlens_k holds the last key's position.  A call whose length is the total is a prompt: it has
  // no past, also where sequences are padded at the end.
  Node *seq = build_dim(g, p->q, 1);
  a->total = build_reshape(g, build_cast(g, n->in[6], DT_I64), 1, (int64_t[]){1});
  Node *last = build_reshape(g, build_cast(g, n->in[5], DT_I64), 1, (int64_t[]){-1});
  a->lengths = N(g, add, last, node_i64(g, 1));
  a->past_len = N(g, where, N(g, eq, seq, a->total), node_i64(g, 0), N(g, sub, a->lengths, seq));
  return graph_status(g);
}

static Node *norm_heads(Graph *g, Node *x, Node *weight, int64_t heads, double epsilon) {
  Node *y = build_reshape(g, x, 4, (int64_t[]){0, 0, heads, -1});
  rms_normalization_attrs at = {.axis = -1, .epsilon = epsilon, .stash_type = 1};
  return build_reshape(g, NA(g, rms_normalization, &at, y, weight), 3, (int64_t[]){0, 0, -1});
}

static tenon_status gqa_positions(ImportNode *n, Gqa *a) {
  Graph *g = n->g;
  Parts *p = &a->p;
  if (build_in(n, 14) && build_in(n, 15)) {
    double eps = import_f64(n, "qk_norm_epsilon", (double)1e-6f);
    p->q = norm_heads(g, p->q, n->in[14], p->at.q_num_heads, eps);
    p->k = norm_heads(g, p->k, n->in[15], p->at.kv_num_heads, eps);
  }
  if (!import_i64(n, "do_rotary", 0)) return graph_status(g);
  if (!build_in(n, 7) || !build_in(n, 8))
    return import_fail(n, TENON_EINVAL, "do_rotary needs the caches of cosines and sines");
  Node *ids = build_in(n, 9);
  if (!ids) {
    // Positions in the padding are 1, as the runtime has them.
    Node *at = positions_from(g, a->past_len, p->q, 1);
    Node *end = build_reshape(g, a->lengths, 2, (int64_t[]){-1, 1});
    ids = N(g, where, N(g, lt, at, end), at, node_i64(g, 1));
  }
  const Type *tc = type_of(n->in[7]);
  Dim half = tc->rank == 2 ? tc->dims[1] : NULL;
  rotary_embedding_attrs at = {.interleaved = import_i64(n, "rotary_interleaved", 0) != 0,
                               .num_heads = p->at.q_num_heads};
  if (half && ie_is_const(half)) at.rotary_embedding_dim = 2 * half->value;
  p->q = NA(g, rotary_embedding, &at, p->q, n->in[7], n->in[8], ids);
  at.num_heads = p->at.kv_num_heads;
  p->k = NA(g, rotary_embedding, &at, p->k, n->in[7], n->in[8], ids);
  return graph_status(g);
}

// The cache with this call's keys written where each sequence ends, zeros after them; grown when
// the total asks for it.
static Node *cached(Graph *g, const Gqa *a, Node *past, Node *now) {
  if (!past) return now;
  Node *zeros = node_i64s(g, 6, (int64_t[]){0, 0, 0, 0, 0, 0});
  Node *more = N(g, max, N(g, sub, a->total, build_dim(g, past, 2)), node_i64(g, 0));
  Node *pads[] = {zeros, more, node_i64s(g, 1, (int64_t[]){0})};
  Node *room = N(g, pad, past, build_concat(g, 0, 3, pads));
  Node *all = NA(g, tensor_scatter, (&(tensor_scatter_attrs){.axis = 2}), room, now, a->past_len);
  Node *end = N(g, add, a->past_len, build_dim(g, now, 2));
  Node *at = build_reshape(g, build_positions(g, all, 2), 2, (int64_t[]){-1, 1});
  Node *used = N(g, lt, at, build_reshape(g, end, 4, (int64_t[]){-1, 1, 1, 1}));
  return N(g, where, used, all, build_num(g, all, 0));
}

// Which keys a query sees, [batch, 1, seq, total].
static Node *gqa_seen(ImportNode *n, const Gqa *a) {
  Graph *g = n->g;
  static const int64_t per_batch[] = {-1, 1, 1, 1};
  Node *size = N(g, reshape, a->total, node_i64s(g, 0, NULL));
  Node *key = N(g, range, node_i64(g, 0), size, node_i64(g, 1));
  Node *seen = N(g, lt, key, build_reshape(g, a->lengths, 4, per_batch));
  if (!import_i64(n, "causal", 1)) return seen;
  Node *row = build_reshape(g, build_positions(g, a->p.q, 1), 2, (int64_t[]){-1, 1});
  Node *at = N(g, add, build_reshape(g, a->past_len, 4, per_batch), row);
  seen = N(g, and, seen, N(g, le, key, at));
  int64_t window = import_i64(n, "local_window_size", -1);
  if (window > 0) seen = N(g, and, seen, N(g, lt, N(g, sub, at, node_i64(g, window)), key));
  return seen;
}

// A sink takes part in every softmax as a key of score `sink` and value 0.
static tenon_status gqa_sink(ImportNode *n, Gqa *a) {
  Graph *g = n->g;
  Node *sink = build_in(n, 11);
  bool smooth = import_i64(n, "smooth_softmax", -1) == 1;
  if (!sink && !smooth) return TENON_OK;
  Parts *p = &a->p;
  DType t = type_of(p->q)->dtype;
  Node *bias = sink ? build_reshape(g, sink, 4, (int64_t[]){1, -1, 1, 1}) : node_scalar(g, t, 0);
  Node *mask = type_of(p->mask)->dtype != DT_BOOL
                   ? p->mask
                   : N(g, where, p->mask, node_scalar(g, t, 0), node_scalar(g, t, -INFINITY));
  Node *heads = node_i64s(g, 1, &p->at.q_num_heads), *one = node_i64s(g, 1, (int64_t[]){1});
  Node *batch = build_dim(g, p->q, 0), *seq = build_dim(g, p->q, 2);
  Node *full[] = {batch, heads, seq, a->total}, *column[] = {batch, heads, seq, one};
  Node *wide[] = {N(g, expand, mask, build_concat(g, 0, 4, full)),
                  N(g, expand, bias, build_concat(g, 0, 4, column))};
  p->mask = build_concat(g, 3, 2, wide);
  Node *pads = node_i64s(g, 8, (int64_t[]){0, 0, 0, 0, 0, 0, 1, 0});
  p->k = N(g, pad, p->k, pads);
  p->v = N(g, pad, p->v, pads);
  return graph_status(g);
}

static tenon_status group_query_attention(ImportNode *n) {
  TRY(build_need_these(n, 1u << 0 | 1u << 5 | 1u << 6, 16));
  Graph *g = n->g;
  if (build_in(n, 12) || build_in(n, 13))
    return import_fail(n, TENON_EUNSUPPORTED, "a quantized cache is not supported");
  Gqa a = {0};
  Parts *p = &a.p;
  TRY(gqa_inputs(n, &a));
  TRY(gqa_positions(n, &a));
  Node *seen = gqa_seen(n, &a), *bias = build_in(n, 10);
  Node *k = cached(g, &a, build_in(n, 3), to_heads(g, p->k, p->at.kv_num_heads));
  Node *v = cached(g, &a, build_in(n, 4), to_heads(g, p->v, p->at.kv_num_heads));
  build_give(n, 1, k);
  build_give(n, 2, v);
  Node *zero = node_i64s(g, 1, (int64_t[]){0}), *axis = node_i64s(g, 1, (int64_t[]){2});
  p->q = to_heads(g, p->q, p->at.q_num_heads);
  p->k = N(g, slice, k, zero, a.total, axis);
  p->v = N(g, slice, v, zero, a.total, axis);
  TRY(graph_status(g));
  DType t = type_of(p->q)->dtype;
  p->mask = bias ? N(g, where, seen, bias, node_scalar(g, t, -INFINITY)) : seen;
  TRY(graph_status(g));
  TRY(gqa_sink(n, &a));
  build_give(n, 0, from_heads(g, attend(n, p, 1)));
  return build_done(n);
}

static const ImportRow rows[] = {
    // clang-format off
    {"com.microsoft", "Attention",                       0, 0, ms_attention,          NULL},
    {"com.microsoft", "QAttention",                      0, 0, q_attention,           NULL},
    {"com.microsoft", "MultiHeadAttention",              0, 0, multi_head_attention,  NULL},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention", 0, 0, decoder_masked_mha,    NULL},
    {"com.microsoft", "RotaryEmbedding",                 0, 0, ms_rotary_embedding,   NULL},
    {"com.microsoft", "GroupQueryAttention",             0, 0, group_query_attention, NULL},
    // clang-format on
};
const ImportTable onnx_rows_contrib_attention = {rows, ARRAY_LEN(rows)};
