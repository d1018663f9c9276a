// resident.c -- see resident.h.
//
// Calls go into a stream as a caller with one would make them: nothing is copied to or from the
// host, and the host waits for the last of a row alone.  So a row takes as long as the device
// needs, or the host to issue it where that is slower.
#include "cli/bench/resident.h"

static tenon_status open_device(Resident *r, const Program *p, Diag *d) {
  int index;
  for (int32_t i = 1; i < p->ndevices && !r->driver; i++) {
    const DeviceDriver *driver = device_driver(p->device[i].driver);
    if (!driver || !driver->lend) continue;
    TRY(driver->find(p->device[i].pick, d, &index));
    TRY(driver->open(index, d, &r->device));
    r->driver = driver;
  }
  if (!r->driver)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE,
                "--resident: the program runs on no device that takes memory of the caller's "
                "(use --target cuda)");
  r->places.stream = NULL;
  TRY(r->driver->queue(r->device, d, &r->queue));
  r->places.stream = r->driver->stream(r->queue);
  return TENON_OK;
}

static tenon_status make_buffer(Resident *r, Arena *a, const Value *v, Diag *d, DeviceBuffer **out,
                                int64_t *bytes) {
  if (!dtype_bytes(v->dtype, v->n, bytes))
    return fail(d, TENON_EINTERNAL, NOWHERE, "a tensor of impossible size");
  TRY(r->driver->buffer(r->device, *bytes, d, out));
  vec_push(a, &r->buffer, *out);
  return TENON_OK;
}

static bool on_device(const Value *v) { return v && v->kind == VK_TENSOR && v->dtype != DT_STRING; }

static tenon_status put_inputs(Resident *r, Run *held, const ProgFunction *f, Value *const *in,
                               TensorHome home, Arena *a, Diag *d) {
  TensorHome *homes = arena_array(a, TensorHome, MAX(f->nparams, 1));
  r->in = arena_array(a, Value *, MAX(f->nparams, 1));
  r->places.in = homes;
  for (int32_t i = 0; i < f->nparams; i++) {
    DeviceBuffer *b;
    int64_t bytes;
    r->in[i] = in[i];
    if (!on_device(in[i])) continue;
    TRY(make_buffer(r, a, in[i], d, &b, &bytes));
    if (bytes) TRY(r->driver->write(r->queue, (DevicePlace){b, 0}, in[i]->data, bytes, d));
    TRY(value_borrow(held, in[i]->dtype, in[i]->rank, in[i]->dims, r->driver->address(b),
                     &r->in[i]));
    homes[i] = home;
  }
  return TENON_OK;
}

tenon_status resident_make(Resident *r, Run *held, const Program *p, Value *const *in,
                           Value *const *results, Arena *a, Diag *d) {
  const ProgFunction *f = p->function[0];
  TRY(open_device(r, p, d));
  int64_t number = 0;
  (void)str_to_i64(str_of(r->driver->info(r->device)->pick), &number);
  TensorHome home = {r->driver->name, (int32_t)number};
  TRY(put_inputs(r, held, f, in, home, a, d));
  TensorHome *homes = arena_array(a, TensorHome, MAX(f->nresults, 1));
  r->room = arena_array(a, ResultRoom, MAX(f->nresults, 1));
  r->result = arena_array(a, DeviceBuffer *, MAX(f->nresults, 1));
  r->places.out = homes;
  for (int32_t i = 0; i < f->nresults; i++) {
    DeviceBuffer *b;
    int64_t bytes;
    if (!on_device(results[i])) continue;
    TRY(make_buffer(r, a, results[i], d, &b, &bytes));
    r->room[i] = (ResultRoom){r->driver->address(b), bytes};
    r->result[i] = b;
    homes[i] = home;
  }
  return r->driver->finish(r->queue, d);
}

void resident_free(Resident *r) {
  for (int64_t i = 0; i < r->buffer.n; i++) r->driver->buffer_free(r->device, r->buffer.v[i]);
  if (r->queue) r->driver->queue_free(r->queue);
  if (r->device) r->driver->close(r->device);
  *r = (Resident){0};
}

tenon_status resident_call(const Resident *r, Session *s, uint64_t seed, Diag *d) {
  Run run;
  run_init(&run, NULL, d);
  run.seed = seed;
  run.max_bytes = machine_memory();
  Value **out = arena_array(&run.scratch, Value *, session_program(s)->function[0]->nresults + 1);
  tenon_status status = session_run_on(s, &run, r->in, r->room, &r->places, out);
  run_deinit(&run);
  return status;
}

tenon_status resident_compare(const Resident *r, const Program *p, Value *const *results, Arena *a,
                              Diag *d) {
  const ProgFunction *f = p->function[0];
  for (int32_t i = 0; i < f->nresults; i++) {
    int64_t bytes = r->room[i].bytes;
    if (!r->result[i]) continue;
    char *got = arena_alloc(a, MAX(bytes, 1));
    if (bytes) TRY(r->driver->read(r->queue, got, (DevicePlace){r->result[i], 0}, bytes, d));
    if (bytes && memcmp(got, results[i]->data, (size_t)bytes) != 0)
      return fail(d, TENON_EINTERNAL, (Where){.node = f->result_name[i], .op = "output"},
                  "it has other bits on the device than copied to the host");
  }
  return TENON_OK;
}

// More than once: as kernels, as a graph that is recorded, and as one that is there.
static tenon_status check(Resident *r, Run *held, Session *s, Value *const *in,
                          Value *const *results, Arena *a) {
  const Program *p = session_program(s);
  Diag *d = held->diag;
  TRY(resident_make(r, held, p, in, results, a, d));
  for (int i = 0; i < 3; i++) {
    for (int32_t k = 0; k < p->function[0]->nresults; k++)
      if (r->result[k])
        TRY(r->driver->fill(r->queue, (DevicePlace){r->result[k], 0}, r->room[k].bytes, d));
    TRY(r->driver->finish(r->queue, d));
    TRY(resident_call(r, s, held->seed, d));
    TRY(session_wait(s, held));
    TRY(resident_compare(r, p, results, a, d));
  }
  return TENON_OK;
}

tenon_status resident_check(Session *s, uint64_t seed, Value *const *in, Value *const *results,
                            Arena *a, Diag *d) {
  Run held;
  Resident *r = arena_new(a, Resident);
  if (!session_program(s)->ndevices) return TENON_OK;
  run_init(&held, NULL, d);
  held.seed = seed;
  tenon_status status = check(r, &held, s, in, results, a);
  resident_free(r);
  run_deinit(&held);
  return status;
}

tenon_status resident_time(const Resident *r, Session *s, uint64_t seed, int64_t n, Diag *d,
                           double *ns) {
  TRY(r->driver->mark(r->queue, 0, d));
  for (int64_t i = 0; i < n; i++) TRY(resident_call(r, s, seed, d));
  TRY(r->driver->mark(r->queue, 1, d));
  TRY(r->driver->finish(r->queue, d));
  TRY(r->driver->between(r->queue, 0, 1, ns, d));
  *ns /= (double)n;
  return TENON_OK;
}
