// transpose_operands.c -- the pass transpose-operands: K-major right operands for MMA.
//
// An MMA tile fetches both operands in lines along the contracted axis, K (lower/gpu/gemm_mma.c).
// Packed weights are K-major, and so is a matrix that is multiplied transposed.  A computed matrix
// [K, columns] has its columns contiguous instead.  Where a product is large enough to pay for it,
// a kernel of its own transposes the matrix, and the product reads the result through a second
// transpose, as it reads any transposed matrix.
//
// The first transpose is marked `materialize`: fusion gives it a kernel, and rules keep it.
//
// Needs:   simplify-graph and choose-layout have run, so that a transpose that is left is needed.
// Guarantees: the same value; only for targets with MMA.  With OptOptions.batch_invariant the
//             number of rows decides nothing.
#include "eval/contract.h"
#include "passes/fuse_kernels/fuse_kernels.h"
#include "rules/shape.h"

// A smaller product would lose what it gains to writing and reading the matrix again.
enum { LEAST_SIZE = 64, LEAST_PRODUCTS = 1 << 24 };

static int64_t known(Dim d) { return ie_is_const(d) ? d->value : 0; }

// Whether there is one matrix for all rows of the left operand; a batch of one is, unless it must
// be done as a larger one would.
static bool is_one_matrix(const Type *a, const Type *b, bool batch_invariant) {
  bool one = b->rank == 2 || !batch_invariant;
  for (int i = 0; i < b->rank - 2; i++) one &= ie_is(b->dims[i], 1);
  return one && a->rank >= b->rank;
}

// Whether the right operand is a matrix [contracted, columns], and the left one has rows along the
// contracted axis.
static bool is_of_rows(const Node *n, bool batch_invariant) {
  const Type *a = type_of(n->src[0]), *b = type_of(n->src[1]);
  if (a->rank < 2 || b->rank < 2) return false;
  if (is_form(n, CF_MATMUL)) return is_one_matrix(a, b, batch_invariant);
  if (is_form(n, CF_GEMM))
    return !((const gemm_attrs *)n->attrs)->transA && !((const gemm_attrs *)n->attrs)->transB;
  const dot_attrs *at = n->attrs;
  return !at->batch_lhs.n && at->contract_lhs.n == 1 && b->rank == 2 &&
         axis_of(at->contract_lhs.v[0], a->rank) == a->rank - 1 &&
         axis_of(at->contract_rhs.v[0], b->rank) == 0;
}

// Whether MMA multiplies what the operands hold; f32 to its own precision takes the sum in another
// order.
static bool has_mma(const PassCtx *c, const Node *n) {
  DType t = type_of(n->src[0])->dtype;
  bool f32 = c->o->fast & (FAST_TF32 | FAST_REASSOC) && traits_mma_f32(c->g->traits, c->o->fast);
  return type_of(n->src[1])->dtype == t && (t == DT_BF16 || t == DT_F16 || (t == DT_F32 && f32));
}

// A dynamic size counts as the largest that it can be.
static bool is_large(const PassCtx *c, const Node *n) {
  const Type *a = type_of(n->src[0]), *b = type_of(n->src[1]);
  int64_t depth = known(b->dims[b->rank - 2]), cols = known(b->dims[b->rank - 1]);
  int64_t line = 16 * 8 / dtype_bits(b->dtype);  // elements that are copied at once
  double rows = 1;
  for (int i = 0; i < a->rank - 1; i++) rows *= (double)MAX(a->dims[i]->hi, 0);
  if (depth < LEAST_SIZE || depth % line || cols < LEAST_SIZE) return false;
  return c->o->batch_invariant ||
         (rows >= LEAST_SIZE && rows * (double)depth * (double)cols >= LEAST_PRODUCTS);
}

// Whether a value is in memory as the product reads it: nothing but its shape changes on the way.
static bool is_in_memory(const Node *x) {
  for (FuseOp op = fuse_op(x); op.cls == FC_INDEX_MAP && x->nsrc; op = fuse_op(x)) {
    if (!(op.flags & FF_VIEW)) return false;
    x = x->src[0];
  }
  return true;
}

// Whether columns are contiguous: a matrix that comes transposed may be K-major already.  Constants
// are packed.
static bool is_row_major(const Node *x) {
  while (fuse_op(x).cls == FC_INDEX_MAP && x->nsrc && x->op != OP_transpose) x = x->src[0];
  return x->op != OP_transpose && x->op != OP_const && !x->known;
}

static Node *transposed(Graph *g, Node *x, bool materialize) {
  return NA(g, transpose, (&(transpose_attrs){.materialize = materialize}), x);
}

static Node *transpose_rhs(void *ctx, Node *n, Node *old) {
  const PassCtx *c = ctx;
  (void)old;
  if (!is_gemm(n) || !is_of_rows(n, c->o->batch_invariant) || !has_mma(c, n) || !is_large(c, n) ||
      !is_in_memory(n->src[0]) || !is_row_major(n->src[1]))
    return n;
  Graph *g = c->g;
  const Type *t = type_of(n->src[1]);
  Node *b = reshape_to(g, n->src[1], type_tensor(g, t->dtype, 2, t->dims + t->rank - 2));
  if (!b) return n;
  Node *src[3] = {n->src[0], transposed(g, transposed(g, b, true), false),
                  n->nsrc > 2 ? n->src[2] : NULL};
  return node_with(g, n, src);
}

tenon_status pass_transpose_operands(PassCtx *c, bool *out_changed) {
  if (!c->g->traits->mma) return TENON_OK;
  GraphMap m = {.g = c->g, .fn = transpose_rhs, .ctx = c};
  return graph_map(&m, out_changed);
}
