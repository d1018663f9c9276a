// convert.c -- which nodes can be computed channels last, and the same node in that order.
//
// Element-wise ops take any order that their operands share; ops along axes have their axes
// renamed; channel-aware ops have an attribute (ops/order.h).  Everything else stays channels
// first.
//
// Needs:      a node whose operands are channels first, or transposes of channels-last values.
// Guarantees: the same numbers in the same order of summation, unless FAST_REASSOC allows a
//             reduction over channels and space together to run in memory order.
#include "eval/image.h"
#include "eval/index.h"
#include "eval/quant.h"
#include "eval/reduce.h"
#include "passes/choose_layout/choose_layout.h"
#include "rules/shape.h"

static bool is_pointwise(const Node *n) {
  unsigned flags = op_info(n->op)->flags;
  return n->nres == 1 && flags & OPF_ELEMENTWISE && !(flags & (OPF_RANDOM | OPF_HOST));
}

static bool ranked(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank >= 3 && t->dtype && t->dtype != DT_STRING;
}

static bool is_perm(const Node *n, bool last) {
  int64_t perm[MAX_RANK], want[MAX_RANK];
  int rank = transpose_perm(n, perm);
  if (rank < 3) return false;
  if (last)
    order_last(ORDER_DATA, rank, want);
  else
    order_first(ORDER_DATA, rank, want);
  return !memcmp(perm, want, sizeof *perm * (size_t)rank);
}

bool layout_same_bytes(const Type *t) {
  bool points = true;
  for (int i = 2; i < t->rank; i++) points &= ie_is(t->dims[i], 1);
  return points || ie_is(t->dims[1], 1);
}

Node *layout_first(Graph *g, Node *y, int rank) {
  int64_t perm[MAX_RANK];
  order_first(ORDER_DATA, rank, perm);
  return transpose_to(g, y, rank, perm);
}

bool layout_is_converted(const Node *x) {
  return x->op == OP_transpose && !is_materialized(x) && is_perm(x, false);
}

Node *layout_last(Graph *g, Node *x) {
  int64_t perm[MAX_RANK];
  if (layout_is_converted(x)) return x->src[0];
  int rank = type_of(x)->rank;
  order_last(ORDER_DATA, rank, perm);
  return transpose_to(g, x, rank, perm);
}

// ---- roles ----

static const AttrDesc *axis_attr(const Node *n) {
  const OpInfo *op = op_info(n->op);
  for (int i = 0; i < op->nattrs; i++)
    if (!strcmp(op->attrs[i].name, "axis")) return &op->attrs[i];
  return NULL;
}

static int64_t axis_value(const Node *n) {
  return *(const int64_t *)((const char *)n->attrs + axis_attr(n)->offset);
}

// Without these axes the others come in the same order, or as a tensor that has two orders itself.
static LayoutRole left_over(const bool *gone, int rank) {
  int space = 0;
  for (int i = 2; i < rank; i++) space += !gone[i];
  if (gone[0]) return LR_FIXED;
  return gone[1] || !space ? LR_SINK : LR_FREE;
}

static LayoutRole reduce_role(Graph *g, const Node *n, unsigned fast) {
  const reduce_attrs *at = n->attrs;
  Ints axes;
  bool gone[MAX_RANK] = {false}, space = false;
  int rank = type_of(n->src[0])->rank;
  if (n->nsrc != 2 || !node_ints(g, n->src[1], &axes) || !axes.n) return LR_FIXED;
  for (int64_t i = 0; i < axes.n; i++) gone[axis_of(axes.v[i], rank)] = true;
  for (int i = 2; i < rank; i++) space |= gone[i];
  bool ordered = n->op != OP_reduce_max && n->op != OP_reduce_min;
  if (space && gone[1] && ordered && !(fast & FAST_REASSOC)) return LR_FIXED;
  return at->keepdims ? LR_FREE : left_over(gone, rank);
}

static LayoutRole arg_role(const Node *n) {
  bool gone[MAX_RANK] = {false};
  int rank = type_of(n->src[0])->rank;
  if (((const arg_attrs *)n->attrs)->keepdims) return LR_FREE;
  gone[axis_of(axis_value(n), rank)] = true;
  return left_over(gone, rank);
}

static LayoutRole quant_role(const Node *n) {
  int64_t block = n->op == OP_quantize_linear
                      ? ((const quantize_linear_attrs *)n->attrs)->block_size
                      : ((const dequantize_linear_attrs *)n->attrs)->block_size;
  int rank = type_of(n->src[1])->rank;
  return rank == 0 || (rank == 1 && !block) ? LR_FREE : LR_FIXED;
}

static bool keeps_channels(const Node *n) {
  const Type *from = type_of(n->src[0]), *to = type_of(n);
  return ranked(n) && from->dims[0] == to->dims[0] && from->dims[1] == to->dims[1];
}

static LayoutRole transpose_role(const Node *n) {
  if (is_materialized(n)) return LR_FIXED;
  if (is_perm(n, true)) return LR_TO_LAST;  // of rank 3 both are the same: turning two axes
  return is_perm(n, false) ? LR_TO_FIRST : LR_FIXED;
}

static bool has_axes(Graph *g, const Node *n, uint32_t i) {
  Ints axes;
  const Node *s = src_or_null(g, n, i);
  if (s) return node_ints(g, s, &axes);
  // Without axes the numbers speak of the first ones.
  return ie_is_const(type_of(n->src[1])->dims[0]);
}

LayoutRole layout_role(Graph *g, const Node *n, unsigned fast) {
  Ints v;
  if (!n->nsrc || !ranked(n->src[0])) {
    // An element-wise op may have its tensor further on: where(number, x, y).
    return is_pointwise(n) && ranked(n) && type_of(n)->rank >= 3 ? LR_FREE : LR_FIXED;
  }
  if (is_pointwise(n)) return ranked(n) ? LR_FREE : LR_FIXED;
  switch ((OpLayout)op_info(n->op)->layout) {
  case LAYOUT_FIXED: return LR_FIXED;
  case LAYOUT_AWARE: return n->nres == 1 && !node_channels_last(n) ? LR_AWARE : LR_FIXED;
  case LAYOUT_AXIS:
    if (n->op == OP_gather && type_of(n->src[1])->rank != 1) return LR_FIXED;
    return LR_FREE;
  case LAYOUT_ARG: return arg_role(n);
  case LAYOUT_QUANT: return quant_role(n);
  case LAYOUT_REDUCE: return reduce_role(g, n, fast);
  case LAYOUT_SLICE: return has_axes(g, n, 3) ? LR_FREE : LR_FIXED;
  case LAYOUT_RESIZE: return LR_FREE;
  case LAYOUT_TILE: return node_ints(g, n->src[1], &v) ? LR_FREE : LR_FIXED;
  case LAYOUT_RESHAPE: return keeps_channels(n) ? LR_FREE : LR_FIXED;
  case LAYOUT_TRANSPOSE: return transpose_role(n);
  }
  return LR_FIXED;
}

bool layout_follows(const Graph *g, const Node *n, uint32_t i) {
  if (n->src[i] == g->none || n->src[i]->op == OP_const) return false;
  if (is_pointwise(n)) return type_of(n->src[i])->rank == type_of(n)->rank;
  return i == 0 || n->op == OP_concat;
}

// ---- the same node, channels last ----

// An operand that broadcasts, under all axes.
static Node *broadcast_last(Graph *g, Node *v, int rank) {
  const Type *t = type_of(v);
  Dim dims[MAX_RANK], n = type_numel(g, t);
  if (n && ie_is(n, 1)) return v;
  for (int i = 0; i < rank; i++)
    dims[i] = i < rank - t->rank ? g->dims.one : t->dims[i - (rank - t->rank)];
  Node *whole = reshape_to(g, v, type_tensor(g, t->dtype, rank, dims));
  return whole ? layout_last(g, whole) : NULL;
}

static Node *pointwise_last(Graph *g, const Node *n) {
  Node *src[8];
  int rank = type_of(n)->rank;
  if (n->nsrc > ARRAY_LEN(src)) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = n->src[i];
    if (src[i] == g->none) continue;
    src[i] =
        type_of(src[i])->rank == rank ? layout_last(g, src[i]) : broadcast_last(g, src[i], rank);
    if (!src[i]) return NULL;
  }
  return node_with(g, n, src);
}

static Node *aware_last(Graph *g, const Node *n) {
  Node *src[16];
  int64_t perm[MAX_RANK];
  const ContractionInfo *conv = op_contraction(n);
  if (n->nsrc > ARRAY_LEN(src)) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = n->src[i];
  src[0] = layout_last(g, src[0]);
  if (conv) {
    Node **w = &src[conv->rhs];
    int rank = type_of(*w)->rank;
    if (rank < 0) return NULL;
    order_last(conv->form == CF_CONV ? ORDER_CONV : ORDER_CONV_TRANSPOSE, rank, perm);
    *w = transpose_to(g, *w, rank, perm);
  }
  ArenaMark m = arena_mark(&g->scratch);
  Node *y =
      node_new(g, n->op, (int)n->nsrc, src, attrs_with_order(&g->scratch, n, true), 1, n->name);
  arena_reset(&g->scratch, m);
  return y;
}

// n over other operands, along another axis.
static Node *along_axis(Graph *g, const Node *n, Node *const *src, int64_t axis) {
  const OpInfo *op = op_info(n->op);
  ArenaMark m = arena_mark(&g->scratch);
  char *at = arena_dup(&g->scratch, n->attrs, op->attrs_size);
  *(int64_t *)(at + axis_attr(n)->offset) = axis;
  Node *y = node_new(g, n->op, (int)n->nsrc, src, at, n->nres, n->name);
  arena_reset(&g->scratch, m);
  return y;
}

static Node *axis_last(Graph *g, const Node *n, const int64_t *place, int rank) {
  ArenaMark m = arena_mark(&g->scratch);
  Node **src = arena_array(&g->scratch, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++)
    src[i] = i == 0 || n->op == OP_concat ? layout_last(g, n->src[i]) : n->src[i];
  int axis = axis_of(axis_value(n), rank);
  Node *y = axis < 0 ? NULL : along_axis(g, n, src, place[axis]);
  arena_reset(&g->scratch, m);
  return y;
}

static Node *reduce_last(Graph *g, const Node *n, const int64_t *place, int rank) {
  Ints axes;
  int64_t own[MAX_RANK];
  if (!node_ints(g, n->src[1], &axes) || axes.n > rank) return NULL;
  for (int64_t i = 0; i < axes.n; i++) own[i] = place[axis_of(axes.v[i], rank)];
  return node_with(g, n, (Node *[]){layout_last(g, n->src[0]), node_i64s(g, axes.n, own)});
}

// slice and pad: axes as they are then, in the order of the other numbers.
static Node *slice_last(Graph *g, const Node *n, const int64_t *place, int rank) {
  Ints axes = {0};
  int64_t own[MAX_RANK];
  Node *given = src_or_null(g, n, 3), *src[5];
  if (given && (!node_ints(g, given, &axes) || axes.n > rank)) return NULL;
  int64_t count = given ? axes.n : n->op == OP_pad ? rank : type_of(n->src[1])->dims[0]->value;
  if (count > rank) return NULL;
  for (int64_t i = 0; i < count; i++) {
    int axis = given ? axis_of(axes.v[i], rank) : (int)i;
    if (axis < 0) return NULL;
    own[i] = place[axis];
  }
  for (uint32_t i = 0; i < 5; i++) src[i] = i < n->nsrc ? n->src[i] : g->none;
  src[0] = layout_last(g, src[0]);
  src[3] = node_i64s(g, count, own);
  return node_new(g, n->op, (int)MAX(n->nsrc, 4), src, n->attrs, 1, n->name);
}

static Node *resize_last(Graph *g, const Node *n, const int64_t *place, int rank) {
  resize_attrs at = *(const resize_attrs *)n->attrs;
  int64_t own[MAX_RANK];
  Node *src[8];
  if (at.axes.n > rank || n->nsrc > ARRAY_LEN(src)) return NULL;
  int64_t count = at.axes.n ? at.axes.n : rank;
  for (int64_t i = 0; i < count; i++)
    own[i] = place[at.axes.n ? axis_of(at.axes.v[i], rank) : (int)i];
  at.axes = (Ints){count, own};
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = n->src[i];
  src[0] = layout_last(g, src[0]);
  return node_new(g, n->op, (int)n->nsrc, src, &at, 1, n->name);
}

static Node *tile_last(Graph *g, const Node *n, const int64_t *place, int rank) {
  Ints times;
  int64_t own[MAX_RANK];
  if (!node_ints(g, n->src[1], &times) || times.n != rank) return NULL;
  for (int i = 0; i < rank; i++) own[place[i]] = times.v[i];
  return N(g, tile, layout_last(g, n->src[0]), node_i64s(g, rank, own));
}

static Node *quant_last(Graph *g, const Node *n, const int64_t *place, int rank) {
  if (type_of(n->src[1])->rank == 1) return axis_last(g, n, place, rank);
  Node *src[3] = {layout_last(g, n->src[0]), n->src[1], n->nsrc > 2 ? n->src[2] : g->none};
  return node_with(g, n, src);
}

static Node *reshape_last(Graph *g, const Node *n) {
  const Type *t = type_of(n);
  int64_t perm[MAX_RANK];
  Dim dims[MAX_RANK];
  order_last(ORDER_DATA, t->rank, perm);
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[perm[i]];
  return reshape_to(g, layout_last(g, n->src[0]), type_tensor(g, t->dtype, t->rank, dims));
}

Node *layout_convert(Graph *g, Node *n) {
  int64_t place[MAX_RANK];
  if (is_pointwise(n)) return pointwise_last(g, n);
  int rank = type_of(n->src[0])->rank;
  order_first(ORDER_DATA, rank, place);
  switch ((OpLayout)op_info(n->op)->layout) {
  case LAYOUT_AWARE: return aware_last(g, n);
  case LAYOUT_AXIS:
  case LAYOUT_ARG: return axis_last(g, n, place, rank);
  case LAYOUT_QUANT: return quant_last(g, n, place, rank);
  case LAYOUT_REDUCE: return reduce_last(g, n, place, rank);
  case LAYOUT_SLICE: return slice_last(g, n, place, rank);
  case LAYOUT_RESIZE: return resize_last(g, n, place, rank);
  case LAYOUT_TILE: return tile_last(g, n, place, rank);
  case LAYOUT_RESHAPE: return reshape_last(g, n);
  case LAYOUT_FIXED:
  case LAYOUT_TRANSPOSE: return NULL;
  }
  return NULL;
}
