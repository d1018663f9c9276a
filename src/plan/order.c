// order.c -- a topological order that keeps little alive.
//
// Depth first from the graph's results; of a node's operands the one whose subtree is largest goes
// first (Sethi and Ullman's rule), so that its intermediate values are gone when the small ones are
// made.  Linear.
#include "plan/impl.h"

// Size of the subtree below a node, counted once for each user: a measure, not a sum of bytes.
static int64_t *subtree_sizes(Graph *g, NodeList by_id, Arena *a) {
  int64_t *size = arena_array(a, int64_t, g->node.n);
  for (int64_t i = 0; i < by_id.n; i++) {
    const Node *n = by_id.v[i];
    int64_t s = 1;
    for (uint32_t k = 0; k < n->nsrc; k++) s = MIN(s + size[n->src[k]->id], INT64_MAX / 4);
    size[n->id] = n->op == OP_const || n->op == OP_param ? 0 : s;
  }
  return size;
}

typedef struct Visit {
  Node *n;
  bool expanded;
} Visit;

NodeList plan_order_deep(Graph *g, NodeList by_id, Arena *a) {
  int64_t *size = subtree_sizes(g, by_id, a);
  uint8_t *done = arena_array(a, uint8_t, g->node.n);
  NodeList out = {arena_array(a, Node *, by_id.n), 0};
  VEC(Visit) stack = {0};
  for (int64_t i = g->main->nresults - 1; i >= 0; i--)
    vec_push(a, &stack, ((Visit){g->main->result[i], false}));
  for (int64_t i = g->main->nparams - 1; i >= 0; i--)
    vec_push(a, &stack, ((Visit){g->main->param[i], false}));
  while (stack.n) {
    Visit *v = &stack.v[stack.n - 1];
    Node *n = v->n;
    if (done[n->id]) {
      stack.n--;
      continue;
    }
    if (v->expanded) {
      done[n->id] = 1;
      out.v[out.n++] = n;
      stack.n--;
      continue;
    }
    v->expanded = true;
    // Pushed smallest first, so that the largest is on top.
    int64_t base = stack.n;
    for (uint32_t k = 0; k < n->nsrc; k++) {
      if (done[n->src[k]->id]) continue;
      vec_push(a, &stack, ((Visit){n->src[k], false}));
      for (int64_t j = stack.n - 1; j > base && size[stack.v[j].n->id] < size[stack.v[j - 1].n->id];
           j--) {
        Visit t = stack.v[j];
        stack.v[j] = stack.v[j - 1];
        stack.v[j - 1] = t;
      }
    }
  }
  return out;
}
