// quantize_gguf.h -- a GGUF file whose matrices become ggml's block types.
#ifndef TENON_API_QUANTIZE_GGUF_H
#define TENON_API_QUANTIZE_GGUF_H

#include "base/watch.h"

typedef struct QuantizeGgufOptions {
  const char *model, *output;
  const char *to;           // a type that ggml_pack_find knows
  const char *const *keep;  // patterns of names of tensors that stay as they are
  int64_t nkeep;
  int threads;  // 0: all
  const Watch *watch;
} QuantizeGgufOptions;

enum { GGUF_CODES = 64 };
typedef struct QuantizeGgufResult {
  int64_t matrices, quantized, already;  // already: in block types before, and left so
  int64_t of[GGUF_CODES];                // quantised, by ggml's number of the type
  int64_t bytes[2];
} QuantizeGgufResult;

// EINVAL with *misused: there is no such type.  The file is written whole or not at all; metadata
// and the order of the tensors stay.
MUST_USE tenon_status quantize_gguf(const QuantizeGgufOptions *o, Arena *a, Diag *d, bool *misused,
                                    QuantizeGgufResult *out);

#endif
