// tensor.h -- tensors of KServe's protocol: element types by name, elements as bytes and as JSON.
//
// Everywhere in the server a tensor is its bytes: dense, row-major, little-endian.  An element of
// BYTES is its length in 4 bytes and then the bytes, as in the protocol's binary extension.
#ifndef TENON_SERVE_KSERVE_TENSOR_H
#define TENON_SERVE_KSERVE_TENSOR_H

#include "base/json.h"
#include "base/num.h"

typedef struct KsType {
  DType dtype;
  const char *name;  // "FP32"
  int bytes;         // of an element; 0: BYTES
  int config;        // inference.DataType of a model's configuration
  int contents;      // field of InferTensorContents; 0: raw bytes alone
} KsType;
const KsType *ks_type(DType t);         // NULL: the protocol has no name for it
const KsType *ks_type_named(Str name);  // NULL: there is none

typedef struct KsTensor {
  Str name;
  const KsType *type;
  int rank;
  int64_t shape[TENON_MAX_RANK];
  int64_t count;  // elements
  Str data;
} KsTensor;

// Fills t->count.  EINVAL: a negative size, or more elements than SERVE_ELEMENTS.
MUST_USE tenon_status ks_count(KsTensor *t, Diag *d);
// EINVAL: t->data is not what the type and the shape need.
MUST_USE tenon_status ks_check_data(const KsTensor *t, Diag *d);
// The bytes of `n` elements of BYTES at p[0..size); -1: they do not fit in there.
int64_t ks_strings_bytes(const char *p, int64_t size, int64_t n);

// Makes t->data from `text`, a JSON array with the elements, nested or flat, in `a`.
MUST_USE tenon_status ks_read_json(Arena *a, Str text, KsTensor *t, Diag *d);
void ks_write_json(JsonWriter *w, const KsTensor *t);  // a flat array
// The same from the values of InferTensorContents is in infer_message.c.

#endif
