// tokenizer_test.c -- small tokenizers of every model and format, made in the test.
#include "text/tokenizer.h"

#include "base/platform.h"
#include "test.h"

#define MARK "\xe2\x96\x81"

typedef struct Loaded {
  Arena arena;
  Diag diag;
  Tokenizer *t;
  tenon_status status;
} Loaded;

static void load(Loaded *l, Str bytes) {
  arena_init(&l->arena);
  diag_init(&l->diag);
  TokenizerOptions o = {.pre = "gpt2"};
  l->t = NULL;
  Trap trap;
  trap_enter(&trap, &l->diag);
  if (setjmp(trap.env) == 0)
    trap.status = tokenizer_load_bytes(bytes, "test", &o, &l->arena, &l->diag, &l->t);
  trap_leave(&trap);
  l->status = trap.status;
}

// Ids of a text, with spaces between them.
static const char *ids_of(Loaded *l, Str text, int flags) {
  TokenBuffer ids = {0};
  StrBuf out;
  strbuf_init(&out, &l->arena);
  EXPECT_STATUS(tokenizer_encode(l->t, text, flags, &ids, &l->diag), TENON_OK);
  for (int64_t i = 0; i < ids.n; i++) strbuf_printf(&out, "%s%d", i ? " " : "", ids.id[i]);
  token_buffer_deinit(&ids);
  return strbuf_text(&out);
}

static const char *text_of(Loaded *l, const int32_t *id, int64_t n, int flags) {
  StrBuf out;
  strbuf_init(&out, &l->arena);
  EXPECT_STATUS(tokenizer_decode(l->t, id, n, flags, &out, &l->diag), TENON_OK);
  return strbuf_text(&out);
}

#define ADDED                                                                                      \
  "\"added_tokens\":[{\"id\":20,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"       \
  "{\"id\":21,\"content\":\"xyz\",\"special\":false,\"lstrip\":true,\"single_word\":true}],"
#define POST                                                                                       \
  "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"     \
  "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[20]}}},"
static const char byte_level[] =
    "{" ADDED POST "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,"
    "\"c\":2,\"\\u0120\":3,\"ab\":4,\"abc\":5,\"\\u0120a\":6,\"x\":7,\"y\":8,\"z\":9,\"\\u00c3\":"
    "10,"
    "\"\\u00a9\":11,\"bc\":12},\"merges\":[\"a b\",\"b c\",\"ab c\",\"\\u0120 a\"]}}";

TEST(text_tokenizer_byte_level) {
  Loaded l;
  load(&l, STR(byte_level));
  REQUIRE(!l.status);
  EXPECT_STR_EQ(ids_of(&l, STR("abc abcb aa"), 0), "5 3 5 1 6 0");
  EXPECT_STR_EQ(ids_of(&l, STR("abc"), TOKENIZE_ADD_SPECIAL), "20 5");
  EXPECT_STR_EQ(ids_of(&l, STR("a<s>b"), TOKENIZE_PARSE_SPECIAL), "0 20 1");
  EXPECT_STR_EQ(ids_of(&l, STR("<s>"), 0), "");  // text without tokens: nothing, no special token
  EXPECT_STR_EQ(ids_of(&l, STR("a xyz b"), 0), "0 21 3 1");
  EXPECT_STR_EQ(ids_of(&l, STR("axyz"), 0), "0 7 8 9");  // no word of its own
  EXPECT_STR_EQ(ids_of(&l, STR("\xc3\xa9"), 0), "10 11");
  EXPECT_STR_EQ(ids_of(&l, STR(""), TOKENIZE_ADD_SPECIAL), "20");
  EXPECT_INT_EQ(tokenizer_size(l.t), 22);
  EXPECT_INT_EQ(tokenizer_id(l.t, TOKEN_BOS), 20);
  EXPECT(tokenizer_is_special(l.t, 20) && !tokenizer_is_special(l.t, 21));
  EXPECT(!tokenizer_is_special(l.t, -1) && !tokenizer_is_special(l.t, 22));
  EXPECT_INT_EQ(tokenizer_find(l.t, STR(" a")), 6);
  EXPECT_INT_EQ(tokenizer_find(l.t, STR("none")), -1);
  EXPECT_INT_EQ(tokenizer_piece(l.t, 6).n, 2);
  EXPECT_INT_EQ(tokenizer_piece(l.t, 99).n, 0);
  arena_deinit(&l.arena);
}

TEST(text_tokenizer_stream_keeps_characters_whole) {
  Loaded l;
  load(&l, STR(byte_level));
  REQUIRE(!l.status);
  static const int32_t id[] = {5, 10, 11, 10, 0, 11, 10};
  TokenStream s;
  StrBuf out;
  strbuf_init(&out, &l.arena);
  token_stream_init(&s, l.t, 0);
  static const char *const want[] = {"abc", "abc", "abc\xc3\xa9", "abc\xc3\xa9"};
  for (int i = 0; i < ARRAY_LEN(id); i++) {
    EXPECT_STATUS(token_stream_next(&s, id[i], &out, &l.diag), TENON_OK);
    EXPECT(str_is_utf8((Str){strbuf_text(&out), out.n}));
    if (i < 4) EXPECT_STR_EQ(strbuf_text(&out), want[i]);
  }
  token_stream_end(&s, &out);
  EXPECT_STR_EQ(strbuf_text(&out), text_of(&l, id, ARRAY_LEN(id), 0));
  EXPECT_STR_EQ(strbuf_text(&out), "abc\xc3\xa9\xef\xbf\xbd"
                                   "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_STR_EQ(text_of(&l, (int32_t[]){20, 0}, 2, DETOKENIZE_SKIP_SPECIAL), "a");
  EXPECT_STR_EQ(text_of(&l, (int32_t[]){10}, 1, DETOKENIZE_RAW), "\xc3");
  EXPECT_STATUS(token_stream_next(&s, 99, &out, &l.diag), TENON_EINVAL);
  arena_deinit(&l.arena);
}

// A piece of any length is as if it were encoded in one: windows change nothing.
TEST(text_tokenizer_long_pieces) {
  enum { N = 30000 };
  Loaded l;
  load(&l, STR(byte_level));
  REQUIRE(!l.status);
  char *text = arena_alloc(&l.arena, N + 1);
  uint32_t seed = 1;
  for (int i = 0; i < N; i++)
    text[i] = "abc"[(seed = seed * 1664525 + 1013904223) >> 24 & 1 ? 1 : i % 3];
  TokenBuffer ids = {0};
  REQUIRE(!tokenizer_encode(l.t, (Str){text, N}, 0, &ids, &l.diag));
  // "a b" comes before "b c": each "ab" is one, then "abc"; of what is left "bc".
  int64_t k = 0;
  for (int i = 0; i < N; k++) {
    const char *p = text + i;
    bool ab = p[0] == 'a' && p[1] == 'b', abc = ab && p[2] == 'c', bc = p[0] == 'b' && p[1] == 'c';
    int want = abc ? 5 : ab ? 4 : bc ? 12 : p[0] - 'a';
    if (k >= ids.n || ids.id[k] != want) {
      FAIL("token %lld at byte %d", (long long)k, i);
      break;
    }
    i += abc ? 3 : ab || bc ? 2 : 1;
  }
  EXPECT_INT_EQ(ids.n, k);
  token_buffer_deinit(&ids);
  arena_deinit(&l.arena);
}

TEST(text_tokenizer_llama_json) {
  Loaded l;
  load(
      &l,
      STR("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
          "\"prepend\":\"" MARK "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
          "\"content\":\"" MARK "\"}]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":"
          "\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" \"},{\"type\":"
          "\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,"
          "\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
          "\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"" MARK "\":1,\"a\":2,\"b\":3,\"" MARK
          "a\":4,\"ab\":5,\"<0xC3>\":6,\"<0xA9>\":7},\"merges\":[\"a b\",\"" MARK " a\"]}}"));
  REQUIRE(!l.status);
  EXPECT_STR_EQ(ids_of(&l, STR("a ab"), 0), "4 1 5");
  EXPECT_STR_EQ(ids_of(&l, STR("b\xc3\xa9zz"), 0), "1 3 6 7 0");
  EXPECT_STR_EQ(ids_of(&l, STR(""), 0), "");
  EXPECT_STR_EQ(text_of(&l, (int32_t[]){4, 1, 5, 6, 7}, 5, 0), "a ab\xc3\xa9");
  EXPECT_STR_EQ(text_of(&l, (int32_t[]){4}, 1, DETOKENIZE_CONTINUE), " a");
  arena_deinit(&l.arena);
}

TEST(text_tokenizer_wordpiece_and_unigram) {
  Loaded l;
  load(&l,
       STR("{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},\"pre_tokenizer\":"
           "{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\","
           "\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
           "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":8,\"vocab\":{"
           "\"[UNK]\":0,\"un\":1,\"##aff\":2,\"##able\":3,\".\":4,\"e\":5}}}"));
  REQUIRE(!l.status);
  EXPECT_STR_EQ(ids_of(&l, STR("Unaff \xc3\x89. unx unaffable"), 0), "1 2 5 4 0 0");
  EXPECT_STR_EQ(text_of(&l, (int32_t[]){1, 2, 5, 4}, 4, 0), "unaff e.");
  arena_deinit(&l.arena);
  load(&l, STR("{\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"decoder\":{\"type\":\"Metaspace\"},"
               "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"" MARK
               "\",-3],[\"a\",-2],[\"b\",-2],[\"ab\",-3.5],[\"" MARK "a\",-1]]}}"));
  REQUIRE(!l.status);
  EXPECT_STR_EQ(ids_of(&l, STR("ab  zz"), 0), "5 3 1 1 0");
  EXPECT_STR_EQ(text_of(&l, (int32_t[]){5, 3, 5}, 3, 0), "ab a");
  arena_deinit(&l.arena);
}

TEST(text_tokenizer_ranks) {
  Loaded l;
  load(&l, STR("YQ== 0\nYg== 1\nYWI= 2\nYmI= 3\n"));
  REQUIRE(!l.status);
  EXPECT_STR_EQ(ids_of(&l, STR("abb"), 0), "2 1");
  EXPECT_STR_EQ(ids_of(&l, STR("bbb"), 0), "3 1");
  arena_deinit(&l.arena);
}

TEST(text_tokenizer_gguf) {
  static const float score[] = {0, 0, 0, -1, -2, -3, -2.5f, 0};
  static const int32_t type[] = {2, 3, 6, 1, 1, 1, 1, 4};
  const Str token[] = {STR("<unk>"), STR("<s>"), STR("<0x21>"), STR(MARK),
                       STR("a"),     STR("b"),   STR(MARK "a"), STR("U")};
  Arena a;
  Diag d;
  Loaded l;
  arena_init(&l.arena);
  diag_init(&l.diag);
  arena_init(&a);
  diag_init(&d);
  TokenizerGguf g;
  tokenizer_gguf_init(&g);
  g.model = STR("llama");
  g.n = ARRAY_LEN(token);
  g.token = token;
  g.score = score;
  g.type = type;
  g.unk = 0;
  g.bos = 1;
  REQUIRE(!tokenizer_load_gguf(&g, &l.arena, &l.diag, &l.t));
  EXPECT_STR_EQ(ids_of(&l, STR("a b!Uz"), TOKENIZE_ADD_SPECIAL), "1 6 3 5 2 7 3 0");
  g.bos = 8;
  EXPECT_STATUS(tokenizer_load_gguf(&g, &a, &d, &l.t), TENON_EFORMAT);
  g.bos = 1;
  g.model = STR("rwkv");
  EXPECT_STATUS(tokenizer_load_gguf(&g, &a, &d, &l.t), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(d.text, "rwkv");
  g.model = STR("gpt2");
  g.pre = STR("lama-bpe");
  EXPECT_STATUS(tokenizer_load_gguf(&g, &a, &d, &l.t), TENON_EUNSUPPORTED);
  EXPECT_CONTAINS(d.text, "did you mean 'llama-bpe'");
  arena_deinit(&a);
  arena_deinit(&l.arena);
}

#define MODEL(vocab, merges)                                                                       \
  "{\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}}"
TEST(text_tokenizer_refuses_by_name) {
  static const char *const cases[][2] = {
      {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},\"model\":{}}", "UnicodeScripts"},
      {"{\"decoder\":{\"type\":\"CTC\"}}", "CTC"},
      {"{\"normalizer\":{\"type\":\"Magic\"}}", "Magic"},
      {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}",
       "dropout"},
      {MODEL("\"a\":0", "\"a b\""), "merge 0"},
      {MODEL("\"a\":0", "\"ab\""), "no pair"},
      {MODEL("\"a\":-1", ""), "ids are from 0"},
      {MODEL("\"a\":5000000000", ""), "ids are from 0"},
      {MODEL("\"a\":9000000", ""), "far beyond"},
      {MODEL("\"a\":0,\"b\":0", ""), "given twice"},
      {MODEL("\"a\":1.5", ""), "no integer"},
      {"{}", "no model"},
      {"", "no tokenizer"},
      {"\n\x05\n", "cut off"},
      {"YQ== 0\n!!! 1\n", "line 2"},
      {"YQ== 0\nYQ== 0\n", "twice"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    Loaded l;
    load(&l, str_of(cases[i][0]));
    EXPECT(l.status == TENON_EFORMAT || l.status == TENON_EUNSUPPORTED);
    EXPECT_CONTAINS(l.diag.text, cases[i][1]);
    arena_deinit(&l.arena);
  }
}

// Every allocation of reading and encoding refused in turn: a clean error, nothing lost.
static Platform failing;
static int64_t allowed, live;
static void *alloc_some(int64_t n) {
  if (allowed-- <= 0) return NULL;
  void *p = platform_posix.alloc(n);
  live += p != NULL;
  return p;
}
static void free_one(void *p, int64_t n) {
  live -= p != NULL;
  platform_posix.free(p, n);
}

TEST(text_tokenizer_without_memory) {
  const Platform *before = platform;
  failing = *before;
  failing.alloc = alloc_some;
  failing.free = free_one;
  failing.chunk_bytes = 0;
  platform = &failing;
  bool done = false;
  for (int64_t k = 0; k < 5000 && !done; k++) {
    Loaded l;
    TokenBuffer ids = {0};
    allowed = k;
    live = 0;
    load(&l, STR(byte_level));
    if (!l.status) {
      tenon_status s = tokenizer_encode(l.t, STR("abc\xff xyz <s> bcbc"), 3, &ids, &l.diag);
      EXPECT(!s || s == TENON_ENOMEM);
      done = !s;
    } else {
      EXPECT_INT_EQ(l.status, TENON_ENOMEM);
    }
    token_buffer_deinit(&ids);
    arena_deinit(&l.arena);
    EXPECT_INT_EQ(live, 0);
  }
  platform = before;
  EXPECT(done);
}
