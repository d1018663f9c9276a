// rewrite.c -- applies rule sets to a graph until nothing changes.
//
// One round walks every body operands first (map.c); at each node the rules for its op are tried in
// order, again on what came out, until none fires.  Rounds repeat while something changed, since users of a rewritten node
// are seen in the same round but a use count only in the next.
//
// Guarantees: a replacement has the type of what it replaces; the same graph and sets give the same result.
// A set that does not come to an end runs into the budget, and the error names the rules that fired last.
#include "ir/internal.h"
#include "ir/rule.h"

bool pat_match(const Pat *p, Node *n, Match *m);
Node *pat_build(Graph *g, const Pat *p, const Match *m);

// Rules by root op, in the order of the sets.
struct RuleIndex {
  struct {
    const Rule **v;
    int64_t n;
  } by_op[OP_COUNT];
};

static void index_rules(Rewriter *rw, Arena *a) {
  struct RuleIndex *x = arena_new(a, struct RuleIndex);
  int64_t count[OP_COUNT] = {0};
  for (int64_t s = 0; s < rw->nsets; s++)
    for (int64_t i = 0; i < rw->set[s]->n; i++) count[rw->set[s]->rule[i].find->op]++;
  for (int op = 0; op < OP_COUNT; op++)
    if (count[op]) x->by_op[op].v = arena_array(a, const Rule *, count[op]);
  for (int64_t s = 0; s < rw->nsets; s++)
    for (int64_t i = 0; i < rw->set[s]->n; i++) {
      const Rule *r = &rw->set[s]->rule[i];
      CHECK(r->find->kind == PAT_OP, "rule %s: the root must be an op", r->name);
      if (!(r->fast & ~rw->fast)) x->by_op[r->find->op].v[x->by_op[r->find->op].n++] = r;
    }
  rw->index = x;
}

// ---- use counts ----

int64_t rewriter_uses(const Rewriter *rw, const Node *n) {
  uint64_t v = 0;
  intmap_get(&rw->uses, n->id, &v);
  return (int64_t)v;
}

static void count_uses(void *ctx, const Body *b, NodeList order) {
  Rewriter *rw = ctx;
  for (int64_t i = 0; i < order.n; i++)
    for (uint32_t k = 0; k < order.v[i]->nsrc; k++) {
      const Node *s = order.v[i]->src[k];
      intmap_put(&rw->uses, s->id, (uint64_t)rewriter_uses(rw, s) + 1);
    }
  for (int64_t i = 0; i < b->nresults; i++)
    intmap_put(&rw->uses, b->result[i]->id, (uint64_t)rewriter_uses(rw, b->result[i]) + 1);
}

// ---- firing ----

static Node *over_budget(Rewriter *rw) {
  StrBuf b;
  strbuf_init(&b, &rw->g->scratch);
  for (int i = 0; i < REWRITE_RECENT; i++) {
    const Rule *r = rw->recent[(rw->nfired + i) % REWRITE_RECENT];
    if (r) strbuf_printf(&b, " %s", r->name);
  }
  return graph_fail(rw->g, TENON_EINTERNAL, NOWHERE,
                    "rewriting does not come to an end; the last rules were%s", strbuf_text(&b));
}

static void note(Rewriter *rw, const Rule *r, const Node *from, const Node *to) {
  rw->recent[rw->nfired++ % REWRITE_RECENT] = r;
  if (rw->hits) {
    uint64_t n = 0;
    intmap_get(rw->hits, (uint64_t)(uintptr_t)r, &n);
    intmap_put(rw->hits, (uint64_t)(uintptr_t)r, n + 1);
  }
  if (rw->trace) rw->trace(rw->trace_ctx, r, from, to);
}

// A licence says that a rounding more or less does not matter; with three bits or fewer of precision every one does.
static bool is_coarse(const Node *n) {
  const Type *t = type_of(n);
  return t->kind == TK_TENSOR && dtype_is_float(t->dtype) && dtype_bits(t->dtype) <= 8;
}

// What one rule makes of a node; NULL when it does not apply.
static Node *apply(Rewriter *rw, const Rule *r, Node *n) {
  Graph *g = rw->g;
  Match m = {.g = g, .root = n, .rw = rw};
  if (r->fast && is_coarse(n)) return NULL;
  if (!pat_match(r->find, n, &m) || (r->when && !r->when(&m))) return NULL;
  Node *to = r->make ? r->make(g, &m) : pat_build(g, r->put, &m);
  if (!to || to == n || to == g->poison) return NULL;
  CHECK(to->nres == n->nres, "rule %s replaces %d results by %d", r->name, n->nres, to->nres);
  for (int i = 0; i < n->nres; i++)
    // A size that cannot be proven equal: leave it.  Two unknown ranks say nothing of each other.
    if (to->type[i] != n->type[i] || (n->type[i]->kind == TK_TENSOR && n->type[i]->rank < 0))
      return NULL;
  return to;
}

static Node *rewrite_node(void *ctx, Node *n, Node *old) {
  Rewriter *rw = ctx;
  if (n != old)  // made anew over rewritten operands: its users are the old one's
    intmap_put(&rw->uses, n->id, (uint64_t)MAX(rewriter_uses(rw, n), rewriter_uses(rw, old)));
  for (bool again = true; again;) {
    again = false;
    for (int64_t i = 0; i < rw->index->by_op[n->op].n; i++) {
      if (rw->fire_limit && *rw->fire_limit <= 0) return n;
      const Rule *r = rw->index->by_op[n->op].v[i];
      Node *to = apply(rw, r, n);
      if (rw->g->status) return rw->g->poison;
      if (!to) continue;
      if (rw->fire_limit) --*rw->fire_limit;
      note(rw, r, n, to);
      if (--rw->budget < 0) return over_budget(rw);
      if (!to->name && to->op != OP_const) to->name = n->name;
      intmap_put(&rw->uses, to->id, (uint64_t)(rewriter_uses(rw, to) + rewriter_uses(rw, n)));
      n = to;
      again = true;
      break;
    }
  }
  return n;
}

enum { MAX_ROUNDS = 64 };

tenon_status graph_rewrite(Rewriter *rw, bool *out_changed) {
  Graph *g = rw->g;
  Arena a;
  arena_init(&a);
  Trap t;
  *out_changed = false;
  trap_enter(&t, g->diag);
  if (setjmp(t.env) == 0) {
    index_rules(rw, &a);
    if (!rw->budget) rw->budget = 20 * (g->node.n + 1000);
    bool changed = true;
    for (int round = 0; changed && !t.status && round < MAX_ROUNDS; round++) {
      intmap_init(&rw->uses, &a);
      GraphMap m = {.g = g, .fn = rewrite_node, .ctx = rw, .begin_body = count_uses};
      t.status = graph_map(&m, &changed);
      *out_changed |= changed;
    }
  }
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}
