// helpers.c -- the helper functions that kernels call: which are needed, and their text.
//
// A helper is a row of helpers.def, instantiated for a data type and a number of lanes.  A need for
// one implies those that its body calls.
//
// Needs:      cstyle_prelude is called after all kernels of the file are emitted.
// Guarantees: text is in the order of the table, then data type, then lanes, whichever kernel asked
//             first.  helper_need is false for a helper without that data type or vector form.  f32
//             bodies written here are the polynomials of targets/llvm/math_f32.c.
#include "targets/cstyle/emit.h"

#include <stdio.h>
#include <stdlib.h>

// ---- bodies that are longer than a line ----

#define FMA_SCALAR "#if TN_FMA\n  return fma$m(x, y, z);\n#else\n  return x * y + z;\n#endif\n"
#define BITS       "$bits"  // by the language: put_bits
#define FMA_VECTOR "$fma"   // by the lanes: put_fma

// Adding 2^23 (2^52) leaves no bits for a fraction.
#define ROUNDED(step)                                                                              \
  "  const $T big = tn_set_$S($b == 32 ? 0x1p23$f : 0x1p52$f), a = tn_abs_$S(x);\n"                \
  "  $T r = tn_copysign_$S((a + big) - big, x);\n" step "  r = tn_copysign_$S(r, x);\n"            \
  "  return tn_sel_$S(a < big, r, x);\n"

#define TF32_BODY                                                                                  \
  "  return tn_sel_$S(x == x, tn_float_of_bits_$S((tn_bits_of_float_$S(x) + 0x1000) & -0x2000), "  \
  "x);\n"
#define TERM(p, x, c) "  " p " = tn_fma_$S(" p ", " x ", tn_set_$S(" c "));\n"

#define EXP_BODY                                                                                   \
  "  x = tn_sel_$S(x > 89.0f, tn_set_$S(89.0f), x);\n"                                             \
  "  x = tn_sel_$S(x < -104.0f, tn_set_$S(-104.0f), x);\n"                                         \
  "  /* adding 1.5 * 2^23 rounds to an integer, which then lies in the low bits */\n"              \
  "  const $T t = tn_fma_$S(x, tn_set_$S(0x1.715476p+0f), tn_set_$S(0x1.8p23f));\n"                \
  "  const $T n = t - 0x1.8p23f;\n"                                                                \
  "  const $T s = tn_fma_$S(n, tn_set_$S(-0x1.63p-1f), x);\n"                                      \
  "  const $T r = tn_fma_$S(n, tn_set_$S(0x1.bd0106p-13f), s);\n"                                  \
  "  $T p = tn_set_$S(0x1.a124f2p-13f);\n" TERM("p", "r", "0x1.6d4324p-10f")                       \
      TERM("p", "r", "0x1.1110ep-7f") TERM("p", "r", "0x1.5554eap-5f")                             \
          TERM("p", "r", "0x1.555556p-3f")                                                         \
              TERM("p", "r",                                                                       \
                   "0x1p-1f") "  p = tn_fma_$S(r * r, p, r) + 1.0f;\n"                             \
                              "  const $I k = tn_bits_of_float_$S(t) - 0x4b400000, h = k >> 1;\n"  \
                              "  return p * tn_float_of_bits_$S((h + 127) << 23) * "               \
                              "tn_float_of_bits_$S((k - h + 127) << 23);\n"

#define LOG_BODY                                                                                   \
  "  const $T y = tn_sel_$S(x < 0x1p-126f, x * 0x1p23f, x);\n"                                     \
  "  const $T less = tn_sel_$S(x < 0x1p-126f, tn_set_$S(23.0f), tn_set_$S(0.0f));\n"               \
  "  const $I b = tn_bits_of_float_$S(y) + (0x3f800000 - 0x3f3504f3);\n"                           \
  "  const $T n = tn_real_$S((b >> 23) - 127) - less;\n"                                           \
  "  const $T f = tn_float_of_bits_$S((b & 0x7fffff) + 0x3f3504f3) - 1.0f, z = f * f;\n"           \
  "  $T p = tn_set_$S(0x1.1d8ea6p-4f);\n" TERM("p", "f", "-0x1.d635bcp-4f")                        \
      TERM("p", "f", "0x1.dea282p-4f") TERM("p", "f", "-0x1.fcf4c6p-4f") TERM(                     \
          "p", "f", "0x1.23d21ap-3f") TERM("p", "f", "-0x1.555b4ap-3f")                            \
          TERM("p", "f", "0x1.999d5ap-3f") TERM("p", "f", "-0x1.fffffcp-3f") TERM(                 \
              "p", "f",                                                                            \
              "0x1.555554p-2f") "  $T r = tn_fma_$S(n, tn_set_$S(-0x1.bd0106p-13f), f * z * p);\n" \
                                "  r = tn_fma_$S(tn_set_$S(-0.5f), z, r);\n"                       \
                                "  r = tn_fma_$S(n, tn_set_$S(0x1.63p-1f), f + r);\n"              \
                                "  r = tn_sel_$S(x == INFINITY, x, r);\n"                          \
                                "  r = tn_sel_$S(x == 0.0f, tn_set_$S(-INFINITY), r);\n"           \
                                "  r = tn_sel_$S(x < 0.0f, tn_set_$S(NAN), r);\n"                  \
                                "  return tn_sel_$S(x != x, x, r);\n"

#define TANH_BODY                                                                                  \
  "  const $T a = tn_abs_$S(x), z = x * x;\n"                                                      \
  "  $T p = tn_set_$S(0x1.2c83cp-9f);\n" TERM("p", "z", "-0x1.116a16p-7f")                         \
      TERM("p", "z", "0x1.64a976p-6f") TERM("p", "z", "-0x1.ba08c4p-5f") TERM("p", "z",            \
                                                                              "0x1.1110eap-3f")    \
          TERM("p", "z",                                                                           \
               "-0x1.555556p-2f") "  const $T high = 1.0f - 2.0f / (tn_exp_$S(a + a) + 1.0f);\n"   \
                                  "  return tn_sel_$S(a < 0.625f, tn_fma_$S(x * z, p, x), "        \
                                  "tn_copysign_$S(high, x));\n"

#define SIGMOID_BODY                                                                               \
  "  const $T t = tn_exp_$S(-tn_abs_$S(x)), s = 1.0f + t; /* never overflows */\n"                 \
  "  const $T lost = (1.0f - s) + t; /* by the sum's rounding */\n"                                \
  "  const $T q = tn_sel_$S(x < 0.0f, t, tn_set_$S(1.0f)) / s;\n"                                  \
  "  return tn_fma_$S(-(q * lost), 1.0f / s, q);\n"

#define ERF_BODY                                                                                   \
  "  const $T a = tn_abs_$S(x), z = x * x;\n"                                                      \
  "  $T p = tn_set_$S(0x1.4a569p-14f);\n" TERM("p", "z", "-0x1.a45088p-11f") TERM(                 \
      "p", "z", "0x1.54127p-8f") TERM("p", "z", "-0x1.b7fabap-6f") TERM("p", "z", "0x1.ce2d1p-4f") \
      TERM("p", "z", "-0x1.81273ep-2f") TERM(                                                      \
          "p", "z",                                                                                \
          "0x1.06eba8p-3f") "  const $T c = tn_sel_$S(a > 4.1f, tn_set_$S(4.1f), a);\n"            \
                            "  $T q = tn_set_$S(0x1.0cdc24p-16f);\n" TERM(                         \
                                "q", "c", "-0x1.7f155cp-12f") TERM("q", "c", "0x1.f0142p-9f")      \
                                TERM("q", "c", "-0x1.88dbb4p-6f") TERM("q", "c", "0x1.b3abcep-4f") \
                                    TERM("q", "c", "0x1.4533e8p-1f")                               \
                                        TERM("q", "c",                                             \
                                             "0x1.076ac6p-3f") "  const $T high = 1.0f - "         \
                                                               "tn_exp_$S(-tn_fma_$S(c, q, c));\n" \
                                                               "  return tn_sel_$S(a < 1.0f, "     \
                                                               "tn_fma_$S(x, p, x), "              \
                                                               "tn_copysign_$S(high, x));\n"

// Four numbers of 8 bits, unsigned in x and signed in y.
#define DOT_SCALAR                                                                                 \
  "  for (int i = 0; i < 32; i += 8) {\n"                                                          \
  "    const int32_t p = (int32_t)(x >> i & 255) * (int8_t)(uint8_t)(y >> i & 255);\n"             \
  "    z = (int32_t)((uint32_t)z + (uint32_t)p);\n  }\n  return z;\n"
#define DOT_VECTOR                                                                                 \
  "#if $N == 16 && defined(__AVX512VNNI__)\n"                                                      \
  "  return ($T)_mm512_dpbusd_epi32((__m512i)z, (__m512i)x, (__m512i)y);\n"                        \
  "#elif $N == 8 && defined(__AVX512VNNI__) && defined(__AVX512VL__)\n"                            \
  "  return ($T)_mm256_dpbusd_epi32((__m256i)z, (__m256i)x, (__m256i)y);\n"                        \
  "#elif $N == 4 && defined(__AVX512VNNI__) && defined(__AVX512VL__)\n"                            \
  "  return ($T)_mm_dpbusd_epi32((__m128i)z, (__m128i)x, (__m128i)y);\n"                           \
  "#else\n  for (int i = 0; i < 4; i++)\n"                                                         \
  "    z += ($T)((x >> (8 * i)) & 255u) * (($T)(y << (24 - 8 * i)) >> 24);\n  return z;\n#endif\n"

// Of the low half of each byte of x a byte of y or z.
#define LOOKUP_SCALAR                                                                              \
  "  uint32_t r = 0;\n  for (int i = 0; i < 32; i += 8) {\n"                                       \
  "    const uint32_t n = x >> i & 15;\n"                                                          \
  "    r |= (uint32_t)((n & 8 ? z : y) >> 8 * (n & 7) & 255) << i;\n  }\n  return r;\n"
#define LOOKUP_VECTOR                                                                              \
  "#if $N == 16 && defined(__AVX512BW__)\n"                                                        \
  "  const __m512i t = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)z, (long long)y));\n"      \
  "  return ($T)_mm512_shuffle_epi8(t, _mm512_and_si512((__m512i)x, _mm512_set1_epi8(15)));\n"     \
  "#elif $N == 8 && defined(__AVX2__)\n"                                                           \
  "  const __m256i t = _mm256_set_epi64x((long long)z, (long long)y, (long long)z, "               \
  "(long long)y);\n"                                                                               \
  "  return ($T)_mm256_shuffle_epi8(t, _mm256_and_si256((__m256i)x, _mm256_set1_epi8(15)));\n"     \
  "#elif $N == 4 && defined(__SSSE3__)\n"                                                          \
  "  const __m128i t = _mm_set_epi64x((long long)z, (long long)y);\n"                              \
  "  return ($T)_mm_shuffle_epi8(t, _mm_and_si128((__m128i)x, _mm_set1_epi8(15)));\n"              \
  "#elif $N == 4 && defined(__aarch64__)\n"                                                        \
  "  const uint8x16_t t = vcombine_u8(vcreate_u8(y), vcreate_u8(z));\n"                            \
  "  return ($T)vqtbl1q_u8(t, vandq_u8((uint8x16_t)x, vdupq_n_u8(15)));\n"                         \
  "#else\n  uint32_t xs[$N];\n  memcpy(xs, &x, sizeof xs);\n"                                      \
  "  for (int l = 0; l < $N; l++) {\n    uint32_t r = 0;\n"                                        \
  "    for (int i = 0; i < 32; i += 8) {\n      const uint32_t n = xs[l] >> i & 15;\n"             \
  "      r |= (uint32_t)((n & 8 ? z : y) >> 8 * (n & 7) & 255) << i;\n    }\n"                     \
  "    xs[l] = r;\n  }\n  memcpy(&x, xs, sizeof xs);\n  return x;\n#endif\n"

// Rounded to odd: where bits are lost, the last one that is kept is set, so that a second rounding
// is right.
#define ODD_BODY                                                                                   \
  "  const float y = (float)x;\n  if ((double)y == x || x != x) return y;\n"                       \
  "  const int32_t b = tn_bits_of_float_f32(y);\n"                                                 \
  "  return tn_float_of_bits_f32((fabs((double)y) > fabs(x) ? b - 1 : b) | 1);\n"
#define FMA_ODD_BODY                                                                               \
  "  const double p = (double)x * (double)y, a = (double)z, s = p + a, part = s - p;\n"            \
  "  if (!isfinite(s)) return (float)s;\n  int64_t b = tn_bits_of_float_f64(s);\n"                 \
  "  const double rest = (p - (s - part)) + (a - part);\n"                                         \
  "  if (rest != 0 && !(b & 1)) b = (rest > 0) == (s > 0) ? b + 1 : b - 1;\n"                      \
  "  return tn_odd_f64(tn_float_of_bits_f64(b));\n"

#define DECODE_BODY                                                                                \
  "  const uint32_t code = x & (sign - 1);\n"                                                      \
  "  uint32_t b = (code << (23 - mant)) + ((uint32_t)(127 + emin - 1) << 23);\n"                   \
  "  if (inf && code >= inf) b = (code << (23 - mant)) | 0x7f800000u;\n"                           \
  "  if (!inf && (unsigned_zero ? x == nan : code > most)) b = 0x7fc00000u;\n"                     \
  "  float v = tn_float_of_bits_f32((int32_t)b);\n"                                                \
  "  if (code < 1u << mant && b != 0x7fc00000u)\n"                                                 \
  "    v = (float)code * tn_float_of_bits_f32((127 + emin - mant) << 23);\n"                       \
  "  return (x & sign) && b != 0x7fc00000u ? -v : v;\n"
#define ENCODE_BODY                                                                                \
  "  const uint32_t bits = (uint32_t)tn_bits_of_float_f32(x);\n"                                   \
  "  uint32_t b = bits & 0x7fffffffu, code, s = bits >> 31 ? sign : 0;\n"                          \
  "  const int drop = 23 - mant;\n"                                                                \
  "  if (b > 0x7f800000u) {\n    if (unsigned_zero) return nan;\n"                                 \
  "    return (mant == 10 ? nan | (b >> 13 & 0x1ff) : nan) | s;\n  }\n"                            \
  "  if (b < (uint32_t)(127 + emin) << 23) {\n"                                                    \
  "    const int32_t unit = (127 + emin - mant + 23) << 23;\n"                                     \
  "    const float sum = tn_float_of_bits_f32((int32_t)b) + tn_float_of_bits_f32(unit);\n"         \
  "    code = (uint32_t)(tn_bits_of_float_f32(sum) - unit);\n  } else {\n"                         \
  "    b -= (uint32_t)(127 + emin - 1) << 23;\n"                                                   \
  "    code = (b + ((1u << (drop - 1)) - 1) + (b >> drop & 1)) >> drop;\n  }\n"                    \
  "  if (code > most || (bits & 0x7fffffffu) >= 0x7f800000u) code = most;\n"                       \
  "  return unsigned_zero && code == 0 ? 0 : code | s;\n"

// ---- the table ----

#define SAME  "="
#define LANES NULL
#define NONE  ""
typedef struct Helper {
  const char *name, *types;
  char result;
  const char *params, *scalar, *vector, *needs;
} Helper;
static const Helper helper[] = {
    {"type", "*", 0, "", "", "", ""},  // the vector type itself
    {"load", "*", 0, "", "", "", ""},  // macros for its loads and stores at any element
    {"store", "*", 0, "", "", "", ""},
#define HELPER(name, types, result, params, scalar, vector, needs)                                 \
  {#name, types, result, params, scalar, vector, needs},
#include "targets/cstyle/helpers.def"
#undef HELPER
};
enum { HELPER_TYPE, HELPER_LOAD, HELPER_STORE, HELPER_FIRST };

static bool is_one_of(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; (p = strstr(p, word)); p += n)
    if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
  return false;
}

static DType held_in(DType t) {
  if (t == DT_BOOL) return DT_U8;
  if (!dtype_is_float(t) || t == DT_F32 || t == DT_F64) return t;
  return dtype_bits(t) == 16 ? DT_U16 : DT_U8;
}

static DType int_of(DType t) {
  int bits = dtype_bits(t);
  return bits == 8 ? DT_I8 : bits == 16 ? DT_I16 : bits == 32 ? DT_I32 : DT_I64;
}

// The dtype of a letter of helpers.def; 0: it has no vectors.
static DType letter_dtype(char c, DType t) {
  switch (c) {
  case 'T':
  case 't': return held_in(t);
  case 'I':
  case 'M': return int_of(t);
  case 'f': return DT_F32;
  case 'd': return DT_F64;
  case 'w': return DT_U32;
  case 'l': return DT_I32;
  case 'L': return DT_I64;
  case 'U': return DT_U64;
  }
  return (DType)0;
}

static void note(CStyle *c, int32_t id, DType t, int lanes) {
  for (int64_t i = 0; i < c->use.n; i++)
    if (c->use.v[i].id == id && c->use.v[i].dtype == t && c->use.v[i].lanes == lanes) return;
  HelperUse u = {id, lanes, t};
  c->uses_f64 |= t == DT_F64 || helper[id].result == 'd';
  vec_push(c->arena, &c->use, u);
}

static void need_types(CStyle *c, const Helper *h, DType t, int lanes) {
  note(c, HELPER_TYPE, held_in(t), lanes);
  note(c, HELPER_TYPE, int_of(t), lanes);
  if (letter_dtype(h->result, t)) note(c, HELPER_TYPE, letter_dtype(h->result, t), lanes);
  for (const char *p = h->params; *p; p++)
    if (letter_dtype(*p, t)) note(c, HELPER_TYPE, letter_dtype(*p, t), lanes);
  if (t == DT_BF16) note(c, HELPER_TYPE, DT_U32, lanes), note(c, HELPER_TYPE, DT_F32, lanes);
}

static void need_others(CStyle *c, const Helper *h, DType t, int lanes) {
  char word[32];
  for (const char *p = h->needs; *p;) {
    size_t n = strcspn(p, " ");
    CHECK(n < sizeof word, "the name of a helper is too long");
    memcpy(word, p, n);
    word[n] = 0;
    char *colon = strchr(word, ':');
    DType other = t;
    if (colon) {
      *colon = 0;
      if (!colon[1] || !dtype_parse(str_of(colon + 1), &other)) other = DT_I64;
      lanes = 0;
    }
    CHECK(helper_need(c, word, other, lanes), "no helper %s", word);
    p += n;
    while (*p == ' ') p++;
  }
}

bool helper_need(CStyle *c, const char *name, DType t, int lanes) {
  for (int32_t i = 0; i < ARRAY_LEN(helper); i++) {
    const Helper *h = &helper[i];
    bool any = !strcmp(h->types, "*"), untyped = !*h->types;
    if (strcmp(h->name, name)) continue;
    if (!any && !untyped && !is_one_of(h->types, dtype_name(t))) continue;
    if (any) t = held_in(t);
    if (lanes && h->vector && !strcmp(h->vector, NONE) && i >= HELPER_FIRST) return false;
    note(c, i, untyped ? DT_I64 : t, lanes);
    if (lanes) need_types(c, h, t, lanes);
    if (lanes && !h->vector) note(c, i, t, 0);
    need_others(c, h, t, lanes && h->vector ? lanes : 0);
    return true;
  }
  return false;
}

void cstyle_need_sizes(CStyle *c) {
  static const char *const sizes[] = {"floor_div", "floor_mod", "least", "most"};
  for (int64_t i = 0; i < ARRAY_LEN(sizes); i++) helper_need(c, sizes[i], DT_I64, 0);
}

// ---- text ----

static const char *scalar_type(const CStyle *c, DType t) { return c->spelling->type[t]; }

static const char *type_text(const CStyle *c, DType t, int lanes) {
  if (!lanes) return scalar_type(c, t);
  return str_printf(c->arena, "tn_%sx%d", dtype_name(held_in(t)), lanes);
}

static const char *letter_text(const CStyle *c, char l, DType t, int lanes) {
  switch (l) {
  case 'i': return c->spelling->index;
  case 'p': return "const void *";
  case 'F': return "int *";
  case 'K': return scalar_type(c, DT_U64);
  case 't': return scalar_type(c, held_in(t));
  case 'M': return lanes ? type_text(c, int_of(t), lanes) : "int";
  }
  return type_text(c, letter_dtype(l, t), lanes);
}

static DType unsigned_of(DType t) {
  int bits = dtype_bits(t);
  return bits == 8 ? DT_U8 : bits == 16 ? DT_U16 : bits == 32 ? DT_U32 : DT_U64;
}

static void put_body(const CStyle *c, const char *body, DType t, int lanes, StrBuf *out) {
  for (const char *p = body; *p; p++) {
    if (*p != '$') {
      strbuf_putc(out, *p);
      continue;
    }
    switch (*++p) {
    case 'T': strbuf_puts(out, type_text(c, t, lanes)); break;
    case 't': strbuf_puts(out, scalar_type(c, t)); break;
    case 'I': strbuf_puts(out, type_text(c, int_of(t), lanes)); break;
    case 'M': strbuf_puts(out, letter_text(c, 'M', t, lanes)); break;
    case 'U': strbuf_puts(out, scalar_type(c, unsigned_of(t))); break;
    case 'N': strbuf_printf(out, "%d", lanes); break;
    case 'b': strbuf_printf(out, "%d", dtype_bits(t)); break;
    case 'f': strbuf_puts(out, t == DT_F32 ? "f" : ""); break;
    case 'm': strbuf_puts(out, t == DT_F32 ? c->spelling->math_f32 : ""); break;
    case 'i': strbuf_puts(out, c->spelling->index); break;
    case 'S':
      strbuf_puts(out, dtype_name(t));
      if (lanes) strbuf_printf(out, "x%d", lanes);
      break;
    }
  }
}

static void put_head(const CStyle *c, const Helper *h, DType t, int lanes, StrBuf *out) {
  const char *result = letter_text(c, h->result, t, lanes);
  strbuf_printf(out, "TN_FN %s tn_%s", result, h->name);
  if (*h->types) strbuf_printf(out, "_%s", dtype_name(t));
  if (lanes) strbuf_printf(out, "x%d", lanes);
  if (*h->params == '(') {
    strbuf_printf(out, "%s {\n", h->params);
    return;
  }
  for (int i = 0; h->params[i]; i++) {
    const char *type = letter_text(c, h->params[i], t, lanes);
    strbuf_printf(out, "%s%s%s%c", i ? ", " : "(", type, strchr(type, '*') ? "" : " ", 'x' + i);
  }
  strbuf_puts(out, ") {\n");
}

// One instruction where the machine has it for so many lanes; else lane by lane, with the same
// rounding.
static void put_fma(const CStyle *c, DType t, int lanes, StrBuf *out) {
  static const struct {
    int bits, lanes;
    const char *macro, *call;
  } one[] = {
      {32, 16, "defined(__AVX512F__)", "_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z)"},
      {32, 8, "defined(__FMA__)", "_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z)"},
      {32, 4, "defined(__FMA__)", "_mm_fmadd_ps((__m128)x, (__m128)y, (__m128)z)"},
      {64, 8, "defined(__AVX512F__)", "_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z)"},
      {64, 4, "defined(__FMA__)", "_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z)"},
      {64, 2, "defined(__FMA__)", "_mm_fmadd_pd((__m128d)x, (__m128d)y, (__m128d)z)"},
      {32, 4, "defined(__aarch64__)", "vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y)"},
      {64, 2, "defined(__aarch64__)", "vfmaq_f64((float64x2_t)z, (float64x2_t)x, (float64x2_t)y)"}};
  const char *type = type_text(c, t, lanes), *word = "#if";
  for (int64_t i = 0; i < ARRAY_LEN(one); i++) {
    if (one[i].bits != dtype_bits(t) || one[i].lanes != lanes) continue;
    strbuf_printf(out, "%s %s\n  return (%s)%s;\n", word, one[i].macro, type, one[i].call);
    word = "#elif";
  }
  strbuf_printf(out, "%s TN_FMA\n  for (int i = 0; i < %d; i++) z[i] = fma%s(x[i], y[i], z[i]);\n",
                word, lanes, t == DT_F32 ? "f" : "");
  strbuf_puts(out, "  return z;\n#else\n  return x * y + z;\n#endif\n");
}

// The same bits as a value of another type.
static void put_bits(const CStyle *c, const Helper *h, DType t, StrBuf *out) {
  const char *to = letter_text(c, h->result, t, 0);
  if (c->spelling->has_vload)
    strbuf_printf(out, "  return as_%s(x);\n", to);
  else
    strbuf_printf(out, "  %s r;\n  memcpy(&r, &x, sizeof r);\n  return r;\n", to);
}

// Bodies of vectors in a language with functions for them; others go lane by lane.
static const struct {
  const char *name, *types, *body;
} with_vload[] = {
    {"set", "", "  return ($T)(x);\n"},
    {"sel", "", "  return select(z, y, x);\n"},
    {"bits_of_float", "", "  return as_$I(x);\n"},
    {"float_of_bits", "", "  return as_$T(x);\n"},
    {"fma", "", "  return fma(x, y, z);\n"},
    {"abs", "", "  return fabs(x);\n"},
    {"copysign", "", "  return copysign(x, y);\n"},
    {"min", "",
     "  return select(y, x, (x < y) | (x != x) | ((x == y) & (as_$I(x) < (as_$I(x) ^ "
     "as_$I(x)))));\n"},
    {"max", "",
     "  return select(y, x, (x > y) | (x != x) | ((x == y) & (as_$I(x) >= (as_$I(x) ^ "
     "as_$I(x)))));\n"},
    {"floor", "f32 f64", "  return floor(x);\n"},
    {"ceil", "f32 f64", "  return ceil(x);\n"},
    {"round", "f32 f64", "  return rint(x);\n"},
    {"sqrt", "f32 f64", "  return sqrt(x);\n"},
    {"real", "", "  return convert_$T(x);\n"},
    {"dot", "i32",
     "  for (int i = 0; i < 32; i += 8)\n"
     "    z += as_$T((x >> (uint)i) & 255u) * (as_$T(y << (uint)(24 - i)) >> 24);\n  return z;\n"},
    {"lookup", "",
     "  $T r = ($T)(0);\n  for (int i = 0; i < 32; i += 8) {\n"
     "    const $T n = (x >> (uint)i) & 15u;\n"
     "    const $T a = select(($T)((uint)y), ($T)((uint)(y >> 32)), (n & 4u) != 0u);\n"
     "    const $T b = select(($T)((uint)z), ($T)((uint)(z >> 32)), (n & 4u) != 0u);\n"
     "    r |= ((select(a, b, (n & 8u) != 0u) >> ((n & 3u) * 8u)) & 255u) << (uint)i;\n"
     "  }\n  return r;\n"},
    {"from", "bf16", "  return as_tn_f32x$N(convert_tn_u32x$N(x) << 16u);\n"},
    {"to", "bf16",
     "  const tn_u32x$N b = as_tn_u32x$N(x), m = as_tn_u32x$N(x != x);\n"
     "  const tn_u32x$N near = (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;\n"
     "  return convert_$T((((b >> 16u) | 0x40u) & m) | (near & ~m));\n"}};

static const char *vload_body(const Helper *h, DType t) {
  for (int64_t i = 0; i < ARRAY_LEN(with_vload); i++)
    if (!strcmp(h->name, with_vload[i].name) &&
        (!*with_vload[i].types || is_one_of(with_vload[i].types, dtype_name(t))))
      return with_vload[i].body;
  return NULL;
}

// The scalar function for each lane, in a language whose lanes have names.
static void put_named_lanes(const CStyle *c, const Helper *h, DType t, int lanes, StrBuf *out) {
  strbuf_printf(out, "  return (%s)(", letter_text(c, h->result, t, lanes));
  for (int l = 0; l < lanes; l++) {
    strbuf_printf(out, "%stn_%s_%s(", l ? ", " : "", h->name, dtype_name(t));
    for (int i = 0; h->params[i]; i++)
      strbuf_printf(out, "%s%c.s%x", i ? ", " : "", 'x' + i, (unsigned)l);
    strbuf_puts(out, ")");
  }
  strbuf_puts(out, ");\n");
}

// Through arrays: gcc 12 takes a loop that sets the elements of a vector one by one for something
// else where it has AVX-512.
static const char *element_type(const CStyle *c, char l, DType t) {
  return l == 'M' ? scalar_type(c, int_of(t)) : letter_text(c, l, t, 0);
}

static void put_lanes(const CStyle *c, const Helper *h, DType t, int lanes, StrBuf *out) {
  for (int i = 0; h->params[i]; i++)
    strbuf_printf(out, "  %s %cs[%d];\n  memcpy(%cs, &%c, sizeof %cs);\n",
                  element_type(c, h->params[i], t), 'x' + i, lanes, 'x' + i, 'x' + i, 'x' + i);
  strbuf_printf(out, "  %s rs[%d];\n  %s r;\n  for (int i = 0; i < %d; i++) rs[i] = tn_%s_%s(",
                element_type(c, h->result, t), lanes, letter_text(c, h->result, t, lanes), lanes,
                h->name, dtype_name(t));
  for (int i = 0; h->params[i]; i++) strbuf_printf(out, "%s%cs[i]", i ? ", " : "", 'x' + i);
  strbuf_puts(out, ");\n  memcpy(&r, rs, sizeof r);\n  return r;\n");
}

// What the machine has an instruction for.
static const char *own_body(const CStyle *c, const Helper *h, const HelperUse *u) {
  bool from = !strcmp(h->name, "from"), to = !strcmp(h->name, "to");
  if (u->lanes) return NULL;
  if (u->dtype == DT_F32 && !strcmp(h->name, "min")) return c->spelling->min_f32;
  if (u->dtype == DT_F32 && !strcmp(h->name, "max")) return c->spelling->max_f32;
  if (!from && !to) return NULL;
  if (u->dtype == DT_F16) return from ? c->spelling->from_f16 : c->spelling->to_f16;
  return u->dtype == DT_BF16 && to ? c->spelling->to_bf16 : NULL;
}

static void put_helper(const CStyle *c, const HelperUse *u, StrBuf *out) {
  const Helper *h = &helper[u->id];
  put_head(c, h, u->dtype, u->lanes, out);
  const char *own = own_body(c, h, u);
  const char *body = u->lanes && c->spelling->has_vload ? vload_body(h, u->dtype) : NULL;
  if (own)
    strbuf_puts(out, own);
  else if (body)
    put_body(c, body, u->dtype, u->lanes, out);
  else if (u->lanes && c->spelling->has_vload && (!h->vector || strcmp(h->vector, SAME)))
    put_named_lanes(c, h, u->dtype, u->lanes, out);
  else if (!u->lanes && !strcmp(h->scalar, BITS))
    put_bits(c, h, u->dtype, out);
  else if (!u->lanes || (h->vector && !strcmp(h->vector, SAME)))
    put_body(c, h->scalar, u->dtype, u->lanes, out);
  else if (h->vector && !strcmp(h->vector, FMA_VECTOR))
    put_fma(c, u->dtype, u->lanes, out);
  else if (h->vector)
    put_body(c, h->vector, u->dtype, u->lanes, out);
  else
    put_lanes(c, h, u->dtype, u->lanes, out);
  strbuf_puts(out, "}\n");
}

static void put_vload_macros(const CStyle *c, const HelperUse *u, StrBuf *out) {
  const char *t = dtype_name(u->dtype), *of = scalar_type(c, u->dtype);
  int n = u->lanes;
  if (u->id == HELPER_TYPE)
    strbuf_printf(out,
                  "typedef %s%d tn_%sx%d;\n#define as_tn_%sx%d(x) as_%s%d(x)\n"
                  "#define convert_tn_%sx%d(x) convert_%s%d(x)\n",
                  of, n, t, n, t, n, of, n, t, n, of, n);
  else if (u->id == HELPER_LOAD)
    strbuf_printf(out, "#define tn_load_%sx%d(p) vload%d(0, p)\n", t, n, n);
  else
    strbuf_printf(out, "#define tn_store_%sx%d(p, ...) vstore%d(__VA_ARGS__, 0, p)\n", t, n, n);
}

static void put_vector_macros(const CStyle *c, const HelperUse *u, StrBuf *out) {
  const char *t = dtype_name(u->dtype), *of = scalar_type(c, u->dtype);
  int n = u->lanes, bytes = (int)cs_bytes(u->dtype);
  if (c->spelling->has_vload) {
    put_vload_macros(c, u, out);
    return;
  }
  if (u->id == HELPER_TYPE)
    strbuf_printf(out,
                  "typedef %s tn_%sx%d __attribute__((vector_size(%d)));\n"
                  "typedef %s tn_%sx%d_at __attribute__((vector_size(%d), aligned(%d), "
                  "may_alias));\n",
                  of, t, n, n * bytes, of, t, n, n * bytes, bytes);
  else if (u->id == HELPER_LOAD)
    strbuf_printf(out, "#define tn_load_%sx%d(p) ((tn_%sx%d)*(const tn_%sx%d_at *)(p))\n", t, n, t,
                  n, t, n);
  else
    strbuf_printf(out, "#define tn_store_%sx%d(p, ...) (*(tn_%sx%d_at *)(p) = (__VA_ARGS__))\n", t,
                  n, t, n);
}

static int by_order(const void *a, const void *b) {
  const HelperUse *x = a, *y = b;
  if (!x->lanes != !y->lanes) return x->lanes ? 1 : -1;
  if (x->id != y->id) return x->id - y->id;
  if (x->dtype != y->dtype) return (int)x->dtype - (int)y->dtype;
  return x->lanes - y->lanes;
}

static void put_elements(const CStyle *c, StrBuf *out) {
  static const DType element[] = {DT_F32, DT_F64, DT_I8,  DT_I16, DT_I32,
                                  DT_I64, DT_U8,  DT_U16, DT_U32, DT_U64};
  strbuf_puts(out,
              "/* Elements in memory, where values of one type may follow those of another. */\n");
  for (int64_t i = 0; i < ARRAY_LEN(element); i++)
    if (!c->spelling->f64 || element[i] != DT_F64 || c->uses_f64)
      strbuf_printf(out, "typedef %s TN_ALIAS tn_%s;\n", scalar_type(c, element[i]),
                    dtype_name(element[i]));
}

static void put_vector_part(const CStyle *c, const HelperUse *use, int64_t n, StrBuf *out) {
  bool x86 = false, any = false;
  for (int64_t i = 0; i < n; i++) {
    any |= use[i].lanes > 0;
    x86 |= use[i].lanes && is_one_of("fma dot lookup", helper[use[i].id].name);
  }
  if (!any) return;
  bool asks = !c->spelling->is_device;
  strbuf_puts(out, asks ? "\n#if TN_VECTORS\n" : "\n");
  if (x86 && asks)
    strbuf_puts(out, "#if defined(__x86_64__)\n#include <immintrin.h>\n#elif defined(__aarch64__)\n"
                     "#include <arm_neon.h>\n#endif\n");
  for (int64_t i = 0; i < n; i++)
    if (use[i].lanes && use[i].id < HELPER_FIRST) put_vector_macros(c, &use[i], out);
  for (int64_t i = 0; i < n; i++)
    if (use[i].lanes && use[i].id >= HELPER_FIRST) put_helper(c, &use[i], out);
  if (asks) strbuf_puts(out, "#endif\n");
}

// Whether the compiler has vectors as wide as the kernels were written for.
static void put_vector_switch(int bytes, StrBuf *out) {
  const char *has = bytes >= 64   ? "defined(__AVX512F__)"
                    : bytes >= 32 ? "defined(__AVX__)"
                                  : "(defined(__SSE2__) || defined(__ARM_NEON))";
  strbuf_printf(out,
                "/* Vectors of %d bytes where the compiler has them; -DTN_VECTORS=0 asks for plain "
                "loops. */\n"
                "#ifndef TN_VECTORS\n#if (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= "
                "9)) && %s\n#define TN_VECTORS 1\n#else\n#define TN_VECTORS 0\n#endif\n#endif\n",
                bytes, has);
}

void cstyle_prelude(CStyle *c, StrBuf *out) {
  int64_t n = c->use.n;
  HelperUse *use = arena_array(c->arena, HelperUse, MAX(n, 1));
  if (n) memcpy(use, c->use.v, (size_t)n * sizeof *use);
  if (n) qsort(use, (size_t)n, sizeof *use, by_order);
  strbuf_puts(out, c->spelling->top);
  if (c->spelling->f64 && c->uses_f64) strbuf_puts(out, c->spelling->f64);
  if (c->uses_once) strbuf_puts(out, c->spelling->once);
  if (c->vector_bytes && !c->spelling->is_device) put_vector_switch(c->vector_bytes, out);
  put_elements(c, out);
  for (int64_t i = 0; i < n; i++)
    if (!use[i].lanes && use[i].id >= HELPER_FIRST) put_helper(c, &use[i], out);
  put_vector_part(c, use, n, out);
}
