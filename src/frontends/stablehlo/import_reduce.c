// import_reduce.c -- reduce, map, and the bodies that they have.
//
// A body of one known operation is the graph's reduction.  Any other is applied to halves of the
// operands at once, neighbours to neighbours, until one element is left: the specification leaves
// the order of a reduction open.
#include "frontends/stablehlo/import.h"

#include "eval/control.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "frontends/common/close.h"

#include <math.h>

typedef struct Known {
  const char *name;
  int op, pair;  // the reduction, and what joins two
  double identity;
} Known;
static const Known known[] = {{"stablehlo.add", OP_reduce_sum, OP_add, 0},
                              {"stablehlo.multiply", OP_reduce_prod, OP_mul, 1},
                              {"stablehlo.maximum", OP_reduce_max, OP_max, -INFINITY},
                              {"stablehlo.minimum", OP_reduce_min, OP_min, INFINITY}};

static bool is_identity(Graph *g, const Node *init, const Known *k) {
  const Value *v = node_known(g, init);
  return v && v->n == 1 && dtype_is_float(v->dtype) && val_f64(v, 0) == k->identity;
}

static Node *reduce_known(HloCall *c, const Known *k, Node *x, Node *init, Ints axes) {
  Graph *g = c->g;
  Node *y = hb_reduce(g, k->op, x, axes);
  if (g->status || is_identity(g, init, k)) return y;
  if (dtype_is_int(type_of(x)->dtype) && k->pair != OP_add) {
    const Value *v = node_known(g, init);  // the least and the largest integer change nothing
    if (v && v->n == 1 && k->pair == OP_mul && val_i64(v, 0) == 1) return y;
  }
  return hb_node(g, k->pair, 2, (Node *[]){y, init});
}

// Truth values: or, and, as the largest and the least of bytes.
static Node *reduce_bool(HloCall *c, const char *op, Node *x, Node *init, Ints axes) {
  Graph *g = c->g;
  bool any = !strcmp(op, "stablehlo.or") || !strcmp(op, "stablehlo.maximum") ||
             !strcmp(op, "stablehlo.add");
  bool all = !strcmp(op, "stablehlo.and") || !strcmp(op, "stablehlo.minimum") ||
             !strcmp(op, "stablehlo.multiply");
  if (!any && !all) return NULL;
  Node *y = hb_reduce(g, any ? OP_reduce_max : OP_reduce_min, hb_cast(g, x, DT_U8), axes);
  y = N(g, not, N(g, eq, y, hb_num(g, y, 0)));
  return any ? N(g, or, y, init) : N(g, and, y, init);
}

static bool reduce_one(HloCall *c, Ints axes) {
  Graph *g = c->g;
  const char *op = hlo_body_op(c->op, 0);
  if (!op || c->nin != 2 || g->status) return false;
  const HloValue *x = &c->in[0], *init = &c->in[1];
  if (type_of(x->re)->dtype == DT_BOOL) {
    Node *y = reduce_bool(c, op, x->re, init->re, axes);
    if (y) hlo_give(c, y);
    return y != NULL;
  }
  for (int64_t i = 0; i < ARRAY_LEN(known); i++) {
    if (strcmp(known[i].name, op) || (x->im && known[i].pair != OP_add)) continue;
    HloValue v = {.re = reduce_known(c, &known[i], x->re, init->re, axes)};
    if (x->im) v.im = reduce_known(c, &known[i], x->im, init->im, axes);
    hlo_give_value(c, 0, v);
    return true;
  }
  return false;
}

static HloValue both(HloCall *c, const HloValue *v, HloMove *f, void *ctx) {
  return hlo_moved(c, v, f, ctx);
}

typedef struct Every {
  int64_t axis, from, to, step;
} Every;
static Node *every(HloCall *c, Node *x, void *ctx) {
  const Every *e = ctx;
  return hb_slice1(c->g, x, e->axis, e->from, e->to, e->step);
}
static HloValue joined(HloCall *c, const HloValue *a, const HloValue *b, int64_t axis) {
  HloValue v = {.type = a->type, .re = hb_concat(c->g, axis, 2, (Node *[]){a->re, b->re})};
  if (a->im) v.im = hb_concat(c->g, axis, 2, (Node *[]){a->im, b->im});
  return v;
}

// Halves until one element is left along the last axis.
static bool fold(HloCall *c, HloValue *v, int64_t n, int64_t axis, int64_t count) {
  HloValue *args = arena_array(c->h->arena, HloValue, 2 * n + 1),
           *out = arena_array(c->h->arena, HloValue, n + 1);
  while (count > 1) {
    int64_t even = count / 2 * 2;
    for (int64_t i = 0; i < n; i++) {
      args[i] = both(c, &v[i], every, &(Every){axis, 0, even, 2});
      args[n + i] = both(c, &v[i], every, &(Every){axis, 1, even, 2});
    }
    if (!hlo_lifted(c, 0, args, 2 * n, out, n)) return false;
    for (int64_t i = 0; i < n; i++) {
      HloValue rest = both(c, &v[i], every, &(Every){axis, even, count, 1});
      v[i] = count > even ? joined(c, &out[i], &rest, axis) : out[i];
    }
    count = (count + 1) / 2;
  }
  return !c->g->status;
}

typedef struct Flat {
  int rank, kept;
  int64_t perm[MAX_RANK];
  HloSize dims[MAX_RANK + 1];
} Flat;
static Node *lay_flat(HloCall *c, Node *x, void *ctx) {
  const Flat *f = ctx;
  return hs_reshape(c->g, hb_transpose(c->g, x, f->rank, f->perm), f->kept + 1, f->dims);
}
static Node *unflat(HloCall *c, Node *x, void *ctx) {
  const Flat *f = ctx;
  return hs_expand(c->g, hs_reshape(c->g, x, f->kept, f->dims), f->kept, f->dims);
}
static Node *spread_out(HloCall *c, Node *x, void *ctx) {
  const Flat *f = ctx;
  return hs_expand(c->g, x, f->kept, f->dims);
}

typedef struct At {
  Node *index;
  int64_t axis;
} At;
static Node *element_at(HloCall *c, Node *x, void *ctx) {
  const At *at = ctx;
  return NA(c->g, gather, (&(gather_attrs){.axis = at->axis}), x, at->index);
}

// One element after another, where it is known only in a run how many there are.
static bool fold_in_loop(HloCall *c, const HloValue *v, const HloValue *init, int64_t n,
                         const Flat *f, HloValue *out) {
  Graph *g = c->g;
  Arena *a = c->h->arena;
  BodyNodes own = {0}, results = {0}, captures, operands = {0};
  HloValue *args = arena_array(a, HloValue, 2 * n + 1);
  for (int64_t k = 0; k < n; k++) out[k] = both(c, &init[k], spread_out, (void *)(uintptr_t)f);
  vec_push(a, &operands, hs_node(g, f->dims[f->kept]));
  vec_push(a, &operands, g->none);
  uint32_t mark = (uint32_t)g->node.n;
  vec_push(a, &own, node_param(g, type_scalar(g, DT_I64), NULL));
  vec_push(a, &own, node_param(g, type_scalar(g, DT_BOOL), NULL));
  vec_push(a, &results, own.v[1]);
  At at = {own.v[0], f->kept};
  for (int64_t k = 0; k < n && !g->status; k++) {
    Node *part[] = {out[k].re, out[k].im}, *sum[2] = {NULL, NULL};
    for (int p = 0; p < 2 && part[p]; p++) {
      vec_push(a, &operands, part[p]);
      sum[p] = node_param(g, type_of(part[p]), NULL);
      vec_push(a, &own, sum[p]);
    }
    args[k] = (HloValue){.re = sum[0], .im = sum[1], .type = init[k].type};
    args[n + k] = both(c, &v[k], element_at, &at);
  }
  c->h->inside++;
  bool ok = hlo_lifted(c, 0, args, 2 * n, out, n);
  c->h->inside--;
  for (int64_t k = 0; ok && k < n; k++) {
    out[k] = both(c, &out[k], spread_out, (void *)(uintptr_t)f);
    vec_push(a, &results, out[k].re);
    if (out[k].im) vec_push(a, &results, out[k].im);
  }
  if (!ok || g->status) return false;
  Body *body = close_body(g, a, mark, &own, &results, &captures);
  if (g->status) return false;
  for (int64_t k = 0; k < captures.n; k++) vec_push(a, &operands, captures.v[k]);
  loop_attrs attrs = {.captures = captures.n, .body = body};
  Node *loop = node_new(g, OP_loop, (int)operands.n, operands.v, &attrs, (int)results.n - 1, NULL);
  for (int64_t k = 0, r = 0; k < n; k++) {
    out[k].re = node_proj(g, loop, (int)r++);
    if (out[k].im) out[k].im = node_proj(g, loop, (int)r++);
  }
  return !g->status;
}

// The axes that stay, then those that go as one.
static Flat flat_of(HloCall *c, Ints axes) {
  HloSize dims[MAX_RANK], count = hs_num(1);
  Flat f = {.rank = hs_all(c, &c->in[0], dims)};
  bool gone[MAX_RANK] = {false};
  int64_t k = 0;
  for (int64_t i = 0; i < axes.n; i++)
    if (axes.v[i] >= 0 && axes.v[i] < f.rank) gone[axes.v[i]] = true;
  for (int i = 0; i < f.rank; i++)
    if (!gone[i]) {
      f.dims[f.kept++] = dims[i];
      f.perm[k++] = i;
    }
  for (int i = 0; i < f.rank; i++)
    if (gone[i]) {
      count = hs_mul(c->g, count, dims[i]);
      f.perm[k++] = i;
    }
  f.dims[f.kept] = count;
  return f;
}

static void reduce_any(HloCall *c, Ints axes) {
  int64_t n = c->nin / 2;
  Flat f = flat_of(c, axes);
  HloSize count = f.dims[f.kept];
  if (c->g->status) return;
  HloValue *v = arena_array(c->h->arena, HloValue, n + 1),
           *args = arena_array(c->h->arena, HloValue, 2 * n + 1);
  HloValue *out = arena_array(c->h->arena, HloValue, n + 1);
  for (int64_t i = 0; i < n; i++) v[i] = both(c, &c->in[i], lay_flat, &f);
  if (count.node) {
    if (!fold_in_loop(c, v, c->in + n, n, &f, out)) return;
    for (int64_t i = 0; i < n; i++) hlo_give_value(c, i, out[i]);
    return;
  }
  if (!fold(c, v, n, f.kept, count.n)) return;
  for (int64_t i = 0; i < n; i++) {
    args[i] = c->in[n + i];
    if (count.n) args[n + i] = both(c, &v[i], unflat, &f);
    out[i] = args[i];
  }
  if (count.n && !hlo_lifted(c, 0, args, 2 * n, out, n)) return;
  for (int64_t i = 0; i < n; i++) hlo_give_value(c, i, both(c, &out[i], spread_out, &f));
}

static void reduce(HloCall *c) {
  Ints axes = hlo_ints(c, "dimensions");
  for (int64_t i = 0; i < c->nin; i++)
    if (!c->in[i].re) {
      hlo_refuse(c, "operand %lld is no tensor", (long long)i);
      return;
    }
  if (c->nin < 2 || c->nin % 2) {
    hlo_fail(c, "%lld operands", (long long)c->nin);
    return;
  }
  if (!reduce_one(c, axes) && !c->g->status) reduce_any(c, axes);
}

static void map(HloCall *c) {
  HloValue out;
  int64_t dims[MAX_RANK];
  if (!hlo_static_type(c, c->type[0], dims) || !hlo_lifted(c, 0, c->in, c->nin, &out, 1)) return;
  HloValue v = {.re = hb_expand(c->g, out.re, (int)c->type[0]->rank, dims)};
  if (out.im) v.im = hb_expand(c->g, out.im, (int)c->type[0]->rank, dims);
  hlo_give_value(c, 0, v);
}

// clang-format off
static const HloRow rows[] = {
    {"stablehlo.map",    map,    0, HLO_PLAIN, NULL},
    {"stablehlo.reduce", reduce, 0, HLO_PLAIN, NULL},
};
// clang-format on
HLO_TABLE(hlo_reduce);
