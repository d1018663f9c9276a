// tile.c -- reading `tile` loops (tile.h).
#include "loop/tile.h"

#include "loop/prove.h"

static const LoopExpr *without_cast(const LoopExpr *x) {
  return x->kind == LX_OP && x->op == LOOP_cast ? x->src[0] : x;
}

// ---- windows ----

// Along one axis, 0 the outer one: a pixel of the result and a tap, of a row and a place along the contracted axis.
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

static Dim element_of(IntPool *p, const LoopWindow *w, Dim row, Dim y, Dim x, Dim at) {
  Dim image = p->zero;
  if (!ie_is(w->images, 1)) image = ie_div(p, row, ie_const(p, w->out[0] * w->out[1]));
  Dim line = ie_add(p, ie_mulc(p, image, w->in[0]), y);
  Dim first = ie_add(p, ie_mulc(p, line, w->line), ie_mulc(p, x, w->pixel));
  return ie_add(p, first, ie_mod(p, at, ie_const(p, w->channels)));
}

const LoopExpr *loop_tile_window(LoopKernel *k, int32_t buffer, const LoopWindow *w,
                                 const LoopBound *row, Dim at) {
  LoopBound g[3] = {*row};
  for (int axis = 0; axis < 2; axis++) {
    Dim in = ie_const(k->pool, w->in[axis]);
    g[1 + axis] = (LoopBound){loop_sym(k, axis ? "x" : "y", in),
                              place_of(k->pool, w, axis, row->sym, at), in};
  }
  Dim index = element_of(k->pool, w, row->sym, g[1].sym, g[2].sym, at);
  return loop_load_guarded(k, buffer, index, 3, arena_dup(k->arena, g, (int64_t)sizeof g), NULL);
}

// The term of e with an atom that holds sym; false: there is none, or it is no single atom.
static bool term_with(Dim e, Dim sym, int64_t *coef, Dim *atom) {
  *atom = NULL;
  for (int i = 0; i < e->nterms; i++) {
    const IntTerm *t = &e->term[i];
    for (int j = 0; j < t->natoms; j++) {
      if (!dim_has(t->atom[j], sym)) continue;
      if (t->natoms != 1 || *atom) return false;
      *coef = t->coef;
      *atom = t->atom[j];
    }
  }
  return *atom;
}

// By how many an axis' pixels or taps are counted through: all that is left, where they are not.
static int64_t count_of(Dim atom, int64_t all) {
  if (!atom) return 1;
  return atom->kind == IE_MOD && ie_is_const(atom->b) ? atom->b->value : all;
}

// What loop_tile_window was given, guessed from the inner axis outwards: whoever asks writes it again and compares.
static bool guess_axis(const LoopBound *g, Dim row, Dim at, LoopWindow *w, int axis,
                       int64_t *pixels, int64_t *taps) {
  Dim pixel, tap;
  const IntTerm *first = g->value->nterms ? &g->value->term[0] : NULL;
  w->stride[axis] = w->dilation[axis] = 1;
  w->lo[axis] = first && !first->natoms ? -first->coef : 0;
  if (!ie_is_const(g->extent)) return false;
  w->in[axis] = g->extent->value;
  term_with(g->value, row, &w->stride[axis], &pixel);
  term_with(g->value, at, &w->dilation[axis], &tap);
  w->out[axis] = count_of(pixel, *pixels);
  w->taps[axis] = count_of(tap, *taps);
  if (w->out[axis] < 1 || w->taps[axis] < 1) return false;
  *pixels /= w->out[axis];
  *taps /= w->taps[axis];
  return true;
}

// Likewise how the image lies in memory.
static bool guess_image(const LoopKernel *k, const LoopExpr *load, Dim at, Dim depth,
                        LoopWindow *w) {
  IntPool *p = k->pool;
  const LoopBound *g = load->guard;
  Dim pixel, line, rest, in_pixel;
  int64_t one;
  if (!dim_split(p, load->index, g[2].sym, &pixel, &rest) || !ie_is_const(pixel) ||
      !dim_split(p, rest, g[1].sym, &line, &rest) || !ie_is_const(line))
    return false;
  w->pixel = pixel->value;
  w->line = line->value;
  w->channels = term_with(rest, at, &one, &in_pixel) ? count_of(in_pixel, depth->value) : 0;
  if (w->channels < 1 || w->pixel < 1 || w->line < 1) return false;
  w->images = dim_quotient(p, k->buffer[load->buffer].size, ie_mulc(p, g[1].extent, w->line));
  return w->images;
}

static bool match_window(const LoopKernel *k, const LoopExpr *load, Dim at, Dim depth,
                         LoopTileOperand *out) {
  IntPool *p = k->pool;
  const LoopBound *g = load->guard;
  LoopWindow *w = &out->window;
  if (load->nguards != 3 || !ie_is_const(depth) || !ie_is_const(g[1].extent) ||
      !guess_image(k, load, at, depth, w))
    return false;
  Dim pixels = dim_quotient(p, g[0].extent, w->images);
  if (!pixels || !ie_is_const(pixels)) return false;
  int64_t of_image = pixels->value, taps = depth->value / w->channels;
  if (!guess_axis(&g[2], g[0].sym, at, w, 1, &of_image, &taps) ||
      !guess_axis(&g[1], g[0].sym, at, w, 0, &of_image, &taps))
    return false;
  return of_image == 1 && taps == 1 && w->taps[0] * w->taps[1] * w->channels == depth->value &&
         place_of(p, w, 0, g[0].sym, at) == g[1].value &&
         place_of(p, w, 1, g[0].sym, at) == g[2].value &&
         element_of(p, w, g[0].sym, g[1].sym, g[2].sym, at) == load->index;
}

// ---- operands ----

static bool is_size(const LoopKernel *k, Dim d) {
  for (int32_t i = 0; i < k->ndims; i++)
    if (k->dim[i] == d) return true;
  return false;
}

bool loop_tile_counts(const LoopKernel *k, Dim d) {
  bool ok = d->nterms <= TILE_TERMS;
  for (int i = 0; i < d->nterms && ok; i++) {
    ok = d->term[i].natoms <= TILE_FACTORS;
    for (int j = 0; j < d->term[i].natoms && ok; j++) ok = is_size(k, d->term[i].atom[j]);
  }
  return ok;
}

static bool is_row(const LoopKernel *k, const LoopBound *g, Dim var, Dim at) {
  Dim one, rest;
  return dim_split(k->pool, g->value, var, &one, &rest) && ie_is(one, 1) && !dim_has(rest, var) &&
         !dim_has(g->value, at);
}

// The guard by which a value's loads keep to the rows; false where a variable stands in the value.
static bool find_row(const LoopKernel *k, const LoopExpr *x, Dim var, Dim at,
                     const LoopBound **out) {
  bool ok = x->kind != LX_VAR;
  for (int i = 0; i < x->nguards && !*out; i++)
    if (is_row(k, &x->guard[i], var, at)) *out = &x->guard[i];
  if (x->kind == LX_LOAD) {
    const LoopBuffer *b = &k->buffer[x->buffer];
    ok = b->space == LOOP_ARG && !b->written;
  }
  for (int i = 0; i < 3 && ok; i++) ok = !x->src[i] || find_row(k, x->src[i], var, at, out);
  return ok;
}

static bool match_value(const LoopKernel *k, const LoopExpr *x, Dim var, Dim at,
                        LoopTileOperand *out) {
  const LoopBound *g = NULL;
  *out = (LoopTileOperand){.form = TILE_VALUE, .buffer = -1, .value = x, .dtype = x->dtype};
  if (!find_row(k, x, var, at, &g) || !g) return false;
  out->row = g->value;
  out->rows = g->extent;
  return true;
}

// A load at g*stride + k, where the guard g is row + i below rows; or of a window.
static bool match_copied(const LoopKernel *k, const LoopExpr *x, Dim var, const LoopStmt *sum,
                         LoopTileOperand *out) {
  const LoopExpr *load = without_cast(x);
  Dim one, rest, stride;
  if (load->kind != LX_LOAD || load->nguards < 1 || load->src[0]) return false;
  const LoopBound *g = &load->guard[0];
  const LoopBuffer *b = &k->buffer[load->buffer];
  if (b->space != LOOP_ARG || b->written || load->dtype != b->dtype) return false;
  if (!is_row(k, g, var, sum->sym)) return false;
  *out = (LoopTileOperand){.form = TILE_MATRIX,
                           .buffer = load->buffer,
                           .value = load,
                           .dtype = load->dtype,
                           .row = g->value,
                           .rows = g->extent};
  if (match_window(k, load, sum->sym, sum->extent, out)) {
    out->form = TILE_WINDOW;
    return loop_tile_counts(k, out->window.images);
  }
  if (load->nguards != 1 || !loop_tile_counts(k, out->rows)) return false;
  if (!dim_split(k->pool, load->index, sum->sym, &one, &rest) || !ie_is(one, 1)) return false;
  if (!dim_split(k->pool, rest, g->sym, &stride, &rest) || !ie_is(rest, 0)) return false;
  out->stride = stride;
  return true;
}

// What is under the conversion of an operand to the dtype of the sums; in *rounded whether it is rounded to tf32.
static const LoopExpr *below(const LoopExpr *x, bool *rounded) {
  *rounded = x->kind == LX_OP && x->op == LOOP_tf32;
  return *rounded ? x->src[0] : x;
}

// A value may begin with a conversion of its own.
static const LoopExpr *value_of(const LoopExpr *x, DType t) {
  return x->dtype == t ? x : without_cast(x);
}

static bool is_byte(DType t) { return t == DT_I8 || t == DT_U8; }

static bool is_float8(DType t) { return t == DT_F8E4M3 || t == DT_F8E5M2; }

// -1: the units have none of these.
static int product_of(DType a, DType b, bool rounded) {
  if (is_byte(a) && is_byte(b)) return TILE_INT8;
  if (is_float8(a) && is_float8(b)) return TILE_FP8;
  if (a != b) return -1;
  if (a == DT_F32) return rounded ? TILE_TF32 : TILE_F32;
  return a == DT_BF16 || a == DT_F16 ? TILE_HALF : -1;
}

static bool match_product(LoopTile *t, bool rounded, const char **why) {
  DType type = t->a.dtype;
  int product = product_of(type, t->b.dtype, rounded);
  *why = "the operands of a tile's products are both bf16, both f16, both f32, both bytes, or both "
         "floats of 8 bits";
  if (product < 0) return false;
  *why = "a tile's products of bytes are i32, those of floats f32";
  if (t->sum->value->dtype != (product == TILE_INT8 ? DT_I32 : DT_F32)) return false;
  t->product = (uint8_t)product;
  t->block = TILE_DEPTH_BYTES / (dtype_bits(type) / 8);
  *why = "operands that are rounded to tf32 are f32";
  if (rounded && t->product != TILE_TF32) return false;
  *why = "a tile of f32 has up to 160 columns and 6 stages, and is the only one at once";
  return t->product != TILE_F32 ||
         (t->n <= TILE_F32_COLS && t->stages <= TILE_F32_STAGES && t->at_once == 1);
}

static bool match_sum(const LoopKernel *k, LoopTile *t, const char **why) {
  const LoopStmt *s = t->sum;
  *why = "a tile begins with one sum of products";
  if (s->kind != LS_REDUCE || s->op != LOOP_add || s->lanes != 1 || s->body.n) return false;
  const LoopExpr *v = s->value;
  if (v->kind != LX_OP || v->op != LOOP_mul || (v->dtype != DT_F32 && v->dtype != DT_I32))
    return false;
  t->depth = s->extent;
  *why = "the operands of a tile's products are rows of matrices, along the contracted axis, of "
         "which the first may be a window or a value";
  bool rounded, other;
  const LoopExpr *x = below(v->src[0], &rounded), *y = below(v->src[1], &other);
  if (!match_copied(k, y, t->cols->sym, s, &t->b) || t->b.form != TILE_MATRIX) return false;
  if (!match_copied(k, x, t->rows->sym, s, &t->a) &&
      !match_value(k, value_of(x, t->b.dtype), t->rows->sym, s->sym, &t->a))
    return false;
  *why = "both operands of a tile's products are rounded to tf32, or neither is";
  if (rounded != other || !match_product(t, rounded, why)) return false;
  *why = "two tiles at once have operands that are copied, and not of f32 or of 8 bits";
  if (t->at_once > 1)
    return t->a.form != TILE_VALUE && t->product != TILE_F32 && t->product != TILE_FP8;
  *why = "warpgroups take turns in tiles of up to 64 columns, two of them of f32 up to 128, whose "
         "operands are copied";
  int most = t->product == TILE_F32 && t->groups == 2 ? 2 * TILE_ROWS : TILE_ROWS;
  return t->m == TILE_ROWS * t->groups || (t->n <= most && t->a.form != TILE_VALUE);
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
  out->cluster = 1;
  if (out->groups > 3) {
    out->groups = out->cols->ways % 3 ? 2 : 3;
    out->cluster = out->cols->ways / out->groups;
  }
  out->at_once = MAX(k->body.v[0]->ways, 1);
  bool attends = out->sum->kind == LS_REDUCE && out->sum->op == LOOP_max && out->at_once == 1;
  if (attends && m == TILE_ROWS && out->cols->ways > 1) {
    out->groups = 1;
    out->parts = out->cols->ways;
    out->cluster = out->parts / 2;
  }
  if (attends && out->stages == 1) {
    out->m = (int)m;
    out->n = (int)n;
    return loop_tile_attention(k, out, why);
  }
  *why =
      "a tile has 64 rows for each of 1 to 3 warpgroups or for all, up to 256 columns by 32, and "
      "2 to 8 stages";
  if (out->groups < 1 || out->groups > 3 ||
      (m != (int64_t)TILE_ROWS * out->groups && m != TILE_ROWS && out->at_once == 1) ||
      n < TILE_COLS || n > TILE_MOST_COLS || n % TILE_COLS || out->stages < 2 || out->stages > 8)
    return false;
  // A warpgroup tells a stage's last two rounds apart, no more: it must have seen the one before itself, whatever came first.
  *why =
      "where warpgroups take turns along the contracted axis a stage is always the same one's, and "
      "each has two or more";
  if (out->at_once == 1 && m < (int64_t)TILE_ROWS * out->groups &&
      (out->stages % out->groups || out->stages < 2 * out->groups))
    return false;
  *why = "1, 2, 4 or 8 blocks share a tile of 64 rows";
  if (out->cluster * (out->parts ? 2 : out->groups) != out->cols->ways ||
      (out->cluster > 1 && (m != TILE_ROWS || out->at_once > 1 || out->cluster > 8 ||
                            (out->cluster & (out->cluster - 1)))))
    return false;
  *why = "two tiles at once have one warpgroup each, with 64 or 128 rows and 192 registers of sums";
  if (out->at_once > 2 ||
      (out->at_once == 2 && (out->groups != 1 || (m != TILE_ROWS && m != 2 * TILE_ROWS) ||
                             m / TILE_ROWS * n > 2 * TILE_MOST_SUMS)))
    return false;
  out->m = (int)m;
  out->n = (int)n;
  out->after = 1;
  if (attends) return loop_tile_attention(k, out, why);
  return match_sum(k, out, why);
}

enum { MANY_TILES = 256 };

int64_t loop_tile_stay(Dim rows, Dim cols, int m, int n, int64_t blocks) {
  if (!ie_is_const(rows) || !ie_is_const(cols) || cols->value > n || rows->value / m < MANY_TILES ||
      blocks > TILE_STAY_BYTES / (n * TILE_DEPTH_BYTES))
    return 0;
  return blocks * n * TILE_DEPTH_BYTES;
}

bool loop_find_tile(const LoopKernel *k, LoopTile *out) {
  const char *why;
  if (k->body.n != 1) return false;
  const LoopBlock *b = &k->body.v[0]->body;
  return b->n == 1 && loop_tile_match(k, b->v[0], out, &why);
}
