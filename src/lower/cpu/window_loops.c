// window_loops.c -- the loops of template window: stages lines, forms sums or maxima, stores.
//
// Needs:      a match of window.c and a legal schedule.
// Guarantees: loads of scratch have no guard, nor have stores.
#include "lower/cpu/window.h"

#include "loop/prove.h"

enum { LONG_MAX = 6, WEIGHTS_HELD = 64, STEPS = 9 };
enum { SUM_MOST = 1 << 24 };  // no int8 sum is beyond it, as code is told

// ---- staging ----

static const LoopExpr *neutral(WindowKernel *w) {
  double f = 0;
  int64_t i = 0;
  bool max = w->op == WINDOW_MAXIMUM;
  if (!loop_identity(max ? LOOP_max : LOOP_add, w->sum, &f, &i)) return NULL;
  return dtype_is_float(w->sum) ? loop_float(w->e.k, w->sum, f) : loop_int(w->e.k, w->sum, i);
}

static bool phase_used(const WindowKernel *w, int64_t phase) {
  const WindowAxis *a = &w->axis[WINDOW_COLUMN];
  for (int64_t k = 0; k < a->kernel; k++)
    if (k * a->dilation % a->stride == phase) return true;
  return false;
}

// Where a line begins in scratch, in terms of its phase.
static Dim line_at(const WindowKernel *w, Dim depth, Dim line, int64_t phase) {
  IntPool *p = w->e.pool;
  Dim at = ie_add(p, ie_mulc(p, depth, w->lines), line);
  return ie_mulc(p, ie_addc(p, ie_mulc(p, at, w->phases), phase), w->pitch);
}

static void fill(WindowKernel *w, Dim line, int64_t from, int64_t to) {
  LoopBuilder *b = &w->e.b;
  if (from >= to) return;
  Dim v = loop_for(b, LOOP_VECTOR, "v", ie_const(w->e.pool, to - from));
  loop_store(b, w->staged, ie_add(w->e.pool, ie_addc(w->e.pool, line, from), v), neutral(w));
  loop_end(b);
}

// An element less its zero point: one of all, or that of a channel.
static const LoopExpr *less_zero(WindowKernel *w, const LoopExpr *x, const Node *zero,
                                 Dim channel) {
  if (!zero) return x;
  const Type *t = type_of(zero);
  Dim at[1] = {t->rank && !ie_is(t->dims[0], 1) ? channel : w->e.pool->zero};
  const LoopExpr *v = elem_at(&w->e, zero, at);
  return v ? loop_op(w->e.k, LOOP_sub, x, loop_cast(w->e.k, w->sum, v), NULL) : NULL;
}

// One phase of a line: its padding before, its pixels, its padding behind.
static bool stage_line(WindowKernel *w, const Dim *index, Dim line, int64_t phase) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  const WindowAxis *a = &w->axis[WINDOW_COLUMN];
  int64_t begin = (MAX(a->lo - phase, 0) + a->stride - 1) / a->stride;
  int64_t last = a->in - 1 + a->lo - phase, end = last < 0 ? 0 : last / a->stride + 1;
  begin = MIN(begin, w->pitch);
  end = MIN(MAX(end, begin), w->pitch);
  fill(w, line, 0, begin);
  if (end > begin) {
    Dim at[MAX_RANK], v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(p, end - begin));
    int rank = type_of(w->image)->rank, before = e->nguards;
    memcpy(at, index, (size_t)rank * sizeof *at);
    at[rank - 1] = ie_addc(p, ie_mulc(p, v, a->stride), begin * a->stride + phase - a->lo);
    elem_forget(e);
    for (int d = 2; d < rank - 1 && at[d]; d++)
      at[d] = elem_guard(e, at[d], elem_dim(e, type_of(w->image)->dims[d]));
    const LoopExpr *x = elem_at(e, w->image, at);
    if (!x) return false;
    x = less_zero(w, loop_cast(e->k, w->sum, x), w->image_zero, NULL);
    if (!x) return false;
    x = elem_guarded(e, before, x, neutral(w));
    elem_unguard(e, before);
    loop_store(&e->b, w->staged, ie_add(p, ie_addc(p, line, begin), v), x);
    loop_end(&e->b);
  }
  fill(w, line, end, w->pitch);
  return true;
}

static Dim tap_place(WindowKernel *w, int axis, Dim out, Dim tap) {
  IntPool *p = w->e.pool;
  const WindowAxis *a = &w->axis[axis];
  return ie_addc(p, ie_add(p, ie_mulc(p, out, a->stride), ie_mulc(p, tap, a->dilation)), -a->lo);
}

static bool stage(WindowKernel *w) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  const WindowAxis *a = &w->axis[WINDOW_LINE];
  Dim index[MAX_RANK] = {w->image_index, w->channel}, depth = p->zero, line;
  bool deep = w->axis[WINDOW_DEPTH].kernel > 1, ok = true;
  if (deep) depth = loop_for(&e->b, LOOP_SERIAL, "z", ie_const(p, w->axis[WINDOW_DEPTH].kernel));
  line = loop_for(&e->b, LOOP_SERIAL, "y", ie_const(p, w->lines));
  if (w->nd > 2) index[2] = tap_place(w, WINDOW_DEPTH, w->plane, depth);
  if (w->nd > 1)
    index[w->nd] = ie_addc(p, ie_add(p, ie_mulc(p, w->first_line, a->stride), line), -a->lo);
  for (int64_t phase = 0; phase < w->phases && ok; phase++)
    if (phase_used(w, phase)) ok = stage_line(w, index, line_at(w, depth, line, phase), phase);
  loop_end(&e->b);
  if (deep) loop_end(&e->b);
  return ok;
}

// ---- results ----

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  const WindowKernel *w = ctx;
  const Type *t = w->anchor->type[0];
  for (int d = 0; d < t->rank; d++)
    if (index[d] != w->at[d] && !ie_is(t->dims[d], 1)) return NULL;
  return w->value;
}

// Stores the pixel (line, column) of a channel.
static bool store_pixel(WindowKernel *w, Dim channel, Dim line, Dim column, const LoopExpr *x) {
  ElementBuilder *e = &w->e;
  const Type *t = w->anchor->type[0];
  w->at[0] = w->image_index;
  w->at[1] = channel;
  if (w->nd > 2) w->at[2] = w->plane;
  if (w->nd > 1) w->at[w->nd] = line;
  w->at[w->nd + 1] = column;
  if (w->anchor->op == OP_conv_integer) x = elem_clamped(e->k, x, -SUM_MOST, SUM_MOST);
  w->value = loop_let(&e->b, loop_cast(e->k, t->dtype, x));
  elem_forget(e);
  return epilogue_store(&w->walk, w->at);
}

// All tiles of the band: whole ones in a loop, then what is left.
static bool each_tile(WindowKernel *w, bool (*tile)(WindowKernel *w, Dim line, void *ctx),
                      void *ctx) {
  IntPool *p = w->e.pool;
  int64_t whole = w->s.band / w->s.rows, rest = w->s.band % w->s.rows;
  w->rows = w->s.rows;
  Dim t = loop_for(&w->e.b, LOOP_SERIAL, "t", ie_const(p, whole));
  bool ok = tile(w, ie_mulc(p, t, w->s.rows), ctx);
  loop_end(&w->e.b);
  w->rows = rest;
  return ok && (!rest || tile(w, ie_const(p, whole * w->s.rows), ctx));
}

// ---- convolutions ----

static const LoopExpr *weight_at(WindowKernel *w, Dim channel, int64_t z, int64_t y, int64_t x) {
  IntPool *p = w->e.pool;
  Dim tap[WINDOW_AXES] = {ie_const(p, z), ie_const(p, y), ie_const(p, x)};
  Dim index[MAX_RANK] = {channel, p->zero};
  for (int d = 0; d < w->nd; d++) index[2 + d] = tap[WINDOW_AXES - w->nd + d];
  const LoopExpr *v = elem_at(&w->e, w->weight, index);
  return v ? less_zero(w, loop_cast(w->e.k, w->sum, v), w->weight_zero, channel) : NULL;
}

typedef struct ConvTile {
  WindowKernel *w;
  Dim channel, line;        // of the output; the tile's first line in the band
  const LoopExpr **weight;  // held, or NULL
  const LoopExpr **sum;     // [rows]
  const LoopExpr *bias;
} ConvTile;

static const LoopExpr *tile_weight(ConvTile *c, int64_t z, int64_t y, int64_t x) {
  const WindowAxis *a = c->w->axis;
  if (!c->weight) return weight_at(c->w, c->channel, z, y, x);
  return c->weight[(z * a[WINDOW_LINE].kernel + y) * a[WINDOW_COLUMN].kernel + x];
}

// Adds what a staged line contributes to the tile's sums.
static bool add_line(ConvTile *c, int64_t z, int64_t line, Dim v) {
  WindowKernel *w = c->w;
  IntPool *p = w->e.pool;
  const WindowAxis *y = &w->axis[WINDOW_LINE], *x = &w->axis[WINDOW_COLUMN];
  Dim at = ie_addc(p, ie_mulc(p, c->line, y->stride), line);
  for (int64_t k = 0; k < x->kernel; k++) {
    int64_t place = k * x->dilation;
    const LoopExpr *pixel = NULL;
    for (int64_t r = 0; r < w->rows; r++) {
      int64_t off = line - r * y->stride;
      if (off < 0 || off % y->dilation || off / y->dilation >= y->kernel) continue;
      Dim from = line_at(w, ie_const(p, z), at, place % x->stride);
      from = ie_add(p, ie_addc(p, from, place / x->stride), v);
      if (!pixel) pixel = loop_let(&w->e.b, loop_load(w->e.k, w->staged, from));
      const LoopExpr *weight = tile_weight(c, z, off / y->dilation, k);
      if (!weight) return false;
      c->sum[r] = loop_let(&w->e.b, loop_op(w->e.k, LOOP_fma, pixel, weight, c->sum[r]));
    }
  }
  return true;
}

static bool conv_tile(WindowKernel *w, Dim first, void *ctx) {
  ConvTile *c = ctx;
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  const WindowAxis *y = &w->axis[WINDOW_LINE];
  Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(p, w->axis[WINDOW_COLUMN].out));
  bool ok = true;
  elem_forget(e);
  c->line = first;
  for (int64_t r = 0; r < w->rows; r++) c->sum[r] = c->bias;
  int64_t lines = (w->rows - 1) * y->stride + window_extent(y);
  for (int64_t z = 0; z < w->axis[WINDOW_DEPTH].kernel; z++)
    for (int64_t line = 0; line < lines && ok; line++) ok = add_line(c, z, line, v);
  for (int64_t r = 0; r < w->rows && ok; r++) {
    Dim line = ie_addc(p, ie_add(p, w->first_line, c->line), r);
    ok = store_pixel(w, c->channel, line, v, c->sum[r]);
  }
  loop_end(&e->b);
  return ok;
}

static bool hold_weights(ConvTile *c) {
  WindowKernel *w = c->w;
  const WindowAxis *a = w->axis;
  int64_t taps = a[0].kernel * a[1].kernel * a[2].kernel, n = 0;
  if (taps > WEIGHTS_HELD) return true;
  const LoopExpr **held = arena_array(w->e.a, const LoopExpr *, taps);
  for (int64_t z = 0; z < a[WINDOW_DEPTH].kernel; z++)
    for (int64_t y = 0; y < a[WINDOW_LINE].kernel; y++)
      for (int64_t x = 0; x < a[WINDOW_COLUMN].kernel; x++) {
        const LoopExpr *v = weight_at(w, c->channel, z, y, x);
        if (!v) return false;
        held[n++] = loop_let(&w->e.b, v);
      }
  c->weight = held;
  return true;
}

static bool convolve(WindowKernel *w) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  ConvTile c = {.w = w, .channel = w->channel};
  c.sum = arena_array(e->a, const LoopExpr *, w->s.rows);
  if (w->multiplier > 1) {
    Dim m = loop_for(&e->b, LOOP_SERIAL, "m", ie_const(p, w->multiplier));
    c.channel = ie_add(p, ie_mulc(p, w->channel, w->multiplier), m);
  }
  elem_forget(e);
  const LoopExpr *bias = loop_float(e->k, w->sum, 0);
  if (w->bias) bias = elem_at(e, w->bias, &c.channel);
  if (!bias || !hold_weights(&c)) return false;
  c.bias = loop_let(&e->b, loop_cast(e->k, w->sum, bias));
  bool ok = each_tile(w, conv_tile, &c);
  if (w->multiplier > 1) loop_end(&e->b);
  return ok;
}

// ---- pools ----

// Taps of one column, folded: entries of a table of spans, found once each.
typedef struct Column {
  WindowKernel *w;
  Dim line, v;  // the tile's first line in the band
  int64_t phase, z, lines;
  const LoopExpr **span;  // [log2 of the taps][line]
} Column;

static const LoopExpr *two(WindowKernel *w, const LoopExpr *a, const LoopExpr *b) {
  LoopOp op = w->op == WINDOW_MAXIMUM ? LOOP_max : LOOP_add;
  return loop_let(&w->e.b, loop_op(w->e.k, op, a, b, NULL));
}

// 2^step taps of a column from a line on.
static const LoopExpr *column_span(Column *c, int step, int64_t line) {
  WindowKernel *w = c->w;
  IntPool *p = w->e.pool;
  const LoopExpr **at = &c->span[step * c->lines + line];
  if (*at) return *at;
  if (!step) {
    Dim y = ie_addc(p, ie_mulc(p, c->line, w->axis[WINDOW_LINE].stride), line);
    Dim from = ie_add(p, line_at(w, ie_const(p, c->z), y, c->phase), c->v);
    *at = loop_let(&w->e.b, loop_load(w->e.k, w->staged, from));
  } else {
    int64_t next = line + ((int64_t)1 << (step - 1)) * w->axis[WINDOW_LINE].dilation;
    const LoopExpr *a = column_span(c, step - 1, line);
    *at = two(w, a, column_span(c, step - 1, next));
  }
  return *at;
}

static int log2_below(int64_t n) {
  int step = 0;
  while ((int64_t)2 << step <= n) step++;
  return step;
}

// All taps of a column of line r of the tile.  Sums are formed in order, maxima by halves.
static const LoopExpr *column_of(Column *c, int64_t r) {
  WindowKernel *w = c->w;
  const WindowAxis *a = &w->axis[WINDOW_LINE];
  const LoopExpr *all = NULL;
  for (c->z = 0; c->z < w->axis[WINDOW_DEPTH].kernel; c->z++) {
    int64_t first = r * a->stride;
    int step = w->op == WINDOW_MAXIMUM ? log2_below(a->kernel) : 0;
    if (w->axis[WINDOW_DEPTH].kernel > 1)  // the lines of another plane
      memset(c->span, 0, (size_t)(c->lines * STEPS) * sizeof *c->span);
    for (int64_t k = 0; k < a->kernel;) {
      const LoopExpr *x = column_span(c, step, first + k * a->dilation);
      all = all ? two(w, all, x) : x;
      int64_t done = k + ((int64_t)1 << step);
      k = done >= a->kernel ? done : MIN(done, a->kernel - ((int64_t)1 << step));
    }
  }
  return all;
}

static Column column_begin(WindowKernel *w, Dim line, int64_t phase, Dim v) {
  const WindowAxis *a = &w->axis[WINDOW_LINE];
  Column c = {.w = w, .line = line, .v = v, .phase = phase};
  c.lines = (w->rows - 1) * a->stride + window_extent(a);
  c.span = arena_array(w->e.a, const LoopExpr *, c.lines *STEPS);
  return c;
}

// Taps of an axis that lie inside, for an output place.
static Dim taps_inside(WindowKernel *w, int axis, Dim out) {
  IntPool *p = w->e.pool;
  const WindowAxis *a = &w->axis[axis];
  Dim size = ie_const(p, a->in + (w->count_padding ? a->hi : 0));
  return elem_taps_inside(p, tap_place(w, axis, out, p->zero), a->kernel, a->dilation, size,
                          !w->count_padding);
}

// Whether every place of an axis has all its taps inside.
static bool always_inside(const WindowKernel *w, int axis) {
  const WindowAxis *a = &w->axis[axis];
  int64_t end = (a->out - 1) * a->stride - a->lo + window_extent(a);
  return end <= a->in + (w->count_padding ? a->hi : 0) && (!a->lo || w->count_padding);
}

static void count_columns(WindowKernel *w) {
  ElementBuilder *e = &w->e;
  if (w->counts < 0) return;
  Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(e->pool, w->axis[WINDOW_COLUMN].out));
  Dim n = taps_inside(w, WINDOW_COLUMN, v);
  loop_store(&e->b, w->counts, v, loop_cast(e->k, w->sum, loop_index(e->k, n)));
  loop_end(&e->b);
}

// The average from the sum; `line` is of the image.
static const LoopExpr *averaged(WindowKernel *w, Dim line, Dim v, const LoopExpr *sum) {
  ElementBuilder *e = &w->e;
  Dim n = ie_const(e->pool, w->axis[WINDOW_COLUMN].kernel);
  if (w->counts >= 0) n = e->pool->one;
  n = ie_mul(e->pool, n, taps_inside(w, WINDOW_LINE, line));
  n = ie_mul(e->pool, n, taps_inside(w, WINDOW_DEPTH, w->plane));
  const LoopExpr *by = loop_cast(e->k, w->sum, loop_index(e->k, n));
  if (w->counts >= 0) by = loop_op(e->k, LOOP_mul, by, loop_load(e->k, w->counts, v), NULL);
  by = loop_op(e->k, LOOP_max, by, elem_number(e, w->sum, 1), NULL);
  return loop_op(e->k, LOOP_div, sum, by, NULL);
}

static bool store_pool(WindowKernel *w, Dim tile, int64_t r, Dim v, const LoopExpr *x) {
  IntPool *p = w->e.pool;
  Dim line = ie_addc(p, ie_add(p, w->first_line, tile), r);
  if (w->op == WINDOW_AVERAGE) x = averaged(w, line, v, x);
  return store_pixel(w, w->channel, line, v, x);
}

// Windows of one column: nothing is left to do along the line.
static bool pool_columns(WindowKernel *w, Dim tile) {
  Dim v = loop_for(&w->e.b, LOOP_VECTOR, "v", ie_const(w->e.pool, w->axis[WINDOW_COLUMN].out));
  Column c = column_begin(w, tile, 0, v);
  bool ok = true;
  for (int64_t r = 0; r < w->rows && ok; r++) ok = store_pool(w, tile, r, v, column_of(&c, r));
  loop_end(&w->e.b);
  return ok;
}

// Folds the columns of a tile into scratch: [line][phase][pitch].
static void fold_columns(WindowKernel *w, Dim tile) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  for (int64_t phase = 0; phase < w->phases; phase++) {
    if (!phase_used(w, phase)) continue;
    Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(p, w->pitch));
    Column c = column_begin(w, tile, phase, v);
    for (int64_t r = 0; r < w->rows; r++) {
      Dim to = ie_addc(p, v, (r * w->phases + phase) * w->pitch);
      loop_store(&e->b, w->folded[0], to, column_of(&c, r));
    }
    loop_end(&e->b);
  }
}

// The maxima of 2^step taps along each line of the tile, in one of the two buffers; returns which.
static int fold_lines(WindowKernel *w, int step) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  for (int i = 0; i < step; i++) {
    int64_t by = ((int64_t)1 << i) * w->axis[WINDOW_COLUMN].dilation;
    Dim r = loop_for(&e->b, LOOP_SERIAL, "r", ie_const(p, w->rows));
    int64_t left = w->pitch - 2 * by + w->axis[WINDOW_COLUMN].dilation;
    Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(p, left));
    Dim at = ie_add(p, ie_mulc(p, r, w->pitch), v);
    const LoopExpr *a = loop_load(e->k, w->folded[i % 2], at);
    const LoopExpr *b = loop_load(e->k, w->folded[i % 2], ie_addc(p, at, by));
    loop_store(&e->b, w->folded[(i + 1) % 2], at, loop_op(e->k, LOOP_max, a, b, NULL));
    loop_end(&e->b);
    loop_end(&e->b);
  }
  return step % 2;
}

static bool is_long(const WindowKernel *w) {
  const WindowAxis *a = &w->axis[WINDOW_COLUMN];
  return w->op == WINDOW_MAXIMUM && a->stride == 1 && a->kernel >= LONG_MAX;
}

// The taps along a line, from what the columns left.
static bool pool_lines(WindowKernel *w, Dim tile, int from, int step) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  const WindowAxis *a = &w->axis[WINDOW_COLUMN];
  bool ok = true;
  for (int64_t r = 0; r < w->rows && ok; r++) {
    Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(p, a->out));
    const LoopExpr *all = NULL;
    for (int64_t k = 0, done; k < a->kernel; k = done) {
      done = k + ((int64_t)1 << step);
      if (done > a->kernel) k = a->kernel - ((int64_t)1 << step), done = a->kernel;
      int64_t place = k * a->dilation, phase = place % a->stride;
      Dim at = ie_addc(p, v, (r * w->phases + phase) * w->pitch + place / a->stride);
      const LoopExpr *x = loop_load(e->k, w->folded[from], at);
      all = all ? two(w, all, x) : x;
    }
    ok = store_pool(w, tile, r, v, all);
    loop_end(&e->b);
  }
  return ok;
}

static bool pool_tile(WindowKernel *w, Dim tile, void *ctx) {
  (void)ctx;
  if (w->axis[WINDOW_COLUMN].kernel == 1) return pool_columns(w, tile);
  int step = is_long(w) ? log2_below(w->axis[WINDOW_COLUMN].kernel) : 0;
  fold_columns(w, tile);
  return pool_lines(w, tile, fold_lines(w, step), step);
}

static bool pool(WindowKernel *w) {
  count_columns(w);
  return each_tile(w, pool_tile, NULL);
}

// ---- the kernel ----

static void make_scratch(WindowKernel *w) {
  LoopKernel *k = w->e.k;
  IntPool *p = w->e.pool;
  const WindowAxis *a = &w->axis[WINDOW_LINE];
  w->lines = (w->s.band - 1) * a->stride + window_extent(a);
  int64_t line = w->phases * w->pitch, n = w->lines * w->axis[WINDOW_DEPTH].kernel;
  w->staged = loop_buffer(k, LOOP_SCRATCH, "lines", w->sum, ie_const(p, n * line), false);
  w->counts = -1;
  if (w->op == WINDOW_CONV || w->axis[WINDOW_COLUMN].kernel == 1) return;
  for (int i = 0; i < 1 + is_long(w); i++)
    w->folded[i] =
        loop_buffer(k, LOOP_SCRATCH, "folded", w->sum, ie_const(p, w->s.rows * line), false);
  if (w->op == WINDOW_AVERAGE && !always_inside(w, WINDOW_COLUMN))
    w->counts = loop_buffer(k, LOOP_SCRATCH, "counts", w->sum,
                            ie_const(p, w->axis[WINDOW_COLUMN].out), false);
}

static void open_item(WindowKernel *w) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  const Type *t = type_of(w->image);
  int64_t bands = (w->axis[WINDOW_LINE].out + w->s.band - 1) / w->s.band;
  Dim shape[] = {elem_dim(e, t->dims[0]), elem_dim(e, t->dims[1]),
                 ie_const(p, w->axis[WINDOW_DEPTH].out), ie_const(p, bands)};
  Dim items = p->one, at[ARRAY_LEN(shape)];
  for (int i = 0; i < ARRAY_LEN(shape); i++) items = ie_mul(p, items, shape[i]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, ARRAY_LEN(shape), shape, at);
  w->image_index = at[0];
  w->channel = at[1];
  w->plane = at[2];
  w->first_line = ie_mulc(p, at[3], w->s.band);
}

bool window_build_loops(WindowKernel *w) {
  ElementBuilder *e = &w->e;
  make_scratch(w);
  elem_give(e, w->walk.own, give_value, w);
  loop_begin(&e->b, e->k);
  open_item(w);
  if (!stage(w) || !(w->op == WINDOW_CONV ? convolve(w) : pool(w))) return false;
  loop_end(&e->b);
  return true;
}
