// emit.h -- one kernel on its way from the loop tree to LLVM's representation; inside tenon-codegen
// alone.
//
// Values.  A value is an LLVM value of its dtype's register type: bool is i1, integers are
// themselves, f32 and f64 are float and double, and the narrow floats are integers that hold their
// bits (arithmetic on them is f32, rounded after each operation).  Every builder of the op_ and
// math_ families takes scalars and vectors alike.
//
// Vectors.  Inside a `vector` loop, or a reduction with lanes, `lanes` values are computed at
// once.  What does not depend on the vector variable stays a scalar until it meets one that does.
//
// Plain loops.  A vector loop may hold what lanes cannot do together, such as a sum whose length
// differs between them.  `emit_plain` notes the loop, and emit_kernel begins again: that loop then
// computes one element after the other.
//
// Errors.  Every kernel that the verifier accepts has code.  `emit_fail` notes the first reason why
// one has none, which is a defect of ours, and emission goes on with undefined values until it
// ends.
#ifndef TENON_TARGETS_LLVM_EMIT_H
#define TENON_TARGETS_LLVM_EMIT_H

#include "base/machine.h"
#include "loop/loop.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>

typedef LLVMValueRef LV;
typedef LLVMTypeRef LT;

// What a symbol of the kernel stands for while code is emitted under it.
typedef enum { SYM_NONE, SYM_SCALAR, SYM_VECTOR, SYM_LANES, SYM_DIM } SymKind;
typedef struct Sym {
  uint8_t kind;
  LV value;       // SYM_SCALAR: i64; SYM_LANES: a vector of i64
  LV narrow;      // SYM_LANES: the same as i32, none of them negative; NULL: it may not fit
  Dim dim;        // SYM_DIM: a guarded index, by its value
  int64_t align;  // SYM_SCALAR, SYM_VECTOR: value is a multiple of this; 0 for the number 0
} Sym;

// An index over the lanes: base + stride * lane, or any vector.
typedef struct Lin {
  LV base;
  int64_t stride, align;  // of base, as in Sym
  LV vec;                 // not NULL: this, and nothing else
  int64_t repeat;         // above 1: vec is known to be first + lane / repeat
  LV first;
  // Not NULL: vec is this, of i32 that are not negative, and `off`, which is the same for all lanes
  // (NULL: 0).
  LV narrow, off;
} Lin;

// The unrolled loop at hand inside a chunk of lanes, and the blocks of strided loads that were
// transposed for its steps (emit_transpose.c).
enum { ACROSS_BLOCKS = 4 };
typedef struct Across {
  const LoopStmt *loop;  // NULL: none
  int64_t step;          // at hand
  bool always;           // the statement at hand is run in every step: a block may be loaded in it
  int nblocks;           // that are held
  struct AcrossBlock {
    const LoopExpr *load;
    int64_t first;  // step of the block's first column
    LV mask;        // under which it was loaded
    LV column[16];
  } block[ACROSS_BLOCKS];
} Across;

typedef struct Emit {
  const LoopKernel *k;
  const Machine *m;
  Arena *arena;
  Diag *d;
  tenon_status status;
  LLVMContextRef ctx;
  LLVMTargetDataRef layout;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  LV fn;
  LLVMBasicBlockRef entry;  // of the function: where tiles and accumulators are set up
  LT i1, i8, i16, i32, i64, f32, f64, ptr;
  Sym *sym;               // by slot
  LV *var;                // by variable
  LV *base;               // by buffer: its first byte
  LV begin, end;          // work items
  int lanes;              // 0: scalar code
  const LoopStmt *chunk;  // whose lanes these are; NULL: none
  IntMap plain;           // loops without lanes
  bool again;             // a loop joined them: what was emitted is of no use
  LV mask;                // lanes that are there; NULL: all
  LV fault;      // a byte that is set once an integer operation had no result; NULL: none can
  bool checked;  // every access goes to `outside` instead when its index is not in the buffer
  LLVMBasicBlockRef outside;
  LV zeros;  // 64 zero bytes, read in place of what a guard leaves out
  Across across;
  IntMap memo;   // LoopExpr * -> LV, within a statement
  int64_t fmas;  // emulated so far
} Emit;

// Emits the kernel as the function `name` into a new module, e->mod, of the context e->ctx.  The
// caller disposes of the module.
MUST_USE tenon_status emit_kernel(Emit *e, const char *name);
void emit_describe(Emit *e, LV fn);  // attributes that every function of ours has
void emit_fail(Emit *e, const char *fmt, ...) PRINTF(2, 3);
void emit_plain(Emit *e, const LoopStmt *s, const char *why);  // s: may be NULL, which fails

// ---- small things (emit_util.c) ----
void emit_types(Emit *e);
int value_lanes(LV x);        // 0: a scalar
LT type_like(LV x, LT elem);  // elem, with as many lanes as x
LV const_int(Emit *e, LV like, LT elem, int64_t v);
LV const_real(Emit *e, LV like, LT elem, double v);
LV const_i64(Emit *e, int64_t v);
bool is_const_int(LV v, int64_t *out);
LV splat(Emit *e, LV x, int lanes);
LV iota(Emit *e, LT elem, int lanes);
LV widen(Emit *e, LV x);  // to the lanes of the code around, where it is vector code
LV intrinsic(Emit *e, const char *name, LV like, int n, LV a, LV b,
             LV c);  // overloaded by like's type
LV call_intrinsic(Emit *e, const char *name, LT *over, int nover, LV *args, int nargs);
LV at_byte(Emit *e, LV base, LV index, int64_t elem_bytes);
LV any_lane(Emit *e, LV mask);             // i1 of i1 or of a vector of them
LV in_entry(Emit *e, LT type, int align);  // memory of the function's own
LLVMBasicBlockRef new_block(Emit *e, const char *name);
void go_to(Emit *e, LLVMBasicBlockRef bb);
LT reg_type(Emit *e, DType t);
LT mem_type(Emit *e, DType t);
int64_t elem_bytes(DType t);

// ---- indices (emit_index.c) ----
Lin emit_lin(Emit *e, Dim d);
LV lin_value(Emit *e, Lin x);  // i64: a scalar, or a vector where it varies
LV emit_dim(Emit *e, Dim d);   // a scalar; where it varies the loop is a plain one
// Guards: the lanes for which all hold.  Either part is NULL where it always holds.
typedef struct Guard {
  LV uniform, lanes;
  bool may_be_empty;  // an extent may be 0: nothing may be read even once
} Guard;
Guard emit_guards(Emit *e, int n, const LoopBound *g);
void drop_guards(Emit *e, int n, const LoopBound *g);

// ---- expressions and memory (emit_expr.c) ----
LV emit_expr(Emit *e, const LoopExpr *x);
void emit_store(Emit *e, const LoopStmt *s);
LV emit_constant(Emit *e, DType t, double f, int64_t i);

// emit_transpose.c: a strided load; NULL where its elements are no part of a block.
LV emit_transposed(Emit *e, const LoopExpr *x, Lin at, LV uniform, LV mask);

// ---- operations (emit_op.c, emit_int.c, emit_cast.c) ----
LV op_emit(Emit *e, LoopOp op, DType t, LV x, LV y, LV z);  // t: the operands' dtype
LV op_int(Emit *e, LoopOp op, DType t, LV x, LV y);
LV op_fma(Emit *e, LV x, LV y, LV z);
void note_fault(Emit *e, LV where);
LV cast_emit(Emit *e, DType from, DType to, LV x, double lo,
             double hi);  // a float is known to lie in lo..hi
// emit_dot.c
LV dot_emit(Emit *e, DType t, LV x, LV y, LV sum);  // t: of the sum
LV lookup_emit(Emit *e, LV x, uint64_t low, uint64_t high);
LV float_widen(Emit *e, DType t, LV x);   // a narrow float's bits -> f32
LV float_narrow(Emit *e, DType t, LV x);  // f32 -> bits, rounded to nearest even
LV f64_to_f32_odd(Emit *e, LV x);         // rounded to odd: keeps what a second rounding needs

#endif
