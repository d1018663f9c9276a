// base_test.c -- checked sizes, arenas, strings, maps, messages, traps, attributes.
#include "test.h"
#include "base/attr.h"
#include "base/platform.h"

// ---- checked sizes ----

TEST(ck_arithmetic) {
  int64_t r;
  EXPECT(ck_add(1, 2, &r) && r == 3);
  EXPECT(ck_add(INT64_MAX, INT64_MIN, &r) && r == -1);
  EXPECT(!ck_add(INT64_MAX, 1, &r));
  EXPECT(!ck_add(INT64_MIN, -1, &r));
  EXPECT(ck_sub(INT64_MIN, INT64_MIN, &r) && r == 0);
  EXPECT(!ck_sub(0, INT64_MIN, &r));
  EXPECT(!ck_sub(INT64_MIN, 1, &r));
  EXPECT(ck_mul(INT64_C(1) << 31, INT64_C(1) << 31, &r) && r == INT64_C(1) << 62);
  EXPECT(!ck_mul(INT64_C(1) << 32, INT64_C(1) << 32, &r));
  EXPECT(!ck_mul(INT64_MIN, -1, &r));
  EXPECT(ck_mul(0, INT64_MIN, &r) && r == 0);
}

// ---- traps ----

static tenon_status trapped(void (*work)(void *), void *ctx, Diag *d) {
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) work(ctx);
  trap_leave(&t);
  return t.status;
}

static void raise_one(void *ctx) {
  (void)ctx;
  trap_raise(TENON_ENOMEM, "no room for %d", 7);
}

static void raise_inside(void *ctx) {
  Diag d;
  diag_init(&d);
  EXPECT_STATUS(trapped(raise_one, NULL, &d), TENON_ENOMEM);
  EXPECT_STR_EQ(d.text, "no room for 7");
  *(int *)ctx = 1;
  trap_raise(TENON_EINVAL, "outer");
}

TEST(trap_nests) {
  Diag d;
  int reached = 0;
  diag_init(&d);
  EXPECT_STATUS(trapped(raise_inside, &reached, &d), TENON_EINVAL);
  EXPECT_INT_EQ(reached, 1);
  EXPECT_STR_EQ(d.text, "outer");
  EXPECT_STATUS(trapped(raise_one, NULL, NULL), TENON_ENOMEM);
}

// ---- arenas ----

TEST(arena_zeroes_and_aligns) {
  Arena a;
  arena_init(&a);
  for (int64_t i = 0; i < 3000; i++) {
    int64_t n = i * 37 % 5000;
    uint8_t *p = arena_alloc(&a, n);
    EXPECT(p && (uintptr_t)p % 16 == 0);
    for (int64_t k = 0; k < n; k++)
      if (p[k]) {
        FAIL("byte %d of block %d is not zero", (int)k, (int)i);
        break;
      }
    if (n) memset(p, 0xFF, (size_t)n);
  }
  EXPECT(a.total >= INT64_C(7000000));
  arena_deinit(&a);
  EXPECT_INT_EQ(a.total, 0);
}

static bool all_zero(const uint8_t *p, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (p[i]) return false;
  return true;
}

TEST(arena_reset_clears_what_is_reused) {
  Arena a;
  arena_init(&a);
  ArenaMark empty = arena_mark(&a);
  char *kept = arena_alloc(&a, 100);
  memset(kept, 'k', 100);
  ArenaMark m = arena_mark(&a);
  int64_t total = a.total;
  for (int round = 0; round < 3; round++) {
    uint8_t *first = arena_alloc(&a, 1000);
    EXPECT(all_zero(first, 1000));
    memset(first, 1, 1000);
    uint8_t *big = arena_alloc(&a, 100000);
    EXPECT(all_zero(big, 100000));
    memset(big, 2, 100000);
    arena_reset(&a, m);
    EXPECT_INT_EQ(a.total, total);
  }
  EXPECT(kept[0] == 'k' && kept[99] == 'k');
  arena_reset(&a, empty);
  EXPECT_INT_EQ(a.total, 0);
  EXPECT(all_zero(arena_alloc(&a, 64), 64));
  arena_deinit(&a);
}

TEST(arena_clear_keeps_the_first_chunk) {
  Arena a;
  arena_init(&a);
  arena_clear(&a);
  EXPECT_INT_EQ(a.total, 0);
  uint8_t *first = arena_alloc(&a, 16000);
  memset(first, 1, 16000);
  int64_t total = a.total;
  for (int round = 0; round < 3; round++) {
    memset(arena_alloc(&a, 100000), 2, 100000);
    memset(arena_alloc(&a, 300), 3, 300);
    arena_clear(&a);
    EXPECT_INT_EQ(a.total, total);
    uint8_t *again = arena_alloc(&a, 16000);
    EXPECT(again == first && all_zero(again, 16000));
    memset(again, 4, 16000);
  }
  arena_deinit(&a);
  EXPECT_INT_EQ(a.total, 0);
}

static void fill_to_limit(void *ctx) {
  for (;;) arena_alloc(ctx, 1000);
}
static void huge_array(void *ctx) { arena_alloc_array(ctx, INT64_MAX / 2, 8); }
static void huge_block(void *ctx) { arena_alloc(ctx, INT64_MAX); }

TEST(arena_limit_raises) {
  Arena a;
  Diag d;
  arena_init(&a);
  a.limit = 100000;
  diag_init(&d);
  EXPECT_STATUS(trapped(fill_to_limit, &a, &d), TENON_ENOMEM);
  EXPECT_CONTAINS(d.text, "memory limit");
  EXPECT(a.total <= a.limit && a.total > 90000);
  a.limit = 0;
  EXPECT_STATUS(trapped(huge_array, &a, &d), TENON_ENOMEM);
  EXPECT_STATUS(trapped(huge_block, &a, &d), TENON_ENOMEM);
  EXPECT(arena_alloc(&a, 10) != NULL);
  arena_deinit(&a);
}

TEST(vec_grows) {
  Arena a;
  arena_init(&a);
  VEC(int64_t) v = {0}, w = {0};
  for (int64_t i = 0; i < 100000; i++) {
    vec_push(&a, &v, i);
    if (i % 100 == 0) vec_push(&a, &w, -i);
  }
  EXPECT_INT_EQ(v.n, 100000);
  EXPECT_INT_EQ(w.n, 1000);
  int64_t wrong = 0;
  for (int64_t i = 0; i < v.n; i++) wrong += v.v[i] != i;
  for (int64_t i = 0; i < w.n; i++) wrong += w.v[i] != -100 * i;
  EXPECT_INT_EQ(wrong, 0);
  arena_deinit(&a);
}

// ---- strings ----

TEST(str_basics) {
  EXPECT(str_cmp(STR("ab"), STR("ab")) == 0);
  EXPECT(str_cmp(STR("ab"), STR("b")) < 0);
  EXPECT(str_cmp(STR("ab"), STR("a")) > 0);
  EXPECT(str_cmp((Str){NULL, 0}, STR("")) == 0);
  EXPECT(str_cmp(STR("\xff"), STR("a")) > 0);
  EXPECT(str_starts(STR("model.onnx"), "model"));
  EXPECT(!str_starts(STR("mo"), "model"));
  EXPECT(str_starts((Str){NULL, 0}, ""));
  EXPECT(str_ends(STR("model.onnx"), ".onnx"));
  EXPECT(!str_ends(STR("onnx"), ".onnx"));
  EXPECT_INT_EQ(str_distance(STR("kitten"), STR("sitting")), 3);
  EXPECT_INT_EQ(str_distance(STR(""), STR("abc")), 3);
  EXPECT_INT_EQ(str_distance(STR("abc"), STR("abc")), 0);
  EXPECT(str_glob("*", "") && str_glob("a*c", "abbc") && str_glob("?b*", "abc"));
  EXPECT(!str_glob("?", "") && !str_glob("a*c", "abcd") && str_glob("*a*b*", "xxaxxbxx"));
}

TEST(str_to_i64_edges) {
  int64_t v;
  EXPECT(str_to_i64(STR("9223372036854775807"), &v) && v == INT64_MAX);
  EXPECT(str_to_i64(STR("-9223372036854775808"), &v) && v == INT64_MIN);
  EXPECT(str_to_i64(STR("-0"), &v) && v == 0);
  EXPECT(str_to_i64(STR("0042"), &v) && v == 42);
  const char *bad[] = {"",
                       "-",
                       "+",
                       " 1",
                       "1 ",
                       "0x1",
                       "1.0",
                       "9223372036854775808",
                       "-9223372036854775809",
                       "99999999999999999999999999",
                       "--1"};
  for (int i = 0; i < ARRAY_LEN(bad); i++)
    if (str_to_i64(str_of(bad[i]), &v)) FAIL("'%s' was taken for a number", bad[i]);
}

TEST(str_is_utf8_edges) {
  const char *good[] = {"",
                        "ascii \x7f",
                        "\xC2\x80",
                        "\xDF\xBF",
                        "\xE0\xA0\x80",
                        "\xED\x9F\xBF",
                        "\xEE\x80\x80",
                        "\xEF\xBF\xBF",
                        "\xF0\x90\x80\x80",
                        "\xF4\x8F\xBF\xBF",
                        "a\xC3\xA9z"};
  const char *bad[] = {"\x80",
                       "\xBF",
                       "\xC0\x80",
                       "\xC1\xBF",
                       "\xC2",
                       "\xC2\x41",
                       "\xE0\x9F\xBF",
                       "\xE0\xA0",
                       "\xED\xA0\x80",
                       "\xED\xBF\xBF",
                       "\xE2\x82\x41",
                       "\xF0\x8F\xBF\xBF",
                       "\xF0\x90\x80",
                       "\xF5\x80\x80",
                       "\xF4\x90\x80\x80",
                       "\xF8\x88\x80\x80\x80",
                       "\xFE",
                       "\xFF",
                       "ok\xC3"};
  for (int i = 0; i < ARRAY_LEN(good); i++)
    if (!str_is_utf8(str_of(good[i]))) FAIL("good case %d", i);
  for (int i = 0; i < ARRAY_LEN(bad); i++)
    if (str_is_utf8(str_of(bad[i]))) FAIL("bad case %d", i);
  EXPECT(str_is_utf8((Str){"a\0b", 3}));
  // Every code point, encoded; surrogates refused.
  int64_t wrong = 0;
  for (uint32_t c = 0; c <= 0x10FFFF; c++) {
    char b[4];
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1, s = 0; i > 0; i--, s += 6) b[i] = (char)(0x80 | (c >> s & 0x3F));
    b[0] = (char)(n == 1 ? c : (0xF00u >> n & 0xFF) | c >> (6 * (n - 1)));
    wrong += str_is_utf8((Str){b, n}) != (c < 0xD800 || c > 0xDFFF);
  }
  EXPECT_INT_EQ(wrong, 0);
}

TEST(strbuf_writes) {
  Arena a;
  StrBuf b;
  arena_init(&a);
  strbuf_init(&b, &a);
  EXPECT_STR_EQ(strbuf_text(&b), "");
  strbuf_printf(&b, "%d", 1);
  strbuf_putc(&b, ',');
  strbuf_puts(&b, "two");
  strbuf_put(&b, (Str){NULL, 0});
  EXPECT_STR_EQ(strbuf_text(&b), "1,two");
  for (int i = 0; i < 10000; i++) strbuf_printf(&b, "%04d", i);
  EXPECT_INT_EQ(b.n, 40005);
  EXPECT(!memcmp(b.p + 5 + 4 * 9999, "9999", 5));
  EXPECT_STR_EQ(str_printf(&a, "%s-%d", "x", 3), "x-3");
  EXPECT_STR_EQ(str_copy(&a, (Str){"abcdef", 3}), "abc");
  arena_deinit(&a);
}

// ---- maps ----

TEST(strmap_many_keys) {
  enum { N = 50000 };
  Arena a;
  StrMap m;
  arena_init(&a);
  strmap_init(&m, &a);
  EXPECT(!strmap_get(&m, STR("x")) && !strmap_has(&m, STR("x")));
  int *numbers = arena_array(&a, int, N);
  for (int i = 0; i < N; i++) strmap_put(&m, str_of(str_printf(&a, "key%d", i)), &numbers[i]);
  EXPECT_INT_EQ(m.n, N);
  int64_t wrong = 0;
  for (int i = 0; i < N; i++) {
    char key[32];
    snprintf(key, sizeof(key), "key%d", i);
    wrong += strmap_get(&m, str_of(key)) != &numbers[i];
    snprintf(key, sizeof(key), "yek%d", i);
    wrong += strmap_has(&m, str_of(key));
  }
  EXPECT_INT_EQ(wrong, 0);
  strmap_put(&m, STR("key7"), NULL);
  EXPECT(strmap_has(&m, STR("key7")) && !strmap_get(&m, STR("key7")));
  strmap_put(&m, (Str){NULL, 0}, &numbers[1]);
  EXPECT(strmap_get(&m, STR("")) == &numbers[1]);
  EXPECT_INT_EQ(m.n, N + 1);
  EXPECT(!strmap_has(&m, (Str){"key1\0", 5}));
  arena_deinit(&a);
}

TEST(intmap_many_keys) {
  enum { N = 100000 };
  Arena a;
  IntMap m;
  uint64_t v;
  arena_init(&a);
  intmap_init(&m, &a);
  EXPECT(!intmap_get(&m, 0, &v));
  // Keys that differ in high bits only, in low bits only, and 0 and ~0.
  for (uint64_t i = 0; i < N; i++) {
    intmap_put(&m, i << 40, i);
    intmap_put(&m, i, i + 1);
  }
  intmap_put(&m, UINT64_MAX, 5);
  int64_t wrong = 0;
  for (uint64_t i = 1; i < N; i++) {
    wrong += !intmap_get(&m, i << 40, &v) || v != i;
    wrong += !intmap_get(&m, i, &v) || v != i + 1;
  }
  EXPECT_INT_EQ(wrong, 0);
  EXPECT(intmap_get(&m, 0, &v) && v == 1);
  EXPECT(intmap_get(&m, UINT64_MAX, &v) && v == 5);
  EXPECT_INT_EQ(m.n, 2 * N);
  arena_deinit(&a);
}

TEST(intern_gives_one_pointer) {
  Arena a;
  Interner in;
  arena_init(&a);
  intern_init(&in, &a);
  char buf[] = "name";
  const char *p = intern(&in, str_of(buf));
  buf[0] = 'N';
  EXPECT_STR_EQ(p, "name");
  EXPECT(intern(&in, STR("name")) == p);
  EXPECT(intern(&in, str_of(buf)) != p);
  EXPECT(intern(&in, STR("")) == intern(&in, (Str){NULL, 0}));
  arena_deinit(&a);
}

TEST(hash_spreads) {
  uint8_t zeros[64] = {0};
  for (int64_t i = 0; i < 64; i++)
    for (int64_t j = 0; j < i; j++)
      if (hash_bytes(zeros, i, 0) == hash_bytes(zeros, j, 0))
        FAIL("%d and %d zeros", (int)i, (int)j);
  EXPECT(hash_bytes("a", 1, 0) != hash_bytes("a", 1, 1));
  EXPECT(hash_bytes("abc", 3, 9) == hash_bytes("abc", 3, 9));
  EXPECT(hash_u64(1) != hash_u64(2));
}

// ---- messages ----

TEST(diag_places) {
  static Diag d;
  diag_init(&d);
  Where node = {.file = "m.onnx", .node = "conv1", .op = "Conv"};
  EXPECT_STATUS(fail(&d, TENON_EINVAL, node, "bad %d", 1), TENON_EINVAL);
  EXPECT_STR_EQ(d.text, "m.onnx: node 'conv1' (Conv): bad 1");
  diag_note(&d, "because of %s", "x");
  fail(&d, TENON_EIO, (Where){.file = "g.tir", .line = 3, .column = 7}, "two");
  fail(&d, TENON_EIO, (Where){.file = "m.onnx", .offset = 12, .has_offset = true}, "three");
  fail(&d, TENON_EIO, (Where){.op = "Conv"}, "four");
  EXPECT_STR_EQ(d.text, "m.onnx: node 'conv1' (Conv): bad 1\n  because of x\n"
                        "g.tir:3:7: two\nm.onnx: byte 12: three\nConv: four");
  EXPECT_INT_EQ(d.status, TENON_EINVAL);
  diag_init(&d);
  d.base.file = "base.onnx";
  fail(&d, TENON_EIO, NOWHERE, "five");
  EXPECT_STR_EQ(d.text, "base.onnx: five");
  EXPECT_STATUS(fail(NULL, TENON_EIO, NOWHERE, "unheard"), TENON_EIO);
  for (int s = TENON_OK; s <= TENON_ECANCELLED; s++)
    EXPECT(strcmp(status_name((tenon_status)s), "?") != 0);
}

TEST(diag_cleans_and_cuts) {
  static Diag d;
  diag_init(&d);
  fail(&d, TENON_EINVAL, (Where){.node = "a\x1b[2J\nb\xff\xC3\xA9\xC2\x9B"}, "x\x80y");
  EXPECT_STR_EQ(d.text, "node 'a?[2J?b?\xC3\xA9?\?': x?y");
  for (int shift = 0; shift < 3; shift++) {
    diag_init(&d);
    fail(&d, TENON_EINVAL, NOWHERE, "%.*s", shift, "ab");
    for (int i = 0; i < 3000; i++) fail(&d, TENON_EINVAL, NOWHERE, "\xE2\x82\xAC\xE2\x82\xAC");
    EXPECT(d.len < TENON_ERROR_CAPACITY && d.len > TENON_ERROR_CAPACITY - 16);
    EXPECT_INT_EQ((int64_t)strlen(d.text), d.len);
    EXPECT(str_is_utf8((Str){d.text, d.len}));
  }
}

// ---- attributes ----

#define SAMPLE_ATTRS(A, C, T)                                                                      \
  A(T, i64, axis, -1, "axis")                                                                      \
  A(T, bool, keep, true, "keep")                                                                   \
  A(T, f64, alpha, 0.5, "alpha")                                                                   \
  A(T, dtype, to, DT_F32, "to")                                                                    \
  A(T, str, mode, "linear", "mode")                                                                \
  A(T, body, then_branch, , "body")                                                                \
  A(T, i64s, pads, , "pads")                                                                       \
  A(T, f64s, scales, , "scales")                                                                   \
  A(T, strs, names, , "names")                                                                     \
  A(T, i64, last, INT64_MAX, "end")                                                                \
  C(T, auto_pad, "NOTSET|SAME_UPPER|VALID", 1, "pad")
ATTR_STRUCT(sample, SAMPLE_ATTRS);
ATTR_TABLE(sample, SAMPLE_ATTRS);

TEST(attrs_reflect) {
  const int n = (int)ARRAY_LEN(sample_attr_desc);
  sample_attrs x = {0}, y = {0}, z = {0};
  Arena a;
  arena_init(&a);
  attrs_defaults(sample_attr_desc, n, &x);
  EXPECT(x.axis == -1 && x.keep && x.alpha == 0.5 && x.to == DT_F32 && x.auto_pad == 1);
  EXPECT(str_is(x.mode, "linear") && x.pads.n == 0 && x.last == INT64_MAX);
  for (int i = 0; i < n; i++) EXPECT(attr_is_default(&sample_attr_desc[i], &x));
  y = x;
  EXPECT(attrs_equal(sample_attr_desc, n, &x, &y));
  EXPECT(attrs_hash(sample_attr_desc, n, &x) == attrs_hash(sample_attr_desc, n, &y));
  int64_t pads[] = {1, 2};
  double scales[] = {0.0};
  Str names[] = {STR("p"), STR("q")};
  y.pads = (Ints){2, pads};
  y.scales = (Floats){1, scales};
  y.names = (Strs){2, names};
  y.mode = STR("cubic");
  EXPECT(!attrs_equal(sample_attr_desc, n, &x, &y));
  EXPECT(attrs_hash(sample_attr_desc, n, &x) != attrs_hash(sample_attr_desc, n, &y));
  attrs_copy(&a, sample_attr_desc, n, &y, &z);
  EXPECT(attrs_equal(sample_attr_desc, n, &z, &y));
  EXPECT(attrs_hash(sample_attr_desc, n, &z) == attrs_hash(sample_attr_desc, n, &y));
  pads[1] = 3;
  EXPECT(!attrs_equal(sample_attr_desc, n, &z, &y));
  pads[1] = 2;
  scales[0] = -0.0;
  EXPECT(!attrs_equal(sample_attr_desc, n, &z, &y));
  scales[0] = 0;
  names[1] = STR("r");
  EXPECT(!attrs_equal(sample_attr_desc, n, &z, &y));
  arena_deinit(&a);
}

TEST(attr_choices) {
  const char *words = "NOTSET|SAME_UPPER|VALID";
  EXPECT_INT_EQ(attr_choice_find(words, STR("NOTSET")), 0);
  EXPECT_INT_EQ(attr_choice_find(words, STR("VALID")), 2);
  EXPECT_INT_EQ(attr_choice_find(words, STR("SAME")), -1);
  EXPECT_INT_EQ(attr_choice_find(words, STR("")), -1);
  for (int i = 0; i < 3; i++) EXPECT_INT_EQ(attr_choice_find(words, attr_choice_word(words, i)), i);
}
