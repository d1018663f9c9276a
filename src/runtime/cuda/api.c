// api.c -- finding NVIDIA's libraries, once for each process.
//
// The libraries stay loaded: a driver that was started cannot be stopped.
#include "runtime/cuda/api.h"

#include "base/process.h"

#include <pthread.h>
#include <stdlib.h>

typedef enum { UNTRIED, ABSENT, LOADED } Loading;
static struct {
  pthread_mutex_t lock;
  Loading driver, compiler;
  const char *no_driver, *no_compiler;
  CudaApi api;
  const CudaApi *instead;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *first_of(const char *const *names, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    void *library = names[i] && *names[i] ? library_open(names[i]) : NULL;
    if (library) return library;
  }
  return NULL;
}

// ISO C has no cast from an object's address to a function's.
static bool find(void *library, const char *name, bool may, void *out, size_t bytes) {
  void *entry = library_symbol(library, name);
  memcpy(out, &entry, bytes);
  return entry || may;
}

static const char *load_driver(CudaApi *a) {
  static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
  void *library = first_of(names, ARRAY_LEN(names));
  if (!library) return "there is no libcuda.so.1: NVIDIA's driver is not installed";
#define F(result, name, symbol, may, parameters)                                                   \
  if (!find(library, symbol, may, &a->name, sizeof a->name))                                       \
    return "libcuda.so.1 has no " symbol ": NVIDIA's driver is too old";
  CUDA_DRIVER_API(F)
#undef F
  return a->init(0) ? "cuInit fails: there is no NVIDIA GPU, or its driver does not run" : NULL;
}

static const char *load_compiler(CudaApi *a) {
  const char *const names[] = {getenv("TENON_NVRTC"),
                               "libnvrtc.so.13",
                               "libnvrtc.so.12",
                               "libnvrtc.so",
                               "/usr/local/cuda/lib64/libnvrtc.so",
                               "/usr/local/cuda/lib64/libnvrtc.so.13",
                               "/usr/local/cuda/lib64/libnvrtc.so.12"};
  void *library = first_of(names, ARRAY_LEN(names));
  if (!library)
    return "there is no libnvrtc.so.13 or .12: install CUDA's run-time compiler, or name its "
           "library in TENON_NVRTC";
#define F(result, name, symbol, may, parameters)                                                   \
  if (!find(library, symbol, may, &a->name, sizeof a->name))                                       \
    return "libnvrtc has no " symbol ": it is too old";
  CUDA_NVRTC_API(F)
#undef F
  return NULL;
}

static const CudaApi *get(bool compiler, const char **why) {
  const char *reason;
  pthread_mutex_lock(&state.lock);
  const CudaApi *api = state.instead;
  if (!api) {
    Loading *done = compiler ? &state.compiler : &state.driver;
    const char **no = compiler ? &state.no_compiler : &state.no_driver;
    if (*done == UNTRIED) {
      *no = compiler ? load_compiler(&state.api) : load_driver(&state.api);
      *done = *no ? ABSENT : LOADED;
    }
    reason = *no;
    api = *done == LOADED ? &state.api : NULL;
    if (why) *why = reason;
  }
  pthread_mutex_unlock(&state.lock);
  return api;
}

const CudaApi *cuda_api(const char **why) { return get(false, why); }
const CudaApi *cuda_api_compiler(const char **why) { return get(true, why); }

void cuda_api_replace(const CudaApi *api) {
  pthread_mutex_lock(&state.lock);
  state.instead = api;
  pthread_mutex_unlock(&state.lock);
}
