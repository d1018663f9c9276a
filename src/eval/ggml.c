// ggml.c -- ggml's block types with a scale for each block or part of one: exact elements in f32.
//
// A function decodes a block into GgmlParts; what it does not set is 0, and ggml_split then forms
// the scales of parts.
#include "eval/ggml.h"

#include <math.h>

enum { QK = GGML_BLOCK };  // elements of a "K" block

static float f32_at(const uint8_t *p) {
  float f;
  memcpy(&f, p, sizeof f);
  return f;
}

// One part with the scale d; less is dmin.
static void one_part(GgmlParts *out, float d, float dmin) {
  out->d = d;
  out->dmin = dmin;
  out->s[0] = out->m[0] = 1;
}

static void q4_0(const uint8_t *b, GgmlParts *out) {
  one_part(out, ggml_f16(b), 0);
  for (int i = 0; i < 16; i++) {
    out->q[i] = (int16_t)((b[2 + i] & 15) - 8);
    out->q[i + 16] = (int16_t)((b[2 + i] >> 4) - 8);
  }
}

static void q4_1(const uint8_t *b, GgmlParts *out) {
  one_part(out, ggml_f16(b), -ggml_f16(b + 2));
  for (int i = 0; i < 16; i++) {
    out->q[i] = b[4 + i] & 15;
    out->q[i + 16] = b[4 + i] >> 4;
  }
}

static int fifth(uint32_t high, int i) { return (int)(high >> i & 1) << 4; }

static void q5_0(const uint8_t *b, GgmlParts *out) {
  uint32_t h = ggml_u32(b + 2);
  one_part(out, ggml_f16(b), 0);
  for (int i = 0; i < 16; i++) {
    out->q[i] = (int16_t)(((b[6 + i] & 15) | fifth(h, i)) - 16);
    out->q[i + 16] = (int16_t)(((b[6 + i] >> 4) | fifth(h, i + 16)) - 16);
  }
}

static void q5_1(const uint8_t *b, GgmlParts *out) {
  uint32_t h = ggml_u32(b + 4);
  one_part(out, ggml_f16(b), -ggml_f16(b + 2));
  for (int i = 0; i < 16; i++) {
    out->q[i] = (int16_t)((b[8 + i] & 15) | fifth(h, i));
    out->q[i + 16] = (int16_t)((b[8 + i] >> 4) | fifth(h, i + 16));
  }
}

static void q8_0(const uint8_t *b, GgmlParts *out) {
  one_part(out, ggml_f16(b), 0);
  for (int i = 0; i < 32; i++) out->q[i] = (int8_t)b[2 + i];
}

static void q8_1(const uint8_t *b, GgmlParts *out) {  // after d: the sum, which nobody needs here
  one_part(out, ggml_f16(b), 0);
  for (int i = 0; i < 32; i++) out->q[i] = (int8_t)b[4 + i];
}

static void q1_0(const uint8_t *b, GgmlParts *out) {
  one_part(out, ggml_f16(b), 0);
  for (int i = 0; i < 128; i++) out->q[i] = b[2 + i / 8] >> (i % 8) & 1 ? 1 : -1;
}

static void q2_k(const uint8_t *b, GgmlParts *out) {
  const uint8_t *scale = b, *q = b + 16;
  out->d = ggml_f16(b + 80);
  out->dmin = ggml_f16(b + 82);
  for (int k = 0; k < 16; k++) {
    out->s[k] = scale[k] & 15;
    out->m[k] = scale[k] >> 4;
  }
  for (int i = 0; i < QK; i++) out->q[i] = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void q3_k(const uint8_t *b, GgmlParts *out) {
  const uint8_t *high = b, *q = b + 32, *s = b + 96;
  out->d = ggml_f16(b + 108);
  for (int k = 0; k < 16; k++) {
    int low = s[k % 8] >> (k / 8 * 4) & 15, top = s[8 + k % 4] >> (k / 4 * 2) & 3;
    out->s[k] = (int16_t)((low | top << 4) - 32);
  }
  for (int i = 0; i < QK; i++) {
    int v = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    out->q[i] = (int16_t)(v - (high[i % 32] >> (i / 32) & 1 ? 0 : 4));
  }
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes, after d and dmin.
static void scales_mins(const uint8_t *b, GgmlParts *out) {
  const uint8_t *s = b + 4;
  out->d = ggml_f16(b);
  out->dmin = ggml_f16(b + 2);
  for (int k = 0; k < 8; k++) {
    int scale = k < 4 ? s[k] & 63 : (s[4 + k] & 15) | (s[k - 4] >> 6) << 4;
    int min = k < 4 ? s[4 + k] & 63 : (s[4 + k] >> 4) | (s[k] >> 6) << 4;
    out->s[k] = (int16_t)scale;
    out->m[k] = (int16_t)min;
  }
}

static void q4_k(const uint8_t *b, GgmlParts *out) {
  scales_mins(b, out);
  for (int i = 0; i < QK; i++) out->q[i] = b[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

static void q5_k(const uint8_t *b, GgmlParts *out) {
  const uint8_t *high = b + 16, *q = b + 48;
  scales_mins(b, out);
  for (int i = 0; i < QK; i++) {
    int low = q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
    out->q[i] = (int16_t)(low | (high[i % 32] >> (i / 32) & 1) << 4);
  }
}

static void q6_k(const uint8_t *b, GgmlParts *out) {
  const uint8_t *low = b, *high = b + 128, *scale = b + 192;
  out->d = ggml_f16(b + 208);
  for (int k = 0; k < 16; k++) out->s[k] = (int8_t)scale[k];
  for (int i = 0; i < QK; i++) {
    int in = i % 128, l = low[i / 128 * 64 + in % 64] >> (in / 64 * 4) & 15;
    int h = high[i / 128 * 32 + in % 32] >> (in / 32 * 2) & 3;
    out->q[i] = (int16_t)((l | h << 4) - 32);
  }
}

static void q8_k(const uint8_t *b, GgmlParts *out) {
  one_part(out, f32_at(b), 0);
  for (int i = 0; i < QK; i++) out->q[i] = (int8_t)b[4 + i];
}

// Five ternary digits in a byte, as the upper part of digit / 3 in fixed point.
static void tq1_0(const uint8_t *b, GgmlParts *out) {
  static const uint8_t power[5] = {1, 3, 9, 27, 81};
  static const struct { int from, to, digits; } run[] = {{0, 32, 5}, {32, 48, 5}, {48, 52, 4}};
  int n = 0;
  one_part(out, ggml_f16(b + 52), 0);
  for (int r = 0; r < ARRAY_LEN(run); r++)
    for (int k = 0; k < run[r].digits; k++)
      for (int i = run[r].from; i < run[r].to; i++)
        out->q[n++] = (int16_t)(((uint8_t)(b[i] * power[k]) * 3 >> 8) - 1);
}

static void tq2_0(const uint8_t *b, GgmlParts *out) {
  one_part(out, ggml_f16(b + 64), 0);
  for (int i = 0; i < QK; i++)
    out->q[i] = (int16_t)((b[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
}

const int8_t ggml_e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void mxfp4(const uint8_t *b, GgmlParts *out) {
  one_part(out, (float)ldexp(1, b[0] - 128), 0);  // half of the scale, for the doubled values
  for (int i = 0; i < 16; i++) {
    out->q[i] = ggml_e2m1_doubled[b[1 + i] & 15];
    out->q[i + 16] = ggml_e2m1_doubled[b[1 + i] >> 4];
  }
}

static float ue4m3_half(uint8_t x) {
  if (x == 0 || x == 0x7f) return 0;
  int e = x >> 3 & 15, m = x & 7;
  return (float)(e ? ldexp(1 + m / 8.0, e - 8) : ldexp(m, -10));
}

static void nvfp4(const uint8_t *b, GgmlParts *out) {
  for (int k = 0; k < 4; k++) {
    out->scale[k] = ue4m3_half(b[k]);
    for (int i = 0; i < 8; i++) {
      out->q[k * 16 + i] = ggml_e2m1_doubled[b[4 + k * 8 + i] & 15];
      out->q[k * 16 + 8 + i] = ggml_e2m1_doubled[b[4 + k * 8 + i] >> 4];
    }
  }
}

void ggml_split(const GgmlType *t, const uint8_t *block, GgmlParts *out) {
  memset(out, 0, sizeof *out);
  t->split(block, out);
  for (int k = 0; k < t->block / t->part && t->split != nvfp4; k++) {
    out->scale[k] = out->d * (float)out->s[k];
    out->less[k] = out->dmin * (float)out->m[k];
  }
}

void ggml_unpack(const GgmlType *t, const uint8_t *block, float *out) {
  if (t->unpack) {
    t->unpack(block, out);
    return;
  }
  GgmlParts p;
  ggml_split(t, block, &p);
  for (int i = 0; i < t->block; i++) {
    float v = p.scale[i / t->part] * (float)p.q[i];
    out[i] = t->has_less ? v - p.less[i / t->part] : v;
  }
}

const GgmlType ggml_type[GGML_NTYPES] = {
    // clang-format off
    //     name       block bytes plain   split         part bits low less   x     unpack
    [0]  = {"F32",      1,    4,    DT_F32,   NULL,          0,    0,  0,     false, 0,    NULL},
    [1]  = {"F16",      1,    2,    DT_F16,   NULL,          0,    0,  0,     false, 0,    NULL},
    [2]  = {"Q4_0",     32,   18,   0,        q4_0,          32,   4,  -8,    false, 32,   NULL},
    [3]  = {"Q4_1",     32,   20,   0,        q4_1,          32,   4,  0,     true,  32,   NULL},
    [6]  = {"Q5_0",     32,   22,   0,        q5_0,          32,   8,  -128,  false, 32,   NULL},
    [7]  = {"Q5_1",     32,   24,   0,        q5_1,          32,   8,  0,     true,  32,   NULL},
    [8]  = {"Q8_0",     32,   34,   0,        q8_0,          32,   8,  -128,  false, 32,   NULL},
    [9]  = {"Q8_1",     32,   36,   0,        q8_1,          32,   8,  -128,  false, 32,   NULL},
    [10] = {"Q2_K",     256,  84,   0,        q2_k,          16,   2,  0,     true,  256,  NULL},
    [11] = {"Q3_K",     256,  110,  0,        q3_k,          16,   4,  -8,    false, 256,  NULL},
    [12] = {"Q4_K",     256,  144,  0,        q4_k,          32,   4,  0,     true,  256,  NULL},
    [13] = {"Q5_K",     256,  176,  0,        q5_k,          32,   8,  0,     true,  256,  NULL},
    [14] = {"Q6_K",     256,  210,  0,        q6_k,          16,   8,  -128,  false, 256,  NULL},
    [15] = {"Q8_K",     256,  292,  0,        q8_k,          256,  8,  -128,  false, 256,  NULL},
    [16] = {"IQ2_XXS",  256,  66,   0,        NULL,          0,    0,  0,     false, 0,    ggml_iq2_xxs},
    [17] = {"IQ2_XS",   256,  74,   0,        NULL,          0,    0,  0,     false, 0,    ggml_iq2_xs},
    [18] = {"IQ3_XXS",  256,  98,   0,        NULL,          0,    0,  0,     false, 0,    ggml_iq3_xxs},
    [19] = {"IQ1_S",    256,  50,   0,        NULL,          0,    0,  0,     false, 0,    ggml_iq1_s},
    [20] = {"IQ4_NL",   32,   18,   0,        ggml_iq4_nl,   32,   8,  -128,  false, 32,   NULL},
    [21] = {"IQ3_S",    256,  110,  0,        NULL,          0,    0,  0,     false, 0,    ggml_iq3_s},
    [22] = {"IQ2_S",    256,  82,   0,        NULL,          0,    0,  0,     false, 0,    ggml_iq2_s},
    [23] = {"IQ4_XS",   256,  136,  0,        ggml_iq4_xs,   32,   8,  -128,  false, 256,  NULL},
    [24] = {"I8",       1,    1,    DT_I8,    NULL,          0,    0,  0,     false, 0,    NULL},
    [25] = {"I16",      1,    2,    DT_I16,   NULL,          0,    0,  0,     false, 0,    NULL},
    [26] = {"I32",      1,    4,    DT_I32,   NULL,          0,    0,  0,     false, 0,    NULL},
    [27] = {"I64",      1,    8,    DT_I64,   NULL,          0,    0,  0,     false, 0,    NULL},
    [28] = {"F64",      1,    8,    DT_F64,   NULL,          0,    0,  0,     false, 0,    NULL},
    [29] = {"IQ1_M",    256,  56,   0,        NULL,          0,    0,  0,     false, 0,    ggml_iq1_m},
    [30] = {"BF16",     1,    2,    DT_BF16,  NULL,          0,    0,  0,     false, 0,    NULL},
    [34] = {"TQ1_0",    256,  54,   0,        tq1_0,         256,  2,  -1,    false, 256,  NULL},
    [35] = {"TQ2_0",    256,  66,   0,        tq2_0,         256,  2,  -1,    false, 256,  NULL},
    [39] = {"MXFP4",    32,   17,   0,        mxfp4,         32,   8,  -128,  false, 32,   NULL},
    [40] = {"NVFP4",    64,   36,   0,        nvfp4,         16,   8,  -128,  false, 0,    NULL},
    [41] = {"Q1_0",     128,  18,   0,        q1_0,          128,  2,  -2,    false, 0,    NULL},
    // clang-format on
};
