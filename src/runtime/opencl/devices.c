// devices.c -- which OpenCL devices there are, and opening them.
//
// They are looked for once in a process.  A device that is not available, has no compiler or
// another byte order is left out.  Without a choice by the environment (TENON_OPENCL_DEVICE) the
// first GPU is taken, else the first device.
//
// A context stays until the process ends: drivers keep in it what every compilation needs, such as
// their library of functions.
#include "runtime/opencl/impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { PLATFORMS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Device device[OPENCL_DEVICES];
static int ndevices;
static bool looked;
static const char *why_none;
static char why_room[OPENCL_TEXT];

void opencl_forget_devices(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < ndevices; i++)
    if (device[i].context) opencl_api(NULL)->ReleaseContext(device[i].context);
  looked = false;
  ndevices = 0;
  pthread_mutex_unlock(&lock);
}

// ---- asking ----

static int64_t info_number(const OpenclApi *cl, cl_device_id id, cl_uint what) {
  uint64_t v = 0;  // of 4 or 8 bytes, or a size_t
  size_t n = 0;
  if (cl->GetDeviceInfo(id, what, sizeof v, &v, &n) || n > sizeof v) return 0;
  return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static void info_text(const OpenclApi *cl, cl_device_id id, cl_uint what, char *out, size_t cap) {
  char room[4096] = "";
  if (cl->GetDeviceInfo(id, what, sizeof room - 1, room, NULL)) room[0] = 0;
  room[sizeof room - 1] = 0;
  snprintf(out, cap, "%.*s", (int)cap - 1, room);
}

static bool has_extension(const OpenclApi *cl, cl_device_id id, const char *name) {
  char room[4096];
  info_text(cl, id, CL_DEVICE_EXTENSIONS, room, sizeof room);
  return strstr(room, name) != NULL;
}

static int lanes_in_step(const OpenclApi *cl, cl_device_id id) {
  int64_t n = info_number(cl, id, CL_DEVICE_WARP_SIZE_NV);
  if (!n) n = info_number(cl, id, CL_DEVICE_WAVEFRONT_WIDTH_AMD);
  return n > 0 && n <= 1024 ? (int)n : 32;
}

static int info_small(const OpenclApi *cl, cl_device_id id, cl_uint what, int least, int most) {
  int64_t n = info_number(cl, id, what);
  return n < least ? least : n > most ? most : (int)n;
}

static void describe(const OpenclApi *cl, Device *v, int platform_number, int number) {
  cl_device_id id = v->id;
  char driver[OPENCL_TEXT / 2 - 8], version[OPENCL_TEXT / 2 - 8];
  bool is_cpu = (info_number(cl, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  info_text(cl, id, CL_DEVICE_NAME, v->name, sizeof v->name);
  info_text(cl, id, CL_DRIVER_VERSION, driver, sizeof driver);
  info_text(cl, id, CL_DEVICE_VERSION, version, sizeof version);
  snprintf(v->version, sizeof v->version, "%s, driver %s", version, driver);
  snprintf(v->pick, sizeof v->pick, "%d:%d", platform_number, number);
  int64_t memory = info_number(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  v->keeps_code = strstr(version, "PoCL") || strstr(version, "pocl");
  v->exact_divide =
      (info_number(cl, id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  v->info = (DeviceInfo){
      .driver = "opencl",
      .name = v->name,
      .version = v->version,
      .pick = v->pick,
      .is_cpu = is_cpu,
      .f64 = info_number(cl, id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0,
      .f16 = has_extension(cl, id, "cl_khr_fp16"),
      .compute_units = info_small(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS, 1, 1 << 16),
      .max_block_threads = info_small(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1, 1 << 16),
      .subgroup = is_cpu ? 1 : lanes_in_step(cl, id),
      .vector_bytes = 4 * info_small(cl, id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 4, 16),
      .memory_bytes = memory,
      .max_buffer = info_number(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
      .shared_bytes = info_number(cl, id, CL_DEVICE_LOCAL_MEM_SIZE)};
}

// ---- looking ----

static bool usable(const OpenclApi *cl, cl_device_id id) {
  return info_number(cl, id, CL_DEVICE_AVAILABLE) && info_number(cl, id, CL_DEVICE_ENDIAN_LITTLE) &&
         info_number(cl, id, CL_DEVICE_COMPILER_AVAILABLE);
}

static void look_at_platform(const OpenclApi *cl, cl_platform_id platform_id, int number) {
  cl_device_id id[OPENCL_DEVICES];
  cl_uint n = 0;
  if (cl->GetDeviceIDs(platform_id, CL_DEVICE_TYPE_ALL, OPENCL_DEVICES, id, &n)) return;
  for (cl_uint i = 0; i < MIN(n, OPENCL_DEVICES) && ndevices < OPENCL_DEVICES; i++) {
    if (!usable(cl, id[i])) continue;
    device[ndevices] = (Device){.platform = platform_id, .id = id[i]};
    describe(cl, &device[ndevices++], number, (int)i);
  }
}

static void look(void) {
  cl_platform_id id[PLATFORMS];
  cl_uint n = 0;
  why_none = NULL;
  looked = true;
  const OpenclApi *cl = opencl_api(&why_none);
  if (!cl) return;
  cl_int code = cl->GetPlatformIDs(PLATFORMS, id, &n);
  if (code && code != CL_PLATFORM_NOT_FOUND) {
    snprintf(why_room, sizeof why_room, "clGetPlatformIDs failed (%d)", (int)code);
    why_none = why_room;
    return;
  }
  for (cl_uint i = 0; i < MIN(n, PLATFORMS); i++) look_at_platform(cl, id[i], (int)i);
  if (!ndevices)
    why_none = n && !code
                   ? "the OpenCL platforms have no device that can be used"
                   : "there is no OpenCL platform: install a driver, such as pocl-opencl-icd";
}

static int count_locked(const char **why) {
  if (!looked) look();
  if (!ndevices && why) *why = why_none;
  return ndevices;
}

static int count(const char **why) {
  pthread_mutex_lock(&lock);
  int n = count_locked(why);
  pthread_mutex_unlock(&lock);
  return n;
}

// ---- choosing ----

static int index_of(const char *pick) {
  for (int i = 0; i < ndevices; i++)
    if (!strcmp(device[i].pick, pick)) return i;
  for (int i = 0; i < ndevices; i++)
    if (strstr(device[i].name, pick)) return i;
  return -1;
}

static int first_gpu(void) {
  for (int i = 0; i < ndevices; i++)
    if (!device[i].info.is_cpu) return i;
  return 0;
}

static tenon_status find(const char *pick, Diag *d, int *out) {
  const char *why = NULL;
  if (!pick) pick = getenv("TENON_OPENCL_DEVICE");
  int n = count(&why);
  if (!n) return fail(d, TENON_EUNSUPPORTED, NOWHERE, "no OpenCL device: %s", why);
  *out = pick && *pick ? index_of(pick) : first_gpu();
  if (*out >= 0) return TENON_OK;
  return fail(d, TENON_EINVAL, NOWHERE,
              "no OpenCL device '%s': give platform:device, or a part of its name (`tenon targets` "
              "lists them)",
              pick);
}

// ---- opening ----

static tenon_status open_locked(int index, Diag *d) {
  const char *why = NULL;
  int n = count_locked(&why);
  if (index < 0 || index >= n)
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "no OpenCL device %d%s%s", index, why ? ": " : "",
                why ? why : "");
  Device *v = &device[index];
  cl_int code = 0;
  if (!v->context) v->context = opencl_api(NULL)->CreateContext(NULL, 1, &v->id, NULL, NULL, &code);
  return v->context ? TENON_OK : opencl_fail(d, "clCreateContext", code);
}

static tenon_status open_device(int index, Diag *d, Device **out) {
  pthread_mutex_lock(&lock);
  tenon_status s = open_locked(index, d);
  *out = s ? NULL : &device[index];
  pthread_mutex_unlock(&lock);
  return s;
}

static void close_device(Device *v) { (void)v; }

static const DeviceInfo *info(const Device *v) { return &v->info; }

const DeviceDriver opencl_driver = {.name = "opencl",
                                    .count = count,
                                    .find = find,
                                    .open = open_device,
                                    .close = close_device,
                                    .info = info,
                                    .buffer = opencl_buffer,
                                    .buffer_free = opencl_buffer_free,
                                    .code = opencl_code,
                                    .code_free = opencl_code_free,
                                    .queue = opencl_queue,
                                    .queue_free = opencl_queue_free,
                                    .write = opencl_write,
                                    .read = opencl_read,
                                    .copy = opencl_copy,
                                    .fill = opencl_fill,
                                    .launch = opencl_launch,
                                    .finish = opencl_finish,
                                    .mark = opencl_mark,
                                    .between = opencl_between};
