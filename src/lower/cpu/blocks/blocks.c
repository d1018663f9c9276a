// blocks.c -- template blocks: products with a matrix in ggml's block types, as its file holds it.
//
// A work item is a panel of columns, which are rows of the matrix, and up to some hundred rows of
// x.  It takes the matrix slab by slab: a few blocks of each column are unpacked to words in
// scratch (unpack.c), and every row of x is multiplied with them.  So a row of the matrix is read
// once, in order, whatever the number of rows of x, and lanes are columns: the words are laid out
// as `dot` takes them.  While a slab is unpacked its like of the next panel is prefetched.
//
// Products of integers sum a part of a block exactly in i32, multiply by the part's scale likewise,
// and add the block to the result by one or two fused multiply-adds.  A bias of the stored bytes is
// taken off by the sum of the codes of x that `quantize_blocks` left.  Products of floats unpack to
// f32 and add one element after the other; plain types (f16, bf16, 8 bits with scales) have no
// others.
//
// On a GPU a work item is a thread, which has one column and a few rows: items are many instead of
// large.
//
// Of several matrices an item takes those that its rows ask for, one after the other: the rows are
// sorted by matrix first (grouped.c), and those of a matrix are staged tile by tile.
//
// Needs:      one mat_mul_blocks of a type with a layout, of constant sizes but for the rows of x;
//             rows of plain types are whole words; x in f32, or quantised where products are of
//             integers.
// Guarantees: each sum is formed in the order of K by itself: no schedule, number of rows, order of
//             matrices or threads changes a bit.
#include "lower/cpu/blocks/grouped.h"
#include "lower/template.h"

// On a GPU a work item is one thread: one column and a few rows, a block at a time.
enum { THREAD_ROWS = 4 };
enum { SLAB_ELEMENTS = 256, ROWS_INT = 4, ROWS_FLOAT = 6, UNROLL = 8 };
enum { ITEM_ROWS = 256, ITEM_ROWS_GROUPED = 2048 };  // the latter are those of many matrices

#define BLOCKS_SCHEDULE(I, B, C, T)                                                                \
  I(T, rows, 0, 1, 16, 1, FREE, "rows of a register tile")                                         \
  I(T, cols, 0, 1, 256, 1, FREE, "columns of a panel")                                             \
  I(T, slab, 1, 1, 64, 1, FREE, "blocks that are unpacked at a time")                              \
  I(T, item_rows, 256, 1, 1 << 16, 1, FREE, "rows of a work item")                                 \
  B(T, prefetch, true, FREE, "prefetch the next panel")
SCHEDULE_STRUCT(Blocks, BLOCKS_SCHEDULE);
SCHEDULE_TABLE(Blocks, BLOCKS_SCHEDULE);

typedef struct Product {
  ElementBuilder e;
  EpilogueWalk walk;
  const Node *n;  // the anchor
  Unpack u;
  bool ints;
  int64_t k, columns, x_bytes, width;  // columns: of a matrix; width: those of a whole panel
  Dim m;                               // rows of the result
  RowGroups groups;                    // count 0: there is one matrix
  int32_t x;                           // integers: its argument; else -1
  int32_t staged;                      // a slab of some rows of x: floats, and of several matrices
  int32_t sums;                        // of the item's rows and columns, between slabs
  int32_t dot, total, least, acc;      // registers
  BlocksSchedule s;
  Dim start, panel;  // first row of the item; number of its panel
  Dim tile;          // number of the tile of rows
  Dim row;           // first row of the tile, counted from there; or among those of the matrix
  const LoopExpr *value;
} Product;

static Dim num(Product *b, int64_t v) { return ie_const(b->e.pool, v); }
static Dim plus(Product *b, Dim x, Dim y) { return ie_add(b->e.pool, x, y); }
static Dim times(Product *b, Dim x, int64_t by) { return ie_mulc(b->e.pool, x, by); }

static Dim open_cols(Product *b) { return loop_for(&b->e.b, LOOP_VECTOR, "j", num(b, b->s.cols)); }
static void close(Product *b, int loops) {
  while (loops--) loop_end(&b->e.b);
}
static Dim reg(Product *b, Dim r, Dim j) { return plus(b, times(b, r, b->s.cols), j); }

// Row `row` of the item in the sums.
static Dim sum_at(Product *b, Dim row, Dim j) { return plus(b, times(b, row, b->width), j); }

// Row `row` of the item, or of those of the matrix at hand, as a row of the result.
static Dim result_row(Product *b, Dim row) {
  return plus(b, b->start, b->groups.count ? groups_row(&b->groups, &b->e, row) : row);
}

// ---- integers ----

// Words of a block of a quantised row.
static int64_t x_words(const Product *b) { return x_block_bytes(b->u.t->x_block) / 4; }

// Word `word` of row r of the tile in block `at` of the slab.
static const LoopExpr *x_word(Product *b, Dim r, Dim at, Dim word) {
  if (b->staged >= 0) {
    Dim block = plus(b, times(b, r, b->u.slab), at);
    return loop_load(b->e.k, b->staged, plus(b, times(b, block, x_words(b)), word));
  }
  Dim byte = times(b, plus(b, times(b, plus(b, b->u.block, at), x_words(b)), word), 4);
  byte = plus(b, times(b, plus(b, plus(b, b->start, b->row), r), b->x_bytes), byte);
  return loop_wide(b->e.k, loop_load(b->e.k, b->x, byte));
}

static const LoopExpr *x_scale(Product *b, Dim r, Dim at) {
  return loop_bit_cast(b->e.k, DT_F32, x_word(b, r, at, num(b, b->u.t->x_block / 4)));
}

// The sum of the codes of x in a part of a block.
static const LoopExpr *x_sum(Product *b, Dim r, Dim at, Dim part) {
  const GgmlType *t = b->u.t;
  int64_t group = x_group(t->x_block), groups = t->part / group;
  const LoopExpr *sum = NULL;
  for (int64_t i = 0; i < groups; i++) {
    Dim word = ie_addc(b->e.pool, times(b, part, groups), x_sum_at(t->x_block) / 4 + i);
    const LoopExpr *one = loop_bit_cast(b->e.k, DT_I32, x_word(b, r, at, word));
    sum = sum ? loop_op(b->e.k, LOOP_add, sum, one, NULL) : one;
  }
  return sum;
}

static void set_registers(Product *b, int32_t buffer, int64_t rows) {
  DType t = b->e.k->buffer[buffer].dtype;
  const LoopExpr *zero = dtype_is_float(t) ? loop_float(b->e.k, t, 0) : loop_int(b->e.k, t, 0);
  Dim r = loop_for(&b->e.b, LOOP_UNROLL, "r", num(b, rows)), j = open_cols(b);
  loop_store(&b->e.b, buffer, reg(b, r, j), zero);
  close(b, 2);
}

// Begins the products of a part with what the bias of the bytes adds.
static void begin_part(Product *b, int64_t rows, Dim at, Dim part) {
  LoopKernel *k = b->e.k;
  if (!b->u.layout->bias) {
    set_registers(b, b->dot, rows);
    return;
  }
  Dim r = loop_for(&b->e.b, LOOP_UNROLL, "r", num(b, rows));
  const LoopExpr *less =
      loop_op(k, LOOP_mul, x_sum(b, r, at, part), loop_int(k, DT_I32, -b->u.layout->bias), NULL);
  less = loop_let(&b->e.b, less);
  Dim j = open_cols(b);
  loop_store(&b->e.b, b->dot, reg(b, r, j), less);
  close(b, 2);
}

static void multiply_part(Product *b, int64_t rows, Dim at, Dim part) {
  LoopKernel *k = b->e.k;
  int64_t words = b->u.t->part / 4, unroll = MIN(words, UNROLL);
  Dim i = times(b, loop_for(&b->e.b, LOOP_SERIAL, "i", num(b, words / unroll)), unroll);
  i = plus(b, i, loop_for(&b->e.b, LOOP_UNROLL, "u", num(b, unroll)));
  Dim r = loop_for(&b->e.b, LOOP_UNROLL, "r", num(b, rows)), j = open_cols(b);
  Dim word = plus(b, times(b, part, words), i);
  const LoopExpr *w = loop_load(k, b->u.words, unpacked_word(&b->u, at, word, j));
  const LoopExpr *x = x_word(b, r, at, word), *sum = loop_load(k, b->dot, reg(b, r, j));
  loop_store(&b->e.b, b->dot, reg(b, r, j), loop_op(k, LOOP_dot, w, x, sum));
  close(b, 4);
}

// With the first tile of rows alone.
static void fetch_part(Product *b, Dim at, Dim part) {
  if (!unpack_fetches(&b->u)) return;
  loop_where(&b->e.b, "first", b->tile, b->e.pool->one);
  unpack_fetch(&b->u, at, part);
  loop_end(&b->e.b);
}

// Adds the part to its block, times its scale, and its minimum times the sum of x.
static void end_part(Product *b, int64_t rows, Dim at, Dim part) {
  LoopKernel *k = b->e.k;
  if (b->u.scale < 0) return;
  Dim r = loop_for(&b->e.b, LOOP_UNROLL, "r", num(b, rows));
  const LoopExpr *of_x = NULL;
  if (b->least >= 0) of_x = loop_let(&b->e.b, x_sum(b, r, at, part));
  Dim j = open_cols(b), to = reg(b, r, j), from = unpacked_part(&b->u, at, part, j);
  const LoopExpr *dot =
      loop_op(k, LOOP_mul, loop_load(k, b->u.scale, from), loop_load(k, b->dot, to), NULL);
  loop_store(&b->e.b, b->total, to, loop_op(k, LOOP_add, loop_load(k, b->total, to), dot, NULL));
  if (of_x) {
    const LoopExpr *less = loop_op(k, LOOP_mul, loop_load(k, b->u.least, from), of_x, NULL);
    loop_store(&b->e.b, b->least, to, loop_op(k, LOOP_add, loop_load(k, b->least, to), less, NULL));
  }
  close(b, 2);
}

// What is left of a block is a product of its scale, that of x and a whole number.
static void end_block(Product *b, int64_t rows, Dim at) {
  LoopKernel *k = b->e.k;
  int32_t whole = b->total >= 0 ? b->total : b->dot;
  Dim r = loop_for(&b->e.b, LOOP_UNROLL, "r", num(b, rows));
  const LoopExpr *dx = loop_let(&b->e.b, x_scale(b, r, at)), *of_x = NULL;
  if (b->u.less >= 0 && b->least < 0) of_x = loop_let(&b->e.b, x_sum(b, r, at, b->e.pool->zero));
  Dim j = open_cols(b), to = reg(b, r, j), of = unpacked_block(&b->u, at, j);
  const LoopExpr *d = loop_op(k, LOOP_mul, loop_load(k, b->u.d, of), dx, NULL);
  const LoopExpr *acc = loop_op(k, LOOP_fma, loop_cast(k, DT_F32, loop_load(k, whole, to)), d,
                                loop_load(k, b->acc, to));
  if (b->u.less >= 0) {
    const LoopExpr *sum = of_x ? of_x : loop_load(k, b->least, to);
    d = loop_op(k, LOOP_mul, loop_load(k, b->u.less, of), dx, NULL);
    acc = loop_op(k, LOOP_fma, loop_cast(k, DT_F32, sum), d, acc);
  }
  loop_store(&b->e.b, b->acc, to, acc);
  close(b, 2);
}

// Copies what a slab meets of some rows of x: of several matrices alone.
static bool stage_words(Product *b, int64_t rows) {
  LoopKernel *k = b->e.k;
  int64_t words = b->u.slab * x_words(b);
  Dim r = loop_for(&b->e.b, LOOP_SERIAL, "r", num(b, rows));
  Dim row = groups_x_row(&b->groups, &b->e, result_row(b, plus(b, b->row, r)));
  Dim i = loop_for(&b->e.b, LOOP_VECTOR, "k", num(b, words));
  Dim byte = times(b, plus(b, times(b, b->u.block, x_words(b)), i), 4);
  const LoopExpr *x = loop_load(k, b->x, plus(b, times(b, row, b->x_bytes), byte));
  loop_store(&b->e.b, b->staged, plus(b, times(b, r, words), i), loop_wide(k, x));
  close(b, 2);
  return true;
}

static bool multiply_ints(Product *b, int64_t rows) {
  int64_t parts = b->u.t->block / b->u.t->part;
  if (b->staged >= 0 && !stage_words(b, rows)) return false;
  Dim at = loop_for(&b->e.b, LOOP_SERIAL, "b", num(b, b->u.slab));
  if (b->total >= 0) set_registers(b, b->total, rows);
  if (b->least >= 0) set_registers(b, b->least, rows);
  Dim part = loop_for(&b->e.b, LOOP_SERIAL, "p", num(b, parts));
  fetch_part(b, at, part);
  begin_part(b, rows, at, part);
  multiply_part(b, rows, at, part);
  end_part(b, rows, at, part);
  loop_end(&b->e.b);
  end_block(b, rows, at);
  loop_end(&b->e.b);
  return true;
}

// ---- floats ----

static int64_t slab_elements(const Product *b) { return b->u.slab * b->u.t->block; }

// Of rows of x, or of the result.
static void index_of_row(Product *b, const Type *t, Dim row, Dim last, Dim *index) {
  Dim shape[MAX_RANK];
  elem_shape(&b->e, t, shape);
  elem_split(&b->e, row, t->rank - 1, shape, index);
  index[t->rank - 1] = last;
}

// Copies what a slab meets of some rows of x.
static bool stage(Product *b, int64_t rows) {
  ElementBuilder *e = &b->e;
  Dim index[MAX_RANK];
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", num(b, rows));
  Dim row = result_row(b, plus(b, b->row, r));
  if (b->groups.count) row = groups_x_row(&b->groups, e, row);
  Dim i = loop_for(&e->b, LOOP_VECTOR, "k", num(b, slab_elements(b)));
  elem_forget(e);
  Dim at = plus(b, times(b, b->u.block, b->u.t->block), i);
  index_of_row(b, type_of(b->n->src[0]), row, at, index);
  const LoopExpr *x = elem_at(e, b->n->src[0], index);
  if (x) loop_store(&e->b, b->staged, plus(b, times(b, r, slab_elements(b)), i), x);
  close(b, 2);
  return x != NULL;
}

static bool multiply_floats(Product *b, int64_t rows) {
  const GgmlType *t = b->u.t;
  LoopKernel *k = b->e.k;
  if (!stage(b, rows)) return false;
  Dim at = loop_for(&b->e.b, LOOP_SERIAL, "b", num(b, b->u.slab));
  Dim part = loop_for(&b->e.b, LOOP_SERIAL, "p", num(b, t->block / t->part));
  fetch_part(b, at, part);
  int64_t each = unpacked_each(&b->u);
  Dim i = loop_for(&b->e.b, LOOP_SERIAL, "i", num(b, t->part / each));
  Dim word = plus(b, times(b, part, t->part / each), i);
  for (int n = 0; n < each; n++) {
    Dim r = loop_for(&b->e.b, LOOP_UNROLL, "r", num(b, rows)), j = open_cols(b);
    Dim of_x = plus(b, times(b, at, t->block), ie_addc(b->e.pool, times(b, word, each), n));
    const LoopExpr *w = unpacked_float(&b->u, at, part, word, n, j);
    const LoopExpr *x = loop_load(k, b->staged, plus(b, times(b, r, slab_elements(b)), of_x));
    const LoopExpr *acc = loop_load(k, b->acc, reg(b, r, j));
    loop_store(&b->e.b, b->acc, reg(b, r, j), loop_op(k, LOOP_fma, x, w, acc));
    close(b, 2);
  }
  close(b, 3);
  return true;
}

// ---- tiles, slabs, items ----

static void move_sums(Product *b, int64_t rows, Dim row, bool back) {
  Dim r = loop_for(&b->e.b, LOOP_UNROLL, "r", num(b, rows)), j = open_cols(b);
  Dim in = reg(b, r, j), out = sum_at(b, plus(b, row, r), j);
  loop_store(&b->e.b, back ? b->sums : b->acc, back ? out : in,
             loop_load(b->e.k, back ? b->acc : b->sums, back ? in : out));
  close(b, 2);
}

// `count` tiles of so many rows of the item, from row `from` on.
static bool tiles(Product *b, Dim from, Dim count, int64_t rows) {
  Dim tile = loop_for(&b->e.b, LOOP_SERIAL, "tile", count);
  b->tile = tile;
  b->row = plus(b, from, times(b, tile, rows));
  move_sums(b, rows, b->row, false);
  bool ok = b->ints ? multiply_ints(b, rows) : multiply_floats(b, rows);
  move_sums(b, rows, b->row, true);
  loop_end(&b->e.b);
  return ok;
}

// The slab with all rows: whole tiles, and what is left row by row.
static bool slab_rows(Product *b, Dim rows) {
  IntPool *p = b->e.pool;
  int64_t most = b->s.rows;
  Dim whole = ie_div(p, rows, num(b, most)), done = times(b, whole, most);
  if (!ie_is(whole, 0) && !tiles(b, p->zero, whole, most)) return false;
  Dim rest = ie_sub(p, rows, done);
  return most == 1 || ie_is(rest, 0) || tiles(b, done, rest, 1);
}

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  (void)index;
  return ((Product *)ctx)->value;
}

// Of a panel that is narrower than others the columns that there are; in the same way for all, so
// that items are seen to be disjoint.
static bool store_sums(Product *b, Dim rows) {
  ElementBuilder *e = &b->e;
  Dim index[MAX_RANK];
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", rows), to = result_row(b, r);
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(b, b->width));
  elem_forget(e);
  Dim col = plus(b, times(b, b->panel, b->width), j);
  if (b->columns % b->width) col = elem_guard(e, col, num(b, b->columns));
  b->value = loop_let(&e->b, loop_load(e->k, b->sums, sum_at(b, r, j)));
  index_of_row(b, type_of(b->n), to, col, index);
  bool ok = epilogue_store(&b->walk, index);
  elem_unguard(e, 0);
  close(b, 2);
  return ok;
}

// A panel of columns, which are rows of w from `first` on, with so many rows.
static bool panel_rows(Product *b, Dim first, Dim rows) {
  ElementBuilder *e = &b->e;
  int64_t slabs = b->k / slab_elements(b);
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", rows), j = open_cols(b);
  loop_store(&e->b, b->sums, sum_at(b, r, j), loop_float(e->k, DT_F32, 0));
  close(b, 2);
  Dim slab = loop_for(&e->b, LOOP_SERIAL, "slab", num(b, slabs));
  b->u.row = first;
  b->u.block = times(b, slab, b->u.slab);
  unpack_slab(&b->u);
  if (!slab_rows(b, rows)) return false;
  loop_end(&e->b);
  return store_sums(b, rows);
}

// The same with the item's rows, of each matrix that they take.
static bool panel(Product *b, Dim first, int64_t cols, Dim rows) {
  b->s.cols = b->u.cols = cols;
  if (!b->groups.count) return panel_rows(b, first, rows);
  Dim n, which = groups_begin(&b->groups, &b->e, &n);
  bool ok = panel_rows(b, plus(b, times(b, which, b->columns), first), n);
  groups_end(&b->e);
  return ok;
}

static int32_t registers(Product *b, const char *name, DType t) {
  return loop_buffer(b->e.k, LOOP_REGISTER, name, t, num(b, b->s.rows * b->s.cols), false);
}

static void declare(Product *b) {
  LoopKernel *k = b->e.k;
  unpack_buffers(&b->u);
  b->dot = b->ints ? registers(b, "dot", DT_I32) : -1;
  b->total = b->ints && b->u.scale >= 0 ? registers(b, "total", DT_I32) : -1;
  b->least = b->ints && b->u.least >= 0 ? registers(b, "minimum", DT_I32) : -1;
  b->acc = registers(b, "acc", DT_F32);
  b->sums = loop_buffer(k, LOOP_SCRATCH, "sums", DT_F32, num(b, b->s.item_rows * b->s.cols), false);
  b->staged = -1;
  if (!b->ints)
    b->staged =
        loop_buffer(k, LOOP_SCRATCH, "x", DT_F32, num(b, b->s.rows * slab_elements(b)), false);
  else if (b->groups.count)
    b->staged = loop_buffer(k, LOOP_SCRATCH, "x", DT_U32,
                            num(b, b->s.rows * b->s.slab * x_words(b)), false);
  if (b->groups.count) groups_declare(&b->groups, &b->e, b->s.item_rows);
}

// Items are panels, for each chunk of rows; the last panel may be narrower.
static bool emit(Product *b) {
  ElementBuilder *e = &b->e;
  IntPool *p = e->pool;
  int64_t cols = b->width = b->s.cols, whole = b->columns / cols, rest = b->columns % cols;
  int64_t panels = whole + (rest > 0);
  loop_begin(&e->b, e->k);
  bool one = ie_is_const(b->m) && b->m->value <= b->s.item_rows;
  Dim chunks = one ? p->one : ie_ceildiv(p, b->m, num(b, b->s.item_rows));
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", ie_mul(p, chunks, num(b, panels)));
  b->panel = panels == 1 ? p->zero : one ? item : ie_mod(p, item, num(b, panels));
  Dim chunk = one ? p->zero : panels == 1 ? item : ie_div(p, item, num(b, panels));
  b->start = times(b, chunk, b->s.item_rows);
  Dim rows = one ? b->m : num(b, b->s.item_rows);
  if (!one && !(ie_is_const(b->m) && b->m->value % b->s.item_rows == 0))
    rows = ie_min(p, rows, ie_sub(p, b->m, b->start));
  bool ok = !b->groups.count || groups_sort(&b->groups, &b->e, b->start, rows);
  if (ok && whole) {
    Dim at = rest ? loop_where(&e->b, "panel", b->panel, num(b, whole)) : b->panel;
    ok = panel(b, times(b, at, cols), cols, rows);
    if (rest) loop_end(&e->b);
  }
  if (ok && rest) {
    b->u.prefetch = false;
    loop_where(&e->b, "last", ie_addc(p, b->panel, -whole), p->one);
    ok = panel(b, num(b, whole * cols), rest, rows);
    loop_end(&e->b);
  }
  loop_end(&e->b);
  return ok;
}

// ---- the template ----

// Elements of a plain type as blocks: as many as divide k and a tile, and whole words.
static bool take_plain(Product *b, const mat_mul_blocks_attrs *at) {
  enum { PLAIN_BLOCK = 32 };
  const GgmlType *t = b->u.t;
  int64_t n = PLAIN_BLOCK;
  b->u.tile_k = at->scale_k && at->scale_k < at->k ? at->scale_k : at->k;
  while (n > 1 && (at->k % n || b->u.tile_k % n)) n /= 2;
  b->u.layout = block_plain(t);
  if (!b->u.layout || n * t->bytes % 4) return false;
  GgmlType *as = arena_new(b->e.a, GgmlType);
  *as = (GgmlType){.name = t->name,
                   .block = (int)n,
                   .bytes = (int)n * t->bytes,
                   .plain = t->plain,
                   .part = (int)n};
  b->u.t = as;
  return true;
}

static bool take_scales(Product *b, const mat_mul_blocks_attrs *at) {
  int64_t tiles[2];
  const Node *s = src_or_null(b->e.lo->g, b->n, 2);
  b->u.tiles = -1;
  if (!s) return true;
  if (!b->u.layout->plain || !block_scales(at, b->columns, tiles)) return false;
  b->u.tile_rows = at->scale_rows ? at->scale_rows : b->columns;
  b->u.tiles_row = tiles[1];
  b->u.tiles = blocks_argument(&b->e, s);
  return b->u.tiles >= 0;
}

// Sizes as numbers, but for the rows of x.
static bool sizes(Product *b) {
  const mat_mul_blocks_attrs *at = b->n->attrs;
  const Type *x = type_of(b->n->src[0]), *w = type_of(b->n->src[1]);
  b->u.t = block_type(at->type);
  b->k = at->k;
  if (at->k < 1 || at->groups < 1 || (b->u.t->plain && !take_plain(b, at))) return false;
  if (!b->u.t->plain) b->u.layout = block_layout(b->u.t);
  b->ints = at->activations == BLOCKS_INT8;
  if (!b->u.layout || x->rank < 1 || w->rank != 2 || !ie_is_const(w->dims[0]) ||
      !block_row_bytes(b->u.t, at->k, &b->u.row_bytes))
    return false;
  b->columns = w->dims[0]->value / at->groups;
  if (b->ints && (x->dtype != DT_U8 || !x_row_bytes(at->k, b->u.t->x_block, &b->x_bytes)))
    return false;
  return b->columns > 0 && at->k <= INT32_MAX / 64;
}

static void *blocks_match(Lowering *lo, const Node *fused) {
  Product *b = arena_new(lo->arena, Product);
  ElementBuilder *e = &b->e;
  *e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  e->a = lo->arena;
  lo->why = "it has no product with a matrix in a block type that kernels read";
  if (!(b->n = blocks_anchor(e, fused, OP_mat_mul_blocks)) || !sizes(b)) return NULL;
  if (!elem_begin(e, lo, fused, NULL, 0)) return NULL;
  const Type *y = type_of(b->n);
  b->m = e->pool->one;
  for (int i = 0; i < y->rank - 1; i++) b->m = ie_mul(e->pool, b->m, elem_dim(e, y->dims[i]));
  const Node *group = src_or_null(lo->g, b->n, 3);
  if (group) groups_init(&b->groups, e, b->n, group);
  b->u.matrix = blocks_argument(e, b->n->src[1]);
  b->x = b->ints ? blocks_argument(e, b->n->src[0]) : -1;
  if (b->u.matrix < 0 || (b->ints && b->x < 0) || !take_scales(b, b->n->attrs)) return NULL;
  epilogue_begin(&b->walk, e, b->n);
  b->walk.own = epilogue_value(&b->walk, 0);
  for (int i = 0; i < fused->nres; i++)
    if (!b->walk.own || !epilogue_reads(&b->walk, e->body->result[i])) return NULL;
  elem_give(e, b->walk.own, give_value, b);
  return ie_is(b->m, 0) ? NULL : b;
}

// The most blocks that divide a row into whole slabs.
static int64_t choose_slab(const Product *b) {
  int64_t blocks = b->k / b->u.t->block, most = MAX(SLAB_ELEMENTS / b->u.t->block, 1);
  int64_t n = MIN(most, blocks);
  while (blocks % n) n--;
  return n;
}

static bool blocks_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                          void *fields) {
  const Product *b = match;
  BlocksSchedule *s = fields;
  (void)given;
  enum { BURST = 24, STEPS = 4 };  // lines that are fetched at a time, and steps of a large block
  int64_t lanes = MAX(t->vector_bytes / 4, 1), wide = 2 * lanes;
  *s = (BlocksSchedule){.item_rows = b->groups.count ? ITEM_ROWS_GROUPED : ITEM_ROWS,
                        .prefetch = true,
                        .slab = choose_slab(b)};
  bool narrow = b->columns % wide && b->columns % lanes == 0;
  s->cols = narrow || wide * b->u.t->bytes > BURST * STEPS * 64 ? lanes : wide;
  s->rows = (b->ints ? ROWS_INT : ROWS_FLOAT) * (wide / s->cols);
  if (t->vector_registers < 32) s->rows = 2 * wide / s->cols;
  if (t->traits.gpu)
    *s = (BlocksSchedule){.rows = THREAD_ROWS, .cols = 1, .slab = 1, .item_rows = THREAD_ROWS};
  return true;
}

static bool blocks_legal(const void *match, const LowerTarget *t, const void *fields,
                         const char **why) {
  enum { SCRATCH_MOST = 64 << 20 };  // bytes
  const Product *b = match;
  const BlocksSchedule *s = fields;
  (void)t;
  double elements = (double)s->slab * b->u.t->block;
  double bytes =
      elements * (double)(2 * s->cols + 4 * s->rows) + 4.0 * (double)s->cols * (double)s->item_rows;
  *why = b->k / b->u.t->block % s->slab ? "slabs do not divide a row"
         : bytes > SCRATCH_MOST         ? "its scratch is too large"
                                        : NULL;
  return !*why;
}

static bool blocks_build(void *match, const void *fields, Lowered *out) {
  Product *b = match;
  b->s = *(const BlocksSchedule *)fields;
  if (ie_is_const(b->m)) {
    b->s.rows = MIN(b->s.rows, b->m->value);
    b->s.item_rows = MIN(b->s.item_rows, b->m->value);
  }
  b->u.b = &b->e.b;
  b->u.k = b->e.k;
  b->u.p = b->e.pool;
  b->u.cols = b->s.cols;
  b->u.slab = b->s.slab;
  b->u.prefetch = b->s.prefetch;
  declare(b);
  if (!emit(b)) return false;
  elem_finish(&b->e, out);
  return true;
}

static const char *const cheaper[] = {"blocks rows=1 cols=4 slab=1", NULL};
const TemplateCode template_blocks = {.match = blocks_match,
                                      .choose = blocks_choose,
                                      .legal = blocks_legal,
                                      .build = blocks_build,
                                      .cheaper = cheaper,
                                      SCHEDULE(Blocks)};
