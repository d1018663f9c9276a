// fix.c -- constants in the place of inputs (fix.h).
#include "ir/fix.h"

#include "ir/rule.h"

typedef struct Fix {
  Graph *g;
  const FixedInput *in;
  int64_t n;
  Node *const *param;
  Node **constant;
} Fix;

static Node *replaced(const Fix *f, Node *n) {
  for (int64_t i = 0; i < f->n; i++)
    if (n == f->param[f->in[i].param]) return f->constant[i];
  return n;
}

static Node *over_constants(void *ctx, Node *n, Node *old) {
  const Fix *f = ctx;
  (void)old;
  bool any = false;
  for (uint32_t i = 0; i < n->nsrc; i++) any |= replaced(f, n->src[i]) != n->src[i];
  if (!any || n->op == OP_proj) return n;
  Node **src = arena_array(&f->g->arena, Node *, n->nsrc);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = replaced(f, n->src[i]);
  return node_new(f->g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
}

tenon_status graph_fix(Graph *g, const FixedInput *in, int64_t n) {
  Fix f = {.g = g, .in = in, .n = n, .param = g->main->param};
  bool changed;
  f.constant = arena_array(&g->arena, Node *, MAX(n, 1));
  for (int64_t i = 0; i < n; i++) {
    CHECK(in[i].param >= 0 && in[i].param < g->main->nparams, "no such input");
    f.constant[i] = node_const(g, in[i].dtype, in[i].rank, in[i].dims, in[i].data,
                               g->main->param[in[i].param]->name);
  }
  TRY(graph_status(g));
  return graph_map(&(GraphMap){.g = g, .fn = over_constants, .ctx = &f}, &changed);
}
