// quant.c -- dequantise, compute, quantise becomes integer arithmetic with one
// requantisation.
//
// Runs before folding, which would turn quantised weights into floats.
// Guarantees: a result differs by one step at most, where the float arithmetic had rounded to the
//             other side.  A tie is kept: with known scales for which it would not be, nothing is
//             rewritten.
#include "eval/contract.h"
#include "eval/quant.h"
#include "eval/scalar.h"
#include "ops/order.h"
#include "rules/factor.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
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
static bool is_scalar(const Node *n) { return type_of(n)->rank == 0; }
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

// A scale that is known and that no number can be divided by, or that reverses the order, is
// none.
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

// v as an odd number times a power of two; v is positive.
static uint64_t odd_part(double v, int *exponent) {
  uint64_t odd = (uint64_t)ldexp(frexp(v, exponent), 53);
  *exponent -= 53;
  for (; !(odd & 1); odd >>= 1) ++*exponent;
  return odd;
}

// Whether sums whose quotient lies exactly between two integers go to the even one, as quantising
// does.  The joined scale is rounded, so that a product with it may miss the middle.  With xs ws /
// ys = p / q in odd numbers times 2^e, those sums are q times an odd number times 2^-(e + 1), and
// the quotient is that odd number times p / 2: there are few that a byte can hold.
static bool keeps_ties(double xs, double ws, double ys) {
  int up, down;
  if (!(xs > 0 && ws > 0 && ys > 0) || isinf(xs * ws) || isinf(ys)) return true;
  uint64_t p = odd_part(xs * ws, &up), q = odd_part(ys, &down), common = p, left = q;
  while (left) {
    uint64_t rest = common % left;
    common = left;
    left = rest;
  }
  p /= common;
  q /= common;
  int shift = down - up - 1;
  if (shift < 0 || shift > 31) return true;
  float scale = (float)xs * (float)ws / (float)ys;
  for (uint64_t odd = 1; odd * p <= 2 * UINT8_MAX; odd += 2) {
    if (q * odd > (uint64_t)INT32_MAX >> shift) break;
    float sum = (float)(q * odd << shift);
    if (rintf(sum * scale) != (float)nearbyint((double)(odd * p) / 2)) return false;
  }
  return true;
}

// Scales joined to one, of all channels; y may be NULL.  What is not known here is taken to fit.
static bool scales_fit(Graph *g, const Quant *x, const Quant *w, const Quant *y) {
  int64_t nx, nw, ny = 1;
  const double one = 1, *xs = numbers(g, x->scale, &nx), *ws = numbers(g, w->scale, &nw),
               *ys = y ? numbers(g, y->scale, &ny) : &one;
  if (!xs || !ws || !ys || nx != 1 || ny != 1) return true;
  for (int64_t i = 0; i < nw; i++)
    if (!is_normal_in(DT_F32, xs[0] * ws[i]) || !is_normal_in(DT_F32, xs[0] * ws[i] / ys[0]))
      return false;
  return true;
}

// Of all channels.  Scales that are not known here may move a tie by one step.
static bool all_keep_ties(Graph *g, const Quant *x, const Quant *w, const Quant *y) {
  int64_t nx, nw, ny;
  const double *xs = numbers(g, x->scale, &nx), *ws = numbers(g, w->scale, &nw),
               *ys = numbers(g, y->scale, &ny);
  if (!xs || !ws || !ys || nx != 1 || ny != 1) return true;
  for (int64_t i = 0; i < nw; i++)
    if (!keeps_ties(xs[0], ws[i], ys[0])) return false;
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
  if (!all_keep_ties(g, &x, &w, &y) || !scales_fit(g, &x, &w, &y)) return NULL;
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
  if (!dequantised(g, product->src[0], -1, &x) || !dequantised(g, product->src[1], columns, &w) ||
      !all_keep_ties(g, &x, &w, &y) || !scales_fit(g, &x, &w, &y))
    return NULL;
  return N(g, q_linear_mat_mul, x.x, x.scale, x.zero, w.x, w.scale, w.zero, y.scale, y.zero);
}

// quantise(dequantise(x)) by the same numbers; the ops between only move elements.
static bool undone(const Match *m) {
  const Node *dq = m->var[SLOT_p];
  const quantize_linear_attrs *at = m->root->attrs;
  const dequantize_linear_attrs *dt = dq->attrs;
  return is_scale(m->g, m->var[SLOT_b]) && !at->block_size && !at->precision && !dt->block_size &&
         is_byte(dq->src[0]) && is_one(m->var[SLOT_b]) && is_one(m->var[SLOT_c]) &&
         type_of(m->root)->dtype == type_of(dq->src[0])->dtype;
}
// The numbers under a dequantisation by the same scale and zero point; NULL when it is none.
static Node *same_numbers(Graph *g, const Node *n, const Node *root) {
  Quant y, x;
  if (!quantised(g, root, &y) || !dequantised(g, n, -1, &x) || is_byte(x.x) != is_byte(root))
    return NULL;
  if (x.scale != y.scale || x.zero != y.zero) return NULL;
  return type_of(x.x)->dtype == type_of(root)->dtype ? x.x : NULL;
}

// Moves elements, or takes the largest, which is the same one before quantising.
static bool moves_numbers(const Node *n) {
  return n->nres == 1 && (n->op == OP_max_pool || (op_info(n->op)->flags & OPF_SELECTS));
}
static Node *move_numbers(Graph *g, const Match *m) {
  enum { OPERANDS = 5 };
  const Node *move = m->root->src[0];
  Node *src[OPERANDS];
  if (!moves_numbers(move) || move->nsrc > OPERANDS || !match_once(m, move)) return NULL;
  for (uint32_t i = 0; i < move->nsrc; i++) src[i] = move->src[i];
  src[0] = same_numbers(g, move->src[0], m->root);
  if (!src[0] || type_of(src[0])->kind != TK_TENSOR) return NULL;
  return node_new(g, move->op, (int)move->nsrc, src, move->attrs, 1, m->root->name);
}

// Parts that were quantised alike are put together as they are, the others after being quantised
// anew.
static Node *join_numbers(Graph *g, const Match *m) {
  enum { PARTS = 64 };
  const Node *join = m->var[SLOT_q], *root = m->root;
  Node *src[PARTS], *q[3];
  int same = 0;
  if (join->nsrc > PARTS || !match_once(m, join)) return NULL;
  for (uint32_t i = 0; i < join->nsrc; i++) {
    src[i] = same_numbers(g, join->src[i], root);
    if (src[i]) {
      same++;
      continue;
    }
    if (join->src[i]->op != OP_dequantize_linear) return NULL;
    for (uint32_t k = 0; k < root->nsrc; k++) q[k] = k ? root->src[k] : join->src[i];
    src[i] = node_new(g, OP_quantize_linear, (int)root->nsrc, q, root->attrs, 1, NULL);
  }
  if (!same) return NULL;
  return node_new(g, OP_concat, (int)join->nsrc, src, join->attrs, 1, root->name);
}

// A contraction that the rules here make one of int8.
static bool becomes_int8(const Node *n) {
  bool form = is_form(n, CF_CONV) || is_form(n, CF_MATMUL) || is_form(n, CF_GEMM);
  return form && !sums_int8(n);
}

// Quantising keeps the order of numbers: a bound before is a bound after.
static Node *bound_numbers(Graph *g, const Match *m) {
  const Node *relu = m->var[SLOT_q], *x = relu->src[0], *root = m->root;
  Quant y;
  if (!quantised(g, root, &y) || type_of(root)->rank < type_of(y.zero)->rank) return NULL;
  if (!becomes_int8(x) && x->op != OP_add && x->op != OP_dequantize_linear) return NULL;
  Node *src[3] = {relu->src[0], root->src[1], root->nsrc > 2 ? root->src[2] : NULL};
  Node *q = node_new(g, OP_quantize_linear, (int)root->nsrc, src, root->attrs, 1, root->name);
  return N(g, max, q, y.zero);
}

// ---- contractions whose result stays in floats ----

static Node *in_float(Graph *g, Node *sum, Node *scale) {
  Node *wide = NA(g, cast, (&(cast_attrs){.to = DT_F32, .saturate = true}), sum);
  return N(g, mul, wide, scale);
}

// A vector of one number as a scalar.
static Node *without_axis(Graph *g, Node *n) {
  const Type *t = type_of(n);
  return t->rank == 1 && is_one(n) ? reshape_to(g, n, type_tensor(g, t->dtype, 0, NULL)) : n;
}

// Zero points as the op takes them: one for x, one or one a column for w.
static bool zeros_fit(Graph *g, Quant *x, Quant *w, Dim columns) {
  x->zero = without_axis(g, x->zero);
  w->zero = without_axis(g, w->zero);
  x->scale = without_axis(g, x->scale);
  w->scale = without_axis(g, w->scale);
  const Type *t = type_of(w->zero);
  return is_scalar(x->zero) && (t->rank == 0 || (t->rank == 1 && t->dims[0] == columns));
}

static Node *integer_mat_mul(Graph *g, const Match *m) {
  Quant x, w;
  const Node *n = m->root;
  int columns = type_of(n->src[1])->rank == 2 ? 1 : -1;
  if (!dequantised(g, n->src[0], -1, &x) || !dequantised(g, n->src[1], columns, &w) ||
      type_of(n->src[0])->rank < 2 || type_of(n->src[1])->rank < 2 ||
      !zeros_fit(g, &x, &w, type_of(n)->dims[type_of(n)->rank - 1]) || !scales_fit(g, &x, &w, NULL))
    return NULL;
  return in_float(g, N(g, mat_mul_integer, x.x, w.x, x.zero, w.zero), N(g, mul, x.scale, w.scale));
}

static Node *integer_gemm(Graph *g, const Match *m) {
  const Node *n = m->root;
  const gemm_attrs *at = n->attrs;
  Quant x, w;
  if (at->transA || at->alpha != 1 || at->beta != 1 || !dequantised(g, n->src[0], -1, &x) ||
      !dequantised(g, n->src[1], at->transB ? 0 : 1, &w) ||
      !zeros_fit(g, &x, &w, type_of(n)->dims[1]) || !scales_fit(g, &x, &w, NULL))
    return NULL;
  Node *rows = at->transB ? transpose_to(g, w.x, 2, (int64_t[]){1, 0}) : w.x;
  Node *sum = N(g, mat_mul_integer, x.x, rows, x.zero, w.zero), *bias = src_or_null(g, n, 2);
  Node *y = in_float(g, sum, N(g, mul, x.scale, w.scale));
  return bias ? N(g, add, y, bias) : y;
}

// A vector along the channels of a result of this rank; a scalar as it is.
static Node *by_channel(Graph *g, Node *v, int rank) {
  const Type *t = type_of(v);
  Dim dims[MAX_RANK];
  if (t->rank == 0) return v;
  if (t->rank != 1) return NULL;
  for (int i = 0; i < rank; i++) dims[i] = i == 1 ? t->dims[0] : g->dims.one;
  return reshape_to(g, v, type_tensor(g, t->dtype, rank, dims));
}

static Node *integer_conv(Graph *g, const Match *m) {
  const Node *n = m->root;
  int rank = type_of(n)->rank;
  Quant x, w;
  if (rank < 3 || node_channels_last(n) || !dequantised(g, n->src[0], -1, &x) ||
      !dequantised(g, n->src[1], 0, &w) || !zeros_fit(g, &x, &w, type_of(n->src[1])->dims[0]) ||
      !scales_fit(g, &x, &w, NULL))
    return NULL;
  Node *bias = src_or_null(g, n, 2), *scale = by_channel(g, N(g, mul, x.scale, w.scale), rank);
  if (bias) bias = by_channel(g, bias, rank);
  if (!scale || (!bias && src_or_null(g, n, 2))) return NULL;
  Node *src[] = {x.x, w.x, x.zero, w.zero};
  Node *y = in_float(g, node_new(g, OP_conv_integer, 4, src, n->attrs, 1, n->name), scale);
  return bias ? N(g, add, y, bias) : y;
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
    RULE("quantize.undone_move", P(quantize_linear, a, b, c), .make = move_numbers, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6]) { " XQ "%v = transpose(%xf) perm=[1, 0] %r = quantize_linear(%v, %xs, %xz) return %r }"),
    RULE("quantize.undone_pool", P(quantize_linear, a, b, c), .make = move_numbers, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 2, 5, 5]) { " XQ "%v = max_pool(%xf) kernel_shape=[3, 3] pads=[1, 1, 1, 1] %r = quantize_linear(%v, %xs, %xz) return %r }"),
    RULE("quantize.undone_concat", P(quantize_linear, BIND_ANY(q, concat), b, c), .make = join_numbers, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6], %y: u8[n, 3]) { " XQ "%ys = const f32[] {0.07} %yf = dequantize_linear(%y, %ys, %xz) %v = concat(%xf, %yf) axis=1 "
                    "%r = quantize_linear(%v, %xs, %xz) return %r }"),
    RULE("quantize.relu", P(quantize_linear, BIND_ONCE(q, relu, a), b, c), .make = bound_numbers, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6]) { " XQ "%v = add(%xf, %xf) %y = relu(%v) " YQ),
    RULE("quantize.table", P(quantize_linear, a, b, c), .make = rec_byte_table,
         .example = "(%x: i8[n, 6]) { %xs = const f32[] {0.05} %xz = const i8[] {7} %xf = dequantize_linear(%x, %xs, %xz) %y = sigmoid(%xf) "
                    "%ys = const f32[] {0.00390625} %yz = const u8[] {0} %r = quantize_linear(%y, %ys, %yz) return %r }"),
    RULE("quantize.table_of_tables", P(quantize_linear, a, b, c), .make = rec_byte_table,
         .example = "(%x: u8[n, 6]) { " XQ "%k = const f32[] {0.7} %m = mul(%xf, %k) %e = erf(%m) %es = const f32[] {0.01} %ez = const u8[] {128} "
                    "%eq = quantize_linear(%e, %es, %ez) %ef = dequantize_linear(%eq, %es, %ez) %y = mul(%xf, %ef) " YQ),
    // clang-format on
};
const RuleSet rules_recognise_quant =
    RULES("recognise_quant", quant, "each rule leaves fewer nodes that compute in floats");

static const Rule integer[] = {
    // clang-format off
    RULE("mat_mul_integer.dq", P(mat_mul, a, b), .make = integer_mat_mul, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6], %w: i8[6, 3]) { " XQ
                    "%ws = const f32[3] {0.25, 0.5, 0.125} %wz = const i8[3] {0, 0, 0} %wf = dequantize_linear(%w, %ws, %wz) axis=1 "
                    "%r = mat_mul(%xf, %wf) return %r }"),
    RULE("conv_integer.dq", ANY(conv), .make = integer_conv, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 2, 5, 5], %w: i8[3, 2, 3, 3], %b: f32[3]) { " XQ
                    "%ws = const f32[3] {0.25, 0.5, 0.125} %wz = const i8[3] {0, 0, 0} %wf = dequantize_linear(%w, %ws, %wz) axis=0 "
                    "%r = conv(%xf, %wf, %b) return %r }"),
    RULE("mat_mul_integer.gemm", ANY(gemm), .make = integer_gemm, .fast = FAST_QUANT,
         .example = "(%x: u8[n, 6], %w: i8[3, 6], %b: f32[3]) { " XQ
                    "%ws = const f32[3] {0.25, 0.5, 0.125} %wz = const i8[3] {0, 0, 0} %wf = dequantize_linear(%w, %ws, %wz) axis=0 "
                    "%r = gemm(%xf, %wf, %b) transB=true return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_integer =
    RULES("recognise_integer", integer, "each rule leaves fewer products of floats");
