// sample.c -- taps of grid_sample and roi_align, as expressions.
//
// Positions are computed in f64, as the reference evaluation does it; those of nearest in f32 where
// the grid is f32.  A tap outside the plane has the place 0 and is read as 0.
//
// Needs:      grid_sample of floats, or nearest; at most 64 taps.  roi_align by averages with a
//             constant number of samples, at most 4 along each side of a bin.
// Guarantees: every place is computed from a clamped position, so that no check of it fails.  A
//             point that is not finite gives NaN, or 0 with nearest.
#include "lower/element/sample.h"

#include "eval/image.h"
#include "eval/window.h"
#include "lower/element/resize.h"

#include <math.h>

static const LoopExpr *num(Sampler *s, double v) { return loop_float(s->e->k, DT_F64, v); }
static const LoopExpr *of_dim(Sampler *s, Dim d) {
  if (ie_is_const(d)) return num(s, (double)d->value);
  return loop_cast(s->e->k, DT_F64, loop_index(s->e->k, d));
}
static const LoopExpr *one(Sampler *s, LoopOp op, const LoopExpr *a) {
  return loop_op(s->e->k, op, a, NULL, NULL);
}
static const LoopExpr *two(Sampler *s, LoopOp op, const LoopExpr *a, const LoopExpr *b) {
  return loop_op(s->e->k, op, a, b, NULL);
}
static const LoopExpr *choose(Sampler *s, const LoopExpr *c, const LoopExpr *a, const LoopExpr *b) {
  return loop_op(s->e->k, LOOP_select, c, a, b);
}
static const LoopExpr *let(Sampler *s, const LoopExpr *x) { return loop_let(&s->e->b, x); }

// The taps of one axis.
typedef struct AxisTaps {
  int n;
  const LoopExpr *place[SAMPLE_AXES * 2];   // f64, whole; 0 where there is none
  const LoopExpr *inside[SAMPLE_AXES * 2];  // bool; NULL: always
  const LoopExpr *weight[SAMPLE_AXES * 2];  // f64; NULL: 1
} AxisTaps;

// ---- grid_sample ----

static const LoopExpr *denormalised(Sampler *s, const LoopExpr *g, Dim size) {
  const grid_sample_attrs *at = s->n->attrs;
  bool narrow = at->mode == SAMPLE_NEAREST && g->dtype == DT_F32;
  DType t = narrow ? DT_F32 : DT_F64;
  LoopKernel *k = s->e->k;
  const LoopExpr *n = loop_cast(k, t, of_dim(s, size)), *x = loop_cast(k, t, g);
  const LoopExpr *unit = loop_float(k, t, 1), *half = loop_float(k, t, 2);
  x = two(s, LOOP_add, x, unit);
  if (at->align_corners)
    x = two(s, LOOP_mul, two(s, LOOP_div, x, half), two(s, LOOP_sub, n, unit));
  else
    x = two(s, LOOP_div, two(s, LOOP_sub, two(s, LOOP_mul, x, n), unit), half);
  return let(s, loop_cast(k, DT_F64, x));
}

// Folds a position into [lo, hi] by mirrors at both ends.
static const LoopExpr *reflected(Sampler *s, const LoopExpr *x, const LoopExpr *lo,
                                 const LoopExpr *hi) {
  const LoopExpr *range = two(s, LOOP_sub, hi, lo), *below = two(s, LOOP_lt, x, lo);
  const LoopExpr *flat = two(s, LOOP_le, range, num(s, 0));
  const LoopExpr *in = two(s, LOOP_and, two(s, LOOP_le, lo, x), two(s, LOOP_le, x, hi));
  const LoopExpr *by = choose(s, flat, num(s, 1), range);
  const LoopExpr *d = choose(s, below, two(s, LOOP_sub, lo, x), two(s, LOOP_sub, x, hi));
  const LoopExpr *n = let(s, one(s, LOOP_floor, two(s, LOOP_div, d, by)));
  const LoopExpr *r = let(s, two(s, LOOP_sub, d, two(s, LOOP_mul, n, by)));
  const LoopExpr *pairs = one(s, LOOP_floor, two(s, LOOP_div, n, num(s, 2)));
  const LoopExpr *even = two(s, LOOP_eq, two(s, LOOP_mul, pairs, num(s, 2)), n);
  const LoopExpr *up = two(s, LOOP_eq, below, even);
  const LoopExpr *y = choose(s, up, two(s, LOOP_add, lo, r), two(s, LOOP_sub, hi, r));
  return let(s, choose(s, in, x, choose(s, flat, lo, y)));
}

// The same of a whole position that is at most 2 outside of an axis of at least NEAR elements,
// which one mirror brings back.
enum { NEAR = 4 };

static const LoopExpr *mirrored(Sampler *s, const LoopExpr *i, const LoopExpr *lo,
                                const LoopExpr *hi) {
  const LoopExpr *low = two(s, LOOP_sub, two(s, LOOP_add, lo, lo), i);
  const LoopExpr *high = two(s, LOOP_sub, two(s, LOOP_add, hi, hi), i);
  i = choose(s, two(s, LOOP_lt, hi, i), high, choose(s, two(s, LOOP_lt, i, lo), low, i));
  return let(s, i);
}

// The whole position i as a place of an axis.
static void place_tap(Sampler *s, AxisTaps *t, int k, const LoopExpr *i, Dim size) {
  const grid_sample_attrs *at = s->n->attrs;
  const LoopExpr *last = two(s, LOOP_sub, of_dim(s, size), num(s, 1));
  const LoopExpr *edge = num(s, at->align_corners ? 0 : 0.5);
  const LoopExpr *lo = one(s, LOOP_neg, edge), *hi = two(s, LOOP_add, last, edge);
  if (at->padding_mode == SAMPLE_REFLECTION)
    i = size->lo >= NEAR ? mirrored(s, let(s, i), lo, hi)
                         : one(s, LOOP_floor, reflected(s, i, lo, hi));
  const LoopExpr *zero = num(s, 0);
  const LoopExpr *in = let(s, two(s, LOOP_and, two(s, LOOP_le, zero, i), two(s, LOOP_le, i, last)));
  const LoopExpr *other = zero;
  if (at->padding_mode == SAMPLE_ZEROS)
    t->inside[k] = t->inside[k] ? two(s, LOOP_and, t->inside[k], in) : in;
  else
    other = choose(s, two(s, LOOP_lt, last, i), last, zero);
  t->place[k] = choose(s, in, i, other);
}

static void grid_axis(Sampler *s, const LoopExpr *g, Dim size, AxisTaps *t) {
  const grid_sample_attrs *at = s->n->attrs;
  bool nearest = at->mode == SAMPLE_NEAREST, cubic = at->mode == SAMPLE_CUBIC;
  const LoopExpr *x = denormalised(s, g, size),
                 *last = two(s, LOOP_sub, of_dim(s, size), num(s, 1));
  const LoopExpr *edge = num(s, at->align_corners ? 0 : 0.5), *zero = num(s, 0);
  const LoopExpr *lo = one(s, LOOP_neg, edge), *hi = two(s, LOOP_add, last, edge);
  const LoopExpr *finite = let(s, two(s, LOOP_eq, two(s, LOOP_sub, x, x), zero));
  if (nearest) x = one(s, LOOP_round, x);
  if (at->padding_mode == SAMPLE_BORDER && !cubic)
    x = choose(s, two(s, LOOP_lt, x, lo), zero, choose(s, two(s, LOOP_lt, hi, x), last, x));
  if (at->padding_mode == SAMPLE_REFLECTION) x = reflected(s, let(s, x), lo, hi);
  x = let(s, x);
  const LoopExpr *base = one(s, LOOP_floor, x);
  if (nearest) base = choose(s, two(s, LOOP_lt, x, zero), one(s, LOOP_ceil, x), base);
  base = let(s, base);
  const LoopExpr *part = let(s, two(s, LOOP_sub, x, base));
  *t = (AxisTaps){.n = nearest ? 1 : cubic ? 4 : 2};
  for (int k = 0; k < t->n; k++) {
    if (nearest) t->inside[k] = finite;
    place_tap(s, t, k, two(s, LOOP_add, base, num(s, k - (cubic ? 1 : 0))), size);
    if (nearest) continue;
    const LoopExpr *w = cubic ? resize_cubic(s->e->k, -0.75, part, k)
                        : k   ? part
                              : two(s, LOOP_sub, num(s, 1), part);
    t->weight[k] = choose(s, finite, w, num(s, NAN));
  }
}

static bool grid_begin(Sampler *s) {
  const grid_sample_attrs *at = s->n->attrs;
  int each = at->mode == SAMPLE_NEAREST ? 1 : at->mode == SAMPLE_LINEAR ? 2 : 4;
  s->ntaps = 1;
  s->weighted = at->mode != SAMPLE_NEAREST;
  s->inside = s->weighted && at->padding_mode != SAMPLE_ZEROS;
  for (int d = 0; d < s->nd; d++) s->ntaps *= each;
  const Type *g = type_of(s->n->src[1]);
  return s->ntaps <= SAMPLE_TAPS && g->rank == s->nd + 2 && dtype_is_float(g->dtype);
}

// ---- roi_align ----

static bool roi_begin(Sampler *s) {
  const roi_align_attrs *at = s->n->attrs;
  int64_t ratio = at->sampling_ratio;
  if (at->mode != 0 || ratio < 1 || ratio > 4 || s->nd != 2) return false;
  if (type_of(s->n->src[1])->rank != 2 || type_of(s->n->src[2])->rank != 1) return false;
  s->weighted = true;
  s->ntaps = (int)(4 * ratio * ratio);
  s->count = (double)(ratio * ratio);
  return true;
}

static const LoopExpr *roi_side(Sampler *s, Dim roi, int column) {
  const roi_align_attrs *at = s->n->attrs;
  Dim index[2] = {roi, ie_const(s->e->pool, column)};
  const LoopExpr *x = elem_at(s->e, s->n->src[1], index);
  if (!x) return NULL;
  x = two(s, LOOP_mul, loop_cast(s->e->k, DT_F64, x), num(s, at->spatial_scale));
  return let(s, two(s, LOOP_sub, x, num(s, at->coordinate_transformation_mode == 0 ? 0.5 : 0)));
}

// Both neighbours of each sample of a bin along an axis.
static bool roi_axis(Sampler *s, const Dim *point, int axis, AxisTaps *t) {
  const roi_align_attrs *at = s->n->attrs;
  int64_t bins = axis ? at->output_width : at->output_height, ratio = at->sampling_ratio;
  const LoopExpr *from = roi_side(s, point[0], 1 - axis), *to = roi_side(s, point[0], 3 - axis);
  if (!from || !to) return false;
  const LoopExpr *len = two(s, LOOP_sub, to, from), *size = of_dim(s, s->size[axis]);
  const LoopExpr *last = two(s, LOOP_sub, size, num(s, 1));
  if (at->coordinate_transformation_mode != 0) len = two(s, LOOP_max, len, num(s, 1));
  const LoopExpr *bin = let(s, two(s, LOOP_div, len, num(s, (double)bins)));
  const LoopExpr *place = of_dim(s, elem_unguarded(s->e, point[1 + axis]));
  const LoopExpr *start = let(s, two(s, LOOP_add, from, two(s, LOOP_mul, place, bin)));
  *t = (AxisTaps){.n = (int)(2 * ratio)};
  for (int i = 0; i < ratio; i++) {
    const LoopExpr *step =
        two(s, LOOP_div, two(s, LOOP_mul, num(s, i + 0.5), bin), num(s, (double)ratio));
    const LoopExpr *v = let(s, two(s, LOOP_add, start, step));
    const LoopExpr *in =
        let(s, two(s, LOOP_and, two(s, LOOP_le, num(s, -1), v), two(s, LOOP_le, v, size)));
    v = let(s, choose(s, two(s, LOOP_lt, v, num(s, 0)), num(s, 0), v));
    const LoopExpr *low = one(s, LOOP_floor, v), *edge = let(s, two(s, LOOP_le, last, low));
    low = let(s, choose(s, in, choose(s, edge, last, low), num(s, 0)));
    const LoopExpr *part = let(s, choose(s, edge, num(s, 0), two(s, LOOP_sub, v, low)));
    for (int k = 0; k < 2; k++) {
      t->inside[2 * i + k] = in;
      t->place[2 * i + k] = k ? choose(s, edge, low, two(s, LOOP_add, low, num(s, 1))) : low;
      t->place[2 * i + k] = choose(s, in, t->place[2 * i + k], num(s, 0));
      t->weight[2 * i + k] = k ? part : two(s, LOOP_sub, num(s, 1), part);
    }
  }
  return true;
}

// ---- both ----

bool sample_begin(Sampler *s, ElementBuilder *e, const Node *n) {
  const Type *x = type_of(n->src[0]), *y = type_of(n);
  bool roi = n->op == OP_roi_align;
  *s = (Sampler){.e = e, .n = n, .nd = x->rank - 2, .sum = elem_sum_dtype(x->dtype), .count = 1};
  if (s->nd < 1 || s->nd > SAMPLE_AXES || y->rank != x->rank || type_is_empty(x)) return false;
  if (!(roi ? roi_begin(s) : grid_begin(s))) return false;
  if (s->weighted && dtype_class(x->dtype) != DC_FLOAT) return false;
  s->volume = e->pool->one;
  for (int d = 0; d < s->nd; d++) {
    s->size[d] = elem_dim(e, x->dims[2 + d]);
    if (roi && s->size[d]->lo < 1) return false;
    s->volume = ie_mul(e->pool, s->volume, s->size[d]);
  }
  return true;
}

Dim sample_image(Sampler *s, Dim first) {
  if (s->n->op != OP_roi_align) return first;
  const LoopExpr *i = elem_at(s->e, s->n->src[2], &first);
  Dim images = elem_dim(s->e, type_of(s->n->src[0])->dims[0]);
  return i ? elem_checked(s->e, i, images, "a region is of an image that is not there") : NULL;
}

// Joins the taps of all axes, the innermost running fastest.
static void join_taps(Sampler *s, const AxisTaps *t, SampleTap *out) {
  LoopKernel *k = s->e->k;
  for (int i = 0; i < s->ntaps; i++) {
    const LoopExpr *place = NULL, *in = NULL, *w = NULL;
    for (int d = 0, rest = i, below = s->ntaps; d < s->nd; d++) {
      below /= t[d].n;
      int tap = rest / below;
      rest %= below;
      const LoopExpr *own = t[d].place[tap], *v = t[d].weight[tap];
      place = place ? two(s, LOOP_add, two(s, LOOP_mul, place, of_dim(s, s->size[d])), own) : own;
      if (t[d].inside[tap]) in = in ? two(s, LOOP_and, in, t[d].inside[tap]) : t[d].inside[tap];
      if (v) w = w ? two(s, LOOP_mul, w, v) : v;
    }
    if (!s->inside) place = two(s, LOOP_add, place, num(s, 1));
    if (in) place = choose(s, in, place, num(s, 0));
    out[i].place = let(s, loop_cast(k, DT_I64, place));
    out[i].weight = w ? let(s, loop_cast(k, s->sum, w)) : NULL;
  }
}

bool sample_taps(Sampler *s, const Dim *point, SampleTap *out) {
  AxisTaps t[SAMPLE_AXES];
  for (int d = 0; d < s->nd; d++) {
    if (s->size[d]->lo < 1)
      loop_bind(&s->e->b, "s", loop_int(s->e->k, DT_I64, 0), s->size[d],
                "x has an empty spatial axis");
    if (s->n->op == OP_roi_align) {
      if (!roi_axis(s, point, d, &t[d])) return false;
      continue;
    }
    // A grid lists its coordinates from the innermost axis out.
    Dim index[MAX_RANK];
    memcpy(index, point, (size_t)(s->nd + 1) * sizeof *index);
    index[s->nd + 1] = ie_const(s->e->pool, s->nd - 1 - d);
    const LoopExpr *g = elem_at(s->e, s->n->src[1], index);
    if (!g) return false;
    grid_axis(s, g, s->size[d], &t[d]);
  }
  join_taps(s, t, out);
  return true;
}

const LoopExpr *sample_sum(Sampler *s, Dim image, Dim channel, const SampleTap *tap) {
  ElementBuilder *e = s->e;
  IntPool *p = e->pool;
  const LoopExpr *all = NULL;
  for (int i = 0; i < s->ntaps; i++) {
    int before = e->nguards;
    Dim index[MAX_RANK] = {image, channel};
    Dim places = s->inside ? s->volume : ie_addc(p, s->volume, 1), inside;
    inside = loop_bind(&e->b, "p", tap[i].place, places, "a sample lies outside its plane");
    if (!s->inside) inside = elem_guard(e, ie_addc(p, inside, -1), s->volume);
    if (!inside) return NULL;
    elem_split(e, inside, s->nd, s->size, index + 2);
    const LoopExpr *x = elem_at(e, s->n->src[0], index);
    if (x) x = elem_guarded(e, before, x, elem_number(e, x->dtype, 0));
    elem_unguard(e, before);
    if (!x) return NULL;
    if (s->weighted) x = two(s, LOOP_mul, loop_cast(e->k, s->sum, x), tap[i].weight);
    all = all ? two(s, LOOP_add, all, x) : x;
  }
  if (s->count != 1) all = two(s, LOOP_div, all, loop_float(e->k, s->sum, s->count));
  return loop_cast(e->k, type_of(s->n)->dtype, all);
}

const LoopExpr *elem_sample(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  Sampler *s = arena_new(e->a, Sampler);
  SampleTap *tap = arena_array(e->a, SampleTap, SAMPLE_TAPS);
  Dim point[MAX_RANK] = {index[0]};
  (void)result;
  if (e->nguards || !sample_begin(s, e, n)) return NULL;
  for (int d = 0; d < s->nd; d++) point[1 + d] = index[2 + d];
  Dim image = sample_image(s, index[0]);
  if (!image || !sample_taps(s, point, tap)) return NULL;
  const LoopExpr *x = sample_sum(s, image, index[1], tap);
  return x ? loop_let(&e->b, x) : NULL;
}
