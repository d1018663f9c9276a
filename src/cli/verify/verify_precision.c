// verify_precision.c -- `tenon verify --precision`: what multiplying in another type does to a
// model's results.
//
// The model is run on the same inputs twice, by the interpreter as it is and compiled with the
// precision, and the results are laid beside each other: the largest error over the largest value,
// beside what is expected, and whether the largest element of a result is still the same one.
// Between the two the interpreter runs the graph before and after the pass lower-precision: each
// narrowed contraction has the error of its result, and how much of that its operands did not have.
#include "cli/verify/verify_precision.h"

#include "cli/inputs.h"
#include "cli/open.h"
#include "api/model.h"
#include "cli/opt.h"
#include "ir/interpret.h"
#include "ir/opinfo.h"
#include "runtime/session.h"

#include <math.h>

// Errors are norms of differences by the norm of what is right.
typedef struct Layer {
  const char *name;
  double error, made;  // made: here, and not in what it reads
} Layer;

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
  IntMap layers;  // name of a contraction, as the graph has it -> its result
  IntMap errors;  // id of a node -> the bits of the largest error on the way to it
  VEC(Layer) layer;
} Measure;

// ---- layers ----

static tenon_status begin(void *ctx, Run *run, const int64_t *bind, const bool *bound,
                          int32_t nbind) {
  (void)ctx, (void)run, (void)bind, (void)bound, (void)nbind;
  return TENON_OK;
}

static void dead(void *ctx, const Node *n, int result) { (void)ctx, (void)n, (void)result; }

// A gemm's bias is added behind its narrowed product.
static bool is_layer(const Node *n, int result, const Value *v) {
  return !result && n->name && op_contraction(n) && !is_form(n, CF_GEMM) && v->kind == VK_TENSOR &&
         dtype_is_float(v->dtype);
}

static tenon_status keep_layer(void *ctx, Run *run, const Node *n, int result, Value **v) {
  Measure *m = ctx;
  (void)run;
  if (is_layer(n, result, *v))
    intmap_put(&m->layers, (uint64_t)(uintptr_t)n->name, (uint64_t)(uintptr_t)value_retain(*v));
  return TENON_OK;
}

static double far_from(const Value *want, const Value *got) {
  double difference = 0, norm = 0;
  for (int64_t k = 0; k < want->n; k++) {
    double x = val_f64(want, k), d = x - val_f64(got, k);
    if (!isfinite(x) || !isfinite(d)) continue;
    difference += d * d;
    norm += x * x;
  }
  return norm > 0 ? sqrt(difference / norm) : 0;
}

// Where merged or rewritten layers have other sizes, there is nothing to lay them beside.
static tenon_status compare_layer(void *ctx, Run *run, const Node *n, int result, Value **v) {
  Measure *m = ctx;
  double error = 0;
  uint64_t bits, kept = 0;
  (void)run;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (intmap_get(&m->errors, n->src[i]->id, &bits)) {
      double e;
      memcpy(&e, &bits, sizeof e);
      error = fmax(error, e);
    }
  if (is_layer(n, result, *v)) intmap_get(&m->layers, (uint64_t)(uintptr_t)n->name, &kept);
  const Value *want = (const Value *)(uintptr_t)kept;
  if (want && want->n == (*v)->n) {
    double before = error;
    error = far_from(want, *v);
    Layer l = {n->name, error, sqrt(fmax(error * error - before * before, 0))};
    vec_push(&m->cli->arena, &m->layer, l);
  }
  memcpy(&bits, &error, sizeof bits);
  intmap_put(&m->errors, n->id, bits);
  return TENON_OK;
}

// Interprets a graph, and has every value of its main body seen.
static tenon_status watch_layers(Measure *m, const Interp *in, Run *run, Value **out,
                                 tenon_status (*see)(void *, Run *, const Node *, int, Value **)) {
  Placement p = {.ctx = m, .begin = begin, .place = see, .dead = dead};
  if (!run->max_bytes) run->max_bytes = machine_memory();
  return interp_run_placed(in, run, &p, m->in.value, out);
}

// The graph as the passes up to `until` leave it, whose contractions have the same names.
static tenon_status run_layers(Measure *m, CompileOptions *o, const char *until, Run *run,
                               tenon_status (*see)(void *, Run *, const Node *, int, Value **)) {
  Cli *c = m->cli;
  Graph *g = m->model->graph;
  Interp *in;
  CompileReport r = {0};
  Value **out = arena_array(&c->arena, Value *, g->main->nresults + 1);
  o->stop_after = until;
  TRY(compile_graph(g, o, COMPILE_OPTIMISE, &c->arena, &c->diag, &r));
  TRY(interp_create(g, NULL, &c->diag, &in));
  tenon_status s = watch_layers(m, in, run, out, see);
  interp_free(in);
  m->made.opt.precision = r.opt.precision;
  return s;
}

// Both keep their values until the second is done.
static tenon_status compare_layers(Measure *m, CompileOptions *o) {
  Run before, after;
  intmap_init(&m->layers, &m->cli->arena);
  intmap_init(&m->errors, &m->cli->arena);
  run_init(&before, m->pool, &m->cli->diag);
  tenon_status s = run_layers(m, o, "rewrite-windows", &before, keep_layer);
  o->start_from = "lower-precision";
  run_init(&after, m->pool, &m->cli->diag);
  if (!s) s = run_layers(m, o, "lower-precision", &after, compare_layer);
  run_deinit(&after);
  run_deinit(&before);
  o->stop_after = NULL;
  o->start_from = "choose-layout";
  return s;
}

// ---- both ways ----

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
  TRY(compare_layers(m, &o));
  PrecisionReport narrowed = m->made.opt.precision;
  TRY(compile_graph(g, &o, COMPILE_BUILD, &c->arena, &c->diag, &m->made));
  m->made.opt.precision = narrowed;
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
  if (m->layer.n) say(m->cli, "%10s %10s  layer\n", "error", "made here");
  for (int64_t i = 0; i < m->layer.n; i++)
    say(m->cli, "%9.3f%% %9.3f%%  %s\n", 100 * m->layer.v[i].error, 100 * m->layer.v[i].made,
        m->layer.v[i].name);
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
