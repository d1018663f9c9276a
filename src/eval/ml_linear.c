// ml_linear.c -- linear models and support vector machines.
#include "eval/ml.h"

#include <math.h>

// ---- linear models ----

// scores[r][k] = x[r] . coefficients[k] + intercepts[k]
typedef struct LinearJob {
  const double *x, *w, *b;
  int64_t columns, targets;
  double *scores;
} LinearJob;

static void linear_rows(void *ctx, int64_t begin, int64_t end) {
  const LinearJob *j = ctx;
  for (int64_t r = begin; r < end; r++) {
    const double *x = j->x + r * j->columns;
    for (int64_t k = 0; k < j->targets; k++) {
      const double *w = j->w + k * j->columns;
      double sum = 0;
      for (int64_t c = 0; c < j->columns; c++) sum += x[c] * w[c];
      j->scores[r * j->targets + k] = sum + (j->b ? j->b[k] : 0);
    }
  }
}

static tenon_status linear_scores(Eval *e, const double *x, int64_t rows, int64_t columns,
                                  int64_t targets, Floats w, Floats b, double **scores) {
  int64_t need, n;
  if (!ck_mul(targets, columns, &need) || need != w.n || (b.n && b.n != targets) ||
      !ck_mul(rows, targets, &n))
    return eval_fail(
        e, TENON_EINVAL,
        "%lld coefficients and %lld intercepts do not make %lld scores of %lld columns",
        (long long)w.n, (long long)b.n, (long long)targets, (long long)columns);
  *scores = arena_array(&e->run->scratch, double, n);
  LinearJob j = {x, w.v, b.n ? b.v : NULL, columns, targets, *scores};
  parallel_for(e->run->pool, rows, MAX(1, 4096 / MAX(need, 1)), linear_rows, &j);
  return TENON_OK;
}

static int64_t arg_max(const double *v, int64_t n) {
  int64_t at = 0;
  for (int64_t i = 1; i < n; i++)
    if (v[i] > v[at]) at = i;
  return at;
}

static void put_row(Value *y, int64_t r, const double *v, int64_t n) {
  store_f64(y->dtype, y->data, r * n, n, v);
}

tenon_status eval_linear_regressor(Eval *e) {
  const linear_regressor_attrs *at = e->attrs;
  int64_t rows, columns, n = at->targets;
  const double *x;
  double *scores;
  Value *y;
  TRY(ml_load(e, &rows, &columns, &x));
  TRY(linear_scores(e, x, rows, columns, n, at->coefficients, at->intercepts, &scores));
  TRY(eval_out(e, 0, DT_F32, 2, (int64_t[]){rows, n}, &y));
  for (int64_t r = 0; r < rows; r++) {
    ml_post_transform(at->post_transform, scores + r * n, n);
    put_row(y, r, scores + r * n, n);
  }
  return TENON_OK;
}

// One score: with two labels it is the second one's, else it says whether the row is of the class.
static void linear_binary(const linear_classifier_attrs *at, double s, int64_t r, bool pair,
                          Value *labels, Value *z) {
  double both[2] = {s, 0};
  if (pair)
    ml_spread(at->post_transform, true, s, both);
  else
    ml_post_transform(at->post_transform, both, 1);
  if (!pair && labels->dtype == DT_I64)
    ((int64_t *)labels->data)[r] = s > 0;
  else
    ml_put_label(labels, r, &at->classlabels_ints, &at->classlabels_strings,
                 pair ? s > 0 : !(s > 0));
  if (z) put_row(z, r, both, pair ? 2 : 1);
}

tenon_status eval_linear_classifier(Eval *e) {
  const linear_classifier_attrs *at = e->attrs;
  int64_t rows, columns;
  const double *x;
  double *scores;
  Value *labels, *z = NULL;
  TRY(ml_load(e, &rows, &columns, &x));
  bool text = at->classlabels_strings.n > 0;
  int64_t classes = text ? at->classlabels_strings.n : at->classlabels_ints.n;
  int64_t n = at->intercepts.n ? at->intercepts.n
              : columns        ? at->coefficients.n / columns
                               : classes;
  TRY(linear_scores(e, x, rows, columns, n, at->coefficients, at->intercepts, &scores));
  bool pair = n == 1 && classes == 2;
  TRY(eval_out(e, 0, text ? DT_STRING : DT_I64, 1, &rows, &labels));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, DT_F32, 2, (int64_t[]){rows, pair ? 2 : n}, &z));
  for (int64_t r = 0; r < rows; r++, scores += n) {
    if (n == 1) {
      linear_binary(at, scores[0], r, pair, labels, z);
      continue;
    }
    if (n)
      ml_put_label(labels, r, &at->classlabels_ints, &at->classlabels_strings, arg_max(scores, n));
    ml_post_transform(at->post_transform, scores, n);
    if (z) put_row(z, r, scores, n);
  }
  return TENON_OK;
}

// ---- support vector machines ----

typedef struct Kernel {
  int type;
  double gamma, coef0, degree;
} Kernel;

static Kernel make_kernel(int type, Floats params) {
  Kernel k = {.type = type};
  if (params.n > 0) k.gamma = params.v[0];
  if (params.n > 1) k.coef0 = params.v[1];
  if (params.n > 2) k.degree = params.v[2];
  return k;
}

static double kernel_at(const Kernel *k, const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = k->type == KERNEL_RBF ? (a[i] - b[i]) * (a[i] - b[i]) : a[i] * b[i];
    sum += d;
  }
  switch (k->type) {
  case KERNEL_POLY: return pow(k->gamma * sum + k->coef0, k->degree);
  case KERNEL_RBF: return exp(-k->gamma * sum);
  case KERNEL_SIGMOID: return tanh(k->gamma * sum + k->coef0);
  default: return sum;
  }
}

typedef struct SvrJob {
  const svm_regressor_attrs *at;
  Kernel kernel;
  const double *x;
  int64_t columns;
  Value *y;
} SvrJob;

static void svr_rows(void *ctx, int64_t begin, int64_t end) {
  const SvrJob *j = ctx;
  for (int64_t r = begin; r < end; r++) {
    const double *x = j->x + r * j->columns, *v = j->at->support_vectors.v;
    double sum = j->at->rho.v[0];
    if (!j->at->n_supports) sum += kernel_at(&(Kernel){0}, x, j->at->coefficients.v, j->columns);
    for (int64_t k = 0; k < j->at->n_supports; k++)
      sum += j->at->coefficients.v[k] * kernel_at(&j->kernel, x, v + k * j->columns, j->columns);
    if (j->at->one_class) sum = sum > 0 ? 1 : -1;
    ml_post_transform(j->at->post_transform, &sum, 1);
    val_put_f64(j->y, r, sum);
  }
}

tenon_status eval_svm_regressor(Eval *e) {
  const svm_regressor_attrs *at = e->attrs;
  int64_t rows, need;
  SvrJob j = {.at = at, .kernel = make_kernel(at->kernel_type, at->kernel_params)};
  TRY(ml_load(e, &rows, &j.columns, &j.x));
  bool fits = at->n_supports >= 0 && at->rho.n >= 1 && ck_mul(at->n_supports, j.columns, &need);
  if (fits)
    fits = at->n_supports ? at->support_vectors.n == need && at->coefficients.n == at->n_supports
                          : at->coefficients.n == j.columns;
  if (!fits)
    return eval_fail(
        e, TENON_EINVAL,
        "%lld support vectors of %lld columns need as many numbers and a rho; there are %lld "
        "numbers, %lld coefficients, %lld rho",
        (long long)at->n_supports, (long long)j.columns, (long long)at->support_vectors.n,
        (long long)at->coefficients.n, (long long)at->rho.n);
  TRY(eval_out(e, 0, DT_F32, 2, (int64_t[]){rows, 1}, &j.y));
  parallel_for(e->run->pool, rows, 8, svr_rows, &j);
  return TENON_OK;
}

// ---- svm_classifier ----

typedef struct SvcJob {
  const svm_classifier_attrs *at;
  Kernel kernel;
  const double *x;
  int64_t columns, classes, pairs, vectors, width;  // width: scores of one row of the result
  bool proba, positive;                             // positive: no coefficient is negative
  int64_t pieces, rows, buffer;
  double *memory;
  Value *labels, *z;
} SvcJob;

// Probabilities of all classes from those of each pair (Wu, Lin and Weng's second method).
static void couple(int64_t k, const double *r, double *q, double *qp, double *p) {
  for (int64_t i = 0; i < k; i++) {
    p[i] = 1.0 / (double)k;
    q[i * k + i] = 0;
    for (int64_t j = 0; j < k; j++) {
      if (j == i) continue;
      q[i * k + i] += r[j * k + i] * r[j * k + i];
      q[i * k + j] = -r[j * k + i] * r[i * k + j];
    }
  }
  for (int round = 0; round < 100; round++) {
    double pqp = 0, worst = 0;
    for (int64_t i = 0; i < k; i++) {
      qp[i] = 0;
      for (int64_t j = 0; j < k; j++) qp[i] += q[i * k + j] * p[j];
      pqp += p[i] * qp[i];
    }
    for (int64_t i = 0; i < k; i++) worst = fmax(worst, fabs(qp[i] - pqp));
    if (worst < 0.005 / (double)k) return;
    for (int64_t i = 0; i < k; i++) {
      double d = (-qp[i] + pqp) / q[i * k + i];
      p[i] += d;
      pqp = (pqp + d * (d * q[i * k + i] + 2 * qp[i])) / (1 + d) / (1 + d);
      for (int64_t j = 0; j < k; j++) {
        qp[j] = (qp[j] + d * q[i * k + j]) / (1 + d);
        p[j] /= 1 + d;
      }
    }
  }
}

// Scores of the pairs of classes, and the votes they give.
static void svc_pairs(const SvcJob *j, const double *kernels, double *scores, double *votes) {
  const int64_t *count = j->at->vectors_per_class.v;
  const double *coef = j->at->coefficients.v;
  int64_t pair = 0, begin_a = 0;
  for (int64_t a = 0; a < j->classes; a++) votes[a] = 0;
  for (int64_t a = 0; a < j->classes; begin_a += count[a++]) {
    int64_t begin_b = begin_a + count[a];
    for (int64_t b = a + 1; b < j->classes; begin_b += count[b++]) {
      double sum = 0;
      for (int64_t i = begin_a; i < begin_a + count[a]; i++)
        sum += coef[(b - 1) * j->vectors + i] * kernels[i];
      for (int64_t i = begin_b; i < begin_b + count[b]; i++)
        sum += coef[a * j->vectors + i] * kernels[i];
      sum += j->at->rho.v[pair];
      scores[pair++] = sum;
      votes[sum > 0 ? a : b]++;
    }
  }
}

static void svc_probabilities(const SvcJob *j, const double *scores, double *work, double *out) {
  int64_t k = j->classes, pair = 0;
  double *r = work, *q = work + k * k, *qp = q + k * k;
  for (int64_t a = 0; a < k; a++)
    for (int64_t b = a + 1; b < k; b++, pair++) {
      double v = 1 - ml_logistic(scores[pair] * j->at->prob_a.v[pair] + j->at->prob_b.v[pair]);
      v = fmin(fmax(v, 1e-7), 1 - 1e-7);
      r[a * k + b] = v;
      r[b * k + a] = 1 - v;
    }
  couple(k, r, q, qp, out);
}

// The class of a row, and its scores in `out`.
static int64_t svc_row(const SvcJob *j, const double *x, double *work, double *out) {
  const svm_classifier_attrs *at = j->at;
  double *kernels = work, *scores = work + j->vectors, *votes = scores + j->pairs;
  if (!j->vectors) {  // linear: a score a class
    for (int64_t k = 0; k < j->classes; k++)
      out[k] = kernel_at(&(Kernel){0}, x, at->coefficients.v + k * j->columns, j->columns) +
               at->rho.v[0];
    int64_t best = arg_max(out, j->classes);
    bool second = j->classes == 2 && j->positive && out[best] >= 0.5;
    return second ? 1 : best;
  }
  for (int64_t i = 0; i < j->vectors; i++)
    kernels[i] = kernel_at(&j->kernel, x, at->support_vectors.v + i * j->columns, j->columns);
  svc_pairs(j, kernels, scores, votes);
  if (j->proba)
    svc_probabilities(j, scores, votes + j->classes, out);
  else if (j->pairs == 1)
    out[0] = -scores[0], out[1] = scores[0];
  else
    memcpy(out, scores, (size_t)j->pairs * sizeof(double));
  return arg_max(votes, j->classes);
}

static void svc_pieces(void *ctx, int64_t begin, int64_t end) {
  const SvcJob *j = ctx;
  for (int64_t p = begin; p < end; p++) {
    double *out = j->memory + p * j->buffer, *work = out + j->width;
    for (int64_t r = j->rows * p / j->pieces; r < j->rows * (p + 1) / j->pieces; r++) {
      int64_t k = svc_row(j, j->x + r * j->columns, work, out);
      ml_put_label(j->labels, r, &j->at->classlabels_ints, &j->at->classlabels_strings, k);
      ml_post_transform(j->at->post_transform, out, j->width);
      if (j->z) put_row(j->z, r, out, j->width);
    }
  }
}

static tenon_status svc_check(Eval *e, SvcJob *j) {
  const svm_classifier_attrs *at = j->at;
  j->classes = at->classlabels_strings.n ? at->classlabels_strings.n : at->classlabels_ints.n;
  j->proba = at->prob_a.n > 0;
  j->positive = true;
  bool fits = j->classes >= 1 && j->classes < 65536;
  for (int64_t i = 0; i < at->coefficients.n; i++) j->positive &= at->coefficients.v[i] >= 0;
  for (int64_t i = 0; i < at->vectors_per_class.n; i++)
    fits = fits && at->vectors_per_class.v[i] >= 0 &&
           ck_add(j->vectors, at->vectors_per_class.v[i], &j->vectors);
  if (fits && j->vectors) {
    int64_t numbers, coefs;
    j->pairs = j->classes * (j->classes - 1) / 2;
    fits = at->vectors_per_class.n == j->classes && j->classes >= 2 &&
           ck_mul(j->vectors, j->columns, &numbers) && at->support_vectors.n == numbers &&
           ck_mul(j->classes - 1, j->vectors, &coefs) && at->coefficients.n >= coefs &&
           at->rho.n >= j->pairs &&
           (!j->proba || (at->prob_a.n >= j->pairs && at->prob_b.n >= j->pairs));
    j->width = j->proba || j->pairs == 1 ? j->classes : j->pairs;
  } else if (fits) {
    int64_t coefs;
    fits = ck_mul(j->classes, j->columns, &coefs) && at->coefficients.n >= coefs && at->rho.n >= 1;
    j->width = j->classes;
  }
  if (fits) return TENON_OK;
  return eval_fail(
      e, TENON_EINVAL,
      "%lld classes, %lld columns, %lld support numbers, %lld coefficients, %lld rho, %lld and "
      "%lld probability numbers do not fit",
      (long long)j->classes, (long long)j->columns, (long long)at->support_vectors.n,
      (long long)at->coefficients.n, (long long)at->rho.n, (long long)at->prob_a.n,
      (long long)at->prob_b.n);
}

tenon_status eval_svm_classifier(Eval *e) {
  const svm_classifier_attrs *at = e->attrs;
  SvcJob j = {.at = at, .kernel = make_kernel(at->kernel_type, at->kernel_params)};
  TRY(ml_load(e, &j.rows, &j.columns, &j.x));
  TRY(svc_check(e, &j));
  TRY(eval_out(e, 0, at->classlabels_strings.n ? DT_STRING : DT_I64, 1, &j.rows, &j.labels));
  if (eval_wants(e, 1)) TRY(eval_out(e, 1, DT_F32, 2, (int64_t[]){j.rows, j.width}, &j.z));
  if (!j.rows) return TENON_OK;
  double square = (double)j.classes * (double)j.classes;
  TRY(eval_work(e, (double)j.rows * ((double)j.vectors * (double)(j.columns + 2 * j.classes) +
                                     (j.proba ? 400 : 1) * square)));
  j.pieces = MIN(j.rows, 4 * (int64_t)MAX(1, pool_threads(e->run->pool)));
  j.buffer = j.width + j.vectors + j.pairs + j.classes;
  if (j.proba) j.buffer += 2 * j.classes * j.classes + j.classes;
  int64_t total;
  if (!ck_mul(j.pieces, j.buffer, &total)) trap_raise(TENON_ENOMEM, "svm_classifier: too large");
  j.memory = arena_array(&e->run->scratch, double, total);
  parallel_for(e->run->pool, j.pieces, 1, svc_pieces, &j);
  return TENON_OK;
}
