// blocks.h -- reference evaluation of products with matrices in ggml's block types.
//
// A matrix is u8[rows, bytes of a row] in the layout of its file, rows of whole blocks.  Plain
// types have elements one by one: f32, f16, bf16, and those of 8 bits, which a product may scale by
// tiles of the matrix.  x may come quantised, as `quantize_blocks` makes it: a row is blocks of 32
// or 256 elements, and a block is
//   its codes in i8, its scale in f32, and an i32 sum of the codes of each group of its elements:
//   32 where blocks have 32, and 16 where they have 256.
#ifndef TENON_EVAL_BLOCKS_H
#define TENON_EVAL_BLOCKS_H

#include "eval/eval.h"
#include "eval/ggml.h"

// The types by name, as ggml numbers them, and plain ones that it does not have; the attribute is
// an index into this list.
// clang-format off
#define BLOCK_TYPES                                                                                \
  "f16|q4_0|q4_1|q5_0|q5_1|q8_0|q8_1|q2_k|q3_k|q4_k|q5_k|q6_k|q8_k|iq2_xxs|iq2_xs|iq3_xxs|iq1_s|"  \
  "iq4_nl|iq3_s|iq2_s|iq4_xs|iq1_m|bf16|tq1_0|tq2_0|mxfp4|nvfp4|q1_0|f8e4m3|f8e5m2|i8|f32"
typedef enum { BLOCKS_F32, BLOCKS_INT8 } BlocksActivations;
#define MAT_MUL_BLOCKS_ATTRS(A, C, T)                                                              \
  C(T, type, BLOCK_TYPES, 1, "ggml's type of the blocks of w")                                     \
  A(T, i64, k, 0, "elements of a row, a multiple of a block")                                      \
  C(T, activations, "f32|int8", 0, "how x is multiplied: as it is, or quantised to 8 bits")         \
  A(T, i64, scale_rows, 0, "rows of w with one scale; 0: all of them")                             \
  A(T, i64, scale_k, 0, "elements of a row with one scale; 0: all of them")                        \
  A(T, i64, groups, 1, "matrices that w has one behind the other, of which a row takes one")
#define GATHER_BLOCKS_ATTRS(A, C, T)                                                               \
  C(T, type, BLOCK_TYPES, 1, "ggml's type of the blocks of w")                                     \
  A(T, i64, k, 0, "elements of a row, a multiple of a block")
#define QUANTIZE_BLOCKS_ATTRS(A, C, T)                                                             \
  A(T, i64, block, 32, "elements with one scale: 32 or 256")
// clang-format on
ATTR_STRUCT(mat_mul_blocks, MAT_MUL_BLOCKS_ATTRS);
ATTR_STRUCT(gather_blocks, GATHER_BLOCKS_ATTRS);
ATTR_STRUCT(quantize_blocks, QUANTIZE_BLOCKS_ATTRS);
EvalFn eval_mat_mul_blocks, eval_gather_blocks, eval_quantize_blocks;

const GgmlType *block_type(int choice);  // of the attribute `type`
int block_choice(int code);              // of ggml's number of a type; -1: no op takes it
// Tiles of w with a scale each, [rows, columns]; false: the attributes are no sizes.
bool block_scales(const mat_mul_blocks_attrs *at, int64_t rows, int64_t out[2]);
// Bytes of a row of k elements; false: k is not whole blocks, or too large.
bool block_row_bytes(const GgmlType *t, int64_t k, int64_t *out);

// ---- x in 8 bits ----
enum { X_BLOCK_LEAST = 32, X_BLOCK_MOST = 256 };
// A block whose largest magnitude is below this counts as zeros, so that no scale is subnormal.
#define X_LEAST 0x1p-90
static inline int64_t x_group(int64_t block) { return block == X_BLOCK_LEAST ? 32 : 16; }
static inline int64_t x_sum_at(int64_t block) { return block + 4; }  // behind codes and scale
static inline int64_t x_block_bytes(int64_t block) {
  return x_sum_at(block) + block / x_group(block) * 4;
}
// Bytes of a quantised row; false: k is not whole blocks, or too large.
bool x_row_bytes(int64_t k, int64_t block, int64_t *out);

#endif
