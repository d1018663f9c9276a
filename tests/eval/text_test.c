// text_test.c -- regular expressions, tokens and case mapping.
#include "eval/text.h"
#include "test.h"

// 1 matches, 0 does not, -1 the pattern is refused.
static int match(const char *pattern, const char *text) {
  Arena a;
  arena_init(&a);
  const char *why;
  const Regex *re = regex_compile(&a, str_of(pattern), &why);
  int r = re ? regex_full_match(re, str_of(text)) : -1;
  arena_deinit(&a);
  return r;
}

TEST(regex_matches) {
  static const struct {
    const char *pattern, *text;
    int want;
  } row[] = {
      // clang-format off
      {"", "", 1},                   {"", "a", 0},                  {"a", "a", 1},
      {"a", "aa", 0},                {"a*", "", 1},                 {"a*", "aaaa", 1},
      {"a+", "", 0},                 {"a?b", "b", 1},               {"a|b|", "", 1},
      {"a|bc", "bc", 1},             {"(a|bc)d", "bcd", 1},         {"(a|bc)d", "bc", 0},
      {"(?:ab)*", "ababab", 1},      {"(?:ab)*", "aba", 0},         {"(a*)*", "aaa", 1},
      {"(a*)*b", "aaab", 1},         {"(a|)+", "aa", 1},            {"a{2}", "aa", 1},
      {"a{2}", "aaa", 0},            {"a{2,}", "aaaa", 1},          {"a{2,3}", "a", 0},
      {"a{2,3}", "aaa", 1},          {"a{0,2}", "", 1},             {"a{0,2}", "aaa", 0},
      {"a{0}b", "b", 1},             {"(a{1,2}){2}", "aaaa", 1},    {"(a{1,2}){2}", "aaaaa", 0},
      {"a{,2}", "a{,2}", 1},         {"x{", "x{", 1},               {"a*?b", "aab", 1},
      {"a.c", "abc", 1},             {"a.c", "a\nc", 0},            {"(?s)a.c", "a\nc", 1},
      {".", "\xc3\xa9", 1},          {"..", "\xc3\xa9", 0},         {"\xc3\xa9+", "\xc3\xa9\xc3\xa9", 1},
      {"[abc]+", "cab", 1},          {"[^abc]", "d", 1},            {"[^abc]", "a", 0},
      {"[a-c-e]+", "b-e", 1},        {"[]a]+", "a]", 1},            {"[^]a]", "b", 1},
      {"[\\d.]+", "1.5", 1},         {"[\\w-]+", "a-b_1", 1},       {"[[:alpha:]]+", "aZ", 1},
      {"[[:^digit:]]", "x", 1},      {"\\d{3}-\\d{4}", "555-1234", 1}, {"\\D", "1", 0},
      {"\\s", "\t", 1},              {"\\S", " ", 0},               {"\\W", "%", 1},
      {"\\x41\\x{42}", "AB", 1},     {"\\101", "A", 1},             {"\\.\\*", ".*", 1},
      {"\\Qa.b\\E*", "a.bbb", 1},    {"^abc$", "abc", 1},           {"a^b", "ab", 0},
      {"\\Aabc\\z", "abc", 1},       {"(?m)a$\\nb", "a\nb", 1},     {"a$\\nb", "a\nb", 0},
      {"\\bfoo\\b", "foo", 1},       {"foo\\Bbar", "foobar", 1},    {"foo\\bbar", "foobar", 0},
      {"(?i)straSSe", "STRASSE", 1}, {"(?i:a)b", "Ab", 1},          {"(?i:a)b", "AB", 0},
      {"(?i)[k-m]", "L", 1},         {"(?P<n>a)(?<m>b)", "ab", 1},  {"(?-i)a", "A", 0},
      {"[a-", "x", -1},              {"(", "x", -1},                {")", "x", -1},
      {"*a", "x", -1},               {"a**", "x", -1},              {"(?=a)", "x", -1},
      {"(a)\\1", "aa", -1},          {"a{2,1}", "x", -1},           {"a{1001}", "x", -1},
      {"\\", "x", -1},               {"[z-a]", "x", -1},            {"(?<=a)b", "x", -1},
      // clang-format on
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++)
    if (match(row[i].pattern, row[i].text) != row[i].want)
      FAIL("'%s' on '%s' gives %d", row[i].pattern, row[i].text,
           match(row[i].pattern, row[i].text));
}

TEST(regex_is_linear) {
  char text[3001];
  memset(text, 'a', 3000);
  text[3000] = 0;
  EXPECT_INT_EQ(match("(a*)*b", text), 0);
  EXPECT_INT_EQ(match("(a|a)*", text), 1);
  EXPECT_INT_EQ(match("((a{1,1000}){1,1000}){1,1000}", text), -1);
  char deep[4001];
  memset(deep, '(', 2000);
  memset(deep + 2000, ')', 2000);
  deep[4000] = 0;
  EXPECT_INT_EQ(match(deep, ""), -1);
  char stars[1201] = "";
  for (int i = 0; i < 300; i++) strcat(stars, "(");
  strcat(stars, "a");
  for (int i = 0; i < 300; i++) strcat(stars, ")*");
  EXPECT_INT_EQ(match(stars, text), 1);
}

TEST(regex_finds) {  // the leftmost, and of those the longest
  static const struct {
    const char *pattern, *text;
    int start, begin, end;  // begin -1: nothing
  } row[] = {
      // clang-format off
      {"[a-z]+", "12 abc d", 0, 3, 6}, {"[a-z]+", "12 abc d", 6, 7, 8}, {"x", "abc", 0, -1, 0},
      {"a|ab", "cab", 0, 1, 3},        {"a*", "baa", 0, 0, 0},          {"a*", "baa", 1, 1, 3},
      {"a+?", "aaa", 0, 0, 3},         {"^a", "aa", 0, 0, 1},           {"^a", "aa", 1, -1, 0},
      {"\\bb", "ab b", 1, 3, 4},       {"b$", "bab", 0, 2, 3},          {"", "", 0, 0, 0},
      {"\xc3\xa9.", "a\xc3\xa9\xc3\xa8", 0, 1, 5},                   {"b", "a\xc3\xa9" "b", 3, 3, 4},
      // clang-format on
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Arena a;
    arena_init(&a);
    const char *why;
    int64_t begin = -2, end = -2, work = 0;
    const Regex *re = regex_compile(&a, str_of(row[i].pattern), &why);
    REQUIRE(re);
    bool found = regex_find(re, str_of(row[i].text), row[i].start, &begin, &end, &work);
    EXPECT_INT_EQ(found, row[i].begin >= 0);
    if (begin != row[i].begin || (found && end != row[i].end))
      FAIL("'%s' in '%s' is at [%lld, %lld)", row[i].pattern, row[i].text, (long long)begin,
           (long long)end);
    arena_deinit(&a);
  }
}

// The tokens of one string, with commas between.
static const char *tokens_of(Run *run, Arena *a, const tokenizer_attrs *at, const char *text) {
  Value *x = NULL, *y = NULL;
  const Value *in[1];
  EXPECT_STATUS(value_tensor(run, NOWHERE, DT_STRING, 1, (int64_t[]){1}, &x), TENON_OK);
  in[0] = x;
  Eval e = {.run = run, .attrs = at, .in = in, .nin = 1, .out = &y, .nout = 1};
  ((Str *)x->data)[0] = str_of(text);
  if (eval_tokenizer(&e)) return run->diag->text;
  StrBuf b;
  strbuf_init(&b, a);
  for (int64_t i = 0; i < y->n; i++)
    strbuf_printf(&b, "%s%.*s", i ? "," : "", STR_ARG(val_str(y, i)));
  value_release(x);
  value_release(y);
  return strbuf_text(&b);
}

TEST(tokens) {
  Str chars[] = {str_of("")}, seps[] = {str_of(" "), str_of("[0-9]+")};
  static Diag d;
  Run run;
  Arena a;
  diag_init(&d);
  arena_init(&a);
  run_init(&run, NULL, &d);
  tokenizer_attrs exp = {.mincharnum = 1, .tokenexp = str_of("[a-z]+")};
  EXPECT_STR_EQ(tokens_of(&run, &a, &exp, "ab, c1def"), "ab,c,def");
  exp.mincharnum = 2;
  EXPECT_STR_EQ(tokens_of(&run, &a, &exp, "ab, c1def"), "ab,def");
  EXPECT_STR_EQ(tokens_of(&run, &a, &exp, "123"), "");
  tokenizer_attrs one = {.mincharnum = 1, .mark = true, .separators = {1, chars}};
  EXPECT_STR_EQ(tokens_of(&run, &a, &one, "a\xc3\xa9"), "\x02,a,\xc3\xa9,\x03");
  tokenizer_attrs split = {.mincharnum = 1, .separators = {2, seps}};
  EXPECT_STR_EQ(tokens_of(&run, &a, &split, "a1b  cd22"), "a,b,cd");
  tokenizer_attrs none = {.mincharnum = 1};
  EXPECT(strstr(tokens_of(&run, &a, &none, "a"), "neither tokenexp nor separators"));
  run_deinit(&run);
  arena_deinit(&a);
}

TEST(case_follows_unicode) {
  Arena a;
  arena_init(&a);
  static const char *const row[][3] = {
      {"Hello", "hello", "HELLO"},
      {"\xc3\x84rger", "\xc3\xa4rger", "\xc3\x84RGER"},              // German
      {"\xce\xa3\xcf\x8c", "\xcf\x83\xcf\x8c", "\xce\xa3\xce\x8c"},  // Greek
      {"\xd0\x96\xd0\xb6", "\xd0\xb6\xd0\xb6", "\xd0\x96\xd0\x96"},  // Cyrillic
      {"\xc4\x80\xc4\x81", "\xc4\x81\xc4\x81", "\xc4\x80\xc4\x80"},  // pairs
      {"\xff"
       "A",
       "\xff"
       "a",
       "\xff"
       "A"},  // not UTF-8: kept
  };
  for (int64_t i = 0; i < ARRAY_LEN(row); i++) {
    Str lower = text_change_case(&a, str_of(row[i][0]), CASE_LOWER);
    Str upper = text_change_case(&a, str_of(row[i][0]), CASE_UPPER);
    EXPECT(str_is(lower, row[i][1]));
    EXPECT(str_is(upper, row[i][2]));
  }
  arena_deinit(&a);
}
