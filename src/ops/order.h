// order.h -- inference and expansion of channels-last ops by their channels-first forms
// (eval/order.h).
#ifndef TENON_OPS_ORDER_H
#define TENON_OPS_ORDER_H

#include "eval/order.h"
#include "ir/opinfo.h"

// Whether a node is computed channels last; false for ops that know no channels.
bool node_channels_last(const Node *n);
// The node's attributes with the other order, in the given arena; the op must have the attribute.
const void *attrs_with_order(Arena *a, const Node *n, bool channels_last);

MUST_USE tenon_status infer_last(Infer *in, InferFn *first, int w, OrderKind k);
// The channels-first node between two transposes.
void expand_last(Graph *g, const Node *n, Node **out);

#define INFER_ORDERED(op, attrs_type, w, kind)                                                     \
  static tenon_status infer_##op(Infer *in) {                                                      \
    const attrs_type *order_at = in->attrs;                                                        \
    return order_at->channels_last ? infer_last(in, first_##op, w, kind) : first_##op(in);         \
  }

#endif
