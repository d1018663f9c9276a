// contrib.c -- inverse of square matrices, by elimination with row pivots.
#include "eval/contrib.h"

#include <math.h>

// Turns [a | unit] into [unit | inverse]; false when a pivot is 0.
static bool invert(int64_t n, double *m) {
  int64_t w = 2 * n;
  for (int64_t c = 0; c < n; c++) {
    int64_t p = c;
    for (int64_t r = c + 1; r < n; r++)
      if (fabs(m[r * w + c]) > fabs(m[p * w + c])) p = r;
    double pivot = m[p * w + c];
    if (pivot == 0) return false;
    for (int64_t k = 0; k < w; k++) {
      double t = m[p * w + k];
      m[p * w + k] = m[c * w + k];
      m[c * w + k] = t / pivot;
    }
    for (int64_t r = 0; r < n; r++) {
      double f = m[r * w + c];
      if (r == c || f == 0) continue;
      for (int64_t k = 0; k < w; k++) m[r * w + k] -= f * m[c * w + k];
    }
  }
  return true;
}

tenon_status eval_inverse(Eval *e) {
  TRY(eval_need(e, 0, "x", 0));
  const Value *x = e->in[0];
  if (!dtype_is_float(x->dtype) || x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2])
    return eval_fail(e, TENON_EINVAL, "%s%s is not a stack of square matrices of floats",
                     dtype_name(x->dtype), shape_text(x->rank, x->dims).s);
  Value *y;
  TRY(eval_out(e, 0, x->dtype, x->rank, x->dims, &y));
  int64_t n = x->dims[x->rank - 1], size;
  if (!x->n) return TENON_OK;
  if (!ck_mul(2 * n, n, &size)) return eval_fail(e, TENON_EINVAL, "the matrix is too large");
  double *m = arena_array(&e->run->scratch, double, size);
  for (int64_t at = 0; at < x->n; at += n * n) {
    memset(m, 0, (size_t)size * sizeof(double));
    for (int64_t r = 0; r < n; r++) {
      load_f64(x->dtype, x->data, at + r * n, n, m + 2 * n * r);
      m[2 * n * r + n + r] = 1;
    }
    if (!invert(n, m))
      return eval_fail(e, TENON_EINVAL, "matrix %lld cannot be inverted",
                       (long long)(at / (n * n)));
    for (int64_t r = 0; r < n; r++) store_f64(y->dtype, y->data, at + r * n, n, m + 2 * n * r + n);
  }
  return TENON_OK;
}
