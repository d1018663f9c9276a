// json_test.c -- JSON: writing, reading, refusing.
#include "base/json.h"

#include "test.h"

#include <math.h>
#include <float.h>

static Diag diag;

TEST(json_writes) {
  Arena a;
  StrBuf b;
  JsonWriter w;
  arena_init(&a);
  strbuf_init(&b, &a);
  json_init(&w, &b, true);
  json_begin_object(&w);
  json_key(&w, "text");
  json_str(&w, STR("a\"\\\n\x01\xc3\xa4\xff\x7f"));
  json_key(&w, "numbers");
  json_begin_flat_array(&w);
  json_i64(&w, INT64_MIN);
  json_f64(&w, 0.1);
  json_f32(&w, 0.1f);
  json_f64(&w, NAN);
  json_f64(&w, -INFINITY);
  json_f64(&w, 1e300);
  json_f64(&w, -0.0);
  json_end_array(&w);
  json_key(&w, "empty");
  json_begin_array(&w);
  json_end_array(&w);
  json_key(&w, "flag");
  json_bool(&w, true);
  json_key(&w, "none");
  json_cstr(&w, NULL);
  json_end_object(&w);
  EXPECT_STR_EQ(strbuf_text(&b),
                "{\"text\":\"a\\\"\\\\\\n\\u0001\xc3\xa4\xef\xbf\xbd\\u007f\",\"numbers\":"
                "[-9223372036854775808,0.1,0.1,null,null,1e+300,-0.0],\"empty\":[],\"flag\":true,"
                "\"none\":null}");
  arena_deinit(&a);
}

TEST(json_pretty) {
  Arena a;
  StrBuf b;
  JsonWriter w;
  arena_init(&a);
  strbuf_init(&b, &a);
  json_init(&w, &b, false);
  json_begin_object(&w);
  json_key(&w, "shape");
  json_begin_flat_array(&w);
  json_i64(&w, 1);
  json_i64(&w, 2);
  json_end_array(&w);
  json_key(&w, "list");
  json_begin_array(&w);
  json_bool(&w, false);
  json_end_array(&w);
  json_end_object(&w);
  EXPECT_STR_EQ(strbuf_text(&b), "{\n  \"shape\": [1, 2],\n  \"list\": [\n    false\n  ]\n}");
  arena_deinit(&a);
}

TEST(json_numbers_round_trip) {
  static const double values[] = {0.1,     1.0 / 3,
                                  DBL_MAX, DBL_MIN,
                                  5e-324,  123456789.125,
                                  1e21,    2.5,
                                  -7,      0.30000000000000004,
                                  1e15,    9007199254740993.0};
  Arena a;
  arena_init(&a);
  diag_init(&diag);
  for (int64_t i = 0; i < ARRAY_LEN(values); i++) {
    char text[32];
    Json j;
    json_number(values[i], false, text, sizeof text);
    EXPECT_STATUS(json_parse(&a, str_of(text), &diag, &j), TENON_OK);
    EXPECT_F64_EQ(j.f, values[i]);
  }
  arena_deinit(&a);
}

TEST(json_reads) {
  Arena a;
  Json j;
  arena_init(&a);
  diag_init(&diag);
  const char *text = " {\"a\": [1, -2.5e3, true, null, \"x\\u00e4\\ud83d\\ude00\\n\"], \"b\": {}, "
                     "\"big\": 9223372036854775807, \"bigger\": 9223372036854775808} ";
  REQUIRE(!json_parse(&a, str_of(text), &diag, &j));
  const Json *v = json_get(&j, "a");
  REQUIRE(v && v->kind == JSON_ARRAY && v->n == 5);
  EXPECT(v->item[0].kind == JSON_INT && v->item[0].i == 1);
  EXPECT(v->item[1].kind == JSON_FLOAT && v->item[1].f == -2500);
  EXPECT(v->item[2].kind == JSON_BOOL && v->item[2].b);
  EXPECT(v->item[3].kind == JSON_NULL);
  EXPECT(str_is(v->item[4].s, "x\xc3\xa4\xf0\x9f\x98\x80\n"));
  EXPECT(json_get(&j, "b")->n == 0);
  EXPECT_INT_EQ(json_get(&j, "big")->i, INT64_MAX);
  EXPECT(json_get(&j, "bigger")->kind == JSON_FLOAT);
  EXPECT(json_get(&j, "c") == NULL);
  arena_deinit(&a);
}

TEST(json_refuses) {
  static const char *const bad[] = {
      "",
      " ",
      "{",
      "[1,]",
      "{\"a\":1,}",
      "{\"a\":1,\"a\":2}",
      "01",
      "1.",
      ".5",
      "+1",
      "1e",
      "1e999",
      "-",
      "nul",
      "truex",
      "\"abc",
      "\"\\x\"",
      "\"\\ud800\"",
      "\"\\udc00\"",
      "\"\x01\"",
      "\"\xff\"",
      "[1 2]",
      "{1:2}",
      "{\"a\" 1}",
      "\"\\u12g4\"",
      "1 2",
      "NaN",
      "Infinity",
      "'a'",
      "\"\\",
      "[\"\\u\"]",
      "/* */ 1",
      "\"\\ud800\\u0041\"",
  };
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(bad); i++) {
    Json j;
    diag_init(&diag);
    // A copy of the exact size, so that a sanitizer sees a read past the end.
    int64_t n = (int64_t)strlen(bad[i]);
    char *p = arena_dup(&a, bad[i], MAX(n, 1));
    if (json_parse(&a, (Str){p, n}, &diag, &j) != TENON_EFORMAT) FAIL("accepted: %s", bad[i]);
    EXPECT_CONTAINS(diag.text, "JSON");
  }
  arena_deinit(&a);
}

TEST(json_depth) {
  Arena a;
  StrBuf b;
  Json j;
  arena_init(&a);
  for (int depth = 64; depth <= 65; depth++) {
    diag_init(&diag);
    strbuf_init(&b, &a);
    for (int i = 0; i < depth; i++) strbuf_putc(&b, '[');
    for (int i = 0; i < depth; i++) strbuf_putc(&b, ']');
    EXPECT_STATUS(json_parse(&a, strbuf_str(&b), &diag, &j),
                  depth == 64 ? TENON_OK : TENON_EFORMAT);
  }
  strbuf_init(&b, &a);
  for (int i = 0; i < 100000; i++) strbuf_puts(&b, "[{\"a\":");
  EXPECT_STATUS(json_parse(&a, strbuf_str(&b), &diag, &j), TENON_EFORMAT);
  arena_deinit(&a);
}
