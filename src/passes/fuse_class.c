// fuse_class.c -- what each op is to fusion, and how values are read through index maps.
//
// Rows are only needed where an op's flags do not say enough: an element-wise op is FC_POINT, one of the host
// FC_HOST, any other without a row a kernel of its own without an epilogue.
#include "eval/norm.h"
#include "eval/quant.h"
#include "eval/movement.h"
#include "ir/internal.h"
#include "passes/fuse.h"

#define VIEW(o)        [OP_##o] = {FC_LAZY, FUSED_MOVEMENT, FF_VIEW | FF_BIJECTIVE}
#define ORDER(o)       [OP_##o] = {FC_LAZY, FUSED_MOVEMENT, FF_BIJECTIVE}
#define INDEX(o)       [OP_##o] = {FC_LAZY, FUSED_MOVEMENT, 0}
#define MAP(o)         [OP_##o] = {FC_MAP, FUSED_POINTWISE, 0}
#define CONTRACTION(o) [OP_##o] = {FC_ANCHOR, FUSED_CONTRACTION, 0}
#define WINDOW(o)      [OP_##o] = {FC_ANCHOR, FUSED_WINDOW, 0}
#define REDUCTION(o)   [OP_##o] = {FC_ANCHOR, FUSED_REDUCTION, FF_ROW}
#define NORM(o)        [OP_##o] = {FC_ANCHOR, FUSED_REDUCTION, FF_ROW | FF_SAME}
#define RECURRENT(o)   [OP_##o] = {FC_ANCHOR, FUSED_RECURRENT, 0}
#define MOVES(o)       [OP_##o] = {FC_ANCHOR, FUSED_MOVEMENT, FF_CLOSED}

static const FuseOp row[OP_COUNT] = {
    // clang-format off
    VIEW(reshape), VIEW(flatten), VIEW(squeeze), VIEW(unsqueeze),
    ORDER(transpose), ORDER(depth_to_space), ORDER(space_to_depth),
    INDEX(expand), INDEX(slice), INDEX(concat), INDEX(split), INDEX(pad), INDEX(tile), INDEX(reverse_sequence),
    INDEX(trilu), INDEX(center_crop_pad), INDEX(gather), INDEX(gather_elements), INDEX(gather_nd),
    INDEX(constant_of_shape), INDEX(range), INDEX(eye_like),
    MAP(one_hot), MAP(rotary_embedding), MAP(random_uniform), MAP(random_normal), MAP(random_uniform_like),
    MAP(random_normal_like), MAP(bernoulli), MAP(dropout),
    MAP(hann_window), MAP(hamming_window), MAP(blackman_window), MAP(mel_weight_matrix), MAP(affine_grid),
    [OP_quantize_linear] = {FC_POINT, FUSED_POINTWISE, 0},
    [OP_dequantize_linear] = {FC_POINT, FUSED_POINTWISE, 0},  // of bytes: see is_narrow_read
    [OP_batch_normalization] = {FC_POINT, FUSED_POINTWISE, 0},
    CONTRACTION(dot), CONTRACTION(mat_mul), CONTRACTION(gemm), CONTRACTION(einsum), CONTRACTION(mat_mul_integer),
    CONTRACTION(mat_mul_n_bits),
    CONTRACTION(q_linear_mat_mul), CONTRACTION(conv), CONTRACTION(conv_transpose), CONTRACTION(conv_integer),
    CONTRACTION(q_linear_conv), CONTRACTION(deform_conv), CONTRACTION(causal_conv_with_state), CONTRACTION(dft),
    CONTRACTION(stft),
    WINDOW(max_pool), WINDOW(average_pool), WINDOW(lp_pool), WINDOW(max_roi_pool), WINDOW(roi_align), WINDOW(lrn),
    WINDOW(resize), WINDOW(grid_sample), WINDOW(col2im),
    REDUCTION(global_average_pool), REDUCTION(global_max_pool), REDUCTION(global_lp_pool),
    REDUCTION(reduce_sum), REDUCTION(reduce_prod), REDUCTION(reduce_max), REDUCTION(reduce_min), REDUCTION(reduce_mean),
    REDUCTION(reduce_l1), REDUCTION(reduce_l2), REDUCTION(reduce_log_sum), REDUCTION(reduce_log_sum_exp),
    REDUCTION(reduce_sum_square), REDUCTION(arg_max), REDUCTION(arg_min), REDUCTION(negative_log_likelihood_loss),
    REDUCTION(softmax_cross_entropy_loss),
    NORM(softmax), NORM(log_softmax), NORM(layer_normalization), NORM(rms_normalization),
    NORM(instance_normalization), NORM(group_normalization), NORM(lp_normalization),
    NORM(mean_variance_normalization), NORM(hardmax), NORM(cum_sum), NORM(cum_prod),
    [OP_top_k] = {FC_ANCHOR, FUSED_REDUCTION, FF_ROW},
    [OP_attention] = {FC_ANCHOR, FUSED_ATTENTION, 0},
    [OP_linear_attention] = {FC_ANCHOR, FUSED_ATTENTION, 0},
    RECURRENT(lstm), RECURRENT(gru), RECURRENT(rnn),
    MOVES(scatter_elements), MOVES(scatter_nd), MOVES(tensor_scatter), MOVES(max_unpool),
    // clang-format on
};

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
  if (is_narrow_read(n)) return (FuseOp){FC_LAZY, FUSED_POINTWISE, FF_BIJECTIVE};
  if (op->flags & (OPF_HOST | OPF_CONTROL) || n->op == OP_foreign)
    return (FuseOp){FC_HOST, FUSED_HOST, 0};
  if (n->op == OP_batch_normalization &&
      (((const batch_normalization_attrs *)n->attrs)->training_mode || n->nres != 1))
    return (FuseOp){FC_ANCHOR, FUSED_REDUCTION, FF_ROW};
  if (n->op == OP_gather && is_lookup(n)) return (FuseOp){FC_POINT, FUSED_POINTWISE, 0};
  if (row[n->op].cls) return row[n->op];
  if (op->flags & OPF_ELEMENTWISE && n->nres == 1) return (FuseOp){FC_POINT, FUSED_POINTWISE, 0};
  return (FuseOp){FC_ANCHOR, FUSED_REDUCTION, FF_CLOSED};
}

static bool reverses(const Node *n) {
  return n->op == OP_transpose && !((const transpose_attrs *)n->attrs)->perm.n;
}

bool fuse_is_turned(const Node *n) {
  bool product = n->op == OP_mat_mul || n->op == OP_gemm || n->op == OP_dot;
  return product && reverses(n->src[1]) && reverses(n->src[1]->src[0]);
}

// ---- reading through index maps ----

void fuse_leaves(Fuser *f, const Node *o) {
  int32_t i = f->pos[o->id], w = fuse_work(f, i);
  switch ((FuseClass)f->n[w].op.cls) {
  case FC_FREE:
  case FC_INPUT: return;
  case FC_LAZY:
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
  if (x->op.cls == FC_LAZY) {
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
  while (fuse_at(f, o)->op.cls == FC_LAZY) {
    if (!(fuse_at(f, o)->op.flags & FF_VIEW) && !keeps_order(o)) return false;
    o = o->src[0];
  }
  return true;
}
