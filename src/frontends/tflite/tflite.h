// tflite.h -- TensorFlow Lite files, schema 3, as plain structs over the file's bytes.
//
// What read.c has checked: every table and vector lies inside the file; indices of tensors,
// buffers, operator codes and sub-graphs are in range (-1 is an absent operand); shapes are not
// negative and their products fit; a constant has exactly the bytes that its type and shape need.
// Nothing else: whether operators get what they need is asked when they are imported.
#ifndef TENON_FRONTENDS_TFLITE_TFLITE_H
#define TENON_FRONTENDS_TFLITE_TFLITE_H

#include "frontends/common/frontend.h"
#include "frontends/common/flatbuffer.h"

enum { TFL_RESOURCE = 13, TFL_VARIANT = 14, TFL_CUSTOM = 32 };

typedef struct TflTensor {
  const char *name;  // never NULL
  int type;          // the schema's number
  DType dtype;       // 0: none of ours (resources, variants)
  int rank;
  int64_t dims[MAX_RANK], n;
  bool open[MAX_RANK];  // the size may change: -1 in shape_signature
  Str data;             // of a constant; p is NULL otherwise
  bool variable;
  FbTable sparsity;  // of a constant whose data leave elements out
  // Quantisation: real = scale (q - zero), one pair for all or one an index along `qaxis`.
  FbVector scale, zero;
  int qaxis;
  bool custom_quant;  // by other details than scales: not known
} TflTensor;
typedef struct TflOperator {
  int64_t code;                      // index into the model's codes
  FbVector in, out;                  // i32, checked
  FbTable options, options2, table;  // builtin_options, builtin_options_2, the operator itself
  FbVector intermediates;
} TflOperator;
typedef struct TflSubgraph {
  const char *name;
  int64_t ntensors, nops;
  TflTensor *tensor;
  TflOperator *op;
  FbVector in, out;
} TflSubgraph;
// An entry point: a sub-graph, and other names of its inputs and outputs.
typedef struct TflSignature {
  FbVector maps[2];  // of inputs and outputs: name, tensor; checked where they are read
  int64_t sub;
} TflSignature;
typedef struct TflCode {
  int64_t builtin, version;
  Str custom;
} TflCode;
typedef struct TflModel {
  Fb fb;
  FbTable root;
  int64_t ncodes, nsubs, nbuffers;
  TflCode *code;
  TflSubgraph *sub;
  Str *buffer;  // p is NULL: empty
} TflModel;

bool tfl_dtype(int64_t type, DType *out);  // false: none of ours
MUST_USE tenon_status tfl_read(Imported *in, Diag *d, TflModel *out);
// The entry point that the caller names; EINVAL with the names there are.  None named: the first
// sub-graph, without names.
MUST_USE tenon_status tfl_find_signature(Imported *in, const TflModel *m, Diag *d,
                                         TflSignature *out);
// Its name of an input (side 0) or output (1); NULL: it has none.
const char *tfl_signature_name(const TflSignature *s, int side, int64_t tensor, Arena *a);
void tfl_facts(Imported *in, const TflModel *m);  // what `tenon inspect` shows

static inline bool tfl_is_quantized(const TflTensor *t) { return t->scale.n > 0; }

#endif
