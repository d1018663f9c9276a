// ggml_pack.c -- rounding rows of floats to ggml's block types (ggml_pack.h).
//
// A part of a block gets the scale, and where the type has one the minimum, of the least weighted
// square error among candidates: each candidate rounds the elements, and a regression on the levels
// gives the best scale for them.  Then scales are stored in the 16, 8 or 6 bits that the type has
// for them, and elements are rounded once more by what was stored.
#include "compress/ggml_pack.h"

#include <math.h>

enum { K = GGML_BLOCK, PART = 32, PART6 = 16 };

typedef void PackBlock(const float *x, uint8_t *out);

static void put_f16(uint8_t *p, double v) {
  uint16_t h = f16_from_f64(fmin(fmax(v, -65504), 65504));
  p[0] = (uint8_t)h;
  p[1] = (uint8_t)(h >> 8);
}

static int level(double v, int low, int high) { return (int)fmin(fmax(nearbyint(v), low), high); }

// How much an element's error counts: more for large ones, which products depend on.
static void weigh(const float *x, int n, double *w) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  for (int i = 0; i < n; i++) w[i] = sqrt(sum / n + (double)x[i] * (double)x[i]);
}

// ---- one scale: x is about d q, with q in [low, high] ----

static double fit_scale(const float *x, const double *w, int n, int low, int high) {
  double most = 0, best = -1, d = 0;
  for (int i = 0; i < n; i++)
    if (fabs((double)x[i]) > fabs(most)) most = (double)x[i];
  if (fabs(most) < 1e-30) return 0;
  // The largest element becomes the level that is furthest from 0.
  for (int t = -9; t <= 9; t++) {
    double by = (low - 0.1 * t) / most, product = 0, square = 0;
    for (int i = 0; i < n; i++) {
      double q = level((double)x[i] * by, low, high);
      product += w[i] * (double)x[i] * q;
      square += w[i] * q * q;
    }
    if (!(square > 0) || product * product <= best * square) continue;
    best = product * product / square;
    d = product / square;
  }
  return d;
}

static void round_by(const float *x, int n, double d, int low, int high, int *q) {
  for (int i = 0; i < n; i++) q[i] = d != 0 ? level((double)x[i] / d, low, high) : 0;
}

// The scale goes to the first bytes of the block.
static void one_scale(const float *x, int low, int high, int *q, uint8_t *out) {
  double w[PART];
  weigh(x, PART, w);
  put_f16(out, fit_scale(x, w, PART, low, high));
  round_by(x, PART, (double)ggml_f16(out), low, high, q);
}

static void put_nibbles(const int *q, uint8_t *out) {
  for (int i = 0; i < 16; i++) out[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void put_fifths(const int *q, uint8_t *out) {
  uint32_t high = 0;
  for (int i = 0; i < PART; i++) high |= (uint32_t)(q[i] >> 4 & 1) << i;
  for (int i = 0; i < 4; i++) out[i] = (uint8_t)(high >> (8 * i));
}

static void q4_0(const float *x, uint8_t *out) {
  int q[PART];
  one_scale(x, -8, 7, q, out);
  for (int i = 0; i < PART; i++) q[i] += 8;
  put_nibbles(q, out + 2);
}

static void q5_0(const float *x, uint8_t *out) {
  int q[PART];
  one_scale(x, -16, 15, q, out);
  for (int i = 0; i < PART; i++) q[i] += 16;
  put_fifths(q, out + 2);
  put_nibbles(q, out + 6);
}

static void q8_0(const float *x, uint8_t *out) {
  int q[PART];
  one_scale(x, -127, 127, q, out);
  for (int i = 0; i < PART; i++) out[2 + i] = (uint8_t)q[i];
}

static void q6_k(const float *x, uint8_t *out) {
  double scale[K / PART6], most = 0, w[PART6];
  for (int k = 0; k < K / PART6; k++) {
    weigh(x + k * PART6, PART6, w);
    scale[k] = fit_scale(x + k * PART6, w, PART6, -32, 31);
    if (fabs(scale[k]) > fabs(most)) most = scale[k];
  }
  memset(out, 0, 210);
  put_f16(out + 208, most / -128);
  double d = (double)ggml_f16(out + 208);
  for (int k = 0; k < K / PART6; k++) {
    int s = d != 0 ? level(scale[k] / d, -128, 127) : 0, q[PART6];
    out[192 + k] = (uint8_t)s;
    round_by(x + k * PART6, PART6, d * s, -32, 31, q);
    for (int i = 0; i < PART6; i++) {
      int at = k * PART6 + i, in = at % 128, v = q[i] + 32;
      out[at / 128 * 64 + in % 64] |= (uint8_t)((v & 15) << (in / 64 * 4));
      out[128 + at / 128 * 32 + in % 32] |= (uint8_t)((v >> 4) << (in / 32 * 2));
    }
  }
}

// ---- a scale and a minimum: x is about d q + min, with q in [0, high] ----

typedef struct Line {
  double d, min;
} Line;

// The line of least weighted square error for the levels; a minimum above 0 is none where the type
// can only take away.
static Line regress(const float *x, const double *w, const int *q, int n, bool below) {
  double sw = 0, sx = 0, sq = 0, sqq = 0, sxq = 0;
  for (int i = 0; i < n; i++) {
    sw += w[i];
    sx += w[i] * (double)x[i];
    sq += w[i] * q[i];
    sqq += w[i] * q[i] * q[i];
    sxq += w[i] * (double)x[i] * q[i];
  }
  double det = sw * sqq - sq * sq;
  if (!(det > 0)) return (Line){0, below ? fmin(sx / sw, 0) : sx / sw};
  Line l = {(sw * sxq - sx * sq) / det, (sqq * sx - sq * sxq) / det};
  if (below && l.min > 0) l = (Line){sqq > 0 ? sxq / sqq : 0, 0};
  return l;
}

static Line fit_line(const float *x, int n, int high, bool below) {
  double w[PART], lo = (double)x[0], hi = (double)x[0], least = INFINITY;
  int q[PART];
  Line best = {0, 0};
  weigh(x, n, w);
  for (int i = 0; i < n; i++) lo = fmin(lo, (double)x[i]), hi = fmax(hi, (double)x[i]);
  if (below) lo = fmin(lo, 0);
  if (hi - lo < 1e-30) return (Line){0, below ? fmin(lo, 0) : lo};
  for (int t = 0; t <= 20; t++) {
    double by = (high - 1 + 0.1 * t) / (hi - lo), error = 0;
    for (int i = 0; i < n; i++) q[i] = level(((double)x[i] - lo) * by, 0, high);
    Line l = regress(x, w, q, n, below);
    for (int i = 0; i < n; i++) {
      double off = l.d * q[i] + l.min - (double)x[i];
      error += w[i] * off * off;
    }
    if (error < least) least = error, best = l;
  }
  return best;
}

static void one_line(const float *x, int high, int *q, uint8_t *out) {
  Line l = fit_line(x, PART, high, false);
  put_f16(out, l.d);
  put_f16(out + 2, l.min);
  double d = (double)ggml_f16(out), min = (double)ggml_f16(out + 2);
  for (int i = 0; i < PART; i++) q[i] = d != 0 ? level(((double)x[i] - min) / d, 0, high) : 0;
}

static void q4_1(const float *x, uint8_t *out) {
  int q[PART];
  one_line(x, 15, q, out);
  put_nibbles(q, out + 4);
}

static void q5_1(const float *x, uint8_t *out) {
  int q[PART];
  one_line(x, 31, q, out);
  put_fifths(q, out + 4);
  put_nibbles(q, out + 8);
}

// Eight 6-bit scales and minima behind two f16.
static void put_scales(const int *s, const int *m, uint8_t *out) {
  for (int k = 0; k < 4; k++) {
    out[k] = (uint8_t)(s[k] | (s[k + 4] >> 4) << 6);
    out[4 + k] = (uint8_t)(m[k] | (m[k + 4] >> 4) << 6);
    out[8 + k] = (uint8_t)((s[k + 4] & 15) | (m[k + 4] & 15) << 4);
  }
}

// The lines of eight parts, stored; then the levels by what was stored.
static void eight_lines(const float *x, int high, int *q, uint8_t *out) {
  enum { PARTS = K / PART, MOST = 63 };
  Line l[PARTS];
  double d = 0, min = 0;
  int s[PARTS], m[PARTS];
  for (int k = 0; k < PARTS; k++) {
    l[k] = fit_line(x + k * PART, PART, high, true);
    d = fmax(d, l[k].d);
    min = fmax(min, -l[k].min);
  }
  put_f16(out, d / MOST);
  put_f16(out + 2, min / MOST);
  d = (double)ggml_f16(out), min = (double)ggml_f16(out + 2);
  for (int k = 0; k < PARTS; k++) {
    s[k] = d > 0 ? level(l[k].d / d, 0, MOST) : 0;
    m[k] = min > 0 ? level(-l[k].min / min, 0, MOST) : 0;
    double step = d * s[k];
    for (int i = k * PART; i < (k + 1) * PART; i++)
      q[i] = step > 0 ? level(((double)x[i] + min * m[k]) / step, 0, high) : 0;
  }
  put_scales(s, m, out + 4);
}

static void put_halves(const int *q, uint8_t *out) {
  memset(out, 0, K / 2);
  for (int i = 0; i < K; i++)
    out[i / 64 * 32 + i % 32] |= (uint8_t)((q[i] & 15) << (i / 32 % 2 * 4));
}

static void q4_k(const float *x, uint8_t *out) {
  int q[K];
  eight_lines(x, 15, q, out);
  put_halves(q, out + 16);
}

static void q5_k(const float *x, uint8_t *out) {
  int q[K];
  eight_lines(x, 31, q, out);
  memset(out + 16, 0, 32);
  for (int i = 0; i < K; i++) out[16 + i % 32] |= (uint8_t)((q[i] >> 4) << (i / 32));
  put_halves(q, out + 48);
}

// ---- the table ----

enum { Q4_0 = 2, Q4_1, Q5_0 = 6, Q5_1, Q8_0, Q4_K = 12, Q5_K, Q6_K };
static const struct {
  int code;
  const char *name;
  int narrow;  // for rows that are no whole blocks of 256; -1: the type has blocks of 32
  int output;  // of the matrix that makes logits
  uint32_t file_type;
  PackBlock *pack;
} packs[] = {
    // clang-format off
    {Q8_0, "q8_0", -1,   Q8_0, 7,  q8_0},
    {Q6_K, "q6_k", Q8_0, Q6_K, 18, q6_k},
    {Q5_K, "q5_k", Q5_1, Q6_K, 16, q5_k},
    {Q4_K, "q4_k", Q5_0, Q6_K, 14, q4_k},
    {Q5_1, "q5_1", -1,   Q6_K, 9,  q5_1},
    {Q5_0, "q5_0", -1,   Q6_K, 8,  q5_0},
    {Q4_1, "q4_1", -1,   Q6_K, 3,  q4_1},
    {Q4_0, "q4_0", -1,   Q6_K, 2,  q4_0},
    // clang-format on
};

static int64_t row_of(int code) {
  for (int64_t i = 0; i < ARRAY_LEN(packs); i++)
    if (packs[i].code == code) return i;
  return -1;
}

int ggml_pack_find(Str name) {
  for (int64_t i = 0; i < ARRAY_LEN(packs); i++)
    if (str_is(name, packs[i].name)) return packs[i].code;
  return -1;
}

int ggml_pack_for(int code, int64_t n) {
  if (n > 0 && n % ggml_type[code].block == 0) return code;
  int narrow = packs[row_of(code)].narrow;
  return narrow >= 0 && n > 0 && n % ggml_type[narrow].block == 0 ? narrow : -1;
}

int ggml_pack_output(int code) { return packs[row_of(code)].output; }
uint32_t ggml_pack_file_type(int code) { return packs[row_of(code)].file_type; }

void ggml_pack_row(int code, const float *x, int64_t n, uint8_t *out) {
  PackBlock *pack = packs[row_of(code)].pack;
  const GgmlType *t = &ggml_type[code];
  for (int64_t i = 0; i < n / t->block; i++) pack(x + i * t->block, out + i * t->bytes);
}
