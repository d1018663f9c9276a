// foreign.h -- operators of the user's own: attributes and evaluation.
//
// What such an operator does is known to whoever made the run (Run.foreign).
#ifndef TENON_EVAL_FOREIGN_H
#define TENON_EVAL_FOREIGN_H

#include "eval/eval.h"

#define FOREIGN_ATTRS(A, C, T)                                                                     \
  A(T, str, op, "", "full name, as com.example.Blur")                                              \
  A(T, strs, keys, NULL, "attribute names")                                                        \
  A(T, strs, values, NULL, "attribute values as text")
ATTR_STRUCT(foreign, FOREIGN_ATTRS);

EvalFn eval_foreign;

#endif
