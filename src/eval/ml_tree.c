// ml_tree.c -- ensembles of decision trees, by the specification: row by row, tree by tree.
#include "eval/ml_forest.h"

// ---- walking ----

static bool is_member(const Forest *f, const TreeNode *n, double x) {
  for (int64_t i = 0; i < n->nmembers; i++)
    if (f->member[n->members + i] == x) return true;
  return false;
}

static bool holds(const Forest *f, const TreeNode *n, double x) {
  if (x != x) return n->missing_true || n->mode == TREE_NEQ;
  switch (n->mode) {
  case TREE_LEQ: return x <= n->value;
  case TREE_LT: return x < n->value;
  case TREE_GTE: return x >= n->value;
  case TREE_GT: return x > n->value;
  case TREE_EQ: return x == n->value;
  case TREE_NEQ: return x != n->value;
  default: return is_member(f, n, x);
  }
}

typedef struct ForestJob {
  const Forest *f;
  int aggregate;
  const double *x;
  double *score;  // [rows][targets]
  uint8_t *has;   // whether any vote came
} ForestJob;

static void forest_rows(void *ctx, int64_t begin, int64_t end) {
  const ForestJob *j = ctx;
  const Forest *f = j->f;
  for (int64_t r = begin; r < end; r++) {
    double *score = j->score + r * f->ntargets;
    uint8_t *has = j->has + r * f->ntargets;
    for (int64_t t = 0; t < f->nroots; t++) {
      int64_t at = f->root[t];
      while (at >= 0)
        at = f->node[at].child[holds(f, &f->node[at], j->x[r * f->features + f->node[at].feature])];
      for (int64_t v = f->vote_begin[~at]; v < f->vote_begin[~at + 1]; v++) {
        int64_t k = f->vote[v].target;
        score[k] = has[k] ? forest_aggregate(j->aggregate, score[k], f->vote[v].weight)
                          : f->vote[v].weight;
        has[k] = 1;
      }
    }
    for (int64_t k = 0; k < f->ntargets && j->aggregate == AGGREGATE_AVERAGE; k++)
      if (f->nroots) score[k] /= (double)f->nroots;
  }
}

static tenon_status forest_run(Eval *e, const Forest *f, int how, const double *x, int64_t rows,
                               ForestJob *j) {
  int64_t n;
  if (!ck_mul(rows, f->ntargets, &n))
    return eval_fail(e, TENON_EINVAL, "%lld rows are too many", (long long)rows);
  TRY(forest_charge(e, f, rows));
  *j = (ForestJob){f, how, x, arena_array(&e->run->scratch, double, n),
                   arena_array(&e->run->scratch, uint8_t, n)};
  parallel_for(e->run->pool, rows, MAX(1, 256 / MAX(f->nroots, 1)), forest_rows, j);
  return TENON_OK;
}

static tenon_status check_targets(Eval *e, int64_t n) {
  if (n >= 1) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%lld targets, must be at least 1", (long long)n);
}

tenon_status eval_tree_ensemble_regressor(Eval *e) {
  const tree_ensemble_regressor_attrs *at = e->attrs;
  int64_t rows;
  const double *x;
  Forest f = {.ntargets = at->n_targets};
  ForestJob j;
  Value *y;
  TRY(check_targets(e, at->n_targets));
  TRY(ml_load(e, &rows, &f.features, &x));
  TRY(eval_out(e, 0, DT_F32, 2, (int64_t[]){rows, at->n_targets}, &y));
  TRY(forest_of_regressor(e, &f));
  TRY(forest_run(e, &f, at->aggregate_function, x, rows, &j));
  for (int64_t r = 0; r < rows; r++)
    forest_finish_targets(j.score + r * f.ntargets, f.ntargets, at->base_values,
                          at->post_transform);
  store_f64(DT_F32, y->data, 0, y->n, j.score);
  return TENON_OK;
}

tenon_status eval_tree_ensemble(Eval *e) {
  const tree_ensemble_attrs *at = e->attrs;
  int64_t rows;
  const double *x;
  Forest f = {.ntargets = at->n_targets};
  ForestJob j;
  Value *y;
  TRY(check_targets(e, at->n_targets));
  TRY(ml_load(e, &rows, &f.features, &x));
  TRY(eval_out(e, 0, e->in[0]->dtype, 2, (int64_t[]){rows, at->n_targets}, &y));
  TRY(forest_of_flat(e, &f));
  TRY(forest_run(e, &f, at->aggregate_function, x, rows, &j));
  for (int64_t r = 0; r < rows; r++)
    forest_finish_targets(j.score + r * f.ntargets, f.ntargets, (Floats){0}, at->post_transform);
  store_f64(y->dtype, y->data, 0, y->n, j.score);
  return TENON_OK;
}

tenon_status eval_tree_ensemble_classifier(Eval *e) {
  TreeClasses c = forest_classes(e->attrs);
  int64_t rows;
  const double *x;
  Forest f = {.ntargets = c.n};
  ForestJob j;
  Value *labels, *z = NULL;
  TRY(check_targets(e, c.n));
  TRY(ml_load(e, &rows, &f.features, &x));
  TRY(eval_out(e, 0, c.text ? DT_STRING : DT_I64, 1, &rows, &labels));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, DT_F32, 2, (int64_t[]){rows, c.n}, &z));
  TRY(forest_of_classifier(e, &f));
  TRY(forest_run(e, &f, AGGREGATE_SUM, x, rows, &j));
  forest_finish_classes(&c, rows, j.score, j.has, labels, z);
  return TENON_OK;
}
