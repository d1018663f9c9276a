// ops.c -- the operations of kernels: names, what they take, and what they mean.
//
// The meanings are those of eval/scalar.def: floats are computed in double and rounded once to the
// dtype, integers in 64 bits and wrapped to it.  fma is rounded once as well, which double alone
// does not give.
#include "eval/meaning.h"
#include "loop/impl.h"

#include <math.h>

const char *const loop_op_name[LOOP_OP_COUNT] = {
#define SCALAR(name, ...) #name,
#include "eval/scalar.def"
#undef SCALAR
    "fma", "select", "cast", "bit_cast", "trunc_div", "dot", "lookup", "tf32"};

const uint8_t loop_op_arity[LOOP_OP_COUNT] = {
#define SCALAR(name, arity, ...) arity,
#include "eval/scalar.def"
#undef SCALAR
    3, 3, 1, 1, 2, 3, 3, 1};

enum { F = LC_F, I = LC_I, S = LC_S, B = LC_B, X = LC_X, T = LC_T, MIXED = LC_MIXED };
#define SAME false
#define BOOL true

bool loop_op_is_compare(LoopOp op) {
  static const bool to_bool[LOOP_OP_COUNT] = {
#define SCALAR(name, arity, classes, result, ...) result,
#include "eval/scalar.def"
#undef SCALAR
  };
  return to_bool[op];
}

int loop_op_classes(LoopOp op) {
  static const int classes[LOOP_OP_COUNT] = {
#define SCALAR(name, arity, cls, ...) cls,
#include "eval/scalar.def"
#undef SCALAR
      F, F | I | B, F | I | B, F | I | B, I, F | I, I, F};
  return classes[op];
}

int loop_class_of(DType t) {
  switch (dtype_class(t)) {
  case DC_FLOAT: return LC_F;
  case DC_INT:
  case DC_UINT: return LC_I;
  case DC_BOOL: return LC_B;
  case DC_NONE:
  case DC_COMPLEX:
  case DC_STRING: break;
  }
  return 0;
}

bool loop_dtype_ok(DType t) { return loop_class_of(t) && dtype_bits(t) >= 8; }

// ---- values ----
LoopCell loop_get(DType t, const void *base, int64_t i) {
  if (dtype_is_float(t)) return (LoopCell){.f = get_f64(t, base, i)};
  return (LoopCell){.i = get_i64(t, base, i)};
}

void loop_put(DType t, void *base, int64_t i, LoopCell v) {
  if (dtype_is_float(t))
    put_f64(t, base, i, v.f);
  else
    put_i64(t, base, i, v.i);
}

LoopCell loop_round(DType t, LoopCell v) {
  if (t == DT_F32) return (LoopCell){.f = (double)(float)v.f};
  if (t == DT_F64 || t == DT_I64 || t == DT_U64) return v;
  uint64_t cell = 0;
  loop_put(t, &cell, 0, v);
  return loop_get(t, &cell, 0);
}

// A 64-bit integer as a double whose second rounding, to a narrower float, is still right: where
// bits are lost the last one kept is set (rounding to odd).
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

LoopCell loop_convert(DType to, DType from, LoopCell v) {
  uint64_t cell = 0;
  bool to_float = dtype_is_float(to), from_float = dtype_is_float(from);
  if (from_float) {
    put_f64(to, &cell, 0, v.f);
  } else if (!to_float) {
    put_i64(to, &cell, 0, to == DT_BOOL ? v.i != 0 : v.i);
  } else if (to == DT_F64) {
    return (LoopCell){.f = from == DT_U64 ? (double)(uint64_t)v.i : (double)v.i};
  } else {
    bool negative = from != DT_U64 && v.i < 0;
    put_f64(to, &cell, 0, odd_from_u64(negative ? 0 - (uint64_t)v.i : (uint64_t)v.i, negative));
  }
  return loop_get(to, &cell, 0);
}

LoopCell loop_reinterpret(DType to, DType from, LoopCell v) {
  uint64_t cell = 0;
  loop_put(from, &cell, 0, v);
  return loop_get(to, &cell, 0);
}

// ---- meanings, one function a row and kind ----
#define NA    0
#define FAULT (*fault = true, (Int)0)
#define SCALAR(name, ar, cls, res, onnx, since, fl, fexpr, iexpr, doc, ...)                        \
  static double f64_##name(double x, double y) {                                                   \
    (void)x, (void)y;                                                                              \
    return (double)(fexpr);                                                                        \
  }
#include "eval/scalar.def"
#undef SCALAR
#include "eval/meaning_signed.h"
#define SCALAR(name, ar, cls, res, onnx, since, fl, fexpr, iexpr, doc, ...)                        \
  __attribute__((no_sanitize("signed-integer-overflow"))) static int64_t i64_##name(               \
      int64_t x, int64_t y, bool *fault) {                                                         \
    typedef int64_t Int;                                                                           \
    (void)x, (void)y, (void)fault, (void)sizeof(Int);                                              \
    return (int64_t)(iexpr);                                                                       \
  }
#include "eval/scalar.def"
#undef SCALAR
#include "eval/meaning_unsigned.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
#define SCALAR(name, ar, cls, res, onnx, since, fl, fexpr, iexpr, doc, ...)                        \
  static uint64_t u64_##name(uint64_t x, uint64_t y, bool *fault) {                                \
    typedef uint64_t Int;                                                                          \
    (void)x, (void)y, (void)fault, (void)sizeof(Int);                                              \
    return (uint64_t)(iexpr);                                                                      \
  }
#include "eval/scalar.def"
#undef SCALAR
#pragma GCC diagnostic pop

typedef struct Meaning {
  double (*f64)(double, double);
  int64_t (*i64)(int64_t, int64_t, bool *);
  uint64_t (*u64)(uint64_t, uint64_t, bool *);
} Meaning;
static const Meaning meaning[] = {
#define SCALAR(name, ...) {f64_##name, i64_##name, u64_##name},
#include "eval/scalar.def"
#undef SCALAR
};

// x*y + z for a dtype of at most 24 bits of mantissa: the product is exact, and the sum is rounded
// to odd, so that rounding it again is right.
static double odd_fma(double x, double y, double z) {
  double p = x * y, s = p + z;
  if (!isfinite(s)) return s;
  double part = s - p, rest = (p - (s - part)) + (z - part);
  uint64_t bits;
  memcpy(&bits, &s, sizeof bits);
  if (rest == 0 || (bits & 1)) return s;
  bool away = (rest > 0) == (s > 0);
  bits = away ? bits + 1 : bits - 1;
  memcpy(&s, &bits, sizeof s);
  return s;
}

static LoopCell apply_fma(DType t, const LoopCell *v) {
  double x = v[0].f, y = v[1].f, z = v[2].f;
  if (t == DT_F64) return (LoopCell){.f = fma(x, y, z)};
  if (t == DT_F32) return (LoopCell){.f = (double)fmaf((float)x, (float)y, (float)z)};
  return loop_round(t, (LoopCell){.f = odd_fma(x, y, z)});
}

static LoopCell apply_dot(DType t, const LoopCell *v) {
  uint64_t a = (uint64_t)v[0].i, b = (uint64_t)v[1].i;
  LoopCell r = v[2];
  if (t == DT_F32) {
    for (int i = 1; i >= 0; i--) {
      double x = bf16_to_f64((uint16_t)(a >> 16 * i)), y = bf16_to_f64((uint16_t)(b >> 16 * i));
      r.f = (double)fmaf((float)x, (float)y, (float)r.f);
    }
    return r;
  }
  for (int i = 0; i < 4; i++) r.i += (int64_t)(uint8_t)(a >> 8 * i) * (int8_t)(uint8_t)(b >> 8 * i);
  return loop_round(t, r);
}

static LoopCell apply_lookup(const LoopCell *v) {
  uint64_t x = (uint64_t)v[0].i, out = 0;
  for (int i = 0; i < 32; i += 8) {
    uint64_t n = x >> i & 15, half = (uint64_t)v[n < 8 ? 1 : 2].i;
    out |= (half >> 8 * (n & 7) & 255) << i;
  }
  return (LoopCell){.i = (int64_t)out};
}

// The bits are those of a number, so a carry from them goes into the exponent as it should.
static LoopCell apply_tf32(LoopCell v) {
  float x = (float)v.f;
  uint32_t bits;
  if (isnan(x)) return v;
  memcpy(&bits, &x, sizeof bits);
  if (isfinite(x)) bits = (bits + 0x1000u) & 0xffffe000u;
  memcpy(&x, &bits, sizeof x);
  return (LoopCell){.f = (double)x};
}

bool loop_apply(LoopOp op, DType t, const LoopCell *v, LoopCell *out) {
  bool fault = false;
  if (op == LOOP_dot) {
    *out = apply_dot(t, v);
    return true;
  }
  if (op == LOOP_lookup) {
    *out = apply_lookup(v);
    return true;
  }
  if (op == LOOP_tf32) {
    *out = apply_tf32(v[0]);
    return true;
  }
  if (op == LOOP_select) {
    *out = v[0].i ? v[1] : v[2];
    return true;
  }
  if (op == LOOP_fma) {
    *out = apply_fma(t, v);
    return true;
  }
  if (op == LOOP_trunc_div) op = LOOP_div;
  if (op >= (LoopOp)ARRAY_LEN(meaning)) return false;
  const Meaning *m = &meaning[op];
  DType to = loop_op_is_compare(op) ? DT_BOOL : t;
  LoopCell x = v[0], y = loop_op_arity[op] > 1 ? v[1] : v[0], r;
  if (dtype_is_float(t)) {
    r.f = m->f64(x.f, y.f);
    if (to == DT_BOOL) r.i = r.f != 0;
  } else if (dtype_class(t) == DC_UINT) {
    r.i = (int64_t)m->u64((uint64_t)x.i, (uint64_t)y.i, &fault);
  } else {
    r.i = m->i64(x.i, y.i, &fault);
  }
  *out = loop_round(to, r);
  return !fault;
}

// ---- reductions ----
static int64_t lowest(DType t) {
  if (dtype_class(t) != DC_INT) return 0;
  return t == DT_I64 ? INT64_MIN : -((int64_t)1 << (dtype_bits(t) - 1));
}
static int64_t highest(DType t) {
  if (t == DT_BOOL) return 1;
  if (dtype_class(t) == DC_INT) return t == DT_I64 ? INT64_MAX : -lowest(t) - 1;
  return t == DT_U64 ? -1 : ((int64_t)1 << dtype_bits(t)) - 1;
}

bool loop_identity(LoopOp op, DType t, double *f, int64_t *i) {
  bool is_float = dtype_is_float(t);
  *f = 0;
  *i = 0;
  switch ((int)op) {
  case LOOP_add:
  case LOOP_or:
  case LOOP_xor:
  case LOOP_bit_or:
  case LOOP_bit_xor: return true;
  case LOOP_mul:
  case LOOP_and:
    *f = 1;
    *i = 1;
    return true;
  case LOOP_bit_and: *i = loop_round(t, (LoopCell){.i = -1}).i; return true;
  case LOOP_min:
  case LOOP_max:
    if (is_float)
      *f = op == LOOP_min ? (double)INFINITY : -(double)INFINITY;
    else
      *i = op == LOOP_min ? highest(t) : lowest(t);
    return true;
  }
  return false;
}
