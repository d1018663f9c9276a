// emit_cast.c -- conversions between data types as LLVM IR, as the op `cast` does them.
//
// Narrow floats are decoded to f32, which holds each of them, and encoded from f32 in integers.
// Wider values are rounded to odd on the way to f32, so that the second rounding is right.
//
// Needs:      lo and hi bound a float operand of cast_emit, or are infinite.
// Guarantees: the bits of eval/cast.c and base/num.c for every value, NaN and infinities included.
//             Saturation is left out only where the bounds exclude it.
#include "targets/llvm/math.h"

#include <math.h>

// ---- narrow floats ----

typedef struct Format {
  int mant, emin;
  uint32_t sign,
      max;  // the sign bit; the code of the largest finite value, or of what overflow gives
  uint32_t inf, nan;   // codes of +infinity (0: none) and NaN
  bool unsigned_zero;  // no -0: its code is the only NaN
} Format;

static Format format_of(DType t) {
  switch ((int)t) {
  case DT_F16: return (Format){10, -14, 0x8000, 0x7C00, 0x7C00, 0x7E00, false};
  case DT_F8E4M3: return (Format){3, -6, 0x80, 0x7E, 0, 0x7F, false};
  case DT_F8E4M3Z: return (Format){3, -7, 0x80, 0x7F, 0, 0x80, true};
  case DT_F8E5M2: return (Format){2, -14, 0x80, 0x7B, 0x7C, 0x7E, false};
  }
  return (Format){2, -15, 0x80, 0x7F, 0, 0x80, true};  // f8e5m2z
}

static LV half_to_f32(Emit *e, LV x) {
  LV h = BITS(x, LLVMHalfTypeInContext(e->ctx));
  return LLVMBuildFPExt(e->b, h, type_like(x, e->f32), "");
}

static LV decode(Emit *e, Format f, LV x) {
  x = ZEXT(x, e->i32);
  LV code = IAND(x, I32(f.sign - 1)), sign = ICMP(NE, IAND(x, I32(f.sign)), I32(0));
  LV normal =
      BITS(IADD(ISHL(code, I32(23 - f.mant)), I32((int64_t)(127 + f.emin - 1) << 23)), e->f32);
  LV small = MUL(SI_TO_F(code, e->f32), F32(ldexp(1, f.emin - f.mant)));
  LV v = SEL(ICMP(ULT, code, I32(1 << f.mant)), small, normal);
  if (f.inf) {
    LV special = IOR(ISHL(code, I32(23 - f.mant)), I32(0x7F800000));  // keeps what a NaN carries
    v = SEL(ICMP(UGE, code, I32(f.inf)), BITS(special, e->f32), v);
  } else if (!f.unsigned_zero) {
    v = SEL(ICMP(UGT, code, I32(f.max)), F32((double)NAN), v);
  }
  v = SEL(sign, NEG(v), v);
  return f.unsigned_zero ? SEL(ICMP(EQ, x, I32(f.nan)), F32((double)NAN), v) : v;
}

static LV decode_scale(Emit *e, LV x) {  // f8e8m0: a power of two, or NaN
  x = ZEXT(x, e->i32);
  LV v = SEL(ICMP(EQ, x, I32(0)), I32(0x400000), ISHL(x, I32(23)));
  return BITS(SEL(ICMP(EQ, x, I32(255)), I32(0x7FC00000), v), e->f32);
}

LV float_widen(Emit *e, DType t, LV x) {
  if (t == DT_BF16) return BITS(ISHL(ZEXT(x, e->i32), I32(16)), e->f32);
  if (t == DT_F8E8M0) return decode_scale(e, x);
  if (t == DT_F16 && e->m->has_f16) return half_to_f32(e, x);
  return decode(e, format_of(t), x);
}

static LV encode(Emit *e, DType t, LV x) {
  Format f = format_of(t);
  LV bits = BITS(x, e->i32), b = IAND(bits, I32(0x7FFFFFFF));
  LV sign = SEL(ICMP(SLT, bits, I32(0)), I32(f.sign), I32(0));
  int drop = 23 - f.mant;
  LV r = ISUB(b, I32((int64_t)(127 + f.emin - 1) << 23));
  LV odd = IAND(ILSR(r, I32(drop)), I32(1));
  LV normal = ILSR(IADD(r, IADD(I32((1 << (drop - 1)) - 1), odd)), I32(drop));
  // Below the normal range: the sum with this number has the unit of the subnormals.
  double unit = ldexp(1, f.emin - f.mant + 23);
  LV sum = ADD(fp_abs(e, x), F32(unit));
  LV small = ISUB(BITS(sum, e->i32), BITS(F32(unit), e->i32));
  LV code = SEL(ICMP(ULT, b, I32((int64_t)(127 + f.emin) << 23)), small, normal);
  LV over = IOR(ICMP(UGT, code, I32(f.max)), ICMP(UGE, b, I32(0x7F800000)));
  code = SEL(over, I32(f.max), code);
  LV nan = ICMP(UGT, b, I32(0x7F800000));
  LV quiet = t == DT_F16 ? IOR(I32(f.nan), IAND(ILSR(b, I32(13)), I32(0x1FF))) : I32(f.nan);
  LV out = IOR(code, sign);
  if (f.unsigned_zero) {
    out = SEL(ICMP(EQ, code, I32(0)), I32(0), out);
    out = SEL(nan, I32(f.nan), out);
  } else {
    out = SEL(nan, IOR(quiet, sign), out);
  }
  return TRUNC(out, t == DT_F16 ? e->i16 : e->i8);
}

static LV encode_bf16(Emit *e, LV x) {
  LV b = BITS(x, e->i32), odd = IAND(ILSR(b, I32(16)), I32(1));
  LV r = ILSR(IADD(b, IADD(I32(0x7FFF), odd)), I32(16));
  LV nan = IOR(ILSR(b, I32(16)), I32(0x40));
  return TRUNC(SEL(FCMP(UNO, x, x), nan, r), e->i16);
}

static LV encode_scale(Emit *e, LV x) {
  LV b = BITS(x, e->i32), field = ILSR(b, I32(23));
  LV up = ZEXT(ICMP(UGE, IAND(b, I32(0x7FFFFF)), I32(0x400000)), e->i32);
  LV low = ZEXT(ICMP(UGE, b, I32(0x600000)), e->i32);
  LV code = SEL(ICMP(EQ, field, I32(0)), low, IADD(field, up));
  code = SEL(ICMP(UGT, code, I32(0xFE)), I32(0xFE), code);
  LV none = IOR(FCMP(UNO, x, x), FCMP(OLT, x, F32(0)));
  code = SEL(FCMP(OEQ, x, F32(0)), I32(0), code);
  return TRUNC(SEL(none, I32(0xFF), code), e->i8);
}

LV float_narrow(Emit *e, DType t, LV x) {
  if (t == DT_BF16) return encode_bf16(e, x);
  if (t == DT_F8E8M0) return encode_scale(e, x);
  if (t == DT_F16 && e->m->has_f16) {
    LV h = LLVMBuildFPTrunc(e->b, x, type_like(x, LLVMHalfTypeInContext(e->ctx)), "");
    return BITS(h, e->i16);
  }
  return encode(e, t, x);
}

LV f64_to_f32_odd(Emit *e, LV x) {
  LV y = TO_F32(x), back = TO_F64(y), bits = BITS(y, e->i32);
  LV beyond = FCMP(OGT, fp_abs(e, back), fp_abs(e, x));
  LV odd = IOR(SEL(beyond, ISUB(bits, I32(1)), bits), I32(1));
  return SEL(FCMP(ONE, back, x), BITS(odd, e->f32), y);
}

// ---- integers and floats ----

static LV sat(Emit *e, const char *name, LV x) {
  LT over[] = {type_like(x, e->i64), LLVMTypeOf(x)};
  return call_intrinsic(e, name, over, 2, &x, 1);
}

// Lanes of f32 as the low 32 bits of what they are in 64.  Beyond 2^31 an f32 is a whole number,
// whose remainder by 2^32 has no rounding.
static LV f32_low_bits(Emit *e, LV x) {
  LV whole = MUL(fp_round(e, LOOP_floor, MUL(x, F32(0x1p-32))), F32(0x1p32));
  LV rest = SUB(x, whole), small = FCMP(OLT, fp_abs(e, x), F32(0x1p31));
  rest = SEL(FCMP(OGE, rest, F32(0x1p31)), SUB(rest, F32(0x1p32)), rest);
  LV v = F_TO_SI(SEL(small, x, rest), e->i32);
  v = SEL(FCMP(OGE, x, F32(0x1p63)), I32(-1), v);
  return SEL(FCMP(ULT, x, F32(-0x1p63)), I32(0), v);  // NaN too
}

// Lanes as i64, by the machine's conversion of vectors.
static LV lanes_to_i64(Emit *e, LV x) {
  LT elem = LLVMGetElementType(LLVMTypeOf(x));
  LV end = const_real(e, x, elem, 0x1p63), zero = LLVMConstNull(LLVMTypeOf(x));
  LV v = F_TO_SI(SEL(FCMP(OLT, fp_abs(e, x), end), x, zero), e->i64);
  v = SEL(FCMP(OGE, x, end), I64(INT64_MAX), v);
  return SEL(FCMP(OLE, x, NEG(end)), I64(INT64_MIN), v);
}

static LV float_to_int(Emit *e, DType to, LV x, double lo, double hi) {
  LT t = reg_type(e, to);
  int bits = dtype_bits(to);
  bool vector = value_lanes(x) > 1;
  LV zero = LLVMConstNull(LLVMTypeOf(x));
  if (lo >= -0x1p31 && hi < 0x1p31) {
    LV v = F_TO_SI(SEL(FCMP(ORD, x, x), x, zero), e->i32);
    return bits < 32 ? TRUNC(v, t) : bits > 32 ? SEXT(v, t) : v;
  }
  // LLVM makes saturated conversions of vectors lane by lane.
  if (vector && bits <= 32 && LLVMGetElementType(LLVMTypeOf(x)) == e->f32) {
    LV low = f32_low_bits(e, x);
    return bits < 32 ? TRUNC(low, t) : low;
  }
  bool wide = vector && to == DT_I64 && e->m->has & CPU_AVX512;
  LV v = wide ? lanes_to_i64(e, x) : sat(e, "llvm.fptosi.sat", x);
  if (to == DT_U64) {
    LT elem = LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind
                  ? LLVMGetElementType(LLVMTypeOf(x))
                  : LLVMTypeOf(x);
    LV high = FCMP(OGE, x, const_real(e, x, elem, 0x1p63));
    v = SEL(high, sat(e, "llvm.fptoui.sat", x), v);
  }
  return bits < 64 ? TRUNC(v, t) : v;
}

// As an f64 that a narrower float can be rounded from: what does not fit becomes one sticky bit.
static LV sticky_f64(Emit *e, bool uns, LV x) {
  LV neg = uns ? ICMP(NE, x, x) : ICMP(SLT, x, I64(0));
  LV m = SEL(neg, ISUB(I64(0), x), x);
  LV low = IAND(m, I64(0x7FF)),
     cut = IOR(IAND(m, I64(~(int64_t)0x7FF)), SEL(ICMP(NE, low, I64(0)), I64(0x800), I64(0)));
  m = SEL(ICMP(NE, ILSR(m, I64(53)), I64(0)), cut, m);
  LV v = LLVMBuildUIToFP(e->b, m, type_like(x, e->f64), "");
  return SEL(neg, NEG(v), v);
}

static LV int_to_float(Emit *e, DType from, DType to, LV x) {
  bool uns = dtype_class(from) == DC_UINT || from == DT_BOOL;
  LT t = to == DT_F64 ? e->f64 : e->f32;
  bool narrow = to != DT_F64 && to != DT_F32;
  if (narrow && dtype_bits(from) == 64)
    return float_narrow(e, to, f64_to_f32_odd(e, sticky_f64(e, uns, x)));
  if (narrow && dtype_bits(from) == 32) t = e->f64;
  LV v = uns ? LLVMBuildUIToFP(e->b, x, type_like(x, t), "")
             : LLVMBuildSIToFP(e->b, x, type_like(x, t), "");
  if (!narrow) return v;
  return float_narrow(e, to, t == e->f64 ? f64_to_f32_odd(e, v) : v);
}

static LV int_to_int(Emit *e, DType from, DType to, LV x) {
  bool uns = dtype_class(from) == DC_UINT || from == DT_BOOL;
  int n = from == DT_BOOL ? 1 : dtype_bits(from), m = dtype_bits(to);
  if (to == DT_BOOL) return from == DT_BOOL ? x : ICMP(NE, x, LLVMConstNull(LLVMTypeOf(x)));
  LT t = reg_type(e, to);
  return m < n ? TRUNC(x, t) : m == n ? x : uns ? ZEXT(x, t) : SEXT(x, t);
}

LV cast_emit(Emit *e, DType from, DType to, LV x, double lo, double hi) {
  if (from == to) return x;
  bool to_float = dtype_is_float(to);
  if (!dtype_is_float(from))
    return to_float ? int_to_float(e, from, to, x) : int_to_int(e, from, to, x);
  if (from != DT_F32 && from != DT_F64) {
    x = float_widen(e, from, x);
    from = DT_F32;
  }
  if (to == DT_BOOL) return FCMP(UNE, x, LLVMConstNull(LLVMTypeOf(x)));
  if (!to_float) return float_to_int(e, to, x, lo, hi);
  if (from == to) return x;
  if (to == DT_F64) return TO_F64(x);
  if (to == DT_F32) return TO_F32(x);
  return float_narrow(e, to, from == DT_F64 ? f64_to_f32_odd(e, x) : x);
}
