// impl.h -- what the files of loop share: limits, single values, and what the operations take.
#ifndef TENON_LOOP_IMPL_H
#define TENON_LOOP_IMPL_H

#include "loop/tile.h"

enum {
  LOOP_MAX_DEPTH = 400,   // operations within operations of one expression
  LOOP_MAX_NESTING = 64,  // blocks within blocks
  LOOP_MAX_VARS = 1 << 20,
  LOOP_MAX_THREADS = 1024,  // of a thread block
};

// One value: `f` of a float dtype, rounded to it; else `i`, wrapped to it (u64 as its bits, bool 0
// or 1).
typedef union LoopCell {
  double f;
  int64_t i;
} LoopCell;

// Dtype classes that an operation takes.
enum { LC_F = 1, LC_I = 2, LC_S = 4, LC_B = 8, LC_X = 16, LC_T = 32, LC_MIXED = 64 };
int loop_op_classes(LoopOp op);
int loop_class_of(DType t);   // the one bit of a dtype that kernels know; 0: none
bool loop_dtype_ok(DType t);  // of whole bytes, and a number or bool

// A value as an element of type t would hold it.
LoopCell loop_round(DType t, LoopCell v);
LoopCell loop_convert(DType to, DType from, LoopCell v);
LoopCell loop_reinterpret(DType to, DType from, LoopCell v);
// `t` is the operands' dtype (select: of the second and third; dot: of the third).  False: no
// result for these operands.
bool loop_apply(LoopOp op, DType t, const LoopCell *src, LoopCell *out);
LoopCell loop_get(DType t, const void *base, int64_t i);
void loop_put(DType t, void *base, int64_t i, LoopCell v);

// ---- parts of building that folds nothing (build.c) ----
void loop_add_dim(LoopKernel *k, Dim sym);
int32_t loop_add_buffer(LoopKernel *k, LoopSpace space, const char *name, DType t, Dim size,
                        bool written);  // the name as it is
LoopExpr *loop_new_expr(LoopKernel *k, LoopExprKind kind, DType t);
LoopStmt *loop_new_stmt(LoopBuilder *b, LoopStmtKind kind);
void loop_open(LoopBuilder *b);   // the block of the last statement
void loop_close(LoopBuilder *b);  // the innermost block, whatever its statement is
int64_t loop_sym_hi(Dim extent);  // highest value that the range of a symbol of this extent holds
int32_t loop_find_check(LoopKernel *k, const char *message);  // adds it where it is new

int32_t loop_new_var(LoopKernel *k, DType t);

// ---- tile statements with the symbols and variables that they are given (tile.c,
// tile_attention.c) ----
typedef struct LoopFresh {  // new ones
  int32_t (*var)(void *ctx, DType t);
  Dim (*sym)(void *ctx, Dim like, Dim extent);
  void *ctx;
} LoopFresh;
LoopTile *loop_tile_open(LoopBuilder *b, LoopStmtKind kind, const LoopTileSchedule *s, Dim row,
                         Dim col);
LoopStmt *loop_open_sum(LoopBuilder *b, LoopOp op, Dim sym, Dim extent);
void loop_mma_open(LoopBuilder *b, LoopTile *t, Dim k, Dim depth);
const LoopExpr *loop_mma_close(LoopBuilder *b, LoopTile *t);  // what is summed; NULL: no tile
// An operand in the dtype of the sums, as products take it.
const LoopExpr *loop_mma_factor(LoopKernel *k, LoopMmaKind kind, const LoopExpr *x);
// Whether the operand's value is its element, as loop_tile_element writes it.
bool loop_tile_is_element(const LoopKernel *k, const LoopTileOperand *o, Dim at);
const LoopExpr *loop_attention_product(LoopKernel *k, const LoopTile *t);
// The round over the keys that is open is the one of this number among the three reductions;
// variables below 0 are new ones.
void loop_attention_close(LoopBuilder *b, LoopTile *t, const LoopFresh *fresh, int given,
                          int32_t total, int32_t sum);

// ---- print.c ----
void loop_print_stmt(const LoopKernel *k, const LoopStmt *s, StrBuf *out);  // for messages

#endif
