// ggml.h -- ggml's block types: quantised tensors in blocks, as GGUF files hold them.
#ifndef TENON_EVAL_GGML_H
#define TENON_EVAL_GGML_H

#include "base/num.h"

// A decoded block: element i is scale q - less, with the scale and less of its part, rounded to f32
// after the product and after the difference, as the reference implementation does.  The scale of a
// part is d s and its less is dmin m, rounded once; NVFP4 alone has a scale by itself.
enum { GGML_BLOCK = 256, GGML_PARTS = 16 };
typedef struct GgmlParts {
  int16_t q[GGML_BLOCK];
  int16_t s[GGML_PARTS], m[GGML_PARTS];
  float d, dmin;
  float scale[GGML_PARTS], less[GGML_PARTS];  // set by ggml_split
} GgmlParts;
typedef void GgmlSplit(const uint8_t *block, GgmlParts *out);
typedef void GgmlUnpack(const uint8_t *block, float *out);

// A row of the table of ggml's types.  Blocks are along the innermost axis.
typedef struct GgmlType {
  const char *name;    // NULL: no such type, or one that was removed
  int block;           // elements
  int bytes;           // of a block
  DType plain;         // elements of this type, unpacked; 0: `split` or `unpack` gives f32
  GgmlSplit *split;    // or
  int part;            // elements of a part
  int bits;            // that hold a q: 2, 4 or 8
  int low;             // the least q, or one below
  bool has_less;       // else it is 0
  int x_block;         // elements of x with one scale in a product of integers; 0: there is none
  GgmlUnpack *unpack;  // of types whose elements are no integers with a scale
} GgmlType;
enum { GGML_NTYPES = 42 };
extern const GgmlType ggml_type[GGML_NTYPES];
void ggml_split(const GgmlType *t, const uint8_t *block, GgmlParts *out);  // t has parts
void ggml_unpack(const GgmlType *t, const uint8_t *block, float *out);     // t is not plain

GgmlUnpack ggml_iq1_s, ggml_iq1_m, ggml_iq2_xxs, ggml_iq2_xs, ggml_iq2_s, ggml_iq3_xxs, ggml_iq3_s;
GgmlSplit ggml_iq4_nl, ggml_iq4_xs;

extern const uint16_t ggml_grid_iq2_xxs[256], ggml_grid_iq2_xs[512], ggml_grid_iq2_s[1024],
    ggml_grid_iq3_xxs[256], ggml_grid_iq3_s[512], ggml_grid_iq1[2048];

extern const int8_t ggml_iq4_levels[16], ggml_e2m1_doubled[16];

static inline uint32_t ggml_u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t ggml_u32(const uint8_t *p) { return ggml_u16(p) | ggml_u16(p + 2) << 16; }
static inline float ggml_f16(const uint8_t *p) { return (float)f16_to_f64((uint16_t)ggml_u16(p)); }

#endif
