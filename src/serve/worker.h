// worker.h -- a process that holds a model, and frames between it and the front.
//
// A worker is tenon-serve itself, started with --engine=KIND.  It reads frames from its standard
// input and writes frames to its standard output; it ends when its input does.  A frame is a head
// of 16 bytes (little-endian: bytes of the payload, type, 0, id) and the payload.  The front waits
// for a worker with its event loop and never blocks on it; a worker that dies, says nonsense or
// stays behind is killed, and `ended` is called.
#ifndef TENON_SERVE_WORKER_H
#define TENON_SERVE_WORKER_H

#include "base/base.h"
#include "base/process.h"
#include "serve/event_loop.h"
#include "serve/limits.h"

// This very program, also when its file was replaced by another version since.
#define WORKER_PROGRAM "/proc/self/exe"

enum { FRAME_HEAD = 16 };
typedef struct Frame {
  uint32_t bytes;
  uint16_t type;
  uint64_t id;
} Frame;
void frame_write(uint8_t out[FRAME_HEAD], const Frame *f);
Frame frame_read(const uint8_t in[FRAME_HEAD]);

// ---- the front's side ----
typedef struct Worker Worker;
typedef struct WorkerCalls {
  // The payload holds during the call.  It may stop the worker.
  void (*frame)(void *arg, const Frame *f, Str payload);
  // The worker is gone, by itself or because it was killed; `w` is no more.  Not called after
  // worker_stop.
  void (*ended)(void *arg, const char *why);
} WorkerCalls;
// 0 or an errno value.  argv[0] is the program.
int worker_start(EventLoop *l, const char *const *argv, const WorkerCalls *calls, void *arg,
                 Worker **out);
// False: there is no memory for it, or more than SERVE_FRAMES_BYTES wait; nothing was sent.
bool worker_send(Worker *w, int type, uint64_t id, Str payload);
// The same in two steps: room for the payload, which the caller fills before the next call for this
// worker (NULL: as worker_send's false); worker_flush sends what was reserved.
char *worker_reserve(Worker *w, int type, uint64_t id, int64_t bytes);
void worker_flush(Worker *w);
void worker_stop(Worker *w);  // kills it and waits for it; NULL is fine
int64_t worker_pid(const Worker *w);

// ---- the worker's side ----
typedef struct FrameIn {
  char *p;
  int64_t at, n, cap;
} FrameIn;
// The next frame of standard input: 1; 0: none within `timeout_ms` (-1: waits); below 0: the input
// ended, or what came is no frame.  The payload holds until the next call.
int frame_next(FrameIn *in, int timeout_ms, Frame *out, Str *payload);
// Frames to standard output, collected until they are flushed.
typedef struct FrameOut {
  char *p;
  int64_t n, cap;
} FrameOut;
// Room for the payload of a frame behind those collected; NULL: there is no memory for it.
char *frame_reserve(FrameOut *out, int type, uint64_t id, int64_t bytes);
bool frame_put(FrameOut *out, int type, uint64_t id, Str payload);
static inline int64_t frame_waiting(const FrameOut *out) { return out->n; }
// Waits for the front to take them.  False: the front is gone.
bool frame_flush(FrameOut *out);

#endif
