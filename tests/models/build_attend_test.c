// build_attend_test.c -- the paged graph computes what the plain one does: for chunks of any size,
// several sequences at once, pages in any order, and rubbish in what was not written.
#include "models/llm.h"
#include "ir/interpret.h"
#include "test.h"
#include "tiny_llm.h"

#include <math.h>
#include <stdlib.h>

enum { V = 32, LAYERS = 4, HEADS = 4, KV = 2, SIZE = 8, D = 16, FFN = 24 };
enum { SEQS = 3, LENGTH = 70, PAGES = 12, TABLE = 3, STATES = 4 * LAYERS, CHUNK = 7 };

static const char config[] =
    "{\"architectures\": [\"Gemma2ForCausalLM\"], \"hidden_activation\": \"gelu_pytorch_tanh\", "
    "\"query_pre_attn_scalar\": 8, \"sliding_window\": 20, \"attn_logit_softcapping\": 5.0, "
    "\"final_logit_softcapping\": 3.0, \"vocab_size\": 32, \"hidden_size\": 16, "
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 8, \"intermediate_size\": 24, \"max_position_embeddings\": 128, "
    "\"rms_norm_eps\": 1e-6}";

static const char *make_model(TinyLlm *m) {
  static const char *const norm[] = {"input", "post_attention", "pre_feedforward",
                                     "post_feedforward"};
  tiny_init(m);
  tiny_add(m, "model.embed_tokens.weight", 0, 0.8, V, D);
  tiny_add(m, "model.norm.weight", 0.1, 0.3, D, 0);
  for (int l = 0; l < LAYERS; l++) {
    for (int i = 0; i < 4; i++)
      tiny_addf(m, 0.1, 0.3, D, 0, "model.layers.%d.%s_layernorm.weight", l, norm[i]);
    tiny_addf(m, 0, 0.6, HEADS * SIZE, D, "model.layers.%d.self_attn.q_proj.weight", l);
    tiny_addf(m, 0, 0.6, KV * SIZE, D, "model.layers.%d.self_attn.k_proj.weight", l);
    tiny_addf(m, 0, 0.6, KV * SIZE, D, "model.layers.%d.self_attn.v_proj.weight", l);
    tiny_addf(m, 0, 0.6, D, HEADS * SIZE, "model.layers.%d.self_attn.o_proj.weight", l);
    tiny_addf(m, 0, 0.6, FFN, D, "model.layers.%d.mlp.gate_proj.weight", l);
    tiny_addf(m, 0, 0.6, FFN, D, "model.layers.%d.mlp.up_proj.weight", l);
    tiny_addf(m, 0, 0.6, D, FFN, "model.layers.%d.mlp.down_proj.weight", l);
  }
  return tiny_folder(m, "paged", config, 1);
}

typedef struct Serving {
  Diag d;
  LlmModel *model;
  Graph *g;
  Interp *in;
  int states;
  struct {
    DType dtype;
    int64_t size;  // elements of a head
    void *data;
  } state[STATES];
  int32_t ids[SEQS][LENGTH], table[SEQS * TABLE];
  int done[SEQS];
  float got[SEQS][LENGTH][V];
} Serving;

// A state that holds rubbish: NaN, and codes of 85.
static void take_state(Serving *s, const Node *n) {
  const Type *t = type_of(n);
  int64_t size = t->dims[3]->value, cells = PAGES * KV * LLM_PAGE * size;
  void *data = malloc((size_t)(cells * elem_bytes(t->dtype)));
  for (int64_t i = 0; i < cells; i++) {
    if (t->dtype == DT_I8)
      ((int8_t *)data)[i] = 85;
    else
      ((float *)data)[i] = NAN;
  }
  s->state[s->states].dtype = t->dtype;
  s->state[s->states].size = size;
  s->state[s->states++].data = data;
}

static void open_serving(Serving *s, const char *path, DType kv) {
  memset(s, 0, sizeof *s);
  LlmBuildOptions o = {.form = LLM_PAGED, .kv = kv};
  tenon_status st = tiny_open(path, &s->d, &s->model);
  if (!st) st = graph_create(&s->d, &s->g);
  if (!st) st = llm_build(s->model, &o, s->g);
  if (!st) st = graph_verify(s->g, &s->d);
  if (!st) st = interp_create(s->g, NULL, &s->d, &s->in);
  if (st) FAIL("%s", s->d.text);
  static const int32_t pages[SEQS * TABLE] = {7, 0, 11, 3, 9, 4, 10, 1, 5};
  memcpy(s->table, pages, sizeof pages);
  for (int i = 0; i < SEQS * LENGTH; i++)
    s->ids[i / LENGTH][i % LENGTH] = (int32_t)(hash_u64((uint64_t)i) % V);
  for (int64_t i = 0; s->in && i < s->g->main->nparams; i++)
    if (node_is_state(s->g->main->param[i])) take_state(s, s->g->main->param[i]);
}

static void close_serving(Serving *s) {
  for (int i = 0; i < s->states; i++) free(s->state[i].data);
  interp_free(s->in);
  graph_free(s->g);
  llm_close(s->model);
}

// Rows of one step: up to CHUNK tokens of each sequence whose turn it is.
static int plan_step(Serving *s, uint64_t turn, int32_t row[5][SEQS * CHUNK]) {
  int n = 0;
  for (int q = 0; q < SEQS; q++) {
    int take = (int)(hash_u64(turn * 8 + (uint64_t)q) % (CHUNK + 1));
    for (int i = 0; i < take && s->done[q] < LENGTH; i++, n++) {
      int pos = s->done[q]++, page = s->table[q * TABLE + pos / LLM_PAGE];
      int32_t values[5] = {s->ids[q][pos], pos, q, page * LLM_PAGE + pos % LLM_PAGE, n};
      for (int k = 0; k < 5; k++) row[k][n] = values[k];
    }
  }
  return n;
}

static void run_step(Serving *s, int32_t row[5][SEQS * CHUNK], int n) {
  Run run;
  Value *in[6 + STATES] = {0}, *out = NULL;
  int64_t rows = n;
  static const int place[5] = {0, 1, 2, 3, 5};
  run_init(&run, NULL, &s->d);
  for (int k = 0; k < 5; k++)
    EXPECT_STATUS(value_borrow(&run, DT_I32, 1, &rows, row[k], &in[place[k]]), TENON_OK);
  int64_t table[] = {SEQS, TABLE};
  EXPECT_STATUS(value_borrow(&run, DT_I32, 2, table, s->table, &in[4]), TENON_OK);
  for (int i = 0; i < s->states; i++) {
    int64_t dims[] = {PAGES, KV, LLM_PAGE, s->state[i].size};
    EXPECT_STATUS(value_borrow(&run, s->state[i].dtype, 4, dims, s->state[i].data, &in[6 + i]),
                  TENON_OK);
  }
  if (interp_run(s->in, &run, in, &out)) FAIL("%s", s->d.text);
  for (int i = 0; out && i < n; i++)
    memcpy(s->got[row[2][i]][row[1][i]], (float *)out->data + i * V, V * sizeof(float));
  run_deinit(&run);
}

// The largest difference from the plain graph.
static double worst_of(DType kv) {
  TinyLlm m;
  double worst = 0;
  static Serving s;
  static int32_t row[5][SEQS * CHUNK];
  const char *path = make_model(&m);
  open_serving(&s, path, kv);
  for (uint64_t turn = 0; s.in && turn < 200; turn++) {
    int n = plan_step(&s, turn, row);
    if (n) run_step(&s, row, n);
  }
  for (int q = 0; s.in && q < SEQS; q++) {
    EXPECT_INT_EQ(s.done[q], LENGTH);
    float *want = tiny_logits(path, s.ids[q], LENGTH, V);
    for (int t = 0; want && t < LENGTH; t++)
      for (int i = 0; i < V; i++) {
        double e = fabs((double)want[t * V + i] - (double)s.got[q][t][i]);
        worst = e <= worst ? worst : isnan(e) ? INFINITY : e;
      }
    free(want);
  }
  close_serving(&s);
  tiny_free(&m);
  return worst;
}

TEST(llm_paged_graph_computes_what_the_plain_one_does) {
  double e = worst_of(DT_F32);
  if (!(e < 1e-5)) FAIL("logits differ by %g", e);
}

// Logits lie within 3; a code is off by at most half of 1/127 of the largest of its head.
TEST(llm_kv_in_8_bits_is_near_f32) {
  double e = worst_of(DT_I8);
  if (!(e > 1e-4 && e < 0.3)) FAIL("logits differ by %g", e);
}
