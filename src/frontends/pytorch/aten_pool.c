// aten_pool.c -- ATen's pools.
#include "frontends/pytorch/aten.h"

#include "eval/reduce.h"
#include "eval/window.h"

// The operand with a batch axis; *added says that it had none.
static Node *batched(AtenCall *c, int spatial, bool *added) {
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  *added = rank == spatial + 1;
  if (!c->g->status && rank != spatial + 1 && rank != spatial + 2) at_fail(c, "rank %d", rank);
  return *added ? bt_unsqueeze(c->g, x, 0) : x;
}
static Node *unbatched(AtenCall *c, Node *y, bool added) {
  return added ? bt_squeeze(c->g, y, 0) : y;
}

static Ints both_ends(AtenCall *c, Ints p) {
  int64_t *out = arena_array(&c->g->arena, int64_t, 2 * p.n + 1);
  for (int64_t i = 0; i < p.n; i++) out[i] = out[p.n + i] = p.v[i];
  return (Ints){2 * p.n, out};
}

static int spatial_of(const AtenCall *c) { return c->schema->row->op; }

static void max_pool(AtenCall *c,
                     bool indices) {  // (self, kernel, stride, padding, dilation, ceil)
  Graph *g = c->g;
  int n = spatial_of(c);
  bool added;
  Node *x = batched(c, n, &added);
  Ints kernel = at_spread(c, 1, n, 1);
  Ints stride = at_ints(c, 2).n ? at_spread(c, 2, n, 1) : kernel;
  max_pool_attrs at = {.kernel_shape = kernel,
                       .strides = stride,
                       .pads = both_ends(c, at_spread(c, 3, n, 0)),
                       .dilations = at_spread(c, 4, n, 1),
                       .ceil_mode = at_bool(c, 5)};
  if (!indices) {
    at_give(c, unbatched(c, node_new(g, OP_max_pool, 1, &x, &at, 1, NULL), added));
    return;
  }
  Node *y = node_new(g, OP_max_pool, 1, &x, &at, 2, NULL), *place = node_proj(g, y, 1);
  // Counted from the beginning of each channel, not of the whole tensor.
  int64_t first = 0;
  Node *size = bt_reduce(g, OP_reduce_prod, bt_dims(g, x, 2, 2 + n), (Ints){1, &first}, false);
  at_give_all(c, 2,
              (Node *[]){unbatched(c, node_proj(g, y, 0), added),
                         unbatched(c, N(g, mod, place, size), added)});
}
static void max_pool_row(AtenCall *c) { max_pool(c, false); }
static void max_pool_indices(AtenCall *c) { max_pool(c, true); }

static void avg_pool(AtenCall *c) {  // (self, kernel, stride, padding, ceil, include_pad, divisor)
  Graph *g = c->g;
  int n = spatial_of(c);
  bool added;
  Node *x = batched(c, n, &added);
  Ints kernel = at_spread(c, 1, n, 1);
  Ints stride = at_ints(c, 2).n ? at_spread(c, 2, n, 1) : kernel;
  if (c->schema->nargs > 6 && !at_none(c, 6)) at_fail(c, "divisor_override");
  average_pool_attrs at = {.kernel_shape = kernel,
                           .strides = stride,
                           .pads = both_ends(c, at_spread(c, 3, n, 0)),
                           .ceil_mode = at_bool(c, 4),
                           .count_include_pad = at_bool(c, 5)};
  at_give(c, unbatched(c, NA(g, average_pool, &at, x), added));
}

// Along one axis: bin i of n covers floor(i size / n) to ceil((i + 1) size / n).
static Node *bins(AtenCall *c, Node *x, int64_t axis, int64_t size, int64_t n, int op) {
  Graph *g = c->g;
  if (n == size) return x;
  if (n < 1 || n > 256) {
    at_fail(c, "%lld bins of %lld elements", (long long)n, (long long)size);
    return g->poison;
  }
  Node **part = arena_array(&g->arena, Node *, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = i * size / n, to = ((i + 1) * size + n - 1) / n;
    part[i] = bt_reduce(g, op, bt_slice(g, x, axis, from, to), (Ints){1, &axis}, true);
  }
  return bt_concat(g, axis, (int)n, part);
}

static Node *adaptive(AtenCall *c, int n, int op) {
  Graph *g = c->g;
  Node *x = at_tensor(c, 0);
  int rank = at_rank(c, x);
  const AtenValue *size = at_arg(c, 1);
  int64_t axes[3], whole[3], want[3], kernel[3];
  bool ones = true, even = true;
  if (g->status) return g->poison;
  for (int i = 0; i < n; i++) {
    const AtenValue *v = size->list ? &size->list->v.v[MIN(i, size->list->v.n - 1)] : size;
    axes[i] = rank - n + i;
    want[i] = v->kind == AV_NONE ? -1 : v->i;
    ones = ones && want[i] == 1;
  }
  if (ones) return bt_reduce(g, op, x, (Ints){n, axes}, true);
  for (int i = 0; i < n; i++) {
    whole[i] = at_known_dim(c, x, (int)axes[i]);
    if (want[i] < 0) want[i] = whole[i];
    even = even && want[i] > 0 && whole[i] % want[i] == 0;
    kernel[i] = want[i] > 0 ? MAX(whole[i] / want[i], 1) : 1;
  }
  if (g->status) return g->poison;
  if (even && rank == n + 2 && op == OP_reduce_mean) {
    average_pool_attrs at = {.kernel_shape = {n, kernel}, .strides = {n, kernel}};
    return NA(g, average_pool, &at, x);
  }
  for (int i = 0; i < n; i++) x = bins(c, x, axes[i], whole[i], want[i], op);
  return x;
}
static void adaptive_avg(AtenCall *c) { at_give(c, adaptive(c, spatial_of(c), OP_reduce_mean)); }
static void adaptive_max(AtenCall *c) {
  at_give_all(c, 2, (Node *[]){adaptive(c, spatial_of(c), OP_reduce_max), NULL});
}

static const AtenRow rows[] = {
    // clang-format off
    {"max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor", max_pool_row, 1, NULL},
    {"max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor", max_pool_row, 2, NULL},
    {"max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor", max_pool_row, 3, NULL},
    {"max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)", max_pool_indices, 1, NULL},
    {"max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", max_pool_indices, 2, NULL},
    {"max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", max_pool_indices, 3, NULL},
    {"avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor", avg_pool, 1, NULL},
    {"avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", avg_pool, 2, NULL},
    {"avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", avg_pool, 3, NULL},
    {"adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", adaptive_avg, 1, NULL},
    {"adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_avg, 2, NULL},
    {"adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", adaptive_avg, 3, NULL},
    {"_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_avg, 2, NULL},
    {"_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", adaptive_avg, 3, NULL},
    {"adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)", adaptive_max, 1, NULL},
    {"adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)", adaptive_max, 2, NULL},
    {"adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)", adaptive_max, 3, NULL},
    // clang-format on
};
ATEN_TABLE(pool);
