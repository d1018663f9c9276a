// grouped.c -- grouped_mat_mul: row t of x times matrix group[t] of w.
//
// Guarantees: a row's result depends on that row and its matrix alone.  Sums in double, rounded
//             once.
#include "eval/grouped.h"

enum { X, W, GROUP };

typedef struct Grouped {
  const Value *x, *w;
  const int32_t *group;
  int64_t rows, k, n;
  Value *y;
  double *scratch;  // of each row: its elements, those of a row of w, and sums
} Grouped;

static void take_rows(void *ctx, int64_t begin, int64_t end) {
  const Grouped *p = ctx;
  for (int64_t t = begin; t < end; t++) {
    double *x = p->scratch + t * (p->k + 2 * p->n), *w = x + p->k, *sum = w + p->n;
    memset(sum, 0, (size_t)p->n * sizeof *sum);
    if (p->group[t] >= 0) load_f64(p->x->dtype, p->x->data, t * p->k, p->k, x);
    for (int64_t k = 0; k < p->k && p->group[t] >= 0; k++) {
      load_f64(p->w->dtype, p->w->data, (p->group[t] * p->k + k) * p->n, p->n, w);
      for (int64_t j = 0; j < p->n; j++) sum[j] += x[k] * w[j];
    }
    store_f64(p->y->dtype, p->y->data, t * p->n, p->n, sum);
  }
}

tenon_status eval_grouped_mat_mul(Eval *e) {
  for (int i = 0; i <= GROUP; i++) TRY(eval_need(e, i, "an operand", i == GROUP ? DT_I32 : 0));
  const Value *x = e->in[X], *w = e->in[W], *group = e->in[GROUP];
  bool floats = dtype_is_float(x->dtype) && dtype_is_float(w->dtype);
  if (!floats || x->rank != 2 || w->rank != 3 || group->rank != 1 || x->dims[1] != w->dims[1] ||
      group->n != x->dims[0])
    return eval_fail(e, TENON_EINVAL, "x %s, w %s and %lld groups do not fit each other",
                     shape_text(x->rank, x->dims).s, shape_text(w->rank, w->dims).s,
                     (long long)group->n);
  Grouped p = {.x = x, .w = w, .group = group->data};
  p.rows = x->dims[0];
  p.k = x->dims[1];
  p.n = w->dims[2];
  for (int64_t t = 0; t < p.rows; t++)
    if (p.group[t] >= w->dims[0])
      return eval_fail(e, TENON_EINVAL, "group[%lld] is %d, with %lld matrices", (long long)t,
                       p.group[t], (long long)w->dims[0]);
  int64_t each, doubles;
  TRY(eval_work(e, 2.0 * (double)p.rows * (double)p.k * (double)p.n));
  if (!ck_mul(p.n, 2, &each) || !ck_add(each, p.k, &each) || !ck_mul(each, p.rows, &doubles))
    return eval_fail(e, TENON_EINVAL, "the sizes do not fit in 64 bits");
  p.scratch = arena_array(&e->run->scratch, double, MAX(doubles, 1));
  TRY(eval_out(e, 0, x->dtype, 2, (int64_t[]){p.rows, p.n}, &p.y));
  if (p.y->n) parallel_for(e->run->pool, p.rows, 1, take_rows, &p);
  return TENON_OK;
}
