// pattern_test.c -- regular expressions of pre-tokenizers: what they match, and what is refused.
#include "test.h"
#include "text/pattern.h"

typedef struct Case {
  const char *pattern, *text;
  const char *pieces;  // matches, with '|' between them
} Case;

static void split_all(const Pattern *r, const char *text, StrBuf *out) {
  int64_t work = 0, from, to, at = 0;
  Str s = str_of(text);
  while (pattern_find(r, s, at, &work, &from, &to)) {
    if (out->n) strbuf_putc(out, '|');
    strbuf_put(out, (Str){text + from, to - from});
    at = to;
  }
}

TEST(text_pattern_matches) {
  static const Case cases[] = {
      {"a|ab", "abab", "a|a"},
      {"ab|a", "abaab", "ab|a|ab"},
      {"a+?b?", "aab", "a|ab"},
      {"\\s+(?!\\S)|\\s+", "a   b  ", "  | |  "},
      {"x*+y|x", "xxxyxx", "xxxy|x|x"},
      {"\\p{N}{1,3}", "1234567", "123|456|7"},
      {"\\p{N}{2,3}+", "12345", "123|45"},
      {"(?i:'s|'ll)", "I'LL 's 'S '\xc5\xbf", "'LL|'s|'S|'\xc5\xbf"},
      {"[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++", "-ab \xc3\xa9t\xc3\xa9!", "-ab| \xc3\xa9t\xc3\xa9"},
      {"[\\p{L}&&[^\\p{Han}]]+",
       "ab\xe4\xb8\xad"
       "c",
       "ab|c"},
      {"\\s++$|\\s", "a  b  ", " | |  "},
      {"[a-c\\-]+", "xab-cd", "ab-c"},
      {"(?:ab){2}|.", "ababa", "abab|a"},
      {"\\x{e9}|\\u00e8", "\xc3\xa9\xc3\xa8", "\xc3\xa9|\xc3\xa8"},
      {"a(?=b)", "abac", "a"},
      {"[^]a]", "]ab", "b"},
      {"(a|)*b", "aab", "aab"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    Arena a;
    Diag d;
    const Pattern *r;
    StrBuf got;
    arena_init(&a);
    diag_init(&d);
    strbuf_init(&got, &a);
    if (EXPECT_STATUS(pattern_compile(str_of(cases[i].pattern), &a, &d, &r), TENON_OK)) {
      split_all(r, cases[i].text, &got);
      EXPECT_STR_EQ(strbuf_text(&got), cases[i].pieces);
    }
    arena_deinit(&a);
  }
}

TEST(text_pattern_refuses) {
  static const char *const cases[][2] = {
      {"(?<=a)b", "lookbehind"},
      {"(?>a)", "atomic group"},
      {"(?=ab)c", "more than one"},
      {"a\\b", "escape"},
      {"^a", "'^'"},
      {"(a)\\1", "escape"},
      {"\\p{Greek}", "Greek"},
      {"(ab)++", "possessive"},
      {"a{2000}", "too large"},
      {"((((a{100}){100}){100}){100})", "too large"},
      {"[a", "without ']'"},
      {"a)", "')'"},
      {"*a", "repetition of nothing"},
      {"[b-a]", "bad range"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    Arena a;
    Diag d;
    const Pattern *r;
    arena_init(&a);
    diag_init(&d);
    EXPECT(pattern_compile(str_of(cases[i][0]), &a, &d, &r) != TENON_OK);
    EXPECT_CONTAINS(d.text, cases[i][1]);
    arena_deinit(&a);
  }
}

// What a search looks at stays in proportion to the text, with the pattern of Llama 3.
TEST(text_pattern_is_linear) {
  enum { N = 200000 };
  static const char *const units[] = {"a", " ", "\n", "A1", " -", "' ", "\xe4\xb8\xad"};
  Arena a;
  Diag d;
  const Pattern *r;
  arena_init(&a);
  diag_init(&d);
  Str pattern = STR("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  REQUIRE(!pattern_compile(pattern, &a, &d, &r));
  EXPECT(pattern_states(r) < 60);
  for (int64_t i = 0; i < ARRAY_LEN(units); i++) {
    StrBuf s;
    strbuf_init(&s, &a);
    for (int k = 0; k < N; k++) strbuf_puts(&s, units[i]);
    int64_t work = 0, from, to, at = 0;
    while (pattern_find(r, strbuf_str(&s), at, &work, &from, &to)) at = to;
    EXPECT_INT_EQ(at, s.n);
    EXPECT(work < 4 * s.n);
  }
  arena_deinit(&a);
}
