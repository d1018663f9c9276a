// math.h -- short names for builders, and the functions that are written with them.
//
// Only files that define math functions or operations include this.  `e` is the Emit of the
// function around.  Every function takes scalars and vectors alike, and calls nothing outside the
// module.
#ifndef TENON_TARGETS_LLVM_MATH_H
#define TENON_TARGETS_LLVM_MATH_H

#include "targets/llvm/emit.h"

#define ADD(u_, v_)      LLVMBuildFAdd(e->b, u_, v_, "")
#define SUB(u_, v_)      LLVMBuildFSub(e->b, u_, v_, "")
#define MUL(u_, v_)      LLVMBuildFMul(e->b, u_, v_, "")
#define DIV(u_, v_)      LLVMBuildFDiv(e->b, u_, v_, "")
#define NEG(u_)          LLVMBuildFNeg(e->b, u_, "")
#define IADD(u_, v_)     LLVMBuildAdd(e->b, u_, v_, "")
#define ISUB(u_, v_)     LLVMBuildSub(e->b, u_, v_, "")
#define IMUL(u_, v_)     LLVMBuildMul(e->b, u_, v_, "")
#define IAND(u_, v_)     LLVMBuildAnd(e->b, u_, v_, "")
#define IOR(u_, v_)      LLVMBuildOr(e->b, u_, v_, "")
#define IXOR(u_, v_)     LLVMBuildXor(e->b, u_, v_, "")
#define INOT(u_)         LLVMBuildNot(e->b, u_, "")
#define ISHL(u_, v_)     LLVMBuildShl(e->b, u_, v_, "")
#define ILSR(u_, v_)     LLVMBuildLShr(e->b, u_, v_, "")
#define IASR(u_, v_)     LLVMBuildAShr(e->b, u_, v_, "")
#define SEL(w_, u_, v_)  LLVMBuildSelect(e->b, w_, u_, v_, "")
#define FCMP(p_, u_, v_) LLVMBuildFCmp(e->b, LLVMReal##p_, u_, v_, "")
#define ICMP(p_, u_, v_) LLVMBuildICmp(e->b, LLVMInt##p_, u_, v_, "")
// Conversions to an element type; functions, since they look at their operand twice.
#define CONVERSION(name, builder)                                                                  \
  static inline LV name##_(Emit *e, LV v, LT t) { return builder(e->b, v, type_like(v, t), ""); }
CONVERSION(trunc, LLVMBuildTrunc)
CONVERSION(zext, LLVMBuildZExt)
CONVERSION(sext, LLVMBuildSExt)
CONVERSION(bits, LLVMBuildBitCast)
CONVERSION(si_to_f, LLVMBuildSIToFP)
CONVERSION(f_to_si, LLVMBuildFPToSI)
CONVERSION(fp_ext, LLVMBuildFPExt)
CONVERSION(fp_trunc, LLVMBuildFPTrunc)
#define TRUNC(u_, t_)   trunc_(e, u_, t_)
#define ZEXT(u_, t_)    zext_(e, u_, t_)
#define SEXT(u_, t_)    sext_(e, u_, t_)
#define BITS(u_, t_)    bits_(e, u_, t_)
#define SI_TO_F(u_, t_) si_to_f_(e, u_, t_)
#define F_TO_SI(u_, t_) f_to_si_(e, u_, t_)
#define TO_F64(u_)      fp_ext_(e, u_, e->f64)
#define TO_F32(u_)      fp_trunc_(e, u_, e->f32)
#define F32(v_)         const_real(e, x, e->f32, v_)  // constants with the lanes of `x`
#define F64(v_)         const_real(e, x, e->f64, v_)
#define I8(v_)          const_int(e, x, e->i8, v_)
#define I16(v_)         const_int(e, x, e->i16, v_)
#define I32(v_)         const_int(e, x, e->i32, v_)
#define I64(v_)         const_int(e, x, e->i64, (int64_t)(v_))
#define MAD(u_, v_, w_) mad(e, u_, v_, w_)

LV mad(Emit *e, LV a, LV b, LV c);  // a * b + c: rounded once where the machine can
LV fp_abs(Emit *e, LV x);
LV fp_copysign(Emit *e, LV x, LV sign);
LV fp_round(Emit *e, LoopOp how, LV x);  // round, floor, ceil
LV fp_sqrt(Emit *e, LV x);
LV fp_fmod(Emit *e, LV x, LV y);                   // f64
LV horner(Emit *e, LV x, const double *c, int n);  // c[0] + c[1] x + ...: in x's type

// ---- f32 ----
LV math_f32(Emit *e, LoopOp op, LV x);       // every one-operand function
LV math_by_table(Emit *e, LoopOp op, LV x);  // erf, tanh; NULL: this machine has no table for it
// ---- f64, to the last bits: every one-operand function, and pow ----
LV math_f64(Emit *e, LoopOp op, LV x);
LV math_pow_f64(Emit *e, LV x, LV y);
LV share_of(Emit *e, LV num, LV t, LV one);
LV math_pow_f32(Emit *e, LV x, LV y);
// ---- f64, with about 2^-50: what f32 functions are rounded from ----
LV near_exp(Emit *e, LV x);
LV near_log(Emit *e, LV x);
LV math_circular_f64(Emit *e, LoopOp op, LV x);  // sin, cos, tan
LV math_atan_f64(Emit *e, LV x);
LV math_asin_f64(Emit *e, LV x);
LV math_acos_f64(Emit *e, LV x);
LV math_erf_f64(Emit *e, LV x);

#endif
