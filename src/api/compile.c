// compile.c -- the public interface: from a model to a program.
//
// The model is read once more, since optimising changes a graph and others may be using this one, unless the caller says that nobody
// will.  The copy goes when the program is made, which keeps nothing of it.
#include "api/api.h"

#include "passes/passes.h"
#include "targets/target.h"

// ---- targets ----

size_t tenon_target_count(void) {
  size_t n = 0;
  while (target_table[n]) n++;
  return n;
}

tenon_status tenon_target(size_t i, tenon_target_info *out) {
  *out = (tenon_target_info){0};
  if (i >= tenon_target_count()) return TENON_EINVAL;
  const Target *t = target_table[i];
  *out = (tenon_target_info){t->name, t->doc, target_available(t)};
  return TENON_OK;
}

// ---- compiling ----

typedef struct CompileCall {
  const tenon_model *m;
  tenon_options o;
  const Target *target;
  Diag *d;
  Watch watch;
  IntFixed *fixed;
  Arena scratch;  // what goes with the call
  Model *copy;    // to be changed: the caller's own where this is its last use
  tenon_program *out;
} CompileCall;

static bool tell(void *ctx, const char *stage, const char *what, int64_t done, int64_t total) {
  const CompileCall *c = ctx;
  tenon_progress p = {stage, what, done, total};
  return !c->o.progress || c->o.progress(&p, c->o.user) == 0;
}

static tenon_status find_target(CompileCall *c) {
  const char *name = c->o.target;
  c->target = !name || !strcmp(name, "auto") ? target_auto() : target_find(name);
  if (!c->target)
    return fail(c->d, TENON_EINVAL, NOWHERE, "there is no target '%s'; tenon_target lists them",
                name);
  const char *why = "";
  if (!target_there(c->target, &why))
    return fail(c->d, TENON_EUNSUPPORTED, NOWHERE, "target %s is not available on this machine: %s",
                c->target->name, why);
  return TENON_OK;
}

static tenon_status check_options(CompileCall *c) {
  const tenon_options *o = &c->o;
  if (o->opt_level < -1 || o->opt_level > 3)
    return fail(c->d, TENON_EINVAL, NOWHERE, "opt_level %d, must be -1 to 3", o->opt_level);
  if ((int)o->math < TENON_MATH_DEFAULT || o->math > TENON_MATH_FAST)
    return fail(c->d, TENON_EINVAL, NOWHERE, "%d is no tenon_math", (int)o->math);
  if ((int)o->precision < TENON_PRECISION_DEFAULT || o->precision > TENON_PRECISION_TF32)
    return fail(c->d, TENON_EINVAL, NOWHERE, "%d is no tenon_precision", (int)o->precision);
  if (o->threads < 0) return fail(c->d, TENON_EINVAL, NOWHERE, "threads must not be negative");
  if (o->ndims && !o->dims)
    return fail(c->d, TENON_EINVAL, NOWHERE, "%zu sizes, but no list of them", o->ndims);
  for (size_t i = 0; i < o->ndims; i++)
    if (!o->dims[i].name || o->dims[i].size < 0)
      return fail(c->d, TENON_EINVAL, NOWHERE, "size %zu has %s", i,
                  o->dims[i].name ? "a negative value" : "no name");
  return find_target(c);
}

// Sizes that are made numbers are so from the start: with some the model is read again.
static tenon_status take_model(CompileCall *c) {
  c->copy = c->m->model;
  TRY(model_need_supported(c->copy, c->d));
  c->copy->spent = true;
  return TENON_OK;
}

static tenon_status read_again(CompileCall *c) {
  const tenon_options *o = &c->o;
  if (o->last_use && !o->ndims) return take_model(c);
  TRY(watch_step(&c->watch, c->d, "read", c->m->model->path, 0, 1));
  c->fixed = arena_array(&c->scratch, IntFixed, (int64_t)o->ndims);
  for (size_t i = 0; i < o->ndims; i++)
    c->fixed[i] = (IntFixed){.name = str_of(o->dims[i].name), .value = o->dims[i].size};
  ModelOptions mo = {.custom = c->m->custom,
                     .memory_limit = c->m->memory_limit,
                     .given = c->m->given,
                     .fixed = c->fixed,
                     .nfixed = (int64_t)o->ndims,
                     .types = c->m->types,
                     .ntypes = c->m->ntypes,
                     .weights = c->m->weights,
                     .tensors = c->m->tensors};
  TRY(model_copy(c->m->model, &mo, c->d, &c->copy));
  for (size_t i = 0; i < o->ndims; i++)
    if (!c->fixed[i].used)
      return fail(c->d, TENON_EINVAL, NOWHERE, "the model has no symbolic size '%s'",
                  o->dims[i].name);
  return model_need_supported(c->copy, c->d);
}

static tenon_status build(CompileCall *c) {
  Graph *g = c->copy->graph;
  tenon_program *p = c->out;
  MemPlan *plan;
  OptOptions oo;
  OptReport report = {.arena = &c->scratch};
  opt_defaults(&oo);
  oo.level = c->o.opt_level < 0 ? 0 : c->o.opt_level ? c->o.opt_level : 3;
  oo.fast = opt_licences(oo.level, c->o.math == TENON_MATH_EXACT, c->o.math == TENON_MATH_FAST);
  if (c->o.precision == TENON_PRECISION_BF16) oo.precision = DT_BF16;
  if (c->o.precision == TENON_PRECISION_TF32) oo.fast |= FAST_TF32;
  target_advise(c->target, c->o.device, &oo);
  oo.batch_invariant = c->o.batch_invariant != 0;
  oo.watch = &c->watch;
  g->diag = c->d;
  TRY(graph_optimise(g, &oo, &report));
  TRY(watch_step(&c->watch, c->d, "plan", NULL, 0, 1));
  TRY(plan_create(g, &c->scratch, &plan));
  TRY(plan_verify(plan, c->d));
  TargetOptions to = {.threads = c->o.threads,
                      .no_cache = c->o.no_cache != 0,
                      .batch_invariant = c->o.batch_invariant != 0,
                      .device = c->o.device,
                      .watch = &c->watch};
  Arena *texts = c->target->keeps_loops ? &p->arena : &c->scratch;
  TRY(target_compile_with(c->target, g, plan, &to, texts, c->d, &p->program));
  p->target = c->target->name;
  p->custom = api_retain_ops(&p->arena, c->m->custom);
  api_describe_program(p);
  return TENON_OK;
}

static tenon_status compile(CompileCall *c) {
  TRY(check_options(c));
  TRY(read_again(c));
  return build(c);
}

tenon_status tenon_compile(const tenon_model *m, const tenon_options *options, tenon_program **out,
                           tenon_error *error) {
  Diag d;
  diag_init(&d);
  CompileCall c = {.m = m, .d = &d, .watch.step = tell};
  c.watch.ctx = &c;
  if (!out || !m)
    return api_error(
        error, &d,
        fail(&d, TENON_EINVAL, NOWHERE, "no %s is given", m ? "place for the program" : "model"));
  *out = NULL;
  if (options &&
      !api_take_options(&c.o, sizeof(c.o), options, offsetof(tenon_options, batch_invariant)))
    return api_error(error, &d, api_wrong_options(&d, options->struct_size, sizeof(c.o)));
  c.out = mem_alloc((int64_t)sizeof(*c.out));
  if (!c.out) return api_error(error, &d, fail(&d, TENON_ENOMEM, NOWHERE, "out of memory"));
  atomic_init(&c.out->refs, 1);
  arena_init(&c.out->arena);
  arena_init(&c.scratch);
  d.base.file = m->model->path;
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = compile(&c);
  trap_leave(&t);
  if (c.copy) c.copy->graph->diag = c.copy->diag;
  if (c.copy != m->model) model_free(c.copy);
  arena_deinit(&c.scratch);
  if (t.status)
    tenon_program_release(c.out);
  else
    *out = c.out;
  return api_error(error, &d, t.status);
}
