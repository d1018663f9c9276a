// aten_window.c -- ATen operators that lay windows over tensors: unfold, im2col, col2im,
// as_strided.
#include "frontends/pytorch/aten.h"

#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/scalar.h"

static Node *line(Graph *g, Node *from, Node *to, int64_t step) {
  return N(g, range, from, to, node_i64(g, step));
}

// Where window i's tap k lies, [windows, taps]: i * step + k * gap, over an axis of x.
static Node *positions(AtenCall *c, Node *x, int axis, int64_t taps, int64_t step, int64_t gap) {
  Graph *g = c->g;
  int64_t reach, end, one = 1;
  if (taps < 1 || step < 1 || gap < 1 || !ck_mul(taps - 1, gap, &reach) ||
      !ck_mul(taps, gap, &end)) {
    at_fail(c, "windows of %lld with step %lld", (long long)taps, (long long)step);
    return g->poison;
  }
  Node *size = N(g, reshape, bt_dims(g, x, axis, axis + 1), node_i64s(g, 0, NULL));
  Node *starts = line(g, node_i64(g, 0), N(g, sub, size, node_i64(g, reach)), step);
  Node *within = line(g, node_i64(g, 0), node_i64(g, reach + 1), gap);
  return N(g, add, N(g, unsqueeze, starts, node_i64s(g, 1, &one)), within);
}

static void unfold_row(AtenCall *c) {  // (self, dimension, size, step)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x), n = 0;
  if (!rank && !g->status) x = bt_unsqueeze(g, x, 0), rank = 1;
  int64_t axis = at_axis(c, 1, rank), perm[MAX_RANK + 1];
  Node *at = positions(c, x, (int)axis, at_int(c, 2), at_int(c, 3), 1);
  if (g->status || rank >= MAX_RANK) return;
  for (int i = 0; i <= rank; i++)
    if (i != axis + 1) perm[n++] = i;
  perm[n] = axis + 1;  // a window's elements come last
  at_give(c,
          bt_transpose(g, NA(g, gather, (&(gather_attrs){.axis = axis}), x, at), rank + 1, perm));
}

typedef struct Windows {
  Ints kernel, dilation, padding, stride;
} Windows;

static bool read_windows(AtenCall *c, int first, Windows *w) {
  w->kernel = at_spread(c, first, 2, 1);
  w->dilation = at_spread(c, first + 1, 2, 1);
  w->padding = at_spread(c, first + 2, 2, 0);
  w->stride = at_spread(c, first + 3, 2, 1);
  for (int i = 0; i < 2 && !c->g->status; i++)
    if (w->kernel.v[i] < 1 || w->kernel.v[i] > 1 << 20 || w->padding.v[i] < 0)
      at_fail(c, "a kernel of %lld", (long long)w->kernel.v[i]);
  return !c->g->status;
}

static void im2col_row(AtenCall *c) {  // (self, kernel_size, dilation, padding, stride)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  Windows w;
  if (rank == 3) x = bt_unsqueeze(g, x, 0);
  if (rank != 3 && rank != 4) at_fail(c, "of rank %d", rank);
  if (!read_windows(c, 1, &w)) return;
  int64_t pads[8] = {0, 0, w.padding.v[0], w.padding.v[1], 0, 0, w.padding.v[0], w.padding.v[1]};
  if (pads[2] || pads[3]) x = N(g, pad, x, node_i64s(g, 8, pads), bt_num(g, x, 0));
  int64_t channels = at_known_dim(c, x, 1), perm[] = {0, 1, 3, 5, 2, 4}, inner;
  if (!ck_mul(channels, w.kernel.v[0] * w.kernel.v[1], &inner)) at_fail(c, "too many channels");
  for (int i = 0; i < 2 && !g->status;
       i++) {  // [N, C, rows, kh, W], then [N, C, rows, kh, columns, kw]
    Node *at = positions(c, x, 2 + 2 * i, w.kernel.v[i], w.stride.v[i], w.dilation.v[i]);
    x = NA(g, gather, (&(gather_attrs){.axis = 2 + 2 * i}), x, at);
  }
  x = bt_transpose(g, x, 6, perm);
  Node *part[] = {bt_dims(g, x, 0, 1), node_i64s(g, 2, (int64_t[]){inner, -1})};
  x = bt_reshape_to(g, x, bt_concat(g, 0, 2, part));
  at_give(c, rank == 3 ? bt_squeeze(g, x, 0) : x);
}

static void
col2im_row(AtenCall *c) {  // (self, output_size, kernel_size, dilation, padding, stride)
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *size = at_shape(c, 1);
  bool flat = at_rank(c, x) == 2;
  Windows w;
  if (!read_windows(c, 2, &w)) return;
  int64_t pads[] = {w.padding.v[0], w.padding.v[1], w.padding.v[0], w.padding.v[1]};
  col2im_attrs at = {.dilations = w.dilation, .pads = {4, pads}, .strides = w.stride};
  if (flat) x = bt_unsqueeze(g, x, 0);
  x = NA(g, col2im, &at, x, size, node_i64s(g, 2, w.kernel.v));
  at_give(c, flat ? bt_squeeze(g, x, 0) : x);
}

// Any elements of the tensor whose elements these are, which must lie there row by row.
static void as_strided(AtenCall *c) {  // (self, size, stride, storage_offset)
  Graph *g = c->g;
  const AtenValue *self = at_arg(c, 0);
  Ints size = at_ints(c, 1), stride = at_ints(c, 2);
  int64_t first = at_none(c, 3) ? 0 : at_int(c, 3), rest = -1, last = first;
  if (self->kind != AV_TENSOR) at_fail(c, "of no tensor");
  if (g->status) return;
  if (self->box->base && at_none(c, 3)) at_fail(c, "of a view, without an offset");
  if (size.n != stride.n || size.n > MAX_RANK) at_fail(c, "%lld sizes", (long long)size.n);
  Node *x = bt_reshape(g, aten_root(self->box)->node, 1, &rest), *at = node_i64(g, first);
  for (int64_t i = 0; i < size.n && !g->status; i++) {
    int64_t dims[MAX_RANK], reach = 0;
    bool ok = size.v[i] >= 0 && stride.v[i] >= 0 &&
              (!size.v[i] || ck_mul(size.v[i] - 1, stride.v[i], &reach)) &&
              ck_add(last, reach, &last);
    if (!ok) {
      at_fail(c, "size %lld with stride %lld", (long long)size.v[i], (long long)stride.v[i]);
      return;
    }
    for (int64_t k = 0; k < size.n; k++) dims[k] = k == i ? size.v[i] : 1;
    Node *steps = line(g, node_i64(g, 0), node_i64(g, size.v[i]), 1);
    steps = N(g, mul, steps, node_i64(g, stride.v[i]));
    at = N(g, add, at, bt_reshape(g, steps, (int)size.n, dims));
  }
  at_give(c, NA(g, gather, (&(gather_attrs){.axis = 0}), x, at));
}

static const AtenRow rows[] = {
    // clang-format off
    {"unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold_row, 0, NULL},
    {"unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor", unfold_row, 0, NULL},
    {"im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", im2col_row, 0, NULL},
    {"col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", col2im_row, 0, NULL},
    {"as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)", as_strided, 0, NULL},
    {"as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor", as_strided, 0, NULL},
    // clang-format on
};
ATEN_TABLE(window);
