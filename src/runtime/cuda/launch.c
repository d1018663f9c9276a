// launch.c -- kernels, and sequences of them that come again as CUDA graphs.
//
// What is put into a queue besides copies from and to the host is not issued at once but kept,
// until the host waits for something or gives something: a session puts the same sequence there in
// every call, with the same addresses but for the caller's.  A sequence that was seen before is
// recorded as a graph, launched as one, and kept; one with a few other addresses is the same graph,
// whose nodes get them; another (another shape) is another sequence.  So a model without host steps
// is one graph, and one with some is a few, whatever the shapes.
#include "runtime/cuda/impl.h"

#include "base/platform.h"

enum { ITEM_THREADS = 64, MAX_ARGS = 512, MIN_GRAPH = 2 };

// What is kept of a call; its values follow: addresses, dims, items, scratch, its bytes for each,
// fault, as targets/cstyle declares them.
typedef struct Op {
  int32_t kind;  // OP_*
  int32_t nargs, ndims, nvalues;
  const CudaKernel *code;
  const ProgKernel *kernel;
  int64_t groups;
} Op;
enum { OP_LAUNCH, OP_COPY, OP_FILL };

typedef struct Call {
  CudaLaunchConfig config;
  CudaLaunchAttr attr[2];
  CudaTensorMap map[CUDA_MAPS];
  void *arg[MAX_ARGS + CUDA_MAPS];
} Call;

// ---- issuing ----

static bool number(const Op *o, const uint64_t *value, const CudaNumber *x, uint64_t *out) {
  int64_t sum = 0;
  for (const CudaTerm *t = x->term; t->times; t++) {
    int64_t n = t->times;
    for (int32_t i = 0; i < t->ndims; i++)
      if (t->dim[i] >= o->ndims || !ck_mul(n, (int64_t)value[o->nargs + t->dim[i]], &n))
        return false;
    if (!ck_add(sum, n, &sum)) return false;
  }
  *out = (uint64_t)sum;
  return sum > 0;
}

static tenon_status put_map(Device *dev, const Op *o, const uint64_t *value, int i, Call *c,
                            Diag *d) {
  const CudaMap *m = &o->code->record.map[i];
  uint64_t dims[CUDA_MAP_RANK], strides[CUDA_MAP_RANK] = {0};
  uint32_t ones[CUDA_MAP_RANK] = {1, 1, 1, 1, 1};
  bool ok = m->arg < o->nargs && dev->api->tensor_map && (!m->window || dev->api->window_map);
  for (int k = 0; k < m->rank && ok; k++) ok = number(o, value, &m->dim[k], &dims[k]);
  for (int k = 0; k < m->rank - 1 && ok; k++) ok = number(o, value, &m->stride[k], &strides[k]);
  if (!ok)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "kernel '%s': tensor map %d cannot be made",
                o->kernel->name, i);
  void *at = (void *)(uintptr_t)value[m->arg];
  if (m->window) {
    uint32_t steps[] = {1, m->step[0], m->step[1], 1};
    CudaResult w =
        dev->api->window_map(&c->map[i], m->type, (uint32_t)m->rank, at, dims, strides, m->before,
                             m->after, m->box[0], m->box[1], steps, 0, CUDA_SWIZZLE_128, 3, 0);
    return cuda_check(dev, w, "cuTensorMapEncodeIm2col", o->kernel->name, d);
  }
  bool two_bytes = m->type == CUDA_MAP_BF16 || m->type == CUDA_MAP_F16;
  bool narrow = m->box[0] * (m->type == CUDA_MAP_U8 ? 1 : two_bytes ? 2 : 4) == 64;
  CudaResult r =
      dev->api->tensor_map(&c->map[i], m->type, (uint32_t)m->rank, at, dims, strides, m->box, ones,
                           0, narrow ? CUDA_SWIZZLE_64 : CUDA_SWIZZLE_128, 3, 0);
  return cuda_check(dev, r, "cuTensorMapEncodeTiled", o->kernel->name, d);
}

static void configure(const DeviceQueue *q, const Op *o, Call *c) {
  const CudaRecord *r = &o->code->record;
  int threads = r->threads ? r->threads : o->kernel->group;
  unsigned n = 0;
  memset(c->attr, 0, sizeof c->attr);
  c->config = (CudaLaunchConfig){
      .grid = {(unsigned)o->groups, 1, 1},
      .block = {(unsigned)(threads > 1 ? threads : ITEM_THREADS), 1, 1},
      .shared_bytes = (unsigned)r->shared_bytes,
      .stream = q->at,
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

static tenon_status make_call(const DeviceQueue *q, const Op *o, uint64_t *value, Call *c,
                              Diag *d) {
  configure(q, o, c);
  for (int i = 0; i < o->nvalues; i++) c->arg[i] = &value[i];
  for (int i = 0; i < o->code->record.nmaps; i++) {
    TRY(put_map(q->device, o, value, i, c, d));
    c->arg[o->nvalues + i] = &c->map[i];
  }
  return TENON_OK;
}

static tenon_status issue_launch(DeviceQueue *q, const Op *o, uint64_t *value, Diag *d) {
  Device *dev = q->device;
  Call c;
  TRY(make_call(q, o, value, &c, d));
  TRY(cuda_check(dev, dev->api->launch(&c.config, o->code->function, c.arg, NULL),
                 "cuLaunchKernelEx", o->kernel->name, d));
  q->last = o->kernel->name;
  if (!q->one_by_one || q->recording || cuda_captured(q, q->at)) return TENON_OK;
  return cuda_check(dev, dev->api->stream_wait(q->at), "cuStreamSynchronize", o->kernel->name, d);
}

static tenon_status issue(DeviceQueue *q, const Op *o, uint64_t *value, Diag *d) {
  Device *dev = q->device;
  if (o->kind == OP_LAUNCH) return issue_launch(q, o, value, d);
  if (o->kind == OP_COPY)
    return cuda_check(dev, dev->api->on_device(value[0], value[1], (size_t)value[2], q->at),
                      "cuMemcpyDtoDAsync", NULL, d);
  return cuda_check(dev, dev->api->mem_set(value[0], 0, (size_t)value[2], q->at), "cuMemsetD8Async",
                    NULL, d);
}

// The node that the last call became, NULL where the library does not say.
static CudaNode node_of(const DeviceQueue *q) {
  const CudaNode *last = NULL;
  const void *edges = NULL;
  CudaGraph graph = NULL;
  uint64_t id;
  size_t n = 0;
  int status;
  const CudaApi *api = q->device->api;
  if (!api->capture_info || api->capture_info(q->at, &status, &id, &graph, &last, &edges, &n))
    return NULL;
  return n == 1 ? last[0] : NULL;
}

// The call at `at` of a sequence, its values, and where the next one is.
static int64_t next_op(const CudaSequence *s, int64_t at, Op *o, uint64_t **value) {
  memcpy(o, s->data + at, sizeof *o);
  *value = (uint64_t *)(void *)(s->data + at + sizeof *o);
  return at + (int64_t)sizeof *o + o->nvalues * (int64_t)sizeof(uint64_t);
}

static tenon_status issue_all(DeviceQueue *q, const CudaSequence *s, CudaNode *node, Diag *d) {
  uint64_t *value;
  Op o;
  for (int64_t at = 0, i = 0; at < s->bytes; i++) {
    at = next_op(s, at, &o, &value);
    TRY(issue(q, &o, value, d));
    if (node) node[i] = node_of(q);
  }
  return TENON_OK;
}

// ---- sequences that come again ----

static void forget_graph(const Device *dev, CudaSequence *s) {
  if (s->graph) dev->api->graph_exec_destroy(s->graph);
  if (s->source) dev->api->graph_destroy(s->source);
  mem_free(s->node, s->count * (int64_t)sizeof *s->node);
  s->graph = NULL;
  s->source = NULL;
  s->node = NULL;
}

static void forget(const Device *dev, CudaSequence *s) {
  forget_graph(dev, s);
  mem_free(s->data, s->room);
  *s = (CudaSequence){0};
}

void cuda_forget(DeviceQueue *q) {
  for (int i = 0; i < CUDA_SEQUENCES; i++) forget(q->device, &q->seen[i]);
  forget(q->device, &q->pending);
}

// The one that is the same, or NULL and where it can be kept.
static CudaSequence *find(DeviceQueue *q, CudaSequence **room) {
  const CudaSequence *p = &q->pending;
  *room = &q->seen[0];
  for (int i = 0; i < CUDA_SEQUENCES; i++) {
    CudaSequence *s = &q->seen[i];
    if (s->bytes == p->bytes && !memcmp(s->data, p->data, (size_t)p->bytes)) return s;
    if (s->used < (*room)->used) *room = s;
  }
  return NULL;
}

static tenon_status record(DeviceQueue *q, CudaSequence *s, Diag *d) {
  Device *dev = q->device;
  CudaStream at = q->at;
  if (!(s->node = mem_alloc(s->count * (int64_t)sizeof *s->node)))
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  CUDA_TRY(dev, d, "cuStreamBeginCapture", capture_begin(q->stream, CUDA_CAPTURE_THREAD));
  q->recording = true;
  q->at = q->stream;
  tenon_status issued = issue_all(q, s, s->node, d);
  q->at = at;
  q->recording = false;
  CudaResult r = dev->api->capture_end(q->stream, &s->source);
  tenon_status made = issued ? issued : cuda_check(dev, r, "cuStreamEndCapture", NULL, d);
  if (!made)
    made = cuda_check(dev, dev->api->graph_make(&s->graph, s->source, 0),
                      "cuGraphInstantiateWithFlags", NULL, d);
  if (made) s->graph = NULL;
  return made;
}

// ---- the same with other addresses ----
//
// A caller's memory may be another in every call: the graph's nodes get the new addresses, which
// takes a microsecond for each that changes, where recording takes as much for every kernel and
// instantiating more.

// Values before this one are addresses, which may be others.
static int32_t addresses(const Op *o) { return o->kind == OP_LAUNCH ? o->nargs : 2; }

// How many calls differ in their addresses alone; -1: some differ in more.
static int64_t differing(const CudaSequence *x, const CudaSequence *y) {
  int64_t n = 0;
  if (x->bytes != y->bytes || x->count != y->count) return -1;
  for (int64_t at = 0; at < x->bytes;) {
    Op a, b;
    uint64_t *u, *v;
    (void)next_op(y, at, &b, &v);
    at = next_op(x, at, &a, &u);
    int32_t from = addresses(&a);
    if (memcmp(&a, &b, sizeof a) != 0 ||
        memcmp(u + from, v + from, (size_t)(a.nvalues - from) * sizeof *u) != 0)
      return -1;
    n += memcmp(u, v, (size_t)from * sizeof *u) != 0;
  }
  return n;
}

static CudaSequence *find_twin(DeviceQueue *q) {
  for (int i = 0; i < CUDA_SEQUENCES; i++) {
    int64_t n = differing(&q->pending, &q->seen[i]);
    if (n >= 0 && n <= MAX(q->pending.count / 2, 8)) return &q->seen[i];
  }
  return NULL;
}

static bool set_node(const DeviceQueue *q, const CudaSequence *s, CudaNode node, const Op *o,
                     uint64_t *value, Diag *d) {
  const Device *dev = q->device;
  Call c;
  if (!node || o->kind == OP_FILL) return false;
  if (o->kind == OP_COPY) {
    CudaCopyNode n = {.from = {.type = CUDA_MEMORY_DEVICE, .device = value[1]},
                      .to = {.type = CUDA_MEMORY_DEVICE, .device = value[0]},
                      .width = (size_t)value[2],
                      .height = 1,
                      .depth = 1};
    return dev->api->copy_set && !dev->api->copy_set(s->graph, node, &n, dev->context);
  }
  if (!dev->api->kernel_set || make_call(q, o, value, &c, d)) return false;
  CudaKernelNode n = {
      .function = o->code->function, .shared_bytes = c.config.shared_bytes, .args = c.arg};
  memcpy(n.grid, c.config.grid, sizeof n.grid);
  memcpy(n.block, c.config.block, sizeof n.block);
  return !dev->api->kernel_set(s->graph, node, &n);
}

// Makes a sequence the pending one.  Where a node cannot be changed the graph is recorded again.
static void retarget(DeviceQueue *q, CudaSequence *s) {
  const CudaSequence *p = &q->pending;
  bool ok = s->graph != NULL;
  Diag unsaid;
  diag_init(&unsaid);
  for (int64_t at = 0, i = 0; ok && at < p->bytes; i++) {
    Op a, b;
    uint64_t *u, *v;
    (void)next_op(s, at, &b, &v);
    at = next_op(p, at, &a, &u);
    if (memcmp(u, v, (size_t)addresses(&a) * sizeof *u) != 0)
      ok = set_node(q, s, s->node[i], &a, u, &unsaid);
  }
  if (!ok) forget_graph(q->device, s);
  memcpy(s->data, p->data, (size_t)p->bytes);
}

static tenon_status run_pending(DeviceQueue *q, Diag *d) {
  if (cuda_captured(q, q->at))
    return issue_all(q, &q->pending, NULL, d);  // the graph is the caller's
  CudaSequence *room, *s = q->no_graphs || q->pending.count < MIN_GRAPH ? NULL : find(q, &room);
  if (!s && !q->no_graphs && q->pending.count >= MIN_GRAPH && (s = find_twin(q))) retarget(q, s);
  if (s) {
    s->used = ++q->clock;
    if (!s->graph) {
      tenon_status made = record(q, s, d);
      if (made) forget_graph(q->device, s);
      TRY(made);
    }
    return cuda_check(q->device, q->device->api->graph_launch(s->graph, q->at), "cuGraphLaunch",
                      NULL, d);
  }
  TRY(issue_all(q, &q->pending, NULL, d));
  if (q->no_graphs || q->pending.count < MIN_GRAPH) return TENON_OK;
  CudaSequence kept = q->pending;
  kept.used = ++q->clock;
  forget(q->device, room);
  *room = kept;
  q->pending = (CudaSequence){0};
  return TENON_OK;
}

tenon_status cuda_flush(DeviceQueue *q, Diag *d) {
  if (q->failed)
    return fail(d, TENON_EDEVICE, NOWHERE, "%s: an earlier call failed", q->device->name);
  if (!q->pending.bytes) return TENON_OK;
  tenon_status s = cuda_come_back(q, d);
  q->busy = true;
  if (!s) s = run_pending(q, d);
  q->pending.bytes = q->pending.count = 0;
  q->failed = s != TENON_OK;
  return s;
}

// ---- putting ----

static tenon_status grow(CudaSequence *s, int64_t bytes, Diag *d) {
  int64_t room = MAX(s->room * 2, MAX(s->bytes + bytes, 1 << 14));
  if (s->bytes + bytes <= s->room) return TENON_OK;
  char *data = mem_alloc(room);
  if (!data) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  if (s->bytes) memcpy(data, s->data, (size_t)s->bytes);
  mem_free(s->data, s->room);
  s->data = data;
  s->room = room;
  return TENON_OK;
}

static tenon_status put(DeviceQueue *q, const Op *o, uint64_t *value, Diag *d) {
  CudaSequence *s = &q->pending;
  if (q->recording || q->one_by_one) {
    TRY(cuda_enter(q->device, d));
    tenon_status issued = q->recording ? TENON_OK : cuda_come_back(q, d);
    q->busy = true;
    return cuda_leave(q->device, issued ? issued : issue(q, o, value, d), d);
  }
  if (q->failed)
    return fail(d, TENON_EDEVICE, NOWHERE, "%s: an earlier call failed", q->device->name);
  int64_t values = o->nvalues * (int64_t)sizeof *value;
  TRY(grow(s, (int64_t)sizeof *o + values, d));
  memcpy(s->data + s->bytes, o, sizeof *o);
  memcpy(s->data + s->bytes + sizeof *o, value, (size_t)values);
  s->bytes += (int64_t)sizeof *o + values;
  s->count++;
  return TENON_OK;
}

static tenon_status put_locked(DeviceQueue *q, const Op *o, uint64_t *value, Diag *d) {
  pthread_mutex_lock(&q->lock);
  tenon_status s = put(q, o, value, d);
  pthread_mutex_unlock(&q->lock);
  return s;
}

static uint64_t address(DevicePlace p) {
  return p.buffer ? p.buffer->at + (CudaAddress)p.offset : 0;
}

static int64_t groups(const Device *dev, const CudaRecord *r, const DeviceLaunch *l) {
  int64_t most = INT32_MAX / 2, per = 1, n;
  int threads = r->threads ? r->threads : l->kernel->group;
  if (threads <= 1) per = ITEM_THREADS;
  n = (l->items + per - 1) / per;
  if (r->persistent) most = dev->info.compute_units;
  if (l->kernel->scratch_bytes) most = MIN(most, MAX(l->slots / per, 1));
  n = MIN(n, most);
  return n * r->cluster;
}

tenon_status cuda_launch(DeviceQueue *q, DeviceCode *code, const DeviceLaunch *l, Diag *d) {
  uint64_t value[MAX_ARGS];
  int n = 0;
  if (l->number < 0 || l->number >= code->n)
    return fail(d, TENON_EINTERNAL, NOWHERE, "kernel '%s' is not in its code", l->kernel->name);
  if ((int64_t)l->nargs + l->ndims + 4 > MAX_ARGS)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "kernel '%s' has %d arguments", l->kernel->name,
                l->nargs);
  for (int32_t i = 0; i < l->nargs; i++) value[n++] = address(l->arg[i]);
  for (int32_t i = 0; i < l->ndims; i++) value[n++] = (uint64_t)l->dims[i];
  value[n++] = (uint64_t)l->items;
  value[n++] = address(l->scratch);
  value[n++] = (uint64_t)((l->kernel->scratch_bytes + 63) / 64 * 64);
  value[n++] = address(l->fault);
  Op o = {.kind = OP_LAUNCH,
          .nargs = l->nargs,
          .ndims = l->ndims,
          .nvalues = n,
          .code = &code->kernel[l->number],
          .kernel = l->kernel};
  o.groups = groups(q->device, &o.code->record, l);
  return put_locked(q, &o, value, d);
}

static bool inside(DevicePlace p, int64_t bytes) {
  return p.buffer && p.offset >= 0 && bytes >= 0 && bytes <= p.buffer->bytes - p.offset;
}

tenon_status cuda_check_place(const DeviceQueue *q, DevicePlace p, int64_t bytes, Diag *d) {
  if (inside(p, bytes)) return TENON_OK;
  return fail(d, TENON_EINTERNAL, NOWHERE, "%s: a copy reaches outside its buffer",
              q->device->name);
}

tenon_status cuda_copy(DeviceQueue *q, DevicePlace to, DevicePlace from, int64_t bytes, Diag *d) {
  uint64_t value[3] = {address(to), address(from), (uint64_t)bytes};
  Op o = {.kind = OP_COPY, .nvalues = 3};
  TRY(cuda_check_place(q, to, bytes, d));
  TRY(cuda_check_place(q, from, bytes, d));
  return bytes ? put_locked(q, &o, value, d) : TENON_OK;
}

tenon_status cuda_fill(DeviceQueue *q, DevicePlace to, int64_t bytes, Diag *d) {
  uint64_t value[3] = {address(to), 0, (uint64_t)bytes};
  Op o = {.kind = OP_FILL, .nvalues = 3};
  TRY(cuda_check_place(q, to, bytes, d));
  return bytes ? put_locked(q, &o, value, d) : TENON_OK;
}
