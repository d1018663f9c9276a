// pointwise.c -- template pointwise: kernels without an anchor, element by element.
//
// Where all results have one shape and every operand has their layout or one element, all axes are
// one loop.  Else each axis is a loop and the last one is the vector, joined by those before it
// that are contiguous with it in the result and in all operands.  Where an operand is contiguous in
// another axis than the result (a transpose), both axes are tiled.  Results of different shapes are
// computed one after the other.
//
// Needs:      elem_begin accepts the kernel, that is: ranked tensors of kernel data types.  Last
//             row of templates.def: no other template took the kernel.
// Guarantees: every field is FREE: an element is the same expression in every form.  Dynamic shapes
//             and empty results work.  Declines only where an element has no expression.
#include "lower/cpu/pointwise.h"
#include "lower/template.h"

#include "loop/prove.h"

enum { PIECE = 4096, ROWS = 4, WIDE_PART = 32, BYTES = 4, WORDS = 4 };
enum { PIECES_MOST = 16, ITEMS_FEW = 12 };

// plain: the last axis is the vector, all results at once.  tiled: the axis that is read along and
// the last one are cut into tiles.  across: lanes go along the axis that is read, for a short last
// axis.  words: the same, 4 bytes a store.  separate: one result after the other.
#define POINTWISE_SCHEDULE(I, B, C, T)                                                             \
  C(T, form, "plain|tiled|across|words|separate|empty", 0, FREE, "loop order")                     \
  I(T, piece, 4096, 64, 1 << 20, 1, FREE, "elements of a work item, roughly")                      \
  I(T, tile_rows, 4, 1, 64, 1, FREE, "tiled: cache lines of a tile along the axis that is read")   \
  B(T, cut, true, FREE,                                                                            \
    "split the last axis at operand boundaries, so that no element needs a guard")
SCHEDULE_STRUCT(Pointwise, POINTWISE_SCHEDULE);
SCHEDULE_TABLE(Pointwise, POINTWISE_SCHEDULE);
typedef enum { FORM_PLAIN, FORM_TILED, FORM_ACROSS, FORM_WORDS, FORM_SEPARATE, FORM_EMPTY } Form;

typedef struct Pointwise {
  ElementBuilder e;
  PointwiseSchedule s;
  int axis;  // that is read along, where it is not the last one; -1: none
} Pointwise;

typedef struct Nest {
  bool flat;  // all axes are one
  int rank, outer;
  Dim shape[MAX_RANK];  // of the nest's axes: the first `outer` are shared out, the last is the
                        // vector
  Dim chunks;           // work items of a row, where the last axis is long
} Nest;

enum { MOST_VISITS = 4096 };

// Whether `n` and all below it read every operand at the result's own place, or a single element.
static bool straight(const Node *n, const Type *t, int depth, int *visits) {
  if (n->op == OP_const && n->data->n == 1) return true;
  // What is used several times is looked at for each use: a bound keeps that from growing without
  // one.
  if (depth > 64 || ++*visits > MOST_VISITS) return false;
  if (n->op == OP_param || n->op == OP_const) {
    if (type_of(n) == t) return true;
    return type_of(n)->rank == 0;
  }
  if (!(op_info(n->op)->flags & OPF_ELEMENTWISE)) return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (type_of(n->src[i])->kind != TK_NONE && type_of(n->src[i])->rank > 0 &&
        !type_same_dims(type_of(n->src[i]), t))
      return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (!straight(n->src[i], type_of(n->src[i]), depth + 1, visits)) return false;
  return true;
}
static bool reads_straight(const Node *n) {
  int visits = 0;
  return straight(n, type_of(n), 0, &visits);
}

// Results that are views and transpositions of values of one shape are stored together.
static bool same_shapes(const ElementBuilder *e) {
  const Type *t = type_of(elem_core(e->body->result[0]));
  for (int i = 1; i < e->fused->nres; i++)
    if (!type_same_dims(t, type_of(elem_core(e->body->result[i])))) return false;
  return true;
}

// A single result is read where it is stored, so that stores lie together.
static const Node *value_of(const ElementBuilder *e, int i) {
  return e->fused->nres == 1 ? e->body->result[i] : elem_core(e->body->result[i]);
}

bool pointwise_is_flat(const ElementBuilder *e) {
  bool flat = true;
  for (int i = 0; i < e->fused->nres && flat; i++)
    flat = value_of(e, i) == e->body->result[i] && reads_straight(e->body->result[i]);
  return flat;
}

// Elements of the axes before `outer`; 0: not known.
static int64_t items_before(const Nest *t, int outer) {
  int64_t n = 1;
  for (int i = 0; i < outer; i++)
    if (!ie_is_const(t->shape[i]) || !ck_mul(n, t->shape[i]->value, &n)) return 0;
  return n;
}

// Places inside an axis before the last one where elements pass a border; gives their number.
static int find_borders(const Pointwise *w, const Nest *t, int axis, int64_t *at) {
  const ElementBuilder *e = &w->e;
  const Node **value = arena_array(e->a, const Node *, e->fused->nres);
  if (!w->s.cut || t->flat || !ie_is_const(t->shape[axis])) return 0;
  for (int i = 0; i < e->fused->nres; i++) value[i] = value_of(e, i);
  return elem_borders(e, value, axis, t->shape[axis]->value, at);
}

// Whether an item also has the axis before those that it has, of `inner` elements together: where
// these are few, items of many pieces cost less than finding each one's place; and an axis that
// passes borders has a loop for each part, which asks for no element where it is.
static bool takes_axis(const Pointwise *w, const Nest *t, int64_t inner) {
  int64_t piece = w->s.piece, at[ELEM_BORDERS];
  Dim next = t->shape[t->outer - 1];
  if (!ie_is_const(next)) return false;
  int64_t all = inner * next->value;
  if (all <= piece / 4) return true;
  if (all > piece * PIECES_MOST || items_before(t, t->outer - 1) < ITEMS_FEW) return false;
  return inner <= piece / 16 || find_borders(w, t, t->outer - 1, at) > 0;
}

// Coefficients of the nest's variables in an index; false where they do not say all.
static bool strides(ElementBuilder *e, Dim index, int rank, const Dim *sym, Dim *out) {
  Dim rest = index;
  for (int d = 0; d < rank; d++) {
    Dim r;
    if (!dim_split(e->pool, rest, sym[d], &out[d], &r) || dim_has(r, sym[d])) return false;
    rest = r;
  }
  return true;
}

// What a guard's symbol in a load stands for.
static Dim guarded_value(void *ctx, Dim sym) {
  const LoopExpr *x = *(const LoopExpr **)ctx;
  for (int i = 0; i < x->nguards; i++)
    if (x->guard[i].sym == sym) return x->guard[i].value;
  return sym;
}

typedef struct Joins {
  ElementBuilder *e;
  int rank, axis;  // whether this one and those behind it are one
  const Dim *sym;
  Dim inner;  // elements of those behind it
  IntMap seen;
  bool separate;
} Joins;

static bool moves_along(const Joins *j, Dim d) {
  return dim_has(d, j->sym[j->axis]) || dim_has(d, j->sym[j->rank - 1]);
}

// Every load must step over a row of the last axis as the next row begins, or read neither.
static void find_gaps(Joins *j, const LoopExpr *x) {
  uint64_t have;
  Dim c[MAX_RANK];
  if (!x || j->separate || intmap_get(&j->seen, (uint64_t)(uintptr_t)x, &have)) return;
  intmap_put(&j->seen, (uint64_t)(uintptr_t)x, 1);
  for (int i = 0; i < 3; i++) find_gaps(j, x->src[i]);
  for (int i = 0; i < x->nguards; i++) j->separate |= moves_along(j, x->guard[i].value);
  if (x->kind == LX_INDEX) j->separate |= moves_along(j, x->index);
  if (x->kind != LX_LOAD || j->separate) return;
  Dim index = ie_map(j->e->pool, x->index, guarded_value, &x);
  j->separate = !strides(j->e, index, j->rank, j->sym, c) ||
                c[j->axis] != ie_mul(j->e->pool, c[j->rank - 1], j->inner);
}

// Whether the element at `at` moves along nothing but straight lines with `axis` and those behind
// it.
static bool is_straight(Pointwise *w, const Nest *t, int axis, const Dim *sym, const Dim *at) {
  ElementBuilder *e = &w->e;
  Joins j = {.e = e, .rank = t->rank, .axis = axis, .sym = sym, .inner = t->shape[t->rank - 1]};
  if (axis == t->rank - 1) j.inner = e->pool->one;
  intmap_init(&j.seen, e->a);
  const LoopExpr *x = elem_at(e, e->body->result[0], at);
  j.separate = !x || e->b.stmt.n > 0;
  find_gaps(&j, x);
  elem_forget(e);
  return !j.separate;
}

// Whether an axis and all behind it, which are one already, are read as if they were one: then they
// are one loop.  Read so, nothing may ask where the element is: an operand that fills the axis has
// no guard there, but would have one within the longer one.
static bool joins_axis(Pointwise *w, const Nest *t, int axis) {
  ElementBuilder *e = &w->e;
  LoopBuilder kept = e->b;
  Dim sym[MAX_RANK], at[MAX_RANK];
  int last = t->rank - 1;
  if (!ie_is_const(t->shape[axis]) || !ie_is_const(t->shape[last])) return false;
  loop_begin(&e->b, e->k);
  for (int d = 0; d < t->rank; d++) at[d] = sym[d] = loop_sym(e->k, "p", t->shape[d]);
  bool one = is_straight(w, t, axis, sym, at);
  if (one) {
    at[last] = sym[last] = loop_sym(e->k, "p", ie_mul(e->pool, t->shape[axis], t->shape[last]));
    at[axis] = e->pool->zero;
    one = is_straight(w, t, last, sym, at);
  }
  e->b = kept;
  return one;
}

// Axes that lie together in all operands are one: the others of them have one element.
static void join_axes(Pointwise *w, Nest *t) {
  int last = t->rank - 1;
  if (t->flat || w->e.fused->nres != 1) return;
  for (int d = last - 1; d >= 0 && joins_axis(w, t, d); d--) {
    t->shape[last] = ie_mul(w->e.pool, t->shape[last], t->shape[d]);
    t->shape[d] = w->e.pool->one;
  }
}

// Axes are shared out from the first one on until what is left is about a piece; a long last axis
// is cut.
static void plan_nest(Pointwise *w, Nest *t) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  int64_t piece = w->s.piece;
  const Type *type = type_of(value_of(e, 0));
  t->flat = pointwise_is_flat(e);
  t->rank = t->flat ? 1 : MAX(type->rank, 1);
  elem_shape(e, type, t->shape);
  for (int d = 1; t->flat && d < type->rank; d++) t->shape[0] = ie_mul(p, t->shape[0], t->shape[d]);
  if (!type->rank) t->shape[0] = p->one;
  join_axes(w, t);
  Dim last = t->shape[t->rank - 1];
  t->outer = t->rank - 1;
  int64_t inner = ie_is_const(last) ? last->value : piece;
  while (t->outer > 0 && takes_axis(w, t, inner)) inner *= t->shape[--t->outer]->value;
  bool is_long =
      t->outer == t->rank - 1 && (ie_is_const(last) ? last->value > 2 * piece : !t->outer);
  t->chunks = is_long ? ie_ceildiv(p, last, ie_const(p, piece)) : p->one;
}

// Stores every result at a place of the nest.
static bool store_all(ElementBuilder *e, const Nest *t, const Dim *index) {
  Dim zero[MAX_RANK], at[MAX_RANK];
  Dim linear = elem_linear(e, t->rank, t->shape, index);
  for (int i = 0; i < MAX_RANK; i++) zero[i] = e->pool->zero;
  e->flat = t->flat ? linear : NULL;
  for (int i = 0; i < e->fused->nres; i++) {
    const Node *n = value_of(e, i);
    const LoopExpr *x = elem_at(e, n, t->flat ? zero : index);
    if (!x) return false;
    Dim to = n == e->body->result[i] ? linear : elem_place(e, e->body->result[i], index, at);
    loop_store(&e->b, elem_result(e, i), to, x);
  }
  return true;
}

// Splits a work item into the outer axes and the piece of the last one.
static Dim open_item(ElementBuilder *e, const Nest *t, Dim *index) {
  IntPool *p = e->pool;
  Dim items = t->chunks;
  for (int i = 0; i < t->outer; i++) items = ie_mul(p, items, t->shape[i]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  if (ie_is(items, 1)) item = p->zero;
  Dim chunk = p->zero;
  if (!ie_is(t->chunks, 1)) {
    chunk = t->outer ? ie_mod(p, item, t->chunks) : item;
    item = t->outer ? ie_div(p, item, t->chunks) : p->zero;
  }
  elem_split(e, item, t->outer, t->shape, index);
  return chunk;
}

// Ends of the parts of an axis; gives their number, 1 where cutting is not worth it.
static int find_cuts(const ElementBuilder *e, const Nest *t, int axis, int64_t *cut) {
  const Node **value = arena_array(e->a, const Node *, e->fused->nres);
  int64_t size = t->shape[axis]->value, widest = 0;
  if (t->flat || size < WIDE_PART) return 1;
  for (int i = 0; i < e->fused->nres; i++) value[i] = value_of(e, i);
  int n = elem_cuts(e, value, axis, size, cut);
  for (int i = 0; i < n; i++) widest = MAX(widest, cut[i + 1] - cut[i]);
  return widest >= WIDE_PART ? n : 1;
}

static bool store_last(Pointwise *w, const Nest *t, Dim chunk, Dim *index) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  Dim last = t->shape[t->rank - 1];
  Dim first = ie_mulc(p, chunk, w->s.piece), width = last;
  if (!ie_is(t->chunks, 1)) width = ie_min(p, ie_const(p, w->s.piece), ie_sub(p, last, first));
  int64_t cut[ELEM_CUTS + 2] = {0};
  int parts =
      w->s.cut && ie_is(t->chunks, 1) && ie_is_const(last) ? find_cuts(e, t, t->rank - 1, cut) : 1;
  for (int i = 0; i < parts; i++) {
    if (parts > 1) width = ie_const(p, cut[i + 1] - cut[i]);
    if (parts > 1) first = ie_const(p, cut[i]);
    index[t->rank - 1] = ie_add(p, first, loop_for(&e->b, LOOP_VECTOR, "v", width));
    if (parts > 1) elem_forget(e);
    if (!store_all(e, t, index)) return false;
    loop_end(&e->b);
  }
  return true;
}

// The loops of the item from axis d on.  One axis, the first that passes borders, is cut there as
// well: parts of a concatenation then have loops of their own.
static bool store_axis(Pointwise *w, const Nest *t, int d, bool whole, Dim chunk, Dim *index) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  int64_t at[ELEM_BORDERS];
  if (d >= t->rank - 1) return store_last(w, t, chunk, index);
  int n = whole ? find_borders(w, t, d, at) : 0;
  for (int i = 0; i <= n; i++) {
    int64_t from = i ? at[i - 1] : 0;
    Dim size = n ? ie_const(p, (i < n ? at[i] : t->shape[d]->value) - from) : t->shape[d];
    bool one = ie_is(size, 1);
    index[d] = one ? p->zero : loop_for(&e->b, LOOP_SERIAL, "r", size);
    index[d] = ie_addc(p, index[d], from);
    if (n) elem_forget(e);
    if (!store_axis(w, t, d + 1, whole && !n, chunk, index)) return false;
    if (!one) loop_end(&e->b);
  }
  return true;
}

static bool store_together(Pointwise *w) {
  Nest t;
  Dim index[MAX_RANK];
  plan_nest(w, &t);
  Dim chunk = open_item(&w->e, &t, index);
  if (!store_axis(w, &t, t.outer, true, chunk, index)) return false;
  loop_end(&w->e.b);
  return true;
}

// ---- tiles ----

typedef struct Reads {
  ElementBuilder *e;
  int rank;
  const Dim *sym;
  IntMap seen;
  int along[MAX_RANK];  // loads that lie apart along the last axis and together along this one
} Reads;

static void count_reads(Reads *r, const LoopExpr *x) {
  uint64_t have;
  Dim c[MAX_RANK];
  if (!x || intmap_get(&r->seen, (uint64_t)(uintptr_t)x, &have)) return;
  intmap_put(&r->seen, (uint64_t)(uintptr_t)x, 1);
  for (int i = 0; i < 3; i++) count_reads(r, x->src[i]);
  if (x->kind != LX_LOAD) return;
  Dim index = ie_map(r->e->pool, x->index, guarded_value, &x);
  if (!strides(r->e, index, r->rank, r->sym, c)) return;
  if (ie_is(c[r->rank - 1], 0) || ie_is(c[r->rank - 1], 1)) return;
  for (int d = 0; d < r->rank - 1; d++) r->along[d] += ie_is(c[d], 1);
}

// The axis in which what is read is contiguous, when the last one is not: -1, there is none.
static int contiguous_axis(Lowering *lo, const Node *fused) {
  ElementBuilder *e = arena_new(lo->arena, ElementBuilder);
  const Type *t = fused->type[0];
  Dim shape[MAX_RANK], sym[MAX_RANK];
  if (fused->nres != 1 || t->rank < 2 || !elem_begin(e, lo, fused, NULL, 0)) return -1;
  elem_shape(e, t, shape);
  loop_begin(&e->b, e->k);
  loop_for(&e->b, LOOP_PARALLEL, "item", e->pool->one);
  for (int d = 0; d < t->rank; d++) sym[d] = loop_for(&e->b, LOOP_SERIAL, "r", shape[d]);
  Reads r = {.e = e, .rank = t->rank, .sym = sym};
  intmap_init(&r.seen, e->a);
  count_reads(&r, elem_at(e, e->body->result[0], sym));
  int best = -1;
  for (int d = 0; d < t->rank - 1; d++)
    if (r.along[d] && !ie_is(shape[d], 1) && (best < 0 || r.along[d] > r.along[best])) best = d;
  return best;
}

// Where the last axis is short, lanes go along the axis that is read: what is written lies a little
// apart.
static bool store_across(Pointwise *w) {
  ElementBuilder *e = &w->e;
  int axis = w->axis;
  int64_t piece = w->s.piece / 4;
  IntPool *p = e->pool;
  const Type *t = e->fused->type[0];
  int last = t->rank - 1, n = 0;
  Dim shape[MAX_RANK], index[MAX_RANK], outer[MAX_RANK], at[MAX_RANK], items = p->one;
  elem_shape(e, t, shape);
  for (int d = 0; d < last; d++)
    if (d != axis) items = ie_mul(p, items, outer[n++] = shape[d]);
  outer[n++] = ie_ceildiv(p, shape[axis], ie_const(p, piece));
  items = ie_mul(p, items, outer[n - 1]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, n, outer, at);
  Dim row = ie_mulc(p, at[n - 1], piece);
  Dim rows = ie_min(p, ie_const(p, piece), ie_sub(p, shape[axis], row));
  n = 0;
  for (int d = 0; d < last; d++)
    if (d != axis) index[d] = at[n++];
  index[last] = loop_for(&e->b, LOOP_SERIAL, "c", shape[last]);
  index[axis] = ie_add(p, row, loop_for(&e->b, LOOP_VECTOR, "v", rows));
  if (!elem_store(e, 0, index)) return false;
  for (int i = 0; i < 3; i++) loop_end(&e->b);
  return true;
}

// Whether the result's last axis is words of bytes.
static bool has_words(const Type *t, const Dim *shape, int axis) {
  Dim last = shape[t->rank - 1];
  return dtype_bits(t->dtype) == 8 && t->dtype != DT_BOOL && ie_is_const(last) && last->value > 0 &&
         last->value % BYTES == 0 && ie_is_const(shape[axis]);
}

// The bytes of a pixel from channel `from` on, as one word.
static const LoopExpr *word_at(ElementBuilder *e, Dim *index, int last, Dim from) {
  LoopKernel *k = e->k;
  const LoopExpr *word = NULL;
  for (int i = 0; i < BYTES; i++) {
    index[last] = ie_addc(e->pool, from, i);
    const LoopExpr *x = elem_at(e, e->body->result[0], index);
    if (!x) return NULL;
    x = loop_cast(k, DT_U32, loop_bit_cast(k, DT_U8, x));
    if (i) x = loop_op(k, LOOP_shift_left, x, loop_int(k, DT_U32, 8 * i), NULL);
    word = word ? loop_op(k, LOOP_bit_or, word, x, NULL) : x;
  }
  index[last] = from;
  return word;
}

// Words of a run of pixels, a lane for each, as a loop or written out.  The last ones may hold
// padding, and stand alone.
static bool store_run(ElementBuilder *e, const Nest *t, Dim *index, int axis, int64_t from,
                      int64_t to) {
  IntPool *p = e->pool;
  int last = t->rank - 1;
  int64_t words = t->shape[last]->value / BYTES, looped = words > WORDS ? words - 1 : 0;
  for (int64_t i = looped ? -1 : 0; i < words; i = i < 0 ? looped : i + 1) {
    Dim word = ie_const(p, i);
    if (i < 0) word = loop_for(&e->b, LOOP_SERIAL, "c", ie_const(p, looped));
    Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(p, to - from));
    index[axis] = ie_addc(p, v, from);
    elem_forget(e);
    const LoopExpr *x = word_at(e, index, last, ie_mulc(p, word, BYTES));
    if (!x) return false;
    loop_store(&e->b, elem_result(e, 0), elem_linear(e, t->rank, t->shape, index), x);
    loop_end(&e->b);
    if (i < 0) loop_end(&e->b);
  }
  return true;
}

// Likewise, where the last axis is words of bytes: a lane stores a word.
static bool store_words(Pointwise *w) {
  ElementBuilder *e = &w->e;
  int axis = w->axis;
  IntPool *p = e->pool;
  const Type *t = e->fused->type[0];
  int last = t->rank - 1, n = 0;
  Nest nest = {.rank = t->rank};
  Dim *shape = nest.shape, index[MAX_RANK], outer[MAX_RANK], at[MAX_RANK], items = p->one;
  elem_shape(e, t, shape);
  int64_t cut[ELEM_CUTS + 2] = {0, shape[axis]->value};
  int parts = w->s.cut ? find_cuts(e, &nest, axis, cut) : 1;
  if (parts == 1) cut[1] = shape[axis]->value;
  for (int d = 0; d < last; d++)
    if (d != axis) items = ie_mul(p, items, outer[n++] = shape[d]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, n, outer, at);
  n = 0;
  for (int d = 0; d < last; d++)
    if (d != axis) index[d] = at[n++];
  for (int i = 0; i < parts; i++) {
    if (!store_run(e, &nest, index, axis, cut[i], cut[i + 1])) return false;
  }
  loop_end(&e->b);
  return true;
}

// Elements of a line of the cache, or a few.
static int64_t run_of(const Type *t) { return MAX(64 / elem_bytes(t->dtype), 8); }

// A tile is a few runs of what is read by a run of what is written: both stay in the cache until
// all of them is used, and so do the places of the pages that they lie in.
static bool store_tiled(Pointwise *w) {
  ElementBuilder *e = &w->e;
  IntPool *p = e->pool;
  const Type *t = e->fused->type[0];
  int axis = w->axis, last = t->rank - 1, n = 0;
  int64_t run = run_of(t), rows = w->s.tile_rows;
  Dim shape[MAX_RANK], index[MAX_RANK], outer[MAX_RANK], at[MAX_RANK], items = p->one;
  Dim side = ie_const(p, run), high = ie_const(p, rows * run);
  elem_shape(e, t, shape);
  for (int d = 0; d < last; d++)
    if (d != axis) items = ie_mul(p, items, outer[n++] = shape[d]);
  outer[n++] = ie_ceildiv(p, shape[axis], high);
  items = ie_mul(p, items, outer[n - 1]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, n, outer, at);
  Dim row = ie_mulc(p, at[n - 1], rows * run), block = ie_ceildiv(p, shape[last], side);
  n = 0;
  for (int d = 0; d < last; d++)
    if (d != axis) index[d] = at[n++];
  Dim column = ie_mulc(p, loop_for(&e->b, LOOP_SERIAL, "c", block), run);
  Dim height = ie_min(p, high, ie_sub(p, shape[axis], row));
  index[axis] = ie_add(p, row, loop_for(&e->b, LOOP_SERIAL, "r", height));
  Dim columns = ie_min(p, side, ie_sub(p, shape[last], column));
  index[last] = ie_add(p, column, loop_for(&e->b, LOOP_VECTOR, "v", columns));
  if (!elem_store(e, 0, index)) return false;
  for (int i = 0; i < 4; i++) loop_end(&e->b);
  return true;
}

// ---- results of different shapes ----

// One result, below the axes that all share.
static bool store_alone(ElementBuilder *e, int i, int shared, Dim *index) {
  const Type *t = e->fused->type[i];
  Dim shape[MAX_RANK];
  elem_shape(e, t, shape);
  elem_forget(e);
  for (int d = shared; d < t->rank; d++)
    index[d] = loop_for(&e->b, d == t->rank - 1 ? LOOP_VECTOR : LOOP_SERIAL, "r", shape[d]);
  if (!elem_store(e, i, index)) return false;
  for (int d = shared; d < t->rank; d++) loop_end(&e->b);
  return true;
}

// The first axes, as far as they are the same, are shared out; then one result after the other.
static bool store_apart(ElementBuilder *e) {
  IntPool *p = e->pool;
  const Node *f = e->fused;
  int shared = f->type[0]->rank;
  for (int i = 1; i < f->nres; i++) {
    int same = 0;
    while (same < MIN(shared, f->type[i]->rank) && f->type[i]->dims[same] == f->type[0]->dims[same])
      same++;
    shared = same;
  }
  Dim shape[MAX_RANK], index[MAX_RANK], items = p->one;
  elem_shape(e, f->type[0], shape);
  for (int i = 0; i < shared; i++) items = ie_mul(p, items, shape[i]);
  Dim item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, shared, shape, index);
  for (int i = 0; i < f->nres; i++)
    if (!type_is_empty(f->type[i]) && !store_alone(e, i, shared, index)) return false;
  loop_end(&e->b);
  return true;
}

// ---- the template ----

static bool is_empty(const Node *fused) {
  bool empty = true;
  for (int i = 0; i < fused->nres; i++) empty &= type_is_empty(fused->type[i]);
  return empty;
}

static void *pointwise_match(Lowering *lo, const Node *fused) {
  Pointwise *w = arena_new(lo->arena, Pointwise);
  if (!elem_begin(&w->e, lo, fused, NULL, 0)) return NULL;
  w->axis = -1;
  if (!is_empty(fused) && !reads_straight(w->e.body->result[0]))
    w->axis = contiguous_axis(lo, fused);
  return w;
}

static bool takes_words(Pointwise *w) {
  Dim shape[MAX_RANK];
  const Type *t = w->e.fused->type[0];
  if (w->axis < 0) return false;
  elem_shape(&w->e, t, shape);
  return has_words(t, shape, w->axis);
}

static bool is_short(const Type *t) {
  Dim last = t->dims[t->rank - 1];
  return ie_is_const(last) && last->value < run_of(t) / 2;
}

static bool pointwise_choose(void *match, const LowerTarget *target, const ScheduleGiven *given,
                             void *fields) {
  Pointwise *w = match;
  const Node *fused = w->e.fused;
  (void)target;
  (void)given;
  Form form = is_empty(fused)            ? FORM_EMPTY
              : takes_words(w)           ? FORM_WORDS
              : w->axis < 0              ? same_shapes(&w->e) ? FORM_PLAIN : FORM_SEPARATE
              : is_short(fused->type[0]) ? FORM_ACROSS
                                         : FORM_TILED;
  *(PointwiseSchedule *)fields =
      (PointwiseSchedule){.form = form, .piece = PIECE, .tile_rows = ROWS, .cut = true};
  return true;
}

static bool pointwise_legal(const void *match, const LowerTarget *target, const void *fields,
                            const char **why) {
  Pointwise w = *(const Pointwise *)match;
  const PointwiseSchedule *s = fields;
  bool empty = is_empty(w.e.fused), along = w.axis >= 0;
  (void)target;
  *why = (s->form == FORM_EMPTY) != empty ? "form empty is for results without elements"
         : (s->form == FORM_TILED || s->form == FORM_ACROSS) && !along
             ? "form tiled and across are for one result that is read along another axis"
         : s->form == FORM_WORDS && !takes_words(&w)
             ? "form words is for a last axis of words of bytes that is read across"
         : s->form == FORM_PLAIN && !same_shapes(&w.e) ? "form plain is for results of one shape"
                                                       : NULL;
  return !*why;
}

static bool store_form(Pointwise *w) {
  switch ((Form)w->s.form) {
  case FORM_PLAIN: return store_together(w);
  case FORM_TILED: return store_tiled(w);
  case FORM_ACROSS: return store_across(w);
  case FORM_WORDS: return store_words(w);
  case FORM_SEPARATE: return store_apart(&w->e);
  case FORM_EMPTY: break;
  }
  loop_for(&w->e.b, LOOP_PARALLEL, "item", w->e.pool->zero);  // nothing to do, but done by a kernel
  loop_end(&w->e.b);
  return true;
}

static bool pointwise_build(void *match, const void *fields, Lowered *out) {
  Pointwise *w = match;
  w->s = *(const PointwiseSchedule *)fields;
  loop_begin(&w->e.b, w->e.k);
  if (!store_form(w)) return false;
  elem_finish(&w->e, out);
  return true;
}

const TemplateCode template_pointwise = {.match = pointwise_match,
                                         .choose = pointwise_choose,
                                         .legal = pointwise_legal,
                                         .build = pointwise_build,
                                         SCHEDULE(Pointwise)};
