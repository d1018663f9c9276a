// launch.c -- one kernel: how many groups, its arguments, and the tensor maps that it asks for.
#include "runtime/cuda/impl.h"

enum { ITEM_THREADS = 64, MAX_ARGS = 512 };

typedef struct Call {
  const DeviceLaunch *l;
  const CudaKernel *k;
  CudaLaunchConfig config;
  CudaLaunchAttr attr[2];
  uint64_t value[MAX_ARGS];
  CudaTensorMap map[CUDA_MAPS];
  void *arg[MAX_ARGS + CUDA_MAPS];
} Call;

static uint64_t address(DevicePlace p) {
  return p.buffer ? p.buffer->at + (CudaAddress)p.offset : 0;
}

// Buffers, dims, items, scratch, its bytes for each, fault: as targets/cstyle declares them.
static tenon_status put_arguments(Call *c, Diag *d) {
  const DeviceLaunch *l = c->l;
  int n = 0;
  if ((int64_t)l->nargs + l->ndims + 4 > MAX_ARGS)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "kernel '%s' has %d arguments", l->kernel->name,
                l->nargs);
  for (int32_t i = 0; i < l->nargs; i++) c->value[n++] = address(l->arg[i]);
  for (int32_t i = 0; i < l->ndims; i++) c->value[n++] = (uint64_t)l->dims[i];
  c->value[n++] = (uint64_t)l->items;
  c->value[n++] = address(l->scratch);
  c->value[n++] = (uint64_t)((l->kernel->scratch_bytes + 63) / 64 * 64);
  c->value[n++] = address(l->fault);
  for (int i = 0; i < n; i++) c->arg[i] = &c->value[i];
  for (int i = 0; i < c->k->record.nmaps; i++) c->arg[n + i] = &c->map[i];
  return TENON_OK;
}

static bool number(const DeviceLaunch *l, CudaNumber x, uint64_t *out) {
  int64_t n = x.times;
  if (x.dim >= l->ndims) return false;
  if (x.dim >= 0 && !ck_mul(n, l->dims[x.dim], &n)) return false;
  *out = (uint64_t)n;
  return n > 0;
}

static tenon_status put_map(Device *dev, Call *c, int i, Diag *d) {
  const CudaMap *m = &c->k->record.map[i];
  uint64_t dims[CUDA_MAP_RANK], strides[CUDA_MAP_RANK] = {0};
  uint32_t ones[CUDA_MAP_RANK] = {1, 1, 1, 1, 1};
  bool ok = m->arg < c->l->nargs && dev->api->tensor_map;
  for (int k = 0; k < m->rank && ok; k++) ok = number(c->l, m->dim[k], &dims[k]);
  for (int k = 0; k < m->rank - 1 && ok; k++) ok = number(c->l, m->stride[k], &strides[k]);
  if (!ok)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "kernel '%s': tensor map %d cannot be made",
                c->l->kernel->name, i);
  CudaResult r = dev->api->tensor_map(&c->map[i], m->type, (uint32_t)m->rank,
                                      (void *)(uintptr_t)address(c->l->arg[m->arg]), dims, strides,
                                      m->box, ones, 0, CUDA_SWIZZLE_128, 3, 0);
  return cuda_check(dev, r, "cuTensorMapEncodeTiled", c->l->kernel->name, d);
}

static int64_t groups(const Device *dev, const Call *c) {
  const CudaRecord *r = &c->k->record;
  const ProgKernel *k = c->l->kernel;
  int64_t most = INT32_MAX / 2, per = 1, n;
  int threads = r->threads ? r->threads : k->group;
  if (threads <= 1) per = ITEM_THREADS;
  n = (c->l->items + per - 1) / per;
  if (r->persistent) most = dev->info.compute_units;
  if (k->scratch_bytes) most = MIN(most, MAX(c->l->slots / per, 1));
  n = MIN(n, most);
  return (n + r->cluster - 1) / r->cluster * r->cluster;
}

static void configure(const Device *dev, DeviceQueue *q, Call *c) {
  const CudaRecord *r = &c->k->record;
  int threads = r->threads ? r->threads : c->l->kernel->group;
  unsigned n = 0;
  c->config = (CudaLaunchConfig){
      .grid = {(unsigned)groups(dev, c), 1, 1},
      .block = {(unsigned)(threads > 1 ? threads : ITEM_THREADS), 1, 1},
      .shared_bytes = (unsigned)r->shared_bytes,
      .stream = q->stream,
      .attr = c->attr,
  };
  if (r->cluster > 1) {
    c->attr[n].id = CUDA_LAUNCH_CLUSTER;
    c->attr[n].value.cluster.x = (unsigned)r->cluster;
    c->attr[n].value.cluster.y = c->attr[n].value.cluster.z = 1;
    n++;
  }
  if (r->early) {
    c->attr[n].id = CUDA_LAUNCH_SERIAL;
    c->attr[n].value.serial = 1;
    n++;
  }
  c->config.nattrs = n;
}

static tenon_status launch(DeviceQueue *q, Call *c, Diag *d) {
  Device *dev = q->device;
  const char *name = c->l->kernel->name;
  for (int i = 0; i < c->k->record.nmaps; i++) TRY(put_map(dev, c, i, d));
  TRY(cuda_check(dev, dev->api->launch(&c->config, c->k->function, c->arg, NULL),
                 "cuLaunchKernelEx", name, d));
  q->last = name;
  if (!q->one_by_one || q->recording) return TENON_OK;
  return cuda_check(dev, dev->api->stream_wait(q->stream), "cuStreamSynchronize", name, d);
}

tenon_status cuda_launch(DeviceQueue *q, DeviceCode *code, const DeviceLaunch *l, Diag *d) {
  Call c;
  if (l->number < 0 || l->number >= code->n)
    return fail(d, TENON_EINTERNAL, NOWHERE, "kernel '%s' is not in its code", l->kernel->name);
  memset(c.attr, 0, sizeof c.attr);
  c.l = l;
  c.k = &code->kernel[l->number];
  TRY(put_arguments(&c, d));
  configure(q->device, q, &c);
  TRY(cuda_enter(q->device, d));
  return cuda_leave(q->device, launch(q, &c, d), d);
}
