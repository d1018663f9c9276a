// build_stories_test.c -- stories260K, a trained model of Llama's form: its greedy tokens, and the
// logits of the first 32 of them, as the program that trained it printed them.
//
// The model's own file has queries and keys in the order of neighbours that turn together; a folder
// of Hugging Face's form has the two halves, so their rows change places.
#include "base/platform.h"
#include "models/llm.h"
#include "test.h"
#include "tiny_llm.h"

#include <math.h>
#include <stdlib.h>

enum { DIM = 64, HIDDEN = 172, LAYERS = 5, HEADS = 8, KV = 4, VOCAB = 512, SIZE = DIM / HEADS };
enum { MOST = 512, GIVEN = 32 };

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_act\": \"silu\", \"vocab_size\": 512, "
    "\"hidden_size\": 64, \"num_hidden_layers\": 5, \"num_attention_heads\": 8, "
    "\"num_key_value_heads\": 4, \"intermediate_size\": 172, \"max_position_embeddings\": 512, "
    "\"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"tie_word_embeddings\": true}";

typedef struct Part {
  const char *name;
  int64_t rows, width;  // width 0: a vector
  int64_t heads;        // whose rows change places
} Part;
// As the file has them: each for all layers.
static const Part part[] = {
    {"input_layernorm", DIM, 0, 0},          {"self_attn.q_proj", DIM, DIM, HEADS},
    {"self_attn.k_proj", KV *SIZE, DIM, KV}, {"self_attn.v_proj", KV *SIZE, DIM, 0},
    {"self_attn.o_proj", DIM, DIM, 0},       {"post_attention_layernorm", DIM, 0, 0},
    {"mlp.gate_proj", HIDDEN, DIM, 0},       {"mlp.down_proj", DIM, HIDDEN, 0},
    {"mlp.up_proj", HIDDEN, DIM, 0}};

static const float *take(TinyTensor *t, const float *from, int64_t heads) {
  int64_t width = t->rank == 2 ? t->dims[1] : 1, size = heads ? t->dims[0] / heads : 0;
  for (int64_t r = 0; r < t->dims[0]; r++) {
    int64_t in = size ? r % size : 0, at = r;
    if (size) at = r - in + in / 2 + in % 2 * (size / 2);
    memcpy(t->data + at * width, from + r * width, (size_t)width * sizeof *from);
  }
  return from + t->n;
}

static const char *make_folder(TinyLlm *m, const float *from) {
  tiny_init(m);
  from = take(tiny_add(m, "model.embed_tokens.weight", 0, 0, VOCAB, DIM), from, 0);
  for (int i = 0; i < (int)ARRAY_LEN(part); i++)
    for (int l = 0; l < LAYERS; l++)
      from = take(tiny_addf(m, 0, 0, part[i].rows, part[i].width, "model.layers.%d.%s.weight", l,
                            part[i].name),
                  from, part[i].heads);
  take(tiny_add(m, "model.norm.weight", 0, 0, DIM, 0), from, 0);
  return tiny_folder(m, "stories260K", config, 1);
}

static int64_t read_ids(const File *f, int32_t *ids) {
  int64_t n = 0;
  char *text = malloc((size_t)f->size + 1), *at = text, *end;
  memcpy(text, f->bytes, (size_t)f->size);
  text[f->size] = 0;
  for (long v = strtol(at, &end, 10); end != at && n < MOST; v = strtol(at, &end, 10)) {
    ids[n++] = (int32_t)v;
    at = end;
  }
  free(text);
  return n;
}

static int64_t best(const float *row) {
  int64_t at = 0;
  for (int64_t i = 1; i < VOCAB; i++)
    if (row[i] > row[at]) at = i;
  return at;
}

static bool open_data(Arena *a, const char *name, File *out) {
  Diag d;
  diag_init(&d);
  const char *data = test_data_dir();
  return data && !file_open(str_printf(a, "%s/models/llama2c_stories260K/%s", data, name), out, &d);
}

static void check(const char *folder, const int32_t *ids, int64_t n, const float *logits) {
  float *y = tiny_logits(folder, ids, n, VOCAB);
  if (!y) return;
  for (int64_t t = 0; t + 1 < n; t++)
    if (best(y + t * VOCAB) != ids[t + 1]) {
      FAIL("token %lld is %lld, not %d", (long long)t + 1, (long long)best(y + t * VOCAB),
           ids[t + 1]);
      break;
    }
  double worst = 0;
  for (int64_t i = 0; i < (int64_t)GIVEN * VOCAB; i++)
    worst = fmax(worst, fabs((double)y[i] - (double)logits[i]));
  if (!(worst < 1e-4)) FAIL("logits differ by %g", worst);
  free(y);
}

TEST(llm_stories260k_gives_its_greedy_tokens) {
  TinyLlm m = {0};
  Arena a;
  File model = {0}, text = {0}, logits = {0};
  int32_t ids[MOST];
  arena_init(&a);
  bool there = open_data(&a, "stories260K.recovered.bin", &model) &&
               open_data(&a, "stories260K_greedy_ids.txt", &text) &&
               open_data(&a, "stories260K_greedy_logits_32x512_f32.raw", &logits);
  if (there) {
    EXPECT_INT_EQ(model.size, 1056540);
    EXPECT_INT_EQ(logits.size, GIVEN * VOCAB * 4);
    int64_t n = read_ids(&text, ids);
    EXPECT(n > 200);
    check(make_folder(&m, (const float *)(const void *)(model.bytes + 28)), ids, n,
          (const float *)(const void *)logits.bytes);
    tiny_free(&m);
  }
  file_close(&model);
  file_close(&text);
  file_close(&logits);
  arena_deinit(&a);
  if (!there) SKIP("the data has no stories260K");
}
