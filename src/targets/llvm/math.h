// math.h -- short names for builders, and the functions that are written with them.
//
// Only files that define math functions or operations include this.  `e` is the Emit of the function around.
// Every function takes scalars and vectors alike, and calls nothing outside the module.
#ifndef TENON_TARGETS_LLVM_MATH_H
#define TENON_TARGETS_LLVM_MATH_H

#include "targets/llvm/emit.h"

#define ADD(a, b)       LLVMBuildFAdd(e->b, a, b, "")
#define SUB(a, b)       LLVMBuildFSub(e->b, a, b, "")
#define MUL(a, b)       LLVMBuildFMul(e->b, a, b, "")
#define DIV(a, b)       LLVMBuildFDiv(e->b, a, b, "")
#define NEG(a)          LLVMBuildFNeg(e->b, a, "")
#define IADD(a, b)      LLVMBuildAdd(e->b, a, b, "")
#define ISUB(a, b)      LLVMBuildSub(e->b, a, b, "")
#define IMUL(a, b)      LLVMBuildMul(e->b, a, b, "")
#define IAND(a, b)      LLVMBuildAnd(e->b, a, b, "")
#define IOR(a, b)       LLVMBuildOr(e->b, a, b, "")
#define IXOR(a, b)      LLVMBuildXor(e->b, a, b, "")
#define INOT(a)         LLVMBuildNot(e->b, a, "")
#define ISHL(a, b)      LLVMBuildShl(e->b, a, b, "")
#define ILSR(a, b)      LLVMBuildLShr(e->b, a, b, "")
#define IASR(a, b)      LLVMBuildAShr(e->b, a, b, "")
#define SEL(c, a, b)    LLVMBuildSelect(e->b, c, a, b, "")
#define FCMP(p, a, b)   LLVMBuildFCmp(e->b, LLVMReal##p, a, b, "")
#define ICMP(p, a, b)   LLVMBuildICmp(e->b, LLVMInt##p, a, b, "")
#define TRUNC(a, t)     LLVMBuildTrunc(e->b, a, type_like(a, t), "")
#define ZEXT(a, t)      LLVMBuildZExt(e->b, a, type_like(a, t), "")
#define SEXT(a, t)      LLVMBuildSExt(e->b, a, type_like(a, t), "")
#define BITS(a, t)      LLVMBuildBitCast(e->b, a, type_like(a, t), "")
#define TO_F64(a)       LLVMBuildFPExt(e->b, a, type_like(a, e->f64), "")
#define TO_F32(a)       LLVMBuildFPTrunc(e->b, a, type_like(a, e->f32), "")
#define SI_TO_F(a, t)   LLVMBuildSIToFP(e->b, a, type_like(a, t), "")
#define F_TO_SI(a, t)   LLVMBuildFPToSI(e->b, a, type_like(a, t), "")
#define F32(v)          const_real(e, x, e->f32, v)  // constants with the lanes of `x`
#define F64(v)          const_real(e, x, e->f64, v)
#define I8(v)           const_int(e, x, e->i8, v)
#define I16(v)          const_int(e, x, e->i16, v)
#define I32(v)          const_int(e, x, e->i32, v)
#define I64(v)          const_int(e, x, e->i64, (int64_t)(v))
#define MAD(a, b, c)    mad(e, a, b, c)

LV mad(Emit *e, LV a, LV b, LV c);  // a * b + c: rounded once where the machine can
LV fp_abs(Emit *e, LV x);
LV fp_copysign(Emit *e, LV x, LV sign);
LV fp_round(Emit *e, LoopOp how, LV x);  // round, floor, ceil
LV fp_sqrt(Emit *e, LV x);
LV fp_fmod(Emit *e, LV x, LV y);  // f64
LV horner(Emit *e, LV x, const double *c, int n);  // c[0] + c[1] x + ...: in x's type

// ---- f32 ----
LV math_f32(Emit *e, LoopOp op, LV x);  // every one-operand function
// ---- f64, to the last bits: every one-operand function, and pow ----
LV math_f64(Emit *e, LoopOp op, LV x);
LV math_pow_f64(Emit *e, LV x, LV y);
LV math_pow_f32(Emit *e, LV x, LV y);
// ---- f64, with about 2^-50: what f32 functions are rounded from ----
LV near_exp(Emit *e, LV x);
LV near_log(Emit *e, LV x);
// x = n * pi/2 + (hi + lo), |hi| <= pi/4; n modulo 4 as i64.
typedef struct Reduced {
  LV hi, lo, n;
} Reduced;
Reduced reduce_pi(Emit *e, LV x);
LV sin_poly(Emit *e, Reduced r);  // of hi + lo
LV cos_poly(Emit *e, Reduced r);
LV math_atan_f64(Emit *e, LV x);
LV math_asin_f64(Emit *e, LV x);
LV math_acos_f64(Emit *e, LV x);
LV math_erf_f64(Emit *e, LV x);

#endif
