// zip_test.c -- zip archives: what is written reads back; what is damaged is refused.
#include "base/zip.h"

#include "test.h"

static Diag diag;

static void build(Arena *a, bool deflated, bool zip64, StrBuf *out) {
  ZipWriter w;
  strbuf_init(out, a);
  zip_begin(&w, a, zip_put_strbuf, out);
  w.zip64 = zip64;
  Str big = {arena_alloc(a, 100000), 100000};
  EXPECT_STATUS(
      zip_add(&w, STR("a.txt"), 3, (Str[]){STR("hello, "), STR(""), STR("world")}, deflated, &diag),
      TENON_OK);
  EXPECT_STATUS(zip_add(&w, STR("\xc3\xa4/empty"), 0, NULL, deflated, &diag), TENON_OK);
  EXPECT_STATUS(zip_add(&w, STR("zeros"), 1, &big, deflated, &diag), TENON_OK);
  EXPECT_STATUS(zip_end(&w, &diag), TENON_OK);
}

TEST(zip_round_trip) {
  for (int k = 0; k < 4; k++) {
    Arena a;
    StrBuf b;
    Zip z;
    Str s;
    arena_init(&a);
    diag_init(&diag);
    build(&a, k & 1, k & 2, &b);
    REQUIRE(!zip_open(&a, strbuf_str(&b), ZIP_LIMITS, &diag, &z));
    EXPECT_INT_EQ(z.n, 3);
    EXPECT(str_is(z.entry[1].name, "\xc3\xa4/empty"));
    REQUIRE(!zip_extract(&a, &z, &z.entry[0], &diag, &s));
    EXPECT(str_is(s, "hello, world"));
    REQUIRE(!zip_extract(&a, &z, &z.entry[1], &diag, &s));
    EXPECT_INT_EQ(s.n, 0);
    REQUIRE(!zip_extract(&a, &z, zip_find(&z, STR("zeros")), &diag, &s));
    EXPECT_INT_EQ(s.n, 100000);
    EXPECT(s.p[0] == 0 && s.p[99999] == 0);
    EXPECT(zip_find(&z, STR("nothing")) == NULL);
    if (!(k & 1)) EXPECT_INT_EQ(z.entry[2].data % 64, 0);
    arena_deinit(&a);
  }
}

// Every entry of an archive that opens, unpacked; the status of the first failure.
static tenon_status read_all(Arena *a, Str bytes) {
  Zip z;
  Str s;
  TRY(zip_open(a, bytes, ZIP_LIMITS, &diag, &z));
  for (int64_t i = 0; i < z.n; i++) TRY(zip_extract(a, &z, &z.entry[i], &diag, &s));
  return TENON_OK;
}

TEST(zip_truncated_anywhere) {
  Arena a;
  StrBuf b;
  arena_init(&a);
  build(&a, true, true, &b);
  for (int64_t n = 0; n < b.n; n++) {
    ArenaMark m = arena_mark(&a);
    diag_init(&diag);
    // A copy of the exact size, so that a sanitizer sees a read past it.
    char *p = arena_dup(&a, b.p, MAX(n, 1));
    if (read_all(&a, (Str){p, n}) == TENON_OK)
      FAIL("accepted %lld of %lld bytes", (long long)n, (long long)b.n);
    EXPECT(diag.len > 0);
    arena_reset(&a, m);
  }
  arena_deinit(&a);
}

TEST(zip_every_byte_flipped) {
  static const uint8_t patterns[] = {0x01, 0x80, 0xff, 0x40};
  Arena a;
  StrBuf b;
  arena_init(&a);
  build(&a, true, true, &b);
  for (int64_t i = 0; i < b.n; i++)
    for (int k = 0; k < 4; k++) {
      ArenaMark m = arena_mark(&a);
      diag_init(&diag);
      char *p = arena_dup(&a, b.p, b.n);
      p[i] = (char)(p[i] ^ patterns[k]);
      tenon_status s = read_all(&a, (Str){p, b.n});
      EXPECT((s == TENON_OK) == (diag.len == 0));
      arena_reset(&a, m);
    }
  arena_deinit(&a);
}

static int64_t find_sig(const StrBuf *b, const char *sig) {
  for (int64_t i = 0; i + 4 <= b->n; i++)
    if (!memcmp(b->p + i, sig, 4)) return i;
  return -1;
}

static void expect_refused(Arena *a, const StrBuf *b, tenon_status want, const char *part) {
  diag_init(&diag);
  EXPECT_STATUS(read_all(a, strbuf_str(b)), want);
  EXPECT_CONTAINS(diag.text, part);
}

TEST(zip_refuses) {
  Arena a;
  StrBuf b;
  arena_init(&a);
  diag_init(&diag);
  strbuf_init(&b, &a);
  expect_refused(&a, &b, TENON_EFORMAT, "too short");
  strbuf_puts(&b, "this is not an archive at all");
  expect_refused(&a, &b, TENON_EFORMAT, "no central directory");
  build(&a, false, false, &b);
  int64_t central = find_sig(&b, "PK\1\2");
  REQUIRE(central > 0);
  b.p[central + 8] |= 1;
  expect_refused(&a, &b, TENON_EUNSUPPORTED, "encrypted");
  build(&a, false, false, &b);
  b.p[central + 10] = 12;
  expect_refused(&a, &b, TENON_EUNSUPPORTED, "compression method 12");
  build(&a, false, false, &b);
  memcpy(b.p + central + 46, "..\\.t", 5);
  expect_refused(&a, &b, TENON_EFORMAT, "climbs");
  build(&a, false, false, &b);
  memcpy(b.p + central + 46, "\xff.txt", 5);
  expect_refused(&a, &b, TENON_EFORMAT, "UTF-8");
  build(&a, false, false, &b);
  b.p[find_sig(&b, "PK\3\4") + 14] ^= 1;
  expect_refused(&a, &b, TENON_EFORMAT, "differs from the directory");
  build(&a, false, false, &b);
  strbuf_puts(&b, "x");
  expect_refused(&a, &b, TENON_EFORMAT, "no central directory");
  arena_deinit(&a);
}

TEST(zip_refuses_duplicates_and_damage) {
  Arena a;
  StrBuf b;
  ZipWriter w;
  arena_init(&a);
  diag_init(&diag);
  strbuf_init(&b, &a);
  zip_begin(&w, &a, zip_put_strbuf, &b);
  for (int i = 0; i < 2; i++)
    EXPECT_STATUS(zip_add(&w, STR("same"), 1, (Str[]){STR("data")}, false, &diag), TENON_OK);
  EXPECT_STATUS(zip_end(&w, &diag), TENON_OK);
  expect_refused(&a, &b, TENON_EFORMAT, "twice");
  build(&a, false, false, &b);
  for (int64_t i = 0; i < b.n; i++)
    if (!memcmp(b.p + i, "hello", 5)) {
      b.p[i] = 'j';
      break;
    }
  expect_refused(&a, &b, TENON_EFORMAT, "checksum");
  arena_deinit(&a);
}

TEST(zip_bomb) {
  Arena a;
  StrBuf b;
  ZipWriter w;
  Zip z;
  arena_init(&a);
  diag_init(&diag);
  strbuf_init(&b, &a);
  zip_begin(&w, &a, zip_put_strbuf, &b);
  Str zeros = {arena_alloc(&a, 1 << 22), 1 << 22};
  for (int i = 0; i < 3; i++)
    EXPECT_STATUS(zip_add(&w, str_of(str_printf(&a, "%d", i)), 1, &zeros, true, &diag), TENON_OK);
  EXPECT_STATUS(zip_end(&w, &diag), TENON_OK);
  EXPECT_STATUS(zip_open(&a, strbuf_str(&b), ZIP_LIMITS, &diag, &z), TENON_OK);
  ZipLimits tight = {1 << 20, 100};
  EXPECT_STATUS(zip_open(&a, strbuf_str(&b), tight, &diag, &z), TENON_ENOMEM);
  EXPECT_CONTAINS(diag.text, "unpacks to more than");
  // A size that deflate cannot reach is a lie.
  int64_t central = find_sig(&b, "PK\1\2");
  REQUIRE(central > 0);
  memset(b.p + central + 24, 0x7f, 4);
  expect_refused(&a, &b, TENON_EFORMAT, "claims");
  arena_deinit(&a);
}

// Bit by bit, as the format says.
static uint32_t slow_crc(uint32_t crc, const char *p, int64_t n) {
  crc = ~crc;
  for (int64_t i = 0; i < n; i++) {
    crc ^= (uint8_t)p[i];
    for (int k = 0; k < 8; k++) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

TEST(zip_checksums_of_every_length) {
  char bytes[700];
  EXPECT(zip_crc(0, STR("123456789")) == 0xCBF43926u);
  for (int64_t i = 0; i < ARRAY_LEN(bytes); i++) bytes[i] = (char)(i * i * 31 + i / 7);
  for (int64_t n = 0; n < 600; n++) {
    uint32_t first = zip_crc(0, (Str){bytes + n % 17, n});
    if (first != slow_crc(0, bytes + n % 17, n)) FAIL("of %d bytes", (int)n);
    if (zip_crc(first, (Str){bytes, n}) != slow_crc(first, bytes, n))
      FAIL("after others: %d", (int)n);
  }
}
