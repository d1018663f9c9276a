// image.h -- attributes and evaluation of the image ops: resize, grid_sample, affine_grid.
#ifndef TENON_EVAL_IMAGE_H
#define TENON_EVAL_IMAGE_H

#include "eval/eval.h"

// clang-format off
#define RESIZE_ATTRS(A, C, T)                                                                      \
  A(T, bool, antialias, false, "widen the filter when scaling down (linear and cubic)")            \
  A(T, i64s, axes, , "axes that roi, scales and sizes speak of; empty: all")                       \
  C(T, coordinate_transformation_mode,                                                             \
    "half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_half_pixel_for_nn|tf_crop_and_resize", \
    0, "from a position in the result to one in x")                                                \
  A(T, f64, cubic_coeff_a, -0.75, "coefficient a of the cubic filter")                             \
  A(T, bool, exclude_outside, false, "positions outside x get no weight, the others share it")     \
  A(T, f64, extrapolation_value, 0.0, "what lies outside x for tf_crop_and_resize")                \
  C(T, keep_aspect_ratio_policy, "stretch|not_larger|not_smaller", 0, "how sizes are meant")       \
  C(T, mode, "nearest|linear|cubic", 0, "interpolation")                                           \
  C(T, nearest_mode, "round_prefer_floor|round_prefer_ceil|floor|ceil", 0, "rounding of a position")
ATTR_STRUCT(resize, RESIZE_ATTRS);
enum { RESIZE_HALF_PIXEL, RESIZE_SYMMETRIC, RESIZE_PYTORCH, RESIZE_CORNERS, RESIZE_ASYMMETRIC, RESIZE_TF_HALF, RESIZE_TF_CROP };
enum { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };
enum { RESIZE_STRETCH, RESIZE_NOT_LARGER, RESIZE_NOT_SMALLER };
enum { RESIZE_PREFER_FLOOR, RESIZE_PREFER_CEIL, RESIZE_FLOOR, RESIZE_CEIL };

#define GRID_SAMPLE_ATTRS(A, C, T)                                                                 \
  C(T, mode, "linear|nearest|cubic", 0, "interpolation")                                           \
  C(T, padding_mode, "zeros|border|reflection", 0, "what lies outside x")                          \
  A(T, bool, align_corners, false, "-1 and 1 are the centres of the corner pixels, not their edges")
ATTR_STRUCT(grid_sample, GRID_SAMPLE_ATTRS);
enum { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC };
enum { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION };
enum { SAMPLE_MAX_SPATIAL = 4 };

#define AFFINE_GRID_ATTRS(A, C, T)                                                                 \
  A(T, bool, align_corners, false, "-1 and 1 are the centres of the corner pixels, not their edges")
ATTR_STRUCT(affine_grid, AFFINE_GRID_ATTRS);
// clang-format on

// Size of an axis scaled by a factor: exact for factors with a short binary fraction, else as the
// product of two f32 numbers, which is what shape inference everywhere computes.  -1: does not fit.
int64_t resize_size(int64_t size, double scale);
// The sizes that a policy other than stretch gives; `scale` is the factor of all these axes.
bool resize_policy_scale(int policy, int n, const int64_t *sizes, const int64_t *in, double *scale);
int64_t resize_policy_size(int64_t in, double scale);
// Weights of the four taps around a position that is `t` after the second of them.
void cubic_weights(double a, double t, double w[4]);

EvalFn eval_resize, eval_grid_sample, eval_affine_grid;

#endif
