// weights.h -- tensors by name, as files of weights hold them.
//
// A weight refers to bytes of a mapped file; nothing is read until somebody asks for its elements.
// Elements may lie with strides (PyTorch's views) or packed in blocks (GGUF): weight_elements gives
// them dense and unpacked.
#ifndef TENON_FRONTENDS_COMMON_WEIGHTS_H
#define TENON_FRONTENDS_COMMON_WEIGHTS_H

#include "ir/ir.h"

typedef struct Weight Weight;
// Writes the n elements of a packed weight, as its dtype.
typedef void WeightUnpack(const Weight *w, void *out);
// How a weight stays packed in a graph, as the op unpack_n_bits has it: 1 to 8 bits each, in blocks
// along the last axis.
typedef struct WeightBits {
  int64_t block;  // elements
  int bits;       // 2, 4 or 8
  int64_t zero;   // the stored number that means 0
  bool has_less;  // something is taken off each block's elements
  void (*pack)(const Weight *w, uint8_t *q, float *scale, float *less);
} WeightBits;
struct Weight {
  const char *name;
  DType dtype;       // of the elements, unpacked
  const char *kind;  // the file's own word for the type: "Q4_K"; NULL: the dtype says all
  int rank;
  int64_t dims[MAX_RANK], n;
  const uint8_t *data;  // in the file's layout; must outlive the list
  int64_t bytes;
  const int64_t *strides;    // in elements, not negative; NULL: row-major and dense
  WeightUnpack *unpack;      // NULL: the bytes are elements
  int packing;               // for unpack
  const void *parts;         // for unpack: the tensors that it is made of; else NULL
  bool is_part;              // of another weight: nobody asks for it by its name
  const WeightBits *packed;  // with unpack, for f32 that can stay packed; else NULL
};
typedef struct Weights {
  VEC(Weight) v;
  StrMap index;  // name -> position + 1
  int64_t used;  // times that weights_attach gave one
} Weights;

void weights_init(Weights *w, Arena *a);
// False: the name is there already.
bool weights_add(Weights *w, Arena *a, const Weight *one);
const Weight *weights_find(const Weights *w, Str name);  // NULL when absent
// Dense elements: those of the file where they can be used as they are (and are aligned), else in
// the arena.
const void *weight_elements(const Weight *w, Arena *a);
// A constant of the graph: a reference into `file` where that holds the elements as they are, else
// decoded.
Node *weight_const(Graph *g, const Weight *w, Source *file, const char *name);
// The constant `name` as the caller's own weights have it, or a node that unpacks it; NULL: they do
// not have it.  A weight of another shape, or of another type where not both are floats, is an
// error of the graph.
Node *weights_attach(Graph *g, Weights *from, Str name, DType t, int rank, const int64_t *dims,
                     Where at);

#endif
