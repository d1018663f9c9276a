// gguf.h -- GGUF files (versions 2 and 3): metadata, tokenizer tables and tensors in ggml's types.
//
// Everything is a slice of the mapped file; the tables of metadata are decoded, arrays stay in
// place.
#ifndef TENON_FRONTENDS_GGUF_GGUF_H
#define TENON_FRONTENDS_GGUF_GGUF_H

#include "eval/ggml.h"
#include "frontends/common/frontend.h"

typedef enum {
  GV_U8,
  GV_I8,
  GV_U16,
  GV_I16,
  GV_U32,
  GV_I32,
  GV_F32,
  GV_BOOL,
  GV_STRING,
  GV_ARRAY,
  GV_U64,
  GV_I64,
  GV_F64,
  GV_TYPES
} GgufKind;

typedef struct GgufValue {
  Str key;
  GgufKind kind, elem;  // elem: of an array
  int64_t
      i;     // numbers and bool; a u64 above int64's range is refused nowhere but shown as it wraps
  double f;  // floats
  Str s;     // a string; of an array its bytes
  int64_t n;  // of an array: items
} GgufValue;

typedef struct GgufFile {
  uint32_t version;
  VEC(GgufValue) kv;
  int64_t alignment, table;  // table: where the tensors' entries begin, behind the metadata
} GgufFile;

MUST_USE tenon_status gguf_read(Imported *in, Diag *d, GgufFile *out);
// The k-th string of an array of strings, walking from `*at` (0 at first); false at the end.
bool gguf_next_string(const GgufValue *array, int64_t *at, Str *out);

#endif
