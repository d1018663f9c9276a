// choose_layout.h -- what the files of the pass choose-layout share.
//
// Values stay channels first in the graph's own eyes: a value that is computed channels last is
// seen through a transpose, which its users take off again.  So a node that cannot be converted
// after all just keeps its order.
#ifndef TENON_PASSES_CHOOSE_LAYOUT_CHOOSE_LAYOUT_H
#define TENON_PASSES_CHOOSE_LAYOUT_CHOOSE_LAYOUT_H

#include "ops/order.h"
#include "passes/passes.h"

typedef enum {
  LR_FIXED,     // channels first only
  LR_AWARE,     // has channels and computes in either order, not equally well
  LR_FREE,      // computes in either order, the result in the operands' order
  LR_SINK,      // reads either order, its result is the same
  LR_TO_LAST,   // the model's own transpose to channels last: none where its operand is so
  LR_TO_FIRST,  // likewise the other way: its operand is its result channels last
} LayoutRole;
// By op, attributes and ranks.  `fast`: fast-math flags (rule.h), for sums that another order would
// change.
LayoutRole layout_role(Graph *g, const Node *n, unsigned fast);
// Operand i is a value that must be in the node's own order.
bool layout_follows(const Graph *g, const Node *n, uint32_t i);
// A node over channels-first operands made again channels last: the result in that order (LR_SINK:
// as it was), or NULL.
Node *layout_convert(Graph *g, Node *n);
// x, channels first in the graph's eyes, as it is channels last; and a value channels last seen
// channels first.
Node *layout_last(Graph *g, Node *x);
Node *layout_first(Graph *g, Node *y, int rank);
bool layout_is_converted(const Node *x);  // a value channels last seen channels first
// Nothing moves in memory between the two orders.
bool layout_same_bytes(const Type *t);

#endif
