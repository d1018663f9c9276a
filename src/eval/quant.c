// quant.c -- linear quantization: one scale, one a slice along an axis, or one a block.
//
// Division rounds once to the type that ONNX names, so that ties fall as they do elsewhere; then
// rounding to even, the zero point, and saturation, all exact.
#include "eval/quant.h"
#include "eval/elementwise.h"

#include <math.h>

bool quant_range(DType t, int64_t *lo, int64_t *hi) {
  int bits = dtype_bits(t);
  if (!dtype_is_int(t) || bits > 32) return false;
  bool is_signed = dtype_class(t) == DC_INT;
  *lo = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
  *hi = ((int64_t)1 << (is_signed ? bits - 1 : bits)) - 1;
  return true;
}

double quant_result(DType t, double sum, bool whole, double scale, double zero) {
  double lo = t == DT_I8 ? -128 : 0, hi = t == DT_I8 ? 127 : 255;
  float x = whole ? (float)(int32_t)(uint32_t)(uint64_t)(int64_t)sum : (float)sum;
  float v = x * (float)scale;
  double r = nearbyint((double)v) + zero;
  return r >= hi ? hi : r > lo ? r : lo;
}

// Scales and zero points laid against x.
typedef struct Quant {
  const Value *x;
  Value *y;
  const double *scale, *zero;  // zero NULL: none
  bool one;
  int64_t inner, dim, block,
      nblocks;   // elements after the axis, along it, in a block; blocks along it
  bool blocked;  // scales differ along the other axes too
  DType divide;  // quantization: type of the quotient
  int64_t lo, hi;
  bool saturate;
} Quant;

static int64_t scale_index(const Quant *q, int64_t i) {
  if (q->one) return 0;
  int64_t in = i % q->inner, along = i / q->inner % q->dim, outer = i / q->inner / q->dim;
  int64_t b = along / q->block;
  return q->blocked ? (outer * q->nblocks + b) * q->inner + in : b;
}

// The scale of each of n elements from `at`, as indices.
static void scale_indices(const Quant *q, int64_t at, int64_t n, int64_t *out) {
  if (q->one) {
    memset(out, 0, (size_t)n * sizeof(*out));
    return;
  }
  for (int64_t i = 0; i < n; i++) out[i] = scale_index(q, at + i);
}

static tenon_status scale_layout(Eval *e, Quant *q, int64_t axis, int64_t block_size) {
  const Value *x = q->x, *s = e->in[1];
  q->one = s->n == 1;
  if (q->one && s->rank <= 1) return TENON_OK;
  int a;
  TRY(eval_axis(e, axis, x->rank, &a));
  q->dim = x->dims[a];
  q->inner = 1;
  for (int i = a + 1; x->n && i < x->rank; i++) q->inner *= x->dims[i];  // at most x's elements
  q->block = 1;
  if (s->rank == 1 && block_size == 0) {
    if (s->n != q->dim)
      return eval_fail(e, TENON_EINVAL, "%lld scales for %lld slices along axis %d",
                       (long long)s->n, (long long)q->dim, a);
    return TENON_OK;
  }
  if (block_size < 1)
    return eval_fail(e, TENON_EINVAL, "a scale of shape %s needs a block_size, not %lld",
                     shape_text(s->rank, s->dims).s, (long long)block_size);
  q->blocked = true;
  q->block = block_size;
  q->nblocks = s->rank == x->rank ? s->dims[a] : 0;
  int64_t need = q->dim / block_size + (q->dim % block_size != 0);
  bool ok = s->rank == x->rank && q->nblocks == need;
  for (int i = 0; ok && i < x->rank; i++) ok = i == a || s->dims[i] == x->dims[i];
  if (!ok)
    return eval_fail(
        e, TENON_EINVAL, "scales of shape %s do not fit blocks of %lld along axis %d of %s",
        shape_text(s->rank, s->dims).s, (long long)block_size, a, shape_text(x->rank, x->dims).s);
  return TENON_OK;
}

static tenon_status load_scales(Eval *e, Quant *q, int64_t axis, int64_t block_size) {
  TRY(eval_need(e, 0, "x", 0));
  TRY(eval_need(e, 1, "scale", 0));
  q->x = e->in[0];
  TRY(scale_layout(e, q, axis, block_size));
  Floats f;
  TRY(eval_doubles(e, 1, &f));
  q->scale = f.v;
  const Value *z = eval_in(e, 2);
  if (!z) return TENON_OK;
  TRY(eval_doubles(e, 2, &f));
  if (f.n != e->in[1]->n)
    return eval_fail(e, TENON_EINVAL, "%lld zero points for %lld scales", (long long)f.n,
                     (long long)e->in[1]->n);
  q->zero = f.v;
  return TENON_OK;
}

// ---- quantize ----

// x in the type of the division; integers come in exact.
static double in_type(DType t, double x) { return t == DT_F64 ? x : round_to(t, x); }

static void quantize_ints(const Quant *q, int64_t n, const int64_t *at, const double *x,
                          int64_t *out) {
  for (int64_t i = 0; i < n; i++) {
    double v = nearbyint(in_type(q->divide, x[i] / q->scale[at[i]]));
    v += q->zero ? q->zero[at[i]] : 0;
    out[i] = v >= (double)q->hi ? q->hi : v > (double)q->lo ? (int64_t)v : q->lo;
  }
}

static void quantize_blocks(void *ctx, int64_t begin, int64_t end) {
  const Quant *q = ctx;
  double x[EW_BLOCK];
  int64_t at[EW_BLOCK], y[EW_BLOCK];
  DType t = q->y->dtype;
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b * EW_BLOCK, n = MIN(EW_BLOCK, q->x->n - first);
    load_f64(q->x->dtype, q->x->data, first, n, x);
    scale_indices(q, first, n, at);
    for (int64_t i = 0; dtype_is_int(q->x->dtype) && i < n; i++) x[i] = in_type(q->divide, x[i]);
    if (dtype_is_int(t)) {
      quantize_ints(q, n, at, x, y);
      store_i64(t, q->y->data, first, n, y);
      continue;
    }
    for (int64_t i = 0; i < n; i++) {
      x[i] = in_type(q->divide, x[i] / q->scale[at[i]]);
      if (q->zero && t == DT_F4E2M1) x[i] += q->zero[at[i]];
      if (t == DT_F4E2M1)
        put_f64(t, q->y->data, first + i, x[i]);
      else
        ((uint8_t *)q->y->data)[first + i] = minifloat_from_f64(t, x[i], q->saturate);
    }
  }
}

static bool quantized_type(DType t) {
  int64_t lo, hi;
  return (quant_range(t, &lo, &hi) && dtype_bits(t) <= 16) ||
         (dtype_is_float(t) && dtype_bits(t) <= 8 && t != DT_F8E8M0);
}

tenon_status eval_quantize_linear(Eval *e) {
  const quantize_linear_attrs *at = e->attrs;
  Quant q = {.saturate = at->saturate};
  TRY(load_scales(e, &q, at->axis, at->block_size));
  const Value *x = q.x, *z = eval_in(e, 2);
  DType t = z ? z->dtype : at->output_dtype ? at->output_dtype : DT_U8;
  if (at->output_dtype && at->output_dtype != t)
    return eval_fail(e, TENON_EINVAL, "output_dtype is %s, the zero point %s",
                     dtype_name(at->output_dtype), dtype_name(t));
  if (!quantized_type(t) || (!dtype_is_float(x->dtype) && !dtype_is_int(x->dtype)))
    return eval_fail(e, TENON_EINVAL, "%s cannot be quantized to %s", dtype_name(x->dtype),
                     dtype_name(t));
  q.divide = at->precision ? at->precision : e->in[1]->dtype;
  if (!dtype_is_float(q.divide) || dtype_bits(q.divide) < 16) q.divide = DT_F32;
  quant_range(t, &q.lo, &q.hi);
  TRY(eval_out(e, 0, t, x->rank, x->dims, &q.y));
  // Sub-byte elements share bytes: blocks are multiples of a byte, so no two threads write the same
  // one.
  parallel_for(e->run->pool, (x->n + EW_BLOCK - 1) / EW_BLOCK, 8, quantize_blocks, &q);
  return TENON_OK;
}

// ---- dequantize ----

static void dequantize_blocks(void *ctx, int64_t begin, int64_t end) {
  const Quant *q = ctx;
  double x[EW_BLOCK];
  int64_t at[EW_BLOCK];
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b * EW_BLOCK, n = MIN(EW_BLOCK, q->x->n - first);
    load_f64(q->x->dtype, q->x->data, first, n, x);
    scale_indices(q, first, n, at);
    for (int64_t i = 0; i < n; i++)
      x[i] = (x[i] - (q->zero ? q->zero[at[i]] : 0)) * q->scale[at[i]];
    store_f64(q->y->dtype, q->y->data, first, n, x);
  }
}

tenon_status eval_dequantize_linear(Eval *e) {
  const dequantize_linear_attrs *at = e->attrs;
  Quant q = {0};
  TRY(load_scales(e, &q, at->axis, at->block_size));
  const Value *x = q.x, *z = eval_in(e, 2);
  DType t = at->output_dtype ? at->output_dtype : e->in[1]->dtype;
  if ((!dtype_is_float(x->dtype) && !dtype_is_int(x->dtype)) || !dtype_is_float(t))
    return eval_fail(e, TENON_EINVAL, "%s cannot be dequantized to %s", dtype_name(x->dtype),
                     dtype_name(t));
  if (z && z->dtype != x->dtype)
    return eval_fail(e, TENON_EINVAL, "x is %s, the zero point %s", dtype_name(x->dtype),
                     dtype_name(z->dtype));
  TRY(eval_out(e, 0, t, x->rank, x->dims, &q.y));
  parallel_for(e->run->pool, (x->n + EW_BLOCK - 1) / EW_BLOCK, 8, dequantize_blocks, &q);
  return TENON_OK;
}

// ---- dynamic ----

static double f32(double x) { return (double)(float)x; }

tenon_status eval_dynamic_quantize_linear(Eval *e) {
  TRY(eval_need(e, 0, "x", DT_F32));
  const Value *x = e->in[0];
  double buf[EW_BLOCK], lo = 0, hi = 0;
  for (int64_t i = 0; i < x->n; i += EW_BLOCK) {
    int64_t n = MIN(EW_BLOCK, x->n - i);
    load_f64(x->dtype, x->data, i, n, buf);
    for (int64_t k = 0; k < n; k++) {
      bool nan = buf[k] != buf[k];  // has no range, as in ReduceMin and ReduceMax
      lo = buf[k] < lo || nan ? buf[k] : lo;
      hi = buf[k] > hi || nan ? buf[k] : hi;
    }
  }
  double scale = lo == hi ? 1 : f32(f32(hi - lo) / 255);
  double zero = nearbyint(fmin(255, fmax(0, f32(0 - f32(lo / scale)))));
  Quant q = {.x = x, .scale = &scale, .zero = &zero, .one = true, .divide = DT_F32, .hi = 255};
  TRY(eval_out(e, 0, DT_U8, x->rank, x->dims, &q.y));
  parallel_for(e->run->pool, (x->n + EW_BLOCK - 1) / EW_BLOCK, 8, quantize_blocks, &q);
  Value *v;
  if (eval_wants(e, 1)) {
    TRY(eval_out(e, 1, DT_F32, 0, NULL, &v));
    val_put_f64(v, 0, scale);
  }
  if (eval_wants(e, 2)) {
    TRY(eval_out(e, 2, DT_U8, 0, NULL, &v));
    val_put_f64(v, 0, zero);
  }
  return TENON_OK;
}
