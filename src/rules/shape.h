// shape.h -- building movement nodes in the one form that rules look for.
#ifndef TENON_RULES_SHAPE_H
#define TENON_RULES_SHAPE_H

#include "eval/movement.h"
#include "ir/rule.h"

// x with the type t's dimensions by one reshape with a constant shape: plain sizes, 0 for a size
// that stays in its place, else `into`.  x itself where nothing changes; NULL where no such reshape
// exists.
Node *reshape_to(Graph *g, Node *x, const Type *t);

// x with its axes in another order; x itself for the identity.
Node *transpose_to(Graph *g, Node *x, int rank, const int64_t *perm);
// The axes of a transpose, non-negative, its default written out; the rank, or -1 when it is not
// known.
int transpose_perm(const Node *n, int64_t *perm);
bool is_materialized(const Node *n);       // a transpose that a pass asked a kernel for
bool is_movable_transpose(const Node *n);  // one that rules may move, merge and drop
void perm_inverse(int rank, const int64_t *perm, int64_t *out);

// One contiguous part along an axis: x[..., start : end, ...] with a step.
Node *slice_axis(Graph *g, Node *x, int64_t axis, int64_t start, int64_t end, int64_t step);
// An axis made non-negative; -1 when it does not fit the rank.
int axis_of(int64_t axis, int rank);

// What a slice picks.
typedef struct Box {
  int rank;
  bool cut[MAX_RANK];  // is sliced along this axis
  int64_t start[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
} Box;
// Along axes of constant size, with constant bounds; false for other slices.
bool slice_box(Graph *g, const Node *n, Box *out);

// A copy of n over other operands, its attributes kept.
Node *node_with(Graph *g, const Node *n, Node *const *src);

#endif
