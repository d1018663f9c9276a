// attention_rotary.c -- rotary embedding, linear attention, swiglu.
#include "eval/attention.h"
#include "eval/elementwise.h"

#include <math.h>

// ---- rotary embedding ----

typedef struct Rotary {
  const Value *x, *cos, *sin;
  Value *y;
  const int64_t *pos;  // [batch*seq] rows of the caches; NULL: row b*seq + s
  bool packed, interleaved;
  int64_t heads, seq, size, half;
} Rotary;

enum { ROTARY_BLOCK = 128 };

static void rotate_pairs(const Rotary *r, int64_t at, int64_t angle, int64_t from, int64_t n) {
  double c[ROTARY_BLOCK], s[ROTARY_BLOCK], a[2 * ROTARY_BLOCK], *b = a + n;
  load_f64(r->cos->dtype, r->cos->data, angle + from, n, c);
  load_f64(r->sin->dtype, r->sin->data, angle + from, n, s);
  DType t = r->x->dtype;
  if (r->interleaved) {
    load_f64(t, r->x->data, at + 2 * from, 2 * n, a);
    for (int64_t i = 0; i < n; i++) {
      double x1 = a[2 * i], x2 = a[2 * i + 1];
      a[2 * i] = c[i] * x1 - s[i] * x2;
      a[2 * i + 1] = s[i] * x1 + c[i] * x2;
    }
    store_f64(t, r->y->data, at + 2 * from, 2 * n, a);
    return;
  }
  load_f64(t, r->x->data, at + from, n, a);
  load_f64(t, r->x->data, at + r->half + from, n, b);
  for (int64_t i = 0; i < n; i++) {
    double x1 = a[i], x2 = b[i];
    a[i] = c[i] * x1 - s[i] * x2;
    b[i] = s[i] * x1 + c[i] * x2;
  }
  store_f64(t, r->y->data, at + from, n, a);
  store_f64(t, r->y->data, at + r->half + from, n, b);
}

// One row of one head each.
static void rotary_rows(void *ctx, int64_t begin, int64_t end) {
  const Rotary *r = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t per = r->heads * r->seq, b = i / per, rest = i % per;
    int64_t s = r->packed ? rest / r->heads : rest % r->seq, at = i * r->size;
    int64_t row = r->pos ? r->pos[b * r->seq + s] : b * r->seq + s;
    for (int64_t k = 0; k < r->half; k += ROTARY_BLOCK)
      rotate_pairs(r, at, row * r->half, k, MIN(ROTARY_BLOCK, r->half - k));
    int64_t done = 2 * r->half;
    copy_elems(r->x->dtype, r->y->data, at + done, r->x->data, at + done, r->size - done);
  }
}

static tenon_status rotary_caches(Eval *e, Rotary *r, int64_t batch) {
  const Value *c = r->cos, *s = r->sin;
  bool ids = eval_in(e, 3) != NULL;
  bool ok = dtype_is_float(c->dtype) && s->dtype == c->dtype && c->rank == s->rank &&
            c->n == s->n && c->rank == (ids ? 2 : 3) && c->dims[c->rank - 1] == r->half &&
            s->dims[c->rank - 1] == r->half;
  if (ok && !ids) ok = c->dims[0] == batch && c->dims[1] == r->seq;
  if (!ok)
    return eval_fail(e, TENON_EINVAL, "caches of shapes %s and %s do not fit %lld turned elements",
                     shape_text(c->rank, c->dims).s, shape_text(s->rank, s->dims).s,
                     (long long)(2 * r->half));
  if (!ids) return TENON_OK;
  Ints pos;
  TRY(eval_ints(e, 3, &pos));
  if (pos.n != batch * r->seq)
    return eval_fail(e, TENON_EINVAL, "%lld positions for %lld tokens", (long long)pos.n,
                     (long long)(batch * r->seq));
  for (int64_t i = 0; i < pos.n; i++)
    if (pos.v[i] < 0 || pos.v[i] >= c->dims[0])
      return eval_fail(e, TENON_EINVAL, "position %lld is outside of a cache of %lld",
                       (long long)pos.v[i], (long long)c->dims[0]);
  r->pos = pos.v;
  return TENON_OK;
}

tenon_status eval_rotary_embedding(Eval *e) {
  const rotary_embedding_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  TRY(eval_need(e, 1, "cos_cache", 0));
  TRY(eval_need(e, 2, "sin_cache", 0));
  const Value *x = e->in[0];
  Rotary r = {.x = x, .cos = e->in[1], .sin = e->in[2], .interleaved = at->interleaved};
  if (!dtype_is_float(x->dtype) || (x->rank != 3 && x->rank != 4))
    return eval_fail(e, TENON_EINVAL, "x is %s%s, must be float of rank 3 or 4",
                     dtype_name(x->dtype), shape_text(x->rank, x->dims).s);
  r.packed = x->rank == 3;
  if (r.packed && (at->num_heads < 1 || x->dims[2] % at->num_heads))
    return eval_fail(e, TENON_EINVAL, "%lld elements do not divide into %lld heads",
                     (long long)x->dims[2], (long long)at->num_heads);
  r.heads = r.packed ? at->num_heads : x->dims[1];
  r.seq = r.packed ? x->dims[1] : x->dims[2];
  r.size = r.packed ? x->dims[2] / r.heads : x->dims[3];
  int64_t rotary = at->rotary_embedding_dim ? at->rotary_embedding_dim : r.size;
  if (rotary < 0 || rotary > r.size || rotary % 2)
    return eval_fail(e, TENON_EINVAL, "%lld elements of %lld cannot turn in pairs",
                     (long long)rotary, (long long)r.size);
  r.half = rotary / 2;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &r.y));
  if (!x->n) return TENON_OK;
  TRY(rotary_caches(e, &r, x->dims[0]));
  parallel_for(e->run->pool, x->n / r.size, 16, rotary_rows, &r);
  return TENON_OK;
}

// ---- linear attention ----

typedef struct Linear {
  const Value *q, *k, *v, *decay, *beta;
  Value *y;
  int64_t batch, seq, hq, hkv, dk, dv;
  bool head_decay, one_beta, delta;
  double scale, *state, *rows;  // dk*dv and dk+2*dv a (batch, key head)
} Linear;

static void load_from(const Value *v, int64_t at, int64_t n, double *out) {
  load_f64(v->dtype, v->data, at, n, out);
}

static void linear_step(const Linear *l, int64_t b, int64_t h, int64_t t, double *s, double *k) {
  int64_t token = b * l->seq + t, dk = l->dk, dv = l->dv;
  double *v = k + dk, *acc = v + dv;
  for (int64_t i = 0; l->decay && i < dk; i++) {
    int64_t at = l->head_decay ? token * l->hkv + h : (token * l->hkv + h) * dk + i;
    double g = exp(val_f64(l->decay, at));
    for (int64_t j = 0; j < dv; j++) s[i * dv + j] *= g;
  }
  load_from(l->k, (token * l->hkv + h) * dk, dk, k);
  load_from(l->v, (token * l->hkv + h) * dv, dv, v);
  if (l->delta) {
    double beta = val_f64(l->beta, l->one_beta ? token : token * l->hkv + h);
    memset(acc, 0, (size_t)dv * sizeof(double));
    for (int64_t i = 0; i < dk; i++)
      for (int64_t j = 0; j < dv; j++) acc[j] += s[i * dv + j] * k[i];
    for (int64_t j = 0; j < dv; j++) v[j] = beta * (v[j] - acc[j]);
  }
  for (int64_t i = 0; i < dk; i++)
    for (int64_t j = 0; j < dv; j++) s[i * dv + j] += k[i] * v[j];
  int64_t group = l->hq / l->hkv;
  for (int64_t g = h * group; g < (h + 1) * group; g++) {
    load_from(l->q, (token * l->hq + g) * dk, dk, k);
    memset(acc, 0, (size_t)dv * sizeof(double));
    for (int64_t i = 0; i < dk; i++)
      for (int64_t j = 0; j < dv; j++) acc[j] += k[i] * s[i * dv + j];
    for (int64_t j = 0; j < dv; j++) acc[j] *= l->scale;
    store_f64(l->y->dtype, l->y->data, (token * l->hq + g) * dv, dv, acc);
  }
}

static void linear_heads(void *ctx, int64_t begin, int64_t end) {
  const Linear *l = ctx;
  for (int64_t i = begin; i < end; i++)
    for (int64_t t = 0; t < l->seq; t++)
      linear_step(l, i / l->hkv, i % l->hkv, t, l->state + i * l->dk * l->dv,
                  l->rows + i * (l->dk + 2 * l->dv));
}

static bool is_packed(const Linear *l, const Value *v, int64_t last) {
  return dtype_is_float(v->dtype) && v->rank == 3 && v->dims[0] == l->batch &&
         v->dims[1] == l->seq && v->dims[2] == last;
}

static tenon_status linear_shapes(Eval *e, Linear *l) {
  const linear_attention_attrs *at = e->attrs;
  const Value *past = eval_in(e, 3);
  for (int i = 0; i < 3; i++) TRY(eval_need(e, i, "query, key or value", 0));
  l->q = e->in[0];
  l->k = e->in[1];
  l->v = e->in[2];
  l->decay = eval_in(e, 4);
  l->beta = eval_in(e, 5);
  l->hq = at->q_num_heads;
  l->hkv = at->kv_num_heads;
  l->delta = linear_attention_delta(at->update_rule);
  if (l->hq < 1 || l->hkv < 1 || l->hq % l->hkv)
    return eval_fail(e, TENON_EINVAL, "%lld heads of the query cannot share %lld of the keys",
                     (long long)l->hq, (long long)l->hkv);
  if (!l->decay == linear_attention_gated(at->update_rule) || !l->beta == l->delta)
    return eval_fail(e, TENON_EINVAL, "decay is for gated rules, beta for delta rules");
  if (l->q->rank != 3 || l->v->rank != 3 || l->q->dims[2] % l->hq || l->v->dims[2] % l->hkv)
    return eval_fail(e, TENON_EINVAL, "query %s and value %s do not divide into heads",
                     shape_text(l->q->rank, l->q->dims).s, shape_text(l->v->rank, l->v->dims).s);
  l->batch = l->q->dims[0];
  l->seq = l->q->dims[1];
  l->dk = l->q->dims[2] / l->hq;
  l->dv = l->v->dims[2] / l->hkv;
  bool ok = is_packed(l, l->q, l->hq * l->dk) && is_packed(l, l->k, l->hkv * l->dk) &&
            is_packed(l, l->v, l->hkv * l->dv);
  if (l->decay) {
    l->head_decay = is_packed(l, l->decay, l->hkv);
    ok &= l->head_decay || is_packed(l, l->decay, l->hkv * l->dk);
  }
  if (l->beta) {
    l->one_beta = is_packed(l, l->beta, 1);
    ok &= l->one_beta || is_packed(l, l->beta, l->hkv);
  }
  if (past)
    ok &= dtype_is_float(past->dtype) && past->rank == 4 && past->dims[0] == l->batch &&
          past->dims[1] == l->hkv && past->dims[2] == l->dk && past->dims[3] == l->dv;
  if (!ok) return eval_fail(e, TENON_EINVAL, "the inputs' shapes do not fit each other");
  return TENON_OK;
}

tenon_status eval_linear_attention(Eval *e) {
  const linear_attention_attrs *at = e->attrs;
  Linear l = {0};
  TRY(linear_shapes(e, &l));
  const Value *past = eval_in(e, 3);
  l.scale = at->scale != 0 ? at->scale : 1 / sqrt((double)l.dk);
  int64_t width, heads = 0, state = 0, row = 0, rows = 0;
  if (!ck_mul(l.hq, l.dv, &width) || !ck_mul(l.batch, l.hkv, &heads) ||
      !ck_mul(l.dk, l.dv, &state) || !ck_mul(state, heads, &state) || !ck_mul(l.dv, 2, &row) ||
      !ck_add(row, l.dk, &row) || !ck_mul(heads, row, &rows))
    return eval_fail(e, TENON_EINVAL, "the sizes do not fit in 64 bits");
  TRY(eval_out(e, 0, l.q->dtype, 3, (int64_t[]){l.batch, l.seq, width}, &l.y));
  l.state = arena_array(&e->run->scratch, double, state);
  l.rows = arena_array(&e->run->scratch, double, rows);
  if (past) load_from(past, 0, state, l.state);
  parallel_for(e->run->pool, heads, 1, linear_heads, &l);
  if (!eval_wants(e, 1)) return TENON_OK;
  Value *out;
  TRY(eval_out(e, 1, past ? past->dtype : l.q->dtype, 4, (int64_t[]){l.batch, l.hkv, l.dk, l.dv},
               &out));
  store_f64(out->dtype, out->data, 0, out->n, l.state);
  return TENON_OK;
}

// ---- swiglu ----

tenon_status eval_swiglu(Eval *e) {
  const swiglu_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "a", 0));
  TRY(eval_need(e, 1, "b", e->in[0]->dtype));
  const Value *a = e->in[0], *b = e->in[1];
  bool same = a->rank == b->rank && dtype_is_float(a->dtype);
  for (int i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  if (!same)
    return eval_fail(e, TENON_EINVAL, "%s%s and %s must be floats of one shape",
                     dtype_name(a->dtype), shape_text(a->rank, a->dims).s,
                     shape_text(b->rank, b->dims).s);
  Value *y;
  TRY(eval_out(e, 0, a->dtype, a->rank, a->dims, &y));
  double x[EW_BLOCK], z[EW_BLOCK];
  for (int64_t i = 0; i < a->n; i += EW_BLOCK) {
    int64_t n = MIN(EW_BLOCK, a->n - i);
    load_from(a, i, n, x);
    load_from(b, i, n, z);
    for (int64_t k = 0; k < n; k++) x[k] = x[k] / (1 + exp(-at->alpha * x[k])) * z[k];
    store_f64(y->dtype, y->data, i, n, x);
  }
  return TENON_OK;
}
