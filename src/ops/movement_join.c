// movement_join.c -- movement ops that join, cut, repeat and fill: concat, split, pad, tile,
// reverse_sequence, depth_to_space, space_to_depth, trilu, center_crop_pad.
#include "eval/movement.h"
#include "ops/order.h"
#include "ops/sym.h"

static void set_unknown(Infer *in, int i, DType t, int rank, const char *hint) {
  if (rank < 0) {
    infer_set_unranked(in, i, t);
    return;
  }
  Dim dims[MAX_RANK];
  for (int k = 0; k < rank; k++) dims[k] = ie_fresh(&in->g->dims, hint);
  infer_set_type(in, i, type_tensor(in->g, t, rank, dims));
}

// ---- concat ----

static tenon_status join_dims(Infer *in, int i, int axis, int rank, Dim *dims) {
  const Type *t = infer_type(in, i);
  for (int d = 0; d < rank; d++) {
    if (d == axis) {
      dims[d] = ie_add(&in->g->dims, dims[d], t->dims[d]);
      continue;
    }
    TRY(infer_equal_dim(in, dims[d], t->dims[d], "sizes beside the axis"));
    if (ie_is_const(t->dims[d])) dims[d] = t->dims[d];  // the plainest of what must be equal
  }
  return TENON_OK;
}

static tenon_status infer_concat(Infer *in) {
  const concat_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  DType t = infer_type(in, 0)->dtype;
  int rank = infer_type(in, 0)->rank, axis;
  bool unranked = rank < 0;
  for (int i = 1; i < in->nsrc; i++) {
    TRY(infer_same_dtype(in, 0, i));
    int r = infer_type(in, i)->rank;
    unranked |= r < 0;
    if (r >= 0 && rank >= 0 && r != rank)
      return infer_fail(in, TENON_EINVAL, "input %d has rank %d, others %d", i, r, rank);
    if (r >= 0) rank = r;
  }
  if (rank >= 0) TRY(infer_axis(in, at->axis, rank, &axis));
  if (unranked) {
    set_unknown(in, 0, t, rank, "concat");
    return TENON_OK;
  }
  Dim dims[MAX_RANK];
  memcpy(dims, infer_type(in, 0)->dims, sizeof(Dim) * (size_t)rank);
  for (int i = 1; i < in->nsrc; i++) TRY(join_dims(in, i, axis, rank, dims));
  TRY(infer_set(in, 0, t, rank, dims));
  sym_move(in, UINT64_MAX);
  return TENON_OK;
}
ATTR_TABLE(concat, CONCAT_ATTRS);
const OpInfo op_concat = {
    .name = "concat",
    .doc = "The inputs one after another along axis.",
    .onnx = "Concat",
    .onnx_since = 4,
    .operands = "x inputs*",
    .results = "concat_result",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .layout = LAYOUT_AXIS,
    .range = RANGE_concat,
    .flags = OPF_MOVEMENT,
    OP_ATTRS(concat),
    .infer = infer_concat,
    .eval = eval_concat,
    SAMPLES("(f32[2,3], f32[1,3])", "(f32[2,3], f32[2,1], f32[2,4]) axis=-1", "(f16[3])",
            "(i64[0], i64[2])", "(u8[2,0,3], u8[2,2,3]) axis=1", "(f32[b,3], f32[b,5]) axis=1"),
};

// ---- split ----

static tenon_status split_known(Infer *in, const Type *x, int axis, int64_t n, const Dim *size) {
  IntPool *p = &in->g->dims;
  if (n != in->nres)
    return infer_fail(in, TENON_EINVAL, "%lld sizes for %d results", (long long)n, in->nres);
  Dim dims[MAX_RANK], sum = p->zero;
  memcpy(dims, x->dims, sizeof(Dim) * (size_t)x->rank);
  for (int i = 0; i < n; i++) {
    sum = ie_add(p, sum, size[i]);
    dims[axis] = size[i];
    TRY(infer_set(in, i, x->dtype, x->rank, dims));
  }
  return infer_equal_dim(in, sum, x->dims[axis], "sum of the sizes and size of the axis");
}

static tenon_status split_even(Infer *in, const Type *x, int axis) {
  IntPool *p = &in->g->dims;
  Dim dims[MAX_RANK], n = x->dims[axis], count = ie_const(p, in->nres);
  memcpy(dims, x->dims, sizeof(Dim) * (size_t)x->rank);
  bool exact = ie_is(ie_mod(p, n, count), 0);
  Dim part = exact ? ie_div(p, n, count) : ie_ceildiv(p, n, count), before = p->zero;
  for (int i = 0; i < in->nres; i++) {
    // The last parts take what is left, which may be less.
    dims[axis] = exact ? part : ie_max(p, ie_min(p, part, ie_sub(p, n, before)), p->zero);
    before = ie_add(p, before, part);
    TRY(infer_set(in, i, x->dtype, x->rank, dims));
  }
  return TENON_OK;
}

static tenon_status infer_split(Infer *in) {
  const split_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  bool given = infer_src(in, 1) != NULL;
  if (given) TRY(infer_need_ints(in, 1, "split"));
  if (at->num_outputs && (given || at->num_outputs != in->nres))
    return infer_fail(in, TENON_EINVAL, "num_outputs %lld for %d results%s",
                      (long long)at->num_outputs, in->nres, given ? " beside sizes" : "");
  int axis;
  int64_t n;
  const Dim *size;
  if (x->rank < 0) {
    for (int i = 0; i < in->nres; i++) infer_set_unranked(in, i, x->dtype);
    return TENON_OK;
  }
  TRY(infer_axis(in, at->axis, x->rank, &axis));
  if (!given) {
    TRY(split_even(in, x, axis));
  } else if (node_sym(in->g, in->src[1], &n, &size)) {
    TRY(split_known(in, x, axis, n, size));
  } else {
    Dim dims[MAX_RANK];
    memcpy(dims, x->dims, sizeof(Dim) * (size_t)x->rank);
    for (int i = 0; i < in->nres; i++) {
      dims[axis] = ie_fresh(&in->g->dims, "split");
      TRY(infer_set(in, i, x->dtype, x->rank, dims));
    }
  }
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(split, SPLIT_ATTRS);
const OpInfo op_split = {
    .name = "split",
    .doc = "Consecutive parts along axis, of the given sizes or of equal ones.",
    .onnx = "Split",
    .onnx_since = 13,
    .operands = "input split?",
    .results = "outputs*",
    .dtypes = "any",
    .arity = -1,
    .nres = 2,
    .fuse = FUSE_INDEX,
    .layout = LAYOUT_AXIS,
    .range = RANGE_split,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    OP_ATTRS(split),
    .infer = infer_split,
    .eval = eval_split,
    SAMPLES("(f32[6,2])", "(f32[2,7], i64[2]{3,4}) axis=-1", "(f16[5]) num_outputs=2", "(i64[0])",
            "(f32[b,6]) axis=1"),
};

// ---- pad, tile ----

static tenon_status infer_pad(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "pads"));
  if (infer_src(in, 2)) TRY(infer_same_dtype(in, 0, 2));
  bool given = infer_src(in, 3) != NULL;
  if (given) TRY(infer_need_ints(in, 3, "axes"));
  const Type *x = infer_type(in, 0);
  Ints axes = {0};
  int64_t npads;
  const Dim *pads;
  if (x->rank < 0 || (given && !infer_ints(in, 3, &axes)) ||
      !node_sym(in->g, in->src[1], &npads, &pads)) {
    set_unknown(in, 0, x->dtype, x->rank, "pad");
    return TENON_OK;
  }
  int a[MAX_RANK], n = x->rank;
  for (int i = 0; i < n; i++) a[i] = i;
  if (given) {
    TRY(infer_axes(in, axes, x->rank, a));
    n = (int)axes.n;
  }
  if (npads != 2 * n)
    return infer_fail(in, TENON_EINVAL, "%lld pads for %d axes", (long long)npads, n);
  IntPool *p = &in->g->dims;
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (int i = 0; i < n; i++) dims[a[i]] = ie_add(p, dims[a[i]], ie_add(p, pads[i], pads[n + i]));
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  sym_move(in, 1 | 4);
  return TENON_OK;
}
ATTR_TABLE(pad, PAD_ATTRS);
const OpInfo op_pad = {
    .name = "pad",
    .doc = "More elements before and after each axis (fewer where a width is negative).",
    .onnx = "Pad",
    .onnx_since = 11,
    .operands = "data pads constant_value? axes?",
    .results = "output",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .layout = LAYOUT_SLICE,
    .range = RANGE_pad,
    .flags = OPF_MOVEMENT,
    OP_ATTRS(pad),
    .infer = infer_pad,
    .eval = eval_pad,
    SAMPLES("(f32[2,3], i64[4]{1,0,0,2})", "(f32[2,3], i64[4]{1,2,0,2}, f32[]{1.5})",
            "(f32[3,4], i64[4]{0,2,2,1}) mode=reflect", "(f16[3,4], i64[4]{1,-1,2,3}) mode=edge",
            "(f32[3,4], i64[2]{5,2}, _, i64[1]{-1}) mode=wrap", "(i64[], i64[0]{})",
            "(f32[0], i64[2]{1,1})", "(f32[b,t,4], i64[6]{0,1,0,0,1,0})"),
};

static tenon_status infer_tile(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "repeats"));
  const Type *x = infer_type(in, 0);
  int64_t n = infer_length(in, 1);
  const Dim *repeats;
  if (x->rank >= 0 && n >= 0 && n != x->rank)
    return infer_fail(in, TENON_EINVAL, "%lld repeats for rank %d", (long long)n, x->rank);
  if (x->rank < 0 || !node_sym(in->g, in->src[1], &n, &repeats)) {
    set_unknown(in, 0, x->dtype, x->rank >= 0 ? x->rank : n <= MAX_RANK ? (int)n : -1, "tile");
    return TENON_OK;
  }
  if (n != x->rank)
    return infer_fail(in, TENON_EINVAL, "%lld repeats for rank %d", (long long)n, x->rank);
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    if (repeats[i]->hi < 0) return infer_fail(in, TENON_EINVAL, "negative repeats at axis %d", i);
    dims[i] = ie_mul(&in->g->dims, x->dims[i], repeats[i]);
  }
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
const OpInfo op_tile = {
    .name = "tile",
    .doc = "The input repeated along each axis.",
    .onnx = "Tile",
    .onnx_since = 6,
    .operands = "input repeats",
    .results = "output",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .layout = LAYOUT_TILE,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    .infer = infer_tile,
    .eval = eval_tile,
    SAMPLES("(f32[2,3], i64[2]{2,1})", "(f16[2,3], i64[2]{1,3})", "(i64[], i64[0]{})",
            "(f32[2], i64[1]{0})", "(f32[b,3], i64[2]{1,2})"),
};

// ---- blocks of pixels ----

// Fills dims with the sizes of a 4-D input; false when they are not known, the result being set
// then.
static tenon_status block_input(Infer *in, int64_t b, bool *out_known) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  const Type *x = infer_type(in, 0);
  int64_t bb;
  if (b <= 0 || !ck_mul(b, b, &bb))
    return infer_fail(in, TENON_EINVAL, "blocksize %lld", (long long)b);
  *out_known = x->rank >= 0;
  if (!*out_known) set_unknown(in, 0, x->dtype, 4, "block");
  if (x->rank >= 0 && x->rank != 4)
    return infer_fail(in, TENON_EINVAL, "input has rank %d, must be 4", x->rank);
  return TENON_OK;
}

static tenon_status check_divides(Infer *in, Dim n, Dim by, const char *what) {
  return infer_equal_dim(in, ie_mod(&in->g->dims, n, by), in->g->dims.zero, what);
}

static tenon_status first_depth_to_space(Infer *in) {
  const depth_to_space_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  bool known;
  TRY(block_input(in, at->blocksize, &known));
  if (!known) return TENON_OK;
  const Type *x = infer_type(in, 0);
  Dim b = ie_const(p, at->blocksize), bb = ie_mul(p, b, b);
  TRY(check_divides(in, x->dims[1], bb, "rest of the channels divided by blocksize squared"));
  Dim dims[4] = {x->dims[0], ie_div(p, x->dims[1], bb), ie_mul(p, x->dims[2], b),
                 ie_mul(p, x->dims[3], b)};
  return infer_set(in, 0, x->dtype, 4, dims);
}
INFER_ORDERED(depth_to_space, depth_to_space_attrs, 0, ORDER_DATA)

static tenon_status first_space_to_depth(Infer *in) {
  const space_to_depth_attrs *at = in->attrs;
  IntPool *p = &in->g->dims;
  bool known;
  TRY(block_input(in, at->blocksize, &known));
  if (!known) return TENON_OK;
  const Type *x = infer_type(in, 0);
  Dim b = ie_const(p, at->blocksize);
  for (int i = 2; i < 4; i++)
    TRY(check_divides(in, x->dims[i], b, "rest of the size divided by blocksize"));
  Dim dims[4] = {x->dims[0], ie_mul(p, x->dims[1], ie_mul(p, b, b)), ie_div(p, x->dims[2], b),
                 ie_div(p, x->dims[3], b)};
  return infer_set(in, 0, x->dtype, 4, dims);
}
INFER_ORDERED(space_to_depth, space_to_depth_attrs, 0, ORDER_DATA)

// One size of x as a list of one number, times and divided by numbers.
static Node *size_of(Graph *g, Node *x, int axis, int64_t times, int64_t by) {
  shape_attrs one = {.start = axis, .end = axis + 1};
  Node *n = NA(g, shape, &one, x);
  if (times > 1) n = N(g, mul, n, node_i64s(g, 1, &times));
  return by > 1 ? N(g, div, n, node_i64s(g, 1, &by)) : n;
}

// Reshaped to six axes, reordered, and reshaped to four.
static Node *shuffle_blocks(Graph *g, Node *x, Node *const *six, const int64_t *perm,
                            Node *const *four) {
  reshape_attrs exact = {.allowzero = true};
  transpose_attrs order = {.perm = {6, perm}};
  Node *wide = NA(g, reshape, &exact, x, node_new(g, OP_concat, 6, six, NULL, 0, NULL));
  return NA(g, reshape, &exact, NA(g, transpose, &order, wide),
            node_new(g, OP_concat, 4, four, NULL, 0, NULL));
}

static void expand_depth_to_space(Graph *g, const Node *n, Node **out) {
  const depth_to_space_attrs *at = n->attrs;
  static const int64_t dcr[6] = {0, 3, 4, 1, 5, 2}, crd[6] = {0, 1, 4, 2, 5, 3};
  if (at->channels_last) {
    expand_last(g, n, out);
    return;
  }
  int64_t k = at->blocksize;
  Node *x = n->src[0], *b = node_i64s(g, 1, &k), *c = size_of(g, x, 1, 1, k * k);
  Node *batch = size_of(g, x, 0, 1, 1), *h = size_of(g, x, 2, 1, 1), *w = size_of(g, x, 3, 1, 1);
  Node *four[4] = {batch, c, size_of(g, x, 2, k, 1), size_of(g, x, 3, k, 1)};
  if (at->mode == 0)
    out[0] = shuffle_blocks(g, x, (Node *[]){batch, b, b, c, h, w}, dcr, four);
  else
    out[0] = shuffle_blocks(g, x, (Node *[]){batch, c, b, b, h, w}, crd, four);
}

static void expand_space_to_depth(Graph *g, const Node *n, Node **out) {
  const space_to_depth_attrs *at = n->attrs;
  static const int64_t dcr[6] = {0, 3, 5, 1, 2, 4}, crd[6] = {0, 1, 3, 5, 2, 4};
  if (at->channels_last) {
    expand_last(g, n, out);
    return;
  }
  int64_t k = at->blocksize;
  Node *x = n->src[0], *b = node_i64s(g, 1, &k);
  Node *batch = size_of(g, x, 0, 1, 1), *c = size_of(g, x, 1, 1, 1);
  Node *h = size_of(g, x, 2, 1, k), *w = size_of(g, x, 3, 1, k);
  Node *four[4] = {batch, size_of(g, x, 1, k * k, 1), h, w};
  out[0] = shuffle_blocks(g, x, (Node *[]){batch, c, h, b, w, b}, at->mode == 0 ? dcr : crd, four);
}

ATTR_TABLE(depth_to_space, DEPTH_TO_SPACE_ATTRS);
const OpInfo op_depth_to_space = {
    .name = "depth_to_space",
    .doc = "Channels rearranged into blocks of pixels.",
    .onnx = "DepthToSpace",
    .onnx_since = 1,
    .operands = "input",
    .results = "output",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_ORDER,
    .layout = LAYOUT_AWARE,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS | OPF_COMPOSITE,
    OP_ATTRS(depth_to_space),
    .infer = infer_depth_to_space,
    .eval = eval_depth_to_space,
    .expand = expand_depth_to_space,
    SAMPLES("(f32[1,8,2,3]) blocksize=2", "(f16[2,9,1,2]) blocksize=3 mode=CRD",
            "(f32[0,4,2,2]) blocksize=2", "(f32[b,4,h,w]) blocksize=2",
            "(f32[b,h,w,8]) blocksize=2 mode=CRD channels_last=true"),
};
ATTR_TABLE(space_to_depth, DEPTH_TO_SPACE_ATTRS);
const OpInfo op_space_to_depth = {
    .name = "space_to_depth",
    .doc = "Blocks of pixels rearranged into channels.",
    .onnx = "SpaceToDepth",
    .onnx_since = 1,
    .operands = "input",
    .results = "output",
    .dtypes = "any",
    .arity = 1,
    .nres = 1,
    .fuse = FUSE_ORDER,
    .layout = LAYOUT_AWARE,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS | OPF_COMPOSITE,
    OP_ATTRS(space_to_depth),
    .infer = infer_space_to_depth,
    .eval = eval_space_to_depth,
    .expand = expand_space_to_depth,
    SAMPLES("(f32[1,2,4,6]) blocksize=2", "(f16[2,1,3,3]) blocksize=3 mode=CRD",
            "(f32[0,1,2,2]) blocksize=2", "(f32[b,3,4,8]) blocksize=4",
            "(f32[b,4,6,3]) blocksize=2 channels_last=true"),
};

// ---- the others ----

static tenon_status infer_reverse_sequence(Infer *in) {
  const reverse_sequence_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "sequence_lens"));
  const Type *x = infer_type(in, 0), *lens = infer_type(in, 1);
  if (at->time_axis < 0 || at->time_axis > 1 || at->batch_axis != 1 - at->time_axis)
    return infer_fail(in, TENON_EINVAL,
                      "time_axis %lld and batch_axis %lld must be 0 and 1 or 1 and 0",
                      (long long)at->time_axis, (long long)at->batch_axis);
  if (x->rank >= 0 && x->rank < 2)
    return infer_fail(in, TENON_EINVAL, "input has rank %d, must be at least 2", x->rank);
  if (x->rank >= 0 && lens->rank == 1)
    TRY(infer_equal_dim(in, lens->dims[0], x->dims[at->batch_axis], "lengths and batch"));
  infer_set_type(in, 0, x);
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(reverse_sequence, REVERSE_SEQUENCE_ATTRS);
const OpInfo op_reverse_sequence = {
    .name = "reverse_sequence",
    .doc = "Each sequence of a batch reversed in its first steps, as many as its length says.",
    .onnx = "ReverseSequence",
    .onnx_since = 10,
    .operands = "input sequence_lens",
    .results = "Y",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_first,
    .flags = OPF_MOVEMENT | OPF_SELECTS,
    OP_ATTRS(reverse_sequence),
    .infer = infer_reverse_sequence,
    .eval = eval_reverse_sequence,
    SAMPLES("(f32[4,3], i64[3]{4,2,0})", "(f16[2,4,3], i64[2]{3,1}) time_axis=1 batch_axis=0",
            "(f32[3,0,2], i64[0]{})", "(f32[t,2,8], i64[2]{1,0})"),
};

static tenon_status infer_trilu(Infer *in) {
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  if (infer_src(in, 1)) TRY(infer_need_ints(in, 1, "k"));
  const Type *x = infer_type(in, 0);
  if (x->rank >= 0 && x->rank < 2)
    return infer_fail(in, TENON_EINVAL, "input has rank %d, must be at least 2", x->rank);
  infer_set_type(in, 0, x);
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(trilu, TRILU_ATTRS);
const OpInfo op_trilu = {
    .name = "trilu",
    .doc = "The upper or lower triangle of each matrix, zeros elsewhere; k moves the diagonal.",
    .onnx = "Trilu",
    .onnx_since = 14,
    .operands = "input k?",
    .results = "output",
    .dtypes = "any",
    .arity = -1,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_with_zero,
    .flags = OPF_MOVEMENT,
    OP_ATTRS(trilu),
    .infer = infer_trilu,
    .eval = eval_trilu,
    SAMPLES("(f32[4,5])", "(f32[2,4,5], i64[]{-1}) upper=false", "(f16[3,3], i64[]{1})",
            "(i64[0,3])", "(f32[b,t,t])"),
};

static tenon_status infer_center_crop_pad(Infer *in) {
  const center_crop_pad_attrs *at = in->attrs;
  TRY(infer_need(in, 0, TENON_DTYPE_NONE));
  TRY(infer_need_ints(in, 1, "shape"));
  const Type *x = infer_type(in, 0);
  if (x->rank < 0) {
    infer_set_unranked(in, 0, x->dtype);
    return TENON_OK;
  }
  int a[MAX_RANK];
  int64_t n = at->axes.n ? at->axes.n : x->rank, len = infer_length(in, 1);
  for (int i = 0; i < x->rank; i++) a[i] = i;
  if (at->axes.n) TRY(infer_axes(in, at->axes, x->rank, a));
  const Dim *shape = NULL;
  bool known = node_sym(in->g, in->src[1], &len, &shape);
  if (len >= 0 && len != n)
    return infer_fail(in, TENON_EINVAL, "%lld sizes for %lld axes", (long long)len, (long long)n);
  Dim dims[MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (int i = 0; i < n; i++) dims[a[i]] = known ? shape[i] : ie_fresh(&in->g->dims, "crop");
  TRY(infer_set(in, 0, x->dtype, x->rank, dims));
  sym_move(in, 1);
  return TENON_OK;
}
ATTR_TABLE(center_crop_pad, CENTER_CROP_PAD_ATTRS);
const OpInfo op_center_crop_pad = {
    .name = "center_crop_pad",
    .doc = "Cropped or padded with zeros to the given sizes, the middle staying the middle.",
    .onnx = "CenterCropPad",
    .onnx_since = 18,
    .operands = "input_data shape",
    .results = "output_data",
    .dtypes = "any",
    .arity = 2,
    .nres = 1,
    .fuse = FUSE_INDEX,
    .range = RANGE_with_zero,
    .flags = OPF_MOVEMENT,
    OP_ATTRS(center_crop_pad),
    .infer = infer_center_crop_pad,
    .eval = eval_center_crop_pad,
    SAMPLES("(f32[20,8], i64[2]{10,9})", "(f16[3,8,5], i64[2]{10,2}) axes=[-1, 1]",
            "(f32[0,3], i64[2]{2,2})", "(f32[b,3,h,w], i64[2]{32,32}) axes=[2, 3]"),
};
