// emit_int.c -- integer operations as LLVM IR, by eval/scalar.def.
//
// Needs:      operands of one integer type, scalars or vectors.
// Guarantees: exact, wrapped to the width of the type.  Division by zero uses another divisor and
//             sets the kernel's fault, which it reports when it ends; no instruction traps.
#include "targets/llvm/math.h"

void note_fault(Emit *e, LV where) {
  if (e->mask) where = IAND(splat(e, where, e->lanes), e->mask);
  LV byte = LLVMBuildZExt(e->b, any_lane(e, where), e->i8, "");
  LV old = LLVMBuildLoad2(e->b, e->i8, e->fault, "");
  LLVMBuildStore(e->b, IOR(old, byte), e->fault);
}

static LT elem_of(LV x) {
  LT t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

static LV divide(Emit *e, LoopOp op, bool uns, LV x, LV y) {
  LV zero = LLVMConstNull(LLVMTypeOf(x)), one = const_int(e, x, elem_of(x), 1);
  LV none = ICMP(EQ, y, zero);
  int64_t c;
  LV first = LLVMIsConstant(y) && value_lanes(y) ? LLVMGetAggregateElement(y, 0) : y;
  if (!(first && is_const_int(first, &c) && c)) note_fault(e, none);
  if (uns) {
    LV by = SEL(none, one, y);
    LV r = op == LOOP_div || op == LOOP_trunc_div ? LLVMBuildUDiv(e->b, x, by, "")
                                                  : LLVMBuildURem(e->b, x, by, "");
    return SEL(none, zero, r);
  }
  // x / -1 is -x, which the instruction refuses for the least number.
  LV minus = ICMP(EQ, y, const_int(e, x, elem_of(x), -1));
  LV by = SEL(IOR(none, minus), one, y);
  if (op == LOOP_div || op == LOOP_trunc_div) {
    LV r = LLVMBuildSDiv(e->b, x, by, "");
    return SEL(none, zero, SEL(minus, LLVMBuildNeg(e->b, x, ""), r));
  }
  LV r = SEL(IOR(none, minus), zero, LLVMBuildSRem(e->b, x, by, ""));
  if (op == LOOP_fmod) return r;
  LV differ = IAND(ICMP(NE, r, zero), ICMP(SLT, IXOR(r, y), zero));
  return SEL(differ, IADD(r, y), r);
}

// Squares while any exponent has bits left.
static LV power(Emit *e, bool uns, LV x, LV y) {
  LT elem = elem_of(x), type = LLVMTypeOf(x);
  LV zero = LLVMConstNull(type), one = const_int(e, x, elem, 1), least = const_int(e, x, elem, -1);
  LV exp0 = uns ? y : SEL(ICMP(SLT, y, zero), zero, y);
  LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), loop = new_block(e, "pow"),
                    done = new_block(e, "done");
  LLVMBuildBr(e->b, loop);
  LLVMPositionBuilderAtEnd(e->b, loop);
  LV b = LLVMBuildPhi(e->b, type, ""), n = LLVMBuildPhi(e->b, type, ""),
     r = LLVMBuildPhi(e->b, type, "");
  LV odd = ICMP(NE, IAND(n, one), zero);
  LV r1 = SEL(odd, IMUL(r, b), r), b1 = IMUL(b, b), n1 = ILSR(n, one);
  LLVMBasicBlockRef in[] = {from, loop};
  LLVMAddIncoming(b, (LV[]){x, b1}, in, 2);
  LLVMAddIncoming(n, (LV[]){exp0, n1}, in, 2);
  LLVMAddIncoming(r, (LV[]){one, r1}, in, 2);
  LLVMBuildCondBr(e->b, any_lane(e, ICMP(NE, n1, zero)), loop, done);
  LLVMPositionBuilderAtEnd(e->b, done);
  if (uns) return r1;
  LV odd_y = ICMP(NE, IAND(y, one), zero);
  LV inverse = SEL(ICMP(EQ, x, one), one, SEL(ICMP(EQ, x, least), SEL(odd_y, least, one), zero));
  return SEL(ICMP(SLT, y, zero), inverse, r1);
}

static LV shift(Emit *e, LoopOp op, bool uns, int bits, LV x, LV y) {
  LV zero = LLVMConstNull(LLVMTypeOf(x)), width = const_int(e, x, elem_of(x), bits);
  LV inside = ICMP(ULT, y, width);
  if (op == LOOP_shift_left) return SEL(inside, ISHL(x, SEL(inside, y, zero)), zero);
  if (uns) return SEL(inside, ILSR(x, SEL(inside, y, zero)), zero);
  return IASR(x, SEL(inside, y, const_int(e, x, elem_of(x), bits - 1)));
}

static LV compare(Emit *e, LoopOp op, bool uns, LV x, LV y) {
  switch ((int)op) {
  case LOOP_eq: return ICMP(EQ, x, y);
  case LOOP_lt: return uns ? ICMP(ULT, x, y) : ICMP(SLT, x, y);
  }
  return uns ? ICMP(ULE, x, y) : ICMP(SLE, x, y);
}

LV op_int(Emit *e, LoopOp op, DType t, LV x, LV y) {
  bool uns = dtype_class(t) == DC_UINT;
  LV zero = LLVMConstNull(LLVMTypeOf(x)), one = const_int(e, x, elem_of(x), 1);
  LV minus = const_int(e, x, elem_of(x), -1);
  switch ((int)op) {
  case LOOP_add: return IADD(x, y);
  case LOOP_sub: return ISUB(x, y);
  case LOOP_mul: return IMUL(x, y);
  case LOOP_div:
  case LOOP_trunc_div:
  case LOOP_mod:
  case LOOP_fmod: return divide(e, op, uns, x, y);
  case LOOP_pow: return power(e, uns, x, y);
  case LOOP_min: return SEL(compare(e, LOOP_lt, uns, x, y), x, y);
  case LOOP_max: return SEL(compare(e, LOOP_lt, uns, y, x), x, y);
  case LOOP_bit_and: return IAND(x, y);
  case LOOP_bit_or: return IOR(x, y);
  case LOOP_bit_xor: return IXOR(x, y);
  case LOOP_bit_not: return INOT(x);
  case LOOP_shift_left:
  case LOOP_shift_right: return shift(e, op, uns, dtype_bits(t), x, y);
  case LOOP_eq:
  case LOOP_lt:
  case LOOP_le: return compare(e, op, uns, x, y);
  case LOOP_neg: return ISUB(zero, x);
  case LOOP_abs: return uns ? x : SEL(ICMP(SLT, x, zero), ISUB(zero, x), x);
  case LOOP_sign:
    return uns ? SEL(ICMP(NE, x, zero), one, zero)
               : SEL(ICMP(SGT, x, zero), one, SEL(ICMP(SLT, x, zero), minus, zero));
  case LOOP_ceil:
  case LOOP_floor: return x;
  case LOOP_relu: return uns ? x : SEL(ICMP(SLT, x, zero), zero, x);
  case LOOP_erf: {  // truncated: whole only once erf rounds to 1, from 6 on
    LV six = const_int(e, x, elem_of(x), 6), less = const_int(e, x, elem_of(x), -6);
    if (uns) return SEL(ICMP(UGE, x, six), one, zero);
    return SEL(ICMP(SGE, x, six), one, SEL(ICMP(SLE, x, less), minus, zero));
  }
  }
  emit_fail(e, "%s does not take %s", loop_op_name[op], dtype_name(t));
  return x;
}
