// npy_test.c -- array files: every dtype both ways, the orders, and the bad files N1 to N9.
#include "base/npy.h"

#include "base/platform.h"
#include "base/zip.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static Diag diag;

// A file of version 1.0 with this header text and payload.
static Str make(Arena *a, const char *header, Str payload) {
  StrBuf b;
  strbuf_init(&b, a);
  int64_t n = (int64_t)strlen(header) + 1;
  strbuf_put(&b, (Str){"\x93NUMPY\x01\x00", 8});
  strbuf_putc(&b, (char)(n & 0xff));
  strbuf_putc(&b, (char)(n >> 8));
  strbuf_puts(&b, header);
  strbuf_putc(&b, '\n');
  strbuf_put(&b, payload);
  return (Str){arena_dup(a, b.p, b.n), b.n};
}

TEST(npy_orders) {
  Arena a;
  NdArray v;
  arena_init(&a);
  diag_init(&diag);
  float f[6] = {0, 1, 2, 3, 4, 5};
  Str data = {(char *)f, sizeof f};
  REQUIRE(!npy_read(&a,
                    make(&a, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", data),
                    &diag, &v));
  EXPECT(v.dtype == DT_F32 && v.rank == 2 && v.dims[0] == 2 && v.dims[1] == 3 && v.n == 6);
  EXPECT_F64_EQ(get_f64(v.dtype, v.data, 4), 4);
  REQUIRE(!npy_read(&a, make(&a, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", data),
                    &diag, &v));
  static const double want[] = {0, 2, 4, 1, 3, 5};
  for (int i = 0; i < 6; i++) EXPECT_F64_EQ(get_f64(v.dtype, v.data, i), want[i]);
  static const char big[] = {0, 1, 2, 3, 0x7f, (char)0xff};
  REQUIRE(!npy_read(
      &a, make(&a, "{\"shape\":(3L,),\"descr\":\">i2\",\"fortran_order\":False}", (Str){big, 6}),
      &diag, &v));
  EXPECT_INT_EQ(get_i64(v.dtype, v.data, 0), 1);
  EXPECT_INT_EQ(get_i64(v.dtype, v.data, 1), 0x203);
  EXPECT_INT_EQ(get_i64(v.dtype, v.data, 2), 0x7fff);
  REQUIRE(!npy_read(
      &a, make(&a, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", (Str){"\2", 1}), &diag,
      &v));
  EXPECT(v.dtype == DT_BOOL && v.rank == 0 && v.n == 1 && get_i64(v.dtype, v.data, 0) == 1);
  REQUIRE(!npy_read(&a,
                    make(&a, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 0)}", STR("")),
                    &diag, &v));
  EXPECT(v.rank == 2 && v.n == 0);
  arena_deinit(&a);
}

TEST(npy_text) {
  Arena a;
  NdArray v;
  arena_init(&a);
  diag_init(&diag);
  static const char u[] = "\x61\0\0\0\xe4\0\0\0\x00\xf6\x01\0\0\0\0\0";  // "aä" and U+1F600
  REQUIRE(!npy_read(
      &a, make(&a, "{'descr': '<U2', 'fortran_order': False, 'shape': (2,)}", (Str){u, 16}), &diag,
      &v));
  const Str *s = v.data;
  EXPECT(v.dtype == DT_STRING && str_is(s[0], "a\xc3\xa4") && str_is(s[1], "\xf0\x9f\x98\x80"));
  REQUIRE(!npy_read(
      &a, make(&a, "{'descr': '|S3', 'fortran_order': False, 'shape': (2,)}", (Str){"ab\0xyz", 6}),
      &diag, &v));
  s = v.data;
  EXPECT(str_is(s[0], "ab") && str_is(s[1], "xyz"));
  EXPECT_STATUS(npy_read(&a,
                         make(&a, "{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}",
                              (Str){"\0\xd8\0\0", 4}),
                         &diag, &v),
                TENON_EFORMAT);
  arena_deinit(&a);
}

TEST(npy_every_dtype_round_trips) {
  Arena a;
  arena_init(&a);
  for (int t = 1; t <= 26; t++) {
    diag_init(&diag);
    NdArray v = {.name = STR("x"), .dtype = (DType)t, .rank = 2, .dims = {3, 5}, .n = 15}, r;
    StrBuf b;
    Str text[15];
    CHECK(dtype_bytes((DType)t, 15, &v.bytes), "small");
    uint8_t *p = arena_alloc(&a, v.bytes);
    for (int64_t i = 0; i < v.bytes; i++)
      p[i] = t == DT_BOOL ? (uint8_t)(i & 1) : (uint8_t)(i * 37 + 11);
    int64_t tail = 15 * dtype_bits((DType)t) % 8;  // unused bits of the last byte are zero
    if (tail) p[v.bytes - 1] &= (uint8_t)((1 << tail) - 1);
    v.data = p;
    for (int i = 0; i < 15; i++) text[i] = str_of(str_printf(&a, "n\xc3\xb6 %d", i * i));
    if (t == DT_STRING) v.data = text;
    strbuf_init(&b, &a);
    EXPECT_STATUS(npy_format(&a, &v, &b, &diag), TENON_OK);
    REQUIRE(!npy_read(&a, strbuf_str(&b), &diag, &r));
    EXPECT_STATUS(nd_convert(&a, &r, (DType)t, &diag), TENON_OK);
    EXPECT(r.dtype == (DType)t && r.rank == 2 && r.dims[1] == 5 && r.n == 15 && r.bytes == v.bytes);
    if (t == DT_STRING) {
      for (int i = 0; i < 15; i++) EXPECT(str_eq(((const Str *)r.data)[i], text[i]));
    } else if (memcmp(r.data, v.data, (size_t)v.bytes)) {
      FAIL("%s does not round-trip", dtype_name((DType)t));
    }
  }
  arena_deinit(&a);
}

TEST(npy_carriers) {
  Arena a;
  arena_init(&a);
  diag_init(&diag);
  NdArray v = {.name = STR("x"),
               .dtype = DT_I8,
               .rank = 1,
               .dims = {3},
               .n = 3,
               .bytes = 3,
               .data = "\x07\xf8\xff"};
  NdArray w = v;
  EXPECT_STATUS(nd_convert(&a, &w, DT_I4, &diag), TENON_OK);
  EXPECT_INT_EQ(get_i64(DT_I4, w.data, 1), -8);
  w = v;
  w.data = "\x07\x08\x00";
  EXPECT_STATUS(nd_convert(&a, &w, DT_I4, &diag), TENON_EINVAL);
  EXPECT_CONTAINS(diag.text, "element 1 is 8");
  w = v;
  EXPECT_STATUS(nd_convert(&a, &w, DT_F32, &diag), TENON_EINVAL);
  w = (NdArray){.name = STR("x"),
                .rank = 1,
                .dims = {2},
                .n = 2,
                .bytes = 4,
                .void_bytes = 2,
                .data = "\x80\x3f\x00\x40"};
  EXPECT_STATUS(nd_convert(&a, &w, DT_F32, &diag), TENON_EINVAL);
  EXPECT_STATUS(nd_convert(&a, &w, DT_BF16, &diag), TENON_OK);
  EXPECT_F64_EQ(get_f64(w.dtype, w.data, 1), 2);
  arena_deinit(&a);
}

// clang-format off
static const struct {
  const char *header, *says;
  tenon_status status;
} bad_headers[] = {
  {"{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os')}", "not a tuple", TENON_EFORMAT},
  {"__import__('os').system('true')", "not a plain dictionary", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False}", "lacks", TENON_EFORMAT},
  {"{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", "twice", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "unknown header key", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1", "after the header", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "neither True nor False", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "not a size", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", "not a size", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "not a tuple", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}", "not a size", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "overflows", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9223372036854775807)}", "overflows", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", "16 dimensions", TENON_EFORMAT},
  {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "asks for 2 elements", TENON_EFORMAT},
  {"{'descr': '<f2', 'fortran_order': False, 'shape': (1,)}", "after the last element", TENON_EFORMAT},
  {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "pickle", TENON_EUNSUPPORTED},
  {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured", TENON_EUNSUPPORTED},
  {"{'descr': '|V12', 'fortran_order': False, 'shape': (1,)}", "'|V12' is not known", TENON_EUNSUPPORTED},
  {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}", "is not known", TENON_EUNSUPPORTED},
  {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", "is not known", TENON_EUNSUPPORTED},
  {"{'descr': '<f-4', 'fortran_order': False, 'shape': (1,)}", "is not known", TENON_EUNSUPPORTED},
  {"{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (1,)}", "escapes", TENON_EFORMAT},
  {"{'descr': '<U99999999999', 'fortran_order': False, 'shape': (1,)}", "is not known", TENON_EUNSUPPORTED},
  {"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}", "after the last", TENON_EFORMAT},
  {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "not a plain dictionary", TENON_EFORMAT},
};
// clang-format on

TEST(npy_refuses) {
  Arena a;
  NdArray v;
  arena_init(&a);
  for (int64_t i = 0; i < ARRAY_LEN(bad_headers); i++) {
    diag_init(&diag);
    tenon_status s = npy_read(&a, make(&a, bad_headers[i].header, (Str){"\0\0\0\0", 4}), &diag, &v);
    if (s != bad_headers[i].status) FAIL("status %d for %s", s, bad_headers[i].header);
    EXPECT_CONTAINS(diag.text, bad_headers[i].says);
  }
  diag_init(&diag);
  EXPECT_STATUS(npy_read(&a, STR("\x93NUMPX\x01\x00"), &diag, &v), TENON_EFORMAT);
  EXPECT_STATUS(npy_read(&a, (Str){"\x93NUMPY\x04\x00\0\0\0\0", 12}, &diag, &v),
                TENON_EUNSUPPORTED);
  EXPECT_STATUS(npy_read(&a, (Str){"\x93NUMPY\x01\x00\xff\xff{}", 12}, &diag, &v), TENON_EFORMAT);
  EXPECT_STATUS(npy_read(&a, (Str){NULL, 0}, &diag, &v), TENON_EFORMAT);
  arena_deinit(&a);
}

TEST(npy_truncated_and_flipped) {
  static const uint8_t patterns[] = {1, 0x80, 0xff};
  Arena a;
  NdArray v;
  arena_init(&a);
  Str good = make(&a, "{'descr': '<U3', 'fortran_order': True, 'shape': (1, 2)}",
                  (Str){"a\0\0\0b\0\0\0c\0\0\0d\0\0\0e\0\0\0f\0\0\0", 24});
  diag_init(&diag);
  REQUIRE(!npy_read(&a, good, &diag, &v));
  for (int64_t n = 0; n < good.n; n++) {
    ArenaMark m = arena_mark(&a);
    char *p = arena_dup(&a, good.p, MAX(n, 1));
    EXPECT(npy_read(&a, (Str){p, n}, &diag, &v) != TENON_OK);
    for (int k = 0; k < 3; k++) {
      p = arena_dup(&a, good.p, good.n);
      p[n] = (char)(p[n] ^ patterns[k]);
      (void)(npy_read(&a, (Str){p, good.n}, &diag, &v) == TENON_OK);
    }
    arena_reset(&a, m);
  }
  arena_deinit(&a);
}

TEST(npz_round_trip) {
  static const int64_t ints[] = {1, -2, 3};
  static const Str texts[] = {STR("eins"), STR("zw\xc3\xb6lf")};
  NdArray in[] = {
      {.name = STR("/layer/out:0"),
       .dtype = DT_I64,
       .rank = 1,
       .dims = {3},
       .n = 3,
       .bytes = 24,
       .data = ints},
      {.name = STR("gr\xc3\xb6\xc3\x9f"
                   "e"),
       .dtype = DT_STRING,
       .rank = 1,
       .dims = {2},
       .n = 2,
       .bytes = 32,
       .data = texts},
  };
  char path[] = "/tmp/tenon-npz-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  for (int deflated = 0; deflated < 2; deflated++) {
    Arena a;
    File f;
    NdArrayList l;
    arena_init(&a);
    diag_init(&diag);
    REQUIRE(!npz_write(path, in, 2, deflated, &diag));
    REQUIRE(!file_open(path, &f, &diag));
    EXPECT_STATUS(nd_read(&a, (Str){(const char *)f.bytes, f.size}, &diag, &l), TENON_OK);
    EXPECT_INT_EQ(l.n, 2);
    const NdArray *v = nd_find(&l, in[0].name), *t = nd_find(&l, in[1].name);
    REQUIRE(v && t);
    EXPECT(!memcmp(v->data, ints, sizeof ints));
    EXPECT(str_eq(((const Str *)t->data)[1], texts[1]));
    // A stored member is used in place.
    if (!deflated)
      EXPECT((const uint8_t *)v->data > f.bytes && (const uint8_t *)v->data < f.bytes + f.size);
    file_close(&f);
    arena_deinit(&a);
  }
  unlink(path);
  diag_init(&diag);
  EXPECT_STATUS(npz_write("/nonexistent/folder/x.npz", in, 2, false, &diag), TENON_EIO);
}

TEST(npz_refuses) {
  Arena a;
  StrBuf b;
  ZipWriter w;
  NdArrayList l;
  arena_init(&a);
  static const char *const names[] = {"x.txt", "../x.npy", "x.npy"};
  static const char *const says[] = {"not an .npy member", "climbs", "(x.npy): byte 0"};
  for (int i = 0; i < 3; i++) {
    diag_init(&diag);
    strbuf_init(&b, &a);
    zip_begin(&w, &a, zip_put_strbuf, &b);
    EXPECT_STATUS(zip_add(&w, str_of(names[i]), 1, (Str[]){STR("junk")}, false, &diag), TENON_OK);
    EXPECT_STATUS(zip_end(&w, &diag), TENON_OK);
    EXPECT_STATUS(npz_read(&a, strbuf_str(&b), &diag, &l), TENON_EFORMAT);
    EXPECT_CONTAINS(diag.text, says[i]);
  }
  arena_deinit(&a);
}
