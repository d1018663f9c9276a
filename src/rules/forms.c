// forms.c -- forms of operators that no template takes, by operators that have kernels.
//
// A template is written for the form that networks have: a group norm with parameters by channel,
// packed weights that are constants.  The same operator in another form would be evaluated by the
// host.  Here it becomes elementwise operators, products and reductions, which fuse with what is
// around them.  Forms whose sizes only a run knows stay as they are.
#include "eval/contract.h"
#include "eval/contrib.h"
#include "eval/image.h"
#include "eval/index.h"
#include "eval/norm.h"
#include "eval/scalar.h"

#include "rules/features.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"

#include <math.h>

// Elements of a grid's constant table at most.
enum { GRID_MAX = 1 << 22 };

// ---- pools and norms ----

// A pool over no axes.
static Node *pool_of_nothing(Graph *g, const Match *m) {
  (void)g;
  return type_of(m->root->src[0])->rank == 2 ? m->root->src[0] : NULL;
}

static Node *by_channel(Graph *g, Node *x, int64_t groups, int64_t each) {
  const int64_t column[] = {groups, 1}, all[] = {groups, each}, flat[] = {groups * each};
  x = N(g, reshape, x, node_i64s(g, 2, column));
  x = N(g, expand, x, node_i64s(g, 2, all));
  return N(g, reshape, x, node_i64s(g, 1, flat));
}

// Scale and bias of a group, for each of its channels.
static Node *group_norm_by_channel(Graph *g, const Match *m) {
  const Node *n = m->root;
  const group_normalization_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]);
  if (x->rank < 2) return NULL;
  Dim channels = x->dims[at->channels_last ? x->rank - 1 : 1];
  if (!ie_is_const(channels) || channels->value == at->num_groups ||
      channels->value % at->num_groups)
    return NULL;
  Node *src[3] = {n->src[0]};
  for (int i = 1; i <= 2; i++) {
    const Type *t = type_of(n->src[i]);
    if (t->rank != 1 || !ie_is(t->dims[0], at->num_groups)) return NULL;
    src[i] = by_channel(g, n->src[i], at->num_groups, channels->value / at->num_groups);
  }
  return node_with(g, n, src);
}

// ---- grids ----

// Homogeneous coordinates of all points: [points, axes + 1], the innermost axis first.
static double *grid_points(Arena *arena, const int64_t *size, int axes, int64_t points,
                           bool corners) {
  double *at = arena_array(arena, double, points *(axes + 1));
  for (int64_t p = 0; p < points; p++) {
    int64_t rest = p;
    for (int axis = axes - 1; axis >= 0; axis--) {
      int64_t n = size[axis], i = rest % n;
      rest /= n;
      double edge = n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1;
      at[p * (axes + 1) + axes - 1 - axis] = corners ? edge : -1 + (2 * (double)i + 1) / (double)n;
    }
    at[p * (axes + 1) + axes] = 1;
  }
  return at;
}

// The points, a constant, times each matrix.
static Node *affine_product(Graph *g, const Match *m) {
  const Node *n = m->root;
  Ints size;
  const Type *theta = type_of(n->src[0]);
  if (!node_ints(g, n->src[1], &size) || (size.n != 4 && size.n != 5) || theta->rank != 3)
    return NULL;
  int axes = (int)size.n - 2;
  if (theta->dtype != DT_F32 && theta->dtype != DT_F64) return NULL;
  const int64_t want[] = {size.v[0], axes, axes + 1};
  for (int i = 0; i < 3; i++)
    if (ie_eq(&g->dims, theta->dims[i], ie_const(&g->dims, want[i])) == NO) return NULL;
  int64_t points = 1, all, shape[5] = {size.v[0]};
  for (int i = 0; i < axes; i++) {
    shape[i + 1] = size.v[i + 2];
    if (size.v[i + 2] < 1 || !ck_mul(points, size.v[i + 2], &points)) return NULL;
  }
  shape[axes + 1] = axes;
  if (size.v[0] < 1 || !ck_mul(points, axes + 1, &all) || all > GRID_MAX) return NULL;
  const double *at = grid_points(&g->scratch, size.v + 2, axes, points,
                                 ((const affine_grid_attrs *)n->attrs)->align_corners);
  Node *table = features_const(g, theta->dtype, 2, (int64_t[]){points, axes + 1}, at);
  if (!table) return NULL;
  Node *y = N(g, mat_mul, table, transpose_to(g, n->src[0], 3, (int64_t[]){0, 2, 1}));
  return N(g, reshape, y, node_i64s(g, axes + 2, shape));
}

// ---- packed weights that a run computes ----

// The stored numbers as f32: [rows, blocks, weights of a block].  NULL: sizes are not known.
static Node *stored(Graph *g, Node *w, int64_t bits) {
  const Type *t = type_of(w);
  if (w->op == OP_const || t->rank != 3 || !type_is_static(t)) return NULL;
  if (bits != 2 && bits != 4 && bits != 8) return NULL;
  int64_t each = 8 / bits, shift[4], shape[4], block;
  for (int i = 0; i < 3; i++)
    if ((shape[i] = t->dims[i]->value) < 1) return NULL;
  if (!ck_mul(shape[2], each, &block)) return NULL;
  shape[3] = 1;
  w = N(g, reshape, w, node_i64s(g, 4, shape));
  for (int64_t i = 0; i < each; i++) shift[i] = i * bits;
  Node *by = NA(g, cast, &(cast_attrs){.to = DT_U8}, node_i64s(g, (int)each, shift));
  w = N(g, bit_and, N(g, shift_right, w, by), node_scalar(g, DT_U8, (double)((1 << bits) - 1)));
  shape[2] = block;
  return NA(g, cast, &(cast_attrs){.to = DT_F32}, N(g, reshape, w, node_i64s(g, 3, shape)));
}

// One number for each block: [rows, blocks] beside [rows, blocks, weights].
static Node *by_block(Graph *g, Node *x) { return N(g, unsqueeze, x, node_i64(g, 2)); }

static Node *unpacked(Graph *g, const Match *m) {
  const Node *n = m->root;
  const unpack_n_bits_attrs *at = n->attrs;
  Node *less = src_or_null(g, n, 2), *x = stored(g, n->src[0], at->bits);
  if (!x || !type_is_static(type_of(n))) return NULL;
  if (at->zero) x = N(g, sub, x, node_scalar(g, DT_F32, (double)at->zero));
  x = N(g, mul, by_block(g, n->src[1]), x);
  if (less) x = N(g, sub, x, by_block(g, less));
  return reshape_to(g, x, type_of(n));
}

static Node *product_of_packed(Graph *g, const Match *m) {
  const Node *n = m->root;
  const mat_mul_n_bits_attrs *at = n->attrs;
  Node *x = n->src[0], *zero = src_or_null(g, n, 3), *w = stored(g, n->src[1], at->bits);
  const Type *t = type_of(x);
  if (!w || t->rank < 1 || !ie_is_const(t->dims[t->rank - 1])) return NULL;
  int64_t depth = t->dims[t->rank - 1]->value, rows = type_of(w)->dims[0]->value,
          all = type_of(w)->dims[1]->value * type_of(w)->dims[2]->value;
  if (depth < 1 || depth > all || all - depth >= type_of(w)->dims[2]->value) return NULL;
  w = N(g, sub, w,
        zero ? by_block(g, zero) : node_scalar(g, DT_F32, (double)(1 << (at->bits - 1))));
  w = N(g, mul, w, by_block(g, n->src[2]));
  w = N(g, reshape, w, node_i64s(g, 2, (int64_t[]){rows, all}));
  if (depth < all) w = slice_axis(g, w, 1, 0, depth, 1);
  return N(g, mat_mul, x, transpose_to(g, w, 2, (int64_t[]){1, 0}));
}

// ---- losses ----

// A loss over all rows has reductions over different axes: softmax is one kernel, the sum another.
static Node *loss_in_parts(Graph *g, const Match *m) {
  Node *out[2] = {NULL};
  const Type *x = type_of(m->root->src[0]);
  if (m->root->nres != 1 || x->rank < 2) return NULL;
  if (!features_indices_fit(g, m->root->src[1], x->dims[1])) return NULL;
  op_info(m->root->op)->expand(g, m->root, out);
  return out[0];
}

// ---- updates of narrow floats ----

// Sums of 16-bit floats are rounded once, after the last update: so they are formed in f32.
static Node *scatter_wide(Graph *g, const Match *m) {
  const Node *n = m->root;
  DType t = type_of(n)->dtype;
  int mode = n->op == OP_scatter_nd ? ((const scatter_nd_attrs *)n->attrs)->reduction
                                    : ((const scatter_elements_attrs *)n->attrs)->reduction;
  if ((t != DT_F16 && t != DT_BF16) || mode == SCATTER_NONE) return NULL;
  cast_attrs up = {.to = DT_F32, .saturate = true}, down = {.to = t, .saturate = true};
  Node *src[] = {NA(g, cast, &up, n->src[0]), n->src[1], NA(g, cast, &up, n->src[2])};
  return NA(g, cast, &down, node_with(g, n, src));
}

// ---- einsum of several operands ----

static bool has_label(const uint8_t *v, int n, uint8_t label) {
  for (int i = 0; i < n; i++)
    if (v[i] == label) return true;
  return false;
}

enum { LETTERS = 52 };

static char letter_of(uint8_t label) { return (char)(label < 26 ? 'a' + label : 'A' + label - 26); }

static void put_term(StrBuf *text, const uint8_t *label, int n) {
  for (int i = 0; i < n; i++) strbuf_putc(text, letter_of(label[i]));
}

// The labels of two operands that another one or the result needs.  False: none is summed over
// here, so that joining the two first gains nothing.
static bool kept_labels(const Einsum *q, int left, int right, uint8_t *out, int *out_n) {
  bool sums = false;
  *out_n = 0;
  for (int side = 0; side < 2; side++)
    for (int i = 0, op = side ? right : left; i < q->nlabels[op]; i++) {
      uint8_t l = q->label[op][i];
      bool kept = has_label(q->out, q->nout, l);
      for (int other = 0; other < q->nops && !kept; other++)
        kept = other != left && other != right && has_label(q->label[other], q->nlabels[other], l);
      sums |= !kept;
      if (!kept || has_label(out, *out_n, l)) continue;
      if (*out_n == MAX_RANK) return false;
      out[(*out_n)++] = l;
    }
  return sums;
}

// Elements of a join with these labels; a size that is a symbol counts as many.
static double joined_elements(const Node *n, const Einsum *q, const uint8_t *label, int count) {
  static const double MANY = 256;
  double all = 1;
  for (int i = 0; i < count; i++) {
    double most = 1;
    for (int op = 0; op < q->nops; op++)
      for (int k = 0; k < q->nlabels[op]; k++) {
        Dim size = type_of(n->src[op])->dims[k];
        if (q->label[op][k] == label[i])
          most = fmax(most, ie_is_const(size) ? (double)size->value : MANY);
      }
    all *= most;
  }
  return all;
}

// Two operands of three or more first: what they sum over by themselves.  Of all pairs the one
// whose join is the smallest: another may be larger than all operands together.
static Node *einsum_pair(Graph *g, const Match *m) {
  const Node *n = m->root;
  int rank[EINSUM_MAX_OPERANDS], kept, left = 0, right = 0;
  uint8_t label[MAX_RANK];
  int64_t at;
  Einsum *q = arena_new(&g->scratch, Einsum);
  DType t = type_of(n)->dtype;
  if (n->nsrc < 3 || n->nsrc > EINSUM_MAX_OPERANDS || (t != DT_F32 && t != DT_F64)) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if ((rank[i] = type_of(n->src[i])->rank) < 0) return NULL;
  if (einsum_parse(((const einsum_attrs *)n->attrs)->equation, (int)n->nsrc, rank, q, &at))
    return NULL;
  for (int i = 0; i < q->nops; i++)
    for (int k = 0; k < q->nlabels[i]; k++)
      if (q->label[i][k] >= LETTERS) return NULL;
  double least = INFINITY;
  for (int i = 0; i < q->nops; i++)
    for (int k = i + 1; k < q->nops; k++) {
      if (!kept_labels(q, i, k, label, &kept)) continue;
      double all = joined_elements(n, q, label, kept);
      if (all < least) least = all, left = i, right = k;
    }
  if (least == INFINITY) return NULL;
  kept_labels(q, left, right, label, &kept);
  StrBuf first, all;
  strbuf_init(&first, &g->scratch);
  strbuf_init(&all, &g->scratch);
  put_term(&first, q->label[left], q->nlabels[left]);
  strbuf_putc(&first, ',');
  put_term(&first, q->label[right], q->nlabels[right]);
  strbuf_puts(&first, "->");
  put_term(&first, label, kept);
  einsum_attrs one = {.equation = strbuf_str(&first)};
  Node *src[EINSUM_MAX_OPERANDS] = {NA(g, einsum, &one, n->src[left], n->src[right])};
  put_term(&all, label, kept);
  int count = 1;
  for (int i = 0; i < q->nops; i++) {
    if (i == left || i == right) continue;
    strbuf_putc(&all, ',');
    put_term(&all, q->label[i], q->nlabels[i]);
    src[count++] = n->src[i];
  }
  strbuf_puts(&all, "->");
  put_term(&all, q->out, q->nout);
  einsum_attrs rest = {.equation = strbuf_str(&all)};
  Node *r = node_new(g, OP_einsum, count, src, &rest, 1, n->name);
  return r != g->poison && type_of(r) == type_of(n) ? r : NULL;
}

static const Rule forms[] = {
    // clang-format off
    RULE("global_average_pool.nothing", ANY(global_average_pool), .make = pool_of_nothing, .fast = FAST_NO_SZ, .example = "(%x: f32[n, 3]) { %r = global_average_pool(%x) return %r }"),
    RULE("global_max_pool.nothing",     ANY(global_max_pool),     .make = pool_of_nothing, .example = "(%x: f32[n, 3]) { %r = global_max_pool(%x) return %r }"),
    RULE("group_norm.by_channel",       ANY(group_normalization), .make = group_norm_by_channel,
         .example = "(%x: f32[2, 6, n], %s: f32[3], %b: f32[3]) { %r = group_normalization(%x, %s, %b) num_groups=3 return %r }"),
    RULE("affine_grid.product",         ANY(affine_grid),         .make = affine_product, .fast = FAST_REASSOC | FAST_APPROX,
         .example = "(%x: f32[2, 2, 3]) { %s = const i64[4] {2, 1, 3, 4} %r = affine_grid(%x, %s) return %r }"),
    RULE("unpack_n_bits.shifts",        ANY(unpack_n_bits),       .make = unpacked,
         .example = "(%w: u8[5, 2, 8], %s: f32[5, 2], %l: f32[5, 2]) { %r = unpack_n_bits(%w, %s, %l) zero=8 return %r }"),
    RULE("mat_mul_n_bits.unpacked",     ANY(mat_mul_n_bits),      .make = product_of_packed, .fast = FAST_REASSOC | FAST_APPROX,
         .example = "(%x: f32[n, 24], %w: u8[5, 2, 8], %s: f32[5, 2], %z: f32[5, 2]) { %r = mat_mul_n_bits(%x, %w, %s, %z) return %r }"),
    RULE("softmax_loss.parts",          ANY(softmax_cross_entropy_loss), .make = loss_in_parts, .fast = FAST_REASSOC | FAST_APPROX,
         .example = "(%x: f32[3, 5]) { %t = const i64[3] {0, 4, 1} %r = softmax_cross_entropy_loss(%x, %t) return %r }"),
    RULE("scatter_elements.wide",       ANY(scatter_elements),    .make = scatter_wide, .fast = FAST_REASSOC,
         .example = "(%x: f16[4], %u: f16[3]) { %i = const i64[3] {0, 2, 0} %r = scatter_elements(%x, %i, %u) reduction=add return %r }"),
    RULE("scatter_nd.wide",             ANY(scatter_nd),          .make = scatter_wide, .fast = FAST_REASSOC,
         .example = "(%x: f16[4, n], %u: f16[2, n]) { %i = const i64[2, 1] {1, 1} %r = scatter_nd(%x, %i, %u) reduction=add return %r }"),
    RULE("einsum.pair",                 ANY(einsum),              .make = einsum_pair, .fast = FAST_REASSOC,
         .example = "(%x: f32[3, n], %y: f32[2, n], %z: f32[3, 2]) { %r = einsum(%x, %y, %z) equation=\"ij,kj,ik->i\" return %r }"),
    // clang-format on
};
const RuleSet rules_forms = RULES("forms", forms, "each removes a form without a template");
