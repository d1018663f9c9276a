// emit_expr.c -- expressions, loads and stores as LLVM IR.
//
// A vector load has one of eight forms: broadcast scalar, contiguous, reversed, repeated elements,
// small stride (shuffled from contiguous loads), a block transposed in registers
// (emit_transpose.c), larger stride (lane by lane), gather.  Where a guard is the same for all
// lanes, the address of a block of zeros replaces the buffer's; else the access is masked.
//
// Needs:      emit_lin gives the index as base + stride * lane where it has that form.
// Guarantees: masked-out lanes and guarded-out elements access no memory.  Lanes that store to one
//             element leave the value of the last one.  With Emit.checked every access is tested.
#include "loop/span.h"
#include "targets/llvm/emit.h"

#include <math.h>

enum { MAX_RUN_STRIDE = 4 };

static LV both(Emit *e, LV a, LV b) { return !a ? b : !b ? a : LLVMBuildAnd(e->b, a, b, ""); }

LV emit_constant(Emit *e, DType t, double f, int64_t i) {
  if (t == DT_F32) return LLVMConstReal(e->f32, f);
  if (t == DT_F64) return LLVMConstReal(e->f64, f);
  if (!dtype_is_float(t)) return LLVMConstInt(reg_type(e, t), (unsigned long long)i, 1);
  uint64_t bits = 0;
  store_f64(t, &bits, 0, 1, &f);
  return LLVMConstInt(reg_type(e, t), bits, 0);
}

// ---- memory ----

static LV from_memory(Emit *e, DType t, LV x) {
  return t == DT_BOOL ? LLVMBuildICmp(e->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "") : x;
}
static LV to_memory(Emit *e, DType t, LV x) {
  return t == DT_BOOL ? LLVMBuildZExt(e->b, x, type_like(x, e->i8), "") : x;
}

static LV load_plain(Emit *e, LT type, LV p, int64_t align) {
  LV v = LLVMBuildLoad2(e->b, type, p, "");
  LLVMSetAlignment(v, (unsigned)align);
  return v;
}

static LV load_masked(Emit *e, LT type, LV p, LV mask, int64_t align) {
  LT over[] = {type, e->ptr};
  LV args[] = {p, const_int(e, NULL, e->i32, align), mask, LLVMConstNull(type)};
  return call_intrinsic(e, "llvm.masked.load", over, 2, args, 4);
}

static LV all_lanes(Emit *e) { return LLVMConstAllOnes(LLVMVectorType(e->i1, (unsigned)e->lanes)); }

// Addresses of the lanes: 32-bit offsets from an address that they share where that is known to do.
static LV pointers(Emit *e, LV base, Lin at, int64_t bytes) {
  if (at.narrow) {
    LT elem = LLVMIntTypeInContext(e->ctx, (unsigned)(8 * bytes));
    LV lane = LLVMBuildSExt(e->b, at.narrow, type_like(at.narrow, e->i64), "");
    if (at.off) base = LLVMBuildGEP2(e->b, elem, base, &at.off, 1, "");
    return LLVMBuildGEP2(e->b, elem, base, &lane, 1, "");
  }
  return at_byte(e, base, lin_value(e, at), bytes);
}

static LV load_gather(Emit *e, LT type, LV base, Lin at, int64_t unit, LV mask) {
  LV p = pointers(e, base, at, unit);
  LT over[] = {type, LLVMTypeOf(p)};
  LV args[] = {p, const_int(e, NULL, e->i32, unit), mask ? mask : all_lanes(e),
               LLVMConstNull(type)};
  return call_intrinsic(e, "llvm.masked.gather", over, 2, args, 4);
}

static LV load_strided(Emit *e, LT elem, LT type, LV base, Lin at, int64_t unit) {
  LV r = LLVMGetPoison(type), first = at_byte(e, base, at.base, unit);
  for (int i = 0; i < e->lanes; i++) {
    LV p = at_byte(e, first, const_i64(e, at.stride * i), unit);
    r = LLVMBuildInsertElement(e->b, r, load_plain(e, elem, p, unit), const_int(e, NULL, e->i32, i),
                               "");
  }
  return r;
}

// The lanes of a and b, one behind the other, that `pick` says.
static LV shuffle(Emit *e, LV a, LV b, const int *pick) {
  LV v[LOOP_LANES];
  for (int i = 0; i < e->lanes; i++) v[i] = const_int(e, NULL, e->i32, pick[i]);
  return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(v, (unsigned)e->lanes), "");
}

// Elements `stride` apart, few enough to lie in that many runs, which reach from the first element
// to the last.  Of a run that has lanes left out only those are read that are picked.
static LV load_runs(Emit *e, LT type, LV base, Lin at, int64_t bytes, LV mask) {
  int n = e->lanes, s = (int)at.stride, last = s * (n - 1), pick[LOOP_LANES];
  LV r = NULL, none = LLVMConstNull(LLVMVectorType(e->i1, (unsigned)n));
  for (int v = 0; v < s; v++) {
    int from = v == s - 1 ? last - n + 1 : v * n;  // the last run ends with the last element
    LV p = at_byte(e, base, LLVMBuildAdd(e->b, at.base, const_i64(e, from), ""), bytes), run;
    if (mask) {
      for (int i = 0; i < n; i++) pick[i] = (from + i) % s ? n : (from + i) / s;
      run = load_masked(e, type, p, shuffle(e, mask, none, pick), bytes);
    } else {
      run = load_plain(e, type, p, bytes);
    }
    for (int i = 0; i < n; i++) {
      int in = i * s - from;
      pick[i] = in >= 0 && in < n ? (r ? n + in : in) : i;
    }
    r = r ? shuffle(e, r, run, pick) : shuffle(e, run, run, pick);
  }
  return r;
}

// Every element of a run as many times as the index says.
static LV load_repeated(Emit *e, LT elem, LV base, Lin at, int64_t bytes, LV uniform) {
  int n = e->lanes / (int)at.repeat, pick[LOOP_LANES];
  LV p = at_byte(e, base, at.first, bytes);
  if (uniform) p = LLVMBuildSelect(e->b, uniform, p, e->zeros, "");
  LV run = load_plain(e, LLVMVectorType(elem, (unsigned)n), p, bytes);
  for (int i = 0; i < e->lanes; i++) pick[i] = i / (int)at.repeat;
  return shuffle(e, run, run, pick);
}

static LV reversed(Emit *e, LV x) {
  LV v[LOOP_LANES];
  for (int i = 0; i < e->lanes; i++) v[i] = const_int(e, NULL, e->i32, e->lanes - 1 - i);
  return LLVMBuildShuffleVector(e->b, x, LLVMGetPoison(LLVMTypeOf(x)),
                                LLVMConstVector(v, (unsigned)e->lanes), "");
}

// Elements of the lanes of `mask` (NULL: all), where `uniform` holds (NULL: it does).  Others are
// 0.  `unit`: bytes of the buffer's elements, in which places are counted.
static LV load_lanes(Emit *e, DType t, int64_t unit, LV base, Lin at, LV uniform, LV mask) {
  LT elem = mem_type(e, t), type = LLVMVectorType(elem, (unsigned)e->lanes);
  int64_t step = elem_bytes(t) / unit;
  bool run = !at.vec && (at.stride == step || (at.stride == -step && !mask));
  if (at.repeat > 1 && !mask && step == 1) return load_repeated(e, elem, base, at, unit, uniform);
  if (!run) {
    if (uniform) mask = both(e, mask, splat(e, uniform, e->lanes));
    if (!at.vec && step == 1 && at.stride > 1 && at.stride <= MAX_RUN_STRIDE && e->lanes >= 4 &&
        at.stride < e->lanes && unit >= 4)
      return load_runs(e, type, base, at, unit, mask);
    if (at.vec || mask) return load_gather(e, type, base, at, unit, mask);
    return load_strided(e, elem, type, base, at, unit);
  }
  LV from = at.base;
  if (at.stride < 0) from = LLVMBuildAdd(e->b, from, const_i64(e, step * (1 - e->lanes)), "");
  LV p = at_byte(e, base, from, unit);
  if (uniform) p = LLVMBuildSelect(e->b, uniform, p, e->zeros, "");
  LV r = mask ? load_masked(e, type, p, mask, unit) : load_plain(e, type, p, unit);
  return at.stride < 0 ? reversed(e, r) : r;
}

static LV load_one(Emit *e, DType t, int64_t unit, LV base, LV at, LV uniform) {
  LV p = at_byte(e, base, at, unit);
  if (uniform) p = LLVMBuildSelect(e->b, uniform, p, e->zeros, "");
  return load_plain(e, mem_type(e, t), p, unit);
}

// Of `width` elements, where `uniform` holds, for the lanes of `mask` (either may be NULL: all).
static void check_access(Emit *e, int32_t buffer, Lin at, int64_t width, LV uniform, LV mask) {
  if (!e->checked) return;
  LV i = lin_value(e, at), size = emit_dim(e, e->k->buffer[buffer].size);
  if (value_lanes(i)) size = splat(e, size, e->lanes);
  LV bad = LLVMBuildICmp(e->b, LLVMIntUGE, i, size, "");
  if (width > 1) {
    LV last = LLVMBuildAdd(e->b, i, const_int(e, i, e->i64, width - 1), "");
    bad = LLVMBuildOr(e->b, bad, LLVMBuildICmp(e->b, LLVMIntUGE, last, size, ""), "");
  }
  if (mask) bad = both(e, splat(e, bad, e->lanes), mask);
  bad = both(e, any_lane(e, bad), uniform);
  LLVMBasicBlockRef inside = new_block(e, "inside");
  LLVMBuildCondBr(e->b, bad, e->outside, inside);
  LLVMPositionBuilderAtEnd(e->b, inside);
}

static LV emit_load(Emit *e, const LoopExpr *x) {
  LV other = x->nguards && x->src[0] ? emit_expr(e, x->src[0]) : NULL;
  Guard g = emit_guards(e, x->nguards, x->guard);
  Lin at = emit_lin(e, x->index);
  LV base = e->base[x->buffer], r;
  int64_t unit = elem_bytes(e->k->buffer[x->buffer].dtype);
  if (at.vec || at.stride) {
    LV mask = both(e, e->mask, g.lanes);
    check_access(e, x->buffer, at, elem_bytes(x->dtype) / unit, g.uniform, mask);
    r = emit_transposed(e, x, at, g.uniform, mask);
    if (!r) r = load_lanes(e, x->dtype, unit, base, at, g.uniform, mask);
  } else {
    LV safe = g.uniform;
    if (g.lanes && g.may_be_empty) safe = both(e, safe, any_lane(e, g.lanes));
    check_access(e, x->buffer, at, elem_bytes(x->dtype) / unit, safe, NULL);
    r = load_one(e, x->dtype, unit, base, at.base, safe);
    if (g.lanes) r = splat(e, r, e->lanes);
    if (g.lanes && !other) other = LLVMConstNull(reg_type(e, x->dtype));
  }
  drop_guards(e, x->nguards, x->guard);
  r = from_memory(e, x->dtype, r);
  if (!other || (!g.uniform && !g.lanes)) return r;
  LV in = g.lanes && g.uniform ? both(e, splat(e, g.uniform, e->lanes), g.lanes)
          : g.lanes            ? g.lanes
                               : g.uniform;
  if (value_lanes(r) || value_lanes(other) || g.lanes) {
    r = splat(e, r, e->lanes);
    other = splat(e, other, e->lanes);
  }
  return LLVMBuildSelect(e->b, in, r, other, "");
}

static void store_plain(Emit *e, LV v, LV p, int64_t align) {
  LLVMSetAlignment(LLVMBuildStore(e->b, v, p), (unsigned)align);
}

// Places are counted in elements of `bytes`; a lane holds `width` of them.
static void store_lanes(Emit *e, LV base, Lin at, LV v, int64_t bytes, int64_t width, LV mask) {
  LT type = LLVMTypeOf(v);
  LV align = const_int(e, NULL, e->i32, bytes);
  if (!at.vec && at.stride == width) {
    LV p = at_byte(e, base, at.base, bytes);
    if (!mask) {
      store_plain(e, v, p, bytes);
      return;
    }
    LT over[] = {type, e->ptr};
    LV args[] = {v, p, align, mask};
    call_intrinsic(e, "llvm.masked.store", over, 2, args, 4);
    return;
  }
  if (mask) {
    LV p = pointers(e, base, at, bytes);
    LT over[] = {type, LLVMTypeOf(p)};
    LV args[] = {v, p, align, mask};
    call_intrinsic(e, "llvm.masked.scatter", over, 2, args, 4);
    return;
  }
  LV index = at.vec, first = index ? base : at_byte(e, base, at.base, bytes);
  for (int i = 0; i < e->lanes; i++) {
    LV lane = const_int(e, NULL, e->i32, i);
    LV off = index ? LLVMBuildExtractElement(e->b, index, lane, "") : const_i64(e, at.stride * i);
    store_plain(e, LLVMBuildExtractElement(e->b, v, lane, ""), at_byte(e, first, off, bytes),
                bytes);
  }
}

static LLVMBasicBlockRef only_if(Emit *e, LV cond) {
  LLVMBasicBlockRef then = new_block(e, "then"), done = new_block(e, "done");
  LLVMBuildCondBr(e->b, cond, then, done);
  LLVMPositionBuilderAtEnd(e->b, then);
  return done;
}

// What lanes that store to one element leave there: the value of the last lane whose guards hold,
// as rounds in order would.  Where a guard holds for one lane alone, as that of a single output
// channel, the lanes are independent all the same.
typedef struct LastLane {
  LV value;  // a scalar; NULL: no lane stores
  LV some;   // whether any lane stores; NULL: one does
} LastLane;

static LV lane_of(Emit *e, LV v, int lane) {
  return LLVMBuildExtractElement(e->b, v, const_int(e, NULL, e->i32, lane), "");
}

static LastLane last_of_known(Emit *e, LV v, LV mask) {
  int64_t set = 0;
  for (int i = e->lanes - 1; i >= 0; i--)
    if (is_const_int(LLVMGetAggregateElement(mask, (unsigned)i), &set) && set)
      return (LastLane){.value = value_lanes(v) ? lane_of(e, v, i) : v};
  return (LastLane){0};
}

static LastLane last_lane(Emit *e, LV v, LV mask) {
  if (mask && LLVMIsAConstantDataVector(mask)) return last_of_known(e, v, mask);
  if (mask && LLVMIsAConstantAggregateZero(mask)) return (LastLane){0};
  LastLane r = {.value = v, .some = mask ? any_lane(e, mask) : NULL};
  if (!value_lanes(v)) return r;
  r.value = lane_of(e, v, mask ? 0 : e->lanes - 1);
  for (int i = 1; mask && i < e->lanes; i++)
    r.value = LLVMBuildSelect(e->b, lane_of(e, mask, i), lane_of(e, v, i), r.value, "");
  return r;
}

void emit_store(Emit *e, const LoopStmt *s) {
  DType t = s->value->dtype;
  int64_t unit = elem_bytes(e->k->buffer[s->buffer].dtype), width = elem_bytes(t) / unit;
  LV v = emit_expr(e, s->value);
  Guard g = emit_guards(e, s->nguards, s->guard);
  Lin at = emit_lin(e, s->index);
  LV mask = both(e, e->mask, g.lanes);
  LLVMBasicBlockRef done = g.uniform ? only_if(e, g.uniform) : NULL;
  if (at.vec || at.stride) {
    check_access(e, s->buffer, at, width, NULL, mask);
    store_lanes(e, e->base[s->buffer], at, to_memory(e, t, widen(e, v)), unit, width, mask);
  } else {
    LastLane last = last_lane(e, v, mask);
    LLVMBasicBlockRef none = last.some ? only_if(e, last.some) : NULL;
    if (last.value) {
      check_access(e, s->buffer, at, width, NULL, NULL);
      LV p = at_byte(e, e->base[s->buffer], at.base, unit);
      store_plain(e, to_memory(e, t, last.value), p, unit);
    }
    if (none) go_to(e, none);
  }
  drop_guards(e, s->nguards, s->guard);
  if (done) go_to(e, done);
}

// ---- expressions ----

// Floats that are known to fit: without asking whether each is a number where it is known to be
// one.
static LV cast_known(Emit *e, const LoopExpr *x, LV v) {
  DType t = x->src[0]->dtype;
  if (!dtype_is_float(t) || dtype_is_float(x->dtype)) return cast_emit(e, t, x->dtype, v, 0, 0);
  LoopSpan s = loop_span(x->src[0]);
  bool fits = !s.nan && s.lo >= -0x1p31 && s.hi < 0x1p31 && x->dtype == DT_I32;
  if (fits && (t == DT_F32 || t == DT_F64))
    return LLVMBuildFPToSI(e->b, v, type_like(v, e->i32), "");
  return cast_emit(e, t, x->dtype, v, s.lo, s.hi);
}

// Rounding and making an integer is one instruction where the float is known to fit.  NULL: it is
// two.
static LV emit_rounded(Emit *e, const LoopExpr *x) {
  const LoopExpr *r = x->src[0];
  if (x->op != LOOP_cast || x->dtype != DT_I32 || r->kind != LX_OP || r->op != LOOP_round ||
      r->dtype != DT_F32 || e->m->arch != ARCH_X86_64)
    return NULL;
  LoopSpan s = loop_span(r->src[0]);
  if (s.nan || s.lo < -0x1p30 || s.hi > 0x1p30) return NULL;
  LV v = emit_expr(e, r->src[0]);
  int lanes = value_lanes(v);
  LV args[] = {v, LLVMConstNull(LLVMVectorType(e->i32, 16)),
               LLVMConstAllOnes(LLVMInt16TypeInContext(e->ctx)), const_int(e, NULL, e->i32, 4)};
  if (lanes == 16 && e->m->has & CPU_AVX512)
    return call_intrinsic(e, "llvm.x86.avx512.mask.cvtps2dq.512", NULL, 0, args, 4);
  if (lanes == 8 && e->m->has & CPU_AVX2)
    return call_intrinsic(e, "llvm.x86.avx.cvt.ps2dq.256", NULL, 0, args, 1);
  return lanes == 4 ? call_intrinsic(e, "llvm.x86.sse2.cvtps2dq", NULL, 0, args, 1) : NULL;
}

static LV emit_op(Emit *e, const LoopExpr *x) {
  LV v[3] = {0}, whole = emit_rounded(e, x);
  if (whole) return whole;
  if (x->op == LOOP_lookup)
    return lookup_emit(e, emit_expr(e, x->src[0]), (uint64_t)x->src[1]->i, (uint64_t)x->src[2]->i);
  bool vec = false;
  int n = loop_op_arity[x->op];
  for (int i = 0; i < n; i++) {
    v[i] = emit_expr(e, x->src[i]);
    vec |= value_lanes(v[i]) != 0;
  }
  for (int i = 0; vec && i < n; i++) v[i] = splat(e, v[i], e->lanes);
  DType t = x->src[0]->dtype;
  if (x->op == LOOP_dot) return dot_emit(e, x->dtype, v[0], v[1], v[2]);
  if (x->op == LOOP_select) return LLVMBuildSelect(e->b, v[0], v[1], v[2], "");
  if (x->op == LOOP_bit_cast) {
    if (t == DT_BOOL) v[0] = LLVMBuildZExt(e->b, v[0], type_like(v[0], e->i8), "");
    if (x->dtype == DT_BOOL) return from_memory(e, DT_BOOL, v[0]);
    return LLVMBuildBitCast(e->b, v[0], type_like(v[0], reg_type(e, x->dtype)), "");
  }
  if (x->op == LOOP_cast) return cast_known(e, x, v[0]);
  return op_emit(e, (LoopOp)x->op, t, v[0], v[1], v[2]);
}

LV emit_expr(Emit *e, const LoopExpr *x) {
  uint64_t known;
  if (intmap_get(&e->memo, (uint64_t)(uintptr_t)x, &known)) return (LV)(uintptr_t)known;
  LV r = NULL;
  switch ((LoopExprKind)x->kind) {
  case LX_CONST: r = emit_constant(e, x->dtype, x->f, x->i); break;
  case LX_INDEX: r = lin_value(e, emit_lin(e, x->index)); break;
  case LX_LOAD: r = emit_load(e, x); break;
  case LX_VAR: r = e->var[x->var]; break;
  case LX_OP: r = emit_op(e, x); break;
  }
  if (!r) {
    emit_fail(e, "a variable has no value where it is used");
    r = LLVMConstNull(reg_type(e, x->dtype));
  }
  intmap_put(&e->memo, (uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)r);
  return r;
}
