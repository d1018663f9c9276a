// split_rows.c -- the pass split-rows: a few long rows as many shorter ones.
//
// A normalisation or a scan has a thread block for each row (lower/gpu/reduce.c, lower/gpu/scan.c).
// With fewer rows than multiprocessors most of them have nothing to do.  Here such rows are cut
// into parts, which are rows themselves, as split-reductions cuts those of reductions:
//   - group, instance and layer normalisation take mean and deviation of each part; the variance
//     of all is the mean of the parts' variances and of their means' squared distances from the
//     mean of all, so that nothing is subtracted that is nearly equal;
//   - softmax takes the maximum and the sum of exponentials so;
//   - a cumulative sum is one within parts, after the sums of the parts before; so is a product of
//     integers.
//
// On a CPU scans alone are cut: template scan has a row in each lane, and a row of its own has but
// one.  Norms and softmax are vectors along the row there.
//
// How many parts there are depends on the shapes and the number of multiprocessors alone.
//
// Needs:      choose-layout has run, so that the axes are in their order; static sizes of rows.
// Guarantees: the order of sums is fixed, but another: only under FAST_REASSOC, norms also under
//             FAST_APPROX, never with OptOptions.batch_invariant.  Rows that no number of parts
//             divides stay as they are.
#include "eval/index.h"
#include "eval/norm.h"
#include "eval/reduce.h"
#include "eval/scalar.h"
#include "ir/internal.h"
#include "passes/passes.h"
#include "rules/shape.h"

// A row that is cut has so many elements at least, and a part of it.
enum { LEAST_ROW = 16 << 10, LEAST_PART = 1 << 10, LEAST_PARTS = 8, BLOCKS = 2 };
// On a CPU parts are short, so that lanes do not read lines a power of two from each other, which a
// cache has few places for; but the sums of all parts are one work item.
enum { SHORT_PART = 128, PARTS_MOST = 2048 };

// Sizes of a tensor whose rows are cut: [before, size of the axis that is cut, behind].
static int64_t known(Dim x) { return ie_is_const(x) ? x->value : 0; }

// How many parts `size` places of a row, of `length` elements in all, are cut into; 0: the rows
// are enough, too short, or `size` has no such divisor.
static int64_t parts_of(const PassCtx *c, int64_t rows, int64_t length, int64_t size) {
  const TargetTraits *t = c->g->traits;
  int64_t units = t->gpu ? t->sm_count : traits_busy_items(t);
  if (rows < 1 || length < LEAST_ROW || size < LEAST_PARTS || 2 * rows > units) return 0;
  int64_t most = t->gpu ? MIN(BLOCKS * units / rows, length / LEAST_PART)
                        : MIN(PARTS_MOST / rows, length / SHORT_PART);
  int64_t best = 0;
  for (int64_t n = LEAST_PARTS; n <= MIN(most, size); n++)
    if (size % n == 0) best = n;
  return best;
}

static Node *cast_to(Graph *g, Node *x, DType t) {
  return type_of(x)->dtype == t ? x : NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}

// x with the axis in parts: [..., parts, size / parts, ...].
static Node *in_parts(Graph *g, Node *x, int axis, int64_t parts) {
  const Type *t = type_of(x);
  Dim dims[MAX_RANK];
  int n = 0;
  if (t->rank == MAX_RANK) return NULL;
  for (int i = 0; i < t->rank; i++) {
    if (i == axis) dims[n++] = ie_const(&g->dims, parts);
    dims[n++] = i == axis ? ie_const(&g->dims, t->dims[i]->value / parts) : t->dims[i];
  }
  return reshape_to(g, x, type_tensor(g, t->dtype, n, dims));
}

static Node *reduced(Graph *g, int op, Node *x, Node *axes, bool keepdims) {
  return node_new(g, op, 2, (Node *[]){x, axes}, &(reduce_attrs){.keepdims = keepdims}, 1, NULL);
}

// ---- norms ----

// Mean and deviation of the last `over` axes, each as [..., 1...].
static void moments(Graph *g, Node *x, int over, Node **mean, Node **deviation) {
  const Type *t = type_of(x);
  int64_t dims[MAX_RANK];
  layer_normalization_attrs at = {.axis = -over, .epsilon = 0, .stash_type = 1};
  for (int i = 0; i < over; i++) dims[i] = t->dims[t->rank - over + i]->value;
  Node *one = N(g, expand, node_scalar(g, t->dtype, 1), node_i64s(g, over, dims));
  Node *y = node_new(g, OP_layer_normalization, 2, (Node *[]){x, one}, &at, 3, NULL);
  *mean = node_proj(g, y, 1);
  *deviation = N(g, reciprocal, node_proj(g, y, 2));
}

// (x - mean) / deviation of rows [outer..., parts, place..., ] of f32: the parts are axis `cut`,
// the last `over` axes a part's elements.
static Node *normalised(Graph *g, Node *x, int cut, int over, double eps) {
  Node *mean, *deviation, *all, *between;
  moments(g, x, over, &mean, &deviation);
  Node *parts = node_i64s(g, 1, (int64_t[]){cut});
  Node *within = reduced(g, OP_reduce_mean, N(g, mul, deviation, deviation), parts, true);
  // Means of the parts, last.
  const Type *t = type_of(mean);
  int64_t perm[MAX_RANK], back[MAX_RANK];
  int k = 0;
  for (int i = 0; i < t->rank; i++)
    if (i != cut) perm[k++] = i;
  perm[k] = cut;
  perm_inverse(t->rank, perm, back);
  moments(g, transpose_to(g, mean, t->rank, perm), 1, &all, &between);
  all = transpose_to(g, all, t->rank, back);
  between = transpose_to(g, between, t->rank, back);
  Node *variance = N(g, add, within, N(g, mul, between, between));
  Node *by = N(g, sqrt, N(g, add, variance, node_scalar(g, type_of(x)->dtype, eps)));
  return N(g, mul, N(g, sub, x, all), N(g, reciprocal, by));
}

static Node *by_channel(Graph *g, Node *p, int rank, bool last) {
  int64_t shape[MAX_RANK];
  for (int i = 0; i < rank - 1; i++) shape[i] = i ? 1 : -1;
  return last || rank < 3 ? p : N(g, reshape, p, node_i64s(g, rank - 1, shape));
}

// Group and instance normalisation: x [batch, channels, place...] or channels last.
static Node *split_channels(PassCtx *c, Node *n, int64_t groups, double eps, bool last) {
  Graph *g = c->g;
  const Type *t = type_of(n->src[0]);
  int64_t channels = t->rank > 2 ? known(t->dims[last ? t->rank - 1 : 1]) : 0, places = 1;
  int64_t batch = t->rank > 2 ? known(t->dims[0]) : 0;
  if (n->nres != 1 || t->dtype != DT_F32 || !channels || !batch || channels % groups) return n;
  for (int i = 1; i <= 2; i++)
    if (type_of(n->src[i])->rank != 1 || !ie_is(type_of(n->src[i])->dims[0], channels)) return n;
  for (int i = 0; i < t->rank - 2; i++)
    if (!ck_mul(places, known(t->dims[last ? 1 + i : 2 + i]), &places)) return n;
  int64_t each = channels / groups, parts = parts_of(c, batch * groups, each * places, places);
  if (!parts) parts = last ? 0 : parts_of(c, batch * groups, each * places, each * places);
  if (!parts) return n;
  int64_t first_dims[] = {batch, groups, parts, each * places / parts};
  int64_t last_dims[] = {batch, parts, places / parts, groups, each}, to[] = {0, 1, 3, 2, 4};
  Node *x = n->src[0], *y;
  if (last)
    x = transpose_to(g, N(g, reshape, x, node_i64s(g, 5, last_dims)), 5, to);
  else
    x = N(g, reshape, x, node_i64s(g, 4, first_dims));
  y = last ? normalised(g, x, 1, 2, eps) : normalised(g, x, 2, 1, eps);
  if (last) y = transpose_to(g, y, 5, to);
  y = reshape_to(g, y, t);
  if (!y) return n;
  y = N(g, mul, y, by_channel(g, n->src[1], t->rank, last));
  return N(g, add, y, by_channel(g, n->src[2], t->rank, last));
}

static Node *split_layer(PassCtx *c, Node *n) {
  Graph *g = c->g;
  const layer_normalization_attrs *at = n->attrs;
  const Type *t = type_of(n->src[0]);
  int64_t rows = 1, length = 1;
  if (n->nres != 1 || t->dtype != DT_F32 || t->rank < 1) return n;
  int from = axis_of(at->axis, t->rank);
  for (int i = 0; i < t->rank; i++) {
    int64_t *to = i >= from ? &length : &rows;
    if (!ck_mul(*to, known(t->dims[i]), to)) return n;
  }
  int64_t parts = parts_of(c, rows, length, length), dims[] = {rows, parts, 0};
  if (!parts) return n;
  dims[2] = length / parts;
  Node *y = normalised(g, N(g, reshape, n->src[0], node_i64s(g, 3, dims)), 1, 1, at->epsilon);
  Node *bias = src_or_null(g, n, 2);
  y = reshape_to(g, y, t);
  if (!y) return n;
  y = N(g, mul, y, n->src[1]);
  return bias ? N(g, add, y, bias) : y;
}

// ---- softmax ----

// Maximum and sum of exponentials of the parts, then of all.
static Node *split_softmax(PassCtx *c, Node *n) {
  Graph *g = c->g;
  const Type *t = type_of(n->src[0]);
  bool log = n->op == OP_log_softmax;
  if (t->dtype != DT_F32 || t->rank < 1) return n;
  int axis = axis_of(log ? ((const log_softmax_attrs *)n->attrs)->axis
                         : ((const softmax_attrs *)n->attrs)->axis,
                     t->rank);
  int64_t rows = 1, size = known(t->dims[axis]), outer = axis, inner = axis + 1;
  for (int i = 0; i < t->rank; i++)
    if (i != axis && !ck_mul(rows, known(t->dims[i]), &rows)) return n;
  int64_t parts = parts_of(c, rows, size, size);
  Node *x = parts ? in_parts(g, n->src[0], axis, parts) : NULL;
  if (!x) return n;
  Node *part = node_i64s(g, 1, &inner), *all = node_i64s(g, 1, &outer);
  Node *most = reduced(g, OP_reduce_max, reduced(g, OP_reduce_max, x, part, true), all, true);
  Node *less = N(g, sub, x, most), *e = N(g, exp, less);
  Node *sum = reduced(g, OP_reduce_sum, reduced(g, OP_reduce_sum, e, part, true), all, true);
  return reshape_to(g, log ? N(g, sub, less, N(g, log, sum)) : N(g, div, e, sum), t);
}

// ---- scans ----

// Products of floats are left alone: a part's own may be out of range behind a zero, and zero times
// infinity is no zero.
static Node *split_scan(PassCtx *c, Node *n) {
  Graph *g = c->g;
  const cum_attrs *at = n->attrs;
  const Type *t = type_of(n->src[0]);
  bool product = n->op == OP_cum_prod, is_float = t->dtype == DT_F32 || t->dtype == DT_F64;
  DType wide = is_float ? DT_F64 : t->dtype;
  Ints axes;
  int64_t rows = 1;
  if ((product && is_float) || (!is_float && t->dtype != DT_I32 && t->dtype != DT_I64) ||
      t->rank < 1 || !node_ints(g, n->src[1], &axes) || axes.n != 1)
    return n;
  int axis = axis_of(axes.v[0], t->rank);
  for (int i = 0; i < t->rank; i++)
    if (i != axis && !ck_mul(rows, known(t->dims[i]), &rows)) return n;
  int64_t size = known(t->dims[axis]), parts = parts_of(c, rows, size, size);
  Node *x = parts ? in_parts(g, n->src[0], axis, parts) : NULL;
  if (!x) return n;
  cum_attrs before = {.exclusive = true, .reverse = at->reverse};
  int reduce = product ? OP_reduce_prod : OP_reduce_sum;
  Node *sums = reduced(g, reduce, x, node_i64s(g, 1, &(int64_t){axis + 1}), true);
  Node *src[] = {cast_to(g, sums, wide), node_i64(g, axis)}, *own[] = {x, node_i64(g, axis + 1)};
  sums = node_new(g, n->op, 2, src, &before, 1, NULL);
  Node *y = cast_to(g, node_new(g, n->op, 2, own, at, 1, NULL), wide);
  y = product ? N(g, mul, y, sums) : N(g, add, y, sums);
  return reshape_to(g, cast_to(g, y, t->dtype), t);
}

// ---- the pass ----

static Node *split_node(void *ctx, Node *n, Node *old) {
  PassCtx *c = ctx;
  Node *r = n;
  (void)old;
  if (!n->nsrc || type_of(n->src[0])->kind != TK_TENSOR || type_of(n->src[0])->rank < 0) return n;
  bool norms = c->o->fast & FAST_APPROX;
  if (n->op == OP_cum_sum || n->op == OP_cum_prod) r = split_scan(c, n);
  if (!c->g->traits->gpu) return r && r != c->g->poison && type_of(r) == type_of(n) ? r : n;
  if (n->op == OP_softmax || n->op == OP_log_softmax) r = split_softmax(c, n);
  if (n->op == OP_layer_normalization && norms) r = split_layer(c, n);
  if (n->op == OP_group_normalization && norms) {
    const group_normalization_attrs *at = n->attrs;
    r = split_channels(c, n, at->num_groups, at->epsilon, at->channels_last);
  }
  if (n->op == OP_instance_normalization && norms) {
    const instance_normalization_attrs *at = n->attrs;
    int64_t channels = known(type_of(n)->dims[at->channels_last ? type_of(n)->rank - 1 : 1]);
    if (channels) r = split_channels(c, n, channels, at->epsilon, at->channels_last);
  }
  return r && r != c->g->poison && type_of(r) == type_of(n) ? r : n;
}

tenon_status pass_split_rows(PassCtx *c, bool *out_changed) {
  *out_changed = false;
  const TargetTraits *t = c->g->traits;
  if ((t->gpu && t->sm_count < 2) || !(c->o->fast & FAST_REASSOC) || c->o->batch_invariant)
    return TENON_OK;
  GraphMap m = {.g = c->g, .fn = split_node, .ctx = c};
  return graph_map(&m, out_changed);
}
