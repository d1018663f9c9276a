// quant.h -- the integer arithmetic of TensorFlow Lite's reference kernels.
//
// A real factor is a 31-bit multiplier and a shift; products are rounded in two steps (high half of
// the doubled product, ties up; then the shift, ties away from zero), and results must have every
// bit as the reference kernels have it.  Each piece exists twice: on numbers, from which tables are
// made at import, and in ordinary graph ops, so that every target computes the same.
#ifndef TENON_FRONTENDS_TFLITE_QUANT_H
#define TENON_FRONTENDS_TFLITE_QUANT_H

#include "ir/ir.h"

// ---- on numbers (quant_math.c) ----

typedef struct QMul {
  int64_t m;  // times 2^(shift - 31)
  int shift;  // above 0: to the left
} QMul;
QMul quant_multiplier(double real);
int64_t quant_mul32(int64_t x, QMul m);        // of a 32-bit sum
int64_t quant_mul64(int64_t x, QMul m);        // of a 64-bit sum: with the upper 16 bits of m
int64_t quant_high_mul(int64_t a, int64_t b);  // the doubled product's high half, rounded
int64_t quant_shift(int64_t x, int e);         // x / 2^e, ties away from zero
double quant_round(double x);                  // to an integer, ties away from zero
// x nearly a power of two: its exponent.
bool quant_log2(float x, int *out);
int quant_radius(int integer_bits, int left_shift);
// Numbers with 31 - bits fractional bits: exp of what is not positive (0 integer bits in the
// result), and of these 4-bit numbers the logistic function and tanh.
int64_t quant_exp_negative(int64_t a, int bits);
int64_t quant_logistic_q4(int64_t a);
int64_t quant_tanh_q4(int64_t a);
// Of 16-bit numbers, multiplied by m and shifted to the right: 24 table entries to the unit,
// interpolated.
int64_t quant_logistic_16(int64_t x, int64_t m, int shift);
int64_t quant_tanh_16(int64_t x, int64_t m, int shift);
// A function over 16 bits by 513 samples, and a value of it.
typedef double QuantFn(double x, const void *arg);
void quant_lut_16(float in_scale, int64_t in_zero, float out_scale, int64_t out_zero, QuantFn *f,
                  const void *arg, int16_t lut[513]);
int64_t quant_lut_16_at(const int16_t lut[513], int64_t x);

// ---- in graph ops (quant.c) ----

// Sums and differences are computed in i64; multipliers are one for all (n = 1) or one an element
// of the last axis.
Node *quant_cast(Graph *g, Node *x, DType t);              // x itself when it has the type
Node *quant_wide(Graph *g, Node *x, int64_t zero);         // x - zero in i64
Node *quant_const(Graph *g, int64_t n, const int64_t *v);  // i64: a scalar, or one axis
Node *quant_scale32(Graph *g, Node *x, const QMul *m, int64_t n);
// Of a 32-bit sum, rounded once, ties up.
Node *quant_scale_once(Graph *g, Node *x, const QMul *m, int64_t n);
Node *quant_scale64(Graph *g, Node *x, const QMul *m, int64_t n);
Node *quant_high_mul_node(Graph *g, Node *a, Node *b);
Node *quant_shift_node(Graph *g, Node *x, int e);
Node *quant_clamp(Graph *g, Node *x, int64_t lo, int64_t hi);
// Clamped and narrowed to t.
Node *quant_narrow(Graph *g, Node *x, int64_t lo, int64_t hi, DType t);
// A function of all values of x's type, which has 8 or 16 bits: value[i] for the bits i.
Node *quant_table(Graph *g, Node *x, DType t, const int64_t *value);
// x / y, ties away from zero, in f64; and float x to the nearest, ties away from zero.
Node *quant_round_node(Graph *g, Node *x);
// Leading zeros of 32 bits, for x > 0.
Node *quant_leading_zeros(Graph *g, Node *x);
// 1 / (1 + a) of a number in [0, 1), both with 31 fractional bits.
Node *quant_reciprocal(Graph *g, Node *a);

int64_t quant_min(DType t);
int64_t quant_max(DType t);

#endif
