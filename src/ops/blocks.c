// blocks.c -- records of the ops on matrices in ggml's block types.
//
// A product with `activations` int8 takes x as it is, and then quantises it itself, or as
// `quantize_blocks` gives it.  The rule mat_mul_blocks.quantize makes the second of the first, so
// that products of one x share it.
#include "eval/blocks.h"
#include "ir/opinfo.h"

ATTR_TABLE(quantize_blocks, QUANTIZE_BLOCKS_ATTRS);
ATTR_TABLE(mat_mul_blocks, MAT_MUL_BLOCKS_ATTRS);
ATTR_TABLE(gather_blocks, GATHER_BLOCKS_ATTRS);

// ---- quantize_blocks ----

static tenon_status infer_quantize_blocks(Infer *in) {
  const quantize_blocks_attrs *at = in->attrs;
  TRY(infer_need(in, 0, DT_F32));
  const Type *x = infer_type(in, 0);
  if (at->block != X_BLOCK_LEAST && at->block != X_BLOCK_MOST)
    return infer_fail(in, TENON_EINVAL, "blocks of %lld, must be of 32 or 256",
                      (long long)at->block);
  if (x->rank == 0) return infer_fail(in, TENON_EINVAL, "x has rank 0, must have a last axis");
  if (x->rank < 0) {
    infer_set_unranked(in, 0, DT_U8);
    return TENON_OK;
  }
  Dim k = x->dims[x->rank - 1], dims[MAX_RANK];
  int64_t bytes;
  if (!ie_is_const(k) || !x_row_bytes(k->value, at->block, &bytes))
    return infer_fail(in, TENON_EINVAL, "the last axis must be a number, and whole blocks of %lld",
                      (long long)at->block);
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[x->rank - 1] = ie_const(&in->g->dims, bytes);
  return infer_set(in, 0, DT_U8, x->rank, dims);
}

static double cost_quantize_blocks(const CostIn *c) { return 4 * (double)c->in[0].n; }

const OpInfo op_quantize_blocks = {
    .name = "quantize_blocks",
    .doc =
        "x in 8 bits, block after block of each row, as products of integers take it: codes of "
        "i8 (x 127 / largest magnitude of the block, rounded to nearest even), the scale in f32, "
        "and the sums of the codes in i32, of 32 elements, or of 16 where blocks have 256; a "
        "block below 2^-90 is 0",
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    OP_ATTRS(quantize_blocks),
    .arity = 1,
    .nres = 1,
    .infer = infer_quantize_blocks,
    .eval = eval_quantize_blocks,
    .cost = cost_quantize_blocks,
    SAMPLES("(f32[3,64])", "(f32[2,2,256]) block=256", "(f32[32])", "(f32[0,32])",
            "(f32[m,512]) block=256"),
};

// ---- matrices ----

// The matrix is u8[rows, bytes]; with the type's bytes of a row.
static tenon_status infer_matrix(Infer *in, int i, int choice, int64_t k, const GgmlType **type) {
  const GgmlType *t = *type = block_type(choice);
  int64_t bytes;
  TRY(infer_need(in, i, DT_U8));
  const Type *w = infer_type(in, i);
  if (!block_row_bytes(t, k, &bytes))
    return infer_fail(in, TENON_EINVAL, "rows of k = %lld elements are not whole blocks of %d (%s)",
                      (long long)k, t->block, t->name);
  if (w->rank >= 0 && w->rank != 2)
    return infer_fail(in, TENON_EINVAL, "w has rank %d, must be 2", w->rank);
  if (w->rank != 2) return TENON_OK;
  return infer_equal_dim(in, w->dims[1], ie_const(&in->g->dims, bytes), "bytes of a row of w");
}

// Scales f32[tiles of rows, tiles of k], of plain types alone.
static tenon_status infer_scale(Infer *in, const GgmlType *t, const Type *w) {
  const mat_mul_blocks_attrs *at = in->attrs;
  int64_t tiles[2];
  if (at->scale_rows < 0 || at->scale_k < 0)
    return infer_fail(in, TENON_EINVAL, "tiles of %lld rows and %lld elements",
                      (long long)at->scale_rows, (long long)at->scale_k);
  if (!infer_src(in, 2)) return TENON_OK;
  TRY(infer_need(in, 2, DT_F32));
  if (!t->plain) return infer_fail(in, TENON_EINVAL, "blocks of %s have scales", t->name);
  const Type *s = infer_type(in, 2);
  if (s->rank < 0 || w->rank < 0) return TENON_OK;
  if (s->rank != 2) return infer_fail(in, TENON_EINVAL, "scale has rank %d, must be 2", s->rank);
  if (!ie_is_const(w->dims[0])) return TENON_OK;
  if (!block_scales(at, w->dims[0]->value, tiles))
    return infer_fail(in, TENON_EINVAL, "the tiles have no size");
  for (int i = 0; i < 2; i++)
    TRY(infer_equal_dim(in, s->dims[i], ie_const(&in->g->dims, tiles[i]), "tiles with a scale"));
  return TENON_OK;
}

// With `group` the result has its axes, which are those of x and perhaps one more, in place of x's.
static tenon_status infer_group(Infer *in, const Type *x, const Type *w, Dim *dims, int *rank) {
  const mat_mul_blocks_attrs *at = in->attrs;
  Dim rows = w->dims[0];
  *rank = x->rank;
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  if (at->groups < 1)
    return infer_fail(in, TENON_EINVAL, "groups is %lld, must be 1 or more", (long long)at->groups);
  if (!infer_src(in, 3)) {
    if (at->groups != 1)
      return infer_fail(in, TENON_EINVAL, "there are %lld matrices, and no group",
                        (long long)at->groups);
    dims[*rank - 1] = rows;
    return TENON_OK;
  }
  const Type *group = infer_type(in, 3);
  if (infer_src(in, 2))
    return infer_fail(in, TENON_EUNSUPPORTED, "several matrices with scales of their tiles");
  if (group->dtype && group->dtype != DT_I32 && group->dtype != DT_I64)
    return infer_fail(in, TENON_EINVAL, "group is %s, must be i32 or i64",
                      dtype_name(group->dtype));
  if ((group->rank != x->rank && group->rank != x->rank - 1) || group->rank >= MAX_RANK)
    return infer_fail(in, TENON_EINVAL, "group has rank %d, must be %d or %d", group->rank,
                      x->rank - 1, x->rank);
  if (ie_is_const(rows) && rows->value % at->groups)
    return infer_fail(in, TENON_EINVAL, "%lld rows of w are not %lld matrices",
                      (long long)rows->value, (long long)at->groups);
  for (int i = 0; i < x->rank - 1; i++)
    TRY(infer_equal_dim(in, group->dims[i], x->dims[i], "axes of group and x"));
  memcpy(dims, group->dims, (size_t)group->rank * sizeof *dims);
  dims[group->rank] = ie_div(&in->g->dims, rows, ie_const(&in->g->dims, at->groups));
  *rank = group->rank + 1;
  return TENON_OK;
}

static tenon_status infer_mat_mul_blocks(Infer *in) {
  const mat_mul_blocks_attrs *at = in->attrs;
  const GgmlType *t;
  TRY(infer_need(in, 0, 0));
  TRY(infer_matrix(in, 1, at->type, at->k, &t));
  const Type *x = infer_type(in, 0), *w = infer_type(in, 1);
  TRY(infer_scale(in, t, w));
  int64_t last = at->k;
  if (at->activations == BLOCKS_INT8 && (!t->x_block || !x_row_bytes(at->k, t->x_block, &last)))
    return infer_fail(in, TENON_EINVAL, "there is no product of integers with %s", t->name);
  bool quantised = x->dtype == DT_U8 && at->activations == BLOCKS_INT8;
  if (x->dtype && x->dtype != DT_F32 && !quantised)
    return infer_fail(in, TENON_EINVAL, "x is %s, must be f32%s", dtype_name(x->dtype),
                      at->activations == BLOCKS_INT8 ? ", or u8 of quantize_blocks" : "");
  if (x->rank == 0) return infer_fail(in, TENON_EINVAL, "x has rank 0, must have a last axis");
  const Node *group = infer_src(in, 3);
  if (group) TRY(infer_need(in, 3, 0));
  if (x->rank < 0 || w->rank < 0 || (group && infer_type(in, 3)->rank < 0)) {
    infer_set_unranked(in, 0, DT_F32);
    return TENON_OK;
  }
  if (!quantised) last = at->k;
  Dim dims[MAX_RANK];
  int rank;
  TRY(infer_equal_dim(in, x->dims[x->rank - 1], ie_const(&in->g->dims, last),
                      "the last axis of x and a row of w"));
  TRY(infer_group(in, x, w, dims, &rank));
  return infer_set(in, 0, DT_F32, rank, dims);
}

static double cost_mat_mul_blocks(const CostIn *c) {
  const mat_mul_blocks_attrs *at = c->node->attrs;
  return 2 * (double)c->out[0].n * (double)at->k;
}

const OpInfo op_mat_mul_blocks = {
    .name = "mat_mul_blocks",
    .doc =
        "x times the transposed matrix w, whose rows of k elements are in blocks of a ggml "
        "type, as its file holds them; with `activations` int8 x is quantised by block "
        "(`quantize_blocks`, of which x may be the result), sums within a block are integers, "
        "and blocks are added in order in f32; elements of a plain type may have a scale for each "
        "tile of w; with `group` w is several matrices, and it says which of them a row takes, "
        "or several of them, one for each element of its last axis",
    .operands = "x w scale? group?",
    .results = "y",
    .dtypes = "any",
    OP_ATTRS(mat_mul_blocks),
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_OTHER, 0, 0, 1, -1, -1, -1, -1, -1, 2, -1),
    .infer = infer_mat_mul_blocks,
    .eval = eval_mat_mul_blocks,
    .cost = cost_mat_mul_blocks,
    SAMPLES("(f32[3,64], u8[5,36]) type=q4_0 k=64", "(f32[2,2,32], u8[5,20]) type=q4_1 k=32",
            "(f32[3,64], u8[17,36]) type=q4_0 k=64 activations=int8",
            "(f32[2,64], u8[5,68]) type=q8_0 k=64 activations=int8",
            "(f32[256], u8[3,144]) type=q4_k k=256 activations=int8",
            "(f32[m,256], u8[40,210]) type=q6_k k=256 activations=int8",
            "(f32[0,32], u8[3,22]) type=q5_0 k=32", "(f32[2,32], u8[0,24]) type=q5_1 k=32",
            "(f32[2,256], u8[3,66]) type=iq2_xxs k=256", "(f32[m,64], u8[40,128]) type=bf16 k=64",
            "(f32[3,36], u8[5,72]) type=f16 k=36",
            "(f32[2,64], u8[40,64], f32[2,2]) type=f8e4m3 k=64 scale_rows=32 scale_k=32",
            "(f32[m,24], u8[5,24], f32[5,1]) type=i8 k=24 scale_rows=1",
            "(f32[2,16], u8[3,16], f32[1,1]) type=f8e5m2 k=16", "(f32[3,8], u8[5,32]) type=f32 k=8",
            "(f32[3,64], u8[15,36], _, i32[3]{2,0,2}) type=q4_0 k=64 groups=3 activations=int8",
            "(f32[m,256], u8[80,144], _, i64[3,2]{1,0,0,1,0,0}) type=q4_k k=256 groups=2 "
            "activations=int8",
            "(f32[2,16], u8[12,32], _, i32[2,2]{1,1,0,2}) type=bf16 k=16 groups=3"),
};

static tenon_status infer_gather_blocks(Infer *in) {
  const gather_blocks_attrs *at = in->attrs;
  const GgmlType *t;
  TRY(infer_matrix(in, 0, at->type, at->k, &t));
  TRY(infer_need(in, 1, 0));
  const Type *ids = infer_type(in, 1);
  if (ids->dtype && ids->dtype != DT_I32 && ids->dtype != DT_I64)
    return infer_fail(in, TENON_EINVAL, "ids are %s, must be i32 or i64", dtype_name(ids->dtype));
  if (ids->rank < 0) {
    infer_set_unranked(in, 0, DT_F32);
    return TENON_OK;
  }
  if (ids->rank >= MAX_RANK)
    return infer_fail(in, TENON_EUNSUPPORTED, "rank %d is above the limit of %d", ids->rank + 1,
                      MAX_RANK);
  Dim dims[MAX_RANK];
  memcpy(dims, ids->dims, (size_t)ids->rank * sizeof *dims);
  dims[ids->rank] = ie_const(&in->g->dims, at->k);
  return infer_set(in, 0, DT_F32, ids->rank + 1, dims);
}

static double cost_gather_blocks(const CostIn *c) { return 4 * (double)c->out[0].n; }

const OpInfo op_gather_blocks = {
    .name = "gather_blocks",
    .doc =
        "rows of a matrix w in blocks of a ggml type, in f32, picked by ids (negative ones count "
        "from the end)",
    .operands = "w ids",
    .results = "y",
    .dtypes = "integer",
    OP_ATTRS(gather_blocks),
    .arity = 2,
    .nres = 1,
    .infer = infer_gather_blocks,
    .eval = eval_gather_blocks,
    .cost = cost_gather_blocks,
    SAMPLES("(u8[5,36], i32[3]{0,4,2}) type=q4_0 k=64",
            "(u8[5,144], i64[2,2]{1,1,0,-1}) type=q4_k k=256",
            "(u8[4,34], i32[]{3}) type=q8_0 k=32", "(u8[4,66], i32[0]) type=f16 k=33",
            "(u8[4,6], i64[2]{3,0}) type=bf16 k=3"),
};
