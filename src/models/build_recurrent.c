// build_recurrent.c -- recurrent mixers: Mamba-2 and gated delta rules.
//
// Both are a causal convolution of a few taps, then a state of key size x value size for each head,
// which decays, takes a product of key and value, and is read by a query: the op linear_attention,
// or ragged_linear_attention over rows of several sequences.
#include "models/build.h"

#include "eval/activation.h"
#include "eval/attention.h"
#include "eval/contract.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/ragged.h"
#include "eval/reduce.h"

static Node *silu(Build *b, Node *x) { return NA(b->g, swish, (&(swish_attrs){.alpha = 1}), x); }

// x [T, channels] through the layer's convolution and silu.
static Node *convolved(Build *b, Node *x, int64_t channels) {
  Graph *g = b->g;
  if (b->paged) {
    int64_t taps = b->s->recurrent.conv;
    Node *rows = RESHAPE(b, lm_weight(b, LLM_ROLE_ssm_conv, LLM_WEIGHT), channels, taps);
    Node *all = lm_conv_rows(b, x, rows, channels, taps);
    if (b->s->recurrent.conv_bias) all = N(g, add, all, lm_weight(b, LLM_ROLE_ssm_conv, LLM_BIAS));
    return silu(b, all);
  }
  Node *w =
      RESHAPE(b, lm_weight(b, LLM_ROLE_ssm_conv, LLM_WEIGHT), channels, 1, b->s->recurrent.conv);
  Node *src[] = {RESHAPE(b, TRANSPOSE(b, x, 1, 0), 1, channels, -1), w, g->none};
  if (b->s->recurrent.conv_bias) src[2] = lm_weight(b, LLM_ROLE_ssm_conv, LLM_BIAS);
  causal_conv_with_state_attrs at = {.activation = 1};
  Node *y =
      node_new(g, OP_causal_conv_with_state, b->s->recurrent.conv_bias ? 3 : 2, src, &at, 2, NULL);
  return TRANSPOSE(b, RESHAPE(b, node_proj(g, y, 0), channels, -1), 1, 0);
}

typedef struct Scan {
  Node *q, *k, *v, *decay, *beta;  // [T, heads * size]; beta may be NULL
  int64_t heads, size;             // of values
  double scale;
} Scan;

static Node *rows(Build *b, Node *x, int64_t width) { return RESHAPE(b, x, 1, -1, width); }

// Rows of several sequences.
static Node *scanned_rows(Build *b, const Scan *s, int64_t key_size) {
  Graph *g = b->g;
  LmState state;
  Node *past = lm_state_read(b, "s", s->heads, key_size * s->size, &state);
  ragged_linear_attention_attrs at = {.scale = s->scale};
  Node *src[] = {RESHAPE(b, s->q, -1, s->heads, key_size),
                 RESHAPE(b, s->k, -1, s->heads, key_size),
                 RESHAPE(b, s->v, -1, s->heads, s->size),
                 RESHAPE(b, past, -1, s->heads, key_size, s->size),
                 b->seq,
                 RESHAPE(b, s->decay, -1, s->heads),
                 s->beta ? RESHAPE(b, s->beta, -1, s->heads) : g->none};
  Node *y = node_new(g, OP_ragged_linear_attention, s->beta ? 7 : 6, src, &at, 2, NULL);
  lm_state_write(b, &state, RESHAPE(b, node_proj(g, y, 1), -1, s->heads * key_size * s->size));
  return node_proj(g, y, 0);
}

static Node *scanned(Build *b, const Scan *s, int64_t key_size) {
  if (b->paged) return scanned_rows(b, s, key_size);
  Graph *g = b->g;
  enum { GATED = 1, GATED_DELTA = 3 };
  linear_attention_attrs at = {.q_num_heads = s->heads,
                               .kv_num_heads = s->heads,
                               .update_rule = s->beta ? GATED_DELTA : GATED,
                               .scale = s->scale,
                               .chunk_size = 64};
  int64_t keys = s->heads * key_size;
  Node *src[] = {rows(b, s->q, keys),
                 rows(b, s->k, keys),
                 rows(b, s->v, s->heads * s->size),
                 g->none,
                 rows(b, s->decay, s->heads),
                 s->beta ? rows(b, s->beta, s->heads) : g->none};
  Node *y = node_new(g, OP_linear_attention, s->beta ? 6 : 5, src, &at, 2, NULL);
  return RESHAPE(b, node_proj(g, y, 0), -1, s->heads, s->size);
}

// A decay of Hugging Face's files is a logarithm; GGUF has minus its exponential.
static Node *decay_of(Build *b) {
  Node *a = lm_weight(b, LLM_ROLE_ssm_a, LLM_WEIGHT);
  if (!b->s->gguf) a = N(b->g, neg, N(b->g, exp, a));
  return RESHAPE(b, a, b->s->recurrent.heads);
}

static Node *time_step(Build *b, Node *dt) {
  return N(b->g, softplus, N(b->g, add, dt, lm_weight(b, LLM_ROLE_ssm_dt, LLM_BIAS)));
}

static Node *rms(Build *b, Node *x, Node *w) {
  rms_normalization_attrs at = {
      .axis = -1, .epsilon = b->s->recurrent.norm_epsilon, .stash_type = 1};
  return NA(b->g, rms_normalization, &at, x, w);
}

// ---- Mamba-2 ----

static Node *mamba2(Build *b, Node *x) {
  const LlmRecurrent *r = &b->s->recurrent;
  Graph *g = b->g;
  int64_t inner = r->heads * r->head_size, keys = r->key_heads * r->state_size;
  int64_t conv = inner + 2 * keys, group = r->heads / r->key_heads;
  Node *in[3], *part[3];
  lm_split(b, lm_linear(b, x, LLM_ROLE_ssm_in), 1, 3, (int64_t[]){inner, conv, r->heads}, in);
  lm_split(b, convolved(b, in[1], conv), 1, 3, (int64_t[]){inner, keys, keys}, part);
  Node *dt = time_step(b, in[2]);
  if (r->dt_min > 0) dt = N(g, max, dt, lm_number(b, r->dt_min));
  if (r->dt_max < 1e30) dt = N(g, min, dt, lm_number(b, r->dt_max));
  Node *h = RESHAPE(b, part[0], -1, r->heads, r->head_size);
  Scan s = {.q = lm_repeat(b, RESHAPE(b, part[2], -1, r->key_heads, r->state_size), r->key_heads,
                           group, r->state_size),
            .k = lm_repeat(b, RESHAPE(b, part[1], -1, r->key_heads, r->state_size), r->key_heads,
                           group, r->state_size),
            .v = N(g, mul, h, RESHAPE(b, dt, -1, r->heads, 1)),
            .decay = N(g, mul, dt, decay_of(b)),
            .heads = r->heads,
            .size = r->head_size,
            .scale = 1};
  Node *d = RESHAPE(b, lm_weight(b, LLM_ROLE_ssm_d, LLM_WEIGHT), r->heads, 1);
  Node *y = N(g, add, scanned(b, &s, r->state_size), N(g, mul, h, d));
  y = N(g, mul, RESHAPE(b, y, -1, inner), silu(b, in[0]));
  int64_t each = inner / r->norm_groups;
  Node *w = RESHAPE(b, lm_weight(b, LLM_ROLE_ssm_norm, LLM_WEIGHT), r->norm_groups, each);
  Node *ones = node_const(g, DT_F32, 1, (int64_t[]){1}, (float[]){1}, NULL);
  y = N(g, mul, rms(b, RESHAPE(b, y, -1, r->norm_groups, each), ones), w);
  return lm_linear(b, RESHAPE(b, y, -1, inner), LLM_ROLE_ssm_out);
}

// ---- gated delta rules ----

// x / sqrt(sum of squares + 1e-6), by head, repeated for the heads of values.
static Node *unit(Build *b, Node *x, int64_t heads, int64_t size, int64_t repeat) {
  Graph *g = b->g;
  Node *h = RESHAPE(b, x, -1, heads, size);
  reduce_attrs keep = {.keepdims = true};
  Node *sum = NA(g, reduce_sum, &keep, N(g, mul, h, h), node_i64s(g, 1, (int64_t[]){-1}));
  Node *y = N(g, div, h, N(g, sqrt, N(g, add, sum, lm_number(b, 1e-6))));
  return lm_repeat(b, y, heads, repeat, size);
}

static Node *delta(Build *b, Node *x) {
  const LlmRecurrent *r = &b->s->recurrent;
  Graph *g = b->g;
  int64_t n = r->heads / r->key_heads, dk = r->state_size, dv = r->head_size;
  int64_t keys = r->key_heads * dk, values = r->heads * dv;
  Node *in[4], *ba[2], *part[3];
  // By head of keys: its query, its key, the values and gates of its heads.
  Node *qkvz = RESHAPE(b, lm_linear(b, x, LLM_ROLE_ssm_in), -1, r->key_heads, 2 * dk + 2 * n * dv);
  lm_split(b, qkvz, 2, 4, (int64_t[]){dk, dk, n * dv, n * dv}, in);
  Node *both = RESHAPE(b, lm_linear(b, x, LLM_ROLE_ssm_ba), -1, r->key_heads, 2 * n);
  lm_split(b, both, 2, 2, (int64_t[]){n, n}, ba);
  concat_attrs last = {.axis = 1};
  Node *mixed = NA(g, concat, &last, RESHAPE(b, in[0], -1, keys), RESHAPE(b, in[1], -1, keys),
                   RESHAPE(b, in[2], -1, values));
  lm_split(b, convolved(b, mixed, 2 * keys + values), 1, 3, (int64_t[]){keys, keys, values}, part);
  Node *dt = time_step(b, RESHAPE(b, ba[1], -1, r->heads));
  Scan s = {.q = unit(b, part[0], r->key_heads, dk, n),
            .k = unit(b, part[1], r->key_heads, dk, n),
            .v = part[2],
            .decay = N(g, mul, dt, decay_of(b)),
            .beta = N(g, sigmoid, RESHAPE(b, ba[0], -1, r->heads)),
            .heads = r->heads,
            .size = dv,
            .scale = 0};
  Node *y = rms(b, scanned(b, &s, dk), lm_weight(b, LLM_ROLE_ssm_norm, LLM_WEIGHT));
  y = N(g, mul, RESHAPE(b, y, -1, values), silu(b, RESHAPE(b, in[3], -1, values)));
  return lm_linear(b, y, LLM_ROLE_ssm_out);
}

Node *lm_recurrent(Build *b, Node *x) {
  return b->s->layer[b->layer].mixer == LLM_MAMBA2 ? mamba2(b, x) : delta(b, x);
}
