// verify_precision.c -- `tenon verify --precision`: what multiplying in another type does to a
// model's results.
//
// The model is run on the same inputs twice, by the interpreter as it is and compiled with the
// precision, and the results are laid beside each other: the largest error over the largest value,
// beside what is expected, and whether the largest element of a result is still the same one.
#include "cli/verify/verify_precision.h"

#include "cli/inputs.h"
#include "cli/open.h"
#include "api/model.h"
#include "cli/opt.h"
#include "runtime/session.h"

#include <math.h>

typedef struct Measure {
  Cli *cli;
  Model *model;
  Inputs in;
  FileList files;
  Pool *pool;
  Run run;
  bool run_open;
  CompileReport made;
  Session *session;
  Value **want, **got;
} Measure;

static tenon_status run_both(Measure *m) {
  Cli *c = m->cli;
  Graph *g = m->model->graph;
  int64_t n = g->main->nresults;
  TRY(model_need_supported(m->model, &c->diag));
  m->pool = pool_create(0);
  run_init(&m->run, m->pool, &c->diag);
  m->run_open = true;
  TRY(inputs_read(&m->in, c, &m->run, opt_text(c, OPT_verify_inputs, NULL),
                  &c->opt[OPT_verify_input]));
  m->want = arena_array(&c->arena, Value *, n + 1);
  m->got = arena_array(&c->arena, Value *, n + 1);
  TRY(model_run(m->model, &m->run, m->in.value, m->want));
  CompileOptions o;
  compile_defaults(&o);
  o.target = target_auto();
  o.precision = PRECISION_BF16;
  OptCall call = {c->pos[0], c->pos[0], "tenon verify --precision bf16"};
  opt_guard(&o, &call);
  TRY(compile_graph(g, &o, COMPILE_BUILD, &c->arena, &c->diag, &m->made));
  TRY(session_create(m->made.program, &(SessionOptions){0}, &c->diag, &m->session));
  return session_run(m->session, &m->run, m->in.value, NULL, m->got);
}

double precision_expected(const PrecisionReport *r) {
  return r->contractions ? 0x1p-9 * sqrt(2.0 * (double)r->depth) : 0;
}

// Of one result of floats.
static void say_result(const Measure *m, int64_t i, double *worst) {
  const Value *want = m->want[i], *got = m->got[i];
  const char *name = m->model->graph->main->result_name[i];
  double error = 0, largest = 0, second = 0;
  int64_t top[2] = {0, 0};
  if (want->kind != VK_TENSOR || !dtype_is_float(want->dtype) || want->n != got->n) return;
  for (int64_t k = 0; k < want->n; k++) {
    double x = val_f64(want, k), y = val_f64(got, k);
    if (isfinite(x)) largest = fmax(largest, fabs(x));
    if (!(isnan(x) && isnan(y)) && x != y) error = fmax(error, fabs(x - y));
    if (x > val_f64(want, top[0])) top[0] = k;
    if (y > val_f64(got, top[1])) top[1] = k;
  }
  second = -INFINITY;
  for (int64_t k = 0; k < want->n; k++)
    if (k != top[0]) second = fmax(second, val_f64(want, k));
  double margin = want->n > 1 ? val_f64(want, top[0]) - second : 0;
  double share = largest > 0 ? error / largest : error;
  *worst = fmax(*worst, share);
  say(m->cli,
      "%s: largest error %.4g, %.3g%% of the largest value; largest element %s (margin %.4g)\n",
      name, error, 100 * share, top[0] == top[1] ? "the same" : "ANOTHER", margin);
}

static void say_results(const Measure *m) {
  const PrecisionReport *r = &m->made.opt.precision;
  double worst = 0;
  say(m->cli, "%s: %lld contractions in bf16, at most %lld on one path; expected error %.3g%%\n",
      m->cli->pos[0], (long long)r->contractions, (long long)r->depth, 100 * precision_expected(r));
  for (int64_t i = 0; i < m->model->graph->main->nresults; i++) say_result(m, i, &worst);
}

int verify_precision(Cli *c) {
  if (strcmp(opt_text(c, OPT_verify_precision, ""), "bf16"))
    return cli_usage(c, "verify: --precision takes 'bf16', not '%s'",
                     opt_text(c, OPT_verify_precision, ""));
  if (c->npos != 1) return cli_usage(c, "verify: --precision takes one model");
  Measure *m =
      arena_new(&c->arena, Measure);  // in the arena, since a trap may pass over this frame
  m->cli = c;
  int rc = cli_exit_of(cli_open(c, c->pos[0], NULL, &c->diag, &m->model));
  if (rc) return rc;
  m->in = (Inputs){.graph = m->model->graph, .arena = &c->arena, .files = &m->files};
  rc = dims_read(c, m->model->graph, &c->opt[OPT_verify_dim], &m->in.dims);
  if (!rc) rc = cli_exit_of(run_both(m));
  if (!rc) say_results(m);
  if (m->run_open) run_deinit(&m->run);
  session_free(m->session);
  program_release(m->made.program);
  pool_release(m->pool);
  for (int64_t i = 0; i < m->files.n; i++) file_close(&m->files.v[i]);
  model_free(m->model);
  return rc;
}
