// sparsify.c -- dropping weights in a pattern, with H (sparsify.h).
//
// H, damped by 1 % of its mean diagonal, is U^T U in the order of falling columns: the last
// position is column 0.  The error of a row is |U d|^2, d being weights less new weights.  From the
// last position to the first, element p of U d is U_pp (t_p - q_p) with t_p = w_p + sum of U_ps d_s
// over s > p, divided by U_pp: what makes good for all positions behind p.  A weight that is
// dropped costs (U_pp t_p)^2, one that is left costs nothing.
#include "compress/sparsify.h"

#include "compress/linear.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 32, RUN_MOST = 256, SWEEPS = 8 };  // lanes: where each row is for itself

typedef struct Sparsify {
  const float *w;
  int64_t rows, depth, lanes;
  int64_t row, n;  // rows at hand: n from `row` on, at most `lanes`
  const SparsePattern *p;
  double *h, *u;        // [depth][depth] damped; its factor
  double *d, *g;        // [depth][lanes] by column: weights less new ones; H d
  bool *left;           // [depth][lanes]
  double *part, *cost;  // [run][lanes]
  double *m, *x;        // [depth][depth] and [depth][lanes] of the inputs that are left
  int64_t *column;      // [depth] these
} Sparsify;

static double weight_at(const Sparsify *s, int64_t lane, int64_t c) {
  return (double)s->w[(s->row + lane) * s->depth + c];
}

static double coupling(const Sparsify *s, int64_t a, int64_t b) {
  return s->h[MAX(a, b) * s->depth + MIN(a, b)];
}

// Of the factor at two columns, a behind b in order or the same.
static double factor(const Sparsify *s, int64_t b, int64_t a) {
  return s->u[(s->depth - 1 - b) * s->depth + s->depth - 1 - a];
}

static void damp(Sparsify *s, const double *h, Arena *a) {
  int64_t n = s->depth;
  double mean = 0;
  s->h = arena_array(a, double, n *n);
  s->u = arena_array(a, double, n *n);
  memcpy(s->h, h, (size_t)(n * n) * sizeof *h);
  for (int64_t c = 0; c < n; c++) mean += h[c * n + c] / (double)n;
  for (int64_t c = 0; c < n; c++) s->h[c * n + c] += mean > 0 ? 0.01 * mean : 1;
  for (int64_t p = 0; p < n; p++)
    for (int64_t k = p; k < n; k++) s->u[p * n + k] = coupling(s, n - 1 - p, n - 1 - k);
  if (cholesky_upper(s->u, n)) return;
  // No factor in floating point: inputs count by themselves.
  memset(s->u, 0, (size_t)(n * n) * sizeof *s->u);
  for (int64_t p = 0; p < n; p++) s->u[p * n + p] = sqrt(coupling(s, n - 1 - p, n - 1 - p));
}

// ---- which weights go ----

typedef struct Ranked {
  double cost;
  int64_t at;
} Ranked;

static int cheapest(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

// Of `n` inputs from `first` on, for the lanes [from, to) together.
static void drop_cheapest(Sparsify *s, int64_t first, int64_t n, int64_t from, int64_t to) {
  Ranked rank[RUN_MOST];
  int64_t go = (first + n) * s->p->zeros / 100 - first * s->p->zeros / 100;
  for (int64_t i = 0; i < n; i++) {
    rank[i] = (Ranked){0, i};
    for (int64_t l = from; l < to; l++) rank[i].cost += s->cost[i * s->lanes + l];
  }
  qsort(rank, (size_t)n, sizeof *rank, cheapest);
  for (int64_t i = 0; i < n; i++)
    for (int64_t l = from; l < to; l++) s->left[(first + rank[i].at) * s->lanes + l] = i >= go;
}

// What the columns before `end` leave to column c.
static void add_before(const Sparsify *s, int64_t c, int64_t begin, int64_t end, double *sum) {
  for (int64_t k = begin; k < end; k++) {
    double by = factor(s, c, k);
    for (int64_t l = 0; l < s->lanes; l++) sum[l] += by * s->d[k * s->lanes + l];
  }
}

static void take_run(Sparsify *s, int64_t first, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double *part = s->part + i * s->lanes, own = factor(s, first + i, first + i);
    memset(part, 0, (size_t)s->lanes * sizeof *part);
    add_before(s, first + i, 0, first, part);
    for (int64_t l = 0; l < s->n; l++) {
      double t = own * weight_at(s, l, first + i) + part[l];
      s->cost[i * s->lanes + l] = t * t;
    }
  }
  int64_t each = s->p->width > 1 ? s->n : 1;
  for (int64_t l = 0; l < s->n; l += each) drop_cheapest(s, first, n, l, l + each);
  for (int64_t i = 0; i < n; i++) {
    double *part = s->part + i * s->lanes, own = factor(s, first + i, first + i);
    add_before(s, first + i, first, first + i, part);
    for (int64_t l = 0; l < s->n; l++) {
      int64_t at = (first + i) * s->lanes + l;
      s->d[at] = s->left[at] ? -part[l] / own : weight_at(s, l, first + i);
    }
  }
}

// ---- afterwards ----

// y = H x, of all lanes.
static void times_h(const Sparsify *s, const double *x, double *y) {
  int64_t n = s->depth;
  memset(y, 0, (size_t)(n * s->lanes) * sizeof *y);
  for (int64_t a = 0; a < n; a++)
    for (int64_t b = 0; b <= a; b++) {
      double by = s->h[a * n + b];
      for (int64_t l = 0; l < s->lanes; l++) y[a * s->lanes + l] += by * x[b * s->lanes + l];
      for (int64_t l = 0; b < a && l < s->lanes; l++)
        y[b * s->lanes + l] += by * x[a * s->lanes + l];
    }
}

static double dot(const Sparsify *s, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < s->depth * s->lanes; i++) sum += x[i] * y[i];
  return sum;
}

// Solves U^T U x = b in place, for all lanes.
static void solve(const double *u, int64_t n, int64_t lanes, double *b) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t l = 0; l < lanes; l++) b[i * lanes + l] /= u[i * n + i];
    for (int64_t k = i + 1; k < n; k++)
      for (int64_t l = 0; l < lanes; l++) b[k * lanes + l] -= u[i * n + k] * b[i * lanes + l];
  }
  for (int64_t i = n; i-- > 0;) {
    for (int64_t k = i + 1; k < n; k++)
      for (int64_t l = 0; l < lanes; l++) b[i * lanes + l] -= u[i * n + k] * b[k * lanes + l];
    for (int64_t l = 0; l < lanes; l++) b[i * lanes + l] /= u[i * n + i];
  }
}

// Rows that drop the same inputs: the weights of least squares for the others.  `hw` is H times the
// weights.  What the error is, or below 0: there is no factor.
static double fit(Sparsify *s, const double *hw, double whole) {
  int64_t n = 0, lanes = s->lanes;
  for (int64_t c = 0; c < s->depth; c++)
    if (s->left[c * lanes]) s->column[n++] = c;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = i; k < n; k++) s->m[i * n + k] = coupling(s, s->column[i], s->column[k]);
  if (!cholesky_upper(s->m, n)) return -1;
  for (int64_t i = 0; i < n; i++)
    memcpy(s->x + i * lanes, hw + s->column[i] * lanes, (size_t)lanes * sizeof *hw);
  solve(s->m, n, lanes, s->x);
  for (int64_t i = 0; i < n; i++)
    for (int64_t l = 0; l < s->n; l++) {
      int64_t c = s->column[i];
      whole -= s->x[i * lanes + l] * hw[c * lanes + l];
      s->d[c * lanes + l] = weight_at(s, l, c) - s->x[i * lanes + l];
    }
  return fmax(whole, 0);
}

// Each weight that is left goes to where the error is least, the others as they are.
static void descend(Sparsify *s) {
  int64_t n = s->depth;
  double *step = s->part;
  for (int sweep = 0; sweep < SWEEPS; sweep++)
    for (int64_t c = 0; c < n; c++) {
      double own = s->h[c * n + c];
      bool any = false;
      for (int64_t l = 0; l < s->lanes; l++) {
        step[l] = s->left[c * s->lanes + l] ? -s->g[c * s->lanes + l] / own : 0;
        s->d[c * s->lanes + l] += step[l];
        any |= step[l] != 0;
      }
      for (int64_t k = 0; any && k < n; k++) {
        double by = coupling(s, c, k);
        for (int64_t l = 0; l < s->lanes; l++) s->g[k * s->lanes + l] += by * step[l];
      }
    }
}

static void do_rows(Sparsify *s, float *out, double *error, double *whole) {
  int64_t n = s->depth, run = MIN(s->p->run, RUN_MOST);
  memset(s->d, 0, (size_t)(n * s->lanes) * sizeof *s->d);
  memset(s->left, 0, (size_t)(n * s->lanes) * sizeof *s->left);
  for (int64_t c = 0; c < n; c++)
    for (int64_t l = 0; l < s->n; l++) s->d[c * s->lanes + l] = weight_at(s, l, c);
  times_h(s, s->d, s->g);
  double all = dot(s, s->d, s->g), left = -1;
  *whole += all;
  memset(s->d, 0, (size_t)(n * s->lanes) * sizeof *s->d);
  for (int64_t c = 0; c < n; c += run) take_run(s, c, MIN(run, n - c));
  if (s->p->width > 1) left = fit(s, s->g, all);
  if (left < 0) {
    times_h(s, s->d, s->g);
    descend(s);
    left = fmax(dot(s, s->d, s->g), 0);
  }
  *error += left;
  for (int64_t c = 0; c < n; c++)
    for (int64_t l = 0; l < s->n; l++) {
      int64_t at = c * s->lanes + l;
      float *to = &out[(s->row + l) * n + c];
      *to = s->left[at] ? (float)(weight_at(s, l, c) - s->d[at]) : 0;
    }
}

double sparsify(const float *w, int64_t rows, int64_t depth, const SparsePattern *p,
                const double *h, Arena *scratch, float *out) {
  Sparsify s = {.w = w, .rows = rows, .depth = depth, .p = p};
  double error = 0, whole = 0;
  damp(&s, h, scratch);
  s.lanes = p->width > 1 ? p->width : LANES;
  s.d = arena_array(scratch, double, depth *s.lanes);
  s.g = arena_array(scratch, double, depth *s.lanes);
  s.left = arena_array(scratch, bool, depth *s.lanes);
  s.part = arena_array(scratch, double, RUN_MOST *s.lanes);
  s.cost = arena_array(scratch, double, RUN_MOST *s.lanes);
  s.m = arena_array(scratch, double, depth *depth);
  s.x = arena_array(scratch, double, depth *s.lanes);
  s.column = arena_array(scratch, int64_t, depth);
  for (; s.row < rows; s.row += s.n) {
    s.n = MIN(s.lanes, rows - s.row);
    do_rows(&s, out, &error, &whole);
  }
  return whole > 0 ? error / whole : 0;
}
