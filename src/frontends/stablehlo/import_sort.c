// import_sort.c -- sort and top_k.
//
// A comparator is asked about all pairs along the axis at once; how many elements come before one
// is its place.  Long axes are sorted by the graph's top_k, where the comparator is one comparison.
#include "frontends/stablehlo/import.h"

#include "eval/index.h"

#include <math.h>

enum { MAX_PAIRS = 1 << 25 };

typedef struct Along {
  int rank;
  int64_t axis, perm[MAX_RANK], back[MAX_RANK], new_axis;
} Along;
static Node *lay(HloCall *c, Node *x, void *ctx) {
  const Along *a = ctx;
  Node *y = hb_transpose(c->g, x, a->rank, a->perm);
  return N(c->g, unsqueeze, y, node_i64s(c->g, 1, &a->new_axis));
}

// Places of the elements, with the sorted axis last.
static Node *places(HloCall *c, Along *a, HloSize n) {
  Graph *g = c->g;
  HloValue *args = arena_array(c->h->arena, HloValue, 2 * c->nin + 1), less;
  for (int64_t i = 0; i < c->nin; i++) {
    a->new_axis = a->rank;
    args[2 * i] = hlo_moved(c, &c->in[i], lay, a);
    a->new_axis = a->rank - 1;
    args[2 * i + 1] = hlo_moved(c, &c->in[i], lay, a);
  }
  if (!hlo_lifted(c, 0, args, 2 * c->nin, &less, 1)) return g->poison;
  int64_t perm[MAX_RANK];
  HloSize dims[2] = {n, n};
  for (int i = 0; i <= a->rank; i++) perm[i] = i;
  perm[a->rank] = a->rank - 1;
  perm[a->rank - 1] = a->rank;
  Node *other = hb_transpose(g, less.re, a->rank + 1, perm);
  Node *earlier = N(g, lt, hs_iota(g, DT_I64, 2, dims, 1), hs_iota(g, DT_I64, 2, dims, 0));
  Node *before = N(g, or, other, N(g, and, N(g, not, less.re), earlier));
  int64_t last = a->rank;
  return hb_reduce(g, OP_reduce_sum, hb_cast(g, before, DT_I64), (Ints){1, &last});
}

static Node *by_places(HloCall *c, const Along *a, Node *x, Node *at) {
  Node *y = hb_transpose(c->g, x, a->rank, a->perm);
  y = NA(c->g, scatter_elements, (&(scatter_elements_attrs){.axis = a->rank - 1}), y, at, y);
  return hb_transpose(c->g, y, a->rank, a->back);
}

// The one comparison of the first operand's elements: 1 ascending, -1 descending, 0 another
// comparator.
static int direction(const HloCall *c) {
  const MlirBlock *b =
      c->op->nregions && c->op->regions[0]->nblocks ? c->op->regions[0]->blocks[0] : NULL;
  if (!b || b->nops != 2 || strcmp(b->ops[0]->name, "stablehlo.compare") ||
      b->ops[0]->noperands != 2)
    return 0;
  if (b->ops[0]->operands[0] != b->args[0] || b->ops[0]->operands[1] != b->args[1]) return 0;
  const char *dir = mlir_word(mlir_attr(b->ops[0], "comparison_direction"), "");
  return dir[0] == 'L' ? 1 : dir[0] == 'G' ? -1 : 0;
}

// Numbers in the order of the comparison: of floats, their bits as integers that are ordered alike,
// NaNs at the ends.  Without TOTALORDER the two zeros are equal.
static Node *keys_of(HloCall *c, Node *x) {
  Graph *g = c->g;
  if (g->status || !dtype_is_float(type_of(x)->dtype)) return x;
  int bits = dtype_bits(type_of(x)->dtype);
  DType t = bits == 16 ? DT_I16 : bits == 32 ? DT_I32 : bits == 64 ? DT_I64 : 0;
  const MlirOp *compare = c->op->regions[0]->blocks[0]->ops[0];
  if (!t) return x;
  if (strcmp(mlir_word(mlir_attr(compare, "compare_type"), ""), "TOTALORDER") != 0)
    x = N(g, where, N(g, eq, x, hb_num(g, x, 0)), hb_num(g, x, 0), x);
  Node *k = hb_bits(g, x, t);
  Node *flipped = N(g, add, N(g, sub, hb_num(g, k, -1), k), hb_num(g, k, -ldexp(1, bits - 1)));
  return N(g, where, N(g, lt, k, hb_num(g, k, 0)), flipped, k);
}

static void sort_long(HloCall *c, int64_t axis, HloSize n) {
  Graph *g = c->g;
  int dir = direction(c);
  if (!dir || c->in[0].im) {
    hlo_refuse(c, "of %lld elements by this comparator", (long long)n.n);
    return;
  }
  top_k_attrs at = {.axis = axis, .largest = dir < 0, .sorted = true};
  Node *k = NA(g, top_k, &at, keys_of(c, c->in[0].re), hs_vector(g, 1, &n));
  Node *index = g->status ? k : node_proj(g, k, 1);
  for (int64_t i = 0; i < c->nin && !g->status; i++) {
    HloValue v = {
        .re = NA(g, gather_elements, (&(gather_elements_attrs){.axis = axis}), c->in[i].re, index)};
    if (c->in[i].im)
      v.im = NA(g, gather_elements, (&(gather_elements_attrs){.axis = axis}), c->in[i].im, index);
    hlo_give_value(c, i, v);
  }
}

static void sort(HloCall *c) {
  HloSize dims[MAX_RANK];
  int64_t count = 1;
  Along a = {.axis = mlir_int(mlir_attr(c->op, "dimension"), -1)};
  for (int64_t i = 0; i < c->nin; i++)
    if (!c->in[i].re) return;
  a.rank = hs_all(c, &c->in[0], dims);
  if (a.axis < 0) a.axis += a.rank;
  if (a.axis < 0 || a.axis >= a.rank || a.rank >= MAX_RANK) {
    hlo_fail(c, "dimension %lld of rank %d", (long long)a.axis, a.rank);
    return;
  }
  for (int i = 0, n = 0; i <= a.rank; i++)
    if (i != a.axis && n < a.rank) a.perm[n++] = i == a.rank ? a.axis : i;
  for (int i = 0; i < a.rank; i++) a.back[a.perm[i]] = i;
  // A size that is not known counts as 1: a batch; along the axis itself the cheaper way is taken
  // where there is one.
  for (int i = 0; i < a.rank; i++)
    if (!dims[i].node && !ck_mul(count, dims[i].n, &count)) count = INT64_MAX;
  // NaNs, which no comparison holds for, have no places of their own.
  bool by_key = direction(c) && !c->in[0].im;
  bool open = dims[a.axis].node != NULL || (by_key && dtype_is_float(type_of(c->in[0].re)->dtype));
  if (open ? by_key : count > MAX_PAIRS / MAX(dims[a.axis].n, 1)) {
    sort_long(c, a.axis, dims[a.axis]);
    return;
  }
  Node *at = places(c, &a, dims[a.axis]);
  for (int64_t i = 0; i < c->nin && !c->g->status; i++) {
    HloValue v = {.re = by_places(c, &a, c->in[i].re, at)};
    if (c->in[i].im) v.im = by_places(c, &a, c->in[i].im, at);
    hlo_give_value(c, i, v);
  }
}

static void top_k(HloCall *c) {
  Graph *g = c->g;
  Node *x = hlo_in(c, 0);
  int64_t k = mlir_int(mlir_attr(c->op, "k"), 0);
  bool truth = !g->status && type_of(x)->dtype == DT_BOOL;
  if (truth) x = hb_cast(g, x, DT_U8);
  Node *t = NA(g, top_k, (&(top_k_attrs){.axis = -1, .largest = true, .sorted = true}), x,
               node_i64s(g, 1, &k));
  if (g->status) return;
  hlo_give(c, truth ? hb_cast(g, node_proj(g, t, 0), DT_BOOL) : node_proj(g, t, 0));
  hlo_give_value(c, 1, (HloValue){.re = hb_cast(g, node_proj(g, t, 1), DT_I32)});
}

// clang-format off
static const HloRow rows[] = {
    {"chlo.top_k",     top_k, 0, HLO_PLAIN, NULL},
    {"stablehlo.sort", sort,  0, HLO_PLAIN, NULL},
};
// clang-format on
HLO_TABLE(hlo_sort);
