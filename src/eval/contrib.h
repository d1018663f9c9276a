// contrib.h -- reference evaluation of ops that only runtimes' own operators need.
#ifndef TENON_EVAL_CONTRIB_H
#define TENON_EVAL_CONTRIB_H

#include "eval/eval.h"

// clang-format off
#define MAT_MUL_N_BITS_ATTRS(A, C, T)                                                              \
  A(T, i64, bits, 4, "bits of a weight: 2, 4 or 8")
#define UNPACK_N_BITS_ATTRS(A, C, T)                                                               \
  A(T, i64, bits, 4, "bits of a weight: 2, 4 or 8")                                                \
  A(T, i64, zero, 0, "the stored number that means 0")
// clang-format on
ATTR_STRUCT(mat_mul_n_bits, MAT_MUL_N_BITS_ATTRS);
ATTR_STRUCT(unpack_n_bits, UNPACK_N_BITS_ATTRS);
EvalFn eval_inverse, eval_mat_mul_n_bits, eval_unpack_n_bits;

// The weights of mat_mul_n_bits and unpack_n_bits, [rows, blocks, bytes of a block]; false where
// they do not fit a depth.
typedef struct NBits {
  int64_t rows, blocks, bytes, bits, block, depth;  // block: weights of one
} NBits;
bool int4_fits(NBits *q);  // sets block
// Weight k of a row, as it is stored.
static inline int64_t n_bits_at(const NBits *q, const uint8_t *w, int64_t row, int64_t k) {
  int64_t bit = k % q->block * q->bits;
  return w[(row * q->blocks + k / q->block) * q->bytes + bit / 8] >> bit % 8 & ((1 << q->bits) - 1);
}

#endif
