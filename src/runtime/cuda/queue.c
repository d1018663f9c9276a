// queue.c -- a queue is a stream: copies through staging memory, marks, and recorded sequences.
//
// The host's memory is copied into pages that the copy engine reaches by itself, a piece at a time: a write returns when all of it is there, and
// a later write waits only where the pages it needs are still being read.
//
// A recorded sequence is a CUDA graph, captured from the stream; what the host must see or give (reads, writes, waiting) has no place in it.
#include "runtime/cuda/impl.h"

#include "base/platform.h"

#include <stdlib.h>

// ---- the queue ----

static tenon_status make_queue(DeviceQueue *q, Diag *d) {
  Device *dev = q->device;
  CUDA_TRY(dev, d, "cuStreamCreate", stream_create(&q->stream, CUDA_STREAM_NON_BLOCKING));
  for (int i = 0; i < DEVICE_MARKS; i++)
    CUDA_TRY(dev, d, "cuEventCreate", event_create(&q->mark[i], 0));
  return TENON_OK;
}

// Nothing is asked of the results: a context that is lost refuses everything.
static void free_parts(DeviceQueue *q) {
  const CudaApi *api = q->device->api;
  CudaGraph graph = NULL;
  CudaContext before;
  bool entered = !api->ctx_push(q->device->context);
  if (q->recording && !api->capture_end(q->stream, &graph) && graph) api->graph_destroy(graph);
  if (q->stream) api->stream_wait(q->stream);
  for (int i = 0; i < STAGES; i++) {
    if (q->stage[i].event) api->event_destroy(q->stage[i].event);
    if (q->stage[i].at) api->host_free(q->stage[i].at);
  }
  for (int i = 0; i < DEVICE_MARKS; i++)
    if (q->mark[i]) api->event_destroy(q->mark[i]);
  if (q->stream) api->stream_destroy(q->stream);
  if (entered) api->ctx_pop(&before);
}

tenon_status cuda_queue(Device *dev, Diag *d, DeviceQueue **out) {
  const char *sync = getenv("TENON_CUDA_SYNC");
  DeviceQueue *q = mem_alloc(sizeof *q);
  if (!q) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  *q = (DeviceQueue){.device = dev, .one_by_one = sync && *sync && *sync != '0'};
  tenon_status s = cuda_enter(dev, d);
  if (!s) s = cuda_leave(dev, make_queue(q, d), d);
  if (s) {
    free_parts(q);
    mem_free(q, sizeof *q);
    return s;
  }
  pthread_mutex_lock(&dev->lock);
  q->next = dev->queues;
  dev->queues = q;
  pthread_mutex_unlock(&dev->lock);
  *out = q;
  return TENON_OK;
}

void cuda_queue_free(DeviceQueue *q) {
  if (!q) return;
  Device *dev = q->device;
  pthread_mutex_lock(&dev->lock);
  DeviceQueue **at = &dev->queues;
  while (*at != q) at = &(*at)->next;
  *at = q->next;
  pthread_mutex_unlock(&dev->lock);
  free_parts(q);
  mem_free(q, sizeof *q);
}

static void set_recording(DeviceQueue *q, bool on) {
  pthread_mutex_lock(&q->device->lock);
  q->recording = on;
  pthread_mutex_unlock(&q->device->lock);
}

static tenon_status not_recording(const DeviceQueue *q, const char *what, Diag *d) {
  if (!q->recording) return TENON_OK;
  return fail(d, TENON_EINTERNAL, NOWHERE, "%s: %s while a sequence is recorded", q->device->name,
              what);
}

// ---- copies ----

static CudaAddress address(DevicePlace p) { return p.buffer->at + (CudaAddress)p.offset; }

static bool inside(DevicePlace p, int64_t bytes) {
  return p.buffer && p.offset >= 0 && bytes >= 0 && bytes <= p.buffer->bytes - p.offset;
}

static tenon_status check_place(const DeviceQueue *q, DevicePlace p, int64_t bytes, Diag *d) {
  if (inside(p, bytes)) return TENON_OK;
  return fail(d, TENON_EINTERNAL, NOWHERE, "%s: a copy reaches outside its buffer",
              q->device->name);
}

// Pages that nothing reads or writes any more.
static tenon_status take_stage(DeviceQueue *q, Diag *d, Stage **out) {
  Device *dev = q->device;
  Stage *s = &q->stage[q->turn++ % STAGES];
  void *at = NULL;
  if (!s->event) CUDA_TRY(dev, d, "cuEventCreate", event_create(&s->event, CUDA_EVENT_NO_TIMING));
  if (!s->at) {
    CUDA_TRY(dev, d, "cuMemHostAlloc", host_alloc(&at, STAGE_BYTES, 0));
    s->at = at;
  }
  if (s->busy)
    TRY(cuda_check(dev, dev->api->event_wait(s->event), "cuEventSynchronize", q->last, d));
  s->busy = false;
  *out = s;
  return TENON_OK;
}

static tenon_status mark_stage(DeviceQueue *q, Stage *s, Diag *d) {
  CUDA_TRY(q->device, d, "cuEventRecord", event_record(s->event, q->stream));
  s->busy = true;
  return TENON_OK;
}

static tenon_status write(DeviceQueue *q, CudaAddress to, const char *from, int64_t bytes,
                          Diag *d) {
  for (int64_t at = 0; at < bytes; at += STAGE_BYTES) {
    int64_t n = MIN(bytes - at, STAGE_BYTES);
    Stage *s;
    TRY(take_stage(q, d, &s));
    memcpy(s->at, from + at, (size_t)n);
    CUDA_TRY(q->device, d, "cuMemcpyHtoDAsync",
             to_device(to + (CudaAddress)at, s->at, (size_t)n, q->stream));
    TRY(mark_stage(q, s, d));
  }
  return TENON_OK;
}

tenon_status cuda_write(DeviceQueue *q, DevicePlace to, const void *from, int64_t bytes, Diag *d) {
  TRY(not_recording(q, "a write", d));
  TRY(check_place(q, to, bytes, d));
  TRY(cuda_enter(q->device, d));
  return cuda_leave(q->device, write(q, address(to), from, bytes, d), d);
}

// As many pieces as there are stages are under way at once.
static tenon_status read(DeviceQueue *q, char *to, CudaAddress from, int64_t bytes, Diag *d) {
  Device *dev = q->device;
  for (int64_t at = 0; at < bytes;) {
    Stage *stage[STAGES];
    int64_t begin[STAGES], size[STAGES];
    int n = 0;
    for (; n < STAGES && at < bytes; n++, at += size[n - 1]) {
      begin[n] = at;
      size[n] = MIN(bytes - at, STAGE_BYTES);
      TRY(take_stage(q, d, &stage[n]));
      CUDA_TRY(dev, d, "cuMemcpyDtoHAsync",
               to_host(stage[n]->at, from + (CudaAddress)at, (size_t)size[n], q->stream));
      TRY(mark_stage(q, stage[n], d));
    }
    for (int i = 0; i < n; i++) {
      TRY(cuda_check(dev, dev->api->event_wait(stage[i]->event), "cuEventSynchronize", q->last, d));
      stage[i]->busy = false;
      memcpy(to + begin[i], stage[i]->at, (size_t)size[i]);
    }
  }
  return cuda_check(dev, dev->api->stream_wait(q->stream), "cuStreamSynchronize", q->last, d);
}

tenon_status cuda_read(DeviceQueue *q, void *to, DevicePlace from, int64_t bytes, Diag *d) {
  TRY(not_recording(q, "a read", d));
  TRY(check_place(q, from, bytes, d));
  TRY(cuda_enter(q->device, d));
  return cuda_leave(q->device, read(q, to, address(from), bytes, d), d);
}

tenon_status cuda_copy(DeviceQueue *q, DevicePlace to, DevicePlace from, int64_t bytes, Diag *d) {
  Device *dev = q->device;
  TRY(check_place(q, to, bytes, d));
  TRY(check_place(q, from, bytes, d));
  if (!bytes) return TENON_OK;
  TRY(cuda_enter(dev, d));
  CudaResult r = dev->api->on_device(address(to), address(from), (size_t)bytes, q->stream);
  return cuda_leave(dev, cuda_check(dev, r, "cuMemcpyDtoDAsync", NULL, d), d);
}

tenon_status cuda_fill(DeviceQueue *q, DevicePlace to, int64_t bytes, Diag *d) {
  Device *dev = q->device;
  TRY(check_place(q, to, bytes, d));
  if (!bytes) return TENON_OK;
  TRY(cuda_enter(dev, d));
  CudaResult r = dev->api->mem_set(address(to), 0, (size_t)bytes, q->stream);
  return cuda_leave(dev, cuda_check(dev, r, "cuMemsetD8Async", NULL, d), d);
}

tenon_status cuda_finish(DeviceQueue *q, Diag *d) {
  Device *dev = q->device;
  TRY(not_recording(q, "waiting", d));
  TRY(cuda_enter(dev, d));
  CudaResult r = dev->api->stream_wait(q->stream);
  return cuda_leave(dev, cuda_check(dev, r, "cuStreamSynchronize", q->last, d), d);
}

// ---- time ----

tenon_status cuda_mark(DeviceQueue *q, int32_t slot, Diag *d) {
  Device *dev = q->device;
  CHECK(slot >= 0 && slot < DEVICE_MARKS, "no such mark");
  TRY(cuda_enter(dev, d));
  CudaResult r = dev->api->event_record(q->mark[slot], q->stream);
  return cuda_leave(dev, cuda_check(dev, r, "cuEventRecord", NULL, d), d);
}

tenon_status cuda_between(DeviceQueue *q, int32_t from, int32_t to, double *ns, Diag *d) {
  Device *dev = q->device;
  float ms = 0;
  TRY(cuda_enter(dev, d));
  CudaResult r = dev->api->event_wait(q->mark[to]);
  if (!r) r = dev->api->event_between(&ms, q->mark[from], q->mark[to]);
  *ns = (double)ms * 1e6;
  return cuda_leave(dev, cuda_check(dev, r, "cuEventElapsedTime", q->last, d), d);
}

// ---- recorded sequences ----

tenon_status cuda_record(DeviceQueue *q, Diag *d) {
  Device *dev = q->device;
  TRY(not_recording(q, "recording", d));
  TRY(cuda_enter(dev, d));
  set_recording(q, true);
  CudaResult r = dev->api->capture_begin(q->stream, CUDA_CAPTURE_THREAD);
  if (r) set_recording(q, false);
  return cuda_leave(dev, cuda_check(dev, r, "cuStreamBeginCapture", NULL, d), d);
}

static tenon_status make_graph(Device *dev, CudaGraph graph, Diag *d, DeviceGraph **out) {
  DeviceGraph *g = mem_alloc(sizeof *g);
  if (!g) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  tenon_status s = cuda_check(dev, dev->api->graph_make(&g->exec, graph, 0),
                              "cuGraphInstantiateWithFlags", NULL, d);
  if (s)
    mem_free(g, sizeof *g);
  else
    *out = g;
  return s;
}

tenon_status cuda_recorded(DeviceQueue *q, Diag *d, DeviceGraph **out) {
  Device *dev = q->device;
  CudaGraph graph = NULL;
  *out = NULL;
  if (!q->recording) return fail(d, TENON_EINTERNAL, NOWHERE, "%s: nothing is recorded", dev->name);
  TRY(cuda_enter(dev, d));
  tenon_status s =
      cuda_check(dev, dev->api->capture_end(q->stream, &graph), "cuStreamEndCapture", q->last, d);
  set_recording(q, false);
  if (!s) s = make_graph(dev, graph, d, out);
  if (graph) dev->api->graph_destroy(graph);
  tenon_status left = cuda_leave(dev, s, d);
  if (left && *out) {
    cuda_graph_free(dev, *out);
    *out = NULL;
  }
  return left;
}

tenon_status cuda_replay(DeviceQueue *q, DeviceGraph *g, Diag *d) {
  Device *dev = q->device;
  TRY(not_recording(q, "a replay", d));
  TRY(cuda_enter(dev, d));
  CudaResult r = dev->api->graph_launch(g->exec, q->stream);
  return cuda_leave(dev, cuda_check(dev, r, "cuGraphLaunch", NULL, d), d);
}

void cuda_graph_free(Device *dev, DeviceGraph *g) {
  CudaContext before;
  if (!g) return;
  bool entered = !dev->api->ctx_push(dev->context);
  dev->api->graph_exec_destroy(g->exec);
  if (entered) dev->api->ctx_pop(&before);
  mem_free(g, sizeof *g);
}
