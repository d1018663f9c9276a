// grouped.c -- template grouped: rows times a matrix of their own each (grouped_mat_mul).
//
// A work item has some columns of one row's result.  It reads which matrix the row takes and adds
// up the matrix's rows, each times an element of x; lanes are columns.  Rows without a matrix read
// none.
//
// Needs:      one grouped_mat_mul whose matrices have constant sizes.
// Guarantees: sums in f32, over k in order, so every field is FREE: a row's bits depend on the row
//             and its matrix alone.  A row's matrix is checked when the kernel runs.
#include "lower/element/epilogue.h"
#include "lower/template.h"

enum { X, W, GROUP };

typedef struct Grouped {
  ElementBuilder e;
  EpilogueWalk walk;
  const Node *n;  // the anchor
  int64_t k, columns, cols;
  int32_t tile;  // registers
  Dim rows, groups;
  const LoopExpr *value;
} Grouped;

#define GROUPED_SCHEDULE(I, B, C, T)                                                               \
  I(T, cols, 64, 1, 1 << 12, 1, FREE, "columns of a work item, which divide those of a matrix")
SCHEDULE_STRUCT(Grouped, GROUPED_SCHEDULE);
SCHEDULE_TABLE(Grouped, GROUPED_SCHEDULE);

// ---- what is computed ----

static const Node *find_anchor(const ElementBuilder *e, Lowering *lo) {
  NodeList all = body_order(lo->g, e->body, e->a);
  const Node *found = NULL;
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_grouped_mat_mul) continue;
    if (found) return NULL;
    found = all.v[i];
  }
  return found;
}

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  (void)index;
  return ((Grouped *)ctx)->value;
}

static void *grouped_match(Lowering *lo, const Node *fused) {
  Grouped *p = arena_new(lo->arena, Grouped);
  ElementBuilder *e = &p->e;
  if (!elem_begin(e, lo, fused, NULL, 0) || !(p->n = find_anchor(e, lo))) return NULL;
  const Type *x = type_of(p->n->src[X]), *w = type_of(p->n->src[W]);
  if (x->rank != 2 || w->rank != 3 || x->dtype == DT_F64 || w->dtype == DT_F64 ||
      !ie_is_const(w->dims[1]) || !ie_is_const(w->dims[2]) || type_is_empty(type_of(p->n)))
    return NULL;
  p->k = w->dims[1]->value;
  p->columns = w->dims[2]->value;
  p->rows = elem_dim(e, x->dims[0]);
  p->groups = elem_dim(e, w->dims[0]);
  epilogue_begin(&p->walk, e, p->n);
  p->walk.own = epilogue_value(&p->walk, 0);
  for (int i = 0; i < fused->nres; i++)
    if (!p->walk.own || !epilogue_reads(&p->walk, e->body->result[i])) return NULL;
  elem_give(e, p->walk.own, give_value, p);
  return p;
}

static bool grouped_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                           void *fields) {
  const Grouped *p = match;
  GroupedSchedule *s = fields;
  int64_t most = t->block_threads ? 1 : 4 * MAX(t->vector_bytes / 4, 1);
  (void)given;
  s->cols = MIN(most, p->columns);
  while (p->columns % s->cols) s->cols--;
  return true;
}

static bool grouped_legal(const void *match, const LowerTarget *t, const void *fields,
                          const char **why) {
  (void)t;
  *why = ((const Grouped *)match)->columns % ((const GroupedSchedule *)fields)->cols
             ? "cols does not divide the columns of a matrix"
             : NULL;
  return !*why;
}

// ---- loops ----

static Dim num(Grouped *p, int64_t v) { return ie_const(p->e.pool, v); }

static Dim open_cols(Grouped *p) {
  Dim j = loop_for(&p->e.b, LOOP_VECTOR, "j", num(p, p->cols));
  elem_forget(&p->e);
  return j;
}

static void close(Grouped *p, int loops) {
  while (loops-- > 0) loop_end(&p->e.b);
  elem_forget(&p->e);
}

// An operand's element in f32; NULL: it has none.
static const LoopExpr *element(Grouped *p, int i, const Dim *at) {
  const LoopExpr *x = elem_at(&p->e, p->n->src[i], at);
  return x ? loop_cast(p->e.k, DT_F32, x) : NULL;
}

// Adds the row's matrix, times x, to the tile.
static bool multiply(Grouped *p, Dim row, Dim col, Dim group) {
  LoopBuilder *b = &p->e.b;
  Dim i = loop_for(b, LOOP_SERIAL, "k", num(p, p->k));
  elem_forget(&p->e);
  const LoopExpr *x = element(p, X, (Dim[]){row, i});
  if (!x) return false;
  x = loop_let(b, x);
  Dim j = open_cols(p);
  const LoopExpr *w = element(p, W, (Dim[]){group, i, ie_add(p->e.pool, col, j)});
  if (!w) return false;
  loop_store(b, p->tile, j, loop_op(p->e.k, LOOP_fma, x, w, loop_load(p->e.k, p->tile, j)));
  close(p, 2);
  return true;
}

static bool take_row(Grouped *p, Dim row, Dim col) {
  LoopBuilder *b = &p->e.b;
  LoopKernel *k = p->e.k;
  elem_forget(&p->e);
  const LoopExpr *group = elem_at(&p->e, p->n->src[GROUP], &row);
  if (!group) return false;
  group = loop_let(b, loop_cast(k, DT_I64, group));
  Dim j = open_cols(p);
  loop_store(b, p->tile, j, loop_float(k, DT_F32, 0));
  close(p, 1);
  if (p->k) {
    loop_if(b, loop_op(k, LOOP_le, loop_int(k, DT_I64, 0), group, NULL));
    Dim which = elem_checked(&p->e, group, p->groups, "a row's matrix is not one of w");
    if (!which || !multiply(p, row, col, which)) return false;
    close(p, 1);
  }
  j = open_cols(p);
  p->value = loop_cast(k, type_of(p->n)->dtype, loop_load(k, p->tile, j));
  bool ok = epilogue_store(&p->walk, (Dim[]){row, ie_add(p->e.pool, col, j)});
  close(p, 1);
  return ok;
}

static bool grouped_build(void *match, const void *fields, Lowered *out) {
  Grouped *p = match;
  ElementBuilder *e = &p->e;
  p->cols = ((const GroupedSchedule *)fields)->cols;
  p->tile = loop_buffer(e->k, LOOP_REGISTER, "tile", DT_F32, num(p, p->cols), false);
  loop_begin(&e->b, e->k);
  Dim shape[2] = {p->rows, num(p, p->columns / p->cols)}, at[2];
  Dim items = ie_mul(e->pool, shape[0], shape[1]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? e->pool->zero : item, 2, shape, at);
  if (!take_row(p, at[0], ie_mulc(e->pool, at[1], p->cols))) return false;
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_grouped = {.match = grouped_match,
                                       .choose = grouped_choose,
                                       .legal = grouped_legal,
                                       .build = grouped_build,
                                       SCHEDULE(Grouped)};
