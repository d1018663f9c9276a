// elem.h -- one element of a value as an expression: how templates read the nodes of a kernel.
//
// elem_at(e, node, index) is the element of a node's result at an index, in terms of the kernel's arguments: the
// point-wise and movement nodes between are taken into the expression.  What an index map leaves out (padding, the other parts of a
// concatenation) is guarded: nothing outside a buffer is ever read.  Statements that an element
// needs (an index read from data) go where the builder stands.
//
// Values that a template computes itself (a contraction's sum, a row's mean) are given with elem_give: elem_at
// takes them from there.
#ifndef TENON_LOWER_ELEM_H
#define TENON_LOWER_ELEM_H

#include "lower/lower.h"

enum { ELEM_ARGS = 64, ELEM_GIVEN = 64 };

// A value that the template has: by a function of its index.
typedef const LoopExpr *ElemGiven(void *ctx, const Dim *index);
typedef struct ElemGive {
  const Node *node;
  ElemGiven *fn;
  void *ctx;
} ElemGive;

typedef struct ElemMemo {
  const Node *node;
  const Dim *index;
  int rank;
  const LoopExpr *expr;
} ElemMemo;

typedef struct Elem {
  Lowering *lo;
  const Node *fused;
  const Body *body;
  Arena *a;
  LoopKernel *k;
  LoopBuilder b;
  IntPool *pool;       // the kernel's
  VEC(Dim) graph_dim;  // symbols of the graph, by the kernel's dim
  LowerArg arg[ELEM_ARGS];
  int nargs;
  IntMap buffer;  // node id -> argument
  ElemGive give[ELEM_GIVEN];
  int ngive;
  LoopBound guard[LOOP_GUARDS];  // hold for everything that is read now
  int nguards;
  VEC(ElemMemo) memo;
  Dim flat;  // all values that are read lie alike: every one of more than one element is read here; NULL: by index
  int depth;
} Elem;

// Declares an argument for every operand, constant and result that holds elements, but for the nodes in `skip` (those that
// the template packs).  False when a dtype or size is not for kernels, or there are too many.
bool elem_begin(Elem *e, Lowering *lo, const Node *fused, const Node *const *skip, int nskip);
// Another argument, declared before anything else but arguments: a packed weight.
int32_t elem_packed(Elem *e, const Node *constant, const PackSpec *pack, const char *name);
int32_t elem_result(const Elem *e, int i);  // the argument that result i is written to
int32_t elem_buffer(const Elem *e,
                    const Node *n);    // the argument that a parameter or constant is, or -1
Dim elem_dim(Elem *e, Dim graph_dim);  // in the kernel's terms; poison where it has none
void elem_shape(Elem *e, const Type *t, Dim *out);
Dim elem_linear(Elem *e, int rank, const Dim *shape, const Dim *index);        // row-major
void elem_split(Elem *e, Dim linear, int rank, const Dim *shape, Dim *index);  // its inverse
void elem_give(Elem *e, const Node *n, ElemGiven *fn, void *ctx);
// NULL when a node on the way has no expression.  `index` has the rank of the node's type.
const LoopExpr *elem_at(Elem *e, const Node *n, const Dim *index);
// Forgets expressions, because the loop around changes; what was given stays.
void elem_forget(Elem *e);
// Stores result i at an index.  False as elem_at gives NULL.
bool elem_store(Elem *e, int i, const Dim *index);
// The kernel is whole.
void elem_finish(Elem *e, const char *schedule, Lowered *out);

// From here on, until nguards is set back, what is read is read only where 0 <= value < extent; gives the index to use.
Dim elem_guard(Elem *e, Dim value, Dim extent);
// The index of the same element under another shape; false where the sizes do not tell.
bool elem_reshape(Elem *e, int from_rank, const Dim *from, int to_rank, const Dim *to,
                  const Dim *index, Dim *out);
bool elem_dtype(DType t);  // whether kernels hold such elements
const LoopExpr *elem_in_range(Elem *e, Dim value, Dim extent);  // bool: 0 <= value < extent
// An index in terms of loop variables alone, as a value needs it: a guard's symbol stands only inside a load.
Dim elem_unguarded(Elem *e, Dim index);
// From here on, until nguards is set back, what is read is read only where 0 <= value < extent; gives the index to use.
Dim elem_guard(Elem *e, Dim value, Dim extent);
// The index of the same element under another shape; false where the sizes do not tell.
bool elem_reshape(Elem *e, int from_rank, const Dim *from, int to_rank, const Dim *to,
                  const Dim *index, Dim *out);
// elem_move.c: one step of an index map; false when n is not one.
bool elem_moves(const Node *n);
const LoopExpr *elem_move(Elem *e, const Node *n, int result, const Dim *index);

#endif
