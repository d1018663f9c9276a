// build_attention.c -- queries, keys and values of a layer, and what turns, norms and gates them.
#include "models/build.h"

#include "eval/attention.h"
#include "eval/movement.h"
#include "eval/norm.h"

// ---- rotary positions ----

// Sines and cosines of all rows, once for all layers.
static void angles(Build *b, int which) {
  if (b->cos[which]) return;
  const LlmRope *r = &b->s->rope[which];
  Graph *g = b->g;
  Node *freq = node_const(g, DT_F32, 2, (int64_t[]){1, r->dim / 2}, r->inv_freq, NULL);
  Node *a = N(g, mul, RESHAPE(b, b->position, -1, 1), freq);
  b->cos[which] = RESHAPE(b, lm_scale(b, N(g, cos, a), r->factor), 1, -1, r->dim / 2);
  b->sin[which] = RESHAPE(b, lm_scale(b, N(g, sin, a), r->factor), 1, -1, r->dim / 2);
}

// x [T, heads, size] with its leading elements rotated.
static Node *rotated(Build *b, Node *x, int64_t heads, int64_t size) {
  int which = b->s->layer[b->layer].rope;
  if (which < 0) return x;
  angles(b, which);
  const LlmRope *r = &b->s->rope[which];
  rotary_embedding_attrs at = {.interleaved = r->interleaved,
                               .num_heads = heads,
                               .rotary_embedding_dim = r->dim == size ? 0 : r->dim};
  Node *flat = RESHAPE(b, x, 1, -1, heads * size);
  Node *y = NA(b->g, rotary_embedding, &at, flat, b->cos[which], b->sin[which]);
  return RESHAPE(b, y, -1, heads, size);
}

// ---- norms of queries and keys ----

// A weight for each head: the norm itself is that of ones.
static Node *normed_by_head(Build *b, Node *x, LlmRole role, int64_t size) {
  float *one = arena_array(&b->g->scratch, float, size);
  for (int64_t i = 0; i < size; i++) one[i] = 1;
  Node *ones = node_const(b->g, DT_F32, 1, &size, one, NULL);
  layer_normalization_attrs at = {.axis = -1, .epsilon = b->s->epsilon, .stash_type = 1};
  Node *y = NA(b->g, layer_normalization, &at, x, ones);
  return N(b->g, mul, y, lm_weight(b, role, LLM_WEIGHT));
}

static Node *qk_normed(Build *b, Node *x, LlmRole role, int64_t heads) {
  int64_t size = b->s->head_size;
  switch (b->s->qk_norm) {
  case LLM_QK_NONE: return x;
  case LLM_QK_HEAD: return lm_norm(b, x, role);
  case LLM_QK_HEADS: return normed_by_head(b, x, role, size);
  case LLM_QK_WHOLE:
    return RESHAPE(b, lm_norm(b, RESHAPE(b, x, -1, heads * size), role), -1, heads, size);
  }
  return x;
}

// ---- products ----

typedef struct Heads {
  Node *q, *k, *v;  // [T, heads, size]
  Node *gate;       // [T, heads * size], or NULL
} Heads;

// A fused product is cut by head or by group, or is one behind the other.
static void cut_qkv(Build *b, Node *y, Heads *h) {
  const LlmSpec *s = b->s;
  int64_t n = s->heads, kv = s->kv_heads, d = s->head_size, group = n / kv;
  Node *part[3];
  if (s->qkv == LLM_QKV_BY_HEAD) {
    lm_split(b, RESHAPE(b, y, -1, n, 3, d), 2, 3, (int64_t[]){1, 1, 1}, part);
  } else if (s->qkv == LLM_QKV_BY_GROUP) {
    lm_split(b, RESHAPE(b, y, -1, kv, group + 2, d), 2, 3, (int64_t[]){group, 1, 1}, part);
  } else {
    int64_t size[] = {n * d, kv * d, kv * s->value_size};
    lm_split(b, y, 1, 3, size, part);
  }
  h->q = RESHAPE(b, part[0], -1, n, d);
  h->k = RESHAPE(b, part[1], -1, kv, d);
  h->v = RESHAPE(b, part[2], -1, kv, s->value_size);
}

static void products(Build *b, Node *x, Heads *h) {
  const LlmSpec *s = b->s;
  if (s->qkv != LLM_QKV_APART) {
    cut_qkv(b, lm_linear(b, x, LLM_ROLE_qkv), h);
    return;
  }
  Node *q = lm_linear(b, x, LLM_ROLE_q);
  if (s->q_gate) {
    Node *part[2];
    int64_t d = s->head_size;
    lm_split(b, RESHAPE(b, q, -1, s->heads, 2 * d), 2, 2, (int64_t[]){d, d}, part);
    q = part[0];
    h->gate = RESHAPE(b, part[1], -1, s->heads * d);
  }
  h->q = RESHAPE(b, q, -1, s->heads, s->head_size);
  h->k = RESHAPE(b, lm_linear(b, x, LLM_ROLE_k), -1, s->kv_heads, s->head_size);
  h->v = RESHAPE(b, lm_linear(b, x, LLM_ROLE_v), -1, s->kv_heads, s->value_size);
}

// ---- latent attention ----

// Keys without positions and values of all heads, from the compressed rows c [T, rank].
static void from_latent(Build *b, Node *c, Node **k, Node **v) {
  const LlmSpec *s = b->s;
  const LlmMla *a = &s->mla;
  if (lm_has(b, LLM_ROLE_k_b, LLM_WEIGHT)) {
    // [heads, rank, nope] and [heads, size of values, rank]
    Node *one = RESHAPE(b, c, 1, -1, a->kv_rank);
    Node *kb = RESHAPE(b, lm_weight(b, LLM_ROLE_k_b, LLM_WEIGHT), s->heads, a->kv_rank, a->nope);
    Node *vb =
        RESHAPE(b, lm_weight(b, LLM_ROLE_v_b, LLM_WEIGHT), s->heads, s->value_size, a->kv_rank);
    *k = TRANSPOSE(b, N(b->g, mat_mul, one, kb), 1, 0, 2);
    *v = TRANSPOSE(b, N(b->g, mat_mul, one, TRANSPOSE(b, vb, 0, 2, 1)), 1, 0, 2);
    return;
  }
  int64_t size[] = {a->nope, s->value_size};
  Node *kv = lm_linear(b, c, LLM_ROLE_kv_b), *part[2];
  lm_split(b, RESHAPE(b, kv, -1, s->heads, a->nope + s->value_size), 2, 2, size, part);
  *k = part[0];
  *v = part[1];
}

static void mla(Build *b, Node *x, Heads *h) {
  const LlmSpec *s = b->s;
  const LlmMla *a = &s->mla;
  Node *q = x;
  if (a->q_rank) {
    q = lm_norm(b, lm_linear(b, q, LLM_ROLE_q_a), LLM_ROLE_q_a_norm);
    q = lm_linear(b, q, LLM_ROLE_q_b);
  } else {
    q = lm_linear(b, q, LLM_ROLE_q);
  }
  Node *part[2], *latent[2], *nope, *ones;
  int64_t sizes[] = {a->nope, a->rope}, ranks[] = {a->kv_rank, a->rope};
  lm_split(b, RESHAPE(b, q, -1, s->heads, s->head_size), 2, 2, sizes, part);
  Node *kv = lm_linear(b, x, LLM_ROLE_kv_a);
  lm_split(b, kv, 1, 2, ranks, latent);
  from_latent(b, lm_norm(b, latent[0], LLM_ROLE_kv_a_norm), &nope, &h->v);
  Node *turn = rotated(b, RESHAPE(b, latent[1], -1, 1, a->rope), 1, a->rope);
  ones = lm_repeat(b, turn, 1, s->heads, a->rope);
  concat_attrs last = {.axis = 2};
  h->q = NA(b->g, concat, &last, part[0], rotated(b, part[1], s->heads, a->rope));
  h->k = NA(b->g, concat, &last, nope, ones);
}

Node *lm_attention(Build *b, Node *x) {
  const LlmSpec *s = b->s;
  Heads h = {0};
  if (s->layer[b->layer].mixer == LLM_MLA) {
    mla(b, x, &h);
  } else {
    products(b, x, &h);
    h.q = rotated(b, qk_normed(b, h.q, LLM_ROLE_q_norm, s->heads), s->heads, s->head_size);
    h.k = rotated(b, qk_normed(b, h.k, LLM_ROLE_k_norm, s->kv_heads), s->kv_heads, s->head_size);
  }
  Node *y = lm_attend(b, h.q, h.k, h.v);
  if (h.gate) y = N(b->g, mul, y, N(b->g, sigmoid, h.gate));
  return lm_linear(b, y, LLM_ROLE_o);
}
