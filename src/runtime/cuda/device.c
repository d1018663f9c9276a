// device.c -- NVIDIA's GPUs: which there are, their contexts, and memory.
//
// A device's context is the process's primary one, which other libraries in the process use, too;
// it is the thread's only while a call of ours runs.  Once made it stays, whoever closes the
// device: making one takes longer than most models.  Memory that is freed is kept for the next who
// wants as much, up to a limit: taking it from the system waits for the whole device.  What is
// freed may still be in use, so the queues are waited for first; one that is being recorded is left
// alone, since what it uses is its own session's.
#include "runtime/cuda/impl.h"

#include "base/platform.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEVICES = 16, GRANULE = 1 << 16 };
// A chip that is not here, for making its code: device number OFFLINE + 90 is "sm_90".
enum { OFFLINE = 1000, MAX_ARCH = 199, OWN_CODE_FROM = 90 };
#define KEPT_LIMIT ((int64_t)256 << 20)

static struct {
  pthread_mutex_t lock;
  Device device[MAX_DEVICES], offline[MAX_ARCH + 1];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- errors ----

// Errors after which a context gives nothing but errors.
static bool is_lost(CudaResult r) {
  return r == 700 || r == 702 || r == 710 || (r >= 714 && r <= 719) || r == 721 || r == 999 ||
         r == 101 || r == 4 || r == 709;
}

tenon_status cuda_check(Device *dev, CudaResult r, const char *call, const char *kernel, Diag *d) {
  const char *name = NULL, *text = NULL;
  if (!r) return TENON_OK;
  if (is_lost(r)) atomic_store(&dev->lost, true);
  dev->api->error_name(r, &name);
  dev->api->error_text(r, &text);
  return fail(d, r == CUDA_ERROR_OUT_OF_MEMORY ? TENON_ENOMEM : TENON_EDEVICE, NOWHERE,
              "%s%s%s%s%s: %s (%d)%s%s", dev->name, kernel ? ", kernel '" : "",
              kernel ? kernel : "", kernel ? "', " : ", ", call, name ? name : "error", r,
              text ? ": " : "", text ? text : "");
}

tenon_status cuda_enter(Device *dev, Diag *d) {
  if (!dev->api)
    return fail(d, TENON_EDEVICE, NOWHERE,
                "%s is no device of this machine: code can be made for it, not run", dev->name);
  if (atomic_load(&dev->lost))
    return fail(d, TENON_EDEVICE, NOWHERE, "%s: the device was lost by an earlier error",
                dev->name);
  return cuda_check(dev, dev->api->ctx_push(dev->context), "cuCtxPushCurrent", NULL, d);
}

tenon_status cuda_leave(Device *dev, tenon_status s, Diag *d) {
  CudaContext before;
  CudaResult r = dev->api->ctx_pop(&before);
  return s ? s : cuda_check(dev, r, "cuCtxPopCurrent", NULL, d);
}

// ---- which there are ----

int cuda_count(const char **why) {
  const char *reason = NULL;
  const CudaApi *api = cuda_api(&reason);
  int n = 0;
  if (api && api->device_count(&n)) reason = "cuDeviceGetCount fails";
  if (api && !reason && n <= 0) reason = "the driver has no GPU";
  if (why) *why = reason;
  return reason ? 0 : MIN(n, MAX_DEVICES);
}

// "sm_90", "sm_90a"
static bool names_chip(const char *pick, int *out) {
  Str s = str_of(pick);
  int64_t arch;
  if (!str_starts(s, "sm_")) return false;
  s = (Str){s.p + 3, s.n - 3};
  if (s.n && s.p[s.n - 1] == 'a') s.n--;
  if (!str_to_i64(s, &arch) || arch < 50 || arch > MAX_ARCH) return false;
  *out = OFFLINE + (int)arch;
  return true;
}

tenon_status cuda_find(const char *pick, Diag *d, int *out) {
  const char *why = NULL;
  int64_t index = 0;
  if (!pick) pick = getenv("TENON_CUDA_DEVICE");
  if (pick && names_chip(pick, out)) return TENON_OK;
  int n = cuda_count(&why);
  if (!n) return fail(d, TENON_EDEVICE, NOWHERE, "no CUDA device: %s", why);
  if (pick && *pick && (!str_to_i64(str_of(pick), &index) || index < 0 || index >= n))
    return fail(d, TENON_EINVAL, NOWHERE, "no CUDA device '%s': there are %d, counted from 0", pick,
                n);
  *out = (int)index;
  return TENON_OK;
}

static tenon_status ask(Device *dev, int attr, int *out, Diag *d) {
  return cuda_check(dev, dev->api->device_attr(out, attr, dev->handle), "cuDeviceGetAttribute",
                    NULL, d);
}

// Shared memory of a block, at most.
static int64_t shared_of(int arch) {
  if (arch >= 90 && arch < 120) return 232448;
  if (arch == 80 || arch == 87) return 166912;
  return arch > 80 ? 101376 : 65536;
}

// TENON_CUDA_ARCH=sm_80: the device does as an older chip would, with that chip's schedules,
// instructions and shared memory.
static tenon_status become_older(Device *dev, Diag *d) {
  const char *name = getenv("TENON_CUDA_ARCH");
  DeviceInfo *i = &dev->info;
  int number;
  if (!name || !*name) return TENON_OK;
  if (!names_chip(name, &number) || number - OFFLINE > i->arch)
    return fail(d, TENON_EINVAL, NOWHERE, "TENON_CUDA_ARCH=%s: no chip that %s can stand in for",
                name, dev->name);
  if (number - OFFLINE == i->arch) return TENON_OK;
  i->arch = number - OFFLINE;
  i->shared_bytes = MIN(i->shared_bytes, shared_of(i->arch));
  if (i->arch >= OWN_CODE_FROM)
    return fail(d, TENON_EINVAL, NOWHERE,
                "TENON_CUDA_ARCH=%s: code for sm_90 and later runs on no "
                "newer GPU",
                name);
  dev->older = true;
  return TENON_OK;
}

static tenon_status describe(Device *dev, int index, Diag *d) {
  size_t memory = 0;
  int major = 0, minor = 0, shared = 0, version = 0, clock = 0, memory_clock = 0, bits = 0, l2 = 0;
  DeviceInfo *i = &dev->info;
  snprintf(dev->name, sizeof dev->name, "CUDA device %d", index);
  CUDA_TRY(dev, d, "cuDeviceGet", device_get(&dev->handle, index));
  CUDA_TRY(dev, d, "cuDeviceGetName", device_name(dev->name, sizeof dev->name, dev->handle));
  CUDA_TRY(dev, d, "cuDeviceTotalMem", device_memory(&memory, dev->handle));
  CUDA_TRY(dev, d, "cuDriverGetVersion", driver_version(&version));
  *i = (DeviceInfo){.driver = "cuda",
                    .name = dev->name,
                    .version = dev->version,
                    .pick = dev->pick,
                    .f64 = true,
                    .f16 = true,
                    .memory_bytes = (int64_t)memory,
                    .max_buffer = (int64_t)memory};
  TRY(ask(dev, CUDA_ATTR_MAJOR, &major, d));
  TRY(ask(dev, CUDA_ATTR_MINOR, &minor, d));
  TRY(ask(dev, CUDA_ATTR_MULTIPROCESSORS, &i->compute_units, d));
  TRY(ask(dev, CUDA_ATTR_MAX_THREADS, &i->max_block_threads, d));
  TRY(ask(dev, CUDA_ATTR_WARP, &i->subgroup, d));
  TRY(ask(dev, CUDA_ATTR_SHARED_OPTIN, &shared, d));
  TRY(ask(dev, CUDA_ATTR_CLOCK, &clock, d));
  TRY(ask(dev, CUDA_ATTR_MEMORY_CLOCK, &memory_clock, d));
  TRY(ask(dev, CUDA_ATTR_MEMORY_BITS, &bits, d));
  TRY(ask(dev, CUDA_ATTR_L2_BYTES, &l2, d));
  i->clock_hz = clock * 1e3;
  i->memory_rate = 2e3 * memory_clock * (bits / 8);
  i->l2_bytes = l2;
  i->shared_bytes = shared;
  i->arch = major * 10 + minor;
  TRY(become_older(dev, d));
  snprintf(dev->version, sizeof dev->version, "%d.%d", version / 1000, version % 1000 / 10);
  snprintf(dev->pick, sizeof dev->pick, "%d", index);
  return cuda_check(dev, dev->api->ctx_retain(&dev->context, dev->handle),
                    "cuDevicePrimaryCtxRetain", NULL, d);
}

static void leave_context(Device *dev) {
  if (!dev->context) return;
  dev->api->ctx_release(dev->handle);
  pthread_mutex_destroy(&dev->lock);
  dev->context = NULL;
}

static tenon_status open_locked(int index, Diag *d, Device **out) {
  const char *why = NULL;
  const CudaApi *api = cuda_api(&why);
  Device *dev = &all.device[index];
  if (!api) return fail(d, TENON_EDEVICE, NOWHERE, "no CUDA device: %s", why);
  if (!dev->users && (!dev->context || atomic_load(&dev->lost))) {
    leave_context(dev);
    *dev = (Device){.api = api};
    TRY(describe(dev, index, d));
    pthread_mutex_init(&dev->lock, NULL);
  }
  dev->users++;
  *out = dev;
  return TENON_OK;
}

// What such a GPU has at least; for sm_90, an H100 or H200.
static Device *open_offline(int arch) {
  Device *dev = &all.offline[arch];
  snprintf(dev->name, sizeof dev->name, "sm_%d%s", arch, arch >= 90 ? "a" : "");
  snprintf(dev->pick, sizeof dev->pick, "sm_%d%s", arch, arch >= 90 ? "a" : "");
  snprintf(dev->version, sizeof dev->version, "none");
  dev->info = (DeviceInfo){.driver = "cuda",
                           .name = dev->name,
                           .version = dev->version,
                           .pick = dev->pick,
                           .f64 = true,
                           .f16 = true,
                           .compute_units = arch >= 90   ? 132
                                            : arch >= 80 ? 108
                                                         : 40,
                           .max_block_threads = 1024,
                           .subgroup = 32,
                           .memory_bytes = (int64_t)8 << 30,
                           .max_buffer = (int64_t)8 << 30,
                           .shared_bytes = shared_of(arch),
                           .arch = arch};
  return dev;
}

tenon_status cuda_open(int index, Diag *d, Device **out) {
  if (index > OFFLINE && index <= OFFLINE + MAX_ARCH) {
    pthread_mutex_lock(&all.lock);
    *out = open_offline(index - OFFLINE);
    pthread_mutex_unlock(&all.lock);
    return TENON_OK;
  }
  if (index < 0 || index >= MAX_DEVICES)
    return fail(d, TENON_EINVAL, NOWHERE, "no CUDA device %d", index);
  pthread_mutex_lock(&all.lock);
  tenon_status s = open_locked(index, d, out);
  pthread_mutex_unlock(&all.lock);
  return s;
}

static void free_kept(Device *dev) {
  while (dev->kept) {
    DeviceBuffer *b = dev->kept;
    dev->kept = b->next;
    dev->api->mem_free(b->at);
    mem_free(b, sizeof *b);
  }
  dev->kept_bytes = 0;
}

void cuda_close(Device *dev) {
  CudaContext before;
  if (!dev || !dev->api) return;
  pthread_mutex_lock(&all.lock);
  if (!--dev->users) {
    bool entered = !dev->api->ctx_push(dev->context);
    free_kept(dev);
    if (entered) dev->api->ctx_pop(&before);
  }
  pthread_mutex_unlock(&all.lock);
}

void cuda_shut(void) {
  pthread_mutex_lock(&all.lock);
  for (int i = 0; i < MAX_DEVICES; i++)
    if (!all.device[i].users) leave_context(&all.device[i]);
  pthread_mutex_unlock(&all.lock);
}

const DeviceInfo *cuda_info(const Device *dev) { return &dev->info; }

// ---- memory ----

// The smallest that is kept and not much too large.
static DeviceBuffer *take_kept(Device *dev, int64_t bytes) {
  DeviceBuffer **best = NULL;
  for (DeviceBuffer **b = &dev->kept; *b; b = &(*b)->next)
    if ((*b)->bytes >= bytes && (*b)->bytes - bytes <= bytes / 4 &&
        (!best || (*b)->bytes < (*best)->bytes))
      best = b;
  if (!best) return NULL;
  DeviceBuffer *found = *best;
  *best = found->next;
  found->next = NULL;
  dev->kept_bytes -= found->bytes;
  return found;
}

static tenon_status allocate(Device *dev, int64_t bytes, Diag *d, DeviceBuffer **out) {
  DeviceBuffer *b = mem_alloc(sizeof *b);
  if (!b) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  CudaResult r = dev->api->mem_alloc(&b->at, (size_t)bytes);
  if (r == CUDA_ERROR_OUT_OF_MEMORY && dev->kept) {
    free_kept(dev);
    r = dev->api->mem_alloc(&b->at, (size_t)bytes);
  }
  if (r) {
    mem_free(b, sizeof *b);
    return cuda_check(dev, r, "cuMemAlloc", NULL, d);
  }
  b->bytes = bytes;
  *out = b;
  return TENON_OK;
}

tenon_status cuda_buffer(Device *dev, int64_t bytes, Diag *d, DeviceBuffer **out) {
  int64_t rounded;
  if (bytes < 0 || !ck_add(MAX(bytes, 1), GRANULE - 1, &rounded))
    return fail(d, TENON_ENOMEM, NOWHERE, "%s: a buffer of %lld bytes", dev->name,
                (long long)bytes);
  rounded = rounded / GRANULE * GRANULE;
  TRY(cuda_enter(dev, d));
  pthread_mutex_lock(&dev->lock);
  tenon_status s = TENON_OK;
  *out = take_kept(dev, rounded);
  if (!*out) s = allocate(dev, rounded, d, out);
  pthread_mutex_unlock(&dev->lock);
  DeviceBuffer *made = *out;
  tenon_status left = cuda_leave(dev, s, d);
  if (left && !s) {
    cuda_buffer_free(dev, made);
    *out = NULL;
  }
  return left;
}

// Whether nothing runs any more that could use what is freed.
static bool wait_for_queues(Device *dev) {
  bool idle = true;
  for (DeviceQueue *q = dev->queues; q; q = q->next) {
    Diag d;
    diag_init(&d);
    pthread_mutex_lock(&q->lock);
    if (!q->recording && (cuda_flush(q, &d) || cuda_settle(q))) idle = false;
    pthread_mutex_unlock(&q->lock);
  }
  return idle;
}

void cuda_buffer_free(Device *dev, DeviceBuffer *b) {
  CudaContext before;
  if (!b) return;
  bool entered = !dev->api->ctx_push(dev->context);
  pthread_mutex_lock(&dev->lock);
  bool idle = b->memory == MEMORY_USER || wait_for_queues(dev);
  if (b->memory == MEMORY_OWN && idle && !atomic_load(&dev->lost) &&
      dev->kept_bytes + b->bytes <= KEPT_LIMIT) {
    b->next = dev->kept;
    dev->kept = b;
    dev->kept_bytes += b->bytes;
  } else {
    if (b->memory == MEMORY_OWN) dev->api->mem_free(b->at);
    if (b->memory == MEMORY_PAGES) dev->api->host_free(cuda_address(b));
    mem_free(b, sizeof *b);
  }
  pthread_mutex_unlock(&dev->lock);
  if (entered) dev->api->ctx_pop(&before);
}

// ---- memory that others see ----

void *cuda_address(const DeviceBuffer *b) { return (void *)(uintptr_t)b->at; }

// An address that is not this device's would be found out by a kernel, which ends the context for
// everybody.
static tenon_status check_user_buffers(Device *dev, CudaAddress at, Diag *d) {
  int what[] = {CUDA_POINTER_TYPE, CUDA_POINTER_DEVICE};
  unsigned type = 0;
  int number = -1;
  void *out[] = {&type, &number};
  CUDA_TRY(dev, d, "cuPointerGetAttributes", pointer_about(2, what, out, at));
  if (type != CUDA_MEMORY_DEVICE)
    return fail(d, TENON_EINVAL, NOWHERE, "0x%llx is no address of a CUDA device's memory",
                (unsigned long long)at);
  if (number == dev->handle) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "0x%llx is memory of CUDA device %d, the program runs on device %d",
              (unsigned long long)at, number, dev->handle);
}

tenon_status cuda_lend(Device *dev, void *at, int64_t bytes, Diag *d, DeviceBuffer **io) {
  CudaAddress address = (CudaAddress)(uintptr_t)at;
  if (*io && (*io)->at == address && (*io)->bytes == bytes) return TENON_OK;
  if (bytes) {
    TRY(cuda_enter(dev, d));
    TRY(cuda_leave(dev, check_user_buffers(dev, address, d), d));
  }
  if (!*io && !(*io = mem_alloc(sizeof **io)))
    return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  **io = (DeviceBuffer){.at = address, .bytes = bytes, .memory = MEMORY_USER};
  return TENON_OK;
}

tenon_status cuda_seen(Device *dev, int64_t bytes, Diag *d, DeviceBuffer **out, void **host) {
  DeviceBuffer *b = mem_alloc(sizeof *b);
  if (!b) return fail(d, TENON_ENOMEM, NOWHERE, "out of memory");
  tenon_status s = cuda_enter(dev, d);
  if (!s) {
    s = cuda_check(
        dev,
        dev->api->host_alloc(host, (size_t)MAX(bytes, 1), CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED),
        "cuMemHostAlloc", NULL, d);
    bool made = !s;
    s = cuda_leave(dev, s, d);
    if (s && made) dev->api->host_free(*host);
  }
  if (s) {
    mem_free(b, sizeof *b);
    return s;
  }
  memset(*host, 0, (size_t)bytes);
  *b = (DeviceBuffer){.at = (CudaAddress)(uintptr_t)*host, .bytes = bytes, .memory = MEMORY_PAGES};
  *out = b;
  return TENON_OK;
}
