// movement.c -- movement ops that view or reorder: reshape, flatten, squeeze, unsqueeze, transpose,
// expand, slice, shape, size.
//
// These are the ops that exporters compute shapes with, so each one also says what it knows of its
// result's contents (ops/sym.h).
#include "eval/movement.h"
#include "ops/sym.h"

static const Type *unknown(Infer *in, DType t, int64_t rank, const char *hint) {
  if (rank < 0) return type_unranked(in->g, t);
  Dim dims[MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = ie_fresh(&in->g->dims, hint);
  return type_tensor(in->g, t, (int)rank, dims);
}

static tenon_status check_rank(Infer *in, int64_t rank) {
  if (rank <= MAX_RANK) return TENON_OK;
  return infer_fail(in, TENON_EUNSUPPORTED, "rank %lld is above the limit of %d", (long long)rank,
                    MAX_RANK);
}

// ---- reshape ----

// Multiplies the sizes on both sides that do not occur on the other, so that equal sizes cancel
// even where their product is no monomial.  True when one that cancelled may be 0: then the rest
// may differ.
static bool cancel(IntPool *p, const Type *x, int free_dim, int rank, const Dim *dims,
                   Dim *out_have, Dim *out_want) {
  bool used[MAX_RANK] = {false}, zero = false;
  *out_have = *out_want = p->one;
  for (int i = 0; i < rank; i++) {
    if (i == free_dim) continue;
    int k = 0;
    while (k < x->rank && (used[k] || x->dims[k] != dims[i] || ie_is(dims[i], 0))) k++;
    if (k < x->rank)
      used[k] = true;
    else
      *out_want = ie_mul(p, *out_want, dims[i]);
    zero |= k < x->rank && dims[i]->lo <= 0;
  }
  for (int k = 0; k < x->rank; k++)
    if (!used[k]) *out_have = ie_mul(p, *out_have, x->dims[k]);
  return zero;
}

static tenon_status reshape_rest(Infer *in, const Type *x, int free_dim, int rank, Dim *dims) {
  IntPool *p = &in->g->dims;
  Dim have, want;
  const char *what = "elements of the input and of the new shape";
  bool zero = cancel(p, x, free_dim, rank, dims, &have, &want);
  if (free_dim < 0) {
    Dim all = p->one;  // told in full, not what is left after cancelling
    for (int i = 0; i < rank; i++) all = ie_mul(p, all, dims[i]);
    if (zero || ie_eq(p, have, want) == NO)
      TRY(infer_equal_dim(in, type_numel(in->g, x), all, what));
    return zero ? TENON_OK : infer_equal_dim(in, have, want, what);
  }
  if (ie_is(want, 0))
    return infer_fail(in, TENON_EINVAL,
                      "-1 together with a size of 0 leaves the shape undetermined");
  dims[free_dim] = ie_div(p, have, want);
  if (ie_is_const(have) && ie_is_const(want) && have->value % want->value)
    return infer_fail(in, TENON_EINVAL, "%lld elements do not divide by %lld",
                      (long long)have->value, (long long)want->value);
  return infer_equal_dim(in, have, ie_mul(p, want, dims[free_dim]), what);
}

static tenon_status reshape_dims(Infer *in, const Type *x, int64_t n, const Dim *sym, Dim *dims,
                                 int *out_free) {
  const reshape_attrs *at = in->attrs;
  *out_free = -1;
  for (int i = 0; i < n; i++) {
    dims[i] = sym[i];
    if (ie_is(sym[i], 0) && !at->allowzero) {
      if (x->rank < 0) {
        dims[i] = ie_fresh(&in->g->dims, "reshape");
        continue;
      }
      if (i >= x->rank)
        return infer_fail(in, TENON_EINVAL,
                          "0 at position %d copies a dimension of an input of rank %d", i, x->rank);
      dims[i] = x->dims[i];
    } else if (ie_is(sym[i], -1)) {
      if (*out_free >= 0) return infer_fail(in, TENON_EINVAL, "more than one -1 in the new shape");
      *out_free = i;
      dims[i] = in->g->dims.one;
    } else if (sym[i]->hi < 0) {
      return infer_fail(in, TENON_EINVAL, "the size at position %d is negative", i);
    }
  }
  return TENON_OK;
}

// The sizes that `into` gives: those of the shape times those of the input axes that go there.
static tenon_status reshape_into(Infer *in, const Type *x, int64_t n, const Dim *sym, Dim *dims) {
  const reshape_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  int free_dim = -1;
  Dim left = p->one, known = p->one;
  if (at->into.n != x->rank)
    return infer_fail(in, TENON_EINVAL, "into has %lld axes for rank %d", (long long)at->into.n,
                      x->rank);
  for (int i = 0; i < n; i++) {
    bool free = ie_is(sym[i], -1);
    if (sym[i]->hi < -1 || (free && free_dim >= 0))
      return infer_fail(in, TENON_EINVAL, "the size at position %d is negative", i);
    dims[i] = free ? p->one : sym[i];
    if (free) free_dim = i;
    known = ie_mul(p, known, dims[i]);
  }
  for (int i = 0; i < x->rank; i++) {
    int64_t to = at->into.v[i];
    if (to < -1 || to >= n)
      return infer_fail(in, TENON_EINVAL, "into names axis %lld of %lld", (long long)to,
                        (long long)n);
    if (to < 0)
      left = ie_mul(p, left, x->dims[i]);
    else
      dims[to] = ie_mul(p, dims[to], x->dims[i]);
  }
  if (free_dim < 0) return infer_equal_dim(in, left, known, "elements that go nowhere");
  if (ie_is(known, 0)) return infer_fail(in, TENON_EINVAL, "-1 beside a size of 0");
  if (ie_is_const(left) && ie_is_const(known) && left->value % known->value)
    return infer_fail(in, TENON_EINVAL, "%lld elements do not divide by %lld",
                      (long long)left->value, (long long)known->value);
  Dim rest = ie_div(p, left, known);
  dims[free_dim] = ie_mul(p, dims[free_dim], rest);
  return infer_equal_dim(in, left, ie_mul(p, known, rest), "elements that go nowhere");
}

static tenon_status infer_reshape(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "shape"));
  const Type *x = infer_type(in, 0);
  int64_t n = infer_length(in, 1);
  const Dim *sym;
  TRY(check_rank(in, n));
  if (!node_sym(in->g, in->src[1], &n, &sym)) {
    infer_set_type(in, 0, unknown(in, x->dtype, n, "reshape"));
    return TENON_OK;
  }
  TRY(check_rank(in, n));
  Dim dims[MAX_RANK];
  int free_dim = -1;
  bool into = ((const reshape_attrs *)in->attrs)->into.n > 0;
  if (into)
    TRY(reshape_into(in, x, n, sym, dims));
  else
    TRY(reshape_dims(in, x, n, sym, dims, &free_dim));
  if (x->rank >= 0 && !into)
    TRY(reshape_rest(in, x, free_dim, (int)n, dims));
  else if (free_dim >= 0)
    dims[free_dim] = ie_fresh(&in->g->dims, "reshape");
  TRY(infer_set(in, 0, x->dtype, (int)n, dims));
  sym_same(in);
  return TENON_OK;
}
ATTR_TABLE(reshape, RESHAPE_ATTRS);
const OpInfo op_reshape = {
    .name = "reshape",
    .doc = "The same elements under another shape: -1 is what is left over, 0 a copy of the "
           "input's size.",
    .onnx = "Reshape",
    .onnx_since = 5,
    .operands = "data shape",
    .results = "reshaped",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_VIEW,
    .layout = LAYOUT_RESHAPE,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS | OPF_VIEW,
    OP_ATTRS(reshape),
    .infer = infer_reshape,
    .eval = eval_reshape,
    SAMPLES("(f32[2,3,4], i64[2]{6,-1})", "(f32[2,3,4], i64[3]{0,2,-1})", "(f16[1,1], i64[0]{})",
            "(f32[0,3], i64[2]{3,0}) allowzero=true", "(i64[], i64[3]{1,1,1})",
            "(f32[b,t,64], i64[4]{0,0,8,-1})", "(f32[b,8,t,4], i64[3]{8,1,4}) into=[0, -1, 1, -1]",
            "(f32[2,0,6], i64[2]{1,-1}) into=[0, 1, -1]"),
};

// ---- flatten ----

static tenon_status infer_flatten(Infer *in) {
  const flatten_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_type(in, 0, unknown(in, x->dtype, 2, "flatten"));
    return TENON_OK;
  }
  int64_t axis = at->axis < 0 ? at->axis + x->rank : at->axis;
  if (axis < 0 || axis > x->rank)
    return infer_fail(in, TENON_EINVAL, "axis %lld is out of range for rank %d",
                      (long long)at->axis, x->rank);
  Dim dims[2] = {in->g->dims.one, in->g->dims.one};
  for (int i = 0; i < x->rank; i++)
    dims[i >= axis] = ie_mul(&in->g->dims, dims[i >= axis], x->dims[i]);
  TRY(infer_set(in, 0, x->dtype, 2, dims));
  sym_same(in);
  return TENON_OK;
}

static void expand_flatten(Graph *g, const Node *n, Node **out) {
  const flatten_attrs *at = n->attrs;
  Node *x = n->src[0];
  // A size of 0 on one side would leave a -1 undetermined, so both sides are computed.
  shape_attrs head = {.start = 0, .end = at->axis}, tail = {.start = at->axis, .end = SHAPE_END};
  Node *zero = node_i64s(g, 1, (int64_t[]){0});
  Node *a = N(g, reduce_prod, NA(g, shape, &head, x), zero);
  Node *b = N(g, reduce_prod, NA(g, shape, &tail, x), zero);
  reshape_attrs exact = {.allowzero = true};
  concat_attrs join = {.axis = 0};
  out[0] = NA(g, reshape, &exact, x, NA(g, concat, &join, a, b));
}
ATTR_TABLE(flatten, FLATTEN_ATTRS);
const OpInfo op_flatten = {
    .name = "flatten",
    .doc = "The dimensions before axis as one, those from it on as the other.",
    .onnx = "Flatten",
    .onnx_since = 1,
    .operands = "input",
    .results = "output",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_VIEW,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS | OPF_VIEW | OPF_COMPOSITE,
    OP_ATTRS(flatten),
    .infer = infer_flatten,
    .eval = eval_flatten,
    .expand = expand_flatten,
    SAMPLES("(f32[2,3,4])", "(f32[2,3,4]) axis=-1", "(f16[2,3,4]) axis=0", "(f32[]) axis=0",
            "(i8[0,3,4]) axis=2", "(f32[b,3,h,w])"),
};

// ---- squeeze and unsqueeze ----

static tenon_status infer_squeeze(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  bool given = infer_src(in, 1) != NULL, drop[MAX_RANK] = {false};
  Ints axes;
  if (given) TRY(infer_need_ints(in, 1, "axes"));
  if (x->rank < 0 || (given && !infer_ints(in, 1, &axes))) {
    int64_t n = given ? infer_length(in, 1) : -1;
    if (x->rank >= 0 && n > x->rank)
      return infer_fail(in, TENON_EINVAL, "%lld axes for rank %d", (long long)n, x->rank);
    infer_set_type(in, 0,
                   unknown(in, x->dtype, x->rank >= 0 && n >= 0 ? x->rank - n : -1, "squeeze"));
    return TENON_OK;
  }
  if (given) {
    int a[MAX_RANK];
    TRY(infer_axes(in, axes, x->rank, a));
    for (int64_t i = 0; i < axes.n; i++) {
      TRY(infer_equal_dim(in, x->dims[a[i]], in->g->dims.one, "size of a squeezed axis"));
      drop[a[i]] = true;
    }
  }
  Dim dims[MAX_RANK];
  int rank = 0;
  for (int i = 0; i < x->rank; i++) {
    if (!given && ie_eq(&in->g->dims, x->dims[i], in->g->dims.one) == UNKNOWN) {
      infer_set_unranked(in, 0, x->dtype);  // whether this axis goes is known only at run time
      return TENON_OK;
    }
    if (!given) drop[i] = ie_is(x->dims[i], 1);
    if (!drop[i]) dims[rank++] = x->dims[i];
  }
  TRY(infer_set(in, 0, x->dtype, rank, dims));
  sym_same(in);
  return TENON_OK;
}
const OpInfo op_squeeze = {
    .name = "squeeze",
    .doc = "Without the given axes of size 1 (all of them when none are given).",
    .onnx = "Squeeze",
    .onnx_since = 13,
    .operands = "data axes?",
    .results = "squeezed",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_VIEW,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS | OPF_VIEW,
    .infer = infer_squeeze,
    .eval = eval_squeeze,
    SAMPLES("(f32[1,3,1,5])", "(f32[1,3,1,5], i64[1]{-2})", "(f16[1,1], i64[2]{0,1})", "(i64[])",
            "(f32[0,1], i64[1]{1})", "(f32[b,1,t], i64[1]{1})"),
};

static tenon_status infer_unsqueeze(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "axes"));
  const Type *x = infer_type(in, 0);
  Ints axes;
  bool known = infer_ints(in, 1, &axes);
  int64_t n = known ? axes.n : infer_length(in, 1);
  if (x->rank < 0 || !known) {
    if (x->rank >= 0 && n >= 0) TRY(check_rank(in, x->rank + n));
    infer_set_type(in, 0,
                   unknown(in, x->dtype, x->rank >= 0 && n >= 0 ? x->rank + n : -1, "unsqueeze"));
    return TENON_OK;
  }
  TRY(check_rank(in, n));
  TRY(check_rank(in, x->rank + n));
  int rank = x->rank + (int)n, a[MAX_RANK];
  TRY(infer_axes(in, axes, rank, a));
  bool fresh[MAX_RANK] = {false};
  for (int64_t i = 0; i < n; i++) fresh[a[i]] = true;
  Dim dims[MAX_RANK];
  for (int i = 0, k = 0; i < rank; i++) dims[i] = fresh[i] ? in->g->dims.one : x->dims[k++];
  TRY(infer_set(in, 0, x->dtype, rank, dims));
  sym_same(in);
  return TENON_OK;
}
const OpInfo op_unsqueeze = {
    .name = "unsqueeze",
    .doc = "With axes of size 1 at the given places of the result.",
    .onnx = "Unsqueeze",
    .onnx_since = 13,
    .operands = "data axes",
    .results = "expanded",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_VIEW,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS | OPF_VIEW,
    .infer = infer_unsqueeze,
    .eval = eval_unsqueeze,
    SAMPLES("(f32[3,4], i64[1]{0})", "(f16[3,4], i64[2]{-1,1})", "(i64[], i64[1]{0})",
            "(f32[0], i64[1]{-1})", "(f32[b,t], i64[2]{1,2})"),
};

// ---- transpose ----

static tenon_status infer_transpose(Infer *in) {
  const transpose_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  int perm[MAX_RANK];
  Dim dims[MAX_RANK];
  if (x->rank < 0) {
    TRY(check_rank(in, at->perm.n));
    if (at->perm.n) TRY(infer_axes(in, at->perm, (int)at->perm.n, perm));
    infer_set_type(in, 0, unknown(in, x->dtype, at->perm.n ? at->perm.n : -1, "transpose"));
    return TENON_OK;
  }
  if (at->perm.n && at->perm.n != x->rank)
    return infer_fail(in, TENON_EINVAL, "perm has %lld axes for rank %d", (long long)at->perm.n,
                      x->rank);
  for (int i = 0; i < x->rank; i++) perm[i] = x->rank - 1 - i;
  if (at->perm.n) TRY(infer_axes(in, at->perm, x->rank, perm));
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[perm[i]];
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(transpose, TRANSPOSE_ATTRS);
const OpInfo op_transpose = {
    .name = "transpose",
    .doc = "Axes in another order.",
    .onnx = "Transpose",
    .onnx_since = 1,
    .operands = "data",
    .results = "transposed",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_ORDER,
    .layout = LAYOUT_TRANSPOSE,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    OP_ATTRS(transpose),
    .infer = infer_transpose,
    .eval = eval_transpose,
    SAMPLES("(f32[2,3,4])", "(f32[2,3,4,5]) perm=[0, 2, 3, 1]", "(f16[3,5])", "(f32[])",
            "(i8[0,3])", "(u8[2,3,4]) perm=[-1, 0, 1]", "(f32[b,t,8,64]) perm=[0, 2, 1, 3]"),
};

// ---- expand ----

static tenon_status infer_expand(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "shape"));
  const Type *x = infer_type(in, 0);
  int64_t n = infer_length(in, 1);
  const Dim *sym = NULL;
  bool known = node_sym(in->g, in->src[1], &n, &sym);
  if (n >= 0) TRY(check_rank(in, n));
  if (x->rank < 0 || n < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  int rank = (int)MAX(n, x->rank);
  Dim dims[MAX_RANK];
  for (int i = 0; i < rank; i++) {
    int xi = i - (rank - x->rank), si = i - (rank - (int)n);
    Dim a = xi < 0 ? in->g->dims.one : x->dims[xi];
    if (si >= 0 && !known) {  // a size other than 1 stays
      dims[i] = a->lo > 1 || ie_is(a, 0) ? a : ie_fresh(&in->g->dims, "expand");
      continue;
    }
    TRY(infer_broadcast_dim(in, a, si < 0 ? in->g->dims.one : sym[si], &dims[i]));
  }
  TRY(infer_set(in, 0, x->dtype, rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
const OpInfo op_expand = {
    .name = "expand",
    .doc = "Broadcast with a shape: sizes of 1 are repeated.",
    .onnx = "Expand",
    .onnx_since = 8,
    .operands = "input shape",
    .results = "output",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    .infer = infer_expand,
    .eval = eval_expand,
    SAMPLES("(f32[3,1], i64[3]{2,1,6})", "(f16[3,1], i64[2]{1,4})", "(i64[], i64[2]{2,0})",
            "(f32[2,3], i64[0]{})", "(f32[b,1], i64[2]{1,4})"),
};

// ---- slice ----

// Whether a constant start or end, plus `add`, lies outside every axis of this size.  No axis has
// INT64_MAX elements.  What exporters write for an end is no other number than its value: an axis
// may have more than INT32_MAX elements.
static bool is_far(Dim x, int64_t add, Dim dim) {
  if (!ie_is_const(x)) return false;
  if (x->value >= 0) return x->value >= dim->hi;
  return x->value <= -INT64_MAX || x->value + add <= -dim->hi;
}

// The bound max(0, min(x + add, dim)) of a start or end that may count from the end; NULL when its
// sign is not known.
static Dim slice_edge(IntPool *p, Dim x, int64_t add, Dim dim) {
  if (x->lo >= 0) return is_far(x, add, dim) ? dim : ie_min(p, ie_addc(p, x, add), dim);
  if (x->hi >= 0) return NULL;
  if (is_far(x, add, dim)) return p->zero;
  return ie_max(p, ie_addc(p, ie_add(p, dim, x), add), p->zero);
}

// Elements between the start and the end of a slice, whose bounds are clamped as the specification
// says: for a positive step both into [0, dim], for a negative one the start into [0, dim - 1] and
// the end into [-1, dim - 1].  NULL where that cannot be said.
static Dim slice_span(IntPool *p, Dim dim, Dim start, Dim end, bool forward) {
  Dim from = slice_edge(p, start, forward ? 0 : 1, dim),
      to = slice_edge(p, end, forward ? 0 : 1, dim);
  if (!from || !to) return NULL;
  if (forward) return ie_max(p, ie_sub(p, to, from), p->zero);
  // Counted from the first element up: `from` is at least 1 where there is an element at all.
  from = start->lo >= 0 ? from : ie_min(p, dim, ie_max(p, from, p->one));
  return ie_is(to, 0) ? from : ie_max(p, ie_sub(p, from, to), p->zero);
}

// How many elements start:end:step selects; a new symbol where that cannot be said.
static Dim slice_size(IntPool *p, Dim dim, Dim start, Dim end, int64_t step) {
  if (ie_is_const(dim) && ie_is_const(start) && ie_is_const(end)) {
    int64_t first, count;
    slice_bounds(dim->value, start->value, end->value, step, &first, &count);
    return ie_const(p, count);
  }
  Dim n = slice_span(p, dim, start, end, step > 0);
  if (!n) return ie_fresh(p, "slice");
  uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  if (stride == 1) return n;
  if (stride >= (uint64_t)dim->hi) return ie_min(p, n, p->one);
  if (stride > INT32_MAX) return ie_fresh(p, "slice");  // rounding up could leave int64
  return ie_ceildiv(p, n, ie_const(p, (int64_t)stride));
}

// starts, ends, axes, steps where they are known; fails when their numbers disagree.
static tenon_status slice_lists(Infer *in, const Type *x, int64_t *out_n, int *axes,
                                bool *out_known) {
  static const char *const name[] = {"", "starts", "ends", "axes", "steps"};
  int64_t n = -1;
  for (int i = 1; i < 5; i++) {
    if (!infer_src(in, i) && i >= 3) continue;
    TRY(infer_need_ints(in, i, name[i]));
    int64_t len = infer_length(in, i);
    if (len >= 0 && n >= 0 && len != n)
      return infer_fail(in, TENON_EINVAL, "%s has %lld elements, the lists before it %lld", name[i],
                        (long long)len, (long long)n);
    if (len >= 0) n = len;
  }
  Ints given;
  *out_n = n;
  *out_known = n >= 0 && (!infer_src(in, 3) || infer_ints(in, 3, &given));
  if (!*out_known || x->rank < 0) return TENON_OK;
  if (n > x->rank)
    return infer_fail(in, TENON_EINVAL, "%lld starts for rank %d", (long long)n, x->rank);
  for (int i = 0; i < n; i++) axes[i] = i;
  if (infer_src(in, 3)) TRY(infer_axes(in, given, x->rank, axes));
  return TENON_OK;
}

static tenon_status infer_slice(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  IntPool *p = &in->g->dims;
  const Type *x = infer_type(in, 0);
  int64_t n, nstart, nend;
  int axes[MAX_RANK];
  bool axes_known;
  TRY(slice_lists(in, x, &n, axes, &axes_known));
  if (x->rank < 0 || !axes_known) {
    infer_set_type(in, 0, unknown(in, x->dtype, x->rank, "slice"));
    return TENON_OK;
  }
  const Dim *start, *end;
  Ints steps;
  bool known =
      node_sym(in->g, in->src[1], &nstart, &start) && node_sym(in->g, in->src[2], &nend, &end);
  bool steps_known = !infer_src(in, 4) || infer_ints(in, 4, &steps);
  known = known && steps_known && nstart == n && nend == n;
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (int i = 0; i < n; i++) {
    int64_t step = infer_src(in, 4) && steps_known ? steps.v[i] : 1;
    if (step == 0) return infer_fail(in, TENON_EINVAL, "step 0 at axis %d", axes[i]);
    dims[axes[i]] =
        known ? slice_size(p, x->dims[axes[i]], start[i], end[i], step) : ie_fresh(p, "slice");
  }
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
const OpInfo op_slice = {
    .name = "slice",
    .doc = "start:end:step along axes; out of range is clamped, negative counts from the end.",
    .onnx = "Slice",
    .onnx_since = 10,
    .operands = "data starts ends axes? steps?",
    .results = "output",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .layout = LAYOUT_SLICE,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    .infer = infer_slice,
    .eval = eval_slice,
    SAMPLES("(f32[5,6], i64[2]{1,0}, i64[2]{3,-1})",
            "(f32[5,6], i64[1]{-1}, i64[1]{-100}, i64[1]{1}, i64[1]{-2})",
            "(f16[5], i64[1]{3}, i64[1]{2})", "(i64[0], i64[1]{0}, i64[1]{9})",
            "(f32[b,t,8], i64[1]{0}, i64[1]{9223372036854775807}, i64[1]{1}, i64[1]{2})"),
};

// ---- shape and size ----

static tenon_status infer_shape(Infer *in) {
  const shape_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_type(in, 0, unknown(in, DT_I64, 1, "rank"));
    return TENON_OK;
  }
  int from, to;
  shape_bounds(x->rank, at->start, at->end, &from, &to);
  Dim n = ie_const(&in->g->dims, to - from);
  TRY(infer_set(in, 0, DT_I64, 1, &n));
  in->sym = from == to ? &in->g->dims.one : x->dims + from;  // not NULL: known to be empty
  in->nsym = to - from;
  return TENON_OK;
}
static double no_cost(const CostIn *c) {
  (void)c;
  return 0;
}
ATTR_TABLE(shape, SHAPE_ATTRS);
const OpInfo op_shape = {
    .name = "shape",
    .doc = "The sizes of the input, from start to end.",
    .onnx = "Shape",
    .onnx_since = 1,
    .operands = "data",
    .results = "shape",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .range = RANGE_sizes,
    OP_ATTRS(shape),
    .infer = infer_shape,
    .eval = eval_shape,
    .cost = no_cost,
    SAMPLES("(f32[2,3,4])", "(f32[2,3,4]) start=-2", "(f16[2,3,4]) start=1 end=-1", "(f32[])",
            "(f32[0,3]) start=5", "(f32[b,t,64]) end=2"),
};

static tenon_status infer_size(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_set(in, 0, DT_I64, 0, NULL));
  Dim n = type_numel(in->g, infer_type(in, 0));
  if (!n || ie_is_poison(n)) return TENON_OK;
  Dim *sym = arena_new(&in->g->arena, Dim);
  *sym = n;
  in->sym = sym;
  in->nsym = 1;
  return TENON_OK;
}
const OpInfo op_size = {
    .name = "size",
    .doc = "The number of elements.",
    .onnx = "Size",
    .onnx_since = 1,
    .operands = "data",
    .results = "size",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .range = RANGE_sizes,
    .infer = infer_size,
    .eval = eval_size,
    .cost = no_cost,
    SAMPLES("(f32[2,3,4])", "(f16[])", "(u8[0,3])", "(f32[b,t,64])"),
};
