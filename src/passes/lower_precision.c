// lower_precision.c -- the pass lower-precision: contractions in bf16 or f16, by --precision.
//
// A convolution or matrix product with constant weights gets bf16 operands and f32 accumulators,
// whatever moves stand between it and its weights.  A value that such a contraction reads is stored
// in bf16 once, and all its readers read that.  Everything else, sums, norms and functions above
// all, is computed in f32.  The result of a matrix product stays in f32 until it is stored; that of
// a convolution is rounded to bf16 before its epilogue.  Depthwise convolutions, products of two
// computed matrices, attention and recurrent layers stay in f32.  On GPUs more values are stored in
// bf16, since memory bandwidth is precious there: operands of attention and of its rotary
// embeddings, images of depthwise convolutions, operands of pools that give such values, sums that
// are normalised, images that squeeze-excite scales, and large tables that rows are gathered from.
// A contraction whose name matches --keep stays in f32.  f16 is done likewise.
//
// Needs:   simplify-graph has run: rules about contractions have fired, and weights are constants.
// Guarantees: types of results do not change.  The report has the number of narrowed contractions
//             and the most of them on one path, which the expected error grows with.
#include "eval/contract.h"
#include "eval/movement.h"
#include "eval/scalar.h"
#include "ir/internal.h"
#include "ops/order.h"
#include "passes/passes.h"

enum {
  PAIR = 2,
  LINE = 8,
  FAR = 16,
  TABLE = 1 << 16,
  FILL_CHANNELS = 24,
  FILL_ROWS = 64,
  HEAD_MOST = 128
};  // LINE: 16 bytes; TABLE: elements of a large one; FILL_CHANNELS, FILL_ROWS: elements that are
    // worth filling up

typedef struct Narrower {
  Graph *g;
  Arena *arena;
  IntMap kept;   // ids of the values that are kept in bf16
  IntMap depth;  // by id: narrowed contractions on the way to a value
  const OptOptions *o;
  DType to;  // bf16 or f16
  PrecisionReport *report;
  bool reads_bf16;  // traits_reads_bf16
  int64_t whole;    // contracted elements are filled up to a multiple of it
} Narrower;

static bool is_f32(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank >= 0 && t->dtype == DT_F32;
}

static bool is_whole(const Type *t, int axis, int64_t of) {
  return ie_is_const(t->dims[axis]) && t->dims[axis]->value > 0 && t->dims[axis]->value % of == 0;
}

// The constant that a weight is moved from; NULL: it is computed, or moved by what depends on data.
static Node *weight_of(Node *n, int far) {
  if (n->op == OP_const) return n;
  bool moves =
      n->op == OP_transpose || n->op == OP_reshape || n->op == OP_squeeze || n->op == OP_unsqueeze;
  return moves && far && n->nres == 1 ? weight_of(n->src[0], far - 1) : NULL;
}

static bool wants_conv(const Narrower *m, const Node *n) {
  const conv_attrs *at = n->attrs;
  const Type *w = type_of(n->src[1]);
  if (at->channels_last || w->rank < 3 || !ie_is_const(w->dims[1])) return false;
  return is_whole(w, 1, PAIR) || at->group == 1 || (m->reads_bf16 && ie_is(w->dims[1], 1));
}

// The contracted axis of the weights of a product.
static int depth_axis(const Node *n) {
  return is_form(n, CF_GEMM) && ((const gemm_attrs *)n->attrs)->transB ? 1 : 0;
}

// Whether the node's products are done in bf16.
static bool wants(const Narrower *m, const Node *n) {
  if (!is_form(n, CF_CONV) && !is_form(n, CF_MATMUL) && !is_form(n, CF_GEMM)) return false;
  if (!is_f32(n) || !is_f32(n->src[0]) || !weight_of(n->src[1], FAR) || opt_keeps(m->o, n))
    return false;
  const Type *w = type_of(n->src[1]);
  if (is_form(n, CF_CONV)) return wants_conv(m, n);
  if (w->rank != 2 || type_of(n->src[0])->rank < 2 || !type_is_static(w)) return false;
  return !(is_form(n, CF_GEMM) && ((const gemm_attrs *)n->attrs)->transA) &&
         w->dims[depth_axis(n)]->value > 0;
}

// ---- values in bf16 ----

static Node *cast_to(Graph *g, Node *x, DType t) {
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}

// x in bf16: what it was widened from, if it was, through movement too.
static Node *narrowed(const Narrower *m, Node *x, int far) {
  Graph *g = m->g;
  if (x->op == OP_cast && type_of(x->src[0])->dtype == m->to) return x->src[0];
  bool moves =
      op_info(x->op)->flags & OPF_MOVEMENT && x->nres == 1 && x->op != OP_concat && x->op != OP_pad;
  if (moves && far && x->nsrc && is_f32(x->src[0])) {
    Node *under = narrowed(m, x->src[0], far - 1);
    if (under->op == OP_cast && under->src[0] == x->src[0]) return cast_to(g, x, m->to);
    Node **src = arena_array(&g->scratch, Node *, x->nsrc);
    memcpy(src, x->src, x->nsrc * sizeof *src);
    src[0] = under;
    return node_new(g, x->op, (int)x->nsrc, src, x->attrs, 1, x->name);
  }
  return cast_to(g, x, m->to);
}

// Weights in bf16: what they are moved from is cast, so that large ones need no copy in f32.
static Node *narrowed_weight(const Narrower *m, Node *n) {
  Graph *g = m->g;
  if (n->op == OP_const) return cast_to(g, n, m->to);
  Node **src = arena_array(&g->scratch, Node *, n->nsrc);
  memcpy(src, n->src, n->nsrc * sizeof *src);
  src[0] = narrowed_weight(m, n->src[0]);
  return node_new(g, n->op, (int)n->nsrc, src, n->attrs, 1, n->name);
}

// More elements along an axis, so that all of them are whole words.
static Node *filled_up(const Narrower *m, Node *x, int64_t axis) {
  const Type *t = type_of(x);
  int64_t pads[2 * MAX_RANK] = {0}, n = t->dims[axis]->value;
  if (n % m->whole == 0) return x;
  pads[t->rank + axis] = m->whole - n % m->whole;
  Node *src[] = {x, node_i64s(m->g, 2 * (int64_t)t->rank, pads)};
  return node_new(m->g, OP_pad, 2, src, &(pad_attrs){.mode = PAD_CONSTANT}, 1, NULL);
}

// Whether the channels of a pixel, which several taps read, are better fetched in whole lines:
// written once more if need be.  A few channels fill no line.
static bool reads_often(const Narrower *m, const Node *n) {
  const Type *w = type_of(n->src[1]);
  bool once = true;
  for (int i = 2; i < w->rank; i++) once &= ie_is(w->dims[i], 1);
  return m->whole == LINE && !once && w->dims[1]->value >= FILL_CHANNELS;
}

static Node *narrow_conv(Narrower *m, Node *n) {
  Graph *g = m->g;
  Node *bias = src_or_null(g, n, 2);
  Node *src[3] = {narrowed(m, n->src[0], FAR), narrowed_weight(m, n->src[1]),
                  bias ? cast_to(g, bias, m->to) : NULL};
  if (((const conv_attrs *)n->attrs)->group == 1 &&
      (!is_whole(type_of(n->src[1]), 1, PAIR) || reads_often(m, n)))
    for (int i = 0; i < 2; i++) src[i] = filled_up(m, src[i], 1);
  return cast_to(g, node_new(g, n->op, bias ? 3 : 2, src, n->attrs, 1, n->name), DT_F32);
}

static Node *narrow_product(Narrower *m, Node *n) {
  Graph *g = m->g;
  const gemm_attrs *at = is_form(n, CF_GEMM) ? n->attrs : NULL;
  int64_t last = type_of(n->src[0])->rank - 1, first = depth_axis(n);
  dot_attrs dot = {.contract_lhs = {1, &last}, .contract_rhs = {1, &first}, .out_dtype = DT_F32};
  Node *src[] = {narrowed(m, n->src[0], FAR), narrowed_weight(m, n->src[1])};
  // Rows that are not whole lines are fetched one element at a time: better written once more.
  int64_t words = type_of(n->src[1])->dims[first]->value >= FILL_ROWS ? m->whole : PAIR;
  if (!is_whole(type_of(n->src[1]), (int)first, words)) {
    src[0] = filled_up(m, src[0], last);
    src[1] = filled_up(m, src[1], first);
  }
  Node *r = node_new(g, OP_dot, 2, src, &dot, 1, n->name), *c = at ? src_or_null(g, n, 2) : NULL;
  if (at && at->alpha != 1) r = N(g, mul, r, node_scalar(g, DT_F32, at->alpha));
  if (c && at->beta != 1) c = N(g, mul, c, node_scalar(g, DT_F32, at->beta));
  return c ? N(g, add, r, c) : r;
}

// What x is before it is moved about.
static const Node *unmoved(const Node *x) {
  while (op_info(x->op)->flags & OPF_MOVEMENT && x->nres == 1 && x->nsrc && is_f32(x->src[0]))
    x = x->src[0];
  return x;
}

static void keep(Narrower *m, const Node *x) {
  if (is_f32(x) && x->op != OP_const && x->nres == 1) intmap_put(&m->kept, x->id, 1);
}

// Queries, keys and values: what they are before they are moved about is kept, and what a rotary
// embedding makes them of: norms of heads go to memory for it.
static void keep_heads(Narrower *m, const Node *n) {
  if (n->op != OP_attention || n->nsrc < 3) return;
  for (int i = 0; i < 3; i++) {
    const Node *x = unmoved(n->src[i]);
    keep(m, x);
    if (x->op == OP_rotary_embedding) keep(m, unmoved(x->src[0]));
  }
}

// A sum of branches goes to memory and back, once for the norm and once for the next sum.
static void keep_normalised(Narrower *m, const Node *n) {
  if (n->op != OP_layer_normalization && n->op != OP_rms_normalization) return;
  const Node *x = n->src[0];
  if (x->op == OP_add && is_f32(x)) intmap_put(&m->kept, x->id, 1);
}

// An image that is scaled by channel before a contraction reads it goes to memory for the mean that
// the scale is made of.
static void keep_scaled(Narrower *m, const Node *x) {
  if (x->op != OP_mul || !is_f32(x)) return;
  for (int i = 0; i < 2; i++) {
    const Node *image = x->src[i];
    bool scaled = type_same_dims(type_of(image), type_of(x)) &&
                  !type_same_dims(type_of(x->src[!i]), type_of(x));
    if (scaled && is_f32(image) && image->op != OP_const && image->nres == 1)
      intmap_put(&m->kept, image->id, 1);
  }
}

// What a contraction reads, and below pools what they take the largest of: the largest of rounded
// numbers is the largest one rounded.
static void keep_read(Narrower *m, const Node *x) {
  if (x->op == OP_const) return;
  intmap_put(&m->kept, x->id, 1);
  if (m->reads_bf16) keep_scaled(m, x);
  if (m->reads_bf16 && x->op == OP_max_pool && x->nres == 1 && is_f32(x)) keep_read(m, x->src[0]);
}

static bool wants_table(const Narrower *m, const Node *n) {
  return m->reads_bf16 && n->op == OP_gather && is_f32(n) && n->src[0]->op == OP_const &&
         n->src[0]->data && n->src[0]->data->n >= TABLE;
}

static Node *narrow_table(Narrower *m, Node *n) {
  Node *src[] = {cast_to(m->g, n->src[0], m->to), n->src[1]};
  return cast_to(m->g, node_new(m->g, OP_gather, 2, src, n->attrs, 1, n->name), DT_F32);
}

// Queries, keys and values that are inputs of the graph: nothing writes them in bf16, so that they
// are cast before, where tensor cores take heads of that size.
static Node *narrow_attention(const Narrower *m, Node *n) {
  Node **src = arena_array(&m->g->scratch, Node *, n->nsrc);
  bool any = false;
  memcpy(src, n->src, n->nsrc * sizeof *src);
  for (int i = 0; i < 3; i++) {
    if (!is_f32(n->src[i]) || unmoved(n->src[i])->op != OP_param) continue;
    src[i] = cast_to(m->g, narrowed(m, n->src[i], FAR), DT_F32);
    any = true;
  }
  return any ? node_new(m->g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name) : n;
}

// Heads of 16 bits by whole lines.
static bool wants_attention(const Narrower *m, const Node *n) {
  if (m->whole != LINE || n->op != OP_attention || n->nsrc < 3 || n->nres != 1 ||
      opt_keeps(m->o, n))
    return false;
  for (int i = 0; i < 3; i++) {
    const Type *t = type_of(n->src[i]);
    if (!is_f32(n->src[i]) || t->rank != 4 || !is_whole(t, 3, LINE) ||
        t->dims[3]->value > HEAD_MOST)
      return false;
  }
  return true;
}

// ---- the pass ----

static void begin_body(void *ctx, const Body *b, NodeList order) {
  Narrower *m = ctx;
  (void)b;
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    uint64_t most = 0, have;
    for (uint32_t k = 0; k < n->nsrc; k++)
      if (intmap_get(&m->depth, n->src[k]->id, &have)) most = MAX(most, have);
    if (m->reads_bf16) {
      keep_heads(m, n);
      keep_normalised(m, n);
    }
    if (wants(m, n)) {
      most++;
      m->report->contractions++;
      keep_read(m, n->src[0]);
    }
    m->report->depth = MAX(m->report->depth, (int64_t)most);
    if (most) intmap_put(&m->depth, n->id, most);
  }
}

static Node *narrow_node(void *ctx, Node *n, Node *old) {
  Narrower *m = ctx;
  Graph *g = m->g;
  uint64_t kept;
  Node *r = n;
  if (wants(m, old)) r = is_form(n, CF_CONV) ? narrow_conv(m, n) : narrow_product(m, n);
  if (wants_table(m, n)) r = narrow_table(m, n);
  if (wants_attention(m, old)) r = narrow_attention(m, n);
  if (r == g->poison || type_of(r) != type_of(n)) r = n;
  if (!intmap_get(&m->kept, old->id, &kept) || n->op == OP_param) return r;
  Node *wide = cast_to(g, narrowed(m, r, FAR), DT_F32);
  return wide != g->poison && type_of(wide) == type_of(n) ? wide : r;
}

tenon_status pass_lower_precision(PassCtx *c, bool *out_changed) {
  *out_changed = false;
  if (c->o->precision != DT_BF16 && c->o->precision != DT_F16) return TENON_OK;
  Arena a;
  arena_init_scoped(&a);
  Narrower m = {.g = c->g, .arena = &a, .o = c->o, .report = &c->report->precision};
  m.reads_bf16 = traits_reads_bf16(c->g->traits);
  m.whole = c->g->traits->mma ? LINE : PAIR;
  m.to = m.report->dtype = c->o->precision;
  intmap_init(&m.kept, &a);
  intmap_init(&m.depth, &a);
  GraphMap map = {.g = c->g, .fn = narrow_node, .ctx = &m, .begin_body = begin_body};
  tenon_status s = graph_map(&map, out_changed);
  arena_deinit(&a);
  if (s) return s;
  bool folded;
  return pass_fold_constants(c, &folded);  // the weights
}
