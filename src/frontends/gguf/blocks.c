// blocks.c -- ggml's block types with a scale for each block or part of one: exact elements in f32.
//
// Products and sums are rounded to f32 in the order of the reference implementation, so that the bits are the same.
#include "frontends/gguf/gguf.h"

#include <math.h>

enum { QK = 256 };  // elements of a "K" block

static float f32_at(const uint8_t *p) {
  float f;
  memcpy(&f, p, sizeof f);
  return f;
}

static void q4_0(const uint8_t *b, float *out) {
  float d = gguf_f16(b);
  for (int i = 0; i < 16; i++) {
    out[i] = d * (float)((b[2 + i] & 15) - 8);
    out[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
  }
}

static void q4_1(const uint8_t *b, float *out) {
  float d = gguf_f16(b), m = gguf_f16(b + 2);
  for (int i = 0; i < 16; i++) {
    out[i] = d * (float)(b[4 + i] & 15) + m;
    out[i + 16] = d * (float)(b[4 + i] >> 4) + m;
  }
}

static int fifth(uint32_t high, int i) { return (int)(high >> i & 1) << 4; }

static void q5_0(const uint8_t *b, float *out) {
  float d = gguf_f16(b);
  uint32_t h = gguf_u32(b + 2);
  for (int i = 0; i < 16; i++) {
    out[i] = d * (float)(((b[6 + i] & 15) | fifth(h, i)) - 16);
    out[i + 16] = d * (float)(((b[6 + i] >> 4) | fifth(h, i + 16)) - 16);
  }
}

static void q5_1(const uint8_t *b, float *out) {
  float d = gguf_f16(b), m = gguf_f16(b + 2);
  uint32_t h = gguf_u32(b + 4);
  for (int i = 0; i < 16; i++) {
    out[i] = d * (float)((b[8 + i] & 15) | fifth(h, i)) + m;
    out[i + 16] = d * (float)((b[8 + i] >> 4) | fifth(h, i + 16)) + m;
  }
}

static void q8_0(const uint8_t *b, float *out) {
  float d = gguf_f16(b);
  for (int i = 0; i < 32; i++) out[i] = d * (float)(int8_t)b[2 + i];
}

static void q8_1(const uint8_t *b, float *out) {  // after d: the sum, which nobody needs here
  float d = gguf_f16(b);
  for (int i = 0; i < 32; i++) out[i] = d * (float)(int8_t)b[4 + i];
}

static void q1_0(const uint8_t *b, float *out) {
  float d = gguf_f16(b);
  for (int i = 0; i < 128; i++) out[i] = b[2 + i / 8] >> (i % 8) & 1 ? d : -d;
}

static void q2_k(const uint8_t *b, float *out) {
  const uint8_t *scale = b, *q = b + 16;
  float d = gguf_f16(b + 80), dmin = gguf_f16(b + 82);
  for (int i = 0; i < QK; i++) {
    int s = scale[i / 16];
    float dl = d * (float)(s & 15), ml = dmin * (float)(s >> 4);
    out[i] = dl * (float)(q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - ml;
  }
}

static void q3_k(const uint8_t *b, float *out) {
  const uint8_t *high = b, *q = b + 32, *s = b + 96;
  float d = gguf_f16(b + 108);
  for (int i = 0; i < QK; i++) {
    int k = i / 16, low = s[k % 8] >> (k / 8 * 4) & 15, top = s[8 + k % 4] >> (k / 4 * 2) & 3;
    float dl = d * (float)((low | top << 4) - 32);
    int v = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    out[i] = dl * (float)(v - (high[i % 32] >> (i / 32) & 1 ? 0 : 4));
  }
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes.
static void scale_min(const uint8_t *s, int k, int *scale, int *min) {
  if (k < 4) {
    *scale = s[k] & 63;
    *min = s[4 + k] & 63;
  } else {
    *scale = (s[4 + k] & 15) | (s[k - 4] >> 6) << 4;
    *min = (s[4 + k] >> 4) | (s[k] >> 6) << 4;
  }
}

static void q4_k(const uint8_t *b, float *out) {
  float d = gguf_f16(b), dmin = gguf_f16(b + 2);
  for (int k = 0; k < 8; k++) {
    int sc, m;
    scale_min(b + 4, k, &sc, &m);
    float dl = d * (float)sc, ml = dmin * (float)m;
    const uint8_t *q = b + 16 + k / 2 * 32;
    for (int i = 0; i < 32; i++) out[k * 32 + i] = dl * (float)(q[i] >> (k % 2 * 4) & 15) - ml;
  }
}

static void q5_k(const uint8_t *b, float *out) {
  float d = gguf_f16(b), dmin = gguf_f16(b + 2);
  for (int k = 0; k < 8; k++) {
    int sc, m;
    scale_min(b + 4, k, &sc, &m);
    float dl = d * (float)sc, ml = dmin * (float)m;
    const uint8_t *high = b + 16, *q = b + 48 + k / 2 * 32;
    for (int i = 0; i < 32; i++) {
      int v = (q[i] >> (k % 2 * 4) & 15) | (high[i] >> k & 1) << 4;
      out[k * 32 + i] = dl * (float)v - ml;
    }
  }
}

static void q6_k(const uint8_t *b, float *out) {
  const uint8_t *low = b, *high = b + 128, *scale = b + 192;
  float d = gguf_f16(b + 208);
  for (int i = 0; i < QK; i++) {
    int in = i % 128, l = low[i / 128 * 64 + in % 64] >> (in / 64 * 4) & 15;
    int h = high[i / 128 * 32 + in % 32] >> (in / 32 * 2) & 3;
    float dl = d * (float)(int8_t)scale[i / 16];
    out[i] = dl * (float)((l | h << 4) - 32);
  }
}

static void q8_k(const uint8_t *b, float *out) {
  float d = f32_at(b);
  for (int i = 0; i < QK; i++) out[i] = d * (float)(int8_t)b[4 + i];
}

// Five ternary digits in a byte, as the upper part of digit / 3 in fixed point.
static void tq1_0(const uint8_t *b, float *out) {
  static const uint8_t power[5] = {1, 3, 9, 27, 81};
  float d = gguf_f16(b + 52);
  int n = 0;
  for (int k = 0; k < 5; k++)
    for (int i = 0; i < 32; i++) out[n++] = d * (float)(((uint8_t)(b[i] * power[k]) * 3 >> 8) - 1);
  for (int k = 0; k < 5; k++)
    for (int i = 32; i < 48; i++) out[n++] = d * (float)(((uint8_t)(b[i] * power[k]) * 3 >> 8) - 1);
  for (int k = 0; k < 4; k++)
    for (int i = 48; i < 52; i++) out[n++] = d * (float)(((uint8_t)(b[i] * power[k]) * 3 >> 8) - 1);
}

static void tq2_0(const uint8_t *b, float *out) {
  float d = gguf_f16(b + 64);
  for (int i = 0; i < QK; i++)
    out[i] = d * (float)((b[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
}

static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void mxfp4(const uint8_t *b, float *out) {
  float d = (float)ldexp(1, b[0] - 128);  // half of the scale, for the doubled values
  for (int i = 0; i < 16; i++) {
    out[i] = d * (float)e2m1_doubled[b[1 + i] & 15];
    out[i + 16] = d * (float)e2m1_doubled[b[1 + i] >> 4];
  }
}

static float ue4m3_half(uint8_t x) {
  if (x == 0 || x == 0x7f) return 0;
  int e = x >> 3 & 15, m = x & 7;
  return (float)(e ? ldexp(1 + m / 8.0, e - 8) : ldexp(m, -10));
}

static void nvfp4(const uint8_t *b, float *out) {
  for (int k = 0; k < 4; k++) {
    float d = ue4m3_half(b[k]);
    for (int i = 0; i < 8; i++) {
      out[k * 16 + i] = d * (float)e2m1_doubled[b[4 + k * 8 + i] & 15];
      out[k * 16 + 8 + i] = d * (float)e2m1_doubled[b[4 + k * 8 + i] >> 4];
    }
  }
}

const GgufType gguf_type[GGUF_NTYPES] = {
    // clang-format off
    [0]  = {"F32",     1,   4,   DT_F32,  NULL},
    [1]  = {"F16",     1,   2,   DT_F16,  NULL},
    [2]  = {"Q4_0",    32,  18,  0, q4_0},
    [3]  = {"Q4_1",    32,  20,  0, q4_1},
    [6]  = {"Q5_0",    32,  22,  0, q5_0},
    [7]  = {"Q5_1",    32,  24,  0, q5_1},
    [8]  = {"Q8_0",    32,  34,  0, q8_0},
    [9]  = {"Q8_1",    32,  36,  0, q8_1},
    [10] = {"Q2_K",    256, 84,  0, q2_k},
    [11] = {"Q3_K",    256, 110, 0, q3_k},
    [12] = {"Q4_K",    256, 144, 0, q4_k},
    [13] = {"Q5_K",    256, 176, 0, q5_k},
    [14] = {"Q6_K",    256, 210, 0, q6_k},
    [15] = {"Q8_K",    256, 292, 0, q8_k},
    [16] = {"IQ2_XXS", 256, 66,  0, gguf_iq2_xxs},
    [17] = {"IQ2_XS",  256, 74,  0, gguf_iq2_xs},
    [18] = {"IQ3_XXS", 256, 98,  0, gguf_iq3_xxs},
    [19] = {"IQ1_S",   256, 50,  0, gguf_iq1_s},
    [20] = {"IQ4_NL",  32,  18,  0, gguf_iq4_nl},
    [21] = {"IQ3_S",   256, 110, 0, gguf_iq3_s},
    [22] = {"IQ2_S",   256, 82,  0, gguf_iq2_s},
    [23] = {"IQ4_XS",  256, 136, 0, gguf_iq4_xs},
    [24] = {"I8",      1,   1,   DT_I8,   NULL},
    [25] = {"I16",     1,   2,   DT_I16,  NULL},
    [26] = {"I32",     1,   4,   DT_I32,  NULL},
    [27] = {"I64",     1,   8,   DT_I64,  NULL},
    [28] = {"F64",     1,   8,   DT_F64,  NULL},
    [29] = {"IQ1_M",   256, 56,  0, gguf_iq1_m},
    [30] = {"BF16",    1,   2,   DT_BF16, NULL},
    [34] = {"TQ1_0",   256, 54,  0, tq1_0},
    [35] = {"TQ2_0",   256, 66,  0, tq2_0},
    [39] = {"MXFP4",   32,  17,  0, mxfp4},
    [40] = {"NVFP4",   64,  36,  0, nvfp4},
    [41] = {"Q1_0",    128, 18,  0, q1_0},
    // clang-format on
};
