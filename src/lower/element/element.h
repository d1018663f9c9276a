// element.h -- one element of a value as an expression: how templates read the nodes of a kernel.
//
// elem_at(e, node, index) is the element of a node's result at an index, in terms of the kernel's
// arguments: the point-wise and movement nodes between are taken into the expression.  What an
// index map leaves out (padding, the other parts of a concatenation) is guarded: nothing outside a
// buffer is ever read.  Statements that an element needs (an index read from data) go where the
// builder stands.
//
// Values that a template computes itself (a contraction's sum, a row's mean) are given with
// elem_give: elem_at takes them from there.
#ifndef TENON_LOWER_ELEMENT_ELEMENT_H
#define TENON_LOWER_ELEMENT_ELEMENT_H

#include "lower/lower.h"

enum { ELEM_ARGS = 256, ELEM_GIVEN = 64 };

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
  int rank, nguards;  // with so many guards,
  Dim guard;          // the last of them this one: then all are the same
  const LoopExpr *expr;
} ElemMemo;

typedef struct ElemNamed {
  Dim size, as;  // of the graph, and what it is in the kernel
} ElemNamed;

typedef struct ElementBuilder {
  Lowering *lo;
  const Node *fused;
  const Body *body;
  Arena *a;
  LoopKernel *k;
  LoopBuilder b;
  IntPool *pool;         // the kernel's
  VEC(Dim) graph_dim;    // symbols of the graph, by the kernel's dim
  VEC(ElemNamed) named;  // sizes that are dims of their own, and what follows of others
  VEC(LowerArg) arg;
  IntMap buffer;  // node id -> argument
  ElemGive give[ELEM_GIVEN];
  int ngive;
  LoopBound guard[LOOP_GUARDS];  // hold for everything that is read now
  int nguards;
  int nidle;  // so many of them, the first, say which lanes are stored: a load whose place does not
              // depend on one is done in every lane
  VEC(ElemMemo) memo;
  Dim flat;  // all values that are read lie alike: every one of more than one element is read here;
             // NULL: by index
  int depth;
} ElementBuilder;

// Declares an argument for every operand, constant and result that holds elements, but for the
// nodes in `skip` (those that the template packs).  False when a dtype or size is not for kernels,
// or there are too many.
bool elem_begin(ElementBuilder *e, Lowering *lo, const Node *fused, const Node *const *skip,
                int nskip);
// Another argument, declared before anything else but arguments: a packed weight.
int32_t elem_packed(ElementBuilder *e, const Node *constant, const PackSpec *pack,
                    const char *name);
// Likewise a constant that the template made.
int32_t elem_constant(ElementBuilder *e, const Node *constant, const char *name);
int32_t elem_result(const ElementBuilder *e, int i);  // the argument that result i is written to
int32_t elem_buffer(const ElementBuilder *e,
                    const Node *n);  // the argument that a parameter or constant is, or -1
Dim elem_dim(ElementBuilder *e, Dim graph_dim);  // in the kernel's terms; poison where it has none
Dim elem_own_dim(ElementBuilder *e,
                 Dim graph_dim);  // as a dim of the kernel, whatever it is made of
// named_sizes.c: finds sizes that are quotients, and gives a size by these.  `own`: as a dim of its
// own, unless it is one of them.
void elem_name_sizes(ElementBuilder *e);
Dim elem_named_dim(ElementBuilder *e, Dim graph_dim, bool own);
void elem_shape(ElementBuilder *e, const Type *t, Dim *out);
bool elem_inside(const ElementBuilder *e, Dim x,
                 Dim extent);  // whether 0 <= x < extent is known here
// How many rows to choose a schedule for: where their number is open, what the lowering is asked
// for, or `some`.
int64_t elem_rows(const ElementBuilder *e, Dim rows, int64_t some);
Dim elem_linear(ElementBuilder *e, int rank, const Dim *shape, const Dim *index);  // row-major
void elem_split(ElementBuilder *e, Dim linear, int rank, const Dim *shape,
                Dim *index);  // its inverse
void elem_give(ElementBuilder *e, const Node *n, ElemGiven *fn, void *ctx);
// NULL when a node on the way has no expression.  `index` has the rank of the node's type.
const LoopExpr *elem_at(ElementBuilder *e, const Node *n, const Dim *index);
// Forgets expressions, because the loop around changes; what was given stays.
void elem_forget(ElementBuilder *e);
// Stores result i at an index.  False as elem_at gives NULL.
bool elem_store(ElementBuilder *e, int i, const Dim *index);
// The kernel is whole.
void elem_finish(ElementBuilder *e, Lowered *out);

// The expansion of a composite; composites of 16-bit floats are expanded in f32, and rounded once.
// False: it has none.
bool elem_expand(Graph *g, Arena *a, const Node *n, Node **out);

bool elem_dtype(DType t);  // whether kernels hold such elements
// Those of a target: fp8 too, where it has fp8 tensor cores.  They are moved, converted and
// multiplied, no more.
bool elem_has_dtype(const ElementBuilder *e, DType t);
bool elem_fp8(DType t);
// The operand's element for a result's index, by broadcasting.
const LoopExpr *elem_operand(ElementBuilder *e, const Node *o, const Type *result,
                             const Dim *index);
const LoopExpr *elem_clamped(LoopKernel *k, const LoopExpr *x, double lo, double hi);  // NaN: lo
// A clamped x to the nearest integer, plus zero, which t holds.
const LoopExpr *elem_rounded(LoopKernel *k, const LoopExpr *x, int64_t zero, DType t);
const LoopExpr *elem_number(ElementBuilder *e, DType t, double v);  // of any dtype
DType elem_sum_dtype(DType t);  // sums of 16-bit floats are formed in f32 and rounded once

// ---- guards ---- From here on an index along an axis is known to lie in [0, extent), until
// elem_unguard: what it is called inside.  NULL when there are too many guards.  No guard is made
// where none is needed.
Dim elem_guard(ElementBuilder *e, Dim value, Dim extent);
// The same also where it is in range: the verifier reads the index off as one number.
Dim elem_named(ElementBuilder *e, Dim value, Dim extent);
void elem_unguard(ElementBuilder *e, int nguards);  // back to so many
// The value where the guards from `since` on hold, else another.  Called before elem_unguard.
const LoopExpr *elem_guarded(ElementBuilder *e, int since, const LoopExpr *value,
                             const LoopExpr *other);
bool type_is_empty(const Type *t);                         // no elements at all
const LoopExpr *elem_holds(ElementBuilder *e, int since);  // bool: the guards from `since` on
const LoopExpr *elem_in_range(ElementBuilder *e, Dim value,
                              Dim extent);  // bool: 0 <= value < extent
// An index in terms of loop variables alone, as a value needs it: a guard's symbol stands only
// inside a load.
Dim elem_unguarded(ElementBuilder *e, Dim index);
// cuts.c: ends of the parts of an axis of `size` elements within which no guard is open, for the
// elements of value[0..nres), which have one shape; gives their number.  `cut` has room for
// ELEM_CUTS + 2.
enum { ELEM_CUTS = 4 };
int elem_cuts(const ElementBuilder *of, const Node *const *value, int axis, int64_t size,
              int64_t *cut);
// All places inside the axis between which no guard is open; 0: none, or ELEM_BORDERS and more.
enum { ELEM_BORDERS = 16 };
int elem_borders(const ElementBuilder *of, const Node *const *value, int axis, int64_t size,
                 int64_t *at);
// move.c: one step of an index map; false when n is not one.
bool elem_moves(const Node *n);
const LoopExpr *elem_move(ElementBuilder *e, const Node *n, int result, const Dim *index);
bool elem_is_view(const Node *n);      // the same elements in the same order
const Node *elem_core(const Node *n);  // below views and transpositions
// Where the element of elem_core(n) at an index lies in n: its number, and its index in `out`.
Dim elem_place(ElementBuilder *e, const Node *n, const Dim *index, Dim *out);
// The index of the same element under another shape.
void elem_reshape(ElementBuilder *e, int from_rank, const Dim *from, int to_rank, const Dim *to,
                  const Dim *index, Dim *out);
int elem_axis(int64_t axis, int rank);  // counted from the front
// An index (i64) that is checked when the kernel runs.  NULL where guards leave out what may have
// no element 0.
Dim elem_checked(ElementBuilder *e, const LoopExpr *index, Dim extent, const char *message);
// An index that is read from data, made non-negative where it counts from the end, and checked.
Dim elem_bound(ElementBuilder *e, const LoopExpr *read, Dim extent);

// How many taps of a window that begins at `start` lie before `size` (and not before 0, if those do
// not count).
Dim elem_taps_inside(IntPool *p, Dim start, int64_t kernel, int64_t dilation, Dim size,
                     bool from_0);

// ---- elements that are more than an expression of others at the same place (op.c has the table)
// ----
typedef const LoopExpr *ElemOp(ElementBuilder *e, const Node *n, int result, const Dim *index);
ElemOp *elem_op(const Node *n);  // NULL: none
ElemOp elem_max_pool, elem_average_pool, elem_lp_pool, elem_lrn, elem_resize, elem_sample;
ElemOp elem_einsum;
ElemOp elem_quantize, elem_dequantize, elem_is_inf, elem_bit_cast, elem_dropout;

#endif
