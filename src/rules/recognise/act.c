// act.c -- activations that came in pieces: gelu, swish, hard-swish, mish, softplus and
// their kin.
//
// An activation is a polynomial of x and of one inner function t(p(x)), where p is a polynomial as
// well.  Reading both as polynomials makes the order of products and sums not matter: 0.5 x (1 +
// erf(x / sqrt 2)) and x (0.5 erf(...) + 0.5) have the same coefficients.
#include "eval/activation.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"

#include <math.h>

// ---- looking for the inner function and for x ----

enum { NEAR_DEPTH = 5, NEAR_MAX = 32 };
typedef struct Near {
  Node *v[NEAR_MAX];
  int n;
} Near;

// Nodes below one through element-wise arithmetic, nearest first.
static void near_nodes(Graph *g, Node *from, Near *out) {
  int begin = 0, end = 0;
  out->n = 0;
  out->v[out->n++] = from;
  for (int depth = 0; depth < NEAR_DEPTH; depth++) {
    begin = end;
    end = out->n;
    for (int i = begin; i < end; i++) {
      const Node *n = out->v[i];
      if (n->op != OP_add && n->op != OP_sub && n->op != OP_mul && n->op != OP_div &&
          n->op != OP_neg && n->op != OP_pow)
        continue;
      for (uint32_t k = 0; k < n->nsrc && out->n < NEAR_MAX; k++)
        if (n->src[k]->op != OP_const && n->src[k] != g->none) out->v[out->n++] = n->src[k];
    }
  }
}

typedef struct Shape {
  int op;      // of the inner function
  Poly inner;  // its operand in x
  Poly outer;  // the whole, in x and t
} Shape;

// x where n is outer(x, t(inner(x))); NULL when it is not.
static Node *find_x(Graph *g, Node *n, const Shape *s) {
  Near tops, xs;
  DType dt = type_of(n)->dtype;
  near_nodes(g, n, &tops);
  for (int i = 1; i < tops.n; i++) {
    Node *t = tops.v[i];
    if (t->op != s->op) continue;
    near_nodes(g, t->src[0], &xs);
    for (int k = 0; k < xs.n; k++) {
      Poly p;
      if (type_of(xs.v[k]) != type_of(n)) continue;
      if (!rec_poly(g, t->src[0], xs.v[k], NULL, p) ||
          !rec_poly_is(dt, (const double(*)[POLY_T])p, s->inner))
        continue;
      if (rec_poly(g, n, xs.v[k], t, p) && rec_poly_is(dt, (const double(*)[POLY_T])p, s->outer))
        return xs.v[k];
    }
  }
  return NULL;
}

#define HALF_X_1_PLUS_T                                                                            \
  {                                                                                                \
    [1] = { 0.5, 0.5 }                                                                             \
  }
#define X_TIMES_T                                                                                  \
  {                                                                                                \
    [1] = { 0, 1 }                                                                                 \
  }

static const Shape gelu_erf = {OP_erf, {[1] = {0.70710678118654752440}}, HALF_X_1_PLUS_T};
static const Shape gelu_tanh = {
    OP_tanh, {[1] = {0.79788456080286535588}, [3] = {0.035677408136300125}}, HALF_X_1_PLUS_T};
static const Shape swish_self = {OP_sigmoid, {[1] = {1}}, X_TIMES_T};
static const Shape swish_quick = {OP_sigmoid, {[1] = {1.702}}, X_TIMES_T};
static const Shape hard_gate = {OP_clip, {[0] = {3}, [1] = {1}}, {[0] = {0, 1.0 / 6}}};
static const Shape hard_whole = {OP_clip, {[0] = {3}, [1] = {1}}, {[1] = {0, 1.0 / 6}}};

static Node *make_gelu_erf(Graph *g, const Match *m) {
  Node *x = find_x(g, m->root, &gelu_erf);
  return x ? N(g, gelu, x) : NULL;
}
static Node *make_gelu_tanh(Graph *g, const Match *m) {
  Node *x = find_x(g, m->root, &gelu_tanh);
  return x ? NA(g, gelu, (&(gelu_attrs){.approximate = 1}), x) : NULL;
}
static Node *make_swish(Graph *g, const Match *m) {
  Node *x = find_x(g, m->root, &swish_self);
  if (x) return N(g, swish, x);
  x = find_x(g, m->root, &swish_quick);
  return x ? NA(g, swish, (&(swish_attrs){.alpha = 1.702}), x) : NULL;
}

// ---- hard sigmoid and hard swish ----

// Is this clip between 0 and 6?
static bool clips_0_6(Graph *g, const Node *n) {
  const Node *lo = src_or_null(g, n, 1), *hi = src_or_null(g, n, 2);
  return n->op == OP_clip && lo && hi && rec_is(g, lo, 0) && rec_is(g, hi, 6);
}
static bool has_clip(Graph *g, Node *n) {
  Near tops;
  near_nodes(g, n, &tops);
  for (int i = 0; i < tops.n; i++)
    if (clips_0_6(g, tops.v[i])) return true;
  return false;
}
static Node *make_hard_sigmoid(Graph *g, const Match *m) {
  if (!has_clip(g, m->root)) return NULL;
  Node *x = find_x(g, m->root, &hard_gate);
  return x ? NA(g, hard_sigmoid, (&(hard_sigmoid_attrs){.alpha = 1.0 / 6, .beta = 0.5}), x) : NULL;
}
static Node *make_hard_swish(Graph *g, const Match *m) {
  if (!has_clip(g, m->root)) return NULL;
  Node *x = find_x(g, m->root, &hard_whole);
  return x ? N(g, hard_swish, x) : NULL;
}
static bool is_sixth(const Match *m) {
  const hard_sigmoid_attrs *at = m->var[SLOT_p]->attrs;
  DType t = type_of(m->root)->dtype;
  return rec_close(t, at->alpha, 1.0 / 6) && rec_close(t, at->beta, 0.5);
}

// ---- clip in two steps ----

static Node *clip_between(Graph *g, Node *x, double lo, double hi) {
  DType t = type_of(x)->dtype;
  return N(g, clip, x, node_scalar(g, t, lo), node_scalar(g, t, hi));
}
static Node *make_clip(Graph *g, const Match *m) {  // min(max(a, b), c), either way round
  double v, w;
  if (!rec_number(g, m->var[SLOT_b], &v) || !rec_number(g, m->var[SLOT_c], &w)) return NULL;
  bool max_inside = m->root->op == OP_min;
  double lo = max_inside ? v : w, hi = max_inside ? w : v;
  return lo <= hi ? clip_between(g, m->var[SLOT_a], lo, hi) : NULL;
}
static Node *make_relu_clip(Graph *g, const Match *m) {
  double hi;
  if (!rec_number(g, m->var[SLOT_b], &hi) || hi < 0) return NULL;
  return clip_between(g, m->var[SLOT_a], 0, hi);
}

// ---- softplus ----

static bool is_positive_threshold(const Match *m) {
  double v;
  return rec_number(m->g, m->var[SLOT_b], &v) && v >= 10;
}

#define F(body) "(%x: f32[n, 4]) { " body " return %r }"
#define ONE     "%one = const f32[] {1} "
#define HALF    "%half = const f32[] {0.5} "
#define ERF     "%k = const f32[] {1.4142135} %d = div(%x, %k) %e = erf(%d) "
#define CUBE    "%k3 = const f32[] {0.044715} %k1 = const f32[] {0.7978846} "
#define CLIP36                                                                                     \
  "%c3 = const f32[] {3} %z = const f32[] {0} %c6 = const f32[] {6} %a = add(%x, %c3) %c = "       \
  "clip(%a, %z, %c6) "
#define MAXMIN "%lo = const f32[] {-1} %hi = const f32[] {0.5} "

static const Rule act[] = {
    // clang-format off
    RULE("gelu.erf",         P(mul, a, b), .make = make_gelu_erf, .fast = FAST_APPROX,
         .example = F(ERF ONE HALF "%s = add(%e, %one) %h = mul(%x, %half) %r = mul(%h, %s)")),
    RULE("gelu.erf_sum",     P(add, a, b), .make = make_gelu_erf, .fast = FAST_APPROX,
         .example = F(ERF HALF "%h = mul(%x, %half) %s = mul(%h, %e) %r = add(%h, %s)")),
    RULE("gelu.erf_half",    P(div, a, NUM(2)), .make = make_gelu_erf, .fast = FAST_APPROX,
         .example = F(ERF ONE "%two = const f32[] {2} %s = add(%e, %one) %h = mul(%x, %s) %r = div(%h, %two)")),
    RULE("gelu.tanh",        P(mul, a, b), .make = make_gelu_tanh, .fast = FAST_APPROX,
         .example = F(CUBE ONE HALF "%three = const f32[] {3} %p = pow(%x, %three) %q = mul(%p, %k3) %s = add(%x, %q) %u = mul(%s, %k1) "
                      "%t = tanh(%u) %v = add(%t, %one) %h = mul(%x, %half) %r = mul(%h, %v)")),
    RULE("gelu.tanh_sum",    P(add, a, b), .make = make_gelu_tanh, .fast = FAST_APPROX,
         .example = F(CUBE ONE HALF "%x2 = mul(%x, %x) %q = mul(%x2, %k3) %s = add(%q, %one) %xk = mul(%x, %k1) %u = mul(%xk, %s) "
                      "%t = tanh(%u) %h = mul(%x, %half) %v = mul(%h, %t) %r = add(%v, %h)")),
    RULE("sigmoid.exp",      P(reciprocal, P(add, P(exp, P(neg, a)), NUM(1))), P(sigmoid, a), .fast = FAST_APPROX,
         .example = F(ONE "%m = neg(%x) %e = exp(%m) %s = add(%e, %one) %r = reciprocal(%s)")),
    RULE("sigmoid.div_exp",  P(div, NUM(1), P(add, P(exp, P(neg, a)), NUM(1))), P(sigmoid, a), .fast = FAST_APPROX,
         .example = F(ONE "%m = neg(%x) %e = exp(%m) %s = add(%e, %one) %r = div(%one, %s)")),
    RULE("swish.exp",        P(div, a, P(add, P(exp, P(neg, a)), NUM(1))), P(swish, a), .fast = FAST_APPROX,
         .example = F(ONE "%m = neg(%x) %e = exp(%m) %s = add(%e, %one) %r = div(%x, %s)")),
    RULE("swish.sigmoid",    P(mul, a, b), .make = make_swish, .fast = FAST_APPROX,
         .example = F("%s = sigmoid(%x) %r = mul(%x, %s)")),
    RULE("clip.min_max",     P(min, ONCE(max, a, K(b)), K(c)), .make = make_clip, .fast = FAST_NO_SZ,
         .example = F(MAXMIN "%m = max(%x, %lo) %r = min(%m, %hi)")),
    RULE("clip.max_min",     P(max, ONCE(min, a, K(b)), K(c)), .make = make_clip, .fast = FAST_NO_SZ,
         .example = F(MAXMIN "%m = min(%x, %hi) %r = max(%m, %lo)")),
    RULE("clip.min_relu",    P(min, ONCE(relu, a), K(b)), .make = make_relu_clip, .fast = FAST_NO_SZ,
         .example = F(MAXMIN "%m = relu(%x) %r = min(%m, %hi)")),
    RULE("hard_sigmoid.div", P(div, P(clip, a, b, c), NUM(6)), .make = make_hard_sigmoid, .fast = FAST_APPROX,
         .example = F(CLIP36 "%r = div(%c, %c6)")),
    RULE("hard_sigmoid.mul", P(mul, P(clip, a, b, c), d), .make = make_hard_sigmoid, .fast = FAST_APPROX,
         .example = F(CLIP36 "%k = const f32[] {0.16666667} %r = mul(%c, %k)")),
    RULE("hard_swish.div",   P(div, a, NUM(6)), .make = make_hard_swish, .fast = FAST_APPROX,
         .example = F(CLIP36 "%m = mul(%x, %c) %r = div(%m, %c6)")),
    RULE("hard_swish.mul",   P(mul, a, b), .make = make_hard_swish, .fast = FAST_APPROX,
         .example = F(CLIP36 "%k = const f32[] {0.16666667} %h = mul(%x, %k) %r = mul(%h, %c)")),
    RULE("hard_swish.gate",  P(mul, a, BIND(p, hard_sigmoid, a)), P(hard_swish, a), .when = is_sixth, .fast = FAST_APPROX,
         .example = F("%g = hard_sigmoid(%x) alpha=0.16666667 beta=0.5 %r = mul(%x, %g)")),
    RULE("softplus.log_exp", P(log, P(add, P(exp, a), NUM(1))), P(softplus, a), .fast = FAST_APPROX,
         .example = F(ONE "%e = exp(%x) %s = add(%e, %one) %r = log(%s)")),
    RULE("softplus.stable",  P(add, P(relu, a), P(log, P(add, P(exp, P(neg, P(abs, a))), NUM(1)))), P(softplus, a), .fast = FAST_APPROX,
         .example = F(ONE "%b = abs(%x) %m = neg(%b) %e = exp(%m) %s = add(%e, %one) %l = log(%s) %p = relu(%x) %r = add(%p, %l)")),
    RULE("softplus.where",   P(where, P(lt, K(b), a), a, P(softplus, a)), P(softplus, a), .when = is_positive_threshold, .fast = FAST_APPROX,
         .example = F("%k = const f32[] {20} %c = lt(%k, %x) %s = softplus(%x) %r = where(%c, %x, %s)")),
    RULE("softplus.where_le", P(where, P(le, a, K(b)), P(softplus, a), a), P(softplus, a), .when = is_positive_threshold, .fast = FAST_APPROX,
         .example = F("%k = const f32[] {20} %c = le(%x, %k) %s = softplus(%x) %r = where(%c, %s, %x)")),
    RULE("mish.tanh",        P(mul, a, P(tanh, P(softplus, a))), P(mish, a), .fast = FAST_APPROX,
         .example = F("%s = softplus(%x) %t = tanh(%s) %r = mul(%x, %t)")),
    RULE("softsign.div",     P(div, a, P(add, P(abs, a), NUM(1))), P(softsign, a), .fast = FAST_APPROX,
         .example = F(ONE "%b = abs(%x) %s = add(%b, %one) %r = div(%x, %s)")),
    // clang-format on
};
const RuleSet rules_recognise_act =
    RULES("recognise_act", act, "each rule leaves fewer nodes that are not composites");
