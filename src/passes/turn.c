// turn.c -- matrices that products read across, written out along the contracted axis.
//
// Units that multiply matrices fetch both operands in lines along the contracted axis (lower/tile.c).  Weights are packed so, and the rows of a matrix
// that is multiplied transposed are such lines; the columns of any other computed matrix are not.  Where a product is large enough to pay
// for it, the matrix is written out transposed, by a kernel of its own, and the product reads it through a second transpose, as any transposed
// one.  The two would cancel: that they are there is how fusion knows what to write out (fuse_is_turned).
//
// Needs:      simplification and layout have run, which take such pairs away.
// Guarantees: the same value; only for targets with such units.  With OptOptions.batch_invariant rows decide nothing.
#include "eval/contract.h"
#include "passes/fuse.h"
#include "rules/shape.h"

// Of smaller products to write and read the matrix again would take much of what they gain.
enum { LEAST_SIZE = 64, LEAST_PRODUCTS = 1 << 24 };

static int64_t known(Dim d) { return ie_is_const(d) ? d->value : 0; }

// Whether there is one matrix for all rows of the left operand; a batch of one is, unless it must be done as a larger one would.
static bool is_one_matrix(const Type *a, const Type *b, bool batch_invariant) {
  bool one = b->rank == 2 || !batch_invariant;
  for (int i = 0; i < b->rank - 2; i++) one &= ie_is(b->dims[i], 1);
  return one && a->rank >= b->rank;
}

// Whether the right operand is a matrix [contracted, columns], and the left one has rows along the contracted axis.
static bool is_of_rows(const Node *n, bool batch_invariant) {
  const Type *a = type_of(n->src[0]), *b = type_of(n->src[1]);
  if (a->rank < 2 || b->rank < 2) return false;
  if (n->op == OP_mat_mul) return is_one_matrix(a, b, batch_invariant);
  if (n->op == OP_gemm)
    return !((const gemm_attrs *)n->attrs)->transA && !((const gemm_attrs *)n->attrs)->transB;
  const dot_attrs *at = n->attrs;
  return !at->batch_lhs.n && at->contract_lhs.n == 1 && b->rank == 2 &&
         axis_of(at->contract_lhs.v[0], a->rank) == a->rank - 1 &&
         axis_of(at->contract_rhs.v[0], b->rank) == 0;
}

// Units have products of these.
static bool has_units(const PassCtx *c, const Node *n) {
  DType t = type_of(n->src[0])->dtype;
  unsigned f32 = FAST_TF32 | (c->o->only_tf32 ? 0 : FAST_REASSOC);
  return type_of(n->src[1])->dtype == t &&
         (t == DT_BF16 || t == DT_F16 || (t == DT_F32 && c->o->fast & f32));
}

// Sizes that are open count as the largest that they can be.
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

// Whether a value lies in memory as it is, or will be: nothing but its shape changes on the way to the product.
static bool lies_in_rows(const Node *x) {
  for (FuseOp op = fuse_op(x); op.cls == FC_LAZY && x->nsrc; op = fuse_op(x)) {
    if (!(op.flags & FF_VIEW)) return false;
    x = x->src[0];
  }
  return true;
}

// Whether columns lie across: of a matrix that comes transposed they may lie along the contracted axis already.  Constants are packed.
static bool lies_across(const Node *x) {
  while (fuse_op(x).cls == FC_LAZY && x->nsrc && x->op != OP_transpose) x = x->src[0];
  return x->op != OP_transpose && x->op != OP_const && !x->known;
}

// By the default order of axes, which rules write out: so it is another node than a transpose that other products read through.
static Node *reversed(Graph *g, Node *x) { return NA(g, transpose, (&(transpose_attrs){0}), x); }

static Node *turn(void *ctx, Node *n, Node *old) {
  const PassCtx *c = ctx;
  (void)old;
  if ((n->op != OP_mat_mul && n->op != OP_gemm && n->op != OP_dot) ||
      !is_of_rows(n, c->o->batch_invariant) || !has_units(c, n) || !is_large(c, n) ||
      !lies_in_rows(n->src[0]) || !lies_across(n->src[1]))
    return n;
  Graph *g = c->g;
  const Type *t = type_of(n->src[1]);
  Node *b = reshape_to(g, n->src[1], type_tensor(g, t->dtype, 2, t->dims + t->rank - 2));
  if (!b) return n;
  Node *src[3] = {n->src[0], reversed(g, reversed(g, b)), n->nsrc > 2 ? n->src[2] : NULL};
  return node_with(g, n, src);
}

tenon_status pass_turn(PassCtx *c, bool *out_changed) {
  if (!c->o->tiles) return TENON_OK;
  GraphMap m = {.g = c->g, .fn = turn, .ctx = c};
  return graph_map(&m, out_changed);
}
