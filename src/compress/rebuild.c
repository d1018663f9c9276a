// rebuild.c -- rounding weights to 4-bit blocks, with or without H (rebuild.h).
//
// H, damped by 1 % of its mean diagonal, is U^T U.  The error of a row is |U d|^2, d being weights
// less rounded weights.  From the last position to the first, element p of U d is
// U_pp (t_p - q_p) with t_p = w_p + sum of U_ps d_s over s > p, divided by U_pp: the target that
// makes good for all positions behind p.
//
// Two orders are tried: the weights' own, in which a block's scale is fitted to its targets, and
// that of falling diagonals, in which scales are fitted to the weights before.  The one with the
// smaller error stays.
#include "compress/rebuild.h"

#include "compress/linear.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 16, LEVELS = 15, SHRINKS = 16, SWEEPS = 4 };

typedef struct Grid {
  float scale, zero;
} Grid;

// To the nearest integer, ties to even, of a number whose magnitude is below 2^51.
static double nearest(double v) {
  static const double BIG = 0x1.8p52;
  return v + BIG - BIG;
}
static double level_of(double v, Grid g) {
  double x = v / (double)g.scale;
  x = x > LEVELS ? LEVELS : x < -LEVELS ? -LEVELS : x;
  x = nearest(x) + (double)g.zero;
  return x > LEVELS ? LEVELS : x < 0 ? 0 : x;
}
static double value_of(double level, Grid g) {
  return (double)(g.scale * (float)(level - (double)g.zero));
}

// ---- the grid of a block ----

static double grid_error(const double *v, const double *h, int64_t n, Grid g) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double e = v[i] - value_of(level_of(v[i], g), g);
    sum += h[i] * e * e;
  }
  return sum;
}

// The scale of least squares for the levels that the grid gives.
static Grid refined(const double *v, const double *h, int64_t n, Grid g) {
  double up = 0, down = 0;
  for (int64_t i = 0; i < n; i++) {
    double q = level_of(v[i], g) - (double)g.zero;
    up += h[i] * v[i] * q;
    down += h[i] * q * q;
  }
  float s = down > 0 ? (float)(up / down) : 0;
  return isnormal(s) && s > 0 ? (Grid){s, g.zero} : g;
}

static void try_grid(const double *v, const double *h, int64_t n, double lo, double hi, Grid *best,
                     double *least) {
  float s = (float)((hi - lo) / LEVELS);
  if (!isnormal(s)) return;
  Grid g = {s, (float)fmin(fmax(nearbyint(-lo / (double)s), 0), LEVELS)};
  for (int again = 0; again < 2; again++) {
    double e = grid_error(v, h, n, g);
    if (e < *least) *least = e, *best = g;
    g = refined(v, h, n, g);
  }
}

// Both ends of the range move in, apart or together.
static Grid fit_grid(const double *v, const double *h, int64_t n) {
  double lo = 0, hi = 0, least = INFINITY;
  Grid best = {1, 8};
  for (int64_t i = 0; i < n; i++) lo = fmin(lo, v[i]), hi = fmax(hi, v[i]);
  if (!(hi - lo > 0)) return best;
  for (int k = 0; k < SHRINKS; k++) {
    double t = 1 - 0.03 * k;
    try_grid(v, h, n, t * lo, t * hi, &best, &least);
    try_grid(v, h, n, lo, t * hi, &best, &least);
    try_grid(v, h, n, t * lo, hi, &best, &least);
  }
  return best;
}

// ---- one order ----

typedef struct Order {
  int64_t n;
  int64_t *column;  // [n] of a position; the last position is rounded first
  double *u;        // [n][n] factor of H in this order
  bool fixed;       // grids are those of the weights
} Order;

typedef struct Rebuild {
  const float *w;
  int64_t rows, depth, block, blocks;
  const BlockOptions *o;
  double *weight;  // [depth] by column, of errors when grids are fitted
  double *h;       // [depth][depth] damped
  bool *dead;      // [depth] the input is always 0
} Rebuild;

// A choice for some rows: levels and grids, and the error.
typedef struct Rounded {
  uint8_t *level;  // [rows][depth]
  Grid *grid;      // [rows][blocks]
  double error;
} Rounded;

static double weight_at(const Rebuild *r, int64_t row, int64_t c) {
  return r->dead && r->dead[c] ? 0 : (double)r->w[row * r->depth + c];
}

// Rounds for themselves.
static void round_plain(const Rebuild *r, Rounded *out, double *v) {
  for (int64_t row = 0; row < r->rows; row++)
    for (int64_t b = 0; b < r->blocks; b++) {
      int64_t c = b * r->block, n = MIN(r->block, r->depth - c);
      for (int64_t i = 0; i < n; i++) v[i] = weight_at(r, row, c + i);
      Grid g = fit_grid(v, r->weight + c, n);
      out->grid[row * r->blocks + b] = g;
      for (int64_t i = 0; i < n; i++)
        out->level[row * r->depth + c + i] = (uint8_t)level_of(v[i], g);
    }
}

// sum[lane] += the products of u[s] and d[s][lane], s from `from` to `to`.
static void add_products(const double *u, const double *d, int64_t from, int64_t to, double *sum) {
  for (int64_t s = from; s < to; s++)
    for (int lane = 0; lane < LANES; lane++) sum[lane] += u[s] * d[s * LANES + lane];
}

// The rows of a call: residuals by position, and sums of a chunk.
typedef struct Lanes {
  double *d;      // [depth][LANES]
  double *part;   // [block][LANES]
  double *v, *h;  // [block]
  int64_t row, n;
  double error;
} Lanes;

static void fit_chunk(const Rebuild *r, const Order *o, Lanes *l, int64_t first, int64_t n,
                      Rounded *out) {
  for (int64_t lane = 0; lane < l->n; lane++) {
    for (int64_t i = 0; i < n; i++) {
      int64_t p = o->n - 1 - first - i;
      double diagonal = o->u[p * o->n + p];
      l->v[i] = weight_at(r, l->row + lane, o->column[p]) + l->part[i * LANES + lane] / diagonal;
      l->h[i] = diagonal * diagonal;
    }
    out->grid[(l->row + lane) * r->blocks + first / r->block] = fit_grid(l->v, l->h, n);
  }
}

static void round_position(const Rebuild *r, const Order *o, Lanes *l, int64_t p, const double *sum,
                           Rounded *out) {
  int64_t c = o->column[p];
  double diagonal = o->u[p * o->n + p];
  for (int64_t lane = 0; lane < l->n; lane++) {
    int64_t row = l->row + lane;
    Grid g = out->grid[row * r->blocks + c / r->block];
    double w = weight_at(r, row, c), target = w + sum[lane] / diagonal;
    double q = level_of(target, g), e = diagonal * (target - value_of(q, g));
    out->level[row * r->depth + c] = (uint8_t)q;
    l->d[p * LANES + lane] = w - value_of(q, g);
    l->error += e * e;
  }
}

static void round_lanes(const Rebuild *r, const Order *o, Lanes *l, Rounded *out) {
  for (int64_t first = 0; first < o->n; first += r->block) {
    int64_t n = MIN(r->block, o->n - first), behind = o->n - first;
    memset(l->part, 0, (size_t)(n * LANES) * sizeof *l->part);
    for (int64_t i = 0; i < n; i++)
      add_products(o->u + (behind - 1 - i) * o->n, l->d, behind, o->n, l->part + i * LANES);
    if (!o->fixed) fit_chunk(r, o, l, first, n, out);
    for (int64_t i = 0; i < n; i++) {
      int64_t p = behind - 1 - i;
      add_products(o->u + p * o->n, l->d, p + 1, behind, l->part + i * LANES);
      round_position(r, o, l, p, l->part + i * LANES, out);
    }
  }
}

static void round_order(const Rebuild *r, const Order *o, Arena *scratch, Rounded *out) {
  Lanes l = {.d = arena_array(scratch, double, r->depth *LANES),
             .part = arena_array(scratch, double, r->block *LANES),
             .v = arena_array(scratch, double, r->block),
             .h = arena_array(scratch, double, r->block)};
  out->error = 0;
  for (l.row = 0; l.row < r->rows; l.row += LANES) {
    l.n = MIN(LANES, r->rows - l.row);
    l.error = 0;
    memset(l.d, 0, (size_t)(r->depth * LANES) * sizeof *l.d);
    round_lanes(r, o, &l, out);
    out->error += l.error;
  }
}

// ---- orders ----

typedef struct Ranked {
  double diagonal;
  int64_t column;
} Ranked;
static int ascending(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  if (x->diagonal != y->diagonal) return x->diagonal < y->diagonal ? -1 : 1;
  return x->column < y->column ? 1 : -1;
}

// False: H has no factor in floating point.
static bool make_order(const Rebuild *r, bool by_diagonal, Order *o) {
  int64_t n = o->n;
  if (by_diagonal) {
    Ranked *rank = (Ranked *)o->u;  // its memory, before the factor is there
    for (int64_t c = 0; c < n; c++) rank[c] = (Ranked){r->h[c * n + c], c};
    qsort(rank, (size_t)n, sizeof *rank, ascending);
    for (int64_t p = 0; p < n; p++) o->column[p] = rank[p].column;
  } else {
    for (int64_t p = 0; p < n; p++) o->column[p] = n - 1 - p;
  }
  o->fixed = by_diagonal;
  for (int64_t p = 0; p < n; p++)
    for (int64_t s = p; s < n; s++) {
      int64_t a = o->column[p], b = o->column[s];
      o->u[p * n + s] = r->h[MAX(a, b) * n + MIN(a, b)];
    }
  return cholesky_upper(o->u, n);
}

// ---- afterwards ----

// gradient[c] += step times column c of H.
static void move_gradient(const Rebuild *r, double *gradient, int64_t c, double step) {
  const double *h = r->h;
  int64_t n = r->depth;
  for (int64_t k = 0; k <= c; k++) gradient[k] += step * h[c * n + k];
  for (int64_t k = c + 1; k < n; k++) gradient[k] += step * h[k * n + c];
}

// Moves single weights of a row to better levels while some are better; what that takes off the
// error.
static double descend(const Rebuild *r, int64_t row, Rounded *x, double *gradient) {
  double gain = 0;
  int64_t n = r->depth;
  memset(gradient, 0, (size_t)n * sizeof *gradient);
  for (int64_t c = 0; c < n; c++) {
    Grid g = x->grid[row * r->blocks + c / r->block];
    double d = weight_at(r, row, c) - value_of((double)x->level[row * n + c], g);
    if (d != 0) move_gradient(r, gradient, c, d);
  }
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    bool moved = false;
    for (int64_t c = 0; c < n; c++) {
      Grid g = x->grid[row * r->blocks + c / r->block];
      double now = (double)x->level[row * n + c], own = r->h[c * n + c];
      double to = level_of(value_of(now, g) + gradient[c] / own, g);
      double step = value_of(now, g) - value_of(to, g);  // of d
      double change = step * (2 * gradient[c] + step * own);
      if (to == now || !(change < 0)) continue;
      x->level[row * n + c] = (uint8_t)to;
      move_gradient(r, gradient, c, step);
      gain -= change;
      moved = true;
    }
    if (!moved) break;
  }
  return gain;
}

// tr(D H D^T) of what is rounded.
static double error_of(const Rebuild *r, const Rounded *x, double *d) {
  double sum = 0;
  int64_t n = r->depth;
  for (int64_t row = 0; row < r->rows; row++) {
    for (int64_t c = 0; c < n; c++) {
      Grid g = x->grid[row * r->blocks + c / r->block];
      d[c] = weight_at(r, row, c) - value_of((double)x->level[row * n + c], g);
    }
    for (int64_t c = 0; c < n; c++) {
      double part = 0;
      for (int64_t k = 0; k < c; k++) part += r->h[c * n + k] * d[k];
      sum += d[c] * (2 * part + r->h[c * n + c] * d[c]);
    }
  }
  return sum;
}

// ---- all of it ----

static void damp(Rebuild *r, const double *h, Arena *scratch) {
  int64_t n = r->depth;
  double mean = 0;
  r->h = arena_array(scratch, double, n *n);
  r->dead = arena_array(scratch, bool, n);
  memcpy(r->h, h, (size_t)(n * n) * sizeof *h);
  for (int64_t c = 0; c < n; c++) mean += h[c * n + c] / (double)n;
  for (int64_t c = 0; c < n; c++) {
    r->dead[c] = !(h[c * n + c] > 0);
    r->h[c * n + c] += mean > 0 ? 0.01 * mean : 1;
    r->weight[c] = r->h[c * n + c];
  }
}

static Rounded new_rounded(const Rebuild *r, Arena *a) {
  return (Rounded){arena_array(a, uint8_t, r->rows * r->depth),
                   arena_array(a, Grid, r->rows * r->blocks), 0};
}

static void round_with(Rebuild *r, Arena *scratch, Rounded *best, BlockWeights *out) {
  int64_t n = r->depth;
  double *row = arena_array(scratch, double, MAX(n, r->block));
  Rounded other = new_rounded(r, scratch);
  Order o = {.n = n,
             .column = arena_array(scratch, int64_t, n),
             .u = arena_array(scratch, double, n *MAX(n, 2))};
  best->error = out->plain = error_of(r, best, row);
  for (int by_diagonal = 0; by_diagonal < 2; by_diagonal++) {
    if (!make_order(r, by_diagonal, &o)) continue;
    if (by_diagonal) round_plain(r, &other, row);
    round_order(r, &o, scratch, &other);
    if (other.error >= best->error) continue;
    Rounded swap = *best;
    *best = other;
    other = swap;
  }
  for (int64_t i = 0; i < r->rows; i++) best->error -= descend(r, i, best, row);
  out->error = fmax(best->error, 0);
}

static void pack(const Rebuild *r, const Rounded *x, BlockWeights *out) {
  for (int64_t row = 0; row < r->rows; row++)
    for (int64_t b = 0; b < r->blocks; b++) {
      int64_t at = row * r->blocks + b;
      uint8_t *to = out->packed + at * (r->block / 2);
      out->scale[at] = x->grid[at].scale;
      out->zero[at] = x->grid[at].zero;
      for (int64_t i = 0; i < r->block; i++) {
        int64_t c = b * r->block + i;
        uint8_t level = c < r->depth ? x->level[row * r->depth + c] : (uint8_t)x->grid[at].zero;
        to[i / 2] |= (uint8_t)(level << (i % 2 * 4));
      }
    }
}

static double *shift_of(const Rebuild *r, const Rounded *x, const double *mean, Arena *a) {
  double *shift = arena_array(a, double, r->rows);
  for (int64_t row = 0; row < r->rows; row++)
    for (int64_t c = 0; c < r->depth; c++) {
      Grid g = x->grid[row * r->blocks + c / r->block];
      double q = value_of((double)x->level[row * r->depth + c], g);
      shift[row] += (q - (double)r->w[row * r->depth + c]) * mean[c];
    }
  return shift;
}

void rebuild_blocks(const float *w, int64_t rows, int64_t depth, const BlockOptions *o, Arena *a,
                    Arena *scratch, BlockWeights *out) {
  int64_t blocks = (depth + o->block - 1) / o->block;
  Rebuild r = {.w = w, .rows = rows, .depth = depth, .block = o->block, .blocks = blocks, .o = o};
  *out = (BlockWeights){.rows = rows, .depth = depth, .block = o->block, .blocks = blocks};
  out->packed = arena_array(a, uint8_t, rows * blocks * (o->block / 2));
  out->scale = arena_array(a, float, rows *blocks);
  out->zero = arena_array(a, float, rows *blocks);
  r.weight = arena_array(scratch, double, depth);
  for (int64_t c = 0; c < depth; c++) r.weight[c] = 1;
  Rounded x = new_rounded(&r, scratch);
  double *v = arena_array(scratch, double, o->block);
  if (o->h) damp(&r, o->h, scratch);
  round_plain(&r, &x, v);
  if (o->h) round_with(&r, scratch, &x, out);
  pack(&r, &x, out);
  if (o->mean) out->shift = shift_of(&r, &x, o->mean, a);
}
