// library.c -- the system's OpenCL library, and its errors in words.
//
// The library stays loaded until the process ends, as drivers want it.
#include "base/process.h"
#include "runtime/opencl/impl.h"

#include <stdlib.h>

static const OpenclApi *instead;  // of the library: a test's
static OpenclApi library;
static const char *missing;  // why there is none; NULL: there is one
static pthread_once_t once = PTHREAD_ONCE_INIT;

void opencl_use(const OpenclApi *api) {
  opencl_forget_devices();
  instead = api;
}

static void load(void) {
  const char *name = getenv("TENON_OPENCL");
  void *l = library_open(name && *name ? name : "libOpenCL.so.1");
  if (!l) {
    missing = "libOpenCL.so.1 is not there: install an OpenCL loader, such as ocl-icd-libopencl1, "
              "and a driver";
    return;
  }
#define CALL(result, entry, parameters)                                                            \
  {                                                                                                \
    void *f = library_symbol(l, "cl" #entry);                                                      \
    if (!f) missing = "the OpenCL library lacks cl" #entry ": it is older than 1.2";               \
    memcpy(&library.entry, &f, sizeof f);                                                          \
  }
  OPENCL_CALLS(CALL)
#undef CALL
}

const OpenclApi *opencl_api(const char **why) {
  if (instead) return instead;
  pthread_once(&once, load);
  if (missing && why) *why = missing;
  return missing ? NULL : &library;
}

typedef struct Name {
  cl_int code;
  const char *name;
} Name;
static const Name names[] = {
    {-1, "CL_DEVICE_NOT_FOUND"},
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
    {-8, "CL_MEM_COPY_OVERLAP"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {-30, "CL_INVALID_VALUE"},
    {-33, "CL_INVALID_DEVICE"},
    {-34, "CL_INVALID_CONTEXT"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-42, "CL_INVALID_BINARY"},
    {-43, "CL_INVALID_BUILD_OPTIONS"},
    {-44, "CL_INVALID_PROGRAM"},
    {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
    {-46, "CL_INVALID_KERNEL_NAME"},
    {-48, "CL_INVALID_KERNEL"},
    {-49, "CL_INVALID_ARG_INDEX"},
    {-50, "CL_INVALID_ARG_VALUE"},
    {-51, "CL_INVALID_ARG_SIZE"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"},
    {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-58, "CL_INVALID_EVENT"},
    {-59, "CL_INVALID_OPERATION"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
};

tenon_status opencl_fail(Diag *d, const char *call, cl_int code) {
  const char *name = "an unknown error";
  for (int64_t i = 0; i < ARRAY_LEN(names); i++)
    if (names[i].code == code) name = names[i].name;
  bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
                code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
  return fail(d, memory ? TENON_ENOMEM : TENON_EDEVICE, NOWHERE, "OpenCL: %s failed: %s (%d)", call,
              name, (int)code);
}
