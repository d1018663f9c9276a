// num.c -- element types and their conversions.
//
// Narrow floats: the magnitude of a double is rounded once, in integers, to a whole number of the
// target's units in the last place; since codes of one sign are in the order of their values, that
// number plus the exponent's steps is the code, carries into the exponent and subnormals included.
// What lies beyond the largest finite code overflowed.
//
// Runs of elements: one switch on the type, then a plain loop that the compiler can vectorise.
#include "base/num.h"

// ---- the table of types ----

typedef struct DTypeInfo {
  const char *name;
  int bits;
  DTypeClass class;
} DTypeInfo;
static const DTypeInfo info[] = {
#define X(e, text, bits, class, onnx) [onnx] = {text, bits, class},
    DTYPES(X)
#undef X
};
#define X(e, text, bits, class, onnx) _Static_assert(DT_##e == (onnx), "the numbers are ONNX's");
DTYPES(X)
#undef X

bool dtype_valid(int64_t t) { return t > 0 && t < ARRAY_LEN(info); }
const char *dtype_name(DType t) { return dtype_valid(t) ? info[t].name : "?"; }
int dtype_bits(DType t) { return dtype_valid(t) ? info[t].bits : 0; }
DTypeClass dtype_class(DType t) { return dtype_valid(t) ? info[t].class : DC_NONE; }

bool dtype_parse(Str name, DType *out) {
  for (int t = 1; t < ARRAY_LEN(info); t++)
    if (str_is(name, info[t].name)) {
      *out = (DType)t;
      return true;
    }
  *out = TENON_DTYPE_NONE;
  return false;
}

bool dtype_bytes(DType t, int64_t n, int64_t *out) {
  int bits = dtype_bits(t);
  *out = 0;
  if (n < 0 || !bits) return false;
  if (bits >= 8) return ck_mul(n, bits / 8, out);
  int per_byte = 8 / bits;
  *out = n / per_byte + (n % per_byte != 0);
  return true;
}

// ---- floats as bits ----

static inline uint64_t bits_of(double x) {
  uint64_t b;
  memcpy(&b, &x, sizeof(b));
  return b;
}
static inline double of_bits(uint64_t b) {
  double x;
  memcpy(&x, &b, sizeof(x));
  return x;
}
static inline bool is_nan(double x) { return x != x; }
static inline double pow2(int e) { return of_bits((uint64_t)(e + 1023) << 52); }  // normal range

static const uint64_t ABS_MASK = 0x7FFFFFFFFFFFFFFF;

// The code of |x|, rounded half to even, in a format of `mant` mantissa bits whose least normal
// number is 2^emin; unbounded above.  x is finite; emin > -1000.
static inline uint64_t encode(double x, int mant, int emin) {
  uint64_t b = bits_of(x) & ABS_MASK;
  int e = (int)(b >> 52) - 1023;
  // A double's subnormals lack this bit, but lie so far below every target that they come out 0.
  uint64_t s = (b & 0xFFFFFFFFFFFFF) | 0x10000000000000;
  int step = e > emin ? e - emin : 0;
  int shift = 52 - mant + (e < emin ? emin - e : 0);
  if (shift > 54) return 0;
  uint64_t half = (uint64_t)1 << (shift - 1);
  uint64_t r = (s + half - 1 + ((s >> shift) & 1)) >> shift;
  return r + ((uint64_t)step << mant);
}

// The value of a code without sign.
static inline double decode(unsigned code, int mant, int emin) {
  unsigned e = code >> mant, m = code & ((1u << mant) - 1);
  return e ? (double)(m + (1u << mant)) * pow2((int)e - 1 + emin - mant)
           : (double)m * pow2(emin - mant);
}

static inline double f16_load(uint16_t h) {
  uint64_t sign = (uint64_t)(h & 0x8000) << 48;
  if ((h & 0x7C00) == 0x7C00)
    return of_bits(sign | 0x7FF0000000000000 | (uint64_t)(h & 0x3FF) << 42);
  return of_bits(sign | bits_of(decode(h & 0x7FFF, 10, -14)));
}

static inline double bf16_load(uint16_t h) {
  uint32_t b = (uint32_t)h << 16;
  float x;
  memcpy(&x, &b, sizeof(x));
  return x;
}

static inline uint16_t f16_store(double x) {
  uint64_t b = bits_of(x);
  uint16_t sign = (uint16_t)(b >> 48 & 0x8000);
  b &= ABS_MASK;
  if (b > 0x7FF0000000000000) return (uint16_t)(sign | 0x7E00 | (b >> 42 & 0x1FF));
  if (b == 0x7FF0000000000000) return sign | 0x7C00;
  uint64_t code = encode(x, 10, -14);
  return (uint16_t)(sign | MIN(code, 0x7C00));
}

static inline uint16_t bf16_store(double x) {
  uint64_t b = bits_of(x);
  uint16_t sign = (uint16_t)(b >> 48 & 0x8000);
  b &= ABS_MASK;
  if (b > 0x7FF0000000000000) return (uint16_t)(sign | 0x7FC0 | (b >> 45 & 0x3F));
  if (b == 0x7FF0000000000000) return sign | 0x7F80;
  uint64_t code = encode(x, 7, -126);
  return (uint16_t)(sign | MIN(code, 0x7F80));
}

double f16_to_f64(uint16_t h) { return f16_load(h); }
double bf16_to_f64(uint16_t h) { return bf16_load(h); }
uint16_t f16_from_f64(double x) { return f16_store(x); }
uint16_t bf16_from_f64(double x) { return bf16_store(x); }

// ---- 8- and 4-bit floats ----

typedef struct MiniFormat {
  int mant, emin;
  uint8_t sign, max;   // the sign bit; the code of the largest finite value
  uint8_t inf, nan;    // codes of +infinity (0: none) and NaN
  bool unsigned_zero;  // no -0: its code is the only NaN
} MiniFormat;

static const MiniFormat mini_e4m3 = {3, -6, 0x80, 0x7E, 0, 0x7F, false};
static const MiniFormat mini_e4m3z = {3, -7, 0x80, 0x7F, 0, 0x80, true};
static const MiniFormat mini_e5m2 = {2, -14, 0x80, 0x7B, 0x7C, 0x7E, false};
static const MiniFormat mini_e5m2z = {2, -15, 0x80, 0x7F, 0, 0x80, true};
static const MiniFormat mini_e2m1 = {1, 0, 0x08, 0x07, 0, 0, false};

static const MiniFormat *mini_of(DType t) {
  switch ((int)t) {
  case DT_F8E4M3: return &mini_e4m3;
  case DT_F8E4M3Z: return &mini_e4m3z;
  case DT_F8E5M2: return &mini_e5m2;
  case DT_F8E5M2Z: return &mini_e5m2z;
  case DT_F4E2M1: return &mini_e2m1;
  }
  CHECK(false, "%s is not a small float", dtype_name(t));
}

static double e8m0_load(uint8_t bits) {
  return bits == 0xFF ? of_bits(0x7FF8000000000000) : pow2((int)bits - 127);
}

static double mini_load(const MiniFormat *f, uint8_t bits) {
  unsigned code = bits & (f->sign - 1u), sign = bits & f->sign;
  if (f->unsigned_zero ? bits == f->nan : code > f->max) {
    bool inf = f->inf && code == f->inf;
    return of_bits((uint64_t)(sign != 0 && !f->unsigned_zero) << 63 |
                   (inf ? 0x7FF0000000000000 : 0x7FF8000000000000));
  }
  double x = decode(code, f->mant, f->emin);
  return sign ? -x : x;
}

static uint8_t mini_store(const MiniFormat *f, double x, bool saturate) {
  uint8_t sign = bits_of(x) >> 63 ? f->sign : 0;
  if (is_nan(x)) {
    // The 4-bit type has no NaN; -0 stands in for it in ONNX's own conversion.
    if (f == &mini_e2m1) return f->sign;
    return f->unsigned_zero ? f->nan : f->nan | sign;
  }
  bool finite = (bits_of(x) & ABS_MASK) < 0x7FF0000000000000;
  uint64_t code = finite ? encode(x, f->mant, f->emin) : UINT64_MAX;
  if (code > f->max) {
    if (saturate || f == &mini_e2m1) return f->max | sign;
    if (f->inf) return f->inf | sign;
    return f->unsigned_zero ? f->nan : f->nan | sign;
  }
  if (!code && f->unsigned_zero) return 0;
  return (uint8_t)code | sign;
}

double minifloat_to_f64(DType t, uint8_t bits) {
  return t == DT_F8E8M0 ? e8m0_load(bits) : mini_load(mini_of(t), bits);
}

uint8_t minifloat_from_f64(DType t, double x, bool saturate) {
  if (t == DT_F8E8M0) return e8m0_from_f64(x, saturate, ROUND_NEAREST);
  return mini_store(mini_of(t), x, saturate);
}

// Powers of two from 2^-127 (code 0) to 2^127 (0xFE), and NaN.  Half way between two powers is 1.5
// times the lower; it goes up, as the last kept bit (the hidden one) is odd.
uint8_t e8m0_from_f64(double x, bool saturate, ScaleRound mode) {
  enum { E8M0_NAN = 0xFF, E8M0_MAX = 0xFE };
  uint64_t b = bits_of(x), m = b & 0xFFFFFFFFFFFFF;
  if (is_nan(x) || x < 0) return E8M0_NAN;
  if (x < 0x1p-127) {
    bool reaches = mode == ROUND_UP || (mode == ROUND_NEAREST && x >= 0x1.8p-128);
    return saturate || (x > 0 && reaches) ? 0 : E8M0_NAN;
  }
  int code = (int)(b >> 52 & 0x7FF) - 1023 + 127;
  if (mode == ROUND_UP) code += m != 0;
  if (mode == ROUND_NEAREST) code += m >= 0x8000000000000;
  return (uint8_t)(code <= E8M0_MAX ? code : saturate ? E8M0_MAX : E8M0_NAN);
}

// ---- integers from floats ----

static inline int64_t to_i64(double x) {
  if (x >= 0x1p63) return INT64_MAX;
  if (x < -0x1p63) return INT64_MIN;
  return is_nan(x) ? 0 : (int64_t)x;
}

// The upper half of u64's range holds its own values; below 0 it wraps like the others.
static inline uint64_t to_u64(double x) {
  if (x >= 0x1p64) return UINT64_MAX;
  return x >= 0x1p63 ? (uint64_t)x : (uint64_t)to_i64(x);
}

// ---- sub-byte elements ----

static inline unsigned sub_get(const uint8_t *p, int64_t i, int bits) {
  int per = 8 / bits, at = (int)(i % per) * bits;
  return (unsigned)p[i / per] >> at & ((1u << bits) - 1);
}
static inline void sub_put(uint8_t *p, int64_t i, int bits, unsigned v) {
  int per = 8 / bits, at = (int)(i % per) * bits;
  unsigned mask = ((1u << bits) - 1) << at;
  p[i / per] = (uint8_t)((p[i / per] & ~mask) | (v << at & mask));
}
static inline int sub_signed(unsigned v, int bits) {
  unsigned top = 1u << (bits - 1);
  return (int)(v ^ top) - (int)top;
}

// ---- runs of elements ---- An empty tensor may have no memory: its NULL gets no offset, not even
// 0, which C does not define.  Elements may lie at any address, as those of constants in a file do.

static NORETURN void no_number(DType t) {
  check_failed(__FILE__, __LINE__, "a real type", "elements of type %s are not real numbers",
               dtype_name(t));
}

#define LOAD(T, expr)                                                                              \
  {                                                                                                \
    typedef T Element __attribute__((aligned(1)));                                                 \
    const Element *p = (const Element *)base + index;                                              \
    for (int64_t i = 0; i < n; i++) out[i] = (expr);                                               \
    return;                                                                                        \
  }
#define LOAD_SUB(expr)                                                                             \
  {                                                                                                \
    const uint8_t *p = base;                                                                       \
    for (int64_t i = 0; i < n; i++) out[i] = (expr);                                               \
    return;                                                                                        \
  }

void load_f64(DType t, const void *base, int64_t index, int64_t n, double *out) {
  if (n <= 0) return;
  switch ((int)t) {
  case DT_F32: LOAD(float, (double)p[i])
  case DT_F64: LOAD(double, p[i])
  case DT_F16: LOAD(uint16_t, f16_load(p[i]))
  case DT_BF16: LOAD(uint16_t, bf16_load(p[i]))
  case DT_BOOL: LOAD(uint8_t, p[i] ? 1.0 : 0.0)
  case DT_U8: LOAD(uint8_t, (double)p[i])
  case DT_I8: LOAD(int8_t, (double)p[i])
  case DT_U16: LOAD(uint16_t, (double)p[i])
  case DT_I16: LOAD(int16_t, (double)p[i])
  case DT_U32: LOAD(uint32_t, (double)p[i])
  case DT_I32: LOAD(int32_t, (double)p[i])
  case DT_U64: LOAD(uint64_t, (double)p[i])
  case DT_I64: LOAD(int64_t, (double)p[i])
  case DT_F8E4M3: LOAD(uint8_t, mini_load(&mini_e4m3, p[i]))
  case DT_F8E4M3Z: LOAD(uint8_t, mini_load(&mini_e4m3z, p[i]))
  case DT_F8E5M2: LOAD(uint8_t, mini_load(&mini_e5m2, p[i]))
  case DT_F8E5M2Z: LOAD(uint8_t, mini_load(&mini_e5m2z, p[i]))
  case DT_F8E8M0: LOAD(uint8_t, e8m0_load(p[i]))
  case DT_F4E2M1: LOAD_SUB(mini_load(&mini_e2m1, (uint8_t)sub_get(p, index + i, 4)))
  case DT_U4: LOAD_SUB((double)sub_get(p, index + i, 4))
  case DT_I4: LOAD_SUB((double)sub_signed(sub_get(p, index + i, 4), 4))
  case DT_U2: LOAD_SUB((double)sub_get(p, index + i, 2))
  case DT_I2: LOAD_SUB((double)sub_signed(sub_get(p, index + i, 2), 2))
  }
  no_number(t);
}

static void load_i64_of_floats(DType t, const void *base, int64_t index, int64_t n, int64_t *out) {
  double block[64];
  for (int64_t i = 0; i < n;) {
    int64_t m = MIN(n - i, ARRAY_LEN(block));
    load_f64(t, base, index + i, m, block);
    for (int64_t j = 0; j < m; j++) out[i + j] = to_i64(block[j]);
    i += m;
  }
}

void load_i64(DType t, const void *base, int64_t index, int64_t n, int64_t *out) {
  if (n <= 0) return;
  switch ((int)t) {
  case DT_BOOL: LOAD(uint8_t, p[i] != 0)
  case DT_U8: LOAD(uint8_t, p[i])
  case DT_I8: LOAD(int8_t, p[i])
  case DT_U16: LOAD(uint16_t, p[i])
  case DT_I16: LOAD(int16_t, p[i])
  case DT_U32: LOAD(uint32_t, p[i])
  case DT_I32: LOAD(int32_t, p[i])
  case DT_U64: LOAD(uint64_t, (int64_t)p[i])
  case DT_I64: LOAD(int64_t, p[i])
  case DT_U4: LOAD_SUB(sub_get(p, index + i, 4))
  case DT_I4: LOAD_SUB(sub_signed(sub_get(p, index + i, 4), 4))
  case DT_U2: LOAD_SUB(sub_get(p, index + i, 2))
  case DT_I2: LOAD_SUB(sub_signed(sub_get(p, index + i, 2), 2))
  }
  load_i64_of_floats(t, base, index, n, out);
}

#define STORE(T, expr)                                                                             \
  {                                                                                                \
    typedef T Element __attribute__((aligned(1)));                                                 \
    Element *p = (Element *)base + index;                                                          \
    for (int64_t i = 0; i < n; i++) p[i] = (T)(expr);                                              \
    return;                                                                                        \
  }
#define STORE_SUB(bits, expr)                                                                      \
  {                                                                                                \
    uint8_t *p = base;                                                                             \
    for (int64_t i = 0; i < n; i++) sub_put(p, index + i, bits, (unsigned)(expr));                 \
    return;                                                                                        \
  }

void store_f64(DType t, void *base, int64_t index, int64_t n, const double *in) {
  if (n <= 0) return;
  switch ((int)t) {
  case DT_F32: STORE(float, in[i])
  case DT_F64: STORE(double, in[i])
  case DT_F16: STORE(uint16_t, f16_store(in[i]))
  case DT_BF16: STORE(uint16_t, bf16_store(in[i]))
  case DT_BOOL: STORE(uint8_t, in[i] != 0)
  case DT_U8: STORE(uint8_t, to_i64(in[i]))
  case DT_I8: STORE(int8_t, to_i64(in[i]))
  case DT_U16: STORE(uint16_t, to_i64(in[i]))
  case DT_I16: STORE(int16_t, to_i64(in[i]))
  case DT_U32: STORE(uint32_t, to_i64(in[i]))
  case DT_I32: STORE(int32_t, to_i64(in[i]))
  case DT_U64: STORE(uint64_t, to_u64(in[i]))
  case DT_I64: STORE(int64_t, to_i64(in[i]))
  case DT_F8E4M3: STORE(uint8_t, mini_store(&mini_e4m3, in[i], true))
  case DT_F8E4M3Z: STORE(uint8_t, mini_store(&mini_e4m3z, in[i], true))
  case DT_F8E5M2: STORE(uint8_t, mini_store(&mini_e5m2, in[i], true))
  case DT_F8E5M2Z: STORE(uint8_t, mini_store(&mini_e5m2z, in[i], true))
  case DT_F8E8M0: STORE(uint8_t, e8m0_from_f64(in[i], true, ROUND_NEAREST))
  case DT_F4E2M1: STORE_SUB(4, mini_store(&mini_e2m1, in[i], true))
  case DT_U4:
  case DT_I4: STORE_SUB(4, to_i64(in[i]))
  case DT_U2:
  case DT_I2: STORE_SUB(2, to_i64(in[i]))
  }
  no_number(t);
}

// Integers beyond 2^53 would be rounded twice on their way through double, so each is cut to 54
// bits with a sticky last bit first: that keeps every decision a narrower type has to make.  f64
// itself is direct.
static double sticky_f64(int64_t v) {
  uint64_t m = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  if (m >> 53) m = (m & ~(uint64_t)0x7FF) | ((m & 0x7FF) ? 0x800 : 0);
  return v < 0 ? -(double)m : (double)m;
}

static void store_i64_as_floats(DType t, void *base, int64_t index, int64_t n, const int64_t *in) {
  double block[64];
  for (int64_t i = 0; i < n;) {
    int64_t m = MIN(n - i, ARRAY_LEN(block));
    for (int64_t j = 0; j < m; j++) block[j] = sticky_f64(in[i + j]);
    store_f64(t, base, index + i, m, block);
    i += m;
  }
}

void store_i64(DType t, void *base, int64_t index, int64_t n, const int64_t *in) {
  if (n <= 0) return;
  switch ((int)t) {
  case DT_F32: STORE(float, in[i])
  case DT_F64: STORE(double, in[i])
  case DT_BOOL: STORE(uint8_t, in[i] != 0)
  case DT_U8: STORE(uint8_t, in[i])
  case DT_I8: STORE(int8_t, in[i])
  case DT_U16: STORE(uint16_t, in[i])
  case DT_I16: STORE(int16_t, in[i])
  case DT_U32: STORE(uint32_t, in[i])
  case DT_I32: STORE(int32_t, in[i])
  case DT_U64: STORE(uint64_t, in[i])
  case DT_I64: STORE(int64_t, in[i])
  case DT_U4:
  case DT_I4: STORE_SUB(4, in[i])
  case DT_U2:
  case DT_I2: STORE_SUB(2, in[i])
  }
  store_i64_as_floats(t, base, index, n, in);
}

double round_to(DType t, double x) {
  uint64_t cell = 0;
  put_f64(t, &cell, 0, x);
  return get_f64(t, &cell, 0);
}
