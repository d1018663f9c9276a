// scan.c -- template scan: cum_sum and cum_prod.
//
// Where the axis is the last one, each lane has a row of its own; a row is a work item where there
// are too few of them.  Else the last axis is the vector, and each lane has its own sum, in
// registers where the pieces of that axis have one known width.
//
// Needs:      one such op over a constant axis, not of bool and not empty; every result has its
//             shape.  Sizes may be dynamic.
// Guarantees: elements are added in order, floats in f64 as in the reference evaluation: every
//             field is FREE.  `exclusive` and `reverse` are as in ONNX.
#include "lower/cpu/reduce.h"
#include "lower/cpu/scan.h"

#include "eval/index.h"

enum { ROWS_LEAST = 4, ROWS_MOST = 8 };

#define SCAN_SCHEDULE(I, B, C, T)                                                                  \
  I(T, cols, 64, 1, 1 << 12, 1, FREE,                                                              \
    "elements of the last axis per work item, each with its own sum")                              \
  I(T, rows, 0, 0, 1 << 8, 1, FREE,                                                                \
    "rows per work item, each in a lane, where the axis is the last one; 0: one, without lanes")
SCHEDULE_STRUCT(Scan, SCAN_SCHEDULE);
SCHEDULE_TABLE(Scan, SCAN_SCHEDULE);

const LoopExpr *scan_value(void *ctx, const Dim *index) {
  const Scan *s = ctx;
  for (int d = 0; d < s->type->rank; d++)
    if (index[d] != s->index[d] && !ie_is(s->shape[d], 1)) return NULL;
  return s->value;
}

// The one scan of the body, over an axis that is known.
static bool find_scan(Scan *s) {
  NodeList all = body_order(s->e.lo->g, s->e.body, s->e.a);
  Ints axis;
  for (int64_t i = 0; i < all.n; i++) {
    const Node *n = all.v[i];
    if (n->op != OP_cum_sum && n->op != OP_cum_prod) continue;
    if (s->node) return false;
    s->node = n;
  }
  if (!s->node || !node_ints(s->e.lo->g, s->node->src[1], &axis) || axis.n != 1) return false;
  s->type = type_of(s->node);
  if (s->type->rank < 1 || s->type->dtype == DT_BOOL) return false;
  s->axis = elem_axis(axis.v[0], s->type->rank);
  s->vector = s->type->rank - 1;
  while (s->vector > s->axis && ie_is(s->type->dims[s->vector], 1)) s->vector--;
  if (s->vector <= s->axis) s->vector = -1;
  for (int i = 0; i < s->type->rank; i++)
    if (ie_is(s->type->dims[i], 0)) return false;
  for (int i = 0; i < s->e.fused->nres; i++) {
    const Type *t = type_of(elem_core(s->e.body->result[i]));
    if (!type_same_dims(t, s->type)) return false;
  }
  return true;
}

// Opens the work item; gives the number of lanes' first element and how many there are.
static void open_item(Scan *s, Dim *first, Dim *width) {
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  Dim outer[MAX_RANK], at[MAX_RANK], items = p->one, chunks = p->one;
  int n = 0;
  *first = p->zero;
  *width = p->one;
  for (int i = 0; i < s->type->rank; i++)
    if (i != s->axis && i != s->vector) items = ie_mul(p, items, outer[n++] = s->shape[i]);
  if (s->vector >= 0) chunks = ie_ceildiv(p, s->shape[s->vector], ie_const(p, s->cols));
  Dim all = ie_mul(p, items, chunks), item = loop_for(&e->b, LOOP_PARALLEL, "item", all);
  if (ie_is(all, 1)) item = p->zero;
  Dim chunk = ie_is(chunks, 1) ? p->zero : n ? ie_mod(p, item, chunks) : item;
  if (!ie_is(chunks, 1)) item = n ? ie_div(p, item, chunks) : p->zero;
  elem_split(e, item, n, outer, at);
  n = 0;
  for (int i = 0; i < s->type->rank; i++)
    if (i != s->axis && i != s->vector) s->index[i] = at[n++];
  if (s->vector < 0) return;
  *first = ie_mulc(p, chunk, s->cols);
  *width = s->shape[s->vector];
  if (ie_is_const(*width) && (*width)->value % s->cols == 0)
    *width = ie_const(p, s->cols);
  else if (!ie_is(chunks, 1))
    *width = ie_min(p, ie_const(p, s->cols), ie_sub(p, s->shape[s->vector], *first));
}

bool scan_store(Scan *s) {
  ElementBuilder *e = &s->e;
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *n = e->body->result[i];
    Dim index[MAX_RANK];
    const LoopExpr *y = elem_at(e, elem_core(n), s->index);
    if (!y) return false;
    loop_store(&e->b, elem_result(e, i), elem_place(e, n, s->index, index), y);
  }
  return true;
}

static bool step(Scan *s, int32_t sums, Dim lane, bool product) {
  ElementBuilder *e = &s->e;
  LoopKernel *k = e->k;
  const cum_attrs *at = s->node->attrs;
  DType t = k->buffer[sums].dtype;
  const LoopExpr *x = elem_at(e, s->node->src[0], s->index);
  if (!x) return false;
  const LoopExpr *before = loop_let(&e->b, loop_load(k, sums, lane));
  const LoopExpr *now =
      loop_let(&e->b, loop_op(k, product ? LOOP_mul : LOOP_add, before, loop_cast(k, t, x), NULL));
  s->value = loop_let(&e->b, loop_cast(k, s->type->dtype, at->exclusive ? before : now));
  loop_store(&e->b, sums, lane, now);
  return scan_store(s);
}

bool scan_begin(Scan *s, Lowering *lo, const Node *fused) {
  return elem_begin(&s->e, lo, fused, NULL, 0) && find_scan(s);
}

static void *scan_match(Lowering *lo, const Node *fused) {
  Scan *s = arena_new(lo->arena, Scan);
  bool over[MAX_RANK] = {false};
  if (!scan_begin(s, lo, fused)) return NULL;
  elem_shape(&s->e, s->type, s->shape);
  over[s->axis] = true;
  row_lanes_find(&s->rows, s->e.pool, s->type->rank, s->shape, over);
  return s;
}

static bool scan_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                        void *fields) {
  const Scan *s = match;
  int bytes = dtype_is_float(s->type->dtype) ? 8 : (int)elem_bytes(s->type->dtype);
  (void)given;
  bool rows = s->vector < 0 && !t->traits.gpu && row_lanes_many(&s->rows);
  // More rows at a distance of a power of two would not stay in the cache.
  int64_t lanes = MIN(MAX(t->vector_bytes / 8, ROWS_LEAST), ROWS_MOST);
  *(ScanSchedule *)fields = (ScanSchedule){.cols = 64, .rows = rows ? lanes : 0};
  bool over[MAX_RANK] = {false};
  over[s->axis] = true;
  if (s->vector >= 0)
    *(ScanSchedule *)fields =
        (ScanSchedule){.cols = rows_choose_cols(s->type, s->vector, over, t, bytes)};
  return true;
}

// Opens the loop over the elements of a row: the place of the one at hand.
static Dim open_axis(Scan *s) {
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  Dim size = s->shape[s->axis], i = loop_for(&e->b, LOOP_SERIAL, "k", size);
  if (!((const cum_attrs *)s->node->attrs)->reverse) return i;
  // As an index of its own, which counts up where elements do.
  const LoopExpr *place = loop_index(e->k, ie_addc(p, ie_sub(p, size, i), -1));
  return loop_bind(&e->b, "k", place, size, "a row has fewer elements than its axis");
}

// Rows as lanes.
static bool build_rows(Scan *s, int64_t rows, bool product, DType t) {
  ElementBuilder *e = &s->e;
  IntPool *p = e->pool;
  bool fixed =
      ie_is_const(s->rows.last) && (s->rows.last->value <= rows || s->rows.last->value % rows == 0);
  int32_t sums =
      loop_buffer(e->k, fixed ? LOOP_REGISTER : LOOP_SCRATCH, "sums", t, ie_const(p, rows), false);
  loop_begin(&e->b, e->k);
  row_lanes_items(&s->rows, e, rows);
  Dim lane = row_lanes_vector(&s->rows, e, s->index);
  loop_store(&e->b, sums, lane, elem_number(e, t, product));
  loop_end(&e->b);
  Dim i = open_axis(s);
  lane = row_lanes_vector(&s->rows, e, s->index);
  s->index[s->axis] = i;
  elem_give(e, s->node, scan_value, s);
  bool ok = step(s, sums, lane, product);
  for (int n = 0; n < 3; n++) loop_end(&e->b);
  return ok;
}

static bool scan_build(void *match, const void *fields, Lowered *out) {
  Scan *s = match;
  ElementBuilder *e = &s->e;
  const ScanSchedule *from = fields;
  s->cols = from->cols;
  IntPool *p = e->pool;
  bool product = s->node->op == OP_cum_prod, lanes = s->vector >= 0;
  DType t = dtype_is_float(s->type->dtype) ? DT_F64 : s->type->dtype;
  Dim first, width, lane = p->zero;
  if (!lanes && from->rows) {
    if (!build_rows(s, from->rows, product, t)) return false;
    elem_finish(e, out);
    return true;
  }
  Dim last = lanes ? s->shape[s->vector] : p->one;
  bool fixed = ie_is_const(last) && (last->value < s->cols || last->value % s->cols == 0);
  int32_t sums = loop_buffer(e->k, lanes && fixed ? LOOP_REGISTER : LOOP_SCRATCH, "sums", t,
                             ie_const(p, lanes ? s->cols : 1), false);
  loop_begin(&e->b, e->k);
  open_item(s, &first, &width);
  if (lanes) lane = loop_for(&e->b, LOOP_VECTOR, "v", width);
  loop_store(&e->b, sums, lane, elem_number(e, t, product));
  if (lanes) loop_end(&e->b);
  s->index[s->axis] = open_axis(s);
  if (lanes) lane = loop_for(&e->b, LOOP_VECTOR, "v", width);
  if (lanes) s->index[s->vector] = ie_add(p, first, lane);
  elem_give(e, s->node, scan_value, s);
  if (!step(s, sums, lane, product)) return false;
  for (int n = 0; n < 2 + lanes; n++) loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

static const char *const cheaper[] = {"scan rows=0", NULL};
const TemplateCode template_scan = {.match = scan_match,
                                    .choose = scan_choose,
                                    .build = scan_build,
                                    .cheaper = cheaper,
                                    SCHEDULE(Scan)};
