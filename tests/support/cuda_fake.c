// cuda_fake.c -- see cuda_fake.h.
#include "cuda_fake.h"

#include "runtime/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

CudaFake cuda_fake;
const CudaResult cuda_fake_codes[CUDA_FAKE_CODES] = {1,   2,   3,   100, 101, 201,
                                                     209, 218, 400, 700, 715, 719};

typedef struct Op {
  int kind;  // 0 copy, 1 fill, 2 add
  uint64_t v[5];
  size_t bytes;
  struct Op *next;
} Op;
struct CUctx_st {
  int unused;
};
struct CUgraph_st {
  Op *first, **last;
};
struct CUgraphExec_st {
  Op *first;
  CudaGraph source;
};
struct CUstream_st {
  CudaGraph capture;
};
struct CUevent_st {
  int recorded;
};
struct CUmod_st {
  bool adds;
};
struct CUfunc_st {
  bool adds;
};
struct _nvrtcProgram {
  bool adds;
};
static struct CUctx_st the_context;
static struct CUfunc_st the_functions[2] = {{false}, {true}};

void cuda_fake_reset(void) { cuda_fake = (CudaFake){0}; }

int cuda_fake_left(void) {
  const CudaFake *f = &cuda_fake;
  return f->contexts + f->pushed + f->buffers + f->pages + f->streams + f->events + f->modules +
         f->graphs + f->execs + f->programs;
}

static bool stays(CudaResult r) { return r == 700 || r == 715 || r == 719; }

// The error of this call.
static CudaResult step(void) {
  CudaFake *f = &cuda_fake;
  int64_t call = ++f->calls;
  if (f->sticky) return f->sticky;
  CudaResult code = f->fails ? f->fails() : call == f->fail_at ? f->code : 0;
  if (!code) return 0;
  f->failed = true;
  if (stays(code)) f->sticky = code;
  return code;
}
#define STEP()                                                                                     \
  do {                                                                                             \
    CudaResult r_ = step();                                                                        \
    if (r_) return r_;                                                                             \
  } while (0)
// The compiler has errors of its own, and knows of no context.
#define RTC_STEP()                                                                                 \
  do {                                                                                             \
    CudaFake *f_ = &cuda_fake;                                                                     \
    int64_t call_ = ++f_->calls;                                                                   \
    CudaResult code_ = f_->fails ? f_->fails() : call_ == f_->fail_at ? f_->code : 0;              \
    if (code_) {                                                                                   \
      f_->failed = true;                                                                           \
      return code_ % 11 + 1;                                                                       \
    }                                                                                              \
  } while (0)

static void *zeroed(size_t n) {
  void *p = calloc(1, n);
  if (!p) abort();
  return p;
}

// ---- devices ----

static CudaResult init(unsigned flags) {
  (void)flags;
  return 0;
}
static CudaResult driver_version(int *out) {
  STEP();
  *out = 13000;
  return 0;
}
static CudaResult error_name(CudaResult r, const char **out) {
  *out = r == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
  return 0;
}
static CudaResult error_words(CudaResult r, const char **out) {
  (void)r;
  *out = "as the test wants it";
  return 0;
}
static CudaResult device_count(int *out) {
  STEP();
  *out = 1;
  return 0;
}
static CudaResult device_get(CudaDevice *out, int index) {
  STEP();
  *out = index;
  return 0;
}
static CudaResult device_name(char *out, int cap, CudaDevice dev) {
  (void)dev;
  STEP();
  snprintf(out, (size_t)cap, "Fake GPU");
  return 0;
}
static CudaResult device_attr(int *out, int attr, CudaDevice dev) {
  (void)dev;
  STEP();
  *out = attr == CUDA_ATTR_MAJOR             ? 9
         : attr == CUDA_ATTR_MINOR           ? 0
         : attr == CUDA_ATTR_MAX_THREADS     ? 1024
         : attr == CUDA_ATTR_WARP            ? 32
         : attr == CUDA_ATTR_SHARED_OPTIN    ? 232448
         : attr == CUDA_ATTR_MULTIPROCESSORS ? 132
         : attr == CUDA_ATTR_CLOCK           ? 1980000
         : attr == CUDA_ATTR_MEMORY_CLOCK    ? 3201000
         : attr == CUDA_ATTR_MEMORY_BITS     ? 6144
         : attr == CUDA_ATTR_L2_BYTES        ? 60 << 20
                                             : 0;
  return 0;
}
static CudaResult device_memory(size_t *out, CudaDevice dev) {
  (void)dev;
  STEP();
  *out = (size_t)1 << 34;
  return 0;
}
static CudaResult ctx_retain(CudaContext *out, CudaDevice dev) {
  (void)dev;
  STEP();
  *out = &the_context;
  cuda_fake.contexts++;
  return 0;
}
static CudaResult ctx_release(CudaDevice dev) {
  (void)dev;
  cuda_fake.contexts--;
  return step();
}
static CudaResult ctx_push(CudaContext c) {
  (void)c;
  STEP();
  cuda_fake.pushed++;
  return 0;
}
static CudaResult ctx_pop(CudaContext *out) {
  *out = &the_context;
  cuda_fake.pushed--;
  return step();
}

// ---- memory ----

// The bytes stand before the block, so that freeing can count them.
static CudaResult fake_mem_alloc(CudaAddress *out, size_t bytes) {
  CudaFake *f = &cuda_fake;
  STEP();
  if (f->limit_bytes && f->device_bytes + (int64_t)bytes > f->limit_bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  char *p = zeroed(bytes + 256);
  memcpy(p, &bytes, sizeof bytes);
  f->device_bytes += (int64_t)bytes;
  f->peak_bytes = MAX(f->peak_bytes, f->device_bytes);
  f->buffers++;
  *out = (CudaAddress)(uintptr_t)(p + 256);
  return 0;
}
static CudaResult fake_mem_free(CudaAddress at) {
  char *p = (char *)(uintptr_t)at - 256;
  size_t bytes;
  memcpy(&bytes, p, sizeof bytes);
  cuda_fake.device_bytes -= (int64_t)bytes;
  cuda_fake.buffers--;
  free(p);
  return step();
}
static CudaResult host_alloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  STEP();
  *out = zeroed(bytes);
  cuda_fake.pages++;
  return 0;
}
static CudaResult host_free(void *p) {
  free(p);
  cuda_fake.pages--;
  return step();
}

// ---- what a stream does ----

static void run(const Op *o) {
  if (o->kind == 0) memcpy((void *)(uintptr_t)o->v[0], (void *)(uintptr_t)o->v[1], o->bytes);
  if (o->kind == 1) memset((void *)(uintptr_t)o->v[0], (int)o->v[1], o->bytes);
  if (o->kind != 2) return;
  const float *a = (void *)(uintptr_t)o->v[0], *b = (void *)(uintptr_t)o->v[1];
  float *out = (void *)(uintptr_t)o->v[2];
  for (uint64_t i = 0; i < o->v[3]; i++) out[i] = a[i] + b[i];
  if (cuda_fake.fault) *(int32_t *)(uintptr_t)o->v[4] = cuda_fake.fault;
}
// Arguments of `add`: two addresses, that of the sum, the number of items, scratch, its bytes, and
// where a fault is told.
static void take_args(Op *o, void **args) {
  for (int i = 0; i < 4; i++) memcpy(&o->v[i], args[i], 8);
  memcpy(&o->v[4], args[6], 8);
}
// Streams 1 and 2 are the library's own.
static CudaGraph capture_of(CudaStream s) { return (uintptr_t)s <= 2 ? NULL : s->capture; }
static void put(CudaStream s, Op o) {
  if (!capture_of(s)) {
    cuda_fake.stream = s;
    run(&o);
    return;
  }
  Op *kept = zeroed(sizeof *kept);
  *kept = o;
  *s->capture->last = kept;
  s->capture->last = &kept->next;
}
static CudaResult to_device(CudaAddress to, const void *from, size_t bytes, CudaStream s) {
  STEP();
  put(s, (Op){.v = {to, (uintptr_t)from}, .bytes = bytes});
  return 0;
}
static CudaResult to_host(void *to, CudaAddress from, size_t bytes, CudaStream s) {
  STEP();
  put(s, (Op){.v = {(uintptr_t)to, from}, .bytes = bytes});
  return 0;
}
static CudaResult on_device(CudaAddress to, CudaAddress from, size_t bytes, CudaStream s) {
  STEP();
  put(s, (Op){.v = {to, from}, .bytes = bytes});
  return 0;
}
static CudaResult mem_set(CudaAddress to, unsigned char value, size_t bytes, CudaStream s) {
  STEP();
  put(s, (Op){.kind = 1, .v = {to, value}, .bytes = bytes});
  return 0;
}
static CudaResult stream_create(CudaStream *out, unsigned flags) {
  (void)flags;
  STEP();
  *out = zeroed(sizeof **out);
  cuda_fake.streams++;
  return 0;
}
static void free_ops(Op *o) {
  while (o) {
    Op *next = o->next;
    free(o);
    o = next;
  }
}
static CudaResult graph_destroy(CudaGraph g) {
  free_ops(g->first);
  free(g);
  cuda_fake.graphs--;
  return step();
}
static CudaResult stream_destroy(CudaStream s) {
  if (s->capture) graph_destroy(s->capture);
  free(s);
  cuda_fake.streams--;
  return step();
}
static CudaResult stream_wait(CudaStream s) {
  STEP();
  cuda_fake.waits++;
  return capture_of(s) ? 900 : 0;
}
static CudaResult stream_after(CudaStream s, CudaEvent e, unsigned flags) {
  (void)flags;
  STEP();
  cuda_fake.orders++;
  return e->recorded && s ? 0 : 400;
}

// Every block that was allocated is known, so that a wrong address is found.
static CudaResult pointer_about(unsigned n, int *attribute, void **out, CudaAddress at) {
  STEP();
  for (unsigned i = 0; i < n; i++) {
    int device = at == cuda_fake.other_device;
    unsigned type = at == cuda_fake.host_address ? 1 : CUDA_MEMORY_DEVICE;
    if (attribute[i] == CUDA_POINTER_TYPE) memcpy(out[i], &type, sizeof type);
    if (attribute[i] == CUDA_POINTER_DEVICE) memcpy(out[i], &device, sizeof device);
  }
  return 0;
}

// ---- graphs ----

static CudaResult capture_begin(CudaStream s, int mode) {
  (void)mode;
  STEP();
  s->capture = zeroed(sizeof *s->capture);
  s->capture->last = &s->capture->first;
  cuda_fake.graphs++;
  return 0;
}
static CudaResult capture_end(CudaStream s, CudaGraph *out) {
  CudaResult r = step();
  if (r) {  // ended, and thrown away
    graph_destroy(s->capture);
    *out = NULL;
  } else {
    *out = s->capture;
  }
  s->capture = NULL;
  return r;
}
static CudaResult is_capturing(CudaStream s, int *status) {
  STEP();
  *status = capture_of(s) != NULL;
  return 0;
}
// The node of the call before.
static CudaResult capture_info(CudaStream s, int *status, uint64_t *id, CudaGraph *graph,
                               const CudaNode **last, const void **edges, size_t *n) {
  static _Thread_local CudaNode node;
  (void)edges;
  STEP();
  *status = 1;
  *id = 1;
  *graph = s->capture;
  Op *o = s->capture->first;
  while (o && o->next) o = o->next;
  node = (CudaNode)(void *)o;
  *last = &node;
  *n = o ? 1 : 0;
  return 0;
}
// Of a graph that was made of another: the operation in the same place.
static Op *same_place(CudaGraphExec g, CudaNode node) {
  const Op *from = g->source->first;
  Op *to = g->first;
  while (from && (const void *)from != (const void *)node) {
    from = from->next;
    to = to->next;
  }
  return from ? to : NULL;
}
static CudaResult kernel_set(CudaGraphExec g, CudaNode node, const CudaKernelNode *k) {
  STEP();
  Op *o = same_place(g, node);
  if (!o || o->kind != 2 || !k->grid[0] || !k->block[0] || !k->function->adds) return 1;
  take_args(o, k->args);
  cuda_fake.updates++;
  return 0;
}
static CudaResult copy_set(CudaGraphExec g, CudaNode node, const CudaCopyNode *c, CudaContext ctx) {
  STEP();
  Op *o = same_place(g, node);
  if (!o || o->kind != 0 || !ctx || c->height != 1 || c->depth != 1) return 1;
  o->v[0] = c->to.device;
  o->v[1] = c->from.device;
  o->bytes = c->width;
  cuda_fake.updates++;
  return 0;
}
static CudaResult graph_make(CudaGraphExec *out, CudaGraph g, unsigned long long flags) {
  (void)flags;
  STEP();
  *out = zeroed(sizeof **out);
  (*out)->source = g;
  Op **last = &(*out)->first;
  for (const Op *o = g->first; o; o = o->next) {
    *last = zeroed(sizeof **last);
    **last = *o;
    (*last)->next = NULL;
    last = &(*last)->next;
  }
  cuda_fake.execs++;
  return 0;
}
static CudaResult graph_launch(CudaGraphExec g, CudaStream s) {
  STEP();
  cuda_fake.stream = s;
  for (const Op *o = g->first; o; o = o->next) run(o);
  cuda_fake.replays++;
  return 0;
}
static CudaResult graph_exec_destroy(CudaGraphExec g) {
  free_ops(g->first);
  free(g);
  cuda_fake.execs--;
  return step();
}

// ---- events ----

static CudaResult event_create(CudaEvent *out, unsigned flags) {
  (void)flags;
  STEP();
  *out = zeroed(sizeof **out);
  cuda_fake.events++;
  return 0;
}
static CudaResult event_destroy(CudaEvent e) {
  free(e);
  cuda_fake.events--;
  return step();
}
static CudaResult event_record(CudaEvent e, CudaStream s) {
  (void)s;
  STEP();
  e->recorded = 1;
  return 0;
}
static CudaResult event_wait(CudaEvent e) {
  (void)e;
  STEP();
  return 0;
}
static CudaResult event_between(float *ms, CudaEvent from, CudaEvent to) {
  STEP();
  *ms = 0.5f;
  return from->recorded && to->recorded ? 0 : 400;
}

// ---- code ----

static CudaResult module_load(CudaModule *out, const void *image) {
  STEP();
  *out = zeroed(sizeof **out);
  (*out)->adds = strstr((const char *)image + 4, "add") != NULL;
  cuda_fake.modules++;
  return 0;
}
static CudaResult module_unload(CudaModule m) {
  free(m);
  cuda_fake.modules--;
  return step();
}
static CudaResult module_function(CudaFunction *out, CudaModule m, const char *name) {
  STEP();
  if (strcmp(name, "tn_kernel") != 0) return 500;
  *out = &the_functions[m->adds];
  return 0;
}
static CudaResult function_set(CudaFunction f, int attr, int value) {
  (void)f, (void)attr;
  STEP();
  return value > 232448;
}
static CudaResult launch(const CudaLaunchConfig *c, CudaFunction f, void **args, void **extra) {
  Op o = {.kind = 2};
  (void)extra;
  STEP();
  if (!c->grid[0] || !c->block[0] || c->block[0] > 1024) return 1;
  if (f->adds) take_args(&o, args);
  if (f->adds) put(c->stream, o);
  cuda_fake.launches++;
  return 0;
}
static CudaResult tensor_map(CudaTensorMap *out, int type, uint32_t rank, void *at,
                             const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                             const uint32_t *steps, int interleave, int swizzle, int promotion,
                             int fill) {
  (void)type, (void)rank, (void)at, (void)dims, (void)strides, (void)box, (void)steps;
  (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  STEP();
  memset(out, 0, sizeof *out);
  return 0;
}

static CudaResult window_map(CudaTensorMap *out, int type, uint32_t rank, void *at,
                             const uint64_t *dims, const uint64_t *strides, const int *before,
                             const int *after, uint32_t channels, uint32_t pixels,
                             const uint32_t *steps, int interleave, int swizzle, int promotion,
                             int fill) {
  (void)type, (void)rank, (void)at, (void)dims, (void)strides, (void)before, (void)after;
  (void)channels, (void)pixels, (void)steps, (void)interleave, (void)swizzle, (void)promotion;
  (void)fill;
  STEP();
  memset(out, 0, sizeof *out);
  return 0;
}

static const char *rtc_error(NvrtcResult r) {
  (void)r;
  return "NVRTC_ERROR";
}
static NvrtcResult rtc_version(int *major, int *minor) {
  RTC_STEP();
  *major = 13;
  *minor = 0;
  return 0;
}
static NvrtcResult rtc_arch_count(int *out) {
  RTC_STEP();
  *out = 3;
  return 0;
}
static NvrtcResult rtc_archs(int *out) {
  RTC_STEP();
  out[0] = 75;
  out[1] = 80;
  out[2] = 90;
  return 0;
}
static NvrtcResult rtc_create(NvrtcProgram *out, const char *text, const char *name, int nheaders,
                              const char *const *headers, const char *const *names) {
  (void)name, (void)nheaders, (void)headers, (void)names;
  RTC_STEP();
  *out = zeroed(sizeof **out);
  (*out)->adds = strstr(text, CUDA_FAKE_ADD) != NULL;
  cuda_fake.programs++;
  return 0;
}
static NvrtcResult rtc_destroy(NvrtcProgram *p) {
  free(*p);
  *p = NULL;
  cuda_fake.programs--;
  RTC_STEP();
  return 0;
}
static NvrtcResult rtc_compile(NvrtcProgram p, int n, const char *const *options) {
  (void)p;
  RTC_STEP();
  snprintf(cuda_fake.option, sizeof cuda_fake.option, "%s", n > 0 ? options[0] : "");
  return 0;
}
static NvrtcResult rtc_log_size(NvrtcProgram p, size_t *out) {
  (void)p;
  RTC_STEP();
  *out = 1;
  return 0;
}
static NvrtcResult rtc_log(NvrtcProgram p, char *out) {
  (void)p;
  RTC_STEP();
  *out = 0;
  return 0;
}
static NvrtcResult rtc_cubin_size(NvrtcProgram p, size_t *out) {
  (void)p;
  RTC_STEP();
  *out = 16;
  return 0;
}
static NvrtcResult rtc_cubin(NvrtcProgram p, char *out) {
  RTC_STEP();
  memset(out, 0, 16);
  memcpy(out,
         "\x7f"
         "ELF",
         4);
  memcpy(out + 4, p->adds ? "add" : "nop", 3);
  return 0;
}

const CudaApi cuda_fake_api = {
    .init = init,
    .driver_version = driver_version,
    .error_name = error_name,
    .error_text = error_words,
    .device_count = device_count,
    .device_get = device_get,
    .device_name = device_name,
    .device_attr = device_attr,
    .device_memory = device_memory,
    .ctx_retain = ctx_retain,
    .ctx_release = ctx_release,
    .ctx_push = ctx_push,
    .ctx_pop = ctx_pop,
    .mem_alloc = fake_mem_alloc,
    .mem_free = fake_mem_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .to_device = to_device,
    .to_host = to_host,
    .on_device = on_device,
    .mem_set = mem_set,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .stream_after = stream_after,
    .pointer_about = pointer_about,
    .capture_info = capture_info,
    .kernel_set = kernel_set,
    .copy_set = copy_set,
    .capture_begin = capture_begin,
    .is_capturing = is_capturing,
    .capture_end = capture_end,
    .graph_make = graph_make,
    .graph_launch = graph_launch,
    .graph_destroy = graph_destroy,
    .graph_exec_destroy = graph_exec_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_between = event_between,
    .module_load = module_load,
    .module_unload = module_unload,
    .module_function = module_function,
    .function_set = function_set,
    .launch = launch,
    .tensor_map = tensor_map,
    .window_map = window_map,
    .rtc_error = rtc_error,
    .rtc_version = rtc_version,
    .rtc_arch_count = rtc_arch_count,
    .rtc_archs = rtc_archs,
    .rtc_create = rtc_create,
    .rtc_destroy = rtc_destroy,
    .rtc_compile = rtc_compile,
    .rtc_log_size = rtc_log_size,
    .rtc_log = rtc_log,
    .rtc_cubin_size = rtc_cubin_size,
    .rtc_cubin = rtc_cubin,
    .rtc_ptx_size = rtc_cubin_size,
    .rtc_ptx = rtc_cubin,
};

// ---- the driver on it ----

static const char *kept_cache;

void cuda_fake_begin(void) {
  kept_cache = getenv("TENON_CACHE");
  setenv("TENON_CACHE", "/dev/null/tenon", 1);
  cuda_fake_reset();
  cuda_api_replace(&cuda_fake_api);
}

void cuda_fake_end(void) {
  cuda_shut();
  cuda_api_replace(NULL);
  if (kept_cache)
    setenv("TENON_CACHE", kept_cache, 1);
  else
    unsetenv("TENON_CACHE");
}
