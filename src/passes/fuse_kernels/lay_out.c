// lay_out.c -- which operands are written to memory for the kernel that reads them.
//
// Fusion reads a value through index maps wherever it can.  Packed dot products, MMA tiles and
// attention want their operands contiguous instead: an index map before them becomes a kernel, or
// part of the one that makes the value.
//
// Needs:      FuseNode.op of the node and of what stands before it (class.c).
// Guarantees: changes the class of index maps alone, from FC_INDEX_MAP to FC_MAP; with Fuser.alone
//             that of images and of filled-up rows only.
#include "eval/contract.h"
#include "ir/internal.h"
#include "ops/order.h"
#include "passes/fuse_kernels/fuse_kernels.h"
#include "plan/plan.h"
#include "rules/shape.h"

static bool is_fp8(const Node *n) {
  DType t = is_form(n, CF_DOT) ? type_of(n->src[0])->dtype : DT_F32;
  return dtype_is_float(t) && dtype_bits(t) == 8;
}

// Packed dot products: int8, fp8 and pairs of bf16 are multiplied several at once.
bool fuse_is_packed_dot(const Node *n) {
  bool floats = is_form(n, CF_CONV) || is_gemm(n);
  if (floats && type_of(n->src[0])->dtype == DT_BF16) return true;
  return sums_int8(n) || is_fp8(n);
}

// MMA tiles fetch the pixels of a window by themselves.
bool fuse_fetches_pixels(const Fuser *f, const Node *n) {
  const TargetTraits *t = f->g->traits;
  if (!t->mma || !is_form(n, CF_CONV) || sums_int8(n)) return false;
  bool f32 = type_of(n->src[0])->dtype == DT_F32;
  return (!f32 || traits_mma_f32(t, f->c->o->fast)) && ((const conv_attrs *)n->attrs)->group == 1;
}

// Packed dot products need contiguous operands: an index map that a convolution would read through
// is materialised.
static void lay_out_image(Fuser *f, const Node *n) {
  if (!is_form(n, CF_CONV) || (!fuse_is_packed_dot(n) && !fuse_fetches_pixels(f, n))) return;
  FuseNode *x = fuse_at(f, n->src[0]);
  if (x->op.cls == FC_INDEX_MAP && !fuse_is_view(f, n->src[0]))
    x->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
}

// So do rows of a product that are filled up to whole lines.
static void lay_out_filled(Fuser *f, const Node *n) {
  if (!f->g->traits->mma || !is_form(n, CF_DOT) || !fuse_is_packed_dot(n)) return;
  FuseNode *x = fuse_at(f, n->src[0]);
  if (n->src[0]->op == OP_pad && x->op.cls == FC_INDEX_MAP)
    x->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
}

// The gather or concatenation that a value is read from through index maps, or where these end.
static const Node *below_moves(Fuser *f, const Node *n) {
  while (fuse_at(f, n)->op.cls == FC_INDEX_MAP && n->op != OP_gather && n->op != OP_concat &&
         n->nsrc)
    n = n->src[0];
  return n;
}
static bool is_looked_up(Fuser *f, const Node *n) {
  return n->op == OP_gather && fuse_at(f, n)->op.cls == FC_INDEX_MAP && n->src[1]->op != OP_const &&
         !n->src[1]->known;
}

// What is looked up for one tap, row or column after the other is looked up once, and stored.
static void lay_out_rows(Fuser *f, const Node *n) {
  const ContractionInfo *at = op_contraction(n);
  if (!at || (at->form != CF_CONV && at->form != CF_MATMUL)) return;
  for (int i = 0; i < 2; i++) {
    const Node *x = below_moves(f, n->src[i ? at->rhs : at->lhs]);
    if (fuse_at(f, x)->op.cls != FC_INDEX_MAP) continue;
    bool found = at->form == CF_CONV && is_looked_up(f, x);
    for (uint32_t k = 0; x->op == OP_concat && k < x->nsrc && !found; k++)
      found = is_looked_up(f, below_moves(f, x->src[k]));
    if (found) fuse_at(f, x)->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, FF_STORED};
  }
}

// MMA tiles fetch contiguous rows.  The kernel of attention writes its heads contiguously, not the
// product after it.  The left operand of an int8 or fp8 product is small, and gets a kernel that
// only moves it.
static void lay_out_heads(Fuser *f, const Node *n) {
  bool bytes = (is_form(n, CF_MATMUL) && sums_int8(n)) || is_fp8(n);
  bytes = bytes && f->g->traits->mma && n->src[op_contraction(n)->rhs]->op == OP_const;
  if (!bytes && (!traits_attention_materializes(f->g->traits) || !is_gemm(n))) return;
  const Node *from = n->src[0];
  FuseNode *moves = NULL, *x;
  for (x = fuse_at(f, from); x->op.cls == FC_INDEX_MAP && from->nsrc; x = fuse_at(f, from)) {
    if (!(x->op.flags & FF_VIEW)) moves = x;
    from = from->src[0];
  }
  if (moves && (bytes || from->op == OP_attention)) moves->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
}

// The epilogue of an MMA tile has no index that comes from data: a table of bytes is read in a
// kernel of its own.
static void materialize_table(Fuser *f, const Node *n) {
  FuseNode *x = fuse_at(f, n);
  if (!f->g->traits->mma || n->op != OP_gather || x->op.cls != FC_POINT) return;
  const Node *from = n->src[1];
  while ((fuse_at(f, from)->op.cls == FC_POINT || fuse_at(f, from)->op.cls == FC_INDEX_MAP) &&
         from->nsrc)
    from = from->src[0];
  if (sums_int8(from)) x->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
}

// Whether the value is a sum of products, or made of one element by element.
static bool is_of_products(Fuser *f, const Node *n) {
  while ((fuse_at(f, n)->op.cls == FC_POINT || fuse_at(f, n)->op.cls == FC_INDEX_MAP) && n->nsrc)
    n = n->src[0];
  return is_gemm(n) || is_form(n, CF_CONV);
}

// Nor does it gather the rows of a residual, such as those of an embedding.
static void materialize_rows(Fuser *f, const Node *n) {
  if (!f->g->traits->mma || fuse_at(f, n)->op.cls != FC_POINT || n->nsrc < 2) return;
  for (int i = 0; i < 2; i++) {
    const Node *x = n->src[i];
    while (fuse_at(f, x)->op.cls == FC_INDEX_MAP && x->op != OP_gather && x->nsrc) x = x->src[0];
    bool rows = x->op == OP_gather && fuse_at(f, x)->op.cls == FC_INDEX_MAP &&
                x->src[1]->op != OP_const && !x->src[1]->known;
    if (rows && is_of_products(f, n->src[!i]))
      fuse_at(f, x)->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
  }
}

// Likewise keys and values that are a concatenation of the KV cache and the new ones.
static void lay_out_keys(Fuser *f, const Node *n) {
  enum { K = 1, V = 2 };
  if (!traits_attention_materializes(f->g->traits) || n->op != OP_attention) return;
  for (int i = K; i <= V; i++) {
    const Node *x = n->src[i];
    while (fuse_at(f, x)->op.cls == FC_INDEX_MAP && x->op != OP_concat && x->nsrc) x = x->src[0];
    if (x->op == OP_concat && fuse_at(f, x)->op.cls == FC_INDEX_MAP)
      fuse_at(f, x)->op = (FuseOp){FC_MAP, FUSED_MOVEMENT, 0};
  }
}

void fuse_lay_out(Fuser *f, const Node *n) {
  lay_out_image(f, n);
  lay_out_filled(f, n);
  if (f->alone) return;
  lay_out_rows(f, n);
  lay_out_heads(f, n);
  lay_out_keys(f, n);
  materialize_table(f, n);
  materialize_rows(f, n);
}
