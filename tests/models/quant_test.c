// quant_test.c -- folders whose matrices a quantiser packed, against folders with the same elements
// in f32: int4 and its like in three orders, and elements of 8 bits with scales of tiles.  What
// does not fit is refused with a message that names it.
#include "base/num.h"
#include "base/platform.h"
#include "ir/opinfo.h"
#include "models/llm.h"
#include "test.h"
#include "tiny_llm.h"

#include <math.h>
#include <stdlib.h>

enum { V = 12, D = 32, HEADS = 2, FFN = 64, TOKENS = 5, PRODUCTS = 7, MOST = D * FFN };

#define CONFIG(quant)                                                                              \
  "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 12, \"hidden_size\": 32, "          \
  "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "             \
  "\"intermediate_size\": 64, \"max_position_embeddings\": 16, "                                   \
  "\"quantization_config\": {" quant "}}"
#define PLAIN                                                                                      \
  "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 12, \"hidden_size\": 32, "          \
  "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "             \
  "\"intermediate_size\": 64, \"max_position_embeddings\": 16}"

static const struct {
  const char *name;
  int n, k;
} product[PRODUCTS] = {{"model.layers.0.self_attn.q_proj", D, D},
                       {"model.layers.0.self_attn.k_proj", D / HEADS, D},
                       {"model.layers.0.self_attn.v_proj", D / HEADS, D},
                       {"model.layers.0.self_attn.o_proj", D, D},
                       {"model.layers.0.mlp.gate_proj", FFN, D},
                       {"model.layers.0.mlp.up_proj", FFN, D},
                       {"model.layers.0.mlp.down_proj", D, FFN}};

typedef enum { AWQ, GPTQ, PACKED, BYTES } Order;
typedef struct QuantCase {
  const char *config;
  Order order;
  int bits, group;             // of words; group 0: a row
  bool less, mixed, zeros;     // zeros stored less 1; groups of scattered columns; zeros are there
  const char *stored, *scale;  // of bytes: their type, and the end of the scales' name
  int tile_n, tile_k;
} QuantCase;

static uint64_t rng;
static int draw(int n) {
  rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
  return (int)(rng % (uint64_t)n);
}

static void add_others(TinyLlm *m) {
  tiny_init(m);
  tiny_add(m, "model.embed_tokens.weight", 0, 0.8, V, D);
  tiny_add(m, "model.norm.weight", 1, 0.3, D, 0);
  tiny_add(m, "lm_head.weight", 0, 0.5, V, D);
  tiny_add(m, "model.layers.0.input_layernorm.weight", 1, 0.3, D, 0);
  tiny_add(m, "model.layers.0.post_attention_layernorm.weight", 1, 0.3, D, 0);
}

static const char *join(TinyLlm *m, const char *name, const char *end) {
  return str_printf(&m->arena, "%s.%s", name, end);
}

static void put(uint32_t *words, int64_t word, int shift, int v) {
  words[word] |= (uint32_t)v << shift;
}

// Codes, zeros and scales of a matrix as words, and its elements.
static void add_words(TinyLlm *m, const QuantCase *c, const char *name, int n, int k, float *w) {
  static const int place[] = {0, 2, 4, 6, 1, 3, 5, 7};
  int each = 32 / c->bits, group = c->group ? c->group : k, groups = k / group, at[16];
  uint32_t codes[MOST] = {0}, zeros[MOST] = {0};
  uint16_t scale[MOST];
  int32_t index[FFN];
  int zero[MOST];
  for (int i = 0; i < each; i++) at[c->order == AWQ ? place[i] : i] = i;
  for (int i = 0; i < k; i++) index[i] = c->mixed ? i * 7 % k / group : i / group;
  for (int g = 0; g < groups; g++)
    for (int r = 0; r < n; r++) {
      int z = zero[g * n + r] = c->zeros ? 1 + draw((1 << c->bits) - 1) : 1 << (c->bits - 1);
      double s = (double)(1 + draw(15)) / (16 << c->bits);
      store_f64(DT_F16, scale, c->order == PACKED ? r * groups + g : g * n + r, 1, &s);
      if (c->order == PACKED)
        put(zeros, r / each * groups + g, r % each * c->bits, z);
      else
        put(zeros, g * (n / each) + r / each, at[r % each] * c->bits, z - c->less);
    }
  for (int r = 0; r < n; r++)
    for (int i = 0; i < k; i++) {
      int q = draw(1 << c->bits), g = index[i];
      if (c->order == AWQ) put(codes, i * (n / each) + r / each, at[r % each] * c->bits, q);
      if (c->order == GPTQ) put(codes, i / each * n + r, i % each * c->bits, q);
      if (c->order == PACKED) put(codes, r * (k / each) + i / each, i % each * c->bits, q);
      double s = get_f64(DT_F16, scale, c->order == PACKED ? r * groups + g : g * n + r);
      w[r * k + i] = (float)((q - zero[g * n + r]) * s);
    }
  bool packed = c->order == PACKED, awq = c->order == AWQ;
  int64_t size = (int64_t)n * k / each, rows = awq ? k : packed ? n : k / each;
  tiny_raw(m, join(m, name, packed ? "weight_packed" : "qweight"), "I32", rows, size / rows, codes,
           4 * size);
  tiny_raw(m, join(m, name, packed ? "weight_scale" : "scales"), "F16", packed ? n : groups,
           packed ? groups : n, scale, (int64_t)2 * n * groups);
  if (packed && c->zeros)
    tiny_raw(m, join(m, name, "weight_zero_point"), "I32", n / each, groups, zeros,
             (int64_t)4 * n / each * groups);
  if (packed) tiny_raw(m, join(m, name, "weight_shape"), "I32", 2, 0, (int32_t[]){n, k}, 8);
  if (!packed)
    tiny_raw(m, join(m, name, "qzeros"), "I32", groups, n / each, zeros,
             (int64_t)4 * n / each * groups);
  if (c->order == GPTQ) tiny_raw(m, join(m, name, "g_idx"), "I32", k, 0, index, (int64_t)4 * k);
}

static void add_bytes(TinyLlm *m, const QuantCase *c, const char *name, int n, int k, float *w) {
  DType t = strcmp(c->stored, "I8") ? DT_F8E4M3 : DT_I8;
  int rows = c->tile_n ? c->tile_n : n, columns = c->tile_k ? c->tile_k : k;
  int tiles = (k + columns - 1) / columns, all = (n + rows - 1) / rows * tiles;
  uint8_t codes[MOST];
  float scale[MOST];
  for (int i = 0; i < all; i++) scale[i] = (float)(1 + draw(15)) / (t == DT_I8 ? 4096 : 64);
  for (int i = 0; i < n * k; i++) {
    codes[i] = (uint8_t)(t == DT_I8 ? draw(256) : draw(256) & 0xbf);
    w[i] = (float)get_f64(t, codes, i) * scale[i / k / rows * tiles + i % k / columns];
  }
  tiny_raw(m, join(m, name, "weight"), c->stored, n, k, codes, (int64_t)n * k);
  tiny_raw(m, join(m, name, c->scale), "F32", all / tiles, tiles, scale, (int64_t)4 * all);
}

// Two folders of the same elements: packed, and in f32.
static void make(TinyLlm *packed, TinyLlm *plain, const QuantCase *c) {
  rng = 5;
  add_others(packed);
  add_others(plain);
  for (int i = 0; i < PRODUCTS; i++) {
    float w[MOST];
    int n = product[i].n, k = product[i].k;
    if (c->order == BYTES)
      add_bytes(packed, c, product[i].name, n, k, w);
    else
      add_words(packed, c, product[i].name, n, k, w);
    TinyTensor *t = tiny_add(plain, join(plain, product[i].name, "weight"), 0, 0, n, k);
    memcpy(t->data, w, (size_t)(n * k) * sizeof *w);
  }
}

static void compare(const QuantCase *c, const char *path, const float *want, bool in_place) {
  static const int32_t ids[TOKENS] = {3, 1, 11, 0, 7};
  LlmBuildOptions how = {.in_place = in_place};
  int64_t nodes = 0, products = c->order != BYTES || in_place ? PRODUCTS : 0;
  int op = c->order == BYTES ? OP_mat_mul_blocks : OP_mat_mul_n_bits;
  float *got = tiny_logits_of(path, &how, ids, TOKENS, V, op, &nodes);
  double worst = got ? 0 : INFINITY;
  for (int i = 0; got && i < TOKENS * V; i++) {
    double e = fabs((double)got[i] - (double)want[i]);
    worst = e <= worst ? worst : e;
    if (isnan(e)) worst = INFINITY;
  }
  if (!(worst < 2e-5)) FAIL("%s: the difference is %g", c->config, worst);
  if (nodes != products) FAIL("%s: %lld products stay packed", c->config, (long long)nodes);
  free(got);
}

static void check(const QuantCase *c) {
  static const int32_t ids[TOKENS] = {3, 1, 11, 0, 7};
  TinyLlm packed, plain;
  make(&packed, &plain, c);
  float *want = tiny_logits(tiny_folder(&plain, "plain", PLAIN, 1), ids, TOKENS, V);
  const char *path = tiny_folder(&packed, "packed", c->config, 1);
  for (int in_place = 0; want && in_place < 2; in_place++) compare(c, path, want, in_place);
  free(want);
  tiny_free(&packed);
  tiny_free(&plain);
}

#define ARGS(more)                                                                                 \
  "\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"group_0\": {\"targets\": "      \
  "[\"Linear\"], \"input_activations\": null, \"weights\": {" more "}}}"
static const QuantCase awq = {
    .config = CONFIG("\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 16, "
                     "\"zero_point\": true, \"version\": \"gemm\""),
    .order = AWQ,
    .bits = 4,
    .group = 16,
    .zeros = true};
static const QuantCase gptq = {
    .config = CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 16, "
                     "\"desc_act\": true, \"sym\": false"),
    .order = GPTQ,
    .bits = 4,
    .group = 16,
    .zeros = true,
    .less = true,
    .mixed = true};

TEST(llm_quantised_words_are_read) {
  static const QuantCase more[] = {
      {.config = CONFIG(
           "\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32, \"desc_act\": false"),
       .order = GPTQ,
       .bits = 4,
       .group = 32,
       .less = true},
      {.config = CONFIG("\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": -1, "
                        "\"checkpoint_format\": \"gptq_v2\""),
       .order = GPTQ,
       .bits = 8,
       .zeros = true},
      {.config = CONFIG("\"quant_method\": \"gptq\", \"bits\": 2, \"group_size\": 16"),
       .order = GPTQ,
       .bits = 2,
       .group = 16,
       .zeros = true,
       .less = true},
      {.config = CONFIG(ARGS(
           "\"num_bits\": 4, \"type\": \"int\", \"strategy\": \"group\", \"group_size\": 16, "
           "\"symmetric\": true") ", \"format\": \"pack-quantized\", \"ignore\": [\"lm_head\"]"),
       .order = PACKED,
       .bits = 4,
       .group = 16},
      {.config = CONFIG(ARGS("\"num_bits\": 8, \"type\": \"int\", \"strategy\": \"channel\", "
                             "\"symmetric\": false") ", \"format\": \"pack-quantized\", "
                                                     "\"quantization_status\": \"compressed\""),
       .order = PACKED,
       .bits = 8,
       .zeros = true}};
  check(&awq);
  check(&gptq);
  for (int i = 0; i < (int)ARRAY_LEN(more); i++) check(&more[i]);
}

static const QuantCase fp8 = {
    .config = CONFIG("\"quant_method\": \"fp8\", \"activation_scheme\": \"dynamic\", "
                     "\"weight_block_size\": [16, 16]"),
    .order = BYTES,
    .stored = "F8_E4M3",
    .scale = "weight_scale_inv",
    .tile_n = 16,
    .tile_k = 16};

TEST(llm_quantised_bytes_are_read) {
  static const QuantCase more[] = {
      {.config =
           CONFIG("\"quant_method\": \"fp8\", \"weight_block_size\": [24, 20], \"fmt\": \"e4m3\""),
       .order = BYTES,
       .stored = "F8_E4M3",
       .scale = "weight_scale_inv",
       .tile_n = 24,
       .tile_k = 20},
      {.config = CONFIG("\"quant_method\": \"fp8\", \"weight_block_size\": null"),
       .order = BYTES,
       .stored = "F8_E4M3",
       .scale = "weight_scale_inv"},
      {.config = CONFIG(ARGS("\"num_bits\": 8, \"type\": \"float\", \"strategy\": "
                             "\"channel\"") ", \"format\": \"float-quantized\""),
       .order = BYTES,
       .stored = "F8_E4M3",
       .scale = "weight_scale",
       .tile_n = 1},
      {.config = CONFIG(ARGS("\"num_bits\": 8, \"type\": \"int\", \"strategy\": "
                             "\"channel\"") ", \"format\": \"int-quantized\""),
       .order = BYTES,
       .stored = "I8",
       .scale = "weight_scale",
       .tile_n = 1}};
  check(&fp8);
  for (int i = 0; i < (int)ARRAY_LEN(more); i++) check(&more[i]);
}

// ---- what is refused ----

static void refused(TinyLlm *m, const char *config, const char *part) {
  Diag d;
  LlmModel *model = NULL;
  tenon_status s = tiny_open(tiny_folder(m, "refused", config, 1), &d, &model);
  if (s != TENON_EFORMAT && s != TENON_EUNSUPPORTED)
    FAIL("'%s': %s %s", part, status_name(s), d.text);
  EXPECT_CONTAINS(d.text, part);
  llm_close(model);
}

static TinyTensor *tensor(TinyLlm *m, const char *end) {
  for (int64_t i = 0; i < m->t.n; i++)
    if (str_ends(str_of(m->t.v[i].name), end)) return &m->t.v[i];
  FAIL("no tensor '%s'", end);
  abort();
}

TEST(llm_quantisation_that_is_not_read_is_refused) {
  static const struct {
    const char *config, *part;
  } c[] = {
      {CONFIG("\"quant_method\": \"gptq\", \"bits\": 3, \"group_size\": 16"), "weights of 3 bits"},
      {CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, \"frob\": 1"),
       "the key 'frob', which is not known"},
      {CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, \"is_marlin_format\": true"),
       "'is_marlin_format', which is not supported"},
      {CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, \"checkpoint_format\": \"marlin\""),
       "checkpoint_format 'marlin'"},
      {CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, \"dynamic\": {\"x\": 1}"),
       "'dynamic', which is not supported"},
      {CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 24"),
       "groups do not divide"},
      {CONFIG("\"quant_method\": \"gptq\", \"bits\": 4, \"weight_block_size\": [1, 1]"),
       "not known there"},
      {CONFIG("\"quant_method\": \"awq\", \"bits\": 4, \"version\": \"gemv\""), "version 'gemv'"},
      {CONFIG("\"quant_method\": \"awq\", \"bits\": 4, \"zero_point\": false"),
       "without zero points"},
      {CONFIG("\"quant_method\": \"fp8\", \"fmt\": \"e5m2\""), "fmt 'e5m2'"},
      {CONFIG("\"quant_method\": \"fp8\", \"weight_block_size\": [0, 1]"), "must be two sizes"},
      {CONFIG("\"quant_method\": \"bitsandbytes\""), "quantised by 'bitsandbytes'"},
      {CONFIG("\"quant_method\": \"compressed-tensors\", \"config_groups\": {}"),
       "must be one group"},
      {CONFIG(ARGS("\"num_bits\": 4, \"type\": \"float\", \"strategy\": \"group\", \"group_size\": "
                   "16") ", \"format\": \"pack-quantized\""),
       "type 'float'"},
      {CONFIG(ARGS("\"num_bits\": 4, \"dynamic\": true") ", \"format\": \"pack-quantized\""),
       "'dynamic', which is not supported"},
      {PLAIN, "is not one of the architecture"},
  };
  TinyLlm m, plain;
  make(&m, &plain, &gptq);
  for (int i = 0; i < (int)ARRAY_LEN(c); i++) refused(&m, c[i].config, c[i].part);
  ((int32_t *)tensor(&m, "g_idx")->data)[3] = 99;
  refused(&m, gptq.config, "g_idx is out of range");
  ((int32_t *)tensor(&m, "g_idx")->data)[3] =
      ((int32_t *)tensor(&m, "g_idx")->data)[4] == 0 ? 1 : 0;
  refused(&m, gptq.config, "groups are not of one size");
  tensor(&m, "qzeros")->name = "x.y";
  refused(&m, gptq.config, "there are no zeros");
  tensor(&m, "scales")->name = "x.z";
  refused(&m, gptq.config, "there are no scales");
  tiny_free(&m);
  tiny_free(&plain);
  make(&m, &plain, &fp8);
  TinyTensor *t = tensor(&m, "weight_scale_inv");
  t->dims[0] /= 2;
  t->bytes /= 2;
  refused(&m, fp8.config,
          "'model.layers.0.self_attn.q_proj.weight_scale_inv' is f32[1, 2], must be");
  tiny_free(&m);
  tiny_free(&plain);
}

// ---- without memory ----

static int64_t calls, blocks, fail_at;

static void *failing_alloc(int64_t bytes) {
  if (calls++ == fail_at) return NULL;
  void *p = platform_posix.alloc(bytes);
  blocks += p != NULL;
  return p;
}

static void counting_free(void *p, int64_t bytes) {
  blocks -= p != NULL;
  platform_posix.free(p, bytes);
}

static tenon_status open_and_build(const char *path, Diag *d) {
  static LlmModel *m;
  static Graph *g;
  LlmBuildOptions how = {.in_place = true};
  g = NULL;
  tenon_status s = tiny_open(path, d, &m);
  if (s) return s;
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) {
    t.status = graph_create(d, &g);
    if (!t.status) t.status = llm_build(m, &how, g);
  }
  trap_leave(&t);
  graph_free(g);
  llm_close(m);
  return t.status;
}

TEST(llm_quantised_without_memory) {
  static const QuantCase *const c[] = {&gptq, &fp8};
  Platform table = platform_posix;
  table.alloc = failing_alloc;
  table.free = counting_free;
  for (int i = 0; i < (int)ARRAY_LEN(c); i++) {
    TinyLlm packed, plain;
    Diag d;
    make(&packed, &plain, c[i]);
    const char *path = tiny_folder(&packed, "memory", c[i]->config, 1);
    tenon_status s = TENON_ENOMEM;
    for (fail_at = 0; s == TENON_ENOMEM; fail_at++) {
      calls = blocks = 0;
      platform = &table;
      s = open_and_build(path, &d);
      platform = &platform_posix;
      if (blocks)
        FAIL("allocation %lld: %lld blocks are left", (long long)fail_at, (long long)blocks);
      if (s && s != TENON_ENOMEM) FAIL("allocation %lld: %s", (long long)fail_at, d.text);
    }
    EXPECT(fail_at > 10);
    tiny_free(&packed);
    tiny_free(&plain);
  }
}
