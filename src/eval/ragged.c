// ragged.c -- ragged_linear_attention.
//
// Guarantees: a sequence's rows take its state from one to the next in their order; rows of other
//             sequences have no part in it.
#include "eval/ragged.h"

#include <math.h>

enum { Q, K, V, PAST, SEQ, DECAY, BETA };

typedef struct Ragged {
  const Value *q, *k, *v, *decay, *beta;
  const int32_t *seq;
  int64_t rows, heads, dk, dv, seqs;
  double scale;
  Value *y;
  double *state;    // [seqs, heads, dk, dv]
  double *scratch;  // of each head: a query, a key, a value and sums
} Ragged;

// Row t of a head: the state decays, takes the product of key and value, and is read.
static void take_row(const Ragged *r, int64_t t, int64_t h, double *x) {
  int64_t dk = r->dk, dv = r->dv, at = t * r->heads + h;
  double *s = r->state + ((int64_t)r->seq[t] * r->heads + h) * dk * dv;
  double *q = x, *k = x + dk, *v = k + dk, *sum = v + dv, g = exp(val_f64(r->decay, at));
  load_f64(r->q->dtype, r->q->data, at * dk, dk, q);
  load_f64(r->k->dtype, r->k->data, at * dk, dk, k);
  load_f64(r->v->dtype, r->v->data, at * dv, dv, v);
  for (int64_t i = 0; i < dk * dv; i++) s[i] *= g;
  if (r->beta) {
    memset(sum, 0, (size_t)dv * sizeof *sum);
    for (int64_t i = 0; i < dk; i++)
      for (int64_t j = 0; j < dv; j++) sum[j] += s[i * dv + j] * k[i];
    for (int64_t j = 0; j < dv; j++) v[j] = val_f64(r->beta, at) * (v[j] - sum[j]);
  }
  memset(sum, 0, (size_t)dv * sizeof *sum);
  for (int64_t i = 0; i < dk; i++)
    for (int64_t j = 0; j < dv; j++) sum[j] += q[i] * (s[i * dv + j] += k[i] * v[j]);
  for (int64_t j = 0; j < dv; j++) sum[j] *= r->scale;
  store_f64(r->y->dtype, r->y->data, at * dv, dv, sum);
}

static void take_heads(void *ctx, int64_t begin, int64_t end) {
  const Ragged *r = ctx;
  for (int64_t h = begin; h < end; h++)
    for (int64_t t = 0; t < r->rows; t++) take_row(r, t, h, r->scratch + h * 2 * (r->dk + r->dv));
}

// ---- operands ----

static bool is_float(const Value *v, int rank, const int64_t *dims) {
  bool ok = dtype_is_float(v->dtype) && v->rank == rank;
  for (int i = 0; ok && i < rank; i++) ok = v->dims[i] == dims[i];
  return ok;
}

static tenon_status read_operands(Eval *e, Ragged *r) {
  for (int i = 0; i <= DECAY; i++) TRY(eval_need(e, i, "an operand", i == SEQ ? DT_I32 : 0));
  r->q = e->in[Q];
  r->k = e->in[K];
  r->v = e->in[V];
  r->decay = e->in[DECAY];
  r->beta = eval_in(e, BETA);
  const Value *past = e->in[PAST], *seq = e->in[SEQ];
  bool ok = r->q->rank == 3 && r->v->rank == 3 && past->rank == 4 && seq->rank == 1;
  if (ok) {
    r->rows = r->q->dims[0];
    r->heads = r->q->dims[1];
    r->dk = r->q->dims[2];
    r->dv = r->v->dims[2];
    r->seqs = past->dims[0];
    ok = is_float(r->q, 3, (int64_t[]){r->rows, r->heads, r->dk}) &&
         is_float(r->k, 3, r->q->dims) &&
         is_float(r->v, 3, (int64_t[]){r->rows, r->heads, r->dv}) &&
         is_float(past, 4, (int64_t[]){r->seqs, r->heads, r->dk, r->dv}) &&
         is_float(r->decay, 2, r->q->dims) && (!r->beta || is_float(r->beta, 2, r->q->dims)) &&
         seq->n == r->rows;
  }
  if (!ok)
    return eval_fail(e, TENON_EINVAL, "query %s, value %s and state %s do not fit each other",
                     shape_text(r->q->rank, r->q->dims).s, shape_text(r->v->rank, r->v->dims).s,
                     shape_text(past->rank, past->dims).s);
  r->seq = seq->data;
  for (int64_t t = 0; t < r->rows; t++)
    if (r->seq[t] < 0 || r->seq[t] >= r->seqs)
      return eval_fail(e, TENON_EINVAL, "seq[%lld] is %d, with %lld sequences", (long long)t,
                       r->seq[t], (long long)r->seqs);
  return TENON_OK;
}

tenon_status eval_ragged_linear_attention(Eval *e) {
  const ragged_linear_attention_attrs *at = e->attrs;
  Ragged r = {0};
  TRY(read_operands(e, &r));
  const Value *past = e->in[PAST];
  int64_t scratch, each;
  TRY(eval_work(e, 8.0 * (double)r.rows * (double)r.heads * (double)r.dk * (double)r.dv));
  if (!ck_add(r.dk, r.dv, &each) || !ck_mul(each, 2, &each) || !ck_mul(each, r.heads, &scratch))
    return eval_fail(e, TENON_EINVAL, "the sizes do not fit in 64 bits");
  r.scale = at->scale != 0 ? at->scale : 1 / sqrt((double)r.dk);
  r.state = arena_array(&e->run->scratch, double, past->n);
  r.scratch = arena_array(&e->run->scratch, double, scratch);
  load_f64(past->dtype, past->data, 0, past->n, r.state);
  TRY(eval_out(e, 0, r.q->dtype, 3, r.v->dims, &r.y));
  parallel_for(e->run->pool, r.heads, 1, take_heads, &r);
  if (!eval_wants(e, 1)) return TENON_OK;
  Value *next;
  TRY(eval_out(e, 1, past->dtype, 4, past->dims, &next));
  store_f64(next->dtype, next->data, 0, next->n, r.state);
  return TENON_OK;
}
