// tiny_chat.c -- a whole small language model for tests of serving (tiny_chat.h).
#include "tiny_chat.h"

enum { HIDDEN = 32, HEADS = 4, KV_HEADS = 2, HEAD = 8, FFN = 48, LAYERS = 2 };

void tiny_chat_weights(TinyLlm *m) {
  tiny_add(m, "model.embed_tokens.weight", 0, 1, TINY_VOCAB, HIDDEN);
  for (int i = 0; i < LAYERS; i++) {
    tiny_addf(m, 1, 0.2, HIDDEN, 0, "model.layers.%d.input_layernorm.weight", i);
    tiny_addf(m, 1, 0.2, HIDDEN, 0, "model.layers.%d.post_attention_layernorm.weight", i);
    tiny_addf(m, 0, 0.5, HEADS * HEAD, HIDDEN, "model.layers.%d.self_attn.q_proj.weight", i);
    tiny_addf(m, 0, 0.5, KV_HEADS * HEAD, HIDDEN, "model.layers.%d.self_attn.k_proj.weight", i);
    tiny_addf(m, 0, 0.5, KV_HEADS * HEAD, HIDDEN, "model.layers.%d.self_attn.v_proj.weight", i);
    tiny_addf(m, 0, 0.5, HIDDEN, HEADS * HEAD, "model.layers.%d.self_attn.o_proj.weight", i);
    tiny_addf(m, 0, 0.3, FFN, HIDDEN, "model.layers.%d.mlp.gate_proj.weight", i);
    tiny_addf(m, 0, 0.3, FFN, HIDDEN, "model.layers.%d.mlp.up_proj.weight", i);
    tiny_addf(m, 0, 0.3, HIDDEN, FFN, "model.layers.%d.mlp.down_proj.weight", i);
  }
  tiny_add(m, "model.norm.weight", 1, 0.2, HIDDEN, 0);
  tiny_add(m, "lm_head.weight", 0, 1, TINY_VOCAB, HIDDEN);
}

// The letter that stands for a byte in byte-level vocabularies, as an escape of JSON.
static void put_letter(StrBuf *b, int byte) {
  int spare = 256;
  for (int i = 0; i <= byte; i++) {
    bool plain = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
    if (i == byte) strbuf_printf(b, "\\u%04x", plain ? i : spare);
    if (!plain) spare++;
  }
}

static const char *tokenizer(TinyLlm *m) {
  StrBuf b;
  strbuf_init(&b, &m->arena);
  strbuf_puts(&b, "{\"version\":\"1.0\",\"added_tokens\":[");
  for (int i = TINY_END; i < TINY_VOCAB; i++)
    strbuf_printf(&b,
                  "%s{\"id\":%d,\"content\":\"%s\",\"special\":true,\"single_word\":false,"
                  "\"lstrip\":false,\"rstrip\":false,\"normalized\":false}",
                  i > TINY_END ? "," : "", i, i == TINY_END ? "<|end|>" : "<|turn|>");
  strbuf_puts(&b, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                  "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
                  "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
                  "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                  "\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{");
  for (int i = 0; i < TINY_END; i++) {
    strbuf_puts(&b, i ? ",\"" : "\"");
    put_letter(&b, i);
    strbuf_printf(&b, "\":%d", i);
  }
  strbuf_puts(&b, "},\"merges\":[]}}");
  return strbuf_text(&b);
}

static void add_file(TinyLlm *m, const char *folder, const char *name, const char *text) {
  tiny_write(str_printf(&m->arena, "%s/%s", folder, name), text, (int64_t)strlen(text));
}

const char *tiny_chat_folder(TinyLlm *m, const char *name) {
  const char *config = str_printf(
      &m->arena,
      "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":%d,"
      "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
      "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,"
      "\"max_position_embeddings\":%d,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,"
      "\"hidden_act\":\"silu\",\"tie_word_embeddings\":false,\"eos_token_id\":%d}",
      HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD, TINY_VOCAB, TINY_CONTEXT, TINY_END);
  const char *folder = tiny_folder(m, name, config, 1);
  add_file(m, folder, "tokenizer.json", tokenizer(m));
  add_file(m, folder, "tokenizer_config.json",
           "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"eos_token\":\"<|end|>\","
           "\"chat_template\":\"{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}"
           "{% endfor %}{% if add_generation_prompt %}<|turn|>{% endif %}\"}");
  return folder;
}

const char *tiny_chat(TinyLlm *m, const char *name) {
  tiny_chat_weights(m);
  return tiny_chat_folder(m, name);
}
