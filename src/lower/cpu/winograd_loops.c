// winograd_loops.c -- the loops of template winograd: items, blocks of tiles, transforms, GEMMs.
//
// A work item owns rows of tiles and some output channels.  For each block of tiles it transforms
// all input channels into scratch.  For each panel of outputs it runs one small GEMM per point and
// transforms the sums back to pixels, which the epilogue stores.  Items share nothing: transforming
// a tile twice costs less than fetching it from another core.
//
// Needs:      winograd_derive has run; the packed weights are the transformed ones.
// Guarantees: input channels are added in ascending order.  Pixels outside the image are guarded
//             loads of 0; pixels outside the result are not stored.
#include "lower/cpu/winograd.h"

static Dim num(Winograd *w, int64_t v) { return ie_const(w->e->pool, v); }
static Dim add(Winograd *w, Dim a, Dim b) { return ie_add(w->e->pool, a, b); }
static Dim times(Winograd *w, Dim a, int64_t b) { return ie_mulc(w->e->pool, a, b); }
static int64_t points(const Winograd *w) { return w->s.tile + WINOGRAD_TAPS - 1; }

// A loop that is not written where it runs once.
static Dim open_loop(Winograd *w, LoopKind kind, const char *name, Dim extent, int *depth) {
  if (ie_is(extent, 1)) return w->e->pool->zero;
  ++*depth;
  return loop_for(&w->e->b, kind, name, extent);
}
static void close_loops(Winograd *w, int depth) {
  while (depth-- > 0) loop_end(&w->e->b);
}

enum { RUNS = 4 };  // of channels

// A block: tiles of the image, `high` rows of `wide` tiles.
typedef struct Block {
  Dim y, x;  // the first tile
  int64_t high, wide;
} Block;

static int64_t tiles(const Block *b) { return b->high * b->wide; }

// n things in pieces of at most `most`: of two sizes that differ by one.  Piece i of two has
// count[i] times size[i].
typedef struct Even {
  int64_t count[2], size[2];
} Even;

static Even evenly(int64_t n, int64_t most) {
  int64_t pieces = (n + most - 1) / most, size = (n + pieces - 1) / pieces;
  int64_t large = n - pieces * (size - 1);
  return (Even){{large, pieces - large}, {size, size - 1}};
}

// ---- arithmetic ----

typedef const LoopExpr *X;

static X real(Winograd *w, double v) { return loop_float(w->e->k, DT_F32, v); }
static X let(Winograd *w, X x) { return loop_let(&w->e->b, x); }
static X plus(Winograd *w, X a, X b) { return let(w, loop_op(w->e->k, LOOP_add, a, b, NULL)); }
static X minus(Winograd *w, X a, X b) { return let(w, loop_op(w->e->k, LOOP_sub, a, b, NULL)); }
// c * a + b
static X fused(Winograd *w, double c, X a, X b) {
  return let(w, loop_op(w->e->k, LOOP_fma, real(w, c), a, b));
}
static X scaled(Winograd *w, double c, X a) {
  return let(w, loop_op(w->e->k, LOOP_mul, real(w, c), a, NULL));
}

// ---- transforms of one line of points ----

// Of 3 of 6 pixels' polynomial: those at 0, a, -a, or at b, -b, infinity; each with leading
// coefficient 1.
static void forward6(Winograd *w, const X *d, bool second, X *t) {
  const double a = WINOGRAD_A, b = WINOGRAD_B, sum = a * a + b * b, product = a * a * b * b;
  double own = second ? b : a, other = second ? a * a : b * b;
  X even = fused(w, -other, d[2], d[4]), odd = fused(w, -other, d[1], d[3]);
  X *pair = second ? t : t + 1;
  pair[0] = fused(w, own, odd, even);
  pair[1] = fused(w, -own, odd, even);
  if (second)
    t[2] = fused(w, product, d[1], fused(w, -sum, d[3], d[5]));
  else
    t[0] = fused(w, product, d[0], fused(w, -sum, d[2], d[4]));
}

static void forward4(Winograd *w, const X *d, X *t) {
  t[0] = minus(w, d[0], d[2]);
  t[1] = plus(w, d[1], d[2]);
  t[2] = minus(w, d[2], d[1]);
  t[3] = minus(w, d[1], d[3]);
}

// All points of a line.
static void forward(Winograd *w, const X *d, X *t) {
  if (w->s.tile == 2) {
    forward4(w, d, t);
    return;
  }
  forward6(w, d, false, t);
  forward6(w, d, true, t + 3);
}

// From the points of a line to its pixels.
static void backward(Winograd *w, const X *t, X *y) {
  const double a = WINOGRAD_A, b = WINOGRAD_B;
  if (w->s.tile == 2) {
    y[0] = plus(w, plus(w, t[0], t[1]), t[2]);
    y[1] = minus(w, minus(w, t[1], t[2]), t[3]);
    return;
  }
  X s1 = plus(w, t[1], t[2]), d1 = minus(w, t[1], t[2]);
  X s2 = plus(w, t[3], t[4]), d2 = minus(w, t[3], t[4]);
  y[0] = plus(w, plus(w, t[0], s1), s2);
  y[1] = fused(w, b, d2, scaled(w, a, d1));
  y[2] = fused(w, b * b, s2, scaled(w, a * a, s1));
  y[3] = fused(w, b * b * b, d2, fused(w, a * a * a, d1, t[5]));
}

// ---- pixels to points ----

// Pixel (i, j) of a tile; outside the image it is 0, whatever it is made of.
static X pixel(Winograd *w, Dim y, Dim x, Dim channel) {
  const Contraction *c = w->c;
  ElementBuilder *e = w->e;
  Dim index[MAX_RANK];
  int before = e->nguards;
  index[0] = w->image;
  index[c->channel] = channel;
  index[c->first_space] = elem_guard(e, y, c->space[0].in);
  index[c->first_space + 1] = elem_guard(e, x, c->space[1].in);
  X v = elem_at(e, c->lhs, index);
  v = elem_guarded(e, before, v, real(w, 0));
  elem_unguard(e, before);
  return v ? let(w, v) : NULL;
}

// One tile of the block, channels from `first` on, into run `run` of the block's channels.  Of six
// rows of points three are made at once (`part` 0 or 1), since those of all would not stay in
// registers.
static bool transform(Winograd *w, const Block *b, Dim tile, Dim y, Dim x, Dim first, Dim run,
                      int64_t lanes, int part) {
  ElementBuilder *e = w->e;
  IntPool *p = e->pool;
  int64_t n = points(w), rows = w->s.tile == 2 ? n : n / 2;
  X d[WINOGRAD_POINTS], t[WINOGRAD_POINTS][WINOGRAD_POINTS], q[WINOGRAD_POINTS];
  Dim lane = loop_for(&e->b, LOOP_VECTOR, "c", num(w, lanes)), channel = add(w, first, lane);
  elem_forget(e);
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < n; i++) {
      d[i] = NULL;
      if (w->s.tile > 2 && i == (part ? 0 : n - 1)) continue;
      d[i] = pixel(w, ie_addc(p, y, i), ie_addc(p, x, j), channel);
      if (!d[i]) return false;
    }
    if (w->s.tile == 2)
      forward4(w, d, q);
    else
      forward6(w, d, part, q);
    for (int64_t i = 0; i < rows; i++) t[i][j] = q[i];
  }
  Dim at = add(w, times(w, add(w, times(w, run, tiles(b)), tile), w->s.lanes), lane);
  for (int64_t i = 0; i < rows; i++) {
    forward(w, t[i], q);
    for (int64_t j = 0; j < n; j++) {
      int64_t point = (part * rows + i) * n + j;
      loop_store(&e->b, w->v, ie_addc(p, at, point * w->v_point), q[j]);
    }
  }
  loop_end(&e->b);
  elem_forget(e);
  return true;
}

// Both parts of some runs of channels, few enough that their pixels are still near when the second
// part reads them again.
static bool transform_runs(Winograd *w, const Block *b, Dim tile, Dim y, Dim x, Dim first,
                           int64_t runs) {
  for (int part = 0; part < (w->s.tile == 2 ? 1 : 2); part++) {
    int depth = 0;
    Dim run = add(w, first, open_loop(w, LOOP_SERIAL, "run", num(w, runs), &depth));
    if (!transform(w, b, tile, y, x, times(w, run, w->s.lanes), run, w->s.lanes, part))
      return false;
    close_loops(w, depth);
  }
  return true;
}

static bool transform_tile(Winograd *w, const Block *b, Dim tile, Dim y, Dim x) {
  int64_t whole = w->inputs / w->s.lanes, rest = w->inputs % w->s.lanes, start = 0;
  Even part = evenly(MAX(whole, 1), RUNS);
  for (int i = 0; i < 2 && whole; i++) {
    int depth = 0;
    if (!part.count[i]) continue;
    Dim piece = open_loop(w, LOOP_SERIAL, "runs", num(w, part.count[i]), &depth);
    Dim first = ie_addc(w->e->pool, times(w, piece, part.size[i]), start);
    if (!transform_runs(w, b, tile, y, x, first, part.size[i])) return false;
    close_loops(w, depth);
    start += part.count[i] * part.size[i];
  }
  Dim last = num(w, whole), channel = num(w, whole * w->s.lanes);
  for (int i = 0; rest && i < (w->s.tile == 2 ? 1 : 2); i++)
    if (!transform(w, b, tile, y, x, channel, last, rest, i)) return false;
  return true;
}

static bool transform_block(Winograd *w, const Block *b) {
  IntPool *p = w->e->pool;
  const Contraction *c = w->c;
  int depth = 0;
  Dim r = open_loop(w, LOOP_SERIAL, "y", num(w, b->high), &depth);
  Dim s = open_loop(w, LOOP_SERIAL, "x", num(w, b->wide), &depth);
  Dim tile = add(w, times(w, r, b->wide), s);
  Dim y = ie_addc(p, times(w, add(w, b->y, r), w->s.tile), -c->space[0].lo);
  Dim x = ie_addc(p, times(w, add(w, b->x, s), w->s.tile), -c->space[1].lo);
  bool ok = transform_tile(w, b, tile, y, x);
  close_loops(w, depth);
  return ok;
}

// ---- products ----

// One input channel: each tile's number times a run of weights.
static void step(Winograd *w, const Block *b, int64_t rows, Dim first, Dim panel, Dim point,
                 Dim run, Dim in_run) {
  ElementBuilder *e = w->e;
  IntPool *p = e->pool;
  int64_t n = points(w);
  Dim input = add(w, times(w, run, w->s.lanes), in_run);
  Dim place = add(w, times(w, add(w, times(w, panel, n * n), point), w->inputs), input);
  Dim at = times(w, place, w->s.cols);
  for (int64_t i = 0; w->s.prefetch && i < w->s.cols; i += 64 / 4)
    loop_prefetch(&e->b, w->packed, ie_addc(p, at, w->s.prefetch / 4 + i));
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(w, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(w, w->s.cols));
  Dim from = times(w, add(w, times(w, run, tiles(b)), add(w, first, r)), w->s.lanes);
  from = add(w, add(w, times(w, point, w->v_point), from), in_run);
  Dim cell = add(w, times(w, r, w->s.cols), j);
  X sum = loop_op(e->k, LOOP_fma, loop_load(e->k, w->v, from),
                  loop_load(e->k, w->packed, add(w, at, j)), loop_load(e->k, w->acc, cell));
  loop_store(&e->b, w->acc, cell, sum);
  close_loops(w, 2);
}

// All channels, some of them written out.
static void steps(Winograd *w, const Block *b, int64_t rows, Dim first, Dim panel, Dim point) {
  int64_t whole = w->inputs / w->s.lanes, rest = w->inputs % w->s.lanes,
          unroll = MIN(w->s.lanes, 4);
  if (whole) {
    int depth = 0;
    Dim run = open_loop(w, LOOP_SERIAL, "run", num(w, whole), &depth);
    Dim k = open_loop(w, LOOP_SERIAL, "k", num(w, w->s.lanes / unroll), &depth);
    Dim u = open_loop(w, LOOP_UNROLL, "u", num(w, unroll), &depth);
    step(w, b, rows, first, panel, point, run, add(w, times(w, k, unroll), u));
    close_loops(w, depth);
  }
  if (rest) {
    int depth = 0;
    Dim k = open_loop(w, LOOP_SERIAL, "k", num(w, rest), &depth);
    step(w, b, rows, first, panel, point, num(w, whole), k);
    close_loops(w, depth);
  }
}

// The sums of some tiles at a point, in registers, and then in scratch.
static void sum_tiles(Winograd *w, const Block *b, int64_t rows, Dim first, Dim panel, Dim point) {
  ElementBuilder *e = w->e;
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(w, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(w, w->s.cols));
  loop_store(&e->b, w->acc, add(w, times(w, r, w->s.cols), j), real(w, 0));
  close_loops(w, 2);
  steps(w, b, rows, first, panel, point);
  r = loop_for(&e->b, LOOP_UNROLL, "r", num(w, rows));
  j = loop_for(&e->b, LOOP_VECTOR, "j", num(w, w->s.cols));
  Dim to = add(w, times(w, add(w, first, r), w->s.cols), j);
  loop_store(&e->b, w->products, add(w, times(w, point, w->p_point), to),
             loop_load(e->k, w->acc, add(w, times(w, r, w->s.cols), j)));
  close_loops(w, 2);
}

static void multiply(Winograd *w, const Block *b, Dim panel) {
  int64_t n = points(w), start = 0;
  Even part = evenly(tiles(b), w->s.tiles);
  Dim point = loop_for(&w->e->b, LOOP_SERIAL, "point", num(w, n * n));
  for (int i = 0; i < 2; i++) {
    int depth = 0;
    if (!part.count[i]) continue;
    Dim piece = open_loop(w, LOOP_SERIAL, "piece", num(w, part.count[i]), &depth);
    Dim first = ie_addc(w->e->pool, times(w, piece, part.size[i]), start);
    sum_tiles(w, b, part.size[i], first, panel, point);
    close_loops(w, depth);
    start += part.count[i] * part.size[i];
  }
  loop_end(&w->e->b);
}

// ---- points to pixels ----

// An index that is a multiple of `each` and what is below.  Where it may leave the result it is
// guarded always, so that work items are told apart alike wherever they store.
static Dim inside(Winograd *w, Dim at, Dim size, int64_t each) {
  ElementBuilder *e = w->e;
  if (ie_is_const(size) && size->value % each == 0) return at;
  if (e->nguards == LOOP_GUARDS) return NULL;
  Dim sym = loop_sym(e->k, "g", size);
  e->guard[e->nguards++] = (LoopBound){.sym = sym, .value = at, .extent = size};
  return sym;
}

// What is done with a pixel (i, j) of a tile, at output `column` of a panel.
static bool finish_pixel(Winograd *w, Dim panel, Dim y, Dim x, Dim i, Dim j, Dim column) {
  const Contraction *c = w->c;
  ElementBuilder *e = w->e;
  Dim index[MAX_RANK];
  elem_forget(e);
  Dim cell = add(w, times(w, add(w, times(w, i, w->s.tile), j), w->s.cols), column);
  X sum = let(w, loop_load(e->k, w->pixels, cell));
  Dim output = add(w, times(w, panel, w->s.cols), column);
  index[0] = w->image;
  index[c->first_space] = inside(w, add(w, y, i), c->out[c->first_space], w->s.tile);
  index[c->first_space + 1] =
      inside(w, add(w, x, j), c->out[c->first_space + 1], w->s.tile * w->s.block_cols);
  index[c->channel] = w->outputs % w->s.cols ? elem_guard(e, output, c->n) : output;
  bool ok = index[c->first_space] && index[c->first_space + 1] && index[c->channel] &&
            epilogue_store_sum(w->finish, index, sum, NULL);
  elem_unguard(e, 0);
  elem_forget(e);
  return ok;
}

// The points of a tile to the pixels of a small image.
static void transform_back(Winograd *w, Dim tile, Dim lane) {
  ElementBuilder *e = w->e;
  int64_t n = points(w), m = w->s.tile;
  X d[WINOGRAD_POINTS], t[WINOGRAD_POINTS][WINOGRAD_POINTS], y[WINOGRAD_POINTS];
  Dim from = add(w, times(w, tile, w->s.cols), lane);
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < n; i++) {
      Dim at = ie_addc(e->pool, from, (i * n + j) * w->p_point);
      d[i] = let(w, loop_load(e->k, w->products, at));
    }
    backward(w, d, y);
    for (int64_t i = 0; i < m; i++) t[i][j] = y[i];
  }
  for (int64_t i = 0; i < m; i++) {
    backward(w, t[i], y);
    for (int64_t j = 0; j < m; j++)
      loop_store(&e->b, w->pixels, ie_addc(e->pool, lane, (i * m + j) * w->s.cols), y[j]);
  }
}

static bool finish_block(Winograd *w, const Block *b, Dim panel) {
  ElementBuilder *e = w->e;
  int depth = 0;
  Dim r = open_loop(w, LOOP_SERIAL, "y", num(w, b->high), &depth);
  Dim s = open_loop(w, LOOP_SERIAL, "x", num(w, b->wide), &depth);
  Dim tile = add(w, times(w, r, b->wide), s), size = num(w, w->s.tile);
  Dim y = times(w, add(w, b->y, r), w->s.tile), x = times(w, add(w, b->x, s), w->s.tile);
  Dim lane = loop_for(&e->b, LOOP_VECTOR, "j", num(w, w->s.cols));
  bool ok;
  transform_back(w, tile, lane);
  if (w->s.spill) {
    loop_end(&e->b);
    Dim i = loop_for(&e->b, LOOP_SERIAL, "i", size), j = loop_for(&e->b, LOOP_SERIAL, "j", size);
    lane = loop_for(&e->b, LOOP_VECTOR, "j", num(w, w->s.cols));
    ok = finish_pixel(w, panel, y, x, i, j, lane);
  } else {
    Dim i = loop_for(&e->b, LOOP_UNROLL, "i", size), j = loop_for(&e->b, LOOP_UNROLL, "j", size);
    ok = finish_pixel(w, panel, y, x, i, j, lane);
  }
  close_loops(w, depth + 3);
  return ok;
}

// ---- blocks and items ----

static bool block(Winograd *w, const Block *b) {
  IntPool *p = w->e->pool;
  int64_t each = (w->panels + w->s.item_groups - 1) / w->s.item_groups;
  int depth = 0;
  Dim begin = times(w, w->group, each), n = num(w, each);
  if (w->panels % each) n = ie_min(p, n, ie_sub(p, num(w, w->panels), begin));
  if (!transform_block(w, b)) return false;
  Dim panel = add(w, begin, open_loop(w, LOOP_SERIAL, "panel", n, &depth));
  multiply(w, b, panel);
  bool ok = finish_block(w, b, panel);
  close_loops(w, depth);
  return ok;
}

// Adjacent blocks, all alike: tiles of the last one may lie outside, and are not stored.
static bool blocks_of_rows(Winograd *w, Dim y, int64_t high) {
  int depth = 0;
  Dim n = ie_ceildiv(w->e->pool, w->columns, num(w, w->s.block_cols));
  Dim x = times(w, open_loop(w, LOOP_SERIAL, "block", n, &depth), w->s.block_cols);
  bool ok = block(w, &(Block){.y = y, .x = x, .high = high, .wide = w->s.block_cols});
  close_loops(w, depth);
  return ok;
}

static bool rows_of_item(Winograd *w) {
  IntPool *p = w->e->pool;
  Dim begin = times(w, w->block, w->s.item_rows), n = num(w, w->s.item_rows);
  bool whole = ie_is_const(w->lines) && w->lines->value % w->s.item_rows == 0;
  int64_t high = whole && w->s.item_rows % w->s.block_rows == 0 ? w->s.block_rows : 1;
  int depth = 0;
  if (!whole) n = ie_min(p, n, ie_sub(p, w->lines, begin));
  if (high > 1) n = num(w, w->s.item_rows / high);
  Dim y = add(w, begin, times(w, open_loop(w, LOOP_SERIAL, "row", n, &depth), high));
  bool ok = blocks_of_rows(w, y, high);
  close_loops(w, depth);
  return ok;
}

// The parallel loop: images, groups of outputs, rows of tiles.  A number that is not known yet
// comes first: nothing is divided by it.
static void open_items(Winograd *w) {
  IntPool *p = w->e->pool;
  Dim blocks = ie_ceildiv(p, w->lines, num(w, w->s.item_rows));
  Dim size[3] = {w->images, num(w, w->s.item_groups), blocks}, wide[3], part[3];
  Dim *to[3] = {&w->image, &w->group, &w->block};
  int n = 0, at = 0;
  Dim items = p->one;
  for (int i = 0; i < 3; i++) {
    items = ie_mul(p, items, size[i]);
    if (!ie_is(size[i], 1)) wide[n++] = size[i];
  }
  Dim item = loop_for(&w->e->b, LOOP_PARALLEL, "item", items);
  elem_split(w->e, item, n, wide, part);
  for (int i = 0; i < 3; i++) *to[i] = ie_is(size[i], 1) ? p->zero : part[at++];
}

bool winograd_emit(Winograd *w) {
  LoopKernel *k = w->e->k;
  const WinogradSchedule *s = &w->s;
  int64_t n = points(w), runs = (w->inputs + w->s.lanes - 1) / w->s.lanes, line = 64 / 4;
  int64_t block_tiles = s->block_rows * s->block_cols;
  // Points that lie a multiple of 4096 bytes apart would push each other out of the nearest cache.
  w->v_point = runs * w->s.lanes * block_tiles + line;
  w->p_point = block_tiles * s->cols + line;
  w->v = loop_buffer(k, LOOP_SCRATCH, "v", DT_F32, num(w, n * n * w->v_point), false);
  w->products = loop_buffer(k, LOOP_SCRATCH, "products", DT_F32, num(w, n * n * w->p_point), false);
  w->acc = loop_buffer(k, LOOP_REGISTER, "acc", DT_F32, num(w, s->tiles * s->cols), false);
  w->pixels = loop_buffer(k, s->spill ? LOOP_SCRATCH : LOOP_REGISTER, "pixels", DT_F32,
                          num(w, s->tile * s->tile * s->cols), false);
  loop_begin(&w->e->b, k);
  open_items(w);
  if (!rows_of_item(w)) return false;
  loop_end(&w->e->b);
  return true;
}
