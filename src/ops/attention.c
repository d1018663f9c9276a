// attention.c -- records of attention, rotary embedding, linear attention and swiglu.
#include "eval/attention.h"
#include "eval/activation.h"
#include "ops/attention.h"

// Batch, heads, sequence and head size of an operand of rank 3 or 4; any of them NULL when not
// known.
typedef struct HeadDims {
  bool known, packed;
  Dim batch, heads, seq, size;
} HeadDims;

static tenon_status split_heads(Infer *in, int i, Dim width, int64_t heads, Dim *size) {
  IntPool *p = &in->g->dims;
  if (heads < 1 || (ie_is_const(width) && width->value % heads))
    return infer_fail(in, TENON_EINVAL, "operand %d cannot be divided into %lld heads", i,
                      (long long)heads);
  *size = ie_div(p, width, ie_const(p, heads));
  return TENON_OK;
}

static tenon_status head_dims(Infer *in, int i, int64_t heads, HeadDims *h) {
  *h = (HeadDims){0};
  TRY(infer_need_float(in, i, -1));
  const Type *t = infer_type(in, i);
  if (t->rank < 0) return TENON_OK;
  if (t->rank != 3 && t->rank != 4)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 3 or 4", i, t->rank);
  h->known = true;
  h->packed = t->rank == 3;
  h->batch = t->dims[0];
  if (!h->packed) {
    h->heads = t->dims[1];
    h->seq = t->dims[2];
    h->size = t->dims[3];
    return TENON_OK;
  }
  h->seq = t->dims[1];
  h->heads = ie_const(&in->g->dims, heads);
  return split_heads(in, i, t->dims[2], heads, &h->size);
}

// The mask against [batch, heads, queries, keys]; its last axis may be shorter.
static tenon_status check_mask(Infer *in, const HeadDims *q, Dim total) {
  const Type *m = infer_type(in, 3);
  if (!m) return TENON_OK;
  TRY(infer_need(in, 3, 0));
  if (m->dtype && m->dtype != DT_BOOL && !dtype_is_float(m->dtype))
    return infer_fail(in, TENON_EINVAL, "the mask is %s, must be bool or a float type",
                      dtype_name(m->dtype));
  if (m->rank < 0) return TENON_OK;
  if (m->rank < 1 || m->rank > 4)
    return infer_fail(in, TENON_EINVAL, "the mask has rank %d, must be 1 to 4", m->rank);
  const Dim want[] = {q->batch, q->heads, q->seq};
  for (int i = 4 - m->rank; i < 3; i++) {
    Dim d = m->dims[i - (4 - m->rank)];
    if (!ie_is(d, 1) && ie_is_const(d)) TRY(infer_equal_dim(in, d, want[i], "mask and scores"));
  }
  if (ie_lt(&in->g->dims, total, m->dims[m->rank - 1]) == YES)
    return infer_fail(in, TENON_EINVAL, "the mask is longer than the keys");
  return TENON_OK;
}

// Cached keys and values have the new ones' batch, heads and size.
static tenon_status check_past(Infer *in, const HeadDims *k, const HeadDims *v) {
  for (int i = 4; i <= 5; i++) {
    const Type *t = infer_type(in, i);
    if (!t) continue;
    TRY(infer_same_dtype(in, i - 3, i));
    if (t->rank < 0) continue;
    if (t->rank != 4)
      return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 4", i, t->rank);
    TRY(infer_equal_dim(in, t->dims[0], k->batch, "batch of the past"));
    TRY(infer_equal_dim(in, t->dims[1], k->heads, "heads of the past"));
    TRY(infer_equal_dim(in, t->dims[3], i == 4 ? k->size : v->size, "head size of the past"));
  }
  return TENON_OK;
}

static tenon_status attention_dims(Infer *in, HeadDims *q, HeadDims *k, HeadDims *v, Dim *total) {
  const attention_attrs *at = in->attrs;
  TRY(head_dims(in, 0, at->q_num_heads, q));
  TRY(head_dims(in, 1, at->kv_num_heads, k));
  TRY(head_dims(in, 2, at->kv_num_heads, v));
  *total = NULL;
  if (!infer_src(in, 4) != !infer_src(in, 5))
    return infer_fail(in, TENON_EINVAL, "past keys and values come together or not");
  if (!q->known || !k->known || !v->known) return TENON_OK;
  if (q->packed != k->packed || q->packed != v->packed)
    return infer_fail(in, TENON_EINVAL, "query, key and value differ in rank");
  TRY(infer_equal_dim(in, q->batch, k->batch, "batch of query and key"));
  TRY(infer_equal_dim(in, k->batch, v->batch, "batch of key and value"));
  TRY(infer_equal_dim(in, q->size, k->size, "head size of query and key"));
  TRY(infer_equal_dim(in, k->heads, v->heads, "heads of key and value"));
  TRY(infer_equal_dim(in, k->seq, v->seq, "length of key and value"));
  if (ie_is_const(q->heads) && ie_is_const(k->heads) &&
      (k->heads->value < 1 ? q->heads->value > 0 : q->heads->value % k->heads->value != 0))
    return infer_fail(in, TENON_EINVAL, "%lld heads of the query cannot share %lld of the keys",
                      (long long)q->heads->value, (long long)k->heads->value);
  *total = k->seq;
  const Type *past = infer_type(in, 4);
  if (!past) return TENON_OK;
  TRY(check_past(in, k, v));
  *total = past->rank < 0 ? ie_fresh(&in->g->dims, "total")
                          : ie_add(&in->g->dims, past->dims[2], k->seq);
  return TENON_OK;
}

static tenon_status infer_attention(Infer *in) {
  const attention_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  HeadDims q, k, v;
  Dim total;
  TRY(attention_dims(in, &q, &k, &v, &total));
  if (at->left_window_size < -1 || at->right_window_size < -1)
    return infer_fail(in, TENON_EINVAL, "window sizes %lld and %lld, must be -1 or more",
                      (long long)at->left_window_size, (long long)at->right_window_size);
  if (at->qk_matmul_output_mode < 0 || at->qk_matmul_output_mode > QK_SOFTMAX)
    return infer_fail(in, TENON_EINVAL, "qk_matmul_output_mode is %lld, must be 0 to 3",
                      (long long)at->qk_matmul_output_mode);
  DType t = infer_type(in, 0)->dtype, tk = infer_type(in, 1)->dtype, tv = infer_type(in, 2)->dtype;
  const Type *nonpad = infer_type(in, 6);
  if (total && nonpad && nonpad->rank == 1)
    TRY(infer_equal_dim(in, nonpad->dims[0], q.batch, "batch of nonpad_kv_seqlen"));
  if (!total) {
    infer_set_unranked(in, 0, t);
    infer_set_unranked(in, 1, tk);
    infer_set_unranked(in, 2, tv);
    infer_set_unranked(in, 3, t);
    return TENON_OK;
  }
  TRY(check_mask(in, &q, total));
  if (q.packed)
    TRY(infer_set(in, 0, t, 3, (Dim[]){q.batch, q.seq, ie_mul(p, q.heads, v.size)}));
  else
    TRY(infer_set(in, 0, t, 4, (Dim[]){q.batch, q.heads, q.seq, v.size}));
  TRY(infer_set(in, 1, tk, 4, (Dim[]){k.batch, k.heads, total, k.size}));
  TRY(infer_set(in, 2, tv, 4, (Dim[]){k.batch, k.heads, total, v.size}));
  return infer_set(in, 3, t, 4, (Dim[]){q.batch, q.heads, q.seq, total});
}

// Both products: every score and every weighted value.
static double cost_attention(const CostIn *c) {
  if (c->nin < 3 || c->in[0].rank < 3 || c->in[1].rank < 3 || c->out[0].rank < 3) return 0;
  double keys = (double)c->in[1].dims[c->in[1].rank == 3 ? 1 : 2];
  if (c->nin > 4 && c->in[4].rank == 4) keys += (double)c->in[4].dims[2];
  return 2 * keys * ((double)c->in[0].n + (double)c->out[0].n);
}

static bool is_empty(const Type *t) {
  for (int d = 0; d < t->rank; d++)
    if (ie_is(t->dims[d], 0)) return true;
  return false;
}

// A cache has half an angle for each element that turns: by position or, without positions, by
// sequence and position.  Nobody reads one for an x without elements.
static tenon_status check_angles(Infer *in, const HeadDims *x) {
  const rotary_embedding_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  if (!x->known || is_empty(infer_type(in, 0))) return TENON_OK;
  int64_t rotary = at->rotary_embedding_dim;
  const Type *ids = infer_type(in, 3);
  if (ids && ids->rank >= 0) {
    Dim n = p->one;
    for (int d = 0; d < ids->rank; d++) n = ie_mul(p, n, ids->dims[d]);
    TRY(infer_equal_dim(in, n, ie_mul(p, x->batch, x->seq), "positions and tokens"));
  }
  Dim half = rotary ? ie_const(p, rotary / 2) : ie_div(p, x->size, ie_const(p, 2));
  for (int i = 1; i <= 2; i++) {
    const Type *t = infer_type(in, i);
    if (t->rank < 0) continue;
    TRY(infer_equal_dim(in, t->dims[t->rank - 1], half, "angles of a position"));
    if (t->rank == 2) continue;
    TRY(infer_equal_dim(in, t->dims[0], x->batch, "batch of a cache"));
    TRY(infer_equal_dim(in, t->dims[1], x->seq, "positions of a cache"));
  }
  return TENON_OK;
}

static tenon_status infer_rotary_embedding(Infer *in) {
  const rotary_embedding_attrs *at = in->attrs;
  HeadDims x;
  TRY(head_dims(in, 0, at->num_heads, &x));
  TRY(infer_need_float(in, 1, -1));
  TRY(infer_need_float(in, 2, -1));
  int64_t rotary = at->rotary_embedding_dim;
  bool fits = rotary >= 0 && rotary % 2 == 0;
  if (fits && x.known && ie_is_const(x.size))
    fits = rotary <= x.size->value && (rotary || x.size->value % 2 == 0);
  if (!fits)
    return infer_fail(in, TENON_EINVAL, "rotary_embedding_dim %lld does not fit the head size",
                      (long long)rotary);
  for (int i = 1; i <= 2; i++) {
    int rank = infer_type(in, i)->rank, want = infer_src(in, 3) ? 2 : 3;
    if (rank >= 0 && rank != want)
      return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be %d", i, rank, want);
  }
  TRY(check_angles(in, &x));
  infer_set_type(in, 0, infer_type(in, 0));
  return TENON_OK;
}

// [batch, seq, width] as the query has them.
static tenon_status check_packed(Infer *in, int i, const HeadDims *q, Dim width) {
  const Type *t = infer_type(in, i);
  if (t->rank < 0) return TENON_OK;
  if (t->rank != 3)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 3", i, t->rank);
  TRY(infer_equal_dim(in, t->dims[0], q->batch, "batch of the query"));
  TRY(infer_equal_dim(in, t->dims[1], q->seq, "length of the query"));
  return width ? infer_equal_dim(in, t->dims[2], width, "width of keys and heads") : TENON_OK;
}

// Keys, values and the past beside the query, whose heads have the keys' size.
static tenon_status linear_attention_fits(Infer *in, const HeadDims *q, const HeadDims *v) {
  TRY(check_packed(in, 1, q, ie_mul(&in->g->dims, v->heads, q->size)));
  TRY(check_packed(in, 2, q, NULL));
  const Type *past = infer_type(in, 3);
  if (!past || past->rank < 0) return TENON_OK;
  if (past->rank != 4)
    return infer_fail(in, TENON_EINVAL, "past_state has rank %d, must be 4", past->rank);
  const Dim want[] = {q->batch, v->heads, q->size, v->size};
  for (int d = 0; d < 4; d++) TRY(infer_equal_dim(in, past->dims[d], want[d], "past_state"));
  return TENON_OK;
}

static tenon_status infer_linear_attention(Infer *in) {
  const linear_attention_attrs *at = in->attrs;
  HeadDims q, v;
  TRY(head_dims(in, 0, at->q_num_heads, &q));
  TRY(infer_need_float(in, 1, -1));
  TRY(head_dims(in, 2, at->kv_num_heads, &v));
  bool decay = infer_src(in, 4) != NULL, beta = infer_src(in, 5) != NULL;
  if (decay != linear_attention_gated(at->update_rule) ||
      beta != linear_attention_delta(at->update_rule))
    return infer_fail(in, TENON_EINVAL, "decay is for gated rules, beta for delta rules");
  if (at->q_num_heads < 1 || at->kv_num_heads < 1 || at->q_num_heads % at->kv_num_heads)
    return infer_fail(in, TENON_EINVAL, "%lld heads of the query cannot share %lld of the keys",
                      (long long)at->q_num_heads, (long long)at->kv_num_heads);
  const Type *past = infer_type(in, 3);
  DType t = infer_type(in, 0)->dtype, ts = past ? past->dtype : t;
  if (!q.known || !v.known) {
    infer_set_unranked(in, 0, t);
    infer_set_unranked(in, 1, ts);
    return TENON_OK;
  }
  if (!q.packed || !v.packed)
    return infer_fail(in, TENON_EINVAL, "query, key and value must have rank 3");
  TRY(linear_attention_fits(in, &q, &v));
  IntPool *p = &in->g->dims;
  TRY(infer_set(in, 0, t, 3, (Dim[]){q.batch, q.seq, ie_mul(p, q.heads, v.size)}));
  return infer_set(in, 1, ts, 4, (Dim[]){q.batch, v.heads, q.size, v.size});
}

static double cost_linear_attention(const CostIn *c) {
  const linear_attention_attrs *at = c->node->attrs;
  if (c->nin < 3 || c->in[0].rank != 3 || c->in[2].rank != 3 || at->q_num_heads < 1) return 0;
  double dk = (double)c->in[0].dims[2] / (double)at->q_num_heads;
  return 6 * dk * (double)c->in[2].n + 2 * dk * (double)c->out[0].n;
}

static tenon_status infer_swiglu(Infer *in) {
  TRY(infer_need_float(in, 0, -1));
  TRY(infer_same_dtype(in, 0, 1));
  const Type *a = infer_type(in, 0), *b = infer_type(in, 1);
  if (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank)
    return infer_fail(in, TENON_EINVAL, "ranks %d and %d must be equal", a->rank, b->rank);
  for (int i = 0; b->rank >= 0 && i < a->rank; i++)
    TRY(infer_equal_dim(in, a->dims[i], b->dims[i], "sizes of a and b"));
  infer_set_type(in, 0, a->rank >= 0 ? a : b);
  return TENON_OK;
}

static void expand_swiglu(Graph *g, const Node *n, Node **out) {
  const swiglu_attrs *at = n->attrs;
  out[0] = N(g, mul, NA(g, swish, &(swish_attrs){.alpha = at->alpha}, n->src[0]), n->src[1]);
}

ATTR_TABLE(attention, ATTENTION_ATTRS);
ATTR_TABLE(rotary_embedding, ROTARY_EMBEDDING_ATTRS);
ATTR_TABLE(linear_attention, LINEAR_ATTENTION_ATTRS);
ATTR_TABLE(swiglu, SWIGLU_ATTRS);

const OpInfo op_attention = {
    .name = "attention",
    .doc = "softmax(scale q k' + masks) v, by heads; past keys and values come first",
    .onnx = "Attention",
    .onnx_since = 23,
    .operands = "q k v attn_mask? past_key? past_value? nonpad_kv_seqlen?",
    .results = "y present_key present_value qk_matmul_output",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_ATTENTION,
    .range = RANGE_attention,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(attention),
    .infer = infer_attention,
    .eval = eval_attention,
    .expand = expand_attention,
    .cost = cost_attention,
    SAMPLES(
        "(f32[2,3,4,8], f32[2,3,6,8], f32[2,3,6,5])",
        "(f32[2,4,24], f32[2,6,24], f32[2,6,30]) q_num_heads=3 kv_num_heads=3 is_causal=true",
        "(f32[1,4,3,8], f32[1,2,5,8], f32[1,2,5,8], f32[3,5]) softcap=2 scale=0.5 is_causal=true "
        "at_end=true left_window_size=2",
        "(f16[1,2,3,4], f16[1,2,5,4], f16[1,2,5,4], bool[2,1,4])",
        "(f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], _, f32[1,2,2,4], f32[1,2,2,4]) is_causal=true",
        "(f32[2,2,3,4], f32[2,2,6,4], f32[2,2,6,4], _, _, _, i64[2]{4,6}) is_causal=true "
        "left_window_size=2",
        "(f32[b,h,s,64], f32[b,h,t,64], f32[b,h,t,64])",
        "(f32[1,2,0,4], f32[1,2,3,4], f32[1,2,3,4])", "(f64[1,1,2,4], f64[1,1,0,4], f64[1,1,0,3])"),
};
const OpInfo op_rotary_embedding = {
    .name = "rotary_embedding",
    .doc = "pairs of elements turned by an angle that grows with the position",
    .onnx = "RotaryEmbedding",
    .onnx_since = 23,
    .operands = "x cos_cache sin_cache position_ids?",
    .results = "y",
    .dtypes = "float",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_MAP,
    .flags = OPF_COMPOSITE,
    OP_ATTRS(rotary_embedding),
    .infer = infer_rotary_embedding,
    .eval = eval_rotary_embedding,
    .expand = expand_rotary_embedding,
    SAMPLES("(f32[2,3,4,8], f32[9,4], f32[9,4], i64[2,4]{0,1,2,3,5,6,7,8})",
            "(f32[2,4,24], f32[2,4,4], f32[2,4,4]) num_heads=3 interleaved=true",
            "(f16[1,2,3,8], f16[1,3,2], f16[1,3,2]) rotary_embedding_dim=4",
            "(f32[0,2,3,8], f32[0,3,4], f32[0,3,4])"),
};
const OpInfo op_linear_attention = {
    .name = "linear_attention",
    .doc = "attention by a state of key size x value size, changed at every step",
    .onnx = "LinearAttention",
    .onnx_since = 27,
    .operands = "query key value past_state? decay? beta?",
    .results = "output present_state",
    .dtypes = "float",
    .arity = -1,
    .nres = 2,
    .fuse = FUSE_ATTENTION,
    OP_ATTRS(linear_attention),
    .infer = infer_linear_attention,
    .eval = eval_linear_attention,
    .cost = cost_linear_attention,
    SAMPLES("(f32[2,3,8], f32[2,3,8], f32[2,3,6]) q_num_heads=2 kv_num_heads=2 update_rule=linear",
            "(f32[1,3,8], f32[1,3,4], f32[1,3,5], f32[1,1,4,5], f32[1,3,4], f32[1,3,1]) "
            "q_num_heads=2 kv_num_heads=1",
            "(f16[1,3,4], f16[1,3,4], f16[1,3,4], _, f16[1,3,2]) q_num_heads=2 kv_num_heads=2 "
            "update_rule=gated"),
};
const OpInfo op_swiglu = {
    .name = "swiglu",
    .doc = "a sigmoid(alpha a) b",
    .onnx = "SwiGLU",
    .onnx_since = 28,
    .operands = "a b",
    .results = "y",
    .dtypes = "float",
    .arity = 2,
    .nres = 1,
    .expense = EXPENSE_TRANSCENDENTAL,
    .flags = OPF_ELEMENTWISE | OPF_COMPOSITE,
    OP_ATTRS(swiglu),
    .infer = infer_swiglu,
    .eval = eval_swiglu,
    .expand = expand_swiglu,
    SAMPLES("(f32[2,3], f32[2,3])", "(f16[4], f16[4]) alpha=0.5", "(f32[], f32[])",
            "(f32[0,2], f32[0,2])"),
};
