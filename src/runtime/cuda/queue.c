// queue.c -- a queue is a stream: copies through staging memory, marks, and recorded sequences.
//
// During a call it may be a stream of the caller's instead, into which everything goes directly:
// what the caller put there comes before, what it puts there afterwards comes after, and nothing
// waits.  An event says when that is over, for what is put anywhere else.
//
// The host's memory is copied into pinned pages, a piece at a time.  A write returns when all of it
// is there; a later write waits only where the pages that it needs are still being read.
//
// Everything that the host waits for, or gives, first issues what is pending (launch.c).  A
// sequence that is recorded by hand is a CUDA graph, captured from the stream; what the host must
// see or give has no place in it.
#include "runtime/cuda/impl.h"

#include "base/platform.h"

#include <stdlib.h>

// ---- the queue ----

static tenon_status make_queue(DeviceQueue *q, Diag *d) {
  Device *dev = q->device;
  CUDA_TRY(dev, d, "cuStreamCreate", stream_create(&q->stream, CUDA_STREAM_NON_BLOCKING));
  q->at = q->stream;
  CUDA_TRY(dev, d, "cuEventCreate", event_create(&q->left, CUDA_EVENT_NO_TIMING));
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
  if (q->stream) cuda_settle(q);
  cuda_forget(q);
  if (q->left) api->event_destroy(q->left);
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
  const char *sync = getenv("TENON_CUDA_SYNC"), *graphs = getenv("TENON_CUDA_GRAPHS");
  DeviceQueue *q = mem_alloc(sizeof *q);
  if (!q) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  *q = (DeviceQueue){.device = dev,
                     .one_by_one = sync && *sync && *sync != '0',
                     .no_graphs = graphs && *graphs == '0'};
  pthread_mutex_init(&q->lock, NULL);
  tenon_status s = cuda_enter(dev, d);
  if (!s) s = cuda_leave(dev, make_queue(q, d), d);
  if (s) {
    free_parts(q);
    pthread_mutex_destroy(&q->lock);
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
  pthread_mutex_destroy(&q->lock);
  mem_free(q, sizeof *q);
}

// ---- streams ----

CudaResult cuda_settle(DeviceQueue *q) {
  const CudaApi *api = q->device->api;
  CudaResult r = q->behind ? api->event_wait(q->left) : 0;
  if (r) return r;
  q->behind = false;
  r = api->stream_wait(q->at);
  if (!r) q->busy = false;
  return r;
}

static tenon_status settle(DeviceQueue *q, Diag *d) {
  return cuda_check(q->device, cuda_settle(q), "cuStreamSynchronize", q->last, d);
}

// What goes into its own stream comes after what went into a caller's.
tenon_status cuda_come_back(DeviceQueue *q, Diag *d) {
  if (!q->behind || q->at != q->stream) return TENON_OK;
  CUDA_TRY(q->device, d, "cuStreamWaitEvent", stream_after(q->stream, q->left, 0));
  q->behind = false;
  q->busy = true;
  return TENON_OK;
}

static tenon_status not_recording(const DeviceQueue *q, const char *what, Diag *d) {
  if (!q->recording) return TENON_OK;
  return fail(d, TENON_EINTERNAL, NOWHERE, "%s: %s while a sequence is recorded", q->device->name,
              what);
}

typedef tenon_status QueueFn(DeviceQueue *q, void *ctx, Diag *d);

// The queue locked, the context the thread's, and nothing pending.
static tenon_status in_order(DeviceQueue *q, QueueFn *fn, void *ctx, Diag *d) {
  Device *dev = q->device;
  pthread_mutex_lock(&q->lock);
  tenon_status s = cuda_enter(dev, d);
  if (!s) {
    s = cuda_flush(q, d);
    if (!s) s = fn(q, ctx, d);
    s = cuda_leave(dev, s, d);
  }
  pthread_mutex_unlock(&q->lock);
  return s;
}

bool cuda_captured(const DeviceQueue *q, CudaStream s) {
  const CudaApi *api = q->device->api;
  int status = 0;
  return s != q->stream && api->is_capturing && !api->is_capturing(s, &status) &&
         status == CUDA_CAPTURE_ACTIVE;
}

// Nothing of ours is left in a stream but for the event: it is the caller's to destroy.  A stream
// that the caller captures gets no event and waits for none: what was captured runs when the caller
// replays it, after whatever the caller says.
static tenon_status change(DeviceQueue *q, void *stream, Diag *d) {
  Device *dev = q->device;
  CudaStream to = stream ? (CudaStream)stream : q->stream;
  if (q->at == to) return TENON_OK;
  if (q->busy && cuda_captured(q, q->at)) q->busy = false;
  if (q->busy) {
    CUDA_TRY(dev, d, "cuEventRecord", event_record(q->left, q->at));
    q->behind = true;
    q->busy = false;
  }
  q->at = to;
  if (to == q->stream || !q->behind || cuda_captured(q, to)) return TENON_OK;
  return cuda_check(dev, dev->api->stream_after(to, q->left, 0), "cuStreamWaitEvent", NULL, d);
}

tenon_status cuda_use(DeviceQueue *q, void *stream, Diag *d) {
  TRY(not_recording(q, "another stream", d));
  return in_order(q, change, stream, d);
}

void *cuda_stream(const DeviceQueue *q) { return q->stream; }

// ---- copies ----

static CudaAddress address(DevicePlace p) { return p.buffer->at + (CudaAddress)p.offset; }

typedef struct Transfer {
  DevicePlace at;
  const char *from;
  char *to;
  int64_t bytes;
} Transfer;

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
  CUDA_TRY(q->device, d, "cuEventRecord", event_record(s->event, q->at));
  s->busy = true;
  return TENON_OK;
}

static tenon_status write(DeviceQueue *q, void *ctx, Diag *d) {
  const Transfer *t = ctx;
  TRY(cuda_come_back(q, d));
  q->busy = true;
  for (int64_t at = 0; at < t->bytes; at += STAGE_BYTES) {
    int64_t n = MIN(t->bytes - at, STAGE_BYTES);
    Stage *s;
    TRY(take_stage(q, d, &s));
    memcpy(s->at, t->from + at, (size_t)n);
    CUDA_TRY(q->device, d, "cuMemcpyHtoDAsync",
             to_device(address(t->at) + (CudaAddress)at, s->at, (size_t)n, q->at));
    TRY(mark_stage(q, s, d));
  }
  return TENON_OK;
}

tenon_status cuda_write(DeviceQueue *q, DevicePlace to, const void *from, int64_t bytes, Diag *d) {
  Transfer t = {.at = to, .from = from, .bytes = bytes};
  TRY(not_recording(q, "a write", d));
  TRY(cuda_check_place(q, to, bytes, d));
  return in_order(q, write, &t, d);
}

// As many pieces as there are stages are under way at once.
static tenon_status read(DeviceQueue *q, void *ctx, Diag *d) {
  const Transfer *t = ctx;
  Device *dev = q->device;
  TRY(cuda_come_back(q, d));
  for (int64_t at = 0; at < t->bytes;) {
    Stage *stage[STAGES];
    int64_t begin[STAGES], size[STAGES];
    int n = 0;
    for (; n < STAGES && at < t->bytes; n++, at += size[n - 1]) {
      begin[n] = at;
      size[n] = MIN(t->bytes - at, STAGE_BYTES);
      TRY(take_stage(q, d, &stage[n]));
      CUDA_TRY(dev, d, "cuMemcpyDtoHAsync",
               to_host(stage[n]->at, address(t->at) + (CudaAddress)at, (size_t)size[n], q->at));
      TRY(mark_stage(q, stage[n], d));
    }
    for (int i = 0; i < n; i++) {
      TRY(cuda_check(dev, dev->api->event_wait(stage[i]->event), "cuEventSynchronize", q->last, d));
      stage[i]->busy = false;
      memcpy(t->to + begin[i], stage[i]->at, (size_t)size[i]);
    }
  }
  return settle(q, d);
}

tenon_status cuda_read(DeviceQueue *q, void *to, DevicePlace from, int64_t bytes, Diag *d) {
  Transfer t = {.at = from, .to = to, .bytes = bytes};
  TRY(not_recording(q, "a read", d));
  TRY(cuda_check_place(q, from, bytes, d));
  return in_order(q, read, &t, d);
}

static tenon_status finish(DeviceQueue *q, void *ctx, Diag *d) {
  (void)ctx;
  return settle(q, d);
}

tenon_status cuda_finish(DeviceQueue *q, Diag *d) {
  TRY(not_recording(q, "waiting", d));
  return in_order(q, finish, NULL, d);
}

// ---- time ----

static tenon_status mark(DeviceQueue *q, void *ctx, Diag *d) {
  const int32_t *slot = ctx;
  TRY(cuda_come_back(q, d));
  return cuda_check(q->device, q->device->api->event_record(q->mark[*slot], q->at), "cuEventRecord",
                    NULL, d);
}

tenon_status cuda_mark(DeviceQueue *q, int32_t slot, Diag *d) {
  CHECK(slot >= 0 && slot < DEVICE_MARKS, "no such mark");
  return in_order(q, mark, &slot, d);
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

// ---- sequences recorded by hand ----

static tenon_status begin(DeviceQueue *q, void *ctx, Diag *d) {
  (void)ctx;
  TRY(cuda_come_back(q, d));
  CUDA_TRY(q->device, d, "cuStreamBeginCapture", capture_begin(q->stream, CUDA_CAPTURE_THREAD));
  q->recording = true;
  return TENON_OK;
}

tenon_status cuda_record(DeviceQueue *q, Diag *d) {
  TRY(not_recording(q, "recording", d));
  return in_order(q, begin, NULL, d);
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

static tenon_status end(DeviceQueue *q, void *ctx, Diag *d) {
  Device *dev = q->device;
  CudaGraph graph = NULL;
  tenon_status s =
      cuda_check(dev, dev->api->capture_end(q->stream, &graph), "cuStreamEndCapture", q->last, d);
  q->recording = false;
  if (!s) s = make_graph(dev, graph, d, ctx);
  if (graph) dev->api->graph_destroy(graph);
  return s;
}

tenon_status cuda_recorded(DeviceQueue *q, Diag *d, DeviceGraph **out) {
  *out = NULL;
  if (!q->recording)
    return fail(d, TENON_EINTERNAL, NOWHERE, "%s: nothing is recorded", q->device->name);
  tenon_status s = in_order(q, end, out, d);
  if (s && *out) {
    cuda_graph_free(q->device, *out);
    *out = NULL;
  }
  return s;
}

static tenon_status replay(DeviceQueue *q, void *ctx, Diag *d) {
  const DeviceGraph *g = ctx;
  TRY(cuda_come_back(q, d));
  q->busy = true;
  return cuda_check(q->device, q->device->api->graph_launch(g->exec, q->at), "cuGraphLaunch", NULL,
                    d);
}

tenon_status cuda_replay(DeviceQueue *q, DeviceGraph *g, Diag *d) {
  TRY(not_recording(q, "a replay", d));
  return in_order(q, replay, g, d);
}

void cuda_graph_free(Device *dev, DeviceGraph *g) {
  CudaContext before;
  if (!g) return;
  bool entered = !dev->api->ctx_push(dev->context);
  dev->api->graph_exec_destroy(g->exec);
  if (entered) dev->api->ctx_pop(&before);
  mem_free(g, sizeof *g);
}
