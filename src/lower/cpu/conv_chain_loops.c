// conv_chain_loops.c -- the loops of template conv_chain (conv_chain.h).
//
// For a chunk of wide channels, the item computes the lines of the wide image into scratch and runs
// the depthwise convolution on them.  After all chunks it runs the projection.  Tiles at the ends
// of a line are unrolled, so taps in the padding are dropped one by one.  Lines above and below the
// image are dropped by loop extents.
//
// Needs:      conv_chain.c has mapped the links, chosen the schedule and packed the weights.
// Guarantees: false where an operand has no expression.  Sums start with the bias; taps and
//             channels follow in the order of the weights.  No load is in the padding.
#include "lower/cpu/conv_chain.h"

static Dim num(ConvChain *c, int64_t v) { return ie_const(c->e.pool, v); }
static Dim add(ConvChain *c, Dim a, Dim b) { return ie_add(c->e.pool, a, b); }
static Dim at2(ConvChain *c, Dim row, int64_t width, Dim col) {
  return add(c, ie_mulc(c->e.pool, row, width), col);
}

// A loop that is not written where it runs once.
static Dim open_loop(ConvChain *c, LoopKind kind, const char *name, Dim extent, int *depth) {
  if (ie_is(extent, 1)) return c->e.pool->zero;
  ++*depth;
  return loop_for(&c->e.b, kind, name, extent);
}
static void close_loops(ConvChain *c, int depth) {
  while (depth-- > 0) loop_end(&c->e.b);
  elem_forget(&c->e);
}

// ---- tiles along a line ----

typedef struct Tile {
  Dim x;          // first pixel: of a line, or of all lines counted through
  int64_t rows;   // pixels
  int64_t first;  // the same as a number, where taps may leave the line; -1: all are inside
} Tile;
typedef bool TileFn(ConvChain *c, const Tile *t);

// Taps of a pixel that lie inside the line: [from, to).
static void taps_of(const ContractAxis *s, int64_t x, int64_t *from, int64_t *to) {
  *from = s->kernel;
  *to = 0;
  for (int64_t k = 0; k < s->kernel; k++) {
    int64_t at = x * s->stride - s->lo + k * s->dilation;
    if (at < 0 || at >= s->in->value) continue;
    *from = MIN(*from, k);
    *to = k + 1;
  }
}

static bool all_inside(const ContractAxis *s, int64_t first, int64_t rows) {
  int64_t from, to;
  for (int64_t i = 0; s && i < rows; i++) {
    taps_of(s, first + i, &from, &to);
    if (from != 0 || to != s->kernel) return false;
  }
  return true;
}

// Tiles of two widths that differ by one; those that no tap leaves are a loop.
static bool along_line(ConvChain *c, int64_t width, int64_t most, const ContractAxis *taps,
                       TileFn *fn) {
  if (width < 1) return true;  // the window sees nothing but padding
  int64_t tiles = (width + most - 1) / most, high = (width + tiles - 1) / tiles;
  int64_t nhigh = width - tiles * (high - 1);
  for (int64_t i = 0; i < tiles;) {
    int64_t run = 0, rows = i < nhigh ? high : high - 1, end = i < nhigh ? nhigh : tiles;
    int64_t first = i < nhigh ? i * high : nhigh * high + (i - nhigh) * (high - 1);
    while (i + run < end && all_inside(taps, first + run * rows, rows)) run++;
    int depth = 0;
    Dim b = open_loop(c, LOOP_SERIAL, "tile", num(c, MAX(run, 1)), &depth);
    Tile t = {.rows = rows, .first = run ? -1 : first};
    t.x = ie_addc(c->e.pool, ie_mulc(c->e.pool, b, rows), first);
    if (!fn(c, &t)) return false;
    close_loops(c, depth);
    i += MAX(run, 1);
  }
  return true;
}

// ---- sums ----

// Channels of a tile: from `first` on, of those below `limit`, counted from `base`.
typedef struct Channels {
  Dim base, first;
  int64_t limit, cols;
} Channels;

static Dim channel_at(ConvChain *c, const Channels *h, Dim j) {
  Dim at = elem_guard(&c->e, add(c, h->first, j), num(c, h->limit));
  return at ? add(c, h->base, at) : NULL;
}

// The chunk at hand, counted through all groups.
static Dim whole_chunk(ConvChain *c) { return at2(c, c->group, c->chunks, c->chunk); }

// The sums of a tile begin with the bias of their channels.
static bool begin_sums(ConvChain *c, const ConvChainLink *l, int64_t rows, const Channels *h) {
  int64_t cols = h->cols;
  ElementBuilder *e = &c->e;
  const Node *bias = src_or_null(e->lo->g, l->anchor, 2);
  const LoopExpr *x = loop_float(e->k, DT_F32, 0);
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(c, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(c, cols));
  elem_forget(e);
  if (bias) {
    Dim at = channel_at(c, h, j);
    x = at ? elem_at(e, bias, &at) : NULL;
    elem_unguard(e, 0);
  }
  if (!x) return false;
  loop_store(&e->b, l->acc, at2(c, r, cols, j), x);
  close_loops(c, 2);
  return true;
}

// lhs at a pixel of the tile and a place along the contracted axis.
typedef const LoopExpr *LhsFn(ConvChain *c, Dim x, Dim k);

static bool product_steps(ConvChain *c, const ConvChainLink *l, const Tile *t, int64_t cols,
                          LhsFn *lhs, int64_t from, int64_t count, int64_t unroll) {
  ElementBuilder *e = &c->e;
  int depth = 0;
  Dim k = ie_mulc(e->pool, open_loop(c, LOOP_SERIAL, "k", num(c, count / unroll), &depth), unroll);
  k = ie_addc(e->pool, add(c, k, open_loop(c, LOOP_UNROLL, "u", num(c, unroll), &depth)), from);
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(c, t->rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(c, cols));
  elem_forget(e);
  const LoopExpr *a = lhs(c, add(c, t->x, r), k);
  if (!a) return false;
  Dim weight = add(c, ie_mulc(e->pool, at2(c, c->panel, l->c.depth, k), cols), j);
  Dim cell = at2(c, r, cols, j);
  const LoopExpr *sum = loop_load(e->k, l->acc, cell);
  sum = loop_op(e->k, LOOP_fma, a, loop_load(e->k, l->packed, weight), sum);
  loop_store(&e->b, l->acc, cell, sum);
  close_loops(c, depth + 2);
  return true;
}

// Weights lie in panels of the tile's channels.
static bool product(ConvChain *c, const ConvChainLink *l, const Tile *t, const Channels *h,
                    Dim panel, LhsFn *lhs) {
  int64_t depth = l->c.depth, unroll = depth < 4 ? depth : 4, rest = depth % unroll;
  c->panel = panel;
  return begin_sums(c, l, t->rows, h) &&
         product_steps(c, l, t, h->cols, lhs, 0, depth - rest, unroll) &&
         (!rest || product_steps(c, l, t, h->cols, lhs, depth - rest, rest, rest));
}

// ---- what is done with sums ----

static const LoopExpr *give(ConvChain *c, const ConvChainLink *l, const Dim *index) {
  if (l != c->given) return NULL;
  for (int i = 0; i < 4; i++)
    if (index[i] != c->index[i] && !ie_is(l->c.out[i], 1)) return NULL;
  return c->sum;
}
static const LoopExpr *give_expand(void *ctx, const Dim *index) {
  return give(ctx, &((ConvChain *)ctx)->expand, index);
}
static const LoopExpr *give_depth(void *ctx, const Dim *index) {
  return give(ctx, &((ConvChain *)ctx)->depth, index);
}
static const LoopExpr *give_project(void *ctx, const Dim *index) {
  return give(ctx, &((ConvChain *)ctx)->project, index);
}

// The value of a link at an index where its sum is given: stored in `to`, or where the results lie.
static bool put(ConvChain *c, const ConvChainLink *l, const Channels *h, Dim j, Dim *index,
                const LoopExpr *sum, int32_t to, Dim at) {
  ElementBuilder *e = &c->e;
  elem_forget(e);
  if (!(index[3] = channel_at(c, h, j))) return false;
  c->given = l;
  c->index = index;
  c->sum = loop_let(&e->b, sum);
  bool ok = true;
  if (to < 0) {
    ok = epilogue_store(&c->walk, index);
  } else {
    const LoopExpr *x = elem_at(e, l->value, index);
    ok = x != NULL;
    elem_unguard(e, 0);
    if (ok) loop_store(&e->b, to, at, x);
  }
  c->given = NULL;
  elem_unguard(e, 0);
  elem_forget(e);
  return ok;
}

// Where an element of a tile goes: its index in the link's result, and its place in scratch.
typedef struct Target {
  const ConvChainLink *link;
  Channels channels;
  int32_t to;  // scratch; -1: the results
  Dim line;
  int64_t width;  // of a line, where pixels are counted through; 0: they are not
  Dim place;      // of the tile's first pixel and channel in `to`
  int64_t pitch;  // between pixels there
} Target;

// Pixel x, counted through from line `line` on where lines have a width.
static void pixel_at(ConvChain *c, Dim line, Dim x, int64_t width, Dim *index) {
  IntPool *p = c->e.pool;
  index[0] = c->image;
  index[1] = width ? add(c, line, ie_div(p, x, num(c, width))) : line;
  index[2] = width ? ie_mod(p, x, num(c, width)) : x;
}

static bool finish(ConvChain *c, const Tile *t, const Target *g) {
  ElementBuilder *e = &c->e;
  int32_t from = g->link->acc;
  Dim r, j;
  if (g->link->expensive) {  // through scratch, so that the functions are written once and not for
                             // each pixel
    from = g->to >= 0 ? g->to : c->sums;
    r = loop_for(&e->b, LOOP_UNROLL, "r", num(c, t->rows));
    j = loop_for(&e->b, LOOP_VECTOR, "j", num(c, g->channels.cols));
    Dim to = g->to >= 0 ? add(c, g->place, at2(c, r, g->pitch, j)) : at2(c, r, g->channels.cols, j);
    loop_store(&e->b, from, to, loop_load(e->k, g->link->acc, at2(c, r, g->channels.cols, j)));
    close_loops(c, 2);
  }
  r = loop_for(&e->b, g->link->expensive ? LOOP_SERIAL : LOOP_UNROLL, "r", num(c, t->rows));
  j = loop_for(&e->b, LOOP_VECTOR, "j", num(c, g->channels.cols));
  Dim index[4];
  pixel_at(c, g->line, add(c, t->x, r), g->width, index);
  Dim at = g->to >= 0 ? add(c, g->place, at2(c, r, g->pitch, j)) : NULL;
  Dim cell = g->link->expensive && g->to >= 0 ? at : at2(c, r, g->channels.cols, j);
  if (!put(c, g->link, &g->channels, j, index, loop_load(e->k, from, cell), g->to, at))
    return false;
  close_loops(c, 2);
  return true;
}

// ---- expand ----

// The line of the wide image that line `i` of scratch is.
static Dim wide_line(ConvChain *c, Dim i) {
  const ContractAxis *s = &c->depth.c.space[0];
  return ie_addc(c->e.pool, add(c, ie_mulc(c->e.pool, c->top, s->stride), i), -s->lo);
}

// All lines of the wide image are needed: its pixels are counted through, so that they are split
// evenly.
static bool whole_image(const ConvChain *c) { return c->s.item_lines == c->out_height; }

static const LoopExpr *input_at(ConvChain *c, Dim x, Dim k) {
  Dim index[4];
  pixel_at(c, wide_line(c, c->line), x, whole_image(c) ? c->width : 0, index);
  index[3] = k;
  return elem_at(&c->e, c->expand.anchor->src[0], index);
}

static bool expand_tile(ConvChain *c, const Tile *t) {
  IntPool *p = c->e.pool;
  Dim chunk = whole_chunk(c);
  Target g = {.link = &c->expand,
              .channels = {p->zero, ie_mulc(p, chunk, c->s.channels), c->wide, c->s.channels},
              .to = c->widened,
              .line = wide_line(c, c->line),
              .width = whole_image(c) ? c->width : 0,
              .place = ie_mulc(p, at2(c, c->line, c->width, t->x), c->s.channels),
              .pitch = c->s.channels};
  return product(c, &c->expand, t, &g.channels, chunk, input_at) && finish(c, t, &g);
}

// The lines of the wide image that the item's lines need and that are inside.
static bool expand_lines(ConvChain *c) {
  IntPool *p = c->e.pool;
  const ContractAxis *s = &c->depth.c.space[0];
  int depth = 0;
  if (whole_image(c)) {
    c->line = num(c, s->lo);
    return along_line(c, c->lines_inside * c->width, c->s.expand_pixels, NULL, expand_tile);
  }
  Dim first = ie_addc(p, ie_mulc(p, c->top, s->stride), -s->lo), skip = p->zero;
  if (s->lo > 0) skip = ie_max(p, p->zero, ie_sub(p, p->zero, first));
  Dim need = num(c, c->lines);
  if (!ie_is_const(c->count))
    need = ie_addc(p, ie_mulc(p, c->count, s->stride), c->lines - c->s.item_lines * s->stride);
  Dim end = ie_min(p, need, ie_sub(p, num(c, c->height), first));
  c->line = add(c, skip, open_loop(c, LOOP_SERIAL, "line", ie_sub(p, end, skip), &depth));
  bool ok = along_line(c, c->width, c->s.expand_pixels, NULL, expand_tile);
  close_loops(c, depth);
  return ok;
}

// ---- depthwise ----

// The wide image at a tap (of the lines, of the pixels) of a pixel.
static const LoopExpr *wide_at(ConvChain *c, Dim x, Dim ky, int64_t kx, Dim j) {
  IntPool *p = c->e.pool;
  const ContractAxis *v = &c->depth.c.space[0], *h = &c->depth.c.space[1];
  Dim line = add(c, ie_mulc(p, c->line, v->stride), ie_mulc(p, ky, v->dilation));
  Dim pixel = ie_addc(p, ie_mulc(p, x, h->stride), kx * h->dilation - h->lo);
  Dim channel = at2(c, c->vector, MIN(c->s.lanes, c->s.channels), j);
  if (c->widened >= 0) {
    Dim at = ie_mulc(p, at2(c, line, c->width, pixel), c->s.channels);
    return loop_load(c->e.k, c->widened, add(c, at, channel));
  }
  channel = at2(c, whole_chunk(c), c->s.channels, channel);
  Dim index[4] = {c->image, wide_line(c, line), pixel, elem_guard(&c->e, channel, num(c, c->wide))};
  const LoopExpr *x4 = elem_at(&c->e, c->depth.anchor->src[0], index);
  elem_unguard(&c->e, 0);
  return x4;
}

// Taps [from, to) of pixels r, r + 1, ... of the tile.
static bool depth_taps(ConvChain *c, const Tile *t, Dim ky, int64_t r0, int64_t rows, int64_t from,
                       int64_t to) {
  ElementBuilder *e = &c->e;
  const ConvChainLink *l = &c->depth;
  int64_t cols = MIN(c->s.lanes, c->s.channels);
  int depth = 0;
  if (to <= from) return true;
  Dim r = ie_addc(e->pool, open_loop(c, LOOP_UNROLL, "r", num(c, rows), &depth), r0);
  for (int64_t kx = from; kx < to; kx++) {
    Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(c, cols));
    elem_forget(e);
    const LoopExpr *a = wide_at(c, add(c, t->x, r), ky, kx, j);
    if (!a) return false;
    Dim tap = at2(c, whole_chunk(c), l->c.space[0].kernel, ky);
    tap = ie_addc(e->pool, ie_mulc(e->pool, tap, l->c.space[1].kernel), kx);
    Dim weight = add(c, ie_mulc(e->pool, tap, c->s.channels), at2(c, c->vector, cols, j));
    Dim cell = at2(c, r, cols, j);
    const LoopExpr *sum = loop_load(e->k, l->acc, cell);
    sum = loop_op(e->k, LOOP_fma, a, loop_load(e->k, l->packed, weight), sum);
    loop_store(&e->b, l->acc, cell, sum);
    close_loops(c, 1);
  }
  close_loops(c, depth);
  return true;
}

static bool depth_sums(ConvChain *c, const Tile *t) {
  IntPool *p = c->e.pool;
  const ContractAxis *v = &c->depth.c.space[0], *h = &c->depth.c.space[1];
  int depth = 0;
  Dim skip = p->zero, n = num(c, v->kernel), by = num(c, v->dilation);
  if (v->padded) {
    Dim at = wide_line(c, ie_mulc(p, c->line, v->stride));
    if (v->lo > 0) skip = ie_max(p, p->zero, ie_ceildiv(p, ie_sub(p, p->zero, at), by));
    n = ie_sub(p, ie_min(p, n, ie_ceildiv(p, ie_sub(p, v->in, at), by)), skip);
  }
  bool ok = true;
  Dim ky = add(c, skip, open_loop(c, LOOP_SERIAL, "tap", n, &depth));
  if (t->first < 0) ok = depth_taps(c, t, ky, 0, t->rows, 0, h->kernel);
  for (int64_t r = 0; t->first >= 0 && ok && r < t->rows; r++) {
    int64_t from, to;
    taps_of(h, t->first + r, &from, &to);
    ok = depth_taps(c, t, ky, r, 1, from, to);
  }
  close_loops(c, depth);
  return ok;
}

static bool depth_tile(ConvChain *c, const Tile *t) {
  IntPool *p = c->e.pool;
  int64_t cols = MIN(c->s.lanes, c->s.channels);
  Dim vector = ie_mulc(p, c->vector, cols);
  Dim pixel = at2(c, c->line, c->out_width, t->x);
  Target g = {.link = &c->depth,
              .channels = {p->zero, at2(c, whole_chunk(c), c->s.channels, vector), c->wide, cols},
              .to = c->deep,
              .line = add(c, c->top, c->line),
              .place = at2(c, pixel, c->pitch, at2(c, c->chunk, c->s.channels, vector)),
              .pitch = c->pitch};
  return begin_sums(c, &c->depth, t->rows, &g.channels) && depth_sums(c, t) && finish(c, t, &g);
}

static bool depth_lines(ConvChain *c) {
  int64_t vectors = c->s.channels / MIN(c->s.lanes, c->s.channels);
  int depth = 0;
  c->line = open_loop(c, LOOP_SERIAL, "line", c->count, &depth);
  c->vector = open_loop(c, LOOP_SERIAL, "vector", num(c, vectors), &depth);
  bool ok = along_line(c, c->out_width, c->s.depth_pixels, &c->depth.c.space[1], depth_tile);
  close_loops(c, depth);
  return ok;
}

// ---- project ----

static const LoopExpr *deep_at(ConvChain *c, Dim x, Dim k) {
  return loop_load(c->e.k, c->deep, at2(c, at2(c, c->line, c->out_width, x), c->pitch, k));
}

static bool project_tile(ConvChain *c, const Tile *t) {
  IntPool *p = c->e.pool;
  Dim first = ie_mulc(p, c->vector, c->s.cols);
  Target g = {.link = &c->project,
              .channels = {ie_mulc(p, c->group, c->out), first, c->out, c->s.cols},
              .to = -1,
              .line = add(c, c->top, c->line),
              .width = ie_is_const(c->count) ? c->out_width : 0};
  Dim panel = at2(c, c->group, (c->out + c->s.cols - 1) / c->s.cols, c->vector);
  return product(c, &c->project, t, &g.channels, panel, deep_at) && finish(c, t, &g);
}

// The item's pixels, counted through where their number is known.
static bool project_lines(ConvChain *c) {
  int depth = 0;
  bool known = ie_is_const(c->count);
  int64_t panels = (c->out + c->s.cols - 1) / c->s.cols;
  c->vector = open_loop(c, LOOP_SERIAL, "panel", num(c, panels), &depth);
  c->line = known ? c->e.pool->zero : open_loop(c, LOOP_SERIAL, "line", c->count, &depth);
  bool ok = along_line(c, known ? c->s.item_lines * c->out_width : c->out_width, c->s.pixels, NULL,
                       project_tile);
  close_loops(c, depth);
  return ok;
}

// ---- items ----

static int32_t scratch(ConvChain *c, const char *name, int64_t n) {
  return loop_buffer(c->e.k, LOOP_SCRATCH, name, DT_F32, num(c, n), false);
}

static int32_t registers(ConvChain *c, const char *name, int64_t n) {
  return loop_buffer(c->e.k, LOOP_REGISTER, name, DT_F32, num(c, n), false);
}

static void make_buffers(ConvChain *c) {
  const ConvChainSchedule *s = &c->s;
  const ConvChainLink *last = conv_chain_last(c);
  int64_t cols = MIN(c->s.lanes, s->channels);
  c->widened = c->deep = c->sums = -1;
  c->depth.acc = registers(c, "depth", s->depth_pixels * cols);
  if (c->expand.anchor) {
    c->expand.acc = registers(c, "expand", s->expand_pixels * s->channels);
    c->widened = scratch(c, "widened", c->lines * c->width * s->channels);
  }
  if (c->project.anchor) {
    c->project.acc = registers(c, "project", s->pixels * s->cols);
    c->deep = scratch(c, "deep", s->item_lines * c->out_width * c->pitch);
  }
  if (last->expensive)
    c->sums = scratch(c, "sums", c->project.anchor ? s->pixels * s->cols : s->depth_pixels * cols);
}

static void open_items(ConvChain *c) {
  IntPool *p = c->e.pool;
  int64_t bands = (c->out_height + c->s.item_lines - 1) / c->s.item_lines;
  // Without a projection channels have nothing to do with one another.
  Dim parts = num(c, c->project.anchor ? c->groups : c->chunks);
  Dim at[3], shape[3] = {c->depth.c.out[0], num(c, bands), parts};
  Dim items = ie_mul(p, ie_mul(p, shape[0], shape[1]), shape[2]);
  Dim item = loop_for(&c->e.b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) item = p->zero;
  elem_split(&c->e, item, 3, shape, at);
  c->image = at[0];
  c->top = ie_mulc(p, at[1], c->s.item_lines);
  c->group = c->project.anchor ? at[2] : p->zero;
  c->chunk = at[2];
  c->count = num(c, c->s.item_lines);
  if (c->out_height % c->s.item_lines)
    c->count = ie_min(p, c->count, ie_sub(p, num(c, c->out_height), c->top));
}

bool conv_chain_emit(ConvChain *c) {
  ElementBuilder *e = &c->e;
  int depth = 0;
  make_buffers(c);
  if (c->expand.anchor) elem_give(e, c->expand.anchor, give_expand, c);
  elem_give(e, c->depth.anchor, give_depth, c);
  if (c->project.anchor) elem_give(e, c->project.anchor, give_project, c);
  loop_begin(&e->b, e->k);
  open_items(c);
  if (c->project.anchor) c->chunk = open_loop(c, LOOP_SERIAL, "chunk", num(c, c->chunks), &depth);
  if (c->expand.anchor && !expand_lines(c)) return false;
  if (!depth_lines(c)) return false;
  close_loops(c, depth);
  if (c->project.anchor && !project_lines(c)) return false;
  loop_end(&e->b);
  return true;
}
