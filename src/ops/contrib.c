// contrib.c -- records of ops that only runtimes' own operators need.
#include "eval/contrib.h"
#include "ir/opinfo.h"

static tenon_status infer_inverse(Infer *in) {
  TRY(infer_need(in, 0, 0));
  const Type *t = infer_type(in, 0);
  if (t->dtype && !dtype_is_float(t->dtype))
    return infer_fail(in, TENON_EINVAL, "the operand is %s, must be a float type",
                      dtype_name(t->dtype));
  if (t->rank >= 0 && t->rank < 2)
    return infer_fail(in, TENON_EINVAL, "rank %d, must be at least 2", t->rank);
  if (t->rank >= 2)
    TRY(infer_equal_dim(in, t->dims[t->rank - 1], t->dims[t->rank - 2], "rows and columns"));
  infer_set_type(in, 0, t);
  return TENON_OK;
}

static double cost_inverse(const CostIn *c) {
  if (c->in[0].rank < 2) return 0;
  return 4 * (double)c->in[0].n * (double)c->in[0].dims[c->in[0].rank - 1];
}

const OpInfo op_inverse = {
    .name = "inverse",
    .doc = "the inverse of each square matrix of the last two axes",
    .onnx = "com.microsoft.Inverse",
    .onnx_since = 1,
    .operands = "x",
    .results = "y",
    .dtypes = "float",
    .arity = 1,
    .nres = 1,
    .infer = infer_inverse,
    .eval = eval_inverse,
    .cost = cost_inverse,
    SAMPLES("(f32[2,2]{2,1,1,3})", "(f64[2,1,1]{4,5})", "(f32[0,3,3])", "(f32[2,0,0])"),
};

// ---- weight-only quantization ----

ATTR_TABLE(mat_mul_n_bits, MAT_MUL_N_BITS_ATTRS);

static tenon_status infer_mat_mul_n_bits(Infer *in) {
  const mat_mul_n_bits_attrs *at = in->attrs;
  TRY(infer_need(in, 0, DT_F32));
  TRY(infer_need(in, 1, DT_U8));
  TRY(infer_need(in, 2, DT_F32));
  if (infer_src(in, 3)) TRY(infer_need(in, 3, DT_F32));
  const Type *x = infer_type(in, 0), *w = infer_type(in, 1);
  if (x->rank == 0 || (w->rank >= 0 && w->rank != 3))
    return infer_fail(in, TENON_EINVAL, "x has rank %d, must be at least 1; w has %d, must be 3",
                      x->rank, w->rank);
  if (x->rank < 0 || w->rank < 0) {
    infer_set_unranked(in, 0, DT_F32);
    return TENON_OK;
  }
  for (int i = 2; i < 4; i++) {
    const Type *t = infer_type(in, i);
    if (!t || t->rank < 0) continue;
    if (t->rank != 2)
      return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 2", i, t->rank);
    for (int d = 0; d < 2; d++) TRY(infer_equal_dim(in, t->dims[d], w->dims[d], "rows and blocks"));
  }
  Dim k = x->dims[x->rank - 1], dims[MAX_RANK];
  NBits q = {.bits = at->bits, .rows = 1, .blocks = 1, .bytes = 1, .depth = 1};
  bool known = ie_is_const(k) && ie_is_const(w->dims[1]) && ie_is_const(w->dims[2]);
  if (known) q.blocks = w->dims[1]->value, q.bytes = w->dims[2]->value, q.depth = k->value;
  if (!int4_fits(&q))
    return infer_fail(in, TENON_EINVAL, "%lld blocks of %lld bytes, %lld bits a weight, for %lld",
                      (long long)q.blocks, (long long)q.bytes, (long long)q.bits,
                      (long long)q.depth);
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[x->rank - 1] = w->dims[0];
  return infer_set(in, 0, DT_F32, x->rank, dims);
}

static double cost_mat_mul_n_bits(const CostIn *c) {
  if (c->in[0].rank < 1 || c->in[1].rank != 3) return 0;
  return 2 * (double)c->in[0].n * (double)c->in[1].dims[0];
}

const OpInfo op_mat_mul_n_bits = {
    .name = "mat_mul_n_bits",
    .doc = "x times the transposed matrix (w - zero) scale, of weights of 2, 4 or 8 bits, packed "
           "into bytes [rows, blocks, bytes], with a scale and a zero for each block; zero is half "
           "the range where it is not given",
    .operands = "x w scale zero?",
    .results = "y",
    .dtypes = "float",
    OP_ATTRS(mat_mul_n_bits),
    .arity = -1,
    .nres = 1,
    CONTRACTION(CF_OTHER, 0, 0, 1, -1, -1, 3, -1, -1, 2, -1),
    .infer = infer_mat_mul_n_bits,
    .eval = eval_mat_mul_n_bits,
    .cost = cost_mat_mul_n_bits,
    SAMPLES("(f32[3,32], u8[5,2,8], f32[5,2])", "(f32[2,3,24], u8[5,2,8], f32[5,2], f32[5,2])",
            "(f32[16], u8[3,1,16], f32[3,1]) bits=8", "(f32[0,16], u8[3,2,2], f32[3,2]) bits=2",
            "(f32[m,32], u8[40,1,16], f32[40,1])"),
};

ATTR_TABLE(unpack_n_bits, UNPACK_N_BITS_ATTRS);

static tenon_status infer_unpack_n_bits(Infer *in) {
  const unpack_n_bits_attrs *at = in->attrs;
  TRY(infer_need(in, 0, DT_U8));
  TRY(infer_need(in, 1, DT_F32));
  if (infer_src(in, 2)) TRY(infer_need(in, 2, DT_F32));
  const Type *w = infer_type(in, 0);
  if (at->bits != 2 && at->bits != 4 && at->bits != 8)
    return infer_fail(in, TENON_EINVAL, "%lld bits; there are 2, 4 and 8", (long long)at->bits);
  if (at->zero < 0 || at->zero > UINT8_MAX)
    return infer_fail(in, TENON_EINVAL, "the zero %lld is no number of a byte",
                      (long long)at->zero);
  if (w->rank >= 0 && w->rank != 3)
    return infer_fail(in, TENON_EINVAL, "w has rank %d, must be 3", w->rank);
  for (int i = 1; i < 3; i++) {
    const Type *t = infer_type(in, i);
    if (!t || t->rank < 0) continue;
    if (t->rank != 2)
      return infer_fail(in, TENON_EINVAL, "operand %d has rank %d, must be 2", i, t->rank);
    for (int d = 0; d < 2 && w->rank == 3; d++)
      TRY(infer_equal_dim(in, t->dims[d], w->dims[d], "rows and blocks"));
  }
  if (w->rank < 0) {
    infer_set_unranked(in, 0, DT_F32);
    return TENON_OK;
  }
  IntPool *p = &in->g->dims;
  Dim dims[] = {w->dims[0], ie_mulc(p, ie_mul(p, w->dims[1], w->dims[2]), 8 / at->bits)};
  return infer_set(in, 0, DT_F32, 2, dims);
}

static double cost_unpack_n_bits(const CostIn *c) { return 2 * (double)c->out[0].n; }

const OpInfo op_unpack_n_bits = {
    .name = "unpack_n_bits",
    .doc = "the matrix (w - zero) scale - less, of weights of 2, 4 or 8 bits, packed into bytes "
           "[rows, blocks, bytes], with a scale and an offset for each block",
    .operands = "w scale less?",
    .results = "y",
    .dtypes = "integer",
    OP_ATTRS(unpack_n_bits),
    .arity = -1,
    .nres = 1,
    .infer = infer_unpack_n_bits,
    .eval = eval_unpack_n_bits,
    .cost = cost_unpack_n_bits,
    SAMPLES("(u8[5,2,8], f32[5,2])", "(u8[5,2,8], f32[5,2], f32[5,2]) zero=8",
            "(u8[3,1,16], f32[3,1]) bits=8 zero=128", "(u8[3,2,2], f32[3,2]) bits=2",
            "(u8[0,2,2], f32[0,2])"),
};
