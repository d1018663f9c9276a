// state_test.c -- states of answers: memory that is refused, a cache that is forgotten, the hook.
#include "base/platform.h"
#include "grammar/fixture.h"

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^x+$\"}}}";
static const GrammarSpec object = {.kind = GRAMMAR_SCHEMA, .text = {schema, sizeof schema - 1}};

static int64_t allocations_left;
static void *failing_alloc(int64_t bytes) {
  return allocations_left-- > 0 ? platform_posix.alloc(bytes) : NULL;
}

// Compiles, masks and takes bytes with the memory that there is; true: all of it was done.
static bool all_steps(const GrammarVocab *v) {
  Grammar *g;
  GrammarState *s;
  uint32_t mask[64];
  Diag d;
  diag_init(&d);
  tenon_status status = grammar_compile(v, &object, &d, &g);
  EXPECT(status == TENON_OK || status == TENON_ENOMEM);
  if (status) return false;
  status = grammar_state_create(g, &d, &s);
  if (status) return grammar_free(g), false;
  bool done = grammar_accept_bytes(s, STR("{\"a\":\"x"));
  if (done) grammar_mask(s, 9, mask);
  EXPECT(done || grammar_wrong(s));
  done = done && !grammar_wrong(s);
  if (done) EXPECT(grammar_accept_bytes(s, STR("x\"}")) || grammar_wrong(s));
  done = done && !grammar_wrong(s) && grammar_can_end(s);
  grammar_state_free(s);
  grammar_free(g);
  return done;
}

TEST(grammar_without_memory) {
  TestVocab o;
  test_vocab_begin(&o);
  Platform p = platform_posix;
  p.alloc = failing_alloc;
  p.chunk_bytes = 0;  // each object apart
  bool done = false;
  for (int64_t k = 0; k < 1000000 && !done; k += k < 300 ? 1 : k / 11) {
    allocations_left = k;
    platform = &p;
    done = all_steps(o.v);
    platform = &platform_posix;
  }
  EXPECT(done);
  for (int64_t k = 0; k < 40; k++) {
    GrammarVocab *v;
    Diag d;
    diag_init(&d);
    allocations_left = k;
    platform = &p;
    tenon_status s = grammar_vocab_create(o.t, &d, &v);
    platform = &platform_posix;
    if (s) EXPECT_STATUS(s, TENON_ENOMEM);
    grammar_vocab_free(v);
  }
  test_vocab_end(&o);
}

TEST(grammar_hook_takes_what_is_new) {
  TestVocab o;
  test_vocab_begin(&o);
  const Str choice[] = {{"yes", 3}, {"no", 2}};
  GrammarSpec spec = {.kind = GRAMMAR_CHOICES, .choice = choice, .nchoice = 2};
  Grammar *g;
  GrammarState *s;
  uint32_t mask[64];
  REQUIRE(!grammar_compile(o.v, &spec, &o.diag, &g));
  REQUIRE(!grammar_state_create(g, &o.diag, &s));
  int32_t no = tokenizer_find(o.t, STR("no")), tokens[] = {1, 7, no, 2};
  tenon_llm_place at = {.tokens = tokens, .ntokens = 2, .nprompt = 2, .left = 5};
  EXPECT_INT_EQ(grammar_hook(&at, mask, s), TENON_LLM_ALLOW_SET);
  EXPECT(mask[no / 32] >> no % 32 & 1);
  at.ntokens = 3;
  EXPECT_INT_EQ(grammar_hook(&at, mask, s), TENON_LLM_ALLOW_SET);
  EXPECT(grammar_must_end(s));
  EXPECT_INT_EQ(mask[0], 1u << 2);  // the end alone
  at.ntokens = 4;
  EXPECT_INT_EQ(grammar_hook(&at, mask, s), TENON_LLM_ALLOW_SET);
  tokens[3] = no;
  EXPECT(!grammar_accept(s, no));
  grammar_state_free(s);
  grammar_free(g);
  test_vocab_end(&o);
}
