// infer.c -- helpers for the ops' type and shape inference.
//
// A dimension that cannot be proven right or wrong is left to the check at run time: the
// interpreter compares every result with its inferred type.
#include "base/limits.h"
#include "ir/internal.h"

tenon_status infer_fail(Infer *in, tenon_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tenon_status s = failv(in->diag, code, in->at, fmt, ap);
  va_end(ap);
  return s;
}

static const char *dim_text(Infer *in, Dim d) {
  StrBuf b;
  strbuf_init(&b, &in->g->scratch);
  ie_print(&b, d);
  return strbuf_text(&b);
}

tenon_status infer_need(Infer *in, int i, DType t) {
  const Type *ty = infer_type(in, i);
  if (!ty) return infer_fail(in, TENON_EINVAL, "operand %d is required and absent", i);
  if (ty->kind != TK_TENSOR) return infer_fail(in, TENON_EINVAL, "operand %d must be a tensor", i);
  if (t && ty->dtype && ty->dtype != t)
    return infer_fail(in, TENON_EINVAL, "operand %d is %s, must be %s", i, dtype_name(ty->dtype),
                      dtype_name(t));
  return TENON_OK;
}

tenon_status infer_need_float(Infer *in, int i, int rank) {
  TRY(infer_need(in, i, 0));
  const Type *t = infer_type(in, i);
  if (t->dtype && !dtype_is_float(t->dtype))
    return infer_fail(in, TENON_EINVAL, "operand %d is %s, must be a float type", i,
                      dtype_name(t->dtype));
  if (rank >= 0 && t->rank >= 0 && t->rank != rank)
    return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be %d", i, t->rank, rank);
  return TENON_OK;
}

tenon_status infer_axis(Infer *in, int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank)
    return infer_fail(in, TENON_EINVAL, "axis %lld is out of range for rank %d", (long long)axis,
                      rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return TENON_OK;
}

tenon_status infer_same_dtype(Infer *in, int i, int j) {
  TRY(infer_need(in, i, 0));
  TRY(infer_need(in, j, 0));
  DType a = infer_type(in, i)->dtype, b = infer_type(in, j)->dtype;
  if (a && b && a != b)
    return infer_fail(in, TENON_EINVAL, "operands %d and %d differ in type: %s and %s", i, j,
                      dtype_name(a), dtype_name(b));
  return TENON_OK;
}

tenon_status infer_broadcast_dim(Infer *in, Dim a, Dim b, Dim *out) {
  *out = ie_bcast(&in->g->dims, a, b);
  if (a == b || ie_is(a, 1) || ie_is(b, 1)) return TENON_OK;
  if (ie_is_const(a) && ie_is_const(b))
    return infer_fail(in, TENON_EINVAL, "sizes %s and %s do not broadcast", dim_text(in, a),
                      dim_text(in, b));
  return TENON_OK;
}

tenon_status infer_broadcast(Infer *in, int i, int j, int *out_rank, Dim *out_dims) {
  int rank = 0;
  for (int k = i; k < j; k++) {
    const Type *t = infer_type(in, k);
    if (!t) continue;
    if (t->kind != TK_TENSOR) return infer_fail(in, TENON_EINVAL, "operand %d must be a tensor", k);
    if (t->rank < 0) {
      *out_rank = -1;
      return TENON_OK;
    }
    rank = MAX(rank, t->rank);
  }
  for (int d = 0; d < rank; d++) out_dims[d] = in->g->dims.one;
  for (int k = i; k < j; k++) {
    const Type *t = infer_type(in, k);
    if (!t) continue;
    for (int d = 0; d < t->rank; d++) {
      Dim *slot = &out_dims[rank - t->rank + d];
      TRY(infer_broadcast_dim(in, *slot, t->dims[d], slot));
    }
  }
  *out_rank = rank;
  return TENON_OK;
}

tenon_status infer_equal_dim(Infer *in, Dim a, Dim b, const char *what) {
  Answer same = ie_eq(&in->g->dims, a, b);
  SameDims *note = in->g->same;
  if (same == UNKNOWN && note)
    vec_push(note->arena, &note->v, ((SameDim){a, b, str_copy(note->arena, str_of(what))}));
  if (same != NO) return TENON_OK;
  return infer_fail(in, TENON_EINVAL, "%s: %s and %s must be equal", what, dim_text(in, a),
                    dim_text(in, b));
}

tenon_status infer_merge_dim(Infer *in, Dim a, Dim b, const char *what, Dim *out) {
  *out = ie_is_const(b) ? b : a;
  return infer_equal_dim(in, a, b, what);
}

tenon_status infer_set(Infer *in, int i, DType t, int rank, const Dim *dims) {
  if (i >= in->nres) return TENON_OK;
  if (rank > MAX_RANK)
    return infer_fail(in, TENON_EUNSUPPORTED, "rank %d is above the limit of %d", rank, MAX_RANK);
  for (int k = 0; k < rank; k++) {
    if (ie_is_poison(dims[k]))
      return infer_fail(in, TENON_EINVAL,
                        "dimension %d of the result does not fit in 64 bits, or its expression "
                        "exceeds the limit of %d terms, %d levels or %d nodes",
                        k, LIMIT_DIM_TERMS, LIMIT_DIM_DEPTH, LIMIT_DIM_NODES);
    if (dims[k]->hi < 0)
      return infer_fail(in, TENON_EINVAL, "dimension %d of the result is negative: %s", k,
                        dim_text(in, dims[k]));
  }
  in->type[i] = type_tensor(in->g, t, rank, dims);
  if (ie_is_poison(type_numel(in->g, in->type[i])) && type_is_static(in->type[i])) {
    for (int k = 0; k < rank; k++)
      if (ie_is(dims[k], 0)) return TENON_OK;  // no elements, whatever the others are
    return infer_fail(in, TENON_EINVAL, "the result's number of elements does not fit in 64 bits");
  }
  return TENON_OK;
}

void infer_set_unranked(Infer *in, int i, DType t) {
  if (i < in->nres) in->type[i] = type_unranked(in->g, t);
}
void infer_set_type(Infer *in, int i, const Type *t) {
  if (i < in->nres) in->type[i] = t;
}

tenon_status infer_same_as_first(Infer *in) {
  TRY(infer_need(in, 0, 0));
  infer_set_type(in, 0, infer_type(in, 0));
  return TENON_OK;
}

tenon_status infer_elementwise(Infer *in) {
  TRY(infer_need(in, 0, 0));
  for (int i = 1; i < in->nsrc; i++)
    if (infer_src(in, i)) TRY(infer_same_dtype(in, 0, i));
  int rank;
  Dim dims[MAX_RANK];
  TRY(infer_broadcast(in, 0, in->nsrc, &rank, dims));
  DType t = infer_type(in, 0)->dtype;
  if (rank < 0) {
    infer_set_unranked(in, 0, t);
    return TENON_OK;
  }
  return infer_set(in, 0, t, rank, dims);
}
