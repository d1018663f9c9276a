// ggml_iq.c -- ggml's IQ types: elements by code books (ggml_grids.c), signs beside them; exact, in
// f32.
#include "eval/ggml.h"

static const int8_t level2[4] = {0x08, 0x19, 0x2b, 0};
static const int8_t level3_xxs[8] = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e};
static const int8_t level3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};
const int8_t ggml_iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

// Seven signs are stored; the eighth makes their number even.
static uint32_t eight_signs(uint32_t seven) {
  uint32_t p = seven ^ seven >> 4;
  p ^= p >> 2;
  p ^= p >> 1;
  return seven | (p & 1) << 7;
}

static float with_sign(float x, uint32_t signs, int i) { return signs >> i & 1 ? -x : x; }

static void put_2(float *out, float d, uint32_t row, uint32_t signs) {
  for (int i = 0; i < 8; i++) out[i] = with_sign(d * (float)level2[row >> (2 * i) & 3], signs, i);
}

static void put_3(float *out, float d, const int8_t *level, uint32_t row, uint32_t signs) {
  for (int i = 0; i < 4; i++) out[i] = with_sign(d * (float)level[row >> (3 * i) & 7], signs, i);
}

static void put_1(float *out, float d, uint32_t row, float delta) {
  for (int i = 0; i < 8; i++) out[i] = d * ((float)((int)(row >> (2 * i) & 3) - 1) + delta);
}

void ggml_iq2_xxs(const uint8_t *b, float *out) {
  float d = ggml_f16(b);
  for (int k = 0; k < 8; k++) {
    const uint8_t *q = b + 2 + k * 8;
    uint32_t aux = ggml_u32(q + 4);
    float db = d * (0.5f + (float)(aux >> 28)) * 0.25f;
    for (int j = 0; j < 4; j++)
      put_2(out + k * 32 + j * 8, db, ggml_grid_iq2_xxs[q[j]], eight_signs(aux >> (7 * j) & 127));
  }
}

void ggml_iq2_xs(const uint8_t *b, float *out) {
  float d = ggml_f16(b);
  const uint8_t *scale = b + 66;
  for (int k = 0; k < 32; k++) {
    uint32_t q = ggml_u16(b + 2 + k * 2);
    float db = d * (0.5f + (float)(scale[k / 4] >> (k / 2 % 2 * 4) & 15)) * 0.25f;
    put_2(out + k * 8, db, ggml_grid_iq2_xs[q & 511], eight_signs(q >> 9));
  }
}

void ggml_iq2_s(const uint8_t *b, float *out) {
  float d = ggml_f16(b);
  const uint8_t *q = b + 2, *sign = b + 34, *high = b + 66, *scale = b + 74;
  for (int k = 0; k < 32; k++) {
    uint32_t row = q[k] | (uint32_t)(high[k / 4] >> (k % 4 * 2) & 3) << 8;
    float db = d * (0.5f + (float)(scale[k / 4] >> (k / 2 % 2 * 4) & 15)) * 0.25f;
    put_2(out + k * 8, db, ggml_grid_iq2_s[row], sign[k]);
  }
}

void ggml_iq3_xxs(const uint8_t *b, float *out) {
  float d = ggml_f16(b);
  for (int k = 0; k < 8; k++) {
    uint32_t aux = ggml_u32(b + 66 + k * 4);
    float db = d * (0.5f + (float)(aux >> 28)) * 0.5f;
    for (int j = 0; j < 8; j++) {
      uint32_t signs = eight_signs(aux >> (7 * (j / 2)) & 127) >> (j % 2 * 4);
      put_3(out + k * 32 + j * 4, db, level3_xxs, ggml_grid_iq3_xxs[b[2 + k * 8 + j]], signs);
    }
  }
}

void ggml_iq3_s(const uint8_t *b, float *out) {
  float d = ggml_f16(b);
  const uint8_t *q = b + 2, *high = b + 66, *sign = b + 74, *scale = b + 106;
  for (int k = 0; k < 64; k++) {
    uint32_t row = q[k] | (uint32_t)(high[k / 8] >> (k % 8) & 1) << 8;
    float db = d * (float)(1 + 2 * (scale[k / 16] >> (k / 8 % 2 * 4) & 15));
    put_3(out + k * 4, db, level3_s, ggml_grid_iq3_s[row], sign[k / 2] >> (k % 2 * 4));
  }
}

void ggml_iq1_s(const uint8_t *b, float *out) {
  float d = ggml_f16(b);
  for (int k = 0; k < 32; k++) {
    uint32_t h = ggml_u16(b + 34 + k / 4 * 2);
    uint32_t row = b[2 + k] | (h >> (k % 4 * 3) & 7) << 8;
    put_1(out + k * 8, d * (float)(2 * (h >> 12 & 7) + 1), ggml_grid_iq1[row],
          h & 0x8000 ? -0.125f : 0.125f);
  }
}

void ggml_iq1_m(const uint8_t *b, float *out) {
  const uint8_t *high = b + 32, *scale = b + 48;
  uint32_t bits = 0;  // of the f16 scale: four in each of the words of scales
  for (int i = 0; i < 4; i++) bits |= (ggml_u16(scale + 2 * i) >> 12) << (4 * i);
  float d = (float)f16_to_f64((uint16_t)bits);
  for (int k = 0; k < 32; k++) {
    uint32_t s = ggml_u16(scale + k / 8 * 2) >> (k / 2 % 4 * 3) & 7;
    uint32_t h = high[k / 2] >> (k % 2 * 4);
    put_1(out + k * 8, d * (float)(2 * s + 1), ggml_grid_iq1[b[k] | (h & 7) << 8],
          h & 8 ? -0.125f : 0.125f);
  }
}

void ggml_iq4_nl(const uint8_t *b, GgmlParts *out) {
  out->d = ggml_f16(b);
  out->s[0] = 1;
  for (int i = 0; i < 16; i++) {
    out->q[i] = ggml_iq4_levels[b[2 + i] & 15];
    out->q[i + 16] = ggml_iq4_levels[b[2 + i] >> 4];
  }
}

void ggml_iq4_xs(const uint8_t *b, GgmlParts *out) {
  uint32_t high = ggml_u16(b + 2);
  out->d = ggml_f16(b);
  for (int k = 0; k < 8; k++) {
    int low = b[4 + k / 2] >> (k % 2 * 4) & 15, top = (int)(high >> (2 * k) & 3);
    out->s[k] = (int16_t)((low | top << 4) - 32);
    const uint8_t *q = b + 8 + k * 16;
    for (int i = 0; i < 16; i++) {
      out->q[k * 32 + i] = ggml_iq4_levels[q[i] & 15];
      out->q[k * 32 + 16 + i] = ggml_iq4_levels[q[i] >> 4];
    }
  }
}
