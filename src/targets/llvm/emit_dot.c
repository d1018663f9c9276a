// emit_dot.c -- the operation `dot` as LLVM IR: packed int8 or bf16 products added to a sum.
//
// One instruction where the machine has it: VNNI for int8, AVX512-BF16 for bf16.  Without VNNI, x86
// widens even and odd bytes to 16 bits and multiplies in pairs (pmaddwd).  Other machines go byte
// by byte.
//
// Needs:      words of four bytes, unsigned in x and signed in y; or of two bf16.
// Guarantees: int8 sums are exact and wrap at 32 bits on every machine: nothing saturates.  bf16
//             without the instruction is two FMAs; with it the machine rounds as it does.
#include "targets/llvm/math.h"

static LV call3(Emit *e, const char *name, LV a, LV b, LV c) {
  LV args[] = {a, b, c};
  return call_intrinsic(e, name, NULL, 0, args, 3);
}

static LV call2(Emit *e, const char *name, LV a, LV b) {
  LV args[] = {a, b};
  return call_intrinsic(e, name, NULL, 0, args, 2);
}

static LV as_vector(Emit *e, LV x, LT elem, int n) {
  return LLVMBuildBitCast(e->b, x, LLVMVectorType(elem, (unsigned)n), "");
}

// ---- bytes ----

static LV bytes_by_part(Emit *e, LV x, LV y, LV sum) {
  for (int i = 0; i < 4; i++) {
    LV a = IAND(ILSR(x, I32(8 * i)), I32(255));
    LV b = IASR(ISHL(y, I32(24 - 8 * i)), I32(24));
    sum = IADD(sum, IMUL(a, b));
  }
  return sum;
}

static LV bytes_in_pairs(Emit *e, const char *name, LV x, LV y, LV sum) {
  int n = 2 * value_lanes(x);
  LV a = as_vector(e, x, e->i16, n), b = as_vector(e, y, e->i16, n);
  LV eight = const_int(e, a, e->i16, 8);
  LV even = call2(e, name, IAND(a, const_int(e, a, e->i16, 255)), IASR(ISHL(b, eight), eight));
  LV odd = call2(e, name, ILSR(a, eight), IASR(b, eight));
  return IADD(sum, IADD(even, odd));
}

static LV dot_bytes(Emit *e, LV x, LV y, LV sum) {
  int lanes = value_lanes(x);
  uint32_t has = e->m->arch == ARCH_X86_64 ? e->m->has : 0;
  if (has & CPU_VNNI) {
    if (lanes == 16) return call3(e, "llvm.x86.avx512.vpdpbusd.512", sum, x, y);
    if (lanes == 8) return call3(e, "llvm.x86.avx512.vpdpbusd.256", sum, x, y);
    if (lanes == 4) return call3(e, "llvm.x86.avx512.vpdpbusd.128", sum, x, y);
  }
  if (lanes == 16 && has & CPU_AVX512)
    return bytes_in_pairs(e, "llvm.x86.avx512.pmaddw.d.512", x, y, sum);
  if (lanes == 8 && has & CPU_AVX2) return bytes_in_pairs(e, "llvm.x86.avx2.pmadd.wd", x, y, sum);
  if (lanes == 4 && e->m->arch == ARCH_X86_64)
    return bytes_in_pairs(e, "llvm.x86.sse2.pmadd.wd", x, y, sum);
  return bytes_by_part(e, x, y, sum);
}

// ---- pairs of bf16 ----

static LV dot_pairs(Emit *e, LV x, LV y, LV sum) {
  int lanes = value_lanes(x);
  LT bf16 = LLVMBFloatTypeInContext(e->ctx);
  if (e->m->arch == ARCH_X86_64 && e->m->has & CPU_BF16) {
    const char *name = lanes == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
                       : lanes == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
                       : lanes == 4 ? "llvm.x86.avx512bf16.dpbf16ps.128"
                                    : NULL;
    if (name)
      return call3(e, name, sum, as_vector(e, x, bf16, 2 * lanes),
                   as_vector(e, y, bf16, 2 * lanes));
  }
  LV high = I32(0xFFFF0000);
  sum = op_fma(e, BITS(IAND(x, high), e->f32), BITS(IAND(y, high), e->f32), sum);
  LV low = I32(16);
  return op_fma(e, BITS(ISHL(x, low), e->f32), BITS(ISHL(y, low), e->f32), sum);
}

LV dot_emit(Emit *e, DType t, LV x, LV y, LV sum) {
  return t == DT_F32 ? dot_pairs(e, x, y, sum) : dot_bytes(e, x, y, sum);
}
