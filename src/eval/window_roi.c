// window_roi.c -- pooling over regions of interest: max_roi_pool, roi_align.
//
// Regions come from data: every coordinate is checked or clamped before it becomes an index.
#include "eval/window.h"

#include <math.h>

// Samples of a bin along one axis.
enum { MOST_SAMPLES = 1024 };

typedef struct Roi {
  const Value *x, *rois, *batch;
  Value *y;
  int64_t channels, height, width, ph, pw;
  double scale;
  bool half_pixel, max;
  int64_t ratio;
} Roi;

static tenon_status check_images(Eval *e, Roi *r) {
  TRY(eval_need(e, 0, "x", 0));
  r->x = e->in[0];
  DType t = r->x->dtype;
  if (!dtype_is_float(t) || dtype_bits(t) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "x of type %s: cast it to a float", dtype_name(t));
  TRY(eval_need(e, 1, "rois", t));
  r->rois = e->in[1];
  if (r->x->rank != 4 || r->rois->rank != 2)
    return eval_fail(e, TENON_EINVAL, "x of rank %d and rois of rank %d, must be 4 and 2",
                     r->x->rank, r->rois->rank);
  r->channels = r->x->dims[1];
  r->height = r->x->dims[2];
  r->width = r->x->dims[3];
  if (r->ph < 1 || r->pw < 1)
    return eval_fail(e, TENON_EINVAL, "a result of %lld x %lld bins", (long long)r->ph,
                     (long long)r->pw);
  for (int64_t i = 0; i < r->rois->n; i++)
    if (!(fabs(val_f64(r->rois, i) * r->scale) < 1e9))
      return eval_fail(e, TENON_EINVAL, "coordinate %g of region %lld is out of range",
                       val_f64(r->rois, i), (long long)(i / r->rois->dims[1]));
  return TENON_OK;
}

static tenon_status roi_out(Eval *e, Roi *r) {
  int64_t dims[4] = {r->rois->dims[0], r->channels, r->ph, r->pw};
  return eval_out(e, 0, r->x->dtype, 4, dims, &r->y);
}

// ---- max_roi_pool ----

static int64_t clamp(int64_t v, int64_t hi) { return v < 0 ? 0 : v > hi ? hi : v; }

// The pixels of bin i of n along an axis of `size`, for a region from `start` to `end`, both
// included.
static void bin_range(double start, double end, int64_t n, int64_t i, int64_t size, int64_t *lo,
                      int64_t *hi) {
  double len = MAX(end - start + 1, 1), bin = len / (double)n;
  *lo = clamp((int64_t)(floor((double)i * bin) + start), size);
  *hi = clamp((int64_t)(ceil((double)(i + 1) * bin) + start), size);
}

static void run_max_roi(void *ctx, int64_t begin, int64_t end) {
  const Roi *r = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t px = i % r->pw, py = i / r->pw % r->ph, c = i / (r->pw * r->ph) % r->channels;
    int64_t n = i / (r->pw * r->ph * r->channels), y0, y1, x0, x1;
    double at[5];
    load_f64(r->rois->dtype, r->rois->data, n * 5, 5, at);
    bin_range(round(at[2] * r->scale), round(at[4] * r->scale), r->ph, py, r->height, &y0, &y1);
    bin_range(round(at[1] * r->scale), round(at[3] * r->scale), r->pw, px, r->width, &x0, &x1);
    int64_t plane = ((int64_t)at[0] * r->channels + c) * r->height;
    double best = y1 > y0 && x1 > x0 ? -INFINITY : 0;
    for (int64_t y = y0; y < y1; y++)
      for (int64_t x = x0; x < x1; x++) {
        double v = val_f64(r->x, (plane + y) * r->width + x);
        if (v > best || isnan(v)) best = v;
      }
    val_put_f64(r->y, i, best);
  }
}

tenon_status eval_max_roi_pool(Eval *e) {
  const max_roi_pool_attrs *at = e->attrs;
  if (at->pooled_shape.n != 2)
    return eval_fail(e, TENON_EINVAL, "pooled_shape has %lld numbers, must be 2",
                     (long long)at->pooled_shape.n);
  Roi r = {.ph = at->pooled_shape.v[0], .pw = at->pooled_shape.v[1], .scale = at->spatial_scale};
  TRY(check_images(e, &r));
  if (r.rois->dims[1] != 5)
    return eval_fail(e, TENON_EINVAL, "rois has %lld columns, must be 5",
                     (long long)r.rois->dims[1]);
  for (int64_t i = 0; i < r.rois->dims[0]; i++) {
    double b = val_f64(r.rois, i * 5);
    if (!(b >= 0 && b < (double)r.x->dims[0]))
      return eval_fail(e, TENON_EINVAL, "region %lld is of image %g, there are %lld", (long long)i,
                       b, (long long)r.x->dims[0]);
  }
  TRY(roi_out(e, &r));
  TRY(eval_work(e, 4 * ((double)r.y->n + (double)r.rois->dims[0] * (double)r.channels *
                                             (double)r.height * (double)r.width)));
  parallel_for(e->run->pool, r.y->n, 256, run_max_roi, &r);
  return TENON_OK;
}

// ---- roi_align ----

// Neighbours and weights along one axis; false when the sample is outside.
static bool axis_sample(double v, int64_t size, int64_t *lo, int64_t *hi, double *part) {
  if (!(v >= -1 && v <= (double)size) || size == 0) return false;
  if (v < 0) v = 0;
  *lo = (int64_t)v;
  if (*lo >= size - 1) {
    *lo = *hi = size - 1;
    v = (double)*lo;
  } else {
    *hi = *lo + 1;
  }
  *part = v - (double)*lo;
  return true;
}

// The four weighted neighbours of a sample: their sum, or their maximum.
static double sample(const Roi *r, int64_t plane, double y, double x) {
  int64_t y0, y1, x0, x1;
  double ly, lx;
  if (!axis_sample(y, r->height, &y0, &y1, &ly) || !axis_sample(x, r->width, &x0, &x1, &lx))
    return 0;
  double a = (1 - ly) * (1 - lx) * val_f64(r->x, (plane + y0) * r->width + x0);
  double b = (1 - ly) * lx * val_f64(r->x, (plane + y0) * r->width + x1);
  double c = ly * (1 - lx) * val_f64(r->x, (plane + y1) * r->width + x0);
  double d = ly * lx * val_f64(r->x, (plane + y1) * r->width + x1);
  return r->max ? fmax(fmax(a, b), fmax(c, d)) : a + b + c + d;
}

typedef struct Bins {
  double start, bin;
  int64_t grid;
} Bins;

static Bins axis_bins(const Roi *r, double from, double to, int64_t n) {
  double shift = r->half_pixel ? 0.5 : 0, start = from * r->scale - shift;
  double len = to * r->scale - shift - start;
  if (!r->half_pixel) len = MAX(len, 1);
  double bin = len / (double)n;
  return (Bins){start, bin, r->ratio > 0 ? r->ratio : (int64_t)MAX(ceil(bin), 0)};
}

static void roi_bins(const Roi *r, int64_t n, Bins *y, Bins *x) {
  double at[4];
  load_f64(r->rois->dtype, r->rois->data, n * 4, 4, at);
  *x = axis_bins(r, at[0], at[2], r->pw);
  *y = axis_bins(r, at[1], at[3], r->ph);
}

static void run_align(void *ctx, int64_t begin, int64_t end) {
  const Roi *r = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t px = i % r->pw, py = i / r->pw % r->ph, c = i / (r->pw * r->ph) % r->channels;
    int64_t n = i / (r->pw * r->ph * r->channels);
    int64_t plane = (val_i64(r->batch, n) * r->channels + c) * r->height;
    Bins by, bx;
    roi_bins(r, n, &by, &bx);
    double acc = 0;
    for (int64_t iy = 0; iy < by.grid; iy++) {
      double y = by.start + (double)py * by.bin + ((double)iy + 0.5) * by.bin / (double)by.grid;
      if (!r->max && !(y >= -1 && y <= (double)r->height)) continue;  // a row of zeros
      for (int64_t ix = 0; ix < bx.grid; ix++) {
        double x = bx.start + (double)px * bx.bin + ((double)ix + 0.5) * bx.bin / (double)bx.grid;
        double v = sample(r, plane, y, x);
        acc = !r->max ? acc + v : iy + ix == 0 || v > acc ? v : acc;
      }
    }
    double count = (double)MAX(by.grid * bx.grid, 1);
    val_put_f64(r->y, i, r->max ? acc : acc / count);
  }
}

tenon_status eval_roi_align(Eval *e) {
  const roi_align_attrs *at = e->attrs;
  Roi r = {.ph = at->output_height,
           .pw = at->output_width,
           .scale = at->spatial_scale,
           .half_pixel = at->coordinate_transformation_mode == 0,
           .max = at->mode == 1,
           .ratio = at->sampling_ratio};
  TRY(check_images(e, &r));
  TRY(eval_need(e, 2, "batch_indices", DT_I64));
  r.batch = e->in[2];
  if (r.rois->dims[1] != 4 || r.batch->rank != 1 || r.batch->n != r.rois->dims[0])
    return eval_fail(e, TENON_EINVAL, "rois [%lld, %lld] and %lld batch indices",
                     (long long)r.rois->dims[0], (long long)r.rois->dims[1], (long long)r.batch->n);
  if (r.ratio < 0 || r.ratio > 128)
    return eval_fail(e, TENON_EINVAL, "sampling_ratio %lld is out of range", (long long)r.ratio);
  double samples = 0;
  for (int64_t i = 0; i < r.batch->n; i++) {
    int64_t b = val_i64(r.batch, i);
    Bins by, bx;
    if (b < 0 || b >= r.x->dims[0])
      return eval_fail(e, TENON_EINVAL, "region %lld is of image %lld, there are %lld",
                       (long long)i, (long long)b, (long long)r.x->dims[0]);
    roi_bins(&r, i, &by, &bx);
    if (by.grid > MOST_SAMPLES || bx.grid > MOST_SAMPLES)
      return eval_fail(e, TENON_EINVAL,
                       "region %lld needs %lld x %lld samples a bin, of which the limit of %d is "
                       "exceeded: set sampling_ratio",
                       (long long)i, (long long)by.grid, (long long)bx.grid, MOST_SAMPLES);
    samples += (double)by.grid * (double)bx.grid;
  }
  TRY(roi_out(e, &r));
  TRY(eval_work(e, 8 * samples * (double)r.channels * (double)r.ph * (double)r.pw));
  parallel_for(e->run->pool, r.y->n, 64, run_align, &r);
  return TENON_OK;
}
