// aten_nn.c -- ATen's products: matrices, convolutions, attention.
#include "frontends/pytorch/aten.h"

#include "eval/attention.h"
#include "eval/contract.h"
#include "eval/movement.h"
#include "eval/norm.h"

#include <math.h>

// ---- matrices ----

static void mat_mul(AtenCall *c) { at_give(c, N(c->g, mat_mul, at_tensor(c, 0), at_tensor(c, 1))); }

static void linear_row(AtenCall *c) {  // (input, weight, bias?): x w^T + b
  Graph *g = c->g;
  Node *x = at_tensor(c, 0), *w = at_tensor(c, 1), *b = at_tensor_opt(c, 2);
  if (at_rank(c, w) == 2 && at_rank(c, x) == 2) {
    gemm_attrs at = {.alpha = 1, .beta = 1, .transB = true};
    Node *src[] = {x, w, b};
    at_give(c, node_new(g, OP_gemm, b ? 3 : 2, src, &at, 0, NULL));
    return;
  }
  Node *y = N(g, mat_mul, x, at_rank(c, w) == 2 ? bt_swap(g, w, 2, 0, 1) : w);
  at_give(c, b ? N(g, add, y, b) : y);
}

static Node *times(Graph *g, Node *x, double f) {
  return f == 1 ? x : N(g, mul, x, bt_num(g, x, f));
}

static void addmm(AtenCall *c) {  // (self, a, b, *, beta, alpha)
  Graph *g = c->g;
  Node *y = times(g, N(g, mat_mul, at_tensor(c, 1), at_tensor(c, 2)), at_f64(c, 4));
  double beta = at_f64(c, 3);
  at_give(c, beta == 0 ? y : N(g, add, y, times(g, at_tensor(c, 0), beta)));
}
// Of matrices of 8 bits, with sums of a wider type.
static Node *wide_product(AtenCall *c, DType sum) {
  dot_attrs at = {
      .contract_lhs = {1, (int64_t[]){1}}, .contract_rhs = {1, (int64_t[]){0}}, .out_dtype = sum};
  return NA(c->g, dot, &at, at_tensor(c, 0), at_tensor(c, 1));
}
static void int_mm(AtenCall *c) { at_give(c, wide_product(c, DT_I32)); }

// (a, b, scale_a, scale_b, bias?, scale_result?, out_dtype?, use_fast_accum): scales are one
// number, or one for each row or column.
static void scaled_mm(AtenCall *c) {
  Graph *g = c->g;
  Node *y = wide_product(c, DT_F32), *bias = at_tensor_opt(c, 4), *scale = at_tensor_opt(c, 5);
  for (int i = 2; i < 4; i++) y = N(g, mul, y, at_tensor(c, i));
  if (bias) y = N(g, add, y, bt_cast(g, bias, DT_F32));
  if (scale) y = N(g, mul, y, scale);
  at_give(c, bt_cast(g, y, at_dtype(c, 6, type_of(at_tensor(c, 0))->dtype)));
}
static void outer_row(AtenCall *c) {
  at_give(c, N(c->g, mul, bt_unsqueeze(c->g, at_tensor(c, 0), 1),
               bt_unsqueeze(c->g, at_tensor(c, 1), 0)));
}

static void einsum_row(AtenCall *c) {  // (equation, tensors, path)
  Graph *g = c->g;
  const AtenValue *v = at_arg(c, 1);
  int64_t n = v->list ? v->list->v.n : 0;
  Node **x = arena_array(&g->arena, Node *, n + 1);
  for (int64_t i = 0; i < n; i++) x[i] = av_node(g, &v->list->v.v[i], 0);
  Str s = at_arg(c, 0)->s;
  char *equation = arena_alloc(&g->arena, s.n + 1);
  int64_t k = 0;
  for (int64_t i = 0; i < s.n; i++)
    if (s.p[i] != ' ') equation[k++] = s.p[i];
  at_give(c,
          node_new(g, OP_einsum, (int)n, x, &(einsum_attrs){.equation = {equation, k}}, 0, NULL));
}

// ---- convolutions ----

typedef struct Conv {
  Node *x, *w, *b;
  Ints stride, padding, dilation, output_padding;
  int64_t groups;
  bool transposed;
  int spatial;
} Conv;

static Ints both_ends(AtenCall *c, Ints p) {
  int64_t *out = arena_array(&c->g->arena, int64_t, 2 * p.n + 1);
  for (int64_t i = 0; i < p.n; i++) out[i] = out[p.n + i] = p.v[i];
  return (Ints){2 * p.n, out};
}

static void build_conv(AtenCall *c, Conv *v, Ints pads) {
  Graph *g = c->g;
  int rank = at_rank(c, v->x);
  bool added = rank == v->spatial + 1;
  Node *src[] = {added ? bt_unsqueeze(g, v->x, 0) : v->x, v->w, v->b}, *y;
  if (v->transposed) {
    conv_transpose_attrs at = {.group = v->groups,
                               .strides = v->stride,
                               .dilations = v->dilation,
                               .pads = pads,
                               .output_padding = v->output_padding};
    y = node_new(g, OP_conv_transpose, v->b ? 3 : 2, src, &at, 0, NULL);
  } else {
    conv_attrs at = {
        .group = v->groups, .strides = v->stride, .dilations = v->dilation, .pads = pads};
    y = node_new(g, OP_conv, v->b ? 3 : 2, src, &at, 0, NULL);
  }
  at_give(c, added ? bt_squeeze(g, y, 0) : y);
}

static void conv_start(AtenCall *c, Conv *v) {
  *v = (Conv){.x = at_tensor(c, 0), .w = at_tensor(c, 1), .b = at_tensor_opt(c, 2)};
  v->spatial = MAX(at_rank(c, v->w) - 2, 1);
}
static void conv_row(AtenCall *c) {  // (input, weight, bias, stride, padding, dilation, groups)
  Conv v;
  conv_start(c, &v);
  v.stride = at_spread(c, 3, v.spatial, 1);
  v.dilation = at_spread(c, 5, v.spatial, 1);
  v.groups = at_int(c, 6);
  build_conv(c, &v, both_ends(c, at_spread(c, 4, v.spatial, 0)));
}
static void conv_same(AtenCall *c) {  // padding is a word
  Conv v;
  conv_start(c, &v);
  v.stride = at_spread(c, 3, v.spatial, 1);
  v.dilation = at_spread(c, 5, v.spatial, 1);
  v.groups = at_int(c, 6);
  int64_t pads[2 * MAX_RANK] = {0};
  if (str_is(at_arg(c, 4)->s, "same"))
    for (int i = 0; i < v.spatial && !c->g->status; i++) {
      int64_t total = v.dilation.v[i] * (at_known_dim(c, v.w, i + 2) - 1);
      pads[i] = total / 2;
      pads[v.spatial + i] = total - total / 2;
    }
  build_conv(c, &v, (Ints){2 * v.spatial, pads});
}
static void
conv_transpose(AtenCall *c) {  // (.., stride, padding, output_padding, groups, dilation)
  Conv v;
  conv_start(c, &v);
  v.transposed = true;
  v.stride = at_spread(c, 3, v.spatial, 1);
  v.output_padding = at_spread(c, 5, v.spatial, 0);
  v.groups = at_int(c, 6);
  v.dilation = at_spread(c, 7, v.spatial, 1);
  build_conv(c, &v, both_ends(c, at_spread(c, 4, v.spatial, 0)));
}
static void
convolution(AtenCall *c) {  // (.., stride, padding, dilation, transposed, output_padding, groups)
  Conv v;
  conv_start(c, &v);
  v.stride = at_spread(c, 3, v.spatial, 1);
  v.dilation = at_spread(c, 5, v.spatial, 1);
  v.transposed = at_bool(c, 6);
  v.output_padding = at_spread(c, 7, v.spatial, 0);
  v.groups = at_int(c, 8);
  build_conv(c, &v, both_ends(c, at_spread(c, 4, v.spatial, 0)));
}

// ---- attention ----

// By its parts, for ranks that the operator does not have.
static Node *attention_parts(AtenCall *c, Node *const *qkv, Node *mask, double scale) {
  Graph *g = c->g;
  int rank = at_rank(c, qkv[1]);
  Node *s = N(g, mat_mul, qkv[0], bt_swap(g, qkv[1], rank, rank - 2, rank - 1));
  s = N(g, mul, s, bt_num(g, s, scale));
  if (mask && !g->status && type_of(mask)->dtype == DT_BOOL)
    s = N(g, where, mask, s, bt_num(g, s, -INFINITY));
  else if (mask)
    s = N(g, add, s, mask);
  return N(g, mat_mul, NA(g, softmax, (&(softmax_attrs){.axis = -1}), s), qkv[2]);
}
static Node *attention_of(AtenCall *c, int at_mask, int at_causal, int at_scale) {
  Graph *g = c->g;
  Node *qkv[3] = {at_tensor(c, 0), at_tensor(c, 1), at_tensor(c, 2)};
  Node *mask = at_tensor_opt(c, at_mask);
  bool causal = at_bool(c, at_causal);
  int rank = at_rank(c, qkv[0]);
  if (g->status) return g->poison;
  int64_t head = at_none(c, at_scale) ? at_known_dim(c, qkv[0], rank - 1) : 1;
  double scale = at_none(c, at_scale) ? 1 / sqrt((double)MAX(head, 1)) : at_f64(c, at_scale);
  if (rank == 4) {
    attention_attrs at = {
        .is_causal = causal, .scale = scale, .left_window_size = -1, .right_window_size = -1};
    Node *src[] = {qkv[0], qkv[1], qkv[2], mask};
    return node_proj(g, node_new(g, OP_attention, mask ? 4 : 3, src, &at, 1, NULL), 0);
  }
  if (causal) {
    Node *sizes[] = {bt_dims(g, qkv[0], rank - 2, rank - 1),
                     bt_dims(g, qkv[1], rank - 2, rank - 1)};
    Node *full = bt_full(g, bt_concat(g, 0, 2, sizes), DT_F32, 1);
    Node *low = node_new(g, OP_trilu, 1, &full, &(trilu_attrs){.upper = false}, 0, NULL);
    mask = bt_cast(g, low, DT_BOOL);
  }
  return attention_parts(c, qkv, mask, scale);
}
static void attention_row(AtenCall *c) {  // (q, k, v, mask?, dropout, causal, *, scale?, gqa)
  at_give(c, attention_of(c, 3, 5, 6));
}
// (q, k, v, dropout, causal, *, mask?, scale?): what PyTorch has for processors; the second result
// is for gradients.
static void attention_fused(AtenCall *c) {
  at_give_all(c, 2, (Node *[]){attention_of(c, 5, 4, 6), NULL});
}

// One of the three projections, [batch, heads, time, size].
static Node *projected(AtenCall *c, int of, int64_t embed, int64_t heads) {
  Graph *g = c->g;
  Node *w = bt_slice(g, at_tensor(c, 5), 0, of * embed, (of + 1) * embed);
  Node *b = bt_slice(g, at_tensor(c, 6), 0, of * embed, (of + 1) * embed);
  Node *y = N(g, add, N(g, mat_mul, at_tensor(c, of), bt_swap(g, w, 2, 0, 1)), b);
  int64_t shape[4] = {0, 0, heads, embed / heads}, perm[4] = {0, 2, 1, 3};
  return bt_transpose(g, N(g, reshape, y, node_i64s(g, 4, shape)), 4, perm);
}
// (q, k, v, embed, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask?, ...): a whole layer,
// batch first.
static void attention_layer(AtenCall *c) {
  Graph *g = c->g;
  int64_t embed = at_int(c, 3), heads = at_int(c, 4), perm[4] = {0, 2, 1, 3}, shape[3] = {0, 0, -1};
  if (heads < 1 || embed % MAX(heads, 1)) at_fail(c, "%lld heads", (long long)heads);
  if (!at_none(c, 9)) at_fail(c, "with a mask");
  if (g->status) return;
  attention_attrs at = {
      .scale = 1 / sqrt((double)(embed / heads)), .left_window_size = -1, .right_window_size = -1};
  Node *src[3];
  for (int i = 0; i < 3; i++) src[i] = projected(c, i, embed, heads);
  Node *y = node_proj(g, node_new(g, OP_attention, 3, src, &at, 1, NULL), 0);
  y = N(g, reshape, bt_transpose(g, y, 4, perm), node_i64s(g, 3, shape));
  y = N(g, mat_mul, y, bt_swap(g, at_tensor(c, 7), 2, 0, 1));
  at_give_all(c, 2, (Node *[]){N(g, add, y, at_tensor(c, 8)), NULL});
}

static const AtenRow rows[] = {
    // clang-format off
    {"matmul(Tensor self, Tensor other) -> Tensor", mat_mul, 0, NULL},
    {"mm(Tensor self, Tensor mat2) -> Tensor", mat_mul, 0, NULL},
    {"bmm(Tensor self, Tensor mat2) -> Tensor", mat_mul, 0, NULL},
    {"mv(Tensor self, Tensor vec) -> Tensor", mat_mul, 0, NULL},
    {"dot(Tensor self, Tensor tensor) -> Tensor", mat_mul, 0, NULL},
    {"linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear_row, 0, NULL},
    {"addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmm, 0, NULL},
    {"baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmm, 0, NULL},
    {"_int_mm(Tensor self, Tensor mat2) -> Tensor", int_mm, 0, NULL},
    {"_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor", scaled_mm, 0, NULL},
    {"outer(Tensor self, Tensor vec2) -> Tensor", outer_row, 0, NULL},
    {"einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", einsum_row, 0, NULL},
    {"conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor", conv_row, 0, NULL},
    {"conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor", conv_row, 0, NULL},
    {"conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor", conv_row, 0, NULL},
    {"conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor", conv_same, 0, NULL},
    {"conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor", conv_same, 0, NULL},
    {"conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor", conv_same, 0, NULL},
    {"_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, SymInt groups) -> Tensor", conv_same, 0, NULL},
    {"conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor", conv_transpose, 0, NULL},
    {"conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor", conv_transpose, 0, NULL},
    {"conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor", conv_transpose, 0, NULL},
    {"convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor", convolution, 0, NULL},
    {"_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor", convolution, 0, NULL},
    {"_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor", convolution, 0, NULL},
    {"_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)", attention_layer, 0, NULL},
    {"scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor", attention_row, 0, NULL},
    {"_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor, Tensor)", attention_fused, 0, NULL},
    // clang-format on
};
ATEN_TABLE(nn);
