// import_move.c -- operations that move elements: shapes, axes, parts, pads, and those whose sizes
// are data.
#include "frontends/stablehlo/import.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "eval/scalar.h"

// ---- one result, the same movement of both parts of a complex value ----
static void move(HloCall *c, HloMove *f, void *ctx) {
  if (!c->nin || !c->in[0].re) {
    hlo_refuse(c, "operand 0 is no tensor");
    return;
  }
  HloValue v = hlo_moved(c, &c->in[0], f, ctx);
  hlo_give_value(c, 0, v);
}

// An i64 vector from an operand that holds sizes or places.
static Node *places(HloCall *c, int64_t i) {
  Node *x = hlo_in(c, i);
  return c->g->status ? x : hb_cast(c->g, x, DT_I64);
}

static Node *to_shape(HloCall *c, Node *x, void *ctx) {
  (void)ctx;
  int64_t dims[MAX_RANK];
  const MlirType *t = c->type[0];
  if (c->h->lift && !t->rank) return x;
  if (!hlo_static_type(c, t, dims)) return x;
  return hb_reshape(c->g, x, (int)t->rank, dims);
}
static void reshape(HloCall *c) { move(c, to_shape, NULL); }

static Node *to_given_shape(HloCall *c, Node *x, void *ctx) {
  return NA(c->g, reshape, (&(reshape_attrs){.allowzero = true}), x, (Node *)ctx);
}
static void dynamic_reshape(HloCall *c) { move(c, to_given_shape, places(c, 1)); }

static Node *permuted(HloCall *c, Node *x, void *ctx) {
  const Ints *perm = ctx;
  return hb_transpose(c->g, x, (int)perm->n, perm->v);
}
static void transpose(HloCall *c) {
  Ints perm = hlo_ints(c, "permutation");
  move(c, permuted, &perm);
}

static Node *reversed(HloCall *c, Node *x, void *ctx) { return hb_reverse(c->g, x, *(Ints *)ctx); }
static void reverse(HloCall *c) {
  Ints dims = hlo_ints(c, "dimensions");
  move(c, reversed, &dims);
}

// ---- broadcasts ----
// The operand's axes at their places among the result's, the others 1: then it expands.
static Node *spaced(HloCall *c, Node *x, Ints at, int64_t rank) {
  const Type *t = type_of(x);
  bool ascending = at.n == t->rank;
  for (int64_t i = 0; ascending && i < at.n; i++)
    if (at.v[i] < 0 || at.v[i] >= rank || (i && at.v[i] <= at.v[i - 1])) ascending = false;
  if (!ascending) {
    int64_t perm[MAX_RANK], sorted[MAX_RANK];
    if (at.n != t->rank || at.n > MAX_RANK) {
      hlo_fail(c, "%lld broadcast dimensions of a tensor of rank %d", (long long)at.n, t->rank);
      return x;
    }
    for (int64_t i = 0, n = 0; i < rank; i++)
      for (int64_t k = 0; k < at.n; k++)
        if (at.v[k] == i && n < at.n) {
          perm[n] = k;
          sorted[n++] = i;
        }
    x = hb_transpose(c->g, x, (int)at.n, perm);
    at = (Ints){at.n, arena_dup(c->h->arena, sorted, (int64_t)sizeof sorted)};
  }
  int64_t axes[MAX_RANK], n = 0;
  for (int64_t i = 0, k = 0; i < rank && n < MAX_RANK; i++) {
    if (k < at.n && at.v[k] == i)
      k++;
    else
      axes[n++] = i;
  }
  return n ? N(c->g, unsqueeze, x, node_i64s(c->g, n, axes)) : x;
}

typedef struct Broadcast {
  Ints at;
  Node *shape;  // or NULL: the result's type
  int64_t rank;
} Broadcast;
static Node *broadcasted(HloCall *c, Node *x, void *ctx) {
  const Broadcast *b = ctx;
  int64_t dims[MAX_RANK];
  if (c->h->lift && !b->rank) return x;
  if (!b->shape && !hlo_static_type(c, c->type[0], dims)) return x;
  if (c->g->status) return x;
  x = spaced(c, x, b->at, b->rank);
  return b->shape ? N(c->g, expand, x, b->shape) : hb_expand(c->g, x, (int)b->rank, dims);
}
static void broadcast_in_dim(HloCall *c) {
  Broadcast b = {.at = hlo_ints(c, "broadcast_dimensions"), .rank = c->type[0]->rank};
  if (c->row->op) b.shape = places(c, 1);
  move(c, broadcasted, &b);
}
static void broadcast(HloCall *c) {
  int64_t rank = c->type[0]->rank, n = c->in[0].type->rank;
  int64_t *at = arena_array(c->h->arena, int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) at[i] = rank - n + i;
  move(c, broadcasted, &(Broadcast){.at = {n, at}, .rank = rank});
}

// ---- parts ----
typedef struct Slice {
  Ints begin, end, step;
} Slice;
static Node *sliced(HloCall *c, Node *x, void *ctx) {
  const Slice *s = ctx;
  return hb_slice(c->g, x, (int)s->begin.n, s->begin.v, s->end.v, s->step.v);
}
static void slice(HloCall *c) {
  int64_t rank = c->in[0].type->rank;
  Slice s = {hlo_ints_or(c, "start_indices", rank, 0),
             hlo_ints_or(c, "limit_indices", rank, INT64_MAX), hlo_ints_or(c, "strides", rank, 1)};
  move(c, sliced, &s);
}

static Node *sliced_by_nodes(HloCall *c, Node *x, void *ctx) {
  (void)ctx;
  return N(
      c->g, slice, x, places(c, 1), places(c, 2),
      N(c->g, range, node_i64(c->g, 0), node_i64(c->g, c->in[0].type->rank), node_i64(c->g, 1)),
      places(c, 3));
}
static void real_dynamic_slice(HloCall *c) { move(c, sliced_by_nodes, NULL); }

// Start places as one vector, kept where the part fits.
static Node *starts(HloCall *c, int64_t first, int rank, const HloSize *dims,
                    const HloSize *sizes) {
  Graph *g = c->g;
  Node *at[MAX_RANK];
  HloSize last[MAX_RANK];
  if (c->nin - first != rank) {
    hlo_fail(c, "%lld start indices for rank %d", (long long)(c->nin - first), rank);
    return g->poison;
  }
  for (int i = 0; i < rank; i++) {
    at[i] = hb_reshape(g, places(c, first + i), 1, (int64_t[]){1});
    last[i] = hs_max(g, hs_sub(g, dims[i], sizes[i]), 0);
  }
  Node *v = hb_concat(g, 0, rank, at);
  return N(g, min, N(g, max, v, node_i64(g, 0)), hs_vector(g, rank, last));
}

static void dynamic_slice(HloCall *c) {
  Graph *g = c->g;
  HloSize dims[MAX_RANK], part_dims[MAX_RANK];
  int rank = hs_all(c, &c->in[0], dims);
  Ints sizes = hlo_ints_or(c, "slice_sizes", rank, 1);
  for (int i = 0; i < rank; i++) part_dims[i] = hs_num(sizes.v[i]);
  if (!rank || g->status) {
    hlo_give_value(c, 0, c->in[0]);
    return;
  }
  Node *from = starts(c, 1, rank, dims, part_dims);
  Node *to = N(g, add, from, node_i64s(g, rank, sizes.v));
  Node *axes = N(g, range, node_i64(g, 0), node_i64(g, rank), node_i64(g, 1));
  HloValue out = {0};
  Node *part[] = {c->in[0].re, c->in[0].im}, *got[2] = {NULL, NULL};
  for (int k = 0; k < 2 && part[k]; k++)
    got[k] = hb_reshape(g, N(g, slice, part[k], from, to, axes), rank, sizes.v);
  out.re = got[0];
  out.im = got[1];
  hlo_give_value(c, 0, out);
}

// A place lies in the update where its distance from the start is below the update's size; there it
// is read.  An axis along which the update is whole begins at 0.
static void dynamic_update_slice(HloCall *c) {
  Graph *g = c->g;
  HloSize dims[MAX_RANK], sizes[MAX_RANK], one = hs_num(1);
  int rank = hs_all(c, &c->in[0], dims);
  bool empty = false;
  if (hs_all(c, &c->in[1], sizes) != rank) {
    hlo_fail(c, "an update of rank %d, must be %d", hlo_rank(&c->in[1]), rank);
    return;
  }
  for (int i = 0; i < rank; i++) empty = empty || hs_is(sizes[i], 0);
  if (!rank || empty) {
    hlo_give_value(c, 0, c->in[rank ? 0 : 1]);
    return;
  }
  Node *from = starts(c, 2, rank, dims, sizes), *inside = NULL,
       *got[2] = {c->in[1].re, c->in[1].im};
  for (int i = 0; i < rank && !g->status; i++) {
    if (hs_same(dims[i], sizes[i])) continue;
    Node *at = hb_slice1(g, from, 0, i, i + 1, 1);
    Node *d = N(g, sub, hs_iota(g, DT_I64, 1, &dims[i], 0), at);
    Node *in = N(g, and, N(g, le, node_i64(g, 0), d), N(g, lt, d, hs_node(g, sizes[i])));
    Node *last = hs_node(g, hs_sub(g, sizes[i], one));
    Node *index = N(g, min, N(g, max, d, node_i64(g, 0)), last);
    HloSize line[MAX_RANK];
    for (int k = 0; k < rank; k++) line[k] = k == i ? dims[i] : one;
    in = hs_reshape(g, in, rank, line);
    inside = inside ? N(g, and, inside, in) : in;
    for (int k = 0; k < 2 && got[k]; k++)
      got[k] =
          node_new(g, OP_gather, 2, (Node *[]){got[k], index}, &(gather_attrs){.axis = i}, 0, NULL);
  }
  HloValue out = {.re = inside ? hb_where(g, inside, got[0], c->in[0].re) : got[0], .im = got[1]};
  if (got[1] && inside) out.im = hb_where(g, inside, got[1], c->in[0].im);
  hlo_give_value(c, 0, out);
}

// ---- joins, pads ----
static void concatenate(HloCall *c) {
  Graph *g = c->g;
  int64_t axis = mlir_int(mlir_attr(c->op, "dimension"), 0);
  Node **re = arena_array(c->h->arena, Node *, c->nin + 1),
       **im = arena_array(c->h->arena, Node *, c->nin + 1);
  bool complex = c->nin && c->in[0].im;
  for (int64_t i = 0; i < c->nin; i++) {
    re[i] = complex ? c->in[i].re : hlo_in(c, i);
    im[i] = c->in[i].im;
    if (complex && !im[i]) im[i] = hb_zeros(g, re[i]);
  }
  HloValue out = {.re = hb_concat(g, axis, (int)c->nin, re)};
  if (complex) out.im = hb_concat(g, axis, (int)c->nin, im);
  hlo_give_value(c, 0, out);
}

// Edges of widths that are computed when the program runs, around what is spread out before.
static void pad_open(HloCall *c, int rank, Ints interior) {
  Graph *g = c->g;
  int64_t zero[MAX_RANK] = {0};
  Node *widths = hb_concat(g, 0, 2, (Node *[]){places(c, 2), places(c, 3)});
  Node *part[] = {c->in[0].re, c->in[0].im}, *with[] = {c->in[1].re, c->in[1].im},
       *got[2] = {NULL, NULL};
  for (int k = 0; k < 2 && part[k]; k++) {
    Node *x = hb_pad(g, part[k], with[k], rank, zero, zero, interior.v);
    got[k] = N(g, pad, x, widths, with[k]);
  }
  hlo_give_value(c, 0, (HloValue){.re = got[0], .im = got[1]});
}

static void pad(HloCall *c) {
  Graph *g = c->g;
  int rank = hlo_rank(&c->in[0]);
  Ints w[3] = {hlo_ints_or(c, "edge_padding_low", rank, 0),
               hlo_ints_or(c, "edge_padding_high", rank, 0),
               hlo_ints_or(c, "interior_padding", rank, 0)};
  bool open = false;
  for (int k = 0; k < 3 && c->row->op && !g->status; k++)
    if (!node_ints(g, places(c, 2 + k), &w[k])) {
      if (k == 2) hlo_refuse(c, "with interior widths that are data");
      open = true;
    } else if (w[k].n != rank) {
      hlo_fail(c, "%lld widths for rank %d", (long long)w[k].n, rank);
    }
  if (g->status) return;
  if (open) {
    pad_open(c, rank, w[2]);
    return;
  }
  HloValue out = {.re = hb_pad(g, c->in[0].re, c->in[1].re, rank, w[0].v, w[1].v, w[2].v)};
  if (c->in[0].im) out.im = hb_pad(g, c->in[0].im, c->in[1].im, rank, w[0].v, w[1].v, w[2].v);
  hlo_give_value(c, 0, out);
}

// ---- made from sizes ----
static void iota(HloCall *c) {
  Graph *g = c->g;
  const MlirType *t = c->type[0];
  DType d = hlo_dtype(c, t);
  int64_t dims[MAX_RANK], axis = mlir_int(mlir_attr(c->op, "iota_dimension"), 0);
  Node *x;
  if (c->row->op && !g->status) {
    Node *shape = places(c, 0), *one = node_i64(g, 1);
    Node *n = N(g, gather, shape, node_i64(g, axis));
    x = hb_cast(g, N(g, range, node_i64(g, 0), n, one), d);
    Broadcast b = {.at = {1, &axis}, .shape = shape, .rank = t->rank};
    x = broadcasted(c, x, &b);
  } else {
    if (!hlo_static_type(c, t, dims)) return;
    x = hb_iota(g, d, (int)t->rank, dims, axis);
  }
  HloValue out = {.re = x};
  if (t->elem == ME_C64 || t->elem == ME_C128) out.im = hb_zeros(g, x);
  hlo_give_value(c, 0, out);
}

static void get_dimension_size(HloCall *c) {
  int64_t axis = mlir_int(mlir_attr(c->op, "dimension"), 0);
  if (!c->in[0].re || c->g->status) return;
  Node *n = NA(c->g, shape, (&(shape_attrs){.start = axis, .end = axis + 1}), c->in[0].re);
  hlo_give(c, hb_reshape(c->g, hb_cast(c->g, n, DT_I32), 0, NULL));
}

// The first elements along an axis; the declared type has the bound.
static void set_dimension_size(HloCall *c) {
  int64_t axis = mlir_int(mlir_attr(c->op, "dimension"), 0);
  if (!c->in[0].re || c->g->status) return;
  Node *n = hb_reshape(c->g, places(c, 1), 1, (int64_t[]){1});
  hlo_give(c, N(c->g, slice, c->in[0].re, node_i64s(c->g, 1, (int64_t[]){0}), n,
                node_i64s(c->g, 1, &axis)));
}

// ---- the same bits ----
static DType bits_of(DType t) {
  static const DType list[] = {DT_U2, DT_U4, DT_U8, DT_U16, DT_U32, DT_U64};
  for (int64_t i = 0; i < ARRAY_LEN(list); i++)
    if (dtype_bits(list[i]) == dtype_bits(t)) return list[i];
  return DT_U8;
}
static Node *to_word(Graph *g, Node *x, DType from) {
  return hb_cast(g, from == DT_BOOL ? x : hb_bits(g, x, bits_of(from)), DT_U64);
}
static Node *from_word(Graph *g, Node *u, DType to) {
  return to == DT_BOOL ? hb_cast(g, u, to) : hb_bits(g, hb_cast(g, u, bits_of(to)), to);
}

// Narrower elements: a new last axis, the low bits first; wider ones: the last axis goes into them.
static Node *recast(Graph *g, Node *x, DType to) {
  if (g->status) return g->poison;
  DType from = type_of(x)->dtype;
  int wide = from == DT_BOOL ? 1 : dtype_bits(from), narrow = to == DT_BOOL ? 1 : dtype_bits(to);
  if (wide == narrow) return hb_bits(g, x, to);
  int64_t k = wide > narrow ? wide / narrow : narrow / wide, shifts[64], rank = type_of(x)->rank;
  for (int64_t i = 0; i < k; i++) shifts[i] = i * MIN(wide, narrow);
  Node *by = hb_cast(g, node_i64s(g, k, shifts), DT_U64), *u = to_word(g, x, from);
  if (wide > narrow) {
    u = N(g, shift_right, N(g, unsqueeze, u, node_i64s(g, 1, &rank)), by);
    uint64_t mask = ((uint64_t)1 << narrow) - 1;
    return from_word(g, N(g, bit_and, u, hb_u64(g, DT_U64, mask)), to);
  }
  int64_t last = rank - 1;
  return from_word(g, hb_reduce(g, OP_reduce_sum, N(g, shift_left, u, by), (Ints){1, &last}), to);
}

// A complex number is two reals along one more axis.
static void bitcast_convert(HloCall *c) {
  Graph *g = c->g;
  DType to = hlo_dtype(c, c->type[0]);
  if (g->status || !c->in[0].re) return;
  Node *x = c->in[0].re;
  int64_t last = type_of(x)->rank;
  if (c->in[0].im) {
    Node *axis = node_i64s(g, 1, &last);
    x = hb_concat(g, last, 2,
                  (Node *[]){N(g, unsqueeze, x, axis), N(g, unsqueeze, c->in[0].im, axis)});
  }
  x = recast(g, x, to);
  if (g->status) return;
  HloValue out = {.re = x};
  if (c->type[0]->elem == ME_C64 || c->type[0]->elem == ME_C128) {
    last = type_of(x)->rank - 1;
    Node *axis = node_i64s(g, 1, &last);
    out.re = N(g, squeeze, hb_slice1(g, x, last, 0, 1, 1), axis);
    out.im = N(g, squeeze, hb_slice1(g, x, last, 1, 2, 1), axis);
  }
  hlo_give_value(c, 0, out);
}

// clang-format off
static const HloRow rows[] = {
    {"stablehlo.bitcast_convert",          bitcast_convert,      0, HLO_OWN,   NULL},
    {"stablehlo.broadcast",                broadcast,            0, HLO_MOVES, NULL},
    {"stablehlo.broadcast_in_dim",         broadcast_in_dim,     0, HLO_MOVES, NULL},
    {"stablehlo.concatenate",              concatenate,          0, HLO_MOVES, NULL},
    {"stablehlo.dynamic_broadcast_in_dim", broadcast_in_dim,     1, HLO_MOVES, NULL},
    {"stablehlo.dynamic_iota",             iota,                 1, HLO_MOVES, NULL},
    {"stablehlo.dynamic_pad",              pad,                  1, HLO_MOVES, "interior widths must be constants"},
    {"stablehlo.dynamic_reshape",          dynamic_reshape,      0, HLO_MOVES, NULL},
    {"stablehlo.dynamic_slice",            dynamic_slice,        0, HLO_MOVES, NULL},
    {"stablehlo.dynamic_update_slice",     dynamic_update_slice, 0, HLO_MOVES, NULL},
    {"stablehlo.get_dimension_size",       get_dimension_size,   0, HLO_MOVES, NULL},
    {"stablehlo.iota",                     iota,                 0, HLO_PLAIN, NULL},
    {"stablehlo.pad",                      pad,                  0, HLO_MOVES, NULL},
    {"stablehlo.real_dynamic_slice",       real_dynamic_slice,   0, HLO_MOVES, NULL},
    {"stablehlo.reshape",                  reshape,              0, HLO_MOVES, NULL},
    {"stablehlo.reverse",                  reverse,              0, HLO_MOVES, NULL},
    {"stablehlo.set_dimension_size",       set_dimension_size,   0, HLO_MOVES, NULL},
    {"stablehlo.slice",                    slice,                0, HLO_MOVES, NULL},
    {"stablehlo.transpose",                transpose,            0, HLO_MOVES, NULL},
};
// clang-format on
HLO_TABLE(hlo_move);
