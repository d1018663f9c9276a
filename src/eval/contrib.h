// contrib.h -- reference evaluation of ops that only runtimes' own operators need.
#ifndef TENON_EVAL_CONTRIB_H
#define TENON_EVAL_CONTRIB_H

#include "eval/eval.h"

EvalFn eval_inverse;

#endif
