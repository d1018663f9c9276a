// paged_attention.c -- template paged_attention: attention over a paged KV cache, in one kernel.
//
// A work item has some rows and a KV head, with all query heads that share it.  Where its rows are
// consecutive tokens of one sequence they are one run: each page of keys and values is read once
// for all of them.  Else each row is a run.  A few rows have few to an item, so that threads have
// work.  Keys come in splits of PAGED_SPLIT, counted from position 0.  Each has a softmax from
// scratch; splits are merged in order.
//
// Needs:      one paged_attention, whose result alone is used; constant head counts and sizes.
// Guarantees: a query head's bits depend on its own keys and values, its position and the
//             attributes: not on rows beside it, runs, schedule or threads.  Sums in f32: scores
//             over elements in order, values over keys in order.  Slots beyond a row's keys have
//             no part in it, whatever they hold.  Positions, sequences and pages are checked when
//             the kernel runs; a row before position 0 gives 0.
#include "lower/cpu/paged_attention.h"

#include "eval/paged.h"
#include "ir/internal.h"

#include <math.h>

enum { MAX_SIZE = 512, MAX_HEADS = 1 << 12, SHARE_ROWS = 32 };

// ---- what is computed ----

static const Node *find_anchor(ElementBuilder *e) {
  NodeList all = body_order(e->lo->g, e->body, e->a);
  const Node *found = NULL;
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_paged_attention) continue;
    if (found) return NULL;
    found = all.v[i];
  }
  return found;
}

static bool is_float_tensor(const Node *n, int rank) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank == rank && elem_dtype(t->dtype) && t->dtype != DT_F64 &&
         dtype_class(t->dtype) == DC_FLOAT;
}

// Of a cache: i8 has scales.
static bool is_cache(const Node *n, const Node *scale) {
  const Type *t = type_of(n);
  if (!scale) return is_float_tensor(n, 4);
  return t->kind == TK_TENSOR && t->rank == 4 && t->dtype == DT_I8 &&
         type_of(scale)->dtype == DT_F32 && type_of(scale)->rank == 4;
}

static bool number(Dim d, int64_t most, int64_t *out) {
  if (!ie_is_const(d) || d->value < 1 || d->value > most) return false;
  *out = d->value;
  return true;
}

static bool read_operands(Paged *a) {
  Graph *g = a->e.lo->g;
  const Node *n = a->anchor, *const *src = (const Node *const *)n->src;
  a->k_scale = src_or_null(g, n, PAGED_K_SCALE);
  a->v_scale = src_or_null(g, n, PAGED_V_SCALE);
  if (!is_float_tensor(src[PAGED_Q], 3) || !is_cache(src[PAGED_K], a->k_scale) ||
      !is_cache(src[PAGED_V], a->v_scale))
    return false;
  const Type *q = type_of(src[PAGED_Q]), *k = type_of(src[PAGED_K]), *v = type_of(src[PAGED_V]);
  const Type *table = type_of(src[PAGED_TABLE]);
  a->at = n->attrs;
  if (!number(q->dims[1], MAX_HEADS, &a->heads) || !number(k->dims[1], MAX_HEADS, &a->kv_heads) ||
      !number(q->dims[2], MAX_SIZE, &a->size) || !number(v->dims[3], MAX_SIZE, &a->vsize))
    return false;
  if (!ie_is(k->dims[2], LLM_PAGE) || !ie_is(v->dims[2], LLM_PAGE) || k->dims[3] != q->dims[2] ||
      k->dims[1] != v->dims[1] || a->heads % a->kv_heads || table->rank != 2)
    return false;
  a->group = a->heads / a->kv_heads;
  if (ie_is(q->dims[0], 0)) return false;
  a->rows = elem_dim(&a->e, q->dims[0]);
  a->pages = elem_dim(&a->e, k->dims[0]);
  a->table_rows = elem_dim(&a->e, table->dims[0]);
  a->row_pages = elem_dim(&a->e, table->dims[1]);
  a->scale = a->at->scale >= 0 ? a->at->scale : 1 / sqrt((double)a->size);
  a->sinks = src_or_null(g, n, PAGED_SINKS);
  a->slopes = src_or_null(g, n, PAGED_SLOPES);
  return true;
}

// Whether an element is more than a load of f32.  Written apart, and thrown away.
static bool is_costly(Paged *a, const Node *n, bool *ok) {
  ElementBuilder *e = &a->e;
  LoopBuilder kept = e->b;
  Dim at[MAX_RANK], shape[MAX_RANK];
  elem_shape(e, type_of(n), shape);
  loop_begin(&e->b, e->k);
  for (int i = 0; i < type_of(n)->rank; i++) at[i] = loop_sym(e->k, "p", shape[i]);
  const LoopExpr *x = elem_at(e, n, at);
  e->b = kept;
  elem_forget(e);
  *ok &= x != NULL;
  return !x || x->kind != LX_LOAD || x->nguards || x->dtype != DT_F32;
}

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  (void)index;
  return ((Paged *)ctx)->value;
}

static bool good_results(Paged *a) {
  a->walk.own = epilogue_value(&a->walk, 0);
  if (!a->walk.own) return false;
  for (int i = 0; i < a->e.fused->nres; i++)
    if (!epilogue_reads(&a->walk, a->e.body->result[i])) return false;
  return true;
}

Paged *paged_begin(Lowering *lo, const Node *fused) {
  Paged *a = arena_new(lo->arena, Paged);
  ElementBuilder *e = &a->e;
  bool ok = true;
  if (!elem_begin(e, lo, fused, NULL, 0)) return NULL;
  if (!(a->anchor = find_anchor(e)) || !read_operands(a)) return NULL;
  epilogue_begin(&a->walk, e, a->anchor);
  if (!good_results(a)) return NULL;
  elem_give(e, a->walk.own, give_value, a);
  lo->why = "an operand has no expression";
  a->copy_k = is_costly(a, a->anchor->src[PAGED_K], &ok);
  a->copy_v = is_costly(a, a->anchor->src[PAGED_V], &ok);
  is_costly(a, a->anchor->src[PAGED_Q], &ok);
  if (a->k_scale) is_costly(a, a->k_scale, &ok);
  if (a->v_scale) is_costly(a, a->v_scale, &ok);
  return ok ? a : NULL;
}

static void *paged_match(Lowering *lo, const Node *fused) { return paged_begin(lo, fused); }

// ---- schedule ----

#define PAGED_SCHEDULE(I, B, C, T)                                                                 \
  I(T, rows, 8, 1, 64, 1, FREE, "rows of a work item, at most")                                    \
  I(T, keys, 8, 1, 16, 1, FREE, "query heads of a register tile of scores")                        \
  I(T, values, 8, 1, 16, 1, FREE, "query heads of a register tile of results")                     \
  I(T, cols, 32, 1, 256, 1, FREE, "columns of a register tile of results")
SCHEDULE_STRUCT(Paged, PAGED_SCHEDULE);
SCHEDULE_TABLE(Paged, PAGED_SCHEDULE);

// Rows of a register tile of so many columns: half of the registers, a power of two.
static int64_t tile_rows(const LowerTarget *t, int64_t cols) {
  int64_t lanes = MAX(t->vector_bytes / 4, 1), vectors = (cols + lanes - 1) / lanes, n = 1;
  while (n < 8 && n * 2 * vectors <= t->vector_registers / 2) n *= 2;
  return n;
}

static bool paged_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                         void *fields) {
  const Paged *a = match;
  PagedSchedule *s = fields;
  int64_t lanes = MAX(t->vector_bytes / 4, 1);
  if (t->block_threads) {  // an item is one thread's, with little scratch
    *s = (PagedSchedule){.rows = 1, .keys = 1, .values = 1, .cols = MIN(8, a->vsize)};
    return true;
  }
  s->rows = MIN(MAX(SHARE_ROWS / a->group, 1), 64);
  s->keys = tile_rows(t, LLM_PAGE);
  s->cols = MIN(2 * lanes, a->vsize);
  schedule_keep(given, s);
  s->values = tile_rows(t, s->cols);
  return true;
}

static bool paged_legal(const void *match, const LowerTarget *t, const void *fields,
                        const char **why) {
  enum { SCRATCH_MOST = 64 << 20 };
  const Paged *a = match;
  const PagedSchedule *s = fields;
  double each = PAGED_SPLIT + (double)a->size + 2 * (double)a->vsize;
  (void)t;
  *why = (double)(s->rows + 16) * (double)a->group * each * 4 > SCRATCH_MOST
             ? "its scratch is too large"
             : NULL;
  return !*why;
}

static int32_t scratch(Paged *a, const char *name, int64_t n) {
  return loop_buffer(a->e.k, LOOP_SCRATCH, name, DT_F32, ie_const(a->e.pool, n), false);
}

// Tiles of fewer rows than a power of two go through the next one below.
static int64_t power(int64_t n) {
  int64_t p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

static bool paged_build(void *match, const void *fields, Lowered *out) {
  Paged *a = match;
  const PagedSchedule *s = fields;
  a->most = s->rows;
  a->key_tile = power(s->keys);
  a->value_tile = power(s->values);
  a->width = MIN(s->cols, a->vsize);
  int64_t n = a->most * a->group + MAX(a->key_tile, a->value_tile);
  a->q = scratch(a, "q", n * a->size);
  a->s = scratch(a, "s", n * PAGED_SPLIT);
  a->out = scratch(a, "out", n * a->vsize);
  a->split_out = scratch(a, "split", n * a->vsize);
  a->top = scratch(a, "top", n);
  a->sum = scratch(a, "sum", n);
  a->split_top = scratch(a, "split_top", n);
  a->split_sum = scratch(a, "split_sum", n);
  a->kt = scratch(a, "kt", a->size * LLM_PAGE);
  a->k = a->copy_k ? scratch(a, "k", a->size * LLM_PAGE) : -1;
  a->v = a->copy_v ? scratch(a, "v", a->vsize * LLM_PAGE) : -1;
  int64_t tile = MAX(a->key_tile * LLM_PAGE, a->value_tile * a->width);
  a->tile = loop_buffer(a->e.k, LOOP_REGISTER, "tile", DT_F32, ie_const(a->e.pool, tile), false);
  if (!paged_emit(a)) return false;
  elem_finish(&a->e, out);
  return true;
}

const TemplateCode template_paged_attention = {.match = paged_match,
                                               .choose = paged_choose,
                                               .legal = paged_legal,
                                               .build = paged_build,
                                               SCHEDULE(Paged)};
