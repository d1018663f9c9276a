// norm.h -- softmax and the normalisations.
#ifndef TENON_EVAL_NORM_H
#define TENON_EVAL_NORM_H

#include "eval/order.h"

// ONNX writes these defaults as f32; they are those numbers exactly.
#define NORM_EPSILON  9.99999974737875163555145e-06
#define NORM_MOMENTUM 0.899999976158142089843750

// clang-format off
#define SOFTMAX_ATTRS(A, C, T)                                                                     \
  A(T, i64,  axis,          -1,            "axis to normalise")
#define LOG_SOFTMAX_ATTRS(A, C, T)                                                                 \
  A(T, i64,  axis,          -1,            "axis to normalise")
#define BATCH_NORMALIZATION_ATTRS(A, C, T)                                                         \
  A(T, f64,  epsilon,       NORM_EPSILON,  "added to the variance")                                \
  A(T, f64,  momentum,      NORM_MOMENTUM, "share of the old running mean and variance")           \
  A(T, bool, training_mode, false,         "use the batch's own mean and variance")                \
  CHANNELS_LAST_ATTR(A, T)
#define INSTANCE_NORMALIZATION_ATTRS(A, C, T)                                                      \
  A(T, f64,  epsilon,       NORM_EPSILON,  "added to the variance")                                \
  CHANNELS_LAST_ATTR(A, T)
#define LAYER_NORMALIZATION_ATTRS(A, C, T)                                                         \
  A(T, i64,  axis,          -1,            "first axis to normalise over")                         \
  A(T, f64,  epsilon,       NORM_EPSILON,  "added to the variance")                                \
  A(T, i64,  stash_type,    1,             "type of mean and inv_std_dev, ONNX's number")
#define GROUP_NORMALIZATION_ATTRS(A, C, T)                                                         \
  A(T, f64,  epsilon,       NORM_EPSILON,  "added to the variance")                                \
  A(T, i64,  num_groups,    0,             "channels are split into as many groups")               \
  A(T, i64,  stash_type,    1,             "type of the intermediate sums: ours are wider")        \
  CHANNELS_LAST_ATTR(A, T)
#define RMS_NORMALIZATION_ATTRS(A, C, T)                                                           \
  A(T, i64,  axis,          -1,            "first axis to normalise over")                         \
  A(T, f64,  epsilon,       NORM_EPSILON,  "added to the mean square")                             \
  A(T, i64,  stash_type,    1,             "type of the intermediate sums: ours are wider")
#define LP_NORMALIZATION_ATTRS(A, C, T)                                                            \
  A(T, i64,  axis,          -1,            "axis to normalise")                                    \
  A(T, i64,  p,             2,             "order of the norm, 1 or 2")
#define LRN_ATTRS(A, C, T)                                                                         \
  A(T, f64,  alpha,         9.99999974737875163555145e-05, "factor of the mean square")            \
  A(T, f64,  beta,          0.75,          "exponent")                                             \
  A(T, f64,  bias,          1,             "added to the mean square")                             \
  A(T, i64,  size,          0,             "channels to sum over")                                 \
  CHANNELS_LAST_ATTR(A, T)
#define MEAN_VARIANCE_NORMALIZATION_ATTRS(A, C, T)                                                 \
  A(T, i64s, axes,          ,              "axes to normalise over; 0, 2, 3 by default")
// clang-format on
ATTR_STRUCT(softmax, SOFTMAX_ATTRS);
ATTR_STRUCT(log_softmax, LOG_SOFTMAX_ATTRS);
ATTR_STRUCT(batch_normalization, BATCH_NORMALIZATION_ATTRS);
ATTR_STRUCT(instance_normalization, INSTANCE_NORMALIZATION_ATTRS);
ATTR_STRUCT(layer_normalization, LAYER_NORMALIZATION_ATTRS);
ATTR_STRUCT(group_normalization, GROUP_NORMALIZATION_ATTRS);
ATTR_STRUCT(rms_normalization, RMS_NORMALIZATION_ATTRS);
ATTR_STRUCT(lp_normalization, LP_NORMALIZATION_ATTRS);
ATTR_STRUCT(lrn, LRN_ATTRS);
ATTR_STRUCT(mean_variance_normalization, MEAN_VARIANCE_NORMALIZATION_ATTRS);
EvalFn eval_softmax, eval_log_softmax, eval_batch_normalization, eval_instance_normalization,
    eval_layer_normalization, eval_group_normalization, eval_rms_normalization,
    eval_lp_normalization, eval_lrn, eval_mean_variance_normalization;

#endif
