// rewrite.c -- QuantizeLinear and DequantizeLinear around contractions (rewrite.h).
//
// The forms are those that the rules of rules/recognise/quant.c, ONNX Runtime and OpenVINO turn
// into integer kernels: scalars for activations, one scale an output channel for weights, and a
// bias of i32 whose scale is exactly the product of the two.  A result is quantised behind its
// activation function.  Floats that a float op reads stay as they are.
#include "compress/rewrite.h"

#include "compile/compile.h"
#include "eval/contract.h"
#include "eval/contrib.h"
#include "eval/movement.h"
#include "eval/quant.h"
#include "eval/scalar.h"
#include "ir/opinfo.h"
#include "ir/pass.h"
#include "ir/rule.h"

#include <math.h>

// A constant, and what was made of it: nodes that share it, as layers that are there twice do,
// share that too where the bytes are the same.
typedef struct MadeConst {
  const Node *from;
  Node *to;
} MadeConst;

typedef struct Rewrite {
  Graph *g;
  const GroupList *groups;
  const QuantTensors *tensors;
  const StatsList *stats;
  const RewriteOptions *o;
  Node **floats;  // by old id: an 8-bit tensor as floats, once some reader asked
  VEC(MadeConst) made;
  Arena *arena;
  Diag *diag;
  tenon_status status;
} Rewrite;

static Node *scalar_f32(Graph *g, float v) { return node_const(g, DT_F32, 0, NULL, &v, NULL); }

static const char *named(Rewrite *r, const Node *n, const char *what) {
  const char *name = n->name ? n->name : op_name(n);
  return str_printf(&r->g->arena, "%s_%s", name, what);
}

// ---- activations ----

// The tensor `old`, now `now`, through 8 bits.
static Node *through_bytes(Rewrite *r, const Node *old, Node *now) {
  if (r->floats[old->id]) return r->floats[old->id];
  Graph *g = r->g;
  const QuantParams *p = &r->tensors->params[tensors_set(r->tensors, old)];
  CHECK(p->scale > 0, "a quantised tensor without a range: %s", old->name ? old->name : "");
  uint8_t zero = (uint8_t)p->zero;
  Node *scale = scalar_f32(g, p->scale), *z = node_const(g, DT_U8, 0, NULL, &zero, NULL);
  Node *q[] = {now, scale, z};
  Node *bytes = node_new(g, OP_quantize_linear, 3, q, NULL, 1, named(r, old, "quantized"));
  Node *dq[] = {bytes, scale, z};
  r->floats[old->id] =
      node_new(g, OP_dequantize_linear, 3, dq, NULL, 1, named(r, old, "dequantized"));
  return r->floats[old->id];
}

static float activation_scale(const Rewrite *r, const Node *x) {
  return r->tensors->params[tensors_set(r->tensors, x)].scale;
}

// ---- constants ----

// A constant of `bytes` bytes from mem_alloc in the place of `from`, or the same one again.
static Node *share_const(Rewrite *r, const Node *from, DType t, int rank, const int64_t *dims,
                         void *take, int64_t bytes, const char *name) {
  Node *c = node_const_take(r->g, t, rank, dims, take, bytes, name);
  const void *x, *y;
  if (graph_status(r->g)) return c;
  for (int64_t i = 0; i < r->made.n; i++) {
    const MadeConst *m = &r->made.v[i];
    if (m->from != from || !same_type(m->to, c)) continue;
    r->status = const_bytes(r->g, m->to, &x, r->diag);
    if (!r->status) r->status = const_bytes(r->g, c, &y, r->diag);
    if (r->status) return c;
    if (!memcmp(x, y, (size_t)c->data->bytes)) return m->to;
  }
  vec_push(r->arena, &r->made, ((MadeConst){from, c}));
  return c;
}

static Node *dequantized(Rewrite *r, Node *bytes, const float *scale, int64_t n, int axis,
                         DType zero, const char *name) {
  Graph *g = r->g;
  dequantize_linear_attrs at = {.axis = axis};
  int64_t dims[] = {n};
  Node *s = node_const(g, DT_F32, 1, dims, scale, NULL), *z = NULL;
  if (zero) {
    uint8_t *none = arena_array(r->arena, uint8_t, MAX(n, 1));
    z = node_const(g, zero, 1, dims, none, NULL);
  }
  Node *src[] = {bytes, s, z};
  return node_new(g, OP_dequantize_linear, z ? 3 : 2, src, &at, 1, name);
}

static Node *weight_bytes(Rewrite *r, const QuantGroup *q, QuantWeights *w) {
  const Type *t = type_of(q->node->src[1]);
  int64_t dims[MAX_RANK];
  for (int k = 0; k < t->rank; k++) dims[k] = t->dims[k]->value;
  return share_const(r, q->node->src[1], DT_I8, t->rank, dims, w->value, w->n,
                     named(r, q->node, "weight"));
}

static Node *weight_node(Rewrite *r, const QuantGroup *q, Node *bytes, const float *scale) {
  return dequantized(r, bytes, scale, q->shape.outputs, q->shape.axis, DT_I8,
                     named(r, q->node, "weight_dequantized"));
}

static const double *means_of(const Rewrite *r, const QuantGroup *q) {
  return r->o->correct_bias ? layer_means(r->stats, q) : NULL;
}

// The bias in floats, less what rounded weights add; NULL: there is none and none is needed.
static tenon_status bias_of(Rewrite *r, const QuantGroup *q, const double *shift, float **out) {
  const Node *n = q->node, *b = n->nsrc > 2 ? src_or_null(r->g, n, 2) : NULL;
  const void *bytes;
  *out = NULL;
  if (!b && !shift) return TENON_OK;
  *out = arena_array(r->arena, float, q->shape.outputs);
  if (b) {
    TRY(const_elements(r->g, b, r->arena, &bytes, r->diag));
    memcpy(*out, bytes, (size_t)q->shape.outputs * sizeof **out);
  }
  for (int64_t i = 0; shift && i < q->shape.outputs; i++)
    (*out)[i] = (float)((double)(*out)[i] - shift[i]);
  return TENON_OK;
}

// A weight's scale below this would make the bias too large for 32 bits.
static tenon_status least_scales(Rewrite *r, const QuantGroup *q, double **out) {
  float *bias;
  *out = NULL;
  TRY(bias_of(r, q, NULL, &bias));
  if (!bias) return TENON_OK;
  *out = arena_array(r->arena, double, q->shape.outputs);
  double x = (double)activation_scale(r, q->node->src[0]);
  for (int64_t i = 0; i < q->shape.outputs; i++) (*out)[i] = fabs((double)bias[i]) / (x * 0x1p30);
  return TENON_OK;
}

static Node *bias_node(Rewrite *r, const QuantGroup *q, const float *bias, const float *weight) {
  int64_t n = q->shape.outputs;
  int32_t *v = arena_array(r->arena, int32_t, n);
  float *scale = arena_array(r->arena, float, n), x = activation_scale(r, q->node->src[0]);
  for (int64_t i = 0; i < n; i++) {
    scale[i] = x * weight[i];
    double steps = nearbyint((double)bias[i] / ((double)x * (double)weight[i]));
    v[i] = (int32_t)fmin(fmax(steps, -0x1p31 + 1), 0x1p31 - 1);
  }
  Node *bytes = node_const(r->g, DT_I32, 1, &n, v, named(r, q->node, "bias"));
  return dequantized(r, bytes, scale, n, 0, 0, named(r, q->node, "bias_dequantized"));
}

// ---- contractions ----

// conv and gemm have a place for the bias; behind a matrix product it is a sum.
static Node *with_bias(Rewrite *r, const QuantGroup *q, Node *x, Node *w, const float *bias,
                       const float *weight) {
  const Node *n = q->node;
  Node *src[] = {x, w, NULL};
  if (n->op != OP_mat_mul) {
    if (bias) src[2] = bias_node(r, q, bias, weight);
    return node_new(r->g, n->op, bias ? 3 : 2, src, n->attrs, 1, n->name);
  }
  Node *y = node_new(r->g, n->op, 2, src, n->attrs, 1, n->name);
  if (!bias) return y;
  Node *b = node_const(r->g, DT_F32, 1, &q->shape.outputs, bias, named(r, n, "bias"));
  Node *sum[] = {y, b};
  return node_new(r->g, OP_add, 2, sum, NULL, 1, named(r, n, "corrected"));
}

// With activations of this scale; 0: they stay floats.
static tenon_status round_weights(Rewrite *r, const QuantGroup *q, float x_scale,
                                  KeptWeights *out) {
  KeptWeights *kept = r->o->kept ? &r->o->kept[q - r->groups->v] : NULL;
  QuantWeights w;
  double *least = NULL;
  if (kept && kept->bytes && kept->x_scale == x_scale) {
    *out = *kept;
    return TENON_OK;
  }
  if (x_scale > 0) TRY(least_scales(r, q, &least));
  TRY(weights_quantize(r->g, q, least, x_scale > 0 ? means_of(r, q) : NULL, r->o->search_weights,
                       kept ? r->o->keep : r->arena, r->diag, &w));
  *out = (KeptWeights){weight_bytes(r, q, &w), x_scale, w.scale, w.shift};
  if (kept) *kept = *out;
  return graph_status(r->g);
}

static tenon_status quantize_static(Rewrite *r, const QuantGroup *q, Node *now, Node **out) {
  KeptWeights w;
  float *bias;
  const Node *x = q->node->src[0];
  TRY(round_weights(r, q, activation_scale(r, x), &w));
  TRY(bias_of(r, q, w.shift, &bias));
  Node *weight = weight_node(r, q, (Node *)(uintptr_t)w.bytes, w.scale);
  *out = with_bias(r, q, through_bytes(r, x, now->src[0]), weight, bias, w.scale);
  return graph_status(r->g);
}

static tenon_status quantize_weights(Rewrite *r, const QuantGroup *q, Node *now, Node **out) {
  KeptWeights w;
  TRY(round_weights(r, q, 0, &w));
  Node *weight = weight_node(r, q, (Node *)(uintptr_t)w.bytes, w.scale);
  Node *src[3] = {now->src[0], weight, now->nsrc > 2 ? now->src[2] : NULL};
  *out = node_new(r->g, now->op, (int)now->nsrc, src, now->attrs, 1, now->name);
  return graph_status(r->g);
}

// ---- other forms ----

static Node *plus_bias(Rewrite *r, const QuantGroup *q, Node *y, const float *bias) {
  if (!bias) return y;
  Node *b = node_const(r->g, DT_F32, 1, &q->shape.outputs, bias, named(r, q->node, "bias"));
  return node_new(r->g, OP_add, 2, (Node *[]){y, b}, NULL, 1, named(r, q->node, "biased"));
}

// [inputs, outputs], whatever the weight's own order is.
static Node *columns_of(Rewrite *r, const QuantGroup *q, const Node *bytes) {
  const WeightShape *s = &q->shape;
  const void *data;
  if (s->axis) return (Node *)(uintptr_t)bytes;
  r->status = const_bytes(r->g, bytes, &data, r->diag);
  if (r->status) return NULL;
  int64_t n = s->outputs * s->inputs, dims[] = {s->inputs, s->outputs};
  const int8_t *from = data;
  int8_t *to = mem_alloc(MAX(n, 1));
  if (!to) trap_raise(TENON_ENOMEM, "out of memory");
  for (int64_t o = 0; o < s->outputs; o++)
    for (int64_t i = 0; i < s->inputs; i++) to[i * s->outputs + o] = from[o * s->inputs + i];
  return share_const(r, q->node->src[1], DT_I8, 2, dims, to, MAX(n, 1),
                     named(r, q->node, "weight"));
}

// DynamicQuantizeLinear, MatMulInteger, and the sums times both scales.
static tenon_status quantize_dynamic(Rewrite *r, const QuantGroup *q, Node *now, Node **out) {
  Graph *g = r->g;
  KeptWeights w;
  float *bias;
  TRY(round_weights(r, q, 0, &w));
  TRY(bias_of(r, q, NULL, &bias));
  Node *columns = columns_of(r, q, w.bytes);
  TRY(r->status);
  Node *x =
      node_new(g, OP_dynamic_quantize_linear, 1, now->src, NULL, 3, named(r, q->node, "quantized"));
  Node *src[] = {node_proj(g, x, 0), columns, node_proj(g, x, 2)};
  Node *sum = node_new(g, OP_mat_mul_integer, 3, src, NULL, 1, named(r, q->node, "sum"));
  Node *scale = node_const(g, DT_F32, 1, &q->shape.outputs, w.scale, named(r, q->node, "scale"));
  Node *wide = NA(g, cast, (&(cast_attrs){.to = DT_F32, .saturate = true}), sum);
  Node *both[] = {wide, N(g, mul, node_proj(g, x, 1), scale)};
  *out = plus_bias(r, q, node_new(g, OP_mul, 2, both, NULL, 1, now->name), bias);
  return graph_status(g);
}

static tenon_status quantize_blocks(Rewrite *r, const QuantGroup *q, Node *now, Node **out) {
  Graph *g = r->g;
  const BlockWeights *w = &r->o->blocks[q - r->groups->v];
  float *bias;
  TRY(bias_of(r, q, r->o->correct_bias ? w->shift : NULL, &bias));
  int64_t packed[] = {w->rows, w->blocks, w->block / 2};
  mat_mul_n_bits_attrs at = {.bits = 4};
  Node *src[] = {now->src[0],
                 node_const(g, DT_U8, 3, packed, w->packed, named(r, q->node, "weight")),
                 node_const(g, DT_F32, 2, packed, w->scale, named(r, q->node, "scale")),
                 node_const(g, DT_F32, 2, packed, w->zero, named(r, q->node, "zero"))};
  *out = plus_bias(r, q, node_new(g, OP_mat_mul_n_bits, 4, src, &at, 1, now->name), bias);
  return graph_status(g);
}

// A constant of floats in another float type.
static tenon_status narrow_const(Rewrite *r, const Node *c, DType t, const char *name, Node **out) {
  const void *bytes;
  const Type *type = type_of(c);
  int64_t dims[MAX_RANK], n = c->data->n, room;
  TRY(const_elements(r->g, c, r->arena, &bytes, r->diag));
  for (int k = 0; k < type->rank; k++) dims[k] = type->dims[k]->value;
  CHECK(dtype_bytes(t, n, &room), "%lld elements", (long long)n);
  char *to = mem_alloc(MAX(room, 1));
  if (!to) trap_raise(TENON_ENOMEM, "out of memory");
  for (int64_t i = 0; i < n; i++) {
    double v = (double)((const float *)bytes)[i];
    store_f64(t, to, i, 1, &v);
  }
  *out = share_const(r, c, t, type->rank, dims, to, MAX(room, 1), name);
  return graph_status(r->g);
}

static tenon_status quantize_halves(Rewrite *r, const QuantGroup *q, DType t, Node *now,
                                    Node **out) {
  Graph *g = r->g;
  const Node *n = q->node, *bias = n->nsrc > 2 ? src_or_null(g, n, 2) : NULL;
  Node *src[3] = {NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), now->src[0])};
  TRY(narrow_const(r, n->src[1], t, named(r, n, "weight"), &src[1]));
  if (bias) TRY(narrow_const(r, bias, t, named(r, n, "bias"), &src[2]));
  Node *y = node_new(g, n->op, bias ? 3 : 2, src, n->attrs, 1, named(r, n, dtype_name(t)));
  cast_attrs back = {.to = DT_F32, .saturate = true};
  *out = node_new(g, OP_cast, 1, &y, &back, 1, now->name);
  return graph_status(g);
}

static tenon_status prune_weights(Rewrite *r, const QuantGroup *q, Node *now, Node **out) {
  const Node *w = now->src[1];
  const Type *t = type_of(w);
  const WeightShape *s = &q->shape;
  const float *from = r->o->pruned[q - r->groups->v].w[q->choice];
  int64_t dims[MAX_RANK], n = w->data->n, bytes = n * (int64_t)sizeof(float);
  CHECK(from, "no pruned weights of %s", q->name);
  for (int k = 0; k < t->rank; k++) dims[k] = t->dims[k]->value;
  float *to = mem_alloc(MAX(bytes, 1));
  if (!to) trap_raise(TENON_ENOMEM, "out of memory");
  if (s->axis == 0) memcpy(to, from, (size_t)bytes);
  for (int64_t o = 0; o < s->outputs && s->axis; o++)
    for (int64_t i = 0; i < s->inputs; i++) to[i * s->outputs + o] = from[o * s->inputs + i];
  Node *src[3] = {now->src[0], NULL, now->nsrc > 2 ? now->src[2] : NULL};
  src[1] = share_const(r, q->node->src[1], DT_F32, t->rank, dims, to, MAX(bytes, 1),
                       named(r, q->node, "pruned"));
  *out = node_new(r->g, now->op, (int)now->nsrc, src, now->attrs, 1, now->name);
  return graph_status(r->g);
}

// ---- the graph ----

static Node *quantize_group(Rewrite *r, const QuantGroup *q, Node *now) {
  Node *out = now;
  switch (q->choice) {
  case CHOICE_INT8: r->status = quantize_static(r, q, now, &out); break;
  case CHOICE_INT8_DYNAMIC: r->status = quantize_dynamic(r, q, now, &out); break;
  case CHOICE_W8: r->status = quantize_weights(r, q, now, &out); break;
  case CHOICE_W4: r->status = quantize_blocks(r, q, now, &out); break;
  case CHOICE_F16: r->status = quantize_halves(r, q, DT_F16, now, &out); break;
  case CHOICE_BF16: r->status = quantize_halves(r, q, DT_BF16, now, &out); break;
  case CHOICE_VECTOR50:
  case CHOICE_VECTOR75:
  case CHOICE_FOURS: r->status = prune_weights(r, q, now, &out); break;
  case CHOICE_F32:
  case CHOICES: break;
  }
  return out;
}

static Node *rewrite_node(void *ctx, Node *now, Node *old) {
  Rewrite *r = ctx;
  if (r->status) return now;
  int64_t i = groups_at(r->groups, old);
  if (i >= 0) return quantize_group(r, &r->groups->v[i], now);
  bool changed = false;
  Node **src = arena_array(r->arena, Node *, MAX(now->nsrc, 1));
  for (uint32_t k = 0; k < now->nsrc; k++) {
    src[k] = now->src[k];
    if (k >= old->nsrc || !tensors_reads(r->tensors, r->groups, old, k)) continue;
    src[k] = through_bytes(r, old->src[k], now->src[k]);
    changed = true;
  }
  if (!changed) return now;
  return node_new(r->g, now->op, (int)now->nsrc, src, now->attrs, now->nres, now->name);
}

tenon_status rewrite_groups(Graph *g, const GroupList *l, const QuantTensors *t,
                            const StatsList *stats, const RewriteOptions *o, Arena *a, Diag *d) {
  Rewrite r = {.g = g, .groups = l, .tensors = t, .stats = stats, .o = o, .arena = a, .diag = d};
  r.floats = arena_array(a, Node *, t->n + 1);
  bool changed;
  GraphMap m = {.g = g, .fn = rewrite_node, .ctx = &r};
  TRY(graph_map(&m, &changed));
  return r.status;
}

// ---- what becomes of it ----

static bool in_floats(const Node *n) {
  return (n->op == OP_conv || n->op == OP_mat_mul || n->op == OP_gemm) && n->name;
}

static int64_t send_back(GroupList *l, const char *name) {
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i].choice == CHOICE_INT8 && !strcmp(l->v[i].name, name)) {
      l->v[i].choice = CHOICE_F32;
      l->v[i].kept = "since no integer kernel computes it";
      return 1;
    }
  return 0;
}

tenon_status rewrite_check(Graph *g, GroupList *l, const Body *quantized, Arena *a, Diag *d,
                           int64_t *out_left) {
  Body *before = g->main;
  CompileOptions o;
  CompileReport made = {0};
  compile_defaults(&o);
  o.stop_after = "simplify-graph";
  g->main = (Body *)(uintptr_t)quantized;
  tenon_status s = compile_graph(g, &o, COMPILE_OPTIMISE, a, d, &made);
  *out_left = 0;
  if (!s) {
    NodeList order = body_order(g, g->main, a);
    for (int64_t i = 0; i < order.n; i++)
      if (in_floats(order.v[i])) *out_left += send_back(l, order.v[i]->name);
  }
  g->main = before;
  return s;
}

tenon_status rewrite_choices(Graph *g, Body *base, GroupList *l, const StatsList *stats,
                             const RewriteOptions *o, Arena *a, Diag *d) {
  for (int64_t left = 1; left;) {
    QuantTensors t;
    g->main = base;
    tensors_find(g, l, a, &t);
    tensors_ranges(g, &t, stats, o->method, a);
    TRY(rewrite_groups(g, l, &t, stats, o, a, d));
    TRY(rewrite_check(g, l, g->main, a, d, &left));
  }
  return TENON_OK;
}
