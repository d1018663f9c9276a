// emit_op.c -- float operations as LLVM IR, by eval/scalar.def.
//
// f32 and f64 are computed in their own type: one rounding of the exact result is what the
// reference evaluation in double gives too.  Narrow floats go through f32, or through f64 where f32
// would round twice.  Machines without FMA emulate it by exact sums and products.
//
// Needs:      operands of one float type, scalars or vectors.
// Guarantees: fma is rounded once on every machine.  Functions (math_*.c) are the same polynomials
//             on every machine; `mad` inside them is fused only where the machine has FMA.
#include "targets/llvm/math.h"
#include "targets/llvm/pair.h"

#include <math.h>
#include <stdio.h>

LV mad(Emit *e, LV a, LV b, LV c) {
  if (e->m->has_fma) return intrinsic(e, "llvm.fma", a, 3, a, b, c);
  return ADD(MUL(a, b), c);
}

LV horner(Emit *e, LV x, const double *c, int n) {
  LT elem = LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind ? LLVMGetElementType(LLVMTypeOf(x))
                                                                 : LLVMTypeOf(x);
  LV r = const_real(e, x, elem, c[n - 1]);
  for (int i = n - 2; i >= 0; i--) r = mad(e, r, x, const_real(e, x, elem, c[i]));
  return r;
}

LV fp_abs(Emit *e, LV x) { return intrinsic(e, "llvm.fabs", x, 1, x, NULL, NULL); }
LV fp_sqrt(Emit *e, LV x) { return intrinsic(e, "llvm.sqrt", x, 1, x, NULL, NULL); }
LV fp_copysign(Emit *e, LV x, LV sign) {
  return intrinsic(e, "llvm.copysign", x, 2, x, sign, NULL);
}

static bool is_f64(Emit *e, LV x) {
  LT t = LLVMTypeOf(x);
  return (LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t) == e->f64;
}

// Without an instruction for it: adding 2^52 (2^23) leaves no bits for a fraction.
static LV round_by_adding(Emit *e, LoopOp how, LV x) {
  LT elem = is_f64(e, x) ? e->f64 : e->f32;
  LV big = const_real(e, x, elem, is_f64(e, x) ? 0x1p52 : 0x1p23), a = fp_abs(e, x);
  LV r = fp_copysign(e, SUB(ADD(a, big), big), x);
  LV one = const_real(e, x, elem, 1), zero = const_real(e, x, elem, 0);
  if (how == LOOP_floor) r = SUB(r, SEL(FCMP(OGT, r, x), one, zero));
  if (how == LOOP_ceil) r = ADD(r, SEL(FCMP(OLT, r, x), one, zero));
  r = fp_copysign(e, r, x);
  return SEL(FCMP(OLT, a, big), r, x);
}

LV fp_round(Emit *e, LoopOp how, LV x) {
  if (!e->m->has_round) return round_by_adding(e, how, x);
  const char *name = how == LOOP_floor  ? "llvm.floor"
                     : how == LOOP_ceil ? "llvm.ceil"
                                        : "llvm.nearbyint";
  return intrinsic(e, name, x, 1, x, NULL, NULL);
}

// ---- a fused multiply-add for machines without one ----

// hi + lo rounded to odd: hi is moved toward lo when it is even.
static LV add_odd(Emit *e, LV a, LV b) {
  Pair s = pair_sum(e, a, b);
  LV x = s.hi, bits = BITS(x, e->i64);
  LV even = ICMP(EQ, IAND(bits, I64(1)), I64(0));
  LV fix = IAND(even, FCMP(ONE, s.lo, F64(0)));
  LV up = ICMP(SGE, IXOR(bits, BITS(s.lo, e->i64)), I64(0));  // away from 0
  LV moved = SEL(up, IADD(bits, I64(1)), ISUB(bits, I64(1)));
  return SEL(fix, BITS(moved, e->f64), x);
}

static LV fma_by_parts(Emit *e, LV x, LV y, LV z) {
  if (!is_f64(e, x)) {  // the product of two f32 is exact in f64
    LV s = add_odd(e, MUL(TO_F64(x), TO_F64(y)), TO_F64(z));
    return TO_F32(s);
  }
  Pair u = pair_product(e, x, y), t = pair_sum(e, z, u.lo), v = pair_sum(e, u.hi, t.hi);
  LV r = ADD(v.hi, add_odd(e, t.lo, v.lo)), plain = ADD(MUL(x, y), z);
  LV sane = FCMP(OLT, fp_abs(e, u.hi), F64(0x1p900));
  return SEL(IAND(sane, FCMP(ORD, r, r)), r, plain);
}

// The same as a function of the module, one for each type: written out it is some 700 bytes of
// code.
static LV fma_function(Emit *e, LT type) {
  LT params[3] = {type, type, type}, of = LLVMFunctionType(type, params, 3, 0);
  char *elem = LLVMPrintTypeToString(type), name[96];
  snprintf(name, sizeof name, "fma.%s", elem);
  LLVMDisposeMessage(elem);
  LV fn = LLVMGetNamedFunction(e->mod, name);
  if (fn) return fn;
  LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
  fn = LLVMAddFunction(e->mod, name, of);
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  emit_describe(e, fn);
  unsigned noinline = LLVMGetEnumAttributeKindForName("noinline", strlen("noinline"));
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->ctx, noinline, 0));
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, fn, ""));
  LLVMBuildRet(e->b,
               fma_by_parts(e, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2)));
  LLVMPositionBuilderAtEnd(e->b, from);
  return fn;
}

LV op_fma(Emit *e, LV x, LV y, LV z) {
  enum { INLINED = 16 };  // of a kernel
  if (e->m->has_fma) return intrinsic(e, "llvm.fma", x, 3, x, y, z);
  if (e->fmas++ < INLINED) return fma_by_parts(e, x, y, z);
  LV fn = fma_function(e, LLVMTypeOf(x)), args[3] = {x, y, z};
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 3, "");
}

// ---- remainders ----

// In whole numbers: x = mx 2^ex, y = my 2^ey; mx 2^(ex-ey) mod my, eleven bits at a time.
// Subnormal numbers need no care: they have the least exponent and no hidden bit.
LV fp_fmod(Emit *e, LV x, LV y) {
  LV mag = I64(INT64_MAX), xb = IAND(BITS(x, e->i64), mag), yb = IAND(BITS(y, e->i64), mag);
  LV frac = I64(0xFFFFFFFFFFFFF), hidden = I64(0x10000000000000), zero = I64(0), one = I64(1);
  LV xf = ILSR(xb, I64(52)), yf = ILSR(yb, I64(52));
  LV mx = IOR(IAND(xb, frac), SEL(ICMP(EQ, xf, zero), zero, hidden));
  LV my = IOR(IAND(yb, frac), SEL(ICMP(EQ, yf, zero), zero, hidden));
  LV ex = SEL(ICMP(EQ, xf, zero), one, xf), ey = SEL(ICMP(EQ, yf, zero), one, yf);
  LV usable = IAND(ICMP(NE, yb, zero), ICMP(ULT, xb, I64(0x7FF0000000000000)));
  my = SEL(usable, my, one);
  LV left0 = SEL(IAND(usable, ICMP(SGE, ex, ey)), ISUB(ex, ey), zero);
  LV r0 = LLVMBuildURem(e->b, mx, my, "");
  LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), loop = new_block(e, "fmod"),
                    done = new_block(e, "done");
  LLVMBuildBr(e->b, loop);
  LLVMPositionBuilderAtEnd(e->b, loop);
  LV left = LLVMBuildPhi(e->b, LLVMTypeOf(left0), ""), r = LLVMBuildPhi(e->b, LLVMTypeOf(r0), "");
  LV step = SEL(ICMP(SLT, left, I64(11)), left, I64(11));
  LV next = LLVMBuildURem(e->b, ISHL(r, step), my, ""), rest = ISUB(left, step);
  LLVMAddIncoming(left, (LV[]){left0, rest}, (LLVMBasicBlockRef[]){from, loop}, 2);
  LLVMAddIncoming(r, (LV[]){r0, next}, (LLVMBasicBlockRef[]){from, loop}, 2);
  LLVMBuildCondBr(e->b, any_lane(e, ICMP(SGT, rest, zero)), loop, done);
  LLVMPositionBuilderAtEnd(e->b, done);
  LV half = ILSR(ey, one),
     other = ISUB(ey, half);  // 2^(ey-1075) in two factors; both products are exact
  LV s1 = BITS(ISHL(IADD(half, I64(1023 - 537)), I64(52)), e->f64);
  LV s2 = BITS(ISHL(IADD(other, I64(1023 - 538)), I64(52)), e->f64);
  LV v = MUL(MUL(SI_TO_F(next, e->f64), s1), s2);
  v = SEL(ICMP(ULT, xb, yb), fp_abs(e, x), v);
  v = fp_copysign(e, v, x);
  LV nan = DIV(MUL(x, y), MUL(x, y));
  LV lost = IOR(FCMP(UNO, x, y), IOR(ICMP(EQ, yb, zero), ICMP(EQ, xb, I64(0x7FF0000000000000))));
  return SEL(lost, SEL(FCMP(UNO, nan, nan), nan, F64((double)NAN)), v);
}

static LV remainder_of(Emit *e, LoopOp op, LV x, LV y) {
  bool wide = is_f64(e, x);
  LV r = fp_fmod(e, wide ? x : TO_F64(x), wide ? y : TO_F64(y));
  if (!wide) r = TO_F32(r);
  if (op == LOOP_fmod) return r;
  LV zero = LLVMConstNull(LLVMTypeOf(r));
  LV differ = IXOR(FCMP(OLT, r, zero), FCMP(OLT, y, zero));
  return SEL(IAND(FCMP(UNE, r, zero), differ), ADD(r, y), r);
}

// ---- the table of float operations ----

static bool const_not_zero(LV x) {
  LLVMBool loses;
  if (value_lanes(x) && LLVMIsConstant(x)) x = LLVMGetAggregateElement(x, 0);
  if (!x || !LLVMIsAConstantFP(x)) return false;
  double v = LLVMConstRealGetDouble(x, &loses);
  return v < 0 || v > 0;
}

// A number as the first lane of a vector of 128 bits.
static LV as_lane(Emit *e, LV x) {
  LT t = LLVMVectorType(LLVMTypeOf(x), is_f64(e, x) ? 2 : 4);
  return LLVMBuildInsertElement(e->b, LLVMGetPoison(t), x, const_int(e, NULL, e->i32, 0), "");
}

// vrangeps and vrangepd order zeros by their sign and leave NaNs out, which a sum puts back: three
// instructions for six or more.  NULL: the machine has none for these lanes.
static LV pick_by_range(Emit *e, LoopOp op, LV x, LV y) {
  bool wide = is_f64(e, x), single = !value_lanes(x);
  LV a = single ? as_lane(e, x) : x, b = single ? as_lane(e, y) : y;
  int lanes = value_lanes(a), bits = lanes * (wide ? 64 : 32);
  if (!(e->m->has & CPU_AVX512) || (bits != 128 && bits != 256 && bits != 512)) return NULL;
  char name[64];
  snprintf(name, sizeof name, "llvm.x86.avx512.mask.range.%s.%d", wide ? "pd" : "ps", bits);
  LV all = LLVMConstAllOnes(LLVMIntTypeInContext(e->ctx, (unsigned)MAX(lanes, 8)));
  LV how = const_int(e, NULL, e->i32, op == LOOP_min ? 4 : 5),
     round = const_int(e, NULL, e->i32, 4);
  LV args[] = {a, b, how, a, all, round};
  LV r = call_intrinsic(e, name, NULL, 0, args, bits == 512 ? 6 : 5);
  if (single) r = LLVMBuildExtractElement(e->b, r, const_int(e, NULL, e->i32, 0), "");
  return SEL(FCMP(UNO, x, y), ADD(x, y), r);
}

static LV pick(Emit *e, LoopOp op, LV x, LV y) {
  // Against a constant that is no zero and no NaN one comparison decides: the order of -0 and 0
  // cannot matter.
  if (const_not_zero(x)) {
    LV t = x;
    x = y;
    y = t;
  }
  if (const_not_zero(y)) return SEL(op == LOOP_min ? FCMP(OLT, y, x) : FCMP(OLT, x, y), y, x);
  LV r = pick_by_range(e, op, x, y);
  if (r) return r;
  return intrinsic(e, op == LOOP_min ? "llvm.minimum" : "llvm.maximum", x, 2, x, y, NULL);
}

static LV sign_of(Emit *e, LV x) {
  LV zero = LLVMConstNull(LLVMTypeOf(x));
  LT t = is_f64(e, x) ? e->f64 : e->f32;
  LV r = SEL(FCMP(OGT, x, zero), const_real(e, x, t, 1),
             SEL(FCMP(OLT, x, zero), const_real(e, x, t, -1), zero));
  return SEL(FCMP(UNO, x, x), x, r);
}

// Floor and ceil of a subnormal are not 0: its bits say what it is even while the machine takes it
// for zero.
static LV step_of(Emit *e, LoopOp how, LV x) {
  bool wide = is_f64(e, x), down = how == LOOP_floor;
  LT t = wide ? e->i64 : e->i32;
  int64_t sign = wide ? INT64_MIN : INT32_MIN, normal = wide ? (int64_t)1 << 52 : 1 << 23;
  LV behind = ISUB(BITS(x, t), const_int(e, x, t, (down ? sign : 0) + 1));
  LV tiny = ICMP(ULT, behind, const_int(e, x, t, normal - 1));
  return SEL(tiny, const_real(e, x, wide ? e->f64 : e->f32, down ? -1 : 1), fp_round(e, how, x));
}

static LV tf32_of(Emit *e, LV x) {
  LV near = IADD(BITS(x, e->i32), const_int(e, x, e->i32, 0x1000));
  LV r = BITS(IAND(near, const_int(e, x, e->i32, (int32_t)0xffffe000)), e->f32);
  return SEL(FCMP(UNO, x, x), x, r);
}

static LV float_op(Emit *e, LoopOp op, LV x, LV y, LV z) {
  LV zero = LLVMConstNull(LLVMTypeOf(x));
  LT t = is_f64(e, x) ? e->f64 : e->f32;
  switch ((int)op) {
  case LOOP_add: return ADD(x, y);
  case LOOP_sub: return SUB(x, y);
  case LOOP_mul: return MUL(x, y);
  case LOOP_div: return DIV(x, y);
  case LOOP_fma: return op_fma(e, x, y, z);
  case LOOP_mod:
  case LOOP_fmod: return remainder_of(e, op, x, y);
  case LOOP_pow: return t == e->f64 ? math_pow_f64(e, x, y) : math_pow_f32(e, x, y);
  case LOOP_min:
  case LOOP_max: return pick(e, op, x, y);
  case LOOP_eq: return FCMP(OEQ, x, y);
  case LOOP_lt: return FCMP(OLT, x, y);
  case LOOP_le: return FCMP(OLE, x, y);
  case LOOP_neg: return NEG(x);
  case LOOP_abs: return fp_abs(e, x);
  case LOOP_sign: return sign_of(e, x);
  case LOOP_ceil:
  case LOOP_floor: return step_of(e, op, x);
  case LOOP_round: return fp_round(e, op, x);
  case LOOP_sqrt: return fp_sqrt(e, x);
  case LOOP_reciprocal: return DIV(const_real(e, x, t, 1), x);
  case LOOP_relu: return SEL(FCMP(OLT, x, zero), zero, x);
  case LOOP_is_nan: return FCMP(UNO, x, x);
  case LOOP_tf32: return tf32_of(e, x);
  }
  return t == e->f64 ? math_f64(e, op, x) : math_f32(e, op, x);
}

// Narrow floats.  A fused multiply-add keeps more bits than f32 has before it rounds; f64 keeps
// what matters.
static LV narrow_op(Emit *e, LoopOp op, DType t, LV x, LV y, LV z) {
  x = float_widen(e, t, x);
  if (y) y = float_widen(e, t, y);
  if (z) z = float_widen(e, t, z);
  if (op == LOOP_fma) {
    LV r = add_odd(e, MUL(TO_F64(x), TO_F64(y)), TO_F64(z));
    return float_narrow(e, t, f64_to_f32_odd(e, r));
  }
  LV r = float_op(e, op, x, y, z);
  return loop_op_is_compare(op) ? r : float_narrow(e, t, r);
}

static LV bool_op(Emit *e, LoopOp op, LV x, LV y) {
  switch ((int)op) {
  case LOOP_and:
  case LOOP_min: return IAND(x, y);
  case LOOP_or:
  case LOOP_max: return IOR(x, y);
  case LOOP_xor: return IXOR(x, y);
  case LOOP_not: return INOT(x);
  case LOOP_eq: return INOT(IXOR(x, y));
  }
  emit_fail(e, "%s does not take bool", loop_op_name[op]);
  return x;
}

LV op_emit(Emit *e, LoopOp op, DType t, LV x, LV y, LV z) {
  if (t == DT_BOOL) return bool_op(e, op, x, y);
  if (t == DT_F32 || t == DT_F64) return float_op(e, op, x, y, z);
  if (dtype_is_float(t)) return narrow_op(e, op, t, x, y, z);
  return op_int(e, op, t, x, y);
}
