// verify.c -- the invariants of kernels (loop.h), each with its own message.
//
// Two walks.  The first looks at what stands in the tree: scopes, dtypes, which loop may hold
// which; it also notes how loop variables are split (digits.c).  The second proves, over digits:
// every access is inside its buffer, every divisor is positive, and work items are disjoint
// (verify_race.c).  A dim's range is its symbol's.
//
// Guarantees: a kernel that passes touches nothing outside its buffers, whatever the dims and the
//             data are, and
// gives the same results in whatever order its items run.  What cannot be proven is refused.
#include "loop/thread_block.h"
#include "loop/tile.h"
#include "loop/verify.h"

// ---- messages ----
const char *verify_text(Verifier *v, Dim e) {
  StrBuf b;
  strbuf_init(&b, v->arena);
  ie_print(&b, e);
  return strbuf_text(&b);
}

tenon_status verify_fail(Verifier *v, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = str_vprintf(v->arena, fmt, ap);
  va_end(ap);
  if (!v->stmt) return fail(v->d, TENON_EINVAL, NOWHERE, "kernel @%s: %s", v->k->name, text);
  StrBuf b;
  strbuf_init(&b, v->arena);
  loop_print_stmt(v->k, v->stmt, &b);
  Str line = strbuf_str(&b);
  const char *nl = line.n ? memchr(line.p, '\n', (size_t)line.n) : NULL;
  if (nl) line.n = nl - line.p;
  line.n = MIN(line.n, 200);
  return fail(v->d, TENON_EINVAL, NOWHERE, "kernel @%s: `%.*s`: %s", v->k->name, STR_ARG(line),
              text);
}

// ---- first walk: symbols ----
static tenon_status check_scope(Verifier *v, Dim e) {
  if (e->kind == IE_CONST) return TENON_OK;
  if (e->kind == IE_POISON) return verify_fail(v, "an index expression has no value");
  if (e->kind == IE_SYM)
    return prover_find(&v->p[AS_WRITTEN], e) >= 0
               ? TENON_OK
               : verify_fail(v, "symbol '%s' is not defined here", verify_text(v, e));
  if (e->kind != IE_SUM) {
    TRY(check_scope(v, e->a));
    return check_scope(v, e->b);
  }
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++) TRY(check_scope(v, e->term[i].atom[j]));
  return TENON_OK;
}

static tenon_status check_dim(Verifier *v, Dim e, const char *what) {
  if (!e) return verify_fail(v, "there is no %s", what);
  TRY(check_scope(v, e));
  digits_collect(&v->digits, e);
  return TENON_OK;
}

// `as` is 1, or the guard.  A guard may stand before several accesses.
static tenon_status define_sym(Verifier *v, Dim sym, Dim extent, const LoopBound *guard) {
  uint64_t was = 0;
  if (!sym || sym->kind != IE_SYM) return verify_fail(v, "a loop variable that is no symbol");
  TRY(check_dim(v, extent, "extent"));
  bool known = intmap_get(&v->sym, (uint64_t)sym->slot, &was);
  const LoopBound *g = was > 1 ? (const LoopBound *)(uintptr_t)was : NULL;
  bool again = g && guard && g->value == guard->value && g->extent == guard->extent;
  if (known && !again) return verify_fail(v, "symbol '%s' is defined twice", verify_text(v, sym));
  if (sym->lo > 0 || sym->hi < loop_sym_hi(extent))
    return verify_fail(v, "the range of '%s' leaves out values below %s", verify_text(v, sym),
                       verify_text(v, extent));
  if (!known) digits_var(&v->digits, sym, extent);
  intmap_put(&v->sym, (uint64_t)sym->slot, guard ? (uint64_t)(uintptr_t)guard : 1);
  prover_push(&v->p[AS_WRITTEN], sym, extent, guard ? guard->value : NULL);
  return TENON_OK;
}

static tenon_status define_guards(Verifier *v, int n, const LoopBound *g) {
  if (n > LOOP_GUARDS || (n && !g)) return verify_fail(v, "%d guards", n);
  for (int i = 0; i < n; i++) {
    TRY(check_dim(v, g[i].value, "value of a guard"));
    TRY(define_sym(v, g[i].sym, g[i].extent, &g[i]));
  }
  return TENON_OK;
}

// ---- first walk: accesses ----
static bool register_index(Verifier *v, Dim e) {
  uint64_t kind = 0;
  if (e->kind == IE_CONST) return true;
  if (e->kind == IE_SYM)
    return intmap_get(&v->loop, (uint64_t)e->slot, &kind) &&
           (kind == LOOP_UNROLL || kind == LOOP_VECTOR);
  if (e->kind != IE_SUM) return register_index(v, e->a) && register_index(v, e->b);
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++)
      if (!register_index(v, e->term[i].atom[j])) return false;
  return true;
}

// What a thread's own part of a register buffer is indexed by: the index without its t*n.  NULL: it
// is no such index.
static Dim own_part(Verifier *v, const LoopBuffer *b, Dim index) {
  Dim n, rest;
  if (!v->threads) return index;
  if (!v->thread || !ie_is_const(b->size) || b->size->value % v->threads) return NULL;
  if (!dim_split(v->pool, index, v->thread, &n, &rest)) return NULL;
  return ie_is(n, b->size->value / v->threads) ? rest : NULL;
}

// Outside of thread loops all is the same for every thread of the thread block: nothing is stored,
// and nothing loaded that is.
static tenon_status check_thread(Verifier *v, const LoopBuffer *b) {
  if (!v->threads || v->thread || (b->space == LOOP_ARG && !b->written)) return TENON_OK;
  return verify_fail(v, "%%%s is used outside of the thread loops", b->name);
}

static tenon_status check_place(Verifier *v, int32_t buffer, Dim index, int nguards,
                                const LoopBound *guard) {
  int64_t scope = v->p[AS_WRITTEN].sym.n;
  if (buffer < 0 || buffer >= v->k->nbuffers) return verify_fail(v, "buffer %d", (int)buffer);
  TRY(define_guards(v, nguards, guard));
  TRY(check_dim(v, index, "index"));
  const LoopBuffer *b = &v->k->buffer[buffer];
  TRY(check_thread(v, b));
  Dim own = b->space == LOOP_REGISTER ? own_part(v, b, index) : NULL;
  if (b->space == LOOP_REGISTER && (!own || !register_index(v, own)))
    return verify_fail(v,
                       "%%%s[%s]: registers are indexed by constants, unrolled variables and the "
                       "vector's alone%s",
                       b->name, verify_text(v, index),
                       v->threads ? ", beside a thread's number of them" : "");
  prover_pop(&v->p[AS_WRITTEN], scope);
  return TENON_OK;
}

// ---- first walk: expressions ----
static tenon_status check_expr(Verifier *v, const LoopExpr *e);

static tenon_status check_load(Verifier *v, const LoopExpr *e) {
  TRY(check_place(v, e->buffer, e->index, e->nguards, e->guard));
  const LoopBuffer *b = &v->k->buffer[e->buffer];
  bool wide = e->dtype == DT_U32 && dtype_bits(b->dtype) < 32 && b->dtype != DT_BOOL &&
              b->space != LOOP_REGISTER && !b->written;
  if (e->dtype != b->dtype && !wide)
    return verify_fail(v, "a load of %%%s, which is %s, as %s", b->name, dtype_name(b->dtype),
                       dtype_name(e->dtype));
  if (!e->src[0]) return TENON_OK;
  if (!e->nguards) return verify_fail(v, "a load of %%%s with an else but no guard", b->name);
  TRY(check_expr(v, e->src[0]));
  if (e->src[0]->dtype != e->dtype)
    return verify_fail(v, "a load of %%%s as %s, else %s", b->name, dtype_name(e->dtype),
                       dtype_name(e->src[0]->dtype));
  return TENON_OK;
}

static tenon_status check_var(Verifier *v, const LoopExpr *e) {
  if (e->var < 0 || e->var >= v->k->nvars || !v->live[e->var])
    return verify_fail(v, "variable %%v%d is not defined here", (int)e->var);
  if (e->dtype != v->k->var[e->var])
    return verify_fail(v, "variable %%v%d is %s, not %s", (int)e->var,
                       dtype_name(v->k->var[e->var]), dtype_name(e->dtype));
  return TENON_OK;
}

static bool is_table_half(const LoopExpr *e) { return e->kind == LX_CONST && e->dtype == DT_U64; }

static tenon_status check_op_types(Verifier *v, const LoopExpr *e) {
  LoopOp op = (LoopOp)e->op;
  const char *name = loop_op_name[op];
  if (op == LOOP_dot) {
    DType sum = e->src[2]->dtype;
    if (e->src[0]->dtype == DT_U32 && e->src[1]->dtype == DT_U32 && e->dtype == sum &&
        (sum == DT_I32 || sum == DT_F32))
      return TENON_OK;
    return verify_fail(v, "dot takes two u32 and a sum of i32 or f32, not %s, %s and %s",
                       dtype_name(e->src[0]->dtype), dtype_name(e->src[1]->dtype), dtype_name(sum));
  }
  if (op == LOOP_lookup) {
    if (e->dtype == DT_U32 && e->src[0]->dtype == DT_U32 && is_table_half(e->src[1]) &&
        is_table_half(e->src[2]))
      return TENON_OK;
    return verify_fail(v, "lookup takes a u32 and two constants of u64");
  }
  int first = op == LOOP_select;
  DType t = e->src[first]->dtype;
  for (int i = first + 1; i < loop_op_arity[op]; i++)
    if (e->src[i]->dtype != t)
      return verify_fail(v, "%s takes operands of one dtype, not %s and %s", name, dtype_name(t),
                         dtype_name(e->src[i]->dtype));
  if (op == LOOP_select && e->src[0]->dtype != DT_BOOL)
    return verify_fail(v, "select takes a bool first, not %s", dtype_name(e->src[0]->dtype));
  if (!(loop_class_of(t) & loop_op_classes(op)))
    return verify_fail(v, "%s does not take %s", name, dtype_name(t));
  if (op == LOOP_tf32 && t != DT_F32)
    return verify_fail(v, "tf32 takes f32, not %s", dtype_name(t));
  if (op == LOOP_bit_cast && dtype_bits(t) != dtype_bits(e->dtype))
    return verify_fail(v, "bit_cast of %s to %s", dtype_name(t), dtype_name(e->dtype));
  bool free_type = op == LOOP_cast || op == LOOP_bit_cast;
  if (!free_type && e->dtype != (loop_op_is_compare(op) ? DT_BOOL : t))
    return verify_fail(v, "%s of %s is no %s", name, dtype_name(t), dtype_name(e->dtype));
  return TENON_OK;
}

static tenon_status check_op(Verifier *v, const LoopExpr *e) {
  if (e->op >= LOOP_OP_COUNT) return verify_fail(v, "operation %d", e->op);
  for (int i = 0; i < 3; i++) {
    bool wanted = i < loop_op_arity[e->op];
    if (wanted != (e->src[i] != NULL))
      return verify_fail(v, "%s takes %d operands", loop_op_name[e->op], loop_op_arity[e->op]);
    if (wanted) TRY(check_expr(v, e->src[i]));
  }
  return check_op_types(v, e);
}

// Each node once in a statement.
static bool looked_at(Verifier *v, const LoopExpr *e) {
  uint64_t at, key = (uint64_t)(uintptr_t)e;
  if (intmap_get(&v->checked, key, &at) && at == v->nstmts) return true;
  intmap_put(&v->checked, key, v->nstmts);
  return false;
}

static tenon_status check_expr(Verifier *v, const LoopExpr *e) {
  if (!e) return verify_fail(v, "there is no value");
  if (looked_at(v, e)) return TENON_OK;
  if (!loop_dtype_ok(e->dtype)) return verify_fail(v, "kernels have no %s", dtype_name(e->dtype));
  if (v->depth == LOOP_MAX_DEPTH) return verify_fail(v, "an expression is nested too deeply");
  v->depth++;
  tenon_status s = TENON_OK;
  switch ((LoopExprKind)e->kind) {
  case LX_CONST: break;
  case LX_INDEX:
    s = e->dtype == DT_I64 ? check_dim(v, e->index, "index") : verify_fail(v, "an index is i64");
    break;
  case LX_LOAD: s = check_load(v, e); break;
  case LX_VAR: s = check_var(v, e); break;
  case LX_OP: s = check_op(v, e); break;
  default: s = verify_fail(v, "a value of kind %d", e->kind);
  }
  v->depth--;
  return s;
}

// ---- first walk: statements ----
static tenon_status check_block(Verifier *v, const LoopBlock *b);

static tenon_status define_var(Verifier *v, const LoopStmt *s) {
  if (s->var < 0 || s->var >= v->k->nvars) return verify_fail(v, "variable %d", (int)s->var);
  if (v->defined[s->var]) return verify_fail(v, "variable %%v%d is defined twice", (int)s->var);
  if (v->k->var[s->var] != s->value->dtype)
    return verify_fail(v, "variable %%v%d is %s, not %s", (int)s->var,
                       dtype_name(v->k->var[s->var]), dtype_name(s->value->dtype));
  v->defined[s->var] = v->live[s->var] = true;
  vec_push(v->arena, &v->vars, s->var);
  return TENON_OK;
}

// Statements, then what follows them in their scope (the yield of a reduction).
typedef struct Mark {
  int64_t syms[NFORMS], vars, facts;
} Mark;
static Mark enter(Verifier *v) {
  v->nesting++;
  const Prover *p = v->p;
  return (Mark){{p[0].sym.n, p[1].sym.n}, v->vars.n, p[AS_DIGITS].fact.n};
}
static void leave(Verifier *v, Mark m) {
  v->nesting--;
  for (int i = 0; i < NFORMS; i++) prover_pop(&v->p[i], m.syms[i]);
  v->p[AS_DIGITS].fact.n = m.facts;
  while (v->vars.n > m.vars) v->live[v->vars.v[--v->vars.n]] = false;
}

static tenon_status check_thread_loop(Verifier *v, const LoopStmt *s) {
  if (s->loop == LOOP_VECTOR && v->threads && !v->thread)
    return verify_fail(v, "a vector loop lies outside of the thread loops");
  if (s->loop != LOOP_THREAD) return TENON_OK;
  if (!v->parallel || v->thread || v->vectors || v->reduces)
    return verify_fail(v, "a thread loop lies in no thread loop, vector loop or reduction");
  if (!s->extent || !ie_is(s->extent, v->threads) || v->threads > LOOP_MAX_THREADS)
    return verify_fail(v, "thread loops have one extent, a number up to %d", LOOP_MAX_THREADS);
  return TENON_OK;
}

static tenon_status check_for(Verifier *v, const LoopStmt *s) {
  if (s->loop > LOOP_WHERE) return verify_fail(v, "a loop of kind %d", s->loop);
  if (s->loop == LOOP_PARALLEL && v->parallel)
    return verify_fail(v, "a parallel loop is the outermost one and occurs once");
  if (v->vectors && s->loop != LOOP_UNROLL)
    return verify_fail(v, "a vector loop holds no loops but unrolled ones");
  TRY(check_thread_loop(v, s));
  Mark m = enter(v);
  LoopBound *where = NULL;
  if (s->loop == LOOP_WHERE) {
    TRY(check_dim(v, s->index, "value of a guard"));
    where = arena_new(v->arena, LoopBound);
    *where = (LoopBound){.sym = s->sym, .value = s->index, .extent = s->extent};
  }
  TRY(define_sym(v, s->sym, s->extent, where));
  if (s->loop == LOOP_UNROLL && !ie_is_const(s->extent))
    return verify_fail(v, "an unrolled loop has a constant extent, not %s",
                       verify_text(v, s->extent));
  intmap_put(&v->loop, (uint64_t)s->sym->slot, s->loop);
  v->parallel |= s->loop == LOOP_PARALLEL;
  v->vectors += s->loop == LOOP_VECTOR;
  if (s->loop == LOOP_THREAD) v->thread = s->sym;
  TRY(check_block(v, &s->body));
  if (s->loop == LOOP_THREAD) v->thread = NULL;
  v->vectors -= s->loop == LOOP_VECTOR;
  leave(v, m);
  return TENON_OK;
}

static tenon_status check_reduce(Verifier *v, const LoopStmt *s) {
  double f;
  int64_t i;
  if (s->lanes < 1 || s->lanes > LOOP_LANES || (s->lanes & (s->lanes - 1)))
    return verify_fail(v, "%d lanes: a power of two up to %d", (int)s->lanes, LOOP_LANES);
  if (v->vectors && s->lanes != 1)
    return verify_fail(v, "a reduction in a vector loop has one lane, not %d", (int)s->lanes);
  Mark m = enter(v);
  TRY(define_sym(v, s->sym, s->extent, NULL));
  v->reduces++;
  TRY(check_block(v, &s->body));
  v->reduces--;
  v->stmt = s;
  v->nstmts++;
  TRY(check_expr(v, s->value));
  DType t = s->value->dtype;
  if (s->op >= LOOP_OP_COUNT || !loop_identity((LoopOp)s->op, t, &f, &i) ||
      !(loop_class_of(t) & loop_op_classes((LoopOp)s->op)))
    return verify_fail(v, "%s does not reduce %s",
                       s->op < LOOP_OP_COUNT ? loop_op_name[s->op] : "?", dtype_name(t));
  leave(v, m);
  return define_var(v, s);
}

static tenon_status check_bind(Verifier *v, const LoopStmt *s) {
  TRY(check_expr(v, s->value));
  if (!dtype_is_int(s->value->dtype))
    return verify_fail(v, "an index is an integer, not %s", dtype_name(s->value->dtype));
  if (s->check < 0 || s->check >= v->k->nchecks) return verify_fail(v, "check %d", (int)s->check);
  return define_sym(v, s->sym, s->extent, NULL);
}

static tenon_status check_store(Verifier *v, const LoopStmt *s) {
  TRY(check_expr(v, s->value));
  TRY(check_place(v, s->buffer, s->index, s->nguards, s->guard));
  const LoopBuffer *b = &v->k->buffer[s->buffer];
  bool wide = s->value->dtype == DT_U32 && dtype_bits(b->dtype) == 8 && b->dtype != DT_BOOL &&
              b->space != LOOP_REGISTER;
  if (b->dtype != s->value->dtype && !wide)
    return verify_fail(v, "a store of %s to %%%s, which is %s", dtype_name(s->value->dtype),
                       b->name, dtype_name(b->dtype));
  if (b->space == LOOP_ARG && !b->written)
    return verify_fail(v, "a store to %%%s, which is not a result", b->name);
  return TENON_OK;
}

static tenon_status check_if(Verifier *v, const LoopStmt *s) {
  TRY(check_expr(v, s->value));
  if (s->value->dtype != DT_BOOL)
    return verify_fail(v, "a condition is a bool, not %s", dtype_name(s->value->dtype));
  Mark m = enter(v);
  TRY(check_block(v, &s->body));
  leave(v, m);
  m = enter(v);
  TRY(check_block(v, &s->orelse));
  leave(v, m);
  return TENON_OK;
}

// The record, and then its loops, whose accesses are proven as all others are.
static tenon_status check_tile(Verifier *v, const LoopStmt *s) {
  const char *why;
  if (!v->parallel || v->nesting != 1 || v->threads || v->k->body.v[0]->body.n != 1)
    return verify_fail(v, "a tile statement stands under the parallel loop alone");
  if (!loop_tile_check(v->k, s, &why)) return verify_fail(v, "%s", why);
  Mark m = enter(v);
  TRY(check_block(v, &s->body));
  leave(v, m);
  return TENON_OK;
}

static tenon_status check_stmt(Verifier *v, const LoopStmt *s) {
  v->stmt = s;
  v->nstmts++;
  switch ((LoopStmtKind)s->kind) {
  case LS_FOR: return check_for(v, s);
  case LS_LET: TRY(check_expr(v, s->value)); return define_var(v, s);
  case LS_BIND: return check_bind(v, s);
  case LS_STORE: return check_store(v, s);
  case LS_IF: return check_if(v, s);
  case LS_REDUCE: return check_reduce(v, s);
  case LS_PREFETCH: return check_place(v, s->buffer, s->index, 0, NULL);
  case LS_MMA:
  case LS_ATTENTION: return check_tile(v, s);
  }
  return verify_fail(v, "a statement of kind %d", s->kind);
}

static tenon_status check_block(Verifier *v, const LoopBlock *b) {
  if (v->nesting > LOOP_MAX_NESTING) return verify_fail(v, "blocks are nested too deeply");
  for (int64_t i = 0; i < b->n; i++) TRY(check_stmt(v, b->v[i]));
  return TENON_OK;
}

// ---- first walk: the kernel ----
static tenon_status check_buffers(Verifier *v) {
  const LoopKernel *k = v->k;
  if (k->nargs > k->nbuffers) return verify_fail(v, "more arguments than buffers");
  for (int32_t i = 0; i < k->nbuffers; i++) {
    const LoopBuffer *b = &k->buffer[i];
    if ((i < k->nargs) != (b->space == LOOP_ARG) || b->space > LOOP_SHARED)
      return verify_fail(v, "buffer %%%s: arguments come first", b->name);
    if (!loop_dtype_ok(b->dtype))
      return verify_fail(v, "buffer %%%s: kernels have no %s", b->name, dtype_name(b->dtype));
    TRY(check_dim(v, b->size, "size"));
    int64_t bytes;
    bool sized =
        ie_is_const(b->size) && dtype_bytes(b->dtype, b->size->value, &bytes) && bytes <= INT32_MAX;
    if (b->space != LOOP_ARG && !sized)
      return verify_fail(v, "buffer %%%s: its size is a number, not %s", b->name,
                         verify_text(v, b->size));
    if (b->written && b->space != LOOP_ARG)
      return verify_fail(v, "buffer %%%s: results are arguments", b->name);
    if (b->constant && (b->written || b->space != LOOP_ARG))
      return verify_fail(v, "buffer %%%s: constants are arguments that are only read", b->name);
  }
  return TENON_OK;
}

static tenon_status check_kernel(Verifier *v) {
  const LoopKernel *k = v->k;
  for (int32_t i = 0; i < k->ndims; i++) {
    Dim s = k->dim[i];
    uint64_t was;
    if (s->kind != IE_SYM || intmap_get(&v->sym, (uint64_t)s->slot, &was))
      return verify_fail(v, "dim %d is not a symbol of its own", (int)i);
    intmap_put(&v->sym, (uint64_t)s->slot, 1);
    for (int j = 0; j < NFORMS; j++) prover_push(&v->p[j], s, NULL, NULL);
  }
  TRY(check_buffers(v));
  for (int32_t i = 0; i < k->nvars; i++)
    if (!loop_dtype_ok(k->var[i]))
      return verify_fail(v, "variable %%v%d: kernels have no %s", (int)i, dtype_name(k->var[i]));
  const LoopStmt *top = k->body.n == 1 ? k->body.v[0] : NULL;
  if (!top || top->kind != LS_FOR || top->loop != LOOP_PARALLEL)
    return verify_fail(v, "a kernel is one parallel loop");
  v->digits.items = top->extent;
  v->threads = loop_threads(k);
  return check_block(v, &k->body);
}

// ---- second walk: proofs ----
static bool both_lt(Verifier *v, Dim a, Dim b) {
  if (prove_lt(&v->p[AS_WRITTEN], a, b)) return true;
  Dim x = digits_apply(&v->digits, a), y = digits_apply(&v->digits, b);
  return (x != a || y != b) && prove_lt(&v->p[AS_DIGITS], x, y);
}

static tenon_status prove_divisors(Verifier *v, Dim e) {
  if (e->kind == IE_CONST || e->kind == IE_SYM) return TENON_OK;
  if (e->kind == IE_SUM) {
    for (int i = 0; i < e->nterms; i++)
      for (int j = 0; j < e->term[i].natoms; j++) TRY(prove_divisors(v, e->term[i].atom[j]));
    return TENON_OK;
  }
  TRY(prove_divisors(v, e->a));
  TRY(prove_divisors(v, e->b));
  if ((e->kind != IE_DIV && e->kind != IE_MOD) || e->b->lo >= 1) return TENON_OK;
  if (prover_positive(&v->p[AS_WRITTEN], e->b) || both_lt(v, v->pool->zero, e->b)) return TENON_OK;
  return verify_fail(v, "cannot prove that the divisor %s is positive", verify_text(v, e->b));
}

// A symbol as it is, and as its digits, with what holds for them together.
static tenon_status open_sym(Verifier *v, Dim sym, Dim extent, Dim value) {
  const Digits *d = digits_of(&v->digits, sym);
  TRY(prove_divisors(v, extent));
  if (value) TRY(prove_divisors(v, value));
  prover_push(&v->p[AS_WRITTEN], sym, extent, value);
  if (d->n == 1) {
    prover_push(&v->p[AS_DIGITS], sym, d->size[0], value ? digits_apply(&v->digits, value) : NULL);
    return TENON_OK;
  }
  for (int i = d->n - 1; i >= 0; i--)
    if (d->digit[i]->kind == IE_SYM) prover_push(&v->p[AS_DIGITS], d->digit[i], d->size[i], NULL);
  int top = d->n - 1;
  Dim all = digits_apply(&v->digits, extent);
  if (!dim_divides(v->pool, d->unit[top], all)) {
    Dim last = ie_addc(v->pool, ie_sub(v->pool, all, digits_apply(&v->digits, sym)), -1);
    vec_push(v->arena, &v->p[AS_DIGITS].fact, last);
  }
  return TENON_OK;
}

static tenon_status prove_place(Verifier *v, int32_t buffer, Dim index, int64_t width, int nguards,
                                const LoopBound *guard, const char *what) {
  const LoopBuffer *b = &v->k->buffer[buffer];
  Mark m = enter(v);
  for (int i = 0; i < nguards; i++) TRY(open_sym(v, guard[i].sym, guard[i].extent, guard[i].value));
  TRY(prove_divisors(v, index));
  if (!both_lt(v, ie_const(v->pool, -1), index))
    return verify_fail(v, "%s %%%s[%s]: cannot prove that the index is not negative", what, b->name,
                       verify_text(v, index));
  if (!both_lt(v, ie_addc(v->pool, index, width - 1), b->size))
    return verify_fail(v, "%s %%%s[%s]: cannot prove that the index is below %s", what, b->name,
                       verify_text(v, index), verify_text(v, b->size));
  Dim own = b->space == LOOP_REGISTER && v->threads ? own_part(v, b, index) : NULL;
  if (own && !(both_lt(v, ie_const(v->pool, -1), own) &&
               both_lt(v, own, ie_const(v->pool, b->size->value / v->threads))))
    return verify_fail(v, "%s %%%s[%s]: cannot prove that it is the thread's own", what, b->name,
                       verify_text(v, index));
  bool races = b->written || v->thread;
  for (int64_t i = 0; races && i < width; i++) {
    Dim at = ie_addc(v->pool, index, i), forms[NFORMS] = {at, digits_apply(&v->digits, at)};
    TRY(verify_race(v, buffer, forms, what));
  }
  leave(v, m);
  return TENON_OK;
}

static tenon_status prove_expr(Verifier *v, const LoopExpr *e) {
  if (!e || looked_at(v, e)) return TENON_OK;
  if (e->kind == LX_INDEX) return prove_divisors(v, e->index);
  if (e->kind == LX_LOAD) {
    int64_t width = dtype_bits(e->dtype) / dtype_bits(v->k->buffer[e->buffer].dtype);
    TRY(prove_place(v, e->buffer, e->index, width, e->nguards, e->guard, "load of"));
  }
  for (int i = 0; i < 3; i++) TRY(prove_expr(v, e->src[i]));
  return TENON_OK;
}

static tenon_status prove_block(Verifier *v, const LoopBlock *b);

// What was seen of another thread loop does not count: threads wait in between.
static void open_threads(Verifier *v, const LoopStmt *s) {
  int64_t n = v->k->nbuffers;
  v->thread = s->sym;
  v->stored = arena_array(v->arena, bool, n);
  v->threads_disjoint = arena_array(v->arena, Disjoint, n * NFORMS);
  loop_stored(v->k, &s->body, v->stored);
}

// A loop or a reduction; the value of a reduction is computed within.
static tenon_status prove_rounds(Verifier *v, const LoopStmt *s) {
  Mark m = enter(v);
  bool where = s->kind == LS_FOR && s->loop == LOOP_WHERE;
  if (s->kind == LS_FOR && s->loop == LOOP_THREAD)
    for (int i = 0; i < NFORMS; i++) v->outside[i] = v->p[i].sym.n;
  TRY(open_sym(v, s->sym, s->extent, where ? s->index : NULL));
  if (s->kind == LS_FOR && s->loop == LOOP_PARALLEL) {
    v->item = digits_of(&v->digits, s->sym);
    for (int i = 0; i < NFORMS; i++) prover_all_in(&v->p[i], s->extent);
  }
  if (s->kind == LS_FOR && s->loop == LOOP_THREAD) open_threads(v, s);
  TRY(prove_block(v, &s->body));
  if (s->kind == LS_FOR && s->loop == LOOP_THREAD) v->thread = NULL;
  v->stmt = s;
  v->nstmts++;
  TRY(prove_expr(v, s->value));
  leave(v, m);
  return TENON_OK;
}

static tenon_status prove_if(Verifier *v, const LoopStmt *s) {
  TRY(prove_expr(v, s->value));
  Mark m = enter(v);
  TRY(prove_block(v, &s->body));
  leave(v, m);
  m = enter(v);
  TRY(prove_block(v, &s->orelse));
  leave(v, m);
  return TENON_OK;
}

static tenon_status prove_stmt(Verifier *v, const LoopStmt *s) {
  v->stmt = s;
  v->nstmts++;
  switch ((LoopStmtKind)s->kind) {
  case LS_FOR:
  case LS_REDUCE: return prove_rounds(v, s);
  case LS_LET: return prove_expr(v, s->value);
  case LS_BIND: TRY(prove_expr(v, s->value)); return open_sym(v, s->sym, s->extent, NULL);
  case LS_STORE:
    TRY(prove_expr(v, s->value));
    return prove_place(v, s->buffer, s->index,
                       dtype_bits(s->value->dtype) / dtype_bits(v->k->buffer[s->buffer].dtype),
                       s->nguards, s->guard, "store to");
  case LS_IF: return prove_if(v, s);
  case LS_PREFETCH: return prove_divisors(v, s->index);
  case LS_MMA:
  case LS_ATTENTION: return prove_block(v, &s->body);
  }
  return TENON_OK;
}

static tenon_status prove_block(Verifier *v, const LoopBlock *b) {
  for (int64_t i = 0; i < b->n; i++) TRY(prove_stmt(v, b->v[i]));
  return TENON_OK;
}

static tenon_status prove_kernel(Verifier *v) {
  const LoopKernel *k = v->k;
  v->stmt = NULL;
  for (int i = 0; i < NFORMS; i++) prover_pop(&v->p[i], k->ndims);
  digits_settle(&v->digits);
  v->disjoint = arena_array(v->arena, Disjoint, (int64_t)k->nbuffers * NFORMS);
  for (int32_t i = 0; i < k->nbuffers; i++) TRY(prove_divisors(v, k->buffer[i].size));
  return prove_block(v, &k->body);
}

tenon_status loop_verify(const LoopKernel *k, Diag *d) {
  Verifier v = {.k = k, .d = d, .arena = k->arena, .pool = k->pool};
  for (int i = 0; i < NFORMS; i++) prover_init(&v.p[i], k->pool, k->arena);
  digits_init(&v.digits, k->pool, k->arena);
  intmap_init(&v.sym, k->arena);
  intmap_init(&v.loop, k->arena);
  intmap_init(&v.checked, k->arena);
  v.defined = arena_array(k->arena, bool, k->nvars);
  v.live = arena_array(k->arena, bool, k->nvars);
  TRY(check_kernel(&v));
  return prove_kernel(&v);
}
