// ggml_pack.h -- from floats to ggml's block types (eval/ggml.h has the other way).
#ifndef TENON_COMPRESS_GGML_PACK_H
#define TENON_COMPRESS_GGML_PACK_H

#include "eval/ggml.h"

// The number of a block type that can be written, by its name in small letters; -1: there is none.
int ggml_pack_find(Str name);
// What a row of n elements becomes: the type itself, or one of blocks of 32 where a row is no whole
// blocks of 256; -1: no type fits.
int ggml_pack_for(int code, int64_t n);
// The type of the matrix that makes logits, which suffers most.
int ggml_pack_output(int code);
uint32_t ggml_pack_file_type(int code);  // what general.file_type says of a file of them
// A row of finite elements, of whole blocks.  Scales have the least square error that a search
// finds, where large elements count for more.
void ggml_pack_row(int code, const float *x, int64_t n, uint8_t *out);

#endif
