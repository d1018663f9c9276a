// llm_adapter_test.c -- LoRA adapters of a served model: as merged weights, in company, loaded and
// dropped, and what is refused.
#include "api/llm.h"
#include "codegen.h"
#include "test.h"
#include "tiny_chat.h"

#include "base/platform.h"

#include <math.h>

enum { RANK = 4, TOKENS = 24, PROMPT = 80 };  // more than two pages
static const char config[] = "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":6,\"bias\":\"none\","
                             "\"target_modules\":[\"q_proj\"],\"base_model_name_or_path\":\"x\"}";
static const struct {
  const char *name;
  int64_t out, in;
} product[] = {
    {"self_attn.q_proj", 32, 32}, {"self_attn.v_proj", 16, 32}, {"mlp.down_proj", 32, 48}};

static void add_factors(TinyLlm *m, const char *name, int64_t out, int64_t in, int64_t rank) {
  tiny_addf(m, 0, 0.5, rank, in, "base_model.model.%s.lora_A.weight", name);
  tiny_addf(m, 0, 0.5, out, rank, "base_model.model.%s.lora_B.weight", name);
}

// An adapter of some products of both layers, and its folder.
static const char *make_adapter(TinyLlm *m, const char *name, uint64_t seed) {
  tiny_init(m);
  m->seed = seed;
  for (int layer = 0; layer < 2; layer++)
    for (int64_t i = 0; i < ARRAY_LEN(product); i++)
      add_factors(m, str_printf(&m->arena, "model.layers.%d.%s", layer, product[i].name),
                  product[i].out, product[i].in, RANK);
  return tiny_adapter(m, name, config);
}

// W + alpha / r B A.
static void merge(TinyLlm *model, const TinyLlm *adapter) {
  for (int layer = 0; layer < 2; layer++)
    for (int64_t p = 0; p < ARRAY_LEN(product); p++) {
      const char *at = str_printf(&model->arena, "model.layers.%d.%s", layer, product[p].name);
      const float *a = tiny_get(adapter, "base_model.model.%s.lora_A.weight", at),
                  *b = tiny_get(adapter, "base_model.model.%s.lora_B.weight", at);
      float *w = (float *)tiny_get(model, "%s.weight", at);
      for (int64_t i = 0; i < product[p].out; i++)
        for (int64_t k = 0; k < product[p].in; k++) {
          double sum = 0;
          for (int r = 0; r < RANK; r++)
            sum += (double)b[i * RANK + r] * (double)a[r * product[p].in + k];
          w[i * product[p].in + k] += (float)(sum * 6 / RANK);
        }
    }
}

typedef struct Given {
  int32_t token[TOKENS];
  float logprob[TOKENS], prompt[PROMPT];
  int n, nprompt;
} Given;

static tenon_llm *open_model(const char *path, int32_t adapters, int32_t rank, const char *target) {
  tenon_llm_options o = {.struct_size = sizeof o,
                         .target = target,
                         .threads = 1,
                         .batch = 32,
                         .sequences = 3,
                         .requests = 6,
                         .pages = 20,
                         .adapters = adapters,
                         .adapter_rank = rank,
                         .no_cache = 1};
  tenon_llm *l = NULL;
  tenon_error e;
  if (tenon_llm_open(path, &o, &l, &e)) FAIL("%s", e.message);
  return l;
}

static uint64_t submit(tenon_llm *l, const char *adapter) {
  tenon_llm_request r = {
      .struct_size = sizeof r,
      .text = "The clocks struck 13The clocks struck 13The clocks struck 13The clocks struck 13",
      .max_tokens = TOKENS,
      .ignore_end = 1,
      .logprobs = 1,
      .prompt_logprobs = 1,
      .adapter = adapter};
  uint64_t id = 0;
  tenon_error e;
  if (tenon_llm_submit(l, &r, &id, &e)) FAIL("%s", e.message);
  return id;
}

static void step(tenon_llm *l, const uint64_t *id, Given *a, int n) {
  const tenon_llm_event *ev;
  size_t nev;
  tenon_error e;
  if (tenon_llm_step(l, &ev, &nev, &e)) FAIL("%s", e.message);
  for (size_t i = 0; i < nev; i++)
    for (int k = 0; k < n; k++) {
      if (ev[i].id != id[k]) continue;
      if (ev[i].kind == TENON_LLM_PROMPT) a[k].prompt[a[k].nprompt++] = ev[i].logprob;
      if (ev[i].kind != TENON_LLM_TOKEN) continue;
      a[k].token[a[k].n] = ev[i].token;
      a[k].logprob[a[k].n++] = ev[i].logprob;
    }
}

static Given ask(tenon_llm *l, const char *adapter) {
  Given a = {.n = 0};
  uint64_t id = submit(l, adapter);
  while (tenon_llm_busy(l)) step(l, &id, &a, 1);
  EXPECT_INT_EQ(a.n, TOKENS);
  return a;
}

static bool same(const Given *a, const Given *b) {
  return !memcmp(a->token, b->token, sizeof a->token) &&
         !memcmp(a->logprob, b->logprob, sizeof a->logprob) &&
         !memcmp(a->prompt, b->prompt, sizeof a->prompt);
}

static void load(tenon_llm *l, const char *name, const char *path) {
  tenon_error e;
  if (tenon_llm_load_adapter(l, name, path, 0, &e)) FAIL("%s", e.message);
}

static void merged_on(const char *target) {
  TinyLlm plain, other, adapter, second;
  tiny_init(&plain);
  tiny_init(&other);
  const char *path = make_adapter(&adapter, "one", 3), *path2 = make_adapter(&second, "two", 4);
  tenon_llm *bare = open_model(tiny_chat(&plain, "plain"), 0, 0, target),
            *both = open_model(tiny_chat_folder(&plain, "plain"), 2, 0, target);
  tiny_chat_weights(&other);
  merge(&other, &adapter);
  tenon_llm *merged = open_model(tiny_chat_folder(&other, "merged"), 0, 0, target);
  load(both, "first", path);
  load(both, "second", path2);
  Given want = ask(merged, NULL), alone = ask(both, "first"), none = ask(both, NULL),
        more = ask(both, "second"), base = ask(bare, NULL);
  EXPECT(!memcmp(want.token, alone.token, sizeof want.token));
  double worst = 0;
  for (int i = 0; i + 1 < PROMPT; i++)
    worst = fmax(worst, fabs((double)(want.prompt[i] - alone.prompt[i])));
  for (int i = 0; i < TOKENS; i++)
    worst = fmax(worst, fabs((double)(want.logprob[i] - alone.logprob[i])));
  if (!(worst < 2e-4)) FAIL("log-probabilities differ by %g from merged weights", worst);
  EXPECT(same(&none, &base));
  EXPECT(!same(&alone, &none) && !same(&alone, &more));
  // In company.
  uint64_t id[] = {submit(both, "second"), submit(both, "first"), submit(both, NULL)};
  Given a[3] = {{.n = 0}};
  while (tenon_llm_busy(both)) step(both, id, a, 3);
  EXPECT(same(&a[0], &more));
  EXPECT(same(&a[1], &alone));
  EXPECT(same(&a[2], &none));
  tenon_llm_close(bare);
  tenon_llm_close(both);
  tenon_llm_close(merged);
  tiny_free(&plain);
  tiny_free(&other);
  tiny_free(&adapter);
  tiny_free(&second);
}

TEST(llm_adapter_as_merged) { merged_on("ref"); }

TEST(llm_adapter_as_merged_cpu) {
  if (codegen_there()) merged_on("cpu");
}

TEST(llm_adapters_loaded_and_dropped) {
  TinyLlm plain, one, two;
  tenon_error e;
  tiny_init(&plain);
  const char *path = make_adapter(&one, "one", 3), *path2 = make_adapter(&two, "two", 4);
  tenon_llm *l = open_model(tiny_chat(&plain, "plain"), 2, 8, "ref");
  load(l, "a", path);
  load(l, "b", path2);
  Given a = ask(l, "a"), b = ask(l, "b");
  EXPECT_STATUS(tenon_llm_load_adapter(l, "a", path, 0, &e), TENON_EINVAL);
  EXPECT_CONTAINS(e.message, "there is an adapter 'a' already");
  EXPECT_STATUS(tenon_llm_load_adapter(l, "c", path, 0, &e), TENON_ENOMEM);
  EXPECT_CONTAINS(e.message, "no more fit");
  // A request goes on with what it was sent for; its place is taken when it has ended.
  uint64_t id = submit(l, "a");
  Given running = {.n = 0};
  step(l, &id, &running, 1);
  EXPECT_STATUS(tenon_llm_drop_adapter(l, "a", &e), TENON_OK);
  EXPECT_STATUS(tenon_llm_drop_adapter(l, "a", &e), TENON_EINVAL);
  EXPECT_CONTAINS(e.message, "there is no adapter 'a'");
  EXPECT_STATUS(tenon_llm_load_adapter(l, "a", path2, 0, &e), TENON_ENOMEM);
  while (tenon_llm_busy(l)) step(l, &id, &running, 1);
  EXPECT(same(&running, &a));
  // Cached pages of the old one are not those of the new one of its name.
  load(l, "a", path2);
  Given again = ask(l, "a");
  EXPECT(same(&again, &b));
  // Loading one that is wrong changes nothing.
  EXPECT_STATUS(tenon_llm_drop_adapter(l, "b", &e), TENON_OK);
  EXPECT_STATUS(tenon_llm_load_adapter(l, "b", "nowhere", 0, &e), TENON_EIO);
  again = ask(l, "a");
  EXPECT(same(&again, &b));
  tenon_llm_bytes bytes;
  tenon_llm_memory(l, &bytes);
  // Two of rank 8: 4 per element of (in + out) of the products of two layers.
  EXPECT_INT_EQ(bytes.adapters, 2 * 8 * 4 * 2 * (64 + 48 + 48 + 64 + 80 + 80 + 80));
  tenon_llm_close(l);
  l = open_model(plain.t.n ? tiny_chat_folder(&plain, "plain") : "", 0, 0, "ref");
  EXPECT_STATUS(tenon_llm_load_adapter(l, "a", path, 0, &e), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(e.message, "without room for adapters");
  tenon_llm_close(l);
  tiny_free(&plain);
  tiny_free(&one);
  tiny_free(&two);
}

// ---- what is refused ----

typedef struct Wrong {
  const char *says;
  const char *config;  // NULL: a fine one
  const char *tensor;  // replaces "model.layers.0.self_attn.q_proj" in front of both factors
  int64_t out, in, rank;
  tenon_status status;
} Wrong;

#define Q          "model.layers.0.self_attn.q_proj"
#define WITH(text) "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":6," text "}"
static const Wrong wrong[] = {
    {"must be [4, 32]", NULL, Q, 32, 31, 4, TENON_EFORMAT},
    {"must be [32, 4]", NULL, Q, 33, 32, 4, TENON_EFORMAT},
    {"has rank 3, and the configuration says 4", NULL, Q, 32, 32, 3, TENON_EFORMAT},
    {"the adapter has rank 9, and the model was opened for ranks up to 8",
     "{\"r\":9,\"lora_alpha\":6}", Q, 32, 32, 9, TENON_EINVAL},
    {"changes 'lm_head', which is no product of a layer", NULL, "lm_head", 32, 32, 4,
     TENON_EUNSUPPORTED},
    {"changes 'model.layers.7.self_attn.q_proj'", NULL, "model.layers.7.self_attn.q_proj", 32, 32,
     4, TENON_EUNSUPPORTED},
    {"the key 'warp' is not known", WITH("\"warp\":1"), Q, 32, 32, 4, TENON_EUNSUPPORTED},
    {"'use_dora' is not supported", WITH("\"use_dora\":true"), Q, 32, 32, 4, TENON_EUNSUPPORTED},
    {"'modules_to_save' is not supported", WITH("\"modules_to_save\":[\"lm_head\"]"), Q, 32, 32, 4,
     TENON_EUNSUPPORTED},
    {"'bias' must be none", WITH("\"bias\":\"all\""), Q, 32, 32, 4, TENON_EUNSUPPORTED},
    {"'init_lora_weights' of pissa", WITH("\"init_lora_weights\":\"pissa\""), Q, 32, 32, 4,
     TENON_EUNSUPPORTED},
    {"only names of products", WITH("\"alpha_pattern\":{\"a.*b\":3}"), Q, 32, 32, 4,
     TENON_EUNSUPPORTED},
    {"'alpha_pattern' of 'q_proj' is not a positive number",
     WITH("\"alpha_pattern\":{\"q_proj\":0}"), Q, 32, 32, 4, TENON_EFORMAT},
    {"'peft_type' must be LORA", "{\"peft_type\":\"LOHA\",\"r\":4,\"lora_alpha\":6}", Q, 32, 32, 4,
     TENON_EUNSUPPORTED},
    {"'r' is not a number of 1", "{\"r\":0,\"lora_alpha\":6}", Q, 32, 32, 4, TENON_EFORMAT},
    {"'lora_alpha' is not a number", "{\"r\":4}", Q, 32, 32, 4, TENON_EFORMAT},
    {"adapter_config.json", "{", Q, 32, 32, 4, TENON_EFORMAT},
};

static void refused(tenon_llm *l, const char *path, tenon_status status, const char *says) {
  tenon_error e = {.message = ""};
  EXPECT_STATUS(tenon_llm_load_adapter(l, "x", path, 0, &e), status);
  EXPECT_CONTAINS(e.message, says);
}

TEST(llm_adapter_refused) {
  TinyLlm plain;
  tiny_init(&plain);
  tenon_llm *l = open_model(tiny_chat(&plain, "plain"), 1, 8, "ref");
  for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) {
    TinyLlm m;
    tiny_init(&m);
    add_factors(&m, wrong[i].tensor, wrong[i].out, wrong[i].in, wrong[i].rank);
    refused(l, tiny_adapter(&m, "wrong", wrong[i].config ? wrong[i].config : config),
            wrong[i].status, wrong[i].says);
    tiny_free(&m);
  }
  TinyLlm m;
  tiny_init(&m);
  refused(l, tiny_adapter(&m, "none", config), TENON_EFORMAT, "has no tensors");
  tiny_add(&m, "base_model.model." Q ".lora_A.weight", 0, 1, 4, 32);
  refused(l, tiny_adapter(&m, "half", config), TENON_EFORMAT, "has no other factor");
  TinyTensor *b = tiny_add(&m, "base_model.model." Q ".lora_B.weight", 0, 1, 32, 4);
  b->data[77] = INFINITY;
  refused(l, tiny_adapter(&m, "infinite", config), TENON_EFORMAT, "element 77 of the tensor");
  b->data[77] = 0;
  tiny_add(&m, "base_model.model." Q ".lora_magnitude_vector.weight", 0, 1, 32, 0);
  refused(l, tiny_adapter(&m, "dora", config), TENON_EUNSUPPORTED, "is not a factor of a product");
  refused(l, test_folder(), TENON_EIO, "adapter_config.json");
  refused(l, plain.t.n ? tiny_chat_folder(&plain, "plain") : "", TENON_EIO, "adapter_config.json");
  tenon_llm_close(l);
  tiny_free(&m);
  tiny_free(&plain);
}

// Every cut of the file of tensors.
TEST(llm_adapter_cut) {
  TinyLlm plain, one;
  tenon_error e;
  File f;
  Diag d;
  diag_init(&d);
  tiny_init(&plain);
  tenon_llm *l = open_model(tiny_chat(&plain, "plain"), 1, 8, "ref");
  const char *path = make_adapter(&one, "one", 3);
  const char *file = str_printf(&one.arena, "%s/adapter_model.safetensors", path);
  EXPECT_STATUS(file_open(file, &f, &d), TENON_OK);
  int64_t size = f.size;
  char *bytes = arena_dup(&one.arena, f.bytes, size);
  file_close(&f);
  for (int64_t n = 0; n < size; n += n < 2000 ? 61 : 997) {
    tiny_write(file, bytes, n);
    EXPECT_STATUS(tenon_llm_load_adapter(l, "x", path, 0, &e), TENON_EFORMAT);
  }
  tiny_write(file, bytes, size);
  EXPECT_STATUS(tenon_llm_load_adapter(l, "x", path, 0, &e), TENON_OK);
  tenon_llm_close(l);
  tiny_free(&one);
  tiny_free(&plain);
}
