// ir.h -- the graph IR: types, nodes, graphs, and their invariants.
//
// A Graph owns an arena and everything in it.  Nodes are immutable and hash-consed: two nodes with
// the same op, attributes and operands are the same pointer, so common subexpressions never exist
// twice.
//
// Node invariants (each has a line in verify.c):
//  - every operand was made before its user in the same graph: no cycles, ids ascend;
//  - a node with nres != 1 is used only through `proj` nodes; `proj` of result 0 of a one-result
//    node does not exist;
//  - type[i] is never NULL; a tensor type's dims are in the graph's pool and never poison;
//  - an absent optional operand is the graph's `none` node; trailing absent operands are dropped;
//  - control-flow nodes hold bodies; a body's nodes reach only its own params and constants: outer
//    values come in through explicit operands (captures), which follow the op's own operands in
//    order.
//
// A state is a parameter of the main body that a run may change (node_state; in text `state %k:`).
// Ops that write it give its next version (OpInfo.in_place, ir/state.c); all versions are one
// memory:
//  - a state is a dense tensor of known rank, of elements of whole bytes, and lies in main;
//  - a version has at most one writer, so that the versions of a state are a chain;
//  - who reads a version needs no later one, so that all its readers can come before its writer.
//
// Errors while building are sticky: after the first one every constructor returns the poison node
// and changes nothing; the builder asks graph_status once.
#ifndef TENON_IR_IR_H
#define TENON_IR_IR_H

#include "base/attr.h"
#include "base/intexpr.h"
#include "eval/value.h"

typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Type Type;
typedef struct Body Body;
typedef struct OpInfo OpInfo;

// ---- types: interned, so equal means same pointer ----
typedef enum { TK_NONE, TK_TENSOR, TK_SEQUENCE, TK_OPTIONAL, TK_MAP } TypeKind;
struct Type {
  uint8_t kind;
  DType dtype;  // TK_TENSOR: elements (0 = not known, only under an unsupported op); TK_MAP: keys
  int rank;     // TK_TENSOR: -1 = unknown
  const Dim *dims;
  const Type *elem;  // TK_SEQUENCE, TK_OPTIONAL: element; TK_MAP: value
};
const Type *type_tensor(Graph *g, DType t, int rank, const Dim *dims);
const Type *type_unranked(Graph *g, DType t);
const Type *type_scalar(Graph *g, DType t);
const Type *type_sequence(Graph *g, const Type *elem);
const Type *type_optional(Graph *g, const Type *elem);
const Type *type_map(Graph *g, DType key, const Type *value);
const Type *type_none(Graph *g);
const Type *type_with_dtype(Graph *g, const Type *t, DType d);
Dim type_numel(Graph *g, const Type *t);  // product of dims; NULL when the rank is unknown
bool type_is_static(const Type *t);       // every dim a constant
bool type_same_dims(const Type *a, const Type *b);  // of tensors of known rank: the same sizes
// The least type that covers both (differing dims become fresh symbols, differing ranks unranked);
// NULL when kinds or dtypes differ.
const Type *type_join(Graph *g, const Type *a, const Type *b);
void type_print(
    StrBuf *b, const Type *t);  // f32[batch, 784], f32[*], seq(f32[*]), opt(i64[]), map(i64, f32[])

// ---- op codes: OP_name for every row of ops.def ----
enum OpCode {
#define OP(name, arity) OP_##name,
#include "ops/ops.def"
  OP_COUNT
};
enum OpArity {  // -1 = variadic or with optional operands
#define OP(name, arity) OP_ARITY_##name = (arity),
#include "ops/ops.def"
};

// ---- constants ---- Bytes in a mapped source file (opened on first use; `inspect` never touches
// them), in memory, or those of others in another order.
typedef struct Source {
  const char *path;   // as opened; NULL: bytes given by the caller
  const char *label;  // what the text form and messages call it
  File file;
  bool opened;
  const char *folder;  // for external data: where it must lie (checked when opened)
  const char *real_folder;
  bool own;  // with a folder: the model's own file all the same, whose small constants are read
             // early
} Source;
typedef struct ConstData {
  Source *source;         // NULL: bytes in the graph's arena
  int64_t offset, bytes;  // within the source
  const void *mem;
  int64_t n;  // elements
  const Node
      *moved;  // or these bytes, moved: a transpose or concat of constants, done on first use
} ConstData;

struct Node {
  uint16_t op;
  uint16_t nres;
  uint32_t nsrc;
  uint32_t id;  // ascending in order of creation
  uint32_t hash;
  const void *attrs;  // the op's struct, or NULL
  Node *const *src;
  const Type *const *type;  // [nres]
  const char *
      name;  // origin: the model's name of the node or value; not part of the identity; may be NULL
  const ConstData *data;  // OP_const
  // Contents known without running: small integer tensors, one expression an element, row-major.
  const Dim *sym;  // NULL = not known
  int64_t nsym;
  // ...or, for a small tensor that depends on constants alone, the constant itself (any dtype but
  // string).
  const Value *known;
};
enum { KNOWN_MAX = LIMIT_KNOWN_ELEMENTS };  // most elements of a tensor whose contents are followed

// A region with its own parameters: the graph's main body, and those of control flow.
struct Body {
  const char *name;
  int64_t nparams, nresults;
  Node **param;  // OP_param nodes, each of one body
  Node **result;
  const char **result_name;  // of the main body: the model's output names
};

typedef struct GraphBlock {
  void *p;
  int64_t bytes;
} GraphBlock;

struct Graph {
  Arena arena;
  Arena scratch;
  IntPool dims;
  Interner names;
  Diag *diag;
  tenon_status status;  // sticky
  Node *poison, *none;
  VEC(Node *) node;  // by id
  VEC(Source *) source;
  VEC(GraphBlock) block;  // contents of constants that the graph was given
  VEC(Body *) body;       // every body but main, in order of completion
  Body *main;
  struct GraphTable *table;  // hash-consing of nodes and types
  uint32_t nparams_made;     // params never merge
  const char
      *origin;  // name of new nodes that are given none: what a rewrite is replacing; may be NULL
  const struct CustomOp *custom;  // ops that the user registered; linked list, read-only
  int64_t memory_limit;           // bytes a folded constant may take while building
  int64_t expanded_bytes;         // of constants that are larger than in the model's file, in sum
  int64_t known_work;             // operations spent on contents known while building
  unsigned fast;                  // fast-math flags (FAST_*) of the optimiser and of lowering
  const struct TargetTraits *traits;  // of what it was optimised for (ir/traits.h); never NULL
  struct SameDims *same;  // where inference notes sizes that only a run can compare; NULL: nowhere
};

MUST_USE tenon_status graph_create(Diag *d, Graph **out);  // NULL Diag is not allowed
void graph_free(Graph *g);                                 // NULL is fine
tenon_status graph_status(const Graph *g);
// Records the first error and returns the poison node.
Node *graph_fail(Graph *g, tenon_status code, Where at, const char *fmt, ...) PRINTF(4, 5);

// ---- building ---- The one constructor: infers types and known contents, or fails with the node's
// name in the message.  `attrs` may be NULL (all defaults); it is copied.  `name` may be NULL.
// nres 0 means the op's usual count.
Node *node_new(Graph *g, int op, int nsrc, Node *const *src, const void *attrs, int nres,
               const char *name);
Node *node_param(Graph *g, const Type *t, const char *name);
Node *node_state(Graph *g, const Type *t, const char *name);  // a parameter that is a state
bool node_is_state(const Node *n);
Node *node_const(Graph *g, DType t, int rank, const int64_t *dims, const void *bytes,
                 const char *name);  // copies
// The same over data that the graph takes over and frees with mem_free(take_block, block_bytes):
// nothing is copied.
Node *node_const_take(Graph *g, DType t, int rank, const int64_t *dims, void *take_block,
                      int64_t block_bytes, const char *name);
Node *node_const_source(Graph *g, DType t, int rank, const int64_t *dims, Source *s, int64_t offset,
                        int64_t bytes, const char *name);
// What `moved`, a transpose or concat of constants, gives; its bytes are made when const_bytes is
// asked for them.
Node *node_const_moved(Graph *g, const Node *moved);
Node *node_i64s(Graph *g, int64_t n, const int64_t *v);  // rank-1 i64 constant
Node *node_i64(Graph *g, int64_t v);                     // rank-0 i64 constant
Node *node_scalar(Graph *g, DType t, double v);          // rank-0 constant of a real dtype
Node *node_proj(Graph *g, Node *n, int index);           // n itself when it has one result
#define PP_NARG(...)                             PP_NARG_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define PP_NARG_(a, b, c, d, e, f, g, h, n, ...) n
// N(g, add, x, y): a node with default attributes.  NA(g, softmax, attrs_pointer, x): with
// attributes.
#define N(g, op, ...)                                                                              \
  node_new((g), OP_##op, PP_NARG(__VA_ARGS__), (Node *[]){__VA_ARGS__}, NULL, 0, NULL)
#define NA(g, op, attrs, ...)                                                                      \
  node_new((g), OP_##op, PP_NARG(__VA_ARGS__), (Node *[]){__VA_ARGS__}, (attrs), 0, NULL)
Body *body_new(Graph *g, const char *name, int64_t nparams, Node *const *params, int64_t nresults,
               Node *const *results);

// ---- reading nodes ----
const OpInfo *op_info(int op);
int op_find(Str name);  // -1 when absent
const char *op_name(const Node *n);
static inline const Type *type_of(const Node *n) { return n->type[0]; }
static inline bool is_none(const Graph *g, const Node *n) { return n == g->none; }
static inline Node *src_or_null(const Graph *g, const Node *n, uint32_t i) {
  return i < n->nsrc && n->src[i] != g->none ? n->src[i] : NULL;
}
// The contents of an integer tensor as expressions (constants included); false when not known.
bool node_sym(Graph *g, const Node *n, int64_t *out_n, const Dim **out);
// The same when all are constants; the array lives in the graph's arena.
bool node_ints(Graph *g, const Node *n, Ints *out);
// The contents of a small tensor that depends on constants alone; NULL when not known.
const Value *node_known(Graph *g, const Node *n);
// Opens a source on first use, with the checks on where external data may lie (source.c).
MUST_USE tenon_status source_open(Source *s, Diag *d);
// Opens every file that constants of the main body lie in; the first that is missing is told once,
// with the number of its constants.
MUST_USE tenon_status graph_open_sources(Graph *g, Diag *d);
// A constant's bytes, opening the source if need be, and moving those that are to be moved.  They
// lie at any address: read them by load_f64 and its like, or ask const_elements for an aligned
// copy.
MUST_USE tenon_status const_bytes(Graph *g, const Node *n, const void **out, Diag *d);
// The same at a multiple of 16: where the file has it elsewhere, a copy in `a`.
MUST_USE tenon_status const_elements(Graph *g, const Node *n, Arena *a, const void **out, Diag *d);
// Whether a quarter of an f32 constant's elements are 0, by a sample of them (pruned.c).  Then: the
// share of the runs of `width` elements along the last axis that are not all 0.
bool const_is_pruned(Graph *g, const Node *n);
double const_runs_left(Graph *g, const Node *n, int64_t width);
// Runs a node whose operands are constants by its own evaluation; *out is the run's.
MUST_USE tenon_status const_evaluate(Graph *g, const Node *n, Run *run, Value **out);
// Every node reachable from a body's results (its params included, used or not), operands first.
// In the given arena.
typedef struct NodeList {
  Node **v;
  int64_t n;
} NodeList;
NodeList body_order(Graph *g, const Body *b, Arena *a);

// ---- states (state.c) ----
// The operand that a node's only result is written over where that is a version of a state; -1: it
// has none.  Of an op (OpInfo.in_place), and of a `fused` node whose result is such an op's.
int node_in_place(const Node *n);
// The operand that a node shows under another shape, or -1.
int node_view_operand(const Node *n);
// By node id: the state that the node's result is a version of, a parameter; NULL: of none.
// `order` is one of the main body; NULL where the graph has no state.
const Node **state_versions(const Graph *g, NodeList order, Arena *a);
// The order of the main body with each version's readers before its writer: as given but for what
// that asks for.  Takes any order with operands first, of a graph that graph_verify accepts.
NodeList state_order(const Graph *g, NodeList order, Arena *a);
// The invariants of states; the first that does not hold is told.
MUST_USE tenon_status state_verify(const Graph *g, NodeList order, Arena *a, Diag *d);
// That in this order no version of a state is read after the next one is written.
MUST_USE tenon_status state_check_order(const Graph *g, NodeList order, Arena *a, Diag *d);

// ---- whole graphs ----
MUST_USE tenon_status graph_verify(Graph *g, Diag *d);
// The symbolic dimension of the model that was meant by a name that none has.
HintText dim_hint(const Graph *g, Str name, Arena *a);
void graph_print(Graph *g, StrBuf *out);
MUST_USE tenon_status graph_parse(Str text, const char *path, Diag *d, Graph **out);
typedef struct ParseOptions {
  const struct CustomOp *custom;
  int64_t memory_limit;  // bytes that the graph may take; 0 = none
  IntFixed *fixed;       // symbols that are numbers
  int64_t nfixed;
} ParseOptions;
MUST_USE tenon_status graph_parse_with(Str text, const char *path, const ParseOptions *o, Diag *d,
                                       Graph **out);

#endif
