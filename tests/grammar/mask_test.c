// mask_test.c -- masks against what accepting each token says, for forms of every kind.
#include "grammar/fixture.h"
#include "grammar/impl.h"

static const char *const words[] = {
    "{\"",         "\":",  "\", \"",     "\"}",   "}",   "]",      "[",
    "a",           "b",    "ab",         "abc",   "cab", "true",   "false",
    "null",        "12",   "123",        "0.5",   " ",   "  ",     "\n",
    "\n  ",        ": ",   ", ",         "\"a\"", "\\n", "\\u00",  "\xc3\xa9",

    "caf\xc3\xa9", "name", "\"name\": ", "yes",   "no",  "<call>", "</call>",
    "<ca",         "))",   "((",         "((a",   "+1",  "1+(",    "abcabcabcabcabcabcabcabc"};
enum { FIRST = 5, BYTES = 256, ALL = FIRST + BYTES + (int)(sizeof words / sizeof *words) };

void test_vocab_begin(TestVocab *o) {
  static Str token[ALL];
  static float score[ALL];
  static int32_t type[ALL];
  static char name[BYTES][8];
  TokenizerGguf g;
  arena_init(&o->arena);
  diag_init(&o->diag);
  tokenizer_gguf_init(&g);
  static const char *const control[] = {"<unk>", "<s>", "</s>", "<|call|>", "<|done|>"};
  for (int i = 0; i < FIRST; i++) {
    token[i] = str_of(control[i]);
    type[i] = i ? TOKEN_CONTROL : TOKEN_UNKNOWN;
  }
  for (int i = 0; i < BYTES; i++) {
    snprintf(name[i], sizeof name[i], "<0x%02X>", i);
    token[FIRST + i] = str_of(name[i]);
    type[FIRST + i] = TOKEN_BYTE;
  }
  for (int i = 0; i < ARRAY_LEN(words); i++) {
    token[FIRST + BYTES + i] = str_of(words[i]);
    type[FIRST + BYTES + i] = TOKEN_NORMAL;
    score[FIRST + BYTES + i] = (float)-i;
  }
  g.model = STR("llama");
  g.n = ALL;
  g.token = token;
  g.score = score;
  g.type = type;
  g.unk = 0;
  g.bos = 1;
  g.eos = 2;
  tenon_status s = tokenizer_load_gguf(&g, &o->arena, &o->diag, &o->t);
  if (s) FAIL("no tokenizer: %s", o->diag.text);
  EXPECT_STATUS(grammar_vocab_create(o->t, &o->diag, &o->v), TENON_OK);
}

void test_vocab_end(TestVocab *o) {
  grammar_vocab_free(o->v);
  arena_deinit(&o->arena);
}

uint64_t test_random(uint64_t *x) { return *x = hash_u64(*x + 0x9e3779b97f4a7c15u); }

static const GrammarTag tags[] = {{.begin = {"<call>", 6}, .end = {"</call>", 7}},
                                  {.begin = {"<|call|>", 8}, .end = {"<|done|>", 8}}};
static const Str choices[] = {{"yes", 3}, {"no", 2}, {"maybe \xc3\xa9", 8}};
#define TEXT(z) .text = {(z), (int64_t)sizeof(z) - 1}
static const GrammarSpec specs[] = {
    {.kind = GRAMMAR_CHOICES, .choice = choices, .nchoice = 3},
    {.kind = GRAMMAR_REGEX, TEXT("(ab|cab)*[^x]{2,3}")},
    {.kind = GRAMMAR_REGEX, TEXT("^[a-c]+$|\\d{2}\\.\\d")},
    {.kind = GRAMMAR_REGEX, TEXT(".*")},
    {.kind = GRAMMAR_GBNF, TEXT("root ::= e\ne ::= t (\"+\" t)*\nt ::= [0-9]+ | \"(\" e \")\"")},
    {.kind = GRAMMAR_GBNF, TEXT("root ::= \"a\" root \"b\" | \"c\"")},
    {.kind = GRAMMAR_GBNF, TEXT("root ::= x* \"!\"\nx ::= y y? y?\ny ::= [^!]")},
    {.kind = GRAMMAR_JSON},
    {.kind = GRAMMAR_JSON, .compact = true},
    {.kind = GRAMMAR_TOOLS, .tag = tags, .ntag = 2, .free_text = true},
    {.kind = GRAMMAR_TOOLS, .tag = tags, .ntag = 2, .least = 1, .most = 2, .between = {"\n", 1}},
};

// A state that has taken some tokens.
static GrammarState *replay(Grammar *g, const int32_t *token, int64_t n) {
  GrammarState *s;
  Diag d;
  diag_init(&d);
  if (grammar_state_create(g, &d, &s)) return NULL;
  for (int64_t i = 0; i < n; i++)
    if (!grammar_accept(s, token[i])) FAIL("token %d is refused again", token[i]);
  return s;
}

// The mask has exactly the tokens that can be taken and ended behind.
static void check_mask(TestVocab *o, Grammar *g, const int32_t *token, int64_t n, int64_t left,
                       const uint32_t *mask) {
  for (int32_t id = 0; id < ALL; id++) {
    GrammarState *s = replay(g, token, n);
    bool end = tokenizer_is_end(o->t, id);
    bool want = grammar_accept(s, id) && (end || grammar_state_least(s) <= left - 1);
    bool got = mask[id / 32] >> id % 32 & 1;
    if (want != got)
      FAIL("token %d ('%s') behind %lld tokens, %lld left: %d", id,
           tokenizer_piece(o->t, id).n ? tokenizer_piece(o->t, id).p : "", (long long)n,
           (long long)left, got);
    grammar_state_free(s);
  }
}

static void one_answer(TestVocab *o, Grammar *g, int64_t most, uint64_t *seed) {
  int32_t token[64];
  int64_t n = 0;
  uint32_t mask[(ALL + 31) / 32];
  GrammarState *s = replay(g, NULL, 0);
  for (int64_t left = most; left > 0; left--) {
    grammar_mask(s, left, mask);
    check_mask(o, g, token, n, left, mask);
    int32_t allowed[ALL], count = 0;
    for (int32_t id = 0; id < ALL; id++)
      if (mask[id / 32] >> id % 32 & 1) allowed[count++] = id;
    if (!count) {
      EXPECT(grammar_must_end(s));
      break;
    }
    token[n] = allowed[test_random(seed) % (uint64_t)count];
    EXPECT(grammar_accept(s, token[n]));
    if (tokenizer_is_end(o->t, token[n++])) break;
    EXPECT(grammar_state_least(s) <= left - 1);
  }
  EXPECT(grammar_can_end(s));
  EXPECT_INT_EQ(grammar_taken(s), n);
  grammar_state_free(s);
}

TEST(grammar_masks_are_what_is_accepted) {
  TestVocab o;
  test_vocab_begin(&o);
  uint64_t seed = 24;
  for (int64_t i = 0; i < ARRAY_LEN(specs); i++) {
    Grammar *g;
    if (!EXPECT_STATUS(grammar_compile(o.v, &specs[i], &o.diag, &g), TENON_OK)) {
      FAIL("form %lld: %s", (long long)i, o.diag.text);
      continue;
    }
    for (int64_t most = grammar_least(g); most < grammar_least(g) + 12; most += 3)
      one_answer(&o, g, most, &seed);
    grammar_free(g);
  }
  test_vocab_end(&o);
}

// What a state allows is found once, whatever number of tokens is left.
TEST(grammar_masks_walk_a_state_once) {
  TestVocab o;
  Grammar *g;
  uint32_t mask[(ALL + 31) / 32];
  test_vocab_begin(&o);
  GrammarSpec spec = {.kind = GRAMMAR_REGEX, TEXT("[^\"]{7,9}(ab|[^0-9x]{3,})")};
  REQUIRE(!grammar_compile(o.v, &spec, &o.diag, &g));
  GrammarState *s = replay(g, NULL, 0);
  grammar_mask(s, 1000, mask);
  int64_t looked = g->looked;
  EXPECT(looked > 0);
  for (int64_t left = 20; left >= 0; left--) grammar_mask(s, left, mask);
  EXPECT_INT_EQ(g->looked, looked);
  grammar_state_free(s);
  grammar_free(g);
  test_vocab_end(&o);
}

TEST(grammar_refuses_what_it_cannot_do) {
  static const struct {
    GrammarSpec spec;
    tenon_status status;
    const char *says;
  } cases[] = {
      {{.kind = GRAMMAR_GBNF, TEXT("root ::= root \"a\" | \"b\"")}, TENON_EUNSUPPORTED, "'root'"},
      {{.kind = GRAMMAR_GBNF, TEXT("root ::= n root \"a\" | \"b\"\nn ::= \"x\"*")},
       TENON_EUNSUPPORTED,
       "begins with itself"},
      {{.kind = GRAMMAR_GBNF, TEXT("root ::= \"a\" root")}, TENON_EINVAL, "no answer"},
      {{.kind = GRAMMAR_GBNF, TEXT("root ::= other")}, TENON_EFORMAT, "'other'"},
      {{.kind = GRAMMAR_GBNF, TEXT("rot ::= \"a\"")}, TENON_EFORMAT, "'root'"},
      {{.kind = GRAMMAR_GBNF, TEXT("root ::= \"a")}, TENON_EFORMAT, "without its end"},
      {{.kind = GRAMMAR_REGEX, TEXT("a(?=b)")}, TENON_EUNSUPPORTED, "lookahead"},
      {{.kind = GRAMMAR_REGEX, TEXT("(a)\\1")}, TENON_EUNSUPPORTED, "backreferences"},
      {{.kind = GRAMMAR_REGEX, TEXT("a\\b")}, TENON_EUNSUPPORTED, "\\b"},
      {{.kind = GRAMMAR_REGEX, TEXT("(a")}, TENON_EINVAL, "'('"},
      {{.kind = GRAMMAR_REGEX, TEXT("[b-a]")}, TENON_EINVAL, "wrong way"},
      {{.kind = GRAMMAR_REGEX, TEXT("((((a{99}){99}){99}){99})")}, TENON_EUNSUPPORTED, "too large"},
      {{.kind = GRAMMAR_REGEX, TEXT("(a|b)*a(a|b){20}")}, TENON_EUNSUPPORTED, "too large"},
      {{.kind = GRAMMAR_TOOLS}, TENON_EUNSUPPORTED, "tool calls"},
  };
  TestVocab o;
  test_vocab_begin(&o);
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    Grammar *g;
    Diag d;
    diag_init(&d);
    EXPECT_STATUS(grammar_compile(o.v, &cases[i].spec, &d, &g), cases[i].status);
    EXPECT_CONTAINS(d.text, cases[i].says);
    EXPECT(!g);
  }
  test_vocab_end(&o);
}
