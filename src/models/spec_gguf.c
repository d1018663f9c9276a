// spec_gguf.c -- the metadata of a GGUF file as a spec.
//
// The keys say less than a config.json: whether there are biases, fused products or a head follows
// from the tensors, and some choices from the architecture alone, as the format's reference has
// them.
#include "models/spec.h"

#include "frontends/gguf/gguf.h"

#include <math.h>

typedef enum {
#define GKEY(id, key, doc) GK_##id,
#define GIRRELEVANT(key, doc)
#include "models/gguf_keys.def"
#undef GKEY
#undef GIRRELEVANT
  GK_COUNT
} GgufKey;

static const char *const gguf_key[GK_COUNT] = {
#define GKEY(id, key, doc) key,
#define GIRRELEVANT(key, doc)
#include "models/gguf_keys.def"
#undef GKEY
#undef GIRRELEVANT
};
static const char *const gguf_irrelevant[] = {
#define GKEY(id, key, doc)
#define GIRRELEVANT(key, doc) key,
#include "models/gguf_keys.def"
#undef GKEY
#undef GIRRELEVANT
};

typedef struct Meta {
  LlmModel *m;
  Diag *d;
  tenon_status status;  // sticky
  Str arch;
  const GgufValue *value[GK_COUNT];
  bool asked[GK_COUNT];
} Meta;

static tenon_status bad(Meta *t, tenon_status code, const char *fmt, ...) PRINTF(3, 4);
static tenon_status bad(Meta *t, tenon_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (!t->status) t->status = failv(t->d, code, NOWHERE, fmt, ap);
  va_end(ap);
  return t->status;
}

// ---- keys ----

static const GgufValue *find_plain(const GgufFile *f, const char *key) {
  for (int64_t i = 0; i < f->kv.n; i++)
    if (str_is(f->kv.v[i].key, key)) return &f->kv.v[i];
  return NULL;
}

static void note_key(Meta *t, const GgufValue *v, Str key) {
  for (int k = 0; k < GK_COUNT; k++)
    if (str_is(key, gguf_key[k])) {
      t->value[k] = v;
      return;
    }
  for (int64_t k = 0; k < ARRAY_LEN(gguf_irrelevant); k++)
    if (str_is(key, gguf_irrelevant[k])) return;
  bad(t, TENON_EUNSUPPORTED, "the metadata has the key '%.*s', which is not known%s",
      STR_ARG(v->key), did_you_mean(key, gguf_key, GK_COUNT).s);
}

static void note_keys(Meta *t) {
  const GgufFile *f = t->m->gguf;
  for (int64_t i = 0; i < f->kv.n; i++) {
    const GgufValue *v = &f->kv.v[i];
    int64_t n = t->arch.n + 1;
    if (v->key.n > n && !memcmp(v->key.p, t->arch.p, (size_t)t->arch.n) && v->key.p[n - 1] == '.')
      note_key(t, v, (Str){v->key.p + n, v->key.n - n});
    if (str_is(v->key, "split.count") && v->i > 1)
      bad(t, TENON_EUNSUPPORTED, "the model is split over %lld files, which is not supported",
          (long long)v->i);
  }
}

static void finish_keys(Meta *t) {
  for (int k = 0; k < GK_COUNT; k++) {
    const GgufValue *v = t->value[k];
    bool zero = v && v->kind != GV_ARRAY && v->kind != GV_STRING && v->i == 0 && v->f == 0;
    if (v && !t->asked[k] && !zero)
      bad(t, TENON_EUNSUPPORTED,
          "the metadata has the key '%.*s', which the architecture '%s' does not use",
          STR_ARG(v->key), t->m->spec.name);
  }
}

static const GgufValue *ask(Meta *t, GgufKey k) {
  t->asked[k] = true;
  return t->value[k];
}

// Item i of an array of integers or bools; false where it has none.
static bool item(const GgufValue *v, int64_t i, int64_t *out) {
  static const int8_t bytes[GV_TYPES] = {[GV_U8] = 1,  [GV_I8] = 1,  [GV_U16] = 2, [GV_I16] = 2,
                                         [GV_U32] = 4, [GV_I32] = 4, [GV_BOOL] = 1};
  int each = v->kind == GV_ARRAY ? bytes[v->elem] : 0;
  if (!each || i >= v->n) return false;
  int64_t x = 0;
  for (int b = 0; b < each; b++) x |= (int64_t)(uint8_t)v->s.p[i * each + b] << (8 * b);
  *out = x;
  return true;
}

static int64_t integer(Meta *t, GgufKey k, int64_t fallback, int64_t least, int64_t most) {
  const GgufValue *v = ask(t, k);
  if (!v) return fallback;
  int64_t x = v->i, other;
  bool fine = v->kind != GV_ARRAY && v->kind != GV_STRING && v->kind != GV_F32 && v->kind != GV_F64;
  if (v->kind == GV_ARRAY) {  // a number for each layer, all alike
    fine = item(v, 0, &x);
    for (int64_t i = 1; fine && i < v->n; i++) fine = item(v, i, &other) && other == x;
  }
  if (fine && x >= least && x <= most) return x;
  bad(t, TENON_EUNSUPPORTED, "'%.*s' of the metadata must be an integer from %lld to %lld",
      STR_ARG(v->key), (long long)least, (long long)most);
  return MAX(least, MIN(fallback, most));
}

static int64_t need(Meta *t, GgufKey k, int64_t most) {
  if (!ask(t, k))
    bad(t, TENON_EFORMAT, "the metadata lacks the key '%.*s.%s'", STR_ARG(t->arch), gguf_key[k]);
  return integer(t, k, 1, 1, most);
}

static double number(Meta *t, GgufKey k, double fallback) {
  const GgufValue *v = ask(t, k);
  if (!v) return fallback;
  bool is_float = v->kind == GV_F32 || v->kind == GV_F64;
  double x = is_float ? v->f : (double)v->i;
  if (v->kind != GV_ARRAY && v->kind != GV_STRING && isfinite(x)) return x;
  bad(t, TENON_EFORMAT, "'%.*s' of the metadata must be a number", STR_ARG(v->key));
  return fallback;
}

static bool is_arch(const Meta *t, const char *name) { return !strcmp(t->m->spec.name, name); }

// ---- sizes ----

static void read_sizes(Meta *t, LlmSpec *s) {
  s->hidden = need(t, GK_hidden, LLM_SIZE_MAX);
  s->layers = need(t, GK_layers, LLM_LAYERS_MAX);
  s->context = integer(t, GK_context, 2048, 1, LLM_SIZE_MAX);
  s->ffn = integer(t, GK_ffn, 0, 0, LLM_SIZE_MAX);
  s->epsilon = number(t, s->norm == LLM_RMS ? GK_rms_eps : GK_norm_eps, s->epsilon);
  const Weight *embed = weights_find(t->m->weights, STR("token_embd.weight"));
  s->vocab = embed && embed->rank == 2 ? embed->dims[0] : 0;
  if (integer(t, GK_vocab_size, s->vocab, 1, LLM_SIZE_MAX) != s->vocab)
    bad(t, TENON_EFORMAT, "vocab_size of the metadata is not that of token_embd.weight, %lld",
        (long long)s->vocab);
  if (s->row->learned_positions) s->positions = s->context;
  s->tied = !llm_has(t->m, LLM_ROLE_head, LLM_WEIGHT, -1);
  s->head_bias = llm_has(t->m, LLM_ROLE_head, LLM_BIAS, -1);
  if (!s->encoder) return;
  const Weight *types = weights_find(t->m->weights, STR("token_types.weight"));
  s->types = types && types->rank == 2 ? types->dims[0] : 0;
  s->classify = llm_has(t->m, LLM_ROLE_classifier, LLM_WEIGHT, -1);
  if (!llm_has(t->m, LLM_ROLE_pooler, LLM_WEIGHT, -1)) s->pooler = LLM_HEAD_PLAIN;
}

static void read_heads(Meta *t, LlmSpec *s) {
  if (s->row->mixer == LLM_MAMBA2) {
    integer(t, GK_heads, 0, 0, LLM_HEADS_MAX);
    integer(t, GK_kv_heads, 0, 0, LLM_HEADS_MAX);
    return;
  }
  s->heads = need(t, GK_heads, LLM_HEADS_MAX);
  s->kv_heads = integer(t, GK_kv_heads, s->heads, 1, LLM_HEADS_MAX);
  s->head_size = integer(t, GK_key_length, s->hidden / s->heads, 1, 1 << 16);
  s->value_size = integer(t, GK_value_length, s->head_size, 1, 1 << 16);
  if (s->row->mixer != LLM_MLA) return;
  s->kv_heads = s->heads;
  s->head_size = integer(t, GK_key_length_mla, s->head_size, 1, 1 << 16);
  s->value_size = integer(t, GK_value_length_mla, s->value_size, 1, 1 << 16);
  s->mla = (LlmMla){.q_rank = integer(t, GK_q_rank, 0, 0, LLM_SIZE_MAX),
                    .kv_rank = need(t, GK_kv_rank, LLM_SIZE_MAX),
                    .rope = need(t, GK_rope_dim, 1 << 16)};
  s->mla.nope = s->head_size - s->mla.rope;
}

// Converters write a width that some families assume; the tensor's is what it has.
static void read_width(LlmSpec *s, const Weight *up) {
  if (up && up->rank == 2) s->ffn = s->row->gate_up ? up->dims[0] / 2 : up->dims[0];
}

// What the tensors of the first layer decide.
static void read_tensors(Meta *t, LlmSpec *s) {
  const LlmModel *m = t->m;
  s->qkv = llm_has(m, LLM_ROLE_qkv, LLM_WEIGHT, 0) ? LLM_QKV_CONCAT : LLM_QKV_APART;
  s->q_bias = llm_has(m, s->qkv ? LLM_ROLE_qkv : LLM_ROLE_q, LLM_BIAS, 0);
  s->kv_bias = llm_has(m, LLM_ROLE_k, LLM_BIAS, 0);
  s->o_bias = llm_has(m, LLM_ROLE_o, LLM_BIAS, 0);
  s->up_bias = llm_has(m, LLM_ROLE_up, LLM_BIAS, 0);
  s->down_bias = llm_has(m, LLM_ROLE_down, LLM_BIAS, 0);
  s->gate_up = s->row->gate_up;
  read_width(s, weights_find(m->weights, STR("blk.0.ffn_up.weight")));
  if (is_arch(t, "falcon")) s->ffn_norm = weights_find(m->weights, STR("blk.0.attn_norm_2.weight"));
  if (is_arch(t, "stablelm")) {
    ask(t, GK_parallel);
    s->ffn_norm = llm_has(m, LLM_ROLE_ffn_norm, LLM_WEIGHT, 0);
    s->parallel = !s->ffn_norm;
    if (llm_has(m, LLM_ROLE_q_norm, LLM_WEIGHT, 0)) s->qk_norm = LLM_QK_HEADS;
    s->qk_norm_bias = false;
  }
  if (is_arch(t, "gptneox")) s->parallel = integer(t, GK_parallel, 1, 0, 1) != 0;
}

static void read_scales(Meta *t, LlmSpec *s) {
  s->attention_scale = s->head_size > 0 ? 1 / sqrt((double)s->head_size) : 1;
  if (s->row->embed_sqrt) s->embed_scale = sqrt((double)s->hidden);
  if (is_arch(t, "gemma2") || is_arch(t, "gemma3")) {
    // The format does not say it: the largest of each family have another scale.
    if (s->layers == (is_arch(t, "gemma2") ? 46 : 62) && s->heads)
      s->attention_scale = 1 / sqrt((double)s->hidden / (double)s->heads);
    s->attention_cap = number(t, GK_attention_cap, is_arch(t, "gemma2") ? 50 : 0);
    s->logits_cap = number(t, GK_logits_cap, is_arch(t, "gemma2") ? 30 : 0);
  }
  if (is_arch(t, "granite")) {
    s->embed_scale = number(t, GK_embedding_scale, 1);
    s->residual_scale = number(t, GK_residual_scale, 1);
    s->attention_scale = number(t, GK_scale, s->attention_scale);
    s->logits_scale = 1 / number(t, GK_logit_scale, 1);
  }
  if (is_arch(t, "cohere2")) s->logits_scale = number(t, GK_logit_scale, 0.0625);
}

// ---- experts ----

static void read_moe(Meta *t, LlmSpec *s) {
  LlmMoe *m = &s->moe;
  *m = (LlmMoe){.scale = 1, .groups = 1, .top_groups = 1};
  m->experts = integer(t, GK_experts, 0, 0, LLM_EXPERTS_MAX);
  m->top_k = integer(t, GK_experts_used, 0, 0, LLM_EXPERTS_MAX);
  for (int64_t i = 0; i < s->layers; i++)
    if (s->layer[i].ffn == LLM_MOE || m->experts) s->layer[i].ffn = LLM_MOE;
  if (!m->experts) {
    for (int64_t i = 0; i < s->layers; i++)
      if (s->layer[i].ffn == LLM_MOE) s->layer[i].ffn = LLM_DENSE;
    return;
  }
  m->size = integer(t, GK_expert_ffn, s->ffn, 1, LLM_SIZE_MAX);
  bool deep = is_arch(t, "deepseek2"), oss = is_arch(t, "gptoss");
  m->norm_top = integer(t, GK_expert_norm, !deep && !oss, 0, 1) != 0;
  double scale = number(t, GK_expert_scale, 1);
  if (scale != 0) m->scale = scale;  // 0: not said
  m->biases = oss;
  if (oss) {
    m->score = LLM_SOFTMAX_TOP;
    s->act_limit = 7;
    s->act_alpha = 1.702;
  }
  if (!deep) return;
  int64_t dense = integer(t, GK_dense_layers, 0, 0, LLM_LAYERS_MAX);
  for (int64_t i = 0; i < MIN(dense, s->layers); i++) s->layer[i].ffn = LLM_DENSE;
  m->shared = integer(t, GK_shared_count, 0, 0, 1024) * m->size;
  if (integer(t, GK_expert_gating, 1, 0, 3) == 2) m->score = LLM_SIGMOID;
  m->bias = dense < s->layers && llm_has(t->m, LLM_ROLE_expert_bias, LLM_BIAS, dense);
  m->groups = MAX(1, integer(t, GK_expert_groups, 1, 0, LLM_EXPERTS_MAX));
  m->top_groups = MAX(1, integer(t, GK_expert_groups_used, 1, 0, LLM_EXPERTS_MAX));
  if (m->score == LLM_SIGMOID) m->group_rank = LLM_GROUP_TOP2;
}

// ---- layers and positions ----

static void read_windows(Meta *t, LlmSpec *s) {
  const LlmArch *a = s->row;
  if (a->windows == WINDOW_NONE) return;
  int64_t window = integer(t, GK_window, 0, 0, LLM_SIZE_MAX);
  const GgufValue *list = ask(t, GK_window_pattern);
  bool listed = list && list->kind == GV_ARRAY;
  int64_t nth = listed ? 0 : integer(t, GK_window_pattern, a->pattern, 0, LLM_LAYERS_MAX);
  for (int64_t i = 0; i < s->layers; i++) {
    int64_t yes = 1;
    if (listed && !item(list, i, &yes))
      bad(t, TENON_EFORMAT, "the pattern of windows must list %lld layers", (long long)s->layers);
    if (!listed && a->windows == WINDOW_PATTERN) yes = nth && (i + 1) % nth != 0;
    if (!listed && a->windows == WINDOW_NO_ROPE) yes = s->layer[i].rope < 0;
    s->layer[i].window = yes ? window : 0;
  }
}

static void place_ropes(LlmSpec *s) {
  const LlmArch *a = s->row;
  bool some = false;
  for (int64_t i = 0; i < s->layers; i++) some |= s->layer[i].window > 0;
  for (int64_t i = 0; i < s->layers; i++) {
    LlmLayer *l = &s->layer[i];
    if (a->ropes == ROPE_LISTED && (i + 1) % a->pattern == 0) l->rope = -1;
    if (a->local_theta > 0 && l->window) l->rope = 1;
    bool windowed = a->ropes == ROPE_WINDOWED || (a->ropes == ROPE_WINDOWED_HYBRID && some);
    if (windowed && !l->window) l->rope = -1;
  }
}

static void read_scaling(Meta *t, LlmRopeScaling *r) {
  const GgufValue *type = ask(t, GK_rope_type);
  double linear = number(t, GK_rope_scale_linear, 0);
  r->factor = number(t, GK_rope_factor, linear > 0 ? linear : 1);
  r->original = number(t, GK_rope_original, 0);
  if (linear > 0) r->type = ROPE_LINEAR;
  if (!type || type->kind != GV_STRING || str_is(type->s, "none") || !type->s.n) return;
  if (str_is(type->s, "linear"))
    r->type = ROPE_LINEAR;
  else if (str_is(type->s, "longrope"))
    r->type = ROPE_LONGROPE;
  else if (str_is(type->s, "yarn"))
    r->type = ROPE_YARN;
  else
    bad(t, TENON_EUNSUPPORTED, "the scaling '%.*s' of rotary positions is not supported",
        STR_ARG(type->s));
  ask(t, GK_rope_attn_factor);
  if (r->type == ROPE_YARN) {
    r->attention_factor = number(t, GK_rope_yarn_attn, -1);
    if (number(t, GK_rope_yarn_ext, 1) != 1)
      bad(t, TENON_EUNSUPPORTED, "a yarn_ext_factor other than 1 is not supported");
  }
  r->beta_fast = number(t, GK_rope_beta_fast, 32);
  r->beta_slow = number(t, GK_rope_beta_slow, 1);
  r->truncate = !is_arch(t, "gptoss");
  if (r->type == ROPE_YARN && is_arch(t, "deepseek2"))
    r->mscale = r->mscale_all_dim = 10 * number(t, GK_rope_yarn_log, 0);
}

// Divisors of angles are tensors here.
static const double *factors(Meta *t, LlmRole role, int64_t *n) {
  static const char *const name[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                     "rope_factors_short.weight"};
  const Weight *w = weights_find(t->m->weights, str_of(name[role - LLM_ROLE_rope_factors]));
  *n = 0;
  if (!w) return NULL;
  if (w->dtype != DT_F32 || w->unpack || w->rank != 1 || w->n > 1 << 16) {
    bad(t, TENON_EFORMAT, "the tensor '%s' must be a list of f32", w->name);
    return NULL;
  }
  double *v = arena_array(&t->m->arena, double, w->n + 1);
  load_f64(DT_F32, weight_elements(w, &t->m->arena), 0, w->n, v);
  for (int64_t i = 0; i < w->n; i++)
    if (!(v[i] > 0)) bad(t, TENON_EFORMAT, "the tensor '%s' must be positive", w->name);
  *n = w->n;
  return v;
}

static void read_ropes(Meta *t, const LlmOpenOptions *o, LlmSpec *s) {
  const LlmArch *a = s->row;
  if (a->ropes == ROPE_NONE) {
    integer(t, GK_rope_dim, 0, 0, 1 << 16);  // written all the same
    ask(t, GK_rope_base);
    return;
  }
  Arena *arena = &t->m->arena;
  LlmRopeScaling r;
  llm_rope_scaling_init(&r, number(t, GK_rope_base, 10000));
  read_scaling(t, &r);
  r.long_factor = factors(t, LLM_ROLE_rope_long, &r.nlong);
  r.short_factor = factors(t, LLM_ROLE_rope_short, &r.nshort);
  if (r.nlong && r.type == ROPE_DEFAULT) r.type = ROPE_LONGROPE;
  if (r.type == ROPE_LONGROPE) r.attention_factor = number(t, GK_rope_attn_factor, -1);
  int64_t head = s->row->mixer == LLM_MLA ? s->mla.rope : s->head_size;
  int64_t dim = integer(t, GK_rope_dim, head, 0, 1 << 16), n;
  if (t->status) return;
  double growth = r.original > 0 ? (double)s->context / r.original : 1;
  if (r.type == ROPE_LONGROPE && !t->value[GK_rope_factor]) r.factor = growth;
  int64_t length = o ? o->context : 0;
  t->status = llm_rope_fill(arena, &r, dim, s->context, length, t->d, &s->rope[0]);
  if (t->status) return;
  const double *by = factors(t, LLM_ROLE_rope_factors, &n);
  if (by && n != dim / 2)
    bad(t, TENON_EFORMAT, "rope_freqs.weight has %lld elements, must have %lld", (long long)n,
        (long long)dim / 2);
  for (int64_t i = 0; by && !t->status && i < n; i++) s->rope[0].inv_freq[i] /= (float)by[i];
  if (by) s->rope[0].about = llm_rope_name[ROPE_LLAMA3];
  if (s->row->mixer == LLM_MLA) s->attention_scale *= llm_rope_mla_scale(&r);
  if (a->local_theta > 0 && !t->status) {
    llm_rope_scaling_init(&r, number(t, GK_rope_base_swa, a->local_theta));
    t->status = llm_rope_fill(arena, &r, dim, s->context, length, t->d, &s->rope[1]);
  }
  s->rope[0].interleaved = s->rope[1].interleaved = a->interleaved_gguf;
}

static void read_mamba(Meta *t, LlmSpec *s) {
  LlmRecurrent *r = &s->recurrent;
  int64_t inner = need(t, GK_ssm_inner, LLM_SIZE_MAX);
  *r = (LlmRecurrent){.heads = need(t, GK_ssm_heads, LLM_HEADS_MAX),
                      .key_heads = integer(t, GK_ssm_groups, 1, 1, LLM_HEADS_MAX),
                      .state_size = need(t, GK_ssm_state, 1 << 16),
                      .conv = need(t, GK_ssm_conv, 256),
                      .conv_bias = llm_has(t->m, LLM_ROLE_ssm_conv, LLM_BIAS, 0),
                      .bias = llm_has(t->m, LLM_ROLE_ssm_in, LLM_BIAS, 0),
                      .dt_max = INFINITY,
                      .norm_epsilon = s->epsilon};
  r->head_size = inner / r->heads;
  r->norm_groups = r->key_heads;
  if (inner % r->heads) bad(t, TENON_EFORMAT, "ssm.inner_size is no multiple of its heads");
}

// 0: none is said, 1 to 3 as LlmPooling, 4: a classifier's.
static void read_pooling(Meta *t) {
  static const LlmPooling pooling[] = {LLM_POOL_UNSAID, LLM_POOL_MEAN, LLM_POOL_FIRST,
                                       LLM_POOL_LAST, LLM_POOL_UNSAID};
  t->m->pooling = pooling[integer(t, GK_pooling, 0, 0, 4)];
}

// ---- tokens ----

static void token(const GgufFile *f, const char *key, int64_t *out) {
  const GgufValue *v = find_plain(f, key);
  if (v && v->kind == GV_U32 && v->i <= LLM_SIZE_MAX) *out = v->i;
}

static void read_generation(LlmModel *m) {
  LlmGeneration *g = &m->generation;
  int64_t eos[] = {-1, -1, -1};
  token(m->gguf, "tokenizer.ggml.bos_token_id", &g->bos);
  token(m->gguf, "tokenizer.ggml.padding_token_id", &g->pad);
  token(m->gguf, "tokenizer.ggml.eos_token_id", &eos[0]);
  token(m->gguf, "tokenizer.ggml.eot_token_id", &eos[1]);
  token(m->gguf, "tokenizer.ggml.eom_token_id", &eos[2]);
  for (int64_t i = 0; i < ARRAY_LEN(eos); i++)
    if (eos[i] >= 0) g->eos[g->neos++] = eos[i];
}

tenon_status llm_spec_of_gguf(LlmModel *m, const LlmOpenOptions *o, Diag *d) {
  Meta t = {.m = m, .d = d};
  LlmSpec *s = &m->spec;
  const GgufValue *arch = find_plain(m->gguf, "general.architecture");
  if (!arch || arch->kind != GV_STRING)
    return fail(d, TENON_EFORMAT, NOWHERE, "the metadata does not name an architecture");
  t.arch = arch->s;
  const LlmArch *row = llm_arch_of_gguf(t.arch);
  if (!row)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the architecture '%.*s' is not supported",
                STR_ARG(t.arch));
  note_keys(&t);
  TRY(t.status);
  llm_spec_of_row(&m->arena, row, s);
  s->gguf = true;
  read_sizes(&t, s);
  read_heads(&t, s);
  read_scales(&t, s);
  TRY(t.status);
  TRY(llm_spec_layers(&m->arena, s, d));
  read_tensors(&t, s);
  read_moe(&t, s);
  read_windows(&t, s);
  place_ropes(s);
  read_ropes(&t, o, s);
  read_pooling(&t);
  if (row->mixer == LLM_MAMBA2) read_mamba(&t, s);
  TRY(t.status);
  finish_keys(&t);
  read_generation(m);
  return t.status;
}
