// contract_plan.c -- how a contraction is done: tiles, work items, what is staged.
//
// By shapes and the target alone.  The register tile is as high as the registers allow, and rows are split evenly:
// 128 rows are 8 tiles of 13 and 2 of 12 instead of 9 of 14 and a rest.
#include "lower/contract.h"

#include <stdio.h>

enum { ITEMS_FEW = 16, ITEMS_MANY = 64 };

// ---- text ----

const char *contract_schedule_print(Arena *a, const ContractSchedule *s) {
  return str_printf(a, "contract %lldx%lld rows %lld panels %lld unroll %lld%s%s%s%s",
                    (long long)s->mr, (long long)s->nr, (long long)s->rows, (long long)s->panels,
                    (long long)s->unroll, s->row_inner ? " row-inner" : "",
                    s->stage_lhs ? " stage-lhs" : "", s->stage_rhs ? " stage-rhs" : "",
                    s->spill ? " spill" : "");
}

bool contract_schedule_parse(const char *text, ContractSchedule *out) {
  long long mr, nr, rows, panels, unroll;
  int used = 0;
  if (sscanf(text, "contract %lldx%lld rows %lld panels %lld unroll %lld%n", &mr, &nr, &rows,
             &panels, &unroll, &used) != 5)
    return false;
  *out = (ContractSchedule){.mr = mr, .nr = nr, .rows = rows, .panels = panels, .unroll = unroll};
  static const char *const word[] = {" row-inner", " stage-lhs", " stage-rhs", " spill"};
  bool *const flag[] = {&out->row_inner, &out->stage_lhs, &out->stage_rhs, &out->spill};
  const char *at = text + used;
  for (int i = 0; i < ARRAY_LEN(word); i++)
    if (!strncmp(at, word[i], strlen(word[i]))) {
      *flag[i] = true;
      at += strlen(word[i]);
    }
  return !*at && mr > 0 && nr > 0 && rows >= 0 && panels > 0 && unroll > 0;
}

// ---- numbers ----

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t known(Dim d, int64_t otherwise) { return ie_is_const(d) ? d->value : otherwise; }

static int64_t contracted(const Contraction *c) {
  int64_t k = 1;
  for (int i = 0; i < c->nk; i++) k *= MAX(known(c->k[i], 256), 1);
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
    if (width[i] < 1 || (width[i] == 3 * lanes && c->depthwise)) continue;
    int64_t padded = ceil_div(n, width[i]) * width[i] * cost[i];
    if (padded < least) {
      least = padded;
      best = width[i];
    }
  }
  return best;
}

static int64_t most_rows(const Contraction *c, const LowerTarget *t, int64_t lanes, int64_t nr) {
  int64_t vectors = ceil_div(nr, lanes), regs = t->vector_registers;
  int64_t mr = (regs - vectors - 1) / vectors;
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
  s->row_inner = weights > l2 / 2;
  if (s->row_inner && outer >= ITEMS_FEW / 2)
    s->rows = height;  // a panel is read from memory once
  else if (outer * height > ITEMS_MANY)
    s->rows = MIN(MAX(outer * height / ITEMS_MANY, 1), height);
}

// Rows of one kind: a chunk of them is an item.
static void choose_chunk(const Contraction *c, int64_t l2, int64_t bytes, ContractSchedule *s) {
  int64_t most = s->mr, k = contracted(c), panels = ceil_div(known(c->n, 256), s->nr);
  int64_t outer = outer_items(c, false) * ceil_div(panels, s->panels);
  s->row_inner = k * known(c->n, 256) * bytes > l2 / 2;
  if (!ie_is_const(c->m)) {
    s->rows = 8;
    return;
  }
  int64_t m = c->m->value, tiles = ceil_div(m, most), per = tiles;
  s->mr = ceil_div(m, tiles);
  s->rows = 0;
  while (per > 1 && (outer * ceil_div(tiles, per) < ITEMS_FEW || per * most * k * bytes > l2 / 2))
    per = ceil_div(per, 2);
  if (per == tiles) return;
  s->rows = per;
  s->mr = most;
  for (int64_t r = most; r > most * 2 / 3; r--)
    if (m % r == 0) {
      s->mr = r;
      break;
    }
}

void contract_choose(const Contraction *c, const LowerTarget *t, bool lhs_plain, bool rhs_plain,
                     bool heavy, ContractSchedule *s) {
  int64_t bytes = elem_bytes(c->acc), lanes = MAX(t->vector_bytes / bytes, 1);
  int64_t m = known(c->m, 256), k = contracted(c);
  *s = (ContractSchedule){.panels = 1, .unroll = 1, .spill = heavy};
  s->nr = choose_columns(c, lanes, m);
  s->mr = most_rows(c, t, lanes, s->nr);
  int64_t panels = ceil_div(known(c->n, 256), s->nr);
  bool one_k = c->nk == 1 && ie_is_const(c->k[0]) && k > 0;
  s->stage_lhs = !lhs_plain && one_k && s->mr * k * bytes <= t->l2 / 2 && panels > 1;
  s->stage_rhs = !c->weight && !rhs_plain && one_k && m > 4 && s->nr * k * bytes <= t->l2 / 2;
  if (s->stage_lhs && s->stage_rhs) s->stage_lhs = false;
  // Staged rows serve all panels of an item, as far as there are items enough.
  int64_t chunks = outer_items(c, false) * ceil_div(m, s->mr);
  if (s->stage_lhs) s->panels = chunks >= ITEMS_FEW ? panels : MAX(panels * chunks / ITEMS_FEW, 1);
  if (c->image) {
    int64_t tiles = ceil_div(c->m->value, s->mr);
    s->mr = ceil_div(c->m->value, tiles);
    choose_lines(c, t->l2, bytes, s);
  } else {
    choose_chunk(c, t->l2, bytes, s);
  }
  Dim last = c->nk ? c->k[c->nk - 1] : NULL;
  if (c->depthwise || !last || !ie_is_const(last)) return;
  s->unroll = last->value <= 4 ? MAX(last->value, 1) : last->value < 16 ? 1 : c->image ? 2 : 4;
  while (last->value % MAX(s->unroll, 1)) s->unroll--;
}
