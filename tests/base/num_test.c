// num_test.c -- element types: every 16-, 8- and 4-bit float, rounding at every half way, runs of
// elements.
#include "test.h"
#include "base/num.h"

#include <math.h>

static const DType small_floats[] = {DT_F8E4M3, DT_F8E4M3Z, DT_F8E5M2, DT_F8E5M2Z, DT_F4E2M1};

static double value_of(DType t, unsigned code) {
  if (t == DT_F16) return f16_to_f64((uint16_t)code);
  if (t == DT_BF16) return bf16_to_f64((uint16_t)code);
  return minifloat_to_f64(t, (uint8_t)code);
}
static unsigned code_of(DType t, double x) {
  if (t == DT_F16) return f16_from_f64(x);
  if (t == DT_BF16) return bf16_from_f64(x);
  return minifloat_from_f64(t, x, true);
}
static unsigned sign_bit(DType t) { return 1u << (dtype_bits(t) - 1); }

// ---- the table ----

TEST(dtype_table) {
  DType t;
  for (int i = 1; i <= 26; i++) {
    EXPECT(dtype_valid(i));
    EXPECT(dtype_parse(str_of(dtype_name((DType)i)), &t) && t == (DType)i);
    EXPECT(dtype_bits((DType)i) > 0 && dtype_class((DType)i) != DC_NONE);
  }
  EXPECT(!dtype_valid(0) && !dtype_valid(27) && !dtype_valid(-1) && !dtype_valid(INT64_MAX));
  EXPECT_STR_EQ(dtype_name((DType)99), "?");
  EXPECT(!dtype_parse(STR("f31"), &t) && !dtype_parse(STR(""), &t));
  EXPECT(dtype_is_float(DT_BF16) && !dtype_is_float(DT_I4) && dtype_is_int(DT_U2));
  EXPECT(!dtype_is_int(DT_BOOL));
}

TEST(dtype_bytes_checked) {
  int64_t n;
  EXPECT(dtype_bytes(DT_F32, 3, &n) && n == 12);
  EXPECT(dtype_bytes(DT_U4, 3, &n) && n == 2);
  EXPECT(dtype_bytes(DT_I2, 5, &n) && n == 2);
  EXPECT(dtype_bytes(DT_U2, 0, &n) && n == 0);
  EXPECT(dtype_bytes(DT_U4, INT64_MAX, &n) && n == INT64_C(1) << 62);
  EXPECT(dtype_bytes(DT_U8, INT64_MAX, &n) && n == INT64_MAX);
  EXPECT(!dtype_bytes(DT_U16, INT64_MAX, &n));
  EXPECT(!dtype_bytes(DT_STRING, INT64_C(1) << 60, &n));
  EXPECT(!dtype_bytes(DT_F32, -1, &n));
  EXPECT(!dtype_bytes((DType)0, 1, &n));
}

// ---- every code ----

// Each code comes back; between each code and the next, rounding goes to the nearer and half way to
// the even.
static void check_codes(DType t, unsigned max) {
  unsigned sign = sign_bit(t);
  int64_t wrong = 0;
  for (unsigned c = 0; c <= max; c++) {
    double x = value_of(t, c);
    wrong += code_of(t, x) != c;
    bool no_minus_zero = c == 0 && (t == DT_F8E4M3Z || t == DT_F8E5M2Z);
    wrong += code_of(t, -x) != (no_minus_zero ? 0 : c | sign);
    wrong += c && value_of(t, c | sign) != -x;
    if (c == max) break;
    double y = value_of(t, c + 1), mid = x + (y - x) / 2;
    wrong += !(x < y);
    wrong += code_of(t, mid) != (c & 1 ? c + 1 : c);
    wrong += code_of(t, nextafter(mid, 0)) != c;
    wrong += code_of(t, nextafter(mid, INFINITY)) != c + 1;
    wrong += c && code_of(t, -mid) != (sign | (c & 1 ? c + 1 : c));
  }
  if (wrong) FAIL("%s: %d wrong", dtype_name(t), (int)wrong);
}

TEST(f16_every_value) {
  check_codes(DT_F16, 0x7BFF);
  EXPECT_F64_EQ(f16_to_f64(0x3C00), 1.0);
  EXPECT_F64_EQ(f16_to_f64(0x0001), 0x1p-24);
  EXPECT_F64_EQ(f16_to_f64(0x7BFF), 65504.0);
  EXPECT_F64_EQ(f16_to_f64(0x8000), -0.0);
  EXPECT_F64_EQ(f16_to_f64(0xFC00), -INFINITY);
  for (unsigned c = 0x7C01; c <= 0x7FFF; c++) {
    EXPECT(isnan(f16_to_f64((uint16_t)c)) && isnan(f16_to_f64((uint16_t)(c | 0x8000))));
    EXPECT_INT_EQ(f16_from_f64(f16_to_f64((uint16_t)c)), c | 0x200);
  }
  EXPECT_INT_EQ(f16_from_f64(65519.99), 0x7BFF);
  EXPECT_INT_EQ(f16_from_f64(65520), 0x7C00);
  EXPECT_INT_EQ(f16_from_f64(-1e300), 0xFC00);
  EXPECT_INT_EQ(f16_from_f64(0x1p-25), 0);
  EXPECT_INT_EQ(f16_from_f64(0x1.0000000000001p-25), 1);
  EXPECT_INT_EQ(f16_from_f64(5e-324), 0);
  // Rounded through f32 first, this would be a half way and go down.
  EXPECT_INT_EQ(f16_from_f64(1 + 0x1p-11 + 0x1p-40), 0x3C01);
}

TEST(bf16_every_value) {
  check_codes(DT_BF16, 0x7F7F);
  EXPECT_F64_EQ(bf16_to_f64(0x3F80), 1.0);
  EXPECT_F64_EQ(bf16_to_f64(0x0001), 0x1p-133);
  EXPECT_F64_EQ(bf16_to_f64(0xFF80), -INFINITY);
  for (unsigned c = 0x7F81; c <= 0x7FFF; c++) {
    EXPECT(isnan(bf16_to_f64((uint16_t)c)) && isnan(bf16_to_f64((uint16_t)(c | 0x8000))));
    EXPECT_INT_EQ(bf16_from_f64(bf16_to_f64((uint16_t)c)), c | 0x40);
  }
  EXPECT_INT_EQ(bf16_from_f64(1e39), 0x7F80);
  EXPECT_INT_EQ(bf16_from_f64(1 + 0x1p-8 + 0x1p-50), 0x3F81);
  EXPECT_INT_EQ(bf16_from_f64(0x1p-134), 0);
}

TEST(small_floats_every_value) {
  const unsigned max[] = {0x7E, 0x7F, 0x7B, 0x7F, 7};
  const double largest[] = {448, 240, 57344, 57344, 6};
  const double least[] = {0x1p-9, 0x1p-10, 0x1p-16, 0x1p-17, 0.5};
  for (int i = 0; i < ARRAY_LEN(small_floats); i++) {
    DType t = small_floats[i];
    check_codes(t, max[i]);
    EXPECT_F64_EQ(minifloat_to_f64(t, (uint8_t)max[i]), largest[i]);
    EXPECT_F64_EQ(minifloat_to_f64(t, 1), least[i]);
    EXPECT_INT_EQ(minifloat_from_f64(t, 1e300, true), max[i]);
    EXPECT_INT_EQ(minifloat_from_f64(t, INFINITY, true), max[i]);
    EXPECT_INT_EQ(minifloat_from_f64(t, -INFINITY, true), max[i] | sign_bit(t));
  }
  double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (uint8_t c = 0; c < 8; c++) EXPECT_F64_EQ(minifloat_to_f64(DT_F4E2M1, c), e2m1[c]);
}

// ONNX's Cast table.
TEST(small_floats_special_values) {
  EXPECT(isnan(minifloat_to_f64(DT_F8E4M3, 0x7F)) && isnan(minifloat_to_f64(DT_F8E4M3, 0xFF)));
  EXPECT(isnan(minifloat_to_f64(DT_F8E4M3Z, 0x80)) && isnan(minifloat_to_f64(DT_F8E5M2Z, 0x80)));
  EXPECT_F64_EQ(minifloat_to_f64(DT_F8E5M2, 0x7C), INFINITY);
  EXPECT_F64_EQ(minifloat_to_f64(DT_F8E5M2, 0xFC), -INFINITY);
  for (unsigned c = 0x7D; c <= 0x7F; c++) EXPECT(isnan(minifloat_to_f64(DT_F8E5M2, (uint8_t)c)));
  for (int sat = 0; sat < 2; sat++) {
    EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3, NAN, sat) & 0x7F, 0x7F);
    EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3Z, NAN, sat), 0x80);
    EXPECT(isnan(minifloat_to_f64(DT_F8E5M2, minifloat_from_f64(DT_F8E5M2, NAN, sat))));
    EXPECT_INT_EQ(minifloat_from_f64(DT_F8E5M2Z, -NAN, sat), 0x80);
    EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3, -0.0, sat), 0x80);
    EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3Z, -0.0, sat), 0);
    EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3Z, -1e-9, sat), 0);
    EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3, 464, sat), 0x7E);
    EXPECT_INT_EQ(minifloat_from_f64(DT_F4E2M1, 100, sat), 7);
    EXPECT_INT_EQ(minifloat_from_f64(DT_F4E2M1, -INFINITY, sat), 15);
  }
  EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3, 464.01, false), 0x7F);
  EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3, -INFINITY, false), 0xFF);
  EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3Z, 248, false), 0x80);
  EXPECT_INT_EQ(minifloat_from_f64(DT_F8E4M3Z, 247.9, false), 0x7F);
  EXPECT_INT_EQ(minifloat_from_f64(DT_F8E5M2, 61440, false), 0x7C);
  EXPECT_INT_EQ(minifloat_from_f64(DT_F8E5M2, -61439, false), 0xFB);
  EXPECT_INT_EQ(minifloat_from_f64(DT_F8E5M2Z, INFINITY, false), 0x80);
}

TEST(e8m0_every_value) {
  for (int c = 0; c < 255; c++) {
    double x = minifloat_to_f64(DT_F8E8M0, (uint8_t)c);
    EXPECT_F64_EQ(x, ldexp(1, c - 127));
    for (int mode = ROUND_UP; mode <= ROUND_NEAREST; mode++)
      EXPECT_INT_EQ(e8m0_from_f64(x, false, (ScaleRound)mode), c);
    if (c == 254) break;
    EXPECT_INT_EQ(e8m0_from_f64(nextafter(x, INFINITY), true, ROUND_UP), c + 1);
    EXPECT_INT_EQ(e8m0_from_f64(nextafter(x * 2, 0), true, ROUND_DOWN), c);
    EXPECT_INT_EQ(e8m0_from_f64(x * 1.5, true, ROUND_NEAREST), c + 1);
    EXPECT_INT_EQ(e8m0_from_f64(nextafter(x * 1.5, 0), true, ROUND_NEAREST), c);
  }
  EXPECT(isnan(minifloat_to_f64(DT_F8E8M0, 255)));
  EXPECT_INT_EQ(e8m0_from_f64(0, true, ROUND_UP), 0);
  EXPECT_INT_EQ(e8m0_from_f64(0, false, ROUND_NEAREST), 255);
  EXPECT_INT_EQ(e8m0_from_f64(NAN, true, ROUND_UP), 255);
  EXPECT_INT_EQ(e8m0_from_f64(-1, true, ROUND_UP), 255);
  EXPECT_INT_EQ(e8m0_from_f64(INFINITY, true, ROUND_UP), 254);
  EXPECT_INT_EQ(e8m0_from_f64(INFINITY, false, ROUND_NEAREST), 255);
  EXPECT_INT_EQ(e8m0_from_f64(0x1.1p127, true, ROUND_UP), 254);
  EXPECT_INT_EQ(e8m0_from_f64(0x1.1p127, false, ROUND_UP), 255);
  EXPECT_INT_EQ(e8m0_from_f64(0x1p-200, true, ROUND_NEAREST), 0);
  EXPECT_INT_EQ(e8m0_from_f64(0x1p-200, false, ROUND_NEAREST), 255);
}

// ---- runs of elements ----

TEST(runs_agree_with_single_elements) {
  for (int t = 1; t <= 26; t++) {
    DTypeClass c = dtype_class((DType)t);
    if (c == DC_STRING || c == DC_COMPLEX) continue;
    uint64_t a[40] = {0}, b[40] = {0};
    double in[37], out[37];
    int64_t ints[37];
    for (int i = 0; i < 37; i++) in[i] = (i % 7 - 3) * (c == DC_UINT ? 0.5 : 1.25);
    store_f64((DType)t, a, 3, 37, in);
    for (int i = 0; i < 37; i++) put_f64((DType)t, b, 3 + i, in[i]);
    if (memcmp(a, b, sizeof(a))) FAIL("store_f64 of %s", dtype_name((DType)t));
    load_f64((DType)t, a, 3, 37, out);
    load_i64((DType)t, a, 3, 37, ints);
    for (int i = 0; i < 37; i++) {
      EXPECT_F64_EQ(out[i], get_f64((DType)t, a, 3 + i));
      EXPECT_INT_EQ(ints[i], get_i64((DType)t, a, 3 + i));
      EXPECT_F64_EQ(out[i], round_to((DType)t, in[i]));
    }
    for (int i = 0; i < 3; i++) EXPECT(get_f64((DType)t, a, i) == (t == DT_F8E8M0 ? 0x1p-127 : 0));
  }
}

// An empty tensor has no memory, and nothing is computed from its NULL (under
// UndefinedBehaviorSanitizer).
TEST(runs_of_nothing) {
  for (int i = 1; i <= 26; i++) {
    DType t = (DType)i;
    if (dtype_class(t) == DC_NONE || dtype_class(t) == DC_COMPLEX || t == DT_STRING) continue;
    load_f64(t, NULL, 0, 0, NULL);
    load_i64(t, NULL, 0, 0, NULL);
    store_f64(t, NULL, 0, 0, NULL);
    store_i64(t, NULL, 0, 0, NULL);
    uint64_t cell = UINT64_MAX;
    double x = 7;
    load_f64(t, &cell, 0, 0, &x);
    store_f64(t, &cell, 0, 0, &x);
    EXPECT(x == 7 && cell == UINT64_MAX);
  }
}

// Constants of a file lie at any address (under UndefinedBehaviorSanitizer).
TEST(elements_at_any_address) {
  for (int i = 1; i <= 26; i++) {
    DType t = (DType)i;
    if (!dtype_is_float(t) && !dtype_is_int(t) && t != DT_BOOL) continue;
    char block[64] = {0}, *odd = block + 1;
    put_f64(t, odd, 2, 1);
    EXPECT(get_f64(t, odd, 2) == 1 && get_i64(t, odd, 2) == 1);
    if (dtype_is_float(t)) continue;
    put_i64(t, odd, 2, 0);
    EXPECT(get_f64(t, odd, 2) == 0 && get_i64(t, odd, 2) == 0);
  }
}

TEST(sub_byte_packing) {
  uint8_t b[4] = {0};
  for (int i = 0; i < 4; i++) put_i64(DT_I4, b, i, i - 2);
  EXPECT_INT_EQ(b[0], 0xFE);
  EXPECT_INT_EQ(b[1], 0x10);
  for (int i = 0; i < 4; i++) EXPECT_INT_EQ(get_i64(DT_I4, b, i), i - 2);
  memset(b, 0xFF, sizeof(b));
  put_i64(DT_U2, b, 1, 0);
  EXPECT_INT_EQ(b[0], 0xF3);
  EXPECT_INT_EQ(get_i64(DT_I2, b, 0), -1);
  EXPECT_INT_EQ(get_i64(DT_U2, b, 0), 3);
  put_i64(DT_I2, b, 2, -2);
  EXPECT_INT_EQ(get_i64(DT_I2, b, 2), -2);
  put_i64(DT_U4, b, 3, 17);
  EXPECT_INT_EQ(get_i64(DT_U4, b, 3), 1);
  put_f64(DT_F4E2M1, b, 5, -3.1);
  EXPECT_F64_EQ(get_f64(DT_F4E2M1, b, 5), -3.0);
}

TEST(integers_from_floats) {
  uint64_t cell;
  put_f64(DT_I8, &cell, 0, -1.9);
  EXPECT_INT_EQ(get_i64(DT_I8, &cell, 0), -1);
  put_f64(DT_U8, &cell, 0, -1);
  EXPECT_INT_EQ(get_i64(DT_U8, &cell, 0), 255);
  put_f64(DT_I8, &cell, 0, 200);
  EXPECT_INT_EQ(get_i64(DT_I8, &cell, 0), -56);
  put_f64(DT_I64, &cell, 0, 1e300);
  EXPECT_INT_EQ(get_i64(DT_I64, &cell, 0), INT64_MAX);
  put_f64(DT_I64, &cell, 0, -INFINITY);
  EXPECT_INT_EQ(get_i64(DT_I64, &cell, 0), INT64_MIN);
  put_f64(DT_I32, &cell, 0, NAN);
  EXPECT_INT_EQ(get_i64(DT_I32, &cell, 0), 0);
  put_f64(DT_U64, &cell, 0, 0x1.8p63);
  EXPECT_F64_EQ(get_f64(DT_U64, &cell, 0), 0x1.8p63);
  put_f64(DT_U64, &cell, 0, 1e30);
  EXPECT_INT_EQ(get_i64(DT_U64, &cell, 0), -1);
  put_f64(DT_BOOL, &cell, 0, NAN);
  EXPECT_INT_EQ(get_i64(DT_BOOL, &cell, 0), 1);
  put_f64(DT_BOOL, &cell, 0, -0.0);
  EXPECT_INT_EQ(get_i64(DT_BOOL, &cell, 0), 0);
  put_f64(DT_F32, &cell, 0, NAN);
  EXPECT_INT_EQ(get_i64(DT_F32, &cell, 0), 0);
  put_f64(DT_F32, &cell, 0, -7.9);
  EXPECT_INT_EQ(get_i64(DT_F32, &cell, 0), -7);
}

TEST(integers_to_floats) {
  uint64_t cell = 0;
  put_i64(DT_F32, &cell, 0, (1 << 24) + 1);
  EXPECT_F64_EQ(get_f64(DT_F32, &cell, 0), 0x1p24);
  put_i64(DT_F16, &cell, 0, 2049);
  EXPECT_F64_EQ(get_f64(DT_F16, &cell, 0), 2048.0);
  put_i64(DT_F16, &cell, 0, INT64_MIN);
  EXPECT_F64_EQ(get_f64(DT_F16, &cell, 0), -INFINITY);
  // Just above half way between two bf16 values: through double it would be half way.
  put_i64(DT_BF16, &cell, 0, (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1);
  EXPECT_F64_EQ(get_f64(DT_BF16, &cell, 0), 0x1.02p62);
  put_i64(DT_BF16, &cell, 0, -(INT64_C(1) << 62) - (INT64_C(1) << 54));
  EXPECT_F64_EQ(get_f64(DT_BF16, &cell, 0), -0x1p62);
}
