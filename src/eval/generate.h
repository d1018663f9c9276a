// generate.h -- attributes and reference evaluation of ops that make elements: ranges, constants,
// random draws.
//
// A random op draws by counting: element i is a function of a key and i alone, the key one of the
// run's seed (or the op's own) and of the node's instance number.  So a draw depends neither on
// threads nor on the order of nodes, and two nodes never share one.
#ifndef TENON_EVAL_GENERATE_H
#define TENON_EVAL_GENERATE_H

#include "eval/eval.h"

#define RANGE_ATTRS(A, C, T)                                                                       \
  A(T, i64, stash_type, 1, "type to compute narrow floats in (here always double)")
ATTR_STRUCT(range, RANGE_ATTRS);
EvalFn eval_range, eval_constant_of_shape;

#define EYE_LIKE_ATTRS(A, C, T)                                                                    \
  A(T, dtype, dtype, TENON_DTYPE_NONE, "result type; absent: the input's")                         \
  A(T, i64, k, 0, "which diagonal: above the main one, or below where negative")
ATTR_STRUCT(eye_like, EYE_LIKE_ATTRS);
EvalFn eval_eye_like;

#define SEED_ATTRS(A, T)                                                                           \
  A(T, f64, seed, 0, "seed of this node")                                                          \
  A(T, bool, seeded, false, "seed was given; else the run's seed is taken")                        \
  A(T, i64, instance, 0, "number of the node, so that equal nodes draw differently")

#define RANDOM_UNIFORM_ATTRS(A, C, T)                                                              \
  A(T, i64s, shape, , "result shape")                                                              \
  A(T, dtype, dtype, TENON_DTYPE_F32, "result type")                                               \
  A(T, f64, low, 0, "least value")                                                                 \
  A(T, f64, high, 1, "bound that is not reached")                                                  \
  SEED_ATTRS(A, T)
ATTR_STRUCT(random_uniform, RANDOM_UNIFORM_ATTRS);
#define RANDOM_NORMAL_ATTRS(A, C, T)                                                               \
  A(T, i64s, shape, , "result shape")                                                              \
  A(T, dtype, dtype, TENON_DTYPE_F32, "result type")                                               \
  A(T, f64, mean, 0, "mean")                                                                       \
  A(T, f64, scale, 1, "standard deviation")                                                        \
  SEED_ATTRS(A, T)
ATTR_STRUCT(random_normal, RANDOM_NORMAL_ATTRS);
#define RANDOM_UNIFORM_LIKE_ATTRS(A, C, T)                                                         \
  A(T, dtype, dtype, TENON_DTYPE_NONE, "result type; absent: the input's")                         \
  A(T, f64, low, 0, "least value")                                                                 \
  A(T, f64, high, 1, "bound that is not reached")                                                  \
  SEED_ATTRS(A, T)
ATTR_STRUCT(random_uniform_like, RANDOM_UNIFORM_LIKE_ATTRS);
#define RANDOM_NORMAL_LIKE_ATTRS(A, C, T)                                                          \
  A(T, dtype, dtype, TENON_DTYPE_NONE, "result type; absent: the input's")                         \
  A(T, f64, mean, 0, "mean")                                                                       \
  A(T, f64, scale, 1, "standard deviation")                                                        \
  SEED_ATTRS(A, T)
ATTR_STRUCT(random_normal_like, RANDOM_NORMAL_LIKE_ATTRS);
EvalFn eval_random_uniform, eval_random_normal, eval_random_uniform_like, eval_random_normal_like;

#define MULTINOMIAL_ATTRS(A, C, T)                                                                 \
  A(T, i64, sample_size, 1, "draws for each row")                                                  \
  A(T, dtype, dtype, TENON_DTYPE_I32, "result type: i32 or i64")                                   \
  SEED_ATTRS(A, T)
ATTR_STRUCT(multinomial, MULTINOMIAL_ATTRS);
#define BERNOULLI_ATTRS(A, C, T)                                                                   \
  A(T, dtype, dtype, TENON_DTYPE_NONE, "result type; absent: the input's")                         \
  SEED_ATTRS(A, T)
ATTR_STRUCT(bernoulli, BERNOULLI_ATTRS);
#define DROPOUT_ATTRS(A, C, T) SEED_ATTRS(A, T)
ATTR_STRUCT(dropout, DROPOUT_ATTRS);
EvalFn eval_multinomial, eval_bernoulli, eval_dropout;

// How many elements start, start + delta, ... has before limit; -1 when that is not a number of
// elements.
int64_t range_count_f64(double start, double limit, double delta);
int64_t range_count_i64(int64_t start, int64_t limit, int64_t delta);

#endif
