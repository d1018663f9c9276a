// device.h -- what the runtime asks of a machine that is not the host: memory, copies, code,
// launches, and time.
//
// A driver is a row of functions (opencl/, cuda/); it loads its library when first asked, and
// without one says why not.  A device is opened once for each process and shared by all programs
// and sessions, which count it.  A queue is one session's: what is put into it happens in that
// order.  Buffers may be used by every queue of their device.
//
// Errors.  Every function that can fail says so by its status and a message that names the call,
// and for a launch the kernel.  After a failure the queue is in an unknown state: the session makes
// a new one, and returns nothing that was read.  What is freed need not be idle: a driver waits, or
// leaves it to its library, until nothing uses it any more.
#ifndef TENON_RUNTIME_DEVICE_H
#define TENON_RUNTIME_DEVICE_H

#include "runtime/program.h"

typedef struct Device Device;  // each driver's own, as the rest
typedef struct DeviceQueue DeviceQueue;
typedef struct DeviceBuffer DeviceBuffer;
typedef struct DeviceCode DeviceCode;    // the kernels of one program
typedef struct DeviceGraph DeviceGraph;  // a recorded sequence, launched as one

typedef struct DeviceInfo {
  const char *driver;   // "opencl"
  const char *name;     // "NVIDIA H200"
  const char *version;  // of the driver: part of what cached code is found by
  const char *pick;     // what `find` takes for it: "0:1"
  bool is_cpu;          // shares the host's cores: an item does the work of a thread, not of a lane
  bool f64, f16;
  int compute_units, max_block_threads, subgroup;  // lanes that run in step; 1 on CPUs
  int vector_bytes;                                // is_cpu: of its widest vectors
  int64_t memory_bytes, max_buffer, shared_bytes;  // the last: of a group
  int arch;                                        // cuda: 90 for 9.0
  // For rooflines; 0: the driver does not say.  Bytes of memory a second at most.
  double clock_hz, memory_rate;
  int64_t l2_bytes;
} DeviceInfo;

typedef struct DevicePlace {
  DeviceBuffer *buffer;
  int64_t offset;  // bytes; a multiple of 64 but for parts of values
} DevicePlace;

typedef struct DeviceLaunch {
  const ProgKernel *kernel;
  int32_t number;  // of the kernel in its code
  int32_t nargs, ndims;
  const DevicePlace *arg;
  const int64_t *dims;
  int64_t items;        // at least 1
  DevicePlace scratch;  // kernel->scratch_bytes, rounded up to 64, for each of `slots`; no buffer
                        // where it needs none
  int64_t
      slots;  // so many items may run at once, each with scratch of its own; the kernel goes round
  DevicePlace fault;  // an int32: 0, or what the first check that failed said (1 + its number)
} DeviceLaunch;

typedef struct DeviceDriver {
  const char *name;
  // The devices that are there; 0 and a reason when there are none (no library, no platform, ...).
  int (*count)(const char **why);
  // The device of that name ("platform:device", or a part of its name); NULL: what the environment
  // says, else the driver's choice.
  tenon_status (*find)(const char *pick, Diag *d, int *out);
  tenon_status (*open)(int index, Diag *d, Device **out);  // the same device each time; counted
  void (*close)(Device *);
  const DeviceInfo *(*info)(const Device *);
  tenon_status (*buffer)(Device *, int64_t bytes, Diag *d, DeviceBuffer **out);
  void (*buffer_free)(Device *, DeviceBuffer *);
  // Source or binary, as the target made it; built code is kept in the cache by the hash of all
  // that it depends on.  `kernel` are those of this device alone, in the order of ProgKernel.entry.
  tenon_status (*code)(Device *, Str bytes, const ProgKernel *const *kernel, int32_t nkernels,
                       bool no_cache, Diag *d, DeviceCode **out);
  void (*code_free)(Device *, DeviceCode *);
  tenon_status (*queue)(Device *, Diag *d, DeviceQueue **out);
  void (*queue_free)(DeviceQueue *);
  // `from` is the caller's again on return.
  tenon_status (*write)(DeviceQueue *, DevicePlace to, const void *from, int64_t bytes, Diag *d);
  // Waits: all before it has happened.
  tenon_status (*read)(DeviceQueue *, void *to, DevicePlace from, int64_t bytes, Diag *d);
  tenon_status (*copy)(DeviceQueue *, DevicePlace to, DevicePlace from, int64_t bytes, Diag *d);
  tenon_status (*fill)(DeviceQueue *, DevicePlace to, int64_t bytes, Diag *d);  // with zeros
  tenon_status (*launch)(DeviceQueue *, DeviceCode *, const DeviceLaunch *, Diag *d);
  tenon_status (*finish)(DeviceQueue *, Diag *d);
  // ---- the caller's memory and streams; all NULL where a driver has none ---- Makes *io, NULL at
  // first, stand for `bytes` bytes of the caller's at `at`, which must be this device's; freed as a
  // buffer, the memory is not.
  tenon_status (*lend)(Device *, void *at, int64_t bytes, Diag *d, DeviceBuffer **io);
  void *(*address)(const DeviceBuffer *);
  // What is put from now on goes into that stream of the caller's, NULL: into the queue's own,
  // after all that was put before; and is issued.  A stream is not used any more once another is
  // named: the caller may then destroy it.
  tenon_status (*use)(DeviceQueue *, void *stream, Diag *d);
  void *(*stream)(const DeviceQueue *);  // its own, as another's caller
  // A buffer that the host sees as well: what a kernel writes is there when the queue is finished.
  tenon_status (*seen)(Device *, int64_t bytes, Diag *d, DeviceBuffer **out, void **host);
  // Time between two marks of a queue that is finished, for profiles; may be NULL.
  tenon_status (*mark)(DeviceQueue *, int32_t slot, Diag *d);
  tenon_status (*between)(DeviceQueue *, int32_t from, int32_t to, double *ns, Diag *d);
  // Recording: what is put in between is not done but kept; may be NULL.
  tenon_status (*record)(DeviceQueue *, Diag *d);
  tenon_status (*recorded)(DeviceQueue *, Diag *d, DeviceGraph **out);
  tenon_status (*replay)(DeviceQueue *, DeviceGraph *, Diag *d);
  void (*graph_free)(Device *, DeviceGraph *);
} DeviceDriver;
enum { DEVICE_MARKS = 2 };  // slots of marks

extern const DeviceDriver *const device_drivers[];    // NULL-terminated
const DeviceDriver *device_driver(const char *name);  // NULL when there is none

// Lets sessions of the program run steps on its devices.  Whoever makes or loads a program with
// devices calls it.
void program_use_devices(Program *p);

#endif
