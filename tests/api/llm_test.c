// llm_test.c -- the public interface of language models, on a tiny model: events, text, stops,
// cancellation, limits, memory.  tests/python/llm_test.py compares its numbers with the plain
// graph.
#include "api/llm.h"
#include "codegen.h"
#include "test.h"
#include "tiny_chat.h"

#include "base/platform.h"

#include <pthread.h>

typedef struct Fixture {
  TinyLlm tiny;
  const char *path;
  tenon_llm *llm;
  tenon_error error;
} Fixture;

static const tenon_llm_options small = {.struct_size = sizeof small,
                                        .target = "ref",
                                        .threads = 1,
                                        .batch = 32,
                                        .sequences = 3,
                                        .requests = 4,
                                        .pages = 12,
                                        .no_cache = 1};

static bool begin(Fixture *f, const tenon_llm_options *o) {
  tiny_init(&f->tiny);
  f->path = tiny_chat(&f->tiny, "chat");
  tenon_status s = tenon_llm_open(f->path, o, &f->llm, &f->error);
  if (s) FAIL("%s", f->error.message);
  return !s;
}
static void end(Fixture *f) {
  tenon_llm_close(f->llm);
  tiny_free(&f->tiny);
}

typedef struct Reply {
  char text[1024];
  int32_t token[TINY_CONTEXT];
  size_t size;
  int n, steps;
  tenon_llm_finish finish;
} Reply;

static void take(Reply *r, const tenon_llm_event *e) {
  REQUIRE(r->size + e->text_size < sizeof r->text);
  memcpy(r->text + r->size, e->text, e->text_size);
  r->size += e->text_size;
  r->text[r->size] = 0;
  if (e->kind == TENON_LLM_TOKEN) r->token[r->n++] = e->token;
  if (e->finish) r->finish = e->finish;
}

// Steps until nothing runs; the events of request `id`.
static Reply finish(Fixture *f, uint64_t id) {
  Reply r = {.n = 0};
  const tenon_llm_event *e;
  size_t n;
  for (; tenon_llm_busy(f->llm) && r.steps < 1000; r.steps++) {
    EXPECT_STATUS(tenon_llm_step(f->llm, &e, &n, &f->error), TENON_OK);
    for (size_t i = 0; i < n; i++)
      if (e[i].id == id) take(&r, &e[i]);
  }
  return r;
}

static Reply ask(Fixture *f, tenon_llm_request r) {
  uint64_t id;
  r.struct_size = sizeof r;
  if (tenon_llm_submit(f->llm, &r, &id, &f->error)) FAIL("%s", f->error.message);
  return finish(f, id);
}

TEST(llm_answers) {
  Fixture f;
  if (begin(&f, &small)) {
    Reply a = ask(&f, (tenon_llm_request){.text = "Hello", .max_tokens = 40, .ignore_end = 1});
    EXPECT_INT_EQ(a.n, 40);
    EXPECT_INT_EQ(a.finish, TENON_LLM_LENGTH);
    EXPECT(str_is_utf8(str_of(a.text)));
    int32_t tokens[] = {'H', 'e', 'l', 'l', 'o'};
    Reply b = ask(
        &f, (tenon_llm_request){.tokens = tokens, .ntokens = 5, .max_tokens = 40, .ignore_end = 1});
    EXPECT(!memcmp(a.token, b.token, 40 * sizeof *a.token));
    EXPECT_STR_EQ(b.text, a.text);
    tenon_llm_counts c;
    tenon_llm_stats(f.llm, &c);
    EXPECT_INT_EQ(c.tokens, 80);
    EXPECT_INT_EQ(c.running + c.waiting, 0);
    EXPECT_INT_EQ(c.pages_free + c.pages_cached, c.pages);
  }
  end(&f);
}

// A stop text ends the answer in front of it, wherever tokens cut it, and one that only begins
// holds nothing back for good.
TEST(llm_stop_texts) {
  Fixture f;
  if (begin(&f, &small)) {
    tenon_llm_request r = {.text = "Hello", .max_tokens = 60, .ignore_end = 1};
    Reply whole = ask(&f, r);
    for (size_t at = 0; at + 4 < whole.size; at += 3) {
      char stop[8] = {0};
      memcpy(stop, whole.text + at, 4);
      const char *list[] = {"never there", stop};
      r.stop = list;
      r.nstop = 2;
      if (!str_is_utf8(str_of(stop))) continue;
      Reply cut = ask(&f, r);
      EXPECT_INT_EQ(cut.finish, TENON_LLM_STOP);
      EXPECT_INT_EQ(cut.size, strstr(whole.text, stop) - whole.text);
      EXPECT(!memcmp(cut.text, whole.text, cut.size));
    }
  }
  end(&f);
}

TEST(llm_cancels) {
  Fixture f;
  if (begin(&f, &small)) {
    uint64_t id;
    tenon_llm_request r = {
        .struct_size = sizeof r, .text = "Hello", .max_tokens = 200, .ignore_end = 1};
    EXPECT_STATUS(tenon_llm_submit(f.llm, &r, &id, &f.error), TENON_OK);
    const tenon_llm_event *e;
    size_t n;
    for (int i = 0; i < 5; i++) EXPECT_STATUS(tenon_llm_step(f.llm, &e, &n, &f.error), TENON_OK);
    EXPECT_STATUS(tenon_llm_cancel(f.llm, id, &f.error), TENON_OK);
    EXPECT_STATUS(tenon_llm_cancel(f.llm, id, &f.error), TENON_EINVAL);
    Reply rest = finish(&f, id);
    EXPECT_INT_EQ(rest.finish, TENON_LLM_CANCELLED);
    EXPECT_INT_EQ(rest.n, 0);
  }
  end(&f);
}

TEST(llm_chat_and_tokens) {
  Fixture f;
  if (begin(&f, &small)) {
    char text[256] = {0};
    size_t size, n;
    int32_t token[64];
    const char *messages = "[{\"role\":\"user\",\"content\":\"Hi\"}]";
    EXPECT_STATUS(tenon_llm_chat(f.llm, messages, NULL, NULL, text, 255, &size, &f.error),
                  TENON_OK);
    EXPECT_STR_EQ(text, "<|turn|>user Hi<|turn|>");
    EXPECT_STATUS(tenon_llm_tokenize(f.llm, text, size, 1, 1, token, 64, &n, &f.error), TENON_OK);
    EXPECT_INT_EQ(n, 9);
    EXPECT_INT_EQ(token[0], TINY_TURN);
    EXPECT_STATUS(tenon_llm_tokenize(f.llm, text, size, 0, 1, token, 4, &n, &f.error), TENON_OK);
    EXPECT_INT_EQ(n, size);
    EXPECT_STATUS(tenon_llm_detokenize(f.llm, token, 4, 0, text, 255, &size, &f.error), TENON_OK);
    EXPECT_INT_EQ(size, 4);
    EXPECT(!memcmp(text, "<|tu", 4));
    EXPECT_STATUS(tenon_llm_chat(f.llm, "{", NULL, NULL, text, 255, &size, &f.error),
                  TENON_EFORMAT);
    EXPECT_STATUS(tenon_llm_chat(f.llm, "{}", NULL, NULL, text, 255, &size, &f.error),
                  TENON_EINVAL);
    EXPECT_STATUS(
        tenon_llm_detokenize(f.llm, &(int32_t){TINY_VOCAB}, 1, 0, text, 255, &size, &f.error),
        TENON_EINVAL);
  }
  end(&f);
}

// Digits alone, and an end where three tokens are left.
static tenon_llm_allowed digits(const tenon_llm_place *at, uint32_t *allowed, void *user) {
  const int32_t *end = user;
  for (int32_t i = '0'; i <= '9' && at->left > 3; i++) allowed[i / 32] |= 1u << (i % 32);
  if (at->left <= 3) allowed[*end / 32] |= 1u << (*end % 32);
  return at->ntokens == at->nprompt + 20 ? TENON_LLM_ALLOW_FAILED : TENON_LLM_ALLOW_SET;
}

TEST(llm_masks) {
  Fixture f;
  if (begin(&f, &small)) {
    int32_t end_token;
    tenon_llm_token t;
    EXPECT_INT_EQ(tenon_llm_ends(f.llm, &end_token, 1), 1);
    EXPECT_STATUS(tenon_llm_piece(f.llm, end_token, &t, &f.error), TENON_OK);
    EXPECT(t.end && t.special && t.size > 0);
    EXPECT_STATUS(tenon_llm_piece(f.llm, 'a', &t, &f.error), TENON_OK);
    EXPECT(!t.end && !t.special && t.size == 1 && *t.bytes == 'a');
    EXPECT_STATUS(tenon_llm_piece(f.llm, TINY_VOCAB, &t, &f.error), TENON_EINVAL);
    tenon_llm_request r = {
        .text = "Hello", .max_tokens = 13, .mask = digits, .mask_user = &end_token};
    Reply a = ask(&f, r);
    EXPECT_INT_EQ(a.n, 11);
    EXPECT_INT_EQ(a.finish, TENON_LLM_STOP);
    EXPECT_INT_EQ(strspn(a.text, "0123456789"), 10);
    EXPECT_INT_EQ(a.size, 10);
    r.max_tokens = 100;
    a = ask(&f, r);
    EXPECT_INT_EQ(a.finish, TENON_LLM_NO_TOKEN);
    EXPECT_INT_EQ(a.n, 20);
  }
  end(&f);
}

// Forms of answers: each is whole, and what cannot be is refused first.
TEST(llm_forms) {
  static const char *const choices[] = {"yes", "no"};
  Fixture f;
  if (begin(&f, &small)) {
    Reply a = ask(&f, (tenon_llm_request){.text = "Hello", .max_tokens = 8, .regex = "[0-9]{3}x"});
    EXPECT(strspn(a.text, "0123456789") == 3 && !strcmp(a.text + 3, "x"));
    EXPECT_INT_EQ(a.finish, TENON_LLM_STOP);
    a = ask(&f, (tenon_llm_request){
                    .text = "Hello", .max_tokens = 8, .choices = choices, .nchoices = 2});
    EXPECT(!strcmp(a.text, "yes") || !strcmp(a.text, "no"));
    a = ask(&f, (tenon_llm_request){.text = "Hello",
                                    .max_tokens = 9,
                                    .grammar = "root ::= \"a\" root \"b\" | \"c\""});
    EXPECT(strchr(a.text, 'c') && strspn(a.text, "a") * 2 + 1 == a.size);
    a = ask(&f, (tenon_llm_request){.text = "Hello",
                                    .max_tokens = 12,
                                    .json_schema = "{\"type\":\"object\",\"required\":[\"k\"],"
                                                   "\"additionalProperties\":false,\"properties\":"
                                                   "{\"k\":{\"type\":\"boolean\"}}}"});
    EXPECT(a.text[0] == '{' && a.text[a.size - 1] == '}' && strstr(a.text, "\"k\""));
    static const struct {
      tenon_llm_request r;
      tenon_status status;
      const char *says;
    } wrong[] = {
        {{.text = "x", .regex = "(?=a)"}, TENON_EUNSUPPORTED, "lookahead"},
        {{.text = "x", .regex = "a{9}", .max_tokens = 3}, TENON_EINVAL, "9 tokens"},
        {{.text = "x", .regex = "a", .grammar = "root ::= \"a\""}, TENON_EINVAL, "exclude"},
        {{.text = "x", .regex = "a", .mask = digits}, TENON_EINVAL, "exclude"},
        {{.text = "x", .nchoices = 1}, TENON_EINVAL, "choice 0"},
        {{.text = "x", .nshown = 1}, TENON_EINVAL, "shown"},
        {{.text = "x", .task = TENON_LLM_EMBED, .regex = "a"}, TENON_EINVAL, "nothing"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
      tenon_llm_request r = wrong[i].r;
      uint64_t id;
      r.struct_size = sizeof r;
      EXPECT_STATUS(tenon_llm_submit(f.llm, &r, &id, &f.error), wrong[i].status);
      EXPECT_CONTAINS(f.error.message, wrong[i].says);
    }
  }
  end(&f);
}

// A control token has no text in an answer, but where it is asked for.
TEST(llm_shows_control_tokens) {
  Fixture f;
  if (begin(&f, &small)) {
    int32_t end_token;
    tenon_llm_token t;
    EXPECT_INT_EQ(tenon_llm_ends(f.llm, &end_token, 1), 1);
    EXPECT_STATUS(tenon_llm_piece(f.llm, end_token, &t, &f.error), TENON_OK);
    tenon_llm_bias always = {end_token, 100};
    tenon_llm_request r = {
        .text = "Hello", .max_tokens = 2, .bias = &always, .nbias = 1, .ignore_end = 1};
    EXPECT_INT_EQ(ask(&f, r).size, 0);
    r.shown = &end_token;
    r.nshown = 1;
    Reply a = ask(&f, r);
    EXPECT_INT_EQ(a.size, 2 * t.size);
    EXPECT(a.size >= t.size && !memcmp(a.text, t.bytes, t.size));
    EXPECT(strstr(tenon_llm_template(f.llm), "{%") || strstr(tenon_llm_template(f.llm), "{{"));
  }
  end(&f);
}

TEST(llm_refuses_wrong_requests) {
  Fixture f;
  if (begin(&f, &small)) {
    static const tenon_llm_bias bias = {TINY_VOCAB, 1};
    static const char *const long_list[17] = {"a", "a", "a", "a", "a", "a", "a", "a", "a",
                                              "a", "a", "a", "a", "a", "a", "a", "a"};
    static const char *const empty[1] = {""};
    static const int32_t bad[2] = {1, TINY_VOCAB};
    const tenon_llm_request wrong[] = {
        {.max_tokens = 3},
        {.text = "a", .tokens = bad, .ntokens = 1},
        {.text = ""},
        {.tokens = bad},
        {.tokens = bad, .ntokens = 2, .max_tokens = 3},
        {.text = "a", .max_tokens = -2},
        {.text = "a", .max_tokens = -1},
        {.text = "a", .max_tokens = TINY_CONTEXT},
        {.text = "a", .temperature = -1},
        {.text = "a", .top_p = 2},
        {.text = "a", .bias = &bias, .nbias = 1},
        {.text = "a", .nbias = 1},
        {.text = "a", .bias = &bias, .nbias = 301},
        {.text = "a", .stop = long_list, .nstop = 17},
        {.text = "a", .stop = empty, .nstop = 1},
        {.text = "a", .logprobs = 1, .top_logprobs = 21},
    };
    for (int64_t i = 0; i < ARRAY_LEN(wrong); i++) {
      uint64_t id;
      tenon_llm_request r = wrong[i];
      r.struct_size = sizeof r;
      tenon_status s = tenon_llm_submit(f.llm, &r, &id, &f.error);
      if (s != TENON_EINVAL || !*f.error.message || id) FAIL("request %d: %d", (int)i, (int)s);
    }
    uint64_t id;
    tenon_llm_request r = {.struct_size = 8, .text = "a"};
    EXPECT_STATUS(tenon_llm_submit(f.llm, &r, &id, &f.error), TENON_EINVAL);
    r = (tenon_llm_request){.struct_size = sizeof r, .text = "a", .max_tokens = 2};
    for (int i = 0; i < small.requests; i++)
      EXPECT_STATUS(tenon_llm_submit(f.llm, &r, &id, &f.error), TENON_OK);
    EXPECT_STATUS(tenon_llm_submit(f.llm, &r, &id, &f.error), TENON_ENOMEM);
    finish(&f, id);
    EXPECT(!tenon_llm_busy(f.llm));
  }
  end(&f);
}

// ---- memory ----

static _Atomic int64_t allocations, fail_at;
static void *counting_alloc(int64_t bytes) {
  allocations++;
  if (fail_at && --fail_at == 0) return NULL;
  return platform_posix.alloc(bytes);
}

// Full code is made, and the cache written, by threads in the background.
static pthread_t serving;
static void *counting_alloc_here(int64_t bytes) {
  allocations += pthread_equal(pthread_self(), serving) != 0;
  return platform_posix.alloc(bytes);
}

TEST(llm_serves_without_allocating) {
  Fixture f;
  Platform counting = platform_posix;
  tenon_llm_options o = small;
  counting.alloc = counting_alloc_here;
  serving = pthread_self();
  o.target = "cpu";  // the interpreter of `ref` allocates
  if (!codegen_there()) SKIP("there is no code generator");
#ifdef UNDER_ASAN
  SKIP("under AddressSanitizer a run keeps no values, and allocates them anew");
#endif
  if (begin(&f, &o)) {
    static const int32_t token[40] = {1, 5, 70, 200, 3};  // encoding a text takes memory
    tenon_llm_request r = {.tokens = token, .ntokens = 40, .max_tokens = 100, .ignore_end = 1};
    ask(&f, r);  // what is made at first use
    platform = &counting;
    allocations = 0;
    ask(&f, r);
    r.ntokens = 7;
    ask(&f, r);
    platform = &platform_posix;
    EXPECT_INT_EQ(allocations, 0);
  }
  end(&f);
}

// Whatever allocation fails, opening fails cleanly, and opening again works.
TEST_LONG(llm_open_without_memory) {
  Fixture f = {0};
  Platform failing = platform_posix;
  failing.alloc = counting_alloc;
  tiny_init(&f.tiny);
  f.path = tiny_chat(&f.tiny, "chat");
  platform = &failing;
  allocations = 0;
  EXPECT_STATUS(tenon_llm_open(f.path, &small, &f.llm, &f.error), TENON_OK);
  tenon_llm_close(f.llm);
  int64_t total = allocations;
  for (int64_t k = 1; k <= total; k += 1 + total / 150) {
    fail_at = k;
    tenon_status s = tenon_llm_open(f.path, &small, &f.llm, &f.error);
    fail_at = 0;
    if (s != TENON_ENOMEM && s != TENON_OK)
      FAIL("allocation %lld: %s", (long long)k, f.error.message);
    tenon_llm_close(f.llm);
  }
  platform = &platform_posix;
  tiny_free(&f.tiny);
}

TEST(llm_memory_is_a_sum) {
  Fixture f;
  if (begin(&f, &small)) {
    tenon_llm_bytes b;
    tenon_llm_info i;
    tenon_llm_memory(f.llm, &b);
    EXPECT_INT_EQ(b.total,
                  b.constants + b.arena + b.cache + b.logits + b.tables + b.requests + b.code);
    EXPECT_INT_EQ(b.cache,
                  12 * 32 * 2 * 2 * 2 * 8 * 4);  // pages, slots, layers, k v, heads, size, f32
    tenon_llm_describe(f.llm, &i);
    EXPECT_STR_EQ(i.architecture, "llama");
    EXPECT_INT_EQ(i.vocabulary, TINY_VOCAB);
    EXPECT_INT_EQ(i.context, TINY_CONTEXT);
    EXPECT_INT_EQ(i.has_chat, 1);
  }
  end(&f);
}

TEST(llm_refuses_wrong_options) {
  Fixture f = {0};
  tiny_init(&f.tiny);
  f.path = tiny_chat(&f.tiny, "chat");
  const struct {
    tenon_llm_options o;
    tenon_status want;
    const char *says;
  } bad[] = {
      {{.struct_size = 8}, TENON_EINVAL, "struct_size"},
      {{.context = TINY_CONTEXT + 1}, TENON_EINVAL, "the model was made for 256"},
      {{.threads = -1}, TENON_EINVAL, "negative"},
      {{.context = INT32_MAX}, TENON_EINVAL, "context of 2147483647; at most 16777216"},
      {{.sequences = INT32_MAX}, TENON_EINVAL, "sequences of 2147483647; at most 4096"},
      {{.requests = INT32_MAX}, TENON_EINVAL, "requests of 2147483647; at most 65536"},
      {{.batch = INT32_MAX}, TENON_EINVAL, "batch of 2147483647; at most 1048576"},
      {{.pages = INT32_MAX}, TENON_EINVAL, "pages of 2147483647; at most 67108862"},
      {{.kv_dtype = TENON_DTYPE_I16}, TENON_EINVAL, "f32, f16, bf16 or i8"},
      {{.target = "nothing"}, TENON_EUNSUPPORTED, "no target 'nothing'"},
      {{.draft = 17}, TENON_EINVAL, "17 draft tokens"},
      {{.memory_limit = 1000}, TENON_ENOMEM, "1000 are allowed"},
      {{.step_seconds = -1}, TENON_EINVAL, "step_seconds"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++) {
    tenon_llm_options o = bad[i].o;
    if (!o.struct_size) o.struct_size = sizeof o;
    if (!o.target) o.target = "ref";
    EXPECT_STATUS(tenon_llm_open(f.path, &o, &f.llm, &f.error), bad[i].want);
    EXPECT_CONTAINS(f.error.message, bad[i].says);
    EXPECT(f.llm == NULL);
  }
  tiny_free(&f.tiny);
}
