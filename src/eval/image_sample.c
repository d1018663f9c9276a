// image_sample.c -- grid_sample and affine_grid.
//
// A point of the grid gives, per spatial axis, up to four taps (index and weight); their product is
// the point's taps, which are found once and used for every channel.
#include "eval/image.h"

#include <math.h>

// ---- grid_sample ----

typedef struct SampleJob {
  const grid_sample_attrs *at;
  const Value *x, *grid;
  Value *y;
  int k;           // spatial axes
  int64_t points;  // of one batch element
  int64_t dims[SAMPLE_MAX_SPATIAL], stride[SAMPLE_MAX_SPATIAL];
  int64_t volume;  // elements of one channel of x
} SampleJob;

typedef struct Taps {
  int n;             // per axis
  int64_t index[4];  // -1: outside, reads as 0
  double weight[4];
} Taps;

// A grid coordinate in [-1, 1] as a position in pixels.  Nearest rounds at halves, so there the
// position is computed in f32, as grids are, and as every implementation does.
static double denormalise(const SampleJob *j, int axis, double g) {
  double n = (double)j->dims[axis];
  if (j->at->mode == SAMPLE_NEAREST && j->grid->dtype == DT_F32) {
    float f = (float)g, m = (float)n;
    return j->at->align_corners ? (f + 1) / 2 * (m - 1) : ((f + 1) * m - 1) / 2;
  }
  return j->at->align_corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
}

// Folds a position into [lo, hi] by mirrors at both ends.
static double reflect(double x, double lo, double hi) {
  double range = hi - lo;
  if (x >= lo && x <= hi) return x;
  if (range <= 0) return lo;
  double d = x < lo ? lo - x : x - hi, n = floor(d / range), r = d - n * range;
  bool even = fmod(n, 2) == 0;
  return (x < lo) == even ? lo + r : hi - r;
}

static int64_t tap_index(const SampleJob *j, int axis, double i) {
  double last = (double)(j->dims[axis] - 1);
  bool corners = j->at->align_corners;
  if (j->at->padding_mode == SAMPLE_REFLECTION)
    i = reflect(i, corners ? 0 : -0.5, corners ? last : last + 0.5);
  if (i >= 0 && i <= last) return (int64_t)i;
  if (j->at->padding_mode == SAMPLE_ZEROS) return -1;
  return i > last ? (int64_t)last : 0;
}

// False: the coordinate is not finite.
static bool axis_taps(const SampleJob *j, int axis, double g, Taps *t) {
  double x = denormalise(j, axis, g), last = (double)(j->dims[axis] - 1);
  bool corners = j->at->align_corners;
  double lo = corners ? 0 : -0.5, hi = corners ? last : last + 0.5;
  if (!isfinite(x)) return false;
  if (j->at->mode == SAMPLE_NEAREST) x = nearbyint(x);
  // Cubic taps are clamped one by one, so that a position beyond the edge still has a slope.
  if (j->at->padding_mode == SAMPLE_BORDER && j->at->mode != SAMPLE_CUBIC && (x < lo || x > hi))
    x = x < lo ? 0 : last;
  if (j->at->padding_mode == SAMPLE_REFLECTION) x = reflect(x, lo, hi);
  double base = j->at->mode == SAMPLE_NEAREST ? trunc(x) : floor(x), f = x - base;
  double first = j->at->mode == SAMPLE_CUBIC ? base - 1 : base;
  t->n = j->at->mode == SAMPLE_NEAREST ? 1 : j->at->mode == SAMPLE_LINEAR ? 2 : 4;
  for (int i = 0; i < t->n; i++) t->index[i] = tap_index(j, axis, first + i);
  t->weight[0] = t->n == 1 ? 1 : 1 - f;
  t->weight[1] = f;
  if (t->n == 4) cubic_weights(-0.75, f, t->weight);
  return true;
}

static double element(const Value *v, int64_t i) {
  return v->dtype == DT_F32 ? (double)((const float *)v->data)[i] : val_f64(v, i);
}

// The taps of the axes from `axis` on, summed: the innermost axis first.
static double sum_taps(const SampleJob *j, const Taps *t, int axis, int64_t base) {
  double sum = 0;
  for (int i = 0; i < t[axis].n; i++) {
    if (t[axis].index[i] < 0) continue;
    int64_t at = base + t[axis].index[i] * j->stride[axis];
    sum += t[axis].weight[i] * (axis + 1 < j->k ? sum_taps(j, t, axis + 1, at) : element(j->x, at));
  }
  return sum;
}

static void copy_nearest(const SampleJob *j, const Taps *t, int64_t from, int64_t to) {
  for (int a = 0; a < j->k; a++) {
    if (t[a].index[0] < 0) return;  // the result is zeroed already
    from += t[a].index[0] * j->stride[a];
  }
  copy_elems(j->x->dtype, j->y->data, to, j->x->data, from, 1);
}

static void sample_points(void *ctx, int64_t begin, int64_t end) {
  const SampleJob *j = ctx;
  int64_t channels = j->x->dims[1];
  for (int64_t p = begin; p < end; p++) {
    Taps t[SAMPLE_MAX_SPATIAL];
    double g[SAMPLE_MAX_SPATIAL];
    int64_t batch = p / j->points, at = p % j->points;
    bool finite = true;
    load_f64(j->grid->dtype, j->grid->data, p * j->k, j->k, g);
    // A grid lists its coordinates from the innermost axis out.
    for (int a = 0; a < j->k; a++) finite &= axis_taps(j, a, g[j->k - 1 - a], &t[a]);
    for (int64_t c = 0; c < channels; c++) {
      int64_t from = (batch * channels + c) * j->volume,
              to = (batch * channels + c) * j->points + at;
      if (j->at->mode == SAMPLE_NEAREST) {
        if (finite) copy_nearest(j, t, from, to);
      } else {
        val_put_f64(j->y, to, finite ? sum_taps(j, t, 0, from) : NAN);
      }
    }
  }
}

static tenon_status check_sample(Eval *e, const Value *x, const Value *g, int k) {
  if (x->rank < 3 || g->rank != x->rank)
    return eval_fail(e, TENON_EINVAL,
                     "x has rank %d and grid rank %d, must be equal and at least 3", x->rank,
                     g->rank);
  if (k > SAMPLE_MAX_SPATIAL)
    return eval_fail(e, TENON_EUNSUPPORTED, "%d spatial axes, the limit is %d", k,
                     SAMPLE_MAX_SPATIAL);
  if (g->dims[0] != x->dims[0] || g->dims[k + 1] != k || !dtype_is_float(g->dtype))
    return eval_fail(e, TENON_EINVAL, "grid is %s%s, must be floats [%lld, ..., %d]",
                     dtype_name(g->dtype), shape_text(g->rank, g->dims).s, (long long)x->dims[0],
                     k);
  return TENON_OK;
}

tenon_status eval_grid_sample(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  TRY(eval_need(e, 1, "grid", 0));
  const Value *x = e->in[0], *g = e->in[1];
  SampleJob j = {.at = e->attrs, .x = x, .grid = g, .k = x->rank - 2, .points = 1, .volume = 1};
  int64_t dims[MAX_RANK];
  TRY(check_sample(e, x, g, j.k));
  DTypeClass c = dtype_class(x->dtype);
  if (j.at->mode != SAMPLE_NEAREST && (c == DC_STRING || c == DC_COMPLEX))
    return eval_fail(e, TENON_EINVAL, "%s can only be sampled with mode nearest",
                     dtype_name(x->dtype));
  dims[0] = x->dims[0];
  dims[1] = x->dims[1];
  for (int a = 0; a < j.k; a++) dims[2 + a] = g->dims[1 + a];
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &j.y));
  if (!j.y->n) return TENON_OK;
  for (int a = j.k - 1; a >= 0; a--) {
    j.dims[a] = x->dims[2 + a];
    j.stride[a] = j.volume;
    j.volume *= j.dims[a];
    j.points *= dims[2 + a];
    if (!j.dims[a])
      return eval_fail(e, TENON_EINVAL, "x has an empty spatial axis: %s",
                       shape_text(x->rank, x->dims).s);
  }
  Pool *pool = elem_bytes(x->dtype) ? e->run->pool : NULL;
  parallel_for(pool, dims[0] * j.points, MAX(1, 1024 / dims[1]), sample_points, &j);
  return TENON_OK;
}

// ---- affine_grid ----

typedef struct AffineJob {
  const Floats *theta;
  Value *y;
  int k;
  bool corners;
  int64_t dims[3];
} AffineJob;

// Position i of n on the segment from -1 to 1.
static double grid_line(const AffineJob *j, int64_t i, int64_t n) {
  if (j->corners) return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1;
  return -1 + (2 * (double)i + 1) / (double)n;
}

static void affine_points(void *ctx, int64_t begin, int64_t end) {
  const AffineJob *j = ctx;
  int k = j->k;
  for (int64_t p = begin; p < end; p++) {
    double at[4], out[3];
    int64_t rest = p;
    for (int a = k - 1; a >= 0; a--) {  // the innermost axis is coordinate 0
      at[k - 1 - a] = grid_line(j, rest % j->dims[a], j->dims[a]);
      rest /= j->dims[a];
    }
    at[k] = 1;
    const double *m = j->theta->v + rest * k * (k + 1);
    for (int r = 0; r < k; r++) {
      out[r] = 0;
      for (int c = 0; c <= k; c++) out[r] += m[r * (k + 1) + c] * at[c];
    }
    store_f64(j->y->dtype, j->y->data, p * k, k, out);
  }
}

tenon_status eval_affine_grid(Eval *e) {
  const affine_grid_attrs *at = e->attrs;
  Floats theta;
  Ints size;
  TRY(eval_need(e, 0, "theta", 0));
  const Value *t = e->in[0];
  TRY(eval_doubles(e, 0, &theta));
  TRY(eval_ints(e, 1, &size));
  int k = (int)size.n - 2;
  if ((size.n != 4 && size.n != 5) || t->rank != 3 || t->dims[0] != size.v[0] || t->dims[1] != k ||
      t->dims[2] != k + 1 || !dtype_is_float(t->dtype))
    return eval_fail(
        e, TENON_EINVAL,
        "theta is %s%s and size has %lld elements: floats [N, 2, 3] go with [N, C, H, W], "
        "[N, 3, 4] with [N, C, D, H, W]",
        dtype_name(t->dtype), shape_text(t->rank, t->dims).s, (long long)size.n);
  AffineJob j = {.theta = &theta, .k = k, .corners = at->align_corners};
  int64_t dims[5] = {size.v[0]};
  for (int a = 0; a < k; a++) dims[1 + a] = j.dims[a] = size.v[2 + a];
  dims[k + 1] = k;
  TRY(eval_out(e, 0, t->dtype, k + 2, dims, &j.y));
  parallel_for(e->run->pool, j.y->n / k, 1024, affine_points, &j);
  return TENON_OK;
}
