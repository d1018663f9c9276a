// groups.c -- contractions that can be quantised, and the tensors between them (groups.h).
//
// A tensor is quantised if a quantised contraction reads it.  From there it goes backwards: through
// data movement and pools, whose operands are 8-bit too, and over a residual sum, whose two sides
// are.  So no float tensor is stored between two quantised contractions.
#include "compress/groups.h"

#include "cost/cost.h"
#include "eval/contract.h"
#include "ops/order.h"

#include <math.h>

const ChoiceRow choice_row[CHOICES] = {
#define CHOICE(id, name, weights, activations, zeros, data, products, doc)                         \
  {name, weights, activations, zeros, data, products, doc},
#include "compress/choices.def"
};

int choice_find(Str name) {
  for (int i = 0; i < CHOICES; i++)
    if (str_is(name, choice_row[i].name)) return i;
  return -1;
}

static bool is_f32(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && t->dtype == DT_F32 && t->rank >= 0;
}

// ---- contractions ----

static bool matrix_shape(const Node *w, int axis, WeightShape *s) {
  const Type *t = type_of(w);
  if (t->rank != 2) return false;
  *s = (WeightShape){.axis = axis, .taps = 1, .parts = 1};
  s->outputs = t->dims[axis]->value;
  s->inputs = t->dims[1 - axis]->value;
  return true;
}

static bool conv_shape(const Node *n, WeightShape *s) {
  const conv_attrs *at = n->attrs;
  const Type *t = type_of(n->src[1]);
  if (t->rank < 3 || node_channels_last(n) || at->group < 1) return false;
  *s = (WeightShape){.axis = 0, .taps = 1, .parts = at->group};
  s->outputs = t->dims[0]->value;
  s->inputs = t->dims[1]->value;
  for (int k = 2; k < t->rank; k++) s->taps *= t->dims[k]->value;
  return s->outputs % s->parts == 0;
}

static bool weight_shape(const Graph *g, const Node *n, WeightShape *s) {
  if (n->op != OP_conv && n->op != OP_mat_mul && n->op != OP_gemm) return false;
  if (n->src[1]->op != OP_const || !is_f32(n->src[1]) || !is_f32(n->src[0])) return false;
  if (n->src[0]->op == OP_const || type_of(n->src[0])->rank < 2) return false;
  const Node *bias = n->nsrc > 2 ? src_or_null(g, n, 2) : NULL;
  if (bias && bias->op != OP_const) return false;
  if (n->op == OP_conv && !conv_shape(n, s)) return false;
  if (n->op == OP_mat_mul && !matrix_shape(n->src[1], 1, s)) return false;
  if (n->op == OP_gemm) {
    const gemm_attrs *at = n->attrs;
    if (at->transA || at->alpha != 1 || at->beta != 1) return false;
    if (!matrix_shape(n->src[1], at->transB ? 0 : 1, s)) return false;
  }
  if (bias && (type_of(bias)->rank != 1 || bias->data->n != s->outputs)) return false;
  return s->outputs > 0 && s->inputs > 0 && s->taps > 0;
}

void groups_find(Graph *g, const char *const *keep, int64_t nkeep, Arena *a, GroupList *out) {
  NodeList order = body_order(g, g->main, a);
  *out = (GroupList){0};
  for (int64_t i = 0; i < order.n; i++) {
    QuantGroup q = {.node = order.v[i], .choice = CHOICE_F32};
    if (!weight_shape(g, q.node, &q.shape)) continue;
    q.name = q.node->name && *q.node->name
                 ? q.node->name
                 : str_printf(a, "%s_%lld", op_name(q.node), (long long)out->n);
    for (int64_t k = 0; k < nkeep && !q.kept; k++)
      if (str_glob(keep[k], q.name)) q.kept = "by --keep";
    vec_push(a, out, q);
  }
}

int64_t groups_at(const GroupList *l, const Node *n) {
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i].node == n) return i;
  return -1;
}

static bool is_int8(const GroupList *l, const Node *n) {
  int64_t i = groups_at(l, n);
  return i >= 0 && l->v[i].choice == CHOICE_INT8;
}

// ---- what is between them ----

// The same numbers in another place, or the largest of some.
static bool is_same(const Node *n) {
  if (n->nres != 1 || !n->nsrc || !is_f32(n) || !is_f32(n->src[0])) return false;
  if (n->op == OP_concat) {
    for (uint32_t i = 0; i < n->nsrc; i++)
      if (n->src[i]->op == OP_const) return false;
    return true;
  }
  return n->op == OP_max_pool || n->op == OP_global_max_pool ||
         (op_info(n->op)->flags & OPF_SELECTS) != 0;
}

static bool is_mean(const Node *n) {
  return n->op == OP_average_pool || n->op == OP_global_average_pool;
}

// A sum or product of two tensors of one shape: a residual.
static bool is_join(const Node *n) {
  return (n->op == OP_add || n->op == OP_mul) && is_f32(n) && type_of(n)->rank >= 2 &&
         n->src[0]->op != OP_const && n->src[1]->op != OP_const &&
         type_same_dims(type_of(n->src[0]), type_of(n)) &&
         type_same_dims(type_of(n->src[1]), type_of(n));
}

// The operand of an op of one tensor and constants, which a kernel computes in its epilogue.
static Node *under_pointwise(const Node *n) {
  Node *x = NULL;
  if (n->nres != 1 || !(op_info(n->op)->flags & OPF_ELEMENTWISE) || !is_f32(n)) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (n->src[i]->op == OP_const || n->src[i]->op == OP_none || n->src[i] == x) continue;
    if (x) return NULL;
    x = n->src[i];
  }
  return x && is_f32(x) && type_same_dims(type_of(x), type_of(n)) ? x : NULL;
}

// The node that makes the numbers, below ops that follow in the same kernel.
static const Node *maker_of(const Node *n) {
  for (const Node *x; (x = under_pointwise(n));) n = x;
  return n;
}

static bool made_int8(const GroupList *l, const Node *n) {
  while (is_same(n) && n->op != OP_concat) n = n->src[0];
  return is_int8(l, maker_of(n));
}

static int32_t root_of(const int32_t *set, int32_t i) {
  while (set[i] != i) i = set[i];
  return i;
}

static void unite(QuantTensors *t, const Node *a, const Node *b) {
  int32_t x = root_of(t->set, (int32_t)a->id), y = root_of(t->set, (int32_t)b->id);
  t->set[MAX(x, y)] = MIN(x, y);
}

static void want(QuantTensors *t, const Node *n) {
  if (n->op != OP_const && is_f32(n)) t->wanted[n->id] = true;
}

// What the operands of a quantised tensor's maker must be.
static void want_operands(QuantTensors *t, const GroupList *l, const Node *n) {
  if (is_same(n)) {
    for (uint32_t i = 0; i < (n->op == OP_concat ? n->nsrc : 1); i++) {
      want(t, n->src[i]);
      unite(t, n, n->src[i]);
    }
    return;
  }
  if (is_mean(n)) want(t, n->src[0]);
  const Node *maker = maker_of(n);
  if (!is_join(maker)) return;
  if (!made_int8(l, maker->src[0]) && !made_int8(l, maker->src[1])) return;
  t->by_join[maker->id] = true;
  want(t, maker->src[0]);
  want(t, maker->src[1]);
}

void tensors_find(Graph *g, const GroupList *l, Arena *a, QuantTensors *out) {
  NodeList order = body_order(g, g->main, a);
  *out = (QuantTensors){.n = g->node.n};
  out->wanted = arena_array(a, bool, out->n + 1);
  out->by_join = arena_array(a, bool, out->n + 1);
  out->set = arena_array(a, int32_t, out->n + 1);
  out->params = arena_array(a, QuantParams, out->n + 1);
  for (int64_t i = 0; i < out->n; i++) out->set[i] = (int32_t)i;
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i].choice == CHOICE_INT8) want(out, l->v[i].node->src[0]);
  // Readers come behind in the order, so all that want a tensor have been seen.
  for (int64_t i = order.n; i-- > 0;)
    if (out->wanted[order.v[i]->id]) want_operands(out, l, order.v[i]);
}

int32_t tensors_set(const QuantTensors *t, const Node *n) {
  return root_of(t->set, (int32_t)n->id);
}

bool tensors_reads(const QuantTensors *t, const GroupList *l, const Node *n, uint32_t i) {
  const Node *x = n->src[i];
  if (x->id >= t->n || !t->wanted[x->id]) return false;
  if (is_int8(l, n)) return i == 0;
  if (n->id < t->n && t->by_join[n->id]) return true;
  if (n->id >= t->n || !t->wanted[n->id]) return false;
  return is_mean(n) ? i == 0 : is_same(n) && (n->op == OP_concat || i == 0);
}

// ---- their ranges ----

void tensors_observe(Graph *g, const GroupList *l, Arena *a, StatsList *out) {
  GroupList all = {arena_dup(a, l->v, l->n * (int64_t)sizeof *l->v), l->n, l->n};
  QuantTensors t;
  for (int64_t i = 0; i < all.n; i++)
    if (!all.v[i].kept) all.v[i].choice = CHOICE_INT8;
  tensors_find(g, &all, a, &t);
  NodeList order = body_order(g, g->main, a);
  for (int64_t i = 0; i < order.n; i++)
    if (t.wanted[order.v[i]->id]) observe_tensor(out, order.v[i], -1, a);
  for (int64_t i = 0; i < all.n; i++) {
    const Node *n = all.v[i].node, *x = n->src[0];
    if (!all.v[i].kept) observe_tensor(out, x, n->op == OP_conv ? 1 : type_of(x)->rank - 1, a);
  }
}

void tensors_ranges(Graph *g, QuantTensors *t, const StatsList *stats, RangeMethod m, Arena *a) {
  Histogram **sum = arena_array(a, Histogram *, t->n + 1);
  for (int64_t i = 0; i < stats->n; i++) {
    const Node *n = stats->v[i].node;
    if (!t->wanted[n->id]) continue;
    int32_t set = tensors_set(t, n);
    if (!sum[set]) {
      sum[set] = arena_new(a, Histogram);
      histogram_init(sum[set]);
    }
    histogram_merge(sum[set], stats->v[i].histogram);
  }
  for (int64_t i = 0; i < t->n; i++) {
    double lo, hi;
    if (!sum[i]) continue;
    range_of(sum[i], m, &lo, &hi);
    t->params[i] = range_params(lo, hi);
    // Probabilities end at 1.
    if (g->node.v[i]->op == OP_softmax) t->params[i] = (QuantParams){0x1p-8F, 0};
  }
}

// ---- what choices cost ----

// Groups whose results, through what shares a kernel or an 8-bit scale with them, are in n.
static void pairs_of(ChooseProblem *p, const GroupList *l, const Node *n, int32_t reader,
                     double bytes, bool *seen, Arena *a) {
  if (seen[n->id]) return;
  seen[n->id] = true;
  int64_t i = groups_at(l, n);
  if (i >= 0) {
    vec_push(a, &p->pair, ((ChoosePair){(int32_t)i, reader, bytes}));
    return;
  }
  const Node *below = under_pointwise(n);
  bool all = n->op == OP_concat || is_join(n);
  if (below) pairs_of(p, l, below, reader, bytes, seen, a);
  if (below || !(all || is_same(n) || is_mean(n))) return;
  for (uint32_t k = 0; k < (all ? n->nsrc : 1); k++)
    pairs_of(p, l, n->src[k], reader, bytes, seen, a);
}

void groups_problem(Graph *g, const GroupList *l, Arena *a, ChooseProblem *out) {
  DimBinding b;
  double total = 0, *work = arena_array(a, double, MAX(l->n, 1));
  *out = (ChooseProblem){.n = l->n, .work = work};
  binding_init(&b, a, g);
  binding_typical(&b, g);
  for (int64_t i = 0; i < l->n; i++) {
    const Node *n = l->v[i].node;
    NodeCost cost;
    int64_t bytes = 0;
    cost_node(g, n, &b, a, &cost);
    work[i] = fmax(cost.flops, 1);
    total += work[i];
    if (!cost_type_bytes(type_of(n->src[0]), &b, &bytes)) continue;
    bool *seen = arena_array(a, bool, g->node.n + 1);
    pairs_of(out, l, n->src[0], (int32_t)i, (double)bytes, seen, a);
  }
  for (int64_t i = 0; i < l->n; i++) work[i] /= total;
}
