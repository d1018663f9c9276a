// cast.c -- conversions between types, and the element-wise ops that are not one expression: where,
// is_inf, clip.
#include "eval/elementwise.h"
#include "eval/scalar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- cast ----

// A 64-bit integer as a double whose second rounding, to the narrower float, is still correct: when
// bits are lost the last bit kept is set (rounding to odd).
static double odd_from_u64(uint64_t m, bool negative) {
  double d = (double)m;
  if (m >> 53) {
    int shift = 11 - __builtin_clzll(m);
    uint64_t kept = m >> shift << shift;
    if (kept != m) kept |= 1ull << shift;
    d = (double)kept;
  }
  return negative ? -d : d;
}

static void wide_to_f64(DType t, const int64_t *in, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) {
    bool neg = t == DT_I64 && in[i] < 0;
    out[i] = odd_from_u64(neg ? 0 - (uint64_t)in[i] : (uint64_t)in[i], neg);
  }
}

typedef struct CastJob {
  const Value *in;
  Value *out;
  const cast_attrs *at;
} CastJob;

static void store_floats(const CastJob *j, int64_t at, int64_t n, const double *x) {
  DType to = j->out->dtype;
  if (to == DT_F8E8M0) {
    for (int64_t i = 0; i < n; i++)
      ((uint8_t *)j->out->data)[at + i] =
          e8m0_from_f64(x[i], j->at->saturate, (ScaleRound)j->at->round_mode);
  } else if (to == DT_F8E4M3 || to == DT_F8E4M3Z || to == DT_F8E5M2 || to == DT_F8E5M2Z) {
    for (int64_t i = 0; i < n; i++)
      ((uint8_t *)j->out->data)[at + i] = minifloat_from_f64(to, x[i], j->at->saturate);
  } else {
    store_f64(to, j->out->data, at, n, x);
  }
}

// f32 as bf16, which whole models of weights are narrowed by: the upper half, rounded to the
// nearest, ties to even.
static void narrow(const void *in, void *out, int64_t at, int64_t n) {
  const char *from = (const char *)in + at * 4;
  uint16_t *to = (uint16_t *)out + at;
  for (int64_t i = 0; i < n; i++) {
    uint32_t b;
    memcpy(&b, from + 4 * i, sizeof b);
    bool nan = (b & 0x7FFFFFFF) > 0x7F800000;
    to[i] = (uint16_t)(nan ? b >> 16 | 0x40 : (b + 0x7FFF + (b >> 16 & 1)) >> 16);
  }
}

static void cast_blocks(void *ctx, int64_t begin, int64_t end) {
  const CastJob *j = ctx;
  DType from = j->in->dtype, to = j->out->dtype;
  if (from == DT_F32 && to == DT_BF16) {
    int64_t at = begin * EW_BLOCK;
    narrow(j->in->data, j->out->data, at, MIN(end * EW_BLOCK, j->in->n) - at);
    return;
  }
  bool wide = from == DT_I64 || from == DT_U64;
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * EW_BLOCK, n = MIN(EW_BLOCK, j->in->n - at), k[EW_BLOCK];
    double x[EW_BLOCK];
    if (!dtype_is_float(from) && !dtype_is_float(to)) {
      load_i64(from, j->in->data, at, n, k);
      if (to == DT_BOOL)
        for (int64_t i = 0; i < n; i++) k[i] = k[i] != 0;
      store_i64(to, j->out->data, at, n, k);
      continue;
    }
    if (wide && to != DT_F64) {
      load_i64(from, j->in->data, at, n, k);
      wide_to_f64(from, k, n, x);
    } else {
      load_f64(from, j->in->data, at, n, x);
    }
    store_floats(j, at, n, x);
  }
}

// The shortest decimal that reads back as the same value of the type, as numpy prints it.  A power
// of two of E8M0 is written as an f32, and read as one: a decimal that is only near to it would be
// rounded up to the next power.
static DType text_type(DType t) { return t == DT_F8E8M0 ? DT_F32 : t; }

static Str number_text(Run *r, const Value *v, int64_t i) {
  char buf[64];
  DType t = text_type(v->dtype);
  if (v->dtype == DT_BOOL) return val_i64(v, i) ? STR("True") : STR("False");
  if (dtype_class(v->dtype) == DC_UINT) {
    snprintf(buf, sizeof buf, "%llu", (unsigned long long)val_i64(v, i));
  } else if (!dtype_is_float(v->dtype)) {
    snprintf(buf, sizeof buf, "%lld", (long long)val_i64(v, i));
  } else {
    double x = val_f64(v, i);
    if (x != x) return STR("NaN");
    if (isinf(x)) return x > 0 ? STR("INF") : STR("-INF");
    int digits = 1;
    do snprintf(buf, sizeof buf, "%.*g", digits, x);
    while (digits++ < 17 && round_to(t, strtod(buf, NULL)) != x);
    double mag = fabs(x);
    if (strchr(buf, 'e') && mag >= 1e-4 && mag < 1e16)
      for (int p = 0; p < 20; p++) {
        snprintf(buf, sizeof buf, "%.*f", p, x);
        if (round_to(t, strtod(buf, NULL)) == x) break;
      }
    size_t len = strlen(buf);
    if (!strpbrk(buf, ".e") && len + 3 < sizeof buf) memcpy(buf + len, ".0", 3);
  }
  return run_string(r, str_of(buf));
}

static tenon_status parse_number(Eval *e, Str s, int64_t i, double *x) {
  char buf[80], *end;
  if (s.n < 1 || s.n >= (int64_t)sizeof buf)
    return eval_fail(e, TENON_EINVAL, "element %lld, '%.*s', is not a number", (long long)i,
                     STR_ARG(s));
  memcpy(buf, s.p, (size_t)s.n);
  buf[s.n] = 0;
  *x = strtod(buf, &end);
  if (*end)
    return eval_fail(e, TENON_EINVAL, "element %lld, '%s', is not a number", (long long)i, buf);
  return TENON_OK;
}

// A decimal integer of any 64-bit type, as its bits.
static bool whole_number(Str s, DType to, int64_t *k) {
  if (str_to_i64(s, k)) return true;
  uint64_t v = 0;
  int64_t i = s.n > 0 && s.p[0] == '+';
  if (to != DT_U64 || i == s.n) return false;
  for (; i < s.n; i++)
    if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(v, 10u, &v) ||
        __builtin_add_overflow(v, (unsigned)(s.p[i] - '0'), &v))
      return false;
  *k = (int64_t)v;
  return true;
}

static tenon_status cast_strings(Eval *e, const CastJob *j) {
  const Value *v = j->in;
  Value *out = j->out;
  for (int64_t i = 0; i < v->n; i++) {
    if (out->dtype == DT_STRING) {
      ((Str *)out->data)[i] = v->dtype == DT_STRING ? val_str(v, i) : number_text(e->run, v, i);
      continue;
    }
    double x;
    int64_t k;
    TRY(parse_number(e, val_str(v, i), i, &x));
    if (text_type(out->dtype) != out->dtype) x = round_to(text_type(out->dtype), x);
    if (out->dtype == DT_BOOL)
      val_put_i64(out, i, x != 0);
    else if (!dtype_is_float(out->dtype) && whole_number(val_str(v, i), out->dtype, &k))
      val_put_i64(out, i, k);
    else
      store_floats(j, i, 1, &x);
  }
  return TENON_OK;
}

static void cast_complex(const CastJob *j) {
  for (int64_t i = 0; i < j->in->n; i++) {
    double re, im = 0;
    if (dtype_class(j->in->dtype) == DC_COMPLEX) {
      DType half = j->in->dtype == DT_C64 ? DT_F32 : DT_F64;
      re = get_f64(half, j->in->data, 2 * i);
      im = get_f64(half, j->in->data, 2 * i + 1);
    } else {
      re = val_f64(j->in, i);
    }
    if (dtype_class(j->out->dtype) == DC_COMPLEX) {
      DType half = j->out->dtype == DT_C64 ? DT_F32 : DT_F64;
      put_f64(half, j->out->data, 2 * i, re);
      put_f64(half, j->out->data, 2 * i + 1, im);
    } else {
      store_floats(j, i, 1, &re);
    }
  }
}

tenon_status eval_cast(Eval *e) {
  const cast_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  CastJob j = {.in = e->in[0], .at = at};
  if (!dtype_valid(at->to)) return eval_fail(e, TENON_EINVAL, "no result type is given");
  TRY(eval_out(e, 0, at->to, j.in->rank, j.in->dims, &j.out));
  if (j.in->dtype == at->to) {
    copy_elems(at->to, j.out->data, 0, j.in->data, 0, j.in->n);
    return TENON_OK;
  }
  if (j.in->dtype == DT_STRING || at->to == DT_STRING) {
    if (dtype_class(j.in->dtype) == DC_COMPLEX || dtype_class(at->to) == DC_COMPLEX)
      return eval_fail(e, TENON_EUNSUPPORTED,
                       "casts between strings and complex numbers are not defined");
    return cast_strings(e, &j);
  }
  if (dtype_class(j.in->dtype) == DC_COMPLEX || dtype_class(at->to) == DC_COMPLEX) {
    cast_complex(&j);
    return TENON_OK;
  }
  // A block must not share a byte with its neighbour: EW_BLOCK is a multiple of every packing.
  parallel_for(e->run->pool, (j.in->n + EW_BLOCK - 1) / EW_BLOCK, 8, cast_blocks, &j);
  return TENON_OK;
}

tenon_status eval_bit_cast(Eval *e) {
  const bit_cast_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  if (!dtype_valid(at->to) || at->to == DT_STRING || x->dtype == DT_STRING ||
      dtype_bits(at->to) != dtype_bits(x->dtype))
    return eval_fail(e, TENON_EINVAL, "%s cannot be read as %s: the widths differ",
                     dtype_name(x->dtype), dtype_name(at->to));
  Value *y;
  TRY(eval_out(e, 0, at->to, x->rank, x->dims, &y));
  int64_t bytes = 0;
  if (dtype_bytes(x->dtype, x->n, &bytes) && bytes) memcpy(y->data, x->data, (size_t)bytes);
  if (at->to == DT_BOOL)
    for (int64_t i = 0; i < y->n; i++) ((uint8_t *)y->data)[i] = ((uint8_t *)y->data)[i] != 0;
  return TENON_OK;
}

// ---- where ----

typedef struct WhereJob {
  Broadcast b;
  Value *out;
} WhereJob;

static void where_blocks(void *ctx, int64_t begin, int64_t end) {
  const WhereJob *j = ctx;
  const Value *x = j->b.in[1], *y = j->b.in[2];
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * EW_BLOCK, n = MIN(EW_BLOCK, j->b.count - at);
    int64_t c[EW_BLOCK], ix[EW_BLOCK], iy[EW_BLOCK];
    broadcast_i64(&j->b, 0, at, n, c);
    broadcast_index(&j->b, 1, at, n, ix);
    broadcast_index(&j->b, 2, at, n, iy);
    for (int64_t i = 0; i < n; i++)
      copy_elems(j->out->dtype, j->out->data, at + i, c[i] ? x->data : y->data,
                 c[i] ? ix[i] : iy[i], 1);
  }
}

tenon_status eval_where(Eval *e) {
  TRY(eval_need(e, 0, "condition", DT_BOOL));
  TRY(eval_need(e, 1, "x", 0));
  TRY(eval_need(e, 2, "y", e->in[1]->dtype));
  WhereJob j;
  TRY(broadcast_init(e, e->in, 3, &j.b));
  TRY(eval_out(e, 0, e->in[1]->dtype, j.b.rank, j.b.dims, &j.out));
  parallel_for(e->run->pool, (j.b.count + EW_BLOCK - 1) / EW_BLOCK, 8, where_blocks, &j);
  return TENON_OK;
}

tenon_status eval_is_inf(Eval *e) {
  const is_inf_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  if (!dtype_is_float(x->dtype))
    return eval_fail(e, TENON_EINVAL, "the operand is %s, must be a float type",
                     dtype_name(x->dtype));
  Value *y;
  TRY(eval_out(e, 0, DT_BOOL, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->n; i++) {
    double v = val_f64(x, i);
    ((uint8_t *)y->data)[i] = isinf(v) && (v > 0 ? at->detect_positive : at->detect_negative);
  }
  return TENON_OK;
}

// ---- clip: min(max(x, lo), hi), each with NaN where one is NaN ----

static tenon_status clip_bound(Eval *e, int i, const char *name, const Value **out) {
  *out = eval_in(e, i);
  if (!*out) return TENON_OK;
  TRY(eval_need(e, i, name, e->in[0]->dtype));
  if ((*out)->n != 1)
    return eval_fail(e, TENON_EINVAL, "%s has %lld elements, must be a scalar", name,
                     (long long)(*out)->n);
  return TENON_OK;
}

tenon_status eval_clip(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0], *lo, *hi;
  TRY(clip_bound(e, 1, "min", &lo));
  TRY(clip_bound(e, 2, "max", &hi));
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  bool is_float = dtype_is_float(x->dtype), is_unsigned = dtype_class(x->dtype) == DC_UINT;
  if (!is_float && !dtype_is_int(x->dtype))
    return eval_fail(e, TENON_EINVAL, "the operand is %s, must be a number", dtype_name(x->dtype));
  double flo = lo && is_float ? val_f64(lo, 0) : -INFINITY,
         fhi = hi && is_float ? val_f64(hi, 0) : INFINITY;
  // Unsigned order as signed: the top bit flipped.
  uint64_t flip = is_unsigned ? 1ull << 63 : 0;
  int64_t ilo = lo && !is_float ? (int64_t)((uint64_t)val_i64(lo, 0) ^ flip) : INT64_MIN;
  int64_t ihi = hi && !is_float ? (int64_t)((uint64_t)val_i64(hi, 0) ^ flip) : INT64_MAX;
  for (int64_t at = 0; at < x->n; at += EW_BLOCK) {
    int64_t n = MIN(EW_BLOCK, x->n - at), k[EW_BLOCK];
    double f[EW_BLOCK];
    if (is_float) {
      load_f64(x->dtype, x->data, at, n, f);
      for (int64_t i = 0; i < n; i++) {
        f[i] = f[i] < flo || flo != flo ? flo : f[i];
        f[i] = f[i] > fhi || fhi != fhi ? fhi : f[i];
      }
      store_f64(y->dtype, y->data, at, n, f);
    } else {
      load_i64(x->dtype, x->data, at, n, k);
      for (int64_t i = 0; i < n; i++) {
        int64_t v = (int64_t)((uint64_t)k[i] ^ flip);
        v = MIN(MAX(v, ilo), ihi);
        k[i] = (int64_t)((uint64_t)v ^ flip);
      }
      store_i64(y->dtype, y->data, at, n, k);
    }
  }
  return TENON_OK;
}
