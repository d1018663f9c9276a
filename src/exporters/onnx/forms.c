// forms.c -- ops whose ONNX form differs from their record's, and what is said by other ops.
//
// Every op that has an ONNX spelling in its record is written by it: the record is its row.  Here
// are the rows of the others.
#include "eval/contract.h"
#include "eval/control.h"
#include "eval/contrib.h"
#include "eval/generate.h"
#include "eval/ml.h"
#include "eval/movement.h"
#include "eval/scalar.h"
#include "eval/sequence.h"
#include "exporters/onnx/write.h"

// ---- forms ----

static tenon_status form_fmod(OnnxNodeOut *w) {
  onnx_attr_int(w, "fmod", 1);
  return TENON_OK;
}
static tenon_status form_shift_left(OnnxNodeOut *w) {
  onnx_attr_text(w, "direction", STR("LEFT"));
  return TENON_OK;
}
static tenon_status form_shift_right(OnnxNodeOut *w) {
  onnx_attr_text(w, "direction", STR("RIGHT"));
  return TENON_OK;
}

static tenon_status form_constant_of_shape(OnnxNodeOut *w) {
  const Node *v = src_or_null(w->out->g, w->n, 1);
  w->nsrc = 1;
  if (!v) return TENON_OK;
  const void *data;
  Proto t;
  TRY(const_bytes(w->out->g, v, &data, w->out->diag));
  proto_init(&t, w->out->arena);
  onnx_tensor(&t, NULL, type_of(v)->dtype, 1, (int64_t[]){1}, 1, data);
  onnx_attr_tensor(w, "value", &t);
  return TENON_OK;
}

// The record's seed counts only where one was given.
static tenon_status form_random(OnnxNodeOut *w) {
  const OpInfo *info = op_info(w->n->op);
  bool seeded = false;
  for (int i = 0; i < info->nattrs; i++)
    if (!strcmp(info->attrs[i].name, "seeded"))
      seeded = *(const bool *)((const char *)w->n->attrs + info->attrs[i].offset);
  w->ignore = seeded ? "seeded instance" : "seed seeded instance";
  if (seeded) w->always = w->always ? "seed shape" : "seed";
  return TENON_OK;
}

// Blocks as ONNX Runtime has them: a power of two from 16 on, of which the last may be filled up.
static bool has_blocks(const Node *n) {
  enum { LEAST = 16 };
  const mat_mul_n_bits_attrs *at = n->attrs;
  const Type *x = type_of(n->src[0]), *w = type_of(n->src[1]);
  if (at->bits == 2 || x->rank < 2 || w->rank != 3 || !ie_is_const(x->dims[x->rank - 1]))
    return false;
  for (int k = 0; k < 3; k++)
    if (!ie_is_const(w->dims[k]) || w->dims[k]->value < 1) return false;
  int64_t block = w->dims[2]->value * 8 / at->bits;
  return block >= LEAST && !(block & (block - 1));
}

// Zeros that are integers, packed as the weights are; NULL: they are not, or not known.
static Node *packed_zeros(Graph *g, const Node *n, int64_t bits) {
  const Node *zero = src_or_null(g, n, 3);
  const void *bytes;
  Diag quiet;
  diag_init(&quiet);
  if (!zero || zero->op != OP_const || const_elements(g, zero, &g->arena, &bytes, &quiet))
    return NULL;
  const Type *t = type_of(zero);
  int64_t rows = t->dims[0]->value, blocks = t->dims[1]->value, per = 8 / bits;
  int64_t dims[] = {rows, (blocks + per - 1) / per};
  uint8_t *to = arena_array(&g->arena, uint8_t, dims[0] * dims[1]);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t b = 0; b < blocks; b++) {
      float z = ((const float *)bytes)[r * blocks + b];
      if (!(z >= 0 && z < (float)(1 << bits)) || z != (float)(int)z) return NULL;
      to[r * dims[1] + b / per] |= (uint8_t)((int)z << (b % per * bits));
    }
  return node_const(g, DT_U8, 2, dims, to, zero->name);
}

static tenon_status form_n_bits(OnnxNodeOut *w) {
  enum { OPERANDS = 4 };
  Graph *g = w->out->g;
  const mat_mul_n_bits_attrs *at = w->n->attrs;
  const Type *x = type_of(w->n->src[0]), *t = type_of(w->n->src[1]);
  onnx_attr_int(w, "K", x->dims[x->rank - 1]->value);
  onnx_attr_int(w, "N", t->dims[0]->value);
  onnx_attr_int(w, "block_size", t->dims[2]->value * 8 / at->bits);
  w->always = "bits";
  Node *zeros = packed_zeros(g, w->n, at->bits);
  if (!zeros) return TENON_OK;
  Node **src = arena_array(w->out->arena, Node *, OPERANDS);
  for (int i = 0; i < OPERANDS - 1; i++) src[i] = w->n->src[i];
  src[OPERANDS - 1] = zeros;
  w->src = src;
  return TENON_OK;
}

static Node *rewrite_n_bits(Graph *g, Node *n) {
  return has_blocks(n) ? NULL : rewrite_product_of_bits(g, n);
}

static tenon_status form_dropout(OnnxNodeOut *w) {
  const dropout_attrs *at = w->n->attrs;
  w->ignore = "seed seeded instance";
  if (at->seeded) onnx_attr_int(w, "seed", (int64_t)at->seed);
  return TENON_OK;
}

static tenon_status form_split(OnnxNodeOut *w) {
  const split_attrs *at = w->n->attrs;
  if (!src_or_null(w->out->g, w->n, 1) && !at->num_outputs)
    onnx_attr_int(w, "num_outputs", w->n->nres);
  return TENON_OK;
}

static tenon_status form_optional(OnnxNodeOut *w) {
  w->ignore = "dtype sequence";
  if (!w->n->nsrc && type_of(w->n)->kind == TK_OPTIONAL)
    onnx_attr_type(w, "type", type_of(w->n)->elem);
  return TENON_OK;
}

static tenon_status form_if(OnnxNodeOut *w) {
  const if_attrs *at = w->n->attrs;
  w->nsrc = 1;
  w->ignore = "then_captures";
  TRY(onnx_attr_body(w, "then_branch", at->then_branch, 0, 1));
  return onnx_attr_body(w, "else_branch", at->else_branch, 0, 1 + (uint32_t)at->then_captures);
}

static tenon_status form_loop(OnnxNodeOut *w) {
  const loop_attrs *at = w->n->attrs;
  w->nsrc = w->n->nsrc - (uint32_t)at->captures;
  w->ignore = "captures row_shapes";
  return onnx_attr_body(w, "body", at->body, at->body->nparams - at->captures, w->nsrc);
}

static tenon_status form_scan(OnnxNodeOut *w) {
  const scan_attrs *at = w->n->attrs;
  w->nsrc = w->n->nsrc - (uint32_t)at->captures;
  w->ignore = "captures batched row_shapes";
  if (at->batched) w->refused = "the form of opset 8, with a batch, is no longer part of ONNX";
  return onnx_attr_body(w, "body", at->body, at->body->nparams - at->captures, w->nsrc);
}

static tenon_status form_sequence_map(OnnxNodeOut *w) {
  const sequence_map_attrs *at = w->n->attrs;
  w->nsrc = w->n->nsrc - (uint32_t)at->captures;
  w->ignore = "captures";
  return onnx_attr_body(w, "body", at->body, at->body->nparams - at->captures, w->nsrc);
}

// Tables are operands here, attributes there.
static tenon_status form_label_encoder(OnnxNodeOut *w) {
  static const char *const name[] = {NULL, "keys_tensor", "values_tensor", "default_tensor"};
  for (uint32_t i = 1; i < 4; i++) {
    const Node *c = w->n->src[i];
    Proto t;
    if (c->op != OP_const) {
      w->refused = "its tables are not constants";
      return TENON_OK;
    }
    const void *data;
    TRY(const_bytes(w->out->g, c, &data, w->out->diag));
    proto_init(&t, w->out->arena);
    onnx_tensor(&t, NULL, type_of(c)->dtype, 1, &c->data->n, c->data->n, data);
    onnx_attr_tensor(w, name[i], &t);
  }
  w->nsrc = 1;
  return TENON_OK;
}

static void tensor_of_floats(OnnxNodeOut *w, const char *name, DType t, Floats v) {
  Arena *a = w->out->arena;
  float *narrow = arena_array(a, float, v.n);
  for (int64_t i = 0; i < v.n; i++) narrow[i] = (float)v.v[i];
  Proto p;
  proto_init(&p, a);
  onnx_tensor(&p, name, t, 1, &v.n, v.n, t == DT_F32 ? (const void *)narrow : v.v);
  onnx_attr_tensor(w, name, &p);
}

// Choices are numbers here, and what a row is compared with tensors of its type.
static tenon_status form_tree_ensemble(OnnxNodeOut *w) {
  const tree_ensemble_attrs *at = w->n->attrs;
  DType t = type_of(w->n->src[0])->dtype == DT_F64 ? DT_F64 : DT_F32;
  uint8_t *mode = arena_array(w->out->arena, uint8_t, at->nodes_modes.n);
  for (int64_t i = 0; i < at->nodes_modes.n; i++) mode[i] = (uint8_t)at->nodes_modes.v[i];
  w->ignore =
      "aggregate_function post_transform leaf_weights membership_values nodes_modes nodes_splits";
  onnx_attr_int(w, "aggregate_function", at->aggregate_function);
  onnx_attr_int(w, "post_transform", at->post_transform);
  tensor_of_floats(w, "leaf_weights", t, at->leaf_weights);
  tensor_of_floats(w, "nodes_splits", t, at->nodes_splits);
  if (at->membership_values.n) tensor_of_floats(w, "membership_values", t, at->membership_values);
  Proto p;
  proto_init(&p, w->out->arena);
  onnx_tensor(&p, "nodes_modes", DT_U8, 1, &at->nodes_modes.n, at->nodes_modes.n, mode);
  onnx_attr_tensor(w, "nodes_modes", &p);
  return TENON_OK;
}

static const OnnxForm forms[] = {
    // clang-format off
    {.op = OP_min,                 .onnx = "Min", .since = 13},
    {.op = OP_max,                 .onnx = "Max", .since = 13},
    {.op = OP_pow,                 .onnx = "Pow", .since = 15},
    {.op = OP_mod,                 .onnx = "Mod", .since = 13},
    {.op = OP_fmod,                .onnx = "Mod", .since = 13, .fn = form_fmod},
    {.op = OP_shift_left,          .onnx = "BitShift", .since = 11, .fn = form_shift_left},
    {.op = OP_shift_right,         .onnx = "BitShift", .since = 11, .fn = form_shift_right},
    {.op = OP_if,                  .onnx = "If", .since = 21, .fn = form_if},
    {.op = OP_loop,                .onnx = "Loop", .since = 21, .fn = form_loop},
    {.op = OP_scan,                .onnx = "Scan", .since = 21, .fn = form_scan, .always = "num_scan_inputs"},
    {.op = OP_sequence_map,        .onnx = "SequenceMap", .since = 17, .fn = form_sequence_map},
    {.op = OP_optional,            .onnx = "Optional", .since = 15, .fn = form_optional},
    {.op = OP_constant_of_shape,   .fn = form_constant_of_shape},
    {.op = OP_split,               .fn = form_split},
    {.op = OP_concat,              .always = "axis"},
    {.op = OP_concat_from_sequence, .always = "axis"},
    {.op = OP_tf_idf_vectorizer,   .always = "mode max_gram_length min_gram_length max_skip_count"},
    {.op = OP_random_uniform,      .fn = form_random, .always = "shape"},
    {.op = OP_random_normal,       .fn = form_random, .always = "shape"},
    {.op = OP_random_uniform_like, .fn = form_random},
    {.op = OP_random_normal_like,  .fn = form_random},
    {.op = OP_multinomial,         .fn = form_random},
    {.op = OP_bernoulli,           .fn = form_random},
    {.op = OP_dropout,             .fn = form_dropout},
    {.op = OP_tree_ensemble,       .fn = form_tree_ensemble},
    {.op = OP_label_encoder,       .fn = form_label_encoder},
    {.op = OP_group_normalization, .since = 21},
    {.op = OP_mat_mul_n_bits,      .onnx = "com.microsoft.MatMulNBits", .since = 1, .fn = form_n_bits},
    // clang-format on
};

const OnnxForm *onnx_form(int op) {
  for (int64_t i = 0; i < ARRAY_LEN(forms); i++)
    if (forms[i].op == op) return &forms[i];
  return NULL;
}

int64_t onnx_since(const Node *n, const char **out_op) {
  const OnnxForm *f = onnx_form(n->op);
  const OpInfo *info = op_info(n->op);
  *out_op = f && f->onnx ? f->onnx : info->onnx;
  return f && f->since ? f->since : info->onnx_since;
}

bool onnx_writes(const void *ctx, const Node *n) {
  const ExportOptions *o = ctx;
  const char *op;
  int64_t since = onnx_since(n, &op);
  bool standard = op && !strchr(op, '.');
  if (standard && onnx_types_since(op, n, n->nsrc) < 0) return false;
  return op && (!o->opset || !standard || since <= MAX(o->opset, ONNX_OPSET));
}

// ---- rewrites ----

static bool is_plain(Ints axes, int first) {
  for (int64_t i = 0; i < axes.n; i++)
    if (axes.v[i] != first + i) return false;
  return true;
}

// The axes of an operand in the order batch, then `middle` (NULL: the free ones), then the rest.
static Node *in_order(Graph *g, Node *x, Ints batch, Ints contract, bool contract_first,
                      int *nfree) {
  int rank = type_of(x)->rank, n = 0;
  int64_t perm[MAX_RANK], free[MAX_RANK];
  bool used[MAX_RANK] = {false};
  *nfree = 0;
  for (int64_t i = 0; i < batch.n; i++) used[(batch.v[i] + rank) % rank] = true;
  for (int64_t i = 0; i < contract.n; i++) used[(contract.v[i] + rank) % rank] = true;
  for (int i = 0; i < rank; i++)
    if (!used[i]) free[(*nfree)++] = i;
  for (int64_t i = 0; i < batch.n; i++) perm[n++] = (batch.v[i] + rank) % rank;
  for (int pass = 0; pass < 2; pass++)
    if ((pass == 0) == contract_first)
      for (int64_t i = 0; i < contract.n; i++) perm[n++] = (contract.v[i] + rank) % rank;
    else
      for (int i = 0; i < *nfree; i++) perm[n++] = free[i];
  transpose_attrs at = {.perm = {rank, arena_dup(&g->arena, perm, rank * (int64_t)sizeof *perm)}};
  return is_plain(at.perm, 0) ? x : NA(g, transpose, &at, x);
}

static Node *by_einsum(Graph *g, const dot_attrs *at, Node *a, Node *b) {
  char l[MAX_RANK], r[MAX_RANK], next = 'a';
  StrBuf text;
  int ra = type_of(a)->rank, rb = type_of(b)->rank;
  if (ra + rb > 52) return NULL;
  memset(r, 0, sizeof r);
  for (int i = 0; i < ra; i++) l[i] = (char)(next < 'z' + 1 ? next : next - 'z' - 1 + 'A'), next++;
  for (int64_t i = 0; i < at->batch_rhs.n; i++)
    r[(at->batch_rhs.v[i] + rb) % rb] = l[(at->batch_lhs.v[i] + ra) % ra];
  for (int64_t i = 0; i < at->contract_rhs.n; i++)
    r[(at->contract_rhs.v[i] + rb) % rb] = l[(at->contract_lhs.v[i] + ra) % ra];
  bool summed[MAX_RANK] = {false}, batched[MAX_RANK] = {false}, fresh[MAX_RANK];
  for (int64_t i = 0; i < at->contract_lhs.n; i++) summed[(at->contract_lhs.v[i] + ra) % ra] = true;
  for (int64_t i = 0; i < at->batch_lhs.n; i++) batched[(at->batch_lhs.v[i] + ra) % ra] = true;
  for (int i = 0; i < rb; i++) {
    fresh[i] = !r[i];
    if (fresh[i]) r[i] = (char)(next < 'z' + 1 ? next : next - 'z' - 1 + 'A'), next++;
  }
  strbuf_init(&text, &g->arena);
  strbuf_printf(&text, "%.*s,%.*s->", ra, l, rb, r);
  for (int64_t i = 0; i < at->batch_lhs.n; i++)
    strbuf_putc(&text, l[(at->batch_lhs.v[i] + ra) % ra]);
  for (int i = 0; i < ra; i++)
    if (!summed[i] && !batched[i]) strbuf_putc(&text, l[i]);
  for (int i = 0; i < rb; i++)
    if (fresh[i]) strbuf_putc(&text, r[i]);
  einsum_attrs e = {.equation = strbuf_str(&text)};
  return NA(g, einsum, &e, a, b);
}

// A matrix product where one axis is summed and each side has one of its own (lhs any number, where
// nothing is batched).
static Node *rewrite_dot(Graph *g, Node *n) {
  const dot_attrs *at = n->attrs;
  Node *a = n->src[0], *b = n->src[1];
  if (type_of(a)->rank < 0 || type_of(b)->rank < 0) return NULL;
  DType to = at->out_dtype;
  if (to && (type_of(a)->dtype != to || type_of(b)->dtype != to)) {
    dot_attrs plain = *at;
    plain.out_dtype = 0;
    cast_attrs wide = {.to = to, .saturate = true};
    if (type_of(a)->dtype != to) a = NA(g, cast, &wide, a);
    if (type_of(b)->dtype != to) b = NA(g, cast, &wide, b);
    return NA(g, dot, &plain, a, b);
  }
  int nl, nr;
  if (at->contract_lhs.n != 1) return by_einsum(g, at, a, b);
  Node *l = in_order(g, a, at->batch_lhs, at->contract_lhs, false, &nl);
  Node *r = in_order(g, b, at->batch_rhs, at->contract_rhs, true, &nr);
  bool fits = nr == 1 && (nl == 1 || (nl > 1 && !at->batch_lhs.n));
  return fits ? N(g, mat_mul, l, r) : by_einsum(g, at, a, b);
}

static Node *rewrite_fill(Graph *g, Node *n) {
  Node *v = src_or_null(g, n, 1);
  if (!v || v->op == OP_const) return NULL;
  return N(g, expand, N(g, reshape, v, node_i64s(g, 1, (int64_t[]){1})), n->src[0]);
}

static Node *rewrite_float_mod(Graph *g, Node *n) {
  return dtype_is_float(type_of(n)->dtype) ? rewrite_mod(g, n) : NULL;
}

// ONNX's minimum and maximum know no bool, its roundings no integers, and its negation nothing
// unsigned.
static Node *rewrite_min(Graph *g, Node *n) {
  return type_of(n)->dtype == DT_BOOL ? N(g, and, n->src[0], n->src[1]) : NULL;
}
static Node *rewrite_max(Graph *g, Node *n) {
  return type_of(n)->dtype == DT_BOOL ? N(g, or, n->src[0], n->src[1]) : NULL;
}
static Node *rewrite_rounding(Graph *g, Node *n) {
  (void)g;
  return dtype_is_int(type_of(n)->dtype) ? n->src[0] : NULL;
}
static Node *rewrite_neg(Graph *g, Node *n) {
  DType t = type_of(n)->dtype;
  return dtype_class(t) == DC_UINT ? N(g, sub, node_scalar(g, t, 0), n->src[0]) : NULL;
}

// `into` by shape arithmetic: each size of the shape times those of the axes that go there; -1
// stays what is left over.
static Node *rewrite_reshape(Graph *g, Node *n) {
  const reshape_attrs *at = n->attrs;
  Ints shape;
  if (!at->into.n || !node_ints(g, n->src[1], &shape)) return NULL;
  Node **part = arena_array(&g->arena, Node *, shape.n + 1);
  Node *sizes = N(g, shape, n->src[0]);
  for (int64_t r = 0; r < shape.n; r++) {
    part[r] = node_i64s(g, 1, &shape.v[r]);
    for (int64_t i = 0; i < at->into.n; i++)
      if (at->into.v[i] == r) {
        Node *size = N(g, gather, sizes, node_i64s(g, 1, &i));
        part[r] = shape.v[r] == 1 && part[r]->op == OP_const ? size : N(g, mul, part[r], size);
      }
  }
  concat_attrs join = {.axis = 0};
  reshape_attrs plain = {.allowzero = true};
  for (int64_t r = 0; r < shape.n; r++) plain.allowzero &= shape.v[r] != -1;
  Node *to =
      shape.n ? node_new(g, OP_concat, (int)shape.n, part, &join, 1, NULL) : node_i64s(g, 0, NULL);
  return NA(g, reshape, &plain, n->src[0], to);
}

// A mask for all queries alike is written for each: ONNX says that masks broadcast, ONNX Runtime
// that this axis does not.
static Node *rewrite_attention(Graph *g, Node *n) {
  enum { MASK = 3 };
  Node *mask = src_or_null(g, n, MASK);
  const Type *q = type_of(n->src[0]), *m = mask ? type_of(mask) : NULL;
  if (!m || m->rank < 2 || q->rank < 3 || !ie_is(m->dims[m->rank - 2], 1)) return NULL;
  int64_t axis = q->rank - 2, one = 1;
  if (ie_is(q->dims[axis], 1)) return NULL;
  Node *rows = N(g, gather, N(g, shape, n->src[0]), node_i64s(g, 1, &axis));
  concat_attrs join = {.axis = 0};
  Node **src = arena_dup(&g->arena, n->src, n->nsrc * (int64_t)sizeof *src);
  src[MASK] = N(g, expand, mask, NA(g, concat, &join, rows, node_i64s(g, 1, &one)));
  return node_new(g, OP_attention, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

const RewriteRow onnx_rewrites[] = {
    // clang-format off
    {OP_dims,              rewrite_dims},
    {OP_dot,               rewrite_dot},
    {OP_mod,               rewrite_float_mod},
    {OP_min,               rewrite_min},
    {OP_max,               rewrite_max},
    {OP_constant_of_shape, rewrite_fill},
    {OP_neg,               rewrite_neg},
    {OP_ceil,              rewrite_rounding},
    {OP_floor,             rewrite_rounding},
    {OP_reshape,           rewrite_reshape},
    {OP_attention,         rewrite_attention},
    {OP_unpack_n_bits,     rewrite_unpack},
    {OP_mat_mul_n_bits,    rewrite_n_bits},
    {OP_shift_left,        onnx_signed_shift_left},
    {OP_shift_right,       onnx_signed_shift_right},
    {OP_relu,              onnx_unsigned_relu},
    {OP_reduce_sum,        onnx_widen},
    {OP_reduce_prod,       onnx_widen},
    {OP_reduce_max,        onnx_widen},
    {OP_reduce_min,        onnx_widen},
    {OP_cum_sum,           onnx_widen},
    {OP_cum_prod,          onnx_widen},
    {OP_mat_mul,           onnx_widen},
    {OP_pow,               onnx_widen},
    {OP_pad,               onnx_wide_pad},
    // clang-format on
};
const int64_t onnx_nrewrites = ARRAY_LEN(onnx_rewrites);
