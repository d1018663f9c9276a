// emit_dot.c -- operations on the bytes of words as LLVM IR: `dot`, packed int8 or bf16 products
// added to a sum, and `lookup` in a table of 16 bytes.
//
// One instruction where the machine has it: VNNI for int8, AVX512-BF16 for bf16.  Without VNNI, x86
// widens even and odd bytes to 16 bits and multiplies in pairs (pmaddwd).  Other machines go byte
// by byte.  A lookup is pshufb or tbl; elsewhere halves of the table are chosen by bit after bit.
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

// ---- lookups ----

// The table once for each 128 bits, as bytes.
static LV table_of(Emit *e, uint64_t low, uint64_t high, int bytes) {
  LV v[64];
  for (int i = 0; i < bytes; i++)
    v[i] = const_int(e, NULL, e->i8, (int64_t)((i % 16 < 8 ? low : high) >> 8 * (i % 8) & 255));
  return LLVMConstVector(v, (unsigned)bytes);
}

// Each byte of x is below 16.  NULL: the machine has no instruction for so many lanes.
static LV lookup_bytes(Emit *e, LV x, uint64_t low, uint64_t high) {
  int lanes = value_lanes(x), bytes = 4 * lanes;
  uint32_t has = e->m->has;
  const char *name = NULL;
  if (e->m->arch == ARCH_X86_64) {
    if (lanes == 16 && has & CPU_AVX512) name = "llvm.x86.avx512.pshuf.b.512";
    if (lanes == 8 && has & CPU_AVX2) name = "llvm.x86.avx2.pshuf.b";
    if (lanes == 4 && has & CPU_SSE41) name = "llvm.x86.ssse3.pshuf.b.128";
    if (!name) return NULL;
    LV y = call2(e, name, table_of(e, low, high, bytes), as_vector(e, x, e->i8, bytes));
    return as_vector(e, y, e->i32, lanes);
  }
  if (e->m->arch != ARCH_AARCH64 || lanes != 4) return NULL;
  LT over = LLVMVectorType(e->i8, 16);
  LV args[] = {table_of(e, low, high, 16), as_vector(e, x, e->i8, 16)};
  return as_vector(e, call_intrinsic(e, "llvm.aarch64.neon.tbl1", &over, 1, args, 2), e->i32, 4);
}

LV lookup_emit(Emit *e, LV x, uint64_t low, uint64_t high) {
  LV whole = lookup_bytes(e, IAND(x, I32(0x0f0f0f0f)), low, high), v[16];
  if (whole) return whole;
  for (int i = 0; i < 16; i++)
    v[i] = I32((int64_t)((i < 8 ? low : high) >> 8 * (i % 8) & 255) * 0x01010101);
  for (int bit = 0, n = 8; n; bit++, n /= 2) {
    LV set = IMUL(IAND(ILSR(x, I32(bit)), I32(0x01010101)), I32(255));
    for (int i = 0; i < n; i++) v[i] = IXOR(v[2 * i], IAND(IXOR(v[2 * i], v[2 * i + 1]), set));
  }
  return v[0];
}
