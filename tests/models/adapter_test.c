// adapter_test.c -- LoRA adapters in PEFT's form and in GGUF, for models in either form: one model
// gets the same factors from both.
#include "models/adapter.h"
#include "test.h"
#include "tiny_chat.h"

#include <stdlib.h>

enum { RANK = 3, ROOM = 5, HEADS = 4, KV_HEADS = 2 };

static const struct {
  const char *peft, *gguf;
  int64_t out, in, heads;
} product[] = {
    {"self_attn.q_proj", "attn_q", 32, 32, HEADS}, {"self_attn.k_proj", "attn_k", 16, 32, KV_HEADS},
    {"self_attn.v_proj", "attn_v", 16, 32, 0},     {"self_attn.o_proj", "attn_output", 32, 32, 0},
    {"mlp.gate_proj", "ffn_gate", 48, 32, 0},      {"mlp.up_proj", "ffn_up", 48, 32, 0},
    {"mlp.down_proj", "ffn_down", 32, 48, 0}};

// Tensors of the chat model with their names in GGUF.
static void name_model(TinyLlm *m) {
  static const char *const all[][2] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                       {"model.norm.weight", "output_norm.weight"},
                                       {"lm_head.weight", "output.weight"}};
  static const char *const norm[][2] = {{"input_layernorm", "attn_norm"},
                                        {"post_attention_layernorm", "ffn_norm"}};
  for (int64_t i = 0; i < m->t.n; i++) {
    TinyTensor *t = &m->t.v[i];
    for (int64_t k = 0; k < ARRAY_LEN(all); k++)
      if (!strcmp(t->name, all[k][0])) t->gguf = all[k][1];
    for (int layer = 0; layer < 2; layer++) {
      for (int64_t k = 0; k < ARRAY_LEN(norm); k++)
        if (!strcmp(t->name, str_printf(&m->arena, "model.layers.%d.%s.weight", layer, norm[k][0])))
          t->gguf = str_printf(&m->arena, "blk.%d.%s.weight", layer, norm[k][1]);
      for (int64_t k = 0; k < ARRAY_LEN(product); k++) {
        const char *name =
            str_printf(&m->arena, "model.layers.%d.%s.weight", layer, product[k].peft);
        if (strcmp(t->name, name)) continue;
        t->gguf = str_printf(&m->arena, "blk.%d.%s.weight", layer, product[k].gguf);
        t->heads = product[k].heads;
      }
    }
  }
  tiny_meta_str(m, "general.architecture", "llama");
  tiny_meta_u32(m, "llama.context_length", TINY_CONTEXT);
  tiny_meta_u32(m, "llama.embedding_length", 32);
  tiny_meta_u32(m, "llama.block_count", 2);
  tiny_meta_u32(m, "llama.feed_forward_length", 48);
  tiny_meta_u32(m, "llama.attention.head_count", HEADS);
  tiny_meta_u32(m, "llama.attention.head_count_kv", KV_HEADS);
  tiny_meta_u32(m, "llama.attention.key_length", 8);
  tiny_meta_u32(m, "llama.attention.value_length", 8);
  tiny_meta_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

// Both layers but one product, under both names.
static void add_factors(TinyLlm *m) {
  for (int layer = 0; layer < 2; layer++)
    for (int64_t k = layer; k < ARRAY_LEN(product); k++) {
      const char *at = str_printf(&m->arena, "model.layers.%d.%s", layer, product[k].peft);
      TinyTensor *a =
          tiny_addf(m, 0, 1, RANK, product[k].in, "base_model.model.%s.lora_A.weight", at);
      a->gguf = str_printf(&m->arena, "blk.%d.%s.weight.lora_a", layer, product[k].gguf);
      TinyTensor *b =
          tiny_addf(m, 0, 1, product[k].out, RANK, "base_model.model.%s.lora_B.weight", at);
      b->gguf = str_printf(&m->arena, "blk.%d.%s.weight.lora_b", layer, product[k].gguf);
      b->heads = product[k].heads;
    }
}

// All factors of an adapter for a model, one behind the other.
static float *factors(const char *model, const char *adapter, int64_t *out_n) {
  Diag d;
  LlmModel *m = NULL;
  LlmAdapter *l = NULL;
  *out_n = 0;
  if (tiny_open(model, &d, &m) || llm_adapter_open(m, adapter, &d, &l)) FAIL("%s", d.text);
  float *all = NULL;
  if (l) {
    EXPECT_INT_EQ(l->rank, RANK);
    EXPECT_INT_EQ(l->target.n, 2 * ARRAY_LEN(product));
    *out_n = llm_adapter_bytes(m, ROOM) / 4;
    float *at = all = malloc((size_t)*out_n * sizeof *all);
    for (int64_t i = 0; i < l->target.n; i++) {
      const LlmTarget *t = &l->target.v[i];
      llm_adapter_put(l, m, i, ROOM, 0.5f, at, at + t->in * ROOM);
      at += (t->in + t->out) * ROOM;
    }
    EXPECT_INT_EQ(at - all, *out_n);
  }
  llm_adapter_close(l);
  llm_close(m);
  return all;
}

TEST(llm_adapter_forms_agree) {
  TinyLlm model, adapter, other;
  tiny_init(&model);
  tiny_init(&adapter);
  tiny_init(&other);
  tiny_chat_weights(&model);
  name_model(&model);
  add_factors(&adapter);
  tiny_meta_str(&adapter, "general.type", "adapter");
  tiny_meta_str(&adapter, "adapter.type", "lora");
  tiny_meta_str(&adapter, "general.architecture", "llama");
  tiny_meta_f32(&adapter, "adapter.lora.alpha", 12);
  const char *models[] = {tiny_chat_folder(&model, "model"), tiny_gguf(&model, "model")},
             *forms[] = {tiny_adapter(&adapter, "peft", "{\"r\":3,\"lora_alpha\":12}"),
                         tiny_gguf(&adapter, "lora")};
  for (int i = 0; i < 2; i++) {
    int64_t n, k;
    float *peft = factors(models[i], forms[0], &n), *gguf = factors(models[i], forms[1], &k);
    EXPECT_INT_EQ(n, k);
    EXPECT(peft && gguf && n == k && !memcmp(peft, gguf, (size_t)n * sizeof *peft));
    // Queries of layer 0 in the model's own form: element (0, 1) of B, times alpha / rank / 2.
    const float *b = peft + 32 * ROOM;
    int64_t row = i ? 4 : 1;  // row 1 of a head of 8: its second half begins at 4
    float want =
        2 *
        tiny_get(&adapter,
                 "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight")[row * RANK + 2];
    EXPECT_F64_EQ((double)b[2 * 32 + 1], (double)want);
    EXPECT_F64_EQ((double)b[3 * 32 + 1], 0);
    free(peft);
    free(gguf);
  }
  // A file that is none, and one of another architecture.
  Diag d;
  LlmModel *m = NULL;
  LlmAdapter *l = NULL;
  EXPECT_STATUS(tiny_open(models[1], &d, &m), TENON_OK);
  EXPECT_STATUS(llm_adapter_open(m, models[1], &d, &l), TENON_EFORMAT);
  EXPECT_CONTAINS(d.text, "this GGUF file is no LoRA adapter");
  add_factors(&other);
  tiny_meta_str(&other, "general.type", "adapter");
  tiny_meta_str(&other, "adapter.type", "lora");
  tiny_meta_str(&other, "general.architecture", "gemma3");
  diag_init(&d);
  EXPECT_STATUS(llm_adapter_open(m, tiny_gguf(&other, "other"), &d, &l), TENON_EINVAL);
  EXPECT_CONTAINS(d.text, "the adapter is not one of the architecture 'llama'");
  llm_close(m);
  tiny_free(&model);
  tiny_free(&adapter);
  tiny_free(&other);
}
