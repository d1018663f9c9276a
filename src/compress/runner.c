// runner.c -- compiling and running a graph on samples (runner.h).
#include "compress/runner.h"

static tenon_status compile(Graph *g, const RunnerOptions *o, Diag *d, Runner *r) {
  CompileOptions c;
  compile_defaults(&c);
  c.target = o->target;
  c.threads = o->threads;
  c.watch = o->watch;
  c.loops = &r->arena;
  TRY(compile_graph(g, &c, COMPILE_BUILD, &r->arena, d, &r->made));
  r->program = r->made.program;
  SessionOptions so = {.threads = o->threads, .profile = o->profile};
  return session_create(r->program, &so, d, &r->session);
}

// Passes put a new body in the place of the main one, which itself never changes.
tenon_status runner_open(Graph *g, const RunnerOptions *o, Diag *d, Runner *out) {
  Body *main = g->main;
  Diag *before = g->diag;
  unsigned fast = g->fast;
  const struct TargetTraits *traits = g->traits;
  runner_close(out);
  out->nresults = main->nresults;
  out->max_bytes = o->max_bytes;
  arena_init(&out->arena);
  g->diag = d;
  tenon_status s = compile(g, o, d, out);
  g->diag = before;
  g->main = main;
  g->fast = fast;
  g->traits = traits;
  return s;
}

static void end_run(Runner *r) {
  if (r->running) run_deinit(&r->run);
  r->running = false;
}

void runner_close(Runner *r) {
  end_run(r);
  session_free(r->session);
  program_release(r->program);
  if (r->arena.head) arena_deinit(&r->arena);
  *r = (Runner){0};
}

tenon_status runner_run(Runner *r, const Dataset *s, int64_t sample, Diag *d, Value *const **out) {
  end_run(r);
  run_init(&r->run, NULL, d);
  r->running = true;
  r->run.max_bytes = r->max_bytes ? r->max_bytes : machine_memory();
  Value **in = arena_array(&r->run.scratch, Value *, MAX(s->ninputs, 1));
  Value **v = arena_array(&r->run.scratch, Value *, r->nresults + 1);
  *out = v;
  TRY(dataset_values(s, sample, &r->run, in));
  return session_run(r->session, &r->run, in, NULL, v);
}
