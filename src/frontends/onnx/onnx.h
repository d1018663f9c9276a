// onnx.h -- ONNX files: what read.c decodes and how import.c maps it.
//
// read.c knows the bytes: a checked, zero-copy protobuf decoder over the mapped file.  It allocates
// only small structs in an arena (at most a fixed multiple of the file's size); names and tensor
// payloads are slices of the file.  import.c turns the decoded model into a Graph through rows, one
// per foreign op.
#ifndef TENON_FRONTENDS_ONNX_ONNX_H
#define TENON_FRONTENDS_ONNX_ONNX_H

#include "ir/opinfo.h"

typedef struct OnnxAttr OnnxAttr;
typedef struct OnnxGraph OnnxGraph;
typedef struct OnnxType OnnxType;

typedef struct OnnxDim {
  bool has_value, has_param;  // neither: unknown
  int64_t value;
  Str param;
} OnnxDim;

typedef enum { OT_NONE, OT_TENSOR, OT_SEQUENCE, OT_OPTIONAL, OT_MAP, OT_SPARSE } OnnxTypeKind;
struct OnnxType {
  OnnxTypeKind kind;
  int64_t elem;  // data type of a tensor (or key of a map)
  bool has_shape;
  int64_t ndims;
  const OnnxDim *dims;
  const OnnxType *inner;  // element of a sequence or optional, value of a map
};

typedef struct OnnxTensor {
  Str name;
  int64_t dtype;  // ONNX code, not validated here
  Ints dims;
  bool has_raw;
  Str raw;  // slice of the file
  // Typed fields, as slices of the wire: packed payloads or single elements, in file order.
  struct {
    const Str *v;
    int64_t n;
  } i32_data, i64_data, u64_data, f32_data, f64_data, string_data;
  // Each slice: for i32/i64/u64 a run of varints; for f32/f64 a run of little-endian values;
  // string_data one string.
  bool external;
  Str ext_location;
  bool has_ext_offset, has_ext_length;
  int64_t ext_offset, ext_length;
  Str ext_unknown_key;  // first key that is not location/offset/length/checksum/basepath; "" none
  int64_t file_pos;     // byte offset of the message, for error messages
} OnnxTensor;

typedef struct OnnxSparse {
  OnnxTensor values, indices;
  Ints dims;
  int64_t file_pos;
} OnnxSparse;

typedef enum {  // AttributeProto.AttributeType
  OA_UNDEFINED,
  OA_FLOAT,
  OA_INT,
  OA_STRING,
  OA_TENSOR,
  OA_GRAPH,
  OA_FLOATS,
  OA_INTS,
  OA_STRINGS,
  OA_TENSORS,
  OA_GRAPHS,
  OA_SPARSE,
  OA_SPARSES,
  OA_TYPE,
  OA_TYPES
} OnnxAttrType;
struct OnnxAttr {
  Str name, ref;      // ref: ref_attr_name, inside functions
  OnnxAttrType type;  // worked out from the fields present when the file leaves it 0
  float f;
  int64_t i;
  Str s;
  const OnnxTensor *t;
  const OnnxGraph *g;
  const OnnxSparse *sparse;
  const OnnxType *tp;
  struct {
    const float *v;
    int64_t n;
  } floats;
  Ints ints;
  Strs strings;
  struct {
    const OnnxTensor *v;
    int64_t n;
  } tensors;
  struct {
    const OnnxGraph *const *v;
    int64_t n;
  } graphs;
  struct {
    const OnnxType *v;
    int64_t n;
  } types;
};

typedef struct OnnxNode {
  Str name, op_type, domain, overload;
  Strs inputs, outputs;  // "" = absent
  const OnnxAttr *attrs;
  int64_t nattrs;
  int64_t file_pos;
} OnnxNode;

typedef struct OnnxValueInfo {
  Str name;
  OnnxType type;
} OnnxValueInfo;

struct OnnxGraph {
  Str name;
  struct {
    const OnnxNode *v;
    int64_t n;
  } nodes;
  struct {
    const OnnxTensor *v;
    int64_t n;
  } initializers;
  struct {
    const OnnxSparse *v;
    int64_t n;
  } sparse_initializers;
  struct {
    const OnnxValueInfo *v;
    int64_t n;
  } inputs, outputs, value_infos;
  int64_t file_pos;
};

typedef struct OnnxOpset {
  Str domain;
  int64_t version;
} OnnxOpset;
typedef struct OnnxFunction {
  Str name, domain, overload;
  Strs inputs, outputs, attributes;  // attributes without default
  struct {
    const OnnxAttr *v;
    int64_t n;
  } attribute_protos;  // with default
  struct {
    const OnnxNode *v;
    int64_t n;
  } nodes;
  struct {
    const OnnxOpset *v;
    int64_t n;
  } opsets;
  int64_t file_pos;
} OnnxFunction;

typedef struct OnnxModel {
  int64_t ir_version;
  bool has_graph;
  Str producer_name, producer_version, domain, doc;
  int64_t model_version;
  struct {
    const OnnxOpset *v;
    int64_t n;
  } opsets;
  OnnxGraph graph;
  struct {
    const OnnxFunction *v;
    int64_t n;
  } functions;
  struct {
    const Str *v;
    int64_t n;
  } metadata;  // key, value, key, value...
} OnnxModel;

// Decodes a ModelProto.  Messages name the byte offset.  The result refers to `bytes`.
MUST_USE tenon_status onnx_read_model(Arena *a, Str bytes, Diag *d, OnnxModel *out);
// Other top-level messages: the .pb files of the conformance suites.  kind tells the caller what to
// expect.
MUST_USE tenon_status onnx_read_tensor(Arena *a, Str bytes, Diag *d,
                                       OnnxTensor *out);  // TensorProto
typedef struct OnnxSequence OnnxSequence;                 // SequenceProto / OptionalProto
struct OnnxSequence {
  OnnxTypeKind elem;  // OT_TENSOR, OT_SEQUENCE, OT_OPTIONAL, OT_NONE (an empty optional)
  struct {
    const OnnxTensor *v;
    int64_t n;
  } tensors;
  struct {
    const OnnxSequence *v;
    int64_t n;
  } sequences;
};
MUST_USE tenon_status onnx_read_sequence(Arena *a, Str bytes, Diag *d, OnnxSequence *out);
MUST_USE tenon_status onnx_read_optional(Arena *a, Str bytes, Diag *d, OnnxSequence *out);

// The decoded elements of a tensor: *out_raw is set and points into the file when the payload is
// already in memory form (raw_data, little-endian); else the elements are decoded into the arena.
// Strings give an array of Str.  Sizes are checked against dims; `n` is the number of elements.
// External tensors are not handled here.
MUST_USE tenon_status onnx_tensor_bytes(Arena *a, const OnnxTensor *t, Where at, Diag *d,
                                        const void **out_bytes, int64_t *out_nbytes, int64_t *out_n,
                                        bool *out_in_file);

// ---- import ----
typedef struct Import Import;  // state of one import
// One foreign node on its way in.
typedef struct ImportNode {
  Import *im;
  Graph *g;
  const OnnxNode *node;
  int64_t opset;  // version of the node's domain
  int nin, nout;
  Node **in;         // g->none where absent
  Node **out;        // nout slots to fill
  const char *name;  // for node_new
  Where at;
} ImportNode;
typedef tenon_status ImportFn(ImportNode *n);
typedef struct ImportRow {
  const char *domain;  // "" = ai.onnx
  const char *op;
  int since, until;  // opset versions, both included; until 0 = no end
  ImportFn *fn;      // NULL: refused, with `why`
  const char *why;   // for a refused op: what to do instead
} ImportRow;
typedef struct ImportTable {
  const ImportRow *row;
  int64_t n;
} ImportTable;
// A node finds its mapping so: a row for (domain, op, opset), else the OpInfo whose .onnx and
// .onnx_since fit (import_auto), else a model-local function, else the user's registered ops, else
// it is unsupported.

// Helpers for rows (import.c).  Attribute getters return the default when absent; a wrong type is
// sticky in the import and reported.
const OnnxAttr *import_attr(const ImportNode *n, const char *name);
int64_t import_i64(ImportNode *n, const char *name, int64_t dflt);
double import_f64(ImportNode *n, const char *name, double dflt);
Str import_str(ImportNode *n, const char *name, const char *dflt);
bool import_ints(ImportNode *n, const char *name, Ints *out);  // false when absent
bool import_floats(ImportNode *n, const char *name, Floats *out);
Node *import_tensor_attr(ImportNode *n, const char *name);  // const node, or NULL when absent
// Fills the attribute struct of `op` from the node's attributes by name; attributes that the op
// does not know are an error, except those in `ignore` (space-separated, may be NULL).
MUST_USE tenon_status import_attrs(ImportNode *n, const OpInfo *op, const char *ignore,
                                   void *out_attrs);
// The automatic mapping: attributes by name, inputs and outputs one to one.
MUST_USE tenon_status import_auto(ImportNode *n, const OpInfo *op);
// The same with other inputs (a legacy form brought up to date).
MUST_USE tenon_status import_as(ImportNode *n, int op, const void *attrs, int nsrc,
                                Node *const *src);
tenon_status import_fail(ImportNode *n, tenon_status code, const char *fmt, ...) PRINTF(3, 4);
// A sub-graph attribute imported as a body.  param_types: types of the body's own inputs (NULL
// entries: as declared).  Captured outer values are appended to *captures and become the last
// params of the body.
typedef VEC(Node *) NodeVec;
MUST_USE tenon_status import_body(ImportNode *n, const char *attr, const Type *const *param_types,
                                  int64_t nparams, NodeVec *captures, Body **out);

// What stands in the file's main graph and no output needs.
typedef struct OnnxDead {
  VEC(const OnnxTensor *) weights;
  VEC(const OnnxNode *) nodes;
} OnnxDead;
void onnx_find_dead(const OnnxModel *m, Arena *a, OnnxDead *out);

#endif
