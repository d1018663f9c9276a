// opinfo.h -- the record that says all about an op.
//
// Every op is a row of an ops/*.def file and one OpInfo.  Nothing switches over all ops: printer,
// parser, importers, interpreter, docs, tests and fuzzer read the record.
#ifndef TENON_IR_OPINFO_H
#define TENON_IR_OPINFO_H

#include "eval/eval.h"
#include "eval/fuse.h"
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
  OPF_SELECTS = 1 << 8,    // movement whose result elements are all elements of operand 0
  OPF_VIEW = 1 << 9,       // selects every element in its order: only the shape changes
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
// Fills nres nodes; leaves them all NULL where this node has no expansion (its op then has an
// .eval).
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

// ---- contractions ----

// How the axes of the two operands pair up.  Lowering has one axis map for each but CF_OTHER
// (lower's contract_map).
typedef enum ContractionForm {
  CF_DOT,             // axes named by dot_attrs
  CF_MATMUL,          // the last two axes of each, as numpy's matmul
  CF_GEMM,            // two matrices and a matrix that is added, by gemm_attrs
  CF_EINSUM,          // by an equation
  CF_CONV,            // windows of an image, by conv_attrs
  CF_CONV_TRANSPOSE,  // by conv_transpose_attrs
  CF_OTHER,           // a form of its own, which only its own template knows
} ContractionForm;
enum ContractionFlag {
  CONTRACT_INT8 = 1,         // 8-bit integers less their zero points, summed exactly in 32 bits
  CONTRACT_REQUANTIZED = 2,  // the sum is scaled, rounded and stored in 8 bits
};
// Which operand is what; -1: the op has no such operand.  One that is optional may be absent from a
// node all the same.
typedef struct ContractionInfo {
  uint8_t form, flags;
  int8_t lhs, rhs, bias;  // data, weights, and what is added to the sum
  int8_t lhs_zero, rhs_zero, out_zero;
  int8_t lhs_scale, rhs_scale, out_scale;
} ContractionInfo;

// ---- fusion (passes/fuse_kernels/fuse_kernels.c) ----

typedef enum FuseClass {
  FC_BY_FLAGS,  // in a record: element-wise ops are FC_POINT, the host's FC_HOST, others a closed
                // FC_ANCHOR
  FC_FREE,   // constants, and shapes that follow from the body's parameters: cost nothing anywhere
  FC_INPUT,  // a parameter of the body
  FC_PROJ,   // belongs to the node that it projects
  FC_HOST,   // run by the host: control flow, strings, sizes that depend on data
  FC_INDEX_MAP,  // an index map: put into each kernel that reads through it
  FC_POINT,      // element-wise
  FC_MAP,        // begins a kernel and may become another's prologue: generators, wide index maps
  FC_ANCHOR,     // a kernel is built around it
} FuseClass;
enum FuseFlag {
  FF_VIEW = 1,       // the same bytes under another shape
  FF_BIJECTIVE = 2,  // every element once, in another order
  FF_ROW = 4,        // reads each element of operand 0 once
  FF_SAME = 8,       // result 0 has the layout of operand 0
  FF_CLOSED = 16,    // no epilogue: an element of the result is final only when all is done
  FF_STORED = 32,    // its result is written to memory: no other kernel computes it on the way
};
typedef struct FuseOp {
  uint8_t cls, kind, flags;  // FuseClass, FusedKind, FuseFlag
} FuseOp;
#define FUSE_VIEW                                                                                  \
  { FC_INDEX_MAP, FUSED_MOVEMENT, FF_VIEW | FF_BIJECTIVE }
#define FUSE_ORDER                                                                                 \
  { FC_INDEX_MAP, FUSED_MOVEMENT, FF_BIJECTIVE }
#define FUSE_INDEX                                                                                 \
  { FC_INDEX_MAP, FUSED_MOVEMENT, 0 }
#define FUSE_MAP                                                                                   \
  { FC_MAP, FUSED_POINTWISE, 0 }
#define FUSE_POINT                                                                                 \
  { FC_POINT, FUSED_POINTWISE, 0 }
#define FUSE_CONTRACTION                                                                           \
  { FC_ANCHOR, FUSED_CONTRACTION, 0 }
#define FUSE_WINDOW                                                                                \
  { FC_ANCHOR, FUSED_WINDOW, 0 }
#define FUSE_REDUCTION                                                                             \
  { FC_ANCHOR, FUSED_REDUCTION, FF_ROW }
#define FUSE_NORM                                                                                  \
  { FC_ANCHOR, FUSED_REDUCTION, FF_ROW | FF_SAME }
#define FUSE_ATTENTION                                                                             \
  { FC_ANCHOR, FUSED_ATTENTION, 0 }
#define FUSE_RECURRENT                                                                             \
  { FC_ANCHOR, FUSED_RECURRENT, 0 }
#define FUSE_SCATTER                                                                               \
  { FC_ANCHOR, FUSED_MOVEMENT, FF_CLOSED }

// ---- what passes and analyses ask ----

// How an op is computed channels last (passes/choose_layout/choose_layout.c).  Element-wise ops
// need no entry.
typedef enum OpLayout {
  LAYOUT_FIXED,
  LAYOUT_AWARE,    // by its attribute channels_last
  LAYOUT_AXIS,     // along the attribute `axis`
  LAYOUT_ARG,      // the same, and the axis may go
  LAYOUT_QUANT,    // along the attribute `axis` where there is a scale a channel
  LAYOUT_REDUCE,   // over the axes of operand 1
  LAYOUT_SLICE,    // axes are operand 3
  LAYOUT_RESIZE,   // axes are an attribute
  LAYOUT_TILE,     // operand 1 has one number an axis
  LAYOUT_RESHAPE,  // among spatial axes
  LAYOUT_TRANSPOSE,
} OpLayout;

// What an element costs.  Each level includes those above it: compare with >=.
typedef enum OpExpense {
  EXPENSE_NONE,            // an instruction or two
  EXPENSE_SEVERAL,         // several: for 8-bit integers a table is faster
  EXPENSE_TRANSCENDENTAL,  // an approximation: not to be repeated for each read of its result
  EXPENSE_EPILOGUE,  // the same; the schedule of an MMA tile counts it as work of the epilogue
} OpExpense;

// How the range of a result follows from those of the operands (of_NAME in analyse/range.c); none:
// from its type.
// clang-format off
#define RANGE_RULES(X)                                                                             \
  X(abs) X(arg) X(arith) X(attention) X(below_zero) X(bent) X(bit_and) X(cast) X(clip) X(concat)   \
  X(constant_of_shape) X(cosh) X(dequantize) X(div) X(dynamic_quantize) X(first) X(fmod) X(fused)  \
  X(gate) X(grid_sample) X(if) X(loop) X(lp_norm) X(max_pool) X(min_max) X(mod) X(neg) X(one_hot)  \
  X(pad) X(positive) X(pow) X(range) X(reciprocal) X(recurrent) X(reduce) X(resize) X(rising)      \
  X(scatter) X(sizes) X(split) X(top_k) X(uniform) X(unit) X(wave) X(where) X(with_zero)
// What can go wrong at a node of it (at_NAME in analyse/hazard.c).
#define HAZARD_RULES(X)                                                                            \
  X(const) X(division) X(gather) X(gather_elements) X(gather_nd) X(quantisation) X(reciprocal)     \
  X(scatter_elements) X(scatter_nd)
// clang-format on
typedef enum RangeRule {
  RANGE_none,
#define X(name) RANGE_##name,
  RANGE_RULES(X)
#undef X
} RangeRule;
typedef enum HazardRule {
  HAZARD_none,
#define X(name) HAZARD_##name,
  HAZARD_RULES(X)
#undef X
} HazardRule;

struct OpInfo {
  const char *name, *doc;
  const char *onnx;      // "Conv", "ai.onnx.ml.Scaler", "com.microsoft.FusedMatMul"; NULL when none
  int onnx_since;        // first opset whose form equals ours; older forms have an import row
  const char *operands;  // names in order, '?' after an optional one, '*' after a repeated last
                         // one: "x w b?"
  const char *results;   // likewise: "y", "values indices"
  const char *dtypes;    // for the docs: "float", "int", "any", ...
  const AttrDesc *attrs;
  uint16_t nattrs, attrs_size, flags;
  int8_t arity;  // as in ops.def
  // 1 + the operand whose elements result 0 has but for some, and whose memory it takes where that
  // is a state; 0: none.  Elsewhere the op is pure and copies.
  int8_t in_place;
  uint8_t nres;  // usual number of results
  FuseOp fuse;
  uint8_t layout, expense, range, hazard;  // OpLayout, OpExpense, RangeRule, HazardRule
  const ContractionInfo *contraction;      // NULL: it is none
  InferFn *infer;
  EvalFn *eval;
  ExpandFn *expand;
  CostFn *cost;  // NULL: one operation an output element, none for OPF_MOVEMENT
  const char *const
      *samples;  // NULL-terminated; see tests/ops/ops_test.c:  "(f32[2,3], i64[2]{0,1}) axis=1"
};
#define OP_ATTRS(x)                                                                                \
  .attrs = x##_attr_desc, .nattrs = sizeof(x##_attr_desc) / sizeof(AttrDesc),                      \
  .attrs_size = sizeof(x##_attrs)
#define SAMPLES(...)                                                                               \
  .samples = (const char *const[]) { __VA_ARGS__, NULL }

// The record of a contraction, and its fusion class.  Columns: numbers of operands, -1 for none.
#define CONTRACTION(form, flags, lhs, rhs, bias, lhs_zero, rhs_zero, out_zero, lhs_scale,          \
                    rhs_scale, out_scale)                                                          \
  .fuse = FUSE_CONTRACTION, .contraction = &(const ContractionInfo) {                              \
    form, flags, lhs, rhs, bias, lhs_zero, rhs_zero, out_zero, lhs_scale, rhs_scale, out_scale     \
  }

#define OP(name, arity) extern const OpInfo op_##name;
#include "ops/ops.def"
extern const OpInfo *const op_table[OP_COUNT];

// ---- asking about a node ----

static inline const ContractionInfo *op_contraction(const Node *n) {
  return op_table[n->op]->contraction;
}
static inline bool is_form(const Node *n, ContractionForm form) {
  return op_contraction(n) && op_contraction(n)->form == form;
}
static inline bool sums_int8(const Node *n) {
  return op_contraction(n) && op_contraction(n)->flags & CONTRACT_INT8;
}
static inline bool is_requantized(const Node *n) {
  return op_contraction(n) && op_contraction(n)->flags & CONTRACT_REQUANTIZED;
}
// A product of matrices that multiplies its operands as they are: dot, mat_mul, gemm.
static inline bool is_gemm(const Node *n) {
  const ContractionInfo *c = op_contraction(n);
  return c && c->form <= CF_GEMM && !(c->flags & CONTRACT_INT8);
}
// An operand by its number in a record; NULL: the op or the node has none.
static inline Node *operand_or_null(const Graph *g, const Node *n, int operand) {
  return operand < 0 ? NULL : src_or_null(g, n, (uint32_t)operand);
}

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
// The same of a float type; of this rank unless rank < 0.
MUST_USE tenon_status infer_need_float(Infer *in, int i, int rank);
MUST_USE tenon_status infer_axis(Infer *in, int64_t axis, int rank, int *out);
MUST_USE tenon_status infer_same_dtype(Infer *in, int i, int j);
// numpy broadcasting of tensor types i..j-1 (unknown rank in, unknown rank out)
MUST_USE tenon_status infer_broadcast(Infer *in, int i, int j, int *out_rank, Dim *out_dims);
MUST_USE tenon_status infer_broadcast_dim(Infer *in, Dim a, Dim b, Dim *out);
// Equal for certain or possibly (checked at run time); an error when certainly different.
MUST_USE tenon_status infer_equal_dim(Infer *in, Dim a, Dim b, const char *what);
// The same; *out is the one that is a number, where either is.
MUST_USE tenon_status infer_merge_dim(Infer *in, Dim a, Dim b, const char *what, Dim *out);
// result i is a tensor of this dtype and shape; EINVAL on poison (overflow) or a certainly negative
// dim
MUST_USE tenon_status infer_set(Infer *in, int i, DType t, int rank, const Dim *dims);
void infer_set_unranked(Infer *in, int i, DType t);
void infer_set_type(Infer *in, int i, const Type *t);
InferFn infer_same_as_first;  // result 0 has operand 0's type
InferFn infer_elementwise;    // broadcast of all operands, dtype of operand 0, which all must share

#endif
