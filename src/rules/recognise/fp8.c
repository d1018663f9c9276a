// fp8.c -- GEMMs of fp8 operands that were cast or dequantised multiply fp8 directly and
// scale in the epilogue.
//
// For targets whose MMA multiplies fp8 (TargetTraits.mma_dtypes).  A product of two such numbers is
// exact in f32; scales, one for all of a tensor or one for each column of the weights, are taken
// out of the sums, which is another order of the same products.  Tensor cores form the sums less
// precisely than f32 (loop/tile.h), so this needs the fast-math flag that reorders sums.
#include "eval/contract.h"
#include "eval/quant.h"
#include "eval/scalar.h"
#include "rules/letters.h"
#include "rules/recognise/recognise.h"
#include "rules/rules.h"
#include "rules/shape.h"

// An operand: its numbers, and what they are multiplied by; NULL: nothing.
typedef struct Scaled {
  Node *x, *scale;
} Scaled;

static bool is_fp8(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank >= 0 && (t->dtype == DT_F8E4M3 || t->dtype == DT_F8E5M2);
}

static bool is_one(const Node *n) {
  const Type *t = type_of(n);
  return t->rank == 0 || (t->rank == 1 && ie_is(t->dims[0], 1));
}

static Node *in_f32(Graph *g, Node *n) {
  return type_of(n)->dtype == DT_F32
             ? n
             : NA(g, cast, (&(cast_attrs){.to = DT_F32, .saturate = true}), n);
}

// axis < 0: one scale for all; else one an element of that axis will do as well.
static bool dequantised(Graph *g, const Node *n, int axis, Scaled *out) {
  if (n->op != OP_dequantize_linear || !is_fp8(n->src[0])) return false;
  const dequantize_linear_attrs *at = n->attrs;
  const Node *zero = src_or_null(g, n, 2);
  if (at->block_size || (zero && !node_is_zero(g, zero))) return false;
  *out = (Scaled){n->src[0], n->src[1]};
  int rank = type_of(out->x)->rank;
  int64_t own = at->axis < 0 ? at->axis + rank : at->axis;
  return is_one(out->scale) || (axis >= 0 && own == axis && type_of(out->scale)->rank == 1);
}

static bool widened(const Node *n, Scaled *out) {
  if (n->op != OP_cast || !is_fp8(n->src[0])) return false;
  *out = (Scaled){n->src[0], NULL};
  return true;
}

static bool scaled(Graph *g, const Node *n, int axis, Scaled *out) {
  if (widened(n, out) || dequantised(g, n, axis, out)) return true;
  for (int i = 0; n->op == OP_mul && i < 2; i++)
    if (widened(n->src[i], out) && is_one(n->src[1 - i])) {
      out->scale = n->src[1 - i];
      return true;
    }
  return false;
}

// The product in f32, scaled, as the root had it.
static Node *product(Graph *g, const Node *root, Node *sum, const Scaled *of) {
  for (int i = 0; i < 2; i++) {
    Node *scale = of[i].scale;
    if (!scale) continue;
    const Type *t = type_of(scale);
    if (is_one(scale) && t->rank) scale = reshape_to(g, scale, type_tensor(g, t->dtype, 0, NULL));
    sum = N(g, mul, sum, in_f32(g, scale));
  }
  DType to = type_of(root)->dtype;
  return to == DT_F32 ? sum : NA(g, cast, (&(cast_attrs){.to = to, .saturate = true}), sum);
}

static Node *fp8_mat_mul(Graph *g, const Match *m) {
  const Node *n = m->root;
  Scaled of[2];
  int64_t last = type_of(n->src[0])->rank - 1, first = 0;
  if (type_of(n->src[1])->rank != 2 || last < 1 || !scaled(g, n->src[0], -1, &of[0]) ||
      !scaled(g, n->src[1], 1, &of[1]))
    return NULL;
  dot_attrs at = {.contract_lhs = {1, &last}, .contract_rhs = {1, &first}, .out_dtype = DT_F32};
  return product(g, n, NA(g, dot, &at, of[0].x, of[1].x), of);
}

static Node *fp8_gemm(Graph *g, const Match *m) {
  const Node *n = m->root;
  const gemm_attrs *at = n->attrs;
  Scaled of[2];
  int64_t last = 1, first = at->transB ? 1 : 0;
  if (at->transA || at->alpha != 1 || at->beta != 1 || !scaled(g, n->src[0], -1, &of[0]) ||
      !scaled(g, n->src[1], at->transB ? 0 : 1, &of[1]))
    return NULL;
  dot_attrs dot = {.contract_lhs = {1, &last}, .contract_rhs = {1, &first}, .out_dtype = DT_F32};
  Node *y = product(g, n, NA(g, dot, &dot, of[0].x, of[1].x), of), *bias = src_or_null(g, n, 2);
  return bias ? N(g, add, y, bias) : y;
}

static const Rule fp8[] = {
    // clang-format off
    RULE("mat_mul.fp8", P(mat_mul, a, b), .make = fp8_mat_mul, .fast = FAST_REASSOC,
         .example = "(%x: f8e4m3[n, 6], %w: f8e5m2[6, 3]) { %xs = const f32[] {0.5} %xf = dequantize_linear(%x, %xs) "
                    "%ws = const f32[3] {0.25, 0.5, 0.125} %wf = dequantize_linear(%w, %ws) axis=1 %r = mat_mul(%xf, %wf) return %r }"),
    RULE("gemm.fp8", ANY(gemm), .make = fp8_gemm, .fast = FAST_REASSOC,
         .example = "(%x: f8e4m3[n, 6], %w: f8e4m3[3, 6], %b: f32[3], %s: f32[]) { %xc = cast(%x) to=f32 %xf = mul(%xc, %s) %wf = cast(%w) to=f32 "
                    "%r = gemm(%xf, %wf, %b) transB=true return %r }"),
    // clang-format on
};
const RuleSet rules_recognise_fp8 =
    RULES("recognise_fp8", fp8, "each rule leaves fewer products of widened numbers");
