// emit_util.c -- small LLVM IR builders that scalars and vectors share.
//
// Needs:      Emit has context, module and builder; emit_types has run.
// Guarantees: a builder keeps the lanes of its operand.  emit_fail keeps the first reason and lets
//             emission go on; emit_plain makes emit_kernel begin again without the loop's lanes.
#include "targets/llvm/emit.h"

#include <stdarg.h>
#include <stdio.h>

void emit_fail(Emit *e, const char *fmt, ...) {
  if (e->status) return;
  va_list ap;
  va_start(ap, fmt);
  const char *text = str_vprintf(e->arena, fmt, ap);
  va_end(ap);
  e->status = fail(e->d, TENON_EINTERNAL, (Where){0}, "%s", text);
}

void emit_plain(Emit *e, const LoopStmt *s, const char *why) {
  uint64_t was;
  if (e->status) return;
  if (!s || intmap_get(&e->plain, (uint64_t)(uintptr_t)s, &was)) {
    emit_fail(e, "%s", why);
    return;
  }
  intmap_put(&e->plain, (uint64_t)(uintptr_t)s, 1);
  e->again = true;
  e->status = TENON_EINTERNAL;
}

void emit_types(Emit *e) {
  e->i1 = LLVMInt1TypeInContext(e->ctx);
  e->i8 = LLVMInt8TypeInContext(e->ctx);
  e->i16 = LLVMInt16TypeInContext(e->ctx);
  e->i32 = LLVMInt32TypeInContext(e->ctx);
  e->i64 = LLVMInt64TypeInContext(e->ctx);
  e->f32 = LLVMFloatTypeInContext(e->ctx);
  e->f64 = LLVMDoubleTypeInContext(e->ctx);
  e->ptr = LLVMPointerTypeInContext(e->ctx, 0);
}

int value_lanes(LV x) {
  LT t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 0;
}

LT type_like(LV x, LT elem) {
  int n = value_lanes(x);
  return n ? LLVMVectorType(elem, (unsigned)n) : elem;
}

static LV const_splat(LV one, int lanes) {
  LV v[LOOP_LANES];
  CHECK(lanes <= LOOP_LANES, "%d lanes", lanes);
  for (int i = 0; i < lanes; i++) v[i] = one;
  return LLVMConstVector(v, (unsigned)lanes);
}

LV const_int(Emit *e, LV like, LT elem, int64_t v) {
  (void)e;
  LV one = LLVMConstInt(elem, (unsigned long long)v, 1);
  int n = like ? value_lanes(like) : 0;
  return n ? const_splat(one, n) : one;
}

LV const_real(Emit *e, LV like, LT elem, double v) {
  (void)e;
  LV one = LLVMConstReal(elem, v);
  int n = like ? value_lanes(like) : 0;
  return n ? const_splat(one, n) : one;
}

LV const_i64(Emit *e, int64_t v) { return LLVMConstInt(e->i64, (unsigned long long)v, 1); }

bool is_const_int(LV v, int64_t *out) {
  if (!LLVMIsAConstantInt(v)) return false;
  *out = LLVMConstIntGetSExtValue(v);
  return true;
}

LV splat(Emit *e, LV x, int lanes) {
  if (value_lanes(x)) return x;
  if (LLVMIsConstant(x) && !LLVMIsAGlobalValue(x)) return const_splat(x, lanes);
  LT t = LLVMVectorType(LLVMTypeOf(x), (unsigned)lanes);
  LV one = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), x, const_int(e, NULL, e->i32, 0), "");
  LV zero = LLVMConstNull(LLVMVectorType(e->i32, (unsigned)lanes));
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t), zero, "");
}

LV iota(Emit *e, LT elem, int lanes) {
  (void)e;
  LV v[LOOP_LANES];
  for (int i = 0; i < lanes; i++) v[i] = LLVMConstInt(elem, (unsigned long long)i, 0);
  return LLVMConstVector(v, (unsigned)lanes);
}

LV widen(Emit *e, LV x) { return e->lanes ? splat(e, x, e->lanes) : x; }

LV call_intrinsic(Emit *e, const char *name, LT *over, int nover, LV *args, int nargs) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  CHECK(id, "no intrinsic %s", name);
  LV fn = LLVMGetIntrinsicDeclaration(e->mod, id, over, (size_t)nover);
  LT type = LLVMIntrinsicGetType(e->ctx, id, over, (size_t)nover);
  return LLVMBuildCall2(e->b, type, fn, args, (unsigned)nargs, "");
}

LV intrinsic(Emit *e, const char *name, LV like, int n, LV a, LV b, LV c) {
  LT over = LLVMTypeOf(like);
  LV args[] = {a, b, c};
  return call_intrinsic(e, name, &over, 1, args, n);
}

LV at_byte(Emit *e, LV base, LV index, int64_t bytes) {
  LT elem = bytes == 1 ? e->i8 : bytes == 2 ? e->i16 : bytes == 4 ? e->i32 : e->i64;
  return LLVMBuildInBoundsGEP2(e->b, elem, base, &index, 1, "");
}

LV any_lane(Emit *e, LV mask) {
  if (!value_lanes(mask)) return mask;
  return intrinsic(e, "llvm.vector.reduce.or", mask, 1, mask, NULL, NULL);
}

LV in_entry(Emit *e, LT type, int align) {
  LLVMBasicBlockRef at = LLVMGetInsertBlock(e->b);
  LV first = LLVMGetFirstInstruction(e->entry);
  if (first)
    LLVMPositionBuilderBefore(e->b, first);
  else
    LLVMPositionBuilderAtEnd(e->b, e->entry);
  LV p = LLVMBuildAlloca(e->b, type, "");
  LLVMSetAlignment(p, (unsigned)align);
  LLVMPositionBuilderAtEnd(e->b, at);
  return p;
}

LLVMBasicBlockRef new_block(Emit *e, const char *name) {
  return LLVMAppendBasicBlockInContext(e->ctx, e->fn, name);
}

void go_to(Emit *e, LLVMBasicBlockRef bb) {
  LLVMBuildBr(e->b, bb);
  LLVMPositionBuilderAtEnd(e->b, bb);
}

int64_t elem_bytes(DType t) { return dtype_bits(t) / 8; }

LT mem_type(Emit *e, DType t) {
  if (t == DT_F32) return e->f32;
  if (t == DT_F64) return e->f64;
  switch (dtype_bits(t)) {
  case 8: return e->i8;
  case 16: return e->i16;
  case 32: return e->i32;
  case 64:
    if (dtype_class(t) != DC_COMPLEX) return e->i64;
  }
  emit_fail(e, "elements of type %s are not for this target", dtype_name(t));
  return e->i8;
}

LT reg_type(Emit *e, DType t) { return t == DT_BOOL ? e->i1 : mem_type(e, t); }
