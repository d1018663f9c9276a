// session.c -- the public interface: running programs.
//
// Results whose size is known beforehand are computed in the caller's buffers, or in those of the
// last bound run (ResultRoom); what a run allocates is copied out, as tenon_run does.
#include "api/api.h"

// ---- making and freeing ----

static tenon_status start(tenon_session *s, const tenon_session_options *o, Diag *d) {
  const tenon_program *p = s->program;
  if (o->threads < 0 || o->memory_limit < 0)
    return fail(d, TENON_EINVAL, NOWHERE, "threads and memory_limit must not be negative");
  s->memory_limit = o->memory_limit;
  run_keep_init(&s->keep);
  s->bound_in = arena_array(&s->arena, tenon_tensor, (int64_t)MAX(p->ninputs, 1));
  s->is_bound = arena_array(&s->arena, bool, (int64_t)MAX(p->ninputs, 1));
  s->bound_out = arena_array(&s->arena, tenon_tensor, (int64_t)MAX(p->noutputs, 1));
  s->own = arena_array(&s->arena, tenon_tensor, (int64_t)MAX(p->noutputs, 1));
  s->last = arena_array(&s->arena, tenon_tensor, (int64_t)MAX(p->noutputs, 1));
  TRY(state_declare(s, o->states, o->nstates, d));
  SessionOptions so = {.threads = o->threads, .profile = o->profile != 0};
  return session_create(p->program, &so, d, &s->session);
}

tenon_status tenon_session_create(tenon_program *p, const tenon_session_options *options,
                                  tenon_session **out, tenon_error *error) {
  Diag d;
  tenon_session_options o = {0};
  diag_init(&d);
  if (out) *out = NULL;
  if (!out || !p) return api_missing(p ? "place for the session" : "program", error);
  if (options && !api_take_options(&o, sizeof(o), options, sizeof(o)))
    return api_error(error, &d, api_wrong_options(&d, options->struct_size, sizeof(o)));
  tenon_session *s = mem_alloc((int64_t)sizeof(*s));
  if (!s) return api_error(error, &d, fail(&d, TENON_ENOMEM, NOWHERE, "out of memory"));
  arena_init(&s->arena);
  s->program = tenon_program_retain(p);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = start(s, &o, &d);
  trap_leave(&t);
  if (t.status)
    tenon_session_release(s);
  else
    *out = s;
  return api_error(error, &d, t.status);
}

static void drop_own(tenon_session *s) {
  for (size_t i = 0; s->own && i < s->program->noutputs; i++) tenon_tensor_release(&s->own[i]);
  s->has_last = false;
}

void tenon_session_release(tenon_session *s) {
  if (!s) return;
  drop_own(s);
  state_release(s);
  session_free(s->session);
  run_keep_deinit(&s->keep);
  tenon_program_release(s->program);
  arena_deinit(&s->arena);
  mem_free(s, (int64_t)sizeof(*s));
}

tenon_program *tenon_session_program(const tenon_session *s) { return s ? s->program : NULL; }
int32_t tenon_session_threads(const tenon_session *s) {
  return s ? session_threads(s->session) : 0;
}
int64_t tenon_session_device_bytes(const tenon_session *s) {
  return s ? session_device_bytes(s->session) : 0;
}

// ---- running ----

static void begin(const tenon_session *s, Run *r) {
  if (!r->max_bytes) r->max_bytes = machine_memory();
  r->foreign = api_foreign;
  r->foreign_ctx = s->program->custom;
}

tenon_status api_run_session(tenon_session *s, Run *r, Value *const *in, Value **out) {
  ResultRoom *room = arena_array(&r->scratch, ResultRoom, (int64_t)MAX(s->program->noutputs, 1));
  begin(s, r);
  return session_run_on(s->session, r, in, room, NULL, out);
}

static tenon_status run_session(tenon_session *s, RunCall *c) {
  TRY(api_check_counts(c));
  Run *r = c->run;
  begin(s, r);
  Value **in = arena_array(&r->scratch, Value *, (int64_t)MAX(c->nin, 1));
  Value **out = arena_array(&r->scratch, Value *, (int64_t)MAX(c->nout, 1));
  ResultRoom *room = arena_array(&r->scratch, ResultRoom, (int64_t)MAX(c->nout, 1));
  TRY(api_find_homes(c));
  for (size_t i = 0; i < c->nout; i++) (void)api_room(c, i, &room[i]);
  TRY(api_take_inputs(c, in));
  SessionPlaces places = {.in = c->in_home, .out = c->out_home, .stream = c->stream};
  bool placed = c->in_home || c->stream;
  TRY(session_run_on(s->session, r, in, room, placed ? &places : NULL, out));
  return api_give_outputs(c, out);
}

// With states the call gets tensors of its own, of which those of the caller are filled in at the
// end.
static tenon_status run_with_states(tenon_session *s, const tenon_run_options *o, RunCall *c) {
  tenon_tensor *outputs = c->out;
  TRY(api_take_wanted(o, c->want_out, c->run));
  if (!s->nstates) return run_session(s, c);
  if (o->wanted) c->run->wanted = state_want(s, c->run);
  TRY(api_check_counts(c));
  tenon_tensor *in = arena_dup(&c->run->scratch, c->in, (int64_t)(c->nin * sizeof *in));
  tenon_tensor *out = arena_dup(&c->run->scratch, c->out, (int64_t)(c->nout * sizeof *out));
  TRY(state_enter(s, in, out, c->d));
  c->in = in;
  c->out = out;
  TRY(run_session(s, c));
  TRY(state_leave(s, out, outputs, c->d));
  memcpy(outputs, out, c->nout * sizeof *out);
  return TENON_OK;
}

static tenon_status run(tenon_session *s, const tenon_tensor *inputs, size_t nin,
                        tenon_tensor *outputs, size_t nout, tenon_tensor *spare,
                        const tenon_run_options *options, Diag *d) {
  Run run;
  tenon_run_options o = {0};
  if (options && !api_take_options(&o, sizeof(o), options, offsetof(tenon_run_options, stream)))
    return api_wrong_options(d, options->struct_size, sizeof(o));
  TRY(api_check_limits(&o, d));
  const tenon_program *p = s->program;
  RunCall c = {.input = p->input,
               .output = p->output,
               .want_in = p->ninputs,
               .want_out = p->noutputs,
               .in = inputs,
               .nin = nin,
               .out = outputs,
               .nout = nout,
               .spare = spare,
               .stream = o.stream,
               .run = &run,
               .d = d};
  run_init_keeping(&run, &s->keep, d);
  api_limit_run(&run, &o, s->memory_limit);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = run_with_states(s, &o, &c);
  trap_leave(&t);
  run_deinit(&run);
  return t.status;
}

tenon_status tenon_session_run(tenon_session *s, const tenon_tensor *inputs, size_t ninputs,
                               tenon_tensor *outputs, size_t noutputs,
                               const tenon_run_options *options, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!s) return api_missing("session", error);
  return api_error(error, &d, run(s, inputs, ninputs, outputs, noutputs, NULL, options, &d));
}

static tenon_status wait(tenon_session *s, Diag *d) {
  Run run;
  run_init(&run, NULL, d);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = session_wait(s->session, &run);
  trap_leave(&t);
  run_deinit(&run);
  return t.status;
}

tenon_status tenon_session_wait(tenon_session *s, tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!s) return api_missing("session", error);
  return api_error(error, &d, wait(s, &d));
}

// ---- bound buffers ----

static tenon_status no_such(Diag *d, const char *what, size_t i, size_t n) {
  return fail(d, TENON_EINVAL, NOWHERE, "there is no %s %zu: the program has %zu", what, i, n);
}

tenon_status tenon_session_bind_input(tenon_session *s, size_t i, const tenon_tensor *tensor,
                                      tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!s) return api_missing("session", error);
  const tenon_program *p = s->program;
  if (i >= p->ninputs) return api_error(error, &d, no_such(&d, "input", i, p->ninputs));
  if (!tensor)
    return api_error(error, &d, fail(&d, TENON_EINVAL, NOWHERE, "no tensor for input %zu", i));
  tenon_tensor view = *tensor;
  view.owner = NULL;
  RunCall c = {.input = &p->input[i], .in = &view, .nin = 1, .d = &d};
  tenon_status st = api_check_input(&c, 0);
  if (!st) {
    s->bound_in[i] = view;
    s->is_bound[i] = true;
  }
  return api_error(error, &d, st);
}

tenon_status tenon_session_bind_output(tenon_session *s, size_t i, const tenon_tensor *tensor,
                                       tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!s) return api_missing("session", error);
  const tenon_program *p = s->program;
  if (i >= p->noutputs) return api_error(error, &d, no_such(&d, "output", i, p->noutputs));
  if (tensor && tensor->data && tensor->bytes <= 0)
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, (Where){.node = p->output[i].name, .op = "output"},
                          "a buffer of %lld bytes", (long long)tensor->bytes));
  s->has_last = false;
  s->bound_out[i] = (tenon_tensor){0};
  if (tensor && tensor->data)
    s->bound_out[i] = (tenon_tensor){.data = tensor->data,
                                     .bytes = tensor->bytes,
                                     .memory = tensor->memory,
                                     .device = tensor->device};
  return api_error(error, &d, TENON_OK);
}

static tenon_status run_bound(tenon_session *s, const tenon_run_options *options, Diag *d) {
  const tenon_program *p = s->program;
  for (size_t i = 0; i < p->ninputs; i++)
    if (!s->is_bound[i] && !state_is_input(s, i))
      return fail(d, TENON_EINVAL, (Where){.node = p->input[i].name, .op = "input"},
                  "nothing is bound to it");
  // Memory of the last run is written over, so that none is asked for and cleared each time.
  s->has_last = false;
  for (size_t i = 0; i < p->noutputs; i++) s->last[i] = s->bound_out[i];
  TRY(run(s, s->bound_in, p->ninputs, s->last, p->noutputs, s->own, options, d));
  for (size_t i = 0; i < p->noutputs; i++) {
    if (s->last[i].dtype == TENON_DTYPE_NONE) s->last[i] = (tenon_tensor){0};  // not wanted
    if (s->last[i].owner) {
      tenon_tensor_release(&s->own[i]);
      s->own[i] = s->last[i];
    }
    s->last[i].owner = NULL;
  }
  s->has_last = true;
  return TENON_OK;
}

tenon_status tenon_session_run_bound(tenon_session *s, const tenon_run_options *options,
                                     tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (!s) return api_missing("session", error);
  return api_error(error, &d, run_bound(s, options, &d));
}

tenon_status tenon_session_output(const tenon_session *s, size_t i, tenon_tensor *out,
                                  tenon_error *error) {
  Diag d;
  diag_init(&d);
  if (out) *out = (tenon_tensor){0};
  if (!s || !out) return api_missing(s ? "place for the output" : "session", error);
  if (i >= s->program->noutputs)
    return api_error(error, &d, no_such(&d, "output", i, s->program->noutputs));
  if (!s->has_last)
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL, NOWHERE, "no bound run has given outputs yet"));
  if (s->last[i].dtype == TENON_DTYPE_NONE)
    return api_error(error, &d,
                     fail(&d, TENON_EINVAL,
                          (Where){.node = s->program->output[i].name, .op = "output"},
                          "the last bound run did not want it"));
  *out = s->last[i];
  return api_error(error, &d, TENON_OK);
}

// ---- profile ----

size_t tenon_session_step_count(const tenon_session *s) {
  return s ? (size_t)s->program->program->function[0]->nsteps : 0;
}

tenon_status tenon_session_step(const tenon_session *s, size_t i, tenon_step *out) {
  static const tenon_step_kind kind[] = {[STEP_KERNEL] = TENON_STEP_KERNEL,
                                         [STEP_HOST] = TENON_STEP_HOST,
                                         [STEP_VIEW] = TENON_STEP_VIEW,
                                         [STEP_COPY] = TENON_STEP_COPY};
  if (!out) return TENON_EINVAL;
  *out = (tenon_step){0};
  if (i >= tenon_session_step_count(s)) return TENON_EINVAL;
  const ProgStep *st = &s->program->program->function[0]->step[i];
  const StepTime *times = session_times(s->session, 0);
  *out = (tenon_step){.name = st->op ? st->op : "",
                      .node = st->node ? st->node : "",
                      .kind = kind[st->kind],
                      .more = st->more,
                      .flops = st->flops,
                      .bytes = st->bytes};
  if (times) {
    out->calls = times[i].calls;
    out->ns = times[i].ns;
  }
  return TENON_OK;
}

void tenon_session_profile_reset(tenon_session *s) {
  if (s) session_reset_times(s->session);
}
