// sign.c -- follows what cannot be negative: squares, absolute values, exponentials, counts, and
// what is made of them.
//
// Integers are followed only where nothing can wrap.
#include "rules/sign.h"

#include "rules/affine.h"
#include "rules/shape.h"

static bool constant(Graph *g, const Node *n) {
  const Value *v = node_known(g, n);
  if (!v || v->n < 1 || v->n > 65536) return false;
  for (int64_t i = 0; i < v->n; i++)
    if (!(val_f64(v, i) >= 0)) return false;
  return true;
}

static bool at_depth(Graph *g, const Node *n, int depth);

static bool all(Graph *g, const Node *n, int depth) {
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (!at_depth(g, n->src[i], depth)) return false;
  return n->nsrc > 0;
}

static bool of_float(Graph *g, const Node *n, int depth) {
  double lo;
  switch (n->op) {
  case OP_abs:
  case OP_relu:
  case OP_exp:
  case OP_sigmoid:
  case OP_sqrt:
  case OP_softplus:
  case OP_softmax:
  case OP_hard_sigmoid:
  case OP_reduce_sum_square:
  case OP_reduce_l1:
  case OP_reduce_l2: return true;
  case OP_mul: return n->src[0] == n->src[1] || all(g, n, depth);
  case OP_add:
  case OP_div:
  case OP_min:
  case OP_concat: return all(g, n, depth);
  case OP_max: return at_depth(g, n->src[0], depth) || at_depth(g, n->src[1], depth);
  case OP_clip: {
    const Node *low = src_or_null(g, n, 1);
    return low && node_splat(g, low, &lo) && lo >= 0;
  }
  case OP_reduce_sum:
  case OP_reduce_mean:
  case OP_reduce_max:
  case OP_reduce_min:
  case OP_max_pool:
  case OP_average_pool:
  case OP_global_average_pool:
  case OP_reshape:
  case OP_transpose:
  case OP_slice:
  case OP_expand: return n->nres == 1 && at_depth(g, n->src[0], depth);
  case OP_cast: return at_depth(g, n->src[0], depth);
  default: return false;
  }
}

// The least value of base + sum of stride times index.
static bool counted(Graph *g, const Node *n) {
  Affine f;
  if (!node_affine(g, n, &f) || f.base->lo < 0) return false;
  for (int i = 0; i < f.rank; i++)
    if (f.stride[i]->lo < 0) return false;
  return true;
}

static bool of_int(Graph *g, const Node *n, int depth) {
  switch (n->op) {
  case OP_arg_max:
  case OP_arg_min:
  case OP_shape:
  case OP_size: return true;
  case OP_cast: {
    DType from = type_of(n->src[0])->dtype;
    return from == DT_BOOL || (dtype_class(from) == DC_UINT && dtype_bits(from) < 32);
  }
  case OP_reshape:
  case OP_transpose:
  case OP_slice:
  case OP_expand: return at_depth(g, n->src[0], depth);
  default: return counted(g, n);
  }
}

static bool at_depth(Graph *g, const Node *n, int depth) {
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank < 0 || !depth) return false;
  if (dtype_class(t->dtype) == DC_UINT || t->dtype == DT_BOOL) return true;
  if (constant(g, n)) return true;
  return dtype_is_float(t->dtype) ? of_float(g, n, depth - 1) : of_int(g, n, depth - 1);
}

bool node_not_negative(Graph *g, const Node *n) { return at_depth(g, n, 8); }
