// image.c -- template gemm over images: which taps reach a pixel, and the loops over both.
//
// Loop extents drop lines above and below the image.  In a transposed convolution, pixels one
// stride apart share their taps: each such set (a phase) is a line of its own, and a condition
// drops lines that a tap does not reach.
//
// Tiles whose taps are all inside the line are a loop.  The two ends of a line have two forms:
//   written out  the position of a tile is constant, so taps in the padding are dropped one by one
//                and no load is guarded.  Code grows with kernel size and padding.
//   looped       tiles and taps are loops, and loads are guarded.  Code does not grow.
//
// Needs:      Contraction.image: a constant line width; the Tiler of contract_emit.
// Guarantees: the form depends on shapes and schedule alone.  Both give the same sums for finite
//             weights, since a tap outside adds 0.
#include "lower/contract/contract.h"

// What may be written out: rows of tiles times taps times unrolled steps.  Kernels of up to 11 taps
// with common padding stay below.  A step of a depthwise kernel loads vectors of both operands, and
// guards those of the last columns; without FMA instructions a step is a call.  A step is about 64
// bytes of code with AVX-512: 64 KiB of code with what is around.
enum { WRITTEN_MOST = 960, DEPTHWISE_STEP = 3, EMULATED_STEP = 2 };

static Dim num(Tiler *t, int64_t v) { return ie_const(t->e->pool, v); }
static Dim add(Tiler *t, Dim a, Dim b) { return ie_add(t->e->pool, a, b); }
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// ---- what the taps of a line read ----

// Tap first + by * j, for j < count, of pixel i reads element i * stride + offset + j * step of the
// line.
typedef struct Line {
  int64_t first, by, count;
  int64_t stride, offset, step;
} Line;

static Line line_of(const Contraction *c, int64_t phase) {
  const ContractAxis *s = &c->space[c->nd - 1];
  if (!c->phases) return (Line){0, 1, s->kernel, s->stride, -s->lo, s->dilation};
  Line l = {.by = s->stride / gcd_i64(s->stride, s->dilation), .stride = 1};
  int64_t from = phase + s->lo;
  while (l.first < l.by && (from - l.first * s->dilation) % s->stride != 0) l.first++;
  if (l.first == l.by || l.first >= s->kernel) return l;
  l.count = (s->kernel - 1 - l.first) / l.by + 1;
  l.offset = (from - l.first * s->dilation) / s->stride;
  l.step = -(l.by * s->dilation / s->stride);
  return l;
}

// The pixels [*from, *to) whose taps all lie inside.
static void pixels_inside(const Contraction *c, const Line *l, int64_t *from, int64_t *to) {
  int64_t in = c->space[c->nd - 1].in->value, end = l->offset + (l->count - 1) * l->step;
  *from = l->count ? MAX(ceil_div(-MIN(l->offset, end), l->stride), 0) : 0;
  *to = l->count ? floor_div(in - 1 - MAX(l->offset, end), l->stride) + 1 : INT64_MAX;
}

// Pixels of a line in tiles of two heights that differ by one: the higher ones first.
typedef struct Tiles {
  int64_t high, count[2];
} Tiles;

static Tiles split_line(int64_t m, int64_t rows) {
  int64_t n = (m + rows - 1) / rows, high = (m + n - 1) / n;
  return (Tiles){high, {m - n * (high - 1), n - (m - n * (high - 1))}};
}

// Of n tiles from a pixel on: those before *begin and from *end on may reach beyond the line.
static void tiles_inside(const Contraction *c, const Line *l, int64_t first, int64_t rows,
                         int64_t n, int64_t *begin, int64_t *end) {
  int64_t from, to;
  pixels_inside(c, l, &from, &to);
  *begin = MIN(MAX(ceil_div(from - first, rows), 0), n);
  *end = MAX(*begin, MIN(floor_div(to - first, rows), n));
}

static int64_t phase_pixels(const Contraction *c, int64_t phase) {
  int64_t rest = c->out[c->row0]->value - phase;
  return !c->phases ? c->m->value : rest > 0 ? (rest + c->phases - 1) / c->phases : 0;
}

bool contract_image_looped(const Contraction *c, const GemmSchedule *s) {
  double written = 0;
  if (!c->image || s->stage_image || (c->depthwise && c->word)) return false;
  for (int64_t phase = 0; phase < MAX(c->phases, 1); phase++) {
    int64_t m = phase_pixels(c, phase), first = 0, begin, end;
    Line l = line_of(c, phase);
    Tiles t = split_line(MAX(m, 1), s->rows);
    for (int i = 0; i < 2; first += t.count[i] * (t.high - i), i++) {
      if (!t.count[i]) continue;
      tiles_inside(c, &l, first, t.high - i, t.count[i], &begin, &end);
      // Between the ends taps are a loop already where each has an inner one and no phase.
      bool taps = (c->depthwise || c->phases) && end > begin;
      double tiles = (double)(begin + t.count[i] - end + taps);
      written += tiles * (double)(t.high - i) * (double)l.count;
    }
  }
  written *= (double)(c->depthwise ? DEPTHWISE_STEP : s->unroll);
  return written * (c->e->lo->target.fma ? 1 : EMULATED_STEP) > WRITTEN_MOST;
}

// Whether the pixels at hand of a transposed image have tap k along the line; pixel 0 reads element
// *at.
static bool tap_of_phase(const Tiler *t, int64_t k, int64_t *at) {
  const ContractAxis *s = &t->c->space[t->c->nd - 1];
  int64_t from = t->phase + s->lo - k * s->dilation;
  *at = from / s->stride;
  return from % s->stride == 0;
}

Rows contract_rows_of_tap(const Tiler *t, int64_t first, int64_t rows, int64_t k) {
  const Contraction *c = t->c;
  const ContractAxis *s = &c->space[c->nd - 1];
  Rows r = {.from = rows, .to = 0};
  int64_t start = k * s->dilation - s->lo, by = c->phases ? 1 : s->stride;
  if (c->phases && !tap_of_phase(t, k, &start)) return r;
  for (int64_t i = 0; i < rows; i++) {
    int64_t at = (first + i) * by + start;
    if (at < 0 || at >= s->in->value) continue;
    r.from = MIN(r.from, i);
    r.to = i + 1;
  }
  return r;
}

Dim contract_taps_inside(Tiler *t, int d, Dim *skip) {
  const ContractAxis *s = &t->c->space[d];
  IntPool *p = t->e->pool;
  *skip = p->zero;
  if (!s->padded || t->lines >= 0) return num(t, s->kernel);
  Dim at = ie_addc(p, ie_mulc(p, t->at.out[t->c->first_space + d], s->stride), -s->lo);
  Dim by = num(t, s->dilation);
  if (s->lo > 0) *skip = ie_max(p, p->zero, ie_ceildiv(p, ie_sub(p, p->zero, at), by));
  Dim end = ie_min(p, num(t, s->kernel), ie_ceildiv(p, ie_sub(p, s->in, at), by));
  return ie_sub(p, end, *skip);
}

// A loop over the taps of a transposed convolution along an axis, of which those are done that
// reach a line of the image.
static Dim open_reaching(Tiler *t, int d, int *depth) {
  const ContractAxis *s = &t->c->space[d];
  ElementBuilder *e = t->e;
  IntPool *p = e->pool;
  Dim k = contract_open(t, LOOP_SERIAL, "tap", num(t, s->kernel), depth);
  Dim from = ie_sub(p, t->at.out[t->c->first_space + d], ie_mulc(p, k, s->dilation));
  from = ie_addc(p, from, s->lo);
  Dim in = ie_div(p, from, num(t, s->stride)), part = ie_mod(p, from, num(t, s->stride));
  loop_if(&e->b, loop_op(e->k, LOOP_and, elem_in_range(e, part, p->one),
                         elem_in_range(e, in, s->in), NULL));
  ++*depth;
  t->c->bound[d] =
      loop_bind(&e->b, "in", loop_index(e->k, in), s->in, "a tap lies outside the image");
  return k;
}

// ---- sums ----

// A loop over the taps of a line; at a border over those that reach at least one of the tile's
// pixels.
static Dim open_taps(Tiler *t, const Line *l, int64_t rows, int *depth) {
  IntPool *p = t->e->pool;
  Dim skip = p->zero, end = num(t, l->count), n = end, in = t->c->space[t->c->nd - 1].in;
  if (t->taps) {
    skip = t->taps;
    n = end = ie_min(p, end, ie_addc(p, skip, t->s.tap_block));
    n = ie_sub(p, n, skip);
  }
  if (t->border) {
    Dim low = ie_addc(p, ie_mulc(p, t->row, l->stride), l->offset);
    Dim high = ie_addc(p, low, (rows - 1) * l->stride);
    bool up = l->step > 0;  // else later taps read earlier elements
    Dim by = num(t, up ? l->step : -l->step);
    Dim before = up ? ie_sub(p, p->zero, high) : ie_addc(p, ie_sub(p, low, in), 1);
    Dim beyond = up ? ie_sub(p, in, low) : ie_addc(p, high, 1);
    skip = ie_max(p, skip, ie_ceildiv(p, before, by));
    n = ie_sub(p, ie_min(p, end, ie_ceildiv(p, beyond, by)), skip);
    if (t->taps) n = ie_max(p, p->zero, n);  // the block may have none
  }
  Dim j = add(t, skip, contract_open(t, LOOP_SERIAL, "tap", n, depth));
  if (t->taps || (t->border && l->by > 1))  // beyond proof as a part of another sum
    j = loop_bind(&t->e->b, "tap", loop_index(t->e->k, j), num(t, l->count), "no such tap");
  return ie_addc(p, ie_mulc(p, j, l->by), l->first);
}

static bool sums_of_tap(Tiler *t, Rows rows, Dim *k) {
  return t->c->depthwise ? contract_step(t, rows, k) : contract_inner(t, rows, k, t->c->nk - 1);
}

// Taps one by one, each with the rows that it reaches.
static bool written_taps(Tiler *t, int64_t rows, int64_t first, Dim *k) {
  const Contraction *c = t->c;
  int last = c->nd - 1;
  Line l = line_of(c, t->phase);
  for (int64_t j = 0; j < l.count; j++) {
    int64_t tap = l.first + j * l.by;
    Rows r = first >= 0 ? contract_rows_of_tap(t, first, rows, tap) : (Rows){.to = rows};
    k[last] = num(t, tap);
    if (r.to > r.from && !sums_of_tap(t, r, k)) return false;
  }
  return true;
}

bool contract_image_sums(Tiler *t, int64_t rows, int64_t first) {
  Contraction *c = t->c;
  Dim k[CONTRACT_K], skip;
  int depth = 0, last = c->nd - 1;
  bool ok = true;
  Line l = line_of(c, t->phase);
  if (c->depthwise && c->word) return contract_depth_sums(t, rows, first);
  for (int d = 0; d < last && !c->phases; d++) {
    Dim n = contract_taps_inside(t, d, &skip);
    k[d] = add(t, skip, contract_open(t, LOOP_SERIAL, "tap", n, &depth));
  }
  for (int d = 0; d < last && c->phases; d++) k[d] = open_reaching(t, d, &depth);
  // Where all rows have all taps: a loop, so that no load is kept for another tap.
  if (t->looped || (first < 0 && !c->depthwise && !c->phases)) {
    if (l.count) k[last] = open_taps(t, &l, rows, &depth);
    ok = !l.count || sums_of_tap(t, (Rows){.to = rows}, k);
  } else {
    ok = written_taps(t, rows, first, k);
  }
  for (int d = 0; d < last && c->phases; d++) c->bound[d] = NULL;
  contract_close(t, depth);
  return ok;
}

// ---- tiles ----

// So many tiles from a pixel on; `border`: they may reach beyond the line.
static bool run_of_tiles(Tiler *t, int64_t first, int64_t rows, int64_t n, bool border) {
  IntPool *p = t->e->pool;
  int depth = 0;
  bool ok = true;
  if (border && !t->looped) {
    for (int64_t i = 0; i < n && ok; i++) {
      t->row = num(t, first + i * rows);
      ok = contract_tile(t, rows, first + i * rows);
    }
  } else if (n) {
    Dim b = contract_open(t, LOOP_SERIAL, "tile", num(t, n), &depth);
    t->row = ie_addc(p, ie_mulc(p, b, rows), first);
    t->border = border;
    ok = contract_tile(t, rows, -1);
    t->border = false;
    contract_close(t, depth);
  }
  return ok;
}

static bool image_line(Tiler *t, int64_t m) {
  Line l = line_of(t->c, t->phase);
  Tiles s = split_line(m, t->s.rows);
  bool ok = true;
  for (int64_t i = 0, first = 0; i < 2 && ok; first += s.count[i] * (s.high - i), i++) {
    int64_t rows = s.high - i, n = s.count[i], begin = 0, end = n;
    if (!n) continue;
    if (t->lines < 0 && !t->finished) tiles_inside(t->c, &l, first, rows, n, &begin, &end);
    ok = run_of_tiles(t, first, rows, begin, true) &&
         run_of_tiles(t, first + begin * rows, rows, end - begin, false) &&
         run_of_tiles(t, first + end * rows, rows, n - end, true);
  }
  return ok;
}

// All tiles take a block of taps, whose weights stay in the cache, before the next block.
static bool blocks_of_taps(Tiler *t) {
  ElementBuilder *e = t->e;
  int64_t m = t->c->m->value, kernel = t->c->space[0].kernel, step = t->s.tap_block;
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", num(t, m));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, t->s.cols));
  Dim cell = add(t, ie_mulc(e->pool, r, t->s.cols), j);
  loop_store(&e->b, t->so_far, cell, loop_float(e->k, t->c->acc, 0));
  contract_close(t, 2);
  int depth = 0;
  Dim b = contract_open(t, LOOP_SERIAL, "block", num(t, ceil_div(kernel, step)), &depth);
  t->taps = ie_mulc(e->pool, b, step);
  if (!image_line(t, m)) return false;
  contract_close(t, depth);
  t->taps = NULL;
  t->finished = true;
  bool ok = image_line(t, m);
  t->finished = false;
  return ok;
}

bool contract_image_rows(Tiler *t, Dim block) {
  Contraction *c = t->c;
  IntPool *p = t->e->pool;
  int depth = 0;
  t->looped = contract_image_looped(c, &t->s);
  if (c->nd > 1) {
    Dim height = c->out[c->row0 - 1], start = ie_mulc(p, block, t->s.item_rows);
    Dim n = ie_is(height, t->s.item_rows)
                ? height
                : ie_min(p, num(t, t->s.item_rows), ie_sub(p, height, start));
    if (t->lines >= 0 && !contract_stage_lines(t, start)) return false;
    t->line = contract_open(t, LOOP_SERIAL, "line", n, &depth);
    t->at.out[c->row0 - 1] = add(t, start, t->line);
  }
  if (t->s.tap_block) return blocks_of_taps(t);
  bool ok = true;
  for (t->phase = 0; t->phase < MAX(c->phases, 1) && ok; t->phase++) {
    int64_t m = phase_pixels(c, t->phase);
    ok = !m || image_line(t, m);
  }
  t->phase = 0;
  contract_close(t, depth);
  return ok;
}
