// llm_memory_test.c -- language models without memory: every allocation of opening, loading an
// adapter, submitting and stepping fails in turn.  Each failure is an error with a message, or
// harmless, and nothing is leaked.  OOM_EVERY sets how many are left out (29).
#include "api/llm.h"
#include "test.h"
#include "tiny_chat.h"

#include "base/platform.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_int_least64_t calls, blocks;
static int64_t fail_at;

static void *failing_alloc(int64_t bytes) {
  if (atomic_fetch_add(&calls, 1) == fail_at) return NULL;
  void *p = platform_posix.alloc(bytes);
  if (p) atomic_fetch_add(&blocks, 1);
  return p;
}

static void counting_free(void *p, int64_t bytes) {
  if (p) atomic_fetch_sub(&blocks, 1);
  platform_posix.free(p, bytes);
}

typedef struct Paths {
  const char *model, *adapter;
  bool draft;
} Paths;

static const char *make_adapter(TinyLlm *m) {
  tiny_init(m);
  tiny_add(m, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 0, 1, 2, 32);
  tiny_add(m, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 0, 1, 32, 2);
  return tiny_adapter(m, "adapter", "{\"r\":2,\"lora_alpha\":2}");
}

// What serving does, up to the first error.
static tenon_status serve(const Paths *p, tenon_error *e) {
  tenon_llm_options o = {.struct_size = sizeof o,
                         .target = "ref",
                         .threads = 1,
                         .batch = 16,
                         .sequences = 2,
                         .pages = 6,
                         .context = 96,
                         .adapters = p->adapter ? 1 : 0,
                         .adapter_rank = 2,
                         .draft_model = p->draft ? p->model : NULL,
                         .no_cache = 1};
  tenon_llm *l = NULL;
  tenon_status s = tenon_llm_open(p->model, &o, &l, e);
  if (!s && p->adapter) s = tenon_llm_load_adapter(l, "a", p->adapter, 1, e);
  for (int i = 0; i < 2 && !s; i++) {
    uint64_t id;
    tenon_llm_request r = {.struct_size = sizeof r,
                           .text = "Hello, world",
                           .max_tokens = 6,
                           .ignore_end = 1,
                           .adapter = i && p->adapter ? "a" : NULL};
    s = tenon_llm_submit(l, &r, &id, e);
  }
  while (!s && tenon_llm_busy(l)) {
    const tenon_llm_event *ev;
    size_t n;
    s = tenon_llm_step(l, &ev, &n, e);
  }
  tenon_llm_close(l);
  return s;
}

static void all_failures(const Paths *p) {
  const char *text = getenv("OOM_EVERY");
  int64_t every = text ? atoll(text) : 29, total;
  Platform table = platform_posix;
  table.alloc = failing_alloc;
  table.free = counting_free;
  tenon_error e = {.message = ""};
  platform = &table;
  fail_at = -1;
  atomic_store(&calls, 0);
  tenon_status s = serve(p, &e);
  total = atomic_load(&calls);
  platform = &platform_posix;
  if (s) FAIL("%s", e.message);
  for (int64_t k = 0; k < total && !s; k += k < 40 ? 1 : every) {
    e.message[0] = 0;
    platform = &table;
    fail_at = k;
    atomic_store(&calls, 0);
    atomic_store(&blocks, 0);
    tenon_status now = serve(p, &e);
    int64_t left = atomic_load(&blocks);
    platform = &platform_posix;
    if (left)
      FAIL("allocation %lld of %lld: %lld blocks are left", (long long)k, (long long)total,
           (long long)left);
    if (now && (now != TENON_ENOMEM || !e.message[0]))
      FAIL("allocation %lld of %lld: status %d, '%s'", (long long)k, (long long)total, (int)now,
           e.message);
    if (left || (now && now != TENON_ENOMEM)) return;
  }
}

TEST(llm_without_memory) {
  TinyLlm model, adapter;
  tiny_init(&model);
  Paths p = {.model = tiny_chat(&model, "model")};
  p.adapter = make_adapter(&adapter);
  all_failures(&p);
  p.adapter = NULL;
  p.draft = true;
  all_failures(&p);
  tiny_free(&adapter);
  tiny_free(&model);
}
