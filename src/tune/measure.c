// measure.c -- builds and times schedules (measure.h).
//
// Candidates are lowered one after another; then all texts go to the pool of code generators at
// once.  Runs alternate, and a round's times are compared with the default's of the same round, so
// that drift of the clock cancels.  Between runs a block of memory is read that is as large as the
// caches where the model is larger than those.  The operands that kernels make are then read once,
// since in the model they were just written.
//
// Needs:      a task of this process (task.h).
// Guarantees: every candidate was proven by the verifier and gives the default's bits, else it is
//             not timed.  Building measures nothing, and nothing is built while runs are timed.
#include "tune/measure.h"

#include "base/platform.h"
#include "energy/window.h"
#include "lower/tuned.h"
#include "targets/cpu.h"
#include "targets/llvm/codegen.h"
#include "tune/race.h"

#include <stdlib.h>

enum { SHARED_ITEMS = 24 };
static const double window_seconds = 0.25;  // counters rise every millisecond or so

// ---- building ----

static tenon_status lower_rival(Stage *s, Rival *r, CompileReport *c, Diag *d) {
  TuneModel *m = s->m;
  CompileOptions o = m->o;
  const char *rule = str_printf(&s->arena, "*=%s", r->schedule);
  o.schedule.v = &rule;
  o.schedule.n = 1;
  *c = (CompileReport){.done = COMPILE_PLAN, .plan = s->task->plan};
  m->g->main = s->task->body;
  tenon_status status = compile_graph(m->g, &o, COMPILE_LOWER, &s->arena, d, c);
  m->g->main = m->main;
  return status;
}

// One that has the text of another is no rival.
static bool is_new(const Building *b, Str text) {
  for (int64_t i = 0; i < b->n; i++)
    if (str_eq(b->text[i], text)) return false;
  return true;
}

// Work items of its kernel; 0: they depend on sizes.
static int64_t items_of(const Program *p) {
  const ProgFunction *f = p->function[0];
  int64_t items = 0;
  for (int32_t i = 0; i < f->nsteps; i++) {
    const ProgExpr *e = f->step[i].kind == STEP_KERNEL ? &p->expr[f->step[i].items] : NULL;
    if (e && e->n == 2 && e->code[0] == PX_CONST) items = e->code[1];
  }
  return items;
}

// Kernels are timed on one core, where few large items do well.  Fewer than the default has, and
// than several cores can share evenly, are none.
static bool has_items(const Stage *s, const Rival *r) {
  int64_t dflt = items_of(s->rival[0].program), own = items_of(r->program);
  return !own || !dflt || own >= MIN(dflt, SHARED_ITEMS);
}

static tenon_status lower_all(Stage *s, Building *b) {
  static _Thread_local Diag quiet;
  for (int64_t i = 0; i < s->n; i++) {
    Rival *r = &s->rival[i];
    CompileReport *c = &b->report[i];
    diag_init(&quiet);
    tenon_status status = lower_rival(s, r, c, &quiet);
    if (status == TENON_ENOMEM || (status && !i)) return diag_again(s->m->diag, status, quiet.text);
    r->program = c->program;
    bool one = !status && c->compiled.nkernels == 1;
    if (!one || !is_new(b, c->compiled.kernel[0].text) || !has_items(s, r)) {
      r->status = TRIAL_FAILED;
      r->out = true;
      if (!i) return fail(s->m->diag, TENON_EUNSUPPORTED, NOWHERE, "its loops are several kernels");
      continue;
    }
    b->of[b->n] = i;
    b->text[b->n++] = c->compiled.kernel[0].text;
  }
  return TENON_OK;
}

tenon_status stage_lower(Stage *s, TuneModel *m, const TuneTask *t, const char *const *schedule,
                         int64_t n, Building *b) {
  *s = (Stage){.m = m, .task = t, .n = n + 1, .reorder = m->reorder};
  arena_init(&s->arena);
  run_init(&s->run, NULL, m->diag);
  Trap trap;
  trap_enter(&trap, m->diag);
  if (setjmp(trap.env) == 0) {
    *b = (Building){.report = arena_array(&s->arena, CompileReport, n + 1),
                    .text = arena_array(&s->arena, Str, n + 1),
                    .of = arena_array(&s->arena, int64_t, n + 1)};
    s->rival = arena_array(&s->arena, Rival, n + 1);
    s->rival[0].schedule = t->dflt;
    for (int64_t i = 0; i < n; i++) s->rival[1 + i].schedule = schedule[i];
    s->cold_bytes = m->run_bytes > m->machine.l2_bytes ? 2 * m->machine.l2_bytes : 0;
    trap.status = lower_all(s, b);
  }
  trap_leave(&trap);
  return trap.status;
}

static tenon_status make_code(Stage *s, Building *b, bool quick) {
  TuneModel *m = s->m;
  Codegen *codegen;
  Code *code = arena_array(&s->arena, Code, b->n + 1);
  CodeCall call = {.quick = quick, .no_cache = quick, .go_on = true};
  TRY(codegen_shared(m->threads, m->diag, &codegen));
  tenon_status status = codegen_build_with(codegen, &m->machine, CODE_IMAGE, b->text, b->n, &call,
                                           &s->arena, code, m->diag);
  codegen_release(codegen);
  for (int64_t i = 0; !status && i < b->n; i++) {
    Rival *r = &s->rival[b->of[i]];
    r->code_bytes = code[i].n;
    if (!code[i].failed && code[i].n <= (int64_t)LIMIT_KERNEL_CODE_KIB << 10) {
      status =
          cpu_put_code(&b->report[b->of[i]].compiled, &m->machine, &code[i], &s->arena, m->diag);
      continue;
    }
    r->status = TRIAL_FAILED;
    r->out = true;
  }
  return status;
}

// ---- the first run: bits ----

static tenon_status first_run(Stage *s, Rival *r, Value ***out, Diag *d) {
  SessionOptions so = {.threads = 1, .profile = true};
  int64_t n = s->task->body->nresults;
  *out = arena_array(&s->arena, Value *, n + 1);
  r->room = arena_array(&s->arena, ResultRoom, n + 1);
  TRY(session_create(r->program, &so, d, &r->session));
  TRY(session_run(r->session, &s->run, s->task->in, NULL, *out));
  for (int64_t i = 0; i < n; i++) {
    const Value *v = (*out)[i];
    int64_t bytes;
    if (v && v->kind == VK_TENSOR && v->dtype != DT_STRING && dtype_bytes(v->dtype, v->n, &bytes))
      r->room[i] = (ResultRoom){v->data, bytes};
  }
  return TENON_OK;
}

static bool same_bits(const Stage *s, const Rival *a, const Rival *b) {
  for (int64_t i = 0; i < s->task->body->nresults; i++) {
    if (a->room[i].bytes != b->room[i].bytes) return false;
    if (a->room[i].bytes && memcmp(a->room[i].data, b->room[i].data, (size_t)a->room[i].bytes))
      return false;
  }
  return true;
}

static tenon_status run_first(Stage *s) {
  static _Thread_local Diag quiet;
  for (int64_t i = 0; i < s->n; i++) {
    Rival *r = &s->rival[i];
    Value **out;
    if (r->out) continue;
    diag_init(&quiet);
    tenon_status status = first_run(s, r, &out, &quiet);
    if (status && (!i || status == TENON_ENOMEM)) return diag_again(s->m->diag, status, quiet.text);
    r->status = status                                        ? TRIAL_FAILED
                : s->reorder || same_bits(s, &s->rival[0], r) ? TRIAL_OK
                                                              : TRIAL_WRONG;
    r->out = r->status != TRIAL_OK;
    // All write where the default does: only what is compared needs memory of its own.
    for (int64_t k = 0; i && k < s->task->body->nresults; k++) value_release(out[k]);
    if (i) r->room = s->rival[0].room;
  }
  return TENON_OK;
}

tenon_status stage_open(Stage *s, TuneModel *m, const TuneTask *t, const char *const *schedule,
                        int64_t n, bool quick) {
  Building b;
  TRY(stage_lower(s, m, t, schedule, n, &b));
  Trap trap;
  trap_enter(&trap, m->diag);
  if (setjmp(trap.env) == 0) {
    s->cold = arena_alloc(&s->arena, s->cold_bytes + 1);
    trap.status = make_code(s, &b, quick);
    if (!trap.status) trap.status = run_first(s);
  }
  trap_leave(&trap);
  return trap.status;
}

void stage_close(Stage *s) {
  for (int64_t i = 0; s->rival && i < s->n; i++) {
    session_free(s->rival[i].session);
    program_release(s->rival[i].program);
  }
  run_deinit(&s->run);
  arena_deinit(&s->arena);
}

// ---- timing ----

// Weights are cold, and what was made last is not.
static void prepare_caches(const Stage *s) {
  int64_t bytes;
  if (!s->cold_bytes) return;
  race_touch(s->cold, s->cold_bytes);
  for (int64_t i = s->m->main->nparams; i < s->task->body->nparams; i++) {
    const Value *v = s->task->in[i];
    if (v->kind == VK_TENSOR && v->dtype != DT_STRING && dtype_bytes(v->dtype, v->n, &bytes))
      race_touch(v->data, bytes);
  }
}

static tenon_status run_rival(Stage *s, Rival *r) {
  int64_t ns;
  prepare_caches(s);
  TRY(tune_run(r->session, s->task->in, r->room, s->processor, s->m->diag, &ns));
  r->ns[r->n++] = MAX(ns, 1);
  return TENON_OK;
}

static double least_of(const Rival *r) { return race_least(r->ns, r->n); }

static void drop_slow(Stage *s, double limit) {
  double best = least_of(&s->rival[0]);
  for (int64_t i = 1; i < s->n; i++)
    if (!s->rival[i].out) best = MIN(best, least_of(&s->rival[i]));
  for (int64_t i = 1; i < s->n; i++) {
    Rival *r = &s->rival[i];
    if (r->out || least_of(r) <= best * limit) continue;
    r->out = true;
    r->status = TRIAL_SLOW;
  }
}

static bool any_left(const Stage *s) {
  for (int64_t i = 1; i < s->n; i++)
    if (!s->rival[i].out) return true;
  return false;
}

tenon_status stage_race(Stage *s, int rounds, int64_t until, bool drop) {
  int64_t ns;
  TRY(tune_run(s->rival[0].session, s->task->in, s->rival[0].room, false, s->m->diag, &ns));
  s->processor = ns > RACE_LONG_NS;
  for (int k = 0; k < MIN(rounds, TRIAL_SAMPLES) && any_left(s); k++) {
    if (k >= RACE_LEAST_ROUNDS && platform->now() > until) break;
    for (int64_t i = 0; i < s->n; i++)
      if (!s->rival[i].out) TRY(run_rival(s, &s->rival[i]));
    if (drop && race_limit(k + 1) > 0) drop_slow(s, race_limit(k + 1));
  }
  return TENON_OK;
}

// ---- energy ----

// A run above what the machine takes at rest, in the unit of TuneModel.confirm; 0: not above it.
static int64_t cost_of(const TuneModel *m, const EnergyWindow *w) {
  double joules = (w->joules - m->idle_watts * w->seconds) / (double)w->runs;
  double cost =
      m->confirm == TRIAL_EDP ? joules * w->seconds / (double)w->runs * 1e15 : joules * 1e9;
  return cost >= 1 && cost < 1e18 ? (int64_t)cost : 0;
}

typedef struct Repeated {
  TuneModel *m;
  Session *session;
  Value *const *in;
  const ResultRoom *room;
} Repeated;

static tenon_status repeat(void *ctx) {
  Repeated *r = ctx;
  int64_t ns;
  return tune_run(r->session, r->in, r->room, true, r->m->diag, &ns);
}

static tenon_status cost_of_runs(Repeated *r, int64_t *out) {
  EnergyWindow w;
  *out = 0;
  TRY(energy_window(r->m->meter, window_seconds, repeat, r, r->m->diag, &w));
  *out = cost_of(r->m, &w);
  return TENON_OK;
}

// A round in which a window does not rise above the machine at rest says nothing of any.
tenon_status stage_energy(Stage *s, int rounds, int64_t until) {
  int64_t *cost = arena_array(&s->arena, int64_t, s->n);
  for (int k = 0; k < MIN(rounds, TRIAL_SAMPLES) && any_left(s); k++) {
    bool sound = true;
    if (k >= RACE_LEAST_ROUNDS && platform->now() > until) break;
    for (int64_t i = 0; i < s->n; i++) {
      Rival *x = &s->rival[i];
      Repeated r = {s->m, x->session, s->task->in, x->room};
      if (x->out) continue;
      TRY(cost_of_runs(&r, &cost[i]));
      sound &= cost[i] > 0;
    }
    for (int64_t i = 0; sound && i < s->n; i++)
      if (!s->rival[i].out) s->rival[i].ns[s->rival[i].n++] = cost[i];
  }
  return TENON_OK;
}

void stage_trial(const Stage *s, int64_t i, TrialPhase phase, Trial *out) {
  const Rival *r = &s->rival[i];
  *out = (Trial){.phase = (uint8_t)phase,
                 .status = (uint8_t)r->status,
                 .key = s->task->key,
                 .schedule = r->schedule,
                 .dflt = s->task->dflt,
                 .code_bytes = r->code_bytes,
                 .n = MIN(r->n, s->rival[0].n)};
  memcpy(out->ns, r->ns, (size_t)out->n * sizeof *r->ns);
  memcpy(out->anchor_ns, s->rival[0].ns, (size_t)out->n * sizeof *r->ns);
}

// ---- the whole model ----

static tenon_status sample_model(TuneModel *m, Session *s, int64_t *out) {
  Repeated r = {m, s, m->in, NULL};
  if (m->confirm != TRIAL_CONFIRM) return cost_of_runs(&r, out);
  return tune_run(s, m->in, NULL, true, m->diag, out);
}

static tenon_status race_models(TuneModel *m, Session *const *s, int rounds, int64_t until,
                                Trial *t) {
  int64_t ns;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 2; i++) TRY(tune_run(s[i], m->in, NULL, true, m->diag, &ns));
  for (int k = 0; k < MIN(rounds, TRIAL_SAMPLES); k++) {
    int64_t cost[2];
    if (k >= RACE_LEAST_ROUNDS && platform->now() > until) break;
    TRY(sample_model(m, s[k & 1], &cost[k & 1]));
    TRY(sample_model(m, s[!(k & 1)], &cost[!(k & 1)]));
    if (cost[0] <= 0 || cost[1] <= 0) continue;
    t->anchor_ns[t->n] = cost[0];
    t->ns[t->n++] = cost[1];
  }
  return TENON_OK;
}

static tenon_status compare_models(TuneModel *m, Session *const *s, Arena *a, Trial *t) {
  Str x, y;
  TRY(tune_results(s[0], m->in, a, m->diag, &x));
  TRY(tune_results(s[1], m->in, a, m->diag, &y));
  if (!m->reorder && !str_eq(x, y)) t->status = TRIAL_WRONG;
  return TENON_OK;
}

tenon_status measure_model(TuneModel *m, const TunedSchedules *tuned, int rounds, int64_t until,
                           Trial *out) {
  Program *p[2] = {NULL};
  Session *s[2] = {NULL};
  Arena a;
  *out = (Trial){.phase = TRIAL_MODEL, .key = "", .schedule = ""};
  arena_init_scoped(&a);
  tenon_status status = tune_compile(m, NULL, &p[0]);
  if (!status) status = tune_compile(m, tuned, &p[1]);
  for (int i = 0; !status && i < 2; i++)
    status = session_create(p[i], &(SessionOptions){.threads = 1}, m->diag, &s[i]);
  if (!status) status = compare_models(m, s, &a, out);
  if (!status) status = race_models(m, s, rounds, until, out);
  for (int i = 0; i < 2; i++) session_free(s[i]), program_release(p[i]);
  arena_deinit(&a);
  return status;
}
