// queue.c -- buffers, copies, launches and time.
//
// A queue does things in order.  Copies from the host wait, so that the caller has its memory back;
// nothing else does.
#include "runtime/opencl/impl.h"

// ---- buffers ----

tenon_status opencl_buffer(Device *dev, int64_t bytes, Diag *d, DeviceBuffer **out) {
  *out = NULL;
  if (bytes <= 0 || (dev->info.max_buffer && bytes > dev->info.max_buffer))
    return fail(d, TENON_ENOMEM, NOWHERE,
                "%s gives at most %lld bytes at once (CL_DEVICE_MAX_MEM_ALLOC_SIZE), and %lld are "
                "needed",
                dev->name, (long long)dev->info.max_buffer, (long long)bytes);
  DeviceBuffer *b = mem_alloc((int64_t)sizeof *b);
  if (!b) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  cl_int code = 0;
  b->bytes = bytes;
  b->mem =
      opencl_api(NULL)->CreateBuffer(dev->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
  if (!b->mem) {
    mem_free(b, (int64_t)sizeof *b);
    tenon_status s = opencl_fail(d, "clCreateBuffer", code);
    diag_note(d, "%lld bytes on %s", (long long)bytes, dev->name);
    return s;
  }
  *out = b;
  return TENON_OK;
}

// The library keeps what its queues still use.
void opencl_buffer_free(Device *dev, DeviceBuffer *b) {
  (void)dev;
  opencl_api(NULL)->ReleaseMemObject(b->mem);
  mem_free(b, (int64_t)sizeof *b);
}

// ---- queues ----

tenon_status opencl_queue(Device *dev, Diag *d, DeviceQueue **out) {
  *out = NULL;
  DeviceQueue *q = mem_alloc((int64_t)sizeof *q);
  if (!q) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  cl_int code = 0;
  q->device = dev;
  q->queue =
      opencl_api(NULL)->CreateCommandQueue(dev->context, dev->id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (q->queue) {
    *out = q;
    return TENON_OK;
  }
  mem_free(q, (int64_t)sizeof *q);
  return opencl_fail(d, "clCreateCommandQueue", code);
}

void opencl_queue_free(DeviceQueue *q) {
  const OpenclApi *cl = opencl_api(NULL);
  cl->Finish(q->queue);  // whether it works or not: nothing is wanted of it any more
  for (int i = 0; i < DEVICE_MARKS; i++)
    if (q->mark[i]) cl->ReleaseEvent(q->mark[i]);
  cl->ReleaseCommandQueue(q->queue);
  mem_free(q, (int64_t)sizeof *q);
}

tenon_status opencl_finish(DeviceQueue *q, Diag *d) {
  CL_TRY(d, Finish, q->queue);
  return TENON_OK;
}

// ---- copies ----

static tenon_status inside(DevicePlace p, int64_t bytes, Diag *d) {
  int64_t end;
  if (p.offset >= 0 && bytes >= 0 && ck_add(p.offset, bytes, &end) && end <= p.buffer->bytes)
    return TENON_OK;
  return fail(d, TENON_EINTERNAL, NOWHERE, "a copy of %lld bytes leaves its buffer of %lld",
              (long long)bytes, (long long)p.buffer->bytes);
}

tenon_status opencl_write(DeviceQueue *q, DevicePlace to, const void *from, int64_t bytes,
                          Diag *d) {
  TRY(inside(to, bytes, d));
  CL_TRY(d, EnqueueWriteBuffer, q->queue, to.buffer->mem, CL_TRUE, (size_t)to.offset, (size_t)bytes,
         from, 0, NULL, NULL);
  return TENON_OK;
}

tenon_status opencl_read(DeviceQueue *q, void *to, DevicePlace from, int64_t bytes, Diag *d) {
  TRY(inside(from, bytes, d));
  CL_TRY(d, EnqueueReadBuffer, q->queue, from.buffer->mem, CL_TRUE, (size_t)from.offset,
         (size_t)bytes, to, 0, NULL, NULL);
  return TENON_OK;
}

tenon_status opencl_copy(DeviceQueue *q, DevicePlace to, DevicePlace from, int64_t bytes, Diag *d) {
  TRY(inside(to, bytes, d));
  TRY(inside(from, bytes, d));
  CL_TRY(d, EnqueueCopyBuffer, q->queue, from.buffer->mem, to.buffer->mem, (size_t)from.offset,
         (size_t)to.offset, (size_t)bytes, 0, NULL, NULL);
  return TENON_OK;
}

tenon_status opencl_fill(DeviceQueue *q, DevicePlace to, int64_t bytes, Diag *d) {
  const cl_int zero = 0;
  TRY(inside(to, bytes, d));
  CL_TRY(d, EnqueueFillBuffer, q->queue, to.buffer->mem, &zero, sizeof zero, (size_t)to.offset,
         (size_t)bytes, 0, NULL, NULL);
  return TENON_OK;
}

// ---- launches ----

typedef struct Args {
  cl_kernel kernel;
  cl_uint next;
  cl_int code;
} Args;

static void pass(Args *a, size_t bytes, const void *value) {
  if (!a->code) a->code = opencl_api(NULL)->SetKernelArg(a->kernel, a->next++, bytes, value);
}
static void pass_number(Args *a, int64_t v) { pass(a, sizeof v, &v); }
static void pass_buffer(Args *a, const DeviceBuffer *b) { pass(a, sizeof b->mem, &b->mem); }

static tenon_status say_launch(const DeviceLaunch *l, const char *call, cl_int code, Diag *d) {
  tenon_status s = opencl_fail(d, call, code);
  diag_note(d, "kernel %d: %s", l->number, l->kernel->name);
  return s;
}

static tenon_status launch_locked(DeviceQueue *q, cl_kernel kernel, const DeviceLaunch *l,
                                  Diag *d) {
  Args a = {.kernel = kernel};
  for (int32_t i = 0; i < l->nargs; i++) {
    pass_buffer(&a, l->arg[i].buffer);
    pass_number(&a, l->arg[i].offset);
  }
  for (int32_t i = 0; i < l->ndims; i++) pass_number(&a, l->dims[i]);
  pass_number(&a, l->items);
  // Where there is no scratch, any buffer will do: it is not looked at.
  pass_buffer(&a, l->scratch.buffer ? l->scratch.buffer : l->fault.buffer);
  pass_number(&a, (l->kernel->scratch_bytes + 63) / 64 * 64);
  pass_buffer(&a, l->fault.buffer);
  pass_number(&a, l->fault.offset / 4);
  if (a.code) return say_launch(l, "clSetKernelArg", a.code, d);
  enum { ITEM_GROUP = 64 };
  size_t local = l->kernel->group > 1 ? (size_t)l->kernel->group
                 : q->device->info.is_cpu
                     ? 1
                     : (size_t)MIN(ITEM_GROUP, q->device->info.max_block_threads);
  size_t global = (size_t)l->slots * (l->kernel->group > 1 ? local : 1);
  cl_int code = opencl_api(NULL)->EnqueueNDRangeKernel(q->queue, kernel, 1, NULL, &global, &local,
                                                       0, NULL, NULL);
  return code ? say_launch(l, "clEnqueueNDRangeKernel", code, d) : TENON_OK;
}

tenon_status opencl_launch(DeviceQueue *q, DeviceCode *c, const DeviceLaunch *l, Diag *d) {
  if (l->number < 0 || l->number >= c->nkernels)
    return fail(d, TENON_EINTERNAL, NOWHERE, "no kernel %d on the device", l->number);
  pthread_mutex_lock(&c->lock);
  tenon_status s = launch_locked(q, c->kernel[l->number], l, d);
  pthread_mutex_unlock(&c->lock);
  return s;
}

// ---- time ----

tenon_status opencl_mark(DeviceQueue *q, int32_t slot, Diag *d) {
  if (q->mark[slot]) opencl_api(NULL)->ReleaseEvent(q->mark[slot]);
  q->mark[slot] = NULL;
  CL_TRY(d, EnqueueMarkerWithWaitList, q->queue, 0, NULL, &q->mark[slot]);
  return TENON_OK;
}

tenon_status opencl_between(DeviceQueue *q, int32_t from, int32_t to, double *ns, Diag *d) {
  cl_ulong begin = 0, end = 0;
  CL_TRY(d, GetEventProfilingInfo, q->mark[from], CL_PROFILING_COMMAND_END, sizeof begin, &begin,
         NULL);
  CL_TRY(d, GetEventProfilingInfo, q->mark[to], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
  *ns = end > begin ? (double)(end - begin) : 0;
  return TENON_OK;
}
