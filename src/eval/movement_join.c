// movement_join.c -- reference evaluation of the movement ops that join, cut, repeat and fill:
// concat, split, pad, tile, reverse_sequence, trilu, center_crop_pad.
//
// Guarantees: elements are copied as they are, for any dtype; sizes and axes that come from data
//             are checked.
#include "eval/move.h"
#include "eval/movement.h"

// ---- concat and split ----

typedef struct Joint {
  DType t;
  const Value *const *part;
  void *whole;
  int64_t nparts, inner, row;  // row: elements of the whole for one outer index
  int axis;
  bool cut;  // from the whole into the parts
} Joint;

static void joint_piece(void *ctx, int64_t begin, int64_t end) {
  const Joint *j = ctx;
  for (int64_t o = begin; o < end; o++) {
    int64_t at = o * j->row;
    for (int64_t i = 0; i < j->nparts; i++) {
      int64_t n = j->part[i]->dims[j->axis] * j->inner;
      if (j->cut)
        copy_elems(j->t, j->part[i]->data, o * n, j->whole, at, n);
      else
        copy_elems(j->t, j->whole, at, j->part[i]->data, o * n, n);
      at += n;
    }
  }
}

static void run_joint(Run *r, Joint *j, const Value *whole) {
  if (whole->n == 0) return;
  int64_t outer = dims_product(whole->dims, 0, j->axis);
  j->inner = dims_product(whole->dims, j->axis + 1, whole->rank);
  j->row = j->inner * whole->dims[j->axis];
  parallel_for(move_pool(r, j->t), outer, MAX(1, (1 << 15) / j->row), joint_piece, j);
}

tenon_status eval_concat(Eval *e) {
  const concat_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "inputs", 0));
  const Value *x = e->in[0];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  int64_t dims[MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  for (int i = 1; i < e->nin; i++) {
    TRY(eval_need(e, i, "inputs", x->dtype));
    const Value *v = e->in[i];
    if (v->rank != x->rank)
      return eval_fail(e, TENON_EINVAL, "input %d has rank %d, input 0 has %d", i, v->rank,
                       x->rank);
    for (int d = 0; d < x->rank; d++)
      if (d != axis && v->dims[d] != dims[d])
        return eval_fail(e, TENON_EINVAL, "axis %d of input %d has %lld elements, of input 0 %lld",
                         d, i, (long long)v->dims[d], (long long)dims[d]);
    if (!ck_add(dims[axis], v->dims[axis], &dims[axis]))
      return eval_fail(e, TENON_EINVAL, "the result's size does not fit in 64 bits");
  }
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &y));
  Joint j = {.t = x->dtype, .part = e->in, .whole = y->data, .nparts = e->nin, .axis = axis};
  run_joint(e->run, &j, y);
  return TENON_OK;
}

static tenon_status split_sizes(Eval *e, int64_t dim, int64_t *out) {
  const split_attrs *at = e->attrs;
  if (eval_in(e, 1)) {
    Ints sizes;
    TRY(eval_ints(e, 1, &sizes));
    if (sizes.n != e->nout)
      return eval_fail(e, TENON_EINVAL, "%lld sizes for %d results", (long long)sizes.n, e->nout);
    int64_t sum = 0;
    for (int i = 0; i < e->nout; i++) {
      if (sizes.v[i] < 0 || !ck_add(sum, sizes.v[i], &sum))
        return eval_fail(e, TENON_EINVAL, "size %lld of result %d", (long long)sizes.v[i], i);
      out[i] = sizes.v[i];
    }
    if (sum != dim)
      return eval_fail(e, TENON_EINVAL, "sizes sum to %lld, the axis has %lld elements",
                       (long long)sum, (long long)dim);
    return TENON_OK;
  }
  if (at->num_outputs && at->num_outputs != e->nout)
    return eval_fail(e, TENON_EINVAL, "num_outputs %lld for %d results", (long long)at->num_outputs,
                     e->nout);
  int64_t part = dim / e->nout + (dim % e->nout != 0);
  for (int i = 0; i < e->nout; i++) {
    out[i] = MIN(part, dim);
    dim -= out[i];
  }
  return TENON_OK;
}

tenon_status eval_split(Eval *e) {
  const split_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", 0));
  const Value *x = e->in[0];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  int64_t *size = arena_array(&e->run->scratch, int64_t, e->nout);
  TRY(split_sizes(e, x->dims[axis], size));
  int64_t dims[MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  for (int i = 0; i < e->nout; i++) {
    Value *y;
    dims[axis] = size[i];
    TRY(eval_out(e, i, x->dtype, x->rank, dims, &y));
  }
  Joint j = {.t = x->dtype,
             .part = (const Value *const *)e->out,
             .whole = x->data,
             .nparts = e->nout,
             .axis = axis,
             .cut = true};
  run_joint(e->run, &j, x);
  return TENON_OK;
}

// ---- by maps ----

// Input index of position i, where -before <= i < dim + after; -1 for an element that is not there.
static int64_t pad_index(int mode, int64_t i, int64_t dim) {
  if (i >= 0 && i < dim) return i;
  if (mode == PAD_CONSTANT) return -1;
  if (mode == PAD_EDGE) return i < 0 ? 0 : dim - 1;
  int64_t period = mode == PAD_WRAP ? dim : 2 * (dim - 1);
  if (period == 0) return 0;
  i %= period;
  if (i < 0) i += period;
  return i < dim ? i : period - i;
}

static tenon_status pad_widths(Eval *e, const Value *x, int64_t *before, int64_t *after) {
  Ints pads, axes = {0};
  int a[MAX_RANK];
  TRY(eval_ints(e, 1, &pads));
  bool given = eval_in(e, 3) != NULL;
  if (given) TRY(eval_ints(e, 3, &axes));
  int64_t n = given ? axes.n : x->rank;
  if (n > x->rank || pads.n != 2 * n)
    return eval_fail(e, TENON_EINVAL, "%lld pads and %lld axes for rank %d", (long long)pads.n,
                     (long long)n, x->rank);
  if (given) TRY(eval_axes(e, axes, x->rank, a));
  for (int i = 0; i < x->rank; i++) before[i] = after[i] = 0;
  for (int i = 0; i < n; i++) {
    before[given ? a[i] : i] = pads.v[i];
    after[given ? a[i] : i] = pads.v[n + i];
  }
  return TENON_OK;
}

tenon_status eval_pad(Eval *e) {
  const pad_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", 0));
  const Value *x = e->in[0], *fill = eval_in(e, 2);
  int64_t before[MAX_RANK], after[MAX_RANK], dims[MAX_RANK], strides[MAX_RANK];
  TRY(pad_widths(e, x, before, after));
  if (fill) {
    TRY(eval_need(e, 2, "constant_value", x->dtype));
    if (fill->n != 1)
      return eval_fail(e, TENON_EINVAL, "constant_value has %lld elements, must be 1",
                       (long long)fill->n);
  }
  for (int i = 0; i < x->rank; i++) {
    // Negative widths cut first; what is left is then padded.
    int64_t left = x->dims[i] + MIN(before[i], 0);
    if (before[i] < -x->dims[i] || after[i] < -x->dims[i] || (left += MIN(after[i], 0)) < 0)
      return eval_fail(e, TENON_EINVAL,
                       "pads %lld and %lld cut more than the %lld elements of axis %d",
                       (long long)before[i], (long long)after[i], (long long)x->dims[i], i);
    if (!ck_add(left, MAX(before[i], 0), &dims[i]) || !ck_add(dims[i], MAX(after[i], 0), &dims[i]))
      return eval_fail(e, TENON_EINVAL, "the result's size does not fit in 64 bits");
    if (left == 0 && dims[i] > 0 && at->mode != PAD_CONSTANT)
      return eval_fail(e, TENON_EINVAL, "axis %d has no element to pad with", i);
  }
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  int64_t *map[MAX_RANK];
  shape_strides(x->rank, x->dims, strides);
  for (int i = 0; i < x->rank; i++) {
    map[i] = arena_array(&e->run->scratch, int64_t, dims[i]);
    int64_t cut = -MIN(before[i], 0), left = x->dims[i] - cut + MIN(after[i], 0);
    for (int64_t k = 0; k < dims[i]; k++) {
      int64_t from = pad_index(at->mode, k - MAX(before[i], 0), left);
      map[i][k] = from < 0 ? -1 : (from + cut) * strides[i];
    }
  }
  move_mapped(e->run, y, x->data, map, fill ? fill->data : NULL);
  return TENON_OK;
}

tenon_status eval_tile(Eval *e) {
  TRY(eval_need(e, 0, "input", 0));
  const Value *x = e->in[0];
  Ints repeats;
  TRY(eval_ints(e, 1, &repeats));
  if (repeats.n != x->rank)
    return eval_fail(e, TENON_EINVAL, "%lld repeats for rank %d", (long long)repeats.n, x->rank);
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  for (int i = 0; i < x->rank; i++)
    if (repeats.v[i] < 0 || !ck_mul(x->dims[i], repeats.v[i], &dims[i]))
      return eval_fail(e, TENON_EINVAL, "%lld copies of %lld elements along axis %d",
                       (long long)repeats.v[i], (long long)x->dims[i], i);
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  int64_t *map[MAX_RANK];
  shape_strides(x->rank, x->dims, strides);
  for (int i = 0; i < x->rank; i++) {
    map[i] = arena_array(&e->run->scratch, int64_t, dims[i]);
    for (int64_t k = 0; k < dims[i]; k++) map[i][k] = k % x->dims[i] * strides[i];
  }
  move_mapped(e->run, y, x->data, map, NULL);
  return TENON_OK;
}

tenon_status eval_center_crop_pad(Eval *e) {
  const center_crop_pad_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input_data", 0));
  const Value *x = e->in[0];
  Ints shape;
  TRY(eval_ints(e, 1, &shape));
  int a[MAX_RANK];
  int64_t n = at->axes.n ? at->axes.n : x->rank;
  if (n > x->rank || shape.n != n)
    return eval_fail(e, TENON_EINVAL, "%lld sizes for %lld axes of rank %d", (long long)shape.n,
                     (long long)n, x->rank);
  if (at->axes.n) TRY(eval_axes(e, at->axes, x->rank, a));
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  for (int i = 0; i < n; i++) {
    if (shape.v[i] < 0) return eval_fail(e, TENON_EINVAL, "size %lld", (long long)shape.v[i]);
    dims[at->axes.n ? a[i] : i] = shape.v[i];
  }
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  int64_t *map[MAX_RANK];
  shape_strides(x->rank, x->dims, strides);
  for (int i = 0; i < x->rank; i++) {
    map[i] = arena_array(&e->run->scratch, int64_t, dims[i]);
    int64_t have = x->dims[i], want = dims[i];
    int64_t shift = want < have ? (have - want) / 2 : -((want - have) / 2);
    for (int64_t k = 0; k < want; k++) {
      int64_t from = k + shift;
      map[i][k] = from < 0 || from >= have ? -1 : from * strides[i];
    }
  }
  move_mapped(e->run, y, x->data, map, NULL);
  return TENON_OK;
}

// ---- the others ----

tenon_status eval_reverse_sequence(Eval *e) {
  const reverse_sequence_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", 0));
  const Value *x = e->in[0];
  Ints lens;
  TRY(eval_ints(e, 1, &lens));
  if (x->rank < 2)
    return eval_fail(e, TENON_EINVAL, "input has rank %d, must be at least 2", x->rank);
  if (at->time_axis < 0 || at->time_axis > 1 || at->batch_axis != 1 - at->time_axis)
    return eval_fail(e, TENON_EINVAL,
                     "time_axis %lld and batch_axis %lld must be 0 and 1 or 1 and 0",
                     (long long)at->time_axis, (long long)at->batch_axis);
  int64_t batch = x->dims[at->batch_axis], time = x->dims[at->time_axis];
  if (lens.n != batch)
    return eval_fail(e, TENON_EINVAL, "%lld lengths for a batch of %lld", (long long)lens.n,
                     (long long)batch);
  for (int64_t i = 0; i < batch; i++)
    if (lens.v[i] < 0 || lens.v[i] > time)
      return eval_fail(e, TENON_EINVAL, "length %lld of sequence %lld, which has %lld steps",
                       (long long)lens.v[i], (long long)i, (long long)time);
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  if (y->n == 0) return TENON_OK;
  int64_t *from = arena_array(&e->run->scratch, int64_t, batch * time);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < time; t++) {
      int64_t s = t < lens.v[b] ? lens.v[b] - 1 - t : t;
      if (at->time_axis == 0)
        from[t * batch + b] = s * batch + b;
      else
        from[b * time + t] = b * time + s;
    }
  move_blocks(e->run, y, x->data, batch * time, dims_product(x->dims, 2, x->rank), from);
  return TENON_OK;
}

tenon_status eval_trilu(Eval *e) {
  const trilu_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", 0));
  const Value *x = e->in[0];
  int64_t k = 0;
  if (eval_in(e, 1)) {
    Ints ks;
    TRY(eval_ints(e, 1, &ks));
    if (ks.n != 1)
      return eval_fail(e, TENON_EINVAL, "k has %lld elements, must be 1", (long long)ks.n);
    k = ks.v[0];
  }
  if (x->rank < 2)
    return eval_fail(e, TENON_EINVAL, "input has rank %d, must be at least 2", x->rank);
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  if (y->n == 0) return TENON_OK;
  int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1];
  int64_t mats = dims_product(x->dims, 0, x->rank - 2);
  k = MAX(MIN(k, cols + 1), -rows - 1);
  for (int64_t m = 0; m < mats; m++)
    for (int64_t i = 0; i < rows; i++) {
      // the diagonal's column in this row: the upper triangle starts at it, the lower one ends with
      // it
      int64_t at_row = (m * rows + i) * cols;
      int64_t from = at->upper ? MIN(MAX(i + k, 0), cols) : 0;
      int64_t to = at->upper ? cols : MIN(MAX(i + k + 1, 0), cols);
      copy_elems(x->dtype, y->data, at_row + from, x->data, at_row + from, to - from);
    }
  return TENON_OK;
}
