// quant.h -- weights that a quantiser packed: what quantization_config says, and their tensors.
//
// The matrix `X.weight` is then several tensors.  llm_quant_attach makes one weight of them, which
// the rest of the reader takes as any other; a product reads its parts as they are, or repacked
// into as many bits, and whoever needs elements gets them in f32.
#ifndef TENON_MODELS_QUANT_H
#define TENON_MODELS_QUANT_H

#include "models/build.h"

struct Config;

// A matrix [n, k] in its parts; `parts` of its Weight.
typedef struct LlmPacked {
  LlmQuant how;
  int64_t n, k, groups;       // groups of a row, of words; tiles of a row, of 8 bits
  int64_t tile_rows, tile_k;  // of 8 bits
  Weight codes, scale, zero;  // zero: without data where there is none
  const int64_t *order;       // [k] column in the file of each column here; NULL: as they are
} LlmPacked;

// Every key of quantization_config is used, irrelevant or refused by its name.
void llm_quant_of_config(struct Config *c, LlmQuant *out);
// Makes weights of their parts, and checks types and shapes.
MUST_USE tenon_status llm_quant_attach(LlmModel *m, Diag *d);
// x [T, K] times the transpose of a matrix in parts; NULL: no op takes it.
Node *lm_packed_product(Build *b, Node *x, const Weight *w);

// Number k of a row in words, as stored; of a group its zero.
int llm_packed_code(const LlmPacked *p, int64_t n, int64_t k);
int llm_packed_zero(const LlmPacked *p, int64_t n, int64_t group);

#endif
