// meaning.h -- what the expressions of scalar.def call: for all that turn its meanings into
// functions.
#ifndef TENON_EVAL_MEANING_H
#define TENON_EVAL_MEANING_H

#include <math.h>
#include <stdint.h>

static inline double float_mod(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static inline int64_t trunc_div(int64_t x, int64_t y) {
  return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}
static inline int64_t trunc_rem(int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }
static inline int64_t floor_mod(int64_t x, int64_t y) {
  int64_t r = trunc_rem(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
// A NaN wins, and -0 lies below 0: so that the order of the operands never shows.
#define MIN_OF(x, y) (x < y || x != x || (x == y && signbit(x))) ? x : y
#define MAX_OF(x, y) (x > y || x != x || (x == y && !signbit(x))) ? x : y

// Squares and reciprocals are rounded once, which no library promises of pow.
static inline double float_pow(double x, double y) {
  return y == 2 ? x * x : y == -1 ? 1 / x : pow(x, y);
}

static inline uint64_t wrap_pow(uint64_t x, uint64_t y) {
  uint64_t r = 1;
  for (; y; y >>= 1, x *= x)
    if (y & 1) r *= x;
  return r;
}
static inline int64_t signed_pow(int64_t x, int64_t y) {
  if (y >= 0) return (int64_t)wrap_pow((uint64_t)x, (uint64_t)y);
  return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
}
static inline uint64_t shift_left(uint64_t x, uint64_t y) { return y < 64 ? x << y : 0; }
static inline uint64_t shift_right(uint64_t x, uint64_t y) { return y < 64 ? x >> y : 0; }

#endif
