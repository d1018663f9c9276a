// movement.h -- attributes and reference evaluation of the movement ops.
#ifndef TENON_EVAL_MOVEMENT_H
#define TENON_EVAL_MOVEMENT_H

#include "eval/order.h"

enum { SHAPE_END = INT32_MAX };  // shape: to the last dimension

#define RESHAPE_ATTRS(A, C, T)                                                                     \
  A(T, bool, allowzero, false, "a 0 in the shape is a size of 0, not a copy of the input's")       \
  A(T, i64s, into, ,                                                                               \
    "for each input axis the result axis whose size in the shape it multiplies, or -1; then -1 "   \
    "in "                                                                                          \
    "the shape is what the axes in no result axis leave over")
ATTR_STRUCT(reshape, RESHAPE_ATTRS);
EvalFn eval_reshape;

#define FLATTEN_ATTRS(A, C, T)                                                                     \
  A(T, i64, axis, 1, "dimensions before it become the first, the others the second")
ATTR_STRUCT(flatten, FLATTEN_ATTRS);
EvalFn eval_flatten;

EvalFn eval_squeeze, eval_unsqueeze, eval_expand, eval_slice, eval_tile, eval_size;

#define TRANSPOSE_ATTRS(A, C, T)                                                                   \
  A(T, i64s, perm, , "input axis of each output axis; empty reverses them")                        \
  A(T, bool, materialize, false,                                                                   \
    "written to memory by a kernel of its own, which simplification leaves")
ATTR_STRUCT(transpose, TRANSPOSE_ATTRS);
EvalFn eval_transpose;

#define CONCAT_ATTRS(A, C, T) A(T, i64, axis, 0, "axis along which the inputs follow each other")
ATTR_STRUCT(concat, CONCAT_ATTRS);
EvalFn eval_concat;

#define SPLIT_ATTRS(A, C, T)                                                                       \
  A(T, i64, axis, 0, "axis to cut")                                                                \
  A(T, i64, num_outputs, 0, "number of parts when no sizes are given; 0: as many as results")
ATTR_STRUCT(split, SPLIT_ATTRS);
EvalFn eval_split;

typedef enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } PadMode;
#define PAD_ATTRS(A, C, T) C(T, mode, "constant|reflect|edge|wrap", 0, "what the new elements are")
ATTR_STRUCT(pad, PAD_ATTRS);
EvalFn eval_pad;

#define REVERSE_SEQUENCE_ATTRS(A, C, T)                                                            \
  A(T, i64, time_axis, 0, "axis to reverse along: 0 or 1")                                         \
  A(T, i64, batch_axis, 1, "axis of the sequences: the other one")
ATTR_STRUCT(reverse_sequence, REVERSE_SEQUENCE_ATTRS);
EvalFn eval_reverse_sequence;

#define DEPTH_TO_SPACE_ATTRS(A, C, T)                                                              \
  A(T, i64, blocksize, 0, "side of the blocks")                                                    \
  C(T, mode, "DCR|CRD", 0, "depth-column-row or column-row-depth order")                           \
  CHANNELS_LAST_ATTR(A, T)
ATTR_STRUCT(depth_to_space, DEPTH_TO_SPACE_ATTRS);
ATTR_STRUCT(space_to_depth, DEPTH_TO_SPACE_ATTRS);
EvalFn eval_depth_to_space, eval_space_to_depth;

#define TRILU_ATTRS(A, C, T) A(T, bool, upper, true, "keep the upper triangle, else the lower")
ATTR_STRUCT(trilu, TRILU_ATTRS);
EvalFn eval_trilu;

#define CENTER_CROP_PAD_ATTRS(A, C, T)                                                             \
  A(T, i64s, axes, , "axes that the shape is for; empty means all of them")
ATTR_STRUCT(center_crop_pad, CENTER_CROP_PAD_ATTRS);
EvalFn eval_center_crop_pad;

#define SHAPE_ATTRS(A, C, T)                                                                       \
  A(T, i64, start, 0, "first dimension; negative counts from the end")                             \
  A(T, i64, end, SHAPE_END, "dimension after the last one; negative counts from the end")
ATTR_STRUCT(shape, SHAPE_ATTRS);
EvalFn eval_shape;

// What start:end:step selects of `dim` elements, as ONNX Slice clamps them; step is not 0.
void slice_bounds(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *out_first,
                  int64_t *out_count);
// The range of dimensions that shape's start and end select.
void shape_bounds(int rank, int64_t start, int64_t end, int *out_from, int *out_to);
// Axes given by data, made non-negative; EINVAL when out of range or repeated.  n <= rank
// afterwards.
MUST_USE tenon_status eval_axes(Eval *e, Ints axes, int rank, int *out_axes);

#endif
