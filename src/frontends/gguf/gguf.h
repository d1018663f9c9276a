// gguf.h -- GGUF files (versions 2 and 3): metadata, tokenizer tables and tensors in ggml's types.
//
// Everything is a slice of the mapped file; the tables of metadata are decoded, arrays stay in
// place.
#ifndef TENON_FRONTENDS_GGUF_GGUF_H
#define TENON_FRONTENDS_GGUF_GGUF_H

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
  int64_t alignment;
} GgufFile;

// A decoded block: element i is scale q - less, with the scale and less of its part, rounded to f32
// after the product and after the difference, as the reference implementation does.
enum { GGUF_BLOCK = 256, GGUF_PARTS = 16 };
typedef struct GgufParts {
  int16_t q[GGUF_BLOCK];
  float scale[GGUF_PARTS], less[GGUF_PARTS];
} GgufParts;
typedef void GgufSplit(const uint8_t *block, GgufParts *out);
typedef void GgufUnpack(const uint8_t *block, float *out);

// A row of the table of ggml's types.  Blocks are along the innermost axis.
typedef struct GgufType {
  const char *name;    // NULL: no such type, or one that was removed
  int block;           // elements
  int bytes;           // of a block
  DType plain;         // elements of this type, unpacked; 0: `split` or `unpack` gives f32
  GgufSplit *split;    // or
  int part;            // elements of a part
  int bits;            // that hold a q: 2, 4 or 8
  int low;             // the least q, or one below
  bool has_less;       // else it is 0
  GgufUnpack *unpack;  // of types whose elements are no integers with a scale
} GgufType;
enum { GGUF_NTYPES = 42 };
extern const GgufType gguf_type[GGUF_NTYPES];
void gguf_unpack(const GgufType *t, const uint8_t *block, float *out);  // t is not plain

MUST_USE tenon_status gguf_read(Imported *in, Diag *d, GgufFile *out);
// The k-th string of an array of strings, walking from `*at` (0 at first); false at the end.
bool gguf_next_string(const GgufValue *array, int64_t *at, Str *out);

GgufUnpack gguf_iq1_s, gguf_iq1_m, gguf_iq2_xxs, gguf_iq2_xs, gguf_iq2_s, gguf_iq3_xxs, gguf_iq3_s;
GgufSplit gguf_iq4_nl, gguf_iq4_xs;

extern const uint16_t gguf_grid_iq2_xxs[256], gguf_grid_iq2_xs[512], gguf_grid_iq2_s[1024],
    gguf_grid_iq3_xxs[256], gguf_grid_iq3_s[512], gguf_grid_iq1[2048];

static inline uint32_t gguf_u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t gguf_u32(const uint8_t *p) { return gguf_u16(p) | gguf_u16(p + 2) << 16; }
static inline float gguf_f16(const uint8_t *p) { return (float)f16_to_f64((uint16_t)gguf_u16(p)); }

#endif
