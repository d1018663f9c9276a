// norm_lanes.c -- ops along one axis: softmax, log_softmax, lp_normalization; lrn over channels.
//
// The tensor is seen as [outer][n][inner]; a lane is one line of n elements.  Sums run along the
// lane in order.
#include "eval/norm.h"

#include <math.h>

typedef enum { LANE_SOFTMAX, LANE_LOG_SOFTMAX, LANE_LP } LaneKind;
typedef struct Lanes {
  const Value *x;
  Value *y;
  int64_t n, inner;
  LaneKind kind;
  int64_t p;
} Lanes;

enum { BLOCK = 256 };

static tenon_status need_float(Eval *e, int i, const char *name) {
  TRY(eval_need(e, i, name, 0));
  DType t = e->in[i]->dtype;
  if (dtype_is_float(t) && dtype_bits(t) % 8 == 0) return TENON_OK;
  return eval_fail(e, TENON_EUNSUPPORTED, "%s of type %s: cast it to a float", name, dtype_name(t));
}

// `count` elements of the lane that starts at `base`, from k.
static void lane_load(const Lanes *l, int64_t base, int64_t k, int64_t count, double *out) {
  if (l->inner == 1) {
    load_f64(l->x->dtype, l->x->data, base + k, count, out);
    return;
  }
  for (int64_t i = 0; i < count; i++) out[i] = val_f64(l->x, base + (k + i) * l->inner);
}

static void lane_store(const Lanes *l, int64_t base, int64_t k, int64_t count, const double *v) {
  if (l->inner == 1) {
    store_f64(l->y->dtype, l->y->data, base + k, count, v);
    return;
  }
  for (int64_t i = 0; i < count; i++) val_put_f64(l->y, base + (k + i) * l->inner, v[i]);
}

// The lane's maximum (softmax) and its sum of exponentials or powers.
static void lane_sums(const Lanes *l, int64_t base, double *max, double *sum) {
  double v[BLOCK];
  *max = -INFINITY;
  *sum = 0;
  for (int64_t k = 0; l->kind != LANE_LP && k < l->n; k += BLOCK) {
    int64_t n = MIN(BLOCK, l->n - k);
    lane_load(l, base, k, n, v);
    for (int64_t i = 0; i < n; i++)
      if (v[i] > *max || isnan(v[i])) *max = v[i];
  }
  for (int64_t k = 0; k < l->n; k += BLOCK) {
    int64_t n = MIN(BLOCK, l->n - k);
    lane_load(l, base, k, n, v);
    for (int64_t i = 0; i < n; i++) {
      if (l->kind != LANE_LP)
        *sum += exp(v[i] - *max);
      else
        *sum += l->p == 1 ? fabs(v[i]) : v[i] * v[i];
    }
  }
}

static double lane_value(const Lanes *l, double v, double max, double sum) {
  switch (l->kind) {
  case LANE_SOFTMAX: return exp(v - max) / sum;
  case LANE_LOG_SOFTMAX: return v - max - sum;
  case LANE_LP: return sum == 0 ? 0 : v / sum;
  }
  return 0;
}

static void run_lanes(void *ctx, int64_t begin, int64_t end) {
  const Lanes *l = ctx;
  for (int64_t lane = begin; lane < end; lane++) {
    int64_t base = lane / l->inner * l->n * l->inner + lane % l->inner;
    double max, sum, v[BLOCK];
    lane_sums(l, base, &max, &sum);
    if (l->kind == LANE_LOG_SOFTMAX) sum = log(sum);
    if (l->kind == LANE_LP && l->p == 2) sum = sqrt(sum);
    for (int64_t k = 0; k < l->n; k += BLOCK) {
      int64_t n = MIN(BLOCK, l->n - k);
      lane_load(l, base, k, n, v);
      for (int64_t i = 0; i < n; i++) v[i] = lane_value(l, v[i], max, sum);
      lane_store(l, base, k, n, v);
    }
  }
}

static tenon_status lanes_eval(Eval *e, LaneKind kind, int64_t axis, int64_t p) {
  TRY(need_float(e, 0, "x"));
  Lanes l = {.x = e->in[0], .kind = kind, .p = p, .n = 1, .inner = 1};
  if (l.x->rank) {  // a scalar is a lane of one element
    int at;
    TRY(eval_axis(e, axis, l.x->rank, &at));
    l.n = l.x->dims[at];
    for (int d = at + 1; l.x->n && d < l.x->rank; d++) l.inner *= l.x->dims[d];
  } else if (axis < -1 || axis > 0) {
    return eval_fail(e, TENON_EINVAL, "axis %lld is out of range for rank 0", (long long)axis);
  }
  TRY(eval_out(e, 0, l.x->dtype, l.x->rank, l.x->dims, &l.y));
  if (l.x->n) parallel_for(e->run->pool, l.x->n / l.n, 1 + 1024 / l.n, run_lanes, &l);
  return TENON_OK;
}

tenon_status eval_softmax(Eval *e) {
  return lanes_eval(e, LANE_SOFTMAX, ((const softmax_attrs *)e->attrs)->axis, 0);
}
tenon_status eval_log_softmax(Eval *e) {
  return lanes_eval(e, LANE_LOG_SOFTMAX, ((const log_softmax_attrs *)e->attrs)->axis, 0);
}
tenon_status eval_lp_normalization(Eval *e) {
  const lp_normalization_attrs *at = e->attrs;
  if (at->p != 1 && at->p != 2)
    return eval_fail(e, TENON_EINVAL, "p is %lld, must be 1 or 2", (long long)at->p);
  return lanes_eval(e, LANE_LP, at->axis, at->p);
}

// ---- lrn ----

typedef struct Lrn {
  const Value *x;
  Value *y;
  int64_t channels, plane;
  const lrn_attrs *at;
} Lrn;

static void run_lrn(void *ctx, int64_t begin, int64_t end) {
  const Lrn *l = ctx;
  int64_t before = (l->at->size - 1) / 2, after = l->at->size - 1 - before;
  double scale = l->at->alpha / (double)l->at->size;
  for (int64_t i = begin; i < end; i++) {
    int64_t c = i % l->channels, image = i - c;
    int64_t from = c > before ? c - before : 0;
    int64_t to = after < l->channels - 1 - c ? c + after : l->channels - 1;
    double sum[BLOCK], v[BLOCK];
    for (int64_t k = 0; k < l->plane; k += BLOCK) {
      int64_t n = MIN(BLOCK, l->plane - k);
      for (int64_t q = 0; q < n; q++) sum[q] = 0;
      for (int64_t ch = from; ch <= to; ch++) {
        load_f64(l->x->dtype, l->x->data, (image + ch) * l->plane + k, n, v);
        for (int64_t q = 0; q < n; q++) sum[q] += v[q] * v[q];
      }
      load_f64(l->x->dtype, l->x->data, i * l->plane + k, n, v);
      for (int64_t q = 0; q < n; q++) v[q] /= pow(l->at->bias + scale * sum[q], l->at->beta);
      store_f64(l->y->dtype, l->y->data, i * l->plane + k, n, v);
    }
  }
}

static tenon_status first_lrn(Eval *e) {
  Lrn l = {.at = e->attrs};
  TRY(need_float(e, 0, "x"));
  l.x = e->in[0];
  if (l.x->rank < 2)
    return eval_fail(e, TENON_EINVAL, "x of rank %d, must be at least 2", l.x->rank);
  if (l.at->size < 1)
    return eval_fail(e, TENON_EINVAL, "size is %lld, must be at least 1", (long long)l.at->size);
  TRY(eval_out(e, 0, l.x->dtype, l.x->rank, l.x->dims, &l.y));
  if (!l.x->n) return TENON_OK;
  l.channels = l.x->dims[1];
  l.plane = l.x->n / l.x->dims[0] / l.channels;
  parallel_for(e->run->pool, l.x->dims[0] * l.channels, 1 + 1024 / l.plane, run_lrn, &l);
  return TENON_OK;
}
EVAL_ORDERED(lrn, lrn_attrs, 0, ORDER_DATA)
