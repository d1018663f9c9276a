// weights.c -- the tensors that a spec asks for: names by role, shapes, an account of all of them.
//
// One function lists what there must be, with shapes; so opening and building cannot disagree.  A
// tensor of the files that nobody asked for is an error, unless it is known to be a buffer that
// follows from the configuration.
#include "models/adapter.h"

#include <stdio.h>

enum { NAME_MAX_BYTES = LLM_NAME_BYTES, SHOWN = 8 };

typedef struct Want {
  LlmModel *m;
  Diag *d;
  bool *used;  // [tensors of the files]
  int64_t missing, wrong;
  int64_t layer;  // -1: of the model
} Want;

// ---- names ----

static bool format_name(const char *pattern, LlmPart part, int64_t layer, int64_t expert,
                        char out[NAME_MAX_BYTES]) {
  int64_t n = 0;
  for (const char *p = pattern; *p && n < NAME_MAX_BYTES - 32; p++) {
    if (*p == '%')
      n += snprintf(out + n, 24, "%lld", (long long)layer);
    else if (*p == '#')
      n += snprintf(out + n, 24, "%lld", (long long)expert);
    else
      out[n++] = *p;
  }
  out[n] = 0;
  if (n && out[n - 1] == '.') snprintf(out + n, 8, "%s", part == LLM_BIAS ? "bias" : "weight");
  return n < NAME_MAX_BYTES - 32;
}

// The row for a role: of the architecture's own family, else of the one that it builds on.
static const LlmNameRow *row_in(const LlmModel *m, bool gguf, LlmRole role, LlmPart part) {
  const LlmArch *a = m->spec.row;
  LlmNames own = gguf ? a->names_gguf : a->names;
  LlmNames base = gguf ? NAMES_GGUF : a->names_base ? a->names_base : NAMES_LLAMA;
  if (!strcmp(a->name, "falcon") && m->spec.ffn_norm && m->spec.parallel)
    own = gguf ? NAMES_GGUF_FALCON2 : NAMES_FALCON2;
  const LlmNameRow *found = NULL;
  for (const LlmNameRow *r = llm_names; r->family; r++) {
    if (r->role != role || (r->part != part && r->part != LLM_BOTH)) continue;
    if (r->family == own) return r;
    if (r->family == base && !found) found = r;
  }
  return found;
}

static const LlmNameRow *row_of(const LlmModel *m, LlmRole role, LlmPart part) {
  return row_in(m, m->spec.gguf, role, part);
}

bool llm_name_in(const LlmModel *m, bool gguf, LlmRole role, LlmPart part, int64_t layer,
                 char out[LLM_NAME_BYTES]) {
  const LlmNameRow *r = row_in(m, gguf, role, part);
  return r && format_name(r->pattern, part, layer, 0, out);
}

static const Weight *find(const LlmModel *m, const char *name) {
  const Weight *w = weights_find(m->weights, str_of(name));
  const char *dot = strchr(name, '.');
  if (w || m->spec.gguf || !dot) return w;
  return weights_find(m->weights, str_of(dot + 1));  // of a base model
}

// Norms of BERT that came from TensorFlow have names of their own.
static const Weight *find_norm(const LlmModel *m, const char *name, LlmPart part) {
  char other[NAME_MAX_BYTES];
  int64_t n = (int64_t)strlen(name) - (part == LLM_BIAS ? 4 : 6);
  if (!m->spec.encoder || m->spec.gguf || n < 10 || memcmp(name + n - 10, "LayerNorm.", 10))
    return NULL;
  snprintf(other, sizeof other, "%.*s%s", (int)n, name, part == LLM_BIAS ? "beta" : "gamma");
  return find(m, other);
}

static const Weight *find_role(const LlmModel *m, LlmRole role, LlmPart part, int64_t layer,
                               int64_t expert, char name[NAME_MAX_BYTES]) {
  const LlmNameRow *r = row_of(m, role, part);
  name[0] = 0;
  if (!r || !format_name(r->pattern, part, layer, expert, name)) return NULL;
  const Weight *w = find(m, name);
  return w ? w : find_norm(m, name, part);
}

bool llm_has(const LlmModel *m, LlmRole role, LlmPart part, int64_t layer) {
  char name[NAME_MAX_BYTES];
  return find_role(m, role, part, layer, 0, name) != NULL;
}

const LlmSlot *llm_slot(const LlmModel *m, LlmRole role, LlmPart part, int64_t layer) {
  const LlmSlots *s = &m->files->slots;
  return layer < 0 ? &s->model[role][part] : &s->layer[layer][role][part];
}

// ---- shapes ----

// Axes of one element do not count: formats differ in them.
static bool same_shape(const Weight *w, int rank, const int64_t *dims) {
  int64_t at = 0;
  for (int i = 0; i < rank; i++) {
    if (dims[i] == 1) continue;
    while (at < w->rank && w->dims[at] == 1) at++;
    if (at == w->rank || w->dims[at++] != dims[i]) return false;
  }
  while (at < w->rank && w->dims[at] == 1) at++;
  return at == w->rank;
}

static bool take(Want *t, const Weight *w, const char *name, int rank, const int64_t *dims) {
  if (!w) {
    if (t->missing++ < SHOWN)
      fail(t->d, TENON_EFORMAT, NOWHERE, "the tensor '%s' is missing", name);
    return false;
  }
  t->used[w - t->m->weights->v.v] = true;
  if (!same_shape(w, rank, dims) || !dtype_is_float(w->dtype)) {
    if (t->wrong++ < SHOWN)
      fail(t->d, TENON_EFORMAT, NOWHERE, "the tensor '%s' is %s%s, must be %s", name,
           dtype_name(w->dtype), shape_text(w->rank, w->dims).s, shape_text(rank, dims).s);
    return false;
  }
  return true;
}

static void want_part(Want *t, LlmRole role, LlmPart part, int rank, const int64_t *dims) {
  LlmModel *m = t->m;
  char name[NAME_MAX_BYTES];
  LlmSlot *slot = (LlmSlot *)llm_slot(m, role, part, t->layer);
  const LlmNameRow *r = row_of(m, role, part);
  bool by = r && strchr(r->pattern, '#');
  if (!by) {
    const Weight *w = find_role(m, role, part, t->layer, 0, name);
    if (take(t, w, *name ? name : llm_role[role].name, rank, dims)) slot->w = w;
    return;
  }
  const Weight **each = arena_array(&m->arena, const Weight *, dims[0]);
  bool all = true;
  for (int64_t i = 0; i < dims[0]; i++) {
    each[i] = find_role(m, role, part, t->layer, i, name);
    all &= take(t, each[i], name, rank - 1, dims + 1);
  }
  if (!all) return;
  slot->by = each;
  slot->n = dims[0];
}

static void want_vector(Want *t, LlmRole role, LlmPart part, int64_t n) {
  want_part(t, role, part, 1, &n);
}

// A product's weights [out, in], and a bias.
static void want_matrix(Want *t, LlmRole role, int64_t out, int64_t in, bool bias) {
  bool in_out = t->m->spec.in_out && t->layer >= 0;
  int64_t dims[2] = {in_out ? in : out, in_out ? out : in};
  want_part(t, role, LLM_WEIGHT, 2, dims);
  if (bias) want_vector(t, role, LLM_BIAS, out);
}

static void want_norm(Want *t, LlmRole role, int64_t n) {
  want_vector(t, role, LLM_WEIGHT, n);
  if (t->m->spec.norm == LLM_LAYER && t->m->spec.norm_bias) want_vector(t, role, LLM_BIAS, n);
}

// ---- what there must be ----

static void want_qk_norm(Want *t, LlmRole role, int64_t heads) {
  const LlmSpec *s = &t->m->spec;
  int64_t size = s->head_size, dims[2] = {heads, size};
  if (s->qk_norm == LLM_QK_HEAD) want_vector(t, role, LLM_WEIGHT, size);
  if (s->qk_norm == LLM_QK_WHOLE) want_vector(t, role, LLM_WEIGHT, heads * size);
  if (s->qk_norm == LLM_QK_HEADS) want_part(t, role, LLM_WEIGHT, 2, dims);
  if (s->qk_norm == LLM_QK_HEAD && s->norm == LLM_LAYER && s->qk_norm_bias)
    want_vector(t, role, LLM_BIAS, size);
}

static void want_attention(Want *t) {
  const LlmSpec *s = &t->m->spec;
  int64_t q = s->heads * s->head_size, k = s->kv_heads * s->head_size,
          v = s->kv_heads * s->value_size;
  if (s->qkv != LLM_QKV_APART) {
    want_matrix(t, LLM_ROLE_qkv, q + k + v, s->hidden, s->q_bias);
  } else {
    want_matrix(t, LLM_ROLE_q, s->q_gate ? 2 * q : q, s->hidden, s->q_bias);
    want_matrix(t, LLM_ROLE_k, k, s->hidden, s->kv_bias);
    want_matrix(t, LLM_ROLE_v, v, s->hidden, s->kv_bias);
  }
  want_matrix(t, LLM_ROLE_o, s->hidden, s->heads * s->value_size, s->o_bias);
  if (s->qk_norm) {
    want_qk_norm(t, LLM_ROLE_q_norm, s->heads);
    want_qk_norm(t, LLM_ROLE_k_norm, s->kv_heads);
  }
  if (s->sinks) want_vector(t, LLM_ROLE_sinks, LLM_WEIGHT, s->heads);
}

static void want_mla(Want *t) {
  const LlmSpec *s = &t->m->spec;
  const LlmMla *a = &s->mla;
  int64_t q = s->heads * s->head_size;
  if (a->q_rank) {
    want_matrix(t, LLM_ROLE_q_a, a->q_rank, s->hidden, s->o_bias);
    want_norm(t, LLM_ROLE_q_a_norm, a->q_rank);
    want_matrix(t, LLM_ROLE_q_b, q, a->q_rank, false);
  } else {
    want_matrix(t, LLM_ROLE_q, q, s->hidden, false);
  }
  want_matrix(t, LLM_ROLE_kv_a, a->kv_rank + a->rope, s->hidden, s->o_bias);
  want_norm(t, LLM_ROLE_kv_a_norm, a->kv_rank);
  if (s->gguf && llm_has(t->m, LLM_ROLE_k_b, LLM_WEIGHT, t->layer)) {
    int64_t k[3] = {s->heads, a->kv_rank, a->nope}, v[3] = {s->heads, s->value_size, a->kv_rank};
    want_part(t, LLM_ROLE_k_b, LLM_WEIGHT, 3, k);
    want_part(t, LLM_ROLE_v_b, LLM_WEIGHT, 3, v);
  } else {
    want_matrix(t, LLM_ROLE_kv_b, s->heads * (a->nope + s->value_size), a->kv_rank, false);
  }
  want_matrix(t, LLM_ROLE_o, s->hidden, s->heads * s->value_size, s->o_bias);
}

static void want_mamba2(Want *t) {
  const LlmSpec *s = &t->m->spec;
  const LlmRecurrent *r = &s->recurrent;
  int64_t inner = r->heads * r->head_size, conv = inner + 2 * r->key_heads * r->state_size;
  int64_t taps[2] = {conv, r->conv};
  want_matrix(t, LLM_ROLE_ssm_in, inner + conv + r->heads, s->hidden, r->bias);
  want_part(t, LLM_ROLE_ssm_conv, LLM_WEIGHT, 2, taps);
  if (r->conv_bias) want_vector(t, LLM_ROLE_ssm_conv, LLM_BIAS, conv);
  want_vector(t, LLM_ROLE_ssm_dt, LLM_BIAS, r->heads);
  want_vector(t, LLM_ROLE_ssm_a, LLM_WEIGHT, r->heads);
  want_vector(t, LLM_ROLE_ssm_d, LLM_WEIGHT, r->heads);
  int64_t norm[2] = {r->norm_groups, inner / r->norm_groups};
  want_part(t, LLM_ROLE_ssm_norm, LLM_WEIGHT, 2, norm);
  want_matrix(t, LLM_ROLE_ssm_out, s->hidden, inner, r->bias);
}

static void want_delta(Want *t) {
  const LlmSpec *s = &t->m->spec;
  const LlmRecurrent *r = &s->recurrent;
  int64_t keys = r->key_heads * r->state_size, values = r->heads * r->head_size;
  int64_t taps[2] = {2 * keys + values, r->conv};
  want_matrix(t, LLM_ROLE_ssm_in, 2 * keys + 2 * values, s->hidden, false);
  want_matrix(t, LLM_ROLE_ssm_ba, 2 * r->heads, s->hidden, false);
  want_part(t, LLM_ROLE_ssm_conv, LLM_WEIGHT, 2, taps);
  want_vector(t, LLM_ROLE_ssm_dt, LLM_BIAS, r->heads);
  want_vector(t, LLM_ROLE_ssm_a, LLM_WEIGHT, r->heads);
  want_vector(t, LLM_ROLE_ssm_norm, LLM_WEIGHT, r->head_size);
  want_matrix(t, LLM_ROLE_ssm_out, s->hidden, values, false);
}

static void want_dense(Want *t) {
  const LlmSpec *s = &t->m->spec;
  if (s->gated && s->gate_up != LLM_UP_APART) {
    want_matrix(t, LLM_ROLE_gate_up, 2 * s->ffn, s->hidden, s->up_bias);
  } else {
    if (s->gated) want_matrix(t, LLM_ROLE_gate, s->ffn, s->hidden, s->up_bias);
    want_matrix(t, LLM_ROLE_up, s->ffn, s->hidden, s->up_bias);
  }
  want_matrix(t, LLM_ROLE_down, s->hidden, s->ffn, s->down_bias);
}

// Experts' matrices, one behind the other.
static void want_experts(Want *t, LlmRole role, int64_t out, int64_t in) {
  const LlmMoe *e = &t->m->spec.moe;
  int64_t dims[3] = {e->experts, e->in_out ? in : out, e->in_out ? out : in};
  want_part(t, role, LLM_WEIGHT, 3, dims);
  int64_t bias[2] = {e->experts, out};
  if (e->biases) want_part(t, role, LLM_BIAS, 2, bias);
}

static void want_moe(Want *t) {
  const LlmSpec *s = &t->m->spec;
  const LlmMoe *e = &s->moe;
  want_part(t, LLM_ROLE_router, LLM_WEIGHT, 2, (int64_t[]){e->experts, s->hidden});
  if (e->biases) want_vector(t, LLM_ROLE_router, LLM_BIAS, e->experts);
  if (e->bias) want_vector(t, LLM_ROLE_expert_bias, LLM_BIAS, e->experts);
  if (e->gate_up != LLM_UP_APART) {
    want_experts(t, LLM_ROLE_expert_gate_up, 2 * e->size, s->hidden);
  } else {
    want_experts(t, LLM_ROLE_expert_gate, e->size, s->hidden);
    want_experts(t, LLM_ROLE_expert_up, e->size, s->hidden);
  }
  want_experts(t, LLM_ROLE_expert_down, s->hidden, e->size);
  if (!e->shared) return;
  want_matrix(t, LLM_ROLE_shared_gate, e->shared, s->hidden, s->up_bias);
  want_matrix(t, LLM_ROLE_shared_up, e->shared, s->hidden, s->up_bias);
  want_matrix(t, LLM_ROLE_shared_down, s->hidden, e->shared, s->down_bias);
  if (e->shared_gate) want_matrix(t, LLM_ROLE_shared_router, 1, s->hidden, false);
}

static void want_layer(Want *t) {
  const LlmSpec *s = &t->m->spec;
  const LlmLayer *l = &s->layer[t->layer];
  if (s->attn_norm) want_norm(t, LLM_ROLE_attn_norm, s->hidden);
  if (s->attn_post_norm) want_norm(t, LLM_ROLE_attn_post_norm, s->hidden);
  switch (l->mixer) {
  case LLM_ATTENTION: want_attention(t); break;
  case LLM_MLA: want_mla(t); break;
  case LLM_MAMBA2: want_mamba2(t); break;
  case LLM_GATED_DELTA: want_delta(t); break;
  }
  if (l->ffn == LLM_NO_FFN) return;
  if (s->ffn_norm) want_norm(t, LLM_ROLE_ffn_norm, s->hidden);
  if (s->ffn_post_norm) want_norm(t, LLM_ROLE_ffn_post_norm, s->hidden);
  if (l->ffn == LLM_MOE)
    want_moe(t);
  else
    want_dense(t);
}

static void want_classifier(Want *t) {
  char name[NAME_MAX_BYTES];
  LlmSpec *s = &t->m->spec;
  const Weight *w = find_role(t->m, LLM_ROLE_classifier, LLM_WEIGHT, -1, 0, name);
  s->labels = w && w->rank == 2 ? w->dims[0] : 1;
  if (s->pooler) want_matrix(t, LLM_ROLE_pooler, s->hidden, s->hidden, true);
  want_matrix(t, LLM_ROLE_classifier, s->labels, s->hidden, s->encoder);
}

static void want_model(Want *t) {
  const LlmSpec *s = &t->m->spec;
  t->layer = -1;
  want_matrix(t, LLM_ROLE_embed, s->vocab, s->hidden, false);
  if (s->positions) want_matrix(t, LLM_ROLE_positions, s->positions, s->hidden, false);
  if (s->types) want_matrix(t, LLM_ROLE_types, s->types, s->hidden, false);
  if (s->embed_norm) want_norm(t, LLM_ROLE_embed_norm, s->hidden);
  if (s->final_norm) want_norm(t, LLM_ROLE_final_norm, s->hidden);
  if (!s->tied && !llm_headless(s))
    want_matrix(t, LLM_ROLE_head, s->vocab, s->hidden, s->head_bias);
  if (s->tied && s->head_bias) want_vector(t, LLM_ROLE_head, LLM_BIAS, s->vocab);
  if (s->classify) want_classifier(t);
  for (t->layer = 0; t->layer < s->layers; t->layer++) want_layer(t);
}

// ---- the account ----

// Heads that an encoder was trained with, and buffers.
static bool is_other_head(const char *name) {
  static const char *const part[] = {"pooler.", "cls.", "lm_head.", "vocab_"};
  const char *dot = strchr(name, '.');
  for (int64_t i = 0; i < ARRAY_LEN(part); i++)
    if (str_starts(str_of(name), part[i]) || (dot && str_starts(str_of(dot + 1), part[i])))
      return true;
  return str_ends(str_of(name), "embeddings.position_ids");
}

static bool follows_from_config(const LlmModel *m, const char *name) {
  static const char *const end[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                    ".attention.bias", ".attention.masked_bias"};
  static const char *const gguf[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                     "rope_factors_short.weight"};
  for (int64_t i = 0; i < ARRAY_LEN(end); i++)
    if (str_ends(str_of(name), end[i])) return true;
  for (int64_t i = 0; m->spec.gguf && i < ARRAY_LEN(gguf); i++)
    if (!strcmp(name, gguf[i])) return true;
  if (m->spec.encoder && is_other_head(name)) return true;
  // The head of a tied model is the embedding, whatever else the file has.
  return m->spec.tied && !m->spec.gguf && str_ends(str_of(name), "lm_head.weight");
}

static tenon_status check_account(Want *t) {
  const Weights *all = t->m->weights;
  int64_t more = 0;
  for (int64_t i = 0; i < all->v.n; i++)
    if (!t->used[i] && !all->v.v[i].is_part && !follows_from_config(t->m, all->v.v[i].name) &&
        more++ < SHOWN)
      fail(t->d, TENON_EUNSUPPORTED, NOWHERE, "the tensor '%s' is not one of the architecture '%s'",
           all->v.v[i].name, t->m->spec.name);
  if (more > SHOWN) diag_note(t->d, "... and %lld further tensors", (long long)(more - SHOWN));
  return t->missing || t->wrong ? TENON_EFORMAT : more ? TENON_EUNSUPPORTED : TENON_OK;
}

static int64_t experts_read(const LlmModel *m, int64_t bytes) {
  return m->spec.moe.experts ? bytes / m->spec.moe.experts * m->spec.moe.top_k : bytes;
}

static void count(LlmModel *m, LlmRole role, const LlmSlot *slot, int64_t *bytes, int64_t *token) {
  int64_t n = slot->w ? slot->w->bytes : 0;
  for (int64_t i = 0; i < slot->n; i++) n += slot->by[i]->bytes;
  *bytes += n;
  if (llm_role[role].place == LLM_OF_EXPERTS)
    n = experts_read(m, n);
  else if (role == LLM_ROLE_positions)
    n /= MAX(m->spec.positions, 1);
  else if (role == LLM_ROLE_types)
    n = n ? n / m->spec.types : 0;
  else if (role == LLM_ROLE_embed && (!m->spec.tied || llm_headless(&m->spec)))
    n /= m->spec.vocab;
  else if (role == LLM_ROLE_embed)
    n += n / m->spec.vocab;
  *token += n;
}

tenon_status llm_find_weights(LlmModel *m, Diag *d) {
  Want t = {.m = m, .d = d, .used = arena_array(&m->arena, bool, m->weights->v.n + 1)};
  LlmSlots *s = &m->files->slots;
  s->layer = arena_alloc_array(&m->arena, m->spec.layers, (int64_t)sizeof *s->layer);
  want_model(&t);
  TRY(check_account(&t));
  for (int role = 0; role < LLM_ROLES; role++)
    for (int part = 0; part < LLM_PARTS; part++) {
      count(m, (LlmRole)role, &s->model[role][part], &m->weight_bytes, &m->token_bytes);
      for (int64_t i = 0; i < m->spec.layers; i++)
        count(m, (LlmRole)role, &s->layer[i][role][part], &m->weight_bytes, &m->token_bytes);
    }
  return TENON_OK;
}
