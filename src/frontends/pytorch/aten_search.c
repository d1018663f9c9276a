// aten_search.c -- ATen operators that look for values: sorted sequences, unique values, bags of
// embeddings, distances.
#include "frontends/pytorch/aten.h"

#include "eval/index.h"
#include "eval/movement.h"
#include "eval/reduce.h"
#include "eval/scalar.h"

#include <math.h>

// ---- places in sorted sequences ----

static Node *pick(Graph *g, Node *seq, bool one, int64_t axis, Node *at) {
  return one ? NA(g, gather, (&(gather_attrs){.axis = 0}), seq, at)
             : NA(g, gather_elements, (&(gather_elements_attrs){.axis = axis}), seq, at);
}

// How many of the n elements come before v, by halving; a value that is no number comes last.
static Node *places(Graph *g, Node *seq, bool one, int64_t axis, Node *v, int64_t n, bool right) {
  Node *pos = N(g, expand, node_i64(g, 0), N(g, shape, v)), *most = node_i64(g, n);
  int64_t step = 1;
  while (step <= n / 2) step *= 2;
  for (; step && n && !g->status; step /= 2) {
    Node *next = N(g, add, pos, node_i64(g, step));
    Node *last = N(g, sub, N(g, min, next, most), node_i64(g, 1));
    Node *there = pick(g, seq, one, axis, last);
    Node *before = right ? N(g, not, N(g, lt, v, there)) : N(g, not, N(g, le, v, there));
    pos = N(g, where, N(g, and, before, N(g, le, next, most)), next, pos);
  }
  return pos;
}

static void search(AtenCall *c, Node *seq, Node *v, bool narrow, bool right) {
  Graph *g = c->g;
  int rank = at_rank(c, seq);
  if (rank < 1) at_fail(c, "in a sequence of rank 0");
  if (g->status) return;
  AtenValue both[] = {av_tensor(&g->arena, seq), av_tensor(&g->arena, v)};
  DType t = aten_promote(both, 2);
  int64_t n = at_known_dim(c, seq, rank - 1);
  Node *y = places(g, bt_cast(g, seq, t), rank == 1, rank - 1, bt_cast(g, v, t), n, right);
  at_give(c, bt_cast(g, y, narrow ? DT_I32 : DT_I64));
}

static void searchsorted(AtenCall *c) {  // (sequence, self, *, out_int32, right, side, sorter)
  Graph *g = c->g;
  Node *seq = at_tensor(c, 0), *sorter = at_tensor_opt(c, 5);
  bool right = at_bool(c, 3) || (!at_none(c, 4) && str_is(at_arg(c, 4)->s, "right"));
  if (sorter) {
    gather_elements_attrs at = {.axis = at_rank(c, seq) - 1};
    seq = NA(g, gather_elements, &at, seq, bt_cast(g, sorter, DT_I64));
  }
  search(c, seq, at_tensor(c, 1), at_bool(c, 2), right);
}
static void bucketize(AtenCall *c) {  // (self, boundaries, *, out_int32, right)
  search(c, at_tensor(c, 1), at_tensor(c, 0), at_bool(c, 2), at_bool(c, 3));
}

// ---- unique values ----

static void give_unique(AtenCall *c, OptInt axis, bool sorted) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  unique_attrs at = {.axis = axis, .sorted = sorted};
  if (g->status) return;
  Node *y = node_new(g, OP_unique, 1, &x, &at, 4, NULL), *inverse = node_proj(g, y, 2);
  if (!axis.given) inverse = N(g, reshape, inverse, N(g, shape, x));
  at_give_all(c, 3, (Node *[]){node_proj(g, y, 0), inverse, node_proj(g, y, 3)});
}
// Sorted in any case, as PyTorch's are on CPUs.
static void unique_row(AtenCall *c) { give_unique(c, (OptInt){0}, true); }
static void unique_dim(AtenCall *c) {  // (self, dim, ...)
  give_unique(c, (OptInt){true, at_axis(c, 1, at_rank(c, at_tensor(c, 0)))}, true);
}

// ---- bags of embeddings ----

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

// Which bag each of the indices is in: the number of bags that begin at or before it, less one.
static Node *bag_of(AtenCall *c, Node *indices, Node *offsets) {
  Graph *g = c->g;
  int64_t one = 1, axis = 1;
  Node *n = N(g, reshape, bt_dims(g, indices, 0, 1), node_i64s(g, 0, NULL));
  Node *at = N(g, range, node_i64(g, 0), n, node_i64(g, 1));
  Node *begun = N(g, le, bt_cast(g, offsets, DT_I64), N(g, unsqueeze, at, node_i64s(g, 1, &one)));
  Node *sum = bt_reduce(g, OP_reduce_sum, bt_cast(g, begun, DT_I64), (Ints){1, &axis}, false);
  return N(g, sub, sum, node_i64(g, 1));
}

// Rows by bag; those that do not count add nothing.
static Node *into_bags(Graph *g, Node *start, Node *bag, Node *rows_, int how) {
  int64_t one = 1;
  Node *at = N(g, expand, N(g, unsqueeze, bag, node_i64s(g, 1, &one)), N(g, shape, rows_));
  scatter_elements_attrs a = {.axis = 0, .reduction = how};
  return NA(g, scatter_elements, &a, start, at, rows_);
}

typedef struct Bags {
  Node *weight, *indices, *offsets, *factors;
  int64_t mode, padding;
  bool last;  // the last offset is the end
} Bags;

static void embedding_bag(AtenCall *c, const Bags *b) {
  Graph *g = c->g;
  int64_t one = 1;
  Node *offsets = b->offsets, *index = bt_cast(g, b->indices, DT_I64);
  if (at_rank(c, index) != 1 || at_rank(c, offsets) != 1 || at_rank(c, b->weight) != 2)
    at_fail(c, "indices of rank %d", at_rank(c, index));
  if (b->mode < BAG_SUM || b->mode > BAG_MAX) at_fail(c, "mode %lld", (long long)b->mode);
  if (g->status) return;
  if (b->last) offsets = bt_slice(g, offsets, 0, 0, -1);
  Node *bag = bag_of(c, index, offsets);
  Node *x = NA(g, gather, (&(gather_attrs){.axis = 0}), b->weight, index);
  Node *counts = bt_full(g, N(g, shape, index), type_of(x)->dtype, 1);
  double least = b->mode == BAG_MAX ? -INFINITY : 0;
  if (b->factors) x = N(g, mul, x, N(g, unsqueeze, b->factors, node_i64s(g, 1, &one)));
  if (b->padding >= 0) {
    Node *skip = N(g, eq, index, node_i64(g, b->padding));
    x = N(g, where, N(g, unsqueeze, skip, node_i64s(g, 1, &one)), bt_num(g, x, least), x);
    counts = N(g, where, skip, bt_num(g, counts, 0), counts);
  }
  Node *size =
      bt_concat(g, 0, 2, (Node *[]){bt_dims(g, offsets, 0, 1), bt_dims(g, b->weight, 1, 2)});
  DType t = type_of(x)->dtype;
  Node *y = into_bags(g, bt_full(g, size, t, least), bag, x, b->mode == BAG_MAX ? 4 : 1);
  Node *column = bt_concat(g, 0, 2, (Node *[]){bt_dims(g, offsets, 0, 1), node_i64s(g, 1, &one)});
  Node *n = into_bags(g, bt_full(g, column, t, 0), bag,
                      N(g, unsqueeze, counts, node_i64s(g, 1, &one)), 1);
  if (b->mode == BAG_MEAN) y = N(g, div, y, N(g, max, n, bt_num(g, n, 1)));
  if (b->mode == BAG_MAX) y = N(g, where, N(g, eq, n, bt_num(g, n, 0)), bt_num(g, y, 0), y);
  at_give_all(c, 4, (Node *[]){y, NULL, NULL, NULL});
}
// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx)
static void embedding_bag_row(AtenCall *c) {
  Bags b = {at_tensor(c, 0), at_tensor(c, 1),
            at_tensor(c, 2), at_tensor_opt(c, 6),
            at_int(c, 4),    c->schema->nargs > 8 && !at_none(c, 8) ? at_int(c, 8) : -1,
            at_bool(c, 7)};
  if (b.padding < -1 && !c->g->status) b.padding += at_known_dim(c, b.weight, 0);
  embedding_bag(c, &b);
}

// ---- masks ----

static void
masked_scatter(AtenCall *c) {  // (self, mask, source): its elements in order, where the mask is set
  Graph *g = c->g;
  int64_t rest = -1;
  Node *x = at_tensor(c, 0), *source = bt_reshape(g, at_tensor(c, 2), 1, &rest);
  Node *mask = N(g, expand, at_tensor(c, 1), N(g, shape, x)),
       *full = N(g, expand, x, N(g, shape, mask));
  Node *n = bt_cast(g, bt_reshape(g, mask, 1, &rest), DT_I64);
  n = N(g, sub, N(g, cum_sum, n, node_i64(g, 0)), node_i64(g, 1));
  n = N(g, max, n, node_i64(g, 0));
  // Places behind the source's end are only there where the mask is not.
  Node *last = N(g, sub, N(g, size, source), node_i64(g, 1));
  n = N(g, reshape, N(g, min, n, last), N(g, shape, mask));
  at_give(c, N(g, where, mask, NA(g, gather, (&(gather_attrs){.axis = 0}), source, n), full));
}

// ---- distances ----

static Node *distance(AtenCall *c, Node *d, int64_t axis, double p) {
  Graph *g = c->g;
  Ints axes = {1, &axis};
  if (p == 2) return bt_reduce(g, OP_reduce_l2, d, axes, false);
  d = N(g, abs, d);
  if (p == 1) return bt_reduce(g, OP_reduce_sum, d, axes, false);
  if (isinf(p)) return bt_reduce(g, OP_reduce_max, d, axes, false);
  if (p == 0) {
    Node *some = N(g, not, N(g, eq, d, bt_num(g, d, 0)));
    return bt_reduce(g, OP_reduce_sum, bt_cast(g, some, type_of(d)->dtype), axes, false);
  }
  d = bt_reduce(g, OP_reduce_sum, N(g, pow, d, bt_num(g, d, p)), axes, false);
  return N(g, pow, d, bt_num(g, d, 1 / p));
}
static void cdist(AtenCall *c) {  // (x1, x2, p, ...)
  Graph *g = c->g;
  Node *a = at_tensor(c, 0), *b = at_tensor(c, 1);
  int ra = at_rank(c, a), rb = at_rank(c, b);
  if (ra < 2 || rb < 2 || MAX(ra, rb) >= MAX_RANK) at_fail(c, "of rank %d", MIN(ra, rb));
  if (g->status) return;
  Node *d = N(g, sub, bt_unsqueeze(g, a, ra - 1), bt_unsqueeze(g, b, rb - 2));
  at_give(c, distance(c, d, MAX(ra, rb), at_f64(c, 2)));
}
static void pdist(AtenCall *c) {  // (self, p): of each pair of rows
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int64_t n = at_known_dim(c, x, 0), k = 0;
  if (at_rank(c, x) != 2 || n > 1 << 12) at_fail(c, "of %lld rows", (long long)n);
  if (g->status) return;
  int64_t pairs = n * (n - 1) / 2, *a = arena_array(&g->arena, int64_t, 2 * pairs + 1),
          *b = a + pairs;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i + 1; j < n; j++, k++) a[k] = i, b[k] = j;
  gather_attrs rows_ = {.axis = 0};
  Node *l = NA(g, gather, &rows_, x, node_const(g, DT_I64, 1, &pairs, a, NULL));
  Node *r = NA(g, gather, &rows_, x, node_const(g, DT_I64, 1, &pairs, b, NULL));
  at_give(c, distance(c, N(g, sub, l, r), 1, at_f64(c, 1)));
}

static const AtenRow rows[] = {
    // clang-format off
    {"searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor", searchsorted, 0, NULL},
    {"searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor", searchsorted, 0, NULL},
    {"bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor", bucketize, 0, NULL},
    {"bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor", bucketize, 0, NULL},
    {"_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)", unique_row, 0, NULL},
    {"unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)", unique_dim, 0, NULL},
    {"embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)", embedding_bag_row, 0, NULL},
    {"embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)", embedding_bag_row, 0, NULL},
    {"_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)", embedding_bag_row, 0, NULL},
    {"_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)", embedding_bag_row, 0, NULL},
    {"masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", masked_scatter, 0, NULL},
    {"cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor", cdist, 0, NULL},
    {"_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", cdist, 0, NULL},
    {"pdist(Tensor self, float p=2) -> Tensor", pdist, 0, NULL},
    {"_pdist_forward(Tensor self, float p=2) -> Tensor", pdist, 0, NULL},
    // clang-format on
};
ATEN_TABLE(search);
