// choose_layout.c -- the pass choose-layout: channels first or channels last for every value, over
// the whole of a body at once.
//
// Models come channels first.  Convolutions and pools run better channels last: the channels of a
// pixel are contiguous, and weights [taps..., Cin, Cout] are read in order.  A value that is needed
// in both orders must be converted.  So each node that can compute in either order is a variable, 0
// or 1, and the cost is
//   - for a channel-aware node, the work that its worse order wastes, in bytes: FLOPs /
//     FLOPS_A_BYTE, by how many of the vector's lanes its channels fill (on tensor cores all);
//   - for a value with a user in the other order, its bytes, once for all such users;
//   - for an input of the graph a quarter of that: its first kernel reads it through the
//     conversion;
//   - for a value in which nothing moves (one channel, or one pixel), next to nothing.
// Sizes that are symbols count as REFERENCE_SIZE.  The cheapest choice is a minimum cut
// (base/min_cut.c).  Parameters and results keep the order that the user gives and takes.  Two ends
// are known beforehand: a model's own transpose to channels last wants its operand in that order,
// and one to channels first has its result in it already.
//
// Then the chosen nodes are made anew (convert.c), each seen through a transpose to channels first,
// which the next one takes off.  What is left between two orders are conversions, which fusion puts
// into the kernels that read through them.  Weights are constants, and their transposes are folded:
// they are stored in the new order.  Constant right operands of other contractions get their
// contracted axes first, for the same reason.
//
// Needs:      rules that look for channel-aware ops have run: they know channels first alone.
// Guarantees: bit-equal (but for FAST_REASSOC, see convert.c).  A body without convolution or pool
//             is left as it is, in time linear in its nodes.
#include "cost/cost.h"
#include "eval/contract.h"
#include "ir/internal.h"
#include "base/min_cut.h"
#include "passes/choose_layout/choose_layout.h"
#include "rules/rules.h"
#include "rules/shape.h"

enum { FLOPS_A_BYTE = 32, FLOPS_A_BYTE_MMA = 4, LEAST_TERMS = 16, LANES = 8, REFERENCE_SIZE = 16 };
enum { FIRST = CUT_ZERO, LAST = CUT_ONE, NEITHER = -3 };  // orders that are no variable's

typedef struct Use {
  int32_t code, next;
} Use;
typedef struct Item {  // a node of the body at hand, by position
  const Node *node;
  int32_t var;   // or FIRST, LAST, NEITHER
  int32_t uses;  // list
  int32_t region;
  bool sink;
  int64_t if_first, if_last;  // costs of the node itself
} Item;
typedef struct Layout {
  PassCtx *c;
  Graph *g;
  Arena *arena;
  DimBinding sizes;
  int32_t *pos;    // by id of a node that was there before
  uint8_t *state;  // likewise
  IntMap results;  // id of a node with several results -> the same channels last
  // of the body at hand
  Item *item;
  NodeList order;
  VEC(Use) use;
  VEC(int32_t) user;  // of the value at hand
  Cut cut;
} Layout;
enum { STATE_LAST = 1, STATE_SINK = 2 };

// ---- costs ----

static int64_t bytes_of(const Layout *l, const Type *t) {
  int64_t n;
  if (t->kind != TK_TENSOR || t->rank < 0 || !cost_type_bytes(t, &l->sizes, &n)) return 0;
  return MIN(n, CUT_NEVER >> 20);
}

static bool is_moved(const Node *n) {
  const Type *t = type_of(n);
  return n->op != OP_const && t->kind == TK_TENSOR && t->rank >= 3 && !layout_same_bytes(t);
}

// Of a value, for having it in the other order too.  Where nothing moves it is 1: neighbours share
// an order if they can.
static int64_t conversion(const Layout *l, const Node *n) {
  const Type *t = type_of(n);
  if (n->op == OP_const || t->kind != TK_TENSOR || t->rank < 3) return 0;
  if (!is_moved(n)) return 1;
  int64_t bytes = bytes_of(l, t);
  return n->op == OP_param ? (bytes + 3) / 4 : bytes;
}

static bool is_conv(const Node *n) { return is_form(n, CF_CONV) || is_form(n, CF_CONV_TRANSPOSE); }
static bool is_pool(const Node *n) {
  return n->op == OP_max_pool || n->op == OP_average_pool || n->op == OP_lp_pool;
}

// Planes of channels first are as good for a core as channels last; thread blocks take the latter.
static bool is_depthwise(const Layout *l, const Node *n) {
  if (n->op != OP_conv || l->g->traits->gpu) return false;
  const Type *x = type_of(n->src[0]), *w = type_of(n->src[1]);
  return w->rank >= 3 && x->rank == w->rank && ie_is(w->dims[1], 1) && dtype_is_float(x->dtype) &&
         ie_is(x->dims[1], ((const conv_attrs *)n->attrs)->group) &&
         (!ie_is(x->dims[1], 1) || ie_is(w->dims[0], 1));
}

// Tensor cores take channels last, and fill up a tile of few columns with zeros.  Without them a
// product takes a GPU as long as a quarter of a byte from memory.
static bool takes_last(const Layout *l, const Node *n) {
  const TargetTraits *t = l->g->traits;
  if (!t->mma || n->op != OP_conv || ((const conv_attrs *)n->attrs)->group != 1 ||
      n->src[1]->op != OP_const)
    return false;
  const Type *w = type_of(n->src[1]);
  int64_t terms = 1;
  for (int i = 1; i < w->rank; i++)
    if (!ie_is_const(w->dims[i]) || !ck_mul(terms, w->dims[i]->value, &terms)) return false;
  bool f32 = type_of(n->src[0])->dtype == DT_F32;
  return terms >= LEAST_TERMS && (!f32 || traits_mma_f32(t, l->c->o->fast));
}

// What the order decides, in bytes.
static int64_t at_stake(const Layout *l, const Node *n) {
  if (is_pool(n) || is_depthwise(l, n)) return bytes_of(l, type_of(n->src[0])) / 4;
  if (!is_conv(n)) return 0;
  const ContractionInfo *c = op_contraction(n);
  const Node *w = n->src[c->rhs];
  const Type *t = type_of(w), *many = type_of(c->form == CF_CONV_TRANSPOSE ? n->src[c->lhs] : n);
  if (t->rank < 3 || !ie_is_const(t->dims[0]) || !t->dims[0]->value) return 0;
  int64_t size = MAX(dtype_bits(many->dtype) / 8, 1), own = MAX(dtype_bits(t->dtype) / 8, 1);
  double taps = (double)bytes_of(l, t) / (double)own / (double)t->dims[0]->value;
  double flops = 2 * taps * (double)bytes_of(l, many) / (double)size;
  int per_byte = takes_last(l, n) ? FLOPS_A_BYTE_MMA : FLOPS_A_BYTE;
  return (int64_t)MIN(flops / per_byte, (double)(CUT_NEVER >> 20));
}

static void weigh(const Layout *l, Item *x) {
  Dim channels = type_of(x->node)->dims[1];
  int64_t stake = at_stake(l, x->node);
  bool some = ie_is_const(channels) && !takes_last(l, x->node);
  int64_t lanes = some ? MIN(channels->value, LANES) : LANES;
  x->if_first = stake / LANES * lanes;
  x->if_last = stake / LANES * (LANES - lanes);
}

// ---- who uses what ----

static int32_t code_of(const Layout *l, const Node *n) {
  if (n->op == OP_const || n == l->g->none) return NEITHER;
  if (n->op == OP_proj) n = n->src[0];
  return l->item[l->pos[n->id]].var;
}

static void add_use(Layout *l, const Node *value, int32_t code) {
  if (code_of(l, value) == NEITHER) return;
  Item *x = &l->item[l->pos[value->id]];
  Use u = {code, x->uses};
  x->uses = (int32_t)l->use.n;
  vec_push(l->arena, &l->use, u);
}

static void add_node(Layout *l, Node *n, int32_t i) {
  Item *x = &l->item[i];
  *x = (Item){.node = n, .var = FIRST, .uses = -1, .region = i};
  l->pos[n->id] = i;
  if (n->op == OP_param || n->op == OP_const || n->op == OP_proj || n == l->g->none) return;
  LayoutRole role = layout_role(l->g, n, l->c->o->fast);
  bool flat = role == LR_TO_LAST &&
              type_of(n)->rank == 3;  // also one to channels first: its operand decides
  if (flat && code_of(l, n->src[0]) < 0) role = LR_TO_FIRST;
  if (role == LR_AWARE || role == LR_FREE) x->var = cut_var(&l->cut);
  if (role == LR_AWARE) weigh(l, x);
  if (role == LR_TO_FIRST) x->var = LAST;
  x->sink = role == LR_SINK;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    if (n->src[k] == l->g->none || (x->sink && k == 0)) continue;
    if (x->var < 0)
      add_use(l, n->src[k], role == LR_TO_LAST ? LAST : FIRST);
    else if (layout_follows(l->g, n, k))
      add_use(l, n->src[k], x->var);
    else if (n->src[k]->op != OP_const && type_of(n->src[k])->kind == TK_TENSOR &&
             type_of(n->src[k])->rank >= 2)
      x->if_last += bytes_of(l, type_of(n->src[k]));  // weights and the like that are computed
  }
}

// ---- the cut ----

static void price_value(Layout *l, const Item *x) {
  int32_t own = code_of(l, x->node);
  int64_t cost = own == NEITHER || x->uses < 0 ? 0 : conversion(l, x->node);
  if (!cost) return;
  l->user.n = 0;
  for (int32_t i = x->uses; i >= 0; i = l->use.v[i].next)
    vec_push(l->arena, &l->user, l->use.v[i].code);
  cut_shared(&l->cut, own, l->user.v, l->user.n, cost);
}

// ---- what was decided ----

static int32_t region_of(Layout *l, int32_t i) {
  while (l->item[i].region != i) i = l->item[i].region = l->item[l->item[i].region].region;
  return i;
}

static int32_t value_at(const Layout *l, const Node *n) {
  return l->pos[(n->op == OP_proj ? n->src[0] : n)->id];
}

static void join_regions(Layout *l, const bool *is_last, int32_t i) {
  const Item *x = &l->item[i];
  for (uint32_t k = 0; x->var >= 0 && k < x->node->nsrc; k++) {
    const Node *s = x->node->src[k];
    int32_t code = code_of(l, s);
    if (code >= 0 && layout_follows(l->g, x->node, k) && is_last[code] == is_last[x->var])
      l->item[region_of(l, i)].region = region_of(l, value_at(l, s));
  }
}

static void count_conversion(Layout *l, const bool *is_last, const Item *x) {
  LayoutReport *r = &l->c->report->layout;
  int32_t own = code_of(l, x->node);
  bool differs = false;
  for (int32_t i = x->uses; own != NEITHER && i >= 0; i = l->use.v[i].next) {
    int32_t code = l->use.v[i].code;
    if (own < 0 && code < 0) continue;
    bool last = own >= 0 ? is_last[own] : own == LAST;
    differs |= last != (code >= 0 ? is_last[code] : code == LAST);
  }
  if (!differs || !is_moved(x->node)) return;
  vec_push(l->c->report->arena, &r->converted, type_of(x->node));
}

static void report(Layout *l, const bool *is_last) {
  LayoutReport *r = &l->c->report->layout;
  int32_t *at = arena_array(l->arena, int32_t, l->order.n);
  bool *told = arena_array(l->arena, bool, l->order.n);  // something in the region prefers an order
  for (int32_t i = 0; i < l->order.n; i++) {
    at[i] = -1;
    join_regions(l, is_last, i);
    count_conversion(l, is_last, &l->item[i]);
  }
  for (int32_t i = 0; i < l->order.n; i++)
    told[region_of(l, i)] |= l->item[i].if_first || l->item[i].if_last;
  for (int32_t i = 0; i < l->order.n; i++) {
    const Item *x = &l->item[i];
    int32_t root = region_of(l, i);
    if (x->var < 0 || !(told[root] || is_last[x->var])) continue;
    if (at[root] < 0) {
      at[root] = (int32_t)r->region.n;
      LayoutRegion new = {.channels_last = is_last[x->var], .name = x->node->name};
      vec_push(l->c->report->arena, &r->region, new);
    }
    LayoutRegion *to = &r->region.v[at[root]];
    bool aware = x->if_first || x->if_last;
    if (aware && !to->aware && x->node->name) to->name = x->node->name;
    to->nodes++;
    to->aware += aware;
    to->gain += to->channels_last ? x->if_first - x->if_last : x->if_last - x->if_first;
  }
}

static bool worth_looking(const Layout *l, const NodeList *order) {
  if (l->c->o->channels_last) return true;
  for (int64_t i = 0; i < order->n; i++)
    if ((is_conv(order->v[i]) || is_pool(order->v[i])) && !node_channels_last(order->v[i]))
      return true;
  return false;
}

static void begin_body(void *ctx, const Body *b, NodeList order) {
  Layout *l = ctx;
  if (!worth_looking(l, &order)) return;
  cut_init(&l->cut, l->arena);
  l->order = order;
  l->use.n = 0;
  l->item = arena_array(l->arena, Item, order.n);
  for (int64_t i = 0; i < order.n; i++) add_node(l, order.v[i], (int32_t)i);
  for (int64_t i = 0; i < b->nresults; i++) add_use(l, b->result[i], FIRST);
  for (int64_t i = 0; i < order.n; i++) {
    const Item *x = &l->item[i];
    if (x->var >= 0) cut_cost(&l->cut, x->var, x->if_first, x->if_last);
    price_value(l, x);
  }
  bool *is_last = arena_array(l->arena, bool, l->cut.n);
  if (l->c->o->channels_last)
    memset(is_last, true, (size_t)l->cut.n);
  else
    cut_solve(&l->cut, is_last);
  for (int64_t i = 0; i < order.n; i++) {
    const Item *x = &l->item[i];
    if (x->var >= 0 && is_last[x->var]) l->state[x->node->id] = STATE_LAST;
    if (x->sink) l->state[x->node->id] = STATE_SINK;
  }
  report(l, is_last);
}

// ---- weights of other contractions ----

static bool constant_matrix(const Node *n) { return n->op == OP_const && type_of(n)->rank >= 2; }

// gemm by a transposed constant: by the constant transposed.
static Node *gemm_weights(Graph *g, Node *n) {
  gemm_attrs at = *(const gemm_attrs *)n->attrs;
  if (!at.transB || !constant_matrix(n->src[1])) return n;
  int64_t swap[2] = {1, 0};
  Node *src[3] = {n->src[0], transpose_to(g, n->src[1], 2, swap),
                  n->nsrc > 2 ? n->src[2] : g->none};
  at.transB = false;
  return node_new(g, OP_gemm, (int)n->nsrc, src, &at, 1, n->name);
}

// dot: a constant right operand as [batch, contracted, others].
static Node *dot_weights(Graph *g, Node *n) {
  dot_attrs at = *(const dot_attrs *)n->attrs;
  int64_t perm[MAX_RANK], batch[MAX_RANK], contract[MAX_RANK];
  bool named[MAX_RANK] = {false};
  int rank = type_of(n->src[1])->rank, k = 0;
  if (!constant_matrix(n->src[1])) return n;
  for (int64_t i = 0; i < at.batch_rhs.n; i++) {
    batch[i] = k;
    perm[k++] = axis_of(at.batch_rhs.v[i], rank);
  }
  for (int64_t i = 0; i < at.contract_rhs.n; i++) {
    contract[i] = k;
    perm[k++] = axis_of(at.contract_rhs.v[i], rank);
  }
  for (int i = 0; i < k; i++) named[perm[i]] = true;
  for (int i = 0; i < rank; i++)
    if (!named[i]) perm[k++] = i;
  Node *w = transpose_to(g, n->src[1], rank, perm);
  if (w == n->src[1]) return n;
  at.batch_rhs.v = batch;
  at.contract_rhs.v = contract;
  return node_new(g, OP_dot, 2, (Node *[]){n->src[0], w}, &at, 1, n->name);
}

// ---- the pass ----

static Node *same_or(const Graph *g, Node *to, Node *n) {
  return to && to != g->poison && type_of(to) == type_of(n) ? to : n;
}

static Node *layout_node(void *ctx, Node *n, Node *old) {
  Layout *l = ctx;
  Graph *g = l->g;
  uint64_t v;
  if (n->op == OP_proj && intmap_get(&l->results, old->src[0]->id, &v)) {
    Node *y = node_proj(g, (Node *)(uintptr_t)v, (int)((const proj_attrs *)n->attrs)->index);
    return same_or(g, layout_first(g, y, type_of(n)->rank), n);
  }
  if (n->op == OP_gemm) return gemm_weights(g, n);
  if (n->op == OP_dot) return dot_weights(g, n);
  if (l->state[old->id] == STATE_SINK)
    return layout_is_converted(n->src[0]) ? same_or(g, layout_convert(g, n), n) : n;
  if (l->state[old->id] != STATE_LAST) return n;
  Node *y = layout_convert(g, n);
  if (!y || y == g->poison) return n;
  if (n->nres == 1) {
    y = same_or(g, layout_first(g, y, type_of(n)->rank), n);
    l->c->report->layout.channels_last_nodes += y != n;
    return y;
  }
  l->c->report->layout.channels_last_nodes++;
  intmap_put(&l->results, old->id, (uint64_t)(uintptr_t)y);
  return n;
}

static void reference_sizes(Layout *l) {
  binding_init(&l->sizes, l->arena, l->g);
  for (int32_t i = 0; i < l->sizes.n; i++) {
    l->sizes.value[i] = REFERENCE_SIZE;
    l->sizes.known[i] = true;
  }
}

tenon_status pass_choose_layout(PassCtx *c, bool *out_changed) {
  static const RuleSet *const sets[] = {&rules_movement};
  Arena a;
  if (c->fire_limit && *c->fire_limit <= 0) return TENON_OK;
  if (c->fire_limit) --*c->fire_limit;  // one step for --bisect
  arena_init_scoped(&a);
  Layout l = {.c = c, .g = c->g, .arena = &a};
  reference_sizes(&l);
  l.pos = arena_array(&a, int32_t, c->g->node.n);
  l.state = arena_array(&a, uint8_t, c->g->node.n);
  intmap_init(&l.results, &a);
  GraphMap m = {.g = c->g, .fn = layout_node, .ctx = &l, .begin_body = begin_body};
  tenon_status s = graph_map(&m, out_changed);
  arena_deinit(&a);
  if (s || !*out_changed) return s;
  bool more;
  TRY(pass_rewrite(c, sets, ARRAY_LEN(sets), &more));
  return pass_fold_constants(c, &more);
}
