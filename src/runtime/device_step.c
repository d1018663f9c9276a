// device_step.c -- steps on devices: launches, copies, views, and what became of them.
//
// Nothing waits but a copy to the host, and the end of a call.  A check that fails inside a kernel
// is written into the slot of its step; the slots are looked at whenever the host has waited, so
// that nothing is used which came after a failure.
#include "runtime/device_impl.h"

static Where where_of(const ProgStep *st) { return (Where){.node = st->node, .op = st->op}; }

// ---- faults ----

static const ProgStep *step_of(const Session *s, int32_t slot) {
  int32_t f = 0;
  while (f + 1 < s->program->nfunctions && s->device->fault_base[f + 1] <= slot) f++;
  return &s->program->function[f]->step[slot - s->device->fault_base[f]];
}

static tenon_status look(const Session *s, Run *run, const int32_t *fault) {
  for (int32_t i = 0; i < s->device->nfaults; i++)
    if (fault[i]) return session_say_failed(s, run, step_of(s, i), fault[i]);
  return TENON_OK;
}

tenon_status device_look(const Session *s, Run *run, int32_t device) {
  const DeviceOn *on = &s->device->on[device];
  return on->pending && on->seen ? look(s, run, on->seen) : TENON_OK;
}

tenon_status device_faults(const Session *s, Run *run, int32_t device) {
  DeviceSession *ds = s->device;
  DeviceOn *on = &ds->on[device];
  const DeviceLoaded *l = &ds->kept->device[device];
  if (!on->pending) return TENON_OK;
  if (!on->seen)
    TRY(l->driver->read(on->queue, ds->fault_room, (DevicePlace){on->faults, 0},
                        4 * (int64_t)ds->nfaults, run->diag));
  on->pending = false;
  return look(s, run, on->seen ? on->seen : ds->fault_room);
}

tenon_status device_end(Session *s, Run *run, Frame *fr) {
  if (fr != s->frame || s->device->asynchronous) return TENON_OK;
  for (int32_t i = 1; i < s->program->ndevices; i++) {
    const DeviceOn *on = &s->device->on[i];
    if (on->pending && on->seen)
      TRY(s->device->kept->device[i].driver->finish(on->queue, run->diag));
    TRY(device_faults(s, run, i));
  }
  return TENON_OK;
}

// ---- kernels ----

// How many items may run at once.  Without scratch that is up to the device; with it, as many as
// keep its units busy and as 256 MiB hold.
static int64_t slots_of(const DeviceInfo *info, const ProgKernel *k, int64_t items,
                        int64_t *scratch_each) {
  enum { ITEM_GROUP = 64 };
  const int64_t most = (int64_t)256 << 20, lanes = (int64_t)1 << 22;
  int64_t each = (k->scratch_bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
  bool lane = !info->is_cpu && k->group <= 1;  // an item is a thread of a GPU
  int64_t busy = (int64_t)MAX(info->compute_units, 1) * (lane ? 1024 : info->is_cpu ? 4 : 16);
  int64_t slots = MIN(items, each ? busy : lanes);
  *scratch_each = each;
  if (each) slots = MAX(MIN(slots, most / each), 1);
  return lane ? (slots + ITEM_GROUP - 1) / ITEM_GROUP * ITEM_GROUP : slots;
}

static tenon_status fill_launch(Session *s, Run *run, Frame *fr, const ProgStep *st,
                                DeviceLaunch *out) {
  DeviceSession *ds = s->device;
  const Program *p = s->program;
  for (int32_t i = 0; i < st->nout; i++) TRY(device_make(s, run, fr, st->out[i], where_of(st)));
  for (int32_t i = 0; i < st->nargs; i++) {
    ds->arg[i] = fr->device->cell[st->arg[i]].at;
    if (!ds->arg[i].buffer)
      return fail(run->diag, TENON_EINTERNAL, where_of(st), "argument %d is not there yet", i);
  }
  for (int32_t i = 0; i < st->ndims; i++)
    if (!prog_eval(p, st->dim[i], s->sym, &ds->dims[i]))
      return fail(run->diag, TENON_EINTERNAL, where_of(st), "a size is not known");
  *out = (DeviceLaunch){.kernel = &p->kernel[st->kernel],
                        .nargs = st->nargs,
                        .ndims = st->ndims,
                        .arg = ds->arg,
                        .dims = ds->dims};
  out->number = (int32_t)out->kernel->entry;
  if (!prog_eval(p, st->items, s->sym, &out->items))
    return fail(run->diag, TENON_EINTERNAL, where_of(st), "the number of work items is not known");
  // Devices that are told sizes cannot be told of none; what checks its inputs does so for results
  // without elements, too.
  bool skips = out->items > MANY_ITEMS || !out->kernel->nchecks;
  if (skips && session_results_empty(s, fr, st)) out->items = 0;
  return TENON_OK;
}

static tenon_status launch(Session *s, Run *run, Frame *fr, const ProgStep *st) {
  DeviceSession *ds = s->device;
  DeviceLaunch n;
  TRY(fill_launch(s, run, fr, st, &n));
  if (n.items <= 0) return TENON_OK;
  int32_t device = n.kernel->device;
  const DeviceLoaded *l = &ds->kept->device[device];
  DeviceOn *on = &ds->on[device];
  int64_t each, bytes;
  n.slots = slots_of(l->info, n.kernel, n.items, &each);
  if (each) {
    if (!ck_mul(n.slots, each, &bytes))
      return fail(run->diag, TENON_ENOMEM, where_of(st), "its scratch is too large");
    TRY(device_scratch(s, device, bytes, run->diag));
    n.scratch.buffer = on->scratch;
  }
  int64_t slot = ds->fault_base[fr->f->index] + (st - fr->f->step);
  n.fault = (DevicePlace){on->faults, 4 * slot};
  on->pending = true;
  return l->driver->launch(on->queue, l->code, &n, run->diag);
}

// ---- copies ----

static tenon_status to_device(Session *s, Run *run, Frame *fr, const ProgStep *st, int64_t bytes) {
  const char *from = fr->cell[st->in[0]].data;
  int32_t device = fr->f->value[st->out[0]].device;
  const DeviceLoaded *l = &s->device->kept->device[device];
  bool done;
  TRY(device_copy_param(s, run, fr, st, bytes, &done));
  if (done) return TENON_OK;
  TRY(device_make(s, run, fr, st->out[0], where_of(st)));
  if (!bytes) return TENON_OK;
  if (!from) return fail(run->diag, TENON_EINTERNAL, where_of(st), "a value is not there yet");
  return l->driver->write(s->device->on[device].queue, fr->device->cell[st->out[0]].at, from, bytes,
                          run->diag);
}

// What is read is only good when no kernel before it failed.
static tenon_status read_back(const Session *s, Run *run, const Frame *fr, int32_t value, void *to,
                              int64_t bytes) {
  int32_t device = fr->f->value[value].device;
  const DeviceLoaded *l = &s->device->kept->device[device];
  DevicePlace from = fr->device->cell[value].at;
  if (!from.buffer) return fail(run->diag, TENON_EINTERNAL, NOWHERE, "a value is not there yet");
  if (bytes) TRY(l->driver->read(s->device->on[device].queue, to, from, bytes, run->diag));
  return device_faults(s, run, device);
}

static tenon_status to_host(Session *s, Run *run, Frame *fr, const ProgStep *st, int64_t bytes) {
  bool done;
  TRY(device_copy_result(s, run, fr, st, bytes, &done));
  if (done) return TENON_OK;
  TRY(cell_make(s, run, fr, st->out[0], where_of(st)));
  return read_back(s, run, fr, st->in[0], fr->cell[st->out[0]].data, bytes);
}

// Between two devices, or on one.
static tenon_status across(Session *s, Run *run, Frame *fr, const ProgStep *st, int64_t bytes) {
  DeviceSession *ds = s->device;
  int32_t from = fr->f->value[st->in[0]].device, to = fr->f->value[st->out[0]].device;
  const DeviceLoaded *l = &ds->kept->device[to];
  TRY(device_make(s, run, fr, st->out[0], where_of(st)));
  DevicePlace out = fr->device->cell[st->out[0]].at, in = fr->device->cell[st->in[0]].at;
  if (!in.buffer) return fail(run->diag, TENON_EINTERNAL, where_of(st), "a value is not there yet");
  if (!bytes || (in.buffer == out.buffer && in.offset == out.offset)) return TENON_OK;
  if (from == to) return l->driver->copy(ds->on[to].queue, out, in, bytes, run->diag);
  Value *room;
  TRY(value_tensor(run, where_of(st), DT_U8, 1, &bytes, &room));
  TRY(read_back(s, run, fr, st->in[0], room->data, bytes));
  TRY(l->driver->write(ds->on[to].queue, out, room->data, bytes, run->diag));
  value_release(room);
  return TENON_OK;
}

static tenon_status copy(Session *s, Run *run, Frame *fr, const ProgStep *st) {
  const ProgValue *in = &fr->f->value[st->in[0]], *out = &fr->f->value[st->out[0]];
  int64_t bytes, have;
  if (!value_bytes(s, out, &bytes) || !value_bytes(s, in, &have) || bytes != have)
    return fail(run->diag, TENON_EINTERNAL, where_of(st), "the size of a copy is not known");
  if (!in->device) return to_device(s, run, fr, st, bytes);
  if (!out->device) return to_host(s, run, fr, st, bytes);
  return across(s, run, fr, st, bytes);
}

// ---- steps ----

// The device of a step that is not the host's; 0: it is.
static int32_t device_of(const Session *s, const Frame *fr, const ProgStep *st) {
  const ProgValue *v = fr->f->value;
  if (st->kind == STEP_KERNEL) return s->program->kernel[st->kernel].device;
  if (st->kind == STEP_HOST) return 0;
  return v[st->out[0]].device ? v[st->out[0]].device : v[st->in[0]].device;
}

static tenon_status do_step(Session *s, Run *run, Frame *fr, const ProgStep *st) {
  if (st->kind == STEP_KERNEL) return launch(s, run, fr, st);
  if (st->kind == STEP_COPY) return copy(s, run, fr, st);
  device_share(fr, st->in[0], st->out[0]);
  return TENON_OK;
}

static tenon_status measured(Session *s, Run *run, Frame *fr, const ProgStep *st, int32_t device,
                             int64_t *ns) {
  const DeviceDriver *v = s->device->kept->device[device].driver;
  DeviceQueue *q = s->device->on[device].queue;
  bool marks = v->mark && st->kind == STEP_KERNEL;
  double took = -1;
  if (marks) TRY(v->mark(q, 0, run->diag));
  TRY(do_step(s, run, fr, st));
  if (marks) TRY(v->mark(q, 1, run->diag));
  TRY(v->finish(q, run->diag));
  if (marks) TRY(v->between(q, 0, 1, &took, run->diag));
  *ns = (int64_t)took;
  return TENON_OK;
}

tenon_status device_step(Session *s, Run *run, Frame *fr, const ProgStep *st, bool *done,
                         int64_t *ns) {
  int32_t device = device_of(s, fr, st);
  *done = device > 0;
  if (!device) return TENON_OK;
  return s->timed ? measured(s, run, fr, st, device, ns) : do_step(s, run, fr, st);
}

tenon_status device_show(Session *s, Run *run, const Frame *fr, int32_t value, Value **out) {
  const ProgValue *v = &fr->f->value[value];
  int64_t dims[MAX_RANK], bytes;
  *out = NULL;
  if (!v->device) return TENON_OK;
  if (!cell_dims(s, v, dims) || !value_bytes(s, v, &bytes))
    return fail(run->diag, TENON_EINTERNAL, NOWHERE, "the size of a value is not known");
  TRY(value_tensor(run, NOWHERE, v->dtype, v->rank, dims, out));
  return read_back(s, run, fr, value, (*out)->data, bytes);
}
