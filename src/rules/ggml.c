// ggml.c -- products with matrices in ggml's block types: x is quantised once for all of them.
//
// Exact: the product would quantise x itself by the same evaluation.
#include "eval/blocks.h"
#include "ir/internal.h"
#include "ops/order.h"
#include "rules/rules.h"

static Node *quantise(Graph *g, const Match *m) {
  const Node *n = m->root;
  const mat_mul_blocks_attrs *at = n->attrs;
  if (at->activations != BLOCKS_INT8 || type_of(n->src[0])->dtype != DT_F32) return NULL;
  quantize_blocks_attrs how = {.block = block_type(at->type)->x_block};
  Node *src[4];
  CHECK(n->nsrc <= ARRAY_LEN(src), "mat_mul_blocks has %u operands", n->nsrc);
  memcpy(src, n->src, n->nsrc * sizeof *src);
  src[0] = node_new(g, OP_quantize_blocks, 1, &n->src[0], &how, 1, NULL);
  return node_new(g, OP_mat_mul_blocks, (int)n->nsrc, src, at, 1, n->name);
}

static const Rule blocks[] = {
    // clang-format off
    RULE("mat_mul_blocks.quantize", ANY(mat_mul_blocks), .make = quantise,
         .example = "(%x: f32[n, 32]) { %w = const u8[1, 18] {0, 60, 18, 52, 86, 120, 154, 188, 222, 240, 1, 35, 69, 103, 137, 171, 205, 239} "
                    "%r = mat_mul_blocks(%x, %w) type=q4_0 k=32 activations=int8 return %r }"),
    // clang-format on
};
const RuleSet rules_ggml = RULES("ggml", blocks, "a quantised x is not quantised again");
