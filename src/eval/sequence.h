// sequence.h -- sequences and optionals: attributes and evaluation.
#ifndef TENON_EVAL_SEQUENCE_H
#define TENON_EVAL_SEQUENCE_H

#include "eval/eval.h"

#define SEQUENCE_EMPTY_ATTRS(A, C, T) A(T, dtype, dtype, TENON_DTYPE_F32, "element type")
ATTR_STRUCT(sequence_empty, SEQUENCE_EMPTY_ATTRS);
#define CONCAT_FROM_SEQUENCE_ATTRS(A, C, T)                                                        \
  A(T, i64, axis, 0, "axis to join along")                                                         \
  A(T, bool, new_axis, false, "join along a new axis")
ATTR_STRUCT(concat_from_sequence, CONCAT_FROM_SEQUENCE_ATTRS);
#define SPLIT_TO_SEQUENCE_ATTRS(A, C, T)                                                           \
  A(T, i64, axis, 0, "axis to cut")                                                                \
  A(T, bool, keepdims, true, "keep the axis when no sizes are given")
ATTR_STRUCT(split_to_sequence, SPLIT_TO_SEQUENCE_ATTRS);
// An empty optional needs its type from outside: the sequence flag and element dtype.
#define OPTIONAL_ATTRS(A, C, T)                                                                    \
  A(T, dtype, dtype, TENON_DTYPE_NONE, "element type of an empty optional")                        \
  A(T, bool, sequence, false, "the empty optional is of a sequence")
ATTR_STRUCT(optional, OPTIONAL_ATTRS);

EvalFn eval_sequence_construct, eval_sequence_empty, eval_sequence_at, eval_sequence_insert,
    eval_sequence_erase, eval_sequence_length, eval_concat_from_sequence, eval_split_to_sequence,
    eval_optional, eval_optional_get_element, eval_optional_has_element;

#endif
