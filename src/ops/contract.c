// contract.c -- records of dot and of what is a dot underneath: matrix products, gemm, einsum.
//
// dot is the one contraction primitive; mat_mul and gemm expand to it.
#include "eval/contract.h"
#include "eval/movement.h"
#include "ops/sym.h"
#include "ops/window.h"

// ---- dot ----

static tenon_status mark_axes(Infer *in, const Type *t, Ints axes, int *out, bool *used) {
  for (int64_t i = 0; i < axes.n; i++) {
    int axis;
    TRY(infer_axis(in, axes.v[i], t->rank, &axis));
    if (used[axis]) return infer_fail(in, TENON_EINVAL, "axis %d is named twice", axis);
    used[axis] = true;
    out[i] = axis;
  }
  return TENON_OK;
}

static tenon_status pair_axes(Infer *in, Ints la, Ints ra, bool *lused, bool *rused, Dim *dims,
                              const char *what) {
  const Type *a = infer_type(in, 0), *b = infer_type(in, 1);
  int l[MAX_RANK], r[MAX_RANK];
  if (la.n != ra.n || la.n > a->rank || ra.n > b->rank)
    return infer_fail(in, TENON_EINVAL, "%lld %s axes of lhs and %lld of rhs do not pair up",
                      (long long)la.n, what, (long long)ra.n);
  TRY(mark_axes(in, a, la, l, lused));
  TRY(mark_axes(in, b, ra, r, rused));
  for (int64_t i = 0; i < la.n; i++) {
    TRY(infer_equal_dim(in, a->dims[l[i]], b->dims[r[i]], what));
    if (dims) dims[i] = a->dims[l[i]];
  }
  return TENON_OK;
}

ATTR_TABLE(dot, DOT_ATTRS);
static tenon_status infer_dot(Infer *in) {
  const dot_attrs *at = in->attrs;
  TRY(infer_need(in, 0, 0));
  TRY(infer_need(in, 1, 0));
  const Type *a = infer_type(in, 0), *b = infer_type(in, 1);
  DType t = at->out_dtype ? at->out_dtype : a->dtype;
  TRY(infer_whole_bytes(in, t));
  if (!at->out_dtype) TRY(infer_same_dtype(in, 0, 1));
  if (a->rank < 0 || b->rank < 0) {
    infer_set_unranked(in, 0, t);
    return TENON_OK;
  }
  bool lused[MAX_RANK] = {false}, rused[MAX_RANK] = {false};
  Dim dims[3 * MAX_RANK];
  TRY(pair_axes(in, at->batch_lhs, at->batch_rhs, lused, rused, dims, "batch"));
  TRY(pair_axes(in, at->contract_lhs, at->contract_rhs, lused, rused, NULL, "contracted"));
  int n = (int)at->batch_lhs.n;
  for (int d = 0; d < a->rank; d++)
    if (!lused[d]) dims[n++] = a->dims[d];
  for (int d = 0; d < b->rank; d++)
    if (!rused[d]) dims[n++] = b->dims[d];
  return infer_set(in, 0, t, n, dims);
}
static double cost_dot(const CostIn *c) {
  const dot_attrs *at = c->node->attrs;
  double k = 1;
  for (int64_t i = 0; i < at->contract_lhs.n && c->in[0].rank > 0; i++) {
    int64_t axis = at->contract_lhs.v[i];
    k *= (double)c->in[0].dims[axis < 0 ? axis + c->in[0].rank : axis];
  }
  return c->out[0].rank < 0 ? 0 : 2 * k * (double)c->out[0].n;
}
const OpInfo op_dot = {
    .name = "dot",
    .doc = "sum of products over the contracted axes; the result has the batch axes, then lhs's "
           "others, then rhs's",
    .operands = "lhs rhs",
    .results = "y",
    .dtypes = "number",
    .arity = 2,
    .nres = 1,
    CONTRACTION(CF_DOT, 0, 0, 1, -1, -1, -1, -1, -1, -1, -1),
    OP_ATTRS(dot),
    .infer = infer_dot,
    .eval = eval_dot,
    .cost = cost_dot,
    SAMPLES(
        "(f32[2,3], f32[3,4]) contract_lhs=[1] contract_rhs=[0]",
        "(f32[5,2,3], f32[4,3,5]) batch_lhs=[0] batch_rhs=[-1] contract_lhs=[2] contract_rhs=[1]",
        "(f32[2,3], f32[4])", "(f16[7,9], f16[7,9]) contract_lhs=[0, 1] contract_rhs=[0, 1]",
        "(i32[3,4], i32[4,2]) contract_lhs=[1] contract_rhs=[0]",
        "(i8[3,4], i8[4,2]) contract_lhs=[1] contract_rhs=[0] out_dtype=i32",
        "(f32[2,0], f32[0,4]) contract_lhs=[1] contract_rhs=[0]",
        "(f32[b,t,64], f32[64,32]) contract_lhs=[2] contract_rhs=[0]"),
};

// ---- numpy's matmul ----

// Shape of the product of operands a and b; *out_rank -1 when it is not known.
static tenon_status mat_mul_dims(Infer *in, int ia, int ib, int *out_rank, Dim *dims) {
  const Type *a = infer_type(in, ia), *b = infer_type(in, ib);
  *out_rank = -1;
  if (a->rank == 0 || b->rank == 0)
    return infer_fail(in, TENON_EINVAL,
                      "operands of rank %d and %d: a scalar has no matrix product", a->rank,
                      b->rank);
  if (a->rank < 0 || b->rank < 0) return TENON_OK;
  Dim ka = a->dims[a->rank - 1], kb = b->dims[b->rank == 1 ? 0 : b->rank - 2];
  TRY(infer_equal_dim(in, ka, kb, "inner sizes"));
  int na = MAX(a->rank - 2, 0), nb = MAX(b->rank - 2, 0), n = MAX(na, nb);
  for (int d = 0; d < n; d++) {
    Dim one = in->g->dims.one;
    Dim da = d < n - na ? one : a->dims[d - (n - na)],
        db = d < n - nb ? one : b->dims[d - (n - nb)];
    TRY(infer_broadcast_dim(in, da, db, &dims[d]));
  }
  if (a->rank > 1) dims[n++] = a->dims[a->rank - 2];
  if (b->rank > 1) dims[n++] = b->dims[b->rank - 1];
  *out_rank = n;
  return TENON_OK;
}

static tenon_status infer_product(Infer *in, int ia, int ib, DType t) {
  int rank;
  Dim dims[MAX_RANK + 2];
  TRY(mat_mul_dims(in, ia, ib, &rank, dims));
  if (rank >= 0) return infer_set(in, 0, t, rank, dims);
  infer_set_unranked(in, 0, t);
  return TENON_OK;
}

static tenon_status infer_mat_mul(Infer *in) {
  TRY(infer_same_dtype(in, 0, 1));
  TRY(infer_whole_bytes(in, infer_type(in, 0)->dtype));
  return infer_product(
      in, 0, 1, infer_type(in, 0)->dtype ? infer_type(in, 0)->dtype : infer_type(in, 1)->dtype);
}

static double product_cost(const CostIn *c, int a) {
  if (c->out[0].rank < 0 || c->in[a].rank < 1) return 0;
  return 2 * (double)c->out[0].n * (double)c->in[a].dims[c->in[a].rank - 1];
}
static double cost_mat_mul(const CostIn *c) { return product_cost(c, 0); }

// How each batch dimension of the result comes about: from both sides, or from one where the other
// has 1.
typedef enum { FROM_BOTH, FROM_LHS, FROM_RHS } BatchFrom;

// Squeezes the batch dims of `x` (of the given place among n) that another side provides.
static Node *drop_ones(Graph *g, Node *x, int n, const BatchFrom *from, BatchFrom other,
                       int *out_kept, int *kept) {
  int own = MAX(type_of(x)->rank - 2, 0), nd = 0, nk = 0;
  int64_t drop[MAX_RANK];
  for (int d = 0; d < own; d++) {
    int at = n - own + d;
    if (from[at] == other)
      drop[nd++] = d;
    else
      kept[nk++] = at;
  }
  *out_kept = nk;
  return nd ? N(g, squeeze, x, node_i64s(g, nd, drop)) : x;
}

static bool batch_plan(const Type *a, const Type *b, int n, BatchFrom *from) {
  int na = MAX(a->rank - 2, 0), nb = MAX(b->rank - 2, 0);
  for (int d = 0; d < n; d++) {
    Dim da = d < n - na ? NULL : a->dims[d - (n - na)],
        db = d < n - nb ? NULL : b->dims[d - (n - nb)];
    if (!db || (da && ie_is(db, 1)))
      from[d] = FROM_LHS;
    else if (!da || ie_is(da, 1))
      from[d] = FROM_RHS;
    else if (da == db)
      from[d] = FROM_BOTH;
    else
      return false;  // equal or 1: known only at run time
  }
  return true;
}

static void expand_mat_mul(Graph *g, const Node *n, Node **out) {
  const Type *a = type_of(n->src[0]), *b = type_of(n->src[1]);
  int nb = MAX(MAX(a->rank, b->rank) - 2, 0), na_kept, nb_kept, akept[MAX_RANK], bkept[MAX_RANK];
  BatchFrom from[MAX_RANK];
  if (a->rank < 1 || b->rank < 1 || !batch_plan(a, b, nb, from)) return;
  Node *x = drop_ones(g, n->src[0], nb, from, FROM_RHS, &na_kept, akept);
  Node *y = drop_ones(g, n->src[1], nb, from, FROM_LHS, &nb_kept, bkept);
  int64_t bl[MAX_RANK], br[MAX_RANK],
      at[MAX_RANK];  // at[result axis of dot] = batch axis, or nb + 0/1
  int nbatch = 0, naxes = 0;
  for (int i = 0; i < na_kept; i++)
    if (from[akept[i]] == FROM_BOTH) {
      bl[nbatch] = i;
      for (int j = 0; j < nb_kept; j++)
        if (bkept[j] == akept[i]) br[nbatch] = j;
      at[naxes++] = akept[i];
      nbatch++;
    }
  for (int i = 0; i < na_kept; i++)
    if (from[akept[i]] != FROM_BOTH) at[naxes++] = akept[i];
  if (a->rank > 1) at[naxes++] = nb;
  for (int j = 0; j < nb_kept; j++)
    if (from[bkept[j]] != FROM_BOTH) at[naxes++] = bkept[j];
  if (b->rank > 1) at[naxes++] = nb + 1;
  int64_t ka = a->rank == 1 ? 0 : na_kept + 1, kb = b->rank == 1 ? 0 : nb_kept;
  dot_attrs d = {.batch_lhs = {nbatch, bl},
                 .batch_rhs = {nbatch, br},
                 .contract_lhs = {1, &ka},
                 .contract_rhs = {1, &kb}};
  Node *dot = NA(g, dot, &d, x, y);
  int64_t perm[MAX_RANK];
  int filled = 0;
  bool sorted = true;
  for (int want = 0; want < nb + 2; want++)
    for (int i = 0; i < naxes; i++)
      if (at[i] == want) perm[filled++] = i;
  for (int i = 0; i < filled; i++) sorted = sorted && perm[i] == i;
  transpose_attrs tr = {.perm = {filled, perm}};
  out[0] = sorted ? dot : NA(g, transpose, &tr, dot);
}
const OpInfo op_mat_mul = {
    .name = "mat_mul",
    .doc = "matrix product of the last two axes, the others broadcast, as numpy's matmul",
    .onnx = "MatMul",
    .onnx_since = 1,
    .operands = "a b",
    .results = "y",
    .dtypes = "number",
    .arity = 2,
    .nres = 1,
    CONTRACTION(CF_MATMUL, 0, 0, 1, -1, -1, -1, -1, -1, -1, -1),
    .flags = OPF_COMPOSITE,
    .infer = infer_mat_mul,
    .eval = eval_mat_mul,
    .expand = expand_mat_mul,
    .cost = cost_mat_mul,
    SAMPLES("(f32[3,4], f32[4,5])", "(f32[4], f32[4])", "(f32[4], f32[2,4,5])",
            "(f32[2,3,4], f32[4])", "(f32[2,1,3,4], f32[1,5,4,2])", "(f32[2,5,3,4], f32[2,5,4,2])",
            "(f32[2,1,3,4], f32[5,4,2])", "(f16[3,4], f16[4,2])", "(i32[3,4], i32[4,5])",
            "(u64[2,2], u64[2,2])", "(f32[0,4], f32[4,5])", "(f32[b,t,64], f32[64,h])",
            "(f32[b,12,t,64], f32[b,12,64,t])"),
};

// ---- gemm ----

ATTR_TABLE(gemm, GEMM_ATTRS);
static tenon_status infer_gemm(Infer *in) {
  const gemm_attrs *at = in->attrs;
  TRY(infer_same_dtype(in, 0, 1));
  if (infer_src(in, 2)) TRY(infer_same_dtype(in, 0, 2));
  const Type *a = infer_type(in, 0), *b = infer_type(in, 1), *c = infer_type(in, 2);
  TRY(infer_whole_bytes(in, a->dtype));
  if ((a->rank >= 0 && a->rank != 2) || (b->rank >= 0 && b->rank != 2))
    return infer_fail(in, TENON_EINVAL, "operands of rank %d and %d, must be 2", a->rank, b->rank);
  IntPool *p = &in->g->dims;
  if (a->rank == 2 && b->rank == 2)
    TRY(infer_equal_dim(in, a->dims[!at->transA], b->dims[at->transB], "inner sizes"));
  Dim dims[2] = {a->rank == 2 ? a->dims[at->transA] : ie_fresh(p, "rows"),
                 b->rank == 2 ? b->dims[!at->transB] : ie_fresh(p, "columns")};
  for (int d = 0; c && c->rank > 0 && d < c->rank; d++) {
    Dim size = c->dims[c->rank - 1 - d];
    if (d >= 2 ? !ie_is(size, 1) : !ie_is(size, 1) && ie_eq(p, size, dims[1 - d]) == NO)
      return infer_fail(in, TENON_EINVAL, "c of rank %d does not broadcast to the product",
                        c->rank);
  }
  if (c && c->rank > 2)
    return infer_fail(in, TENON_EINVAL, "c of rank %d, must be at most 2", c->rank);
  return infer_set(in, 0, a->dtype, 2, dims);
}
static double cost_gemm(const CostIn *c) {
  const gemm_attrs *at = c->node->attrs;
  if (c->out[0].rank < 0 || c->in[0].rank != 2) return 0;
  return 2 * (double)c->out[0].n * (double)c->in[0].dims[!at->transA];
}
static void expand_gemm(Graph *g, const Node *n, Node **out) {
  const gemm_attrs *at = n->attrs;
  DType t = type_of(n->src[0])->dtype;
  int64_t ka = !at->transA, kb = at->transB;
  if (type_of(n->src[0])->rank != 2 || type_of(n->src[1])->rank != 2 || !t) return;
  bool plain = at->alpha == 1 && at->beta == 1;
  if (!dtype_is_float(t) && !plain) return;  // scaled integers are rounded once, at the end
  dot_attrs d = {.contract_lhs = {1, &ka}, .contract_rhs = {1, &kb}};
  Node *y = NA(g, dot, &d, n->src[0], n->src[1]), *c = src_or_null(g, n, 2);
  if (at->alpha != 1) y = N(g, mul, y, node_scalar(g, t, at->alpha));
  if (c && at->beta != 0) {
    if (at->beta != 1) c = N(g, mul, c, node_scalar(g, t, at->beta));
    y = N(g, add, y, c);
  }
  out[0] = y;
}
const OpInfo op_gemm = {
    .name = "gemm",
    .doc = "alpha * a b + beta * c, with a and b transposed on demand and c broadcast",
    .onnx = "Gemm",
    .onnx_since = 7,
    .operands = "a b c?",
    .results = "y",
    .dtypes = "number",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_GEMM, 0, 0, 1, 2, -1, -1, -1, -1, -1, -1),
    .flags = OPF_COMPOSITE,
    OP_ATTRS(gemm),
    .infer = infer_gemm,
    .eval = eval_gemm,
    .expand = expand_gemm,
    .cost = cost_gemm,
    SAMPLES("(f32[3,4], f32[4,5], f32[5])",
            "(f32[4,3], f32[5,4]) transA=true transB=true alpha=0.5",
            "(f32[3,4], f32[4,5], f32[3,1]) beta=0.25", "(f16[3,4], f16[4,5], f16[])",
            "(i32[3,4], i32[4,5], i32[1,5])", "(f32[0,4], f32[4,5], f32[5])",
            "(f32[b,784], f32[10,784], f32[10]) transB=true"),
};

// ---- einsum ----

ATTR_TABLE(einsum, EINSUM_ATTRS);
static tenon_status infer_einsum(Infer *in) {
  const einsum_attrs *at = in->attrs;
  int rank[EINSUM_MAX_OPERANDS];
  bool unknown = false;
  if (in->nsrc < 1 || in->nsrc > EINSUM_MAX_OPERANDS)
    return infer_fail(in, TENON_EINVAL, "%d operands, must be 1 to %d", in->nsrc,
                      EINSUM_MAX_OPERANDS);
  for (int i = 0; i < in->nsrc; i++) {
    TRY(infer_same_dtype(in, 0, i));
    rank[i] = infer_type(in, i)->rank;
    unknown = unknown || rank[i] < 0;
  }
  DType t = infer_type(in, 0)->dtype;
  TRY(infer_whole_bytes(in, t));
  Einsum *q = arena_new(&in->g->scratch, Einsum);
  int64_t pos;
  const char *bad = einsum_parse(at->equation, in->nsrc, rank, q, &pos);
  if (bad && unknown) {
    infer_set_unranked(in, 0, t);
    return TENON_OK;
  }
  if (bad)
    return infer_fail(in, TENON_EINVAL, "equation '%.*s', character %lld: %s",
                      STR_ARG(at->equation), (long long)pos, bad);
  Dim size[EINSUM_LABELS] = {NULL}, dims[MAX_RANK];
  for (int i = 0; i < in->nsrc; i++)
    for (int d = 0; d < q->nlabels[i] && rank[i] >= 0; d++) {
      Dim *slot = &size[q->label[i][d]], own = infer_type(in, i)->dims[d];
      if (!*slot)
        *slot = own;
      else
        TRY(infer_broadcast_dim(in, *slot, own, slot));
    }
  for (int i = 0; i < q->nout; i++)
    dims[i] = size[q->out[i]] ? size[q->out[i]] : ie_fresh(&in->g->dims, "einsum");
  return infer_set(in, 0, t, q->nout, dims);
}
// One multiply-add for every combination of index values: the sum that the equation says.
static double cost_einsum(const CostIn *c) {
  const einsum_attrs *at = c->node->attrs;
  int rank[EINSUM_MAX_OPERANDS];
  Einsum q;
  int64_t pos;
  if (c->nin > EINSUM_MAX_OPERANDS) return 0;
  for (int i = 0; i < c->nin; i++) rank[i] = c->in[i].rank;
  if (einsum_parse(at->equation, c->nin, rank, &q, &pos)) return 0;
  double size[EINSUM_LABELS] = {0}, total = 1;
  for (int i = 0; i < c->nin; i++)
    for (int d = 0; d < q.nlabels[i] && rank[i] >= 0; d++)
      size[q.label[i][d]] = MAX(size[q.label[i][d]], (double)c->in[i].dims[d]);
  for (int l = 0; l < EINSUM_LABELS; l++)
    if (size[l] > 0) total *= size[l];
  return c->nin > 1 ? 2 * total * (c->nin - 1) : total;
}
const OpInfo op_einsum = {
    .name = "einsum",
    .doc = "sum of products over the index letters that the result's term does not name",
    .onnx = "Einsum",
    .onnx_since = 12,
    .operands = "x*",
    .results = "y",
    .dtypes = "number",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_EINSUM, 0, 0, 1, -1, -1, -1, -1, -1, -1, -1),
    OP_ATTRS(einsum),
    .infer = infer_einsum,
    .eval = eval_einsum,
    .cost = cost_einsum,
    SAMPLES("(f32[3,4], f32[4,5]) equation=\"ij,jk->ik\"", "(f32[3,3]) equation=\"ii\"",
            "(f32[2,3,3]) equation=\"...ii->...i\"",
            "(f32[2,3,4], f32[2,4,5]) equation=\"bij, bjk\"",
            "(f32[3,4], f32[5,4], f32[3,5]) equation=\"ij,kj,ik->\"",
            "(i64[3,4]) equation=\"ij->ji\"", "(f16[2,3], f16[3]) equation=\"ij,j->i\"",
            "(f32[]) equation=\"->\"", "(f32[2,0], f32[0,3]) equation=\"ij,jk\"",
            "(f32[b,h,t,d], f32[b,h,s,d]) equation=\"bhtd,bhsd->bhts\""),
};

// ---- integer and quantised products ----

static tenon_status need_bytes(Infer *in, int i, bool floats) {
  TRY(infer_need(in, i, 0));
  DType t = infer_type(in, i)->dtype;
  bool f8 = floats && t && dtype_is_float(t) && dtype_bits(t) == 8 && t != DT_F8E8M0;
  if (!t || t == DT_I8 || t == DT_U8 || f8) return TENON_OK;
  return infer_fail(in, TENON_EINVAL, "operand %d is %s, must be %s", i, dtype_name(t),
                    floats ? "an 8-bit integer or float" : "i8 or u8");
}

static tenon_status infer_mat_mul_integer(Infer *in) {
  TRY(need_bytes(in, 0, false));
  TRY(need_bytes(in, 1, false));
  if (infer_src(in, 2)) TRY(infer_same_dtype(in, 0, 2));
  if (infer_src(in, 3)) TRY(infer_same_dtype(in, 1, 3));
  return infer_product(in, 0, 1, DT_I32);
}
const OpInfo op_mat_mul_integer = {
    .name = "mat_mul_integer",
    .doc = "exact matrix product of 8-bit integers less their zero points, in 32 bits",
    .onnx = "MatMulInteger",
    .onnx_since = 10,
    .operands = "a b a_zero_point? b_zero_point?",
    .results = "y",
    .dtypes = "integer",
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_MATMUL, CONTRACT_INT8, 0, 1, -1, 2, 3, -1, -1, -1, -1),
    .infer = infer_mat_mul_integer,
    .eval = eval_mat_mul_integer,
    .cost = cost_mat_mul,
    SAMPLES("(u8[3,4], i8[4,5])", "(u8[2,3,4], u8[4,5], u8[]{7}, u8[5]{1,2,3,4,5})",
            "(i8[3,4], i8[4,2], i8[3]{1,-2,3})", "(u8[0,4], i8[4,5])",
            "(u8[b,4], i8[4,5], u8[]{3}, i8[]{1})"),
};

// One number a row of a product's operand (a column of the right one), or one in all.  Those that
// have the operand's rank are left to the evaluation, as is a product without elements.
static tenon_status check_per_row(Infer *in, int i, int of, bool right) {
  const Type *s = infer_type(in, i), *t = infer_type(in, of);
  if (s->rank != 1 || t->rank < 1 || ie_is(s->dims[0], 1)) return TENON_OK;
  for (int d = 0; d < t->rank; d++)
    if (ie_is(t->dims[d], 0)) return TENON_OK;
  int axis = right ? t->rank - 1 : t->rank - 2;
  Dim rows = t->rank == 1 ? in->g->dims.one : t->dims[axis];
  return infer_equal_dim(in, s->dims[0], rows, right ? "numbers and columns" : "numbers and rows");
}

static tenon_status infer_q_linear_mat_mul(Infer *in) {
  for (int i = 0; i < 8; i++) {
    if (i == 1 || i == 4 || i == 6)
      TRY(infer_need(in, i, 0));
    else
      TRY(need_bytes(in, i, true));
  }
  TRY(infer_same_dtype(in, 0, 2));
  TRY(infer_same_dtype(in, 3, 5));
  for (int i = 1; i <= 2; i++) {
    TRY(check_per_row(in, i, 0, false));
    TRY(check_per_row(in, i + 3, 3, true));
  }
  return infer_product(in, 0, 3, infer_type(in, 7)->dtype);
}
const OpInfo op_q_linear_mat_mul = {
    .name = "q_linear_mat_mul",
    .doc = "matrix product of quantised operands, quantised: round(a b * a_scale * b_scale / "
           "y_scale) + y_zero_point",
    .onnx = "QLinearMatMul",
    .onnx_since = 10,
    .operands = "a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point",
    .results = "y",
    .dtypes = "integer float",
    .arity = 8,
    .nres = 1,
    CONTRACTION(CF_MATMUL, CONTRACT_INT8 | CONTRACT_REQUANTIZED, 0, 3, -1, 2, 5, 7, 1, 4, 6),
    .infer = infer_q_linear_mat_mul,
    .eval = eval_q_linear_mat_mul,
    .cost = cost_mat_mul,
    SAMPLES(
        "(u8[2,4], f32[]{0.5}, u8[]{3}, u8[4,3], f32[]{0.25}, u8[]{4}, f32[]{16}, u8[]{100})",
        "(i8[2,4], f32[2]{0.5,0.25}, i8[2]{3,0}, i8[4,3], f32[3]{0.25,1,2}, i8[3]{4,0,1}, "
        "f32[]{16}, i8[]{1})",
        "(i8[2,2,4], f16[]{0.5}, i8[]{3}, i8[2,4,3], f16[]{0.25}, i8[]{4}, f16[]{16}, i8[]{1})"),
};
