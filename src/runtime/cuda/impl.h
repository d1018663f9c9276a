// impl.h -- what the files of the CUDA driver share.
#ifndef TENON_RUNTIME_CUDA_IMPL_H
#define TENON_RUNTIME_CUDA_IMPL_H

#include "runtime/cuda/api.h"
#include "runtime/cuda/cuda.h"
#include "runtime/device.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum { MEMORY_OWN, MEMORY_USER, MEMORY_PAGES } CudaMemory;
struct DeviceBuffer {
  CudaAddress at;
  int64_t bytes;       // allocated, or of a user-provided buffer
  CudaMemory memory;   // allocated on the device; the caller's; the host's, which the device sees
  DeviceBuffer *next;  // while it is kept for the next who wants one
};

struct Device {
  const CudaApi *api;
  CudaDevice handle;
  CudaContext context;
  int users;
  DeviceInfo info;
  bool older;  // it stands in for an older chip, whose code the driver translates
  char name[128], version[48], pick[16];
  atomic_bool lost;  // an error that every later call would have, too
  // What follows is guarded by `lock`.
  pthread_mutex_t lock;
  DeviceQueue *queues;
  DeviceBuffer *kept;
  int64_t kept_bytes;
};

// Pinned memory of the host, for asynchronous copies.
enum { STAGES = 4, STAGE_BYTES = 1 << 20 };
typedef struct Stage {
  char *at;         // NULL before it is needed
  CudaEvent event;  // after its last copy
  bool busy;
} Stage;

// What was put into a queue, one call after the other (launch.c).
typedef struct CudaSequence {
  char *data;
  int64_t bytes, room, count;
  int64_t used;         // when it last was
  CudaGraphExec graph;  // NULL: not recorded
  CudaGraph source;     // what it was made of, and the node of each call there, so that it can be
                        // given other addresses
  CudaNode *node;       // NULL: the library does not say
} CudaSequence;
enum { CUDA_SEQUENCES = 32 };

struct DeviceQueue {
  Device *device;
  DeviceQueue *next;
  CudaStream stream;     // its own
  pthread_mutex_t lock;  // guards all that follows: who frees memory makes others' queues run first
  CudaStream at;         // where things go: its own, or during a call the caller's
  bool busy;             // something was put there since it was waited for
  CudaEvent left;        // after what was put into the last caller's stream
  bool behind;           // which its own stream does not wait for yet
  Stage stage[STAGES];
  int turn;
  CudaEvent mark[DEVICE_MARKS];
  CudaSequence pending, seen[CUDA_SEQUENCES];
  int64_t clock;
  bool recording, no_graphs;
  bool one_by_one;   // each launch is waited for, so that an error names its kernel
  bool failed;       // what was pending could not be issued: nothing that follows is right
  const char *last;  // kernel that was launched, for messages
};

struct DeviceGraph {
  CudaGraphExec exec;
};

typedef struct CudaKernel {
  CudaModule module;
  CudaFunction function;
  CudaRecord record;
} CudaKernel;
struct DeviceCode {
  int32_t n;
  CudaKernel *kernel;
};

// Makes the device's context the thread's until cuda_leave.
MUST_USE tenon_status cuda_enter(Device *dev, Diag *d);
tenon_status cuda_leave(Device *dev, tenon_status s, Diag *d);  // gives s, or an error of its own
// TENON_OK for 0; else the message names the call, and the kernel where there is one.
tenon_status cuda_check(Device *dev, CudaResult r, const char *call, const char *kernel, Diag *d);
#define CUDA_TRY(dev, d, what, ...) TRY(cuda_check((dev), (dev)->api->__VA_ARGS__, what, NULL, (d)))

// ---- devices and memory (device.c) ----
int cuda_count(const char **why);
tenon_status cuda_find(const char *pick, Diag *d, int *out);
tenon_status cuda_open(int index, Diag *d, Device **out);
void cuda_close(Device *dev);
const DeviceInfo *cuda_info(const Device *dev);
tenon_status cuda_buffer(Device *dev, int64_t bytes, Diag *d, DeviceBuffer **out);
void cuda_buffer_free(Device *dev, DeviceBuffer *b);
tenon_status cuda_lend(Device *dev, void *at, int64_t bytes, Diag *d, DeviceBuffer **io);
tenon_status cuda_seen(Device *dev, int64_t bytes, Diag *d, DeviceBuffer **out, void **host);
void *cuda_address(const DeviceBuffer *b);

// ---- code (code.c) ----
tenon_status cuda_code(Device *dev, Str bytes, const ProgKernel *const *kernel, int32_t nkernels,
                       bool no_cache, Diag *d, DeviceCode **out);
void cuda_code_free(Device *dev, DeviceCode *c);

// ---- queues (queue.c, launch.c) ----
// Issues what is pending.  The queue is locked, and the context the thread's.
tenon_status cuda_flush(DeviceQueue *q, Diag *d);
void cuda_forget(DeviceQueue *q);  // sequences and their graphs
// All that was put into it, into whichever stream, is over.  Locked, and the context the thread's.
CudaResult cuda_settle(DeviceQueue *q);
// Before something is put into the queue's own stream: it comes after what went into a caller's.
tenon_status cuda_come_back(DeviceQueue *q, Diag *d);
bool cuda_captured(const DeviceQueue *q, CudaStream s);  // a stream of the caller's is captured
tenon_status cuda_use(DeviceQueue *q, void *stream, Diag *d);
void *cuda_stream(const DeviceQueue *q);
tenon_status cuda_check_place(const DeviceQueue *q, DevicePlace p, int64_t bytes, Diag *d);
tenon_status cuda_queue(Device *dev, Diag *d, DeviceQueue **out);
void cuda_queue_free(DeviceQueue *q);
tenon_status cuda_write(DeviceQueue *q, DevicePlace to, const void *from, int64_t bytes, Diag *d);
tenon_status cuda_read(DeviceQueue *q, void *to, DevicePlace from, int64_t bytes, Diag *d);
tenon_status cuda_copy(DeviceQueue *q, DevicePlace to, DevicePlace from, int64_t bytes, Diag *d);
tenon_status cuda_fill(DeviceQueue *q, DevicePlace to, int64_t bytes, Diag *d);
tenon_status cuda_finish(DeviceQueue *q, Diag *d);
tenon_status cuda_mark(DeviceQueue *q, int32_t slot, Diag *d);
tenon_status cuda_between(DeviceQueue *q, int32_t from, int32_t to, double *ns, Diag *d);
tenon_status cuda_launch(DeviceQueue *q, DeviceCode *c, const DeviceLaunch *l, Diag *d);
tenon_status cuda_record(DeviceQueue *q, Diag *d);
tenon_status cuda_recorded(DeviceQueue *q, Diag *d, DeviceGraph **out);
tenon_status cuda_replay(DeviceQueue *q, DeviceGraph *g, Diag *d);
void cuda_graph_free(Device *dev, DeviceGraph *g);

#endif
