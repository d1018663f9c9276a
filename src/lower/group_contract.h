// group_contract.h -- what the templates of contractions on groups of threads share.
#ifndef TENON_LOWER_GROUP_CONTRACT_H
#define TENON_LOWER_GROUP_CONTRACT_H

#include "lower/contract.h"
#include "lower/group_loops.h"

typedef struct GroupSums {
  Elem e;
  Contraction c;
  ContractChain h;
  ContractProbe p;
  Tiler t;  // places, and elements of the operands
  Finish f;
  Dim k;  // all contracted places, counted through
} GroupSums;

// Finds the contraction; false when it is none.  Pixels of an image are rows, all of them.
bool group_sums_begin(GroupSums *s, Lowering *lo, const Node *fused);
// The schedule's columns of a panel are set: packs a constant rhs, and begins the loops.
bool group_sums_pack(GroupSums *s);
// The schedule's rows and columns of a work item are set: likewise, and opens the items' loop.  Gives the block of rows.
bool group_sums_open(GroupSums *s, Dim *block);
// lhs and rhs at a row, a column of the panel and a contracted place, in the sums' dtype; 0 where guards since `since` do not hold.
const LoopExpr *group_sums_lhs(GroupSums *s, Dim row, Dim col, Dim k, int since);
const LoopExpr *group_sums_rhs(GroupSums *s, Dim row, Dim in_panel, Dim k, int since);
const LoopExpr *group_sums_zero(GroupSums *s);
// sum + lhs * rhs
const LoopExpr *group_sums_add(GroupSums *s, const LoopExpr *a, const LoopExpr *b,
                               const LoopExpr *sum);
// Stores what is made of a sum.
bool group_sums_finish(GroupSums *s, Dim row, Dim col, const LoopExpr *sum);

#endif
