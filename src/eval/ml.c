// ml.c -- preprocessing of rows of features, and what the models share: matrices, transforms of
// scores.
#include "eval/ml.h"

#include <math.h>

// ---- shared ----

tenon_status ml_matrix(Eval *e, int i, int64_t *rows, int64_t *columns) {
  TRY(eval_need(e, i, "x", 0));
  const Value *x = e->in[i];
  if (x->rank < 1 || x->rank > 2)
    return eval_fail(e, TENON_EINVAL, "input %d has shape %s, must be [N, F] or [F]", i,
                     shape_text(x->rank, x->dims).s);
  *rows = x->rank == 2 ? x->dims[0] : 1;
  *columns = x->dims[x->rank - 1];
  return TENON_OK;
}

tenon_status ml_load(Eval *e, int64_t *rows, int64_t *columns, const double **out) {
  Floats f;
  TRY(ml_matrix(e, 0, rows, columns));
  TRY(eval_doubles(e, 0, &f));
  *out = f.v;
  return TENON_OK;
}

double ml_logistic(double x) {
  double v = 1 / (1 + exp(-fabs(x)));
  return x < 0 ? 1 - v : v;
}

// The approximation that these operators are defined with, not the exact inverse.
double ml_probit(double x) {
  double y = 2 * x - 1, l = log((1 - y) * (1 + y));
  double v = 2 / (3.14159265358979323846 * 0.147) + 0.5 * l;
  double r = sqrt(-v + sqrt(v * v - l / 0.147));
  return 1.41421356 * (y < 0 ? -r : r);
}

static void softmax(double *s, int64_t n, bool skip_zeros) {
  double most = s[0], sum = 0;
  for (int64_t i = 1; i < n; i++) most = s[i] > most ? s[i] : most;
  for (int64_t i = 0; i < n; i++) {
    bool zero = skip_zeros && fabs(s[i]) <= 1e-7;
    s[i] = zero ? s[i] * exp(-most) : exp(s[i] - most);
    sum += s[i];
  }
  for (int64_t i = 0; i < n; i++) s[i] = sum == 0 ? 0.5 : s[i] / sum;
}

void ml_post_transform(int kind, double *s, int64_t n) {
  if (n == 1 && kind != POST_PROBIT) return;
  if (kind == POST_SOFTMAX || kind == POST_SOFTMAX_ZERO) {
    if (n) softmax(s, n, kind == POST_SOFTMAX_ZERO);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    if (kind == POST_LOGISTIC) s[i] = ml_logistic(s[i]);
    if (kind == POST_PROBIT) s[i] = ml_probit(s[i]);
  }
}

void ml_spread(int kind, bool positive, double score, double out[2]) {
  if (kind == POST_PROBIT) {
    out[0] = ml_probit(score);
    out[1] = 0;
  } else if (kind == POST_LOGISTIC) {
    out[0] = ml_logistic(-score);
    out[1] = ml_logistic(score);
  } else {
    out[0] = positive ? 1 - score : -score;
    out[1] = score;
  }
}

void ml_put_label(Value *labels, int64_t r, const Ints *ints, const Strs *strings, int64_t k) {
  if (labels->dtype == DT_STRING)
    ((Str *)labels->data)[r] = k < strings->n ? strings->v[k] : STR("");
  else
    ((int64_t *)labels->data)[r] = k < ints->n ? ints->v[k] : k;
}

static tenon_status need_numbers(Eval *e, const Value *x) {
  if (dtype_is_float(x->dtype) || dtype_is_int(x->dtype)) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "x is %s, must be numbers", dtype_name(x->dtype));
}

// ---- element by element ----

tenon_status eval_binarizer(Eval *e) {
  const binarizer_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  Value *y;
  TRY(need_numbers(e, x));
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->n; i++) val_put_f64(y, i, val_f64(x, i) > at->threshold);
  return TENON_OK;
}

// Element i of a list that has one value for all columns, or one a column.
static double per_column(Floats f, int64_t i, int64_t columns) {
  return f.v[f.n == 1 ? 0 : i % columns];
}

// The columns of x, checked against a list that must have one element or one a column.
static tenon_status check_columns(Eval *e, int64_t n, const char *name, int64_t *columns) {
  const Value *x = e->in[0];
  *columns = x->rank ? x->dims[x->rank > 1 ? 1 : 0] : 1;
  if (n == 1 || n == *columns) return TENON_OK;
  return eval_fail(e, TENON_EINVAL, "%s has %lld elements, x has %lld columns", name, (long long)n,
                   (long long)*columns);
}

tenon_status eval_scaler(Eval *e) {
  const scaler_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  Value *y;
  int64_t columns;
  TRY(need_numbers(e, x));
  TRY(check_columns(e, at->offset.n, "offset", &columns));
  TRY(check_columns(e, at->scale.n, "scale", &columns));
  TRY(eval_out(e, 0, DT_F32, x->rank, x->dims, &y));
  for (int64_t i = 0; i < x->n; i++)
    val_put_f64(y, i,
                (val_f64(x, i) - per_column(at->offset, i, columns)) *
                    per_column(at->scale, i, columns));
  return TENON_OK;
}

static tenon_status impute_floats(Eval *e, const imputer_attrs *at, Value *y) {
  const Value *x = e->in[0];
  int64_t columns;
  bool nan = at->replaced_value_float != at->replaced_value_float;
  TRY(check_columns(e, at->imputed_value_floats.n, "imputed_value_floats", &columns));
  for (int64_t i = 0; i < x->n; i++) {
    double v = val_f64(x, i);
    bool hit = nan ? v != v : v == at->replaced_value_float;
    if (hit)
      val_put_f64(y, i, per_column(at->imputed_value_floats, i, columns));
    else
      copy_elems(x->dtype, y->data, i, x->data, i, 1);
  }
  return TENON_OK;
}

tenon_status eval_imputer(Eval *e) {
  const imputer_attrs *at = e->attrs;
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  Value *y;
  int64_t columns;
  TRY(need_numbers(e, x));
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  if (at->imputed_value_floats.n) return impute_floats(e, at, y);
  const Ints v = at->imputed_value_int64s;
  TRY(check_columns(e, v.n, "imputed_value_int64s", &columns));
  for (int64_t i = 0; i < x->n; i++) {
    bool hit = dtype_is_int(x->dtype) ? val_i64(x, i) == at->replaced_value_int64
                                      : val_f64(x, i) == (double)at->replaced_value_int64;
    int64_t put = v.v[v.n == 1 ? 0 : i % columns];
    if (!hit)
      copy_elems(x->dtype, y->data, i, x->data, i, 1);
    else if (dtype_is_int(x->dtype))
      val_put_i64(y, i, put);
    else
      val_put_f64(y, i, (double)put);
  }
  return TENON_OK;
}

// ---- row by row ----

static double divisor(int norm, const double *x, int64_t n) {
  double d = norm == NORM_MAX && n ? x[0] : 0;
  for (int64_t i = 0; i < n; i++) {
    if (norm == NORM_MAX) d = x[i] > d ? x[i] : d;
    if (norm == NORM_L1) d += fabs(x[i]);
    if (norm == NORM_L2) d += x[i] * x[i];
  }
  return norm == NORM_L2 ? sqrt(d) : d;
}

tenon_status eval_normalizer(Eval *e) {
  const normalizer_attrs *at = e->attrs;
  int64_t rows, columns;
  const double *x;
  Value *y;
  TRY(ml_load(e, &rows, &columns, &x));
  TRY(eval_out(e, 0, DT_F32, e->in[0]->rank, e->in[0]->dims, &y));
  for (int64_t r = 0; r < rows; r++, x += columns) {
    double d = divisor(at->norm, x, columns);
    for (int64_t c = 0; c < columns; c++) val_put_f64(y, r * columns + c, d == 0 ? x[c] : x[c] / d);
  }
  return TENON_OK;
}

tenon_status eval_feature_vectorizer(Eval *e) {
  const feature_vectorizer_attrs *at = e->attrs;
  int64_t rows = 0, total = 0, columns, n;
  Value *y;
  if (at->inputdimensions.n && at->inputdimensions.n != e->nin)
    return eval_fail(e, TENON_EINVAL, "%d operands and %lld inputdimensions", e->nin,
                     (long long)at->inputdimensions.n);
  for (int i = 0; i < e->nin; i++) {
    TRY(ml_matrix(e, i, &n, &columns));
    TRY(need_numbers(e, e->in[i]));
    if (i && n != rows)
      return eval_fail(e, TENON_EINVAL, "operand %d has %lld rows, the first has %lld", i,
                       (long long)n, (long long)rows);
    rows = n;
    int64_t width = at->inputdimensions.n ? at->inputdimensions.v[i] : columns;
    if (width < 0 || !ck_add(total, width, &total))
      return eval_fail(e, TENON_EINVAL, "%lld columns for operand %d", (long long)width, i);
  }
  TRY(eval_out(e, 0, DT_F32, 2, (int64_t[]){rows, total}, &y));
  for (int64_t i = 0, at_column = 0; i < e->nin && y->n; i++) {
    TRY(ml_matrix(e, (int)i, &n, &columns));
    int64_t width = at->inputdimensions.n ? at->inputdimensions.v[i] : columns;
    for (int64_t r = 0; r < rows; r++)  // what is too long is cut, what is too short padded with 0
      for (int64_t c = 0; c < MIN(width, columns); c++)
        val_put_f64(y, r * total + at_column + c, val_f64(e->in[i], r * columns + c));
    at_column += width;
  }
  return TENON_OK;
}

tenon_status eval_array_feature_extractor(Eval *e) {
  Ints index;
  TRY(eval_need(e, 0, "x", 0));
  TRY(eval_ints(e, 1, &index));
  const Value *x = e->in[0];
  if (x->rank < 1) return eval_fail(e, TENON_EINVAL, "x is a scalar, must have an axis");
  int64_t n = x->dims[x->rank - 1], rows = n ? x->n / n : 0, dims[MAX_RANK] = {1};
  int rank = MAX(x->rank, 2);  // a vector gives a matrix of one row
  for (int i = 0; i < x->rank - 1; i++) dims[i] = x->dims[i];
  dims[rank - 1] = index.n;
  for (int64_t k = 0; k < index.n; k++)
    if (index.v[k] < -n || index.v[k] >= n)
      return eval_fail(e, TENON_EINVAL, "index %lld is out of range for %lld columns",
                       (long long)index.v[k], (long long)n);
  Value *y;
  TRY(eval_out(e, 0, x->dtype, rank, dims, &y));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < index.n; k++)
      copy_elems(x->dtype, y->data, r * index.n + k, x->data,
                 r * n + (index.v[k] < 0 ? index.v[k] + n : index.v[k]), 1);
  return TENON_OK;
}
