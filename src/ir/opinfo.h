// opinfo.h -- the record that says all about an op.
//
// Every op is a row of an ops/*.def file and one OpInfo.  Nothing switches over all ops: printer, parser,
// importers, interpreter, docs, tests and fuzzer read the record.
#ifndef TENON_IR_OPINFO_H
#define TENON_IR_OPINFO_H

#include "eval/eval.h"
#include "ir/ir.h"

enum OpFlag {
  OPF_ELEMENTWISE =
      1 << 0,  // each result element depends on the operands' broadcast elements alone
  OPF_COMMUTES = 1 << 1,
  OPF_ASSOCIATES = 1 << 2,
  OPF_COMPOSITE = 1 << 3,  // has .expand; infer, eval and cost may be left to it
  OPF_MOVEMENT = 1 << 4,   // copies elements, computes nothing: any dtype, exact
  OPF_RANDOM = 1 << 5,     // never folded, never merged (its attrs carry an instance number)
  OPF_CONTROL = 1 << 6,    // holds bodies
  OPF_HOST = 1 << 7,       // strings, sequences, data-dependent shapes: always run by eval
};

// What .infer sees and fills.  The node under construction is not interned yet.
// Two sizes that must be equal and are not known to be; as inference noted it.
typedef struct SameDim {
  Dim a, b;
  const char *what;
} SameDim;
typedef struct SameDims {
  Arena *arena;
  VEC(SameDim) v;
} SameDims;

typedef struct Infer {
  Graph *g;
  const OpInfo *op;
  const void *attrs;
  Node *const *src;
  int nsrc, nres;
  const Type **type;  // [nres] to fill
  const Dim *sym;     // contents of result 0, if known symbolically
  int64_t nsym;
  Where at;
  Diag *diag;
} Infer;
typedef tenon_status InferFn(Infer *in);
// Fills nres nodes; leaves them all NULL where this node cannot be taken apart (its op then has an .eval).
typedef void ExpandFn(Graph *g, const Node *n, Node **out);

// Cost with every dim a number.
typedef struct CostShape {
  DType dtype;
  int rank;
  const int64_t *dims;
  int64_t n;
} CostShape;
typedef struct CostIn {
  const Node *node;
  int nin, nout;
  const CostShape *in, *out;  // rank -1: not a tensor or unknown
} CostIn;
typedef double CostFn(const CostIn *c);  // floating or integer operations

struct OpInfo {
  const char *name, *doc;
  const char *onnx;  // "Conv", "ai.onnx.ml.Scaler", "com.microsoft.FusedMatMul"; NULL when none
  int onnx_since;    // first opset whose form equals ours; older forms have an import row
  const char *
      operands;  // names in order, '?' after an optional one, '*' after a repeated last one: "x w b?"
  const char *results;  // likewise: "y", "values indices"
  const char *dtypes;   // for the docs: "float", "int", "any", ...
  const AttrDesc *attrs;
  uint16_t nattrs, attrs_size, flags;
  int8_t arity;  // as in ops.def
  uint8_t nres;  // usual number of results
  InferFn *infer;
  EvalFn *eval;
  ExpandFn *expand;
  CostFn *cost;  // NULL: one operation an output element, none for OPF_MOVEMENT
  const char *const
      *samples;  // NULL-terminated; see tests/ops.c:  "(f32[2,3], i64[2]{0,1}) axis=1"
};
#define OP_ATTRS(x)                                                                                \
  .attrs = x##_attr_desc, .nattrs = sizeof(x##_attr_desc) / sizeof(AttrDesc),                      \
  .attrs_size = sizeof(x##_attrs)
#define SAMPLES(...)                                                                               \
  .samples = (const char *const[]) { __VA_ARGS__, NULL }

#define OP(name, arity) extern const OpInfo op_##name;
#include "ops/ops.def"
extern const OpInfo *const op_table[OP_COUNT];

int op_max_results(const OpInfo *op);  // by the list of results; INT32_MAX = repeated last one

// ---- helpers for .infer (ir/infer.c) ----
tenon_status infer_fail(Infer *in, tenon_status code, const char *fmt, ...) PRINTF(3, 4);
static inline const Node *infer_src(const Infer *in, int i) {
  return i < in->nsrc && in->src[i] != in->g->none ? in->src[i] : NULL;
}
static inline const Type *infer_type(const Infer *in, int i) {
  const Node *n = infer_src(in, i);
  return n ? n->type[0] : NULL;
}
// Operand i must be there and be a tensor (and have this dtype, when t != 0).
MUST_USE tenon_status infer_need(Infer *in, int i, DType t);
MUST_USE tenon_status infer_axis(Infer *in, int64_t axis, int rank, int *out);
MUST_USE tenon_status infer_same_dtype(Infer *in, int i, int j);
// numpy broadcasting of tensor types i..j-1 (unknown rank in, unknown rank out)
MUST_USE tenon_status infer_broadcast(Infer *in, int i, int j, int *out_rank, Dim *out_dims);
MUST_USE tenon_status infer_broadcast_dim(Infer *in, Dim a, Dim b, Dim *out);
// Equal for certain or possibly (checked at run time); an error when certainly different.
MUST_USE tenon_status infer_equal_dim(Infer *in, Dim a, Dim b, const char *what);
// The same; *out is the one that is a number, where either is.
MUST_USE tenon_status infer_merge_dim(Infer *in, Dim a, Dim b, const char *what, Dim *out);
// result i is a tensor of this dtype and shape; EINVAL on poison (overflow) or a certainly negative dim
MUST_USE tenon_status infer_set(Infer *in, int i, DType t, int rank, const Dim *dims);
void infer_set_unranked(Infer *in, int i, DType t);
void infer_set_type(Infer *in, int i, const Type *t);
InferFn infer_same_as_first;  // result 0 has operand 0's type
InferFn infer_elementwise;    // broadcast of all operands, dtype of operand 0, which all must share

#endif
