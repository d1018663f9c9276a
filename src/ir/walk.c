// walk.c -- the nodes of a body in order: operands before users.
//
// Ids ascend from operand to user, so the reachable set sorted by id is a topological order, and
// the same graph always gives the same list.  A small body in a large graph (a kernel) costs its
// own size, not the graph's: its nodes are kept in a map and sorted; past SMALL nodes a mark for
// every node of the graph is cheaper.
#include "ir/internal.h"

#include <stdlib.h>

enum { SMALL = 512 };

typedef VEC(Node *) Nodes;

static void push_roots(const Body *b, Arena *a, Nodes *stack) {
  for (int64_t i = 0; i < b->nparams; i++) vec_push(a, stack, b->param[i]);
  for (int64_t i = 0; i < b->nresults; i++) vec_push(a, stack, b->result[i]);
}

static int by_id(const void *a, const void *b) {
  uint32_t x = (*(Node *const *)a)->id, y = (*(Node *const *)b)->id;
  return x < y ? -1 : x > y;
}

// False when there are more than SMALL.
static bool small_order(const Body *b, Arena *a, NodeList *out) {
  IntMap seen;
  Nodes stack = {0}, found = {0};
  uint64_t have;
  intmap_init(&seen, a);
  push_roots(b, a, &stack);
  while (stack.n) {
    Node *n = stack.v[--stack.n];
    if (intmap_get(&seen, n->id, &have)) continue;
    if (found.n == SMALL) return false;
    intmap_put(&seen, n->id, 1);
    vec_push(a, &found, n);
    for (uint32_t i = 0; i < n->nsrc; i++) vec_push(a, &stack, n->src[i]);
  }
  if (found.n) qsort(found.v, (size_t)found.n, sizeof *found.v, by_id);
  *out = (NodeList){found.v, found.n};
  return true;
}

NodeList body_order(Graph *g, const Body *b, Arena *a) {
  NodeList list = {0};
  if (g->node.n > SMALL && small_order(b, a, &list)) return list;
  uint8_t *seen = arena_array(a, uint8_t, g->node.n);
  Nodes stack = {0};
  int64_t count = 0;
  push_roots(b, a, &stack);
  while (stack.n) {
    Node *n = stack.v[--stack.n];
    if (seen[n->id]) continue;
    seen[n->id] = 1;
    count++;
    for (uint32_t i = 0; i < n->nsrc; i++)
      if (!seen[n->src[i]->id]) vec_push(a, &stack, n->src[i]);
  }
  list = (NodeList){arena_array(a, Node *, count), 0};
  for (int64_t i = 0; i < g->node.n; i++)
    if (seen[i]) list.v[list.n++] = g->node.v[i];
  return list;
}
