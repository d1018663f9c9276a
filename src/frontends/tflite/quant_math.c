// quant_math.c -- fixed-point arithmetic on numbers: multipliers, exp, logistic, tanh, tables.
//
// Fixed-point numbers are 32-bit: b integer bits leave 31 - b fractional ones.  Their product is
// the high half of the doubled product, so integer bits add up.
#include <math.h>

#include "frontends/tflite/quant.h"

enum { Q_BITS = 31 };
static const int64_t q_one = INT32_MAX;  // 1 without integer bits: the largest there is

static int64_t saturate(int64_t x) { return MIN(MAX(x, (int64_t)INT32_MIN), (int64_t)INT32_MAX); }

double quant_round(double x) { return round(x); }

QMul quant_multiplier(double real) {
  QMul r = {0, 0};
  if (real == 0 || !isfinite(real)) return r;
  double q = frexp(real, &r.shift);
  r.m = (int64_t)round(q * (double)((int64_t)1 << Q_BITS));
  if (r.m == (int64_t)1 << Q_BITS) {
    r.m /= 2;
    r.shift++;
  }
  if (r.shift < -Q_BITS) r = (QMul){0, 0};
  // A larger factor than fits any sum of 32 bits.
  if (r.shift > 30) r = (QMul){r.m < 0 ? INT32_MIN : INT32_MAX, 30};
  return r;
}

int64_t quant_high_mul(int64_t a, int64_t b) {
  if (a == b && a == INT32_MIN) return INT32_MAX;
  return (a * b + ((int64_t)1 << 30)) >> 31;
}

int64_t quant_shift(int64_t x, int e) {
  if (e <= 0) return x;
  return (x + ((int64_t)1 << (e - 1)) - (x < 0)) >> e;
}

int64_t quant_mul32(int64_t x, QMul m) {
  int left = MAX(m.shift, 0), right = MAX(-m.shift, 0);
  return quant_shift(quant_high_mul(saturate(x * ((int64_t)1 << left)), m.m), right);
}

int64_t quant_mul64(int64_t x, QMul m) {
  int64_t upper = m.m < 0x7FFF0000 ? (m.m + (1 << 15)) >> 16 : 0x7FFF;
  int total = 15 - m.shift;
  return total <= 0 ? x * upper : (x * upper + ((int64_t)1 << (total - 1))) >> total;
}

bool quant_log2(float x, int *out) {
  float log_2 = logf(x) * (1.0f / logf(2.0f)), nearest = roundf(log_2);
  *out = (int)MIN(MAX(nearest, -1000.0f), 1000.0f);
  return fabsf(log_2 - nearest) < 1e-3f;
}

int quant_radius(int integer_bits, int left_shift) {
  double most = (double)((1 << integer_bits) - 1) * (double)((int64_t)1 << (31 - integer_bits));
  return (int)floor(ldexp(most, -left_shift));
}

// ---- fixed-point functions ----

static int64_t half_sum(int64_t a, int64_t b) {
  int64_t sum = a + b;
  return (sum + (sum >= 0 ? 1 : -1)) / 2;
}
static int64_t shift_left(int64_t x, int n) { return saturate(x * ((int64_t)1 << n)); }

// e^a for a in [-1/4, 0): four terms around -1/8.
static int64_t exp_quarter(int64_t a) {
  const int64_t at_eighth = 1895147668, third = 715827883;  // exp(-1/8), 1/3
  int64_t x = a + ((int64_t)1 << 28);
  int64_t x2 = quant_high_mul(x, x), x3 = quant_high_mul(x2, x), x4 = quant_high_mul(x2, x2);
  int64_t tail = quant_shift(quant_high_mul(quant_shift(x4, 2) + x3, third) + x2, 1);
  return at_eighth + quant_high_mul(at_eighth, x + tail);
}

int64_t quant_exp_negative(int64_t a, int bits) {
  // exp(-2^k) for k = -2 .. 4
  static const int64_t factor[] = {1672461947, 1302514674, 790015084, 290630308,
                                   39332535,   720401,     242};
  int frac = Q_BITS - bits;
  int64_t quarter = (int64_t)1 << (frac - 2);
  int64_t part = (a & (quarter - 1)) - quarter;
  int64_t result = exp_quarter(shift_left(part, bits)), rest = part - a;
  for (int k = -2; k <= 4 && k < bits; k++)
    if (rest & ((int64_t)1 << (frac + k))) result = quant_high_mul(result, factor[k + 2]);
  if (bits > 5 && a < -((int64_t)1 << (frac + 5))) result = 0;
  return a == 0 ? q_one : result;
}

// 2 / (1 + a) with 2 integer bits, by Newton's method from 48/17 - 32/17 d.
static int64_t newton(int64_t a) {
  const int64_t one = (int64_t)1 << 29;
  int64_t d = half_sum(a, q_one);
  int64_t x = 1515870810 + quant_high_mul(d, -1010580540);
  for (int i = 0; i < 3; i++) {
    int64_t miss = one - quant_high_mul(d, x);
    x += shift_left(quant_high_mul(x, miss), 2);
  }
  return x;
}

int64_t quant_logistic_q4(int64_t a) {
  if (a == 0) return (int64_t)1 << 30;
  int64_t r = shift_left(newton(quant_exp_negative(a > 0 ? -a : a, 4)), 1);
  return a > 0 ? r : q_one - r;
}

int64_t quant_tanh_q4(int64_t a) {
  if (a == 0) return 0;
  int64_t x = newton(quant_exp_negative(a > 0 ? -a : a, 5));  // exp(2a): one integer bit more
  int64_t r = shift_left(x - ((int64_t)1 << 29), 2);
  return a > 0 ? r : -r;
}

// ---- 16 bits, by tables ----

// 65536 logistic(i / 24), raised by half of what a chord is below the curve at most; the last entry
// is where the function has become 1.
static int64_t sigmoid_entry(int64_t i) {
  if (i >= 255) return 65535;
  double y = 1 / (1 + exp(-(double)i / 24)), bend = y * (1 - y) * (1 - 2 * y) / (24 * 24);
  return (int64_t)round(65536 * (y - bend / 16));
}
static int64_t scaled(int64_t x, int64_t m, int shift) {
  return shift > 0 ? (x * m + ((int64_t)1 << (shift - 1))) >> shift : x * m;
}

int64_t quant_logistic_16(int64_t x, int64_t m, int shift) {
  int64_t v = scaled(x, m, shift), size = v < 0 ? -v : v, at = size >> 9;
  int64_t low = at >= 255 ? 0 : sigmoid_entry(at);
  int64_t r = at >= 255 ? (int64_t)0x7FFF << 10
                        : (low << 9) + (size & 0x1ff) * (sigmoid_entry(at + 1) - low);
  return (v >= 0 ? r + (1 << 9) : (1 << 25) - r + (1 << 9) - 1) >> 10;
}

int64_t quant_tanh_16(int64_t x, int64_t m, int shift) {
  int64_t v = scaled(x, m, shift), size = v < 0 ? -v : v, at = size >> 8;
  int64_t low = at >= 255 ? 0 : sigmoid_entry(at);
  int64_t r =
      at >= 255 ? (int64_t)0xFFFF << 8 : (low << 8) + (size & 0xff) * (sigmoid_entry(at + 1) - low);
  return (v >= 0 ? r - (1 << 23) + (1 << 7) : -r + (1 << 23) + (1 << 7) - 1) >> 8;
}

void quant_lut_16(float in_scale, int64_t in_zero, float out_scale, int64_t out_zero, QuantFn *f,
                  const void *arg, int16_t lut[513]) {
  enum { STEPS = 512 };
  float from = in_scale * (float)(INT16_MIN - in_zero),
        to = in_scale * (float)(INT16_MAX - in_zero);
  float low = out_scale * (float)(INT16_MIN - out_zero);
  float high = out_scale * (float)(INT16_MAX - out_zero);
  float step = (to - from) / STEPS, half = step / 2, inverse = 65536.0f / (high - low);
  for (int i = 0; i < STEPS; i++) {
    float v = (float)f((double)(from + (float)i * step), arg);
    float middle = (float)f((double)(from + (float)i * step + half), arg);
    float next = (float)f((double)(from + (float)(i + 1) * step), arg);
    float sample = roundf(v * inverse);
    float guess = roundf((next * inverse + roundf(v * inverse)) / 2);
    float bias = roundf((guess - roundf(middle * inverse)) / 2);
    lut[i] = (int16_t)MIN(MAX(sample - bias, -32768.0f), 32767.0f);
  }
  lut[STEPS] = (int16_t)MIN(MAX(roundf((float)f((double)to, arg) * inverse), -32768.0f), 32767.0f);
}

int64_t quant_lut_16_at(const int16_t lut[513], int64_t x) {
  int64_t at = 256 + (x >> 7), base = lut[at], slope = (int16_t)(lut[at + 1] - lut[at]);
  return (int16_t)(base + ((slope * (x & 0x7f) + 64) >> 7));
}
