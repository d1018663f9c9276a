// resize.c -- elements of resize: nearest, linear and cubic, in all coordinate modes.
//
// The position in the operand is computed in f64 for each axis, as the reference evaluation does
// it.  It is clamped, then bound as an index.  Nearest with an integer scale divides the index.
//
// Needs:      constant scales, or sizes with the policy `stretch`; a constant roi for
//             tf_crop_and_resize; a float type, except for nearest.  No antialias.
// Guarantees: NULL otherwise, and the host evaluates the op.  Indices are clamped, so no check
//             fails.  The same taps in the same order as the reference evaluation; without
//             FAST_REASSOC a tap of weight 0 adds nothing, also where its pixel is infinite.
#include "lower/element/resize.h"

#include <math.h>

enum { MOST_WHOLE = 1 << 14 };  // elements of an axis whose positions are looked at one by one

// ---- arithmetic in f64 ----

static const LoopExpr *num(Resize *r, double v) { return loop_float(r->e->k, DT_F64, v); }
static const LoopExpr *of_dim(Resize *r, Dim d) {
  if (ie_is_const(d)) return num(r, (double)d->value);
  return loop_cast(r->e->k, DT_F64, loop_index(r->e->k, d));
}
static const LoopExpr *two(Resize *r, LoopOp op, const LoopExpr *a, const LoopExpr *b) {
  return loop_op(r->e->k, op, a, b, NULL);
}
static const LoopExpr *as_f32(Resize *r, const LoopExpr *x) {
  return loop_cast(r->e->k, DT_F64, loop_cast(r->e->k, DT_F32, x));
}
static const LoopExpr *choose(Resize *r, const LoopExpr *c, const LoopExpr *a, const LoopExpr *b) {
  return loop_op(r->e->k, LOOP_select, c, a, b);
}

// ---- sizes ----

// Whether scales and sizes are such that a kernel knows them.
static bool read_axes(Resize *r) {
  Graph *g = r->e->lo->g;
  const Type *x = type_of(r->n->src[0]), *y = type_of(r->n);
  const Node *sizes = src_or_null(g, r->n, 3), *scales = src_or_null(g, r->n, 2);
  const Node *roi = src_or_null(g, r->n, 1);
  bool by_size = sizes && type_of(sizes)->rank == 1 && !ie_is(type_of(sizes)->dims[0], 0);
  const Value *s = !by_size && scales ? node_known(g, scales) : NULL, *crop = NULL;
  bool crops = r->at->coordinate_transformation_mode == RESIZE_TF_CROP;
  if (crops && !(roi && (crop = node_known(g, roi)))) return false;
  if (by_size && r->at->keep_aspect_ratio_policy != RESIZE_STRETCH) return false;
  if (!by_size && !s) return false;
  r->naxes = r->at->axes.n ? (int)r->at->axes.n : x->rank;
  if ((s && s->n != r->naxes) || (crop && crop->n != 2 * r->naxes)) return false;
  for (int i = 0; i < r->naxes; i++) {
    ResizeAxis *a = &r->axis[i];
    *a = (ResizeAxis){.axis = r->at->axes.n ? elem_axis(r->at->axes.v[i], x->rank) : i,
                      .roi = {0, 1}};
    a->in = elem_dim(r->e, x->dims[a->axis]);
    a->out = elem_dim(r->e, y->dims[a->axis]);
    a->by_size = by_size;
    a->scale = s ? val_f64(s, i) : 0;
    if (crop) a->roi[0] = val_f64(crop, i), a->roi[1] = val_f64(crop, r->naxes + i);
    bool same = by_size ? a->in == a->out : fabs(a->scale - 1) < 1e-9;
    a->identity = same && a->roi[0] == 0 && a->roi[1] == 1;
    a->scale_x = s ? num(r, a->scale) : two(r, LOOP_div, of_dim(r, a->out), of_dim(r, a->in));
    a->width = s ? two(r, LOOP_mul, num(r, a->scale), of_dim(r, a->in)) : of_dim(r, a->out);
  }
  return true;
}

// ---- positions ----

static const LoopExpr *unscale(Resize *r, const ResizeAxis *a, const LoopExpr *v) {
  if (a->by_size) return two(r, LOOP_div, two(r, LOOP_mul, v, of_dim(r, a->in)), of_dim(r, a->out));
  v = two(r, LOOP_div, v, num(r, a->scale));
  return r->at->mode == RESIZE_NEAREST ? as_f32(r, v) : v;
}

static const LoopExpr *crop_position(Resize *r, const ResizeAxis *a, const LoopExpr *v,
                                     const LoopExpr *last) {
  const LoopExpr *middle = two(r, LOOP_mul, num(r, 0.5 * (a->roi[0] + a->roi[1])), last);
  const LoopExpr *x = two(r, LOOP_mul, v, num(r, a->roi[1] - a->roi[0]));
  x = two(r, LOOP_div, two(r, LOOP_mul, x, last), two(r, LOOP_sub, of_dim(r, a->out), num(r, 1)));
  x = two(r, LOOP_add, two(r, LOOP_mul, num(r, a->roi[0]), last), x);
  return choose(r, two(r, LOOP_eq, of_dim(r, a->out), num(r, 1)), middle, x);
}

static const LoopExpr *position(Resize *r, const ResizeAxis *a, const LoopExpr *v) {
  const LoopExpr *last = of_dim(r, ie_addc(r->e->pool, a->in, -1)), *x;
  const LoopExpr *centre = two(r, LOOP_add, v, num(r, 0.5));
  switch (r->at->coordinate_transformation_mode) {
  case RESIZE_CORNERS:
    x = two(r, LOOP_div, two(r, LOOP_mul, v, last), two(r, LOOP_sub, of_dim(r, a->out), num(r, 1)));
    return choose(r, two(r, LOOP_eq, of_dim(r, a->out), num(r, 1)), num(r, 0), x);
  case RESIZE_ASYMMETRIC: return unscale(r, a, v);
  case RESIZE_TF_HALF: return unscale(r, a, centre);
  case RESIZE_PYTORCH:
    x = two(r, LOOP_sub, unscale(r, a, centre), num(r, 0.5));
    return choose(r, two(r, LOOP_lt, num(r, 1), of_dim(r, a->out)), x, num(r, 0));
  case RESIZE_SYMMETRIC:
    x = two(r, LOOP_sub, num(r, 1), two(r, LOOP_div, of_dim(r, a->out), a->width));
    x = two(r, LOOP_mul, two(r, LOOP_div, of_dim(r, a->in), num(r, 2)), x);
    x = two(r, LOOP_add, x, two(r, LOOP_div, centre, a->scale_x));
    return two(r, LOOP_sub, x, num(r, 0.5));
  case RESIZE_TF_CROP: return crop_position(r, a, v, last);
  default: return two(r, LOOP_sub, unscale(r, a, centre), num(r, 0.5));
  }
}

// A position as an index of the operand: clamped, so that it is one.
static Dim bind_place(Resize *r, const ResizeAxis *a, const LoopExpr *x) {
  const LoopExpr *last = of_dim(r, ie_addc(r->e->pool, a->in, -1));
  x = two(r, LOOP_max, num(r, 0), two(r, LOOP_min, x, last));
  x = loop_let(&r->e->b, loop_cast(r->e->k, DT_I64, x));
  return loop_bind(&r->e->b, "s", x, a->in, "a resized axis has no elements");
}

static void note_outside(Resize *r, const ResizeAxis *a, const LoopExpr *x) {
  if (r->at->coordinate_transformation_mode != RESIZE_TF_CROP) return;
  const LoopExpr *last = of_dim(r, ie_addc(r->e->pool, a->in, -1));
  const LoopExpr *in = two(r, LOOP_and, two(r, LOOP_le, num(r, 0), x), two(r, LOOP_le, x, last));
  const LoopExpr *out = loop_op(r->e->k, LOOP_not, in, NULL, NULL);
  r->outside = r->outside ? two(r, LOOP_or, r->outside, out) : out;
}

// ---- nearest ----

bool resize_repeats(const Resize *r, const ResizeAxis *a, int64_t *k) {
  double s = a->scale;
  if (a->by_size && ie_is_const(a->in) && ie_is_const(a->out) && a->in->value > 0 &&
      a->out->value % a->in->value == 0)
    s = (double)(a->out->value / a->in->value);
  if (!(s >= 1 && s < 1024 && s == floor(s))) return false;
  *k = (int64_t)s;
  switch (r->at->coordinate_transformation_mode) {
  case RESIZE_HALF_PIXEL:
  case RESIZE_PYTORCH:
    // No position lies half-way between two elements: (2i + 1)/2k is never whole.
    return r->at->nearest_mode == RESIZE_PREFER_FLOOR || r->at->nearest_mode == RESIZE_PREFER_CEIL;
  case RESIZE_ASYMMETRIC: return r->at->nearest_mode == RESIZE_FLOOR;
  default: return false;
  }
}

// The element that a position is rounded to: f64, whole.
static const LoopExpr *rounded(Resize *r, const LoopExpr *x) {
  const LoopExpr *low = loop_op(r->e->k, LOOP_floor, x, NULL, NULL), *t;
  t = two(r, LOOP_sub, x, low);
  const LoopExpr *next = two(r, LOOP_add, low, num(r, 1));
  switch (r->at->nearest_mode) {
  case RESIZE_PREFER_FLOOR: low = choose(r, two(r, LOOP_lt, num(r, 0.5), t), next, low); break;
  case RESIZE_PREFER_CEIL: low = choose(r, two(r, LOOP_le, num(r, 0.5), t), next, low); break;
  case RESIZE_FLOOR: break;
  default: low = loop_op(r->e->k, LOOP_ceil, x, NULL, NULL);
  }
  return low;
}

static Dim nearest_place(Resize *r, ResizeAxis *a, Dim index) {
  int64_t k;
  if (resize_repeats(r, a, &k)) return ie_div(r->e->pool, index, ie_const(r->e->pool, k));
  const LoopExpr *x = position(r, a, of_dim(r, elem_unguarded(r->e, index)));
  note_outside(r, a, x);
  if (!a->by_size) x = as_f32(r, x);
  return bind_place(r, a, rounded(r, loop_let(&r->e->b, x)));
}

// ---- linear and cubic ----

const LoopExpr *resize_cubic(LoopKernel *k, double a, const LoopExpr *t, int tap) {
#define REAL(v)       loop_float(k, DT_F64, v)
#define TWO(op, x, y) loop_op(k, LOOP_##op, x, y, NULL)
  // The distance to the tap.
  const LoopExpr *d = tap == 0   ? TWO(add, t, REAL(1))
                      : tap == 1 ? t
                      : tap == 2 ? TWO(sub, REAL(1), t)
                                 : TWO(sub, REAL(2), t);
  if (tap == 0 || tap == 3) {  // ((a*d - 5a)*d + 8a)*d - 4a
    const LoopExpr *w = TWO(sub, TWO(mul, REAL(a), d), REAL(5 * a));
    w = TWO(add, TWO(mul, w, d), REAL(8 * a));
    return TWO(sub, TWO(mul, w, d), REAL(4 * a));
  }
  const LoopExpr *w = TWO(sub, TWO(mul, REAL(a + 2), d), REAL(a + 3));
  return TWO(add, TWO(mul, TWO(mul, w, d), d), REAL(1));
#undef REAL
#undef TWO
}

// Weights of taps outside become 0, and the others share them.
static void leave_out(Resize *r, ResizeAxis *a, const LoopExpr *first, int ntaps) {
  const LoopExpr *sum = NULL, *size = of_dim(r, a->in);
  for (int i = 0; i < ntaps; i++) {
    const LoopExpr *at = two(r, LOOP_add, first, num(r, i));
    const LoopExpr *in =
        two(r, LOOP_and, two(r, LOOP_le, num(r, 0), at), two(r, LOOP_lt, at, size));
    a->weight[i] = choose(r, in, a->weight[i], num(r, 0));
    sum = sum ? two(r, LOOP_add, sum, a->weight[i]) : a->weight[i];
  }
  sum = choose(r, two(r, LOOP_eq, sum, num(r, 0)), num(r, 1), sum);
  for (int i = 0; i < ntaps; i++) a->weight[i] = two(r, LOOP_div, a->weight[i], sum);
}

static void find_taps(Resize *r, ResizeAxis *a, Dim index, int ntaps, DType sum) {
  const LoopExpr *x = position(r, a, of_dim(r, elem_unguarded(r->e, index)));
  note_outside(r, a, x);
  x = loop_let(&r->e->b, x);
  // The pixel left of the position, strictly: one on a pixel has that pixel as its right one.
  const LoopExpr *left = two(r, LOOP_sub, loop_op(r->e->k, LOOP_ceil, x, NULL, NULL), num(r, 1));
  const LoopExpr *t = loop_let(&r->e->b, two(r, LOOP_sub, x, left));
  const LoopExpr *first = ntaps == 4 ? two(r, LOOP_sub, left, num(r, 1)) : left;
  for (int i = 0; i < ntaps; i++) {
    if (ntaps == 4)
      a->weight[i] = resize_cubic(r->e->k, r->at->cubic_coeff_a, t, i);
    else
      a->weight[i] = i ? t : two(r, LOOP_sub, num(r, 1), t);
  }
  if (r->at->exclude_outside) leave_out(r, a, first, ntaps);
  for (int i = 0; i < ntaps; i++) {
    a->weight[i] = loop_let(&r->e->b, loop_cast(r->e->k, sum, a->weight[i]));
    a->place[i] = bind_place(r, a, two(r, LOOP_add, first, num(r, i)));
  }
}

static const LoopExpr *interpolate(Resize *r, int i, Dim *at) {
  while (i < r->naxes && r->axis[i].identity) i++;
  if (i == r->naxes) {
    const LoopExpr *x = elem_at(r->e, r->n->src[0], at);
    return x ? loop_cast(r->e->k, r->sum, x) : NULL;
  }
  const ResizeAxis *a = &r->axis[i];
  const LoopExpr *all = NULL;
  for (int k = 0; k < r->ntaps; k++) {
    at[a->axis] = a->place[k];
    const LoopExpr *x = interpolate(r, i + 1, at);
    if (!x) return NULL;
    x = resize_term(r, x, a->weight[k]);
    all = all ? two(r, LOOP_add, all, x) : x;
  }
  return all;
}

// ---- all ----

// Whether every position along the axis lies on an element, as where an image is halved
// asymmetrically: then one tap has all the weight.
static bool on_elements(Resize *r, const ResizeAxis *a) {
  if (!ie_is_const(a->in) || !ie_is_const(a->out) || a->in->value > MOST_WHOLE ||
      a->out->value > MOST_WHOLE)
    return false;
  for (int64_t i = 0; i < a->out->value; i++) {
    const LoopExpr *x = position(r, a, num(r, (double)i));
    if (x->kind != LX_CONST || !(x->f >= 0 && x->f < (double)a->in->value) || x->f != floor(x->f))
      return false;
  }
  return true;
}

static bool takes_elements(Resize *r) {
  if (r->at->mode != RESIZE_LINEAR || r->at->antialias) return false;
  if (r->at->coordinate_transformation_mode == RESIZE_TF_CROP) return false;
  for (int i = 0; i < r->naxes; i++)
    if (!r->axis[i].identity && !on_elements(r, &r->axis[i])) return false;
  return true;
}

bool resize_begin(Resize *r, ElementBuilder *e, const Node *n) {
  const Type *x = type_of(n->src[0]);
  *r = (Resize){.e = e, .n = n, .at = n->attrs, .exact = !(e->lo->g->fast & FAST_REASSOC)};
  r->sum = elem_sum_dtype(x->dtype);
  r->nearest = r->at->mode == RESIZE_NEAREST;
  r->ntaps = r->nearest ? 1 : r->at->mode == RESIZE_CUBIC ? 4 : 2;
  if (x->rank < 1 || type_of(n)->rank != x->rank || !read_axes(r)) return false;
  if (takes_elements(r)) {
    r->nearest = true;
    r->ntaps = 1;
  }
  return r->nearest || (!r->at->antialias && dtype_class(x->dtype) == DC_FLOAT);
}

void resize_taps(Resize *r, ResizeAxis *a, Dim index) {
  if (r->nearest)
    a->place[0] = nearest_place(r, a, index);
  else
    find_taps(r, a, index, r->ntaps, r->sum);
}

bool resize_strided(Resize *r, const ResizeAxis *a, int64_t *stride, int64_t *first) {
  if (!ie_is_const(a->in) || !ie_is_const(a->out)) return false;
  int64_t before = r->ntaps / 2, place[2] = {0};
  for (int64_t i = 0; i < a->out->value; i++) {
    const LoopExpr *x = position(r, a, num(r, (double)i));
    if (r->nearest) x = rounded(r, a->by_size ? x : as_f32(r, x));
    if (x->kind != LX_CONST || !(fabs(x->f) < 1e9)) return false;
    int64_t at = (int64_t)ceil(x->f) - before;
    if (at < 0 || at + r->ntaps > a->in->value) return false;  // it is clamped
    if (i < 2) place[i] = at;
    if (at != place[0] + i * (place[1] - place[0])) return false;
  }
  *first = place[0];
  *stride = a->out->value > 1 ? place[1] - place[0] : 1;
  return *stride > 0;
}

const LoopExpr *resize_term(Resize *r, const LoopExpr *x, const LoopExpr *weight) {
  if (r->nearest) return x;
  x = two(r, LOOP_mul, x, weight);
  if (!r->exact) return x;
  const LoopExpr *zero = loop_float(r->e->k, r->sum, 0);
  return choose(r, two(r, LOOP_eq, weight, zero), zero, x);
}

const LoopExpr *elem_resize(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  Resize *r = arena_new(e->a, Resize);
  const Type *x = type_of(n->src[0]);
  Dim at[MAX_RANK];
  (void)result;
  if (!resize_begin(r, e, n)) return NULL;
  memcpy(at, index, (size_t)x->rank * sizeof *at);
  for (int i = 0; i < r->naxes; i++) {
    ResizeAxis *a = &r->axis[i];
    if (a->identity) continue;
    resize_taps(r, a, index[a->axis]);
    at[a->axis] = a->place[0];
  }
  const LoopExpr *y = r->nearest ? elem_at(e, n->src[0], at) : interpolate(r, 0, at);
  if (!y) return NULL;
  y = loop_cast(e->k, x->dtype, y);
  if (!r->outside) return y;
  if (dtype_class(x->dtype) != DC_FLOAT) return NULL;
  return choose(r, r->outside, loop_float(e->k, x->dtype, r->at->extrapolation_value), y);
}
