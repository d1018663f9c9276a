// map.c -- rebuilding a graph node by node.
//
// Nodes are immutable, so a change below means new nodes above: each body is walked operands first,
// every node is made again over its operands' replacements (the same node, by hash-consing, where
// nothing changed) and handed to the caller's function.  Bodies of control flow are rebuilt before
// the node that holds them.
//
// Guarantees: names stay; parameters stay the same nodes; dead code is left behind.
#include "ir/internal.h"

#include "base/budget.h"
#include "ir/rule.h"

typedef struct Mapper {
  const GraphMap *m;
  IntMap bodies;  // Body -> new Body
  Node **to;  // by node id, of the nodes that were there: what stands in its place; NULL: itself
  int64_t nto;
  Arena *arena;
  bool changed;
} Mapper;

static tenon_status map_body(Mapper *mp, const Body *b, Body **out);

static Node *lookup(const Mapper *mp, Node *n) {
  Node *to = n->id < mp->nto ? mp->to[n->id] : NULL;
  return to ? to : n;
}

// The attributes of a control-flow node with its bodies rebuilt; the same pointer when none
// changed.
static tenon_status map_attrs(Mapper *mp, const Node *n, const void **out) {
  const OpInfo *op = op_info(n->op);
  *out = n->attrs;
  for (int i = 0; i < op->nattrs; i++) {
    if (op->attrs[i].kind != ATTR_body) continue;
    const Body *b = *(const Body *const *)((const char *)n->attrs + op->attrs[i].offset);
    if (!b) continue;
    Body *nb;
    TRY(map_body(mp, b, &nb));
    if (nb == b) continue;
    if (*out == n->attrs) *out = arena_dup(mp->arena, n->attrs, op->attrs_size);
    *(const Body **)((char *)(uintptr_t)*out + op->attrs[i].offset) = nb;
  }
  return TENON_OK;
}

static tenon_status rebuild(Mapper *mp, Node *n, Node **out) {
  Graph *g = mp->m->g;
  *out = n;
  if (n->op == OP_param || n->op == OP_const || n == g->none) return TENON_OK;
  if (n->op == OP_proj) {
    *out = node_proj(g, lookup(mp, n->src[0]), (int)((const proj_attrs *)n->attrs)->index);
    if (*out != n && *out != g->poison && !(*out)->name) (*out)->name = n->name;
    return graph_status(g);
  }
  const void *attrs = n->attrs;
  if (op_info(n->op)->flags & OPF_CONTROL) TRY(map_attrs(mp, n, &attrs));
  bool same = attrs == n->attrs;
  for (uint32_t i = 0; same && i < n->nsrc; i++) same = lookup(mp, n->src[i]) == n->src[i];
  if (same) return TENON_OK;
  Node **src = arena_array(mp->arena, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = lookup(mp, n->src[i]);
  *out = node_new(g, n->op, (int)n->nsrc, src, attrs, n->nres, n->name);
  return graph_status(g);
}

static tenon_status map_body(Mapper *mp, const Body *b, Body **out) {
  Graph *g = mp->m->g;
  uint64_t have;
  if (intmap_get(&mp->bodies, (uint64_t)(uintptr_t)b, &have)) {
    *out = (Body *)(uintptr_t)have;
    return TENON_OK;
  }
  NodeList order = body_order(g, b, mp->arena);
  if (mp->m->begin_body) mp->m->begin_body(mp->m->ctx, b, order);
  // A constant may stand in several bodies, and be replaced in each by something else.
  Node **outer = arena_array(mp->arena, Node *, order.n);
  for (int64_t i = 0; i < order.n; i++) {
    CHECK(order.v[i]->id < mp->nto, "a body that was made while its graph is mapped");
    outer[i] = mp->to[order.v[i]->id];
    mp->to[order.v[i]->id] = NULL;
  }
  for (int64_t i = 0; i < order.n; i++) {
    Node *n = order.v[i], *r;
    TRY(rebuild(mp, n, &r));
    if (mp->m->fn && n->op != OP_param && n != g->none) {
      at_work_node(n->name);
      budget_check();
      g->origin = n->name;  // what replaces a node is named after it, whatever made it
      r = mp->m->fn(mp->m->ctx, r, n);
      g->origin = NULL;
      TRY(graph_status(g));
    }
    mp->to[n->id] = r;
  }
  bool same = true;
  Node **result = arena_array(mp->arena, Node *, b->nresults);
  for (int64_t i = 0; i < b->nresults; i++) {
    result[i] = lookup(mp, b->result[i]);
    same &= result[i] == b->result[i];
  }
  *out = (Body *)(uintptr_t)b;
  if (!same) {
    *out = body_new(g, b->name, b->nparams, b->param, b->nresults, result);
    for (int64_t i = 0; i < b->nresults; i++) (*out)->result_name[i] = b->result_name[i];
    mp->changed = true;
  }
  for (int64_t i = 0; i < order.n; i++) mp->to[order.v[i]->id] = outer[i];
  intmap_put(&mp->bodies, (uint64_t)(uintptr_t)b, (uint64_t)(uintptr_t)*out);
  if (mp->m->end_body) mp->m->end_body(mp->m->ctx);
  return TENON_OK;
}

tenon_status graph_map(const GraphMap *m, bool *out_changed) {
  Graph *g = m->g;
  Arena arena;  // not the graph's scratch: node_new uses that
  arena_init(&arena);
  Mapper mp = {.m = m, .arena = &arena};
  Trap t;
  trap_enter(&t, g->diag);
  if (setjmp(t.env) == 0) {
    intmap_init(&mp.bodies, &arena);
    mp.nto = g->node.n;
    mp.to = arena_array(&arena, Node *, mp.nto);
    Body *main = NULL;
    t.status = map_body(&mp, g->main, &main);
    if (!t.status && main != g->main) {
      g->body.n--;  // the list holds every body but main
      g->main = main;
    }
  }
  trap_leave(&t);
  g->origin = NULL;
  arena_deinit(&arena);
  *out_changed = mp.changed;
  return t.status;
}
