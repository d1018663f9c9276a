// contract.c -- what stands around contractions goes into their weights, biases and pads.
//
// Weights are constants here, so arithmetic on them is folded once.  gemm is a mat_mul with its
// bias added, so that there is one form of a linear layer; leading axes that were merged for a
// product with a matrix are left as they are.
#include "eval/contract.h"
#include "eval/norm.h"
#include "eval/scalar.h"
#include "eval/window.h"

#include "ops/order.h"
#include "rules/factor.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"
#include "rules/sign.h"

#include <math.h>

// Channels first: the order is chosen when these rules are done.
static bool is_conv(const Node *n) {
  return (is_form(n, CF_CONV) || is_form(n, CF_CONV_TRANSPOSE)) && !sums_int8(n) &&
         !node_channels_last(n);
}
static bool is_float(const Node *n) { return dtype_is_float(type_of(n)->dtype); }

// v, one number a channel, as a tensor that broadcasts against weights or results of the given rank
// along `axis`.
static Node *along(Graph *g, Node *v, int rank, int axis) {
  const Type *t = type_of(v);
  Dim dims[MAX_RANK];
  if (t->rank != 1) return NULL;
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? t->dims[0] : g->dims.one;
  return reshape_to(g, v, type_tensor(g, t->dtype, rank, dims));
}

// A constant that has one number a channel of a result of this rank (channels at axis 1), as a
// vector; a scalar is spread.  NULL when it is none.
static Node *per_channel(Graph *g, Node *v, int rank, Dim channels) {
  const Type *t = type_of(v);
  if (v->op != OP_const || !ie_is_const(channels) || t->rank > rank) return NULL;
  int axis = 1 - (rank - t->rank);
  for (int i = 0; i < t->rank; i++)
    if (i != axis && !ie_is(t->dims[i], 1)) return NULL;
  const Type *want = type_tensor(g, t->dtype, 1, &channels);
  if (axis >= 0 && axis < t->rank && t->dims[axis] == channels) return reshape_to(g, v, want);
  Dim n = type_numel(g, t);
  if (!n || !ie_is(n, 1)) return NULL;
  Node *one = reshape_to(g, v, type_scalar(g, t->dtype));
  return one ? N(g, expand, one, node_i64s(g, 1, &channels->value)) : NULL;
}

// ---- batch normalisation ----

typedef struct Affinity {
  Node *scale, *shift;  // vectors: y = x * scale + shift
  double *by, *to;      // their numbers, n of each
  int64_t n;
} Affinity;

// The numbers of a norm as x * scale + shift; false where one is out of its data type's range.
static bool norm_fits(Graph *g, const Node *n, Affinity *out) {
  enum { GAMMA = 1, BETA, MEAN, VAR, END };
  const batch_normalization_attrs *at = n->attrs;
  DType t = type_of(n->src[0])->dtype;
  const double *v[END];
  int64_t count;
  for (int i = GAMMA; i < END; i++) {
    v[i] = const_numbers(g, n->src[i], &count);
    if (!v[i] || (i > GAMMA && count != out->n)) return false;
    out->n = count;
  }
  out->by = arena_array(&g->scratch, double, MAX(out->n, 1));
  out->to = arena_array(&g->scratch, double, MAX(out->n, 1));
  for (int64_t i = 0; i < out->n; i++) {
    double by = v[GAMMA][i] / sqrt(v[VAR][i] + at->epsilon), to = v[BETA][i] - v[MEAN][i] * by;
    bool vanished = is_finite_in(t, by) && !is_normal_in(t, v[GAMMA][i]);
    if (!(vanished || is_normal_in(t, by)) || !is_finite_in(t, to)) return false;
    out->by[i] = by;
    out->to[i] = to;
  }
  return true;
}

static bool norm_constants(Graph *g, const Node *n, Affinity *out) {
  const batch_normalization_attrs *at = n->attrs;
  DType t = type_of(n->src[0])->dtype;
  if (at->channels_last || at->training_mode || n->nres != 1 || (t != DT_F32 && t != DT_F64))
    return false;
  for (int i = 1; i < 5; i++)
    if (n->src[i]->op != OP_const || type_of(n->src[i])->dtype != t ||
        type_of(n->src[i])->rank != 1)
      return false;
  if (!norm_fits(g, n, out)) return false;
  // In double, as the op itself computes, and rounded once.
  cast_attrs wide = {.to = DT_F64}, back = {.to = t};
  Node *in[5];
  for (int i = 1; i < 5; i++) in[i] = t == DT_F64 ? n->src[i] : NA(g, cast, &wide, n->src[i]);
  Node *s = N(g, div, in[1], N(g, sqrt, N(g, add, in[4], node_scalar(g, DT_F64, at->epsilon))));
  Node *o = N(g, sub, in[2], N(g, mul, in[3], s));
  out->scale = t == DT_F64 ? s : NA(g, cast, &back, s);
  out->shift = t == DT_F64 ? o : NA(g, cast, &back, o);
  return true;
}

// Whether a convolution's weights and bias hold a scale and a shift, one number a channel or one
// for all; NULL: none.
static bool conv_takes(Graph *g, const Node *conv, const double *by, const double *to, int64_t n) {
  const Node *w = conv->src[1], *bias = src_or_null(g, conv, 2);
  DType t = type_of(w)->dtype;
  int64_t count = 1;
  const double *was = bias ? const_numbers(g, bias, &count) : NULL;
  if (w->op != OP_const || type_of(w)->rank < 3 || (bias && !was)) return false;
  int axis = is_form(conv, CF_CONV_TRANSPOSE) ? 1 : 0;
  if (by && !weights_fit(g, w, axis, by, n)) return false;
  for (int64_t i = 0; i < MAX(n, count); i++) {
    double x = was ? was[count == 1 ? 0 : i] : 0;
    if (by) x *= by[n == 1 ? 0 : i];
    if (to) x += to[n == 1 ? 0 : i];
    if (!is_finite_in(t, x)) return false;
  }
  return true;
}

// A convolution with its results scaled and shifted by channel: in weights and bias.
static Node *scaled_conv(Graph *g, const Node *conv, Node *scale, Node *shift) {
  Node *w = conv->src[1], *bias = src_or_null(g, conv, 2);
  const Type *t = type_of(w);
  if (w->op != OP_const || t->rank < 3 || (bias && bias->op != OP_const)) return NULL;
  bool transposed = is_form(conv, CF_CONV_TRANSPOSE);
  if (transposed && ((const conv_transpose_attrs *)conv->attrs)->group != 1) return NULL;
  Node *by = scale ? along(g, scale, t->rank, transposed) : NULL;
  if (scale && !by) return NULL;
  if (by) w = N(g, mul, w, by);
  if (bias && scale) bias = N(g, mul, bias, scale);
  if (shift) bias = bias ? N(g, add, bias, shift) : shift;
  Node *src[3] = {conv->src[0], w, bias};
  return node_new(g, conv->op, bias ? 3 : 2, src, conv->attrs, 1, conv->name);
}

static Node *conv_norm(Graph *g, const Match *m) {
  const Node *conv = m->root->src[0];
  Affinity n;
  if (!is_conv(conv) || !match_once(m, conv) || conv->src[1]->op != OP_const ||
      !norm_constants(g, m->root, &n) || !conv_takes(g, conv, n.by, n.to, n.n))
    return NULL;
  return scaled_conv(g, conv, n.scale, n.shift);
}

static Node *norm_alone(Graph *g, const Match *m) {
  Affinity n;
  Node *x = m->root->src[0];
  int rank = type_of(x)->rank;
  if (rank < 2 || !norm_constants(g, m->root, &n)) return NULL;
  Node *s = along(g, n.scale, rank, 1), *o = along(g, n.shift, rank, 1);
  return s && o ? N(g, add, N(g, mul, x, s), o) : NULL;
}

// ---- arithmetic after a convolution ----

static Node *conv_arith(Graph *g, const Match *m, bool add) {
  for (int i = 0; i < 2; i++) {
    const Node *conv = m->root->src[i];
    if (!is_conv(conv) || !match_once(m, conv) || !is_float(conv) || type_of(conv)->rank < 3 ||
        !same_type(conv, m->root))
      continue;
    Node *v = per_channel(g, m->root->src[1 - i], type_of(conv)->rank, type_of(conv)->dims[1]);
    int64_t n = 1;
    const double *x = v ? const_numbers(g, m->root->src[1 - i], &n) : NULL;
    if (x && conv_takes(g, conv, add ? NULL : x, add ? x : NULL, n))
      return add ? scaled_conv(g, conv, NULL, v) : scaled_conv(g, conv, v, NULL);
  }
  return NULL;
}
static Node *conv_add(Graph *g, const Match *m) { return conv_arith(g, m, true); }
static Node *conv_mul(Graph *g, const Match *m) { return conv_arith(g, m, false); }

// ---- zeros around a convolution's input ----

// What a pad adds around the spatial axes, and with which number; false when it does anything else.
typedef struct Around {
  Node *x;
  int spatial;
  int64_t begin_end[2 * MAX_RANK];
  double value;
} Around;

static bool read_pad(Graph *g, const Node *pad, Around *out) {
  Ints pads;
  if (pad->op != OP_pad || ((const pad_attrs *)pad->attrs)->mode != PAD_CONSTANT) return false;
  int rank = type_of(pad)->rank;
  Node *fill = src_or_null(g, pad, 2);
  *out = (Around){.x = pad->src[0], .spatial = rank - 2};
  if (rank < 3 || src_or_null(g, pad, 3) || !node_ints(g, pad->src[1], &pads) ||
      pads.n != 2 * rank || (fill && !node_splat(g, fill, &out->value)))
    return false;
  if (pads.v[0] || pads.v[1] || pads.v[rank] || pads.v[rank + 1]) return false;
  for (int end = 0; end < 2; end++)
    for (int i = 0; i < rank - 2; i++) {
      int64_t more = pads.v[end * rank + 2 + i];
      if (more < 0) return false;
      out->begin_end[end * (rank - 2) + i] = more;
    }
  return true;
}

// The op's own pads and those of a pad before it; false when its own are not given by numbers.
static bool add_pads(const Around *pad, int auto_pad, Ints own, int64_t *sum) {
  bool valid = auto_pad == PAD_VALID;
  if (auto_pad != PAD_NOTSET && !valid) return false;
  for (int i = 0; i < 2 * pad->spatial; i++)
    if (!ck_add(valid || !own.n ? 0 : own.v[i], pad->begin_end[i], &sum[i])) return false;
  return true;
}

static Node *conv_pad(Graph *g, const Match *m) {
  const Node *conv = m->root;
  conv_attrs at = *(const conv_attrs *)conv->attrs;
  Around pad;
  int64_t sum[2 * MAX_RANK];
  if (at.channels_last || !read_pad(g, conv->src[0], &pad) || pad.value != 0 ||
      !add_pads(&pad, at.auto_pad, at.pads, sum))
    return NULL;
  at.auto_pad = PAD_NOTSET;
  at.pads = (Ints){2 * pad.spatial, sum};
  Node *src[3] = {pad.x, conv->src[1], src_or_null(g, conv, 2)};
  return node_new(g, OP_conv, src[2] ? 3 : 2, src, &at, 1, conv->name);
}

static Ints without_last(Ints all, int64_t *room) {
  for (int64_t i = 0; i + 1 < all.n; i++) room[i] = all.v[i];
  return (Ints){MAX(all.n - 1, 0), room};
}

static Node *dropped_last(Graph *g, Node *x) {
  const Type *t = type_of(x);
  return reshape_to(g, x, type_tensor(g, t->dtype, t->rank - 1, t->dims));
}

// A last axis of one element under a window of one says nothing, and hides that the axis before it
// is a line of pixels.  (A single pixel is none: its convolution is a product as it stands, in
// either layout.)
static Node *conv_line(Graph *g, const Match *m) {
  const Node *conv = m->root;
  conv_attrs at = *(const conv_attrs *)conv->attrs;
  const Type *x = type_of(conv->src[0]), *w = type_of(conv->src[1]), *y = type_of(conv);
  int last = x->rank - 1, nd = x->rank - 2;
  int64_t pads[2 * MAX_RANK], kernel[MAX_RANK], strides[MAX_RANK], dilations[MAX_RANK];
  if (at.channels_last || nd < 2 || w->rank != x->rank || y->rank != x->rank ||
      !ie_is(x->dims[last], 1) || !ie_is(w->dims[last], 1) || !ie_is(y->dims[last], 1) ||
      ie_is(x->dims[last - 1], 1) || (at.pads.n && (at.pads.v[nd - 1] || at.pads.v[2 * nd - 1])))
    return NULL;
  for (int i = 0; at.pads.n && i < 2 * (nd - 1); i++) pads[i] = at.pads.v[i < nd - 1 ? i : i + 1];
  at.pads = (Ints){at.pads.n ? 2 * (nd - 1) : 0, pads};
  at.kernel_shape = without_last(at.kernel_shape, kernel);
  at.strides = without_last(at.strides, strides);
  at.dilations = without_last(at.dilations, dilations);
  Node *src[3] = {dropped_last(g, conv->src[0]), dropped_last(g, conv->src[1]),
                  src_or_null(g, conv, 2)};
  if (!src[0] || !src[1]) return NULL;
  Node *r = node_new(g, OP_conv, src[2] ? 3 : 2, src, &at, 1, conv->name);
  return r ? reshape_to(g, r, y) : NULL;
}

// Every window still holds an element of the tensor itself.
static bool within_windows(const Around *pad, Ints kernel, const int64_t *sum) {
  if (kernel.n != pad->spatial) return false;
  for (int i = 0; i < 2 * pad->spatial; i++)
    if (sum[i] >= kernel.v[i % pad->spatial]) return false;
  return true;
}

// Around a maximum may stand what is never the largest: -inf, or 0 where nothing is negative.
static Node *max_pool_pad(Graph *g, const Match *m) {
  const Node *pool = m->root;
  max_pool_attrs at = *(const max_pool_attrs *)pool->attrs;
  Around pad;
  int64_t sum[2 * MAX_RANK];
  if (pool->nres != 1 || at.ceil_mode || node_channels_last(pool) ||
      !read_pad(g, pool->src[0], &pad) || !add_pads(&pad, at.auto_pad, at.pads, sum) ||
      !within_windows(&pad, at.kernel_shape, sum))
    return NULL;
  bool low = pad.value == -INFINITY || (pad.value == 0 && node_not_negative(g, pad.x));
  if (!low || !is_float(pool)) return NULL;
  at.auto_pad = PAD_NOTSET;
  at.pads = (Ints){2 * pad.spatial, sum};
  return NA(g, max_pool, &at, pad.x);
}

static Node *average_pool_pad(Graph *g, const Match *m) {
  const Node *pool = m->root;
  average_pool_attrs at = *(const average_pool_attrs *)pool->attrs;
  Around pad;
  int64_t sum[2 * MAX_RANK];
  if (at.ceil_mode || node_channels_last(pool) || !read_pad(g, pool->src[0], &pad) ||
      pad.value != 0 || !add_pads(&pad, at.auto_pad, at.pads, sum) ||
      !within_windows(&pad, at.kernel_shape, sum))
    return NULL;
  for (int64_t i = 0; at.auto_pad == PAD_NOTSET && !at.count_include_pad && i < at.pads.n; i++)
    if (at.pads.v[i]) return NULL;  // its own pads do not count, these do
  at.auto_pad = PAD_NOTSET;
  at.pads = (Ints){2 * pad.spatial, sum};
  at.count_include_pad = true;
  return NA(g, average_pool, &at, pad.x);
}

// ---- matrix products ----

// gemm => mat_mul, with what is scaled, transposed and added written out.
static Node *gemm_mat_mul(Graph *g, const Match *m) {
  const gemm_attrs *at = m->root->attrs;
  Node *x = m->root->src[0], *y = m->root->src[1], *bias = src_or_null(g, m->root, 2);
  DType t = type_of(x)->dtype;
  if (!dtype_is_float(t) || type_of(x)->rank != 2 || type_of(y)->rank != 2) return NULL;
  if (at->alpha != 0 && !is_normal_in(t, at->alpha)) return NULL;
  if (bias && at->beta != 0 && !is_normal_in(t, at->beta)) return NULL;
  transpose_attrs swap = {.perm = {2, (int64_t[]){1, 0}}};
  if (at->transA) x = NA(g, transpose, &swap, x);
  if (at->transB) y = NA(g, transpose, &swap, y);
  Node *r = N(g, mat_mul, x, y);
  if (at->alpha != 1) r = N(g, mul, r, node_scalar(g, t, at->alpha));
  if (!bias || at->beta == 0) return r;
  if (at->beta != 1) bias = N(g, mul, bias, node_scalar(g, t, at->beta));
  return N(g, add, r, bias);
}

// The leading axes differ, the last `keep` are the same: then so is the product of the others, but
// where one is empty.
static bool same_tail(const Type *x, const Type *y, int keep) {
  if (x->rank < keep || y->rank < keep) return false;
  for (int i = 1; i <= keep; i++)
    if (x->dims[x->rank - i] != y->dims[y->rank - i] || ie_is(x->dims[x->rank - i], 0))
      return false;
  return true;
}

// mat_mul(reshape(x), w) with a matrix w => reshape(mat_mul(x, w)), where the last axis stays.
static Node *product_reshape(Graph *g, const Match *m) {
  Node *r = m->root->src[0], *w = m->root->src[1];
  if (r->op != OP_reshape || type_of(w)->rank != 2 || type_of(r)->rank < 2) return NULL;
  Node *x = r->src[0];
  if (type_of(x)->rank < 2 || !same_tail(type_of(x), type_of(r), 1)) return NULL;
  return reshape_to(g, N(g, mat_mul, x, w), type_of(m->root));
}

// Both operands' batch axes merged alike: they are merged after the product.
static Node *batch_reshape(Graph *g, const Match *m) {
  Node *p = m->root->src[0], *q = m->root->src[1];
  if (p->op != OP_reshape || q->op != OP_reshape) return NULL;
  Node *x = p->src[0], *y = q->src[0];
  const Type *s = type_of(x), *t = type_of(y), *u = type_of(p), *v = type_of(q);
  if (s->rank < 3 || s->rank != t->rank || u->rank != v->rank || u->rank < 2 ||
      !same_tail(s, u, 2) || !same_tail(t, v, 2))
    return NULL;
  for (int i = 0; i < s->rank - 2; i++)
    if (s->dims[i] != t->dims[i]) return NULL;
  for (int i = 0; i < u->rank - 2; i++)
    if (u->dims[i] != v->dims[i]) return NULL;
  return reshape_to(g, N(g, mat_mul, x, y), type_of(m->root));
}

#define CONV                                                                                       \
  "(%x: f32[n, 2, 5, 4]) { %w = const f32[3, 2, 3, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 2, 1, 1, "   \
  "1, -1, 2, 0, 3, 1, 2} "
#define CONVT                                                                                      \
  "(%x: f32[n, 2, 3, 4]) { %w = const f32[2, 3, 2, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 2, 1, 1, "   \
  "1} "
#define NORM                                                                                       \
  "%s = const f32[3] {1, 2, 0.5} %b = const f32[3] {0.5, -1, 0} %m = const f32[3] {0.25, 1, -1} "  \
  "%v = const f32[3] {1, 0.5, 2} "
#define LOOSE (FAST_REASSOC | FAST_CONTRACT)

static const Rule contract[] = {
    // clang-format off
    RULE("conv.norm",      P(batch_normalization, BIND_ANY(p, conv), b, c, d, e),           .make = conv_norm, .fast = LOOSE, .example = CONV NORM "%c = conv(%x, %w, %b) %r = batch_normalization(%c, %s, %b, %m, %v) return %r }"),
    RULE("conv_transpose.norm", P(batch_normalization, BIND_ANY(p, conv_transpose), b, c, d, e), .make = conv_norm, .fast = LOOSE, .example = CONVT NORM "%c = conv_transpose(%x, %w) %r = batch_normalization(%c, %s, %b, %m, %v) return %r }"),
    RULE("norm.affine",    P(batch_normalization, a, b, c, d, e),                            .make = norm_alone, .fast = LOOSE, .example = "(%x: f32[n, 3, 4]) { " NORM "%r = batch_normalization(%x, %s, %b, %m, %v) return %r }"),
    RULE("conv.add",       P(add, a, b),                                                     .make = conv_add, .fast = LOOSE, .example = CONV "%c = conv(%x, %w) %v = const f32[3, 1, 1] {1, 2, 3} %r = add(%c, %v) return %r }"),
    RULE("conv.mul",       P(mul, a, b),                                                     .make = conv_mul, .fast = LOOSE, .example = CONV "%b = const f32[3] {0.5, -1, 0} %c = conv(%x, %w, %b) %v = const f32[] {3} %r = mul(%c, %v) return %r }"),
    RULE("conv.pad",       ANY(conv),                                                        .make = conv_pad, .example = CONV "%p = const i64[8] {0, 0, 1, 0, 0, 0, 2, 1} %y = pad(%x, %p) %r = conv(%y, %w) pads=[1, 1, 0, 0] return %r }"),
    RULE("conv.line",      ANY(conv),                                                        .make = conv_line, .example = "(%x: f32[n, 2, 5, 1]) { %w = const f32[3, 2, 3, 1] {1, 2, 3, -1, -2, 1, 0.5, 0.25, 2, 1, 1, 1, -1, 2, 0, 3, 1, 2} %r = conv(%x, %w) pads=[1, 0, 2, 0] strides=[2, 3] return %r }"),
    RULE("max_pool.pad",   ANY(max_pool),                                                    .make = max_pool_pad, .fast = FAST_NO_SZ, .example = "(%x: f32[n, 2, 5, 4]) { %z = relu(%x) %p = const i64[8] {0, 0, 1, 0, 0, 0, 2, 1} %y = pad(%z, %p) %r = max_pool(%y) kernel_shape=[3, 3] return %r }"),
    RULE("average_pool.pad", ANY(average_pool),                                              .make = average_pool_pad, .example = "(%x: f32[n, 2, 5, 4]) { %p = const i64[8] {0, 0, 1, 0, 0, 0, 2, 1} %y = pad(%x, %p) %r = average_pool(%y) kernel_shape=[3, 3] return %r }"),
    RULE("gemm.mat_mul",   ANY(gemm),                                                        .make = gemm_mat_mul, .fast = LOOSE, .example = "(%x: f32[3, n], %y: f32[5, 3], %c: f32[5]) { %r = gemm(%x, %y, %c) transA=true transB=true alpha=0.5 beta=2 return %r }"),
    RULE("mat_mul.reshape", P(mat_mul, a, b),                                                .make = product_reshape, .example = "(%x: f32[n, m, 3], %w: f32[3, 2]) { %s = const i64[2] {1, 3} %y = reshape(%x, %s) into=[0, 0, -1] %r = mat_mul(%y, %w) return %r }"),
    RULE("mat_mul.batch",  P(mat_mul, a, b),                                                 .make = batch_reshape, .example = "(%x: f32[n, 2, m, 3], %y: f32[n, 2, 3, k]) { %s = const i64[3] {2, 1, 3} %p = reshape(%x, %s) into=[0, -1, 1, -1] %t = const i64[3] {2, 3, 1} %q = reshape(%y, %t) into=[0, -1, -1, 2] %r = mat_mul(%p, %q) return %r }"),
    // clang-format on
};
const RuleSet rules_contract = RULES("contract", contract,
                                     "the spatial axes of convolutions, then the number of nodes "
                                     "outside the weights, then how early reshapes come");
