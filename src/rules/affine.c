// affine.c -- follows ranges, sums and products with sizes, and broadcasting.
//
// Needs: arithmetic that does not wrap, which holds for indices into tensors that exist.
#include "rules/affine.h"

#include "rules/shape.h"

enum { MAX_DEPTH = 24 };

static bool follow(Graph *g, const Node *n, int depth, Affine *out);

static bool constant(Graph *g, const Type *t, int64_t base, const int64_t *stride, Affine *out) {
  out->rank = t->rank;
  out->base = ie_const(&g->dims, base);
  for (int i = 0; i < t->rank; i++)
    out->stride[i] = ie_const(&g->dims, ie_is(t->dims[i], 1) ? 0 : stride[i]);
  return true;
}

static bool of_known(Graph *g, const Node *n, Affine *out) {
  const Value *v = node_known(g, n);
  if (!v || v->n < 1) return false;
  int64_t step[MAX_RANK], stride[MAX_RANK] = {0}, at[MAX_RANK] = {0};
  shape_strides(v->rank, v->dims, step);
  for (int i = 0; i < v->rank; i++)
    if (v->dims[i] > 1 && !ck_sub(val_i64(v, step[i]), val_i64(v, 0), &stride[i])) return false;
  for (int64_t k = 0; k < v->n; k++) {
    int64_t want = val_i64(v, 0), part;
    for (int i = 0; i < v->rank; i++)
      if (!ck_mul(stride[i], at[i], &part) || !ck_add(want, part, &want)) return false;
    if (val_i64(v, k) != want) return false;
    for (int i = v->rank - 1; i >= 0 && ++at[i] == v->dims[i]; i--) at[i] = 0;
  }
  return constant(g, type_of(n), val_i64(v, 0), stride, out);
}

static bool of_range(Graph *g, const Node *n, Affine *out) {
  int64_t k;
  const Dim *start, *delta;
  if (!node_sym(g, n->src[0], &k, &start) || k != 1) return false;
  if (!node_sym(g, n->src[2], &k, &delta) || k != 1) return false;
  out->rank = 1;
  out->base = start[0];
  out->stride[0] = ie_is(type_of(n)->dims[0], 1) ? g->dims.zero : delta[0];
  return true;
}

// A reshape that only adds or drops axes of size 1.
static bool of_reshape(const Graph *g, const Node *n, Affine *out) {
  const Type *from = type_of(n->src[0]), *to = type_of(n);
  Affine x = *out;
  int i = 0;
  if (to->rank < 0) return false;
  out->rank = to->rank;
  for (int j = 0; j < to->rank; j++) {
    out->stride[j] = g->dims.zero;
    if (ie_is(to->dims[j], 1)) continue;
    while (i < from->rank && ie_is(from->dims[i], 1)) i++;
    if (i == from->rank || from->dims[i] != to->dims[j]) return false;
    out->stride[j] = x.stride[i++];
  }
  for (; i < from->rank; i++)
    if (!ie_is(from->dims[i], 1)) return false;
  return true;
}

bool affine_broadcast(const Graph *g, const Type *from, const Type *to, Affine *out) {
  Affine x = *out;
  if (to->rank < from->rank || from->rank < 0) return false;
  out->rank = to->rank;
  for (int j = 0; j < to->rank; j++) {
    int i = j - (to->rank - from->rank);
    bool repeats = i < 0 || ie_is(from->dims[i], 1);
    if (!repeats && from->dims[i] != to->dims[j]) return false;
    out->stride[j] = repeats ? g->dims.zero : x.stride[i];
  }
  return true;
}

static bool of_sum(Graph *g, const Node *n, int sign, int depth, Affine *out) {
  Affine x, y;
  IntPool *p = &g->dims;
  for (int i = 0; i < 2; i++) {
    Affine *f = i ? &y : &x;
    if (!follow(g, n->src[i], depth, f) || !affine_broadcast(g, type_of(n->src[i]), type_of(n), f))
      return false;
  }
  *out = x;
  out->base = sign > 0 ? ie_add(p, x.base, y.base) : ie_sub(p, x.base, y.base);
  for (int i = 0; i < out->rank; i++)
    out->stride[i] =
        sign > 0 ? ie_add(p, x.stride[i], y.stride[i]) : ie_sub(p, x.stride[i], y.stride[i]);
  return true;
}

static bool of_product(Graph *g, const Node *n, int depth, Affine *out) {
  for (int i = 0; i < 2; i++) {
    int64_t k;
    const Dim *by;
    if (!node_sym(g, n->src[i], &k, &by) || k != 1) continue;
    const Node *other = n->src[1 - i];
    if (!follow(g, other, depth, out) || !affine_broadcast(g, type_of(other), type_of(n), out))
      return false;
    out->base = ie_mul(&g->dims, out->base, by[0]);
    for (int j = 0; j < out->rank; j++) out->stride[j] = ie_mul(&g->dims, out->stride[j], by[0]);
    return true;
  }
  return false;
}

static bool follow(Graph *g, const Node *n, int depth, Affine *out) {
  const Type *t = type_of(n);
  int64_t k;
  const Dim *sym;
  if (depth > MAX_DEPTH || t->kind != TK_TENSOR || t->rank < 0 || n->nres != 1 ||
      (t->dtype != DT_I64 && t->dtype != DT_I32))
    return false;
  if (of_known(g, n, out)) return true;
  Dim count = type_numel(g, t);
  if (count && ie_is(count, 1) && node_sym(g, n, &k, &sym) && k == 1) {
    int64_t none[MAX_RANK] = {0};
    constant(g, t, 0, none, out);
    out->base = sym[0];
    return true;
  }
  switch (n->op) {
  case OP_range: return of_range(g, n, out);
  case OP_reshape: return follow(g, n->src[0], depth + 1, out) && of_reshape(g, n, out);
  case OP_expand:
    return follow(g, n->src[0], depth + 1, out) && affine_broadcast(g, type_of(n->src[0]), t, out);
  case OP_cast: return follow(g, n->src[0], depth + 1, out);
  case OP_add: return of_sum(g, n, 1, depth + 1, out);
  case OP_sub: return of_sum(g, n, -1, depth + 1, out);
  case OP_mul: return of_product(g, n, depth + 1, out);
  default: return false;
  }
}

bool node_affine(Graph *g, const Node *n, Affine *out) {
  if (!follow(g, n, 0, out) || ie_is_poison(out->base)) return false;
  for (int i = 0; i < out->rank; i++)
    if (ie_is_poison(out->stride[i])) return false;
  return true;
}

bool affine_counts(Graph *g, const Affine *f, const Type *t) {
  Dim want = g->dims.one;
  if (!ie_is(f->base, 0)) return false;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (ie_is(t->dims[i], 1)) continue;
    if (f->stride[i] != want) return false;
    want = ie_mul(&g->dims, want, t->dims[i]);
  }
  return true;
}
