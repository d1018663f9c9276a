// gemm.h -- the one matrix product behind every contraction of the reference evaluation.
//
// c[b][i][j] = sum over k of a[b][i][k] * b[b][j][k], in double or in wrapping 64-bit integers.
// Operands are fetched block by block through callbacks, so that transposition, broadcasting,
// gathering (im2col), zero points and element types cost no copies of whole tensors.
// Guarantees: every output element is the sum over k in ascending order, starting from 0, without
//             fused
// multiply-add: the bits do not depend on blocking, on the machine's vectors or on the number of
// threads.
#ifndef TENON_EVAL_GEMM_H
#define TENON_EVAL_GEMM_H

#include "eval/eval.h"

enum {
  GEMM_MR = 6,  // register tile
  GEMM_NR = 8,
  GEMM_MC = 144,  // cache block: multiples of the register tile
  GEMM_NC = 256,
  GEMM_KC = 256
};

typedef union Word {
  double f;
  int64_t i;
} Word;

// A block of an operand on its way into packed form: panels of `width` rows, each panel k-major.
typedef struct GemmBlock {
  Word *panel;
  int64_t width, nk;
  bool ints;
} GemmBlock;
// Row r of the block: nk words.
static inline void gemm_put_row(const GemmBlock *o, int64_t r, const Word *run) {
  Word *p = o->panel + r / o->width * o->width * o->nk + r % o->width;
  for (int64_t k = 0; k < o->nk; k++) p[k * o->width] = run[k];
}
// Column k of the block: words of rows [r, r + nr), r a multiple of the width.
void gemm_put_col(const GemmBlock *o, int64_t k, int64_t nr, const Word *run);

// Fills rows [r, r + nr) and k in [k0, k0 + out->nk) of batch b.
typedef void GemmLoad(const void *ctx, int64_t b, int64_t r, int64_t nr, int64_t k0,
                      const GemmBlock *out);
// Takes the finished sums c[b][i][j .. j + nj); may change `row`.
typedef void GemmStore(const void *ctx, int64_t b, int64_t i, int64_t j, int64_t nj, Word *row);

typedef struct Gemm {
  int64_t batch, m, n, k;
  bool ints;
  GemmLoad *load_a, *load_b;
  const void *a, *b;
  GemmStore *store;
  const void *out;
} Gemm;
void gemm_run(Run *run, const Gemm *g);

// ---- the usual operand: a tensor seen as batch x row x k through tables of element offsets ----
typedef struct GemmMat {
  DType dtype;
  const void *data;
  const int64_t *batch, *row, *k;  // added up
  const Word *zero;                // subtracted: zero[b * rows + row]; NULL = none
  int64_t rows;
} GemmMat;
GemmLoad gemm_load_mat;
// A table of the offsets of every index of the given dims, row-major; the count must fit.
const int64_t *gemm_offsets(Run *run, int n, const int64_t *dims, const int64_t *strides,
                            int64_t *out_count);

// ---- the usual result: dense [batch][m][n] of one dtype ----
typedef struct GemmOut {
  Value *v;
  int64_t m, n;
  bool ints;
} GemmOut;
GemmStore gemm_store_dense;

// Elements of n words as double or as wrapping integers.
static inline void load_words(DType t, const void *base, int64_t index, int64_t n, bool ints,
                              Word *out) {
  if (ints)
    load_i64(t, base, index, n, (int64_t *)out);
  else
    load_f64(t, base, index, n, (double *)out);
}
static inline void store_words(DType t, void *base, int64_t index, int64_t n, bool ints,
                               const Word *in) {
  if (ints)
    store_i64(t, base, index, n, (const int64_t *)in);
  else
    store_f64(t, base, index, n, (const double *)in);
}

#endif
