// reorder_matmuls.c -- the pass reorder-matmuls: the cheapest order of a matrix chain.
//
// a b c d is the same however it is bracketed, but not as cheap.  A chain is a tree of mat_mul
// whose inner products have no other user: all of rank 2, all with the same batch axes, or matrices
// after a first factor of any rank.  Dynamic programming over all parts of the chain finds the
// order with the fewest multiplications.  Products of constants alone cost nothing, since folding
// computes them.
//
// Symbols are given a value for this: where one polynomial is below another for all sizes it is so
// for these.
//
// Needs:      recognise-composites has run: the two products of attention are no chain.
// Guarantees: the chain stays unless the new order is cheaper; floats only under FAST_REASSOC.
#include "passes/passes.h"
#include "rules/factor.h"

enum { MAX_CHAIN = 64, DEFAULT_SIZE = 64 };

typedef struct Chain {
  PassCtx *c;
  Arena *arena;
  IntMap inner;   // node id -> 1: a product inside a chain
  IntMap root;    // node id -> 1
  int64_t *bind;  // a size for each symbol
  bool *bound;
  int32_t nbind;
  // of the chain at hand
  Node *factor[MAX_CHAIN];
  bool fixed[MAX_CHAIN];
  double size[MAX_CHAIN + 1];  // factor i is size[i] by size[i + 1]
  int n;
  double best[MAX_CHAIN][MAX_CHAIN];
  uint8_t cut[MAX_CHAIN][MAX_CHAIN];
} Chain;

// Batch axes equal, or a matrix on the right of anything.
static bool chains(const Node *n) {
  if (n->op != OP_mat_mul) return false;
  const Type *a = type_of(n->src[0]), *b = type_of(n->src[1]);
  if (a->rank < 2 || b->rank < 2) return false;
  if (b->rank == 2) return true;
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank - 2; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

// Whether product `s` may be opened inside its user n.
static bool joins(const Node *n, int side, const Node *s) {
  if (!chains(s)) return false;
  const Type *t = type_of(n->src[1 - side]), *a = type_of(s->src[0]), *b = type_of(s->src[1]);
  if (side == 1) return a->rank == b->rank;  // x (a b): both may follow x
  return b->rank == 2 ? t->rank == 2 : t->rank == b->rank;
}

static void begin_body(void *ctx, const Body *b, NodeList order) {
  Chain *ch = ctx;
  IntMap uses;
  bool any = false;
  for (int64_t i = 0; !any && i < order.n; i++)
    any = chains(order.v[i]) && (chains(order.v[i]->src[0]) || chains(order.v[i]->src[1]));
  if (!any) return;
  intmap_init(&uses, ch->arena);
  for (int64_t i = 0; i < order.n; i++)
    for (uint32_t k = 0; k < order.v[i]->nsrc; k++) {
      uint64_t v = 0;
      intmap_get(&uses, order.v[i]->src[k]->id, &v);
      intmap_put(&uses, order.v[i]->src[k]->id, v + 1);
    }
  for (int64_t i = 0; i < b->nresults; i++) intmap_put(&uses, b->result[i]->id, UINT32_MAX);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (!chains(n)) continue;
    for (int side = 0; side < 2; side++) {
      uint64_t v = 0;
      if (intmap_get(&uses, n->src[side]->id, &v) && v == 1 && joins(n, side, n->src[side]))
        intmap_put(&ch->inner, n->src[side]->id, 1);
    }
    intmap_put(&ch->root, n->id, 1);
  }
}

// ---- one chain ----

// Each product on the way down brings a factor: a chain that is too long is given up before the
// stack is deep.
static bool flatten(Chain *ch, const Node *old, Node *n, int depth) {
  if (depth == MAX_CHAIN) return false;
  for (int side = 0; side < 2; side++) {
    uint64_t unused;
    bool opens =
        intmap_get(&ch->inner, old->src[side]->id, &unused) && n->src[side]->op == OP_mat_mul;
    if (opens) {
      if (!flatten(ch, old->src[side], n->src[side], depth + 1)) return false;
    } else {
      if (ch->n == MAX_CHAIN) return false;
      ch->factor[ch->n++] = n->src[side];
    }
  }
  return true;
}

static double size_of(Chain *ch, Dim d) {
  const IntPool *p = &ch->c->g->dims;
  int64_t v;
  if (ie_is_const(d)) return (double)d->value;
  if (ch->nbind < p->nsyms) {
    ch->nbind = 2 * p->nsyms;
    ch->bind = arena_array(ch->arena, int64_t, ch->nbind);
    ch->bound = arena_array(ch->arena, bool, ch->nbind);
    for (int32_t i = 0; i < p->nsyms; i++) {
      ch->bind[i] = MIN(MAX(DEFAULT_SIZE, p->sym.v[i]->lo), p->sym.v[i]->hi);
      ch->bound[i] = true;
    }
  }
  return ie_eval(d, ch->bind, ch->bound, p->nsyms, &v) ? (double)v : DEFAULT_SIZE;
}

static void measure(Chain *ch) {
  const Type *first = type_of(ch->factor[0]);
  ch->size[0] = 1;
  bool batched = type_of(ch->factor[ch->n - 1])->rank > 2;  // then the batch is a common factor
  for (int i = batched ? first->rank - 2 : 0; i < first->rank - 1; i++)
    ch->size[0] *= size_of(ch, first->dims[i]);
  for (int i = 0; i < ch->n; i++) {
    const Type *t = type_of(ch->factor[i]);
    ch->size[i + 1] = size_of(ch, t->dims[t->rank - 1]);
    ch->fixed[i] = ch->factor[i]->op == OP_const;
  }
}

static double step_cost(const Chain *ch, int i, int k, int j, bool fixed) {
  return fixed ? 0 : ch->size[i] * ch->size[k + 1] * ch->size[j + 1];
}

static void fill_table(Chain *ch) {
  for (int len = 2; len <= ch->n; len++)
    for (int i = 0; i + len <= ch->n; i++) {
      int j = i + len - 1;
      bool fixed = true;
      for (int k = i; k <= j; k++) fixed &= ch->fixed[k];
      ch->best[i][j] = -1;
      for (int k = i; k < j; k++) {
        double cost = ch->best[i][k] + ch->best[k + 1][j] + step_cost(ch, i, k, j, fixed);
        if (ch->best[i][j] >= 0 && cost >= ch->best[i][j]) continue;
        ch->best[i][j] = cost;
        ch->cut[i][j] = (uint8_t)k;
      }
    }
}

// What the order that is there costs; *at walks along the factors.
static double cost_now(const Chain *ch, const Node *old, const Node *n, int *at, bool *fixed) {
  double cost = 0;
  int from = *at, middle = 0;
  *fixed = true;
  for (int side = 0; side < 2; side++) {
    uint64_t unused;
    bool opens =
        intmap_get(&ch->inner, old->src[side]->id, &unused) && n->src[side]->op == OP_mat_mul;
    bool part = false;
    if (opens)
      cost += cost_now(ch, old->src[side], n->src[side], at, &part);
    else
      part = ch->fixed[(*at)++];
    *fixed &= part;
    if (!side) middle = *at - 1;
  }
  return cost + step_cost(ch, from, middle, *at - 1, *fixed);
}

// Whether products of constants that follow one another are in the range of their data type.
static bool constants_fit(const Chain *ch) {
  DType t = type_of(ch->factor[0])->dtype;
  for (int i = 0, end; i < ch->n; i = end) {
    double peak = 1, terms = 1;
    for (end = i; end < ch->n && ch->fixed[end]; end++) {
      peak *= const_peak(ch->c->g, ch->factor[end]);
      if (end > i) terms *= ch->size[end];
    }
    if (end - i > 1 && peak != 0 && (!is_normal_in(t, peak) || !is_finite_in(t, peak * terms)))
      return false;
    end = MAX(end, i + 1);
  }
  return true;
}

static Node *build(const Chain *ch, int i, int j) {
  if (i == j) return ch->factor[i];
  int k = ch->cut[i][j];
  return N(ch->c->g, mat_mul, build(ch, i, k), build(ch, k + 1, j));
}

static Node *reorder(void *ctx, Node *n, Node *old) {
  Chain *ch = ctx;
  uint64_t unused;
  if (n->op != OP_mat_mul || old->op != OP_mat_mul || !intmap_get(&ch->root, old->id, &unused) ||
      intmap_get(&ch->inner, old->id, &unused))
    return n;
  if (dtype_is_float(type_of(n)->dtype) && !(ch->c->o->fast & FAST_REASSOC)) return n;
  ch->n = 0;
  if (!flatten(ch, old, n, 0) || ch->n < 3) return n;
  measure(ch);
  for (int i = 0; i < ch->n; i++) ch->best[i][i] = 0;
  fill_table(ch);
  int at = 0;
  bool fixed;
  if (ch->best[0][ch->n - 1] >= cost_now(ch, old, n, &at, &fixed)) return n;
  if (dtype_is_float(type_of(n)->dtype) && !constants_fit(ch)) return n;
  Node *r = build(ch, 0, ch->n - 1);
  return r != ch->c->g->poison && type_of(r) == type_of(n) ? r : n;
}

tenon_status pass_reorder_matmuls(PassCtx *c, bool *out_changed) {
  Arena a;
  if (c->o->batch_invariant) return TENON_OK;
  arena_init_scoped(&a);
  Chain *ch = arena_new(&a, Chain);
  ch->c = c;
  ch->arena = &a;
  intmap_init(&ch->inner, &a);
  intmap_init(&ch->root, &a);
  GraphMap m = {.g = c->g, .fn = reorder, .ctx = ch, .begin_body = begin_body};
  tenon_status s = graph_map(&m, out_changed);
  arena_deinit(&a);
  return s;
}
