// scan.h -- what the templates of cumulative sums and products share.
#ifndef TENON_LOWER_CPU_SCAN_H
#define TENON_LOWER_CPU_SCAN_H

#include "lower/cpu/row_lanes.h"
#include "lower/template.h"

typedef struct Scan {
  ElementBuilder e;
  const Node *node;  // cum_sum or cum_prod
  const Type *type;
  int axis, vector;  // vector: the axis that lanes go along, or -1
  Dim shape[MAX_RANK], index[MAX_RANK];
  const LoopExpr *value;  // of the element at `index`
  int64_t cols;           // of the schedule of template scan
  RowLanes rows;          // likewise: where rows are lanes
} Scan;

bool scan_begin(Scan *s, Lowering *lo, const Node *fused);  // false: the kernel is no scan
const LoopExpr *scan_value(void *ctx, const Dim *index);    // an ElemGiven over a Scan
bool scan_store(Scan *s);  // the results at `index`; false: an operand has no expression

#endif
