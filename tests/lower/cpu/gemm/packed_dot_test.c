// packed_dot_test.c -- integer contractions, as loops and as machine code, against the interpreter:
// every bit.
//
// Shapes that fill no word and no panel, borders, groups, both signs, zero points at the ends of
// the range and in the middle, known and given at run time, weights of either sign.
#include "compiled.h"
#include "codegen.h"
#include "ir/interpret.h"
#include "runtime/session.h"
#include "targets/cpu.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
  return (int64_t)(rng % (uint64_t)n);
}

static double
    near_scale;  // not 0: floats lie near halves of it, where quotients are rounded either way

static double near_half(void) {
  float x = (float)(((double)draw(600) - 300 + 0.5) * near_scale);
  int64_t by = draw(7) - 3, which = draw(100);
  for (; by > 0; by--) x = nextafterf(x, INFINITY);
  for (; by < 0; by++) x = nextafterf(x, -INFINITY);
  return which ? (double)x : draw(2) ? (double)INFINITY : draw(2) ? -(double)INFINITY : (double)NAN;
}

static void fill(Value *v) {
  for (int64_t k = 0; k < v->n; k++) {
    if (v->dtype == DT_F32 && near_scale != 0)
      val_put_f64(v, k, near_half());
    else if (v->dtype == DT_F32)
      val_put_f64(v, k, (double)draw(2000) / 100 - 10);
    else
      val_put_i64(v, k, v->dtype == DT_I8 ? draw(256) - 128 : draw(256));
  }
}

// Bytes of a constant, of the whole range.
static void print_bytes(StrBuf *b, const char *name, bool is_signed, int rank,
                        const int64_t *dims) {
  int64_t n = 1;
  strbuf_printf(b, "  %%%s = const %s[", name, is_signed ? "i8" : "u8");
  for (int i = 0; i < rank; i++) {
    strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)dims[i]);
    n *= dims[i];
  }
  strbuf_printf(b, "] {");
  for (int64_t i = 0; i < n; i++)
    strbuf_printf(b, "%s%lld", i ? ", " : "", (long long)(draw(256) - (is_signed ? 128 : 0)));
  strbuf_printf(b, "}\n");
}

static void print_zero(StrBuf *b, const char *name, bool is_signed, int64_t v) {
  strbuf_printf(b, "  %%%s = const %s[] {%lld}\n", name, is_signed ? "i8" : "u8", (long long)v);
}

static void compare(const char *text, const char *target) {
  static BothWays b;
  rng = 5;
  bool ok = both_ways_run(&b, text, target, fill, NULL, NULL);
  if (!ok) FAIL("%s\n%s", b.diag.text, text);
  for (int64_t i = 0; ok && i < b.want[0]->n; i++)
    if (val_f64(b.want[0], i) != val_f64(b.got[0], i)) {
      FAIL("%s: element %d is %g instead of %g\n%s", target, (int)i, val_f64(b.got[0], i),
           val_f64(b.want[0], i), text);
      break;
    }
  both_ways_free(&b);
}

static void compare_all(const char *text) {
  compare(text, "ref");
  if (target_available(target_find("cpu"))) compare(text, "cpu");
}

// Lanes that lie outside hold no divisor: nothing is divided there.
TEST(lower_division_after_a_product) {
  static const char *const op[] = {"div", "mod", "fmod"};
  for (int i = 0; i < ARRAY_LEN(op); i++) {
    char text[600];
    snprintf(text, sizeof text,
             "graph @\"g\"(%%x: i8[m, 3]) {\n"
             "  %%w = const i8[3, 5] {1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 1}\n"
             "  %%y = const i32[5] {1, -2, 3, 4, -5}\n"
             "  %%p = mat_mul_integer(%%x, %%w)\n  %%r = %s(%%p, %%y)\n  return %%r\n}",
             op[i]);
    compare_all(text);
  }
}

// ---- matrices ----

typedef struct Signs {
  bool x, w, y;  // is it signed?
} Signs;

static int64_t some_zero(bool is_signed, int64_t which) {
  static const int64_t zero[] = {0, 7, 128, 255};
  return zero[which % 4] - (is_signed ? 128 : 0);
}

static void check_mat_mul(Arena *a, Signs s, int64_t k, int64_t n, int64_t which, bool quantised) {
  StrBuf b;
  strbuf_init(&b, a);
  const char *xt = s.x ? "i8" : "u8";
  rng = (uint64_t)(k * 100 + n);
  strbuf_printf(&b, "graph @\"g\"(%%x: %s[m, %lld]%s) {\n", xt, (long long)k,
                which == 4 ? (s.x ? ", %xz: i8[]" : ", %xz: u8[]") : "");
  print_bytes(&b, "w", s.w, 2, (int64_t[]){k, n});
  if (which != 4) print_zero(&b, "xz", s.x, some_zero(s.x, which));
  // The third kind of weight is about a number in the middle.
  print_zero(&b, "wz", s.w, (s.w ? 0 : 128) + (which == 3 ? 3 : 0));
  if (quantised) {
    print_zero(&b, "yz", s.y, s.y ? -3 : 100);
    strbuf_printf(&b,
                  "  %%xs = const f32[] {0.02}\n  %%ws = const f32[] {0.03}\n"
                  "  %%ys = const f32[] {%s}\n"
                  "  %%y = q_linear_mat_mul(%%x, %%xs, %%xz, %%w, %%ws, %%wz, %%ys, %%yz)\n",
                  k < 10 ? "0.3" : "1.7");
  } else {
    strbuf_printf(&b, "  %%y = mat_mul_integer(%%x, %%w, %%xz, %%wz)\n");
  }
  strbuf_printf(&b, "  return %%y\n}\n");
  compare_all(strbuf_text(&b));
}

TEST(lower_products_of_bytes) {
  static const int64_t depth[] = {1, 4, 7, 64, 259}, width[] = {3, 16, 37};
  Arena a;
  arena_init(&a);
  int64_t i = 0;
  for (int sign = 0; sign < 8; sign++)
    for (int d = 0; d < ARRAY_LEN(depth); d++, i++)
      check_mat_mul(&a, (Signs){sign & 1, sign & 2, sign & 4}, depth[d], width[i % 3], i % 5,
                    i % 2);
  arena_deinit(&a);
}

// ---- convolutions ----

typedef struct ConvCase {
  int64_t channels, out, group, kernel, stride, pad;
} ConvCase;
static const ConvCase conv_case[] = {{3, 8, 1, 3, 1, 1},   {8, 5, 1, 3, 1, 1}, {8, 40, 1, 1, 1, 0},
                                     {16, 16, 1, 1, 2, 0}, {6, 6, 6, 3, 1, 1}, {12, 8, 4, 3, 2, 1},
                                     {8, 8, 2, 3, 1, 1},   {1, 4, 1, 5, 2, 2}, {20, 33, 1, 2, 1, 1},
                                     {5, 3, 1, 1, 1, 0}};
// Every channel by itself: words of two to five lines, whole and ragged panels.
static const ConvCase depth_case[] = {{40, 40, 40, 3, 1, 1}, {24, 24, 24, 3, 2, 1},
                                      {16, 16, 16, 5, 1, 2}, {33, 33, 33, 5, 2, 2},
                                      {64, 64, 64, 2, 1, 0}, {32, 32, 32, 4, 2, 1}};

static void check_conv(Arena *a, const ConvCase *c, Signs s, int64_t which) {
  StrBuf b;
  strbuf_init(&b, a);
  rng = (uint64_t)(c->channels * 10 + c->out);
  strbuf_printf(&b, "graph @\"g\"(%%x: %s[%s, %lld, 6, 9]) {\n", s.x ? "i8" : "u8",
                which % 2 ? "b" : "2", (long long)c->channels);
  print_bytes(&b, "w", s.w, 4, (int64_t[]){c->out, c->channels / c->group, c->kernel, c->kernel});
  print_zero(&b, "xz", s.x, some_zero(s.x, which));
  if (which % 3 == 2)  // a zero point of its own for each channel
    print_bytes(&b, "wz", s.w, 1, &c->out);
  else
    print_zero(&b, "wz", s.w, (s.w ? 0 : 128) + (which % 3 ? 0 : 60));
  print_zero(&b, "yz", s.y, s.y ? -100 : 0);
  strbuf_printf(
      &b, "  %%xs = const f32[] {0.02}\n  %%ys = const f32[] {0.7}\n  %%ws = const f32[%lld] {",
      (long long)c->out);
  for (int64_t i = 0; i < c->out; i++)
    strbuf_printf(&b, "%s%g", i ? ", " : "", 0.01 + (double)i / 700);
  strbuf_printf(&b, "}\n  %%bias = const i32[%lld] {", (long long)c->out);
  for (int64_t i = 0; i < c->out; i++)
    strbuf_printf(&b, "%s%lld", i ? ", " : "", (long long)(i * 400 - 3000));
  strbuf_printf(&b,
                "}\n  %%y = q_linear_conv(%%x, %%xs, %%xz, %%w, %%ws, %%wz, %%ys, %%yz, %%bias) "
                "group=%lld strides=[%lld, %lld] pads=[%lld, %lld, %lld, %lld]\n  return %%y\n}\n",
                (long long)c->group, (long long)c->stride, (long long)c->stride, (long long)c->pad,
                (long long)c->pad, (long long)c->pad, (long long)c->pad);
  compare_all(strbuf_text(&b));
}

TEST(lower_convolutions_of_bytes) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < ARRAY_LEN(conv_case); i++)
    for (int sign = 0; sign < 4; sign++)
      check_conv(&a, &conv_case[i], (Signs){sign & 1, sign & 2, i & 1}, i + sign);
  arena_deinit(&a);
}

TEST(lower_depthwise_bytes) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < ARRAY_LEN(depth_case); i++)
    for (int sign = 0; sign < 4; sign++)
      check_conv(&a, &depth_case[i], (Signs){sign & 1, sign & 2, i & 1}, i / 2 + sign);
  arena_deinit(&a);
}

// Dilated, and higher than the image.
TEST(lower_depthwise_bytes_reach) {
  static const char *const at[] = {"dilations=[2, 1] pads=[2, 1, 2, 1]", "pads=[6, 1, 6, 1]",
                                   "dilations=[3, 2] pads=[0, 2, 3, 2] strides=[1, 2]"};
  Arena a;
  arena_init(&a);
  for (int i = 0; i < ARRAY_LEN(at); i++) {
    StrBuf b;
    strbuf_init(&b, &a);
    int64_t dims[] = {32, 1, i == 1 ? 9 : 3, 3};
    strbuf_printf(&b, "graph @\"g\"(%%x: u8[1, 32, 5, 11]) {\n");
    print_bytes(&b, "w", true, 4, dims);
    print_zero(&b, "xz", false, 0);
    strbuf_printf(&b, "  %%y = conv_integer(%%x, %%w, %%xz) group=32 %s\n  return %%y\n}\n", at[i]);
    compare_all(strbuf_text(&b));
  }
  arena_deinit(&a);
}

// ---- bytes made of other bytes ----

// A scale of any size that quantisers write.
static double some_scale(void) { return (double)(float)((double)(1 + draw(99999)) * 3e-6); }

// A convolution's byte and another one are added and made a byte again.
TEST(lower_sums_of_bytes) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 12; i++) {
    StrBuf b;
    strbuf_init(&b, &a);
    rng = (uint64_t)i;
    bool is_signed = i % 2;
    const char *t = is_signed ? "i8" : "u8";
    strbuf_printf(&b, "graph @\"g\"(%%x: u8[1, 8, 4, 9], %%r: %s[1, 20, 4, 9]) {\n", t);
    print_bytes(&b, "w", true, 4, (int64_t[]){20, 8, 1, 1});
    print_zero(&b, "xz", false, draw(256));
    print_zero(&b, "wz", true, 0);
    print_zero(&b, "yz", is_signed, draw(256) - (is_signed ? 128 : 0));
    print_zero(&b, "rz", is_signed, draw(256) - (is_signed ? 128 : 0));
    print_zero(&b, "sz", is_signed, draw(256) - (is_signed ? 128 : 0));
    strbuf_printf(&b,
                  "  %%xs = const f32[] {0.02}\n  %%ws = const f32[] {0.01}\n"
                  "  %%ys = const f32[] {%.9g}\n  %%rs = const f32[] {%.9g}\n"
                  "  %%ss = const f32[] {%.9g}\n",
                  some_scale(), some_scale(), some_scale());
    strbuf_printf(&b, "  %%c = q_linear_conv(%%x, %%xs, %%xz, %%w, %%ws, %%wz, %%ys, %%yz)\n"
                      "  %%cf = dequantize_linear(%%c, %%ys, %%yz)\n"
                      "  %%rf = dequantize_linear(%%r, %%rs, %%rz)\n"
                      "  %%s = add(%%cf, %%rf)\n"
                      "  %%y = quantize_linear(%%s, %%ss, %%sz)\n  return %%y\n}\n");
    compare_all(strbuf_text(&b));
  }
  arena_deinit(&a);
}

// Quotients near halves, infinities and NaN: division by a constant gives the integers of the
// division.
TEST(lower_quantised_floats) {
  Arena a;
  arena_init(&a);
  for (int i = 0; i < 16; i++) {
    StrBuf b;
    strbuf_init(&b, &a);
    rng = (uint64_t)i;
    static const double extreme[] = {1e-30, 3e20, 1.0, 0.3333333433};
    double scale = i < 4 ? extreme[i] : some_scale();
    bool is_signed = i % 2;
    near_scale = (double)(float)scale;
    strbuf_printf(&b, "graph @\"g\"(%%x: f32[3, 999]) {\n  %%s = const f32[] {%.9g}\n", near_scale);
    print_zero(&b, "z", is_signed, draw(256) - (is_signed ? 128 : 0));
    strbuf_printf(&b, "  %%y = quantize_linear(%%x, %%s, %%z)\n  return %%y\n}\n");
    compare_all(strbuf_text(&b));
  }
  near_scale = 0;
  arena_deinit(&a);
}

// An image that comes channels first in floats, is quantised, and gets a border and a fourth
// channel.
TEST(lower_quantised_images) {
  compare_all("graph @\"g\"(%x: f32[2, 3, 9, 70]) {\n"
              "  %s = const f32[] {0.037}\n  %z = const u8[] {130}\n"
              "  %p = const i64[8] {0, 1, 1, 0, 0, 1, 1, 1}\n"
              "  %q = quantize_linear(%x, %s, %z)\n"
              "  %t = transpose(%q) perm=[0, 2, 3, 1]\n"
              "  %y = pad(%t, %p, %z)\n  return %y\n}\n");
}

// ---- int4 weights ----

typedef struct BitsCase {
  int bits, block, depth, rows;
  const char *m;
  bool zero;
} BitsCase;

static void check_n_bits(Arena *a, const BitsCase *c, const char *target) {
  static BothWays w;
  StrBuf b;
  strbuf_init(&b, a);
  int64_t blocks = (c->depth + c->block - 1) / c->block;
  rng = (uint64_t)(c->bits + c->depth);
  strbuf_printf(&b, "graph @\"g\"(%%x: f32[%s, %d], %%c: f32[%d]) {\n", c->m, c->depth, c->rows);
  print_bytes(&b, "w", false, 3, (int64_t[]){c->rows, blocks, c->block * c->bits / 8});
  for (int k = 0; k < 2; k++) {
    strbuf_printf(&b, "  %%%s = const f32[%d, %lld] {", k ? "z" : "s", c->rows, (long long)blocks);
    for (int64_t i = 0; i < c->rows * blocks; i++)
      strbuf_printf(&b, "%s%g", i ? ", " : "",
                    k ? (double)draw(1 << c->bits) : (double)(1 + draw(99)) / 1000);
    strbuf_printf(&b, "}\n");
  }
  strbuf_printf(&b,
                "  %%p = mat_mul_n_bits(%%x, %%w, %%s%s) bits=%d\n  %%a = add(%%p, %%c)\n"
                "  %%y = relu(%%a)\n  return %%y, %%p\n}\n",
                c->zero ? ", %z" : "", c->bits);
  rng = 5;
  bool ok = both_ways_run(&w, strbuf_text(&b), target, fill, NULL, NULL);
  if (!ok) FAIL("%s\n%s", w.diag.text, strbuf_text(&b));
  double largest = 0;
  for (int64_t i = 0; ok && i < w.want[1]->n; i++)
    largest = fmax(largest, fabs(val_f64(w.want[1], i)));
  for (int64_t i = 0; ok && i < w.want[0]->n; i++)
    if (!(fabs(val_f64(w.want[0], i) - val_f64(w.got[0], i)) <= 1e-5 * largest)) {
      FAIL("%s: element %d is %g instead of %g\n%s", target, (int)i, val_f64(w.got[0], i),
           val_f64(w.want[0], i), strbuf_text(&b));
      break;
    }
  both_ways_free(&w);
}

TEST(lower_weights_of_few_bits) {
  static const BitsCase at[] = {{4, 32, 64, 130, "1", false},   {4, 16, 40, 37, "m", true},
                                {4, 32, 33, 5, "4", true},      {4, 64, 256, 128, "m", false},
                                {8, 16, 48, 70, "2, 3", true},  {8, 32, 20, 9, "50", false},
                                {2, 16, 64, 300, "1", true},    {2, 32, 50, 17, "m", false},
                                {4, 128, 130, 40, "b, m", true}};
  Arena a;
  arena_init(&a);
  for (int i = 0; i < ARRAY_LEN(at); i++) {
    check_n_bits(&a, &at[i], "ref");
    if (target_available(target_find("cpu"))) check_n_bits(&a, &at[i], "cpu");
  }
  arena_deinit(&a);
}

// What exporters write: floats around an int8 GEMM, and a zero point that is computed.
TEST(lower_dynamic_bytes) {
  compare_all(
      "graph @\"g\"(%x: f32[7, 20]) {\n"
      "  %w = const i8[20, 3] {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16, 17, "
      "-18, 19, -20, 21, -22, 23, -24, 25, -26, 27, -28, 29, -30, 31, -32, 33, -34, 35, -36, 37, "
      "-38, 39, -40, 41, -42, 43, -44, 45, -46, 47, -48, 49, -50, 51, -52, 53, -54, 55, -56, 57, "
      "-58, 59, -60}\n"
      "  %q:3 = dynamic_quantize_linear(%x)\n"
      "  %y = mat_mul_integer(%q.0, %w, %q.2)\n  return %y\n}\n");
}
