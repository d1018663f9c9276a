// ragged.c -- template ragged_linear_attention: rows of several sequences through their states, in
// one kernel.
//
// A work item has some columns of the states of a head, of all sequences.  Columns of a state do
// not depend on each other, so it goes through all rows in order without any other item.  The new
// states are changed where they are written, which is memory of this item alone.
//
// Needs:      one ragged_linear_attention, both of whose results are used as they are; constant
//             heads and sizes; states in f32.
// Guarantees: a row's bits depend on its sequence's state and rows alone.  Sums in f32, over
//             elements of the key in order, so every field is FREE.  A row's sequence is checked
//             when the kernel runs.
#include "lower/element/element.h"
#include "lower/template.h"

#include "eval/ragged.h"
#include "ir/internal.h"

#include <math.h>

enum { Q, K, V, PAST, SEQ, DECAY, BETA };
enum { MAX_HEADS = 1 << 12, MAX_SIZE = 1 << 12 };

typedef struct Ragged {
  ElementBuilder e;
  const Node *anchor, *const *src;
  const Node *beta;  // NULL: absent
  int64_t heads, dk, dv, cols;
  double scale;
  int32_t y, state, keys, values, tile;  // results 0 and 1; scratch; registers
  int result;                            // of the kernel that is y
  Dim rows, seqs, shape[4];              // of the states
  // Where the loops stand.
  Dim head, col, row, seq;
} Ragged;

#define RAGGED_SCHEDULE(I, B, C, T)                                                                \
  I(T, cols, 16, 1, 1 << 12, 1, FREE, "columns of a work item, which divide the size of values")
SCHEDULE_STRUCT(Ragged, RAGGED_SCHEDULE);
SCHEDULE_TABLE(Ragged, RAGGED_SCHEDULE);

// ---- what is computed ----

// The anchor whose two results the kernel has, in either order.
static bool find_anchor(Ragged *r) {
  const Body *body = r->e.body;
  for (int i = 0; i < 2; i++) {
    const Node *p = body->result[i];
    if (p->op != OP_proj || p->src[0]->op != OP_ragged_linear_attention) return false;
    if (((const proj_attrs *)p->attrs)->index == 0) r->result = i;
    r->anchor = p->src[0];
  }
  r->src = (const Node *const *)r->anchor->src;
  return body->result[0]->src[0] == body->result[1]->src[0] && body->result[0] != body->result[1];
}

static bool number(Dim d, int64_t most, int64_t *out) {
  if (!ie_is_const(d) || d->value < 1 || d->value > most) return false;
  *out = d->value;
  return true;
}

static void *ragged_match(Lowering *lo, const Node *fused) {
  Ragged *r = arena_new(lo->arena, Ragged);
  ElementBuilder *e = &r->e;
  if (fused->nres != 2 || !elem_begin(e, lo, fused, NULL, 0) || !find_anchor(r)) return NULL;
  const Type *past = type_of(r->src[PAST]), *q = type_of(r->src[Q]);
  double scale = ((const ragged_linear_attention_attrs *)r->anchor->attrs)->scale;
  if (past->rank != 4 || past->dtype != DT_F32 || q->rank != 3 || q->dtype == DT_F64) return NULL;
  if (!number(past->dims[1], MAX_HEADS, &r->heads) || !number(past->dims[2], MAX_SIZE, &r->dk) ||
      !number(past->dims[3], MAX_SIZE, &r->dv) || ie_is(past->dims[0], 0))
    return NULL;
  r->beta = src_or_null(lo->g, r->anchor, BETA);
  r->scale = scale != 0 ? scale : 1 / sqrt((double)r->dk);
  r->rows = elem_dim(e, q->dims[0]);
  elem_shape(e, past, r->shape);
  r->seqs = r->shape[0];
  r->y = elem_result(e, r->result);
  r->state = elem_result(e, 1 - r->result);
  return r;
}

static bool ragged_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                          void *fields) {
  const Ragged *r = match;
  RaggedSchedule *s = fields;
  int64_t most = t->block_threads ? 1 : 4 * MAX(t->vector_bytes / 4, 1);
  (void)given;
  s->cols = MIN(most, r->dv);
  while (r->dv % s->cols) s->cols--;
  return true;
}

static bool ragged_legal(const void *match, const LowerTarget *t, const void *fields,
                         const char **why) {
  (void)t;
  *why = ((const Ragged *)match)->dv % ((const RaggedSchedule *)fields)->cols
             ? "cols does not divide the size of values"
             : NULL;
  return !*why;
}

// ---- loops ----

static Dim num(Ragged *r, int64_t v) { return ie_const(r->e.pool, v); }
static const LoopExpr *op2(Ragged *r, LoopOp op, const LoopExpr *x, const LoopExpr *y) {
  return loop_op(r->e.k, op, x, y, NULL);
}
static const LoopExpr *cell(Ragged *r, int32_t buffer, Dim at) {
  return loop_load(r->e.k, buffer, at);
}
static Dim enter(Ragged *r, LoopKind kind, const char *name, int64_t extent) {
  return loop_for(&r->e.b, kind, name, num(r, extent));
}
static void leave(Ragged *r, int n) {
  while (n-- > 0) loop_end(&r->e.b);
  elem_forget(&r->e);
}
// An operand's element in f32; NULL: it has none.
static const LoopExpr *element(Ragged *r, int i, const Dim *at) {
  elem_forget(&r->e);
  const LoopExpr *x = elem_at(&r->e, r->src[i], at);
  return x ? loop_cast(r->e.k, DT_F32, x) : NULL;
}
static Dim column(Ragged *r, Dim j) { return ie_add(r->e.pool, r->col, j); }
static Dim place(Ragged *r, Dim i, Dim j) {
  return elem_linear(&r->e, 4, r->shape, (Dim[]){r->seq, r->head, i, column(r, j)});
}

static bool copy_states(Ragged *r) {
  LoopBuilder *b = &r->e.b;
  r->seq = loop_for(b, LOOP_SERIAL, "s", r->seqs);
  Dim i = enter(r, LOOP_SERIAL, "i", r->dk), j = enter(r, LOOP_VECTOR, "j", r->cols);
  const LoopExpr *x = element(r, PAST, (Dim[]){r->seq, r->head, i, column(r, j)});
  if (!x) return false;
  loop_store(b, r->state, place(r, i, j), x);
  leave(r, 3);
  return true;
}

// The row's query or key into scratch.
static bool copy_row(Ragged *r, int from, int64_t to) {
  Dim i = enter(r, LOOP_VECTOR, "i", r->dk);
  const LoopExpr *x = element(r, from, (Dim[]){r->row, r->head, i});
  if (!x) return false;
  loop_store(&r->e.b, r->keys, ie_addc(r->e.pool, i, to), x);
  leave(r, 1);
  return true;
}

static void clear_tile(Ragged *r) {
  Dim j = enter(r, LOOP_VECTOR, "j", r->cols);
  loop_store(&r->e.b, r->tile, j, loop_float(r->e.k, DT_F32, 0));
  leave(r, 1);
}

// What is added to the state for each element of the key: the values, or with beta what they
// differ from what the decayed state has for the key.
static bool make_values(Ragged *r, const LoopExpr *decay) {
  LoopBuilder *b = &r->e.b;
  const LoopExpr *beta = NULL;
  if (r->beta) {
    clear_tile(r);
    Dim i = enter(r, LOOP_SERIAL, "i", r->dk), j = enter(r, LOOP_VECTOR, "j", r->cols);
    const LoopExpr *k = cell(r, r->keys, ie_addc(r->e.pool, i, r->dk));
    const LoopExpr *s = cell(r, r->state, place(r, i, j));
    loop_store(b, r->tile, j, loop_op(r->e.k, LOOP_fma, k, s, cell(r, r->tile, j)));
    leave(r, 2);
    if (!(beta = element(r, BETA, (Dim[]){r->row, r->head}))) return false;
    beta = loop_let(b, beta);
  }
  Dim j = enter(r, LOOP_VECTOR, "j", r->cols);
  const LoopExpr *v = element(r, V, (Dim[]){r->row, r->head, column(r, j)});
  if (!v) return false;
  if (beta) {
    const LoopExpr *has = op2(r, LOOP_mul, decay, cell(r, r->tile, j));
    v = op2(r, LOOP_mul, beta, op2(r, LOOP_sub, v, has));
  }
  loop_store(b, r->values, j, v);
  leave(r, 1);
  return true;
}

static void change_state(Ragged *r, const LoopExpr *decay) {
  LoopBuilder *b = &r->e.b;
  LoopKernel *k = r->e.k;
  clear_tile(r);
  Dim i = enter(r, LOOP_SERIAL, "i", r->dk), j = enter(r, LOOP_VECTOR, "j", r->cols);
  const LoopExpr *s = op2(r, LOOP_mul, decay, cell(r, r->state, place(r, i, j)));
  const LoopExpr *key = cell(r, r->keys, ie_addc(r->e.pool, i, r->dk));
  s = loop_let(b, loop_op(k, LOOP_fma, key, cell(r, r->values, j), s));
  loop_store(b, r->state, place(r, i, j), s);
  const LoopExpr *sum = loop_op(k, LOOP_fma, cell(r, r->keys, i), s, cell(r, r->tile, j));
  loop_store(b, r->tile, j, sum);
  leave(r, 2);
}

static bool take_row(Ragged *r) {
  ElementBuilder *e = &r->e;
  LoopBuilder *b = &e->b;
  LoopKernel *k = e->k;
  elem_forget(e);
  const LoopExpr *seq = elem_at(e, r->src[SEQ], &r->row), *decay;
  if (!seq) return false;
  r->seq = loop_bind(b, "seq", loop_cast(k, DT_I64, seq), r->seqs, "a row's sequence has no state");
  if (!copy_row(r, Q, 0) || !copy_row(r, K, r->dk)) return false;
  if (!(decay = element(r, DECAY, (Dim[]){r->row, r->head}))) return false;
  decay = loop_let(b, loop_op(k, LOOP_exp, decay, NULL, NULL));
  if (!make_values(r, decay)) return false;
  change_state(r, decay);
  Dim j = enter(r, LOOP_VECTOR, "j", r->cols), at[3] = {r->row, r->head, column(r, j)};
  Dim shape[3] = {r->rows, num(r, r->heads), num(r, r->dv)};
  const LoopExpr *y = op2(r, LOOP_mul, cell(r, r->tile, j), loop_float(k, DT_F32, r->scale));
  loop_store(b, r->y, elem_linear(e, 3, shape, at), loop_cast(k, type_of(r->src[Q])->dtype, y));
  leave(r, 1);
  return true;
}

static int32_t buffer(Ragged *r, LoopSpace space, const char *name, int64_t n) {
  return loop_buffer(r->e.k, space, name, DT_F32, num(r, n), false);
}

static bool ragged_build(void *match, const void *fields, Lowered *out) {
  Ragged *r = match;
  ElementBuilder *e = &r->e;
  r->cols = ((const RaggedSchedule *)fields)->cols;
  r->keys = buffer(r, LOOP_SCRATCH, "keys", 2 * r->dk);
  r->values = buffer(r, LOOP_SCRATCH, "values", r->cols);
  r->tile = buffer(r, LOOP_REGISTER, "tile", r->cols);
  loop_begin(&e->b, e->k);
  Dim shape[2] = {num(r, r->heads), num(r, r->dv / r->cols)}, at[2];
  Dim items = num(r, r->heads * (r->dv / r->cols));
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? e->pool->zero : item, 2, shape, at);
  r->head = at[0];
  r->col = ie_mulc(e->pool, at[1], r->cols);
  if (!copy_states(r)) return false;
  if (!ie_is(r->rows, 0)) {
    r->row = loop_for(&e->b, LOOP_SERIAL, "t", r->rows);
    if (!take_row(r)) return false;
    leave(r, 1);
  }
  leave(r, 1);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_ragged_linear_attention = {.match = ragged_match,
                                                       .choose = ragged_choose,
                                                       .legal = ragged_legal,
                                                       .build = ragged_build,
                                                       SCHEDULE(Ragged)};
