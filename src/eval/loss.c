// loss.c -- negative log likelihood of target classes, with or without a softmax before it.
//
// Scores are [batch, classes, positions...], targets [batch, positions...].  Sums run over the
// positions in order, in double.
#include "eval/loss.h"

#include <math.h>

typedef struct Loss {
  const negative_log_likelihood_loss_attrs *at;
  const Value *x, *target, *weight;
  int64_t batch, classes, positions;
  bool softmax;
  Value *log_prob;  // may be NULL
} Loss;

static tenon_status loss_shapes(Eval *e, Loss *l) {
  TRY(eval_need(e, 0, "scores", 0));
  TRY(eval_need(e, 1, "target", 0));
  const Value *x = l->x = e->in[0], *t = l->target = e->in[1], *w = l->weight = eval_in(e, 2);
  bool ok = dtype_is_float(x->dtype) && dtype_is_int(t->dtype) && x->rank >= 2 &&
            t->rank == x->rank - 1 && t->dims[0] == x->dims[0];
  for (int i = 2; ok && i < x->rank; i++) ok = t->dims[i - 1] == x->dims[i];
  if (!ok)
    return eval_fail(e, TENON_EINVAL, "%s scores of shape %s do not go with %s targets of shape %s",
                     dtype_name(x->dtype), shape_text(x->rank, x->dims).s, dtype_name(t->dtype),
                     shape_text(t->rank, t->dims).s);
  l->batch = x->dims[0];
  l->classes = x->dims[1];
  l->positions = 1;
  for (int i = 2; t->n && i < x->rank; i++) l->positions *= x->dims[i];  // at most t's elements
  if (w && (w->kind != VK_TENSOR || !dtype_is_float(w->dtype) || w->n != l->classes))
    return eval_fail(e, TENON_EINVAL, "%lld weights for %lld classes", (long long)w->n,
                     (long long)l->classes);
  return TENON_OK;
}

// log of the sum over classes of exp at one position
static double log_sum_exp(const Loss *l, int64_t at) {
  double max = -INFINITY, sum = 0;
  for (int64_t c = 0; c < l->classes; c++) {
    double v = val_f64(l->x, at + c * l->positions);
    if (v > max || v != v) max = v;
  }
  if (max == -INFINITY || max == INFINITY) max = 0;
  for (int64_t c = 0; c < l->classes; c++) sum += exp(val_f64(l->x, at + c * l->positions) - max);
  return max + log(sum);
}

static void log_prob_rows(void *ctx, int64_t begin, int64_t end) {
  const Loss *l = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i / l->positions * l->classes * l->positions + i % l->positions;
    double sum = log_sum_exp(l, at);
    for (int64_t c = 0; c < l->classes; c++) {
      int64_t k = at + c * l->positions;
      val_put_f64(l->log_prob, k, val_f64(l->x, k) - sum);
    }
  }
}

// The loss of position i and its weight.
static tenon_status loss_at(Eval *e, const Loss *l, int64_t i, double *loss, double *weight) {
  int64_t c = val_i64(l->target, i);
  *loss = *weight = 0;
  if (l->at->ignore_index.given && c == l->at->ignore_index.v) return TENON_OK;
  if (c < 0 || c >= l->classes)
    return eval_fail(e, TENON_EINVAL, "target %lld is class %lld of %lld", (long long)i,
                     (long long)c, (long long)l->classes);
  int64_t at = i / l->positions * l->classes * l->positions + i % l->positions;
  double p = val_f64(l->x, at + c * l->positions);
  if (l->softmax) p -= log_sum_exp(l, at);
  *weight = l->weight ? val_f64(l->weight, c) : 1;
  *loss = -p * *weight;
  return TENON_OK;
}

static tenon_status run_loss(Eval *e, Loss *l) {
  Value *y;
  bool none = l->at->reduction == REDUCTION_NONE;
  TRY(eval_out(e, 0, l->x->dtype, none ? l->target->rank : 0, l->target->dims, &y));
  double sum = 0, weights = 0;
  for (int64_t i = 0; i < l->target->n; i++) {
    double loss, weight;
    TRY(loss_at(e, l, i, &loss, &weight));
    if (none) val_put_f64(y, i, loss);
    sum += loss;
    weights += weight;
  }
  if (!none) val_put_f64(y, 0, l->at->reduction == REDUCTION_MEAN ? sum / weights : sum);
  if (!eval_wants(e, 1)) return TENON_OK;
  TRY(eval_out(e, 1, l->x->dtype, l->x->rank, l->x->dims, &l->log_prob));
  if (l->x->n) parallel_for(e->run->pool, l->target->n, 16, log_prob_rows, l);
  return TENON_OK;
}

tenon_status eval_negative_log_likelihood_loss(Eval *e) {
  Loss l = {.at = e->attrs};
  TRY(loss_shapes(e, &l));
  return run_loss(e, &l);
}

tenon_status eval_softmax_cross_entropy_loss(Eval *e) {
  const softmax_cross_entropy_loss_attrs *at = e->attrs;
  negative_log_likelihood_loss_attrs same = {at->ignore_index, at->reduction};
  Loss l = {.at = &same, .softmax = true};
  TRY(loss_shapes(e, &l));
  return run_loss(e, &l);
}
