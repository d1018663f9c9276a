// walk.c -- the nodes of a body in order: operands before users.
//
// Ids ascend from operand to user, so the reachable set sorted by id is a topological order, and the same
// graph always gives the same list.
#include "ir/internal.h"

NodeList body_order(Graph *g, const Body *b, Arena *a) {
  uint8_t *seen = arena_array(a, uint8_t, g->node.n);
  VEC(Node *) stack = {0};
  int64_t count = 0;
  for (int64_t i = 0; i < b->nparams; i++) vec_push(a, &stack, b->param[i]);
  for (int64_t i = 0; i < b->nresults; i++) vec_push(a, &stack, b->result[i]);
  while (stack.n) {
    Node *n = stack.v[--stack.n];
    if (seen[n->id]) continue;
    seen[n->id] = 1;
    count++;
    for (uint32_t i = 0; i < n->nsrc; i++)
      if (!seen[n->src[i]->id]) vec_push(a, &stack, n->src[i]);
  }
  NodeList list = {arena_array(a, Node *, count), 0};
  for (int64_t i = 0; i < g->node.n; i++)
    if (seen[i]) list.v[list.n++] = g->node.v[i];
  return list;
}
