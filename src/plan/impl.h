// impl.h -- what the files of the memory plan share.
#ifndef TENON_PLAN_IMPL_H
#define TENON_PLAN_IMPL_H

#include "plan/plan.h"

const Node *plan_source(const Node *operand, int *result);  // through projections
int plan_view_operand(const Node *n);  // the operand that a node shows under another shape, or -1
// The concat of a node whose parts are made in its buffer and are parameters of the node's body;
// NULL: it is none.
const Node *plan_joined(const Node *n, const Body **out_body);
int plan_part_operand(const Body *b, const Node *concat, uint32_t part);  // of the node
bool plan_is_step(const Graph *g, const Node *n);
// Another order of the same nodes: depth first from the results, the operand that needs most memory
// first.
NodeList plan_order_deep(Graph *g, NodeList by_id, Arena *a);
bool plan_is_kernel(const Node *n);  // may run beside others
// The plan's order with concurrent kernels next to one another, each with what is found within
// `reach` steps after it.  *beside, by position: the node belongs to the step of the one before;
// NULL, with the same order, where there are none.
NodeList plan_order_concurrent(const MemPlan *p, int reach, Arena *a, const bool **concurrent);
// Whether the memory of two buffers is the same in part: one root, or the one made inside the
// other.
bool plan_meets(const MemPlan *p, int32_t x, int32_t y);
// A set of ranks 0 .. n-1.  The neighbours of a rank, which need not be in the set itself: -1 when
// there is none.
typedef struct RankSet {
  uint64_t *level[6];
  int nlevels;
} RankSet;
void rankset_init(RankSet *s, Arena *a, int32_t n);
void rankset_add(RankSet *s, int32_t rank);
void rankset_remove(RankSet *s, int32_t rank);
int32_t rankset_below(const RankSet *s, int32_t rank);
int32_t rankset_above(const RankSet *s, int32_t rank);

// Free bytes of an arena without end.  `take` finds the lowest gap with room; each buffer is taken
// and given back once.
typedef struct Gap Gap;
typedef struct GapTree {
  Gap *gap;
  int32_t n, root;
} GapTree;
void gaptree_init(GapTree *t, Arena *a, int32_t nbuffers);
int64_t gaptree_take(GapTree *t, int64_t size);
void gaptree_give(GapTree *t, int64_t at, int64_t size);

void plan_pack(MemPlan *p);  // offsets at the reference sizes, and who lies below whom

#endif
