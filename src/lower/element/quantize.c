// quantize.c -- elements of quantize_linear, dequantize_linear, is_inf, bit_cast and dropout.
//
// A scale is per tensor, per axis or per block.  Division by a constant scale becomes a
// multiplication by its reciprocal and one FMA correction.  The compiler enumerates all inputs at
// which the rounded integer could differ, and divides if one does.
//
// Needs:      LowerTarget.fma for the reciprocal form; int8 or narrower results with a constant f32
//             scale and zero point.  All else takes the plain division.
// Guarantees: the integers of a division in the op's precision, rounded to nearest even and
//             saturated.  NaN gives the lowest integer.
#include "lower/element/element.h"

#include "eval/generate.h"
#include "eval/quant.h"
#include "eval/scalar.h"
#include "ir/rule.h"

#include <math.h>

// ---- scales ----

// The element of a scale or zero point that belongs to x's element: one for all, one a slice, or
// one a block.
static const LoopExpr *scale_at(ElementBuilder *e, const Node *s, const Type *x, const Dim *index,
                                int64_t axis, int64_t block) {
  const Type *t = type_of(s);
  Dim at[MAX_RANK];
  if (t->rank < 0) return NULL;
  bool one = true;
  for (int i = 0; i < t->rank; i++) one &= ie_is(t->dims[i], 1);
  for (int i = 0; i < t->rank; i++) at[i] = e->pool->zero;
  if (one && t->rank <= 1) return elem_at(e, s, at);
  int a = elem_axis(axis, x->rank);
  if (a < 0 || a >= x->rank) return NULL;
  if (t->rank == 1 && !block) {
    at[0] = index[a];
    return t->dims[0] == x->dims[a] ? elem_at(e, s, at) : NULL;
  }
  if (block < 1 || t->rank != x->rank) return NULL;
  for (int i = 0; i < t->rank; i++) {
    if (i != a && t->dims[i] != x->dims[i]) return NULL;
    at[i] = i == a ? ie_div(e->pool, index[i], ie_const(e->pool, block)) : index[i];
  }
  return elem_at(e, s, at);
}

// ---- bounds ----

// One instruction each; NaN becomes the lower bound.
const LoopExpr *elem_clamped(LoopKernel *k, const LoopExpr *x, double lo, double hi) {
  const LoopExpr *l = loop_float(k, x->dtype, lo), *h = loop_float(k, x->dtype, hi);
  x = loop_op(k, LOOP_select, loop_op(k, LOOP_lt, l, x, NULL), x, l);
  return loop_op(k, LOOP_select, loop_op(k, LOOP_lt, x, h, NULL), x, h);
}

const LoopExpr *elem_rounded(LoopKernel *k, const LoopExpr *x, int64_t zero, DType t) {
  x = loop_cast(k, DT_I32, loop_op(k, LOOP_round, x, NULL, NULL));
  return loop_cast(k, t, loop_op(k, LOOP_add, x, loop_int(k, DT_I32, zero), NULL));
}

// Whether x is what elem_rounded gives; then the integer before the zero point, which it gets.
static const LoopExpr *before_zero(const LoopExpr *x, int64_t *zero) {
  const LoopExpr *sum = x->src[0];
  if (x->kind != LX_OP || x->op != LOOP_cast || sum->kind != LX_OP || sum->dtype != DT_I32)
    return NULL;
  *zero = 0;
  if (sum->op == LOOP_add && sum->src[1]->kind == LX_CONST && sum->src[0]->kind == LX_OP) {
    *zero = sum->src[1]->i;
    sum = sum->src[0];
  }
  const LoopExpr *r = sum->src[0];
  if (sum->op != LOOP_cast || r->kind != LX_OP || r->op != LOOP_round) return NULL;
  const LoopExpr *hi = r->src[0], *lo = hi->src[1];
  if (hi->kind != LX_OP || hi->op != LOOP_select || lo->kind != LX_OP || lo->op != LOOP_select ||
      hi->src[2]->kind != LX_CONST || lo->src[2]->kind != LX_CONST)
    return NULL;
  int64_t least, most;
  bool fits = quant_range(x->dtype, &least, &most) &&
              lo->src[2]->f + (double)*zero >= (double)least &&
              hi->src[2]->f + (double)*zero <= (double)most;
  return fits ? sum : NULL;
}

// ---- division by a constant ----

// x / s for an x between (lo - 1) s and (hi + 1) s that is then rounded to an integer: x times the
// reciprocal, made good by what is left of x.  Its error is less than 2^-40 of it, so the integer
// can differ from the quotient's only where x is one of the numbers nearest to a place where the
// quotient's rounding, or the integer's, changes.  All of these are looked at.
static float by_reciprocal(float x, float s, float r) {
  float q = x * r;
  return fmaf(fmaf(-q, s, x), r, q);
}

static bool same_integers(float s, float r, int64_t lo, int64_t hi) {
  for (int64_t i = lo; i < hi; i++) {
    float half = (float)i + 0.5f;
    for (int side = -1; side <= 1; side++) {
      double edge = ((double)half + (double)nextafterf(half, half + (float)side)) / 2;
      float x = (float)(edge * (double)s), from = nextafterf(x, -INFINITY),
            to = nextafterf(x, INFINITY);
      for (int n = 0; n < 3; n++) {
        float at = n == 0 ? from : n == 1 ? x : to;
        if (rintf(at / s) != rintf(by_reciprocal(at, s, r))) return false;
      }
    }
  }
  return true;
}

// ---- what is made of bytes has bounds of its own ----

static double most_of_int(const LoopExpr *x, int depth);

// What |x| is at most; infinite where that is not known, or where x may be NaN.
static double most_of(const LoopExpr *x, int depth) {
  if (x->kind == LX_CONST) return isnan(x->f) ? (double)INFINITY : fabs(x->f);
  if (x->kind != LX_OP || x->dtype != DT_F32 || depth > 12) return (double)INFINITY;
  const LoopExpr *a = x->src[0], *b = x->src[1];
  switch ((int)x->op) {
  case LOOP_neg:
  case LOOP_relu: return most_of(a, depth + 1);
  case LOOP_round: return most_of(a, depth + 1) + 1;
  case LOOP_add:
  case LOOP_sub: return most_of(a, depth + 1) + most_of(b, depth + 1);
  case LOOP_mul: {
    double p = most_of(a, depth + 1), q = most_of(b, depth + 1);
    return isinf(p) || isinf(q) ? (double)INFINITY : p * q;
  }
  case LOOP_cast: return dtype_is_float(a->dtype) ? (double)INFINITY : most_of_int(a, depth + 1);
  case LOOP_select:  // elem_clamped
    if (b->kind == LX_OP && b->op == LOOP_select && x->src[2]->kind == LX_CONST &&
        b->src[2]->kind == LX_CONST)
      return fmax(fabs(x->src[2]->f), fabs(b->src[2]->f));
  }
  return (double)INFINITY;
}

static double most_of_int(const LoopExpr *x, int depth) {
  if (dtype_bits(x->dtype) == 8) return 255;
  if (x->kind == LX_CONST) return fabs((double)x->i);
  if (x->kind != LX_OP || depth > 12) return (double)INFINITY;
  const LoopExpr *a = x->src[0];
  if (x->op == LOOP_add || x->op == LOOP_sub)
    return most_of_int(a, depth + 1) + most_of_int(x->src[1], depth + 1);
  if (x->op != LOOP_cast) return (double)INFINITY;
  return dtype_is_float(a->dtype) ? most_of(a, depth + 1) : most_of_int(a, depth + 1);
}

// An integer between the least and the most of a dtype, in integers.
static const LoopExpr *saturated_int(LoopKernel *k, const LoopExpr *x, DType t) {
  int64_t lo, hi;
  if (!quant_range(t, &lo, &hi)) return NULL;
  x = loop_op(k, LOOP_max, x, loop_int(k, DT_I32, lo), NULL);
  return loop_cast(k, t, loop_op(k, LOOP_min, x, loop_int(k, DT_I32, hi), NULL));
}

// x / s where only the integer that is nearest to it matters, and of that only those between lo and
// hi.
static const LoopExpr *divided(ElementBuilder *e, const LoopExpr *x, float s, int64_t lo,
                               int64_t hi) {
  LoopKernel *k = e->k;
  float r = 1 / s;
  const LoopExpr *by = loop_float(k, DT_F32, (double)s), *back = loop_float(k, DT_F32, (double)r);
  if (!e->lo->target.fma || !same_integers(s, r, lo, hi)) return loop_op(k, LOOP_div, x, by, NULL);
  const LoopExpr *q = loop_op(k, LOOP_mul, x, back, NULL);
  const LoopExpr *left = loop_op(k, LOOP_fma, loop_op(k, LOOP_neg, q, NULL, NULL), by, x);
  return loop_op(k, LOOP_fma, left, back, q);
}

// x / s to the nearest integer, plus zero, as t holds it.  The bounds are applied to x: division
// and rounding keep order, and the quotients of the bounds are the least and the most; where x is
// known to be small, to the integer.  NULL: neither goes.
static const LoopExpr *quantised(ElementBuilder *e, const LoopExpr *x, float s, int64_t zero,
                                 DType t) {
  LoopKernel *k = e->k;
  int64_t lo, hi;
  if (!quant_range(t, &lo, &hi) || !(s > 0x1p-60f && s < 0x1p60f)) return NULL;
  lo -= zero, hi -= zero;
  if (most_of(x, 0) < 0x1p20 * (double)s) {
    x = loop_op(k, LOOP_round, divided(e, x, s, lo, hi), NULL, NULL);
    x = loop_op(k, LOOP_add, loop_cast(k, DT_I32, x), loop_int(k, DT_I32, zero), NULL);
    return saturated_int(k, x, t);
  }
  float from = (float)lo * s, to = (float)hi * s;
  if (rintf(from / s) != (float)lo || rintf(to / s) != (float)hi) return NULL;
  x = elem_clamped(k, x, (double)from, (double)to);
  return elem_rounded(k, divided(e, x, s, lo, hi), zero, t);
}

// ---- quantize ----

// Saturated before it is made an integer, so that the cast has nothing left to decide; NaN becomes
// the least.
static const LoopExpr *saturated(ElementBuilder *e, const LoopExpr *x, DType to) {
  LoopKernel *k = e->k;
  int64_t lo, hi;
  if (!quant_range(to, &lo, &hi)) return NULL;
  x = elem_clamped(k, x, (double)lo, (double)hi);
  if (dtype_bits(to) < 32) x = loop_cast(k, DT_I32, x);  // one step to the width of the lanes
  return loop_cast(k, to, x);
}

const LoopExpr *elem_quantize(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const quantize_linear_attrs *at = n->attrs;
  LoopKernel *k = e->k;
  const Type *x = type_of(n->src[0]);
  DType to = type_of(n)->dtype;
  const Node *zero = src_or_null(e->lo->g, n, 2);
  bool float8 = elem_fp8(to) && at->saturate;
  (void)result;
  if (float8) zero = NULL;  // it has none but 0
  if ((!dtype_is_int(to) && !float8) || x->rank < 0) return NULL;
  const LoopExpr *v = elem_at(e, n->src[0], index);
  const LoopExpr *s = scale_at(e, n->src[1], x, index, at->axis, at->block_size), *z = NULL;
  if (zero && !(z = scale_at(e, zero, x, index, at->axis, at->block_size))) return NULL;
  if (!v || !s) return NULL;
  DType by = at->precision ? at->precision : type_of(n->src[1])->dtype;
  if (!dtype_is_float(by) || dtype_bits(by) < 16) by = DT_F32;
  // Narrow floats are divided in f32 and rounded once; what follows is exact in f32.
  DType in = by == DT_F64 ? DT_F64 : DT_F32;
  bool wide = dtype_bits(x->dtype) == 64 || type_of(n->src[1])->dtype == DT_F64;
  if (wide && in != DT_F64) return NULL;
  int64_t zi = z && z->kind == LX_CONST ? z->i : 0;
  if (s->kind == LX_CONST && (!z || z->kind == LX_CONST) && by == DT_F32 && s->dtype == DT_F32 &&
      dtype_bits(to) <= 8) {
    const LoopExpr *q = quantised(e, loop_cast(k, DT_F32, v), (float)s->f, zi, to);
    if (q) return q;
  }
  v = loop_op(k, LOOP_div, loop_cast(k, in, v), loop_cast(k, in, s), NULL);
  if (by != in) v = loop_cast(k, in, loop_cast(k, by, v));
  if (float8) return in == DT_F32 ? loop_cast(k, to, v) : NULL;
  v = loop_op(k, LOOP_round, v, NULL, NULL);
  if (z) v = loop_op(k, LOOP_add, v, loop_cast(k, in, z), NULL);
  return saturated(e, v, to);
}

// ---- dequantize ----

// Of fp8, whose zero point is 0: one product, rounded once.
static const LoopExpr *from_float8(ElementBuilder *e, const Node *n, const Dim *index) {
  const dequantize_linear_attrs *at = n->attrs;
  const Node *zero = src_or_null(e->lo->g, n, 2);
  if ((zero && !node_is_zero(e->lo->g, zero)) || type_of(n)->dtype == DT_F64) return NULL;
  const LoopExpr *v = elem_at(e, n->src[0], index);
  const LoopExpr *s = scale_at(e, n->src[1], type_of(n->src[0]), index, at->axis, at->block_size);
  if (!v || !s || s->dtype == DT_F64) return NULL;
  v = loop_op(e->k, LOOP_mul, loop_cast(e->k, DT_F32, v), loop_cast(e->k, DT_F32, s), NULL);
  return loop_cast(e->k, type_of(n)->dtype, v);
}

const LoopExpr *elem_dequantize(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const dequantize_linear_attrs *at = n->attrs;
  LoopKernel *k = e->k;
  const Type *x = type_of(n->src[0]);
  DType to = type_of(n)->dtype;
  const Node *zero = src_or_null(e->lo->g, n, 2);
  (void)result;
  if (x->rank >= 0 && elem_fp8(x->dtype)) return from_float8(e, n, index);
  if (x->rank < 0 || !dtype_is_int(x->dtype) || dtype_bits(x->dtype) > 32 || to == DT_F64)
    return NULL;
  const LoopExpr *v = elem_at(e, n->src[0], index);
  const LoopExpr *s = scale_at(e, n->src[1], x, index, at->axis, at->block_size), *z = NULL;
  if (zero && !(z = scale_at(e, zero, x, index, at->axis, at->block_size))) return NULL;
  if (!v || !s) return NULL;
  DType d = dtype_bits(x->dtype) > 16 ? DT_I64 : DT_I32;  // the difference is exact
  int64_t taken;
  const LoopExpr *known = before_zero(v, &taken);
  if (known && (z ? z->kind == LX_CONST && z->i == taken : taken == 0)) {
    v = known;  // a byte that was just made
  } else {
    v = loop_cast(k, d, v);
    if (z) v = loop_op(k, LOOP_sub, v, loop_cast(k, d, z), NULL);
  }
  v = loop_op(k, LOOP_mul, loop_cast(k, DT_F32, v), loop_cast(k, DT_F32, s), NULL);
  return loop_cast(k, to, v);
}

// ---- others ----

const LoopExpr *elem_is_inf(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const is_inf_attrs *at = n->attrs;
  LoopKernel *k = e->k;
  const LoopExpr *x = elem_operand(e, n->src[0], type_of(n), index);
  const LoopExpr *is = loop_int(k, DT_BOOL, 0);
  (void)result;
  if (!x) return NULL;
  if (at->detect_positive)
    is = loop_op(k, LOOP_eq, x, loop_float(k, x->dtype, (double)INFINITY), NULL);
  if (at->detect_negative)
    is = loop_op(k, LOOP_or, is,
                 loop_op(k, LOOP_eq, x, loop_float(k, x->dtype, -(double)INFINITY), NULL), NULL);
  return is;
}

const LoopExpr *elem_bit_cast(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const LoopExpr *x = elem_operand(e, n->src[0], type_of(n), index);
  (void)result;
  if (!x || dtype_bits(x->dtype) != dtype_bits(type_of(n)->dtype)) return NULL;
  return loop_bit_cast(e->k, type_of(n)->dtype, x);
}

// Without training nothing is dropped.
const LoopExpr *elem_dropout(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  Graph *g = e->lo->g;
  const Node *ratio = src_or_null(g, n, 1), *training = src_or_null(g, n, 2);
  const Value *r = ratio ? node_known(g, ratio) : NULL,
              *t = training ? node_known(g, training) : NULL;
  bool off = !training || (t && t->n == 1 && !val_f64(t, 0)) || (r && r->n == 1 && !val_f64(r, 0));
  if (!off) return NULL;
  return result ? loop_int(e->k, DT_BOOL, 1) : elem_at(e, n->src[0], index);
}
