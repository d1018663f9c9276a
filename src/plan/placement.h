// placement.h -- which of two machines runs each kernel of a fused graph.
//
// A kernel takes a machine the time to start it, and the longer of its operations and its bytes; a
// value that is made on one machine and read on the other takes a copy, once for all readers.  The
// cheapest assignment of a body is a minimum cut (base/min_cut.h): exact for these costs, which are
// a model: machines work one after the other.  What the host evaluates, parameters and results are
// machine 0's; constants are everywhere; a view is where what it shows is.
#ifndef TENON_PLAN_PLACEMENT_H
#define TENON_PLAN_PLACEMENT_H

#include "cost/cost.h"

typedef struct AssignMachine {
  double flops, bytes;  // a second
  double start;         // seconds
} AssignMachine;
typedef struct AssignCosts {
  AssignMachine machine[2];
  double link, copy;  // between them: bytes a second; seconds that a copy takes besides
} AssignCosts;
// Where a kernel must go, 0 or 1; -1: where it is cheapest.  Called once for each, in the order of
// the body.
typedef int AssignForced(void *ctx, const Node *fused);
struct Assignment {
  IntMap machine;  // id of each kernel, of all bodies -> 0 or 1
  int64_t n[2];    // kernels on each
};
typedef struct Assignment Assignment;
void assign_kernels(Graph *g, const DimBinding *sizes, const AssignCosts *c, AssignForced *forced,
                    void *ctx, Arena *a, Assignment *out);
int assigned_to(const Assignment *x, const Node *n);  // 0 where it is no kernel

// Costs in sixteenths of a nanosecond, as the cut has them.
int64_t assign_kernel_cost(const AssignMachine *m, const NodeCost *c);
int64_t assign_copy_cost(const AssignCosts *c, int64_t bytes);

#endif
