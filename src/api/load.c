// load.c -- the public interface: programs in files.
#include "api/api.h"

#include "base/process.h"
#include "eval/foreign.h"
#include "eval/table.h"
#include "runtime/artifact.h"
#include "runtime/speed.h"

// Which of them runs is the machine's affair, so all must take and give the same.
static bool same_interface(const Program *a, const Program *b) {
  const ProgFunction *f = a->function[0], *g = b->function[0];
  if (f->nparams != g->nparams || f->nresults != g->nresults) return false;
  for (int32_t i = 0; i < f->nparams + f->nresults; i++) {
    bool in = i < f->nparams;
    const ProgValue *x = &f->value[in ? f->param[i] : f->result[i - f->nparams]];
    const ProgValue *y = &g->value[in ? g->param[i] : g->result[i - f->nparams]];
    const char *p = in ? x->name : f->result_name[i - f->nparams];
    const char *q = in ? y->name : g->result_name[i - f->nparams];
    if (x->dtype != y->dtype || x->rank != y->rank || strcmp(p ? p : "", q ? q : "")) return false;
  }
  return true;
}

tenon_status tenon_programs_save(const tenon_program *const *programs, size_t n, const char *path,
                                 tenon_error *error) {
  Diag d;
  const Program *variant[ARTIFACT_VARIANTS];
  diag_init(&d);
  bool there = programs && n;
  for (size_t i = 0; there && i < n; i++) there = programs[i] != NULL;
  if (!there || !path) return api_missing(there ? "path" : "program", error);
  if (n > ARTIFACT_VARIANTS)
    return api_error(
        error, &d,
        fail(&d, TENON_EINVAL, NOWHERE, "%zu programs, at most %d", n, ARTIFACT_VARIANTS));
  for (size_t i = 0; i < n; i++) {
    variant[i] = programs[i]->program;
    if (!same_interface(variant[0], variant[i]))
      return api_error(error, &d,
                       fail(&d, TENON_EINVAL, NOWHERE,
                            "program %zu has other inputs or outputs than the first: variants are "
                            "of one model",
                            i));
  }
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = artifact_write_all(variant, (int)n, path, &d);
  trap_leave(&t);
  return api_error(error, &d, t.status);
}

tenon_status tenon_program_save(const tenon_program *p, const char *path, tenon_error *error) {
  return tenon_programs_save(&p, 1, path, error);
}

// ---- loading ----

typedef struct LoadCall {
  const char *path;  // NULL: bytes
  const void *bytes;
  size_t size;
  const tenon_load_options *options;
} LoadCall;

// Every operator of the user's own that a step needs.
static tenon_status check_ops(const tenon_program *p, Diag *d) {
  for (int32_t i = 0; i < p->program->nfunctions; i++)
    for (int32_t k = 0; k < p->program->function[i]->nsteps; k++) {
      const ProgStep *st = &p->program->function[i]->step[k];
      if (st->kind != STEP_HOST || strcmp(st->op, "foreign")) continue;
      const foreign_attrs *at = st->attrs;
      if (!custom_find(p->custom, at->op))
        return fail(d, TENON_EUNSUPPORTED, (Where){.node = st->node},
                    "operator %.*s is not given (tenon_load_options.ops)", STR_ARG(at->op));
    }
  return TENON_OK;
}

static tenon_status load(tenon_program *p, const LoadCall *c, Diag *d) {
  tenon_load_options o = {0};
  // The first version ended before `target`.
  if (c->options &&
      !api_take_options(&o, sizeof(o), c->options, offsetof(tenon_load_options, target)))
    return api_wrong_options(d, c->options->struct_size, sizeof(o));
  TRY(api_copy_ops(&p->arena, o.ops, o.nops, d, &p->custom));
  ArtifactLoad how = {.find = eval_find,
                      .speed = driver_speed,
                      .ask_late = !system_has_accelerator(),
                      .target = o.target,
                      .trust = o.by_name ? &(ArtifactTrust){.name = c->path} : NULL};
  if (c->path)
    TRY(artifact_open(c->path, &how, d, &p->program));
  else
    TRY(artifact_load_memory(c->bytes, (int64_t)c->size, NULL, &how, d, &p->program));
  if (p->program->ndevices) program_use_devices(p->program);
  TRY(check_ops(p, d));
  p->target = program_target(p->program, &p->arena);
  api_describe_program(p);
  return TENON_OK;
}

static tenon_status load_any(const LoadCall *c, tenon_program **out, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!out) return api_missing("place for the program", error);
  *out = NULL;
  if (!c->path && !c->bytes)
    return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "no program was named"));
  if ((uintptr_t)c->bytes % TENON_ALIGNMENT || c->size > INT64_MAX)
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, NOWHERE, "the bytes must begin at a multiple of %d",
                          TENON_ALIGNMENT));
  tenon_program *p = mem_alloc((int64_t)sizeof(*p));
  if (!p) return api_error(error, &d, fail(&d, TENON_ENOMEM, NOWHERE, "out of memory"));
  atomic_init(&p->refs, 1);
  arena_init(&p->arena);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = load(p, c, &d);
  trap_leave(&t);
  if (t.status)
    tenon_program_release(p);
  else
    *out = p;
  return api_error(error, &d, t.status);
}

tenon_status tenon_program_load(const char *path, const tenon_load_options *options,
                                tenon_program **out, tenon_error *error) {
  return load_any(&(LoadCall){.path = path, .options = options}, out, error);
}

tenon_status tenon_program_load_memory(const void *bytes, size_t size,
                                       const tenon_load_options *options, tenon_program **out,
                                       tenon_error *error) {
  return load_any(&(LoadCall){.bytes = bytes, .size = size, .options = options}, out, error);
}
