// write.h -- what the files of the ONNX writer share.
#ifndef TENON_EXPORTERS_ONNX_WRITE_H
#define TENON_EXPORTERS_ONNX_WRITE_H

#include "base/proto.h"
#include "exporters/export.h"

// The operator set that is written at least: the first whose forms are ours (axes as operands,
// blocks of scales).
enum { ONNX_OPSET = 21, ONNX_ML = 3 };

typedef struct OnnxOut {
  Graph *g;
  Arena *arena;
  Diag *diag;
  const ExportOptions *o;
  Names names, nodes;  // of values, of nodes
  IntMap constant;     // const node -> its name
  VEC(const Node *) constants;
  RefusedList refused;
  int64_t opset, ml;
  bool microsoft;
} OnnxOut;

// The names of one body's values; what its captures stand for is named outside.
typedef struct OnnxScope {
  IntMap name;  // node -> const char *
  Proto *graph;
} OnnxScope;

// One node on its way out.
typedef struct OnnxNodeOut {
  OnnxOut *out;
  OnnxScope *scope;
  const Node *n;
  const char *op, *domain;
  int64_t since;
  Node *const *src;     // operands that are written; the node's own
  uint32_t nsrc;        // their number
  const char *ignore;   // attributes that are not, separated by spaces
  const char *always;   // attributes that are though they have their default
  Proto attrs;          // attributes so far, as fields of a NodeProto
  const char *refused;  // why it cannot be written; NULL: it can
} OnnxNodeOut;

// How a node is written whose form differs from its record's.
typedef tenon_status OnnxFormFn(OnnxNodeOut *w);
typedef struct OnnxForm {
  int op;
  const char *onnx;  // NULL: the record's
  int since;         // 0: the record's
  OnnxFormFn *fn;    // may be NULL
  const char *ignore, *always;
} OnnxForm;
const OnnxForm *onnx_form(int op);                       // NULL: as the record says
int64_t onnx_since(const Node *n, const char **out_op);  // *out_op NULL: ONNX has no such op
bool onnx_writes(const void *ctx, const Node *n);        // ctx: ExportOptions
extern const RewriteRow onnx_rewrites[];
extern const int64_t onnx_nrewrites;

// The operator set since which an operator takes a node's element types; 0: it is not known, -1:
// none does.
int64_t onnx_types_since(const char *op, const Node *n, uint32_t nsrc);
const char *onnx_types_refused(Arena *a, const Node *n, uint32_t nsrc);  // why -1
// Integers that an operator does not take.
RewriteFn onnx_widen, onnx_wide_pad, onnx_unsigned_relu, onnx_signed_shift_left,
    onnx_signed_shift_right;

void onnx_attr_int(OnnxNodeOut *w, const char *name, int64_t v);
void onnx_attr_text(OnnxNodeOut *w, const char *name, Str s);
void onnx_attr_ints(OnnxNodeOut *w, const char *name, Ints v);
void onnx_attr_tensor(OnnxNodeOut *w, const char *name, Proto *tensor);
void onnx_attr_type(OnnxNodeOut *w, const char *name, const Type *t);
MUST_USE tenon_status onnx_attrs(OnnxNodeOut *w);  // all of the op's own
// A TensorProto; the elements are borrowed.  NULL name: none.
void onnx_tensor(Proto *p, const char *name, DType t, int rank, const int64_t *dims, int64_t n,
                 const void *data);
MUST_USE tenon_status onnx_const_tensor(OnnxOut *o, const Node *c, Proto *p, const char *name);
// A body as a GraphProto, an attribute of the node; its parameters from `own` on are the operands
// from `first` on.
MUST_USE tenon_status onnx_attr_body(OnnxNodeOut *w, const char *name, const Body *b, int64_t own,
                                     uint32_t first);
void onnx_type(Proto *p, const Type *t);  // fields of a TypeProto

#endif
