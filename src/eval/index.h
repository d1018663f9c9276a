// index.h -- attributes and reference evaluation of the index ops: gather, scatter, sort, select,
// scan.
#ifndef TENON_EVAL_INDEX_H
#define TENON_EVAL_INDEX_H

#include "eval/eval.h"

#define GATHER_ATTRS(A, C, T) A(T, i64, axis, 0, "axis that the indices select along")
ATTR_STRUCT(gather, GATHER_ATTRS);
EvalFn eval_gather;

#define GATHER_ELEMENTS_ATTRS(A, C, T) A(T, i64, axis, 0, "axis that the indices select along")
ATTR_STRUCT(gather_elements, GATHER_ELEMENTS_ATTRS);
EvalFn eval_gather_elements;

#define GATHER_ND_ATTRS(A, C, T)                                                                   \
  A(T, i64, batch_dims, 0, "leading axes that data and indices share")
ATTR_STRUCT(gather_nd, GATHER_ND_ATTRS);
EvalFn eval_gather_nd;

typedef enum { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MIN, SCATTER_MAX } ScatterMode;
#define SCATTER_ELEMENTS_ATTRS(A, C, T)                                                            \
  A(T, i64, axis, 0, "axis that the indices select along")                                         \
  C(T, reduction, "none|add|mul|min|max", 0, "how an update joins what is there")
ATTR_STRUCT(scatter_elements, SCATTER_ELEMENTS_ATTRS);
EvalFn eval_scatter_elements;

#define SCATTER_ND_ATTRS(A, C, T)                                                                  \
  C(T, reduction, "none|add|mul|min|max", 0, "how an update joins what is there")
ATTR_STRUCT(scatter_nd, SCATTER_ND_ATTRS);
EvalFn eval_scatter_nd;

#define TENSOR_SCATTER_ATTRS(A, C, T)                                                              \
  C(T, mode, "linear|circular", 0, "whether positions past the end wrap around")                   \
  A(T, i64, axis, -2, "sequence axis; not 0, the batch")
ATTR_STRUCT(tensor_scatter, TENSOR_SCATTER_ATTRS);
EvalFn eval_tensor_scatter;

#define ONE_HOT_ATTRS(A, C, T) A(T, i64, axis, -1, "place of the new axis")
ATTR_STRUCT(one_hot, ONE_HOT_ATTRS);
EvalFn eval_one_hot;

#define TOP_K_ATTRS(A, C, T)                                                                       \
  A(T, i64, axis, -1, "axis to select along")                                                      \
  A(T, bool, largest, true, "the largest, else the smallest")                                      \
  A(T, bool, sorted, true, "in order; else in any order (which is the same here)")
ATTR_STRUCT(top_k, TOP_K_ATTRS);
EvalFn eval_top_k;

#define ARG_ATTRS(A, C, T)                                                                         \
  A(T, i64, axis, 0, "axis to search along")                                                       \
  A(T, bool, keepdims, true, "the axis stays, with size 1")                                        \
  A(T, bool, select_last_index, false, "of equal values the last, else the first")
ATTR_STRUCT(arg, ARG_ATTRS);
EvalFn eval_arg_max, eval_arg_min, eval_non_zero;

#define UNIQUE_ATTRS(A, C, T)                                                                      \
  A(T, opt_i64, axis, , "slices along it are compared; absent: single elements")                   \
  A(T, bool, sorted, true, "ascending, else in order of first occurrence")
ATTR_STRUCT(unique, UNIQUE_ATTRS);
EvalFn eval_unique;

#define COMPRESS_ATTRS(A, C, T)                                                                    \
  A(T, opt_i64, axis, , "axis to select along; absent: single elements")
ATTR_STRUCT(compress, COMPRESS_ATTRS);
EvalFn eval_compress;

#define CUM_ATTRS(A, C, T)                                                                         \
  A(T, bool, exclusive, false, "without the element itself")                                       \
  A(T, bool, reverse, false, "from the end")
ATTR_STRUCT(cum, CUM_ATTRS);
EvalFn eval_cum_sum, eval_cum_prod;

#define HARDMAX_ATTRS(A, C, T) A(T, i64, axis, -1, "axis to search along")
ATTR_STRUCT(hardmax, HARDMAX_ATTRS);
EvalFn eval_hardmax;

#define NON_MAX_SUPPRESSION_ATTRS(A, C, T)                                                         \
  A(T, bool, center_point_box, false, "boxes are centre and size, else two corners")
ATTR_STRUCT(non_max_suppression, NON_MAX_SUPPRESSION_ATTRS);
EvalFn eval_non_max_suppression;

// A key that orders elements as their values do: -0 as 0, NaN above all; not for strings and
// complex.
uint64_t order_key(DType t, const void *base, int64_t i);

#endif
