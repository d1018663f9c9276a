// tile.c -- reading `tile` loops (tile.h).
#include "loop/tile.h"

#include "loop/prove.h"

static const LoopExpr *without_cast(const LoopExpr *x) {
  return x->kind == LX_OP && x->op == LOOP_cast ? x->src[0] : x;
}

// A load at g*stride + k, where the guard g is row + i below rows.
static bool match_operand(const LoopKernel *k, const LoopExpr *x, Dim var, Dim depth,
                          LoopTileOperand *out) {
  const LoopExpr *load = without_cast(x);
  Dim one, rest, stride;
  if (load->kind != LX_LOAD || load->nguards != 1 || load->src[0]) return false;
  const LoopBound *g = &load->guard[0];
  const LoopBuffer *b = &k->buffer[load->buffer];
  if (b->space != LOOP_ARG || b->written || load->dtype != b->dtype) return false;
  if (!dim_split(k->pool, load->index, depth, &one, &rest) || !ie_is(one, 1)) return false;
  if (!dim_split(k->pool, rest, g->sym, &stride, &rest) || !ie_is(rest, 0)) return false;
  if (!dim_split(k->pool, g->value, var, &one, &rest) || !ie_is(one, 1) || dim_has(rest, var))
    return false;
  *out = (LoopTileOperand){.buffer = load->buffer,
                           .dtype = load->dtype,
                           .row = g->value,
                           .rows = g->extent,
                           .stride = stride};
  return true;
}

static bool match_sum(const LoopKernel *k, LoopTile *t, const char **why) {
  const LoopStmt *s = t->sum;
  *why = "a tile begins with one sum of products";
  if (s->kind != LS_REDUCE || s->op != LOOP_add || s->lanes != 1 || s->body.n) return false;
  const LoopExpr *v = s->value;
  if (v->kind != LX_OP || v->op != LOOP_mul || v->dtype != DT_F32) return false;
  t->depth = s->extent;
  *why = "the operands of a tile's products are rows of matrices, along the contracted axis";
  if (!match_operand(k, v->src[0], t->rows->sym, s->sym, &t->a) ||
      !match_operand(k, v->src[1], t->cols->sym, s->sym, &t->b))
    return false;
  *why = "the operands of a tile's products are both bf16, or both f16";
  return t->a.dtype == t->b.dtype && (t->a.dtype == DT_BF16 || t->a.dtype == DT_F16);
}

static bool is_tile(const LoopStmt *s) { return s->kind == LS_FOR && s->loop == LOOP_TILE; }

bool loop_tile_match(const LoopKernel *k, const LoopStmt *s, LoopTile *out, const char **why) {
  *why = "tile loops are two, one in the other";
  if (!is_tile(s) || s->body.n != 1 || !is_tile(s->body.v[0]) || !s->body.v[0]->body.n)
    return false;
  *out = (LoopTile){.rows = s, .cols = s->body.v[0], .sum = s->body.v[0]->body.v[0]};
  *why = "the sizes of a tile are numbers";
  if (!ie_is_const(s->extent) || !ie_is_const(out->cols->extent)) return false;
  int64_t m = s->extent->value, n = out->cols->extent->value;
  out->stages = s->ways;
  out->groups = out->cols->ways;
  *why = "a tile has 64 rows for each of 1 to 3 warpgroups, up to 256 columns by 32, and 2 to 8 "
         "stages";
  if (out->groups < 1 || out->groups > 3 || m != (int64_t)TILE_ROWS * out->groups ||
      n < TILE_COLS || n > TILE_MOST_COLS || n % TILE_COLS || out->stages < 2 || out->stages > 8)
    return false;
  out->m = (int)m;
  out->n = (int)n;
  return match_sum(k, out, why);
}

bool loop_find_tile(const LoopKernel *k, LoopTile *out) {
  const char *why;
  if (k->body.n != 1) return false;
  const LoopBlock *b = &k->body.v[0]->body;
  return b->n == 1 && loop_tile_match(k, b->v[0], out, &why);
}
