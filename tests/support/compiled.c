// compiled.c -- graphs compiled for a target, for tests (compiled.h).
#include "compiled.h"

#include "loop/tile.h"
#include "runtime/artifact.h"
#include "test.h"

const char *first_declined(const Compiled *c, const char *none) {
  return c->ndeclined ? c->declined[0].tried[0].why : none;
}

unsigned fast_flags(void) {
  OptOptions o;
  opt_defaults(&o);
  return opt_fast_math_flags(o.level, false, false);
}

tenon_status compile_parsed(const char *text, const CompileOptions *o, CompileStage until, Arena *a,
                            Diag *d, Graph **g, CompileReport *out) {
  *g = NULL;
  *out = (CompileReport){0};
  TRY(graph_parse(str_of(text), NULL, d, g));
  return compile_graph(*g, o, until, a, d, out);
}

tenon_status compile_for(Graph *g, const char *target, Arena *a, Diag *d, Program **out) {
  CompileOptions o;
  CompileReport r = {0};
  compile_defaults(&o);
  o.target = target_find(target);
  tenon_status s = compile_graph(g, &o, COMPILE_BUILD, a, d, &r);
  *out = r.program;
  return s;
}

tenon_status compile_text(const char *text, const char *target, Arena *a, Diag *d, Program **out) {
  Graph *g;
  *out = NULL;
  TRY(graph_parse(str_of(text), NULL, d, &g));
  tenon_status s = compile_for(g, target, a, d, out);
  graph_free(g);
  return s;
}

tenon_status compile_asked(void *asked, const char *text, const char *target, Arena *a, Diag *d,
                           Program **out) {
  static const TargetTraits gpu = {.gpu = true};
  const Asked *k = asked;
  Graph *g;
  CompileOptions o;
  CompileReport r;
  compile_defaults(&o);
  o.target = target_find(target);
  o.device = k->device;
  o.fast_math = &k->fast;
  o.traits = k->advised ? NULL : &gpu;
  o.batch_invariant = k->invariant;
  o.schedule = (TextList){&k->schedule, k->schedule != NULL};
  o.precision = k->precision == DT_BF16 ? PRECISION_BF16 : PRECISION_F32;
  tenon_status s = compile_parsed(text, &o, COMPILE_BUILD, a, d, &g, &r);
  if (!s && k->compiled) *k->compiled = r.compiled;
  *out = r.program;
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
