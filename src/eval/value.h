// value.h -- run-time values: tensors, sequences, optionals, maps.
//
// A Value is reference counted and belongs to a Run, which frees what is left when it ends, so an
// early exit leaks nothing.  Tensors are dense, row-major, aligned to 64 bytes; sub-byte elements
// are packed.  A value handed to an op is never changed by it.
#ifndef TENON_EVAL_VALUE_H
#define TENON_EVAL_VALUE_H

#include "base/base.h"
#include "base/num.h"
#include "base/platform.h"

enum { MAX_RANK = LIMIT_RANK };

typedef enum { VK_TENSOR, VK_SEQUENCE, VK_OPTIONAL, VK_MAP } ValueKind;
typedef struct Value Value;
typedef struct Run Run;
struct Body;  // a sub-graph (ir.h)
struct Eval;  // one evaluation (eval.h)
struct Ints;  // a list of integers (attr.h)

struct Value {
  uint8_t kind;
  // VK_TENSOR
  DType dtype;
  int rank;
  int64_t dims[MAX_RANK];
  int64_t n;   // elements: product of dims, 1 for rank 0
  void *data;  // DT_STRING: array of Str whose bytes live in run->strings or in a mapped file
  // VK_SEQUENCE: items; VK_OPTIONAL: 0 or 1 item; VK_MAP: items[0] keys, items[1] values (rank-1
  // tensors, or items[1] a sequence of tensors)
  DType elem_dtype;  // VK_SEQUENCE, VK_OPTIONAL: element dtype where known (an empty sequence has
                     // one too)
  int64_t nitems;
  Value **items;
  // bookkeeping
  Run *run;  // NULL: borrowed by the caller, never freed here
  int64_t refs, data_bytes, items_bytes;
  bool owns_data;
  Value *owner;        // an alias: the value whose data these are, one reference held
  Value *prev, *next;  // the run's list
};

// What one run leaves for the next of the same owner, so that a run asks the system for no memory.
typedef struct RunKeep {
  Arena scratch;
  ArenaMark base;  // of it: what stays
  Value *spare;    // values that nobody uses, by `next`
  int64_t nspare;
} RunKeep;

// Everything that lives for one execution.
struct Run {
  Pool *pool;     // may be NULL
  RunKeep *keep;  // may be NULL
  Diag *diag;
  Arena strings;  // bytes of strings made during the run
  Arena scratch;  // marked and reset around each op by whoever calls eval
  Value *values;  // all live values
  // Of values, as the allocator takes them.  max_bytes 0 = no limit but the machine's; strings and
  // scratch may take as much again.
  int64_t live_bytes, peak_bytes, max_bytes;
  bool over_limit;     // something was refused because of max_bytes
  uint64_t seed;       // of random ops
  int64_t budget;      // loop iterations that may still be run; < 0 = no limit
  int64_t ops_budget;  // operations that may still be done (eval_work); < 0 = no limit
  // By result of the model: whether it is wanted; NULL: all are.  Steps that no wanted result needs
  // are not done, and a result that is not wanted is NULL.
  const bool *wanted;
  // Runs a sub-graph: set by the interpreter (or by the runtime's plan).
  tenon_status (*call_body)(Run *r, const struct Body *body, Value *const *in, int64_t nin,
                            Value **out, int64_t nout);
  // A stack of no rows of a body's result: nothing ran, so only the graph knows the rows' type, and
  // the op's operands the sizes in it.  `declared`: what the model says of a row, for what the
  // graph leaves open; or NULL.
  tenon_status (*empty_stack)(const struct Eval *e, const struct Body *body, int64_t result,
                              int64_t axis, const struct Ints *declared, Value **out);
  // Does what an operator of the user's own does; NULL: nobody knows.
  tenon_status (*foreign)(const void *ctx, struct Eval *e);
  const void *foreign_ctx;
  void *user;
};

void run_keep_init(RunKeep *k);  // raises when there is no memory
void run_keep_deinit(RunKeep *k);
void run_init(Run *r, Pool *pool, Diag *d);
void run_init_keeping(Run *r, RunKeep *k, Diag *d);  // one run of `k` at a time
void run_deinit(Run *r);                             // frees every value still alive
static inline bool run_wants(const Run *r, int64_t result) {
  return !r->wanted || r->wanted[result];
}

// A new dense tensor, zeroed.  EINVAL when the size overflows, ENOMEM when refused or over
// max_bytes.
// Refuses `what`, of so many bytes, because of max_bytes, with what is left of it.  ENOMEM.
tenon_status run_over_limit(Run *r, Where at, const char *what, int64_t bytes);
MUST_USE tenon_status value_tensor(Run *r, Where at, DType t, int rank, const int64_t *dims,
                                   Value **out);
MUST_USE tenon_status value_sequence(Run *r, DType elem, int64_t n,
                                     Value **out);  // items NULL, to be filled with retained values
MUST_USE tenon_status value_optional(Run *r, DType elem, Value *item_or_null,
                                     Value **out);  // retains the item
MUST_USE tenon_status value_map(Run *r, Value *keys, Value *values, Value **out);  // retains both
// A tensor over bytes that the caller keeps alive (constants, the user's inputs).
MUST_USE tenon_status value_borrow(Run *r, DType t, int rank, const int64_t *dims, const void *data,
                                   Value **out);
// The same bytes under another shape (same number of elements and dtype, not checked).
MUST_USE tenon_status value_alias(Run *r, Value *v, int rank, const int64_t *dims, Value **out);
// The data of a tensor that nobody else holds, which the caller then frees with mem_free(data,
// *out_bytes); NULL when it is shared or borrowed.  The tensor may be read until the caller frees
// them.
void *value_take_data(Value *v, int64_t *out_bytes);
Value *value_retain(const Value *v);  // the count is not part of the value's contents
void value_release(Value *v);         // NULL is fine
Str run_string(Run *r, Str s);        // copies bytes into the run

// Convenience for tensors
static inline double val_f64(const Value *v, int64_t i) { return get_f64(v->dtype, v->data, i); }
static inline int64_t val_i64(const Value *v, int64_t i) { return get_i64(v->dtype, v->data, i); }
static inline void val_put_f64(Value *v, int64_t i, double x) { put_f64(v->dtype, v->data, i, x); }
static inline void val_put_i64(Value *v, int64_t i, int64_t x) { put_i64(v->dtype, v->data, i, x); }
static inline Str val_str(const Value *v, int64_t i) { return ((const Str *)v->data)[i]; }
int64_t elem_bytes(DType t);  // bytes of one element, 0 for sub-byte types
bool shape_count(int rank, const int64_t *dims,
                 int64_t *out);  // product; false: overflow or a negative dim
void shape_strides(int rank, const int64_t *dims, int64_t *out);  // in elements, row-major
// "[2, 3]", by value, for messages: shape_text(rank, dims).s
typedef struct ShapeText {
  char s[MAX_RANK * 22 + 8];
} ShapeText;
ShapeText shape_text(int rank, const int64_t *dims);
// Copies n elements between tensors of one dtype (sub-byte and strings included).
void copy_elems(DType t, void *dst, int64_t di, const void *src, int64_t si, int64_t n);

#endif
