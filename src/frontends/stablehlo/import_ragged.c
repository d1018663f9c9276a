// import_ragged.c -- chlo.ragged_dot: products of which one axis is divided into groups, whose
// sizes are data.
//
// Groups of rows (each with a right side of its own), groups of a contracted axis (each gives a
// product), or groups of whole products, which change nothing.
#include "frontends/stablehlo/import.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
// One axis of the left side is divided into groups, whose sizes are data: [axes in front of it,
// groups].  Elements behind the last group count for nothing.
typedef struct Ragged {
  Ints front, front_rhs;  // axes of both sides to which the leading axes of the sizes belong
  int64_t axis;
  int groups_rank;  // of the sizes
  Node *begin, *end;
} Ragged;

static bool has_axis(Ints v, int64_t axis, int64_t *at) {
  for (*at = 0; *at < v.n; ++*at)
    if (v.v[*at] == axis) return true;
  return false;
}

static bool all_within(Ints v, int rank) {
  for (int64_t i = 0; i < v.n; i++)
    if (v.v[i] < 0 || v.v[i] >= rank) return false;
  return true;
}

static Node *spread_to(HloCall *c, Node *x, int rank, const int64_t *axis) {  // x's axes, ascending
  int64_t gone[MAX_RANK + 1];
  int n = 0, k = 0, own = type_of(x)->rank;
  for (int i = 0; i < rank; i++) {
    if (k < own && axis[k] == i)
      k++;
    else
      gone[n++] = i;
  }
  return n ? N(c->g, unsqueeze, x, node_i64s(c->g, n, gone)) : x;
}

// Which elements of an operand belong to which group: over its axes with the groups' in front.
static Node *members(HloCall *c, const Ragged *r, Node *x, Ints front, int64_t axis) {
  Graph *g = c->g;
  int rank = type_of(x)->rank;
  int64_t perm[MAX_RANK + 1], at[MAX_RANK + 1], line = axis + 1;
  Node *pos = N(g, range, node_i64(g, 0), hs_node(g, hs_of(g, x, (int)axis)), node_i64(g, 1));
  pos = spread_to(c, hb_cast(g, pos, DT_I64), rank + 1, &line);
  // The sizes' axes in the order in which the operand has them, groups first.
  perm[0] = r->groups_rank - 1, at[0] = 0;
  for (int i = 0; i < r->groups_rank - 1; i++) {
    int k = 1 + i;
    for (; k > 1 && at[k - 1] > front.v[i] + 1; k--) at[k] = at[k - 1], perm[k] = perm[k - 1];
    at[k] = front.v[i] + 1;
    perm[k] = i;
  }
  Node *begin = spread_to(c, hb_transpose(g, r->begin, r->groups_rank, perm), rank + 1, at);
  Node *end = spread_to(c, hb_transpose(g, r->end, r->groups_rank, perm), rank + 1, at);
  return N(g, and, N(g, le, begin, pos), N(g, lt, pos, end));
}

static bool read_ragged(HloCall *c, const HloDotAxes *d, int64_t axis, Ragged *r) {
  Graph *g = c->g;
  int rank = hlo_rank(&c->in[0]);
  Node *sizes = hlo_in(c, 2);
  int64_t *front = arena_array(c->h->arena, int64_t, 2 * MAX_RANK + 2), *rhs = front + MAX_RANK + 1;
  int64_t n = 0, at, skip;
  *r = (Ragged){.axis = axis};
  if (g->status || rank > MAX_RANK - 1 || hlo_rank(&c->in[1]) > MAX_RANK - 1) return false;
  for (int64_t i = 0; i < d->ba.n && i < d->bb.n; i++) front[n] = d->ba.v[i], rhs[n++] = d->bb.v[i];
  if (has_axis(d->ca, axis, &at))
    for (int64_t i = 0; i < at && i < d->cb.n; i++) front[n] = d->ca.v[i], rhs[n++] = d->cb.v[i];
  else
    for (int64_t i = 0; i < axis; i++)
      if (!has_axis(d->ba, i, &skip) && !has_axis(d->ca, i, &skip)) front[n++] = i;
  r->groups_rank = type_of(sizes)->rank;
  if (r->groups_rank == 1) n = 0;  // the same for all
  r->front = (Ints){n, front};
  r->front_rhs = (Ints){n, rhs};
  if (r->groups_rank != n + 1) {
    hlo_fail(c, "sizes of groups of rank %d, must be 1 or %lld", r->groups_rank, (long long)n + 1);
    return false;
  }
  sizes = hb_cast(g, sizes, DT_I64);
  r->end = N(g, cum_sum, sizes, node_i64(g, n));
  r->begin = N(g, sub, r->end, sizes);
  return !g->status;
}

typedef struct RaggedDot {
  HloDotAxes d;
  Ragged r;
  int64_t group;  // of the right side's axes; -1: groups are an axis of the result
} RaggedDot;

static Ints with_front(HloCall *c, Ints v) {  // of operands with another axis in front
  int64_t *out = arena_array(c->h->arena, int64_t, v.n + 1);
  for (int64_t i = 0; i < v.n; i++) out[i + 1] = v.v[i] + 1;
  out[0] = 0;
  return (Ints){v.n + 1, out};
}

// The groups are parts of a contracted axis: each of them gives a product.
static Node *ragged_sums(HloCall *c, Node *a, Node *b, RaggedDot *v) {
  Graph *g = c->g;
  int64_t at = 0;
  has_axis(v->d.ca, v->r.axis, &at);
  Node *ma = members(c, &v->r, a, v->r.front, v->r.axis);
  Node *mb = members(c, &v->r, b, v->r.front_rhs, v->d.cb.v[at]);
  HloDotAxes d = {.ba = with_front(c, v->d.ba), .bb = with_front(c, v->d.bb), .t = v->d.t};
  Ints ca = with_front(c, v->d.ca), cb = with_front(c, v->d.cb);
  d.ca = (Ints){ca.n - 1, ca.v + 1};
  d.cb = (Ints){cb.n - 1, cb.v + 1};
  return hlo_dot_of(c, hb_where(g, ma, a, hb_num(g, a, 0)), hb_where(g, mb, b, hb_num(g, b, 0)),
                    &d);
}

// The groups are parts of the left side's rows, each with a right side of its own: all products, of
// which a row's own is taken.
static Node *ragged_rows(HloCall *c, Node *a, Node *b, RaggedDot *v) {
  Graph *g = c->g;
  int64_t skip, axis = hlo_rank(&c->in[0]) - v->d.ca.n;
  for (int64_t i = 0; i < v->group; i++)
    axis += !has_axis(v->d.bb, i, &skip) && !has_axis(v->d.cb, i, &skip);
  Node *all = hlo_dot_of(c, a, b, &v->d);
  if (g->status) return g->poison;
  // What the product keeps of the left side: batch axes, then the others; then those of the right
  // side.
  Node *m = members(c, &v->r, a, v->r.front, v->r.axis);
  int rank = hlo_rank(&c->in[0]), n = 0, out = type_of(all)->rank;
  int64_t perm[MAX_RANK + 1], gone[MAX_RANK], ngone = 0, at[MAX_RANK + 1];
  for (int64_t i = 0; i < v->d.ba.n; i++) perm[n++] = v->d.ba.v[i] + 1;
  for (int i = 0; i < rank; i++) {
    if (has_axis(v->d.ca, i, &skip))
      gone[ngone++] = i + 1;
    else if (!has_axis(v->d.ba, i, &skip))
      perm[n++] = i + 1;
  }
  perm[n] = 0;
  for (int64_t i = 0; i < ngone; i++) perm[n + 1 + i] = gone[i];
  m = hb_transpose(g, m, rank + 1, perm);
  for (int i = 0; i < ngone; i++) gone[i] = n + 1 + i;
  if (ngone) m = N(g, squeeze, m, node_i64s(g, ngone, gone));
  for (int i = 0; i < n; i++) at[i] = i;
  at[n] = axis;
  m = spread_to(c, m, out, at);
  return hb_reduce(g, OP_reduce_sum, hb_where(g, m, all, hb_num(g, all, 0)), (Ints){1, &axis});
}

static Node *ragged_of(HloCall *c, Node *a, Node *b, void *ctx) {
  RaggedDot *v = ctx;
  return v->group < 0 ? ragged_sums(c, a, b, v) : ragged_rows(c, a, b, v);
}

static void ragged_dot(HloCall *c) {
  const MlirAttr *n = mlir_attr(c->op, "ragged_dot_dimension_numbers");
  RaggedDot v = {.d = {hlo_field_ints(c, n, "lhs_batching_dimensions"),
                       hlo_field_ints(c, n, "rhs_batching_dimensions"),
                       hlo_field_ints(c, n, "lhs_contracting_dimensions"),
                       hlo_field_ints(c, n, "rhs_contracting_dimensions"),
                       hlo_dtype(c, c->type[0])}};
  Ints axes = hlo_field_ints(c, n, "lhs_ragged_dimensions"),
       groups = hlo_field_ints(c, n, "rhs_group_dimensions");
  int64_t skip;
  if (c->nin != 3 || !c->in[0].re || !c->in[1].re || c->g->status) return;
  int left = hlo_rank(&c->in[0]), right = hlo_rank(&c->in[1]);
  bool sums = axes.n == 1 && has_axis(v.d.ca, axes.v[0], &skip),
       whole = axes.n == 1 && has_axis(v.d.ba, axes.v[0], &skip);
  bool ok = axes.n == 1 && groups.n == !(sums || whole) && v.d.ca.n == v.d.cb.n &&
            v.d.ba.n == v.d.bb.n && all_within(axes, left) && all_within(groups, right) &&
            all_within(v.d.ba, left) && all_within(v.d.ca, left) && all_within(v.d.bb, right) &&
            all_within(v.d.cb, right) && v.d.ba.n + v.d.ca.n <= MIN(left, right);
  if (!ok) {
    hlo_fail(c, "its dimension numbers do not fit its operands");
    return;
  }
  if (whole) {  // groups of whole products
    hlo_give_value(c, 0, hlo_product(c, &c->in[0], &c->in[1], hlo_dot_of, &v.d));
    return;
  }
  v.group = sums ? -1 : groups.v[0];
  if (read_ragged(c, &v.d, axes.v[0], &v.r))
    hlo_give_value(c, 0, hlo_product(c, &c->in[0], &c->in[1], ragged_of, &v));
}

static const HloRow rows[] = {{"chlo.ragged_dot", ragged_dot, 0, HLO_PLAIN, NULL}};
HLO_TABLE(hlo_ragged);
