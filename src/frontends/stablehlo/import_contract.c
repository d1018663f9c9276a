// import_contract.c -- dot_general, convolution, Fourier transforms, triangular systems.
#include "frontends/stablehlo/import.h"

#include "eval/contract.h"
#include "eval/movement.h"
#include "eval/signal.h"

// ---- products of complex tensors, from those of their parts ----
HloValue hlo_product(HloCall *c, const HloValue *a, const HloValue *b, HloProduct *f, void *ctx) {
  Graph *g = c->g;
  if (!a->im && !b->im) return (HloValue){.re = f(c, a->re, b->re, ctx)};
  Cx x = cx_of(g, a), y = cx_of(g, b);
  return (HloValue){.re = N(g, sub, f(c, x.re, y.re, ctx), f(c, x.im, y.im, ctx)),
                    .im = N(g, add, f(c, x.re, y.im, ctx), f(c, x.im, y.re, ctx))};
}

// ---- dot_general ----
Node *hlo_dot_of(HloCall *c, Node *a, Node *b, void *ctx) {
  const HloDotAxes *d = ctx;
  Graph *g = c->g;
  if (g->status) return g->poison;
  if (d->t == DT_BOOL) {
    Node *y =
        hb_dot(g, hb_cast(g, a, DT_I32), hb_cast(g, b, DT_I32), d->ba, d->bb, d->ca, d->cb, 0);
    return N(g, not, N(g, eq, y, hb_num(g, y, 0)));
  }
  return hb_dot(g, hb_cast(g, a, d->t), hb_cast(g, b, d->t), d->ba, d->bb, d->ca, d->cb, 0);
}
static void dot_general(HloCall *c) {
  const MlirAttr *n = mlir_attr(c->op, "dot_dimension_numbers");
  HloDotAxes d = {hlo_field_ints(c, n, "lhs_batching_dimensions"),
                  hlo_field_ints(c, n, "rhs_batching_dimensions"),
                  hlo_field_ints(c, n, "lhs_contracting_dimensions"),
                  hlo_field_ints(c, n, "rhs_contracting_dimensions"), hlo_dtype(c, c->type[0])};
  if (c->nin != 2 || !c->in[0].re || !c->in[1].re || c->g->status) return;
  hlo_give_value(c, 0, hlo_product(c, &c->in[0], &c->in[1], hlo_dot_of, &d));
}
static void dot(HloCall *c) {
  int a = hlo_rank(&c->in[0]);
  int64_t left = a - 1, right = 0;
  HloDotAxes d = {.ca = {1, &left}, .cb = {1, &right}, .t = hlo_dtype(c, c->type[0])};
  hlo_give_value(c, 0, hlo_product(c, &c->in[0], &c->in[1], hlo_dot_of, &d));
}

// ---- convolution ----
typedef struct Conv {
  int n;                                                // spatial axes
  int64_t lhs[MAX_RANK], rhs[MAX_RANK], out[MAX_RANK];  // permutations
  Ints stride, padding, base, dilation, reversed;
  int64_t groups, batch_groups;
  DType t;
  bool whole;    // integers, computed in f64
  Node *widths;  // of padding, i64[lows, highs], where they are computed when the program runs;
                 // else NULL
} Conv;

static bool order(HloCall *c, const MlirAttr *d, const char *first, const char *second,
                  const char *rest, int n, int64_t *perm) {
  Ints spatial = hlo_field_ints(c, d, rest);
  perm[0] = mlir_int(mlir_field(d, first), -1);
  perm[1] = mlir_int(mlir_field(d, second), -1);
  bool ok = spatial.n == n && perm[0] != perm[1], seen[MAX_RANK] = {false};
  for (int i = 0; ok && i < n; i++) perm[2 + i] = spatial.v[i];
  for (int i = 0; ok && i < n + 2; i++) {
    ok = perm[i] >= 0 && perm[i] < n + 2 && !seen[perm[i]];
    if (ok) seen[perm[i]] = true;
  }
  if (!ok) hlo_fail(c, "its dimension numbers do not fit its operands");
  return ok;
}

static bool read_conv(HloCall *c, Conv *v) {
  const MlirAttr *d = mlir_attr(c->op, "dimension_numbers");
  v->n = hlo_rank(&c->in[0]) - 2;
  if (v->n < 0 || v->n > MAX_RANK - 3 || hlo_rank(&c->in[1]) != v->n + 2) {
    hlo_fail(c, "operands of rank %d and %d", hlo_rank(&c->in[0]), hlo_rank(&c->in[1]));
    return false;
  }
  v->stride = hlo_ints_or(c, "window_strides", v->n, 1);
  v->padding = hlo_ints_or(c, "padding", 2 * v->n, 0);
  v->base = hlo_ints_or(c, "lhs_dilation", v->n, 1);
  v->dilation = hlo_ints_or(c, "rhs_dilation", v->n, 1);
  v->reversed = hlo_ints_or(c, "window_reversal", v->n, 0);
  v->groups = mlir_int(mlir_attr(c->op, "feature_group_count"), 1);
  v->batch_groups = mlir_int(mlir_attr(c->op, "batch_group_count"), 1);
  v->t = hlo_dtype(c, c->type[0]);
  v->whole = !dtype_is_float(v->t);
  if (c->row->op && !node_ints(c->g, hlo_in(c, 2), &v->padding) && !c->g->status) {
    int64_t n = 2 * v->n, perm[2] = {1, 0};
    v->widths = hb_transpose(c->g, hb_cast(c->g, hlo_in(c, 2), DT_I64), 2, perm);
    v->widths = hb_reshape(c->g, v->widths, 1, &n);
  }
  if (v->padding.n != 2 * v->n) hlo_fail(c, "%lld widths of padding", (long long)v->padding.n);
  int64_t out[MAX_RANK];
  if (c->g->status ||
      !order(c, d, "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
             v->n, v->lhs) ||
      !order(c, d, "kernel_output_feature_dimension", "kernel_input_feature_dimension",
             "kernel_spatial_dimensions", v->n, v->rhs) ||
      !order(c, d, "output_batch_dimension", "output_feature_dimension",
             "output_spatial_dimensions", v->n, out))
    return false;
  for (int i = 0; i < v->n + 2; i++) v->out[out[i]] = i;
  return true;
}

// Parts of the batch as groups of channels: [b N', C] -> [N', b C].
static Node *batch_to_channels(Graph *g, Node *x, const Conv *v) {
  int64_t dims[MAX_RANK + 1], perm[MAX_RANK + 1];
  const Type *t = type_of(x);
  int rank = v->n + 3;
  for (int i = 0; i < t->rank; i++)
    if (!ie_is_const(t->dims[i]))
      return graph_fail(g, TENON_EUNSUPPORTED, NOWHERE, "batch groups of an unknown size");
  if (v->batch_groups < 1 || t->dims[0]->value % v->batch_groups)
    return graph_fail(g, TENON_EINVAL, NOWHERE, "the batch does not divide into %lld groups",
                      (long long)v->batch_groups);
  dims[0] = v->batch_groups;
  dims[1] = t->dims[0]->value / v->batch_groups;
  for (int i = 0; i < rank; i++) perm[i] = i;
  for (int i = 1; i < v->n + 2; i++) dims[i + 1] = t->dims[i]->value;
  perm[0] = 1;
  perm[1] = 0;
  x = hb_transpose(g, hb_reshape(g, x, rank, dims), rank, perm);
  int64_t to[MAX_RANK];
  to[0] = dims[1];
  to[1] = dims[0] * dims[2];
  for (int i = 2; i < v->n + 2; i++) to[i] = dims[i + 1];
  return hb_reshape(g, x, v->n + 2, to);
}

// Dilated first: padding lies around what is spread out.
static Node *pad_by_widths(Graph *g, Node *x, const Conv *v) {
  int64_t axes[MAX_RANK], zero[MAX_RANK] = {0}, gap[MAX_RANK] = {0};
  for (int i = 0; i < v->n; i++) {
    axes[i] = 2 + i;
    gap[2 + i] = v->base.v[i] - 1;
  }
  x = hb_pad(g, x, hb_num(g, x, 0), v->n + 2, zero, zero, gap);
  return N(g, pad, x, v->widths, hb_num(g, x, 0), node_i64s(g, v->n, axes));
}

static Node *conv_of(HloCall *c, Node *x, Node *w, void *ctx) {
  Conv *v = ctx;
  Graph *g = c->g;
  if (g->status) return g->poison;
  DType t = v->whole ? DT_F64 : v->t;
  x = hb_transpose(g, hb_cast(g, x, t), v->n + 2, v->lhs);
  w = hb_transpose(g, hb_cast(g, w, t), v->n + 2, v->rhs);
  int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0}, gap[MAX_RANK] = {0}, pads[2 * MAX_RANK] = {0};
  bool by_hand = false;
  for (int i = 0; i < v->n; i++) {
    low[2 + i] = v->padding.v[2 * i];
    high[2 + i] = v->padding.v[2 * i + 1];
    gap[2 + i] = v->widths ? 0 : v->base.v[i] - 1;
    by_hand = by_hand || low[2 + i] < 0 || high[2 + i] < 0 || gap[2 + i];
    pads[i] = low[2 + i];
    pads[v->n + i] = high[2 + i];
    if (v->reversed.v[i]) w = hb_reverse(g, w, (Ints){1, (int64_t[]){2 + i}});
  }
  if (v->widths) x = pad_by_widths(g, x, v);
  if (by_hand) {
    x = hb_pad(g, x, hb_num(g, x, 0), v->n + 2, low, high, gap);
    memset(pads, 0, sizeof pads);
  }
  if (g->status) return g->poison;
  if (v->batch_groups > 1) x = batch_to_channels(g, x, v);
  conv_attrs at = {.group = v->groups * v->batch_groups,
                   .dilations = v->dilation,
                   .strides = v->stride,
                   .pads = {2 * v->n, pads}};
  int64_t last = 2, one = 1, zeros[2] = {0, 0};
  Node *y;
  if (!v->n) {  // the graph's has one spatial axis at least
    at.dilations = at.strides = (Ints){1, &one};
    at.pads = (Ints){2, zeros};
    y = NA(g, conv, &at, N(g, unsqueeze, x, node_i64s(g, 1, &last)),
           N(g, unsqueeze, w, node_i64s(g, 1, &last)));
    y = N(g, squeeze, y, node_i64s(g, 1, &last));
  } else {
    y = NA(g, conv, &at, x, w);
  }
  return hb_cast(g, hb_transpose(g, y, v->n + 2, v->out), v->t);
}

static void convolution(HloCall *c) {
  Conv v = {0};
  if (c->nin < 2 || !c->in[0].re || !c->in[1].re || !read_conv(c, &v)) return;
  hlo_give_value(c, 0, hlo_product(c, &c->in[0], &c->in[1], conv_of, &v));
}

// ---- Fourier transforms ----
static Node *dft_of(Graph *g, Node *x, int64_t length, int64_t axis, bool inverse, bool onesided) {
  dft_attrs at = {.inverse = inverse, .onesided = onesided};
  return NA(g, dft, &at, x, node_i64(g, length), node_i64(g, axis));
}
static Node *last_part(Graph *g, Node *x, int rank, int64_t i) {
  int64_t axis = rank;
  return N(g, squeeze, hb_slice1(g, x, axis, i, i + 1, 1), node_i64s(g, 1, &axis));
}
static void fft(HloCall *c) {
  Graph *g = c->g;
  const char *kind = mlir_word(mlir_attr(c->op, "fft_type"), "");
  Ints length = hlo_ints(c, "fft_length");
  int rank = hlo_rank(&c->in[0]);
  bool inverse = !strcmp(kind, "IFFT") || !strcmp(kind, "IRFFT"), real = kind[0] == 'R',
       back = !strcmp(kind, "IRFFT");
  if (!c->in[0].re || !length.n || length.n > rank || g->status) {
    hlo_fail(c, "%lld lengths for rank %d", (long long)length.n, rank);
    return;
  }
  int64_t last = rank, first = rank - length.n;
  Node *x = N(g, unsqueeze, c->in[0].re, node_i64s(g, 1, &last));
  if (!real) {
    Cx z = cx_of(g, &c->in[0]);
    x = hb_concat(g, rank, 2, (Node *[]){x, N(g, unsqueeze, z.im, node_i64s(g, 1, &last))});
  }
  if (real) x = dft_of(g, x, length.v[length.n - 1], rank - 1, false, true);
  for (int64_t i = 0; i < length.n - (real || back); i++)
    x = dft_of(g, x, length.v[i], first + i, inverse, false);
  if (back) x = dft_of(g, x, length.v[length.n - 1], rank - 1, true, true);
  HloValue out = {.re = last_part(g, x, rank, 0)};
  if (!back) out.im = last_part(g, x, rank, 1);
  hlo_give_value(c, 0, out);
}

// ---- triangular systems ----
enum { MAX_ROWS = 256 };  // solved row by row, each its own nodes

static Node *swap_last(Graph *g, Node *x, int rank) {
  int64_t perm[MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  return hb_transpose(g, x, rank, perm);
}
static Cx each(Graph *g, Cx z, int rank, bool swap, Ints reversed) {
  Node **part[] = {&z.re, &z.im};
  for (int k = 0; k < 2 && *part[k]; k++) {
    if (swap) *part[k] = swap_last(g, *part[k], rank);
    *part[k] = hb_reverse(g, *part[k], reversed);
  }
  return z;
}
static Cx cut(Graph *g, Cx z, int64_t axis, int64_t from, int64_t to) {
  return (Cx){hb_slice1(g, z.re, axis, from, to, 1),
              z.im ? hb_slice1(g, z.im, axis, from, to, 1) : NULL};
}
static Cx times(HloCall *c, Cx a, Cx b, int rank) {
  int64_t batch[MAX_RANK], ca = rank - 1, cb = rank - 2;
  for (int i = 0; i < rank - 2; i++) batch[i] = i;
  HloDotAxes d = {{rank - 2, batch}, {rank - 2, batch}, {1, &ca}, {1, &cb}, type_of(a.re)->dtype};
  HloValue v = hlo_product(c, &(HloValue){.re = a.re, .im = a.im},
                           &(HloValue){.re = b.re, .im = b.im}, hlo_dot_of, &d);
  return (Cx){v.re, v.im};
}
static Cx minus(Graph *g, Cx a, Cx b) {
  return (Cx){N(g, sub, a.re, b.re), a.im ? N(g, sub, a.im, b.im) : NULL};
}
static Cx over(Graph *g, Cx a, Cx b) {
  return a.im ? cx_div(g, a, b) : (Cx){N(g, div, a.re, b.re), NULL};
}
static Cx stacked(Graph *g, Cx a, Cx b, int64_t axis) {
  if (!a.re) return b;
  return (Cx){hb_concat(g, axis, 2, (Node *[]){a.re, b.re}),
              a.im ? hb_concat(g, axis, 2, (Node *[]){a.im, b.im}) : NULL};
}

// Lower, from the left: row by row.
static Cx forward(HloCall *c, Cx a, Cx b, int rank, int64_t n, bool unit) {
  Graph *g = c->g;
  Cx x = {0};
  for (int64_t i = 0; i < n && !g->status; i++) {
    Cx row = cut(g, a, rank - 2, i, i + 1), y = cut(g, b, rank - 2, i, i + 1);
    if (i) y = minus(g, y, times(c, cut(g, row, rank - 1, 0, i), x, rank));
    if (!unit) y = over(g, y, cut(g, row, rank - 1, i, i + 1));
    x = stacked(g, x, y, rank - 2);
  }
  return x;
}

static void triangular_solve(HloCall *c) {
  Graph *g = c->g;
  int rank = hlo_rank(&c->in[0]);
  int64_t dims[MAX_RANK];
  bool left = mlir_bool(mlir_attr(c->op, "left_side"), true),
       lower = mlir_bool(mlir_attr(c->op, "lower"), true);
  bool unit = mlir_bool(mlir_attr(c->op, "unit_diagonal"), false);
  const char *turn = mlir_word(mlir_attr(c->op, "transpose_a"), "NO_TRANSPOSE");
  if (!hlo_static(c, &c->in[0], dims)) return;
  if (rank < 2 || rank != hlo_rank(&c->in[1]) || dims[rank - 1] > MAX_ROWS || !dims[rank - 1]) {
    hlo_refuse(c, "of rank %d, or of more than %d rows", rank, MAX_ROWS);
    return;
  }
  Cx a = {c->in[0].re, c->in[0].im}, b = {c->in[1].re, c->in[1].im};
  if (a.im && !strcmp(turn, "ADJOINT")) a.im = N(g, neg, a.im);
  bool swap = strncmp(turn, "NO", 2) != 0;
  if (!left) swap = !swap;
  if (swap) lower = !lower;
  int64_t both[] = {rank - 2, rank - 1};
  Ints none = {0}, ab = {lower ? 0 : 2, both}, rows = {lower ? 0 : 1, both};
  a = each(g, a, rank, swap, ab);
  b = each(g, each(g, b, rank, !left, none), rank, false, rows);
  Cx x = forward(c, a, b, rank, dims[rank - 1], unit);
  x = each(g, each(g, x, rank, false, rows), rank, !left, none);
  hlo_give_value(c, 0, (HloValue){.re = x.re, .im = x.im});
}

// Column by column: what is left of it, over the root of its first element.
static void cholesky(HloCall *c) {
  Graph *g = c->g;
  int rank = hlo_rank(&c->in[0]);
  int64_t dims[MAX_RANK];
  bool lower = mlir_bool(mlir_attr(c->op, "lower"), false);
  if (!hlo_static(c, &c->in[0], dims)) return;
  if (rank < 2 || dims[rank - 1] > MAX_ROWS || !dims[rank - 1] || c->in[0].im) {
    hlo_refuse(c, "of complex numbers, or of more than %d rows", MAX_ROWS);
    return;
  }
  Cx a = {c->in[0].re, NULL}, l = {0};
  int64_t n = dims[rank - 1];
  if (!lower) a = each(g, a, rank, true, (Ints){0});
  for (int64_t j = 0; j < n && !g->status; j++) {
    Cx s = cut(g, cut(g, a, rank - 1, j, j + 1), rank - 2, j, n);
    if (j) {
      Cx rows_ = cut(g, l, rank - 2, j, n), row = cut(g, l, rank - 2, j, j + 1);
      s = minus(g, s, times(c, rows_, each(g, row, rank, true, (Ints){0}), rank));
    }
    Cx root = {N(g, sqrt, hb_slice1(g, s.re, rank - 2, 0, 1, 1)), NULL};
    int64_t low[MAX_RANK] = {0}, high[MAX_RANK] = {0};
    low[rank - 2] = j;
    s = over(g, s, root);
    s.re = hb_pad(g, s.re, hb_num(g, s.re, 0), rank, low, high, NULL);
    l = stacked(g, l, s, rank - 1);
  }
  if (!lower) l = each(g, l, rank, true, (Ints){0});
  hlo_give(c, l.re);
}

// clang-format off
static const HloRow rows[] = {
    {"stablehlo.cholesky",         cholesky,         0, HLO_PLAIN, "of up to 256 rows"},
    {"stablehlo.convolution",      convolution,      0, HLO_PLAIN, NULL},
    {"stablehlo.dot",              dot,              0, HLO_PLAIN, NULL},
    {"stablehlo.dot_general",      dot_general,      0, HLO_PLAIN, NULL},
    {"stablehlo.dynamic_conv",     convolution,      1, HLO_PLAIN, NULL},
    {"stablehlo.fft",              fft,              0, HLO_PLAIN, NULL},
    {"stablehlo.triangular_solve", triangular_solve, 0, HLO_PLAIN, "of up to 256 rows"},
};
// clang-format on
HLO_TABLE(hlo_contract);
