// scatter.c -- template scatter: scatter_elements and scatter_nd, a copy and then the updates.
//
// Two updates may address one element, and the later one counts.  So the kernel is one work item.
//
// Needs:      the op is the kernel's only result; with a reduction no f16, bf16 or bool, which the
//             host evaluates.  The length of an index vector is constant.
// Guarantees: updates are applied in order.  Each index from data is checked when the kernel runs.
#include "lower/element/element.h"
#include "lower/template.h"

#include "eval/index.h"

typedef struct Scatter {
  ElementBuilder e;
  const Node *node;
  int mode;  // ScatterMode
} Scatter;

static bool find_scatter(Scatter *s) {
  const Body *b = s->e.body;
  if (b->nresults != 1) return false;
  s->node = b->result[0];
  if (s->node->op == OP_scatter_elements)
    s->mode = ((const scatter_elements_attrs *)s->node->attrs)->reduction;
  else if (s->node->op == OP_scatter_nd)
    s->mode = ((const scatter_nd_attrs *)s->node->attrs)->reduction;
  else
    return false;
  DType t = type_of(s->node)->dtype;
  for (int i = 0; i < 3; i++)
    if (type_of(s->node->src[i])->rank < 1) return false;
  // Narrow floats would be rounded after every update.
  return s->mode == SCATTER_NONE || (t != DT_F16 && t != DT_BF16 && t != DT_BOOL);
}

static bool copy_data(Scatter *s) {
  ElementBuilder *e = &s->e;
  const Type *t = type_of(s->node);
  Dim shape[MAX_RANK], index[MAX_RANK];
  elem_shape(e, t, shape);
  for (int i = 0; i < t->rank; i++)
    index[i] = loop_for(&e->b, i == t->rank - 1 ? LOOP_VECTOR : LOOP_SERIAL, "c", shape[i]);
  const LoopExpr *x = elem_at(e, s->node->src[0], index);
  if (!x) return false;
  loop_store(&e->b, elem_result(e, 0), elem_linear(e, t->rank, shape, index), x);
  for (int i = 0; i < t->rank; i++) loop_end(&e->b);
  elem_forget(e);
  return true;
}

// Joins an update to what is there, at an index of the result.
static bool put(Scatter *s, const LoopExpr *x, const Dim *at) {
  static const LoopOp op[] = {[SCATTER_ADD] = LOOP_add,
                              [SCATTER_MUL] = LOOP_mul,
                              [SCATTER_MIN] = LOOP_min,
                              [SCATTER_MAX] = LOOP_max};
  ElementBuilder *e = &s->e;
  Dim shape[MAX_RANK];
  int32_t y = elem_result(e, 0);
  if (!x) return false;
  elem_shape(e, type_of(s->node), shape);
  Dim to = elem_linear(e, type_of(s->node)->rank, shape, at);
  if (s->mode != SCATTER_NONE) x = loop_op(e->k, op[s->mode], loop_load(e->k, y, to), x, NULL);
  loop_store(&e->b, y, to, x);
  return true;
}

static bool put_elements(Scatter *s) {
  ElementBuilder *e = &s->e;
  const Type *x = type_of(s->node), *u = type_of(s->node->src[1]);
  int axis = elem_axis(((const scatter_elements_attrs *)s->node->attrs)->axis, x->rank);
  Dim shape[MAX_RANK], index[MAX_RANK], at[MAX_RANK];
  if (u->rank != x->rank) return false;
  elem_shape(e, u, shape);
  for (int i = 0; i < u->rank; i++) index[i] = loop_for(&e->b, LOOP_SERIAL, "u", shape[i]);
  const LoopExpr *which = elem_at(e, s->node->src[1], index);
  if (!which) return false;
  for (int i = 0; i < x->rank; i++) {
    Dim size = elem_dim(e, x->dims[i]);
    at[i] = index[i];
    if (i == axis)
      at[i] = elem_bound(e, which, size);
    else if (ie_lt(e->pool, shape[i], ie_addc(e->pool, size, 1)) != YES)
      at[i] = elem_checked(e, loop_index(e->k, index[i]), size, "an update lies outside the data");
  }
  if (!put(s, elem_at(e, s->node->src[2], index), at)) return false;
  for (int i = 0; i < u->rank; i++) loop_end(&e->b);
  return true;
}

static bool put_blocks(Scatter *s) {
  ElementBuilder *e = &s->e;
  const Type *x = type_of(s->node), *w = type_of(s->node->src[1]), *u = type_of(s->node->src[2]);
  Dim shape[MAX_RANK], index[MAX_RANK], at[MAX_RANK], from[MAX_RANK];
  int outer = w->rank - 1, k = 0;
  if (!ie_is_const(w->dims[outer])) return false;
  int len = (int)w->dims[outer]->value;
  if (len > x->rank || u->rank != outer + x->rank - len) return false;
  elem_shape(e, u, shape);
  for (int i = 0; i < outer; i++) from[i] = index[i] = loop_for(&e->b, LOOP_SERIAL, "u", shape[i]);
  for (; k < len; k++) {
    from[outer] = ie_const(e->pool, k);
    const LoopExpr *read = elem_at(e, s->node->src[1], from);
    if (!read) return false;
    at[k] = elem_bound(e, read, elem_dim(e, x->dims[k]));
  }
  for (int i = outer; i < u->rank; i++, k++) {
    Dim size = elem_dim(e, x->dims[k]);
    index[i] = at[k] = loop_for(&e->b, i == u->rank - 1 ? LOOP_VECTOR : LOOP_SERIAL, "b", size);
  }
  if (!put(s, elem_at(e, s->node->src[2], index), at)) return false;
  for (int i = 0; i < u->rank; i++) loop_end(&e->b);
  return true;
}

static void *scatter_match(Lowering *lo, const Node *fused) {
  Scatter *s = arena_new(lo->arena, Scatter);
  if (!elem_begin(&s->e, lo, fused, NULL, 0) || !find_scatter(s)) return NULL;
  return type_is_empty(type_of(s->node)) ? NULL : s;
}

static bool scatter_build(void *match, const void *fields, Lowered *out) {
  Scatter *s = match;
  ElementBuilder *e = &s->e;
  (void)fields;
  loop_begin(&e->b, e->k);
  loop_for(&e->b, LOOP_PARALLEL, "item", e->pool->one);
  bool elements = s->node->op == OP_scatter_elements,
       none = type_is_empty(type_of(s->node->src[2]));
  if (!copy_data(s)) return false;
  if (!none && !(elements ? put_elements(s) : put_blocks(s))) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_scatter = {.match = scatter_match, .build = scatter_build};
