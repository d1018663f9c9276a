// image.c -- records of the image ops.
//
// Sizes stay symbolic: sizes computed of shapes are followed, and a scale with a short binary
// fraction gives floor(size * numerator / denominator).
#include "eval/image.h"
#include "ir/opinfo.h"

#include <math.h>

// ---- resize ----

static tenon_status resize_axes(Infer *in, int rank, int *axes, int *naxes) {
  const resize_attrs *at = in->attrs;
  bool seen[MAX_RANK] = {false};
  *naxes = rank;
  for (int i = 0; i < rank; i++) axes[i] = i;
  if (!at->axes.n) return TENON_OK;
  if (at->axes.n > rank)
    return infer_fail(in, TENON_EINVAL, "%lld axes for rank %d", (long long)at->axes.n, rank);
  *naxes = (int)at->axes.n;
  for (int i = 0; i < *naxes; i++) {
    TRY(infer_axis(in, at->axes.v[i], rank, &axes[i]));
    if (seen[axes[i]]) return infer_fail(in, TENON_EINVAL, "axis %d is given twice", axes[i]);
    seen[axes[i]] = true;
  }
  return TENON_OK;
}

// The number of elements of a vector operand must be `want`, where it is known.
static tenon_status check_count(Infer *in, int i, int64_t want, const char *name) {
  const Type *t = infer_type(in, i);
  if (t->rank >= 0 && t->rank != 1)
    return infer_fail(in, TENON_EINVAL, "%s has rank %d, must have 1", name, t->rank);
  if (t->rank == 1 && ie_is_const(t->dims[0]) && t->dims[0]->value != want)
    return infer_fail(in, TENON_EINVAL, "%s has %lld elements, must have %lld", name,
                      (long long)t->dims[0]->value, (long long)want);
  return TENON_OK;
}

static bool given(const Infer *in, int i) {
  const Type *t = infer_type(in, i);
  return t && !(t->kind == TK_TENSOR && t->rank == 1 && ie_is(t->dims[0], 0));
}

static Dim scaled(Infer *in, Dim d, double s) {
  IntPool *p = &in->g->dims;
  if (ie_is_const(d)) {
    int64_t n = resize_size(d->value, s);
    return n < 0 ? p->poison : ie_const(p, n);
  }
  for (int64_t den = 1; den <= 256; den *= 2) {
    double num = s * (double)den;
    if (num == floor(num) && num < 0x1p31)
      return ie_div(p, ie_mulc(p, d, (int64_t)num), ie_const(p, den));
  }
  // 1/3 and the like: no binary fraction, but f32 arithmetic rounds to the right side all the same.
  double k = nearbyint(1 / s);
  if (k >= 1 && k < 0x1p20 && (float)(1 / k) == (float)s) {
    bool right = true;
    for (int64_t m = 1; m <= 1 << 20; m *= 2) right &= resize_size(m * (int64_t)k, s) == m;
    if (right) return ie_div(p, d, ie_const(p, (int64_t)k));
  }
  return ie_fresh(p, "resize");
}

static tenon_status resize_by_scales(Infer *in, const int *axes, int naxes, Dim *dims) {
  TRY(infer_need(in, 2, 0));
  TRY(check_count(in, 2, naxes, "scales"));
  const Value *v = node_known(in->g, in->src[2]);
  int64_t n;
  const Dim *sym;
  bool followed = !v && node_sym(in->g, in->src[2], &n, &sym) && n == naxes;
  for (int i = 0; i < naxes; i++) {
    Dim *d = &dims[axes[i]];
    if (!v) {
      *d = followed ? ie_mul(&in->g->dims, *d, sym[i]) : ie_fresh(&in->g->dims, "resize");
      continue;
    }
    double s = val_f64(v, i);
    if (!(s > 0) || isinf(s))
      return infer_fail(in, TENON_EINVAL, "scale %d is %g, must be positive", i, s);
    *d = scaled(in, *d, s);
  }
  return TENON_OK;
}

static tenon_status resize_by_sizes(Infer *in, const int *axes, int naxes, Dim *dims) {
  const resize_attrs *at = in->attrs;
  TRY(infer_need(in, 3, 0));
  TRY(check_count(in, 3, naxes, "sizes"));
  int64_t n, size[MAX_RANK], from[MAX_RANK];
  const Dim *sym;
  bool known = node_sym(in->g, in->src[3], &n, &sym) && n == naxes, constant = known;
  for (int i = 0; i < naxes; i++) {
    Dim d = dims[axes[i]];
    constant = constant && ie_is_const(sym[i]) && ie_is_const(d);
    if (constant) size[i] = sym[i]->value, from[i] = d->value;
  }
  double scale;
  bool stretch = at->keep_aspect_ratio_policy == RESIZE_STRETCH;
  if (!stretch && constant &&
      !resize_policy_scale(at->keep_aspect_ratio_policy, naxes, size, from, &scale))
    return infer_fail(in, TENON_EINVAL, "an empty axis has no aspect ratio to keep");
  for (int i = 0; i < naxes; i++) {
    Dim *d = &dims[axes[i]];
    if (stretch && known)
      *d = sym[i];
    else if (!stretch && constant)
      *d = ie_const(&in->g->dims, resize_policy_size(from[i], scale));
    else
      *d = ie_fresh(&in->g->dims, "resize");
  }
  return TENON_OK;
}

static tenon_status infer_resize(Infer *in) {
  const resize_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  int axes[MAX_RANK], naxes;
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  TRY(resize_axes(in, x->rank, axes, &naxes));
  bool crop = at->coordinate_transformation_mode == RESIZE_TF_CROP;
  if (crop && !infer_src(in, 1))
    return infer_fail(in, TENON_EINVAL, "tf_crop_and_resize needs the operand roi");
  if (crop) TRY(check_count(in, 1, 2 * naxes, "roi"));
  if (at->antialias && at->mode == RESIZE_NEAREST)
    return infer_fail(in, TENON_EINVAL, "antialias is for the modes linear and cubic");
  if (given(in, 3))
    TRY(resize_by_sizes(in, axes, naxes, dims));
  else if (infer_src(in, 2))
    TRY(resize_by_scales(in, axes, naxes, dims));
  else if (naxes)
    return infer_fail(in, TENON_EINVAL, "neither scales nor sizes are given");
  return infer_set(in, 0, x->dtype, x->rank, dims);
}

static double cost_resize(const CostIn *c) {
  static const double per_axis[] = {0, 4, 8};
  const resize_attrs *at = c->node->attrs;
  double ops = 0;
  for (int i = 0; i < c->out[0].rank; i++)
    if (c->in[0].dims[i] != c->out[0].dims[i]) ops += per_axis[at->mode] * (double)c->out[0].n;
  return ops;
}

// ---- grid_sample, affine_grid ----

static tenon_status infer_grid_sample(Infer *in) {
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, 0));
  const Type *x = infer_type(in, 0), *g = infer_type(in, 1);
  if (g->dtype && !dtype_is_float(g->dtype))
    return infer_fail(in, TENON_EINVAL, "grid is %s, must be a float type", dtype_name(g->dtype));
  if (x->rank < 0 || g->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  if (x->rank < 3 || g->rank != x->rank)
    return infer_fail(in, TENON_EINVAL,
                      "x has rank %d and grid rank %d, must be equal and at least 3", x->rank,
                      g->rank);
  int k = x->rank - 2;
  if (k > SAMPLE_MAX_SPATIAL)
    return infer_fail(in, TENON_EUNSUPPORTED, "%d spatial axes, the limit is %d", k,
                      SAMPLE_MAX_SPATIAL);
  Dim dims[MAX_RANK] = {NULL, x->dims[1]};
  TRY(infer_merge_dim(in, x->dims[0], g->dims[0], "batch of x and of grid", &dims[0]));
  TRY(infer_equal_dim(in, g->dims[k + 1], ie_const(&in->g->dims, k),
                      "coordinates of a grid point"));
  for (int a = 0; a < k; a++) dims[2 + a] = g->dims[1 + a];
  return infer_set(in, 0, x->dtype, x->rank, dims);
}

static double cost_grid_sample(const CostIn *c) {
  const grid_sample_attrs *at = c->node->attrs;
  double taps = 1;
  for (int i = 2; i < c->out[0].rank; i++)
    taps *= at->mode == SAMPLE_NEAREST ? 1 : at->mode == SAMPLE_LINEAR ? 2 : 4;
  return at->mode == SAMPLE_NEAREST ? 0 : 2 * taps * (double)c->out[0].n;
}

static tenon_status infer_affine_grid(Infer *in) {
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, DT_I64));
  const Type *t = infer_type(in, 0), *s = infer_type(in, 1);
  if (t->rank >= 0 && t->rank != 3)
    return infer_fail(in, TENON_EINVAL, "theta has rank %d, must have 3", t->rank);
  int64_t n = -1;
  const Dim *sym = NULL;
  bool known = node_sym(in->g, in->src[1], &n, &sym);
  if (!known && s->rank == 1 && ie_is_const(s->dims[0])) n = s->dims[0]->value;
  if (n < 0 && t->rank == 3 && ie_is_const(t->dims[1])) n = t->dims[1]->value + 2;
  if (n < 0) {
    infer_set_unranked(in, 0, t->dtype);
    return TENON_OK;
  }
  if (n != 4 && n != 5)
    return infer_fail(in, TENON_EINVAL, "size has %lld elements, must have 4 or 5", (long long)n);
  IntPool *p = &in->g->dims;
  int k = (int)n - 2;
  Dim dims[5];
  dims[0] = t->rank == 3 ? t->dims[0] : known ? sym[0] : ie_fresh(p, "batch");
  if (t->rank == 3) {
    if (known) TRY(infer_merge_dim(in, t->dims[0], sym[0], "batch of theta and of size", &dims[0]));
    TRY(infer_equal_dim(in, t->dims[1], ie_const(p, k), "rows of theta"));
    TRY(infer_equal_dim(in, t->dims[2], ie_const(p, k + 1), "columns of theta"));
  }
  for (int a = 0; a < k; a++) dims[1 + a] = known ? sym[2 + a] : ie_fresh(p, "grid");
  dims[k + 1] = ie_const(p, k);
  return infer_set(in, 0, t->dtype, k + 2, dims);
}

static double cost_affine_grid(const CostIn *c) {
  int rank = c->out[0].rank;
  return rank > 1 ? 2.0 * (double)c->out[0].n * (double)(rank - 1) : 0;
}

ATTR_TABLE(resize, RESIZE_ATTRS);
ATTR_TABLE(grid_sample, GRID_SAMPLE_ATTRS);
ATTR_TABLE(affine_grid, AFFINE_GRID_ATTRS);

const OpInfo op_resize = {
    .name = "resize",
    .doc = "x at another size, by nearest, linear or cubic interpolation",
    .onnx = "Resize",
    .onnx_since = 11,
    .operands = "x roi? scales? sizes?",
    .results = "y",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    .layout = LAYOUT_RESIZE,
    .range = RANGE_resize,
    OP_ATTRS(resize),
    .infer = infer_resize,
    .eval = eval_resize,
    .cost = cost_resize,
    SAMPLES("(f32[1,2,4,4], _, f32[4]{1,1,2,2})",
            "(f32[1,2,4,4], _, f32[4]{1,1,0.6,0.6}) mode=linear",
            "(f32[1,1,4,5], _, _, i64[4]{1,1,7,9}) mode=cubic exclude_outside=true",
            "(f32[1,1,8,8], _, _, i64[2]{3,5}) mode=linear axes=[2, -1] antialias=true",
            "(f16[2,3], _, f32[2]{2,3}) mode=linear coordinate_transformation_mode=align_corners",
            "(f32[1,5,4], _, f32[3]{1,1.3,0.7}) mode=linear "
            "coordinate_transformation_mode=align_corners",
            "(f32[n,5], _, f32[2]{1.7,0.6}) mode=cubic "
            "coordinate_transformation_mode=align_corners",
            "(u8[1,4,4], _, f32[3]{1,0.5,1.5}) coordinate_transformation_mode=asymmetric "
            "nearest_mode=floor",
            "(f32[1,1,4,4], f32[8]{0,0,0.4,0.6,1,1,0.6,1.2}, _, i64[4]{1,1,3,3}) mode=linear "
            "coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=10",
            "(f32[1,1,2,4], _, _, i64[2]{7,8}) axes=[2, 3] keep_aspect_ratio_policy=not_larger",
            "(f32[0,3], _, f32[2]{1,2})", "(f32[n,c,h,w], _, f32[4]{1,1,2,0.5}) mode=linear",
            "(string[3], _, f32[1]{2})"),
};
const OpInfo op_grid_sample = {
    .name = "grid_sample",
    .doc = "x read at the positions of a grid, whose coordinates go from -1 to 1",
    .onnx = "GridSample",
    .onnx_since = 20,
    .operands = "x grid",
    .results = "y",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_WINDOW,
    .range = RANGE_grid_sample,
    OP_ATTRS(grid_sample),
    .infer = infer_grid_sample,
    .eval = eval_grid_sample,
    .cost = cost_grid_sample,
    SAMPLES("(f32[1,2,4,4], f32[1,3,5,2])",
            "(f32[2,1,3,4], f32[2,2,2,2]) mode=cubic padding_mode=border",
            "(f32[1,2,3,3,3], f32[1,2,2,2,3]) padding_mode=reflection align_corners=true",
            "(i32[1,1,4,4], f16[1,3,3,2]) mode=nearest", "(f32[1,0,4,4], f32[1,3,5,2])",
            "(f16[1,1,4], f32[1,3,1])", "(f32[n,3,h,w], f32[n,u,v,2])"),
};
const OpInfo op_affine_grid = {
    .name = "affine_grid",
    .doc = "the grid of an affine map, for grid_sample",
    .onnx = "AffineGrid",
    .onnx_since = 20,
    .operands = "theta size",
    .results = "grid",
    .dtypes = "float",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_MAP,
    OP_ATTRS(affine_grid),
    .infer = infer_affine_grid,
    .eval = eval_affine_grid,
    .cost = cost_affine_grid,
    SAMPLES("(f32[2,2,3], i64[4]{2,1,3,4})", "(f64[1,3,4], i64[5]{1,1,2,3,4}) align_corners=true",
            "(f16[1,2,3], i64[4]{1,1,0,4})", "(f32[n,2,3], i64[4]{3,1,1,4}) align_corners=true"),
};
