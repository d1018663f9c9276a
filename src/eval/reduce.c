// reduce.c -- reference evaluation of the reductions.
//
// Neighbouring axes that are both kept or both reduced are merged, and axes of size 1 dropped.  A
// block of up to BLOCK contiguous outputs is reduced at a time: when the last axis is kept, a run
// of the input adds to each of them; when it is reduced, each output takes its runs one after
// another.
//
// Guarantees: every output element takes its inputs in row-major order, in double (integers in 64
//             bits,
// wrapping), whatever the number of threads; one rounding at the end.
#include "eval/movement.h"
#include "eval/reduce.h"

#include <math.h>

enum { BLOCK = 256 };
typedef enum {
  R_SUM,
  R_PROD,
  R_MAX,
  R_MIN,
  R_MEAN,
  R_L1,
  R_L2,
  R_LOG_SUM,
  R_LOG_SUM_EXP,
  R_SQUARE
} Reduction;

typedef struct Reduce {
  Reduction kind;
  DType t;
  const void *src;
  void *dst;
  int nkept, nred;
  int64_t kept[MAX_RANK], kept_stride[MAX_RANK];  // outer first
  int64_t red[MAX_RANK], red_stride[MAX_RANK];
  int64_t width;  // contiguous outputs: the last kept axis where it is the input's last, else 1
  int64_t run;    // contiguous inputs of one output: the last reduced axis, else 1
  int64_t runs, count;  // runs of one output; inputs of one output
} Reduce;

// ---- floats ----

typedef struct Sum {
  double v[BLOCK], top[BLOCK];  // top: the largest so far, for log_sum_exp
} Sum;

static double start_f64(Reduction k) {
  switch (k) {
  case R_PROD: return 1;
  case R_MAX: return -INFINITY;
  case R_MIN: return INFINITY;
  default: return 0;
  }
}

// s + exp(x) relative to the largest value so far, which may be x
static void add_exp(double *s, double *top, double x) {
  if (x <= *top) {
    *s += x == *top ? 1 : exp(x - *top);
  } else if (x > *top) {
    *s = *s * exp(*top - x) + 1;  // exp(-inf) is 0: nothing was there
    *top = x;
  } else {
    *s = *top = NAN;
  }
}

static void step_f64(Reduction k, double *v, double *top, double x) {
  switch (k) {
  case R_SUM:
  case R_MEAN:
  case R_LOG_SUM: *v += x; break;
  case R_PROD: *v *= x; break;
  case R_MAX: *v = x > *v || x != x ? x : *v; break;
  case R_MIN: *v = x < *v || x != x ? x : *v; break;
  case R_L1: *v += fabs(x); break;
  case R_L2:
  case R_SQUARE: *v += x * x; break;
  case R_LOG_SUM_EXP: add_exp(v, top, x); break;
  }
}

static double finish_f64(Reduction k, double v, double top, int64_t count) {
  switch (k) {
  case R_MEAN: return v / (double)count;
  case R_L2: return sqrt(v);
  case R_LOG_SUM: return log(v);
  case R_LOG_SUM_EXP: return isinf(top) ? top : log(v) + top;
  default: return v;
  }
}

// One run of n inputs into n outputs (wide) or into one.
static void take_f64(Reduction k, Sum *s, const double *x, int64_t n, bool wide) {
  if ((k == R_SUM || k == R_MEAN) && wide) {  // the most frequent ones by far
    for (int64_t i = 0; i < n; i++) s->v[i] += x[i];
    return;
  }
  if (k == R_SUM || k == R_MEAN) {
    double sum = s->v[0];
    for (int64_t i = 0; i < n; i++) sum += x[i];
    s->v[0] = sum;
    return;
  }
  for (int64_t i = 0; i < n; i++) step_f64(k, &s->v[wide ? i : 0], &s->top[wide ? i : 0], x[i]);
}

// ---- integers and bool ----

static int64_t least_int(DType t) {
  return dtype_class(t) == DC_INT ? INT64_MIN >> (64 - dtype_bits(t)) : 0;
}
static int64_t greatest_int(DType t) {
  if (t == DT_BOOL) return 1;
  int bits = dtype_bits(t) - (dtype_class(t) == DC_INT);
  return bits == 64 ? -1 : (int64_t)((1ull << bits) - 1);  // u64: all ones
}

static int64_t start_i64(Reduction k, DType t) {
  switch (k) {
  case R_PROD: return 1;
  case R_MAX: return least_int(t);
  case R_MIN: return greatest_int(t);
  default: return 0;
  }
}

static bool less(DType t, int64_t a, int64_t b) {
  return t == DT_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static void step_i64(Reduction k, DType t, int64_t *v, int64_t x) {
  uint64_t a = (uint64_t)*v, b = (uint64_t)x;  // wraps
  switch (k) {
  case R_PROD: a *= b; break;
  case R_MAX: a = less(t, *v, x) ? b : a; break;
  case R_MIN: a = less(t, x, *v) ? b : a; break;
  case R_L1: a += x < 0 && t != DT_U64 ? 0 - b : b; break;
  case R_L2:
  case R_SQUARE: a += b * b; break;
  default: a += b; break;
  }
  *v = (int64_t)a;
}

static int64_t finish_i64(Reduction k, DType t, int64_t v, int64_t count) {
  double x = t == DT_U64 ? (double)(uint64_t)v : (double)v;
  switch (k) {
  case R_MEAN:
    if (count == 0) return 0;
    return t == DT_U64 ? (int64_t)((uint64_t)v / (uint64_t)count) : v / count;
  case R_L2: x = sqrt(x); break;
  case R_LOG_SUM: x = log(x); break;
  default: return v;
  }
  put_f64(DT_I64, &v, 0, x);  // as a cast: the lowest for log 0, 0 for NaN
  return v;
}

// ---- walking ----

static int64_t offset_of(int n, const int64_t *dims, const int64_t *strides, int64_t index) {
  int64_t pos = 0;
  for (int d = n - 1; d >= 0; d--) {
    pos += index % dims[d] * strides[d];
    index /= dims[d];
  }
  return pos;
}

// n outputs from `out` on, all within one row of `width`
static void block_f64(const Reduce *r, int64_t out, int64_t n) {
  Sum s;
  double x[BLOCK];
  bool wide = r->width > 1;
  int64_t base = offset_of(r->nkept, r->kept, r->kept_stride, out);
  for (int64_t i = 0; i < n; i++) {
    s.v[i] = start_f64(r->kind);
    s.top[i] = -INFINITY;
  }
  for (int64_t k = 0; k < r->runs; k++) {
    int64_t pos = base + offset_of(r->nred - (r->run > 1), r->red, r->red_stride, k);
    for (int64_t i = 0; i < r->run; i += BLOCK) {
      int64_t len = wide ? n : MIN(BLOCK, r->run - i);
      load_f64(r->t, r->src, pos + i, len, x);
      take_f64(r->kind, &s, x, len, wide);
    }
  }
  for (int64_t i = 0; i < n; i++) s.v[i] = finish_f64(r->kind, s.v[i], s.top[i], r->count);
  store_f64(r->t, r->dst, out, n, s.v);
}

static void block_i64(const Reduce *r, int64_t out, int64_t n) {
  int64_t v[BLOCK], x[BLOCK];
  bool wide = r->width > 1;
  int64_t base = offset_of(r->nkept, r->kept, r->kept_stride, out);
  for (int64_t i = 0; i < n; i++) v[i] = start_i64(r->kind, r->t);
  for (int64_t k = 0; k < r->runs; k++) {
    int64_t pos = base + offset_of(r->nred - (r->run > 1), r->red, r->red_stride, k);
    for (int64_t i = 0; i < r->run; i += BLOCK) {
      int64_t len = wide ? n : MIN(BLOCK, r->run - i);
      load_i64(r->t, r->src, pos + i, len, x);
      for (int64_t j = 0; j < len; j++) step_i64(r->kind, r->t, &v[wide ? j : 0], x[j]);
    }
  }
  for (int64_t i = 0; i < n; i++) v[i] = finish_i64(r->kind, r->t, v[i], r->count);
  store_i64(r->t, r->dst, out, n, v);
}

static void reduce_piece(void *ctx, int64_t begin, int64_t end) {
  const Reduce *r = ctx;
  for (int64_t i = begin; i < end;) {
    int64_t n = MIN(MIN(end - i, BLOCK), r->width - i % r->width);
    // Exponentials are no integers, even of integers; the result is truncated.
    if (dtype_is_float(r->t) || r->kind == R_LOG_SUM_EXP)
      block_f64(r, i, n);
    else
      block_i64(r, i, n);
    i += n;
  }
}

// ---- set-up ----

static void add_axis(int *n, int64_t *dims, int64_t *strides, int64_t dim, int64_t stride,
                     bool merge) {
  if (merge) {
    dims[*n - 1] *= dim;
    strides[*n - 1] = stride;
    return;
  }
  dims[*n] = dim;
  strides[(*n)++] = stride;
}

static void set_axes(Reduce *r, const Value *x, const bool *reduced) {
  int64_t strides[MAX_RANK];
  int last = -1;
  r->width = r->run = 1;
  if (x->n == 0) return;  // every output is that of no inputs
  shape_strides(x->rank, x->dims, strides);
  r->count = 1;
  for (int i = 0; i < x->rank; i++) {
    if (x->dims[i] == 1) continue;
    bool merge = last >= 0 && reduced[last] == reduced[i];
    last = i;
    if (reduced[i]) {
      add_axis(&r->nred, r->red, r->red_stride, x->dims[i], strides[i], merge);
      r->count *= x->dims[i];
    } else {
      add_axis(&r->nkept, r->kept, r->kept_stride, x->dims[i], strides[i], merge);
    }
  }
  if (last >= 0 && reduced[last]) r->run = r->red[r->nred - 1];
  if (last >= 0 && !reduced[last]) r->width = r->kept[r->nkept - 1];
  r->runs = r->count / r->run;
}

static tenon_status find_axes(Eval *e, const Value *x, bool *reduced) {
  const reduce_attrs *at = e->attrs;
  Ints axes = {0};
  int a[MAX_RANK];
  if (eval_in(e, 1)) TRY(eval_ints(e, 1, &axes));
  TRY(eval_axes(e, axes, x->rank, a));
  for (int i = 0; i < x->rank; i++) reduced[i] = axes.n == 0 && !at->noop_with_empty_axes;
  for (int64_t i = 0; i < axes.n; i++) reduced[a[i]] = true;
  return TENON_OK;
}

static tenon_status reduce(Eval *e, Reduction kind) {
  const reduce_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  DTypeClass c = dtype_class(x->dtype);
  if (c == DC_STRING || c == DC_COMPLEX || (c == DC_BOOL && kind != R_MAX && kind != R_MIN))
    return eval_fail(e, TENON_EINVAL, "%s cannot be reduced so", dtype_name(x->dtype));
  bool reduced[MAX_RANK];
  TRY(find_axes(e, x, reduced));
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (int i = 0; i < x->rank; i++)
    if (!reduced[i] || at->keepdims) dims[rank++] = reduced[i] ? 1 : x->dims[i];
  Value *y;
  TRY(eval_out(e, 0, x->dtype, rank, dims, &y));
  if (y->n == 0) return TENON_OK;
  Reduce r = {.kind = kind, .t = x->dtype, .src = x->data, .dst = y->data};
  set_axes(&r, x, reduced);
  int64_t grain = MAX(1, (1 << 14) / MAX(r.count, 1));
  if (r.width > 1) grain = MAX(grain, MIN(BLOCK, r.width));
  parallel_for(elem_bytes(x->dtype) ? e->run->pool : NULL, y->n, grain, reduce_piece, &r);
  return TENON_OK;
}

tenon_status eval_reduce_sum(Eval *e) { return reduce(e, R_SUM); }
tenon_status eval_reduce_prod(Eval *e) { return reduce(e, R_PROD); }
tenon_status eval_reduce_max(Eval *e) { return reduce(e, R_MAX); }
tenon_status eval_reduce_min(Eval *e) { return reduce(e, R_MIN); }
tenon_status eval_reduce_mean(Eval *e) { return reduce(e, R_MEAN); }
tenon_status eval_reduce_l1(Eval *e) { return reduce(e, R_L1); }
tenon_status eval_reduce_l2(Eval *e) { return reduce(e, R_L2); }
tenon_status eval_reduce_log_sum(Eval *e) { return reduce(e, R_LOG_SUM); }
tenon_status eval_reduce_log_sum_exp(Eval *e) { return reduce(e, R_LOG_SUM_EXP); }
tenon_status eval_reduce_sum_square(Eval *e) { return reduce(e, R_SQUARE); }
