// recognise_quant.c -- dequantise, compute, quantise becomes integer arithmetic with one requantisation.
//
// Runs before folding, which would turn quantised weights into floats.
// Guarantees: a result differs by one step at most, where the float arithmetic had rounded to the other side.
#include "eval/contract.h"
#include "eval/quant.h"
#include "ops/order.h"
#include "rules/letters.h"
#include "rules/recognise.h"
#include "rules/rules.h"

#include <math.h>

// A quantised operand: its numbers, scale and zero point.
typedef struct Quant {
  Node *x, *scale, *zero;
} Quant;

static bool is_byte(const Node *n) {
  DType t = type_of(n)->dtype;
  return t == DT_U8 || t == DT_I8;
}
static bool is_one(const Node *n) {
  const Type *t = type_of(n);
  return t->rank == 0 || (t->rank == 1 && ie_is(t->dims[0], 1));
}
// Zero where none is given.
static Node *zero_point(Graph *g, const Node *q, const Node *like, const Node *scale) {
  Node *z = src_or_null(g, q, 2);
  if (z || type_of(scale)->rank != 0) return z;
  return node_scalar(g, type_of(like)->dtype, 0);
}

// axis < 0: one scale for all; else one an element of that axis will do as well.
static bool dequantised(Graph *g, const Node *n, int axis, Quant *out) {
  if (n->op != OP_dequantize_linear) return false;
  const dequantize_linear_attrs *at = n->attrs;
  *out = (Quant){n->src[0], n->src[1], NULL};
  if (at->block_size || !is_byte(out->x) || type_of(out->scale)->dtype != DT_F32) return false;
  if (type_of(n)->dtype != DT_F32) return false;
  out->zero = zero_point(g, n, out->x, out->scale);
  if (!out->zero) return false;
  if (is_one(out->scale)) return is_one(out->zero);
  int rank = type_of(out->x)->rank;
  int64_t own = at->axis < 0 ? at->axis + rank : at->axis;
  return axis >= 0 && own == axis && type_of(out->scale)->rank == 1 &&
         type_of(out->zero) == type_with_dtype(g, type_of(out->scale), type_of(out->x)->dtype);
}

// A scale that is known and that no number can be divided by, or that turns the order round, is none.
static bool is_scale(Graph *g, const Node *n) {
  double v = 1;
  return !node_splat(g, n, &v) || (isnormal(v) && v > 0);
}

static bool quantised(Graph *g, const Node *root, Quant *out) {
  const quantize_linear_attrs *at = root->attrs;
  if (at->block_size || at->precision || !is_byte(root)) return false;
  *out = (Quant){NULL, root->src[1], zero_point(g, root, root, root->src[1])};
  return out->zero && is_one(out->scale) && is_scale(g, out->scale) && is_one(out->zero) &&
         type_of(out->scale)->dtype == DT_F32;
}

// A relu before quantising does nothing where the zero point is the least number.
static Node *under_relu(Graph *g, Node *n, const Quant *y) {
  double zero;
  int64_t lo, hi;
  if (n->op != OP_relu) return n;
  if (!node_splat(g, y->zero, &zero) || !quant_range(type_of(y->zero)->dtype, &lo, &hi)) return n;
  return zero == (double)lo ? n->src[0] : n;
}

// The elements of a constant, or of one that is known; NULL when neither.
static const double *numbers(Graph *g, const Node *n, int64_t *count) {
  enum { NUMBERS_MAX = 65536 };
  const Type *t = type_of(n);
  if (n->op != OP_const || t->dtype != DT_F32 || n->data->n > NUMBERS_MAX) return NULL;
  Diag *quiet = arena_new(&g->scratch, Diag);
  diag_init(quiet);
  const void *bytes;
  if (const_bytes(g, n, &bytes, quiet)) return NULL;
  *count = n->data->n;
  double *v = arena_array(&g->scratch, double, MAX(*count, 1));
  load_f64(DT_F32, bytes, 0, *count, v);
  return v;
}

// A bias counts in steps of x_scale w_scale: is that its scale?
static bool bias_scale_fits(Graph *g, const Node *scale, const Quant *x, const Quant *w) {
  int64_t n, nx, nw;
  const double *s = numbers(g, scale, &n), *xs = numbers(g, x->scale, &nx),
               *ws = numbers(g, w->scale, &nw);
  if (!s || !xs || !ws || nx != 1) return false;
  int64_t longest = MAX(n, nw);
  if ((n != 1 && n != longest) || (nw != 1 && nw != longest)) return false;
  for (int64_t i = 0; i < longest; i++) {
    double want = xs[0] * ws[nw == 1 ? 0 : i];
    if (!(fabs(s[n == 1 ? 0 : i] - want) <= 1e-5 * fabs(want))) return false;
  }
  return true;
}

static Node *bias_of(Graph *g, const Node *n, const Quant *x, const Quant *w) {
  double zero = 0;
  if (n->op != OP_dequantize_linear || type_of(n->src[0])->dtype != DT_I32) return NULL;
  Node *z = src_or_null(g, n, 2);
  if (z && (!node_splat(g, z, &zero) || zero != 0)) return NULL;
  return bias_scale_fits(g, n->src[1], x, w) ? n->src[0] : NULL;
}

static Node *make_q_conv(Graph *g, const Match *m) {
  Quant x, w, y;
  if (!quantised(g, m->root, &y)) return NULL;
  Node *conv = under_relu(g, m->root->src[0], &y), *bias = NULL;
  if (conv->op != OP_conv || node_channels_last(conv) || !match_once(m, conv)) return NULL;
  if (!dequantised(g, conv->src[0], -1, &x) || !dequantised(g, conv->src[1], 0, &w)) return NULL;
  if (src_or_null(g, conv, 2)) {
    bias = bias_of(g, conv->src[2], &x, &w);
    if (!bias) return NULL;
  }
  Node *src[] = {x.x, x.scale, x.zero, w.x, w.scale, w.zero, y.scale, y.zero, bias};
  return node_new(g, OP_q_linear_conv, bias ? 9 : 8, src, conv->attrs, 1, m->root->name);
}

static Node *make_q_mat_mul(Graph *g, const Match *m) {
  Quant x, w, y;
  if (!quantised(g, m->root, &y)) return NULL;
  Node *product = under_relu(g, m->root->src[0], &y);
  if (product->op != OP_mat_mul || !match_once(m, product)) return NULL;
  int columns = type_of(product->src[1])->rank == 2 ? 1 : -1;
  if (!dequantised(g, product->src[0], -1, &x) || !dequantised(g, product->src[1], columns, &w))
    return NULL;
  return N(g, q_linear_mat_mul, x.x, x.scale, x.zero, w.x, w.scale, w.zero, y.scale, y.zero);
}

// quantise(dequantise(x)) by the same numbers; what lies between moves elements alone.
static bool undone(const Match *m) {
  const Node *dq = m->var[SLOT_p];
  const quantize_linear_attrs *at = m->root->attrs;
  const dequantize_linear_attrs *dt = dq->attrs;
  return is_scale(m->g, m->var[SLOT_b]) && !at->block_size && !at->precision && !dt->block_size &&
         is_byte(dq->src[0]) && is_one(m->var[SLOT_b]) && is_one(m->var[SLOT_c]) &&
         type_of(m->root)->dtype == type_of(dq->src[0])->dtype;
}
static Node *move_numbers(Graph *g, const Match *m) {
  const Node *move = m->var[SLOT_q];
  Node *src[2] = {m->var[SLOT_a], move->nsrc > 1 ? move->src[1] : NULL};
  return node_new(g, move->op, (int)move->nsrc, src, move->attrs, 1, m->root->name);
}

#define XQ "%xs = const f32[] {0.05} %xz = const u8[] {7} %xf = dequantize_linear(%x, %xs, %xz) "
#define YQ                                                                                         \
  "%ys = const f32[] {0.5} %yz = const u8[] {128} %r = quantize_linear(%y, %ys, %yz) return %r }"

static const Rule quant[] = {
    // clang-format off
    RULE("q_linear_conv.qdq", P(quantize_linear, a, b, c), .make = make_q_conv, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 2, 5, 5], %w: i8[3, 2, 3, 3], %b: i32[3]) { " XQ
                    "%ws = const f32[3] {0.25, 0.5, 0.125} %wz = const i8[3] {0, 0, 0} %wf = dequantize_linear(%w, %ws, %wz) axis=0 "
                    "%bs = const f32[3] {0.0125, 0.025, 0.00625} %bz = const i32[3] {0, 0, 0} %bf = dequantize_linear(%b, %bs, %bz) axis=0 "
                    "%y = conv(%xf, %wf, %bf) " YQ),
    RULE("q_linear_mat_mul.qdq", P(quantize_linear, a, b, c), .make = make_q_mat_mul, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6], %w: i8[6, 3]) { " XQ
                    "%ws = const f32[3] {0.25, 0.5, 0.125} %wz = const i8[3] {0, 0, 0} %wf = dequantize_linear(%w, %ws, %wz) axis=1 "
                    "%y = mat_mul(%xf, %wf) " YQ),
    RULE("quantize.undone", P(quantize_linear, BIND(p, dequantize_linear, a, b, c), b, c), a, .when = undone, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6]) { " XQ "%r = quantize_linear(%xf, %xs, %xz) return %r }"),
    RULE("quantize.undone_reshape", P(quantize_linear, BIND_ONCE(q, reshape, BIND(p, dequantize_linear, a, b, c), d), b, c),
         .when = undone, .make = move_numbers, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6]) { " XQ "%s = const i64[3] {0, 2, 3} %v = reshape(%xf, %s) %r = quantize_linear(%v, %xs, %xz) return %r }"),
    RULE("quantize.undone_transpose", P(quantize_linear, BIND_ONCE(q, transpose, BIND(p, dequantize_linear, a, b, c)), b, c),
         .when = undone, .make = move_numbers, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6]) { " XQ "%v = transpose(%xf) perm=[1, 0] %r = quantize_linear(%v, %xs, %xz) return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_quant =
    RULES("recognise_quant", quant, "each rule leaves fewer nodes that compute in floats");
