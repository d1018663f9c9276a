// lower_bytes_test.c -- integer contractions, as loops and as machine code, against the interpreter: every bit.
//
// Shapes that fill no word and no panel, borders, groups, both signs, zero points at the ends of the range and in the
// middle, known and given at run time, weights of either sign.
#include "compiled.h"
#include "codegen.h"
#include "ir/interpret.h"
#include "runtime/session.h"
#include "targets/cpu.h"
#include "test.h"

#include <stdlib.h>

static uint64_t rng;
static int64_t draw(int64_t n) {
  rng = hash_u64(rng + 0x9e3779b97f4a7c15ull);
  return (int64_t)(rng % (uint64_t)n);
}

static void fill(Value *v) {
  for (int64_t k = 0; k < v->n; k++) {
    if (v->dtype == DT_F32)
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
  if (cpu_available()) compare(text, "cpu");
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

// What exporters write: floats around a product of bytes, and a zero point that is computed.
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
