// resize.c -- template resize: images resized along their last axis, line by line.
//
// A work item is a band of lines.  It finds the places and weights of the columns once.  A line of
// the operand is resampled along its columns into scratch, where it stays until another line takes
// its slot, so that lines of the result that are made of the same ones share them.  A line of the
// result is then the weighted sum of a few resampled lines, one contiguous vector after the other.
//
// Needs:      one resize whose last axis is resized to a constant size, at most two other resized
//             axes, no extrapolation; results made of its elements one by one.  Other sizes may be
//             dynamic.
// Guarantees: `band` is FREE: terms are added along the last axis first, then along the others, as
//             the reference evaluation adds them.
#include "lower/element/resize.h"
#include "lower/element/epilogue.h"
#include "lower/template.h"

#define RESIZE_SCHEDULE(I, B, C, T)                                                                \
  I(T, band, 16, 1, 1 << 16, 1, FREE, "lines of the result per work item, of each plane")          \
  I(T, planes, 1, 1, 1 << 16, 1, FREE, "planes of the result per work item")
SCHEDULE_STRUCT(Resize, RESIZE_SCHEDULE);
SCHEDULE_TABLE(Resize, RESIZE_SCHEDULE);

enum { MOST_WIDTH = 1 << 14, MOST_OUTER = 2, ITEMS = 8, WORK = 8192, FEWEST = 8, PAD = 16 };

typedef struct ResizeKernel {
  ElementBuilder e;
  EpilogueWalk walk;
  Resize r;
  const Type *type;  // of the result
  ResizeAxis *last, *outer[MOST_OUTER];
  int nouter;
  int64_t width, pitch;   // columns of the result; elements of a line in scratch
  int64_t stride, first;  // of the taps of columns; stride 0: their places are in a table
  ResizeSchedule s;
  int32_t places, weights, lines, have;  // scratch
  Dim at[MAX_RANK];
  const LoopExpr *value;
} ResizeKernel;

// ---- what it takes ----

static bool find_resize(ResizeKernel *z, const Node **out) {
  NodeList all = body_order(z->e.lo->g, z->e.body, z->e.a);
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_resize) continue;
    if (*out) return false;
    *out = all.v[i];
  }
  return *out != NULL;
}

static bool sort_axes(ResizeKernel *z) {
  int rank = z->type->rank;
  for (int i = 0; i < z->r.naxes; i++) {
    ResizeAxis *a = &z->r.axis[i];
    if (a->identity) continue;
    if (a->axis == rank - 1)
      z->last = a;
    else if (z->nouter == MOST_OUTER)
      return false;
    else
      z->outer[z->nouter++] = a;
  }
  return z->last && ie_is_const(z->last->out) && z->last->out->value > 0 &&
         z->last->out->value <= MOST_WIDTH && rank >= 2;
}

static void *resize_match(Lowering *lo, const Node *fused) {
  ResizeKernel *z = arena_new(lo->arena, ResizeKernel);
  const Node *n = NULL;
  if (!elem_begin(&z->e, lo, fused, NULL, 0) || !find_resize(z, &n)) return NULL;
  if (!resize_begin(&z->r, &z->e, n)) return NULL;
  if (z->r.at->coordinate_transformation_mode == RESIZE_TF_CROP) return NULL;
  z->type = type_of(n);
  if (!sort_axes(z) || type_is_empty(z->type) || type_is_empty(type_of(n->src[0]))) return NULL;
  epilogue_begin(&z->walk, &z->e, n);
  z->walk.own = n;
  for (int i = 0; i < fused->nres; i++)
    if (!epilogue_reads(&z->walk, z->e.body->result[i])) return NULL;
  z->width = z->last->out->value;
  z->pitch = (z->width + PAD - 1) / PAD * PAD;
  return z;
}

static int64_t planes_of(const Type *t) {  // 0: not known
  int64_t n = 1;
  for (int d = 0; d < t->rank - 2; d++)
    if (!ie_is_const(t->dims[d]) || !ck_mul(n, t->dims[d]->value, &n)) return 0;
  return n;
}

// Items of about WORK elements, but ITEMS of them: a band of a large plane, or several small
// planes.
static bool resize_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                          void *fields) {
  const ResizeKernel *z = match;
  int64_t band = MAX((WORK + z->width - 1) / z->width, FEWEST), group = 1;
  int64_t planes = planes_of(z->type);
  (void)t;
  (void)given;
  Dim lines = z->type->dims[z->type->rank - 2];
  if (ie_is_const(lines)) {
    int64_t units = MAX(MIN(planes, ITEMS), 1);
    int64_t bands = MAX((lines->value + band - 1) / band, (ITEMS + units - 1) / units);
    band = MAX((lines->value + bands - 1) / bands, 1);
    int64_t most = bands > 1 ? 1 : MIN(WORK / (band * z->width), planes / ITEMS);
    for (int64_t n = 2; n <= most; n++)
      if (planes % n == 0) group = n;
  }
  *(ResizeSchedule *)fields = (ResizeSchedule){.band = band, .planes = group};
  return true;
}

static bool resize_legal(const void *match, const LowerTarget *t, const void *fields,
                         const char **why) {
  const ResizeKernel *z = match;
  int64_t group = ((const ResizeSchedule *)fields)->planes, planes = planes_of(z->type);
  (void)t;
  *why = group > 1 && (!planes || planes % group) ? "planes must divide their number" : NULL;
  return !*why;
}

// ---- columns ----

// Whether columns are read by their number divided by a small power of two, which needs no table.
static bool repeats(const ResizeKernel *z) {
  int64_t by;
  if (!z->r.nearest || !resize_repeats(&z->r, z->last, &by)) return false;
  return by <= 8 && (by & (by - 1)) == 0;
}

static void find_columns(ResizeKernel *z) {
  ElementBuilder *e = &z->e;
  IntPool *p = e->pool;
  LoopKernel *k = e->k;
  Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(p, z->width));
  resize_taps(&z->r, z->last, v);
  for (int i = 0; i < z->r.ntaps; i++) {
    Dim at = ie_addc(p, v, i * z->pitch);
    const LoopExpr *place = loop_index(k, z->last->place[i]);
    if (!z->stride) loop_store(&e->b, z->places, at, loop_cast(k, DT_I32, place));
    if (!z->r.nearest) loop_store(&e->b, z->weights, at, z->last->weight[i]);
  }
  loop_end(&e->b);
}

// The element of a resampled line at a column: `at` is its index but for the last axis.
static const LoopExpr *column(ResizeKernel *z, Dim *at, Dim v) {
  ElementBuilder *e = &z->e;
  IntPool *p = e->pool;
  LoopKernel *k = e->k;
  const LoopExpr *all = NULL;
  int last = z->type->rank - 1;
  for (int i = 0; i < z->r.ntaps; i++) {
    Dim from = ie_addc(p, v, i * z->pitch);
    if (z->stride)
      at[last] = ie_addc(p, ie_mulc(p, v, z->stride), z->first + i);
    else if (z->places >= 0)
      at[last] = loop_bind(&e->b, "s", loop_load(k, z->places, from), z->last->in,
                           "a resized axis has no elements");
    const LoopExpr *x = elem_at(e, z->r.n->src[0], at);
    if (!x) return NULL;
    const LoopExpr *w = z->r.nearest ? NULL : loop_load(k, z->weights, from);
    x = resize_term(&z->r, z->r.nearest ? x : loop_cast(k, z->r.sum, x), w);
    all = all ? loop_op(k, LOOP_add, all, x, NULL) : x;
  }
  return all;
}

// ---- lines ----

typedef struct LineTap {
  Dim slot;             // of the line in scratch
  Dim index[MAX_RANK];  // of its elements, but for the last axis
  const LoopExpr *key;  // its number among all lines that the item may read
} LineTap;

static LineTap line_tap(ResizeKernel *z, const int *tap) {
  IntPool *p = z->e.pool;
  LineTap t = {.slot = p->zero};
  Dim key = p->zero;
  memcpy(t.index, z->at, (size_t)z->type->rank * sizeof *t.index);
  for (int i = 0; i < z->nouter; i++) {
    const ResizeAxis *a = z->outer[i];
    Dim place = a->place[tap[i]];
    t.index[a->axis] = place;
    t.slot = ie_add(p, ie_mulc(p, t.slot, z->r.ntaps), ie_mod(p, place, ie_const(p, z->r.ntaps)));
    key = ie_add(p, ie_mul(p, key, a->in), place);
  }
  int line = z->type->rank - 2;
  bool resized = false;
  for (int i = 0; i < z->nouter; i++) resized |= z->outer[i]->axis == line;
  if (!resized)  // every line of the result has one of its own
    key = ie_add(p, ie_mul(p, key, elem_dim(&z->e, z->type->dims[line])), z->at[line]);
  t.key = loop_index(z->e.k, key);
  return t;
}

// Resamples a line, unless its slot holds it.
static bool fill_slot(ResizeKernel *z, LineTap *t) {
  ElementBuilder *e = &z->e;
  LoopKernel *k = e->k;
  const LoopExpr *held = loop_load(k, z->have, t->slot);
  const LoopExpr *key = loop_let(&e->b, t->key);
  loop_if(&e->b, loop_op(k, LOOP_not, loop_op(k, LOOP_eq, held, key, NULL), NULL, NULL));
  Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(e->pool, z->width));
  elem_forget(e);
  if (repeats(z)) {
    resize_taps(&z->r, z->last, v);
    t->index[z->type->rank - 1] = z->last->place[0];
  }
  const LoopExpr *x = column(z, t->index, v);
  if (!x) return false;
  loop_store(&e->b, z->lines, ie_add(e->pool, ie_mulc(e->pool, t->slot, z->pitch), v), x);
  loop_end(&e->b);
  loop_store(&e->b, z->have, t->slot, key);
  loop_end(&e->b);
  return true;
}

// The sum over the taps of outer axis i and those after it.
static const LoopExpr *join_lines(ResizeKernel *z, int i, int *tap, Dim v) {
  ElementBuilder *e = &z->e;
  if (i == z->nouter) {
    LineTap t = line_tap(z, tap);
    Dim at = ie_add(e->pool, ie_mulc(e->pool, t.slot, z->pitch), v);
    return loop_load(e->k, z->lines, at);
  }
  const LoopExpr *all = NULL;
  for (tap[i] = 0; tap[i] < z->r.ntaps; tap[i]++) {
    const LoopExpr *x = join_lines(z, i + 1, tap, v);
    x = resize_term(&z->r, x, z->outer[i]->weight[tap[i]]);
    all = all ? loop_op(e->k, LOOP_add, all, x, NULL) : x;
  }
  return all;
}

static bool fill_slots(ResizeKernel *z, int i, int *tap) {
  if (i == z->nouter) {
    LineTap t = line_tap(z, tap);
    return fill_slot(z, &t);
  }
  bool ok = true;
  for (tap[i] = 0; tap[i] < z->r.ntaps && ok; tap[i]++) ok = fill_slots(z, i + 1, tap);
  return ok;
}

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  const ResizeKernel *z = ctx;
  for (int d = 0; d < z->type->rank; d++)
    if (index[d] != z->at[d] && !ie_is(z->type->dims[d], 1)) return NULL;
  return z->value;
}

static bool store_line(ResizeKernel *z) {
  ElementBuilder *e = &z->e;
  int tap[MOST_OUTER] = {0};
  elem_forget(e);
  for (int i = 0; i < z->nouter; i++) resize_taps(&z->r, z->outer[i], z->at[z->outer[i]->axis]);
  if (!fill_slots(z, 0, tap)) return false;
  Dim v = loop_for(&e->b, LOOP_VECTOR, "v", ie_const(e->pool, z->width));
  z->at[z->type->rank - 1] = v;
  elem_forget(e);
  z->value = loop_let(&e->b, loop_cast(e->k, z->type->dtype, join_lines(z, 0, tap, v)));
  bool ok = epilogue_store(&z->walk, z->at);
  loop_end(&e->b);
  return ok;
}

// ---- the kernel ----

static void make_scratch(ResizeKernel *z) {
  IntPool *p = z->e.pool;
  LoopKernel *k = z->e.k;
  int64_t slots = 1;
  for (int i = 0; i < z->nouter; i++) slots *= z->r.ntaps;
  Dim table = ie_const(p, z->r.ntaps * z->pitch);
  DType t = z->r.nearest ? z->type->dtype : z->r.sum;
  z->lines = loop_buffer(k, LOOP_SCRATCH, "lines", t, ie_const(p, slots * z->pitch), false);
  z->have = loop_buffer(k, LOOP_SCRATCH, "have", DT_I64, ie_const(p, slots), false);
  z->places = z->weights = -1;
  if (repeats(z)) return;
  if (!resize_strided(&z->r, z->last, &z->stride, &z->first))
    z->places = loop_buffer(k, LOOP_SCRATCH, "places", DT_I32, table, false);
  if (!z->r.nearest) z->weights = loop_buffer(k, LOOP_SCRATCH, "weights", z->r.sum, table, false);
}

// Opens the item: `planes` and `lines` get the first of each, gives how many lines there are.
static Dim open_item(ResizeKernel *z, Dim *plane, Dim *line) {
  ElementBuilder *e = &z->e;
  IntPool *p = e->pool;
  Dim planes = p->one, all = elem_dim(e, z->type->dims[z->type->rank - 2]), at[2];
  for (int d = 0; d < z->type->rank - 2; d++)
    planes = ie_mul(p, planes, elem_dim(e, z->type->dims[d]));
  Dim shape[2] = {ie_div(p, planes, ie_const(p, z->s.planes)),
                  ie_ceildiv(p, all, ie_const(p, z->s.band))};
  Dim items = ie_mul(p, shape[0], shape[1]), item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, 2, shape, at);
  *plane = ie_mulc(p, at[0], z->s.planes);
  *line = ie_mulc(p, at[1], z->s.band);
  return ie_min(p, ie_const(p, z->s.band), ie_sub(p, all, *line));
}

// All lines of one plane: no slot holds a line of it yet.
static bool store_plane(ResizeKernel *z, Dim plane, Dim first, Dim lines) {
  ElementBuilder *e = &z->e;
  Dim shape[MAX_RANK], slots = e->k->buffer[z->have].size;
  elem_shape(e, z->type, shape);
  elem_split(e, plane, z->type->rank - 2, shape, z->at);
  Dim slot = loop_for(&e->b, LOOP_SERIAL, "s", slots);
  loop_store(&e->b, z->have, slot, loop_int(e->k, DT_I64, -1));
  loop_end(&e->b);
  Dim line = loop_for(&e->b, LOOP_SERIAL, "y", lines);
  z->at[z->type->rank - 2] = ie_add(e->pool, first, line);
  bool ok = store_line(z);
  loop_end(&e->b);
  return ok;
}

static bool resize_build(void *match, const void *fields, Lowered *out) {
  ResizeKernel *z = match;
  ElementBuilder *e = &z->e;
  Dim plane, line;
  z->s = *(const ResizeSchedule *)fields;
  make_scratch(z);
  elem_give(e, z->r.n, give_value, z);
  loop_begin(&e->b, e->k);
  Dim lines = open_item(z, &plane, &line);
  if (z->places >= 0 || z->weights >= 0) find_columns(z);
  if (z->s.planes > 1) {
    Dim p = loop_for(&e->b, LOOP_SERIAL, "p", ie_const(e->pool, z->s.planes));
    plane = ie_add(e->pool, plane, p);
  }
  if (!store_plane(z, plane, line, lines)) return false;
  if (z->s.planes > 1) loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_resize = {.match = resize_match,
                                      .choose = resize_choose,
                                      .legal = resize_legal,
                                      .build = resize_build,
                                      SCHEDULE(Resize)};
