// gather.c -- template blocks_gather: rows of a matrix in ggml's block types, in f32.
//
// A work item is a row: its number is read and checked, and its blocks are unpacked as a panel of
// one column (unpack.c).
//
// Needs:      one gather_blocks alone, of a type with a layout, from a matrix of known size.
// Guarantees: the bits of ggml's decoder.
#include "lower/cpu/blocks/blocks.h"

#include "lower/template.h"

typedef struct Gather {
  ElementBuilder e;
  const Node *n;
  Unpack u;
  int64_t k, rows;
} Gather;

static void *blocks_gather_match(Lowering *lo, const Node *fused) {
  Gather *g = arena_new(lo->arena, Gather);
  ElementBuilder *e = &g->e;
  *e =
      (ElementBuilder){.lo = lo, .fused = fused, .body = ((const fused_attrs *)fused->attrs)->body};
  e->a = lo->arena;
  lo->why = "it does not gather rows of blocks alone";
  if (!(g->n = blocks_anchor(e, fused, OP_gather_blocks)) || fused->nres != 1 ||
      e->body->result[0] != g->n)
    return NULL;
  const gather_blocks_attrs *at = g->n->attrs;
  const Type *w = type_of(g->n->src[0]);
  g->u.t = block_type(at->type);
  g->u.layout = block_layout(g->u.t);
  g->k = at->k;
  if (!g->u.layout || w->rank != 2 || !ie_is_const(w->dims[0]) || at->k < 1 ||
      type_of(g->n->src[1])->rank < 0 || !block_row_bytes(g->u.t, at->k, &g->u.row_bytes))
    return NULL;
  g->rows = w->dims[0]->value;
  if (g->rows < 1 || type_is_empty(type_of(g->n)) || !elem_begin(e, lo, fused, NULL, 0))
    return NULL;
  g->u.matrix = blocks_argument(e, g->n->src[0]);
  return g->u.matrix < 0 ? NULL : g;
}

// Stores what was unpacked of the block at hand.
static void store_block(Gather *g, Dim item, Dim block) {
  ElementBuilder *e = &g->e;
  IntPool *p = e->pool;
  const GgmlType *t = g->u.t;
  int64_t words = t->part / 4;
  Dim part = loop_for(&e->b, LOOP_SERIAL, "p", ie_const(p, t->block / t->part));
  Dim i = loop_for(&e->b, LOOP_VECTOR, "i", ie_const(p, words));
  Dim word = ie_add(p, ie_mulc(p, part, words), i);
  for (int byte = 0; byte < 4; byte++) {
    const LoopExpr *v = unpacked_float(&g->u, p->zero, part, word, byte, p->zero);
    Dim at = ie_add(p, ie_mulc(p, block, t->block), ie_addc(p, ie_mulc(p, word, 4), byte));
    loop_store(&e->b, elem_result(e, 0), ie_add(p, ie_mulc(p, item, g->k), at), v);
  }
  loop_end(&e->b);
  loop_end(&e->b);
}

static bool blocks_gather_build(void *match, const void *fields, Lowered *out) {
  Gather *g = match;
  ElementBuilder *e = &g->e;
  IntPool *p = e->pool;
  const Type *ids = type_of(g->n->src[1]);
  Dim shape[MAX_RANK], index[MAX_RANK], items = p->one;
  (void)fields;
  elem_shape(e, ids, shape);
  for (int i = 0; i < ids->rank; i++) items = ie_mul(p, items, shape[i]);
  g->u.b = &e->b;
  g->u.k = e->k;
  g->u.p = p;
  g->u.cols = g->u.slab = 1;
  g->u.tiles = -1;
  unpack_buffers(&g->u);
  loop_begin(&e->b, e->k);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, ids->rank, shape, index);
  const LoopExpr *id = elem_at(e, g->n->src[1], index);
  if (!id) return false;
  g->u.row = elem_bound(e, id, ie_const(p, g->rows));
  g->u.block = loop_for(&e->b, LOOP_SERIAL, "block", ie_const(p, g->k / g->u.t->block));
  unpack_slab(&g->u);
  store_block(g, item, g->u.block);
  loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_blocks_gather = {.match = blocks_gather_match,
                                             .build = blocks_gather_build};
