// index.c -- reference evaluation of gather and scatter in all their forms, and one_hot.
//
// Guarantees: every index is checked before anything is read or written; elements are copied as
//             they are.
// Scatters with a reduction collect in double (integers in 64 bits, wrapping) and round once, in
// the order of the updates.
#include "eval/index.h"
#include "eval/move.h"

// An index in [-n, n) made non-negative.
static tenon_status check_index(Eval *e, int64_t index, int64_t n, int64_t *out) {
  *out = 0;
  if (index < -n || index >= n)
    return eval_fail(e, TENON_EINVAL, "index %lld is out of range for %lld elements",
                     (long long)index, (long long)n);
  *out = index < 0 ? index + n : index;
  return TENON_OK;
}

// ---- gather ----

typedef struct Gather {
  DType t;
  const void *src;
  void *dst;
  const int64_t *index;
  int64_t n, dim, inner;  // indices, size of the axis, elements after it
} Gather;

static void gather_piece(void *ctx, int64_t begin, int64_t end) {
  const Gather *g = ctx;
  for (int64_t i = begin; i < end; i++)
    copy_elems(g->t, g->dst, i * g->inner, g->src,
               (i / g->n * g->dim + g->index[i % g->n]) * g->inner, g->inner);
}

tenon_status eval_gather(Eval *e) {
  const gather_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", TENON_DTYPE_NONE));
  Ints index;
  TRY(eval_ints(e, 1, &index));
  const Value *x = e->in[0], *ix = e->in[1];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  int rank = x->rank - 1 + ix->rank;
  if (rank > MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %d is above the limit of %d", rank, MAX_RANK);
  int64_t dims[MAX_RANK], *from = arena_array(&e->run->scratch, int64_t, index.n);
  for (int i = 0; i < axis; i++) dims[i] = x->dims[i];
  for (int i = 0; i < ix->rank; i++) dims[axis + i] = ix->dims[i];
  for (int i = axis + 1; i < x->rank; i++) dims[ix->rank + i - 1] = x->dims[i];
  for (int64_t i = 0; i < index.n; i++) TRY(check_index(e, index.v[i], x->dims[axis], &from[i]));
  Value *y;
  TRY(eval_out(e, 0, x->dtype, rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  Gather g = {x->dtype,
              x->data,
              y->data,
              from,
              index.n,
              x->dims[axis],
              dims_product(x->dims, axis + 1, x->rank)};
  parallel_for(move_pool(e->run, x->dtype), y->n / g.inner, MAX(1, (1 << 14) / g.inner),
               gather_piece, &g);
  return TENON_OK;
}

// The position in data of each element of `ix`, whose axis `axis` is replaced by its own value.
static tenon_status element_positions(Eval *e, const Value *x, const Value *ix, Ints index,
                                      int axis, int64_t *out) {
  int64_t strides[MAX_RANK], at[MAX_RANK] = {0};
  shape_strides(x->rank, x->dims, strides);
  for (int64_t i = 0; i < index.n; i++) {
    int64_t pos = 0, own;
    TRY(check_index(e, index.v[i], x->dims[axis], &own));
    for (int d = 0; d < x->rank; d++) pos += (d == axis ? own : at[d]) * strides[d];
    out[i] = pos;
    for (int d = x->rank - 1; d >= 0 && ++at[d] == ix->dims[d]; d--) at[d] = 0;
  }
  return TENON_OK;
}

static tenon_status check_elements(Eval *e, const Value *x, const Value *ix, int axis) {
  if (ix->rank != x->rank)
    return eval_fail(e, TENON_EINVAL, "indices have rank %d, data %d", ix->rank, x->rank);
  for (int i = 0; i < x->rank; i++)
    if (i != axis && ix->dims[i] > x->dims[i])
      return eval_fail(e, TENON_EINVAL, "axis %d of the indices has %lld elements, of data %lld", i,
                       (long long)ix->dims[i], (long long)x->dims[i]);
  return TENON_OK;
}

tenon_status eval_gather_elements(Eval *e) {
  const gather_elements_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", TENON_DTYPE_NONE));
  Ints index;
  TRY(eval_ints(e, 1, &index));
  const Value *x = e->in[0], *ix = e->in[1];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  TRY(check_elements(e, x, ix, axis));
  int64_t *from = arena_array(&e->run->scratch, int64_t, index.n);
  TRY(element_positions(e, x, ix, index, axis, from));
  Value *y;
  TRY(eval_out(e, 0, x->dtype, ix->rank, ix->dims, &y));
  move_blocks(e->run, y, x->data, y->n, 1, from);
  return TENON_OK;
}

// Index tuples of length `len` (the last axis of ix) below `batch` shared axes: the block of data
// that each selects, a block being the axes of data after those that are indexed.
static tenon_status tuple_blocks(Eval *e, const Value *x, const Value *ix, Ints index, int batch,
                                 int len, int64_t *out) {
  int64_t ntuples = len ? index.n / len : dims_product(ix->dims, 0, ix->rank - 1);
  int64_t nbatch = dims_product(x->dims, 0, batch), each = nbatch ? ntuples / nbatch : 0;
  for (int64_t i = 0; i < ntuples; i++) {
    int64_t pos = batch ? i / MAX(each, 1) : 0;
    for (int k = 0; k < len; k++) {
      int64_t own;
      TRY(check_index(e, index.v[i * len + k], x->dims[batch + k], &own));
      pos = pos * x->dims[batch + k] + own;
    }
    out[i] = pos;
  }
  return TENON_OK;
}

// The number of axes that a tuple of indices covers; checks ranks.
static tenon_status tuple_length(Eval *e, const Value *x, const Value *ix, int64_t batch,
                                 int *out) {
  if (ix->rank < 1 || x->rank < 1)
    return eval_fail(e, TENON_EINVAL, "data of rank %d and indices of rank %d, must be at least 1",
                     x->rank, ix->rank);
  if (batch < 0 || batch >= x->rank || batch >= ix->rank)
    return eval_fail(e, TENON_EINVAL, "batch_dims %lld for data of rank %d and indices of rank %d",
                     (long long)batch, x->rank, ix->rank);
  int64_t len = ix->dims[ix->rank - 1];
  if (len > x->rank - batch)
    return eval_fail(e, TENON_EINVAL, "indices of %lld numbers for %lld axes", (long long)len,
                     (long long)(x->rank - batch));
  for (int i = 0; i < batch; i++)
    if (x->dims[i] != ix->dims[i])
      return eval_fail(e, TENON_EINVAL,
                       "batch axis %d has %lld elements in data, %lld in the indices", i,
                       (long long)x->dims[i], (long long)ix->dims[i]);
  *out = (int)len;
  return TENON_OK;
}

tenon_status eval_gather_nd(Eval *e) {
  const gather_nd_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", TENON_DTYPE_NONE));
  Ints index;
  TRY(eval_ints(e, 1, &index));
  const Value *x = e->in[0], *ix = e->in[1];
  int len, batch = (int)at->batch_dims, rank = 0;
  TRY(tuple_length(e, x, ix, at->batch_dims, &len));
  int tail = batch + len;
  if (ix->rank - 1 + x->rank - tail > MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "the result's rank is above the limit of %d", MAX_RANK);
  int64_t dims[MAX_RANK];
  for (int i = 0; i < ix->rank - 1; i++) dims[rank++] = ix->dims[i];
  for (int i = tail; i < x->rank; i++) dims[rank++] = x->dims[i];
  Value *y;
  TRY(eval_out(e, 0, x->dtype, rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  int64_t block = dims_product(x->dims, tail, x->rank), n = y->n / block;
  int64_t *from = arena_array(&e->run->scratch, int64_t, n);
  TRY(tuple_blocks(e, x, ix, index, batch, len, from));
  move_blocks(e->run, y, x->data, n, block, from);
  return TENON_OK;
}

// ---- scatter ----

static tenon_status copy_of(Eval *e, const Value *x, Value **out) {
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, out));
  copy_elems(x->dtype, (*out)->data, 0, x->data, 0, x->n);
  return TENON_OK;
}

static double join_f64(int mode, double a, double b) {
  switch (mode) {
  case SCATTER_ADD: return a + b;
  case SCATTER_MUL: return a * b;
  case SCATTER_MIN: return a < b || a != a ? a : b;
  case SCATTER_MAX: return a > b || a != a ? a : b;
  default: return b;
  }
}

static int64_t join_i64(int mode, DType t, int64_t a, int64_t b) {
  bool less = t == DT_U64 ? (uint64_t)a < (uint64_t)b : a < b;
  switch (mode) {
  case SCATTER_ADD: return t == DT_BOOL ? a | b : (int64_t)((uint64_t)a + (uint64_t)b);
  case SCATTER_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
  case SCATTER_MIN: return less ? a : b;
  case SCATTER_MAX: return less ? b : a;
  default: return b;
  }
}

// Blocks of updates into y, block i at block number to[i], in order.
static tenon_status scatter_blocks(Eval *e, Value *y, const Value *updates, int mode, int64_t n,
                                   int64_t block, const int64_t *to) {
  DTypeClass c = dtype_class(y->dtype);
  if (mode == SCATTER_NONE) {
    for (int64_t i = 0; i < n; i++)
      copy_elems(y->dtype, y->data, to[i] * block, updates->data, i * block, block);
    return TENON_OK;
  }
  if (c == DC_STRING || c == DC_COMPLEX)
    return eval_fail(e, TENON_EUNSUPPORTED, "%s cannot be reduced", dtype_name(y->dtype));
  if (n == 0 || block == 0) return TENON_OK;
  if (c == DC_FLOAT) {
    double *sum = arena_array(&e->run->scratch, double, y->n);
    load_f64(y->dtype, y->data, 0, y->n, sum);
    for (int64_t i = 0; i < n * block; i++) {
      double *s = &sum[to[i / block] * block + i % block];
      *s = join_f64(mode, *s, val_f64(updates, i));
    }
    store_f64(y->dtype, y->data, 0, y->n, sum);
    return TENON_OK;
  }
  for (int64_t i = 0; i < n * block; i++) {
    int64_t k = to[i / block] * block + i % block;
    val_put_i64(y, k, join_i64(mode, y->dtype, val_i64(y, k), val_i64(updates, i)));
  }
  return TENON_OK;
}

tenon_status eval_scatter_elements(Eval *e) {
  const scatter_elements_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  Ints index;
  TRY(eval_ints(e, 1, &index));
  TRY(eval_need(e, 2, "updates", x->dtype));
  const Value *ix = e->in[1], *up = e->in[2];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  TRY(check_elements(e, x, ix, axis));
  bool same = up->rank == ix->rank;
  for (int i = 0; same && i < ix->rank; i++) same = up->dims[i] == ix->dims[i];
  if (!same)
    return eval_fail(e, TENON_EINVAL, "indices %s and updates %s differ in shape",
                     shape_text(ix->rank, ix->dims).s, shape_text(up->rank, up->dims).s);
  int64_t *to = arena_array(&e->run->scratch, int64_t, index.n);
  TRY(element_positions(e, x, ix, index, axis, to));
  Value *y;
  TRY(copy_of(e, x, &y));
  return scatter_blocks(e, y, up, at->reduction, index.n, 1, to);
}

tenon_status eval_scatter_nd(Eval *e) {
  const scatter_nd_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  Ints index;
  TRY(eval_ints(e, 1, &index));
  TRY(eval_need(e, 2, "updates", x->dtype));
  const Value *ix = e->in[1], *up = e->in[2];
  int len;
  TRY(tuple_length(e, x, ix, 0, &len));
  bool fits = up->rank == ix->rank - 1 + x->rank - len;
  for (int i = 0; fits && i < up->rank; i++)
    fits = up->dims[i] == (i < ix->rank - 1 ? ix->dims[i] : x->dims[i - (ix->rank - 1) + len]);
  if (!fits)
    return eval_fail(e, TENON_EINVAL, "updates %s do not fit data %s and indices %s",
                     shape_text(up->rank, up->dims).s, shape_text(x->rank, x->dims).s,
                     shape_text(ix->rank, ix->dims).s);
  Value *y;
  TRY(copy_of(e, x, &y));
  if (up->n == 0) return TENON_OK;
  int64_t block = dims_product(x->dims, len, x->rank), n = up->n / block;
  int64_t *to = arena_array(&e->run->scratch, int64_t, n);
  TRY(tuple_blocks(e, x, ix, index, 0, len, to));
  return scatter_blocks(e, y, up, at->reduction, n, block, to);
}

static tenon_status check_cache(Eval *e, const Value *x, const Value *up, int axis) {
  bool fits = up->rank == x->rank && axis > 0;
  for (int i = 0; fits && i < x->rank; i++)
    fits = i == axis ? up->dims[i] <= x->dims[i] : up->dims[i] == x->dims[i];
  if (fits) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "update %s does not fit the cache %s along axis %d",
                   shape_text(up->rank, up->dims).s, shape_text(x->rank, x->dims).s, axis);
}

tenon_status eval_tensor_scatter(Eval *e) {
  const tensor_scatter_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "past_cache", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  TRY(eval_need(e, 1, "update", x->dtype));
  const Value *up = e->in[1];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  TRY(check_cache(e, x, up, axis));
  Ints start = {0};
  if (eval_in(e, 2)) TRY(eval_ints(e, 2, &start));
  if (eval_in(e, 2) && start.n != x->dims[0])
    return eval_fail(e, TENON_EINVAL, "%lld write indices for a batch of %lld", (long long)start.n,
                     (long long)x->dims[0]);
  Value *y;
  TRY(copy_of(e, x, &y));
  if (up->n == 0) return TENON_OK;
  int64_t max = x->dims[axis], len = up->dims[axis],
          block = dims_product(x->dims, axis + 1, x->rank);
  int64_t rows = dims_product(x->dims, 0, axis), per = rows / x->dims[0];
  for (int64_t r = 0; r < rows; r++) {
    int64_t from = start.n ? start.v[r / per] : 0;
    if (at->mode == 0 && (from < 0 || from > max - len))
      return eval_fail(e, TENON_EINVAL, "%lld steps at position %lld of a cache of %lld",
                       (long long)len, (long long)from, (long long)max);
    from %= max;
    if (from < 0) from += max;
    int64_t first = MIN(len, max - from);  // the rest wraps around
    copy_elems(y->dtype, y->data, (r * max + from) * block, up->data, r * len * block,
               first * block);
    copy_elems(y->dtype, y->data, r * max * block, up->data, (r * len + first) * block,
               (len - first) * block);
  }
  return TENON_OK;
}

// ---- one_hot ----

tenon_status eval_one_hot(Eval *e) {
  const one_hot_attrs *at = e->attrs;
  for (int i = 0; i < 3; i++) TRY(eval_need(e, i, "", TENON_DTYPE_NONE));
  const Value *ix = e->in[0], *depth = e->in[1], *values = e->in[2];
  for (int i = 0; i < 2; i++)
    if (dtype_class(e->in[i]->dtype) == DC_STRING || dtype_class(e->in[i]->dtype) == DC_COMPLEX)
      return eval_fail(e, TENON_EINVAL, "input %d is %s, must be a number", i,
                       dtype_name(e->in[i]->dtype));
  if (depth->n != 1 || values->n != 2)
    return eval_fail(e, TENON_EINVAL, "depth has %lld elements and values %lld, must be 1 and 2",
                     (long long)depth->n, (long long)values->n);
  int axis;
  if (ix->rank >= MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %d is above the limit of %d", ix->rank + 1,
                     MAX_RANK);
  TRY(eval_axis(e, at->axis, ix->rank + 1, &axis));
  int64_t n = val_i64(depth, 0), dims[MAX_RANK];
  if (n < 0) return eval_fail(e, TENON_EINVAL, "depth %lld", (long long)n);
  for (int i = 0; i <= ix->rank; i++)
    dims[i] = i < axis ? ix->dims[i] : i == axis ? n : ix->dims[i - 1];
  Value *y;
  TRY(eval_out(e, 0, values->dtype, ix->rank + 1, dims, &y));
  if (y->n == 0) return TENON_OK;
  move_fill(y->dtype, y->data, 0, y->n, values->data);
  int64_t inner = dims_product(ix->dims, axis, ix->rank);
  for (int64_t i = 0; i < ix->n; i++) {
    int64_t hot = val_i64(ix, i);
    if (hot < 0) hot += n;
    if (hot < 0 || hot >= n) continue;  // out of range: all off
    copy_elems(y->dtype, y->data, (i / inner * n + hot) * inner + i % inner, values->data, 1, 1);
  }
  return TENON_OK;
}
