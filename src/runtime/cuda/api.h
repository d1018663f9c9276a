// api.h -- the few entry points of NVIDIA's driver and of its run-time compiler that Tenon uses, as
// a table.
//
// No header of CUDA is needed: types and numbers are declared here as the libraries' interfaces fix
// them.  Everything is called through the table, which is filled when first asked for, so that a
// test can put one of its own in place.  A function that older libraries lack is NULL where `may`
// says so.
#ifndef TENON_RUNTIME_CUDA_API_H
#define TENON_RUNTIME_CUDA_API_H

#include "base/base.h"

typedef int CudaResult;  // 0 is success
typedef int CudaDevice;
typedef uint64_t CudaAddress;
typedef struct CUctx_st *CudaContext;
typedef struct CUstream_st *CudaStream;
typedef struct CUevent_st *CudaEvent;
typedef struct CUmod_st *CudaModule;
typedef struct CUfunc_st *CudaFunction;
typedef struct CUgraph_st *CudaGraph;
typedef struct CUgraphExec_st *CudaGraphExec;
typedef struct CUgraphNode_st *CudaNode;
typedef int NvrtcResult;
typedef struct _nvrtcProgram *NvrtcProgram;

enum {
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_READY = 600,
};
// Of an address: what kind of memory it is, and whose.
enum { CUDA_POINTER_TYPE = 2, CUDA_POINTER_DEVICE = 9 };
enum { CUDA_MEMORY_DEVICE = 2 };
enum {
  CUDA_ATTR_MAX_THREADS = 1,
  CUDA_ATTR_SHARED_BYTES = 8,
  CUDA_ATTR_WARP = 10,
  CUDA_ATTR_CLOCK = 13,  // kHz
  CUDA_ATTR_MULTIPROCESSORS = 16,
  CUDA_ATTR_MEMORY_CLOCK = 36,  // kHz, of which both edges carry data
  CUDA_ATTR_MEMORY_BITS = 37,
  CUDA_ATTR_L2_BYTES = 38,
  CUDA_ATTR_MAJOR = 75,
  CUDA_ATTR_MINOR = 76,
  CUDA_ATTR_SHARED_OPTIN = 97,
};
enum { CUDA_FUNC_MAX_SHARED = 8, CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2 };
enum { CUDA_CAPTURE_THREAD = 1 };
enum { CUDA_CAPTURE_ACTIVE = 1 };  // status of a stream
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_MAPPED = 2 };

// A node of a graph that is launched already, with other arguments.
typedef struct CudaKernelNode {
  CudaFunction function;
  unsigned grid[3], block[3], shared_bytes;
  void **args, **extra;
  void *kernel;
  CudaContext context;
} CudaKernelNode;
typedef struct CudaCopySide {
  size_t x, y, z, level;
  int type;
  const void *host;
  CudaAddress device;
  void *array, *reserved;
  size_t pitch, height;
} CudaCopySide;
typedef struct CudaCopyNode {
  CudaCopySide from, to;
  size_t width, height, depth;
} CudaCopyNode;

// What goes with a launch: a cluster of blocks, and leave to begin before the launch before it has
// ended.
enum { CUDA_LAUNCH_CLUSTER = 4, CUDA_LAUNCH_SERIAL = 6 };
typedef struct CudaLaunchAttr {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int serial;
  } value;
} CudaLaunchAttr;
typedef struct CudaLaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  CudaStream stream;
  CudaLaunchAttr *attr;
  unsigned nattrs;
} CudaLaunchConfig;

// A tensor map: the description of a tensor for TMA.
typedef struct CudaTensorMap {
  _Alignas(64) uint64_t word[16];
} CudaTensorMap;
enum {
  CUDA_MAP_U8 = 0,  // bytes of any meaning
  CUDA_MAP_F16 = 6,
  CUDA_MAP_F32 = 7,
  CUDA_MAP_BF16 = 9,
  CUDA_MAP_TF32 = 11
};
enum { CUDA_SWIZZLE_NONE = 0, CUDA_SWIZZLE_64 = 2, CUDA_SWIZZLE_128 = 3 };
enum { CUDA_MAP_RANK = 5 };

// F(result, name in the table, name in the library, may be absent, parameters)
#define CUDA_DRIVER_API(F)                                                                         \
  F(CudaResult, init, "cuInit", false, (unsigned flags))                                           \
  F(CudaResult, driver_version, "cuDriverGetVersion", false, (int *out))                           \
  F(CudaResult, error_name, "cuGetErrorName", false, (CudaResult, const char **out))               \
  F(CudaResult, error_text, "cuGetErrorString", false, (CudaResult, const char **out))             \
  F(CudaResult, device_count, "cuDeviceGetCount", false, (int *out))                               \
  F(CudaResult, device_get, "cuDeviceGet", false, (CudaDevice * out, int index))                   \
  F(CudaResult, device_name, "cuDeviceGetName", false, (char *out, int cap, CudaDevice))           \
  F(CudaResult, device_attr, "cuDeviceGetAttribute", false, (int *out, int attr, CudaDevice))      \
  F(CudaResult, device_memory, "cuDeviceTotalMem_v2", false, (size_t * out, CudaDevice))           \
  F(CudaResult, ctx_retain, "cuDevicePrimaryCtxRetain", false, (CudaContext * out, CudaDevice))    \
  F(CudaResult, ctx_release, "cuDevicePrimaryCtxRelease_v2", false, (CudaDevice))                  \
  F(CudaResult, ctx_push, "cuCtxPushCurrent_v2", false, (CudaContext))                             \
  F(CudaResult, ctx_pop, "cuCtxPopCurrent_v2", false, (CudaContext * out))                         \
  F(CudaResult, mem_alloc, "cuMemAlloc_v2", false, (CudaAddress * out, size_t bytes))              \
  F(CudaResult, mem_free, "cuMemFree_v2", false, (CudaAddress))                                    \
  F(CudaResult, host_alloc, "cuMemHostAlloc", false, (void **out, size_t bytes, unsigned flags))   \
  F(CudaResult, host_free, "cuMemFreeHost", false, (void *))                                       \
  F(CudaResult, to_device, "cuMemcpyHtoDAsync_v2", false,                                          \
    (CudaAddress to, const void *from, size_t bytes, CudaStream))                                  \
  F(CudaResult, to_host, "cuMemcpyDtoHAsync_v2", false,                                            \
    (void *to, CudaAddress from, size_t bytes, CudaStream))                                        \
  F(CudaResult, on_device, "cuMemcpyDtoDAsync_v2", false,                                          \
    (CudaAddress to, CudaAddress from, size_t bytes, CudaStream))                                  \
  F(CudaResult, mem_set, "cuMemsetD8Async", false,                                                 \
    (CudaAddress to, unsigned char value, size_t bytes, CudaStream))                               \
  F(CudaResult, stream_create, "cuStreamCreate", false, (CudaStream * out, unsigned flags))        \
  F(CudaResult, stream_destroy, "cuStreamDestroy_v2", false, (CudaStream))                         \
  F(CudaResult, stream_wait, "cuStreamSynchronize", false, (CudaStream))                           \
  F(CudaResult, stream_after, "cuStreamWaitEvent", false, (CudaStream, CudaEvent, unsigned flags)) \
  F(CudaResult, pointer_about, "cuPointerGetAttributes", false,                                    \
    (unsigned n, int *attributes, void **out, CudaAddress))                                        \
  F(CudaResult, capture_info, "cuStreamGetCaptureInfo_v3", true,                                   \
    (CudaStream, int *status, uint64_t *id, CudaGraph *graph, const CudaNode **last,               \
     const void **edges, size_t *n))                                                               \
  F(CudaResult, is_capturing, "cuStreamIsCapturing", true, (CudaStream, int *status))              \
  F(CudaResult, kernel_set, "cuGraphExecKernelNodeSetParams_v2", true,                             \
    (CudaGraphExec, CudaNode, const CudaKernelNode *))                                             \
  F(CudaResult, copy_set, "cuGraphExecMemcpyNodeSetParams", true,                                  \
    (CudaGraphExec, CudaNode, const CudaCopyNode *, CudaContext))                                  \
  F(CudaResult, capture_begin, "cuStreamBeginCapture_v2", false, (CudaStream, int mode))           \
  F(CudaResult, capture_end, "cuStreamEndCapture", false, (CudaStream, CudaGraph * out))           \
  F(CudaResult, graph_make, "cuGraphInstantiateWithFlags", false,                                  \
    (CudaGraphExec * out, CudaGraph, unsigned long long flags))                                    \
  F(CudaResult, graph_launch, "cuGraphLaunch", false, (CudaGraphExec, CudaStream))                 \
  F(CudaResult, graph_destroy, "cuGraphDestroy", false, (CudaGraph))                               \
  F(CudaResult, graph_exec_destroy, "cuGraphExecDestroy", false, (CudaGraphExec))                  \
  F(CudaResult, event_create, "cuEventCreate", false, (CudaEvent * out, unsigned flags))           \
  F(CudaResult, event_destroy, "cuEventDestroy_v2", false, (CudaEvent))                            \
  F(CudaResult, event_record, "cuEventRecord", false, (CudaEvent, CudaStream))                     \
  F(CudaResult, event_wait, "cuEventSynchronize", false, (CudaEvent))                              \
  F(CudaResult, event_between, "cuEventElapsedTime", false,                                        \
    (float *ms, CudaEvent from, CudaEvent to))                                                     \
  F(CudaResult, module_load, "cuModuleLoadData", false, (CudaModule * out, const void *image))     \
  F(CudaResult, module_unload, "cuModuleUnload", false, (CudaModule))                              \
  F(CudaResult, module_function, "cuModuleGetFunction", false,                                     \
    (CudaFunction * out, CudaModule, const char *name))                                            \
  F(CudaResult, function_set, "cuFuncSetAttribute", false, (CudaFunction, int attr, int value))    \
  F(CudaResult, launch, "cuLaunchKernelEx", false,                                                 \
    (const CudaLaunchConfig *, CudaFunction, void **args, void **extra))                           \
  F(CudaResult, tensor_map, "cuTensorMapEncodeTiled", true,                                        \
    (CudaTensorMap * out, int type, uint32_t rank, void *at, const uint64_t *dims,                 \
     const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,          \
     int swizzle, int promotion, int fill))                                                        \
  F(CudaResult, window_map, "cuTensorMapEncodeIm2col", true,                                       \
    (CudaTensorMap * out, int type, uint32_t rank, void *at, const uint64_t *dims,                 \
     const uint64_t *strides, const int *before, const int *after, uint32_t channels,              \
     uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion,           \
     int fill))

#define CUDA_NVRTC_API(F)                                                                          \
  F(const char *, rtc_error, "nvrtcGetErrorString", false, (NvrtcResult))                          \
  F(NvrtcResult, rtc_version, "nvrtcVersion", false, (int *major, int *minor))                     \
  F(NvrtcResult, rtc_arch_count, "nvrtcGetNumSupportedArchs", false, (int *out))                   \
  F(NvrtcResult, rtc_archs, "nvrtcGetSupportedArchs", false, (int *out))                           \
  F(NvrtcResult, rtc_create, "nvrtcCreateProgram", false,                                          \
    (NvrtcProgram * out, const char *text, const char *name, int nheaders,                         \
     const char *const *headers, const char *const *names))                                        \
  F(NvrtcResult, rtc_destroy, "nvrtcDestroyProgram", false, (NvrtcProgram *))                      \
  F(NvrtcResult, rtc_compile, "nvrtcCompileProgram", false,                                        \
    (NvrtcProgram, int noptions, const char *const *options))                                      \
  F(NvrtcResult, rtc_log_size, "nvrtcGetProgramLogSize", false, (NvrtcProgram, size_t * out))      \
  F(NvrtcResult, rtc_log, "nvrtcGetProgramLog", false, (NvrtcProgram, char *out))                  \
  F(NvrtcResult, rtc_cubin_size, "nvrtcGetCUBINSize", false, (NvrtcProgram, size_t * out))         \
  F(NvrtcResult, rtc_cubin, "nvrtcGetCUBIN", false, (NvrtcProgram, char *out))                     \
  F(NvrtcResult, rtc_ptx_size, "nvrtcGetPTXSize", false, (NvrtcProgram, size_t * out))             \
  F(NvrtcResult, rtc_ptx, "nvrtcGetPTX", false, (NvrtcProgram, char *out))

typedef struct CudaApi {
#define F(result, name, symbol, may, parameters) result(*name) parameters;
  CUDA_DRIVER_API(F) CUDA_NVRTC_API(F)
#undef F
} CudaApi;

// The driver, NULL and a reason where there is none.
const CudaApi *cuda_api(const char **why);
// The same with the compiler.  TENON_NVRTC may name its library.
const CudaApi *cuda_api_compiler(const char **why);
// Puts a table in place of the libraries', for tests; NULL takes it away again.  Nothing may be
// open.
void cuda_api_replace(const CudaApi *api);

#endif
