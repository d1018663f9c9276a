// num.h -- element types and their conversions.
//
// Every narrow float is converted through double, correctly rounded (half to even) by default.
// Sub-byte types are packed, first element in the low bits, as ONNX packs them.
#ifndef TENON_BASE_NUM_H
#define TENON_BASE_NUM_H

#include "base/base.h"

typedef tenon_dtype DType;
// clang-format off
//      enum      text           bits  class    ONNX code
#define DTYPES(X)                          \
  X(F32,      "f32",          32, DC_FLOAT,    1) \
  X(U8,       "u8",            8, DC_UINT,     2) \
  X(I8,       "i8",            8, DC_INT,      3) \
  X(U16,      "u16",          16, DC_UINT,     4) \
  X(I16,      "i16",          16, DC_INT,      5) \
  X(I32,      "i32",          32, DC_INT,      6) \
  X(I64,      "i64",          64, DC_INT,      7) \
  X(STRING,   "string",      128, DC_STRING,   8) \
  X(BOOL,     "bool",          8, DC_BOOL,     9) \
  X(F16,      "f16",          16, DC_FLOAT,   10) \
  X(F64,      "f64",          64, DC_FLOAT,   11) \
  X(U32,      "u32",          32, DC_UINT,    12) \
  X(U64,      "u64",          64, DC_UINT,    13) \
  X(C64,      "c64",          64, DC_COMPLEX, 14) \
  X(C128,     "c128",        128, DC_COMPLEX, 15) \
  X(BF16,     "bf16",         16, DC_FLOAT,   16) \
  X(F8E4M3,   "f8e4m3",        8, DC_FLOAT,   17) \
  X(F8E4M3Z,  "f8e4m3z",       8, DC_FLOAT,   18) \
  X(F8E5M2,   "f8e5m2",        8, DC_FLOAT,   19) \
  X(F8E5M2Z,  "f8e5m2z",       8, DC_FLOAT,   20) \
  X(U4,       "u4",            4, DC_UINT,    21) \
  X(I4,       "i4",            4, DC_INT,     22) \
  X(F4E2M1,   "f4e2m1",        4, DC_FLOAT,   23) \
  X(F8E8M0,   "f8e8m0",        8, DC_FLOAT,   24) \
  X(U2,       "u2",            2, DC_UINT,    25) \
  X(I2,       "i2",            2, DC_INT,     26)
// clang-format on

// The z types are ONNX's FNUZ (finite, unsigned zero); e4m3 is ONNX's E4M3FN.  Internally DT_x is
// TENON_DTYPE_x; the numbers are ONNX's, so that a reader needs no table.  Macros, since a second
// enum would be another type to the compiler.
#define DT_F32     TENON_DTYPE_F32
#define DT_U8      TENON_DTYPE_U8
#define DT_I8      TENON_DTYPE_I8
#define DT_U16     TENON_DTYPE_U16
#define DT_I16     TENON_DTYPE_I16
#define DT_I32     TENON_DTYPE_I32
#define DT_I64     TENON_DTYPE_I64
#define DT_STRING  TENON_DTYPE_STRING
#define DT_BOOL    TENON_DTYPE_BOOL
#define DT_F16     TENON_DTYPE_F16
#define DT_F64     TENON_DTYPE_F64
#define DT_U32     TENON_DTYPE_U32
#define DT_U64     TENON_DTYPE_U64
#define DT_C64     TENON_DTYPE_C64
#define DT_C128    TENON_DTYPE_C128
#define DT_BF16    TENON_DTYPE_BF16
#define DT_F8E4M3  TENON_DTYPE_F8E4M3
#define DT_F8E4M3Z TENON_DTYPE_F8E4M3Z
#define DT_F8E5M2  TENON_DTYPE_F8E5M2
#define DT_F8E5M2Z TENON_DTYPE_F8E5M2Z
#define DT_U4      TENON_DTYPE_U4
#define DT_I4      TENON_DTYPE_I4
#define DT_F4E2M1  TENON_DTYPE_F4E2M1
#define DT_F8E8M0  TENON_DTYPE_F8E8M0
#define DT_U2      TENON_DTYPE_U2
#define DT_I2      TENON_DTYPE_I2
typedef enum { DC_NONE, DC_BOOL, DC_INT, DC_UINT, DC_FLOAT, DC_COMPLEX, DC_STRING } DTypeClass;

const char *dtype_name(DType t);  // "f32"; "?" when not a dtype
bool dtype_parse(Str name, DType *out);
bool dtype_valid(int64_t t);
int dtype_bits(DType t);
DTypeClass dtype_class(DType t);
static inline bool dtype_is_float(DType t) { return dtype_class(t) == DC_FLOAT; }
static inline bool dtype_is_int(DType t) {
  return dtype_class(t) == DC_INT || dtype_class(t) == DC_UINT;
}
bool dtype_bytes(DType t, int64_t n,
                 int64_t *out);  // bytes of n elements, sub-byte rounded up; false: overflow

// ---- single conversions (bit patterns as unsigned integers) ----
double f16_to_f64(uint16_t h);
double bf16_to_f64(uint16_t h);
uint16_t f16_from_f64(double x);
uint16_t bf16_from_f64(double x);
// The 8- and 4-bit floats.  Out of range: with `saturate` the largest finite value, else NaN or
// infinity as the type has it (ONNX Cast table).
double minifloat_to_f64(DType t, uint8_t bits);
uint8_t minifloat_from_f64(DType t, double x, bool saturate);
typedef enum {
  ROUND_UP,
  ROUND_DOWN,
  ROUND_NEAREST
} ScaleRound;  // ONNX Cast round_mode, float8e8m0 only
uint8_t e8m0_from_f64(double x, bool saturate, ScaleRound mode);

// ---- runs of elements: index counts elements from `base`, sub-byte types included ---- `base` is
// any address: constants of a file lie where the file has them.  With n = 0 it may be NULL.
// load_f64 takes any real type (bool and integers too); load_i64 takes bool and integers (u64
// wraps) and floats truncated toward zero, out of range saturated, NaN 0.
void load_f64(DType t, const void *base, int64_t index, int64_t n, double *out);
void load_i64(DType t, const void *base, int64_t index, int64_t n, int64_t *out);
// store_f64 rounds to nearest even for floats; for integers it truncates toward zero and wraps as a
// two's-complement narrowing of the saturated 64-bit value; bool is x != 0.
void store_f64(DType t, void *base, int64_t index, int64_t n, const double *in);
void store_i64(DType t, void *base, int64_t index, int64_t n, const int64_t *in);  // integers wrap
typedef float AnyF32 __attribute__((aligned(1)));
typedef int64_t AnyI64 __attribute__((aligned(1)));
// One element.  The commonest type is read and written in place: evaluations do it in their inner
// loops.
static inline double get_f64(DType t, const void *base, int64_t i) {
  if (t == DT_F32) return ((const AnyF32 *)base)[i];
  double v;
  load_f64(t, base, i, 1, &v);
  return v;
}
static inline int64_t get_i64(DType t, const void *base, int64_t i) {
  if (t == DT_I64) return ((const AnyI64 *)base)[i];
  int64_t v;
  load_i64(t, base, i, 1, &v);
  return v;
}
static inline void put_f64(DType t, void *base, int64_t i, double v) {
  if (t == DT_F32)
    ((AnyF32 *)base)[i] = (float)v;
  else
    store_f64(t, base, i, 1, &v);
}
static inline void put_i64(DType t, void *base, int64_t i, int64_t v) {
  if (t == DT_I64)
    ((AnyI64 *)base)[i] = v;
  else
    store_i64(t, base, i, 1, &v);
}
double round_to(DType t, double x);  // x as the type would hold it

#endif
