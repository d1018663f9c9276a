// build_test.c -- logits of small models against references that are written out here in double:
// Llama, GPT-2 and Gemma 3, which together have every kind of norm, position, window and product.
//
// The references share nothing with the builder.  What they are sensitive to is tested by itself:
// each fault that is easily made must change their result.
#include "models/llm.h"
#include "test.h"
#include "tiny_llm.h"

#include <math.h>
#include <stdlib.h>

enum { V = 40, D = 24, LAYERS = 3, HEADS = 4, KV = 2, SIZE = 8, FFN = 20, TOKENS = 14 };

static const int32_t ids[TOKENS] = {3, 17, 39, 0, 5, 5, 21, 8, 30, 11, 2, 7, 19, 33};

// ---- pieces of the references ----

static void product(const double *x, const float *w, int64_t in, int64_t out, double *y) {
  for (int64_t o = 0; o < out; o++) {
    y[o] = 0;
    for (int64_t i = 0; i < in; i++) y[o] += x[i] * (double)w[o * in + i];
  }
}

static void rms(const double *x, const float *w, int64_t n, double plus, double eps, double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
  double by = 1 / sqrt(sum / (double)n + eps);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * by * ((double)w[i] + plus);
}

static void layer_norm(const double *x, const float *w, const float *b, int64_t n, double *y) {
  double mean = 0, var = 0;
  for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
  for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)n;
  for (int64_t i = 0; i < n; i++)
    y[i] = (x[i] - mean) / sqrt(var + 1e-5) * (double)w[i] + (double)b[i];
}

// The two halves of each head.
static void turn(double *x, int64_t heads, int64_t pos, double theta) {
  for (int64_t h = 0; h < heads; h++)
    for (int i = 0; i < SIZE / 2; i++) {
      double a = (double)pos / pow(theta, 2.0 * i / SIZE), *p = x + h * SIZE + i;
      double u = p[0], v = p[SIZE / 2];
      p[0] = u * cos(a) - v * sin(a);
      p[SIZE / 2] = v * cos(a) + u * sin(a);
    }
}

typedef struct Rows {
  double q[TOKENS][HEADS * SIZE], k[TOKENS][HEADS * SIZE], v[TOKENS][HEADS * SIZE];
} Rows;

static void attend(const Rows *r, int t, int kv, double scale, int window, double *y) {
  for (int h = 0; h < HEADS; h++) {
    double p[TOKENS], sum = 0;
    int g = h / (HEADS / kv), first = window && t - window + 1 > 0 ? t - window + 1 : 0;
    for (int j = first; j <= t; j++) {
      p[j] = 0;
      for (int i = 0; i < SIZE; i++) p[j] += r->q[t][h * SIZE + i] * r->k[j][g * SIZE + i];
      p[j] = exp(p[j] * scale);
      sum += p[j];
    }
    for (int i = 0; i < SIZE; i++) {
      y[h * SIZE + i] = 0;
      for (int j = first; j <= t; j++) y[h * SIZE + i] += p[j] / sum * r->v[j][g * SIZE + i];
    }
  }
}

static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// What a model of Llama's form is, and the faults that are planted in it.
typedef struct Form {
  bool gemma;  // Gemma 3, else Llama
  double plus, theta, local;
  int window;
  bool swapped;  // gate and up
} Form;

#define W(...) tiny_get(m, __VA_ARGS__)

static void attention_of(const TinyLlm *m, const Form *f, int l, double x[TOKENS][D]) {
  static Rows r;
  bool local = f->gemma && (l + 1) % 2;
  for (int t = 0; t < TOKENS; t++) {
    double a[D];
    rms(x[t], W("model.layers.%d.input_layernorm.weight", l), D, f->plus, 1e-6, a);
    product(a, W("model.layers.%d.self_attn.q_proj.weight", l), D, HEADS * SIZE, r.q[t]);
    product(a, W("model.layers.%d.self_attn.k_proj.weight", l), D, KV * SIZE, r.k[t]);
    product(a, W("model.layers.%d.self_attn.v_proj.weight", l), D, KV * SIZE, r.v[t]);
    for (int h = 0; f->gemma && h < HEADS; h++)
      rms(r.q[t] + h * SIZE, W("model.layers.%d.self_attn.q_norm.weight", l), SIZE, f->plus, 1e-6,
          r.q[t] + h * SIZE);
    for (int h = 0; f->gemma && h < KV; h++)
      rms(r.k[t] + h * SIZE, W("model.layers.%d.self_attn.k_norm.weight", l), SIZE, f->plus, 1e-6,
          r.k[t] + h * SIZE);
    turn(r.q[t], HEADS, t, local ? f->local : f->theta);
    turn(r.k[t], KV, t, local ? f->local : f->theta);
  }
  for (int t = 0; t < TOKENS; t++) {
    double y[HEADS * SIZE], o[D];
    attend(&r, t, KV, f->gemma ? 1 / sqrt(20.0) : 1 / sqrt((double)SIZE), local ? f->window : 0, y);
    product(y, W("model.layers.%d.self_attn.o_proj.weight", l), HEADS * SIZE, D, o);
    if (f->gemma)
      rms(o, W("model.layers.%d.post_attention_layernorm.weight", l), D, f->plus, 1e-6, o);
    for (int i = 0; i < D; i++) x[t][i] += o[i];
  }
}

static void ffn_of(const TinyLlm *m, const Form *f, int l, double *x) {
  double a[D], gate[FFN], up[FFN], y[D];
  rms(x,
      f->gemma ? W("model.layers.%d.pre_feedforward_layernorm.weight", l)
               : W("model.layers.%d.post_attention_layernorm.weight", l),
      D, f->plus, 1e-6, a);
  product(a, W("model.layers.%d.mlp.%s_proj.weight", l, f->swapped ? "up" : "gate"), D, FFN, gate);
  product(a, W("model.layers.%d.mlp.%s_proj.weight", l, f->swapped ? "gate" : "up"), D, FFN, up);
  for (int i = 0; i < FFN; i++) gate[i] = (f->gemma ? gelu_tanh : silu)(gate[i]) * up[i];
  product(gate, W("model.layers.%d.mlp.down_proj.weight", l), FFN, D, y);
  if (f->gemma)
    rms(y, W("model.layers.%d.post_feedforward_layernorm.weight", l), D, f->plus, 1e-6, y);
  for (int i = 0; i < D; i++) x[i] += y[i];
}

static void reference(const TinyLlm *m, const Form *f, double *logits) {
  static double x[TOKENS][D];
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i < D; i++)
      x[t][i] = (double)W("model.embed_tokens.weight")[ids[t] * D + i] * (f->gemma ? sqrt(D) : 1);
  for (int l = 0; l < LAYERS; l++) {
    attention_of(m, f, l, x);
    for (int t = 0; t < TOKENS; t++) ffn_of(m, f, l, x[t]);
  }
  for (int t = 0; t < TOKENS; t++) {
    double a[D];
    rms(x[t], W("model.norm.weight"), D, f->plus, 1e-6, a);
    product(a, f->gemma ? W("model.embed_tokens.weight") : W("lm_head.weight"), D, V,
            logits + t * V);
  }
}

// ---- models ----

static void add_layers(TinyLlm *m, bool gemma) {
  double mean = gemma ? 0.1 : 1;  // of norms
  for (int l = 0; l < LAYERS; l++) {
    const char *gguf[] = {"attn_norm", "attn_q",   "attn_k", "attn_v",  "attn_output",
                          "ffn_norm",  "ffn_gate", "ffn_up", "ffn_down"};
    int64_t first = m->t.n;
    tiny_addf(m, mean, 0.3, D, 0, "model.layers.%d.input_layernorm.weight", l);
    tiny_addf(m, 0, 0.5, HEADS * SIZE, D, "model.layers.%d.self_attn.q_proj.weight", l)->heads =
        HEADS;
    tiny_addf(m, 0, 0.5, KV * SIZE, D, "model.layers.%d.self_attn.k_proj.weight", l)->heads = KV;
    tiny_addf(m, 0, 0.5, KV * SIZE, D, "model.layers.%d.self_attn.v_proj.weight", l);
    tiny_addf(m, 0, 0.5, D, HEADS * SIZE, "model.layers.%d.self_attn.o_proj.weight", l);
    tiny_addf(m, mean, 0.3, D, 0, "model.layers.%d.post_attention_layernorm.weight", l);
    tiny_addf(m, 0, 0.5, FFN, D, "model.layers.%d.mlp.gate_proj.weight", l);
    tiny_addf(m, 0, 0.5, FFN, D, "model.layers.%d.mlp.up_proj.weight", l);
    tiny_addf(m, 0, 0.5, D, FFN, "model.layers.%d.mlp.down_proj.weight", l);
    for (int i = 0; i < (int)ARRAY_LEN(gguf); i++)
      m->t.v[first + i].gguf = str_printf(&m->arena, "blk.%d.%s.weight", l, gguf[i]);
    if (!gemma) continue;
    tiny_addf(m, mean, 0.3, D, 0, "model.layers.%d.pre_feedforward_layernorm.weight", l);
    tiny_addf(m, mean, 0.3, D, 0, "model.layers.%d.post_feedforward_layernorm.weight", l);
    tiny_addf(m, mean, 0.3, SIZE, 0, "model.layers.%d.self_attn.q_norm.weight", l);
    tiny_addf(m, mean, 0.3, SIZE, 0, "model.layers.%d.self_attn.k_norm.weight", l);
  }
}

static void add_model(TinyLlm *m, bool gemma) {
  tiny_init(m);
  tiny_add(m, "model.embed_tokens.weight", 0, 0.8, V, D)->gguf = "token_embd.weight";
  add_layers(m, gemma);
  tiny_add(m, "model.norm.weight", gemma ? 0.1 : 1, 0.3, D, 0)->gguf = "output_norm.weight";
  if (!gemma) tiny_add(m, "lm_head.weight", 0, 0.5, V, D)->gguf = "output.weight";
}

#define SIZES                                                                                      \
  "\"vocab_size\": 40, \"hidden_size\": 24, \"num_hidden_layers\": 3, \"num_attention_heads\": "   \
  "4, "                                                                                            \
  "\"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 20, "                       \
  "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6"
static const char llama_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_act\": \"silu\", \"rope_theta\": 500.0, "
    "\"attention_bias\": false, \"torch_dtype\": \"float32\", \"rope_scaling\": null, " SIZES "}";
static const char gemma_config[] =
    "{\"architectures\": [\"Gemma3ForCausalLM\"], \"hidden_activation\": \"gelu_pytorch_tanh\", "
    "\"query_pre_attn_scalar\": 20, \"sliding_window\": 5, \"sliding_window_pattern\": 2, "
    "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": "
    "800.0}, "
    "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 50.0}}, " SIZES "}";

static const Form llama = {.theta = 500};
static const Form gemma = {.gemma = true, .plus = 1, .theta = 800, .local = 50, .window = 5};

static double against(const TinyLlm *m, const Form *f, const char *path) {
  static double want[TOKENS * V];
  reference(m, f, want);
  float *got = tiny_logits(path, ids, TOKENS, V);
  double e = got ? tiny_difference(got, want, TOKENS * V) : INFINITY;
  free(got);
  return e;
}

static void expect(const TinyLlm *m, Form f, const char *path, bool same) {
  double e = against(m, &f, path);
  if (same ? !(e < 2e-5) : !(e > 1e-3)) FAIL("%s: the difference is %g", path, e);
}

TEST(llm_llama_folder_is_the_reference) {
  TinyLlm m;
  add_model(&m, false);
  const char *path = tiny_folder(&m, "llama", llama_config, 1);
  expect(&m, llama, path, true);
  expect(&m, (Form){.theta = 501 * 2}, path, false);
  expect(&m, (Form){.theta = 500, .plus = 0.1}, path, false);
  expect(&m, (Form){.theta = 500, .swapped = true}, path, false);
  tiny_free(&m);
}

TEST(llm_sharded_folder_is_the_reference) {
  TinyLlm m;
  add_model(&m, false);
  expect(&m, llama, tiny_folder(&m, "llama_shards", llama_config, 3), true);
  tiny_free(&m);
}

TEST(llm_gemma3_folder_is_the_reference) {
  TinyLlm m;
  add_model(&m, true);
  const char *path = tiny_folder(&m, "gemma", gemma_config, 1);
  expect(&m, gemma, path, true);
  Form off = gemma;
  off.window = 6;
  expect(&m, off, path, false);
  off = gemma;
  off.plus = 0;
  expect(&m, off, path, false);
  off = gemma;
  off.local = 800;
  expect(&m, off, path, false);
  off = gemma;
  off.swapped = true;
  expect(&m, off, path, false);
  tiny_free(&m);
}

#define GEMMA_WITH(keys)                                                                           \
  "{\"architectures\": [\"Gemma3ForCausalLM\"], \"sliding_window\": 5, " keys ", " SIZES "}"

TEST(llm_layers_with_windows) {
  static const struct {
    const char *config;
    int64_t window[LAYERS];
  } c[] = {
      {GEMMA_WITH("\"sliding_window_pattern\": 3"), {5, 5, 0}},
      {GEMMA_WITH("\"sliding_window_pattern\": 1"), {0, 0, 0}},
      {GEMMA_WITH("\"sliding_window_pattern\": 0"), {0, 0, 0}},
      {GEMMA_WITH("\"sliding_window_pattern\": \"LG\""), {5, 0, 0}},
      {GEMMA_WITH("\"sliding_window_pattern\": \"GLL\""), {0, 5, 0}},
      {GEMMA_WITH("\"sliding_window_pattern\": 0, \"layer_types\": [\"full_attention\", "
                  "\"sliding_attention\", \"sliding_attention\"]"),
       {0, 5, 5}},
  };
  TinyLlm m;
  Diag d;
  LlmModel *model = NULL;
  add_model(&m, true);
  for (int i = 0; i < (int)ARRAY_LEN(c); i++) {
    if (tiny_open(tiny_folder(&m, "windows", c[i].config, 1), &d, &model)) FAIL("%s", d.text);
    for (int l = 0; l < LAYERS; l++)
      if (model->spec.layer[l].window != c[i].window[l])
        FAIL("%s: layer %d has a window of %lld", c[i].config, l,
             (long long)model->spec.layer[l].window);
    llm_close(model);
  }
  const char *bad = GEMMA_WITH("\"sliding_window_pattern\": \"LXG\"");
  EXPECT(tiny_open(tiny_folder(&m, "windows", bad, 1), &d, &model) == TENON_EFORMAT);
  EXPECT_CONTAINS(d.text, "must be of L and G");
  tiny_free(&m);
}

static void add_llama_meta(TinyLlm *m) {
  tiny_meta_str(m, "general.architecture", "llama");
  tiny_meta_u32(m, "llama.context_length", 64);
  tiny_meta_u32(m, "llama.embedding_length", D);
  tiny_meta_u32(m, "llama.block_count", LAYERS);
  tiny_meta_u32(m, "llama.feed_forward_length", FFN);
  tiny_meta_u32(m, "llama.attention.head_count", HEADS);
  tiny_meta_u32(m, "llama.attention.head_count_kv", KV);
  tiny_meta_u32(m, "llama.attention.key_length", SIZE);
  tiny_meta_u32(m, "llama.attention.value_length", SIZE);
  tiny_meta_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
  tiny_meta_f32(m, "llama.rope.freq_base", 500);
  tiny_meta_u32(m, "tokenizer.ggml.eos_token_id", 2);
}

TEST(llm_llama_gguf_is_the_reference) {
  TinyLlm m;
  add_model(&m, false);
  add_llama_meta(&m);
  const char *path = tiny_gguf(&m, "llama");
  expect(&m, llama, path, true);
  Diag d;
  LlmModel *model = NULL;
  REQUIRE(!tiny_open(path, &d, &model));
  EXPECT_INT_EQ(model->generation.neos, 1);
  EXPECT_INT_EQ(model->generation.eos[0], 2);
  EXPECT_INT_EQ(model->generation.bos, -1);
  EXPECT(model->gguf && !model->folder && model->spec.rope[0].interleaved);
  EXPECT_INT_EQ(llm_page_bytes(&model->spec, DT_F16), 3 * 32 * 2 * 16 * 2);
  llm_close(model);
  tiny_free(&m);
}

// Rotary positions as converters write them: yarn with a factor of its own, and long contexts by
// tensors alone.
TEST(llm_gguf_rope_scalings) {
  static const struct {
    const char *type, *key;
    float value;
    bool tensors;
    double factor;  // 0: it is refused
  } c[] = {{"yarn", "llama.rope.scaling.yarn_attn_factor", 0.75f, false, 0.75},
           {"yarn", "llama.rope.scaling.yarn_ext_factor", 1, false, 1.1386294},
           {"yarn", "llama.rope.scaling.yarn_ext_factor", 0.5f, false, 0},
           {NULL, "llama.rope.scaling.attn_factor", 1.25f, true, 1.25},
           {NULL, "llama.rope.scaling.attn_factor", 1.25f, false, 0},
           {"linear", "llama.rope.scaling.yarn_attn_factor", 0.75f, false, 0}};
  for (int i = 0; i < (int)ARRAY_LEN(c); i++) {
    TinyLlm m;
    Diag d;
    LlmModel *model = NULL;
    add_model(&m, false);
    add_llama_meta(&m);
    if (c[i].type) tiny_meta_str(&m, "llama.rope.scaling.type", c[i].type);
    tiny_meta_f32(&m, "llama.rope.scaling.factor", 4);
    tiny_meta_u32(&m, "llama.rope.scaling.original_context_length", 16);
    tiny_meta_f32(&m, c[i].key, c[i].value);
    if (c[i].tensors) {
      tiny_add(&m, "long", 2, 0.1, SIZE / 2, 0)->gguf = "rope_factors_long.weight";
      tiny_add(&m, "short", 1, 0.1, SIZE / 2, 0)->gguf = "rope_factors_short.weight";
    }
    tenon_status s = tiny_open(tiny_gguf(&m, "scaled"), &d, &model);
    if ((s == TENON_OK) != (c[i].factor > 0)) FAIL("case %d: %s", i, d.text);
    if (model) EXPECT_NEAR(model->spec.rope[0].factor, c[i].factor, 1e-6);
    llm_close(model);
    tiny_free(&m);
  }
}

// ---- GPT-2 ----

static void gpt2_layer(const TinyLlm *m, int l, double x[TOKENS][D]) {
  static Rows r;
  enum { SMALL = D / HEADS };
  for (int t = 0; t < TOKENS; t++) {
    double a[D];
    layer_norm(x[t], W("transformer.h.%d.ln_1.weight", l), W("transformer.h.%d.ln_1.bias", l), D,
               a);
    const float *w = W("transformer.h.%d.attn.c_attn.weight", l);
    for (int o = 0; o < 3 * D; o++) {
      double y = (double)W("transformer.h.%d.attn.c_attn.bias", l)[o];
      for (int i = 0; i < D; i++) y += a[i] * (double)w[i * 3 * D + o];
      (o < D ? r.q : o < 2 * D ? r.k : r.v)[t][o % D] = y;
    }
  }
  for (int t = 0; t < TOKENS; t++) {
    double y[D], a[D], h[FFN];
    for (int n = 0; n < HEADS; n++) {
      double p[TOKENS], sum = 0;
      for (int j = 0; j <= t; j++) {
        p[j] = 0;
        for (int i = n * SMALL; i < (n + 1) * SMALL; i++) p[j] += r.q[t][i] * r.k[j][i];
        sum += p[j] = exp(p[j] / sqrt((double)SMALL));
      }
      for (int i = n * SMALL; i < (n + 1) * SMALL; i++) {
        y[i] = 0;
        for (int j = 0; j <= t; j++) y[i] += p[j] / sum * r.v[j][i];
      }
    }
    for (int o = 0; o < D; o++) {
      x[t][o] += (double)W("transformer.h.%d.attn.c_proj.bias", l)[o];
      for (int i = 0; i < D; i++)
        x[t][o] += y[i] * (double)W("transformer.h.%d.attn.c_proj.weight", l)[i * D + o];
    }
    layer_norm(x[t], W("transformer.h.%d.ln_2.weight", l), W("transformer.h.%d.ln_2.bias", l), D,
               a);
    for (int o = 0; o < FFN; o++) {
      h[o] = (double)W("transformer.h.%d.mlp.c_fc.bias", l)[o];
      for (int i = 0; i < D; i++)
        h[o] += a[i] * (double)W("transformer.h.%d.mlp.c_fc.weight", l)[i * FFN + o];
      h[o] = gelu_tanh(h[o]);
    }
    for (int o = 0; o < D; o++) {
      x[t][o] += (double)W("transformer.h.%d.mlp.c_proj.bias", l)[o];
      for (int i = 0; i < FFN; i++)
        x[t][o] += h[i] * (double)W("transformer.h.%d.mlp.c_proj.weight", l)[i * D + o];
    }
  }
}

static void add_gpt2(TinyLlm *m) {
  static const struct {
    const char *name;
    int64_t in, out;  // out 0: a norm
  } part[] = {{"ln_1", D, 0}, {"attn.c_attn", D, 3 * D}, {"attn.c_proj", D, D},
              {"ln_2", D, 0}, {"mlp.c_fc", D, FFN},      {"mlp.c_proj", FFN, D}};
  tiny_init(m);
  tiny_add(m, "transformer.wte.weight", 0, 0.8, V, D);
  tiny_add(m, "transformer.wpe.weight", 0, 0.5, 64, D);
  for (int l = 0; l < LAYERS; l++)
    for (int i = 0; i < (int)ARRAY_LEN(part); i++) {
      bool norm = !part[i].out;
      tiny_addf(m, norm ? 1 : 0, 0.4, part[i].in, part[i].out, "transformer.h.%d.%s.weight", l,
                part[i].name);
      tiny_addf(m, 0, 0.3, norm ? D : part[i].out, 0, "transformer.h.%d.%s.bias", l, part[i].name);
    }
  tiny_add(m, "transformer.ln_f.weight", 1, 0.3, D, 0);
  tiny_add(m, "transformer.ln_f.bias", 0, 0.3, D, 0);
}

TEST(llm_gpt2_folder_is_the_reference) {
  TinyLlm model, *m = &model;
  add_gpt2(m);
  static double x[TOKENS][D], want[TOKENS * V];
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i < D; i++)
      x[t][i] = (double)W("transformer.wte.weight")[ids[t] * D + i] +
                (double)W("transformer.wpe.weight")[t * D + i];
  for (int l = 0; l < LAYERS; l++) gpt2_layer(m, l, x);
  for (int t = 0; t < TOKENS; t++) {
    double a[D];
    layer_norm(x[t], W("transformer.ln_f.weight"), W("transformer.ln_f.bias"), D, a);
    product(a, W("transformer.wte.weight"), D, V, want + t * V);
  }
  const char *path =
      tiny_folder(m, "gpt2",
                  "{\"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": 40, \"n_embd\": 24, "
                  "\"n_layer\": 3, \"n_head\": 4, \"n_inner\": 20, \"n_positions\": 64, "
                  "\"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-5}",
                  1);
  float *got = tiny_logits(path, ids, TOKENS, V);
  if (got) EXPECT(tiny_difference(got, want, TOKENS * V) < 2e-5);
  free(got);
  tiny_free(m);
}
