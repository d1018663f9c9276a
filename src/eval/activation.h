// activation.h -- attributes and evaluation of the activations.
#ifndef TENON_EVAL_ACTIVATION_H
#define TENON_EVAL_ACTIVATION_H

#include "eval/eval.h"

#define ELU_ATTRS(A, C, T) A(T, f64, alpha, 1.0, "limit below zero, negated")
ATTR_STRUCT(elu, ELU_ATTRS);
// The defaults are the f32 values that ONNX writes down.
#define SELU_ATTRS(A, C, T)                                                                        \
  A(T, f64, alpha, (double)1.67326319217681884765625f, "limit below zero, negated")                \
  A(T, f64, gamma, (double)1.05070102214813232421875f, "scale")
ATTR_STRUCT(selu, SELU_ATTRS);
#define CELU_ATTRS(A, C, T) A(T, f64, alpha, 1.0, "limit below zero, negated")
ATTR_STRUCT(celu, CELU_ATTRS);
#define LEAKY_RELU_ATTRS(A, C, T) A(T, f64, alpha, (double)0.01f, "slope below zero")
ATTR_STRUCT(leaky_relu, LEAKY_RELU_ATTRS);
#define HARD_SIGMOID_ATTRS(A, C, T)                                                                \
  A(T, f64, alpha, (double)0.2f, "slope") A(T, f64, beta, 0.5, "value at zero")
ATTR_STRUCT(hard_sigmoid, HARD_SIGMOID_ATTRS);
#define THRESHOLDED_RELU_ATTRS(A, C, T) A(T, f64, alpha, 1.0, "values up to this become zero")
ATTR_STRUCT(thresholded_relu, THRESHOLDED_RELU_ATTRS);
#define SHRINK_ATTRS(A, C, T)                                                                      \
  A(T, f64, lambd, 0.5, "values within this of zero become zero")                                  \
  A(T, f64, bias, 0.0, "what the others move toward zero by")
ATTR_STRUCT(shrink, SHRINK_ATTRS);
#define GELU_ATTRS(A, C, T) C(T, approximate, "none|tanh", 0, "exact by erf, or its tanh form")
ATTR_STRUCT(gelu, GELU_ATTRS);
#define SWISH_ATTRS(A, C, T) A(T, f64, alpha, 1.0, "factor inside the sigmoid")
ATTR_STRUCT(swish, SWISH_ATTRS);

EvalFn eval_elu, eval_selu, eval_celu, eval_leaky_relu, eval_hard_sigmoid, eval_hard_swish,
    eval_mish, eval_softplus, eval_softsign, eval_thresholded_relu, eval_shrink, eval_gelu,
    eval_swish, eval_prelu;

#endif
