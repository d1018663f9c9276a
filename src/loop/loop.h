// loop.h -- kernels as loop nests: types and invariants.
//
// A kernel is what one launch computes: a number of independent work items, each a tree of loops
// over flat buffers.  Indices are integer expressions (base/intexpr) over three kinds of symbols:
// the kernel's dims, which are known when it is called; loop variables, which run from 0 up to
// their extent; and bound indices, which are read from data or computed, and lie in [0, extent)
// wherever they are used.
//
// Invariants (each has a line in verify.c):
//  - every load and store is proven to lie inside its buffer, for all values that the dims may
//    take;
//  - two work items never store to the same element of an argument, nor does one load what another
//    stores;
//  - a variable is defined once, before its uses, in the block that holds them or in one around it;
//  - `parallel` is the outermost loop and occurs once; `vector` holds no loop but `unroll` and
//    `reduce` with one lane;
//  - a register buffer is indexed by constants, unrolled variables and the vector variable alone;
//  - dtypes agree: an operation's operands have one dtype, a store has its buffer's, or is four
//    bytes as a u32;
//  - a wide load reads a buffer that the kernel does not write, or scratch;
//  - in a kernel with `thread` loops, these have one extent, the same number, and lie in nothing
//    but the parallel loop, serial and unrolled loops and branches; what lies outside of them
//    stores nothing, and loads what the kernel does not write;
//  - in a thread loop no thread touches what another stores; there a register buffer of T threads
//    has T*n elements, of which a thread uses t*n + i, i < n, alone, with i as registers are
//    indexed;
//  - a tile statement stands under the parallel loop alone, its schedule is legal, and its operands
//    and loops are those of its record (tile.h).
//
// Numerics are part of the kernel and not of its schedule: the lanes and the order of every sum are
// written in the tree, so whoever runs it, with however many threads, gets the same bits.
//
// Vectors.  A `vector` loop says that its iterations are independent; how many run at once is the
// target's affair.  Expressions inside it are scalar in this tree and become vectors in the code.
//
// Thread blocks.  With `thread` loops a thread block does a work item: its threads share memory,
// and each runs a thread loop's body once, independently.  Every store of one thread loop is
// visible to the next: there is no barrier statement, code generators find where barriers are
// needed (group.h).  Everything outside thread loops is the same for all threads.  Without thread
// blocks a thread loop is a serial loop.
//
// Tiles.  An MMA tile or an attention tile is one statement, which carries its operands and its
// schedule (tile.h).  Its body is what it means, in plain loops: targets with tensor cores form all
// sums of the tile at once, all others run the body.
#ifndef TENON_LOOP_LOOP_H
#define TENON_LOOP_LOOP_H

#include "base/intexpr.h"
#include "base/num.h"

// ---- scalar operations: those of eval/scalar.def, and these ----
typedef enum LoopOp {
#define SCALAR(name, ...) LOOP_##name,
#include "eval/scalar.def"
#undef SCALAR
  LOOP_fma,     // a * b + c, rounded once
  LOOP_select,  // a ? b : c; a is bool
  LOOP_cast,    // to the expression's dtype, as the op `cast` does it (saturating where that does)
  LOOP_bit_cast,   // the same bits
  LOOP_trunc_div,  // of index values: toward zero
  // c + the products of the parts of a and b, which are u32 that hold several numbers, the first in
  // the low bits: for a c of i32 four of them, unsigned in a and signed in b, exact and wrapped;
  // for a c of f32 two of bf16.
  LOOP_dot,
  // Of a u32 the low half of each byte looks a byte up: b has bytes 0 to 7 of the table and c bytes
  // 8 to 15, the first in the low bits.  Both are constants of u64.
  LOOP_lookup,
  LOOP_tf32,  // of f32: to the nearest number with 10 mantissa bits, away from zero where two are
              // as near
  LOOP_OP_COUNT
} LoopOp;
extern const char *const loop_op_name[LOOP_OP_COUNT];
extern const uint8_t loop_op_arity[LOOP_OP_COUNT];
bool loop_op_is_compare(LoopOp op);  // bool from operands of another dtype
// What a reduction begins with: add has +0, and of floats min has infinity and max its negative.
// False: no operation that reduces.  `f` for float dtypes, `i` for others.
bool loop_identity(LoopOp op, DType t, double *f, int64_t *i);

// ---- buffers ----
typedef enum LoopSpace {
  LOOP_ARG,       // a tensor of the caller's, aligned to 64 bytes
  LOOP_SCRATCH,   // memory of the running thread, undefined at the start of each work item
  LOOP_REGISTER,  // a tile that lives in registers; in a kernel with thread blocks, a part of it
                  // for each thread
  LOOP_SHARED,    // shared memory of a thread block, undefined at the start of each work item
} LoopSpace;
typedef struct LoopBuffer {
  const char *name;
  LoopSpace space;
  DType dtype;    // of whole bytes; bool is a byte of 0 or 1
  Dim size;       // elements; a number but for arguments
  bool written;   // LOOP_ARG: a result
  bool constant;  // LOOP_ARG: the same in every run; nothing need be waited for before it is read
} LoopBuffer;

// An index that must lie in [0, extent): `sym` stands for it wherever it is used.
typedef struct LoopBound {
  Dim sym;
  Dim value;
  Dim extent;
} LoopBound;

// ---- expressions: a DAG; a shared node is computed once where it can be ----
typedef enum { LX_CONST, LX_INDEX, LX_LOAD, LX_VAR, LX_OP } LoopExprKind;
typedef struct LoopExpr LoopExpr;
struct LoopExpr {
  uint8_t kind;
  uint8_t op;  // LX_OP: LoopOp
  DType dtype;
  uint8_t nguards;
  int32_t buffer;  // LX_LOAD
  int32_t var;     // LX_VAR
  double f;        // LX_CONST of a float dtype
  int64_t i;       // LX_CONST of another
  // LX_LOAD: element; of a buffer of narrower elements a u32 is the bits of this one and those
  // behind it LX_INDEX: the value itself, as i64
  Dim index;
  // LX_LOAD: where a guard's value lies outside its extent nothing is read and the value is src[0],
  // or 0
  const LoopBound *guard;
  const LoopExpr *src[3];
  int32_t size;  // operations, those of a shared node for each of its uses, as a text has them; at
                 // most LOOP_SIZE_MOST
};
enum { LOOP_SIZE_MOST = 1 << 24 };

// ---- statements ----
typedef enum {
  LS_FOR,  // sym < extent: body; of kind `where`, once and with sym = index, where that lies in [0,
           // extent)
  LS_LET,  // var = value
  LS_BIND,    // sym = checked(value, extent): an index that comes from data; a failure ends the
              // kernel with `check`
  LS_STORE,   // buffer[index] = value, where all guards hold; a u32 is four elements of a byte each
  LS_IF,      // value (bool): body, else orelse
  LS_REDUCE,  // var = the sum (op) over sym < extent of `value`, computed after `body` in each
              // round
  LS_PREFETCH,  // buffer[index] will be read soon
  LS_MMA,  // a tile of sums of products, and its epilogue: `tile` has the record, body the loops
  LS_ATTENTION,  // likewise a tile of attention
} LoopStmtKind;
typedef enum {
  LOOP_SERIAL,
  LOOP_PARALLEL,
  LOOP_UNROLL,
  LOOP_VECTOR,
  LOOP_THREAD,
  LOOP_WHERE
} LoopKind;
typedef struct LoopStmt LoopStmt;
typedef struct LoopBlock {
  int64_t n;
  LoopStmt **v;
} LoopBlock;
// All expressions of a statement are its value, index and guards, all statements within are its
// body and orelse, of tile statements too: a walk over these misses nothing, whatever the kind.
struct LoopStmt {
  uint8_t kind;
  uint8_t loop;  // LS_FOR: LoopKind
  uint8_t op;    // LS_REDUCE: add, mul, min, max, and, or, bit_and, bit_or, bit_xor, xor
  uint8_t nguards;
  int32_t var;     // LS_LET, LS_REDUCE
  int32_t buffer;  // LS_STORE, LS_PREFETCH
  // LS_REDUCE: element i goes to partial result i mod lanes, each begun with the operation's
  // identity (min and max: the lowest and highest value); then halves are joined: p[j] = op(p[j],
  // p[j + lanes/2]), and so on.
  int32_t lanes;      // a power of two, at most LOOP_LANES
  int32_t in_flight;  // LS_FOR: rounds of a thread's serial loop whose loads may be in flight at
                      // once; 0: one
  int32_t check;      // LS_BIND: number of the kernel's message
  Dim sym, extent;
  Dim index;  // LS_STORE, LS_PREFETCH; LOOP_WHERE: the value
  const LoopBound *guard;
  const LoopExpr *value;
  LoopBlock body, orelse;
  struct LoopTile *tile;  // LS_MMA, LS_ATTENTION
};
enum { LOOP_LANES = 64, LOOP_GUARDS = 16 };

typedef struct LoopKernel {
  Arena *arena;
  IntPool *pool;
  const char *name;
  int32_t nbuffers, nvars, nchecks, ndims;
  LoopBuffer *buffer;  // arguments first, in the order of the call
  int32_t nargs;
  DType *var;          // dtype by variable
  const char **check;  // messages: "index out of range of axis 0"
  Dim *dim;            // symbols, in the order of the call; their ranges bind
  LoopBlock body;      // one `parallel` loop: its extent is the number of work items
  const char *
      schedule;  // how it was scheduled, for people and for replay; no meaning here; NULL: not said
  StrMap next_name;  // base of a symbol's name -> the number to try next
} LoopKernel;

// How generated code is called: work items begin..end-1.  Returns 0, or 1 + the number of the check
// that failed.
typedef int32_t KernelFn(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                         void *scratch);

// ---- building (build.c) ---- Expressions fold constants and share nothing by themselves.
// Everything lives in the kernel's arena.
LoopKernel *loop_kernel(Arena *a, IntPool *pool, const char *name);
int32_t loop_buffer(LoopKernel *k, LoopSpace space, const char *name, DType t, Dim size,
                    bool written);  // arguments before all others
Dim loop_dim(LoopKernel *k, const char *name, int64_t lo, int64_t hi);
Dim loop_sym(LoopKernel *k, const char *name, Dim extent);  // a new loop variable or bound index
const LoopExpr *loop_float(LoopKernel *k, DType t, double v);
const LoopExpr *loop_int(LoopKernel *k, DType t, int64_t v);
const LoopExpr *loop_index(LoopKernel *k, Dim value);
const LoopExpr *loop_load(LoopKernel *k, int32_t buffer, Dim index);
const LoopExpr *loop_load_guarded(LoopKernel *k, int32_t buffer, Dim index, int nguards,
                                  const LoopBound *guard, const LoopExpr *other);
const LoopExpr *loop_wide(LoopKernel *k,
                          const LoopExpr *load);  // as u32: a load of bytes or of 16 bits
const LoopExpr *loop_var(LoopKernel *k, int32_t var);
const LoopExpr *loop_op(LoopKernel *k, LoopOp op, const LoopExpr *a, const LoopExpr *b,
                        const LoopExpr *c);
const LoopExpr *loop_cast(LoopKernel *k, DType to, const LoopExpr *a);
const LoopExpr *loop_bit_cast(LoopKernel *k, DType to, const LoopExpr *a);

typedef struct LoopBuilder {  // statements under construction, one block at a time
  LoopKernel *k;
  VEC(LoopStmt *) stmt;
  VEC(int64_t) open;  // where the blocks that are still open begin
} LoopBuilder;
void loop_begin(LoopBuilder *b, LoopKernel *k);
Dim loop_for(LoopBuilder *b, LoopKind kind, const char *name, Dim extent);  // until loop_end
void loop_rounds_in_flight(LoopBuilder *b, int rounds);  // of the loop just opened
// Until loop_end, where the value lies in [0, extent): a guard for all that it holds.  No vector
// holds one.
Dim loop_where(LoopBuilder *b, const char *name, Dim value, Dim extent);
void loop_if(LoopBuilder *b, const LoopExpr *cond);  // until loop_end
void loop_else(LoopBuilder *b);
void loop_end(LoopBuilder *b);
const LoopExpr *loop_let(LoopBuilder *b, const LoopExpr *value);  // gives the variable
Dim loop_bind(LoopBuilder *b, const char *name, const LoopExpr *value, Dim extent,
              const char *message);
void loop_store(LoopBuilder *b, int32_t buffer, Dim index, const LoopExpr *value);
void loop_store_guarded(LoopBuilder *b, int32_t buffer, Dim index, int nguards,
                        const LoopBound *guard, const LoopExpr *value);
// Opens a reduction; statements until loop_yield are its body.
Dim loop_reduce(LoopBuilder *b, LoopOp op, const char *name, Dim extent, int lanes);
const LoopExpr *loop_yield(LoopBuilder *b, const LoopExpr *value);  // closes it; gives the result
void loop_prefetch(LoopBuilder *b, int32_t buffer, Dim index);
void loop_finish(LoopBuilder *b);  // all blocks closed: the kernel has its body
// Moves what unrolled loops begin with in each round alike to before them (hoist.c), where its
// expressions are no larger than this.
enum { LOOP_HOIST_MOST = 64 };
void loop_hoist(LoopKernel *k);

// ---- whole kernels ----
void loop_print(const LoopKernel *k, StrBuf *out);
MUST_USE tenon_status loop_parse(Str text, const char *path, Arena *a, IntPool *pool, Diag *d,
                                 LoopKernel **out);
MUST_USE tenon_status loop_verify(const LoopKernel *k, Diag *d);
Dim loop_items(const LoopKernel *k);              // extent of the parallel loop
int64_t loop_scratch_bytes(const LoopKernel *k);  // with every buffer aligned to 64 bytes
int64_t loop_shared_bytes(const LoopKernel *k);   // likewise
int64_t loop_threads(const LoopKernel *k);  // of a thread block; 0: a work item is one thread's
// Runs work items [begin, end) with every access checked.  `size`: elements of each argument.
// `failed` gets the check that failed, which is no error of the kernel's, or -1.
MUST_USE tenon_status loop_interpret(const LoopKernel *k, void *const *args, const int64_t *size,
                                     const int64_t *dims, int64_t begin, int64_t end, Diag *d,
                                     int32_t *failed);

#endif
