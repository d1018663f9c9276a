// eval.c -- what most reference evaluations need: results, messages, checked inputs, broadcasting.
#include "eval/eval.h"

tenon_status eval_out(Eval *e, int i, DType t, int rank, const int64_t *dims, Value **out_value) {
  *out_value = NULL;
  CHECK(i >= 0 && i < e->nout, "output %d of %d", i, e->nout);
  TRY(value_tensor(e->run, e->at, t, rank, dims, &e->out[i]));
  *out_value = e->out[i];
  if (e->run->ops_budget < 0) return TENON_OK;
  return eval_work(e, eval_extent(e->out[i]) + (i == 0 && e->cost ? e->cost(e) : 0));
}

double eval_extent(const Value *v) {
  if (v->n) return (double)v->n;
  double n = 1;
  for (int i = 0; i < v->rank; i++) n *= (double)MAX(v->dims[i], 1);
  return n;
}

tenon_status run_work(Run *r, Where at, double ops) {
  if (r->ops_budget < 0) return TENON_OK;
  if (!(ops <= (double)r->ops_budget))
    return fail(r->diag, TENON_EINVAL, at, "this takes %.3g operations, %lld are left of the limit",
                ops, (long long)r->ops_budget);
  r->ops_budget -= (int64_t)ops;
  return TENON_OK;
}

tenon_status eval_work(Eval *e, double ops) { return run_work(e->run, e->at, ops); }

tenon_status eval_fail(Eval *e, tenon_status code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  failv(e->run->diag, code, e->at, fmt, ap);
  va_end(ap);
  return code;
}

static const char *kind_name(const Value *v) {
  switch ((ValueKind)v->kind) {
  case VK_TENSOR: return "a tensor";
  case VK_SEQUENCE: return "a sequence";
  case VK_OPTIONAL: return "an optional";
  case VK_MAP: return "a map";
  }
  return "?";
}

tenon_status eval_need(Eval *e, int i, const char *name, DType t) {
  const Value *v = eval_in(e, i);
  if (!v) return eval_fail(e, TENON_EINVAL, "input %d (%s) is missing", i, name);
  if (v->kind != VK_TENSOR)
    return eval_fail(e, TENON_EINVAL, "input %d (%s) is %s, not a tensor", i, name, kind_name(v));
  if (t && v->dtype != t)
    return eval_fail(e, TENON_EINVAL, "input %d (%s) is %s, not %s", i, name, dtype_name(v->dtype),
                     dtype_name(t));
  return TENON_OK;
}

tenon_status eval_ints(Eval *e, int i, Ints *out) {
  *out = (Ints){0};
  TRY(eval_need(e, i, "integers", TENON_DTYPE_NONE));
  const Value *v = e->in[i];
  if (!dtype_is_int(v->dtype) && dtype_class(v->dtype) != DC_BOOL)
    return eval_fail(e, TENON_EINVAL, "input %d is %s, not integers", i, dtype_name(v->dtype));
  int64_t *p = arena_array(&e->run->scratch, int64_t, v->n);
  load_i64(v->dtype, v->data, 0, v->n, p);
  *out = (Ints){v->n, p};
  return TENON_OK;
}

tenon_status eval_doubles(Eval *e, int i, Floats *out) {
  *out = (Floats){0};
  TRY(eval_need(e, i, "numbers", TENON_DTYPE_NONE));
  const Value *v = e->in[i];
  if (dtype_class(v->dtype) == DC_COMPLEX || dtype_class(v->dtype) == DC_STRING)
    return eval_fail(e, TENON_EINVAL, "input %d is %s, not real numbers", i, dtype_name(v->dtype));
  double *p = arena_array(&e->run->scratch, double, v->n);
  load_f64(v->dtype, v->data, 0, v->n, p);
  *out = (Floats){v->n, p};
  return TENON_OK;
}

tenon_status eval_axis(Eval *e, int64_t axis, int rank, int *out) {
  *out = 0;
  if (axis < -(int64_t)rank || axis >= rank)
    return eval_fail(e, TENON_EINVAL, "axis %lld is out of range for rank %d", (long long)axis,
                     rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return TENON_OK;
}

tenon_status eval_broadcast(Eval *e, const Value *const *v, int n, int *out_rank,
                            int64_t *out_dims) {
  int rank = 0;
  *out_rank = 0;
  for (int i = 0; i < n; i++) {
    if (!v[i]) continue;
    if (v[i]->kind != VK_TENSOR)
      return eval_fail(e, TENON_EINVAL, "%s cannot be broadcast", kind_name(v[i]));
    rank = MAX(rank, v[i]->rank);
  }
  for (int k = 0; k < rank; k++) out_dims[k] = 1;
  for (int i = 0; i < n; i++) {
    int pad = v[i] ? rank - v[i]->rank : rank;
    for (int k = pad; k < rank; k++) {
      int64_t d = v[i]->dims[k - pad];
      if (out_dims[k] == 1)
        out_dims[k] = d;
      else if (d != 1 && d != out_dims[k])
        return eval_fail(e, TENON_EINVAL, "shape %s does not broadcast to %s",
                         shape_text(v[i]->rank, v[i]->dims).s, shape_text(rank, out_dims).s);
    }
  }
  *out_rank = rank;
  return TENON_OK;
}

void broadcast_strides(const Value *v, int rank, int64_t *out_strides) {
  int64_t own[MAX_RANK];
  int pad = rank - v->rank;
  CHECK(pad >= 0, "broadcast from rank %d to %d", v->rank, rank);
  shape_strides(v->rank, v->dims, own);
  for (int k = 0; k < rank; k++)
    out_strides[k] = k < pad || v->dims[k - pad] == 1 ? 0 : own[k - pad];
}
