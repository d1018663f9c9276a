// import_contrib.c -- ONNX Runtime's own operators (com.microsoft) as what they are made of.
//
// The runtime's optimiser fuses standard operators into these; each row decomposes one again.
// Attention and quantization have files of their own.
#include "eval/activation.h"
#include "eval/attention.h"
#include "eval/contract.h"
#include "eval/index.h"
#include "eval/movement.h"
#include "eval/norm.h"
#include "eval/reduce.h"
#include "eval/window.h"
#include "frontends/onnx/import_build.h"

// ---- products ----

// The perm that brings the first axis behind the batch axes, and swaps the matrix's two.
static Node *arrange(Graph *g, Node *x, bool swap, bool batch) {
  if (g->status) return g->poison;
  int rank = type_of(x)->rank;
  int64_t perm[MAX_RANK];
  if (rank < 2 || (!swap && !batch)) return x;
  for (int i = 0; i < rank; i++) perm[i] = i;
  if (batch) {
    for (int i = 0; i < rank - 2; i++) perm[i] = i + 1;
    perm[rank - 2] = 0;
  }
  if (swap) {
    int64_t t = perm[rank - 1];
    perm[rank - 1] = perm[rank - 2];
    perm[rank - 2] = t;
  }
  return build_transpose(g, x, rank, perm);
}

static tenon_status matrix_product(ImportNode *n, Node **out) {
  TRY(build_need(n, 2, 2));
  bool ta = import_i64(n, "transA", 0), tb = import_i64(n, "transB", 0);
  bool ba = import_i64(n, "transBatchA", 0), bb = import_i64(n, "transBatchB", 0);
  if (ta || ba) TRY(build_known_rank(n, n->in[0]));
  if (tb || bb) TRY(build_known_rank(n, n->in[1]));
  Node *a = arrange(n->g, n->in[0], ta, ba), *b = arrange(n->g, n->in[1], tb, bb);
  *out = build_scaled(n->g, N(n->g, mat_mul, a, b), import_f64(n, "alpha", 1));
  return graph_status(n->g);
}

static tenon_status fused_mat_mul(ImportNode *n) {
  Node *y;
  TRY(matrix_product(n, &y));
  build_give(n, 0, y);
  return build_done(n);
}

// activation_alpha, _beta and _gamma in order, as far as they are given.
static Floats named_params(ImportNode *n) {
  static const char *const names[] = {"activation_alpha", "activation_beta", "activation_gamma"};
  double *v = arena_array(&n->g->arena, double, ARRAY_LEN(names));
  int64_t count = 0;
  while (count < ARRAY_LEN(names) && import_attr(n, names[count])) {
    v[count] = import_f64(n, names[count], 0);
    count++;
  }
  return (Floats){count, v};
}

static tenon_status fused_mat_mul_activation(ImportNode *n) {
  Node *y;
  TRY(matrix_product(n, &y));
  TRY(build_activation(n, import_str(n, "activation", ""), named_params(n), y, &y));
  build_give(n, 0, y);
  return build_done(n);
}

static tenon_status fused_gemm(ImportNode *n) {
  TRY(build_need(n, 2, 3));
  gemm_attrs at;
  TRY(import_attrs(n, op_info(OP_gemm),
                   "activation activation_alpha activation_beta activation_gamma", &at));
  Node *y = node_new(n->g, OP_gemm, n->nin, n->in, &at, 1, n->name);
  TRY(build_activation(n, import_str(n, "activation", ""), named_params(n), y, &y));
  build_give(n, 0, y);
  return build_done(n);
}

static tenon_status gemm_fast_gelu(ImportNode *n) {
  TRY(build_need(n, 2, 3));
  Node *x = build_add_opt(n->g, N(n->g, mat_mul, n->in[0], n->in[1]), build_in(n, 2));
  build_give(n, 0, NA(n->g, gelu, &(gelu_attrs){.approximate = 1}, x));
  return build_done(n);
}

// ---- convolution, pooling ----

// Convolution, plus z, activated.
static tenon_status fused_conv_of(ImportNode *n, bool last) {
  TRY(build_need(n, 2, 4));
  if (last) TRY(build_known_rank(n, n->in[1]));
  int rank = type_of(n->in[1])->rank;
  conv_attrs at;
  TRY(import_attrs(n, op_info(OP_conv), "activation activation_params channels_last", &at));
  Node *x = last ? build_channels(n->g, n->in[0], rank, false) : n->in[0];
  Node *y = node_new(n->g, OP_conv, 3, (Node *[]){x, n->in[1], or_none(n->g, build_in(n, 2))}, &at,
                     1, n->name);
  if (last) y = build_channels(n->g, y, rank, true);
  y = build_add_opt(n->g, y, build_in(n, 3));
  Floats params;
  import_floats(n, "activation_params", &params);
  TRY(build_activation(n, import_str(n, "activation", ""), params, y, &y));
  build_give(n, 0, y);
  return build_done(n);
}
static tenon_status fused_conv(ImportNode *n) { return fused_conv_of(n, false); }
static tenon_status nhwc_conv(ImportNode *n) { return fused_conv_of(n, true); }

static tenon_status nhwc_max_pool(ImportNode *n) {
  TRY(build_need(n, 1, 1));
  TRY(build_known_rank(n, n->in[0]));
  max_pool_attrs at;
  TRY(import_attrs(n, op_info(OP_max_pool), NULL, &at));
  int rank = type_of(n->in[0])->rank;
  Node *x = build_channels(n->g, n->in[0], rank, false);
  Node *y = node_new(n->g, OP_max_pool, 1, &x, &at, 1, n->name);
  build_give(n, 0, build_channels(n->g, y, rank, true));
  return build_done(n);
}

// ---- activations ----

static tenon_status bias_gelu(ImportNode *n) {
  TRY(build_need(n, 1, 2));
  build_give(n, 0, N(n->g, gelu, build_add_opt(n->g, n->in[0], build_in(n, 1))));
  return build_done(n);
}
static tenon_status fast_gelu(ImportNode *n) {
  TRY(build_need(n, 1, 2));
  Node *x = build_add_opt(n->g, n->in[0], build_in(n, 1));
  build_give(n, 0, NA(n->g, gelu, &(gelu_attrs){.approximate = 1}, x));
  return build_done(n);
}
static tenon_status quick_gelu(ImportNode *n) {
  TRY(build_need(n, 1, 1));
  swish_attrs at = {import_f64(n, "alpha", (double)1.702f)};
  build_give(n, 0, NA(n->g, swish, &at, n->in[0]));
  return build_done(n);
}

static tenon_status bias_split_gelu(ImportNode *n) {
  TRY(build_need(n, 2, 2));
  Node *x = N(n->g, add, n->in[0], n->in[1]);
  Node *halves = node_new(n->g, OP_split, 1, &x, &(split_attrs){.axis = -1}, 2, n->name);
  Node *right = N(n->g, gelu, node_proj(n->g, halves, 1));
  build_give(n, 0, N(n->g, mul, node_proj(n->g, halves, 0), right));
  return build_done(n);
}

static tenon_status bias_add(ImportNode *n) {
  TRY(build_need(n, 3, 3));
  build_give(n, 0, N(n->g, add, N(n->g, add, n->in[0], n->in[1]), n->in[2]));
  return build_done(n);
}

// Softmax over all axes from `axis` on.
static tenon_status bias_softmax(ImportNode *n) {
  TRY(build_need(n, 2, 2));
  Graph *g = n->g;
  Node *x = N(g, add, n->in[0], n->in[1]);
  flatten_attrs at = {.axis = import_i64(n, "axis", 1)};
  Node *flat = NA(g, softmax, &(softmax_attrs){.axis = 1}, NA(g, flatten, &at, x));
  build_give(n, 0, N(g, reshape, flat, N(g, shape, x)));
  return build_done(n);
}

// ---- normalization ----

static tenon_status simplified_layer_norm(ImportNode *n) {
  TRY(build_need(n, 2, 2));
  Graph *g = n->g;
  rms_normalization_attrs at = {.axis = import_i64(n, "axis", -1),
                                .epsilon = import_f64(n, "epsilon", NORM_EPSILON),
                                .stash_type = 1};
  build_give(n, 0, NA(g, rms_normalization, &at, n->in[0], n->in[1]));
  if (n->nout > 1) {
    Node *x = build_cast(g, n->in[0], DT_F32), *axis = node_i64s(g, 1, &at.axis);
    Node *mean = N(g, reduce_mean, N(g, mul, x, x), axis);
    build_give(n, 1, N(g, reciprocal, N(g, sqrt, N(g, add, mean, build_num(g, mean, at.epsilon)))));
  }
  return build_done(n);
}

static tenon_status layer_norm_legacy(ImportNode *n) {
  TRY(build_need(n, 2, 3));
  layer_normalization_attrs at;
  TRY(import_attrs(n, op_info(OP_layer_normalization), NULL, &at));
  return import_as(n, OP_layer_normalization, &at, n->nin, n->in);
}

static const double SKIP_EPSILON = 9.999999960041972e-13;  // 1e-12 as an f32

static tenon_status skip_layer_norm(ImportNode *n) {
  TRY(build_need(n, 3, 5));
  Graph *g = n->g;
  Node *sum = build_add_opt(g, N(g, add, n->in[0], n->in[1]), build_in(n, 4));
  layer_normalization_attrs at = {
      .axis = -1, .epsilon = import_f64(n, "epsilon", SKIP_EPSILON), .stash_type = 1};
  int nres = MIN(MAX(n->nout, 1), 3);
  Node *y = node_new(g, OP_layer_normalization, 3,
                     (Node *[]){sum, n->in[2], or_none(g, build_in(n, 3))}, &at, nres, n->name);
  for (int i = 0; i < nres; i++) build_give(n, i, node_proj(g, y, i));
  build_give(n, 3, sum);
  return build_done(n);
}

static tenon_status skip_simplified_layer_norm(ImportNode *n) {
  TRY(build_need(n, 3, 4));
  Graph *g = n->g;
  Node *sum = build_add_opt(g, N(g, add, n->in[0], n->in[1]), build_in(n, 3));
  rms_normalization_attrs at = {
      .axis = -1, .epsilon = import_f64(n, "epsilon", SKIP_EPSILON), .stash_type = 1};
  build_give(n, 0, NA(g, rms_normalization, &at, sum, n->in[2]));
  build_give(n, 3, sum);
  return build_done(n);
}

static tenon_status embed_layer_norm(ImportNode *n) {
  TRY(build_need_these(n, 1u << 0 | 1u << 2 | 1u << 3 | 1u << 5 | 1u << 6, 9));
  Graph *g = n->g;
  Node *ids = n->in[0], *segment = build_in(n, 1), *position = build_in(n, 8),
       *mask = build_in(n, 7);
  if (!position) position = build_positions(g, ids, 1);
  Node *sum = N(g, add, N(g, gather, n->in[2], ids), N(g, gather, n->in[3], position));
  if (segment && build_in(n, 4)) sum = N(g, add, sum, N(g, gather, n->in[4], segment));
  layer_normalization_attrs at = {
      .axis = -1, .epsilon = import_f64(n, "epsilon", SKIP_EPSILON), .stash_type = 1};
  build_give(n, 0, NA(g, layer_normalization, &at, sum, n->in[5], n->in[6]));
  // How many words each sequence has; zeros without a mask.
  Node *ones = mask ? build_cast(g, N(g, eq, mask, build_num(g, mask, 1)), DT_I32)
                    : N(g, expand, build_num(g, ids, 0), N(g, shape, ids));
  int64_t axis = 1;
  Node *count = NA(g, reduce_sum, &(reduce_attrs){.keepdims = false}, ones, node_i64s(g, 1, &axis));
  build_give(n, 1, build_cast(g, count, DT_I32));
  build_give(n, 2, sum);
  return build_done(n);
}

// Channels last by default; activation 1 is silu.
static tenon_status group_norm_of(ImportNode *n, Node *x) {
  Graph *g = n->g;
  bool last = import_i64(n, "channels_last", 1) != 0;
  TRY(graph_status(g));
  int rank = 4;  // images
  group_normalization_attrs at = {.epsilon = import_f64(n, "epsilon", NORM_EPSILON),
                                  .num_groups = import_i64(n, "groups", 0),
                                  .stash_type = 1};
  DType t = type_of(x)->dtype;
  Node *first = last ? build_channels(g, x, rank, false) : x;
  Node *y = NA(g, group_normalization, &at, first, build_cast(g, n->in[1], t),
               build_cast(g, n->in[2], t));
  if (import_i64(n, "activation", 0)) y = N(g, swish, y);
  build_give(n, 0, last ? build_channels(g, y, rank, true) : y);
  return build_done(n);
}
static tenon_status group_norm(ImportNode *n) {
  TRY(build_need(n, 3, 3));
  return group_norm_of(n, n->in[0]);
}
static tenon_status skip_group_norm(ImportNode *n) {
  TRY(build_need(n, 4, 5));
  Graph *g = n->g;
  bool last = import_i64(n, "channels_last", 1) != 0;
  Node *skip = n->in[3], *bias = build_in(n, 4);
  if (type_of(skip)->rank == 2)
    skip = build_reshape(g, skip, 4, last ? (int64_t[]){0, 1, 1, -1} : (int64_t[]){0, -1, 1, 1});
  if (bias && !last) bias = build_reshape(g, bias, 3, (int64_t[]){-1, 1, 1});
  Node *sum = build_add_opt(g, N(g, add, n->in[0], skip), bias);
  build_give(n, 1, sum);
  TRY(graph_status(g));
  return group_norm_of(n, sum);
}

// ---- older forms of what became standard ----

static tenon_status expand_dims(ImportNode *n) {
  TRY(build_need(n, 2, 2));
  Node *axis = build_reshape(n->g, build_cast(n->g, n->in[1], DT_I64), 1, (int64_t[]){-1});
  build_give(n, 0, N(n->g, unsqueeze, n->in[0], axis));
  return build_done(n);
}

static Node *as_scalar(Graph *g, Node *x) { return N(g, reshape, x, node_i64s(g, 0, NULL)); }

static tenon_status range_of(ImportNode *n) {
  TRY(build_need(n, 2, 3));
  Graph *g = n->g;
  Node *delta = build_in(n, 2) ? as_scalar(g, n->in[2]) : build_num(g, n->in[0], 1);
  build_give(n, 0, N(g, range, as_scalar(g, n->in[0]), as_scalar(g, n->in[1]), delta));
  return build_done(n);
}

static tenon_status pad_of(ImportNode *n) {
  TRY(build_need(n, 2, 3));
  pad_attrs at;
  TRY(import_attrs(n, op_info(OP_pad), NULL, &at));
  Node *pads = build_reshape(n->g, n->in[1], 1, (int64_t[]){-1});
  Node *value = build_in(n, 2) ? as_scalar(n->g, n->in[2]) : n->g->none;
  return import_as(n, OP_pad, &at, 3, (Node *[]){n->in[0], pads, value});
}

static tenon_status unique_of(ImportNode *n) {
  TRY(build_need(n, 1, 1));
  Node *u = node_new(n->g, OP_unique, 1, n->in, &(unique_attrs){0}, 4, n->name);
  build_give(n, 0, node_proj(n->g, u, 0));
  build_give(n, 1, node_proj(n->g, u, 2));
  build_give(n, 2, node_proj(n->g, u, 3));
  return build_done(n);
}

static tenon_status gather_nd_of(ImportNode *n) {
  return import_as(n, OP_gather_nd, NULL, n->nin, n->in);
}
static tenon_status trilu_of(ImportNode *n) { return import_auto(n, op_info(OP_trilu)); }
static tenon_status gelu_of(ImportNode *n) { return import_as(n, OP_gelu, NULL, n->nin, n->in); }

// Same as the standard operator where the state holds one step.
static tenon_status linear_attention_of(ImportNode *n) {
  TRY(build_refuse_attr(n, "state_window", 0));
  linear_attention_attrs at;
  TRY(import_attrs(n, op_info(OP_linear_attention), "state_window", &at));
  return import_as(n, OP_linear_attention, &at, n->nin, n->in);
}

static const char WHY_NCHWC[] =
    "laid out for one kind of processor; save the model at optimization level ORT_ENABLE_EXTENDED";

static const ImportRow rows[] = {
    // clang-format off
    {"com.microsoft", "FusedMatMul",                      0, 0, fused_mat_mul,              NULL},
    {"com.microsoft", "TransposeMatMul",                  0, 0, fused_mat_mul,              NULL},
    {"com.microsoft", "FusedMatMulActivation",            0, 0, fused_mat_mul_activation,   NULL},
    {"com.microsoft", "FusedGemm",                        0, 0, fused_gemm,                 NULL},
    {"com.microsoft", "GemmFastGelu",                     0, 0, gemm_fast_gelu,             NULL},
    {"com.microsoft", "FusedConv",                        0, 0, fused_conv,                 NULL},
    {"com.microsoft", "NhwcConv",                         0, 0, nhwc_conv,                  NULL},
    {"com.microsoft", "NhwcFusedConv",                    0, 0, nhwc_conv,                  NULL},
    {"com.microsoft", "NhwcMaxPool",                      0, 0, nhwc_max_pool,              NULL},
    {"com.microsoft", "Gelu",                             0, 0, gelu_of,                    NULL},
    {"com.microsoft", "BiasGelu",                         0, 0, bias_gelu,                  NULL},
    {"com.microsoft", "FastGelu",                         0, 0, fast_gelu,                  NULL},
    {"com.microsoft", "QuickGelu",                        0, 0, quick_gelu,                 NULL},
    {"com.microsoft", "BiasSplitGelu",                    0, 0, bias_split_gelu,            NULL},
    {"com.microsoft", "BiasAdd",                          0, 0, bias_add,                   NULL},
    {"com.microsoft", "BiasSoftmax",                      0, 0, bias_softmax,               NULL},
    {"com.microsoft", "LayerNormalization",               0, 0, layer_norm_legacy,          NULL},
    {"",              "LayerNormalization",               1, 16, layer_norm_legacy,         NULL},
    {"com.microsoft", "SimplifiedLayerNormalization",     0, 0, simplified_layer_norm,      NULL},
    {"",              "SimplifiedLayerNormalization",     0, 0, simplified_layer_norm,      NULL},
    {"com.microsoft", "SkipLayerNormalization",           0, 0, skip_layer_norm,            NULL},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 0, 0, skip_simplified_layer_norm, NULL},
    {"com.microsoft", "EmbedLayerNormalization",          0, 0, embed_layer_norm,           NULL},
    {"com.microsoft", "GroupNorm",                        0, 0, group_norm,                 NULL},
    {"com.microsoft", "SkipGroupNorm",                    0, 0, skip_group_norm,            NULL},
    {"com.microsoft", "ExpandDims",                       0, 0, expand_dims,                NULL},
    {"com.microsoft", "Range",                            0, 0, range_of,                   NULL},
    {"com.microsoft", "Pad",                              0, 0, pad_of,                     NULL},
    {"com.microsoft", "Unique",                           0, 0, unique_of,                  NULL},
    {"com.microsoft", "GatherND",                         0, 0, gather_nd_of,               NULL},
    {"com.microsoft", "Trilu",                            0, 0, trilu_of,                   NULL},
    {"com.microsoft", "LinearAttention",                  0, 0, linear_attention_of,        NULL},
    {"com.microsoft.nchwc", "Conv",                       0, 0, NULL,                       WHY_NCHWC},
    {"com.microsoft.nchwc", "MaxPool",                    0, 0, NULL,                       WHY_NCHWC},
    {"com.microsoft.nchwc", "AveragePool",                0, 0, NULL,                       WHY_NCHWC},
    {"com.microsoft.nchwc", "GlobalAveragePool",          0, 0, NULL,                       WHY_NCHWC},
    {"com.microsoft.nchwc", "GlobalMaxPool",              0, 0, NULL,                       WHY_NCHWC},
    {"com.microsoft.nchwc", "ReorderInput",               0, 0, NULL,                       WHY_NCHWC},
    {"com.microsoft.nchwc", "ReorderOutput",              0, 0, NULL,                       WHY_NCHWC},
    {"com.microsoft.nchwc", "Upsample",                   0, 0, NULL,                       WHY_NCHWC},
    // clang-format on
};
const ImportTable onnx_rows_contrib = {rows, ARRAY_LEN(rows)};
