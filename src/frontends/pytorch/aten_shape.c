// aten_shape.c -- ATen operators that move elements: shapes, axes, parts.
#include "frontends/pytorch/aten.h"

#include "eval/movement.h"
#include "eval/scalar.h"

static void same(AtenCall *c) { at_give(c, at_tensor(c, 0)); }

static void dropout_row(AtenCall *c) {
  if (at_bool(c, 2) && at_f64(c, 1) > 0) at_fail(c, "in training; call eval() before exporting");
  same(c);
}

static void view_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c, bt_reshape_to(c->g, x, at_shape(c, 1)));
}
static void view_as(AtenCall *c) {
  at_give(c, N(c->g, reshape, at_tensor(c, 0), N(c->g, shape, at_tensor(c, 1))));
}

static void flatten_row(AtenCall *c) {  // (self, start, end)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x), from = (int)at_axis(c, 1, rank), to = (int)at_axis(c, 2, rank);
  int64_t rest = -1;
  if (g->status) return;
  if (!rank || from >= to) {
    at_give(c, rank ? x : bt_reshape(g, x, 1, &rest));
    return;
  }
  Node *part[3];
  int n = 0;
  if (from) part[n++] = bt_dims(g, x, 0, from);
  part[n++] = node_i64s(g, 1, &rest);
  if (to + 1 < rank) part[n++] = bt_dims(g, x, to + 1, rank);
  at_give(c, bt_reshape_to(g, x, bt_concat(g, 0, n, part)));
}
static void unflatten_row(AtenCall *c) {  // (self, dim, sizes)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *part[3];
  int rank = at_rank(c, x), at = (int)at_axis(c, 1, rank), n = 0;
  if (at) part[n++] = bt_dims(g, x, 0, at);
  part[n++] = at_shape(c, 2);
  if (at + 1 < rank) part[n++] = bt_dims(g, x, at + 1, rank);
  at_give(c, bt_reshape_to(g, x, bt_concat(g, 0, n, part)));
}

static void permute_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  Ints perm = at_ints(c, 1);
  if (c->g->status) return;
  Ints axes = rank ? at_axes(c, 1, rank) : perm;
  if (axes.n != rank) at_fail(c, "%lld axes for a tensor of rank %d", (long long)axes.n, rank);
  at_give(c, bt_transpose(c->g, x, rank, axes.v));
}
static void transpose_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  at_give(c, bt_swap(c->g, x, rank, (int)at_axis(c, 1, rank), (int)at_axis(c, 2, rank)));
}
static void t_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c, at_rank(c, x) == 2 ? bt_swap(c->g, x, 2, 0, 1) : x);
}
static void mt_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  at_give(c, rank >= 2 ? bt_swap(c->g, x, rank, rank - 2, rank - 1) : x);
}
static void movedim_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x), n = 0;
  Ints from = at_axes(c, 1, rank), to = at_axes(c, 2, rank);
  int64_t perm[MAX_RANK];
  if (c->g->status) return;
  bool taken[MAX_RANK] = {false};
  for (int i = 0; i < rank; i++) perm[i] = -1;
  for (int64_t i = 0; i < from.n && i < to.n; i++) {
    perm[to.v[i]] = from.v[i];
    taken[from.v[i]] = true;
  }
  for (int i = 0; i < rank; i++) {
    if (perm[i] >= 0) continue;
    while (taken[n]) n++;
    perm[i] = n++;
  }
  at_give(c, bt_transpose(c->g, x, rank, perm));
}

static void unsqueeze_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  at_give(c, bt_unsqueeze(c->g, x, at_axis(c, 1, at_rank(c, x) + 1)));
}
// Only axes of size 1 go away.
static void squeeze_axes(AtenCall *c, Node *x, Ints axes) {
  Graph *g = c->g;
  int64_t gone[MAX_RANK];
  int n = 0;
  for (int64_t i = 0; i < axes.n && !g->status; i++) {
    Dim d = type_of(x)->dims[axes.v[i]];
    if (ie_is_const(d) && d->value == 1) gone[n++] = axes.v[i];
  }
  at_give(c, n ? N(g, squeeze, x, node_i64s(g, n, gone)) : x);
}
static void squeeze_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  int64_t every[MAX_RANK];
  for (int i = 0; i < rank; i++) every[i] = i;
  bool some = c->schema->nargs > 1;
  squeeze_axes(c, x, some && rank ? at_axes(c, 1, rank) : (Ints){rank, every});
}

static void expand_row(AtenCall *c) {  // -1 leaves a size
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  const AtenValue *v = at_arg(c, 1);
  AtenValue sizes = av_list(c->a->arena, AV_LIST);
  for (int64_t i = 0; v->list && i < v->list->v.n; i++) {
    AtenValue one = v->list->v.v[i];
    if (av_is_known(&one) && one.i == -1) one.i = 1;
    av_push(c->a->arena, &sizes, one);
  }
  c->arg[1] = sizes;
  at_give(c, N(g, expand, x, at_shape(c, 1)));
}
static void expand_as(AtenCall *c) {
  at_give(c, N(c->g, expand, at_tensor(c, 0), N(c->g, shape, at_tensor(c, 1))));
}
static void broadcast_to(AtenCall *c) { expand_row(c); }

static void repeat_row(AtenCall *c) {  // leading ones are new axes
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *times = at_shape(c, 1);
  if (g->status) return;
  int rank = at_rank(c, x), n = (int)c->arg[1].list->v.n;
  for (; rank < n; rank++) x = bt_unsqueeze(g, x, 0);
  if (rank > n) {  // tile: missing ones are 1
    int64_t ones[MAX_RANK];
    for (int i = 0; i < rank - n; i++) ones[i] = 1;
    times = bt_concat(g, 0, 2, (Node *[]){node_i64s(g, rank - n, ones), times});
  }
  at_give(c, N(g, tile, x, times));
}
static void repeat_interleave(AtenCall *c) {  // (self, repeats, dim?, *, output_size)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t times = at_int(c, 1), rest = -1;
  if (at_none(c, 2)) x = bt_reshape(g, x, 1, &rest);
  int rank = at_rank(c, x);
  int64_t axis = at_none(c, 2) ? 0 : at_axis(c, 2, rank), reps[MAX_RANK];
  if (g->status || rank + 1 > MAX_RANK) return;
  for (int i = 0; i <= rank; i++) reps[i] = i == axis + 1 ? times : 1;
  Node *part[3], *y = N(g, tile, bt_unsqueeze(g, x, axis + 1), node_i64s(g, rank + 1, reps));
  int n = 0;
  if (axis) part[n++] = bt_dims(g, x, 0, (int)axis);
  part[n++] = node_i64s(g, 1, &rest);
  if (axis + 1 < rank) part[n++] = bt_dims(g, x, (int)axis + 1, rank);
  at_give(c, bt_reshape_to(g, y, bt_concat(g, 0, n, part)));
}

// ---- parts ----

static Node *as_vector(AtenCall *c, const AtenValue *v, int64_t dflt) {
  int64_t one = 1;
  if (v->kind == AV_NONE) return node_i64s(c->g, 1, &dflt);
  if (av_is_known(v)) return node_i64s(c->g, 1, &v->i);
  return N(c->g, reshape, av_node(c->g, v, DT_I64), node_i64s(c->g, 1, &one));
}
static void slice_row(AtenCall *c) {  // (self, dim, start, end, step)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 1, at_rank(c, x)), step = at_int(c, 4);
  if (g->status) return;
  const AtenValue *from = at_arg(c, 2), *to = at_arg(c, 3);
  bool all = (from->kind == AV_NONE || (av_is_known(from) && from->i == 0)) && step == 1 &&
             (to->kind == AV_NONE || (av_is_known(to) && to->i == INT64_MAX));
  if (all) {
    at_give(c, x);
    return;
  }
  Node *steps = node_i64s(g, 1, &step);
  at_give(c, N(g, slice, x, as_vector(c, from, 0), as_vector(c, to, INT64_MAX),
               node_i64s(g, 1, &axis), steps));
}
static void narrow_row(AtenCall *c) {  // (self, dim, start, length)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 1, at_rank(c, x));
  AtenValue end = aten_number_op(c->a, '+', at_arg(c, 2), at_arg(c, 3), c->at);
  at_give(c, N(g, slice, x, as_vector(c, at_arg(c, 2), 0), as_vector(c, &end, 0),
               node_i64s(g, 1, &axis)));
}

enum { MOST_PARTS = 4096 };
static void parts(AtenCall *c, Node *x, int64_t axis, int64_t n, const int64_t *sizes, bool drop) {
  Graph *g = c->g;
  if (n > MOST_PARTS || n < 0) at_fail(c, "%lld parts", (long long)n);
  if (g->status) return;
  Node **out = arena_array(&g->arena, Node *, n + 1);
  Node *whole = n == 1 ? x
                       : node_new(g, OP_split, 2, (Node *[]){x, node_i64s(g, n, sizes)},
                                  &(split_attrs){.axis = axis}, (int)n, NULL);
  for (int64_t i = 0; i < n; i++) {
    out[i] = n == 1 ? x : node_proj(g, whole, (int)i);
    if (drop) out[i] = bt_squeeze(g, out[i], axis);
  }
  at_give_list(c, (int)n, out);
}
static void split_each(AtenCall *c, Node *x, int64_t axis, int64_t each) {
  int64_t whole = at_known_dim(c, x, (int)axis);
  if (c->g->status) return;
  if (each < 1) {
    at_fail(c, "parts of %lld", (long long)each);
    return;
  }
  int64_t n = MAX((whole + each - 1) / each, 1);
  if (n > MOST_PARTS) {
    at_fail(c, "%lld parts", (long long)n);
    return;
  }
  int64_t *sizes = arena_array(&c->g->arena, int64_t, n);
  for (int64_t i = 0; i < n; i++) sizes[i] = MIN(each, whole - i * each);
  parts(c, x, axis, n, sizes, false);
}
static void split_row(AtenCall *c) {  // (self, size, dim)
  Node *x = at_tensor(c, 0);
  split_each(c, x, at_axis(c, 2, at_rank(c, x)), at_int(c, 1));
}
// Sizes of which the run knows some.
static void split_by_node(AtenCall *c, Node *x, int64_t axis, Node *sizes, int n) {
  Node **out = arena_array(&c->g->arena, Node *, n + 1), *src[] = {x, sizes};
  Node *whole = node_new(c->g, OP_split, 2, src, &(split_attrs){.axis = axis}, n, NULL);
  for (int i = 0; i < n && !c->g->status; i++) out[i] = node_proj(c->g, whole, i);
  if (!c->g->status) at_give_list(c, n, out);
}
static void split_sizes(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  const AtenValue *v = at_arg(c, 1);
  bool known = true;
  for (int64_t i = 0; v->list && i < v->list->v.n; i++)
    known = known && av_is_known(&v->list->v.v[i]);
  if (!known && v->list->v.n > 1 && v->list->v.n <= MAX_RANK) {
    split_by_node(c, x, at_axis(c, 2, at_rank(c, x)), at_shape(c, 1), (int)v->list->v.n);
    return;
  }
  Ints sizes = at_ints(c, 1);
  parts(c, x, at_axis(c, 2, at_rank(c, x)), sizes.n, sizes.v, false);
}
static void chunk_row(AtenCall *c) {  // (self, chunks, dim)
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 2, at_rank(c, x)), n = at_int(c, 1);
  int64_t whole = at_known_dim(c, x, (int)axis);
  if (c->g->status || n < 1) return;
  split_each(c, x, axis, MAX((whole + n - 1) / n, 1));
}
static void unbind_row(AtenCall *c) {
  Node *x = at_tensor(c, 0);
  int64_t axis = at_axis(c, 1, at_rank(c, x)), n = at_known_dim(c, x, (int)axis);
  if (c->g->status || n < 0 || n > MOST_PARTS) return;
  int64_t *sizes = arena_array(&c->g->arena, int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) sizes[i] = 1;
  parts(c, x, axis, n, sizes, true);
}

// ---- joining ----

static int take_list(AtenCall *c, int i, Node ***out) {
  const AtenValue *v = at_arg(c, i);
  int64_t n = v->list ? v->list->v.n : 0;
  Node **x = arena_array(&c->g->arena, Node *, n + 1);
  *out = x;
  if (c->g->status) return 0;
  if (!n) at_fail(c, "an empty list");
  DType t = n ? aten_promote(v->list->v.v, (int)n) : 0;
  for (int64_t k = 0; k < n; k++) x[k] = av_node(c->g, &v->list->v.v[k], t);
  return c->g->status ? 0 : (int)n;
}
static void cat_row(AtenCall *c) {
  Node **x;
  int n = take_list(c, 0, &x), kept = 0;
  if (!n) return;
  // An empty vector joins anything.
  int rank = 0;
  for (int i = 0; i < n; i++) rank = MAX(rank, at_rank(c, x[i]));
  for (int i = 0; i < n && !c->g->status; i++) {
    const Type *t = type_of(x[i]);
    bool nothing = rank > 1 && t->rank == 1 && ie_is_const(t->dims[0]) && !t->dims[0]->value;
    if (!nothing) x[kept++] = x[i];
  }
  if (c->g->status || !kept) return;
  at_give(c, bt_concat(c->g, at_axis(c, 1, rank), kept, x));
}
static void stack_row(AtenCall *c) {
  Node **x;
  int n = take_list(c, 0, &x);
  if (!n) return;
  int64_t axis = at_axis(c, 1, at_rank(c, x[0]) + 1);
  for (int i = 0; i < n; i++) x[i] = bt_unsqueeze(c->g, x[i], axis);
  at_give(c, bt_concat(c->g, axis, n, x));
}
static void flip_row(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  Ints axes = at_ints(c, 1).n ? at_axes(c, 1, at_rank(c, x)) : (Ints){0};
  int64_t from[MAX_RANK], to[MAX_RANK], step[MAX_RANK];
  if (g->status || axes.n > MAX_RANK) return;
  for (int64_t i = 0; i < axes.n; i++) from[i] = -1, to[i] = INT64_MIN + 1, step[i] = -1;
  if (!axes.n) {
    at_give(c, x);
    return;
  }
  at_give(c, N(g, slice, x, node_i64s(g, axes.n, from), node_i64s(g, axes.n, to),
               node_i64s(g, axes.n, axes.v), node_i64s(g, axes.n, step)));
}
static void roll_row(AtenCall *c) {  // (self, shifts, dims)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  Ints by = at_ints(c, 1), axes = at_ints(c, 2);
  if (!axes.n) at_fail(c, "without axes");
  axes = at_axes(c, 2, at_rank(c, x));
  for (int64_t i = 0; i < axes.n && i < by.n && !g->status; i++) {
    int64_t n = at_known_dim(c, x, (int)axes.v[i]), k = n > 0 ? ((by.v[i] % n) + n) % n : 0;
    if (k)
      x = bt_concat(
          g, axes.v[i], 2,
          (Node *[]){bt_slice(g, x, axes.v[i], n - k, n), bt_slice(g, x, axes.v[i], 0, n - k)});
  }
  at_give(c, x);
}
static void triangle(AtenCall *c) {
  Graph *g = c->g;
  trilu_attrs at = {.upper = c->schema->row->op};
  at_give(c, NA(g, trilu, &at, at_tensor(c, 0), node_i64(g, at_int(c, 1))));
}
static void pixel_shuffle(AtenCall *c) {
  depth_to_space_attrs at = {.blocksize = at_int(c, 1), .mode = 1};
  at_give(c, NA(c->g, depth_to_space, &at, at_tensor(c, 0)));
}
static void pixel_unshuffle(AtenCall *c) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t r = at_int(c, 1);
  if (at_rank(c, x) != 4 || r < 1) {
    at_fail(c, "of rank %d", at_rank(c, x));
    return;
  }
  int64_t ch = at_known_dim(c, x, 1), h = at_known_dim(c, x, 2), w = at_known_dim(c, x, 3);
  int64_t six[6] = {-1, ch, h / r, r, w / r, r}, perm[6] = {0, 1, 3, 5, 2, 4};
  int64_t four[4] = {-1, ch * r * r, h / r, w / r};
  at_give(c, bt_reshape(g, bt_transpose(g, bt_reshape(g, x, 6, six), 6, perm), 4, four));
}
static void diagonal_row(
    AtenCall *c) {  // (self, offset, dim1, dim2), of the last two axes' main diagonal by a gather
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x), a = (int)at_axis(c, 2, rank), b = (int)at_axis(c, 3, rank), n = 0;
  int64_t offset = at_int(c, 1), perm[MAX_RANK];
  if (g->status || rank < 2) return;
  perm[0] = a, perm[1] = b;
  for (int i = 0; i < rank; i++)
    if (i != a && i != b) perm[2 + n++] = i;
  int64_t rows = at_known_dim(c, x, a), cols = at_known_dim(c, x, b);
  int64_t r0 = offset < 0 ? -offset : 0, c0 = offset > 0 ? offset : 0;
  int64_t len = MAX(MIN(rows - r0, cols - c0), 0);
  if (g->status) return;
  int64_t *at = arena_array(&g->arena, int64_t, 2 * len + 1), dims[2] = {len, 2};
  for (int64_t i = 0; i < len; i++) at[2 * i] = r0 + i, at[2 * i + 1] = c0 + i;
  Node *y =
      N(g, gather_nd, bt_transpose(g, x, rank, perm), node_const(g, DT_I64, 2, dims, at, NULL));
  for (int i = 0; i < rank - 2; i++) perm[i] = i + 1;
  perm[rank - 2] = 0;  // the diagonal is the last axis
  at_give(c, bt_transpose(g, y, rank - 1, perm));
}

static const AtenRow rows[] = {
    // clang-format off
    {"view(Tensor(a) self, SymInt[] size) -> Tensor(a)", view_row, 0, NULL},
    {"reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", view_row, 0, NULL},
    {"_unsafe_view(Tensor self, SymInt[] size) -> Tensor", view_row, 0, NULL},
    {"view_as(Tensor(a) self, Tensor other) -> Tensor(a)", view_as, 0, NULL},
    {"reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", view_as, 0, NULL},
    {"flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", flatten_row, 0, NULL},
    {"unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", unflatten_row, 0, NULL},
    {"permute(Tensor(a) self, int[] dims) -> Tensor(a)", permute_row, 0, NULL},
    {"transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose_row, 0, NULL},
    {"swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", transpose_row, 0, NULL},
    {"t(Tensor(a) self) -> Tensor(a)", t_row, 0, NULL},
    {"numpy_T(Tensor(a) self) -> Tensor(a)", t_row, 0, NULL},
    {"mT(Tensor(a) self) -> Tensor(a)", mt_row, 0, NULL},
    {"movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", movedim_row, 0, NULL},
    {"movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", movedim_row, 0, NULL},
    {"unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", unsqueeze_row, 0, NULL},
    {"squeeze(Tensor(a) self) -> Tensor(a)", squeeze_row, 0, NULL},
    {"squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", squeeze_row, 0, NULL},
    {"squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", squeeze_row, 0, NULL},
    {"expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", expand_row, 0, NULL},
    {"expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", expand_as, 0, NULL},
    {"broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", broadcast_to, 0, NULL},
    {"repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat_row, 0, NULL},
    {"tile(Tensor self, SymInt[] dims) -> Tensor", repeat_row, 0, NULL},
    {"repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor", repeat_interleave, 0, NULL},
    {"slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", slice_row, 0, NULL},
    {"narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", narrow_row, 0, NULL},
    {"split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", split_row, 0, NULL},
    {"split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", split_sizes, 0, NULL},
    {"split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", split_sizes, 0, NULL},
    {"split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", split_sizes, 0, NULL},
    {"chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", chunk_row, 0, NULL},
    {"unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", chunk_row, 0, NULL},
    {"unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind_row, 0, NULL},
    {"cat(Tensor[] tensors, int dim=0) -> Tensor", cat_row, 0, NULL},
    {"concat(Tensor[] tensors, int dim=0) -> Tensor", cat_row, 0, NULL},
    {"concatenate(Tensor[] tensors, int dim=0) -> Tensor", cat_row, 0, NULL},
    {"stack(Tensor[] tensors, int dim=0) -> Tensor", stack_row, 0, NULL},
    {"flip(Tensor self, int[] dims) -> Tensor", flip_row, 0, NULL},
    {"roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll_row, 0, NULL},
    {"tril(Tensor self, SymInt diagonal=0) -> Tensor", triangle, 0, NULL},
    {"triu(Tensor self, SymInt diagonal=0) -> Tensor", triangle, 1, NULL},
    {"pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle, 0, NULL},
    {"pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_unshuffle, 0, NULL},
    {"diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", diagonal_row, 0, NULL},
    {"contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", same, 0, NULL},
    {"clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", same, 0, NULL},
    {"detach(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"detach_(Tensor(a!) self) -> Tensor(a!)", same, 0, NULL},
    {"alias(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"lift_fresh_copy(Tensor self) -> Tensor", same, 0, NULL},
    {"lift_fresh(Tensor(a) self) -> Tensor(a)", same, 0, NULL},
    {"dropout(Tensor input, float p, bool train) -> Tensor", dropout_row, 0, NULL},
    {"feature_dropout(Tensor input, float p, bool train) -> Tensor", dropout_row, 0, NULL},
    {"alpha_dropout(Tensor input, float p, bool train) -> Tensor", dropout_row, 0, NULL},
    {"cpu(Tensor(a) self) -> Tensor(b|a)", same, 0, NULL},
    // clang-format on
};
ATEN_TABLE(shape);
