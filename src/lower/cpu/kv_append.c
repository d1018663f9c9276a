// kv_append.c -- template kv_append: rows put into the pages of a KV cache.
//
// Two rows may have one slot, and the later one counts.  So a work item has a head of every page,
// and puts that head of all rows there in order.
//
// Needs:      kv_append is the kernel's only result.
// Guarantees: in place (Lowering.in_place) the cache is not read, and of it only the rows' slots
//             are written; else it is copied first.  Every slot is checked when the kernel runs;
//             rows with a slot below 0 are left out.
#include "lower/cpu/kv_append.h"

#include "eval/paged.h"

enum { STATE, X, SLOT };

Append *append_begin(Lowering *lo, const Node *fused) {
  const Body *body = ((const fused_attrs *)fused->attrs)->body;
  const Node *y = body->result[0];
  if (body->nresults != 1 || y->op != OP_kv_append) return NULL;
  Append *a = arena_new(lo->arena, Append);
  const Node *state = y->src[STATE];
  if (!elem_begin(&a->e, lo, fused, &state, lo->in_place)) return NULL;
  if (type_of(y)->rank != 4 || type_of(y->src[X])->rank != 3 || type_of(y->src[SLOT])->rank != 1 ||
      !ie_is(type_of(y)->dims[2], LLM_PAGE) || type_is_empty(type_of(y)))
    return NULL;
  a->node = y;
  elem_shape(&a->e, type_of(y), a->shape);
  a->rows = elem_dim(&a->e, type_of(y->src[X])->dims[0]);
  return a;
}

// Where position `slot`, of all pages in a row, is in a head of the cache.
static Dim place(Append *a, Dim head, Dim slot, Dim d) {
  IntPool *p = a->e.pool;
  Dim page = ie_const(p, LLM_PAGE);
  return elem_linear(&a->e, 4, a->shape,
                     (Dim[]){ie_div(p, slot, page), head, ie_mod(p, slot, page), d});
}

bool append_pages(Append *a, Dim head, Dim d) {
  ElementBuilder *e = &a->e;
  LoopBuilder *b = &e->b;
  Dim n = loop_for(b, LOOP_SERIAL, "n", a->shape[0]),
      o = loop_for(b, LOOP_SERIAL, "o", a->shape[2]);
  Dim at[4] = {n, head, o, d ? d : loop_for(b, LOOP_VECTOR, "d", a->shape[3])};
  elem_forget(e);
  const LoopExpr *x = elem_at(e, a->node->src[STATE], at);
  if (!x) return false;
  loop_store(b, elem_result(e, 0), elem_linear(e, 4, a->shape, at), x);
  for (int i = d ? 1 : 0; i < 3; i++) loop_end(b);
  elem_forget(e);
  return true;
}

bool append_rows(Append *a, Dim head, Dim d) {
  ElementBuilder *e = &a->e;
  LoopBuilder *b = &e->b;
  LoopKernel *k = e->k;
  Dim t = loop_for(b, LOOP_SERIAL, "t", a->rows);
  elem_forget(e);
  const LoopExpr *slot = elem_at(e, a->node->src[SLOT], &t);
  if (!slot) return false;
  slot = loop_let(b, loop_cast(k, DT_I64, slot));
  loop_if(b, loop_op(k, LOOP_le, loop_int(k, DT_I64, 0), slot, NULL));
  Dim slots = ie_mulc(e->pool, a->shape[0], LLM_PAGE);
  Dim at = elem_checked(e, slot, slots, "a slot lies outside the KV cache");
  if (!at) return false;
  Dim in = d ? d : loop_for(b, LOOP_VECTOR, "d", a->shape[3]);
  elem_forget(e);
  const LoopExpr *x = elem_at(e, a->node->src[X], (Dim[]){t, head, in});
  if (!x) return false;
  loop_store(b, elem_result(e, 0), place(a, head, at, in),
             loop_cast(k, type_of(a->node)->dtype, x));
  for (int i = d ? 1 : 0; i < 3; i++) loop_end(b);
  elem_forget(e);
  return true;
}

static void *append_match(Lowering *lo, const Node *fused) { return append_begin(lo, fused); }

static bool append_build(void *match, const void *fields, Lowered *out) {
  Append *a = match;
  ElementBuilder *e = &a->e;
  (void)fields;
  loop_begin(&e->b, e->k);
  Dim head = loop_for(&e->b, LOOP_PARALLEL, "head", a->shape[1]);
  if (ie_is(a->shape[1], 1)) head = e->pool->zero;
  if (!e->lo->in_place && !append_pages(a, head, NULL)) return false;
  if (!append_rows(a, head, NULL)) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_kv_append = {.match = append_match, .build = append_build};
