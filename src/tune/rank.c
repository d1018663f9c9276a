// rank.c -- ridge regression by Cholesky (rank.h).
#include "tune/rank.h"

#include <math.h>

static const double ridge = 2.0, own_weight = 4.0;

void rank_init(RankSums *r, int nfeatures, Arena *a) {
  *r = (RankSums){.n = nfeatures,
                  .xx = arena_array(a, double, (int64_t)nfeatures *nfeatures + 1),
                  .xy = arena_array(a, double, nfeatures + 1)};
}

void rank_add(RankSums *r, const double *x, double y) {
  for (int i = 0; i < r->n; i++) {
    if (x[i] == 0) continue;
    r->xy[i] += x[i] * y;
    for (int k = 0; k < r->n; k++) r->xx[i * r->n + k] += x[i] * x[k];
  }
  r->count++;
}

// l * l^T = a in place, then a * w = b.  The ridge makes every pivot at least its own size.
static void solve(double *a, double *b, int n) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k <= i; k++) {
      double sum = a[i * n + k];
      for (int j = 0; j < k; j++) sum -= a[i * n + j] * a[k * n + j];
      a[i * n + k] = i == k ? sqrt(fmax(sum, ridge)) : sum / a[k * n + k];
    }
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) b[i] -= a[i * n + j] * b[j];
    b[i] /= a[i * n + i];
  }
  for (int i = n; i-- > 0;) {
    for (int j = i + 1; j < n; j++) b[i] -= a[j * n + i] * b[j];
    b[i] /= a[i * n + i];
  }
}

void rank_predict(const RankSums *all, const RankSums *own, const DraftList *d, Arena *a,
                  double *out) {
  int n = all->n;
  double *m = arena_array(a, double, (int64_t)n *n + 1), *w = arena_array(a, double, n + 1);
  for (int i = 0; i < n * n; i++) m[i] = all->xx[i] + own_weight * own->xx[i];
  for (int i = 0; i < n; i++) {
    m[i * n + i] += ridge;
    w[i] = all->xy[i] + own_weight * own->xy[i];
  }
  solve(m, w, n);
  for (int64_t i = 0; i < d->n; i++) {
    out[i] = 0;
    for (int k = 0; k < n; k++) out[i] += w[k] * d->v[i].x[k];
  }
}
