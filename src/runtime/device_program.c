// device_program.c -- what devices keep of a program: its code, and the constants that its kernels
// read there.
//
// Loaded by the first session and kept until the program is freed.  Constants share one buffer, or
// as few as a device gives at once: each is rounded up to what the driver gives out, 2 MB on a GPU.
#include "runtime/device_impl.h"

#include <pthread.h>

enum { CHUNK = 64 << 20 };  // of a device that does not say how much it gives at once

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // held while a program is loaded

// ---- constants ----

typedef struct Upload {
  const Program *p;
  DeviceLoaded *l;
  bool *used;       // by constant
  int32_t *buffer;  // by constant: number of its buffer
  int64_t *bytes;   // by buffer
  DeviceQueue *queue;
  Diag *diag;
} Upload;

static void find_used(Upload *u, int32_t device) {
  const Program *p = u->p;
  for (int32_t f = 0; f < p->nfunctions; f++)
    for (int32_t i = 0; i < p->function[f]->nvalues; i++) {
      const ProgValue *v = &p->function[f]->value[i];
      if (v->device == device && v->place == PLACE_CONST) u->used[v->slot] = true;
    }
}

// Which constant goes where; returns the number of buffers.
static int32_t divide(Upload *u) {
  int64_t most = u->l->info->max_buffer > 0 ? u->l->info->max_buffer : CHUNK;
  int32_t n = 0;
  for (int32_t i = 0; i < u->p->nconsts; i++) {
    if (!u->used[i]) continue;
    int64_t bytes = (u->p->constant[i].bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
    bytes = MAX(bytes, DEVICE_ALIGN);
    if (!n || u->bytes[n - 1] + bytes > most) u->bytes[n++] = 0;
    u->buffer[i] = n - 1;
    u->l->constant[i].offset = u->bytes[n - 1];
    u->bytes[n - 1] += bytes;
  }
  return n;
}

static tenon_status upload(Upload *u) {
  const DeviceDriver *v = u->l->driver;
  for (int32_t i = 0; i < u->l->nbuffers; i++)
    TRY(v->buffer(u->l->device, u->bytes[i], u->diag, &u->l->buffer[i]));
  for (int32_t i = 0; i < u->p->nconsts; i++) {
    const ProgConst *k = &u->p->constant[i];
    if (!u->used[i]) continue;
    u->l->constant[i].buffer = u->l->buffer[u->buffer[i]];
    if (k->bytes) TRY(v->write(u->queue, u->l->constant[i], k->data, k->bytes, u->diag));
  }
  return v->finish(u->queue, u->diag);
}

static tenon_status load_constants(const Program *p, DeviceKept *k, int32_t device, Diag *d) {
  int64_t n = MAX(p->nconsts, 1);
  DeviceLoaded *l = &k->device[device];
  Upload u = {.p = p, .l = l, .diag = d};
  u.used = arena_array(&k->arena, bool, n);
  u.buffer = arena_array(&k->arena, int32_t, n);
  u.bytes = arena_array(&k->arena, int64_t, n);
  l->constant = arena_array(&k->arena, DevicePlace, n);
  l->buffer = arena_array(&k->arena, DeviceBuffer *, n);
  find_used(&u, device);
  l->nbuffers = divide(&u);
  for (int32_t i = 0; i < l->nbuffers; i++) l->constant_bytes += u.bytes[i];
  if (!l->nbuffers) return TENON_OK;
  TRY(l->driver->queue(l->device, d, &u.queue));
  tenon_status s = upload(&u);
  l->driver->queue_free(u.queue);
  return s;
}

// ---- the program ----

static tenon_status load_code(const Program *p, DeviceKept *k, int32_t device, Diag *d) {
  const ProgKernel **kernel = arena_array(&k->arena, const ProgKernel *, MAX(p->nkernels, 1));
  int32_t n = 0;
  for (int32_t i = 0; i < p->nkernels; i++) {
    if (p->kernel[i].device != device) continue;
    if (p->kernel[i].entry != n)
      return fail(d, TENON_EFORMAT, NOWHERE, "kernel %d is out of order", i);
    kernel[n++] = &p->kernel[i];
  }
  DeviceLoaded *l = &k->device[device];
  return l->driver->code(l->device, p->device[device].code, kernel, n, p->device[device].no_cache,
                         d, &l->code);
}

static tenon_status load_device(const Program *p, DeviceKept *k, int32_t device, Diag *d) {
  const ProgDevice *pd = &p->device[device];
  DeviceLoaded *l = &k->device[device];
  int index;
  l->driver = device_driver(pd->driver);
  if (!l->driver)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "this runtime has no driver '%s'", pd->driver);
  TRY(l->driver->find(pd->pick, d, &index));
  TRY(l->driver->open(index, d, &l->device));
  l->number = index;
  l->info = l->driver->info(l->device);
  TRY(load_code(p, k, device, d));
  return load_constants(p, k, device, d);
}

static void free_kept(DeviceKept *k) {
  for (int32_t i = 1; k->device && i < k->n; i++) {
    DeviceLoaded *l = &k->device[i];
    if (!l->device) continue;
    for (int32_t b = 0; b < l->nbuffers; b++)
      if (l->buffer[b]) l->driver->buffer_free(l->device, l->buffer[b]);
    if (l->code) l->driver->code_free(l->device, l->code);
    l->driver->close(l->device);
  }
  arena_deinit(&k->arena);
  mem_free(k, (int64_t)sizeof *k);
}

static tenon_status load(const Program *p, DeviceKept *k, Diag *d) {
  k->device = arena_array(&k->arena, DeviceLoaded, p->ndevices);
  k->n = p->ndevices;
  for (int32_t i = 1; i < p->ndevices; i++) TRY(load_device(p, k, i, d));
  return TENON_OK;
}

static tenon_status load_locked(Program *p, Diag *d) {
  if (p->device_kept) return TENON_OK;
  DeviceKept *k = mem_alloc((int64_t)sizeof *k);
  if (!k) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  arena_init(&k->arena);
  Trap t;
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = load(p, k, d);
  trap_leave(&t);
  if (t.status)
    free_kept(k);
  else
    p->device_kept = k;
  return t.status;
}

tenon_status device_load(Program *p, Diag *d, DeviceKept **out) {
  pthread_mutex_lock(&lock);
  tenon_status s = load_locked(p, d);
  *out = p->device_kept;
  pthread_mutex_unlock(&lock);
  return s;
}

void device_unload(Program *p) {
  free_kept(p->device_kept);
  p->device_kept = NULL;
}
