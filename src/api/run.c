// run.c -- the public interface: running a model in the reference interpreter.
#include "api/api.h"

// Without a pool (out of memory) the caller's thread does it all; the next run tries again.
static Pool *pool_of(tenon_model *m) {
  pthread_mutex_lock(&m->lock);
  if (!m->pool) m->pool = pool_create(m->threads);
  Pool *p = m->pool;
  pthread_mutex_unlock(&m->lock);
  return p;
}

tenon_status api_run_model(tenon_model *m, Run *r, Value *const *in, Value **out) {
  TRY(model_need_supported(m->model, r->diag));
  r->pool = pool_of(m);
  return model_run(m->model, r, in, out);
}

static tenon_status run_model(tenon_model *m, const tenon_run_options *o, RunCall *c) {
  TRY(api_take_wanted(o, c->want_out, c->run));
  TRY(api_check_counts(c));
  for (size_t i = 0; i < c->nout; i++)
    if (run_wants(c->run, (int64_t)i))
      TRY(api_need_host(&c->out[i], (Where){.node = c->output[i].name, .op = "output"}, c->d));
  Run *r = c->run;
  Value **in = arena_array(&r->scratch, Value *, (int64_t)c->nin);
  Value **out = arena_array(&r->scratch, Value *, (int64_t)c->nout);
  TRY(api_take_inputs(c, in));
  TRY(api_run_model(m, r, in, out));
  return api_give_outputs(c, out);
}

tenon_status tenon_run(tenon_model *m, const tenon_tensor *inputs, size_t ninputs,
                       tenon_tensor *outputs, size_t noutputs, const tenon_run_options *options,
                       tenon_error *error) {
  Diag d;
  Run run;
  tenon_run_options o = {0};
  diag_init(&d);
  if (!m) return api_missing("model", error);
  if (options && !api_take_options(&o, sizeof(o), options, offsetof(tenon_run_options, stream)))
    return api_error(error, &d, api_wrong_options(&d, options->struct_size, sizeof(o)));
  tenon_status wrong = api_check_limits(&o, &d);
  if (wrong) return api_error(error, &d, wrong);
  RunCall c = {.input = m->input,
               .output = m->output,
               .want_in = tenon_model_input_count(m),
               .want_out = tenon_model_output_count(m),
               .in = inputs,
               .nin = ninputs,
               .out = outputs,
               .nout = noutputs,
               .run = &run,
               .d = &d};
  d.base.file = m->model->path;
  run_init(&run, NULL, &d);
  api_limit_run(&run, &o, m->memory_limit);
  Trap t;
  trap_enter(&t, &d);
  if (setjmp(t.env) == 0) t.status = run_model(m, &o, &c);
  trap_leave(&t);
  run_deinit(&run);
  return api_error(error, &d, t.status);
}
