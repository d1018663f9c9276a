// quant_border.c -- what integer convolutions read around their image is written out.
//
// Kernels multiply four bytes along the channels at once, and leave taps outside the image out,
// which is right where the zero point is the least number alone.  So other borders, and channels up
// to a multiple of four, become elements of the input: a pad with the zero point, done by the
// kernel that makes the input.  Exact: each new product is 0.
#include "eval/contract.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "ops/order.h"
#include "rules/rules.h"

enum { WORD = 4 };

// Whether leaving a tap out is the same as multiplying it by x - zero = 0 in bytes without a sign.
static bool is_least(Graph *g, const Node *zero, DType t) {
  double v = 0;
  if (zero && !node_splat(g, zero, &v)) return false;
  return v == (t == DT_I8 ? -128 : 0);
}

static Node *padded(Graph *g, Node *x, int rank, const int64_t *pads, Node *value) {
  Node *src[] = {x, node_i64s(g, 2 * (int64_t)rank, pads), value};
  return node_new(g, OP_pad, value ? 3 : 2, src, &(pad_attrs){.mode = PAD_CONSTANT}, 1, NULL);
}

// One number of a zero point, as a pad takes it; NULL when it has several.
static Node *one_number(Graph *g, Node *zero) {
  const Type *t = type_of(zero);
  if (t->rank == 0) return zero;
  double v;
  return node_splat(g, zero, &v) ? node_scalar(g, t->dtype, v) : NULL;
}

static Node *write_border(Graph *g, const Match *m) {
  const Node *n = m->root;
  const ContractionInfo *c = op_contraction(n);
  conv_attrs at = *(const conv_attrs *)n->attrs;
  Node *x = n->src[c->lhs], *w = n->src[c->rhs], *x_zero = operand_or_null(g, n, c->lhs_zero),
       *w_zero = operand_or_null(g, n, c->rhs_zero);
  const Type *t = type_of(x);
  int rank = t->rank;
  if (rank < 3 || at.channels_last || at.group != 1 || w->op != OP_const ||
      !ie_is_const(t->dims[1]) || (at.auto_pad != PAD_NOTSET && at.auto_pad != PAD_VALID))
    return NULL;
  int64_t more = (WORD - t->dims[1]->value % WORD) % WORD, pads[2 * MAX_RANK] = {0},
          w_pads[2 * MAX_RANK] = {0};
  bool around = false, keep = is_least(g, x_zero, t->dtype) && !more;
  for (int64_t i = 0; at.auto_pad == PAD_NOTSET && i < at.pads.n; i++) around |= at.pads.v[i] > 0;
  if (keep || (!around && !more)) return NULL;
  int64_t none[2 * MAX_RANK] = {0};
  for (int i = 0; around && i < rank - 2; i++) {
    pads[2 + i] = at.pads.v[i];
    pads[rank + 2 + i] = at.pads.v[rank - 2 + i];
  }
  pads[rank + 1] = w_pads[rank + 1] = more;
  Node *x_fill = x_zero ? one_number(g, x_zero) : NULL,
       *w_fill = w_zero ? one_number(g, w_zero) : NULL;
  if ((x_zero && !x_fill) || (w_zero && more && !w_fill)) return NULL;
  Node **src = arena_array(&g->scratch, Node *, n->nsrc);
  memcpy(src, n->src, n->nsrc * sizeof *src);
  src[c->lhs] = padded(g, x, rank, pads, x_fill);
  if (more) src[c->rhs] = padded(g, w, rank, w_pads, w_fill);
  at.auto_pad = PAD_NOTSET;
  at.pads = (Ints){2 * (int64_t)(rank - 2), none};
  return node_new(g, n->op, (int)n->nsrc, src, &at, 1, n->name);
}

static const Rule border[] = {
    // clang-format off
    RULE("q_linear_conv.border", ANY(q_linear_conv), .make = write_border,
         .example = "(%x: u8[n, 3, 5, 5]) { %w = const i8[2, 3, 1, 2] {1, -2, 3, -4, 5, -6, 7, 8, -9, 10, 11, -12} "
                    "%xs = const f32[] {0.05} %xz = const u8[] {7} %ws = const f32[2] {0.25, 0.5} %wz = const i8[2] {0, 0} %ys = const f32[] {0.5} %yz = const u8[] {128} "
                    "%r = q_linear_conv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz) pads=[0, 1, 0, 1] return %r }"),
    RULE("conv_integer.border", ANY(conv_integer), .make = write_border,
         .example = "(%x: i8[n, 4, 5], %z: i8[]) { %w = const i8[2, 4, 2] {1, -2, 3, -4, 5, -6, 7, 8, -9, 10, 11, -12, 13, 14, -15, 16} "
                    "%r = conv_integer(%x, %w, %z) pads=[1, 0] return %r }"),
    // clang-format on
};
const RuleSet rules_quant_border =
    RULES("quant_border", border, "each rule leaves a convolution without borders, of whole words");
