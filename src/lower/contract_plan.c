// contract_plan.c -- how a contraction is done: tiles, work items, what is staged.
//
// By shapes and the target alone.  The register tile is as high as the registers allow, and rows are split evenly:
// 128 rows are 8 tiles of 13 and 2 of 12 instead of 9 of 14 and a rest.
#include "lower/contract.h"

#include <math.h>
#include <stdlib.h>

// Weights that few rows share are read once, and from afar: so many bytes before they are needed.
enum { ITEMS_FEW = 12, ITEMS_MANY = 64, ROWS_FEW = 4, AHEAD = 2048 };

// ---- text ----

const char *contract_schedule_print(Arena *a, const ContractSchedule *s) {
  return str_printf(
      a, "contract %lldx%lld rows %lld panels %lld unroll %lld ahead %lld depth %lld%s%s%s%s%s%s",
      (long long)s->mr, (long long)s->nr, (long long)s->rows, (long long)s->panels,
      (long long)s->unroll, (long long)s->ahead, (long long)s->depth,
      s->row_inner ? " row-inner" : "", s->stage_lhs ? " stage-lhs" : "",
      s->stage_rhs ? " stage-rhs" : "", s->lines ? " lines" : "", s->spill ? " spill" : "",
      s->turn ? " turn" : "");
}

bool contract_take(const char **at, const char *word, int64_t *out) {
  size_t n = strlen(word);
  if (strncmp(*at, word, n)) return false;
  const char *p = *at + n;
  if (out) {
    if (*p < '0' || *p > '9') return false;
    for (*out = 0; *p >= '0' && *p <= '9' && *out < INT32_MAX; p++) *out = *out * 10 + (*p - '0');
  }
  *at = p;
  return true;
}

bool contract_schedule_parse(const char *text, ContractSchedule *out) {
  ContractSchedule s = {0};
  bool ok = contract_take(&text, "contract ", &s.mr) && contract_take(&text, "x", &s.nr) &&
            contract_take(&text, " rows ", &s.rows) &&
            contract_take(&text, " panels ", &s.panels) &&
            contract_take(&text, " unroll ", &s.unroll) &&
            contract_take(&text, " ahead ", &s.ahead) && contract_take(&text, " depth ", &s.depth);
  s.row_inner = ok && contract_take(&text, " row-inner", NULL);
  s.stage_lhs = ok && contract_take(&text, " stage-lhs", NULL);
  s.stage_rhs = ok && contract_take(&text, " stage-rhs", NULL);
  s.lines = ok && contract_take(&text, " lines", NULL);
  s.spill = ok && contract_take(&text, " spill", NULL);
  s.turn = ok && contract_take(&text, " turn", NULL);
  if (!ok || *text || s.mr < 1 || s.nr < 1 || s.panels < 1 || s.unroll < 1) return false;
  *out = s;
  return true;
}

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
static int64_t choose_columns(const Contraction *c, int64_t lanes, int64_t m) {
  if (!ie_is_const(c->n)) return 2 * lanes;
  int64_t n = c->n->value, best = 2 * lanes;
  if (n < lanes) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
  }
  if (m <= 4 && n >= 16 * lanes && !c->conv) return 4 * lanes;  // weights are read once: wide runs
  const int64_t width[] = {2 * lanes, 3 * lanes, lanes + lanes / 2, lanes};
  const int64_t cost[] = {100, 103, 106, 115};  // per column, by what a tile of this width reaches
  int64_t least = INT64_MAX;
  for (int i = 0; i < ARRAY_LEN(width); i++) {
    if (width[i] < 1 || (c->depthwise && width[i] != lanes && width[i] != 2 * lanes)) continue;
    int64_t padded = ceil_div(n, width[i]) * width[i] * (c->depthwise ? 100 : cost[i]);
    if (padded < least) {
      least = padded;
      best = width[i];
    }
  }
  return best;
}

static int64_t most_rows(const Contraction *c, const LowerTarget *t, int64_t lanes, int64_t nr) {
  int64_t vectors = ceil_div(nr, lanes), regs = t->vector_registers;
  int64_t mr = (regs - vectors - 1) / (vectors + c->row_sums);
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
static void choose_lines(const Contraction *c, int64_t l2, int64_t bytes, ContractSchedule *s) {
  bool lines = c->nd > 1;
  int64_t height = lines ? known(c->out[c->row0 - 1], 64) : 1;
  int64_t panels = ceil_div(known(c->n, 64), s->nr), outer = outer_items(c, true) * panels;
  int64_t weights = contracted(c) * known(c->n, 64) * bytes;
  s->rows = 1;
  s->row_inner = weights > l2 / 2 && (!lines || ie_is_const(c->out[c->row0 - 1]));
  if (s->row_inner && outer >= ITEMS_FEW / 2)
    s->rows = height;  // a panel is read from memory once
  else if (outer * height > ITEMS_MANY)
    s->rows = MIN(MAX(outer * height / ITEMS_MANY, 1), height);
}

// A padded image of few channels, as a network's first layer has it.
static bool few_channels(const Contraction *c) {
  bool padded = false;
  for (int d = 0; d < c->nd; d++) padded |= c->space[d].padded;
  return padded && c->in_channels <= 4 && !c->depthwise && !c->phases && !c->word && !c->sides &&
         !c->lhs_zero && dtype_class(c->acc) == DC_FLOAT;
}

// What a tile of few rows costs: a run of rhs is loaded for each.
static double row_cost(int64_t rows, int64_t most) {
  int64_t tiles = ceil_div(rows, most);
  return (double)tiles * (1 + (double)rows / (double)tiles) / (double)rows;
}

// Rows of one kind: a number of them that divides all is an item, split evenly into tiles; where none is good, whole
// tiles, and one with a rest.
static void choose_chunk(const Contraction *c, int64_t l2, int64_t bytes, ContractSchedule *s) {
  int64_t most = s->mr, k = contracted(c), panels = ceil_div(known(c->n, 256), s->nr);
  int64_t outer = outer_items(c, false) * ceil_div(panels, s->panels);
  s->row_inner = k * known(c->n, 256) * bytes > l2 / 2;
  s->rows = 8 * most;
  if (!ie_is_const(c->m)) {
    s->row_inner = false;  // the number of blocks is known when the kernel is called
    return;
  }
  int64_t m = c->m->value, best = m, few = MIN(m, most) / 2;
  for (int64_t n = 1; n <= m / MAX(few, 1) && outer * m / best < ITEMS_FEW; n++) {
    if (m % n) continue;
    if (row_cost(m / n, most) < 1.15 * row_cost(m, most)) best = m / n;
  }
  s->rows = 0;
  if (outer * m / best < ITEMS_FEW / 2 && m >= 4 * most)
    s->rows = MAX(m * outer / ITEMS_FEW / most, 1) * most;
  else
    s->mr = ceil_div(best, ceil_div(best, most)), s->rows = best == m ? 0 : best;
}

// Staged rows serve several panels: each more makes the copy cheaper, and items fewer.
static void choose_panels(const Contraction *c, int64_t l2, int64_t bytes, int64_t panels,
                          double copy, ContractSchedule *s) {
  double least = INFINITY;
  ContractSchedule best = *s;
  for (int64_t n = 1; n <= MIN(panels, 4); n++) {
    ContractSchedule with = *s;
    with.panels = n;
    choose_chunk(c, l2, bytes, &with);
    int64_t rows = with.rows ? with.rows : known(c->m, 256);
    // Weights beyond the cache are read again for each chunk of rows.
    double cost =
        row_cost(rows, s->mr) * (1 + copy / (double)n + (with.row_inner ? 1.0 / (double)rows : 0));
    if (cost >= least) continue;
    least = cost;
    best.panels = n;
  }
  *s = best;
}

// Lines of memory that lie 4096 bytes apart share a place in the cache nearest to the core.
static bool rows_collide(const Contraction *c, int64_t bytes, int64_t mr) {
  int64_t k = contracted(c);
  return mr > 8 && known(c->m, 256) > 8 && k * bytes % 4096 == 0;
}

// Operands beyond the cache: blocks of rows and of the contracted axis whose products with many panels stay in it.
static bool choose_blocks(const Contraction *c, const LowerTarget *t, int64_t bytes,
                          ContractSchedule *s) {
  bool plain = c->weight && c->nk == 1 && !c->image && !c->guarded && !c->ncuts && !c->word &&
               !c->depthwise && !c->apart && !c->row_sums && dtype_class(c->acc) == DC_FLOAT;
  int64_t most = s->mr, deep = MAX(t->l2 * 3 / 32 / (s->nr * bytes) / 16, 1) * 16;
  if (!plain || !ie_is_const(c->m) || !ie_is_const(c->n) || c->depth <= deep) return false;
  int64_t m = c->m->value, panels = ceil_div(c->n->value, s->nr), lhs = m * c->depth * bytes;
  bool far = lhs > 12 * t->l2 || (lhs > 2 * t->l2 && rows_collide(c, bytes, most));
  if (!far || m < 8 * most || panels < 8) return false;
  int64_t high = MAX(t->l2 / 4 / (deep * bytes) / most, 1) * most;
  int64_t rows = ceil_div(m, ceil_div(m, high));
  s->mr = ceil_div(rows, ceil_div(rows, most));
  s->rows = ceil_div(rows, s->mr) * s->mr;
  int64_t blocks = ceil_div(m, s->rows) * outer_items(c, false);
  int64_t wide = MAX(t->l2 / 8 / (s->rows * s->nr * bytes), 1);
  s->panels = ceil_div(panels, MAX(ceil_div(panels, wide), ceil_div(ITEMS_FEW, blocks)));
  s->depth = ceil_div(ceil_div(c->depth, ceil_div(c->depth, deep)), 16) * 16;
  s->unroll = 4;
  return true;
}

void contract_choose(const Contraction *c, const LowerTarget *t, const ContractProbe *p, bool heavy,
                     ContractSchedule *s) {
  int64_t bytes = elem_bytes(c->acc), lanes = MAX(t->vector_bytes / bytes, 1);
  int64_t m = known(c->m, 256), k = contracted(c);
  *s = (ContractSchedule){.panels = 1, .unroll = 1, .spill = heavy || p->rows_along || c->row_sums};
  s->turn = p->rows_along;
  s->nr = choose_columns(c, lanes, m);
  s->mr = most_rows(c, t, lanes, s->nr);
  if (choose_blocks(c, t, bytes, s)) return;
  int64_t panels = ceil_div(known(c->n, 256), s->nr);
  bool one_k = !c->image && !c->depthwise && c->nk > 0 && k > 0;
  for (int i = 0; i < c->nk; i++) one_k &= ie_is_const(c->k[i]);
  s->stage_rhs = !c->weight && !p->rhs_plain && one_k && !c->guarded && m > 4 &&
                 s->nr * k * bytes <= t->l2 / 2;
  bool costs = (!p->lhs_plain && panels > 1) || c->guarded || c->strided || c->apart ||
               (c->word && !c->direct);
  bool collide = p->lhs_along_k && rows_collide(c, bytes, s->mr);
  s->stage_lhs =
      one_k && !s->stage_rhs && (costs || collide) && s->mr * (k + 32) * bytes <= t->l2 / 2;
  // What copying a row costs beside a panel's products: more where the rows come from afar.
  double copy = !p->lhs_plain ? 0.4 : m * k * bytes > t->l2 / 2 ? 0.2 : 0.08;
  if (s->stage_lhs) choose_panels(c, t->l2, bytes, panels, copy, s);
  if (c->image) {
    int64_t tiles = ceil_div(c->m->value, s->mr);
    s->mr = ceil_div(c->m->value, tiles);
    choose_lines(c, t->l2, bytes, s);
    s->lines = few_channels(c) && c->nd == 2 && s->rows * c->m->value >= 32;
  } else {
    choose_chunk(c, t->l2, bytes, s);
  }
  if (c->word && c->weight && m <= ROWS_FEW && !c->conv) s->ahead = AHEAD;
  Dim last = c->nk ? c->k[c->nk - 1] : NULL;
  if (c->depthwise || !last || !ie_is_const(last)) return;
  int64_t steps = contract_steps(c, last->value);
  s->unroll = steps <= 4 ? MAX(steps, 1) : steps < 16 ? 1 : c->image ? 2 : 4;
}
