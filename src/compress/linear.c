// linear.c -- Cholesky's factorisation, and what follows from it (linear.h).
#include "compress/linear.h"

#include <math.h>

bool cholesky_factor(double *m, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double *row = m + i * n;
    for (int64_t j = 0; j <= i; j++) {
      const double *other = m + j * n;
      double sum = row[j];
      for (int64_t k = 0; k < j; k++) sum -= row[k] * other[k];
      if (j < i)
        row[j] = sum / other[j];
      else if (!(sum > 0) || !isfinite(sum))
        return false;
      else
        row[i] = sqrt(sum);
    }
  }
  return true;
}

// Takes the rows [from, to) of the factor off row i, from column i on.
static void take_off(double *m, int64_t n, int64_t from, int64_t to, int64_t i) {
  double *row = m + i * n;
  for (int64_t k = from; k < to; k++) {
    const double *u = m + k * n;
    double by = u[i];
    for (int64_t j = i; j < n; j++) row[j] -= by * u[j];
  }
}

bool cholesky_upper(double *m, int64_t n) {
  enum { PANEL = 32 };
  for (int64_t first = 0; first < n; first += PANEL) {
    int64_t end = MIN(first + PANEL, n);
    for (int64_t k = first; k < end; k++) {
      double *row = m + k * n;
      take_off(m, n, first, k, k);
      if (!(row[k] > 0) || !isfinite(row[k])) return false;
      double by = 1 / sqrt(row[k]);
      for (int64_t j = k; j < n; j++) row[j] *= by;
    }
    for (int64_t i = end; i < n; i++) take_off(m, n, first, end, i);
  }
  return true;
}

void cholesky_solve(const double *l, int64_t n, double *b) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < i; k++) b[i] -= l[i * n + k] * b[k];
    b[i] /= l[i * n + i];
  }
  for (int64_t i = n; i-- > 0;) {
    for (int64_t k = i + 1; k < n; k++) b[i] -= l[k * n + i] * b[k];
    b[i] /= l[i * n + i];
  }
}

// In the space of the rows, of which there are few: x = mean + S A^T (A S A^T + noise^2)^-1 (y - A
// mean).
void linear_estimate(const double *a, const double *y, int64_t rows, int64_t n, const double *mean,
                     const double *deviation, double noise, Arena *arena, double *x) {
  double *m = arena_array(arena, double, MAX(rows * rows, 1));
  double *rest = arena_array(arena, double, MAX(rows, 1));
  for (int64_t r = 0; r < rows; r++) {
    rest[r] = y[r];
    for (int64_t i = 0; i < n; i++) rest[r] -= a[r * n + i] * mean[i];
    for (int64_t s = 0; s <= r; s++) {
      double sum = r == s ? noise * noise : 0;
      for (int64_t i = 0; i < n; i++)
        sum += a[r * n + i] * a[s * n + i] * deviation[i] * deviation[i];
      m[r * rows + s] = sum;
    }
  }
  memcpy(x, mean, (size_t)n * sizeof *x);
  if (!cholesky_factor(m, rows)) return;
  cholesky_solve(m, rows, rest);
  for (int64_t i = 0; i < n; i++)
    for (int64_t r = 0; r < rows; r++) x[i] += deviation[i] * deviation[i] * a[r * n + i] * rest[r];
}
