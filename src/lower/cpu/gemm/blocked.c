// blocked.c -- the loops of template gemm with k_block: operands larger than the caches.
//
// A work item is a block of rows and several panels.  K is blocked too: for each block of K the
// rows are staged once and multiplied with every panel.  Partial sums stay in scratch between
// blocks.
//
// Needs:      floats, constant packed weights, constant K above k_block; rows divides item_rows
//             (contract_legal checks this).
// Guarantees: bit-equal to the loops without blocks: the order of K is the same, and a partial sum
//             is stored and loaded in its own type.
#include "lower/contract/contract.h"

static Dim num(Tiler *t, int64_t v) { return ie_const(t->e->pool, v); }
static Dim add(Tiler *t, Dim a, Dim b) { return ie_add(t->e->pool, a, b); }

enum { LINE = 64 };  // bytes of the cache's

typedef struct Block {
  Tiler *t;
  Dim start, rows,
      tiles;          // of the item: its first row, how many there are, and tiles that hold them
  Dim first, panels;  // its first panel, and how many
  int64_t count;      // contracted places of the block
} Block;

// The item's rows, those beyond the last as 0.
static bool stage_rows(Block *b) {
  Tiler *t = b->t;
  ElementBuilder *e = t->e;
  ContractPoint at;
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", ie_mulc(e->pool, b->tiles, t->s.rows));
  Dim k = loop_for(&e->b, LOOP_VECTOR, "k", num(t, b->count));
  elem_forget(e);
  contract_place(t, add(t, b->start, elem_guard(e, r, b->rows)), e->pool->zero, &at);
  at.k[0] = add(t, t->behind, k);
  const LoopExpr *x = contract_lhs_value(t, &at);
  elem_unguard(e, 0);
  elem_forget(e);
  if (!x) return false;
  loop_store(&e->b, t->lhs_buf, add(t, ie_mulc(e->pool, r, contract_pitch(t)), k), x);
  loop_end(&e->b);
  loop_end(&e->b);
  return true;
}

void contract_move_sums(Tiler *t, int64_t rows, Dim cell, bool back) {
  ElementBuilder *e = t->e;
  Dim r = loop_for(&e->b, LOOP_UNROLL, "r", num(t, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, t->s.cols));
  Dim in = add(t, ie_mulc(e->pool, r, t->s.cols), j), out = add(t, cell, in);
  if (back)
    loop_store(&e->b, t->so_far, out, loop_load(e->k, t->acc, in));
  else
    loop_store(&e->b, t->acc, in, loop_load(e->k, t->so_far, out));
  loop_end(&e->b);
  loop_end(&e->b);
}

// During a tile its share of the next panel is fetched, which comes from afar.
static void fetch_next(Block *b, Dim tile) {
  Tiler *t = b->t;
  IntPool *p = t->e->pool;
  int64_t line = LINE / elem_bytes(t->c->acc), lines = b->count * t->s.cols / line;
  int64_t rounds = MAX(b->count / t->s.unroll, 1), all = t->s.item_rows / t->s.rows * rounds;
  ContractPoint at = {.group = t->group, .k = {t->behind}};
  t->each = (lines + all - 1) / all * line;
  t->next = add(t, contract_packed(t, &at, num(t, t->c->depth * t->s.cols)),
                ie_mulc(p, tile, rounds * t->each));
}

// The tile whose first row is so far from the item's.
static bool block_tile(Block *b, Dim panel, Dim at, int64_t rows, bool last) {
  Tiler *t = b->t;
  IntPool *p = t->e->pool;
  Dim cell = add(t, ie_mulc(p, panel, t->s.item_rows * t->s.cols), ie_mulc(p, at, t->s.cols));
  t->staged = at;
  t->row = add(t, b->start, at);
  contract_move_sums(t, rows, cell, false);
  if (!contract_steps_of(t, rows, b->count)) return false;
  if (last) return contract_epilogue_of_tile(t, rows);
  contract_move_sums(t, rows, cell, true);
  return true;
}

static bool block_panels(Block *b, bool last) {
  Tiler *t = b->t;
  IntPool *p = t->e->pool;
  LoopBuilder *l = &t->e->b;
  Dim panel = loop_for(l, LOOP_SERIAL, "panel", b->panels), whole = b->tiles;
  int64_t rest = t->c->m->value % t->s.rows;  // of the last item alone
  t->panel = add(t, b->first, panel);
  t->col = ie_mulc(p, t->panel, t->s.cols);
  if (last) whole = ie_div(p, b->rows, num(t, t->s.rows));
  Dim tile = loop_for(l, LOOP_SERIAL, "tile", whole);
  fetch_next(b, tile);
  bool ok = block_tile(b, panel, ie_mulc(p, tile, t->s.rows), t->s.rows, last);
  loop_end(l);
  t->next = NULL;
  if (last && ok && rest) {
    loop_for(l, LOOP_SERIAL, "rest", ie_sub(p, b->tiles, whole));
    const LoopExpr *done = loop_index(t->e->k, ie_mulc(p, whole, t->s.rows));
    Dim at = loop_bind(l, "before", done, ie_addc(p, b->rows, 1 - rest), "rows lie outside");
    ok = block_tile(b, panel, at, rest, true);
    loop_end(l);
  }
  loop_end(l);
  return ok;
}

static void clear_sums(Block *b) {
  Tiler *t = b->t;
  ElementBuilder *e = t->e;
  Dim panel = loop_for(&e->b, LOOP_SERIAL, "panel", b->panels);
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", ie_mulc(e->pool, b->tiles, t->s.rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(t, t->s.cols));
  Dim at =
      add(t, ie_mulc(e->pool, panel, t->s.item_rows * t->s.cols), ie_mulc(e->pool, r, t->s.cols));
  loop_store(&e->b, t->so_far, add(t, at, j), loop_float(e->k, t->c->acc, 0));
  for (int i = 0; i < 3; i++) loop_end(&e->b);
}

bool contract_blocks(Tiler *t, Dim row_block) {
  IntPool *p = t->e->pool;
  int64_t depth = t->c->depth, step = t->s.k_block,
          n = (depth - 1) / step;  // whole ones before the last
  Dim all = ie_ceildiv(p, t->c->n, num(t, t->s.cols));
  Block b = {.t = t, .start = ie_mulc(p, row_block, t->s.item_rows), .count = step};
  b.rows = ie_min(p, num(t, t->s.item_rows), ie_sub(p, t->c->m, b.start));
  b.tiles = ie_ceildiv(p, b.rows, num(t, t->s.rows));
  b.first = ie_mulc(p, t->panel, t->s.item_panels);
  b.panels = ie_min(p, num(t, t->s.item_panels), ie_sub(p, all, b.first));
  clear_sums(&b);
  Dim block = loop_for(&t->e->b, LOOP_SERIAL, "block", num(t, n));
  t->behind = ie_mulc(p, block, step);
  if (!stage_rows(&b) || !block_panels(&b, false)) return false;
  loop_end(&t->e->b);
  b.count = depth - n * step;
  t->behind = num(t, n * step);
  return stage_rows(&b) && block_panels(&b, true);
}
