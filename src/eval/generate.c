// generate.c -- reference evaluation of ops that make elements: range, constant_of_shape, eye_like
// and the random ops.
//
// The generator is a 64-bit mixing function of key and counter (SplitMix64's): see generate.h.
// Guarantees: the same draws for any number of threads.
#include "eval/generate.h"
#include "eval/move.h"

#include <math.h>

// ---- range ----

int64_t range_count_f64(double start, double limit, double delta) {
  double n = ceil((limit - start) / delta);
  if (!(n < 0x1p62)) return -1;
  return n > 0 ? (int64_t)n : 0;
}

int64_t range_count_i64(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return -1;
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  uint64_t gap = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  uint64_t n = (gap - 1) / step + 1;
  return n <= INT64_MAX ? (int64_t)n : -1;
}

tenon_status eval_range(Eval *e) {
  static const char *const name[] = {"start", "limit", "delta"};
  for (int i = 0; i < 3; i++) {
    TRY(eval_need(e, i, name[i], i ? e->in[0]->dtype : TENON_DTYPE_NONE));
    if (e->in[i]->n != 1)
      return eval_fail(e, TENON_EINVAL, "%s has %lld elements, must be 1", name[i],
                       (long long)e->in[i]->n);
  }
  DType t = e->in[0]->dtype;
  bool real = dtype_is_float(t);
  if (!real && !dtype_is_int(t)) return eval_fail(e, TENON_EINVAL, "a range of %s", dtype_name(t));
  double f[3];
  int64_t v[3];
  for (int i = 0; i < 3; i++) {
    if (real) f[i] = val_f64(e->in[i], 0);
    if (!real) v[i] = val_i64(e->in[i], 0);
  }
  int64_t n = real ? range_count_f64(f[0], f[1], f[2]) : range_count_i64(v[0], v[1], v[2]);
  if (n < 0 && real)
    return eval_fail(e, TENON_EINVAL, "range from %g to %g by %g", f[0], f[1], f[2]);
  if (n < 0)
    return eval_fail(e, TENON_EINVAL, "range from %lld to %lld by %lld", (long long)v[0],
                     (long long)v[1], (long long)v[2]);
  Value *y;
  TRY(eval_out(e, 0, t, 1, &n, &y));
  for (int64_t i = 0; i < n; i++) {
    if (real)
      val_put_f64(y, i, f[0] + (double)i * f[2]);
    else
      val_put_i64(y, i, (int64_t)((uint64_t)v[0] + (uint64_t)i * (uint64_t)v[2]));
  }
  return TENON_OK;
}

// ---- constants ----

tenon_status eval_constant_of_shape(Eval *e) {
  Ints shape;
  TRY(eval_ints(e, 0, &shape));
  const Value *value = eval_in(e, 1);
  if (value) TRY(eval_need(e, 1, "value", TENON_DTYPE_NONE));
  if (value && value->n != 1)
    return eval_fail(e, TENON_EINVAL, "value has %lld elements, must be 1", (long long)value->n);
  if (shape.n > MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d",
                     (long long)shape.n, MAX_RANK);
  Value *y;
  TRY(eval_out(e, 0, value ? value->dtype : DT_F32, (int)shape.n, shape.v, &y));
  if (value) move_fill(y->dtype, y->data, 0, y->n, value->data);
  return TENON_OK;
}

tenon_status eval_eye_like(Eval *e) {
  const eye_like_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  DType t = at->dtype ? at->dtype : x->dtype;
  DTypeClass c = dtype_class(t);
  if (x->rank != 2) return eval_fail(e, TENON_EINVAL, "input has rank %d, must be 2", x->rank);
  if (c == DC_STRING || c == DC_COMPLEX)
    return eval_fail(e, TENON_EINVAL, "a matrix of %s", dtype_name(t));
  Value *y;
  TRY(eval_out(e, 0, t, 2, x->dims, &y));
  int64_t k = MAX(MIN(at->k, x->dims[1]), -x->dims[0]);
  for (int64_t i = MAX(0, -k); i < x->dims[0] && i + k < x->dims[1]; i++)
    val_put_f64(y, i * x->dims[1] + i + k, 1);
  return TENON_OK;
}

// ---- random draws ----

static uint64_t draw(uint64_t key, uint64_t i) {
  uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

static uint64_t key_of(const Eval *e, double seed, bool seeded, int64_t instance) {
  uint64_t s = e->run->seed;
  if (seeded) memcpy(&s, &seed, sizeof s);
  return draw(draw(s, seeded), (uint64_t)instance);
}

static double draw_uniform(uint64_t key, uint64_t i) {
  return (double)(draw(key, i) >> 11) * 0x1p-53;
}

// By Box and Muller, from two draws for each element.
static double draw_normal(uint64_t key, uint64_t i) {
  double u = 1 - draw_uniform(key, 2 * i), v = draw_uniform(key, 2 * i + 1);  // u > 0
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

typedef struct Random {
  Value *y;
  uint64_t key;
  double a, b;  // low, high or mean, scale
  bool normal;
} Random;

static double uniform_as(DType t, double low, double high, double u) {
  double v = round_to(t, low + u * (high - low));
  return v >= high && low < high ? round_to(t, low) : v;  // rounding may reach the bound
}

static void random_piece(void *ctx, int64_t begin, int64_t end) {
  const Random *r = ctx;
  for (int64_t i = begin; i < end; i++) {
    double v = r->normal ? r->a + r->b * draw_normal(r->key, (uint64_t)i)
                         : uniform_as(r->y->dtype, r->a, r->b, draw_uniform(r->key, (uint64_t)i));
    val_put_f64(r->y, i, v);
  }
}

static tenon_status fill_random(Eval *e, Random *r, DType t, int64_t rank, const int64_t *dims) {
  if (!dtype_is_float(t))
    return eval_fail(e, TENON_EINVAL, "random values of type %s", dtype_name(t));
  if (rank > MAX_RANK)
    return eval_fail(e, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d", (long long)rank,
                     MAX_RANK);
  TRY(eval_out(e, 0, t, (int)rank, dims, &r->y));
  parallel_for(move_pool(e->run, t), r->y->n, 1 << 13, random_piece, r);
  return TENON_OK;
}

tenon_status eval_random_uniform(Eval *e) {
  const random_uniform_attrs *at = e->attrs;
  Random r = {.key = key_of(e, at->seed, at->seeded, at->instance), .a = at->low, .b = at->high};
  return fill_random(e, &r, at->dtype, at->shape.n, at->shape.v);
}
tenon_status eval_random_normal(Eval *e) {
  const random_normal_attrs *at = e->attrs;
  Random r = {.key = key_of(e, at->seed, at->seeded, at->instance),
              .a = at->mean,
              .b = at->scale,
              .normal = true};
  return fill_random(e, &r, at->dtype, at->shape.n, at->shape.v);
}
tenon_status eval_random_uniform_like(Eval *e) {
  const random_uniform_like_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  Random r = {.key = key_of(e, at->seed, at->seeded, at->instance), .a = at->low, .b = at->high};
  return fill_random(e, &r, at->dtype ? at->dtype : x->dtype, x->rank, x->dims);
}
tenon_status eval_random_normal_like(Eval *e) {
  const random_normal_like_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  Random r = {.key = key_of(e, at->seed, at->seeded, at->instance),
              .a = at->mean,
              .b = at->scale,
              .normal = true};
  return fill_random(e, &r, at->dtype ? at->dtype : x->dtype, x->rank, x->dims);
}

// One row's draws: the class at which the running sum of probabilities passes a uniform draw.
static tenon_status draw_row(Eval *e, const Value *x, Value *y, uint64_t key, int64_t row,
                             double *sum) {
  const multinomial_attrs *at = e->attrs;
  int64_t n = x->dims[1];
  double top = -INFINITY, total = 0;
  load_f64(x->dtype, x->data, row * n, n, sum);
  for (int64_t i = 0; i < n; i++) top = sum[i] > top ? sum[i] : top;
  for (int64_t i = 0; i < n; i++) sum[i] = total += exp(sum[i] - top);
  if (!(total > 0) || isinf(total))
    return eval_fail(e, TENON_EINVAL, "row %lld holds no probabilities", (long long)row);
  for (int64_t s = 0; s < at->sample_size; s++) {
    double u = draw_uniform(key, (uint64_t)(row * at->sample_size + s)) * total;
    int64_t lo = 0, hi = n - 1;  // the first class whose sum is above u
    while (lo < hi) {
      int64_t mid = lo + (hi - lo) / 2;
      if (sum[mid] > u)
        hi = mid;
      else
        lo = mid + 1;
    }
    val_put_i64(y, row * at->sample_size + s, lo);
  }
  return TENON_OK;
}

tenon_status eval_multinomial(Eval *e) {
  const multinomial_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  if (x->rank != 2 || !dtype_is_float(x->dtype))
    return eval_fail(e, TENON_EINVAL, "input is %s%s, must be floats of rank 2",
                     dtype_name(x->dtype), shape_text(x->rank, x->dims).s);
  if (!dtype_is_int(at->dtype))
    return eval_fail(e, TENON_EINVAL, "draws of type %s", dtype_name(at->dtype));
  if (at->sample_size < 0)
    return eval_fail(e, TENON_EINVAL, "sample_size %lld", (long long)at->sample_size);
  Value *y;
  TRY(eval_out(e, 0, at->dtype, 2, (int64_t[]){x->dims[0], at->sample_size}, &y));
  if (y->n == 0) return TENON_OK;
  if (x->dims[1] == 0) return eval_fail(e, TENON_EINVAL, "no classes to draw from");
  double *sum = arena_array(&e->run->scratch, double, x->dims[1]);
  uint64_t key = key_of(e, at->seed, at->seeded, at->instance);
  for (int64_t r = 0; r < x->dims[0]; r++) TRY(draw_row(e, x, y, key, r, sum));
  return TENON_OK;
}

tenon_status eval_bernoulli(Eval *e) {
  const bernoulli_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "input", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  DType t = at->dtype ? at->dtype : x->dtype;
  DTypeClass c = dtype_class(t);
  if (!dtype_is_float(x->dtype) || c == DC_STRING || c == DC_COMPLEX)
    return eval_fail(e, TENON_EINVAL, "draws of %s from %s", dtype_name(t), dtype_name(x->dtype));
  Value *y;
  TRY(eval_out(e, 0, t, x->rank, x->dims, &y));
  uint64_t key = key_of(e, at->seed, at->seeded, at->instance);
  for (int64_t i = 0; i < x->n; i++)
    val_put_f64(y, i, draw_uniform(key, (uint64_t)i) < val_f64(x, i));
  return TENON_OK;
}

static tenon_status one_number(Eval *e, int i, const char *name, double dflt, double *out) {
  *out = dflt;
  if (!eval_in(e, i)) return TENON_OK;
  Floats f;
  TRY(eval_doubles(e, i, &f));
  if (f.n != 1)
    return eval_fail(e, TENON_EINVAL, "%s has %lld elements, must be 1", name, (long long)f.n);
  *out = f.v[0];
  return TENON_OK;
}

tenon_status eval_dropout(Eval *e) {
  const dropout_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "data", TENON_DTYPE_NONE));
  const Value *x = e->in[0];
  double ratio, training;
  TRY(one_number(e, 1, "ratio", 0.5, &ratio));
  TRY(one_number(e, 2, "training_mode", 0, &training));
  if (!dtype_is_float(x->dtype))
    return eval_fail(e, TENON_EINVAL, "data is %s", dtype_name(x->dtype));
  if (training == 0) ratio = 0;
  if (!(ratio >= 0 && ratio < 1))
    return eval_fail(e, TENON_EINVAL, "ratio %g, must be in [0, 1)", ratio);
  Value *y, *mask = NULL;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, DT_BOOL, x->rank, x->dims, &mask));
  uint64_t key = key_of(e, at->seed, at->seeded, at->instance);
  for (int64_t i = 0; i < x->n; i++) {
    bool keep = ratio == 0 || draw_uniform(key, (uint64_t)i) >= ratio;
    val_put_f64(y, i, keep ? val_f64(x, i) / (1 - ratio) : 0);
    if (mask) ((uint8_t *)mask->data)[i] = keep;
  }
  return TENON_OK;
}
