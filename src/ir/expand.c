// expand.c -- decomposes composites (expand.h).
//
// A node of several results is seen through its projections, so each of these is replaced by the
// result that it stands for.
#include "ir/expand.h"

#include "ir/internal.h"
#include "ir/rule.h"

typedef struct Expand {
  Graph *g;
  const char *const *ops;
  IntMap done;  // node -> its results, or 0 where it stays whole
} Expand;

static bool is_wanted(const Expand *e, const Node *n) {
  for (const char *const *op = e->ops; *op; op++)
    if (!strcmp(op_name(n), *op)) return op_info(n->op)->expand != NULL;
  return false;
}

// NULL: it stays whole.
static Node **results_of(Expand *e, const Node *n) {
  uint64_t known;
  if (!is_wanted(e, n)) return NULL;
  if (intmap_get(&e->done, (uint64_t)(uintptr_t)n, &known)) return (Node **)(uintptr_t)known;
  Node **out = arena_array(&e->g->arena, Node *, n->nres);
  op_info(n->op)->expand(e->g, n, out);
  if (graph_status(e->g) || !out[0]) out = NULL;
  intmap_put(&e->done, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)out);
  return out;
}

static Node *decompose(void *ctx, Node *n, Node *old) {
  Expand *e = ctx;
  Node **out;
  (void)old;
  if (n->op == OP_proj) {
    out = results_of(e, n->src[0]);
    return out ? out[((const proj_attrs *)n->attrs)->index] : n;
  }
  out = n->nres == 1 ? results_of(e, n) : NULL;
  return out ? out[0] : n;
}

tenon_status graph_expand(Graph *g, const char *const *ops, bool *out_changed) {
  Expand e = {.g = g, .ops = ops};
  intmap_init(&e.done, &g->arena);
  return graph_map(&(GraphMap){.g = g, .fn = decompose, .ctx = &e}, out_changed);
}
