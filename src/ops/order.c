// order.c -- inference and expansion of channels-last ops by their channels-first forms.
#include "ops/order.h"

#include "eval/movement.h"

static const AttrDesc *order_attr(const OpInfo *op) {
  for (int i = 0; i < op->nattrs; i++)
    if (!strcmp(op->attrs[i].name, "channels_last")) return &op->attrs[i];
  return NULL;
}

bool node_channels_last(const Node *n) {
  const AttrDesc *d = order_attr(op_info(n->op));
  return d && *(const bool *)((const char *)n->attrs + d->offset);
}

const void *attrs_with_order(Arena *a, const Node *n, bool channels_last) {
  const OpInfo *op = op_info(n->op);
  const AttrDesc *d = order_attr(op);
  CHECK(d, "%s knows no channels", op->name);
  char *at = arena_dup(a, n->attrs, op->attrs_size);
  *(bool *)(at + d->offset) = channels_last;
  return at;
}

static const Type *transposed(Graph *g, const Type *t, const int64_t *perm) {
  Dim dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = t->dims[perm[i]];
  return type_tensor(g, t->dtype, t->rank, dims);
}

tenon_status infer_last(Infer *in, InferFn *first, int w, OrderKind k) {
  Graph *g = in->g;
  int64_t perm[MAX_RANK];
  TRY(infer_need(in, 0, 0));
  if (w) TRY(infer_need(in, w, 0));
  // The channels-first inference reads types alone: it gets operands that differ in nothing else.
  Node x = *in->src[0], weights = *in->src[w];
  const Type *tx = type_of(&x), *tw = type_of(&weights);
  ArenaMark m = arena_mark(&g->scratch);
  Node **src = arena_array(&g->scratch, Node *, in->nsrc);
  for (int i = 0; i < in->nsrc; i++) src[i] = in->src[i];
  if (tx->rank >= 0) {
    order_first(ORDER_DATA, tx->rank, perm);
    tx = transposed(g, tx, perm);
  }
  x.type = &tx;
  src[0] = &x;
  if (w && tw->rank >= 0) {
    order_first(k, tw->rank, perm);
    tw = transposed(g, tw, perm);
  }
  weights.type = &tw;
  if (w) src[w] = &weights;
  Infer inner = *in;
  inner.src = src;
  tenon_status s = first(&inner);
  arena_reset(&g->scratch, m);
  if (s) return s;
  const Type *y = in->type[0];
  if (y->rank < 0) return TENON_OK;
  order_last(ORDER_DATA, y->rank, perm);
  in->type[0] = transposed(g, y, perm);
  return TENON_OK;
}

void expand_last(Graph *g, const Node *n, Node **out) {
  int64_t perm[MAX_RANK];
  int rank = type_of(n->src[0])->rank;
  if (rank < 0) return;
  ArenaMark m = arena_mark(&g->scratch);
  Node **src = arena_array(&g->scratch, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = n->src[i];
  order_first(ORDER_DATA, rank, perm);
  src[0] = NA(g, transpose, (&(transpose_attrs){.perm = {rank, perm}}), n->src[0]);
  Node *y =
      node_new(g, n->op, (int)n->nsrc, src, attrs_with_order(&g->scratch, n, false), n->nres, NULL);
  for (int i = 1; i < n->nres; i++) out[i] = node_proj(g, y, i);
  order_last(ORDER_DATA, rank, perm);
  out[0] = NA(g, transpose, (&(transpose_attrs){.perm = {rank, perm}}), node_proj(g, y, 0));
  arena_reset(&g->scratch, m);
}
