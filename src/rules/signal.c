// signal.c -- Fourier transforms of constant length as matrix products and convolutions.
//
// A transform of n points is a product with a constant table of cosines and sines.  One of n1 * n2
// points is two products: n1 points at a distance of n2 (Cooley and Tukey's first step), then n2
// points for each of the n1 results, with the factors between them in the second table.  Frames of
// a signal are a convolution: the table holds the window, the stride is the step of the frames.  So
// transforms get the kernels of contractions.  Where the tables would be too large, the host has a
// fast transform.
#include "eval/signal.h"
#include "eval/contract.h"
#include "eval/scalar.h"

#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

#include <math.h>

// Elements of a table: above this a fast transform has the advantage over a product.
enum { TABLE_MAX = 1 << 21 };
enum { DFT_OPERANDS = 3 };
// Two steps are for so many points at least, and where they take this part of one product's sums.
enum { STEPS_LEAST = 128, STEPS_GAIN = 2, STEPS_LANES = 8 };
static const double TAU = 6.28318530717958647693;

static bool constant_of(Graph *g, const Node *n, int64_t *out) {
  Ints v;
  if (!node_ints(g, n, &v) || v.n != 1) return false;
  *out = v.v[0];
  return true;
}

static bool taken(DType t) { return t == DT_F32 || t == DT_F64; }

// A table [rows][columns] of doubles as a constant of the type.
static Node *table_node(Graph *g, DType t, int rank, const int64_t *dims, const double *table,
                        int64_t n) {
  int64_t bytes = 0;
  if (!dtype_bytes(t, n, &bytes)) return NULL;
  void *data = arena_alloc(&g->scratch, bytes);
  store_f64(t, data, 0, n, table);
  return node_const(g, t, rank, dims, data, NULL);
}

// exp(sign 2 pi i k / n), its argument reduced first.
static void root_of_unity(int64_t n, int64_t k, double sign, double out[2]) {
  double angle = TAU * (double)(k % n) / (double)n;
  out[0] = cos(angle);
  out[1] = sign * sin(angle);
}

typedef struct Dft {
  int64_t n, used, parts, bins, out_parts;  // length; elements of x that count; 1 real, 2 complex
  bool inverse, half;                       // half: x is half of a spectrum
} Dft;

// [(i, part)][(k, part)]: what element i of x adds to bin k.
static Node *dft_table(Graph *g, DType t, const Dft *dft) {
  int64_t columns = dft->bins * dft->out_parts, rows = dft->used * dft->parts;
  double *table = arena_array(&g->scratch, double, rows *columns);
  double sign = dft->inverse ? 1 : -1, scale = dft->inverse ? 1 / (double)dft->n : 1;
  for (int64_t i = 0; i < dft->used; i++) {
    // Half a spectrum: the other half is its conjugate, and real where it is its own.
    bool own = i == 0 || 2 * i == dft->n;
    double twice = dft->half && !own ? 2 * scale : scale;
    for (int64_t k = 0; k < dft->bins; k++) {
      double w[2];
      root_of_unity(dft->n, i * k, sign, w);
      double *re = table + i * dft->parts * columns + k * dft->out_parts, *im = re + columns;
      re[0] = w[0] * twice;
      if (dft->out_parts == 2) re[1] = w[1] * twice;
      if (dft->parts == 1) continue;
      im[0] = dft->half && own ? 0 : -w[1] * twice;
      if (dft->out_parts == 2) im[1] = w[0] * twice;
    }
  }
  return table_node(g, t, 2, (int64_t[]){rows, columns}, table, rows * columns);
}

// The sizes of a transform along `axis`; false where they are no constants.
static bool dft_sizes(Graph *g, const Node *n, int axis, Dft *dft) {
  const dft_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  Dim length = x->dims[axis], parts = x->dims[x->rank - 1];
  if (!ie_is_const(length) || !ie_is_const(parts)) return false;
  *dft = (Dft){.inverse = at->inverse, .half = at->inverse && at->onesided, .parts = parts->value};
  dft->n = dft->half ? 2 * (length->value - 1) : length->value;
  if (src_or_null(g, n, 1) && !constant_of(g, n->src[1], &dft->n)) return false;
  if (dft->n < 1) return false;
  dft->used = MIN(length->value, dft->half ? dft->n / 2 + 1 : dft->n);
  dft->bins = at->onesided && !at->inverse ? dft->n / 2 + 1 : dft->n;
  dft->out_parts = dft->half ? 1 : 2;
  return dft->used > 0;
}

// Elements of the table of one product; above TABLE_MAX where there is none.
static int64_t dft_table_size(const Dft *dft) {
  int64_t rows, columns, all;
  bool fits = ck_mul(dft->used, dft->parts, &rows) && ck_mul(dft->bins, dft->out_parts, &columns) &&
              ck_mul(rows, columns, &all);
  return fits ? all : INT64_MAX;
}

// ---- in two steps ----

// Point i is (i1, i2) = (i / n2, i % n2), bin k is (k1, k2) = (k % n1, k / n1), of which the bins
// that are asked for have k2 below `high`.
typedef struct Steps {
  int64_t n1, n2, high;
} Steps;

static int64_t padded(int64_t n) { return (n + STEPS_LANES - 1) / STEPS_LANES * STEPS_LANES; }

// The cheapest two steps, in products of one transform; false: one is as cheap.
static bool find_steps(const Dft *dft, Steps *best) {
  int64_t direct = dft_table_size(dft), least = direct / STEPS_GAIN;
  if (dft->half || dft->used != dft->n || dft->n < STEPS_LEAST || dft->n > TABLE_MAX) return false;
  best->n1 = 0;
  for (int64_t n1 = 2; n1 <= dft->n / 2; n1++) {
    int64_t n2 = dft->n / n1, high = (dft->bins + n1 - 1) / n1, wide = n2 * dft->parts;
    if (dft->n % n1) continue;
    int64_t first = 2 * n1 * n1 * padded(wide), second = n1 * 2 * wide * padded(2 * high);
    if (second > TABLE_MAX || 2 * n1 * n1 > TABLE_MAX || first + second > least) continue;
    least = first + second;
    *best = (Steps){n1, n2, high};
  }
  return best->n1 > 0;
}

// [(k1, part)][i1]: the transforms of n1 points.
static Node *first_table(Graph *g, DType t, const Dft *dft, const Steps *s) {
  double *table = arena_array(&g->scratch, double, 2 * s->n1 * s->n1);
  for (int64_t k = 0; k < s->n1; k++)
    for (int64_t i = 0; i < s->n1; i++) {
      double w[2];
      root_of_unity(s->n1, i * k, dft->inverse ? 1 : -1, w);
      for (int part = 0; part < 2; part++) table[(2 * k + part) * s->n1 + i] = w[part];
    }
  return table_node(g, t, 2, (int64_t[]){2 * s->n1, s->n1}, table, 2 * s->n1 * s->n1);
}

// [k1][(part of the first table, i2, part of x)][(k2, part)]: the factors between the steps and the
// transforms of n2 points.  Both parts of a row are factors i.
static Node *second_table(Graph *g, DType t, const Dft *dft, const Steps *s) {
  int64_t rows = 2 * s->n2 * dft->parts, columns = 2 * s->high, n = s->n1 * rows * columns;
  double *table = arena_array(&g->scratch, double, n),
         scale = dft->inverse ? 1. / (double)dft->n : 1;
  for (int64_t k1 = 0; k1 < s->n1; k1++)
    for (int64_t row = 0; row < rows; row++) {
      int64_t turns = row / (s->n2 * dft->parts) + row % dft->parts, i2 = row / dft->parts % s->n2;
      for (int64_t k2 = 0; k2 < s->high; k2++) {
        double w[2], *to = table + (k1 * rows + row) * columns + 2 * k2;
        root_of_unity(dft->n, i2 * (k1 + s->n1 * k2), dft->inverse ? 1 : -1, w);
        to[0] = scale * (turns == 0 ? w[0] : turns == 1 ? -w[1] : -w[0]);
        to[1] = scale * (turns == 0 ? w[1] : turns == 1 ? w[0] : -w[1]);
      }
    }
  return table_node(g, t, 3, (int64_t[]){s->n1, rows, columns}, table, n);
}

// x: [..., n, parts], with constant axes before, or one axis.  NULL: there are others.
static Node *dft_in_steps(Graph *g, Node *x, const Dft *dft, const Steps *s) {
  const Type *t = type_of(x);
  int64_t batch = 1, shape[MAX_RANK] = {0};
  bool known = true;
  for (int i = 0; i < t->rank - 2; i++) {
    known &= ie_is_const(t->dims[i]) && ck_mul(batch, t->dims[i]->value, &batch);
    shape[i] = known ? t->dims[i]->value : 0;
  }
  if ((!known && t->rank != 3) || !batch) return NULL;  // 0 in a shape is a size that stays
  int64_t rows = known ? batch : 0, wide = s->n2 * dft->parts;
  Node *first = first_table(g, t->dtype, dft, s), *second = second_table(g, t->dtype, dft, s);
  if (!first || !second) return NULL;
  x = N(g, reshape, x, node_i64s(g, 3, (int64_t[]){rows, s->n1, wide}));
  Node *y = N(g, mat_mul, first, x);
  y = N(g, reshape, y, node_i64s(g, 3, (int64_t[]){rows, s->n1, 2 * wide}));
  y = N(g, mat_mul, transpose_to(g, y, 3, (int64_t[]){1, 0, 2}), second);
  y = N(g, reshape, y, node_i64s(g, 4, (int64_t[]){s->n1, known ? batch : 0, s->high, 2}));
  y = transpose_to(g, y, 4, (int64_t[]){1, 2, 0, 3});
  y = N(g, reshape, y, node_i64s(g, 3, (int64_t[]){rows, s->high * s->n1, 2}));
  if (dft->bins < s->high * s->n1) y = slice_axis(g, y, 1, 0, dft->bins, 1);
  shape[t->rank - 2] = dft->bins;
  shape[t->rank - 1] = 2;
  return t->rank == 3 ? y : N(g, reshape, y, node_i64s(g, t->rank, shape));
}

// x with the axis before the parts; the same permutation takes it back.
static Node *swap_axis(Graph *g, Node *x, int axis) {
  int rank = type_of(x)->rank;
  int64_t perm[MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[axis] = rank - 2;
  perm[rank - 2] = axis;
  return transpose_to(g, x, rank, perm);
}

// What is transformed, with its axis before the parts, and how; NULL: it is none of constant sizes.
static Node *dft_operand(Graph *g, const Node *n, Dft *dft, int *at) {
  const Type *t = type_of(n->src[0]);
  int64_t axis = -2;
  if (t->rank < 2 || !taken(t->dtype)) return NULL;
  if (src_or_null(g, n, 2) && !constant_of(g, n->src[2], &axis)) return NULL;
  *at = axis_of(axis, t->rank);
  if (*at < 0 || *at == t->rank - 1 || !dft_sizes(g, n, *at, dft)) return NULL;
  return swap_axis(g, n->src[0], *at);
}

static Node *dft_steps(Graph *g, const Match *m) {
  Dft dft;
  Steps steps;
  int at;
  Node *x = dft_operand(g, m->root, &dft, &at);
  Node *y = x && find_steps(&dft, &steps) ? dft_in_steps(g, x, &dft, &steps) : NULL;
  return y ? swap_axis(g, y, at) : NULL;
}

static Node *dft_product(Graph *g, const Match *m) {
  Dft dft;
  int at;
  Node *x = dft_operand(g, m->root, &dft, &at);
  if (!x || dft_table_size(&dft) > TABLE_MAX) return NULL;
  const Type *t = type_of(x);
  int64_t shape[MAX_RANK] = {0};
  int rank = t->rank;
  if (!ie_is(t->dims[rank - 2], dft.used)) x = slice_axis(g, x, rank - 2, 0, dft.used, 1);
  shape[rank - 2] = dft.used * dft.parts;
  x = N(g, reshape, x, node_i64s(g, rank - 1, shape));
  Node *table = dft_table(g, t->dtype, &dft);
  if (!table) return NULL;
  Node *y = N(g, mat_mul, x, table);
  shape[rank - 2] = dft.bins;
  shape[rank - 1] = dft.out_parts;
  return swap_axis(g, N(g, reshape, y, node_i64s(g, rank, shape)), at);
}

// Of narrow floats in f32.
static Node *dft_wide(Graph *g, const Match *m) {
  const Node *n = m->root;
  DType t = type_of(n)->dtype;
  if (t != DT_F16 && t != DT_BF16) return NULL;
  cast_attrs up = {.to = DT_F32, .saturate = true}, down = {.to = t, .saturate = true};
  Node *src[DFT_OPERANDS] = {NA(g, cast, &up, n->src[0])};
  if (n->nsrc > DFT_OPERANDS) return NULL;
  for (uint32_t i = 1; i < n->nsrc; i++) src[i] = n->src[i];
  return NA(g, cast, &down, node_with(g, n, src));
}

// ---- frames ----

// [(k, part)][part of x][i]: weights of a convolution over a signal of one or two channels.
static Node *stft_table(Graph *g, DType t, int64_t n, int64_t bins, int64_t parts) {
  double *table = arena_array(&g->scratch, double, bins * 2 * parts * n);
  for (int64_t k = 0; k < bins; k++)
    for (int64_t i = 0; i < n; i++) {
      double w[2], *re = table + 2 * k * parts * n + i, *im = re + parts * n;
      root_of_unity(n, i * k, -1, w);
      re[0] = w[0];
      im[0] = w[1];
      if (parts == 1) continue;
      re[n] = -w[1];
      im[n] = w[0];
    }
  return table_node(g, t, 3, (int64_t[]){2 * bins, parts, n}, table, bins * 2 * parts * n);
}

static Node *stft_convolution(Graph *g, const Match *m) {
  const Node *n = m->root;
  const stft_attrs *at = n->attrs;
  const Type *t = type_of(n->src[0]);
  Node *window = src_or_null(g, n, 2), *length = src_or_null(g, n, 3);
  int64_t step, frame, parts = 1, all;
  if ((t->rank != 2 && t->rank != 3) || !taken(t->dtype) || !constant_of(g, n->src[1], &step))
    return NULL;
  if (t->rank == 3 && !ie_is_const(t->dims[2])) return NULL;
  if (t->rank == 3) parts = t->dims[2]->value;
  if (length) {
    if (!constant_of(g, length, &frame)) return NULL;
  } else {
    Dim size = window ? type_of(window)->dims[0] : t->dims[1];
    if (!ie_is_const(size)) return NULL;
    frame = size->value;
  }
  if (step < 1 || frame < 1 || ie_lt(&g->dims, t->dims[1], ie_const(&g->dims, frame)) != NO)
    return NULL;
  int64_t bins = at->onesided ? frame / 2 + 1 : frame;
  if (!ck_mul(frame, 2 * parts, &all) || !ck_mul(all, bins, &all) || all > TABLE_MAX) return NULL;
  if (window && (type_of(window)->rank != 1 || !ie_is(type_of(window)->dims[0], frame)))
    return NULL;
  Node *table = stft_table(g, t->dtype, frame, bins, parts), *x = n->src[0];
  if (!table) return NULL;
  if (window) table = N(g, mul, table, window);
  x = t->rank == 2 ? N(g, reshape, x, node_i64s(g, 3, (int64_t[]){0, 1, -1}))
                   : transpose_to(g, x, 3, (int64_t[]){0, 2, 1});
  conv_attrs conv = {.group = 1, .strides = {1, &step}};
  Node *y = transpose_to(g, NA(g, conv, &conv, x, table), 3, (int64_t[]){0, 2, 1});
  return N(g, reshape, y, node_i64s(g, 4, (int64_t[]){0, 0, bins, 2}));
}

static const Rule signal[] = {
    // clang-format off
    RULE("dft.wide", ANY(dft), .make = dft_wide, .fast = FAST_REASSOC | FAST_APPROX,
         .example = "(%x: f16[n, 12, 2]) { %r = dft(%x) return %r }"),
    RULE("dft.steps", ANY(dft), .make = dft_steps, .fast = FAST_REASSOC | FAST_APPROX,
         .example = "(%x: f32[n, 192, 1]) { %r = dft(%x) onesided=true return %r }"),
    RULE("dft.product", ANY(dft), .make = dft_product, .fast = FAST_REASSOC | FAST_APPROX,
         .example = "(%x: f32[n, 12, 2]) { %r = dft(%x) return %r }"),
    RULE("stft.convolution", ANY(stft), .make = stft_convolution, .fast = FAST_REASSOC | FAST_APPROX,
         .example = "(%x: f32[2, 40, 1], %w: f32[16]) { %s = const i64[] {5} %r = stft(%x, %s, %w) return %r }"),
    // clang-format on
};
const RuleSet rules_signal = RULES("signal", signal, "each removes a transform");
