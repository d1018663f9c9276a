// tile.c -- tile statements (tile.h): kinds of products, elements of operands, and the loops that
// an MMA tile means.
//
// Guarantees: the body of an MMA tile is written from its record here alone, for kernels that are
//             built and for those that are read.
#include "loop/tile.h"

#include "loop/impl.h"

// ---- kinds ----

const LoopMmaInfo loop_mma[MMA_KINDS] = {
#define MMA(kind, word, sum, bytes, needs, mixed, pingpong, cols, stages, rate, warp_rate, column, \
            once, row, split_blocks, wgmma, bits)                                                  \
  [MMA_##kind] = {#word,     DT_##sum, bytes, mixed, pingpong,     cols,  stages, rate,            \
                  warp_rate, column,   once,  row,   split_blocks, wgmma, bits},
#include "loop/mma.def"
};

const char loop_mma_barred[] =
#define MMA(kind, word, ...) "|" #word
#include "loop/mma.def"
    ;

static const struct {
  LoopMmaKind kind;
  DType dtype;
  const char *ptx;
} types[] = {
#define MMA_TYPE(kind, dtype, ptx, map) {MMA_##kind, DT_##dtype, #ptx},
#include "loop/mma.def"
};

const char *loop_mma_type(LoopMmaKind kind, DType t) {
  for (int64_t i = 0; i < ARRAY_LEN(types); i++)
    if (types[i].kind == kind && types[i].dtype == t) return types[i].ptx;
  return NULL;
}

bool loop_mma_takes(LoopMmaKind kind, DType a, DType b) {
  return loop_mma_type(kind, a) && loop_mma_type(kind, b) && (a == b || loop_mma[kind].mixed);
}

const LoopExpr *loop_mma_factor(LoopKernel *k, LoopMmaKind kind, const LoopExpr *x) {
  x = loop_cast(k, loop_mma[kind].sum, x);
  return kind == MMA_TF32 ? loop_op(k, LOOP_tf32, x, NULL, NULL) : x;
}

// ---- windows ----

// Along one axis, 0 the outer one: a pixel of the result and a tap, of a row and a place along the
// depth.
static Dim pixel_of(IntPool *p, const LoopWindow *w, int axis, Dim row) {
  Dim in_line = ie_const(p, w->out[1]);
  if (axis) return ie_mod(p, row, in_line);
  Dim line = ie_div(p, row, in_line);
  return ie_is(w->images, 1) ? line : ie_mod(p, line, ie_const(p, w->out[0]));
}

static Dim tap_of(IntPool *p, const LoopWindow *w, int axis, Dim at) {
  Dim tap = ie_div(p, at, ie_const(p, w->channels)), in_line = ie_const(p, w->taps[1]);
  return axis ? ie_mod(p, tap, in_line) : ie_div(p, tap, in_line);
}

static Dim place_of(IntPool *p, const LoopWindow *w, int axis, Dim row, Dim at) {
  Dim o = ie_mulc(p, pixel_of(p, w, axis, row), w->stride[axis]);
  Dim t = ie_mulc(p, tap_of(p, w, axis, at), w->dilation[axis]);
  return ie_addc(p, ie_add(p, o, t), -w->lo[axis]);
}

static Dim element_of(IntPool *p, const LoopTileOperand *o, Dim y, Dim x, Dim at) {
  const LoopWindow *w = &o->window;
  Dim image = p->zero, row = o->sym;
  if (!ie_is(w->images, 1)) image = ie_div(p, row, ie_const(p, w->out[0] * w->out[1]));
  Dim line = ie_add(p, ie_mulc(p, image, w->in[0]), y);
  Dim first = ie_add(p, ie_mulc(p, line, w->line), ie_mulc(p, x, w->pixel));
  if (o->first) first = ie_add(p, first, o->first);
  return ie_add(p, first, ie_mod(p, at, ie_const(p, w->channels)));
}

static const LoopExpr *window_element(LoopKernel *k, const LoopTileOperand *o, Dim at) {
  const LoopWindow *w = &o->window;
  LoopBound g[3] = {{o->sym, o->row, o->rows}};
  for (int axis = 0; axis < 2; axis++) {
    Dim in = ie_const(k->pool, w->in[axis]);
    g[1 + axis] =
        (LoopBound){loop_sym(k, axis ? "x" : "y", in), place_of(k->pool, w, axis, o->sym, at), in};
  }
  Dim index = element_of(k->pool, o, g[1].sym, g[2].sym, at);
  return loop_load_guarded(k, o->buffer, index, 3, g, NULL);
}

// ---- operands ----

static Dim matrix_index(IntPool *p, const LoopTileOperand *o, Dim at) {
  Dim row = o->base ? ie_add(p, o->base, o->sym) : o->sym;
  Dim begin = ie_mul(p, row, o->stride);
  return ie_add(p, o->first ? ie_add(p, begin, o->first) : begin, at);
}

const LoopExpr *loop_tile_element(LoopKernel *k, const LoopTileOperand *o, Dim at) {
  if (o->form == TILE_WINDOW) return window_element(k, o, at);
  LoopBound g = {o->sym, o->row, o->rows};
  return loop_load_guarded(k, o->buffer, matrix_index(k->pool, o, at), 1, &g, NULL);
}

bool loop_tile_is_element(const LoopKernel *k, const LoopTileOperand *o, Dim at) {
  const LoopExpr *x = o->value;
  const LoopWindow *w = &o->window;
  IntPool *p = k->pool;
  int guards = o->form == TILE_WINDOW ? 3 : 1;
  if (!x || x->kind != LX_LOAD || x->buffer != o->buffer || x->src[0] || x->nguards != guards)
    return false;
  const LoopBound *g = x->guard;
  if (g[0].sym != o->sym || g[0].value != o->row || g[0].extent != o->rows) return false;
  if (o->form != TILE_WINDOW) return x->index == matrix_index(p, o, at);
  for (int axis = 0; axis < 2; axis++)
    if (!ie_is(g[1 + axis].extent, w->in[axis]) ||
        g[1 + axis].value != place_of(p, w, axis, o->sym, at))
      return false;
  return x->index == element_of(p, o, g[1].sym, g[2].sym, at);
}

// ---- building ----

LoopTile *loop_tile_open(LoopBuilder *b, LoopStmtKind kind, const LoopTileSchedule *s, Dim row,
                         Dim col) {
  IntPool *p = b->k->pool;
  LoopStmt *stmt = loop_new_stmt(b, kind);
  LoopTile *t = arena_new(b->k->arena, LoopTile);
  stmt->tile = t;
  t->is_attention = kind == LS_ATTENTION;
  t->s = *s;
  t->after = t->is_attention ? 4 : 1;
  loop_open(b);
  t->rows = loop_new_stmt(b, LS_FOR);
  t->rows->sym = row;
  t->rows->extent = ie_const(p, s->m);
  loop_open(b);
  t->cols = loop_new_stmt(b, LS_FOR);
  t->cols->sym = col;
  t->cols->extent = ie_const(p, s->n);
  loop_open(b);
  return t;
}

LoopTile *loop_tile_begin(LoopBuilder *b, LoopStmtKind kind, const LoopTileSchedule *s,
                          const char *row, const char *col) {
  Dim i = loop_sym(b->k, row, ie_const(b->k->pool, s->m));
  return loop_tile_open(b, kind, s, i, loop_sym(b->k, col, ie_const(b->k->pool, s->n)));
}

void loop_tile_end(LoopBuilder *b) {
  for (int depth = 0; depth < 3; depth++) loop_end(b);
}

LoopStmt *loop_open_sum(LoopBuilder *b, LoopOp op, Dim sym, Dim extent) {
  LoopStmt *s = loop_new_stmt(b, LS_REDUCE);
  s->op = (uint8_t)op;
  s->lanes = 1;
  s->sym = sym;
  s->extent = extent;
  loop_open(b);
  return s;
}

void loop_mma_open(LoopBuilder *b, LoopTile *t, Dim k, Dim depth) {
  t->depth = depth;
  t->sum = loop_open_sum(b, LOOP_add, k, depth);
}

Dim loop_mma_depth(LoopBuilder *b, LoopTile *t, Dim depth) {
  loop_mma_open(b, t, loop_sym(b->k, "k", depth), depth);
  return t->sum->sym;
}

const LoopExpr *loop_mma_close(LoopBuilder *b, LoopTile *t) {
  LoopKernel *k = b->k;
  LoopMmaKind kind = (LoopMmaKind)t->kind;
  LoopTileOperand *both[2] = {&t->a, &t->b};
  const LoopExpr *x[2];
  if (b->stmt.v[b->stmt.n - 1] != t->sum) return NULL;
  for (int i = 0; i < 2; i++) {
    LoopTileOperand *o = both[i];
    if (o->form != TILE_VALUE) o->value = loop_tile_element(k, o, t->sum->sym);
    if (o->form == TILE_VALUE) o->buffer = -1;
    o->dtype = o->value->dtype;
    x[i] = loop_mma_factor(k, kind, o->value);
  }
  return loop_op(k, LOOP_mul, x[0], x[1], NULL);
}

const LoopExpr *loop_mma_sum(LoopBuilder *b, LoopTile *t) {
  const LoopExpr *product = loop_mma_close(b, t);
  return product ? loop_yield(b, product) : NULL;
}

// ---- reading ----

const LoopTile *loop_tile_of(const LoopKernel *k) {
  const LoopBlock *b = k->body.n == 1 ? &k->body.v[0]->body : NULL;
  return b && b->n == 1 ? b->v[0]->tile : NULL;
}

bool loop_find_tile(const LoopKernel *k, LoopTile *out) {
  const LoopTile *t = loop_tile_of(k);
  if (t) *out = *t;
  return t;
}

LoopBlock loop_tile_epilogue(const LoopTile *t) {
  const LoopBlock *b = &t->cols->body;
  return (LoopBlock){b->n - t->after, b->v + t->after};
}

int loop_tile_block(const LoopTile *t) { return TILE_DEPTH_BYTES / loop_mma[t->kind].bytes; }

int loop_tile_short_keys(const LoopTile *t) { return (int)(t->depth->hi + 15) / 16 * 16; }

enum { MANY_TILES = 256 };

int64_t loop_tile_resident(Dim rows, Dim cols, int m, int n, int64_t blocks) {
  if (!ie_is_const(rows) || !ie_is_const(cols) || cols->value > n || rows->value / m < MANY_TILES ||
      blocks > TILE_RESIDENT_BYTES / (n * TILE_DEPTH_BYTES))
    return 0;
  return blocks * n * TILE_DEPTH_BYTES;
}
