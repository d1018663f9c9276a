// scatter.h -- what the templates of scatter_elements and scatter_nd share.
#ifndef TENON_LOWER_CPU_SCATTER_H
#define TENON_LOWER_CPU_SCATTER_H

#include "lower/element/element.h"
#include "lower/template.h"

typedef struct Scatter {
  ElementBuilder e;
  const Node *node;  // the kernel's only result
  int mode;          // ScatterMode
  // Of template scatter:
  int64_t cols;           // of its schedule
  bool shared[MAX_RANK];  // axes that items are for
  bool cut;               // the last axis is cut into pieces, which are items
  Dim at[MAX_RANK];       // of the item
  Dim first, width;       // of its piece of the last axis
  int64_t rows;           // of its schedule
  int part;               // the axis of which an item has `rows` places; -1: none
  Dim row, part_rows;     // where the item's part begins, and its places
} Scatter;

bool scatter_begin(Scatter *s, Lowering *lo, const Node *fused);  // false: the kernel is none
// An element after an update.
const LoopExpr *scatter_joined(const Scatter *s, const LoopExpr *old, const LoopExpr *x);

#endif
