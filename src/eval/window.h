// window.h -- sliding windows: their geometry, shared with convolutions, and the pooling ops.
//
// Along each spatial axis window o covers input positions o * stride - lo + i * dilation, i <
// kernel.
#ifndef TENON_EVAL_WINDOW_H
#define TENON_EVAL_WINDOW_H

#include "eval/order.h"

#define AUTO_PAD_WORDS "NOTSET|SAME_UPPER|SAME_LOWER|VALID"
enum { PAD_NOTSET, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_VALID };
enum {
  WINDOW_MAX = LIMIT_WINDOW
};  // kernel, stride, dilation and pad stay below, so that sums fit

// What the attributes say; empty lists mean the defaults (kernel must be given).
typedef struct WindowSpec {
  Ints kernel, strides, pads, dilations;
  int auto_pad;
  bool ceil_mode;
} WindowSpec;
typedef struct Window {
  int nd;
  int64_t in[MAX_RANK], out[MAX_RANK];
  int64_t kernel[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK], lo[MAX_RANK], hi[MAX_RANK];
  int64_t nin, nout, nkernel;  // products
} Window;
// Checks the lists' lengths and ranges; NULL when sound, else a message with one %lld for *out_bad.
const char *window_check(const WindowSpec *s, int nd, int64_t *out_bad);
// Sizes and pads for a concrete input.
MUST_USE tenon_status window_init(Eval *e, const WindowSpec *s, int nd, const int64_t *in,
                                  Window *out);
MUST_USE tenon_status window_products(Eval *e, Window *w);
// Position of window `o` and tap `k` along axis d; outside [0, in) it lies in the padding.
static inline int64_t window_at(const Window *w, int d, int64_t o, int64_t k) {
  return o * w->stride[d] - w->lo[d] + k * w->dilation[d];
}
// Row-major index to coordinates.
static inline void window_coords(int nd, const int64_t *dims, int64_t i, int64_t *out) {
  for (int d = nd - 1; d >= 0; d--) {
    out[d] = i % dims[d];
    i /= dims[d];
  }
}

// clang-format off
#define MAX_POOL_ATTRS(A, C, T)                                                                    \
  C(T, auto_pad, AUTO_PAD_WORDS, PAD_NOTSET,  "how the pads are found")                            \
  A(T, bool, ceil_mode,     false,   "round output sizes up")                                      \
  A(T, i64s, dilations,     ,        "distance between taps, 1 by default")                        \
  A(T, i64s, kernel_shape,  ,        "taps along each spatial axis")                               \
  A(T, i64s, pads,          ,        "begins, then ends; 0 by default")                            \
  A(T, i64,  storage_order, 0,       "0: indices count row-major, 1: column-major")                \
  A(T, i64s, strides,       ,        "step between windows, 1 by default")                        \
  CHANNELS_LAST_ATTR(A, T)
#define AVERAGE_POOL_ATTRS(A, C, T)                                                                \
  C(T, auto_pad, AUTO_PAD_WORDS, PAD_NOTSET,  "how the pads are found")                            \
  A(T, bool, ceil_mode,         false, "round output sizes up")                                    \
  A(T, bool, count_include_pad, false, "count padded positions as elements")                       \
  A(T, i64s, dilations,         ,      "distance between taps, 1 by default")                      \
  A(T, i64s, kernel_shape,      ,      "taps along each spatial axis")                             \
  A(T, i64s, pads,              ,      "begins, then ends; 0 by default")                          \
  A(T, i64s, strides,           ,      "step between windows, 1 by default")                      \
  CHANNELS_LAST_ATTR(A, T)
#define LP_POOL_ATTRS(A, C, T)                                                                     \
  C(T, auto_pad, AUTO_PAD_WORDS, PAD_NOTSET,  "how the pads are found")                            \
  A(T, bool, ceil_mode,    false,  "round output sizes up")                                        \
  A(T, i64s, dilations,    ,       "distance between taps, 1 by default")                          \
  A(T, i64s, kernel_shape, ,       "taps along each spatial axis")                                 \
  A(T, i64,  p,            2,      "order of the norm")                                            \
  A(T, i64s, pads,         ,       "begins, then ends; 0 by default")                              \
  A(T, i64s, strides,      ,       "step between windows, 1 by default")                          \
  CHANNELS_LAST_ATTR(A, T)
#define GLOBAL_POOL_ATTRS(A, C, T) CHANNELS_LAST_ATTR(A, T)
#define GLOBAL_LP_POOL_ATTRS(A, C, T)                                                              \
  A(T, i64,  p,            2,      "order of the norm")                                            \
  CHANNELS_LAST_ATTR(A, T)
#define MAX_UNPOOL_ATTRS(A, C, T)                                                                  \
  A(T, i64s, kernel_shape, ,       "taps along each spatial axis")                                 \
  A(T, i64s, pads,         ,       "begins, then ends; 0 by default")                              \
  A(T, i64s, strides,      ,       "step between windows, 1 by default")
#define MAX_ROI_POOL_ATTRS(A, C, T)                                                                \
  A(T, i64s, pooled_shape, ,       "height and width of the result")                               \
  A(T, f64,  spatial_scale, 1,     "from the regions' coordinates to the input's")
#define ROI_ALIGN_ATTRS(A, C, T)                                                                   \
  C(T, coordinate_transformation_mode, "half_pixel|output_half_pixel", 0, "shift by half a pixel") \
  C(T, mode, "avg|max", 0,         "how the samples of a bin are joined")                          \
  A(T, i64,  output_height, 1,     "bins along the height")                                        \
  A(T, i64,  output_width,  1,     "bins along the width")                                         \
  A(T, i64,  sampling_ratio, 0,    "samples along each side of a bin; 0: as many as it has pixels")\
  A(T, f64,  spatial_scale, 1,     "from the regions' coordinates to the input's")
// clang-format on
ATTR_STRUCT(max_pool, MAX_POOL_ATTRS);
ATTR_STRUCT(average_pool, AVERAGE_POOL_ATTRS);
ATTR_STRUCT(lp_pool, LP_POOL_ATTRS);
ATTR_STRUCT(global_pool, GLOBAL_POOL_ATTRS);
ATTR_STRUCT(global_lp_pool, GLOBAL_LP_POOL_ATTRS);
ATTR_STRUCT(max_unpool, MAX_UNPOOL_ATTRS);
ATTR_STRUCT(max_roi_pool, MAX_ROI_POOL_ATTRS);
ATTR_STRUCT(roi_align, ROI_ALIGN_ATTRS);
EvalFn eval_max_pool, eval_average_pool, eval_lp_pool, eval_global_average_pool,
    eval_global_max_pool, eval_global_lp_pool, eval_max_unpool, eval_max_roi_pool, eval_roi_align;

#endif
