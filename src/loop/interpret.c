// interpret.c -- runs kernels as they are written: the reference that targets are compared with.
//
// Each expression becomes a list of steps over one array of cells, a step for each node of the DAG,
// so a shared node is computed once; statements and index expressions are walked as they are.  Both
// sides of a select are computed.  Scratch and registers are filled with ones, which are NaNs,
// before each work item.
//
// Guarantees: every access is checked against the buffer's size, verified or not; nothing outside
//             is touched.
#include "loop/impl.h"

typedef struct Step {
  const LoopExpr *e;
  int32_t to, src[3];
} Step;
typedef struct Code {
  int64_t n;
  const Step *step;
  int32_t result;
} Code;
typedef struct RunStmt RunStmt;
typedef struct RunBlock {
  int64_t n;
  RunStmt *v;
} RunBlock;
struct RunStmt {
  const LoopStmt *s;
  Code value;
  RunBlock body, orelse;
};

typedef struct Interp {
  const LoopKernel *k;
  Arena *arena;
  Diag *d;
  void **base;    // by buffer
  int64_t *size;  // elements, by buffer
  int64_t *sym;   // by slot
  LoopCell *cell;
  tenon_status status;
  int32_t failed;
  // while code is made
  VEC(LoopCell) cells;
  IntMap place;  // node -> statement << 32 | cell
  uint64_t stmt;
  VEC(Step) steps;
} Interp;

// ---- making steps ----
static int32_t new_cell(Interp *in, LoopCell v) {
  vec_push(in->arena, &in->cells, v);
  return (int32_t)(in->cells.n - 1);
}

static int32_t make_steps(Interp *in, const LoopExpr *e) {
  if (e->kind == LX_VAR) return e->var;
  if (e->kind == LX_CONST)
    return new_cell(in, dtype_is_float(e->dtype) ? (LoopCell){.f = e->f} : (LoopCell){.i = e->i});
  uint64_t key = (uint64_t)(uintptr_t)e, at;
  if (intmap_get(&in->place, key, &at) && at >> 32 == in->stmt) return (int32_t)(uint32_t)at;
  Step s = {.e = e};
  for (int i = 0; i < 3; i++)
    if (e->src[i]) s.src[i] = make_steps(in, e->src[i]);
  s.to = new_cell(in, (LoopCell){.i = 0});
  intmap_put(&in->place, key, in->stmt << 32 | (uint32_t)s.to);
  vec_push(in->arena, &in->steps, s);
  return s.to;
}

static Code make_code(Interp *in, const LoopExpr *e) {
  in->stmt++;
  in->steps.n = 0;
  Code c = {.result = make_steps(in, e)};
  c.n = in->steps.n;
  if (c.n) c.step = arena_dup(in->arena, in->steps.v, c.n * (int64_t)sizeof(Step));
  return c;
}

static RunBlock make_block(Interp *in, const LoopBlock *b) {
  RunBlock out = {b->n, arena_array(in->arena, RunStmt, b->n)};
  for (int64_t i = 0; i < b->n; i++) {
    RunStmt *r = &out.v[i];
    r->s = b->v[i];
    if (r->s->value) r->value = make_code(in, r->s->value);
    r->body = make_block(in, &r->s->body);
    r->orelse = make_block(in, &r->s->orelse);
  }
  return out;
}

// ---- index expressions ----
static PRINTF(2, 3) void stop(Interp *in, const char *fmt, ...) {
  if (in->status) return;
  va_list ap;
  va_start(ap, fmt);
  const char *text = str_vprintf(in->arena, fmt, ap);
  in->status = fail(in->d, TENON_EINTERNAL, NOWHERE, "kernel @%s: %s", in->k->name, text);
  va_end(ap);
}

static int64_t floor_op(Interp *in, int64_t a, int64_t b, bool mod) {
  if (b == 0) {
    stop(in, "an index expression divides by 0");
    return 0;
  }
  if (b == -1) return mod ? 0 : (int64_t)(0 - (uint64_t)a);
  int64_t q = a / b, r = a % b;
  bool past = r != 0 && (r < 0) != (b < 0);
  return mod ? r + (past ? b : 0) : q - past;
}

static int64_t index_value(Interp *in, Dim e) {
  if (e->kind == IE_CONST) return e->value;
  if (e->kind == IE_SYM) return in->sym[e->slot];
  if (e->kind == IE_SUM) {
    uint64_t sum = 0;
    for (int i = 0; i < e->nterms; i++) {
      const IntTerm *t = &e->term[i];
      uint64_t product = (uint64_t)t->coef;
      for (int j = 0; j < t->natoms; j++) product *= (uint64_t)index_value(in, t->atom[j]);
      sum += product;
    }
    return (int64_t)sum;
  }
  if (e->kind == IE_POISON) {
    stop(in, "an index expression without a value");
    return 0;
  }
  int64_t a = index_value(in, e->a), b = index_value(in, e->b);
  if (e->kind == IE_MIN) return MIN(a, b);
  if (e->kind == IE_MAX) return MAX(a, b);
  if (e->kind == IE_BCAST) return a == 1 ? b : a;
  return floor_op(in, a, b, e->kind == IE_MOD);
}

// Gives the guards' symbols their values, as far as they hold.
static bool guards_hold(Interp *in, int n, const LoopBound *g) {
  for (int i = 0; i < n; i++) {
    int64_t v = index_value(in, g[i].value);
    if (v < 0 || v >= index_value(in, g[i].extent)) return false;
    in->sym[g[i].sym->slot] = v;
  }
  return true;
}

static bool in_range(Interp *in, int32_t buffer, Dim index, const char *what, int64_t *out) {
  *out = index_value(in, index);
  if (*out >= 0 && *out < in->size[buffer]) return true;
  stop(in, "%s %%%s[%lld], which has %lld elements", what, in->k->buffer[buffer].name,
       (long long)*out, (long long)in->size[buffer]);
  return false;
}

// ---- values ----
static LoopCell load(Interp *in, const Step *s) {
  const LoopExpr *e = s->e;
  LoopCell v = {.i = 0};
  if (dtype_is_float(e->dtype)) v.f = 0;
  if (!guards_hold(in, e->nguards, e->guard)) return e->src[0] ? in->cell[s->src[0]] : v;
  int64_t at, unit = dtype_bits(in->k->buffer[e->buffer].dtype) / 8;
  if (!in_range(in, e->buffer, e->index, "load of", &at)) return v;
  if (at + dtype_bits(e->dtype) / (8 * unit) > in->size[e->buffer]) {
    stop(in, "wide load at the end of %%%s", in->k->buffer[e->buffer].name);
    return v;
  }
  uint64_t bits = 0;
  memcpy(&bits, (const char *)in->base[e->buffer] + at * unit, (size_t)dtype_bits(e->dtype) / 8);
  return loop_get(e->dtype, &bits, 0);
}

static LoopCell operation(Interp *in, const Step *s) {
  const LoopExpr *e = s->e;
  LoopCell v[3], out = {.i = 0};
  for (int i = 0; i < loop_op_arity[e->op]; i++) v[i] = in->cell[s->src[i]];
  DType t = e->src[e->op == LOOP_select ? 1 : e->op == LOOP_dot ? 2 : 0]->dtype;
  if (e->op == LOOP_cast) return loop_convert(e->dtype, t, v[0]);
  if (e->op == LOOP_bit_cast) return loop_reinterpret(e->dtype, t, v[0]);
  if (!loop_apply((LoopOp)e->op, t, v, &out) && !in->status)
    in->status =
        fail(in->d, TENON_EINVAL, NOWHERE, "kernel @%s: integer division by zero", in->k->name);
  return out;
}

static LoopCell run_code(Interp *in, const Code *c) {
  for (int64_t i = 0; i < c->n; i++) {
    const Step *s = &c->step[i];
    LoopCell v;
    if (s->e->kind == LX_LOAD)
      v = load(in, s);
    else if (s->e->kind == LX_INDEX)
      v.i = index_value(in, s->e->index);
    else
      v = operation(in, s);
    in->cell[s->to] = v;
  }
  return in->cell[c->result];
}

// ---- statements: each gives false when the kernel ends ----
static bool run_block(Interp *in, const RunBlock *b);

static bool run_for(Interp *in, const RunStmt *r) {
  int64_t n = index_value(in, r->s->extent);
  if (r->s->loop == LOOP_WHERE) {
    int64_t v = index_value(in, r->s->index);
    in->sym[r->s->sym->slot] = v;
    return v < 0 || v >= n ? !in->status : run_block(in, &r->body);
  }
  for (int64_t i = 0; i < n; i++) {
    in->sym[r->s->sym->slot] = i;
    if (!run_block(in, &r->body)) return false;
  }
  return !in->status;
}

static bool run_reduce(Interp *in, const RunStmt *r) {
  const LoopStmt *s = r->s;
  LoopCell part[LOOP_LANES], start = {.i = 0};
  DType t = s->value->dtype;
  int64_t n = index_value(in, s->extent), zero;
  double f;
  loop_identity((LoopOp)s->op, t, &f, &zero);
  if (dtype_is_float(t))
    start.f = f;
  else
    start.i = zero;
  for (int i = 0; i < s->lanes; i++) part[i] = start;
  for (int64_t i = 0; i < n; i++) {
    in->sym[s->sym->slot] = i;
    if (!run_block(in, &r->body)) return false;
    LoopCell v[2] = {part[i & (s->lanes - 1)], run_code(in, &r->value)};
    loop_apply((LoopOp)s->op, t, v, &part[i & (s->lanes - 1)]);
    if (in->status) return false;
  }
  for (int half = s->lanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) {
      LoopCell v[2] = {part[j], part[j + half]};
      loop_apply((LoopOp)s->op, t, v, &part[j]);
    }
  in->cell[s->var] = part[0];
  return !in->status;
}

static bool run_store(Interp *in, const RunStmt *r) {
  const LoopStmt *s = r->s;
  LoopCell v = run_code(in, &r->value);
  DType t = in->k->buffer[s->buffer].dtype, wide = s->value->dtype;
  int64_t at;
  if (!guards_hold(in, s->nguards, s->guard) || !in_range(in, s->buffer, s->index, "store to", &at))
    return !in->status;
  if (t == wide) {
    loop_put(t, in->base[s->buffer], at, v);
  } else if (at + dtype_bits(wide) / dtype_bits(t) > in->size[s->buffer]) {
    stop(in, "wide store at the end of %%%s", in->k->buffer[s->buffer].name);
  } else {
    uint64_t bits = 0;
    loop_put(wide, &bits, 0, v);
    memcpy((char *)in->base[s->buffer] + at, &bits, (size_t)dtype_bits(wide) / 8);
  }
  return !in->status;
}

static bool run_bind(Interp *in, const RunStmt *r) {
  int64_t v = run_code(in, &r->value).i;
  in->sym[r->s->sym->slot] = v;
  if (v >= 0 && v < index_value(in, r->s->extent)) return !in->status;
  in->failed = r->s->check;
  return false;
}

// Row max and row sum are of a row: they are formed for its first column, and their variables keep
// them.
static bool run_attention(Interp *in, const RunStmt *r) {
  const RunStmt *rows = &r->body.v[0], *cols = &rows->body.v[0];
  int64_t of_row = r->s->tile->after - 1;
  const RunBlock rest = {cols->body.n - of_row, cols->body.v + of_row};
  for (int64_t i = 0; i < r->s->tile->s.m; i++)
    for (int64_t j = 0; j < r->s->tile->s.n; j++) {
      in->sym[rows->s->sym->slot] = i;
      in->sym[cols->s->sym->slot] = j;
      if (!run_block(in, j ? &rest : &cols->body)) return false;
    }
  return !in->status;
}

static bool run_stmt(Interp *in, const RunStmt *r) {
  switch ((LoopStmtKind)r->s->kind) {
  case LS_FOR: return run_for(in, r);
  case LS_LET: in->cell[r->s->var] = run_code(in, &r->value); return !in->status;
  case LS_BIND: return run_bind(in, r);
  case LS_STORE: return run_store(in, r);
  case LS_IF: return run_block(in, run_code(in, &r->value).i ? &r->body : &r->orelse);
  case LS_REDUCE: return run_reduce(in, r);
  case LS_PREFETCH: return true;
  case LS_MMA: return run_block(in, &r->body);
  case LS_ATTENTION: return run_attention(in, r);
  }
  return false;
}

static bool run_block(Interp *in, const RunBlock *b) {
  for (int64_t i = 0; i < b->n; i++)
    if (!run_stmt(in, &b->v[i])) return false;
  return true;
}

// ---- calls ----
static tenon_status bind_dims(Interp *in, const int64_t *dims) {
  const LoopKernel *k = in->k;
  in->sym = arena_array(in->arena, int64_t, k->pool->nsyms);
  for (int32_t i = 0; i < k->ndims; i++) {
    Dim s = k->dim[i];
    if (dims[i] < s->lo || dims[i] > s->hi)
      return fail(in->d, TENON_EINVAL, NOWHERE, "kernel @%s: dim %d is %lld, out of its range",
                  k->name, (int)i, (long long)dims[i]);
    in->sym[s->slot] = dims[i];
  }
  return TENON_OK;
}

static tenon_status bind_buffers(Interp *in, void *const *args, const int64_t *size) {
  const LoopKernel *k = in->k;
  in->base = arena_array(in->arena, void *, k->nbuffers);
  in->size = arena_array(in->arena, int64_t, k->nbuffers);
  for (int32_t i = 0; i < k->nbuffers; i++) {
    const LoopBuffer *b = &k->buffer[i];
    int64_t n = index_value(in, b->size), bytes;
    in->size[i] = n;
    if (in->status) return in->status;
    if (i < k->nargs) {
      in->base[i] = args[i];
      if (n != size[i])
        return fail(in->d, TENON_EINVAL, NOWHERE,
                    "kernel @%s: argument %%%s has %lld elements instead of %lld", k->name, b->name,
                    (long long)size[i], (long long)n);
    } else if (!dtype_bytes(b->dtype, n, &bytes)) {
      return fail(in->d, TENON_EINVAL, NOWHERE, "kernel @%s: buffer %%%s has no size", k->name,
                  b->name);
    } else {
      in->base[i] = arena_alloc(in->arena, bytes);
    }
  }
  return TENON_OK;
}

static void poison(Interp *in) {
  for (int32_t i = in->k->nargs; i < in->k->nbuffers; i++) {
    int64_t bytes;
    if (dtype_bytes(in->k->buffer[i].dtype, in->size[i], &bytes) && bytes)
      memset(in->base[i], 0xff, (size_t)bytes);
  }
}

static tenon_status run_items(Interp *in, const RunBlock *b, int64_t begin, int64_t end) {
  const LoopKernel *k = in->k;
  if (b->n != 1 || b->v[0].s->kind != LS_FOR)
    return fail(in->d, TENON_EINVAL, NOWHERE, "kernel @%s is not one loop", k->name);
  const RunStmt *r = &b->v[0];
  int64_t items = index_value(in, r->s->extent);
  if (!in->status && (begin < 0 || end > MAX(items, 0)))
    return fail(in->d, TENON_EINVAL, NOWHERE, "kernel @%s: items %lld to %lld of %lld", k->name,
                (long long)begin, (long long)end, (long long)items);
  for (int64_t i = begin; i < end && !in->status; i++) {
    poison(in);
    in->sym[r->s->sym->slot] = i;
    if (!run_block(in, &r->body)) break;
  }
  return in->status;
}

static tenon_status interpret(Interp *in, void *const *args, const int64_t *size,
                              const int64_t *dims, int64_t begin, int64_t end) {
  intmap_init(&in->place, in->arena);
  TRY(bind_dims(in, dims));
  TRY(bind_buffers(in, args, size));
  for (int32_t i = 0; i < in->k->nvars; i++) new_cell(in, (LoopCell){.i = 0});
  RunBlock b = make_block(in, &in->k->body);
  in->cell = in->cells.v;
  return run_items(in, &b, begin, end);
}

tenon_status loop_interpret(const LoopKernel *k, void *const *args, const int64_t *size,
                            const int64_t *dims, int64_t begin, int64_t end, Diag *d,
                            int32_t *failed) {
  Arena own;  // the kernel's is shared by all threads that run it
  Interp in = {.k = k, .arena = &own, .d = d, .failed = -1};
  arena_init(&own);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = interpret(&in, args, size, dims, begin, end);
  trap_leave(&t);
  *failed = in.failed;
  arena_deinit(&own);
  return t.status;
}
