// open_test.c -- folders and GGUF files that are no sound models: each is refused with a message
// that names what is wrong, however it was cut or changed.
#include "models/llm.h"
#include "api/model.h"
#include "base/platform.h"
#include "test.h"
#include "tiny_llm.h"

#include <stdlib.h>

enum { V = 12, D = 8, SIZE = 4, FFN = 6 };

#define SIZES                                                                                      \
  "\"vocab_size\": 12, \"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, " \
  "\"num_key_value_heads\": 1, \"intermediate_size\": 6, \"max_position_embeddings\": 16"
#define CONFIG(more) "{\"architectures\": [\"LlamaForCausalLM\"], " SIZES more "}"

static void add_tensors(TinyLlm *m) {
  static const struct {
    const char *name, *gguf;
    int64_t rows, width;
  } t[] = {{"model.embed_tokens", "token_embd", V, D},
           {"model.norm", "output_norm", D, 0},
           {"lm_head", "output", V, D},
           {"model.layers.0.input_layernorm", "blk.0.attn_norm", D, 0},
           {"model.layers.0.post_attention_layernorm", "blk.0.ffn_norm", D, 0},
           {"model.layers.0.self_attn.q_proj", "blk.0.attn_q", 2 * SIZE, D},
           {"model.layers.0.self_attn.k_proj", "blk.0.attn_k", SIZE, D},
           {"model.layers.0.self_attn.v_proj", "blk.0.attn_v", SIZE, D},
           {"model.layers.0.self_attn.o_proj", "blk.0.attn_output", D, 2 * SIZE},
           {"model.layers.0.mlp.gate_proj", "blk.0.ffn_gate", FFN, D},
           {"model.layers.0.mlp.up_proj", "blk.0.ffn_up", FFN, D},
           {"model.layers.0.mlp.down_proj", "blk.0.ffn_down", D, FFN}};
  tiny_init(m);
  for (int i = 0; i < (int)ARRAY_LEN(t); i++)
    tiny_addf(m, 0, 1, t[i].rows, t[i].width, "%s.weight", t[i].name)->gguf =
        str_printf(&m->arena, "%s.weight", t[i].gguf);
}

static void refused(const char *path, const char *part) {
  Diag d;
  LlmModel *m = NULL;
  tenon_status s = tiny_open(path, &d, &m);
  if (s != TENON_EFORMAT && s != TENON_EUNSUPPORTED && s != TENON_EINVAL)
    FAIL("'%s': status %s, message %s", part, status_name(s), d.text);
  EXPECT_CONTAINS(d.text, part);
  llm_close(m);
}

static void config_is(TinyLlm *m, const char *config, const char *part) {
  const char *folder = tiny_folder(m, "config", config, 1);
  Diag d;
  LlmModel *model = NULL;
  if (part) {
    refused(folder, part);
    return;
  }
  if (tiny_open(folder, &d, &model)) FAIL("%s: %s", config, d.text);
  llm_close(model);
}

TEST(llm_config_keys_are_used_or_refused) {
  static const struct {
    const char *config, *part;  // NULL: it is read
  } c[] = {
      {CONFIG(""), NULL},
      {CONFIG(", \"torch_dtype\": \"bfloat16\", \"pretraining_tp\": 1, \"rope_scaling\": null"),
       NULL},
      {CONFIG(", \"sliding_window\": null, \"use_sliding_window\": false, \"logits_scaling\": 1.0"),
       NULL},
      {CONFIG(", \"frobnication\": 3"), "the key 'frobnication', which is not known"},
      {CONFIG(", \"frobnication\": null"), "the key 'frobnication', which is not known"},
      {CONFIG(", \"sliding_windw\": 3"), "did you mean 'sliding_window'"},
      {CONFIG(", \"sliding_window\": 4096"), "'sliding_window', which the architecture 'llama'"},
      {CONFIG(", \"logits_scaling\": 8.0"), "'logits_scaling', which the architecture 'llama'"},
      {CONFIG(", \"quantization_config\": {}"), "quantization_config has no 'quant_method'"},
      {CONFIG(", \"quantization_config\": {\"quant_method\": \"frob\"}"), "quantised by 'frob'"},
      {CONFIG(", \"n_embd\": 8"), "both 'hidden_size' and 'n_embd'"},
      {CONFIG(", \"hidden_act\": \"frob\""), "the activation 'frob'"},
      {CONFIG(", \"head_dim\": -4"), "'head_dim' of config.json must be an integer from 1"},
      {CONFIG(", \"head_dim\": 4.5"), "'head_dim' of config.json must be an integer"},
      {CONFIG(", \"rope_theta\": \"x\""), "'rope_theta' of config.json must be a finite number"},
      {CONFIG(", \"rope_theta\": -1"), "with the base -1"},
      {CONFIG(", \"rope_scaling\": {\"type\": \"frob\"}"), "the type 'frob' of rotary positions"},
      {CONFIG(", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}"), "out of range"},
      {CONFIG(", \"rope_scaling\": {\"type\": \"yarn\", \"frob\": 1}"), "the parameter 'frob'"},
      {CONFIG(", \"rope_parameters\": {\"rope_type\": \"longrope\", \"long_factor\": [1]}"),
       "longrope has 1 long"},
      {CONFIG(", \"rms_norm_eps\": 0"), "the epsilon of norms"},
      {CONFIG(", \"tie_word_embeddings\": 1"), "must be true or false"},
      {"{\"architectures\": [\"FrobForCausalLM\"], " SIZES "}",
       "'FrobForCausalLM' is not supported"},
      {"{\"architectures\": [\"LlamaForCausalML\"]}", "did you mean 'LlamaForCausalLM'"},
      {"{\"architectures\": [], " SIZES "}", "must name one class"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 12}", "lacks the key"},
      {"[1]", "is not an object"},
      {"{", "JSON"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 12, \"hidden_size\": 8, "
       "\"num_hidden_layers\": 99999999, \"num_attention_heads\": 2}",
       "'num_hidden_layers' of config.json"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 12, \"hidden_size\": 8, "
       "\"num_hidden_layers\": 1, \"num_attention_heads\": 3, \"num_key_value_heads\": 2, "
       "\"intermediate_size\": 4}",
       "cannot share"},
  };
  TinyLlm m;
  add_tensors(&m);
  for (int i = 0; i < (int)ARRAY_LEN(c); i++)
    if (test_takes()) config_is(&m, c[i].config, c[i].part);
  tiny_free(&m);
}

TEST(llm_tensors_are_all_accounted_for) {
  TinyLlm m;
  add_tensors(&m);
  tiny_add(&m, "model.layers.0.self_attn.q_proj.bias", 0, 1, 2 * SIZE, 0);
  refused(tiny_folder(&m, "more", CONFIG(""), 1),
          "the tensor 'model.layers.0.self_attn.q_proj.bias' is not one of the architecture");
  m.t.n -= 2;
  refused(tiny_folder(&m, "fewer", CONFIG(""), 1),
          "the tensor 'model.layers.0.mlp.down_proj.weight' is missing");
  tiny_add(&m, "model.layers.0.mlp.down_proj.weight", 0, 1, D, FFN + 1);
  refused(tiny_folder(&m, "wide", CONFIG(""), 1), "is f32[8, 7], must be [8, 6]");
  m.t.n--;
  tiny_add(&m, "layers.0.mlp.down_proj.weight", 0, 1, D, FFN);  // as base models are stored
  tiny_add(&m, "model.layers.0.self_attn.rotary_emb.inv_freq", 0, 1, 2, 0);
  config_is(&m, CONFIG(""), NULL);
  tiny_free(&m);
}

TEST(llm_folders_that_lack_files_are_refused) {
  TinyLlm m;
  add_tensors(&m);
  const char *folder = tiny_folder(&m, "lacks", CONFIG(""), 2);
  remove(str_printf(&m.arena, "%s/model-1.safetensors", folder));
  Diag d;
  LlmModel *model = NULL;
  EXPECT_STATUS(tiny_open(folder, &d, &model), TENON_EIO);
  EXPECT_CONTAINS(d.text, "model-1.safetensors");
  remove(str_printf(&m.arena, "%s/model.safetensors.index.json", folder));
  remove(str_printf(&m.arena, "%s/model-0.safetensors", folder));
  refused(folder, "the folder has no safetensors file");
  remove(str_printf(&m.arena, "%s/config.json", folder));
  refused(folder, "the folder has no config.json");
  EXPECT(!llm_is_model(folder));
  EXPECT_STATUS(tiny_open("/nowhere/at/all", &d, &model), TENON_EIO);
  tiny_free(&m);
}

// Any file cut at any byte, and with any byte changed, ends in a status.
static void every_cut(TinyLlm *m, const char *path, const char *file, int step) {
  Diag d;
  File f = {0};
  diag_init(&d);
  REQUIRE(!file_open(file, &f, &d));
  char *bytes = malloc((size_t)f.size);
  int64_t size = f.size;
  memcpy(bytes, f.bytes, (size_t)size);
  file_close(&f);
  for (int64_t n = 0; n < size; n += step) {
    LlmModel *model = NULL;
    tiny_write(file, bytes, n);
    if (!tiny_open(path, &d, &model)) FAIL("%s: %lld bytes are read", file, (long long)n);
    llm_close(model);
    bytes[n] ^= (char)(1 << n % 8);
    tiny_write(file, bytes, size);
    model = NULL;
    if (!tiny_open(path, &d, &model)) llm_close(model);
    bytes[n] ^= (char)(1 << n % 8);
  }
  tiny_write(file, bytes, size);
  free(bytes);
  (void)m;
}

TEST(llm_folders_that_are_cut_are_refused) {
  TinyLlm m;
  add_tensors(&m);
  const char *folder = tiny_folder(&m, "cut",
                                   CONFIG(", \"rope_scaling\": {\"type\": \"linear\", "
                                          "\"factor\": 2.0}"),
                                   1);
  every_cut(&m, folder, str_printf(&m.arena, "%s/config.json", folder), 1);
  every_cut(&m, folder, str_printf(&m.arena, "%s/model.safetensors", folder), 11);
  tiny_free(&m);
}

static void add_meta(TinyLlm *m) {
  tiny_meta_str(m, "general.architecture", "llama");
  tiny_meta_u32(m, "llama.context_length", 16);
  tiny_meta_u32(m, "llama.embedding_length", D);
  tiny_meta_u32(m, "llama.block_count", 1);
  tiny_meta_u32(m, "llama.feed_forward_length", FFN);
  tiny_meta_u32(m, "llama.attention.head_count", 2);
  tiny_meta_u32(m, "llama.attention.head_count_kv", 1);
  tiny_meta_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

TEST(llm_gguf_files_that_are_cut_are_refused) {
  TinyLlm m;
  add_tensors(&m);
  add_meta(&m);
  const char *path = tiny_gguf(&m, "cut");
  Diag d;
  LlmModel *model = NULL;
  EXPECT_STATUS(tiny_open(path, &d, &model), TENON_OK);
  llm_close(model);
  every_cut(&m, path, path, 7);
  tiny_free(&m);
}

TEST(llm_gguf_keys_are_used_or_refused) {
  static const char *const key[] = {"llama.frobnication", "llama.attention.sliding_window",
                                    "llama.logit_scale", "llama.ssm.state_size"};
  for (int i = 0; i < (int)ARRAY_LEN(key); i++) {
    TinyLlm m;
    add_tensors(&m);
    add_meta(&m);
    tiny_meta_u32(&m, key[i], 5);
    tiny_meta_u32(&m, "llama.attention.causal", 1);
    tiny_meta_str(&m, "general.name", "x");
    refused(tiny_gguf(&m, "key"), key[i]);
    tiny_free(&m);
  }
}

// A GGUF file that is no language model here is weights by name all the same.
TEST(llm_gguf_of_another_kind_is_weights) {
  TinyLlm m;
  add_tensors(&m);
  tiny_meta_str(&m, "general.architecture", "frob");
  const char *path = tiny_gguf(&m, "other");
  refused(path, "the architecture 'frob' is not supported");
  Diag d;
  Model *model = NULL;
  diag_init(&d);
  REQUIRE(!model_open(path, NULL, &d, &model));
  EXPECT_INT_EQ(model->import.weights.v.n, m.t.n);
  EXPECT_STATUS(model_need_supported(model, &d), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(d.text, "the architecture 'frob'");
  model_free(model);
  tiny_free(&m);
}

TEST(llm_folder_is_a_model_for_every_command) {
  TinyLlm m;
  add_tensors(&m);
  const char *folder = tiny_folder(&m, "model", CONFIG(""), 1);
  Diag d;
  Model *model = NULL, *copy = NULL;
  diag_init(&d);
  REQUIRE(!model_open(folder, NULL, &d, &model));
  EXPECT_INT_EQ(model_ninputs(model), 1);
  EXPECT_STR_EQ(model_output_name(model, 0), "logits");
  EXPECT_STATUS(model_copy(model, NULL, &d, &copy), TENON_OK);
  model_free(copy);
  model_free(model);
  tiny_free(&m);
}

// ---- generation ----

TEST(llm_generation_config_is_read) {
  TinyLlm m;
  add_tensors(&m);
  const char *folder =
      tiny_folder(&m, "generation", CONFIG(", \"bos_token_id\": 1, \"eos_token_id\": 2"), 1);
  Diag d;
  LlmModel *model = NULL;
  REQUIRE(!tiny_open(folder, &d, &model));
  EXPECT_INT_EQ(model->generation.bos, 1);
  EXPECT_INT_EQ(model->generation.eos[0], 2);
  EXPECT_INT_EQ(model->generation.top_k, -1);
  llm_close(model);
  static const char text[] =
      "{\"eos_token_id\": [3, 5], \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95}";
  tiny_write(str_printf(&m.arena, "%s/generation_config.json", folder), text, sizeof text - 1);
  REQUIRE(!tiny_open(folder, &d, &model));
  EXPECT_INT_EQ(model->generation.neos, 2);
  EXPECT_INT_EQ(model->generation.eos[1], 5);
  EXPECT_INT_EQ(model->generation.top_k, 20);
  EXPECT_F64_EQ(model->generation.temperature, 0.6);
  llm_close(model);
  tiny_free(&m);
}
