// emit.c -- statements as LLVM IR: loops, vectors, reductions, checks; and the kernel's function.
//
// The kernel becomes two functions.  The entry has KernelFn's signature, loads the arguments'
// addresses and the dims, and calls the body with them.  Loops keep their counters in registers.
// Register tiles and accumulators are allocas that LLVM promotes to registers.
//
// A `vector` loop runs in chunks of lanes.  Chunks are unrolled where the extent is a small
// constant or a tile is indexed by them, else they are a loop.  The tail is one chunk with masked
// lanes.  A loop that lanes cannot do together has chunks of one.
//
// Needs:      a kernel that loop_verify accepts.  Arguments are aligned to their element, scratch
//             to 64 bytes.  Arguments may overlap, since a plan writes a result over an operand.
// Guarantees: only memory that the tree names is accessed, reads before writes as in the tree.
//             Sums are in the tree's order.  No call leaves the module.
#include "targets/llvm/emit.h"

#include "loop/survey.h"

#include <math.h>

static void emit_block(Emit *e, const LoopBlock *b);

// ---- what a body needs ----

static int64_t width_of(const LoopExpr *x) {
  int64_t w = elem_bytes(x->dtype);
  return loop_computes(x) && dtype_is_float(x->dtype) ? MAX(w, 4) : w;  // narrow floats: in f32
}

static LoopSurvey survey(Emit *e, const LoopStmt *s) {
  return loop_survey(e->k, e->arena, s, width_of);
}

static int pow2_at_least(int64_t n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

static int lanes_for(Emit *e, const LoopStmt *loop, const LoopSurvey *s) {
  uint64_t plain;
  if (intmap_get(&e->plain, (uint64_t)(uintptr_t)loop, &plain)) return 1;
  return (int)MIN(MAX(e->m->vector_bytes / s->widest, 1), LOOP_LANES);
}

// ---- loops ----

typedef struct Loop {
  LLVMBasicBlockRef head, done;
  LV phi, step, limit;
} Loop;

// for (phi = from; phi < limit; phi += step); `once`: known to run.
static Loop for_open(Emit *e, LV from, LV limit, LV step, bool once) {
  Loop l = {
      .head = new_block(e, "loop"), .done = new_block(e, "done"), .step = step, .limit = limit};
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  if (once)
    LLVMBuildBr(e->b, l.head);
  else
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, limit, ""), l.head, l.done);
  LLVMPositionBuilderAtEnd(e->b, l.head);
  l.phi = LLVMBuildPhi(e->b, e->i64, "");
  LLVMAddIncoming(l.phi, &from, &before, 1);
  return l;
}

static void for_close(Emit *e, const Loop *l) {
  LV next = LLVMBuildNSWAdd(e->b, l->phi, l->step, "");
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMAddIncoming(l->phi, &next, &here, 1);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, l->limit, ""), l->head, l->done);
  LLVMPositionBuilderAtEnd(e->b, l->done);
}

static void set_scalar(Emit *e, Dim sym, LV v) {
  e->sym[sym->slot] = (Sym){.kind = SYM_SCALAR, .value = v, .align = 1};
}

static void emit_serial(Emit *e, const LoopStmt *s) {
  if (ie_is(s->extent, 0)) return;
  if (ie_is(s->extent, 1)) {
    set_scalar(e, s->sym, const_i64(e, 0));
    emit_block(e, &s->body);
    return;
  }
  Loop l = for_open(e, const_i64(e, 0), emit_dim(e, s->extent), const_i64(e, 1), s->extent->lo > 0);
  set_scalar(e, s->sym, l.phi);
  emit_block(e, &s->body);
  for_close(e, &l);
}

static void emit_parallel(Emit *e, const LoopStmt *s) {
  Loop l = for_open(e, e->begin, e->end, const_i64(e, 1), false);
  set_scalar(e, s->sym, l.phi);
  emit_block(e, &s->body);
  for_close(e, &l);
}

static void emit_unrolled(Emit *e, const LoopStmt *s) {
  if (!ie_is_const(s->extent)) {
    emit_fail(e, "an unrolled loop has no constant extent");
    return;
  }
  const LoopStmt *outer = e->across.loop;
  int64_t step = e->across.step;
  for (int64_t i = 0; i < s->extent->value; i++) {
    set_scalar(e, s->sym, const_i64(e, i));
    e->across.loop = e->lanes ? s : NULL;
    e->across.step = i;
    if (!i) e->across.nblocks = 0;
    emit_block(e, &s->body);
  }
  e->across.loop = outer;
  e->across.step = step;
  e->across.nblocks = 0;
}

// ---- chunks of lanes ----

// Runs `chunk` for the elements base .. base + lanes - 1, of which the first `live` are there
// (NULL: all).
typedef struct Chunks {
  const LoopStmt *s;
  int lanes;  // of a vector
  int round;  // elements of a round: a multiple of lanes, or for a loop equal to them
  bool tile;  // a register buffer is used
  LV *acc;    // a reduction's partial results, round / lanes of them; NULL: none
} Chunks;

static void reduce_into(Emit *e, const LoopStmt *s, LV acc, LT type);

static LT acc_type(Emit *e, const LoopStmt *s) {
  LT t = reg_type(e, s->value->dtype);
  return e->lanes ? LLVMVectorType(t, (unsigned)e->lanes) : t;
}

static void emit_chunk(Emit *e, const Chunks *c, LV base, int part, LV live) {
  LV at = part ? LLVMBuildAdd(e->b, base, const_i64(e, (int64_t)part * c->lanes), "") : base;
  e->lanes = c->lanes;
  e->chunk = c->s;
  e->mask = NULL;
  if (c->lanes == 1) {
    e->lanes = 0;
    set_scalar(e, c->s->sym, at);
  } else {
    e->sym[c->s->sym->slot] = (Sym){.kind = SYM_VECTOR, .value = at, .align = c->lanes};
  }
  LLVMBasicBlockRef done = NULL;
  if (live && c->lanes == 1) {
    LLVMBasicBlockRef then = new_block(e, "then");
    done = new_block(e, "done");
    LV some = LLVMBuildICmp(e->b, LLVMIntSLT, const_i64(e, part), live, "");
    LLVMBuildCondBr(e->b, some, then, done);
    LLVMPositionBuilderAtEnd(e->b, then);
  } else if (live) {
    LV n = part ? LLVMBuildSub(e->b, live, const_i64(e, (int64_t)part * c->lanes), "") : live;
    LV lane = iota(e, e->i32, c->lanes), n32 = LLVMBuildTrunc(e->b, n, e->i32, "");
    e->mask = LLVMBuildICmp(e->b, LLVMIntSLT, lane, splat(e, n32, c->lanes), "");
  }
  emit_block(e, &c->s->body);
  if (c->acc) reduce_into(e, c->s, c->acc[part], acc_type(e, c->s));
  e->lanes = 0;
  e->chunk = NULL;
  e->mask = NULL;
  if (done) go_to(e, done);
}

static void emit_round(Emit *e, const Chunks *c, LV base) {
  for (int part = 0; part < c->round / c->lanes; part++) emit_chunk(e, c, base, part, NULL);
}

// Masked accesses would keep a tile in memory: what is left of its rows goes by halves instead.
static void emit_rest_of_tile(Emit *e, const Chunks *c, int64_t at, int64_t rest) {
  Chunks less = *c;
  for (less.lanes = c->lanes / 2; less.lanes; less.lanes /= 2) {
    if (!(rest & less.lanes)) continue;
    less.round = less.lanes;
    emit_chunk(e, &less, const_i64(e, at), 0, NULL);
    at += less.lanes;
  }
}

// What is left after the last whole round: `rest` elements, less than a round.
static void emit_rest(Emit *e, const Chunks *c, LV base, int64_t rest) {
  for (int part = 0; (int64_t)part * c->lanes < rest; part++) {
    int64_t n = rest - (int64_t)part * c->lanes;
    if (n >= c->lanes) {
      emit_chunk(e, c, base, part, NULL);
    } else if (c->acc) {
      emit_chunk(e, c, base, part, const_i64(e, rest));
    } else {  // a loop's last vector may have fewer lanes than the others
      Chunks less = *c;
      less.lanes = less.round = pow2_at_least(n);
      emit_chunk(e, &less, base, 0, n == less.lanes ? NULL : const_i64(e, n));
    }
  }
}

static void chunks_fixed(Emit *e, const Chunks *c, int64_t n, bool written_out) {
  int64_t rounds = n / c->round;
  if (written_out) {
    for (int64_t r = 0; r < rounds; r++) emit_round(e, c, const_i64(e, r * c->round));
  } else if (rounds) {
    Loop l =
        for_open(e, const_i64(e, 0), const_i64(e, rounds * c->round), const_i64(e, c->round), true);
    emit_round(e, c, l.phi);
    for_close(e, &l);
  }
  if (c->tile && !c->acc)
    emit_rest_of_tile(e, c, rounds * c->round, n % c->round);
  else
    emit_rest(e, c, const_i64(e, rounds * c->round), n % c->round);
}

static void chunks_symbolic(Emit *e, const Chunks *c, LV n) {
  LV mask = const_i64(e, c->round - 1);
  LV rest = LLVMBuildAnd(e->b, n, mask, ""), whole = LLVMBuildSub(e->b, n, rest, "");
  Loop l = for_open(e, const_i64(e, 0), whole, const_i64(e, c->round), false);
  emit_round(e, c, l.phi);
  for_close(e, &l);
  LLVMBasicBlockRef some = new_block(e, "rest"), done = new_block(e, "done");
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, rest, const_i64(e, 0), ""), some, done);
  LLVMPositionBuilderAtEnd(e->b, some);
  for (int part = 0; part < c->round / c->lanes; part++)
    if (c->round > 1) emit_chunk(e, c, whole, part, rest);
  go_to(e, done);
}

static void emit_chunks(Emit *e, const Chunks *c, const LoopSurvey *sv) {
  if (ie_is_const(c->s->extent)) {
    int64_t n = c->s->extent->value, rounds = n / c->round;
    bool small = rounds <= 1 || (rounds * (c->round / c->lanes) <= 8 && rounds * sv->nodes <= 64);
    chunks_fixed(e, c, n, sv->tile || small);
    return;
  }
  if (sv->tile && c->lanes > 1)
    emit_plain(e, c->s, "a tile is indexed by a loop without constant extent");
  chunks_symbolic(e, c, emit_dim(e, c->s->extent));
}

static void emit_vector(Emit *e, const LoopStmt *s) {
  if (e->lanes) {
    emit_fail(e, "a vector loop lies in a vector loop");
    return;
  }
  LoopSurvey sv = survey(e, s);
  int lanes = lanes_for(e, s, &sv);
  if (ie_is_const(s->extent)) lanes = MIN(lanes, pow2_at_least(s->extent->value));
  Chunks c = {.s = s, .lanes = lanes, .round = lanes, .tile = sv.tile};
  emit_chunks(e, &c, &sv);
}

// ---- reductions ----

static LV identity(Emit *e, LoopOp op, DType t) {
  double f = 0;
  int64_t i = 0;
  if (!loop_identity(op, t, &f, &i)) emit_fail(e, "%s does not reduce", loop_op_name[op]);
  return emit_constant(e, t, f, i);
}

static void new_statement(Emit *e) { intmap_init(&e->memo, e->arena); }

// acc = op(acc, value), in the lanes that are there.
static void reduce_into(Emit *e, const LoopStmt *s, LV acc, LT type) {
  new_statement(e);
  LV v = widen(e, emit_expr(e, s->value)), old = LLVMBuildLoad2(e->b, type, acc, "");
  LV sum = op_emit(e, (LoopOp)s->op, s->value->dtype, old, v, NULL);
  if (e->mask) sum = LLVMBuildSelect(e->b, e->mask, sum, old, "");
  LLVMBuildStore(e->b, sum, acc);
}

static LV half_of(Emit *e, LV v, int from, int n) {
  LV pick[LOOP_LANES];
  for (int i = 0; i < n; i++) pick[i] = const_int(e, NULL, e->i32, from + i);
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(pick, (unsigned)n), "");
}

static LV join_halves(Emit *e, const LoopStmt *s, LV *v, int n, int lanes) {
  LoopOp op = (LoopOp)s->op;
  DType t = s->value->dtype;
  for (; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++) v[i] = op_emit(e, op, t, v[i], v[i + n / 2], NULL);
  LV r = v[0];
  LV zero = const_int(e, NULL, e->i32, 0), one = const_int(e, NULL, e->i32, 1);
  for (; lanes > 2; lanes /= 2)
    r = op_emit(e, op, t, half_of(e, r, 0, lanes / 2), half_of(e, r, lanes / 2, lanes / 2), NULL);
  if (lanes == 1) return r;
  return op_emit(e, op, t, LLVMBuildExtractElement(e->b, r, zero, ""),
                 LLVMBuildExtractElement(e->b, r, one, ""), NULL);
}

static void reduce_lanes(Emit *e, const LoopStmt *s) {
  if (e->lanes) {
    emit_fail(e, "a reduction over lanes lies in a vector loop");
    return;
  }
  LoopSurvey sv = survey(e, s);
  int lanes = MIN(lanes_for(e, s, &sv), s->lanes), n = s->lanes / lanes;
  LT elem = reg_type(e, s->value->dtype),
     type = lanes > 1 ? LLVMVectorType(elem, (unsigned)lanes) : elem;
  LV acc[LOOP_LANES], v[LOOP_LANES], first = identity(e, (LoopOp)s->op, s->value->dtype);
  for (int i = 0; i < n; i++) {
    acc[i] = in_entry(e, type, 64);
    LLVMBuildStore(e->b, lanes > 1 ? splat(e, first, lanes) : first, acc[i]);
  }
  Chunks c = {.s = s, .lanes = lanes, .round = s->lanes, .acc = acc};
  emit_chunks(e, &c, &sv);
  for (int i = 0; i < n; i++) v[i] = LLVMBuildLoad2(e->b, type, acc[i], "");
  e->var[s->var] = join_halves(e, s, v, n, lanes);
}

static void reduce_serial(Emit *e, const LoopStmt *s) {
  LT type = acc_type(e, s);
  LV acc = in_entry(e, type, 64);
  LLVMBuildStore(e->b, widen(e, identity(e, (LoopOp)s->op, s->value->dtype)), acc);
  if (!ie_is(s->extent, 0)) {
    LV limit = emit_dim(e, s->extent);
    Loop l = for_open(e, const_i64(e, 0), limit, const_i64(e, 1), s->extent->lo > 0);
    set_scalar(e, s->sym, l.phi);
    emit_block(e, &s->body);
    reduce_into(e, s, acc, type);
    for_close(e, &l);
  }
  e->var[s->var] = LLVMBuildLoad2(e->b, type, acc, "");
}

// ---- checks and branches ----

static void return_if(Emit *e, LV cond, int64_t code) {
  LLVMBasicBlockRef fails = new_block(e, "fails"), goes_on = new_block(e, "goes_on");
  LLVMBuildCondBr(e->b, cond, fails, goes_on);
  LLVMPositionBuilderAtEnd(e->b, fails);
  LLVMBuildRet(e->b, const_int(e, NULL, e->i32, code));
  LLVMPositionBuilderAtEnd(e->b, goes_on);
}

// Lanes of 32 bits below a constant: they stay as they are.
static bool bind_narrow(Emit *e, const LoopStmt *s, LV v) {
  Dim ext = s->extent;
  if (s->value->dtype != DT_I32 || !value_lanes(v) || !ie_is_const(ext) || ext->value < 0 ||
      ext->value > INT32_MAX)
    return false;
  LV out = LLVMBuildICmp(e->b, LLVMIntUGE, v, const_int(e, v, e->i32, ext->value), "");
  if (e->mask) {
    out = LLVMBuildAnd(e->b, out, e->mask, "");
    v = LLVMBuildSelect(e->b, e->mask, v, LLVMConstNull(LLVMTypeOf(v)), "");
  }
  return_if(e, any_lane(e, out), 1 + (int64_t)s->check);
  LV wide = LLVMBuildSExt(e->b, v, type_like(v, e->i64), "");
  e->sym[s->sym->slot] = (Sym){.kind = SYM_LANES, .value = wide, .narrow = v};
  return true;
}

static void emit_bind(Emit *e, const LoopStmt *s) {
  LV v = emit_expr(e, s->value);
  DType t = s->value->dtype;
  if (bind_narrow(e, s, v)) return;
  if (t != DT_I64 && t != DT_U64) v = cast_emit(e, t, DT_I64, v, -INFINITY, INFINITY);
  LV ext = lin_value(e, emit_lin(e, s->extent));
  if (value_lanes(v) || value_lanes(ext)) {
    v = splat(e, v, e->lanes);
    ext = splat(e, ext, e->lanes);
  }
  LV out = LLVMBuildICmp(e->b, LLVMIntUGE, v, ext, "");
  if (e->mask) {  // lanes that are not there may hold anything
    out = LLVMBuildAnd(e->b, splat(e, out, e->lanes), e->mask, "");
    if (value_lanes(v)) v = LLVMBuildSelect(e->b, e->mask, v, LLVMConstNull(LLVMTypeOf(v)), "");
  }
  return_if(e, any_lane(e, out), 1 + (int64_t)s->check);
  if (value_lanes(v))
    e->sym[s->sym->slot] = (Sym){.kind = SYM_LANES, .value = v};
  else
    set_scalar(e, s->sym, v);
}

static void emit_masked(Emit *e, const LoopBlock *b, LV mask) {
  if (!b->n) return;
  LV outer = e->mask;
  e->mask = outer ? LLVMBuildAnd(e->b, outer, mask, "") : mask;
  emit_block(e, b);
  e->mask = outer;
}

static void emit_if(Emit *e, const LoopStmt *s) {
  LV cond = emit_expr(e, s->value);
  if (value_lanes(cond)) {
    emit_masked(e, &s->body, cond);
    if (s->orelse.n) emit_masked(e, &s->orelse, LLVMBuildNot(e->b, cond, ""));
    return;
  }
  LLVMBasicBlockRef then = new_block(e, "then"), done = new_block(e, "done");
  LLVMBasicBlockRef other = s->orelse.n ? new_block(e, "else") : done;
  LLVMBuildCondBr(e->b, cond, then, other);
  LLVMPositionBuilderAtEnd(e->b, then);
  emit_block(e, &s->body);
  if (s->orelse.n) {
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, other);
    emit_block(e, &s->orelse);
  }
  go_to(e, done);
}

static void emit_prefetch(Emit *e, const LoopStmt *s) {
  Lin at = emit_lin(e, s->index);
  if (at.vec) return;  // a hint only: lanes apart are not worth it
  LV p = at_byte(e, e->base[s->buffer], at.base, elem_bytes(e->k->buffer[s->buffer].dtype));
  LV args[] = {p, const_int(e, NULL, e->i32, 0), const_int(e, NULL, e->i32, 3),
               const_int(e, NULL, e->i32, 1)};
  call_intrinsic(e, "llvm.prefetch", &e->ptr, 1, args, 4);
}

static void emit_where(Emit *e, const LoopStmt *s) {
  LLVMBasicBlockRef then = new_block(e, "then"), done = new_block(e, "done");
  LV v = emit_dim(e, s->index), n = emit_dim(e, s->extent);
  LV in = LLVMBuildICmp(e->b, LLVMIntSLT, v, n, "");
  if (s->index->lo < 0)
    in = LLVMBuildAnd(e->b, in, LLVMBuildICmp(e->b, LLVMIntSGE, v, const_i64(e, 0), ""), "");
  LLVMBuildCondBr(e->b, in, then, done);
  LLVMPositionBuilderAtEnd(e->b, then);
  set_scalar(e, s->sym, v);
  emit_block(e, &s->body);
  go_to(e, done);
}

static void emit_for(Emit *e, const LoopStmt *s) {
  switch ((LoopKind)s->loop) {
  case LOOP_THREAD:  // one after the other
  case LOOP_SERIAL: emit_serial(e, s); break;
  case LOOP_PARALLEL: emit_parallel(e, s); break;
  case LOOP_UNROLL: emit_unrolled(e, s); break;
  case LOOP_VECTOR: emit_vector(e, s); break;
  case LOOP_WHERE: emit_where(e, s); break;
  }
}

static void emit_stmt(Emit *e, const LoopStmt *s) {
  new_statement(e);
  e->across.always = s->kind == LS_LET || (s->kind == LS_STORE && !s->nguards);
  switch ((LoopStmtKind)s->kind) {
  case LS_FOR: emit_for(e, s); break;
  case LS_LET: e->var[s->var] = emit_expr(e, s->value); break;
  case LS_BIND: emit_bind(e, s); break;
  case LS_STORE: emit_store(e, s); break;
  case LS_IF: emit_if(e, s); break;
  case LS_REDUCE:
    if (s->lanes > 1)
      reduce_lanes(e, s);
    else
      reduce_serial(e, s);
    break;
  case LS_PREFETCH: emit_prefetch(e, s); break;
  case LS_MMA:
  case LS_ATTENTION: emit_block(e, &s->body); break;
  }
}

static void emit_block(Emit *e, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n && !e->status; i++) emit_stmt(e, b->v[i]);
}

// ---- the function ----

static void add_attribute(Emit *e, LV fn, unsigned at, const char *name, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, at, LLVMCreateEnumAttribute(e->ctx, kind, value));
}

void emit_describe(Emit *e, LV fn) {
  add_attribute(e, fn, LLVMAttributeFunctionIndex, "nounwind", 0);
  const char *text[][2] = {{"no-jump-tables", "true"},
                           {"frame-pointer", "none"},
                           {"no-builtins", ""},
                           {"min-legal-vector-width", "512"},
                           {"prefer-vector-width", "512"}};
  for (int i = 0; i < ARRAY_LEN(text); i++)
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(e->ctx, text[i][0],
                                                      (unsigned)strlen(text[i][0]), text[i][1],
                                                      (unsigned)strlen(text[i][1])));
}

// Parameters of the body: the arguments' addresses, the dims, begin, end, scratch.
static LV body_function(Emit *e) {
  const LoopKernel *k = e->k;
  int n = k->nargs + k->ndims + 3;
  LT *t = arena_array(e->arena, LT, n);
  for (int i = 0; i < n; i++) t[i] = i < k->nargs || i == n - 1 ? e->ptr : e->i64;
  LV fn = LLVMAddFunction(e->mod, "body", LLVMFunctionType(e->i32, t, (unsigned)n, 0));
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  emit_describe(e, fn);
  for (int i = 0; i < n; i++)
    if (t[i] == e->ptr) {
      unsigned at = (unsigned)i + 1;
      // Arguments are the caller's, and may lie anywhere that an element may.
      if (i == n - 1) {
        add_attribute(e, fn, at, "noalias", 0);
        add_attribute(e, fn, at, "align", 64);
      }
      if (i < k->nargs && !k->buffer[i].written) add_attribute(e, fn, at, "readonly", 0);
    }
  return fn;
}

static void entry_function(Emit *e, const char *name, LV body) {
  const LoopKernel *k = e->k;
  LT t[] = {e->ptr, e->ptr, e->i64, e->i64, e->ptr};
  LV fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->i32, t, 5, 0));
  emit_describe(e, fn);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, fn, ""));
  int n = k->nargs + k->ndims + 3;
  LV *args = arena_array(e->arena, LV, n);
  for (int i = 0; i < k->nargs + k->ndims; i++) {
    bool arg = i < k->nargs;
    LV p = at_byte(e, LLVMGetParam(fn, arg ? 0 : 1), const_i64(e, arg ? i : i - k->nargs), 8);
    args[i] = LLVMBuildLoad2(e->b, arg ? e->ptr : e->i64, p, "");
  }
  for (int i = 0; i < 3; i++) args[n - 3 + i] = LLVMGetParam(fn, (unsigned)(2 + i));
  LV r = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(body), body, args, (unsigned)n, "");
  LLVMSetTailCall(r, 1);
  LLVMBuildRet(e->b, r);
}

static void place_buffers(Emit *e) {
  const LoopKernel *k = e->k;
  LV scratch = LLVMGetParam(e->fn, (unsigned)(k->nargs + k->ndims + 2));
  int64_t at = 0;
  for (int i = 0; i < k->nbuffers; i++) {
    const LoopBuffer *b = &k->buffer[i];
    if (b->space == LOOP_ARG) {
      e->base[i] = LLVMGetParam(e->fn, (unsigned)i);
      continue;
    }
    int64_t bytes = 0;
    if (!ie_is_const(b->size) || !dtype_bytes(b->dtype, b->size->value, &bytes) ||
        bytes > INT32_MAX - 64) {
      emit_fail(e, "buffer '%s' has no size", b->name);
      return;
    }
    if (b->space == LOOP_SCRATCH) {
      e->base[i] = at_byte(e, scratch, const_i64(e, at), 1);
      at += (bytes + 63) / 64 * 64;
    } else {
      e->base[i] = in_entry(e, LLVMArrayType2(mem_type(e, b->dtype), (uint64_t)b->size->value), 64);
    }
  }
}

static LV zero_block(Emit *e) {
  LT t = LLVMArrayType2(e->i8, 64);
  LV g = LLVMAddGlobal(e->mod, t, "zeros");
  LLVMSetInitializer(g, LLVMConstNull(t));
  LLVMSetGlobalConstant(g, 1);
  LLVMSetLinkage(g, LLVMPrivateLinkage);
  LLVMSetAlignment(g, 64);
  return g;
}

// Where a checked kernel ends that reaches outside a buffer: with a status that is neither a
// check's nor a fault's.
static void outside_block(Emit *e) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  e->outside = new_block(e, "outside");
  LLVMPositionBuilderAtEnd(e->b, e->outside);
  LLVMBuildRet(e->b, const_int(e, NULL, e->i32, 2 + (int64_t)e->k->nchecks));
  LLVMPositionBuilderAtEnd(e->b, here);
}

static tenon_status emit_module(Emit *e, const char *name) {
  const LoopKernel *k = e->k;
  e->mod = LLVMModuleCreateWithNameInContext("kernel", e->ctx);
  LLVMSetTarget(e->mod, e->m->triple);
  LLVMSetModuleDataLayout(e->mod, e->layout);
  e->sym = arena_array(e->arena, Sym, k->pool->nsyms);
  e->var = arena_array(e->arena, LV, k->nvars);
  e->base = arena_array(e->arena, LV, k->nbuffers);
  e->b = LLVMCreateBuilderInContext(e->ctx);
  LV body = body_function(e);
  entry_function(e, name, body);
  e->fn = body;
  e->entry = new_block(e, "entry");
  LLVMPositionBuilderAtEnd(e->b, e->entry);
  place_buffers(e);
  e->zeros = zero_block(e);
  if (e->checked) outside_block(e);
  e->fault = in_entry(e, e->i8, 1);
  LLVMBuildStore(e->b, const_int(e, NULL, e->i8, 0), e->fault);
  e->begin = LLVMGetParam(body, (unsigned)(k->nargs + k->ndims));
  e->end = LLVMGetParam(body, (unsigned)(k->nargs + k->ndims + 1));
  for (int i = 0; i < k->ndims; i++)
    set_scalar(e, k->dim[i], LLVMGetParam(body, (unsigned)(k->nargs + i)));
  go_to(e, new_block(e, "start"));
  emit_block(e, &k->body);
  LV bad = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildLoad2(e->b, e->i8, e->fault, ""),
                         const_int(e, NULL, e->i8, 0), "");
  LLVMBuildRet(e->b, LLVMBuildSelect(e->b, bad, const_int(e, NULL, e->i32, 1 + (int64_t)k->nchecks),
                                     const_int(e, NULL, e->i32, 0), ""));
  LLVMDisposeBuilder(e->b);
  return e->status;
}

tenon_status emit_kernel(Emit *e, const char *name) {
  emit_types(e);
  intmap_init(&e->plain, e->arena);
  tenon_status s = emit_module(e, name);
  while (e->again) {  // with one more plain loop
    LLVMDisposeModule(e->mod);
    e->again = false;
    e->status = TENON_OK;
    e->lanes = 0;
    e->chunk = NULL;
    e->mask = NULL;
    s = emit_module(e, name);
  }
  return s;
}
