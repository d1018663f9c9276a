// dead.c -- what a file holds that no output needs.
//
// Backwards from the graph's outputs, by name: a node is needed when one of its results is, and
// then needs its inputs and every outer name that its sub-graphs mention.
//
// Needs:      a model that was imported, so that names are defined once and sub-graphs are not
//             nested too deep.
// Guarantees: a name that stands in a needed sub-graph counts as needed, even where an inner value
//             hides it.
#include "frontends/onnx/onnx.h"

typedef struct DeadFinder {
  Arena *arena;
  StrMap need, maker;  // name -> itself; name -> the node that makes it
  VEC(Str) todo;
} DeadFinder;

static void need(DeadFinder *f, Str name) {
  if (!name.n || strmap_has(&f->need, name)) return;
  strmap_put(&f->need, name, (void *)(uintptr_t)name.p);
  vec_push(f->arena, &f->todo, name);
}

static void need_node(DeadFinder *f, const OnnxNode *n);

static void need_graph(DeadFinder *f, const OnnxGraph *g) {
  for (int64_t i = 0; i < g->outputs.n; i++) need(f, g->outputs.v[i].name);
  for (int64_t i = 0; i < g->nodes.n; i++) need_node(f, &g->nodes.v[i]);
}

static void need_node(DeadFinder *f, const OnnxNode *n) {
  for (int64_t i = 0; i < n->inputs.n; i++) need(f, n->inputs.v[i]);
  for (int64_t i = 0; i < n->nattrs; i++) {
    if (n->attrs[i].g) need_graph(f, n->attrs[i].g);
    for (int64_t k = 0; k < n->attrs[i].graphs.n; k++) need_graph(f, n->attrs[i].graphs.v[k]);
  }
}

void onnx_find_dead(const OnnxModel *m, Arena *a, OnnxDead *out) {
  const OnnxGraph *g = &m->graph;
  DeadFinder f = {.arena = a};
  *out = (OnnxDead){{0}, {0}};
  strmap_init(&f.need, a);
  strmap_init(&f.maker, a);
  for (int64_t i = 0; i < g->nodes.n; i++)
    for (int64_t k = 0; k < g->nodes.v[i].outputs.n; k++)
      if (g->nodes.v[i].outputs.v[k].n)
        strmap_put(&f.maker, g->nodes.v[i].outputs.v[k], (void *)(uintptr_t)(i + 1));
  bool *needed = arena_array(a, bool, g->nodes.n);
  for (int64_t i = 0; i < g->outputs.n; i++) need(&f, g->outputs.v[i].name);
  while (f.todo.n) {
    int64_t at = (int64_t)(uintptr_t)strmap_get(&f.maker, f.todo.v[--f.todo.n]) - 1;
    if (at < 0 || needed[at]) continue;
    needed[at] = true;
    need_node(&f, &g->nodes.v[at]);
  }
  for (int64_t i = 0; i < g->nodes.n; i++)
    if (!needed[i]) vec_push(a, &out->nodes, &g->nodes.v[i]);
  for (int64_t i = 0; i < g->initializers.n; i++)
    if (!strmap_has(&f.need, g->initializers.v[i].name))
      vec_push(a, &out->weights, &g->initializers.v[i]);
}
