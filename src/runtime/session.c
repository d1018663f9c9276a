// session.c -- running a program: frames, arenas, steps.
//
// A call binds its parameters' sizes, lays the arena out for them (or keeps the layout of the last
// call, when they are the same), and does the steps in order.  A symbol that a call binds is
// unbound when it returns.
//
// Guarantees: same bits for any number of threads; after an error the session can be used again.
#include "runtime/float_mode.h"
#include "runtime/session_impl.h"

enum { ALIGN = 64 };

// ---- making and freeing ----

static void make_frames(Session *s) {
  const Program *p = s->program;
  for (int32_t i = 0; i < p->nkernels; i++)
    s->scratch_each = MAX(s->scratch_each, p->kernel[i].scratch_bytes);
  s->sym = arena_array(&s->arena, int64_t, MAX(p->nsyms, 1));
  s->trail = arena_array(&s->arena, int32_t, MAX(p->nsyms, 1));
  s->frame = arena_array(&s->arena, Frame, p->nfunctions);
  for (int32_t i = 0; i < p->nfunctions; i++) {
    Frame *fr = &s->frame[i];
    fr->f = p->function[i];
    fr->cell = arena_array(&s->arena, Cell, MAX(fr->f->nvalues, 1));
    fr->offset = arena_array(&s->arena, int64_t, MAX(fr->f->nroots, 1));
    fr->laid_out = arena_array(&s->arena, int64_t, MAX(p->nsyms, 1));
  }
  s->nstates = prog_state_count(p);
  s->state = arena_array(&s->arena, SessionState, MAX(s->nstates, 1));
  for (int32_t i = 0; i < s->nstates; i++) s->state[i].param = prog_state_param(p, i);
}

static tenon_status start(Session *s, const SessionOptions *o, Diag *d) {
  make_frames(s);
  s->workers = workers_create(o ? o->threads : 0);
  if (!s->workers) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for threads");
  int64_t pad = 4096;  // so that threads never share a line or a page
  s->scratch_each = (s->scratch_each + pad + ALIGN - 1) / ALIGN * ALIGN;
  if (!ck_mul(s->scratch_each, workers_count(s->workers), &s->scratch_bytes) ||
      !(s->scratch = mem_alloc(s->scratch_bytes)))
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory for scratch");
  if (o) {
    s->observe = o->observe;
    s->observe_ctx = o->observe_ctx;
  }
  s->timed = o && o->profile;
  for (int32_t i = 0; s->timed && i < s->program->nfunctions; i++)
    s->frame[i].times = arena_array(&s->arena, StepTime, MAX(s->frame[i].f->nsteps, 1));
  session_make_job(s);
  if (!s->program->ndevices) return TENON_OK;
  if (!s->program->device_run)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "this runtime has no devices but the host");
  s->device_run = s->program->device_run;
  return s->device_run->start(s, d);
}

tenon_status session_create(Program *p, const SessionOptions *o, Diag *d, Session **out) {
  *out = NULL;
  if (p->listed)
    return fail(d, TENON_EINVAL, NOWHERE, "the program was loaded to be listed, not to be run");
  Session *s = mem_alloc((int64_t)sizeof *s);
  if (!s) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  s->program = program_retain(p);
  arena_init(&s->arena);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = start(s, o, d);
  trap_leave(&t);
  if (t.status)
    session_free(s);
  else
    *out = s;
  return t.status;
}

void session_free(Session *s) {
  if (!s) return;
  if (s->device_run) s->device_run->stop(s);
  session_free_states(s);
  workers_free(s->workers);
  pool_release(s->pool);
  for (int32_t i = 0; s->frame && i < s->program->nfunctions; i++)
    mem_free(s->frame[i].memory, s->frame[i].memory_bytes);
  mem_free(s->scratch, s->scratch_bytes);
  arena_deinit(&s->arena);
  program_release(s->program);
  mem_free(s, (int64_t)sizeof *s);
}

const Program *session_program(const Session *s) { return s->program; }
int session_threads(const Session *s) { return workers_count(s->workers); }
const StepTime *session_times(const Session *s, int32_t function) {
  return s->frame[function].times;
}
void session_reset_times(Session *s) {
  for (int32_t i = 0; s->timed && i < s->program->nfunctions; i++)
    memset(s->frame[i].times, 0, (size_t)s->frame[i].f->nsteps * sizeof(StepTime));
}
int64_t session_arena_bytes(const Session *s) { return s->frame[0].arena_bytes; }
int64_t session_scratch_bytes(const Session *s) { return s->scratch_bytes; }
int64_t session_device_bytes(const Session *s) {
  return s->device_run ? s->device_run->bytes(s) : 0;
}
int64_t session_device_memory(const Session *s) {
  return s->device_run ? s->device_run->memory(s) : 0;
}

// ---- the arena ----

static bool same_sizes(const Session *s, const Frame *fr) {
  return fr->valid && !memcmp(fr->laid_out, s->sym, (size_t)s->program->nsyms * sizeof *s->sym);
}

// A value that lies at the end of the plan's memory, for messages.
static Where last_value(const Frame *fr, int32_t root) {
  for (int32_t i = 0; i < fr->f->nvalues; i++) {
    const ProgValue *v = &fr->f->value[i];
    if (v->place == PLACE_ARENA && v->slot == root && v->name) return (Where){.node = v->name};
  }
  return NOWHERE;
}

static tenon_status no_room(Run *run, Where at, const char *why) {
  return fail(run->diag, TENON_ENOMEM, at, "the plan's memory: %s", why);
}

static tenon_status lay_out(Session *s, Run *run, Frame *fr) {
  if (same_sizes(s, fr)) return TENON_OK;
  const ProgFunction *f = fr->f;
  int64_t total = 0;
  int32_t last = -1;
  fr->valid = false;
  int64_t *end = arena_array(&run->scratch, int64_t, MAX(f->nroots, 1));
  for (int32_t i = 0; i < f->nroots; i++) {
    const ProgRoot *r = &f->root[i];
    int64_t bytes;
    if (!prog_eval(s->program, r->bytes, s->sym, &bytes) || bytes < 0)
      return fail(run->diag, TENON_EINVAL, NOWHERE,
                  "the sizes of these inputs leave the plan's memory undetermined");
    fr->offset[i] = 0;
    for (int32_t k = 0; k < r->nbelow; k++) fr->offset[i] = MAX(fr->offset[i], end[r->below[k]]);
    if (!ck_add(fr->offset[i], bytes, &end[i])) return no_room(run, last_value(fr, i), "too large");
    if (end[i] > total) total = end[last = i];
  }
  if (run->max_bytes && total > run->max_bytes)
    return run_over_limit(run, last_value(fr, last), "the plan's memory", total);
  int64_t need = total;
  if (s->device_run) TRY(s->device_run->lay_out(s, run, fr, end, &need));
  need = MAX(need, ALIGN);  // values without elements have an address too
  if (need > fr->memory_bytes) {
    mem_free(fr->memory, fr->memory_bytes);
    fr->memory_bytes = 0;
    if (!(fr->memory = mem_alloc(need))) return no_room(run, last_value(fr, last), "out of memory");
    fr->memory_bytes = need;
  }
  fr->arena_bytes = total;
  memcpy(fr->laid_out, s->sym, (size_t)s->program->nsyms * sizeof *s->sym);
  fr->valid = true;
  return TENON_OK;
}

tenon_status session_reserve(Session *s, const char *const *symbol, const int64_t *value, int64_t n,
                             Diag *d) {
  const Program *p = s->program;
  Run run;
  run_init(&run, NULL, d);
  for (int32_t k = 0; k < p->nsyms; k++)
    for (int64_t i = 0; i < n; i++)
      if (!strcmp(p->sym[k].name, symbol[i])) s->sym[k] = value[i];
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = lay_out(s, &run, &s->frame[0]);
  trap_leave(&t);
  for (int32_t k = 0; k < p->nsyms; k++) s->sym[k] = SYM_UNBOUND;
  run_deinit(&run);
  return t.status;
}

// ---- parameters and results ----

// Whether kernels can use it in place: they need no more than whole elements.
static bool aligned(const void *p, DType t) {
  return (uintptr_t)p % (uintptr_t)MIN(MAX(elem_bytes(t), 1), 8) == 0;
}

static tenon_status take_parameter(Session *s, Run *run, Frame *fr, int32_t i, Value *v) {
  const ProgFunction *f = fr->f;
  const ProgValue *pv = &f->value[f->param[i]];
  Cell *c = &fr->cell[f->param[i]];
  Where at = {.node = pv->name};
  bool state = pv->place == PLACE_STATE;
  if (state) TRY(session_state_value(s, run, i, &v));
  if (!v) return TENON_OK;
  if (!bind_shape(s, pv, v)) return wrong_shape(s, run, at, "the input", pv, v);
  if (state && !aligned(v->data, v->dtype))
    return fail(run->diag, TENON_EINVAL, at, "the state's memory is not aligned to its elements");
  if (s->places && !state) {
    bool taken;
    TRY(s->device_run->take(s, run, fr, i, v, &taken));
    if (taken) return TENON_OK;
  }
  if (v->kind == VK_TENSOR && v->dtype != DT_STRING && !aligned(v->data, v->dtype)) {
    TRY(value_tensor(run, at, v->dtype, v->rank, v->dims, &c->value));
    copy_elems(v->dtype, c->value->data, 0, v->data, 0, v->n);
  } else {
    c->value = value_retain(v);
  }
  c->data = c->value->kind == VK_TENSOR ? c->value->data : NULL;
  return TENON_OK;
}

// Every value that has its place from the start gets it.
static tenon_status place_all(const Session *s, Run *run, Frame *fr, const ResultRoom *room) {
  for (int32_t i = 0; i < fr->f->nvalues; i++) {
    const ProgValue *v = &fr->f->value[i];
    Cell *c = &fr->cell[i];
    int64_t at = 0;
    if (v->at >= 0 && (!prog_eval(s->program, v->at, s->sym, &at) || at < 0))
      return no_room(run, (Where){.node = v->name}, "the place of a part is not known");
    if (v->place == PLACE_ARENA) c->data = fr->memory + fr->offset[v->slot] + at;
    if (v->place == PLACE_STATE) c->data = fr->cell[fr->f->param[v->slot]].data;
    if (v->place == PLACE_CONST) c->data = (char *)(uintptr_t)s->program->constant[v->slot].data;
    if (v->place != PLACE_RESULT || !room) continue;
    if (s->places && s->places->out && s->places->out[v->slot].driver) continue;
    const ResultRoom *r = &room[v->slot];
    int64_t bytes, whole;  // a part is there only where all of it is
    if (r->data && aligned(r->data, v->dtype) && value_bytes(s, v, &bytes) &&
        value_bytes(s, &fr->f->value[fr->f->result[v->slot]], &whole) && whole <= r->bytes &&
        at <= r->bytes && bytes <= r->bytes - at)
      c->data = (char *)r->data + at;
  }
  return TENON_OK;
}

static tenon_status give_result(Session *s, Run *run, Frame *fr, int32_t i, Value **out) {
  int32_t value = fr->f->result[i];
  if (s->places) {
    TRY(s->device_run->give(s, run, fr, i, out));
    if (*out) return TENON_OK;
  }
  TRY(cell_value(s, run, fr, value, out));
  int place = fr->f->value[value].place;
  if (s->frame == fr && (place == PLACE_CONST || place == PLACE_STATE)) return TENON_OK;
  return value_detach(s, run, out);
}

static void drop_cells(Frame *fr) {
  for (int32_t i = 0; i < fr->f->nvalues; i++) {
    value_release(fr->cell[i].value);
    fr->cell[i] = (Cell){0};
  }
}

// ---- steps ----

static tenon_status do_view(Session *s, Run *run, Frame *fr, const ProgStep *st) {
  Cell *from = &fr->cell[st->in[0]], *to = &fr->cell[st->out[0]];
  const ProgValue *v = &fr->f->value[st->out[0]];
  int64_t dims[MAX_RANK];
  to->data = from->data;
  if (!from->value) return TENON_OK;
  if (!cell_dims(
          s, v,
          dims)) {  // the same value under another name: a view of another shape has a known one
    to->value = value_retain(from->value);
    return TENON_OK;
  }
  return value_alias(run, from->value, v->rank, dims, &to->value);
}

static tenon_status do_copy(Session *s, Run *run, Frame *fr, const ProgStep *st) {
  const ProgValue *v = &fr->f->value[st->out[0]];
  Cell *from = &fr->cell[st->in[0]], *to = &fr->cell[st->out[0]];
  int64_t bytes;
  TRY(cell_make(s, run, fr, st->out[0], (Where){.node = st->node, .op = st->op}));
  if (!value_bytes(s, v, &bytes))
    return fail(run->diag, TENON_EINTERNAL, (Where){.node = st->node, .op = st->op},
                "the size of a copy is not known");
  if (bytes) memcpy(to->data, from->data, (size_t)bytes);
  return TENON_OK;
}

// What a step takes of the run's limit: an operation for each element that it reads or writes, or
// what was counted for it where sizes are fixed.  Evaluations count their own.
static tenon_status spend(const Session *s, Run *run, const Frame *fr, const ProgStep *st) {
  double ops = 1;
  for (int32_t i = 0; i < st->nargs; i++) {
    int64_t dims[MAX_RANK], n;
    const ProgValue *v = &fr->f->value[st->arg[i]];
    if (cell_dims(s, v, dims) && shape_count(v->rank, dims, &n)) ops += (double)n;
  }
  if (!s->program->nsyms && st->flops > ops) ops = st->flops;
  return run_work(run, (Where){.node = st->node, .op = st->op}, ops);
}

static tenon_status check_sizes(Session *s, Run *run, const ProgStep *st) {
  for (int32_t i = 0; i < st->nsame; i++) {
    int64_t a, b;
    Where at = {.node = st->node, .op = st->op};
    if (!prog_eval(s->program, st->same[i], s->sym, &a) ||
        !prog_eval(s->program, st->as[i], s->sym, &b))
      return fail(run->diag, TENON_EINTERNAL, at, "a size is not known");
    if (a != b)
      return fail(run->diag, TENON_EINVAL, at, "%s %lld and %lld must be equal", st->what[i],
                  (long long)a, (long long)b);
  }
  return TENON_OK;
}

// Whether the step is done at all; limits and sizes allow it.
static tenon_status enter_step(Session *s, Run *run, const Frame *fr, const ProgStep *st,
                               bool *out_do) {
  int64_t when = 1;
  at_work_step(st->node);
  *out_do = st->when < 0 || !prog_eval(s->program, st->when, s->sym, &when) || when;
  if (!*out_do) return TENON_OK;
  for (int32_t k = 0; k <= st->more; k++) {
    if (!session_needs(s, fr, &st[k])) continue;
    if (run->ops_budget >= 0) TRY(spend(s, run, fr, &st[k]));
    TRY(check_sizes(s, run, &st[k]));
  }
  return TENON_OK;
}

static tenon_status do_step(Session *s, Run *run, Frame *fr, const ProgStep *st) {
  switch ((ProgStepKind)st->kind) {
  case STEP_KERNEL:
    for (int32_t k = 0; k <= st->more; k++)
      for (int32_t i = 0; session_needs(s, fr, &st[k]) && i < st[k].nout; i++)
        TRY(cell_make(s, run, fr, st[k].out[i], (Where){.node = st[k].node, .op = st[k].op}));
    return session_kernels(s, run, fr, st);
  case STEP_HOST: return session_host(s, run, fr, st);
  case STEP_VIEW: return do_view(s, run, fr, st);
  case STEP_COPY: return do_copy(s, run, fr, st);
  }
  return fail(run->diag, TENON_EINTERNAL, NOWHERE, "no such step");
}

static tenon_status show_results(Session *s, Run *run, const Frame *fr, const ProgStep *st) {
  for (int32_t i = 0; i < st->nout; i++) {
    Value *v = NULL;
    if (s->device_run) TRY(s->device_run->show(s, run, fr, st->out[i], &v));
    if (!v) TRY(cell_value(s, run, fr, st->out[i], &v));
    tenon_status status = s->observe(s->observe_ctx, st, st->out[i], v);
    value_release(v);
    TRY(status);
  }
  return TENON_OK;
}

// After a step: its results are shown where it was done, and what nobody needs any more is freed.
static tenon_status end_step(Session *s, Run *run, Frame *fr, const ProgStep *st, bool done) {
  if (done && s->observe && fr == s->frame && session_needs(s, fr, st))
    TRY(show_results(s, run, fr, st));
  for (int32_t k = 0; k < st->nfree; k++) {
    value_release(fr->cell[st->free[k]].value);
    fr->cell[st->free[k]] = (Cell){0};
  }
  return TENON_OK;
}

static void note_times(const Session *s, const Frame *fr, const ProgStep *st, StepTime *times,
                       int64_t begin) {
  int64_t ns = platform->now() - begin;
  for (int32_t k = 0; k <= st->more; k++) {
    if (!session_needs(s, fr, &st[k])) continue;
    times[k].calls++;
    times[k].last_begin = begin;
    times[k].last_ns = st->more ? session_kernel_time(s, &st[k], ns) : ns;
    times[k].ns += times[k].last_ns;
  }
}

// Whether one of the concurrent steps is.
static bool any_needed(const Session *s, const Frame *fr, const ProgStep *st) {
  for (int32_t k = 0; k <= st->more; k++)
    if (session_needs(s, fr, &st[k])) return true;
  return false;
}

static tenon_status do_steps(Session *s, Run *run, Frame *fr) {
  StepTime *times = fr->times;
  for (int32_t i = 0; i < fr->f->nsteps; i += 1 + fr->f->step[i].more) {
    const ProgStep *st = &fr->f->step[i];
    int64_t begin = times ? platform->now() : 0;
    bool needed = any_needed(s, fr, st);
    if (needed) TRY(enter_step(s, run, fr, st, &needed));
    if (needed) TRY(do_step(s, run, fr, st));
    for (int32_t k = 0; k <= st->more; k++) TRY(end_step(s, run, fr, &st[k], needed));
    if (times && needed) note_times(s, fr, st, &times[i], begin);
  }
  return TENON_OK;
}

// Where the program has devices: steps that are on one, and those of the host in between.
static tenon_status do_placed_steps(Session *s, Run *run, Frame *fr) {
  StepTime *times = fr->times;
  for (int32_t i = 0; i < fr->f->nsteps; i += 1 + fr->f->step[i].more) {
    const ProgStep *st = &fr->f->step[i];
    int64_t begin = times ? platform->now() : 0, ns = -1;
    bool needed = any_needed(s, fr, st), done = false;
    if (needed) TRY(enter_step(s, run, fr, st, &needed));
    if (needed) TRY(s->device_run->step(s, run, fr, st, &done, &ns));
    if (needed && !done) TRY(do_step(s, run, fr, st));
    for (int32_t k = 0; k <= st->more; k++) {
      TRY(end_step(s, run, fr, &st[k], needed));
      for (int32_t v = 0; v < st[k].nfree; v++) s->device_run->release(s, fr, st[k].free[v]);
    }
    if (times && needed) note_times(s, fr, st, &times[i], begin);
    if (times && ns >= 0) {
      times[i].ns += ns - times[i].last_ns;
      times[i].last_ns = ns;
    }
  }
  return s->device_run->end(s, run, fr);
}

static tenon_status call(Session *s, Run *run, Frame *fr, Value *const *in, const ResultRoom *room,
                         Value **out) {
  ArenaMark m = arena_mark(&run->scratch);
  for (int32_t i = 0; i < fr->f->nparams; i++) TRY(take_parameter(s, run, fr, i, in[i]));
  TRY(lay_out(s, run, fr));
  TRY(place_all(s, run, fr, room));
  if (s->device_run) {
    TRY(s->device_run->place(s, run, fr));
    TRY(do_placed_steps(s, run, fr));
  } else {
    TRY(do_steps(s, run, fr));
  }
  for (int32_t i = 0; i < fr->f->nresults; i++)
    if (fr != s->frame || run_wants(run, i)) TRY(give_result(s, run, fr, i, &out[i]));
  arena_reset(&run->scratch, m);
  return TENON_OK;
}

tenon_status session_call(Session *s, Run *run, const ProgFunction *f, Value *const *in,
                          const ResultRoom *room, Value **out) {
  Frame *fr = &s->frame[f->index];
  int32_t bound = s->ntrail;
  tenon_status status = call(s, run, fr, in, room, out);
  drop_cells(fr);
  if (s->device_run) s->device_run->leave(s, fr);
  while (s->ntrail > bound) s->sym[s->trail[--s->ntrail]] = SYM_UNBOUND;
  return status;
}

// ---- bodies of control flow ----

static tenon_status call_body(Run *run, const struct Body *body, Value *const *in, int64_t nin,
                              Value **out, int64_t nout) {
  Session *s = run->user;
  const ProgFunction *f = (const ProgFunction *)(const void *)body;
  if (nin != f->nparams || nout != f->nresults)
    return fail(run->diag, TENON_EINTERNAL, NOWHERE, "a body is called with %lld values",
                (long long)nin);
  return session_call(s, run, f, in, NULL, out);
}

// Rows of which there are none: their sizes are what the body's result says at the operands' sizes,
// or the model declares; else 0.
static tenon_status empty_stack(const struct Eval *e, const struct Body *body, int64_t result,
                                int64_t axis, const Ints *declared, Value **out) {
  Session *s = e->run->user;
  const ProgFunction *f = (const ProgFunction *)(const void *)body;
  const ProgValue *v = &f->value[f->result[result]];
  int64_t dims[MAX_RANK] = {0};
  bool ranked = v->kind == VK_TENSOR && v->rank >= 0;
  int rank = ranked ? v->rank : declared ? (int)declared->n : 0;
  if (rank >= MAX_RANK || axis < -(rank + 1) || axis > rank)
    return fail(e->run->diag, TENON_EINVAL, e->at, "axis %lld for rows of rank %d", (long long)axis,
                rank);
  if (axis < 0) axis += rank + 1;
  int32_t bound = s->ntrail;
  for (int32_t i = 0; i < f->nparams && i < e->nin; i++)
    if (e->in[i]) (void)bind_shape(s, &f->value[f->param[i]], e->in[i]);
  for (int d = 0, k = 0; d <= rank; d++) {
    if (d == axis) continue;
    int64_t said = declared && declared->n == rank ? MAX(declared->v[k], 0) : 0;
    if (!ranked || !prog_eval(s->program, v->dim[k], s->sym, &dims[d])) dims[d] = said;
    k++;
  }
  while (s->ntrail > bound) s->sym[s->trail[--s->ntrail]] = SYM_UNBOUND;
  dims[axis] = 0;
  return value_tensor(e->run, e->at, v->dtype ? v->dtype : DT_F32, rank + 1, dims, out);
}

static tenon_status run_model(Session *s, Run *run, Value *const *inputs, const ResultRoom *room,
                              Value **out) {
  for (int32_t i = 0; i < s->program->function[0]->nresults; i++) out[i] = NULL;
  s->needed = session_needed_steps(s, run);
  if (s->device_run) TRY(s->device_run->begin(s, run));
  TRY(session_call(s, run, s->program->function[0], inputs, room, out));
  return s->places ? s->device_run->finish(s, run) : TENON_OK;
}

static tenon_status not_here(const Session *s, Run *run, const SessionPlaces *p) {
  const ProgFunction *f = s->program->function[0];
  for (int32_t i = 0; p->in && i < f->nparams; i++)
    if (p->in[i].driver)
      return fail(run->diag, TENON_EINVAL,
                  (Where){.node = f->value[f->param[i]].name, .op = "input"},
                  "it is in a device's memory, and the program runs on the host");
  for (int32_t i = 0; p->out && i < f->nresults; i++)
    if (p->out[i].driver && run_wants(run, i))
      return fail(run->diag, TENON_EINVAL, (Where){.node = f->result_name[i], .op = "output"},
                  "it is in a device's memory, and the program runs on the host");
  return TENON_OK;
}

tenon_status session_run(Session *s, Run *run, Value *const *inputs, const ResultRoom *room,
                         Value **out) {
  return session_run_on(s, run, inputs, room, NULL, out);
}

tenon_status session_run_on(Session *s, Run *run, Value *const *inputs, const ResultRoom *room,
                            const SessionPlaces *places, Value **out) {
  run->user = s;
  run->call_body = call_body;
  run->empty_stack = empty_stack;
  if (places && !s->device_run) TRY(not_here(s, run, places));
  s->places = s->device_run ? places : NULL;
  s->room = room;
  s->swapped = atomic_load_explicit(&s->program->swapped, memory_order_acquire);
  s->ntrail = 0;
  for (int32_t i = 0; i < s->program->nsyms; i++) s->sym[i] = SYM_UNBOUND;
  uint64_t mode = float_mode_enter(false);
  Trap t;
  trap_enter(&t, run->diag);
  if (setjmp(t.env) == 0) t.status = run_model(s, run, inputs, room, out);
  trap_leave(&t);
  float_mode_leave(mode);
  s->places = NULL;
  if (t.status)
    for (int32_t i = 0; i < s->program->nfunctions; i++) {
      // The values belong to the run, which frees them; a raised error skipped this.
      memset(s->frame[i].cell, 0, (size_t)s->frame[i].f->nvalues * sizeof(Cell));
    }
  if (t.status && s->device_run) s->device_run->failed(s);
  return t.status;
}

tenon_status session_wait(Session *s, Run *run) {
  if (!s->device_run) return TENON_OK;
  tenon_status status = s->device_run->wait(s, run);
  if (status) s->device_run->failed(s);
  return status;
}
