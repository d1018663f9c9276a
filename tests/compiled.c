// compiled.c -- graphs compiled for a target, for tests (compiled.h).
#include "compiled.h"

#include "passes/passes.h"
#include "passes/plan.h"
#include "runtime/artifact.h"
#include "targets/target.h"

tenon_status compile_graph(Graph *g, const char *target, Arena *a, Diag *d, Program **out) {
  OptOptions o;
  OptReport report = {.arena = a};
  MemPlan *plan;
  *out = NULL;
  opt_defaults(&o);
  o.fast = opt_licences(o.level, false, false);
  g->diag = d;
  TRY(graph_optimise(g, &o, &report));
  TRY(plan_create(g, a, &plan));
  return target_compile(target_find(target), g, plan, a, d, out);
}

tenon_status compile_text(const char *text, const char *target, Arena *a, Diag *d, Program **out) {
  Graph *g;
  *out = NULL;
  TRY(graph_parse(str_of(text), NULL, d, &g));
  tenon_status s = compile_graph(g, target, a, d, out);
  graph_free(g);
  return s;
}

tenon_status artifact_bytes(const Program *p, Arena *a, Diag *d, Str *out) {
  Str part[ARTIFACT_PARTS];
  StrBuf b;
  strbuf_init(&b, a);
  TRY(artifact_parts(p, false, a, d, part));
  for (int i = 0; i < ARTIFACT_PARTS; i++) strbuf_put(&b, part[i]);
  char *at = arena_alloc(a, b.n + 64);
  at += -(uintptr_t)at & 63;
  *out = (Str){memcpy(at, b.p, (size_t)b.n), b.n};
  return TENON_OK;
}
