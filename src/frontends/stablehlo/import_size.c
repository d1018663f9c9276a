// import_size.c -- sizes of tensors that may be known only when the program runs (import.h).
#include "frontends/stablehlo/import.h"

#include "eval/dims.h"
#include "eval/index.h"
#include "eval/movement.h"

HloSize hs_num(int64_t n) { return (HloSize){.n = n}; }

// A node's number where inference has it: what is fixed or cancels needs no node.
static HloSize hs_from(Graph *g, Node *x) {
  const Dim *sym;
  int64_t n;
  HloSize s = {.node = x};
  if (g->status || !node_sym(g, x, &n, &sym) || n != 1) return s;
  s.dim = sym[0];
  return ie_is_const(s.dim) ? hs_num(s.dim->value) : s;
}

HloSize hs_of(Graph *g, Node *x, int axis) {
  if (g->status) return hs_num(1);
  Dim d = type_of(x)->dims[axis];
  if (ie_is_const(d)) return hs_num(d->value);
  Node *v = NA(g, shape, (&(shape_attrs){.start = axis, .end = axis + 1}), x);
  return (HloSize){.node = hb_reshape(g, v, 0, NULL), .dim = d};
}

int hs_all(HloCall *c, const HloValue *v, HloSize *out) {
  int rank = hlo_rank(v);
  for (int i = 0; i < rank; i++) out[i] = hs_of(c->g, v->re, i);
  return rank;
}

bool hs_read(HloCall *c, Node *x, HloSize *out, int64_t n) {
  Graph *g = c->g;
  if (g->status) return false;
  const Type *t = type_of(x);
  if (t->rank != 1 || !ie_is(t->dims[0], n)) {
    hlo_fail(c, "its sizes are not a vector of %lld numbers", (long long)n);
    return false;
  }
  Node *v = hb_cast(g, x, DT_I64);
  for (int64_t i = 0; i < n; i++) out[i] = hs_from(g, N(g, gather, v, node_i64(g, i)));
  return !g->status;
}

bool hs_same(HloSize a, HloSize b) {
  if (!a.node || !b.node) return !a.node && !b.node && a.n == b.n;
  return a.node == b.node || (a.dim && a.dim == b.dim);
}

HloSize hs_mul(Graph *g, HloSize a, HloSize b) {
  int64_t n;
  if (hs_is(a, 1)) return b;
  if (hs_is(b, 1)) return a;
  if (a.node || b.node) return hs_from(g, N(g, mul, hs_node(g, a), hs_node(g, b)));
  if (ck_mul(a.n, b.n, &n)) return hs_num(n);
  graph_fail(g, TENON_EINVAL, NOWHERE, "too many elements");
  return hs_num(1);
}

HloSize hs_sub(Graph *g, HloSize a, HloSize b) {
  if (hs_same(a, b)) return hs_num(0);
  if (a.node || b.node) return hs_from(g, N(g, sub, hs_node(g, a), hs_node(g, b)));
  int64_t n;
  if (!ck_sub(a.n, b.n, &n)) graph_fail(g, TENON_EINVAL, NOWHERE, "a size of %lld", (long long)b.n);
  return hs_num(g->status ? 0 : n);
}

HloSize hs_max(Graph *g, HloSize a, int64_t least) {
  if (!a.node) return hs_num(MAX(a.n, least));
  return hs_from(g, N(g, max, a.node, node_i64(g, least)));
}

Node *hs_node(Graph *g, HloSize s) { return s.node ? s.node : node_i64(g, s.n); }

// Neighbours that are numbers are one constant, so that a vector of numbers is nothing else.
Node *hs_vector(Graph *g, int n, const HloSize *s) {
  Node *part[MAX_RANK + 1];
  int64_t run[MAX_RANK + 1];
  int parts = 0, numbers = 0;
  for (int i = 0; i < n; i++) {
    if (!s[i].node) {
      run[numbers++] = s[i].n;
      if (i + 1 < n && !s[i + 1].node) continue;
      part[parts++] = node_i64s(g, numbers, run);
      numbers = 0;
    } else {
      part[parts++] = hb_reshape(g, s[i].node, 1, (int64_t[]){1});
    }
  }
  return parts ? hb_concat(g, 0, parts, part) : node_i64s(g, 0, NULL);
}

static bool has_sizes(const Node *x, int n, const HloSize *dims) {
  const Type *t = type_of(x);
  bool same = t->rank == n;
  for (int i = 0; same && i < n; i++)
    same = dims[i].node ? dims[i].dim == t->dims[i] : ie_is(t->dims[i], dims[i].n);
  return same;
}

Node *hs_reshape(Graph *g, Node *x, int n, const HloSize *dims) {
  if (g->status) return g->poison;
  if (has_sizes(x, n, dims)) return x;
  return NA(g, reshape, (&(reshape_attrs){.allowzero = true}), x, hs_vector(g, n, dims));
}

Node *hs_expand(Graph *g, Node *x, int n, const HloSize *dims) {
  if (g->status) return g->poison;
  return has_sizes(x, n, dims) ? x : N(g, expand, x, hs_vector(g, n, dims));
}

Node *hs_iota(Graph *g, DType t, int n, const HloSize *dims, int64_t axis) {
  if (g->status || axis < 0 || axis >= n) return g->poison;
  HloSize line[MAX_RANK];
  for (int i = 0; i < n; i++) line[i] = i == axis ? dims[i] : hs_num(1);
  Node *x = N(g, range, node_i64(g, 0), hs_node(g, dims[axis]), node_i64(g, 1));
  // the range's length is said by its own size, in which nothing is left to check
  if (dims[axis].node) line[axis] = hs_of(g, x, 0);
  return hs_expand(g, hs_reshape(g, hb_cast(g, x, t), n, line), n, dims);
}
