// task.c -- finds the tasks of a model (task.h).
//
// The model is optimised, planned and lowered once.  Kernels of the main body with equal workloads
// are one task.  A graph whose results are all that tasks read runs once on the model's inputs; so
// each task has operands as they are in the model, with valid indices and real zeros.  A profile of
// the model with its default schedules gives the time of each task.
//
// Needs:      a graph as it was read; inputs of it.
// Guarantees: g->main is the model's body again after each call.  Tasks depend on the graph and the
//             options alone; their order on the profile.
#include "tune/task.h"

#include "base/process.h"
#include "cost/cost.h"
#include "eval/fuse.h"
#include "lower/tuned.h"
#include "lower/workload.h"
#include "targets/cpu.h"

#include <stdlib.h>

enum { PROFILED_RUNS = 9 };

// ---- running ----

static double kernel_ns(Session *s) {
  const ProgFunction *f = session_program(s)->function[0];
  const StepTime *t = session_times(s, 0);
  int64_t sum = 0;
  for (int32_t i = 0; i < f->nsteps; i++) sum += t[i].last_ns;
  return (double)sum;
}

tenon_status tune_run(Session *s, Value *const *in, const ResultRoom *room, bool processor, Diag *d,
                      int64_t *out_ns) {
  Run run;
  *out_ns = 0;
  run_init(&run, NULL, d);
  Value **out = arena_array(&run.scratch, Value *, session_program(s)->function[0]->nresults + 1);
  int64_t start = thread_time();
  tenon_status status = session_run(s, &run, in, room, out);
  *out_ns = processor ? thread_time() - start : (int64_t)kernel_ns(s);
  run_deinit(&run);
  return status;
}

tenon_status tune_results(Session *s, Value *const *in, Arena *a, Diag *d, Str *out) {
  Run run;
  StrBuf b;
  int64_t n = session_program(s)->function[0]->nresults;
  strbuf_init(&b, a);
  run_init(&run, NULL, d);
  Value **v = arena_array(&run.scratch, Value *, n + 1);
  tenon_status status = session_run(s, &run, in, NULL, v);
  for (int64_t i = 0; !status && i < n; i++) {
    int64_t bytes;
    if (!v[i] || v[i]->kind != VK_TENSOR || v[i]->dtype == DT_STRING ||
        !dtype_bytes(v[i]->dtype, v[i]->n, &bytes))
      continue;
    strbuf_put(&b, (Str){v[i]->data, bytes});
  }
  run_deinit(&run);
  *out = strbuf_str(&b);
  return status;
}

// ---- compiling a body ----

static tenon_status compile_body(TuneModel *m, Body *body, MemPlan *plan, const CompileOptions *o,
                                 CompileStage until, Arena *a, CompileReport *r) {
  *r = (CompileReport){.done = plan ? COMPILE_PLAN : COMPILE_OPTIMISE, .plan = plan};
  m->g->main = body;
  tenon_status s = compile_graph(m->g, o, until, a, m->diag, r);
  m->g->main = m->main;
  return s;
}

// A main body is in no list.
static Body *make_body(TuneModel *m, const char *name, int64_t nparams, Node *const *param,
                       int64_t nresults, Node *const *result) {
  Body *b = body_new(m->g, name, nparams, param, nresults, result);
  m->g->body.n--;
  for (int64_t i = 0; i < nresults; i++)
    b->result_name[i] = str_printf(m->arena, "r%lld", (long long)i);
  return b;
}

tenon_status tune_compile(TuneModel *m, const TunedSchedules *s, Program **out) {
  CompileOptions o = m->o;
  CompileReport r;
  Arena a;
  *out = NULL;
  o.schedules = s;
  arena_init_scoped(&a);
  tenon_status status = compile_body(m, m->main, m->plan, &o, COMPILE_BUILD, &a, &r);
  arena_deinit(&a);
  *out = r.program;
  return status;
}

// ---- tasks ----

typedef struct Finder {
  TuneModel *m;
  CompileReport lowered;
  VEC(TuneTask) task;
  IntMap of_kernel;  // of the lowered program -> task
  IntMap value;      // node id -> its value's number among `operand`
  VEC(Node *) operand;
} Finder;

static bool in_main(const NodeList *order, const Node *n) {
  for (int64_t i = 0; i < order->n; i++)
    if (order->v[i] == n) return true;
  return false;
}

static void add_use(Finder *f, const KernelUse *u, const NodeList *order) {
  TuneModel *m = f->m;
  uint64_t at;
  Arena *a = m->arena;
  Str plain = workload_text(m->g, u->node, a);
  const Lowered *lw = f->lowered.compiled.kernel[u->kernel].lowered;
  // A workload with more than the node's own text was made for rows, in place or for any batch.
  bool is_task = u->workload.n == plain.n && lw && lw->schedule.t && in_main(order, u->node);
  if (!is_task) {
    m->nleft++;
    return;
  }
  const char *key = workload_key(u->workload, a);
  for (int64_t i = 0; i < f->task.n; i++)
    if (!strcmp(f->task.v[i].key, key)) {
      f->task.v[i].uses++;
      if (!intmap_get(&f->of_kernel, (uint64_t)u->kernel, &at))
        intmap_put(&f->of_kernel, (uint64_t)u->kernel, (uint64_t)i);
      return;
    }
  if (!intmap_get(&f->of_kernel, (uint64_t)u->kernel, &at))
    intmap_put(&f->of_kernel, (uint64_t)u->kernel, (uint64_t)f->task.n);
  TuneTask t = {.key = key,
                .workload = str_copy(a, u->workload),
                .label = str_copy(a, str_of(u->label)),
                .dflt = schedule_text(a, lw->schedule),
                .node = u->node,
                .uses = 1};
  vec_push(a, &f->task, t);
}

static bool is_given(const TuneModel *m, const Node *n) {
  return n->op == OP_const || n == m->g->none || n->op == OP_param;
}

static void add_operands(Finder *f, const TuneTask *t) {
  uint64_t at;
  for (uint32_t i = 0; i < t->node->nsrc; i++) {
    Node *n = t->node->src[i];
    if (is_given(f->m, n) || intmap_get(&f->value, n->id, &at)) continue;
    intmap_put(&f->value, n->id, (uint64_t)f->operand.n);
    vec_push(f->m->arena, &f->operand, n);
  }
}

// The operands that kernels make, from one run of the model.
static tenon_status find_values(Finder *f, Value ***out) {
  TuneModel *m = f->m;
  CompileReport r;
  Session *s = NULL;
  int64_t n = f->operand.n;
  *out = arena_array(m->arena, Value *, n + 1);
  if (!n || m->remote) return TENON_OK;
  Body *b = make_body(m, "operands", m->main->nparams, m->main->param, n, f->operand.v);
  TRY(compile_body(m, b, NULL, &m->o, COMPILE_BUILD, m->arena, &r));
  tenon_status status =
      session_create(r.program, &(SessionOptions){.threads = m->threads}, m->diag, &s);
  if (!status) status = session_run(s, m->run, m->in, NULL, *out);
  session_free(s);
  m->held = r.program;  // a value may lie in its constants
  return status;
}

static tenon_status make_graph(Finder *f, TuneTask *t, Value **value) {
  TuneModel *m = f->m;
  const Node *n = t->node;
  int64_t own = m->main->nparams;
  Node **param = arena_array(m->arena, Node *, own + n->nsrc + 1);
  Node **src = arena_array(m->arena, Node *, n->nsrc + 1);
  t->in = arena_array(m->arena, Value *, own + n->nsrc + 1);
  memcpy(param, m->main->param, (size_t)own * sizeof *param);
  memcpy(t->in, m->in, (size_t)own * sizeof *t->in);
  for (uint32_t i = 0; i < n->nsrc; i++) {
    uint64_t at;
    src[i] = n->src[i];
    if (src[i]->op == OP_const && src[i]->data) t->const_bytes += src[i]->data->bytes;
    if (is_given(m, src[i]) || !intmap_get(&f->value, n->src[i]->id, &at)) continue;
    for (uint32_t k = 0; k < i; k++)
      if (n->src[k] == n->src[i]) src[i] = src[k];
    if (src[i] != n->src[i]) continue;
    t->in[own] = value[at];
    param[own++] = src[i] =
        node_param(m->g, type_of(n->src[i]), str_printf(m->arena, "operand%u", i));
  }
  Node *made = node_new(m->g, n->op, (int)n->nsrc, src, n->attrs, n->nres, n->name);
  TRY(graph_status(m->g));
  Node **result = arena_array(m->arena, Node *, n->nres);
  for (int i = 0; i < n->nres; i++) result[i] = node_proj(m->g, made, i);
  t->body = make_body(m, "task", own, param, n->nres, result);
  CompileReport r;
  TRY(compile_body(m, t->body, NULL, &m->o, COMPILE_PLAN, m->arena, &r));
  t->plan = r.plan;
  return TENON_OK;
}

// ---- the profile ----

static int by_value(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

// Steps of the built program are those of the lowered one: both follow from the same plan.
static void add_times(Finder *f, const Program *p, int64_t *const *ns) {
  const ProgFunction *fn = p->function[0];
  for (int32_t i = 0; i < fn->nsteps; i++) {
    uint64_t at;
    qsort(ns[i], PROFILED_RUNS, sizeof **ns, by_value);
    double median = (double)ns[i][PROFILED_RUNS / 2];
    f->m->ns += median;
    if (fn->step[i].kind == STEP_KERNEL &&
        intmap_get(&f->of_kernel, (uint64_t)fn->step[i].kernel, &at))
      f->task.v[at].ns += median;
  }
}

static tenon_status profile(Finder *f) {
  TuneModel *m = f->m;
  Program *p;
  Session *s = NULL;
  int64_t ns;
  TRY(tune_compile(m, NULL, &p));
  SessionOptions so = {.threads = 1, .profile = true};
  int32_t nsteps = p->function[0]->nsteps;
  int64_t **all = arena_array(m->arena, int64_t *, nsteps + 1);
  for (int32_t i = 0; i < nsteps; i++) all[i] = arena_array(m->arena, int64_t, PROFILED_RUNS);
  tenon_status status = session_create(p, &so, m->diag, &s);
  if (!status) status = tune_run(s, m->in, NULL, false, m->diag, &ns);
  for (int k = 0; !status && k < PROFILED_RUNS; k++) {
    status = tune_run(s, m->in, NULL, false, m->diag, &ns);
    for (int32_t i = 0; i < nsteps; i++) all[i][k] = session_times(s, 0)[i].last_ns;
  }
  if (!status) add_times(f, p, all);
  if (!status) m->run_bytes = p->constants_bytes + session_arena_bytes(s);
  session_free(s);
  program_release(p);
  return status;
}

static int by_time(const void *x, const void *y) {
  const TuneTask *a = x, *b = y;
  return a->ns != b->ns ? (a->ns < b->ns) - (a->ns > b->ns) : strcmp(a->key, b->key);
}

static tenon_status find_tasks(Finder *f) {
  TuneModel *m = f->m;
  Value **value;
  CompileOptions o = m->o;
  o.workloads = true;
  intmap_init(&f->of_kernel, m->arena);
  intmap_init(&f->value, m->arena);
  TRY(compile_body(m, m->main, m->plan, &o, COMPILE_LOWER, m->arena, &f->lowered));
  const Compiled *c = &f->lowered.compiled;
  m->machine_text = c->machine;
  NodeList order = body_order(m->g, m->main, m->arena);
  for (int64_t i = 0; i < c->nuses; i++) add_use(f, &c->use[i], &order);
  m->nleft += c->nhost;
  for (int64_t i = 0; i < f->task.n; i++) add_operands(f, &f->task.v[i]);
  TRY(find_values(f, &value));
  for (int64_t i = 0; i < f->task.n; i++) TRY(make_graph(f, &f->task.v[i], value));
  if (!m->remote) TRY(profile(f));
  m->task = f->task.v;
  m->ntasks = f->task.n;
  for (int64_t i = 0; m->remote && i < m->ntasks; i++) m->run_bytes += m->task[i].const_bytes;
  tune_sort(m);
  return TENON_OK;
}

void tune_sort(TuneModel *m) {
  if (m->ntasks) qsort(m->task, (size_t)m->ntasks, sizeof *m->task, by_time);
}

void tune_close(TuneModel *m) {
  program_release(m->held);
  m->held = NULL;
}

tenon_status tune_open(TuneModel *m) {
  CompileReport r = {0};
  Finder f = {.m = m};
  if (m->o.machine)
    m->machine = *m->o.machine;
  else
    machine_host(&m->machine);
  m->o.machine = &m->machine;
  m->main = m->g->main;
  TRY(compile_graph(m->g, &m->o, COMPILE_PLAN, m->arena, m->diag, &r));
  m->main = m->g->main;
  m->plan = r.plan;
  cpu_describe(&m->machine, &m->target);
  m->target.batch_invariant = m->o.batch_invariant;
  tenon_status s = find_tasks(&f);
  program_release(f.lowered.program);
  if (s) return s;
  if (m->machine_text && strcmp(m->machine_text, tuned_machine(&m->target, m->arena)))
    return fail(m->diag, TENON_EUNSUPPORTED, NOWHERE,
                "tune: schedules of this target are not chosen by what its CPU has");
  return TENON_OK;
}
