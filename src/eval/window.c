// window.c -- pooling over sliding windows and over whole planes.
//
// Each output element visits its window's taps in row-major order.  Padding never takes part in a
// maximum and adds 0 to a sum; average_pool's count says whether it is counted.  NaN wins every
// maximum.
#include "eval/window.h"

#include <math.h>

typedef struct Pool2 {  // one pooling job
  Window w;
  const Value *x;
  Value *y, *indices;
  bool include_pad, column_major;
  double p;
} Pool2;

// The taps of a window that lie inside the input, in row-major order.  Those outside are never
// visited, so that a kernel far larger than the input costs nothing.
typedef struct Taps {
  const Window *w;
  int64_t first[MAX_RANK], last[MAX_RANK];  // positions in the input, both included
  int64_t at[MAX_RANK];
  bool done;
} Taps;

static void taps_begin(Taps *t, const Window *w, const int64_t *o) {
  t->w = w;
  t->done = false;
  for (int d = 0; d < w->nd; d++) {
    int64_t start = window_at(w, d, o[d], 0), step = w->dilation[d];
    int64_t skip = start < 0 ? (-start + step - 1) / step : 0;
    int64_t reach = start >= w->in[d] ? -1 : (w->in[d] - 1 - start) / step;
    t->at[d] = t->first[d] = start + skip * step;
    t->last[d] = start + MIN(reach, w->kernel[d] - 1) * step;
    if (t->first[d] > t->last[d]) t->done = true;
  }
}

// The next tap as a row-major offset; false when there is none left.
static bool taps_next(Taps *t, int64_t *out) {
  const Window *w = t->w;
  if (t->done) return false;
  *out = 0;
  for (int d = 0; d < w->nd; d++) *out = *out * w->in[d] + t->at[d];
  int d = w->nd - 1;
  while (d >= 0 && (t->at[d] += w->dilation[d]) > t->last[d]) {
    t->at[d] = t->first[d];
    d--;
  }
  t->done = d < 0;
  return true;
}

// Taps of window o that lie in the input or its padding.
static double padded_count(const Window *w, const int64_t *o) {
  double count = 1;
  for (int d = 0; d < w->nd; d++) {
    int64_t room = w->in[d] + w->hi[d] - window_at(w, d, o[d], 0);
    int64_t n = room <= 0 ? 0 : (room - 1) / w->dilation[d] + 1;
    count *= (double)MIN(n, w->kernel[d]);
  }
  return count;
}

// Row-major offset within a plane, counted column-major instead.
static int64_t column_major(const Window *w, int64_t at) {
  int64_t x[MAX_RANK], out = 0;
  window_coords(w->nd, w->in, at, x);
  for (int d = w->nd - 1; d >= 0; d--) out = out * w->in[d] + x[d];
  return out;
}

static void put_index(const Pool2 *p, int64_t i, int64_t base, int64_t at) {
  if (!p->indices) return;
  if (at >= 0) at = base + (p->column_major ? column_major(&p->w, at) : at);
  val_put_i64(p->indices, i, at);
}

static void run_max_float(void *ctx, int64_t begin, int64_t end) {
  const Pool2 *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t o[MAX_RANK], base = i / p->w.nout * p->w.nin, at, best_at = -1;
    window_coords(p->w.nd, p->w.out, i % p->w.nout, o);
    double best = -INFINITY;
    Taps t;
    taps_begin(&t, &p->w, o);
    while (taps_next(&t, &at)) {
      double v = val_f64(p->x, base + at);
      if (best_at >= 0 && !(v > best) && !(isnan(v) && !isnan(best))) continue;
      best = v;
      best_at = at;
    }
    val_put_f64(p->y, i, best);
    put_index(p, i, base, best_at);
  }
}

static void run_max_int(void *ctx, int64_t begin, int64_t end) {
  const Pool2 *p = ctx;
  // Unsigned 64-bit values keep their order with the top bit turned.
  uint64_t turn = p->x->dtype == DT_U64 ? (uint64_t)1 << 63 : 0;
  int64_t least = 0;  // of a window that lies in the padding alone
  if (dtype_class(p->x->dtype) == DC_INT) least = INT64_MIN >> (64 - dtype_bits(p->x->dtype));
  for (int64_t i = begin; i < end; i++) {
    int64_t o[MAX_RANK], base = i / p->w.nout * p->w.nin, at, best_at = -1, best = 0;
    window_coords(p->w.nd, p->w.out, i % p->w.nout, o);
    Taps t;
    taps_begin(&t, &p->w, o);
    while (taps_next(&t, &at)) {
      int64_t v = (int64_t)((uint64_t)val_i64(p->x, base + at) ^ turn);
      if (best_at >= 0 && v <= best) continue;
      best = v;
      best_at = at;
    }
    val_put_i64(p->y, i, best_at < 0 ? least : (int64_t)((uint64_t)best ^ turn));
    put_index(p, i, base, best_at);
  }
}

static void run_average(void *ctx, int64_t begin, int64_t end) {
  const Pool2 *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t o[MAX_RANK], base = i / p->w.nout * p->w.nin, at, n = 0;
    window_coords(p->w.nd, p->w.out, i % p->w.nout, o);
    double sum = 0;
    Taps t;
    taps_begin(&t, &p->w, o);
    for (; taps_next(&t, &at); n++) sum += val_f64(p->x, base + at);
    double count = p->include_pad ? padded_count(&p->w, o) : (double)n;
    val_put_f64(p->y, i, count > 0 ? sum / count : 0);
  }
}

static double power_of(double x, double p) {
  return p == 1 ? fabs(x) : p == 2 ? x * x : pow(fabs(x), p);
}
static double root_of(double x, double p) { return p == 1 ? x : p == 2 ? sqrt(x) : pow(x, 1 / p); }

static void run_lp(void *ctx, int64_t begin, int64_t end) {
  const Pool2 *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t o[MAX_RANK], base = i / p->w.nout * p->w.nin, at;
    window_coords(p->w.nd, p->w.out, i % p->w.nout, o);
    double sum = 0;
    Taps t;
    taps_begin(&t, &p->w, o);
    while (taps_next(&t, &at)) sum += power_of(val_f64(p->x, base + at), p->p);
    val_put_f64(p->y, i, root_of(sum, p->p));
  }
}

static tenon_status check_input(Eval *e, bool ints_too, int least_rank) {
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  if ((!dtype_is_float(x->dtype) && !(ints_too && dtype_is_int(x->dtype))) ||
      dtype_bits(x->dtype) % 8)
    return eval_fail(e, TENON_EUNSUPPORTED, "x of type %s: cast it first", dtype_name(x->dtype));
  if (x->rank < least_rank)
    return eval_fail(e, TENON_EINVAL,
                     "x of rank %d, must be at least %d: batch, channels, spatial axes", x->rank,
                     least_rank);
  return TENON_OK;
}

static tenon_status pool_run(Eval *e, const WindowSpec *s, Pool2 *p, bool indices, PoolFn *fn) {
  const Value *x = p->x = e->in[0];
  TRY(window_init(e, s, x->rank - 2, x->dims + 2, &p->w));
  int64_t dims[MAX_RANK] = {x->dims[0], x->dims[1]};
  memcpy(dims + 2, p->w.out, sizeof(int64_t) * (size_t)p->w.nd);
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &p->y));
  if (indices && eval_wants(e, 1)) TRY(eval_out(e, 1, DT_I64, x->rank, dims, &p->indices));
  if (p->y->n) parallel_for(e->run->pool, p->y->n, 1 + 4096 / p->w.nkernel, fn, p);
  return TENON_OK;
}

static tenon_status first_max_pool(Eval *e) {
  const max_pool_attrs *at = e->attrs;
  TRY(check_input(e, true, 3));
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  Pool2 p = {.column_major = at->storage_order != 0};
  return pool_run(e, &s, &p, true, dtype_is_float(e->in[0]->dtype) ? run_max_float : run_max_int);
}
EVAL_ORDERED(max_pool, max_pool_attrs, 0, ORDER_DATA)

static tenon_status first_average_pool(Eval *e) {
  const average_pool_attrs *at = e->attrs;
  TRY(check_input(e, false, 3));
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  Pool2 p = {.include_pad = at->count_include_pad};
  return pool_run(e, &s, &p, false, run_average);
}
EVAL_ORDERED(average_pool, average_pool_attrs, 0, ORDER_DATA)

static tenon_status first_lp_pool(Eval *e) {
  const lp_pool_attrs *at = e->attrs;
  TRY(check_input(e, false, 3));
  if (at->p < 1)
    return eval_fail(e, TENON_EINVAL, "p is %lld, must be at least 1", (long long)at->p);
  WindowSpec s = {at->kernel_shape, at->strides,  at->pads,
                  at->dilations,    at->auto_pad, at->ceil_mode};
  Pool2 p = {.p = (double)at->p};
  return pool_run(e, &s, &p, false, run_lp);
}
EVAL_ORDERED(lp_pool, lp_pool_attrs, 0, ORDER_DATA)

// ---- whole planes ----

typedef enum { WHOLE_MAX, WHOLE_MEAN, WHOLE_LP } WholeKind;
typedef struct Whole {
  const Value *x;
  Value *y;
  int64_t plane;
  WholeKind kind;
  double p;
} Whole;

static double whole_step(const Whole *w, double acc, double v) {
  switch (w->kind) {
  case WHOLE_MAX: return v > acc || isnan(v) ? v : acc;
  case WHOLE_MEAN: return acc + v;
  case WHOLE_LP: return acc + power_of(v, w->p);
  }
  return acc;
}

static void run_whole(void *ctx, int64_t begin, int64_t end) {
  const Whole *w = ctx;
  double run[256];
  for (int64_t i = begin; i < end; i++) {
    double acc = w->kind == WHOLE_MAX ? -INFINITY : 0;
    for (int64_t k = 0; k < w->plane; k += ARRAY_LEN(run)) {
      int64_t n = MIN(ARRAY_LEN(run), w->plane - k);
      load_f64(w->x->dtype, w->x->data, i * w->plane + k, n, run);
      for (int64_t q = 0; q < n; q++) acc = whole_step(w, acc, run[q]);
    }
    if (w->kind == WHOLE_MEAN) acc /= (double)w->plane;
    if (w->kind == WHOLE_LP) acc = root_of(acc, w->p);
    val_put_f64(w->y, i, acc);
  }
}

static tenon_status global_pool(Eval *e, WholeKind kind, int64_t p) {
  TRY(check_input(e, false, 2));
  if (p < 1) return eval_fail(e, TENON_EINVAL, "p is %lld, must be at least 1", (long long)p);
  Whole w = {.x = e->in[0], .plane = 1, .kind = kind, .p = (double)p};
  int64_t dims[MAX_RANK] = {w.x->dims[0], w.x->dims[1]};
  for (int d = 2; d < w.x->rank; d++) {
    dims[d] = 1;
    w.plane = w.x->n ? w.plane * w.x->dims[d] : 0;
  }
  TRY(eval_out(e, 0, w.x->dtype, w.x->rank, dims, &w.y));
  parallel_for(e->run->pool, w.y->n, 1 + 8192 / (w.plane + 1), run_whole, &w);
  return TENON_OK;
}

static tenon_status first_global_average_pool(Eval *e) { return global_pool(e, WHOLE_MEAN, 1); }
static tenon_status first_global_max_pool(Eval *e) { return global_pool(e, WHOLE_MAX, 1); }
static tenon_status first_global_lp_pool(Eval *e) {
  return global_pool(e, WHOLE_LP, ((const global_lp_pool_attrs *)e->attrs)->p);
}
EVAL_ORDERED(global_lp_pool, global_lp_pool_attrs, 0, ORDER_DATA)
EVAL_ORDERED(global_max_pool, global_pool_attrs, 0, ORDER_DATA)
EVAL_ORDERED(global_average_pool, global_pool_attrs, 0, ORDER_DATA)

// ---- max_unpool ----

// The size that pooling with these attributes would have come from.
static tenon_status unpooled_dims(Eval *e, int64_t *dims) {
  const max_unpool_attrs *at = e->attrs;
  const Value *x = e->in[0];
  int nd = x->rank - 2;
  WindowSpec s = {.kernel = at->kernel_shape, .strides = at->strides, .pads = at->pads};
  int64_t bad;
  const char *message = window_check(&s, nd, &bad);
  if (message) return eval_fail(e, TENON_EINVAL, message, (long long)bad);
  dims[0] = x->dims[0];
  dims[1] = x->dims[1];
  for (int d = 0; d < nd; d++) {
    int64_t size;
    if (!ck_mul(x->dims[d + 2] - 1, at->strides.n ? at->strides.v[d] : 1, &size) ||
        !ck_add(size, at->kernel_shape.v[d], &size))
      return eval_fail(e, TENON_EINVAL, "the result's size along spatial axis %d is too large", d);
    if (at->pads.n) size -= at->pads.v[d] + at->pads.v[nd + d];
    if (size < 0)
      return eval_fail(e, TENON_EINVAL, "the result's size along spatial axis %d is %lld", d,
                       (long long)size);
    dims[d + 2] = size;
  }
  return TENON_OK;
}

tenon_status eval_max_unpool(Eval *e) {
  TRY(check_input(e, false, 3));
  const Value *x = e->in[0];
  TRY(eval_need(e, 1, "i", DT_I64));
  const Value *ix = e->in[1];
  if (ix->rank != x->rank || memcmp(ix->dims, x->dims, sizeof(int64_t) * (size_t)x->rank) != 0)
    return eval_fail(e, TENON_EINVAL, "x and its indices must have the same shape");
  int64_t inner[MAX_RANK], dims[MAX_RANK], count, stride[MAX_RANK], at[MAX_RANK];
  TRY(unpooled_dims(e, inner));
  memcpy(dims, inner, sizeof dims);
  if (eval_in(e, 2)) {
    Ints shape;
    TRY(eval_ints(e, 2, &shape));
    for (int d = 0; d < x->rank; d++) {
      if (shape.n != x->rank || shape.v[d] < inner[d])
        return eval_fail(e, TENON_EINVAL,
                         "output_shape has %lld numbers or is smaller than %lld along axis %d",
                         (long long)shape.n, (long long)inner[d], d);
      dims[d] = shape.v[d];
    }
  }
  if (!shape_count(x->rank, inner, &count))
    return eval_fail(e, TENON_EINVAL, "the result's number of elements does not fit in 64 bits");
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, dims, &y));
  shape_strides(x->rank, dims, stride);
  for (int64_t i = 0; i < x->n; i++) {  // in order: of two equal indices the last one stands
    int64_t index = val_i64(ix, i), to = 0;
    if (index < 0 || index >= count)
      return eval_fail(e, TENON_EINVAL, "index %lld is out of range for %lld elements",
                       (long long)index, (long long)count);
    window_coords(x->rank, inner, index, at);
    for (int d = 0; d < x->rank; d++) to += at[d] * stride[d];
    copy_elems(x->dtype, y->data, to, x->data, i, 1);
  }
  return TENON_OK;
}
