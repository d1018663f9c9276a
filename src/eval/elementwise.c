// elementwise.c -- walking broadcast operands in blocks.
//
// A block is a run of result elements in row-major order.  Along the last axis an operand either
// advances by one or stands still, so a block is filled in runs, not element by element.
#include "eval/elementwise.h"

// `stride`: of each operand by the result's axes.
static void join_axes(Broadcast *b, int64_t (*stride)[MAX_RANK]) {
  b->axes = 0;
  for (int d = 0; d < b->rank; d++) {
    if (b->dims[d] == 1) continue;
    int at = b->axes - 1;
    bool joins = at >= 0;
    for (int k = 0; k < b->n; k++) joins = joins && b->stride[k][at] == stride[k][d] * b->dims[d];
    if (!joins) b->size[at = b->axes++] = 1;
    b->size[at] *= b->dims[d];
    for (int k = 0; k < b->n; k++) b->stride[k][at] = stride[k][d];
  }
}

tenon_status broadcast_init(Eval *e, const Value *const *in, int n, Broadcast *b) {
  int64_t stride[EW_MAX_IN][MAX_RANK];
  b->n = n;
  TRY(eval_broadcast(e, in, n, &b->rank, b->dims));
  if (!shape_count(b->rank, b->dims, &b->count))
    return eval_fail(e, TENON_EINVAL, "the result's number of elements does not fit in 64 bits");
  for (int k = 0; k < n; k++) {
    b->in[k] = in[k];
    broadcast_strides(in[k], b->rank, stride[k]);
    b->dense[k] = in[k]->n == b->count && in[k]->rank == b->rank;
    for (int d = 0; b->dense[k] && d < b->rank; d++) b->dense[k] = in[k]->dims[d] == b->dims[d];
  }
  join_axes(b, stride);
  return TENON_OK;
}

// The operand's element index at result position `at`, and how many positions remain on the last
// axis.
static int64_t locate(const Broadcast *b, int k, int64_t at, int64_t *left) {
  int64_t index = 0;
  *left = 1;
  for (int d = b->axes - 1; d >= 0; d--) {
    int64_t i = at % b->size[d];
    at /= b->size[d];
    index += i * b->stride[k][d];
    if (d == b->axes - 1) *left = b->size[d] - i;
  }
  return index;
}

#define BROADCAST_LOAD(name, T, load)                                                              \
  void name(const Broadcast *b, int k, int64_t begin, int64_t n, T *out) {                         \
    const Value *v = b->in[k];                                                                     \
    if (b->dense[k]) {                                                                             \
      load(v->dtype, v->data, begin, n, out);                                                      \
      return;                                                                                      \
    }                                                                                              \
    if (v->n == 1) {                                                                               \
      load(v->dtype, v->data, 0, 1, out);                                                          \
      for (int64_t i = 1; i < n; i++) out[i] = out[0];                                             \
      return;                                                                                      \
    }                                                                                              \
    int64_t last = b->axes ? b->stride[k][b->axes - 1] : 0;                                        \
    for (int64_t i = 0; i < n;) {                                                                  \
      int64_t left, at = locate(b, k, begin + i, &left), run = MIN(left, n - i);                   \
      if (last == 1) {                                                                             \
        load(v->dtype, v->data, at, run, out + i);                                                 \
      } else {                                                                                     \
        load(v->dtype, v->data, at, 1, out + i);                                                   \
        for (int64_t j = 1; j < run; j++) out[i + j] = out[i];                                     \
      }                                                                                            \
      i += run;                                                                                    \
    }                                                                                              \
  }
BROADCAST_LOAD(broadcast_f64, double, load_f64)
BROADCAST_LOAD(broadcast_i64, int64_t, load_i64)

void broadcast_index(const Broadcast *b, int k, int64_t begin, int64_t n, int64_t *out) {
  int64_t last = b->axes ? b->stride[k][b->axes - 1] : 0;
  for (int64_t i = 0; i < n;) {
    int64_t left, at = locate(b, k, begin + i, &left), run = MIN(left, n - i);
    for (int64_t j = 0; j < run; j++) out[i + j] = at + j * last;
    i += run;
  }
}

typedef struct UnaryJob {
  const Value *in;
  Value *out;
  const void *attrs;
  UnaryBlock *fn;
} UnaryJob;

static void unary_blocks(void *ctx, int64_t begin, int64_t end) {
  const UnaryJob *j = ctx;
  double x[EW_BLOCK];
  for (int64_t b = begin; b < end; b++) {
    int64_t at = b * EW_BLOCK, n = MIN(EW_BLOCK, j->in->n - at);
    load_f64(j->in->dtype, j->in->data, at, n, x);
    j->fn(j->attrs, x, n);
    store_f64(j->out->dtype, j->out->data, at, n, x);
  }
}

tenon_status eval_unary_f64(Eval *e, UnaryBlock *fn) {
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  if (!dtype_is_float(x->dtype))
    return eval_fail(e, TENON_EINVAL, "the operand is %s, must be a float type",
                     dtype_name(x->dtype));
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  UnaryJob j = {x, y, e->attrs, fn};
  parallel_for(e->run->pool, (x->n + EW_BLOCK - 1) / EW_BLOCK, 8, unary_blocks, &j);
  return TENON_OK;
}
