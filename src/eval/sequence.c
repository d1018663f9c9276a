// sequence.c -- sequences and optionals.  Elements are shared, never copied.
#include "eval/sequence.h"

static tenon_status need_sequence(Eval *e, int i) {
  const Value *v = eval_in(e, i);
  if (!v || v->kind != VK_SEQUENCE)
    return eval_fail(e, TENON_EINVAL, "operand %d must be a sequence", i);
  return TENON_OK;
}

// A position from a scalar operand, negative from the end; `n` positions are allowed.
static tenon_status position(Eval *e, int i, int64_t count, int64_t n, int64_t *out) {
  Ints p;
  TRY(eval_ints(e, i, &p));
  if (p.n != 1) return eval_fail(e, TENON_EINVAL, "the position must be one integer");
  *out = p.v[0];
  if (*out < -count || *out >= n)
    return eval_fail(e, TENON_EINVAL, "position %lld in a sequence of %lld", (long long)*out,
                     (long long)count);
  if (*out < 0) *out += count;
  return TENON_OK;
}

tenon_status eval_sequence_construct(Eval *e) {
  DType t = e->nin && e->in[0] && e->in[0]->kind == VK_TENSOR ? e->in[0]->dtype : TENON_DTYPE_NONE;
  Value *s;
  for (int i = 0; i < e->nin; i++) TRY(eval_need(e, i, "element", t));
  TRY(value_sequence(e->run, t, e->nin, &s));
  for (int i = 0; i < e->nin; i++) s->items[i] = value_retain(e->in[i]);
  e->out[0] = s;
  return TENON_OK;
}

tenon_status eval_sequence_empty(Eval *e) {
  const sequence_empty_attrs *at = e->attrs;
  return value_sequence(e->run, at->dtype, 0, &e->out[0]);
}

tenon_status eval_sequence_at(Eval *e) {
  TRY(need_sequence(e, 0));
  int64_t p;
  TRY(position(e, 1, e->in[0]->nitems, e->in[0]->nitems, &p));
  e->out[0] = value_retain(e->in[0]->items[p]);
  return TENON_OK;
}

tenon_status eval_sequence_insert(Eval *e) {
  TRY(need_sequence(e, 0));
  TRY(eval_need(e, 1, "element", 0));
  const Value *s = e->in[0];
  int64_t p = s->nitems;
  if (eval_in(e, 2)) TRY(position(e, 2, s->nitems, s->nitems + 1, &p));
  if (s->elem_dtype && e->in[1]->kind == VK_TENSOR && s->elem_dtype != e->in[1]->dtype)
    return eval_fail(e, TENON_EINVAL, "a %s element into a sequence of %s",
                     dtype_name(e->in[1]->dtype), dtype_name(s->elem_dtype));
  Value *r;
  TRY(value_sequence(e->run, e->in[1]->dtype, s->nitems + 1, &r));
  for (int64_t i = 0; i <= s->nitems; i++)
    r->items[i] = value_retain(i == p ? e->in[1] : s->items[i < p ? i : i - 1]);
  e->out[0] = r;
  return TENON_OK;
}

tenon_status eval_sequence_erase(Eval *e) {
  TRY(need_sequence(e, 0));
  const Value *s = e->in[0];
  int64_t p = s->nitems - 1;
  if (eval_in(e, 1)) TRY(position(e, 1, s->nitems, s->nitems, &p));
  if (!s->nitems) return eval_fail(e, TENON_EINVAL, "the sequence is empty");
  Value *r;
  TRY(value_sequence(e->run, s->elem_dtype, s->nitems - 1, &r));
  for (int64_t i = 0; i < r->nitems; i++) r->items[i] = value_retain(s->items[i < p ? i : i + 1]);
  e->out[0] = r;
  return TENON_OK;
}

tenon_status eval_sequence_length(Eval *e) {
  TRY(need_sequence(e, 0));
  Value *v;
  TRY(eval_out(e, 0, DT_I64, 0, NULL, &v));
  val_put_i64(v, 0, e->in[0]->nitems);
  return TENON_OK;
}

// ---- joining and cutting ----

// Checks that the elements can be joined; sizes of the result without the axis come from the first.
static tenon_status join_shape(Eval *e, const Value *s, bool new_axis, int64_t axis, int *out_axis,
                               int64_t *total) {
  const Value *first = s->items[0];
  int rank = first->rank + new_axis;
  if (first->kind != VK_TENSOR || rank > MAX_RANK)
    return eval_fail(e, TENON_EINVAL, "elements must be tensors of rank up to %d",
                     MAX_RANK - new_axis);
  TRY(eval_axis(e, axis, rank, out_axis));
  *total = 0;
  for (int64_t i = 0; i < s->nitems; i++) {
    const Value *v = s->items[i];
    bool same = v->kind == VK_TENSOR && v->dtype == first->dtype && v->rank == first->rank;
    for (int d = 0; same && d < v->rank; d++)
      same = (!new_axis && d == *out_axis) || v->dims[d] == first->dims[d];
    if (!same)
      return eval_fail(e, TENON_EINVAL, "element %lld does not fit element 0", (long long)i);
    if (!ck_add(*total, new_axis ? 1 : v->dims[*out_axis], total))
      return eval_fail(e, TENON_EINVAL, "the result is too large");
  }
  return TENON_OK;
}

tenon_status eval_concat_from_sequence(Eval *e) {
  const concat_from_sequence_attrs *at = e->attrs;
  TRY(need_sequence(e, 0));
  const Value *s = e->in[0];
  if (!s->nitems) return eval_fail(e, TENON_EINVAL, "the sequence is empty");
  int axis;
  int64_t total, dims[MAX_RANK], outer = 1, inner = 1, done = 0;
  TRY(join_shape(e, s, at->new_axis, at->axis, &axis, &total));
  const Value *first = s->items[0];
  int rank = first->rank + at->new_axis;
  for (int d = 0; d < rank; d++)
    dims[d] = d == axis ? total : first->dims[at->new_axis && d > axis ? d - 1 : d];
  Value *r;
  TRY(eval_out(e, 0, first->dtype, rank, dims, &r));
  for (int d = 0; d < axis; d++) outer *= dims[d];
  for (int d = axis + 1; d < rank; d++) inner *= dims[d];
  for (int64_t i = 0; i < s->nitems; i++) {
    int64_t len = at->new_axis ? 1 : s->items[i]->dims[axis];
    for (int64_t o = 0; o < outer; o++)
      copy_elems(r->dtype, r->data, (o * total + done) * inner, s->items[i]->data, o * len * inner,
                 len * inner);
    done += len;
  }
  return TENON_OK;
}

// Sizes of the pieces: one each without `split`, equal ones from a scalar, or as listed.
static tenon_status piece_sizes(Eval *e, int64_t length, Ints *out) {
  Ints s = {0};
  if (eval_in(e, 1)) TRY(eval_ints(e, 1, &s));
  bool scalar = eval_in(e, 1) && e->in[1]->rank == 0;
  int64_t size = scalar ? s.v[0] : 1;
  if (eval_in(e, 1) && !scalar) {
    int64_t sum = 0;
    for (int64_t i = 0; i < s.n; i++)
      if (s.v[i] < 0 || !ck_add(sum, s.v[i], &sum))
        return eval_fail(e, TENON_EINVAL, "a piece of size %lld", (long long)s.v[i]);
    if (sum != length)
      return eval_fail(e, TENON_EINVAL, "pieces of %lld elements in all for an axis of %lld",
                       (long long)sum, (long long)length);
    *out = s;
    return TENON_OK;
  }
  if (size < 1) return eval_fail(e, TENON_EINVAL, "pieces of size %lld", (long long)size);
  int64_t n = length / size + (length % size != 0);
  int64_t *v = arena_array(&e->run->scratch, int64_t, n);
  for (int64_t i = 0; i < n; i++) v[i] = MIN(size, length - i * size);
  *out = (Ints){n, v};
  return TENON_OK;
}

tenon_status eval_split_to_sequence(Eval *e) {
  const split_to_sequence_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  int axis;
  TRY(eval_axis(e, at->axis, x->rank, &axis));
  Ints size;
  TRY(piece_sizes(e, x->dims[axis], &size));
  bool drop = !at->keepdims && !eval_in(e, 1);
  int64_t outer = 1, inner = 1, done = 0;
  for (int d = 0; d < axis; d++) outer *= x->dims[d];
  for (int d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
  Value *s;
  TRY(value_sequence(e->run, x->dtype, size.n, &s));
  e->out[0] = s;
  for (int64_t i = 0; i < size.n; i++) {
    int64_t dims[MAX_RANK], len = size.v[i];
    for (int d = 0, k = 0; d < x->rank; d++)
      if (d != axis || !drop) dims[k++] = d == axis ? len : x->dims[d];
    TRY(value_tensor(e->run, e->at, x->dtype, x->rank - drop, dims, &s->items[i]));
    for (int64_t o = 0; o < outer; o++)
      copy_elems(x->dtype, s->items[i]->data, o * len * inner, x->data,
                 (o * x->dims[axis] + done) * inner, len * inner);
    done += len;
  }
  return TENON_OK;
}

// ---- optionals ----

tenon_status eval_optional(Eval *e) {
  const optional_attrs *at = e->attrs;
  const Value *v = eval_in(e, 0);
  DType t = v ? (v->kind == VK_TENSOR ? v->dtype : v->elem_dtype) : at->dtype;
  return value_optional(e->run, t, (Value *)(uintptr_t)v, &e->out[0]);
}

tenon_status eval_optional_get_element(Eval *e) {
  const Value *v = eval_in(e, 0);
  if (!v) return eval_fail(e, TENON_EINVAL, "the optional is absent");
  if (v->kind == VK_OPTIONAL) {
    if (!v->nitems || !v->items[0]) return eval_fail(e, TENON_EINVAL, "the optional is empty");
    v = v->items[0];
  }
  e->out[0] = value_retain(v);
  return TENON_OK;
}

tenon_status eval_optional_has_element(Eval *e) {
  const Value *v = eval_in(e, 0);
  Value *r;
  TRY(eval_out(e, 0, DT_BOOL, 0, NULL, &r));
  val_put_i64(r, 0, v && (v->kind != VK_OPTIONAL || (v->nitems && v->items[0])));
  return TENON_OK;
}
