// adapter_config.c -- what the files of a LoRA adapter say besides its tensors (adapter.h).
#include "models/adapter.h"

#include "base/json.h"
#include "frontends/gguf/gguf.h"

#include <math.h>

// ---- PEFT's adapter_config.json ----

// What a key is to results.  REFUSED: anything but null, false, 0 and what is empty changes them in
// a way that is not built.
typedef enum { IRRELEVANT, USED, REFUSED } KeyKind;
static const struct {
  const char *name;
  KeyKind kind;
} config_key[] = {
    {"r", USED},
    {"lora_alpha", USED},
    {"use_rslora", USED},
    {"rank_pattern", USED},
    {"alpha_pattern", USED},
    {"peft_type", USED},
    {"bias", USED},
    {"init_lora_weights", USED},
    // Which products were trained follows from the tensors.
    {"target_modules", IRRELEVANT},
    {"exclude_modules", IRRELEVANT},
    {"layers_to_transform", IRRELEVANT},
    {"layers_pattern", IRRELEVANT},
    // Of training, and of how weights are merged.
    {"fan_in_fan_out", IRRELEVANT},
    {"lora_dropout", IRRELEVANT},
    {"inference_mode", IRRELEVANT},
    {"task_type", IRRELEVANT},
    {"auto_mapping", IRRELEVANT},
    {"base_model_name_or_path", IRRELEVANT},
    {"base_model_class", IRRELEVANT},
    {"parent_library", IRRELEVANT},
    {"unsloth_fixed", IRRELEVANT},
    {"revision", IRRELEVANT},
    {"peft_version", IRRELEVANT},
    {"megatron_config", IRRELEVANT},
    {"megatron_core", IRRELEVANT},
    {"loftq_config", IRRELEVANT},
    {"eva_config", IRRELEVANT},
    {"corda_config", IRRELEVANT},
    {"runtime_config", IRRELEVANT},
    {"ensure_weight_tying", IRRELEVANT},
    {"qalora_group_size", IRRELEVANT},
    {"modules_to_save", REFUSED},
    {"use_dora", REFUSED},
    {"use_qalora", REFUSED},
    {"lora_bias", REFUSED},
    {"layer_replication", REFUSED},
    {"trainable_token_indices", REFUSED},
    {"target_parameters", REFUSED},
    {"alora_invocation_tokens", REFUSED},
    {"arrow_config", REFUSED},
};

static tenon_status check_keys(const Json *j, Diag *d) {
  for (int64_t i = 0; i < j->n; i++) {
    int64_t k = 0;
    while (k < ARRAY_LEN(config_key) && !str_is(j->key[i], config_key[k].name)) k++;
    if (k == ARRAY_LEN(config_key))
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "the key '%.*s' is not known",
                  STR_ARG(j->key[i]));
    if (config_key[k].kind == REFUSED && !json_is_nothing(&j->item[i]))
      return fail(d, TENON_EUNSUPPORTED, NOWHERE, "'%.*s' is not supported", STR_ARG(j->key[i]));
  }
  return TENON_OK;
}

static bool text_is(const Json *j, const char *key, const char *text) {
  const Json *v = json_get(j, key);
  return !v || v->kind == JSON_NULL || (v->kind == JSON_STRING && str_is(v->s, text));
}

static tenon_status check_words(const Json *j, Diag *d) {
  const Json *init = json_get(j, "init_lora_weights");
  if (!text_is(j, "peft_type", "LORA"))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "'peft_type' must be LORA");
  if (!text_is(j, "bias", "none"))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "'bias' must be none");
  // Other ways to begin change the model's own weights, which the adapter does not have.
  if (init && init->kind == JSON_STRING && !str_is(init->s, "gaussian") &&
      !str_is(init->s, "eva") && !str_is(init->s, "orthogonal"))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "'init_lora_weights' of %.*s is not supported",
                STR_ARG(init->s));
  return TENON_OK;
}

static tenon_status read_patterns(const Json *j, const char *key, Diag *d, const Json **out) {
  const Json *v = json_get(j, key);
  *out = v && v->kind == JSON_OBJECT ? v : NULL;
  if (v && v->kind != JSON_OBJECT && !json_is_nothing(v))
    return fail(d, TENON_EFORMAT, NOWHERE, "'%s' is not an object", key);
  for (int64_t i = 0; *out && i < v->n; i++) {
    for (int64_t k = 0; k < v->key[i].n; k++) {
      unsigned char ch = (unsigned char)v->key[i].p[k];
      bool plain = ch == '_' || ch == '.' || (ch >= '0' && ch <= '9') ||
                   ((ch | 32) >= 'a' && (ch | 32) <= 'z');
      if (!plain)
        return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                    "'%s' has the pattern '%.*s'; only names of products are supported", key,
                    STR_ARG(v->key[i]));
    }
    bool number = v->item[i].kind == JSON_INT || v->item[i].kind == JSON_FLOAT;
    if (!number || !(v->item[i].f > 0) || !(v->item[i].f < 1e9))
      return fail(d, TENON_EFORMAT, NOWHERE, "'%s' of '%.*s' is not a positive number", key,
                  STR_ARG(v->key[i]));
  }
  return TENON_OK;
}

tenon_status llm_adapter_config(Arena *a, Str text, Diag *d, LlmAdapterConfig *out) {
  Json *j = arena_new(a, Json);
  TRY(json_parse(a, text, d, j));
  if (j->kind != JSON_OBJECT) return fail(d, TENON_EFORMAT, NOWHERE, "it is not an object");
  TRY(check_keys(j, d));
  TRY(check_words(j, d));
  const Json *r = json_get(j, "r"), *alpha = json_get(j, "lora_alpha"),
             *root = json_get(j, "use_rslora");
  if (!r || r->kind != JSON_INT || r->i < 1 || r->i > LLM_RANK_MAX)
    return fail(d, TENON_EFORMAT, NOWHERE, "'r' is not a number of 1 to %d", LLM_RANK_MAX);
  bool number = alpha && (alpha->kind == JSON_INT || alpha->kind == JSON_FLOAT);
  if (!number || !isfinite(alpha->f))
    return fail(d, TENON_EFORMAT, NOWHERE, "'lora_alpha' is not a number");
  if (root && root->kind != JSON_BOOL && root->kind != JSON_NULL)
    return fail(d, TENON_EFORMAT, NOWHERE, "'use_rslora' is not true or false");
  *out = (LlmAdapterConfig){.alpha = alpha->f, .rank = r->i, .root = root && root->b};
  TRY(read_patterns(j, "rank_pattern", d, &out->ranks));
  return read_patterns(j, "alpha_pattern", d, &out->alphas);
}

// The number of the first pattern that the name ends with, at the beginning of a part of it.
static const Json *match(const Json *patterns, Str name) {
  for (int64_t i = 0; patterns && i < patterns->n; i++) {
    Str p = patterns->key[i];
    if (p.n > name.n || memcmp(name.p + name.n - p.n, p.p, (size_t)p.n)) continue;
    if (p.n == name.n || name.p[name.n - p.n - 1] == '.') return &patterns->item[i];
  }
  return NULL;
}

tenon_status llm_adapter_of(const LlmAdapterConfig *c, const char *name, Diag *d, int64_t *rank,
                            double *alpha) {
  const Json *r = match(c->ranks, str_of(name)), *a = match(c->alphas, str_of(name));
  *rank = c->rank;
  *alpha = a ? a->f : c->alpha;
  if (!r) return TENON_OK;
  if (r->kind != JSON_INT || r->i > LLM_RANK_MAX)
    return fail(d, TENON_EFORMAT, NOWHERE, "the rank of '%s' is not a number of 1 to %d", name,
                LLM_RANK_MAX);
  *rank = r->i;
  return TENON_OK;
}

// ---- GGUF ----

static const GgufValue *find(const GgufFile *f, const char *key) {
  for (int64_t i = 0; i < f->kv.n; i++)
    if (str_is(f->kv.v[i].key, key)) return &f->kv.v[i];
  return NULL;
}

static bool says(const GgufFile *f, const char *key, Str text) {
  const GgufValue *v = find(f, key);
  return v && v->kind == GV_STRING && v->s.n == text.n && !memcmp(v->s.p, text.p, (size_t)text.n);
}

tenon_status llm_adapter_metadata(const LlmModel *m, const GgufFile *f, Diag *d,
                                  LlmAdapterConfig *out) {
  *out = (LlmAdapterConfig){0};
  if (!says(f, "general.type", STR("adapter")) || !says(f, "adapter.type", STR("lora")))
    return fail(d, TENON_EFORMAT, NOWHERE, "this GGUF file is no LoRA adapter");
  const GgufValue *arch = find(f, "general.architecture"), *alpha = find(f, "adapter.lora.alpha");
  const char *name = arch && arch->kind == GV_STRING ? "" : NULL;
  for (int i = 0; name && i < LLM_GGUF_NAMES && !*name; i++)
    if (m->spec.row->gguf[i] && str_is(arch->s, m->spec.row->gguf[i])) name = m->spec.row->gguf[i];
  if (!name || !*name)
    return fail(d, TENON_EINVAL, NOWHERE, "the adapter is not one of the architecture '%s'",
                m->spec.name);
  for (int64_t i = 0; i < f->kv.n; i++) {
    Str key = f->kv.v[i].key;
    bool known = !str_starts(key, "adapter.") || str_is(key, "adapter.type") ||
                 str_is(key, "adapter.lora.alpha") || str_is(key, "adapter.lora.task_name") ||
                 str_is(key, "adapter.lora.prompt_prefix");
    if (!known)
      return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                  "the metadata has the key '%.*s', which is not "
                  "supported",
                  STR_ARG(key));
  }
  if (alpha && (alpha->kind != GV_F32 || !isfinite(alpha->f)))
    return fail(d, TENON_EFORMAT, NOWHERE, "'adapter.lora.alpha' is not a number in f32");
  out->alpha = alpha ? alpha->f : 0;
  return TENON_OK;
}
