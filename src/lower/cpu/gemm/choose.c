// choose.c -- chooses the schedule of template gemm, and says which fields go together.
//
// The register tile is as high as the registers allow, and rows are split evenly: 128 rows are 8
// tiles of 13 and 2 of 12, not 9 of 14 and a tail.  Weights that few rows share are read once, so
// they are prefetched.
//
// Needs:      contract_map, contract_sizes and contract_probe have run.
// Guarantees: the schedule is legal and depends on shapes and LowerTarget alone.  contract_legal
//             names the first field that does not fit; scratch buffers are at most 64 MiB each.
#include "lower/contract/contract.h"

#include <math.h>
#include <stdlib.h>

// Weights that few rows share are read once, and from afar: so many bytes before they are needed.
enum { SCRATCH_MOST = 64 << 20 };  // bytes of a buffer
enum {
  ITEMS_FEW = 12,
  ITEMS_MANY = 64,
  STAGED_TILES = 4,
  LHS_FEW = 3,
  MASKED_BYTES = 64,
  ROWS_FEW = 4,
  AHEAD = 2048,
  AHEAD_FAR = 8192
};
enum { LANES_MANY = 16 };  // of a vector whose half takes half the time

// ---- numbers ----

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t known(Dim d, int64_t otherwise) { return ie_is_const(d) ? d->value : otherwise; }

// Steps of the contracted loops: elements, or words of them.
static int64_t contracted(const Contraction *c) {
  int64_t k = 1;
  for (int i = 0; i < c->nk; i++) {
    int64_t size = MAX(known(c->k[i], 256), 1);
    k *= c->word && i == c->word_axis ? contract_steps(c, size) : size;
  }
  return k;
}

// ---- the tile ----

// Columns: whole vectors, or the lowest power of two that holds all.
static int64_t choose_columns(const Contraction *c, int64_t lanes, int64_t m, bool transpose) {
  if (!ie_is_const(c->n)) return 2 * lanes;
  int64_t n = c->n->value, best = 2 * lanes;
  if (n < lanes) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
  }
  if (m <= 4 && n >= 16 * lanes && !c->conv) return 4 * lanes;  // weights are read once: wide runs
  // Per column, by what a tile of this width reaches.  A long vector's half costs less than all of
  // it, beside two or three others.
  const struct {
    int64_t halves, cost, words;
  } width[] = {{4, 100, 100}, {6, 102, 103}, {5, 103, 0},
               {7, 104, 0},   {3, 112, 106}, {2, 106, 115}};
  int64_t least = INT64_MAX;
  for (int i = 0; i < ARRAY_LEN(width); i++) {
    int64_t halves = width[i].halves, cols = lanes * halves / 2;
    int64_t cost = c->word ? width[i].words : width[i].cost;
    if (cols < 1 || !cost || (c->depthwise && halves != 2 && halves != 4)) continue;
    if (halves % 2 && (transpose || (halves > 3 && lanes < LANES_MANY))) continue;
    int64_t padded = ceil_div(n, cols) * cols * (c->depthwise ? 100 : cost);
    if (padded < least) {
      least = padded;
      best = cols;
    }
  }
  return best;
}

// Columns of a tile whose rows are a few channels and whose columns are pixels that taps read: what
// its steps take by products, by loads, and by waiting for the step before.
static int64_t choose_pixels(const Contraction *c, const LowerTarget *t, int64_t lanes) {
  enum { VECTORS = 8, WAIT = 8 };
  int64_t n = c->n->value, m = c->m->value, least = INT64_MAX, best = lanes;
  for (int64_t v = 1; v <= VECTORS && (v == 1 || (v - 1) * lanes < n); v++) {
    int64_t most = (t->vector_registers - v - 1) / v;
    if (most < 1) break;
    int64_t tiles = ceil_div(m, MIN(m, most)), rows = ceil_div(m, tiles);
    int64_t cost = MAX(MAX(rows * v, rows + v), WAIT) * tiles * ceil_div(n, v * lanes);
    if (cost >= least) continue;
    least = cost;
    best = v * lanes;
  }
  return best;
}

int64_t contract_most_rows(const Contraction *c, const LowerTarget *t, int64_t lanes, int64_t nr) {
  int64_t vectors = ceil_div(nr, lanes), regs = t->vector_registers;
  int64_t mr = (regs - vectors - 1) / (vectors + c->row_sums);
  if (nr % lanes && vectors > 2) mr = MAX(mr - 1, 1);  // half a vector's sums take a register more
  if (c->depthwise) mr = MIN(mr / 2, 8);  // lhs is a vector too, and shared by neighbouring taps
  return MAX(MIN(mr, 16), 1);
}

// ---- work items ----

static int64_t outer_items(const Contraction *c, bool lines) {
  int64_t n = c->groups;
  for (int i = 0; i < c->nout; i++) {
    bool inner = (i >= c->row0 && i < c->row1) || (i >= c->col0 && i < c->col1);
    if (inner || (lines && i == c->row0 - 1)) continue;
    n *= MAX(known(c->out[i], 1), 1);
  }
  return n;
}

// Images: how many lines of pixels an item has.
static void choose_lines(const Contraction *c, int64_t l2, int64_t bytes, GemmSchedule *s) {
  bool lines = c->nd > 1;
  int64_t height = lines ? known(c->out[c->row0 - 1], 64) : 1;
  int64_t panels = ceil_div(known(c->n, 64), s->cols), outer = outer_items(c, true) * panels;
  int64_t weights = contracted(c) * known(c->n, 64) * bytes;
  s->item_rows = 1;
  s->rows_first = weights > l2 / 2 && (!lines || ie_is_const(c->out[c->row0 - 1]));
  if (s->rows_first && outer >= ITEMS_FEW / 2)
    s->item_rows = height;  // a panel is read from memory once
  else if (outer * height > ITEMS_MANY)
    s->item_rows = MIN(MAX(outer * height / ITEMS_MANY, 1), height);
}

static bool may_stage_image(const Contraction *c) {
  bool padded = false;
  for (int d = 0; d < c->nd; d++) padded |= c->space[d].padded;
  return padded && !c->depthwise && !c->phases && !c->word && !c->sides && !c->lhs_zero &&
         dtype_class(c->acc) == DC_FLOAT;
}

// Bytes of the lines that an item of so many reads, with their padding.
static double lines_bytes(const Contraction *c, int64_t lines) {
  const ContractAxis *s = c->space;
  double high = (double)(lines - 1) * (double)s[0].stride, wide = (double)c->m->value;
  high += (double)(s[0].kernel - 1) * (double)s[0].dilation + 1;
  wide = (wide - 1) * (double)s[1].stride + (double)(s[1].kernel - 1) * (double)s[1].dilation + 1;
  return high * wide * (double)c->in_channels * (double)elem_bytes(c->acc);
}

// A padded image of few channels, as a network's first layer has it.
static bool few_channels(const Contraction *c) { return may_stage_image(c) && c->in_channels <= 4; }

// What a tile of few rows costs: a run of rhs is loaded for each.
static double row_cost(int64_t rows, int64_t most) {
  int64_t tiles = ceil_div(rows, most);
  return (double)tiles * (1 + (double)rows / (double)tiles) / (double)rows;
}

// Rows of one kind: a number of them that divides all is an item, split evenly into tiles; where
// none is good, whole tiles, and one with a rest.
static void choose_chunk(const Contraction *c, int64_t l2, int64_t bytes, GemmSchedule *s) {
  int64_t most = s->rows, k = contracted(c), panels = ceil_div(known(c->n, 256), s->cols);
  int64_t outer = outer_items(c, false) * ceil_div(panels, s->item_panels);
  s->rows_first = k * known(c->n, 256) * bytes > l2 / 2;
  s->item_rows = 8 * most;
  if (!ie_is_const(c->m)) {
    s->rows_first = false;  // the number of blocks is known when the kernel is called
    return;
  }
  int64_t m = c->m->value, best = m, half = MIN(m, most) / 2;
  int64_t least = s->stage_rhs ? STAGED_TILES * most : 1;  // each item copies its columns
  for (int64_t n = 1; n <= m / MAX(half, 1) && outer * m / best < ITEMS_FEW; n++) {
    if (m % n || (n > 1 && m / n < least)) continue;
    if (row_cost(m / n, most) < 1.15 * row_cost(m, most)) best = m / n;
  }
  s->item_rows = 0;
  if (outer * m / best < ITEMS_FEW / 2 && m >= 4 * most && m > least)
    s->item_rows = MAX(MAX(m * outer / ITEMS_FEW / most, 1) * most, least);
  else
    s->rows = ceil_div(best, ceil_div(best, most)), s->item_rows = best == m ? 0 : best;
}

// Staged rows serve several panels: each more makes the copy cheaper, and items fewer.
static void choose_panels(const Contraction *c, int64_t l2, int64_t bytes, int64_t panels,
                          double copy, GemmSchedule *s) {
  double least = INFINITY;
  GemmSchedule best = *s;
  for (int64_t n = 1; n <= MIN(panels, 4); n++) {
    GemmSchedule with = *s;
    with.item_panels = n;
    choose_chunk(c, l2, bytes, &with);
    int64_t rows = with.item_rows ? with.item_rows : known(c->m, 256);
    // Weights beyond the cache are read again for each chunk of rows.
    double cost = row_cost(rows, s->rows) *
                  (1 + copy / (double)n + (with.rows_first ? 1.0 / (double)rows : 0));
    if (cost >= least) continue;
    least = cost;
    best.item_panels = n;
  }
  *s = best;
}

// Lines of memory that lie 4096 bytes apart share a place in the cache nearest to the core.
static bool rows_collide(const Contraction *c, int64_t bytes, int64_t mr) {
  int64_t k = contracted(c);
  return mr > 8 && known(c->m, 256) > 8 && k * bytes % 4096 == 0;
}

// Operands beyond the cache: blocks of rows and of the contracted axis whose products with many
// panels stay in it.
static bool takes_blocks(const Contraction *c) {
  return c->weight && c->nk == 1 && !c->image && !c->guarded && !c->ncuts && !c->word &&
         !c->depthwise && !c->divided_rows && !c->row_sums && dtype_class(c->acc) == DC_FLOAT &&
         ie_is_const(c->m) && ie_is_const(c->n) && c->depth > 0;
}

static bool choose_blocks(const Contraction *c, const LowerTarget *t, int64_t bytes,
                          GemmSchedule *s) {
  int64_t most = s->rows, deep = MAX(t->l2 * 3 / 32 / (s->cols * bytes) / 16, 1) * 16;
  if (!takes_blocks(c) || c->depth <= deep) return false;
  int64_t m = c->m->value, panels = ceil_div(c->n->value, s->cols), lhs = m * c->depth * bytes;
  bool far = lhs > 12 * t->l2 || (lhs > 2 * t->l2 && rows_collide(c, bytes, most));
  if (!far || m < 8 * most || panels < 8) return false;
  int64_t high = MAX(t->l2 / 4 / (deep * bytes) / most, 1) * most;
  int64_t rows = ceil_div(m, ceil_div(m, high));
  s->rows = ceil_div(rows, ceil_div(rows, most));
  s->item_rows = ceil_div(rows, s->rows) * s->rows;
  int64_t blocks = ceil_div(m, s->item_rows) * outer_items(c, false);
  int64_t wide = MAX(t->l2 / 8 / (s->item_rows * s->cols * bytes), 1);
  s->item_panels = ceil_div(panels, MAX(ceil_div(panels, wide), ceil_div(ITEMS_FEW, blocks)));
  s->k_block = ceil_div(ceil_div(c->depth, ceil_div(c->depth, deep)), 16) * 16;
  s->unroll = 4;
  return true;
}

// Weights beyond the cache, of which the first tile of rows reads each panel from afar.
static bool far_weights(const Contraction *c, const LowerTarget *t, int64_t bytes) {
  return c->weight && !c->word && !c->conv && ie_is_const(c->m) && ie_is_const(c->n) &&
         c->m->value > ROWS_FEW && contracted(c) * c->n->value * bytes > t->l2;
}

// Lines of one axis whose tiles may take the taps in blocks.
static bool takes_tap_blocks(const Contraction *c) {
  return c->image && c->nd == 1 && c->weight && !c->phases && !c->depthwise && !c->word &&
         !c->begun && !c->row_sums && dtype_class(c->acc) == DC_FLOAT;
}

// Each tile of a line reads a panel's weights of all taps.  Where these are more than the second
// cache holds, blocks of taps that it does hold are read from beyond once a line.
static int64_t choose_taps(const Contraction *c, const LowerTarget *t, const GemmSchedule *s) {
  int64_t kernel = c->space[0].kernel, tap = contracted(c) / kernel * s->cols * elem_bytes(c->acc);
  bool often = c->m->value >= STAGED_TILES * s->rows;
  if (!often || kernel * tap <= t->l2 || !contract_image_looped(c, s)) return 0;
  int64_t blocks = ceil_div(kernel, MAX(t->l2 / 8 / tap, 1));
  return ceil_div(kernel, blocks);
}

// What may be staged: all contracted sizes are numbers, and rows are no pixels of a line.
static bool one_k(const Contraction *c) {
  bool ok = !c->image && !c->depthwise && !c->taps && c->nk > 0 && contracted(c) > 0;
  for (int i = 0; i < c->nk; i++) ok &= ie_is_const(c->k[i]);
  return ok;
}

// Whether the last panel's columns would cost every panel a slow masked load in each step.
static bool masks_cost(const Contraction *c, const LowerTarget *t, const GemmSchedule *s) {
  bool ragged = !ie_is_const(c->n) || c->n->value % s->cols != 0;
  return ragged && t->vector_bytes < MASKED_BYTES && known(c->m, 256) >= STAGED_TILES * s->rows;
}

// Whether the K steps of a list are done, and with how many columns.
static void choose_list(const Contraction *c, const LowerTarget *t, const ScheduleGiven *given,
                        GemmSchedule *s) {
  int64_t cols = contract_list_choose(c, t, s->cols);
  if (!schedule_is_given(given, "index_list")) s->index_list = cols > 0;
  if (s->index_list && cols) s->cols = cols;
  schedule_keep(given, s);
}

void contract_choose(const Contraction *c, const LowerTarget *t, const ContractProbe *p,
                     bool expensive, const ScheduleGiven *given, GemmSchedule *s) {
  int64_t bytes = elem_bytes(c->acc), lanes = MAX(t->vector_bytes / bytes, 1);
  int64_t m = known(c->m, 256), k = contracted(c);
  *s = (GemmSchedule){.item_panels = 1,
                      .unroll = 1,
                      .spill = expensive || p->rows_contiguous || c->row_sums,
                      .packed_dot = c->word > 0};
  s->transpose = p->rows_contiguous;
  s->cols = c->taps ? choose_pixels(c, t, lanes) : choose_columns(c, lanes, m, s->transpose);
  schedule_keep(given, s);
  choose_list(c, t, given, s);
  s->rows = contract_most_rows(c, t, lanes, s->cols);
  schedule_keep(given, s);
  bool asks_blocks = schedule_is_given(given, "k_block");
  if (!s->index_list && !(asks_blocks && !s->k_block) && choose_blocks(c, t, bytes, s)) return;
  int64_t panels = ceil_div(known(c->n, 256), s->cols);
  s->stage_rhs = !c->weight && (!p->rhs_plain || masks_cost(c, t, s)) && one_k(c) && !c->guarded &&
                 (m > 4 || c->swapped) && s->cols * k * bytes <= t->l2 / 2;
  schedule_keep(given, s);
  bool costs = (!p->lhs_plain && (panels > 1 || p->lhs_size > LHS_FEW)) || p->lhs_looked_up ||
               c->guarded || (c->strided && p->lhs_k_contiguous) || c->divided_rows ||
               (c->word && !c->direct);
  bool collide = p->lhs_k_contiguous && rows_collide(c, bytes, s->rows);
  s->stage_lhs = one_k(c) && (s->stage_rhs ? p->lhs_looked_up : costs || collide) &&
                 s->rows * (k + 32) * bytes <= t->l2 / 2;
  schedule_keep(given, s);
  // What copying a row costs beside a panel's products: more where the rows come from afar.
  double copy = !p->lhs_plain ? 0.4 : m * k * bytes > t->l2 / 2 ? 0.2 : 0.08;
  if (s->stage_lhs && !s->stage_rhs) choose_panels(c, t->l2, bytes, panels, copy, s);
  schedule_keep(given, s);
  if (c->image) {
    int64_t tiles = ceil_div(c->m->value, s->rows);
    s->rows = ceil_div(c->m->value, tiles);
    choose_lines(c, t->l2, bytes, s);
    schedule_keep(given, s);
    s->stage_image = few_channels(c) && c->nd == 2 && s->item_rows * c->m->value >= 32 &&
                     lines_bytes(c, s->item_rows) <= SCRATCH_MOST;
  } else {
    choose_chunk(c, t->l2, bytes, s);
  }
  if (c->word && c->weight && m <= ROWS_FEW && !c->conv) s->prefetch = AHEAD;
  if (far_weights(c, t, bytes)) s->prefetch = AHEAD_FAR;
  Dim last = c->nk ? c->k[c->nk - 1] : NULL;
  if (c->depthwise || !last || !ie_is_const(last)) return;
  if (s->index_list) return;
  int64_t steps = contract_steps(c, last->value);
  s->unroll = steps <= 4 ? MAX(steps, 1) : steps < 16 ? 1 : c->image ? 2 : 4;
  if (takes_tap_blocks(c)) s->tap_block = choose_taps(c, t, s);
  // Each phase has tiles of its own at both ends of a line and between them.
  if (c->phases && contract_image_looped(c, s)) {
    s->rows = MIN(s->rows, MAX(32 / c->phases, 2));
    s->unroll = MIN(s->unroll, 2);
  }
}

// ---- what goes together ----

static const char *bad_blocks(const Contraction *c, const GemmSchedule *s) {
  if (!s->k_block) return NULL;
  if (!takes_blocks(c) || s->stage_lhs || s->stage_rhs)
    return "k_block is for float GEMM with constant weights and sizes, not staged";
  if (s->k_block >= c->depth) return "k_block is not below K";
  if (!s->item_rows || s->item_rows % s->rows) return "with k_block, rows must divide item_rows";
  double sums = (double)s->item_rows * (double)s->item_panels * (double)s->cols;
  double staged = (double)s->item_rows * (double)(s->k_block + 32);
  return sums * 8 > SCRATCH_MOST || staged * 8 > SCRATCH_MOST ? "its scratch is too large" : NULL;
}

static const char *bad_taps(const Contraction *c, const GemmSchedule *s) {
  if (!s->tap_block) return NULL;
  if (!takes_tap_blocks(c) || !contract_image_looped(c, s))
    return "tap_block is for 1-D convolutions of floats with constant weights and many taps";
  if (s->tap_block >= c->space[0].kernel) return "tap_block is not below the taps of a line";
  if (s->index_list || s->stage_lhs || s->stage_rhs) return "tap_block goes with no staging";
  double sums = (double)c->m->value * (double)s->cols;
  return sums * 8 > SCRATCH_MOST ? "its scratch is too large" : NULL;
}

static const char *bad_staging(const Contraction *c, const GemmSchedule *s) {
  int64_t bytes = elem_bytes(c->acc);
  if (s->item_panels > 1 && !s->stage_lhs && !s->k_block)
    return "item_panels above 1 needs stage_lhs or k_block";
  if ((s->stage_lhs || s->stage_rhs) && !one_k(c))
    return "stage_lhs and stage_rhs need a constant K";
  if (s->stage_lhs && s->stage_rhs && s->item_panels > 1)
    return "item_panels must be 1 with both stage_lhs and stage_rhs";
  if (s->stage_lhs && (double)s->rows * (double)(c->depth + 64) * (double)bytes > SCRATCH_MOST)
    return "the scratch of stage_lhs is too large";
  if (s->stage_rhs && (c->weight || c->guarded || c->word))
    return "stage_rhs is for an rhs that is computed";
  if (s->stage_rhs && (double)s->cols * (double)c->depth * (double)bytes > SCRATCH_MOST)
    return "the scratch of stage_rhs is too large";
  if (c->word && !c->direct && !s->stage_lhs) return "packed_dot needs stage_lhs here";
  if (s->stage_image && (!c->image || c->nd != 2 || !may_stage_image(c)))
    return "stage_image is for padded 2-D convolutions of floats";
  if (s->stage_image && lines_bytes(c, s->item_rows) > SCRATCH_MOST)
    return "the scratch of stage_image is too large";
  return NULL;
}

static const char *bad_list(const Contraction *c, const GemmSchedule *s) {
  if (!s->index_list) return NULL;
  if (!c->list) return "index_list is for float weights with zeros in whole panels";
  if (!contract_list_width(c, s->cols)) return "with index_list, cols must be 1 to 4 vectors";
  if (s->k_block || s->unroll > 1) return "index_list goes with neither k_block nor unroll";
  return NULL;
}

bool contract_legal(const Contraction *c, const ContractProbe *p, bool wide, const GemmSchedule *s,
                    const char **why) {
  Dim last = c->nk ? c->k[c->nk - 1] : NULL;
  *why = bad_blocks(c, s);
  if (!*why) *why = bad_taps(c, s);
  if (!*why) *why = bad_staging(c, s);
  if (!*why) *why = bad_list(c, s);
  if (!*why && s->packed_dot != (c->word > 0)) *why = "packed_dot is for int8 and bf16 products";
  if (!*why && !s->item_rows && (c->image || !ie_is_const(c->m)))
    *why = "item_rows may be 0 only where the number of rows is known";
  if (!*why && s->unroll > 1 && !(last && ie_is_const(last)))
    *why = "unroll must be 1 where K is dynamic";
  if (!*why && s->prefetch && !c->weight) *why = "prefetch is for constant weights";
  if (!*why && !s->spill && (wide || s->transpose || p->rows_contiguous || c->row_sums))
    *why = "the epilogue needs spill here";
  return !*why;
}
