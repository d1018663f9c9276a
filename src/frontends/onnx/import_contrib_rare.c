// import_contrib_rare.c -- ONNX Runtime's less common operators: packed tables, transforms,
// distances.
#include "eval/contract.h"
#include "eval/image.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/quant.h"
#include "eval/reduce.h"
#include "eval/signal.h"
#include "frontends/onnx/import_build.h"

// ---- 4-bit tables of bitsandbytes ----

static const float fp4_values[16] = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
static const float nf4_values[16] = {-1.0f,
                                     -0.6961928009986877f,
                                     -0.5250730514526367f,
                                     -0.39491748809814453f,
                                     -0.28444138169288635f,
                                     -0.18477343022823334f,
                                     -0.09105003625154495f,
                                     0.0f,
                                     0.07958029955625534f,
                                     0.16093020141124725f,
                                     0.24611230194568634f,
                                     0.33791524171829224f,
                                     0.44070982933044434f,
                                     0.5626170039176941f,
                                     0.7229568362236023f,
                                     1.0f};

// Nibbles of u8, as a last axis of two.
static Node *nibbles(Graph *g, Node *x, bool high_first) {
  Node *lo = build_unsqueeze(g, N(g, bit_and, x, node_scalar(g, DT_U8, 15)), -1);
  Node *hi = build_unsqueeze(g, N(g, shift_right, x, node_scalar(g, DT_U8, 4)), -1);
  return build_concat(g, -1, 2, (Node *[]){high_first ? hi : lo, high_first ? lo : hi});
}

static tenon_status mat_mul_bnb4(ImportNode *n) {
  TRY(build_need(n, 3, 3));
  Graph *g = n->g;
  int64_t kn, k = import_i64(n, "K", 0), width = import_i64(n, "N", 0);
  int64_t block = import_i64(n, "block_size", 0), type = import_i64(n, "quant_type", -1);
  if (k < 1 || width < 1 || block < 1 || (type != 0 && type != 1) || !ck_mul(k, width, &kn) ||
      type_of(n->in[1])->dtype != DT_U8)
    return import_fail(n, TENON_EINVAL,
                       "K %lld, N %lld, block_size %lld or quant_type %lld is wrong", (long long)k,
                       (long long)width, (long long)block, (long long)type);
  TRY(build_refuse_attr(n, "transB", 1));
  DType t = type_of(n->in[0])->dtype;
  Node *table = node_const(g, DT_F32, 1, (int64_t[]){16}, type ? nf4_values : fp4_values, NULL);
  Node *codes = nibbles(g, build_reshape(g, n->in[1], 1, (int64_t[]){-1}), true);
  // Whole blocks: what is past the last element of the matrix does not count.
  int64_t blocks = kn / block + (kn % block != 0), padded;
  if (!ck_mul(blocks, block, &padded))
    return import_fail(n, TENON_EINVAL, "the weights are too large");
  Node *flat = build_slice(g, build_reshape(g, codes, 1, (int64_t[]){-1}), 0, 0, kn);
  flat = N(g, pad, flat, node_i64s(g, 2, (int64_t[]){0, padded - kn}));
  Node *w = N(g, gather, table, build_cast(g, flat, DT_I32));
  w = N(g, mul, build_reshape(g, w, 2, (int64_t[]){-1, block}),
        build_reshape(g, build_cast(g, n->in[2], DT_F32), 2, (int64_t[]){-1, 1}));
  w = build_slice(g, build_reshape(g, w, 1, (int64_t[]){-1}), 0, 0, kn);
  w = build_cast(g, build_reshape(g, w, 2, (int64_t[]){width, k}), t);
  build_give(n, 0, N(g, mat_mul, n->in[0], build_transpose(g, w, 2, (int64_t[]){1, 0})));
  return build_done(n);
}

// ---- gather from a quantized table ----

static tenon_status gather_axes(ImportNode *n, int64_t *gather, int64_t *quantize) {
  int rank = type_of(n->in[0])->rank;
  *gather = import_i64(n, "gather_axis", 0);
  *quantize = import_i64(n, "quantize_axis", 1);
  if (*gather < 0) *gather += rank;
  if (*quantize < 0) *quantize += rank;
  if (*gather < 0 || *gather >= rank || *quantize < 0 || *quantize >= rank || *gather == *quantize)
    return import_fail(n, TENON_EINVAL, "axes %lld and %lld do not fit rank %d", (long long)*gather,
                       (long long)*quantize, rank);
  return TENON_OK;
}

// Rows are picked first and only those dequantized.
static tenon_status gather_block_quantized(ImportNode *n) {
  TRY(build_need(n, 3, 4));
  Graph *g = n->g;
  for (int i = 0; i < n->nin; i++) TRY(build_known_rank(n, n->in[i]));
  int64_t axis, along, block = import_i64(n, "block_size", 128), bits = import_i64(n, "bits", 4);
  TRY(gather_axes(n, &axis, &along));
  DType t = type_of(n->in[0])->dtype;
  bool packed = t == DT_U8 && bits != 8;
  if (block < 1 || dtype_is_float(t) || (packed && bits != 4))
    return import_fail(n, TENON_EUNSUPPORTED, "%s in blocks of %lld, %lld bits", dtype_name(t),
                       (long long)block, (long long)bits);
  if (packed && along != type_of(n->in[0])->rank - 1)
    return import_fail(n, TENON_EINVAL, "packed data must be quantized along the last axis");
  gather_attrs at = {.axis = axis};
  Node *part[4] = {NULL};
  for (int i = 0; i < 4; i++)
    if (i != 1 && build_in(n, i)) part[i] = NA(g, gather, &at, n->in[i], n->in[1]);
  TRY(graph_status(g));
  int rank = type_of(part[0])->rank;
  if (axis < along) along += type_of(n->in[1])->rank - 1;
  int64_t dims[MAX_RANK] = {0};
  dims[rank - 1] = -1;
  if (packed) {
    part[0] = build_reshape(g, nibbles(g, part[0], false), rank, dims);
    if (part[3]) {  // an odd count of zero points leaves half a byte over
      Node *zeros = build_reshape(g, nibbles(g, part[3], false), rank, dims);
      int64_t last = rank - 1;
      part[3] = N(g, slice, zeros, node_i64s(g, 1, (int64_t[]){0}), build_dim(g, part[2], rank - 1),
                  node_i64s(g, 1, &last));
    }
  }
  if (!part[3] && t == DT_U8)
    part[3] = N(g, expand, node_scalar(g, DT_U8, (double)(1 << (bits - 1))), N(g, shape, part[2]));
  dequantize_linear_attrs dq = {.axis = along, .block_size = block};
  build_give(n, 0, NA(g, dequantize_linear, &dq, part[0], part[2], or_none(g, part[3])));
  return build_done(n);
}

// ---- embeddings, quantized ----

static Node *dequantized(ImportNode *n, Node *x, int scale, int zero) {
  return N(n->g, dequantize_linear, x, n->in[scale], n->in[zero]);
}

static tenon_status q_embed_layer_norm(ImportNode *n) {
  TRY(build_need_these(n, 0x3ffffu & ~(1u << 1 | 1u << 4 | 1u << 7 | 1u << 10 | 1u << 15), 18));
  Graph *g = n->g;
  Node *ids = n->in[0], *mask = build_in(n, 7);
  Node *words = dequantized(n, N(g, gather, n->in[2], ids), 8, 13);
  Node *places = dequantized(n, N(g, gather, n->in[3], build_positions(g, ids, 1)), 9, 14);
  Node *sum = N(g, add, words, places);
  if (build_in(n, 1)) {
    if (!build_in(n, 4) || !build_in(n, 10) || !build_in(n, 15))
      return import_fail(n, TENON_EINVAL, "the inputs for segments come together or not");
    sum = N(g, add, sum, dequantized(n, N(g, gather, n->in[4], n->in[1]), 10, 15));
  }
  layer_normalization_attrs at = {
      .axis = -1, .epsilon = import_f64(n, "epsilon", 9.999999960041972e-13), .stash_type = 1};
  Node *gamma = dequantized(n, n->in[5], 11, 16), *beta = dequantized(n, n->in[6], 12, 17);
  build_give(n, 0, NA(g, layer_normalization, &at, sum, gamma, beta));
  Node *ones = mask ? build_cast(g, N(g, eq, mask, build_num(g, mask, 1)), DT_I32)
                    : N(g, expand, node_scalar(g, DT_I32, 0), N(g, shape, ids));
  int64_t axis = 1;
  build_give(n, 1,
             NA(g, reduce_sum, &(reduce_attrs){.keepdims = false}, ones, node_i64s(g, 1, &axis)));
  return build_done(n);
}

// ---- transforms, distances, sampling ----

static tenon_status fourier(ImportNode *n, bool inverse) {
  TRY(build_need(n, 1, 1));
  Graph *g = n->g;
  TRY(build_refuse_attr(n, "signal_ndim", 1));
  TRY(build_refuse_attr(n, "onesided", 1));
  TRY(build_refuse_attr(n, "normalized", 0));
  Node *x = inverse ? n->in[0] : build_unsqueeze(g, n->in[0], -1);
  dft_attrs at = {.inverse = inverse, .onesided = true};
  Node *y = NA(g, dft, &at, x, g->none, node_i64(g, -2));
  build_give(n, 0, inverse ? build_squeeze(g, y, -1) : y);
  return build_done(n);
}
static tenon_status rfft(ImportNode *n) { return fourier(n, false); }
static tenon_status irfft(ImportNode *n) { return fourier(n, true); }

static tenon_status cdist(ImportNode *n) {
  TRY(build_need(n, 2, 2));
  Graph *g = n->g;
  Str metric = import_str(n, "metric", "sqeuclidean");
  bool root = str_is(metric, "euclidean");
  if (!root && !str_is(metric, "sqeuclidean"))
    return import_fail(n, TENON_EUNSUPPORTED, "the metric '%.*s'", STR_ARG(metric));
  int64_t axis = 2;
  Node *d = N(g, sub, build_unsqueeze(g, n->in[0], 1), build_unsqueeze(g, n->in[1], 0));
  Node *sum = NA(g, reduce_sum, &(reduce_attrs){.keepdims = false}, N(g, mul, d, d),
                 node_i64s(g, 1, &axis));
  build_give(n, 0, root ? N(g, sqrt, sum) : sum);
  return build_done(n);
}

static tenon_status grid_sample_of(ImportNode *n) {
  Str mode = import_str(n, "mode", "bilinear"), padding = import_str(n, "padding_mode", "zeros");
  grid_sample_attrs at = {.align_corners = import_i64(n, "align_corners", 0) != 0};
  at.mode = attr_choice_find("bilinear|nearest|bicubic", mode);
  at.padding_mode = attr_choice_find("zeros|border|reflection", padding);
  if (at.mode < 0 || at.padding_mode < 0)
    return import_fail(n, TENON_EINVAL, "mode '%.*s' or padding_mode '%.*s'", STR_ARG(mode),
                       STR_ARG(padding));
  return import_as(n, OP_grid_sample, &at, n->nin, n->in);
}

// Same as the standard operator where no attribute asks for more.
static tenon_status causal_conv(ImportNode *n) {
  TRY(build_refuse_attr(n, "state_window", 0));
  TRY(build_refuse_attr(n, "channels_last", 0));
  TRY(build_refuse_attr(n, "dilation", 1));
  TRY(build_refuse_attr(n, "ndim", 1));
  causal_conv_with_state_attrs at;
  TRY(import_attrs(n, op_info(OP_causal_conv_with_state),
                   "state_window channels_last dilation ndim", &at));
  return import_as(n, OP_causal_conv_with_state, &at, n->nin, n->in);
}

static const ImportRow rows[] = {
    // clang-format off
    {"com.microsoft", "MatMulBnb4",               0, 0, mat_mul_bnb4,           NULL},
    {"com.microsoft", "GatherBlockQuantized",     0, 0, gather_block_quantized, NULL},
    {"com.microsoft", "QEmbedLayerNormalization", 0, 0, q_embed_layer_norm,     NULL},
    {"com.microsoft", "Rfft",                     0, 0, rfft,                   NULL},
    {"com.microsoft", "Irfft",                    0, 0, irfft,                  NULL},
    {"com.microsoft", "CDist",                    0, 0, cdist,                  NULL},
    {"com.microsoft", "GridSample",               0, 0, grid_sample_of,         NULL},
    {"com.microsoft", "CausalConvWithState",      0, 0, causal_conv,            NULL},
    // clang-format on
};
const ImportTable onnx_rows_contrib_rare = {rows, ARRAY_LEN(rows)};
