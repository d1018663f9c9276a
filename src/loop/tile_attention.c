// tile_attention.c -- the loops that an attention tile means (tile.h).
//
// The record has one score.  The body needs it three times: for the row max, for the row sum of
// weights, and for the weighted sum of values.  Two of these are copies, with symbols and variables
// of their own.  A kernel that is built gives the first and its record has the last; one that is
// read gives the last, so that its text names what the record has.
#include "loop/tile.h"

#include "loop/impl.h"

#include <math.h>

// ---- copies ----

typedef struct Copier {
  LoopKernel *k;
  const LoopFresh *fresh;
  IntMap sym, var, expr;  // by slot, by number, by node: what stands for it
} Copier;

static Dim copied_sym(void *ctx, Dim sym) {
  const Copier *c = ctx;
  uint64_t to = 0;
  return intmap_get(&c->sym, (uint64_t)sym->slot, &to) ? (Dim)(uintptr_t)to : sym;
}

static Dim copy_dim(Copier *c, Dim d) { return d ? ie_map(c->k->pool, d, copied_sym, c) : NULL; }

static Dim new_sym(Copier *c, Dim sym, Dim extent) {
  Dim to = c->fresh->sym(c->fresh->ctx, sym, extent);
  intmap_put(&c->sym, (uint64_t)sym->slot, (uint64_t)(uintptr_t)to);
  return to;
}

static int32_t new_var(Copier *c, int32_t var, DType t) {
  int32_t to = c->fresh->var(c->fresh->ctx, t);
  intmap_put(&c->var, (uint64_t)var, (uint64_t)to);
  return to;
}

// A guard that is the same in every copy keeps its symbol.
static const LoopBound *copy_guards(Copier *c, int n, const LoopBound *g) {
  LoopBound *out = arena_dup(c->k->arena, g, n * (int64_t)sizeof *g);
  for (int i = 0; i < n; i++) {
    uint64_t known = 0;
    out[i].value = copy_dim(c, g[i].value);
    out[i].extent = copy_dim(c, g[i].extent);
    if (intmap_get(&c->sym, (uint64_t)g[i].sym->slot, &known))
      out[i].sym = (Dim)(uintptr_t)known;
    else if (out[i].value != g[i].value || out[i].extent != g[i].extent)
      out[i].sym = new_sym(c, g[i].sym, out[i].extent);
  }
  return out;
}

static const LoopExpr *copy_expr(Copier *c, const LoopExpr *x) {
  uint64_t known = 0, var = 0;
  if (!x || x->kind == LX_CONST) return x;
  if (intmap_get(&c->expr, (uint64_t)(uintptr_t)x, &known))
    return (const LoopExpr *)(uintptr_t)known;
  LoopExpr *out = arena_dup(c->k->arena, x, (int64_t)sizeof *x);
  if (x->nguards) out->guard = copy_guards(c, x->nguards, x->guard);
  out->index = copy_dim(c, x->index);
  if (x->kind == LX_VAR && intmap_get(&c->var, (uint64_t)x->var, &var)) out->var = (int32_t)var;
  for (int i = 0; i < ARRAY_LEN(x->src); i++) out->src[i] = copy_expr(c, x->src[i]);
  intmap_put(&c->expr, (uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)out);
  return out;
}

static LoopStmt *copy_stmt(Copier *c, const LoopStmt *s);

static LoopBlock copy_block(Copier *c, const LoopBlock *b) {
  LoopBlock out = {b->n, arena_array(c->k->arena, LoopStmt *, b->n)};
  for (int64_t i = 0; i < b->n; i++) out.v[i] = copy_stmt(c, b->v[i]);
  return out;
}

static LoopStmt *copy_stmt(Copier *c, const LoopStmt *s) {
  LoopStmt *out = arena_dup(c->k->arena, s, (int64_t)sizeof *s);
  out->extent = copy_dim(c, s->extent);
  if (s->sym) out->sym = new_sym(c, s->sym, out->extent);
  out->body = copy_block(c, &s->body);
  out->orelse = copy_block(c, &s->orelse);
  if (s->nguards) out->guard = copy_guards(c, s->nguards, s->guard);
  out->index = copy_dim(c, s->index);
  out->value = copy_expr(c, s->value);
  if (s->var >= 0) out->var = new_var(c, s->var, s->value->dtype);
  return out;
}

// ---- the reductions ----

typedef struct Round {  // over the keys
  LoopStmt *s;          // without its value; the first statement is the dot product
  const LoopExpr *score, *q, *k, *v;
} Round;

// The symbol of the keys, then statements in their order, as one would build it.
static Round copy_round(LoopKernel *k, const LoopFresh *fresh, const Round *r) {
  Copier c = {.k = k, .fresh = fresh};
  intmap_init(&c.sym, k->arena);
  intmap_init(&c.var, k->arena);
  intmap_init(&c.expr, k->arena);
  Round out = {.s = copy_stmt(&c, r->s)};
  out.q = copy_expr(&c, r->q);
  out.k = copy_expr(&c, r->k);
  out.v = copy_expr(&c, r->v);
  out.score = copy_expr(&c, r->score);
  return out;
}

static const LoopExpr *var_of(LoopKernel *k, int32_t var) {
  LoopExpr *e = loop_new_expr(k, LX_VAR, DT_F32);
  e->var = var;
  return e;
}

static const LoopExpr *op(LoopKernel *k, LoopOp o, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(k, o, x, y, NULL);
}

static int32_t close_round(LoopBuilder *b, LoopStmt *s, LoopOp o, const LoopExpr *value,
                           const LoopFresh *fresh, int32_t var) {
  s->op = (uint8_t)o;
  s->value = value;
  s->var = var >= 0 ? var : fresh->var(fresh->ctx, DT_F32);
  vec_push(b->k->arena, &b->stmt, s);
  return s->var;
}

static const LoopExpr *weight_of(LoopKernel *k, const Round *r, const LoopExpr *top) {
  return op(k, LOOP_exp, op(k, LOOP_sub, r->score, top), NULL);
}

// The row max, or 0 where no key is seen.
static const LoopExpr *add_top(LoopBuilder *b, const LoopExpr *max, const LoopFresh *fresh) {
  LoopKernel *k = b->k;
  const LoopExpr *none = op(k, LOOP_eq, max, loop_float(k, DT_F32, -INFINITY));
  LoopStmt *s = loop_new_stmt(b, LS_LET);
  s->value = loop_op(k, LOOP_select, none, loop_float(k, DT_F32, 0), max);
  s->var = fresh->var(fresh->ctx, DT_F32);
  return var_of(k, s->var);
}

static const LoopExpr *weighted(LoopKernel *k, const LoopTile *t, const Round *r,
                                const LoopExpr *top) {
  LoopMmaKind kind = (LoopMmaKind)t->kind;
  const LoopExpr *w = loop_cast(k, t->a.dtype, weight_of(k, r, top));
  return op(k, LOOP_mul, loop_mma_factor(k, kind, w), loop_mma_factor(k, kind, r->v));
}

void loop_attention_close(LoopBuilder *b, LoopTile *t, const LoopFresh *fresh, int given,
                          int32_t total, int32_t sum) {
  LoopKernel *k = b->k;
  LoopTileAttention *a = &t->attention;
  loop_close(b);
  Round own = {b->stmt.v[--b->stmt.n], a->score, a->q, a->k, a->v}, from = own;
  from.s = arena_dup(k->arena, own.s, (int64_t)sizeof *own.s);  // as long as it has no value
  Round r = given == 0 ? own : copy_round(k, fresh, &from);
  const LoopExpr *max = var_of(k, close_round(b, r.s, LOOP_max, r.score, fresh, -1)),
                 *top = add_top(b, max, fresh);
  a->max = r.s;
  r = copy_round(k, fresh, &from);
  close_round(b, r.s, LOOP_add, weight_of(k, &r, top), fresh, total);
  a->total = r.s;
  r = given == 2 ? own : copy_round(k, fresh, &from);
  close_round(b, r.s, LOOP_add, weighted(k, t, &r, top), fresh, sum);
  t->sum = r.s;
  a->product = r.s->body.v[0];
  a->score = r.score;
  a->q = r.q;
  a->k = r.k;
  a->v = r.v;
}

// ---- building ----

static Dim built_sym(void *ctx, Dim like, Dim extent) {
  LoopKernel *k = ctx;
  return loop_sym(k, str_printf(k->arena, "%.*s", STR_ARG(((Str){like->name, like->value}))),
                  extent);
}

static int32_t built_var(void *ctx, DType t) { return loop_new_var(ctx, t); }

Dim loop_attention_keys(LoopBuilder *b, LoopTile *t, Dim keys) {
  t->depth = keys;
  return loop_open_sum(b, LOOP_max, loop_sym(b->k, "key", keys), keys)->sym;
}

Dim loop_attention_elements(LoopBuilder *b, LoopTile *t, int64_t size) {
  Dim n = ie_const(b->k->pool, size);
  t->attention.size = size;
  t->attention.product = loop_open_sum(b, LOOP_add, loop_sym(b->k, "d", n), n);
  return t->attention.product->sym;
}

const LoopExpr *loop_attention_product(LoopKernel *k, const LoopTile *t) {
  LoopMmaKind kind = (LoopMmaKind)t->kind;
  return op(k, LOOP_mul, loop_mma_factor(k, kind, t->attention.q),
            loop_mma_factor(k, kind, t->attention.k));
}

const LoopExpr *loop_attention_dot(LoopBuilder *b, LoopTile *t) {
  return loop_yield(b, loop_attention_product(b->k, t));
}

void loop_attention_sums(LoopBuilder *b, LoopTile *t, const LoopExpr **total,
                         const LoopExpr **sum) {
  LoopFresh fresh = {built_var, built_sym, b->k};
  loop_attention_close(b, t, &fresh, 0, -1, -1);
  *total = var_of(b->k, t->attention.total->var);
  *sum = var_of(b->k, t->sum->var);
}
