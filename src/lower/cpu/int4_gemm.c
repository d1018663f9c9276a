// int4_gemm.c -- template int4_gemm: GEMM with weight-only quantized weights of 2, 4 or 8 bits.
//
// Weights are packed as words: word j of step k holds, from the low bits up, the weights of columns
// j, lanes + j, 2 lanes + j and so on.  A column group is masked out of the word and converted to a
// float that is too large by a power of two; the packed scales undo that, so nothing is shifted.
// Each quantization block has its own sum.  It starts with minus the zero point times the sum of x
// over the block.  A few rows share the converted weights.
//
// Needs:      one mat_mul_n_bits with constant weights, scales and zero points, and x in f32; all
//             sizes constant except the rows of x.
// Guarantees: products of a block are added in order, then scaled and added in the order of blocks.
//             Every field is FREE.  Declines where a packed scale is not a normal number.
#include "base/platform.h"
#include "eval/contrib.h"
#include "lower/element/epilogue.h"
#include "lower/template.h"

#include <math.h>

enum { ROWS_MOST = 4, SPARE = 7, CHUNK = 24, STEPS = 4 };

// The products of a quantization block are added in order, and the blocks in order, whatever the
// schedule.
#define INT4_GEMM_SCHEDULE(I, B, C, T)                                                             \
  I(T, rows, 0, 1, 32, 1, FREE, "rows of a register tile")                                         \
  I(T, lanes, 0, 1, 64, 0, FREE, "distance of the columns that share a packed word")               \
  I(T, item_rows, 24, 1, 1 << 16, 1, FREE, "rows of a work item")                                  \
  I(T, unroll, 4, 1, 64, 1, FREE, "unrolled K steps, where they divide a quantization block")
SCHEDULE_STRUCT(Int4Gemm, INT4_GEMM_SCHEDULE);
SCHEDULE_TABLE(Int4Gemm, INT4_GEMM_SCHEDULE);

typedef struct Bits {
  ElementBuilder e;
  EpilogueWalk walk;
  const Node *n;  // the anchor
  NBits q;
  int64_t lanes, groups, panels;  // groups of lanes columns in a panel
  Dim m;                          // rows of x
  const Node *words, *scale, *zero;
  int32_t word_buf, scale_buf, zero_buf;  // zero_buf < 0: one zero for all
  int32_t x_buf, sum_buf, blk, acc;       // staged x, its sums by block, registers, scratch
  int64_t rows_max, item_rows, unroll;    // of the schedule; rows_most: of a tile
  Dim panel, row;                         // at hand
  const LoopExpr *value;
} Bits;

static Dim num(Bits *b, int64_t v) { return ie_const(b->e.pool, v); }
static Dim plus(Bits *b, Dim x, Dim y) { return ie_add(b->e.pool, x, y); }
static Dim times(Bits *b, Dim x, int64_t by) { return ie_mulc(b->e.pool, x, by); }

// ---- constants ----

// What a node of the body is outside, where it is a constant.
static const Node *constant(const ElementBuilder *e, const Node *n) {
  if (n->op == OP_const) return n;
  for (int64_t i = 0; i < e->body->nparams; i++)
    if (e->body->param[i] == n && e->fused->src[i]->op == OP_const) return e->fused->src[i];
  return NULL;
}

static const void *bytes_of(Bits *b, const Node *n) {
  const void *p;
  return const_bytes(b->e.lo->g, n, &p, b->e.lo->diag) ? NULL : p;
}

// The last group is shifted down, others stay where they are.
static double group_factor(const Bits *b, int64_t group) {
  return group == b->groups - 1 ? 1 : ldexp(1, (int)(group * b->q.bits));
}

// n elements of 4 bytes each, which are 0; NULL: there is no memory.
static void *new_block(int64_t n) {
  int64_t bytes = MAX(n, 1) * 4;
  void *p = mem_alloc(bytes);
  if (p) memset(p, 0, (size_t)bytes);
  return p;
}

// The block as a constant: the graph takes it over.
static const Node *block_constant(Bits *b, DType t, int64_t n, void *block) {
  return node_const_take(b->e.lo->g, t, 1, &n, block, MAX(n, 1) * 4, NULL);
}

static const Node *pack_words(Bits *b, const uint8_t *w) {
  const NBits *q = &b->q;
  int64_t width = b->groups * b->lanes, n;
  if (!ck_mul(b->panels * b->lanes, q->depth, &n) || n > INT32_MAX) return NULL;
  uint32_t *out = new_block(n), mask = (1u << q->bits) - 1;
  for (int64_t row = 0; out && row < q->rows; row++) {
    uint32_t *to = out + row / width * q->depth * b->lanes + row % b->lanes;
    int shift = (int)(row % width / b->lanes * q->bits);
    for (int64_t k = 0; k < q->depth; w += q->bytes) {
      int64_t end = MIN(q->depth - k, q->block);
      for (int64_t t = 0; t < end; t++, k++, to += b->lanes)
        *to |= ((uint32_t)w[t * q->bits / 8] >> t * q->bits % 8 & mask) << shift;
    }
  }
  return out ? block_constant(b, DT_U32, n, out) : NULL;
}

// Floats by row and block as [panel, block, column], times what each group of columns needs; NULL
// where a factor leaves the normal numbers.
static const Node *pack_floats(Bits *b, const void *data, bool scales) {
  const NBits *q = &b->q;
  int64_t width = b->groups * b->lanes, n;
  if (!ck_mul(b->panels * width, q->blocks, &n) || n > INT32_MAX) return NULL;
  float *out = new_block(n);
  bool good = out != NULL;
  for (int64_t row = 0; good && row < q->rows; row++)
    for (int64_t block = 0; block < q->blocks; block++) {
      double by = group_factor(b, row % width / b->lanes);
      double v = get_f64(DT_F32, data, row * q->blocks + block);
      v = scales ? v / by : -v * by;
      good &= v == 0 || (fabs(v) >= 0x1p-120 && fabs(v) <= 0x1p120);
      out[(row / width * q->blocks + block) * width + row % width] = (float)v;
    }
  if (good) return block_constant(b, DT_F32, n, out);
  mem_free(out, MAX(n, 1) * 4);
  return NULL;
}

static bool pack_all(Bits *b) {
  const Node *w = constant(&b->e, b->n->src[1]), *s = constant(&b->e, b->n->src[2]);
  const Node *z = src_or_null(b->e.lo->g, b->n, 3);
  const void *p;
  if (!w || !s || (z && !(z = constant(&b->e, z)))) return false;
  if (!(p = bytes_of(b, w)) || !(b->words = pack_words(b, p))) return false;
  if (!(p = bytes_of(b, s)) || !(b->scale = pack_floats(b, p, true))) return false;
  if (z && (!(p = bytes_of(b, z)) || !(b->zero = pack_floats(b, p, false)))) return false;
  b->word_buf = elem_constant(&b->e, b->words, "w");
  b->scale_buf = elem_constant(&b->e, b->scale, "scale");
  b->zero_buf = b->zero ? elem_constant(&b->e, b->zero, "zero") : -1;
  return b->word_buf >= 0 && b->scale_buf >= 0 && (!b->zero || b->zero_buf >= 0);
}

// ---- rows ----

static void index_of_row(Bits *b, Dim row, Dim last, Dim *index) {
  const Type *x = type_of(b->n->src[0]);
  Dim shape[MAX_RANK];
  elem_shape(&b->e, x, shape);
  elem_split(&b->e, row, x->rank - 1, shape, index);
  index[x->rank - 1] = last;
}

// Copies rows of x, and sums each of their blocks.
static bool stage(Bits *b, int64_t rows) {
  ElementBuilder *e = &b->e;
  const NBits *q = &b->q;
  Dim index[MAX_RANK];
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", num(b, rows));
  Dim k = loop_for(&e->b, LOOP_VECTOR, "k", num(b, q->depth)), at = times(b, r, q->depth);
  elem_forget(e);
  index_of_row(b, plus(b, b->row, r), k, index);
  const LoopExpr *x = elem_at(e, b->n->src[0], index);
  if (!x) return false;
  loop_store(&e->b, b->x_buf, plus(b, at, k), x);
  loop_end(&e->b);
  for (int64_t whole = q->depth / q->block, part = 0; part < 2; part++) {
    int64_t blocks = part ? q->blocks - whole : whole;
    int64_t size = part ? q->depth - whole * q->block : q->block;
    if (!blocks) continue;
    Dim i = ie_addc(e->pool, loop_for(&e->b, LOOP_SERIAL, "b", num(b, blocks)), part ? whole : 0);
    Dim t = loop_reduce(&e->b, LOOP_add, "t", num(b, size), 8);
    Dim from = plus(b, at, plus(b, times(b, i, q->block), t));
    const LoopExpr *sum = loop_yield(&e->b, loop_load(e->k, b->x_buf, from));
    loop_store(&e->b, b->sum_buf, plus(b, times(b, r, q->blocks), i), sum);
    loop_end(&e->b);
  }
  loop_end(&e->b);
  return true;
}

// ---- sums ----

typedef struct Cell {
  Dim reg;     // of the register tile
  Dim column;  // of the panel
} Cell;

// A vector of a row's group of columns.
static Cell open_cell(Bits *b, int64_t row, int64_t group) {
  Dim j = loop_for(&b->e.b, LOOP_VECTOR, "j", num(b, b->lanes));
  int64_t reg = (row * b->groups + group) * b->lanes;
  return (Cell){ie_addc(b->e.pool, j, reg), ie_addc(b->e.pool, j, group * b->lanes)};
}

static Dim scale_index(Bits *b, Dim block, Dim column) {
  Dim at = plus(b, times(b, b->panel, b->q.blocks), block);
  return plus(b, times(b, at, b->groups * b->lanes), column);
}

// The sum of a block begins with what the zero takes off.
static void begin_block(Bits *b, int64_t rows, Dim block) {
  LoopKernel *k = b->e.k;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < b->groups; i++) {
      Cell c = open_cell(b, r, i);
      Dim at = ie_addc(b->e.pool, block, r * b->q.blocks);
      const LoopExpr *less =
          loop_float(k, DT_F32, -(double)((int64_t)1 << (b->q.bits - 1)) * group_factor(b, i));
      if (b->zero_buf >= 0) less = loop_load(k, b->zero_buf, scale_index(b, block, c.column));
      loop_store(&b->e.b, b->blk, c.reg,
                 loop_op(k, LOOP_mul, less, loop_load(k, b->sum_buf, at), NULL));
      loop_end(&b->e.b);
    }
}

// One step: the weights of a group, and every row's element times them.
static void step(Bits *b, int64_t rows, Dim at) {
  LoopKernel *k = b->e.k;
  for (int64_t i = 0; i < b->groups; i++)
    for (int64_t r = 0; r < rows; r++) {
      Cell c = open_cell(b, r, i);
      Dim lane = ie_addc(b->e.pool, c.column, -i * b->lanes);
      Dim word = plus(b, times(b, plus(b, times(b, b->panel, b->q.depth), at), b->lanes), lane);
      const LoopExpr *w = loop_load(k, b->word_buf, word);
      int64_t shift = i * b->q.bits, mask = ((int64_t)1 << b->q.bits) - 1;
      w = i == b->groups - 1
              ? loop_op(k, LOOP_shift_right, w, loop_int(k, DT_U32, shift), NULL)
              : loop_op(k, LOOP_bit_and, w, loop_int(k, DT_U32, mask << shift), NULL);
      w = loop_cast(k, DT_F32, loop_bit_cast(k, DT_I32, w));
      const LoopExpr *x = loop_load(k, b->x_buf, ie_addc(b->e.pool, at, r * b->q.depth));
      loop_store(&b->e.b, b->blk, c.reg, loop_op(k, LOOP_fma, x, w, loop_load(k, b->blk, c.reg)));
      loop_end(&b->e.b);
    }
}

static void end_block(Bits *b, int64_t rows, Dim block) {
  LoopKernel *k = b->e.k;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < b->groups; i++) {
      Cell c = open_cell(b, r, i);
      const LoopExpr *s = loop_load(k, b->scale_buf, scale_index(b, block, c.column));
      loop_store(&b->e.b, b->acc, c.reg,
                 loop_op(k, LOOP_fma, loop_load(k, b->blk, c.reg), s, loop_load(k, b->acc, c.reg)));
      loop_end(&b->e.b);
    }
}

static void blocks(Bits *b, int64_t rows, int64_t from, int64_t count, int64_t size) {
  LoopBuilder *l = &b->e.b;
  if (!count || !size) return;
  Dim block = ie_addc(b->e.pool, loop_for(l, LOOP_SERIAL, "b", num(b, count)), from);
  begin_block(b, rows, block);
  int64_t u = size % b->unroll ? 1 : b->unroll;
  Dim t = times(b, loop_for(l, LOOP_SERIAL, "t", num(b, size / u)), u);
  for (int64_t i = 0; i < u; i++)
    step(b, rows, ie_addc(b->e.pool, plus(b, times(b, block, b->q.block), t), i));
  loop_end(l);
  end_block(b, rows, block);
  loop_end(l);
}

// ---- tiles ----

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  (void)index;
  return ((Bits *)ctx)->value;
}

static bool store_sums(Bits *b, int64_t rows) {
  ElementBuilder *e = &b->e;
  int64_t width = b->groups * b->lanes;
  Dim index[MAX_RANK];
  Dim r = loop_for(&e->b, LOOP_SERIAL, "r", num(b, rows));
  Dim j = loop_for(&e->b, LOOP_VECTOR, "j", num(b, width));
  Dim col = plus(b, times(b, b->panel, width), j);
  elem_forget(e);
  if (b->q.rows % width) col = elem_guard(e, col, num(b, b->q.rows));
  b->value = loop_let(&e->b, loop_load(e->k, b->acc, plus(b, times(b, r, width), j)));
  index_of_row(b, plus(b, b->row, r), col, index);
  bool ok = epilogue_store(&b->walk, index);
  elem_unguard(e, 0);
  loop_end(&e->b);
  loop_end(&e->b);
  return ok;
}

static bool tile(Bits *b, int64_t rows) {
  const NBits *q = &b->q;
  int64_t width = rows * b->groups * b->lanes, whole = q->depth / q->block;
  if (!stage(b, rows)) return false;
  Dim j = loop_for(&b->e.b, LOOP_VECTOR, "j", num(b, width));
  loop_store(&b->e.b, b->acc, j, loop_float(b->e.k, DT_F32, 0));
  loop_end(&b->e.b);
  blocks(b, rows, 0, whole, q->block);
  blocks(b, rows, whole, q->blocks - whole, q->depth - whole * q->block);
  return store_sums(b, rows);
}

// `count` tiles of so many rows, the first at `from`.
static bool tiles(Bits *b, Dim from, Dim count, int64_t rows) {
  b->row = plus(b, from, times(b, loop_for(&b->e.b, LOOP_SERIAL, "tile", count), rows));
  bool ok = tile(b, rows);
  loop_end(&b->e.b);
  return ok;
}

// Rows of an item: tiles of two heights that differ by one; where their number is not known, whole
// tiles, and rows alone.
static bool item_rows(Bits *b, Dim start, Dim rows) {
  IntPool *p = b->e.pool;
  int64_t most = b->rows_max;
  if (!ie_is_const(rows)) {
    Dim n = ie_div(p, rows, num(b, most)), done = times(b, n, most);
    if (most > 1 && !tiles(b, start, n, most)) return false;
    if (most == 1) return tiles(b, start, rows, 1);
    return tiles(b, plus(b, start, done), ie_sub(p, rows, done), 1);
  }
  int64_t m = rows->value, n = (m + most - 1) / most, high = (m + n - 1) / n;
  int64_t count = m - n * (high - 1);
  if (!tiles(b, start, num(b, count), high)) return false;
  return count == n || tiles(b, ie_addc(p, start, count * high), num(b, n - count), high - 1);
}

static bool emit(Bits *b) {
  ElementBuilder *e = &b->e;
  IntPool *p = e->pool;
  int64_t cells = b->rows_max * b->groups * b->lanes;
  b->blk = loop_buffer(e->k, LOOP_REGISTER, "block", DT_F32, num(b, cells), false);
  b->acc = loop_buffer(e->k, LOOP_SCRATCH, "sums", DT_F32, num(b, cells), false);
  b->x_buf = loop_buffer(e->k, LOOP_SCRATCH, "x", DT_F32, num(b, b->rows_max * b->q.depth), false);
  b->sum_buf =
      loop_buffer(e->k, LOOP_SCRATCH, "x_sums", DT_F32, num(b, b->rows_max * b->q.blocks), false);
  loop_begin(&e->b, e->k);
  bool one = ie_is_const(b->m) && b->m->value <= b->item_rows;
  Dim chunks = one ? p->one : ie_ceildiv(p, b->m, num(b, b->item_rows));
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", ie_mul(p, chunks, num(b, b->panels)));
  b->panel = b->panels == 1 ? p->zero : ie_mod(p, item, num(b, b->panels));
  Dim chunk = one ? p->zero : b->panels == 1 ? item : ie_div(p, item, num(b, b->panels));
  if (one && b->panels > 1) b->panel = item;
  Dim start = times(b, chunk, b->item_rows), rows = one ? b->m : num(b, b->item_rows);
  if (!one && !(ie_is_const(b->m) && b->m->value % b->item_rows == 0))
    rows = ie_min(p, rows, ie_sub(p, b->m, start));
  if (!item_rows(b, start, rows)) return false;
  loop_end(&e->b);
  return true;
}

static const Node *find_anchor(ElementBuilder *e, const Node *fused) {
  const fused_attrs *at = fused->attrs;
  const Node *anchor = NULL;
  NodeList all = body_order(e->lo->g, at->body, e->a);
  for (int64_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_mat_mul_n_bits) anchor = all.v[i];
  return anchor;
}

// Sizes as numbers, but for the rows of x.
static bool sizes(Bits *b) {
  const Type *x = type_of(b->n->src[0]), *w = type_of(b->n->src[1]);
  for (int i = 0; i < 3; i++)
    if (!ie_is_const(w->dims[i])) return false;
  if (x->rank < 1 || !ie_is_const(x->dims[x->rank - 1])) return false;
  b->q = (NBits){.rows = w->dims[0]->value,
                 .blocks = w->dims[1]->value,
                 .bytes = w->dims[2]->value,
                 .bits = ((const mat_mul_n_bits_attrs *)b->n->attrs)->bits,
                 .depth = x->dims[x->rank - 1]->value};
  if (!int4_fits(&b->q) || b->q.rows < 1 || b->q.depth < 1) return false;
  b->groups = 32 / b->q.bits;
  return b->q.depth <= INT32_MAX / 64;
}

static void *int4_gemm_match(Lowering *lo, const Node *fused) {
  Bits *b = arena_new(lo->arena, Bits);
  ElementBuilder *e = &b->e;
  *e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  e->a = lo->arena;
  lo->why = "it has no GEMM with weight-only quantized weights";
  if (!(b->n = find_anchor(e, fused)) || !sizes(b)) return NULL;
  const Node *skip[3] = {b->n->src[1], b->n->src[2], src_or_null(lo->g, b->n, 3)};
  if (!elem_begin(e, lo, fused, skip, skip[2] ? 3 : 2)) return NULL;
  const Type *x = type_of(b->n->src[0]);
  b->m = e->pool->one;
  for (int i = 0; i < x->rank - 1; i++) b->m = ie_mul(e->pool, b->m, elem_dim(e, x->dims[i]));
  epilogue_begin(&b->walk, e, b->n);
  b->walk.own = epilogue_value(&b->walk, 0);
  for (int i = 0; i < fused->nres; i++)
    if (!b->walk.own || !epilogue_reads(&b->walk, e->body->result[i])) return NULL;
  elem_give(e, b->walk.own, give_value, b);
  return ie_is(b->m, 0) ? NULL : b;
}

static bool int4_gemm_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                             void *fields) {
  const Bits *b = match;
  Int4GemmSchedule *s = fields;
  (void)given;
  *s = (Int4GemmSchedule){.item_rows = CHUNK, .unroll = STEPS};
  s->lanes = MAX(t->vector_bytes / 4, 1);
  s->rows = MAX(MIN((t->vector_registers - SPARE) / b->groups, ROWS_MOST), 1);
  while (s->rows > 1 && s->rows * b->q.depth * 4 > t->l2 / 2) s->rows--;
  return true;
}

static bool int4_gemm_legal(const void *match, const LowerTarget *t, const void *fields,
                            const char **why) {
  enum { SCRATCH_MOST = 64 << 20 };  // bytes
  const Bits *b = match;
  const Int4GemmSchedule *s = fields;
  (void)t;
  *why =
      (double)s->rows * (double)b->q.depth * 4 > SCRATCH_MOST ? "its scratch is too large" : NULL;
  return !*why;
}

static bool int4_gemm_build(void *match, const void *fields, Lowered *out) {
  Bits *b = match;
  const Int4GemmSchedule *s = fields;
  b->lanes = s->lanes;
  b->rows_max = s->rows;
  b->item_rows = s->item_rows;
  b->unroll = s->unroll;
  b->panels = (b->q.rows + b->groups * b->lanes - 1) / (b->groups * b->lanes);
  if (!pack_all(b) || !emit(b)) return false;
  elem_finish(&b->e, out);
  return true;
}

static const char *const cheaper[] = {"int4_gemm rows=1 unroll=1", NULL};
const TemplateCode template_int4_gemm = {.match = int4_gemm_match,
                                         .choose = int4_gemm_choose,
                                         .legal = int4_gemm_legal,
                                         .build = int4_gemm_build,
                                         .cheaper = cheaper,
                                         SCHEDULE(Int4Gemm)};
