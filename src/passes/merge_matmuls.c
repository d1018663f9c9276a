// merge_matmuls.c -- the pass merge-matmuls: products of one tensor with several weights as one
// product (Q, K and V).
//
// mat_mul(x, w1), mat_mul(x, w2), ... with constant matrices, each with a constant bias or without,
// become one product with the weights concatenated, and a slice for each.  x is read once and the
// product is large enough for every core.  The pass does so where the results are only moved or
// contracted: arithmetic on a result would be an epilogue of its own product, but not of a slice.
// What keeps its precision by name stays by itself.
//
// Needs:      recognise-composites has run, so that the remaining users of a result are known.
// Guarantees: bit-equal: a column of a product depends on its own weights alone.  Where only others
//             have a bias, -0 is added, which changes nothing.
#include "eval/movement.h"
#include "passes/passes.h"
#include "rules/shape.h"

enum { MAX_MEMBERS = 16 };
typedef struct Member {
  const Node *product, *root;  // the sum with the bias, or the product itself
  Node *w, *bias;
  int64_t at, size;  // columns
  struct Group *group;
} Member;
typedef struct Group {
  Node *x;
  Member member[MAX_MEMBERS];
  int n;
  bool biased;  // some member is
  int64_t bytes;
} Group;
typedef struct Parallel {
  PassCtx *c;
  Arena *arena;
  IntMap groups;   // id of x -> Group
  IntMap members;  // id of the root -> Member, once the group is worth it
} Parallel;

typedef struct Uses {
  int64_t n;
  const Node *only;  // the last user seen
  bool computed;     // by an element-wise op
} Uses;

static Uses *uses_of(IntMap *m, Arena *a, const Node *n) {
  uint64_t v;
  if (intmap_get(m, n->id, &v)) return (Uses *)(uintptr_t)v;
  Uses *u = arena_new(a, Uses);
  intmap_put(m, n->id, (uint64_t)(uintptr_t)u);
  return u;
}

static bool is_product(const Node *n) {
  return n->op == OP_mat_mul && n->src[1]->op == OP_const && type_of(n->src[1])->rank == 2 &&
         type_of(n->src[0])->rank >= 2 && type_is_static(type_of(n->src[1]));
}

// The bias that is the product's only user; NULL when there is none.
static Node *bias_of(const Node *product, const Uses *u) {
  if (u->n != 1 || !u->only || u->only->op != OP_add || type_of(u->only) != type_of(product))
    return NULL;
  Node *other = u->only->src[u->only->src[0] == product];
  const Type *t = type_of(other), *p = type_of(product);
  return other->op == OP_const && t->rank == 1 && t->dims[0] == p->dims[p->rank - 1] ? other : NULL;
}

static void add_member(Parallel *p, IntMap *uses, Node *n) {
  Uses *u = uses_of(uses, p->arena, n);
  Node *bias = bias_of(n, u);
  const Node *root = bias ? u->only : n;
  if (uses_of(uses, p->arena, root)->computed) return;
  uint64_t v;
  Group *g = NULL;
  if (intmap_get(&p->groups, n->src[0]->id, &v)) {
    g = (Group *)(uintptr_t)v;
  } else {
    g = arena_new(p->arena, Group);
    g->x = n->src[0];
    intmap_put(&p->groups, n->src[0]->id, (uint64_t)(uintptr_t)g);
  }
  int64_t bytes = n->src[1]->data->bytes;
  if (g->n == MAX_MEMBERS || g->bytes + bytes > p->c->o->fold_limit) return;
  Member *m = &g->member[g->n++];
  int64_t at = g->n > 1 ? m[-1].at + m[-1].size : 0;
  *m = (Member){n, root, n->src[1], bias, at, type_of(n->src[1])->dims[1]->value, g};
  g->biased |= bias != NULL;
  g->bytes += bytes;
}

static void begin_body(void *ctx, const Body *b, NodeList order) {
  Parallel *p = ctx;
  IntMap uses;
  int64_t products = 0;
  for (int64_t i = 0; i < order.n; i++) products += is_product(order.v[i]);
  if (products < 2) return;
  intmap_init(&uses, p->arena);
  intmap_init(&p->groups, p->arena);
  for (int64_t i = 0; i < order.n; i++)
    for (uint32_t k = 0; k < order.v[i]->nsrc; k++) {
      Uses *u = uses_of(&uses, p->arena, order.v[i]->src[k]);
      u->n++;
      u->only = order.v[i];
      u->computed |= (op_info(order.v[i]->op)->flags & OPF_ELEMENTWISE) != 0;
    }
  for (int64_t i = 0; i < b->nresults; i++) {
    Uses *u = uses_of(&uses, p->arena, b->result[i]);
    u->n++;
    u->computed = true;  // a result of its own is computed where it stands
  }
  for (int64_t i = 0; i < order.n; i++)
    if (is_product(order.v[i]) && !opt_keeps(p->c->o, order.v[i])) add_member(p, &uses, order.v[i]);
  for (int64_t i = 0; i < order.n; i++) {
    uint64_t v;
    if (!intmap_get(&p->groups, order.v[i]->id, &v)) continue;
    Group *g = (Group *)(uintptr_t)v;
    for (int k = 0; k < g->n && g->n > 1; k++)
      intmap_put(&p->members, g->member[k].root->id, (uint64_t)(uintptr_t)&g->member[k]);
  }
}

static Node *no_bias(Graph *g, const Member *m) {
  return N(g, expand, node_scalar(g, type_of(m->w)->dtype, -0.0), node_i64s(g, 1, &m->size));
}

static Node *join(Graph *g, const Group *gr, bool bias) {
  Node *src[MAX_MEMBERS];
  for (int i = 0; i < gr->n; i++) {
    const Member *m = &gr->member[i];
    src[i] = !bias ? m->w : m->bias ? m->bias : no_bias(g, m);
  }
  concat_attrs at = {.axis = bias ? 0 : 1};
  return node_new(g, OP_concat, gr->n, src, &at, 1, NULL);
}

// For explain: merging is no pattern, but it takes nodes away as rules do.
static const Rule merge_rule = {
    .file = __FILE__, .line = __LINE__, .name = "mat_mul.parallel", .fast = FAST_REASSOC};
static void note_merge(const PassCtx *c, const Node *from, const Node *to) {
  if (!c->o->record) return;
  vec_push(c->report->arena, &c->report->fired,
           ((RuleFiring){&merge_rule, c->pass, from->name, to->name, from->op, to->op}));
}

static Node *merge_node(void *ctx, Node *n, Node *old) {
  Parallel *p = ctx;
  Graph *g = p->c->g;
  uint64_t v;
  if (!intmap_get(&p->members, old->id, &v)) return n;
  const Member *m = (const Member *)(uintptr_t)v;
  // The operands may have been made anew: x is found where the product has it.
  const Node *product = m->bias ? n->src[n->src[0] == m->bias] : n;
  if (product->op != OP_mat_mul) return n;
  Node *joined[] = {product->src[0], join(g, m->group, false)};
  Node *mul = node_new(g, OP_mat_mul, 2, joined, NULL, 0, product->name), *y = mul;
  if (m->group->biased)
    y = node_new(g, OP_add, 2, (Node *[]){mul, join(g, m->group, true)}, NULL, 0, n->name);
  Node *r = slice_axis(g, y, type_of(y)->rank - 1, m->at, m->at + m->size, 1);
  if (r == g->poison || type_of(r) != type_of(n)) return n;
  note_merge(p->c, product, mul);
  if (m->bias) note_merge(p->c, n, y);
  return r;
}

tenon_status pass_merge_matmuls(PassCtx *c, bool *out_changed) {
  Arena a;
  arena_init_scoped(&a);
  Parallel p = {.c = c, .arena = &a};
  intmap_init(&p.members, &a);
  GraphMap m = {.g = c->g, .fn = merge_node, .ctx = &p, .begin_body = begin_body};
  tenon_status s = graph_map(&m, out_changed);
  arena_deinit(&a);
  return s;
}
