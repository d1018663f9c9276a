// explain.c -- follows nodes by name from the graph as it was to the kernels that it became
// (explain.h).
//
// Needs:      the firings that the pass manager notes with OptOptions.record.
// Guarantees: every node of the main body is listed; one that is still there has a place.
#include "analyse/explain.h"

static bool is_work(const Node *n) {
  return n->op != OP_param && n->op != OP_const && n->op != OP_proj && n->op != OP_none;
}

void explain_before(Explain *x, Graph *g, Arena *a) {
  *x = (Explain){.g = g, .arena = a};
  NodeList order = body_order(g, g->main, a);
  int32_t *at = arena_array(a, int32_t, g->node.n);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    at[n->id] = -1;
    if (n->op == OP_proj) at[n->id] = at[n->src[0]->id];
    if (!is_work(n)) continue;
    at[n->id] = (int32_t)x->node.n;
    ExplainNode o = {.node = n, .user = -1, .constant = n->nsrc > 0, .into = -1};
    for (uint32_t k = 0; k < n->nsrc; k++) {
      int32_t s = at[n->src[k]->id];
      o.constant &=
          s >= 0 ? x->node.v[s].constant : n->src[k]->op == OP_const || n->src[k]->op == OP_none;
      if (s >= 0 && x->node.v[s].user < 0) x->node.v[s].user = (int32_t)x->node.n;
    }
    vec_push(a, &x->node, o);
  }
}

// ---- kernels ----

static void put_place(Explain *x, const char *name, int32_t kernel) {
  if (!name) return;
  const ExplainPlace *have = strmap_get(&x->places, str_of(name));
  if (have && have->kernel == kernel) return;
  ExplainPlace *p = arena_new(x->arena, ExplainPlace);
  *p = (ExplainPlace){kernel, have};
  strmap_put(&x->places, str_of(name), p);
}

static void list_kernels(Explain *x, const DimBinding *sizes) {
  Arena *a = x->arena;
  Graph *g = x->g;
  NodeList order = body_order(g, g->main, a);
  for (int64_t i = 0; i < order.n; i++) {
    const Node *n = order.v[i];
    if (!is_work(n)) continue;
    if (n->op != OP_fused) {
      put_place(x, n->name, -1);
      continue;
    }
    NodeCost cost;
    cost_node(g, n, sizes, a, &cost);
    ExplainKernel k = {.node = n, .bytes = cost.bytes, .flops = cost.flops};
    k.unfused_bytes = kernel_unfused_bytes(g, n, sizes, a, &k.nodes);
    NodeList inner = body_order(g, ((const fused_attrs *)n->attrs)->body, a);
    for (int64_t j = 0; j < inner.n; j++)
      if (is_work(inner.v[j])) put_place(x, inner.v[j]->name, (int32_t)x->kernel.n);
    vec_push(a, &x->kernel, k);
  }
}

// ---- rules ----

static const ExplainPlace *place_of(const Explain *x, const char *name) {
  return name ? strmap_get(&x->places, str_of(name)) : NULL;
}

static const ExplainPlace *firing_place(const Explain *x, const RuleFiring *r) {
  const ExplainPlace *p = place_of(x, r->to);
  return p ? p : place_of(x, r->from);
}

static void add_kernel_rule(Explain *x, int32_t kernel, int32_t rule) {
  ExplainKernel *k = &x->kernel.v[kernel];
  for (int64_t i = 0; i < k->rule.n; i++)
    if (k->rule.v[i] == rule) return;
  vec_push(x->arena, &k->rule, rule);
}

static void list_rules(Explain *x, OptReport *report) {
  for (int64_t i = 0; i < report->fired.n; i++) {
    RuleFiring *r = &report->fired.v[i];
    uint64_t key = (uint64_t)(uintptr_t)r->rule, at;
    if (r->from) strmap_put(&x->fired, str_of(r->from), r);
    if (!intmap_get(&x->rules, key, &at)) {
      at = (uint64_t)x->rule.n;
      intmap_put(&x->rules, key, at);
      vec_push(x->arena, &x->rule, ((ExplainRule){r->rule, r->pass, 0}));
    }
    x->rule.v[at].fired++;
    for (const ExplainPlace *p = firing_place(x, r); p; p = p->next)
      if (p->kernel >= 0) add_kernel_rule(x, p->kernel, (int32_t)at);
  }
}

// The rule that took a node away: fired at its name, or at the nearest user's.
static const RuleFiring *taken_by(const Explain *x, int64_t i) {
  enum { FAR = 64 };
  for (int step = 0; step < FAR && i >= 0; step++) {
    const char *name = x->node.v[i].node->name;
    const RuleFiring *r = name ? strmap_get(&x->fired, str_of(name)) : NULL;
    if (r) return r;
    if (step && place_of(x, name)) return NULL;
    i = x->node.v[i].user;
  }
  return NULL;
}

void explain_after(Explain *x, OptReport *report, const DimBinding *sizes) {
  strmap_init(&x->places, x->arena);
  strmap_init(&x->fired, x->arena);
  intmap_init(&x->rules, x->arena);
  list_kernels(x, sizes);
  list_rules(x, report);
  for (int64_t i = 0; i < x->node.n; i++) {
    ExplainNode *n = &x->node.v[i];
    n->place = place_of(x, n->node->name);
    n->own = n->node->name ? strmap_get(&x->fired, str_of(n->node->name)) : NULL;
    n->rule = taken_by(x, i);
  }
  for (int64_t i = x->node.n - 1; i >= 0; i--) {  // users come later in the list
    ExplainNode *n = &x->node.v[i];
    if (!explain_removed(n)) continue;
    const ExplainPlace *p = firing_place(x, n->rule);
    const ExplainNode *user = n->user >= 0 ? &x->node.v[n->user] : NULL;
    n->into = p ? p->kernel : !user ? -1 : user->place ? user->place->kernel : user->into;
  }
}
