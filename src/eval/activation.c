// activation.c -- activations as one expression in double, rounded once.
#include "eval/activation.h"
#include "eval/elementwise.h"
#include "eval/scalar.h"

#include <math.h>

// ACTIVATION(op, expression in v (the element) and at (the attributes))
#define ACTIVATION(op, expr)                                                                       \
  static void block_##op(const void *attrs, double *x, int64_t n) {                                \
    const op##_attrs *at = attrs;                                                                  \
    (void)at;                                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                              \
      const double v = x[i];                                                                       \
      x[i] = (expr);                                                                               \
    }                                                                                              \
  }                                                                                                \
  tenon_status eval_##op(Eval *e) { return eval_unary_f64(e, block_##op); }

typedef struct {
  char none;
} hard_swish_attrs, mish_attrs, softplus_attrs, softsign_attrs;

static double unit_of(double v) { return v < 0 ? 0 : v > 1 ? 1 : v; }  // NaN stays
static double softplus_of(double v) { return v > 0 ? v + log1p(exp(-v)) : log1p(exp(v)); }
static double gelu_tanh(double v) {
  return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
}
static double gelu_erf(double v) { return 0.5 * v * (1 + erf(v * 0.70710678118654752440)); }

ACTIVATION(elu, v < 0 ? at->alpha * expm1(v) : v)
ACTIVATION(selu, at->gamma *(v <= 0 ? at->alpha * expm1(v) : v))
ACTIVATION(celu, (v > 0 ? v : 0) + (v < 0 ? at->alpha * expm1(v / at->alpha) : v != v ? v : 0))
ACTIVATION(leaky_relu, v < 0 ? at->alpha * v : v)
ACTIVATION(hard_sigmoid, unit_of(at->alpha *v + at->beta))
ACTIVATION(hard_swish, v *unit_of(v / 6 + 0.5))
ACTIVATION(mish, v *tanh(softplus_of(v)))
ACTIVATION(softplus, softplus_of(v))
ACTIVATION(softsign, v / (1 + fabs(v)))
ACTIVATION(thresholded_relu, v > at->alpha ? v : 0)  // a NaN is above nothing
ACTIVATION(gelu, at->approximate ? gelu_tanh(v) : gelu_erf(v))
ACTIVATION(swish, v / (1 + exp(-at->alpha * v)))

static double shrink_of(const shrink_attrs *at, double v) {
  return v < -at->lambd ? v + at->bias : v > at->lambd ? v - at->bias : 0;
}

// Whether integer x is below a whole number, which a double may have beyond x's type.
static bool is_below(DType t, int64_t x, double whole) {
  if (t == DT_U64) return whole > 0 && (whole >= 0x1p64 || (uint64_t)x < (uint64_t)whole);
  return whole >= 0x1p63 || (whole > -0x1p63 && x < (int64_t)whole);
}

// x - by, truncated toward zero; in 64 bits, which wrap.
static int64_t less_by(DType t, int64_t x, double by) {
  double whole = trunc(by), rest = by - whole;
  int64_t k;
  put_f64(DT_I64, &k, 0, whole);
  k = (int64_t)((uint64_t)x - (uint64_t)k);
  if (rest > 0 && (k > 0 || (k < 0 && t == DT_U64))) return k - 1;
  return k + (rest < 0 && k < 0 && t != DT_U64);
}

static int64_t shrink_int(const shrink_attrs *at, DType t, int64_t x) {
  if (is_below(t, x, ceil(-at->lambd))) return less_by(t, x, -at->bias);
  return is_below(t, x, floor(at->lambd) + 1) ? 0 : less_by(t, x, at->bias);
}

// The one activation that ONNX also defines for integers.
tenon_status eval_shrink(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  if (!dtype_is_float(x->dtype) && !dtype_is_int(x->dtype))
    return eval_fail(e, TENON_EINVAL, "the operand is %s, must be a number", dtype_name(x->dtype));
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->n; i++) {
    if (dtype_is_float(x->dtype))
      val_put_f64(y, i, shrink_of(e->attrs, val_f64(x, i)));
    else
      val_put_i64(y, i, shrink_int(e->attrs, x->dtype, val_i64(x, i)));
  }
  return TENON_OK;
}

static void prelu_block(const Broadcast *b, int64_t begin, int64_t n, Value *y) {
  if (dtype_is_float(y->dtype)) {
    double x[EW_BLOCK], slope[EW_BLOCK];
    broadcast_f64(b, 0, begin, n, x);
    broadcast_f64(b, 1, begin, n, slope);
    for (int64_t i = 0; i < n; i++) val_put_f64(y, begin + i, x[i] < 0 ? slope[i] * x[i] : x[i]);
    return;
  }
  int64_t x[EW_BLOCK], slope[EW_BLOCK];
  broadcast_i64(b, 0, begin, n, x);
  broadcast_i64(b, 1, begin, n, slope);
  bool is_signed = dtype_class(y->dtype) == DC_INT;
  for (int64_t i = 0; i < n; i++)
    val_put_i64(y, begin + i,
                is_signed && x[i] < 0 ? (int64_t)((uint64_t)slope[i] * (uint64_t)x[i]) : x[i]);
}

// The slope broadcasts to x, never the other way: where sizes depend on data, only here is it seen.
tenon_status eval_prelu(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  TRY(eval_need(e, 1, "slope", 0));
  const Value *x = e->in[0];
  Broadcast b;
  Value *y;
  TRY(broadcast_init(e, e->in, 2, &b));
  bool fits = b.rank == x->rank;
  for (int i = 0; fits && i < b.rank; i++) fits = b.dims[i] == x->dims[i];
  if (!fits) return eval_fail(e, TENON_EINVAL, "the slope does not broadcast to x");
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->n; i += EW_BLOCK) prelu_block(&b, i, MIN(EW_BLOCK, x->n - i), y);
  return TENON_OK;
}
