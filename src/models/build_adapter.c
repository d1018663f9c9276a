// build_adapter.c -- what adapters add to a product: (x A) B, with A and B of each row's own
// adapter.
#include "models/adapter.h"
#include "models/build.h"

static Node *factor(Build *b, char letter, const LlmTarget *t, int64_t rows, int64_t cols) {
  Graph *g = b->g;
  Dim dims[] = {ie_const(&g->dims, b->o->adapters), ie_const(&g->dims, rows),
                ie_const(&g->dims, cols)};
  const char *name = llm_adapter_state(&g->arena, letter, t);
  Node *n = node_state(g, type_tensor(g, DT_F32, 3, dims), name);
  vec_push(&g->arena, &b->param, n);
  return n;
}

Node *lm_adapted(Build *b, Node *x, Node *y, LlmRole role) {
  LlmTarget t;
  if (!b->adapter || !llm_target(b->m, role, b->layer, &t)) return y;
  int64_t rank = b->o->rank;
  Node *h = N(b->g, grouped_mat_mul, x, factor(b, 'a', &t, t.in, rank), b->adapter);
  return N(b->g, add, y, N(b->g, grouped_mat_mul, h, factor(b, 'b', &t, rank, t.out), b->adapter));
}
