// unicode_test.c -- categories, normal forms and UTF-8.
#include "test.h"
#include "text/unicode.h"

TEST(text_unicode_categories) {
  static const struct {
    uint32_t c;
    UnicodeCategory want;
  } cases[] = {{'a', UC_Ll},     {'A', UC_Lu},     {' ', UC_Zs},   {0x300, UC_Mn},
               {0x4e2d, UC_Lo},  {0x2167, UC_Nl},  {0x660, UC_Nd}, {0x10fffe, UC_Cn},
               {0xd800, UC_Cs},  {0x1f642, UC_So}, {'_', UC_Pc},   {0x1c5, UC_Lt},
               {0x110000, UC_Cn}};
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++)
    EXPECT_INT_EQ(unicode_category(cases[i].c), cases[i].want);
  int64_t next = 0;
  for (int64_t i = 0; i < unicode_runs(); i++) {
    UnicodeCategory c;
    UnicodeRange r = unicode_run(i, &c);
    EXPECT_INT_EQ(r.first, next);
    EXPECT_INT_EQ(unicode_category(r.last), c);
    next = (int64_t)r.last + 1;
  }
  EXPECT_INT_EQ(next, UNICODE_END);
  EXPECT_INT_EQ(unicode_to_lower(0x410), 0x430);
  EXPECT_INT_EQ(unicode_to_lower(0x100), 0x101);
  EXPECT_INT_EQ(unicode_to_lower(0x101), 0x101);
  EXPECT_INT_EQ(unicode_category_in(0x8d4, 8), UC_Cn);
  EXPECT_INT_EQ(unicode_category_in(0x8d4, 9), UC_Mn);
}

static void expect_form(UnicodeForm form, bool old, const char *text, const char *want) {
  UnicodeScratch scratch = {0};
  Bytes out = {0};
  unicode_normalise(form, old, str_of(text), &scratch, &out);
  bytes_put(&out, "", 1);
  EXPECT_STR_EQ((const char *)out.p, want);
  bytes_free(&out);
  bytes_free(&scratch.code);
  bytes_free(&scratch.sort);
}

TEST(text_unicode_normal_forms) {
  expect_form(UNICODE_NFC, false, "e\xcc\x81", "\xc3\xa9");
  expect_form(UNICODE_NFD, false, "\xc3\xa9", "e\xcc\x81");
  expect_form(UNICODE_NFC, false,
              "abc e\xcc\x81"
              "d",
              "abc \xc3\xa9"
              "d");
  expect_form(UNICODE_NFKC, false, "\xef\xac\x81", "fi");
  expect_form(UNICODE_NFC, false, "\xef\xac\x81", "\xef\xac\x81");
  // Hangul: 1100 1161 11a8 is ac01.
  expect_form(UNICODE_NFC, false, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81");
  expect_form(UNICODE_NFD, false, "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
  // Marks in canonical order: 0316 (220) goes before 0300 (230).
  expect_form(UNICODE_NFD, false, "a\xcc\x80\xcc\x96", "a\xcc\x96\xcc\x80");
  expect_form(UNICODE_NFC, false, "a\xcc\x96\xcc\x80", "\xc3\xa0\xcc\x96");
  // U+0898 is of Unicode 14: a starter for tables of Unicode 9, which 0300 (230) does not pass.
  expect_form(UNICODE_NFD, false, "a\xe0\xa2\x98\xcc\xb4", "a\xcc\xb4\xe0\xa2\x98");
  expect_form(UNICODE_NFD, true, "a\xe0\xa2\x98\xcc\xb4", "a\xe0\xa2\x98\xcc\xb4");
}

TEST(text_unicode_many_marks) {  // sorted by counting
  Arena a;
  StrBuf in, want;
  arena_init(&a);
  strbuf_init(&in, &a);
  strbuf_init(&want, &a);
  strbuf_puts(&in, "a");
  strbuf_puts(&want, "a");
  for (int i = 0; i < 100; i++) strbuf_puts(&in, "\xcc\x81\xcc\x96");
  for (int i = 0; i < 100; i++) strbuf_puts(&want, "\xcc\x96");
  for (int i = 0; i < 100; i++) strbuf_puts(&want, "\xcc\x81");
  expect_form(UNICODE_NFD, false, strbuf_text(&in), strbuf_text(&want));
  arena_deinit(&a);
}

TEST(text_unicode_repairs_utf8) {
  static const char *const cases[][2] = {
      {"a\xff"
       "b",
       "a\xef\xbf\xbd"
       "b"},
      {"\xe2\x82", "\xef\xbf\xbd"},
      {"\xe2\x82"
       "a",
       "\xef\xbf\xbd"
       "a"},
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf0\x9f\x99", "\xef\xbf\xbd"},
      {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf0\x9f\x99\x82", "\xf0\x9f\x99\x82"},
  };
  for (int64_t i = 0; i < ARRAY_LEN(cases); i++) {
    Bytes out = {0};
    utf8_repair(str_of(cases[i][0]), &out);
    bytes_put(&out, "", 1);
    EXPECT_STR_EQ((const char *)out.p, cases[i][1]);
    bytes_free(&out);
  }
}
