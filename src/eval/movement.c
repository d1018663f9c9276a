// movement.c -- reference evaluation of the movement ops that view or reorder: reshape, flatten,
// squeeze, unsqueeze, transpose, expand, slice, shape, size, depth_to_space, space_to_depth.
//
// Guarantees: elements are copied as they are, for any dtype; sizes and axes that come from data
//             are checked.
#include "eval/move.h"
#include "eval/movement.h"

static tenon_status alias(Eval *e, const Value *x, int rank, const int64_t *dims) {
  // The run counts references on its values: the contents stay as they are.
  return value_alias(e->run, (Value *)(uintptr_t)x, rank, dims, &e->out[0]);
}

tenon_status eval_axes(Eval *e, Ints axes, int rank, int *out_axes) {
  uint32_t seen = 0;
  for (int64_t i = 0; i < axes.n; i++) {
    int a;
    TRY(eval_axis(e, axes.v[i], rank, &a));
    if (seen >> a & 1)
      return eval_fail(e, TENON_EINVAL, "axis %lld is given twice", (long long)axes.v[i]);
    seen |= 1u << a;
    out_axes[i] = a;
  }
  return TENON_OK;
}

// ---- shapes alone ----

static tenon_status reshape_rest(Eval *e, const Value *x, int free_dim, int rank, int64_t *dims) {
  int64_t known = 1;
  for (int i = 0; i < rank; i++)
    if (i != free_dim && !ck_mul(known, dims[i], &known))
      return eval_fail(e, TENON_EINVAL,
                       "the new shape's number of elements does not fit in 64 bits");
  if (free_dim >= 0) {
    if (known == 0)
      return eval_fail(e, TENON_EINVAL, "-1 beside a size of 0 leaves the shape undetermined");
    dims[free_dim] = x->n / known;
    known *= dims[free_dim];
  }
  if (known != x->n)
    return eval_fail(e, TENON_EINVAL, "%lld elements do not fit the new shape, which has %lld",
                     (long long)x->n, (long long)known);
  return TENON_OK;
}

// The shape's sizes times those of the input axes that go into them.  Unlike a plain -1, what is
// left over is determined beside a size of 0 too.
static tenon_status reshape_into(Eval *e, const Value *x, Ints into, Ints shape, int64_t *dims) {
  int free_dim = -1;
  int64_t left = 1, known = 1;
  if (into.n != x->rank)
    return eval_fail(e, TENON_EINVAL, "into has %lld axes for rank %d", (long long)into.n, x->rank);
  for (int i = 0; i < shape.n; i++) {
    bool free = shape.v[i] == -1;
    if (shape.v[i] < -1 || (free && free_dim >= 0))
      return eval_fail(e, TENON_EINVAL, "size %lld at position %d", (long long)shape.v[i], i);
    dims[i] = free ? 1 : shape.v[i];
    if (free) free_dim = i;
    if (!ck_mul(known, dims[i], &known))
      return eval_fail(e, TENON_EINVAL, "a size does not fit in 64 bits");
  }
  for (int i = 0; i < x->rank; i++) {
    if (into.v[i] < -1 || into.v[i] >= shape.n)
      return eval_fail(e, TENON_EINVAL, "into names axis %lld of %lld", (long long)into.v[i],
                       (long long)shape.n);
    int64_t *to = into.v[i] < 0 ? &left : &dims[into.v[i]];
    if (!ck_mul(*to, x->dims[i], to))
      return eval_fail(e, TENON_EINVAL, "a size does not fit in 64 bits");
  }
  if (free_dim < 0) return TENON_OK;
  if (known == 0 || left % known)
    return eval_fail(e, TENON_EINVAL, "%lld elements do not divide by %lld", (long long)left,
                     (long long)known);
  if (!ck_mul(dims[free_dim], left / known, &dims[free_dim]))
    return eval_fail(e, TENON_EINVAL, "a size does not fit in 64 bits");
  return TENON_OK;
}

tenon_status eval_reshape(Eval *e) {
  const reshape_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", 0));
  const Value *x = e->in[0];
  Ints shape;
  TRY(eval_ints(e, 1, &shape));
  if (shape.n > MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d",
                     (long long)shape.n, MAX_RANK);
  int64_t dims[MAX_RANK];
  int free_dim = -1;
  if (at->into.n) {
    TRY(reshape_into(e, x, at->into, shape, dims));
    TRY(reshape_rest(e, x, -1, (int)shape.n, dims));
    return alias(e, x, (int)shape.n, dims);
  }
  for (int i = 0; i < shape.n; i++) {
    dims[i] = shape.v[i];
    if (dims[i] == 0 && !at->allowzero) {
      if (i >= x->rank)
        return eval_fail(e, TENON_EINVAL,
                         "0 at position %d copies a dimension of an input of rank %d", i, x->rank);
      dims[i] = x->dims[i];
    } else if (dims[i] == -1) {
      if (free_dim >= 0) return eval_fail(e, TENON_EINVAL, "more than one -1 in the new shape");
      free_dim = i;
    } else if (dims[i] < 0) {
      return eval_fail(e, TENON_EINVAL, "size %lld at position %d", (long long)dims[i], i);
    }
  }
  TRY(reshape_rest(e, x, free_dim, (int)shape.n, dims));
  return alias(e, x, (int)shape.n, dims);
}

tenon_status eval_flatten(Eval *e) {
  const flatten_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", 0));
  const Value *x = e->in[0];
  int64_t axis = at->axis < 0 ? at->axis + x->rank : at->axis;
  if (axis < 0 || axis > x->rank)
    return eval_fail(e, TENON_EINVAL, "axis %lld is out of range for rank %d", (long long)at->axis,
                     x->rank);
  int64_t dims[2] = {1, 1};
  for (int i = 0; i < x->rank; i++)  // a product beside a 0 elsewhere may still overflow
    if (!ck_mul(dims[i >= axis], x->dims[i], &dims[i >= axis]))
      return eval_fail(e, TENON_EINVAL, "a flattened size does not fit in 64 bits");
  return alias(e, x, 2, dims);
}

tenon_status eval_squeeze(Eval *e) {
  TRY(eval_need(e, 0, "data", 0));
  const Value *x = e->in[0];
  bool drop[MAX_RANK] = {false};
  if (eval_in(e, 1)) {
    Ints axes;
    int a[MAX_RANK];
    TRY(eval_ints(e, 1, &axes));
    if (axes.n > x->rank)
      return eval_fail(e, TENON_EINVAL, "%lld axes for rank %d", (long long)axes.n, x->rank);
    TRY(eval_axes(e, axes, x->rank, a));
    for (int64_t i = 0; i < axes.n; i++) {
      if (x->dims[a[i]] != 1)
        return eval_fail(e, TENON_EINVAL, "axis %d has %lld elements, must be 1", a[i],
                         (long long)x->dims[a[i]]);
      drop[a[i]] = true;
    }
  } else {
    for (int i = 0; i < x->rank; i++) drop[i] = x->dims[i] == 1;
  }
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (int i = 0; i < x->rank; i++)
    if (!drop[i]) dims[rank++] = x->dims[i];
  return alias(e, x, rank, dims);
}

tenon_status eval_unsqueeze(Eval *e) {
  TRY(eval_need(e, 0, "data", 0));
  const Value *x = e->in[0];
  Ints axes;
  TRY(eval_ints(e, 1, &axes));
  if (axes.n > MAX_RANK - x->rank)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d",
                     (long long)(x->rank + axes.n), MAX_RANK);
  int rank = x->rank + (int)axes.n, a[MAX_RANK];
  TRY(eval_axes(e, axes, rank, a));
  bool fresh[MAX_RANK] = {false};
  for (int64_t i = 0; i < axes.n; i++) fresh[a[i]] = true;
  int64_t dims[MAX_RANK];
  for (int i = 0, k = 0; i < rank; i++) dims[i] = fresh[i] ? 1 : x->dims[k++];
  return alias(e, x, rank, dims);
}

void shape_bounds(int rank, int64_t start, int64_t end, int *out_from, int *out_to) {
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  start = MIN(MAX(start, 0), rank);
  end = MIN(MAX(end, 0), rank);
  *out_from = (int)start;
  *out_to = (int)MAX(start, end);
}

tenon_status eval_shape(Eval *e) {
  const shape_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", 0));
  const Value *x = e->in[0];
  int from, to;
  shape_bounds(x->rank, at->start, at->end, &from, &to);
  int64_t n = to - from;
  Value *y;
  TRY(eval_out(e, 0, DT_I64, 1, &n, &y));
  for (int i = from; i < to; i++) ((int64_t *)y->data)[i - from] = x->dims[i];
  return TENON_OK;
}

tenon_status eval_size(Eval *e) {
  TRY(eval_need(e, 0, "data", 0));
  Value *y;
  TRY(eval_out(e, 0, DT_I64, 0, NULL, &y));
  *(int64_t *)y->data = e->in[0]->n;
  return TENON_OK;
}

// ---- by strides ----

static tenon_status permute(Eval *e, const Value *x, int rank, const int64_t *dims, const int *perm,
                            int out_rank, const int64_t *out_dims) {
  // x seen under `dims`, its axes reordered, the result seen under out_dims
  int64_t strides[MAX_RANK], from[MAX_RANK], shape[MAX_RANK];
  shape_strides(rank, dims, strides);
  for (int i = 0; i < rank; i++) {
    from[i] = strides[perm[i]];
    shape[i] = dims[perm[i]];
  }
  Value *y;
  TRY(eval_out(e, 0, x->dtype, out_rank, out_dims, &y));
  Value view = *y;  // the same bytes, under the shape that the copy walks
  view.rank = rank;
  memcpy(view.dims, shape, sizeof shape[0] * (size_t)rank);
  move_strided(e->run, &view, x->data, 0, from);
  return TENON_OK;
}

tenon_status eval_transpose(Eval *e) {
  const transpose_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", 0));
  const Value *x = e->in[0];
  int perm[MAX_RANK];
  if (at->perm.n == 0) {
    for (int i = 0; i < x->rank; i++) perm[i] = x->rank - 1 - i;
  } else if (at->perm.n != x->rank) {
    return eval_fail(e, TENON_EINVAL, "perm has %lld axes for rank %d", (long long)at->perm.n,
                     x->rank);
  } else {
    TRY(eval_axes(e, at->perm, x->rank, perm));
  }
  int64_t dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[perm[i]];
  return permute(e, x, x->rank, x->dims, perm, x->rank, dims);
}

tenon_status eval_expand(Eval *e) {
  TRY(eval_need(e, 0, "input", 0));
  const Value *x = e->in[0];
  Ints shape;
  TRY(eval_ints(e, 1, &shape));
  if (shape.n > MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d",
                     (long long)shape.n, MAX_RANK);
  int rank = (int)MAX(shape.n, x->rank);
  int64_t dims[MAX_RANK], from[MAX_RANK], strides[MAX_RANK];
  shape_strides(x->rank, x->dims, strides);
  for (int i = 0; i < rank; i++) {
    int xi = i - (rank - x->rank), si = i - (rank - (int)shape.n);
    int64_t a = xi < 0 ? 1 : x->dims[xi], b = si < 0 ? 1 : shape.v[si];
    if (b < 0 || (a != b && a != 1 && b != 1))
      return eval_fail(e, TENON_EINVAL, "size %lld does not expand to %lld at axis %d",
                       (long long)a, (long long)b, i);
    dims[i] = a == 1 ? b : a;
    from[i] = a == 1 ? 0 : strides[xi];
  }
  Value *y;
  TRY(eval_out(e, 0, x->dtype, rank, dims, &y));
  move_strided(e->run, y, x->data, 0, from);
  return TENON_OK;
}

void slice_bounds(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *out_first,
                  int64_t *out_count) {
  *out_first = *out_count = 0;
  if (dim <= 0) return;
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  if (step > 0) {
    start = MIN(MAX(start, 0), dim);
    end = MIN(MAX(end, 0), dim);
    if (end > start) *out_count = (end - start - 1) / step + 1;
  } else {
    start = MIN(MAX(start, 0), dim - 1);
    end = MIN(MAX(end, -1), dim - 1);
    uint64_t stride = 0 - (uint64_t)step;
    if (start > end) *out_count = (int64_t)((uint64_t)(start - end - 1) / stride) + 1;
  }
  *out_first = *out_count ? start : 0;
}

tenon_status eval_slice(Eval *e) {
  TRY(eval_need(e, 0, "data", 0));
  const Value *x = e->in[0];
  Ints starts, ends, axes = {0}, steps = {0};
  TRY(eval_ints(e, 1, &starts));
  TRY(eval_ints(e, 2, &ends));
  if (eval_in(e, 3)) TRY(eval_ints(e, 3, &axes));
  if (eval_in(e, 4)) TRY(eval_ints(e, 4, &steps));
  if (ends.n != starts.n || starts.n > x->rank || (eval_in(e, 3) && axes.n != starts.n) ||
      (eval_in(e, 4) && steps.n != starts.n))
    return eval_fail(
        e, TENON_EINVAL, "%lld starts, %lld ends, %lld axes and %lld steps for rank %d",
        (long long)starts.n, (long long)ends.n, (long long)axes.n, (long long)steps.n, x->rank);
  int a[MAX_RANK];
  if (eval_in(e, 3)) TRY(eval_axes(e, axes, x->rank, a));
  int64_t dims[MAX_RANK], strides[MAX_RANK], base = 0;
  memcpy(dims, x->dims, sizeof dims);
  shape_strides(x->rank, x->dims, strides);
  for (int i = 0; i < starts.n; i++) {
    int ax = eval_in(e, 3) ? a[i] : i;
    int64_t step = eval_in(e, 4) ? steps.v[i] : 1, first, count;
    if (step == 0) return eval_fail(e, TENON_EINVAL, "step 0 at axis %d", ax);
    slice_bounds(x->dims[ax], starts.v[i], ends.v[i], step, &first, &count);
    dims[ax] = count;
    base += first * strides[ax];
    strides[ax] = count > 1 ? strides[ax] * step : 0;  // a longer step than the axis stays unused
  }
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &y));
  move_strided(e->run, y, x->data, base, strides);
  return TENON_OK;
}

// ---- blocks of pixels ----

static tenon_status block_input(Eval *e, int64_t b) {
  TRY(eval_need(e, 0, "input", 0));
  if (e->in[0]->rank != 4)
    return eval_fail(e, TENON_EINVAL, "input has rank %d, must be 4", e->in[0]->rank);
  int64_t bb;
  if (b <= 0 || !ck_mul(b, b, &bb))
    return eval_fail(e, TENON_EINVAL, "blocksize %lld", (long long)b);
  return TENON_OK;
}

static tenon_status first_depth_to_space(Eval *e) {
  const depth_to_space_attrs *at = e->attrs;
  int64_t b = at->blocksize;
  TRY(block_input(e, b));
  const Value *x = e->in[0];
  const int64_t *d = x->dims;
  if (d[1] % (b * b))
    return eval_fail(e, TENON_EINVAL, "%lld channels do not divide by %lld x %lld", (long long)d[1],
                     (long long)b, (long long)b);
  int64_t c = d[1] / (b * b), h, w;
  if (!ck_mul(d[2], b, &h) || !ck_mul(d[3], b, &w))
    return eval_fail(e, TENON_EINVAL, "the result's size does not fit in 64 bits");
  int64_t out[4] = {d[0], c, h, w};
  if (at->mode == 0)
    return permute(e, x, 6, (int64_t[]){d[0], b, b, c, d[2], d[3]}, (int[]){0, 3, 4, 1, 5, 2}, 4,
                   out);
  return permute(e, x, 6, (int64_t[]){d[0], c, b, b, d[2], d[3]}, (int[]){0, 1, 4, 2, 5, 3}, 4,
                 out);
}
EVAL_ORDERED(depth_to_space, depth_to_space_attrs, 0, ORDER_DATA)

static tenon_status first_space_to_depth(Eval *e) {
  const space_to_depth_attrs *at = e->attrs;
  int64_t b = at->blocksize;
  TRY(block_input(e, b));
  const Value *x = e->in[0];
  const int64_t *d = x->dims;
  if (d[2] % b || d[3] % b)
    return eval_fail(e, TENON_EINVAL, "%lld x %lld does not divide into blocks of %lld",
                     (long long)d[2], (long long)d[3], (long long)b);
  int64_t c, dims[6] = {d[0], d[1], d[2] / b, b, d[3] / b, b};
  if (!ck_mul(d[1], b * b, &c))
    return eval_fail(e, TENON_EINVAL, "the result's size does not fit in 64 bits");
  int64_t out[4] = {d[0], c, d[2] / b, d[3] / b};
  static const int dcr[6] = {0, 3, 5, 1, 2, 4}, crd[6] = {0, 1, 3, 5, 2, 4};
  return permute(e, x, 6, dims, at->mode == 0 ? dcr : crd, 4, out);
}
EVAL_ORDERED(space_to_depth, space_to_depth_attrs, 0, ORDER_DATA)
