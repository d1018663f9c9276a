// device_user_buffers.c -- tensors of a call that lie in a device's memory, where the caller has
// them.
//
// A parameter that a program would copy to the device is read in place; a result is computed in
// place, or copied there on the device.  A session finds once whether the host needs a parameter;
// only then is it copied to the host.
//
// A call that has a stream of the caller's and no result on the host ends before the device has
// done its work.  What a kernel then finds wrong is said by a later call, once it is known, or by
// session_wait.
#include "runtime/device_impl.h"

// What kernels and TMA take addresses to be multiples of.
enum { USER_ALIGN = 16 };

// ---- what the host needs ----

static void need(const DeviceSession *ds, int32_t value) {
  if (value >= 0) ds->host_use[value] = true;
}

// A parameter that is copied to a device need not be on the host for it.
static bool is_taken(const ProgFunction *f, const ProgStep *st) {
  return st->kind == STEP_COPY && f->value[st->out[0]].device &&
         f->value[st->in[0]].place == PLACE_PARAM;
}

void device_find_uses(Session *s) {
  DeviceSession *ds = s->device;
  const ProgFunction *f = s->frame[0].f;
  ds->in = arena_array(&s->arena, UserBuffer, MAX(f->nparams, 1));
  ds->out = arena_array(&s->arena, UserBuffer, MAX(f->nresults, 1));
  ds->host_use = arena_array(&s->arena, bool, MAX(f->nvalues, 1));
  ds->root = arena_array(&s->arena, int32_t, MAX(f->nresults, 1));
  for (int32_t i = 0; i < f->nresults; i++) {
    ds->root[i] = f->result[i];
    for (int32_t k = f->nsteps - 1; k >= 0; k--) {
      const ProgStep *st = &f->step[k];
      if (st->kind == STEP_VIEW && st->nin == 1 && st->out[0] == ds->root[i])
        ds->root[i] = st->in[0];
    }
    if (f->value[ds->root[i]].place == PLACE_PARAM) need(ds, ds->root[i]);
  }
  for (int32_t i = f->nsteps - 1; i >= 0; i--) {
    const ProgStep *st = &f->step[i];
    if (is_taken(f, st) || (st->kind == STEP_VIEW && !ds->host_use[st->out[0]])) continue;
    for (int32_t k = 0; k < st->nin; k++) need(ds, st->in[k]);
    for (int32_t k = 0; k < st->nargs; k++) need(ds, st->arg[k]);
  }
}

// ---- a call ----

// The program's number of a device, with a message where it has none such.
static tenon_status find_device(const Session *s, const TensorHome *h, Where at, Diag *d,
                                int32_t *out) {
  const DeviceKept *k = s->device->kept;
  for (int32_t i = 1; i < k->n; i++) {
    const DeviceLoaded *l = &k->device[i];
    if (strcmp(l->driver->name, h->driver) != 0 || l->number != h->number || !l->driver->lend)
      continue;
    *out = i;
    return TENON_OK;
  }
  return fail(d, TENON_EINVAL, at,
              "it lies in the memory of %s device %d, which the program does not run on", h->driver,
              (int)h->number);
}

static tenon_status find_homes(Session *s, Run *run) {
  DeviceSession *ds = s->device;
  const ProgFunction *f = s->frame[0].f;
  const SessionPlaces *p = s->places;
  bool host = false;
  for (int32_t i = 0; i < f->nparams; i++) {
    Where at = {.node = f->value[f->param[i]].name, .op = "input"};
    ds->in[i].device = 0;
    if (p && p->in && p->in[i].driver)
      TRY(find_device(s, &p->in[i], at, run->diag, &ds->in[i].device));
  }
  for (int32_t i = 0; i < f->nresults; i++) {
    Where at = {.node = f->result_name[i], .op = "output"};
    ds->out[i].device = 0;
    ds->out[i].there = false;
    if (!run_wants(run, i)) continue;
    if (p && p->out && p->out[i].driver)
      TRY(find_device(s, &p->out[i], at, run->diag, &ds->out[i].device));
    host |= !ds->out[i].device;
  }
  ds->asynchronous = p && p->stream && !host && !s->timed;
  return TENON_OK;
}

tenon_status device_enter_call(Session *s, Run *run) {
  DeviceSession *ds = s->device;
  TRY(find_homes(s, run));
  for (int32_t i = 1; i < s->program->ndevices; i++) {
    const DeviceLoaded *l = &ds->kept->device[i];
    TRY(device_look(s, run, i));
    if (!s->places || !s->places->stream) continue;
    if (!l->driver->use)
      return fail(run->diag, TENON_EUNSUPPORTED, NOWHERE, "%s has no streams of the caller's",
                  l->driver->name);
    TRY(l->driver->use(ds->on[i].queue, s->places->stream, run->diag));
  }
  return TENON_OK;
}

// Everything is put: what the caller has on the device is right from here on, or from there on in
// its stream.
tenon_status device_leave_call(Session *s, Run *run) {
  DeviceSession *ds = s->device;
  bool user_memory = false;
  for (int32_t i = 0; i < s->frame[0].f->nresults; i++) user_memory |= ds->out[i].device > 0;
  for (int32_t i = 0; i < s->frame[0].f->nparams; i++) user_memory |= ds->in[i].device > 0;
  for (int32_t i = 1; i < s->program->ndevices; i++) {
    const DeviceLoaded *l = &ds->kept->device[i];
    if (s->places && s->places->stream) {
      TRY(l->driver->use(ds->on[i].queue, NULL, run->diag));
    } else if (user_memory) {
      TRY(l->driver->finish(ds->on[i].queue, run->diag));
    }
  }
  return TENON_OK;
}

// Other memory in every call, one buffer for it.
static tenon_status lend(Session *s, UserBuffer *x, void *at, int64_t bytes, Diag *d) {
  const DeviceLoaded *l = &s->device->kept->device[x->device];
  if (x->buffer && x->made_on != x->device) {
    const DeviceLoaded *old = &s->device->kept->device[x->made_on];
    old->driver->buffer_free(old->device, x->buffer);
    x->buffer = NULL;
  }
  x->made_on = x->device;
  return l->driver->lend(l->device, at, bytes, d, &x->buffer);
}

// ---- parameters ----

tenon_status device_take(Session *s, Run *run, Frame *fr, int32_t i, Value *v, bool *taken) {
  DeviceSession *ds = s->device;
  UserBuffer *in = &ds->in[i];
  Cell *c = &fr->cell[fr->f->param[i]];
  Where at = {.node = fr->f->value[fr->f->param[i]].name, .op = "input"};
  int64_t bytes;
  *taken = fr == s->frame && in->device;
  if (!*taken) return TENON_OK;
  const DeviceLoaded *l = &ds->kept->device[in->device];
  if (!dtype_bytes(v->dtype, v->n, &bytes))
    return fail(run->diag, TENON_EINTERNAL, at, "a tensor of impossible size");
  TRY(lend(s, in, v->data, bytes, run->diag));
  if (!ds->host_use[fr->f->param[i]]) return TENON_OK;
  TRY(value_tensor(run, at, v->dtype, v->rank, v->dims, &c->value));
  c->data = c->value->data;
  if (!bytes) return TENON_OK;
  return l->driver->read(ds->on[in->device].queue, c->data, (DevicePlace){in->buffer, 0}, bytes,
                         run->diag);
}

// The caller's memory of a parameter, or NULL.
static const UserBuffer *user_param(const Session *s, const Frame *fr, int32_t value) {
  if (fr != s->frame || fr->f->value[value].place != PLACE_PARAM) return NULL;
  const UserBuffer *in = &s->device->in[fr->f->value[value].slot];
  return in->device ? in : NULL;
}

static bool aligned(const DeviceLoaded *l, const UserBuffer *x) {
  return (uintptr_t)l->driver->address(x->buffer) % USER_ALIGN == 0;
}

tenon_status device_copy_param(Session *s, Run *run, Frame *fr, const ProgStep *st, int64_t bytes,
                               bool *done) {
  DeviceSession *ds = s->device;
  Where at = {.node = st->node, .op = st->op};
  const UserBuffer *in = user_param(s, fr, st->in[0]);
  int32_t device = fr->f->value[st->out[0]].device;
  DeviceCell *c = &fr->device->cell[st->out[0]];
  *done = in && !fr->cell[st->in[0]].data;
  if (!in) return TENON_OK;
  const DeviceLoaded *l = &ds->kept->device[in->device];
  if (in->device == device && aligned(l, in)) {
    *done = true;
    *c = (DeviceCell){.at = {in->buffer, 0}};
    return TENON_OK;
  }
  if (!*done) return TENON_OK;
  TRY(device_make(s, run, fr, st->out[0], at));
  if (!bytes) return TENON_OK;
  if (in->device == device)
    return l->driver->copy(ds->on[device].queue, c->at, (DevicePlace){in->buffer, 0}, bytes,
                           run->diag);
  Value *room;
  TRY(value_tensor(run, at, DT_U8, 1, &bytes, &room));
  TRY(l->driver->read(ds->on[in->device].queue, room->data, (DevicePlace){in->buffer, 0}, bytes,
                      run->diag));
  tenon_status status = ds->kept->device[device].driver->write(ds->on[device].queue, c->at,
                                                               room->data, bytes, run->diag);
  value_release(room);
  return status;
}

// ---- results ----

// The caller's memory of a result, once it is known how much is needed.
static tenon_status lend_result(Session *s, Run *run, int32_t i, int64_t bytes) {
  UserBuffer *out = &s->device->out[i];
  const ResultRoom *room = &s->room[i];
  Where at = {.node = s->frame[0].f->result_name[i], .op = "output"};
  if (bytes && !room->data)
    return fail(run->diag, TENON_EINVAL, at, "no memory of the device is given for it");
  if (bytes > room->bytes)
    return fail(run->diag, TENON_EINVAL, at, "it needs %lld bytes, the buffer has %lld",
                (long long)bytes, (long long)room->bytes);
  return lend(s, out, room->data, bytes, run->diag);
}

tenon_status device_user_result(Session *s, Run *run, const Frame *fr, const ProgValue *v,
                                DeviceBuffer **out) {
  int64_t bytes;
  *out = NULL;
  if (fr != s->frame || s->device->out[v->slot].device != v->device) return TENON_OK;
  if (!value_bytes(s, &fr->f->value[fr->f->result[v->slot]], &bytes)) return TENON_OK;
  TRY(lend_result(s, run, v->slot, bytes));
  const UserBuffer *user_memory = &s->device->out[v->slot];
  if (aligned(&s->device->kept->device[user_memory->device], user_memory))
    *out = user_memory->buffer;
  return TENON_OK;
}

// Result `i` is what lies at `from` of a device.
static tenon_status place_result(Session *s, Run *run, int32_t i, int32_t device, DevicePlace from,
                                 int64_t have) {
  DeviceSession *ds = s->device;
  UserBuffer *out = &ds->out[i];
  const ProgFunction *f = s->frame[0].f;
  int64_t bytes;
  if (out->device != device || !value_bytes(s, &f->value[f->result[i]], &bytes) || bytes > have)
    return TENON_OK;
  TRY(lend_result(s, run, i, bytes));
  out->there = true;
  if (!bytes || (from.buffer == out->buffer && !from.offset)) return TENON_OK;
  return ds->kept->device[device].driver->copy(ds->on[device].queue, (DevicePlace){out->buffer, 0},
                                               from, bytes, run->diag);
}

tenon_status device_copy_result(Session *s, Run *run, const Frame *fr, const ProgStep *st,
                                int64_t bytes, bool *done) {
  const DeviceSession *ds = s->device;
  int32_t device = fr->f->value[st->in[0]].device;
  bool host = fr != s->frame || ds->host_use[st->out[0]], any = false;
  *done = false;
  for (int32_t i = 0; fr == s->frame && i < fr->f->nresults; i++) {
    if (ds->root[i] != st->out[0]) continue;
    any = true;
    if (ds->out[i].device)
      TRY(place_result(s, run, i, device, fr->device->cell[st->in[0]].at, bytes));
    host |= !ds->out[i].there;
  }
  *done = any && !host;
  return TENON_OK;
}

// What was made by the host goes over; what is there already has only its shape to say.
tenon_status device_give(Session *s, Run *run, const Frame *fr, int32_t i, Value **out) {
  DeviceSession *ds = s->device;
  const UserBuffer *user_memory = &ds->out[i];
  const ProgValue *v = &fr->f->value[fr->f->result[i]];
  int64_t dims[MAX_RANK], bytes;
  Value *made = NULL;
  *out = NULL;
  if (fr != s->frame || !user_memory->device) return TENON_OK;
  if (user_memory->there) {
    if (!cell_dims(s, v, dims)) return size_unknown(s, run, v, NOWHERE);
    return value_borrow(run, v->dtype, v->rank, dims, s->room[i].data, out);
  }
  TRY(cell_value(s, run, fr, fr->f->result[i], &made));
  if (made->kind != VK_TENSOR || made->dtype == DT_STRING ||
      !dtype_bytes(made->dtype, made->n, &bytes))
    return fail(run->diag, TENON_EINVAL, (Where){.node = fr->f->result_name[i], .op = "output"},
                "it has no form in the memory of a device");
  TRY(lend_result(s, run, i, bytes));
  const DeviceDriver *driver = ds->kept->device[user_memory->device].driver;
  if (bytes)
    TRY(driver->write(ds->on[user_memory->device].queue, (DevicePlace){user_memory->buffer, 0},
                      made->data, bytes, run->diag));
  TRY(value_borrow(run, made->dtype, made->rank, made->dims, s->room[i].data, out));
  value_release(made);
  return TENON_OK;
}

tenon_status device_wait(Session *s, Run *run) {
  for (int32_t i = 1; i < s->program->ndevices; i++) {
    const DeviceLoaded *l = &s->device->kept->device[i];
    if (!s->device->on[i].queue) continue;
    TRY(l->driver->finish(s->device->on[i].queue, run->diag));
    TRY(device_faults(s, run, i));
  }
  return TENON_OK;
}

void device_drop_user_buffers(Session *s, int32_t device) {
  DeviceSession *ds = s->device;
  const DeviceLoaded *l = &ds->kept->device[device];
  const ProgFunction *f = s->frame[0].f;
  for (int32_t i = 0; ds->in && i < f->nparams; i++)
    if (ds->in[i].made_on == device && ds->in[i].buffer)
      l->driver->buffer_free(l->device, ds->in[i].buffer);
  for (int32_t i = 0; ds->out && i < f->nresults; i++)
    if (ds->out[i].made_on == device && ds->out[i].buffer)
      l->driver->buffer_free(l->device, ds->out[i].buffer);
}
