// class.c -- what each node is to fusion, and how values are read through index maps.
//
// An op's record has its class (OpInfo.fuse) where its flags do not say enough.  Here are the nodes
// whose attributes or operands make them something else.
//
// Needs:      inferred types.
// Guarantees: depends on the node and its operands alone, not on groups.
#include "eval/norm.h"
#include "eval/quant.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "passes/fuse_kernels/fuse_kernels.h"
#include "rules/shape.h"

// A look-up in a small table of constants is a function of each element by itself.
static bool is_lookup(const Node *n) {
  enum { TABLE_MAX = 65536 };
  const Node *table = n->src[0];
  return table->op == OP_const && type_of(table)->rank == 1 && dtype_bits(type_of(n)->dtype) <= 8 &&
         table->data->n <= TABLE_MAX;
}

// Bytes or bf16 as floats: to read them and do this again costs less than to write the floats.
static bool is_narrow_read(const Node *n) {
  if (n->op == OP_cast)
    return type_of(n)->dtype == DT_F32 && type_of(n->src[0])->kind == TK_TENSOR &&
           type_of(n->src[0])->dtype == DT_BF16;
  if (n->op != OP_dequantize_linear || ((const dequantize_linear_attrs *)n->attrs)->block_size)
    return false;
  const Type *x = type_of(n->src[0]);
  return x->kind == TK_TENSOR && x->rank >= 0 && (x->dtype == DT_U8 || x->dtype == DT_I8) &&
         type_of(n)->dtype == DT_F32;
}

FuseOp fuse_op(const Node *n) {
  const OpInfo *op = op_info(n->op);
  if (is_materialized(n)) return (FuseOp){FC_MAP, FUSED_MOVEMENT, FF_STORED};
  if (is_narrow_read(n)) return (FuseOp){FC_INDEX_MAP, FUSED_POINTWISE, FF_BIJECTIVE};
  if (op->flags & (OPF_HOST | OPF_CONTROL) || n->op == OP_foreign)
    return (FuseOp){FC_HOST, FUSED_HOST, 0};
  if (n->op == OP_batch_normalization &&
      (((const batch_normalization_attrs *)n->attrs)->training_mode || n->nres != 1))
    return (FuseOp)FUSE_REDUCTION;
  if (n->op == OP_gather && is_lookup(n)) return (FuseOp)FUSE_POINT;
  if (op->fuse.cls != FC_BY_FLAGS) return op->fuse;
  if (op->flags & OPF_ELEMENTWISE && n->nres == 1) return (FuseOp)FUSE_POINT;
  return (FuseOp){FC_ANCHOR, FUSED_REDUCTION, FF_CLOSED};
}

bool fuse_reads_packed(const Node *n) {
  const Node *b = is_gemm(n) ? n->src[op_contraction(n)->rhs] : NULL;
  return b && b->op == OP_transpose && is_materialized(b->src[0]);
}

// ---- reading through index maps ----

void fuse_leaves(Fuser *f, const Node *o) {
  int32_t i = f->pos[o->id], w = fuse_work(f, i);
  switch ((FuseClass)f->n[w].op.cls) {
  case FC_FREE:
  case FC_INPUT: return;
  case FC_INDEX_MAP:
    for (uint32_t k = 0; k < f->n[w].node->nsrc; k++) fuse_leaves(f, f->n[w].node->src[k]);
    return;
  default: vec_push(f->arena, &f->leaf, i);
  }
}

// A transposition that moves only axes of size 1 leaves the elements where they are.
static bool keeps_order(const Node *n) {
  if (n->op != OP_transpose) return false;
  const transpose_attrs *at = n->attrs;
  const Type *t = type_of(n->src[0]);
  int64_t last = -1;
  for (int i = 0; i < t->rank; i++) {
    int64_t axis = at->perm.n ? at->perm.v[i] : t->rank - 1 - i;
    if (axis < 0 || axis >= t->rank) return false;
    if (ie_is(t->dims[axis], 1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

static uint64_t rearrange(const Node *n, uint64_t order) {
  const OpInfo *op = op_info(n->op);
  uint64_t h = hash_u64(order ^ (uint64_t)n->op);
  h = hash_u64(h ^ (uint64_t)(uintptr_t)type_of(n->src[0]));
  return n->attrs ? h ^ attrs_hash(op->attrs, op->nattrs, n->attrs) : h;
}

int32_t fuse_rearranged(Fuser *f, const Node *o, uint64_t *out_order) {
  FuseNode *x = fuse_at(f, o);
  if (x->op.cls == FC_INDEX_MAP) {
    if (!(x->op.flags & FF_BIJECTIVE)) return NO_GROUP;
    int32_t v = fuse_rearranged(f, o->src[0], out_order);
    if (v >= 0 && !(x->op.flags & FF_VIEW) && !keeps_order(o) && o->op != OP_dequantize_linear &&
        o->op != OP_cast)
      *out_order = rearrange(o, *out_order);
    return v;
  }
  int32_t w = fuse_work(f, f->pos[o->id]);
  uint8_t cls = f->n[w].op.cls;
  if (cls != FC_POINT && cls != FC_MAP && cls != FC_ANCHOR) return NO_GROUP;
  *out_order = f->n[w].order;
  if (o->op == OP_proj)
    *out_order = hash_u64(*out_order ^ (uint64_t)((const proj_attrs *)o->attrs)->index << 32);
  return f->pos[o->id];
}

bool fuse_is_view(Fuser *f, const Node *o) {
  while (fuse_at(f, o)->op.cls == FC_INDEX_MAP) {
    if (!(fuse_at(f, o)->op.flags & FF_VIEW) && !keeps_order(o)) return false;
    o = o->src[0];
  }
  return true;
}
