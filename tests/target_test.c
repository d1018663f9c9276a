// target_test.c -- every op's samples, compiled.
//
// Each sample is optimised and compiled for each target that is there, and run on one, two and three threads: the same bits
// on each, and within rounding what the interpreter gives for the sample as it stands.
#include "ir/interpret.h"
#include "passes/passes.h"
#include "sample.h"
#include "targets/llvm/codegen.h"
#include "targets/target.h"
#include "runtime/session.h"
#include "test.h"

typedef struct Trial {
  const Sample *s;
  Arena arena;
  Graph *plain, *g;  // as it stands, and optimised
  Interp *interp;
  Program *program;
  Session *session;
  Run run;
  Value *in[64], *want[64], *first[64], *got[64];
  Diag d;
} Trial;

static tenon_status parse(Trial *t, Graph **out) {
  return graph_parse(str_of(sample_graph(&t->arena, t->s)), NULL, &t->d, out);
}

static tenon_status reference(Trial *t) {
  TRY(parse(t, &t->plain));
  sample_seed();
  for (int64_t i = 0; i < t->plain->main->nparams; i++)
    TRY(sample_value(&t->run, type_of(t->plain->main->param[i]), &t->in[i]));
  TRY(interp_create(t->plain, NULL, &t->d, &t->interp));
  return interp_run(t->interp, &t->run, t->in, t->want);
}

static tenon_status compile(Trial *t, const Target *target, int level) {
  OptOptions o;
  OptReport report = {.arena = &t->arena};
  MemPlan *plan;
  TRY(parse(t, &t->g));
  opt_defaults(&o);
  o.level = level;
  o.fast = opt_licences(level, false, false);
  TRY(graph_optimise(t->g, &o, &report));
  TRY(plan_create(t->g, &t->arena, &plan));
  TRY(plan_verify(plan, &t->d));
  return target_compile(target, t->g, plan, &t->arena, &t->d, &t->program);
}

static tenon_status run_on(Trial *t, const char *what, int threads) {
  int64_t n = t->plain->main->nresults;
  Value **out = threads == 1 ? t->first : t->got;
  TRY(session_create(t->program, &(SessionOptions){.threads = threads}, &t->d, &t->session));
  TRY(session_run(t->session, &t->run, t->in, NULL, out));
  for (int64_t i = 0; i < n; i++) {
    if (!sample_close(out[i], t->want[i], false))
      FAIL("%s%s: result %lld is another %s", t->s->op->name, t->s->text, (long long)i, what);
    if (threads > 1 && !sample_close(out[i], t->first[i], true))
      FAIL("%s%s: result %lld differs on %d threads %s", t->s->op->name, t->s->text, (long long)i,
           threads, what);
  }
  return TENON_OK;
}

static tenon_status try_all(Trial *t, const Target *target, int level) {
  char what[64];
  snprintf(what, sizeof what, "on %s at -O%d", target->name, level);
  TRY(reference(t));
  TRY(compile(t, target, level));
  for (int threads = 1; threads <= 3; threads++) {
    TRY(run_on(t, what, threads));
    session_free(t->session);
    t->session = NULL;
  }
  return TENON_OK;
}

static void check_sample(const Sample *s, const Target *target, int level) {
  static Trial t;
  memset(&t, 0, sizeof t);
  t.s = s;
  diag_init(&t.d);
  arena_init(&t.arena);
  run_init(&t.run, NULL, &t.d);
  t.run.seed = 7;
  Trap trap;
  trap_enter(&trap, &t.d);
  if (setjmp(trap.env) == 0) trap.status = try_all(&t, target, level);
  trap_leave(&trap);
  if (trap.status)
    FAIL("%s%s on %s at -O%d: %s", s->op->name, s->text, target->name, level, t.d.text);
  run_deinit(&t.run);
  session_free(t.session);
  program_release(t.program);
  interp_free(t.interp);
  graph_free(t.plain);
  graph_free(t.g);
  arena_deinit(&t.arena);
}

static void check_all(const char *name, int level) {
  const Target *target = target_find(name);
  if (!target_available(target)) SKIP("tenon-codegen was not built");
  int64_t count = 0;
  static Diag d;
  diag_init(&d);
  Codegen *kept = NULL;  // so that its processes stay from sample to sample
  if (!strcmp(name, "cpu")) EXPECT_STATUS(codegen_shared(2, &d, &kept), TENON_OK);
  for (int i = 0; i < OP_COUNT; i++)
    for (const char *const *s = op_table[i]->samples; s && *s; s++, count++)
      check_sample(&(Sample){op_table[i], *s}, target, level);
  codegen_release(kept);
  EXPECT(count > 500);
}

TEST(samples_on_host_unoptimised) { check_all("host", 0); }
TEST(samples_on_host) { check_all("host", 3); }
TEST(samples_on_ref) { check_all("ref", 2); }
TEST(samples_on_ref_optimised) { check_all("ref", 3); }
TEST(samples_on_cpu_unoptimised) { check_all("cpu", 0); }
TEST(samples_on_cpu_fused) { check_all("cpu", 2); }
TEST(samples_on_cpu) { check_all("cpu", 3); }
