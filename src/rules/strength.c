// strength.c -- constants gathered, cheap ops for expensive ones, comparisons and logic that are
// decided.
//
// Runs after composites were recognised: some of it destroys their spellings.
#include "rules/affine.h"

#include "rules/factor.h"
#include "rules/letters.h"
#include "rules/rules.h"
#include "rules/shape.h"
#include "rules/sign.h"

#include <math.h>

static bool not_const(const Match *m, const Node *n) {
  (void)m;
  return n->op != OP_const;
}
#define Y(s) VAR(s, not_const)  // anything but a constant

static bool is_int(const Match *m) { return dtype_is_int(type_of(m->root)->dtype); }
static bool is_float(const Match *m) { return dtype_is_float(type_of(m->root)->dtype); }
static bool of_ints(const Match *m) { return dtype_is_int(type_of(m->var[SLOT_a])->dtype); }

// Every element a power of two, so that its reciprocal is exact, and stays so in the type.
static bool powers_of_two(const Match *m) {
  const Value *v = node_known(m->g, m->var[SLOT_b]);
  if (!v || !dtype_is_float(v->dtype) || dtype_bits(v->dtype) < 16) return false;
  for (int64_t i = 0; i < v->n; i++) {
    int power;
    double x = fabs(val_f64(v, i));
    if (frexp(x, &power) != 0.5 || power < -12 || power > 13) return false;
  }
  return true;
}

// ---- constants that are merged ----

static bool merges_product(const Match *m) {
  return product_fits(m->g, m->var[SLOT_b], m->var[SLOT_c]);
}
static bool merges_sum(const Match *m) { return sum_fits(m->g, m->var[SLOT_b], m->var[SLOT_c]); }
static bool merges_difference(const Match *m) {
  return difference_fits(m->g, m->var[SLOT_c], m->var[SLOT_b]);
}
static bool has_reciprocal(const Match *m) {
  return is_float(m) && reciprocal_fits(m->g, m->var[SLOT_b]);
}
static bool factors_add(const Match *m) {
  const Node *x = m->var[SLOT_b], *y = m->var[SLOT_c];
  return x->op != OP_const || y->op != OP_const || sum_fits(m->g, x, y);
}

// ---- powers ----

static bool of_positive(const Match *m) {
  return is_float(m) && node_not_negative(m->g, m->var[SLOT_a]);
}

// ---- integers and powers of two ----

// The power of an integer constant that is one; -1 when it is none.  Shape arithmetic stays as it
// is: sizes are followed through divisions, not through shifts.
static int power_of(const Match *m) {
  double v;
  const Node *n = m->root;
  if (!is_int(m) || n->sym || n->known || !node_splat(m->g, m->var[SLOT_b], &v)) return -1;
  int power;
  return v >= 1 && frexp(v, &power) == 0.5 && power <= 31 ? power - 1 : -1;
}
static Node *shift_instead(Graph *g, const Match *m) {
  int power = power_of(m);
  if (power < 0 || !node_not_negative(g, m->var[SLOT_a])) return NULL;
  DType t = type_of(m->root)->dtype;
  return power < dtype_bits(t) ? N(g, shift_right, m->var[SLOT_a], node_scalar(g, t, power)) : NULL;
}
// The remainder has the divisor's sign, so that it is the low bits of any number.
static Node *mask_instead(Graph *g, const Match *m) {
  int power = power_of(m);
  if (power < 0) return NULL;
  DType t = type_of(m->root)->dtype;
  return N(g, bit_and, m->var[SLOT_a], node_scalar(g, t, (double)((1ll << power) - 1)));
}

// ---- clip and its relatives: a range [lo, hi] ----

typedef struct Range {
  double lo, hi;
} Range;

static bool range_of(Graph *g, const Node *n, Range *out) {
  *out = (Range){-INFINITY, INFINITY};
  if (n->op == OP_relu) {
    out->lo = 0;
    return true;
  }
  if (n->op != OP_clip || !dtype_is_float(type_of(n)->dtype)) return false;
  Node *lo = src_or_null(g, n, 1), *hi = src_or_null(g, n, 2);
  if (lo && (lo->op != OP_const || !node_splat(g, lo, &out->lo))) return false;
  if (hi && (hi->op != OP_const || !node_splat(g, hi, &out->hi))) return false;
  return out->lo <= out->hi;
}

static double within(double x, Range r) { return x < r.lo ? r.lo : x > r.hi ? r.hi : x; }

// clip(clip(x)), clip(relu(x)), relu(clip(x)) => one clip.
static Node *merge_ranges(Graph *g, const Match *m) {
  const Node *inner = m->root->src[0];
  Range in, out;
  DType t = type_of(m->root)->dtype;
  if (!dtype_is_float(t) || !range_of(g, m->root, &out) || !range_of(g, inner, &in)) return NULL;
  Range r = {within(in.lo, out), within(in.hi, out)};
  Node *src[3] = {inner->src[0], g->none, g->none};
  if (r.lo > -INFINITY) src[1] = node_scalar(g, t, r.lo);
  if (r.hi < INFINITY) src[2] = node_scalar(g, t, r.hi);
  return node_new(g, OP_clip,
                  src[2] != g->none   ? 3
                  : src[1] != g->none ? 2
                                      : 1,
                  src, NULL, 1, m->root->name);
}

// ---- comparisons of indices ----

// The least and greatest value of an index tensor; unbounded where it is not known.
static bool index_range(Graph *g, const Node *n, int64_t *lo, int64_t *hi) {
  Affine form;
  if (!node_affine(g, n, &form)) return false;
  const Type *t = type_of(n);
  Dim end = form.base;
  for (int i = 0; i < form.rank; i++) {
    if (form.stride[i]->lo < 0) return false;
    end =
        ie_add(&g->dims, end, ie_mul(&g->dims, form.stride[i], ie_addc(&g->dims, t->dims[i], -1)));
  }
  *lo = form.base->lo;
  *hi = ie_is_poison(end) ? INT64_MAX : end->hi;
  return true;
}

static Node *decided(Graph *g, const Match *m) {
  Node *x = m->root->src[0], *y = m->root->src[1];
  int64_t xlo, xhi, ylo, yhi;
  if (!index_range(g, x, &xlo, &xhi) || !index_range(g, y, &ylo, &yhi)) return NULL;
  bool strict = m->root->op == OP_lt;
  int value = -1;
  if (strict ? xhi < ylo : xhi <= ylo) value = 1;
  if (strict ? xlo >= yhi : xlo > yhi) value = 0;
  const Type *t = type_of(m->root);
  Node *like = type_with_dtype(g, type_of(x), DT_BOOL) == t   ? x
               : type_with_dtype(g, type_of(y), DT_BOOL) == t ? y
                                                              : NULL;
  if (value < 0 || !like) return NULL;
  return N(g, expand, node_scalar(g, DT_BOOL, value), N(g, shape, like));
}

// ---- a neutral operand that only broadcasts ----

static Node *neutral_shape(Graph *g, const Match *m) {
  double v, neutral = m->root->op == OP_and;
  for (int i = 0; i < 2; i++) {
    Node *x = m->root->src[i];
    int64_t dims[MAX_RANK];
    const Type *t = type_of(x);
    if (x->op == OP_expand && x->src[0]->op == OP_const && node_splat(g, x->src[0], &v) &&
        v == neutral)
      return N(g, expand, m->root->src[1 - i], x->src[1]);
    if (x->op != OP_const || !node_splat(g, x, &v) || v != neutral) continue;
    for (int k = 0; k < t->rank; k++) dims[k] = t->dims[k]->value;
    return N(g, expand, m->root->src[1 - i], node_i64s(g, t->rank, dims));
  }
  return NULL;
}

// An attention's mask is broadcast anyway, but along its last axis, where a shorter one is padded.
static Node *mask_expand(Graph *g, const Match *m) {
  const Node *n = m->root;
  Node *src[16], *ex = src_or_null(g, n, 3);
  if (!ex || ex->op != OP_expand || n->nsrc > 16) return NULL;
  const Type *x = type_of(ex->src[0]), *t = type_of(ex);
  if (x->rank < 1 || x->dims[x->rank - 1] != t->dims[t->rank - 1]) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = i == 3 ? ex->src[0] : n->src[i];
  return node_with(g, n, src);
}

static bool all_true(Graph *g, const Node *n) {
  enum { MASK_MAX = 1 << 22 };
  const void *bytes;
  if (n->op == OP_expand) n = n->src[0];
  if (n->op != OP_const || type_of(n)->dtype != DT_BOOL || n->data->n > MASK_MAX) return false;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  if (const_bytes(g, n, &bytes, quiet)) return false;
  for (int64_t i = 0; i < n->data->n; i++)
    if (!((const uint8_t *)bytes)[i]) return false;
  return true;
}

// A mask that hides no key is none, if it reaches all of them.
static Node *mask_of_all(Graph *g, const Match *m) {
  const Node *n = m->root, *mask = src_or_null(g, n, 3);
  if (!mask || n->nsrc != 4 || n->nres != 1 || !all_true(g, mask)) return NULL;
  const Type *t = type_of(mask), *k = type_of(n->src[1]);
  if (t->rank < 1 || k->rank < 3 || t->dims[t->rank - 1] != k->dims[k->rank - 2]) return NULL;
  return NA(g, attention, n->attrs, n->src[0], n->src[1], n->src[2]);
}

// ---- reductions of nothing ----

static Node *reduce_units(Graph *g, const Match *m) {
  const Node *n = m->root, *x = n->src[0];
  Ints axes;
  if (n->nsrc != 2 || type_of(x)->rank < 0 || !node_ints(g, n->src[1], &axes) || !axes.n)
    return NULL;
  for (int64_t i = 0; i < axes.n; i++) {
    int axis = axis_of(axes.v[i], type_of(x)->rank);
    if (axis < 0 || !ie_is(type_of(x)->dims[axis], 1)) return NULL;
  }
  return reshape_to(g, n->src[0], type_of(n));
}

#define F(body) "(%x: f32[n, 4], %y: f32[n, 4], %z: f32[n, 4]) { " body " return %r }"
#define I(body) "(%x: i32[n, 4], %y: i32[n, 4]) { " body " return %r }"
#define B(body) "(%x: bool[n, 4], %y: bool[n, 4]) { " body " return %r }"
#define CD      "%c = const f32[4] {1, -2, 0.5, 3} %d = const f32[] {0.75} "
#define ID      "%c = const i32[4] {1, -2, 5, 3} %d = const i32[] {7} "
#define U(op, sz)                                                                                  \
  RULE(#op ".units", ANY(op), .make = reduce_units, .fast = sz,                                    \
       .example = "(%x: f32[n, 1, 4]) { %s = const i64[1] {1} %r = " #op                           \
                  "(%x, %s) keepdims=false return %r }")

static const Rule strength[] = {
    // clang-format off
    //   name             find                                      put
    RULE("add.consts",    P(add, P(add, Y(a), K(b)), K(c)),         P(add, a, P(add, b, c)), .fast = FAST_REASSOC, .when = merges_sum, .example = F(CD "%s = add(%x, %c) %r = add(%s, %d)")),
    RULE("add.int_consts", P(add, P(add, Y(a), K(b)), K(c)),        P(add, a, P(add, b, c)), .when = is_int, .example = I(ID "%s = add(%x, %c) %r = add(%s, %d)")),
    RULE("mul.consts",    P(mul, P(mul, Y(a), K(b)), K(c)),         P(mul, a, P(mul, b, c)), .fast = FAST_REASSOC, .when = merges_product, .example = F(CD "%s = mul(%x, %c) %r = mul(%s, %d)")),
    RULE("mul.int_consts", P(mul, P(mul, Y(a), K(b)), K(c)),        P(mul, a, P(mul, b, c)), .when = is_int, .example = I(ID "%s = mul(%x, %c) %r = mul(%s, %d)")),
    RULE("sub.const",     P(sub, Y(a), K(b)),                       P(add, a, P(neg, b)), .when = is_float, .example = F(CD "%r = sub(%x, %c)")),   // the same rounding
    RULE("sub.from_sum",  P(sub, K(c), P(add, Y(a), K(b))),         P(sub, P(sub, c, b), a), .fast = FAST_REASSOC, .when = merges_difference, .example = F(CD "%s = add(%x, %d) %r = sub(%c, %s)")),
    RULE("sub.sum",       P(sub, P(add, a, b), b),                  a, .when = is_int, .example = I("%s = add(%x, %y) %r = sub(%s, %y)")),
    RULE("add.factor",    P(add, ONCE(mul, a, b), ONCE(mul, a, c)), P(mul, a, P(add, b, c)), .fast = FAST_REASSOC, .when = factors_add, .example = F("%s = mul(%x, %y) %t = mul(%x, %z) %r = add(%s, %t)")),
    RULE("div.exact",     P(div, a, K(b)),                          P(mul, a, P(reciprocal, b)), .when = powers_of_two, .example = F("%c = const f32[4] {2, 0.25, -8, 1} %r = div(%x, %c)")),
    RULE("div.const",     P(div, Y(a), K(b)),                       P(mul, a, P(reciprocal, b)), .fast = FAST_REASSOC, .when = has_reciprocal, .example = F(CD "%r = div(%x, %c)")),
    RULE("div.reciprocal", P(div, NUM(1), a),                       P(reciprocal, a), .when = is_float, .example = F("%c = const f32[] {1} %r = div(%c, %x)")),
    RULE("mul.reciprocal", P(mul, a, ONCE(reciprocal, Y(b))),       P(div, a, b), .fast = FAST_CONTRACT | FAST_REASSOC, .example = F("%s = reciprocal(%y) %r = mul(%x, %s)")),
    RULE("pow.three",     P(pow, a, NUM(3)),                        P(mul, a, P(mul, a, a)), .fast = FAST_CONTRACT | FAST_REASSOC, .example = F("%c = const f32[] {3} %r = pow(%x, %c)")),
    RULE("pow.minus_one", P(pow, a, NUM(-1)),                       P(reciprocal, a), .when = is_float, .example = F("%c = const f32[] {-1} %r = pow(%x, %c)")),
    RULE("pow.four",      P(pow, a, NUM(4)),                        P(mul, P(mul, a, a), P(mul, a, a)), .when = is_float, .fast = FAST_CONTRACT | FAST_REASSOC, .example = F("%c = const f32[] {4} %r = pow(%x, %c)")),
    RULE("pow.minus_two", P(pow, a, NUM(-2)),                       P(mul, P(reciprocal, a), P(reciprocal, a)), .when = is_float, .fast = FAST_CONTRACT | FAST_REASSOC, .example = F("%c = const f32[] {-2} %s = abs(%x) %d = const f32[] {0.5} %t = add(%s, %d) %r = pow(%t, %c)")),
    RULE("pow.root",      P(pow, a, NUM(0.5)),                      P(sqrt, a), .when = of_positive, .fast = FAST_CONTRACT | FAST_NO_SZ, .example = F("%c = const f32[] {0.5} %s = mul(%x, %x) %r = pow(%s, %c)")),
    RULE("pow.minus_half", P(pow, a, NUM(-0.5)),                    P(reciprocal, P(sqrt, a)), .when = of_positive, .fast = FAST_CONTRACT | FAST_NO_SZ, .example = F("%c = const f32[] {-0.5} %s = abs(%x) %d = const f32[] {0.5} %t = add(%s, %d) %r = pow(%t, %c)")),
    RULE("div.shift",     P(div, a, K(b)),                          .make = shift_instead, .example = "(%x: u8[n, 4]) { %c = const u8[] {8} %r = div(%x, %c) return %r }"),
    RULE("mod.mask",      P(mod, a, K(b)),                          .make = mask_instead, .example = I("%c = const i32[4] {8, 8, 8, 8} %r = mod(%x, %c)")),
    RULE("mul.neg_neg",   P(mul, P(neg, a), P(neg, b)),             P(mul, a, b), .example = F("%s = neg(%x) %t = neg(%y) %r = mul(%s, %t)")),
    RULE("mul.neg_const", P(mul, P(neg, Y(a)), K(b)),               P(mul, a, P(neg, b)), .example = F(CD "%s = neg(%x) %r = mul(%s, %c)")),
    RULE("neg.sub",       P(neg, P(sub, a, b)),                     P(sub, b, a), .fast = FAST_NO_SZ, .example = F("%s = sub(%x, %y) %r = neg(%s)")),
    RULE("neg.int_sub",   P(neg, P(sub, a, b)),                     P(sub, b, a), .when = is_int, .example = I("%s = sub(%x, %y) %r = neg(%s)")),
    RULE("abs.neg",       P(abs, P(neg, a)),                        P(abs, a), .example = F("%s = neg(%x) %r = abs(%s)")),
    RULE("abs.relu",      P(abs, P(relu, a)),                       P(relu, a), .fast = FAST_NO_SZ, .example = F("%s = relu(%x) %r = abs(%s)")),
    RULE("relu.abs",      P(relu, P(abs, a)),                       P(abs, a), .when = is_float, .example = F("%s = abs(%x) %r = relu(%s)")),
    RULE("relu.sigmoid",  P(relu, P(sigmoid, a)),                   P(sigmoid, a), .example = F("%s = sigmoid(%x) %r = relu(%s)")),
    RULE("relu.exp",      P(relu, P(exp, a)),                       P(exp, a), .example = F("%s = exp(%x) %r = relu(%s)")),
    RULE("relu.sqrt",     P(relu, P(sqrt, a)),                      P(sqrt, a), .example = F("%s = sqrt(%x) %r = relu(%s)")),
    RULE("relu.clip",     P(relu, BIND_ANY(p, clip)),               .make = merge_ranges, .fast = FAST_NO_SZ, .example = F("%c = const f32[] {-1} %d = const f32[] {0.75} %s = clip(%x, %c, %d) %r = relu(%s)")),
    RULE("clip.merge",    ANY(clip),                                .make = merge_ranges, .fast = FAST_NO_SZ, .example = F("%c = const f32[] {-1} %d = const f32[] {0.75} %s = relu(%x) %t = clip(%s, %c, %d) %r = clip(%t, %d)")),
    RULE("max.consts",    P(max, P(max, Y(a), K(b)), K(c)),         P(max, a, P(max, b, c)), .fast = FAST_NO_SZ, .example = F(CD "%s = max(%x, %c) %r = max(%s, %d)")),
    RULE("min.consts",    P(min, P(min, Y(a), K(b)), K(c)),         P(min, a, P(min, b, c)), .fast = FAST_NO_SZ, .example = F(CD "%s = min(%x, %c) %r = min(%s, %d)")),
    RULE("max.again",     P(max, P(max, a, b), b),                  P(max, a, b), .fast = FAST_NO_SZ, .example = F("%s = max(%x, %y) %r = max(%s, %y)")),
    RULE("min.again",     P(min, P(min, a, b), b),                  P(min, a, b), .fast = FAST_NO_SZ, .example = F("%s = min(%x, %y) %r = min(%s, %y)")),
    RULE("where.true",    P(where, NUM(1), a, b),                   a, .example = F("%c = const bool[] {true} %r = where(%c, %x, %y)")),
    RULE("where.false",   P(where, NUM(0), a, b),                   b, .example = F("%c = const bool[4] {false, false, false, false} %r = where(%c, %x, %y)")),
    RULE("where.not",     P(where, P(not, a), b, c),                P(where, a, c, b), .example = "(%x: bool[n, 4], %y: f32[n, 4], %z: f32[]) { %s = not(%x) %r = where(%s, %y, %z) return %r }"),
    RULE("where.where",   P(where, a, P(where, a, b, c), d),        P(where, a, b, d), .example = "(%x: bool[n, 4], %y: f32[n, 4], %z: f32[n, 4]) { %s = where(%x, %y, %z) %t = neg(%z) %r = where(%x, %s, %t) return %r }"),
    RULE("and.true",      P(and, a, NUM(1)),                        a, .example = B("%c = const bool[] {true} %r = and(%x, %c)")),
    RULE("and.shape",     P(and, a, b),                             .make = neutral_shape, .example = "(%x: bool[n, 1], %y: f32[m]) { %s = shape(%y) %c = const bool[] {true} %e = expand(%c, %s) %r = and(%x, %e) return %r }"),
    RULE("or.shape",      P(or, a, b),                              .make = neutral_shape, .example = "(%x: bool[n, 1]) { %c = const bool[2] {false, false} %r = or(%x, %c) return %r }"),
    RULE("attention.mask", ANY(attention),                          .make = mask_expand, .example = "(%q: f32[n, 2, m, 4], %k: f32[n, 2, 3, 4], %x: bool[n, 1, 1, 3]) { %s = shape(%q) start=2 end=3 %o = const i64[1] {1} %t = concat(%s, %o) %e = expand(%x, %t) %r = attention(%q, %k, %k, %e) return %r }"),
    RULE("attention.unmasked", ANY(attention),                      .make = mask_of_all, .example = "(%q: f32[n, 2, m, 4], %k: f32[n, 2, 3, 4]) { %s = shape(%q) start=2 end=3 %o = const i64[1] {3} %t = concat(%s, %o) %c = const bool[] {true} %e = expand(%c, %t) %r = attention(%q, %k, %k, %e) return %r }"),
    RULE("or.false",      P(or, a, NUM(0)),                         a, .example = B("%c = const bool[] {false} %r = or(%x, %c)")),
    RULE("xor.false",     P(xor, a, NUM(0)),                        a, .example = B("%c = const bool[] {false} %r = xor(%x, %c)")),
    RULE("xor.true",      P(xor, a, NUM(1)),                        P(not, a), .example = B("%c = const bool[] {true} %r = xor(%x, %c)")),
    RULE("and.and",       P(and, P(and, a, b), b),                  P(and, a, b), .example = B("%s = and(%x, %y) %r = and(%s, %y)")),
    RULE("or.or",         P(or, P(or, a, b), b),                    P(or, a, b), .example = B("%s = or(%x, %y) %r = or(%s, %y)")),
    RULE("not.lt",        P(not, P(lt, a, b)),                      P(le, b, a), .when = of_ints, .example = I("%s = lt(%x, %y) %r = not(%s)")),
    RULE("not.le",        P(not, P(le, a, b)),                      P(lt, b, a), .when = of_ints, .example = I("%s = le(%x, %y) %r = not(%s)")),
    RULE("not.lt_float",  P(not, P(lt, a, b)),                      P(le, b, a), .fast = FAST_NO_NAN, .example = F("%s = lt(%x, %y) %r = not(%s)")),
    RULE("not.le_float",  P(not, P(le, a, b)),                      P(lt, b, a), .fast = FAST_NO_NAN, .example = F("%s = le(%x, %y) %r = not(%s)")),
    RULE("lt.decided",    P(lt, a, b),                              .make = decided, .example = "(%x: f32[n, 4]) { %e = shape(%x) end=1 %n = squeeze(%e) %z = const i64[] {0} %o = const i64[] {1} %i = range(%z, %n, %o) %c = const i64[1] {-1} %r = lt(%i, %c) return %r }"),
    RULE("le.decided",    P(le, a, b),                              .make = decided, .example = "(%x: f32[n, 4]) { %e = shape(%x) end=1 %n = squeeze(%e) %z = const i64[] {0} %o = const i64[] {1} %i = range(%z, %n, %o) %r = le(%z, %i) return %r }"),
    U(reduce_sum, FAST_NO_SZ), U(reduce_mean, FAST_NO_SZ), U(reduce_max, 0), U(reduce_min, 0), U(reduce_prod, 0),
    // clang-format on
};
const RuleSet rules_strength = RULES(
    "strength", strength, "the number of nodes that constants do not fold, then the cost of an op");
