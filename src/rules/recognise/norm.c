// norm.c -- normalisations and softmax that came in pieces.
//
// In steps, so that every order of scale and bias is met: the quotient (x - mean) / sqrt(var + eps)
// becomes a norm with scale 1, a product with it takes the scale in, a sum the bias.  Group norm is
// the norm of a reshaped tensor, reshaped back.
#include "eval/norm.h"
#include "eval/reduce.h"
#include "rules/factor.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"

// ---- (x - mean) / sqrt(var + eps) ----

// What is normalised, how, and over which axes.
typedef struct Std {
  Node *x;  // as given: not centred
  bool centred;
  unsigned axes;
  double eps;
} Std;

static bool centred(Graph *g, Node *diff, unsigned axes, Node **x) {
  if (diff->op == OP_sub && rec_reduced(diff->src[1], OP_reduce_mean) == diff->src[0]) {
    *x = diff->src[0];
    return rec_axes(g, diff->src[1]) == axes;
  }
  for (int i = 0; diff->op == OP_add && i < 2; i++) {
    const Node *neg = diff->src[i];
    if (neg->op != OP_neg || rec_reduced(neg->src[0], OP_reduce_mean) != diff->src[1 - i]) continue;
    *x = diff->src[1 - i];
    return rec_axes(g, neg->src[0]) == axes;
  }
  return false;
}

// mean(x * x) - mean(x) * mean(x): the variance as well, and x - mean is its deviation.
static bool is_variance(Graph *g, const Node *n, const Node *diff, unsigned *axes) {
  Node *sq, *x, *mean;
  if (n->op != OP_sub || !(sq = rec_reduced(n->src[0], OP_reduce_mean)) || !rec_square(g, sq, &x) ||
      !rec_square(g, n->src[1], &mean) || rec_reduced(mean, OP_reduce_mean) != x)
    return false;
  *axes = rec_axes(g, mean);
  return *axes && rec_axes(g, n->src[0]) == *axes && diff->op == OP_sub && diff->src[0] == x &&
         diff->src[1] == mean;
}

// v = mean(diff * diff) + eps
static bool mean_square(Graph *g, const Node *v, Node **diff, Std *s) {
  Node *var;
  if (!rec_plus(g, v, &var, &s->eps) || s->eps < 0) return false;
  Node *sq = rec_reduced(rec_uncast(var), OP_reduce_mean);
  if (!sq || !rec_square(g, sq, diff)) return false;
  s->axes = rec_axes(g, rec_uncast(var));
  return s->axes != 0;
}

static bool standardised(Graph *g, Node *root, Std *s) {
  for (int order = 0; order < 2; order++) {
    Node *num, *den, *v, *diff;
    if (!rec_quotient(g, root, order, &num, &den) || !rec_root(g, den, &v)) continue;
    Node *var;
    if (rec_plus(g, v, &var, &s->eps) && s->eps >= 0 && is_variance(g, var, num, &s->axes))
      diff = num;
    else if (!mean_square(g, v, &diff, s) || rec_uncast(diff) != rec_uncast(num))
      continue;
    s->centred = centred(g, rec_uncast(diff), s->axes, &s->x);
    if (!s->centred) s->x = num;
    return true;
  }
  return false;
}

// The axes in the order in which those of the set come last.
static void axes_last(unsigned axes, int rank, int64_t *perm) {
  int n = 0;
  for (int last = 0; last < 2; last++)
    for (int i = 0; i < rank; i++)
      if ((int)(axes >> i & 1) == last) perm[n++] = i;
}

// A norm with scale 1; where the axes are not the last ones, they are made so, and put back.
static Node *plain_norm(Graph *g, const Std *s, DType t) {
  int rank = type_of(s->x)->rank, count = 0;
  int64_t perm[MAX_RANK], back[MAX_RANK];
  axes_last(s->axes, rank, perm);
  perm_inverse(rank, perm, back);
  for (int i = 0; i < rank; i++) count += s->axes >> i & 1;
  Node *x = transpose_to(g, s->x, rank, perm), *one = node_scalar(g, t, 1), *y;
  layer_normalization_attrs layer = {.axis = -count, .epsilon = s->eps, .stash_type = 1};
  rms_normalization_attrs rms = {.axis = -count, .epsilon = s->eps, .stash_type = 1};
  y = s->centred ? NA(g, layer_normalization, &layer, x, one)
                 : NA(g, rms_normalization, &rms, x, one);
  return transpose_to(g, y, rank, back);
}

static Node *make_standard(Graph *g, const Match *m) {
  Std s;
  if (!standardised(g, m->root, &s)) return NULL;
  return plain_norm(g, &s, type_of(m->root)->dtype);
}

// ---- x inv + (beta - mean inv), inv = gamma / sqrt(var + eps): what Keras writes ----

static bool inverse_root(Graph *g, Node *n, Node **v) {
  double power;
  if (n->op == OP_reciprocal) return rec_root(g, n->src[0], v);
  if (n->op == OP_div && rec_is(g, n->src[0], 1)) return rec_root(g, n->src[1], v);
  if (n->op == OP_pow && rec_number(g, n->src[1], &power) && power == -0.5)
    return *v = n->src[0], true;
  return false;
}

static bool over_last_axes(Graph *g, const Node *p, const Type *x, int axis);

static Node *make_folded(Graph *g, const Match *m) {
  Node *x = m->var[SLOT_a], *inv = m->var[SLOT_b], *beta = m->var[SLOT_c], *mean = m->var[SLOT_d];
  if (mean->op != OP_reduce_mean || mean->src[0] != x) return NULL;
  for (int i = 0; i < 2; i++) {
    Node *gamma = inv->op == OP_mul ? inv->src[i] : node_scalar(g, type_of(x)->dtype, 1);
    Node *r = inv->op == OP_mul ? inv->src[1 - i] : inv, *v, *diff, *from;
    Std s;
    if (!inverse_root(g, r, &v) || !mean_square(g, v, &diff, &s)) continue;
    if (!centred(g, diff, s.axes, &from) || from != x || rec_axes(g, mean) != s.axes) continue;
    int axis = rec_trailing(s.axes, type_of(x)->rank);
    if (axis < 0 || !over_last_axes(g, gamma, type_of(x), axis) ||
        !over_last_axes(g, beta, type_of(x), axis)) {
      s.x = x;
      s.centred = true;
      return N(g, add, N(g, mul, plain_norm(g, &s, type_of(x)->dtype), gamma), beta);
    }
    layer_normalization_attrs at = {
        .axis = axis - type_of(x)->rank, .epsilon = s.eps, .stash_type = 1};
    return NA(g, layer_normalization, &at, x, gamma, beta);
  }
  return NULL;
}

// ---- scale and bias ----

// Does a parameter vary along the normalised axes alone?
static bool over_last_axes(Graph *g, const Node *p, const Type *x, int axis) {
  const Type *t = type_of(p);
  (void)g;
  if (t->kind != TK_TENSOR || t->rank < 0 || t->rank > x->rank) return false;
  for (int i = 0; i < t->rank; i++) {
    int at = i + x->rank - t->rank;
    if (!ie_is(t->dims[i], 1) && (at < axis || t->dims[i] != x->dims[at])) return false;
  }
  return true;
}

static int first_axis(const Node *norm) {  // of a layer or rms norm: the attributes begin alike
  int64_t axis = norm->op == OP_layer_normalization
                     ? ((const layer_normalization_attrs *)norm->attrs)->axis
                     : ((const rms_normalization_attrs *)norm->attrs)->axis;
  return (int)(axis < 0 ? axis + type_of(norm)->rank : axis);
}
static bool fits_norm(const Match *m) {
  const Node *norm = m->var[SLOT_p];
  // A result of 8 bits was meant: such a rounding stays.
  return norm->nres == 1 && type_of(norm)->rank > 0 && dtype_bits(type_of(norm)->dtype) > 8 &&
         over_last_axes(m->g, m->var[SLOT_b], type_of(norm), first_axis(norm));
}
static Node *scale_layer(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p];
  return NA(g, layer_normalization, norm->attrs, rec_uncast(norm->src[0]), m->var[SLOT_b]);
}
static Node *scale_layer_same(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p];
  return NA(g, layer_normalization, norm->attrs, norm->src[0], m->var[SLOT_b]);
}
static Node *bias_layer(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p];
  return NA(g, layer_normalization, norm->attrs, norm->src[0], norm->src[1], m->var[SLOT_b]);
}
// The wide type was for the sums alone, which are wide in any case.
static Node *narrow_norm(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p], *src[3] = {NULL};
  for (uint32_t i = 0; i < norm->nsrc; i++) src[i] = norm->src[i];
  src[0] = rec_uncast(src[0]);
  if (type_of(src[0]) != type_of(m->root)) return NULL;
  if (norm->op == OP_rms_normalization) {
    src[1] = rec_uncast(src[1]);
    double one;
    DType t = type_of(src[0])->dtype;
    bool known = node_splat(g, src[1], &one);
    if (known && one != 0 && !is_normal_in(t, one)) return NULL;
    if (known) src[1] = node_scalar(g, t, one);
  }
  return node_new(g, norm->op, (int)norm->nsrc, src, norm->attrs, 1, m->root->name);
}
static Node *scale_rms(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p];
  return NA(g, rms_normalization, norm->attrs, rec_uncast(norm->src[0]), m->var[SLOT_b]);
}
static Node *scale_rms_same(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p];
  return NA(g, rms_normalization, norm->attrs, norm->src[0], m->var[SLOT_b]);
}

// A parameter of the result of `transposed`, as one of the last axes of its operand; NULL
// when it is none.
static Node *transposed_parameter(Graph *g, Node *p, const Node *transposed, int axis) {
  const Type *t = type_of(p), *y = type_of(transposed);
  int64_t perm[MAX_RANK], back[MAX_RANK];
  Dim dims[MAX_RANK];
  if (t->kind != TK_TENSOR || t->rank < 0 || t->rank > y->rank) return NULL;
  int rank = transpose_perm(transposed, perm);
  if (rank != y->rank) return NULL;
  for (int i = 0; i < rank; i++)
    dims[i] = i < rank - t->rank ? g->dims.one : t->dims[i - (rank - t->rank)];
  Node *whole = reshape_to(g, p, type_tensor(g, t->dtype, rank, dims));
  if (!whole) return NULL;
  perm_inverse(rank, perm, back);
  whole = transpose_to(g, whole, rank, back);
  const Type *w = type_of(whole), *x = type_of(transposed->src[0]);
  for (int i = 0; i < rank; i++)
    if (!ie_is(w->dims[i], 1) && (i < axis || w->dims[i] != x->dims[i])) return NULL;
  return reshape_to(g, whole, type_tensor(g, t->dtype, rank - axis, w->dims + axis));
}

// transpose(norm(a, 1)) b and transpose(norm(a, w)) + b, where b varies along the normalised axes.
static Node *transposed_affine(Graph *g, const Match *m) {
  const Node *norm = m->var[SLOT_p], *transposed = m->var[SLOT_q];
  bool add = m->root->op == OP_add;
  Node *p = transposed_parameter(g, m->var[SLOT_b], transposed, first_axis(norm));
  if (!p || norm->nres != 1 || type_of(m->root) != type_of(transposed)) return NULL;
  Node *src[3] = {norm->src[0], add ? norm->src[1] : p, p};
  Node *y = node_new(g, norm->op, add ? 3 : 2, src, norm->attrs, 1, m->root->name);
  int64_t perm[MAX_RANK];
  int rank = transpose_perm(transposed, perm);
  return y == g->poison ? NULL : transpose_to(g, y, rank, perm);
}

// A reduction whose axes are put back by a reshape: it keeps them.
static Node *keep_axes(Graph *g, const Match *m) {
  const Node *reduce = m->var[SLOT_p];
  reduce_attrs at = *(const reduce_attrs *)reduce->attrs;
  if (at.keepdims || type_of(reduce->src[0])->rank < 1) return NULL;
  at.keepdims = true;
  Node *y = node_new(g, reduce->op, (int)reduce->nsrc, reduce->src, &at, 1, m->root->name);
  return y != g->poison && type_of(y) == type_of(m->root) ? y : NULL;
}

// ---- instance and group norm ----

static Node *splat_vector(Graph *g, DType t, int64_t n, double v) {
  Node *one = node_scalar(g, t, v);
  const Value *x = node_known(g, one);
  int64_t size = 0;
  if (!x || n > 4096 || !dtype_bytes(t, 1, &size)) return NULL;
  char *bytes = arena_alloc(&g->scratch, size * MAX(n, 1));
  for (int64_t i = 0; i < n; i++) memcpy(bytes + i * size, x->data, (size_t)size);
  return node_const(g, t, 1, &n, bytes, NULL);
}

// The layer norm of axes 2 and on, with a scale and a bias by channel.
static Node *make_instance(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p], *x = norm->src[0];
  const Type *t = type_of(x);
  const layer_normalization_attrs *at = norm->attrs;
  if (t->rank < 3 || first_axis(norm) != 2) return NULL;
  Node *w = rec_vector(g, m->var[SLOT_b], t, 1), *bias = rec_vector(g, m->var[SLOT_c], t, 1);
  if (!w || !bias) return NULL;
  return NA(g, instance_normalization, (&(instance_normalization_attrs){.epsilon = at->epsilon}), x,
            w, bias);
}

// reshape(norm(reshape(x, [n, groups, ...]))): p the outer, q the norm, r the inner one.
static bool grouped(const Match *m, int64_t *groups) {
  const Type *t = type_of(m->root), *u = type_of(m->var[SLOT_r]), *x = type_of(m->var[SLOT_a]);
  if (t->rank < 2 || x->rank < 2 || t->dims[0] != x->dims[0] || t->dims[1] != x->dims[1])
    return false;
  if (u->rank < 3 || u->dims[0] != t->dims[0]) return false;
  if (!ie_is_const(u->dims[1]) || !ie_is_const(t->dims[1])) return false;
  *groups = u->dims[1]->value;
  return *groups > 0 && t->dims[1]->value % *groups == 0;
}
static Node *group_of(Graph *g, const Match *m, double eps) {
  int64_t groups;
  DType t = type_of(m->root)->dtype;
  if (!grouped(m, &groups)) return NULL;
  Node *one = splat_vector(g, t, groups, 1), *zero = splat_vector(g, t, groups, 0);
  Node *x = reshape_to(g, m->var[SLOT_a], type_of(m->root));
  if (!one || !zero || !x) return NULL;
  return NA(g, group_normalization,
            (&(group_normalization_attrs){.epsilon = eps, .num_groups = groups, .stash_type = 1}),
            x, one, zero);
}
static Node *group_of_layer(Graph *g, const Match *m) {
  const layer_normalization_attrs *at = m->var[SLOT_q]->attrs;
  if (first_axis(m->var[SLOT_q]) != 2) return NULL;
  return group_of(g, m, at->epsilon);
}
static Node *group_of_instance(Graph *g, const Match *m) {
  const instance_normalization_attrs *at = m->var[SLOT_q]->attrs;
  return group_of(g, m, at->epsilon);
}
static Node *affine_channels(Graph *g, const Match *m) {
  Node *norm = m->var[SLOT_p], *x = norm->src[0];
  Node *src[] = {x, rec_vector(g, m->var[SLOT_c], type_of(x), 1),
                 rec_vector(g, m->var[SLOT_b], type_of(x), 1)};
  if (!src[1] || !src[2]) return NULL;
  return node_new(g, norm->op, 3, src, norm->attrs, 1, m->root->name);
}

// ---- softmax ----

static int one_axis(unsigned axes) {
  if (!axes || axes & (axes - 1)) return -1;
  int i = 0;
  while (!(axes >> i & 1)) i++;
  return i;
}
// x where z = x - max(x) over the axes, else z itself.
static Node *unshifted(Graph *g, Node *z, unsigned axes) {
  if (z->op == OP_sub && rec_reduced(z->src[1], OP_reduce_max) == z->src[0] &&
      rec_axes(g, z->src[1]) == axes)
    return z->src[0];
  return z;
}
static Node *make_softmax(Graph *g, const Match *m) {
  for (int order = 0; order < 2; order++) {
    Node *exps, *sum;
    if (!rec_quotient(g, m->root, order, &exps, &sum) || exps->op != OP_exp) continue;
    if (rec_reduced(sum, OP_reduce_sum) != exps) continue;
    unsigned axes = rec_axes(g, sum);
    int axis = one_axis(axes);
    if (axis < 0) continue;
    return NA(g, softmax, (&(softmax_attrs){.axis = axis - type_of(exps)->rank}),
              unshifted(g, exps->src[0], axes));
  }
  return NULL;
}
static Node *log_softmax_of(Graph *g, Node *x, unsigned axes) {
  int axis = one_axis(axes);
  if (axis < 0) return NULL;
  return NA(g, log_softmax, (&(log_softmax_attrs){.axis = axis - type_of(x)->rank}),
            unshifted(g, x, axes));
}
static Node *make_log_softmax(Graph *g, const Match *m) {  // z - log(sum(exp(z)))
  Node *z = m->var[SLOT_a], *sum = m->var[SLOT_p];
  return sum->src[0]->op == OP_exp && sum->src[0]->src[0] == z
             ? log_softmax_of(g, z, rec_axes(g, sum))
             : NULL;
}
static Node *make_log_softmax_max(Graph *g, const Match *m) {  // x - (log(sum(exp(x - max))) + max)
  Node *x = m->var[SLOT_a], *sum = m->var[SLOT_p], *max = m->var[SLOT_q];
  unsigned axes = rec_axes(g, sum);
  if (sum->src[0]->op != OP_exp || rec_reduced(max, OP_reduce_max) != x || rec_axes(g, max) != axes)
    return NULL;
  const Node *z = sum->src[0]->src[0];
  if (z->op != OP_sub || z->src[0] != x || z->src[1] != max) return NULL;
  return log_softmax_of(g, x, axes);
}
static Node *make_log_softmax_lse(Graph *g, const Match *m) {
  return log_softmax_of(g, m->var[SLOT_a], rec_axes(g, m->var[SLOT_p]));
}
static Node *make_log_of_softmax(Graph *g, const Match *m) {
  const softmax_attrs *at = m->var[SLOT_p]->attrs;
  return NA(g, log_softmax, (&(log_softmax_attrs){.axis = at->axis}), m->var[SLOT_a]);
}
// transpose(softmax(transpose(x))) where the outer undoes the inner
static Node *make_transposed_softmax(Graph *g, const Match *m) {
  int64_t outer[MAX_RANK], inner[MAX_RANK];
  const softmax_attrs *at = m->var[SLOT_p]->attrs;
  int rank = type_of(m->root)->rank;
  if (transpose_perm(m->root, outer) < 0 || transpose_perm(m->var[SLOT_q], inner) < 0) return NULL;
  for (int i = 0; i < rank; i++)
    if (inner[outer[i]] != i) return NULL;
  int64_t axis = inner[at->axis < 0 ? at->axis + rank : at->axis];
  return NA(g, softmax, (&(softmax_attrs){.axis = axis}), m->var[SLOT_a]);
}

#define F(body) "(%x: f32[n, 3, 8], %w: f32[8], %b: f32[8]) { " body " return %r }"
#define H(body) "(%x: f16[n, 3, 8], %w: f16[8], %v: f32[8]) { " body " return %r }"
#define C(body) "(%x: f32[2, 4, 3, 5], %w: f32[4, 1, 1], %b: f32[4, 1, 1]) { " body " return %r }"
#define ONE     "%one = const f32[] {1} "
#define MEAN    "%ax = const i64[1] {-1} %m = reduce_mean(%x, %ax) %d = sub(%x, %m) "
#define STD                                                                                        \
  "%eps = const f32[] {1e-3} %s = mul(%d, %d) %v = reduce_mean(%s, %ax) %ve = add(%v, %eps) %q = " \
  "sqrt(%ve) "
#define RMS                                                                                        \
  "%ax = const i64[1] {-1} %eps = const f32[] {1e-3} %s = mul(%x, %x) %v = reduce_mean(%s, %ax) "  \
  "%ve = add(%v, %eps) %q = sqrt(%ve) "
#define LN1            ONE "%n = layer_normalization(%x, %one) "
#define RMS1           ONE "%n = rms_normalization(%x, %one) "
#define BACK           "%sh = shape(%x) %r = reshape(%i, %sh)"
#define TO_GROUPS      "%gs = const i64[3] {0, 2, -1} %g = reshape(%x, %gs) "
#define LAST           "%ax = const i64[1] {-1} "
#define TRANSPOSE      "%u = transpose(%x) perm=[0, 2, 3, 1] "
#define TRANSPOSE_BACK "%v = transpose(%n) perm=[0, 3, 1, 2] "
#define KEEP(op)                                                                                   \
  "%s = " #op "(%x, %ax) keepdims=false %k = const i64[3] {0, 3, 1} %r = reshape(%s, %k)"

static const Rule norm[] = {
    // clang-format off
    RULE("layer_norm.div",   P(div, a, b), .make = make_standard, .fast = FAST_APPROX, .example = F(MEAN STD "%r = div(%d, %q)")),
    RULE("layer_norm.mul",   P(mul, a, b), .make = make_standard, .fast = FAST_APPROX, .example = F(RMS "%i = reciprocal(%q) %r = mul(%x, %i)")),
    RULE("layer_norm.keras", P(add, P(mul, a, b), P(sub, c, P(mul, d, b))), .make = make_folded, .fast = FAST_APPROX,
         .example = F(MEAN STD "%i = reciprocal(%q) %iw = mul(%i, %w) %l = mul(%x, %iw) %mw = mul(%m, %iw) %c = sub(%b, %mw) %r = add(%l, %c)")),
    RULE("layer_norm.scale", P(mul, BIND_ONCE(p, layer_normalization, a, NUM(1)), b), .when = fits_norm, .make = scale_layer_same, .fast = FAST_APPROX,
         .example = F(LN1 "%r = mul(%n, %w)")),
    RULE("layer_norm.cast_scale", P(mul, ONCE(cast, BIND_ONCE(p, layer_normalization, a, NUM(1))), b), .when = fits_norm, .make = scale_layer, .fast = FAST_APPROX,
         .example = H(ONE "%c = cast(%x) to=f32 %n = layer_normalization(%c, %one) %h = cast(%n) to=f16 %r = mul(%h, %w)")),
    RULE("layer_norm.bias",  P(add, BIND_ONCE(p, layer_normalization, a, c), b), .when = fits_norm, .make = bias_layer, .fast = FAST_APPROX,
         .example = F("%n = layer_normalization(%x, %w) %r = add(%n, %b)")),
    RULE("layer_norm.cast",  P(cast, BIND_ONCE(p, layer_normalization, P(cast, a), b)), .make = narrow_norm, .fast = FAST_APPROX,
         .example = H("%c = cast(%x) to=f32 %n = layer_normalization(%c, %v) %r = cast(%n) to=f16")),
    RULE("layer_norm.cast_bias", P(cast, BIND_ONCE(p, layer_normalization, P(cast, a), b, c)), .make = narrow_norm, .fast = FAST_APPROX,
         .example = H("%c = cast(%x) to=f32 %n = layer_normalization(%c, %v, %v) %r = cast(%n) to=f16")),
    RULE("rms_norm.scale",   P(mul, BIND_ONCE(p, rms_normalization, a, NUM(1)), b), .when = fits_norm, .make = scale_rms_same, .fast = FAST_APPROX,
         .example = F(RMS1 "%r = mul(%n, %w)")),
    RULE("rms_norm.cast_scale", P(mul, ONCE(cast, BIND_ONCE(p, rms_normalization, a, NUM(1))), b), .when = fits_norm, .make = scale_rms, .fast = FAST_APPROX,
         .example = H(ONE "%c = cast(%x) to=f32 %n = rms_normalization(%c, %one) %h = cast(%n) to=f16 %r = mul(%h, %w)")),
    RULE("rms_norm.cast",    P(cast, BIND_ONCE(p, rms_normalization, P(cast, a), b)), .make = narrow_norm, .fast = FAST_APPROX,
         .example = H("%c = cast(%x) to=f32 %wv = cast(%w) to=f32 %n = rms_normalization(%c, %wv) %r = cast(%n) to=f16")),
    RULE("layer_norm.transposed_scale", P(mul, BIND_ONCE(q, transpose, BIND_ONCE(p, layer_normalization, a, NUM(1))), b), .make = transposed_affine, .fast = FAST_APPROX,
         .example = C(TRANSPOSE ONE "%n = layer_normalization(%u, %one) " TRANSPOSE_BACK "%r = mul(%v, %w)")),
    RULE("layer_norm.transposed_bias", P(add, BIND_ONCE(q, transpose, BIND_ONCE(p, layer_normalization, a, c)), b), .make = transposed_affine, .fast = FAST_APPROX,
         .example = C(TRANSPOSE "%s = const f32[4] {1, 2, 0.5, -1} %n = layer_normalization(%u, %s) " TRANSPOSE_BACK "%r = add(%v, %b)")),
    RULE("rms_norm.transposed_scale", P(mul, BIND_ONCE(q, transpose, BIND_ONCE(p, rms_normalization, a, NUM(1))), b), .make = transposed_affine, .fast = FAST_APPROX,
         .example = C(TRANSPOSE ONE "%n = rms_normalization(%u, %one) " TRANSPOSE_BACK "%r = mul(%v, %w)")),
    RULE("reduce_mean.keep", P(reshape, BIND_ONCE(p, reduce_mean, a, b), c), .make = keep_axes, .example = F(LAST KEEP(reduce_mean))),
    RULE("reduce_max.keep",  P(reshape, BIND_ONCE(p, reduce_max, a, b), c), .make = keep_axes, .example = F(LAST KEEP(reduce_max))),
    RULE("reduce_sum.keep",  P(reshape, BIND_ONCE(p, reduce_sum, a, b), c), .make = keep_axes, .example = F(LAST KEEP(reduce_sum))),
    RULE("instance_norm.layer", P(add, P(mul, BIND_ONCE(p, layer_normalization, a, NUM(1)), b), c), .make = make_instance, .fast = FAST_APPROX,
         .example = C(ONE "%n = layer_normalization(%x, %one) axis=2 %s = mul(%n, %w) %r = add(%s, %b)")),
    RULE("group_norm.instance", P(reshape, BIND_ONCE(q, instance_normalization, BIND(r, reshape, a, d), NUM(1), NUM(0)), c), .make = group_of_instance, .fast = FAST_APPROX,
         .example = C(TO_GROUPS "%o = const f32[2] {1, 1} %z = const f32[2] {0, 0} %i = instance_normalization(%g, %o, %z) " BACK)),
    RULE("group_norm.layer", P(reshape, BIND_ONCE(q, layer_normalization, BIND(r, reshape, a, d), NUM(1)), c), .make = group_of_layer, .fast = FAST_APPROX,
         .example = C(TO_GROUPS ONE "%i = layer_normalization(%g, %one) " BACK)),
    RULE("group_norm.affine", P(add, ONCE(mul, BIND_ONCE(p, group_normalization, a, NUM(1), NUM(0)), c), b), .make = affine_channels, .fast = FAST_APPROX,
         .example = C("%o = const f32[2] {1, 1} %z = const f32[2] {0, 0} %n = group_normalization(%x, %o, %z) num_groups=2 %s = mul(%n, %w) %r = add(%s, %b)")),
    RULE("instance_norm.affine", P(add, ONCE(mul, BIND_ONCE(p, instance_normalization, a, NUM(1), NUM(0)), c), b), .make = affine_channels, .fast = FAST_APPROX,
         .example = C("%o = const f32[4] {1, 1, 1, 1} %z = const f32[4] {0, 0, 0, 0} %n = instance_normalization(%x, %o, %z) %s = mul(%n, %w) %r = add(%s, %b)")),
    RULE("softmax.div",      P(div, a, b), .make = make_softmax, .fast = FAST_APPROX,
         .example = F(LAST "%m = reduce_max(%x, %ax) %d = sub(%x, %m) %e = exp(%d) %s = reduce_sum(%e, %ax) %r = div(%e, %s)")),
    RULE("softmax.mul",      P(mul, a, b), .make = make_softmax, .fast = FAST_APPROX,
         .example = F(LAST "%e = exp(%x) %s = reduce_sum(%e, %ax) %i = reciprocal(%s) %r = mul(%e, %i)")),
    RULE("softmax.transposed", P(transpose, BIND_ONCE(p, softmax, BIND(q, transpose, a))), .make = make_transposed_softmax,
         .example = F("%t = transpose(%x) perm=[0, 2, 1] %s = softmax(%t) %r = transpose(%s) perm=[0, 2, 1]")),
    RULE("log_softmax.log",  P(log, BIND(p, softmax, a)), .make = make_log_of_softmax, .fast = FAST_APPROX, .example = F("%s = softmax(%x) %r = log(%s)")),
    RULE("log_softmax.sum",  P(sub, a, P(log, BIND(p, reduce_sum, b, c))), .make = make_log_softmax, .fast = FAST_APPROX,
         .example = F(LAST "%m = reduce_max(%x, %ax) %d = sub(%x, %m) %e = exp(%d) %s = reduce_sum(%e, %ax) %l = log(%s) %r = sub(%d, %l)")),
    RULE("log_softmax.sum_max", P(sub, a, P(add, P(log, BIND(p, reduce_sum, b, c)), BIND(q, reduce_max, a, c))), .make = make_log_softmax_max, .fast = FAST_APPROX,
         .example = F(LAST "%m = reduce_max(%x, %ax) %d = sub(%x, %m) %e = exp(%d) %s = reduce_sum(%e, %ax) %l = log(%s) %t = add(%l, %m) %r = sub(%x, %t)")),
    RULE("log_softmax.lse",  P(sub, a, BIND(p, reduce_log_sum_exp, a, b)), .make = make_log_softmax_lse, .fast = FAST_APPROX,
         .example = F(LAST "%l = reduce_log_sum_exp(%x, %ax) %r = sub(%x, %l)")),
    // clang-format on
};
const RuleSet rules_recognise_norm =
    RULES("recognise_norm", norm, "each rule leaves fewer nodes that are not composites");
