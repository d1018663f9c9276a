// plan_impl.h -- what the files of the memory plan share.
#ifndef TENON_PASSES_PLAN_IMPL_H
#define TENON_PASSES_PLAN_IMPL_H

#include "passes/plan.h"

const Node *plan_source(const Node *operand, int *result);  // through projections
int plan_view_operand(const Node *n);  // the operand that a node shows under another shape, or -1
bool plan_is_step(const Graph *g, const Node *n);
// Another order of the same nodes: depth first from the results, the operand that needs most memory first.
NodeList plan_order_deep(Graph *g, NodeList by_id, Arena *a);
void plan_pack(MemPlan *p);  // offsets at the reference sizes, and who lies below whom

#endif
