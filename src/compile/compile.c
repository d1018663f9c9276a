// compile.c -- the compile driver (compile.h).
#include "compile/compile.h"

#include "base/budget.h"
#include "base/platform.h"
#include "compile/print.h"
#include "lower/tuned.h"
#include "passes/passes.h"

// ---- optimise ----

static void pass_options(const CompileOptions *o, OptOptions *out) {
  opt_defaults(out);
  out->level = (int)o->level;
  out->fast = opt_fast_math_flags(out->level, o->exact, o->fast);
  if (o->precision == PRECISION_TF32) out->fast |= FAST_TF32;
  if (o->precision == PRECISION_BF16) out->precision = DT_BF16;
  if (o->precision == PRECISION_F16) out->precision = DT_F16;
  out->keep = o->keep.v;
  out->nkeep = o->keep.n;
  if (o->fast_math) out->fast = *o->fast_math;
  out->fold_limit = o->fold_limit;
  out->unroll_limit = o->unroll_limit;
  out->disable = o->disable;
  out->start_from = o->start_from;
  out->stop_after = o->stop_after;
  out->dump_after = o->dump_after;
  out->dump_changed = o->dump_changed;
  out->verify_each = o->verify_each;
  out->trace_rules = o->trace_rules;
  out->bisect = o->bisect;
  out->record = o->record;
  out->batch_invariant = o->batch_invariant;
  out->channels_last = o->channels_last;
  out->print = o->print;
  out->print_ctx = o->print_ctx;
  out->watch = o->watch;
}

// What passes should know of the target; nothing where there is none.
static tenon_status find_traits(const CompileOptions *o, Arena *a, Diag *d,
                                const TargetTraits **out) {
  *out = o->traits;
  return o->traits || !o->target ? TENON_OK : target_traits(o->target, o->device, a, d, out);
}

// ---- options that the model or the target decide on ----

// Multiplying in tf32 or f16 takes tensor cores; bf16 halves the bytes everywhere.
static tenon_status check_precision(const CompileOptions *o, const TargetTraits *t, Diag *d) {
  bool cores = o->precision == PRECISION_TF32 || o->precision == PRECISION_F16;
  if (!o->target || !t || !cores || t->mma) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "--precision %s: target %s has no tensor cores for it; it takes f32 or bf16",
              o->precision == PRECISION_F16 ? "f16" : "tf32", o->target->name);
}

typedef VEC(const char *) Names;

static void add_names(Graph *g, const Body *b, Arena *a, Names *out) {
  NodeList all = body_order(g, b, a);
  for (int64_t i = 0; i < all.n; i++)
    if (all.v[i]->name && op_contraction(all.v[i])) vec_push(a, out, all.v[i]->name);
}

// Each pattern matches the name of a contraction.
static tenon_status check_keep(Graph *g, const CompileOptions *o, Arena *a, Diag *d) {
  Names names = {0};
  if (o->keep.n) add_names(g, g->main, a, &names);
  for (int64_t i = 0; o->keep.n && i < g->body.n; i++) add_names(g, g->body.v[i], a, &names);
  for (int64_t i = 0; i < o->keep.n; i++) {
    bool found = false;
    for (int64_t k = 0; k < names.n && !found; k++) found = str_glob(o->keep.v[i], names.v[k]);
    if (found) continue;
    const char *near = str_nearest(str_of(o->keep.v[i]), names.v, names.n);
    if (!near && names.n) near = names.v[0];
    return fail(d, TENON_EINVAL, NOWHERE,
                "--keep %s: no convolution or matrix product has such a name%s%s%s", o->keep.v[i],
                near ? "; there is '" : "", near ? near : "", near ? "'" : "");
  }
  return TENON_OK;
}

static tenon_status suits(Graph *g, const CompileOptions *o, const TargetTraits *t, Arena *a,
                          Diag *d) {
  tenon_status s = check_precision(o, t, d);
  if (!s) s = check_keep(g, o, a, d);
  if (s && o->misused) *o->misused = true;
  return s;
}

tenon_status optimise_run(const OptimiseRun *r) { return graph_optimise(r->g, r->o, r->report); }

static tenon_status optimise(Graph *g, const CompileOptions *o, Arena *a, Diag *d,
                             CompileReport *r) {
  OptOptions passes;
  pass_options(o, &passes);
  TRY(find_traits(o, a, d, &passes.traits));
  TRY(suits(g, o, passes.traits, a, d));
  r->opt = (OptReport){.arena = a};
  OptimiseRun run = {g, &passes, &r->opt, a, d};
  TRY(o->guard ? o->guard(o->guard_ctx, &run) : optimise_run(&run));
  if (o->print && o->time_passes) print_pass_times(&r->opt, a, o->print, o->print_ctx);
  if (o->print && o->rule_stats) print_rule_counts(&r->opt, a, o->print, o->print_ctx);
  return TENON_OK;
}

// ---- plan ----

static tenon_status plan(Graph *g, const CompileOptions *o, Arena *a, Diag *d, CompileReport *r) {
  TRY(watch_step(o->watch, d, "plan", NULL, 0, 1));
  at_work_part("planning memory", NULL, -1);
  TRY(plan_create(g, a, &r->plan));
  return plan_verify(r->plan, d);
}

// ---- lower and build ----

// A compiled model says how it was compiled.
static void record_options(Program *p, const CompileOptions *o) {
  TextList l = compile_options_list(o, OPTION_RECORD, &p->arena);
  p->option = (const char **)(uintptr_t)l.v;
  p->noptions = (int32_t)l.n;
}

static tenon_status build(Graph *g, const CompileOptions *o, bool lower_only, Arena *a, Diag *d,
                          CompileReport *r) {
  TargetOptions to = {.machine = o->machine,
                      .no_cache = o->no_cache,
                      .tier = (CodeTier)o->tier,
                      .key = compile_options_key(o, a),
                      .batch_invariant = o->batch_invariant,
                      .checked = o->checked,
                      .lower_only = lower_only,
                      .described = o->described,
                      .text = o->text,
                      .report = &r->target,
                      .threads = o->threads,
                      .sizes = o->sizes,
                      .watch = o->watch,
                      .compiled = &r->compiled,
                      .c_source = o->c_source,
                      .c_options = o->c_options,
                      .cflags = o->cflags,
                      .device = o->device,
                      .place = o->place.v,
                      .nplace = o->place.n,
                      .schedule = o->schedule.v,
                      .nschedules = o->schedule.n,
                      .tuned = o->schedules,
                      .tuned_strict = o->tuned_strict,
                      .workloads = o->workloads,
                      .no_residual = o->no_residual,
                      .strict = o->strict,
                      .tamper = o->tamper,
                      .tamper_ctx = o->tamper_ctx};
  TunedSchedules tuned;
  CHECK(o->target, "a program is for a target");
  if (o->tuned.path) {
    TRY(tuned_parse(o->tuned.text, o->tuned.path, a, d, &tuned));
    to.tuned = &tuned;
  }
  at_work_part("lowering", NULL, -1);
  if (!lower_only) TRY(graph_open_sources(g, d));
  program_release(r->program);  // of COMPILE_LOWER
  r->program = NULL;
  Arena *texts = o->loops && o->target->keeps_loops ? o->loops : a;
  TRY(target_compile(o->target, g, r->plan, &to, texts, d, &r->program));
  if (!lower_only) record_options(r->program, o);
  return TENON_OK;
}

// ---- the stages ----

static tenon_status stage(CompileStage s, Graph *g, const CompileOptions *o, Arena *a, Diag *d,
                          CompileReport *r) {
  int64_t begin = platform->now();
  switch (s) {
  case COMPILE_OPTIMISE: TRY(optimise(g, o, a, d, r)); break;
  case COMPILE_PLAN: TRY(plan(g, o, a, d, r)); break;
  case COMPILE_LOWER: TRY(build(g, o, true, a, d, r)); break;
  case COMPILE_BUILD: TRY(build(g, o, false, a, d, r)); break;
  case COMPILE_NOTHING:
  case COMPILE_STAGES: break;
  }
  r->seconds[s] = (double)(platform->now() - begin) / 1e9;
  if (s ==
      COMPILE_BUILD) {  // which lowers, too: as one, so that code is made while kernels are proven
    r->seconds[COMPILE_LOWER] = r->target.lower_ms / 1e3;
    r->seconds[COMPILE_BUILD] = r->target.build_ms / 1e3;
  }
  r->done = s;
  return TENON_OK;
}

static tenon_status stages(Graph *g, const CompileOptions *o, CompileStage until, Arena *a, Diag *d,
                           CompileReport *r) {
  TRY(compile_options_check(o, d));
  while (r->done < until) {
    CompileStage next = r->done + 1;
    // Lowered loops are no part of what is built: that lowers by itself.
    if (next == COMPILE_LOWER && until == COMPILE_BUILD) next = COMPILE_BUILD;
    TRY(stage(next, g, o, a, d, r));
  }
  return TENON_OK;
}

// Bytes of the files that hold the model and its weights, and of constants in memory, as large as
// they are in the model: a sparse tensor of few bytes does not ask for more by being dense.
static int64_t weight_bytes(Graph *g) {
  Diag *quiet = diag_unread();
  int64_t sum = 0;
  for (int64_t i = 0; i < g->source.n; i++) {
    Source *s = g->source.v[i];
    diag_init(quiet);
    // A file that is not there holds nothing; who reads it says so.
    if (!source_open(s, quiet) && !ck_add(sum, s->file.size, &sum)) sum = INT64_MAX;
  }
  for (int64_t i = 0; i < g->node.n; i++) {
    const ConstData *c = g->node.v[i]->op == OP_const ? g->node.v[i]->data : NULL;
    if (c && c->mem && !c->source && !ck_add(sum, c->bytes, &sum)) sum = INT64_MAX;
  }
  return MAX(sum - g->expanded_bytes, 0);
}

// What a small model may take; weights need more.
static int64_t usual_memory(int64_t weights) {
  int64_t more;
  return ck_mul(weights, 8, &more) && more < INT64_MAX / 2
             ? ((int64_t)LIMIT_COMPILE_MIB << 20) + more
             : INT64_MAX / 2;
}

static int64_t usual_seconds(int64_t weights) {
  return LIMIT_COMPILE_CPU_SECONDS + (weights >> 20) * LIMIT_COMPILE_CPU_SECONDS;
}

tenon_status compile_graph(Graph *g, const CompileOptions *o, CompileStage until, Arena *a, Diag *d,
                           CompileReport *r) {
  Diag *was = g->diag;
  Trap t;
  Budget budget;
  int64_t weights = weight_bytes(g);
  g->diag = d;
  budget_begin(&budget, o->max_memory ? o->max_memory : usual_memory(weights),
               usual_seconds(weights), weights);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = stages(g, o, until, a, d, r);
  trap_leave(&t);
  g->diag = was;
  budget_end(&budget);
  return t.status;
}
