// import_contrib_quant.c -- ONNX Runtime's quantized operators as dequantize, operator, quantize.
//
// The runtime computes most of them in integers or through tables; the results agree up to one
// quantization step, where its rounding of scales falls differently.
#include "eval/contrib.h"
#include "eval/activation.h"
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/quant.h"
#include "eval/reduce.h"
#include "eval/rnn.h"
#include "eval/window.h"
#include "frontends/onnx/import_build.h"

static Node *dequantize(Graph *g, Node *x, Node *scale, Node *zero) {
  return N(g, dequantize_linear, x, scale, or_none(g, zero));
}
// Without a zero point the result has x's type.
static Node *quantize(Graph *g, Node *y, Node *scale, Node *zero, DType t) {
  quantize_linear_attrs at;
  attrs_defaults(op_quantize_linear.attrs, op_quantize_linear.nattrs, &at);
  at.output_dtype = t;
  return NA(g, quantize_linear, &at, y, scale, or_none(g, zero));
}

// ---- element-wise ----

static tenon_status binary(ImportNode *n, int op) {
  TRY(build_need_these(n, 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4 | 1u << 6, 8));
  Graph *g = n->g;
  Node *src[] = {dequantize(g, n->in[0], n->in[1], build_in(n, 2)),
                 dequantize(g, n->in[3], n->in[4], build_in(n, 5))};
  Node *y = node_new(g, op, 2, src, NULL, 1, n->name);
  build_give(n, 0, quantize(g, y, n->in[6], build_in(n, 7), type_of(n->in[0])->dtype));
  return build_done(n);
}
static tenon_status q_add(ImportNode *n) { return binary(n, OP_add); }
static tenon_status q_mul(ImportNode *n) { return binary(n, OP_mul); }

// x, x_scale, x_zero_point?, y_scale, y_zero_point?: the dequantized x, and what quantizes the
// result.
typedef struct Unary {
  Node *x, *scale, *zero;
  DType type;
} Unary;

static tenon_status unary_in(ImportNode *n, Unary *u) {
  TRY(build_need_these(n, 1u << 0 | 1u << 1 | 1u << 3, 5));
  u->x = dequantize(n->g, n->in[0], n->in[1], build_in(n, 2));
  u->scale = n->in[3];
  u->zero = build_in(n, 4);
  u->type = type_of(n->in[0])->dtype;
  return graph_status(n->g);
}
static tenon_status unary_out(ImportNode *n, const Unary *u, Node *y) {
  build_give(n, 0, quantize(n->g, y, u->scale, u->zero, u->type));
  return build_done(n);
}

static tenon_status q_sigmoid(ImportNode *n) {
  Unary u;
  TRY(unary_in(n, &u));
  return unary_out(n, &u, N(n->g, sigmoid, u.x));
}
static tenon_status q_leaky_relu(ImportNode *n) {
  Unary u;
  TRY(unary_in(n, &u));
  leaky_relu_attrs at = {import_f64(n, "alpha", (double)0.01f)};
  return unary_out(n, &u, NA(n->g, leaky_relu, &at, u.x));
}

// Before opset 13 softmax ran over all axes from `axis` on.
static tenon_status q_softmax(ImportNode *n) {
  Unary u;
  TRY(unary_in(n, &u));
  Graph *g = n->g;
  int64_t axis = import_i64(n, "axis", -1);
  Node *y;
  if (import_i64(n, "opset", 13) >= 13) {
    y = NA(g, softmax, &(softmax_attrs){.axis = axis}, u.x);
  } else {
    Node *flat = NA(g, flatten, &(flatten_attrs){.axis = axis}, u.x);
    y = N(g, reshape, NA(g, softmax, &(softmax_attrs){.axis = 1}, flat), N(g, shape, u.x));
  }
  return unary_out(n, &u, y);
}

static tenon_status q_reduce_mean(ImportNode *n) {
  Unary u;
  TRY(unary_in(n, &u));
  Ints axes;
  Node *which = import_ints(n, "axes", &axes) ? node_i64s(n->g, axes.n, axes.v) : n->g->none;
  reduce_attrs at = {.keepdims = import_i64(n, "keepdims", 1) != 0};
  return unary_out(n, &u, NA(n->g, reduce_mean, &at, u.x, which));
}

static tenon_status q_average_pool(ImportNode *n) {
  Unary u;
  TRY(unary_in(n, &u));
  average_pool_attrs at;
  TRY(import_attrs(n, op_info(OP_average_pool), "channels_last", &at));
  bool last = import_i64(n, "channels_last", 0) != 0;
  if (last) TRY(build_known_rank(n, u.x));
  int rank = type_of(u.x)->rank;
  Node *x = last ? build_channels(n->g, u.x, rank, false) : u.x;
  Node *y = node_new(n->g, OP_average_pool, 1, &x, &at, 1, n->name);
  return unary_out(n, &u, last ? build_channels(n->g, y, rank, true) : y);
}

static tenon_status q_global_average_pool(ImportNode *n) {
  Unary u;
  TRY(unary_in(n, &u));
  bool last = import_i64(n, "channels_last", 0) != 0;
  if (last) TRY(build_known_rank(n, u.x));
  int rank = type_of(u.x)->rank;
  Node *y = N(n->g, global_average_pool, last ? build_channels(n->g, u.x, rank, false) : u.x);
  return unary_out(n, &u, last ? build_channels(n->g, y, rank, true) : y);
}

static tenon_status q_where(ImportNode *n) {
  TRY(build_need(n, 9, 9));
  Graph *g = n->g;
  Node *x = dequantize(g, n->in[1], n->in[2], n->in[3]);
  Node *y = dequantize(g, n->in[4], n->in[5], n->in[6]);
  Node *z = N(g, where, build_cast(g, n->in[0], DT_BOOL), x, y);
  build_give(n, 0, quantize(g, z, n->in[7], n->in[8], type_of(n->in[1])->dtype));
  return build_done(n);
}

static tenon_status q_concat(ImportNode *n) {
  if (n->nin < 5 || n->nin % 3 != 2)
    return import_fail(n, TENON_EINVAL, "%d inputs, must be 2 and then 3 for each tensor", n->nin);
  TRY(build_need(n, 5, n->nin));
  Graph *g = n->g;
  int count = (n->nin - 2) / 3;
  Node **x = arena_array(&g->arena, Node *, count);
  for (int i = 0; i < count; i++)
    x[i] = dequantize(g, n->in[2 + 3 * i], n->in[3 + 3 * i], build_in(n, 4 + 3 * i));
  Node *y = build_concat(g, import_i64(n, "axis", 0), count, x);
  build_give(n, 0, quantize(g, y, n->in[0], n->in[1], type_of(n->in[2])->dtype));
  return build_done(n);
}

// ---- products ----

// Sum over integers, then scaled: a row of scales is one a column.
static Node *scaled_product(Graph *g, Node *a, Node *b, Node *az, Node *bz, Node *scale) {
  Node *src[] = {a, b, or_none(g, az), or_none(g, bz)};
  Node *sum = node_new(g, OP_mat_mul_integer, 4, src, NULL, 1, NULL);
  return N(g, mul, build_cast(g, sum, DT_F32), scale);
}

static tenon_status dynamic_quantize_mat_mul(ImportNode *n) {
  TRY(build_need(n, 3, 5));
  Graph *g = n->g;
  Node *q = node_new(g, OP_dynamic_quantize_linear, 1, n->in, NULL, 3, n->name);
  Node *scale = N(g, mul, node_proj(g, q, 1), n->in[2]);
  Node *y =
      scaled_product(g, node_proj(g, q, 0), n->in[1], node_proj(g, q, 2), build_in(n, 3), scale);
  build_give(n, 0, build_add_opt(g, y, build_in(n, 4)));
  return build_done(n);
}

static tenon_status mat_mul_integer_to_float(ImportNode *n) {
  TRY(build_need(n, 4, 7));
  Graph *g = n->g;
  Node *scale = N(g, mul, n->in[2], n->in[3]);
  TRY(graph_status(g));
  DType t = type_of(scale)->dtype;
  scale = build_cast(g, scale, DT_F32);
  Node *y = scaled_product(g, n->in[0], n->in[1], build_in(n, 4), build_in(n, 5), scale);
  build_give(n, 0, build_add_opt(g, build_cast(g, y, t), build_in(n, 6)));
  return build_done(n);
}

static tenon_status q_gemm(ImportNode *n) {
  TRY(build_need(n, 6, 9));
  Graph *g = n->g;
  Node *a = import_i64(n, "transA", 0) ? build_swap_last(g, n->in[0], 2) : n->in[0];
  Node *b = import_i64(n, "transB", 0) ? build_swap_last(g, n->in[3], 2) : n->in[3];
  Node *sum = N(g, mat_mul_integer, a, b, n->in[2], n->in[5]);
  sum = build_add_opt(g, sum, build_in(n, 6));
  Node *scale = build_scaled(g, N(g, mul, n->in[1], n->in[4]), import_f64(n, "alpha", 1));
  Node *y = N(g, mul, build_cast(g, sum, DT_F32), scale);
  TRY(graph_status(g));
  if (build_in(n, 7)) y = quantize(g, y, n->in[7], build_in(n, 8), type_of(n->in[0])->dtype);
  build_give(n, 0, y);
  return build_done(n);
}

static tenon_status mul_integer(ImportNode *n) {
  TRY(build_need_these(n, 1u << 0 | 1u << 2, 4));
  Graph *g = n->g;
  Node *x[2];
  for (int i = 0; i < 2; i++) {
    x[i] = build_cast(g, n->in[2 * i], DT_I32);
    Node *zero = build_in(n, 2 * i + 1);
    if (zero) x[i] = N(g, sub, x[i], build_cast(g, zero, DT_I32));
  }
  build_give(n, 0, N(g, mul, x[0], x[1]));
  return build_done(n);
}

static tenon_status reduce_sum_integer(ImportNode *n) {
  TRY(build_need(n, 1, 1));
  Graph *g = n->g;
  Ints axes;
  Node *which = import_ints(n, "axes", &axes) ? node_i64s(g, axes.n, axes.v) : g->none;
  reduce_attrs at = {.keepdims = import_i64(n, "keepdims", 1) != 0};
  DType t = dtype_class(type_of(n->in[0])->dtype) == DC_UINT ? DT_U32 : DT_I32;
  build_give(n, 0, NA(g, reduce_sum, &at, build_cast(g, n->in[0], t), which));
  return build_done(n);
}

static tenon_status q_conv(ImportNode *n) {
  TRY(build_need(n, 8, 9));
  TRY(build_known_rank(n, n->in[3]));
  Graph *g = n->g;
  int rank = type_of(n->in[3])->rank;
  conv_attrs at;
  TRY(import_attrs(n, op_info(OP_q_linear_conv), "channels_last", &at));
  bool last = import_i64(n, "channels_last", 0) != 0;
  Node **src = arena_dup(&g->arena, n->in, n->nin * (int64_t)sizeof(Node *));
  if (last) src[0] = build_channels(g, src[0], rank, false);
  Node *y = node_new(g, OP_q_linear_conv, n->nin, src, &at, 1, n->name);
  build_give(n, 0, last ? build_channels(g, y, rank, true) : y);
  return build_done(n);
}

// ---- weights packed into bytes ----

// The 8/bits elements of each byte, low bits first, as a last axis `count` long.
static Node *unpack_bits(Graph *g, Node *x, int64_t bits, int64_t count, bool shaped) {
  Node *part[4];
  int per = (int)(8 / bits);
  for (int i = 0; i < per; i++) {
    Node *p = i ? N(g, shift_right, x, node_scalar(g, DT_U8, (double)(i * bits))) : x;
    if (i < per - 1) p = N(g, bit_and, p, node_scalar(g, DT_U8, (double)((1 << bits) - 1)));
    part[i] = build_unsqueeze(g, p, -1);
  }
  Node *all = per == 1 ? x : build_concat(g, -1, per, part);
  int rank = g->status ? 0 : type_of(x)->rank;
  int64_t dims[MAX_RANK] = {0};
  if (rank > 0) dims[rank - 1] = -1;
  Node *flat = build_reshape(g, all, rank, dims);
  return shaped ? flat : build_slice(g, flat, rank - 1, 0, count);
}

typedef struct NBitsNode {
  int64_t k, n, bits, block, blocks;
} NBitsNode;

static tenon_status nbits_attrs(ImportNode *n, NBitsNode *q) {
  *q = (NBitsNode){.k = import_i64(n, "K", 0),
                   .n = import_i64(n, "N", 0),
                   .bits = import_i64(n, "bits", 4),
                   .block = import_i64(n, "block_size", 0)};
  if (q->k < 1 || q->n < 1 || q->block < 1 || q->block > INT32_MAX || q->k > INT32_MAX)
    return import_fail(n, TENON_EINVAL, "K %lld, N %lld and block_size %lld must be positive",
                       (long long)q->k, (long long)q->n, (long long)q->block);
  if (q->bits != 2 && q->bits != 4 && q->bits != 8)
    return import_fail(n, TENON_EUNSUPPORTED, "%lld bits; 2, 4 and 8 are supported",
                       (long long)q->bits);
  if (import_i64(n, "weight_prepacked", 0))
    return import_fail(n, TENON_EUNSUPPORTED, "the weights are packed for one kind of processor");
  q->blocks = (q->k + q->block - 1) / q->block;
  return TENON_OK;
}

// (weight - zero) scale, [N, K]; group gives each column's block.
static Node *nbits_weights(ImportNode *n, const NBitsNode *q, Node *group) {
  Graph *g = n->g;
  Node *zeros = build_in(n, 3), *scales = n->in[2];
  DType t = type_of(n->in[0])->dtype;
  int64_t by_block[] = {q->n, q->blocks, -1}, columns[] = {q->n, -1};
  Node *w = unpack_bits(g, build_reshape(g, n->in[1], 3, by_block), q->bits, 0, true);
  w = build_cast(g, w, DT_F32);
  Node *z = node_scalar(g, DT_F32, (double)(1 << (q->bits - 1)));
  if (zeros && dtype_is_float(type_of(zeros)->dtype))
    z = build_reshape(g, build_cast(g, zeros, DT_F32), 2, columns);
  else if (zeros)
    z = build_cast(
        g, unpack_bits(g, build_reshape(g, zeros, 2, columns), q->bits, q->blocks, false), DT_F32);
  Node *s = build_reshape(g, build_cast(g, scales, DT_F32), 2, columns);
  if (group) {
    w = build_slice(g, build_reshape(g, w, 2, columns), 1, 0, q->k);
    group = build_slice(g, group, 0, 0, q->k);
    if (zeros) z = NA(g, gather, &(gather_attrs){.axis = 1}, z, group);
    s = NA(g, gather, &(gather_attrs){.axis = 1}, s, group);
    return build_cast(g, N(g, mul, N(g, sub, w, z), s), t);
  }
  if (zeros) z = build_unsqueeze(g, z, 2);
  w = N(g, mul, N(g, sub, w, z), build_unsqueeze(g, s, 2));
  return build_cast(g, build_slice(g, build_reshape(g, w, 2, columns), 1, 0, q->k), t);
}

// Zeros as floats, [rows, blocks]; NULL: half the range.
static Node *nbits_zeros(ImportNode *n, const NBitsNode *q) {
  Graph *g = n->g;
  Node *zeros = build_in(n, 3);
  int64_t columns[] = {q->n, -1};
  if (!zeros) return NULL;
  zeros = build_reshape(g, zeros, 2, columns);
  if (!dtype_is_float(type_of(zeros)->dtype))
    zeros = unpack_bits(g, zeros, q->bits, q->blocks, false);
  return build_cast(g, zeros, DT_F32);
}

// Whether the weights stay packed: as the operator's own description has them, with floats of 32
// bits beside them.
static bool nbits_stay(ImportNode *n, const NBitsNode *q) {
  const Type *x = type_of(n->in[0]), *w = type_of(n->in[1]);
  int64_t want[] = {q->n, q->blocks, q->block * q->bits / 8};
  if (x->dtype != DT_F32 || x->rank < 1 || w->rank != 3 || build_in(n, 4)) return false;
  for (int i = 0; i < 3; i++)
    if (!ie_is(w->dims[i], want[i])) return false;
  return ie_is(x->dims[x->rank - 1], q->k) && q->block * q->bits % 8 == 0;
}

static tenon_status mat_mul_n_bits(ImportNode *n) {
  TRY(build_need(n, 3, 6));
  Graph *g = n->g;
  NBitsNode q;
  TRY(nbits_attrs(n, &q));
  if (type_of(n->in[1])->dtype != DT_U8)
    return import_fail(n, TENON_EUNSUPPORTED, "the weights are %s, must be u8",
                       dtype_name(type_of(n->in[1])->dtype));
  Node *y;
  if (nbits_stay(n, &q)) {
    mat_mul_n_bits_attrs at = {.bits = q.bits};
    int64_t columns[] = {q.n, q.blocks};
    Node *zeros = nbits_zeros(n, &q);
    Node *src[] = {n->in[0], n->in[1],
                   build_cast(g, build_reshape(g, n->in[2], 2, columns), DT_F32), zeros};
    y = node_new(g, OP_mat_mul_n_bits, zeros ? 4 : 3, src, &at, 1, n->name);
  } else {
    Node *w = nbits_weights(n, &q, build_in(n, 4));
    y = N(g, mat_mul, n->in[0], build_transpose(g, w, 2, (int64_t[]){1, 0}));
  }
  build_give(n, 0, build_add_opt(g, y, build_in(n, 5)));
  return build_done(n);
}

// ---- recurrent ----

// (w - zero) scale, for w of shape [directions, k, 4 hidden] and one scale a direction or a column,
// as LSTM has it: [directions, 4 hidden, k].
static Node *lstm_weights(Graph *g, Node *w, Node *scale, Node *zero) {
  static const int64_t rows[] = {0, 1, -1}, swapped[] = {0, 2, 1};
  Node *x = build_cast(g, w, DT_F32);
  if (zero) x = N(g, sub, x, build_reshape(g, build_cast(g, zero, DT_F32), 3, rows));
  return build_transpose(g, N(g, mul, x, build_reshape(g, scale, 3, rows)), 3, swapped);
}

// x is rounded to 8 bits as a whole, and each state, as the runtime does unless it splits the
// batch.
static tenon_status dynamic_quantize_lstm(ImportNode *n) {
  TRY(build_need_these(n, 1u << 0 | 1u << 1 | 1u << 2 | 1u << 8 | 1u << 10, 12));
  Graph *g = n->g;
  lstm_attrs at;
  TRY(import_attrs(n, op_info(OP_lstm), NULL, &at));
  at.quantize_state = true;
  for (int i = 8; i < 12; i++)  // [directions] or [directions, columns]
    if (build_in(n, i) && type_of(n->in[i])->rank == 1) n->in[i] = build_unsqueeze(g, n->in[i], 1);
  Node *src[8];
  for (int i = 0; i < 8; i++) src[i] = or_none(g, build_in(n, i));
  Node *q = node_new(g, OP_dynamic_quantize_linear, 1, src, NULL, 3, NULL);
  src[0] = dequantize(g, node_proj(g, q, 0), node_proj(g, q, 1), node_proj(g, q, 2));
  src[1] = lstm_weights(g, n->in[1], n->in[8], build_in(n, 9));
  src[2] = lstm_weights(g, n->in[2], n->in[10], build_in(n, 11));
  Node *y = node_new(g, OP_lstm, 8, src, &at, 3, n->name);
  for (int i = 0; i < 3; i++) build_give(n, i, node_proj(g, y, i));
  return build_done(n);
}

// ---- single steps ----

static tenon_status quantize_of(ImportNode *n) { return import_auto(n, &op_quantize_linear); }
static tenon_status dequantize_of(ImportNode *n) { return import_auto(n, &op_dequantize_linear); }

static const ImportRow rows[] = {
    // clang-format off
    {"com.microsoft", "QLinearAdd",               0, 0, q_add,                    NULL},
    {"com.microsoft", "QLinearMul",               0, 0, q_mul,                    NULL},
    {"com.microsoft", "QLinearSigmoid",           0, 0, q_sigmoid,                NULL},
    {"com.microsoft", "QLinearLeakyRelu",         0, 0, q_leaky_relu,             NULL},
    {"com.microsoft", "QLinearSoftmax",           0, 0, q_softmax,                NULL},
    {"com.microsoft", "QLinearReduceMean",        0, 0, q_reduce_mean,            NULL},
    {"com.microsoft", "QLinearAveragePool",       0, 0, q_average_pool,           NULL},
    {"com.microsoft", "QLinearGlobalAveragePool", 0, 0, q_global_average_pool,    NULL},
    {"com.microsoft", "QLinearWhere",             0, 0, q_where,                  NULL},
    {"com.microsoft", "QLinearConcat",            0, 0, q_concat,                 NULL},
    {"com.microsoft", "QLinearConv",              0, 0, q_conv,                   NULL},
    {"com.microsoft", "QGemm",                    0, 0, q_gemm,                   NULL},
    {"com.microsoft", "MulInteger",               0, 0, mul_integer,              NULL},
    {"com.microsoft", "ReduceSumInteger",         0, 0, reduce_sum_integer,       NULL},
    {"com.microsoft", "DynamicQuantizeMatMul",    0, 0, dynamic_quantize_mat_mul, NULL},
    {"com.microsoft", "MatMulIntegerToFloat",     0, 0, mat_mul_integer_to_float, NULL},
    {"com.microsoft", "DynamicQuantizeLSTM",      0, 0, dynamic_quantize_lstm,    NULL},
    {"com.microsoft", "MatMulNBits",              0, 0, mat_mul_n_bits,           NULL},
    {"com.microsoft", "QuantizeLinear",           0, 0, quantize_of,              NULL},
    {"com.microsoft", "DequantizeLinear",         0, 0, dequantize_of,            NULL},
    // clang-format on
};
const ImportTable onnx_rows_contrib_quant = {rows, ARRAY_LEN(rows)};
