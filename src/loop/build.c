// build.c -- makes kernels: buffers, symbols, expressions and statements.
//
// Folding is exact only: an operation of constants is computed where every target gives the same
// bits (no functions that targets approximate, nothing subnormal, since kernels flush those), and
// an operand is given back where the operation cannot change it.  Names are made fit for text:
// letters, digits, _ and ., once each.
#include "loop/impl.h"

#include <float.h>
#include <math.h>

// ---- names ----
static bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

static char *clean_name(Arena *a, const char *name, bool leading_digit) {
  char *s = str_printf(a, "%s%s", !leading_digit && *name >= '0' && *name <= '9' ? "_" : "",
                       *name ? name : "_");
  for (char *p = s; *p; p++)
    if (!name_char(*p)) *p = '_';
  if (*s == '.') *s = '_';
  return s;
}

// ---- kernels ----
LoopKernel *loop_kernel(Arena *a, IntPool *pool, const char *name) {
  LoopKernel *k = arena_new(a, LoopKernel);
  k->arena = a;
  k->pool = pool;
  k->name = clean_name(a, name, false);
  strmap_init(&k->next_name, a);
  return k;
}

// Room for one more: the arrays of a kernel hold 8, 16, 32, ...
static void *grow(LoopKernel *k, void *old, int32_t n, int64_t elem_bytes) {
  if (n != 0 && (n < 8 || (n & (n - 1)))) return old;
  void *p = arena_alloc_array(k->arena, MAX(8, 2 * (int64_t)n), elem_bytes);
  if (n) memcpy(p, old, (size_t)(n * elem_bytes));
  return p;
}

static bool buffer_named(const LoopKernel *k, const char *name) {
  for (int32_t i = 0; i < k->nbuffers; i++)
    if (!strcmp(k->buffer[i].name, name)) return true;
  return false;
}

int32_t loop_add_buffer(LoopKernel *k, LoopSpace space, const char *name, DType t, Dim size,
                        bool written) {
  k->buffer = grow(k, k->buffer, k->nbuffers, (int64_t)sizeof *k->buffer);
  k->buffer[k->nbuffers] = (LoopBuffer){name, space, t, size, written, false};
  if (space == LOOP_ARG) k->nargs++;
  return k->nbuffers++;
}

int32_t loop_buffer(LoopKernel *k, LoopSpace space, const char *name, DType t, Dim size,
                    bool written) {
  CHECK(space != LOOP_ARG || k->nargs == k->nbuffers, "arguments before all other buffers");
  const char *base = clean_name(k->arena, name, true), *unique = base;
  for (int i = 1; buffer_named(k, unique); i++) unique = str_printf(k->arena, "%s_%d", base, i);
  return loop_add_buffer(k, space, unique, t, size, written);
}

void loop_add_dim(LoopKernel *k, Dim sym) {
  k->dim = grow(k, k->dim, k->ndims, (int64_t)sizeof *k->dim);
  k->dim[k->ndims++] = sym;
}

Dim loop_dim(LoopKernel *k, const char *name, int64_t lo, int64_t hi) {
  Dim sym = ie_sym(k->pool, str_of(name), lo, hi);
  for (int32_t i = 0; i < k->ndims; i++)
    if (k->dim[i] == sym) return sym;
  loop_add_dim(k, sym);
  return sym;
}

// The range of a symbol is what its extent allows at most, so that expressions fold by it.
int64_t loop_sym_hi(Dim extent) {
  return extent->hi == INT64_MAX ? INT64_MAX : MAX(extent->hi, 1) - 1;
}

Dim loop_sym(LoopKernel *k, const char *name, Dim extent) {
  const char *base = clean_name(k->arena, name, false), *unique = base;
  if (strmap_has(&k->pool->syms, str_of(base))) {
    intptr_t i = MAX((intptr_t)strmap_get(&k->next_name, str_of(base)), 1);
    do unique = str_printf(k->arena, "%s_%lld", base, (long long)i++);
    while (strmap_has(&k->pool->syms, str_of(unique)));
    strmap_put(&k->next_name, str_of(base), (void *)i);
  }
  return ie_sym(k->pool, str_of(unique), 0, loop_sym_hi(extent));
}

Dim loop_items(const LoopKernel *k) {
  CHECK(k->body.n == 1 && k->body.v[0]->kind == LS_FOR, "a kernel is one parallel loop");
  return k->body.v[0]->extent;
}

int64_t loop_scratch_bytes(const LoopKernel *k) {
  int64_t total = 0;
  for (int32_t i = k->nargs; i < k->nbuffers; i++) {
    const LoopBuffer *b = &k->buffer[i];
    int64_t bytes;
    if (b->space != LOOP_SCRATCH) continue;
    CHECK(ie_is_const(b->size) && dtype_bytes(b->dtype, b->size->value, &bytes) &&
              ck_add(bytes, 63, &bytes) && ck_add(total, bytes / 64 * 64, &total),
          "scratch buffer %s has no size", b->name);
  }
  return total;
}

// ---- constants, loads, variables ----
LoopExpr *loop_new_expr(LoopKernel *k, LoopExprKind kind, DType t) {
  LoopExpr *e = arena_new(k->arena, LoopExpr);
  e->kind = (uint8_t)kind;
  e->dtype = t;
  e->buffer = e->var = -1;
  return e;
}

const LoopExpr *loop_float(LoopKernel *k, DType t, double v) {
  CHECK(dtype_is_float(t), "%s is not a float", dtype_name(t));
  LoopExpr *e = loop_new_expr(k, LX_CONST, t);
  e->f = loop_round(t, (LoopCell){.f = v}).f;
  return e;
}

const LoopExpr *loop_int(LoopKernel *k, DType t, int64_t v) {
  CHECK(!dtype_is_float(t), "%s is not an integer", dtype_name(t));
  LoopExpr *e = loop_new_expr(k, LX_CONST, t);
  e->i = t == DT_BOOL ? v != 0 : loop_round(t, (LoopCell){.i = v}).i;
  return e;
}

static const LoopExpr *constant(LoopKernel *k, DType t, LoopCell v) {
  return dtype_is_float(t) ? loop_float(k, t, v.f) : loop_int(k, t, v.i);
}

const LoopExpr *loop_index(LoopKernel *k, Dim value) {
  if (ie_is_const(value)) return loop_int(k, DT_I64, value->value);
  LoopExpr *e = loop_new_expr(k, LX_INDEX, DT_I64);
  e->index = value;
  return e;
}

const LoopExpr *loop_load_guarded(LoopKernel *k, int32_t buffer, Dim index, int nguards,
                                  const LoopBound *guard, const LoopExpr *other) {
  CHECK(buffer >= 0 && buffer < k->nbuffers && nguards >= 0 && nguards <= LOOP_GUARDS,
        "load of buffer %d with %d guards", (int)buffer, nguards);
  LoopExpr *e = loop_new_expr(k, LX_LOAD, k->buffer[buffer].dtype);
  e->buffer = buffer;
  e->index = index;
  e->nguards = (uint8_t)nguards;
  if (nguards) e->guard = arena_dup(k->arena, guard, nguards * (int64_t)sizeof *guard);
  e->src[0] = nguards ? other : NULL;
  return e;
}

const LoopExpr *loop_load(LoopKernel *k, int32_t buffer, Dim index) {
  return loop_load_guarded(k, buffer, index, 0, NULL, NULL);
}

const LoopExpr *loop_wide(LoopKernel *k, const LoopExpr *load) {
  CHECK(load->kind == LX_LOAD && dtype_bits(load->dtype) < 32 && !load->src[0],
        "only a load of narrow elements can be wide");
  LoopExpr *e = loop_new_expr(k, LX_LOAD, DT_U32);
  *e = *load;
  e->dtype = DT_U32;
  return e;
}

const LoopExpr *loop_var(LoopKernel *k, int32_t var) {
  CHECK(var >= 0 && var < k->nvars, "no variable %d", (int)var);
  LoopExpr *e = loop_new_expr(k, LX_VAR, k->var[var]);
  e->var = var;
  return e;
}

// ---- folding ----
static LoopCell cell_of(const LoopExpr *e) {
  return dtype_is_float(e->dtype) ? (LoopCell){.f = e->f} : (LoopCell){.i = e->i};
}

static bool subnormal(DType t, double v) {
  double least = t == DT_F64 ? DBL_MIN : t == DT_F16 ? 0x1p-14 : (double)FLT_MIN;
  return v != 0 && fabs(v) < least;
}

// Operations whose result every target gives alike, bit for bit.
static bool exact_op(LoopOp op, DType t) {
  if (op == LOOP_dot) return false;
  if (!dtype_is_float(t)) return op != LOOP_erf;
  switch ((int)op) {
  case LOOP_add:
  case LOOP_sub:
  case LOOP_mul:
  case LOOP_div:
  case LOOP_min:
  case LOOP_max:
  case LOOP_eq:
  case LOOP_lt:
  case LOOP_le:
  case LOOP_neg:
  case LOOP_abs:
  case LOOP_sign:
  case LOOP_ceil:
  case LOOP_floor:
  case LOOP_round:
  case LOOP_sqrt:
  case LOOP_relu:
  case LOOP_is_nan:
  case LOOP_fma:
  case LOOP_select: return true;
  }
  return false;
}

static const LoopExpr *fold_constants(LoopKernel *k, LoopOp op, DType t, DType to,
                                      const LoopExpr *const *src) {
  LoopCell v[3], out;
  if (!exact_op(op, t)) return NULL;
  for (int i = 0; i < loop_op_arity[op]; i++) {
    if (src[i]->kind != LX_CONST) return NULL;
    v[i] = cell_of(src[i]);
    if (dtype_is_float(src[i]->dtype) && (subnormal(t, v[i].f) || isnan(v[i].f))) return NULL;
  }
  if (!loop_apply(op, t, v, &out)) return NULL;
  if (dtype_is_float(to) && (subnormal(to, out.f) || isnan(out.f))) return NULL;
  return constant(k, to, out);
}

static bool is_number(const LoopExpr *e, double v) {
  if (e->kind != LX_CONST) return false;
  if (!dtype_is_float(e->dtype)) return e->i == (int64_t)v;
  return e->f == v && signbit(e->f) == signbit(v);
}

// b as the second operand changes nothing.
static bool neutral_right(LoopOp op, const LoopExpr *b) {
  bool is_float = dtype_is_float(b->dtype);
  switch ((int)op) {
  case LOOP_add: return is_number(b, is_float ? -0.0 : 0.0);
  case LOOP_sub:
  case LOOP_or:
  case LOOP_xor:
  case LOOP_bit_or:
  case LOOP_bit_xor:
  case LOOP_shift_left:
  case LOOP_shift_right: return is_number(b, 0.0);
  case LOOP_mul:
  case LOOP_div:
  case LOOP_trunc_div:
  case LOOP_and: return is_number(b, 1.0);
  }
  return false;
}

static bool commutes(LoopOp op) {
  return op == LOOP_add || op == LOOP_mul || op == LOOP_and || op == LOOP_or || op == LOOP_xor ||
         op == LOOP_bit_or || op == LOOP_bit_xor;
}

static const LoopExpr *identity(LoopKernel *k, LoopOp op, const LoopExpr *a, const LoopExpr *b,
                                const LoopExpr *c) {
  if (op == LOOP_select) {
    if (a->kind == LX_CONST) return a->i ? b : c;
    return b == c ? b : NULL;
  }
  if (op == LOOP_fma) return is_number(b, 1.0) ? loop_op(k, LOOP_add, a, c, NULL) : NULL;
  if (loop_op_arity[op] == 1) {
    bool twice =
        (op == LOOP_neg || op == LOOP_not || op == LOOP_bit_not) && a->kind == LX_OP && a->op == op;
    return twice ? a->src[0] : NULL;
  }
  if (loop_op_arity[op] != 2) return NULL;
  if (neutral_right(op, b)) return a;
  if (commutes(op) && neutral_right(op, a)) return b;
  if ((op == LOOP_min || op == LOOP_max) && a == b) return a;
  return NULL;
}

static const LoopExpr *new_op(LoopKernel *k, LoopOp op, DType t, const LoopExpr *a,
                              const LoopExpr *b, const LoopExpr *c) {
  LoopExpr *e = loop_new_expr(k, LX_OP, t);
  e->op = (uint8_t)op;
  e->src[0] = a;
  e->src[1] = b;
  e->src[2] = c;
  e->size = 1;
  for (int i = 0; i < 3; i++)
    if (e->src[i]) e->size = MIN(e->size + e->src[i]->size, LOOP_SIZE_MOST);
  return e;
}

const LoopExpr *loop_op(LoopKernel *k, LoopOp op, const LoopExpr *a, const LoopExpr *b,
                        const LoopExpr *c) {
  const LoopExpr *src[3] = {a, b, c};
  CHECK(op < LOOP_OP_COUNT && op != LOOP_cast && op != LOOP_bit_cast, "operation %d", (int)op);
  for (int i = 0; i < 3; i++)
    CHECK((i < loop_op_arity[op]) == (src[i] != NULL), "%s takes %d operands", loop_op_name[op],
          loop_op_arity[op]);
  DType t = op == LOOP_select ? b->dtype : op == LOOP_dot ? c->dtype : a->dtype;
  DType to = loop_op_is_compare(op) ? DT_BOOL : t;
  const LoopExpr *e = fold_constants(k, op, t, to, src);
  if (!e) e = identity(k, op, a, b, c);
  return e ? e : new_op(k, op, to, a, b, c);
}

const LoopExpr *loop_cast(LoopKernel *k, DType to, const LoopExpr *a) {
  if (to == a->dtype) return a;
  if (a->kind == LX_CONST) {
    LoopCell v = loop_convert(to, a->dtype, cell_of(a));
    bool plain = !dtype_is_float(a->dtype) || (!subnormal(a->dtype, a->f) && !isnan(a->f));
    if (plain && !(dtype_is_float(to) && subnormal(to, v.f))) return constant(k, to, v);
  }
  return new_op(k, LOOP_cast, to, a, NULL, NULL);
}

const LoopExpr *loop_bit_cast(LoopKernel *k, DType to, const LoopExpr *a) {
  CHECK(dtype_bits(to) == dtype_bits(a->dtype), "bit_cast of %s to %s", dtype_name(a->dtype),
        dtype_name(to));
  return to == a->dtype ? a : new_op(k, LOOP_bit_cast, to, a, NULL, NULL);
}

// ---- statements ---- `open` holds where each open block begins; its complement once it is the
// else of its statement, which stands in front of the block.
void loop_begin(LoopBuilder *b, LoopKernel *k) {
  memset(b, 0, sizeof *b);
  b->k = k;
}

LoopStmt *loop_new_stmt(LoopBuilder *b, LoopStmtKind kind) {
  LoopStmt *s = arena_new(b->k->arena, LoopStmt);
  s->kind = (uint8_t)kind;
  s->var = s->buffer = s->check = -1;
  vec_push(b->k->arena, &b->stmt, s);
  return s;
}

void loop_open(LoopBuilder *b) { vec_push(b->k->arena, &b->open, b->stmt.n); }

// Takes the statements from `from` on off the list.
static LoopBlock take_block(LoopBuilder *b, int64_t from) {
  LoopBlock block = {b->stmt.n - from, NULL};
  if (block.n)
    block.v = arena_dup(b->k->arena, b->stmt.v + from, block.n * (int64_t)sizeof(LoopStmt *));
  b->stmt.n = from;
  return block;
}

static LoopStmt *innermost(LoopBuilder *b, int64_t *from, bool *in_else) {
  CHECK(b->open.n > 0, "no block is open");
  int64_t at = b->open.v[b->open.n - 1];
  *in_else = at < 0;
  *from = at < 0 ? ~at : at;
  return b->stmt.v[*from - 1];
}

Dim loop_for(LoopBuilder *b, LoopKind kind, const char *name, Dim extent) {
  LoopStmt *s = loop_new_stmt(b, LS_FOR);
  s->loop = (uint8_t)kind;
  s->extent = extent;
  s->sym = loop_sym(b->k, name, extent);
  loop_open(b);
  return s->sym;
}

void loop_rounds_in_flight(LoopBuilder *b, int rounds) {
  b->stmt.v[b->stmt.n - 1]->in_flight = rounds;
}

Dim loop_where(LoopBuilder *b, const char *name, Dim value, Dim extent) {
  Dim sym = loop_for(b, LOOP_WHERE, name, extent);
  b->stmt.v[b->stmt.n - 1]->index = value;
  return sym;
}

void loop_if(LoopBuilder *b, const LoopExpr *cond) {
  loop_new_stmt(b, LS_IF)->value = cond;
  loop_open(b);
}

void loop_else(LoopBuilder *b) {
  int64_t from;
  bool in_else;
  LoopStmt *s = innermost(b, &from, &in_else);
  CHECK(s->kind == LS_IF && !in_else, "else without its if");
  s->body = take_block(b, from);
  b->open.v[b->open.n - 1] = ~from;
}

void loop_close(LoopBuilder *b) {
  int64_t from;
  bool in_else;
  LoopStmt *s = innermost(b, &from, &in_else);
  *(in_else ? &s->orelse : &s->body) = take_block(b, from);
  b->open.n--;
}

void loop_end(LoopBuilder *b) {
  int64_t from;
  bool in_else;
  CHECK(innermost(b, &from, &in_else)->kind != LS_REDUCE, "a reduction ends with loop_yield");
  loop_close(b);
}

int32_t loop_new_var(LoopKernel *k, DType t) {
  k->var = grow(k, k->var, k->nvars, (int64_t)sizeof *k->var);
  k->var[k->nvars] = t;
  return k->nvars++;
}

const LoopExpr *loop_let(LoopBuilder *b, const LoopExpr *value) {
  LoopStmt *s = loop_new_stmt(b, LS_LET);
  s->value = value;
  s->var = loop_new_var(b->k, value->dtype);
  return loop_var(b->k, s->var);
}

int32_t loop_find_check(LoopKernel *k, const char *message) {
  for (int32_t i = 0; i < k->nchecks; i++)
    if (!strcmp(k->check[i], message)) return i;
  k->check = grow(k, k->check, k->nchecks, (int64_t)sizeof *k->check);
  k->check[k->nchecks] = str_copy(k->arena, str_of(message));
  return k->nchecks++;
}

Dim loop_bind(LoopBuilder *b, const char *name, const LoopExpr *value, Dim extent,
              const char *message) {
  LoopStmt *s = loop_new_stmt(b, LS_BIND);
  s->value = value;
  s->extent = extent;
  s->check = loop_find_check(b->k, message);
  s->sym = loop_sym(b->k, name, extent);
  return s->sym;
}

void loop_store_guarded(LoopBuilder *b, int32_t buffer, Dim index, int nguards,
                        const LoopBound *guard, const LoopExpr *value) {
  CHECK(buffer >= 0 && buffer < b->k->nbuffers && nguards >= 0 && nguards <= LOOP_GUARDS,
        "store to buffer %d with %d guards", (int)buffer, nguards);
  LoopStmt *s = loop_new_stmt(b, LS_STORE);
  s->buffer = buffer;
  s->index = index;
  s->value = value;
  s->nguards = (uint8_t)nguards;
  if (nguards) s->guard = arena_dup(b->k->arena, guard, nguards * (int64_t)sizeof *guard);
}

void loop_store(LoopBuilder *b, int32_t buffer, Dim index, const LoopExpr *value) {
  loop_store_guarded(b, buffer, index, 0, NULL, value);
}

Dim loop_reduce(LoopBuilder *b, LoopOp op, const char *name, Dim extent, int lanes) {
  LoopStmt *s = loop_new_stmt(b, LS_REDUCE);
  s->op = (uint8_t)op;
  s->lanes = lanes;
  s->extent = extent;
  s->sym = loop_sym(b->k, name, extent);
  loop_open(b);
  return s->sym;
}

const LoopExpr *loop_yield(LoopBuilder *b, const LoopExpr *value) {
  int64_t from;
  bool in_else;
  LoopStmt *s = innermost(b, &from, &in_else);
  CHECK(s->kind == LS_REDUCE, "yield outside a reduction");
  s->value = value;
  s->var = loop_new_var(b->k, value->dtype);
  loop_close(b);
  return loop_var(b->k, s->var);
}

void loop_prefetch(LoopBuilder *b, int32_t buffer, Dim index) {
  LoopStmt *s = loop_new_stmt(b, LS_PREFETCH);
  s->buffer = buffer;
  s->index = index;
}

void loop_finish(LoopBuilder *b) {
  CHECK(b->open.n == 0, "%lld blocks are open", (long long)b->open.n);
  b->k->body = take_block(b, 0);
}
