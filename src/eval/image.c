// image.c -- resize: nearest, linear and cubic, one axis after the other.
//
// Every position of the result maps to a position in x, axis by axis.  Nearest is a gather through
// one table of indices an axis, so it moves any dtype exactly.  Linear and cubic are separable:
// each axis is a pass over doubles with a table of weights, and the result is rounded once, after
// the last pass.
#include "eval/image.h"

#include <math.h>

// What happens along one axis.
typedef struct AxisPlan {
  int axis;
  int64_t in, out;
  double scale;    // factor along the axis
  double width;    // in * scale: the size of the result before it was made an integer
  bool by_size;    // scale is out / in exactly
  double roi[2];   // normalised crop, tf_crop_and_resize only
  bool rounds;     // positions are rounded to f32: scales are, so 2.9999999 is 3
  bool identity;   // copies
  int64_t taps;    // linear, cubic: weights an element
  int64_t *start;  // [out] first tap, not clamped; nearest: the index, clamped
  double *weight;  // [out][taps]
  bool *outside;   // [out] extrapolated
} AxisPlan;

typedef struct Plan {
  int rank;
  bool crops;  // some positions may be extrapolated
  AxisPlan axis[MAX_RANK];
  int64_t dims[MAX_RANK];
} Plan;

// ---- sizes ----

int64_t resize_size(int64_t size, double scale) {
  double fixed = scale * 256;
  double p = fixed == floor(fixed) ? (double)size * scale : (double)((float)size * (float)scale);
  p = floor(p);
  return p >= 0 && p < 0x1p62 ? (int64_t)p : -1;
}

bool resize_policy_scale(int policy, int n, const int64_t *sizes, const int64_t *in,
                         double *scale) {
  *scale = 1;
  for (int i = 0; i < n; i++) {
    if (in[i] <= 0 || sizes[i] < 0) return false;
    double s = (double)sizes[i] / (double)in[i];
    bool better = policy == RESIZE_NOT_LARGER ? s < *scale : s > *scale;
    if (i == 0 || better) *scale = s;
  }
  return true;
}

int64_t resize_policy_size(int64_t in, double scale) {
  double p = floor((double)in * scale + 0.5);
  return p >= 0 && p < 0x1p62 ? (int64_t)p : -1;
}

static tenon_status plan_axes(Eval *e, const resize_attrs *at, Plan *p, int *axes, int *naxes) {
  bool seen[MAX_RANK] = {false};
  *naxes = p->rank;
  for (int i = 0; i < p->rank; i++) axes[i] = i;
  if (!at->axes.n) return TENON_OK;
  if (at->axes.n > p->rank)
    return eval_fail(e, TENON_EINVAL, "%lld axes for rank %d", (long long)at->axes.n, p->rank);
  *naxes = (int)at->axes.n;
  for (int i = 0; i < *naxes; i++) {
    TRY(eval_axis(e, at->axes.v[i], p->rank, &axes[i]));
    if (seen[axes[i]]) return eval_fail(e, TENON_EINVAL, "axis %d is given twice", axes[i]);
    seen[axes[i]] = true;
  }
  return TENON_OK;
}

static bool absent(const Value *v) { return !v || v->n == 0; }

static tenon_status plan_scales(Eval *e, Plan *p, const int *axes, int naxes) {
  Floats s;
  TRY(eval_doubles(e, 2, &s));
  if (s.n != naxes)
    return eval_fail(e, TENON_EINVAL, "%lld scales, must be %d", (long long)s.n, naxes);
  for (int i = 0; i < naxes; i++) {
    AxisPlan *a = &p->axis[axes[i]];
    if (!(s.v[i] > 0) || isinf(s.v[i]))
      return eval_fail(e, TENON_EINVAL, "scale %d is %g, must be positive", i, s.v[i]);
    a->by_size = false;
    a->scale = s.v[i];
    a->width = s.v[i] * (double)a->in;
    a->out = resize_size(a->in, s.v[i]);
    if (a->out < 0)
      return eval_fail(e, TENON_EINVAL, "size %lld times %g does not fit", (long long)a->in,
                       s.v[i]);
  }
  return TENON_OK;
}

static tenon_status plan_sizes(Eval *e, const resize_attrs *at, Plan *p, const int *axes,
                               int naxes) {
  Ints s;
  int64_t in[MAX_RANK] = {0};
  double scale = 1;
  TRY(eval_ints(e, 3, &s));
  if (s.n != naxes)
    return eval_fail(e, TENON_EINVAL, "%lld sizes, must be %d", (long long)s.n, naxes);
  for (int i = 0; i < naxes; i++) {
    in[i] = p->axis[axes[i]].in;
    if (s.v[i] < 0) return eval_fail(e, TENON_EINVAL, "size %d is %lld", i, (long long)s.v[i]);
  }
  bool stretch = at->keep_aspect_ratio_policy == RESIZE_STRETCH;
  if (!stretch && !resize_policy_scale(at->keep_aspect_ratio_policy, naxes, s.v, in, &scale))
    return eval_fail(e, TENON_EINVAL, "an empty axis has no aspect ratio to keep");
  for (int i = 0; i < naxes; i++) {
    AxisPlan *a = &p->axis[axes[i]];
    a->by_size = stretch;
    a->out = stretch ? s.v[i] : resize_policy_size(a->in, scale);
    a->scale = !stretch ? scale : a->in ? (double)a->out / (double)a->in : 1;
    a->width = stretch ? (double)a->out : scale * (double)a->in;
    if (a->out < 0)
      return eval_fail(e, TENON_EINVAL, "size %lld times %g does not fit", (long long)a->in, scale);
  }
  return TENON_OK;
}

static tenon_status plan_roi(Eval *e, Plan *p, const int *axes, int naxes) {
  Floats r;
  p->crops = true;
  if (absent(eval_in(e, 1)))
    return eval_fail(e, TENON_EINVAL, "tf_crop_and_resize needs the operand roi");
  TRY(eval_doubles(e, 1, &r));
  if (r.n != 2 * naxes)
    return eval_fail(e, TENON_EINVAL, "roi has %lld elements, must have %d", (long long)r.n,
                     2 * naxes);
  for (int i = 0; i < naxes; i++) {
    p->axis[axes[i]].roi[0] = r.v[i];
    p->axis[axes[i]].roi[1] = r.v[naxes + i];
  }
  return TENON_OK;
}

static tenon_status make_plan(Eval *e, Plan *p) {
  const resize_attrs *at = e->attrs;
  const Value *x = e->in[0];
  int axes[MAX_RANK], naxes;
  *p = (Plan){.rank = x->rank};
  for (int i = 0; i < x->rank; i++)
    p->axis[i] = (AxisPlan){.axis = i,
                            .in = x->dims[i],
                            .out = x->dims[i],
                            .scale = 1,
                            .width = (double)x->dims[i],
                            .by_size = true,
                            .roi = {0, 1}};
  TRY(plan_axes(e, at, p, axes, &naxes));
  if (!absent(eval_in(e, 3)))
    TRY(plan_sizes(e, at, p, axes, naxes));
  else if (eval_in(e, 2) && (e->in[2]->n || !naxes))
    TRY(plan_scales(e, p, axes, naxes));
  else if (naxes)
    return eval_fail(e, TENON_EINVAL, "neither scales nor sizes are given");
  if (at->coordinate_transformation_mode == RESIZE_TF_CROP) TRY(plan_roi(e, p, axes, naxes));
  for (int i = 0; i < p->rank; i++) {
    AxisPlan *a = &p->axis[i];
    p->dims[i] = a->out;
    if (a->out && !a->in)
      return eval_fail(e, TENON_EINVAL, "axis %d is empty and cannot become %lld long", i,
                       (long long)a->out);
    a->identity = a->in == a->out && fabs(a->scale - 1) < 1e-9 && a->roi[0] == 0 && a->roi[1] == 1;
  }
  return TENON_OK;
}

// ---- positions and weights ----

static double unscale(const AxisPlan *a, double v) {
  if (a->by_size) return v * (double)a->in / (double)a->out;
  return a->rounds ? (double)(float)(v / a->scale) : v / a->scale;
}

// The specification's length_resized is `out`, the length that the result has; half_pixel_symmetric
// alone asks for the width that may be a fraction.
static double source_position(int mode, const AxisPlan *a, int64_t i) {
  double v = (double)i, last = (double)(a->in - 1);
  switch (mode) {
  case RESIZE_CORNERS: return a->out <= 1 ? 0 : v * last / (double)(a->out - 1);
  case RESIZE_ASYMMETRIC: return unscale(a, v);
  case RESIZE_TF_HALF: return unscale(a, v + 0.5);
  case RESIZE_PYTORCH: return a->out > 1 ? unscale(a, v + 0.5) - 0.5 : 0;
  case RESIZE_SYMMETRIC:
    return (double)a->in / 2 * (1 - (double)a->out / a->width) + (v + 0.5) / a->scale - 0.5;
  case RESIZE_TF_CROP:
    if (a->out <= 1) return 0.5 * (a->roi[0] + a->roi[1]) * last;
    return a->roi[0] * last + v * (a->roi[1] - a->roi[0]) * last / (double)(a->out - 1);
  default: return unscale(a, v + 0.5) - 0.5;
  }
}

void cubic_weights(double a, double t, double w[4]) {
  double u = 1 - t;
  w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
  w[3] = ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a;
}

static double filter_at(const resize_attrs *at, double x) {
  double a = at->cubic_coeff_a;
  x = fabs(x);
  if (at->mode == RESIZE_LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// First tap relative to the pixel left of the position, and the number of taps.
static int64_t first_tap(const resize_attrs *at, const AxisPlan *a) {
  int64_t reach = at->mode == RESIZE_CUBIC ? 2 : 1;
  if (!at->antialias || a->scale >= 1) return 1 - reach;
  return (int64_t)floor(-(double)reach / a->scale) + 1;
}

static void normalise(double *w, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) sum += w[k];
  for (int64_t k = 0; k < n && sum != 0; k++) w[k] /= sum;
}

static void fill_weights(const resize_attrs *at, AxisPlan *a, int64_t first, int64_t i) {
  double x = source_position(at->coordinate_transformation_mode, a, i);
  double *w = a->weight + i * a->taps;
  a->outside[i] =
      at->coordinate_transformation_mode == RESIZE_TF_CROP && !(x >= 0 && x <= (double)(a->in - 1));
  if (a->outside[i]) return;
  // The pixel left of the position, strictly: a position on a pixel has that pixel as its right
  // one.
  double left = ceil(x) - 1, t = x - left;
  a->start[i] = (int64_t)left + first;
  if (at->antialias) {
    double s = MIN(a->scale, 1);
    for (int64_t k = 0; k < a->taps; k++) w[k] = filter_at(at, ((double)(first + k) - t) * s);
    normalise(w, a->taps);
  } else if (at->mode == RESIZE_CUBIC) {
    cubic_weights(at->cubic_coeff_a, t, w);
  } else {
    w[0] = 1 - t;
    w[1] = t;
  }
  if (!at->exclude_outside) return;
  for (int64_t k = 0; k < a->taps; k++)
    if (a->start[i] + k < 0 || a->start[i] + k >= a->in) w[k] = 0;
  normalise(w, a->taps);
}

static void fill_nearest(const resize_attrs *at, AxisPlan *a, int64_t i) {
  double x = source_position(at->coordinate_transformation_mode, a, i);
  a->outside[i] =
      at->coordinate_transformation_mode == RESIZE_TF_CROP && !(x >= 0 && x <= (double)(a->in - 1));
  if (a->outside[i]) return;
  if (!a->by_size) x = (double)(float)x;
  double r = floor(x), t = x - r;
  switch (at->nearest_mode) {
  case RESIZE_PREFER_FLOOR: r += t > 0.5; break;
  case RESIZE_PREFER_CEIL: r += t >= 0.5; break;
  case RESIZE_FLOOR: break;
  default: r = ceil(x);
  }
  a->start[i] = r <= 0 ? 0 : r >= (double)(a->in - 1) ? a->in - 1 : (int64_t)r;
}

static void fill_axis(Eval *e, const resize_attrs *at, AxisPlan *a) {
  Arena *s = &e->run->scratch;
  int64_t first = first_tap(at, a);
  a->start = arena_array(s, int64_t, a->out);
  a->outside = arena_array(s, bool, a->out);
  if (at->mode == RESIZE_NEAREST) {
    a->rounds = true;
    for (int64_t i = 0; i < a->out; i++) fill_nearest(at, a, i);
    return;
  }
  a->taps = 2 - 2 * first;
  int64_t n;
  if (!ck_mul(a->out, a->taps, &n)) trap_raise(TENON_ENOMEM, "resize: too many weights");
  a->weight = arena_array(s, double, n);
  for (int64_t i = 0; i < a->out; i++) fill_weights(at, a, first, i);
}

// ---- nearest ----

typedef struct NearestJob {
  const Plan *p;
  const Value *x;
  Value *y;
  double extrapolation;
  int64_t stride[MAX_RANK];
} NearestJob;

#define GATHER(T)                                                                                  \
  for (int64_t i = 0; i < n; i++) ((T *)y->data)[to + i] = ((const T *)x->data)[from + index[i]]
static void gather_row(const Value *x, int64_t from, const int64_t *index, int64_t n, Value *y,
                       int64_t to) {
  switch (elem_bytes(x->dtype)) {
  case 1: GATHER(uint8_t); break;
  case 2: GATHER(uint16_t); break;
  case 4: GATHER(uint32_t); break;
  case 8: GATHER(uint64_t); break;
  default:
    for (int64_t i = 0; i < n; i++)
      copy_elems(x->dtype, y->data, to + i, x->data, from + index[i], 1);
  }
}

// A result as a number of its type; of integers the nearest one where it is outside: the overshoot
// of a cubic filter, mostly.
static void put_saturated(Value *y, int64_t i, double v) {
  DType t = y->dtype;
  int bits = dtype_bits(t);
  if (!dtype_is_int(t)) {
    val_put_f64(y, i, dtype_class(t) == DC_BOOL ? v != 0 : v);
    return;
  }
  double hi = dtype_class(t) == DC_INT ? ldexp(1, bits - 1) : ldexp(1, bits);
  double lo = dtype_class(t) == DC_INT ? -hi : 0;
  v = v != v ? 0 : nearbyint(v);
  if (v >= hi)
    val_put_i64(y, i, (int64_t)(UINT64_MAX >> (64 - bits + (dtype_class(t) == DC_INT))));
  else
    val_put_f64(y, i, MAX(v, lo));
}

static void extrapolate(Value *y, int64_t i, double v) {
  DTypeClass c = dtype_class(y->dtype);
  if (c != DC_STRING && c != DC_COMPLEX) put_saturated(y, i, v);
}

static void nearest_rows(void *ctx, int64_t begin, int64_t end) {
  const NearestJob *j = ctx;
  const Plan *p = j->p;
  const AxisPlan *last = &p->axis[p->rank - 1];
  for (int64_t r = begin; r < end; r++) {
    int64_t from = 0, rest = r;
    bool outside = false;
    for (int k = p->rank - 2; k >= 0; k--) {
      int64_t i = rest % p->dims[k];
      rest /= p->dims[k];
      outside |= p->axis[k].outside[i];
      from += p->axis[k].start[i] * j->stride[k];
    }
    int64_t to = r * last->out;
    if (!outside) gather_row(j->x, from, last->start, last->out, j->y, to);
    for (int64_t i = 0; p->crops && i < last->out; i++)
      if (outside || last->outside[i]) extrapolate(j->y, to + i, j->extrapolation);
  }
}

static void run_nearest(Eval *e, const resize_attrs *at, Plan *p, Value *y) {
  NearestJob j = {p, e->in[0], y, at->extrapolation_value, {0}};
  shape_strides(p->rank, e->in[0]->dims, j.stride);
  for (int i = 0; i < p->rank; i++) fill_axis(e, at, &p->axis[i]);
  int64_t row = p->dims[p->rank - 1];
  // Packed elements share bytes between rows.
  Pool *pool = elem_bytes(y->dtype) ? e->run->pool : NULL;
  parallel_for(pool, y->n / row, MAX(1, 8192 / row), nearest_rows, &j);
}

// ---- linear and cubic ----

typedef struct PassJob {
  const AxisPlan *a;
  const double *x;
  double *y;
  int64_t inner;
  double extrapolation;
} PassJob;

static void pass_rows(void *ctx, int64_t begin, int64_t end) {
  const PassJob *j = ctx;
  const AxisPlan *a = j->a;
  for (int64_t r = begin; r < end; r++) {
    int64_t i = r % a->out, n = j->inner;
    const double *x = j->x + r / a->out * a->in * n, *w = a->weight + i * a->taps;
    double *y = j->y + r * n;
    for (int64_t c = 0; c < n; c++) y[c] = a->outside[i] ? j->extrapolation : 0;
    for (int64_t k = 0; k < a->taps && !a->outside[i]; k++) {
      if (w[k] == 0) continue;
      int64_t at = MIN(MAX(a->start[i] + k, 0), a->in - 1);
      for (int64_t c = 0; c < n; c++) y[c] += w[k] * x[at * n + c];
    }
  }
}

enum { BLOCK = 4096 };

typedef struct StoreJob {
  const double *from;
  Value *y;
} StoreJob;

static void store_blocks(void *ctx, int64_t begin, int64_t end) {
  const StoreJob *j = ctx;
  bool whole = !dtype_is_float(j->y->dtype);
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * BLOCK, n = MIN(BLOCK, j->y->n - at);
    if (!whole) {
      store_f64(j->y->dtype, j->y->data, at, n, j->from + at);
      continue;
    }
    for (int64_t i = 0; i < n; i++) put_saturated(j->y, at + i, j->from[at + i]);
  }
}

static void load_blocks(void *ctx, int64_t begin, int64_t end) {
  Value *const *v = ctx;
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * BLOCK, n = MIN(BLOCK, v[0]->n - at);
    load_f64(v[0]->dtype, v[0]->data, at, n, (double *)v[1]->data + at);
  }
}

static tenon_status run_pass(Eval *e, const resize_attrs *at, AxisPlan *a, Value **cur) {
  Value *x = *cur, *y;
  int64_t dims[MAX_RANK], inner = 1;
  memcpy(dims, x->dims, sizeof(dims));
  for (int k = a->axis + 1; k < x->rank; k++) inner *= dims[k];
  dims[a->axis] = a->out;
  TRY(value_tensor(e->run, e->at, DT_F64, x->rank, dims, &y));
  fill_axis(e, at, a);
  TRY(eval_work(e, (double)y->n * (double)a->taps));
  PassJob j = {a, x->data, y->data, inner, at->extrapolation_value};
  parallel_for(e->run->pool, y->n / inner, MAX(1, 4096 / (inner * a->taps)), pass_rows, &j);
  value_release(x);
  *cur = y;
  return TENON_OK;
}

static tenon_status run_filter(Eval *e, const resize_attrs *at, Plan *p, Value *y) {
  const Value *x = e->in[0];
  DTypeClass c = dtype_class(x->dtype);
  if (c == DC_STRING || c == DC_COMPLEX)
    return eval_fail(e, TENON_EINVAL, "%s can only be resized with mode nearest",
                     dtype_name(x->dtype));
  Value *cur;
  TRY(value_tensor(e->run, e->at, DT_F64, x->rank, x->dims, &cur));
  Value *pair[2] = {(Value *)(uintptr_t)x, cur};
  parallel_for(e->run->pool, (x->n + BLOCK - 1) / BLOCK, 4, load_blocks, pair);
  // Axes that shrink go first, so that the others have less to do; the order is the shapes' alone.
  for (int grow = 0; grow < 2; grow++)
    for (int i = 0; i < p->rank; i++)
      if (!p->axis[i].identity && (p->axis[i].out > p->axis[i].in) == grow)
        TRY(run_pass(e, at, &p->axis[i], &cur));
  StoreJob j = {cur->data, y};
  Pool *pool = elem_bytes(y->dtype) ? e->run->pool : NULL;
  parallel_for(pool, (y->n + BLOCK - 1) / BLOCK, 4, store_blocks, &j);
  value_release(cur);
  return TENON_OK;
}

tenon_status eval_resize(Eval *e) {
  const resize_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  Plan p;
  Value *y;
  TRY(make_plan(e, &p));
  bool same = true;
  for (int i = 0; i < p.rank; i++) same &= p.axis[i].identity;
  if (same) {
    e->out[0] = value_retain(e->in[0]);
    return TENON_OK;
  }
  TRY(eval_out(e, 0, e->in[0]->dtype, p.rank, p.dims, &y));
  if (!y->n) return TENON_OK;
  if (at->mode != RESIZE_NEAREST) return run_filter(e, at, &p, y);
  run_nearest(e, at, &p, y);
  return TENON_OK;
}
