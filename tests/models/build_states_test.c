// build_states_test.c -- recurrent layers in graphs of rows of several sequences: steps of any
// size, with states that wander from slot to slot, give what the plain graph computes.
#include "models/llm.h"
#include "ir/interpret.h"
#include "test.h"
#include "tiny_llm.h"

#include <math.h>
#include <stdlib.h>

enum { V = 32, D = 16, LAYERS = 2, HEADS = 4, SIZE = 8, KEYS = 8, GROUPS = 2, TAPS = 4 };
enum { INNER = HEADS * SIZE, CHANNELS = INNER + 2 * GROUPS * KEYS, IN = INNER + CHANNELS + HEADS };
enum { SEQS = 3, LENGTH = 40, SLOTS = 7, CHUNK = 5, STATES = 2 * LAYERS };
enum { SIZE_C = 192, SIZE_S = HEADS * KEYS * SIZE };  // elements of a slot: 3 rows of 64 channels

static const char config[] =
    "{\"architectures\": [\"Mamba2ForCausalLM\"], \"vocab_size\": 32, \"hidden_size\": 16, "
    "\"num_hidden_layers\": 2, \"num_heads\": 4, \"head_dim\": 8, \"state_size\": 8, "
    "\"n_groups\": 2, \"expand\": 2, \"conv_kernel\": 4, \"use_conv_bias\": true, \"use_bias\": "
    "false, \"hidden_act\": \"silu\", \"layer_norm_epsilon\": 1e-5, \"tie_word_embeddings\": true}";

static const char *make_model(TinyLlm *m) {
  tiny_init(m);
  tiny_add(m, "backbone.embeddings.weight", 0, 0.8, V, D);
  tiny_add(m, "backbone.norm_f.weight", 1, 0.3, D, 0);
  for (int l = 0; l < LAYERS; l++) {
    tiny_addf(m, 1, 0.3, D, 0, "backbone.layers.%d.norm.weight", l);
    tiny_addf(m, 0, 0.5, IN, D, "backbone.layers.%d.mixer.in_proj.weight", l);
    tiny_addf(m, 0, 0.5, CHANNELS, TAPS, "backbone.layers.%d.mixer.conv1d.weight", l);
    tiny_addf(m, 0, 0.3, CHANNELS, 0, "backbone.layers.%d.mixer.conv1d.bias", l);
    tiny_addf(m, 0, 0.3, HEADS, 0, "backbone.layers.%d.mixer.dt_bias", l);
    tiny_addf(m, 0, 0.3, HEADS, 0, "backbone.layers.%d.mixer.A_log", l);
    tiny_addf(m, 1, 0.3, HEADS, 0, "backbone.layers.%d.mixer.D", l);
    tiny_addf(m, 1, 0.3, INNER, 0, "backbone.layers.%d.mixer.norm.weight", l);
    tiny_addf(m, 0, 0.4, D, INNER, "backbone.layers.%d.mixer.out_proj.weight", l);
  }
  return tiny_folder(m, "states", config, 1);
}

typedef struct Serving {
  Diag d;
  LlmModel *model;
  Graph *g;
  Interp *in;
  float *state[STATES];
  int32_t ids[SEQS][LENGTH], slot[SEQS];  // where a sequence's state is; -1: nowhere yet
  int done[SEQS];
  float got[SEQS][LENGTH][V];
} Serving;

static int64_t slot_size(int i) { return i % 2 ? SIZE_S : SIZE_C; }

static void open_serving(Serving *s, const char *path) {
  memset(s, 0, sizeof *s);
  LlmBuildOptions o = {.form = LLM_PAGED};
  tenon_status st = tiny_open(path, &s->d, &s->model);
  if (!st) st = graph_create(&s->d, &s->g);
  if (!st) st = llm_build(s->model, &o, s->g);
  if (!st) st = graph_verify(s->g, &s->d);
  if (!st) st = interp_create(s->g, NULL, &s->d, &s->in);
  if (st) FAIL("%s", s->d.text);
  for (int i = 0; i < SEQS * LENGTH; i++)
    s->ids[i / LENGTH][i % LENGTH] = (int32_t)(hash_u64((uint64_t)i) % V);
  for (int q = 0; q < SEQS; q++) s->slot[q] = -1;
  for (int i = 0; i < STATES; i++) {
    s->state[i] = malloc((size_t)(SLOTS * slot_size(i)) * sizeof(float));
    for (int k = 0; k < SLOTS * slot_size(i); k++) s->state[i][k] = NAN;  // never to be read
  }
}

// Rows of one step in `row`: ids, pos, seq, slot of the KV cache, out.  Returns how many.
static int plan_step(Serving *s, uint64_t turn, int32_t row[5][SEQS * CHUNK]) {
  int n = 0;
  for (int q = 0; q < SEQS; q++) {
    int take = (int)(hash_u64(turn * 8 + (uint64_t)q) % (CHUNK + 1));
    for (int i = 0; i < take && s->done[q] < LENGTH; i++, n++) {
      int pos = s->done[q]++;
      int32_t values[5] = {s->ids[q][pos], pos, q, pos, n};
      for (int k = 0; k < 5; k++) row[k][n] = values[k];
    }
  }
  return n;
}

// Where sequences leave their states: each third time in another slot.  One without rows in this
// step keeps its own.
static void choose_slots(Serving *s, uint64_t turn, int32_t *from, int32_t *to) {
  for (int q = 0; q < SEQS; q++) {
    from[q] = s->slot[q];
    to[q] = from[q] < 0 ? 2 * q : turn % 3 ? from[q] : 4 * q + 1 - from[q];
    s->slot[q] = to[q];
  }
}

static void run_step(Serving *s, uint64_t turn, int32_t row[5][SEQS * CHUNK], int n) {
  enum { INPUTS = 8 };
  Run run;
  Value *in[INPUTS + STATES] = {0}, *out[1 + STATES] = {0};
  int32_t from[SEQS], to[SEQS], table[SEQS * 2] = {0};
  static const int place[5] = {0, 1, 2, 3, 5};
  int64_t rows = n, seqs = SEQS, pages[] = {SEQS, 2};
  choose_slots(s, turn, from, to);
  run_init(&run, NULL, &s->d);
  for (int k = 0; k < 5; k++)
    EXPECT_STATUS(value_borrow(&run, DT_I32, 1, &rows, row[k], &in[place[k]]), TENON_OK);
  EXPECT_STATUS(value_borrow(&run, DT_I32, 2, pages, table, &in[4]), TENON_OK);
  EXPECT_STATUS(value_borrow(&run, DT_I32, 1, &seqs, from, &in[6]), TENON_OK);
  EXPECT_STATUS(value_borrow(&run, DT_I32, 1, &seqs, to, &in[7]), TENON_OK);
  for (int i = 0; i < STATES; i++) {
    int64_t heads = i % 2 ? HEADS : 1;
    int64_t dims[] = {SLOTS, heads, LLM_PAGE, slot_size(i) / heads / LLM_PAGE};
    EXPECT_STATUS(value_borrow(&run, DT_F32, 4, dims, s->state[i], &in[INPUTS + i]), TENON_OK);
  }
  if (interp_run(s->in, &run, in, out)) FAIL("%s", s->d.text);
  for (int i = 0; out[0] && i < n; i++)
    memcpy(s->got[row[2][i]][row[1][i]], (float *)out[0]->data + i * V, V * sizeof(float));
  run_deinit(&run);
}

static void compare(Serving *s, const char *path) {
  for (int q = 0; s->in && q < SEQS; q++) {
    EXPECT_INT_EQ(s->done[q], LENGTH);
    float *want = tiny_logits(path, s->ids[q], LENGTH, V);
    double worst = 0;
    for (int i = 0; want && i < LENGTH * V; i++) {
      double by = fabs((double)want[i] - (double)s->got[q][i / V][i % V]);
      if (!(by <= worst)) worst = by;
    }
    if (!(worst < 1e-5)) FAIL("sequence %d differs by %g", q, worst);
    free(want);
  }
}

TEST(llm_states_of_recurrent_layers_go_from_step_to_step) {
  TinyLlm m;
  static Serving s;
  static int32_t row[5][SEQS * CHUNK];
  const char *path = make_model(&m);
  open_serving(&s, path);
  if (s.in) EXPECT_INT_EQ(llm_state_bytes(&s.model->spec), LAYERS * 4 * (SIZE_C + SIZE_S));
  for (uint64_t turn = 0; s.in && turn < 100; turn++) {
    int n = plan_step(&s, turn, row);
    if (n) run_step(&s, turn, row, n);
  }
  compare(&s, path);
  for (int i = 0; i < STATES; i++) free(s.state[i]);
  interp_free(s.in);
  graph_free(s.g);
  llm_close(s.model);
  tiny_free(&m);
}
