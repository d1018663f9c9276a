// sample.c -- template sample: grid_sample and roi_align, the taps of a point found once for all
// channels.
//
// A work item is some points of an image, or some bins of a region.  It finds their taps, one point
// a lane, and keeps places and weights in scratch.  Then it goes through the channels: each takes
// the taps from its own plane.
//
// Needs:      one such op that the element builder samples; results made of its elements one by
//             one.  Sizes may be dynamic.
// Guarantees: `points` is FREE: taps are added in the same order in every form.
#include "lower/element/epilogue.h"
#include "lower/element/sample.h"
#include "lower/template.h"

#define SAMPLE_SCHEDULE(I, B, C, T)                                                                \
  I(T, points, 256, 1, 4096, 1, FREE, "points of the result per work item")
SCHEDULE_STRUCT(Sample, SAMPLE_SCHEDULE);
SCHEDULE_TABLE(Sample, SAMPLE_SCHEDULE);

enum { POINTS = 256, FEWEST = 64, ITEMS = 8, TABLES = 16 };

typedef struct SampleKernel {
  ElementBuilder e;
  EpilogueWalk walk;
  Sampler s;
  const Type *type;  // of the result
  Dim points;        // of a channel of the result
  int64_t most;      // of an item
  Dim at[MAX_RANK];
  const LoopExpr *value;
} SampleKernel;

static bool find_sample(SampleKernel *k, const Node **out) {
  NodeList all = body_order(k->e.lo->g, k->e.body, k->e.a);
  for (int64_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_grid_sample && all.v[i]->op != OP_roi_align) continue;
    if (*out) return false;
    *out = all.v[i];
  }
  return *out != NULL;
}

static void *sample_match(Lowering *lo, const Node *fused) {
  SampleKernel *k = arena_new(lo->arena, SampleKernel);
  const Node *n = NULL;
  if (!elem_begin(&k->e, lo, fused, NULL, 0) || !find_sample(k, &n)) return NULL;
  k->type = type_of(n);
  if (type_is_empty(k->type) || !sample_begin(&k->s, &k->e, n)) return NULL;
  epilogue_begin(&k->walk, &k->e, n);
  k->walk.own = n;
  for (int i = 0; i < fused->nres; i++)
    if (!epilogue_reads(&k->walk, k->e.body->result[i])) return NULL;
  k->points = k->e.pool->one;
  for (int d = 2; d < k->type->rank; d++)
    k->points = ie_mul(k->e.pool, k->points, elem_dim(&k->e, k->type->dims[d]));
  return k;
}

static bool sample_choose(void *match, const LowerTarget *t, const ScheduleGiven *given,
                          void *fields) {
  const SampleKernel *k = match;
  int64_t points = POINTS;
  Dim images = k->type->dims[0];
  (void)t;
  (void)given;
  if (ie_is_const(k->points) && ie_is_const(images)) {
    int64_t all = k->points->value, items = MAX(ITEMS / MAX(images->value, 1), 1);
    points = MIN(points, MAX((all + items - 1) / items, FEWEST));
    points = MIN((points + TABLES - 1) / TABLES * TABLES, MAX(all, 1));
  }
  *(SampleSchedule *)fields = (SampleSchedule){.points = points};
  return true;
}

static const LoopExpr *give_value(void *ctx, const Dim *index) {
  const SampleKernel *k = ctx;
  for (int d = 0; d < k->type->rank; d++)
    if (index[d] != k->at[d] && !ie_is(k->type->dims[d], 1)) return NULL;
  return k->value;
}

// Opens a vector over the item's points; sets the index of the point at hand.
static Dim open_points(SampleKernel *k, Dim first, Dim width) {
  ElementBuilder *e = &k->e;
  Dim shape[MAX_RANK], v = loop_for(&e->b, LOOP_VECTOR, "v", width);
  elem_shape(e, k->type, shape);
  elem_split(e, ie_add(e->pool, first, v), k->type->rank - 2, shape + 2, k->at + 2);
  elem_forget(e);
  return v;
}

static bool keep_taps(SampleKernel *k, Dim first, Dim width, int32_t places, int32_t weights) {
  ElementBuilder *e = &k->e;
  SampleTap tap[SAMPLE_TAPS];
  Dim v = open_points(k, first, width), point[MAX_RANK] = {k->at[0]};
  for (int d = 0; d < k->s.nd; d++) point[1 + d] = k->at[2 + d];
  if (!sample_taps(&k->s, point, tap)) return false;
  for (int i = 0; i < k->s.ntaps; i++) {
    Dim at = ie_addc(e->pool, v, i * k->most);
    loop_store(&e->b, places, at, loop_cast(e->k, e->k->buffer[places].dtype, tap[i].place));
    if (weights >= 0) loop_store(&e->b, weights, at, tap[i].weight);
  }
  loop_end(&e->b);
  return true;
}

static bool store_channel(SampleKernel *k, Dim image, Dim first, Dim width, int32_t places,
                          int32_t weights) {
  ElementBuilder *e = &k->e;
  SampleTap tap[SAMPLE_TAPS];
  Dim v = open_points(k, first, width);
  for (int i = 0; i < k->s.ntaps; i++) {
    Dim at = ie_addc(e->pool, v, i * k->most);
    tap[i].place = loop_load(e->k, places, at);
    tap[i].weight = weights >= 0 ? loop_load(e->k, weights, at) : NULL;
  }
  const LoopExpr *x = sample_sum(&k->s, image, k->at[1], tap);
  if (!x) return false;
  k->value = loop_let(&e->b, x);
  bool ok = epilogue_store(&k->walk, k->at);
  loop_end(&e->b);
  return ok;
}

static bool sample_build(void *match, const void *fields, Lowered *out) {
  SampleKernel *k = match;
  ElementBuilder *e = &k->e;
  IntPool *p = e->pool;
  k->most = ((const SampleSchedule *)fields)->points;
  Dim most = ie_const(p, k->most), table = ie_const(p, k->s.ntaps * k->most);
  DType t = k->s.volume->hi < INT32_MAX ? DT_I32 : DT_I64;
  int32_t weights = -1, places = loop_buffer(e->k, LOOP_SCRATCH, "places", t, table, false);
  if (k->s.weighted) weights = loop_buffer(e->k, LOOP_SCRATCH, "weights", k->s.sum, table, false);
  elem_give(e, k->s.n, give_value, k);
  loop_begin(&e->b, e->k);
  Dim shape[2] = {elem_dim(e, k->type->dims[0]), ie_ceildiv(p, k->points, most)}, at[2];
  Dim items = ie_mul(p, shape[0], shape[1]), item = loop_for(&e->b, LOOP_PARALLEL, "item", items);
  elem_split(e, ie_is(items, 1) ? p->zero : item, 2, shape, at);
  k->at[0] = at[0];
  Dim first = ie_mulc(p, at[1], k->most), width = most;
  if (!ie_is_const(k->points) || k->points->value % k->most)
    width = ie_min(p, most, ie_sub(p, k->points, first));
  Dim image = sample_image(&k->s, k->at[0]);
  if (!image || !keep_taps(k, first, width, places, weights)) return false;
  k->at[1] = loop_for(&e->b, LOOP_SERIAL, "c", elem_dim(e, k->type->dims[1]));
  if (!store_channel(k, image, first, width, places, weights)) return false;
  loop_end(&e->b);
  loop_end(&e->b);
  elem_finish(e, out);
  return true;
}

const TemplateCode template_sample = {
    .match = sample_match, .choose = sample_choose, .build = sample_build, SCHEDULE(Sample)};
