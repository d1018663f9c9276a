// device_session.c -- memory of a session on the devices of its program.
//
// Each function has an arena on every device, laid out like the host's and as large as the roots
// that the device uses.  Values outside of arenas lie in blocks, which are given from one value to
// the next and kept from call to call: since what is put into a queue happens in order, a block is
// free as soon as the step is queued that uses it last.  A state has a buffer of its own.
#include "runtime/device_impl.h"

// ---- blocks ----

static DeviceBlock *find_block(DeviceSession *ds, int32_t device, int64_t bytes) {
  DeviceBlock *best = NULL;
  for (DeviceBlock *b = ds->blocks; b; b = b->next) {
    if (b->refs || b->device != device || b->bytes < bytes || b->bytes / 2 > bytes + (32 << 10))
      continue;
    if (!best || b->bytes < best->bytes) best = b;
  }
  return best;
}

// One that is free and too small gives its place; else there is one more.
static DeviceBlock *smaller_block(Session *s, int32_t device, int64_t bytes) {
  DeviceSession *ds = s->device;
  DeviceBlock *best = NULL;
  for (DeviceBlock *b = ds->blocks; b; b = b->next)
    if (!b->refs && b->device == device && b->bytes < bytes && (!best || b->bytes > best->bytes))
      best = b;
  if (best) {
    const DeviceLoaded *l = &ds->kept->device[device];
    if (best->buffer) l->driver->buffer_free(l->device, best->buffer);
    best->buffer = NULL;
    best->bytes = 0;
    return best;
  }
  best = arena_new(&s->arena, DeviceBlock);
  *best = (DeviceBlock){.next = ds->blocks, .device = device};
  ds->blocks = best;
  return best;
}

// The run's limit holds for what lies outside of arenas, too.
static tenon_status check_limit(const Session *s, Run *run, int64_t more) {
  int64_t used = more;
  for (const DeviceBlock *b = s->device->blocks; b; b = b->next)
    if (b->refs && !ck_add(used, b->bytes, &used)) used = INT64_MAX;
  if (!run->max_bytes || used <= run->max_bytes) return TENON_OK;
  return run_over_limit(run, NOWHERE, "memory of devices", used);
}

static tenon_status take_block(Session *s, Run *run, int32_t device, int64_t bytes,
                               DeviceBlock **out) {
  DeviceSession *ds = s->device;
  const DeviceLoaded *l = &ds->kept->device[device];
  bytes = MAX(bytes, DEVICE_ALIGN);
  TRY(check_limit(s, run, bytes));
  DeviceBlock *b = find_block(ds, device, bytes);
  if (!b) {
    b = smaller_block(s, device, bytes);
    TRY(l->driver->buffer(l->device, bytes, run->diag, &b->buffer));
    b->bytes = bytes;
  }
  b->refs = 1;
  *out = b;
  return TENON_OK;
}

// ---- values ----

static DeviceBlock **result_slot(const Frame *fr, const ProgValue *v) {
  return &fr->device->result[v->device * fr->f->nresults + v->slot];
}

static tenon_status make_result(Session *s, Run *run, Frame *fr, const ProgValue *v, DeviceCell *c,
                                Where at) {
  DeviceBlock **slot = result_slot(fr, v);
  int64_t bytes, part = 0;
  DeviceBuffer *user_memory;
  TRY(device_user_result(s, run, fr, v, &user_memory));
  if (!user_memory && !*slot) {
    const ProgValue *whole = &fr->f->value[fr->f->result[v->slot]];
    if (!value_bytes(s, whole, &bytes)) return size_unknown(s, run, whole, at);
    TRY(take_block(s, run, v->device, bytes, slot));
  }
  if (v->at >= 0 && !prog_eval(s->program, v->at, s->sym, &part))
    return fail(run->diag, TENON_EINTERNAL, at, "the place of a part is not known");
  c->at = (DevicePlace){user_memory ? user_memory : (*slot)->buffer, part};
  return TENON_OK;
}

tenon_status device_make(Session *s, Run *run, Frame *fr, int32_t value, Where at) {
  const ProgValue *v = &fr->f->value[value];
  DeviceCell *c = &fr->device->cell[value];
  int64_t bytes;
  if (c->at.buffer) return TENON_OK;
  if (v->place == PLACE_RESULT) return make_result(s, run, fr, v, c, at);
  if (!value_bytes(s, v, &bytes)) return size_unknown(s, run, v, at);
  TRY(take_block(s, run, v->device, bytes, &c->block));
  c->at = (DevicePlace){c->block->buffer, 0};
  return TENON_OK;
}

void device_share(Frame *fr, int32_t from, int32_t to) {
  DeviceCell *c = &fr->device->cell[to];
  *c = fr->device->cell[from];
  if (c->block) c->block->refs++;
}

tenon_status device_scratch(Session *s, int32_t device, int64_t bytes, Diag *d) {
  DeviceOn *on = &s->device->on[device];
  const DeviceLoaded *l = &s->device->kept->device[device];
  if (bytes <= on->scratch_bytes) return TENON_OK;
  if (on->scratch) l->driver->buffer_free(l->device, on->scratch);
  on->scratch = NULL;
  on->scratch_bytes = 0;
  TRY(l->driver->buffer(l->device, bytes, d, &on->scratch));
  on->scratch_bytes = bytes;
  return TENON_OK;
}

static void release(Session *s, Frame *fr, int32_t value) {
  DeviceCell *c = &fr->device->cell[value];
  (void)s;
  if (c->block) c->block->refs--;
  *c = (DeviceCell){0};
}

static void leave(Session *s, Frame *fr) {
  DeviceFrame *df = fr->device;
  for (int32_t i = 0; i < fr->f->nvalues; i++) release(s, fr, i);
  for (int32_t i = 0; i < s->program->ndevices * fr->f->nresults; i++) {
    if (df->result[i]) df->result[i]->refs--;
    df->result[i] = NULL;
  }
}

// ---- queues ----

static tenon_status new_queue(Session *s, int32_t device, Diag *d) {
  DeviceSession *ds = s->device;
  DeviceOn *on = &ds->on[device];
  const DeviceLoaded *l = &ds->kept->device[device];
  TRY(l->driver->queue(l->device, d, &on->queue));
  int64_t bytes = 4 * (int64_t)MAX(ds->nfaults, 1);
  if (!on->faults && l->driver->seen) {
    void *seen;
    TRY(l->driver->seen(l->device, bytes, d, &on->faults, &seen));
    on->seen = seen;
  }
  if (!on->faults) TRY(l->driver->buffer(l->device, bytes, d, &on->faults));
  if (on->seen) {
    memset(on->seen, 0, (size_t)bytes);
    return TENON_OK;
  }
  return l->driver->fill(on->queue, (DevicePlace){on->faults, 0}, bytes, d);
}

// ---- states ----

static SessionState *state_of(const Session *s, int32_t param) {
  int32_t i = 0;
  while (s->state[i].param != param) i++;
  return &s->state[i];
}

static int32_t device_of_state(const Session *s, int32_t i) {
  const ProgFunction *f = s->program->function[0];
  return f->value[f->param[s->state[i].param]].device;
}

static tenon_status make_state(Session *s, int32_t i, int64_t bytes, Diag *d) {
  SessionState *st = &s->state[i];
  int32_t device = device_of_state(s, i);
  const DeviceLoaded *l = &s->device->kept->device[device];
  DeviceOn *on = &s->device->on[device];
  if (!on->queue) TRY(new_queue(s, device, d));
  if (st->buffer) l->driver->buffer_free(l->device, st->buffer);
  st->buffer = NULL;
  TRY(l->driver->buffer(l->device, MAX(bytes, DEVICE_ALIGN), d, &st->buffer));
  return bytes ? l->driver->fill(on->queue, (DevicePlace){st->buffer, 0}, bytes, d) : TENON_OK;
}

static tenon_status read_state(Session *s, int32_t i, void *to, Diag *d) {
  const SessionState *st = &s->state[i];
  int32_t device = device_of_state(s, i);
  DeviceOn *on = &s->device->on[device];
  if (!on->queue) TRY(new_queue(s, device, d));
  if (!st->value.data_bytes) return TENON_OK;
  return s->device->kept->device[device].driver->read(on->queue, to, (DevicePlace){st->buffer, 0},
                                                      st->value.data_bytes, d);
}

static void free_states(const Session *s, int32_t device) {
  const DeviceLoaded *l = &s->device->kept->device[device];
  for (int32_t i = 0; i < s->nstates; i++)
    if (s->state[i].buffer && device_of_state(s, i) == device)
      l->driver->buffer_free(l->device, s->state[i].buffer);
}

// ---- arenas ----

static tenon_status lay_out(Session *s, Run *run, Frame *fr, const int64_t *end,
                            int64_t *host_bytes) {
  DeviceFrame *df = fr->device;
  for (int32_t d = 0; d < s->program->ndevices; d++) {
    const DeviceLoaded *l = &s->device->kept->device[d];
    int64_t bytes = 0;
    for (int32_t i = 0; i < fr->f->nroots; i++)
      if (df->uses[d * fr->f->nroots + i]) bytes = MAX(bytes, end[i]);
    if (!d) {
      *host_bytes = bytes;
      continue;
    }
    if (bytes <= df->arena_bytes[d]) continue;
    if (df->arena[d]) l->driver->buffer_free(l->device, df->arena[d]);
    df->arena[d] = NULL;
    df->arena_bytes[d] = 0;
    TRY(l->driver->buffer(l->device, bytes, run->diag, &df->arena[d]));
    df->arena_bytes[d] = bytes;
  }
  return TENON_OK;
}

static tenon_status place(Session *s, Run *run, Frame *fr) {
  DeviceFrame *df = fr->device;
  for (int32_t i = 0; i < fr->f->nvalues; i++) {
    const ProgValue *v = &fr->f->value[i];
    int64_t at = 0;
    if (!v->device) continue;
    fr->cell[i].data = NULL;
    df->cell[i] = (DeviceCell){0};
    if (v->place == PLACE_CONST)
      df->cell[i].at = s->device->kept->device[v->device].constant[v->slot];
    if (v->place == PLACE_STATE) df->cell[i].at.buffer = state_of(s, v->slot)->buffer;
    if (v->place != PLACE_ARENA) continue;
    if (v->at >= 0 && (!prog_eval(s->program, v->at, s->sym, &at) || at < 0))
      return fail(run->diag, TENON_EINTERNAL, NOWHERE, "the place of a part is not known");
    df->cell[i].at = (DevicePlace){df->arena[v->device], fr->offset[v->slot] + at};
  }
  return TENON_OK;
}

// ---- making and freeing ----

static void make_frame(Session *s, Frame *fr) {
  const ProgFunction *f = fr->f;
  int32_t n = s->program->ndevices;
  DeviceFrame *df = fr->device = arena_new(&s->arena, DeviceFrame);
  df->cell = arena_array(&s->arena, DeviceCell, MAX(f->nvalues, 1));
  df->arena = arena_array(&s->arena, DeviceBuffer *, n);
  df->arena_bytes = arena_array(&s->arena, int64_t, n);
  df->result = arena_array(&s->arena, DeviceBlock *, (int64_t)n * MAX(f->nresults, 1));
  df->uses = arena_array(&s->arena, bool, (int64_t)n *MAX(f->nroots, 1));
  for (int32_t i = 0; i < f->nvalues; i++)
    if (f->value[i].place == PLACE_ARENA)
      df->uses[f->value[i].device * f->nroots + f->value[i].slot] = true;
}

static tenon_status start(Session *s, Diag *d) {
  const Program *p = s->program;
  DeviceSession *ds = s->device = arena_new(&s->arena, DeviceSession);
  int32_t nargs = 1, ndims = 1;
  for (int32_t i = 0; i < p->nkernels; i++) {
    nargs = MAX(nargs, p->kernel[i].nargs);
    ndims = MAX(ndims, p->kernel[i].ndims);
  }
  ds->on = arena_array(&s->arena, DeviceOn, p->ndevices);
  ds->fault_base = arena_array(&s->arena, int32_t, p->nfunctions + 1);
  for (int32_t i = 0; i < p->nfunctions; i++) {
    ds->fault_base[i] = ds->nfaults;
    ds->nfaults += p->function[i]->nsteps;
    make_frame(s, &s->frame[i]);
  }
  ds->fault_room = arena_array(&s->arena, int32_t, MAX(ds->nfaults, 1));
  ds->arg = arena_array(&s->arena, DevicePlace, nargs);
  ds->dims = arena_array(&s->arena, int64_t, ndims);
  device_find_uses(s);
  TRY(device_load(s->program, d, &ds->kept));
  for (int32_t i = 1; i < p->ndevices; i++) TRY(new_queue(s, i, d));
  return TENON_OK;
}

static void stop_device(Session *s, int32_t device) {
  DeviceSession *ds = s->device;
  const DeviceLoaded *l = &ds->kept->device[device];
  DeviceOn *on = &ds->on[device];
  if (on->queue) l->driver->queue_free(on->queue);
  device_drop_user_buffers(s, device);
  if (on->faults) l->driver->buffer_free(l->device, on->faults);
  if (on->scratch) l->driver->buffer_free(l->device, on->scratch);
  free_states(s, device);
  for (DeviceBlock *b = ds->blocks; b; b = b->next)
    if (b->device == device && b->buffer) l->driver->buffer_free(l->device, b->buffer);
  for (int32_t i = 0; i < s->program->nfunctions; i++) {
    const DeviceFrame *df = s->frame[i].device;
    if (df && df->arena[device]) l->driver->buffer_free(l->device, df->arena[device]);
  }
}

static void stop(Session *s) {
  for (int32_t i = 1; s->device && s->device->kept && i < s->program->ndevices; i++)
    stop_device(s, i);
}

static int64_t held(const Session *s) {
  const DeviceSession *ds = s->device;
  int64_t sum = 0;
  for (int32_t d = 1; d < s->program->ndevices; d++) {
    sum += ds->kept->device[d].constant_bytes + ds->on[d].scratch_bytes;
    for (int32_t i = 0; i < s->program->nfunctions; i++) sum += s->frame[i].device->arena_bytes[d];
  }
  for (const DeviceBlock *b = ds->blocks; b; b = b->next) sum += b->bytes;
  for (int32_t i = 0; i < s->nstates; i++)
    if (s->state[i].buffer) sum += s->state[i].value.data_bytes;
  return sum;
}

static int64_t memory_of(const Session *s) {
  int64_t least = INT64_MAX;
  for (int32_t d = 1; d < s->program->ndevices; d++)
    least = MIN(least, s->device->kept->device[d].info->memory_bytes);
  return least < INT64_MAX ? least : 0;
}

// ---- calls ----

static tenon_status begin(Session *s, Run *run) {
  DeviceSession *ds = s->device;
  for (int32_t i = 1; i < s->program->ndevices; i++)
    if (!ds->on[i].queue) TRY(new_queue(s, i, run->diag));
  return device_enter_call(s, run);
}

static void failed(Session *s) {
  for (int32_t i = 0; i < s->program->nfunctions; i++) {
    const Frame *fr = &s->frame[i];
    memset(fr->device->cell, 0, (size_t)fr->f->nvalues * sizeof(DeviceCell));
    memset(fr->device->result, 0,
           (size_t)s->program->ndevices * (size_t)fr->f->nresults * sizeof(DeviceBlock *));
  }
  for (DeviceBlock *b = s->device->blocks; b; b = b->next) b->refs = 0;
  // Now, since it may be in a stream of the caller's, which is the caller's again.
  for (int32_t i = 1; i < s->program->ndevices; i++) {
    DeviceOn *on = &s->device->on[i];
    if (on->queue) s->device->kept->device[i].driver->queue_free(on->queue);
    on->queue = NULL;
    on->pending = false;
  }
}

static const DeviceRun on_devices = {.start = start,
                                     .stop = stop,
                                     .begin = begin,
                                     .failed = failed,
                                     .lay_out = lay_out,
                                     .place = place,
                                     .step = device_step,
                                     .end = device_end,
                                     .finish = device_leave_call,
                                     .wait = device_wait,
                                     .take = device_take,
                                     .give = device_give,
                                     .show = device_show,
                                     .release = release,
                                     .leave = leave,
                                     .make_state = make_state,
                                     .read_state = read_state,
                                     .bytes = held,
                                     .memory = memory_of,
                                     .unload = device_unload};

void program_use_devices(Program *p) { p->device_run = &on_devices; }
