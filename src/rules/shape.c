// shape.c -- building movement nodes in the one form that rules look for.
#include "rules/shape.h"

// ---- reshape ----

typedef struct Grouping {
  int64_t into[MAX_RANK], size[MAX_RANK];
  bool rest;  // one size is what is left over
} Grouping;

// How often `part` goes into `whole`: 0 when it is not a whole constant number of times.
static int64_t times(IntPool *p, Dim whole, Dim part) {
  Dim q = ie_is(part, 0) ? p->poison : ie_div(p, whole, part);
  return ie_is_const(q) && q->value > 0 && ie_mul(p, part, q) == whole ? q->value : 0;
}

// Finds adjacent free axes of x whose product times a constant is the size of result axis j.
static bool claim(IntPool *p, const Type *x, Dim want, int j, Grouping *gr) {
  for (int from = 0; from < x->rank; from++) {
    Dim product = p->one;
    for (int to = from; to < x->rank && gr->into[to] < 0; to++) {
      product = ie_mul(p, product, x->dims[to]);
      if (ie_is_poison(product)) return false;
      if (ie_is_const(product)) continue;
      int64_t n = times(p, want, product);
      if (!n) continue;
      while (ie_is_const(x->dims[from])) from++;  // a constant in front stays outside
      product = p->one;
      for (int k = from; k <= to; k++) {
        gr->into[k] = j;
        product = ie_mul(p, product, x->dims[k]);
      }
      gr->size[j] = times(p, want, product);
      return gr->size[j] > 0;
    }
  }
  return false;
}

static bool group_axes(IntPool *p, const Type *x, const Type *t, Grouping *gr) {
  for (int i = 0; i < x->rank; i++) gr->into[i] = -1;
  gr->rest = false;
  // Sizes that stay whole first, so that a product does not take one of them.
  for (int j = 0; j < t->rank; j++) {
    gr->size[j] = ie_is_const(t->dims[j]) ? t->dims[j]->value : 0;
    for (int i = 0; !ie_is_const(t->dims[j]) && i < x->rank && !gr->size[j]; i++)
      if (gr->into[i] < 0 && x->dims[i] == t->dims[j]) {
        gr->into[i] = j;
        gr->size[j] = 1;
      }
  }
  for (int j = 0; j < t->rank; j++) {
    if (ie_is_const(t->dims[j]) || gr->size[j]) continue;
    if (claim(p, x, t->dims[j], j, gr)) continue;
    if (gr->rest) return false;
    gr->rest = true;
    gr->size[j] = -1;
  }
  return true;
}

// Every size a constant, or the input's own in the same place.
static bool plain_shape(const Type *x, const Type *t, int64_t *size, bool *out_zero) {
  bool copies = false, zero = false;
  for (int j = 0; j < t->rank; j++) {
    bool fixed = ie_is_const(t->dims[j]);
    if (!fixed && (j >= x->rank || x->dims[j] != t->dims[j])) return false;
    size[j] = fixed ? t->dims[j]->value : 0;
    copies |= !fixed;
    zero |= fixed && size[j] == 0;
  }
  *out_zero = zero;
  return !(copies && zero);
}

Node *reshape_to(Graph *g, Node *x, const Type *t) {
  const Type *from = type_of(x);
  if (from->kind != TK_TENSOR || t->kind != TK_TENSOR || from->rank < 0 || t->rank < 0) return NULL;
  if (from == t) return x;
  int64_t size[MAX_RANK];
  bool zero;
  if (plain_shape(from, t, size, &zero)) {
    reshape_attrs at = {.allowzero = zero};
    return NA(g, reshape, &at, x, node_i64s(g, t->rank, size));
  }
  Grouping gr;
  if (!group_axes(&g->dims, from, t, &gr)) return NULL;
  // Each size that is named must come out of the axes that go nowhere, or inference refuses the
  // node.
  Dim left = g->dims.one, named = g->dims.one;
  for (int i = 0; i < from->rank; i++)
    if (gr.into[i] < 0) left = ie_mul(&g->dims, left, from->dims[i]);
  for (int j = 0; j < t->rank; j++)
    if (gr.size[j] >= 0) named = ie_mul(&g->dims, named, ie_const(&g->dims, gr.size[j]));
  if (ie_is_poison(left) || ie_is_poison(named) || (gr.rest && ie_is(named, 0))) return NULL;
  if (!gr.rest && ie_eq(&g->dims, left, named) != YES) return NULL;
  reshape_attrs at = {.into = {from->rank, gr.into}};
  return NA(g, reshape, &at, x, node_i64s(g, t->rank, gr.size));
}

// ---- transpose ----

bool is_materialized(const Node *n) {
  return n->op == OP_transpose && ((const transpose_attrs *)n->attrs)->materialize;
}

bool is_movable_transpose(const Node *n) { return n->op == OP_transpose && !is_materialized(n); }

int transpose_perm(const Node *n, int64_t *perm) {
  const transpose_attrs *at = n->attrs;
  int rank = type_of(n->src[0])->rank < 0 ? -1 : type_of(n)->rank;
  for (int i = 0; i < rank; i++) perm[i] = at->perm.n ? axis_of(at->perm.v[i], rank) : rank - 1 - i;
  return rank;
}

Node *transpose_to(Graph *g, Node *x, int rank, const int64_t *perm) {
  bool same = true;
  for (int i = 0; i < rank; i++) same &= perm[i] == i;
  transpose_attrs at = {.perm = {rank, perm}};
  return same ? x : NA(g, transpose, &at, x);
}

void perm_inverse(int rank, const int64_t *perm, int64_t *out) {
  for (int i = 0; i < rank; i++) out[perm[i]] = i;
}

// ---- the others ----

int axis_of(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return -1;
  return (int)(axis < 0 ? axis + rank : axis);
}

Node *slice_axis(Graph *g, Node *x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  Node *one = node_i64s(g, 1, &start), *to = node_i64s(g, 1, &end), *at = node_i64s(g, 1, &axis);
  return step == 1 ? N(g, slice, x, one, to, at)
                   : N(g, slice, x, one, to, at, node_i64s(g, 1, &step));
}

bool slice_box(Graph *g, const Node *n, Box *out) {
  const Type *t = type_of(n->src[0]);
  Ints start, end, axes = {0}, steps = {0};
  Node *given = src_or_null(g, n, 3), *step = src_or_null(g, n, 4);
  if (t->rank < 0 || !node_ints(g, n->src[1], &start) || !node_ints(g, n->src[2], &end) ||
      (given && !node_ints(g, given, &axes)) || (step && !node_ints(g, step, &steps)))
    return false;
  *out = (Box){.rank = t->rank};
  for (int64_t i = 0; i < start.n; i++) {
    int axis = axis_of(given ? axes.v[i] : i, t->rank);
    if (axis < 0 || !ie_is_const(t->dims[axis])) return false;
    out->cut[axis] = true;
    out->step[axis] = step ? steps.v[i] : 1;
    slice_bounds(t->dims[axis]->value, start.v[i], end.v[i], out->step[axis], &out->start[axis],
                 &out->count[axis]);
    if (out->count[axis] <= 1) out->step[axis] = 1;  // any step takes it, and none leaves int64
  }
  return true;
}

Node *node_with(Graph *g, const Node *n, Node *const *src) {
  return node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}
