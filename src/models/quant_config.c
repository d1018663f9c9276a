// quant_config.c -- quantization_config of a config.json (quant.h).
//
// Which matrices are packed follows from the tensors, so lists of modules have no influence.  How
// activations were quantised has none either: here they stay f32.
#include "models/config.h"
#include "models/quant.h"

// ---- keys ----

typedef enum { Q_AWQ = 1, Q_GPTQ = 2, Q_FP8 = 4, Q_COMPRESSED = 8 } Method;
enum {
  Q_WORDS = Q_AWQ | Q_GPTQ,
  Q_ALL = Q_WORDS | Q_FP8 | Q_COMPRESSED,
  Q_GROUP = 16,
  Q_ARGS = 32
};
// REFUSED: anything but null, false, 0 and what is empty changes results in a way that is not
// built.
typedef enum { IRRELEVANT, USED, REFUSED } KeyKind;
static const struct {
  const char *name;
  int where;
  KeyKind kind;
} quant_key[] = {
    {"quant_method", Q_ALL, USED},
    {"bits", Q_WORDS, USED},
    {"group_size", Q_WORDS | Q_ARGS, USED},
    {"zero_point", Q_AWQ, USED},
    {"version", Q_AWQ, USED},
    {"format", Q_WORDS | Q_COMPRESSED | Q_GROUP, USED},
    {"checkpoint_format", Q_WORDS, USED},
    {"pack_dtype", Q_GPTQ, USED},
    {"desc_act", Q_GPTQ, IRRELEVANT},  // the tensors g_idx say
    {"desc_act", Q_AWQ, REFUSED},
    {"is_marlin_format", Q_GPTQ, REFUSED},
    {"dynamic", Q_GPTQ, REFUSED},
    {"adapter", Q_GPTQ, REFUSED},
    {"fmt", Q_FP8, USED},
    {"weight_block_size", Q_FP8, USED},
    {"expert_dtype", Q_FP8, USED},
    {"activation_scheme", Q_FP8, IRRELEVANT},
    {"scale_fmt", Q_FP8, IRRELEVANT},
    {"config_groups", Q_COMPRESSED, USED},
    {"quantization_status", Q_COMPRESSED, USED},
    {"kv_cache_scheme", Q_COMPRESSED, REFUSED},
    {"sparsity_config", Q_COMPRESSED, REFUSED},
    {"transform_config", Q_COMPRESSED, REFUSED},
    {"weights", Q_GROUP, USED},
    {"output_activations", Q_GROUP, REFUSED},
    {"input_activations", Q_GROUP, IRRELEVANT},
    {"targets", Q_GROUP, IRRELEVANT},
    {"num_bits", Q_ARGS, USED},
    {"type", Q_ARGS, USED},
    {"strategy", Q_ARGS, USED},
    {"symmetric", Q_ARGS, USED},
    {"block_structure", Q_ARGS, USED},
    {"dynamic", Q_ARGS, REFUSED},
    {"actorder", Q_ARGS, IRRELEVANT},
    // Which modules: the tensors say.
    {"modules_to_not_convert", Q_WORDS | Q_FP8, IRRELEVANT},
    {"modules_to_convert", Q_FP8, IRRELEVANT},
    {"ignored_layers", Q_FP8, IRRELEVANT},
    {"ignore", Q_COMPRESSED, IRRELEVANT},
    {"lm_head", Q_GPTQ, IRRELEVANT},
    {"modules_in_block_to_quantize", Q_WORDS, IRRELEVANT},
    {"block_name_to_quantize", Q_WORDS, IRRELEVANT},
    {"module_name_preceding_first_block", Q_WORDS, IRRELEVANT},
    // How it was quantised.
    {"sym", Q_WORDS, IRRELEVANT},
    {"damp_percent", Q_WORDS, IRRELEVANT},
    {"damp_auto_increment", Q_WORDS, IRRELEVANT},
    {"static_groups", Q_WORDS, IRRELEVANT},
    {"true_sequential", Q_WORDS, IRRELEVANT},
    {"act_group_aware", Q_WORDS, IRRELEVANT},
    {"mse", Q_WORDS, IRRELEVANT},
    {"tokenizer", Q_WORDS, IRRELEVANT},
    {"dataset", Q_WORDS, IRRELEVANT},
    {"model_seqlen", Q_WORDS, IRRELEVANT},
    {"batch_size", Q_WORDS, IRRELEVANT},
    {"pad_token_id", Q_WORDS, IRRELEVANT},
    {"max_input_length", Q_WORDS, IRRELEVANT},
    {"cache_block_outputs", Q_WORDS, IRRELEVANT},
    {"meta", Q_WORDS, IRRELEVANT},
    {"quantizer", Q_WORDS, IRRELEVANT},
    {"model_name_or_path", Q_WORDS, IRRELEVANT},
    {"model_file_base_name", Q_WORDS, IRRELEVANT},
    {"observer", Q_ARGS, IRRELEVANT},
    {"observer_kwargs", Q_ARGS, IRRELEVANT},
    {"scale_dtype", Q_ARGS, IRRELEVANT},
    {"zp_dtype", Q_ARGS, IRRELEVANT},
    {"version", Q_COMPRESSED, IRRELEVANT},
    {"global_compression_ratio", Q_COMPRESSED, IRRELEVANT},
    // What another engine does with it.
    {"backend", Q_WORDS, IRRELEVANT},
    {"do_fuse", Q_AWQ, IRRELEVANT},
    {"fuse_max_seq_len", Q_AWQ, IRRELEVANT},
    {"modules_to_fuse", Q_AWQ, IRRELEVANT},
    {"exllama_config", Q_WORDS, IRRELEVANT},
    {"use_exllama", Q_WORDS, IRRELEVANT},
    {"disable_exllama", Q_WORDS, IRRELEVANT},
    {"use_cuda_fp16", Q_WORDS, IRRELEVANT},
    {"dequantize", Q_FP8 | Q_COMPRESSED, IRRELEVANT},
    {"run_compressed", Q_COMPRESSED, IRRELEVANT},
    {"use_optimized_inference", Q_COMPRESSED, IRRELEVANT},
};

// False: an error was reported.
static bool check_keys(Config *c, const Json *j, int where) {
  for (int64_t i = 0; i < j->n; i++) {
    int64_t k = 0;
    while (k < ARRAY_LEN(quant_key) &&
           (!str_is(j->key[i], quant_key[k].name) || !(quant_key[k].where & where)))
      k++;
    bool unknown = k == ARRAY_LEN(quant_key);
    if (!unknown && (quant_key[k].kind != REFUSED || json_is_nothing(&j->item[i]))) continue;
    config_fail(c, TENON_EUNSUPPORTED, "quantization_config has the key '%.*s', which is not %s",
                STR_ARG(j->key[i]), unknown ? "known there" : "supported");
    return false;
  }
  return true;
}

// ---- values ----

static bool word_is(const Json *j, const char *key, const char *word) {
  const Json *v = json_get(j, key);
  return v && v->kind == JSON_STRING && str_is(v->s, word);
}

// Nothing, or one of two words.
static void want_word(Config *c, const Json *j, const char *key, const char *one,
                      const char *other) {
  const Json *v = json_get(j, key);
  if (!v || v->kind == JSON_NULL || word_is(j, key, one) || (other && word_is(j, key, other)))
    return;
  Str s = v->kind == JSON_STRING ? v->s : STR("?");
  config_fail(c, TENON_EUNSUPPORTED, "quantization_config with the %s '%.*s' is not supported", key,
              STR_ARG(s));
}

static int64_t size_of(Config *c, const Json *j, const char *key, int64_t fallback, int64_t least,
                       int64_t most) {
  const Json *v = json_get(j, key);
  if (!v || v->kind == JSON_NULL) return fallback;
  if (v->kind == JSON_INT && v->i >= least && v->i <= most) return v->i;
  config_fail(c, TENON_EFORMAT, "'%s' of quantization_config must be an integer from %lld to %lld",
              key, (long long)least, (long long)most);
  return fallback;
}

static void read_bits(Config *c, const Json *j, const char *key, LlmQuant *q) {
  q->bits = size_of(c, j, key, 0, 1, 32);
  if (!c->status && q->bits != 2 && q->bits != 4 && q->bits != 8)
    config_fail(
        c, TENON_EUNSUPPORTED,
        "quantization_config with weights of %lld bits is not supported; there are 2, 4 and 8",
        (long long)q->bits);
  q->group = size_of(c, j, "group_size", 0, -1, LLM_SIZE_MAX);
  if (q->group < 0) q->group = 0;
}

// [rows, elements] of a tile.
static void read_tile(Config *c, const Json *j, const char *key, LlmQuant *q) {
  const Json *v = json_get(j, key);
  if (!v || v->kind == JSON_NULL) return;
  bool pair = v->kind == JSON_ARRAY && v->n == 2;
  for (int i = 0; pair && i < 2; i++)
    pair = v->item[i].kind == JSON_INT && v->item[i].i > 0 && v->item[i].i <= LLM_SIZE_MAX;
  if (pair) {
    q->tile_rows = v->item[0].i;
    q->tile_k = v->item[1].i;
  } else {
    config_fail(c, TENON_EFORMAT, "'%s' of quantization_config must be two sizes", key);
  }
}

// ---- methods ----

static void read_awq(Config *c, const Json *j, LlmQuant *q) {
  const Json *zeros = json_get(j, "zero_point");
  q->form = LLM_QUANT_AWQ;
  read_bits(c, j, "bits", q);
  want_word(c, j, "version", "gemm", "GEMM");
  want_word(c, j, "format", "gemm", NULL);
  if (zeros && !(zeros->kind == JSON_BOOL && zeros->b))
    config_fail(c, TENON_EUNSUPPORTED, "AWQ without zero points is not supported");
  if (!c->status && q->bits != 4)
    config_fail(c, TENON_EUNSUPPORTED, "AWQ of %lld bits is not supported", (long long)q->bits);
}

static void read_gptq(Config *c, const Json *j, LlmQuant *q) {
  q->form = LLM_QUANT_GPTQ;
  q->zeros_less = !word_is(j, "checkpoint_format", "gptq_v2") && !word_is(j, "format", "gptq_v2");
  read_bits(c, j, "bits", q);
  want_word(c, j, "checkpoint_format", "gptq", "gptq_v2");
  want_word(c, j, "format", "gptq", "gptq_v2");
  want_word(c, j, "pack_dtype", "int32", NULL);
}

static void read_fp8(Config *c, const Json *j, LlmQuant *q) {
  q->form = LLM_QUANT_FP8;
  q->scale = "weight_scale_inv";
  q->inputs[0] = "activation_scale";
  q->inputs[1] = "input_scale";
  want_word(c, j, "fmt", "e4m3", NULL);
  want_word(c, j, "expert_dtype", "fp8", NULL);
  read_tile(c, j, "weight_block_size", q);
}

// A scale for the tensor, each row, each group of a row, or each tile.
static void read_strategy(Config *c, const Json *j, LlmQuant *q) {
  want_word(c, j, "type", q->form == LLM_QUANT_FP8 ? "float" : "int", NULL);
  if (word_is(j, "strategy", "tensor")) {
    q->tile_rows = 0;
  } else if (word_is(j, "strategy", "channel")) {
    q->tile_rows = 1;
  } else if (word_is(j, "strategy", "group")) {
    q->tile_rows = 1;
    q->tile_k = q->group;
  } else if (word_is(j, "strategy", "block")) {
    read_tile(c, j, "block_structure", q);
    if (!q->tile_rows) config_fail(c, TENON_EFORMAT, "blocks without 'block_structure'");
  } else {
    config_fail(c, TENON_EUNSUPPORTED,
                "quantization_config must have the strategy tensor, channel, group or block");
  }
  if (q->form == LLM_QUANT_PACKED && q->tile_rows != 1)
    config_fail(c, TENON_EUNSUPPORTED, "packed weights must have scales of channels or groups");
}

static void read_compressed(Config *c, const Json *j, LlmQuant *q) {
  const Json *groups = json_get(j, "config_groups");
  if (!groups || groups->kind != JSON_OBJECT || groups->n != 1 ||
      groups->item[0].kind != JSON_OBJECT) {
    config_fail(c, TENON_EUNSUPPORTED, "'config_groups' must be one group");
    return;
  }
  const Json *group = &groups->item[0], *args = json_get(group, "weights");
  if (!args || args->kind != JSON_OBJECT) {
    config_fail(c, TENON_EUNSUPPORTED, "a group of 'config_groups' must quantise weights");
    return;
  }
  if (!check_keys(c, group, Q_GROUP) || !check_keys(c, args, Q_ARGS)) return;
  if (word_is(j, "format", "float-quantized")) q->form = LLM_QUANT_FP8;
  if (word_is(j, "format", "int-quantized") || word_is(j, "format", "naive-quantized"))
    q->form = LLM_QUANT_INT8;
  if (word_is(j, "format", "naive-quantized") && word_is(args, "type", "float"))
    q->form = LLM_QUANT_FP8;
  if (word_is(j, "format", "pack-quantized")) q->form = LLM_QUANT_PACKED;
  if (!q->form)
    config_fail(c, TENON_EUNSUPPORTED,
                "compressed-tensors must have the format float-, int- or pack-quantized");
  want_word(c, j, "quantization_status", "compressed", "frozen");
  const Json *symmetric = json_get(args, "symmetric");
  q->symmetric = !symmetric || symmetric->kind != JSON_BOOL || symmetric->b;
  q->scale = "weight_scale";
  q->inputs[0] = "input_scale";
  q->inputs[1] = "input_zero_point";
  read_bits(c, args, "num_bits", q);
  read_strategy(c, args, q);
  bool words = q->form == LLM_QUANT_PACKED;
  if (!words && (q->bits != 8 || !q->symmetric))
    config_fail(c, TENON_EUNSUPPORTED, "weights of this format must be symmetric, of 8 bits");
  if (words && word_is(args, "strategy", "channel")) q->group = 0;
}

void llm_quant_of_config(Config *c, LlmQuant *out) {
  const Json *j = config_json(c, CFG_quantization_config);
  static const struct {
    const char *name;
    Method method;
    void (*read)(Config *c, const Json *j, LlmQuant *q);
  } method[] = {{"awq", Q_AWQ, read_awq},
                {"gptq", Q_GPTQ, read_gptq},
                {"fp8", Q_FP8, read_fp8},
                {"compressed-tensors", Q_COMPRESSED, read_compressed}};
  *out = (LlmQuant){0};
  if (!j) return;
  const Json *name = json_get(j, "quant_method");
  if (j->kind != JSON_OBJECT || !name || name->kind != JSON_STRING) {
    config_fail(c, TENON_EFORMAT, "quantization_config has no 'quant_method'");
    return;
  }
  for (int64_t i = 0; i < ARRAY_LEN(method); i++)
    if (str_is(name->s, method[i].name)) {
      if (check_keys(c, j, method[i].method)) method[i].read(c, j, out);
      return;
    }
  config_fail(c, TENON_EUNSUPPORTED, "weights quantised by '%.*s' are not supported",
              STR_ARG(name->s));
}
