// spec_config.c -- a config.json as a spec: every choice that distinguishes decoders, resolved.
//
// The row of the architecture says which keys have a meaning; each function below reads one group
// of them.  Defaults are those of the reference implementation's class.
#include "models/config.h"
#include "models/quant.h"
#include "models/spec.h"

#include <math.h>

static bool bias(Config *c, const LlmBias *b) {
  return b->always || (b->keyed && config_bool(c, (CfgKey)b->key, b->fallback));
}

static void read_sizes(Config *c, LlmSpec *s) {
  s->vocab = config_need(c, CFG_vocab_size, LLM_SIZE_MAX);
  s->hidden = config_need(c, CFG_hidden_size, LLM_SIZE_MAX);
  s->layers = config_need(c, CFG_num_hidden_layers, LLM_LAYERS_MAX);
  s->context = config_int(c, CFG_max_position_embeddings, 2048, 1, LLM_SIZE_MAX);
  s->ffn =
      config_int(c, CFG_intermediate_size, c->arch->gated ? 0 : 4 * s->hidden, 0, LLM_SIZE_MAX);
  if (c->arch->learned_positions) s->positions = s->context;
  s->epsilon = config_number(c, CFG_rms_norm_eps, c->arch->epsilon);
  s->tied = config_bool(c, CFG_tie_word_embeddings, c->arch->tied);
  if (!c->arch->act_from_key) return;
  Str act = config_word(c, CFG_hidden_act, "");
  if (act.n && !llm_act_of(act, &s->act))
    config_fail(c, TENON_EUNSUPPORTED, "the activation '%.*s' is not supported", STR_ARG(act));
}

static void read_heads(Config *c, LlmSpec *s) {
  if (s->row->mixer == LLM_MAMBA2) return;
  s->heads = config_need(c, CFG_num_attention_heads, LLM_HEADS_MAX);
  s->kv_heads = config_int(c, CFG_num_key_value_heads, s->heads, 1, LLM_HEADS_MAX);
  s->head_size = s->value_size = config_int(c, CFG_head_dim, s->hidden / s->heads, 1, 1 << 16);
  s->q_bias = bias(c, &s->row->q_bias);
  s->kv_bias = bias(c, &s->row->kv_bias);
  s->o_bias = bias(c, &s->row->o_bias);
  s->qkv = s->row->qkv;
}

static void read_mla(Config *c, LlmSpec *s) {
  if (s->row->mixer != LLM_MLA) return;
  s->mla = (LlmMla){.q_rank = config_int(c, CFG_q_lora_rank, 0, 1, LLM_SIZE_MAX),
                    .kv_rank = config_need(c, CFG_kv_lora_rank, LLM_SIZE_MAX),
                    .nope = config_need(c, CFG_qk_nope_head_dim, 1 << 16),
                    .rope = config_need(c, CFG_qk_rope_head_dim, 1 << 16)};
  s->head_size = s->mla.nope + s->mla.rope;
  s->value_size = config_need(c, CFG_v_head_dim, 1 << 16);
  if (config_int(c, CFG_qk_head_dim, s->head_size, 1, 1 << 17) != s->head_size)
    config_fail(c, TENON_EFORMAT, "qk_head_dim is not the sum of its parts");
}

// StableLM's and Phi's norms of queries and keys are a choice of the file.
static void read_qk_norm(Config *c, LlmSpec *s) {
  if (s->row->names != NAMES_STABLELM && s->row->names != NAMES_PHI2) return;
  if (!config_bool(c, CFG_qk_layernorm, false)) return;
  s->qk_norm = s->row->names == NAMES_PHI2 ? LLM_QK_HEAD : LLM_QK_HEADS;
  s->qk_norm_bias = s->row->names == NAMES_PHI2;
}

static void read_scales(Config *c, LlmSpec *s) {
  s->attention_scale = s->head_size > 0 ? 1 / sqrt((double)s->head_size) : 1;
  if (s->row->embed_sqrt) {
    s->embed_scale = sqrt((double)s->hidden);
    if (s->row->block == BLOCK_SANDWICH) {
      double q = config_number(c, CFG_query_pre_attn_scalar, (double)s->head_size);
      s->attention_scale = q > 0 ? 1 / sqrt(q) : 0;
      s->attention_cap = config_number(c, CFG_attn_logit_softcapping, 0);
      s->logits_cap = config_number(c, CFG_final_logit_softcapping, 0);
    }
  }
  if (!strcmp(s->name, "granite")) {
    s->embed_scale = config_number(c, CFG_embedding_multiplier, 1);
    s->residual_scale = config_number(c, CFG_residual_multiplier, 1);
    s->attention_scale = config_number(c, CFG_attention_multiplier, 1);
    s->logits_scale = 1 / config_number(c, CFG_logits_scaling, 1);
  }
  if (!strcmp(s->name, "cohere2")) s->logits_scale = config_number(c, CFG_logit_scale, 0.0625);
  if (s->row->learned_positions) {
    if (!config_bool(c, CFG_scale_attn_weights, true)) s->attention_scale = 1;
    if (config_bool(c, CFG_scale_attn_by_inverse_layer_idx, false))
      config_fail(c, TENON_EUNSUPPORTED, "scale_attn_by_inverse_layer_idx is not supported");
  }
}

// Parallel parts where the file says so.
static void read_block(Config *c, LlmSpec *s) {
  if (!strcmp(s->name, "gptneox")) s->parallel = config_bool(c, CFG_use_parallel_residual, true);
  if (!strcmp(s->name, "stablelm") && config_bool(c, CFG_use_parallel_residual, false)) {
    s->parallel = true;
    s->ffn_norm = false;
  }
  if (strcmp(s->name, "falcon")) return;
  bool now = config_bool(c, CFG_new_decoder_architecture, false);
  bool parallel = config_bool(c, CFG_parallel_attn, true);
  int64_t norms = config_int(c, CFG_num_ln_in_parallel_attn, now ? 2 : 1, 1, 2);
  bool many = !config_bool(c, CFG_multi_query, true);
  s->parallel = parallel || now;
  s->ffn_norm = !s->parallel || (now && norms == 2);
  if (!now) {
    s->kv_heads = many ? s->heads : 1;
    s->qkv = many ? LLM_QKV_BY_HEAD : LLM_QKV_CONCAT;
  }
  if (now && !parallel)
    config_fail(c, TENON_EUNSUPPORTED, "Falcon with new_decoder_architecture has parallel parts");
  if (config_bool(c, CFG_alibi, false))
    config_fail(c, TENON_EUNSUPPORTED, "Falcon with 'alibi' is not supported");
}

// What comes with a class that has no head for tokens.
static void read_class(Config *c, LlmSpec *s) {
  s->classify = c->what == LLM_CLASS_SCORES;
  s->base = !s->encoder && c->what != LLM_CLASS_LOGITS;
  if (!s->encoder) return;
  if (s->row->types) s->types = config_int(c, CFG_type_vocab_size, 2, 1, 1 << 16);
  Str how = config_word(c, CFG_position_embedding_type, "absolute");
  if (!str_is(how, "absolute"))
    config_fail(c, TENON_EUNSUPPORTED, "positions of type '%.*s' are not supported", STR_ARG(how));
  int64_t pad = config_int(c, CFG_pad_token_id, s->row->pad_offset ? 1 : 0, 0, LLM_SIZE_MAX);
  if (!s->row->pad_offset) return;
  s->position_offset = pad + 1;
  s->context = s->positions - s->position_offset;
}

// ---- experts ----

static void read_moe_deepseek(Config *c, LlmSpec *s) {
  LlmMoe *m = &s->moe;
  m->size = config_need(c, CFG_moe_intermediate_size, LLM_SIZE_MAX);
  m->shared = config_int(c, CFG_n_shared_experts, 2, 0, 1024) * m->size;
  m->scale = config_number(c, CFG_routed_scaling_factor, 1);
  Str method = config_word(c, CFG_topk_method, "greedy");
  int64_t groups = config_int(c, CFG_n_group, 1, 1, LLM_EXPERTS_MAX);
  int64_t top = config_int(c, CFG_topk_group, 1, 1, LLM_EXPERTS_MAX);
  if (str_is(method, "group_limited_greedy")) {
    m->groups = groups;
    m->top_groups = top;
  } else if (!str_is(method, "greedy")) {
    config_fail(c, TENON_EUNSUPPORTED, "topk_method '%.*s' is not supported", STR_ARG(method));
  }
  // The class ignores it; a file that says true would be computed differently elsewhere.
  if (config_bool(c, CFG_norm_topk_prob, false))
    config_fail(c, TENON_EUNSUPPORTED, "DeepSeek 2 with norm_topk_prob is not supported");
  int64_t dense = config_int(c, CFG_first_k_dense_replace, 0, 0, LLM_LAYERS_MAX);
  for (int64_t i = 0; i < MIN(dense, s->layers); i++) s->layer[i].ffn = LLM_DENSE;
}

static void read_moe_qwen(Config *c, LlmSpec *s) {
  LlmMoe *m = &s->moe;
  m->size = config_need(c, CFG_moe_intermediate_size, LLM_SIZE_MAX);
  m->norm_top = config_bool(c, CFG_norm_topk_prob, s->row->q_gate);
  int64_t step = config_int(c, CFG_decoder_sparse_step, 1, 1, LLM_LAYERS_MAX);
  for (int64_t i = 0; i < s->layers; i++)
    if ((i + 1) % step) s->layer[i].ffn = LLM_DENSE;
  const Json *dense = config_json(c, CFG_mlp_only_layers);
  for (int64_t i = 0; dense && i < dense->n; i++) {
    const Json *j = &dense->item[i];
    if (dense->kind != JSON_ARRAY || j->kind != JSON_INT || j->i < 0 || j->i >= s->layers)
      config_fail(c, TENON_EFORMAT, "mlp_only_layers must be a list of layers");
    else
      s->layer[j->i].ffn = LLM_DENSE;
  }
  if (!s->row->q_gate) return;
  m->shared = config_int(c, CFG_shared_expert_intermediate_size, 512, 1, LLM_SIZE_MAX);
  m->shared_gate = true;
}

static void read_moe(Config *c, LlmSpec *s) {
  LlmMoe *m = &s->moe;
  *m = (LlmMoe){.scale = 1, .groups = 1, .top_groups = 1, .size = s->ffn};
  if (s->row->moe == MOE_NONE) return;
  m->experts = config_need(c, CFG_num_local_experts, LLM_EXPERTS_MAX);
  m->top_k = config_need(c, CFG_num_experts_per_tok, LLM_EXPERTS_MAX);
  m->by_expert = s->row->moe != MOE_GPTOSS;
  switch (s->row->moe) {
  case MOE_NONE: break;
  case MOE_MIXTRAL: m->norm_top = true; break;
  case MOE_QWEN: read_moe_qwen(c, s); break;
  case MOE_DEEPSEEK: read_moe_deepseek(c, s); break;
  case MOE_GPTOSS:
    m->score = LLM_SOFTMAX_TOP;
    m->gate_up = LLM_UP_INTERLEAVED;
    m->in_out = m->biases = true;
    s->act_limit = config_number(c, CFG_swiglu_limit, 7);
    s->act_alpha = config_number(c, CFG_swiglu_alpha, 1.702);
    break;
  }
}

// ---- layers ----

static bool layer_is(const Json *types, int64_t i, const char *what) {
  return types->item[i].kind == JSON_STRING && str_is(types->item[i].s, what);
}

// sliding_window_pattern: every nth layer has no window, with 0 none has one; or a letter for each
// layer of a period, L with and G without one, where the last layer has none.
static bool by_pattern(Config *c, const LlmSpec *s, int64_t i) {
  const Json *j = config_json(c, CFG_sliding_window_pattern);
  if (!j || j->kind != JSON_STRING) {
    int64_t n = config_int(c, CFG_sliding_window_pattern, s->row->pattern, 0, LLM_LAYERS_MAX);
    return n > 0 && (i + 1) % n != 0;
  }
  for (int64_t k = 0; k < MAX(j->s.n, 1); k++)
    if (!j->s.n || !strchr("LG", j->s.p[k]) || !j->s.p[k]) {
      config_fail(c, TENON_EFORMAT, "'sliding_window_pattern' of config.json must be of L and G");
      return false;
    }
  return i + 1 < s->layers && j->s.p[i % j->s.n] == 'L';
}

// The list of the file, else the pattern of the row.
static void read_windows(Config *c, LlmSpec *s) {
  const LlmArch *a = s->row;
  if (a->windows == WINDOW_NONE) return;
  int64_t window = config_int(c, CFG_sliding_window, 0, 1, LLM_SIZE_MAX);
  if (a->window_switch && !config_bool(c, CFG_use_sliding_window, false)) window = 0;
  int64_t from = a->windows == WINDOW_FROM_LAYER
                     ? config_int(c, CFG_max_window_layers, 28, 0, LLM_SIZE_MAX)
                     : 0;
  const Json *types = a->windows == WINDOW_ALL ? NULL : config_json(c, CFG_layer_types);
  if (types && (types->kind != JSON_ARRAY || types->n != s->layers)) {
    config_fail(c, TENON_EFORMAT, "layer_types must list %lld layers", (long long)s->layers);
    return;
  }
  // A list makes the pattern void, which some files have besides.
  if (types && a->windows == WINDOW_PATTERN) config_json(c, CFG_sliding_window_pattern);
  for (int64_t i = 0; i < s->layers; i++) {
    bool yes = true;
    if (types)
      yes = layer_is(types, i, "sliding_attention");
    else if (a->windows == WINDOW_PATTERN)
      yes = by_pattern(c, s, i);
    else if (a->windows == WINDOW_FROM_LAYER)
      yes = i >= from;
    else if (a->windows == WINDOW_NO_ROPE)
      yes = s->layer[i].rope < 0;
    if (types && !yes && !layer_is(types, i, "full_attention"))
      config_fail(c, TENON_EUNSUPPORTED, "layer %lld is of a type that '%s' does not have",
                  (long long)i, a->name);
    s->layer[i].window = yes ? window : 0;
  }
}

static void read_listed_ropes(Config *c, LlmSpec *s) {
  const Json *list = config_json(c, CFG_no_rope_layers);
  int64_t nth = config_int(c, CFG_no_rope_layer_interval, s->row->pattern, 1, LLM_LAYERS_MAX);
  if (list && (list->kind != JSON_ARRAY || list->n != s->layers)) {
    config_fail(c, TENON_EFORMAT, "no_rope_layers must list %lld layers", (long long)s->layers);
    return;
  }
  for (int64_t i = 0; i < s->layers; i++) {
    bool yes = list ? list->item[i].i != 0 : (i + 1) % nth != 0;
    if (list && list->item[i].kind != JSON_INT)
      config_fail(c, TENON_EFORMAT, "no_rope_layers must be a list of 0 and 1");
    if (!yes) s->layer[i].rope = -1;
  }
}

// Layers with a window have rotary positions of their own, or are the only ones that have any.
static void place_ropes(LlmSpec *s) {
  const LlmArch *a = s->row;
  bool some = false;
  for (int64_t i = 0; i < s->layers; i++) some |= s->layer[i].window > 0;
  for (int64_t i = 0; i < s->layers; i++) {
    LlmLayer *l = &s->layer[i];
    if (a->local_theta > 0 && l->window) l->rope = 1;
    bool windowed = a->ropes == ROPE_WINDOWED || (a->ropes == ROPE_WINDOWED_HYBRID && some);
    if (windowed && !l->window) l->rope = -1;
  }
}

static void read_delta(Config *c, LlmSpec *s) {
  s->recurrent =
      (LlmRecurrent){.heads = config_int(c, CFG_linear_num_value_heads, 32, 1, LLM_HEADS_MAX),
                     .head_size = config_int(c, CFG_linear_value_head_dim, 128, 1, 1 << 16),
                     .key_heads = config_int(c, CFG_linear_num_key_heads, 16, 1, LLM_HEADS_MAX),
                     .state_size = config_int(c, CFG_linear_key_head_dim, 128, 1, 1 << 16),
                     .conv = config_int(c, CFG_linear_conv_kernel_dim, 4, 1, 256),
                     .norm_epsilon = s->epsilon,
                     .norm_groups = 1};
  const Json *types = config_json(c, CFG_layer_types);
  int64_t nth = config_int(c, CFG_full_attention_interval, s->row->pattern, 1, LLM_LAYERS_MAX);
  if (types && (types->kind != JSON_ARRAY || types->n != s->layers)) {
    config_fail(c, TENON_EFORMAT, "layer_types must list %lld layers", (long long)s->layers);
    return;
  }
  for (int64_t i = 0; i < s->layers; i++) {
    bool full = types ? layer_is(types, i, "full_attention") : (i + 1) % nth == 0;
    if (types && !full && !layer_is(types, i, "linear_attention"))
      config_fail(c, TENON_EUNSUPPORTED, "layer %lld is of a type that '%s' does not have",
                  (long long)i, s->name);
    if (full) s->layer[i].mixer = LLM_ATTENTION;
  }
}

static void read_mamba(Config *c, LlmSpec *s) {
  int64_t expand = config_int(c, CFG_expand, 2, 1, 64);
  LlmRecurrent *r = &s->recurrent;
  *r = (LlmRecurrent){.heads = config_int(c, CFG_num_heads, 128, 1, LLM_HEADS_MAX),
                      .head_size = config_int(c, CFG_head_dim, 64, 1, 1 << 16),
                      .key_heads = config_int(c, CFG_n_groups, 8, 1, LLM_HEADS_MAX),
                      .state_size = config_int(c, CFG_state_size, 128, 1, 1 << 16),
                      .conv = config_int(c, CFG_conv_kernel, 4, 1, 256),
                      .conv_bias = config_bool(c, CFG_use_conv_bias, true),
                      .bias = config_bool(c, CFG_use_bias, false),
                      .dt_max = INFINITY,
                      .norm_epsilon = s->epsilon,
                      .norm_groups = 1};
  if (r->heads * r->head_size != s->hidden * expand)
    config_fail(c, TENON_EFORMAT, "%lld heads of %lld are not %lld times the hidden size",
                (long long)r->heads, (long long)r->head_size, (long long)expand);
  const Json *limit = config_json(c, CFG_time_step_limit);
  if (limit && (limit->kind != JSON_ARRAY || limit->n != 2 ||
                !config_json_number(&limit->item[0], &r->dt_min) ||
                !config_json_number(&limit->item[1], &r->dt_max)))
    config_fail(c, TENON_EFORMAT, "time_step_limit must be two numbers");
}

// ---- all of it ----

tenon_status llm_spec_of_config(Arena *a, Str text, const LlmOpenOptions *o, Diag *d, LlmSpec *s) {
  Config c;
  TRY(config_read(a, text, d, &c));
  llm_spec_of_row(a, c.arch, s);
  s->norm_plus_one = c.arch->plus_one;
  s->gate_up = c.arch->gate_up;
  s->in_out = c.arch->in_out;
  read_sizes(&c, s);
  read_heads(&c, s);
  read_mla(&c, s);
  TRY(c.status);
  s->up_bias = bias(&c, &c.arch->up_bias);
  s->down_bias = bias(&c, &c.arch->down_bias);
  s->head_bias = bias(&c, &c.arch->head_bias);
  read_qk_norm(&c, s);
  read_block(&c, s);
  read_class(&c, s);
  read_scales(&c, s);
  TRY(c.status);
  TRY(llm_spec_layers(a, s, d));
  read_moe(&c, s);
  if (c.arch->ropes == ROPE_LISTED) read_listed_ropes(&c, s);
  read_windows(&c, s);
  place_ropes(s);
  if (c.arch->mixer == LLM_GATED_DELTA) read_delta(&c, s);
  if (c.arch->mixer == LLM_MAMBA2) read_mamba(&c, s);
  TRY(c.status);
  double partial =
      config_number(&c, CFG_partial_rotary_factor, c.arch->partial > 0 ? c.arch->partial : 1);
  SpecOptions so = {.length = o ? o->context : 0, .partial = partial};
  if (c.arch->ropes != ROPE_NONE) llm_rope_of_config(&c, &so, s);
  llm_quant_of_config(&c, &s->quant);
  TRY(c.status);
  return config_finish(&c);
}
