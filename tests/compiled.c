// compiled.c -- graphs compiled for a target, for tests (compiled.h).
#include "compiled.h"

#include "loop/tile.h"
#include "passes/passes.h"
#include "passes/plan.h"
#include "runtime/artifact.h"
#include "targets/target.h"
#include "test.h"

unsigned licences(void) {
  OptOptions o;
  opt_defaults(&o);
  return opt_licences(o.level, false, false);
}

tenon_status compile_graph(Graph *g, const char *target, Arena *a, Diag *d, Program **out) {
  OptOptions o;
  OptReport report = {.arena = a};
  MemPlan *plan;
  *out = NULL;
  opt_defaults(&o);
  o.fast = licences();
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

tenon_status compile_asked(void *asked, const char *text, const char *target, Arena *a, Diag *d,
                           Program **out) {
  const Asked *k = asked;
  Graph *g;
  OptOptions o;
  OptReport report = {.arena = a};
  MemPlan *plan;
  *out = NULL;
  TRY(graph_parse(str_of(text), NULL, d, &g));
  opt_defaults(&o);
  o.fast = k->fast;
  o.apart = true;
  if (k->advised) target_advise(target_find(target), k->device, &o);
  o.batch_invariant = k->invariant;
  if (k->precision) o.precision = k->precision;
  g->diag = d;
  tenon_status s = graph_optimise(g, &o, &report);
  if (!s) s = plan_create(g, a, &plan);
  TargetOptions to = {
      .device = k->device, .compiled = k->compiled, .batch_invariant = k->invariant};
  if (!s) s = target_compile_with(target_find(target), g, plan, &to, a, d, out);
  graph_free(g);
  return s;
}

bool first_tile(Asked asked, const char *text, Arena *a, LoopTile *out) {
  Diag d;
  Program *p;
  Compiled c = {0};
  bool found = false;
  diag_init(&d);
  asked.compiled = &c;
  if (compile_asked(&asked, text, "cuda", a, &d, &p)) {
    FAIL("%s\n%s", d.text, text);
    return false;
  }
  for (int64_t i = 0; i < c.nkernels && !found; i++)
    found = loop_find_tile(c.kernel[i].lowered->kernel, out);
  program_release(p);
  return found;
}

// ---- both ways ----

static tenon_status make_inputs(const Graph *g, Run *run, void (*fill)(Value *v), Value **in) {
  for (int64_t i = 0; i < g->main->nparams; i++) {
    const Type *t = type_of(g->main->param[i]);
    int64_t dims[MAX_RANK];
    for (int k = 0; k < t->rank; k++) dims[k] = ie_is_const(t->dims[k]) ? t->dims[k]->value : 5;
    TRY(value_tensor(run, NOWHERE, t->dtype, t->rank, dims, &in[i]));
    fill(in[i]);
  }
  return TENON_OK;
}

static tenon_status run_both(BothWays *b, const char *text, const char *target,
                             void (*fill)(Value *v), CompileText *compile, void *ctx) {
  enum { INPUTS = 8 };
  Value *in[INPUTS] = {NULL};
  TRY(graph_parse(str_of(text), NULL, &b->diag, &b->g));
  CHECK(b->g->main->nparams <= INPUTS && b->g->main->nresults <= 2, "a graph for tests");
  TRY(make_inputs(b->g, &b->run[0], fill, in));
  TRY(interp_create(b->g, NULL, &b->diag, &b->interp));
  TRY(interp_run(b->interp, &b->run[0], in, b->want));
  TRY(compile ? compile(ctx, text, target, &b->arena, &b->diag, &b->program)
              : compile_text(text, target, &b->arena, &b->diag, &b->program));
  TRY(session_create(b->program, &(SessionOptions){.threads = 3}, &b->diag, &b->session));
  return session_run(b->session, &b->run[1], in, NULL, b->got);
}

bool both_ways_run(BothWays *b, const char *text, const char *target, void (*fill)(Value *v),
                   CompileText *compile, void *ctx) {
  memset(b, 0, sizeof *b);
  diag_init(&b->diag);
  arena_init(&b->arena);
  for (int i = 0; i < 2; i++) run_init(&b->run[i], NULL, &b->diag);
  return !run_both(b, text, target, fill, compile, ctx);
}

void both_ways_free(BothWays *b) {
  for (int i = 0; i < 2; i++) run_deinit(&b->run[i]);
  session_free(b->session);
  program_release(b->program);
  interp_free(b->interp);
  graph_free(b->g);
  arena_deinit(&b->arena);
}

tenon_status artifact_bytes(const Program *p, Arena *a, Diag *d, Str *out) {
  Str part[ARTIFACT_PARTS];
  StrBuf b;
  strbuf_init(&b, a);
  TRY(artifact_parts(&p, 1, false, a, d, part));
  for (int i = 0; i < ARTIFACT_PARTS; i++) strbuf_put(&b, part[i]);
  char *at = arena_alloc(a, b.n + 64);
  at += -(uintptr_t)at & 63;
  *out = (Str){memcpy(at, b.p, (size_t)b.n), b.n};
  return TENON_OK;
}
