// gemm_simt.h -- what the SIMT GEMM templates share.
#ifndef TENON_LOWER_GPU_GEMM_SIMT_H
#define TENON_LOWER_GPU_GEMM_SIMT_H

#include "lower/contract/contract.h"
#include "lower/gpu/thread_loops.h"

typedef struct SimtGemm {
  ElementBuilder e;
  Contraction c;
  ContractEpilogue h;
  ContractProbe p;
  Tiler t;  // places, and elements of the operands
  Epilogue f;
  Dim k;  // all contracted places, counted through
} SimtGemm;

// Finds the contraction; false when it is none.  Pixels of an image are rows, all of them.
bool simt_gemm_begin(SimtGemm *s, Lowering *lo, const Node *fused);
// The schedule's columns of a panel are set: packs a constant rhs, and begins the loops.
bool simt_gemm_pack(SimtGemm *s);
// The schedule's rows and columns of a work item are set: likewise, and opens the items' loop.
// Gives the block of rows.
bool simt_gemm_open(SimtGemm *s, Dim *block);
// lhs and rhs at a row, a column of the panel and a contracted place, in the sums' dtype; 0 where
// guards since `since` do not hold.
const LoopExpr *simt_gemm_lhs(SimtGemm *s, Dim row, Dim col, Dim k, int since);
const LoopExpr *simt_gemm_rhs(SimtGemm *s, Dim row, Dim in_panel, Dim k, int since);
const LoopExpr *simt_gemm_zero(SimtGemm *s);
// sum + lhs * rhs
const LoopExpr *simt_gemm_add(SimtGemm *s, const LoopExpr *a, const LoopExpr *b,
                              const LoopExpr *sum);
// Stores what is made of a sum.
bool simt_gemm_epilogue(SimtGemm *s, Dim row, Dim col, const LoopExpr *sum);

#endif
