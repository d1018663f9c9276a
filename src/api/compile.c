// compile.c -- the public interface: from a model to a program.
//
// The model is read once more, since optimising changes a graph and others may be using this one,
// unless the caller says that nobody will.  The copy goes when the program is made, which keeps
// nothing of it.
#include "api/api.h"

#include "compile/declined.h"
#include "compile/program_cache.h"

// ---- targets ----

size_t tenon_target_count(void) {
  size_t n = 0;
  while (target_table[n]) n++;
  return n;
}

tenon_status tenon_target(size_t i, tenon_target_info *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_target_info){0};
  if (i >= tenon_target_count()) return TENON_EINVAL;
  const Target *t = target_table[i];
  *out = (tenon_target_info){t->name, t->doc, target_available(t)};
  return TENON_OK;
}

// ---- options ----

size_t tenon_option_count(void) { return COMPILE_OPTIONS; }

tenon_status tenon_option(size_t i, tenon_option_info *out) {
  if (!out) return TENON_EINVAL;
  *out = (tenon_option_info){0};
  if (i >= COMPILE_OPTIONS) return TENON_EINVAL;
  const CompileOptionRow *r = &compile_option[i];
  *out = (tenon_option_info){r->name, compile_option_kind_name[r->kind], r->words, r->help};
  return TENON_OK;
}

// ---- compiling ----

typedef struct CompileCall {
  const tenon_model *m;
  tenon_options o;
  CompileOptions options;  // made of them
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

static void print(void *ctx, Str text) {
  const CompileCall *c = ctx;
  c->o.print(text.p, (size_t)text.n, c->o.user);
}

static tenon_status find_target(CompileCall *c) {
  const char *name = c->o.target;
  c->target = !name || !strcmp(name, "auto") ? target_auto() : target_find(name);
  if (!c->target)
    return fail(c->d, TENON_EINVAL, NOWHERE, "there is no target '%s'%s", name,
                target_hint(name, &c->scratch));
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
  if ((int)o->precision < TENON_PRECISION_DEFAULT || o->precision > TENON_PRECISION_F16)
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

// The fields of the caller's struct; then its named options, of which the last one counts.
static tenon_status set_options(CompileCall *c) {
  const tenon_options *from = &c->o;
  CompileOptions *o = &c->options;
  compile_defaults(o);
  o->level = from->opt_level < 0 ? 0 : from->opt_level ? from->opt_level : o->level;
  o->exact = from->math == TENON_MATH_EXACT;
  o->fast = from->math == TENON_MATH_FAST;
  if (from->precision == TENON_PRECISION_BF16) o->precision = PRECISION_BF16;
  if (from->precision == TENON_PRECISION_TF32) o->precision = PRECISION_TF32;
  if (from->precision == TENON_PRECISION_F16) o->precision = PRECISION_F16;
  o->batch_invariant = from->batch_invariant != 0;
  o->no_cache = from->no_cache != 0;
  o->tier = TIER_AUTO;
  o->device = from->device;
  o->target = c->target;
  o->threads = from->threads;
  o->watch = &c->watch;
  o->loops = &c->out->arena;
  if (from->print) o->print = print, o->print_ctx = c;
  if (from->nnamed && !from->named)
    return fail(c->d, TENON_EINVAL, NOWHERE, "%zu named options, but no list of them",
                from->nnamed);
  for (size_t i = 0; i < from->nnamed; i++) {
    const tenon_named_option *n = &from->named[i];
    if (!n->name || !n->value)
      return fail(c->d, TENON_EINVAL, NOWHERE, "named option %zu has no %s", i,
                  n->name ? "value" : "name");
    TRY(compile_option_set(o, n->name, n->value, &c->scratch, c->d));
  }
  return TENON_OK;
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
  TRY(watch_step(&c->watch, c->d, "read", c->m->model->path, 0, 1));
  if (o->last_use && !o->ndims) return take_model(c);
  c->fixed = arena_array(&c->scratch, IntFixed, (int64_t)o->ndims);
  for (size_t i = 0; i < o->ndims; i++)
    c->fixed[i] = (IntFixed){.name = str_of(o->dims[i].name), .value = o->dims[i].size};
  int64_t most = c->m->memory_limit;
  if (c->options.max_memory && (!most || c->options.max_memory < most))
    most = c->options.max_memory;
  ModelOptions mo = {.custom = c->m->custom,
                     .memory_limit = most,
                     .given = c->m->given,
                     .fixed = c->fixed,
                     .nfixed = (int64_t)o->ndims,
                     .types = c->m->types,
                     .ntypes = c->m->ntypes,
                     .signature = c->m->signature,
                     .weights = c->m->weights,
                     .tensors = c->m->tensors};
  TRY(model_copy(c->m->model, &mo, c->d, &c->copy));
  for (size_t i = 0; i < o->ndims; i++)
    if (!c->fixed[i].used)
      return fail(c->d, TENON_EINVAL, NOWHERE, "the model has no symbolic dimension '%s'%s",
                  o->dims[i].name,
                  dim_hint(c->copy->graph, str_of(o->dims[i].name), &c->scratch).s);
  return model_need_supported(c->copy, c->d);
}

static tenon_status build(CompileCall *c) {
  tenon_program *p = c->out;
  CompileReport made = {0};
  TRY(compile_program(c->copy->graph, &c->options, c->m->model->path, &c->scratch, c->d, &made));
  p->program = made.program;
  TextList w = compile_warnings(&made, &p->arena);
  p->warning = w.v;
  p->nwarnings = (size_t)w.n;
  p->target = c->target->name;
  p->custom = api_retain_ops(&p->arena, c->m->custom);
  api_describe_program(p);
  return TENON_OK;
}

static tenon_status compile(CompileCall *c) {
  TRY(check_options(c));
  TRY(set_options(c));
  TRY(read_again(c));
  return build(c);
}

tenon_status tenon_compile(const tenon_model *m, const tenon_options *options, tenon_program **out,
                           tenon_error *error) {
  Diag d;
  diag_init(&d);
  CompileCall c = {.m = m, .d = &d, .watch.step = tell};
  c.watch.ctx = &c;
  if (out) *out = NULL;
  if (!out || !m) return api_missing(m ? "place for the program" : "model", error);
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
