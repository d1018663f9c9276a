// plan.h -- the order in which a graph's nodes run, and where their results lie in one arena.
//
// Buffers.  Every result whose size follows from the inputs' sizes has a place in the arena; what
// is known only while running (data-dependent sizes, strings, sequences) lives on the heap.  A view
// shares the buffer it looks at; a point-wise kernel may write over an operand that dies with it,
// and where all kernels have MMA (Graph.traits) a product over a term that is added to it.  The
// operands of a concat are made in place, as parts of the result's buffer.
//
// Steps.  Nodes that compute something run one after another, each a step, but for kernels that are
// too small to fill the threads and need nothing of one another: several are one step
// (concurrent.c), and all that they read and make is alive together.
//
// Offsets.  Packing is done once, at reference sizes; what it decides is which of two buffers that
// live at the same time lies below the other.  At run time offsets follow from the real sizes: each
// buffer begins where the highest one below it ends.  So another shape needs no new plan.
//
// States (ir/state.c) are the caller's memory or the session's: what is a version of one has no
// buffer.  A node that writes a state is a step of its own, after all that read the version before.
//
// Invariant (plan_verify): buffers that share no memory on purpose and live at the same time never
// overlap.
#ifndef TENON_PLAN_PLAN_H
#define TENON_PLAN_PLAN_H

#include "cost/cost.h"
#include "ir/interpret.h"

enum { PLAN_ALIGN = 64, PLAN_CONCURRENT_MAX = 8 };

typedef struct PlanBuffer {
  const Node *node;
  int result;
  Dim bytes;            // rounded up to PLAN_ALIGN
  int32_t first, last;  // steps: made at first, read last at last
  int32_t position;     // of the node in the plan's order
  int32_t root;         // the buffer whose memory it uses: itself, unless a view or in place
  // of a root: the lives of all that share it or lie in it, and its place
  int32_t live_first, live_last;
  int64_t size, offset;  // at the reference sizes
  int32_t within;  // the joined value in whose memory it is a part; -1: in none, it has a place of
                   // its own
  Dim at;          // where in it
  const int32_t *below;  // with a place of its own: those that must end before this one begins
  int32_t nbelow;
} PlanBuffer;

typedef struct MemPlan {
  Graph *g;
  Arena *arena;
  NodeList order;
  const bool
      *concurrent;  // by position: in the step of the node before; NULL: every step is one node
  int32_t nsteps;
  PlanBuffer *buffer;
  int32_t n;
  IntMap index;  // node id and result -> buffer
  // By node id, of the first `nnodes`: the state that its result is a version of; NULL: none.
  const Node *const *state;
  int64_t nnodes;
  int32_t *by_offset;  // roots that have a place of their own, lowest first
  int32_t nroots;
  DimBinding reference;
  int64_t arena_bytes;  // at the reference sizes
  int64_t bound_bytes;  // the largest sum of bytes alive at one time in this order: no arena can be
                        // smaller
  int64_t import_bytes;                   // the same in the order of the model's file
  int64_t nviews, ninplace, nconcurrent;  // nbeside: nodes in steps with others
  int64_t ncopies;  // joined values whose parts could not be made in them; never of a graph that
                    // fusion made
} MemPlan;

// The plan lives in `a` and refers to the graph.
MUST_USE tenon_status plan_create(Graph *g, Arena *a, MemPlan **out);
// Has memory of its own: no other value's, nor a part of it.
static inline bool plan_has_place(const MemPlan *p, int32_t b) {
  return p->buffer[b].root == b && p->buffer[b].within < 0;
}
// Whether the node at this position runs concurrently with the one before.
static inline bool plan_is_concurrent(const MemPlan *p, int64_t position) {
  return p->concurrent && p->concurrent[position];
}
// The state, a parameter, whose memory the node's result has; NULL: it has its own.
static inline const Node *plan_state(const MemPlan *p, const Node *n) {
  return p->state && n->id < p->nnodes ? p->state[n->id] : NULL;
}
// Can a concat's operands be made in its buffer?  Its axis is the outermost, and all parts begin
// aligned.
bool plan_can_join(Graph *g, const Node *concat);
// Offsets of all roots (by buffer number) at these sizes, and the arena's size.  False when a size
// is not known or does not fit.
bool plan_layout(const MemPlan *p, const int64_t *bind, const bool *bound, int32_t nbind,
                 int64_t *offset, int64_t *size, int64_t *total);
// Finds lives anew, from the graph and the order alone, and checks the invariant at the reference
// sizes and at others.
MUST_USE tenon_status plan_verify(const MemPlan *p, Diag *d);
// Runs the graph in the planned order, every buffer at its planned offset, all other memory
// poisoned.
MUST_USE tenon_status plan_run(const MemPlan *p, Run *run, Value *const *inputs, Value **out);
int32_t plan_find(const MemPlan *p, const Node *n, int result);  // -1: on the heap

#endif
