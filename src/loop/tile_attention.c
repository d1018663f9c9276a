// tile_attention.c -- reading attention in `tile` loops (tile.h has its form).
//
// The three reductions must have one score: what they say is compared, with the symbols and variables of one in the place of the other's.
#include "loop/tile.h"

#include "loop/prove.h"

#include <math.h>

enum { MOST_PAIRS = 24 };

// ---- whether two scores are one ----

typedef struct Same {
  IntPool *pool;
  Dim from[MOST_PAIRS], to[MOST_PAIRS];
  int32_t var_from[MOST_PAIRS], var_to[MOST_PAIRS];
  int nsyms, nvars;
} Same;

static Dim leaf(void *ctx, Dim sym) {
  const Same *s = ctx;
  for (int i = 0; i < s->nsyms; i++)
    if (s->from[i] == sym) return s->to[i];
  return sym;
}

static bool same_dim(Same *s, Dim a, Dim b) { return ie_map(s->pool, a, leaf, s) == b; }

static bool pair_syms(Same *s, Dim a, Dim b) {
  if (s->nsyms == MOST_PAIRS) return false;
  s->from[s->nsyms] = a;
  s->to[s->nsyms++] = b;
  return true;
}

static bool pair_vars(Same *s, int32_t a, int32_t b) {
  if (s->nvars == MOST_PAIRS) return false;
  s->var_from[s->nvars] = a;
  s->var_to[s->nvars++] = b;
  return true;
}

static bool same_var(const Same *s, int32_t a, int32_t b) {
  for (int i = 0; i < s->nvars; i++)
    if (s->var_from[i] == a) return s->var_to[i] == b;
  return a == b;
}

static bool same_expr(Same *s, const LoopExpr *a, const LoopExpr *b) {
  int before = s->nsyms;
  if (!a || !b) return a == b;
  bool ok =
      a->kind == b->kind && a->op == b->op && a->dtype == b->dtype && a->nguards == b->nguards;
  if (!ok) return false;
  if (a->kind == LX_CONST && (a->i != b->i || memcmp(&a->f, &b->f, sizeof a->f))) return false;
  if (a->kind == LX_VAR) return same_var(s, a->var, b->var);
  for (int i = 0; i < a->nguards && ok; i++)
    ok = same_dim(s, a->guard[i].value, b->guard[i].value) &&
         same_dim(s, a->guard[i].extent, b->guard[i].extent) &&
         pair_syms(s, a->guard[i].sym, b->guard[i].sym);
  if (a->kind == LX_LOAD || a->kind == LX_INDEX) ok = ok && same_dim(s, a->index, b->index);
  if (a->kind == LX_LOAD) ok = ok && a->buffer == b->buffer;
  s->nsyms = before;
  for (int i = 0; i < 3 && ok; i++) ok = same_expr(s, a->src[i], b->src[i]);
  return ok;
}

// Let statements and reductions without any.
static bool same_statement(Same *s, const LoopStmt *a, const LoopStmt *b) {
  if (a->kind != b->kind) return false;
  if (a->kind == LS_REDUCE) {
    if (a->op != b->op || a->lanes != b->lanes || a->body.n || b->body.n ||
        !same_dim(s, a->extent, b->extent) || !pair_syms(s, a->sym, b->sym))
      return false;
  } else if (a->kind != LS_LET) {
    return false;
  }
  return same_expr(s, a->value, b->value) && pair_vars(s, a->var, b->var);
}

static bool same_score(const LoopKernel *k, const LoopStmt *a, const LoopExpr *x, const LoopStmt *b,
                       const LoopExpr *y) {
  Same s = {.pool = k->pool};
  if (a->extent != b->extent || a->body.n != b->body.n || !pair_syms(&s, a->sym, b->sym))
    return false;
  for (int64_t i = 0; i < a->body.n; i++)
    if (!same_statement(&s, a->body.v[i], b->body.v[i])) return false;
  return same_expr(&s, x, y);
}

// ---- the form ----

static const LoopExpr *operand(const LoopExpr *x, LoopOp op, int i) {
  return x && x->kind == LX_OP && x->op == op ? x->src[i] : NULL;
}

static bool is_var(const LoopExpr *x, int32_t var) {
  return x && x->kind == LX_VAR && x->var == var;
}

static bool is_real(const LoopExpr *x, double v) {
  return x && x->kind == LX_CONST && x->dtype == DT_F32 && x->f == v;
}

static bool is_sum(const LoopStmt *s, LoopOp op) {
  return s->kind == LS_REDUCE && s->op == op && s->lanes == 1;
}

// The greatest score, or 0 where there is none.
static bool is_top(const LoopStmt *s, int32_t max) {
  if (s->kind != LS_LET || s->value->kind != LX_OP || s->value->op != LOOP_select) return false;
  const LoopExpr *none = s->value->src[0];
  return is_var(operand(none, LOOP_eq, 0), max) &&
         is_real(operand(none, LOOP_eq, 1), -(double)INFINITY) && is_real(s->value->src[1], 0) &&
         is_var(s->value->src[2], max);
}

// The score of exp(sub(score, top)), or NULL.
static const LoopExpr *score_of(const LoopExpr *weight, int32_t top) {
  const LoopExpr *from = operand(weight, LOOP_exp, 0);
  return is_var(operand(from, LOOP_sub, 1), top) ? from->src[0] : NULL;
}

// Below a rounding to tf32, which all factors have or none.
static const LoopExpr *below(const LoopExpr *x, LoopTileProduct *product) {
  const LoopExpr *in = operand(x, LOOP_tf32, 0);
  if (in) *product = TILE_TF32;
  return in || *product == TILE_TF32 ? in : x;
}

// What is under a conversion of 16-bit numbers to f32, or of f32 itself; *t is their type, DT_BOOL where none was seen yet.
static const LoopExpr *in_f32(const LoopExpr *x, DType *t, LoopTileProduct *product) {
  x = below(x, product);
  if (!x || x->dtype != DT_F32) return NULL;
  const LoopExpr *from = operand(x, LOOP_cast, 0);
  DType type = from ? from->dtype : DT_F32;
  if (*t != DT_BOOL && *t != type) return NULL;
  *t = type;
  if (!from && *product == TILE_HALF) *product = TILE_F32;
  bool fits = from ? (type == DT_BF16 || type == DT_F16) && *product == TILE_HALF : true;
  return !fits ? NULL : from ? from : x;
}

// A load of which 16 bytes along sym may be copied at once; in f32.
static const LoopExpr *copied(const LoopKernel *k, const LoopExpr *x, Dim along, LoopTile *t) {
  LoopTileProduct product = (LoopTileProduct)t->product;
  const LoopExpr *load = in_f32(x, &t->a.dtype, &product);
  Dim one, rest;
  t->product = (uint8_t)product;
  if (!load || load->kind != LX_LOAD || load->src[0]) return NULL;
  const LoopBuffer *b = &k->buffer[load->buffer];
  if (b->space != LOOP_ARG || b->written || b->dtype != load->dtype) return NULL;
  Dim piece = ie_const(k->pool, load->dtype == DT_F32 ? 4 : 8);
  if (!dim_split(k->pool, load->index, along, &one, &rest) || !ie_is(one, 1) ||
      dim_has(rest, along) || !dim_divides(k->pool, piece, rest))
    return NULL;
  for (int i = 0; i < load->nguards; i++)
    if (load->guard[i].sym != along && dim_has(load->guard[i].value, along)) return NULL;
  return load;
}

static const LoopBound *guard_with(const LoopExpr *load, Dim var) {
  const LoopBound *found = NULL;
  for (int i = 0; i < load->nguards; i++)
    if (dim_has(load->guard[i].value, var)) found = &load->guard[i];
  return found;
}

static bool match_product(const LoopKernel *k, LoopTile *t) {
  LoopTileAttention *a = &t->attention;
  const LoopStmt *s = t->sum->body.n ? t->sum->body.v[0] : NULL;
  Dim one, rest;
  if (!s || !is_sum(s, LOOP_add) || s->body.n || !ie_is_const(s->extent)) return false;
  a->product = s;
  a->size = s->extent->value;
  a->q = copied(k, operand(s->value, LOOP_mul, 0), s->sym, t);
  a->k = copied(k, operand(s->value, LOOP_mul, 1), s->sym, t);
  bool half = t->product == TILE_HALF;
  if (!a->q || !a->k || a->size % (half ? 8 : 4) || a->size > TILE_KEYS * (half ? 2 : 1))
    return false;
  const LoopBound *g = guard_with(a->q, t->rows->sym);
  if (!g || !dim_split(k->pool, g->value, t->rows->sym, &one, &rest) || !ie_is(one, 1))
    return false;
  t->a.buffer = a->q->buffer;
  t->a.row = g->value;
  t->a.rows = g->extent;
  return !guard_with(a->k, t->rows->sym) && !dim_has(a->k->index, t->rows->sym);
}

static bool match_values(const LoopKernel *k, LoopTile *t, const LoopExpr *v) {
  LoopTileAttention *a = &t->attention;
  LoopTileProduct product = (LoopTileProduct)t->product;
  const LoopExpr *load = in_f32(v, &t->a.dtype, &product);
  const LoopBound *g = load && load->kind == LX_LOAD ? guard_with(load, t->cols->sym) : NULL;
  if (!g || g->value != t->cols->sym || !ie_is_const(g->extent)) return false;
  a->v = copied(k, v, g->sym, t);
  a->columns = g->extent->value;
  t->b = (LoopTileOperand){.buffer = load->buffer, .row = g->value, .rows = g->extent};
  return a->v && a->columns % (t->product == TILE_HALF ? 8 : 4) == 0 && a->columns <= t->n;
}

// ---- boxes ----

// Terms that are multiples of a matrix say which; the others say where in its rows.  A matrix of a sum of rows, those of the past and those at
// hand, has as many terms as that sum in each multiple: its first one says which.
static void match_place(IntPool *p, Dim rest, Dim matrix, LoopTileBox *out) {
  out->x = rest;
  if (!matrix->nterms) return;
  Dim lead = dim_term(p, &matrix->term[0], -1);
  for (int i = 0; i < rest->nterms; i++) {
    Dim which = dim_quotient(p, dim_term(p, &rest->term[i], -1), lead);
    Dim left = which ? ie_sub(p, out->x, ie_mul(p, which, matrix)) : out->x;
    if (left->nterms + matrix->nterms > out->x->nterms) continue;
    out->z = ie_add(p, out->z, which);
    out->x = left;
  }
}

static void match_box(const LoopKernel *k, const LoopExpr *load, Dim row, Dim rows, Dim along,
                      int64_t width, LoopTileBox *out) {
  IntPool *p = k->pool;
  Dim stride, one, rest;
  *out = (LoopTileBox){.x = p->zero, .z = p->zero, .rows = rows};
  if (!dim_split(p, load->index, along, &one, &rest) || !dim_split(p, rest, row, &stride, &rest) ||
      !ie_is_const(stride) || stride->value < width || dim_has(rest, row) || dim_has(rest, along) ||
      (width != TILE_BOX && width != 2 * TILE_BOX))
    return;
  out->stride = stride->value;
  Dim matrix = ie_mul(p, rows, stride);
  out->outer = dim_quotient(p, k->buffer[load->buffer].size, matrix);
  match_place(p, rest, matrix, out);
  out->is = out->outer && loop_tile_counts(k, out->outer) && loop_tile_counts(k, rows) &&
            out->x->lo >= 0 && out->x->hi <= out->stride - width;
}

// How many keys there are is the extent of their sum, or, where queries see fewer, one of the two that it is the least of, or as many as the last one sees: the rows of
// a box must hold all that are asked for.
static void match_boxes(const LoopKernel *k, LoopTile *t) {
  LoopTileAttention *a = &t->attention;
  const LoopBound *q = guard_with(a->q, t->rows->sym), *v = guard_with(a->v, t->cols->sym);
  Dim depth = t->depth;
  bool least = depth->kind == IE_MIN;
  Dim keys[] = {least ? depth->a : depth, least ? depth->b : depth, q->extent,
                ie_const(k->pool, depth->hi)};
  match_box(k, a->q, q->sym, q->extent, a->product->sym, a->size, &a->box[0]);
  for (int i = 0; i < ARRAY_LEN(keys) && !(a->box[1].is && a->box[2].is); i++) {
    if (i >= 2 && keys[i]->lo < depth->hi) continue;
    match_box(k, a->k, t->sum->sym, keys[i], a->product->sym, a->size, &a->box[1]);
    match_box(k, a->v, t->sum->sym, keys[i], v->sym, a->columns, &a->box[2]);
  }
}

static bool is_ring(const LoopTile *t) {
  const LoopTileBox *b = t->attention.box;
  return b[0].is && b[1].is && b[2].is && t->product == TILE_HALF && t->attention.columns == t->n &&
         t->m == t->groups * TILE_ROWS;
}

int loop_tile_short_keys(const LoopTile *t) { return (int)(t->depth->hi + 15) / 16 * 16; }

// All keys at once.
static bool is_short(const LoopTile *t) {
  const LoopTileBox *b = t->attention.box;
  return b[0].is && b[1].is && b[2].is && t->product == TILE_HALF && t->attention.columns == t->n &&
         t->groups == 1 && t->depth->hi >= 1 && t->depth->hi <= TILE_SHORT_KEYS &&
         (loop_tile_short_keys(t) + t->n) / 2 <= TILE_SHORT_SUMS && t->m >= TILE_ROWS &&
         t->m % TILE_ROWS == 0 && t->m <= TILE_SHORT_TILES * TILE_ROWS;
}

bool loop_tile_attention(const LoopKernel *k, LoopTile *t, const char **why) {
  LoopTileAttention *a = &t->attention;
  const LoopBlock *b = &t->cols->body;
  t->a.dtype = DT_BOOL;
  *why = "attention in a tile is three reductions over the keys with one score";
  if (b->n < 4 || !is_sum(b->v[0], LOOP_max) || !is_sum(b->v[2], LOOP_add) ||
      !is_sum(b->v[3], LOOP_add) || !is_top(b->v[1], b->v[0]->var))
    return false;
  a->max = b->v[0];
  a->total = b->v[2];
  t->sum = b->v[3];
  t->depth = t->sum->extent;
  t->after = 4;
  t->is_attention = true;
  int32_t top = b->v[1]->var;
  LoopTileProduct product = TILE_HALF;
  DType rounded = DT_BOOL;
  const LoopExpr *weight = in_f32(operand(t->sum->value, LOOP_mul, 0), &rounded, &product);
  if (rounded != DT_F32) weight = operand(weight, LOOP_cast, 0);
  a->score = score_of(weight, top);
  const LoopExpr *again = score_of(a->total->value, top);
  if (!a->score || !again || !same_score(k, t->sum, a->score, a->max, a->max->value) ||
      !same_score(k, t->sum, a->score, a->total, again))
    return false;
  *why = "operands of attention in a tile are loads of bf16, f16 or f32 in whole 16 bytes";
  if (!match_product(k, t) || !match_values(k, t, operand(t->sum->value, LOOP_mul, 1)) ||
      rounded != t->a.dtype || product != (LoopTileProduct)t->product)
    return false;
  t->b.dtype = t->a.dtype;
  t->block = TILE_DEPTH_BYTES / (dtype_bits(t->a.dtype) / 8);
  match_boxes(k, t);
  *why =
      "a tile of attention has 64 or 128 columns, and one warpgroup and several stages unless its "
      "operands are boxes";
  bool fits = t->stages == 1 ? is_short(t) && !t->parts : t->groups == 1 || is_ring(t);
  if (!fits || (t->n != 64 && t->n != 128)) return false;
  *why = "warpgroups that have parts of attention's keys multiply 16 bits";
  return !t->parts || t->product == TILE_HALF;
}
