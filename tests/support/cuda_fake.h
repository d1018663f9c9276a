// cuda_fake.h -- a CUDA driver and compiler that need no GPU: memory is the host's, streams do
// everything at once.
//
// Every call is counted, and one of them can be made to fail.  An error that ends a context stays:
// all later calls have it, as with the real driver.  What is made and not given back again is
// counted by kind.
#ifndef TENON_TESTS_SUPPORT_CUDA_FAKE_H
#define TENON_TESTS_SUPPORT_CUDA_FAKE_H

#include "runtime/cuda/api.h"

// Texts are compiled by several threads at once: all that they change is atomic.
typedef struct CudaFake {
  _Atomic int64_t calls;      // so far
  int64_t fail_at;            // this call fails, counted from 1; 0: none
  CudaResult code;            // with this error
  CudaResult (*fails)(void);  // asked instead, where it is set: the error of this call
  _Atomic bool failed;        // it did
  _Atomic CudaResult sticky;  // what every call returns from now on
  _Atomic int contexts, pushed, buffers, pages, streams, events, modules, graphs, execs, programs;
  int64_t device_bytes, peak_bytes, limit_bytes;  // limit 0: none
  int64_t launches, replays;
  char option[64];  // the first one that the compiler was given last
  int64_t updates, waits,
      orders;         // nodes changed; streams waited for; events that streams wait for
  int32_t fault;      // that kernels tell
  CudaStream stream;  // that did something last
  CudaAddress other_device, host_address;  // what is said to be another's
} CudaFake;

extern CudaFake cuda_fake;
extern const CudaApi cuda_fake_api;
void cuda_fake_reset(void);
// From here to the end the driver uses the fake library, without a cache.
void cuda_fake_begin(void);
void cuda_fake_end(void);
enum { CUDA_FAKE_CODES = 12 };
extern const CudaResult cuda_fake_codes[CUDA_FAKE_CODES];  // errors, of which three end the context
int cuda_fake_left(void);                                  // objects that were not given back

// What a fake kernel does is the first line of its text that begins with `//fake `:
//   add      out[i] = a[i] + b[i], f32, for items 0..
//   nothing  all else
#define CUDA_FAKE_ADD "//fake add\n"

#endif
