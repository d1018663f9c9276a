// element.c -- the element builder: arguments, sizes, scalar ops and composites (element.h).
//
// elem_at takes a value that the template gave, or an expression that it built before.  Else it
// builds one: a load, an index map (move.c), a row of op.c, a scalar op, or the op's expansion.
// Large expressions become a `let`, so that several uses do not repeat them.
//
// Needs:      elem_begin has declared the arguments before any element is built.
// Guarantees: NULL, and no abort, where a node has no expression, nests too deep or has a data type
//             that kernels do not hold.  A load is inside its buffer or under guards.  Dynamic
//             sizes become dims of the kernel.
#include "lower/element/element.h"

#include "eval/scalar.h"
#include "ir/internal.h"
#include "loop/prove.h"

#include <stdio.h>

enum { ELEM_DEPTH = 400, ELEM_SIZE = 256 };

bool elem_dtype(DType t) {
  switch (t) {
  case DT_F32:
  case DT_F64:
  case DT_F16:
  case DT_BF16:
  case DT_BOOL:
  case DT_I8:
  case DT_I16:
  case DT_I32:
  case DT_I64:
  case DT_U8:
  case DT_U16:
  case DT_U32:
  case DT_U64: return true;
  default: return false;
  }
}

bool elem_fp8(DType t) { return t == DT_F8E4M3 || t == DT_F8E5M2; }
bool elem_has_dtype(const ElementBuilder *e, DType t) {
  return elem_dtype(t) || (e->lo->target.traits.mma && elem_fp8(t));
}

// ---- sizes ----

Dim elem_own_dim(ElementBuilder *e, Dim s) {
  for (int64_t i = 0; i < e->graph_dim.n; i++)
    if (e->graph_dim.v[i] == s) return e->k->dim[i];
  char name[32];
  snprintf(name, sizeof name, "d%lld", (long long)e->graph_dim.n);
  vec_push(e->a, &e->graph_dim, s);
  int64_t hi = s == e->lo->bucket_sym ? MIN(s->hi, e->lo->bucket_max) : s->hi;
  return loop_dim(e->k, name, s->kind == IE_SYM ? s->lo : 0, hi);
}

static Dim own_symbol(void *ctx, Dim s) { return elem_own_dim(ctx, s); }

Dim elem_dim(ElementBuilder *e, Dim d) {
  // A size is never negative, which not every expression shows: then it is a dim of its own.
  bool hidden = d->lo < 0 && d->hi >= 0 && !ie_is_poison(d) && d->kind != IE_SYM;
  if (e->named.n) return elem_named_dim(e, d, hidden);
  return hidden ? elem_own_dim(e, d) : ie_map(e->pool, d, own_symbol, e);
}

void elem_shape(ElementBuilder *e, const Type *t, Dim *out) {
  for (int i = 0; i < t->rank; i++) out[i] = elem_dim(e, t->dims[i]);
}

static Dim graph_symbol(void *ctx, Dim s) {
  const ElementBuilder *e = ctx;
  for (int64_t i = 0; i < e->graph_dim.n; i++)
    if (e->k->dim[i] == s) return e->graph_dim.v[i];
  return e->lo->g->dims.poison;
}

int64_t elem_rows(const ElementBuilder *e, Dim rows, int64_t some) {
  ElementBuilder own = *e;
  if (ie_is_const(rows)) return rows->value;
  e->lo->bucket_dim = ie_map(&e->lo->g->dims, rows, graph_symbol, &own);
  return e->lo->tuned_for ? e->lo->tuned_for : some;
}

// c*mod(a, b) + c*b*floor(a/b) is c*a: an index that was split and is put together again.
static Dim rejoin(IntPool *p, Dim e) {
  for (int i = 0; i < e->nterms; i++)
    for (int j = 0; j < e->term[i].natoms; j++) {
      Dim t = e->term[i].atom[j], c, rest, whole, rest2;
      if (t->kind != IE_MOD || !dim_split(p, e, t, &c, &rest)) continue;
      if (!dim_split(p, rest, ie_div(p, t->a, t->b), &whole, &rest2)) continue;
      if (whole == ie_mul(p, c, t->b)) return rejoin(p, ie_add(p, rest2, ie_mul(p, c, t->a)));
    }
  return e;
}

Dim elem_linear(ElementBuilder *e, int rank, const Dim *shape, const Dim *index) {
  Dim at = e->pool->zero, stride = e->pool->one;
  for (int i = rank - 1; i >= 0; i--) {
    at = ie_add(e->pool, at, ie_mul(e->pool, index[i], stride));
    stride = ie_mul(e->pool, stride, shape[i]);
  }
  return rejoin(e->pool, at);
}

// What is known of the symbols that are open now.
static void open_scope(const ElementBuilder *e, Prover *p) {
  prover_init(p, e->pool, e->a);
  p->once = true;
  for (int32_t i = 0; i < e->k->ndims; i++) prover_push(p, e->k->dim[i], NULL, NULL);
  for (int64_t i = 0; i < e->b.stmt.n; i++) {
    const LoopStmt *s = e->b.stmt.v[i];
    if (s->kind == LS_FOR || s->kind == LS_REDUCE || s->kind == LS_BIND)
      prover_push(p, s->sym, s->extent,
                  s->kind == LS_FOR && s->loop == LOOP_WHERE ? s->index : NULL);
  }
  for (int i = 0; i < e->nguards; i++)
    prover_push(p, e->guard[i].sym, e->guard[i].extent, e->guard[i].value);
}

bool elem_inside(const ElementBuilder *e, Dim x, Dim extent) {
  Prover scope;
  if (x->lo >= 0 && ie_lt(e->pool, x, extent) == YES) return true;
  if (ie_is_const(extent)) return false;
  open_scope(e, &scope);
  return prove_ge0(&scope, x) && prove_lt(&scope, x, extent);
}

// x = q*by + r with 0 <= r < by, where the terms of x say so.
static bool divide(ElementBuilder *e, Dim x, Dim by, Dim *q, Dim *r) {
  IntPool *p = e->pool;
  *q = *r = p->zero;
  for (int i = 0; i < x->nterms; i++) {
    Dim term = dim_term(p, &x->term[i], -1), c = dim_quotient(p, term, by);
    if (c)
      *q = ie_add(p, *q, c);
    else
      *r = ie_add(p, *r, term);
  }
  if (ie_is_poison(*q) || ie_is_poison(*r)) return false;
  if ((*r)->lo >= 0 && ie_lt(p, *r, by) == YES) return true;
  if (ie_is(*q, 0)) return false;
  Prover scope;
  open_scope(e, &scope);
  return prove_ge0(&scope, *r) && prove_lt(&scope, *r, by);
}

// The same by a number, where x = g*a + b with 0 <= b < g and g divides `by`: b has no part in the
// quotient.
static bool divide_coarse(ElementBuilder *e, Dim x, Dim by, Dim *q, Dim *r) {
  IntPool *p = e->pool;
  if (!ie_is_const(by) || by->value < 2 || x->kind != IE_SUM) return false;
  for (int i = 0; i < x->nterms; i++) {
    if (x->term[i].coef < 2) continue;
    int64_t g = gcd_i64(by->value, x->term[i].coef);
    Dim coarse = p->zero, fine = p->zero;
    if (g < 2 || g == by->value) continue;
    for (int k = 0; k < x->nterms; k++) {
      Dim term = dim_term(p, &x->term[k], -1);
      if (x->term[k].coef % g)
        fine = ie_add(p, fine, term);
      else
        coarse = ie_add(p, coarse, dim_quotient(p, term, ie_const(p, g)));
    }
    if (ie_is_poison(coarse) || ie_is_poison(fine)) continue;
    Prover scope;
    open_scope(e, &scope);
    if (!prove_ge0(&scope, fine) || !prove_lt(&scope, fine, ie_const(p, g))) continue;
    Dim rest = ie_const(p, by->value / g);
    *q = ie_div(p, coarse, rest);
    *r = ie_add(p, ie_mulc(p, ie_mod(p, coarse, rest), g), fine);
    return true;
  }
  return false;
}

void elem_split(ElementBuilder *e, Dim linear, int rank, const Dim *shape, Dim *index) {
  IntPool *p = e->pool;
  for (int i = rank - 1; i > 0; i--) {
    Dim q = linear, r = p->zero;
    if (!ie_is(shape[i], 1) && !divide(e, linear, shape[i], &q, &r) &&
        !divide_coarse(e, linear, shape[i], &q, &r)) {
      q = ie_div(p, linear, shape[i]);
      r = ie_mod(p, linear, shape[i]);
    }
    index[i] = r;
    linear = q;
  }
  if (rank) index[0] = linear;
}

// ---- arguments ----

static Dim numel(ElementBuilder *e, const Type *t) {
  Dim n = e->pool->one;
  for (int i = 0; i < t->rank; i++) n = ie_mul(e->pool, n, elem_dim(e, t->dims[i]));
  return n;
}

static bool good_type(const ElementBuilder *e, const Type *t) {
  return t->kind == TK_TENSOR && t->rank >= 0 && elem_has_dtype(e, t->dtype);
}

static int32_t add_argument(ElementBuilder *e, LowerArg arg, const char *name, DType t, Dim size) {
  if (e->arg.n == ELEM_ARGS || ie_is_poison(size)) return -1;
  vec_push(e->a, &e->arg, arg);
  return loop_buffer(e->k, LOOP_ARG, name, t, size, arg.kind == LOWER_RESULT);
}

int32_t elem_packed(ElementBuilder *e, const Node *constant, const PackSpec *pack,
                    const char *name) {
  int64_t n = 1;
  for (int i = 0; i < pack->nloops - pack->words; i++) n *= pack->extent[i];
  DType t = pack->words ? DT_U32 : pack->flip ? DT_I8 : type_of(constant)->dtype;
  return add_argument(e, (LowerArg){.kind = LOWER_PACKED, .node = constant, .pack = *pack}, name, t,
                      ie_const(e->pool, n));
}

int32_t elem_constant(ElementBuilder *e, const Node *constant, const char *name) {
  int32_t b = add_argument(e, (LowerArg){.kind = LOWER_CONST, .node = constant}, name,
                           type_of(constant)->dtype, numel(e, type_of(constant)));
  if (b >= 0) intmap_put(&e->buffer, constant->id, (uint64_t)b);
  return b;
}

static bool skipped(const Node *n, const Node *const *skip, int nskip) {
  for (int i = 0; i < nskip; i++)
    if (skip[i] == n) return true;
  return false;
}

// What a parameter of the body is outside: the operand, or the constant that it is.
static const Node *outer(const ElementBuilder *e, int64_t param) { return e->fused->src[param]; }

static bool declare_operands(ElementBuilder *e, const Node *const *skip, int nskip) {
  char name[32];
  for (int64_t i = 0; i < e->body->nparams; i++) {
    const Node *n = e->body->param[i];
    if (skipped(n, skip, nskip) || outer(e, i) == e->lo->g->none) continue;
    if (!good_type(e, type_of(n))) return false;
    snprintf(name, sizeof name, "x%lld", (long long)i);
    LowerArg arg = {.kind = LOWER_OPERAND, .index = (int32_t)i};
    int32_t b = add_argument(e, arg, name, type_of(n)->dtype, numel(e, type_of(n)));
    if (b < 0) return false;
    intmap_put(&e->buffer, n->id, (uint64_t)b);
  }
  return true;
}

static bool declare_constants(ElementBuilder *e, const Node *const *skip, int nskip) {
  char name[32];
  NodeList all = body_order(e->lo->g, e->body, e->a);
  for (int64_t i = 0; i < all.n; i++) {
    const Node *n = all.v[i];
    if (n->op != OP_const || skipped(n, skip, nskip) || !good_type(e, type_of(n))) continue;
    if (n->data->n <= 1) continue;  // written into the expression
    snprintf(name, sizeof name, "c%d", (int)e->arg.n);
    LowerArg arg = {.kind = LOWER_CONST, .node = n};
    int32_t b = add_argument(e, arg, name, type_of(n)->dtype, numel(e, type_of(n)));
    if (b < 0) return false;
    intmap_put(&e->buffer, n->id, (uint64_t)b);
  }
  return true;
}

bool elem_begin(ElementBuilder *e, Lowering *lo, const Node *fused, const Node *const *skip,
                int nskip) {
  *e = (ElementBuilder){.lo = lo, .fused = fused, .a = lo->arena};
  e->body = ((const fused_attrs *)fused->attrs)->body;
  e->pool = arena_new(e->a, IntPool);
  intpool_init(e->pool, e->a);
  e->k = loop_kernel(e->a, e->pool, "kernel");
  intmap_init(&e->buffer, e->a);
  if (lo->name_sizes) elem_name_sizes(e);
  if (!declare_operands(e, skip, nskip) || !declare_constants(e, skip, nskip)) return false;
  char name[32];
  for (int i = 0; i < fused->nres; i++) {
    if (!good_type(e, fused->type[i])) return false;
    snprintf(name, sizeof name, "y%d", i);
    LowerArg arg = {.kind = LOWER_RESULT, .index = i};
    if (add_argument(e, arg, name, fused->type[i]->dtype, numel(e, fused->type[i])) < 0)
      return false;
  }
  return true;
}

int32_t elem_result(const ElementBuilder *e, int i) {
  for (int32_t k = 0; k < (int32_t)e->arg.n; k++)
    if (e->arg.v[k].kind == LOWER_RESULT && e->arg.v[k].index == i) return k;
  return -1;
}

int32_t elem_buffer(const ElementBuilder *e, const Node *n) {
  uint64_t b;
  return intmap_get(&e->buffer, n->id, &b) ? (int32_t)b : -1;
}

// ---- elements ----

static const LoopExpr *load(ElementBuilder *e, const Node *n, const Dim *index) {
  const Type *t = type_of(n);
  Dim shape[MAX_RANK];
  int32_t b = elem_buffer(e, n);
  if (b < 0) return NULL;
  elem_shape(e, t, shape);
  if (e->flat) return loop_load(e->k, b, t->rank ? e->flat : e->pool->zero);
  Dim at = elem_linear(e, t->rank, shape, index);
  LoopBound *g = arena_array(e->a, LoopBound, MAX(e->nguards, 1));
  int ng = 0;
  for (int i = 0; i < e->nguards; i++)
    if (i >= e->nidle || dim_has(at, e->guard[i].sym)) g[ng++] = e->guard[i];
  return ng ? loop_load_guarded(e->k, b, at, ng, g, NULL) : loop_load(e->k, b, at);
}

// An element of a constant at a place that is known; NULL when it is not.
static const LoopExpr *immediate(ElementBuilder *e, const Node *n, const Dim *index) {
  const Type *t = type_of(n);
  int64_t at = 0;
  if (e->flat && n->data->n > 1) return NULL;  // the index is not looked at
  for (int i = 0; n->data->n > 1 && i < t->rank; i++) {
    if (!ie_is_const(index[i]) || !ie_is_const(t->dims[i])) return NULL;
    at = at * t->dims[i]->value + index[i]->value;
  }
  if (at < 0 || at >= n->data->n) return NULL;
  const void *bytes;
  if (!elem_has_dtype(e, t->dtype) || const_bytes(e->lo->g, n, &bytes, e->lo->diag)) return NULL;
  uint64_t element = 0;  // a file gives no alignment
  int64_t width = elem_bytes(t->dtype);
  memcpy(&element, (const char *)bytes + at * width, (size_t)width);
  if (dtype_class(t->dtype) == DC_FLOAT)
    return loop_float(e->k, t->dtype, get_f64(t->dtype, &element, 0));
  return loop_int(e->k, t->dtype, get_i64(t->dtype, &element, 0));
}

DType elem_sum_dtype(DType t) { return t == DT_F16 || t == DT_BF16 ? DT_F32 : t; }

const LoopExpr *elem_number(ElementBuilder *e, DType t, double v) {
  return dtype_is_float(t) ? loop_float(e->k, t, v) : loop_int(e->k, t, (int64_t)v);
}

// Only the run can tell whether this axis is repeated.
static Dim repeated(ElementBuilder *e, Dim size, Dim index) {
  LoopKernel *k = e->k;
  const LoopExpr *one = loop_int(k, DT_I64, 1), *i = loop_index(k, elem_unguarded(e, index));
  i = loop_op(k, LOOP_select, loop_op(k, LOOP_eq, loop_index(k, size), one, NULL),
              loop_int(k, DT_I64, 0), i);
  return elem_checked(e, i, size, "shapes do not fit each other");
}

const LoopExpr *elem_operand(ElementBuilder *e, const Node *o, const Type *result,
                             const Dim *index) {
  const Type *t = type_of(o);
  Dim at[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0 || t->rank > result->rank) return NULL;
  for (int i = 0; i < t->rank; i++) {
    int r = i + result->rank - t->rank;
    if (ie_is(t->dims[i], 1))
      at[i] = e->pool->zero;
    else if (ie_eq(&e->lo->g->dims, t->dims[i], result->dims[r]) == YES)
      at[i] = index[r];
    else if (!(at[i] = repeated(e, elem_dim(e, t->dims[i]), index[r])))
      return NULL;
  }
  return elem_at(e, o, at);
}

static int scalar_op(int op) {
  switch (op) {
#define SCALAR(name, ...)                                                                          \
  case OP_##name:                                                                                  \
    return LOOP_##name;
#include "eval/scalar.def"
#undef SCALAR
  default: return -1;
  }
}

static const LoopExpr *clip(ElementBuilder *e, const Node *n, const Dim *index) {
  const LoopExpr *x = elem_operand(e, n->src[0], type_of(n), index);
  const Node *lo = src_or_null(e->lo->g, n, 1), *hi = src_or_null(e->lo->g, n, 2);
  if (x && lo) {
    const LoopExpr *l = elem_operand(e, lo, type_of(n), index);
    x = l ? loop_op(e->k, LOOP_max, x, l, NULL) : NULL;
  }
  if (x && hi) {
    const LoopExpr *h = elem_operand(e, hi, type_of(n), index);
    x = h ? loop_op(e->k, LOOP_min, x, h, NULL) : NULL;
  }
  return x;
}

// Values of fp8 are made of those that f32 holds, and of others than infinities for what is too
// large.
static const LoopExpr *converted(ElementBuilder *e, const Node *n, const LoopExpr *x) {
  DType to = type_of(n)->dtype;
  bool from_f32 = dtype_is_float(x->dtype) && x->dtype != DT_F64;
  if (elem_fp8(to) && (!from_f32 || !((const cast_attrs *)n->attrs)->saturate)) return NULL;
  return loop_cast(e->k, to, x);
}

// The type in which a power is computed so that its exponent is not rounded: the base's, unless the
// exponent has another.
static DType power_dtype(const LoopExpr *x, const LoopExpr *y) {
  DType t = x->dtype, of = y->dtype;
  bool is_float = dtype_is_float(of);
  if (y->kind == LX_CONST) {
    double v = is_float ? y->f : (double)y->i;
    return round_to(t, v) == v || v != v ? t : DT_F64;
  }
  int bits = dtype_bits(of);
  if (is_float) return bits < dtype_bits(t) ? t : bits <= 32 ? DT_F32 : DT_F64;
  return 2 * bits <= dtype_bits(t) ? t : bits <= 16 ? DT_F32 : DT_F64;
}

static const LoopExpr *mixed_power(ElementBuilder *e, const LoopExpr *x, const LoopExpr *y) {
  DType t = power_dtype(x, y);
  const LoopExpr *r = loop_op(e->k, LOOP_pow, loop_cast(e->k, t, x), loop_cast(e->k, t, y), NULL);
  return loop_cast(e->k, x->dtype, r);
}

static const LoopExpr *scalar(ElementBuilder *e, const Node *n, const Dim *index) {
  const LoopExpr *s[3] = {0};
  if (n->nsrc > 3) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (!(s[i] = elem_operand(e, n->src[i], type_of(n), index))) return NULL;
  if (n->op == OP_where) return loop_op(e->k, LOOP_select, s[0], s[1], s[2]);
  if (n->op == OP_cast) return converted(e, n, s[0]);
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (elem_fp8(s[i]->dtype)) return NULL;
  if (n->op == OP_pow && s[1]->dtype != s[0]->dtype)
    return dtype_class(s[0]->dtype) == DC_FLOAT ? mixed_power(e, s[0], s[1]) : NULL;
  // Where guards do not hold nothing was read, and nothing may be divided by it.
  bool divides = n->op == OP_div || n->op == OP_mod || n->op == OP_fmod;
  if (divides && dtype_class(s[1]->dtype) != DC_FLOAT && s[1]->kind != LX_CONST)
    s[1] = elem_guarded(e, 0, s[1], loop_int(e->k, s[1]->dtype, 1));
  return loop_op(e->k, (LoopOp)scalar_op(n->op), s[0], s[1], s[2]);
}

static bool is_narrow(const Type *t) {
  return t->kind == TK_TENSOR && (t->dtype == DT_F16 || t->dtype == DT_BF16);
}

static Node *cast_node(Graph *g, Node *x, DType t) {
  return NA(g, cast, (&(cast_attrs){.to = t}), x);
}

bool elem_expand(Graph *g, Arena *a, const Node *n, Node **out) {
  const OpInfo *op = op_info(n->op);
  if (!op->expand) return false;
  const Node *from = n;
  if (is_narrow(n->type[0])) {
    Node **src = arena_array(a, Node *, MAX(n->nsrc, 1));
    for (uint32_t i = 0; i < n->nsrc; i++)
      src[i] = is_narrow(type_of(n->src[i])) ? cast_node(g, n->src[i], DT_F32) : n->src[i];
    from = node_new(g, n->op, (int)n->nsrc, src, n->attrs, n->nres, NULL);
  }
  if (graph_status(g)) return false;
  op->expand(g, from, out);
  if (graph_status(g) || !out[0]) return false;
  for (int i = 0; i < n->nres; i++)
    if (out[i] && type_of(out[i])->dtype != n->type[i]->dtype)
      out[i] = cast_node(g, out[i], n->type[i]->dtype);
  return !graph_status(g);
}

// Result `result` of a composite, by what it is made of.
static const LoopExpr *expansion(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  Node **out = arena_array(e->a, Node *, n->nres);
  return elem_expand(e->lo->g, e->a, n, out) && out[result] ? elem_at(e, out[result], index) : NULL;
}

static const LoopExpr *compute(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  // What has no elements is read nowhere: guards leave it out, and loops over it do not run.
  if (type_is_empty(n->type[result])) return elem_number(e, n->type[result]->dtype, 0);
  if (n->op == OP_const) {
    const LoopExpr *x = immediate(e, n, index);
    return x ? x : load(e, n, index);
  }
  if (n->op == OP_param) return load(e, n, index);
  if (elem_moves(n)) return elem_move(e, n, result, index);
  if (elem_op(n)) return elem_op(n)(e, n, result, index);
  if (n->op == OP_clip) return clip(e, n, index);
  if (scalar_op(n->op) >= 0 || n->op == OP_where || n->op == OP_cast) return scalar(e, n, index);
  return expansion(e, n, result, index);
}

static Dim last_guard(const ElementBuilder *e) {
  return e->nguards ? e->guard[e->nguards - 1].sym : NULL;
}

static const LoopExpr *remembered(const ElementBuilder *e, const Node *n, int rank,
                                  const Dim *index) {
  for (int64_t i = e->memo.n - 1; i >= 0; i--) {
    const ElemMemo *m = &e->memo.v[i];
    // Under guards an element is not the same as without.
    if (m->nguards != e->nguards || m->guard != last_guard(e)) continue;
    if (m->node == n && !memcmp(m->index, index, (size_t)rank * sizeof *index)) return m->expr;
  }
  return NULL;
}

void elem_give(ElementBuilder *e, const Node *n, ElemGiven *fn, void *ctx) {
  CHECK(e->ngive < ELEM_GIVEN, "too many values of a template's own");
  e->give[e->ngive++] = (ElemGive){n, fn, ctx};
}

void elem_forget(ElementBuilder *e) { e->memo.n = 0; }

const LoopExpr *elem_at(ElementBuilder *e, const Node *n, const Dim *index) {
  for (int i = 0; i < e->ngive; i++)
    if (e->give[i].node == n) return e->give[i].fn(e->give[i].ctx, index);
  const Type *t = type_of(n);
  if (t->kind != TK_TENSOR || t->rank < 0 || !elem_has_dtype(e, t->dtype)) return NULL;
  const LoopExpr *x = remembered(e, n, t->rank, index);
  if (x) return x;
  int result = 0;
  const Node *from = n;
  if (n->op == OP_proj) {
    result = (int)((const proj_attrs *)n->attrs)->index;
    from = n->src[0];
  }
  if (++e->depth > ELEM_DEPTH) return NULL;
  x = compute(e, from, result, index);
  e->depth--;
  if (!x && !e->lo->stuck) e->lo->stuck = from;
  // What many use several times over must not be written out for each use.
  if (x && x->size > ELEM_SIZE) x = loop_let(&e->b, x);
  if (x) {
    ElemMemo m = {
        .node = n, .rank = t->rank, .nguards = e->nguards, .guard = last_guard(e), .expr = x};
    m.index = arena_dup(e->a, index, MAX(t->rank, 1) * (int64_t)sizeof *index);
    vec_push(e->a, &e->memo, m);
  }
  return x;
}

bool elem_store(ElementBuilder *e, int i, const Dim *index) {
  const Type *t = e->fused->type[i];
  Dim shape[MAX_RANK];
  const LoopExpr *x = elem_at(e, e->body->result[i], index);
  if (!x) return false;
  elem_shape(e, t, shape);
  loop_store(&e->b, elem_result(e, i), elem_linear(e, t->rank, shape, index), x);
  return true;
}

void elem_finish(ElementBuilder *e, Lowered *out) {
  loop_finish(&e->b);
  out->kernel = e->k;
  out->arg = e->arg.v;
  out->dim = e->graph_dim.v;
}
