// math_f32.c -- functions of f32 as LLVM IR.
//
// exp, log, tanh, sigmoid and erf, which networks use, are computed in f32.  The others are
// computed in f64 by a plain formula and rounded.  Polynomials are near-minimax fits.  Where a
// machine looks coefficients up in registers, erf and tanh are those of math_table.c.
//
// Needs:      an f32 scalar or vector.
// Guarantees: at most 2 ulp off; special values as in C.  Subnormals are right where the machine
//             computes with them; kernels run with them flushed to zero.
#include "targets/llvm/math.h"

#include <math.h>

// exp(r) = 1 + r + r^2 p(r), |r| <= ln(2)/2; log(1 + f) = f - f^2/2 + f^3 p(f), sqrt(1/2) <= 1 + f
// < sqrt(2); tanh(x) = x + x^3 p(x^2), |x| < 0.625; erf(x) = x + x p(x^2), |x| < 1; -log(1 -
// erf(x)) = x + x p(x) from there to 4.1
static const double exp_f32[] = {0x1.0p-1,     0x1.555556p-3,  0x1.5554eap-5,
                                 0x1.1110ep-7, 0x1.6d4324p-10, 0x1.a124f2p-13};

static const double log_f32[] = {0x1.555554p-2,  -0x1.fffffcp-3, 0x1.999d5ap-3,
                                 -0x1.555b4ap-3, 0x1.23d21ap-3,  -0x1.fcf4c6p-4,
                                 0x1.dea282p-4,  -0x1.d635bcp-4, 0x1.1d8ea6p-4};

static const double tanh_f32[] = {-0x1.555556p-2, 0x1.1110eap-3,  -0x1.ba08c4p-5,
                                  0x1.64a976p-6,  -0x1.116a16p-7, 0x1.2c83cp-9};

static const double erf_small_f32[] = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2d1p-4, -0x1.b7fabap-6,
                                       0x1.54127p-8,  -0x1.a45088p-11, 0x1.4a569p-14};

static const double erf_large_f32[] = {0x1.076ac6p-3,  0x1.4533e8p-1, 0x1.b3abcep-4,
                                       -0x1.88dbb4p-6, 0x1.f0142p-9,  -0x1.7f155cp-12,
                                       0x1.0cdc24p-16};

static const double LN2_HI = 0x1.63p-1,
                    LN2_LO = -0x1.bd0106p-13;  // products of HI with small integers are exact

// x 2^n; k is n as an integer.  AVX-512 has an instruction for it.
static LV scale_of(Emit *e, LV x, LV n, LV k) {
  int lanes = value_lanes(x);
  if ((e->m->has & CPU_AVX512) && (lanes == 16 || lanes == 8 || lanes == 4)) {
    const char *name = lanes == 16  ? "llvm.x86.avx512.mask.scalef.ps.512"
                       : lanes == 8 ? "llvm.x86.avx512.mask.scalef.ps.256"
                                    : "llvm.x86.avx512.mask.scalef.ps.128";
    LV all = LLVMConstAllOnes(lanes == 16 ? e->i16 : e->i8),
       nearest = const_int(e, NULL, e->i32, 4);
    LV args[] = {x, n, LLVMConstNull(LLVMTypeOf(x)), all, nearest};
    return call_intrinsic(e, name, NULL, 0, args, lanes == 16 ? 5 : 4);
  }
  // In two factors: n reaches beyond the exponents of normal numbers.
  LV half = IASR(k, I32(1)), rest = ISUB(k, half);
  LV a = BITS(ISHL(IADD(half, I32(127)), I32(23)), e->f32);
  LV b = BITS(ISHL(IADD(rest, I32(127)), I32(23)), e->f32);
  return MUL(MUL(x, a), b);
}

static LV exp_of(Emit *e, LV x) {
  x = SEL(FCMP(OGT, x, F32(89)), F32(89), x);
  x = SEL(FCMP(OLT, x, F32(-104)), F32(-104), x);
  LV magic = F32(0x1.8p23);  // adding it rounds to an integer, which then lies in the low bits
  LV t = MAD(x, F32(0x1.715476p+0), magic), n = SUB(t, magic);
  LV r = MAD(n, F32(-LN2_LO), MAD(n, F32(-LN2_HI), x));
  LV p = MAD(MUL(r, r), horner(e, r, exp_f32, ARRAY_LEN(exp_f32)), r);
  p = ADD(p, F32(1));
  return scale_of(e, p, n, ISUB(BITS(t, e->i32), BITS(magic, e->i32)));
}

static LV log_of(Emit *e, LV x) {
  LV small = FCMP(OLT, x, F32(0x1p-126));
  LV y = SEL(small, MUL(x, F32(0x1p23)), x);
  LV bits = IADD(BITS(y, e->i32), I32(0x3F800000 - 0x3F3504F3));
  LV k = ISUB(IASR(bits, I32(23)), SEL(small, I32(127 + 23), I32(127)));
  LV m = BITS(IADD(IAND(bits, I32(0x7FFFFF)), I32(0x3F3504F3)), e->f32);
  LV f = SUB(m, F32(1)), n = SI_TO_F(k, e->f32), z = MUL(f, f);
  LV r = MUL(MUL(f, z), horner(e, f, log_f32, ARRAY_LEN(log_f32)));
  r = MAD(n, F32(LN2_LO), r);
  r = MAD(F32(-0.5), z, r);
  r = MAD(n, F32(LN2_HI), ADD(f, r));
  r = SEL(FCMP(OEQ, x, F32(INFINITY)), x, r);
  r = SEL(FCMP(OEQ, x, F32(0)), F32(-INFINITY), r);
  return SEL(FCMP(UGE, x, F32(0)), SEL(FCMP(UNO, x, x), x, r), F32((double)NAN));
}

static LV tanh_of(Emit *e, LV x) {
  LV a = fp_abs(e, x), z = MUL(x, x);
  LV low = MAD(MUL(x, z), horner(e, z, tanh_f32, ARRAY_LEN(tanh_f32)), x);
  LV high = SUB(F32(1), DIV(F32(2), ADD(exp_of(e, ADD(a, a)), F32(1))));
  return SEL(FCMP(OLT, a, F32(0.625)), low, fp_copysign(e, high, x));
}

// num / (1 + t), 0 <= t <= 1, with the sum's rounding put right, and the quotient's.
LV share_of(Emit *e, LV num, LV t, LV one) {
  LV s = ADD(one, t), d = ADD(SUB(one, s), t), y = DIV(one, s);
  LV q = e->m->has_fma ? MUL(num, y) : DIV(num, s);
  LV r = e->m->has_fma ? MAD(NEG(q), s, num) : LLVMConstNull(LLVMTypeOf(q));
  return MAD(SUB(r, MUL(q, d)), y, q);
}

static LV sigmoid_of(Emit *e, LV x) {
  LV t =
      exp_of(e, NEG(fp_abs(e, x)));  // never overflows; the sign decides what is divided by the sum
  return share_of(e, SEL(FCMP(OLT, x, F32(0)), t, F32(1)), t, F32(1));
}

static LV erf_of(Emit *e, LV x) {
  LV a = fp_abs(e, x), z = MUL(x, x);
  LV low = MAD(x, horner(e, z, erf_small_f32, ARRAY_LEN(erf_small_f32)), x);
  LV c = SEL(FCMP(OGT, a, F32(4.1)), F32(4.1), a);
  LV r = MAD(c, horner(e, c, erf_large_f32, ARRAY_LEN(erf_large_f32)), c);
  LV high = fp_copysign(e, SUB(F32(1), exp_of(e, NEG(r))), x);
  return SEL(FCMP(OLT, a, F32(1)), low, high);
}

// ---- through f64 ----

// Near 0 the first terms of the series are closer than the formula, which cancels there.
static LV near_zero(Emit *e, LV x, LV a, double cubic, LV r) {
  LV low = MAD(MUL(x, MUL(x, x)), F64(cubic), x);
  return SEL(FCMP(OLT, a, F64(0x1p-10)), low, fp_copysign(e, r, x));
}

static LV wide(Emit *e, LoopOp op, LV x) {
  LV a = fp_abs(e, x), one = F64(1), half = F64(0.5);
  switch ((int)op) {
  case LOOP_sin:
  case LOOP_cos:
  case LOOP_tan: return math_circular_f64(e, op, x);
  case LOOP_asin: return math_asin_f64(e, x);
  case LOOP_acos: return math_acos_f64(e, x);
  case LOOP_atan: return math_atan_f64(e, x);
  case LOOP_sinh: {
    LV t = near_exp(e, a);
    return near_zero(e, x, a, 1.0 / 6, MUL(half, SUB(t, DIV(one, t))));
  }
  case LOOP_cosh: {
    LV t = near_exp(e, a);
    return MUL(half, ADD(t, DIV(one, t)));
  }
  case LOOP_asinh:
    return near_zero(e, x, a, -1.0 / 6, near_log(e, ADD(a, fp_sqrt(e, MAD(a, a, one)))));
  case LOOP_acosh: {
    LV r = near_log(e, ADD(x, fp_sqrt(e, MAD(x, x, F64(-1)))));
    return SEL(FCMP(UGE, x, one), r, F64((double)NAN));
  }
  case LOOP_atanh:
    return near_zero(e, x, a, 1.0 / 3, MUL(half, near_log(e, DIV(ADD(one, a), SUB(one, a)))));
  }
  emit_fail(e, "%s does not take floats", loop_op_name[op]);
  return x;
}

LV math_f32(Emit *e, LoopOp op, LV x) {
  LV r = math_by_table(e, op, x);
  if (r) return r;
  switch ((int)op) {
  case LOOP_exp: return exp_of(e, x);
  case LOOP_log: return log_of(e, x);
  case LOOP_tanh: return tanh_of(e, x);
  case LOOP_sigmoid: return sigmoid_of(e, x);
  case LOOP_erf: return erf_of(e, x);
  }
  return TO_F32(wide(e, op, TO_F64(x)));
}
