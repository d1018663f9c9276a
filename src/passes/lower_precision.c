// lower_precision.c -- the pass lower-precision: contractions in bf16, on --precision bf16.
//
// A convolution or matrix product with constant weights gets bf16 operands and f32 accumulators.  A
// value that such a contraction reads is stored in bf16 once, and all its readers read that.
// Everything else, sums, norms and functions above all, is computed in f32.  The result of a matrix
// product stays in f32 until it is stored; that of a convolution is rounded to bf16 before its
// epilogue.  Depthwise convolutions, products of two computed matrices, attention and recurrent
// layers stay in f32.  On GPUs more values are stored in bf16, since memory bandwidth is precious
// there: operands of attention, images of depthwise convolutions, operands of pools that give such
// values, sums that are normalised, and large tables that rows are gathered from.
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

enum { PAIR = 2, FAR = 16, TABLE = 1 << 16 };  // TABLE: elements of a large one

typedef struct Narrower {
  Graph *g;
  Arena *arena;
  IntMap kept;   // ids of the values that are kept in bf16
  IntMap depth;  // by id: narrowed contractions on the way to a value
  PrecisionReport *report;
  bool reads_bf16;  // traits_reads_bf16
} Narrower;

static bool is_f32(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->rank >= 0 && t->dtype == DT_F32;
}

static bool even_axis(const Type *t, int axis) {
  return ie_is_const(t->dims[axis]) && t->dims[axis]->value >= PAIR &&
         t->dims[axis]->value % PAIR == 0;
}

static bool wants_conv(const Node *n, bool reads_bf16) {
  const conv_attrs *at = n->attrs;
  const Type *w = type_of(n->src[1]);
  if (at->channels_last || w->rank < 3 || !ie_is_const(w->dims[1])) return false;
  return even_axis(w, 1) || at->group == 1 || (reads_bf16 && ie_is(w->dims[1], 1));
}

// Whether the node's products are done in bf16.
static bool wants(const Node *n, bool reads_bf16) {
  if (!is_form(n, CF_CONV) && !is_form(n, CF_MATMUL) && !is_form(n, CF_GEMM)) return false;
  if (!is_f32(n) || !is_f32(n->src[0]) || n->src[1]->op != OP_const) return false;
  const Type *w = type_of(n->src[1]);
  if (is_form(n, CF_CONV)) return wants_conv(n, reads_bf16);
  if (w->rank != 2 || type_of(n->src[0])->rank < 2) return false;
  const gemm_attrs *at = n->attrs;
  if (is_form(n, CF_GEMM)) return !at->transA && even_axis(w, at->transB ? 1 : 0);
  return even_axis(w, 0);
}

// ---- values in bf16 ----

static Node *cast_to(Graph *g, Node *x, DType t) {
  return NA(g, cast, (&(cast_attrs){.to = t, .saturate = true}), x);
}

// x in bf16: what it was widened from, if it was, through movement too.
static Node *narrowed(Graph *g, Node *x, int far) {
  if (x->op == OP_cast && type_of(x->src[0])->dtype == DT_BF16) return x->src[0];
  bool moves =
      op_info(x->op)->flags & OPF_MOVEMENT && x->nres == 1 && x->op != OP_concat && x->op != OP_pad;
  if (moves && far && x->nsrc && is_f32(x->src[0])) {
    Node *under = narrowed(g, x->src[0], far - 1);
    if (under->op == OP_cast && under->src[0] == x->src[0]) return cast_to(g, x, DT_BF16);
    Node **src = arena_array(&g->scratch, Node *, x->nsrc);
    memcpy(src, x->src, x->nsrc * sizeof *src);
    src[0] = under;
    return node_new(g, x->op, (int)x->nsrc, src, x->attrs, 1, x->name);
  }
  return cast_to(g, x, DT_BF16);
}

// One more channel, so that all of them make pairs.
static Node *with_channel(Graph *g, Node *x) {
  int64_t pads[2 * MAX_RANK] = {0}, rank = type_of(x)->rank;
  pads[rank + 1] = 1;
  Node *src[] = {x, node_i64s(g, 2 * rank, pads)};
  return node_new(g, OP_pad, 2, src, &(pad_attrs){.mode = PAD_CONSTANT}, 1, NULL);
}

static Node *narrow_conv(Narrower *m, Node *n) {
  Graph *g = m->g;
  Node *bias = src_or_null(g, n, 2);
  Node *src[3] = {narrowed(g, n->src[0], FAR), cast_to(g, n->src[1], DT_BF16),
                  bias ? cast_to(g, bias, DT_BF16) : NULL};
  if (!even_axis(type_of(n->src[1]), 1) && ((const conv_attrs *)n->attrs)->group == 1)
    for (int i = 0; i < 2; i++) src[i] = with_channel(g, src[i]);
  return cast_to(g, node_new(g, n->op, bias ? 3 : 2, src, n->attrs, 1, n->name), DT_F32);
}

static Node *narrow_product(Narrower *m, Node *n) {
  Graph *g = m->g;
  const gemm_attrs *at = is_form(n, CF_GEMM) ? n->attrs : NULL;
  int64_t last = type_of(n->src[0])->rank - 1, first = at && at->transB ? 1 : 0;
  dot_attrs dot = {.contract_lhs = {1, &last}, .contract_rhs = {1, &first}, .out_dtype = DT_F32};
  Node *src[] = {narrowed(g, n->src[0], FAR), cast_to(g, n->src[1], DT_BF16)};
  Node *r = node_new(g, OP_dot, 2, src, &dot, 1, n->name), *c = at ? src_or_null(g, n, 2) : NULL;
  if (at && at->alpha != 1) r = N(g, mul, r, node_scalar(g, DT_F32, at->alpha));
  if (c && at->beta != 1) c = N(g, mul, c, node_scalar(g, DT_F32, at->beta));
  return c ? N(g, add, r, c) : r;
}

// Queries, keys and values: what they are before they are moved about is kept.
static void keep_heads(Narrower *m, const Node *n) {
  if (n->op != OP_attention || n->nsrc < 3) return;
  for (int i = 0; i < 3; i++) {
    const Node *x = n->src[i];
    while (op_info(x->op)->flags & OPF_MOVEMENT && x->nres == 1 && x->nsrc && is_f32(x->src[0]))
      x = x->src[0];
    if (is_f32(x) && x->op != OP_const && x->nres == 1) intmap_put(&m->kept, x->id, 1);
  }
}

// A sum of branches goes to memory and back, once for the norm and once for the next sum.
static void keep_normalised(Narrower *m, const Node *n) {
  if (n->op != OP_layer_normalization && n->op != OP_rms_normalization) return;
  const Node *x = n->src[0];
  if (x->op == OP_add && is_f32(x)) intmap_put(&m->kept, x->id, 1);
}

// What a contraction reads, and below pools what they take the largest of: the largest of rounded
// numbers is the largest one rounded.
static void keep_read(Narrower *m, const Node *x) {
  if (x->op == OP_const) return;
  intmap_put(&m->kept, x->id, 1);
  if (m->reads_bf16 && x->op == OP_max_pool && x->nres == 1 && is_f32(x)) keep_read(m, x->src[0]);
}

static bool wants_table(const Narrower *m, const Node *n) {
  return m->reads_bf16 && n->op == OP_gather && is_f32(n) && n->src[0]->op == OP_const &&
         n->src[0]->data && n->src[0]->data->n >= TABLE;
}

static Node *narrow_table(Narrower *m, Node *n) {
  Node *src[] = {cast_to(m->g, n->src[0], DT_BF16), n->src[1]};
  return cast_to(m->g, node_new(m->g, OP_gather, 2, src, n->attrs, 1, n->name), DT_F32);
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
    if (wants(n, m->reads_bf16)) {
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
  if (wants(old, m->reads_bf16)) r = is_form(n, CF_CONV) ? narrow_conv(m, n) : narrow_product(m, n);
  if (wants_table(m, n)) r = narrow_table(m, n);
  if (r == g->poison || type_of(r) != type_of(n)) r = n;
  if (!intmap_get(&m->kept, old->id, &kept) || n->op == OP_param) return r;
  Node *wide = cast_to(g, narrowed(g, r, FAR), DT_F32);
  return wide != g->poison && type_of(wide) == type_of(n) ? wide : r;
}

tenon_status pass_lower_precision(PassCtx *c, bool *out_changed) {
  *out_changed = false;
  if (c->o->precision != DT_BF16) return TENON_OK;
  Arena a;
  arena_init_scoped(&a);
  Narrower m = {.g = c->g, .arena = &a, .report = &c->report->precision};
  m.reads_bf16 = traits_reads_bf16(c->g->traits);
  m.report->dtype = DT_BF16;
  intmap_init(&m.kept, &a);
  intmap_init(&m.depth, &a);
  GraphMap map = {.g = c->g, .fn = narrow_node, .ctx = &m, .begin_body = begin_body};
  tenon_status s = graph_map(&map, out_changed);
  arena_deinit(&a);
  if (s) return s;
  bool folded;
  return pass_fold_constants(c, &folded);  // the weights
}
