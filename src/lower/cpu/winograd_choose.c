// winograd_choose.c -- chooses tile, blocks and work items of template winograd, or declines.
//
// A formula estimates the cycles of one core for GEMMs, transforms and the traffic of weights.  Its
// constants were fitted to measurements: within 4 % for F(2x2), within 10 % for F(4x4).  The direct
// convolution is estimated alike, and wins ties.
//
// Needs:      winograd.c has filled channels, images and lines.  Dynamic sizes count as usual ones.
// Guarantees: the choice depends on shapes and LowerTarget alone.  Scratch is at most 64 MiB.  A
//             forced schedule is never declined for speed.
#include "lower/cpu/winograd.h"

#include <math.h>

// ---- the transform of weights ----

// Rows of G: 1, p, p^2 over the products of p less the other points; the last is the point at
// infinity.
static void weight_transform(int64_t m, double (*g)[PACK_TAPS]) {
  const double at[2][5] = {{0, 1, -1}, {0, WINOGRAD_A, -WINOGRAD_A, WINOGRAD_B, -WINOGRAD_B}};
  const double *p = at[m == 4];
  for (int64_t i = 0; i <= m; i++) {
    double norm = 1;
    for (int64_t j = 0; j <= m; j++)
      if (j != i) norm *= p[i] - p[j];
    if (m == 2 && i == 0) norm = 1;  // as `forward4` has the sign
    g[i][0] = 1 / norm;
    g[i][1] = p[i] / norm;
    g[i][2] = p[i] * p[i] / norm;
  }
  g[m + 1][2] = 1;
}

// The loops are: panel, points of both axes, input, output of the panel.
bool winograd_pack(const Winograd *w, PackSpec *out) {
  const Type *t = type_of(w->c->rhs);
  int64_t n = w->s.tile + WINOGRAD_TAPS - 1, stride = 1;
  const int64_t extent[] = {w->panels, n, n, w->inputs, w->s.cols};
  *out = (PackSpec){.nloops = 5, .ncoords = 4, .points = (int)n};
  for (int i = 0; i < 5; i++) out->extent[i] = extent[i];
  for (int i = t->rank - 1; i >= 0; i--) {
    out->stride[i] = stride;
    out->limit[i] = t->dims[i]->value;
    stride *= t->dims[i]->value;
  }
  out->coef[2][3] = 1;
  out->coef[3][0] = w->s.cols;
  out->coef[3][4] = 1;
  weight_transform(w->s.tile, out->transform);
  return true;
}

// ---- time ----

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t known(Dim d, int64_t otherwise) { return ie_is_const(d) ? d->value : otherwise; }

enum {
  PER_CYCLE = 16,    // products
  MEMORY_CYCLE = 8,  // bytes that come from memory
  NEAR = 4,          // times a core's own cache: weights beyond come from memory each time
  NEAR_CYCLE = 20,   // bytes of weights that come again for another block, from a shared cache
  FAR_CYCLE = 5,     // and from memory
  AFAR_CYCLE =
      10,  // bytes that are written beyond the cache that they were to stay in, and read again
  LEAST_INPUTS = 16,        // below that many channels the transforms cost more than they save
  SCRATCH_MOST = 64 << 20,  // bytes
  AHEAD = 8192,             // bytes that weights are fetched ahead
  USUAL = 64,               // pixels of an axis
  ROWS_MOST = 16,           // of tiles in a work item
  IMAGES = 8,               // more are shared out as well as so many
  ITEMS_MANY = 1024         // so many are shared out evenly
};

typedef struct Cost {
  double products, forward, back;  // cycles of all tiles
  double weights;                  // bytes
} Cost;

static Cost cost_of(const Winograd *w, int64_t m) {
  int64_t n = m + WINOGRAD_TAPS - 1, images = w->counted;
  double tile_lines = (double)ceil_div(known(w->c->out[1], USUAL), m);
  double tiles = (double)images * tile_lines * (double)ceil_div(known(w->c->out[2], USUAL), m);
  double ck = (double)w->inputs * (double)(w->panels * w->s.cols), all = (double)(n * n);
  double in = (double)ceil_div(w->inputs, PER_CYCLE), out = (double)ceil_div(w->outputs, PER_CYCLE);
  Cost c = {.weights = 4 * all * ck};
  c.products = fmax(all * tiles * ck / (0.93 * PER_CYCLE), c.weights / MEMORY_CYCLE);
  c.forward = tiles * in * (m == 4 ? 150 : 45);
  c.back = tiles * out * (m == 4 ? 130 : 40);
  return c;
}

// Taps of all pixels along the lines' axis: the direct form leaves out lines that lie outside the
// image.
static double taps_down(const Contraction *c) {
  const ContractAxis *s = &c->space[0];
  double n = 0;
  if (!ie_is_const(s->in) || !ie_is_const(s->out)) return WINOGRAD_TAPS * USUAL;
  for (int64_t y = 0; y < MIN(s->out->value, USUAL); y++)
    for (int64_t k = 0; k < WINOGRAD_TAPS; k++) n += y + k >= s->lo && y + k - s->lo < s->in->value;
  return n + (double)(WINOGRAD_TAPS * MAX(s->out->value - USUAL, 0));
}

static double direct_cost(const Winograd *w) {
  double ck = (double)w->inputs * (double)ceil_div(w->outputs, w->s.lanes) * (double)w->s.lanes;
  double taps =
      (double)w->counted * taps_down(w->c) * WINOGRAD_TAPS * (double)known(w->c->out[2], USUAL);
  return fmax(taps * ck / (0.95 * PER_CYCLE), 36 * ck / MEMORY_CYCLE);
}

// The largest share of `threads` threads that take the work items in order, times their number.
static double share_cost(const Winograd *w, const WinogradSchedule *s, const Cost *c, int threads) {
  int64_t lines = known(w->lines, USUAL / s->tile), blocks = ceil_div(lines, s->item_rows);
  int64_t each = ceil_div(w->panels, s->item_groups), images = MIN(w->counted, IMAGES);
  int64_t items = images * s->item_groups * blocks;
  double most = 0;
  if (items > ITEMS_MANY) return c->forward * (double)s->item_groups + c->products + c->back;
  for (int t = 0; t < threads; t++) {
    int64_t begin = items * t / threads, end = items * (t + 1) / threads;
    double sum = 0;
    for (int64_t i = begin; i < end; i++) {
      int64_t block = i % blocks, group = i / blocks % s->item_groups;
      double rows =
          (double)MIN(s->item_rows, lines - block * s->item_rows) / (double)(lines * images);
      double part = (double)MIN(each, w->panels - group * each) / (double)w->panels;
      sum += rows * (c->forward + part * (c->products + c->back));
    }
    most = fmax(most, sum);
  }
  return most * threads;
}

// With fewer tiles in registers the weights are loaded more often; with fewer in a block they come
// more often from afar.  What a block writes should stay in the cache: transforms in the core's
// own, sums in the nearest.
static double schedule_cost(const Winograd *w, const WinogradSchedule *s, Cost c,
                            const LowerTarget *t) {
  int64_t tiles = s->block_rows * s->block_cols, n = s->tile + WINOGRAD_TAPS - 1;
  int64_t columns = known(w->columns, USUAL / s->tile), lines = known(w->lines, USUAL / s->tile);
  double held = (double)tiles / (double)ceil_div(tiles, s->tiles);
  double blocks = (double)w->counted * (double)ceil_div(lines, s->block_rows) *
                  (double)ceil_div(columns, s->block_cols);
  double all = (double)(lines * columns) * (double)w->counted, points = 4 * (double)(n * n);
  double v = points * (double)tiles * (double)w->inputs;
  double sums = points * (double)(tiles * s->cols);
  c.products *= blocks * (double)tiles / all * (1 + 0.6 / held);
  double stream = c.weights > (double)(NEAR * t->l2) ? FAR_CYCLE : NEAR_CYCLE;
  if (c.weights > (double)t->l2 / 2) c.products = fmax(c.products, blocks * c.weights / stream);
  if (v > (double)t->l2 / 3) c.forward += all * points * (double)w->inputs / AFAR_CYCLE;
  if (sums > 2 * (double)t->l1) c.back += all * points * (double)w->outputs / AFAR_CYCLE;
  return 0.25 * share_cost(w, s, &c, 1) + 0.6 * share_cost(w, s, &c, 2) +
         0.15 * share_cost(w, s, &c, 4);
}

// ---- the choice ----

// Of `n` things at most `most` at once, with as few as can be left over in the last round.
static int64_t choose_part(int64_t n, int64_t most) {
  int64_t best = MIN(n, most);
  for (int64_t i = best; i > 1 && i > best / 2; i--)
    if (ceil_div(n, i) * i - n < ceil_div(n, best) * best - n) best = i;
  return best;
}

static void choose_block(const Winograd *w, const LowerTarget *t, double weights, int64_t rows,
                         WinogradSchedule *s) {
  bool whole = ie_is_const(w->lines) && w->lines->value % rows == 0;
  int64_t most = weights <= 0.75 * (double)t->l2 ? s->tiles : 4 * s->tiles;
  s->item_rows = rows;
  s->block_rows = 1;
  s->block_cols = choose_part(known(w->columns, s->tiles), most);
  for (int64_t i = 2; whole && i <= rows && i * s->block_cols <= most; i++)
    if (rows % i == 0) s->block_rows = i;
}

static void count_tiles(Winograd *w, int64_t m) {
  Dim size = ie_const(w->e->pool, m);
  w->lines = ie_ceildiv(w->e->pool, w->c->out[1], size);
  w->columns = ie_ceildiv(w->e->pool, w->c->out[2], size);
}

// Work items and blocks for one kind of transform; gives the time.
static double choose_items(Winograd *w, const LowerTarget *t, int64_t m, WinogradSchedule *out) {
  Cost c = cost_of(w, m);
  double least = INFINITY;
  count_tiles(w, m);
  for (int64_t groups = 1; groups <= MIN(w->panels, 16); groups *= 2)
    for (int64_t rows = 1; rows <= MIN(known(w->lines, 1), ROWS_MOST); rows++) {
      WinogradSchedule s = w->s;
      s.tile = m;
      s.item_groups = ceil_div(w->panels, ceil_div(w->panels, groups));
      choose_block(w, t, c.weights, rows, &s);
      double cost = schedule_cost(w, &s, c, t);
      if (cost >= least) continue;
      least = cost;
      *out = s;
    }
  return least;
}

static double scratch_of(const Winograd *w, const WinogradSchedule *s) {
  int64_t n = s->tile + WINOGRAD_TAPS - 1;
  return 4 * (double)(n * n * s->block_rows * s->block_cols) * (double)(w->inputs + s->cols);
}

void winograd_derive(Winograd *w) {
  w->panels = ceil_div(w->outputs, w->s.cols);
  count_tiles(w, w->s.tile);
}

bool winograd_choose(Winograd *w, const LowerTarget *t, bool expensive,
                     const ScheduleGiven *given) {
  w->s = (WinogradSchedule){.prefetch = AHEAD, .spill = expensive};
  w->s.lanes = MAX(t->vector_bytes / 4, 1);
  schedule_keep(given, &w->s);
  w->s.cols = w->outputs <= w->s.lanes ? w->s.lanes : 2 * w->s.lanes;
  schedule_keep(given, &w->s);
  int64_t vectors = MAX(w->s.cols / w->s.lanes, 1);
  w->s.tiles = MAX(MIN((t->vector_registers - vectors - 1) / vectors, 14), 1);
  schedule_keep(given, &w->s);
  w->panels = ceil_div(w->outputs, w->s.cols);
  if (w->inputs < LEAST_INPUTS && !given->t) return false;
  WinogradSchedule two = w->s, four = w->s;
  double f2 = choose_items(w, t, 2, &two), f4 = choose_items(w, t, 4, &four);
  if (direct_cost(w) <= fmin(f2, f4) && !given->t) return false;
  bool is_two = schedule_is_given(given, "tile") ? w->s.tile == 2 : f2 < f4;
  w->s = is_two ? two : four;
  schedule_keep(given, &w->s);
  if (scratch_of(w, &w->s) > SCRATCH_MOST) return false;
  int64_t tiles = w->s.block_rows * w->s.block_cols;
  w->s.tiles = ceil_div(tiles, ceil_div(tiles, w->s.tiles));
  return true;
}

bool winograd_legal(const Winograd *w, const WinogradSchedule *s, bool wide, const char **why) {
  int64_t panels = ceil_div(w->outputs, s->cols);
  Dim lines = ie_ceildiv(w->e->pool, w->c->out[1], ie_const(w->e->pool, s->tile));
  bool whole = ie_is_const(lines) && lines->value % s->item_rows == 0;
  bool even = s->item_groups <= panels &&
              ceil_div(panels, ceil_div(panels, s->item_groups)) == s->item_groups;
  *why = !even ? "item_groups does not divide the panels of output channels evenly"
         : s->block_rows > 1 && !(whole && s->item_rows % s->block_rows == 0)
             ? "block_rows above 1 must divide item_rows, and item_rows the rows of tiles"
         : wide && !s->spill               ? "the epilogue needs spill here"
         : scratch_of(w, s) > SCRATCH_MOST ? "its scratch is too large"
                                           : NULL;
  return !*why;
}
