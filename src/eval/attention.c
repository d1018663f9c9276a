// attention.c -- softmax(q k' + masks) v, streamed over blocks of query rows.
//
// A task is a block of rows of one head of one batch.  It holds that many rows of scores and no
// more, so the memory does not grow with the square of the sequence.  Keys and values are read in
// place, those of the KV cache first, without concatenating the two.
// Guarantees: a masked key has no part in a row, whatever it holds; a row without keys is zero.
//             Rows do not depend on each
// other, so that neither the blocks nor the threads show in the result.
#include "eval/attention.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD };
enum { ROWS = 16, SLOTS = 64, SLOT_DOUBLES = 1 << 16 };
enum { WINDOW_MAX = 1 << 30 };

// Heads of a tensor, packed in the last axis or not.
typedef struct Heads {
  const Value *v;
  bool packed;  // [batch, seq, heads*size], else [batch, heads, seq, size]
  int64_t heads, seq, size;
} Heads;

typedef struct Attention {
  const attention_attrs *at;
  Heads q, k, v, past_k, past_v;  // past ones have seq 0 when absent
  int64_t batch, past, total, group;
  const Value *mask;
  int64_t mask_stride[3], mask_len;
  const int64_t *nonpad;
  double scale;
  int64_t left, right;
  DType narrow;  // type to round the softmax to; NONE: no rounding
  Value *y, *qk;
  int64_t rows, blocks;  // of a task; tasks of a head
  double *scratch;
  int64_t slot, first;  // doubles of a task's scratch; number of the task in slot 0
} Attention;

static int64_t row_at(const Heads *h, int64_t b, int64_t head, int64_t s) {
  return h->packed ? ((b * h->seq + s) * h->heads + head) * h->size
                   : ((b * h->heads + head) * h->seq + s) * h->size;
}
static void load_row(const Heads *h, int64_t b, int64_t head, int64_t s, double *out) {
  load_f64(h->v->dtype, h->v->data, row_at(h, b, head, s), h->size, out);
}
// Row j of past and new keys (or values) together.
static void load_joined(const Attention *a, const Heads *past, const Heads *now, int64_t b,
                        int64_t head, int64_t j, double *out) {
  if (j < a->past)
    load_row(past, b, head, j, out);
  else
    load_row(now, b, head, j - a->past, out);
}

// The keys that query i may see, masks given as tensors apart.
static void visible(const Attention *a, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
  int64_t offset = a->at->at_end ? a->total - a->q.seq : a->past;
  int64_t p = (a->nonpad ? a->nonpad[b] - a->q.seq : offset) + i;
  *lo = 0;
  *hi = a->nonpad ? a->nonpad[b] : a->total;
  if (a->at->is_causal) *hi = MIN(*hi, p + 1);
  if (a->right >= 0) *hi = MIN(*hi, p + a->right + 1);
  if (a->left >= 0) *lo = MAX(0, p - a->left);
  if (*hi < *lo) *hi = *lo = 0;
}

// What is added to the scores of a row: -inf where the key is not seen.
static void load_bias(const Attention *a, int64_t b, int64_t h, int64_t i, double *bias) {
  int64_t lo, hi;
  visible(a, b, i, &lo, &hi);
  for (int64_t j = 0; j < a->total; j++) bias[j] = j >= lo && j < hi ? 0 : -INFINITY;
  const Value *m = a->mask;
  if (!m) return;
  int64_t at = b * a->mask_stride[0] + h * a->mask_stride[1] + i * a->mask_stride[2];
  double buf[256];
  for (int64_t j = 0; j < a->mask_len; j += ARRAY_LEN(buf)) {
    int64_t n = MIN(ARRAY_LEN(buf), a->mask_len - j);
    load_f64(m->dtype, m->data, at + j, n, buf);
    for (int64_t k = 0; k < n; k++) {
      if (bias[j + k] == -INFINITY) continue;
      bias[j + k] = m->dtype != DT_BOOL ? buf[k] : buf[k] != 0 ? 0 : -INFINITY;
    }
  }
  for (int64_t j = a->mask_len; j < a->total; j++) bias[j] = -INFINITY;
}

// scores[r][j] of rows [i0, i0+n) and keys [lo, hi); qt holds the rows transposed.
static void raw_scores(const Attention *a, int64_t b, int64_t h, int64_t i0, int64_t n, int64_t lo,
                       int64_t hi, double *qt, double *row, double *scores) {
  int64_t d = a->q.size;
  memset(qt, 0, (size_t)(d * ROWS) * sizeof(double));
  for (int64_t r = 0; r < n; r++) {
    load_row(&a->q, b, h, i0 + r, row);
    for (int64_t k = 0; k < d; k++) qt[k * ROWS + r] = row[k] * a->scale;
  }
  for (int64_t j = lo; j < hi; j++) {
    load_joined(a, &a->past_k, &a->k, b, h / a->group, j, row);
    double acc[ROWS] = {0};
    for (int64_t k = 0; k < d; k++)
      for (int r = 0; r < ROWS; r++) acc[r] += row[k] * qt[k * ROWS + r];
    for (int64_t r = 0; r < n; r++) scores[r * a->total + j] = acc[r];
  }
}

static double narrowed(const Attention *a, double x) {
  return a->narrow ? round_to(a->narrow, x) : x;
}

// Turns a row of biased scores into probabilities.
static void softmax_row(const Attention *a, const double *bias, int64_t lo, int64_t hi, double *s) {
  double max = -INFINITY, sum = 0;
  for (int64_t j = lo; j < hi; j++) {
    if (bias[j] == -INFINITY) continue;
    s[j] = narrowed(a, s[j]);
    if (s[j] > max || s[j] != s[j]) max = s[j];
  }
  for (int64_t j = lo; j < hi; j++) {
    s[j] = bias[j] == -INFINITY || max == -INFINITY ? 0 : exp(s[j] - max);
    sum += s[j];
  }
  for (int64_t j = lo; j < hi; j++) s[j] = sum == 0 ? 0 : narrowed(a, s[j] / sum);
}

static void finish_row(const Attention *a, int64_t b, int64_t h, int64_t i, int64_t lo, int64_t hi,
                       double *bias, double *s) {
  int64_t mode = a->qk ? a->at->qk_matmul_output_mode : -1;
  int64_t at = ((b * a->q.heads + h) * a->q.seq + i) * a->total;
  double cap = a->at->softcap;
  if (mode == QK_RAW) store_f64(a->qk->dtype, a->qk->data, at, a->total, s);
  if (cap > 0)
    for (int64_t j = lo; j < hi; j++) s[j] = cap * tanh(s[j] / cap);
  if (mode == QK_CAPPED) store_f64(a->qk->dtype, a->qk->data, at, a->total, s);
  load_bias(a, b, h, i, bias);
  for (int64_t j = lo; j < hi; j++) s[j] += bias[j];
  if (mode == QK_BIASED) store_f64(a->qk->dtype, a->qk->data, at, a->total, s);
  softmax_row(a, bias, lo, hi, s);
  if (mode == QK_SOFTMAX) store_f64(a->qk->dtype, a->qk->data, at, a->total, s);
}

static void weigh_values(const Attention *a, int64_t b, int64_t h, int64_t i0, int64_t n,
                         int64_t lo, int64_t hi, const double *p, double *row, double *out) {
  int64_t dv = a->v.size;
  memset(out, 0, (size_t)(n * dv) * sizeof(double));
  for (int64_t j = lo; j < hi; j++) {
    load_joined(a, &a->past_v, &a->v, b, h / a->group, j, row);
    for (int64_t r = 0; r < n; r++) {
      double w = p[r * a->total + j], *o = out + r * dv;
      if (w == 0) continue;
      for (int64_t k = 0; k < dv; k++) o[k] += w * row[k];
    }
  }
  Heads y = {a->y, a->q.packed, a->q.heads, a->q.seq, dv};
  for (int64_t r = 0; r < n; r++)
    store_f64(a->y->dtype, a->y->data, row_at(&y, b, h, i0 + r), dv, out + r * dv);
}

static void attention_tasks(void *ctx, int64_t begin, int64_t end) {
  const Attention *a = ctx;
  for (int64_t t = begin; t < end; t++) {
    double *qt = a->scratch + t * a->slot, *row = qt + a->q.size * ROWS;
    double *bias = row + MAX(a->q.size, a->v.size), *scores = bias + a->total;
    double *out = scores + a->rows * a->total;
    int64_t task = a->first + t, i0 = task % a->blocks * a->rows, bh = task / a->blocks;
    int64_t b = bh / a->q.heads, h = bh % a->q.heads, n = MIN(a->rows, a->q.seq - i0);
    int64_t lo = a->total, hi = 0;
    for (int64_t r = 0; r < n; r++) {
      int64_t l, u;
      visible(a, b, i0 + r, &l, &u);
      lo = MIN(lo, l);
      hi = MAX(hi, u);
    }
    if (a->qk) {
      lo = 0;
      hi = a->total;
    }
    if (hi < lo) hi = lo;
    raw_scores(a, b, h, i0, n, lo, hi, qt, row, scores);
    for (int64_t r = 0; r < n; r++)
      finish_row(a, b, h, i0 + r, lo, hi, bias, scores + r * a->total);
    weigh_values(a, b, h, i0, n, lo, hi, scores, row, out);
  }
}

static tenon_status run_tasks(Eval *e, Attention *a) {
  if (!a->y->n && !(a->qk && a->qk->n)) return TENON_OK;
  a->rows = MAX(1, MIN(ROWS, SLOT_DOUBLES / MAX(a->total, 1)));
  a->blocks = (a->q.seq + a->rows - 1) / a->rows;
  int64_t sizes = 0, tasks = a->batch * a->q.heads * a->blocks;
  if (!ck_mul(a->q.size + a->v.size, ROWS + 1, &sizes) ||
      !ck_mul(a->total, a->rows + 1, &a->slot) || !ck_add(a->slot, sizes, &a->slot))
    return eval_fail(e, TENON_EINVAL, "the sizes do not fit in 64 bits");
  int64_t slots = MAX(1, MIN(MIN(SLOTS, tasks), ((int64_t)1 << 23) / a->slot));
  int64_t doubles;
  if (!ck_mul(slots, a->slot, &doubles))
    return eval_fail(e, TENON_EINVAL, "the sizes do not fit in 64 bits");
  a->scratch = arena_array(&e->run->scratch, double, doubles);
  for (a->first = 0; a->first < tasks; a->first += slots)
    parallel_for(e->run->pool, MIN(slots, tasks - a->first), 1, attention_tasks, a);
  return TENON_OK;
}

// ---- shapes ----

static tenon_status read_heads(Eval *e, int i, const char *name, int64_t heads, Heads *h) {
  TRY(eval_need(e, i, name, 0));
  const Value *v = e->in[i];
  if (!dtype_is_float(v->dtype))
    return eval_fail(e, TENON_EINVAL, "%s is %s, must be a float type", name, dtype_name(v->dtype));
  if (v->rank == 4) {
    *h = (Heads){v, false, v->dims[1], v->dims[2], v->dims[3]};
    return TENON_OK;
  }
  if (v->rank != 3)
    return eval_fail(e, TENON_EINVAL, "%s has rank %d, must be 3 or 4", name, v->rank);
  if (heads < 1 || v->dims[2] % heads)
    return eval_fail(e, TENON_EINVAL, "%s: %lld elements do not divide into %lld heads", name,
                     (long long)v->dims[2], (long long)heads);
  *h = (Heads){v, true, heads, v->dims[1], v->dims[2] / heads};
  return TENON_OK;
}

static tenon_status read_past(Eval *e, Attention *a) {
  const Value *pk = eval_in(e, PAST_K), *pv = eval_in(e, PAST_V);
  if (!pk != !pv) return eval_fail(e, TENON_EINVAL, "past keys and values come together or not");
  if (!pk) return TENON_OK;
  TRY(read_heads(e, PAST_K, "past_key", 0, &a->past_k));
  TRY(read_heads(e, PAST_V, "past_value", 0, &a->past_v));
  bool ok = pk->rank == 4 && pv->rank == 4 && pk->dims[0] == a->batch && pv->dims[0] == a->batch &&
            a->past_k.heads == a->k.heads && a->past_v.heads == a->k.heads &&
            a->past_k.seq == a->past_v.seq && a->past_k.size == a->k.size &&
            a->past_v.size == a->v.size && pk->dtype == a->k.v->dtype && pv->dtype == a->v.v->dtype;
  if (!ok)
    return eval_fail(e, TENON_EINVAL, "past of shapes %s and %s does not fit the keys and values",
                     shape_text(pk->rank, pk->dims).s, shape_text(pv->rank, pv->dims).s);
  a->past = a->past_k.seq;
  return TENON_OK;
}

static tenon_status read_mask(Eval *e, Attention *a) {
  const Value *m = a->mask = eval_in(e, MASK);
  if (!m) return TENON_OK;
  TRY(eval_need(e, MASK, "attn_mask", 0));
  if (m->dtype != DT_BOOL && !dtype_is_float(m->dtype))
    return eval_fail(e, TENON_EINVAL, "the mask is %s, must be bool or a float type",
                     dtype_name(m->dtype));
  const int64_t want[3] = {a->batch, a->q.heads, a->q.seq};
  bool ok = m->rank >= 1 && m->rank <= 4 && m->dims[m->rank - 1] <= a->total;
  int64_t stride[MAX_RANK];
  shape_strides(m->rank, m->dims, stride);
  for (int i = 0; ok && i < 3; i++) {
    int k = i - (4 - m->rank);
    if (k < 0) continue;
    ok = m->dims[k] == 1 || m->dims[k] == want[i];
    a->mask_stride[i] = m->dims[k] == 1 ? 0 : stride[k];
  }
  if (!ok)
    return eval_fail(e, TENON_EINVAL,
                     "a mask of shape %s does not broadcast to [%lld, %lld, %lld, %lld]",
                     shape_text(m->rank, m->dims).s, (long long)a->batch, (long long)a->q.heads,
                     (long long)a->q.seq, (long long)a->total);
  a->mask_len = m->dims[m->rank - 1];
  return TENON_OK;
}

static tenon_status read_nonpad(Eval *e, Attention *a) {
  if (!eval_in(e, NONPAD)) return TENON_OK;
  Ints n;
  TRY(eval_ints(e, NONPAD, &n));
  if (n.n != a->batch || eval_in(e, PAST_K))
    return eval_fail(e, TENON_EINVAL, "nonpad_kv_seqlen has %lld elements for a batch of %lld%s",
                     (long long)n.n, (long long)a->batch,
                     eval_in(e, PAST_K) ? ", and there is a past" : "");
  for (int64_t i = 0; i < n.n; i++)
    if (n.v[i] < 0 || n.v[i] > a->total)
      return eval_fail(e, TENON_EINVAL, "nonpad_kv_seqlen[%lld] is %lld, with %lld keys",
                       (long long)i, (long long)n.v[i], (long long)a->total);
  a->nonpad = n.v;
  return TENON_OK;
}

static tenon_status read_shapes(Eval *e, Attention *a) {
  TRY(read_heads(e, Q, "query", a->at->q_num_heads, &a->q));
  TRY(read_heads(e, K, "key", a->at->kv_num_heads, &a->k));
  TRY(read_heads(e, V, "value", a->at->kv_num_heads, &a->v));
  a->batch = a->q.v->dims[0];
  bool ok = a->k.v->dims[0] == a->batch && a->v.v->dims[0] == a->batch &&
            a->k.packed == a->q.packed && a->v.packed == a->q.packed && a->k.size == a->q.size &&
            a->k.heads == a->v.heads && a->k.seq == a->v.seq;
  if (!ok)
    return eval_fail(e, TENON_EINVAL, "query %s, key %s and value %s do not fit each other",
                     shape_text(a->q.v->rank, a->q.v->dims).s,
                     shape_text(a->k.v->rank, a->k.v->dims).s,
                     shape_text(a->v.v->rank, a->v.v->dims).s);
  if (a->k.heads < 1 ? a->q.heads > 0 : a->q.heads % a->k.heads != 0)
    return eval_fail(e, TENON_EINVAL, "%lld heads of the query cannot share %lld of the keys",
                     (long long)a->q.heads, (long long)a->k.heads);
  a->group = a->k.heads ? MAX(a->q.heads / a->k.heads, 1) : 1;
  TRY(read_past(e, a));
  if (!ck_add(a->past, a->k.seq, &a->total)) return eval_fail(e, TENON_EINVAL, "too many keys");
  TRY(read_mask(e, a));
  return read_nonpad(e, a);
}

// Past and new rows of each head, one after another.
static tenon_status present(Eval *e, const Attention *a, int i, const Heads *past,
                            const Heads *now) {
  if (!eval_wants(e, i)) return TENON_OK;
  Value *y;
  TRY(eval_out(e, i, now->v->dtype, 4, (int64_t[]){a->batch, now->heads, a->total, now->size}, &y));
  if (!y->n) return TENON_OK;
  Heads to = {y, false, now->heads, a->total, now->size};
  for (int64_t b = 0; b < a->batch; b++)
    for (int64_t h = 0; h < now->heads; h++)
      for (int64_t j = 0; j < a->total; j++) {
        const Heads *from = j < a->past ? past : now;
        int64_t at = row_at(from, b, h, j < a->past ? j : j - a->past);
        copy_elems(y->dtype, y->data, row_at(&to, b, h, j), from->v->data, at, now->size);
      }
  return TENON_OK;
}

tenon_status eval_attention(Eval *e) {
  Attention a = {.at = e->attrs};
  const attention_attrs *at = a.at;
  TRY(read_shapes(e, &a));
  if (at->left_window_size < -1 || at->right_window_size < -1)
    return eval_fail(e, TENON_EINVAL, "window sizes %lld and %lld, must be -1 or more",
                     (long long)at->left_window_size, (long long)at->right_window_size);
  a.left = MIN(at->left_window_size, WINDOW_MAX);
  a.right = MIN(at->right_window_size, WINDOW_MAX);
  a.scale = at->scale >= 0 ? at->scale : 1 / sqrt((double)a.q.size);
  DType t = a.q.v->dtype;
  if (dtype_is_float(at->softmax_precision) && dtype_bits(at->softmax_precision) < dtype_bits(t))
    a.narrow = at->softmax_precision;
  int64_t hidden, scores[4] = {a.batch, a.q.heads, a.q.seq, a.total};
  if (!ck_mul(a.q.heads, a.v.size, &hidden))
    return eval_fail(e, TENON_EINVAL, "the sizes do not fit in 64 bits");
  if (a.q.packed)
    TRY(eval_out(e, 0, t, 3, (int64_t[]){a.batch, a.q.seq, hidden}, &a.y));
  else
    TRY(eval_out(e, 0, t, 4, (int64_t[]){a.batch, a.q.heads, a.q.seq, a.v.size}, &a.y));
  TRY(present(e, &a, 1, &a.past_k, &a.k));
  TRY(present(e, &a, 2, &a.past_v, &a.v));
  if (eval_wants(e, 3)) TRY(eval_out(e, 3, t, 4, scores, &a.qk));
  return run_tasks(e, &a);
}
