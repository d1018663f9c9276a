// linear.h -- small dense linear algebra in f64.
#ifndef TENON_COMPRESS_LINEAR_H
#define TENON_COMPRESS_LINEAR_H

#include "base/base.h"

// The lower factor L of a symmetric positive definite matrix, m = L L^T, in its lower half.  False:
// it is not definite.
bool cholesky_factor(double *m, int64_t n);
// The upper factor U of the upper half, m = U^T U, in its place; by blocks, for large matrices.
// False: it is not definite.
bool cholesky_upper(double *m, int64_t n);
// Solves L L^T x = b in place.
void cholesky_solve(const double *l, int64_t n, double *b);
// The most likely x of y = A x + noise, where x[i] has the mean `mean[i]` and the deviation
// `deviation[i]`, and noise has `noise` > 0.  `a` is [rows][n].
void linear_estimate(const double *a, const double *y, int64_t rows, int64_t n, const double *mean,
                     const double *deviation, double noise, Arena *arena, double *x);

#endif
