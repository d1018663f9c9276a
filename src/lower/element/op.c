// op.c -- the table of ops with an element function of their own, and one_hot, range, eye_like.
//
// elem_op maps an op to its ElemOp.  The three ops of this file read no operand at the result's
// index: they compute the element from the index itself.
//
// Needs:      ranked operands; one_hot has its depth in the result's type.
// Guarantees: elem_op is NULL for every other op.  range computes in f64 for float results and
//             rounds once, as the reference evaluation does.
#include "lower/element/element.h"

#include "eval/generate.h"
#include "eval/index.h"

// ---- values made of nothing ----

static const LoopExpr *elem_one_hot(ElementBuilder *e, const Node *n, int result,
                                    const Dim *index) {
  const one_hot_attrs *a = n->attrs;
  LoopKernel *k = e->k;
  const Type *t = type_of(n), *which = type_of(n->src[0]);
  int axis = elem_axis(a->axis, t->rank);
  Dim at[MAX_RANK];
  (void)result;
  if (which->rank + 1 != t->rank || type_of(n->src[2])->rank != 1) return NULL;
  for (int i = 0, d = 0; i < t->rank; i++)
    if (i != axis) at[d++] = index[i];
  const LoopExpr *hot = elem_at(e, n->src[0], at), *zero = loop_int(k, DT_I64, 0);
  const LoopExpr *off = elem_at(e, n->src[2], (Dim[]){e->pool->zero});
  const LoopExpr *on = elem_at(e, n->src[2], (Dim[]){e->pool->one});
  if (!hot || !on || !off) return NULL;
  const LoopExpr *depth = loop_index(k, elem_dim(e, t->dims[axis]));
  hot = loop_let(&e->b, loop_cast(k, DT_I64, hot));
  hot = loop_op(k, LOOP_select, loop_op(k, LOOP_lt, hot, zero, NULL),
                loop_op(k, LOOP_add, hot, depth, NULL), hot);
  const LoopExpr *own = loop_index(k, elem_unguarded(e, index[axis]));
  return loop_op(k, LOOP_select, loop_op(k, LOOP_eq, hot, own, NULL), on, off);
}

static const LoopExpr *elem_range(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  LoopKernel *k = e->k;
  DType t = type_of(n)->dtype, in = dtype_is_float(t) ? DT_F64 : t;
  const LoopExpr *first = elem_at(e, n->src[0], &e->pool->zero);
  const LoopExpr *step = elem_at(e, n->src[2], &e->pool->zero);
  (void)result;
  if (!first || !step || type_of(n)->rank != 1) return NULL;
  const LoopExpr *i = loop_cast(k, in, loop_index(k, elem_unguarded(e, index[0])));
  i = loop_op(k, LOOP_mul, i, loop_cast(k, in, step), NULL);
  return loop_cast(k, t, loop_op(k, LOOP_add, loop_cast(k, in, first), i, NULL));
}

static const LoopExpr *elem_eye_like(ElementBuilder *e, const Node *n, int result,
                                     const Dim *index) {
  const eye_like_attrs *a = n->attrs;
  LoopKernel *k = e->k;
  DType t = type_of(n)->dtype;
  (void)result;
  if (type_of(n)->rank != 2 || a->k > INT32_MAX || a->k < INT32_MIN) return NULL;
  const LoopExpr *row = loop_index(k, elem_unguarded(e, ie_addc(e->pool, index[0], a->k)));
  const LoopExpr *on = loop_op(k, LOOP_eq, row, loop_index(k, elem_unguarded(e, index[1])), NULL);
  return loop_op(k, LOOP_select, on, elem_number(e, t, 1), elem_number(e, t, 0));
}

// ---- the table ----

ElemOp *elem_op(const Node *n) {
  switch (n->op) {
  case OP_max_pool: return elem_max_pool;
  case OP_average_pool: return elem_average_pool;
  case OP_lp_pool: return elem_lp_pool;
  case OP_lrn: return elem_lrn;
  case OP_resize: return elem_resize;
  case OP_grid_sample:
  case OP_roi_align: return elem_sample;
  case OP_einsum: return elem_einsum;
  case OP_quantize_linear: return elem_quantize;
  case OP_dequantize_linear: return elem_dequantize;
  case OP_is_inf: return elem_is_inf;
  case OP_bit_cast: return elem_bit_cast;
  case OP_dropout: return elem_dropout;
  case OP_one_hot: return elem_one_hot;
  case OP_range: return elem_range;
  case OP_eye_like: return elem_eye_like;
  default: return NULL;
  }
}
