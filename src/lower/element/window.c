// window.c -- elements that are sums or maxima over a window: the pools and lrn.
//
// A tap that may be in the padding is guarded and counts as the identity of the sum or maximum.
// Windows of at most WRITTEN_OUT taps are unrolled, larger ones are reduction loops.
//
// Needs:      rank 3 or more for pools; window attributes that window_check accepts.  Image sizes
//             may be dynamic.
// Guarantees: taps are added in row-major order of the window.  Sums of 16-bit floats are formed in
//             f32 and rounded once.  No load leaves the image.
#include "lower/element/element.h"

#include "eval/norm.h"
#include "eval/window.h"

#include <math.h>

enum { WRITTEN_OUT = 27 };

typedef struct Taps {
  ElementBuilder *e;
  const Node *x;
  const Dim *index;  // of the result
  int nd, first;     // spatial axes, from this one on
  int64_t kernel[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK];
  Dim lo[MAX_RANK], hi[MAX_RANK], in[MAX_RANK];
  Dim tap[MAX_RANK];
  LoopOp op;
  // The term of one tap, in the dtype of the sum; `at` is its index.
  const LoopExpr *(*term)(struct Taps *t, const LoopExpr *x, const Dim *at);
  const LoopExpr *extra;  // what the term needs
  double p;
  bool column_major;
} Taps;

// ---- positions of windows ----

// The padding of an axis, when it is found from the sizes.
static void same_padding(ElementBuilder *e, Taps *t, int d, Dim out, bool upper) {
  IntPool *p = e->pool;
  int64_t extent = (t->kernel[d] - 1) * t->dilation[d] + 1;
  Dim need = ie_addc(p, ie_mulc(p, ie_addc(p, out, -1), t->stride[d]), extent);
  Dim total = ie_max(p, p->zero, ie_sub(p, need, t->in[d]));
  t->lo[d] = ie_div(p, ie_addc(p, total, !upper), ie_const(p, 2));
  t->hi[d] = ie_sub(p, total, t->lo[d]);
}

static bool taps_of(ElementBuilder *e, const Node *n, const Dim *index, const WindowSpec *s,
                    bool channels_last, Taps *t) {
  const Type *x = type_of(n->src[0]), *y = n->type[0];
  int64_t bad;
  *t = (Taps){.e = e, .x = n->src[0], .index = index, .nd = x->rank - 2};
  t->first = channels_last ? 1 : 2;
  if (x->rank < 3 || y->rank != x->rank || window_check(s, t->nd, &bad)) return false;
  for (int d = 0; d < t->nd; d++) {
    t->kernel[d] = s->kernel.v[d];
    t->stride[d] = s->strides.n ? s->strides.v[d] : 1;
    t->dilation[d] = s->dilations.n ? s->dilations.v[d] : 1;
    t->in[d] = elem_dim(e, x->dims[t->first + d]);
    bool given = s->auto_pad == PAD_NOTSET && s->pads.n;
    t->lo[d] = ie_const(e->pool, given ? s->pads.v[d] : 0);
    t->hi[d] = ie_const(e->pool, given ? s->pads.v[t->nd + d] : 0);
    if (s->auto_pad == PAD_SAME_UPPER || s->auto_pad == PAD_SAME_LOWER) {
      Dim out = elem_dim(e, y->dims[t->first + d]);
      same_padding(e, t, d, out, s->auto_pad == PAD_SAME_UPPER);
    }
  }
  return true;
}

static Dim tap_at(const Taps *t, int d, Dim tap) {
  IntPool *p = t->e->pool;
  Dim start = ie_sub(p, ie_mulc(p, t->index[t->first + d], t->stride[d]), t->lo[d]);
  return ie_add(p, start, ie_mulc(p, tap, t->dilation[d]));
}

// ---- sums ----

static const LoopExpr *identity_of(ElementBuilder *e, LoopOp op, DType t) {
  double f = 0;
  int64_t i = 0;
  if (!loop_identity(op, t, &f, &i)) return NULL;
  return dtype_is_float(t) ? loop_float(e->k, t, f) : loop_int(e->k, t, i);
}

// The term of the tap at t->tap.
static const LoopExpr *tap_term(Taps *t) {
  ElementBuilder *e = t->e;
  Dim at[MAX_RANK];
  int before = e->nguards;
  memcpy(at, t->index, (size_t)type_of(t->x)->rank * sizeof *at);
  const LoopExpr *x = NULL;
  bool ok = true;
  for (int d = 0; d < t->nd && ok; d++) {
    at[t->first + d] = elem_guard(e, tap_at(t, d, t->tap[d]), t->in[d]);
    ok = at[t->first + d] != NULL;
  }
  if (ok) x = elem_at(e, t->x, at);
  // Of sums what is not there is 0 before the term is formed, so that a load alone is enough.
  if (x && t->op == LOOP_add) x = elem_guarded(e, before, x, elem_number(e, x->dtype, 0));
  if (x && t->term) x = t->term(t, x, at);
  if (x && t->op != LOOP_add) x = elem_guarded(e, before, x, identity_of(e, t->op, x->dtype));
  elem_unguard(e, before);
  return x;
}

static const LoopExpr *sum_written_out(Taps *t, int d) {
  if (d == t->nd) return tap_term(t);
  const LoopExpr *all = NULL;
  for (int64_t k = 0; k < t->kernel[d]; k++) {
    t->tap[d] = ie_const(t->e->pool, k);
    const LoopExpr *x = sum_written_out(t, d + 1);
    if (!x) return NULL;
    all = all ? loop_op(t->e->k, t->op, all, x, NULL) : x;
  }
  return all;
}

static const LoopExpr *sum_in_loops(Taps *t, int d) {
  ElementBuilder *e = t->e;
  if (d == t->nd) return tap_term(t);
  int64_t known = e->memo.n;  // what is defined in the loop is not to be used after it
  t->tap[d] = loop_reduce(&e->b, t->op, "k", ie_const(e->pool, t->kernel[d]), 1);
  const LoopExpr *x = sum_in_loops(t, d + 1);
  if (!x) return NULL;
  x = loop_yield(&e->b, x);
  e->memo.n = known;
  return x;
}

static const LoopExpr *taps_sum(Taps *t) {
  int64_t n = 1;
  for (int d = 0; d < t->nd; d++) n = MIN(n * t->kernel[d], WRITTEN_OUT + 1);
  const LoopExpr *x = n <= WRITTEN_OUT ? sum_written_out(t, 0) : sum_in_loops(t, 0);
  return x ? loop_let(&t->e->b, x) : NULL;
}

// ---- max_pool ----

// Where the tap lies in its plane, where its element is the window's largest; else what is above
// all places.
static const LoopExpr *place_if_largest(Taps *t, const LoopExpr *x, const Dim *at) {
  LoopKernel *k = t->e->k;
  Dim place = t->e->pool->zero;
  for (int d = 0; d < t->nd; d++)
    place = ie_add(t->e->pool, ie_mul(t->e->pool, place, t->in[d]),
                   elem_unguarded(t->e, at[t->first + d]));
  const LoopExpr *is = loop_op(k, LOOP_eq, x, t->extra, NULL);
  if (dtype_is_float(x->dtype))
    is = loop_op(k, LOOP_or, is, loop_op(k, LOOP_is_nan, x, NULL, NULL), NULL);
  return loop_op(k, LOOP_select, is, loop_index(k, place), loop_int(k, DT_I64, INT64_MAX));
}

// A place in a plane, counted along its columns.
static const LoopExpr *by_columns(Taps *t, const LoopExpr *place) {
  LoopKernel *k = t->e->k;
  const LoopExpr *at[MAX_RANK], *all = loop_int(k, DT_I64, 0);
  for (int d = t->nd - 1; d >= 0; d--) {
    const LoopExpr *size = loop_index(k, t->in[d]);
    at[d] = loop_op(k, LOOP_mod, place, size, NULL);
    place = loop_op(k, LOOP_div, place, size, NULL);
  }
  for (int d = t->nd - 1; d >= 0; d--)
    all =
        loop_op(k, LOOP_add, loop_op(k, LOOP_mul, all, loop_index(k, t->in[d]), NULL), at[d], NULL);
  return all;
}

static const LoopExpr *place_of_max(Taps *t, const LoopExpr *most) {
  ElementBuilder *e = t->e;
  LoopKernel *k = e->k;
  Dim channels = elem_dim(e, type_of(t->x)->dims[1]);
  Dim plane = ie_add(e->pool, ie_mul(e->pool, t->index[0], channels), t->index[1]);
  t->op = LOOP_min;
  t->term = place_if_largest;
  t->extra = most;
  const LoopExpr *at = taps_sum(t);
  if (!at) return NULL;
  for (int d = 0; d < t->nd; d++) plane = ie_mul(e->pool, plane, t->in[d]);
  const LoopExpr *none = loop_op(k, LOOP_eq, at, loop_int(k, DT_I64, INT64_MAX), NULL);
  const LoopExpr *in_plane = t->column_major ? by_columns(t, at) : at;
  const LoopExpr *whole =
      loop_op(k, LOOP_add, loop_index(k, elem_unguarded(e, plane)), in_plane, NULL);
  return loop_op(k, LOOP_select, none, loop_int(k, DT_I64, -1), whole);
}

const LoopExpr *elem_max_pool(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const max_pool_attrs *at = n->attrs;
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  Taps t;
  if (!taps_of(e, n, index, &s, at->channels_last, &t)) return NULL;
  t.op = LOOP_max;
  t.column_major = at->storage_order == 1;
  const LoopExpr *most = taps_sum(&t);
  return most && result == 1 ? place_of_max(&t, most) : most;
}

// ---- sums ----

static const LoopExpr *term_plain(Taps *t, const LoopExpr *x, const Dim *at) {
  (void)at;
  return loop_cast(t->e->k, elem_sum_dtype(x->dtype), x);
}

Dim elem_taps_inside(IntPool *p, Dim start, int64_t kernel, int64_t dilation, Dim size,
                     bool from_0) {
  Dim k = ie_const(p, kernel), by = ie_const(p, dilation);
  Dim all = ie_ceildiv(p, ie_sub(p, size, start), by), out = p->zero;
  all = ie_max(p, p->zero, ie_min(p, k, all));
  if (from_0) out = ie_ceildiv(p, ie_sub(p, p->zero, start), by);
  out = ie_max(p, p->zero, ie_min(p, k, out));
  return ie_max(p, p->zero, ie_sub(p, all, out));
}

static Dim taps_below(const Taps *t, int d, Dim size, bool from_0) {
  Dim start = elem_unguarded(t->e, tap_at(t, d, t->e->pool->zero));
  return elem_taps_inside(t->e->pool, start, t->kernel[d], t->dilation[d], size, from_0);
}

const LoopExpr *elem_average_pool(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const average_pool_attrs *at = n->attrs;
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  LoopKernel *k = e->k;
  Taps t;
  (void)result;
  if (!taps_of(e, n, index, &s, at->channels_last, &t)) return NULL;
  Dim count = e->pool->one;
  for (int d = 0; d < t.nd; d++) {
    Dim size = t.in[d];
    if (at->count_include_pad) size = ie_add(e->pool, size, t.hi[d]);
    count = ie_mul(e->pool, count, taps_below(&t, d, size, !at->count_include_pad));
  }
  t.op = LOOP_add;
  t.term = term_plain;
  const LoopExpr *sum = taps_sum(&t);
  if (!sum) return NULL;
  const LoopExpr *by =
      loop_cast(k, sum->dtype, loop_index(k, ie_max(e->pool, count, e->pool->one)));
  return loop_let(&e->b, loop_cast(k, type_of(n)->dtype, loop_op(k, LOOP_div, sum, by, NULL)));
}

static const LoopExpr *term_power(Taps *t, const LoopExpr *x, const Dim *at) {
  LoopKernel *k = t->e->k;
  x = term_plain(t, x, at);
  if (t->p == 2) return loop_op(k, LOOP_mul, x, x, NULL);
  x = loop_op(k, LOOP_abs, x, NULL, NULL);
  return t->p == 1 ? x : loop_op(k, LOOP_pow, x, loop_float(k, x->dtype, t->p), NULL);
}

const LoopExpr *elem_lp_pool(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const lp_pool_attrs *at = n->attrs;
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  Taps t;
  (void)result;
  if (!taps_of(e, n, index, &s, at->channels_last, &t)) return NULL;
  t.op = LOOP_add;
  t.term = term_power;
  t.p = (double)at->p;
  const LoopExpr *sum = taps_sum(&t);
  if (!sum) return NULL;
  if (at->p == 2) sum = loop_op(e->k, LOOP_sqrt, sum, NULL, NULL);
  if (at->p > 2) sum = loop_op(e->k, LOOP_pow, sum, loop_float(e->k, sum->dtype, 1 / t.p), NULL);
  return loop_let(&e->b, loop_cast(e->k, type_of(n)->dtype, sum));
}

// ---- lrn ----

// x^p; powers of quarters by roots.
static const LoopExpr *power(ElementBuilder *e, const LoopExpr *x, double p) {
  LoopKernel *k = e->k;
  if (p == 1) return x;
  if (p != 0.5 && p != 0.75) return loop_op(k, LOOP_pow, x, loop_float(k, x->dtype, p), NULL);
  x = loop_op(k, LOOP_sqrt, x, NULL, NULL);
  return p == 0.5 ? x : loop_op(k, LOOP_mul, x, loop_op(k, LOOP_sqrt, x, NULL, NULL), NULL);
}

const LoopExpr *elem_lrn(ElementBuilder *e, const Node *n, int result, const Dim *index) {
  const lrn_attrs *at = n->attrs;
  LoopKernel *k = e->k;
  const Type *x = type_of(n->src[0]);
  int axis = at->channels_last ? x->rank - 1 : 1;
  (void)result;
  if (x->rank < 2 || at->size < 1) return NULL;
  Taps t = {.e = e, .x = n->src[0], .index = index, .nd = 1, .first = axis, .op = LOOP_add, .p = 2};
  t.kernel[0] = at->size;
  t.stride[0] = t.dilation[0] = 1;
  t.lo[0] = ie_const(e->pool, (at->size - 1) / 2);
  t.in[0] = elem_dim(e, x->dims[axis]);
  t.term = term_power;
  const LoopExpr *sum = taps_sum(&t), *own = elem_at(e, n->src[0], index);
  if (!sum || !own) return NULL;
  DType s = sum->dtype;
  sum = loop_op(k, LOOP_mul, sum, loop_float(k, s, at->alpha / (double)at->size), NULL);
  sum = loop_op(k, LOOP_add, sum, loop_float(k, s, at->bias), NULL);
  sum = power(e, sum, at->beta);
  return loop_cast(k, type_of(n)->dtype, loop_op(k, LOOP_div, loop_cast(k, s, own), sum, NULL));
}
