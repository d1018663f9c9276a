// emit_index.c -- index expressions as LLVM IR, by how they vary over the lanes.
//
// An index is kept as base + stride * lane, so that accesses are contiguous, broadcast or strided.
// Division and remainder keep that form where the lanes of one vector cannot straddle a multiple of
// the divisor.  The alignment of the base decides it: each chunk begins at a multiple of the lanes.
//
// Needs:      every symbol of the index is bound in Emit.sym.
// Guarantees: any other index is a vector of i64.  A divisor that may be 0 never traps: its
//             quotient is not used.
#include "targets/llvm/emit.h"

static Lin lin_of(Emit *e, LV scalar, int64_t align) {
  (void)e;
  int64_t c;
  if (is_const_int(scalar, &c)) align = c == INT64_MIN ? 1 : c < 0 ? -c : c;
  return (Lin){.base = scalar, .align = align};
}
static Lin lin_const(Emit *e, int64_t v) { return lin_of(e, const_i64(e, v), 1); }
static Lin lin_vec(LV v) { return (Lin){.vec = v, .align = 1}; }
static bool varies(Lin x) { return x.vec || x.stride; }

LV lin_value(Emit *e, Lin x) {
  if (x.vec) return x.vec;
  if (!x.stride) return x.base;
  LV step = iota(e, e->i64, e->lanes);
  if (x.stride != 1) step = LLVMBuildMul(e->b, step, const_int(e, step, e->i64, x.stride), "");
  return LLVMBuildAdd(e->b, splat(e, x.base, e->lanes), step, "");
}

static LV lin_lanes(Emit *e, Lin x) { return splat(e, lin_value(e, x), e->lanes); }

static Lin lin_add(Emit *e, Lin a, Lin b) {
  int64_t stride;
  if (a.vec || b.vec || !ck_add(a.stride, b.stride, &stride)) {
    Lin v = lin_vec(LLVMBuildAdd(e->b, lin_lanes(e, a), lin_lanes(e, b), ""));
    Lin repeated = a.vec ? a : b, other = a.vec ? b : a;
    if (repeated.repeat > 1 && !varies(other)) {
      v.repeat = repeated.repeat;
      v.first = LLVMBuildAdd(e->b, repeated.first, other.base, "");
    }
    if (repeated.narrow && !varies(other)) {
      v.narrow = repeated.narrow;
      v.off = repeated.off ? LLVMBuildAdd(e->b, repeated.off, other.base, "") : other.base;
    }
    return v;
  }
  Lin r = lin_of(e, LLVMBuildAdd(e->b, a.base, b.base, ""), gcd_i64(a.align, b.align));
  r.stride = stride;
  return r;
}

static int64_t align_mul(int64_t a, int64_t b) {
  int64_t r;
  return ck_mul(a, b, &r) ? r : MAX(a, b);
}

static Lin lin_mul(Emit *e, Lin a, Lin b) {
  if (varies(a) && !varies(b)) {
    Lin t = a;
    a = b;
    b = t;
  }
  int64_t c = 0, stride = 0;
  if (!varies(a) && is_const_int(a.base, &c) && c == 1) return b;
  bool scaled = !varies(a) && !b.vec &&
                (!b.stride || (is_const_int(a.base, &c) && ck_mul(b.stride, c, &stride)));
  if (!scaled) return lin_vec(LLVMBuildMul(e->b, lin_lanes(e, a), lin_lanes(e, b), ""));
  Lin r = lin_of(e, LLVMBuildMul(e->b, a.base, b.base, ""), align_mul(a.align, b.align));
  r.stride = stride;
  return r;
}

// Floor division or remainder of values with lanes alike.  A divisor that may be 0 divides nothing
// that is used.
static LV floor_op(Emit *e, Dim d, LV a, LV b) {
  bool mod = d->kind == IE_MOD;
  if (d->b->lo < 1) {
    LV zero = LLVMConstNull(LLVMTypeOf(b)), one = const_int(e, b, e->i64, 1);
    b = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, b, zero, ""), one, b, "");
  }
  if (d->a->lo >= 0 && d->b->lo >= 0)
    return mod ? LLVMBuildURem(e->b, a, b, "") : LLVMBuildUDiv(e->b, a, b, "");
  int64_t c;
  if (ie_is_const(d->b) && (c = d->b->value) > 0 && (c & (c - 1)) == 0) {
    if (mod) return LLVMBuildAnd(e->b, a, const_int(e, b, e->i64, c - 1), "");
    return LLVMBuildAShr(e->b, a, const_int(e, b, e->i64, __builtin_ctzll((uint64_t)c)), "");
  }
  LV r = LLVMBuildSRem(e->b, a, b, ""), zero = LLVMConstNull(LLVMTypeOf(a));
  LV other = LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildXor(e->b, r, b, ""), zero, "");
  LV off = LLVMBuildAnd(e->b, other, LLVMBuildICmp(e->b, LLVMIntNE, r, zero, ""), "");
  if (mod) return LLVMBuildAdd(e->b, r, LLVMBuildSelect(e->b, off, b, zero, ""), "");
  LV q = LLVMBuildSDiv(e->b, a, b, "");
  return LLVMBuildAdd(e->b, q, LLVMBuildSExt(e->b, off, LLVMTypeOf(q), ""), "");
}

static Lin lin_divide(Emit *e, Dim d) {
  Lin a = emit_lin(e, d->a), b = emit_lin(e, d->b);
  bool mod = d->kind == IE_MOD;
  if (!varies(a) && !varies(b)) return lin_of(e, floor_op(e, d, a.base, b.base), 1);
  int64_t c, reach;
  if (!a.vec && !varies(b) && is_const_int(b.base, &c) && c > 0 && a.stride > 0 &&
      ck_mul(a.stride, e->lanes - 1, &reach)) {
    int64_t g = gcd_i64(a.align, c);
    if (reach < g) {  // base mod c is a multiple of g, and at most c - g
      Lin r = lin_of(e, floor_op(e, d, a.base, b.base), mod ? g : 1);
      r.stride = mod ? a.stride : 0;
      return r;
    }
    if (!mod && a.stride == 1 && c < e->lanes && e->lanes % c == 0 && a.align % c == 0) {
      Lin r = lin_vec(floor_op(e, d, lin_lanes(e, a), lin_lanes(e, b)));
      r.repeat = c;
      r.first = floor_op(e, d, a.base, b.base);
      return r;
    }
  }
  return lin_vec(floor_op(e, d, lin_lanes(e, a), lin_lanes(e, b)));
}

static Lin lin_choose(Emit *e, Dim d) {
  Lin a = emit_lin(e, d->a), b = emit_lin(e, d->b);
  bool vec = varies(a) || varies(b);
  LV x = vec ? lin_lanes(e, a) : a.base, y = vec ? lin_lanes(e, b) : b.base, r;
  if (d->kind == IE_BCAST) {
    LV one = LLVMBuildICmp(e->b, LLVMIntEQ, x, const_int(e, x, e->i64, 1), "");
    r = LLVMBuildSelect(e->b, one, y, x, "");
  } else {
    LLVMIntPredicate p = d->kind == IE_MIN ? LLVMIntSLT : LLVMIntSGT;
    r = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, p, x, y, ""), x, y, "");
  }
  return vec ? lin_vec(r) : lin_of(e, r, 1);
}

static Lin lin_sym(Emit *e, Dim d) {
  const Sym *s = &e->sym[d->slot];
  switch ((SymKind)s->kind) {
  case SYM_SCALAR: return lin_of(e, s->value, s->align);
  case SYM_VECTOR: {
    Lin r = lin_of(e, s->value, s->align);
    r.stride = 1;
    return r;
  }
  case SYM_LANES: {
    Lin r = lin_vec(s->value);
    r.narrow = s->narrow;
    return r;
  }
  case SYM_DIM: return emit_lin(e, s->dim);
  case SYM_NONE: break;
  }
  emit_fail(e, "the symbol '%s' has no value here", d->name);
  return lin_const(e, 0);
}

static Lin lin_sum(Emit *e, Dim d) {
  Lin r = lin_const(e, 0);
  for (int i = 0; i < d->nterms; i++) {
    const IntTerm *t = &d->term[i];
    Lin m = lin_const(e, t->coef);
    for (int j = 0; j < t->natoms; j++) m = lin_mul(e, m, emit_lin(e, t->atom[j]));
    r = i ? lin_add(e, r, m) : m;
  }
  return r;
}

Lin emit_lin(Emit *e, Dim d) {
  switch ((IntExprKind)d->kind) {
  case IE_CONST: return lin_const(e, d->value);
  case IE_SYM: return lin_sym(e, d);
  case IE_SUM: return lin_sum(e, d);
  case IE_DIV:
  case IE_MOD: return lin_divide(e, d);
  case IE_MIN:
  case IE_MAX:
  case IE_BCAST: return lin_choose(e, d);
  case IE_POISON: break;
  }
  emit_fail(e, "an index has no value");
  return lin_const(e, 0);
}

LV emit_dim(Emit *e, Dim d) {
  Lin x = emit_lin(e, d);
  if (!varies(x)) return x.base;
  emit_plain(e, e->chunk, "a size differs between the lanes of a vector");
  return const_i64(e, 0);
}

// ---- guards ----

static LV both(Emit *e, LV a, LV b) { return !a ? b : !b ? a : LLVMBuildAnd(e->b, a, b, ""); }

static LV clamp_to_run(Emit *e, LV x, int64_t run) {
  LV zero = const_i64(e, 0), most = const_i64(e, run);
  x = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, x, zero, ""), zero, x, "");
  x = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, x, most, ""), most, x, "");
  return LLVMBuildTrunc(e->b, x, e->i32, "");
}

// 0 <= base + lane * stride < extent, compared as 32-bit numbers.
static LV run_of_lanes(Emit *e, LV base, LV extent, int64_t stride) {
  LV lane = iota(e, e->i32, e->lanes);
  int64_t run = e->lanes * stride;
  if (stride > 1)
    lane = LLVMBuildMul(e->b, lane, splat(e, const_int(e, NULL, e->i32, stride), e->lanes), "");
  LV lo = clamp_to_run(e, LLVMBuildNeg(e->b, base, ""), run);
  LV hi = clamp_to_run(e, LLVMBuildSub(e->b, extent, base, ""), run);
  int64_t c;
  LV from = is_const_int(lo, &c) && c == 0
                ? NULL
                : LLVMBuildICmp(e->b, LLVMIntSGE, lane, splat(e, lo, e->lanes), "");
  LV to = is_const_int(hi, &c) && c == run
              ? NULL
              : LLVMBuildICmp(e->b, LLVMIntSLT, lane, splat(e, hi, e->lanes), "");
  return both(e, from, to);
}

// 0 <= v < extent of lanes of 32 bits with a small constant added; NULL: they are not.
static LV narrow_in_range(Emit *e, Lin v, Lin ext) {
  int64_t off = 0, end;
  if (!v.narrow || varies(ext) || !is_const_int(ext.base, &end) || end < 0 || end > INT32_MAX ||
      (v.off && !is_const_int(v.off, &off)) || off < INT32_MIN / 2 || off > 0)
    return NULL;
  LV x = LLVMBuildAdd(e->b, v.narrow, const_int(e, v.narrow, e->i32, off), "");
  return LLVMBuildICmp(e->b, LLVMIntULT, x, const_int(e, x, e->i32, end), "");
}

Guard emit_guards(Emit *e, int n, const LoopBound *g) {
  Guard r = {0};
  for (int i = 0; i < n; i++) {
    Lin v = emit_lin(e, g[i].value), ext = emit_lin(e, g[i].extent);
    r.may_be_empty |= g[i].extent->lo < 1;
    if (!varies(v) && !varies(ext)) {
      LV in = LLVMBuildICmp(e->b, LLVMIntULT, v.base, ext.base, "");
      int64_t c;
      if (!(is_const_int(in, &c) && c)) r.uniform = both(e, r.uniform, in);
    } else if (!v.vec && v.stride > 0 && v.stride < 1024 && !varies(ext)) {
      r.lanes = both(e, r.lanes, run_of_lanes(e, v.base, ext.base, v.stride));
    } else {
      LV in = narrow_in_range(e, v, ext);
      if (!in) in = LLVMBuildICmp(e->b, LLVMIntULT, lin_lanes(e, v), lin_lanes(e, ext), "");
      r.lanes = both(e, r.lanes, in);
    }
    e->sym[g[i].sym->slot] = (Sym){.kind = SYM_DIM, .dim = g[i].value};
  }
  return r;
}

void drop_guards(Emit *e, int n, const LoopBound *g) {
  for (int i = 0; i < n; i++) e->sym[g[i].sym->slot] = (Sym){0};
}
