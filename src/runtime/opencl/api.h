// api.h -- the entry points of OpenCL 1.2 that are used, declared here, so that no header is needed
// to build.
//
// All calls go through one table: the system's library fills it, or a test.
#ifndef TENON_RUNTIME_OPENCL_API_H
#define TENON_RUNTIME_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong, cl_bits;
typedef struct ClPlatform *cl_platform_id;
typedef struct ClDevice *cl_device_id;
typedef struct ClContext *cl_context;
typedef struct ClQueue *cl_command_queue;
typedef struct ClMem *cl_mem;
typedef struct ClProgram *cl_program;
typedef struct ClKernel *cl_kernel;
typedef struct ClEvent *cl_event;
typedef void ClContextNotify(const char *, const void *, size_t, void *);
typedef void ClBuildNotify(cl_program, void *);

enum {
  CL_SUCCESS = 0,
  CL_DEVICE_NOT_FOUND = -1,
  CL_DEVICE_NOT_AVAILABLE = -2,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_INVALID_VALUE = -30,
  CL_INVALID_BUFFER_SIZE = -61,
  CL_PLATFORM_NOT_FOUND = -1001,
};
enum {
  CL_FALSE = 0,
  CL_TRUE = 1,
  CL_PLATFORM_VERSION = 0x0901,
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_ENDIAN_LITTLE = 0x1026,
  CL_DEVICE_AVAILABLE = 0x1027,
  CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
  CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103A,
  CL_DEVICE_WARP_SIZE_NV = 0x4003,
  CL_DEVICE_WAVEFRONT_WIDTH_AMD = 0x4043,
  CL_DEVICE_TYPE_CPU = 1 << 1,
  CL_DEVICE_TYPE_GPU = 1 << 2,
  CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
  CL_QUEUE_PROFILING_ENABLE = 1 << 1,
  CL_MEM_READ_WRITE = 1 << 0,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_PROFILING_COMMAND_END = 0x1283,
};
static const cl_bits CL_DEVICE_TYPE_ALL = 0xFFFFFFFF;

// CALL(result, name, parameters)
#define OPENCL_CALLS(CALL)                                                                         \
  CALL(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                             \
  CALL(cl_int, GetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))               \
  CALL(cl_int, GetDeviceIDs, (cl_platform_id, cl_bits, cl_uint, cl_device_id *, cl_uint *))        \
  CALL(cl_int, GetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                   \
  CALL(cl_context, CreateContext,                                                                  \
       (const intptr_t *, cl_uint, const cl_device_id *, ClContextNotify *, void *, cl_int *))     \
  CALL(cl_int, ReleaseContext, (cl_context))                                                       \
  CALL(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_bits, cl_int *))        \
  CALL(cl_int, ReleaseCommandQueue, (cl_command_queue))                                            \
  CALL(cl_mem, CreateBuffer, (cl_context, cl_bits, size_t, void *, cl_int *))                      \
  CALL(cl_int, ReleaseMemObject, (cl_mem))                                                         \
  CALL(cl_program, CreateProgramWithSource,                                                        \
       (cl_context, cl_uint, const char **, const size_t *, cl_int *))                             \
  CALL(cl_program, CreateProgramWithBinary,                                                        \
       (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **,         \
        cl_int *, cl_int *))                                                                       \
  CALL(cl_int, BuildProgram,                                                                       \
       (cl_program, cl_uint, const cl_device_id *, const char *, ClBuildNotify *, void *))         \
  CALL(cl_int, GetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                    \
  CALL(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *)) \
  CALL(cl_int, ReleaseProgram, (cl_program))                                                       \
  CALL(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *))                              \
  CALL(cl_int, ReleaseKernel, (cl_kernel))                                                         \
  CALL(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                           \
  CALL(cl_int, EnqueueNDRangeKernel,                                                               \
       (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,      \
        cl_uint, const cl_event *, cl_event *))                                                    \
  CALL(cl_int, EnqueueReadBuffer,                                                                  \
       (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const cl_event *,      \
        cl_event *))                                                                               \
  CALL(cl_int, EnqueueWriteBuffer,                                                                 \
       (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint,                  \
        const cl_event *, cl_event *))                                                             \
  CALL(cl_int, EnqueueCopyBuffer,                                                                  \
       (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *,       \
        cl_event *))                                                                               \
  CALL(cl_int, EnqueueFillBuffer,                                                                  \
       (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, \
        cl_event *))                                                                               \
  CALL(cl_int, EnqueueMarkerWithWaitList,                                                          \
       (cl_command_queue, cl_uint, const cl_event *, cl_event *))                                  \
  CALL(cl_int, GetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))               \
  CALL(cl_int, ReleaseEvent, (cl_event))                                                           \
  CALL(cl_int, Flush, (cl_command_queue))                                                          \
  CALL(cl_int, Finish, (cl_command_queue))

typedef struct OpenclApi {
#define CALL(result, name, parameters) result(*name) parameters;
  OPENCL_CALLS(CALL)
#undef CALL
} OpenclApi;

#endif
