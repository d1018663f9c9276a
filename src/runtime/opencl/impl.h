// impl.h -- what the files of the OpenCL driver share.
#ifndef TENON_RUNTIME_OPENCL_IMPL_H
#define TENON_RUNTIME_OPENCL_IMPL_H

#include "base/platform.h"
#include "runtime/opencl/api.h"
#include "runtime/opencl/opencl.h"

#include <pthread.h>

enum { OPENCL_DEVICES = 16, OPENCL_TEXT = 256 };

struct Device {
  cl_platform_id platform;
  cl_device_id id;
  cl_context context;  // since it was first opened
  DeviceInfo info;
  bool exact_divide;  // can round divisions and roots correctly
  bool keeps_code;    // has a cache of its own
  char name[OPENCL_TEXT], version[OPENCL_TEXT], pick[32];
};
struct DeviceBuffer {
  cl_mem mem;
  int64_t bytes;
};
struct DeviceCode {
  cl_kernel *kernel;
  int32_t nkernels;
  pthread_mutex_t lock;  // arguments are set and launched by one thread at a time
};
struct DeviceQueue {
  Device *device;
  cl_command_queue queue;
  cl_event mark[DEVICE_MARKS];
};

// ---- library.c ----
// The table that calls go to; NULL: there is none, and why.
const OpenclApi *opencl_api(const char **why);
// What failed, in words: "clFinish: CL_OUT_OF_RESOURCES (-5)".
tenon_status opencl_fail(Diag *d, const char *call, cl_int code);
// A call that returns its status.
#define CL_TRY(d, name, ...)                                                                       \
  do {                                                                                             \
    cl_int code_ = opencl_api(NULL)->name(__VA_ARGS__);                                            \
    if (code_) return opencl_fail(d, "cl" #name, code_);                                           \
  } while (0)

void opencl_forget_devices(
    void);  // devices.c: their contexts are freed, and they are looked for anew

// ---- code.c ----
tenon_status opencl_code(Device *dev, Str source, const ProgKernel *const *kernel, int32_t nkernels,
                         bool no_cache, Diag *d, DeviceCode **out);
void opencl_code_free(Device *dev, DeviceCode *c);

// ---- queue.c ----
tenon_status opencl_buffer(Device *dev, int64_t bytes, Diag *d, DeviceBuffer **out);
void opencl_buffer_free(Device *dev, DeviceBuffer *b);
tenon_status opencl_queue(Device *dev, Diag *d, DeviceQueue **out);
void opencl_queue_free(DeviceQueue *q);
tenon_status opencl_write(DeviceQueue *q, DevicePlace to, const void *from, int64_t bytes, Diag *d);
tenon_status opencl_read(DeviceQueue *q, void *to, DevicePlace from, int64_t bytes, Diag *d);
tenon_status opencl_copy(DeviceQueue *q, DevicePlace to, DevicePlace from, int64_t bytes, Diag *d);
tenon_status opencl_fill(DeviceQueue *q, DevicePlace to, int64_t bytes, Diag *d);
tenon_status opencl_launch(DeviceQueue *q, DeviceCode *c, const DeviceLaunch *l, Diag *d);
tenon_status opencl_finish(DeviceQueue *q, Diag *d);
tenon_status opencl_mark(DeviceQueue *q, int32_t slot, Diag *d);
tenon_status opencl_between(DeviceQueue *q, int32_t from, int32_t to, double *ns, Diag *d);

#endif
