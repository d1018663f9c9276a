// control.h -- control flow: attributes and evaluation.
//
// A body's parameters are the op's own values followed by the captured ones; the op's operands end
// with the captured values in the same order.  Bodies are run through run->call_body.
#ifndef TENON_EVAL_CONTROL_H
#define TENON_EVAL_CONTROL_H

#include "eval/eval.h"

#define IF_ATTRS(A, C, T)                                                                          \
  A(T, i64, then_captures, 0,                                                                      \
    "operands after the condition that belong to the then branch; the rest are the else branch's") \
  A(T, body, then_branch, 0, "run when the condition holds")                                       \
  A(T, body, else_branch, 0, "run when it does not")
ATTR_STRUCT(if, IF_ATTRS);
// Of each scan result that a model declares a shape for: the rank of a row, then its sizes, -1
// where not said; a rank of -1 where the model declares none, or the body tells more.  Only a loop
// without an iteration needs it.
#define ROW_SHAPES(A, T)                                                                           \
  A(T, i64s, row_shapes, ,                                                                         \
    "declared rank and sizes of a row of each scan result, -1 where not said")
#define LOOP_ATTRS(A, C, T)                                                                        \
  A(T, i64, captures, 0, "operands that are captured values, the last ones")                       \
  A(T, body, body, 0,                                                                              \
    "iteration, condition, carried values, captures -> condition, carried values, one row of "     \
    "each scan result")                                                                            \
  ROW_SHAPES(A, T)
ATTR_STRUCT(loop, LOOP_ATTRS);
#define SCAN_ATTRS(A, C, T)                                                                        \
  A(T, i64, captures, 0, "operands that are captured values, the last ones")                       \
  A(T, i64, num_scan_inputs, 0, "operands that are walked along an axis, after the states")        \
  A(T, i64s, scan_input_axes, , "axis of each scan input; 0 when absent")                          \
  A(T, i64s, scan_input_directions, , "1: from the end")                                           \
  A(T, i64s, scan_output_axes, , "axis of each scan result; 0 when absent")                        \
  A(T, i64s, scan_output_directions, , "1: each row goes in front")                                \
  A(T, bool, batched, false, "opset 8: every operand has a batch axis in front")                   \
  A(T, body, body, 0, "states, one row of each scan input, captures -> states, rows")              \
  ROW_SHAPES(A, T)
ATTR_STRUCT(scan, SCAN_ATTRS);
#define SEQUENCE_MAP_ATTRS(A, C, T)                                                                \
  A(T, i64, captures, 0, "operands that are captured values, the last ones")                       \
  A(T, body, body, 0, "run for each element")
ATTR_STRUCT(sequence_map, SEQUENCE_MAP_ATTRS);

// Of `row_shapes`: the sizes for scan result `i`; false where nothing is said, or nothing sound.
bool row_shape(Ints row_shapes, int64_t i, Ints *out);

EvalFn eval_if, eval_loop, eval_scan, eval_sequence_map;

#endif
