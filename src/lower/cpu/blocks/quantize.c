// quantize.c -- template blocks_quantize: rows in 8 bits with a scale a block, for products of
// integers.
//
// A work item is some blocks of a row, on a GPU one: there an item is a thread.  A block is read
// for its largest magnitude, then for its codes, then for their sums, which are formed again rather
// than read back.
//
// Needs:      one quantize_blocks alone; a last axis of known length.
// Guarantees: the bits of the reference evaluation, which has the formulas (eval/blocks.c).
#include "lower/cpu/blocks/blocks.h"

#include "lower/template.h"

enum { ITEM_ELEMENTS = 2048, LANES = 16 };

#define BLOCKS_QUANTIZE_SCHEDULE(I, B, C, T)                                                       \
  I(T, blocks, 1, 1, 1 << 16, 1, FREE, "blocks of a work item, which divide those of a row")
SCHEDULE_STRUCT(BlocksQuantize, BLOCKS_QUANTIZE_SCHEDULE);
SCHEDULE_TABLE(BlocksQuantize, BLOCKS_QUANTIZE_SCHEDULE);

typedef struct Quantize {
  ElementBuilder e;
  const Node *n;
  int64_t k, block, row_bytes;
  Dim m, row, at;  // rows; those of the item, and the block at hand
} Quantize;

static Dim times(Quantize *q, Dim x, int64_t by) { return ie_mulc(q->e.pool, x, by); }
static Dim plus(Quantize *q, Dim x, Dim y) { return ie_add(q->e.pool, x, y); }

// Element i of the block at hand.
static const LoopExpr *element(Quantize *q, Dim i) {
  const Type *x = type_of(q->n->src[0]);
  Dim shape[MAX_RANK], index[MAX_RANK];
  elem_forget(&q->e);
  elem_shape(&q->e, x, shape);
  elem_split(&q->e, q->row, x->rank - 1, shape, index);
  index[x->rank - 1] = plus(q, times(q, q->at, q->block), i);
  return elem_at(&q->e, q->n->src[0], index);
}

static const LoopExpr *f32(Quantize *q, double v) { return loop_float(q->e.k, DT_F32, v); }

static const LoopExpr *code(Quantize *q, const LoopExpr *x, const LoopExpr *by) {
  LoopKernel *k = q->e.k;
  x = elem_clamped(k, loop_op(k, LOOP_mul, x, by, NULL), -127, 127);
  return elem_rounded(k, x, 0, DT_I32);
}

// At a byte of the block at hand.
static void put(Quantize *q, Dim byte, const LoopExpr *v) {
  Dim at = plus(q, times(q, q->at, x_block_bytes(q->block)), byte);
  loop_store(&q->e.b, elem_result(&q->e, 0), plus(q, times(q, q->row, q->row_bytes), at), v);
}

static bool quantize_block(Quantize *q) {
  ElementBuilder *e = &q->e;
  LoopKernel *k = e->k;
  IntPool *p = e->pool;
  int64_t group = x_group(q->block);
  Dim i = loop_reduce(&e->b, LOOP_max, "i", ie_const(p, q->block), LANES);
  const LoopExpr *x = element(q, i);
  if (!x) return false;
  // Magnitudes are at least 0, which the least number must not be.
  const LoopExpr *most = loop_yield(&e->b, loop_op(k, LOOP_abs, x, NULL, NULL));
  const LoopExpr *none = loop_let(&e->b, loop_op(k, LOOP_lt, most, f32(q, X_LEAST), NULL));
  const LoopExpr *d = loop_op(k, LOOP_div, most, f32(q, 127), NULL);
  const LoopExpr *by = loop_op(k, LOOP_div, f32(q, 127), most, NULL);
  d = loop_op(k, LOOP_select, none, f32(q, 0), d);
  by = loop_let(&e->b, loop_op(k, LOOP_select, none, f32(q, 0), by));
  put(q, ie_const(p, q->block), loop_bit_cast(k, DT_U32, d));
  i = loop_for(&e->b, LOOP_VECTOR, "i", ie_const(p, q->block));
  const LoopExpr *byte = loop_cast(k, DT_I8, code(q, element(q, i), by));
  put(q, i, loop_bit_cast(k, DT_U8, byte));
  loop_end(&e->b);
  Dim g = loop_for(&e->b, LOOP_SERIAL, "g", ie_const(p, q->block / group));
  i = loop_reduce(&e->b, LOOP_add, "i", ie_const(p, group), LANES);
  const LoopExpr *sum = loop_yield(&e->b, code(q, element(q, plus(q, times(q, g, group), i)), by));
  put(q, ie_addc(p, times(q, g, 4), x_sum_at(q->block)), loop_bit_cast(k, DT_U32, sum));
  loop_end(&e->b);
  return true;
}

static void *blocks_quantize_match(Lowering *lo, const Node *fused) {
  Quantize *q = arena_new(lo->arena, Quantize);
  ElementBuilder *e = &q->e;
  *e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  e->a = lo->arena;
  lo->why = "it does not quantise blocks alone";
  if (!(q->n = blocks_anchor(e, fused, OP_quantize_blocks)) || fused->nres != 1 ||
      e->body->result[0] != q->n)
    return NULL;
  const Type *x = type_of(q->n->src[0]);
  q->block = ((const quantize_blocks_attrs *)q->n->attrs)->block;
  if (x->rank < 1 || !ie_is_const(x->dims[x->rank - 1])) return NULL;
  q->k = x->dims[x->rank - 1]->value;
  if (q->k < 1 || !x_row_bytes(q->k, q->block, &q->row_bytes)) return NULL;
  if (!elem_begin(e, lo, fused, NULL, 0)) return NULL;
  q->m = e->pool->one;
  for (int i = 0; i < x->rank - 1; i++) q->m = ie_mul(e->pool, q->m, elem_dim(e, x->dims[i]));
  return ie_is(q->m, 0) ? NULL : q;
}

static bool blocks_quantize_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                                   void *fields) {
  const Quantize *q = match;
  int64_t blocks = q->k / q->block, n = MIN(MAX(ITEM_ELEMENTS / q->block, 1), blocks);
  (void)given;
  if (t->traits.gpu) n = 1;
  while (blocks % n) n--;
  *(BlocksQuantizeSchedule *)fields = (BlocksQuantizeSchedule){.blocks = n};
  return true;
}

static bool blocks_quantize_legal(const void *match, const LowerTarget *t, const void *fields,
                                  const char **why) {
  const Quantize *q = match;
  (void)t;
  bool divides = q->k / q->block % ((const BlocksQuantizeSchedule *)fields)->blocks == 0;
  *why = divides ? NULL : "its blocks do not divide those of a row";
  return divides;
}

static bool blocks_quantize_build(void *match, const void *fields, Lowered *out) {
  Quantize *q = match;
  ElementBuilder *e = &q->e;
  IntPool *p = e->pool;
  int64_t n = ((const BlocksQuantizeSchedule *)fields)->blocks, pieces = q->k / q->block / n;
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", ie_mul(p, q->m, ie_const(p, pieces)));
  q->row = pieces == 1 ? item : ie_div(p, item, ie_const(p, pieces));
  Dim piece = pieces == 1 ? p->zero : ie_mod(p, item, ie_const(p, pieces));
  Dim b = loop_for(&e->b, LOOP_SERIAL, "b", ie_const(p, n));
  q->at = plus(q, times(q, piece, n), b);
  if (!quantize_block(q)) return false;
  loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_blocks_quantize = {.match = blocks_quantize_match,
                                               .choose = blocks_quantize_choose,
                                               .legal = blocks_quantize_legal,
                                               .build = blocks_quantize_build,
                                               SCHEDULE(BlocksQuantize)};
